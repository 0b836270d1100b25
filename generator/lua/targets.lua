-- targets.lua: what templates may know about a target, as data.
--
-- A row holds facts of the processor, never of a board or driver: it is enough to choose and prune candidates on a machine
-- without the GPU. find(name) gives a fresh copy, so nobody can change another's facts; nil for a target without a row.
-- host-X is X's row served by the host vocabulary (vendor and vocabulary say host, maker says whose processor X is), so that it
-- has X's space and text; plain host is a machine with waves of 32 and no instruction of its own.
--
--   wave             lanes a wave; on RDNA the wave32 mode that kernels are compiled for
--   lds_bytes        shared memory one block can have
--   unit_lds_bytes   shared memory of one compute unit or SM, for occupancy (RDNA: of the half that one wave32 block uses in CU mode)
--   lds_banks        4-byte banks
--   registers        most vector registers a thread can have
--   unit_registers   32-bit vector registers of one compute unit or SM
--   simds            SIMD units (NVIDIA: partitions) a compute unit or SM
--   fp32_lanes       fp32 fused multiply-adds one compute unit or SM starts a clock
--   max_threads      threads a block
--   max_waves        waves resident a compute unit or SM
--   dot2 dot2_bf16   two-element dot product with fp32 accumulation for f16, bf16
--   mix_fma          a fused multiply-add that takes f16 operands without converting them first
--   matrix           matrix instructions: none, mfma, wmma_gfx11, wmma_gfx12, mma_sync
--   matrix_level     which of them: mfma 1 gfx908, 2 gfx90a, 3 gfx942, 4 gfx950; wmma 11, 12; mma_sync the compute capability
--                    without its point; 0 where there are none
--   wgmma            matrix instructions of a warp group on shared memory (sm_90a alone)
--   async_copy       bytes of one asynchronous copy from global to shared memory by a thread (cp.async), 0 where there is none
--   direct_lds       widest load from global memory straight to LDS, in bytes a lane (global_load_lds), 0 where there is none
--   lds_rule         which lanes of an access to shared memory are served together, and from how many banks
--
-- Sources: AMD's ISA manuals (Vega, Vega 7nm, CDNA 1-4, RDNA 1-4), LLVM's AMDGPU usage guide, CUDA C++ programming guide's
-- table of technical specifications per compute capability.

local load_own = ...
local lds_rules = load_own("lds_rules")

local fields = {
    "wave", "lds_bytes", "unit_lds_bytes", "lds_banks", "registers", "unit_registers", "simds", "fp32_lanes", "max_threads",
    "max_waves", "dot2", "dot2_bf16", "mix_fma", "matrix", "matrix_level", "wgmma", "async_copy", "direct_lds", "lds_rule",
}

local K = 1024
local yes, no = true, false

-- vendor, name, then the fields in the order above
local table_of_targets = {
    --                      wave  lds       unit     banks regs unit_regs simds fma  threads waves dot2 bf16 mix  matrix       lvl  wgmma async direct rule
    { "amd", "gfx900",      64,   64 * K,   64 * K,   32,  256, 64 * K,   4,    64,  1024,   40,   no,  no,  no,  "none",      0,   no,   0,    4,     "gcn" },
    { "amd", "gfx906",      64,   64 * K,   64 * K,   32,  256, 64 * K,   4,    64,  1024,   40,   yes, no,  yes, "none",      0,   no,   0,    4,     "gcn" },
    { "amd", "gfx908",      64,   64 * K,   64 * K,   32,  256, 64 * K,   4,    64,  1024,   40,   yes, no,  yes, "mfma",      1,   no,   0,    4,     "gcn" },
    { "amd", "gfx90a",      64,   64 * K,   64 * K,   32,  512, 128 * K,  4,    64,  1024,   32,   yes, no,  yes, "mfma",      2,   no,   0,    4,     "gcn" },
    { "amd", "gfx942",      64,   64 * K,   64 * K,   32,  512, 128 * K,  4,    64,  1024,   32,   yes, no,  yes, "mfma",      3,   no,   0,    4,     "cdna3" },
    { "amd", "gfx950",      64,   160 * K,  160 * K,  64,  512, 128 * K,  4,    64,  1024,   32,   yes, yes, yes, "mfma",      4,   no,   0,    16,    "cdna4" },
    { "amd", "gfx1010",     32,   64 * K,   64 * K,   32,  256, 64 * K,   2,    64,  1024,   40,   no,  no,  yes, "none",      0,   no,   0,    4,     "rdna" },
    { "amd", "gfx1011",     32,   64 * K,   64 * K,   32,  256, 64 * K,   2,    64,  1024,   40,   yes, no,  yes, "none",      0,   no,   0,    4,     "rdna" },
    { "amd", "gfx1012",     32,   64 * K,   64 * K,   32,  256, 64 * K,   2,    64,  1024,   40,   yes, no,  yes, "none",      0,   no,   0,    4,     "rdna" },
    { "amd", "gfx1030",     32,   64 * K,   64 * K,   32,  256, 64 * K,   2,    64,  1024,   32,   yes, no,  yes, "none",      0,   no,   0,    4,     "rdna" },
    { "amd", "gfx1031",     32,   64 * K,   64 * K,   32,  256, 64 * K,   2,    64,  1024,   32,   yes, no,  yes, "none",      0,   no,   0,    4,     "rdna" },
    { "amd", "gfx1032",     32,   64 * K,   64 * K,   32,  256, 64 * K,   2,    64,  1024,   32,   yes, no,  yes, "none",      0,   no,   0,    4,     "rdna" },
    { "amd", "gfx1100",     32,   64 * K,   64 * K,   32,  256, 96 * K,   2,    64,  1024,   32,   yes, yes, yes, "wmma_gfx11",11,  no,   0,    0,     "rdna" },
    { "amd", "gfx1101",     32,   64 * K,   64 * K,   32,  256, 96 * K,   2,    64,  1024,   32,   yes, yes, yes, "wmma_gfx11",11,  no,   0,    0,     "rdna" },
    { "amd", "gfx1102",     32,   64 * K,   64 * K,   32,  256, 64 * K,   2,    64,  1024,   32,   yes, yes, yes, "wmma_gfx11",11,  no,   0,    0,     "rdna" },
    { "amd", "gfx1103",     32,   64 * K,   64 * K,   32,  256, 64 * K,   2,    64,  1024,   32,   yes, yes, yes, "wmma_gfx11",11,  no,   0,    0,     "rdna" },
    { "amd", "gfx1150",     32,   64 * K,   64 * K,   32,  256, 64 * K,   2,    64,  1024,   32,   yes, yes, yes, "wmma_gfx11",11,  no,   0,    0,     "rdna" },
    { "amd", "gfx1151",     32,   64 * K,   64 * K,   32,  256, 96 * K,   2,    64,  1024,   32,   yes, yes, yes, "wmma_gfx11",11,  no,   0,    0,     "rdna" },
    { "amd", "gfx1152",     32,   64 * K,   64 * K,   32,  256, 64 * K,   2,    64,  1024,   32,   yes, yes, yes, "wmma_gfx11",11,  no,   0,    0,     "rdna" },
    { "amd", "gfx1153",     32,   64 * K,   64 * K,   32,  256, 64 * K,   2,    64,  1024,   32,   yes, yes, yes, "wmma_gfx11",11,  no,   0,    0,     "rdna" },
    { "amd", "gfx1200",     32,   64 * K,   64 * K,   32,  256, 96 * K,   2,    64,  1024,   32,   yes, yes, yes, "wmma_gfx12",12,  no,   0,    0,     "rdna" },
    { "amd", "gfx1201",     32,   64 * K,   64 * K,   32,  256, 96 * K,   2,    64,  1024,   32,   yes, yes, yes, "wmma_gfx12",12,  no,   0,    0,     "rdna" },
    { "nvidia", "sm_75",    32,   64 * K,   64 * K,   32,  255, 64 * K,   4,    64,  1024,   32,   no,  no,  no,  "mma_sync",  75,  no,   0,    0,     "nvidia" },
    { "nvidia", "sm_80",    32,   163 * K,  164 * K,  32,  255, 64 * K,   4,    64,  1024,   64,   no,  no,  no,  "mma_sync",  80,  no,   16,   0,     "nvidia" },
    { "nvidia", "sm_86",    32,   99 * K,   100 * K,  32,  255, 64 * K,   4,    128, 1024,   48,   no,  no,  no,  "mma_sync",  86,  no,   16,   0,     "nvidia" },
    { "nvidia", "sm_89",    32,   99 * K,   100 * K,  32,  255, 64 * K,   4,    128, 1024,   48,   no,  no,  no,  "mma_sync",  89,  no,   16,   0,     "nvidia" },
    { "nvidia", "sm_90",    32,   227 * K,  228 * K,  32,  255, 64 * K,   4,    128, 1024,   64,   no,  no,  no,  "mma_sync",  90,  no,   16,   0,     "nvidia" },
    { "nvidia", "sm_90a",   32,   227 * K,  228 * K,  32,  255, 64 * K,   4,    128, 1024,   64,   no,  no,  no,  "mma_sync",  90,  yes,  16,   0,     "nvidia" },
    { "nvidia", "sm_100",   32,   227 * K,  228 * K,  32,  255, 64 * K,   4,    128, 1024,   64,   no,  no,  no,  "mma_sync",  100, no,   16,   0,     "nvidia" },
    { "nvidia", "sm_100a",  32,   227 * K,  228 * K,  32,  255, 64 * K,   4,    128, 1024,   64,   no,  no,  no,  "mma_sync",  100, no,   16,   0,     "nvidia" },
    { "nvidia", "sm_120",   32,   99 * K,   100 * K,  32,  255, 64 * K,   4,    128, 1024,   48,   no,  no,  no,  "mma_sync",  120, no,   16,   0,     "nvidia" },
    { "nvidia", "sm_120a",  32,   99 * K,   100 * K,  32,  255, 64 * K,   4,    128, 1024,   48,   no,  no,  no,  "mma_sync",  120, no,   16,   0,     "nvidia" },
    -- no hardware facts: the sizes are what keeps candidates comparable with a GPU's, and dot2 is computed in plain C++
    { "host", "host",       32,   64 * K,   64 * K,   32,  256, 64 * K,   4,    64,  1024,   32,   yes, yes, no,  "none",      0,   no,   0,    0,     "nvidia" },
}

local names, rows = {}, {}
for index, entry in ipairs(table_of_targets) do
    names[index] = entry[2]
    rows[entry[2]] = entry
end

local function find(name)
    local emulates
    if string.sub(name, 1, 5) == "host-" then
        emulates = string.sub(name, 6)
    end
    local entry = rows[emulates or name]
    if not entry or (emulates and entry[1] == "host") then
        return nil
    end
    local row = { name = name, vendor = entry[1] }
    for index, field in ipairs(fields) do
        row[field] = entry[index + 2]
    end
    row.vocabulary, row.maker = row.vendor, row.vendor
    if emulates then
        row.vendor, row.vocabulary, row.emulates = "host", "host", emulates
    end
    return row
end

-- a rule whose widths are texts: JSON has no other keys
local function by_text(rule)
    local copy = {}
    for _, key in ipairs({ "name", "banks", "status", "source", "note" }) do
        copy[key] = rule[key]
    end
    local function widths(of)
        return { ["4"] = of[4], ["8"] = of[8], ["16"] = of[16] }
    end
    copy.read, copy.write = widths(rule.read), widths(rule.write)
    copy.known = { read = widths(rule.known.read), write = widths(rule.known.write) }
    return copy
end

-- the row with all that people and tools want to know beside it
local function describe(name)
    local row = find(name)
    row.lds = by_text(lds_rules[row.lds_rule])
    return row
end

return { names = names, fields = fields, find = find, describe = describe }
