/* rank_wait.c - see rank_wait.h */
#include "autotune/rank_wait.h"

#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

const char *rank_state_name(enum rank_state state)
{
    static const char *const names[] = {[RANK_AWAITED] = "awaited",
                                        [RANK_ANSWERED] = "answered",
                                        [RANK_LOST] = "lost",
                                        [RANK_ABSENT] = "absent",
                                        [RANK_ELSEWHERE] = "elsewhere"};
    return names[state];
}

void rank_watch_begin(struct rank_watch *watch, const struct ranks *ranks, const char *problem, int rank, int turn)
{
    *watch = (struct rank_watch){.rank = rank, .state = RANK_AWAITED, .began = clock_seconds()};
    watch->changed = watch->began;
    ranks_journal_run(ranks, problem, rank, turn, watch->run);
}

void rank_watch_free(struct rank_watch *watch)
{
    if (watch->has_reading) {
        journal_reading_free(&watch->reading);
        watch->has_reading = false;
    }
}

enum holding { HELD, FREE, UNKNOWN };

/* Size, and whether somebody holds the journal; false where there is none. Opening it asks a network file system anew.
 */
static bool look_at_file(const char *path, uint64_t *bytes, enum holding *holding)
{
    struct stat facts;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    bool there = file >= 0 && fstat(file, &facts) == 0 && S_ISREG(facts.st_mode);
    *holding = UNKNOWN;
    *bytes = there ? (uint64_t)facts.st_size : 0;
    if (*bytes > 0) { /* its writer has had its lock since before the first byte: ours, for a moment, is in no way */
        *holding = flock(file, LOCK_SH | LOCK_NB) == 0 ? FREE : errno == EWOULDBLOCK ? HELD : UNKNOWN;
    }
    if (file >= 0) {
        close(file);
    }
    return there;
}

static void read_again(struct rank_watch *watch, struct store *store)
{
    struct buffer text = BUFFER_INIT;
    struct journal_reading reading;
    if (store_journal_read(store, watch->run, &text, NULL) == ATTUNE_OK &&
        journal_read(text.data, text.length, &reading, NULL) == ATTUNE_OK) {
        rank_watch_free(watch);
        watch->reading = reading;
        watch->has_reading = true;
    }
    buffer_free(&text);
}

void rank_watch_look(struct rank_watch *watch, struct store *store, const struct ranks_patience *patience,
                     const char *fingerprint)
{
    char path[512];
    uint64_t bytes = 0;
    enum holding holding = UNKNOWN;
    double now = clock_seconds();
    if (store_journal_path(store, watch->run, path, sizeof path, NULL) != ATTUNE_OK ||
        !look_at_file(path, &bytes, &holding) || bytes == 0) { /* empty: claimed, not begun */
        if (now - watch->began > patience->begin) {
            watch->state = RANK_ABSENT;
        }
        return;
    }
    if (bytes != watch->bytes) {
        watch->bytes = bytes;
        watch->changed = now;
        read_again(watch, store);
    }
    const struct journal_reading *reading = &watch->reading;
    double idle = now - watch->changed;
    if (fingerprint != NULL && watch->has_reading && reading->has_begin &&
        strcmp(reading->begin.fingerprint, fingerprint) != 0) {
        watch->state = RANK_ELSEWHERE;
    } else if (watch->has_reading && reading->has_end) {
        watch->state = RANK_ANSWERED;
    } else if (idle > patience->stall || (holding == FREE && idle > patience->silence)) {
        watch->state = RANK_LOST;
    }
}

bool rank_watch_all(struct rank_watch *watches, int count, struct store *store, const struct ranks_patience *patience,
                    const char *fingerprint, const volatile int *stop)
{
    const struct timespec pause = {(time_t)patience->poll, (long)(1e9 * (patience->poll - floor(patience->poll)))};
    for (;;) {
        int awaited = 0;
        for (int i = 0; i < count; i++) {
            if (watches[i].state == RANK_AWAITED) {
                rank_watch_look(&watches[i], store, patience, fingerprint);
                awaited += watches[i].state == RANK_AWAITED;
            }
        }
        if (awaited == 0) {
            return true;
        }
        if (stop != NULL && *stop != 0) {
            return false;
        }
        nanosleep(&pause, NULL);
    }
}

bool rank_is_at_work(const struct ranks *ranks, struct store *store, const char *problem, int rank, int turn)
{
    struct rank_watch watch;
    char path[512];
    uint64_t bytes = 0;
    enum holding holding = UNKNOWN;
    rank_watch_begin(&watch, ranks, problem, rank, turn);
    bool there = store_journal_path(store, watch.run, path, sizeof path, NULL) == ATTUNE_OK &&
                 look_at_file(path, &bytes, &holding);
    if (there && bytes > 0 && holding != HELD) {
        read_again(&watch, store);
    }
    bool at_work = there && (bytes == 0 || holding == HELD || (watch.has_reading && watch.reading.has_end));
    rank_watch_free(&watch);
    return at_work;
}
