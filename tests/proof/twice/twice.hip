// twice.hip - y = 2 x, or what the mode says instead. A thread of its own hangs or faults: what the others wrote is right.
% local kernel = import("kernel")
% if c.mode == "compile" then
template <int N> constexpr long work()
{
    long sum = N;
    for (long i = 0; i < 200000; ++i)
        for (long j = 0; j < 20; ++j) sum += (i ^ j) & N;
    return sum;
}
% for i = 1, 400 do
static_assert(work<${i}>() != 0, "");
% end
% end
% if c.mode == "stack" then
static int deeper(volatile int *level)
{
    volatile int mine[64] = {*level};
    return deeper(mine) + mine[0];
}
% end
constexpr int WAVE = ${t.wave}, THREADS = ${d.launch.threads};
${kernel.entry(t, d.launch, {x = "const float *", y = "float *"})}
    const int i = (int)(origin_x + block_index_x()) * THREADS + thread_index();
% if c.mode == "early" then
    return;
% elseif c.mode == "half" then
    if (i < n / 2) y[i] = 2.0f * x[i];
% elseif c.mode == "shifted" then
    if (i < n) y[i] = 2.0f * x[i > 0 ? i - 1 : 0];
% elseif c.mode == "normal_only" then
    if (i < n) y[i] = 2.0f * (x[i] > 6.0f ? 6.0f : x[i]);
% elseif c.mode == "beyond" then
    if (i < n + 1) y[i] = 2.0f * x[i];
% else
    if (i < n) y[i] = 2.0f * x[i];
% end
    if (i == 0) {
% if c.mode == "spin" then
        for (volatile unsigned long long turn = 0; turn < 60000000000ull; turn = turn + 1) {}
% elseif c.mode == "forever" then
        const volatile float *at = y; // which is no NaN
        while (*at == *at) {}
% elseif c.mode == "fault" then
        *(volatile float *)8ull = 1.0f;
% elseif c.mode == "exit" then
        asm volatile("syscall" : : "a"(231), "D"(0) : "rcx", "r11", "memory");
% elseif c.mode == "stack" then
        volatile int level = n;
        y[0] = 2.0f * x[0] + (float)deeper(&level);
% elseif c.mode == "divergent" then
        barrier();
% end
    }
}
${kernel.note(t, d.launch)}
