/* scripted_measure.c - a measuring program on the scripted device, for tests that set ATTUNE_MEASURE to it: the timed
 * half of a remote measurer without a GPU.
 *
 * Times follow the kernels' names, twice_t100 takes 100 us. A kernel whose name holds `lateabort` or `latehang` does
 * that after so many timed launches, when it is a finalist; `lookabort` at its first timed launch; `stoponce` is
 * stopped then, as by an operator, by whoever makes the file $ATTUNE_TEST_ONCE, `killonce` killed when it is a
 * finalist; `grow` takes memory for ever.
 */
#include "autotune/measurer.h"
#include "tests/autotune/scripted_device.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LATE_LAUNCHES = 70, GROWTH_BYTES = 64 << 20 };

static struct scripted_kernel {
    driver_function function;
    char name[64];
    int timed;
} kernels[SCRIPTED_LOADS_MAX];
static int kernel_count;
static struct driver base;

static double truth(const char *kernel, const void *object, size_t bytes)
{
    (void)object, (void)bytes;
    const char *number = kernel + strcspn(kernel, "0123456789");
    return *number != '\0' ? atof(number) : 100.0;
}

static attune_status load(const struct driver *driver, int ordinal, const void *object, size_t bytes,
                          const char *kernel, uint32_t dynamic, driver_module *module, driver_function *function,
                          struct error *error)
{
    attune_status status = base.load(driver, ordinal, object, bytes, kernel, dynamic, module, function, error);
    if (status == ATTUNE_OK && kernel_count < SCRIPTED_LOADS_MAX) {
        kernels[kernel_count].function = *function;
        kernels[kernel_count].timed = 0;
        snprintf(kernels[kernel_count++].name, sizeof kernels[0].name, "%s", kernel);
    }
    return status;
}

static attune_status launch(const struct driver *driver, int ordinal, const struct driver_launch *what,
                            driver_stream stream, struct error *error)
{
    struct scripted_kernel *kernel = NULL;
    for (int i = kernel_count - 1; i >= 0 && kernel == NULL; i--) {
        kernel = kernels[i].function == what->function ? &kernels[i] : NULL;
    }
    while (kernel != NULL && strstr(kernel->name, "grow") != NULL) {
        char *block = malloc(GROWTH_BYTES);
        if (block != NULL) {
            memset(block, 1, GROWTH_BYTES);
        }
    }
    if (kernel != NULL && stream != NULL) {
        bool late = ++kernel->timed > LATE_LAUNCHES;
        if ((late && strstr(kernel->name, "lateabort") != NULL) || strstr(kernel->name, "lookabort") != NULL) {
            fprintf(stderr, "the scripted kernel aborts\n");
            abort();
        }
        const char *once = getenv("ATTUNE_TEST_ONCE");
        if (strstr(kernel->name, "stoponce") != NULL && once != NULL && open(once, O_CREAT | O_EXCL, 0600) >= 0) {
            raise(SIGSTOP);
        }
        if (late && strstr(kernel->name, "killonce") != NULL && once != NULL &&
            open(once, O_CREAT | O_EXCL, 0600) >= 0) {
            raise(SIGKILL);
        }
        while (late && strstr(kernel->name, "latehang") != NULL) {
            pause();
        }
    }
    return base.launch(driver, ordinal, what, stream, error);
}

int main(void)
{
    int output = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (output < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
        return 1;
    }
    base = scripted_driver(truth);
    struct driver driver = base;
    driver.load = load;
    driver.launch = launch;
    return measurer_serve(STDIN_FILENO, output, &driver);
}
