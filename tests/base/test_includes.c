/* test_includes.c - the arrows between folders hold: base <- cache <- runtime <- autotune <- cli, base <- generator <-
 * autotune. Every #include "folder/..." of every .c and .h is looked at. */
#include "base/buffer.h"
#include "base/files.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* what each folder may include besides itself; folders that are not listed (tests, bench, examples) may include
 * anything */
static const struct arrow {
    const char *folder;
    const char *allowed;
} arrows[] = {
    {"base", ""},
    {"cache", "base"},
    {"runtime", "base cache"},
    {"generator", "base"},
    {"autotune", "base cache runtime generator"},
    {"cli", "base cache runtime generator autotune"},
};
enum { ARROW_COUNT = sizeof arrows / sizeof arrows[0] };

static bool listed(const char *words, const char *word, size_t length)
{
    for (const char *at = words; *at;) {
        size_t span = strcspn(at, " ");
        if (span == length && strncmp(at, word, length) == 0) {
            return true;
        }
        at += span + (at[span] == ' ');
    }
    return false;
}

/* may a file of arrow->folder include `path`? Only paths into the project's folders are judged. */
static bool include_is_allowed(const struct arrow *arrow, const char *path)
{
    size_t length = strcspn(path, "/\"");
    bool ours = false;
    for (int i = 0; i < ARROW_COUNT; i++) {
        ours = ours || (strlen(arrows[i].folder) == length && strncmp(arrows[i].folder, path, length) == 0);
    }
    if (path[0] == '.' || path[0] == '/') {
        return false; /* ../ would step around the rule */
    }
    return path[length] != '/' || !ours || listed(arrow->folder, path, length) || listed(arrow->allowed, path, length);
}

static int check_file(const struct arrow *arrow, const char *path)
{
    struct buffer text = BUFFER_INIT;
    struct error error = {0};
    int wrong = 0;
    if (file_read(path, 16 << 20, &text, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    for (const char *line = buffer_string(&text); line && *line; line = strchr(line, '\n')) {
        line += strspn(line, "\n \t");
        if (*line != '#') {
            continue;
        }
        const char *word = line + 1 + strspn(line + 1, " \t");
        if (strncmp(word, "include", 7) != 0) {
            continue;
        }
        const char *name = word + 7 + strspn(word + 7, " \t");
        if (*name == '"' && !include_is_allowed(arrow, name + 1)) {
            print_error("%s includes %.*s\n", path, (int)strcspn(name, "\n"), name);
            wrong++;
        }
    }
    buffer_free(&text);
    return wrong;
}

/* all .c and .h below; returns forbidden includes, adds to *files */
static int check_folder(const struct arrow *arrow, const char *path, int *files)
{
    int wrong = 0;
    DIR *folder = opendir(path);
    if (!folder) {
        fail_msg("%s is missing", path);
        return 1;
    }
    for (struct dirent *entry; (entry = readdir(folder));) {
        char inner[1024];
        size_t length = strlen(entry->d_name);
        if (entry->d_name[0] == '.') {
            continue;
        }
        assert_int_equal(path_join(inner, sizeof inner, path, entry->d_name, NULL), ATTUNE_OK);
        if (entry->d_type == DT_DIR) {
            wrong += check_folder(arrow, inner, files);
        } else if (length > 2 && entry->d_name[length - 2] == '.' && strchr("ch", entry->d_name[length - 1])) {
            wrong += check_file(arrow, inner);
            ++*files;
        }
    }
    closedir(folder);
    return wrong;
}

static void folders_include_only_along_the_arrows(void **state)
{
    (void)state;
    int wrong = 0;
    for (int i = 0; i < ARROW_COUNT; i++) {
        char path[1024];
        int files = 0;
        assert_int_equal(path_join(path, sizeof path, TEST_SOURCE_DIR, arrows[i].folder, NULL), ATTUNE_OK);
        wrong += check_folder(&arrows[i], path, &files);
        print_message("%s: %d files\n", arrows[i].folder, files);
    }
    assert_int_equal(wrong, 0);
}

static void the_rule_itself_tells_right_from_wrong(void **state)
{
    (void)state;
    const struct arrow *base = &arrows[0], *cache = &arrows[1], *runtime = &arrows[2], *generator = &arrows[3];
    assert_true(include_is_allowed(base, "base/error.h\""));
    assert_true(include_is_allowed(base, "attune_status.h\""));
    assert_false(include_is_allowed(base, "cache/store.h\""));
    assert_false(include_is_allowed(cache, "runtime/driver.h\""));
    assert_true(include_is_allowed(runtime, "cache/store.h\""));
    assert_false(include_is_allowed(runtime, "generator/generator.h\""));
    assert_false(include_is_allowed(generator, "runtime/driver.h\""));
    assert_false(include_is_allowed(generator, "../runtime/driver.h\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders_include_only_along_the_arrows),
        cmocka_unit_test(the_rule_itself_tells_right_from_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
