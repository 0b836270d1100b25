/* fake_hiprtc.c - a hiprtc (and with FAKE_COMGR its comgr) whose logs behave as $FAKE_LOG says:
 *
 *   bare       the log's size leaves out the final NUL, as hiprtc 5.2.3 does
 *   counted    the size counts it, as later releases do
 *   long       1 MiB of warnings before the error
 *   longer     the error, then 2 MiB
 *   no-size    asking for the size fails
 *   no-log     asking for the log fails
 *   absurd     the size is beyond all memory
 *   warnings   success, with 1 MiB of warnings
 *   quiet      success, without a log
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef FAKE_COMGR

int amd_comgr_get_isa_count(size_t *count);
int amd_comgr_get_isa_name(size_t index, const char **name);

int amd_comgr_get_isa_count(size_t *count)
{
    *count = 1;
    return 0;
}

int amd_comgr_get_isa_name(size_t index, const char **name)
{
    *name = "amdgcn-amd-amdhsa--gfx906";
    return index != 0;
}

#else

int hiprtcCreateProgram(void **, const char *, const char *, int, const char *const *, const char *const *);
int hiprtcCompileProgram(void *, int, const char *const *);
int hiprtcGetProgramLogSize(void *, size_t *);
int hiprtcGetProgramLog(void *, char *);
int hiprtcGetCodeSize(void *, size_t *);
int hiprtcGetCode(void *, char *);
int hiprtcDestroyProgram(void **);
const char *hiprtcGetErrorString(int);

static const char error_line[] = "templates/x.hip:7:3: error: the fake refuses\n";
static const char warning_line[] = "templates/x.hip:1:1: warning: the fake warns\n";
static char *log_text;
static size_t log_length;

static int mode(const char *name)
{
    const char *wanted = getenv("FAKE_LOG");
    return wanted != NULL && strcmp(wanted, name) == 0;
}

static void say(const char *line, size_t at_least)
{
    size_t length = strlen(line), times = at_least / length + 1;
    log_text = realloc(log_text, log_length + times * length + 1);
    for (size_t i = 0; i < times; i++) {
        memcpy(log_text + log_length, line, length);
        log_length += length;
    }
    log_text[log_length] = '\0';
}

int hiprtcCreateProgram(void **program, const char *source, const char *name, int headers, const char *const *texts,
                        const char *const *names)
{
    (void)source, (void)name, (void)headers, (void)texts, (void)names;
    *program = &log_text;
    log_length = 0;
    return 0;
}

int hiprtcCompileProgram(void *program, int count, const char *const *options)
{
    (void)program, (void)count, (void)options;
    if (mode("quiet")) {
        return 0;
    }
    if (mode("long") || mode("warnings")) {
        say(warning_line, (size_t)1 << 20);
    }
    if (mode("warnings")) {
        return 0;
    }
    say(error_line, 0);
    if (mode("longer")) {
        say(warning_line, (size_t)2 << 20);
    }
    return 6;
}

int hiprtcGetProgramLogSize(void *program, size_t *bytes)
{
    (void)program;
    if (mode("no-size")) {
        return 11;
    }
    *bytes = mode("absurd") ? SIZE_MAX / 2 : log_length + (mode("bare") ? 0 : 1);
    return 0;
}

int hiprtcGetProgramLog(void *program, char *text)
{
    (void)program;
    if (mode("no-log")) {
        return 11;
    }
    memcpy(text, log_text != NULL ? log_text : "", log_length + (mode("bare") ? 0 : 1));
    return 0;
}

/* an ELF header of code object version 4, and nothing behind it */
int hiprtcGetCodeSize(void *program, size_t *bytes)
{
    (void)program;
    *bytes = 64;
    return 0;
}

int hiprtcGetCode(void *program, char *code)
{
    (void)program;
    memset(code, 0, 64);
    memcpy(code, "\177ELF\2\1\1\100\2", 9);
    return 0;
}

int hiprtcDestroyProgram(void **program)
{
    *program = NULL;
    return 0;
}

const char *hiprtcGetErrorString(int code)
{
    return code == 6 ? "HIPRTC_ERROR_COMPILATION" : code == 11 ? "HIPRTC_ERROR_INTERNAL_ERROR" : "HIPRTC_SUCCESS";
}

#endif
