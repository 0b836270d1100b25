/* dialect.h - the template language: `%` lines are Lua, `${expr}` is substituted, the rest is copied.
 *
 * A template becomes one Lua chunk with the same number of lines, so that Lua's own messages name the template's lines.
 * Text between two Lua lines is a *segment*: the chunk calls emit(segment, value...) and C copies the pieces. The chunk
 * is compiled once and run for each expansion with (c, p, t, d, emit).
 */
#ifndef GENERATOR_DIALECT_H
#define GENERATOR_DIALECT_H

#include "base/buffer.h"
#include "base/error.h"
#include "generator/sandbox.h"

#include <stdbool.h>

struct dialect_piece {
    size_t offset, length; /* literal text in the template's bytes */
    int line;              /* template line at its start; the value that follows stands on the line of its end */
    int end_line;
};

struct dialect_segment {
    int first_piece; /* value_count + 1 pieces: text value text ... text */
    int value_count;
    int line;       /* template line of its first byte */
    bool continues; /* starts in the middle of a line */
};

struct dialect_program {
    char name[128]; /* templates/FILE */
    char *text;     /* the template's bytes, each line with its newline */
    struct dialect_piece *pieces;
    int piece_count, piece_capacity;
    struct dialect_segment *segments;
    int segment_count, segment_capacity;
    struct buffer chunk; /* the Lua text */
    int function;        /* registry reference, LUA_NOREF before dialect_load */
};

/* ATTUNE_INVALID with templates/FILE:LINE for what is not the dialect */
attune_status dialect_translate(const char *bytes, size_t length, const char *file, struct dialect_program **program,
                                struct error *error);
void dialect_free(struct dialect_program *program); /* does not touch the Lua state; NULL is legal */

/* inside sandbox_protect: compiles the chunk */
void dialect_load(lua_State *L, struct dialect_program *program);

struct dialect_output {
    const struct dialect_program *program;
    struct buffer *shown;
    struct buffer
        *compile; /* the same with #line wherever the next line is not the template's next; NULL: not wanted */
    bool markup;  /* values are put as text of HTML or XML (markup_escape) */
    int expected; /* template line that the compiler takes the next output line for; 0: unknown */
    bool drifted; /* a value of several lines was put, and its line has not ended yet */
};
/* inside sandbox_protect, with c p t d on the stack (popped): runs the chunk into `output` */
void dialect_run(lua_State *L, struct dialect_output *output);

/* Appends a text so that it is nothing but text in HTML and XML, inside quoted attributes too: & < > " ' as references,
 * and U+FFFD for bytes that are no UTF-8 and characters that are legal in neither. */
void markup_escape(const char *text, size_t length, struct buffer *into);

/* a number as template text and C literal: integers in decimal, reals the shortest that reads back the same (always
 * with a point or exponent); false when not finite */
bool dialect_format_real(double value, char text[32]);

#endif
