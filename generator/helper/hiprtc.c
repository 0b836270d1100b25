/* hiprtc.c - AMD's run-time compiler, loaded by name with prototypes of our own.
 *
 * In ROCm 5.2 the hiprtc symbols are in libamdhip64; since 6.0 there is a libhiprtc. Its comgr's list of targets is
 * asked before any compile, because a target that is not in it aborts the process. Measured, not documented: the log's
 * size may leave out the final NUL, and `-mcode-object-version` may be ignored, so the version is read from the object.
 */
#include "generator/helper/helper.h"

#include "base/environment.h"
#include "generator/compiler_options.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *hiprtc_program;

struct hiprtc {
    void *library;
    void *comgr;
    char path[PATH_MAX];
    char name[64]; /* "hiprtc 5.2" */
    int major;     /* 0 when the file name tells none */
    int (*create)(hiprtc_program *, const char *source, const char *name, int headers, const char *const *,
                  const char *const *);
    int (*compile)(hiprtc_program, int options, const char *const *);
    int (*log_size)(hiprtc_program, size_t *);
    int (*log)(hiprtc_program, char *);
    int (*code_size)(hiprtc_program, size_t *);
    int (*code)(hiprtc_program, char *);
    int (*destroy)(hiprtc_program *);
    const char *(*error_text)(int);
    int (*isa_count)(size_t *);
    int (*isa_name)(size_t, const char **);
};

static const char *const loaded_parts[] = {"amd_comgr", "amdhip64", "hiprtc", "libLLVM", "libclang", NULL};

static void *open_one(const char *name)
{
    const char *rocm = environment_get("ROCM_PATH");
    const char *folders[] = {NULL, rocm, "/opt/rocm"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        char path[PATH_MAX];
        if (i > 0 && (folders[i] == NULL || *folders[i] == '\0')) {
            continue;
        }
        (void)snprintf(path, sizeof path, i == 0 ? "%s%s" : "%s/lib/%s", i == 0 ? "" : folders[i], name);
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (library != NULL) {
            return library;
        }
    }
    return NULL;
}

/* libamdhip64.so.5.2.21153 -> 5, 2 */
static void read_version(struct hiprtc *hiprtc)
{
    Dl_info info;
    int minor = 0;
    (void)snprintf(hiprtc->name, sizeof hiprtc->name, "hiprtc");
    void *symbol = dlsym(hiprtc->library, "hiprtcCompileProgram");
    if (symbol == NULL || dladdr(symbol, &info) == 0 || realpath(info.dli_fname, hiprtc->path) == NULL) {
        return;
    }
    const char *digits = strstr(hiprtc->path, ".so.");
    if (digits != NULL && sscanf(digits, ".so.%d.%d", &hiprtc->major, &minor) >= 1) {
        (void)snprintf(hiprtc->name, sizeof hiprtc->name, "hiprtc %d.%d", hiprtc->major, minor);
    }
}

static bool bind(struct hiprtc *hiprtc)
{
    const struct {
        const char *name;
        void **slot;
    } symbols[] = {
        {"hiprtcCreateProgram", (void **)&hiprtc->create},       {"hiprtcCompileProgram", (void **)&hiprtc->compile},
        {"hiprtcGetProgramLogSize", (void **)&hiprtc->log_size}, {"hiprtcGetProgramLog", (void **)&hiprtc->log},
        {"hiprtcGetCodeSize", (void **)&hiprtc->code_size},      {"hiprtcGetCode", (void **)&hiprtc->code},
        {"hiprtcDestroyProgram", (void **)&hiprtc->destroy},     {"hiprtcGetErrorString", (void **)&hiprtc->error_text},
    };
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        *symbols[i].slot = dlsym(hiprtc->library, symbols[i].name);
        if (*symbols[i].slot == NULL) {
            return false;
        }
    }
    return true;
}

/* the comgr that this hiprtc itself loads: ROCm 7 uses version 3, earlier ones 2 */
static void open_comgr(struct hiprtc *hiprtc)
{
    const char *names[] = {hiprtc->major >= 7 ? "libamd_comgr.so.3" : "libamd_comgr.so.2",
                           hiprtc->major >= 7 ? "libamd_comgr.so.2" : "libamd_comgr.so.3", "libamd_comgr.so"};
    for (size_t i = 0; i < sizeof names / sizeof names[0] && hiprtc->comgr == NULL; i++) {
        hiprtc->comgr = open_one(names[i]);
    }
    if (hiprtc->comgr != NULL) {
        *(void **)&hiprtc->isa_count = dlsym(hiprtc->comgr, "amd_comgr_get_isa_count");
        *(void **)&hiprtc->isa_name = dlsym(hiprtc->comgr, "amd_comgr_get_isa_name");
    }
}

/* never NULL except without memory; ->library is NULL when there is no hiprtc here */
static struct hiprtc *load(struct helper *helper)
{
    static const char *const names[] = {"libhiprtc.so.7",   "libhiprtc.so.6",   "libhiprtc.so",
                                        "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"};
    if (helper->hiprtc != NULL) {
        return helper->hiprtc;
    }
    struct hiprtc *hiprtc = calloc(1, sizeof *hiprtc);
    if (hiprtc == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0] && hiprtc->library == NULL; i++) {
        hiprtc->library = open_one(names[i]);
        if (hiprtc->library != NULL && !bind(hiprtc)) {
            (void)dlclose(hiprtc->library);
            hiprtc->library = NULL;
        }
    }
    if (hiprtc->library != NULL) {
        read_version(hiprtc);
        open_comgr(hiprtc);
    }
    helper->hiprtc = hiprtc;
    return hiprtc;
}

static const char *isa(const struct hiprtc *hiprtc, size_t index)
{
    static const char prefix[] = "amdgcn-amd-amdhsa--";
    const char *name = NULL;
    if (hiprtc->isa_name(index, &name) != 0 || name == NULL || strncmp(name, prefix, sizeof prefix - 1) != 0) {
        return "";
    }
    return name + sizeof prefix - 1;
}

static size_t isa_count(const struct hiprtc *hiprtc)
{
    size_t count = 0;
    if (hiprtc->isa_count == NULL || hiprtc->isa_name == NULL || hiprtc->isa_count(&count) != 0) {
        return 0;
    }
    return count;
}

bool hiprtc_knows(struct helper *helper, const struct target *target, struct error *error)
{
    struct hiprtc *hiprtc = load(helper);
    if (hiprtc == NULL || hiprtc->library == NULL) {
        error_set(error, ATTUNE_NO_TOOLCHAIN,
                  "hiprtc is not installed: no libhiprtc.so.7, .6 nor libamdhip64.so.7, .6, .5 (Debian: libamdhip64-5, "
                  "libamd-comgr2)");
        return false;
    }
    size_t count = isa_count(hiprtc);
    size_t length = strlen(target->processor);
    for (size_t i = 0; i < count; i++) {
        const char *name = isa(hiprtc, i);
        /* older lists spell features out after the processor */
        if (strncmp(name, target->processor, length) == 0 && (name[length] == '\0' || name[length] == ':')) {
            return true;
        }
    }
    error_set(error, ATTUNE_NO_TOOLCHAIN, "%s does not know %s: its comgr lists %zu other targets%s", hiprtc->name,
              target->processor, count, count == 0 ? " (libamd_comgr is missing)" : "");
    return false;
}

bool hiprtc_makes(struct helper *helper, int code_object, struct error *error)
{
    struct hiprtc *hiprtc = load(helper);
    if (hiprtc != NULL && code_object != 0 && hiprtc->major < 6 && code_object != 4) {
        error_set(error, ATTUNE_NO_TOOLCHAIN, "%s makes code objects of version 4 alone, %d is asked for", hiprtc->name,
                  code_object);
        return false;
    }
    return hiprtc != NULL;
}

static void append_log(struct hiprtc *hiprtc, hiprtc_program program, struct buffer *log)
{
    size_t bytes = 0;
    int failure = hiprtc->log_size(program, &bytes);
    char *text = failure == 0 ? calloc(1, bytes + 1) : NULL; /* the NUL that some releases leave out */
    if (text != NULL && (failure = hiprtc->log(program, text)) == 0) {
        buffer_append(log, text, strnlen(text, bytes));
    } else {
        buffer_format(log, "the compiler's log cannot be read: %s\n", hiprtc->error_text(failure));
    }
    free(text);
}

attune_status hiprtc_compile(struct helper *helper, const struct job *job, struct output *output, struct error *error)
{
    char words[512];
    char architecture[TARGET_TEXT_BYTES + 20];
    const char *options[RUN_WORDS_MAX];
    int count = 0;
    size_t bytes = 0;
    hiprtc_program program = NULL;
    if (!hiprtc_knows(helper, &job->target, error)) {
        return ATTUNE_NO_TOOLCHAIN;
    }
    struct hiprtc *hiprtc = helper->hiprtc;
    (void)snprintf(output->compiler, sizeof output->compiler, "%s", hiprtc->name);
    (void)snprintf(architecture, sizeof architecture, "--offload-arch=%s", job->target_text);
    run_split(compiler_flags(COMPILER_HIPRTC, SANITIZE_NONE, job->code_object), words, sizeof words, options, &count);
    options[count++] = architecture;
    int failure = hiprtc->create(&program, job->source, "attune.hip", 0, NULL, NULL);
    if (failure != 0) {
        return error_set(error, ATTUNE_COMPILE_FAILED, "%s made no program for %s: %s", hiprtc->name, job->target_text,
                         hiprtc->error_text(failure));
    }
    failure = hiprtc->compile(program, count, options);
    append_log(hiprtc, program, &output->log);
    attune_status status = ATTUNE_OK;
    if (failure != 0) {
        status =
            error_set(error, ATTUNE_COMPILE_FAILED, "%s failed for %s with %s (%s)", hiprtc->name, job->target_text,
                      compiler_flags(COMPILER_HIPRTC, SANITIZE_NONE, job->code_object), hiprtc->error_text(failure));
    } else if (hiprtc->code_size(program, &bytes) != 0 || !buffer_reserve(&output->object, bytes + 1) ||
               hiprtc->code(program, output->object.data) != 0) {
        status = error_set(error, ATTUNE_COMPILE_FAILED, "%s gave no code for %s", hiprtc->name, job->target_text);
    } else {
        output->object.length = bytes;
        status = amd_check_object(job, output, error);
    }
    (void)hiprtc->destroy(&program);
    identity_add_loaded(&output->identity, loaded_parts);
    return status;
}

attune_status hiprtc_identify(struct helper *helper, struct output *output, struct error *error)
{
    struct hiprtc *hiprtc = load(helper);
    if (hiprtc == NULL || hiprtc->library == NULL) {
        return error_set(error, ATTUNE_NO_TOOLCHAIN, "hiprtc is not installed");
    }
    (void)snprintf(output->compiler, sizeof output->compiler, "%s", hiprtc->name);
    identity_add_loaded(&output->identity, loaded_parts);
    return ATTUNE_OK;
}

json_t *hiprtc_survey(struct helper *helper)
{
    struct output output = {.compiler = ""};
    struct error error = {.message = ""};
    json_t *targets = json_array();
    bool found = hiprtc_identify(helper, &output, &error) == ATTUNE_OK;
    size_t count = found ? isa_count(helper->hiprtc) : 0;
    for (size_t i = 0; i < count; i++) {
        json_array_append_new(targets, json_string(isa(helper->hiprtc, i)));
    }
    return survey_entry("hiprtc", found, output.compiler, &output.identity, targets,
                        !found       ? "install libamdhip64-5 and libamd-comgr2 (Debian) or ROCm's hiprtc"
                        : count == 0 ? "libamd_comgr is missing: not used, since an unknown target would abort it"
                                     : NULL);
}
