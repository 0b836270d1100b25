/* test_target.c - target IDs: canonical order, refusals, and which code runs where. */
#include "base/target.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct target parse(const char *text)
{
    struct target target;
    struct error error = {0};
    if (target_parse(text, &target, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    return target;
}

static void names_are_put_in_canonical_order(void **state)
{
    (void)state;
    static const char *const table[][2] = {
        {"gfx906", "gfx906"},
        {"gfx906:sramecc+:xnack-", "gfx906:sramecc+:xnack-"},
        {"gfx906:xnack-:sramecc+", "gfx906:sramecc+:xnack-"},
        {"gfx906:xnack-", "gfx906:xnack-"},
        {"gfx90a:sramecc-:xnack+", "gfx90a:sramecc-:xnack+"},
        {"gfx1201", "gfx1201"},
        {"sm_80", "sm_80"},
        {"sm_90a", "sm_90a"},
        {"sm_100f", "sm_100f"},
        {"host", "host"},
        {"host-gfx906", "host-gfx906"},
        {"host-sm_90a", "host-sm_90a"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct target target = parse(table[i][0]);
        char text[TARGET_TEXT_BYTES];
        target_format(&target, text);
        assert_string_equal(text, table[i][1]);
    }
    assert_int_equal(parse("gfx1100").vendor, TARGET_AMD);
    assert_int_equal(parse("sm_75").vendor, TARGET_NVIDIA);
    assert_int_equal(parse("host-gfx1100").vendor, TARGET_HOST);
}

static void malformed_names_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "gfx",
        "gfx9",
        "gfx90g",
        "gfx9061234",
        "GFX906",
        "gfx906 ",
        "native",
        "gfx906:",
        "gfx906:foo+",
        "gfx906:xnack",
        "gfx906:xnack*",
        "gfx906::",
        "sm_",
        "sm_9",
        "sm_90b",
        "sm_090",
        "sm_9000",
        "sm_90aa",
        "sm_80:xnack+",
        "host:xnack+",
        "host-",
        "host-host",
        "hostgfx906",
        "compute_90",
        "host-gfx906:xnack-",
        "gfx906:xnack-:xnack-",
        "gfx906:xnack-:xnack+",
        "gfx906:sramecc+:xnack-:sramecc+",
        "gfx906:sramecc+xnack-",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct target target = {.processor = "untouched"};
        struct error error = {0};
        if (target_parse(bad[i], &target, &error) != ATTUNE_INVALID) {
            fail_msg("\"%s\" was accepted", bad[i]);
        }
        assert_non_null(strstr(error.message, bad[i]));
        assert_string_equal(target.processor, "untouched");
    }
    char longer[5000];
    memset(longer, '9', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    struct target target;
    assert_int_equal(target_parse(longer, &target, NULL), ATTUNE_INVALID);
}

static void code_runs_only_where_it_can(void **state)
{
    (void)state;
    static const struct {
        const char *device, *code;
        const char *differs; /* NULL: runs */
    } table[] = {
        {"gfx906:sramecc+:xnack-", "gfx906", NULL},
        {"gfx906:sramecc+:xnack-", "gfx906:xnack-", NULL},
        {"gfx906:sramecc+:xnack-", "gfx906:sramecc+:xnack-", NULL},
        {"gfx906:sramecc+:xnack-", "gfx906:sramecc-", "sramecc"},
        {"gfx906:sramecc+:xnack-", "gfx906:xnack+", "xnack"},
        {"gfx906", "gfx906:xnack-", "xnack"},
        {"gfx906:sramecc+:xnack-", "gfx908", "processor"},
        {"gfx1030", "gfx1031", "processor"},
        {"sm_90a", "sm_90a", NULL},
        {"sm_90a", "sm_90", NULL},
        {"sm_90a", "sm_80", "major"},
        {"sm_86", "sm_80", NULL},
        {"sm_80", "sm_86", "minor"},
        {"sm_103a", "sm_100a", "suffix"},
        {"sm_103a", "sm_100", NULL},
        {"sm_103a", "sm_100f", NULL},
        {"sm_120a", "sm_100", "major"},
        {"sm_90", "sm_90a", "suffix"},
        {"sm_90a", "gfx906", "vendor"},
        {"host", "host", NULL},
        {"host", "host-gfx906", NULL},
        {"host-gfx906", "host", "processor"},
        {"gfx906", "host-gfx906", "vendor"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct target device = parse(table[i].device), code = parse(table[i].code);
        struct error error = {0};
        attune_status status = target_accepts(&device, &code, &error);
        if (status != (table[i].differs ? ATTUNE_UNSUPPORTED : ATTUNE_OK)) {
            fail_msg("%s on %s: status %d %s", table[i].code, table[i].device, (int)status, error.message);
        }
        if (table[i].differs) {
            assert_non_null(strstr(error.message, table[i].differs));
            assert_non_null(strstr(error.message, table[i].code));
        }
    }
}

static void compute_capabilities_have_cudas_names(void **state)
{
    (void)state;
    static const struct {
        int major, minor;
        const char *name;
    } table[] = {{7, 5, "sm_75"},  {8, 0, "sm_80"},    {8, 9, "sm_89"},
                 {9, 0, "sm_90a"}, {10, 0, "sm_100a"}, {12, 0, "sm_120a"}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct target target;
        target_from_compute_capability(table[i].major, table[i].minor, &target);
        assert_string_equal(target.processor, table[i].name);
        struct target parsed = parse(table[i].name);
        assert_memory_equal(&target, &parsed, sizeof target);
    }
}

static void gfx90a_alone_flushes(void **state)
{
    (void)state;
    static const char *const flushing[] = {"gfx90a", "gfx90a:sramecc+:xnack-", "host-gfx90a"};
    static const char *const keeping[] = {"gfx908", "gfx942", "host", "host-gfx908", "sm_90a"};
    for (int i = 0; i < 3; i++) {
        struct target target = parse(flushing[i]);
        assert_true(target_flushes(&target));
    }
    for (int i = 0; i < 5; i++) {
        struct target target = parse(keeping[i]);
        assert_false(target_flushes(&target));
    }
}

static void emulated_processor_is_what_follows_host(void **state)
{
    (void)state;
    struct target host = parse("host"), emulated = parse("host-gfx90a"), real = parse("gfx90a");
    assert_string_equal(target_emulated(&host), "");
    assert_string_equal(target_emulated(&emulated), "gfx90a");
    assert_string_equal(target_emulated(&real), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_put_in_canonical_order),
        cmocka_unit_test(malformed_names_are_refused),
        cmocka_unit_test(code_runs_only_where_it_can),
        cmocka_unit_test(compute_capabilities_have_cudas_names),
        cmocka_unit_test(emulated_processor_is_what_follows_host),
        cmocka_unit_test(gfx90a_alone_flushes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
