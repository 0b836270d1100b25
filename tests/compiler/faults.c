/* faults.c - compilers that die, hang, flood, fill up or lie: each is one failed compile with its log, and the next
 * works.
 *
 * The fakes are shell scripts that stand in for clang or c++ (ATTUNE_CLANG, ATTUNE_CXX) and misbehave when asked to
 * compile; other questions they pass on to the real one.
 */
#include "tests/compiler/fakes.h"

#include "base/files.h"
#include "base/process.h"

#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* a fake that misbehaves only while `folder`/bad exists, so that the very next compile of the same pool can work */
static void misbehave(const char *body, double seconds, uint64_t rss_bytes, attune_status expected,
                      const char *in_message, const char *in_log)
{
    char script[4096];
    char flag[4200];
    char whole[8192];
    struct buffer log = BUFFER_INIT;
    struct error error = {.message = ""};
    (void)snprintf(flag, sizeof flag, "%s/bad", folder);
    (void)snprintf(whole, sizeof whole, "if [ -e \"$(dirname \"$0\")/bad\" ]; then\n%s\nfi\nexec c++ \"$@\"", body);
    write_script("fake c++", whole, script);
    assert_int_equal(setenv("ATTUNE_CXX", script, 1), 0);
    struct compiler_pool *pool = pool_with(1, seconds, rss_bytes);
    attune_status status = compile_with(pool, HOST_KERNEL, &error, NULL);
    if (status == ATTUNE_NO_TOOLCHAIN) {
        compiler_pool_destroy(pool);
        SKIP_IF_MISSING(status, error);
    }
    assert_int_equal(status, ATTUNE_OK);
    assert_int_equal(file_write(flag, "", 0, NULL), ATTUNE_OK);
    status = compile_with(pool, HOST_KERNEL, &error, &log);
    if (status != expected || strstr(error.message, in_message) == NULL ||
        strstr(buffer_string(&log), in_log) == NULL) {
        print_message("%s: %s\n%.2000s\n", attune_status_name(status), error.message, buffer_string(&log));
    }
    assert_int_equal(status, expected);
    assert_non_null(strstr(error.message, in_message));
    assert_non_null(strstr(buffer_string(&log), in_log));
    assert_true(log.length <= 1 << 20);
    assert_int_equal(unlink(flag), 0);
    status = compile_with(pool, HOST_KERNEL, &error, NULL);
    if (status != ATTUNE_OK) {
        fail_msg("the next compile failed: %s", error.message);
    }
    compiler_pool_destroy(pool);
    buffer_free(&log);
}

/* for what never ends; the good compiles before and after get as much, and a busy machine needs it */
enum { limit_seconds = 8 };

static void crash_is_one_failed_compile(void **state)
{
    (void)state;
    misbehave("echo 'internal thing broke' >&2; kill -SEGV $$", 0, 0, ATTUNE_COMPILE_FAILED, "signal 11",
              "internal thing broke");
}

static void refusal_shows_its_first_error_line(void **state)
{
    (void)state;
    misbehave("echo 'note: before'; echo 'x.hip:3:1: error: first'; echo 'x.hip:4:1: error: second'; exit 1", 0, 0,
              ATTUNE_COMPILE_FAILED, "x.hip:3:1: error: first", "error: second");
}

/* a caller that ignores SIGCHLD, or blocks every signal, hands that on to the programs it starts */
static void caller_with_odd_signals_gets_the_same_answers(void **state)
{
    (void)state;
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)signal(SIGCHLD, SIG_IGN);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    misbehave("echo 'x.hip:3:1: error: refused'; exit 1", 0, 0, ATTUNE_COMPILE_FAILED, "exit status 1", "refused");
    misbehave("sleep 1000", limit_seconds, 0, ATTUNE_TIMEOUT, "limit", "");
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)signal(SIGCHLD, SIG_DFL);
}

static void hang_ends_at_the_limit(void **state)
{
    (void)state;
    char script[128], pattern[64]; /* fractions that no other run on this machine sleeps */
    (void)snprintf(script, sizeof script, "echo 'before the hang'; sleep 1000.%d & sleep 1001.%d", getpid(), getpid());
    (void)snprintf(pattern, sizeof pattern, "^sleep 100[01]\\.%d$", getpid());
    misbehave(script, limit_seconds, 0, ATTUNE_TIMEOUT, "8 seconds", "");
    /* driver and its own children are gone */
    const char *const argv[] = {"pgrep", "-f", pattern, NULL};
    const struct process_options options = {.argv = argv};
    struct process_result result;
    if (process_run(&options, &result, NULL) == ATTUNE_OK) {
        assert_int_equal(result.exit_code, 1);
    }
    process_result_free(&result);
}

static void endless_file_stops_at_its_limit(void **state)
{
    (void)state;
    misbehave("exec cat /dev/zero > \"$out\"", 60, 0, ATTUNE_COMPILE_FAILED, "signal 25", "");
}

static void endless_output_is_drained_and_stopped(void **state)
{
    (void)state;
    misbehave("exec yes 'error: again and again'", limit_seconds, 0, ATTUNE_TIMEOUT, "limit", "");
}

static void long_log_is_cut_not_lost(void **state)
{
    (void)state;
    misbehave("echo 'a.hip:1:1: error: the first of many'; head -c 2097152 /dev/zero | tr '\\0' x; exit 1", 0, 0,
              ATTUNE_COMPILE_FAILED, "the first of many", "xxxxxxxx");
}

static void success_without_an_object_is_a_failure(void **state)
{
    (void)state;
    misbehave("exit 0", 0, 0, ATTUNE_COMPILE_FAILED, "wrote nothing", "");
}

static void success_with_rubbish_is_a_failure(void **state)
{
    (void)state;
    misbehave("echo rubbish > \"$out\"; exit 0", 0, 0, ATTUNE_COMPILE_FAILED, "link", "");
}

static void memory_limit_ends_the_compiler(void **state)
{
    (void)state;
    misbehave("exec tail /dev/zero", 60, (uint64_t)300 << 20, ATTUNE_NO_MEMORY, "300 MiB", "");
}

/* an operator, or the system for want of memory: the source is not to blame, and is compiled in a new worker */
static void a_worker_that_others_end_once_fails_no_compile(void **state)
{
    (void)state;
    char script[4096], flag[4200];
    struct error error = {.message = ""};
    write_script("fake c++",
                 "if rm \"$(dirname \"$0\")/once\" 2>/dev/null; then kill -KILL $PPID; sleep 1000; fi\n"
                 "exec c++ \"$@\"",
                 script);
    assert_int_equal(setenv("ATTUNE_CXX", script, 1), 0);
    struct compiler_pool *pool = pool_with(1, 60, 0);
    (void)snprintf(flag, sizeof flag, "%s/once", folder);
    assert_int_equal(file_write(flag, "", 0, NULL), ATTUNE_OK);
    attune_status status = compile_with(pool, HOST_KERNEL, &error, NULL);
    compiler_pool_destroy(pool);
    SKIP_IF_MISSING(status, error);
    if (status != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(access(flag, F_OK), -1);
}

/* as memory that ran out or an operator would: no fault of the source */
static void killing_the_worker_fails_one_compile(void **state)
{
    (void)state;
    misbehave("kill -KILL $PPID; sleep 1000", 60, 0, ATTUNE_IO, "signal 9", "");
    misbehave("kill -TERM $$; sleep 1000", 60, 0, ATTUNE_IO, "signal 15", "");
    misbehave("echo 'c++: fatal error: Killed signal terminated program cc1plus'; exit 1", 60, 0, ATTUNE_IO, "Killed",
              "");
    misbehave("echo 'as: BFD: kernel.o: File too large'; exit 1", 60, 0, ATTUNE_COMPILE_FAILED, "too large", "");
}

static void compilers_see_no_gpu_and_none_of_our_callers_flags(void **state)
{
    (void)state;
    assert_int_equal(setenv("CPATH", "/nowhere", 1), 0);
    assert_int_equal(setenv("AMD_COMGR_SAVE_TEMPS", "1", 1), 0);
    assert_int_equal(setenv("HIPRTC_COMPILE_OPTIONS_APPEND", "-ffast-math", 1), 0);
    assert_int_equal(setenv("HIP_VISIBLE_DEVICES", "3", 1), 0);
    misbehave("env; exit 1", 0, 0, ATTUNE_COMPILE_FAILED, "", "HIP_VISIBLE_DEVICES=-1");
    char script[4096];
    struct error error = {.message = ""};
    struct buffer log = BUFFER_INIT;
    write_script("fake c++", "env; exit 1", script);
    struct compiler_pool *pool = pool_with(1, 0, 0);
    assert_int_equal(compile_with(pool, HOST_KERNEL, &error, &log), ATTUNE_COMPILE_FAILED);
    assert_non_null(strstr(log.data, "CUDA_VISIBLE_DEVICES=\n"));
    assert_non_null(strstr(log.data, "ROCR_VISIBLE_DEVICES=\n"));
    assert_null(strstr(log.data, "CPATH="));
    assert_null(strstr(log.data, "AMD_COMGR_SAVE_TEMPS"));
    assert_null(strstr(log.data, "HIPRTC_COMPILE_OPTIONS_APPEND"));
    compiler_pool_destroy(pool);
    buffer_free(&log);
    (void)unsetenv("CPATH");
    (void)unsetenv("AMD_COMGR_SAVE_TEMPS");
    (void)unsetenv("HIPRTC_COMPILE_OPTIONS_APPEND");
    (void)unsetenv("HIP_VISIBLE_DEVICES");
}

/* hiprtc ends its process on some sources (128-bit division has no library here): a log, and the next compile works */
static void hiprtc_that_aborts_is_one_failed_compile(void **state)
{
    (void)state;
    struct compiler_pool *pool = pool_with(1, 0, 0);
    struct error error = {.message = ""};
    struct compile_request request =
        request_for("gfx906", "extern \"C\" __attribute__((global)) void k(__int128 *p) { p[0] = p[1] / p[2]; }\n");
    struct compile_result result = {.seconds = 0};
    request.compiler = COMPILER_HIPRTC;
    attune_status status = compiler_compile(pool, &request, &result, &error);
    if (status == ATTUNE_NO_TOOLCHAIN) {
        compile_result_free(&result);
        compiler_pool_destroy(pool);
        SKIP_IF_MISSING(status, error);
    }
    assert_int_equal(status, ATTUNE_COMPILE_FAILED);
    print_message("%s\n", error.message);
    assert_true(result.log.length > 0);
    compile_result_free(&result);
    request = request_for("gfx906", AMD_KERNEL);
    assert_int_equal(compile_request_once(pool, &request, &result, &error), ATTUNE_OK);
    compile_result_free(&result);
    compiler_pool_destroy(pool);
}

/* another file under the same name is another compiler, and the old one back is the old one */
static void identity_follows_the_files(void **state)
{
    (void)state;
    char script[4096];
    char identities[3][DIGEST_HEX_BYTES];
    struct target target;
    assert_int_equal(target_parse("host", &target, NULL), ATTUNE_OK);
    for (int i = 0; i < 3; i++) {
        char compiler[64];
        struct error error = {.message = ""};
        write_script("fake c++", i == 1 ? "exec c++ -O2 \"$@\"" : "exec c++ \"$@\"", script);
        assert_int_equal(setenv("ATTUNE_CXX", script, 1), 0);
        struct compiler_pool *pool = pool_with(1, 0, 0);
        attune_status status =
            compiler_identity(pool, &target, COMPILER_AUTO, SANITIZE_NONE, compiler, identities[i], &error);
        compiler_pool_destroy(pool);
        SKIP_IF_MISSING(status, error);
    }
    assert_string_not_equal(identities[0], identities[1]);
    assert_string_equal(identities[0], identities[2]);
}

static void *compile_some(void *argument)
{
    struct compiler_pool *pool = argument;
    for (int i = 0; i < 4; i++) {
        struct error error;
        if (compile_with(pool, HOST_KERNEL, &error, NULL) != ATTUNE_OK) {
            return "failed";
        }
    }
    return NULL;
}

/* 16 threads share two workers: two helper starts, whoever started them having ended or not */
static void threads_share_the_workers(void **state)
{
    (void)state;
    struct error error = {.message = ""};
    struct compiler_pool *pool = pool_with(2, 0, 0);
    uint64_t before = compiler_helper_starts();
    for (int round = 0; round < 2; round++) {
        pthread_t threads[16];
        for (int i = 0; i < 16; i++) {
            assert_int_equal(pthread_create(&threads[i], NULL, compile_some, pool), 0);
        }
        for (int i = 0; i < 16; i++) {
            void *failure = NULL;
            assert_int_equal(pthread_join(threads[i], &failure), 0);
            if (failure != NULL) {
                attune_status status = compile_with(pool, HOST_KERNEL, &error, NULL);
                SKIP_IF_MISSING(status, error);
                fail_msg("a compile in a thread failed");
            }
        }
    }
    assert_int_equal(compiler_helper_starts() - before, 2);
    compiler_pool_destroy(pool);
}

static void a_worker_is_replaced_after_200_requests(void **state)
{
    (void)state;
    char script[4096];
    struct error error;
    /* a compiler that answers at once keeps this short */
    write_script("fake c++", "exit 1", script);
    assert_int_equal(setenv("ATTUNE_CXX", script, 1), 0);
    struct compiler_pool *pool = pool_with(1, 0, 0);
    uint64_t before = compiler_helper_starts();
    for (int i = 0; i < 200; i++) {
        (void)compile_with(pool, HOST_KERNEL, &error, NULL);
    }
    assert_int_equal(compiler_helper_starts() - before, 1);
    (void)compile_with(pool, HOST_KERNEL, &error, NULL);
    assert_int_equal(compiler_helper_starts() - before, 2);
    compiler_pool_destroy(pool);
}

/* the caller dies by SIGKILL in the middle of a compile: compiler, worker and folder go with it */
static void death_of_the_caller_ends_everything(void **state)
{
    (void)state;
    char place[4200];
    char script[4096];
    (void)snprintf(place, sizeof place, "%s/caller", folder);
    assert_int_equal(mkdir(place, 0700), 0);
    char body[128], pattern[64];
    (void)snprintf(body, sizeof body, "touch \"$TMPDIR/../started\"; exec sleep 1234.%d", getpid());
    (void)snprintf(pattern, sizeof pattern, "^sleep 1234\\.%d$", getpid());
    write_script("fake c++", body, script);
    assert_int_equal(setenv("ATTUNE_CXX", script, 1), 0);
    assert_int_equal(setenv("TMPDIR", place, 1), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct error error;
        struct compiler_pool *pool = NULL;
        if (compiler_pool_create(NULL, &pool, &error) == ATTUNE_OK) {
            (void)compile_with(pool, HOST_KERNEL, &error, NULL);
        }
        _exit(0);
    }
    for (int i = 0; i < 6000 && entries_in(place, "started") == 0; i++) {
        (void)usleep(10000);
    }
    assert_int_equal(entries_in(place, "started"), 1);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    for (int i = 0; i < 6000 && entries_in(place, "attune") != 0; i++) {
        (void)usleep(10000);
    }
    assert_int_equal(entries_in(place, "attune"), 0);
    const char *const argv[] = {"pgrep", "-f", pattern, NULL};
    const struct process_options options = {.argv = argv};
    struct process_result result;
    attune_status status = ATTUNE_OK;
    bool gone = false;
    for (int i = 0; i < 3000 && !gone && status == ATTUNE_OK; i++) {
        status = process_run(&options, &result, NULL);
        gone = result.exit_code == 1;
        process_result_free(&result);
        (void)usleep(10000);
    }
    assert_true(gone || status != ATTUNE_OK);
}

static void bad_pool_options_are_refused(void **state)
{
    (void)state;
    struct compiler_pool *pool = NULL;
    struct error error = {.message = ""};
    struct compiler_options options = {.workers = 65};
    assert_int_equal(compiler_pool_create(&options, &pool, &error), ATTUNE_INVALID);
    assert_non_null(strstr(error.message, "65"));
    options = (struct compiler_options){.seconds = -1};
    assert_int_equal(compiler_pool_create(&options, &pool, &error), ATTUNE_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(crash_is_one_failed_compile),
        TEST(refusal_shows_its_first_error_line),
        TEST(caller_with_odd_signals_gets_the_same_answers),
        TEST(hang_ends_at_the_limit),
        TEST(endless_file_stops_at_its_limit),
        TEST(endless_output_is_drained_and_stopped),
        TEST(long_log_is_cut_not_lost),
        TEST(success_without_an_object_is_a_failure),
        TEST(success_with_rubbish_is_a_failure),
        TEST(memory_limit_ends_the_compiler),
        TEST(a_worker_that_others_end_once_fails_no_compile),
        TEST(killing_the_worker_fails_one_compile),
        TEST(compilers_see_no_gpu_and_none_of_our_callers_flags),
        TEST(hiprtc_that_aborts_is_one_failed_compile),
        TEST(identity_follows_the_files),
        TEST(threads_share_the_workers),
        TEST(a_worker_is_replaced_after_200_requests),
        TEST(death_of_the_caller_ends_everything),
        TEST(bad_pool_options_are_refused),
    };
    return cmocka_run_group_tests(tests, fakes_open, fakes_close);
}
