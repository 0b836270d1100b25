/* parts.h - what a test of the tuner stands on: a generator, compilers and a store in a folder of its own. */
#ifndef TESTS_AUTOTUNE_PARTS_H
#define TESTS_AUTOTUNE_PARTS_H

#include "base/files.h"
#include "cache/store.h"
#include "generator/compiler.h"
#include "generator/generator.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

struct parts {
    struct generator *generator;
    struct compiler_pool *pool;
    struct store *store;
    char folder[512];
};

/* group fixtures */
static inline int parts_set_up(void **state)
{
    struct parts *parts = calloc(1, sizeof *parts);
    struct error error;
    if (generator_create(NULL, &parts->generator, &error) != ATTUNE_OK ||
        compiler_pool_create(NULL, &parts->pool, &error) != ATTUNE_OK ||
        folder_temporary(parts->folder, sizeof parts->folder, &error) != ATTUNE_OK ||
        store_open(parts->folder, &parts->store, &error) != ATTUNE_OK) {
        print_error("%s\n", error.message);
        return -1;
    }
    *state = parts;
    return 0;
}

static inline int parts_tear_down(void **state)
{
    struct parts *parts = *state;
    store_close(parts->store);
    folder_remove(parts->folder);
    compiler_pool_destroy(parts->pool);
    generator_destroy(parts->generator);
    free(parts);
    return 0;
}

#endif
