#include "daemon/executor/host/fiber.h"

#include <stdbool.h>

#include "daemon/sandbox/under_asan.h"

#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif

/* ---- Boost.Context's C interface ---- */

struct transfer {
    void *context; /* of whoever switched here */
    void *data;
};

struct transfer jump_fcontext(void *to, void *data);
void *make_fcontext(void *stack_top, size_t size, void (*main)(struct transfer from));

/* ---- the sanitizers', which must know where the stack is ---- */

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

static void before_switch(struct fiber *from, struct fiber *to)
{
    (void)from, (void)to;
#if UNDER_ASAN
    __sanitizer_start_switch_fiber(&from->fake_stack, to->stack, to->size);
#endif
#ifdef UNDER_TSAN
    __tsan_switch_to_fiber(to->checker, 0);
#endif
}

static void after_switch(struct fiber *here, struct fiber *from)
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

/* ---- switching ---- */

/* What travels with a jump: who leaves, and who is entered. */
struct passage {
    struct fiber *from, *to;
};

static void begin(struct transfer arrival)
{
    struct passage passage = *(struct passage *)arrival.data;
    passage.from->context = arrival.context;
    after_switch(passage.to, passage.from);
    passage.to->main(passage.to->data);
    __builtin_trap();
}

void fiber_switch(struct fiber *from, struct fiber *to)
{
    struct passage passage = {from, to};
    void *context = to->context;
    to->context = NULL;
    before_switch(from, to);
    struct transfer arrival = jump_fcontext(context, &passage);
    /* Back: somebody has switched to `from`, and lies on its own stack, so that its passage can be read. */
    struct passage back = *(struct passage *)arrival.data;
    back.from->context = arrival.context;
    after_switch(from, back.from);
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
    void *checker = fiber->checker;
    *fiber = (struct fiber){.stack = stack, .size = size, .main = main, .data = data, .checker = checker};
    fiber->context = make_fcontext((char *)stack + size, size, begin);
#if UNDER_ASAN
    __asan_unpoison_memory_region(stack, size);
#endif
#ifdef UNDER_TSAN
    if (checker)
        __tsan_destroy_fiber(checker);
    fiber->checker = __tsan_create_fiber(0);
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
