/* screen.c - resource limits of devices against those that an object states. */
#include "autotune/screen.h"

#include <stdio.h>
#include <string.h>

/* NVIDIA: 65536 registers a multiprocessor since sm_70, handed out by warp in units of 256 (CUDA C++ programming guide,
 * "technical specifications per compute capability"). AMD with waves of 64: four SIMDs a compute unit share a block's
 * waves; a SIMD has at most 512 registers a lane, accumulators included (CDNA2 ISA), 256 before: what exceeds even 512
 * cannot launch. */
enum {
    NVIDIA_REGISTER_FILE = 65536,
    NVIDIA_WARP = 32,
    NVIDIA_UNIT = 256,
    AMD_WAVE = 64,
    AMD_SIMDS = 4,
    AMD_LANE_REGISTERS = 512,
    NVIDIA_RESERVED_BYTES = 1024,
    RDNA_LANE_REGISTERS = 1024,
    RDNA_SIMDS = 2,
    RDNA_WAVES = 16
};

static int64_t round_up(int64_t value, int64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

static bool registers_fit(const struct driver_device *device, const struct launch *launch,
                          const struct resources *resources, char reason[SCREEN_REASON_BYTES])
{
    if (resources->vector_registers <= 0) {
        return true;
    }
    if (device->target.vendor == TARGET_NVIDIA) {
        int64_t warps = round_up(launch->threads, NVIDIA_WARP) / NVIDIA_WARP;
        int64_t needed = warps * round_up((int64_t)resources->vector_registers * NVIDIA_WARP, NVIDIA_UNIT);
        if (needed > NVIDIA_REGISTER_FILE) {
            snprintf(reason, SCREEN_REASON_BYTES, "%d registers x %u threads need %lld of the %d registers there are",
                     resources->vector_registers, launch->threads, (long long)needed, NVIDIA_REGISTER_FILE);
            return false;
        }
    }
    if (device->target.vendor == TARGET_AMD && device->wave_size == 64) {
        int64_t waves = round_up(launch->threads, AMD_WAVE) / AMD_WAVE;
        int64_t waves_a_simd = round_up(waves, AMD_SIMDS) / AMD_SIMDS;
        int64_t needed = (int64_t)resources->vector_registers + resources->accumulator_registers;
        if (needed * waves_a_simd > AMD_LANE_REGISTERS) {
            snprintf(reason, SCREEN_REASON_BYTES,
                     "%lld registers x %lld waves a SIMD do not fit its %d registers a lane", (long long)needed,
                     (long long)waves_a_simd, AMD_LANE_REGISTERS);
            return false;
        }
    }
    return true;
}

bool screen_fits(const struct driver_device *device, const struct launch *launch, const struct resources *resources,
                 char reason[SCREEN_REASON_BYTES])
{
    int64_t fixed = resources->shared_bytes >= 0 ? resources->shared_bytes : (int64_t)launch->static_shared_bytes;
    uint64_t shared = (uint64_t)fixed + launch->dynamic_shared_bytes;
    if (device->shared_bytes > 0 && shared > device->shared_bytes) {
        snprintf(reason, SCREEN_REASON_BYTES, "%llu bytes of shared memory, the device has %llu a block",
                 (unsigned long long)shared, (unsigned long long)device->shared_bytes);
        return false;
    }
    if (device->max_threads > 0 && launch->threads > (uint32_t)device->max_threads) {
        snprintf(reason, SCREEN_REASON_BYTES, "%u threads a block, the device allows %d", launch->threads,
                 device->max_threads);
        return false;
    }
    if (resources->max_threads > 0 && launch->threads > (uint32_t)resources->max_threads) {
        snprintf(reason, SCREEN_REASON_BYTES, "%u threads a block, the object was compiled for at most %d",
                 launch->threads, resources->max_threads);
        return false;
    }
    return registers_fit(device, launch, resources, reason);
}

bool screen_pays(const struct resources *resources, char reason[SCREEN_REASON_BYTES])
{
    if (resources->scratch_bytes > 0) {
        snprintf(reason, SCREEN_REASON_BYTES, "%d bytes of scratch a thread: registers spill",
                 resources->scratch_bytes);
        return false;
    }
    return true;
}

/* What a unit has for all its blocks. NVIDIA: threads a multiprocessor by compute capability, 1 KiB of shared memory is
 * reserved a block (same table as above). AMD: CDNA 2 and later have 512 registers a lane and 8 waves a SIMD, older
 * ones 256 and 10; RDNA at least 1024 registers a lane of a wave of 32, 16 waves on each of two SIMDs (ISA manuals). */
static int64_t by_registers(const struct driver_device *device, int64_t waves, const struct resources *resources)
{
    int64_t registers = resources->vector_registers > 0 ? resources->vector_registers : 1;
    if (device->target.vendor == TARGET_NVIDIA) {
        return NVIDIA_REGISTER_FILE / (waves * round_up(registers * NVIDIA_WARP, NVIDIA_UNIT));
    }
    if (device->wave_size == AMD_WAVE) {
        bool unified = strncmp(device->target.processor, "gfx90a", 6) == 0 ||
                       strncmp(device->target.processor, "gfx94", 5) == 0 ||
                       strncmp(device->target.processor, "gfx95", 5) == 0;
        int64_t all = registers + (unified ? resources->accumulator_registers : 0), most = unified ? 8 : 10;
        int64_t a_simd = (unified ? AMD_LANE_REGISTERS : AMD_LANE_REGISTERS / 2) / round_up(all, unified ? 8 : 4);
        return AMD_SIMDS * (a_simd < most ? a_simd : most) / waves;
    }
    int64_t a_simd = RDNA_LANE_REGISTERS / round_up(registers, 8);
    return RDNA_SIMDS * (a_simd < RDNA_WAVES ? a_simd : RDNA_WAVES) / waves;
}

/* threads that a multiprocessor holds */
static int64_t nvidia_threads(const struct target *target)
{
    static const struct {
        const char *processor;
        int64_t threads;
    } fewer[] = {{"sm_75", 1024}, {"sm_86", 1536}, {"sm_87", 1536}, {"sm_89", 1536}, {"sm_12", 1536}};
    for (size_t i = 0; i < sizeof fewer / sizeof fewer[0]; i++) {
        if (strncmp(target->processor, fewer[i].processor, 5) == 0) {
            return fewer[i].threads;
        }
    }
    return 2048;
}

int screen_resident_blocks(const struct driver_device *device, const struct launch *launch,
                           const struct resources *resources)
{
    bool nvidia = device->target.vendor == TARGET_NVIDIA;
    if ((!nvidia && device->target.vendor != TARGET_AMD) || device->wave_size < 1 || launch->threads < 1) {
        return 0;
    }
    int64_t waves = round_up(launch->threads, device->wave_size) / device->wave_size;
    int64_t blocks = by_registers(device, waves, resources);
    int64_t fixed = resources->shared_bytes >= 0 ? resources->shared_bytes : (int64_t)launch->static_shared_bytes;
    int64_t reserved = nvidia ? NVIDIA_RESERVED_BYTES : 0;
    int64_t shared = fixed + launch->dynamic_shared_bytes + reserved;
    int64_t by_shared = shared > 0 ? ((int64_t)device->shared_bytes + reserved) / shared : blocks;
    blocks = by_shared < blocks ? by_shared : blocks;
    if (nvidia && nvidia_threads(&device->target) / launch->threads < blocks) {
        blocks = nvidia_threads(&device->target) / launch->threads;
    }
    return blocks > 1 ? (int)blocks : 1; /* it runs, or screen_fits would have said no */
}
