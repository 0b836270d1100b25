// tile_kernel.cpp - a kernel over the host vocabulary (given by -include) for test_matrix_sanitized.c: tiles copied to shared
// memory, multiplied by the other wave. OPTION breaks it.
constexpr int WAVE = 64;

struct packed_arguments {
    const u32 *in; // STEPS tiles of 512 words
    float *out;
    u32 n, option;
};
enum { STEPS = 3, EARLY = 1, NO_BARRIER = 2, PAST_END = 4, DIRECT = 8 };

extern "C" void attune_host_entry(const host_api *api, const void *packed)
{
    const packed_arguments p = *(const packed_arguments *)packed;
    const int t = thread_index(), other = 1 - t / WAVE, lane = t % WAVE;
    u32 *const tile = (u32 *)shared_array(2048);
    begin_copies(copies, t);
    float c[4] = {};
    for (int step = 0; step < STEPS; ++step) {
        const u32 *const from = p.in + 512 * step + 4 * t;
        if (p.option & DIRECT) {
            copy_direct(copies, 16, tile + t / WAVE * 256, from);
            wait_direct(copies);
        } else {
            copy_async(copies, tile + 4 * t + (p.option & PAST_END && t == 127 ? 4 : 0), from, true);
            commit_copies(copies);
            wait_copies<0>(copies);
        }
        if (!(p.option & NO_BARRIER))
            barrier();
        u32 a[2], b[2];
        load_words<2>(a, tile + 256 * other + 2 * lane);
        load_words<2>(b, tile + 256 * other + 128 + 2 * lane);
        matrix_multiply(mfma_f32_16x16x16_f16, c, a, b);
        c[0] += exchange(32, c[1]);
        if (!(p.option & EARLY))
            barrier();
    }
    for (int i = 0; i < 4; ++i)
        p.out[4 * t + i] = c[i];
}

static const __attribute__((section(".note.attune"), used, aligned(4))) host_note_section attune_note = {
    7, sizeof(host_note), 1, "attune", {1, WAVE, 128, 2048, sizeof(packed_arguments), "tiles", "host-gfx90a"}};
