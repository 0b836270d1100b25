-- attention_forward_shape.lua: from a candidate of the portable template to the numbers that its text needs.
--
-- Constraints, launch descriptor and text use the same numbers. Words are 32 bits, chunks 16 bytes; a unit is 16 bytes of a row
-- in global memory.

local kernel = import("kernel")
local common = import("attention_forward_common")

local shape = {}

-- most registers a thread's estimate may reach: beyond it compilers spill on every target
shape.register_limit = 232

local ceil_div, element_bytes = common.ceil_div, common.element_bytes

-- chunks from row to row, by layout; `across` chunks reach once across all banks
local function pitch(layout, chunks, across)
    if layout == "padded" then
        return chunks | 1
    elseif layout == "xor" then
        if chunks > across // 2 then
            return ceil_div(chunks, across) * across
        end
        local rounded = 1
        while rounded < chunks do
            rounded = rounded * 2
        end
        return rounded
    end
    return chunks
end

-- Blocks one compute unit or SM holds. NVIDIA reserves 1 KiB of shared memory for each.
function shape.resident_blocks(shared_bytes, registers, c, t)
    local reserved = t.maker == "nvidia" and 1024 or 0
    local by_shared = t.unit_lds_bytes // (shared_bytes + reserved)
    local by_registers = t.unit_registers // (ceil_div(registers, 8) * 8 * c.threads)
    return math.min(by_shared, by_registers, t.max_waves * t.wave // c.threads)
end

-- Lanes that share a row, and sets of waves that share the rows: threads beyond a wave for each row split the keys.
function shape.thread_shape(c, t)
    local for_each_row = c.threads * c.tile_q // c.block_q
    local lanes = for_each_row < t.wave and for_each_row or t.wave
    return lanes, for_each_row // lanes
end

-- How a thread's columns of v are cut into vectors: the width that costs least, reads and multiply-adds together.
local function column_shape(c, head_dim, lanes, words_widths, elements_per_word)
    local best, best_words, best_vectors
    for _, words in ipairs(words_widths) do
        local vectors = ceil_div(head_dim, words * elements_per_word * lanes)
        local cost = vectors * (c.tile_q * words * elements_per_word + 4)
        if not best or cost < best then
            best, best_words, best_vectors = cost, words, vectors
        end
    end
    return best_words, best_vectors
end

local word_widths = { 4, 2, 1 }

function shape.derive(c, p, t)
    local d = {}
    local dot2 = c.multiply == "dot2"
    local k_bytes, q_bytes, v_bytes = element_bytes(p.k_dtype), element_bytes(p.q_dtype), element_bytes(p.v_dtype)
    local widened = c.lds_type == "float"
    d.lanes, d.splits = shape.thread_shape(c, t)
    d.row_groups = c.block_q // c.tile_q
    d.block_k = c.block_k * d.splits
    d.keys = c.block_k // d.lanes

    -- types in shared memory
    d.widen_q, d.widen_k, d.widen_v = widened and q_bytes == 2, widened and k_bytes == 2, widened and v_bytes == 2
    d.qk_bytes = widened and 4 or k_bytes
    d.mixed = not widened and q_bytes == 4 and k_bytes == 2 -- a chunk of k meets two of q
    d.pairs_in_fma = d.qk_bytes == 2 and not dot2
    d.v_bytes = widened and 4 or v_bytes

    -- units of global rows and the pieces they are read in
    d.q_units, d.k_units = ceil_div(p.head_dim_qk * q_bytes, 16), ceil_div(p.head_dim_qk * k_bytes, 16)
    d.v_units = ceil_div(p.head_dim_v * v_bytes, 16)
    local function piece(row_bytes, element)
        return common.piece(p, row_bytes, element)
    end
    local function tail(row_bytes)
        return common.tail(row_bytes, 16)
    end
    d.q_piece, d.q_tail = piece(p.head_dim_qk * q_bytes, q_bytes), tail(p.head_dim_qk * q_bytes)
    d.k_piece, d.k_tail = piece(p.head_dim_qk * k_bytes, k_bytes), tail(p.head_dim_qk * k_bytes)
    d.v_piece, d.v_tail = piece(p.head_dim_v * v_bytes, v_bytes), tail(p.head_dim_v * v_bytes)
    d.q_steps = ceil_div(c.block_q * d.q_units, c.threads)
    d.k_steps = ceil_div(d.block_k * d.k_units, c.threads)
    d.v_steps = dot2 and 2 * ceil_div(d.block_k // 2 * d.v_units, c.threads) or ceil_div(d.block_k * d.v_units, c.threads)

    -- shared memory
    d.qk_chunks = ceil_div(p.head_dim_qk * d.qk_bytes, 16)
    d.q_row_chunks = d.q_units * (d.widen_q and 2 or 1)
    d.k_row_chunks = d.k_units * (d.widen_k and 2 or 1)
    d.across = t.lds_banks // 4
    d.q_pitch, d.k_pitch = pitch(c.lds_layout, d.q_row_chunks, d.across), pitch(c.lds_layout, d.k_row_chunks, d.across)
    d.p_chunks = c.block_k // (dot2 and 8 or 4)
    d.p_pitch = pitch(c.lds_layout, d.p_chunks, d.across)
    local elements_per_word = (dot2 or d.v_bytes == 4) and 1 or 2
    d.v_words, d.v_vectors = column_shape(c, p.head_dim_v, d.lanes, word_widths, elements_per_word)
    d.vector = d.v_words * elements_per_word
    d.columns = d.vector * d.v_vectors
    d.padded_v = d.columns * d.lanes > p.head_dim_v
    local v_unit_words = (dot2 or d.widen_v) and 8 or 4
    local v_read_words = d.lanes * d.v_words * d.v_vectors
    d.v_pitch = ceil_div(v_read_words, 4) * 4
    if d.v_pitch < d.v_units * v_unit_words then
        d.v_pitch = d.v_units * v_unit_words
    end
    d.merge_pitch = 2 + d.lanes * d.columns
    d.merge_pitch = d.merge_pitch | 1
    local k_words, v_words = d.block_k * d.k_pitch * 4, d.block_k // (dot2 and 2 or 1) * d.v_pitch
    if c.kv_buffers == 1 and v_words > k_words then
        k_words = v_words
    end
    if d.splits > 1 and (d.splits - 1) * c.block_q * d.merge_pitch > k_words then
        k_words = (d.splits - 1) * c.block_q * d.merge_pitch
    end
    d.v_tile_bytes = v_words * 4
    d.shared = {}
    if c.q_in == "shared" then
        d.shared[1] = { "q_tile", c.block_q * d.q_pitch * 4, "BLOCK_Q rows of q" }
    end
    d.shared[#d.shared + 1] = { "k_tile", k_words, c.kv_buffers == 1 and "BLOCK_K rows of k, then of v" or "BLOCK_K rows of k" }
    if c.kv_buffers == 2 then
        d.shared[#d.shared + 1] = { "v_tile", v_words, dot2 and "BLOCK_K / 2 pairs of rows of v" or "BLOCK_K rows of v" }
    end
    d.shared[#d.shared + 1] = { "p_tile", d.splits * c.block_q * d.p_pitch * 4, "weights: BLOCK_Q rows for each split" }
    d.shared_bytes = kernel.shared_bytes(d.shared)

    -- Registers a thread holds at once, roughly. Always: output, row statistics, q if it stays there, addresses. Then either a
    -- tile on its way or scores and operands, or both when the next tile travels meanwhile.
    local always = c.tile_q * (d.columns + 3) + 24 + (c.q_in == "registers" and c.tile_q * d.q_row_chunks * 4 or 0)
    local moving = 4 * (c.kv_buffers == 2 and d.k_steps + d.v_steps or math.max(d.k_steps, d.v_steps))
    local operands = math.max((c.q_in == "shared" and c.tile_q or 0) * 4 + 8, c.tile_q * 4 + d.v_words * d.v_vectors)
    local computing = c.tile_q * d.keys + operands
    d.registers = always + math.max(moving, computing)
    if c.prefetch ~= "off" then -- both at once, their addresses, and on AMD what older compilers add to long runs of loads
        d.registers = always + moving + computing + 24 + (t.maker == "amd" and moving // 3 or 0)
    end
    -- rows so long that 96 of them take three quarters of shared memory: small blocks must do
    d.cramped = math.max(d.q_row_chunks * 16, d.qk_chunks * 16, d.v_pitch * (dot2 and 2 or 4)) * 128 > t.lds_bytes

    -- Loop bodies of so many multiply instructions: long enough to hide latencies, short enough for the instruction cache.
    -- NVIDIA's compiler spills large register tiles when it can look further ahead.
    local body = t.maker == "nvidia" and 256 or 512
    local qk_body = c.tile_q * c.tile_k * (d.pairs_in_fma and 8 or 4)
    d.qk_unroll = c.q_in == "registers" and d.qk_chunks or math.max(1, math.min(d.qk_chunks, body // qk_body))
    d.pv_unroll = math.max(1, math.min(d.p_chunks, body // (c.tile_q * d.columns * 4)))

    -- NVIDIA's compiler takes every register that the launch bounds leave: ask for as many blocks as shared memory holds, if a
    -- quarter more than the estimate is left for each thread
    d.resident = math.max(1, shape.resident_blocks(d.shared_bytes, d.registers + d.registers // 4, c, t))

    -- options
    d.causal, d.dropout, d.lse = p.causal ~= "none", p.dropout ~= 0, p.lse ~= 0
    d.weight_bits = dot2 and p.v_dtype == "f16" and 14 or 0
    d.philox_stride = math.max(1, 8 // d.lanes)
    d.philox_uses = d.lanes <= 8 and 4 or d.lanes == 16 and 2 or 1
    d.philox_keys = d.philox_stride * d.philox_uses
    local o_bytes = element_bytes(p.o_dtype)
    d.o_part = math.min(d.vector, piece(p.head_dim_v * o_bytes, o_bytes) // o_bytes)
    d.pointers = common.pointers(p)
    return d
end

-- Names of the pieces of text that some candidates have and others lack: what the template's conditions ask, together where
-- one stands inside another.
function shape.paths(c, p, t)
    local d = shape.derive(c, p, t)
    local product = c.multiply == "dot2" and "dot2" or d.mixed and "mixed" or d.qk_bytes == 4 and "fp32" or "pairs"
    local weigh = c.multiply == "dot2" and "dot2" or d.v_bytes == 4 and "fp32" or "pairs"
    local list = {
        "index=" .. c.index, "exact=" .. c.exact, "lds_layout=" .. c.lds_layout,
        "prefetch=" .. c.prefetch .. " kv_buffers=" .. c.kv_buffers,
        "q_in=" .. c.q_in .. (d.mixed and " mixed" or "") .. (d.widen_q and " widened" or ""),
        "product=" .. product, "weigh=" .. weigh,
        "k " .. (d.widen_k and "widened" or "stored"), "v " .. (d.widen_v and "widened" or "stored"),
        "columns " .. (d.padded_v and "padded" or "even"),
        "splits " .. (d.splits > 1 and (c.block_q > 1 and "several rows" or "one row") or "none"),
        "queries " .. (c.block_q <= 4 and "few" or "many"),
    }
    if d.dropout then
        list[#list + 1] = "draws " .. (d.lanes <= 8 and "8" or d.lanes == 16 and "16" or "more")
    end
    return list
end

function shape.has_dot2(p, t)
    if p.q_dtype ~= p.k_dtype or p.k_dtype ~= p.v_dtype then
        return false, "q, k and v must be of one 16-bit type; they are " .. p.q_dtype .. ", " .. p.k_dtype .. ", " .. p.v_dtype
    elseif p.k_dtype == "f16" and t.dot2 or p.k_dtype == "bf16" and t.dot2_bf16 then
        return true
    end
    return false, t.name .. " has no dot2 of " .. p.k_dtype
end

-- NVIDIA's larger shared memories leave room for register tiles and occupancy that 64 or 99 KiB do not
function shape.roomy(t)
    return t.maker == "nvidia" and t.lds_bytes > 128 * 1024
end

-- does a multiply-add take k and v as they are stored?
function shape.mixes(p, t)
    return t.mix_fma and p.k_dtype == "f16" and p.v_dtype == "f16"
        and (p.q_dtype == "f16" or p.q_dtype == "f32" and ceil_div(p.head_dim_qk, 4) % 2 == 0)
end

-- do multiply, lds_type and the dtypes go together?
function shape.types_fit(c, p, t)
    if c.multiply == "dot2" then
        if c.lds_type ~= "storage" then
            return false, "dot2 multiplies 16-bit elements: lds_type=storage"
        end
        return shape.has_dot2(p, t)
    end
    local q_bytes, k_bytes, v_bytes = element_bytes(p.q_dtype), element_bytes(p.k_dtype), element_bytes(p.v_dtype)
    if c.lds_type == "float" then
        if q_bytes + k_bytes + v_bytes == 12 then
            return false, "q, k and v are fp32: lds_type=float is lds_type=storage"
        end
        return true
    end
    if q_bytes == 2 and p.q_dtype ~= p.k_dtype then
        return false, "q is " .. p.q_dtype .. " and k " .. p.k_dtype .. ": only lds_type=float multiplies them"
    elseif q_bytes == 4 and k_bytes == 2 and ceil_div(p.head_dim_qk, 4) % 2 ~= 0 then
        return false, "q is f32 and k " .. p.k_dtype .. ": lds_type=storage needs whole pairs of chunks of q, head_dim_qk="
            .. p.head_dim_qk .. " has " .. ceil_div(p.head_dim_qk, 4)
    end
    return true
end

return shape
