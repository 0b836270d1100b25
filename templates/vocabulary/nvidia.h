/* nvidia.h - the device vocabulary on NVIDIA GPUs.
 *
 * Every name that templates may use, documented in docs/vocabulary.md, in terms of what NVRTC knows without any header; 16-bit
 * floats are bits plus inline PTX. Words are 32 bits and hold one fp32 or two 16-bit elements, the lower index in the lower
 * half. Shared arrays are parts of the launch's dynamic shared memory, because static ones end at 48 KiB.
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

#define device_function __device__ __forceinline__
#define kernel_function(...) extern "C" __global__ __launch_bounds__(__VA_ARGS__) /* threads, blocks an SM should hold */

/* ---- indices ---- */
#define thread_index() ((int)threadIdx.x)
#define block_index_x() ((u32)blockIdx.x)
#define block_index_y() ((u32)blockIdx.y)
#define block_index_z() ((u32)blockIdx.z)

/* ---- bits and elements ---- */
device_function u32 float_bits(float value) { return __float_as_uint(value); }
device_function float bits_float(u32 bits) { return __uint_as_float(bits); }
#define INFINITY_FLOAT __int_as_float(0x7f800000)

struct half_t {
    u16 bits;
};
struct bf16_t {
    u16 bits;
};

device_function float half_to_float(u16 bits)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}
device_function float to_float(half_t value) { return half_to_float(value.bits); }
device_function float to_float(bf16_t value) { return bits_float((u32)value.bits << 16); }
device_function float to_float(float value) { return value; }

template <class T> device_function T from_float(float value);
template <> device_function float from_float<float>(float value) { return value; }
template <> device_function half_t from_float<half_t>(float value)
{
    half_t result;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
    return result;
}
template <> device_function bf16_t from_float<bf16_t>(float value)
{
    const u32 bits = float_bits(value); /* round to nearest even; a NaN keeps its sign and becomes quiet */
    const u32 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    bf16_t result;
    result.bits = (u16)(value != value ? (bits >> 16) | 0x40u : rounded);
    return result;
}

/* the two elements of a word of 16-bit elements; a word of fp32 has only a low one */
template <class T> device_function float low_element(u32 word);
template <class T> device_function float high_element(u32 word);
template <> device_function float low_element<float>(u32 word) { return bits_float(word); }
template <> device_function float low_element<half_t>(u32 word) { return half_to_float((u16)word); }
template <> device_function float high_element<half_t>(u32 word) { return half_to_float((u16)(word >> 16)); }
template <> device_function float low_element<bf16_t>(u32 word) { return bits_float(word << 16); }
template <> device_function float high_element<bf16_t>(u32 word) { return bits_float(word & 0xffff0000u); }

template <class T> device_function u32 pack_elements(float low, float high)
{
    return (u32)from_float<T>(low).bits | (u32)from_float<T>(high).bits << 16;
}
#if __CUDA_ARCH__ >= 800 /* one instruction */
template <> device_function u32 pack_elements<half_t>(float low, float high)
{
    u32 word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}
template <> device_function u32 pack_elements<bf16_t>(float low, float high)
{
    u32 word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}
#endif
/* the same for values that are not negative, where a target has a cheaper way */
template <class T> device_function u32 pack_weights(float low, float high) { return pack_elements<T>(low, high); }
/* (low half of a, low half of b) and (high half of a, high half of b) */
device_function u32 pack_low(u32 a, u32 b) { return __byte_perm(a, b, 0x5410); }
device_function u32 pack_high(u32 a, u32 b) { return __byte_perm(a, b, 0x7632); }

/* ---- arithmetic ---- */
device_function float fused(float a, float b, float c) { return fmaf(a, b, c); }
device_function float maximum(float a, float b) { return fmaxf(a, b); }
device_function int minimum(int a, int b) { return a < b ? a : b; }
device_function u32 multiply_high(u32 a, u32 b) { return __umulhi(a, b); }

/* 2^value; 0 for -infinity, NaN for NaN; results below 2^-126 become 0 */
device_function float exp2_fast(float value)
{
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
    return result;
}
/* base-2 logarithm of a normal number in [0.5, 2): absolute error below 2^-22 */
device_function float log2_fast(float value)
{
    float result;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
    return result;
}

/* ---- orders to the compiler ---- */
/* the same value, of which nothing is known any more: what is computed from it is computed here */
device_function int opaque(int value)
{
    asm volatile("" : "+r"(value));
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
    const uint2 loaded = *(const uint2 *)from;
    to[0] = loaded.x;
    to[1] = loaded.y;
}
template <> device_function void load_words<4>(u32 *to, const void *from)
{
    const uint4 loaded = *(const uint4 *)from;
    to[0] = loaded.x;
    to[1] = loaded.y;
    to[2] = loaded.z;
    to[3] = loaded.w;
}
template <int WORDS> device_function void store_words(void *to, const u32 *from);
template <> device_function void store_words<1>(void *to, const u32 *from) { *(u32 *)to = from[0]; }
template <> device_function void store_words<2>(void *to, const u32 *from)
{
    *(uint2 *)to = make_uint2(from[0], from[1]);
}
template <> device_function void store_words<4>(void *to, const u32 *from)
{
    *(uint4 *)to = make_uint4(from[0], from[1], from[2], from[3]);
}
device_function u32 load_word(const void *from) { return *(const u32 *)from; }
device_function void store_word(void *to, u32 word) { *(u32 *)to = word; }

/* ---- waves and blocks ---- */
#define barrier() __syncthreads()
#define wave_barrier() __syncwarp(0xffffffffu)
#define shuffle_xor(value, mask) __shfl_xor_sync(0xffffffffu, value, mask)

template <int LANES> device_function float group_maximum_now(float value)
{
#pragma unroll
    for (int mask = 1; mask < LANES; mask *= 2)
        value = maximum(value, shuffle_xor(value, mask));
    return value;
}
template <int LANES> device_function float group_sum_now(float value)
{
#pragma unroll
    for (int mask = 1; mask < LANES; mask *= 2)
        value += shuffle_xor(value, mask);
    return value;
}
/* over aligned groups of `lanes` lanes (a power of two, a constant); every lane gets the result */
#define group_maximum(lanes, value) group_maximum_now<lanes>(value)
#define group_sum(lanes, value) group_sum_now<lanes>(value)

/* the value of lane `lane ^ mask`, mask a constant power of two, of float and u32 */
#define exchange(mask, value) __shfl_xor_sync(0xffffffffu, value, mask)
/* a value that all lanes of the wave have */
#define wave_uniform(value) __shfl_sync(0xffffffffu, value, 0)
/* whether a condition holds in any lane of the wave */
#define any_lane(condition) ((bool)__any_sync(0xffffffffu, condition))

/* ---- matrix instructions: c += a b by one warp, operands in the registers' order ---- */
#define matrix_multiply(name, c, a, b) matrix_multiply_##name(c, a, b)
#define matrix_16x8x16(type) \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
device_function void matrix_multiply_mma_f32_16x8x16_f16(float *c, const u32 *a, const u32 *b) { matrix_16x8x16("f16"); }
device_function void matrix_multiply_mma_f32_16x8x16_bf16(float *c, const u32 *a, const u32 *b) { matrix_16x8x16("bf16"); }
device_function void matrix_multiply_mma_f32_16x8x8_f16(float *c, const u32 *a, const u32 *b)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(b[0]));
}

device_function u32 shared_address(const void *shared) { return (u32)__cvta_generic_to_shared(shared); }
/* Four 8 x 8 matrices of 16-bit elements: lane l gives the address of row l % 8 of matrix l / 8, and gets of each matrix the
 * elements 2 (l % 4) and the next of row l / 4; transposed, of column l / 4. */
device_function void load_matrices(u32 *to, const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(row))
                 : "memory");
}
device_function void load_matrices_transposed(u32 *to, const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/* ---- copies from global to shared memory that end at a wait; a thread sees its own after it, others after a barrier ---- */
struct async_copies {
    device_function explicit async_copies(int) {}
};
/* declares what stands for the copies that this thread has under way */
#define begin_copies(copies, thread) async_copies copies(thread)
/* 16 bytes; zeros when not valid, and then `from` is not read */
device_function void copy_async(async_copies &, void *to, const void *from, bool valid)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                 "l"(__cvta_generic_to_global(from)), "r"(valid ? 16 : 0)
                 : "memory");
}
device_function void commit_copies(async_copies &) { asm volatile("cp.async.commit_group;" ::: "memory"); }
/* at most GROUPS committed groups are still pending afterwards */
template <int GROUPS> device_function void wait_copies(async_copies &)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS) : "memory");
}
