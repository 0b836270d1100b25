/* Pages from the template language: what stands in the data is text in the page, whatever it holds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "support.h"

static char folder[4096];

/* what `page` makes of the JSON text `data`, into `text` */
static attune_status render(const char *page, const char *data, struct buffer *text, struct error *error)
{
    put_file(folder, "page.html", page);
    struct generator *generator = open_generator(folder);
    json_t *json = json_loads(data, JSON_DECODE_ANY, NULL);
    assert_non_null(json);
    *error = (struct error){.message = ""};
    attune_status status = generator_render(generator, "page.html", json, text, error);
    json_decref(json);
    generator_destroy(generator);
    return status;
}

static void gives(const char *page, const char *data, const char *expected)
{
    struct buffer text = BUFFER_INIT;
    struct error error;
    if (render(page, data, &text, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    assert_string_equal(buffer_string(&text), expected);
    buffer_free(&text);
}

static void data_arrives_as_tables_in_their_order(void **state)
{
    (void)state;
    gives("% for _, row in ipairs(d.rows) do\n"
          "<td>${row.name} ${row.count} ${row.ratio}${row.gone == nil and \" gone\" or \"\"}\n"
          "% end\n",
          "{\"rows\":[{\"name\":\"b\",\"count\":3,\"ratio\":0.5},{\"name\":\"a\",\"count\":-1,\"ratio\":1.0,\"gone\":"
          "null}]}",
          "<td>b 3 0.5 gone\n<td>a -1 1.0 gone\n");
    gives("${c == nil and p == nil and t == nil}\n", "{}", "true\n");
}

static void what_is_substituted_is_text(void **state)
{
    (void)state;
    gives("<p title=\"${d}\">${d}</p>\n", "\"</p><script>alert('1')</script> & \\\"\"",
          "<p title=\"&lt;/p&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt; &amp; &quot;\">"
          "&lt;/p&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt; &amp; &quot;</p>\n");
    gives("${\"a<b\"}${\"&lt;\"}\n", "{}", "a&lt;b&amp;lt;\n");
}

static void what_is_no_character_is_replaced(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *as;
    } cases[] = {
        {"\\0", "\xef\xbf\xbd"},
        {"\\27", "\xef\xbf\xbd"},
        {"\\127", "\xef\xbf\xbd"},
        {"\\xc2\\x85", "\xef\xbf\xbd"},
        {"\\xd8\\x9c", "\xef\xbf\xbd"},
        {"\\xe2\\x80\\x8e", "\xef\xbf\xbd"}, /* controls of writing direction */
        {"\\xe2\\x80\\xae", "\xef\xbf\xbd"},
        {"\\xe2\\x81\\xa6", "\xef\xbf\xbd"},
        {"\\xe2\\x80\\x93", "\xe2\x80\x93"},
        {"\\n\\t", "\n\t"},
        {"\\xc3\\xa9", "\xc3\xa9"},
        {"\\xc3", "\xef\xbf\xbd"},
        {"\\xc0\\xbc", "\xef\xbf\xbd\xef\xbf\xbd"},                  /* '<' in too long a form */
        {"\\xed\\xa0\\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* a surrogate */
        {"\\xef\\xbf\\xbe", "\xef\xbf\xbd"},
        {"\\xf0\\x9f\\x98\\x80", "\xf0\x9f\x98\x80"},
        {"\\xf4\\x90\\x80\\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\\xe2\\x82<", "\xef\xbf\xbd\xef\xbf\xbd&lt;"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char page[128], expected[64];
        snprintf(page, sizeof page, "[${\"%s\"}]\n", cases[i].bytes);
        snprintf(expected, sizeof expected, "[%s]\n", cases[i].as);
        gives(page, "{}", expected);
    }
}

static void a_failing_page_leaves_the_text_alone_and_names_its_line(void **state)
{
    (void)state;
    struct buffer text = BUFFER_INIT;
    struct error error;
    buffer_text(&text, "before");
    assert_int_equal(render("one\n${d.nothing}\n", "{}", &text, &error), ATTUNE_INVALID);
    assert_contains(error.message, "templates/page.html:2: ${d.nothing} is nil");
    assert_int_equal(render("% while true do end\n", "{}", &text, &error), ATTUNE_TIMEOUT);
    assert_int_equal(render("x\n", "[[[[[[[[[[[[[[1]]]]]]]]]]]]]]", &text, &error), ATTUNE_INVALID);
    assert_contains(error.message, "nested deeper than 12");
    assert_string_equal(buffer_string(&text), "before");
    assert_int_equal(render("${d}", "\"after\"", &text, &error), ATTUNE_OK);
    assert_string_equal(buffer_string(&text), "beforeafter\n");
    buffer_free(&text);
}

static void one_generator_renders_many_pages(void **state)
{
    (void)state;
    struct buffer text = BUFFER_INIT;
    struct error error = {.message = ""};
    put_file(folder, "tools.lua", "return {twice = function(x) return x .. x end}\n");
    put_file(folder, "page.html", "${import(\"tools\").twice(d)}\n");
    struct generator *generator = open_generator(folder);
    json_t *json = json_string("<");
    for (int i = 0; i < 20; i++) {
        buffer_clear(&text);
        assert_int_equal(generator_render(generator, "page.html", json, &text, &error), ATTUNE_OK);
        assert_string_equal(buffer_string(&text), "&lt;&lt;\n");
    }
    assert_int_equal(generator_render(generator, "absent.html", json, &text, &error), ATTUNE_NOT_FOUND);
    assert_contains(error.message, "templates/absent.html");
    json_decref(json);
    generator_destroy(generator);
    buffer_free(&text);
}

static int setup(void **state)
{
    struct error error;
    (void)state;
    return folder_temporary(folder, sizeof folder, &error) == ATTUNE_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    folder_remove(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_arrives_as_tables_in_their_order),
        cmocka_unit_test(what_is_substituted_is_text),
        cmocka_unit_test(what_is_no_character_is_replaced),
        cmocka_unit_test(a_failing_page_leaves_the_text_alone_and_names_its_line),
        cmocka_unit_test(one_generator_renders_many_pages),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
