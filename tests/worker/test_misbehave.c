/* test_misbehave.c - kernels that misbehave: they fail, do not return, complete their task twice or
 * never, return nonsense, corrupt their arguments, or call the runtime. Only their own task and its
 * consumers are affected. */
#include "../runtime/rig.h"

/* Everything else still works. */
static void expect_usable(rig *r)
{
    unsigned char *bytes = rig_memory(r, 2);
    pto_tensor x = rig_bytes(r, bytes, 1), y = rig_bytes(r, bytes + 1, 1);
    RIG_SUBMIT(r, r->fill, pto_output(&x), pto_scalar(0x5a));
    RIG_SUBMIT(r, r->copy, pto_input(&x), pto_output(&y));
    expect_ok(pto_wait(r->rt));
    assert_int_equal(bytes[1], 0x5a);
    expect_ok(pto_check(r->rt));
}

static pto_kernel know(rig *r, const char *name, pto_kernel_fn fn, void *user)
{
    pto_kernel kernel = 0;
    expect_ok(pto_kernel_register(r->rt, name, PTO_VECTOR, fn, user, &kernel));
    return kernel;
}

/* ---- Nonsense ------------------------------------------------------------------------------- */

static pto_status returns_its_user(const pto_call *call)
{
    return (pto_status) * (const int *)call->user;
}

/* Any status except PTO_OK and PTO_PENDING is a failure, also unknown numbers. */
static void test_nonsense_is_a_failure(void **state)
{
    static const int nonsense[] = {-1, 4711, INT32_MAX, INT32_MIN, 256, PTO_STALLED, PTO_CANCELLED};
    rig r;
    rig_start(&r, state, NULL);
    char *memory = rig_memory(&r, 8);
    pto_tensor x = rig_bytes(&r, memory, 8);
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
        bool failed = false;
        pto_failure failure;
        int *user = rig_memory(&r, sizeof *user);
        *user = nonsense[i];
        pto_kernel kernel = know(&r, "nonsense", returns_its_user, user);
        RIG_SUBMIT(&r, kernel, pto_output(&x));
        char number[16]; /* an unknown status keeps its number */
        const char *name = pto_status_name((pto_status)nonsense[i]);
        snprintf(number, sizeof number, "status %d", nonsense[i]);
        expect_fail(pto_wait(r.rt), PTO_TASK_FAILED, "'nonsense'", "test_misbehave.c",
                    strcmp(name, "PTO_UNKNOWN_STATUS") ? name : number, "did not call pto_fail");
        expect_ok(pto_get_failure(r.rt, &failed, &failure));
        assert_true(failed && (int)failure.status == nonsense[i]);
        expect_ok(pto_clear_error(r.rt));
    }
    expect_usable(&r);
    rig_stop(&r);
}

/* ---- Very long kernels ---------------------------------------------------------------------- */

typedef struct watchman {
    rig *r;
    const char *kernel; /* to be the oldest */
    pto_task task;      /* to end; 0: opens the gate */
    pto_status end_with;
    bool cancel;
    atomic_bool returned; /* the orchestrating thread has come back */
    bool early;           /* it had before it should */
    bool named;
    pthread_t thread;
} watchman;

/* Another thread: it finds the oldest task in the statistics, then lets it end. */
static void *watch(void *argument)
{
    watchman *w = argument;
    pto_runtime_stats stats;
    const uint64_t deadline = rig_now_ms() + RIG_PATIENCE_MS;
    do {
        PTO_IGNORE(pto_stats(w->r->rt, &stats));
        w->named = stats.oldest_kernel && strcmp(stats.oldest_kernel, w->kernel) == 0 &&
                   (w->task ? stats.pending == 1 && stats.oldest == w->task
                            : stats.level[0].ring[PTO_RING_TASKS].waits > 0);
    } while (!w->named && rig_now_ms() < deadline);
    if (w->cancel) {
        pto_cancel(w->r->rt); /* it does not end running tasks */
        PTO_IGNORE(pto_stats(w->r->rt, &stats));
        w->named = w->named && stats.pending == 1;
    }
    w->early = atomic_load(&w->returned);
    if (w->task) {
        PTO_IGNORE(pto_task_complete(w->r->rt, w->task, w->end_with));
    } else {
        rig_open(w->r);
    }
    return NULL;
}

static void watch_begin(watchman *w)
{
    atomic_init(&w->returned, false);
    assert_int_equal(pthread_create(&w->thread, NULL, watch, w), 0);
}

static void watch_end(watchman *w)
{
    assert_int_equal(pthread_join(w->thread, NULL), 0);
    assert_true(w->named);
    assert_false(w->early);
}

/* A kernel that does not return holds its worker and, as the oldest task, the ring. This is no
 * stall: submit waits, and the statistics name the task. */
static void test_a_kernel_that_takes_its_time(void **state)
{
    rig r;
    pto_config config = PTO_CONFIG_INIT;
    config.ring_tasks = 8;
    config.workers = 2;
    config.caller_types = PTO_NO_TYPES;
    rig_start(&r, state, &config);
    watchman w = {.r = &r, .kernel = "gate"};
    RIG_SUBMIT_BARE(&r, r.gate);
    rig_at_gate(&r, 1);
    watch_begin(&w);
    for (int i = 0; i < 8; i++) {
        RIG_SUBMIT_BARE(&r, r.quick); /* the last of them has to wait */
    }
    atomic_store(&w.returned, true);
    watch_end(&w);
    expect_ok(pto_wait(r.rt));
    assert_true(rig_ring(&r, 0, PTO_RING_TASKS).waits > 0);
    expect_usable(&r);
    rig_stop(&r);
}

/* pto_wait, pto_wait_task and destroy wait for a pending task, however long it takes. Neither
 * destroy nor pto_cancel ends a task that has started. Any thread can find the task and complete
 * it. */
typedef enum waiting { WAIT, WAIT_TASK, CLEAR, DESTROY, DESTROY_CANCEL, WAITINGS } waiting;

static pto_status wait_as(rig *r, waiting how, pto_task task)
{
    switch (how) {
    case WAIT:
        return pto_wait(r->rt);
    case WAIT_TASK:
        return pto_wait_task(r->rt, task);
    case CLEAR:
        return pto_clear_error(r->rt);
    case DESTROY:
        return pto_runtime_destroy(&r->rt, PTO_WAIT);
    default:
        return pto_runtime_destroy(&r->rt, PTO_CANCEL);
    }
}

static void test_a_task_that_is_never_completed(void **state)
{
    for (int how = 0; how < WAITINGS; how++) {
        for (int cancel = 0; cancel < 2; cancel++) {
            rig r;
            rig_start(&r, state, NULL);
            pto_task task = RIG_SUBMIT_BARE(&r, r.hold);
            rig_until(&r, task, PTO_TASK_RUNNING); /* a cancel would skip it */
            rig same = r;                          /* destroy sets the handle in `r` to NULL */
            watchman w = {.r = &same,
                          .kernel = "hold",
                          .task = task,
                          .cancel = cancel,
                          .end_with = cancel ? PTO_CANCELLED : PTO_OK};
            watch_begin(&w);
            pto_status s = wait_as(&r, (waiting)how, w.task);
            atomic_store(&w.returned, true);
            watch_end(&w);
            const bool heard = how != CLEAR && how != DESTROY_CANCEL;
            assert_string_equal(pto_status_name(s), cancel && heard ? "PTO_CANCELLED" : "PTO_OK");
            if (r.rt) {
                expect_ok(pto_clear_error(r.rt));
                assert_int_equal(rig_stats(&r).pending, 0);
                expect_usable(&r);
                rig_stop(&r);
            } else {
                rig_forget_gate(&r);
            }
        }
    }
}

/* ---- Once too often ------------------------------------------------------------------------- */

static pto_status ends_and_returns(const pto_call *call)
{
    pto_status first = (pto_status)call->args[0].i64, second = (pto_status)call->args[1].i64;
    if (pto_task_complete(call->rt, call->task, first) != PTO_OK) {
        return PTO_CORRUPT;
    }
    if (pto_task_complete(call->rt, call->task, PTO_OK) != PTO_BAD_TASK) {
        return PTO_CORRUPT;
    }
    return second;
}

/* Completed by pto_task_complete and by a return: it completes once, and no failure is lost. */
static void test_ended_by_both(void **state)
{
    static const struct {
        pto_status first, second;
        const char *is;
    } cases[] = {{PTO_OK, PTO_OK, NULL},
                 {PTO_OK, PTO_BAD_INDEX, "PTO_BAD_INDEX"},
                 {PTO_BAD_STEP, PTO_OK, "PTO_BAD_STEP"},
                 {PTO_BAD_STEP, PTO_BAD_INDEX, "PTO_BAD_INDEX"},
                 {PTO_BAD_STEP, PTO_PENDING, "PTO_BAD_STEP"}};
    rig r;
    rig_start(&r, state, NULL);
    char *memory = rig_memory(&r, 8);
    pto_tensor x = rig_bytes(&r, memory, 8);
    pto_kernel kernel = know(&r, "both", ends_and_returns, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint64_t before = rig_stats(&r).completed;
        RIG_SUBMIT(&r, kernel, pto_scalar((int64_t)cases[i].first),
                   pto_scalar((int64_t)cases[i].second), pto_output(&x));
        pto_task next = RIG_SUBMIT(&r, r.quick, pto_input(&x));
        if (cases[i].is) {
            expect_fail(pto_wait(r.rt), PTO_TASK_FAILED, "'both'", cases[i].is);
            assert_int_equal(pto_wait_task(r.rt, next), PTO_TASK_FAILED);
        } else {
            expect_ok(pto_wait(r.rt));
        }
        assert_int_equal(rig_stats(&r).completed, before + 2);
        expect_ok(pto_clear_error(r.rt));
    }
    expect_usable(&r);
    rig_stop(&r);
}

typedef struct meddler {
    pto_task others[3]; /* that it tries to end */
    pto_status said[3];
} meddler;

static pto_status ends_others(const pto_call *call)
{
    meddler *m = call->user;
    for (int i = 0; i < 3; i++) {
        m->said[i] = pto_task_complete(call->rt, m->others[i], PTO_KERNEL_FAILED);
    }
    return PTO_OK;
}

/* Other tasks: one that is complete, one that has not started, and one that never existed. */
static void test_ending_what_is_not_pending(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    meddler *m = rig_memory(&r, sizeof *m);
    char *memory = rig_memory(&r, 8);
    pto_tensor x = rig_bytes(&r, memory, 8);
    pto_kernel kernel = know(&r, "meddle", ends_others, m);
    m->others[0] = RIG_SUBMIT_BARE(&r, r.quick);
    expect_ok(pto_wait(r.rt));
    pto_task held = RIG_SUBMIT(&r, r.hold, pto_output(&x));
    m->others[1] = RIG_SUBMIT(&r, r.quick, pto_input(&x));
    m->others[2] = m->others[1] + 8 * 100;
    pto_task task = RIG_SUBMIT_BARE(&r, kernel);
    expect_ok(pto_wait_task(r.rt, task));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(m->said[i], PTO_BAD_TASK);
    }
    rig_finish(&r, held, PTO_OK);
    expect_ok(pto_wait(r.rt));
    expect_usable(&r);
    rig_stop(&r);
}

/* ---- Arguments ------------------------------------------------------------------------------ */

static pto_status spoils_its_arguments(const pto_call *call)
{
    memset((void *)(uintptr_t)call->args, 0xff, call->n_args * sizeof *call->args);
    return PTO_OK;
}

/* The arguments of a kernel are its own copy: changes affect no other task, nor the runtime. */
static void test_spoilt_arguments(void **state)
{
    rig r;
    pto_config config = PTO_CONFIG_INIT;
    config.workers = 1;
    config.caller_types = PTO_NO_TYPES; /* the same worker for all */
    rig_start(&r, state, &config);
    unsigned char *memory = rig_memory(&r, 64);
    pto_kernel kernel = know(&r, "spoil", spoils_its_arguments, NULL);
    pto_tensor x = rig_bytes(&r, memory, sizeof(unsigned char[64]));
    expect_ok(pto_scope_begin(r.rt));
    for (int i = 0; i < 50; i++) {
        pto_tensor y = rig_temp(&r, 64);
        RIG_SUBMIT(&r, kernel, pto_inout(&x), pto_scalar(i), pto_output(&y));
        RIG_SUBMIT(&r, r.fill, pto_output(&x), pto_scalar(i));
        RIG_SUBMIT(&r, r.copy, pto_input(&x), pto_inout(&y));
        unsigned char copy[64];
        expect_ok(pto_read(r.rt, &y, copy, sizeof copy));
        assert_int_equal(copy[63], i);
    }
    expect_ok(pto_scope_end(r.rt));
    expect_usable(&r);
    rig_stop(&r);
}

/* ---- Calls ---------------------------------------------------------------------------------- */

typedef struct caller {
    rig *r;
    pto_tensor x;
    const char *refused_not; /* the first call that was not refused */
    char words[256];
} caller;

/* All calls that only the orchestrating thread may make. */
static pto_status calls_the_runtime(const pto_call *call)
{
    caller *c = call->user;
    pto_runtime *rt = call->rt;
    pto_tensor t;
    pto_buffer buffer;
    pto_kernel kernel;
    pto_task_report report;
    pto_failure failure;
    bool failed;
    void *address;
    char byte;
#define REFUSED(function)                                                                          \
    do {                                                                                           \
        PTO_IGNORE(pto_fail(PTO_CORRUPT, "stale"));                                                \
        if ((function) != PTO_WRONG_THREAD || !strstr(pto_error_detail(), "called ")) {            \
            c->refused_not = #function;                                                            \
            return PTO_OK;                                                                         \
        }                                                                                          \
        snprintf(c->words, sizeof c->words, "%s", pto_error_detail());                             \
    } while (0)
    REFUSED(pto_submit(rt, c->r->quick, pto_input(&c->x)));
    REFUSED(pto_kernel_register(rt, "k", PTO_VECTOR, rig_quick, NULL, &kernel));
    REFUSED(pto_kernel_declare(rt, c->r->quick, ""));
    REFUSED(pto_scope_begin(rt));
    REFUSED(pto_scope_end(rt));
    REFUSED(pto_create_buffer(rt, 8, &buffer));
    REFUSED(pto_temp(rt, PTO_UINT8, 1, DIMS(8), &t));
    REFUSED(pto_alloc(rt, PTO_UINT8, 1, DIMS(8), &t));
    REFUSED(pto_get_buffer_addr(rt, &c->x, &address));
    REFUSED(pto_task_get_output(rt, call->task, 0, &t));
    REFUSED(pto_wait(rt));
    REFUSED(pto_wait_task(rt, call->task));
    REFUSED(pto_read(rt, &c->x, &byte, 1));
    REFUSED(pto_write(rt, &c->x, &byte, 1));
    REFUSED(pto_get_failure(rt, &failed, &failure));
    REFUSED(pto_clear_error(rt));
    REFUSED(pto_task_info(rt, call->task, &report));
    REFUSED(pto_check(rt));
    REFUSED(pto_watch(rt, NULL));
    pto_runtime *same = rt;
    REFUSED(pto_runtime_destroy(&same, PTO_CANCEL));
#undef REFUSED
    if (pto_last_task(rt) != 0) {
        c->refused_not = "pto_last_task";
    }
    return PTO_OK;
}

static void test_calls_from_a_kernel(void **state)
{
    for (int on_caller = 0; on_caller < 2; on_caller++) {
        rig r;
        char memory[1];
        pto_config config = PTO_CONFIG_INIT;
        config.workers = on_caller ? PTO_NO_WORKERS : 1;
        config.caller_types = on_caller ? PTO_ALL_TYPES : PTO_NO_TYPES;
        rig_start(&r, state, &config);
        caller c = {.r = &r, .x = rig_bytes(&r, memory, 1)};
        pto_kernel kernel = know(&r, "calls", calls_the_runtime, &c);
        RIG_SUBMIT_BARE(&r, kernel);
        expect_ok(pto_wait(r.rt));
        if (c.refused_not) {
            fail_msg("not refused: %s: %s", c.refused_not, pto_error_detail());
        }
        assert_non_null(strstr(c.words, on_caller ? "inside of a kernel" : "another thread"));
        assert_int_equal(pto_get_scope_depth(r.rt), 0);
        assert_int_equal(rig_stats(&r).submitted, 1);
        expect_usable(&r);
        rig_stop(&r);
    }
}

int main(void)
{
    const rig_case cases[] = {
        RIG_CASE(test_nonsense_is_a_failure),
        RIG_CASE(test_a_kernel_that_takes_its_time),
        RIG_CASE(test_a_task_that_is_never_completed),
        RIG_CASE(test_ended_by_both),
        RIG_CASE(test_ending_what_is_not_pending),
        RIG_CASE(test_spoilt_arguments),
        RIG_CASE_ONE_PROCESS(
            test_calls_from_a_kernel,
            "the handle of a worker is good for few calls: worker.process tests them"),
    };
    return rig_run("misbehave", cases, sizeof cases / sizeof *cases);
}
