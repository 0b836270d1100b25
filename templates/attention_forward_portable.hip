% local kernel = import("kernel")
% local parts = import("attention_parts")
% local T = kernel.types
// Flash attention, forward: o = softmax(scale q k^T) v without ever holding the score matrix (Dao et al., 2022).
//
// A block works on BLOCK_Q queries of one head and walks over the keys in tiles of BLOCK_K, which it brings to shared memory.
// LANES lanes of one wave share ROW_GROUPS-strided rows: each holds TILE_Q rows of scores for every LANES-th key of the tile,
// keeps the rows' running maximum and its part of their sum, passes the weights on through shared memory, and accumulates its
// own columns of the output.
% if d.splits > 1 then
// There are more waves than rows: KEY_SPLITS sets of waves take different keys of each tile and are merged at the end.
% end

// the problem
constexpr int HEAD_DIM_QK = ${p.head_dim_qk}, HEAD_DIM_V = ${p.head_dim_v};
constexpr int HEAD_RATIO = ${p.head_ratio};  // query heads for each key/value head
// the candidate
constexpr int WAVE = ${t.wave}, THREADS = ${c.threads};
constexpr int BLOCK_Q = ${c.block_q}, BLOCK_K = ${d.block_k}, TILE_Q = ${c.tile_q}, TILE_K = ${c.tile_k};
constexpr int LANES = ${d.lanes}, ROW_GROUPS = ${d.row_groups}, KEY_SPLITS = ${d.splits};
constexpr int SPLIT_KEYS = BLOCK_K / KEY_SPLITS;  // keys of a tile that one set of waves takes
constexpr int KEYS = SPLIT_KEYS / LANES;           // keys of a tile that one thread scores
// positions are of type int: lengths end 2^16 before 2^31, and no step past a length is longer than a tile
static_assert(BLOCK_Q < 65536 && BLOCK_K < 65536, "tiles of 2^16 rows and more overflow positions");
// shared memory, in words of 32 bits and chunks of 16 bytes
constexpr int QK_CHUNKS = ${d.qk_chunks};          // chunks of a row of q or k that hold elements
constexpr int K_PITCH = ${d.k_pitch};              // chunks from row to row
% if c.q_in == "shared" then
constexpr int Q_PITCH = ${d.q_pitch};
% end
constexpr int P_CHUNKS = ${d.p_chunks}, P_PITCH = ${d.p_pitch};
constexpr int V_PITCH = ${d.v_pitch};              // words
constexpr int V_WORDS = ${d.v_words}, V_VECTORS = ${d.v_vectors};  // a thread's columns: V_VECTORS vectors of V_WORDS words
constexpr int VECTOR = ${d.vector}, COLUMNS = V_VECTORS * VECTOR;  // ... of VECTOR elements
// a row in global memory is read in units of 16 bytes, each in pieces as wide as the alignment allows
constexpr int Q_UNITS = ${d.q_units}, K_UNITS = ${d.k_units}, V_UNITS = ${d.v_units};
constexpr int K_STEPS = ${d.k_steps}, V_STEPS = ${d.v_steps};  // units a thread moves for each tile

typedef ${T[p.q_dtype].name} q_type;
typedef ${T[p.k_dtype].name} k_type;
typedef ${T[p.v_dtype].name} v_type;
typedef ${T[p.o_dtype].name} o_type;
% if c.index == "narrow" then
typedef u32 row_offset;  // bytes from a tile's base: the launch descriptor's limits keep a tile's span below 2^31
% else
typedef i64 row_offset;
% end

// word at which chunk `chunk` of a row begins
template <int PITCH> device_function int chunk_at(int row, int chunk)
{
% if c.lds_layout == "xor" then
    constexpr int across = ${d.across};  // chunks that reach across all banks; PITCH is a part of it, a power of two, or a multiple
    constexpr int mask = PITCH < across ? PITCH - 1 : across - 1, beside = PITCH < across ? across / PITCH : 1;
    // lanes that read one chunk of different rows meet different banks: so many rows lie beside each other, the next are turned
    return (row * PITCH + (chunk ^ ((u32)row / beside & mask))) * 4;
% elseif c.lds_layout == "padded" then
    return (row * PITCH + chunk) * 4;  // PITCH is odd: lanes that read one chunk of different rows meet different banks
% else
    return (row * PITCH + chunk) * 4;
% end
}

// One unit of a row. The last unit of a row holds TAIL bytes; nothing past them is read, zeros take their place.
template <int PIECE, int TAIL> device_function words4 load_unit(const char *address, bool last)
{
    words4 unit = {{0u, 0u, 0u, 0u}};
#pragma unroll
    for (int byte = 0; byte < 16; byte += PIECE)
        if (byte < TAIL || !last) {
            if constexpr (PIECE >= 4)
                load_words<PIECE / 4>(unit.word + byte / 4, address + byte);
            else
                unit.word[byte / 4] |= (u32) * (const u16 *)(address + byte) << byte % 4 * 8;
        }
    return unit;
}

% local widen_k, widen_q, widen_v = d.widen_k, d.widen_q, d.widen_v
% if widen_k or widen_q or widen_v then
// A unit of 16-bit elements becomes two chunks of fp32.
template <class T> device_function void widen(const words4 &unit, words4 &low, words4 &high)
{
#pragma unroll
    for (int word = 0; word < 2; ++word) {
        low.word[2 * word] = float_bits(low_element<T>(unit.word[word]));
        low.word[2 * word + 1] = float_bits(high_element<T>(unit.word[word]));
        high.word[2 * word] = float_bits(low_element<T>(unit.word[word + 2]));
        high.word[2 * word + 1] = float_bits(high_element<T>(unit.word[word + 2]));
    }
}

% end
% local function store_unit(widened, type, at)
%   if widened then
    words4 low, high;
    widen<${type}>(unit, low, high);
    store_words<4>(tile + ${string.format(at, "2 * column")}, low.word);
    store_words<4>(tile + ${string.format(at, "2 * column + 1")}, high.word);
%   else
    store_words<4>(tile + ${string.format(at, "column")}, unit.word);
%   end
% end
% if c.q_in == "shared" then
device_function void store_q_unit(u32 *tile, int row, int column, const words4 &unit)
{
% store_unit(widen_q, "q_type", "chunk_at<Q_PITCH>(row, %s)")
}
% end
device_function void store_k_unit(u32 *tile, int row, int column, const words4 &unit)
{
% store_unit(widen_k, "k_type", "chunk_at<K_PITCH>(row, %s)")
}
% if c.multiply ~= "dot2" then
device_function void store_v_unit(u32 *tile, int row, int column, const words4 &unit)
{
% store_unit(widen_v, "v_type", "row * V_PITCH + (%s) * 4")
}
% end

// A thread's units of a tile of k on their way from global memory: rows past the sequence's end repeat its last row, since
// their scores are masked and no address outside the tensor may be read.
device_function void load_k(words4 (&unit)[K_STEPS], const char *tile, row_offset row_bytes, int rows, int thread)
{
#pragma unroll
    for (int step = 0; step < K_STEPS; ++step) {
        const int index = thread + THREADS * step, row = index / K_UNITS, column = index % K_UNITS;
        unit[step] = load_unit<${d.k_piece}, ${d.k_tail}>(tile + (row_offset)minimum(row, rows - 1) * row_bytes + column * 16,
                                          column == K_UNITS - 1);
    }
}
device_function void store_k(const words4 (&unit)[K_STEPS], u32 *k_tile, int thread)
{
#pragma unroll
    for (int step = 0; step < K_STEPS; ++step) {
        const int index = thread + THREADS * step, row = index / K_UNITS;
        if (BLOCK_K * K_UNITS % THREADS == 0 || row < BLOCK_K)
            store_k_unit(k_tile, row, index % K_UNITS, unit[step]);
    }
}

% if c.multiply == "dot2" then
// v goes to shared memory with the keys of a pair side by side: one word holds one column of keys j and j + LANES, which are
// the two keys of a thread whose weights it packs into one word.
device_function int first_of_pair(int pair) { return pair / LANES * (2 * LANES) + pair % LANES; }
device_function void load_v(words4 (&unit)[V_STEPS], const char *tile, row_offset row_bytes, int rows, int thread)
{
#pragma unroll
    for (int step = 0; step < V_STEPS; ++step) {
        const int index = thread + THREADS * (step / 2), column = index % V_UNITS;
        const int row = first_of_pair(index / V_UNITS) + LANES * (step % 2);
        unit[step] = load_unit<${d.v_piece}, ${d.v_tail}>(tile + (row_offset)minimum(row, rows - 1) * row_bytes + column * 16,
                                          column == V_UNITS - 1);
    }
}
device_function void store_v(words4 (&unit)[V_STEPS], u32 *v_tile, int rows, int thread)
{
#pragma unroll
    for (int step = 0; step < V_STEPS; step += 2) {
        const int index = thread + THREADS * (step / 2), pair = index / V_UNITS, column = index % V_UNITS;
        words4 low, high;
        // a weight of 0 does not silence what lies past the sequence's end: 0 * NaN is NaN
        if (rows < BLOCK_K) {
#pragma unroll
            for (int word = 0; word < 4; ++word) {
                unit[step].word[word] = first_of_pair(pair) < rows ? unit[step].word[word] : 0u;
                unit[step + 1].word[word] = first_of_pair(pair) + LANES < rows ? unit[step + 1].word[word] : 0u;
            }
        }
#pragma unroll
        for (int word = 0; word < 2; ++word) {
            low.word[2 * word] = pack_low(unit[step].word[word], unit[step + 1].word[word]);
            low.word[2 * word + 1] = pack_high(unit[step].word[word], unit[step + 1].word[word]);
            high.word[2 * word] = pack_low(unit[step].word[word + 2], unit[step + 1].word[word + 2]);
            high.word[2 * word + 1] = pack_high(unit[step].word[word + 2], unit[step + 1].word[word + 2]);
        }
        if (BLOCK_K / 2 * V_UNITS % THREADS == 0 || pair < BLOCK_K / 2) {
            store_words<4>(v_tile + pair * V_PITCH + column * 8, low.word);
            store_words<4>(v_tile + pair * V_PITCH + column * 8 + 4, high.word);
        }
    }
}
% else
device_function void load_v(words4 (&unit)[V_STEPS], const char *tile, row_offset row_bytes, int rows, int thread)
{
#pragma unroll
    for (int step = 0; step < V_STEPS; ++step) {
        const int index = thread + THREADS * step, row = index / V_UNITS, column = index % V_UNITS;
        unit[step] = load_unit<${d.v_piece}, ${d.v_tail}>(tile + (row_offset)minimum(row, rows - 1) * row_bytes + column * 16,
                                          column == V_UNITS - 1);
    }
}
device_function void store_v(words4 (&unit)[V_STEPS], u32 *v_tile, int rows, int thread)
{
#pragma unroll
    for (int step = 0; step < V_STEPS; ++step) {
        const int index = thread + THREADS * step, row = index / V_UNITS;
        // a weight of 0 does not silence what lies past the sequence's end: 0 * NaN is NaN
        if (rows < BLOCK_K) {
#pragma unroll
            for (int word = 0; word < 4; ++word)
                unit[step].word[word] = row < rows ? unit[step].word[word] : 0u;
        }
        if (BLOCK_K * V_UNITS % THREADS == 0 || row < BLOCK_K)
            store_v_unit(v_tile, row, index % V_UNITS, unit[step]);
    }
}
% end

% if d.dropout then
${parts.philox}

% end
% if d.lse then
${parts.log_denominator(d.weight_bits)}

% end
${parts.store_outputs(p.o_dtype)}

${kernel.entry(t, d.launch, d.pointers, t.maker == "nvidia" and d.resident or nil)}
${kernel.shared(t, d.shared)}
% if c.kv_buffers == 1 then
    u32 *const v_tile = k_tile;
% end
% if c.exact == "lengths" then
    constexpr int seqlen_q = ${p.seqlen_q}, seqlen_k = ${p.seqlen_k};  // exact=lengths
% end
    const int thread = thread_index();
    const int lane = thread % LANES, row_group = thread / LANES % ROW_GROUPS;
    const int split = thread / (LANES * ROW_GROUPS);
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
    const float score_scale = scale * 1.44269504f;  // exp(x) = exp2(x log2 e)
% if d.dropout then
    const u64 seed_now = seed_pointer ? *seed_pointer : seed;
    const u32 offset_now = (u32)(offset_pointer ? *offset_pointer : offset);
% end

% if c.q_in == "shared" then
#pragma unroll
    for (int step = 0; step < ${d.q_steps}; ++step) {
        const int index = thread + THREADS * step, row = index / Q_UNITS, column = index % Q_UNITS;
        const words4 unit = load_unit<${d.q_piece}, ${d.q_tail}>(
            q_rows + (row_offset)minimum(row, q_count - 1) * q_row_bytes + column * 16, column == Q_UNITS - 1);
        if (BLOCK_Q * Q_UNITS % THREADS == 0 || row < BLOCK_Q)
            store_q_unit(q_tile, row, column, unit);
    }
% else
    words4 q_row[TILE_Q][${d.q_row_chunks}];  // the thread's rows stay in registers
#pragma unroll
    for (int i = 0; i < TILE_Q; ++i)
#pragma unroll
        for (int column = 0; column < Q_UNITS; ++column) {
            const int row = minimum(row_group + ROW_GROUPS * i, q_count - 1);
            const words4 unit = load_unit<${d.q_piece}, ${d.q_tail}>(q_rows + (row_offset)row * q_row_bytes + column * 16,
                                                   column == Q_UNITS - 1);
%   if widen_q then
            widen<q_type>(unit, q_row[i][2 * column], q_row[i][2 * column + 1]);
%   else
            q_row[i][column] = unit;
%   end
        }
% end

    float output[TILE_Q][COLUMNS], row_max[TILE_Q], row_sum[TILE_Q];
#pragma unroll
    for (int i = 0; i < TILE_Q; ++i) {
        row_max[i] = -INFINITY_FLOAT;
        row_sum[i] = 0.0f;  // this thread's keys only
#pragma unroll
        for (int column = 0; column < COLUMNS; ++column)
            output[i][column] = 0.0f;
    }

    words4 k_unit[K_STEPS], v_unit[V_STEPS];
% if c.prefetch == "registers" then
    if (keys_end > 0) {
        load_k(k_unit, k_rows, k_row_bytes, minimum(seqlen_k, BLOCK_K), thread);
%   if c.kv_buffers == 2 then
        load_v(v_unit, v_rows, v_row_bytes, minimum(seqlen_k, BLOCK_K), thread);
%   end
    }
% end
    for (int k_begin = 0; k_begin < keys_end; k_begin += BLOCK_K) {
        const int k_count = minimum(seqlen_k - k_begin, BLOCK_K);
        const char *const k_rows_here = k_rows + k_begin * k_seq_stride * (i64)sizeof(k_type);
        const char *const v_rows_here = v_rows + k_begin * v_seq_stride * (i64)sizeof(v_type);
% if c.prefetch == "off" then
        load_k(k_unit, k_rows_here, k_row_bytes, k_count, thread);
%   if c.kv_buffers == 2 then
        load_v(v_unit, v_rows_here, v_row_bytes, k_count, thread);
%   end
% end
        barrier();  // nobody reads the tiles before any more
        store_k(k_unit, k_tile, thread);
% if c.kv_buffers == 2 then
        store_v(v_unit, v_tile, k_count, thread);
% end
        barrier();
% if c.prefetch == "registers" then
%   if c.kv_buffers == 2 then
        if (k_begin + BLOCK_K < keys_end) {  // the next tiles travel while this one is worked on
            const int next_count = minimum(seqlen_k - k_begin - BLOCK_K, BLOCK_K);
            load_k(k_unit, k_rows_here + BLOCK_K * k_seq_stride * (i64)sizeof(k_type), k_row_bytes, next_count, thread);
            load_v(v_unit, v_rows_here + BLOCK_K * v_seq_stride * (i64)sizeof(v_type), v_row_bytes, next_count, thread);
        }
%   else
        load_v(v_unit, v_rows_here, v_row_bytes, k_count, thread);  // travels while scores are computed
%   end
% end

        // scores of the thread's rows and keys
        float score[TILE_Q][KEYS];
#pragma unroll
        for (int i = 0; i < TILE_Q; ++i)
#pragma unroll
            for (int n = 0; n < KEYS; ++n)
                score[i][n] = 0.0f;
#pragma unroll
        for (int block = 0; block < KEYS; block += TILE_K) {
#pragma unroll ${d.qk_unroll}
            for (int chunk = 0; chunk < QK_CHUNKS; ++chunk) {
% if d.mixed then
                words4 a[TILE_Q][2];  // 8 elements of q are two chunks, of k one
#pragma unroll
                for (int i = 0; i < TILE_Q; ++i)
#pragma unroll
                    for (int half = 0; half < 2; ++half)
% if c.q_in == "shared" then
                        load_words<4>(a[i][half].word,
                                      q_tile + chunk_at<Q_PITCH>(row_group + ROW_GROUPS * i, 2 * chunk + half));
% else
                        a[i][half] = q_row[i][2 * chunk + half];
% end
% else
                words4 a[TILE_Q];
#pragma unroll
                for (int i = 0; i < TILE_Q; ++i)
% if c.q_in == "shared" then
                    load_words<4>(a[i].word, q_tile + chunk_at<Q_PITCH>(row_group + ROW_GROUPS * i, chunk));
% else
                    a[i] = q_row[i][chunk];
% end
% end
#pragma unroll
                for (int j = 0; j < TILE_K; ++j) {
                    words4 b;
                    load_words<4>(b.word, k_tile + chunk_at<K_PITCH>(split * SPLIT_KEYS + lane + LANES * (block + j), chunk));
#pragma unroll
                    for (int word = 0; word < 4; ++word)
#pragma unroll
                        for (int i = 0; i < TILE_Q; ++i) {
                            float &sum = score[i][block + j];
% if c.multiply == "dot2" then
                            sum = dot2<q_type>(a[i].word[word], b.word[word], sum);
% elseif d.mixed then
                            const words4 &four = a[i][word / 2];
                            sum = fused(bits_float(four.word[2 * word % 4]), low_element<k_type>(b.word[word]), sum);
                            sum = fused(bits_float(four.word[2 * word % 4 + 1]), high_element<k_type>(b.word[word]), sum);
% elseif d.qk_bytes == 4 then
                            sum = fused(bits_float(a[i].word[word]), bits_float(b.word[word]), sum);
% else
                            sum = fused(low_element<q_type>(a[i].word[word]), low_element<k_type>(b.word[word]), sum);
                            sum = fused(high_element<q_type>(a[i].word[word]), high_element<k_type>(b.word[word]), sum);
% end
                        }
                }
            }
        }

        const int key = k_begin + split * SPLIT_KEYS + lane;  // of score[i][0]; the others follow LANES apart
#pragma unroll
        for (int i = 0; i < TILE_Q; ++i)
#pragma unroll
            for (int n = 0; n < KEYS; ++n)
                score[i][n] *= score_scale;
        if (k_begin + BLOCK_K > keys_unmasked) {
#pragma unroll
            for (int i = 0; i < TILE_Q; ++i) {
% if d.causal then
                const int visible = minimum(seqlen_k, q_begin + row_group + ROW_GROUPS * i + diagonal);
% else
                const int visible = seqlen_k;
% end
#pragma unroll
                for (int n = 0; n < KEYS; ++n)
                    score[i][n] = key + LANES * n < visible ? score[i][n] : -INFINITY_FLOAT;
            }
        }

        // softmax over what was seen so far: what a larger maximum makes too large is scaled down
#pragma unroll
        for (int i = 0; i < TILE_Q; ++i) {
            float tile_max = score[i][0];
#pragma unroll
            for (int n = 1; n < KEYS; ++n)
                tile_max = maximum(tile_max, score[i][n]);
            tile_max = maximum(row_max[i], group_maximum(LANES, tile_max));
            // a row that has seen no number yet keeps -infinity; only the exponents' origin is replaced
            const float origin = tile_max == -INFINITY_FLOAT ? 0.0f : tile_max;
            const float rescale = exp2_fast(row_max[i] - origin);
            row_max[i] = tile_max;
            row_sum[i] *= rescale;
#pragma unroll
            for (int column = 0; column < COLUMNS; ++column)
                output[i][column] *= rescale;
#pragma unroll
            for (int n = 0; n < KEYS; ++n) {
% if d.weight_bits ~= 0 then
                // weights up to 2^${d.weight_bits}: small ones stay normal numbers of f16; row_sum carries the same factor
                score[i][n] = exp2_fast(score[i][n] - (origin - ${d.weight_bits}.0f));
% else
                score[i][n] = exp2_fast(score[i][n] - origin);
% end
                row_sum[i] += score[i][n];
            }
        }
% if d.dropout then

        // keep or drop: keys 8 apart share a call (numerics.md has the numbering); the sum above stays without dropout
#pragma unroll
        for (int i = 0; i < TILE_Q; ++i)
#pragma unroll
            for (int group = 0; group < KEYS; group += ${d.philox_keys})
#pragma unroll
                for (int s = 0; s < ${d.philox_stride}; ++s) {
                    const int first = key + LANES * (group + s);
                    const words4 random = philox((u32)(first / 32 * 4 + first / 2 % 4),
                                                 (u32)(q_begin + row_group + ROW_GROUPS * i),
                                                 (u32)batch_index * (u32)heads + (u32)head, offset_now, (u32)seed_now,
                                                 (u32)(seed_now >> 32));
#pragma unroll
                    for (int use = 0; use < ${d.philox_uses}; ++use) {
% if d.lanes <= 8 then
                        const u32 word = random.word[use];
% elseif d.lanes == 16 then
                        const u32 word = choose(lane < 8, random.word[2 * use], random.word[2 * use + 1]);
% else
                        const int part = lane / 8 % 4;
                        const u32 word = choose(part < 2, choose(part == 0, random.word[0], random.word[1]),
                                                choose(part == 2, random.word[2], random.word[3]));
% end
                        const u32 draw = lane % 2 ? word >> 16 : word & 0xffffu;
                        float &weight = score[i][group + s + ${d.philox_stride} * use];
                        weight = draw < dropout_threshold ? weight : 0.0f;
                    }
                }
% end

        // pass the weights on: the rows' lanes are of one wave
#pragma unroll
        for (int i = 0; i < TILE_Q; ++i)
% if c.multiply == "dot2" then
#pragma unroll
            for (int n = 0; n < KEYS; n += 2) {
                const int word = lane + LANES * (n / 2);
                store_word(p_tile + chunk_at<P_PITCH>(split * BLOCK_Q + row_group + ROW_GROUPS * i, word / 4) + word % 4,
                           pack_elements<v_type>(score[i][n], score[i][n + 1]));
            }
% else
#pragma unroll
            for (int n = 0; n < KEYS; ++n) {
                const int word = lane + LANES * n;
                store_word(p_tile + chunk_at<P_PITCH>(split * BLOCK_Q + row_group + ROW_GROUPS * i, word / 4) + word % 4,
                           float_bits(score[i][n]));
            }
% end
% if c.kv_buffers == 1 then
%   if c.prefetch == "off" then
        load_v(v_unit, v_rows_here, v_row_bytes, k_count, thread);
%   end
        barrier();  // the scores are done with k: v takes its place
        store_v(v_unit, v_tile, k_count, thread);
        barrier();
%   if c.prefetch == "registers" then
        if (k_begin + BLOCK_K < keys_end)  // travels while the output is accumulated
            load_k(k_unit, k_rows_here + BLOCK_K * k_seq_stride * (i64)sizeof(k_type), k_row_bytes,
                   minimum(seqlen_k - k_begin - BLOCK_K, BLOCK_K), thread);
%   end
% else
        wave_barrier();
% end

        // output += weights v
#pragma unroll ${d.pv_unroll}
        for (int chunk = 0; chunk < P_CHUNKS; ++chunk) {
            words4 weight[TILE_Q];
#pragma unroll
            for (int i = 0; i < TILE_Q; ++i)
                load_words<4>(weight[i].word,
                              p_tile + chunk_at<P_PITCH>(split * BLOCK_Q + row_group + ROW_GROUPS * i, chunk));
#pragma unroll
            for (int step = 0; step < 4; ++step) {
                u32 value[V_VECTORS][V_WORDS];
#pragma unroll
                for (int vector = 0; vector < V_VECTORS; ++vector)
                    load_words<V_WORDS>(value[vector], v_tile + (split * (4 * P_CHUNKS) + 4 * chunk + step) * V_PITCH +
                                                           (lane + LANES * vector) * V_WORDS);
#pragma unroll
                for (int i = 0; i < TILE_Q; ++i)
#pragma unroll
                    for (int word = 0; word < V_VECTORS * V_WORDS; ++word) {
                        const u32 v_word = value[word / V_WORDS][word % V_WORDS];
% if c.multiply == "dot2" then
                        output[i][word] = dot2<v_type>(weight[i].word[step], v_word, output[i][word]);
% elseif d.v_bytes == 4 then
                        output[i][word] = fused(bits_float(weight[i].word[step]), bits_float(v_word), output[i][word]);
% else
                        output[i][2 * word] =
                            fused(bits_float(weight[i].word[step]), low_element<v_type>(v_word), output[i][2 * word]);
                        output[i][2 * word + 1] =
                            fused(bits_float(weight[i].word[step]), high_element<v_type>(v_word), output[i][2 * word + 1]);
% end
                    }
            }
        }
    }

#pragma unroll
    for (int i = 0; i < TILE_Q; ++i)
        row_sum[i] = group_sum(LANES, row_sum[i]);
% if d.splits > 1 then

    // merge: the other sets of waves leave maximum, sum and output where k was; the first takes them in, in order
    constexpr int MERGE_PITCH = ${d.merge_pitch};
    barrier();
    if (split > 0) {
#pragma unroll
        for (int i = 0; i < TILE_Q; ++i) {
            u32 *const slot = k_tile + ((split - 1) * BLOCK_Q + row_group + ROW_GROUPS * i) * MERGE_PITCH;
            if (lane == 0) {
                store_word(slot, float_bits(row_max[i]));
                store_word(slot + 1, float_bits(row_sum[i]));
            }
#pragma unroll
            for (int column = 0; column < COLUMNS; ++column)
                store_word(slot + 2 + lane + LANES * column, float_bits(output[i][column]));
        }
    }
    barrier();
    if (split > 0)
        return;
    for (int other = 0; other < KEY_SPLITS - 1; ++other)
#pragma unroll
        for (int i = 0; i < TILE_Q; ++i) {
            const u32 *const slot = k_tile + (other * BLOCK_Q + row_group + ROW_GROUPS * i) * MERGE_PITCH;
            const float other_max = bits_float(load_word(slot)), both_max = maximum(row_max[i], other_max);
            const float origin = both_max == -INFINITY_FLOAT ? 0.0f : both_max;
            const float rescale = exp2_fast(row_max[i] - origin), other_rescale = exp2_fast(other_max - origin);
            row_max[i] = both_max;
            row_sum[i] = fused(bits_float(load_word(slot + 1)), other_rescale, row_sum[i] * rescale);
#pragma unroll
            for (int column = 0; column < COLUMNS; ++column)
                output[i][column] = fused(bits_float(load_word(slot + 2 + lane + LANES * column)), other_rescale,
                                          output[i][column] * rescale);
        }
% end

    char *const o_rows = (char *)(o + batch_index * o_batch_stride + head * o_head_stride + q_begin * o_seq_stride);
    const row_offset o_row_bytes = (row_offset)(o_seq_stride * (i64)sizeof(o_type));
#pragma unroll
    for (int i = 0; i < TILE_Q; ++i) {
        const int row = row_group + ROW_GROUPS * i;
        if (row >= q_count)
            continue;
        // a row that saw no key: output 0, lse -infinity. Scores that are all NaN also leave the maximum, but a NaN sum.
        const bool empty = row_max[i] == -INFINITY_FLOAT && row_sum[i] == 0.0f;
% if d.dropout then
        const float factor = empty ? 0.0f : dropout_scale / row_sum[i];
% else
        const float factor = empty ? 0.0f : 1.0f / row_sum[i];
% end
#pragma unroll
        for (int vector = 0; vector < V_VECTORS; ++vector)
#pragma unroll
            for (int part = 0; part < VECTOR; part += ${d.o_part}) {
                const int column = (lane + LANES * vector) * VECTOR + part;
                float value[${d.o_part}];
#pragma unroll
                for (int e = 0; e < ${d.o_part}; ++e)
                    value[e] = output[i][vector * VECTOR + part + e] * factor;
% if d.padded_v then
                if (column >= HEAD_DIM_V)
                    continue;
% end
                store_outputs<${d.o_part}>(o_rows + (row_offset)row * o_row_bytes + column * (int)sizeof(o_type), value);
            }
% if d.lse then
        if (lane == 0)
            lse[((i64)batch_index * heads + head) * seqlen_q + q_begin + row] =
                empty ? -INFINITY_FLOAT : log_denominator(row_max[i], row_sum[i]);
% end
    }
}
${kernel.note(t, d.launch)}
