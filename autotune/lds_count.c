/* lds_count.c - accesses summed up by line, kind and width. */
#include "autotune/lds_count.h"

#include <stdlib.h>
#include <string.h>

enum { LINES_STEP = 64 }; /* lines are few: a kernel's text has as many accesses as its author wrote */

const char *lds_access_name(enum host_access kind)
{
    static const char *const names[HOST_ACCESS_KINDS] = {[HOST_ACCESS_READ] = "read",
                                                         [HOST_ACCESS_WRITE] = "write",
                                                         [HOST_ACCESS_ROWS] = "rows",
                                                         [HOST_ACCESS_COPY] = "copy"};
    return names[kind];
}

static bool is_of(const struct lds_line *line, const struct host_wave_access *access)
{
    return line->line == access->line && line->kind == access->kind && line->bytes == access->bytes;
}

/* the line of an access, made when it is new; NULL without memory */
static struct lds_line *find_line(struct lds_count *count, const struct host_wave_access *access)
{
    if (count->last < count->line_count && is_of(&count->lines[count->last], access)) {
        return &count->lines[count->last];
    }
    for (int i = 0; i < count->line_count; i++) {
        if (is_of(&count->lines[i], access)) {
            count->last = i;
            return &count->lines[i];
        }
    }
    if (count->line_count % LINES_STEP == 0) {
        struct lds_line *grown = realloc(count->lines, ((size_t)count->line_count + LINES_STEP) * sizeof *count->lines);
        if (grown == NULL) {
            return NULL;
        }
        count->lines = grown;
    }
    count->last = count->line_count;
    struct lds_line *line = &count->lines[count->line_count++];
    *line = (struct lds_line){.line = access->line,
                              .kind = access->kind,
                              .bytes = access->bytes,
                              .known = lds_rule_phases(&count->rule, access->kind, access->bytes)->known,
                              .block = access->block,
                              .interval = access->interval};
    return line;
}

void lds_count_access(void *data, const struct host_wave_access *access)
{
    struct lds_count *count = data;
    struct lds_line *line = find_line(count, access);
    if (line == NULL) {
        count->failed = true;
        return;
    }
    if (line->block == access->block) {
        line->inner |= line->interval != access->interval;
    } else {
        line->block = access->block;
        line->interval = access->interval;
    }
    const struct lds_cost cost = lds_rule_cost(&count->rule, access);
    line->count++;
    line->ideal += cost.ideal;
    line->cycles += cost.cycles;
}

void lds_count_text(const struct lds_count *count, uint32_t line, char *text, size_t bytes)
{
    const char *at = buffer_string(&count->source);
    for (uint32_t i = 1; i < line && *at != '\0'; i++) {
        at += strcspn(at, "\n");
        at += *at == '\n';
    }
    at += strspn(at, " \t");
    size_t length = strcspn(at, "\n");
    length = length < bytes ? length : bytes - 1;
    memcpy(text, at, length);
    text[length] = '\0';
}

void lds_count_free(struct lds_count *count)
{
    free(count->lines);
    buffer_free(&count->source);
    memset(count, 0, sizeof *count);
}
