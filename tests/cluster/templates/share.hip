% local kernel = import("kernel")

${kernel.entry(t, d.launch, { x = "const float *", y = "float *" })}
    const u32 block = block_index_x() + origin_x;
    const i64 i = (i64)block * 64 + thread_index();
    if (i < elements)
        y[i] = ${c.mode % 3 == 1 and "2" or "1"}.0f * x[i];
}
${kernel.note(t, d.launch)}
