/* threads.c - threads of a world: coroutines on one system thread. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "world.h"

enum { MAX_STEPS = 20000, STACK_BYTES = 256 << 10, GUARD_BYTES = 4096 };

world here;

/* A context starts a coroutine; later switches are jumps, without system calls. */
static struct {
    char *stacks;
    bool begun[WORLD_THREADS];
    jmp_buf at[WORLD_THREADS];
    ucontext_t first[WORLD_THREADS];
    jmp_buf root; /* the code that starts schedules, to which they return */
} c;

void threads_open(void)
{
    const size_t each = STACK_BYTES + GUARD_BYTES;
    if (!c.stacks) {
        c.stacks = mmap(NULL, WORLD_THREADS * each, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        for (uint32_t t = 0; t < WORLD_THREADS; t++) {
            mprotect(c.stacks + t * each, GUARD_BYTES, PROT_NONE);
        }
    }
    memset(&here, 0, sizeof here);
    here.n_threads = 1; /* thread 0 exists when a schedule begins */
    world_name_thread(0, "main");
}

void world_name_thread(uint32_t thread, const char *name)
{
    snprintf(here.threads[thread].name, sizeof here.threads[thread].name, "%s", name);
}

uint32_t threads_add(void (*run)(void *), void *context)
{
    const uint32_t t = here.n_threads;
    if (t == WORLD_THREADS) {
        world_fail(FAIL_MODEL, "more than %d threads", WORLD_THREADS);
        return 0;
    }
    here.n_threads++;
    fiber *made = &here.threads[t];
    made->run = run;
    made->context = context;
    made->state = THREAD_READY;
    made->yielded = made->naps = false;
    made->n_ops = made->n_shared = made->looks = 0;
    made->looks_at = NULL;
    c.begun[t] = false;
    if (here.active) {
        made->clock = threads_now()->clock;
        threads_now()->clock.at[here.current]++;
    } else {
        memset(&made->clock, 0, sizeof made->clock);
    }
    memset(&made->shown, 0, sizeof made->shown);
    memset(&made->pending, 0, sizeof made->pending);
    memset(&made->fenced, 0, sizeof made->fenced);
    made->clock.at[t]++;
    return t;
}

uint32_t world_thread(const char *name, void (*run)(void *), void *context)
{
    const uint32_t t = threads_add(run, context);
    world_name_thread(t, name);
    return t;
}

void world_join(uint32_t thread)
{
    model_join(thread);
}

void world_kill(uint32_t thread)
{
    model_kill(thread);
}

void threads_end(uint32_t thread)
{
    here.threads[thread].state = THREAD_DONE;
    for (uint32_t t = 0; t < here.n_threads; t++) {
        if (here.threads[t].state == THREAD_JOIN && here.threads[t].joins == thread) {
            here.threads[t].state = THREAD_READY;
        }
    }
}

/* ---- Switching ---- */

static void begin(void)
{
    fiber *me = threads_now();
    me->run(me->context);
    threads_end(here.current);
    threads_block(THREAD_DONE, NULL);
}

static _Noreturn void resume(uint32_t t)
{
    here.current = t;
    if (c.begun[t]) {
        _longjmp(c.at[t], 1);
    }
    c.begun[t] = true;
    ucontext_t *first = &c.first[t];
    getcontext(first);
    first->uc_stack.ss_sp = c.stacks + t * (size_t)(STACK_BYTES + GUARD_BYTES) + GUARD_BYTES;
    first->uc_stack.ss_size = STACK_BYTES;
    first->uc_link = NULL;
    makecontext(first, begin, 0);
    setcontext(first);
    __builtin_unreachable();
}

static void switch_to(uint32_t t)
{
    if (t != here.current && _setjmp(c.at[here.current]) == 0) {
        resume(t);
    }
}

static bool end_naps(void)
{
    bool any = false;
    /* If nothing else can happen they may stay asleep. */
    for (uint32_t t = 0; t < here.n_threads && here.threads[0].state != THREAD_DONE; t++) {
        fiber *it = &here.threads[t];
        if (it->state == THREAD_ASLEEP && it->naps) {
            it->state = THREAD_READY;
            any = true;
        }
    }
    return any;
}

uint32_t threads_candidates(uint32_t *list)
{
    for (uint32_t from = here.current;;) {
        uint32_t n = 0;
        bool yielded = false;
        for (uint32_t i = 0; i < here.n_threads; i++) { /* round robin from the current thread on */
            const uint32_t t = (from + i) % here.n_threads;
            if (here.threads[t].state == THREAD_READY) {
                yielded |= here.threads[t].yielded;
                if (!here.threads[t].yielded) {
                    list[n++] = t;
                }
            }
        }
        const bool naps = n == 0 && end_naps();
        if (n || (!yielded && !naps)) {
            return n;
        }
        from += naps; /* so that a thread that only naps lets the others run */
        threads_stir(NULL);
    }
}

static _Noreturn void hang(void)
{
    static const char *const waits[] = {"is ready", "sleeps on", "waits for the lock", "joins", ""};
    char text[400] = "";
    size_t used = 0;
    for (uint32_t t = 0; t < here.n_threads; t++) {
        const fiber *it = &here.threads[t];
        if (it->state != THREAD_DONE && used < sizeof text) {
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s %s %s",
                                     used ? "; " : "", it->name, waits[it->state],
                                     it->state == THREAD_JOIN ? here.threads[it->joins].name
                                                              : name_at(it->waits_for));
        }
    }
    world_fail(FAIL_HANG, "nobody can go on: %s", text);
}

static void pass_on(void)
{
    uint32_t list[WORLD_THREADS];
    const uint32_t n = threads_candidates(list);
    if (n == 0) {
        if (here.threads[0].state == THREAD_DONE) {
            threads_leave(WORLD_GOOD);
        }
        hang();
    }
    const uint32_t next = search_thread(list, n);
    here.threads[next].state = THREAD_READY; /* a sleeper may be chosen, too */
    switch_to(next);
}

void threads_point(bool point)
{
    if (++here.steps > MAX_STEPS) {
        world_fail(FAIL_ENDLESS, "%d steps and no end", MAX_STEPS);
    }
    if (point) {
        pass_on();
    }
}

void threads_block(thread_state state, const void *waits_for)
{
    fiber *me = threads_now();
    me->state = state;
    me->waits_for = waits_for;
    here.steps++; /* each choice has its own number */
    pass_on();
}

void threads_stir(const void *address)
{
    for (uint32_t t = 0; t < here.n_threads; t++) {
        fiber *it = &here.threads[t];
        if (!address || it->looks_at == address) {
            it->yielded = false;
            it->looks = 0;
        }
    }
}

/* ---- A schedule ---- */

world_ending threads_run(void (*run)(void *), void *context)
{
    const uint32_t others = here.n_first;
    here.run++;
    here.steps = 0;
    here.trace = here.order = 0;
    here.why[0] = 0;
    here.n_threads = 0;
    threads_add(run, context);
    for (uint32_t t = 1; t < others; t++) {
        threads_add(here.threads[t].run, here.threads[t].context);
    }
    here.current = 0;
    if (_setjmp(c.root) == 0) {
        here.active = true;
        resume(0);
    }
    return here.ending;
}

_Noreturn void threads_leave(world_ending how)
{
    here.active = false;
    here.ending = how;
    _longjmp(c.root, 1);
}

_Noreturn void world_fail(world_ending how, const char *format, ...)
{
    va_list args;
    const bool active = here.active;
    here.active = false;
    va_start(args, format);
    vsnprintf(here.why, sizeof here.why, format, args);
    va_end(args);
    if (!active) {
        fprintf(stderr, "explore: before the first schedule: %s\n", here.why);
        _Exit(2);
    }
    threads_leave(how);
}
