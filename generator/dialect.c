/* dialect.c - templates to Lua chunks, and the emit function that chunks call. */
#include "generator/dialect.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* values of one emit call: they share Lua's 255 registers with the template's locals */
enum { SEGMENT_VALUES_MAX = 40 };

static const char chunk_head[] = "local c,p,t,d,_emit=...; ";

/* ---- translation ---- */

struct translator {
    struct dialect_program *program;
    struct error *error;
    int line;
    bool open;     /* a segment is being collected: its emit( is written, not its ) */
    bool mid_line; /* the last segment ended in the middle of a line */
    bool out_of_memory;
};

static void *grow(void *items, int count, int *capacity, size_t item_bytes)
{
    if (count < *capacity) {
        return items;
    }
    int larger = *capacity == 0 ? 64 : *capacity * 2;
    void *fresh = realloc(items, (size_t)larger * item_bytes);
    if (fresh != NULL) {
        *capacity = larger;
    }
    return fresh;
}

static struct dialect_piece *add_piece(struct translator *translator, size_t offset)
{
    struct dialect_program *program = translator->program;
    struct dialect_piece *pieces =
        grow(program->pieces, program->piece_count, &program->piece_capacity, sizeof *program->pieces);
    if (pieces == NULL) {
        translator->out_of_memory = true;
        return NULL;
    }
    program->pieces = pieces;
    struct dialect_piece *piece = &pieces[program->piece_count++];
    *piece = (struct dialect_piece){offset, 0, translator->line, translator->line};
    return piece;
}

static void open_segment(struct translator *translator, size_t offset)
{
    struct dialect_program *program = translator->program;
    struct dialect_segment *segments =
        grow(program->segments, program->segment_count, &program->segment_capacity, sizeof *program->segments);
    if (segments == NULL) {
        translator->out_of_memory = true;
        return;
    }
    program->segments = segments;
    segments[program->segment_count] =
        (struct dialect_segment){program->piece_count, 0, translator->line, translator->mid_line};
    add_piece(translator, offset);
    buffer_format(&program->chunk, ";_emit(%d", program->segment_count++);
    translator->open = true;
    translator->mid_line = false;
}

static void close_segment(struct translator *translator)
{
    if (translator->open) {
        buffer_text(&translator->program->chunk, ");"); /* a Lua line may begin with a parenthesis */
        translator->open = false;
    }
}

/* literal bytes [begin, end) of the current line, appended to the segment's last piece */
static void add_text(struct translator *translator, size_t begin, size_t end)
{
    if (!translator->open && begin < end) {
        open_segment(translator, begin);
    }
    if (translator->out_of_memory || begin == end) {
        return;
    }
    struct dialect_program *program = translator->program;
    struct dialect_piece *piece = &program->pieces[program->piece_count - 1];
    if (piece->length == 0) {
        piece->offset = begin;
    }
    piece->length = end - piece->offset;
    piece->end_line = translator->line;
}

static void add_value(struct translator *translator, size_t dollar, size_t begin, size_t end)
{
    struct dialect_program *program = translator->program;
    if (translator->open && program->segments[program->segment_count - 1].value_count == SEGMENT_VALUES_MAX) {
        size_t at = program->pieces[program->piece_count - 1].length;
        size_t start = program->pieces[program->piece_count - 1].offset;
        close_segment(translator);
        translator->mid_line = at == 0 || program->text[start + at - 1] != '\n';
    }
    if (!translator->open) {
        open_segment(translator, dollar);
    }
    if (translator->out_of_memory) {
        return;
    }
    buffer_text(&program->chunk, ",(");
    buffer_append(&program->chunk, program->text + begin, end - begin);
    buffer_text(&program->chunk, ")");
    program->segments[program->segment_count - 1].value_count++;
    program->pieces[program->piece_count - 1].end_line = translator->line;
    add_piece(translator, end + 1);
}

/* index of the brace that closes the expression at `at`, skipping nested braces and quoted strings; `end` when there is
 * none */
static size_t expression_end(const char *text, size_t at, size_t end)
{
    int depth = 0;
    char quote = '\0';
    for (; at < end; at++) {
        if (quote != '\0') {
            if (text[at] == '\\' && at + 1 < end) {
                at++;
            } else if (text[at] == quote) {
                quote = '\0';
            }
        } else if (text[at] == '"' || text[at] == '\'') {
            quote = text[at];
        } else if (text[at] == '{') {
            depth++;
        } else if (text[at] == '}' && depth-- == 0) {
            return at;
        }
    }
    return end;
}

static attune_status translate_text_line(struct translator *translator, size_t begin, size_t end)
{
    const char *text = translator->program->text;
    size_t literal = begin;
    for (size_t at = begin; at < end; at++) {
        if (text[at] != '$' || at + 1 >= end || text[at + 1] != '{') {
            continue;
        }
        size_t close = expression_end(text, at + 2, end - 1);
        if (close == end - 1) {
            return error_set(translator->error, ATTUNE_INVALID, "%s:%d: '${' without its '}' on the same line",
                             translator->program->name, translator->line);
        }
        size_t blank = at + 2;
        while (blank < close && (text[blank] == ' ' || text[blank] == '\t')) {
            blank++;
        }
        if (blank == close) {
            return error_set(translator->error, ATTUNE_INVALID, "%s:%d: '${}' holds no expression",
                             translator->program->name, translator->line);
        }
        add_text(translator, literal, at);
        add_value(translator, at, at + 2, close);
        literal = close + 1;
        at = close;
    }
    add_text(translator, literal, end);
    return ATTUNE_OK;
}

static attune_status translate_line(struct translator *translator, size_t begin, size_t end)
{
    const char *text = translator->program->text;
    size_t first = begin;
    while (text[first] == ' ' || text[first] == '\t') {
        first++;
    }
    if (text[first] == '%') {
        close_segment(translator);
        /* the newline closed the segment's line: the ')' stands at the head of this one, before the Lua text */
        buffer_text(&translator->program->chunk, " ");
        buffer_append(&translator->program->chunk, text + first + 1, end - first - 1);
        return ATTUNE_OK;
    }
    attune_status status = translate_text_line(translator, begin, end);
    buffer_text(&translator->program->chunk, "\n");
    return status;
}

attune_status dialect_translate(const char *bytes, size_t length, const char *file, struct dialect_program **result,
                                struct error *error)
{
    attune_status status = ATTUNE_OK;
    struct dialect_program *program = calloc(1, sizeof *program);
    struct translator translator = {program, error, 1, false, false, false};
    *result = NULL;
    if (program == NULL) {
        return error_no_memory(error);
    }
    program->function = LUA_NOREF;
    snprintf(program->name, sizeof program->name, "templates/%s", file);
    if (memchr(bytes, '\0', length) != NULL) {
        status = error_set(error, ATTUNE_INVALID, "%s holds a NUL byte; templates are text", program->name);
        goto out;
    }
    program->text = malloc(length + 2);
    if (program->text == NULL) {
        status = error_no_memory(error);
        goto out;
    }
    memcpy(program->text, bytes, length);
    if (length > 0 && bytes[length - 1] != '\n') {
        program->text[length++] = '\n';
    }
    program->text[length] = '\0';
    buffer_text(&program->chunk, chunk_head);
    for (size_t begin = 0; begin < length && status == ATTUNE_OK; translator.line++) {
        size_t end = (size_t)((char *)memchr(program->text + begin, '\n', length - begin) - program->text) + 1;
        status = translate_line(&translator, begin, end);
        begin = end;
    }
    close_segment(&translator);
    if (status == ATTUNE_OK && translator.out_of_memory) {
        status = error_no_memory(error);
    }
    if (status == ATTUNE_OK) {
        status = buffer_ok(&program->chunk, error);
    }
out:
    if (status != ATTUNE_OK) {
        dialect_free(program);
        return status;
    }
    *result = program;
    return ATTUNE_OK;
}

void dialect_free(struct dialect_program *program)
{
    if (program != NULL) {
        free(program->text);
        free(program->pieces);
        free(program->segments);
        buffer_free(&program->chunk);
        free(program);
    }
}

void dialect_load(lua_State *L, struct dialect_program *program)
{
    sandbox_load(L, buffer_string(&program->chunk), program->chunk.length, program->name);
    program->function = luaL_ref(L, LUA_REGISTRYINDEX);
}

/* ---- output ---- */

bool dialect_format_real(double value, char text[32])
{
    if (!isfinite(value)) {
        return false;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, 32, "%.*g", digits, value);
        if (strtod(text, NULL) == value) {
            break;
        }
    }
    if (strpbrk(text, ".e") == NULL) {
        strcat(text, ".0");
    }
    return true;
}

static void append_both(struct dialect_output *output, const char *bytes, size_t length)
{
    buffer_append(output->shown, bytes, length);
    if (output->compile != NULL) {
        buffer_append(output->compile, bytes, length);
    }
}

static void append_value(struct dialect_output *output, const char *text, size_t length)
{
    if (output->markup) {
        markup_escape(text, length, output->shown);
    } else {
        append_both(output, text, length);
    }
}

static void append_line_directive(struct dialect_output *output, int line)
{
    if (output->compile == NULL) {
        return;
    }
    buffer_format(output->compile, "#line %d \"%s\"\n", line, output->program->name);
}

/* text of the value at stack index `at`, without allocation for numbers; the value follows `piece` */
static const char *value_text(lua_State *L, const struct dialect_output *output, int at,
                              const struct dialect_piece *piece, char scratch[32], size_t *length)
{
    switch (lua_type(L, at)) {
    case LUA_TSTRING:
        return lua_tolstring(L, at, length);
    case LUA_TNUMBER:
        if (lua_isinteger(L, at)) {
            *length = (size_t)snprintf(scratch, 32, "%lld", (long long)lua_tointeger(L, at));
            return scratch;
        }
        if (dialect_format_real(lua_tonumber(L, at), scratch)) {
            *length = strlen(scratch);
            return scratch;
        }
        break;
    case LUA_TBOOLEAN:
        *length = lua_toboolean(L, at) ? 4 : 5;
        return lua_toboolean(L, at) ? "true" : "false";
    default:
        break;
    }
    const char *expression = output->program->text + piece->offset + piece->length; /* from its ${ to its } */
    const char *end = output->program->text + piece[1].offset;
    sandbox_raise(L, ATTUNE_INVALID, "%s:%d: %.*s is %s; finite numbers, strings and booleans can be substituted",
                  output->program->name, piece->end_line, (int)(end - expression), expression,
                  lua_type(L, at) == LUA_TNUMBER ? "not finite" : luaL_typename(L, at));
    return NULL;
}

/* A value with newlines makes more lines than the template has: after the next newline of the template's own text a
 * directive puts the rest back on its line. Returns whether that newline is still to come; *unknown when it is the
 * segment's last byte. */
static bool append_resynchronised(struct dialect_output *output, const struct dialect_piece *piece, bool last,
                                  bool *unknown)
{
    const char *text = output->program->text + piece->offset;
    const char *newline = piece->length > 0 ? memchr(text, '\n', piece->length) : NULL;
    if (newline == NULL) {
        append_both(output, text, piece->length);
        return true;
    }
    size_t head = (size_t)(newline - text) + 1;
    append_both(output, text, head);
    *unknown = last && head == piece->length;
    if (!*unknown) {
        append_line_directive(output, piece->line + 1);
        append_both(output, text + head, piece->length - head);
    }
    return false;
}

static void emit_segment(lua_State *L, struct dialect_output *output, const struct dialect_segment *segment)
{
    const struct dialect_program *program = output->program;
    const struct dialect_piece *pieces = &program->pieces[segment->first_piece];
    bool unknown = false;
    if (!segment->continues) {
        output->drifted = false;
        if (segment->line != output->expected) {
            append_line_directive(output, segment->line);
        }
    }
    for (int i = 0; i <= segment->value_count; i++) {
        bool last = i == segment->value_count;
        if (output->drifted) {
            output->drifted = append_resynchronised(output, &pieces[i], last, &unknown);
        } else {
            append_both(output, program->text + pieces[i].offset, pieces[i].length);
        }
        if (!last) {
            char scratch[32];
            size_t length;
            const char *text = value_text(L, output, i + 2, &pieces[i], scratch, &length);
            append_value(output, text, length);
            output->drifted = output->drifted || memchr(text, '\n', length) != NULL;
        }
    }
    output->expected = unknown ? 0 : pieces[segment->value_count].end_line + 1;
}

static int emit(lua_State *L)
{
    struct dialect_output *output = lua_touserdata(L, lua_upvalueindex(1));
    const struct dialect_program *program = output->program;
    lua_Integer index = lua_tointeger(L, 1);
    if (index < 0 || index >= program->segment_count || lua_gettop(L) != program->segments[index].value_count + 1) {
        return luaL_error(L, "_emit belongs to the dialect; templates do not call it");
    }
    emit_segment(L, output, &program->segments[index]);
    if (output->shown->failed || (output->compile != NULL && output->compile->failed)) {
        return sandbox_raise(L, ATTUNE_NO_MEMORY, "%s: no memory for the expansion", program->name);
    }
    if (output->shown->length > SANDBOX_TEXT_MAX) {
        return sandbox_raise(L, ATTUNE_INVALID, "%s:%d: the expansion has more than %d bytes: an endless loop?",
                             program->name, program->segments[index].line, SANDBOX_TEXT_MAX);
    }
    return 0;
}

void dialect_run(lua_State *L, struct dialect_output *output)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, output->program->function);
    lua_insert(L, -5);
    lua_pushlightuserdata(L, output);
    lua_pushcclosure(L, emit, 1);
    sandbox_refill(L, 1);
    lua_call(L, 5, 0);
}
