/* kit_fill.c - what shared memory holds when a kernel's blocks start. */
#include "kit_private.h"

#include "runtime/host_device.h"

enum { FILL_THREADS = 256 };

/* Fills a block's shared memory and reads it back, so that no compiler may leave the stores out. */
static const char nvidia_text[] =
    "extern \"C\" __global__ void fill_shared(unsigned *found, unsigned words, unsigned value)\n"
    "{\n"
    "    extern __shared__ unsigned memory[];\n"
    "    volatile unsigned *const shared = memory;\n"
    "    for (unsigned i = threadIdx.x; i < words; i += blockDim.x)\n"
    "        shared[i] = value;\n"
    "    __syncthreads();\n"
    "    for (unsigned i = threadIdx.x; i < words; i += blockDim.x)\n"
    "        if (shared[words - 1 - i] != value)\n"
    "            *found = 1;\n"
    "}\n";
static const char amd_format[] =
    "extern \"C\" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(256, 256))) void fill_shared(\n"
    "    unsigned *found, unsigned words, unsigned value)\n"
    "{\n"
    "    static __attribute__((shared, aligned(16))) unsigned memory[%u];\n"
    "    volatile __attribute__((shared)) unsigned *const shared = memory;\n"
    "    for (unsigned i = __builtin_amdgcn_workitem_id_x(); i < words; i += 256)\n"
    "        shared[i] = value;\n"
    "    __builtin_amdgcn_s_barrier();\n"
    "    for (unsigned i = __builtin_amdgcn_workitem_id_x(); i < words; i += 256)\n"
    "        if (shared[i] != value)\n"
    "            *found = 1;\n"
    "}\n";

static void fill_open(struct proof *proof)
{
    char text[2048];
    struct compile_result result = {0};
    struct error error = {0};
    bool amd = proof->target.vendor == TARGET_AMD;
    proof->fill.shared_bytes = (uint32_t)proof->device.shared_bytes;
    if (amd) {
        snprintf(text, sizeof text, amd_format, proof->fill.shared_bytes / 4);
    } else {
        snprintf(text, sizeof text, "%s", nvidia_text);
    }
    const struct compile_request request = {.target = proof->target, .source = text, .source_bytes = strlen(text)};
    if (compiler_compile(proof->pool, &request, &result, &error) != ATTUNE_OK ||
        proof->driver->load(proof->driver, proof->ordinal, result.object.data, result.object.length, "fill_shared",
                            amd ? 0 : proof->fill.shared_bytes, &proof->fill.module, &proof->fill.function,
                            &error) != ATTUNE_OK) {
        fail_msg("fill_shared: %s", error.message);
    }
    compile_result_free(&result);
}

void proof_shared_fill(struct proof *proof, uint8_t byte)
{
    if (proof->device.target.vendor == TARGET_HOST) {
        host_device_set_shared_fill(byte);
        return;
    }
    if (proof->fill.module == NULL) {
        fill_open(proof);
    }
    proof->fill.wanted = true;
    proof->fill.byte = byte;
}

/* more blocks than the device holds at once, so that every compute unit gets one */
void proof_fill_launch(struct proof *proof)
{
    const struct driver *driver = proof->driver;
    struct error error = {0};
    void *found = NULL;
    uint32_t wrong = 0;
    if (!proof->fill.wanted) {
        return;
    }
    struct {
        void *found;
        uint32_t words, value;
    } arguments = {NULL, proof->fill.shared_bytes / 4, proof->fill.byte * 0x01010101u};
    attune_status status = driver->allocate(driver, proof->ordinal, 4, &found, &error);
    if (status == ATTUNE_OK) {
        status = driver->copy_in(driver, proof->ordinal, found, &wrong, sizeof wrong, &error);
    }
    if (status == ATTUNE_OK) {
        static const uint32_t pointer_offset = 0;
        arguments.found = found;
        const struct driver_launch launch = {.function = proof->fill.function,
                                             .grid = {4 * (uint32_t)proof->device.compute_units, 1, 1},
                                             .threads = FILL_THREADS,
                                             .dynamic_shared_bytes =
                                                 proof->target.vendor == TARGET_AMD ? 0 : proof->fill.shared_bytes,
                                             .arguments = &arguments,
                                             .argument_bytes = sizeof arguments,
                                             .pointer_offsets = &pointer_offset,
                                             .pointer_count = 1};
        status = driver->launch(driver, proof->ordinal, &launch, NULL, &error);
    }
    if (status == ATTUNE_OK) {
        status = driver->copy_out(driver, proof->ordinal, &wrong, found, sizeof wrong, &error);
    }
    if (status != ATTUNE_OK || wrong != 0) {
        fail_msg("fill_shared: %s", wrong ? "shared memory does not hold what was written" : error.message);
    }
    driver->release(driver, proof->ordinal, found, NULL);
}

void proof_fill_close(struct proof *proof)
{
    if (proof->fill.module != NULL) {
        proof->driver->unload(proof->driver, proof->ordinal, proof->fill.module, NULL);
    }
    if (proof->device.target.vendor == TARGET_HOST) {
        host_device_set_shared_fill(HOST_SHARED_POISON);
    }
}
