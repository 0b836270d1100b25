/* test_trace.c - ATTUNE_TRACE: every launch is in the file under its problem, whoever shares the file and however the
 * process ends. With a driver that remembers its launches. */
#include "fake.h"

#include "runtime/tracing.h"
#include "tests/size.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64], path[96];

static int begin(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/attune-trace-XXXXXX");
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    snprintf(path, sizeof path, "%s/trace.jsonl", folder);
    return setenv("ATTUNE_TRACE", path, 1);
}

static int end(void **state)
{
    char command[128];
    (void)state;
    unsetenv("ATTUNE_TRACE");
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) == 0 ? 0 : -1;
}

/* ---- one plan, launched with lengths of the test's choice ---- */

struct scene {
    attune_context *context;
    struct fake_device *gpu;
    struct fake_jit jit;
    attune_problem *problem;
    attune_plan *plan;
};

#define ADDRESS(n) ((void *)(uintptr_t)(0x100000 * (n)))

/* workspace_bytes: of each query, 0 for none */
static void scene_open_with(struct scene *scene, int workspace_bytes)
{
    memset(scene, 0, sizeof *scene);
    scene->context = fake_context(NULL, ATTUNE_JIT_COMPILE);
    attune_device *device = fake_open(scene->context, &scene->gpu);
    fake_jit_init(&scene->jit);
    if (workspace_bytes > 0) {
        scene->jit.launch.workspace_factor_bytes = (uint64_t)workspace_bytes;
        scene->jit.launch.workspace = (struct launch_dimension){1, {{"seqlen_q", 1}}};
    }
    fake_jit_register(&scene->jit, scene->context);
    scene->problem = fake_problem(scene->context, FAKE_PROBLEM "seqlen_q=64");
    fake_expect(scene->context, ATTUNE_OK, attune_prepare(device, scene->problem, NULL, &scene->plan), NULL);
}

static void scene_open(struct scene *scene)
{
    scene_open_with(scene, 0);
}

static void scene_close(struct scene *scene)
{
    attune_plan_destroy(scene->plan);
    attune_problem_destroy(scene->problem);
    attune_context_destroy(scene->context);
}

static attune_status launch(const attune_plan *plan, int64_t seqlen_q)
{
    const attune_attention_arguments arguments = {.size = sizeof arguments,
                                                  .seqlen_q = seqlen_q,
                                                  .q = ADDRESS(1),
                                                  .k = ADDRESS(2),
                                                  .v = ADDRESS(3),
                                                  .o = ADDRESS(4)};
    return attune_launch_attention(plan, &arguments, NULL, NULL, 0);
}

/* ---- what is in the file ---- */

/* calls of the problem with that length, 0 for every one; every line must be whole */
static int64_t calls_of(int64_t seqlen_q, int *lines)
{
    char line[4096], wanted[64];
    int64_t calls = 0;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    snprintf(wanted, sizeof wanted, " seqlen_q=%lld ", (long long)seqlen_q);
    if (lines != NULL) {
        *lines = 0;
    }
    while (fgets(line, sizeof line, file) != NULL) {
        json_t *json = json_loads(line, 0, NULL);
        const char *problem = json_string_value(json_object_get(json, "problem"));
        const json_int_t count = json_integer_value(json_object_get(json, "calls"));
        if (problem == NULL || strncmp(problem, "attention.forward q_dtype=f32 ", 30) != 0 || count < 1) {
            fail_msg("not a line of a trace: %s", line);
        }
        if (seqlen_q == 0 || strstr(problem, wanted) != NULL) {
            calls += count;
            if (lines != NULL) {
                (*lines)++;
            }
        }
        json_decref(json);
    }
    fclose(file);
    return calls;
}

static void put(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* ---- tests ---- */

static void launches_are_counted_under_their_own_sizes(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene);
    assert_int_equal(calls_of(0, NULL), 0); /* to prepare is not to launch */
    for (int i = 0; i < 7; i++) {
        fake_expect(scene.context, ATTUNE_OK, launch(scene.plan, 128), NULL);
    }
    fake_expect(scene.context, ATTUNE_OK, launch(scene.plan, 0), NULL); /* the problem's own */
    scene_close(&scene);
    assert_int_equal(calls_of(128, NULL), 7);
    assert_int_equal(calls_of(64, NULL), 1);
    assert_int_equal(calls_of(0, NULL), 8);
}

/* what is written at once, so that a kill loses less than half */
static void calls_are_written_as_they_double(void **state)
{
    (void)state;
    static const int64_t written[] = {1, 2, 2, 4, 4, 4, 4, 8, 8, 8, 8, 8, 8, 8, 8, 16, 16};
    struct scene scene;
    int lines;
    scene_open(&scene);
    for (size_t i = 0; i < sizeof written / sizeof written[0]; i++) {
        fake_expect(scene.context, ATTUNE_OK, launch(scene.plan, 128), NULL);
        assert_int_equal(calls_of(128, NULL), written[i]);
    }
    scene_close(&scene);
    assert_int_equal(calls_of(128, &lines), 17);
    assert_int_equal(lines, 6);
}

static void what_launches_nothing_is_not_counted(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene);
    attune_attention_arguments arguments = {.size = sizeof arguments, .explicit_sizes = 1};
    fake_expect(scene.context, ATTUNE_OK, attune_launch_attention(scene.plan, &arguments, NULL, NULL, 0), NULL);
    arguments.explicit_sizes = 0; /* q is NULL */
    fake_expect(scene.context, ATTUNE_INVALID, attune_launch_attention(scene.plan, &arguments, NULL, NULL, 0), NULL);
    scene_close(&scene);
    scene_open_with(&scene, 16); /* the last thing that is checked */
    fake_expect(scene.context, ATTUNE_INVALID, launch(scene.plan, 128), "workspace", NULL);
    scene_close(&scene);
    assert_int_equal(calls_of(0, NULL), 0);
}

struct thread_work {
    struct scene *scene;
    int launches, step;
};

static void *launch_often(void *data)
{
    const struct thread_work *work = data;
    for (int i = 0; i < work->launches; i++) {
        if (launch(work->scene->plan, 1 + (i * work->step) % 5) != ATTUNE_OK) {
            return data;
        }
    }
    return NULL;
}

static void run_threads(struct scene *scene, int launches)
{
    pthread_t threads[4];
    struct thread_work work[4];
    for (int i = 0; i < 4; i++) {
        work[i] = (struct thread_work){scene, launches, i + 1};
        assert_int_equal(pthread_create(&threads[i], NULL, launch_often, &work[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *failed;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
}

static void threads_lose_no_call(void **state)
{
    (void)state;
    struct scene scene;
    const int launches = test_size(5000, 200000);
    scene_open(&scene);
    run_threads(&scene, launches);
    scene_close(&scene);
    for (int length = 1; length <= 5; length++) {
        assert_int_equal(calls_of(length, NULL), 4 * launches / 5);
    }
}

static void processes_share_the_file(void **state)
{
    (void)state;
    const int launches = test_size(2000, 50000);
    pid_t children[3];
    for (int i = 0; i < 3; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            struct scene scene;
            for (int context = 0; context < 5; context++) {
                scene_open(&scene);
                run_threads(&scene, launches / 5);
                scene_close(&scene);
            }
            _exit(0);
        }
    }
    for (int i = 0; i < 3; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    for (int length = 1; length <= 5; length++) {
        assert_int_equal(calls_of(length, NULL), 3 * 4 * launches / 5);
    }
}

static void a_killed_process_loses_less_than_half(void **state)
{
    (void)state;
    static const int launches[] = {1, 2, 3, 63, 64, 127, 1000};
    for (size_t i = 0; i < sizeof launches / sizeof launches[0]; i++) {
        put("");
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            struct scene scene;
            scene_open(&scene);
            for (int n = 0; n < launches[i]; n++) {
                launch(scene.plan, 128);
                launch(scene.plan, 256);
            }
            raise(SIGKILL);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        assert_true(2 * calls_of(128, NULL) > launches[i] && calls_of(128, NULL) <= launches[i]);
        assert_true(2 * calls_of(256, NULL) > launches[i] && calls_of(256, NULL) <= launches[i]);
    }
}

static void more_problems_than_are_counted_at_a_time_lose_nothing(void **state)
{
    (void)state;
    enum { LENGTHS = TRACING_PROBLEMS_MAX + 100 };
    struct scene scene;
    scene_open(&scene);
    for (int length = 1; length <= LENGTHS; length++) {
        for (int i = 0; i < 3; i++) {
            fake_expect(scene.context, ATTUNE_OK, launch(scene.plan, length), NULL);
        }
    }
    fake_expect(scene.context, ATTUNE_OK, launch(scene.plan, 1), NULL);
    scene_close(&scene);
    assert_int_equal(calls_of(0, NULL), 3 * LENGTHS + 1);
    assert_int_equal(calls_of(1, NULL), 4);
    assert_int_equal(calls_of(LENGTHS, NULL), 3);
}

static void a_torn_line_is_ended_and_what_is_there_is_kept(void **state)
{
    (void)state;
    char first[256], second[256];
    struct scene scene;
    put("{\"calls\":1,\"prob");
    scene_open(&scene);
    fake_expect(scene.context, ATTUNE_OK, launch(scene.plan, 128), NULL);
    scene_close(&scene);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(first, sizeof first, file));
    assert_non_null(fgets(second, sizeof second, file));
    fclose(file);
    assert_string_equal(first, "{\"calls\":1,\"prob\n");
    assert_int_equal(strncmp(second, "{\"calls\":1,\"problem\":\"attention.forward ", 40), 0);
}

/* the context is refused, and what lies there is as it was */
static void refused(const char *why)
{
    attune_context *context = NULL;
    fake_expect(NULL, ATTUNE_INVALID, attune_context_create(NULL, &context), "ATTUNE_TRACE", why, NULL);
    assert_null(context);
}

static void unsafe_files_are_refused_by_name(void **state)
{
    (void)state;
    char other[128];
    struct stat facts;
    snprintf(other, sizeof other, "%s/other", folder);
    assert_int_equal(symlink(other, path), 0);
    refused("symbolic link");
    assert_int_equal(access(other, F_OK), -1); /* nothing was made through the link */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    refused("regular file");
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    refused("regular file");
    assert_int_equal(unlink(path), 0);
    put("precious");
    assert_int_equal(chmod(path, 0622), 0);
    refused("chmod go-w");
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_size, 8);
    if (geteuid() == 0) {
        assert_int_equal(chmod(path, 0600), 0);
        assert_int_equal(chown(path, 4711, 4711), 0);
        refused("belongs to user 4711");
    }
    snprintf(other, sizeof other, "%s/missing/trace", folder);
    setenv("ATTUNE_TRACE", other, 1);
    attune_context *context = NULL;
    fake_expect(NULL, ATTUNE_IO, attune_context_create(NULL, &context), "ATTUNE_TRACE", other, NULL);
}

static void a_new_file_is_of_its_owner_alone(void **state)
{
    (void)state;
    struct stat facts;
    const mode_t mask = umask(0);
    struct scene scene;
    scene_open(&scene);
    scene_close(&scene);
    umask(mask);
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_mode & 07777, 0600);
}

static void without_the_variable_there_is_no_trace(void **state)
{
    (void)state;
    static const char *const values[] = {NULL, ""};
    for (int i = 0; i < 2; i++) {
        struct scene scene;
        if (values[i] != NULL) {
            setenv("ATTUNE_TRACE", values[i], 1);
        } else {
            unsetenv("ATTUNE_TRACE");
        }
        scene_open(&scene);
        assert_null(scene.context->tracing);
        fake_expect(scene.context, ATTUNE_OK, launch(scene.plan, 128), NULL);
        scene_close(&scene);
        assert_int_equal(access(path, F_OK), -1);
    }
}

/* a full disk, or `ulimit -f`, ends the trace with a warning and nothing else */
static void a_file_that_takes_no_more_harms_no_launch(void **state)
{
    (void)state;
    struct scene scene;
    setenv("ATTUNE_QUIET", "1", 1);
    put("");
    assert_int_equal(truncate(path, TRACING_FILE_BYTES_MAX - 10), 0);
    scene_open(&scene);
    for (int i = 0; i < 5; i++) {
        fake_expect(scene.context, ATTUNE_OK, launch(scene.plan, 128), NULL);
    }
    assert_int_equal(scene.gpu->launches, 5);
    scene_close(&scene);
    unsetenv("ATTUNE_QUIET");
    struct stat facts;
    assert_int_equal(stat(path, &facts), 0);
    assert_true(facts.st_size <= TRACING_FILE_BYTES_MAX);
}

int main(void)
{
#define TRACE_TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        TRACE_TEST(launches_are_counted_under_their_own_sizes),
        TRACE_TEST(calls_are_written_as_they_double),
        TRACE_TEST(what_launches_nothing_is_not_counted),
        TRACE_TEST(threads_lose_no_call),
        TRACE_TEST(processes_share_the_file),
        TRACE_TEST(a_killed_process_loses_less_than_half),
        TRACE_TEST(more_problems_than_are_counted_at_a_time_lose_nothing),
        TRACE_TEST(a_torn_line_is_ended_and_what_is_there_is_kept),
        TRACE_TEST(unsafe_files_are_refused_by_name),
        TRACE_TEST(a_new_file_is_of_its_owner_alone),
        TRACE_TEST(without_the_variable_there_is_no_trace),
        TRACE_TEST(a_file_that_takes_no_more_harms_no_launch),
    };
    return cmocka_run_group_tests_name("trace", tests, NULL, NULL);
}
