/* screen.c - resource limits of devices against those that an object states. */
#include "autotune/screen.h"

#include <stdio.h>

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
    AMD_LANE_REGISTERS = 512
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
