/* attention_kernel.cpp - attention written by hand for the host device: fp32, one query row a thread, no shared memory.
 * Its arguments are all that the runtime can bind, in the order of fake_attention_launch. Dropout keeps pair (i, j) by
 * a rule of its own, which uses every value that real kernels get for it. */
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

struct host_api {
    u32 size, version;
    u32 (*thread_index)(void);
    u32 (*block_index)(int);
};

struct arguments {
    const float *q, *k, *v;
    float *o, *lse;
    const u64 *seed_pointer, *offset_pointer;
    int batch, heads, kv_heads, seqlen_q, seqlen_k;
    i64 q_batch_stride, q_seq_stride, q_head_stride;
    i64 k_batch_stride, k_seq_stride, k_head_stride;
    i64 v_batch_stride, v_seq_stride, v_head_stride;
    i64 o_batch_stride, o_seq_stride, o_head_stride;
    float scale;
    u32 dropout_threshold;
    float dropout_scale;
    u64 seed, offset;
    int head_dim_qk, head_dim_v;
    u32 origin_x, origin_y, origin_z;
    float *workspace;
};

struct host_note {
    u32 version, wave_size, threads, shared_bytes, argument_bytes;
    char kernel[64];
    char target[64];
};
struct host_note_section {
    u32 name_bytes, note_bytes, type;
    char name[8];
    host_note note;
};
extern "C" __attribute__((section(".note.attune"), used, aligned(4))) const host_note_section attune_note = {
    7, sizeof(host_note), 1, "attune", {1, 32, 32, 0, sizeof(arguments), "attention_forward", "host"}};

/* e^x for x <= 0, and the natural logarithm of x >= 1, in fp64 */
static double exponential(double x)
{
    double sum = 1, term = 1;
    int halvings = 0;
    if (x < -745)
        return 0;
    while (x < -0.5) {
        x *= 0.5;
        halvings++;
    }
    for (int i = 1; i < 20; i++) {
        term *= x / i;
        sum += term;
    }
    while (halvings-- > 0)
        sum *= sum;
    return sum;
}

static double logarithm(double x)
{
    double result = 0;
    while (x > 1.5) {
        x *= 0.5;
        result += 0.69314718055994530942;
    }
    const double t = (x - 1) / (x + 1);
    double power = t, sum = 0;
    for (int i = 1; i < 60; i += 2) {
        sum += power / i;
        power *= t * t;
    }
    return result + 2 * sum;
}

extern "C" void attune_host_entry(const host_api *api, const void *packed)
{
    const arguments &a = *(const arguments *)packed;
    const u32 row = (a.origin_x + api->block_index(0)) * 32 + api->thread_index();
    const u32 head = a.origin_y + api->block_index(1);
    const u32 sequence = a.origin_z + api->block_index(2);
    const int kv_head = (int)head / (a.heads / a.kv_heads);
    if (row >= (u32)a.seqlen_q)
        return;
    const u64 seed = a.seed_pointer ? *a.seed_pointer : a.seed;
    const u64 offset = a.offset_pointer ? *a.offset_pointer : a.offset;
    const float *q = a.q + sequence * a.q_batch_stride + row * a.q_seq_stride + head * a.q_head_stride;
    float *o = a.o + sequence * a.o_batch_stride + row * a.o_seq_stride + head * a.o_head_stride;
    double sums[256] = {0}, maximum = -__builtin_huge_val(), denominator = 0;
    for (int j = 0; j < a.seqlen_k; j++) {
        const float *k = a.k + sequence * a.k_batch_stride + j * a.k_seq_stride + kv_head * a.k_head_stride;
        const float *v = a.v + sequence * a.v_batch_stride + j * a.v_seq_stride + kv_head * a.v_head_stride;
        double score = 0;
        for (int d = 0; d < a.head_dim_qk; d++)
            score += (double)q[d] * k[d];
        score *= a.scale;
        if (score > maximum) {
            const double factor = exponential(maximum - score);
            denominator *= factor;
            for (int d = 0; d < a.head_dim_v; d++)
                sums[d] *= factor;
            maximum = score;
        }
        const double weight = exponential(score - maximum);
        const u32 draw = (u32)(row * 7919u + j * 104729u + head * 31u + (u32)seed * 13u + (u32)offset) & 0xffffu;
        denominator += weight;
        if (draw < a.dropout_threshold)
            for (int d = 0; d < a.head_dim_v; d++)
                sums[d] += weight * a.dropout_scale * v[d];
    }
    for (int d = 0; d < a.head_dim_v; d++)
        o[d] = denominator > 0 ? (float)(sums[d] / denominator) : 0.0f;
    if (a.lse)
        a.lse[((u64)sequence * a.heads + head) * a.seqlen_q + row] =
            denominator > 0 ? (float)(maximum + logarithm(denominator)) : -__builtin_huge_valf();
}
