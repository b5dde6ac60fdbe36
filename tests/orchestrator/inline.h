/* inlined.h - for tests of tasks that submit runs itself: kernels that say who ran them, and a submit
 * that tells whether the kernel ran meanwhile.
 *
 * With inline_ns of a million everything counts as brief that ran once and was timed, so no clock
 * decides. With the scheduler on a thread of its own nothing is ever run at once; the same tests see
 * that all else is the same.
 */
#ifndef PTO_TEST_INLINE_H
#define PTO_TEST_INLINE_H

#include "../runtime/rig.h"

#define EVERYTHING 1000000

/* What the kernel `act` does; its last argument says it. */
enum { NOTHING, FAIL, PEND, PEND_LATE, CANCEL, CANCEL_AND_SAY, SUBMIT, SPIN };

typedef struct bench {
    rig r;
    bool can; /* the scheduler is inline: what is brief runs at once */
    pthread_t caller;
    atomic_bool inside;        /* of submit */
    atomic_uint here, there;   /* kernels that ran inside of submit; elsewhere */
    _Atomic pto_task last;     /* the last that ran inside of submit */
    pto_task ignored;          /* of submits whose task nobody asks for */
    atomic_uint worker;        /* number of the last worker */
    atomic_uint spin_us;       /* how long `act` takes */
    pto_kernel act;            /* see above; the other arguments are not touched */
    pto_kernel fill;           /* argument k becomes the last one, and k */
    pto_kernel bump;           /* each byte of each argument is one more */
    pto_kernel copy;           /* argument 1 becomes argument 0 */
    pto_kernel is;             /* fails unless each byte of argument 0 is argument 1 */
    pto_kernel other;          /* `act` for cube workers */
    pto_arg kept[16];          /* by the last that said PEND */
    pto_task pending;          /* */
    atomic_uint pended;        /* how many said so */
    pto_status ending;         /* PEND_LATE: what another thread completes it with */
    pto_status refused, ended; /* what submit inside of a kernel, and that completion, gave */
} bench;

static inline void saw(const pto_call *call)
{
    bench *b = call->user;
    if (pthread_equal(pthread_self(), b->caller) && atomic_load(&b->inside)) {
        atomic_fetch_add(&b->here, 1);
        atomic_store(&b->last, call->task);
    } else {
        atomic_fetch_add(&b->there, 1);
    }
    atomic_store(&b->worker, call->worker);
}

static inline uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline void spin_ns(uint64_t ns)
{
    for (const uint64_t end = now_ns() + ns; now_ns() < end;) {
    }
}

/* Ends the task that the kernel `act` has just kept. */
static inline void *end_pending(void *argument)
{
    bench *b = argument;
    b->ended = pto_task_complete(b->r.rt, b->pending, b->ending);
    return NULL;
}

static inline pto_status act(const pto_call *call)
{
    bench *b = call->user;
    saw(call);
    const int64_t what = call->n_args ? call->args[call->n_args - 1].i64 : NOTHING;
    pthread_t thread;
    const uint32_t us = atomic_load(&b->spin_us);
    if (us) {
        spin_ns(us * UINT64_C(1000));
    }
    switch (what) {
    case FAIL:
        return pto_fail(PTO_KERNEL_FAILED, "bad luck");
    case PEND:
    case PEND_LATE:
        memcpy(b->kept, call->args, call->n_args * sizeof *b->kept);
        b->pending = call->task;
        if (what == PEND_LATE) {
            if (pthread_create(&thread, NULL, end_pending, b) || pthread_join(thread, NULL)) {
                return pto_fail(PTO_SYSTEM, "no thread");
            }
        }
        atomic_fetch_add(&b->pended, 1);
        return PTO_PENDING;
    case CANCEL:
        pto_cancel(call->rt);
        return PTO_OK;
    case CANCEL_AND_SAY:
        pto_cancel(call->rt);
        return PTO_CANCELLED;
    case SUBMIT:
        b->refused = pto_submit_task(call->rt, b->act, PTO_KERNEL_TYPE, NULL, 0, NULL);
        return PTO_OK;
    default:
        return PTO_OK;
    }
}

static inline pto_status fill(const pto_call *call)
{
    saw(call);
    for (uint32_t k = 0; k + 1 < call->n_args; k++) {
        const pto_arg *to = &call->args[k];
        for (int64_t i = 0, n = rig_numel(to); i < n; i++) {
            *rig_element(to, i) = (unsigned char)(call->args[call->n_args - 1].u64 + k);
        }
    }
    return PTO_OK;
}

static inline pto_status bump(const pto_call *call)
{
    saw(call);
    for (uint32_t k = 0; k < call->n_args; k++) {
        const pto_arg *to = &call->args[k];
        for (int64_t i = 0, n = rig_numel(to); i < n; i++) {
            ++*rig_element(to, i);
        }
    }
    return PTO_OK;
}

static inline pto_status copy(const pto_call *call)
{
    saw(call);
    return call->n_args ? rig_copy(call) : PTO_OK;
}

static inline pto_status is(const pto_call *call)
{
    saw(call);
    for (int64_t i = 0, n = call->n_args ? rig_numel(&call->args[0]) : 0; i < n; i++) {
        const unsigned char got = *rig_element(&call->args[0], i);
        if (got != (unsigned char)call->args[1].u64) {
            return pto_fail(PTO_CORRUPT, "byte %d is %d, not %d", (int)i, got,
                            (unsigned char)call->args[1].u64);
        }
    }
    return PTO_OK;
}

/* Guards, which a build for debugging has, keep tasks from being run at once: none here. */
static inline void start(bench *b, void **state, const pto_config *config)
{
    pto_config c = PTO_CONFIG_INIT;
    if (config) {
        c = *config;
    }
    if (!c.inline_ns) {
        c.inline_ns = EVERYTHING;
    }
    c.guard = PTO_NO_GUARD;
    memset(b, 0, sizeof *b);
    rig_start(&b->r, state, &c);
    b->can = ((const rig_setup *)*state)->place == PTO_PLACE_INLINE;
    b->caller = pthread_self();
    pto_runtime *rt = b->r.rt;
    expect_ok(pto_kernel_register(rt, "act", PTO_VECTOR, act, b, &b->act));
    expect_ok(pto_kernel_register(rt, "fill", PTO_VECTOR, fill, b, &b->fill));
    expect_ok(pto_kernel_register(rt, "bump", PTO_VECTOR, bump, b, &b->bump));
    expect_ok(pto_kernel_register(rt, "copy", PTO_VECTOR, copy, b, &b->copy));
    expect_ok(pto_kernel_register(rt, "is", PTO_VECTOR, is, b, &b->is));
    expect_ok(pto_kernel_register(rt, "other", PTO_CUBE, act, b, &b->other));
}

/* Everything is complete, and the map knows. */
static inline void settle(bench *b)
{
    expect_ok(pto_wait(b->r.rt));
    expect_ok(pto_check(b->r.rt));
}

/* Submits; says whether the task ran meanwhile, on this thread. (Others may have, that it would have had
 * to wait for.) */
static inline bool submit_from(bench *b, pto_task *task, pto_kernel kernel, const pto_param *params,
                               size_t n, int line, const char *file)
{
    atomic_store(&b->inside, true);
    *task = rig_submit(&b->r, kernel, params, n, file, line);
    atomic_store(&b->inside, false);
    return atomic_load(&b->last) == *task;
}

#define submit(...) submit_from(__VA_ARGS__, __FILE__)

static inline pto_task must_from(bench *b, bool inlined, pto_kernel kernel, const pto_param *params,
                                 size_t n, int line, const char *file)
{
    pto_task task;
    if (submit_from(b, &task, kernel, params, n, line, file) != inlined) {
        print_error("the task %s\n", inlined ? "was handed over" : "ran at once");
        _fail(file, line);
    }
    return task;
}

#define must(...) must_from(__VA_ARGS__, __FILE__)

#define PARAMS(...)                                                                                \
    (const pto_param[]){__VA_ARGS__}, sizeof((const pto_param[]){__VA_ARGS__}) / sizeof(pto_param)

/* Runs at once if anything can. */
#define INLINE(b, kernel, ...) must((b), (b)->can, (kernel), PARAMS(__VA_ARGS__), __LINE__)

/* Goes to the scheduler. */
#define OFFLOADED(b, kernel, ...) must((b), false, (kernel), PARAMS(__VA_ARGS__), __LINE__)

/* Either. */
#define ANYHOW(b, kernel, ...)                                                                     \
    (void)submit((b), &(b)->ignored, (kernel), PARAMS(__VA_ARGS__), __LINE__)

/* Complete now, if it ran at once. */
static inline void is_done(bench *b, pto_task task)
{
    if (b->can) {
        assert_true(rig_info(&b->r, task).state >= PTO_TASK_COMPLETED);
    } else {
        rig_until(&b->r, task, PTO_TASK_COMPLETED);
    }
}

/* For one at least; with the scheduler elsewhere, others may not be complete either. */
static inline void must_wait(bench *b, pto_task task)
{
    const pto_task_report report = rig_info(&b->r, task);
    assert_int_equal(report.state, PTO_TASK_PENDING);
    assert_true(report.fanin_left >= 1);
    assert_true(!b->can || report.fanin_left == 1);
}

/* Until the kernel has been timed. One that has failed or was pending is not run at once again before
 * that. */
static inline void learn(bench *b, pto_kernel kernel)
{
    pto_task task;
    bool inlined = false;
    for (int i = 0; i < (b->can ? 4000 : 40) && !inlined; i++) {
        inlined = submit(b, &task, kernel, NULL, 0, __LINE__);
        expect_ok(pto_wait_task(b->r.rt, task));
    }
    assert_true(inlined == b->can);
}

/* All kernels are brief, and the map knows these bytes, which become zero. */
static inline void learn_all(bench *b, const pto_tensor *t, int n)
{
    for (int i = 0; i < n; i++) {
        expect_ok(pto_submit(b->r.rt, b->fill, pto_output(&t[i]), pto_scalar(0)));
    }
    settle(b);
    const pto_kernel all[] = {b->act, b->fill, b->bump, b->copy, b->is};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        learn(b, all[i]);
    }
    settle(b);
}

enum { BYTES = 64, TILES = 20 };

typedef struct tiles {
    unsigned char byte[TILES][BYTES];
    pto_tensor t[TILES];
} tiles;

static inline void start_with(bench *b, tiles *x, void **state, const pto_config *config)
{
    start(b, state, config);
    memset(x, 0, sizeof *x);
    for (int i = 0; i < TILES; i++) {
        x->t[i] = rig_bytes(&b->r, x->byte[i], BYTES);
    }
    learn_all(b, x->t, TILES);
}

static inline void is_byte(const unsigned char *at, unsigned char value, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(at[i], value);
    }
}

#endif /* PTO_TEST_INLINE_H */
