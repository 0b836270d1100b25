/* Traces of launches: any bytes; what is read is written again, line by line, and read to the same sums. */
#include "autotune/trace.h"
#include "tests/fuzz/fuzz.h"

#include <jansson.h>

static void add_line(struct buffer *text, const struct traced_problem *problem)
{
    json_t *line = json_pack("{s:I, s:s}", "calls", (json_int_t)problem->calls, "problem", problem->text);
    char *json = json_dumps(line, JSON_COMPACT);
    HOLDS(json != NULL, "'%s' is no text for JSON", problem->text);
    buffer_format(text, "%s\n", json);
    free(json);
    json_decref(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct trace trace = {0}, again = {0};
    struct buffer text = BUFFER_INIT;
    int64_t calls = 0;
    HOLDS(trace_add(&trace, (const char *)data, size, NULL) == ATTUNE_OK, "bytes are refused");
    HOLDS(trace.unreadable + trace.count == trace.lines, "%lld lines, %lld unreadable, %d kept", (long long)trace.lines,
          (long long)trace.unreadable, trace.count);
    trace_sum(&trace);
    for (int i = 0; i < trace.count; i++) {
        const struct traced_problem *problem = &trace.problems[i];
        HOLDS(problem->calls > 0, "%lld calls", (long long)problem->calls);
        HOLDS(problem->text[0] != '\0' && strlen(problem->text) < PROBLEM_TEXT_BYTES, "a text of %zu bytes",
              strlen(problem->text));
        HOLDS(i == 0 || strcmp(problem[-1].text, problem->text) < 0, "'%s' twice or out of order", problem->text);
        calls = __builtin_add_overflow(calls, problem->calls, &calls) ? INT64_MAX : calls;
        add_line(&text, problem);
    }
    HOLDS(calls == trace.calls, "%lld calls in all, %lld in sum", (long long)trace.calls, (long long)calls);
    HOLDS(trace_add(&again, buffer_string(&text), text.length, NULL) == ATTUNE_OK, "what was read is refused");
    trace_sum(&again);
    HOLDS(again.unreadable == 0 && again.count == trace.count && again.calls == trace.calls, "%d problems become %d",
          trace.count, again.count);
    for (int i = 0; i < again.count; i++) {
        HOLDS(strcmp(again.problems[i].text, trace.problems[i].text) == 0 &&
                  again.problems[i].calls == trace.problems[i].calls,
              "'%s' is another", again.problems[i].text);
    }
    trace_free(&again);
    trace_free(&trace);
    buffer_free(&text);
    return 0;
}
