/* road.h - the default candidate of a problem to an object, by the road of every compile, with compilers of its own. */
#ifndef TESTS_PROOF_ROAD_H
#define TESTS_PROOF_ROAD_H

#include "autotune/objects.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* objects of other compilers are not taken. *job must be freed also after a failure; its template is read and its
 * compilers are started anew each time, so that the environment counts */
static inline attune_status road_obtain(struct store *store, const char *target_text, const char *problem_text,
                                        struct object_job *job, struct error *error)
{
    struct generator *generator = NULL;
    struct compiler_pool *pool = NULL;
    struct object_road road;
    struct expansion scratch = {0};
    struct candidate candidate;
    struct problem problem;
    struct target target;
    *job = (struct object_job){0};
    assert_int_equal(problem_parse(schema_attention_forward(), problem_text, &problem, error), ATTUNE_OK);
    assert_int_equal(target_parse(target_text, &target, error), ATTUNE_OK);
    assert_int_equal(generator_create(NULL, &generator, error), ATTUNE_OK);
    assert_int_equal(compiler_pool_create(&(struct compiler_options){.workers = 1}, &pool, error), ATTUNE_OK);
    attune_status status = road_open(&road, pool, store, &target, SANITIZE_NONE, false, error);
    if (status == ATTUNE_OK) {
        status = candidate_default(generator, &problem, &target, &candidate, error);
    }
    if (status == ATTUNE_OK) {
        status = object_expand(generator, &road, &candidate, &problem, &scratch, job, error);
    }
    if (status == ATTUNE_OK) {
        status = object_obtain(&road, job, error);
    }
    expansion_free(&scratch);
    compiler_pool_destroy(pool);
    generator_destroy(generator);
    return status;
}

#endif
