/* clang.c - clang as a program, for AMD targets that hiprtc does not know.
 *
 * Newest release first; one that lists the target and has an lld is used. $ATTUNE_CLANG names one and only one.
 */
#include "generator/helper/helper.h"

#include "base/environment.h"
#include "base/files.h"
#include "generator/compiler_options.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct clang {
    char path[PATH_MAX]; /* as found: a wrapper may sit behind many names and go by the one it is started under */
    char real[PATH_MAX];
    char name[64]; /* "clang 22.1" */
    int major;
    char lld[PATH_MAX]; /* "" when missing */
    char *processors;   /* what --print-supported-cpus says */
    bool identified;
    struct identity identity;
};

enum { NEWEST = 30, OLDEST = 14 };

static bool already_listed(const struct helper *helper, const char *real)
{
    for (int i = 0; i < helper->clang_count; i++) {
        if (strcmp(helper->clangs[i]->real, real) == 0) {
            return true;
        }
    }
    return false;
}

/* "Debian clang version 22.1.8 (1~deb12u1)" -> "clang 22.1" */
static void read_name(struct clang *clang)
{
    char line[256];
    int minor = 0;
    (void)snprintf(clang->name, sizeof clang->name, "clang");
    if (run_line(clang->path, "--version", line, sizeof line)) {
        const char *version = strstr(line, "version ");
        if (version != NULL && sscanf(version, "version %d.%d", &clang->major, &minor) == 2) {
            (void)snprintf(clang->name, sizeof clang->name, "clang %d.%d", clang->major, minor);
        }
    }
}

static void read_processors(struct clang *clang)
{
    const char *const argv[] = {clang->path, "--print-supported-cpus", "--target=amdgcn-amd-amdhsa", "-nogpulib", NULL};
    struct buffer text = BUFFER_INIT;
    struct run run = {.argv = argv, .output = &text, .errors = &text};
    if (run_program(&run, NULL) == ATTUNE_OK) {
        clang->processors = buffer_take(&text);
    }
    buffer_free(&text);
}

/* HIP code objects are linked by `lld`; a bare name as answer means that clang found none beside itself */
static void find_lld(struct clang *clang)
{
    char line[PATH_MAX];
    char path[PATH_MAX];
    if (run_line(clang->path, "-print-prog-name=lld", line, sizeof line) && run_find(line, path, clang->lld)) {
        return;
    }
    clang->lld[0] = '\0';
}

static void add_clang(struct helper *helper, const char *name)
{
    char path[PATH_MAX];
    char real[PATH_MAX];
    if (helper->clang_count == CLANGS_MAX || !run_find(name, path, real) || already_listed(helper, real)) {
        return;
    }
    struct clang *clang = calloc(1, sizeof *clang);
    if (clang == NULL) {
        return;
    }
    (void)snprintf(clang->path, sizeof clang->path, "%s", path);
    (void)snprintf(clang->real, sizeof clang->real, "%s", real);
    helper->clangs[helper->clang_count++] = clang;
}

static void search(struct helper *helper)
{
    const char *named = environment_get("ATTUNE_CLANG");
    const char *rocm = environment_get("ROCM_PATH");
    char name[PATH_MAX];
    if (helper->clang_searched) {
        return;
    }
    helper->clang_searched = true;
    if (named != NULL && *named != '\0') {
        add_clang(helper, named);
        return;
    }
    for (int version = NEWEST; version >= OLDEST; version--) {
        (void)snprintf(name, sizeof name, "clang-%d", version);
        add_clang(helper, name);
    }
    add_clang(helper, "clang");
    if (rocm != NULL && path_join(name, sizeof name, rocm, "llvm/bin/clang", NULL) == ATTUNE_OK) {
        add_clang(helper, name);
    }
    add_clang(helper, "/opt/rocm/llvm/bin/clang");
}

/* asked only of the clangs that are looked at: each question is a process */
static void learn(struct clang *clang)
{
    if (clang->processors == NULL) {
        read_name(clang);
        read_processors(clang);
        find_lld(clang);
    }
}

static bool lists(const struct clang *clang, const char *processor)
{
    size_t length = strlen(processor);
    for (const char *at = clang->processors; at != NULL && (at = strstr(at, processor)) != NULL; at += length) {
        if ((at == clang->processors || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[length]) &&
            at[length] != '-') {
            return true;
        }
    }
    return false;
}

static attune_status choose(struct helper *helper, const struct target *target, struct clang **chosen,
                            struct error *error)
{
    char names[512] = "";
    size_t used = 0;
    const struct clang *without_lld = NULL;
    const char *named = environment_get("ATTUNE_CLANG");
    search(helper);
    for (int i = 0; i < helper->clang_count; i++) {
        struct clang *clang = helper->clangs[i];
        learn(clang);
        if (lists(clang, target->processor)) {
            if (clang->lld[0] != '\0') {
                *chosen = clang;
                return ATTUNE_OK;
            }
            without_lld = clang;
        }
        if (used < sizeof names) {
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used > 0 ? ", " : "", clang->name);
        }
    }
    if (without_lld != NULL) {
        return error_set(error, ATTUNE_NO_TOOLCHAIN, "%s knows %s but has no lld to link it: install lld-%d",
                         without_lld->name, target->processor, without_lld->major);
    }
    if (helper->clang_count == 0) {
        return error_set(error, ATTUNE_NO_TOOLCHAIN, "no clang for %s: %s%s%s", target->processor,
                         named != NULL ? "ATTUNE_CLANG=" : "install clang-22 and lld-22 or set ATTUNE_CLANG",
                         named != NULL ? named : "", named != NULL ? " is no program" : "");
    }
    return error_set(error, ATTUNE_NO_TOOLCHAIN,
                     "no clang here lists %s (%s): install a newer clang and lld or set ATTUNE_CLANG",
                     target->processor, names);
}

static void add_identity(struct clang *clang, struct output *output)
{
    const char *const argv[] = {clang->path, "-x", "c", "-fsyntax-only", "-", NULL};
    const char *const linker[] = {clang->lld, "-flavor", "gnu", "-T", "/dev/stdin", NULL};
    if (!clang->identified || identity_outdated(&clang->identity)) {
        clang->identity.count = 0;
        identity_add_process(&clang->identity, argv);
        identity_add_process(&clang->identity, linker);
        clang->identified = true;
    }
    output->identity = clang->identity;
    (void)snprintf(output->compiler, sizeof output->compiler, "%s", clang->name);
}

attune_status clang_compile(struct helper *helper, const struct job *job, struct output *output, struct error *error)
{
    struct clang *clang = NULL;
    char words[512];
    char architecture[TARGET_TEXT_BYTES + 20];
    char object[PATH_MAX];
    char how[64];
    const char *argv[RUN_WORDS_MAX + 8];
    int count = 0;
    attune_status status = choose(helper, &job->target, &clang, error);
    if (status == ATTUNE_OK) {
        status = path_join(object, sizeof object, helper->folder, "kernel.co", error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    add_identity(clang, output);
    (void)snprintf(architecture, sizeof architecture, "--offload-arch=%s", job->target_text);
    argv[count++] = clang->path;
    if (clang->major >= CLANG_WITH_CONFIG) {
        argv[count++] = "--no-default-config";
    }
    run_split(compiler_flags(COMPILER_CLANG, SANITIZE_NONE, job->code_object), words, sizeof words, argv, &count);
    argv[count++] = architecture;
    argv[count++] = "-o";
    argv[count++] = object;
    argv[count++] = "-";
    argv[count] = NULL;
    struct run run = {.argv = argv,
                      .input = job->source,
                      .input_bytes = job->source_bytes,
                      .output = &output->log,
                      .errors = &output->log};
    status = run_program(&run, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    if (run.exit_code != 0) {
        run_describe(&run, how, sizeof how);
        return error_set(error, run_blame(&run, &output->log), "%s failed for %s with %s%s", clang->name,
                         job->target_text, compiler_flags(COMPILER_CLANG, SANITIZE_NONE, job->code_object), how);
    }
    status = take_object(object, clang->name, &output->object, error);
    return status == ATTUNE_OK ? amd_check_object(job, output, error) : status;
}

attune_status clang_identify(struct helper *helper, const struct target *target, struct output *output,
                             struct error *error)
{
    struct clang *clang = NULL;
    attune_status status = choose(helper, target, &clang, error);
    if (clang != NULL) {
        add_identity(clang, output);
    }
    return status;
}

/* every word gfx... of the list, once */
static json_t *target_list(const struct clang *clang)
{
    json_t *list = json_array();
    const char *at = clang->processors != NULL ? clang->processors : "";
    char previous[32] = "";
    while ((at = strstr(at, "gfx")) != NULL) {
        char name[32];
        size_t length = strcspn(at, " \t\n,'");
        (void)snprintf(name, sizeof name, "%.*s", (int)length, at);
        if (strcmp(name, previous) != 0) {
            json_array_append_new(list, json_string(name));
            (void)snprintf(previous, sizeof previous, "%s", name);
        }
        at += length;
    }
    return list;
}

void clang_survey(struct helper *helper, json_t *list)
{
    search(helper);
    for (int i = 0; i < helper->clang_count; i++) {
        struct output output = {.compiler = ""};
        struct clang *clang = helper->clangs[i];
        learn(clang);
        add_identity(clang, &output);
        json_array_append_new(list, survey_entry("clang", true, clang->name, &output.identity, target_list(clang),
                                                 clang->lld[0] != '\0' ? NULL : "not used: its lld is missing"));
    }
    if (helper->clang_count == 0) {
        json_array_append_new(list, survey_entry("clang", false, "", NULL, json_array(),
                                                 "install clang-22 and lld-22 for targets that hiprtc does not know"));
    }
}
