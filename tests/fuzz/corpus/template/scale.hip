% local kernel = import("kernel")
constexpr int THREADS = ${c.threads}, UNROLL = ${c.unroll};

${kernel.entry(t, d.launch, { x = "const float *", y = "float *" })}
    const u32 block = block_index_x() + origin_x;
    for (int step = 0; step < UNROLL; ++step) {
        const i64 i = ((i64)block * UNROLL + step) * THREADS + thread_index();
        if (i < elements)
            y[i] = factor * x[i];
    }
}
${kernel.note(t, d.launch)}
