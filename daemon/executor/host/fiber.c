#include "daemon/executor/host/fiber.h"

void *make_fcontext(void *stack_top, size_t size, void (*main)(struct fiber_transfer from));

#if UNDER_ASAN
void __sanitizer_start_switch_fiber(void **fake_stack, const void *bottom, size_t size);
void __sanitizer_finish_switch_fiber(void *fake_stack, const void **old_bottom, size_t *old_size);
void __asan_unpoison_memory_region(const volatile void *at, size_t size);
#endif
#ifdef UNDER_TSAN
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
#endif

void fiber_before_switch(struct fiber *from, struct fiber *to)
{
    (void)from, (void)to;
#if UNDER_ASAN
    __sanitizer_start_switch_fiber(&from->fake_stack, to->stack, to->size);
#endif
#ifdef UNDER_TSAN
    __tsan_switch_to_fiber(to->checker, 0);
#endif
}

void fiber_after_switch(struct fiber *here, struct fiber *from)
{
    (void)here, (void)from;
#if UNDER_ASAN
    const void *bottom;
    size_t size;
    __sanitizer_finish_switch_fiber(here->fake_stack, &bottom, &size);
    if (!from->stack) { /* a thread's own stack, which is learned so */
        from->stack = (void *)bottom;
        from->size = size;
    }
#endif
}

static void begin(struct fiber_transfer arrival)
{
    struct fiber *from = arrival.data;
    struct fiber *self = from->to;
    from->context = arrival.context;
    fiber_after_switch(self, from);
    self->main(self->data);
    __builtin_trap();
}

void fiber_init_thread(struct fiber *fiber)
{
    *fiber = (struct fiber){0};
#ifdef UNDER_TSAN
    fiber->checker = __tsan_get_current_fiber();
#endif
}

void fiber_init(struct fiber *fiber, void *stack, size_t size, void (*main)(void *data), void *data)
{
    fiber_finish(fiber);
    *fiber = (struct fiber){.stack = stack, .size = size, .main = main, .data = data};
    fiber->context = make_fcontext((char *)stack + size, size, begin);
    fiber_memory_is_fresh(stack, size);
#ifdef UNDER_TSAN
    fiber->checker = __tsan_create_fiber(0);
#endif
}

void fiber_memory_is_fresh(void *at, size_t size)
{
    (void)at, (void)size;
#if UNDER_ASAN
    __asan_unpoison_memory_region(at, size);
#endif
}

void fiber_finish(struct fiber *fiber)
{
#ifdef UNDER_TSAN
    if (fiber->checker)
        __tsan_destroy_fiber(fiber->checker);
#endif
    *fiber = (struct fiber){0};
}
