// matrix_kernels.cpp - kernels over the host vocabulary (given by -include) for test_matrix.c; WAVE_LANES is 32 or 64.
constexpr int WAVE = WAVE_LANES;

struct packed_arguments {
    const u32 *a, *b;
    float *c;
    u32 option;
};

#define KERNEL(name) \
    static void name##_body(const host_api *api, const packed_arguments &p); \
    extern "C" void entry_##name(const host_api *api, const void *packed) \
    { \
        name##_body(api, *(const packed_arguments *)packed); \
    } \
    static void name##_body(const host_api *api, const packed_arguments &p)

/* ---- one instruction: registers lie lane by lane in memory ---- */
#define MULTIPLY(name, c_words, a_words, b_words) \
    KERNEL(name) \
    { \
        u32 a[a_words], b[b_words]; \
        float c[c_words]; \
        const int t = thread_index(); \
        for (int i = 0; i < a_words; ++i) \
            a[i] = p.a[t * a_words + i]; \
        for (int i = 0; i < b_words; ++i) \
            b[i] = p.b[t * b_words + i]; \
        for (int i = 0; i < c_words; ++i) \
            c[i] = p.c[t * c_words + i]; \
        matrix_multiply(name, c, a, b); \
        for (int i = 0; i < c_words; ++i) \
            p.c[t * c_words + i] = c[i]; \
    }
MULTIPLY(mfma_f32_16x16x16_f16, 4, 2, 2)
MULTIPLY(mfma_f32_32x32x8_f16, 16, 2, 2)
MULTIPLY(mfma_f32_16x16x16_bf16, 4, 2, 2)
MULTIPLY(mfma_f32_32x32x8_bf16, 16, 2, 2)
MULTIPLY(mfma_f32_16x16x8_bf16, 4, 1, 1)
MULTIPLY(mfma_f32_32x32x4_bf16, 16, 1, 1)
MULTIPLY(mfma_f32_16x16x32_f16, 4, 4, 4)
MULTIPLY(mfma_f32_16x16x32_bf16, 4, 4, 4)
MULTIPLY(mfma_f32_32x32x16_f16, 16, 4, 4)
MULTIPLY(mfma_f32_32x32x16_bf16, 16, 4, 4)
MULTIPLY(wmma_gfx11_f32_16x16x16_f16, 8, 8, 8)
MULTIPLY(wmma_gfx11_f32_16x16x16_bf16, 8, 8, 8)
MULTIPLY(wmma_gfx12_f32_16x16x16_f16, 8, 4, 4)
MULTIPLY(wmma_gfx12_f32_16x16x16_bf16, 8, 4, 4)
MULTIPLY(mma_f32_16x8x16_f16, 4, 4, 2)
MULTIPLY(mma_f32_16x8x16_bf16, 4, 4, 2)
MULTIPLY(mma_f32_16x8x8_f16, 4, 2, 1)

/* ---- rules broken ---- */
KERNEL(one_lane_stays_away)
{
    u32 a[2] = {}, b[2] = {};
    float c[4] = {};
    if (thread_index() != 5)
        matrix_multiply(mfma_f32_16x16x16_f16, c, a, b);
}
KERNEL(lanes_at_two_sites)
{
    u32 a[2] = {}, b[2] = {};
    float c[4] = {};
    if (thread_index() < 16)
        matrix_multiply(mfma_f32_16x16x16_f16, c, a, b);
    else
        matrix_multiply(mfma_f32_16x16x16_f16, c, a, b);
}
KERNEL(two_operations_at_one_site)
{
    u32 a[2] = {}, b[2] = {};
    float c[4] = {};
    api->matrix(7, thread_index() < 16 ? host_matrix_mfma_f32_16x16x16_f16 : host_matrix_mfma_f32_16x16x16_bf16, c, a, b);
}
KERNEL(unknown_operation)
{
    u32 a[2] = {}, b[2] = {};
    float c[4] = {};
    api->matrix(7, 99, c, a, b);
}

/* ---- lanes ---- */
KERNEL(exchanges)
{
    const int t = thread_index();
    const float f = (float)p.a[t];
    const u32 u = p.a[t] * 0x01010101u;
    float *const out = p.c;
    const int threads = p.option;
#define EXCHANGE(mask, slot) \
    out[(2 * slot) * threads + t] = exchange(mask, f); \
    out[(2 * slot + 1) * threads + t] = (float)(exchange(mask, u) / 0x01010101u)
    EXCHANGE(1, 0);
    EXCHANGE(2, 1);
    EXCHANGE(4, 2);
    EXCHANGE(8, 3);
    EXCHANGE(16, 4);
    if (WAVE == 64) {
        EXCHANGE(32, 5);
    }
}
KERNEL(uniform)
{
    const int t = thread_index();
    p.c[t] = (float)wave_uniform(p.option == 1 && t == 9 ? 3 : t / WAVE);
}
KERNEL(matrices)
{
    const int t = thread_index();
    u32 *const tile = (u32 *)shared_array(1024 + 16);
    for (int i = 0; i < 4; ++i)
        tile[4 * t + i] = p.a[4 * t + i];
    barrier();
    u32 straight[4], turned[4];
    const u32 *const row = tile + 4 * (t * 5 % 32) + (p.option == 1);
    load_matrices(straight, row);
    load_matrices_transposed(turned, row);
    for (int i = 0; i < 4; ++i) {
        p.c[8 * t + i] = bits_float(straight[i]);
        p.c[8 * t + 4 + i] = bits_float(turned[i]);
    }
}

/* ---- copies ---- */
enum { NO_WAIT = 1, EARLY = 2, SHORT_WAIT = 4, MISALIGNED = 8, TOO_MANY = 16, SCATTERED = 32 };
KERNEL(copies)
{
    const int t = thread_index();
    u32 *const tile = (u32 *)shared_array(2 * 64 * 16); /* two stages of 16 bytes a thread */
    begin_copies(copies, t);
    copy_async(copies, tile + 4 * t + (p.option & MISALIGNED ? 1 : 0), p.a + 4 * t, true);
    commit_copies(copies);
    copy_async(copies, tile + 256 + 4 * t, t < 60 ? p.a + 256 + 4 * t : (const u32 *)16, t < 60);
    commit_copies(copies);
    if (!(p.option & NO_WAIT))
        wait_copies<1>(copies);
    barrier();
    p.c[t] = bits_float(tile[4 * (t ^ 1)]);
    if (!(p.option & EARLY))
        barrier();
    copy_async(copies, tile + 4 * t, p.a + 512 + 4 * t, true);
    commit_copies(copies);
    if (p.option & SHORT_WAIT)
        wait_copies<2>(copies);
    else
        wait_copies<1>(copies);
    barrier();
    p.c[64 + t] = bits_float(tile[256 + 4 * (t ^ 1)]);
    barrier();
    wait_copies<0>(copies);
    barrier();
    p.c[128 + t] = bits_float(tile[4 * (t ^ 1) + 3]);
    if (p.option & TOO_MANY)
        for (int i = 0; i < 600; ++i)
            copy_async(copies, tile + 4 * t, p.a, true);
}
KERNEL(direct)
{
    const int t = thread_index(), wave = t / WAVE;
    u32 *const tile = (u32 *)shared_array(128 * 4 + 128 * 16);
    begin_copies(copies, t);
    copy_direct(copies, 4, tile + WAVE * wave + (p.option & SCATTERED ? t % 2 : 0), p.a + t);
    copy_direct(copies, 16, tile + 128 + 4 * WAVE * wave, p.a + 128 + 4 * t);
    if (!(p.option & NO_WAIT))
        wait_direct(copies);
    barrier();
    p.c[t] = bits_float(tile[t ^ 1]);
    p.c[128 + t] = bits_float(tile[128 + 4 * (t ^ 1) + 1]);
    if (!(p.option & EARLY))
        barrier();
    copy_direct(copies, 4, tile + WAVE * wave, p.a + 640 + t);
    wait_direct(copies);
    barrier();
    p.c[256 + t] = bits_float(tile[t ^ 1]);
}
