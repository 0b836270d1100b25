-- mutants.lua: the mistakes that are planted in expanded attention.forward kernels, of the template portable.
--
-- Entries as plan.lua has them.

local plan = dofile(debug.getinfo(1, "S").source:match("^@(.*/)") .. "plan.lua")
local list = {}

local function mutant(entry)
    list[#list + 1] = entry
end

local function causal(_, p) return p.causal ~= "none" end
local function bottom_right(_, p) return p.causal == "bottom_right" end
local function lse(_, p) return p.lse == 1 end
local function dropout(_, p) return p.dropout > 0 end
local function splits(_, _, d) return d.KEY_SPLITS > 1 end
local function prefetched(c) return c.prefetch == "registers" end
local function both(a, b)
    return function(c, p, d) return a(c, p, d) and b(c, p, d) end
end

-- ---- tiles ----
mutant { kind = "last tile dropped", name = "keys: last tile", says = "the loop over the keys ends a tile early",
    edits = { { "k_begin < keys_end; k_begin += BLOCK_K", "k_begin + BLOCK_K < keys_end; k_begin += BLOCK_K" } } }
mutant { kind = "last tile dropped", name = "keys: unfilled tile", says = "a last tile that is not full is left out",
    length_bound = true,
    edits = { { "k_begin < keys_end; k_begin += BLOCK_K", "k_begin + BLOCK_K <= keys_end; k_begin += BLOCK_K" } } }
mutant { kind = "last tile dropped", name = "keys: tile of one key", says = "a last tile that holds one key is left out",
    length_bound = true,
    edits = { { "k_begin < keys_end; k_begin += BLOCK_K", "k_begin + 1 < keys_end; k_begin += BLOCK_K" } } }
mutant { kind = "last tile dropped", name = "queries: last tile", says = "rows of the last block of queries are not written",
    edits = { { "if (row >= q_count)", "if (row >= q_count || q_begin + BLOCK_Q >= seqlen_q)" } } }
mutant { kind = "last tile dropped", name = "queries: last row", says = "the last row of every block is not written",
    edits = { { "if (row >= q_count)", "if (row >= q_count - 1)" } } }
mutant { kind = "last tile dropped", name = "keys of the block's last row", where = causal, length_bound = true,
    says = "a block walks over the keys that its first row sees",
    edits = { { "q_begin + q_count - 1 + diagonal)", "q_begin + diagonal)" } },
    equivalent_where = function(_, p, d) return d.BLOCK_Q == 1 or p.causal == "top_left" and d.BLOCK_K >= d.BLOCK_Q end,
    equivalent = "the last key of the block's last row is in the tile of the first row's last key" }
mutant { kind = "last tile dropped", name = "keys of the block's last row but one", where = causal, length_bound = true,
    says = "a block walks over the keys that its last row but one sees",
    edits = { { "q_begin + q_count - 1 + diagonal)", "q_begin + q_count - 2 + diagonal)" } } }

-- ---- rescaling ----
local rescale_o = { "output[i][column] *= rescale;", ";" }
local rescale_l = { "row_sum[i] *= rescale;", ";" }
local merge_o = { "output[i][column] * rescale);", "output[i][column]);" }
local merge_l = { "row_sum[i] * rescale);", "row_sum[i]);" }
mutant { kind = "rescale skipped", name = "rescale of o", says = "the output is not scaled down under a larger maximum",
    length_bound = true, edits = { rescale_o } }
mutant { kind = "rescale skipped", name = "rescale of l", says = "the sum is not scaled down under a larger maximum",
    length_bound = true, edits = { rescale_l } }
mutant { kind = "rescale skipped", name = "rescale of o and l", says = "neither is scaled down under a larger maximum",
    length_bound = true, edits = { rescale_o, rescale_l } }
mutant { kind = "rescale skipped", name = "merge: rescale of o", where = splits, edits = { merge_o },
    says = "merging key splits, the own output is not scaled down" }
mutant { kind = "rescale skipped", name = "merge: rescale of l", where = splits, edits = { merge_l },
    says = "merging key splits, the own sum is not scaled down" }
mutant { kind = "rescale skipped", name = "merge: rescale of o and l", where = splits, edits = { merge_o, merge_l },
    says = "merging key splits, neither is scaled down" }
mutant { kind = "rescale skipped", name = "merge: the other's rescale", where = splits,
    says = "merging key splits, the other's part is not scaled down",
    edits = { { "other_rescale = exp2_fast(other_max - origin)", "other_rescale = other_max > -INFINITY_FLOAT ? 1.0f : 0.0f" } } }

-- ---- masks ----
mutant { kind = "mask off by one", name = "causal: one key too many", where = causal, says = "a query sees the key after its last",
    edits = { { "row_group + ROW_GROUPS * i + diagonal);", "row_group + ROW_GROUPS * i + diagonal + 1);" } } }
mutant { kind = "mask off by one", name = "causal: one key too few", where = causal, says = "a query does not see its last key",
    edits = { { "row_group + ROW_GROUPS * i + diagonal);", "row_group + ROW_GROUPS * i + diagonal - 1);" } } }
mutant { kind = "mask off by one", name = "causal: the other alignment", where = causal,
    says = "the diagonal of the other corner",
    rewrite = function(text)
        local found
        text, found = text:gsub("const int diagonal = ([^;]*);", function(value)
            return value == "1" and "const int diagonal = seqlen_k - seqlen_q + 1;" or "const int diagonal = 1;"
        end)
        return found == 1 and text or nil
    end, length_bound = true }
mutant { kind = "mask off by one", name = "causal: unmasked keys", where = causal, length_bound = true,
    says = "a tile passes unmasked though the block's first query does not see its last key",
    edits = { { "keys_unmasked = minimum(seqlen_k, q_begin + diagonal);", "keys_unmasked = minimum(seqlen_k, q_begin + diagonal + 1);" } },
    equivalent_where = function(_, p, d) return p.causal == "top_left" and d.BLOCK_Q > 1 end,
    equivalent = "top_left: tiles end at multiples of 32, the blocks' first queries are multiples of 4" }
mutant { kind = "mask off by one", name = "keys: unmasked past the end", length_bound = true,
    says = "a tile passes unmasked though its last key is past the sequence's end",
    rewrite = function(text)
        local found, more
        text, found = text:gsub("keys_unmasked = minimum%(seqlen_k, q_begin", "keys_unmasked = minimum(seqlen_k + 1, q_begin")
        text, more = text:gsub("keys_unmasked = seqlen_k;", "keys_unmasked = seqlen_k + 1;")
        return found + more == 1 and text or nil
    end,
    equivalent_where = bottom_right, equivalent = "bottom_right: no query sees past the end by the diagonal alone" }
mutant { kind = "mask off by one", name = "keys: one past the end", length_bound = true,
    says = "the key behind the last is seen",
    rewrite = function(text)
        local found, more
        text, found = text:gsub("visible = minimum%(seqlen_k,", "visible = minimum(seqlen_k + 1,")
        text, more = text:gsub("visible = seqlen_k;", "visible = seqlen_k + 1;")
        return found + more == 1 and text or nil
    end,
    equivalent_where = bottom_right, equivalent = "bottom_right: no query sees past the end by the diagonal alone" }
mutant { kind = "mask off by one", name = "keys: last key hidden", length_bound = true, says = "the last key is not seen",
    rewrite = function(text)
        local found, more
        text, found = text:gsub("visible = minimum%(seqlen_k,", "visible = minimum(seqlen_k - 1,")
        text, more = text:gsub("visible = seqlen_k;", "visible = seqlen_k - 1;")
        return found + more == 1 and text or nil
    end }
mutant { kind = "mask off by one", name = "keys: a row too many", length_bound = true,
    says = "one row past the sequence's end is loaded and its v kept",
    edits = { { "k_count = minimum(seqlen_k - k_begin, BLOCK_K)", "k_count = minimum(seqlen_k - k_begin + 1, BLOCK_K)" } },
    equivalent_where = function(c) return c.prefetch == "registers" and c.kv_buffers == 2 end,
    equivalent = "tiles are loaded by a count of their own: this one zeroes v alone, and rows past the end repeat the last row" }
mutant { kind = "mask off by one", name = "keys: a row too few", length_bound = true,
    says = "the last row of an unfilled tile is not loaded and its v zeroed",
    edits = { { "k_count = minimum(seqlen_k - k_begin, BLOCK_K)", "k_count = minimum(seqlen_k - k_begin > 1 ? seqlen_k - k_begin - 1 : 1, BLOCK_K)" } } }
mutant { kind = "mask off by one", name = "queries: a row too many", says = "a row past the last query is written",
    length_bound = true,
    edits = { { "q_count = minimum(seqlen_q - q_begin, BLOCK_Q)", "q_count = minimum(seqlen_q - q_begin + 1, BLOCK_Q)" } },
    equivalent_where = function(_, _, d) return d.BLOCK_Q == 1 end, equivalent = "a block of one query has no tail" }
mutant { kind = "mask off by one", name = "queries: a row too few", says = "an unfilled block lacks its last query",
    length_bound = true,
    edits = { { "q_count = minimum(seqlen_q - q_begin, BLOCK_Q)",
        "q_count = seqlen_q - q_begin < BLOCK_Q ? seqlen_q - q_begin - 1 : BLOCK_Q" } },
    equivalent_where = function(_, _, d) return d.BLOCK_Q == 1 end, equivalent = "a block of one query has no tail" }
mutant { kind = "mask off by one", name = "head: a piece too many", says = "a piece past the row's last element is read",
    where = function(_, _, d) return d.tails end,
    edits = { { "if (byte < TAIL || !last)", "if (byte < TAIL + PIECE || !last)" } } }
mutant { kind = "mask off by one", name = "head: a piece too few", says = "the row's last piece is not read",
    edits = { { "if (byte < TAIL || !last)", "if (byte < TAIL - PIECE || !last)" } } }
mutant { kind = "mask off by one", name = "head: last chunk of q k", says = "the last 16 bytes of q and k are not multiplied",
    edits = { { "chunk < QK_CHUNKS; ++chunk", "chunk < QK_CHUNKS - 1; ++chunk" } } }
mutant { kind = "mask off by one", name = "head: a column too many", where = function(_, _, d) return d.padded_v end,
    says = "a column past the row's end is written",
    edits = { { "if (column >= HEAD_DIM_V)", "if (column > HEAD_DIM_V)" } } }
mutant { kind = "mask off by one", name = "head: last column", says = "the last column is not written",
    rewrite = function(text)
        local found
        text, found = text:gsub("store_outputs<(%d+)>%(o_rows", "if (column + %1 < HEAD_DIM_V) store_outputs<%1>(o_rows")
        return found == 1 and text or nil
    end }

plan.addresses(mutant)

-- ---- what lies past the ends ----
local clamp = "(row_offset)minimum(row, rows - 1) * row_bytes"
local function in_function(name, text, find, replace)
    local head = text:find("device_function void " .. name .. "(", 1, true)
    if not head then
        return nil
    end
    local tail = text:find("\n}\n", head, true)
    local body = text:sub(head, tail)
    local at, last = body:find(find, 1, true)
    if not at then
        return nil
    end
    return text:sub(1, head - 1) .. body:sub(1, at - 1) .. replace .. body:sub(last + 1) .. text:sub(tail + 1)
end
local function unzeroed(text)
    local found, more
    text, found = text:gsub("([%w%[%]%. +]+) = [%w_]+%(?p?a?i?r?%)?[ +LANES]* < rows %? ([%w%[%]%. +]+) : 0u;", "%1 = %2;")
    return found > 0 and text or nil
end
local repeats = "rows past the end repeat the last row, so no foreign value is in the tile; a weight of 0 silences the finite, and "
    .. "by the contract NaN of a sequence's own last key may reach the rows of its tile"
mutant { kind = "zero-fill removed", name = "v past the end", says = "v past the sequence's end is not zeroed",
    rewrite = unzeroed, equivalent = repeats }
mutant { kind = "zero-fill removed", name = "v past the end, read", says = "v past the sequence's end is read and not zeroed",
    length_bound = true,
    rewrite = function(text)
        text = unzeroed(text)
        return text and in_function("load_v", text, clamp, "(row_offset)row * row_bytes")
    end }
mutant { kind = "zero-fill removed", name = "v past the end, read and zeroed", length_bound = true,
    says = "v past the sequence's end is read, then zeroed",
    rewrite = function(text) return in_function("load_v", text, clamp, "(row_offset)row * row_bytes") end }
mutant { kind = "zero-fill removed", name = "k past the end, read", length_bound = true,
    says = "k past the sequence's end is read, then masked",
    rewrite = function(text) return in_function("load_k", text, clamp, "(row_offset)row * row_bytes") end }
mutant { kind = "zero-fill removed", name = "q past the end, read", length_bound = true,
    says = "q past the last query is read, its rows not written",
    rewrite = function(text, c)
        local find, replace = "(row_offset)minimum(row, q_count - 1)", "(row_offset)row"
        if c.q_in ~= "shared" then
            find, replace = "minimum(row_group + ROW_GROUPS * i, q_count - 1)", "row_group + ROW_GROUPS * i"
        end
        local at, last = text:find(find, 1, true)
        return at and text:sub(1, at - 1) .. replace .. text:sub(last + 1)
    end,
    equivalent_where = function(_, _, d) return d.BLOCK_Q == 1 end, equivalent = "a block of one query has no tail" }
mutant { kind = "zero-fill removed", name = "tail of a row", where = function(_, _, d) return d.tails end,
    says = "a row's last unit is filled up with NaN, not zeros",
    edits = { { "words4 unit = {{0u, 0u, 0u, 0u}};", "words4 unit = {{0x7fc07fc0u, 0x7fc07fc0u, 0x7fc07fc0u, 0x7fc07fc0u}};" } } }

-- ---- minus infinity ----
local initial = "row_max[i] = -INFINITY_FLOAT;"
local hidden = " < visible ? score[i][n] : -INFINITY_FLOAT;"
mutant { kind = "0 for -infinity", name = "initial maximum 0", says = "the running maximum starts at 0",
    edits = { { initial, "row_max[i] = 0.0f;" } } }
mutant { kind = "0 for -infinity", name = "hidden scores 0", says = "a hidden key's score is 0", length_bound = true,
    edits = { { hidden, " < visible ? score[i][n] : 0.0f;" } } }
mutant { kind = "0 for -infinity", name = "rows without keys", says = "a row without keys is divided by its sum",
    length_bound = true,
    rewrite = function(text)
        local found
        text, found = text:gsub("factor = empty %? 0%.0f : ", "factor = ")
        return found == 1 and text or nil
    end }
mutant { kind = "0 for -infinity", name = "lse of rows without keys 0", where = lse, says = "the lse of a row without keys is 0",
    length_bound = true, edits = { { "empty ? -INFINITY_FLOAT : log_denominator", "empty ? 0.0f : log_denominator" } } }
mutant { kind = "0 for -infinity", name = "lse of rows without keys computed", where = lse,
    says = "the lse of a row without keys is computed like another's",
    edits = { { "empty ? -INFINITY_FLOAT : log_denominator", "log_denominator" } },
    equivalent = "the maximum of such a row is -infinity, and what is added to it is finite" }
for _, value in ipairs { "-1e4f", "-65504.0f", "-3.40282347e38f" } do
    mutant { kind = "finite stand-in maximum", name = "initial maximum " .. value, says = "the running maximum starts at " .. value,
        length_bound = value == "-3.40282347e38f", edits = { { initial, "row_max[i] = " .. value .. ";" } } }
    mutant { kind = "finite stand-in maximum", name = "hidden scores " .. value, says = "a hidden key's score is " .. value,
        length_bound = true, edits = { { hidden, " < visible ? score[i][n] : " .. value .. ";" } },
        equivalent_where = function(_, p) return value == "-3.40282347e38f" and p.causal ~= "bottom_right" end,
        equivalent = "every row sees its first key, beside which so small a score weighs nothing" }
end
mutant { kind = "fast-math guard gone", name = "origin of a tile", length_bound = true,
    says = "-infinity - -infinity where a row has seen no key yet",
    edits = { { "origin = tile_max == -INFINITY_FLOAT ? 0.0f : tile_max", "origin = tile_max" } },
    equivalent_where = function(_, p, d) return p.causal ~= "bottom_right" and d.KEY_SPLITS == 1 end,
    equivalent = "a row that is looked at sees its first tile's first key" }
mutant { kind = "fast-math guard gone", name = "merge: origin", where = splits, length_bound = true,
    says = "-infinity - -infinity where no split has seen a key",
    edits = { { "origin = both_max == -INFINITY_FLOAT ? 0.0f : both_max", "origin = both_max" } } }

-- ---- lse ----
mutant { kind = "LSE", name = "base 2", where = lse, says = "lse is log2 of the denominator",
    rewrite = function(text)
        local found, more
        text, found = text:gsub("0%.693145752f", "1.0f")
        text, more = text:gsub("log2_fast%(fraction%) %* 0%.693147181f", "log2_fast(fraction)")
        return found == 1 and more == 1 and text or nil
    end }
mutant { kind = "LSE", name = "without ln(sum)", where = lse, says = "lse is the maximum alone",
    edits = { { ": log_denominator(row_max[i], row_sum[i])", ": row_max[i] * 0.693147181f" } } }
mutant { kind = "LSE", name = "without scale", where = lse, says = "lse is of scores that are not scaled",
    edits = { { ": log_denominator(row_max[i], row_sum[i])", ": log_denominator(row_max[i] / scale, row_sum[i])" } } }
mutant { kind = "LSE", name = "weights' factor", where = function(c, p) return p.lse == 1 and c.multiply == "dot2" and p.v_dtype == "f16" end,
    says = "lse keeps the factor that the weights carry", edits = { { "- 127 - 14)", "- 127)" } } }

-- ---- dropout ----
local function drop(entry)
    entry.kind = entry.kind or "dropout"
    entry.where = entry.where and both(dropout, entry.where) or dropout
    mutant(entry)
end
local drop_row = "(u32)(q_begin + row_group + ROW_GROUPS * i),"
drop { name = "row", says = "the mask is a row off", edits = { { drop_row, "(u32)(q_begin + row_group + ROW_GROUPS * i + 1)," } } }
drop { name = "row of the block", says = "rows are counted from the block's first", length_bound = true,
    edits = { { drop_row, "(u32)(row_group + ROW_GROUPS * i)," } } }
drop { name = "column", says = "the mask is a key off",
    edits = { { "const int first = key + LANES * (group + s);", "const int first = key + LANES * (group + s) + 1;" } } }
drop { name = "column of the tile", says = "keys are counted from the tile's first", length_bound = true,
    edits = { { "const int first = key + LANES * (group + s);", "const int first = key - k_begin + LANES * (group + s);" } } }
drop { name = "halves", says = "even and odd keys take each other's draw",
    edits = { { "lane % 2 ? word >> 16 : word & 0xffffu", "lane % 2 ? word & 0xffffu : word >> 16" } } }
drop { name = "head", says = "the mask is a head off", edits = { { "(u32)heads + (u32)head,", "(u32)heads + (u32)head + 1u," } } }
drop { name = "KV head", where = function(_, _, d) return d.HEAD_RATIO > 1 end, says = "the mask is the KV head's",
    edits = { { "(u32)heads + (u32)head,", "(u32)heads + (u32)kv_head," } } }
drop { name = "batch", says = "every sequence has the first one's mask",
    edits = { { "(u32)batch_index * (u32)heads + (u32)head,", "(u32)head," } } }
drop { name = "offset", says = "the offset is not counted in", edits = { { "offset_now, (u32)seed_now", "0u, (u32)seed_now" } } }
drop { name = "seed's high word", says = "a seed of 32 bits", edits = { { "(u32)(seed_now >> 32)", "0u" } } }
drop { name = "rounds", says = "one Philox round too few", edits = { { "round < 7", "round < 6" } } }
drop { name = "probability", says = "kept values are dropped", edits = { { "draw < dropout_threshold ? weight : 0.0f", "draw >= dropout_threshold ? weight : 0.0f" } } }
drop { name = "scale", says = "kept values are not scaled up", edits = { { "dropout_scale / row_sum[i]", "1.0f / row_sum[i]" } } }
drop { name = "sum", says = "the sum lacks what is dropped",
    edits = { { "weight = draw < dropout_threshold ? weight : 0.0f;",
        "if (draw >= dropout_threshold) { row_sum[i] -= weight; weight = 0.0f; }" } } }
drop { name = "seed pointer", says = "the seed in device memory is not read",
    edits = { { "seed_pointer ? *seed_pointer : seed", "seed" } } }
drop { name = "offset pointer", says = "the offset in device memory is not read",
    edits = { { "offset_pointer ? *offset_pointer : offset", "offset" } } }

-- ---- scale ----
mutant { kind = "scale", name = "twice", says = "scores are scaled twice", edits = { { "score[i][n] *= score_scale;", "score[i][n] *= score_scale * scale;" } } }
mutant { kind = "scale", name = "missing", says = "scores are not scaled", edits = { { "score[i][n] *= score_scale;", "score[i][n] *= 1.44269504f;" } } }
mutant { kind = "scale", name = "base", says = "exp2 of a score in natural units", edits = { { "scale * 1.44269504f", "scale" } } }

-- ---- precision ----
local function rounded_sums(type)
    return function(text)
        local found, more
        text, found = text:gsub("(output%[i%]%[[^\n]-%]) =\n?%s+(fused%b());", "%1 = to_float(from_float<" .. type .. ">(%2));")
        text, more = text:gsub("(output%[i%]%[word%]) = (dot2<v_type>%b());", "%1 = to_float(from_float<" .. type .. ">(%2));")
        return found + more > 0 and text or nil
    end
end
-- an output of bf16 may err by more than 11 bits of mantissa do
local function coarse(_, p) return p.o_dtype == "bf16" end
mutant { kind = "precision", name = "f16 sums of o", says = "the output is summed in f16", may_pass = coarse, rewrite = rounded_sums("half_t") }
mutant { kind = "precision", name = "bf16 sums of o", says = "the output is summed in bf16", rewrite = rounded_sums("bf16_t") }
mutant { kind = "precision", name = "f16 scores", says = "scores are rounded to f16", may_pass = coarse,
    edits = { { "score[i][n] *= score_scale;", "score[i][n] = to_float(from_float<half_t>(score[i][n] * score_scale));" } } }
mutant { kind = "precision", name = "bf16 scores", says = "scores are rounded to bf16",
    edits = { { "score[i][n] *= score_scale;", "score[i][n] = to_float(from_float<bf16_t>(score[i][n] * score_scale));" } } }
mutant { kind = "precision", name = "f16 sum of weights", says = "the sum of the weights is kept in f16",
    may_pass = function(c, p) return coarse(c, p) or p.lse ~= 1 end, -- a lane adds few
    edits = { { "row_sum[i] += score[i][n];", "row_sum[i] = to_float(from_float<half_t>(row_sum[i] + score[i][n]));" } } }
local truncated = "within the contract: what is cut off is less than a unit in the last place, which the bound allows"
mutant { kind = "precision", name = "bf16 truncated", says = "bf16 is cut off instead of rounded",
    where = function(_, p) return p.o_dtype == "bf16" end,
    edits = { { "bits + 0x7fffu + ((bits >> 16) & 1u)", "bits" } }, equivalent = truncated }
mutant { kind = "precision", name = "f16 truncated", says = "f16 is cut off instead of rounded",
    where = function(_, p) return p.o_dtype == "f16" end,
    edits = { { "magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)", "magnitude - 0x38000000u" } },
    equivalent = truncated }

-- ---- shared memory ----
mutant { kind = "shared memory", name = "phase of k", says = "k is written with another phase of the permutation",
    where = function(c, _, d) return c.lds_layout == "xor" and d.K_PITCH > 1 end,
    rewrite = function(text)
        local found
        text, found = text:gsub("tile %+ (chunk_at<K_PITCH>%(row, )([%w* ]+)([ +1]*%))", "tile + %1(%2%3 ^ 1)")
        return found > 0 and text or nil
    end }
mutant { kind = "shared memory", name = "rows of k", says = "k is written a row further", where = function(_, _, d) return true end,
    rewrite = function(text)
        local found
        text, found = text:gsub("tile %+ chunk_at<K_PITCH>%(row, ", "tile + chunk_at<K_PITCH>((row + 1) %% BLOCK_K, ")
        return found > 0 and text or nil
    end }
mutant { kind = "shared memory", name = "pitch of k", says = "k is read with a smaller pitch",
    where = function(c, _, d) return c.lds_layout ~= "xor" and d.K_PITCH > 1 end,
    edits = { { "k_tile + chunk_at<K_PITCH>(split", "k_tile + chunk_at<K_PITCH - 1>(split" } } }
mutant { kind = "shared memory", name = "pitch of the weights", says = "weights are read with a smaller pitch",
    where = function(c, _, d) return c.lds_layout ~= "xor" end,
    edits = { { "p_tile + chunk_at<P_PITCH>(split * BLOCK_Q + row_group + ROW_GROUPS * i, chunk)",
        "p_tile + chunk_at<P_PITCH - 1>(split * BLOCK_Q + row_group + ROW_GROUPS * i, chunk)" } } }
mutant { kind = "shared memory", name = "phase of the weights", says = "weights are read with another phase of the permutation",
    where = function(c, _, d) return c.lds_layout == "xor" and d.P_PITCH > 1 end,
    edits = { { "ROW_GROUPS * i, chunk));\n#pragma unroll\n            for (int step = 0; step < 4", 
        "ROW_GROUPS * i, chunk ^ 1));\n#pragma unroll\n            for (int step = 0; step < 4" } } }
mutant { kind = "shared memory", name = "rows of v", says = "v is read a row further",
    edits = { { "+ 4 * chunk + step) * V_PITCH", "+ 4 * chunk + (step + 1) % 4) * V_PITCH" } } }
mutant { kind = "shared memory", name = "wrong buffer", where = function(c) return c.kv_buffers == 2 end,
    says = "v is read where k is", edits = { { "v_tile + (split * (4", "k_tile + (split * (4" } } }

-- ---- prefetch ----
local next_k = "k_rows_here + BLOCK_K * k_seq_stride * (i64)sizeof(k_type)"
local next_v = "v_rows_here + BLOCK_K * v_seq_stride * (i64)sizeof(v_type)"
local function prefetches_v(c) return c.prefetch == "registers" and c.kv_buffers == 2 end
mutant { kind = "prefetch", name = "k of this tile", where = prefetched, says = "the tile of k at hand is loaded again",
    length_bound = true, edits = { { next_k, "k_rows_here" } } }
mutant { kind = "prefetch", name = "v of this tile", where = prefetches_v, says = "the tile of v at hand is loaded again",
    length_bound = true, edits = { { next_v, "v_rows_here" } } }
mutant { kind = "prefetch", name = "last tile", where = prefetched, says = "the last tile is not loaded ahead", length_bound = true,
    edits = { { "if (k_begin + BLOCK_K < keys_end)", "if (k_begin + 2 * BLOCK_K < keys_end)" } } }
mutant { kind = "prefetch", name = "rows of this tile", where = prefetched, length_bound = true,
    says = "the next tile is loaded with the number of rows of the tile at hand",
    edits = { { "minimum(seqlen_k - k_begin - BLOCK_K, BLOCK_K)", "minimum(seqlen_k - k_begin, BLOCK_K)" } } }
mutant { kind = "prefetch", name = "first tile", where = prefetched, says = "the first tile's rows are not counted", length_bound = true,
    edits = { { "k_row_bytes, minimum(seqlen_k, BLOCK_K), thread)", "k_row_bytes, BLOCK_K, thread)" } } }

-- ---- key splits ----
mutant { kind = "wrong merge", name = "maximum", where = splits, says = "the merge keeps the own maximum",
    edits = { { "both_max = maximum(row_max[i], other_max)", "both_max = row_max[i]" } } }
mutant { kind = "wrong merge", name = "last split", where = splits, says = "the last split is not taken in",
    edits = { { "other < KEY_SPLITS - 1", "other < KEY_SPLITS - 2" } } }
mutant { kind = "wrong merge", name = "sum", where = splits, says = "the other's sum is not taken in",
    edits = { { "fused(bits_float(load_word(slot + 1)), other_rescale, row_sum[i] * rescale)", "row_sum[i] * rescale" } } }
mutant { kind = "wrong merge", name = "columns", where = splits, says = "columns are read in another order than written",
    edits = { { "fused(bits_float(load_word(slot + 2 + lane + LANES * column))",
                "fused(bits_float(load_word(slot + 2 + COLUMNS * lane + column))" } },
    equivalent_where = function(_, _, d) return d.V_VECTORS * d.VECTOR == 1 end, equivalent = "one column a lane: both orders are one" }
mutant { kind = "wrong merge", name = "split's keys", where = splits, says = "every split takes the first one's keys",
    edits = { { "chunk_at<K_PITCH>(split * SPLIT_KEYS + lane", "chunk_at<K_PITCH>(lane" } } }
mutant { kind = "wrong merge", name = "lanes", says = "a row's sum is left with each lane",
    edits = { { "row_sum[i] = group_sum(LANES, row_sum[i]);", ";" } } }
mutant { kind = "wrong merge", name = "lanes' maximum", says = "each lane keeps its own maximum",
    edits = { { "group_maximum(LANES, tile_max)", "tile_max" } } }

-- ---- compiled lengths ----
for _, change in ipairs { { "seqlen_q", 1 }, { "seqlen_q", -1 }, { "seqlen_k", 1 }, { "seqlen_k", -1 } } do
    mutant { kind = "exact lengths", name = string.format("%s %+d", change[1], change[2]),
        where = function(c) return c.exact == "lengths" end, says = "the compiled length is off by one",
        equivalent_where = function(_, p)
            return change[1] == "seqlen_k" and p.causal == "top_left" and p.seqlen_k > p.seqlen_q + 1
        end,
        equivalent = "top_left: no query reaches the last keys",
        rewrite = function(text)
            local found
            text, found = text:gsub("(constexpr int [^\n]*" .. change[1] .. " = )(%d+)([^\n]*// exact=lengths)", function(a, value, b)
                return a .. tostring(tonumber(value) + change[2]) .. b
            end)
            return found == 1 and text or nil
        end }
end

return {
    list = list,
    plan = function(text, c, p)
        return plan.plan(list, text, c, p)
    end,
}
