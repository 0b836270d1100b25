/* resume_place.h - a place where runs begin and go on: the family twice/ with sixteen modes, its templates that a test
 * may edit, and a store, on a device whose times the test writes. */
#ifndef TESTS_AUTOTUNE_RESUME_PLACE_H
#define TESTS_AUTOTUNE_RESUME_PLACE_H

#include "tests/autotune/parts.h"

#include "autotune/tune_on.h"
#include "scripted_device.h"
#include "tests/proof/tuner_family.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { RANKS = 16 };
#define BEST "twice/plain mode=r11"

/* r00 is the default; r11 is the best by 4 % */
static inline double rank_truth(const char *kernel, const void *object, size_t bytes)
{
    (void)object, (void)bytes;
    int rank = atoi(strrchr(kernel, '_') + 2);
    return rank == 0 ? 120.0 : rank == 11 ? 100.0 : 104.0 + (rank * 7) % 13;
}

static inline double ten_times_as_slow(int launch, int of_function)
{
    (void)launch, (void)of_function;
    return 10.0;
}

struct place {
    char folder[512], templates[600], store[600];
    char modes[256];
    struct parts *parts;
};

static inline void open_place(struct place *place, struct parts *parts)
{
    *place = (struct place){.parts = parts};
    assert_int_equal(folder_temporary(place->folder, sizeof place->folder, NULL), ATTUNE_OK);
    assert_int_equal(path_join(place->templates, sizeof place->templates, place->folder, "templates", NULL), ATTUNE_OK);
    assert_int_equal(path_join(place->store, sizeof place->store, place->folder, "store", NULL), ATTUNE_OK);
    assert_int_equal(mkdir(place->templates, 0700), 0);
    for (int rank = 0; rank < RANKS; rank++) {
        snprintf(place->modes + strlen(place->modes), sizeof place->modes - strlen(place->modes), "%sr%02d",
                 rank > 0 ? " " : "", rank);
    }
    generator_destroy(tuner_family(place->templates, place->modes, "2", "resumed"));
}

static inline void close_place(struct place *place)
{
    folder_remove(place->folder);
}

/* the author writes a line into the kernels of these modes alone, after what is there */
static inline void edit(struct place *place, const char *modes, const char *line)
{
    char path[700], copy[256];
    struct buffer text = BUFFER_INIT;
    snprintf(copy, sizeof copy, "%s", modes);
    assert_int_equal(path_join(path, sizeof path, place->templates, "twice.hip", NULL), ATTUNE_OK);
    assert_int_equal(file_read(path, 1 << 16, &text, NULL), ATTUNE_OK);
    char *end = strstr(text.data, "    if (i == 0) {");
    assert_non_null(end);
    struct buffer changed = BUFFER_INIT;
    buffer_append(&changed, text.data, (size_t)(end - text.data));
    for (char *rest = copy, *mode; (mode = strtok_r(rest, " ", &rest)) != NULL;) {
        buffer_format(&changed, "%% if c.mode == \"%s\" then\n%s\n%% end\n", mode, line);
    }
    buffer_text(&changed, end);
    assert_int_equal(file_write(path, changed.data, changed.length, NULL), ATTUNE_OK);
    buffer_free(&changed);
    buffer_free(&text);
}

static int die_after;       /* launches of the next run; 0: never */
static int launches_of_six; /* looks of the last run */

static inline void count_launches(void *data, const struct tune_progress *progress)
{
    (void)data;
    launches_of_six = progress->looks == 6 ? scripted.launches : launches_of_six;
}

/* one run as of a new process: generator and store handle of its own, a device at its beginning */
static inline attune_status run(struct place *place, bool timed, double (*pace)(int, int), struct tune_options options,
                                struct tune_result *result, struct error *error)
{
    struct generator *generator;
    struct store *store;
    struct problem problem;
    struct driver driver = scripted_driver(rank_truth);
    scripted.pace = pace;
    scripted.die_after = die_after;
    assert_int_equal(
        generator_create(&(struct generator_options){.template_path = place->templates}, &generator, error), ATTUNE_OK);
    assert_int_equal(store_open(place->store, &store, NULL), ATTUNE_OK);
    assert_int_equal(problem_parse(generator_schema(generator, "twice"), "twice n=70", &problem, NULL), ATTUNE_OK);
    options.seed = options.seed != 0 ? options.seed : 1;
    options.accept_stored = !options.retry_blocked && options.accept_stored;
    attune_status status = tune_run_on(timed ? &driver : scripted.host, 0, generator, place->parts->pool, store,
                                       &problem, &options, count_launches, NULL, result, error);
    store_close(store);
    generator_destroy(generator);
    if (status == ATTUNE_NO_TOOLCHAIN) {
        print_message("skipped: %s\n", error->message);
        close_place(place);
        skip();
    }
    return status;
}

static inline void tune(struct place *place, bool timed, struct tune_options options, struct tune_result *result)
{
    struct error error = {.message = ""};
    if (run(place, timed, NULL, options, result, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
}

static const struct tune_options resume = {.resume = true, .accept_stored = true};

static inline const struct tune_outcome *outcome_of(const struct tune_result *result, const char *mode)
{
    for (int i = 0; i < result->outcome_count; i++) {
        if (strcmp(strrchr(result->outcomes[i].candidate, '=') + 1, mode) == 0) {
            return &result->outcomes[i];
        }
    }
    fail_msg("%s has no outcome", mode);
    return NULL;
}

#endif
