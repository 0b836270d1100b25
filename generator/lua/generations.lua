-- generations.lua: what the processors of one generation have in common, with where each value is from.
--
-- A generation is a list of groups {how, source, facts}: how is "published" (by the maker, or by the maintainers of its open
-- compiler), "measured" (by somebody on the hardware, or here from a compiler's output), or "assumed" (a likely value that nobody
-- published: whoever relies on it says so). A later group overrides an earlier one; `like` takes over another generation's groups.
-- What differs between processors of a generation is named in `varies` and given by each row of targets.lua.
-- `isa` names a set of generations' processors that run one another's code; without it a processor runs its own alone.

local K = 1024
local yes, no = true, false

-- ---- sources ----
local vega = "AMD, Vega ISA manual"
local vega20 = "AMD, Vega 7nm ISA manual"
local cdna = "AMD, Instinct MI100 (CDNA) ISA manual"
local cdna2 = "AMD, Instinct MI200 (CDNA 2) ISA manual"
local cdna3 = "AMD, Instinct MI300 (CDNA 3) ISA manual"
local cdna4 = "AMD, CDNA 4 ISA manual and architecture white paper"
local rdna = "AMD, RDNA ISA manual and architecture white paper"
local rdna2 = "AMD, RDNA 2 ISA manual"
local rdna3 = "AMD, RDNA 3 ISA manual"
local rdna4 = "AMD, RDNA 4 ISA manual"
local llvm = "LLVM, AMDGPU usage guide and GCNSubtarget (register and LDS granules, waves and blocks a unit)"
local mesa = "Mesa, ac_gpu_info (granule of LDS)"
local compiled = "compiled here by clang 22: the instruction is there, or the builtin is refused"
local mfma_rates = "AMD matrix instruction calculator; LLVM scheduling models (passes of 4 clocks); peaks of AMD's data sheets"
local wmma_rates = "GPUOpen, matrix cores of RDNA 3 and RDNA 4 (operations a clock and compute unit); peaks of AMD's data sheets"
local profiler = "ROCm Compute Profiler, pipeline descriptions (VALU, LDS)"
local hip_hardware = "HIP documentation, hardware implementation (LDS banks and bytes a clock)"
local cuda = "CUDA C++ Programming Guide, technical specifications per compute capability"
local cuda_rates = "CUDA C++ Programming Guide, throughput of native arithmetic instructions"
local cuda_tensor = "NVIDIA architecture white papers, dense tensor operations a clock and multiprocessor"
local no_hardware = "the CPU: sizes that keep candidates comparable with a GPU's; dot2 is computed in plain C++"

local generations = {}

-- ---- AMD, waves of 64 ----

generations.gcn5 = {
    doc = "GCN 5 (Vega 10)", maker = "amd",
    { "published", vega, {
        wave = 64, simds = 4, fp32_lanes = 64, registers = 256, unit_registers = 64 * K, accumulators = "none", max_waves = 40,
        max_threads = 1024, lds_bytes = 64 * K, unit_lds_bytes = 64 * K, lds_banks = 32, dual_issue = no, matrix = "none",
        matrix_level = 0, wgmma = no, matrix_macs = 0, matrix_macs_bf16 = 0, async_copy = 0 } },
    { "published", llvm, { register_granule = 4, lds_granule = 512, lds_reserved = 0, max_blocks = 16 } },
    { "published", profiler, { lds_clock_bytes = 128 } },
    { "measured", compiled, { dot2 = no, dot2_bf16 = no, mix_fma = no, direct_lds = 4 } },
    { "published", "AMD, GCN architecture white paper (transcendental functions at a quarter of the rate)", { exp_lanes = 16 } },
    { "assumed", "lds_rules.lua", { lds_rule = "gcn" } },
}

generations.gcn5_1 = {
    doc = "GCN 5.1 (Vega 20)", maker = "amd", like = "gcn5",
    { "measured", compiled, { dot2 = yes, mix_fma = yes } },
    { "published", vega20, { wave = 64, lds_bytes = 64 * K, unit_lds_bytes = 64 * K, lds_banks = 32, matrix = "none" } },
}

generations.cdna = {
    doc = "CDNA", maker = "amd", like = "gcn5_1",
    { "published", cdna, { matrix = "mfma", matrix_level = 1, accumulators = "separate" } },
    { "published", mfma_rates, { matrix_macs = 512, matrix_macs_bf16 = 256 } },
}

generations.cdna2 = {
    doc = "CDNA 2", maker = "amd", like = "cdna",
    { "published", cdna2, {
        registers = 512, unit_registers = 128 * K, accumulators = "shared", max_waves = 32, matrix_level = 2 } },
    { "published", mfma_rates, { matrix_macs = 512, matrix_macs_bf16 = 512 } },
    { "published", llvm, { register_granule = 8 } },
}

generations.cdna3 = {
    doc = "CDNA 3", maker = "amd", like = "cdna2",
    { "published", cdna3, { matrix_level = 3 } },
    { "published", mfma_rates, { matrix_macs = 1024, matrix_macs_bf16 = 1024 } },
    { "assumed", "lds_rules.lua: reads of 4, 8 and 16 bytes are published or measured, narrow writes are not", { lds_rule = "cdna3" } },
}

generations.cdna4 = {
    doc = "CDNA 4", maker = "amd", like = "cdna3",
    { "published", cdna4, { matrix_level = 4, lds_bytes = 160 * K, unit_lds_bytes = 160 * K } },
    { "published", mfma_rates .. "; the forms of CDNA 3 run at half of it", { matrix_macs = 2048, matrix_macs_bf16 = 2048 } },
    { "published", llvm, { lds_granule = 1280 } },
    { "published", hip_hardware, { lds_banks = 64, lds_clock_bytes = 256 } },
    { "assumed", "CDNA 3's rate; AMD speaks of twice of it, LLVM's model does not have it", { exp_lanes = 16 } },
    { "measured", compiled, { dot2_bf16 = yes, direct_lds = 16 } },
    { "assumed", "lds_rules.lua: measured but for 4 bytes and wide writes", { lds_rule = "cdna4" } },
}

-- ---- AMD, waves of 32; a unit is one compute unit, half of a work-group processor ----

generations.rdna = {
    doc = "RDNA", maker = "amd", varies = { "dot2" },
    { "published", rdna, {
        wave = 32, simds = 2, fp32_lanes = 64, registers = 256, unit_registers = 64 * K, accumulators = "none", max_waves = 40,
        max_threads = 1024, lds_bytes = 64 * K, unit_lds_bytes = 64 * K, lds_banks = 32, lds_clock_bytes = 128, exp_lanes = 16,
        dual_issue = no, matrix = "none", matrix_level = 0, wgmma = no, matrix_macs = 0, matrix_macs_bf16 = 0, async_copy = 0 } },
    { "published", llvm, { register_granule = 8, lds_granule = 512, lds_reserved = 0, max_blocks = 16 } },
    { "measured", compiled, { dot2 = no, dot2_bf16 = no, mix_fma = yes, direct_lds = 4 } },
    { "assumed", "lds_rules.lua: phases of 8 and 16 bytes", { lds_rule = "rdna" } },
}

generations.rdna2 = {
    doc = "RDNA 2", maker = "amd", like = "rdna", isa = "gfx10.3",
    { "published", rdna2, { max_waves = 32 } },
    { "published", llvm, { register_granule = 16 } },
    { "published", mesa, { lds_granule = 1024 } },
    { "measured", compiled, { dot2 = yes } },
}

generations.rdna3 = {
    doc = "RDNA 3", maker = "amd", like = "rdna2", varies = { "unit_registers", "register_granule" },
    { "published", rdna3, { matrix = "wmma_gfx11", matrix_level = 11, dual_issue = yes } },
    { "published", llvm .. "; 64 Ki registers given out by 16, in the large parts 96 Ki by 24", {
        unit_registers = 64 * K, register_granule = 16 } },
    { "published", wmma_rates, { matrix_macs = 256, matrix_macs_bf16 = 256 } },
    { "measured", compiled, { dot2_bf16 = yes, direct_lds = 0 } },
}

generations.rdna3_5 = {
    doc = "RDNA 3.5", maker = "amd", like = "rdna3", varies = { "unit_registers", "register_granule" },
}

generations.rdna4 = {
    doc = "RDNA 4", maker = "amd", like = "rdna3",
    { "published", rdna4, { matrix = "wmma_gfx12", matrix_level = 12 } },
    { "published", llvm, { unit_registers = 96 * K, register_granule = 24 } },
    { "published", wmma_rates, { matrix_macs = 512, matrix_macs_bf16 = 512 } },
}

-- ---- NVIDIA; a unit is one multiprocessor, a SIMD one of its partitions ----

generations.turing = {
    doc = "Turing", maker = "nvidia",
    { "published", cuda, {
        wave = 32, simds = 4, registers = 255, unit_registers = 64 * K, register_granule = 8, accumulators = "none",
        max_threads = 1024, max_waves = 32, max_blocks = 16, lds_bytes = 64 * K, unit_lds_bytes = 64 * K, lds_granule = 256,
        lds_reserved = 0, lds_banks = 32, lds_clock_bytes = 128, lds_rule = "nvidia", dot2 = no, dot2_bf16 = no, mix_fma = no,
        dual_issue = no, matrix = "mma_sync", matrix_level = 75, wgmma = no, async_copy = 0, direct_lds = 0 } },
    { "published", cuda_rates, { fp32_lanes = 64, exp_lanes = 16 } },
    { "published", cuda_tensor .. "; cards for games accumulate in fp32 at half of it", { matrix_macs = 512, matrix_macs_bf16 = 0 } },
}

generations.ampere = {
    doc = "Ampere (A100)", maker = "nvidia", like = "turing",
    { "published", cuda, {
        max_waves = 64, max_blocks = 32, lds_bytes = 163 * K, unit_lds_bytes = 164 * K, lds_granule = 128, lds_reserved = 1 * K,
        matrix_level = 80, async_copy = 16 } },
    { "published", cuda_tensor, { matrix_macs = 1024, matrix_macs_bf16 = 1024 } },
}

generations.ampere_small = {
    doc = "Ampere (GA10x)", maker = "nvidia", like = "ampere",
    { "published", cuda, { max_waves = 48, max_blocks = 16, lds_bytes = 99 * K, unit_lds_bytes = 100 * K, matrix_level = 86 } },
    { "published", cuda_rates, { fp32_lanes = 128 } },
    { "published", cuda_tensor .. "; cards for games accumulate in fp32 at half of it", { matrix_macs = 512, matrix_macs_bf16 = 512 } },
}

generations.ada = {
    doc = "Ada Lovelace", maker = "nvidia", like = "ampere_small",
    { "published", cuda, { max_blocks = 24, matrix_level = 89 } },
}

generations.hopper = {
    doc = "Hopper", maker = "nvidia", like = "ampere", varies = { "wgmma" },
    { "published", cuda, { lds_bytes = 227 * K, unit_lds_bytes = 228 * K, matrix_level = 90, wgmma = no } },
    { "published", cuda_rates, { fp32_lanes = 128 } },
    { "published", cuda_tensor .. "; reached by wgmma, mma.sync stays below", { matrix_macs = 2048, matrix_macs_bf16 = 2048 } },
}

generations.blackwell = {
    doc = "Blackwell (B200)", maker = "nvidia", like = "hopper",
    { "published", cuda, { matrix_level = 100, wgmma = no } },
    { "published", cuda_tensor .. "; reached by tcgen05, which is not used here", { matrix_macs = 4096, matrix_macs_bf16 = 4096 } },
}

generations.blackwell_small = {
    doc = "Blackwell (GB20x)", maker = "nvidia", like = "ada",
    { "published", cuda, { matrix_level = 120 } },
}

-- ---- the CPU ----

generations.host = {
    doc = "the host device", maker = "host",
    { "assumed", no_hardware, {
        wave = 32, simds = 4, fp32_lanes = 64, exp_lanes = 16, registers = 256, unit_registers = 64 * K, register_granule = 8,
        accumulators = "none", max_threads = 1024, max_waves = 32, max_blocks = 16, lds_bytes = 64 * K, unit_lds_bytes = 64 * K,
        lds_granule = 256, lds_reserved = 0, lds_banks = 32, lds_clock_bytes = 128, lds_rule = "nvidia", dot2 = yes,
        dot2_bf16 = yes, mix_fma = no, dual_issue = no, matrix = "none", matrix_level = 0, wgmma = no, matrix_macs = 0,
        matrix_macs_bf16 = 0, async_copy = 0, direct_lds = 0 } },
}

return generations
