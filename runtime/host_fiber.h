/* host_fiber.h - a stack and a saved context: what one GPU thread of the host device runs on.
 *
 * Invariants: a context is running, or its registers are saved on its own stack. Switching is cooperative and says
 * nothing of memory order to ThreadSanitizer: order between fibers comes from host_sync_* alone, so that a kernel's
 * missing barrier is seen as the race that it is. Floating-point modes are shared by all contexts of a thread.
 *
 * The sanitizers must be told of every switch. HOST_FIBER_ADDRESS / HOST_FIBER_THREAD turn the calls on: set by the
 * compiler's own macros, or by the build for the runner programs, whose host device itself is not instrumented.
 */
#ifndef RUNTIME_HOST_FIBER_H
#define RUNTIME_HOST_FIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define HOST_FIBER_ADDRESS 1
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer) && !defined(HOST_FIBER_ADDRESS)
#define HOST_FIBER_ADDRESS 1
#endif
#endif

#if !defined(__x86_64__) && !defined(HOST_FIBER_UCONTEXT)
#define HOST_FIBER_UCONTEXT 1
#endif
#ifdef HOST_FIBER_UCONTEXT
#include <ucontext.h>
#endif

struct host_context {
#ifdef HOST_FIBER_UCONTEXT
    ucontext_t saved;
#else
    void *stack_pointer; /* valid while not running */
#endif
    void (*function)(void *argument); /* never returns */
    void *argument;
    void *mapping; /* stack with its guard page below; NULL for an adopted thread */
    size_t mapping_bytes;
    const void *stack_low; /* bounds without the guard, as AddressSanitizer wants them */
    size_t stack_bytes;
    struct host_context *previous; /* who switched here last */
    void *fake_stack;              /* AddressSanitizer's */
    void *race_fiber;              /* ThreadSanitizer's */
};

/* the calling thread's own stack becomes a context one can switch from and back to */
void host_context_adopt(struct host_context *context);

/* map a stack (once) and prepare a first entry into function(argument); false without memory. `color` spreads the
 * stacks' tops over the cache's sets. Legal again on a context that was abandoned half-way. */
bool host_context_make(struct host_context *context, unsigned color, void (*function)(void *), void *argument);
void host_context_free(struct host_context *context);

void host_context_switch(struct host_context *from, struct host_context *to);

/* Memory order between fibers that ThreadSanitizer may assume, and internal memory that it must not look at. */
#ifdef HOST_FIBER_THREAD
void __tsan_acquire(void *address);
void __tsan_release(void *address);
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
static inline void host_sync_release(void *address)
{
    __tsan_release(address);
}
static inline void host_sync_acquire(void *address)
{
    __tsan_acquire(address);
}
static inline void host_ignore_begin(void)
{
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}
static inline void host_ignore_end(void)
{
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}
/* memcpy is intercepted even from code that is not instrumented: this loop is not, and the asm keeps it one */
static inline void host_copy(void *to, const void *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        ((char *)to)[i] = ((const char *)from)[i];
        __asm__ volatile("" ::: "memory");
    }
}
#else
static inline void host_sync_release(void *address)
{
    (void)address;
}
static inline void host_sync_acquire(void *address)
{
    (void)address;
}
static inline void host_ignore_begin(void)
{
}
static inline void host_ignore_end(void)
{
}
static inline void host_copy(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}
#endif

#endif
