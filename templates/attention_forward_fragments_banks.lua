-- attention_forward_fragments_banks.lua: which lanes meet in the banks of shared memory, by the target's rule of phases.

local banks = {}

-- Clocks of a wave's access by which place(lane) gives a lane's first of `words` words (nil: none), and the most of one phase.
-- Lanes that want the same words are served at once.
local function clocks(t, phases, words, place)
    local all, worst = 0, 1
    for _, lanes in ipairs(phases) do
        local seen, wanted, most = {}, {}, 1
        for _, lane in ipairs(lanes) do
            local first = place(lane)
            if first and not seen[first] then
                seen[first] = true
                for word = first, first + words - 1 do
                    local bank = word % t.lds.banks
                    wanted[bank] = (wanted[bank] or 0) + 1
                    most = math.max(most, wanted[bank])
                end
            end
        end
        all, worst = all + most, math.max(worst, most)
    end
    return all, worst
end

-- First word of a chunk whose row permutes it: chunk_at and v_chunk_at in the template. `turns` lists bits of the row's
-- number that count beside its lowest ones, and what each changes.
local function word_at(row, chunk, pitch, across, among, turns)
    local permuted = row // (across // among)
    for _, turn in ipairs(turns) do
        permuted = permuted ~ (row >> turn[1] & 1) * turn[2]
    end
    return (row * pitch + (chunk ~ permuted & among - 1)) * 4
end

-- Times that the worst phase of the inner loop's reads of k takes, of what it would without conflicts. Steps in depth and parts
-- of a lane's chunks turn all lanes' chunks alike.
function banks.k_reads(d, t)
    local f, among = d.f, d.xor and math.min(d.across, d.k_pitch & -d.k_pitch) or 1
    local _, worst = clocks(t, t.lds.read[16], 4, function(lane)
        return word_at(f.k.row(lane), f.k.group(lane) * f.lane_chunks, d.k_pitch, d.across, among, {})
    end)
    return worst
end

-- chunk, part and unit of v that a thread moves first: v_block_at in the template
function banks.v_block(d, index)
    local run = index // d.v_run // d.v_parts
    local runs = d.v_units // d.v_run
    return run // runs, index // d.v_run % d.v_parts, run % runs * d.v_run + index % d.v_run
end

local known = {}

-- clocks of a wave's reads of v, and the worst phase, when turns permute the chunks of its rows
local function v_reads_of(d, t, turns)
    local f = d.f
    return clocks(t, t.lds.read[16], 4, function(lane)
        return word_at(f.k.row(lane), f.k.group(lane) * f.lane_chunks, d.v_pitch, d.across, d.v_among, turns)
    end)
end

-- clocks of those reads and of the block's writes; reads count first
local function v_cost(d, t, turns)
    local writes = 0
    for wave = 0, d.waves - 1 do
        writes = writes + clocks(t, t.lds.write[4 * d.v_words], d.v_words, function(lane)
            local chunk, part, unit = banks.v_block(d, wave * t.wave + lane)
            local row = d.f.column_place(unit * d.v_block_columns, d.together)
            return chunk < d.v_chunks and word_at(row, chunk, d.v_pitch, d.across, d.v_among, turns) + part * d.v_words
        end)
    end
    return 65536 * v_reads_of(d, t, turns) + writes
end

-- The bits of a row's number that permute the chunks of v beside the lowest ones, and what they change, as a list of { bit, turn }:
-- a wave reads neighbouring rows but writes others, and both should meet all banks. Bit by bit the turn with the fewest clocks.
function banks.v_turns(d, t)
    local key = string.format("%s %s %d %d %d %d %d %d %d %d %d %d", t.lds_rule, d.form.name, d.f.lanes, d.form.bytes, d.together,
        d.v_pitch, d.v_among, d.across, d.v_units, d.v_parts, d.v_chunks, d.waves)
    if not known[key] then
        local turns, least = {}, v_cost(d, t, {})
        local bit = 3
        while d.v_among > 1 and 1 << bit < d.v_lds_rows do
            local place, best = #turns + 1, nil
            for turn = 1, d.v_among - 1 do
                turns[place] = { bit, turn }
                local cost = v_cost(d, t, turns)
                if cost < least then
                    least, best = cost, turn
                end
            end
            turns[place] = best and { bit, best }
            bit = bit + 1
        end
        known[key] = turns
    end
    return known[key]
end

-- times that the worst phase of the inner loop's reads of v takes
function banks.v_reads(d, t)
    local _, worst = v_reads_of(d, t, {})
    if worst > 1 then
        _, worst = v_reads_of(d, t, banks.v_turns(d, t))
    end
    return worst
end

return banks
