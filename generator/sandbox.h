/* sandbox.h - a Lua 5.4 state that templates and families cannot leave by mistake.
 *
 * No io, os, package, debug, coroutine, pcall, load, metatables, pairs; string and table functions that cannot run
 * without end; undefined names are errors; an instruction limit for each call from C and a memory limit for the state.
 * One instruction may compare texts of megabytes: a call that takes far longer than its instructions can explain ends
 * at the same limit, by the thread's own clock, which a busy machine does not move. It keeps a mistake from taking the
 * host down; templates are trusted code, for what they produce runs natively.
 *
 * Every use of the state happens inside sandbox_protect(), in the C locale. Functions run there may be left by a
 * longjmp: what they allocate outside Lua must be owned by `data`.
 */
#ifndef GENERATOR_SANDBOX_H
#define GENERATOR_SANDBOX_H

#include "base/error.h"

#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

struct sandbox {
    lua_State *lua;
    uint64_t instruction_limit; /* one call */
    uint64_t budget;            /* what the call under way started with */
    int64_t instructions_left;
    double cpu_limit; /* of the call's thread, seconds on its own clock; 0: not looked at yet */
    size_t memory_limit;
    size_t memory_used;
    char refused_at[96]; /* "file:line: " of the last allocation that the limit refused in this call, else "" */
    attune_status
        raised;      /* what sandbox_raise or the limit said of the error under way; ATTUNE_OK: an ordinary Lua error */
    int globals;     /* registry: the table behind every chunk's _ENV; filled before chunks run */
    int environment; /* registry: its read-only face */
};

enum { SANDBOX_TEXT_MAX = 16 << 20 }; /* longest string that a library function makes, longest expansion */

attune_status sandbox_open(struct sandbox *sandbox, uint64_t instruction_limit, size_t memory_limit,
                           struct error *error);
void sandbox_close(struct sandbox *sandbox);

/* Runs function(L) with `data` as its only argument (a light userdata) and a full instruction budget; the stack is as
 * before afterwards. A Lua error becomes ATTUNE_INVALID, the limits ATTUNE_TIMEOUT and ATTUNE_NO_MEMORY. */
attune_status sandbox_protect(struct sandbox *sandbox, lua_CFunction function, void *data, struct error *error);

/* ---- inside sandbox_protect ---- */
struct sandbox *sandbox_of(lua_State *L);
/* a fresh budget, `times` the limit, for the next call of a function from a template */
void sandbox_refill(lua_State *L, unsigned times);
/* counts work on that many bytes as instructions; noticed at the next count. Memory that Lua asks for is counted by
 * itself */
void sandbox_charge(lua_State *L, size_t bytes);
/* an error with its own status, without position; does not return */
int sandbox_raise(lua_State *L, attune_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* a struct error as a Lua error; does not return */
int sandbox_raise_error(lua_State *L, const struct error *error);
/* leaves the chunk's function on the stack; its globals are the sandbox's. `name` appears in messages as it is */
void sandbox_load(lua_State *L, const char *bytes, size_t length, const char *name);
/* replaces the table on top by a read-only face, and tables inside it too. `strict`, when not NULL, names what the
 * table is, so that an absent key is an error ("problem has no field 'x'") */
void sandbox_freeze(lua_State *L, const char *strict);
/* replaces a read-only face at `index` by the table behind it; raises nothing, allocates nothing */
void sandbox_thaw(lua_State *L, int index);
/* the functions of sandbox_library.c and of Lua that are safe, into the table on top */
void sandbox_open_library(lua_State *L);

#endif
