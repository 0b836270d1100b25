/* host_kernels.c - the C++ compiler as a program, for kernels written by hand. */
#include "host_kernels.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int run(char *const *argv)
{
    pid_t child;
    if (posix_spawnp(&child, argv[0], NULL, NULL, argv, environ) != 0) {
        return -1;
    }
    int status;
    while (waitpid(child, &status, 0) < 0) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void must_run(char *const *argv)
{
    if (run(argv) != 0) {
        fprintf(stderr, "failed:");
        for (int i = 0; argv[i] != NULL; i++) {
            fprintf(stderr, " %s", argv[i]);
        }
        fprintf(stderr, "\n");
        abort();
    }
}

bool host_compiler_present(void)
{
    bool present = run((char *[]){"c++", "-dumpversion", NULL}) == 0;
    if (!present) {
        fprintf(stderr, "skipped: no C++ compiler (c++) on PATH\n");
    }
    return present;
}

void host_kernels_compile(const char *object, const char *const *extra)
{
    char part[512];
    snprintf(part, sizeof part, "%s.o", object);
    char *argv[32] = {"c++", "-std=c++17", "-O1", "-g",          "-w", "-fPIC", "-fno-exceptions",
                      "-c",  "-o",         part,  KERNELS_SOURCE};
    int count = 11;
    bool sanitized = false;
    for (int i = 0; extra != NULL && extra[i] != NULL; i++) {
        argv[count++] = (char *)extra[i];
        sanitized = sanitized || strncmp(extra[i], "-fsanitize", 10) == 0;
    }
    must_run(argv);
    must_run((char *[]){"ld", "-shared", "-o", (char *)object, part, sanitized ? NULL : "--no-undefined", NULL});
    unlink(part);
}
