/* tuner_place.h - a folder of templates and a store of its own, and runs of the tuner in them as in new processes. */
#ifndef TESTS_PROOF_TUNER_PLACE_H
#define TESTS_PROOF_TUNER_PLACE_H

#include "tests/autotune/parts.h"

#include "autotune/tune.h"
#include "tests/proof/tuner_family.h"

#include <sys/stat.h>

static const double candidate_seconds = 3.0;

/* a run's own folder for templates and store; the pool is the group's */
struct place {
    char folder[512], templates[600], store_folder[600];
    const char *comment; /* of the template */
    struct parts *parts;
};

static inline void open_place(struct place *place, struct parts *parts)
{
    place->parts = parts;
    place->comment = "the first text";
    assert_int_equal(folder_temporary(place->folder, sizeof place->folder, NULL), ATTUNE_OK);
    assert_int_equal(path_join(place->templates, sizeof place->templates, place->folder, "templates", NULL), ATTUNE_OK);
    assert_int_equal(path_join(place->store_folder, sizeof place->store_folder, place->folder, "store", NULL),
                     ATTUNE_OK);
    assert_int_equal(mkdir(place->templates, 0700), 0);
}

/* One run in what a new process would have: another generator, another store handle. */
static inline attune_status tune(struct place *place, const char *modes, const char *factor,
                                 struct tune_options options, struct tune_result *result, struct error *error)
{
    struct generator *generator = tuner_family(place->templates, modes, factor, place->comment);
    struct problem problem;
    struct store *store;
    assert_int_equal(store_open(place->store_folder, &store, NULL), ATTUNE_OK);
    assert_int_equal(problem_parse(generator_schema(generator, "twice"), "twice n=300", &problem, NULL), ATTUNE_OK);
    options.device = "host";
    options.candidate_seconds = options.candidate_seconds > 0.0 ? options.candidate_seconds : candidate_seconds;
    options.seed = 1;
    attune_status status =
        tune_run(generator, place->parts->pool, store, &problem, &options, NULL, NULL, result, error);
    store_close(store);
    generator_destroy(generator);
    if (status == ATTUNE_NO_TOOLCHAIN) {
        print_message("skipped: %s\n", error->message);
        folder_remove(place->folder);
        skip();
    }
    return status;
}

#endif
