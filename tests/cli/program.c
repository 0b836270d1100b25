/* program.c - see program.h. */
#include "program.h"

#include "base/files.h"

#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 48, PATH_BYTES = 4096, PATHS = 16 };

static char folder[PATH_BYTES];
static struct process_result last;
static json_t *last_answer;

int program_setup(void **state)
{
    (void)state;
    struct error error = {0};
    if (folder_temporary(folder, sizeof folder, &error) != ATTUNE_OK) {
        print_error("%s\n", error.message);
        return -1;
    }
    return 0;
}

int program_teardown(void **state)
{
    (void)state;
    process_result_free(&last);
    json_decref(last_answer);
    folder_remove(folder);
    return 0;
}

const char *scratch(const char *name)
{
    static char paths[PATHS][PATH_BYTES];
    static int next;
    char *path = paths[next++ % PATHS];
    struct error error = {0};
    if (path_join(path, PATH_BYTES, folder, name, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    return path;
}

static const struct process_result *run_program(const char *const *words)
{
    char cache[PATH_BYTES + 32];
    snprintf(cache, sizeof cache, "ATTUNE_CACHE=%s/cache", folder);
    const char *const environment[] = {
        cache, "ATTUNE_TEMPLATE_PATH=" TEST_SOURCE_DIR "/tests/cli/templates", "LC_ALL", "ATTUNE_JIT", NULL,
    };
    struct process_options options = {
        .argv = words, .environment = environment, .seconds = 240, .output_limit = 16 << 20};
    struct error error = {0};
    process_result_free(&last);
    last = (struct process_result){0};
    json_decref(last_answer);
    last_answer = NULL;
    if (process_run(&options, &last, &error) != ATTUNE_OK) {
        fail_msg("attune %s: %s", words[1], error.message);
    }
    return &last;
}

const struct process_result *attune_in_shell(const char *script)
{
    const char *const words[] = {"/bin/sh", "-c", script, ATTUNE_PROGRAM, NULL};
    return run_program(words);
}

const struct process_result *attune(const char *word, ...)
{
    const char *words[WORDS_MAX] = {ATTUNE_PROGRAM};
    int count = 1;
    va_list rest;
    va_start(rest, word);
    for (const char *at = word; at != NULL; at = va_arg(rest, const char *)) {
        assert_true(count < WORDS_MAX - 1);
        words[count++] = at;
    }
    va_end(rest);
    return run_program(words);
}

static void show(void)
{
    print_error("stdout: %s\nstderr: %s\n", buffer_string(&last.output), buffer_string(&last.errors));
}

void exits_with(int code)
{
    if (last.exit_code != code) {
        show();
        fail_msg("exit code %d (signal %d), expected %d", last.exit_code, last.signal, code);
    }
}

void says(const char *text)
{
    if (strstr(buffer_string(&last.output), text) == NULL) {
        show();
        fail_msg("stdout lacks '%s'", text);
    }
}

void complains(const char *text)
{
    if (strstr(buffer_string(&last.errors), text) == NULL) {
        show();
        fail_msg("stderr lacks '%s'", text);
    }
}

const json_t *answer(void)
{
    if (last_answer == NULL) {
        json_error_t error;
        last_answer = json_loadb(buffer_string(&last.output), last.output.length, 0, &error);
        if (!json_is_object(last_answer)) {
            show();
            fail_msg("stdout is not one JSON object: %s", error.text);
        }
    }
    return last_answer;
}

/* what a golden file cannot hold: times, digests, paths, whose compiler it was */
static bool is_volatile(const char *key)
{
    static const char *const keys[] = {"seconds",
                                       "identity",
                                       "object",
                                       "compiler",
                                       "created",
                                       "modified",
                                       "journal",
                                       "template_digest",
                                       "path",
                                       "store",
                                       "source",
                                       "bytes",
                                       "code_bytes",
                                       "worst_ratio",
                                       "device_name",
                                       "driver",
                                       "run",
                                       "record_run",
                                       "searched",
                                       "started",
                                       "compiled_per_minute",
                                       "verified_per_minute",
                                       "timed_per_minute",
                                       "worker_idle"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (strcmp(key, keys[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void blank_volatile(json_t *value)
{
    const char *key;
    json_t *member;
    size_t index;
    if (json_is_object(value)) {
        json_object_foreach(value, key, member)
        {
            if (is_volatile(key) && !json_is_object(member)) {
                json_object_set_new(value, key, json_string("*"));
            } else {
                blank_volatile(member);
            }
        }
    } else if (json_is_array(value)) {
        json_array_foreach(value, index, member)
        {
            blank_volatile(member);
        }
    }
}

void matches_golden(const char *name)
{
    char path[PATH_BYTES];
    struct buffer expected = BUFFER_INIT;
    struct error error = {0};
    json_t *now = json_deep_copy(answer());
    blank_volatile(now);
    char *text = json_dumps(now, JSON_INDENT(1));
    snprintf(path, sizeof path, TEST_SOURCE_DIR "/tests/cli/golden/%s.json", name);
    if (getenv("ATTUNE_GOLDEN_WRITE") != NULL) {
        char *line = malloc(strlen(text) + 2);
        sprintf(line, "%s\n", text);
        assert_int_equal(folder_make(TEST_SOURCE_DIR "/tests/cli/golden", &error), ATTUNE_OK);
        assert_int_equal(file_write(path, line, strlen(line), &error), ATTUNE_OK);
        free(line);
    } else {
        if (file_read(path, 1 << 20, &expected, &error) != ATTUNE_OK) {
            fail_msg("%s", error.message);
        }
        json_t *wanted = json_loadb(buffer_string(&expected), expected.length, 0, NULL);
        bool equal = json_equal(now, wanted) == 1;
        json_decref(wanted);
        if (!equal) {
            print_error("now: %s\nexpected: %s\n", text, buffer_string(&expected));
            fail_msg("the answer differs from golden/%s.json (ATTUNE_GOLDEN_WRITE=1 writes it anew)", name);
        }
    }
    buffer_free(&expected);
    free(text);
    json_decref(now);
}
