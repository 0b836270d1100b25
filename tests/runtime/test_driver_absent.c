/* test_driver_absent.c - drivers that cannot be used say why. A scenario is a process: a driver is loaded once in each.
 */
#include "runtime/driver.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* In a child: ask for the driver with `variable` set to `path` (NULL: unset), after `prepare`. The child's message is
 * in `text`. Returns the status. */
static attune_status ask(const char *driver, const char *variable, const char *path, void (*prepare)(void),
                         char text[4096])
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct error error = {0};
        const struct driver *found;
        if (path != NULL) {
            setenv(variable, path, 1);
        } else {
            unsetenv(variable);
        }
        if (prepare != NULL) {
            prepare();
        }
        attune_status status = driver_get(driver, &found, &error);
        ssize_t wrote = write(ends[1], error.message, strlen(error.message));
        _exit(wrote >= 0 ? (int)status : 100);
    }
    close(ends[1]);
    size_t used = 0;
    ssize_t got;
    while ((got = read(ends[0], text + used, 4095 - used)) > 0) {
        used += (size_t)got;
    }
    text[used] = '\0';
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return (attune_status)WEXITSTATUS(status);
}

static void assert_part(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", text, part);
    }
}

static void missing_library_is_named(void **state)
{
    (void)state;
    char text[4096];
    assert_int_equal(ask("hip", "ATTUNE_HIP_LIBRARY", "/nonexistent/x.so", NULL, text), ATTUNE_NO_DEVICE);
    assert_part(text, "driver hip: ATTUNE_HIP_LIBRARY=/nonexistent/x.so");
    assert_int_equal(ask("cuda", "ATTUNE_CUDA_LIBRARY", "/nonexistent/x.so", NULL, text), ATTUNE_NO_DEVICE);
    assert_part(text, "driver cuda: ATTUNE_CUDA_LIBRARY=/nonexistent/x.so");
}

static void library_of_something_else_is_refused(void **state)
{
    (void)state;
    char text[4096];
    assert_int_equal(ask("hip", "ATTUNE_HIP_LIBRARY", "libm.so.6", NULL, text), ATTUNE_NO_DEVICE);
    assert_part(text, "libm.so.6 has no function hipInit");
    assert_int_equal(ask("cuda", "ATTUNE_CUDA_LIBRARY", "libm.so.6", NULL, text), ATTUNE_NO_DEVICE);
    assert_part(text, "libm.so.6 has no function cuInit");
}

static void library_too_old_is_refused(void **state)
{
    (void)state;
    char text[4096];
    assert_int_equal(ask("hip", "ATTUNE_HIP_LIBRARY", FAKE_HIP_ANCIENT, NULL, text), ATTUNE_NO_DEVICE);
    assert_part(text, "version 40221000");
}

static void unknown_driver_is_invalid(void **state)
{
    (void)state;
    struct error error = {0};
    const struct driver *driver;
    assert_int_equal(driver_get("metal", &driver, &error), ATTUNE_INVALID);
    assert_part(error.message, "metal");
    assert_null(driver);
}

/* every function of the table is in the installed library, and without a GPU its own words are in the message */
static void installed_hip_without_a_gpu_says_so(void **state)
{
    (void)state;
    char text[4096];
    static const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"};
    bool installed = false;
    for (int i = 0; i < 3; i++) {
        installed = installed || dlopen(names[i], RTLD_LAZY | RTLD_LOCAL) != NULL;
    }
    if (!installed || access("/dev/kfd", F_OK) == 0) {
        fprintf(stderr, "skipped: %s\n", installed ? "an AMD GPU is here" : "libamdhip64 is not installed");
        skip();
    }
    assert_int_equal(ask("hip", "ATTUNE_HIP_LIBRARY", NULL, NULL, text), ATTUNE_NO_DEVICE);
    assert_part(text, "hipInit of libamdhip64.so.");
    assert_part(text, "hipError");
    assert_part(text, "/dev/kfd is not there");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_library_is_named),
        cmocka_unit_test(library_of_something_else_is_refused),
        cmocka_unit_test(library_too_old_is_refused),
        cmocka_unit_test(unknown_driver_is_invalid),
        cmocka_unit_test(installed_hip_without_a_gpu_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
