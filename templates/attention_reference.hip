% local kernel, judge = import("kernel"), import("attention_judge")
% local T = kernel.types
% local unit = { f16 = "0x1p-11", bf16 = "0x1p-8", f32 = "0x1p-23" }
% local coarser = { f16 = 2, bf16 = 3, f32 = 1 }
% local normal = { f16 = "0x1p-14f", bf16 = "0x1p-126f" }
% local function least(dtype) return d.flushes and normal[dtype] or "0.0f" end
% local roundoff = coarser[p.v_dtype] > coarser[p.o_dtype] and unit[p.v_dtype] or unit[p.o_dtype]
// Attention in fp64, two passes, for checking: nothing here is fast and nothing is shared with the kernels it checks.
//
// A block takes ROWS queries of one head. First pass: each thread walks over every THREADS-th key and keeps maximum and sum of
// each row, in fp64 and, for the naive algorithm, in fp32. Second pass: weights of a tile of keys, one key a thread, then
// each thread adds up its own columns. Norms give the bound of docs/numerics.md.

constexpr int HEAD_DIM_QK = ${p.head_dim_qk}, HEAD_DIM_V = ${p.head_dim_v};
constexpr int WAVE = ${t.wave};
constexpr int THREADS = ${d.threads}, ROWS = ${d.rows}, COLUMNS = ${d.columns};  // columns of the output a thread owns
constexpr double ROUNDOFF = ${roundoff};  // the coarser unit roundoff of v and o
// elements below these count as zero in the naive algorithm, as in the products of this target; 0: none do
constexpr float LEAST_Q = ${least(p.q_dtype)}, LEAST_K = ${least(p.k_dtype)}, LEAST_V = ${least(p.v_dtype)};

typedef ${T[p.q_dtype].name} q_type;
typedef ${T[p.k_dtype].name} k_type;
typedef ${T[p.v_dtype].name} v_type;
typedef ${T[p.o_dtype].name} o_type;

${judge.square_root}

device_function double largest_of(double a, double b) { return a > b ? a : b; }
device_function double magnitude(double a) { return a < 0.0 ? -a : a; }
device_function float taken(float element, float least) { return element < least && element > -least ? 0.0f : element; }

// e^x for x <= 0, relative error below 2^-50; 0 below -700, NaN for NaN
device_function double exponential(double x)
{
    if (x != x)
        return x;
    if (x < -700.0)
        return 0.0;
    const int whole = (int)(x * 1.4426950408889634074 - 0.5);
    const double r = (x - whole * 0.693147180369123816490) - whole * 1.90821492927058770002e-10;
    double sum = 1.0;
#pragma unroll
    for (int n = 14; n > 0; --n)  // Taylor by Horner: |r| < 0.35, the rest is below 2^-60
        sum = 1.0 + sum * (r * (1.0 / n));
    double_bits power;
    power.bits = (u64)(whole + 1023) << 52;
    return sum * power.value;
}

// ln x for a normal x > 0; NaN for NaN
device_function double logarithm(double x)
{
    double_bits bits;
    bits.value = x;
    if (x != x)
        return x;
    int whole = (int)(bits.bits >> 52) - 1023;
    bits.bits = (bits.bits & 0xfffffffffffffull) | 0x3ff0000000000000ull;
    if (bits.value > 1.4142135623730951) {
        bits.value *= 0.5;
        whole += 1;
    }
    const double t = (bits.value - 1.0) / (bits.value + 1.0), s = t * t;
    double sum = 0.0;
    for (int n = 25; n > 0; n -= 2)  // 2 atanh t, |t| < 0.172
        sum = sum * s + 1.0 / n;
    return whole * 0.69314718055994530942 + 2.0 * t * sum;
}

% if p.dropout ~= 0 then
// Is the weight of (query, key) kept? Philox4x32 with 7 rounds, numbering of docs/numerics.md.
device_function bool is_kept(u32 key, u32 query, u32 stream, u32 offset, u64 seed, u32 threshold)
{
    const u32 a = key / 32, b = key / 8 % 4, c = key / 2 % 4, e = key % 2;
    u32 counter[4] = {4 * a + c, query, stream, offset};
    u32 low = (u32)seed, high = (u32)(seed >> 32);
    for (int round = 0; round < 7; ++round) {
        const u64 first = 0xd2511f53ull * counter[0], second = 0xcd9e8d57ull * counter[2];
        const u32 next0 = (u32)(second >> 32) ^ counter[1] ^ low, next2 = (u32)(first >> 32) ^ counter[3] ^ high;
        counter[1] = (u32)second;
        counter[3] = (u32)first;
        counter[0] = next0;
        counter[2] = next2;
        low += 0x9e3779b9u;
        high += 0xbb67ae85u;
    }
    const u32 half = 2 * b + e;
    const u32 draw = counter[half / 2] >> (half % 2 * 16) & 0xffffu;
    return draw < threshold;
}

% end
// scores of one key against the block's rows, before scaling; the naive ones in fp32. The key's squared norm, and that of what
// the naive algorithm takes as zero
device_function double score_key(const k_type *row, const double *q_tile, double (&score)[ROWS], float (&naive)[ROWS],
                                 double &loss)
{
    double norm = 0.0;
    loss = 0.0;
    for (int r = 0; r < ROWS; ++r) {
        score[r] = 0.0;
        naive[r] = 0.0f;
    }
    for (int c = 0; c < HEAD_DIM_QK; ++c) {
        const float element = to_float(row[c]);
        const float naive_element = taken(element, LEAST_K);
        norm += (double)element * element;
        loss += naive_element == 0.0f ? (double)element * element : 0.0;
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            const double factor = q_tile[r * HEAD_DIM_QK + c];
            score[r] += factor * element;
            naive[r] += taken((float)factor, LEAST_Q) * naive_element;
        }
    }
    return norm;
}

${kernel.entry(t, d.launch, d.pointers)}
${kernel.shared(t, d.shared)}
    double *const q_tile = (double *)q_words;            // ROWS x HEAD_DIM_QK
    double *const weight_tile = (double *)weight_words;  // ROWS x THREADS
    float *const naive_tile = (float *)naive_words;      // ROWS x THREADS
    double *const partial = (double *)partial_words;     // ROWS x THREADS
    double *const of_row = (double *)row_words;          // 8 results for each row
    enum { MAXIMUM, SUM, NAIVE_MAXIMUM, NAIVE_SUM, SCORE_LIMIT, KEY_NORM, KEY_LOSS, RESULTS };

    const int thread = thread_index();
    const int q_begin = (int)(block_index_x() + origin_x) * ROWS;
    const int head = (int)(block_index_y() + origin_y), batch_index = (int)(block_index_z() + origin_z);
    const int kv_head = head / (heads / kv_heads);
    const q_type *const q_rows = q + batch_index * q_batch_stride + head * q_head_stride;
    const k_type *const k_rows = k + batch_index * k_batch_stride + kv_head * k_head_stride;
    const v_type *const v_rows = v + batch_index * v_batch_stride + kv_head * v_head_stride;

    for (int index = thread; index < ROWS * HEAD_DIM_QK; index += THREADS) {
        const int row = q_begin + index / HEAD_DIM_QK;
        q_tile[index] = row < seqlen_q ? (double)to_float(q_rows[(i64)row * q_seq_stride + index % HEAD_DIM_QK]) : 0.0;
    }
    i64 visible[ROWS], keys_end = 0;
    for (int r = 0; r < ROWS; ++r) {
        const int row = q_begin + r;
% if p.causal == "bottom_right" then
        visible[r] = (i64)row + 1 + seqlen_k - seqlen_q;
% elseif p.causal == "top_left" then
        visible[r] = (i64)row + 1;
% else
        visible[r] = seqlen_k;
% end
        visible[r] = visible[r] < 0 || row >= seqlen_q ? 0 : visible[r] > seqlen_k ? seqlen_k : visible[r];
        keys_end = visible[r] > keys_end ? visible[r] : keys_end;
    }
    barrier();

    double maximum_of[ROWS], sum_of[ROWS], limit_of[ROWS], norm_of[ROWS], loss_of[ROWS];
    float naive_maximum[ROWS], naive_sum[ROWS];
    for (int r = 0; r < ROWS; ++r) {
        maximum_of[r] = -(double)INFINITY_FLOAT;
        naive_maximum[r] = -INFINITY_FLOAT;
        sum_of[r] = limit_of[r] = norm_of[r] = loss_of[r] = 0.0;
        naive_sum[r] = 0.0f;
    }
    double score[ROWS];
    float naive[ROWS];
    for (i64 key = thread; key < keys_end; key += THREADS) {
        double loss;
        const double norm = score_key(k_rows + key * k_seq_stride, q_tile, score, naive, loss);
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            if (key >= visible[r])
                continue;
            const double scaled = score[r] * scale;
            const float naive_scaled = naive[r] * scale;
            limit_of[r] = largest_of(limit_of[r], magnitude(scaled));
            norm_of[r] = largest_of(norm_of[r], norm);
            loss_of[r] = largest_of(loss_of[r], loss);
            if (!(scaled <= maximum_of[r])) {  // larger, or NaN, which stays in the sum
                sum_of[r] = sum_of[r] * exponential(maximum_of[r] - scaled) + 1.0;
                maximum_of[r] = scaled;
            } else {
                sum_of[r] += exponential(scaled - maximum_of[r]);
            }
            if (!(naive_scaled <= naive_maximum[r])) {
                naive_sum[r] = naive_sum[r] * (float)exponential(naive_maximum[r] - naive_scaled) + 1.0f;
                naive_maximum[r] = naive_scaled;
            } else {
                naive_sum[r] += (float)exponential(naive_scaled - naive_maximum[r]);
            }
        }
    }

    // over the threads, row r by thread r
    for (int r = 0; r < ROWS; ++r) {
        weight_tile[r * THREADS + thread] = maximum_of[r];
        partial[r * THREADS + thread] = sum_of[r];
    }
    barrier();
    if (thread < ROWS) {
        double top = -(double)INFINITY_FLOAT, sum = 0.0;
        for (int i = 0; i < THREADS; ++i)
            top = largest_of(top, weight_tile[thread * THREADS + i]);
        for (int i = 0; i < THREADS; ++i)
            if (partial[thread * THREADS + i] != 0.0)  // a thread that saw no key has maximum -infinity
                sum += partial[thread * THREADS + i] * exponential(weight_tile[thread * THREADS + i] - top);
        of_row[thread * 8 + MAXIMUM] = top;
        of_row[thread * 8 + SUM] = sum;
    }
    barrier();
    for (int r = 0; r < ROWS; ++r) {
        weight_tile[r * THREADS + thread] = (double)naive_maximum[r];
        partial[r * THREADS + thread] = (double)naive_sum[r];
    }
    barrier();
    if (thread < ROWS) {
        double top = -(double)INFINITY_FLOAT;
        float sum = 0.0f;
        for (int i = 0; i < THREADS; ++i)
            top = largest_of(top, weight_tile[thread * THREADS + i]);
        for (int i = 0; i < THREADS; ++i)
            if (partial[thread * THREADS + i] != 0.0)
                sum += (float)(partial[thread * THREADS + i] * exponential(weight_tile[thread * THREADS + i] - top));
        of_row[thread * 8 + NAIVE_MAXIMUM] = top;
        of_row[thread * 8 + NAIVE_SUM] = (double)sum;
    }
    barrier();
    for (int r = 0; r < ROWS; ++r) {
        weight_tile[r * THREADS + thread] = limit_of[r];
        partial[r * THREADS + thread] = norm_of[r];
    }
    barrier();
    if (thread < ROWS) {
        double limit = 0.0, norm = 0.0;
        for (int i = 0; i < THREADS; ++i) {
            limit = largest_of(limit, weight_tile[thread * THREADS + i]);
            norm = largest_of(norm, partial[thread * THREADS + i]);
        }
        of_row[thread * 8 + SCORE_LIMIT] = limit;
        of_row[thread * 8 + KEY_NORM] = norm;
    }
    barrier();
    for (int r = 0; r < ROWS; ++r)
        partial[r * THREADS + thread] = loss_of[r];
    barrier();
    if (thread < ROWS) {
        double loss = 0.0;
        for (int i = 0; i < THREADS; ++i)
            loss = largest_of(loss, partial[thread * THREADS + i]);
        of_row[thread * 8 + KEY_LOSS] = loss;
    }
    // no barrier: the loop has one before `partial` is written again, and without keys zeros take the place of zeros

    double output[ROWS][COLUMNS], squares[ROWS];
    float naive_output[ROWS][COLUMNS];
    for (int r = 0; r < ROWS; ++r) {
        squares[r] = 0.0;
        for (int column = 0; column < COLUMNS; ++column) {
            output[r][column] = 0.0;
            naive_output[r][column] = 0.0f;
        }
    }
    for (i64 begin = 0; begin < keys_end; begin += THREADS) {
        const i64 key = begin + thread;
        double loss;
        if (key < keys_end)
            score_key(k_rows + key * k_seq_stride, q_tile, score, naive, loss);
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            double weight = 0.0;
            float naive_weight = 0.0f;
            if (key < visible[r]) {
                double factor = 1.0;
% if p.dropout ~= 0 then
                factor = is_kept((u32)key, (u32)(q_begin + r), (u32)batch_index * (u32)heads + (u32)head, (u32)offset, seed,
                                 dropout_threshold) ? (double)dropout_scale : 0.0;
% end
                weight = exponential(score[r] * scale - of_row[r * 8 + MAXIMUM]) / of_row[r * 8 + SUM] * factor;
                const float from_top = naive[r] * scale - (float)of_row[r * 8 + NAIVE_MAXIMUM];
                const float share = (float)exponential((double)from_top) / (float)of_row[r * 8 + NAIVE_SUM];
                naive_weight = to_float(from_float<v_type>(share * (float)factor));
            }
            weight_tile[r * THREADS + thread] = weight;
            naive_tile[r * THREADS + thread] = naive_weight;
        }
        barrier();
        const int count = (int)(keys_end - begin < THREADS ? keys_end - begin : THREADS);
        for (int i = 0; i < count; ++i) {
#pragma unroll
            for (int column = 0; column < COLUMNS; ++column) {
                const int c = thread + THREADS * column;
                if (c >= HEAD_DIM_V)
                    continue;
                const float element = to_float(v_rows[(begin + i) * v_seq_stride + c]);
#pragma unroll
                for (int r = 0; r < ROWS; ++r) {
                    if (begin + i >= visible[r])  // a hidden key's NaN does not reach the row
                        continue;
                    const double weight = weight_tile[r * THREADS + i], term = weight * element;
                    output[r][column] += term;
                    squares[r] += term * term;
                    naive_output[r][column] += naive_tile[r * THREADS + i] * taken(element, LEAST_V);
                }
            }
        }
        barrier();
    }

    // norms over the columns: |naive - exact|^2, |exact|^2, sum P^2 V^2
    for (int r = 0; r < ROWS; ++r) {
        double difference = 0.0, norm = 0.0;
        for (int column = 0; column < COLUMNS; ++column) {
            const int c = thread + THREADS * column, row = q_begin + r;
            if (c >= HEAD_DIM_V || row >= seqlen_q)
                continue;
            const double exact = output[r][column];
            const double off = (double)to_float(from_float<o_type>(naive_output[r][column])) - exact;
            difference += off * off;
            norm += exact * exact;
            reference[((((i64)batch_index * heads + head) * seqlen_q) + row) * HEAD_DIM_V + c] = exact;
        }
        weight_tile[r * THREADS + thread] = difference;
        partial[r * THREADS + thread] = norm;
    }
    barrier();
    double difference = 0.0, norm = 0.0, square = 0.0;
    if (thread < ROWS)
        for (int i = 0; i < THREADS; ++i) {
            difference += weight_tile[thread * THREADS + i];
            norm += partial[thread * THREADS + i];
        }
    barrier();
    for (int r = 0; r < ROWS; ++r)
        partial[r * THREADS + thread] = squares[r];
    barrier();
    const int row = q_begin + thread;
    if (thread >= ROWS || row >= seqlen_q)
        return;
    double query_norm = 0.0, query_loss = 0.0;
    for (int i = 0; i < THREADS; ++i)
        square += partial[thread * THREADS + i];
    for (int c = 0; c < HEAD_DIM_QK; ++c) {
        const double element = q_tile[thread * HEAD_DIM_QK + c];
        query_norm += element * element;
        query_loss += taken((float)element, LEAST_Q) == 0.0f ? element * element : 0.0;
    }
    const i64 index = ((i64)batch_index * heads + head) * seqlen_q + row;
    const double *const mine = of_row + thread * 8;
    // the last term: weights below 2^-126 of the row's largest may be 0 in fp32; a row without keys must be exactly 0
    allowed[index] = 2.0 * square_root(difference) +
                     (ROUNDOFF + 0x1p-22 * (1.0 + mine[SCORE_LIMIT])) * (square_root(norm) + square_root(square)) +
                     (mine[SUM] == 0.0 ? 0.0 : 0x1p-110);
    reference_lse[index] = mine[SUM] == 0.0 ? -(double)INFINITY_FLOAT : mine[MAXIMUM] + logarithm(mine[SUM]);
    lse_allowed[index] = 0x1p-20 * largest_of(1.0, magnitude((double)scale) * square_root(query_norm) *
                                                       square_root(mine[KEY_NORM])) +
                         magnitude((double)scale) * (square_root(query_loss) * square_root(mine[KEY_NORM]) +
                                                     square_root(query_norm) * square_root(mine[KEY_LOSS]));
}
${kernel.note(t, d.launch)}
