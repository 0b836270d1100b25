/* host_fiber.c - contexts on x86-64 by a switch of our own (some nanoseconds), elsewhere by ucontext (a system call
 * each).
 *
 * A stack is its own mapping with a guard page below it, so that an overflow is a fault and not a neighbour's wrong
 * number.
 */
#include "runtime/host_fiber.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__has_include)
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#endif
#endif
#ifndef VALGRIND_STACK_REGISTER
#define VALGRIND_STACK_REGISTER(low, high) ((void)0)
#endif

/* Pages are committed as they are touched; instrumented frames are several times the size of plain ones. */
#if defined(HOST_FIBER_ADDRESS) || defined(HOST_FIBER_THREAD)
enum { STACK_BYTES = 1 << 20 };
#else
enum { STACK_BYTES = 1 << 17 };
#endif
enum { COLOR_BYTES = 192, COLORS = 21 }; /* all colours together stay within a page */

#ifdef HOST_FIBER_ADDRESS
void __sanitizer_start_switch_fiber(void **fake_stack_save, const void *bottom, size_t size);
void __sanitizer_finish_switch_fiber(void *fake_stack_save, const void **bottom_old, size_t *size_old);
void __asan_unpoison_memory_region(void const volatile *address, size_t size);
#endif
#ifdef HOST_FIBER_THREAD
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
enum { SWITCH_WITHOUT_SYNC = 1 };
#endif

/* first thing on a stack that was just switched to */
static void arrived(struct host_context *self)
{
#ifdef HOST_FIBER_ADDRESS
    __sanitizer_finish_switch_fiber(self->fake_stack, &self->previous->stack_low, &self->previous->stack_bytes);
#else
    (void)self;
#endif
}

static void run(struct host_context *self)
{
    arrived(self);
    self->function(self->argument);
    abort(); /* function never returns */
}

#ifdef HOST_FIBER_UCONTEXT

static void ucontext_entry(unsigned low, unsigned high)
{
    run((struct host_context *)((uintptr_t)high << 16 << 16 | low));
}

static void prepare(struct host_context *context, char *top)
{
    getcontext(&context->saved);
    context->saved.uc_stack.ss_sp = (void *)context->stack_low;
    context->saved.uc_stack.ss_size = (size_t)(top - (const char *)context->stack_low);
    context->saved.uc_link = NULL;
    uintptr_t self = (uintptr_t)context;
    makecontext(&context->saved, (void (*)(void))ucontext_entry, 2, (unsigned)self, (unsigned)(self >> 16 >> 16));
}

static void jump(struct host_context *from, struct host_context *to)
{
    swapcontext(&from->saved, &to->saved);
}

#else

/* host_fiber_jump(void **save, void *load): callee-saved registers go on the old stack, come from the new one.
 * host_fiber_start: the return address of a fresh stack; r12 holds the context, r13 the function to enter. */
__asm__(".text\n"
        ".globl host_fiber_jump\n.hidden host_fiber_jump\n.type host_fiber_jump,@function\n"
        ".p2align 4\n"
        "host_fiber_jump:\n"
        ".cfi_startproc\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  .cfi_def_cfa_offset 56\n"
        "  movq %rsp, (%rdi)\n"
        "  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
        "  .cfi_def_cfa_offset 8\n"
        "  ret\n"
        ".cfi_endproc\n"
        ".size host_fiber_jump,.-host_fiber_jump\n"
        ".globl host_fiber_start\n.hidden host_fiber_start\n.type host_fiber_start,@function\n"
        "host_fiber_start:\n"
        ".cfi_startproc\n"
        ".cfi_undefined rip\n" /* debuggers stop here */
        "  movq %r12, %rdi\n"
        "  call *%r13\n"
        "  ud2\n"
        ".cfi_endproc\n"
        ".size host_fiber_start,.-host_fiber_start\n");
__attribute__((visibility("hidden"))) void host_fiber_jump(void **save, void *load);
__attribute__((visibility("hidden"))) void host_fiber_start(void);

static void prepare(struct host_context *context, char *top)
{
    /* r15 r14 r13 r12 rbx rbp, return address; the stack is 16-byte aligned when host_fiber_start begins */
    uintptr_t aligned = (uintptr_t)top & ~(uintptr_t)15;
    void **slot = (void **)(aligned - 16 - 7 * sizeof(void *));
    memset(slot, 0, 9 * sizeof(void *));
    slot[2] = (void *)(uintptr_t)run;
    slot[3] = context;
    slot[6] = (void *)(uintptr_t)host_fiber_start;
    context->stack_pointer = slot;
}

static void jump(struct host_context *from, struct host_context *to)
{
    host_fiber_jump(&from->stack_pointer, to->stack_pointer);
}

#endif

void host_context_adopt(struct host_context *context)
{
    memset(context, 0, sizeof *context);
#ifdef HOST_FIBER_THREAD
    context->race_fiber = __tsan_get_current_fiber();
#endif
}

bool host_context_make(struct host_context *context, unsigned color, void (*function)(void *), void *argument)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (context->mapping == NULL) {
        size_t bytes = STACK_BYTES + 2 * page; /* guard below; one page for the colour above */
        void *mapping = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (mapping == MAP_FAILED) {
            return false;
        }
        if (mprotect(mapping, page, PROT_NONE) != 0) {
            munmap(mapping, bytes);
            return false;
        }
        context->mapping = mapping;
        context->mapping_bytes = bytes;
        VALGRIND_STACK_REGISTER((char *)mapping + page, (char *)mapping + bytes);
    }
    context->stack_low = (char *)context->mapping + page;
    context->stack_bytes = context->mapping_bytes - page;
    context->function = function;
    context->argument = argument;
    context->previous = NULL;
    context->fake_stack = NULL;
#ifdef HOST_FIBER_ADDRESS
    __asan_unpoison_memory_region(context->stack_low, context->stack_bytes); /* frames that were abandoned */
#endif
#ifdef HOST_FIBER_THREAD
    if (context->race_fiber != NULL) {
        __tsan_destroy_fiber(context->race_fiber);
    }
    context->race_fiber = __tsan_create_fiber(0);
#endif
    prepare(context, (char *)context->mapping + context->mapping_bytes - color % COLORS * COLOR_BYTES);
    return true;
}

void host_context_free(struct host_context *context)
{
    if (context->mapping == NULL) {
        return;
    }
#ifdef HOST_FIBER_THREAD
    __tsan_destroy_fiber(context->race_fiber);
#endif
    munmap(context->mapping, context->mapping_bytes);
    memset(context, 0, sizeof *context);
}

void host_context_switch(struct host_context *from, struct host_context *to)
{
    to->previous = from;
#ifdef HOST_FIBER_ADDRESS
    __sanitizer_start_switch_fiber(&from->fake_stack, to->stack_low, to->stack_bytes);
#endif
#ifdef HOST_FIBER_THREAD
    __tsan_switch_to_fiber(to->race_fiber, SWITCH_WITHOUT_SYNC);
#endif
    jump(from, to);
    arrived(from);
}
