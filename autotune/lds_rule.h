/* lds_rule.h - what one access of a wave to shared memory costs by a target's rule of banks and phases.
 *
 * A rule is data: generator/lua/lds_rules.lua says which lanes are served together and how that is known. In a phase
 * each bank gives one 4-byte word a clock; what several lanes want of one word counts once. Lanes of different phases
 * never meet.
 */
#ifndef AUTOTUNE_LDS_RULE_H
#define AUTOTUNE_LDS_RULE_H

#include "base/error.h"
#include "runtime/host_trace.h"

#include <jansson.h>

enum { LDS_LANES_MAX = 64, LDS_BANKS_MAX = 128, LDS_WIDTHS = 3 };

struct lds_phases {
    int count;                          /* of phases */
    unsigned char phase[LDS_LANES_MAX]; /* by lane */
    char known[16];                     /* measured, published or assumed */
};

struct lds_rule {
    char name[32];
    char status[16]; /* the weakest `known` */
    int banks;
    int lanes;                                             /* of a wave */
    struct lds_phases read[LDS_WIDTHS], write[LDS_WIDTHS]; /* of 4, 8 and 16 bytes a lane */
};

/* `facts` are a target's, as generator_target_facts gives them; ATTUNE_INVALID names what is missing or contradicts
 * itself: every lane must be in exactly one phase. */
attune_status lds_rule_read(const json_t *facts, struct lds_rule *rule, struct error *error);

/* the phases of an access of such a kind and width; narrower than 4 bytes counts as 4, wider than 16 as 16 */
const struct lds_phases *lds_rule_phases(const struct lds_rule *rule, enum host_access kind, uint32_t bytes);

struct lds_cost {
    uint32_t ideal;  /* clocks if every phase spread its words over all banks */
    uint32_t cycles; /* clocks as the words lie: cycles - ideal are lost to conflicts */
};
struct lds_cost lds_rule_cost(const struct lds_rule *rule, const struct host_wave_access *access);

#endif
