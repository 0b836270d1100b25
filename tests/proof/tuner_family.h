/* tuner_family.h - a family of one small kernel whose candidates misbehave by name: y = 2 x, in the mode that is asked
 * for. The tuner must find `right` among them whatever the others do. */
#ifndef TESTS_PROOF_TUNER_FAMILY_H
#define TESTS_PROOF_TUNER_FAMILY_H

#include "tests/autotune/parts.h"

#include <stdio.h>
#include <string.h>

/* %1$s: the modes as Lua strings; %2$s: the default mode; %3$s: the reference's factor */
static const char tuner_family_lua[] =
    "local kernel = import(\"kernel\")\n"
    "local shared = { static_fits = {65536, 0}, static_over = {65540, 0}, static_far = {131072, 0},\n"
    "  dynamic_fits = {0, 65536}, dynamic_over = {0, 65540}, dynamic_far = {0, 131072} }\n"
    "return { name = \"twice\", doc = \"y = 2 x\",\n"
    "  fields = { { name = \"n\", kind = \"integer\", role = \"size\", required = true, always = true, min = 0,\n"
    "    max = 100000 } },\n"
    "  tensors = function(p) return { { name = \"x\", dtype = \"f32\", output = false, elements = p.n },\n"
    "    { name = \"y\", dtype = \"f32\", output = true, elements = p.n } } end,\n"
    "  inputs = function(p, name, kind, random) local x, scale = {}, kind == \"peaked\" and 8 or 1\n"
    "    for i = 1, p.n do x[i] = scale * random() end return x end,\n"
    "  reference = function(p, t) local y, allowed = {}, {}\n"
    "    for i = 1, p.n do y[i] = %3$s * t.x[i] allowed[i] = 0 end return { y = y }, { y = allowed } end,\n"
    "  operations = function(p) return p.n end,\n"
    "  templates = { { name = \"plain\", file = \"twice.hip\", doc = \"one thread an element\",\n"
    "    supports = function(p, t) return true end,\n"
    "    parameters = { { name = \"mode\", doc = \"what it does\", values = { %1$s } } },\n"
    "    constraints = {}, default = function(p, t) return { mode = \"%2$s\" } end,\n"
    "    launch = function(c, p, t, d) local bytes = shared[c.mode] or {0, 0}\n"
    "      return { kernel = \"twice_\" .. c.mode, threads = c.mode == \"threads\" and 1025 or 64,\n"
    "        static_shared_bytes = bytes[1], dynamic_shared_bytes = bytes[2],\n"
    "        arguments = { { \"x\", \"pointer\" }, { \"y\", \"pointer\" }, { \"n\", \"i32\" }, { \"origin_x\", "
    "\"u32\" } },\n"
    "        grid = { { { \"n\", 64 } }, {}, {} },\n"
    "        workspace = { constant = c.mode == \"memory\" and 8 << 30 or 0, factor = 0, dims = {} } } end } } }\n";

/* A thread of its own hangs or crashes: what the others wrote is right. */
static const char tuner_family_hip[] =
    "% local kernel = import(\"kernel\")\n"
    "% if c.mode == \"compile\" then\n"
    "template <int N> constexpr long work()\n"
    "{\n"
    "    long sum = N;\n"
    "    for (long i = 0; i < 200000; ++i)\n"
    "        for (long j = 0; j < 20; ++j) sum += (i ^ j) & N;\n"
    "    return sum;\n"
    "}\n"
    "% for i = 1, 400 do\n"
    "static_assert(work<${i}>() != 0, \"\");\n"
    "% end\n"
    "% end\n"
    "% if c.mode == \"stack\" then\n"
    "static int deeper(volatile int *level)\n"
    "{\n"
    "    volatile int mine[64] = {*level};\n"
    "    return deeper(mine) + mine[0];\n"
    "}\n"
    "% end\n"
    "constexpr int WAVE = ${t.wave}, THREADS = ${d.launch.threads};\n"
    "${kernel.entry(t, d.launch, {x = \"const float *\", y = \"float *\"})}\n"
    "    const int i = (int)(origin_x + block_index_x()) * THREADS + thread_index();\n"
    "% if c.mode == \"early\" then\n"
    "    return;\n"
    "% elseif c.mode == \"half\" then\n"
    "    if (i < n / 2) y[i] = 2.0f * x[i];\n"
    "% elseif c.mode == \"shifted\" then\n"
    "    if (i < n) y[i] = 2.0f * x[i > 0 ? i - 1 : 0];\n"
    "% elseif c.mode == \"normal_only\" then\n"
    "    if (i < n) y[i] = 2.0f * (x[i] > 6.0f ? 6.0f : x[i]);\n"
    "% elseif c.mode == \"beyond\" then\n"
    "    if (i < n + 1) y[i] = 2.0f * x[i];\n"
    "% else\n"
    "    if (i < n) y[i] = 2.0f * x[i];\n"
    "% end\n"
    "    if (i == 0) {\n"
    "% if c.mode == \"spin\" then\n"
    "        for (volatile unsigned long long turn = 0; turn < 60000000000ull; turn = turn + 1) {}\n"
    "% elseif c.mode == \"forever\" then\n"
    "        for (volatile int turn = 1; turn != 0;) {}\n"
    "% elseif c.mode == \"null\" then\n"
    "        *(volatile float *)8ull = 1.0f;\n"
    "% elseif c.mode == \"exit\" then\n"
    "        asm volatile(\"syscall\" : : \"a\"(231), \"D\"(0) : \"rcx\", \"r11\", \"memory\");\n"
    "% elseif c.mode == \"stack\" then\n"
    "        volatile int level = n;\n"
    "        y[0] = 2.0f * x[0] + (float)deeper(&level);\n"
    "% elseif c.mode == \"divergent\" then\n"
    "        barrier();\n"
    "% end\n"
    "    }\n"
    "}\n"
    "${kernel.note(t, d.launch)}\n";

/* a generator that knows the family; `modes` as "right forever", the first one the default; `comment` in the source */
static inline struct generator *tuner_family(const char *folder, const char *modes, const char *factor,
                                             const char *comment)
{
    char path[600], text[8192], source[8192], list[2048] = "", first[64], copy[1024];
    struct generator *generator;
    struct error error = {0};
    snprintf(copy, sizeof copy, "%s", modes);
    snprintf(first, sizeof first, "%.*s", (int)strcspn(modes, " "), modes);
    for (char *rest = copy, *mode; (mode = strtok_r(rest, " ", &rest)) != NULL;) {
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s\"%s\"", list[0] != '\0' ? ", " : "", mode);
    }
    snprintf(text, sizeof text, tuner_family_lua, list, first, factor);
    assert_int_equal(path_join(path, sizeof path, folder, "twice.lua", NULL), ATTUNE_OK);
    assert_int_equal(file_write(path, text, strlen(text), &error), ATTUNE_OK);
    assert_int_equal(path_join(path, sizeof path, folder, "twice.hip", NULL), ATTUNE_OK);
    snprintf(source, sizeof source, "// %s\n%s", comment, tuner_family_hip);
    assert_int_equal(file_write(path, source, strlen(source), &error), ATTUNE_OK);
    if (generator_create(&(struct generator_options){.template_path = folder}, &generator, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    return generator;
}

#endif
