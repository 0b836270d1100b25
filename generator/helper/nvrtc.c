/* nvrtc.c - NVIDIA's run-time compiler, loaded by name with prototypes of our own. Needs neither GPU nor driver.
 *
 * NVRTC orders some of its work by the addresses of what it allocates: about one large kernel in ten comes out with
 * other bytes when memory lies elsewhere, be it for address randomisation, the length of an environment variable or a
 * compile before. So that equal sources give equal bytes, each compile has a process of its own (`attune-helper
 * --nvrtc`) whose memory always looks the same: no randomisation, a fixed environment and stack limit, nothing in it
 * but the source. It also tells which files it has loaded, so that the identity is that of the very compiler that ran.
 */
#include "generator/helper/helper.h"

#include "base/environment.h"
#include "generator/compiler_options.h"
#include "generator/compiler_protocol.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef void *nvrtc_program;

struct nvrtc {
    void *library;
    char path[PATH_MAX];
    char name[64]; /* "nvrtc 13.0" */
    int arch_count;
    int archs[64]; /* 75, 80, 90, ... */
    int (*version)(int *, int *);
    int (*arch_number)(int *);
    int (*arch_list)(int *);
    int (*create)(nvrtc_program *, const char *source, const char *name, int headers, const char *const *,
                  const char *const *);
    int (*compile)(nvrtc_program, int options, const char *const *);
    int (*log_size)(nvrtc_program, size_t *);
    int (*log)(nvrtc_program, char *);
    int (*cubin_size)(nvrtc_program, size_t *);
    int (*cubin)(nvrtc_program, char *);
    int (*destroy)(nvrtc_program *);
    const char *(*error_text)(int);
};

static const char *const loaded_parts[] = {"nvrtc", "nvJitLink", "nvptxcompiler", NULL};

static void *open_library(void)
{
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
    static const char *const below[] = {"lib64", "targets/x86_64-linux/lib", "lib"};
    const char *roots[] = {environment_get("CUDA_HOME"), environment_get("CUDA_PATH"), "/usr/local/cuda"};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        void *library = dlopen(names[n], RTLD_NOW | RTLD_LOCAL);
        for (size_t r = 0; library == NULL && r < sizeof roots / sizeof roots[0]; r++) {
            for (size_t b = 0; library == NULL && roots[r] != NULL && b < sizeof below / sizeof below[0]; b++) {
                char path[PATH_MAX];
                (void)snprintf(path, sizeof path, "%s/%s/%s", roots[r], below[b], names[n]);
                library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
            }
        }
        if (library != NULL) {
            return library;
        }
    }
    return NULL;
}

static bool bind(struct nvrtc *nvrtc)
{
    const struct {
        const char *name;
        void **slot;
    } symbols[] = {
        {"nvrtcVersion", (void **)&nvrtc->version},
        {"nvrtcGetNumSupportedArchs", (void **)&nvrtc->arch_number},
        {"nvrtcGetSupportedArchs", (void **)&nvrtc->arch_list},
        {"nvrtcCreateProgram", (void **)&nvrtc->create},
        {"nvrtcCompileProgram", (void **)&nvrtc->compile},
        {"nvrtcGetProgramLogSize", (void **)&nvrtc->log_size},
        {"nvrtcGetProgramLog", (void **)&nvrtc->log},
        {"nvrtcGetCUBINSize", (void **)&nvrtc->cubin_size},
        {"nvrtcGetCUBIN", (void **)&nvrtc->cubin},
        {"nvrtcDestroyProgram", (void **)&nvrtc->destroy},
        {"nvrtcGetErrorString", (void **)&nvrtc->error_text},
    };
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        *symbols[i].slot = dlsym(nvrtc->library, symbols[i].name);
        if (*symbols[i].slot == NULL) {
            return false;
        }
    }
    return true;
}

static struct nvrtc *load(struct helper *helper)
{
    int major = 0;
    int minor = 0;
    int count = 0;
    Dl_info where;
    if (helper->nvrtc != NULL) {
        return helper->nvrtc;
    }
    struct nvrtc *nvrtc = calloc(1, sizeof *nvrtc);
    if (nvrtc == NULL) {
        return NULL;
    }
    helper->nvrtc = nvrtc;
    nvrtc->library = open_library();
    if (nvrtc->library == NULL) {
        return nvrtc;
    }
    if (!bind(nvrtc) || dladdr(*(void **)&nvrtc->version, &where) == 0 || where.dli_fname == NULL ||
        realpath(where.dli_fname, nvrtc->path) == NULL) {
        (void)dlclose(nvrtc->library);
        nvrtc->library = NULL;
        return nvrtc;
    }
    (void)nvrtc->version(&major, &minor);
    (void)snprintf(nvrtc->name, sizeof nvrtc->name, "nvrtc %d.%d", major, minor);
    if (nvrtc->arch_number(&count) == 0 && count > 0 && count <= (int)(sizeof nvrtc->archs / sizeof nvrtc->archs[0]) &&
        nvrtc->arch_list(nvrtc->archs) == 0) {
        nvrtc->arch_count = count;
    }
    return nvrtc;
}

static attune_status require(struct helper *helper, struct error *error)
{
    struct nvrtc *nvrtc = load(helper);
    if (nvrtc == NULL) {
        return error_no_memory(error);
    }
    if (nvrtc->library == NULL) {
        return error_set(
            error, ATTUNE_NO_TOOLCHAIN,
            "NVRTC is not installed: no libnvrtc.so.13 or .12 in the library path, CUDA_HOME, CUDA_PATH or "
            "/usr/local/cuda");
    }
    return ATTUNE_OK;
}

static attune_status require_target(const struct nvrtc *nvrtc, const struct target *target, struct error *error)
{
    int wanted = 0;
    if (sscanf(target->processor, "sm_%d", &wanted) != 1) {
        return error_set(error, ATTUNE_INVALID, "%s is no NVIDIA target", target->processor);
    }
    for (int i = 0; i < nvrtc->arch_count; i++) {
        if (nvrtc->archs[i] == wanted) {
            return ATTUNE_OK;
        }
    }
    return error_set(error, ATTUNE_NO_TOOLCHAIN, "%s does not know %s: it lists %d targets from sm_%d to sm_%d",
                     nvrtc->name, target->processor, nvrtc->arch_count, nvrtc->archs[0],
                     nvrtc->archs[nvrtc->arch_count > 0 ? nvrtc->arch_count - 1 : 0]);
}

/* ---- the process with one compile ---- */

/* Exit codes of that process: NVRTC's own result, or one of these. Input: target, library, source, a line each but the
 * last. Output: the identity's files, a line "ID path" each, an empty line, the object; stderr: the log. */
enum { ALONE_NO_LIBRARY = 100, ALONE_NO_INPUT, ALONE_NO_OUTPUT };
enum { ALONE_INPUT_BYTES = PROTOCOL_SOURCE_BYTES + PATH_MAX + TARGET_TEXT_BYTES + 8 };

static char *next_line(char **at)
{
    char *line = *at;
    char *end = strchr(line, '\n');
    if (end == NULL) {
        return NULL;
    }
    *end = '\0';
    *at = end + 1;
    return line;
}

static void print_log(struct nvrtc *nvrtc, nvrtc_program program)
{
    size_t bytes = 0;
    int failure = nvrtc->log_size(program, &bytes);
    char *text = failure == 0 ? calloc(1, bytes + 1) : NULL;
    if (text != NULL && (failure = nvrtc->log(program, text)) == 0) {
        (void)fwrite(text, 1, strnlen(text, bytes), stderr);
    } else {
        (void)fprintf(stderr, "the compiler's log cannot be read: %s\n", nvrtc->error_text(failure));
    }
    free(text);
}

static int print_object(struct nvrtc *nvrtc, nvrtc_program program)
{
    static struct identity identity;
    size_t bytes = 0;
    int failure = nvrtc->cubin_size(program, &bytes);
    char *object = failure == 0 && bytes > 0 ? malloc(bytes) : NULL;
    if (object == NULL) {
        return failure != 0 ? failure : ALONE_NO_OUTPUT;
    }
    failure = nvrtc->cubin(program, object);
    identity_add_loaded(&identity, loaded_parts);
    for (int i = 0; i < identity.count; i++) {
        (void)printf("%s %s\n", identity.files[i].id, identity.files[i].path);
    }
    (void)putchar('\n');
    bool written = fwrite(object, 1, bytes, stdout) == bytes && fflush(stdout) == 0;
    free(object);
    return failure != 0 || written ? failure : ALONE_NO_OUTPUT;
}

int nvrtc_alone(void)
{
    static char input[ALONE_INPUT_BYTES]; /* not from the heap, which would grow as the pipe happens to deliver */
    static struct nvrtc nvrtc;
    char words[512];
    char architecture[TARGET_TEXT_BYTES + 24];
    const char *options[RUN_WORDS_MAX];
    int count = 0;
    size_t length = 0;
    ssize_t got = 0;
    char *at = input;
    nvrtc_program program = NULL;
    while (length < sizeof input - 1 && (got = read(0, input + length, sizeof input - 1 - length)) > 0) {
        length += (size_t)got;
    }
    const char *target = next_line(&at);
    const char *library = target != NULL ? next_line(&at) : NULL;
    if (got != 0 || library == NULL) {
        return ALONE_NO_INPUT;
    }
    nvrtc.library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (nvrtc.library == NULL || !bind(&nvrtc)) {
        return ALONE_NO_LIBRARY;
    }
    (void)snprintf(architecture, sizeof architecture, "--gpu-architecture=%s", target);
    run_split(compiler_flags(COMPILER_NVRTC, SANITIZE_NONE, 0), words, sizeof words, options, &count);
    options[count++] = architecture;
    int failure = nvrtc.create(&program, at, "attune.cu", 0, NULL, NULL);
    if (failure == 0) {
        failure = nvrtc.compile(program, count, options);
        print_log(&nvrtc, program);
    }
    if (failure == 0) {
        failure = print_object(&nvrtc, program);
    }
    (void)fflush(NULL);
    _exit(failure); /* no destructors: the compiler's are no business of ours */
}

/* ---- what the helper asks of it ---- */

/* the identity's lines, then the object */
static attune_status take_answer(struct buffer *answer, struct output *output, const struct nvrtc *nvrtc,
                                 struct error *error)
{
    char *at = answer->data;
    char *end = at + answer->length;
    for (char *line = next_line(&at); line != NULL; line = next_line(&at)) {
        char *path = strchr(line, ' ');
        if (line[0] == '\0') {
            buffer_append(&output->object, at, (size_t)(end - at));
            return buffer_ok(&output->object, error);
        }
        if (path == NULL) {
            break;
        }
        *path = '\0';
        identity_put(&output->identity, path + 1, line);
    }
    return error_set(error, ATTUNE_COMPILE_FAILED, "%s ended well and gave no object", nvrtc->name);
}

static attune_status compile(struct nvrtc *nvrtc, const char *target, const char *source, size_t source_bytes,
                             struct output *output, struct error *error)
{
    static const char *const argv[] = {"/proc/self/exe", "--nvrtc", NULL};
    struct buffer input = BUFFER_INIT;
    struct buffer answer = BUFFER_INIT;
    char how[64];
    buffer_format(&input, "%s\n%s\n", target, nvrtc->path);
    buffer_append(&input, source, source_bytes);
    struct run run = {.argv = argv,
                      .output = &answer,
                      .errors = &output->log,
                      .kept_bytes = PROTOCOL_PAYLOAD_BYTES / 2,
                      .alone = true};
    attune_status status = buffer_ok(&input, error);
    if (status == ATTUNE_OK) {
        run.input = input.data;
        run.input_bytes = input.length;
        status = run_program(&run, error);
    }
    run_describe(&run, how, sizeof how);
    if (status == ATTUNE_OK && run.exit_code == 0) {
        status = take_answer(&answer, output, nvrtc, error);
    } else if (status == ATTUNE_OK && run.exit_code > 0 && run.exit_code < ALONE_NO_LIBRARY) {
        status = error_set(error, ATTUNE_COMPILE_FAILED, "%s failed for %s with %s (%s)", nvrtc->name, target,
                           compiler_flags(COMPILER_NVRTC, SANITIZE_NONE, 0), nvrtc->error_text(run.exit_code));
    } else if (status == ATTUNE_OK) {
        status = error_set(error, run_blame(&run, &output->log), "%s in a process of its own failed for %s with %s%s",
                           nvrtc->name, target, compiler_flags(COMPILER_NVRTC, SANITIZE_NONE, 0), how);
    }
    buffer_free(&input);
    buffer_free(&answer);
    return status;
}

attune_status nvrtc_compile(struct helper *helper, const struct job *job, struct output *output, struct error *error)
{
    attune_status status = require(helper, error);
    if (status == ATTUNE_OK) {
        status = require_target(helper->nvrtc, &job->target, error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    (void)snprintf(output->compiler, sizeof output->compiler, "%s", helper->nvrtc->name);
    return compile(helper->nvrtc, job->target_text, job->source, job->source_bytes, output, error);
}

/* a small compile: NVRTC loads a part of itself (nvrtc-builtins) only then */
attune_status nvrtc_identify(struct helper *helper, struct output *output, struct error *error)
{
    static const char source[] = "extern \"C\" __global__ void attune_first(float *x) { x[threadIdx.x] = 0; }";
    char target[32];
    attune_status status = require(helper, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    (void)snprintf(output->compiler, sizeof output->compiler, "%s", helper->nvrtc->name);
    (void)snprintf(target, sizeof target, "sm_%d", helper->nvrtc->archs[0]);
    struct output first = {.compiler = ""};
    status = compile(helper->nvrtc, target, source, sizeof source - 1, &first, error);
    output->identity = first.identity;
    buffer_free(&first.object);
    buffer_free(&first.log);
    return status;
}

json_t *nvrtc_survey(struct helper *helper)
{
    struct output output = {.compiler = ""};
    json_t *targets = json_array();
    bool found = nvrtc_identify(helper, &output, NULL) == ATTUNE_OK;
    for (int i = 0; found && i < helper->nvrtc->arch_count; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "sm_%d", helper->nvrtc->archs[i]);
        json_array_append_new(targets, json_string(name));
    }
    return survey_entry("nvrtc", found, output.compiler, &output.identity, targets,
                        found ? NULL : "install CUDA's NVRTC (libnvrtc.so.13 or .12) or set CUDA_HOME");
}
