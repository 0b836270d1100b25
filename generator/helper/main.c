/* main.c - attune-helper: a worker that compiles, one request after another, until its stdin ends.
 *
 * `attune-helper --serve FOLDER` is started by the library. The environment is cleaned before any compiler is loaded:
 * GPUs are hidden (a compiler must not open the user's devices), and variables that would change what a compiler emits
 * are removed, since the object's key holds only our own flags. When stdin ends while a compile runs, the process group
 * is ended: nobody waits for the result.
 */
#include "generator/compiler_protocol.h"
#include "generator/helper/helper.h"

#include "base/files.h"
#include "base/process.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <unistd.h>

extern char **environ;

/* ---- a clean environment ---- */

/* variables that change the bytes a compiler makes or where it writes; a trailing * is a prefix */
static const char *const cleared[] = {"AMD_COMGR_*",
                                      "HIPRTC_*",
                                      "AMD_LOG_LEVEL",
                                      "AMD_LOG_LEVEL_FILE",
                                      "AMD_OCL_*",
                                      "GPU_DUMP_CODE_OBJECT",
                                      "HIPCC_*",
                                      "CCC_*",
                                      "CLANG_*",
                                      "CPATH",
                                      "C_INCLUDE_PATH",
                                      "CPLUS_INCLUDE_PATH",
                                      "OBJC_INCLUDE_PATH",
                                      "COMPILER_PATH",
                                      "GCC_EXEC_PREFIX",
                                      "GCC_COMPARE_DEBUG",
                                      "LIBRARY_PATH",
                                      "LD_RUN_PATH",
                                      "LDEMULATION",
                                      "COLLECT_*",
                                      "DEPENDENCIES_OUTPUT",
                                      "SUNPRO_DEPENDENCIES",
                                      "NVCC_APPEND_FLAGS",
                                      "NVCC_PREPEND_FLAGS",
                                      "NVRTC_*",
                                      "CUDA_CACHE_*",
                                      "LLVM_*",
                                      "SOURCE_DATE_EPOCH",
                                      "LANGUAGE",
                                      "GCC_COLORS",
                                      "LD_PRELOAD"};

static bool is_cleared(const char *variable, size_t length)
{
    for (size_t i = 0; i < sizeof cleared / sizeof cleared[0]; i++) {
        size_t name = strlen(cleared[i]);
        if (cleared[i][name - 1] == '*' ? length >= name - 1 && strncmp(variable, cleared[i], name - 1) == 0
                                        : length == name && strncmp(variable, cleared[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static void clean_environment(const char *folder)
{
    static const char *const set[][2] = {
        {"HIP_VISIBLE_DEVICES", "-1"}, {"ROCR_VISIBLE_DEVICES", ""}, {"CUDA_VISIBLE_DEVICES", ""}, {"LC_ALL", "C"}};
    for (size_t i = 0; environ[i] != NULL;) {
        char name[256];
        size_t length = strcspn(environ[i], "=");
        if (length < sizeof name && is_cleared(environ[i], length)) {
            memcpy(name, environ[i], length);
            name[length] = '\0';
            (void)unsetenv(name);
            i = 0;
        } else {
            i++;
        }
    }
    for (size_t i = 0; i < sizeof set / sizeof set[0]; i++) {
        (void)setenv(set[i][0], set[i][1], 1);
    }
    (void)setenv("TMPDIR", folder, 1);
    (void)setenv("TMP", folder, 1);
    (void)setenv("TEMP", folder, 1);
}

/* ---- the other side is gone ---- */

struct watch {
    int input;
    const char *folder;
};

static void *watch_input(void *argument)
{
    const struct watch *watch = argument;
    for (;;) {
        /* no events asked for: only the hang-up counts, requests are the main thread's */
        struct pollfd file = {watch->input, 0, 0};
        if (poll(&file, 1, -1) > 0 && (file.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) {
            break;
        }
    }
    (void)kill(0, SIGTERM); /* ignored here: compilers clean up and end */
    (void)usleep(50000);
    folder_remove(watch->folder);
    (void)kill(0, SIGKILL);
    return NULL;
}

/* ---- requests ---- */

int amd_code_object_version(const void *bytes, size_t length)
{
    const unsigned char *header = bytes;
    /* EI_ABIVERSION counts from 0 for version 2 (LLVM AMDGPU usage, "ELF header") */
    return length > 16 && memcmp(header, "\177ELF", 4) == 0 ? header[8] + 2 : 0;
}

attune_status amd_check_object(const struct job *job, const struct output *output, struct error *error)
{
    int version = amd_code_object_version(output->object.data, output->object.length);
    if (version == 0) {
        return error_set(error, ATTUNE_COMPILE_FAILED, "%s reported success for %s and gave no code object",
                         output->compiler, job->target_text);
    }
    if (job->code_object != 0 && version != job->code_object) {
        return error_set(error, ATTUNE_COMPILE_FAILED, "%s makes code objects of version %d, version %d was asked for",
                         output->compiler, version, job->code_object);
    }
    return ATTUNE_OK;
}

attune_status take_object(const char *path, const char *compiler, struct buffer *object, struct error *error)
{
    attune_status status = file_read(path, PROTOCOL_PAYLOAD_BYTES / 2, object, error);
    (void)remove(path);
    if (status != ATTUNE_OK) {
        return error_set(error, ATTUNE_COMPILE_FAILED, "%s reported success and left no object that can be read",
                         compiler);
    }
    if (object->length < 64 || memcmp(object->data, "\177ELF", 4) != 0) {
        return error_set(error, ATTUNE_COMPILE_FAILED, "%s reported success and left %zu bytes that are no object",
                         compiler, object->length);
    }
    return ATTUNE_OK;
}

/* `passed_over` gets why hiprtc does not serve an AMD target, "" when it does */
static void choose_compiler(struct helper *helper, struct job *job, struct error *passed_over)
{
    passed_over->message[0] = '\0';
    if (job->kind != COMPILER_AUTO) {
        return;
    }
    if (job->target.vendor == TARGET_HOST) {
        job->kind = COMPILER_HOST;
    } else if (job->target.vendor == TARGET_NVIDIA) {
        job->kind = COMPILER_NVRTC;
    } else {
        bool known = hiprtc_knows(helper, &job->target, passed_over);
        job->kind = known && hiprtc_makes(helper, job->code_object, passed_over) ? COMPILER_HIPRTC : COMPILER_CLANG;
    }
}

static attune_status compile(struct helper *helper, const struct job *job, struct output *output, struct error *error)
{
    switch (job->kind) {
    case COMPILER_HIPRTC:
        return hiprtc_compile(helper, job, output, error);
    case COMPILER_CLANG:
        return clang_compile(helper, job, output, error);
    case COMPILER_NVRTC:
        return nvrtc_compile(helper, job, output, error);
    case COMPILER_HOST:
        return host_compile(helper, job, output, error);
    case COMPILER_AUTO:
        break;
    }
    return error_set(error, ATTUNE_INTERNAL, "no compiler was chosen");
}

static attune_status identify(struct helper *helper, const struct job *job, struct output *output, struct error *error)
{
    switch (job->kind) {
    case COMPILER_HIPRTC:
        return hiprtc_knows(helper, &job->target, error) ? hiprtc_identify(helper, output, error) : ATTUNE_NO_TOOLCHAIN;
    case COMPILER_CLANG:
        return clang_identify(helper, &job->target, output, error);
    case COMPILER_NVRTC:
        return nvrtc_identify(helper, output, error);
    case COMPILER_HOST:
        return host_identify(helper, job->sanitize, output, error);
    case COMPILER_AUTO:
        break;
    }
    return error_set(error, ATTUNE_INTERNAL, "no compiler was chosen");
}

/* the temporary folder's name differs from worker to worker and tells a reader nothing */
static void strip_folder(const char *folder, struct buffer *log)
{
    struct buffer clean = BUFFER_INIT;
    size_t length = strlen(folder);
    const char *at = buffer_string(log);
    for (const char *found = strstr(at, folder); found != NULL; found = strstr(at, folder)) {
        buffer_append(&clean, at, (size_t)(found - at));
        at = found + length + (found[length] == '/');
    }
    buffer_text(&clean, at);
    if (!clean.failed) {
        struct buffer old = *log;
        *log = clean;
        clean = old;
    }
    buffer_free(&clean);
}

/* A long log loses its middle: a flood of warnings before the error, or of errors after it, hides neither. */
static void cut_log(struct buffer *log)
{
    static const char mark[] = "\n... the middle of the log is left out ...\n";
    const size_t tail = (size_t)64 << 10;
    if (log->length <= PROTOCOL_LOG_BYTES) {
        return;
    }
    size_t head = PROTOCOL_LOG_BYTES - tail - (sizeof mark - 1);
    memcpy(log->data + head, mark, sizeof mark - 1);
    memmove(log->data + head + sizeof mark - 1, log->data + log->length - tail, tail);
    log->length = PROTOCOL_LOG_BYTES;
    log->data[log->length] = '\0';
}

static void answer_compile(struct helper *helper, const struct message *request, struct buffer *frame,
                           struct error *error)
{
    struct job job = {.kind = COMPILER_AUTO};
    struct output *output = calloc(1, sizeof *output);
    char identity[DIGEST_HEX_BYTES] = "";
    double begin = clock_seconds();
    struct error passed_over = {.message = ""};
    attune_status status = output == NULL ? error_no_memory(error) : job_read(request, &job, error);
    if (status == ATTUNE_OK) {
        choose_compiler(helper, &job, &passed_over);
        status = request->kind == MESSAGE_COMPILE ? compile(helper, &job, output, error)
                                                  : identify(helper, &job, output, error);
    }
    if (status == ATTUNE_NO_TOOLCHAIN && passed_over.message[0] != '\0') {
        error_prefix(error, "%s; then", passed_over.message);
    }
    message_add_integer(frame, KEY_STATUS, status);
    if (output == NULL) {
        message_add_text(frame, KEY_TEXT, error->message);
        return;
    }
    if (output->identity.count > 0) {
        identity_digest(&output->identity, identity);
    }
    strip_folder(helper->folder, &output->log);
    cut_log(&output->log);
    message_add(frame, KEY_LOG, output->log.data, output->log.length);
    message_add_text(frame, KEY_COMPILER, output->compiler);
    message_add_text(frame, KEY_IDENTITY, identity);
    message_add_integer(frame, KEY_MICROSECONDS, (int64_t)((clock_seconds() - begin) * 1e6));
    if (status == ATTUNE_OK) {
        message_add(frame, KEY_OBJECT, output->object.data, output->object.length);
    } else {
        message_add_text(frame, KEY_TEXT, error->message);
    }
    buffer_free(&output->object);
    buffer_free(&output->log);
    free(output);
}

static void answer_text(struct helper *helper, const struct message *request, struct buffer *frame, struct error *error)
{
    struct buffer text = BUFFER_INIT;
    struct target target;
    attune_status status = ATTUNE_OK;
    if (request->kind == MESSAGE_SURVEY) {
        status = survey(helper, &text, error);
    } else if (request->kind == MESSAGE_DISASSEMBLE) {
        const struct message_field *object = message_find(request, KEY_OBJECT);
        status = target_parse(message_text(request, KEY_TARGET), &target, error);
        if (status == ATTUNE_OK) {
            status = disassemble(helper, &target, object != NULL ? object->bytes : "",
                                 object != NULL ? object->length : 0, &text, error);
        }
    } else {
        status = error_set(error, ATTUNE_INVALID, "a request of kind %u is unknown", request->kind);
    }
    message_add_integer(frame, KEY_STATUS, status);
    if (status == ATTUNE_OK) {
        message_add(frame, KEY_TEXT, buffer_string(&text), text.length);
    } else {
        message_add_text(frame, KEY_TEXT, error->message);
    }
    buffer_free(&text);
}

/* false when the conversation is over: end of input, or bytes that are no request */
static bool serve_one(struct helper *helper, int input, int output, struct buffer *payload, struct buffer *frame)
{
    char header[PROTOCOL_HEADER_BYTES];
    struct message_head head;
    struct message request;
    struct error error = {.message = ""};
    if (!file_read_fully(input, header, sizeof header)) {
        return false;
    }
    if (message_header(header, &head, &error) != ATTUNE_OK) {
        (void)fprintf(stderr, "attune-helper: %s\n", error.message);
        return false;
    }
    buffer_clear(payload);
    if (!buffer_reserve(payload, (size_t)head.payload_bytes + 1) ||
        !file_read_fully(input, payload->data, head.payload_bytes)) {
        return false;
    }
    if (message_parse(head.kind, payload->data, head.payload_bytes, &request, &error) != ATTUNE_OK) {
        (void)fprintf(stderr, "attune-helper: %s\n", error.message);
        return false;
    }
    message_begin(frame, MESSAGE_REPLY);
    if (head.kind == MESSAGE_COMPILE || head.kind == MESSAGE_IDENTITY) {
        answer_compile(helper, &request, frame, &error);
    } else {
        answer_text(helper, &request, frame, &error);
    }
    if (message_end(frame, &error) != ATTUNE_OK) {
        buffer_clear(frame);
        frame->failed = false;
        message_begin(frame, MESSAGE_REPLY);
        message_add_integer(frame, KEY_STATUS, ATTUNE_COMPILE_FAILED);
        message_add_text(frame, KEY_TEXT, error.message);
        if (message_end(frame, &error) != ATTUNE_OK) {
            return false;
        }
    }
    message_set_request(frame, head.request);
    return file_write_fully(output, frame->data, frame->length) == 0;
}

static int serve(const char *folder)
{
    const struct rlimit no_core = {0, 0};
    struct rlimit file;
    struct helper helper = {.folder = folder};
    struct buffer payload = BUFFER_INIT;
    struct buffer frame = BUFFER_INIT;
    struct error error = {.message = ""};
    pthread_t watcher;
    (void)setpgid(
        0, 0); /* the library started us as a leader already; whoever else did keeps its group out of our kills */
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGTERM, SIG_IGN);
    (void)signal(SIGCHLD, SIG_DFL); /* inherited as ignored, it would take every compiler's exit status away */
    (void)setrlimit(RLIMIT_CORE, &no_core);
    /* a file size limit is for the caller's files, not for a compiler's temporary ones */
    if (getrlimit(RLIMIT_FSIZE, &file) == 0) {
        file.rlim_cur = file.rlim_max;
        (void)setrlimit(RLIMIT_FSIZE, &file);
    }
    /* compilers print where they like: keep our conversation away from their stdin and stdout */
    int input = fcntl(0, F_DUPFD_CLOEXEC, 3);
    int output = fcntl(1, F_DUPFD_CLOEXEC, 3);
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (input < 0 || output < 0 || nothing < 0 || dup2(nothing, 0) < 0 || dup2(2, 1) < 0) {
        perror("attune-helper: descriptors");
        return 1;
    }
    clean_environment(folder);
    struct watch watch = {input, folder};
    if (pthread_create(&watcher, NULL, watch_input, &watch) != 0) {
        (void)fprintf(stderr, "attune-helper: no thread to watch its input\n");
        return 1;
    }
    message_begin(&frame, MESSAGE_HELLO);
    if (message_end(&frame, &error) != ATTUNE_OK || file_write_fully(output, frame.data, frame.length) != 0) {
        return 1;
    }
    while (serve_one(&helper, input, output, &payload, &frame)) {
    }
    folder_remove(folder);
    /* not exit(): destructors of half-used compilers are no business of ours */
    _exit(0);
}

/* Starts itself again without address randomisation, once: NVRTC orders some of its work by addresses (nvrtc.c). Where
 * the system refuses, compiling goes on as it is. */
static void fix_addresses(char **argv)
{
    int persona = personality(0xffffffff);
    if (persona != -1 && (persona & ADDR_NO_RANDOMIZE) == 0 &&
        personality((unsigned long)persona | ADDR_NO_RANDOMIZE) != -1) {
        execv("/proc/self/exe", argv);
    }
}

int main(int argc, char **argv)
{
    thread_usual_stack(); /* for compilers too; before the second exec, which lays out the stack */
    fix_addresses(argv);
    if (argc == 3 && strcmp(argv[1], "--serve") == 0) {
        return serve(argv[2]);
    }
    if (argc == 2 && strcmp(argv[1], "--nvrtc") == 0) {
        return nvrtc_alone();
    }
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        (void)printf("attune-helper %s, protocol %d\n", ATTUNE_VERSION, PROTOCOL_VERSION);
        return 0;
    }
    (void)fprintf(stderr, "attune-helper runs compilers for libattune-jit, which starts it; it is not run by hand.\n"
                          "usage: attune-helper --serve FOLDER | --version\n");
    return 2;
}
