/* host.h - the device vocabulary on the CPU, for the host device.
 *
 * Every name that templates may use, documented in docs/vocabulary.md, in portable C++17 for baseline x86-64: no system header,
 * no undefined symbol. Whatever concerns other threads goes through `api`, a parameter of the entry, so these names are macros
 * that work inside the kernel function only; a call's site is its __COUNTER__. The kernel's text defines WAVE.
 */
#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "the compiler assumes that no number is infinite or NaN (-ffast-math, -Ofast, -ffinite-math-only): masks need both"
#endif

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long long u64;
typedef long long i64;

/* as in the host device's contract, version 2 */
struct host_api {
    u32 size;
    u32 version;
    u32 (*thread_index)(void);
    u32 (*block_index)(int dimension);
    void (*barrier)(u32 site);
    void (*wave_barrier)(u32 site);
    u32 (*shuffle)(u32 site, u32 value, u32 source_lane);
    void *(*shared)(u32 site, u64 bytes);
    void (*collective)(u32 site, const void *in, u32 in_bytes, void *out, u32 out_bytes,
                       void (*compute)(const void *ins, void *outs, u32 lanes));
    void (*fail)(const char *message);
    void (*access)(u32 line, const void *address, u32 bytes, u32 kind);
    void (*matrix)(u32 site, u32 operation, float *c, const u32 *a, const u32 *b);
};

/* the ELF note by which an object tells its resources */
struct host_note {
    u32 version;
    u32 wave_size;
    u32 threads;
    u32 shared_bytes;
    u32 argument_bytes;
    char kernel[64];
    char target[64];
};
struct host_note_section {
    u32 name_bytes;
    u32 note_bytes;
    u32 type;
    char name[8];
    host_note note;
};

#define device_function inline __attribute__((always_inline))

/* With ATTUNE_TRACE_LDS every access of shared memory is told to the host device, with the line that asked for it. */
#ifdef ATTUNE_TRACE_LDS
static const host_api *host_traced; /* nothing is shared before the kernel has a shared array */
#define shared_array(bytes) (host_traced = api, api->shared(__COUNTER__, bytes))
#define HOST_LINE , u32 line = __builtin_LINE()
#define HOST_PASS_LINE , line
device_function void host_tell(u32 line, const void *address, u32 bytes, u32 kind)
{
    if (host_traced)
        host_traced->access(line, address, bytes, kind);
}
#else
#define shared_array(bytes) api->shared(__COUNTER__, bytes)
#define HOST_LINE
#define HOST_PASS_LINE
#define host_tell(line, address, bytes, kind) ((void)0)
#endif
enum { HOST_READ, HOST_WRITE, HOST_ROWS, HOST_COPY };

/* ---- bits and elements ---- */
device_function u32 float_bits(float value)
{
    u32 bits;
    __builtin_memcpy(&bits, &value, 4);
    return bits;
}
device_function float bits_float(u32 bits)
{
    float value;
    __builtin_memcpy(&value, &bits, 4);
    return value;
}
#define INFINITY_FLOAT __builtin_huge_valf()

struct half_t {
    u16 bits;
};
struct bf16_t {
    u16 bits;
};

inline float half_to_float(u32 bits)
{
    const u32 sign = (bits & 0x8000u) << 16;
    const u32 magnitude = bits & 0x7fffu;
    if (magnitude >= 0x7c00u)
        return bits_float(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
    if (magnitude >= 0x400u)
        return bits_float(sign | ((magnitude << 13) + 0x38000000u));
    const float small = (float)(int)magnitude * 0x1p-24f; /* subnormal: exact */
    return sign ? -small : small;
}
inline u16 half_from_float(float value)
{
    const u32 bits = float_bits(value);
    const u32 sign = (bits >> 16) & 0x8000u;
    const u32 magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (u16)(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) /* 65520 and above round to infinity */
        return (u16)(sign | 0x7c00u);
    if (magnitude >= 0x38800000u) /* normal: nearest even by carry into the exponent */
        return (u16)(sign | ((magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13));
    /* subnormal: adding 0.5 leaves the 24-bit-aligned result, rounded to nearest even, in the low bits */
    return (u16)(sign | (float_bits(bits_float(magnitude) + 0.5f) - 0x3f000000u));
}

device_function float to_float(half_t value) { return half_to_float(value.bits); }
device_function float to_float(bf16_t value) { return bits_float((u32)value.bits << 16); }
device_function float to_float(float value) { return value; }

template <class T> device_function T from_float(float value);
template <> device_function float from_float<float>(float value) { return value; }
template <> device_function half_t from_float<half_t>(float value) { return half_t{half_from_float(value)}; }
template <> device_function bf16_t from_float<bf16_t>(float value)
{
    const u32 bits = float_bits(value); /* round to nearest even; a NaN keeps its sign and becomes quiet */
    if (value != value)
        return bf16_t{(u16)((bits >> 16) | 0x40u)};
    return bf16_t{(u16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

/* the two elements of a word of 16-bit elements; a word of fp32 has only a low one */
template <class T> device_function float low_element(u32 word);
template <class T> device_function float high_element(u32 word);
template <> device_function float low_element<float>(u32 word) { return bits_float(word); }
template <> device_function float low_element<half_t>(u32 word) { return half_to_float(word & 0xffffu); }
template <> device_function float high_element<half_t>(u32 word) { return half_to_float(word >> 16); }
template <> device_function float low_element<bf16_t>(u32 word) { return bits_float(word << 16); }
template <> device_function float high_element<bf16_t>(u32 word) { return bits_float(word & 0xffff0000u); }

template <class T> device_function u32 pack_elements(float low, float high)
{
    return (u32)from_float<T>(low).bits | (u32)from_float<T>(high).bits << 16;
}
/* the same for values that are not negative, where a target has a cheaper way */
template <class T> device_function u32 pack_weights(float low, float high) { return pack_elements<T>(low, high); }
/* (low half of a, low half of b) and (high half of a, high half of b) */
device_function u32 pack_low(u32 a, u32 b) { return (a & 0xffffu) | b << 16; }
device_function u32 pack_high(u32 a, u32 b) { return a >> 16 | (b & 0xffff0000u); }

/* ---- arithmetic ---- */
device_function float fused(float a, float b, float c) { return a * b + c; } /* baseline x86-64 has no fused form */
device_function float maximum(float a, float b) { return a > b || b != b ? a : b; }
device_function int minimum(int a, int b) { return a < b ? a : b; }
device_function u32 multiply_high(u32 a, u32 b) { return (u32)(((u64)a * b) >> 32); }

/* 2^value; 0 for -infinity, NaN for NaN; results below 2^-126 become 0 */
inline float exp2_fast(float value)
{
    if (value != value || value >= 128.0f)
        return value != value ? value : INFINITY_FLOAT;
    if (value < -126.0f)
        return 0.0f;
    const int whole = (int)(value + (value < 0.0f ? -0.5f : 0.5f));
    const double x = ((double)value - whole) * 0.69314718055994530942; /* |x| <= ln(2) / 2: Taylor's rest is 2^-33 */
    const double fraction =
        1.0 + x * (1.0 + x * (1.0 / 2 + x * (1.0 / 6 + x * (1.0 / 24 + x * (1.0 / 120 + x * (1.0 / 720 + x / 5040))))));
    const u64 power = (u64)(whole + 1023) << 52;
    double scale;
    __builtin_memcpy(&scale, &power, 8);
    return (float)(fraction * scale);
}
/* base-2 logarithm of a normal number in [0.5, 2): absolute error below 2^-22 */
inline float log2_fast(float value)
{
    const double t = ((double)value - 1.0) / ((double)value + 1.0); /* ln v = 2 atanh t, |t| <= 1/3 */
    const double s = t * t;
    const double series = 1.0 + s * (1.0 / 3 + s * (1.0 / 5 + s * (1.0 / 7 + s * (1.0 / 9 + s * (1.0 / 11 +
                          s * (1.0 / 13 + s * (1.0 / 15 + s / 17)))))));
    return (float)(2.0 * t * series * 1.44269504088896340736);
}

/* c + a.low b.low + a.high b.high in fp32 */
template <class T> device_function float dot2(u32 a, u32 b, float c)
{
    return c + low_element<T>(a) * low_element<T>(b) + high_element<T>(a) * high_element<T>(b);
}

/* ---- orders to the compiler: nothing to do ---- */
device_function int opaque(int value) { return value; }
#define schedule_fence()

/* ---- memory: the address must be a multiple of the bytes moved ---- */
struct words4 {
    u32 word[4];
};

template <int WORDS> struct alignas(4 * WORDS) aligned_words {
    u32 word[WORDS];
};
template <int WORDS> device_function void load_words(u32 *to, const void *from HOST_LINE)
{
    host_tell(line, from, 4 * WORDS, HOST_READ);
    const aligned_words<WORDS> loaded = *(const aligned_words<WORDS> *)from;
    for (int i = 0; i < WORDS; ++i)
        to[i] = loaded.word[i];
}
template <int WORDS> device_function void store_words(void *to, const u32 *from HOST_LINE)
{
    host_tell(line, to, 4 * WORDS, HOST_WRITE);
    aligned_words<WORDS> stored;
    for (int i = 0; i < WORDS; ++i)
        stored.word[i] = from[i];
    *(aligned_words<WORDS> *)to = stored;
}
device_function u32 load_word(const void *from HOST_LINE)
{
    host_tell(line, from, 4, HOST_READ);
    return *(const u32 *)from;
}
device_function void store_word(void *to, u32 word HOST_LINE)
{
    host_tell(line, to, 4, HOST_WRITE);
    *(u32 *)to = word;
}

/* ---- other threads ---- */
inline float host_shuffle_xor(const host_api *api, u32 site, float value, u32 mask, u32 wave)
{
    return bits_float(api->shuffle(site, float_bits(value), (api->thread_index() % wave) ^ mask));
}
inline float host_group_maximum(const host_api *api, u32 site, u32 lanes, float value, u32 wave)
{
    for (u32 mask = 1; mask < lanes; mask *= 2)
        value = maximum(value, host_shuffle_xor(api, site, value, mask, wave));
    return value;
}
inline float host_group_sum(const host_api *api, u32 site, u32 lanes, float value, u32 wave)
{
    for (u32 mask = 1; mask < lanes; mask *= 2)
        value += host_shuffle_xor(api, site, value, mask, wave);
    return value;
}

/* the value of lane `lane ^ mask`, of float and u32 */
inline float host_exchange(const host_api *api, u32 site, u32 mask, float value, u32 wave)
{
    return host_shuffle_xor(api, site, value, mask, wave);
}
inline u32 host_exchange(const host_api *api, u32 site, u32 mask, u32 value, u32 wave)
{
    return api->shuffle(site, value, (api->thread_index() % wave) ^ mask);
}

/* a value that all lanes of the wave have: strict here, where a GPU would take some lane's */
inline int host_wave_uniform(const host_api *api, u32 site, int value)
{
    if ((int)api->shuffle(site, (u32)value, 0) != value)
        api->fail("wave_uniform: the value differs between lanes of the wave");
    return value;
}

/* whether a condition holds in any lane of the wave */
inline bool host_any_lane(const host_api *api, u32 site, bool condition, u32 wave)
{
    u32 any = condition;
    for (u32 mask = 1; mask < wave; mask *= 2)
        any |= api->shuffle(site, any, (api->thread_index() % wave) ^ mask);
    return any != 0;
}

/* ---- matrix instructions: the host device computes them from the hardware's register layouts ---- */
enum host_matrix {
    host_matrix_mfma_f32_16x16x16_f16,
    host_matrix_mfma_f32_32x32x8_f16,
    host_matrix_mfma_f32_16x16x16_bf16,
    host_matrix_mfma_f32_32x32x8_bf16,
    host_matrix_mfma_f32_16x16x8_bf16,
    host_matrix_mfma_f32_32x32x4_bf16,
    host_matrix_mfma_f32_16x16x32_f16,
    host_matrix_mfma_f32_16x16x32_bf16,
    host_matrix_mfma_f32_32x32x16_f16,
    host_matrix_mfma_f32_32x32x16_bf16,
    host_matrix_wmma_gfx11_f32_16x16x16_f16,
    host_matrix_wmma_gfx11_f32_16x16x16_bf16,
    host_matrix_wmma_gfx12_f32_16x16x16_f16,
    host_matrix_wmma_gfx12_f32_16x16x16_bf16,
    host_matrix_mma_f32_16x8x16_f16,
    host_matrix_mma_f32_16x8x16_bf16,
    host_matrix_mma_f32_16x8x8_f16,
};

/* Four 8 x 8 matrices of 16-bit elements: lane l gives the address of row l % 8 of matrix l / 8, and gets of each matrix the
 * elements 2 (l % 4) and the next of row l / 4; transposed, of column l / 4. Each lane itself reads the row it names. */
inline void host_matrices_deal(const void *ins, void *outs, u32 lanes)
{
    const u32 *row = (const u32 *)ins; /* 4 words a lane */
    for (u32 lane = 0; lane < lanes; ++lane)
        for (u32 i = 0; i < 4; ++i)
            ((u32 *)outs)[4 * lane + i] = row[4 * (8 * i + lane / 4) + lane % 4];
}
inline void host_matrices_deal_transposed(const void *ins, void *outs, u32 lanes)
{
    const u16 *row = (const u16 *)ins; /* 8 elements a lane */
    for (u32 lane = 0; lane < lanes; ++lane)
        for (u32 i = 0; i < 4; ++i)
            for (u32 e = 0; e < 2; ++e)
                ((u16 *)outs)[8 * lane + 2 * i + e] = row[8 * (8 * i + 2 * (lane % 4) + e) + lane / 4];
}
inline void host_load_matrices(const host_api *api, u32 site, u32 *to, const void *row, u32 wave,
                               void (*deal)(const void *, void *, u32) HOST_LINE)
{
    if (wave != 32)
        api->fail("load_matrices is for waves of 32 lanes");
    if ((u64)row % 16 != 0)
        api->fail("load_matrices: the address of a row is not a multiple of 16 bytes");
    host_tell(line, row, 16, HOST_ROWS);
    const aligned_words<4> words = *(const aligned_words<4> *)row;
    api->collective(site, words.word, 16, to, 16, deal);
}

/* ---- copies from global to shared memory that end at a wait ----
 * Threads with an even index copy at once, odd ones when the wait lets them: data read before a wait, and data overwritten
 * before all have read it, both show. */
struct async_copies {
    enum { MOST = 512 };
    struct copy {
        void *to;
        const void *from; /* null: zeros */
        u32 bytes;
        u32 group;
    } pending[MOST];
    u32 count = 0, group = 0; /* copies not yet made, in order; groups committed */
    const host_api *api;
    bool late;
    async_copies(const host_api *host, int thread) : api(host), late(thread % 2 != 0) {}
};
template <int WORDS> inline void host_copy_words(void *to, const void *from)
{
    aligned_words<WORDS> words = {};
    if (from)
        words = *(const aligned_words<WORDS> *)from;
    *(aligned_words<WORDS> *)to = words;
}
inline void host_copy_now(void *to, const void *from, u32 bytes)
{
    if (bytes == 16)
        host_copy_words<4>(to, from);
    else
        host_copy_words<1>(to, from);
}
inline void host_copy_start(async_copies &copies, void *to, const void *from, u32 bytes HOST_LINE)
{
    host_tell(line, to, bytes, HOST_COPY);
    if ((u64)to % bytes != 0 || (u64)from % bytes != 0)
        copies.api->fail("an asynchronous copy's address is not a multiple of its bytes");
    if (!copies.late)
        return host_copy_now(to, from, bytes);
    if (copies.count == async_copies::MOST)
        copies.api->fail("more than 512 asynchronous copies of one thread wait for their wait_copies or wait_direct");
    copies.pending[copies.count++] = {to, from, bytes, copies.group};
}
/* make the copies of groups below `group` */
inline void host_copies_end(async_copies &copies, u32 group)
{
    u32 done = 0;
    for (; done < copies.count && copies.pending[done].group < group; ++done)
        host_copy_now(copies.pending[done].to, copies.pending[done].from, copies.pending[done].bytes);
    for (u32 i = done; i < copies.count; ++i)
        copies.pending[i - done] = copies.pending[i];
    copies.count -= done;
}
/* 16 bytes; zeros when not valid, and then `from` is not read */
inline void copy_async(async_copies &copies, void *to, const void *from, bool valid HOST_LINE)
{
    host_copy_start(copies, to, valid ? from : nullptr, 16 HOST_PASS_LINE);
}
device_function void commit_copies(async_copies &copies) { ++copies.group; }
/* at most GROUPS committed groups are still pending afterwards */
template <int GROUPS> inline void wait_copies(async_copies &copies)
{
    host_copies_end(copies, copies.group < (u32)GROUPS ? 0 : copies.group - GROUPS);
}
/* `bytes` of each lane to `to` + lane * bytes, `to` the same for the whole wave */
inline void host_copy_direct(const host_api *api, u32 site, async_copies &copies, u32 bytes, void *to, const void *from,
                             u32 wave HOST_LINE)
{
    if (api->shuffle(site, (u32)(u64)to, 0) != (u32)(u64)to)
        api->fail("copy_direct: the destination differs between lanes of the wave");
    host_copy_start(copies, (u8 *)to + api->thread_index() % wave * bytes, from, bytes HOST_PASS_LINE);
}
device_function void wait_direct(async_copies &copies) { host_copies_end(copies, ~0u); }

/* ---- the names over `api`: last, since they take names that the text above uses ---- */
#define thread_index() ((int)api->thread_index())
#define block_index_x() api->block_index(0)
#define block_index_y() api->block_index(1)
#define block_index_z() api->block_index(2)
#define barrier() api->barrier(__COUNTER__)
#define wave_barrier() api->wave_barrier(__COUNTER__)
#define shuffle_xor(value, mask) host_shuffle_xor(api, __COUNTER__, value, mask, WAVE)
/* over aligned groups of `lanes` lanes (a power of two, a constant); every lane gets the result */
#define group_maximum(lanes, value) host_group_maximum(api, __COUNTER__, lanes, value, WAVE)
#define group_sum(lanes, value) host_group_sum(api, __COUNTER__, lanes, value, WAVE)
#define exchange(mask, value) host_exchange(api, __COUNTER__, mask, value, WAVE)
#define wave_uniform(value) host_wave_uniform(api, __COUNTER__, value)
#define any_lane(condition) host_any_lane(api, __COUNTER__, condition, WAVE)
#define matrix_multiply(name, c, a, b) api->matrix(__COUNTER__, host_matrix_##name, c, a, b)
#define load_matrices(to, row) host_load_matrices(api, __COUNTER__, to, row, WAVE, host_matrices_deal)
#define load_matrices_transposed(to, row) \
    host_load_matrices(api, __COUNTER__, to, row, WAVE, host_matrices_deal_transposed)
#define begin_copies(copies, thread) async_copies copies(api, thread)
#define copy_direct(copies, bytes, to, from) host_copy_direct(api, __COUNTER__, copies, bytes, to, from, WAVE)
