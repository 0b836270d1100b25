/* choose.c - which stored record serves a problem: exact, near, default, in this order (docs/runtime.md: "From a
 * problem to a plan"). */
#include "runtime/context.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void choices_free(struct choices *choices)
{
    for (int i = 0; i < choices->count; i++) {
        free(choices->items[i]);
    }
    for (int i = 0; i < choices->blocked; i++) {
        free(choices->passed[i]);
    }
    free(choices->passed);
    free(choices->items);
    memset(choices, 0, sizeof *choices);
}

/* ------------------------------------------------------------------------------------------------ distance */

static bool is_batch_invariant(const struct problem *problem)
{
    int field = schema_find(problem->schema, "batch_invariant");
    return problem->schema->built_in && field >= 0 && problem->values[field].integer == 1;
}

static double log_ratio(double a, double b)
{
    /* a size of 0 counts as 1: there is no work either way */
    return fabs(log2((a < 1 ? 1 : a) / (b < 1 ? 1 : b)));
}

static double size_of(const struct problem *problem, const char *field)
{
    return (double)problem_integer(problem, field);
}

/* attention: batch and heads are one quantity, the blocks beside each other; with batch_invariant the batch is kept
 * out. User families: every size on its own. 0 iff the shapes are equal in what counts. */
static double distance_between(const struct problem *a, const struct problem *b)
{
    const struct schema *schema = a->schema;
    double sum = 0;
    if (schema->built_in) {
        bool invariant = is_batch_invariant(a);
        double parallel_a = size_of(a, "heads") * (invariant ? 1 : size_of(a, "batch"));
        double parallel_b = size_of(b, "heads") * (invariant ? 1 : size_of(b, "batch"));
        return log_ratio(parallel_a, parallel_b) + log_ratio(size_of(a, "seqlen_q"), size_of(b, "seqlen_q")) +
               log_ratio(size_of(a, "seqlen_k"), size_of(b, "seqlen_k"));
    }
    for (int i = 0; i < schema->field_count; i++) {
        if (schema->fields[i].role == FIELD_SIZE && schema->fields[i].kind == FIELD_INTEGER) {
            sum += log_ratio((double)a->values[i].integer, (double)b->values[i].integer);
        }
    }
    return sum;
}

/* equal run-time sizes, but for the batch where it must not count */
static bool same_shape(const struct problem *a, const struct problem *b)
{
    bool invariant = is_batch_invariant(a);
    for (int i = 0; i < a->schema->field_count; i++) {
        const struct field *field = &a->schema->fields[i];
        if (field->role == FIELD_SIZE && a->values[i].integer != b->values[i].integer &&
            !(invariant && strcmp(field->name, "batch") == 0)) {
            return false;
        }
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------ fitness */

attune_status choice_fits(const attune_device *device, const struct record *record, const struct problem *problem,
                          struct error *error)
{
    const struct launch *launch = &record->launch;
    struct target code;
    attune_status status = target_parse(record->device.target, &code, error);
    if (status == ATTUNE_OK) {
        status = target_accepts(&device->facts.target, &code, error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    uint64_t shared = (uint64_t)launch->static_shared_bytes + launch->dynamic_shared_bytes;
    if (shared > device->facts.shared_bytes || launch->threads > (uint32_t)device->facts.max_threads) {
        return error_set(error, ATTUNE_UNSUPPORTED,
                         "%s needs %u threads and %llu bytes of shared memory a block; the device has %d and %llu",
                         record->candidate, launch->threads, (unsigned long long)shared, device->facts.max_threads,
                         (unsigned long long)device->facts.shared_bytes);
    }
    for (int i = 0; i < launch->fixed_count; i++) {
        int field = schema_find(problem->schema, launch->fixed[i].field);
        if (field < 0 || problem->values[field].integer != launch->fixed[i].value) {
            return error_set(error, ATTUNE_UNSUPPORTED, "%s was compiled for %s=%lld alone", record->candidate,
                             launch->fixed[i].field, (long long)launch->fixed[i].value);
        }
    }
    return ATTUNE_OK;
}

static void fingerprint_of(const attune_device *device, struct fingerprint *fingerprint)
{
    memset(fingerprint, 0, sizeof *fingerprint);
    target_format(&device->facts.target, fingerprint->target);
    fingerprint->compute_units = device->facts.compute_units;
    fingerprint->shared_bytes = device->facts.shared_bytes;
    fingerprint->memory_bytes = device->facts.memory_bytes;
    snprintf(fingerprint->driver, sizeof fingerprint->driver, "%s", device->facts.driver_version);
    fingerprint->power_limit_watts = device->facts.power_limit_watts;
}

/* the soft part: times were taken under another driver or power limit */
static void check_soft(const attune_device *device, struct choice *choice)
{
    const struct fingerprint *then = &choice->record.device;
    if (strcmp(then->driver, device->facts.driver_version) != 0) {
        choice->stale = true;
        snprintf(choice->note, sizeof choice->note, "tuned under driver %s, this one is %s", then->driver,
                 device->facts.driver_version);
    } else if (then->power_limit_watts != 0 && device->facts.power_limit_watts != 0 &&
               then->power_limit_watts != device->facts.power_limit_watts) {
        choice->stale = true;
        snprintf(choice->note, sizeof choice->note, "tuned at a power limit of %d W, it is %d W now",
                 then->power_limit_watts, device->facts.power_limit_watts);
    }
}

/* ------------------------------------------------------------------------------------------------ gathering */

/* highest rung; near: closest; complete runs; of incomplete ones who tried most; then the store's order (newest, then
 * by name) */
static int by_choice(const void *a, const void *b)
{
    const struct choice *x = *(struct choice *const *)a, *y = *(struct choice *const *)b;
    if (x->rung != y->rung) {
        return x->rung > y->rung ? -1 : 1;
    }
    if (x->distance != y->distance) {
        return x->distance < y->distance ? -1 : 1;
    }
    if (x->record.complete != y->record.complete) {
        return x->record.complete ? -1 : 1;
    }
    if (!x->record.complete && x->record.tried != y->record.tried) {
        return x->record.tried > y->record.tried ? -1 : 1;
    }
    return x->order < y->order ? -1 : x->order > y->order;
}

struct gathering {
    attune_device *device;
    const struct problem *problem;
    attune_rung lowest;
    const char *candidate;
    const char *identity; /* not NULL: only records of this compiler and of today's templates count */
    struct choices *choices;
    int capacity, order;
};

/* ATTUNE_STALE=retune: would the compiling half make this very object today? */
static attune_status check_current(const struct gathering *g, const struct record *record, const struct problem *its,
                                   bool *current, struct error *error)
{
    const struct jit_handler *jit = &g->device->context->jit;
    struct target target;
    *current = g->identity == NULL || strcmp(g->identity, record->identity) == 0;
    if (!*current || g->identity == NULL || jit->is_current == NULL) {
        return ATTUNE_OK;
    }
    attune_status status = target_parse(record->device.target, &target, error);
    return status == ATTUNE_OK
               ? jit->is_current(jit->data, its, &target, record->candidate, &record->object, current, error)
               : status;
}

bool choose_note_compiler(const attune_device *device, const struct record *record, char note[CHOICE_NOTE_BYTES])
{
    const attune_context *context = device->context;
    char here[DIGEST_HEX_BYTES];
    if (!context->has_jit || context->jit.identity_known == NULL || record->identity[0] == '\0' ||
        !context->jit.identity_known(context->jit.data, &device->facts.target, here) ||
        strcmp(here, record->identity) == 0) {
        return false;
    }
    size_t used = strlen(note);
    snprintf(note + used, CHOICE_NOTE_BYTES - used,
             "%smade by another build of the compiler (%s) than is here; ATTUNE_STALE=retune leaves it out",
             used > 0 ? "; " : "", record->compiler);
    return true;
}

/* what was found out since, or on the way to another shape */
static attune_status pass_over(struct choices *choices, const struct record *record, const struct blocked *blocked,
                               struct error *error)
{
    struct passed_over *passed = malloc(sizeof *passed);
    struct passed_over **grown =
        passed != NULL ? realloc(choices->passed, ((size_t)choices->blocked + 1) * sizeof(struct passed_over *)) : NULL;
    if (grown == NULL) {
        free(passed);
        return error_no_memory(error);
    }
    *passed = (struct passed_over){.record = *record, .blocked = *blocked};
    passed->record.schema = NULL;
    choices->passed = grown;
    grown[choices->blocked] = passed;
    if (choices->blocked++ == 0) {
        snprintf(choices->why_blocked, sizeof choices->why_blocked, "%.200s %s before: %.500s", record->candidate,
                 blocked->outcome, blocked->reason);
    }
    return ATTUNE_OK;
}

/* the record becomes a choice, or not; takes nothing */
static attune_status consider(struct gathering *g, const struct record *record, struct error *error)
{
    struct problem its;
    struct blocked blocked;
    if (store_blocked_get(g->device->context->store, &record->object, &blocked, NULL) == ATTUNE_OK) {
        return pass_over(g->choices, record, &blocked, error);
    }
    if ((g->candidate != NULL && strcmp(g->candidate, record->candidate) != 0) ||
        choice_fits(g->device, record, g->problem, NULL) != ATTUNE_OK ||
        problem_parse(g->problem->schema, record->problem, &its, NULL) != ATTUNE_OK) {
        return ATTUNE_OK;
    }
    bool current = true;
    attune_status status = check_current(g, record, &its, &current, error);
    if (status != ATTUNE_OK || !current) {
        return status;
    }
    if (g->choices->count == g->capacity) {
        int capacity = g->capacity > 0 ? 2 * g->capacity : 8;
        struct choice **grown = realloc(g->choices->items, (size_t)capacity * sizeof *grown);
        if (grown == NULL) {
            return error_no_memory(error);
        }
        g->choices->items = grown;
        g->capacity = capacity;
    }
    struct choice *choice = calloc(1, sizeof *choice);
    if (choice == NULL) {
        return error_no_memory(error);
    }
    choice->record = *record;
    choice->record.schema = NULL;
    choice->order = g->order++;
    choice->rung = ATTUNE_RUNG_DEFAULT;
    choice->distance = distance_between(g->problem, &its);
    if (record->kind == RECORD_TUNED) {
        check_soft(g->device, choice);
        choice->rung = same_shape(g->problem, &its) && !choice->stale ? ATTUNE_RUNG_EXACT : ATTUNE_RUNG_NEAR;
    }
    choice->other_compiler = choose_note_compiler(g->device, record, choice->note);
    if (choice->rung < g->lowest) {
        if (choice->rung > g->choices->best_dropped) {
            g->choices->best_dropped = choice->rung;
        }
        free(choice);
        return ATTUNE_OK;
    }
    g->choices->items[g->choices->count++] = choice;
    return ATTUNE_OK;
}

static attune_status gather(struct gathering *g, const char *folder, const char *specialisation, struct error *error)
{
    struct record *records = NULL;
    int count = 0;
    attune_status status = store_records(g->device->context->store, folder, specialisation, &records, &count, error);
    for (int i = 0; i < count; i++) {
        if (status == ATTUNE_OK) {
            status = consider(g, &records[i], error);
        }
        record_free(&records[i]);
    }
    free(records);
    return status;
}

enum { DEFAULT_TARGETS_MAX = 4 };

/* the device's full target, then the less specific ones whose code it may run: a feature may be left open */
static int default_targets(const attune_device *device, struct target targets[DEFAULT_TARGETS_MAX])
{
    int count = 0;
    for (int open = 0; open < DEFAULT_TARGETS_MAX; open++) {
        struct target target = device->facts.target;
        if (((open & 1) && target.sramecc == TARGET_FEATURE_ANY) ||
            ((open & 2) && target.xnack == TARGET_FEATURE_ANY)) {
            continue;
        }
        target.sramecc = (open & 1) ? TARGET_FEATURE_ANY : target.sramecc;
        target.xnack = (open & 2) ? TARGET_FEATURE_ANY : target.xnack;
        targets[count++] = target;
    }
    return count;
}

attune_status choose_records(attune_device *device, const struct problem *problem, attune_rung lowest,
                             const char *candidate, struct choices *choices, struct error *error)
{
    char specialisation[PROBLEM_TEXT_BYTES], folder[128], identity[DIGEST_HEX_BYTES] = "";
    struct fingerprint fingerprint;
    struct target targets[DEFAULT_TARGETS_MAX];
    attune_context *context = device->context;
    struct gathering g = {
        .device = device, .problem = problem, .lowest = lowest, .candidate = candidate, .choices = choices};
    memset(choices, 0, sizeof *choices);
    attune_status status = problem_specialisation(problem, specialisation, error);
    if (status == ATTUNE_OK && context->retune && context->has_jit && context->jit.identity != NULL) {
        status = context->jit.identity(context->jit.data, &device->facts.target, identity, error);
        g.identity = identity;
    }
    if (status == ATTUNE_OK) {
        fingerprint_of(device, &fingerprint);
        fingerprint_folder(&fingerprint, folder);
        status = gather(&g, folder, specialisation, error);
    }
    int count = default_targets(device, targets);
    for (int i = 0; i < count && status == ATTUNE_OK; i++) {
        default_folder(&targets[i], folder);
        status = gather(&g, folder, specialisation, error);
    }
    if (status != ATTUNE_OK) {
        choices_free(choices);
    } else if (choices->count > 1) {
        qsort(choices->items, (size_t)choices->count, sizeof *choices->items, by_choice);
    }
    return status;
}

void choose_paths(attune_device *device, const char *specialisation, struct buffer *text)
{
    char folder[128], hex[DIGEST_HEX_BYTES];
    struct fingerprint fingerprint;
    struct target targets[DEFAULT_TARGETS_MAX];
    struct digest digest;
    const char *root = store_path(device->context->store);
    digest_of(specialisation, strlen(specialisation), &digest);
    digest_hex(&digest, hex);
    fingerprint_of(device, &fingerprint);
    fingerprint_folder(&fingerprint, folder);
    if (root[0] == '\0') {
        buffer_text(text, "memory only (no folder to keep things in: set ATTUNE_CACHE)");
        return;
    }
    buffer_format(text, "%s/records/%s/%s", root, folder, hex);
    int count = default_targets(device, targets);
    for (int i = 0; i < count; i++) {
        default_folder(&targets[i], folder);
        buffer_format(text, ", %s/records/%s/%s", root, folder, hex);
    }
}
