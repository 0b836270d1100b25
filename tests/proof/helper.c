/* helper.c - proof_helper: whatever stands behind ATTUNE_HELPER, the library's time, memory and answer stay bounded;
 * and whatever asks the real helper, it answers or ends. (LD_PRELOAD and a helper that compiles something else on
 * purpose are outside: docs/threat-model.md.) */
#include "tests/compiler/fakes.h"

#include "generator/compiler_protocol.h"

#include "base/files.h"
#include "base/process.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const double limit = 1.5; /* seconds; each kind of misbehaviour below costs at most about this */

static bool slow(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return true;
#else
    return false;
#endif
}

/* a large source, so that a helper that does not read is seen too */
static attune_status compile_large(struct compiler_pool *pool, struct error *error)
{
    size_t bytes = 1 << 20;
    char *source = malloc(bytes + 1);
    struct compile_result result = {.seconds = 0};
    assert_non_null(source);
    memset(source, '\n', bytes);
    source[bytes] = '\0';
    struct compile_request request = request_for("host", source);
    attune_status status = compiler_compile(pool, &request, &result, error);
    assert_true(result.log.length <= PROTOCOL_LOG_BYTES + 4096);
    compile_result_free(&result);
    free(source);
    return status;
}

static long peak_mib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss >> 10;
}

struct badness {
    const char *mode;
    attune_status expected;
};

static void every_misbehaviour_is_bounded(void **state)
{
    (void)state;
    static const struct badness kinds[] = {
        {"hello-silent", ATTUNE_NO_TOOLCHAIN},
        {"hello-flood", ATTUNE_NO_TOOLCHAIN},
        {"hello-errors", ATTUNE_NO_TOOLCHAIN},
        {"hello-closes", ATTUNE_NO_TOOLCHAIN},
        {"hello-half", ATTUNE_NO_TOOLCHAIN},
        {"hello-trickle", ATTUNE_NO_TOOLCHAIN},
        {"hello-long", ATTUNE_NO_TOOLCHAIN},
        {"hello-kind", ATTUNE_NO_TOOLCHAIN},
        {"hello-number", ATTUNE_NO_TOOLCHAIN},
        {"silent", ATTUNE_TIMEOUT},
        {"flood", ATTUNE_COMPILE_FAILED},
        {"errors", ATTUNE_TIMEOUT},
        {"exits", ATTUNE_COMPILE_FAILED},
        {"eats", ATTUNE_NO_MEMORY},
        {"trickle", ATTUNE_TIMEOUT},
        {"half", ATTUNE_TIMEOUT},
        {"half-closes", ATTUNE_COMPILE_FAILED},
        {"deaf", ATTUNE_COMPILE_FAILED},
        {"daemon", ATTUNE_TIMEOUT},
        {"kind", ATTUNE_COMPILE_FAILED},
        {"unknown-kind", ATTUNE_COMPILE_FAILED},
        {"status", ATTUNE_INTERNAL},
        {"status-negative", ATTUNE_INTERNAL},
        {"no-object", ATTUNE_INTERNAL},
        {"empty-object", ATTUNE_INTERNAL},
        {"fields", ATTUNE_COMPILE_FAILED},
        {"number", ATTUNE_COMPILE_FAILED},
        {"number-before", ATTUNE_COMPILE_FAILED},
        {"field-length", ATTUNE_COMPILE_FAILED},
        {"length", ATTUNE_COMPILE_FAILED},
        {"magic", ATTUNE_COMPILE_FAILED},
        {"version", ATTUNE_COMPILE_FAILED},
    };
    assert_int_equal(setenv("ATTUNE_HELPER", BAD_HELPER, 1), 0);
    long before = peak_mib();
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct error error = {.message = ""};
        assert_int_equal(setenv("BAD_HELPER", kinds[i].mode, 1), 0);
        struct compiler_pool *pool =
            pool_with(1, kinds[i].expected == ATTUNE_NO_MEMORY ? 60 : limit, (uint64_t)200 << 20);
        double begin = clock_seconds();
        attune_status status = compile_large(pool, &error);
        double seconds = clock_seconds() - begin;
        compiler_pool_destroy(pool);
        if (status != kinds[i].expected || error.message[0] == '\0') {
            fail_msg("%s: %s: %s", kinds[i].mode, attune_status_name(status), error.message);
        }
        if (seconds > 30) {
            fail_msg("%s took %g seconds, its limit is %g", kinds[i].mode, seconds, limit);
        }
    }
    if (!slow()) {
        assert_true(peak_mib() - before < 200);
    }
    (void)unsetenv("BAD_HELPER");
}

/* an answer given twice does not become the next question's answer */
static void a_second_answer_is_nobodys(void **state)
{
    (void)state;
    assert_int_equal(setenv("ATTUNE_HELPER", BAD_HELPER, 1), 0);
    assert_int_equal(setenv("BAD_HELPER", "twice", 1), 0);
    struct compiler_pool *pool = pool_with(1, 10, 0);
    uint64_t before = compiler_helper_starts();
    for (int i = 0; i < 5; i++) {
        struct error error = {.message = ""};
        /* its answers are well formed; each must come from a worker that has said nothing else */
        attune_status status = compile_large(pool, &error);
        assert_true(status == ATTUNE_OK || status == ATTUNE_COMPILE_FAILED);
    }
    assert_true(compiler_helper_starts() - before >= 3);
    compiler_pool_destroy(pool);
    (void)unsetenv("BAD_HELPER");
}

/* texts longer than their place are cut, not written past it */
static void long_texts_are_cut(void **state)
{
    (void)state;
    struct compile_request request = request_for("host", HOST_KERNEL);
    struct compile_result result = {.seconds = 0};
    struct error error = {.message = ""};
    assert_int_equal(setenv("ATTUNE_HELPER", BAD_HELPER, 1), 0);
    assert_int_equal(setenv("BAD_HELPER", "long-texts", 1), 0);
    struct compiler_pool *pool = pool_with(1, 10, 0);
    (void)compiler_compile(pool, &request, &result, &error);
    assert_true(strlen(result.compiler) < sizeof result.compiler);
    compile_result_free(&result);
    compiler_pool_destroy(pool);
    (void)unsetenv("BAD_HELPER");
}

/* ATTUNE_HELPER is a folder, a text, nothing that can be run, itself a link to nowhere */
static void what_is_no_program_is_refused_by_name(void **state)
{
    (void)state;
    char text[1100], link[1100];
    (void)snprintf(text, sizeof text, "%s/text", folder);
    (void)snprintf(link, sizeof link, "%s/link", folder);
    assert_int_equal(file_write(text, "no program", 10, NULL), ATTUNE_OK);
    assert_int_equal(symlink("/nowhere", link), 0);
    const char *const names[] = {folder, text, link, "/dev/null", "/nowhere/at/all", "nonsense"};
    for (int executable = 0; executable < 2; executable++) {
        assert_int_equal(chmod(text, executable ? 0700 : 0600), 0);
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            struct compiler_pool *pool = NULL;
            struct error error = {.message = ""};
            assert_int_equal(setenv("ATTUNE_HELPER", names[i], 1), 0);
            attune_status status = compiler_pool_create(NULL, &pool, &error);
            if (status == ATTUNE_OK) {
                status = compile_with(pool, HOST_KERNEL, &error, NULL);
            }
            compiler_pool_destroy(pool);
            if (status == ATTUNE_OK || strstr(error.message, names[i]) == NULL) {
                fail_msg("%s: %s: %s", names[i], attune_status_name(status), error.message);
            }
        }
    }
}

/* ---- the other side: the real helper and whoever writes to it ---- */

static void frame_of(struct buffer *frame, uint32_t kind, const char *target, int compiler, const char *source)
{
    message_begin(frame, kind);
    if (target != NULL) {
        message_add_text(frame, KEY_TARGET, target);
    }
    message_add_integer(frame, KEY_COMPILER, compiler);
    message_add_integer(frame, KEY_SANITIZE, compiler);
    if (source != NULL) {
        message_add_text(frame, KEY_SOURCE, source);
    }
    assert_int_equal(message_end(frame, NULL), ATTUNE_OK);
    message_set_request(frame, 5);
}

/* the helper's answer: a reply with the request's number and an error, or the end; within the limit either way */
static bool answers(struct buffer *frame, size_t bytes, bool closes)
{
    char place[1100], header[PROTOCOL_HEADER_BYTES];
    struct process process;
    struct message_head head = {0};
    (void)snprintf(place, sizeof place, "%s/served", folder);
    assert_int_equal(mkdir(place, 0700), 0);
    const char *const argv[] = {helper_path(), "--serve", place, NULL};
    const struct process_options options = {.argv = argv};
    assert_int_equal(process_start(&options, &process, NULL), ATTUNE_OK);
    double deadline = clock_seconds() + 60;
    assert_int_equal(process_read(&process, header, sizeof header, deadline, 0, NULL), ATTUNE_OK);
    (void)process_write(&process, frame->data, bytes, deadline, NULL);
    if (closes) {
        (void)close(process.to_child);
        process.to_child = -1;
    }
    attune_status status = process_read(&process, header, sizeof header, deadline, 0, NULL);
    assert_int_not_equal(status, ATTUNE_TIMEOUT);
    bool answered = status == ATTUNE_OK;
    if (answered) {
        assert_int_equal(message_header(header, &head, NULL), ATTUNE_OK);
        assert_int_equal(head.kind, MESSAGE_REPLY);
        assert_int_equal(head.request, 5);
        assert_true(head.payload_bytes < 1 << 20);
        char *payload = malloc(head.payload_bytes + 1);
        struct message reply;
        assert_int_equal(process_read(&process, payload, head.payload_bytes, deadline, 0, NULL), ATTUNE_OK);
        assert_int_equal(message_parse(head.kind, payload, head.payload_bytes, &reply, NULL), ATTUNE_OK);
        assert_int_not_equal(message_integer(&reply, KEY_STATUS), ATTUNE_OK);
        assert_true(message_text(&reply, KEY_TEXT)[0] != '\0');
        free(payload);
    }
    process_kill(&process);
    folder_remove(place);
    return answered;
}

static void the_real_helper_answers_or_ends(void **state)
{
    (void)state;
    struct buffer frame = BUFFER_INIT;
    static const char *const targets[] = {"", "nonsense", "gfx906:", "host-", "../../etc", "gfx9999"};
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        frame_of(&frame, MESSAGE_COMPILE, targets[i], 0, "x");
        assert_true(answers(&frame, frame.length, false));
        frame_of(&frame, MESSAGE_IDENTITY, targets[i], 0, NULL);
        assert_true(answers(&frame, frame.length, false));
        frame_of(&frame, MESSAGE_DISASSEMBLE, targets[i], 0, NULL);
        assert_true(answers(&frame, frame.length, false));
    }
    frame_of(&frame, MESSAGE_COMPILE, NULL, 0, NULL);
    assert_true(answers(&frame, frame.length, false));
    frame_of(&frame, MESSAGE_COMPILE, "host", 99, "x");
    assert_true(answers(&frame, frame.length, false));
    frame_of(&frame, MESSAGE_COMPILE, "host", -1, "x");
    assert_true(answers(&frame, frame.length, false));
    frame_of(&frame, MESSAGE_REPLY, "host", 0, "x");
    assert_true(answers(&frame, frame.length, false));
    frame_of(&frame, 0xffffffff, "host", 0, "x");
    assert_true(answers(&frame, frame.length, false));
    /* cut anywhere, with nobody at the other end */
    for (size_t bytes = 1; bytes < frame.length; bytes += 13) {
        assert_false(answers(&frame, bytes, true));
    }
    /* bytes that are no frame, and a frame that lies about its fields */
    frame.data[PROTOCOL_HEADER_BYTES + 5] = 0x70;
    assert_false(answers(&frame, frame.length, false));
    frame.data[0] ^= 1;
    assert_false(answers(&frame, frame.length, false));
    buffer_free(&frame);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_misbehaviour_is_bounded),         TEST(a_second_answer_is_nobodys),      TEST(long_texts_are_cut),
        TEST(what_is_no_program_is_refused_by_name), TEST(the_real_helper_answers_or_ends),
    };
    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests_name("proof_helper", tests, fakes_open, fakes_close);
}
