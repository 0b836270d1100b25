/* fixture.h - a temporary folder, a plausible object and plausible records for tests of the cache. */
#ifndef TESTS_CACHE_FIXTURE_H
#define TESTS_CACHE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cache/store.h"

/* state: a fresh private folder (malloc'ed path) */
int fixture_folder(void **state);
int fixture_remove(void **state);

/* aborts the test with the message on failure */
#define assert_status(expected, call, error)                                                                           \
    do {                                                                                                               \
        attune_status status_ = (call);                                                                                \
        if (status_ != (expected)) {                                                                                   \
            fail_msg("%s: status %s, expected %s: %s", #call, attune_status_name(status_),                             \
                     attune_status_name(expected), (error).message);                                                   \
        }                                                                                                              \
    } while (0)

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, fixture_folder, fixture_remove)

struct store *fixture_store(const char *path);
/* key and header of the n-th object; `n` goes into the source, `compiler` into the identity */
void fixture_key(int n, int compiler, struct digest *object, struct object_header *header);
/* bytes of the n-th object */
size_t fixture_payload(int n, char *bytes, size_t capacity);
void fixture_put(struct store *store, int n);
/* ATTUNE_OK and equal bytes, or the status of the read */
attune_status fixture_get(struct store *store, int n);

/* a record of the n-th object for a problem with this seqlen_q */
void fixture_record(int n, int64_t seqlen_q, enum record_kind kind, struct record *record);

/* path of the n-th object's file, of the only record's file */
void fixture_object_path(const char *root, int n, char path[4096]);
void fixture_only_record_path(struct store *store, const char *root, char path[4096]);
int fixture_count(struct store *store, enum store_entry_kind kind);

/* runs `call(data)` with stderr in a buffer and gives the number of warning lines */
int fixture_warnings(void (*call)(void *data), void *data, char *text, size_t bytes);

#endif
