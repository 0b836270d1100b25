/* issue_trips.c - loops of NVIDIA code that run a constant number of times: a counter that starts with a constant, is
 * stepped by one and compared with one, and no other way out. */
#include "generator/issue_private.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { TRIPS_MAX = 4096 };

enum relation { EQUAL, UNEQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, NO_RELATION };

struct counter {
    struct slice name; /* s4, R12, UR4 */
    int64_t start, step, limit;
    enum relation relation; /* of counter and limit, for the compare to hold */
    bool unsigned_compare;
    int compare, update; /* instructions */
};

/* the number behind the letters of a register's name, -1: no single register */
static int number_of(struct slice name, struct slice *letters)
{
    size_t at = 0;
    while (at < name.length && isalpha((unsigned char)name.text[at])) {
        at++;
    }
    *letters = (struct slice){name.text, at};
    if (at == 0 || at == name.length || name.length - at > 3) {
        return -1;
    }
    int number = 0;
    for (; at < name.length; at++) {
        if (!isdigit((unsigned char)name.text[at])) {
            return -1;
        }
        number = 10 * number + (name.text[at] - '0');
    }
    return number;
}

static struct slice plain(struct slice operand)
{
    const char *dot = operand.length > 0 ? memchr(operand.text, '.', operand.length) : NULL;
    return dot != NULL ? (struct slice){operand.text, (size_t)(dot - operand.text)} : operand;
}

static bool same(struct slice a, struct slice b)
{
    return a.length == b.length && (a.length == 0 || memcmp(a.text, b.text, a.length) == 0);
}

/* NVIDIA writes pairs and quads through their first register's name: these mnemonics show by their width */
static int nvidia_width(struct slice mnemonic)
{
    for (size_t i = 0; i + 3 <= mnemonic.length; i++) {
        const char *at = mnemonic.text + i;
        if (memcmp(at, "128", 3) == 0) {
            return 4;
        }
        if (memcmp(at, ".64", 3) == 0 || (i + 4 <= mnemonic.length && memcmp(at, "WIDE", 4) == 0)) {
            return 2;
        }
    }
    return slice_begins(mnemonic, "HMMA") || slice_begins(mnemonic, "LDSM") ? 4
           : slice_begins(mnemonic, "CS2R") || slice_begins(mnemonic, "D")  ? 2
                                                                            : 1;
}

static bool writes(const struct instruction *instruction, struct slice name)
{
    struct slice mnemonic = instruction->mnemonic;
    struct slice letters, own, first = plain(slice_operand(instruction->operands, 0));
    int wanted = number_of(name, &letters), number = number_of(first, &own);
    if (slice_begins(mnemonic, "ST") || slice_begins(mnemonic, "RED") || slice_begins(mnemonic, "BRA") || number < 0) {
        return false;
    }
    return same(letters, own) && wanted >= number && wanted < number + nvidia_width(mnemonic);
}

/* ---- the compare that decides ---- */

static enum relation relation_named(const char *two)
{
    static const struct {
        const char *name;
        enum relation relation;
    } names[] = {{"eq", EQUAL},      {"lg", UNEQUAL}, {"ne", UNEQUAL},      {"lt", LESS},
                 {"le", LESS_EQUAL}, {"gt", GREATER}, {"ge", GREATER_EQUAL}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (tolower((unsigned char)two[0]) == names[i].name[0] && tolower((unsigned char)two[1]) == names[i].name[1]) {
            return names[i].relation;
        }
    }
    return NO_RELATION;
}

/* the ISETP that wrote the branch's predicate: "ISETP.NE.AND P0, PT, R98, 0x20, PT" */
static bool nvidia_compare(const struct listing *listing, const bool *inside, int branch, struct slice predicate,
                           struct counter *counter)
{
    for (int i = branch - 1; i >= 0 && inside[i]; i--) {
        const struct instruction *at = &listing->items[i];
        if (!same(slice_operand(at->operands, 0), predicate) && !same(slice_operand(at->operands, 1), predicate)) {
            continue;
        }
        size_t skip = slice_begins(at->mnemonic, "ISETP.") ? 6 : slice_begins(at->mnemonic, "UISETP.") ? 7 : 0;
        if (skip == 0 || at->mnemonic.length < skip + 2 ||
            !slice_is(slice_operand(at->operands, 1), skip == 7 ? "UPT" : "PT") || at->predicate.length > 0) {
            return false;
        }
        const char *rest = at->mnemonic.text + skip + 2;
        counter->relation = relation_named(at->mnemonic.text + skip);
        counter->unsigned_compare = at->mnemonic.length >= skip + 6 && memcmp(rest, ".U32", 4) == 0;
        counter->name = plain(slice_operand(at->operands, 2));
        counter->compare = i;
        return counter->relation != NO_RELATION && slice_number(slice_operand(at->operands, 3), &counter->limit);
    }
    return false;
}

/* ---- start and step ---- */

/* counter = counter + constant */
static bool step_of(const struct instruction *at, struct slice name, int64_t *step)
{
    struct slice mnemonic = at->mnemonic;
    struct slice second = plain(slice_operand(at->operands, 1));
    if (at->predicate.length == 0 &&
        (slice_begins(mnemonic, "IADD3") || slice_begins(mnemonic, "UIADD3") || slice_is(mnemonic, "VIADD"))) {
        int skip = slice_is(second, "PT") || slice_is(second, "UPT") ? 2 : 0;
        struct slice last = slice_operand(at->operands, 3 + skip);
        return same(plain(slice_operand(at->operands, 1 + skip)), name) &&
               slice_number(slice_operand(at->operands, 2 + skip), step) &&
               (last.length == 0 || slice_is(last, "RZ") || slice_is(last, "URZ"));
    }
    return false;
}

static bool start_of(const struct instruction *at, int64_t *start)
{
    struct slice mnemonic = at->mnemonic, second = slice_operand(at->operands, 1);
    *start = 0;
    if (at->predicate.length > 0) {
        return false;
    }
    if (slice_begins(mnemonic, "MOV") || slice_begins(mnemonic, "UMOV")) {
        return slice_is(second, "RZ") || slice_is(second, "URZ") || slice_number(second, start);
    }
    if (slice_begins(mnemonic, "CS2R")) {
        return slice_is(second, "SRZ");
    }
    struct slice third = slice_operand(at->operands, 2), fourth = slice_operand(at->operands, 3);
    if (slice_begins(mnemonic, "IMAD.MOV")) {
        return slice_is(second, "RZ") && slice_is(third, "RZ") &&
               (slice_is(fourth, "RZ") || slice_number(fourth, start));
    }
    return slice_begins(mnemonic, "HFMA2") && slice_is(second, "-RZ") && slice_is(third, "RZ") &&
           slice_is(fourth, "0") && slice_is(slice_operand(at->operands, 4), "0");
}

static bool find_step(const struct listing *listing, const bool *inside, struct counter *counter)
{
    counter->update = -1;
    for (int i = 0; i < listing->count; i++) {
        if (!inside[i] || !writes(&listing->items[i], counter->name)) {
            continue;
        }
        if (counter->update >= 0 || !step_of(&listing->items[i], counter->name, &counter->step)) {
            return false;
        }
        counter->update = i;
    }
    return counter->update >= 0 && counter->step != 0;
}

/* the last write before the loop in the text, if no branch leads in behind it */
static bool find_start(const struct listing *listing, const bool *inside, int header, struct counter *counter)
{
    int at = header - 1;
    while (at >= 0 && !inside[at] && listing->items[at].falls_through && !writes(&listing->items[at], counter->name)) {
        at--;
    }
    if (at < 0 || inside[at] || !listing->items[at].falls_through || !start_of(&listing->items[at], &counter->start)) {
        return false;
    }
    for (int i = 0; i < listing->count; i++) {
        int target = listing->items[i].target;
        if (listing->items[i].branches && target > at && target <= header && (i < at || i >= header) && !inside[i]) {
            return false;
        }
    }
    return true;
}

static bool holds(const struct counter *counter, int64_t value)
{
    int64_t a = counter->unsigned_compare ? (int64_t)(uint32_t)value : (int64_t)(int32_t)(uint32_t)value;
    int64_t b =
        counter->unsigned_compare ? (int64_t)(uint32_t)counter->limit : (int64_t)(int32_t)(uint32_t)counter->limit;
    switch (counter->relation) {
    case EQUAL:
        return a == b;
    case UNEQUAL:
        return a != b;
    case LESS:
        return a < b;
    case LESS_EQUAL:
        return a <= b;
    case GREATER:
        return a > b;
    case GREATER_EQUAL:
        return a >= b;
    case NO_RELATION:
        break;
    }
    return false;
}

int counted_trips(const struct listing *listing, const bool *inside, int header, int exit)
{
    const struct instruction *branch = &listing->items[exit];
    struct counter counter = {.compare = -1};
    struct slice predicate = branch->predicate;
    if (slice_begins(branch->mnemonic, "BRA.U") ||
        (predicate.length == 0 && slice_operand(branch->operands, 1).length > 0)) {
        predicate = slice_operand(branch->operands, 0);
    } else if (slice_operand(branch->operands, 1).length > 0) {
        return 0;
    }
    bool on = predicate.length == 0 || predicate.text[0] != '!'; /* the branch goes when the compare is so */
    if (!on) {
        predicate = (struct slice){predicate.text + 1, predicate.length - 1};
    }
    bool found = predicate.length > 1 && nvidia_compare(listing, inside, exit, predicate, &counter);
    if (!found || !find_step(listing, inside, &counter) || !find_start(listing, inside, header, &counter)) {
        return 0;
    }
    bool goes_on = branch->target >= 0 && inside[branch->target] ? on : !on; /* what the compare is while it goes on */
    for (int trips = 1; trips <= TRIPS_MAX; trips++) {
        int64_t steps = counter.update < counter.compare ? trips : trips - 1;
        if (holds(&counter, counter.start + steps * counter.step) != goes_on) {
            return trips;
        }
    }
    return 0;
}
