/* forward.c - prepare and launch in one call; the device remembers its plans by problem.
 *
 * At most REMEMBERED_MAX plans: the one used longest ago goes first, unless a thread is launching it. Modules that were
 * used here stay loaded until the device is closed, since a forgotten plan's kernel may still be running.
 */
#include "runtime/plan.h"

#include <stdlib.h>
#include <string.h>

enum { REMEMBERED_MAX = 512 };

struct remembered {
    struct remembered *next;
    attune_attention attention;
    attune_plan *plan;
    int users; /* threads between taking and giving back */
};

static bool same_attention(const attune_attention *a, const attune_attention *b)
{
    return a->q_dtype == b->q_dtype && a->k_dtype == b->k_dtype && a->v_dtype == b->v_dtype &&
           a->o_dtype == b->o_dtype && a->batch == b->batch && a->heads == b->heads && a->kv_heads == b->kv_heads &&
           a->seqlen_q == b->seqlen_q && a->seqlen_k == b->seqlen_k && a->head_dim_qk == b->head_dim_qk &&
           a->head_dim_v == b->head_dim_v && a->causal == b->causal && a->scale == b->scale &&
           a->dropout == b->dropout && a->lse == b->lse && a->alignment_bytes == b->alignment_bytes &&
           a->wide_index == b->wide_index && a->window_left == b->window_left && a->window_right == b->window_right &&
           a->softcap == b->softcap && a->strict_nan == b->strict_nan && a->batch_invariant == b->batch_invariant;
}

void remembered_free(attune_device *device)
{
    while (device->remembered != NULL) {
        struct remembered *entry = device->remembered;
        device->remembered = entry->next;
        attune_plan_destroy(entry->plan);
        free(entry);
    }
}

/* the entry moves to the front and gains a user; NULL when there is none */
static struct remembered *take(attune_device *device, const attune_attention *attention)
{
    struct remembered **link = &device->remembered;
    while (*link != NULL && !same_attention(&(*link)->attention, attention)) {
        link = &(*link)->next;
    }
    struct remembered *entry = *link;
    if (entry != NULL) {
        *link = entry->next;
        entry->next = device->remembered;
        device->remembered = entry;
        entry->users++;
    }
    return entry;
}

/* unlinks the last entry that nobody uses */
static struct remembered *forget_oldest(attune_device *device)
{
    struct remembered **oldest = NULL;
    for (struct remembered **link = &device->remembered; *link != NULL; link = &(*link)->next) {
        if ((*link)->users == 0) {
            oldest = link;
        }
    }
    struct remembered *entry = oldest != NULL ? *oldest : NULL;
    if (entry != NULL) {
        *oldest = entry->next;
        device->remembered_count--;
    }
    return entry;
}

static void drop(struct remembered *entry)
{
    if (entry != NULL) {
        attune_plan_destroy(entry->plan);
        free(entry);
    }
}

static attune_status make(attune_device *device, const attune_attention *attention, struct remembered **entry,
                          struct error *error)
{
    struct problem problem;
    struct remembered *forgotten = NULL, *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return error_no_memory(error);
    }
    device_relax(device->driver, true);
    attune_status status = attention_to_problem(attention, &problem, error);
    if (status == ATTUNE_OK) {
        status = plan_prepare(device, &problem, NULL, &made->plan, error);
    }
    device_relax(device->driver, false);
    if (status != ATTUNE_OK) {
        free(made);
        return status;
    }
    module_pin(device, made->plan->module);
    made->attention = *attention;
    made->users = 1;
    pthread_mutex_lock(&device->lock);
    *entry = take(device, attention); /* another thread may have been faster: one problem, one plan, one set of bits */
    if (*entry == NULL) {
        if (device->remembered_count >= REMEMBERED_MAX) {
            forgotten = forget_oldest(device);
        }
        made->next = device->remembered;
        device->remembered = made;
        device->remembered_count++;
        *entry = made;
        made = NULL;
    }
    pthread_mutex_unlock(&device->lock);
    drop(forgotten);
    drop(made);
    return ATTUNE_OK;
}

/* A plan is made by loading, perhaps by compiling or tuning: nothing that may happen within a capture, and nothing that
 * could be told from a hang there. Refused before any call that a capture forbids, so that the capture goes on. */
static attune_status check_not_capturing(const attune_device *device, void *stream, struct error *error)
{
    bool capturing = false;
    if (device->driver->capturing == NULL) {
        return ATTUNE_OK;
    }
    attune_status status = device->driver->capturing(device->driver, device->ordinal, stream, &capturing, error);
    if (status == ATTUNE_OK && capturing) {
        status =
            error_set(error, ATTUNE_INVALID,
                      "stream=%p is being captured and this problem has no plan yet: making one loads a kernel and "
                      "may compile. Call attune_attention_forward once before the capture, or warm up with "
                      "attune_prepare and launch its plan",
                      stream);
    }
    return status;
}

static attune_status check_sizes(const attune_attention *attention, const attune_attention_arguments *a,
                                 struct error *error)
{
    const struct {
        const char *name;
        int64_t problem, argument;
    } sizes[] = {
        {"batch", attention->batch, a->batch},
        {"heads", attention->heads, a->heads},
        {"kv_heads", attention->kv_heads != 0 ? attention->kv_heads : attention->heads, a->kv_heads},
        {"seqlen_q", attention->seqlen_q, a->seqlen_q},
        {"seqlen_k", attention->seqlen_k != 0 ? attention->seqlen_k : attention->seqlen_q, a->seqlen_k},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (sizes[i].argument != 0 && sizes[i].argument != sizes[i].problem) {
            return error_set(
                error, ATTUNE_INVALID,
                "arguments.%s=%lld differs from attention.%s=%lld; leave it 0, or prepare a plan and launch that",
                sizes[i].name, (long long)sizes[i].argument, sizes[i].name, (long long)sizes[i].problem);
        }
    }
    if (a->explicit_sizes) {
        return error_set(error, ATTUNE_INVALID,
                         "arguments.explicit_sizes=%d: sizes come from attention here; leave it 0", a->explicit_sizes);
    }
    return ATTUNE_OK;
}

static attune_status forward(attune_device *device, const attune_attention *given,
                             const attune_attention_arguments *arguments, void *stream, void *workspace,
                             size_t workspace_bytes, struct error *error)
{
    attune_attention attention;
    attune_attention_arguments own;
    struct remembered *entry = NULL;
    attune_status status = struct_read(&attention, sizeof attention, sizeof attention, given, "attention", error);
    if (status == ATTUNE_OK) {
        status = struct_read(&own, sizeof own, sizeof own, arguments, "arguments", error);
    }
    if (status == ATTUNE_OK) {
        status = check_sizes(&attention, &own, error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    pthread_mutex_lock(&device->lock);
    entry = take(device, &attention);
    pthread_mutex_unlock(&device->lock);
    if (entry == NULL) {
        status = check_not_capturing(device, stream, error);
    }
    if (entry == NULL && status == ATTUNE_OK) {
        status = make(device, &attention, &entry, error);
    }
    if (status == ATTUNE_OK) {
        status = attention_launch(entry->plan, &own, stream, workspace, workspace_bytes, error);
        pthread_mutex_lock(&device->lock);
        entry->users--;
        pthread_mutex_unlock(&device->lock);
    }
    return status;
}

attune_status attune_attention_forward(attune_device *device, const attune_attention *attention,
                                       const attune_attention_arguments *arguments, void *stream, void *workspace,
                                       size_t workspace_bytes)
{
    struct error error;
    error.message[0] = '\0';
    if (device == NULL) {
        return context_report(NULL, error_set(&error, ATTUNE_INVALID, "device is NULL"), &error);
    }
    return context_report(device->context,
                          forward(device, attention, arguments, stream, workspace, workspace_bytes, &error), &error);
}
