% local kernel = import("kernel")
% if p.fault == "compile" then
#error "this fault does not compile"
% end

${kernel.entry(t, d.launch, { x = "const float *", y = "float *" })}
    const u32 block = block_index_x() + origin_x;
    const i64 i = (i64)block * ${c.threads} + thread_index();
    if (i < elements)
        y[i] = x[i];
% if p.fault == "crash" then
    *(volatile float *)(y + ((i64)1 << 44)) = 1.0f;
% elseif p.fault == "nan" then
    if (i == 3)
        y[i] = __builtin_nanf("");
% elseif p.fault == "wrong" then
    if (i == 3)
        y[i] = x[i] + 1.0f;
% elseif p.fault == "beyond" then
    if (i == 3)
        y[elements] = 1.0f;
% elseif p.fault == "race" then
    y[0] = x[0] + (i - i);
% elseif p.fault == "hang" then
    while (*(volatile const float *)x == *(volatile const float *)x) {
    }
% end
}
${kernel.note(t, d.launch)}
