/* The accesses of single lanes as the instructions of waves: which belong together, and which blocks are run. */
#include "runtime/host_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { LANES = 4 };

struct told {
    char text[1024];
};

/* "line/bytes@interval: offsets", lanes that take no part as '-' */
static void tell(void *data, const struct host_wave_access *access)
{
    struct told *told = data;
    size_t used = strlen(told->text);
    used += (size_t)snprintf(told->text + used, sizeof told->text - used, "%u/%u@%u:", access->line, access->bytes,
                             access->interval);
    assert_int_equal(access->lanes, LANES);
    for (uint32_t lane = 0; lane < access->lanes; lane++) {
        if (access->offset[lane] == HOST_TRACE_ABSENT) {
            used += (size_t)snprintf(told->text + used, sizeof told->text - used, " -");
        } else {
            used += (size_t)snprintf(told->text + used, sizeof told->text - used, " %u", access->offset[lane]);
        }
    }
    snprintf(told->text + used, sizeof told->text - used, "\n");
}

static void add(struct host_trace_log *log, struct host_trace_event event)
{
    assert_true(host_trace_add(log, &event));
}

static void holds(struct host_trace_log *log, const char *expected)
{
    struct told told = {.text = ""};
    const struct host_trace trace = {.access = tell, .data = &told};
    host_trace_flush(log, &trace, 0, LANES);
    assert_string_equal(told.text, expected);
    assert_int_equal(log->count, 0);
    free(log->events);
}

/* lanes run one after another; the second round of a loop is another instruction */
static void the_nth_accesses_of_the_lanes_are_one_instruction(void **state)
{
    (void)state;
    struct host_trace_log log = {0};
    for (uint32_t lane = 0; lane < LANES; lane++) {
        for (uint32_t n = 0; n < 2; n++) {
            add(&log, (struct host_trace_event){.lane = lane, .line = 7, .bytes = 16, .offset = 100 * n + lane});
        }
    }
    holds(&log, "7/16@0: 0 1 2 3\n7/16@0: 100 101 102 103\n");
}

static void lines_kinds_widths_and_waves_are_told_apart(void **state)
{
    (void)state;
    struct host_trace_log log = {0};
    add(&log, (struct host_trace_event){.lane = 0, .line = 7, .bytes = 16, .offset = 1});
    add(&log, (struct host_trace_event){.lane = 0, .line = 8, .bytes = 16, .offset = 2});
    add(&log, (struct host_trace_event){.lane = 1, .line = 7, .bytes = 8, .offset = 3});
    add(&log, (struct host_trace_event){.lane = 2, .line = 7, .bytes = 8, .kind = HOST_ACCESS_WRITE, .offset = 4});
    add(&log, (struct host_trace_event){.wave = LANES, .lane = 3, .line = 7, .bytes = 16, .offset = 5});
    holds(&log, "7/8@0: - 3 - -\n7/16@0: 1 - - -\n7/8@0: - - 4 -\n8/16@0: 2 - - -\n7/16@0: - - - 5\n");
}

/* a lane that skipped a round before the wave met does not lag behind from then on */
static void a_meeting_brings_the_lanes_together_again(void **state)
{
    (void)state;
    struct host_trace_log log = {0};
    for (uint32_t lane = 0; lane < LANES; lane++) {
        for (uint32_t meeting = 0; meeting < 2; meeting++) {
            if (lane != 2 || meeting == 1) {
                add(&log, (struct host_trace_event){
                              .lane = lane, .meeting = meeting, .line = 7, .bytes = 4, .offset = 10 * meeting + lane});
            }
        }
    }
    holds(&log, "7/4@0: 0 1 - 3\n7/4@0: 10 11 12 13\n");
}

/* ---- which blocks run ---- */

static uint32_t ran[64];
static int ran_count;

static void note_block(const struct host_api *api, const void *arguments)
{
    (void)arguments;
    if (api->thread_index() == 0) {
        ran[ran_count++] = api->block_index(0);
    }
    unsigned char *shared = api->shared(0, 64);
    unsigned char elsewhere = 0;
    api->access(3, shared + 4 * api->thread_index(), 4, HOST_ACCESS_READ);
    api->access(4, &elsewhere, 1, HOST_ACCESS_READ); /* not shared: not told */
}

static void runs(uint32_t blocks_max, uint32_t grid, const char *expected)
{
    struct told told = {.text = ""};
    struct host_trace trace = {.blocks_max = blocks_max, .access = tell, .data = &told};
    const struct host_launch launch = {
        .entry = note_block, .grid = {grid, 1, 1}, .threads = LANES, .wave = LANES, .trace = &trace};
    struct error error = {.message = ""};
    char text[256] = "", line[] = "3/4@0: 0 4 8 12\n";
    ran_count = 0;
    assert_int_equal(host_device_run(&launch, &error), ATTUNE_OK);
    for (int i = 0; i < ran_count; i++) {
        snprintf(text + strlen(text), sizeof text - strlen(text), " %u", ran[i]);
        assert_memory_equal(told.text + (size_t)i * strlen(line), line, strlen(line));
    }
    assert_string_equal(text, expected);
    assert_int_equal(trace.blocks, ran_count);
    assert_int_equal(trace.grid_blocks, grid);
    assert_int_equal(strlen(told.text), (size_t)ran_count * strlen(line));
}

static void traced_blocks_are_spread_from_the_first_to_the_last(void **state)
{
    (void)state;
    runs(0, 5, " 0 1 2 3 4");
    runs(1, 5, " 0");
    runs(3, 3, " 0 1 2");
    runs(3, 10, " 0 4 9");
    runs(4, 11, " 0 3 6 10");
    runs(9, 2, " 0 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nth_accesses_of_the_lanes_are_one_instruction),
        cmocka_unit_test(lines_kinds_widths_and_waves_are_told_apart),
        cmocka_unit_test(a_meeting_brings_the_lanes_together_again),
        cmocka_unit_test(traced_blocks_are_spread_from_the_first_to_the_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
