-- attention_forward_fragments_shape.lua: from a candidate of the fragments template to the numbers that its text needs.
--
-- Constraints, launch descriptor and text use the same numbers. A chunk is 16 bytes of a row in shared memory, a unit 16 bytes
-- of a row in global memory; words are 32 bits.

local kernel = import("kernel")
local common = import("attention_forward_common")
local instructions = import("instructions")

local shape = {}

local ceil_div, element_bytes = common.ceil_div, common.element_bytes

-- chunks from row to row, by layout; the xor layouts work with any
local function pitch(layout, chunks)
    if layout == "pad16" then
        return chunks | 1
    elseif layout == "pad64" then
        return chunks + (4 - chunks) % 8
    end
    return chunks
end

shape.stages = {
    off = 1, registers = 1, registers2 = 2, direct = 2, async1 = 1, async2 = 2, async3 = 3,
}

-- the form that a candidate multiplies with; nil and the reason when the target or the types have none
function shape.form(c, p, t)
    local dtype = p.k_dtype
    if c.multiply ~= "fma" and (p.q_dtype ~= dtype or p.v_dtype ~= dtype) then
        return nil, "multiply=" .. c.multiply .. " takes q, k and v of one type; they are " .. p.q_dtype .. ", " .. p.k_dtype
            .. ", " .. p.v_dtype
    end
    return instructions.find(t, dtype, c.multiply)
end

-- registers that an AMD compiler gives a lane when it must leave room for `resident` waves
function shape.lane_registers(c, t)
    return math.min(t.registers, t.unit_registers // (c.resident * t.simds * t.wave))
end

-- What the parameter `resident` may ask for: blocks of an SM (NVIDIA) or waves of a SIMD unit (AMD) that registers and shared
-- memory leave room for; and the blocks that shared memory alone does.
function shape.residency(d, c, t)
    local nvidia = t.maker == "nvidia"
    local by_shared = t.unit_lds_bytes // (d.shared_bytes + t.lds_reserved)
    if d.registers > t.registers then
        return 0, by_shared
    end
    local registers = ceil_div(d.registers, 8) * 8
    if nvidia then
        return math.min(by_shared, t.unit_registers // (registers * c.threads), t.max_waves * t.wave // c.threads), by_shared
    end
    local waves = t.unit_registers // (registers * t.wave * t.simds)
    return math.min(waves, by_shared * c.threads // t.wave // t.simds, t.max_waves // t.simds), by_shared
end

function shape.derive(c, p, t)
    local d = {}
    local form = shape.form(c, p, t)
    local f = instructions.fragment(form)
    d.form, d.f = form, f
    d.waves = c.threads // t.wave
    d.wave_q = c.block_q // d.waves
    d.q_fragments = d.wave_q // f.queries
    d.k_fragments = c.block_k // f.keys
    d.asynchronous = string.starts_with(c.prefetch, "async")
    d.stages = shape.stages[c.prefetch]
    d.block_k = c.block_k

    local bytes = form.bytes
    local q_bytes, k_bytes, v_bytes = element_bytes(p.q_dtype), element_bytes(p.k_dtype), element_bytes(p.v_dtype)
    d.widen_q, d.widen_k, d.widen_v = bytes > q_bytes, bytes > k_bytes, bytes > v_bytes

    -- depth of the scores, in steps that all groups of lanes take together
    local chunks = ceil_div(p.head_dim_qk, f.chunk)
    d.steps = ceil_div(chunks, f.step_chunks)
    d.depth_chunks = d.steps * f.step_chunks
    local function tensor(name, head_dim, source_bytes, widened)
        local row = head_dim * source_bytes
        d[name .. "_units"] = ceil_div(d.depth_chunks, widened and 2 or 1)
        d[name .. "_real"] = ceil_div(row, 16)
        d[name .. "_piece"] = math.min(16, common.piece(p, row, source_bytes))
        d[name .. "_tail"] = common.tail(row, 16)
    end
    tensor("q", p.head_dim_qk, q_bytes, d.widen_q)
    tensor("k", p.head_dim_qk, k_bytes, d.widen_k)
    local row_chunks = math.max(d.depth_chunks, d.k_units * (d.widen_k and 2 or 1), d.q_units * (d.widen_q and 2 or 1))
    d.across = c.lds_layout == "xor1" and t.lds_banks // 4 or 8 -- chunks that reach across the banks that it spreads rows over
    d.k_pitch = pitch(c.lds_layout, row_chunks)
    d.q_pitch = form.multiply and row_chunks or d.k_pitch
    d.k_steps = ceil_div(c.block_k * d.k_units, c.threads)

    -- columns of the output: fragments of one kind share them out so that a lane's are neighbours
    local fragments_needed = ceil_div(p.head_dim_v, f.columns)
    d.v_rows = form.transposing_loads or false
    d.together = 1
    if not d.v_rows then
        d.together = math.max(1, 8 // f.row_columns)
        while d.together > 1 and ceil_div(fragments_needed, d.together) * d.together > fragments_needed do
            d.together = d.together // 2
        end
    end
    d.o_fragments = fragments_needed
    if d.v_rows then
        local at_once = 32 // form.k -- whose four 8 x 8 matrices are loaded at once
        d.o_fragments = ceil_div(fragments_needed, at_once) * at_once
    end
    d.v_columns = d.o_fragments * f.columns -- with padding

    -- v in shared memory: rows are keys where loads transpose, else columns, their keys in the order of the weights
    local v_row = p.head_dim_v * v_bytes
    d.v_piece = common.piece(p, v_row, v_bytes)
    if d.v_rows then
        d.v_units, d.v_real = d.v_columns * 2 // 16, ceil_div(v_row, 16)
        d.v_piece, d.v_tail = math.min(16, d.v_piece), common.tail(v_row, 16)
        d.v_pitch = pitch(c.lds_layout, d.v_units)
        d.v_steps = ceil_div(c.block_k * d.v_units, c.threads)
        d.v_words = 4
        d.v_stage_words = c.block_k * d.v_pitch * 4
    else
        d.v_chunks = c.block_k // f.chunk
        d.v_pitch = pitch(c.lds_layout, d.v_chunks)
        d.v_units, d.v_tail = ceil_div(v_row, 16), common.tail(v_row, 16)
        d.v_piece, d.v_block_columns = math.min(16, d.v_piece), 16 // v_bytes
        -- A thread reads units of some keys and writes them as one part of a chunk for each of the unit's columns: as many parts
        -- as leave fewest registers on their way, since they leave work to most threads, and of equals the widest.
        local least
        for parts = 1, 4 do
            local steps = ceil_div(d.v_chunks * d.v_units * parts, c.threads)
            if parts ~= 3 and (not least or steps * (f.chunk // parts) < least) then
                least, d.v_parts, d.v_steps = steps * (f.chunk // parts), parts, steps
            end
        end
        d.v_block_keys, d.v_words, d.v_blocks = f.chunk // d.v_parts, 4 // d.v_parts, d.v_chunks * d.v_units * d.v_parts
        -- of so many neighbouring units of the same keys before other keys follow: whole runs of global memory for one load
        d.v_run = d.v_units % 4 == 0 and 4 or d.v_units % 2 == 0 and 2 or 1
        -- rows that are written or read
        d.v_lds_rows = math.max(d.v_columns, d.v_units * d.v_block_columns)
        d.v_stage_words = d.v_lds_rows * d.v_pitch * 4
    end
    d.k_stage_words = c.block_k * d.k_pitch * 4

    -- weights
    d.p_chunks = c.block_k // f.chunk            -- of a row
    d.v_chunk_steps = c.block_k // (f.chunk_keys * f.lane_chunks) -- steps of the second product
    d.p_pitch = form.multiply and d.p_chunks or pitch(c.lds_layout, d.p_chunks)
    d.v_move_words = d.v_steps * (d.v_rows and 4 or d.v_block_keys * 4)

    d.shared = {}
    -- q waits in shared memory as its operands where no two lanes hold the same, else in rows
    d.q_step_words = #f.q.rows * f.lane_chunks * 4
    d.q_rows_in_shared = c.q_in == "shared" and f.queries * f.step_chunks * 4 ~= f.lanes * d.q_step_words
    if d.q_rows_in_shared then
        d.shared[1] = { "q_tile", c.block_q * d.q_pitch * 4, "BLOCK_Q rows of q" }
    elseif c.q_in == "shared" then
        d.shared[1] = { "q_tile", c.block_q * d.depth_chunks * 4, "BLOCK_Q rows of q, as operands" }
    end
    local count = d.stages > 1 and d.stages .. " x " or ""
    if c.kv_buffers == 1 then
        d.shared[#d.shared + 1] = { "k_tile", math.max(d.k_stage_words, d.v_stage_words), "BLOCK_K rows of k, then v" }
    else
        d.shared[#d.shared + 1] = { "k_tile", d.stages * d.k_stage_words, count .. "BLOCK_K rows of k" }
        d.shared[#d.shared + 1] = { "v_tile", d.stages * d.v_stage_words,
        count .. (d.v_rows and "BLOCK_K rows of v" or "the columns of v, BLOCK_K keys each") }
    end
    if c.p_in == "lds" then
        d.shared[#d.shared + 1] = { "p_tile", c.block_q * d.p_pitch * 4, "weights: BLOCK_Q rows of BLOCK_K keys" }
    end
    d.shared_bytes = kernel.shared_bytes(d.shared)

    -- Registers a lane holds at once, roughly: outputs, statistics, addresses and q if it stays there; scores with operands, and
    -- tiles that travel meanwhile.
    local output = d.o_fragments * d.q_fragments * f.elements
    local scores = d.k_fragments * d.q_fragments * f.elements
    local q_registers = d.q_fragments * #f.q.rows * d.steps * f.lane_chunks * 4
    local operands = d.q_fragments * #f.q.rows * f.lane_chunks * 4 + 2 * #f.k.rows * f.lane_chunks * 4
    local moving = d.asynchronous and 0 or (c.prefetch == "direct" and 0 or d.k_steps * 4) + d.v_move_words
    if c.kv_buffers == 1 then
        moving = math.max(d.k_steps * 4, d.v_move_words)
    end
    d.q_registers = q_registers
    local philox = p.dropout ~= 0 and 16 or 0
    d.registers = output + scores + d.q_fragments * f.rows * 3 + 24 + philox + (c.q_in == "registers" and q_registers or 0)
        + operands + (c.prefetch == "off" and 0 or moving)
    if c.prefetch == "off" then
        d.registers = math.max(d.registers, output + 24 + moving)
    end
    -- nearly all that the compiler may use: addresses that hold division are computed anew for every tile
    d.scarce = t.maker == "amd" and d.registers > shape.lane_registers(c, t) * 15 // 16

    -- Chunk numbers that a layout permutes: a lane needs a word for each value of their bits that changes from step to step.
    local xor = string.starts_with(c.lds_layout, "xor")
    d.xor = xor
    local function variants(row_pitch)
        return xor and math.max(1, math.min(d.across, row_pitch & -row_pitch) // f.step_chunks) or 1
    end
    d.k_variants = variants(d.k_pitch)
    -- Of 64 lanes those are served together that read two rows, 16 lanes apart: every other one has its chunks in pairs swapped.
    d.swap_rows = form.multiply and t.wave == 64 and #f.q.rows == 1 and (f.lanes // f.queries == 8 and 2 or 1) or nil
    local function swapped(row_pitch)
        return d.swap_rows and row_pitch % 2 == 0 and 2 // math.min(2, f.step_chunks) or 1
    end
    d.q_variants = form.multiply and swapped(d.q_pitch) or variants(d.q_pitch)
    d.p_variants = form.multiply and swapped(d.p_pitch) or variants(d.p_pitch)
    d.v_among = xor and math.min(d.v_rows and 8 or d.across, d.v_pitch & -d.v_pitch) or 1
    if d.v_rows then
        d.v_variants = math.max(1, d.v_among // (32 // form.k))
    end

    -- code: short enough for the instruction cache
    local body = 1024
    local fragment_multiplies = d.q_fragments * f.calls * (form.multiply and f.elements * f.chunk // f.per_word or 1)
    local function unroll(steps, each, least) -- the longest part of the loop that a body holds; it has every variant
        for count = 1, steps do
            local whole = steps // count
            if steps % count == 0 and (whole * each <= body and whole % least == 0 or whole == least) then
                return whole
            end
        end
        return steps
    end
    d.qk_unroll = c.q_in == "registers" and d.steps or unroll(d.steps, d.k_fragments * fragment_multiplies, math.max(d.k_variants, d.q_variants))
    d.pv_unroll = d.v_chunk_steps
    if c.p_in == "lds" and not d.v_rows then
        d.pv_unroll = unroll(d.v_chunk_steps, d.o_fragments * fragment_multiplies, math.max(d.p_variants, d.v_among // f.step_chunks, 1))
    end

    -- options
    d.causal, d.dropout, d.lse = p.causal ~= "none", p.dropout ~= 0, p.lse ~= 0
    d.weight_bits = p.v_dtype == "f16" and bytes == 2 and 14 or 0
    -- how far weights may exceed 2^weight_bits before sums are scaled down, in powers of two: f16 ends below 2^16
    d.reach = d.weight_bits == 14 and 1 or 8
    local o_bytes = element_bytes(p.o_dtype)
    local o_piece = common.piece(p, p.head_dim_v * o_bytes, o_bytes)
    d.lane_columns = d.together * f.row_columns
    -- neighbours among a lane's columns: with the fragments' own order only runs of it are
    local run = 1
    while run < f.row_columns and f.key_offset[f.sequence[1][run + 1]] == run do
        run = run + 1
    end
    if not d.v_rows then
        run = d.lane_columns
    end
    d.o_run = run
    d.o_part = math.min(run, o_piece // o_bytes, 16 // o_bytes)
    -- mma.sync gives a lane two neighbours of each fragment: four lanes of a row trade them for 16 bytes each
    d.o_transposed = d.v_rows and o_bytes == 2 and o_piece == 16 and p.head_dim_v % 32 == 0
    d.pointers = common.pointers(p)
    return d
end

-- Groups of a row's scores that one Philox call decides about: elements whose keys share the call for every lane. Each group is
-- a list of {fragment, element, half = the draw's number, or nil when it depends on the lane}.
function shape.draws(d, row)
    local f, groups, by_name = d.f, {}, {}
    for fragment = 0, d.k_fragments - 1 do
        for _, r in ipairs(f.sequence[row + 1]) do
            local parts, half = {}, nil
            for lane = 0, f.lanes - 1 do
                local key = fragment * f.keys + f.key(lane, r)
                parts[lane + 1] = key // 32 * 4 + key // 2 % 4
                local h = key // 8 % 4 * 2 + key % 2
                if lane == 0 then
                    half = h
                elseif half ~= h then
                    half = false
                end
            end
            local name = table.concat(parts, ",")
            if not by_name[name] then
                by_name[name] = {}
                groups[#groups + 1] = by_name[name]
            end
            local list = by_name[name]
            list[#list + 1] = { fragment, r, half or nil }
        end
    end
    return groups
end

-- names of the pieces of text that some candidates have and others lack
function shape.paths(c, p, t)
    local d = shape.derive(c, p, t)
    return {
        "multiply=" .. c.multiply .. " q_in=" .. c.q_in, "multiply=" .. c.multiply .. " p_in=" .. c.p_in,
        "prefetch=" .. c.prefetch .. " masking=" .. c.masking, "lds_layout=" .. c.lds_layout, "index=" .. c.index,
        "exact=" .. c.exact, "k " .. (c.threads % d.k_units == 0 and "even" or "odd") .. " " .. c.prefetch,
        "v " .. (d.v_rows and "rows" or "columns"), "o " .. (d.o_transposed and "transposed" or "direct"),
        "kv_buffers=" .. c.kv_buffers .. " " .. c.prefetch,
        "scores " .. (d.qk_unroll < d.steps and "in parts" or "at once"),
        "output " .. (d.pv_unroll < d.v_chunk_steps and "in parts" or "at once"),
    }
end

return shape
