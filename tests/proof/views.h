/* views.h - attention calls on views: strides and spans that no contiguous copy has, on every candidate of a cover.
 *
 * Memory is the device's own and as large as a test asks; on the host device pages appear where they are touched, so
 * that a view may span more than there is. Elements are f16; an element's value follows from its place (tensor, batch,
 * position, head, column), so that two layouts of one call hold the same numbers and must give the same bits.
 *
 * ATTUNE_TEST_DEVICE names the device ("cuda:0"; default host). Failures are cmocka's.
 */
#ifndef TESTS_PROOF_VIEWS_H
#define TESTS_PROOF_VIEWS_H

#include "autotune/kernel.h"
#include "autotune/objects.h"
#include "generator/generator.h"
#include "runtime/context.h"
#include "tests/size.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct views {
    struct generator *generator;
    struct compiler_pool *pool;
    const struct driver *driver;
    struct driver_device device;
    bool host;
};

/* group fixtures; *state becomes the views. Without device or compiler the program ends with 77 and the reason */
int views_set_up(void **state);
int views_tear_down(void **state);

/* ---- kernels: a cover of a problem's candidates, compiled and loaded; those the device cannot run are left out ----
 */
struct view_kernel {
    struct kernel kernel; /* `limits` may be changed between launches */
    char name[CANDIDATE_TEXT_BYTES];
};
struct view_kernels {
    struct problem problem;
    struct view_kernel *items;
    int count;
};
/* at most `count` candidates, the default first; 0: the whole cover. Fails when fewer than two are left */
void views_compile(struct views *views, const char *problem_text, int count, struct view_kernels *kernels);
/* one candidate, for a target of which the host device runs the text */
void views_compile_for(struct views *views, const char *target_text, const char *problem_text,
                       const char *candidate_text, struct view_kernels *kernels);
void view_kernels_free(struct view_kernels *kernels);

/* ---- memory ---- */
void *views_memory(struct views *views, size_t bytes); /* on a GPU filled with NaN, on the host zero */
void views_release(struct views *views, void *memory, size_t bytes);
/* can the device hold so much at once? Prints why not */
bool views_room(struct views *views, size_t bytes);

/* ---- calls ---- */
enum view_tensor { VIEW_Q, VIEW_K, VIEW_V, VIEW_O, VIEW_TENSORS };
enum view_axis { VIEW_BATCH, VIEW_SEQ, VIEW_HEAD, VIEW_AXES };
extern const char *const view_tensor_names[VIEW_TENSORS];
extern const char *const view_axis_names[VIEW_AXES];

struct view {
    char *data; /* device memory of the first element */
    int64_t stride[VIEW_AXES];
};
struct view_call {
    int64_t batch, heads, kv_heads, seqlen_q, seqlen_k, head_dim_qk, head_dim_v;
    struct view tensors[VIEW_TENSORS];
    float *lse; /* device memory, or NULL */
};

/* sizes of the call, head sizes of the problem, contiguous strides (0 for an axis of one element, as plans pass it on);
 * no memory yet */
struct view_call views_call(const struct problem *problem, int64_t batch, int64_t heads, int64_t kv_heads,
                            int64_t seqlen_q, int64_t seqlen_k);
int64_t views_size(const struct view_call *call, enum view_tensor tensor, enum view_axis axis);
size_t views_bytes(const struct view_call *call, enum view_tensor tensor); /* from first to past the last element */
/* memory for one tensor by its strides; inputs get their elements */
void views_make(struct views *views, struct view_call *call, enum view_tensor tensor);
/* on the host device: whole pages between a tensor's rows may no more be touched */
void views_forbid_gaps(const struct view_call *call, enum view_tensor tensor);
/* all four tensors and lse */
void views_make_all(struct views *views, struct view_call *call);
void views_free_all(struct views *views, struct view_call *call);
/* the elements of an input at their places, in memory that is there already */
void views_fill(struct views *views, const struct view_call *call, enum view_tensor tensor);
/* o's rows in the order batch, position, head, then lse: free() it */
unsigned char *views_output(struct views *views, const struct view_call *call, size_t *bytes);
/* every byte of o's rows and of lse becomes 0xff (NaN) */
void views_poison(struct views *views, const struct view_call *call);
uint16_t views_element(enum view_tensor tensor, int64_t b, int64_t s, int64_t h, int64_t c);

/* bind and launch all pieces, then wait. ATTUNE_UNSUPPORTED when a limit of the candidate is not kept */
attune_status views_launch(struct views *views, const struct view_kernels *kernels, int index,
                           const struct view_call *call, struct error *error);
/* only the blocks from `origin` on, `blocks` of them in each dimension, as one piece of a cut grid */
attune_status views_launch_part(struct views *views, const struct view_kernels *kernels, int index,
                                const struct view_call *call, const uint32_t origin[3], const uint32_t blocks[3],
                                struct error *error);
/* ATTUNE_OK expected */
void views_run(struct views *views, const struct view_kernels *kernels, int index, const struct view_call *call,
               const char *label);

/* ---- the same through attune.h ---- */
struct view_plan {
    char store[512]; /* of its own */
    attune_context *context;
    attune_device *device; /* its facts may be changed between launches */
    attune_problem *problem;
    attune_plan *plan;
};
void view_plan_open(struct view_plan *plan, const char *problem_text);
void view_plan_close(struct view_plan *plan);
/* launches with the call's sizes and strides, then waits; ATTUNE_OK expected unless `message` is given */
attune_status view_plan_launch(struct views *views, const struct view_plan *plan, const struct view_call *call,
                               char message[512]);

#endif
