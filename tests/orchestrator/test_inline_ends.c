/* test_inline_ends.c - inline tasks that fail, are pending or cancel; and what their kernels and
 * their handles can do. */
#include "inline.h"

/* ---- Failing ------------------------------------------------------------------------------- */

static void test_fails(void **state)
{
    bench b;
    tiles x;
    unsigned char got[BYTES];
    start_with(&b, &x, state, NULL);
    for (int late = 0; late < 2;
         late++) { /* the consumer: submitted before the wait, or after it */
        const pto_runtime_stats before = rig_stats(&b.r);
        pto_failure failure;
        bool failed = true;
        learn(&b, b.act);
        finish(&b);
        const uint64_t order = rig_stats(&b.r).submitted;
        expect_ok(pto_get_failure(b.r.rt, &failed, &failure));
        assert_false(failed);
        const int line = __LINE__ + 1;
        const pto_task bad = INLINE(&b, b.act, pto_inout(&x.t[0]), pto_scalar(FAIL));
        is_done(&b, bad);
        expect_ok(pto_get_failure(b.r.rt, &failed, &failure));
        assert_true(failed);
        assert_int_equal(failure.task, bad);
        assert_int_equal(failure.status, PTO_KERNEL_FAILED);
        assert_int_equal(failure.order, order);
        assert_int_equal(failure.line, line);
        assert_string_equal(failure.kernel, "act");
        assert_string_equal(failure.message, "bad luck");
        assert_non_null(strstr(failure.file, "test_inline_ends.c"));
        if (late) {
            expect_fail(pto_wait(b.r.rt), PTO_TASK_FAILED, "act", "bad luck", "test_inline_ends.c");
        }
        const pto_task skipped = OFFLOADED(&b, b.copy, pto_input(&x.t[0]), pto_output(&x.t[1]));
        pto_task any;
        (void)submit(&b, &any, b.bump, PARAMS(pto_inout(&x.t[2])), __LINE__); /* unrelated memory */
        (void)submit(&b, &any, b.act, PARAMS(pto_inout(&x.t[3]), pto_scalar(FAIL)), __LINE__);
        char number[24];
        snprintf(number, sizeof number, "%d", line);
        expect_fail(pto_wait(b.r.rt), PTO_TASK_FAILED, "act", "bad luck", "test_inline_ends.c",
                    number);
        expect_fail(pto_wait_task(b.r.rt, bad), PTO_TASK_FAILED, "bad luck");
        expect_fail(pto_wait_task(b.r.rt, skipped), PTO_TASK_FAILED, "bad luck");
        expect_ok(pto_get_failure(b.r.rt, &failed, &failure));
        assert_int_equal(failure.task, bad); /* the first one counts */
        const pto_runtime_stats now = rig_stats(&b.r);
        assert_int_equal(now.skipped - before.skipped, 1);
        assert_int_equal(now.completed, now.submitted);
        is_byte(x.byte[2], (unsigned char)(late + 1), BYTES);
        expect_fail(pto_read(b.r.rt, &x.t[0], got, BYTES), PTO_POISONED, "");
        expect_fail(pto_read(b.r.rt, &x.t[1], got, BYTES), PTO_POISONED, "");
        /* A successful write that covers all of it heals it. */
        expect_ok(pto_submit(b.r.rt, b.fill, pto_output(&x.t[0]), pto_scalar(5)));
        expect_ok(pto_submit(b.r.rt, b.is, pto_input(&x.t[0]), pto_scalar(5)));
        expect_ok(pto_read(b.r.rt, &x.t[0], got, BYTES));
        is_byte(got, 5, BYTES);
        expect_fail(pto_read(b.r.rt, &x.t[1], got, BYTES), PTO_POISONED, "");
        expect_ok(pto_check(b.r.rt));
        expect_ok(pto_clear_error(b.r.rt));
        expect_ok(pto_read(b.r.rt, &x.t[1], got, BYTES));
        RIG_SUBMIT_BARE(&b.r, b.act); /* the next task finds good memory again */
        finish(&b);
        is_done(&b, INLINE(&b, b.bump, pto_inout(&x.t[1])));
        expect_ok(pto_submit(b.r.rt, b.fill, pto_output(&x.t[1]), pto_scalar(0)));
        finish(&b);
    }
    rig_stop(&b.r);
}

/* The same with memory that the task itself allocates, and with memory that the map does not
 * know. */
static void test_fails_with_managed_memory(void **state)
{
    bench b;
    tiles x;
    unsigned char got[BYTES];
    start_with(&b, &x, state, NULL);
    for (int brings = 0; brings < 2; brings++) {
        learn(&b, b.act);
        finish(&b);
        expect_ok(pto_scope_begin(b.r.rt));
        pto_tensor t = rig_temp(&b.r, BYTES);
        if (!brings) {
            INLINE(&b, b.fill, pto_output(&t), pto_scalar(1));
            (void)rig_address(&b.r, &t);
            if (!b.can) {
                finish(&b);
            }
        }
        const pto_task bad = brings ? INLINE(&b, b.act, pto_output(&t), pto_scalar(FAIL))
                                    : INLINE(&b, b.act, pto_inout(&t), pto_scalar(FAIL));
        is_done(&b, bad);
        assert_true(rig_info(&b.r, bad).failed);
        assert_false(rig_info(&b.r, bad).skipped);
        const pto_task next = OFFLOADED(&b, b.copy, pto_input(&t), pto_output(&x.t[0]));
        expect_fail(pto_wait(b.r.rt), PTO_TASK_FAILED, "bad luck");
        assert_true(rig_info(&b.r, next).skipped);
        expect_fail(pto_read(b.r.rt, &t, got, BYTES), PTO_POISONED, "");
        expect_ok(pto_submit(b.r.rt, b.fill, pto_output(&t), pto_scalar(3)));
        expect_ok(pto_read(b.r.rt, &t, got, BYTES));
        is_byte(got, 3, BYTES);
        expect_ok(pto_check(b.r.rt));
        expect_ok(pto_scope_end(b.r.rt));
        expect_ok(pto_clear_error(b.r.rt));
        finish(&b);
    }
    rig_stop(&b.r);
}

/* ---- Pending ------------------------------------------------------------------------------- */

/* Submits a task that stays pending; the tensor passed to it is gone when this returns. */
static __attribute__((noinline)) pto_task submit_pending(bench *b, const pto_tensor *what,
                                                         const pto_tensor *also)
{
    pto_tensor view = *what;
    const unsigned before = atomic_load(&b->pended);
    learn(b, b->act);
    finish(b);
    const pto_task task = INLINE(b, b->act, pto_inout(&view), pto_input(also), pto_scalar(PEND));
    memset(&view, 0xee, sizeof view);
    const uint64_t deadline = rig_now_ms() + RIG_PATIENCE_MS;
    while (atomic_load(&b->pended) == before) {
        assert_true(rig_now_ms() < deadline);
        rig_sleep_us(20);
    }
    return task;
}

static void *write_and_end(void *argument)
{
    bench *b = argument;
    rig_sleep_us(200);
    for (int64_t i = 0, n = rig_numel(&b->kept[0]); i < n; i++) {
        *rig_element(&b->kept[0], i) = (unsigned char)(100 + i);
    }
    return end_pending(b);
}

static void test_pending(void **state)
{
    bench b;
    tiles x;
    unsigned char memory[BYTES] = {0};
    pto_tensor view;
    start_with(&b, &x, state, NULL);
    const pto_tensor part = rig_slice(&x.t[3], 0, 24);
    expect_ok(
        pto_tensor_init(&view, memory, BYTES, PTO_UINT8, 3, DIMS(2, 3, 4), DIMS(32, 8, 2), 1));
    expect_ok(pto_submit(b.r.rt, b.act, pto_inout(&view), pto_scalar(NOTHING)));
    for (int round = 0; round < 5; round++) {
        const pto_task held = submit_pending(&b, &view, &x.t[1]);
        assert_int_equal(held, b.pending);
        rig_until(&b.r, held, PTO_TASK_RUNNING);
        assert_int_equal(rig_info(&b.r, held).state, PTO_TASK_RUNNING);
        assert_int_equal(rig_stats(&b.r).oldest, held);
        /* Many tasks later its arguments are unchanged. */
        learn(&b, b.bump);
        for (int i = 0; i < 100; i++) {
            is_done(&b, INLINE(&b, b.bump, pto_inout(&x.t[2])));
            if (!b.can) {
                expect_ok(pto_wait_task(b.r.rt, pto_last_task(b.r.rt)));
            }
        }
        assert_int_equal(rig_stats(&b.r).pending, 1);
        assert_int_equal(b.kept[0].ndim, 3);
        assert_int_equal(b.kept[0].dtype, PTO_UINT8);
        assert_ptr_equal(b.kept[0].data, memory + 1);
        assert_memory_equal(b.kept[0].shape, DIMS(2, 3, 4), 24);
        assert_memory_equal(b.kept[0].strides, DIMS(32, 8, 2), 24);
        const pto_task reads = OFFLOADED(&b, b.copy, pto_input(&view), pto_output(&part));
        must_wait(&b, reads);
        const pto_task after_read = OFFLOADED(&b, b.bump, pto_inout(&x.t[1])); /* WAR */
        must_wait(&b, after_read);
        expect_ok(pto_check(b.r.rt));
        pthread_t thread;
        b.ending = PTO_OK;
        assert_int_equal(pthread_create(&thread, NULL, write_and_end, &b), 0);
        expect_ok(pto_wait_task(b.r.rt, held));
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(b.ended, PTO_OK);
        expect_fail(pto_task_complete(b.r.rt, held, PTO_OK), PTO_BAD_TASK, "");
        finish(&b);
        for (int i = 0; i < 24; i++) {
            assert_int_equal(x.byte[3][i], 100 + i);
        }
        assert_int_equal(rig_stats(&b.r).pending, 0);
        assert_int_equal(rig_stats(&b.r).completed, rig_stats(&b.r).submitted);
    }
    rig_stop(&b.r);
}

/* Another thread completes the task before the kernel returns, with success or failure. */
static void test_completed_before_it_returned(void **state)
{
    bench b;
    tiles x;
    start_with(&b, &x, state, NULL);
    for (int round = 0; round < 20; round++) {
        learn(&b, b.act);
        finish(&b);
        b.ending = round % 2 ? PTO_KERNEL_FAILED : PTO_OK;
        const uint64_t skipped = rig_stats(&b.r).skipped;
        const pto_task task = INLINE(&b, b.act, pto_inout(&x.t[0]), pto_scalar(PEND_LATE));
        is_done(&b, task);
        assert_int_equal(b.ended, PTO_OK);
        expect_ok(pto_submit(b.r.rt, b.bump, pto_inout(&x.t[0])));
        if (round % 2) {
            expect_fail(pto_wait(b.r.rt), PTO_TASK_FAILED, "act");
            expect_ok(pto_clear_error(b.r.rt));
            RIG_SUBMIT_BARE(&b.r, b.bump);
        }
        finish(&b);
        assert_int_equal(rig_stats(&b.r).skipped - skipped, round % 2);
        assert_int_equal(rig_stats(&b.r).pending, 0);
        expect_fail(pto_task_complete(b.r.rt, task, PTO_OK), PTO_BAD_TASK, "complete");
    }
    is_byte(x.byte[0], 10, BYTES);
    rig_stop(&b.r);
}

/* Completes tasks as soon as they are pending, so sometimes while submit still records them. */
typedef struct eager {
    bench *b;
    atomic_bool stop;
    unsigned done;
} eager;

static void *end_eagerly(void *argument)
{
    eager *e = argument;
    while (!atomic_load(&e->stop)) {
        if (atomic_load(&e->b->pended) != e->done) {
            e->done++;
            ++*(unsigned char *)e->b->kept[0].data;
            if (pto_task_complete(e->b->r.rt, e->b->pending, PTO_OK) != PTO_OK) {
                abort();
            }
        }
    }
    return NULL;
}

static void test_completed_as_it_returns(void **state)
{
    bench b;
    tiles x;
    pthread_t thread;
    start_with(&b, &x, state, NULL);
    eager e = {.b = &b};
    assert_int_equal(pthread_create(&thread, NULL, end_eagerly, &e), 0);
    const unsigned rounds = (unsigned)test_effort(100);
    for (unsigned i = 0; i < rounds; i++) {
        learn(&b, b.act);
        finish(&b);
        expect_ok(pto_scope_begin(b.r.rt));
        pto_tensor t = rig_temp(&b.r, BYTES);
        INLINE(&b, b.fill, pto_output(&t), pto_scalar(i));
        if (!b.can) {
            finish(&b);
        }
        INLINE(&b, b.act, pto_inout(&t), pto_scalar(PEND));
        expect_ok(pto_submit(b.r.rt, b.copy, pto_input(&t), pto_output(&x.t[0])));
        expect_ok(pto_scope_end(b.r.rt));
        finish(&b);
        assert_int_equal(x.byte[0][0], (unsigned char)(i + 1));
        is_byte(x.byte[0] + 1, (unsigned char)i, BYTES - 1);
    }
    atomic_store(&e.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    rig_stop(&b.r);
}

/* The memory that a pending task owns stays where the kernel saw it, also when its scope has
 * ended. */
static void test_pending_brings(void **state)
{
    bench b;
    tiles x;
    start_with(&b, &x, state, NULL);
    for (int round = 0; round < 5; round++) {
        learn(&b, b.act);
        finish(&b);
        expect_ok(pto_scope_begin(b.r.rt));
        pto_tensor before = rig_temp(&b.r, 300), s = rig_temp(&b.r, BYTES),
                   t = rig_temp(&b.r, BYTES);
        expect_ok(pto_submit(b.r.rt, b.fill, pto_output(&before), pto_scalar(1)));
        const unsigned pended = atomic_load(&b.pended);
        const pto_task held = INLINE(&b, b.act, pto_output(&s), pto_output(&t), pto_scalar(PEND));
        while (atomic_load(&b.pended) == pended) {
            rig_sleep_us(20);
        }
        assert_int_equal((char *)b.kept[1].data - (char *)b.kept[0].data,
                         rig_address(&b.r, &t) - rig_address(&b.r, &s));
        memset(b.kept[0].data, round, BYTES); /* may be mapped at another address */
        is_byte(rig_address(&b.r, &s), (unsigned char)round, BYTES);
        assert_int_equal(rig_info(&b.r, held).heap_bytes, 2 * BYTES);
        must_wait(&b, OFFLOADED(&b, b.copy, pto_input(&t), pto_output(&x.t[0])));
        expect_ok(pto_scope_end(b.r.rt));
        for (int i = 0; i < 50; i++) { /* other tasks take all free memory */
            expect_ok(pto_scope_begin(b.r.rt));
            pto_tensor u = rig_temp(&b.r, 1000);
            expect_ok(pto_submit(b.r.rt, b.fill, pto_output(&u), pto_scalar(77)));
            expect_ok(pto_scope_end(b.r.rt));
        }
        memset(b.kept[1].data, 40 + round, BYTES);
        expect_ok(pto_task_complete(b.r.rt, held, PTO_OK));
        finish(&b);
        is_byte(x.byte[0], (unsigned char)(40 + round), BYTES);
    }
    rig_stop(&b.r);
}

/* ---- What a kernel and the program may do ---------------------------------------------------- */

static void test_cancels(void **state)
{
    bench b;
    tiles x;
    start_with(&b, &x, state, NULL);
    for (int say = 0; say < 2; say++) {
        learn(&b, b.act);
        finish(&b);
        const pto_runtime_stats before = rig_stats(&b.r);
        const pto_task held = RIG_SUBMIT(&b.r, b.r.hold, pto_inout(&x.t[1]));
        rig_until(&b.r, held, PTO_TASK_RUNNING);
        const pto_task waits = OFFLOADED(&b, b.bump, pto_inout(&x.t[1]));
        const pto_task task = INLINE(&b, b.act, pto_inout(&x.t[0]),
                                     pto_scalar(say ? CANCEL_AND_SAY : CANCEL));
        is_done(&b, task);
        assert_true(pto_is_cancelled(b.r.rt));
        expect_fail(pto_submit(b.r.rt, b.bump, pto_inout(&x.t[0])), PTO_CANCELLED, "cancelled");
        expect_ok(pto_task_complete(b.r.rt, held, PTO_OK));
        expect_fail(pto_wait(b.r.rt), PTO_CANCELLED, "");
        const pto_runtime_stats now = rig_stats(&b.r);
        assert_int_equal(now.skipped - before.skipped, 1 + say);
        assert_int_equal(now.completed - before.completed, 3);
        assert_int_equal(now.submitted - before.submitted, 3);
        (void)waits;
        expect_ok(pto_check(b.r.rt));
        expect_ok(pto_clear_error(b.r.rt));
        RIG_SUBMIT_BARE(&b.r, b.bump);
        finish(&b);
        is_done(&b, INLINE(&b, b.bump, pto_inout(&x.t[0])));
        finish(&b);
        is_byte(x.byte[0], (unsigned char)(say + 1), BYTES);
        is_byte(x.byte[1], 0, BYTES);
    }
    rig_stop(&b.r);
}

static void test_must_not_submit(void **state)
{
    bench b;
    tiles x;
    start_with(&b, &x, state, NULL);
    for (int i = 0; i < 3; i++) {
        const uint64_t before = rig_stats(&b.r).submitted;
        b.refused = PTO_OK;
        is_done(&b, INLINE(&b, b.act, pto_inout(&x.t[0]), pto_scalar(SUBMIT)));
        assert_int_equal(b.refused, PTO_WRONG_THREAD);
        finish(&b);
        assert_int_equal(rig_stats(&b.r).submitted - before, 1);
    }
    rig_stop(&b.r);
}

/* The report of an inline task, as long as a scope holds it. */
static void test_its_handle(void **state)
{
    bench b;
    tiles x;
    start_with(&b, &x, state, NULL);
    expect_ok(pto_scope_begin(b.r.rt));
    expect_ok(pto_scope_begin(b.r.rt));
    pto_tensor t = rig_temp(&b.r, BYTES), got;
    const uint64_t order = rig_stats(&b.r).submitted;
    const int line = __LINE__ + 1;
    const pto_task task = INLINE(&b, b.fill, pto_output(&t), pto_inout(&x.t[0]), pto_scalar(2));
    is_done(&b, task);
    pto_task_report info = rig_info(&b.r, task);
    assert_int_equal(info.state, PTO_TASK_COMPLETED);
    assert_int_equal(info.order, order);
    assert_int_equal(info.level, 0);
    assert_string_equal(info.kernel, "fill");
    assert_non_null(strstr(info.file, "test_inline_ends.c"));
    assert_int_equal(info.line, line);
    assert_int_equal(info.type, PTO_VECTOR);
    assert_int_equal(info.fanin_count, 0);
    assert_int_equal(info.fanin_left, 0);
    assert_int_equal(info.fanout_count, 2);
    assert_int_equal(info.fanout_left, 2);
    assert_int_equal(info.heap_bytes, BYTES);
    assert_false(info.failed);
    assert_false(info.skipped);
    expect_ok(pto_wait_task(b.r.rt, task));
    expect_fail(pto_task_complete(b.r.rt, task, PTO_OK), PTO_BAD_TASK, "complete");
    /* A task that uses its memory holds it. */
    if (!b.can) {
        finish(&b);
    }
    const pto_task reads = INLINE(&b, b.is, pto_input(&t), pto_scalar(2));
    is_done(&b, reads);
    const pto_task held = RIG_SUBMIT(&b.r, b.r.hold, pto_input(&t));
    assert_int_equal(rig_info(&b.r, task).fanout_left, 3);
    expect_ok(pto_scope_end(b.r.rt));
    assert_int_equal(rig_info(&b.r, task).fanout_left, 2);
    expect_ok(pto_scope_end(b.r.rt));
    assert_int_equal(rig_info(&b.r, task).state, PTO_TASK_COMPLETED);
    rig_finish(&b.r, held, PTO_OK);
    rig_until(&b.r, task, PTO_TASK_CONSUMED);
    expect_ok(pto_wait_task(b.r.rt, task));
    expect_fail(pto_task_get_output(b.r.rt, task, 0, &got), PTO_BAD_TASK, "recycled");
    expect_fail(pto_wait_task(b.r.rt, task + 8000), PTO_BAD_TASK, "");
    /* pto_after a task that failed. */
    finish(&b);
    learn(&b, b.act);
    const pto_task bad = INLINE(&b, b.act, pto_inout(&x.t[0]), pto_scalar(FAIL));
    pto_task next;
    const uint64_t skipped = rig_stats(&b.r).skipped;
    (void)submit(&b, &next, b.bump, PARAMS(pto_after(bad), pto_inout(&x.t[1])), __LINE__);
    expect_fail(pto_wait_task(b.r.rt, bad), PTO_TASK_FAILED, "bad luck");
    expect_fail(pto_wait_task(b.r.rt, next), PTO_TASK_FAILED, "bad luck");
    (void)submit(&b, &next, b.bump, PARAMS(pto_after(bad), pto_inout(&x.t[2])), __LINE__);
    expect_fail(pto_wait_task(b.r.rt, next), PTO_TASK_FAILED, "bad luck");
    assert_int_equal(rig_stats(&b.r).skipped - skipped, 2);
    expect_ok(pto_clear_error(b.r.rt));
    rig_stop(&b.r);
}

/* The memory that it brought can be queried until its scope ends; it is recycled itself. */
static void test_its_outputs(void **state)
{
    bench b;
    tiles x;
    start_with(&b, &x, state, NULL);
    for (int i = 0; i < 100; i++) {
        pto_tensor t, u, got;
        expect_ok(pto_scope_begin_ex(b.r.rt, i & 1 ? PTO_SCOPE_BOUNDARY : 0));
        RIG_SUBMIT_BARE(&b.r, b.fill); /* on this level submit checks for room first */
        t = rig_temp(&b.r, BYTES);
        u = rig_temp(&b.r, BYTES);
        expect_ok(pto_submit(b.r.rt, b.fill, pto_output(&u), pto_scalar(1)));
        finish(&b);
        const pto_task task = INLINE(&b, b.fill, pto_output(&t), pto_inout(&x.t[i % 8]),
                                     pto_scalar(2));
        is_done(&b, task);
        expect_ok(pto_task_get_output(b.r.rt, task, 0, &got));
        assert_memory_equal(&got, &t, sizeof t);
        if (b.can) {
            expect_fail(pto_task_get_output(b.r.rt, task, 1, &got), PTO_BAD_TASK, "recycled");
            expect_fail(pto_task_get_output(b.r.rt, task, 2, &got), PTO_BAD_TASK, "recycled");
        }
        const pto_task bumped = INLINE(&b, b.bump, pto_inout(&u));
        if (b.can) {
            expect_fail(pto_task_get_output(b.r.rt, bumped, 0, &got), PTO_BAD_TASK, "recycled");
        }
        expect_ok(pto_check(b.r.rt));
        expect_ok(pto_scope_end(b.r.rt));
        finish(&b);
    }
    rig_stop(&b.r);
}

int main(void)
{
    const rig_case cases[] = {
        RIG_CASE_ONE_PROCESS(test_fails, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_fails_with_managed_memory, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_pending, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_completed_before_it_returned, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_completed_as_it_returns, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_pending_brings, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_cancels, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_must_not_submit, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_its_handle, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_its_outputs, "inline execution"),
    };
    return rig_run("inline_ends", cases, sizeof cases / sizeof *cases);
}
