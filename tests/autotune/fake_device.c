/* fake_device.c - a driver of C functions. */
#include "fake_device.h"

#include "autotune/philox.h"
#include "autotune/reference.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const fake_names[FAKE_BEHAVIOURS] = {"right",
                                                 "returns at once",
                                                 "half of the rows",
                                                 "no lse",
                                                 "writes before o",
                                                 "writes behind o",
                                                 "writes between",
                                                 "writes input",
                                                 "reads past k",
                                                 "contiguous only",
                                                 "wrong kv head",
                                                 "drops last key",
                                                 "mask too wide",
                                                 "half of the seed",
                                                 "ignores pointer",
                                                 "lse in base 2",
                                                 "fails"};

static int blocks;
static char modules[FAKE_BEHAVIOURS];

/* arguments in the order of the descriptor; every one is 8 bytes wide so that offsets are easy to see */
enum {
    A_Q,
    A_K,
    A_V,
    A_O,
    A_LSE,
    A_SEED_POINTER,
    A_OFFSET_POINTER,
    A_BATCH,
    A_HEADS,
    A_KV_HEADS,
    A_SEQLEN_Q,
    A_SEQLEN_K,
    A_STRIDES,
    A_SEED = A_STRIDES + 12,
    A_OFFSET,
    A_DIM_QK,
    A_DIM_V,
    A_CAUSAL,
    A_THRESHOLD,
    A_WIDE,
    A_SCALE = A_WIDE,
    A_FACTOR,
    A_COUNT
};

void fake_launch(struct launch *launch)
{
    static const char *const names[A_COUNT] = {"q",
                                               "k",
                                               "v",
                                               "o",
                                               "lse",
                                               "seed_pointer",
                                               "offset_pointer",
                                               "batch",
                                               "heads",
                                               "kv_heads",
                                               "seqlen_q",
                                               "seqlen_k",
                                               "q_batch_stride",
                                               "q_seq_stride",
                                               "q_head_stride",
                                               "k_batch_stride",
                                               "k_seq_stride",
                                               "k_head_stride",
                                               "v_batch_stride",
                                               "v_seq_stride",
                                               "v_head_stride",
                                               "o_batch_stride",
                                               "o_seq_stride",
                                               "o_head_stride",
                                               "seed",
                                               "offset",
                                               "head_dim_qk",
                                               "head_dim_v",
                                               "causal",
                                               "dropout_threshold",
                                               "scale",
                                               "dropout_scale"};
    memset(launch, 0, sizeof *launch);
    strcpy(launch->kernel, "fake");
    launch->threads = 32;
    launch->argument_count = A_COUNT;
    for (int i = 0; i < A_COUNT; i++) {
        strcpy(launch->arguments[i].name, names[i]);
        launch->arguments[i].type = i < A_BATCH ? ARGUMENT_POINTER : i < A_WIDE ? ARGUMENT_I64 : ARGUMENT_F32;
    }
}

static attune_status fake_count(const struct driver *driver, int *count, struct error *error)
{
    (void)driver, (void)error;
    *count = 1;
    return ATTUNE_OK;
}

static attune_status fake_describe(const struct driver *driver, int ordinal, struct driver_device *device,
                                   struct error *error)
{
    (void)driver, (void)ordinal;
    memset(device, 0, sizeof *device);
    strcpy(device->name, "fake");
    strcpy(device->driver_version, "fake 1");
    device->compute_units = 1;
    device->max_threads = 1024;
    device->shared_bytes = 65536;
    device->memory_bytes = (uint64_t)1 << 34;
    device->cache_bytes = 1 << 16;
    for (int i = 0; i < 3; i++) {
        device->grid.blocks[i] = 65535;
    }
    return target_parse("sm_80", &device->target, error);
}

static attune_status fake_allocate(const struct driver *driver, int ordinal, size_t bytes, void **pointer,
                                   struct error *error)
{
    (void)driver, (void)ordinal;
    *pointer = aligned_alloc(256, (bytes + 256) / 256 * 256);
    blocks++;
    return *pointer != NULL ? ATTUNE_OK : error_no_memory(error);
}

static attune_status fake_release(const struct driver *driver, int ordinal, void *pointer, struct error *error)
{
    (void)driver, (void)ordinal, (void)error;
    free(pointer);
    blocks--;
    return ATTUNE_OK;
}

static attune_status fake_copy_in(const struct driver *driver, int ordinal, void *device, const void *host,
                                  size_t bytes, struct error *error)
{
    (void)driver, (void)ordinal, (void)error;
    memcpy(device, host, bytes);
    return ATTUNE_OK;
}

static attune_status fake_copy_out(const struct driver *driver, int ordinal, void *host, const void *device,
                                   size_t bytes, struct error *error)
{
    (void)driver, (void)ordinal, (void)error;
    memcpy(host, device, bytes);
    return ATTUNE_OK;
}

static attune_status fake_fill(const struct driver *driver, int ordinal, void *device, uint8_t value, size_t bytes,
                               struct error *error)
{
    (void)driver, (void)ordinal, (void)error;
    memset(device, value, bytes);
    return ATTUNE_OK;
}

static attune_status fake_load(const struct driver *driver, int ordinal, const void *object, size_t bytes,
                               const char *kernel, uint32_t dynamic, driver_module *module, driver_function *function,
                               struct error *error)
{
    (void)driver, (void)ordinal, (void)kernel, (void)dynamic;
    for (int i = 0; i < FAKE_BEHAVIOURS; i++) {
        if (strlen(fake_names[i]) == bytes && memcmp(fake_names[i], object, bytes) == 0) {
            *module = *function = &modules[i];
            return ATTUNE_OK;
        }
    }
    return error_set(error, ATTUNE_INVALID, "no such fake");
}

static attune_status fake_unload(const struct driver *driver, int ordinal, driver_module module, struct error *error)
{
    (void)driver, (void)ordinal, (void)module, (void)error;
    return ATTUNE_OK;
}

static int64_t word(const unsigned char *arguments, int index)
{
    int64_t value;
    memcpy(&value, arguments + 8 * index, sizeof value);
    return value;
}

static void *address(const unsigned char *arguments, int index)
{
    void *value;
    memcpy(&value, arguments + 8 * index, sizeof value);
    return value;
}

static float real(const unsigned char *arguments, int index)
{
    float value;
    memcpy(&value, arguments + 8 * A_WIDE + 4 * (index - A_WIDE), sizeof value);
    return value;
}

static void read_arguments(const unsigned char *arguments, enum fake_behaviour behaviour, struct attention *a)
{
    struct attention_tensor *tensors[] = {&a->q, &a->k, &a->v, &a->o};
    *a = (struct attention){.batch = word(arguments, A_BATCH),
                            .heads = word(arguments, A_HEADS),
                            .kv_heads = word(arguments, A_KV_HEADS),
                            .seqlen_q = word(arguments, A_SEQLEN_Q),
                            .seqlen_k = word(arguments, A_SEQLEN_K),
                            .head_dim_qk = word(arguments, A_DIM_QK),
                            .head_dim_v = word(arguments, A_DIM_V),
                            .causal = (enum attention_causal)word(arguments, A_CAUSAL),
                            .scale = real(arguments, A_SCALE),
                            .dropout = word(arguments, A_THRESHOLD) != 65536,
                            .dropout_threshold = (uint32_t)word(arguments, A_THRESHOLD),
                            .dropout_scale = real(arguments, A_FACTOR),
                            .lse = address(arguments, A_LSE) != NULL};
    const uint64_t *seed = address(arguments, A_SEED_POINTER), *offset = address(arguments, A_OFFSET_POINTER);
    bool pointers = behaviour != FAKE_IGNORES_SEED_POINTER;
    a->seed = seed != NULL && pointers ? *seed : (uint64_t)word(arguments, A_SEED);
    a->offset = offset != NULL && pointers ? *offset : (uint64_t)word(arguments, A_OFFSET);
    if (behaviour == FAKE_SEED_LOW_WORD) {
        a->seed &= 0xffffffffu;
    }
    if (behaviour == FAKE_CONTIGUOUS_ONLY) {
        attention_contiguous(a);
    }
    for (int t = 0; t < 4; t++) {
        tensors[t]->dtype = DTYPE_F16;
        if (behaviour != FAKE_CONTIGUOUS_ONLY) {
            tensors[t]->batch_stride = word(arguments, A_STRIDES + 3 * t);
            tensors[t]->seq_stride = word(arguments, A_STRIDES + 3 * t + 1);
            tensors[t]->head_stride = word(arguments, A_STRIDES + 3 * t + 2);
        }
    }
}

/* the mistakes that are another problem's right answer */
static void plant(struct attention *a, enum fake_behaviour behaviour, char **k, char **v)
{
    if (behaviour == FAKE_READS_PAST_K) {
        a->seqlen_k += 1;
        a->seqlen_q += a->causal == CAUSAL_BOTTOM_RIGHT ? 1 : 0;
    } else if (behaviour == FAKE_DROPS_LAST_KEY) {
        a->seqlen_k -= 1;
        a->seqlen_q -= a->causal == CAUSAL_BOTTOM_RIGHT ? 1 : 0;
    } else if (behaviour == FAKE_MASK_TOO_WIDE && a->seqlen_q > 1) {
        a->seqlen_q -= 1;
    } else if (behaviour == FAKE_WRONG_KV_HEAD) {
        *k += (a->kv_heads - 1) * a->k.head_stride * 2;
        *v += (a->kv_heads - 1) * a->v.head_stride * 2;
        a->k.head_stride = -a->k.head_stride;
        a->v.head_stride = -a->v.head_stride;
    }
}

static attune_status fake_run(const struct driver *driver, int ordinal, const struct driver_launch *launch,
                              driver_stream stream, struct error *error)
{
    const unsigned char *arguments = launch->arguments;
    enum fake_behaviour behaviour = (enum fake_behaviour)((char *)launch->function - modules);
    struct attention a, planted;
    struct reference reference;
    struct reference_rows rows;
    char *q = address(arguments, A_Q), *k = address(arguments, A_K), *v = address(arguments, A_V),
         *o = address(arguments, A_O);
    float *lse = address(arguments, A_LSE);
    (void)driver, (void)ordinal, (void)stream;
    if (behaviour == FAKE_FAILS) {
        return error_set(error, ATTUNE_DEVICE_FAILED, "scripted failure");
    }
    if (behaviour == FAKE_RETURNS_AT_ONCE) {
        return ATTUNE_OK;
    }
    read_arguments(arguments, behaviour, &a);
    planted = a;
    plant(&planted, behaviour, &k, &v);
    attune_status status = reference_choose_rows(&planted, INFINITY, 0, &rows, error);
    assert(status == ATTUNE_OK);
    status = reference_compute(&planted, q, k, v, &rows, true, &reference, error);
    assert(status == ATTUNE_OK);
    size_t kept = behaviour == FAKE_HALF_OF_THE_ROWS ? rows.count / 2 : rows.count;
    for (size_t i = 0; i < kept; i++) {
        const struct reference_row *row = &rows.rows[i];
        if (row->query >= a.seqlen_q) {
            continue;
        }
        int64_t start = row->batch * a.o.batch_stride + row->query * a.o.seq_stride + row->head * a.o.head_stride;
        convert_from_float(DTYPE_F16, reference.naive + i * (size_t)a.head_dim_v, o + 2 * start, (size_t)a.head_dim_v);
        if (behaviour == FAKE_WRITES_BETWEEN_ROWS && a.o.seq_stride > a.head_dim_v &&
            a.o.head_stride > a.o.seq_stride && row->query + 1 < a.seqlen_q) {
            memset(o + 2 * (start + a.head_dim_v), 0, 2);
        }
        if (lse != NULL && behaviour != FAKE_NO_LSE) {
            double value = reference.lse[i] * (behaviour == FAKE_BASE_2 ? M_LOG2E : 1.0);
            lse[(row->batch * a.heads + row->head) * a.seqlen_q + row->query] = (float)value;
        }
    }
    if (behaviour == FAKE_WRITES_BEFORE_O) {
        o[-1] = 0;
    } else if (behaviour == FAKE_WRITES_BEHIND_O) {
        int64_t last = (a.batch - 1) * a.o.batch_stride + (a.seqlen_q - 1) * a.o.seq_stride +
                       (a.heads - 1) * a.o.head_stride + a.head_dim_v;
        o[2 * last] = 0;
    } else if (behaviour == FAKE_WRITES_INPUT) {
        q[0] ^= 1;
    }
    free(rows.rows);
    reference_free(&reference);
    return ATTUNE_OK;
}

static attune_status fake_synchronize(const struct driver *driver, int ordinal, driver_stream stream,
                                      struct error *error)
{
    (void)driver, (void)ordinal, (void)stream, (void)error;
    return ATTUNE_OK;
}

const struct driver *fake_driver(void)
{
    static const struct driver driver = {.name = "fake",
                                         .count = fake_count,
                                         .describe = fake_describe,
                                         .allocate = fake_allocate,
                                         .release = fake_release,
                                         .copy_in = fake_copy_in,
                                         .copy_out = fake_copy_out,
                                         .fill = fake_fill,
                                         .load = fake_load,
                                         .unload = fake_unload,
                                         .launch = fake_run,
                                         .synchronize = fake_synchronize};
    return &driver;
}

int fake_allocations(void)
{
    return blocks;
}
