/* cmd_cache_report.c - `attune cache report`: the page of what tuning found. The data come from report_collect, the
 * page from the templates report/: one for its head, one a result, one for its foot, so that no expansion grows with
 * the store. */
#include "base/files.h"
#include "cli/cmd_cache.h"
#include "cli/report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* the data without what only a result's own section shows; new reference */
static json_t *head_of(const json_t *data)
{
    static const char *const left_out[] = {"candidates", "parameters"};
    json_t *head = json_copy((json_t *)data), *results = json_array();
    size_t index;
    json_t *result;
    json_array_foreach(json_object_get(data, "results"), index, result)
    {
        json_t *short_one = json_copy(result);
        for (size_t i = 0; i < sizeof left_out / sizeof left_out[0]; i++) {
            json_object_del(short_one, left_out[i]);
        }
        json_array_append_new(results, short_one);
    }
    json_object_set_new(head, "results", results);
    return head;
}

static attune_status make_page(struct cli *cli, const json_t *data, struct buffer *page, struct error *error)
{
    json_t *head = head_of(data);
    size_t index;
    json_t *result;
    attune_status status = generator_render(cli->generator, "report/head.html", head, page, error);
    json_array_foreach(json_object_get(data, "results"), index, result)
    {
        if (status != ATTUNE_OK) {
            break;
        }
        json_t *section = json_object();
        json_set_whole(section, "number", (int64_t)index + 1);
        json_object_set(section, "result", result);
        status = generator_render(cli->generator, "report/result.html", section, page, error);
        json_decref(section);
    }
    if (status == ATTUNE_OK) {
        status = generator_render(cli->generator, "report/foot.html", head, page, error);
    }
    json_decref(head);
    if (status == ATTUNE_INVALID) { /* nothing that was asked for is wrong */
        status = error_set(error, ATTUNE_INTERNAL, "the page's own template fails: %s", error->message);
    }
    return status;
}

static bool is_stdout(const char *path)
{
    return strcmp(path, "-") == 0;
}

/* A file appears whole, or stays as it was. What is no file (a FIFO, /dev/stdout) is written to. */
static attune_status write_page(const char *path, const struct buffer *page, struct error *error)
{
    struct stat facts;
    if (is_stdout(path)) {
        bool whole = fwrite(page->data, 1, page->length, stdout) == page->length && fflush(stdout) == 0;
        return whole ? ATTUNE_OK : error_errno(error, errno, "stdout cannot be written");
    }
    if (lstat(path, &facts) == 0 && !S_ISREG(facts.st_mode)) {
        return file_write(path, page->data, page->length, error);
    }
    attune_status status = file_publish(path, page->data, page->length, error);
    if (status == ATTUNE_OK) { /* a page is for others too, as far as the umask lets them */
        mode_t mask = umask(0);
        umask(mask);
        (void)chmod(path, 0666 & ~mask);
    }
    return status;
}

attune_status cache_report(struct cli *cli, struct store *store, struct error *error)
{
    const char *output = options_text(&cli->options, "output");
    struct problem problem;
    struct buffer page = BUFFER_INIT;
    bool narrowed = options_has(&cli->options, "problem");
    attune_status status = ATTUNE_OK;
    if (output == NULL && !cli->json) {
        return error_set(
            error, ATTUNE_INVALID,
            "report needs a file for the page: -o report.html (- is stdout), or --json for what it is made of");
    }
    if (output != NULL && is_stdout(output) && cli->json) {
        return error_set(error, ATTUNE_INVALID,
                         "-o - and --json both want stdout: name a file for the page, or leave one of them out");
    }
    if (output != NULL && !is_stdout(output)) {
        status = file_check_output(output, error);
    }
    if (status == ATTUNE_OK && narrowed) {
        status = cli_problem(cli, &problem, error);
    }
    if (status == ATTUNE_OK) {
        status = report_collect(cli, store, narrowed ? &problem : NULL, cli->result, error);
    }
    if (status == ATTUNE_OK && output != NULL) {
        status = make_page(cli, cli->result, &page, error);
        if (status == ATTUNE_OK) {
            status = write_page(output, &page, error);
        }
    }
    if (status == ATTUNE_OK && output != NULL) {
        json_set_text(cli->result, "output", output);
        json_set_whole(cli->result, "bytes", (int64_t)page.length);
        if (!cli->json && !is_stdout(output)) {
            size_t count = json_array_size(json_object_get(cli->result, "results"));
            char size[32];
            format_bytes(page.length, size);
            printf("%s: %zu tuned %s, %s\n", output, count, plural((int64_t)count, "problem", "problems"), size);
        }
    }
    buffer_free(&page);
    return status;
}
