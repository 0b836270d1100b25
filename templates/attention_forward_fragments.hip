% local kernel = import("kernel")
% local parts = import("attention_parts")
% local instructions = import("instructions")
% local shape = import("attention_forward_fragments_shape")
% local banks = import("attention_forward_fragments_banks")
% local T, f, form, linear = kernel.types, d.f, d.form, instructions.linear
% local keys_first, bytes = f.keys_first, form.bytes
% local row_words = f.row_elements // f.per_word
% -- a lane's rows of a fragment of q and k, by i
% local q_row_offset = linear(function(i) return f.q.rows[i + 1].offset end, #f.q.rows, "i")
% local k_row_offset = linear(function(i) return f.k.rows[i + 1].offset end, #f.k.rows, "i")
% local q_row = "(" .. f.q.row_text .. ") + " .. q_row_offset
% local outer = d.qk_unroll < d.steps and "outer + " or ""
// Flash attention, forward: o = softmax(scale q k^T) v without ever holding the score matrix (Dao et al., 2022).
//
// A block works on BLOCK_Q queries of one head, each wave on WAVE_Q of them, and walks over the keys in tiles of BLOCK_K, which
// it brings to shared memory. Both products are made of ${form.name}:
% if keys_first then
// S^T = K Q^T, then O^T = V^T P^T: a lane's scores, weights and outputs belong to the same queries.
% else
// S = Q K^T, then O = P V: a lane's scores, weights and outputs belong to the same queries.
% end
% if c.p_in == "registers" then
// The scores of the first product are laid out as an operand of the second: weights never leave the lane.
% elseif c.p_in == "exchange" then
// Lanes l and l ^ ${f.masks[1]} have different keys of the same query: they exchange weights to form an operand of the second product.
% else
// Weights go through shared memory to become an operand of the second product.
% end

// the problem
constexpr int HEAD_DIM_QK = ${p.head_dim_qk}, HEAD_DIM_V = ${p.head_dim_v};
constexpr int HEAD_RATIO = ${p.head_ratio};  // query heads for each key/value head
// the candidate
constexpr int WAVE = ${t.wave}, THREADS = ${c.threads};
constexpr int BLOCK_Q = ${c.block_q}, BLOCK_K = ${c.block_k}, WAVE_Q = ${d.wave_q};
// positions are of type int: lengths end 2^16 before 2^31, and no step past a length is longer than a tile
static_assert(BLOCK_Q < 65536 && BLOCK_K < 65536, "tiles of 2^16 rows and more overflow positions");
// fragments of scores are KEYS x QUERIES; a lane holds ELEMENTS of one, of ROWS queries
constexpr int KEYS = ${f.keys}, QUERIES = ${f.queries}, ELEMENTS = ${f.elements}, ROWS = ${f.rows};
constexpr int K_FRAGMENTS = ${d.k_fragments}, Q_FRAGMENTS = ${d.q_fragments}, O_FRAGMENTS = ${d.o_fragments};
constexpr int Q_ROWS = ${#f.q.rows}, K_ROWS = ${#f.k.rows};  // rows of q and k that a lane brings to one multiply
constexpr int STEPS = ${d.steps}, GROUPS = ${f.groups}, LANE_CHUNKS = ${f.lane_chunks};  // a row in steps of GROUPS * LANE_CHUNKS chunks
// shared memory, in chunks of 16 bytes
constexpr int K_PITCH = ${d.k_pitch}, V_PITCH = ${d.v_pitch};  // from row to row
% if d.q_rows_in_shared then
constexpr int Q_PITCH = ${d.q_pitch};
% end
% if c.p_in == "lds" then
constexpr int P_PITCH = ${d.p_pitch};
% end
% if d.stages > 1 then
constexpr int STAGES = ${d.stages}, K_STAGE = ${d.k_stage_words}, V_STAGE = ${d.v_stage_words};  // words
% end
// a row in global memory is read in units of 16 bytes, each in pieces as wide as the alignment allows
constexpr int K_UNITS = ${d.k_units}, K_STEPS = ${d.k_steps}, V_UNITS = ${d.v_units}, V_STEPS = ${d.v_steps};

typedef ${T[p.q_dtype].name} q_type;
typedef ${T[p.k_dtype].name} k_type;
typedef ${T[p.v_dtype].name} v_type;
typedef ${T[p.o_dtype].name} o_type;
% if c.index == "narrow" then
typedef u32 row_offset;  // bytes from a tile's base: the launch descriptor's limits keep a tile's span below 2^31
% else
typedef i64 row_offset;
% end
device_function row_offset smaller(row_offset a, row_offset b) { return a < b ? a : b; }
// an offset from which others are computed anew for every tile: held in registers they would leave too few for the products
% if c.index == "narrow" then
device_function row_offset fresh(row_offset offset) { return (row_offset)opaque((int)offset); }
% else
device_function row_offset fresh(row_offset offset) { return offset; }
% end

// Word at which chunk `chunk` of a row begins. Neighbouring lanes read neighbouring rows.
% if d.xor then
// Rows that would meet the same banks have their chunks permuted differently, among the largest power of two that divides the
// pitch.
% end
template <int PITCH> device_function int chunk_at(int row, int chunk)
{
% if d.xor then
    constexpr int among = (PITCH & -PITCH) < ${d.across} ? PITCH & -PITCH : ${d.across};  // ${d.across} chunks reach across the banks
%   if c.lds_layout == "xor4" then
    // neighbouring rows lie four chunks apart: lanes that read four chunks of two rows meet different banks
    const int permuted = among == 8 ? (row & 1) << 2 | (row & 2) | (row >> 2 & 1) : row / (8 / among);
%   else
    const int permuted = row / (${d.across} / among);
%   end
    return (row * PITCH + (chunk ^ (permuted & (among - 1)))) * 4;
% else
    return (row * PITCH + chunk) * 4;
% end
}
% if not d.v_rows then
%   local turns = ""
%   for _, turn in ipairs(banks.v_turns(d, t)) do
%       turns = turns .. " ^ (row >> " .. turn[1] .. " & 1)" .. (turn[2] > 1 and " * " .. turn[2] or "")
%   end
// The same for v, whose rows are columns${turns ~= "" and ": a wave writes other rows at once than it reads" or ""}.
constexpr int V_AMONG = ${d.v_among};
device_function int v_permuted(int row) { return (row / (${d.across} / V_AMONG)${turns}) & (V_AMONG - 1); }
device_function int v_chunk_at(int row, int chunk) { return (row * V_PITCH + (chunk ^ v_permuted(row))) * 4; }
% else
device_function int v_chunk_at(int row, int chunk) { return chunk_at<V_PITCH>(row, chunk); }
% end
% local q_at = form.multiply and "row_chunk_at<Q_PITCH>" or "chunk_at<Q_PITCH>"
% local p_at = form.multiply and "row_chunk_at<P_PITCH>" or "chunk_at<P_PITCH>"
% if form.multiply and (d.q_rows_in_shared or c.p_in == "lds") then
%   if d.swap_rows then
// The same where the lanes that are served together read one and the same chunk of two rows: one of them has neighbours swapped.
template <int PITCH> device_function int row_chunk_at(int row, int chunk)
{
    return (row * PITCH + (PITCH % 2 == 0 ? chunk ^ (row / ${d.swap_rows} & 1) : chunk)) * 4;
}
%   else
// The same where the lanes that are served together read one and the same chunk.
template <int PITCH> device_function int row_chunk_at(int row, int chunk) { return (row * PITCH + chunk) * 4; }
%   end
% end
% local k_at = "chunk_at<K_PITCH>"

// One unit of WORDS words of a row. The last real unit of a row holds TAIL bytes; nothing past them is read, zeros take their
// place, and that of units past it.
template <int WORDS, int PIECE, int TAIL> device_function void load_unit(u32 *word, const char *address, int from_last)
{
#pragma unroll
    for (int i = 0; i < WORDS; ++i)
        word[i] = 0u;
#pragma unroll
    for (int byte = 0; byte < 4 * WORDS; byte += PIECE)
        if (from_last < 0 || (from_last == 0 && byte < TAIL)) {
            if constexpr (PIECE >= 4)
                load_words<PIECE / 4>(word + byte / 4, address + byte);
            else
                word[byte / 4] |= (u32) * (const u16 *)(address + byte) << byte % 4 * 8;
        }
}
% local widened = d.widen_q or d.widen_k
% if widened then
// A unit of 16-bit elements becomes two chunks of fp32.
template <class T> device_function void widen(const u32 *unit, u32 *chunk)
{
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        chunk[2 * i] = float_bits(low_element<T>(unit[i]));
        chunk[2 * i + 1] = float_bits(high_element<T>(unit[i]));
    }
}
% end
% local function store_unit(at, type, wide)
%   if wide then
    u32 chunk[8];
    widen<${type}>(unit, chunk);
    store_words<4>(tile + ${at}(row, 2 * column), chunk);
    store_words<4>(tile + ${at}(row, 2 * column + 1), chunk + 4);
%   else
    store_words<4>(tile + ${at}(row, column), unit);
%   end
% end
device_function void store_k_unit(u32 *tile, int row, int column, const u32 *unit)
{
% store_unit(k_at, "k_type", d.widen_k)
}
% if d.q_rows_in_shared then
device_function void store_q_unit(u32 *tile, int row, int column, const u32 *unit)
{
% store_unit(q_at, "q_type", d.widen_q)
}
% end
% -- where unit number `step` of a thread lies: rows a whole number of threads apart keep their column
% local function place(units)
%   if c.threads % units == 0 then
        const int row = thread / ${units} + ${c.threads // units} * step, column = thread % ${units};
%   else
%     if d.scarce then
        const int index = opaque(thread) + THREADS * step;  // divided anew for every tile
%     else
        const int index = thread + THREADS * step;
%     end
        const int row = index / ${units}, column = index % ${units};
%   end
% end
% -- how far a unit is from a row's last: known when all units are whole and real
% local function from_last(column, real, units, tail, bytes)
%   return real == units and tail == bytes and "-1" or column .. " - " .. real - 1
% end
% local direct, async = c.prefetch == "direct", d.asynchronous
% local k_moves = not direct and not async
% local v_moves = not async
% local function loads(name, units, real, piece, tail)
%   local even = c.threads % units == 0
%   -- threads beyond the tile's units repeat its last row: offsets of 32 bits reach two tiles, and no further
%   local first_row = "thread / " .. units
%   if c.threads // units > c.block_k then
%       first_row = "minimum(" .. first_row .. ", BLOCK_K - 1)"
%   end
// A thread's units of a tile of ${name} on their way from global memory: rows past the sequence's end repeat its last row, since no
// address outside the tensor may be read.
device_function void load_${name}(u32 (&unit)[${name == "k" and "K" or "V"}_STEPS][4], const char *tile, row_offset row_bytes, int rows, int thread)
{
%   if even then
    const row_offset first = fresh((row_offset)(${first_row}) * row_bytes + (row_offset)(thread % ${units} * 16));
    const row_offset last = (row_offset)(rows - 1) * row_bytes + (row_offset)(thread % ${units} * 16);
%   end
#pragma unroll
    for (int step = 0; step < ${name == "k" and "K" or "V"}_STEPS; ++step) {
%   if even then
        const int column = thread % ${units};
        load_unit<4, ${piece}, ${tail}>(unit[step], tile + smaller(first + (row_offset)(${c.threads // units} * step) * row_bytes, last),
            ${from_last("column", real, units, tail, 16)});
%   else
% place(units)
        load_unit<4, ${piece}, ${tail}>(unit[step], tile + ((row_offset)minimum(row, rows - 1) * row_bytes + (row_offset)(column * 16)),
            ${from_last("column", real, units, tail, 16)});
%   end
    }
}
% end
% if k_moves then
% loads("k", d.k_units, d.k_real, d.k_piece, d.k_tail)
device_function void store_k(const u32 (&unit)[K_STEPS][4], u32 *tile, int thread)
{
#pragma unroll
    for (int step = 0; step < K_STEPS; ++step) {
% place(d.k_units)
        if (BLOCK_K * K_UNITS % THREADS == 0 || row < BLOCK_K)
%   if c.threads % d.k_units == 0 and c.threads // d.k_units % d.across == 0 and not d.widen_k then
            store_words<4>(tile + ${k_at}(thread / ${d.k_units}, column) + step * (${c.threads // d.k_units} * 4 * K_PITCH), unit[step]);
%   else
            store_k_unit(tile, row, column, unit[step]);
%   end
    }
}
% end
% if v_moves and d.v_rows then
% loads("v", d.v_units, d.v_real, d.v_piece, d.v_tail)
device_function void store_v(u32 (&unit)[V_STEPS][4], u32 *tile, int rows, int thread)
{
#pragma unroll
    for (int step = 0; step < V_STEPS; ++step) {
% place(d.v_units)
        if (rows < BLOCK_K) {  // a weight of 0 does not silence what lies past the sequence's end: 0 * NaN is NaN
#pragma unroll
            for (int word = 0; word < 4; ++word)
                unit[step][word] = row < rows ? unit[step][word] : 0u;
        }
        if (BLOCK_K * V_UNITS % THREADS == 0 || row < BLOCK_K)
            store_words<4>(tile + v_chunk_at(row, column), unit[step]);
    }
}
% elseif v_moves then
% local chunk_text = linear(function(x) return f.chunk_key(x, 0) end, d.v_chunks, "chunk")
% -- an odd number of units takes as many registers to divide by as k's does
% local v_thread = d.scarce and d.v_run == 1 and d.v_units > 1 and "opaque(thread)" or "thread"
% local key_text = linear(function(x) return f.chunk_key(0, x) - f.chunk_key(0, 0) end, f.chunk, "place")
% local place_text = linear(function(x) return f.column_place(x, d.together) end, d.v_lds_rows, "column")
// v goes to shared memory with its columns as rows, a chunk's keys side by side in the order in which the lanes hold their
// weights. A thread moves blocks of BLOCK_KEYS keys, a part of a chunk, by V_COLUMNS columns, a unit.
constexpr int BLOCK_KEYS = ${d.v_block_keys}, V_PARTS = ${d.v_parts}, V_COLUMNS = ${d.v_block_columns}, V_WORDS = ${d.v_words};
device_function int key_of(int chunk, int place) { return (${chunk_text}) + (${key_text}); }
device_function int v_row_of(int column) { return ${place_text}; }  // columns in the order of the lanes that read them
struct v_block { int chunk, part, unit; };
% if d.v_parts > 1 and d.v_run > 1 then
// ${d.v_run} neighbouring units of the same keys, then of other keys: an access takes runs of global memory and all parts of chunks
% end
device_function v_block v_block_at(int index)
{
% if d.v_parts == 1 then
    return {index / V_UNITS, 0, index % V_UNITS};
% else
    const int run = index / ${d.v_run} / V_PARTS;
    return {run / ${d.v_units // d.v_run}, index / ${d.v_run} % V_PARTS, run % ${d.v_units // d.v_run} * ${d.v_run} + index % ${d.v_run}};
% end
}
device_function void load_v(u32 (&unit)[V_STEPS][BLOCK_KEYS][4], const char *tile, row_offset row_bytes, int rows, int thread)
{
#pragma unroll
    for (int step = 0; step < V_STEPS; ++step) {
        const v_block block = v_block_at(${v_thread} + THREADS * step);
        const row_offset across = (row_offset)(block.unit * 16);
% if d.v_blocks % c.threads == 0 then
        const row_offset first = fresh((row_offset)key_of(block.chunk, block.part * BLOCK_KEYS) * row_bytes + across);
% else
        // chunks beyond the tile repeat its last one: offsets of 32 bits reach two tiles, and no further
        const row_offset first = fresh((row_offset)key_of(minimum(block.chunk, ${d.v_chunks - 1}), block.part * BLOCK_KEYS) * row_bytes + across);
% end
        const row_offset last = (row_offset)(rows - 1) * row_bytes + across;
#pragma unroll
        for (int j = 0; j < BLOCK_KEYS; ++j)
            load_unit<4, ${d.v_piece}, ${d.v_tail}>(unit[step][j], tile + smaller(first + (row_offset)key_of(0, j) * row_bytes, last),
                ${from_last("block.unit", d.v_units, d.v_units, d.v_tail, 16)});
    }
}
device_function void store_v(u32 (&unit)[V_STEPS][BLOCK_KEYS][4], u32 *tile, int rows, int thread)
{
#pragma unroll
    for (int step = 0; step < V_STEPS; ++step) {
        const v_block block = v_block_at(${v_thread} + THREADS * step);
        if (rows < BLOCK_K) {  // a weight of 0 does not silence what lies past the sequence's end: 0 * NaN is NaN
#pragma unroll
            for (int j = 0; j < BLOCK_KEYS; ++j)
#pragma unroll
                for (int word = 0; word < 4; ++word)
                    unit[step][j][word] = key_of(block.chunk, block.part * BLOCK_KEYS) + key_of(0, j) < rows ? unit[step][j][word] : 0u;
        }
        const int first = opaque(v_chunk_at(v_row_of(block.unit * V_COLUMNS), block.chunk) + block.part * V_WORDS);
        if (${d.v_blocks % c.threads == 0 and "true" or "thread + THREADS * step < " .. d.v_blocks}) {
#pragma unroll
            for (int i = 0; i < V_COLUMNS; ++i) {
                u32 keys[V_WORDS];
#pragma unroll
                for (int word = 0; word < V_WORDS; ++word)
% if bytes == 2 then
                    keys[word] = i % 2 == 0 ? pack_low(unit[step][2 * word][i / 2], unit[step][2 * word + 1][i / 2])
                                            : pack_high(unit[step][2 * word][i / 2], unit[step][2 * word + 1][i / 2]);
% elseif d.widen_v then
                    keys[word] = float_bits(i % 2 == 0 ? low_element<v_type>(unit[step][word][i / 2])
                                                       : high_element<v_type>(unit[step][word][i / 2]));
% else
                    keys[word] = unit[step][word][i];
% end
                store_words<V_WORDS>(tile + (first ^ v_permuted(v_row_of(i)) * 4) + v_row_of(i) * (4 * V_PITCH), keys);
            }
        }
    }
}
% end
% if async then
// A thread's part of a tile on its way without registers: zeros take the place of rows past the sequence's end and of columns
// past a row's.
% local function copies(name, units, real)
%   local even, steps = c.threads % units == 0, name == "k" and d.k_steps or d.v_steps
device_function void copy_${name}(async_copies &copies, u32 *tile, const char *rows_at, row_offset row_bytes, int rows, int thread)
{
%   if even then
    const int column = thread % ${units};
    rows_at += (row_offset)(thread / ${units}) * row_bytes + column * 16;
%   end
#pragma unroll
    for (int step = 0; step < ${steps}; ++step) {
%   if even then
        const int row = thread / ${units} + ${c.threads // units} * step;
        const char *const from = rows_at;
        rows_at += (row_offset)${c.threads // units} * row_bytes;
%   else
% place(units)
        const char *const from = rows_at + (row_offset)row * row_bytes + column * 16;
%   end
%   local row_step = c.threads // units
%   local pitch, at = name == "k" and "K_PITCH" or "V_PITCH", name == "k" and k_at or "v_chunk_at"
%   if even and row_step % d.across == 0 then
        u32 *const to = tile + ${at}(thread / ${units}, column) + step * (${row_step} * 4 * ${pitch});  // such rows are permuted alike
%   else
        u32 *const to = tile + ${at}(row, column);
%   end
        if (BLOCK_K * ${units} % THREADS == 0 || row < BLOCK_K)
            copy_async(copies, to, from, row < rows${real < units and " && column < " .. real or ""});
    }
}
% end
% copies("k", d.k_units, d.k_real)
% copies("v", d.v_units, d.v_real)
% end

// What weights of a row are relative to, in powers of two, before it has seen a number: every finite score exceeds it, and by it
// -infinity weighs nothing.
constexpr float NO_REFERENCE = -3.40282347e38f;
// whether a score's weight would exceed 2^${d.weight_bits + d.reach}
device_function bool exceeds(float score, float scale, float reference)
{
    return fused(score, scale, -reference) > ${d.weight_bits + d.reach}.0f;
}
% if d.dropout then
${parts.philox}

% end
% if d.lse then
${parts.log_denominator(0)}

% end
% if not d.o_transposed then
${parts.store_outputs(p.o_dtype)}
% end

% -- ---- multiplies ----
% -- c += left * right: operands are given by functions of (row, word of the row) that yield text
% local function multiply(target, type, k_side, q_side, call, indent)
%   local left, right = k_side, q_side
%   local left_operand, right_operand = f.k, f.q
%   if not keys_first then
%       left, right, left_operand, right_operand = q_side, k_side, f.q, f.k
%   end
%   local function words(operand, side)
%       local list = {}
%       for index, word in ipairs(operand.words) do
%           list[index] = side(word.row, call * row_words + word.word)
%       end
%       return table.concat(list, ", ")
%   end
%   if form.multiply then
%       for word = 0, row_words - 1 do
%           for r = 0, f.elements - 1 do
${indent}${form.multiply(type, target, r, left(r, call * row_words + word), right(0, call * row_words + word))}
%           end
%       end
%   else
${indent}{
${indent}    u32 a[${#left_operand.words}] = {${words(left_operand, left)}};
${indent}    u32 b[${#right_operand.words}] = {${words(right_operand, right)}};
${indent}    matrix_multiply(${form.call}, ${target}, a, b);
${indent}}
%   end
% end
% -- word `word` of a row that is held in chunks
% local function chunk_word(name)
%   return function(row, word) return name .. "[" .. row .. "][" .. word // 4 .. "].word[" .. word % 4 .. "]" end
% end

${kernel.entry(t, d.launch, d.pointers, c.resident)}
${kernel.shared(t, d.shared)}
% if c.kv_buffers == 1 then
    u32 *const v_tile = k_tile;
% end
% if c.exact == "lengths" then
    constexpr int seqlen_q = ${p.seqlen_q}, seqlen_k = ${p.seqlen_k};  // exact=lengths
% end
    const int thread = thread_index();
    const int lane = thread % WAVE, wave_begin = wave_uniform(thread / WAVE) * WAVE_Q;  // the wave's first query in the block
    const int lane_of_wave = lane;
    const int group = ${f.group_text};  // lanes of a group hold the same chunks of rows
% if d.causal then
    // the last queries see most keys: they come first, so that the short blocks fill the end
    const int q_tile_index = (seqlen_q + BLOCK_Q - 1) / BLOCK_Q - 1 - (int)(block_index_x() + origin_x);
% else
    const int q_tile_index = (int)(block_index_x() + origin_x);
% end
    const int q_begin = q_tile_index * BLOCK_Q;
    const int head = (int)(block_index_y() + origin_y), batch_index = (int)(block_index_z() + origin_z);
    const int kv_head = head / HEAD_RATIO;

    // bases in 64 bits, the same for the whole block; rows of a tile are added in row_offset
    const char *const q_rows = (const char *)(q + batch_index * q_batch_stride + head * q_head_stride + q_begin * q_seq_stride);
    const char *const k_rows = (const char *)(k + batch_index * k_batch_stride + kv_head * k_head_stride);
    const char *const v_rows = (const char *)(v + batch_index * v_batch_stride + kv_head * v_head_stride);
    const row_offset q_row_bytes = (row_offset)(q_seq_stride * (i64)sizeof(q_type));
    const row_offset k_row_bytes = (row_offset)(k_seq_stride * (i64)sizeof(k_type));
    const row_offset v_row_bytes = (row_offset)(v_seq_stride * (i64)sizeof(v_type));
    const i64 k_tile_bytes = BLOCK_K * k_seq_stride * (i64)sizeof(k_type), v_tile_bytes = BLOCK_K * v_seq_stride * (i64)sizeof(v_type);
    const int q_count = minimum(seqlen_q - q_begin, BLOCK_Q);

    // keys that some row of the block sees, and those that every row sees
% if d.causal then
%   if p.causal == "bottom_right" then
    const int diagonal = seqlen_k - seqlen_q + 1;  // query i sees keys below i + diagonal
%   else
    const int diagonal = 1;  // query i sees keys below i + diagonal
%   end
    const int keys_end = minimum(seqlen_k, q_begin + q_count - 1 + diagonal);
    const int keys_unmasked = minimum(seqlen_k, q_begin + diagonal);
% else
    const int keys_end = seqlen_k, keys_unmasked = seqlen_k;
% end
    // exp(x) = exp2(x log2 e). The maximum is taken of unscaled scores: the scale must be positive, a negative one has turned
    // q's signs; and it must not be 0, because 0 times the -infinity of a hidden key is no number.
    const float positive_scale = (scale < 0.0f ? -scale : scale) * 1.44269504f;
    const float score_scale = positive_scale < 1.17549435e-38f ? 1.17549435e-38f : positive_scale;
    const u32 q_sign = scale < 0.0f ? ${T[p.q_dtype].bytes == 2 and "0x80008000u" or "0x80000000u"} : 0u;
% if d.dropout then
    const u64 seed_now = seed_pointer ? *seed_pointer : seed;
    const u32 offset_now = (u32)(offset_pointer ? *offset_pointer : offset);
% end
% if async or direct then
    begin_copies(copies, thread);
% end
% if direct then
%   local width = t.direct_lds
    // A wave's lanes write neighbouring bytes of shared memory: where a chunk goes is fixed, so each lane fetches what belongs
    // there. A macro, because the copies are the wave's.
#define copy_k_tile(copies, tile, rows_at, rows) \
    for (int step = 0; step < ${c.block_k * d.k_pitch * 16 // (c.threads * width)}; ++step) { \
        const int first = (step * ${d.waves} + wave_begin / WAVE_Q) * ${t.wave * width // 4}, word = first + lane * ${width // 4}; \
        const int row = word / (4 * K_PITCH), chunk = (${k_at}(row, word / 4 % K_PITCH) / 4) % K_PITCH; \
        copy_direct(copies, ${width}, (tile) + first, \
                    (rows_at) + smaller((row_offset)row * k_row_bytes, (row_offset)((rows) - 1) * k_row_bytes) + chunk * 16 + word % 4 * 4); \
    }
% end

% if async then
    const char *k_coming = k_rows, *v_coming = v_rows;  // the next tiles to be copied
% end
% if c.prefetch == "async1" then
    // the first tile travels while q is read
    if (keys_end > 0)
        copy_k(copies, k_tile, k_coming, k_row_bytes, minimum(seqlen_k, BLOCK_K), thread);
    k_coming += k_tile_bytes;
    commit_copies(copies);
% elseif async then
    // the first tiles travel while q is read
#pragma unroll
    for (int ahead = 0; ahead < STAGES - 1; ++ahead) {
        if (ahead * BLOCK_K < keys_end) {
            copy_k(copies, k_tile + ahead * K_STAGE, k_coming, k_row_bytes, minimum(seqlen_k - ahead * BLOCK_K, BLOCK_K), thread);
            copy_v(copies, v_tile + ahead * V_STAGE, v_coming, v_row_bytes, minimum(seqlen_k - ahead * BLOCK_K, BLOCK_K), thread);
        }
        k_coming += k_tile_bytes;
        v_coming += v_tile_bytes;
        commit_copies(copies);
    }
% end

% if d.q_rows_in_shared then
#pragma unroll
    for (int step = 0; step < ${(c.block_q * d.q_units + c.threads - 1) // c.threads}; ++step) {
% place(d.q_units)
        u32 unit[4];
        load_unit<4, ${d.q_piece}, ${d.q_tail}>(unit, q_rows + (row_offset)minimum(row, q_count - 1) * q_row_bytes + column * 16,
                                 ${from_last("column", d.q_real, d.q_units, d.q_tail, 16)});
#pragma unroll
        for (int word = 0; word < 4; ++word)
            unit[word] ^= q_sign;
        if (BLOCK_Q * ${d.q_units} % THREADS == 0 || row < BLOCK_Q)
            store_q_unit(q_tile, row, column, unit);
    }
% else
%   if form.multiply then
    words4 q_chunk[Q_FRAGMENTS][STEPS][Q_ROWS][LANE_CHUNKS];  // the wave's queries stay in registers
#pragma unroll
    for (int q_fragment = 0; q_fragment < Q_FRAGMENTS; ++q_fragment)
#pragma unroll
        for (int step = 0; step < STEPS; ++step)
#pragma unroll
            for (int i = 0; i < Q_ROWS; ++i)
#pragma unroll
                for (int part = 0; part < LANE_CHUNKS; ++part) {
                    const int row = minimum(wave_begin + q_fragment * QUERIES + ${q_row}, q_count - 1);
                    const int chunk = (step * GROUPS + group) * LANE_CHUNKS + part;
                    u32 *const words = q_chunk[q_fragment][step][i][part].word;
%   if d.widen_q then
                    u32 unit[2] = {0u, 0u};  // half a unit of 16-bit elements makes a chunk of fp32
                    load_unit<2, ${math.min(8, d.q_piece)}, ${(p.head_dim_qk * 2 - 1) % 8 + 1}>(unit, q_rows + (row_offset)row * q_row_bytes + chunk * 8, ${from_last("chunk", (p.head_dim_qk * 2 + 7) // 8, d.depth_chunks, (p.head_dim_qk * 2 - 1) % 8 + 1, 8)});
#pragma unroll
                    for (int e = 0; e < 2; ++e) {
                        unit[e] ^= q_sign;
                        words[2 * e] = float_bits(low_element<q_type>(unit[e]));
                        words[2 * e + 1] = float_bits(high_element<q_type>(unit[e]));
                    }
%   else
                    load_unit<4, ${d.q_piece}, ${d.q_tail}>(words, q_rows + (row_offset)row * q_row_bytes + chunk * 16,
                        ${from_last("chunk", d.q_real, d.depth_chunks, d.q_tail, 16)});
#pragma unroll
                    for (int word = 0; word < 4; ++word)
                        words[word] ^= q_sign;
%   end
                }
%   else
    // the wave's queries, as the operands of the first product, ${c.q_in == "shared" and "wait in shared memory" or "stay in registers"}
%     if c.q_in == "registers" then
    u32 q_operand[Q_FRAGMENTS][STEPS][${d.q_step_words}];
%     end
#pragma unroll
    for (int q_fragment = 0; q_fragment < Q_FRAGMENTS; ++q_fragment)
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            u32 chunk[Q_ROWS][4 * LANE_CHUNKS];
#pragma unroll
            for (int i = 0; i < Q_ROWS; ++i)
#pragma unroll
                for (int part = 0; part < LANE_CHUNKS; ++part) {
                    const int row = minimum(wave_begin + q_fragment * QUERIES + ${q_row}, q_count - 1);
                    const int column = (step * GROUPS + group) * LANE_CHUNKS + part;
                    load_unit<4, ${d.q_piece}, ${d.q_tail}>(chunk[i] + 4 * part, q_rows + (row_offset)row * q_row_bytes + column * 16,
                        ${from_last("column", d.q_real, d.depth_chunks, d.q_tail, 16)});
                }
%     if c.q_in == "registers" then
            u32 *const words = q_operand[q_fragment][step];
%     else
            u32 words[${d.q_step_words}];
%     end
%     for call = 0, f.calls - 1 do
%       for index, word in ipairs(f.q.words) do
            words[${call * #f.q.words + index - 1}] = chunk[${word.row}][${call * row_words + word.word}] ^ q_sign;
%       end
%     end
%     if c.q_in == "shared" then
            // each lane reads only what it wrote
#pragma unroll
            for (int part = 0; part < ${d.q_step_words // 4}; ++part)
                store_words<4>(q_tile + (((wave_begin / QUERIES + q_fragment) * STEPS + step) * ${d.q_step_words // 4} + part) * (4 * WAVE) + lane * 4, words + 4 * part);
%     end
        }
%   end
% end

    float output[O_FRAGMENTS][Q_FRAGMENTS][ELEMENTS], reference[Q_FRAGMENTS][ROWS], row_sum[Q_FRAGMENTS][ROWS];
#pragma unroll
    for (int q_fragment = 0; q_fragment < Q_FRAGMENTS; ++q_fragment) {
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            reference[q_fragment][i] = NO_REFERENCE;
            row_sum[q_fragment][i] = 0.0f;             // this lane's keys only
        }
#pragma unroll
        for (int o_fragment = 0; o_fragment < O_FRAGMENTS; ++o_fragment)
#pragma unroll
            for (int r = 0; r < ELEMENTS; ++r)
                output[o_fragment][q_fragment][r] = 0.0f;
    }
% if d.stages > 1 then
    int stage = 0;
% end
% local k_stage, v_stage = d.stages > 1 and " + stage * K_STAGE" or "", d.stages > 1 and " + stage * V_STAGE" or ""
% -- Words at which a lane's first chunks begin in shared memory, computed anew for every tile so that they are not held from one
% -- to the next: other fragments and steps are constants away, but for the bits of a chunk's number that the layout permutes,
% -- which are turned by xor.
% local function words(name, at, row, stage)
        int ${name}_word[LANE_CHUNKS];
        {
            const int lane = opaque(lane_of_wave), group = ${f.group_text};
#pragma unroll
            for (int part = 0; part < LANE_CHUNKS; ++part)
                ${name}_word[part] = ${at}(${row}, group * LANE_CHUNKS + part)${stage};
        }
% end
% -- text of the xor that turns a chunk's number; nothing where no bits are permuted
% local function turned(name, step, variants)
%   return variants > 1 and "(" .. name .. " ^ " .. step .. " % " .. variants .. " * (4 * GROUPS * LANE_CHUNKS))" or name
% end
% -- ---- the scores of a tile, masked or not, and what becomes of them ----
% local function scores(masked)

% words("k", k_at, f.k.row_text, k_stage)
% if d.q_rows_in_shared then
%   words("q", q_at, "wave_begin + (" .. f.q.row_text .. ")", "")
% end
        float score[K_FRAGMENTS][Q_FRAGMENTS][ELEMENTS];
#pragma unroll
        for (int k_fragment = 0; k_fragment < K_FRAGMENTS; ++k_fragment)
#pragma unroll
            for (int q_fragment = 0; q_fragment < Q_FRAGMENTS; ++q_fragment)
#pragma unroll
                for (int r = 0; r < ELEMENTS; ++r)
                    score[k_fragment][q_fragment][r] = 0.0f;
% if d.qk_unroll < d.steps then
#pragma unroll 1
        for (int outer = 0; outer < STEPS; outer += ${d.qk_unroll})
% end
#pragma unroll
        for (int step = 0; step < ${d.qk_unroll}; ++step) {
% if c.q_in == "shared" and not d.q_rows_in_shared then
            u32 q_here[Q_FRAGMENTS][${d.q_step_words}];
#pragma unroll
            for (int q_fragment = 0; q_fragment < Q_FRAGMENTS; ++q_fragment)
#pragma unroll
                for (int part = 0; part < ${d.q_step_words // 4}; ++part)
                    load_words<4>(q_here[q_fragment] + 4 * part,
                                  q_tile + (((wave_begin / QUERIES + q_fragment) * STEPS + ${outer}step) * ${d.q_step_words // 4} + part) * (4 * WAVE) + lane * 4);
% elseif d.q_rows_in_shared then
%   if form.multiply then
            schedule_fence();  // operands of later steps would take all registers
%   end
            words4 q_here[Q_FRAGMENTS][Q_ROWS][LANE_CHUNKS];
#pragma unroll
            for (int q_fragment = 0; q_fragment < Q_FRAGMENTS; ++q_fragment)
#pragma unroll
                for (int i = 0; i < Q_ROWS; ++i)
#pragma unroll
                    for (int part = 0; part < LANE_CHUNKS; ++part)
                        load_words<4>(q_here[q_fragment][i][part].word,
                                      q_tile + ${turned("q_word[part]", "step", d.q_variants)} + (q_fragment * QUERIES + ${q_row_offset}) * (4 * Q_PITCH) +
                                          (${outer}step / ${d.q_variants} * ${d.q_variants}) * (4 * GROUPS * LANE_CHUNKS));
% end
#pragma unroll
            for (int k_fragment = 0; k_fragment < K_FRAGMENTS; ++k_fragment) {
                words4 k_here[K_ROWS][LANE_CHUNKS];
#pragma unroll
                for (int i = 0; i < K_ROWS; ++i)
#pragma unroll
                    for (int part = 0; part < LANE_CHUNKS; ++part)
                        load_words<4>(k_here[i][part].word,
                                      k_tile + ${turned("k_word[part]", "step", d.k_variants)} + (k_fragment * KEYS + ${k_row_offset}) * (4 * K_PITCH) +
                                          (${outer}step / ${d.k_variants} * ${d.k_variants}) * (4 * GROUPS * LANE_CHUNKS));
#pragma unroll
                for (int q_fragment = 0; q_fragment < Q_FRAGMENTS; ++q_fragment) {
% local q_words = chunk_word(d.q_rows_in_shared and "q_here[q_fragment]" or "q_chunk[q_fragment][step]")
% if not d.q_rows_in_shared and not form.multiply then
%   local place = {} -- of a word of a lane's row among the operand's
%   for index, word in ipairs(f.q.words) do
%     place[word.row * row_words + word.word] = index - 1
%   end
%   local array = c.q_in == "shared" and "q_here[q_fragment]" or "q_operand[q_fragment][step]"
%   q_words = function(row, word) return array .. "[" .. word // row_words * #f.q.words + place[row * row_words + word % row_words] .. "]" end
% end
% for call = 0, f.calls - 1 do
%   multiply("score[k_fragment][q_fragment]", "k_type", chunk_word("k_here"), q_words, call, "                    ")
% end
                }
            }
        }
% if masked ~= "never" then

%   if masked == "asked" then
        if (k_begin + BLOCK_K > keys_unmasked) {
%   else
        {
%   end
            const int lane = opaque(lane_of_wave);
#pragma unroll
            for (int q_fragment = 0; q_fragment < Q_FRAGMENTS; ++q_fragment)
#pragma unroll
                for (int i = 0; i < ROWS; ++i) {
%   if d.causal then
                    const int query = q_begin + wave_begin + q_fragment * QUERIES + (${f.query_text}) + ${f.query_row_text};
                    const int visible = minimum(seqlen_k, query + diagonal) - k_begin - (${f.key_text});
%   else
                    const int visible = seqlen_k - k_begin - (${f.key_text});
%   end
#pragma unroll
                    for (int k_fragment = 0; k_fragment < K_FRAGMENTS; ++k_fragment)
#pragma unroll
                        for (int r = 0; r < ELEMENTS; ++r)
                            if (${f.row_element_text} == i)
                                score[k_fragment][q_fragment][r] =
                                    k_fragment * KEYS + (${f.key_element_text}) < visible ? score[k_fragment][q_fragment][r] : -INFINITY_FLOAT;
                }
        }
% end

        // Softmax over what was seen so far: a score's weight is 2^(score * score_scale - reference). A row's reference follows its
        // maximum only where weights would exceed 2^${d.weight_bits + d.reach}, so that the sums so far are seldom scaled. A row's numbers depend on that row alone.
        float tile_max[Q_FRAGMENTS][ROWS];
        bool grown = false;
#pragma unroll
        for (int q_fragment = 0; q_fragment < Q_FRAGMENTS; ++q_fragment)
#pragma unroll
            for (int i = 0; i < ROWS; ++i) {
                float &largest = tile_max[q_fragment][i];
                largest = -INFINITY_FLOAT;
#pragma unroll
                for (int k_fragment = 0; k_fragment < K_FRAGMENTS; ++k_fragment)
#pragma unroll
                    for (int r = 0; r < ELEMENTS; ++r)
                        if (${f.row_element_text} == i)
                            largest = maximum(largest, score[k_fragment][q_fragment][r]);
% for _, mask in ipairs(f.masks) do
                largest = maximum(largest, exchange(${mask}, largest));
% end
                grown |= exceeds(largest, score_scale, reference[q_fragment][i]);
            }
        if (any_lane(grown)) {
#pragma unroll
            for (int q_fragment = 0; q_fragment < Q_FRAGMENTS; ++q_fragment) {
                float rescale[ROWS];
#pragma unroll
                for (int i = 0; i < ROWS; ++i) {
                    const float before = reference[q_fragment][i], largest = tile_max[q_fragment][i];
                    const float now = exceeds(largest, score_scale, before) ? fused(largest, score_scale, -${d.weight_bits}.0f) : before;
                    rescale[i] = now == before ? 1.0f : exp2_fast(before - now);
                    reference[q_fragment][i] = now;
                    row_sum[q_fragment][i] *= rescale[i];
                }
#pragma unroll
                for (int o_fragment = 0; o_fragment < O_FRAGMENTS; ++o_fragment)
#pragma unroll
                    for (int r = 0; r < ELEMENTS; ++r)
                        output[o_fragment][q_fragment][r] *= rescale[${f.row_element_text}];
            }
        }
#pragma unroll
        for (int q_fragment = 0; q_fragment < Q_FRAGMENTS; ++q_fragment)
#pragma unroll
            for (int k_fragment = 0; k_fragment < K_FRAGMENTS; ++k_fragment)
#pragma unroll
                for (int r = 0; r < ELEMENTS; ++r) {
                    float &weight = score[k_fragment][q_fragment][r];
                    weight = exp2_fast(fused(weight, score_scale, -reference[q_fragment][${f.row_element_text}]));
                    row_sum[q_fragment][${f.row_element_text}] += weight;
                }
% if d.dropout then

        // keep or drop: scores whose keys share a call (numerics.md has the numbering); the sum above stays without dropout
#pragma unroll
        for (int q_fragment = 0; q_fragment < Q_FRAGMENTS; ++q_fragment) {
%   if d.scarce then
            const int lane = opaque(lane_of_wave);  // counters are not held from tile to tile
%   end
%   for row = 0, f.rows - 1 do
%     for _, draws in ipairs(shape.draws(d, row)) do
            {
                const int key = k_begin + (${f.key_text}) + ${draws[1][1] * f.keys + f.key_offset[draws[1][2]]};
                const words4 random = philox((u32)(key / 32 * 4 + key / 2 % 4),
                                             (u32)(q_begin + wave_begin + q_fragment * QUERIES + (${f.query_text}) + ${f.row_offsets[row + 1]}),
                                             (u32)batch_index * (u32)heads + (u32)head, offset_now, (u32)seed_now, (u32)(seed_now >> 32));
%       for _, draw in ipairs(draws) do
%         local target = "score[" .. draw[1] .. "][q_fragment][" .. draw[2] .. "]"
%         if draw[3] then
                ${target} = (random.word[${draw[3] // 2}]${draw[3] % 2 == 1 and " >> 16" or " & 0xffffu"}) < dropout_threshold ? ${target} : 0.0f;
%         else
                {
                    const int here = (${f.key_text}) + ${draw[1] * f.keys + f.key_offset[draw[2]]}, part = here / 8 % 4;
                    const u32 word = choose(part < 2, choose(part == 0, random.word[0], random.word[1]),
                                            choose(part == 2, random.word[2], random.word[3]));
                    ${target} = (here % 2 ? word >> 16 : word & 0xffffu) < dropout_threshold ? ${target} : 0.0f;
                }
%         end
%       end
            }
%     end
%   end
        }
% end
% -- weights as words of the second product's operand
% local sequence = linear(function(n) return f.sequence[1][n + 1] end, f.row_scores, "n")
% local sequence_row = linear(function(i) return f.sequence[i + 1][1] end, f.rows, "i")
% if c.p_in ~= "lds" then

        u32 weight_words[${d.k_fragments * f.row_scores // f.chunk * (c.p_in == "exchange" and 2 or 1)}][Q_FRAGMENTS][ROWS][4];
#pragma unroll
        for (int q_fragment = 0; q_fragment < Q_FRAGMENTS; ++q_fragment)
#pragma unroll
            for (int i = 0; i < ROWS; ++i)
#pragma unroll
                for (int pair = 0; pair < K_FRAGMENTS * ${f.row_scores // 2}; ++pair) {
                    const int k_fragment = pair / ${f.row_scores // 2}, n = pair % ${f.row_scores // 2} * 2, r = ${sequence} + ${sequence_row};
                    const u32 word = pack_weights<v_type>(score[k_fragment][q_fragment][r], score[k_fragment][q_fragment][r + ${f.sequence[1][2] - f.sequence[1][1]}]);
%   if c.p_in == "registers" then
                    weight_words[pair / 4][q_fragment][i][pair % 4] = word;
%   else
                    const u32 other = exchange(${f.masks[1]}, word);
                    const bool second = (${linear(f.owner, f.lanes, "lane")}) != 0;
                    weight_words[2 * (pair / 4)][q_fragment][i][pair % 4] = second ? other : word;
                    weight_words[2 * (pair / 4) + 1][q_fragment][i][pair % 4] = second ? word : other;
%   end
                }
% else

        // keys stand in the order of the columns of v
%   local place_of = {}
%   for chunk = 0, d.p_chunks - 1 do
%     for j = 0, f.chunk - 1 do
%       place_of[f.chunk_key(chunk, j)] = chunk * f.chunk + j
%     end
%   end
%   local place_text = linear(function(lane) return place_of[f.key(lane, 0)] end, f.lanes, "lane")
%   if form.multiply then
        int p_store;
        {
            const int lane = opaque(lane_of_wave);
            const int word = (${place_text})${bytes == 2 and " / 2" or ""};
            p_store = row_chunk_at<P_PITCH>(wave_begin + (${f.query_text}), word / 4) + word % 4;
        }
%   end
#pragma unroll
        for (int q_fragment = 0; q_fragment < Q_FRAGMENTS; ++q_fragment) {
%   for row = 0, f.rows - 1 do
%     for fragment = 0, d.k_fragments - 1 do
%       local sequence_here = f.sequence[row + 1]
%       local n = 1
%       while n <= #sequence_here do
%         local base = place_of[f.key(0, 0)]
%         local at = place_of[fragment * f.keys + f.key(0, sequence_here[n])] - base
%         for lane = 0, f.lanes - 1 do
%           assert(place_of[fragment * f.keys + f.key(lane, sequence_here[n])] == place_of[f.key(lane, 0)] + at)
%         end
%         local pairs = bytes == 2 and place_of[fragment * f.keys + f.key(0, sequence_here[n + 1])] - base == at + 1 and at % 2 == 0
%         local at_word = bytes == 4 and at or at // 2
%         if form.multiply and (bytes == 4 or pairs) and (not d.swap_rows or at_word % 8 == 0) then
            store_word(p_tile + p_store + q_fragment * (QUERIES * 4 * P_PITCH) + ${at_word},
%           if bytes == 4 then
                       float_bits(score[${fragment}][q_fragment][${sequence_here[n]}]));
%             n = n + 1
%           else
                       pack_weights<v_type>(score[${fragment}][q_fragment][${sequence_here[n]}], score[${fragment}][q_fragment][${sequence_here[n + 1]}]));
%             n = n + 2
%           end
%         else
            {
                const int row = wave_begin + q_fragment * QUERIES + (${f.query_text}) + ${f.row_offsets[row + 1]}, place = ${place_text} + ${at};
%         if bytes == 4 then
                store_word(p_tile + ${p_at}(row, place / 4) + place % 4, float_bits(score[${fragment}][q_fragment][${sequence_here[n]}]));
%           n = n + 1
%         elseif pairs then
                store_word(p_tile + ${p_at}(row, place / 8) + place % 8 / 2,
                           pack_weights<v_type>(score[${fragment}][q_fragment][${sequence_here[n]}], score[${fragment}][q_fragment][${sequence_here[n + 1]}]));
%           n = n + 2
%         else
                ((u16 *)(p_tile + ${p_at}(row, place / 8)))[place % 8] = (u16)pack_weights<v_type>(score[${fragment}][q_fragment][${sequence_here[n]}], 0.0f);
%           n = n + 1
%         end
            }
%         end
%       end
%     end
%   end
        }
%   if c.kv_buffers == 2 then
        wave_barrier();
%   end
% end
% end
% -- ---- output += weights v ----
% local function outputs()

% if c.p_in == "lds" then
%   words("p", p_at, "wave_begin + (" .. f.q.row_text .. ")", "")
% end
% if d.v_rows then
        const int v_lane = opaque(lane_of_wave), v_word = v_chunk_at(v_lane % ${form.k}, v_lane / ${form.k})${v_stage};
% else
% words("v", "v_chunk_at", f.k.row_text, v_stage)
% end
% local pv_outer = d.pv_unroll < d.v_chunk_steps
% if pv_outer then
#pragma unroll 1
        for (int outer = 0; outer < ${d.v_chunk_steps}; outer += ${d.pv_unroll})
% end
#pragma unroll
        for (int step = 0; step < ${d.v_rows and "BLOCK_K / " .. form.k or d.pv_unroll}; ++step) {
% if c.p_in == "lds" then
%   if form.multiply then
            schedule_fence();
%   end
            words4 p_here[Q_FRAGMENTS][Q_ROWS][LANE_CHUNKS];
#pragma unroll
            for (int q_fragment = 0; q_fragment < Q_FRAGMENTS; ++q_fragment)
#pragma unroll
                for (int i = 0; i < Q_ROWS; ++i)
#pragma unroll
                    for (int part = 0; part < LANE_CHUNKS; ++part)
                        load_words<4>(p_here[q_fragment][i][part].word,
                                      p_tile + ${turned("p_word[part]", "step", d.p_variants)} + (q_fragment * QUERIES + ${q_row_offset}) * (4 * P_PITCH) +
                                          (${pv_outer and "outer + " or ""}step / ${d.p_variants} * ${d.p_variants}) * (4 * GROUPS * LANE_CHUNKS));
% end
% if d.v_rows then
%   -- ldmatrix: four 8 x 8 matrices are two or four keys' eights of the operand for two or one fragments of columns
%   local matrices = form.k // 8
%   local calls_per_load = 4 // matrices
#pragma unroll
            for (int o_fragment = 0; o_fragment < O_FRAGMENTS; o_fragment += ${calls_per_load}) {
                u32 v_here[4];
                load_matrices_transposed(v_here, v_tile + ${d.v_variants > 1 and "(v_word ^ o_fragment / " .. calls_per_load .. " % " .. d.v_variants .. " * " .. calls_per_load * 4 .. ")" or "v_word"} + step * (${form.k} * 4 * V_PITCH) +
                                                     o_fragment / ${calls_per_load * d.v_variants} * ${calls_per_load * d.v_variants * 4});
%   for part = 0, calls_per_load - 1 do
#pragma unroll
                for (int q_fragment = 0; q_fragment < Q_FRAGMENTS; ++q_fragment) {
%     local function p_words(row, word) return "weight_words[step / " .. f.calls .. "][q_fragment][" .. row .. "][step % " .. f.calls .. " * " .. row_words .. " + " .. word .. "]" end
%     multiply("output[o_fragment + " .. part .. "][q_fragment]", "v_type", function(row, word) return "v_here[" .. part * matrices + word .. "]" end, p_words, 0, "                    ")
                }
%   end
            }
% else
#pragma unroll
            for (int o_fragment = 0; o_fragment < O_FRAGMENTS; ++o_fragment) {
                words4 v_here[K_ROWS][LANE_CHUNKS];
#pragma unroll
                for (int i = 0; i < K_ROWS; ++i)
#pragma unroll
                    for (int part = 0; part < LANE_CHUNKS; ++part) {
                        const int row = o_fragment * ${f.columns} + ${k_row_offset}, chunks = step * GROUPS * LANE_CHUNKS;
                        load_words<4>(v_here[i][part].word,
                                      v_tile + (v_word[part] ^ ((chunks ^ v_permuted(row)) & (V_AMONG - 1)) * 4) + row * (4 * V_PITCH) +
                                          ((chunks & ~(V_AMONG - 1))${pv_outer and " + outer * GROUPS * LANE_CHUNKS" or ""}) * 4);
                    }
#pragma unroll
                for (int q_fragment = 0; q_fragment < Q_FRAGMENTS; ++q_fragment) {
%   local p_words = c.p_in == "lds" and chunk_word("p_here[q_fragment]") or function(row, word) return "weight_words[step * LANE_CHUNKS + " .. word // 4 .. "][q_fragment][" .. row .. "][" .. word % 4 .. "]" end
%   for call = 0, f.calls - 1 do
%     multiply("output[o_fragment][q_fragment]", "v_type", chunk_word("v_here"), p_words, call, "                    ")
%   end
                }
            }
% end
        }
% end
% -- ---- a tile, by the means that brings the next one ----
% local v_unit = d.v_rows and "[V_STEPS][4]" or "[V_STEPS][BLOCK_KEYS][4]"
% if v_moves then
    u32 ${k_moves and "k_unit[K_STEPS][4], " or ""}v_unit${v_unit};
% end
% local prefetch = c.prefetch
% if prefetch == "registers" and c.kv_buffers == 1 then
    if (keys_end > 0)
        load_k(k_unit, k_rows, k_row_bytes, minimum(seqlen_k, BLOCK_K), thread);
% elseif prefetch == "registers" then
    if (keys_end > 0) {
        load_k(k_unit, k_rows, k_row_bytes, minimum(seqlen_k, BLOCK_K), thread);
        load_v(v_unit, v_rows, v_row_bytes, minimum(seqlen_k, BLOCK_K), thread);
    }
% elseif prefetch == "registers2" then
    if (keys_end > 0) {  // the first tile goes to shared memory, the second waits in registers
        load_k(k_unit, k_rows, k_row_bytes, minimum(seqlen_k, BLOCK_K), thread);
        load_v(v_unit, v_rows, v_row_bytes, minimum(seqlen_k, BLOCK_K), thread);
        store_k(k_unit, k_tile, thread);
        store_v(v_unit, v_tile, minimum(seqlen_k, BLOCK_K), thread);
        if (BLOCK_K < keys_end) {
            load_k(k_unit, k_rows + k_tile_bytes, k_row_bytes, minimum(seqlen_k - BLOCK_K, BLOCK_K), thread);
            load_v(v_unit, v_rows + v_tile_bytes, v_row_bytes, minimum(seqlen_k - BLOCK_K, BLOCK_K), thread);
        }
    }
% elseif direct then
    if (keys_end > 0) {
        copy_k_tile(copies, k_tile, k_rows, minimum(seqlen_k, BLOCK_K));
        load_v(v_unit, v_rows, v_row_bytes, minimum(seqlen_k, BLOCK_K), thread);
        store_v(v_unit, v_tile, minimum(seqlen_k, BLOCK_K), thread);
        wait_direct(copies);
    }
% end
% local function tile(masked)
% if not async then
        const char *const k_rows_here = k_rows + k_begin * k_seq_stride * (i64)sizeof(k_type);
        const char *const v_rows_here = v_rows + k_begin * v_seq_stride * (i64)sizeof(v_type);
% end
% if c.kv_buffers == 1 then
        const int k_count = minimum(seqlen_k - k_begin, BLOCK_K);
%   if prefetch == "off" then
        load_k(k_unit, k_rows_here, k_row_bytes, k_count, thread);
%   end
        barrier();  // nobody reads v any more: k takes its place
        store_k(k_unit, k_tile, thread);
        barrier();
%   if prefetch == "registers" then
        load_v(v_unit, v_rows_here, v_row_bytes, k_count, thread);  // travels while scores are computed
%   end
%   scores(masked)
%   if prefetch == "off" then
        load_v(v_unit, v_rows_here, v_row_bytes, k_count, thread);
%   end
        barrier();  // the scores are done with k: v takes its place
        store_v(v_unit, v_tile, ${masked == "never" and "BLOCK_K" or "k_count"}, thread);
        barrier();
%   if prefetch == "registers" then
        if (k_begin + BLOCK_K < keys_end)  // travels while the output is accumulated
            load_k(k_unit, k_rows_here + k_tile_bytes, k_row_bytes, minimum(seqlen_k - k_begin - BLOCK_K, BLOCK_K), thread);
%   end
%   outputs()
% elseif prefetch == "off" or prefetch == "registers" then
        const int k_count = minimum(seqlen_k - k_begin, BLOCK_K);
%   if prefetch == "off" then
        load_k(k_unit, k_rows_here, k_row_bytes, k_count, thread);
        load_v(v_unit, v_rows_here, v_row_bytes, k_count, thread);
%   end
        barrier();  // nobody reads the tiles before any more
        store_k(k_unit, k_tile, thread);
        store_v(v_unit, v_tile, ${masked == "never" and "BLOCK_K" or "k_count"}, thread);
        barrier();
%   if prefetch == "registers" then
        if (k_begin + BLOCK_K < keys_end) {  // the next tiles travel while this one is worked on
            const int next_count = minimum(seqlen_k - k_begin - BLOCK_K, BLOCK_K);
            load_k(k_unit, k_rows_here + k_tile_bytes, k_row_bytes, next_count, thread);
            load_v(v_unit, v_rows_here + v_tile_bytes, v_row_bytes, next_count, thread);
        }
%   end
%   scores(masked)
%   outputs()
% elseif prefetch == "registers2" then
        barrier();  // this tile is there, and nobody reads the one before any more
        if (k_begin + BLOCK_K < keys_end) {  // the next tile takes its place, the one after travels
            store_k(k_unit, k_tile + (1 - stage) * K_STAGE, thread);
            store_v(v_unit, v_tile + (1 - stage) * V_STAGE, minimum(seqlen_k - k_begin - BLOCK_K, BLOCK_K), thread);
            if (k_begin + 2 * BLOCK_K < keys_end) {
                const int next_count = minimum(seqlen_k - k_begin - 2 * BLOCK_K, BLOCK_K);
                load_k(k_unit, k_rows_here + 2 * k_tile_bytes, k_row_bytes, next_count, thread);
                load_v(v_unit, v_rows_here + 2 * v_tile_bytes, v_row_bytes, next_count, thread);
            }
        }
%   scores(masked)
%   outputs()
        stage = 1 - stage;
% elseif direct then
        barrier();  // this tile is there, and nobody reads the one before any more
        if (k_begin + BLOCK_K < keys_end) {  // the next tile travels: k straight to shared memory, v through registers
            const int next_count = minimum(seqlen_k - k_begin - BLOCK_K, BLOCK_K);
            copy_k_tile(copies, k_tile + (1 - stage) * K_STAGE, k_rows_here + k_tile_bytes, next_count);
            load_v(v_unit, v_rows_here + v_tile_bytes, v_row_bytes, next_count, thread);
        }
%   scores(masked)
%   outputs()
        if (k_begin + BLOCK_K < keys_end) {
            store_v(v_unit, v_tile + (1 - stage) * V_STAGE, minimum(seqlen_k - k_begin - BLOCK_K, BLOCK_K), thread);
            wait_direct(copies);
        }
        stage = 1 - stage;
% elseif prefetch == "async1" then
        const int k_count = minimum(seqlen_k - k_begin, BLOCK_K);
        wait_copies<0>(copies);
        barrier();  // k is there, and nobody reads the v before any more
        copy_v(copies, v_tile, v_coming, v_row_bytes, k_count, thread);
        v_coming += v_tile_bytes;
        commit_copies(copies);
%   scores(masked)
        wait_copies<0>(copies);
        barrier();  // v is there, and nobody reads k any more
        if (k_begin + BLOCK_K < keys_end)
            copy_k(copies, k_tile, k_coming, k_row_bytes, minimum(seqlen_k - k_begin - BLOCK_K, BLOCK_K), thread);
        k_coming += k_tile_bytes;
        commit_copies(copies);
%   outputs()
% elseif async then
        wait_copies<STAGES - 2>(copies);
        barrier();  // this tile is there, and nobody reads the one before any more
        if (k_begin + (STAGES - 1) * BLOCK_K < keys_end) {
            const int next = k_begin + (STAGES - 1) * BLOCK_K, place = stage == 0 ? STAGES - 1 : stage - 1;
            copy_k(copies, k_tile + place * K_STAGE, k_coming, k_row_bytes, minimum(seqlen_k - next, BLOCK_K), thread);
            copy_v(copies, v_tile + place * V_STAGE, v_coming, v_row_bytes, minimum(seqlen_k - next, BLOCK_K), thread);
            k_coming += k_tile_bytes;
            v_coming += v_tile_bytes;
        }
        commit_copies(copies);
%   scores(masked)
%   outputs()
        stage = stage == STAGES - 1 ? 0 : stage + 1;
% end
% end
% if c.masking == "peeled" then
    // tiles that every row sees whole, then the others
    const int whole_end = keys_unmasked < BLOCK_K ? 0 : keys_unmasked / BLOCK_K * BLOCK_K;
    int k_begin = 0;
#pragma unroll 1
    for (; k_begin < whole_end; k_begin += BLOCK_K) {
% tile("never")
    }
#pragma unroll 1
    for (; k_begin < keys_end; k_begin += BLOCK_K) {
% tile("always")
    }
% else
#pragma unroll 1
    for (int k_begin = 0; k_begin < keys_end; k_begin += BLOCK_K) {
% tile("asked")
    }
% end
% if async then
    // no copy is on its way any more: tiles past the last were not asked for
% end

    char *const o_rows = (char *)(o + batch_index * o_batch_stride + head * o_head_stride + q_begin * o_seq_stride);
    const row_offset o_row_bytes = (row_offset)(o_seq_stride * (i64)sizeof(o_type));
#pragma unroll
    for (int q_fragment = 0; q_fragment < Q_FRAGMENTS; ++q_fragment)
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            float sum = row_sum[q_fragment][i];
% for _, mask in ipairs(f.masks) do
            sum += exchange(${mask}, sum);
% end
            const int row = wave_begin + q_fragment * QUERIES + (${f.query_text}) + ${f.query_row_text};
            // a row that saw no key: output 0, lse -infinity
            const bool empty = sum == 0.0f;
% if d.dropout then
            const float factor = empty ? 0.0f : dropout_scale / sum;
% else
            const float factor = empty ? 0.0f : 1.0f / sum;
% end
% if d.o_transposed then
            // four lanes of a row trade words, so that each has eight neighbouring columns
            u32 o_words[O_FRAGMENTS];
#pragma unroll
            for (int first = 0; first < O_FRAGMENTS; first += 4) {
                u32 *const word = o_words + first;
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    word[e] = pack_elements<o_type>(output[first + e][q_fragment][2 * i] * factor, output[first + e][q_fragment][2 * i + 1] * factor);
#pragma unroll
                for (int e = 0; e < 4; e += 2) {
                    const u32 other = exchange(1, lane % 2 ? word[e] : word[e + 1]);
                    word[e] = lane % 2 ? other : word[e];
                    word[e + 1] = lane % 2 ? word[e + 1] : other;
                }
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    const u32 other = exchange(2, lane % 4 / 2 ? word[e] : word[e + 2]);
                    word[e] = lane % 4 / 2 ? other : word[e];
                    word[e + 2] = lane % 4 / 2 ? word[e + 2] : other;
                }
            }
% end
            if (row < q_count) {
% local row_n = linear(function(n) return f.sequence[1][n + 1] end, f.row_columns, "n")
% local lane_column = linear(function(lane) return f.owner(lane) * d.lane_columns end, f.lanes, "lane")
% if d.v_rows then
%   lane_column = f.key_text
% end
% if d.o_transposed then
                char *const o_row = o_rows + (row_offset)row * o_row_bytes + lane % 4 * 16;
#pragma unroll
                for (int first = 0; first < O_FRAGMENTS; first += 4)
                    store_words<4>(o_row + first * 16, o_words + first);
% else
#pragma unroll
                for (int first = 0; first < O_FRAGMENTS; first += ${d.together})
#pragma unroll
                    for (int part = 0; part < ${d.lane_columns}; part += ${d.o_part}) {
                        float value[${d.o_part}];
#pragma unroll
                        for (int e = 0; e < ${d.o_part}; ++e) {
                            const int n = (part + e) % ${f.row_columns};
                            value[e] = output[first + (part + e) / ${f.row_columns}][q_fragment][${row_n} + ${linear(function(i) return f.sequence[i + 1][1] end, f.rows, "i")}] * factor;
                        }
% if d.v_rows then
                        const int column = first * ${f.columns} + (${lane_column}) + part / ${d.o_run} * ${f.row_columns > d.o_run and f.key_offset[f.sequence[1][d.o_run + 1]] or d.o_run} + part % ${d.o_run};
% else
                        const int column = first * ${f.columns} + (${lane_column}) + part;
% end
% if d.v_columns > p.head_dim_v then
                        if (column >= HEAD_DIM_V)
                            continue;
% end
                        store_outputs<${d.o_part}>(o_rows + (row_offset)row * o_row_bytes + column * (int)sizeof(o_type), value);
                    }
% end
% if d.lse then
                if (${#f.masks == 0 and "true" or "(" .. linear(f.owner, f.lanes, "lane") .. ") == 0"})
                    lse[((i64)batch_index * heads + head) * seqlen_q + q_begin + row] =
                        empty ? -INFINITY_FLOAT : log_denominator(reference[q_fragment][i], sum);
% end
            }
        }
}
${kernel.note(t, d.launch)}
