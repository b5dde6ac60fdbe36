/* test_inline.c - inline execution: which tasks run inline, and that they behave like all
 * others. */
#include "inline.h"

/* ---- Inside submit ------------------------------------------------------------------------- */

static void test_runs_inside_of_submit(void **state)
{
    bench b;
    tiles x;
    start_with(&b, &x, state, NULL);
    pto_runtime_stats before = rig_stats(&b.r);
    const unsigned here = atomic_load(&b.here);
    for (unsigned i = 1; i <= 100; i++) { /* past the 32-bit wrap in half of the setups */
        const pto_task task = INLINE(&b, b.bump, pto_inout(&x.t[0]));
        assert_int_equal(pto_last_task(b.r.rt), task);
        if (b.can) {
            assert_int_equal(atomic_load(&b.worker), 2); /* the caller comes after two workers */
            is_byte(x.byte[0], (unsigned char)i, BYTES);
            const pto_runtime_stats now = rig_stats(&b.r);
            assert_int_equal(now.submitted - before.submitted, i);
            assert_int_equal(now.completed - before.completed, i);
            assert_int_equal(now.helped - before.helped, i);
            assert_int_equal(now.oldest, 0);
            assert_int_equal(now.level[0].ring[PTO_RING_TASKS].used, 0);
            assert_int_equal(rig_info(&b.r, task).state, PTO_TASK_CONSUMED);
        }
        is_done(&b, task);
        expect_ok(pto_wait_task(b.r.rt, task));
        expect_ok(pto_check(b.r.rt));
    }
    finish(&b);
    is_byte(x.byte[0], 100, BYTES);
    assert_int_equal(atomic_load(&b.here) - here, b.can ? 100 : 0);
    assert_int_equal(rig_stats(&b.r).submitted - before.submitted, 100);
    assert_int_equal(rig_stats(&b.r).completed - before.completed, 100);
    rig_stop(&b.r);
}

/* Many times around the task ring, with offloaded tasks in between. */
static void test_around_the_task_ring(void **state)
{
    bench b;
    tiles x;
    pto_config config = PTO_CONFIG_INIT;
    config.ring_tasks = 16;
    start_with(&b, &x, state, &config);
    const uint64_t before = rig_stats(&b.r).submitted;
    for (unsigned i = 0; i < 2000; i++) {
        const pto_tensor *t = &x.t[i % 7];
        expect_ok(i % 5
                      ? pto_submit(b.r.rt, b.bump, pto_inout(t))
                      : pto_submit(b.r.rt, b.bump, pto_inout(t), pto_after(pto_last_task(b.r.rt))));
    }
    finish(&b);
    for (unsigned i = 0; i < 7; i++) {
        is_byte(x.byte[i], (unsigned char)((2000 - i + 6) / 7), BYTES);
    }
    assert_int_equal(rig_stats(&b.r).submitted - before, 2000);
    assert_int_equal(rig_stats(&b.r).completed, rig_stats(&b.r).submitted);
    rig_stop(&b.r);
}

/* ---- Tasks that have to wait ---------------------------------------------------------------- */

static void test_waits_for_others(void **state)
{
    bench b;
    tiles x;
    start_with(&b, &x, state, NULL);
    const pto_tensor *t = &x.t[0];
    const pto_param first[] = {pto_output(t), pto_output(t), pto_inout(t), pto_input(t)};
    const pto_param next[] = {pto_input(t), pto_output(t), pto_inout(t), pto_output(t)};
    for (int i = 0; i < 4; i++) { /* RAW, WAW, both, WAR */
        const pto_task held = RIG_SUBMIT(&b.r, b.r.hold, first[i]);
        const pto_task waits = OFFLOADED(&b, b.act, next[i], pto_scalar(NOTHING));
        RIG_WAITS_FOR(&b.r, waits, 1);
        INLINE(&b, b.act, pto_inout(&x.t[1]), pto_scalar(NOTHING)); /* no task uses it */
        must_wait(&b, OFFLOADED(&b, b.act, pto_inout(&x.t[1]), next[i], pto_scalar(NOTHING)));
        expect_ok(pto_check(b.r.rt));
        rig_finish(&b.r, held, PTO_OK);
        finish(&b);
        is_done(&b, INLINE(&b, b.act, next[i], pto_scalar(NOTHING)));
        finish(&b);
    }
    const pto_runtime_stats stats = rig_stats(&b.r);
    assert_true(stats.raw && stats.war && stats.waw);
    rig_stop(&b.r);
}

/* A reader waits for no other reader, and no task waits for it. */
static void test_reads_beside_readers(void **state)
{
    bench b;
    tiles x;
    start_with(&b, &x, state, NULL);
    const pto_task held = RIG_SUBMIT(&b.r, b.r.hold, pto_input(&x.t[0]));
    for (int i = 0; i < 10; i++) {
        is_done(&b, INLINE(&b, b.is, pto_input(&x.t[0]), pto_scalar(0)));
    }
    const pto_task writes = OFFLOADED(&b, b.bump, pto_inout(&x.t[0]));
    const pto_task_report report = rig_info(&b.r, writes);
    assert_int_equal(report.fanin_left, 1);
    assert_int_equal(report.fanin_count, b.can ? 1 : report.fanin_count);
    const pto_task reads = OFFLOADED(&b, b.is, pto_input(&x.t[0]), pto_scalar(1));
    RIG_WAITS_FOR(&b.r, reads, 1);
    rig_finish(&b.r, held, PTO_OK);
    finish(&b);
    is_byte(x.byte[0], 1, BYTES);
    rig_stop(&b.r);
}

/* ---- Parameters ---------------------------------------------------------------------------- */

static pto_status scalars(const pto_call *call)
{
    saw(call);
    if (call->n_args == 0) {
        return PTO_OK;
    }
    const pto_arg *a = call->args;
    const bool good = call->n_args == 5 && a[0].dtype == PTO_INT64 && a[0].i64 == -5 &&
                      !a[0].data && !a[0].shape && !a[0].strides && a[0].ndim == 0 &&
                      a[1].dtype == PTO_UINT64 && a[1].u64 == UINT64_MAX &&
                      a[2].dtype == PTO_UINT8 && a[2].ndim == 1 && a[2].shape[0] == BYTES &&
                      a[2].strides[0] == 1 && a[3].dtype == PTO_FLOAT64 && a[3].f64 == 0.25 &&
                      !a[3].data && pto_arg_f64(&a[3]) == 0.25 && a[4].dtype == PTO_INT64 &&
                      a[4].i64 == 1 && call->worker_type == PTO_VECTOR;
    if (!good) {
        return pto_fail(PTO_CORRUPT, "arguments are not what was given");
    }
    ++*(unsigned char *)a[2].data;
    return PTO_OK;
}

static void test_scalars(void **state)
{
    bench b;
    tiles x;
    pto_kernel kernel;
    start_with(&b, &x, state, NULL);
    expect_ok(pto_kernel_register(b.r.rt, "scalars", PTO_VECTOR, scalars, &b, &kernel));
    learn(&b, kernel);
    for (int i = 0; i < 5; i++) {
        /* First a task with tensors where the next one has numbers. */
        INLINE(&b, b.bump, pto_inout(&x.t[1]), pto_inout(&x.t[2]), pto_inout(&x.t[3]),
               pto_inout(&x.t[4]), pto_inout(&x.t[5]));
        INLINE(&b, kernel, pto_scalar(-5), pto_scalar(UINT64_MAX), pto_inout(&x.t[0]),
               pto_scalar(0.25), pto_scalar(1));
        finish(&b);
    }
    assert_int_equal(x.byte[0][0], 5);
    is_byte(x.byte[5], 5, BYTES);
    rig_stop(&b.r);
}

/* No parameters, the most that the usual walk takes, the most that can run inline, and one more. */
static void test_how_many(void **state)
{
    enum { MOST = 64 };
    static const size_t counts[] = {0, 16, 17, 32, 33, MOST, MOST + 1};
    bench b;
    tiles x;
    start_with(&b, &x, state, NULL);
    pto_param params[MOST + 1];
    unsigned char model[TILES] = {0};
    for (int i = 0; i <= MOST; i++) {
        params[i] = pto_inout(&x.t[i % TILES]);
    }
    for (int i = 0; i < 3; i++) {
        for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
            const pto_task task = must(&b, b.can && counts[n] <= MOST, b.bump, params, counts[n],
                                       __LINE__);
            expect_ok(pto_wait_task(b.r.rt, task));
            finish(&b);
            for (size_t k = 0; k < counts[n]; k++) {
                model[k % TILES]++;
            }
            for (int k = 0; k < TILES; k++) {
                is_byte(x.byte[k], model[k], BYTES);
            }
        }
    }
    rig_stop(&b.r);
}

static void test_nodep_and_after(void **state)
{
    bench b;
    tiles x;
    start_with(&b, &x, state, NULL);
    const pto_task held = RIG_SUBMIT(&b.r, b.r.hold, pto_inout(&x.t[0]));
    const pto_task free_one = INLINE(&b, b.act, pto_nodep(pto_inout(&x.t[0])), pto_inout(&x.t[1]),
                                     pto_scalar(NOTHING));
    expect_ok(pto_wait_task(b.r.rt, free_one)); /* although the memory it names is held */
    const pto_task later = OFFLOADED(&b, b.act, pto_after(held), pto_scalar(NOTHING));
    RIG_WAITS_FOR(&b.r, later, 1);
    rig_finish(&b.r, held, PTO_OK);
    finish(&b);
    /* pto_after an inline task: one that may be recycled, and one that a scope holds. */
    for (int scope = 0; scope < 2; scope++) {
        if (scope) {
            expect_ok(pto_scope_begin(b.r.rt));
        }
        const pto_task done = INLINE(&b, b.bump, pto_inout(&x.t[2]));
        is_done(&b, done);
        pto_task next = INLINE(&b, b.bump, pto_after(done), pto_inout(&x.t[3]));
        expect_ok(pto_wait_task(b.r.rt, next));
        if (scope) {
            pto_tensor t = rig_temp(&b.r, BYTES);
            INLINE(&b, b.fill, pto_output(&t), pto_scalar(1));
            if (!b.can) {
                finish(&b);
            }
            /* Its memory stays all the same for a task that does not wait. */
            const pto_task uses = RIG_SUBMIT(&b.r, b.r.hold, pto_nodep(pto_input(&t)));
            const unsigned char *at = rig_address(&b.r, &t);
            (void)submit(&b, &next, b.bump, PARAMS(pto_inout(&t)), __LINE__);
            expect_ok(pto_wait_task(b.r.rt, next));
            expect_ok(pto_scope_end(b.r.rt));
            for (int i = 0; i < 100; i++) {
                expect_ok(pto_scope_begin(b.r.rt));
                pto_tensor u = rig_temp(&b.r, BYTES);
                expect_ok(pto_submit(b.r.rt, b.fill, pto_output(&u), pto_scalar(88)));
                expect_ok(pto_scope_end(b.r.rt));
            }
            is_byte(at, 2, BYTES);
            rig_finish(&b.r, uses, PTO_OK);
        }
        finish(&b);
    }
    is_byte(x.byte[3], 2, BYTES);
    rig_stop(&b.r);
}

static void test_views(void **state)
{
    bench b;
    tiles x;
    start_with(&b, &x, state, NULL);
    pto_tensor left = rig_slice(&x.t[0], 0, 40), right = rig_slice(&x.t[0], 24, 64), twice = left;
    unsigned char model[BYTES] = {0};
    test_rng rng = test_rng_make(test_seed());
    pto_task task;
    for (int i = 0; i < 300; i++) { /* inline or not, depending on what the map still knows */
        const uint64_t dice = test_next(&rng);
        const pto_tensor *t = dice % 3 == 0 ? &x.t[0] : dice % 3 == 1 ? &left : &right;
        const int64_t low = dice % 3 == 2 ? 24 : 0, high = dice % 3 == 1 ? 40 : 64;
        (void)submit(&b, &task, b.bump, PARAMS(pto_inout(t)), __LINE__);
        for (int64_t k = low; k < high; k++) {
            model[k]++;
        }
        if (dice % 64 == 0) {
            finish(&b);
            assert_memory_equal(x.byte[0], model, BYTES);
        }
    }
    finish(&b);
    assert_memory_equal(x.byte[0], model, BYTES);
    /* After a task on a part, which is held. */
    const pto_task held = RIG_SUBMIT(&b.r, b.r.hold, pto_inout(&left));
    RIG_WAITS_FOR(&b.r, OFFLOADED(&b, b.bump, pto_inout(&right)), 1);
    RIG_WAITS_FOR(&b.r, OFFLOADED(&b, b.bump, pto_inout(&x.t[0])), 2);
    rig_finish(&b.r, held, PTO_OK);
    finish(&b);
    /* After a reader of one part, on another level; no task is left on the other part. */
    const pto_task part = RIG_SUBMIT(&b.r, b.r.hold, pto_input(&left));
    expect_ok(pto_scope_begin_ex(b.r.rt, PTO_SCOPE_BOUNDARY));
    RIG_SUBMIT_BARE(&b.r, b.act);
    (void)submit(&b, &task, b.act, PARAMS(pto_input(&right), pto_scalar(NOTHING)), __LINE__);
    rig_until(&b.r, task, PTO_TASK_COMPLETED); /* inline or not: both read */
    is_done(&b, RIG_SUBMIT_BARE(&b.r, b.act));
    must_wait(&b, OFFLOADED(&b, b.act, pto_inout(&right), pto_scalar(NOTHING)));
    expect_ok(pto_scope_end(b.r.rt));
    rig_finish(&b.r, part, PTO_OK);
    finish(&b);
    /* Both in one task: the kernel has to handle that. */
    (void)submit(&b, &task, b.bump, PARAMS(pto_inout(&left), pto_inout(&right)), __LINE__);
    finish(&b);
    assert_int_equal(x.byte[0][30], (unsigned char)(model[30] + 4));
    /* One tensor twice, also as two equal tensors. */
    for (int i = 0; i < 3; i++) {
        INLINE(&b, b.bump, pto_inout(&x.t[1]), pto_inout(&x.t[1]));
        INLINE(&b, b.copy, pto_input(&x.t[1]), pto_output(&x.t[1]));
        finish(&b);
        (void)submit(&b, &task, b.copy, PARAMS(pto_input(&left), pto_output(&twice)), __LINE__);
        finish(&b);
        is_byte(x.byte[1], (unsigned char)(2 * i + 2), BYTES);
    }
    const pto_task reads = RIG_SUBMIT(&b.r, b.r.hold, pto_input(&x.t[1]));
    RIG_WAITS_FOR(&b.r, OFFLOADED(&b, b.copy, pto_input(&x.t[1]), pto_output(&x.t[1])), 1);
    rig_finish(&b.r, reads, PTO_OK);
    finish(&b);
    /* A temporary named twice, by its first writer and by a later task. */
    expect_ok(pto_scope_begin(b.r.rt));
    pto_tensor t = rig_temp(&b.r, BYTES), unwritten = rig_temp(&b.r, BYTES);
    expect_fail(pto_submit(b.r.rt, b.copy, pto_input(&unwritten), pto_output(&unwritten)),
                PTO_NOT_WRITTEN, "parameter 0");
    expect_fail(pto_submit(b.r.rt, b.copy, pto_output(&unwritten), pto_input(&unwritten)),
                PTO_NOT_WRITTEN, "parameter 1");
    OFFLOADED(&b, b.fill, pto_output(&t), pto_output(&t), pto_scalar(1));
    finish(&b);
    INLINE(&b, b.bump, pto_inout(&t), pto_inout(&t));
    INLINE(&b, b.fill, pto_output(&unwritten), pto_scalar(6));
    if (!b.can) {
        finish(&b);
    }
    INLINE(&b, b.bump, pto_inout(&unwritten), pto_inout(&unwritten));
    finish(&b);
    is_byte(rig_address(&b.r, &t), 4, BYTES);
    is_byte(rig_address(&b.r, &unwritten), 8, BYTES);
    expect_ok(pto_scope_end(b.r.rt));
    finish(&b);
    rig_stop(&b.r);
}

static pto_status is_nowhere(const pto_call *call)
{
    saw(call);
    return call->n_args == 0 || (!call->args[0].data && call->args[0].shape[0] == 0)
               ? PTO_OK
               : pto_fail(PTO_CORRUPT, "it has an address");
}

/* Empty tensors work and invalid ones are refused, as on the slow path. */
static void test_nothing_and_nonsense(void **state)
{
    bench b;
    tiles x;
    pto_kernel kernel;
    start_with(&b, &x, state, NULL);
    expect_ok(pto_kernel_register(b.r.rt, "is_nowhere", PTO_VECTOR, is_nowhere, &b, &kernel));
    learn(&b, kernel);
    pto_tensor empty;
    expect_ok(pto_tensor_slice(&x.t[0], 0, 32, 32, 1, &empty));
    for (int i = 0; i < 50; i++) {
        expect_ok(pto_submit(b.r.rt, kernel, pto_inout(&empty)));
        expect_ok(pto_scope_begin(b.r.rt));
        pto_tensor none;
        expect_ok(pto_temp(b.r.rt, PTO_UINT8, 2, DIMS(0, 4), &none));
        expect_ok(pto_submit(b.r.rt, kernel, pto_output(&none)));
        expect_ok(pto_submit(b.r.rt, kernel, pto_input(&none)));
        expect_ok(pto_scope_end(b.r.rt));
    }
    finish(&b);
    const unsigned ran = atomic_load(&b.here) + atomic_load(&b.there);
    pto_tensor bad = x.t[0];
    bad.shape[0] = BYTES + 1;
    expect_fail(pto_submit(b.r.rt, b.bump, pto_inout(&bad)), PTO_OUT_OF_BOUNDS, "parameter 0");
    bad = x.t[0];
    bad.ndim = 9;
    expect_fail(pto_submit(b.r.rt, b.bump, pto_inout(&bad)), PTO_BAD_NDIM, "parameter 0");
    expect_fail(pto_submit(b.r.rt, b.bump, pto_inout(&x.t[0]), pto_inout(NULL)), PTO_NULL_ARGUMENT,
                "parameter 1");
    expect_fail(pto_submit(b.r.rt, b.bump, pto_inout(&x.t[0]), (pto_param){0}), PTO_BAD_PARAM,
                "parameter 1");
    expect_ok(pto_scope_begin(b.r.rt));
    pto_tensor t = rig_temp(&b.r, BYTES), good = t;
    INLINE(&b, b.fill, pto_output(&t), pto_scalar(1));
    finish(&b);
    t.shape[0] = BYTES + 1;
    expect_fail(pto_submit(b.r.rt, b.bump, pto_inout(&t)), PTO_OUT_OF_BOUNDS, "parameter 0");
    t = good;
    t.version = 2;
    expect_fail(pto_submit(b.r.rt, b.bump, pto_inout(&t)), PTO_BAD_VERSION, "parameter 0");
    t = good;
    t.storage_bytes = 4096;
    t.shape[0] = 4096;
    expect_fail(pto_submit(b.r.rt, b.bump, pto_inout(&t)), PTO_OUT_OF_BOUNDS, "parameter 0");
    assert_int_equal(atomic_load(&b.here) + atomic_load(&b.there), ran + 1);
    t = good; /* the next version, in place; after this the previous one is stale */
    t.version = 1;
    expect_ok(pto_submit(b.r.rt, b.fill, pto_output(&t), pto_scalar(2)));
    expect_fail(pto_submit(b.r.rt, b.bump, pto_inout(&good)), PTO_BAD_VERSION, "parameter 0");
    finish(&b);
    INLINE(&b, b.bump, pto_inout(&t));
    finish(&b);
    is_byte(rig_address(&b.r, &t), 3, BYTES);
    expect_ok(pto_scope_end(b.r.rt));
    finish(&b);
    rig_stop(&b.r);
}

/* ---- Tasks that do not run inline ---------------------------------------------------------- */

static unsigned count_inlined(bench *b, pto_kernel kernel, const pto_tensor *t, int tasks)
{
    const unsigned before = atomic_load(&b->here);
    pto_task task;
    for (int i = 0; i < tasks; i++) {
        (void)submit(b, &task, kernel, PARAMS(pto_inout(t), pto_scalar(NOTHING)), __LINE__);
        if (i % 4 == 3) {
            expect_ok(pto_wait(b->r.rt));
        }
    }
    finish(b);
    return atomic_load(&b->here) - before;
}

static void test_never(void **state)
{
    for (int i = 0; i < 4; i++) {
        bench b;
        pto_config config = PTO_CONFIG_INIT;
        unsigned char memory[BYTES] = {0};
        config.caller_types = i == 0   ? PTO_NO_TYPES
                              : i == 1 ? PTO_TYPE_BIT(PTO_CUBE)
                                       : PTO_ALL_TYPES;
        config.inline_ns = i == 2 ? PTO_NO_INLINE : EVERYTHING;
        start(&b, state, &config);
        const pto_tensor t = rig_bytes(&b.r, memory, BYTES);
        const unsigned vector = count_inlined(&b, b.act, &t, 200),
                       cube = count_inlined(&b, b.other, &t, 200);
        assert_true(i == 3 && b.can ? vector > 100 : vector == 0);
        assert_true((i == 1 || i == 3) && b.can ? cube > 100 : cube == 0);
        rig_stop(&b.r);
    }
}

/* A watcher sees every task and does not change which of them run inline. */
typedef struct watched {
    unsigned submitted, started, ended;
    pto_task last;
} watched;

static void submitted(void *user, pto_task task, const char *kernel, const pto_param *params,
                      size_t n)
{
    watched *w = user;
    (void)params;
    assert_true(n == 1 && strcmp(kernel, "bump") == 0);
    w->submitted++;
    w->last = task;
}

static void started(void *user, pto_task task, uint32_t worker)
{
    watched *w = user;
    (void)worker;
    assert_int_equal(task, w->last);
    assert_int_equal(++w->started, w->submitted);
}

static void ended(void *user, pto_task task, uint32_t worker, pto_status status)
{
    watched *w = user;
    (void)worker;
    assert_int_equal(task, w->last);
    assert_int_equal(status, PTO_OK);
    assert_int_equal(++w->ended, w->started);
}

static void test_watched(void **state)
{
    bench b;
    tiles x;
    watched w = {0};
    start_with(&b, &x, state, NULL);
    pto_watcher watcher = {.size = sizeof watcher, .user = &w, .submitted = submitted};
    if (b.can) { /* on this thread, inside submit */
        watcher.started = started;
        watcher.ended = ended;
    }
    expect_ok(pto_watch(b.r.rt, &watcher));
    for (int i = 0; i < 40; i++) {
        INLINE(&b, b.bump, pto_inout(&x.t[i % 8]));
    }
    expect_ok(pto_watch(b.r.rt, NULL));
    finish(&b);
    assert_int_equal(w.submitted, 40);
    assert_int_equal(w.ended, b.can ? 40 : 0);
    INLINE(&b, b.bump, pto_inout(&x.t[0]));
    finish(&b);
    is_byte(x.byte[0], 6, BYTES);
    rig_stop(&b.r);
}

/* A long kernel does not run inline; a kernel that becomes long soon does not either. */
static void test_long(void **state)
{
    bench b;
    unsigned char memory[BYTES] = {0};
    pto_config config = PTO_CONFIG_INIT;
    config.inline_ns = 50;
    start(&b, state, &config);
    pto_tensor t = rig_bytes(&b.r, memory, BYTES);
    atomic_store(&b.spin_us, 200);
    assert_int_equal(count_inlined(&b, b.act, &t, 300), 0);
    rig_stop(&b.r);

    config.inline_ns = 100000;
    start(&b, state, &config);
    t = rig_bytes(&b.r, memory, BYTES);
    unsigned ran_inline = 0;
    for (int i = 0; i < 20 && !ran_inline; i++) { /* unless the machine is busy */
        ran_inline = count_inlined(&b, b.act, &t, 200);
    }
    assert_true(b.can ? ran_inline > 0 : ran_inline == 0);
    atomic_store(&b.spin_us, 200);
    assert_true(count_inlined(&b, b.act, &t, 300) <= 100);
    assert_int_equal(count_inlined(&b, b.act, &t, 200), 0);
    atomic_store(&b.spin_us, 0); /* and short again */
    ran_inline = 0;
    for (int i = 0; i < 20 && !ran_inline; i++) {
        ran_inline = count_inlined(&b, b.act, &t, 200);
    }
    assert_true(b.can ? ran_inline > 0 : ran_inline == 0);
    rig_stop(&b.r);
}

int main(void)
{
    const rig_case cases[] = {
        RIG_CASE_ONE_PROCESS(test_runs_inside_of_submit, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_around_the_task_ring, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_waits_for_others, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_reads_beside_readers, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_scalars, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_how_many, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_nodep_and_after, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_views, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_nothing_and_nonsense, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_never, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_watched, "inline execution"),
        RIG_CASE_SLOW_ONE_PROCESS(test_long, "inline execution"),
    };
    return rig_run("inlined", cases, sizeof cases / sizeof *cases);
}
