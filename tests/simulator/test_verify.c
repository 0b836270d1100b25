/* test_verify.c - `attune verify` and `attune run` on a simulated gfx906, unchanged: objects compiled for gfx906, each
 * launch carried out by the strict stand-in with the host device's build of the same kernel. */
#include "tests/cli/program.h"

#include "autotune/objects.h"
#include "autotune/verify.h"
#include "base/files.h"
#include "cli/npy.h"
#include "runtime/runner.h"
#include "runtime/simulator.h"
#include "tests/autotune/judge_trial.h"
#include "tests/size.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SIZES "dtype=f32 batch=1 heads=2 seqlen_q=5 head_dim=16 causal=1"
#define PROBLEM "attention.forward " SIZES
#define DEVICE "sim:gfx906"
enum { SEQLEN = 5, HEADS = 2, DIM = 16, ELEMENTS = SEQLEN * HEADS * DIM };

static struct generator *generator;
static struct compiler_pool *pool;
static struct object_road roads[2]; /* gfx906 and host-gfx906 */

static int set_up(void **state)
{
    static const char *const targets[] = {"gfx906", "host-gfx906"};
    struct generator_options options = {.template_path = ""};
    struct error error = {0};
    if (program_setup(state) != 0 || generator_create(&options, &generator, &error) != ATTUNE_OK ||
        compiler_pool_create(NULL, &pool, &error) != ATTUNE_OK ||
        folder_make(scratch("objects"), &error) != ATTUNE_OK) {
        print_error("%s\n", error.message);
        return -1;
    }
    for (int i = 0; i < 2; i++) {
        struct target target;
        assert_int_equal(target_parse(targets[i], &target, NULL), ATTUNE_OK);
        assert_int_equal(road_open(&roads[i], pool, NULL, &target, SANITIZE_NONE, true, NULL), ATTUNE_OK);
        if (roads[i].toolchain != ATTUNE_OK) {
            print_message("skipped: %s\n", roads[i].toolchain_message);
            exit(77);
        }
    }
    setenv("STAND_IN_OBJECTS", scratch("objects"), 1);
    setenv("STAND_IN_LOG", scratch("log"), 1);
    return 0;
}

static int tear_down(void **state)
{
    compiler_pool_destroy(pool);
    generator_destroy(generator);
    return program_teardown(state);
}

/* the host object that the stand-in runs for a GPU object */
static void pair(const struct buffer *gpu, const struct buffer *host)
{
    char path[4096], hex[DIGEST_HEX_BYTES];
    struct digest digest;
    digest_of(gpu->data, gpu->length, &digest);
    digest_hex(&digest, hex);
    snprintf(path, sizeof path, "%s/%s.so", scratch("objects"), hex);
    assert_int_equal(file_write(path, host->data, host->length, NULL), ATTUNE_OK);
}

static void build(const struct candidate *candidate, const struct problem *problem, int road, struct buffer *bytes)
{
    char name[CANDIDATE_TEXT_BYTES];
    struct candidate same;
    struct expansion scratch_space = {0};
    struct object_job job;
    struct error error = {0};
    candidate_format(candidate, name);
    if (candidate_parse(generator, name, problem, &roads[road].target, &same, &error) != ATTUNE_OK ||
        object_expand(generator, &roads[road], &same, problem, &scratch_space, &job, &error) != ATTUNE_OK ||
        object_obtain(&roads[road], &job, &error) != ATTUNE_OK) {
        fail_msg("%s: %s", name, error.message);
    }
    buffer_append(bytes, job.bytes.data, job.bytes.length);
    object_job_free(&job);
    expansion_free(&scratch_space);
}

/* both builds of every candidate of the cover; returns how many there are */
static int build_cover(int wanted)
{
    struct problem problem;
    struct candidate_list list = {0};
    struct error error = {0};
    assert_int_equal(problem_parse(schema_attention_forward(), SIZES, &problem, &error), ATTUNE_OK);
    if (candidate_cover(generator, &problem, &roads[0].target, wanted, 1, &list, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    for (int i = 0; i < list.count; i++) {
        struct buffer gpu = BUFFER_INIT, host = BUFFER_INIT;
        build(&list.items[i], &problem, 0, &gpu);
        build(&list.items[i], &problem, 1, &host);
        pair(&gpu, &host);
        buffer_free(&gpu);
        buffer_free(&host);
    }
    int count = list.count;
    candidate_list_free(&list);
    return count;
}

/* lines of the stand-in's log, each of which must be `line` */
static int launches_of(const char *line)
{
    struct buffer log = BUFFER_INIT;
    int count = 0;
    if (file_read(scratch("log"), 1 << 20, &log, NULL) == ATTUNE_OK) {
        char *rest = log.data;
        for (char *at; (at = strsep(&rest, "\n")) != NULL && at[0] != '\0'; count++) {
            assert_string_equal(at, line);
        }
    }
    buffer_free(&log);
    remove(scratch("log"));
    return count;
}

static void simulate(const char *script)
{
    struct buffer text = BUFFER_INIT;
    const char *path = scratch("a simulator");
    buffer_format(&text, "#!/bin/sh\n%s\n", script);
    assert_int_equal(file_write(path, buffer_string(&text), text.length, NULL), ATTUNE_OK);
    assert_int_equal(chmod(path, 0700), 0);
    setenv("ATTUNE_SIMULATOR", path, 1);
    buffer_free(&text);
}

static void a_cover_is_verified_on_a_simulated_gpu(void **state)
{
    (void)state;
    char cover[16], said[64];
    int wanted = test_size(8, 40), count = build_cover(wanted);
    assert_true(count >= 8);
    setenv("ATTUNE_SIMULATOR", STAND_IN, 1);
    snprintf(cover, sizeof cover, "%d", wanted);
    attune("verify", "--device", DEVICE, "--cover", cover, "--seed", "1", "--problem", PROBLEM, NULL);
    exits_with(EXIT_IS_DONE);
    snprintf(said, sizeof said, "%d of %d right", count, count);
    says(said);
    assert_true(launches_of("attention_forward gfx906") >= 3 * count);
}

static void what_a_simulator_gets_wrong_is_told_and_blocks_nothing(void **state)
{
    (void)state;
    build_cover(1);
    setenv("STAND_IN", STAND_IN, 1);
    /* one element of every buffer becomes NaN, behind the back of a right kernel */
    simulate("\"$STAND_IN\" \"$1\" || exit\nfor f in \"$1\"/buffer-*; do\n"
             "  printf '\\377\\377\\377\\377' | dd of=\"$f\" bs=1 seek=4096 conv=notrunc 2>/dev/null\ndone");
    attune("verify", "--device", DEVICE, "--problem", PROBLEM, NULL);
    exits_with(EXIT_IS_WRONG);
    says("0 of 1 right");
    simulate("echo v_dot2_f32_f16 is unknown >&2; exit 9");
    attune("verify", "--device", DEVICE, "--problem", PROBLEM, NULL);
    exits_with(EXIT_IS_FAILED);
    says("launch-failed");
    says("a simulator ended with exit code 9: v_dot2_f32_f16 is unknown");
    simulate("echo at work; sleep 1000");
    attune("verify", "--device", DEVICE, "--candidate-limit", "1s", "--problem", PROBLEM, NULL);
    exits_with(EXIT_IS_FAILED);
    says("hung ");
    says("did not end within 1 seconds: at work");
    attune("doctor", "--json", NULL);
    exits_with(EXIT_IS_DONE);
    const json_t *cache = json_object_get(answer(), "cache");
    assert_int_equal(json_integer_value(json_object_get(cache, "blocked")), 0);
    assert_string_equal(json_string_value(json_object_get(json_object_get(answer(), "simulator"), "program")),
                        scratch("a simulator"));
}

static void write_array(const char *path, const float *data)
{
    const int64_t shape[] = {1, SEQLEN, HEADS, DIM};
    assert_int_equal(npy_write(path, NPY_F4, 4, shape, data, NULL), ATTUNE_OK);
}

/* zero scores: every row is the mean of the values it sees */
static void run_gives_the_arrays_of_the_simulator(void **state)
{
    (void)state;
    float q[ELEMENTS] = {0}, k[ELEMENTS], v[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++) {
        k[i] = 1;
        v[i] = (float)(i / (HEADS * DIM));
    }
    write_array(scratch("q.npy"), q);
    write_array(scratch("k.npy"), k);
    write_array(scratch("v.npy"), v);
    build_cover(1);
    launches_of("attention_forward gfx906");
    setenv("ATTUNE_SIMULATOR", STAND_IN, 1);
    attune("run", "--device", DEVICE, "--problem", PROBLEM, "--q", scratch("q.npy"), "--k", scratch("k.npy"), "--v",
           scratch("v.npy"), "--o", scratch("o.npy"), NULL);
    exits_with(EXIT_IS_DONE);
    assert_int_equal(launches_of("attention_forward gfx906"), 1);
    struct buffer file = BUFFER_INIT;
    struct npy npy;
    assert_int_equal(npy_read(scratch("o.npy"), &file, &npy, NULL), ATTUNE_OK);
    for (int i = 0; i < ELEMENTS; i++) {
        float value;
        memcpy(&value, file.data + npy.offset + (size_t)i * sizeof value, sizeof value);
        assert_true(fabsf(value - (float)(i / (HEADS * DIM)) / 2) < 1e-5f);
    }
    buffer_free(&file);
}

static void what_needs_times_or_the_host_device_is_refused(void **state)
{
    (void)state;
    setenv("ATTUNE_SIMULATOR", STAND_IN, 1);
    attune("bench", "--device", DEVICE, "--problem", PROBLEM, NULL);
    exits_with(EXIT_IS_MISSING);
    complains("sim:gfx906 says nothing about speed");
    attune("tune", "--device", DEVICE, "--problem", PROBLEM, NULL);
    exits_with(EXIT_IS_MISSING);
    complains("sim:gfx906 is a simulator, whose times say nothing");
    attune("verify", "--device", DEVICE, "--schedule", "all", "--problem", PROBLEM, NULL);
    exits_with(EXIT_IS_USAGE);
    complains("schedules and sanitizers are the host device's");
    attune("verify", "--device", DEVICE, "--sanitize", "address", "--problem", PROBLEM, NULL);
    exits_with(EXIT_IS_USAGE);
    attune("verify", "--device", DEVICE, "--target", "gfx908", "--problem", PROBLEM, NULL);
    assert_int_not_equal(
        attune("verify", "--device", DEVICE, "--target", "gfx908", "--problem", PROBLEM, NULL)->exit_code,
        EXIT_IS_DONE);
    complains("gfx908");
    unsetenv("ATTUNE_SIMULATOR");
    attune("verify", "--device", DEVICE, "--problem", PROBLEM, NULL);
    exits_with(EXIT_IS_MISSING);
    complains("ATTUNE_SIMULATOR is not set");
    attune("run", "--device", DEVICE, "--problem", PROBLEM, "--q", scratch("q.npy"), "--k", scratch("k.npy"), "--v",
           scratch("v.npy"), "--o", scratch("none.npy"), NULL);
    exits_with(EXIT_IS_MISSING);
}

/* the kernels that judge large problems on the device: answers and verdicts through the simulator are the CPU's */
static void judging_kernels_run_on_the_simulator(void **state)
{
    (void)state;
    struct bench bench = {.generator = generator, .pool = pool, .road = roads[0]};
    struct driver *simulator;
    struct problem problem;
    struct judge_code code[2];
    struct judge_objects objects[2];
    struct trial trial;
    const char *text = judge_problems[0];
    setenv("ATTUNE_SIMULATOR", STAND_IN, 1);
    if (simulator_create("gfx906", 0, &simulator, &bench.error) != ATTUNE_OK) {
        fail_msg("%s", bench.error.message);
    }
    bench.host = simulator;
    assert_int_equal(problem_parse(schema_attention_forward(), text, &problem, &bench.error), ATTUNE_OK);
    for (int i = 0; i < 2; i++) {
        if (judge_compile(generator, &roads[i], &problem, &code[i], &bench.error) != ATTUNE_OK) {
            fail_msg("%s", bench.error.message);
        }
        judge_code_objects(&code[i], &objects[i]);
    }
    const struct kernel_object *made[2][2] = {{&objects[0].reference, &objects[1].reference},
                                              {&objects[0].compare, &objects[1].compare}};
    for (int i = 0; i < 2; i++) {
        struct buffer gpu = BUFFER_INIT, host = BUFFER_INIT;
        buffer_append(&gpu, made[i][0]->bytes, made[i][0]->length);
        buffer_append(&host, made[i][1]->bytes, made[i][1]->length);
        pair(&gpu, &host);
        buffer_free(&gpu);
        buffer_free(&host);
    }
    remove(scratch("log"));
    if (!trial_begin(&bench, text, 0, &trial)) {
        fail_msg("%s", bench.error.message);
    }
    assert_true(launches_of("attention_reference gfx906") > 0);
    assert_null(trial_difference(&trial));
    assert_true(judged_right(&bench, &trial));
    spoil(&trial, 1, 3, 36, 1.02f);
    assert_false(judged_right(&bench, &trial));
    assert_true(launches_of("attention_compare gfx906") >= 2);
    trial_end(&trial);
    for (int i = 0; i < 2; i++) {
        judge_code_free(&code[i]);
    }
    runner_destroy(simulator);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cover_is_verified_on_a_simulated_gpu),
        cmocka_unit_test(what_a_simulator_gets_wrong_is_told_and_blocks_nothing),
        cmocka_unit_test(run_gives_the_arrays_of_the_simulator),
        cmocka_unit_test(what_needs_times_or_the_host_device_is_refused),
        cmocka_unit_test(judging_kernels_run_on_the_simulator),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
