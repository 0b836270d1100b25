-- lds_rules.lua: which lanes of one access to shared memory are served together, as data.
--
-- A wave's access of 4, 8 or 16 bytes a lane is served in phases: in one phase the lanes of one list, each bank giving one word
-- of 4 bytes (word w of shared memory is in bank w % banks). Lanes of one phase that want different words of one bank are in
-- conflict, and the phase takes as many clocks as the bank that is asked for most words; a word that many lanes want counts once.
-- Lanes of different phases never meet. Wider accesses than 16 bytes are several of these.
--
--   banks            4-byte banks
--   read, write      width in bytes -> list of phases, each a list of lanes, numbered from 0; every lane is in exactly one
--   known            the same shape: how each width's phases are known: measured, published or assumed
--   status           the weakest of them, source where they are from, note what to be careful about
--
-- A layout that is free of conflicts under an assumed rule is only that. Where several rules are likely, the stricter was taken.

local function range(first, last)
    local lanes = {}
    for lane = first, last do
        lanes[#lanes + 1] = lane
    end
    return lanes
end

-- neighbours in lane order, `lanes` at a time
local function neighbours(wave, lanes)
    local phases = {}
    for first = 0, wave - 1, lanes do
        phases[#phases + 1] = range(first, first + lanes - 1)
    end
    return phases
end

-- phases of groups of four lanes, given by the first lane of each group in the wave's lower half; the upper half is served alike
local function quads(lower)
    local phases = {}
    for _, base in ipairs({ 0, 32 }) do
        for _, groups in ipairs(lower) do
            local lanes = {}
            for _, first in ipairs(groups) do
                for lane = first, first + 3 do
                    lanes[#lanes + 1] = base + lane
                end
            end
            phases[#phases + 1] = lanes
        end
    end
    return phases
end

local gfx9_read_b128 = quads({ { 0, 20 }, { 4, 16 }, { 8, 28 }, { 12, 24 } })

local rules = {
    -- gfx900, gfx906, gfx908, gfx90a
    gcn = {
        banks = 32,
        read = { [4] = neighbours(64, 32), [8] = neighbours(64, 16), [16] = gfx9_read_b128 },
        write = { [4] = neighbours(64, 32), [8] = neighbours(64, 16), [16] = neighbours(64, 8) },
        known = {
            read = { [4] = "published", [8] = "assumed", [16] = "assumed" },
            write = { [4] = "published", [8] = "assumed", [16] = "assumed" },
        },
        source = "AMD APP SDK OpenCL Optimization Guide, LDS (32 banks, half a wave is checked for conflicts); "
            .. "ROCm Compute Profiler, pipeline descriptions, LDS (32 banks, 128 bytes a clock on all of them)",
        note = "the phases of 8 and 16 bytes are unpublished before gfx942 and taken from it: the LDS has the same banks, width and "
            .. "ports. Measured on a gfx906: rows of ds_read_b128 padded by 16 bytes run at 93 % of the contiguous rate, unpadded ones "
            .. "at 44 % (wiki-gfx906, LDS layout standard), as this rule says",
    },
    -- gfx942
    cdna3 = {
        banks = 32,
        read = { [4] = neighbours(64, 32), [8] = neighbours(64, 16), [16] = gfx9_read_b128 },
        write = { [4] = neighbours(64, 32), [8] = neighbours(64, 16), [16] = neighbours(64, 8) },
        known = {
            read = { [4] = "published", [8] = "published", [16] = "measured" },
            write = { [4] = "assumed", [8] = "assumed", [16] = "published" },
        },
        source = "AMD Shark AI, AMDGPU kernel optimization guide (MI300), LDS; ROCm blog, Avoiding LDS bank conflicts with CK-Tile; "
            .. "measured from latencies: triton-lang/triton pull request 11365, nod-ai/amd-shark-ai pull request 2919",
        note = "writes of 4 and 8 bytes are taken to be served as reads are",
    },
    -- gfx950: reads are served twice as wide as writes
    cdna4 = {
        banks = 64,
        read = {
            [4] = neighbours(64, 64),
            [8] = neighbours(64, 32),
            [16] = quads({ { 0, 12, 20, 24 }, { 4, 8, 16, 28 } }),
        },
        write = { [4] = neighbours(64, 32), [8] = neighbours(64, 16), [16] = neighbours(64, 8) },
        known = {
            read = { [4] = "assumed", [8] = "measured", [16] = "measured" },
            write = { [4] = "assumed", [8] = "measured", [16] = "assumed" },
        },
        source = "HipKittens, analysis of LDS phases by conflict counters (ds_read_b64, ds_write_b64, ds_read_b128, 64 banks); "
            .. "triton-lang/triton pull request 11365 (ds_read_b128)",
        note = "reads of 4 bytes are taken to be served as 256 bytes, as those of 8 and 16 are; writes as 128 bytes, as those of 8 are",
    },
    -- gfx10, gfx11, gfx12 with waves of 32
    rdna = {
        banks = 32,
        read = { [4] = neighbours(32, 32), [8] = neighbours(32, 16), [16] = neighbours(32, 8) },
        write = { [4] = neighbours(32, 32), [8] = neighbours(32, 16), [16] = neighbours(32, 8) },
        known = {
            read = { [4] = "published", [8] = "assumed", [16] = "assumed" },
            write = { [4] = "published", [8] = "assumed", [16] = "assumed" },
        },
        source = "RDNA ISA manuals, local data share (128 KiB a work group processor in 64 banks, two halves of 32, each near one "
            .. "compute unit)",
        note = "a block in work-group-processor mode may use all 64 banks: different words of one bank of 64 are in one bank of 32 as "
            .. "well, so that what has no conflict among 32 has none among 64. Phases of 8 and 16 bytes are unpublished: 128 bytes each",
    },
    -- all of NVIDIA's since compute capability 5.0
    nvidia = {
        banks = 32,
        read = { [4] = neighbours(32, 32), [8] = neighbours(32, 16), [16] = neighbours(32, 8) },
        write = { [4] = neighbours(32, 32), [8] = neighbours(32, 16), [16] = neighbours(32, 8) },
        known = {
            read = { [4] = "published", [8] = "published", [16] = "published" },
            write = { [4] = "published", [8] = "published", [16] = "published" },
        },
        source = "CUDA C++ Programming Guide, shared memory of compute capability 5.x and later; NVIDIA developer forum, "
            .. "unexpected shared memory bank conflict (128 bytes return a clock, so that 16 bytes a lane are four requests)",
        note = "pairs of lanes (l, l^1 or l, l^2) that all read the same address may be served in half the requests; ldmatrix serves "
            .. "the eight rows of one 8x8 matrix together, which is the rule of 16 bytes",
    },
}

local order = { measured = 1, published = 2, assumed = 3 }

for _, name in ipairs({ "gcn", "cdna3", "cdna4", "rdna", "nvidia" }) do
    local rule = rules[name]
    rule.name, rule.status = name, "measured"
    for _, way in ipairs({ "read", "write" }) do
        for _, width in ipairs({ 4, 8, 16 }) do
            local known = rule.known[way][width]
            if order[known] > order[rule.status] then
                rule.status = known
            end
        end
    end
end

return rules
