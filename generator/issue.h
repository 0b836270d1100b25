/* issue.h - the hottest loop of a kernel and what one iteration of it costs by published issue rates.
 *
 * A bound, not a prediction: each unit's cycles are added up as if the others were never waited for, so the unit with
 * the most cycles says what no schedule can beat. Memory beyond LDS, bank conflicts and latency are not in it.
 *
 * Which loop: loops are found in the flow of control, not by backward branches, for compilers put cold blocks behind. A
 * loop inside another that provably runs a constant number of times is counted in it that often. Of the others, one
 * that stands deeper outweighs what is around it by ISSUE_ASSUMED_TRIPS a level, and of several that do the same
 * multiplies the cheapest is taken: copies with masks run for a few tiles only. `why` says what was chosen from.
 *
 * Which instructions: those on the path through one iteration with the most multiplies, of such paths those that load
 * most (the next tile), of these the cheapest. Blocks beside it (masks, a skipped rescale) are told as `beside_cycles`.
 *
 * Cycles are those of one SIMD (NVIDIA: partition) for one wave. LDS cycles are bytes over the bytes a clock of the
 * unit, times the SIMDs that share it, so that all units' cycles compare.
 */
#ifndef GENERATOR_ISSUE_H
#define GENERATOR_ISSUE_H

#include "base/codeobject.h"
#include "generator/listing.h"

#include <jansson.h>

enum { ISSUE_ASSUMED_TRIPS = 8, ISSUE_LOOPS_MAX = 256, ISSUE_DEPTH_MAX = 12, ISSUE_PATTERN_BYTES = 48 };

enum issue_class {
    ISSUE_MATRIX,
    ISSUE_DOT2,
    ISSUE_FMA,
    ISSUE_ADD,
    ISSUE_EXP,
    ISSUE_CONVERT,
    ISSUE_EXCHANGE,
    ISSUE_MOVE,
    ISSUE_OTHER_VECTOR,
    ISSUE_SCALAR,
    ISSUE_LDS_READ,
    ISSUE_LDS_WRITE,
    ISSUE_LDS_EXCHANGE,
    ISSUE_GLOBAL_LOAD,
    ISSUE_DIRECT_LOAD,
    ISSUE_GLOBAL_STORE,
    ISSUE_FLAT,
    ISSUE_SCRATCH,
    ISSUE_BARRIER,
    ISSUE_WAIT,
    ISSUE_BRANCH,
    ISSUE_CLASSES
};
const char *issue_class_name(enum issue_class class);

enum issue_unit {
    ISSUE_UNIT_VECTOR,
    ISSUE_UNIT_TRANS,
    ISSUE_UNIT_INTEGER,
    ISSUE_UNIT_PORT,
    ISSUE_UNIT_SCALAR,
    ISSUE_UNIT_MATRIX,
    ISSUE_UNIT_LDS,
    ISSUE_UNITS
};
const char *issue_unit_name(enum issue_unit unit);

struct issue_rule {
    char pattern[ISSUE_PATTERN_BYTES]; /* `*` stands for any text */
    enum issue_class class;
    double cycles[ISSUE_UNITS];
    double products; /* multiply-adds of a wave */
    int bytes;       /* a lane, 0 to 16 */
    bool unknown;    /* no published cycles */
};

/* generator/lua/issue_rates.lua's rules for a target, and what targets.lua says of its units */
struct issue_rates {
    char generation[48];
    struct issue_rule *rules;
    int rule_count;
    double peak; /* multiply-adds a clock and SIMD, f16 with f32 accumulation, by the target's best instruction */
    char peak_source[320];
    int wave, simds, max_waves, max_blocks;
    int unit_lds_bytes, lds_bytes_a_clock;
    int lds_granule, lds_reserved; /* a block's bytes are rounded up to the one, after the other was added */
};

struct generator;
struct target;
/* ATTUNE_UNSUPPORTED for a target without rates. Free with issue_rates_free. */
attune_status issue_rates_load(struct generator *generator, const struct target *target, struct issue_rates *rates,
                               struct error *error);
void issue_rates_free(struct issue_rates *rates);
/* the first rule that fits, NULL: none */
const struct issue_rule *issue_rule_find(const struct issue_rates *rates, struct slice mnemonic);

/* what some instructions cost, each counted as often as it runs */
struct issue_totals {
    double count[ISSUE_CLASSES];
    double
        class_cycles[ISSUE_CLASSES]; /* of the vector unit; of the matrix unit for ISSUE_MATRIX, of its own for exp */
    double cycles[ISSUE_UNITS];
    double products[3];                                                   /* by ISSUE_MATRIX, ISSUE_DOT2, ISSUE_FMA */
    double lds_read[17], lds_write[17], global_load[17], direct_load[17]; /* instructions by bytes a lane */
    double unknown;                                                       /* instructions without published cycles */
};

struct issue_loop {
    uint64_t begin, end; /* addresses of the first and the last instruction in the text */
    int parent;          /* index of the loop around it, -1 */
    int depth;           /* loops around it that it is not counted in */
    int trips;           /* a constant, 0 unknown */
    bool counted;        /* in its parent, trips times */
    int instructions;    /* of the text */
    double beside_cycles;
    struct issue_totals totals; /* one iteration, with the loops counted in it */
};

struct issue_report {
    struct issue_loop loops[ISSUE_LOOPS_MAX];
    int loop_count;
    int hottest;               /* index, -1: no loop: `loops` is empty and `whole` is all there is */
    struct issue_totals whole; /* every instruction once */
    enum issue_class multiply; /* what does the products: ISSUE_MATRIX, ISSUE_DOT2 or ISSUE_FMA */
    char why[320];
};

/* ATTUNE_UNSUPPORTED past the limits above. About 500 KiB: not for the stack. */
attune_status issue_analyse(const struct listing *listing, const struct issue_rates *rates, struct issue_report *report,
                            struct error *error);

/* waves a SIMD that whole blocks leave, and what registers, LDS and the target would allow alone; below 1 where a block
 * has fewer waves than there are SIMDs */
struct issue_occupancy {
    double waves, by_registers, by_lds, by_target;
};
attune_status issue_occupancy(struct generator *generator, const struct target *target, const struct issue_rates *rates,
                              const struct resources *resources, int threads, int dynamic_shared_bytes,
                              struct issue_occupancy *occupancy, struct error *error);

/* what bounds one iteration */
struct issue_bound {
    enum issue_unit unit;
    double cycles;
    double share_of_peak;  /* products over what the target's best instruction does in these cycles */
    double multiply_share; /* cycles of the multiplies over the vector unit's, or the matrix unit's if it has more */
};
/* of the hottest loop, or of the whole code where there is none; `waves` a SIMD: below 1 some SIMDs have nothing to do
 */
const struct issue_totals *issue_hottest(const struct issue_report *report);
struct issue_bound issue_bound_of(const struct issue_report *report, const struct issue_rates *rates, double waves);

/* {"why","loops":[...],"generation","peak",...}: what `attune compile --asm --loop --json` prints. New reference, NULL
 * without memory */
json_t *issue_report_to_json(const struct issue_report *report, const struct issue_rates *rates,
                             const struct issue_occupancy *occupancy);

#endif
