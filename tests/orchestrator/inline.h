/* inline.h - for tests of inline execution: kernels that record which thread ran them, and a submit
 * that reports whether it ran the task itself.
 *
 * With inline_ns of a million every kernel counts as short once it was timed, so no clock decides.
 * With the scheduler on its own thread no task runs inline; then the same tests check that the
 * results do not differ.
 */
#ifndef PTO_TEST_INLINE_H
#define PTO_TEST_INLINE_H

#include "../runtime/rig.h"

#define EVERYTHING 1000000

/* What the kernel `act` does, by its last argument. */
enum { NOTHING, FAIL, PEND, PEND_LATE, CANCEL, CANCEL_AND_SAY, SUBMIT, SPIN };

typedef struct bench {
    rig r;
    bool can; /* the scheduler is inline: short tasks run inline */
    pthread_t caller;
    atomic_bool inside;        /* submit runs */
    atomic_uint here, there;   /* kernels that ran inside submit; elsewhere */
    _Atomic pto_task last;     /* the last task that ran inside submit */
    pto_task ignored;          /* task of a submit whose result is not used */
    atomic_uint worker;        /* index of the last worker */
    atomic_uint spin_us;       /* how long `act` takes */
    pto_kernel act;            /* see above; the other arguments are not used */
    pto_kernel fill;           /* argument k becomes the last argument plus k */
    pto_kernel bump;           /* increments each byte of each argument */
    pto_kernel copy;           /* copies argument 0 to argument 1 */
    pto_kernel is;             /* fails unless each byte of argument 0 equals argument 1 */
    pto_kernel other;          /* `act` for cube workers */
    pto_arg kept[64];          /* arguments of the last PEND */
    pto_task pending;          /* its task */
    atomic_uint pended;        /* number of PENDs */
    pto_status ending;         /* PEND_LATE: the status that another thread completes it with */
    pto_status refused, ended; /* result of submit inside a kernel, and of that completion */
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

/* Completes the task that `act` has just left pending. */
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

/* Without guards, which debug builds have: with guards no task runs inline. */
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

/* Waits until all tasks are complete, and checks the runtime. */
static inline void finish(bench *b)
{
    expect_ok(pto_wait(b->r.rt));
    expect_ok(pto_check(b->r.rt));
}

/* Submits a task. Returns whether submit ran it on this thread. (It may also have run tasks that
 * this one would have waited for.) */
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
        print_error("the task %s\n", inlined ? "was offloaded" : "ran inline");
        _fail(file, line);
    }
    return task;
}

#define must(...) must_from(__VA_ARGS__, __FILE__)

#define PARAMS(...)                                                                                \
    (const pto_param[]){__VA_ARGS__}, sizeof((const pto_param[]){__VA_ARGS__}) / sizeof(pto_param)

/* The task must run inline, if any can. */
#define INLINE(b, kernel, ...) must((b), (b)->can, (kernel), PARAMS(__VA_ARGS__), __LINE__)

/* The task must be offloaded. */
#define OFFLOADED(b, kernel, ...) must((b), false, (kernel), PARAMS(__VA_ARGS__), __LINE__)

/* Either of the two. */
#define ANYHOW(b, kernel, ...)                                                                     \
    (void)submit((b), &(b)->ignored, (kernel), PARAMS(__VA_ARGS__), __LINE__)

/* The task is complete now, if it ran inline. */
static inline void is_done(bench *b, pto_task task)
{
    if (b->can) {
        assert_true(rig_info(&b->r, task).state >= PTO_TASK_COMPLETED);
    } else {
        rig_until(&b->r, task, PTO_TASK_COMPLETED);
    }
}

/* The task waits for exactly one other; with the scheduler on a thread, perhaps for more. */
static inline void must_wait(bench *b, pto_task task)
{
    const pto_task_report report = rig_info(&b->r, task);
    assert_int_equal(report.state, PTO_TASK_PENDING);
    assert_true(report.fanin_left >= 1);
    assert_true(!b->can || report.fanin_left == 1);
}

/* Runs the kernel until it has been timed. A kernel that failed or was pending does not run inline
 * before that. */
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

/* Afterwards all kernels are short, and the map knows these tensors, which become zero. */
static inline void learn_all(bench *b, const pto_tensor *t, int n)
{
    for (int i = 0; i < n; i++) {
        expect_ok(pto_submit(b->r.rt, b->fill, pto_output(&t[i]), pto_scalar(0)));
    }
    finish(b);
    const pto_kernel all[] = {b->act, b->fill, b->bump, b->copy, b->is};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        learn(b, all[i]);
    }
    finish(b);
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
