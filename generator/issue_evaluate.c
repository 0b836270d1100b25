/* issue_evaluate.c - how often a loop of AMD code runs, by running what is constant in it.
 *
 * Compilers turn a loop over two halves into flags: a mask that is -1 the first time and 0 the second, passed through
 * v_cndmask, v_cmp and s_and with exec. So the scalar and uniform part of the code is evaluated, from the straight line
 * before the loop on: registers and condition codes are known or not, an instruction that is not understood makes what
 * it writes unknown, and a way out on an unknown condition ends the attempt. Masks stand for waves with all lanes: only
 * whether one is zero decides a branch.
 */
#include "generator/issue_private.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_MAX = 100000, REGISTERS = 640, VECTOR = 128, VCC = 106 }; /* s0 to s127, then v0 on */

struct machine {
    int32_t value[REGISTERS];
    bool known[REGISTERS];
    bool scc, scc_known;
};

/* registers [first, first + count), or a constant with count 0; exec is the constant -1 */
struct operand {
    int first, count;
    int64_t constant;
    bool valid;
};

static int digits(struct slice text, size_t *at)
{
    int number = 0;
    size_t begin = *at;
    while (*at < text.length && isdigit((unsigned char)text.text[*at]) && number < REGISTERS) {
        number = 10 * number + (text.text[(*at)++] - '0');
    }
    return *at > begin ? number : -1;
}

static struct operand operand_of(struct slice text)
{
    struct operand operand = {.first = -1};
    if (slice_is(text, "vcc")) {
        return (struct operand){VCC, 2, 0, true};
    }
    if (slice_is(text, "vcc_lo") || slice_is(text, "vcc_hi")) {
        return (struct operand){slice_is(text, "vcc_lo") ? VCC : VCC + 1, 1, 0, true};
    }
    if (slice_is(text, "exec") || slice_is(text, "exec_lo")) {
        return (struct operand){-1, 0, -1, true};
    }
    if (slice_number(text, &operand.constant)) {
        operand.valid = true;
        return operand;
    }
    if (text.length < 2 || (text.text[0] != 's' && text.text[0] != 'v')) {
        return operand;
    }
    size_t at = text.text[1] == '[' ? 2 : 1;
    int limit = text.text[0] == 's' ? VECTOR : REGISTERS - VECTOR;
    int first = digits(text, &at), last = first;
    if (first >= 0 && at < text.length && text.text[at] == ':') {
        at++;
        last = digits(text, &at);
    }
    if (first < 0 || last < first || last >= limit) {
        return operand;
    }
    return (struct operand){first + (text.text[0] == 'v' ? VECTOR : 0), last - first + 1, 0, true};
}

static struct operand operand_at(const struct instruction *instruction, int index)
{
    return operand_of(slice_operand(instruction->operands, index));
}

/* masks are read as one number: sign-extended halves that agree, or 64 bits */
static bool read(const struct machine *machine, struct operand operand, int64_t *value)
{
    if (!operand.valid || operand.count > 2) {
        return false;
    }
    if (operand.count == 0) {
        *value = operand.constant;
        return true;
    }
    for (int i = 0; i < operand.count; i++) {
        if (!machine->known[operand.first + i]) {
            return false;
        }
    }
    *value = machine->value[operand.first];
    if (operand.count == 2) {
        *value = (int64_t)((uint64_t)(uint32_t)machine->value[operand.first + 1] << 32 |
                           (uint32_t)machine->value[operand.first]);
    }
    return true;
}

static void forget(struct machine *machine, struct operand operand)
{
    for (int i = 0; operand.valid && i < operand.count; i++) {
        machine->known[operand.first + i] = false;
    }
}

static void write(struct machine *machine, struct operand operand, bool known, int64_t value)
{
    forget(machine, operand);
    for (int i = 0; operand.valid && i < operand.count && i < 2 && known; i++) {
        machine->value[operand.first + i] = (int32_t)(uint32_t)((uint64_t)value >> (32 * i));
        machine->known[operand.first + i] = true;
    }
}

/* ---- instructions ---- */

/* "lt", "ge"... as printed in s_cmp_lt_u32 and v_cmp_lt_i32 */
static bool compare(const char *relation, bool is_unsigned, int64_t left, int64_t right, bool *holds)
{
    int64_t a = is_unsigned ? (int64_t)(uint32_t)left : (int64_t)(int32_t)(uint32_t)left;
    int64_t b = is_unsigned ? (int64_t)(uint32_t)right : (int64_t)(int32_t)(uint32_t)right;
    char first = relation[0], second = relation[1];
    if (first == 'e' && second == 'q') {
        *holds = a == b;
    } else if ((first == 'l' && second == 'g') || (first == 'n' && second == 'e')) {
        *holds = a != b;
    } else if (first == 'l' && (second == 't' || second == 'e')) {
        *holds = second == 't' ? a < b : a <= b;
    } else if (first == 'g' && (second == 't' || second == 'e')) {
        *holds = second == 't' ? a > b : a >= b;
    } else {
        return false;
    }
    return true;
}

/* s_cmp_REL_TYPE, s_cmpk_REL_TYPE, v_cmp_REL_TYPE_e32: of 32-bit whole numbers */
static bool run_compare(const struct machine *machine, const struct instruction *at, int operands_from, bool *holds)
{
    struct slice name = at->mnemonic;
    size_t skip = slice_begins(name, "s_cmpk_") ? 7 : 6;
    int64_t left, right;
    if (name.length < skip + 6 || (name.text[skip + 3] != 'u' && name.text[skip + 3] != 'i') ||
        memcmp(name.text + skip + 4, "32", 2) != 0) {
        return false;
    }
    return read(machine, operand_at(at, operands_from), &left) &&
           read(machine, operand_at(at, operands_from + 1), &right) &&
           compare(name.text + skip, name.text[skip + 3] == 'u', left, right, holds);
}

/* the value of two-operand scalar arithmetic; false where it is none of these */
static bool arithmetic(struct slice name, int64_t a, int64_t b, int64_t *value)
{
    uint64_t x = (uint64_t)a, y = (uint64_t)b;
    if (slice_begins(name, "s_and_b")) {
        x &= y;
    } else if (slice_begins(name, "s_or_b")) {
        x |= y;
    } else if (slice_begins(name, "s_xor_b")) {
        x ^= y;
    } else if (slice_begins(name, "s_andn2_b") || slice_begins(name, "s_and_not1_b")) {
        x &= ~y;
    } else if (slice_begins(name, "s_orn2_b") || slice_begins(name, "s_or_not1_b")) {
        x |= ~y;
    } else if (slice_is(name, "s_add_i32") || slice_is(name, "s_add_u32") || slice_begins(name, "s_add_co_")) {
        x += y;
    } else if (slice_is(name, "s_sub_i32") || slice_is(name, "s_sub_u32") || slice_begins(name, "s_sub_co_")) {
        x -= y;
    } else if (slice_is(name, "s_lshl_b32")) {
        x = (uint32_t)x << (y & 31);
    } else if (slice_is(name, "s_lshr_b32")) {
        x = (uint32_t)x >> (y & 31);
    } else if (slice_is(name, "s_mul_i32")) {
        x *= y;
    } else {
        return false;
    }
    *value = (int64_t)x;
    return true;
}

/* scalar instructions that leave the condition code alone */
static bool keeps_condition(struct slice name)
{
    static const char *const kept[] = {"s_wait",    "s_nop",  "s_barrier", "s_mov",    "s_load",
                                       "s_mul_",    "s_cmov", "s_cselect", "s_delay",  "s_clause",
                                       "s_setprio", "s_pack", "s_buffer",  "s_sleep",  "s_cbranch",
                                       "s_branch",  "s_sext", "s_brev_",   "s_bitset", "s_sched"};
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        if (slice_begins(name, kept[i])) {
            return true;
        }
    }
    return !slice_begins(name, "s_");
}

static bool is_logic(struct slice name)
{
    return slice_begins(name, "s_and") || slice_begins(name, "s_or") || slice_begins(name, "s_xor");
}

static void run_scalar(struct machine *machine, const struct instruction *at)
{
    struct slice name = at->mnemonic;
    struct operand to = operand_at(at, 0);
    int64_t a = 0, b = 0, value = 0;
    bool first = read(machine, operand_at(at, 1), &a), second = read(machine, operand_at(at, 2), &b);
    bool known = false;
    if (slice_begins(name, "s_cmp")) {
        machine->scc_known = run_compare(machine, at, 0, &machine->scc);
        return;
    }
    if (slice_begins(name, "s_addk_")) {
        known = read(machine, to, &value) && first;
        value += (int16_t)a;
    } else if (slice_begins(name, "s_mov_b") || slice_is(name, "s_movk_i32")) {
        known = first;
        value = slice_is(name, "s_movk_i32") ? (int16_t)a : a;
    } else if (slice_begins(name, "s_cselect_b")) {
        known = machine->scc_known && (machine->scc ? first : second);
        value = machine->scc ? a : b;
    } else if (first && second) {
        known = arithmetic(name, a, b, &value);
    }
    write(machine, to, known, value);
    if (!keeps_condition(name)) {
        machine->scc_known = known && is_logic(name);
        machine->scc = to.count == 2 ? value != 0 : (uint32_t)value != 0;
    }
}

/* the mask of carries and the like that some vector instructions write behind their result: vcc, a pair, or one
 * register of waves of 32 that only the mnemonic tells from an operand */
static struct operand second_result(const struct instruction *at)
{
    static const char *const writers[] = {"v_*_co_*", "v_mad_*64_*", "v_div_scale_*", "v_addc*", "v_subb*"};
    struct operand operand = operand_at(at, 1);
    bool writes = operand.valid && operand.count == 2 && operand.first < VECTOR;
    writes |= operand.valid && operand.count > 0 && operand.first >= VCC && operand.first <= VCC + 1;
    for (size_t i = 0; i < sizeof writers / sizeof writers[0]; i++) {
        writes |= slice_fits(writers[i], at->mnemonic);
    }
    operand.valid = operand.valid && writes && slice_begins(at->mnemonic, "v_");
    return operand;
}

static void run_vector(struct machine *machine, const struct instruction *at)
{
    struct slice name = at->mnemonic;
    struct operand to = operand_at(at, 0);
    int64_t a = 0, b = 0, mask = 0;
    bool first = read(machine, operand_at(at, 1), &a), second = read(machine, operand_at(at, 2), &b);
    if (slice_begins(name, "v_cmp_")) {
        bool holds = false;
        bool known = run_compare(machine, at, 1, &holds);
        write(machine, to, known, holds ? -1 : 0);
    } else if ((slice_is(name, "v_cndmask_b32_e32") || slice_is(name, "v_cndmask_b32_e64")) &&
               read(machine, operand_at(at, 3), &mask)) {
        write(machine, to, mask != 0 ? second : first, mask != 0 ? b : a);
    } else if (slice_is(name, "v_mov_b32_e32")) {
        write(machine, to, first, a);
    } else {
        forget(machine, to);
        forget(machine, second_result(at));
    }
}

static void run(struct machine *machine, const struct instruction *at)
{
    if (slice_begins(at->mnemonic, "s_")) {
        run_scalar(machine, at);
    } else if (slice_begins(at->mnemonic, "v_dual_")) { /* two results: the second one's name is behind "::" */
        memset(machine->known + VECTOR, 0, (REGISTERS - VECTOR) * sizeof machine->known[0]);
    } else if (slice_begins(at->mnemonic, "v_swap")) {
        forget(machine, operand_at(at, 0));
        forget(machine, operand_at(at, 1));
    } else if (slice_begins(at->mnemonic, "v_")) {
        run_vector(machine, at);
    } else {
        forget(machine, operand_at(at, 0));
    }
}

/* ---- the flow ---- */

/* does the branch go? false in `known` when that depends on something unknown */
static bool goes(const struct machine *machine, struct slice name, bool *known)
{
    int64_t mask = 0;
    *known = true;
    if (slice_is(name, "s_branch")) {
        return true;
    }
    if (slice_is(name, "s_cbranch_scc0") || slice_is(name, "s_cbranch_scc1")) {
        *known = machine->scc_known;
        return machine->scc == (name.text[name.length - 1] == '1');
    }
    if (slice_is(name, "s_cbranch_vccz") || slice_is(name, "s_cbranch_vccnz")) {
        /* of waves of 32 the low half alone is written */
        *known = read(machine, (struct operand){VCC, 1, 0, true}, &mask);
        return (mask == 0) == slice_is(name, "s_cbranch_vccz");
    }
    *known = false;
    return false;
}

/* what both ways of a branch around [from, to) leave unknown; false when code in it may go elsewhere */
static bool join(struct machine *machine, const struct listing *listing, int from, int to)
{
    for (int i = from; i < to; i++) {
        const struct instruction *at = &listing->items[i];
        if (!at->falls_through || (at->branches && (at->target <= i || at->target > to))) {
            return false;
        }
        forget(machine, operand_at(at, 0));
        forget(machine, second_result(at));
        if (slice_begins(at->mnemonic, "v_dual_") || slice_begins(at->mnemonic, "v_swap")) {
            memset(machine->known + VECTOR, 0, (REGISTERS - VECTOR) * sizeof machine->known[0]);
        }
        machine->scc_known =
            machine->scc_known && keeps_condition(at->mnemonic) && !slice_begins(at->mnemonic, "s_cmp");
    }
    return true;
}

/* the first instruction from which the text runs straight into `header`: no branch leads in behind it */
static int straight_from(const struct listing *listing, const bool *inside, int header)
{
    int from = header;
    while (from > 0 && !inside[from - 1] && listing->items[from - 1].falls_through) {
        from--;
    }
    for (int i = 0; i < listing->count; i++) {
        int target = listing->items[i].target;
        if (!inside[i] && target > from && target <= header) {
            from = target;
        }
    }
    return from;
}

int evaluate_trips(const struct listing *listing, const bool *inside, int header)
{
    struct machine *machine = calloc(1, sizeof *machine);
    int trips = 0, at = header, from = straight_from(listing, inside, header);
    bool out = machine == NULL || from == header;
    for (int i = from; i < header && !out; i++) {
        run(machine, &listing->items[i]);
    }
    for (int steps = 0; !out; steps++) {
        const struct instruction *now = &listing->items[at];
        bool known, taken = now->branches && goes(machine, now->mnemonic, &known);
        int next = at + 1;
        trips += at == header;
        if (steps == STEPS_MAX) {
            trips = 0;
            break;
        }
        if (!now->branches) {
            run(machine, now);
        } else if (!known) {
            /* both ways must stay in the loop, and meet where the branch goes */
            bool around = now->target > at && next < listing->count && inside[now->target] && inside[next];
            if (!around || !join(machine, listing, next, now->target)) {
                trips = 0;
                break;
            }
            next = now->target;
        } else if (taken) {
            next = now->target;
        }
        if (next < 0 || next >= listing->count || (!now->branches && !now->falls_through)) {
            trips = 0;
            break;
        }
        at = next;
        out = !inside[at];
    }
    free(machine);
    return trips;
}
