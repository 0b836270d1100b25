/* record.h - the result for a problem on a device, as immutable JSON of at most 4 KiB (attention) or 16 KiB (user
 * families, whose field list travels along). Reading a record needs neither source nor compiler. */
#ifndef CACHE_RECORD_H
#define CACHE_RECORD_H

#include "base/buffer.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/launch.h"
#include "base/problem.h"
#include "base/target.h"

#include <stdbool.h>

enum { RECORD_BYTES_MAX = 16384, RECORD_CANDIDATE_BYTES = 1024 };

enum record_kind {
    RECORD_TUNED,  /* winner of a complete tuning run, measured on the device */
    RECORD_DEFAULT /* the default candidate for specialisation + target, no times */
};

/* what makes two devices the same for a record; hard parts must match, soft parts only lower the rung */
struct fingerprint {
    char target[TARGET_TEXT_BYTES];
    int32_t compute_units;
    uint64_t shared_bytes;
    uint64_t memory_bytes;     /* rounded to GiB in the folder's name */
    char driver[64];           /* soft */
    int32_t power_limit_watts; /* soft */
};

struct record {
    enum record_kind kind;
    char problem[PROBLEM_TEXT_BYTES]; /* canonical */
    char specialisation[PROBLEM_TEXT_BYTES];
    char shape[PROBLEM_TEXT_BYTES];
    struct fingerprint device; /* default records: target only, rest 0 */
    char device_name[128];
    char candidate[RECORD_CANDIDATE_BYTES]; /* full name */
    struct digest object;
    char compiler[64];
    char identity[DIGEST_HEX_BYTES];
    char template_digest[DIGEST_HEX_BYTES];
    struct launch launch;
    struct schema *schema;      /* user families: heap copy, owned by the record; NULL for built-in */
    double winner_microseconds; /* 0: not timed (default records, host) */
    double default_microseconds;
    int tried, verified, rejected, timed;
    char run[33];    /* run id, 32 hex */
    bool complete;   /* false: the run ended before its strategy did */
    int64_t created; /* seconds since 1970 */
};

void record_free(struct record *record); /* frees what it owns, not itself */

attune_status record_to_json(const struct record *record, struct buffer *json, struct error *error);
/* every field checked: types, ranges, finite times, launch descriptor, schema, sizes */
/* ATTUNE_CORRUPT for what fails; ATTUNE_UNSUPPORTED for a whole record of another format version */
attune_status record_from_json(const char *json, size_t bytes, struct record *record, struct error *error);

/* folder names: `gfx906-60cu-64k-16g` for tuned, `default-gfx906` for default records; ':' and '+' never occur */
void record_device_folder(const struct record *record, char folder[128]);
void fingerprint_folder(const struct fingerprint *fingerprint, char folder[128]);
void default_folder(const struct target *target, char folder[128]);

void record_new_run(char run[33]); /* 128 random bits */

#endif
