/* The template language: copied text, Lua lines, substitutions, #line, errors with the template's own lines, same
 * bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/process.h"
#include "tests/comma_locale.h"

#include "support.h"

#include <locale.h>
#include <stdlib.h>

static const char family_text[] =
    "return { name = 'probe', doc = 'd',\n"
    "fields = {{ name = 'n', kind = 'integer', role = 'size', required = true, min = 0, max = 9 }},\n"
    "templates = {{ name = 'only', file = 'probe.hip',\n"
    "parameters = {{ name = 'k', doc = 'd', values = { 3, 5 } }},\n"
    "default = function(p, t) return { k = 3 } end,\n"
    "launch = function(c, p, t, d) return { kernel = 'f', threads = 32, static_shared_bytes = 0,\n"
    "  dynamic_shared_bytes = 0, arguments = {}, grid = { {}, {}, {} } } end } } }\n";

static attune_status expand_text(const char *template_text, struct expansion *expansion, struct error *error)
{
    char folder[4096];
    struct problem problem;
    struct target target;
    struct candidate candidate;
    assert_int_equal(folder_temporary(folder, sizeof folder, error), ATTUNE_OK);
    put_file(folder, "probe.lua", family_text);
    put_file(folder, "probe.hip", template_text);
    struct generator_options options = {.template_path = folder, .instruction_limit = 10000000};
    struct generator *generator = NULL;
    memset(error, 0, sizeof *error);
    assert_int_equal(generator_create(&options, &generator, error), ATTUNE_OK);
    toy_setup(generator, "probe n=1", "host", &problem, &target);
    assert_int_equal(candidate_default(generator, &problem, &target, &candidate, error), ATTUNE_OK);
    attune_status status = candidate_expand(generator, &candidate, &problem, &target, expansion, error);
    generator_destroy(generator);
    folder_remove(folder);
    return status;
}

/* the template's own output, after the head comment, as shown and as compiled */
static void assert_expands(const char *template_text, const char *shown, const char *compiled)
{
    struct expansion expansion = {.shown = BUFFER_INIT, .compile = BUFFER_INIT};
    struct error error;
    if (expand_text(template_text, &expansion, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    const char *text = buffer_string(&expansion.shown);
    while (strncmp(text, "//", 2) == 0) {
        text = strchr(text, '\n') + 1;
    }
    assert_int_equal(text[0], '\n');
    assert_string_equal(text + 1, shown);
    text = buffer_string(&expansion.compile);
    assert_true(expansion.compile.length > strlen(compiled));
    assert_string_equal(text + expansion.compile.length - strlen(compiled), compiled);
    expansion_free(&expansion);
}

static void assert_refused(const char *template_text, attune_status expected, const char *part)
{
    struct expansion expansion = {.shown = BUFFER_INIT, .compile = BUFFER_INIT};
    struct error error;
    attune_status status = expand_text(template_text, &expansion, &error);
    if (status != expected) {
        fail_msg("%s: status %d, not %d: %s", template_text, (int)status, (int)expected, error.message);
    }
    assert_contains(error.message, part);
    assert_int_equal(expansion.shown.length, 0);
    expansion_free(&expansion);
}

static void text_is_copied_and_substituted(void **state)
{
    (void)state;
    assert_expands("a\n\n  b $ {x} %\n", "a\n\n  b $ {x} %\n", "#line 1 \"templates/probe.hip\"\na\n\n  b $ {x} %\n");
    assert_expands("${c.k}|${0.1}|${2.0}|${1e30}|${1/3}|${true}|${'s'}|${-7}|${p.n}",
                   "3|0.1|2.0|1e+30|0.3333333333333333|true|s|-7|1\n", "|1\n");
    assert_expands("${({ ['}'] = '{' })['}']} ${\"}\\\"\"}\n", "{ }\"\n", "\n");
}

static void lua_lines_leave_no_line_and_line_directives_follow(void **state)
{
    (void)state;
    assert_expands("% for i = 1, 2 do\nx${i}\ny\n% end\nz\n", "x1\ny\nx2\ny\nz\n",
                   "#line 2 \"templates/probe.hip\"\nx1\ny\n#line 2 \"templates/probe.hip\"\nx2\ny\n#line 5 "
                   "\"templates/probe.hip\"\nz\n");
    assert_expands("a\n% (\"x\"):rep(2)\nb\n", "a\nb\n", "\nb\n"); /* no call of what stands before */
    assert_expands("a\n% local unused = 1\n%\nb\nc\n", "a\nb\nc\n",
                   "#line 1 \"templates/probe.hip\"\na\n#line 4 \"templates/probe.hip\"\nb\nc\n");
}

static void a_value_of_several_lines_keeps_later_lines_right(void **state)
{
    (void)state;
    assert_expands("${'a\\nb'} c\nd\n", "a\nb c\nd\n",
                   "#line 1 \"templates/probe.hip\"\na\nb c\n#line 2 \"templates/probe.hip\"\nd\n");
    assert_expands("${'a\\nb'}\n% local x\nd ${1}\n", "a\nb\nd 1\n",
                   "#line 1 \"templates/probe.hip\"\na\nb\n#line 3 \"templates/probe.hip\"\nd 1\n");
    assert_expands("${'a\\nb'}\n${'c'}\n", "a\nb\nc\n",
                   "#line 1 \"templates/probe.hip\"\na\nb\n#line 2 \"templates/probe.hip\"\nc\n");
}

static void functions_may_emit_text(void **state)
{
    (void)state;
    assert_expands("% local function pair(n)\nfirst ${n}\nsecond\n% end\n% pair(1)\n% pair(2)\nend\n",
                   "first 1\nsecond\nfirst 2\nsecond\nend\n", "#line 7 \"templates/probe.hip\"\nend\n");
}

static void many_values_on_one_line(void **state)
{
    (void)state;
    char text[2048] = "", expected[2048] = "";
    for (int i = 0; i < 150; i++) {
        strcat(text, "${c.k},");
        strcat(expected, "3,");
    }
    strcat(text, "end\nx\n");
    strcat(expected, "end\nx\n");
    char compiled[2200];
    snprintf(compiled, sizeof compiled, "#line 1 \"templates/probe.hip\"\n%s", expected);
    assert_expands(text, expected, compiled);
}

static void errors_name_the_templates_line(void **state)
{
    (void)state;
    assert_refused("a\nb ${c.k\n", ATTUNE_INVALID, "templates/probe.hip:2: '${' without its '}'");
    assert_refused("a\n${}\n", ATTUNE_INVALID, "templates/probe.hip:2: '${}' holds no expression");
    assert_refused("a\nb\n% if then\n", ATTUNE_INVALID, "templates/probe.hip:3: ");
    assert_refused("a\nb\n% if true then\nc\n", ATTUNE_INVALID, "templates/probe.hip:");
    assert_refused("a\nb ${1}\nc ${a b}\n", ATTUNE_INVALID, "templates/probe.hip:3: ");
    assert_refused("a\nb ${1}\nc\nd ${c.block}\n", ATTUNE_INVALID,
                   "templates/probe.hip:4: template 'only' has no parameter 'block'");
    assert_refused("a\n${p.seqlen}\n", ATTUNE_INVALID, "templates/probe.hip:2: the problem has no field 'seqlen'");
    assert_refused("a\n${d.absent}\n", ATTUNE_INVALID, "templates/probe.hip:2: ${d.absent} is nil;");
    assert_refused("${1} a ${2}${d} b\n", ATTUNE_INVALID, "templates/probe.hip:1: ${d} is table;");
    assert_refused("a\n\n${1/0}\n", ATTUNE_INVALID, "templates/probe.hip:3: ${1/0} is not finite;");
    assert_refused("a\n%\n% error('told ' .. c.k)\n", ATTUNE_INVALID, "templates/probe.hip:3: told 3");
    assert_refused("a\n% p.n = 2\n", ATTUNE_INVALID, "templates/probe.hip:2: this table is read-only");
    assert_refused("a\n% c.k = 2\n", ATTUNE_INVALID, "templates/probe.hip:2: a candidate is read-only");
    assert_refused("a\n% t.wave = 2\n", ATTUNE_INVALID, "templates/probe.hip:2: this table is read-only");
    assert_refused("a\n% import('absent')\n", ATTUNE_INVALID,
                   "templates/probe.hip:2: import: templates/absent.lua is not there");
    assert_refused("a\n% import('../secret')\n", ATTUNE_INVALID, "templates/probe.hip:2: import: file name");
}

static void endless_templates_end(void **state)
{
    (void)state;
    assert_refused("a\n% while true do\n% end\n", ATTUNE_TIMEOUT, "templates/probe.hip:");
    assert_refused("% while true do\n${('x'):rep(100000)}\n% end\n", ATTUNE_INVALID,
                   "templates/probe.hip:2: the expansion has more than");
}

/* every candidate of the toy on several targets, one text after the other */
static void expand_everything(struct buffer *all)
{
    static const char *const targets[] = {"host", "gfx906", "gfx1100", "sm_90a", "host-gfx90a"};
    struct generator *generator = open_generator(TOY_FOLDER);
    struct expansion expansion = {.shown = BUFFER_INIT, .compile = BUFFER_INIT};
    struct error error = {.message = ""};
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        struct problem problem;
        struct target target;
        struct candidate_list list;
        toy_setup(generator, TOY_PROBLEM " factor=0.5", targets[i], &problem, &target);
        assert_int_equal(candidate_enumerate(generator, &problem, &target, &list, &error), ATTUNE_OK);
        for (int j = 0; j < list.count; j++) {
            if (candidate_expand(generator, &list.items[j], &problem, &target, &expansion, &error) != ATTUNE_OK) {
                fail_msg("%s", error.message);
            }
            buffer_append(all, expansion.shown.data, expansion.shown.length);
            buffer_append(all, expansion.compile.data, expansion.compile.length);
        }
        candidate_list_free(&list);
    }
    expansion_free(&expansion);
    generator_destroy(generator);
}

static void same_input_same_bytes(void **state)
{
    (void)state;
    struct buffer first = BUFFER_INIT, second = BUFFER_INIT;
    expand_everything(&first);
    expand_everything(&second);
    assert_true(first.length > 10000);
    assert_int_equal(first.length, second.length);
    assert_memory_equal(first.data, second.data, first.length);
    buffer_free(&first);
    buffer_free(&second);
}

static void a_comma_locale_changes_nothing(void **state)
{
    (void)state;
    struct buffer plain = BUFFER_INIT, other = BUFFER_INIT;
    char probe[16];
    expand_everything(&plain);
    if (!comma_locale_enter()) {
        buffer_free(&plain);
        skip();
    }
    snprintf(probe, sizeof probe, "%.1f", 0.5);
    assert_string_equal(probe, "0,5");
    expand_everything(&other);
    setlocale(LC_ALL, "C");
    assert_int_equal(plain.length, other.length);
    assert_memory_equal(plain.data, other.data, plain.length);
    buffer_free(&plain);
    buffer_free(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_copied_and_substituted),
        cmocka_unit_test(lua_lines_leave_no_line_and_line_directives_follow),
        cmocka_unit_test(a_value_of_several_lines_keeps_later_lines_right),
        cmocka_unit_test(functions_may_emit_text),
        cmocka_unit_test(many_values_on_one_line),
        cmocka_unit_test(errors_name_the_templates_line),
        cmocka_unit_test(endless_templates_end),
        cmocka_unit_test(same_input_same_bytes),
        cmocka_unit_test(a_comma_locale_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
