/* nvrtc.c - NVIDIA's run-time compiler, loaded by name with prototypes of our own. Needs neither GPU nor driver. */
#include "generator/helper/helper.h"

#include "generator/compiler_options.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *nvrtc_program;

struct nvrtc {
    void *library;
    char name[64]; /* "nvrtc 13.0" */
    bool warmed;   /* a first compile loads nvrtc-builtins, which belongs to the identity */
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
    const char *roots[] = {getenv("CUDA_HOME"), getenv("CUDA_PATH"), "/usr/local/cuda"};
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
    if (!bind(nvrtc)) {
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

static void append_log(struct nvrtc *nvrtc, nvrtc_program program, struct buffer *log)
{
    size_t bytes = 0;
    if (nvrtc->log_size(program, &bytes) != 0 || bytes == 0) {
        return;
    }
    char *text = calloc(1, bytes + 1);
    if (text != NULL && nvrtc->log(program, text) == 0) {
        buffer_append(log, text, strnlen(text, bytes));
    }
    free(text);
}

static attune_status compile(struct nvrtc *nvrtc, const char *target, const char *source, struct output *output,
                             struct error *error)
{
    char words[512];
    char architecture[TARGET_TEXT_BYTES + 24];
    const char *options[RUN_WORDS_MAX];
    int count = 0;
    size_t bytes = 0;
    nvrtc_program program = NULL;
    attune_status status = ATTUNE_OK;
    (void)snprintf(architecture, sizeof architecture, "--gpu-architecture=%s", target);
    run_split(compiler_flags(COMPILER_NVRTC, SANITIZE_NONE, 0), words, sizeof words, options, &count);
    options[count++] = architecture;
    int failure = nvrtc->create(&program, source, "attune.cu", 0, NULL, NULL);
    if (failure != 0) {
        return error_set(error, ATTUNE_COMPILE_FAILED, "%s made no program for %s: %s", nvrtc->name, target,
                         nvrtc->error_text(failure));
    }
    failure = nvrtc->compile(program, count, options);
    append_log(nvrtc, program, &output->log);
    if (failure != 0) {
        status = error_set(error, ATTUNE_COMPILE_FAILED, "%s failed for %s with %s (%s)", nvrtc->name, target,
                           compiler_flags(COMPILER_NVRTC, SANITIZE_NONE, 0), nvrtc->error_text(failure));
    } else if (nvrtc->cubin_size(program, &bytes) != 0 || bytes == 0 || !buffer_reserve(&output->object, bytes + 1) ||
               nvrtc->cubin(program, output->object.data) != 0) {
        status = error_set(error, ATTUNE_COMPILE_FAILED, "%s gave no code for %s", nvrtc->name, target);
    } else {
        output->object.length = bytes;
    }
    (void)nvrtc->destroy(&program);
    nvrtc->warmed = true;
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
    status = compile(helper->nvrtc, job->target_text, job->source, output, error);
    identity_add_loaded(&output->identity, loaded_parts);
    return status;
}

attune_status nvrtc_identify(struct helper *helper, struct output *output, struct error *error)
{
    attune_status status = require(helper, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    struct nvrtc *nvrtc = helper->nvrtc;
    if (!nvrtc->warmed && nvrtc->arch_count > 0) {
        struct output first = {.compiler = ""};
        char target[32];
        (void)snprintf(target, sizeof target, "sm_%d", nvrtc->archs[0]);
        (void)compile(nvrtc, target, "extern \"C\" __global__ void attune_first(float *x) { x[threadIdx.x] = 0; }",
                      &first, NULL);
        buffer_free(&first.object);
        buffer_free(&first.log);
    }
    (void)snprintf(output->compiler, sizeof output->compiler, "%s", nvrtc->name);
    identity_add_loaded(&output->identity, loaded_parts);
    return ATTUNE_OK;
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
