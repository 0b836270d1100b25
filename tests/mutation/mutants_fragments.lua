-- mutants_fragments.lua: the mistakes that are planted in expanded attention.forward kernels, of the template fragments.
--
-- Entries as plan.lua has them. Text that has its tiles twice, masked and not, gets a mistake in both.

local plan = dofile(debug.getinfo(1, "S").source:match("^@(.*/)") .. "plan.lua")
local list = {}

local function mutant(entry)
    list[#list + 1] = entry
end

local function causal(_, p) return p.causal ~= "none" end
local function lse(_, p) return p.lse == 1 end
local function dropout(_, p) return p.dropout > 0 end
local function peeled(c) return c.masking == "peeled" end
local function asked(c) return c.masking == "asked" end
local function asynchronous(c) return c.prefetch:find("async", 1, true) ~= nil end
local function staged(c) return asynchronous(c) and c.prefetch ~= "async1" end
local function ahead(c) return c.prefetch == "registers" end
local function by_columns(c) return c.multiply:find("mma_16x8", 1, true) ~= 1 end
local function dot2(c) return c.multiply:find("dot2", 1, true) ~= nil end
local function fma(c) return c.multiply == "fma" end
local function matrix(c) return not dot2(c) and not fma(c) end
local function half_weights(c, p) return p.v_dtype == "f16" and not fma(c) end
local function both(a, b)
    return function(c, p, d) return a(c, p, d) and b(c, p, d) end
end
local function neither(a)
    return function(c, p, d) return not a(c, p, d) end
end
-- replaces a Lua pattern wherever it is
local function every(pattern, replacement)
    return function(text)
        local found
        text, found = text:gsub(pattern, replacement)
        return found > 0 and text or nil
    end
end

-- ---- tiles ----
local walk = "k_begin < keys_end; k_begin += BLOCK_K"
mutant { kind = "last tile dropped", name = "keys: last tile", says = "the loop over the keys ends a tile early",
    edits = { { walk, "k_begin + BLOCK_K < keys_end; k_begin += BLOCK_K" } } }
mutant { kind = "last tile dropped", name = "keys: tile of one key", says = "a last tile that holds one key is left out",
    length_bound = true, edits = { { walk, "k_begin + 1 < keys_end; k_begin += BLOCK_K" } } }
mutant { kind = "last tile dropped", name = "queries: last row", says = "the last row of every block is not written",
    edits = { { "if (row < q_count)", "if (row < q_count - 1)" } } }
mutant { kind = "last tile dropped", name = "keys of the block's last row", where = causal, length_bound = true,
    says = "a block walks over the keys that its first row sees",
    edits = { { "q_begin + q_count - 1 + diagonal)", "q_begin + diagonal)" } } }

-- ---- the rows' reference ----
mutant { kind = "rescale skipped", name = "rescale of o", says = "the output is not scaled when the reference moves",
    length_bound = true,
    rewrite = every("output%[o_fragment%]%[q_fragment%]%[r%] %*= rescale[^;]*;", ";") }
mutant { kind = "rescale skipped", name = "rescale of l", says = "the sum is not scaled when the reference moves", length_bound = true,
    edits = { { "row_sum[q_fragment][i] *= rescale[i];", ";" } } }
mutant { kind = "rescale skipped", name = "inverse", says = "sums are scaled up instead of down", length_bound = true,
    edits = { { "exp2_fast(before - now)", "exp2_fast(now - before)" } } }
mutant { kind = "reference", name = "stays", says = "a reference that has moved is not kept",
    edits = { { "reference[q_fragment][i] = now;", ";" } } }
mutant { kind = "reference", name = "threshold", says = "weights may exceed what an element holds", length_bound = true,
    where = half_weights, rewrite = every("%-reference%) > %d+%.0f;", "-reference) > 40.0f;") }
mutant { kind = "reference", name = "below the maximum", says = "weights lie around 2^-14 and lose their last bits", where = half_weights,
    rewrite = every("fused%(largest, score_scale, %-%d+%.0f%)", "fused(largest, score_scale, 20.0f)") }
mutant { kind = "reference", name = "begins at 0", says = "weights are relative to 2^0 before a row has seen a number",
    edits = { { "reference[q_fragment][i] = NO_REFERENCE;", "reference[q_fragment][i] = 0.0f;" } } }
mutant { kind = "reference", name = "of lanes", says = "each lane goes by its own keys' maximum",
    rewrite = every("largest = maximum%(largest, exchange%(%d+, largest%)%);", ";") }
mutant { kind = "exchange", name = "maximum", says = "the maximum is of lanes of another query",
    rewrite = every("exchange%((%d+), largest%)", function(mask) return "exchange(" .. (mask == "1" and 4 or 1) .. ", largest)" end),
    where = matrix }
mutant { kind = "exchange", name = "sum", says = "a row's sum is that of lanes of another query",
    rewrite = every("exchange%((%d+), sum%)", function(mask) return "exchange(" .. (mask == "1" and 4 or 1) .. ", sum)" end),
    where = matrix }
mutant { kind = "exchange", name = "sum of a lane", says = "a row's sum is that of one lane's keys",
    rewrite = every("sum %+= exchange%(%d+, sum%);", ";") }
mutant { kind = "exchange", name = "weights", where = function(c) return c.p_in == "exchange" end,
    says = "a lane keeps its own weights for the other's place", edits = { { "exchange(16, word)", "word" } } }

-- ---- masks ----
local hidden = "[q_fragment][r] : -INFINITY_FLOAT;"
mutant { kind = "mask off by one", name = "keys: one too many", says = "a query sees the key after its last", length_bound = true,
    edits = { { " < visible ? score", " <= visible ? score" } } }
mutant { kind = "mask off by one", name = "keys: one too few", says = "a query does not see its last key", length_bound = true,
    edits = { { " < visible ? score", " < visible - 1 ? score" } } }
mutant { kind = "mask off by one", name = "causal: the other alignment", where = causal, length_bound = true,
    says = "the diagonal of the other corner",
    rewrite = every("const int diagonal = ([^;]*);", function(value)
        return value == "1" and "const int diagonal = seqlen_k - seqlen_q + 1;" or "const int diagonal = 1;"
    end) }
mutant { kind = "mask off by one", name = "unmasked tile", where = peeled, length_bound = true,
    says = "the first tile that hides keys passes unmasked",
    edits = { { "keys_unmasked / BLOCK_K * BLOCK_K;", "(keys_unmasked + BLOCK_K - 1) / BLOCK_K * BLOCK_K;" } } }
mutant { kind = "mask off by one", name = "tile unasked", where = asked, length_bound = true,
    says = "a tile passes unmasked though its last key is hidden from some row",
    edits = { { "k_begin + BLOCK_K > keys_unmasked)", "k_begin + BLOCK_K > keys_unmasked + BLOCK_K / 2)" } } }
mutant { kind = "mask off by one", name = "queries: a row too many", says = "a row past the last query is written", length_bound = true,
    edits = { { "q_count = minimum(seqlen_q - q_begin, BLOCK_Q)", "q_count = minimum(seqlen_q - q_begin + 1, BLOCK_Q)" } } }
mutant { kind = "mask off by one", name = "head: a piece too few", says = "the row's last piece is not read",
    where = function(_, _, d) return d.tails end,
    edits = { { "byte < TAIL)", "byte < TAIL - PIECE)" } } }
mutant { kind = "0 for -infinity", name = "hidden scores 0", says = "a hidden key's score is 0", length_bound = true,
    edits = { { hidden, "[q_fragment][r] : 0.0f;" } } }
mutant { kind = "0 for -infinity", name = "hidden scores -1e4", says = "a hidden key's score is -1e4", length_bound = true,
    edits = { { hidden, "[q_fragment][r] : -1e4f;" } } }
mutant { kind = "0 for -infinity", name = "rows without keys", says = "a row without keys is divided by its sum", length_bound = true,
    edits = { { "factor = empty ? 0.0f : ", "factor = " } } }
mutant { kind = "0 for -infinity", name = "lse of rows without keys", where = lse, says = "the lse of a row without keys is 0",
    length_bound = true, edits = { { "empty ? -INFINITY_FLOAT : log_denominator", "empty ? 0.0f : log_denominator" } } }

-- ---- operands of the products ----
-- on lines that name an operand, its first two words change places
local function swapped(operand)
    return function(text)
        local found = 0
        text = text:gsub("[^\n]*u32 [ab]%[%d+%] = {[^\n]*", function(line)
            if not line:find(operand, 1, true) then
                return nil
            end
            return (line:gsub("({)([^,}]+), ([^,}]+)", function(open, first, second)
                found = found + 1
                return open .. second .. ", " .. first
            end))
        end)
        return found > 0 and text or nil
    end
end
for _, operand in ipairs { { "k_here", "k" }, { "v_here", "v" }, { "weight_words", "the weights" } } do
    mutant { kind = "operand words", name = operand[2], says = "two words of " .. operand[2] .. " change places",
        where = function(c, p, d) return matrix(c) and (operand[1] ~= "weight_words" or c.p_in ~= "lds") end,
        rewrite = swapped(operand[1]) }
end
mutant { kind = "operand words", name = "q", says = "the first word of q is its second one's", where = both(matrix, function(c) return c.q_in == "registers" end),
    edits = { { "words[0] = chunk[0][0]", "words[0] = chunk[0][1]" } } }
mutant { kind = "operand words", name = "k of a dot product", where = dot2, says = "one word of k is multiplied twice",
    edits = { { "k_here[0][0].word[1], q_", "k_here[0][0].word[0], q_" } } }
mutant { kind = "operand words", name = "v of a dot product", where = dot2, says = "one word of v is multiplied twice",
    edits = { { "v_here[0][0].word[1], p_here", "v_here[0][0].word[0], p_here" } } }
mutant { kind = "operand words", name = "pairs of weights", where = function(c) return c.p_in == "registers" end,
    says = "even and odd keys' weights change places",
    rewrite = every("pack_weights<v_type>%((score%[k_fragment%]%[q_fragment%]%[r%]), (score%[k_fragment%]%[q_fragment%]%[r %+ 1%])%)",
        "pack_weights<v_type>(%2, %1)") }

-- ---- shared memory ----
mutant { kind = "shared memory", name = "phase of k", says = "k is written with another phase of the permutation",
    where = function(c, _, d) return d.K_PITCH % 2 == 0 and not fma(c) end,
    rewrite = every("tile %+ (chunk_at<K_PITCH[^>]*>%([^,]*, column)", "tile + %1 ^ 1") }
mutant { kind = "shared memory", name = "order of keys in a chunk", where = by_columns,
    says = "keys of v stand in another order than the weights", edits = { { "(row_offset)key_of(0, j) * row_bytes", "(row_offset)key_of(0, j ^ 1) * row_bytes" } } }
mutant { kind = "shared memory", name = "order of chunks", where = by_columns, says = "chunks of v stand in another order than the weights",
    edits = { { "int key_of(int chunk, int place) { return", "int key_of(int chunk, int place) { chunk ^= 1; return" } } }
mutant { kind = "shared memory", name = "phase of v", where = by_columns,
    says = "v is written with another phase of the permutation",
    edits = { { "v_permuted(v_row_of(i)) * 4)", "(v_permuted(v_row_of(i)) ^ 1) * 4)" } } }
mutant { kind = "shared memory", name = "wrong buffer", where = function(c) return c.kv_buffers == 2 end, says = "v is read where k is",
    rewrite = every("v_tile %+ ([^;]-v_word)", "k_tile + %1") }
mutant { kind = "shared memory", name = "halves of a word", where = both(by_columns, neither(fma)),
    says = "even and odd columns of v change places",
    rewrite = every("i %% 2 == 0 %? pack_low", "i %% 2 == 1 ? pack_low") }

-- ---- what travels ----
mutant { kind = "prefetch", name = "k of this tile", where = ahead, says = "the tile of k at hand is loaded again", length_bound = true,
    edits = { { "k_rows_here + k_tile_bytes", "k_rows_here" } } }
mutant { kind = "prefetch", name = "v of this tile", where = both(ahead, function(c) return c.kv_buffers == 2 end),
    says = "the tile of v at hand is loaded again", length_bound = true, edits = { { "v_rows_here + v_tile_bytes", "v_rows_here" } } }
mutant { kind = "prefetch", name = "k does not move on", where = asynchronous, says = "every tile of k is the first", length_bound = true,
    edits = { { "k_coming += k_tile_bytes;", ";" } } }
mutant { kind = "prefetch", name = "v does not move on", where = asynchronous, says = "every tile of v is the first", length_bound = true,
    edits = { { "v_coming += v_tile_bytes;", ";" } } }
mutant { kind = "prefetch", name = "stage", where = staged, says = "a tile is read where another one is", length_bound = true,
    edits = { { "stage = stage == STAGES - 1 ? 0 : stage + 1;", "stage = stage == 0 ? STAGES - 1 : stage - 1;" } } }
mutant { kind = "prefetch", name = "a tile too many under way", where = staged, length_bound = true,
    says = "a tile is worked on before its copies are waited for",
    edits = { { "wait_copies<STAGES - 2>", "wait_copies<STAGES - 1>" } } }
mutant { kind = "zero-fill removed", name = "rows past the end are copied", where = asynchronous, length_bound = true,
    says = "a row past the sequence's end is read", edits = { { "from, row < rows", "from, row <= rows" } } }
mutant { kind = "zero-fill removed", name = "rows past the end are read", where = function(c) return not asynchronous(c) and by_columns(c) end,
    length_bound = true, says = "v past the sequence's end is read",
    edits = { { "smaller(first + (row_offset)key_of(0, j) * row_bytes, last)", "first + (row_offset)key_of(0, j) * row_bytes" } } }
mutant { kind = "zero-fill removed", name = "v past the end", where = neither(asynchronous), says = "v past the sequence's end is not zeroed",
    rewrite = every(" = [^;\n]- < rows %? (unit%[step%][^;\n]-) : 0u;", " = %1;"),
    equivalent = "rows past the end repeat the last row, so no foreign value is in the tile, and a weight of 0 silences the finite" }

plan.addresses(mutant)

-- ---- lse ----
mutant { kind = "LSE", name = "base 2", where = lse, says = "lse is log2 of the denominator",
    edits = { { "0.693145752f", "1.0f" }, { "log2_fast(fraction) * 0.693147181f", "log2_fast(fraction)" } } }
mutant { kind = "LSE", name = "without ln(sum)", where = lse, says = "lse is the reference alone",
    rewrite = every("log_denominator%((reference%[q_fragment%]%[i%]), sum%)", "%1 * 0.693147181f") }

-- ---- dropout ----
local function drop(entry)
    entry.kind = "dropout"
    entry.where = entry.where and both(dropout, entry.where) or dropout
    mutant(entry)
end
local drop_row = "(u32)(q_begin + wave_begin"
drop { name = "row", says = "the mask is a row off", edits = { { drop_row, "(u32)(1 + q_begin + wave_begin" } } }
drop { name = "row of the block", says = "rows are counted from the block's first", length_bound = true,
    edits = { { drop_row, "(u32)(wave_begin" } } }
drop { name = "column", says = "the mask is two keys off", edits = { { "const int key = k_begin + ", "const int key = 2 + k_begin + " } } }
drop { name = "column of the tile", says = "keys are counted from the tile's first", length_bound = true,
    edits = { { "const int key = k_begin + ", "const int key = " } } }
drop { name = "head", says = "the mask is a head off", edits = { { "(u32)heads + (u32)head,", "(u32)heads + (u32)head + 1u," } } }
drop { name = "batch", says = "every sequence has the first one's mask",
    edits = { { "(u32)batch_index * (u32)heads + (u32)head,", "(u32)head," } } }
drop { name = "offset", says = "the offset is not counted in", edits = { { "offset_now, (u32)seed_now", "0u, (u32)seed_now" } } }
drop { name = "seed's high word", says = "a seed of 32 bits", edits = { { "(u32)(seed_now >> 32)", "0u" } } }
drop { name = "probability", says = "kept values are dropped", edits = { { "< dropout_threshold ?", ">= dropout_threshold ?" } } }
drop { name = "scale", says = "kept values are not scaled up", edits = { { "dropout_scale / sum", "1.0f / sum" } } }
drop { name = "seed pointer", says = "the seed in device memory is not read", edits = { { "seed_pointer ? *seed_pointer : seed", "seed" } } }

-- ---- precision ----
mutant { kind = "scale", name = "base", says = "exp2 of a score in natural units", edits = { { "scale) * 1.44269504f", "scale)" } } }
mutant { kind = "precision", name = "bf16 sum of weights", says = "the sum of the weights is kept in bf16", where = lse,
    may_pass = function(_, p) return p.o_dtype == "bf16" end,
    rewrite = every("(row_sum%[q_fragment%]%[[^%]]+%]) %+= weight;", "%1 = to_float(from_float<bf16_t>(%1 + weight));") }

return {
    list = list,
    plan = function(text, c, p)
        return plan.plan(list, text, c, p)
    end,
}
