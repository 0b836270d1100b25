/* test_store.c - the store when all goes well: keys, objects, records, index, housekeeping, many threads. */
#include "fixture.h"

#include "base/files.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>

static void every_part_of_a_key_changes_the_name(void **state)
{
    (void)state;
    struct object_key keys[8];
    struct digest objects[8], sources[8];
    for (int i = 0; i < 8; i++) {
        memset(&keys[i], 0, sizeof keys[i]);
        keys[i].shown = "kernel";
        keys[i].shown_bytes = 6;
        keys[i].options = "-O3";
        keys[i].identity = "aa";
        target_parse("gfx906", &keys[i].target, NULL);
    }
    keys[1].shown = "kerneL";
    keys[2].vocabulary.bytes[31] = 1;
    keys[3].options = "-O2";
    target_parse("gfx900", &keys[4].target, NULL);
    target_parse("gfx906:xnack-", &keys[5].target, NULL);
    keys[6].shown_bytes = 5;
    keys[7].identity = "ab";
    for (int i = 0; i < 8; i++) {
        object_key_digest(&keys[i], &objects[i], &sources[i]);
        for (int j = 0; j < i; j++) {
            assert_memory_not_equal(objects[i].bytes, objects[j].bytes, DIGEST_BYTES);
        }
    }
    assert_memory_equal(sources[7].bytes, sources[0].bytes, DIGEST_BYTES); /* without the compiler */
    assert_memory_not_equal(sources[5].bytes, sources[0].bytes, DIGEST_BYTES);
}

static void objects_are_found_by_another_opening(void **state)
{
    struct store *store = fixture_store(*state);
    assert_string_equal(store_path(store), *state);
    assert_int_equal(fixture_get(store, 1), ATTUNE_NOT_FOUND);
    fixture_put(store, 1);
    fixture_put(store, 1); /* twice is once */
    fixture_put(store, 2);
    assert_int_equal(fixture_get(store, 1), ATTUNE_OK);
    store_close(store);
    store = fixture_store(*state);
    assert_int_equal(fixture_get(store, 1), ATTUNE_OK);
    assert_int_equal(fixture_get(store, 2), ATTUNE_OK);
    assert_int_equal(fixture_get(store, 3), ATTUNE_NOT_FOUND);
    assert_int_equal(fixture_count(store, STORE_OBJECT), 2);
    assert_int_equal(fixture_count(store, STORE_TEMPORARY), 0);
    store_close(store);
}

static void what_the_store_makes_is_private(void **state)
{
    struct store *store = fixture_store(*state);
    char path[4096];
    struct stat facts;
    mode_t mask = umask(0);
    fixture_put(store, 1);
    umask(mask);
    fixture_object_path(*state, 1, path);
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
    for (int level = 0; level < 2; level++) {
        *strrchr(path, '/') = '\0';
        assert_int_equal(stat(path, &facts), 0);
        assert_int_equal(facts.st_mode & 0777, 0700);
    }
    store_close(store);
}

static void an_object_of_the_same_source_is_found_whatever_its_compiler(void **state)
{
    struct store *store = fixture_store(*state);
    struct digest object, other, found;
    struct object_header header;
    struct error error = {0};
    fixture_key(1, 2, &other, &header);
    assert_int_equal(store_object_find_source(store, &header.source, &found, NULL), ATTUNE_NOT_FOUND);
    assert_status(ATTUNE_OK, store_object_put(store, &other, &header, "other", 5, &error), error);
    fixture_key(1, 1, &object, &header);
    assert_int_equal(store_object_get(store, &object, NULL, NULL, NULL), ATTUNE_NOT_FOUND);
    assert_status(ATTUNE_OK, store_object_find_source(store, &header.source, &found, &error), error);
    assert_memory_equal(found.bytes, other.bytes, DIGEST_BYTES);
    struct timespec pause = {0, 20000000};
    nanosleep(&pause, NULL); /* file times have a grain */
    fixture_put(store, 1);
    assert_status(ATTUNE_OK, store_object_find_source(store, &header.source, &found, &error), error);
    assert_memory_equal(found.bytes, object.bytes, DIGEST_BYTES);
    store_close(store);
}

static void records_come_newest_first_and_of_their_specialisation_only(void **state)
{
    struct store *store = fixture_store(*state);
    struct record record, *records;
    struct error error = {0};
    char device[128];
    int count = -1;
    for (int n = 0; n < 5; n++) {
        fixture_record(n == 3 ? 9 : n, 1024 + 8 * n, RECORD_TUNED, &record);
        assert_status(ATTUNE_OK, store_record_put(store, &record, &error), error);
    }
    record_device_folder(&record, device);
    assert_status(ATTUNE_OK, store_records(store, device, record.specialisation, &records, &count, &error), error);
    assert_int_equal(count, 5);
    assert_int_equal(records[0].created, 1700000009);
    for (int i = 1; i < count; i++) {
        assert_true(records[i - 1].created >= records[i].created);
    }
    free(records);
    assert_status(ATTUNE_OK, store_records(store, "default-gfx906", record.specialisation, &records, &count, &error),
                  error);
    assert_int_equal(count, 0);
    assert_status(ATTUNE_OK, store_records(store, device, "attention.forward else", &records, &count, &error), error);
    assert_int_equal(count, 0);
    store_close(store);
}

/* Each of several processes, of which the n-th puts the record of the n-th object, tells whose record it was left with.
 */
static void of_records_that_many_put_first_one_stays(void **state)
{
    enum { WRITERS = 6, ROUNDS = 20 };
    for (int round = 0; round < ROUNDS; round++) {
        int told[2];
        pid_t children[WRITERS];
        assert_int_equal(pipe(told), 0);
        for (int n = 0; n < WRITERS; n++) {
            children[n] = fork();
            assert_true(children[n] >= 0);
            if (children[n] == 0) {
                struct store *store = fixture_store(*state);
                struct record record, kept;
                struct {
                    int first, whose;
                } answer = {0, -1};
                bool first = false;
                fixture_record(n, 1024 + 8 * round, RECORD_TUNED, &record);
                snprintf(record.run, sizeof record.run, "%032x", 0xabc);
                if (store_record_put_first(store, &record, &kept, &first, NULL) == ATTUNE_OK) {
                    answer.first = first;
                    answer.whose = (int)(kept.created - 1700000000);
                }
                _exit(write(told[1], &answer, sizeof answer) == sizeof answer ? 0 : 1);
            }
        }
        close(told[1]);
        int firsts = 0, whose = -1;
        struct {
            int first, whose;
        } answer;
        for (int n = 0; n < WRITERS; n++) {
            assert_int_equal(read(told[0], &answer, sizeof answer), sizeof answer);
            firsts += answer.first;
            whose = whose < 0 ? answer.whose : whose;
            assert_true(answer.whose >= 0);
            assert_int_equal(answer.whose, whose);
        }
        assert_int_equal(firsts, 1);
        close(told[0]);
        for (int n = 0; n < WRITERS; n++) {
            waitpid(children[n], NULL, 0);
        }
    }
    struct store *store = fixture_store(*state);
    assert_int_equal(fixture_count(store, STORE_RECORD), ROUNDS);
    assert_int_equal(fixture_count(store, STORE_TEMPORARY), 0);
    store_close(store);
}

static void a_bad_file_is_nobodys_first_record(void **state)
{
    struct store *store = fixture_store(*state);
    struct record record, kept;
    struct error error = {0};
    bool first = false;
    char path[4096];
    fixture_record(1, 2048, RECORD_TUNED, &record);
    assert_status(ATTUNE_OK, store_record_put_first(store, &record, &kept, &first, &error), error);
    assert_true(first);
    fixture_only_record_path(store, *state, path);
    assert_int_equal(truncate(path, 100), 0);
    assert_status(ATTUNE_OK, store_record_put_first(store, &record, &kept, &first, &error), error);
    assert_true(first);
    assert_string_equal(kept.candidate, record.candidate);
    assert_status(ATTUNE_OK, store_record_put_first(store, &record, &kept, &first, &error), error);
    assert_false(first);
    store_close(store);
}

static void a_store_in_memory_serves_as_well(void **state)
{
    (void)state;
    char saved[512] = "";
    snprintf(saved, sizeof saved, "%s", getenv("HOME") != NULL ? getenv("HOME") : "");
    unsetenv("HOME");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("ATTUNE_CACHE");
    struct store *store = fixture_store(NULL);
    struct record record, *records;
    char device[128], path[512];
    int count = 0;
    setenv("HOME", saved, 1);
    assert_string_equal(store_path(store), "");
    fixture_put(store, 1);
    assert_int_equal(fixture_get(store, 1), ATTUNE_OK);
    fixture_record(1, 2048, RECORD_DEFAULT, &record);
    assert_int_equal(store_record_put(store, &record, NULL), ATTUNE_OK);
    record_device_folder(&record, device);
    assert_int_equal(store_records(store, device, record.specialisation, &records, &count, NULL), ATTUNE_OK);
    assert_int_equal(count, 1);
    free(records);
    assert_int_equal(store_record_put_first(store, &record, &record, &(bool){false}, NULL), ATTUNE_UNSUPPORTED);
    assert_int_equal(store_journal_path(store, record.run, path, sizeof path, NULL), ATTUNE_NOT_FOUND);
    assert_int_equal(fixture_count(store, STORE_OBJECT), 0);
    store_close(store);
}

static void verify_counts_and_prune_takes_what_it_is_told(void **state)
{
    struct store *store = fixture_store(*state);
    struct record record;
    struct store_verdict verdict;
    struct error error = {0};
    int removed = 0;
    uint64_t bytes = 0;
    for (int n = 0; n < 6; n++) {
        fixture_put(store, n);
    }
    for (int n = 4; n < 8; n++) { /* 4 and 5 are there, 6 and 7 are not */
        fixture_record(n, 2048, RECORD_TUNED, &record);
        assert_status(ATTUNE_OK, store_record_put(store, &record, &error), error);
    }
    assert_status(ATTUNE_OK, store_verify(store, false, &verdict, &error), error);
    assert_int_equal(verdict.objects, 6);
    assert_int_equal(verdict.records, 4);
    assert_int_equal(verdict.bad, 0);
    assert_int_equal(verdict.missing_objects, 2);

    struct store_prune rule = {.unreferenced = true, .dry_run = true};
    assert_status(ATTUNE_OK, store_prune(store, &rule, &removed, &bytes, &error), error);
    assert_int_equal(removed, 4);
    assert_int_equal(fixture_count(store, STORE_OBJECT), 6);
    rule.dry_run = false;
    assert_status(ATTUNE_OK, store_prune(store, &rule, &removed, &bytes, &error), error);
    assert_int_equal(removed, 4);
    assert_true(bytes > 8000);
    assert_int_equal(fixture_get(store, 4), ATTUNE_OK);
    assert_int_equal(fixture_get(store, 0), ATTUNE_NOT_FOUND);

    struct store_prune size = {.keep_bytes = 3000};
    assert_status(ATTUNE_OK, store_prune(store, &size, &removed, &bytes, &error), error);
    assert_int_equal(removed, 1);
    assert_int_equal(fixture_count(store, STORE_OBJECT), 1);
    store_close(store);
}

static void leftovers_of_killed_writers_are_pruned_when_old(void **state)
{
    struct store *store = fixture_store(*state);
    char path[4096], old[4200], young[4200];
    int removed = 0;
    fixture_put(store, 1);
    fixture_object_path(*state, 1, path);
    *strrchr(path, '/') = '\0';
    snprintf(old, sizeof old, "%s/" FILE_TEMPORARY_PREFIX "old", path);
    snprintf(young, sizeof young, "%s/" FILE_TEMPORARY_PREFIX "young", path);
    assert_int_equal(file_write(old, "x", 1, NULL), ATTUNE_OK);
    assert_int_equal(file_write(young, "x", 1, NULL), ATTUNE_OK);
    struct utimbuf ago = {time(NULL) - 7200, time(NULL) - 7200};
    assert_int_equal(utime(old, &ago), 0);
    assert_int_equal(fixture_count(store, STORE_TEMPORARY), 2);
    assert_int_equal(store_prune(store, &(struct store_prune){.rejected = true}, &removed, NULL, NULL), ATTUNE_OK);
    assert_int_equal(removed, 1);
    assert_int_equal(access(old, F_OK), -1);
    assert_int_equal(access(young, F_OK), 0);
    store_close(store);
}

enum { THREADS = 8, OBJECTS = 12 };

static void *put_and_get_all(void *data)
{
    struct store *store = data;
    for (int n = 0; n < OBJECTS; n++) {
        fixture_put(store, n);
        if (fixture_get(store, n) != ATTUNE_OK) {
            return store;
        }
    }
    return NULL;
}

static void many_threads_share_one_store(void **state)
{
    struct store *store = fixture_store(*state);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, put_and_get_all, store), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(fixture_count(store, STORE_OBJECT), OBJECTS);
    assert_int_equal(fixture_count(store, STORE_TEMPORARY), 0);
    assert_int_equal(fixture_count(store, STORE_REJECTED), 0);
    store_close(store);
}

static void many_processes_share_one_folder_even_when_it_is_deleted(void **state)
{
    enum { PROCESSES = 6 };
    char objects[512];
    pid_t children[PROCESSES];
    snprintf(objects, sizeof objects, "%s/objects", (char *)*state);
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            struct store *store = fixture_store(*state);
            int failed = 0;
            for (int n = 0; n < OBJECTS; n++) {
                fixture_put(store, n);
                /* deleted meanwhile is a miss, never something wrong or half */
                attune_status status = fixture_get(store, n);
                failed |= status != ATTUNE_OK && status != ATTUNE_NOT_FOUND;
            }
            store_close(store);
            _exit(failed);
        }
        assert_true(children[i] > 0);
    }
    for (int round = 0; round < 10; round++) {
        struct timespec pause = {0, 2000000};
        nanosleep(&pause, NULL);
        folder_remove(objects);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = -1;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    struct store *store = fixture_store(*state);
    put_and_get_all(store);
    assert_int_equal(fixture_count(store, STORE_OBJECT), OBJECTS);
    assert_int_equal(fixture_count(store, STORE_REJECTED), 0);
    store_close(store);
}

static void paths_with_blanks_and_quotes_work(void **state)
{
    char path[512];
    snprintf(path, sizeof path, "%s/a b/\xc3\xbcn\xc3\xaf'ote;$x\"", (char *)*state);
    struct store *store = fixture_store(path);
    fixture_put(store, 1);
    store_close(store);
    store = fixture_store(path);
    assert_int_equal(fixture_get(store, 1), ATTUNE_OK);
    store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_of_a_key_changes_the_name),
        WITH_FOLDER(objects_are_found_by_another_opening),
        WITH_FOLDER(what_the_store_makes_is_private),
        WITH_FOLDER(an_object_of_the_same_source_is_found_whatever_its_compiler),
        WITH_FOLDER(records_come_newest_first_and_of_their_specialisation_only),
        WITH_FOLDER(of_records_that_many_put_first_one_stays),
        WITH_FOLDER(a_bad_file_is_nobodys_first_record),
        cmocka_unit_test(a_store_in_memory_serves_as_well),
        WITH_FOLDER(verify_counts_and_prune_takes_what_it_is_told),
        WITH_FOLDER(leftovers_of_killed_writers_are_pruned_when_old),
        WITH_FOLDER(many_threads_share_one_store),
        WITH_FOLDER(many_processes_share_one_folder_even_when_it_is_deleted),
        WITH_FOLDER(paths_with_blanks_and_quotes_work),
    };
    return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
