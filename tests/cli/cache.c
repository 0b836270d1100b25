/* What `attune cache` and `attune explain` tell in words of a store: the file that is bad, why there is no folder, what
 * a miss would do. */
#include "program.h"

#include "base/digest.h"
#include "base/files.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROBLEM "test.scale elements=1000 factor=3"

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    assert_non_null(text);
    return text;
}

/* one object and one record in the folder's cache; false without a compiler */
static bool fill(void)
{
    int code = attune("compile", "--defaults", "--problem", PROBLEM, "--target", "host", NULL)->exit_code;
    if (code == EXIT_IS_MISSING) {
        print_message("skipped: no C++ compiler for the host device\n");
        return false;
    }
    exits_with(EXIT_IS_DONE);
    return true;
}

static void verify_names_what_is_bad(void **state)
{
    (void)state;
    if (!fill()) {
        skip();
    }
    char path[512], file[2048];
    attune("cache", "ls", "--all", "--json", NULL);
    exits_with(EXIT_IS_DONE);
    size_t index;
    json_t *row;
    path[0] = '\0';
    json_array_foreach(json_object_get(answer(), "entries"), index, row)
    {
        if (strcmp(text_of(row, "kind"), "object") == 0) {
            snprintf(path, sizeof path, "%s", text_of(row, "path"));
        }
    }
    assert_true(path[0] != '\0');
    snprintf(file, sizeof file, "%s/%s", text_of(answer(), "store"), path);
    attune("cache", "verify", NULL);
    exits_with(EXIT_IS_DONE);
    says("1 object, 1 record and 0 notes of blocked objects, 0 bad, 0 records whose object is missing");
    assert_int_equal(truncate(file, 100), 0);
    attune("cache", "verify", NULL);
    exits_with(EXIT_IS_FAILED);
    says(path);
    says("100 bytes");
    complains("1 bad entry");
    complains(path);
    attune("cache", "verify", "--json", NULL);
    const json_t *bad = json_object_get(answer(), "bad_entries");
    assert_int_equal(json_array_size(bad), 1);
    assert_string_equal(text_of(json_array_get(bad, 0), "path"), path);
    attune("cache", "verify", "--repair", NULL);
    exits_with(EXIT_IS_DONE);
    says(path);
    says("1 bad (set aside), 1 record whose object is missing");
    /* what blocks nothing, and a name with a terminal's commands in it */
    char folder[1024];
    attune("cache", "ls", "--json", NULL);
    snprintf(folder, sizeof folder, "%s/blocked", text_of(answer(), "store"));
    assert_int_equal(mkdir(folder, 0700), 0);
    snprintf(file, sizeof file, "%s/a\x1b[2J.json", folder);
    assert_int_equal(file_write(file, "{}", 2, NULL), ATTUNE_OK);
    attune("cache", "verify", NULL);
    exits_with(EXIT_IS_FAILED);
    says("blocked/a?[2J.json: its name is not that of a note of a blocked object");
    says("1 note of blocked objects, 1 bad,");
    attune("cache", "verify", "--repair", NULL);
    exits_with(EXIT_IS_DONE);
    attune("cache", "prune", "--rejected", NULL);
    exits_with(EXIT_IS_DONE);
    says("removed 2 entries, ");
}

/* one specialisation, a default for decoding and one for more queries: their rows differ in nothing but the candidate
 */
static void ls_tells_the_defaults_of_a_specialisation_apart(void **state)
{
    (void)state;
    static const char *const problems[] = {"heads=1 seqlen_q=1 seqlen_k=64 head_dim=16",
                                           "heads=1 seqlen_q=64 seqlen_k=64 head_dim=16"};
    for (int i = 0; i < 2; i++) {
        const struct process_result *result = attune("compile", "--defaults", "--problem", problems[i], "--target",
                                                     "host", "--store", scratch("defaults"), NULL);
        if (result->exit_code == EXIT_IS_MISSING) {
            skip();
        }
        exits_with(EXIT_IS_DONE);
    }
    char cells[2][64];
    attune("cache", "ls", "--store", scratch("defaults"), "--json", NULL);
    const json_t *entries = json_object_get(answer(), "entries");
    assert_int_equal(json_array_size(entries), 2);
    for (size_t i = 0; i < 2; i++) {
        char id[DIGEST_SHORT_BYTES];
        digest_short(text_of(json_array_get(entries, i), "candidate"), id);
        snprintf(cells[i], sizeof cells[i], "portable %s", id);
    }
    assert_string_equal(text_of(json_array_get(entries, 0), "problem"), text_of(json_array_get(entries, 1), "problem"));
    assert_string_not_equal(cells[0], cells[1]);
    attune("cache", "ls", "--store", scratch("defaults"), NULL);
    says(cells[0]);
    says(cells[1]);
}

/* ATTUNE_CACHE is set: the message says what is wrong with it */
static void a_store_in_memory_tells_why(void **state)
{
    (void)state;
    attune_in_shell("mkdir -p \"$ATTUNE_CACHE-open\" && chmod 0777 \"$ATTUNE_CACHE-open\" && "
                    "ATTUNE_QUIET=1 ATTUNE_CACHE=\"$ATTUNE_CACHE-open\" \"$0\" cache ls");
    exits_with(EXIT_IS_FAILED);
    complains("no cache folder to read (");
    complains("-open can be written by others (mode 0777)");
    attune_in_shell("ATTUNE_QUIET=1 ATTUNE_CACHE=here \"$0\" cache ls");
    exits_with(EXIT_IS_FAILED);
    complains("ATTUNE_CACHE=\"here\" is not an absolute path");
}

static void explain_promises_no_default_that_is_not_there(void **state)
{
    (void)state;
    attune("explain", "--problem", "attention.forward heads=1 seqlen_q=8 head_dim=16 mask=1", "--device", "host",
           "--json", NULL);
    exits_with(EXIT_IS_DONE);
    assert_non_null(strstr(text_of(answer(), "default_refused"), "mask"));
    assert_null(json_object_get(answer(), "default"));
    assert_null(strstr(text_of(answer(), "why"), "would compile"));
    attune("explain", "--problem", "attention.forward heads=1 seqlen_q=8 head_dim=16", "--device", "host", "--json",
           NULL);
    exits_with(EXIT_IS_DONE);
    assert_non_null(strstr(text_of(answer(), "why"), "would compile the default"));
}

static void explain_shows_no_time_where_nothing_was_timed(void **state)
{
    (void)state;
    if (!fill()) {
        skip();
    }
    const struct process_result *result = attune("explain", "--problem", PROBLEM, "--device", "host", NULL);
    exits_with(EXIT_IS_DONE);
    says("records considered");
    assert_null(strstr(buffer_string(&result->output), "0.0 "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verify_names_what_is_bad),
        cmocka_unit_test(ls_tells_the_defaults_of_a_specialisation_apart),
        cmocka_unit_test(a_store_in_memory_tells_why),
        cmocka_unit_test(explain_promises_no_default_that_is_not_there),
        cmocka_unit_test(explain_shows_no_time_where_nothing_was_timed),
    };
    return cmocka_run_group_tests(tests, program_setup, program_teardown);
}
