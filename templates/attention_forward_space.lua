-- attention_forward_space.lua: the portable template's parameters, what rules a candidate out, and the default.
--
-- Constraints come cheapest first: an enumeration asks them in this order for every point of the space. They refuse what cannot
-- work (does not divide, does not fit) and what cannot pay, with the numbers, so that a space stays a few hundred candidates.
-- Parameters that change nothing in each other are varied one at a time, not as a product; the reasons say so.

local shape = import("attention_forward_shape")
local pruning = import("attention_forward_pruning")
local fragments_space = import("attention_forward_fragments_space")
local common = import("attention_forward_common")
local derive, element_bytes, refuse = shape.derive, common.element_bytes, common.refuse

local space = {}

space.parameters = {
    { name = "index", doc = "width of offsets inside a tile: 32 bits, or 64 when a tile spans 2^31 bytes",
      values = { "narrow", "wide" } },
    { name = "exact", doc = "lengths compiled in: tail checks vanish, the record serves this problem alone",
      values = { "off", "lengths" } },
    { name = "multiply", doc = "fp32 multiply-add, or two-element dot products of 16-bit elements with fp32 sums",
      values = { "fma", "dot2" } },
    { name = "lds_type", doc = "elements in shared memory: as the caller stores them, or converted to fp32 once",
      values = { "storage", "float" } },
    { name = "lds_layout", doc = "rows in shared memory: back to back, an odd number of 16-byte chunks apart, chunks permuted by row",
      values = { "row", "padded", "xor" } },
    { name = "prefetch", doc = "the next k and v wait in registers while a tile is worked on", values = { "off", "registers" } },
    { name = "q_in", doc = "where a block's queries stay", values = { "shared", "registers" } },
    { name = "kv_buffers", doc = "shared memory for k and v each, or one buffer for both in turn", values = { 1, 2 } },
    { name = "block_q", doc = "queries of a block", values = { 1, 4, 16, 32, 64, 128 } },
    { name = "tile_q", doc = "rows that one thread holds", values = { 1, 2, 4, 8 } },
    { name = "threads", doc = "threads of a block; those beyond a wave for each row split the keys", values = { 64, 128, 256 } },
    { name = "block_k", doc = "keys of a tile, for each set of waves that splits the keys", values = { 32, 64, 128 } },
    { name = "tile_k", doc = "keys that one thread scores at a time", values = { 1, 2, 4, 8 } },
}

local decode_block = 4 -- blocks of at most so many queries are for decoding: their rows are whole waves

-- a corner of the space for values that cannot be expected to pay
local function plain(c)
    return c.lds_layout == "padded" and c.prefetch == "off" and c.q_in == "shared" and c.exact == "off"
        and (c.block_q == 32 or c.block_q == 64)
end
local plain_only = "tried only with lds_layout=padded, prefetch=off, q_in=shared, exact=off, block_q=32 or 64"

-- A corner of the space where the fragments template serves the problem: its instructions do two to thirty times the products in
-- the same time, so a few candidates are enough to compare with, and for whoever names this template.
local function beside_fragments(c, p, t)
    local prefetch = t.maker == "nvidia" and "off" or "registers"
    return c.exact == "off" and (c.index == "narrow" or p.index == "wide") and c.q_in == "shared"
        and (c.lds_layout == "padded" and c.prefetch == prefetch or c.lds_layout ~= "row" and c.kv_buffers == 1 and c.block_q == 16)
        and (c.multiply == "dot2") == shape.has_dot2(p, t) and (c.lds_type == "storage" or c.multiply == "fma")
        and (c.block_q == 16 and c.tile_q <= 4 or c.block_q == 64 and c.tile_q == 4)
end

space.constraints = {
    { doc = "a few where the fragments template serves the problem",
      check = function(c, p, t)
          if not pruning.portable_beside_fragments and pruning.fragments and fragments_space.supports(p, t)
                  and not beside_fragments(c, p, t) then
              return refuse("attention.forward/fragments serves this problem on %s: this template tried only with exact=off, "
                  .. "q_in=shared, the best multiply, lds_layout=padded, block_q=64, tile_q=4, or small blocks", t.name)
          end
          return true
      end },
    { doc = "index=wide where a tile may span 2^31 bytes; elsewhere with the plainest loads only",
      check = function(c, p)
          if p.index == "wide" and c.index ~= "wide" then
              return refuse("the problem has index=wide: 32-bit offsets may not reach its rows")
          elseif p.index ~= "wide" and c.index == "wide" and not plain(c) then
              return refuse("64-bit offsets cannot pay when 32 bits reach every row: " .. plain_only)
          end
          return true
      end },
    { doc = "exact=lengths removes tail checks and nothing else",
      check = function(c)
          if c.exact == "lengths" and not pruning.exact_anywhere and (c.lds_layout ~= "padded" or c.prefetch ~= "registers" or c.block_q ~= 64
                  or c.q_in ~= "shared") then
              return refuse("compiled lengths only remove tail checks: tried only with lds_layout=padded, prefetch=registers, "
                  .. "q_in=shared, block_q=64")
          end
          return true
      end },
    { doc = "multiply, dtypes and lds_type go together",
      check = function(c, p, t)
          local fit, reason = shape.types_fit(c, p, t)
          if fit and c.multiply == "fma" and not plain(c) and shape.has_dot2(p, t)
                  and (c.block_q > decode_block or c.lds_type == "float") then
              return refuse("dot2 does two multiplies an instruction: fma with larger blocks or lds_type=float " .. plain_only)
          elseif fit and c.multiply == "fma" and c.lds_type == "storage" and t.maker == "nvidia"
                  and not pruning.storage_anywhere and element_bytes(p.k_dtype) == 2 and (c.lds_layout ~= "padded" or c.q_in ~= "shared") and c.block_q > decode_block then
              return refuse("%s converts 16-bit elements at every use: lds_type=storage tried only with lds_layout=padded, "
                  .. "q_in=shared", t.name)
          elseif fit and c.multiply == "fma" and c.lds_type == "float" and shape.mixes(p, t) and not plain(c) then
              return refuse("%s multiplies 16-bit elements without converting them: lds_type=float " .. plain_only, t.name)
          end
          return fit, reason
      end },
    { doc = "rows and lanes divide evenly, a row's lanes are of one wave",
      check = function(c, p, t)
          if c.threads % t.wave ~= 0 then
              return refuse("threads=%d is not a multiple of the wave of %d", c.threads, t.wave)
          elseif c.block_q % c.tile_q ~= 0 then
              return refuse("block_q=%d is not a multiple of tile_q=%d", c.block_q, c.tile_q)
          end
          local for_each_row = c.threads * c.tile_q // c.block_q
          if for_each_row < 4 then
              return refuse("%d threads for %d rows of tile_q=%d: fewer than 4 lanes a row leave no reuse of q and too many "
                  .. "columns a thread", c.threads, c.block_q // c.tile_q, c.tile_q)
          end
          local lanes, splits = shape.thread_shape(c, t)
          if splits > 1 and c.block_q > decode_block then
              return refuse("%d threads a row of tile_q=%d exceed the wave of %d: key splits are for block_q <= %d", for_each_row,
                  c.tile_q, t.wave, decode_block)
          elseif c.block_q <= decode_block and lanes < t.wave then
              return refuse("block_q=%d is for decoding: a row takes whole waves, %d lanes are less than %d", c.block_q, lanes,
                  t.wave)
          end
          local keys = c.block_k // lanes
          local least = c.multiply == "dot2" and 2 or 1
          if keys < least then
              return refuse("block_k=%d gives %d lanes fewer than %d keys each", c.block_k, lanes, least)
          elseif keys % c.tile_k ~= 0 then
              return refuse("%d keys a thread (block_k=%d, %d lanes) are not a multiple of tile_k=%d", keys, c.block_k, lanes,
                  c.tile_k)
          elseif keys // c.tile_k > 2 then
              return refuse("%d keys a thread in steps of tile_k=%d read q more than twice", keys, c.tile_k)
          end
          return true
      end },
    { doc = "enough arithmetic for each read of shared memory and each barrier, unless long rows leave no choice",
      check = function(c, p, t)
          if c.block_q > decode_block then
              if c.lds_layout == "row" and c.prefetch ~= "off" and t.maker == "nvidia" then
                  return refuse("lds_layout=row meets the same banks when rows are whole kilobits: tried only with prefetch=off")
              elseif c.q_in == "registers" and c.prefetch == "registers" then
                  return refuse("q_in=registers and prefetch=registers want the same registers when block_q > %d", decode_block)
              end
              local balance = c.tile_q * c.tile_k * 4 / (c.tile_q + c.tile_k)
              local least = shape.roomy(t) and pruning.balance_roomy or pruning.balance
              if c.block_q * c.block_k >= pruning.tile and balance >= least or derive(c, p, t).cramped then
                  return true
              elseif balance < least then
                  return refuse("tile_q=%d tile_k=%d: %.1f multiplies for each 16-byte read; below %d the reads decide", c.tile_q,
                      c.tile_k, balance, least)
              end
              return refuse("block_q * block_k = %d: below %d the barriers cost more than the tile", c.block_q * c.block_k,
                  pruning.tile)
          end
          if c.lds_layout == "row" or (c.lds_layout == "xor" and c.multiply ~= "dot2") then
              return refuse("block_q=%d is for decoding: memory decides, lds_layout=%s tried only with larger blocks", c.block_q,
                  c.lds_layout)
          elseif c.tile_q ~= 1 and c.tile_q ~= c.block_q then
              return refuse("block_q=%d is for decoding: tile_q is 1 or all rows", c.block_q)
          end
          return true
      end },
    { doc = "shared memory, registers and code fit, and enough waves stay resident",
      check = function(c, p, t)
          local d = derive(c, p, t)
          if d.shared_bytes > t.lds_bytes then
              return refuse("shared memory: %d bytes, the target has %d: take smaller tiles of keys or a smaller block_q", d.shared_bytes,
                  t.lds_bytes)
          end
          local q_words = c.tile_q * d.q_row_chunks * 4
          if c.q_in == "registers" and q_words > 64 then
              return refuse("q_in=registers: %d registers for tile_q=%d rows, more than 64", q_words, c.tile_q)
          end
          local multiplies = c.tile_q * d.keys * d.qk_chunks * (d.pairs_in_fma and 8 or 4)
          if c.q_in == "registers" and multiplies > 4096 then
              return refuse("q_in=registers unrolls the head dimension: %d multiplies, more than 4096", multiplies)
          end
          local limit = math.min(shape.register_limit, t.unit_registers // c.threads)
          if d.registers > limit then
              return refuse("registers: about %d a thread, %d threads leave %d: take a smaller tile_q or tile_k, or fewer threads",
                  d.registers, c.threads, limit)
          end
          local blocks = shape.resident_blocks(d.shared_bytes, d.registers, c, t)
          local waves = blocks * c.threads // t.wave
          if c.block_q > decode_block and not d.cramped and waves < t.simds * (shape.roomy(t) and 2 or 1) then
              return refuse("%d waves resident (%d bytes of shared memory, about %d registers), too few for %d SIMD units", waves,
                  d.shared_bytes, d.registers, t.simds)
          end
          if c.kv_buffers == 1 then
              local double = d.shared_bytes + d.v_tile_bytes
              if double <= t.lds_bytes and c.block_q <= decode_block then
                  return refuse("block_q=%d is for decoding: k and v of a tile should be under way together, and both fit",
                      c.block_q)
              elseif double <= t.lds_bytes and shape.resident_blocks(double, d.registers, c, t) == blocks then
                  return refuse("one buffer for k and v: %d bytes instead of %d, but no further block fits", d.shared_bytes, double)
              end
          end
          return true
      end },
}

-- Shapes from most to least wanted: {block_q, block_k, threads, tile_q, tile_k}. The first that fits wins.
-- what serves several problems best on an H200 (docs/measurements.md), for heads of up to 64 and of up to 128
local prefill_nvidia_64, prefill_nvidia_128 = { { 64, 32, 128, 4, 4 } }, { { 64, 128, 256, 4, 8 } }
local prefill_nvidia = { -- register tiles of 8 x 8 and 8 x 4: what an fp32 matrix product wants
    { 128, 64, 128, 8, 8 }, { 64, 64, 128, 8, 4 }, { 64, 64, 128, 4, 8 }, { 64, 64, 256, 4, 4 }, { 32, 64, 128, 4, 4 },
    { 32, 64, 128, 8, 2 }, { 64, 32, 128, 8, 2 }, { 64, 32, 256, 8, 1 }, { 32, 64, 128, 2, 8 }, { 32, 64, 256, 4, 2 },
    { 64, 32, 256, 4, 2 }, { 32, 64, 256, 2, 4 },
}
local prefill_amd = { -- 4 x 4 balances dot2 with 16-byte reads; 256 threads put a wave on every SIMD unit
    { 64, 64, 256, 4, 4 }, { 32, 64, 256, 4, 2 }, { 64, 32, 256, 4, 2 }, { 32, 64, 256, 2, 4 }, { 32, 64, 128, 4, 4 },
    { 16, 128, 256, 4, 2 }, { 16, 128, 128, 2, 4 },
}
local cramped = { { 16, 32, 128, 4, 1 }, { 16, 32, 64, 4, 2 }, { 16, 32, 64, 4, 1 }, { 16, 32, 64, 2, 1 } } -- long rows, little shared memory
local decode = { -- many threads first: bytes under way are what counts
    { 1, 32, 256, 1, 1 }, { 1, 64, 256, 1, 1 }, { 1, 32, 128, 1, 1 }, { 1, 64, 128, 1, 1 }, { 1, 128, 128, 1, 2 },
    { 1, 128, 64, 1, 2 }, { 1, 64, 64, 1, 1 }, { 1, 64, 64, 1, 2 }, { 1, 32, 64, 1, 1 },
}
local decode_few = {
    { 4, 32, 256, 4, 1 }, { 4, 64, 256, 4, 1 }, { 4, 64, 256, 4, 2 }, { 4, 64, 128, 4, 1 }, { 4, 64, 128, 4, 2 },
    { 4, 128, 128, 4, 2 }, { 4, 128, 256, 1, 2 }, { 4, 64, 128, 1, 2 }, { 4, 128, 64, 4, 2 }, { 4, 64, 64, 4, 1 },
    { 4, 64, 64, 4, 2 },
}

-- The first candidate of the preference lists that passes every constraint. Of the run-time sizes only seqlen_q counts, and
-- only whether it is at most 4: decoding needs another shape.
function space.default(p, t)
    local decoding = p.seqlen_q <= decode_block
    local dot2 = not decoding and shape.has_dot2(p, t) -- memory decides when decoding, and dot2 wants two keys a lane
    local nvidia = t.maker == "nvidia"
    local lds_types = { "storage", "float" }
    if nvidia and not decoding then
        lds_types = { "float", "storage" } -- conversions at every use would compete with the multiplies
    end
    local lists = { nvidia and prefill_nvidia or prefill_amd, cramped }
    local head_dim = math.max(p.head_dim_qk, p.head_dim_v)
    if nvidia and head_dim <= 128 then
        lists = { head_dim <= 64 and prefill_nvidia_64 or prefill_nvidia_128, prefill_nvidia, cramped }
    end
    if decoding then
        lists = { p.seqlen_q == 1 and decode or decode_few, lists[1], cramped }
    end
    local buffers = (decoding or nvidia) and { 2, 1 } or { 1, 2 }
    -- the least estimate at which a default has been seen to spill: decoding shapes on gfx9 and gfx10 with an old compiler
    local comfortable = decoding and not nvidia and 140 or t.registers
    -- on an H200 resident warps hide the loads better than registers do; one warp a row cannot
    local prefetches = nvidia and not decoding and { "off", "registers" } or { "registers", "off" }
    local wanted
    -- first without candidates that a compiler may have to spill, then with them
    for _, list in ipairs(lists) do
        for _, registers in ipairs({ comfortable, t.registers }) do
            for _, lds_type in ipairs(dot2 and { "storage" } or lds_types) do
                for _, entry in ipairs(list) do
                    for index = 0, 7 do -- the three choices that a shape leaves open, the last varying fastest
                        wanted = {
                            index = p.index == "wide" and "wide" or "narrow", exact = "off",
                            multiply = dot2 and "dot2" or "fma", lds_type = lds_type,
                            prefetch = prefetches[1 + index // 4], kv_buffers = buffers[1 + index // 2 % 2],
                            lds_layout = index % 2 == 0 and "padded" or "xor", q_in = "shared", block_q = entry[1],
                            block_k = entry[2], threads = entry[3], tile_q = entry[4], tile_k = entry[5],
                        }
                        if common.allowed(space.constraints, wanted, p, t) and derive(wanted, p, t).registers <= registers then
                            return wanted
                        end
                    end
                end
            end
        end
    end
    return wanted -- none fits: the caller's check gives the reason
end

return space
