/* test_process.c - programs that fail, hang, flood, grow and outlive: the caller always gets its answer. */
#include "base/files.h"
#include "base/process.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define SHELL(text) ((const char *const[]){"sh", "-c", text, NULL})

static attune_status shell(const char *text, struct process_options options, struct process_result *result,
                           struct error *error)
{
    const char *const argv[] = {"sh", "-c", text, NULL};
    options.argv = argv;
    return process_run(&options, result, error);
}

static void both_streams_and_exit_code_come_back(void **state)
{
    (void)state;
    struct process_result result;
    struct error error = {0};
    assert_int_equal(shell("echo out; echo err >&2; exit 3", (struct process_options){0}, &result, &error), ATTUNE_OK);
    assert_string_equal(buffer_string(&result.output), "out\n");
    assert_string_equal(buffer_string(&result.errors), "err\n");
    assert_int_equal(result.exit_code, 3);
    assert_int_equal(result.signal, 0);
    process_result_free(&result);

    assert_int_equal(shell("kill -ABRT $$", (struct process_options){0}, &result, &error), ATTUNE_OK);
    assert_int_equal(result.signal, SIGABRT);
    assert_int_equal(result.exit_code, -1);
    process_result_free(&result);
}

static void missing_program_is_not_found(void **state)
{
    (void)state;
    struct process_result result;
    struct error error = {0};
    const char *const names[] = {"attune-no-such-program", "/nowhere/program", "", "/etc/passwd"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct process_options options = {.argv = (const char *const[]){names[i], NULL}};
        assert_int_equal(process_run(&options, &result, &error), ATTUNE_NOT_FOUND);
        assert_non_null(strstr(error.message, names[i]));
        process_result_free(&result);
    }
    struct process_options nowhere = {.argv = SHELL("true"), .directory = "/nowhere"};
    assert_int_equal(process_run(&nowhere, &result, &error), ATTUNE_NOT_FOUND);
    assert_non_null(strstr(error.message, "/nowhere"));
    process_result_free(&result);
}

static void arguments_are_passed_as_they_are(void **state)
{
    (void)state;
    struct process_result result;
    const char *odd = "a b'\"$HOME;*\n\xc3\xbc";
    struct process_options options = {.argv = (const char *const[]){"printf", "%s|", odd, "", NULL}};
    assert_int_equal(process_run(&options, &result, NULL), ATTUNE_OK);
    assert_int_equal(result.output.length, strlen(odd) + 2);
    assert_memory_equal(result.output.data, odd, strlen(odd));
    process_result_free(&result);
}

static void time_limit_ends_the_whole_group(void **state)
{
    (void)state;
    struct process_result result;
    struct error error = {0};
    /* the grandchild would keep the pipe open for a minute */
    assert_int_equal(
        shell("echo before; sleep 60 & echo $!; sleep 60", (struct process_options){.seconds = 0.3}, &result, &error),
        ATTUNE_TIMEOUT);
    assert_non_null(strstr(error.message, "0.3"));
    assert_int_equal(strncmp(buffer_string(&result.output), "before\n", 7), 0);
    pid_t grandchild = (pid_t)atoi(buffer_string(&result.output) + 7);
    assert_true(grandchild > 0);
    /* killed; perhaps not yet collected by whoever inherited it */
    char path[64], line[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)grandchild);
    for (int i = 0; i < 500; i++) {
        FILE *file = fopen(path, "r");
        if (!file) {
            line[0] = '\0';
            break;
        }
        size_t length = fread(line, 1, sizeof line - 1, file);
        line[length] = '\0';
        fclose(file);
        if (strstr(line, ") Z")) {
            break;
        }
        usleep(10000);
    }
    assert_true(line[0] == '\0' || strstr(line, ") Z"));
    process_result_free(&result);
}

static void background_process_does_not_hold_the_caller(void **state)
{
    (void)state;
    struct process_result result;
    /* ends at once although the background sleep has stdout open */
    assert_int_equal(shell("sleep 60 & echo done", (struct process_options){.seconds = 30}, &result, NULL), ATTUNE_OK);
    assert_string_equal(buffer_string(&result.output), "done\n");
    process_result_free(&result);
}

static void memory_limit_counts_the_group(void **state)
{
    (void)state;
    struct process_result result;
    struct error error = {0};
    /* tail keeps all of a line without end; it is a child of the shell, not the shell */
    struct process_options options = {.rss_bytes = 64 << 20, .seconds = 60};
    assert_int_equal(shell("(cat /dev/zero | tail -n 1); true", options, &result, &error), ATTUNE_NO_MEMORY);
    assert_non_null(strstr(error.message, "67108864"));
    process_result_free(&result);
}

static void output_past_the_limit_is_dropped(void **state)
{
    (void)state;
    struct process_result result;
    struct process_options options = {.output_limit = 1000};
    assert_int_equal(shell("head -c 5000000 /dev/zero; head -c 5000000 /dev/zero >&2", options, &result, NULL),
                     ATTUNE_OK);
    assert_int_equal(result.exit_code, 0);
    assert_int_equal(result.output.length, 1000);
    assert_int_equal(result.errors.length, 1000);
    process_result_free(&result);
}

static void end_of_a_long_output_is_kept_where_that_is_wanted(void **state)
{
    (void)state;
    struct process_result result;
    struct process_options options = {.output_limit = 1000, .keep_end = true};
    assert_int_equal(shell("seq 300000; echo short >&2", options, &result, NULL), ATTUNE_OK);
    assert_true(result.output.length >= 500 && result.output.length <= 1000);
    assert_string_equal(result.output.data + result.output.length - 14, "299999\n300000\n");
    assert_string_equal(buffer_string(&result.errors), "short\n");
    process_result_free(&result);
}

static void input_reaches_the_program_and_may_go_unread(void **state)
{
    (void)state;
    struct process_result result;
    size_t length = 3000000;
    char *input = malloc(length);
    assert_non_null(input);
    memset(input, 'x', length);
    struct process_options options = {.input = input, .input_bytes = length, .output_limit = 100};
    assert_int_equal(shell("wc -c", options, &result, NULL), ATTUNE_OK);
    assert_int_equal(atol(buffer_string(&result.output)), (long)length);
    process_result_free(&result);
    assert_int_equal(shell("exec true", options, &result, NULL), ATTUNE_OK); /* no SIGPIPE here */
    assert_int_equal(result.exit_code, 0);
    process_result_free(&result);
    assert_int_equal(shell("wc -c", (struct process_options){0}, &result, NULL), ATTUNE_OK); /* no input: /dev/null */
    assert_int_equal(atol(buffer_string(&result.output)), 0);
    process_result_free(&result);
    free(input);
}

static void child_has_three_descriptors_and_default_signals(void **state)
{
    (void)state;
    struct process_result result;
    int inheritable = open("/dev/null", O_RDONLY); /* without close-on-exec, as careless hosts do */
    assert_true(inheritable >= 0);
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(shell("ls /proc/$$/fd; grep SigIgn /proc/$$/status", (struct process_options){0}, &result, NULL),
                     ATTUNE_OK);
    signal(SIGPIPE, SIG_DFL);
    close(inheritable);
    assert_string_equal(buffer_string(&result.output), "0\n1\n2\nSigIgn:\t0000000000000000\n");
    process_result_free(&result);
}

static void environment_is_changed_not_replaced(void **state)
{
    (void)state;
    struct process_result result;
    setenv("ATTUNE_TEST_A", "old", 1);
    setenv("ATTUNE_TEST_B", "old", 1);
    setenv("ATTUNE_TEST_AA", "kept", 1);
    const char *const changes[] = {"ATTUNE_TEST_A=new value", "ATTUNE_TEST_B", "ATTUNE_TEST_C=", NULL};
    struct process_options options = {.environment = changes, .directory = "/"};
    assert_int_equal(
        shell("echo \"$ATTUNE_TEST_A,${ATTUNE_TEST_B-unset},${ATTUNE_TEST_C-unset},$ATTUNE_TEST_AA,$(pwd)\"", options,
              &result, NULL),
        ATTUNE_OK);
    assert_string_equal(buffer_string(&result.output), "new value,unset,,kept,/\n");
    assert_string_equal(getenv("ATTUNE_TEST_A"), "old");
    process_result_free(&result);
}

static void file_size_limit_holds(void **state)
{
    (void)state;
    char folder[256];
    struct process_result result;
    assert_int_equal(folder_temporary(folder, sizeof folder, NULL), ATTUNE_OK);
    struct process_options options = {.file_bytes = 4096, .directory = folder};
    assert_int_equal(shell("head -c 100000 /dev/zero > big; exec wc -c < big", options, &result, NULL), ATTUNE_OK);
    assert_int_equal(atol(buffer_string(&result.output)), 4096);
    process_result_free(&result);
    folder_remove(folder);
}

static void child_dies_with_its_caller(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t caller = fork();
    assert_true(caller >= 0);
    if (caller == 0) {
        struct process_result result;
        char text[128];
        close(ends[0]);
        snprintf(text, sizeof text, "echo $$ > /proc/%d/fd/%d; exec sleep 60", (int)getpid(), ends[1]);
        shell(text, (struct process_options){0}, &result, NULL);
        _exit(0);
    }
    close(ends[1]);
    char line[32] = "";
    assert_true(read(ends[0], line, sizeof line - 1) > 0);
    pid_t child = (pid_t)atoi(line);
    assert_int_equal(kill(child, 0), 0);
    kill(caller, SIGKILL);
    waitpid(caller, NULL, 0);
    close(ends[0]);
    uint64_t left = 1;
    for (int i = 0; i < 500 && left; i++) {
        usleep(10000);
        left = process_group_rss(child);
    }
    assert_int_equal(left, 0);
}

static void *run_many(void *data)
{
    (void)data;
    for (int i = 0; i < 10; i++) {
        struct process_result result;
        if (shell("echo x", (struct process_options){0}, &result, NULL) != ATTUNE_OK ||
            strcmp(buffer_string(&result.output), "x\n") != 0) {
            return (void *)(uintptr_t)1;
        }
        process_result_free(&result);
    }
    return NULL;
}

static void threads_run_programs_side_by_side(void **state)
{
    (void)state;
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, run_many, NULL), 0);
    }
    for (int i = 0; i < 8; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
}

static void long_lived_child_answers_and_reports_its_end(void **state)
{
    (void)state;
    struct process process;
    struct error error = {0};
    char answer[8];
    struct process_options options = {.argv = SHELL("head -c 1000000 /dev/zero >&2; while read x; do echo \"<$x>\"; "
                                                    "[ $x = end ] && exit 7; done")};
    assert_int_equal(process_start(&options, &process, &error), ATTUNE_OK);
    double deadline = clock_seconds() + 60;
    /* a megabyte of complaints does not block the answer */
    assert_int_equal(process_write(&process, "ab\n", 3, deadline, &error), ATTUNE_OK);
    assert_int_equal(process_read(&process, answer, 5, deadline, 0, &error), ATTUNE_OK);
    assert_memory_equal(answer, "<ab>\n", 5);
    struct buffer complaints = BUFFER_INIT;
    process_errors(&process, &complaints, 100);
    assert_int_equal(complaints.length, 100);
    buffer_free(&complaints);

    assert_int_equal(process_read(&process, answer, 1, clock_seconds() + 0.1, 0, &error), ATTUNE_TIMEOUT);
    assert_int_equal(process_write(&process, "end\n", 4, deadline, &error), ATTUNE_OK);
    assert_int_equal(process_read(&process, answer, 6, deadline, 0, &error), ATTUNE_OK);
    assert_int_equal(process_read(&process, answer, 1, deadline, 0, &error), ATTUNE_IO);
    assert_non_null(strstr(error.message, "code 7"));
    assert_int_equal(process_write(&process, "x\n", 2, deadline, &error), ATTUNE_IO); /* and no SIGPIPE */
    process_kill(&process);
    process_kill(&process);
}

static void killed_child_is_named_by_its_signal(void **state)
{
    (void)state;
    struct process process;
    struct error error = {0};
    char answer;
    struct process_options options = {.argv = SHELL("kill -SEGV $$")};
    assert_int_equal(process_start(&options, &process, &error), ATTUNE_OK);
    assert_int_equal(process_read(&process, &answer, 1, clock_seconds() + 60, 0, &error), ATTUNE_IO);
    assert_non_null(strstr(error.message, "signal 11"));
    process_kill(&process);
}

/* children of such a process leave no status behind: a sentence, not a wait without end */
static void ignored_children_end_with_a_message(void **state)
{
    (void)state;
    const char *const argv[] = {"true", NULL};
    const struct process_options options = {.argv = argv};
    struct process_result result;
    struct error error = {.message = ""};
    signal(SIGCHLD, SIG_IGN);
    attune_status status = process_run(&options, &result, &error);
    signal(SIGCHLD, SIG_DFL);
    assert_int_equal(status, ATTUNE_IO);
    assert_non_null(strstr(error.message, "SIGCHLD"));
    assert_int_equal(result.exit_code, -1);
    process_result_free(&result);
}

static void *start_cat(void *data)
{
    struct process_options options = {.argv = (const char *const[]){"cat", NULL}};
    return (void *)(uintptr_t)process_start(&options, data, NULL);
}

static void child_outlives_the_thread_that_started_it(void **state)
{
    (void)state;
    struct process process;
    pthread_t thread;
    void *status;
    char answer[4];
    assert_int_equal(pthread_create(&thread, NULL, start_cat, &process), 0);
    pthread_join(thread, &status);
    assert_int_equal((uintptr_t)status, ATTUNE_OK);
    usleep(50000);
    assert_int_equal(process_write(&process, "abc\n", 4, clock_seconds() + 60, NULL), ATTUNE_OK);
    assert_int_equal(process_read(&process, answer, 4, clock_seconds() + 60, 0, NULL), ATTUNE_OK);
    process_kill(&process);
}

static void path_lookup_skips_the_working_folder(void **state)
{
    (void)state;
    char path[512];
    struct error error = {0};
    char *before = strdup(getenv("PATH"));
    assert_int_equal(program_find("sh", path, sizeof path, &error), ATTUNE_OK);
    assert_int_equal(path[0], '/');
    char folder[256], program[300];
    assert_int_equal(folder_temporary(folder, sizeof folder, NULL), ATTUNE_OK);
    assert_int_equal(path_join(program, sizeof program, folder, "tool", NULL), ATTUNE_OK);
    assert_int_equal(file_write(program, "#!/bin/sh\n", 10, NULL), ATTUNE_OK);
    chmod(program, 0700);
    char *here = getcwd(NULL, 0);
    assert_int_equal(chdir(folder), 0);
    setenv("PATH", ":/nowhere:", 1);
    assert_int_equal(program_find("tool", path, sizeof path, &error), ATTUNE_NOT_FOUND);
    setenv("PATH", folder, 1);
    assert_int_equal(program_find("tool", path, sizeof path, &error), ATTUNE_OK);
    assert_string_equal(path, program);
    assert_int_equal(chdir(here), 0);
    setenv("PATH", before, 1);
    folder_remove(folder);
    free(before);
    free(here);
}

static void too_few_descriptors_are_named(void **state)
{
    (void)state;
    static const char *const argv[] = {"/bin/true", NULL};
    struct process_options options = {.argv = argv};
    struct process_result result = {0};
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    static const rlim_t limits[] = {8, 12};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        struct error error = {0};
        small = before;
        small.rlim_cur = limits[i];
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &small), 0);
        attune_status status = process_run(&options, &result, &error);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_int_equal(status, ATTUNE_IO);
        assert_non_null(strstr(error.message, "Too many open files"));
        assert_non_null(strstr(error.message, "ulimit -n"));
    }
    struct error error = {0};
    assert_int_equal(process_run(&options, &result, &error), ATTUNE_OK);
    process_result_free(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_streams_and_exit_code_come_back),
        cmocka_unit_test(missing_program_is_not_found),
        cmocka_unit_test(arguments_are_passed_as_they_are),
        cmocka_unit_test(time_limit_ends_the_whole_group),
        cmocka_unit_test(background_process_does_not_hold_the_caller),
        cmocka_unit_test(memory_limit_counts_the_group),
        cmocka_unit_test(output_past_the_limit_is_dropped),
        cmocka_unit_test(end_of_a_long_output_is_kept_where_that_is_wanted),
        cmocka_unit_test(input_reaches_the_program_and_may_go_unread),
        cmocka_unit_test(child_has_three_descriptors_and_default_signals),
        cmocka_unit_test(environment_is_changed_not_replaced),
        cmocka_unit_test(file_size_limit_holds),
        cmocka_unit_test(child_dies_with_its_caller),
        cmocka_unit_test(threads_run_programs_side_by_side),
        cmocka_unit_test(long_lived_child_answers_and_reports_its_end),
        cmocka_unit_test(killed_child_is_named_by_its_signal),
        cmocka_unit_test(ignored_children_end_with_a_message),
        cmocka_unit_test(child_outlives_the_thread_that_started_it),
        cmocka_unit_test(path_lookup_skips_the_working_folder),
        cmocka_unit_test(too_few_descriptors_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
