/* oracle.h - inside of the oracle: the cases that a candidate must pass, and their state on a device.
 *
 * A case is one call with inputs and right answers: the problem's own sizes for each kind of input, and, on real
 * devices and where asked for, small companions of the same specialisation that hold every edge and are checked in
 * every row. They run cheapest first. Cases are prepared when first needed (attention) or at creation (families whose
 * reference is Lua, which one thread alone may run).
 */
#ifndef AUTOTUNE_ORACLE_H
#define AUTOTUNE_ORACLE_H

#include "autotune/attention.h"
#include "autotune/guarded.h"
#include "autotune/inputs.h"
#include "autotune/kernel.h"
#include "autotune/reference.h"
#include "autotune/verify.h"

#include <pthread.h>

enum { ORACLE_TENSORS_MAX = 16, ORACLE_CASES_MAX = 16 };

struct oracle_tensor {
    char name[FIELD_NAME_BYTES];
    enum dtype dtype;
    bool output;
    int64_t elements;
    void *host; /* inputs: the elements */
};

struct oracle_case {
    char label[64]; /* "normal", "peaked, 2 x 8 heads, 287 on 429" */
    int kind;
    bool companion; /* not the problem's own sizes */
    bool scattered; /* gaps between rows; skipped for kernels that fix a stride, for which the dense twin stands in */
    bool twin;      /* only for kernels that fix a stride */
    bool has_inputs, ready;
    bool judged; /* the answers are made on the device, by the oracle's judge */
    struct problem problem;
    int tensor_count;
    struct oracle_tensor tensors[ORACLE_TENSORS_MAX];
    /* attention.forward */
    struct attention attention;
    struct reference_rows rows;
    struct reference reference;
    /* other families */
    double **expected; /* by tensor; NULL for inputs */
    double **tolerance;
};

struct oracle_device;
struct judge;

struct oracle {
    struct problem problem;
    bool is_attention;
    uint64_t seed;
    double operations;
    int case_count;
    struct oracle_case cases[ORACLE_CASES_MAX];
    const struct judge *judge;    /* answers large cases on the device; NULL: the CPU samples rows. Not owned */
    pthread_mutex_t lock;         /* preparation of cases */
    struct oracle_device *device; /* of oracle_check */
};

/* every case that a check will need, ahead of time: may run in its own thread while objects are compiled */
attune_status oracle_prepare(struct oracle *oracle, bool companions, struct error *error);
/* has its family companions? */
bool oracle_has_companions(const struct problem *problem);
/* has it cases that only a judge can answer in every row? */
bool oracle_wants_judge(const struct oracle *oracle);
/* The candidates' target takes subnormal 16-bit elements as zero (target_flushes): answers allow it. Before any are
 * made. */
void oracle_set_flushes(struct oracle *oracle, bool flushes);
/* Large cases are answered on the device from now on. The judge must outlive the oracle and be of its only device. */
void oracle_set_judge(struct oracle *oracle, const struct judge *judge);
/* The host device is for small problems: ATTUNE_INVALID, with an estimate, for one whose candidates would take
 * minutes */
attune_status oracle_check_host(const struct oracle *oracle, struct error *error);
/* Is there anything that results could be held against? ATTUNE_UNSUPPORTED, with what lacks. */
attune_status oracle_check_reference(struct generator *generator, const struct problem *problem, struct error *error);
/* the size alone, before there is an oracle, without inputs or answers */
attune_status oracle_check_host_problem(struct generator *generator, const struct problem *problem,
                                        struct error *error);
/* Systems promise memory that they do not have and end a process when it is used: ATTUNE_NO_MEMORY, with both sizes,
 * when the device has less than `bytes`; of the host device, whose memory also holds inputs and answers, twice that. */
attune_status oracle_check_memory(uint64_t bytes, const struct driver_device *device, struct error *error);
double oracle_operations(const struct oracle *oracle); /* floating-point operations of the problem; 0 unknown */

/* make a case's inputs and answers unless they are there; thread-safe for attention */
attune_status oracle_prepare_case(struct oracle *oracle, struct oracle_case *test, struct error *error);
/* the problem's own sizes, normal inputs, contiguous: what is timed. Only its inputs are made */
attune_status oracle_timed_case(struct oracle *oracle, struct oracle_case **test, struct error *error);
void oracle_case_free(struct oracle_case *test);

/* oracle_attention.c */
attune_status attention_cases_list(struct oracle *oracle, struct error *error);
attune_status attention_case_inputs(const struct oracle *oracle, struct oracle_case *test, struct error *error);
/* answering every row would cost the CPU too much time: the judge's work where there is one */
bool attention_case_is_large(const struct oracle_case *test);
attune_status attention_case_answers(const struct oracle *oracle, struct oracle_case *test, struct error *error);
int attention_case_values(const struct oracle_case *test, void *const *pointers, void *seed_pointer,
                          void *offset_pointer, struct named_value *values);
/* worst_ratio NaN: there was no memory to compare */
bool attention_case_compare(const struct oracle_case *test, void *const *outputs, struct verdict *verdict);
enum { ATTENTION_VALUES = 40 };

/* oracle_family.c */
attune_status family_check_reference(struct generator *generator, const char *family, struct error *error);
attune_status family_cases_list(struct generator *generator, struct oracle *oracle, struct error *error);
bool family_case_compare(const struct oracle_case *test, void *const *outputs, struct verdict *verdict);

/* One device's memory for an oracle's cases. `guards` false: exact blocks (sanitizer runners). Not thread-safe. */
attune_status oracle_device_create(struct oracle *oracle, const struct driver *driver, int ordinal, bool guards,
                                   struct oracle_device **device, struct error *error);
void oracle_device_destroy(struct oracle_device *device);
/* Companions on this device from now on, or not: the host device leaves them out unless told, since they cost it
 * seconds a candidate. */
void oracle_device_companions(struct oracle_device *device, bool companions);
/* Checks end early, too_slow, when a launch at the problem's own sizes takes longer, by device events; 0: never. */
attune_status oracle_device_patience(struct oracle_device *device, double microseconds, struct error *error);
/* Told before every piece of work that is in a candidate's hands (loading, each case's launch), and after it with NULL.
 */
typedef void (*oracle_step)(void *data, const char *what);
void oracle_device_watch(struct oracle_device *device, oracle_step step, void *data);
bool oracle_device_is(const struct oracle_device *device, const struct driver *driver, int ordinal);
attune_status oracle_device_check(struct oracle_device *device, const void *object, size_t object_bytes,
                                  const struct launch *launch, struct verdict *verdict, struct error *error);

/* device memory that checks of ordinary candidates will take; with a judge its answers count */
uint64_t oracle_device_bytes(const struct oracle_device *device, bool judged);

#endif
