/* fake_body.h - the state behind fake_library.h, once in each stand-in. */
#include "fake_library.h"

#include <pthread.h>

static struct fake fake = {.devices = 2};

__attribute__((visibility("default"))) struct fake *fake_state(void)
{
    return &fake;
}

static pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;

/* logs the call; nonzero is the failure that the test asked for */
__attribute__((format(printf, 2, 3))) static int call(const char *name, const char *format, ...)
{
    int code = 0;
    pthread_mutex_lock(&fake_lock);
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
        code = fake.fail_code;
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

static int make(void **handle)
{
    *handle = malloc(16);
    pthread_mutex_lock(&fake_lock);
    fake.live++;
    pthread_mutex_unlock(&fake_lock);
    return 0;
}

static int unmake(void *handle)
{
    free(handle);
    pthread_mutex_lock(&fake_lock);
    fake.live--;
    pthread_mutex_unlock(&fake_lock);
    return 0;
}

/* the packed form of kernel arguments: {1, bytes, 2, &size, end} */
static int take_arguments(void **parameters, void **extra, uintptr_t end)
{
    if (parameters != NULL || extra == NULL || (uintptr_t)extra[0] != 1 || (uintptr_t)extra[2] != 2 ||
        (uintptr_t)extra[4] != end) {
        return 1;
    }
    pthread_mutex_lock(&fake_lock);
    fake.argument_bytes = *(size_t *)extra[3];
    memcpy(fake.arguments, extra[1], fake.argument_bytes);
    pthread_mutex_unlock(&fake_lock);
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

/* What may allocate, load or synchronise is forbidden to a thread whose own capture is not relaxed, and in the global
 * mode to threads beside another's global capture; to relaxed threads never. 900, and the capture is broken. */
static int may_allocate(void)
{
    bool own = fake.capture.stream != NULL && fake.capture.thread == (unsigned long)pthread_self();
    bool forbidden =
        fake.capture.stream != NULL && capture_mode != MODE_RELAXED &&
        (own ? fake.capture.mode != MODE_RELAXED : capture_mode == MODE_GLOBAL && fake.capture.mode == MODE_GLOBAL);
    if (forbidden) {
        fake.capture.broken = true;
    }
    return forbidden || (fake.other_captures && capture_mode != MODE_RELAXED) ? 900 : 0;
}

/* waiting for a stream that is captured is forbidden in every mode */
static int may_wait(void *stream)
{
    if (fake.capture.stream != NULL && stream == fake.capture.stream) {
        fake.capture.broken = true;
        return 900;
    }
    return may_allocate();
}

static int begin_capture(void *stream, int mode)
{
    fake.capture = (struct fake_capture){.stream = stream, .mode = mode, .thread = (unsigned long)pthread_self()};
    return 0;
}

static int end_capture(void)
{
    bool broken = fake.capture.broken;
    fake.capture.stream = NULL;
    return broken ? 901 : 0;
}

static int capture_status(void *stream, int *status)
{
    bool captured = stream != NULL && stream == fake.capture.stream;
    *status = captured ? fake.capture.broken ? 2 : 1 : 0;
    return 0;
}

static void launched(void *stream, uint64_t blocks)
{
    pthread_mutex_lock(&fake_lock);
    fake.blocks_run += blocks;
    fake.capture.launches += stream != NULL && stream == fake.capture.stream;
    pthread_mutex_unlock(&fake_lock);
}
