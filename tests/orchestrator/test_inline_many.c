/* test_inline_many.c - tasks that come after others, that name tensors which are not ordered, that have many
 * parameters, or that meet a full task ring: inline execution, and the walk that publishes them. */
#include "inline.h"

#include "orchestrator/runtime.h"

/* ---- pto_after ------------------------------------------------------------------------------ */

/* A task that is complete is nothing to wait for. */
static void test_after(void **state)
{
    bench b;
    tiles x;
    start_with(&b, &x, state, NULL);
    const pto_task first = INLINE(&b, b.bump, pto_inout(&x.t[0]));
    is_done(&b, first);
    const pto_task held = RIG_SUBMIT(&b.r, b.r.hold, pto_inout(&x.t[1]));
    const pto_task kept = INLINE(&b, b.bump, pto_inout(&x.t[2])); /* it keeps its slot */
    is_done(&b, kept);
    for (unsigned char i = 0; i < 5; i++) { /* no argument of the kernel, wherever it stands */
        is_done(&b, INLINE(&b, b.fill, pto_after(first), pto_output(&x.t[3]), pto_after(kept),
                           pto_output(&x.t[4]), pto_scalar(i), pto_after(kept)));
        is_byte(x.byte[3], i, BYTES);
        is_byte(x.byte[4], (unsigned char)(i + 1), BYTES);
        is_done(&b, INLINE(&b, b.act, pto_after(first)));
    }
    must_wait(&b, OFFLOADED(&b, b.bump, pto_inout(&x.t[5]), pto_after(kept), pto_after(held)));
    expect_ok(pto_scope_begin_ex(b.r.rt, PTO_SCOPE_BOUNDARY)); /* from another level */
    is_done(&b, INLINE(&b, b.act, pto_after(first), pto_scalar(NOTHING)));
    const pto_task waits = OFFLOADED(&b, b.fill, pto_after(first), pto_output(&x.t[6]),
                                     pto_after(held), pto_scalar(9));
    must_wait(&b, waits);
    expect_ok(pto_scope_end(b.r.rt));
    rig_finish(&b.r, held, PTO_OK);
    finish(&b);
    is_byte(x.byte[6], 9, BYTES);
    is_done(&b, INLINE(&b, b.bump, pto_inout(&x.t[5]), pto_after(held), pto_after(waits)));
    finish(&b);
    is_byte(x.byte[5], 2, BYTES);
    rig_stop(&b.r);
}

/* Handles that name no task are refused, on every path. */
static void test_after_nobody(void **state)
{
    bench b;
    tiles x;
    start_with(&b, &x, state, NULL);
    const pto_task done = INLINE(&b, b.act, pto_scalar(NOTHING));
    for (int held = 0; held < 2; held++) {
        const pto_task other = held ? RIG_SUBMIT(&b.r, b.r.hold, pto_inout(&x.t[1])) : 0;
        const pto_task last = pto_last_task(b.r.rt);
        const pto_task wrong[] = {0, last + 8, last | 7, UINT64_MAX, last ^ UINT64_C(1) << 63};
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            expect_fail(pto_submit(b.r.rt, b.bump, pto_inout(&x.t[held]), pto_after(wrong[i])),
                        PTO_BAD_TASK, "submit: parameter 1");
        }
        if (held) {
            rig_finish(&b.r, other, PTO_OK);
        }
        finish(&b);
        is_byte(x.byte[held], 0, BYTES);
    }
    INLINE(&b, b.bump, pto_inout(&x.t[0]), pto_after(done));
    finish(&b);
    rig_stop(&b.r);
}

/* The failure of a task without outputs leaves no bad memory, so that nothing but the number of the task says it. */
static void test_after_a_failure(void **state)
{
    bench b;
    tiles x;
    start_with(&b, &x, state, NULL);
    pto_task next;
    const pto_task bad = INLINE(&b, b.act, pto_scalar(FAIL));
    expect_fail(pto_wait_task(b.r.rt, bad), PTO_TASK_FAILED, "bad luck");
    expect_fail(pto_wait(b.r.rt), PTO_TASK_FAILED, "bad luck");
    for (int i = 0; i < 3; i++) { /* none of them runs */
        (void)submit(&b, &next, b.bump, PARAMS(pto_inout(&x.t[i]), pto_after(bad)), __LINE__);
        expect_fail(pto_wait_task(b.r.rt, next), PTO_TASK_FAILED, "bad luck");
        assert_true(i > 0 || rig_info(&b.r, next).skipped);
        (void)submit(&b, &next, b.bump, PARAMS(pto_after(next), pto_inout(&x.t[i + 3])), __LINE__);
        expect_fail(pto_wait_task(b.r.rt, next), PTO_TASK_FAILED, "bad luck");
    }
    assert_int_equal(rig_stats(&b.r).skipped, 6);
    for (int i = 0; i < 6; i++) {
        is_byte(x.byte[i], 0, BYTES);
    }
    expect_ok(pto_clear_error(b.r.rt));
    is_done(&b, INLINE(&b, b.bump, pto_inout(&x.t[0]), pto_after(bad)));
    finish(&b);
    is_byte(x.byte[0], 1, BYTES);
    rig_stop(&b.r);
}

/* An edge with two reasons counts for the data, as in the slow path; one with many `after`s is one edge. */
static void test_edges_of_after(void **state)
{
    enum { MANY = 200 };
    bench b;
    tiles x;
    start_with(&b, &x, state, NULL);
    const pto_task held = RIG_SUBMIT(&b.r, b.r.hold, pto_inout(&x.t[0]));
    const pto_runtime_stats before = rig_stats(&b.r);
    must_wait(&b, OFFLOADED(&b, b.is, pto_after(held), pto_input(&x.t[0]), pto_after(held),
                            pto_scalar(0)));
    pto_runtime_stats now = rig_stats(&b.r);
    if (b.can) {
        assert_int_equal(now.raw - before.raw, 1);
        assert_int_equal(now.after - before.after, 0);
    }
    pto_param params[MANY];
    for (int i = 0; i < MANY; i++) {
        params[i] = pto_after(i % 2 ? held
                                    : must(&b, false, b.act, PARAMS(pto_after(held)), __LINE__));
    }
    const pto_task all = must(&b, false, b.act, params, MANY, __LINE__);
    if (b.can) {
        assert_int_equal(rig_info(&b.r, all).fanin_left, MANY / 2 + 1);
    }
    expect_ok(pto_scope_begin(b.r.rt)); /* its memory is the first argument, not the second */
    pto_tensor t = rig_temp(&b.r, BYTES);
    OFFLOADED(&b, b.fill, pto_after(held), pto_output(&t), pto_scalar(5));
    rig_finish(&b.r, held, PTO_OK);
    finish(&b);
    is_byte(rig_address(&b.r, &t), 5, BYTES);
    now = rig_stats(&b.r);
    assert_true(!b.can || now.after - before.after == MANY / 2 + MANY / 2 + 1 + 1);
    expect_ok(pto_scope_end(b.r.rt));
    rig_stop(&b.r);
}

/* ---- pto_nodep ------------------------------------------------------------------------------ */

static void test_nodep(void **state)
{
    bench b;
    tiles x;
    start_with(&b, &x, state, NULL);
    const pto_task held = RIG_SUBMIT(&b.r, b.r.hold, pto_inout(&x.t[0]));
    for (int i = 0; i < 3; i++) { /* it does not wait for whom it would conflict with */
        is_done(&b, INLINE(&b, b.bump, pto_inout(&x.t[1]), pto_nodep(pto_inout(&x.t[0]))));
    }
    must_wait(&b, OFFLOADED(&b, b.bump, pto_inout(&x.t[0]), pto_nodep(pto_inout(&x.t[1]))));
    /* A view that the map does not know, and stays unknown. */
    pto_tensor part = rig_slice(&x.t[2], 5, 9);
    is_done(&b, INLINE(&b, b.fill, pto_nodep(pto_output(&part)), pto_scalar(7)));
    is_done(&b, INLINE(&b, b.copy, pto_nodep(pto_input(&x.t[2])), pto_output(&x.t[3])));
    rig_finish(&b.r, held, PTO_OK);
    finish(&b);
    is_byte(x.byte[0], 4, BYTES);
    is_byte(x.byte[1], 4, BYTES);
    is_byte(x.byte[3], 0, 5);
    is_byte(x.byte[3] + 5, 7, 4);
    is_byte(x.byte[3] + 9, 0, BYTES - 9);

    /* Managed memory, before a task that is ordered has used it and after. */
    expect_ok(pto_scope_begin(b.r.rt));
    pto_tensor t = rig_temp(&b.r, BYTES), half = rig_slice(&t, 32, 64), fresh = rig_temp(&b.r, 8);
    INLINE(&b, b.fill, pto_output(&t), pto_scalar(1));
    if (!b.can) {
        finish(&b);
    }
    for (int i = 0; i < 2; i++) {
        is_done(&b, INLINE(&b, b.bump, pto_nodep(pto_inout(&half))));
        is_done(&b, INLINE(&b, b.copy, pto_nodep(pto_input(&t)), pto_output(&x.t[4])));
        is_byte(x.byte[4], (unsigned char)(1 + i), 32);
        is_byte(x.byte[4] + 32, (unsigned char)(2 + 2 * i), 32);
        pto_task task;
        (void)submit(&b, &task, b.bump, PARAMS(pto_inout(&t)), __LINE__);
        expect_ok(pto_wait_task(b.r.rt, task));
    }
    /* Its first writer is ordered, or brings memory that the map never knows. */
    expect_fail(pto_submit(b.r.rt, b.bump, pto_nodep(pto_input(&fresh))), PTO_NOT_WRITTEN, "");
    OFFLOADED(&b, b.fill, pto_nodep(pto_output(&fresh)), pto_scalar(3));
    finish(&b);
    is_byte(rig_address(&b.r, &fresh), 3, 8);
    pto_tensor wrong = t;
    wrong.storage_bytes++;
    expect_fail(pto_submit(b.r.rt, b.bump, pto_nodep(pto_input(&wrong))), PTO_OUT_OF_BOUNDS, "");
    wrong = t;
    wrong.device = (pto_device){PTO_DEVICE_SIM, 0};
    expect_fail(pto_submit(b.r.rt, b.bump, pto_nodep(pto_input(&wrong))), PTO_BAD_DEVICE, "");
    wrong = t;
    wrong.version++;
    expect_fail(pto_submit(b.r.rt, b.bump, pto_nodep(pto_input(&wrong))), PTO_BAD_VERSION, "");
    expect_ok(pto_scope_end(b.r.rt));
    expect_fail(pto_submit(b.r.rt, b.bump, pto_nodep(pto_input(&t))), PTO_STALE, "");
    wrong = x.t[0];
    wrong.shape[0] = 1000;
    expect_fail(pto_submit(b.r.rt, b.bump, pto_nodep(pto_input(&wrong))), PTO_OUT_OF_BOUNDS, "");
    expect_fail(pto_submit(b.r.rt, b.bump, (pto_param){.kind = PTO_PARAM_INPUT, .nodep = 1}),
                PTO_NULL_ARGUMENT, "");
    finish(&b);
    rig_stop(&b.r);
}

/* A watcher changes nothing, and finds the arguments in the window. */
static void test_watched(void **state)
{
    bench b;
    tiles x;
    start_with(&b, &x, state, NULL);
    const pto_task held = RIG_SUBMIT(&b.r, b.r.hold, pto_inout(&x.t[0]));
    const pto_task done = INLINE(&b, b.bump, pto_inout(&x.t[1]));
    is_done(&b, done);
    pto_runtime *rt = b.r.rt;
    rt->watched = true; /* as with a trace; the held task is why the slot stays */
    const pto_task task = INLINE(&b, b.fill, pto_after(done), pto_output(&x.t[2]),
                                 pto_nodep(pto_output(&x.t[0])), pto_after(done), pto_scalar(4));
    rt->watched = false;
    is_done(&b, task);
    const ptoi_slot *slot = ptoi_slot_of(&rt->view, 0, task >> 3);
    const ptoi_arg_desc *arg = rt->view.level[0].args + slot->args;
    assert_int_equal(slot->n_args, 3);
    assert_int_equal(arg[0].access, PTO_PARAM_OUTPUT);
    assert_int_equal(arg[1].access, PTO_PARAM_OUTPUT | PTOI_ARG_NODEP);
    assert_int_equal(arg[2].access, PTO_PARAM_SCALAR);
    assert_int_equal(arg[2].value, 4);
    rig_finish(&b.r, held, PTO_OK);
    finish(&b);
    is_byte(x.byte[0], 5, BYTES);
    rig_stop(&b.r);
}

/* ---- Many parameters ------------------------------------------------------------------------ */

enum { MOST = 64 };

/* Buffers whose memory one task brings, behind the first 32 parameters, too. */
static void test_brings_many(void **state)
{
    bench b;
    tiles x;
    start_with(&b, &x, state, NULL);
    for (int n = 1; n < MOST; n += 31) {
        expect_ok(pto_scope_begin(b.r.rt));
        pto_tensor t[MOST];
        pto_param params[MOST];
        for (int i = 0; i < n; i++) {
            t[i] = rig_temp(&b.r, BYTES);
            params[i] = pto_output(&t[i]);
        }
        params[n] = pto_scalar(100);
        is_done(&b, must(&b, b.can, b.fill, params, (size_t)n + 1, __LINE__));
        for (int round = 0; round < 2; round++) { /* unmapped if it ran inline, and then known */
            for (int i = 0; i < n; i++) {
                is_byte(rig_address(&b.r, &t[i]), (unsigned char)(100 + i + round), BYTES);
                params[i] = pto_inout(&t[i]);
            }
            is_done(&b, must(&b, b.can, b.bump, params, (size_t)n, __LINE__));
        }
        expect_ok(pto_check(b.r.rt));
        expect_ok(pto_scope_end(b.r.rt));
        finish(&b);
    }
    assert_int_equal(rig_stats(&b.r).level[0].ring[PTO_RING_HEAP].used, 0);
    rig_stop(&b.r);
}

/* A kernel with many arguments fails, or is pending: the task is recorded as if it had been offloaded. */
static void test_wide_ends(void **state)
{
    bench b;
    tiles x;
    start_with(&b, &x, state, NULL);
    pto_param params[MOST];
    pto_task task, next;
    for (int i = 0; i < MOST; i++) {
        params[i] = pto_inout(&x.t[i % TILES]);
    }
    params[MOST - 2] = pto_after(INLINE(&b, b.bump, pto_inout(&x.t[0])));
    params[MOST - 1] = pto_scalar(PEND);
    finish(&b);
    task = must(&b, b.can, b.act, params, MOST, __LINE__);
    (void)submit(&b, &next, b.bump, PARAMS(pto_inout(&x.t[19])), __LINE__);
    while (!atomic_load(&b.pended)) {
    }
    assert_ptr_equal(b.kept[59].data, x.byte[19]);
    assert_int_equal(b.kept[62].i64, PEND);
    assert_true(rig_info(&b.r, next).state < PTO_TASK_COMPLETED);
    expect_ok(pto_task_complete(b.r.rt, task, PTO_OK));
    finish(&b);
    is_byte(x.byte[19], 1, BYTES);
    learn(&b, b.act);
    params[MOST - 1] = pto_scalar(FAIL);
    task = must(&b, b.can, b.act, params, MOST, __LINE__);
    (void)submit(&b, &next, b.bump, PARAMS(pto_inout(&x.t[19])), __LINE__);
    expect_fail(pto_wait_task(b.r.rt, next), PTO_TASK_FAILED, "bad luck");
    is_byte(x.byte[19], 1, BYTES);
    expect_ok(pto_clear_error(b.r.rt));
    finish(&b);
    rig_stop(&b.r);
}

/* ---- Full rings ----------------------------------------------------------------------------- */

/* Tasks whose kernel nobody has timed yet fill a small ring. The next ones run inline all the same. */
static void test_full_rings(void **state)
{
    enum { TASKS = 400, SLOTS = 3 };
    static const uint32_t slots[SLOTS] = {2, 4, 16};
    for (int i = 0; i < 2 * SLOTS; i++) {
        bench b;
        tiles x;
        pto_config config = PTO_CONFIG_INIT;
        config.ring_tasks = slots[i / 2];
        config.workers = PTO_NO_WORKERS;
        start(&b, state, &config);
        memset(&x, 0, sizeof x);
        for (int k = 0; k < TILES; k++) {
            x.t[k] = rig_bytes(&b.r, x.byte[k], BYTES);
        }
        for (int k = 0; k < TASKS; k++) { /* a chain; or tasks that wait for nothing */
            expect_ok(pto_submit(b.r.rt, b.bump, pto_inout(&x.t[i % 2 ? 0 : k % TILES])));
        }
        assert_true(rig_stats(&b.r).inlined >= (b.can ? TASKS - 2 * slots[i / 2] - TILES : 0));
        finish(&b);
        for (int k = 0; k < (i % 2 ? 1 : TILES); k++) {
            is_byte(x.byte[k], (unsigned char)(i % 2 ? TASKS : TASKS / TILES), BYTES);
        }
        rig_stop(&b.r);
    }
}

int main(void)
{
    const rig_case cases[] = {
        RIG_CASE_ONE_PROCESS(test_after, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_after_nobody, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_after_a_failure, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_edges_of_after, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_nodep, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_watched, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_brings_many, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_wide_ends, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_full_rings, "inline execution"),
    };
    return rig_run("inline many", cases, sizeof cases / sizeof *cases);
}
