/* Template text: translated, compiled and run in a sandbox with small limits. Whatever the text, the state stays within
 * its memory, ends within its instructions, gives all of it back, and gives the same bytes and the same refusal again.
 */
#include "generator/dialect.h"
#include "tests/fuzz/foreign_locale.h"
#include "tests/fuzz/fuzz.h"

enum { INSTRUCTIONS = 50000, MEMORY = 1 << 20 };

struct run {
    struct dialect_program *program;
    struct buffer shown, compile;
    struct error error;
    attune_status status;
};

static void push_facts(lua_State *L, const char *strict, const char *const *names, int count)
{
    lua_createtable(L, 0, count);
    for (int i = 0; i < count; i++) {
        lua_pushinteger(L, 16 << i);
        lua_setfield(L, -2, names[i]);
    }
    lua_pushliteral(L, "f16");
    lua_setfield(L, -2, "dtype");
    sandbox_freeze(L, strict);
}

static int expand(lua_State *L)
{
    static const char *const parameters[] = {"block_q", "block_k", "threads"};
    static const char *const sizes[] = {"heads", "head_dim", "seqlen_q"};
    static const char *const facts[] = {"wave", "lds_bytes", "max_threads"};
    struct run *run = lua_touserdata(L, 1);
    struct dialect_output output = {.program = run->program, .shown = &run->shown, .compile = &run->compile};
    dialect_load(L, run->program);
    push_facts(L, "there is no parameter", parameters, 3);
    push_facts(L, "the problem has no field", sizes, 3);
    push_facts(L, "the target has no fact", facts, 3);
    lua_createtable(L, 0, 0);
    dialect_run(L, &output);
    return 0;
}

static void run_template(const uint8_t *data, size_t size, struct run *run)
{
    struct sandbox sandbox;
    HOLDS(sandbox_open(&sandbox, INSTRUCTIONS, MEMORY, &run->error) == ATTUNE_OK, "no sandbox: %s", run->error.message);
    run->status = dialect_translate((const char *)data, size, "fuzz.hip", &run->program, &run->error);
    if (run->status == ATTUNE_OK) {
        run->status = sandbox_protect(&sandbox, expand, run, &run->error);
        HOLDS(sandbox.instructions_left <= INSTRUCTIONS, "the budget grew");
    }
    HOLDS(sandbox.memory_used <= MEMORY, "%zu bytes in use", sandbox.memory_used);
    sandbox_close(&sandbox);
    HOLDS(sandbox.memory_used == 0, "%zu bytes are not given back", sandbox.memory_used);
    dialect_free(run->program);
}

/* the text without the lines that are #line directives of this template */
static char *without_directives(const struct buffer *buffer, size_t *length)
{
    char *text = malloc(buffer->length + 1);
    size_t used = 0;
    for (size_t at = 0; text != NULL && at < buffer->length;) {
        const char *line = buffer->data + at, *end = memchr(line, '\n', buffer->length - at);
        size_t bytes = end != NULL ? (size_t)(end - line) + 1 : buffer->length - at, digits = 0;
        bool directive = bytes > 6 && memcmp(line, "#line ", 6) == 0;
        if (directive) {
            static const char rest[] = " \"templates/fuzz.hip\"\n";
            digits = 6 + strspn(line + 6, "0123456789");
            directive = bytes - digits == sizeof rest - 1 && memcmp(line + digits, rest, sizeof rest - 1) == 0;
        }
        if (!directive) {
            memcpy(text + used, line, bytes);
            used += bytes;
        }
        at += bytes;
    }
    *length = used;
    return text;
}

static void check_texts(const struct run *run)
{
    size_t shown_bytes, compile_bytes;
    HOLDS(run->shown.length <= SANDBOX_TEXT_MAX, "%zu bytes", run->shown.length);
    char *shown = without_directives(&run->shown, &shown_bytes);
    char *compile = without_directives(&run->compile, &compile_bytes);
    HOLDS(shown_bytes == compile_bytes && memcmp(shown, compile, shown_bytes) == 0,
          "what is shown and what is compiled differ by more than #line");
    free(shown);
    free(compile);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_foreign_locale();
    struct run *runs = calloc(2, sizeof *runs);
    uint8_t *bytes = fuzz_bytes(data, size);
    for (int i = 0; i < 2 && runs != NULL; i++) {
        run_template(bytes, size, &runs[i]);
        fuzz_check_error(runs[i].status, &runs[i].error);
        HOLDS(runs[i].status == ATTUNE_OK || runs[i].status == ATTUNE_INVALID || runs[i].status == ATTUNE_TIMEOUT ||
                  runs[i].status == ATTUNE_NO_MEMORY,
              "status %d: %s", (int)runs[i].status, runs[i].error.message);
        HOLDS(runs[i].status == ATTUNE_OK || runs[i].status == ATTUNE_NO_MEMORY ||
                  strncmp(runs[i].error.message, "templates/fuzz.hip", 18) == 0,
              "a refusal that does not name the template: %s", runs[i].error.message);
    }
    if (runs != NULL) {
        HOLDS(runs[0].status == runs[1].status && strcmp(runs[0].error.message, runs[1].error.message) == 0,
              "two runs end differently: '%s' and '%s'", runs[0].error.message, runs[1].error.message);
        HOLDS(runs[0].shown.length == runs[1].shown.length &&
                  (runs[0].shown.length == 0 ||
                   memcmp(runs[0].shown.data, runs[1].shown.data, runs[0].shown.length) == 0),
              "two runs give different texts");
        if (runs[0].status == ATTUNE_OK) {
            check_texts(&runs[0]);
        }
        for (int i = 0; i < 2; i++) {
            buffer_free(&runs[i].shown);
            buffer_free(&runs[i].compile);
        }
    }
    free(runs);
    free(bytes);
    return 0;
}
