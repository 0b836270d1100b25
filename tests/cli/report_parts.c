/* report_parts.c - see report_parts.h. */
#include "report_parts.h"

#include "base/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct store *open_store(const char *folder)
{
    struct store *store = NULL;
    struct error error = {.message = ""};
    if (store_open(folder, &store, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    return store;
}

struct fake_run a_run(void)
{
    return (struct fake_run){.problem = SMALL,
                             .device = "A GPU",
                             .target = "gfx906",
                             .driver = "5.2",
                             .run = RUN,
                             .candidates = 150,
                             .fastest = 20,
                             .ended = true,
                             .record = true,
                             .started = 1790000000};
}

void one_run(const char *folder, const struct fake_run *run)
{
    struct store *store = open_store(folder);
    assert_true(fake_run_write(store, run));
    store_close(store);
}

void report_page(const char *store, const char *page)
{
    attune("cache", "report", "--store", store, "-o", page, NULL);
    exits_with(EXIT_IS_DONE);
}

bool page_is_whole(const char *page, const char *const *texts)
{
    const char *words[64] = {"python3", TEST_SOURCE_DIR "/tests/cli/report_page.py", page};
    int count = 3;
    for (; *texts != NULL; texts++) {
        assert_true(count < 62);
        words[count++] = *texts;
    }
    struct process_result result = {0};
    struct process_options options = {.argv = words, .seconds = 60, .output_limit = 1 << 20};
    struct error error = {.message = ""};
    if (process_run(&options, &result, &error) != ATTUNE_OK) {
        print_message("skipped: %s\n", error.message);
        return false;
    }
    if (result.exit_code != 0) {
        fail_msg("%s%s", buffer_string(&result.output), buffer_string(&result.errors));
    }
    process_result_free(&result);
    return true;
}

char *bytes_of(const char *path)
{
    struct buffer text = BUFFER_INIT;
    struct error error = {.message = ""};
    if (file_read(path, 64 << 20, &text, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    return buffer_take(&text);
}
