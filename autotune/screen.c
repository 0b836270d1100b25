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

/* On NVIDIA a few values that the compiler puts aside around a loop cost less than smaller tiles: on an H200 the
 * fastest causal prefill of 128-element heads keeps 88 bytes there. On AMD scratch must be set up for every wave. */
enum { SCRATCH_OF_NVIDIA = 128 };

bool screen_pays(enum target_vendor vendor, const struct resources *resources, char reason[SCREEN_REASON_BYTES])
{
    const int most = vendor == TARGET_NVIDIA ? SCRATCH_OF_NVIDIA : 0;
    if (resources->scratch_bytes > most) {
        snprintf(reason, SCREEN_REASON_BYTES, "%d bytes of scratch a thread: registers spill%s",
                 resources->scratch_bytes, most > 0 ? " (128 may pay)" : "");
        return false;
    }
    return true;
}

/* ---- how many at once ---- */

static int whole_at(const json_t *facts, const char *key)
{
    return (int)json_integer_value(json_object_get(facts, key));
}

attune_status screen_unit_of(struct generator *generator, const struct target *target, struct screen_unit *unit,
                             struct error *error)
{
    json_t *facts = NULL;
    memset(unit, 0, sizeof *unit);
    attune_status status = generator_target_facts(generator, target, &facts, error);
    if (status == ATTUNE_OK && target->vendor != TARGET_HOST) {
        const char *accumulators = json_string_value(json_object_get(facts, "accumulators"));
        *unit = (struct screen_unit){
            .wave = whole_at(facts, "wave"),
            .simds = whole_at(facts, "simds"),
            .waves = whole_at(facts, "max_waves") / whole_at(facts, "simds"),
            .blocks = whole_at(facts, "max_blocks"),
            .counts_small_blocks = target->vendor == TARGET_NVIDIA,
            .registers = whole_at(facts, "unit_registers") / whole_at(facts, "simds") / whole_at(facts, "wave"),
            .granule = whole_at(facts, "register_granule"),
            .shared_accumulators = accumulators != NULL && strcmp(accumulators, "shared") == 0,
            .shared_bytes = whole_at(facts, "unit_lds_bytes"),
            .shared_granule = whole_at(facts, "lds_granule"),
            .shared_reserved = whole_at(facts, "lds_reserved"),
        };
    }
    json_decref(facts);
    return status;
}

static int64_t at_most(int64_t value, int64_t limit)
{
    return value < limit ? value : limit;
}

int screen_resident_blocks(const struct screen_unit *unit, const struct launch *launch,
                           const struct resources *resources)
{
    if (unit->wave < 1 || launch->threads < 1) {
        return 0;
    }
    int64_t waves = round_up(launch->threads, unit->wave) / unit->wave;
    int64_t registers = resources->vector_registers > 0 ? resources->vector_registers : 1;
    registers += unit->shared_accumulators ? resources->accumulator_registers : 0;
    int64_t a_simd = at_most(unit->waves, unit->registers / round_up(registers, unit->granule));
    int64_t blocks = unit->simds * a_simd / waves;
    int64_t fixed = resources->shared_bytes >= 0 ? resources->shared_bytes : (int64_t)launch->static_shared_bytes;
    int64_t shared = round_up(fixed + launch->dynamic_shared_bytes + unit->shared_reserved, unit->shared_granule);
    if (shared > 0) {
        blocks = at_most(blocks, unit->shared_bytes / shared);
    }
    if (waves > 1 || unit->counts_small_blocks) {
        blocks = at_most(blocks, unit->blocks);
    }
    return blocks > 1 ? (int)blocks : 1;
}
