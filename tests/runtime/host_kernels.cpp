/* host_kernels.cpp - small hand-written kernels for the tests of the host device; no system headers, no undefined
 * symbols, as generated text has it. Compiled by the tests with -DKERNEL=name, which chooses the object's entry. */
typedef unsigned int u32;
typedef unsigned long long u64;

struct host_api {
    u32 size, version;
    u32 (*thread_index)(void);
    u32 (*block_index)(int);
    void (*barrier)(u32);
    void (*wave_barrier)(u32);
    u32 (*shuffle)(u32, u32, u32);
    void *(*shared)(u32, u64);
    void (*collective)(u32, const void *, u32, void *, u32, void (*)(const void *, void *, u32));
    void (*fail)(const char *);
};

/* every kernel takes these; blocks are THREADS long */
struct arguments {
    const float *in;
    float *out;
    u32 n;
    u32 option;
};

#ifndef THREADS
#define THREADS 128
#endif
#ifndef WAVE
#define WAVE 32
#endif

#define BARRIER() api->barrier(__COUNTER__)
#define WAVE_BARRIER() api->wave_barrier(__COUNTER__)
#define SHUFFLE(value, lane) shuffle(api, __COUNTER__, value, lane)
#define SHARED(type, count) ((type *)api->shared(__COUNTER__, sizeof(type) * (count)))

namespace
{

float shuffle(const host_api *api, u32 site, float value, u32 lane)
{
    u32 bits;
    __builtin_memcpy(&bits, &value, 4);
    bits = api->shuffle(site, bits, lane);
    __builtin_memcpy(&value, &bits, 4);
    return value;
}

void copy(const host_api *api, const arguments &a)
{
    u32 i = api->block_index(0) * THREADS + api->thread_index();
    if (i < a.n) {
        a.out[i] = a.in[i];
    }
}

/* out[block number] = number, threads of a 3-d grid */
void blocks(const host_api *api, const arguments &a)
{
    u32 x = api->block_index(0), y = api->block_index(1), z = api->block_index(2);
    if (api->thread_index() == 0) {
        a.out[(z * 3 + y) * 5 + x] += (float)(x + 10 * y + 100 * z);
    }
}

/* sum over each wave by xor shuffles, then over the waves through shared memory */
void reduction(const host_api *api, const arguments &a)
{
    u32 thread = api->thread_index(), lane = thread % WAVE;
    float sum = a.in[api->block_index(0) * THREADS + thread];
    for (u32 mask = WAVE / 2; mask > 0; mask /= 2) {
        sum += SHUFFLE(sum, lane ^ mask);
    }
    float *sums = SHARED(float, THREADS / WAVE);
    if (lane == 0) {
        sums[thread / WAVE] = sum;
    }
    BARRIER();
    if (thread == 0) {
        float total = 0;
        for (u32 w = 0; w < THREADS / WAVE; w++) {
            total += sums[w];
        }
        a.out[api->block_index(0)] = total;
    }
}

/* Two shuffles: under round-robin all waves of a block get through them in step, which is what hides a missing barrier
 * there. */
#define IN_STEP(value) SHUFFLE(SHUFFLE(value, lane), lane)

/* Reverses each run of THREADS elements through shared memory, several times over. The options remove what must be
 * there. */
enum { DROP_WRITE_BARRIER = 1, DROP_READ_BARRIER = 2 };
void reverse(const host_api *api, const arguments &a)
{
    u32 thread = api->thread_index(), lane = thread % WAVE;
    float *tile = SHARED(float, THREADS);
    for (u32 round = 0; round < 4; round++) {
        tile[thread] = a.in[round * THREADS + thread];
        float one = IN_STEP(1.0f);
        if (!(a.option & DROP_WRITE_BARRIER)) {
            BARRIER();
        }
        float value = tile[THREADS - 1 - thread] * one;
        value *= IN_STEP(1.0f);
        if (!(a.option & DROP_READ_BARRIER)) {
            BARRIER();
        }
        a.out[round * THREADS + thread] = value;
    }
}

/* Wave a.n writes, two waves read; the barrier after reading is missing when option says so. */
void producer(const host_api *api, const arguments &a)
{
    u32 thread = api->thread_index(), lane = thread % WAVE;
    float *tile = SHARED(float, WAVE);
    for (u32 round = 0; round < 2; round++) {
        if (thread / WAVE == a.n) {
            tile[lane] = (float)round;
        }
        BARRIER();
        a.out[round * 2 * WAVE + thread] = tile[lane];
        if (a.option == 0) {
            BARRIER();
        }
    }
}

void divergent_sites(const host_api *api, const arguments &a)
{
    if (api->thread_index() == a.option) {
        BARRIER();
    } else {
        BARRIER();
    }
}

void early_return(const host_api *api, const arguments &a)
{
    if (api->thread_index() == a.option) {
        return;
    }
    BARRIER();
}

/* one wave-wide shuffle that reads lane `option` */
void shuffle_from(const host_api *api, const arguments &a)
{
    u32 thread = api->thread_index();
    float value = SHUFFLE((float)thread, a.option);
    a.out[thread] = value;
}

/* lanes below 8 shuffle among themselves (and with lane `option`); the others have returned or wait at the barrier */
void shuffle_some_returned(const host_api *api, const arguments &a)
{
    u32 thread = api->thread_index();
    if (thread % WAVE >= 8) {
        return;
    }
    a.out[thread] = SHUFFLE((float)thread, thread % WAVE == 0 ? a.option : 7 - thread % WAVE);
}

void shuffle_some_waiting(const host_api *api, const arguments &a)
{
    u32 thread = api->thread_index();
    if (thread % WAVE < 8) {
        a.out[thread] = SHUFFLE((float)thread, thread % WAVE == 0 ? a.option : 7 - thread % WAVE);
    }
    BARRIER();
}

void mismatched_wave(const host_api *api, const arguments &a)
{
    u32 thread = api->thread_index();
    if (thread % WAVE < 4) {
        a.out[thread] = SHUFFLE(1.0f, 0);
    } else {
        a.out[thread] = SHUFFLE(2.0f, 4);
    }
}

void wave_barrier_without_one(const host_api *api, const arguments &a)
{
    if (api->thread_index() == a.option) {
        return;
    }
    WAVE_BARRIER();
}

void poison(const host_api *api, const arguments &a)
{
    u32 thread = api->thread_index();
    float *tile = SHARED(float, THREADS);
    a.out[api->block_index(0) * THREADS + thread] = tile[thread];
    BARRIER();
    tile[thread] = 1;
}

/* inclusive sum over the lanes, computed by whoever comes last; repeated to show that results do not mix */
void scan_lanes(const void *ins, void *outs, u32 lanes)
{
    float sum = 0;
    for (u32 i = 0; i < lanes; i++) {
        sum += ((const float *)ins)[i];
        ((float *)outs)[2 * i] = sum;
        ((float *)outs)[2 * i + 1] = (float)lanes;
    }
}

void collective(const host_api *api, const arguments &a)
{
    u32 thread = api->thread_index();
    float value = a.in[thread], result[2];
    for (u32 round = 0; round < 3; round++) {
        api->collective(1000, &value, 4, result, 8, scan_lanes);
        value = result[0];
    }
    a.out[2 * thread] = value;
    a.out[2 * thread + 1] = result[1];
}

void collective_without_one(const host_api *api, const arguments &a)
{
    float value = 1, result[2];
    if (api->thread_index() == a.option) {
        api->barrier(999); /* one site for both */
    }
    api->collective(1000, &value, 4, result, 8, scan_lanes);
    if (api->thread_index() != a.option) {
        api->barrier(999);
    }
}

void shared_sizes(const host_api *api, const arguments &)
{
    api->shared(1000, api->thread_index() == 5 ? 8 : 4);
}

/* option 0 is right; 1 writes one element past the end */
void shared_overflow(const host_api *api, const arguments &a)
{
    u32 thread = api->thread_index();
    float *tile = SHARED(float, THREADS);
    tile[thread + a.option] = a.in[thread]; // OVERFLOW_LINE
    BARRIER();
    a.out[thread] = tile[THREADS - 1 - thread];
}

/* option 0 is right; 1 reads one element past the input */
void global_overflow(const host_api *api, const arguments &a)
{
    u32 thread = api->thread_index();
    a.out[thread] = a.in[thread + a.option]; // GLOBAL_LINE
}

/* option 1: a shift by the width of the type */
void bad_shift(const host_api *api, const arguments &a)
{
    u32 thread = api->thread_index();
    a.out[thread] = (float)(1u << (31 + (thread < 1 ? a.option : 0))); // SHIFT_LINE
}

void says_fail(const host_api *api, const arguments &a)
{
    if (api->thread_index() == 3 && api->block_index(0) >= a.option) {
        api->fail("operand rows differ");
    }
    BARRIER();
}

/* block b adds to what block b - 1 left, after waiting for it: legal because blocks start in order */
void ordered(const host_api *api, const arguments &a)
{
    u32 block = api->block_index(0);
    if (api->thread_index() == 0) {
        if (block > 0) {
            while (__atomic_load_n(&((u32 *)a.out)[block - 1], __ATOMIC_ACQUIRE) != block) {
            }
        }
        __atomic_store_n(&((u32 *)a.out)[block], block + 1, __ATOMIC_RELEASE);
    }
}

/* ends only when somebody ends it */
void loops_forever(const host_api *, const arguments &a)
{
    while (__atomic_load_n((const u32 *)a.in, __ATOMIC_RELAXED) != 0xffffffffu) {
    }
}

} // namespace

#define ENTRY(name)                                                                                                    \
    extern "C" void entry_##name(const host_api *api, const void *packed)                                              \
    {                                                                                                                  \
        name(api, *(const arguments *)packed);                                                                         \
    }
ENTRY(copy)
ENTRY(blocks)
ENTRY(reduction)
ENTRY(reverse)
ENTRY(producer)
ENTRY(divergent_sites)
ENTRY(early_return)
ENTRY(shuffle_from)
ENTRY(shuffle_some_returned)
ENTRY(shuffle_some_waiting)
ENTRY(mismatched_wave)
ENTRY(wave_barrier_without_one)
ENTRY(poison)
ENTRY(collective)
ENTRY(collective_without_one)
ENTRY(shared_sizes)
ENTRY(shared_overflow)
ENTRY(global_overflow)
ENTRY(bad_shift)
ENTRY(says_fail)
ENTRY(ordered)
ENTRY(loops_forever)

#ifdef KERNEL
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)
extern "C" void attune_host_entry(const host_api *api, const void *packed)
{
    JOIN(entry_, KERNEL)(api, packed);
}

#ifndef TARGET
#define TARGET "host"
#endif
struct note {
    u32 owner_bytes, descriptor_bytes, type;
    char owner[8];
    u32 version, wave_size, threads, shared_bytes, argument_bytes;
    char kernel[64], target[64];
};
__attribute__((section(".note.attune,\"a\",@note#"), used, aligned(4))) static const note attune_note = {
    7, sizeof(note) - 20, 1, "attune", 1, WAVE, THREADS, 4 * THREADS, sizeof(arguments), TEXT(KERNEL), TARGET};
#endif
