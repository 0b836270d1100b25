-- targets.lua: what templates may know about a target, as data.
--
-- A target is one row below: its name, its generation, and what it does not share with it. Everything that can be compiled for,
-- listed or chosen comes from this list; adding a processor of a known generation is adding its row. generations.lua holds
-- the values with their sources, lds_rules.lua the rules of shared memory, boards.lua what differs from card to card.
--
-- A row holds facts of the processor, never of a board or driver: it is enough to choose and prune candidates on a machine
-- without the GPU. find(name) gives a fresh copy, so nobody can change another's facts; nil for a target without a row.
-- host-X is X's row served by the host vocabulary (vendor and vocabulary say host, maker says whose processor X is), so that it
-- has X's space and text; plain host is a machine with waves of 32 and no instruction of its own.
--
-- Beside the columns a row has name, vendor, vocabulary, maker, emulates, generation, and the function
--   waves_per_simd(registers, accumulators)   waves that one SIMD holds of a kernel whose lanes have that many registers

local load_own, keys_of = ... -- keys_of(t): the texts among a table's keys
local generations, lds_rules, boards = load_own("generations"), load_own("lds_rules"), load_own("boards")

-- name, unit, what it is; in the order in which they are shown
local columns = {
    { "wave", "lanes", "lanes a wave; on RDNA the wave32 mode that kernels are compiled for" },
    { "max_threads", "", "threads a block" },
    { "max_waves", "", "waves resident on a compute unit or SM" },
    { "max_blocks", "", "blocks resident on a compute unit or SM" },
    { "simds", "", "SIMD units (NVIDIA: partitions) of a compute unit or SM" },
    { "registers", "", "most vector registers a thread can have, accumulators included where they are shared" },
    { "register_granule", "", "registers a thread are given in multiples of this" },
    { "unit_registers", "", "32-bit vector registers of a compute unit or SM, without separate accumulators" },
    { "accumulators", "", "matrix accumulators: none of their own, shared with the registers, or separate (as many again)" },
    { "lds_bytes", "bytes", "shared memory one block can have" },
    { "unit_lds_bytes", "bytes", "shared memory of a compute unit or SM; on RDNA of the half that is nearest" },
    { "lds_granule", "bytes", "shared memory is given to blocks in multiples of this" },
    { "lds_reserved", "bytes", "shared memory that each block costs beside its own" },
    { "lds_banks", "", "4-byte banks" },
    { "lds_clock_bytes", "bytes", "read from shared memory a clock by a compute unit or SM" },
    { "lds_rule", "", "which lanes of an access to shared memory are served together: a rule of lds_rules.lua" },
    { "fp32_lanes", "", "fp32 fused multiply-adds a compute unit or SM starts a clock" },
    { "dual_issue", "", "two fp32 operations of one wave may start in one clock, which fp32_lanes does not count" },
    { "exp_lanes", "", "exp2 (and other transcendental functions) a compute unit or SM starts a clock" },
    { "mix_fma", "", "a fused multiply-add that takes f16 operands without converting them first" },
    { "dot2", "", "two-element dot product of f16 with fp32 accumulation; counted at the rate of an fp32 multiply-add" },
    { "dot2_bf16", "", "the same of bf16" },
    { "matrix", "", "matrix instructions: none, mfma, wmma_gfx11, wmma_gfx12, mma_sync" },
    { "matrix_level", "", "which of them: mfma 1 gfx908, 2 gfx90a, 3 gfx942, 4 gfx950; wmma 11, 12; mma_sync the compute "
        .. "capability without its point; 0 none" },
    { "wgmma", "", "matrix instructions of a warp group on shared memory" },
    { "matrix_macs", "", "f16 multiply-adds with fp32 accumulation of a compute unit's or SM's matrix units a clock" },
    { "matrix_macs_bf16", "", "the same of bf16" },
    { "async_copy", "bytes", "of one asynchronous copy from global to shared memory by a thread (cp.async); 0 none" },
    { "direct_lds", "bytes", "a lane of the widest load from global memory straight to LDS (global_load_lds); 0 none" },
}

local K = 1024
local yes = true

local rows = {
    { "gfx900", "gcn5" },
    { "gfx906", "gcn5_1" },
    { "gfx908", "cdna" },
    { "gfx90a", "cdna2" },
    { "gfx942", "cdna3" },
    { "gfx950", "cdna4" },
    { "gfx1010", "rdna" },
    { "gfx1011", "rdna", dot2 = yes },
    { "gfx1012", "rdna", dot2 = yes },
    { "gfx1030", "rdna2" },
    { "gfx1031", "rdna2" },
    { "gfx1032", "rdna2" },
    { "gfx1033", "rdna2" },
    { "gfx1034", "rdna2" },
    { "gfx1035", "rdna2" },
    { "gfx1036", "rdna2" },
    { "gfx1100", "rdna3", unit_registers = 96 * K, register_granule = 24 },
    { "gfx1101", "rdna3", unit_registers = 96 * K, register_granule = 24 },
    { "gfx1102", "rdna3" },
    { "gfx1103", "rdna3" },
    { "gfx1150", "rdna3_5" },
    { "gfx1151", "rdna3_5", unit_registers = 96 * K, register_granule = 24 },
    { "gfx1152", "rdna3_5" },
    { "gfx1153", "rdna3_5" },
    { "gfx1200", "rdna4" },
    { "gfx1201", "rdna4" },
    { "sm_75", "turing" },
    { "sm_80", "ampere" },
    { "sm_86", "ampere_small" },
    { "sm_89", "ada" },
    { "sm_90", "hopper" },
    { "sm_90a", "hopper", wgmma = yes },
    { "sm_100", "blackwell" },
    { "sm_100a", "blackwell" },
    { "sm_120", "blackwell_small" },
    { "sm_120a", "blackwell_small" },
    { "host", "host" },
}

-- ---- a row's values with how each is known ----

-- calls take(how, source, facts) for a generation's groups, those it is like first
local function each_group(name, take)
    local generation = generations[name]
    if generation.like then
        each_group(generation.like, take)
    end
    for _, group in ipairs(generation) do
        take(group[1], group[2], group[3])
    end
end

local function contains(list, text)
    for _, item in ipairs(list or {}) do
        if item == text then
            return true
        end
    end
    return false
end

local is_column, column_names = {}, {}
for index, column in ipairs(columns) do
    is_column[column[1]], column_names[index] = true, column[1]
end

-- a misspelt column would be a fact that is silently left out
local function check_columns(owner, facts)
    for _, key in ipairs(keys_of(facts)) do
        if not is_column[key] then
            error("targets.lua: " .. owner .. ": there is no column " .. key .. "; columns are " .. table.concat(column_names, ", "))
        end
    end
end

-- column -> { value, how, source }; a row that leaves one open, gives one that its generation does not leave to it, or one that
-- is no column, is an error
local function known(row)
    local name, generation = row[1], generations[row[2]]
    if not generation then
        error("targets.lua: " .. name .. " names a generation that there is none of")
    end
    check_columns(name, row)
    local values = {}
    each_group(row[2], function(how, source, facts)
        check_columns("generation " .. row[2], facts)
        for _, column in ipairs(columns) do
            if facts[column[1]] ~= nil then
                values[column[1]] = { facts[column[1]], how, source }
            end
        end
    end)
    for _, column in ipairs(columns) do
        local key = column[1]
        local value = values[key]
        if not value then
            error("targets.lua: " .. name .. ": generation " .. row[2] .. " says nothing of " .. key)
        end
        if row[key] ~= nil then
            if not contains(generation.varies, key) then
                error("targets.lua: " .. name .. ": " .. key .. " does not vary in generation " .. row[2])
            end
            values[key] = { row[key], value[2], value[3] }
        end
    end
    return values
end

local names, entries = {}, {}
for index, row in ipairs(rows) do
    if entries[row[1]] then
        error("targets.lua: two rows for " .. row[1])
    end
    known(row)
    names[index] = row[1]
    entries[row[1]] = row
end

-- ---- what others ask for ----

local function round_up(value, unit)
    return (value + unit - 1) // unit * unit
end

-- waves that one SIMD of the target holds, by registers alone; 0 when a lane cannot have that many
local function waves_of(t)
    return function(registers, accumulators)
        local all = registers
        if t.accumulators == "shared" then
            all = round_up(registers, 4) + (accumulators or 0)
        elseif t.accumulators == "separate" and (accumulators or 0) > registers then -- as many of each kind are given
            all = accumulators
        end
        if all > t.registers then
            return 0
        end
        local a_lane = t.unit_registers // (t.simds * t.wave)
        return math.min(t.max_waves // t.simds, a_lane // round_up(math.max(all, 1), t.register_granule))
    end
end

-- the row's entry and what it emulates; nil for a target that there are no facts for
local function entry_of(name)
    local emulates
    if string.sub(name, 1, 5) == "host-" then
        emulates = string.sub(name, 6)
    end
    local entry = entries[emulates or name]
    if not entry or (emulates and generations[entry[2]].maker == "host") then
        return nil
    end
    return entry, emulates
end

local function row_of(name, entry, emulates, values)
    local maker = generations[entry[2]].maker
    local row = { name = name, vendor = maker, vocabulary = maker, maker = maker, generation = generations[entry[2]].doc }
    for _, column in ipairs(columns) do
        row[column[1]] = values[column[1]][1]
    end
    if emulates then
        row.vendor, row.vocabulary, row.emulates = "host", "host", emulates
    end
    return row
end

local function find(name)
    local entry, emulates = entry_of(name)
    if not entry then
        return nil
    end
    local row = row_of(name, entry, emulates, known(entry))
    row.waves_per_simd, row.lds = waves_of(row), lds_rules[row.lds_rule]
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

local function boards_of(target)
    local list = {}
    for _, board in ipairs(boards) do
        if board[2] == target then
            list[#list + 1] = {
                name = board[1], units = board[3], memory_gb = board[4], memory = board[5], gb_a_second = board[6], mhz = board[7],
            }
        end
    end
    return list
end

-- the row with all that people and tools want to know beside it; for a target that find knows
local function describe(name)
    local entry, emulates = entry_of(name)
    local values = known(entry)
    local row = row_of(name, entry, emulates, values)
    row.lds = by_text(lds_rules[row.lds_rule])
    row.isa = generations[entry[2]].isa or row.emulates or row.name
    row.boards = boards_of(entry[1])
    row.facts, row.waves = {}, {}
    for index, column in ipairs(columns) do
        local value = values[column[1]]
        row.facts[index] = {
            name = column[1], unit = column[2], doc = column[3], value = value[1], known = value[2], source = value[3],
        }
    end
    local waves_per_simd = waves_of(row)
    for _, registers in ipairs({ 32, 64, 96, 128, 168, 256, 512 }) do
        if registers <= row.registers then
            row.waves[#row.waves + 1] = { registers = registers, per_simd = waves_per_simd(registers) }
        end
    end
    return row
end

return { names = names, find = find, describe = describe }
