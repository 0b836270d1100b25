/* child.h - a child process that runs a mutant: its faults end it, where cmocka's handlers would carry on with the
 * tests. */
#ifndef TESTS_MUTATION_CHILD_H
#define TESTS_MUTATION_CHILD_H

#include <signal.h>
#include <stddef.h>
#include <sys/resource.h>

static inline void child_dies_alone(void)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS};
    const struct rlimit none = {0};
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        signal(faults[i], SIG_DFL);
    }
    setrlimit(RLIMIT_CORE, &none);
}

#endif
