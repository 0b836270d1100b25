% local kernel, judge = import("kernel"), import("attention_judge")
// Error over allowed error for each row of an attention output: |o - reference| / allowed, and the same for lse.
// At most 1 passes; infinity stands for NaN where the reference has a number and the like.

constexpr int HEAD_DIM_V = ${p.head_dim_v}, WAVE = ${t.wave};
constexpr int THREADS = ${d.threads}, ROWS = ${d.rows}, SHARE = THREADS / ROWS;  // threads for each row

typedef ${kernel.types[p.o_dtype].name} o_type;

${judge.square_root}

device_function float ratio_of(double error, double allowed)
{
    if (error <= allowed)
        return error > 0.0 && error < allowed ? (float)(error / allowed) : error > 0.0 ? 1.0f : 0.0f;
    const float ratio = (float)(error / allowed);
    return ratio > 1.0f ? ratio : INFINITY_FLOAT;  // NaN too
}

${kernel.entry(t, d.launch, d.pointers)}
${kernel.shared(t, d.shared)}
    double *const partial = (double *)partial_words;
    const int thread = thread_index();
    const int head = (int)(block_index_y() + origin_y), batch_index = (int)(block_index_z() + origin_z);
    const int row = (int)(block_index_x() + origin_x) * ROWS + thread / SHARE;
    const i64 index = ((i64)batch_index * heads + head) * seqlen_q + row;

    double squares = 0.0;
    if (row < seqlen_q) {
        const o_type *const given = o + batch_index * o_batch_stride + head * o_head_stride + row * o_seq_stride;
        for (int c = thread % SHARE; c < HEAD_DIM_V; c += SHARE) {
            const double exact = reference[index * HEAD_DIM_V + c], value = (double)to_float(given[c]);
            const bool both_nan = exact != exact && value != value;
            const double off = both_nan || value == exact ? 0.0 : value - exact;
            squares += off * off;
        }
    }
    partial[thread] = squares;
    barrier();
    if (thread % SHARE != 0 || row >= seqlen_q)
        return;
    squares = 0.0;
    for (int i = 0; i < SHARE; ++i)
        squares += partial[thread + i];
    float worst = ratio_of(square_root(squares), allowed[index]);
% if p.lse ~= 0 then
    const double exact = reference_lse[index], value = (double)lse[index];
    if (!(value == exact || (exact != exact && value != value))) {
        const double off = value - exact;
        const float ratio = ratio_of(off < 0.0 ? -off : off, lse_allowed[index]);
        worst = worst > ratio ? worst : ratio;
    }
% end
    ratios[index] = worst;
}
${kernel.note(t, d.launch)}
