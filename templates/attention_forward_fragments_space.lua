-- attention_forward_fragments_space.lua: the fragments template's parameters, what rules a candidate out, and the default.

local shape = import("attention_forward_fragments_shape")
local banks = import("attention_forward_fragments_banks")
local instructions = import("instructions")
local common = import("attention_forward_common")
local derive, element_bytes, refuse = shape.derive, common.element_bytes, common.refuse

local space = {}

space.parameters = {
    { name = "index", doc = "width of offsets inside a tile: 32 bits, or 64 when a tile spans 2^31 bytes",
      values = { "narrow", "wide" } },
    { name = "exact", doc = "lengths compiled in: tail checks vanish, the record serves this problem alone",
      values = { "off", "lengths" } },
    { name = "multiply", doc = "instruction that both products are made of", values = instructions.names,
      here = function(p, t)
          local names = {}
          for index, form in ipairs(instructions.forms(t, p.k_dtype)) do
              names[index] = form.name
          end
          return names
      end },
    { name = "prefetch", doc = "how the next tiles travel: not at all; in registers, one or two tiles ahead; k straight to shared "
          .. "memory (AMD); asynchronous copies with 1, 2 or 3 tiles of shared memory (NVIDIA)",
      values = { "off", "registers", "registers2", "direct", "async1", "async2", "async3" } },
    { name = "p_in", doc = "how weights become an operand: they are one, lanes exchange them, or through shared memory",
      values = { "registers", "exchange", "lds" } },
    { name = "q_in", doc = "where a block's queries stay", values = { "registers", "shared" } },
    { name = "kv_buffers", doc = "shared memory for k and v each, or one buffer for both in turn", values = { 2, 1 } },
    { name = "threads", doc = "threads of a block; each wave has its own queries", values = { 64, 128, 256, 512 } },
    { name = "block_q", doc = "queries of a block", values = { 32, 64, 128, 256 } },
    { name = "block_k", doc = "keys of a tile", values = { 32, 64, 96 } },
    { name = "lds_layout", doc = "rows in shared memory: back to back, padded to an odd number of 16-byte chunks or to 64 bytes "
          .. "past a multiple of 128, chunks permuted by row for lanes that read one chunk of eight rows or four of two",
      values = { "row", "pad16", "pad64", "xor1", "xor4" } },
    { name = "masking", doc = "hidden keys: asked of every tile, or tiles that may have some in a loop of their own",
      values = { "asked", "peeled" } },
    { name = "resident", doc = "AMD: waves of a SIMD unit, NVIDIA: blocks of an SM, that the compiler must leave registers for",
      values = { 1, 2, 3 } },
}

-- a corner of the space for values that cannot be expected to pay
local function plain(c)
    return c.prefetch == "registers" and c.masking == "asked" and c.q_in == "registers" and c.resident == 2 and c.block_q == 64
end
local plain_only = "tried only with prefetch=registers, masking=asked, q_in=registers, resident=2, block_q=64"

-- an instruction of the same family and rows that takes more depth at once
local function wider(form, p, t)
    for _, other in ipairs(instructions.forms(t, p.k_dtype)) do
        if other.family == form.family and not form.multiply and other.m == form.m and other.k > form.k then
            return other
        end
    end
end

function space.default_layout(form)
    return form.transposing_loads and "xor4" or "xor1"
end

local function usual_masking(form, t)
    return (form.multiply or t.maker == "nvidia") and "asked" or "peeled"
end

-- the corner for candidates that load a tile and wait for it: it has the default's values, so that naming prefetch=off is enough
-- or nearly so
local function off_only(c, form, t, copies)
    local list = { { "masking", usual_masking(form, t) } }
    if form.multiply then
        local block_q = math.min(math.max(c.block_q, 64), 128)
        list[2], list[3] = { "block_q", block_q }, { "threads", 4 * block_q }
    else
        list[2] = { "block_q", 128 }
    end
    if copies then
        list[#list + 1], list[#list + 2] = { "kv_buffers", 2 }, { "lds_layout", space.default_layout(form) }
    end
    return list
end

-- "name=value, name=value" of such a list
local function settings(list)
    local words = {}
    for index, entry in ipairs(list) do
        words[index] = entry[1] .. "=" .. entry[2]
    end
    return table.concat(words, ", ")
end

-- what makes a candidate's tiles take less shared memory
local function smaller_tiles(c)
    local ways = {}
    if c.block_k > 32 then
        ways[1] = "block_k=32"
    end
    if shape.stages[c.prefetch] > 1 then
        ways[#ways + 1] = "a prefetch with fewer tiles than " .. c.prefetch
    elseif c.kv_buffers == 2 and (c.prefetch == "registers" or c.prefetch == "off") then
        ways[#ways + 1] = "kv_buffers=1"
    end
    if c.q_in == "shared" then
        ways[#ways + 1] = "q_in=registers"
    end
    return #ways == 0 and "a smaller block_q" or table.concat(ways, " or ")
end

-- what makes room for more waves or blocks than `fits`, whichever of the two they lack
local function more_room(c, d, t, fits, by_shared)
    local shared = t.maker == "nvidia" and by_shared or by_shared * c.threads // t.wave // t.simds
    if d.registers <= t.registers and shared <= fits then
        return smaller_tiles(c)
    end
    return "a smaller block_q" .. (c.threads < 512 and " or more threads" or "") .. (c.block_k > 32 and " or block_k=32" or "")
end

space.constraints = {
    { doc = "index=wide where a tile may span 2^31 bytes; elsewhere in a corner only",
      check = function(c, p)
          if p.index == "wide" and c.index ~= "wide" then
              return refuse("the problem has index=wide: 32-bit offsets may not reach its rows")
          elseif p.index ~= "wide" and c.index == "wide" and not plain(c) then
              return refuse("64-bit offsets cannot pay when 32 bits reach every row: " .. plain_only)
          end
          return true
      end },
    { doc = "the target has the instruction for these types",
      check = function(c, p, t)
          local form, reason = shape.form(c, p, t)
          if not form then
              return false, reason
          end
          local first = instructions.forms(t, p.k_dtype)[1]
          if c.multiply == "fma" and first.name ~= "fma" and not plain(c) then
              return refuse("fp32 multiply-adds cannot pay where there is %s: " .. plain_only, first.name)
          elseif string.starts_with(c.multiply, "dot2") and first.family ~= "dot2" and not plain(c) then
              return refuse("dot2 cannot pay where there is %s: " .. plain_only, first.name)
          elseif wider(form, p, t) and not plain(c) then
              return refuse("%s multiplies twice as much at once: " .. plain_only, wider(form, p, t).name)
          elseif c.lds_layout == "pad16" and (c.masking ~= "peeled" or c.kv_buffers ~= 2) and not plain(c) then
              return refuse("lds_layout=pad16 only takes more shared memory than xor1: tried only with masking=peeled, kv_buffers=2")
          elseif c.exact == "lengths" and (c.masking ~= "asked" or c.block_q ~= 128 or c.block_k ~= 64
                  or c.lds_layout ~= space.default_layout(form)) then
              return refuse("compiled lengths only remove tail checks: tried only with masking=asked, block_q=128, block_k=64, "
                  .. "lds_layout=%s", space.default_layout(form))
          end
          return true
      end },
    { doc = "weights go the shortest way that the instruction's layouts allow",
      check = function(c, p, t)
          local f = instructions.fragment(shape.form(c, p, t))
          if c.p_in ~= f.route and c.p_in ~= "lds" then
              return refuse("p_in=%s: the layouts of %s ask for %s", c.p_in, c.multiply, f.route)
          elseif c.p_in ~= f.route and (shape.form(c, p, t).transposing_loads or not plain(c)) then
              return refuse("p_in=lds when %s do: " .. plain_only .. ", where v is read by columns", f.route)
          end
          return true
      end },
    { doc = "waves, fragments and tiles divide evenly",
      check = function(c, p, t)
          local f = instructions.fragment(shape.form(c, p, t))
          if c.threads % t.wave ~= 0 then
              return refuse("threads=%d is not a multiple of the wave of %d", c.threads, t.wave)
          end
          local waves = c.threads // t.wave
          if c.block_q % (waves * f.queries) ~= 0 then
              return refuse("block_q=%d is not a multiple of %d waves' fragments of %d queries", c.block_q, waves, f.queries)
          elseif c.block_q // (waves * f.queries) > 4 then
              return refuse("%d fragments of %d queries for a wave: more than 4", c.block_q // (waves * f.queries), f.queries)
          elseif c.block_k % f.tile_keys ~= 0 then
              return refuse("block_k=%d is not a multiple of %d keys, which %s takes together", c.block_k, f.tile_keys, c.multiply)
          end
          return true
      end },
    { doc = "the target has the means of prefetch, and what travels needs no conversion",
      check = function(c, p, t)
          local async = string.starts_with(c.prefetch, "async")
          if c.kv_buffers == 1 and c.prefetch ~= "off" and c.prefetch ~= "registers" then
              return refuse("kv_buffers=1 lets k and v travel in turn: prefetch=%s moves them together", c.prefetch)
          elseif async and t.async_copy == 0 then
              return refuse("prefetch=%s: %s has no asynchronous copies to shared memory", c.prefetch, t.name)
          elseif c.prefetch == "direct" and t.direct_lds == 0 then
              return refuse("prefetch=direct: %s has no loads from global to shared memory", t.name)
          elseif t.async_copy > 0 and c.prefetch == "registers2" then
              return refuse("prefetch=registers2: asynchronous copies do the same without registers")
          end
          local form = shape.form(c, p, t)
          local copies = t.async_copy > 0 and form.transposing_loads and p.alignment == 16 and p.head_dim_qk % 8 == 0
              and p.head_dim_v % 8 == 0
          if copies and not async and c.prefetch ~= "off" and not plain(c) then
              return refuse("prefetch=%s: asynchronous copies keep registers free: " .. plain_only, c.prefetch)
          elseif c.prefetch == "off" then
              -- rows so long that nothing else leaves registers
              local more_would_fit = c.block_k > 32 or derive(c, p, t).shared_bytes * 128 // c.block_q <= t.lds_bytes
              local long = not copies and c.masking == "peeled" and (c.block_q == 128 or not more_would_fit)
              local wanted = off_only(c, form, t, copies)
              for _, entry in ipairs(long and {} or wanted) do
                  if c[entry[1]] ~= entry[2] then
                      return refuse("prefetch=off leaves the loads' latency open: tried only with %s", settings(wanted))
                  end
              end
          end
          if async or c.prefetch == "direct" then
              if form.bytes ~= element_bytes(p.k_dtype) or async and not form.transposing_loads then
                  return refuse("prefetch=%s moves bytes as they are: multiply=%s wants them converted or transposed", c.prefetch,
                      c.multiply)
              end
              local d = derive(c, p, t)
              if async and (d.k_piece < 16 or d.v_piece < 16 or d.k_tail < 16 or d.v_tail < 16) then
                  return refuse("prefetch=%s copies 16 bytes at a time: rows of head_dim_qk=%d, head_dim_v=%d with alignment=%d "
                      .. "are not made of them", c.prefetch, p.head_dim_qk, p.head_dim_v, p.alignment)
              elseif c.prefetch == "direct" then
                  if d.k_piece < t.direct_lds or d.k_tail < 16 or d.k_units ~= d.k_real then
                      return refuse("prefetch=direct fills whole rows of %d chunks: head_dim_qk=%d with alignment=%d does not",
                          d.k_units, p.head_dim_qk, p.alignment)
                  elseif d.k_pitch ~= d.k_units then
                      return refuse("prefetch=direct writes neighbouring words: lds_layout=%s leaves gaps", c.lds_layout)
                  elseif c.block_k * d.k_pitch * 16 % (c.threads * t.direct_lds) ~= 0 then
                      return refuse("prefetch=direct: a tile of %d bytes is not a multiple of %d threads' %d bytes",
                          c.block_k * d.k_pitch * 16, c.threads, t.direct_lds)
                  end
              end
          end
          return true
      end },
    { doc = "layouts whose inner reads are without conflicts under the target's rule of banks; others in a corner",
      check = function(c, p, t)
          local form = shape.form(c, p, t)
          local only = form.transposing_loads and c.lds_layout ~= "xor4" and "xor4"
              or not form.transposing_loads and c.lds_layout ~= "xor1" and c.lds_layout ~= "pad16" and "xor1 and pad16"
          if plain(c) then
              return true
          elseif only then
              return refuse("lds_layout=%s: made for other reads than those of %s, which %s are for: " .. plain_only, c.lds_layout,
                  c.multiply, only)
          elseif form.transposing_loads then
              return true
          end
          local d = derive(c, p, t)
          local k_reads, v_reads = banks.k_reads(d, t), banks.v_reads(d, t)
          if math.max(k_reads, v_reads) > 1 then
              return refuse("lds_layout=%s: of the lanes that are served together %d meet in a bank when %s is read: " .. plain_only,
                  c.lds_layout, math.max(k_reads, v_reads), k_reads > 1 and "k" or "v")
          end
          return true
      end },
    { doc = "shared memory, registers and code fit",
      check = function(c, p, t)
          local d = derive(c, p, t)
          if d.shared_bytes > t.lds_bytes then
              return refuse("shared memory: %d bytes, the target has %d: take %s", d.shared_bytes, t.lds_bytes, smaller_tiles(c))
          elseif c.q_in == "registers" and d.q_registers > 64 then
              return refuse("q_in=registers: %d registers for the wave's %d queries, more than 64", d.q_registers, d.wave_q)
          elseif c.q_in == "shared" and d.q_registers <= 32 and not (t.maker == "amd" and d.form.multiply) then
              return refuse("q_in=shared: %d registers would hold the wave's %d queries", d.q_registers, d.wave_q)
          end
          local units = math.max(d.k_steps, d.v_steps)
          if t.maker == "nvidia" and units > 16 then
              return refuse("a thread moves %d units of a tile: their addresses take the registers; at most 16", units)
          end
          local fits, by_shared = shape.residency(d, c, t)
          local own = t.maker == "amd" and c.threads // (t.wave * t.simds) or 0 -- waves of one block on each SIMD unit
          if fits < 1 then
              return refuse("registers: about %d a lane, %d bytes of shared memory: no block of %d threads fits (%d registers a "
                  .. "lane, %d bytes): take %s", d.registers, d.shared_bytes, c.threads, t.registers, t.unit_lds_bytes,
                  more_room(c, d, t, fits, by_shared))
          elseif c.resident > fits then
              return refuse("resident=%d: about %d registers a lane and %d bytes of shared memory leave %d: take resident=%d or "
                  .. "%s", c.resident, d.registers, d.shared_bytes, fits, fits, more_room(c, d, t, fits, by_shared))
          elseif c.resident < math.min(fits, 4) - (t.maker == "nvidia" and 0 or 1) then
              return refuse("resident=%d leaves registers unused: %d fit: take resident=%d", c.resident, fits, math.min(fits, 3))
          elseif c.resident < math.min(own, fits, 3) then
              return refuse("resident=%d: a block of %d threads has %d waves on each SIMD unit, so the compiler leaves registers for them "
                  .. "anyway: take resident=%d", c.resident, c.threads, own, math.min(own, fits, 3))
          elseif by_shared * c.threads < t.simds * t.wave and c.threads >= 128 then
              return refuse("%d bytes of shared memory: too few waves for %d SIMD units", d.shared_bytes, t.simds)
          end
          if c.kv_buffers == 1 then
              local double = d.shared_bytes + math.min(d.k_stage_words, d.v_stage_words) * 4
              -- k and v that travel together take registers for both, and the estimate is no more than that
              local together = d.registers + (c.prefetch == "registers" and math.min(d.k_steps * 4, d.v_move_words) or 0)
              if double * by_shared <= t.unit_lds_bytes and double <= t.lds_bytes and together <= t.registers - t.registers // 8 then
                  return refuse("one buffer for k and v: %d bytes instead of %d, but no further block fits", d.shared_bytes, double)
              end
          end
          return true
      end },
    { doc = "enough work for each tile",
      check = function(c, p, t)
          local d = derive(c, p, t)
          if c.block_q < 64 and d.shared_bytes * 128 // c.block_q <= t.lds_bytes then
              return refuse("block_q=%d: each tile is fetched for few queries, and more would fit", c.block_q)
          elseif t.maker == "amd" and c.masking ~= usual_masking(d.form, t)
                  and (c.prefetch ~= "registers" or c.lds_layout ~= space.default_layout(d.form) or c.threads ~= 256) then
              return refuse("masking=%s: tried only with prefetch=registers, lds_layout=%s, threads=256", c.masking,
                  space.default_layout(d.form))
          elseif t.maker == "amd" and c.lds_layout ~= space.default_layout(d.form) and c.prefetch ~= "registers" then
              return refuse("lds_layout=%s: tried only with prefetch=registers", c.lds_layout)
          elseif c.block_q * c.block_k < 2048 then
              return refuse("block_q * block_k = %d: below 2048 the barriers cost more than the tile", c.block_q * c.block_k)
          end
          return true
      end },
}

-- Shapes from most to least wanted: {block_q, block_k, threads}
local shapes = {
    mma_sync = { { 128, 64, 128 }, { 128, 64, 256 }, { 128, 32, 256 }, { 64, 64, 128 }, { 64, 32, 128 } },
    mma_sync_128 = { { 128, 32, 128 }, { 128, 64, 256 }, { 128, 32, 256 }, { 64, 64, 128 }, { 64, 32, 128 } }, -- heads of over 64
    mma_sync_256 = { { 128, 64, 256 }, { 64, 64, 128 }, { 128, 32, 256 }, { 64, 32, 128 } }, -- heads of over 128
    mfma = { { 128, 64, 256 }, { 64, 64, 256 }, { 64, 32, 256 }, { 128, 32, 256 } },
    wmma_gfx11 = { { 128, 64, 256 }, { 64, 64, 128 }, { 64, 32, 128 } },
    wmma_gfx12 = { { 128, 64, 256 }, { 64, 64, 128 }, { 64, 32, 128 } },
    dot2 = { { 64, 64, 256 }, { 128, 64, 512 }, { 64, 32, 256 }, { 64, 64, 128 }, { 64, 32, 128 } },
}
local prefetches = { -- where no shape does with the first kinds, the last
    nvidia = { { "async3", "async2", "async1", "registers" }, { "off" } },
    amd = { { "registers" }, { "off" } },
}

-- A default must not spill, whichever compiler makes it: registers stay free of the estimate, as many as objects of all head sizes
-- have been seen to need.
local function comfortable(c, p, t, least)
    local d = derive(c, p, t)
    if least == 0 then
        return true
    elseif t.maker == "nvidia" then
        -- rows longer than 128 take addresses, and what travels between their products finds all registers taken
        local long, between = d.depth_chunks > 16, c.prefetch == "async1" or c.prefetch == "registers"
        local limit = math.min(t.registers, t.unit_registers // (c.resident * c.threads))
        return c.resident * c.threads // (t.wave * t.simds) >= least and d.registers <= limit - limit // (long and (c.prefetch == "off" and 7 or 6) or 10)
            and not (long and between)
    elseif c.resident < least then
        return false
    end
    local limit = shape.lane_registers(c, t)
    local family, needed = d.form.family, d.registers
    local other = c.kv_buffers == 1 and math.min(d.k_steps * 4, d.v_move_words) or 0 -- k and v in turn may overlap
    if family == "wmma_gfx11" then -- both halves of a wave hold the operands
        needed = needed + (c.q_in == "registers" and d.q_registers or 0) + other
    elseif family == "mfma" then
        needed = needed + other
    elseif d.form.multiply then
        local uneven = d.depth_chunks & d.depth_chunks - 1 ~= 0 and 6 or 0 -- such rows' chunks are found by multiplying
        return needed + other // 2 + uneven <= limit
    end
    local part = family == "mfma" and t.accumulators == "shared" and (d.depth_chunks > 16 and 4 or 5) or 8
    return needed <= limit - limit // part
end

-- the first choice of that shape, of these kinds of prefetch, that leaves registers for `least` waves or more; nil: none
local function default_of(form, entry, kinds, least, p, t)
    local long = math.max(p.head_dim_qk, p.head_dim_v) > 128 -- loads may have to wait for the products' registers
    for _, prefetch in ipairs(kinds) do
        for choice = 0, 3 do
            for resident = 3, 1, -1 do
                local wanted = {
                    index = p.index == "wide" and "wide" or "narrow", exact = "off", multiply = form.name,
                    prefetch = prefetch, p_in = instructions.fragment(form).route,
                    q_in = choice % 2 == (form.family == "dot2" and 1 or 0) and "registers" or "shared",
                    kv_buffers = 2 - choice // 2, threads = entry[3], block_q = entry[1], block_k = entry[2],
                    lds_layout = space.default_layout(form),
                    masking = long and prefetch == "off" and "peeled" or usual_masking(form, t),
                    resident = resident,
                }
                if common.allowed(space.constraints, wanted, p, t) and comfortable(wanted, p, t, least) then
                    return wanted
                end
            end
        end
    end
end

function space.default(p, t)
    local form = instructions.forms(t, p.k_dtype)[1]
    local list = shapes[form.family]
    local longest = math.max(p.head_dim_qk, p.head_dim_v)
    if form.family == "mma_sync" and longest > 64 then
        list = longest > 128 and shapes.mma_sync_256 or shapes.mma_sync_128
    end
    -- first with as many waves as hide latencies, then with any
    for _, least in ipairs { 2, 1, 0 } do
        for _, kinds in ipairs(prefetches[t.maker]) do
            for _, entry in ipairs(list) do
                local found = default_of(form, entry, kinds, least, p, t)
                if found then
                    return found
                end
            end
        end
    end
end

-- whether the template is for this problem: prefill on a target with an instruction better than multiply-adds
function space.supports(p, t)
    if t.name == "host" then
        return false, "the plain host has no instruction of its own: --target names whose it emulates"
    end
    local form = instructions.forms(t, p.k_dtype)[1]
    if form.name == "fma" then
        return false, t.name .. " has neither matrix instructions nor dot2 for " .. p.k_dtype .. ", only fma: the portable template serves it"
    elseif p.q_dtype ~= p.k_dtype or p.v_dtype ~= p.k_dtype then
        return false, form.name .. " takes q, k and v of one type; they are " .. p.q_dtype .. ", " .. p.k_dtype .. ", " .. p.v_dtype
    elseif p.seqlen_q <= 4 then
        return false, "seqlen_q=" .. p.seqlen_q .. " fills no fragment: the portable template decodes"
    elseif not space.default(p, t) then
        return false, "no tile of " .. form.name .. " with head_dim_qk=" .. p.head_dim_qk .. ", head_dim_v=" .. p.head_dim_v
            .. " fits " .. t.lds_bytes .. " bytes of shared memory and " .. t.registers .. " registers"
    end
    return true
end

return space
