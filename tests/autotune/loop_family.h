/* loop_family.h - the family loop/: y = 2 x, with as many candidates as a test wants and a parameter that changes no
 * byte of the binary. */
#ifndef TESTS_AUTOTUNE_LOOP_FAMILY_H
#define TESTS_AUTOTUNE_LOOP_FAMILY_H

#include "parts.h"

#include <string.h>

/* A generator that knows the family, written into `folder`. `modes` and `aliases` are Lua lists: "1, 2, 3"; a mode
 * below zero is wrong, one from 100 on serves its problem's size alone, the kernel of any is called loop_r<mode>. The
 * first mode is the default's. */
static inline struct generator *loop_family(const char *folder, const char *modes, const char *aliases)
{
    static const char kernel[] = "% local kernel = import(\"kernel\")\n"
                                 "constexpr int WAVE = ${t.wave}, THREADS = ${d.launch.threads};\n"
                                 "${kernel.entry(t, d.launch, {x = \"const float *\", y = \"float *\"})}\n"
                                 "    const int i = (int)(origin_x + block_index_x()) * THREADS + thread_index();\n"
                                 "    if (i < n) y[i] = ${c.mode < 0 and \"1\" or \"2\"}.0f * x[i];\n"
                                 "}\n"
                                 "${kernel.note(t, d.launch)}\n";
    static const char family[] =
        "return { name = 'loop', doc = 'y = 2 x',\n"
        "  fields = { { name = 'n', kind = 'integer', role = 'size', required = true, always = true, min = 0, max = "
        "999 } "
        "},\n"
        "  tensors = function(p) return { { name = 'x', dtype = 'f32', output = false, elements = p.n },\n"
        "                                 { name = 'y', dtype = 'f32', output = true, elements = p.n } } end,\n"
        "  inputs = function(p, name, kind, random) local x = {}; for i = 1, p.n do x[i] = random() end; return x "
        "end,\n"
        "  reference = function(p, t) local y, allowed = {}, {}\n"
        "    for i = 1, p.n do y[i] = 2 * t.x[i]; allowed[i] = 0 end; return { y = y }, { y = allowed } end,\n"
        "  operations = function(p) return p.n end,\n"
        "  templates = { { name = 'plain', file = 'loop.hip', doc = 'one thread an element',\n"
        "    supports = function(p, t) return true end,\n"
        "    parameters = { { name = 'mode', doc = 'which kernel', values = { %s } },\n"
        "                   { name = 'alias', doc = 'nothing', values = { %s } } },\n"
        "    constraints = {},\n"
        "    default = function(p, t) return { mode = ({ %s })[1], alias = 1 } end,\n"
        "    launch = function(c, p, t, d) return { kernel = 'loop_r' .. (c.mode < 0 and 'wrong' or c.mode),\n"
        "      threads = 64, static_shared_bytes = 0, dynamic_shared_bytes = 0,\n"
        "      arguments = { { 'x', 'pointer' }, { 'y', 'pointer' }, { 'n', 'i32' }, { 'origin_x', 'u32' } },\n"
        "      fixed = c.mode >= 100 and { { 'n', p.n } } or {},\n"
        "      grid = { { { 'n', 64 } }, {}, {} }, workspace = { constant = 0, factor = 0, dims = {} } } end } } }\n";
    struct buffer lua = BUFFER_INIT;
    struct generator *generator;
    struct error error = {0};
    char path[600];
    buffer_format(&lua, family, modes, aliases, modes);
    assert_int_equal(path_join(path, sizeof path, folder, "loop.lua", NULL), ATTUNE_OK);
    assert_int_equal(file_write(path, lua.data, lua.length, &error), ATTUNE_OK);
    assert_int_equal(path_join(path, sizeof path, folder, "loop.hip", NULL), ATTUNE_OK);
    assert_int_equal(file_write(path, kernel, strlen(kernel), &error), ATTUNE_OK);
    buffer_free(&lua);
    if (generator_create(&(struct generator_options){.template_path = folder}, &generator, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    return generator;
}

#endif
