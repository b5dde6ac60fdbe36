/* test_watch.c - a watcher sees the submit, start and end of every task, in this order. */
#include "../runtime/rig.h"
#include "base/atomic.h"

enum { TASKS = 200 };

typedef struct heard {
    pto_task submitted[TASKS + 8];
    const char *kernel[TASKS + 8];
    size_t n_params[TASKS + 8];
    int n;
    ptoi_counter started, ended, failed, early;
    ptoi_a32 is_submitted[TASKS + 8];
} heard;

static void submitted(void *user, pto_task task, const char *kernel, const pto_param *params,
                      size_t n)
{
    heard *h = user;
    assert_true(h->n < TASKS + 8);
    assert_true(n == 0 || params != NULL);
    h->submitted[h->n] = task;
    h->kernel[h->n] = kernel;
    h->n_params[h->n] = n;
    ptoi_release32(&h->is_submitted[(task >> 3) % (TASKS + 8)], 1);
    h->n++;
}

static void started(void *user, pto_task task, uint32_t worker)
{
    heard *h = user;
    (void)worker;
    ptoi_counter_add(&h->early, !ptoi_acquire32(&h->is_submitted[(task >> 3) % (TASKS + 8)]));
    ptoi_counter_add(&h->started, 1);
}

static void ended(void *user, pto_task task, uint32_t worker, pto_status status)
{
    heard *h = user;
    (void)task;
    (void)worker;
    ptoi_counter_add(&h->failed, status != PTO_OK);
    ptoi_counter_add(&h->ended, 1);
}

static void test_hears_of_every_task(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    char *bytes = rig_memory(&r, 8);
    static heard h;
    memset(&h, 0, sizeof h);
    pto_watcher watcher = {.size = sizeof watcher,
                           .user = &h,
                           .submitted = submitted,
                           .started = started,
                           .ended = ended};
    pto_tensor x = rig_bytes(&r, bytes, 8);
    expect_ok(pto_watch(r.rt, &watcher));
    pto_task last = 0;
    for (int i = 0; i < TASKS; i++) {
        last = RIG_SUBMIT(&r, r.quick, pto_inout(&x), pto_scalar(i));
    }
    assert_int_equal(h.n, TASKS);
    assert_int_equal(h.submitted[TASKS - 1], last);
    assert_string_equal(h.kernel[0], "quick");
    assert_int_equal(h.n_params[0], 2);
    /* The watcher is removed when all of these have ended. */
    expect_ok(pto_watch(r.rt, NULL));
    assert_int_equal(ptoi_counter_read(&h.started), TASKS);
    assert_int_equal(ptoi_counter_read(&h.ended), TASKS);
    assert_int_equal(ptoi_counter_read(&h.failed), 0);
    assert_int_equal(ptoi_counter_read(&h.early), 0);
    RIG_SUBMIT(&r, r.quick, pto_inout(&x));
    expect_ok(pto_wait(r.rt));
    assert_int_equal(h.n, TASKS);

    /* Any of the functions may be missing. */
    expect_ok(pto_watch(r.rt, &(pto_watcher){.size = sizeof watcher}));
    RIG_SUBMIT(&r, r.quick, pto_inout(&x));
    expect_ok(pto_wait(r.rt));
    assert_int_equal(pto_watch(r.rt, &(pto_watcher){.size = 3}), PTO_BAD_CONFIG);
    rig_stop(&r);
}

/* A watcher that does what it must not: it calls the runtime. */
typedef struct meddler {
    rig *r;
    const pto_tensor *x;
    uint32_t calls[3], refused[3]; /* by callback; one worker and one task at a time */
    bool last;                     /* pto_last_task was not 0 */
} meddler;

static void meddle(meddler *m, int callback)
{
    char byte;
    m->calls[callback]++;
    m->refused[callback] += pto_submit(m->r->rt, m->r->quick, pto_inout(m->x)) ==
                                PTO_WRONG_THREAD &&
                            pto_wait(m->r->rt) == PTO_WRONG_THREAD &&
                            pto_read(m->r->rt, m->x, &byte, 1) == PTO_WRONG_THREAD &&
                            pto_scope_begin(m->r->rt) == PTO_WRONG_THREAD &&
                            pto_watch(m->r->rt, NULL) == PTO_WRONG_THREAD;
    m->last |= pto_last_task(m->r->rt) != 0;
}

static void meddle_submitted(void *user, pto_task task, const char *kernel, const pto_param *params,
                             size_t n)
{
    (void)task, (void)kernel, (void)params, (void)n;
    meddle(user, 0);
}

static void meddle_started(void *user, pto_task task, uint32_t worker)
{
    (void)task, (void)worker;
    meddle(user, 1);
}

static void meddle_ended(void *user, pto_task task, uint32_t worker, pto_status status)
{
    (void)task, (void)worker, (void)status;
    meddle(user, 2);
}

/* Tasks of both kinds: offloaded and inline, new tensors and known ones. */
static void test_must_not_orchestrate(void **state)
{
    for (int inline_ns = 0; inline_ns < 2; inline_ns++) {
        rig r;
        char bytes[8];
        pto_config config = PTO_CONFIG_INIT;
        config.inline_ns = inline_ns ? 1000000 : PTO_NO_INLINE;
        config.guard = PTO_NO_GUARD; /* with guards there is no inline execution */
        rig_start(&r, state, &config);
        pto_tensor x = rig_bytes(&r, bytes, 1);
        meddler m = {.r = &r, .x = &x};
        pto_watcher watcher = {.size = sizeof watcher,
                               .user = &m,
                               .submitted = meddle_submitted,
                               .started = meddle_started,
                               .ended = meddle_ended};
        expect_ok(pto_watch(r.rt, &watcher));
        for (int i = 0; i < 20; i++) {
            const pto_task task = RIG_SUBMIT(&r, r.quick, pto_inout(&x));
            assert_int_equal(pto_last_task(r.rt), task);
            expect_ok(pto_wait(r.rt));
        }
        for (int callback = 0; callback < 3; callback++) {
            assert_int_equal(m.calls[callback], 20);
            assert_int_equal(m.refused[callback], 20);
        }
        assert_false(m.last);
        assert_int_equal(rig_stats(&r).submitted, 20);
        assert_int_equal(pto_get_scope_depth(r.rt), 0);
        expect_ok(pto_watch(r.rt, NULL));
        rig_stop(&r);
    }
}

int main(void)
{
    const rig_case cases[] = {
        RIG_CASE_ONE_PROCESS(test_hears_of_every_task, "watchers are called by workers"),
        RIG_CASE_ONE_PROCESS(test_must_not_orchestrate, "watchers are called by workers"),
    };
    return rig_run("watch", cases, sizeof cases / sizeof *cases);
}
