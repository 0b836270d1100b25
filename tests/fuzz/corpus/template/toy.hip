% -- a comment of the dialect: no line of output
#define WAVE ${t.wave}
#define THIRD ${d.third}f
#define HALF ${0.5} ${2.0} ${7}
kernel_entry(toy_scale, ${c.threads})
{
% for i = 0, c.unroll - 1 do
%     local step = c.order == "down" and c.unroll - 1 - i or i
    /* element ${i} */
    y[index + ${step} * ${c.threads}] = x[index + ${step} * ${c.threads}] * factor;
% end
    ${"two\n    lines"} of one value
    after them
}
% if c.wide == "yes" then
/* wide: ${({a = "}"}).a} ${'}'} */
% end
/* launch ${d.launch.kernel} ${true} */
