/* problem_short.c - a problem in the fewest words that mean the same, for tables: fields that follow another are left
 * out, as --problem lets them be (templates/report/tools.lua does the same on the report's page). */
#include "cli/cli.h"

#include <string.h>

/* where all of these have one value, the first is written, by this name */
static const struct rule {
    const char *name, *fields[5];
} rules[] = {
    {"dtype", {"q_dtype", "k_dtype", "v_dtype", "o_dtype", NULL}},
    {"head_dim", {"head_dim_qk", "head_dim_v", NULL}},
    {"heads", {"heads", "kv_heads", NULL}},
    {"seqlen_q", {"seqlen_q", "seqlen_k", NULL}},
};

struct word {
    const char *at;
    size_t length, name; /* bytes of all, and before the '=' */
};

static bool next_word(const char **text, struct word *word)
{
    *text += strspn(*text, " ");
    word->at = *text;
    word->length = strcspn(*text, " ");
    const char *equals = memchr(word->at, '=', word->length);
    word->name = equals != NULL ? (size_t)(equals - word->at) : 0;
    *text += word->length;
    return word->length > 0;
}

static bool is_named(const struct word *word, const char *name)
{
    return word->name > 0 && strlen(name) == word->name && memcmp(word->at, name, word->name) == 0;
}

/* the word of that field; false when there is none */
static bool find_word(const char *text, const char *name, struct word *word)
{
    while (next_word(&text, word)) {
        if (is_named(word, name)) {
            return true;
        }
    }
    return false;
}

static bool holds(const struct rule *rule, const char *text)
{
    struct word first, other;
    if (!find_word(text, rule->fields[0], &first)) {
        return false;
    }
    for (int i = 1; rule->fields[i] != NULL; i++) {
        if (!find_word(text, rule->fields[i], &other) || other.length - other.name != first.length - first.name ||
            memcmp(other.at + other.name, first.at + first.name, first.length - first.name) != 0) {
            return false;
        }
    }
    return true;
}

/* the rule that renames a word or leaves it out; NULL: it stays as it is */
static const struct rule *rule_of(const struct word *word, const char *text, bool *leads)
{
    for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
        for (int i = 0; rules[r].fields[i] != NULL; i++) {
            if (is_named(word, rules[r].fields[i]) && holds(&rules[r], text)) {
                *leads = i == 0;
                return &rules[r];
            }
        }
    }
    return NULL;
}

void problem_short(const char *text, struct buffer *into)
{
    static const char usual[] = "attention.forward";
    const char *at = text;
    struct word word;
    while (next_word(&at, &word)) {
        bool leads = false;
        const struct rule *rule = rule_of(&word, text, &leads);
        if (word.at == text && word.length == strlen(usual) && memcmp(word.at, usual, word.length) == 0) {
            continue; /* what a text without a family is of */
        }
        const char *blank = into->length > 0 ? " " : "";
        if (rule == NULL) {
            buffer_format(into, "%s%.*s", blank, (int)word.length, word.at);
        } else if (leads) {
            buffer_format(into, "%s%s%.*s", blank, rule->name, (int)(word.length - word.name), word.at + word.name);
        }
    }
}
