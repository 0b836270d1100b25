/* amd.h - the device vocabulary on AMD GPUs.
 *
 * Every name that templates may use, documented in docs/vocabulary.md, in terms of what hiprtc and clang know without any
 * header. A name whose instruction a target lacks fails to compile only when it is used. Words are 32 bits and hold one fp32
 * or two 16-bit elements, the lower index in the lower half.
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

#define device_function inline __attribute__((device, always_inline))
/* kernel_function(threads[, waves]): threads of a block, waves of a SIMD unit to leave registers for */
#define kernel_function(...) kernel_function_choose(__VA_ARGS__, kernel_function_waves, kernel_function_threads)(__VA_ARGS__)
#define kernel_function_choose(threads, waves, name, ...) name
#define kernel_function_threads(threads) \
    extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(threads, threads)))
#define kernel_function_waves(threads, waves) \
    kernel_function_threads(threads) __attribute__((amdgpu_waves_per_eu(waves)))
#define shared_array __attribute__((shared, aligned(16)))

/* ---- indices ---- */
#define thread_index() ((int)__builtin_amdgcn_workitem_id_x())
#define block_index_x() ((u32)__builtin_amdgcn_workgroup_id_x())
#define block_index_y() ((u32)__builtin_amdgcn_workgroup_id_y())
#define block_index_z() ((u32)__builtin_amdgcn_workgroup_id_z())

/* ---- bits and elements ---- */
device_function u32 float_bits(float value) { return __builtin_bit_cast(u32, value); }
device_function float bits_float(u32 bits) { return __builtin_bit_cast(float, bits); }
#define INFINITY_FLOAT __builtin_huge_valf()

typedef _Float16 half_pair __attribute__((ext_vector_type(2)));
typedef u32 word_pair __attribute__((ext_vector_type(2)));
typedef u32 word_quad __attribute__((ext_vector_type(4)));

struct half_t {
    u16 bits;
};
struct bf16_t {
    u16 bits;
};

device_function float to_float(half_t value) { return (float)__builtin_bit_cast(_Float16, value.bits); }
device_function float to_float(bf16_t value) { return bits_float((u32)value.bits << 16); }
device_function float to_float(float value) { return value; }

template <class T> device_function T from_float(float value);
template <> device_function float from_float<float>(float value) { return value; }
template <> device_function half_t from_float<half_t>(float value)
{
    return half_t{__builtin_bit_cast(u16, (_Float16)value)};
}
template <> device_function bf16_t from_float<bf16_t>(float value)
{
#if defined(__gfx950__)
    return bf16_t{__builtin_bit_cast(u16, (__bf16)value)};
#else
    const u32 bits = float_bits(value); /* round to nearest even; a NaN keeps its sign and becomes quiet */
    const u32 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return bf16_t{(u16)(value != value ? (bits >> 16) | 0x40u : rounded)};
#endif
}

/* the two elements of a word of 16-bit elements; a word of fp32 has only a low one */
template <class T> device_function float low_element(u32 word);
template <class T> device_function float high_element(u32 word);
template <> device_function float low_element<float>(u32 word) { return bits_float(word); }
template <> device_function float low_element<half_t>(u32 word) { return (float)__builtin_bit_cast(half_pair, word).x; }
template <> device_function float high_element<half_t>(u32 word) { return (float)__builtin_bit_cast(half_pair, word).y; }
template <> device_function float low_element<bf16_t>(u32 word) { return bits_float(word << 16); }
template <> device_function float high_element<bf16_t>(u32 word) { return bits_float(word & 0xffff0000u); }

template <class T> device_function u32 pack_elements(float low, float high)
{
    return (u32)from_float<T>(low).bits | (u32)from_float<T>(high).bits << 16;
}
/* (low half of a, low half of b) and (high half of a, high half of b) */
device_function u32 pack_low(u32 a, u32 b) { return __builtin_amdgcn_perm(b, a, 0x05040100u); }
device_function u32 pack_high(u32 a, u32 b) { return __builtin_amdgcn_perm(b, a, 0x07060302u); }
/* pack_elements for values that are not negative. Ties of bf16 round up here, and a NaN with almost all bits set may be lost:
 * a sum of the same values in fp32 keeps it. */
template <class T> device_function u32 pack_weights(float low, float high) { return pack_elements<T>(low, high); }
#if !defined(__gfx950__)
template <> device_function u32 pack_weights<bf16_t>(float low, float high)
{
    return pack_high(float_bits(low) + 0x8000u, float_bits(high) + 0x8000u);
}
#endif

/* ---- arithmetic ---- */
device_function float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
device_function float maximum(float a, float b) { return __builtin_fmaxf(a, b); }
device_function int minimum(int a, int b) { return a < b ? a : b; }
device_function u32 multiply_high(u32 a, u32 b) { return (u32)(((u64)a * b) >> 32); }

/* 2^value; 0 for -infinity, NaN for NaN; results below 2^-126 may become 0 */
device_function float exp2_fast(float value)
{
#if __has_builtin(__builtin_amdgcn_exp2f)
    return __builtin_amdgcn_exp2f(value);
#else
    return __builtin_exp2f(value);
#endif
}

/* base-2 logarithm of a normal number in [0.5, 2): absolute error below 2^-22 */
device_function float log2_fast(float value)
{
#if __has_builtin(__builtin_amdgcn_logf)
    return __builtin_amdgcn_logf(value);
#else
    return __builtin_log2f(value);
#endif
}

/* c + a.low b.low + a.high b.high in fp32 */
template <class T> device_function float dot2(u32 a, u32 b, float c);
template <> device_function float dot2<half_t>(u32 a, u32 b, float c)
{
    return __builtin_amdgcn_fdot2(__builtin_bit_cast(half_pair, a), __builtin_bit_cast(half_pair, b), c, false);
}
#if __has_builtin(__builtin_amdgcn_fdot2_f32_bf16)
typedef __bf16 bf16_pair __attribute__((ext_vector_type(2)));
template <> device_function float dot2<bf16_t>(u32 a, u32 b, float c)
{
    return __builtin_amdgcn_fdot2_f32_bf16(__builtin_bit_cast(bf16_pair, a), __builtin_bit_cast(bf16_pair, b), c, false);
}
#endif

/* ---- orders to the compiler ---- */
/* the same value, of which nothing is known any more: what is computed from it is computed here */
device_function int opaque(int value)
{
    asm volatile("" : "+v"(value));
    return value;
}
/* loads and stores stay on their side */
#define schedule_fence() asm volatile("" ::: "memory")

/* ---- memory: the address must be a multiple of the bytes moved ---- */
struct words4 {
    u32 word[4];
};

template <int WORDS> device_function void load_words(u32 *to, const void *from);
template <> device_function void load_words<1>(u32 *to, const void *from) { to[0] = *(const u32 *)from; }
template <> device_function void load_words<2>(u32 *to, const void *from)
{
    const word_pair loaded = *(const word_pair *)from;
    to[0] = loaded.x;
    to[1] = loaded.y;
}
template <> device_function void load_words<4>(u32 *to, const void *from)
{
    const word_quad loaded = *(const word_quad *)from;
    to[0] = loaded.x;
    to[1] = loaded.y;
    to[2] = loaded.z;
    to[3] = loaded.w;
}
template <int WORDS> device_function void store_words(void *to, const u32 *from);
template <> device_function void store_words<1>(void *to, const u32 *from) { *(u32 *)to = from[0]; }
template <> device_function void store_words<2>(void *to, const u32 *from)
{
    *(word_pair *)to = word_pair{from[0], from[1]};
}
template <> device_function void store_words<4>(void *to, const u32 *from)
{
    *(word_quad *)to = word_quad{from[0], from[1], from[2], from[3]};
}
device_function u32 load_word(const void *from) { return *(const u32 *)from; }
device_function void store_word(void *to, u32 word) { *(u32 *)to = word; }

/* ---- waves and blocks ---- */
#define barrier() block_barrier_now()
device_function void block_barrier_now()
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
/* lanes of a wave run in step and their LDS accesses stay in order: only the compiler must not move them */
#define wave_barrier() wave_barrier_now()
device_function void wave_barrier_now()
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

#define shuffle_xor(value, mask) shuffle_xor_now(value, thread_index() ^ (mask))
device_function float shuffle_xor_now(float value, int lane)
{
    return bits_float((u32)__builtin_amdgcn_ds_bpermute(lane << 2, (int)float_bits(value)));
}

/* One step of a butterfly over 2 * MASK lanes. The mirrors replace xor 4 and xor 8: after the smaller steps all lanes of a
 * mirrored half hold the same value, and a mirror runs in the vector unit where xor 4 would go through LDS. */
template <int MASK> device_function float butterfly(float value)
{
    const int bits = (int)float_bits(value);
    if (MASK == 1)
        return bits_float((u32)__builtin_amdgcn_update_dpp(bits, bits, 0xb1, 0xf, 0xf, true)); /* quad_perm 1 0 3 2 */
    if (MASK == 2)
        return bits_float((u32)__builtin_amdgcn_update_dpp(bits, bits, 0x4e, 0xf, 0xf, true)); /* quad_perm 2 3 0 1 */
    if (MASK == 4)
        return bits_float((u32)__builtin_amdgcn_update_dpp(bits, bits, 0x141, 0xf, 0xf, true)); /* row_half_mirror */
    if (MASK == 8)
        return bits_float((u32)__builtin_amdgcn_update_dpp(bits, bits, 0x140, 0xf, 0xf, true)); /* row_mirror */
    if (MASK == 16)
        return bits_float((u32)__builtin_amdgcn_ds_swizzle(bits, 0x401f)); /* xor 16 */
    return shuffle_xor_now(value, thread_index() ^ MASK);
}
template <int LANES> struct group_reduce {
    static device_function float largest(float value)
    {
        value = group_reduce<LANES / 2>::largest(value);
        return maximum(value, butterfly<LANES / 2>(value));
    }
    static device_function float total(float value)
    {
        value = group_reduce<LANES / 2>::total(value);
        return value + butterfly<LANES / 2>(value);
    }
};
template <> struct group_reduce<1> {
    static device_function float largest(float value) { return value; }
    static device_function float total(float value) { return value; }
};
/* over aligned groups of `lanes` lanes (a power of two, a constant); every lane gets the result */
#define group_maximum(lanes, value) group_reduce<lanes>::largest(value)
#define group_sum(lanes, value) group_reduce<lanes>::total(value)

/* the value of lane `lane ^ MASK`: within the vector unit where it can be */
template <int MASK> device_function u32 exchange_now(u32 value)
{
    static_assert(MASK == 1 || MASK == 2 || MASK == 4 || MASK == 8 || MASK == 16 || MASK == 32, "exchange: one bit");
    const int bits = (int)value;
    if (MASK == 1)
        return (u32)__builtin_amdgcn_update_dpp(bits, bits, 0xb1, 0xf, 0xf, true); /* quad_perm 1 0 3 2 */
    if (MASK == 2)
        return (u32)__builtin_amdgcn_update_dpp(bits, bits, 0x4e, 0xf, 0xf, true); /* quad_perm 2 3 0 1 */
    if (MASK == 4) {
#if defined(__GFX10__) || defined(__GFX11__) || defined(__GFX12__)
        return __builtin_amdgcn_mov_dpp8(value, 0x688fac); /* lanes 4 5 6 7 0 1 2 3 of each eight */
#else
        const int mirrored = __builtin_amdgcn_update_dpp(bits, bits, 0x141, 0xf, 0xf, true);     /* row_half_mirror: xor 7 */
        return (u32)__builtin_amdgcn_update_dpp(mirrored, mirrored, 0x1b, 0xf, 0xf, true); /* quad_perm 3 2 1 0: xor 3 */
#endif
    }
    if (MASK == 8)
        return (u32)__builtin_amdgcn_update_dpp(bits, bits, 0x128, 0xf, 0xf, true); /* row_ror 8 */
    if (MASK == 16) {
#if defined(__GFX10__) || defined(__GFX11__) || defined(__GFX12__)
        return __builtin_amdgcn_permlanex16(value, value, 0x76543210u, 0xfedcba98u, false, false);
#elif defined(__gfx950__)
        const auto swapped = __builtin_amdgcn_permlane16_swap(value, value, false, false);
        return thread_index() & 16 ? swapped[0] : swapped[1];
#else
        return (u32)__builtin_amdgcn_ds_swizzle(bits, 0x401f); /* xor 16 */
#endif
    }
#if defined(__gfx950__)
    const auto swapped = __builtin_amdgcn_permlane32_swap(value, value, false, false);
    return thread_index() & 32 ? swapped[0] : swapped[1];
#else
    return (u32)__builtin_amdgcn_ds_bpermute((thread_index() ^ MASK) << 2, bits);
#endif
}
template <int MASK> device_function float exchange_now(float value) { return bits_float(exchange_now<MASK>(float_bits(value))); }
#define exchange(mask, value) exchange_now<mask>(value)

/* a value that all lanes of the wave have, in a scalar register */
#define wave_uniform(value) __builtin_amdgcn_readfirstlane(value)
/* whether a condition holds in any lane of the wave: a scalar */
device_function bool any_lane(bool condition)
{
#if !__has_builtin(__builtin_amdgcn_ballot_w64)
    return __builtin_amdgcn_uicmp(condition, 0u, 33) != 0; /* not equal; hiprtc 5.2 */
#elif defined(__GFX9__)
    return __builtin_amdgcn_ballot_w64(condition) != 0;
#else
    return __builtin_amdgcn_ballot_w32(condition) != 0;
#endif
}

/* ---- matrix instructions: c += a b by one wave, operands in the registers' order ---- */
#define matrix_multiply(name, c, a, b) matrix_multiply_##name(c, a, b)
typedef short short_pair __attribute__((ext_vector_type(2)));
typedef short short_quad __attribute__((ext_vector_type(4)));
typedef short short_eight __attribute__((ext_vector_type(8)));
typedef short short_sixteen __attribute__((ext_vector_type(16)));
typedef _Float16 half_quad __attribute__((ext_vector_type(4)));
typedef _Float16 half_eight __attribute__((ext_vector_type(8)));
typedef _Float16 half_sixteen __attribute__((ext_vector_type(16)));
typedef float float_quad __attribute__((ext_vector_type(4)));
typedef float float_eight __attribute__((ext_vector_type(8)));
typedef float float_sixteen __attribute__((ext_vector_type(16)));

/* registers as the vector that a builtin wants, and back */
template <int WORDS> struct word_vector {
    typedef u32 type __attribute__((ext_vector_type(WORDS)));
};
template <class V, int WORDS> device_function V operand(const u32 *words)
{
    typename word_vector<WORDS>::type v;
    for (int i = 0; i < WORDS; ++i)
        v[i] = words[i];
    return __builtin_bit_cast(V, v);
}
template <> device_function short_pair operand<short_pair, 1>(const u32 *words)
{
    return __builtin_bit_cast(short_pair, words[0]);
}
template <class V, int REGISTERS> device_function V accumulator(const float *c)
{
    V v;
    for (int i = 0; i < REGISTERS; ++i)
        v[i] = c[i];
    return v;
}
template <int REGISTERS, class V> device_function void result(float *c, V v)
{
    for (int i = 0; i < REGISTERS; ++i)
        c[i] = v[i];
}

#define matrix_function(name, builtin, element, a_words, accumulator_type, c_words, ...) \
    device_function void matrix_multiply_##name(float *c, const u32 *a, const u32 *b) \
    { \
        result<c_words>(c, builtin(operand<element, a_words>(a), operand<element, a_words>(b), \
                                   accumulator<accumulator_type, c_words>(c) __VA_ARGS__)); \
    }
#if __has_builtin(__builtin_amdgcn_mfma_f32_16x16x16f16)
matrix_function(mfma_f32_16x16x16_f16, __builtin_amdgcn_mfma_f32_16x16x16f16, half_quad, 2, float_quad, 4, , 0, 0, 0)
matrix_function(mfma_f32_32x32x8_f16, __builtin_amdgcn_mfma_f32_32x32x8f16, half_quad, 2, float_sixteen, 16, , 0, 0, 0)
matrix_function(mfma_f32_16x16x8_bf16, __builtin_amdgcn_mfma_f32_16x16x8bf16, short_pair, 1, float_quad, 4, , 0, 0, 0)
matrix_function(mfma_f32_32x32x4_bf16, __builtin_amdgcn_mfma_f32_32x32x4bf16, short_pair, 1, float_sixteen, 16, , 0, 0, 0)
#endif
#if __has_builtin(__builtin_amdgcn_mfma_f32_16x16x16bf16_1k)
matrix_function(mfma_f32_16x16x16_bf16, __builtin_amdgcn_mfma_f32_16x16x16bf16_1k, short_quad, 2, float_quad, 4, , 0, 0, 0)
matrix_function(mfma_f32_32x32x8_bf16, __builtin_amdgcn_mfma_f32_32x32x8bf16_1k, short_quad, 2, float_sixteen, 16, , 0, 0, 0)
#endif
#if __has_builtin(__builtin_amdgcn_mfma_f32_16x16x32_bf16)
typedef __bf16 bf16_eight __attribute__((ext_vector_type(8)));
matrix_function(mfma_f32_16x16x32_f16, __builtin_amdgcn_mfma_f32_16x16x32_f16, half_eight, 4, float_quad, 4, , 0, 0, 0)
matrix_function(mfma_f32_32x32x16_f16, __builtin_amdgcn_mfma_f32_32x32x16_f16, half_eight, 4, float_sixteen, 16, , 0, 0, 0)
matrix_function(mfma_f32_16x16x32_bf16, __builtin_amdgcn_mfma_f32_16x16x32_bf16, bf16_eight, 4, float_quad, 4, , 0, 0, 0)
matrix_function(mfma_f32_32x32x16_bf16, __builtin_amdgcn_mfma_f32_32x32x16_bf16, bf16_eight, 4, float_sixteen, 16, , 0, 0, 0)
#endif
#if __has_builtin(__builtin_amdgcn_wmma_f32_16x16x16_f16_w32)
matrix_function(wmma_gfx11_f32_16x16x16_f16, __builtin_amdgcn_wmma_f32_16x16x16_f16_w32, half_sixteen, 8, float_eight, 8)
matrix_function(wmma_gfx11_f32_16x16x16_bf16, __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32, short_sixteen, 8, float_eight, 8)
#endif
#if __has_builtin(__builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12)
matrix_function(wmma_gfx12_f32_16x16x16_f16, __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12, half_eight, 4, float_eight, 8)
matrix_function(wmma_gfx12_f32_16x16x16_bf16, __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12, short_eight, 4, float_eight, 8)
#endif

/* ---- loads from global memory straight into LDS ---- */
struct async_copies {
    device_function explicit async_copies(int) {}
};
/* declares what stands for the copies that this thread has under way */
#define begin_copies(copies, thread) async_copies copies(thread)
/* `bytes` (a constant: 4; 16 on gfx950) of each lane to `to` + lane * bytes, `to` the same for the whole wave */
#if __has_builtin(__builtin_amdgcn_global_load_lds)
#define copy_direct(copies, bytes, to, from) \
    ((void)(copies), __builtin_amdgcn_global_load_lds((__attribute__((address_space(1))) void *)(from), \
                                                      (__attribute__((address_space(3))) void *)(to), bytes, 0, 0))
#else /* a compiler without the builtin knows the instruction; its own counting of loads in flight stays on the safe side */
#if defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__)
#define COPY_DIRECT_LOAD "global_load_lds_dword %1, off"
#else
#define COPY_DIRECT_LOAD "global_load_dword %1, off lds"
#endif
#define copy_direct(copies, bytes, to, from) copy_direct_now<bytes>(copies, to, from)
template <int BYTES> device_function void copy_direct_now(async_copies &, void *to, const void *from)
{
    static_assert(BYTES == 4, "copy_direct: 4 bytes a lane");
    const u32 offset = (u32)(u64)(__attribute__((address_space(3))) void *)to;
    asm volatile("s_mov_b32 m0, %0\n\ts_nop 0\n\t" COPY_DIRECT_LOAD ::"s"(
                     __builtin_amdgcn_readfirstlane((int)offset)),
                 "v"(from)
                 : "memory");
}
#endif
/* all of this lane's are there */
device_function void wait_direct(async_copies &) { asm volatile("s_waitcnt vmcnt(0)" ::: "memory"); }
