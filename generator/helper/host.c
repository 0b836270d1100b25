/* host.c - the C++ compiler as a program, for kernels that run on the CPU.
 *
 * Source goes in on stdin and the working directory is `/`, so no path of ours reaches the object. A plain `ld -shared`
 * links: the compiler's link driver costs more than the compile. Plain objects must be closed (libgcc's half
 * conversions are linked in, libc and libm are named); sanitized ones take their runtime from the runner program, so
 * the compiler must be of the family that built the runners.
 */
#include "generator/helper/helper.h"

#include "base/environment.h"
#include "base/files.h"
#include "generator/compiler_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct host_compiler {
    char path[PATH_MAX];
    char name[64]; /* "g++ 12.2" */
    bool clang;
    int major;
    char linker[PATH_MAX];
    char support[PATH_MAX]; /* libgcc.a, "" when the compiler names none */
    bool identified;
    struct identity identity;
};

/* "g++ (Debian 12.2.0-14) 12.2.0", "Debian clang version 14.0.6" */
static bool read_name(struct host_compiler *host)
{
    char line[256];
    int minor = 0;
    if (!run_line(host->path, "--version", line, sizeof line)) {
        (void)snprintf(host->name, sizeof host->name, "c++");
        return false;
    }
    const char *version = strstr(line, "clang version ");
    host->clang = version != NULL;
    if (host->clang) {
        (void)sscanf(version, "clang version %d.%d", &host->major, &minor);
    } else {
        /* the distribution's own number stands in parentheses, which may hold blanks */
        const char *last = strrchr(line, ')');
        version = last != NULL ? last : line;
        version += strcspn(version, "0123456789");
        (void)sscanf(version, "%d.%d", &host->major, &minor);
    }
    (void)snprintf(host->name, sizeof host->name, "%s %d.%d", host->clang ? "clang++" : "g++", host->major, minor);
    return true;
}

static void find_tools(struct host_compiler *host)
{
    char line[PATH_MAX];
    char path[PATH_MAX];
    host->linker[0] = '\0';
    /* a compiler without an own linker answers with the bare name */
    bool named = run_line(host->path, "-print-prog-name=ld", line, sizeof line);
    if ((named && run_find(line, path, NULL)) || run_find("ld", path, NULL)) {
        (void)snprintf(host->linker, sizeof host->linker, "%s", path);
    }
    host->support[0] = '\0';
    if (run_line(host->path, "-print-libgcc-file-name", line, sizeof line) && line[0] == '/' && run_is_file(line)) {
        (void)snprintf(host->support, sizeof host->support, "%s", line);
    }
}

/* May this compiler make objects for the runner programs? Their sanitizer runtime is that of the compiler that built
 * them. */
static bool fits_runner(const struct host_compiler *host)
{
    bool clang = strstr(ATTUNE_RUNNER_COMPILER_ID, "Clang") != NULL;
    return host->clang == clang && host->major == ATTUNE_RUNNER_COMPILER_MAJOR;
}

static attune_status choose(struct helper *helper, enum sanitize sanitize, struct host_compiler **chosen,
                            struct error *error)
{
    char versioned[2][32];
    const char *named = environment_get("ATTUNE_CXX");
    const char *names[7] = {named};
    int count = 0;
    char seen[512] = "";
    size_t used = 0;
    if (helper->host[sanitize] != NULL) {
        *chosen = helper->host[sanitize];
        return ATTUNE_OK;
    }
    if (named != NULL && *named != '\0') {
        count = 1;
    }
    if (count == 0 || sanitize != SANITIZE_NONE) {
        (void)snprintf(versioned[0], sizeof versioned[0], "g++-%d", ATTUNE_RUNNER_COMPILER_MAJOR);
        (void)snprintf(versioned[1], sizeof versioned[1], "clang++-%d", ATTUNE_RUNNER_COMPILER_MAJOR);
        names[count++] = "c++";
        names[count++] = "g++";
        names[count++] = "clang++";
        if (sanitize != SANITIZE_NONE) {
            names[count++] = versioned[0];
            names[count++] = versioned[1];
        }
    }
    struct host_compiler *host = calloc(1, sizeof *host);
    if (host == NULL) {
        return error_no_memory(error);
    }
    for (int i = 0; i < count; i++) {
        if (!run_find(names[i], host->path, NULL)) {
            continue;
        }
        host->clang = false;
        host->major = 0;
        (void)read_name(host);
        if (sanitize == SANITIZE_NONE || fits_runner(host)) {
            find_tools(host);
            helper->host[sanitize] = host;
            *chosen = host;
            return ATTUNE_OK;
        }
        if (used < sizeof seen) {
            used += (size_t)snprintf(seen + used, sizeof seen - used, "%s%s", used > 0 ? ", " : "", host->name);
        }
    }
    free(host);
    if (sanitize != SANITIZE_NONE) {
        return error_set(
            error, ATTUNE_NO_TOOLCHAIN,
            "sanitized host kernels need the compiler that built the runner programs (%s %d); here are: %s",
            ATTUNE_RUNNER_COMPILER_ID, ATTUNE_RUNNER_COMPILER_MAJOR, used > 0 ? seen : "none");
    }
    return error_set(error, ATTUNE_NO_TOOLCHAIN, "no C++ compiler for host kernels: %s%s",
                     named != NULL && *named != '\0' ? "ATTUNE_CXX is no program: "
                                                     : "install g++ or clang++, or set ATTUNE_CXX",
                     named != NULL ? named : "");
}

static void add_identity(struct host_compiler *host, struct output *output)
{
    if (!host->identified || identity_outdated(&host->identity)) {
        host->identity.count = 0;
        char line[PATH_MAX];
        char path[PATH_MAX];
        char real[PATH_MAX];
        if (host->clang) {
            const char *const argv[] = {host->path, "-x", "c++", "-fsyntax-only", "-", NULL};
            identity_add_process(&host->identity, argv);
        } else {
            if (run_find(host->path, path, real)) {
                identity_add_file(&host->identity, real);
            }
            const char *const parts[] = {"-print-prog-name=cc1plus", "-print-prog-name=as"};
            for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
                if (run_line(host->path, parts[i], line, sizeof line) && run_find(line, path, real)) {
                    identity_add_file(&host->identity, real);
                }
            }
        }
        if (host->linker[0] != '\0' && run_find(host->linker, path, real)) {
            identity_add_file(&host->identity, real);
        }
        host->identified = true;
    }
    output->identity = host->identity;
    (void)snprintf(output->compiler, sizeof output->compiler, "%s", host->name);
}

static attune_status link_object(struct host_compiler *host, enum sanitize sanitize, const char *from, const char *to,
                                 struct output *output, struct error *error)
{
    char words[256];
    char how[64];
    const char *argv[RUN_WORDS_MAX + 12];
    int count = 0;
    if (host->linker[0] == '\0') {
        return error_set(error, ATTUNE_NO_TOOLCHAIN, "%s is here but no linker `ld`: install binutils", host->name);
    }
    argv[count++] = host->linker;
    run_split(compiler_link_flags(sanitize), words, sizeof words, argv, &count);
    argv[count++] = "-o";
    argv[count++] = to;
    argv[count++] = from;
    if (host->support[0] != '\0') {
        argv[count++] = host->support;
    }
    argv[count++] = "--as-needed";
    argv[count++] = "-l:libm.so.6";
    argv[count++] = "-l:libc.so.6";
    argv[count] = NULL;
    struct run run = {.argv = argv, .output = &output->log, .errors = &output->log};
    attune_status status = run_program(&run, error);
    if (status == ATTUNE_OK && run.exit_code != 0) {
        run_describe(&run, how, sizeof how);
        status = error_set(error, run_blame(&run, &output->log), "linking the host object failed%s", how);
    }
    return status;
}

attune_status host_compile(struct helper *helper, const struct job *job, struct output *output, struct error *error)
{
    struct host_compiler *host = NULL;
    char words[512];
    char object[PATH_MAX];
    char library[PATH_MAX];
    char how[64];
    const char *argv[RUN_WORDS_MAX + 8];
    const char *flags = compiler_flags(COMPILER_HOST, job->sanitize, 0);
    int count = 0;
    attune_status status = choose(helper, job->sanitize, &host, error);
    if (status == ATTUNE_OK) {
        status = path_join(object, sizeof object, helper->folder, "kernel.o", error);
    }
    if (status == ATTUNE_OK) {
        status = path_join(library, sizeof library, helper->folder, "kernel.so", error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    add_identity(host, output);
    argv[count++] = host->path;
    if (host->clang && host->major >= CLANG_WITH_CONFIG) {
        argv[count++] = "--no-default-config";
    }
    run_split(flags, words, sizeof words, argv, &count);
    argv[count++] = "-c";
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
    if (status == ATTUNE_OK && run.exit_code != 0) {
        run_describe(&run, how, sizeof how);
        status = error_set(error, run_blame(&run, &output->log), "%s failed for %s with %s%s", host->name,
                           job->target_text, flags, how);
    } else if (status == ATTUNE_OK && !run_is_file(object)) {
        status = error_set(error, ATTUNE_COMPILE_FAILED, "%s reported success for %s and wrote nothing", host->name,
                           job->target_text);
    }
    if (status == ATTUNE_OK) {
        status = link_object(host, job->sanitize, object, library, output, error);
    }
    if (status == ATTUNE_OK) {
        status = take_object(library, host->name, &output->object, error);
    }
    (void)remove(object);
    (void)remove(library);
    return status;
}

attune_status host_identify(struct helper *helper, enum sanitize sanitize, struct output *output, struct error *error)
{
    struct host_compiler *host = NULL;
    attune_status status = choose(helper, sanitize, &host, error);
    if (host != NULL) {
        add_identity(host, output);
    }
    return status;
}

json_t *host_survey(struct helper *helper)
{
    struct output output = {.compiler = ""};
    struct error error = {.message = ""};
    struct host_compiler *sanitizing = NULL;
    bool found = host_identify(helper, SANITIZE_NONE, &output, &error) == ATTUNE_OK;
    const char *note = error.message;
    if (found) {
        note = choose(helper, SANITIZE_ADDRESS, &sanitizing, &error) == ATTUNE_OK ? "sanitizers: address, thread"
                                                                                  : error.message;
    }
    return survey_entry("host", found, output.compiler, &output.identity, json_pack("[s]", "host"), note);
}
