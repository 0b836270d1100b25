/* fake_body.h - the state behind fake_library.h, once in each stand-in. */
#include "fake_library.h"

static struct fake fake = {.devices = 2};

__attribute__((visibility("default"))) struct fake *fake_state(void)
{
    return &fake;
}

/* logs the call; nonzero is the failure that the test asked for */
__attribute__((format(printf, 2, 3))) static int call(const char *name, const char *format, ...)
{
    size_t used = strlen(fake.log);
    if (used < sizeof fake.log / 2) {
        used += (size_t)snprintf(fake.log + used, sizeof fake.log - used, "%s ", name);
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(fake.log + used, sizeof fake.log - used, format, arguments);
        va_end(arguments);
        strcat(fake.log, "\n");
    }
    if (strcmp(fake.fail_name, name) == 0) {
        fake.fail_name[0] = '\0';
        return fake.fail_code;
    }
    return 0;
}

static int make(void **handle)
{
    *handle = malloc(16);
    fake.live++;
    return 0;
}

static int unmake(void *handle)
{
    free(handle);
    fake.live--;
    return 0;
}

/* the packed form of kernel arguments: {1, bytes, 2, &size, end} */
static int take_arguments(void **parameters, void **extra, uintptr_t end)
{
    if (parameters != NULL || extra == NULL || (uintptr_t)extra[0] != 1 || (uintptr_t)extra[2] != 2 ||
        (uintptr_t)extra[4] != end) {
        return 1;
    }
    fake.argument_bytes = *(size_t *)extra[3];
    memcpy(fake.arguments, extra[1], fake.argument_bytes);
    return 0;
}

enum { MODE_GLOBAL, MODE_THREAD_LOCAL, MODE_RELAXED };
static _Thread_local int capture_mode = MODE_GLOBAL;

static int exchange_mode(int *mode)
{
    int previous = capture_mode;
    capture_mode = *mode;
    *mode = previous;
    return 0;
}

/* 900: not permitted while a stream captures */
static int may_allocate(void)
{
    return fake.other_captures && capture_mode != MODE_RELAXED ? 900 : 0;
}
