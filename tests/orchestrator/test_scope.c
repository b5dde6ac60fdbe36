/* test_scope.c - scopes: the tasks they hold, the lifetime of memory, and how they end. */
#include "../runtime/rig.h"

/* ---- Counts ------------------------------------------------------------------------------- */

/* scope { A B scope { C D } }: each scope holds the tasks submitted inside it, once. */
static void test_each_scope_gives_back_one(void **state)
{
    rig r;
    pto_tensor t[4];
    pto_task a, b, c, d;
    rig_start(&r, state, NULL);
    expect_ok(pto_scope_begin(r.rt));
    for (int i = 0; i < 4; i++) {
        t[i] = rig_temp(&r, 100);
    }
    a = RIG_SUBMIT(&r, r.hold, pto_output(&t[0]));
    b = RIG_SUBMIT(&r, r.hold, pto_output(&t[1]));
    RIG_FANOUT(&r, a, 1, 1);
    RIG_FANOUT(&r, b, 1, 1);
    expect_ok(pto_scope_begin(r.rt));
    c = RIG_SUBMIT(&r, r.hold, pto_output(&t[2]));
    d = RIG_SUBMIT(&r, r.hold, pto_output(&t[3]));
    RIG_FANOUT(&r, c, 2, 2);
    RIG_FANOUT(&r, d, 2, 2);

    expect_ok(pto_scope_end(r.rt));
    RIG_FANOUT(&r, a, 1, 1);
    RIG_FANOUT(&r, b, 1, 1);
    RIG_FANOUT(&r, c, 2, 1);
    RIG_FANOUT(&r, d, 2, 1);
    rig_finish(&r, c, PTO_OK);
    RIG_FANOUT(&r, c, 2, 1);
    assert_int_equal(rig_info(&r, c).state, PTO_TASK_COMPLETED);

    expect_ok(pto_scope_end(r.rt));
    RIG_FANOUT(&r, a, 1, 0);
    RIG_FANOUT(&r, b, 1, 0);
    RIG_FANOUT(&r, d, 2, 0);
    assert_int_equal(rig_info(&r, a).state, PTO_TASK_RUNNING);
    rig_finish(&r, a, PTO_OK);
    rig_until(&r, a, PTO_TASK_CONSUMED);
    rig_finish(&r, b, PTO_OK);
    rig_finish(&r, d, PTO_OK);
    rig_until(&r, b, PTO_TASK_CONSUMED);
    rig_until(&r, c, PTO_TASK_CONSUMED);
    rig_until(&r, d, PTO_TASK_CONSUMED);
    rig_stop(&r);
}

/* A task that completed before its scope ended is recycled with the scope. */
static void test_the_last_scope_takes_what_is_complete(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    expect_ok(pto_scope_begin(r.rt));
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor t = rig_temp(&r, 64);
    pto_task task = RIG_SUBMIT(&r, r.quick, pto_output(&t));
    expect_ok(pto_wait(r.rt));
    RIG_FANOUT(&r, task, 2, 2);
    assert_int_equal(rig_info(&r, task).state, PTO_TASK_COMPLETED);
    expect_ok(pto_scope_end(r.rt));
    RIG_FANOUT(&r, task, 2, 1);
    expect_ok(pto_scope_end(r.rt));
    rig_until(&r, task, PTO_TASK_CONSUMED);
    rig_stop(&r);
}

/* Scopes hold memory: a task without managed memory is consumed once it and all before it on its
 * level are complete. */
static void test_scopes_do_not_hold_tasks(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    char *memory = rig_memory(&r, 8);
    pto_tensor t = rig_bytes(&r, memory, 8);
    pto_task free_one = RIG_SUBMIT(&r, r.hold, pto_output(&t));
    RIG_FANOUT(&r, free_one, 0, 0);
    expect_ok(pto_scope_begin(r.rt));
    pto_task held = RIG_SUBMIT(&r, r.quick, pto_inout(&t));
    pto_task reader = RIG_SUBMIT(&r, r.quick, pto_input(&t));
    RIG_FANOUT(&r, held, 0, 0); /* the reader waits for it, and holds no memory of it */
    rig_finish(&r, free_one, PTO_OK);
    rig_until(&r, free_one, PTO_TASK_CONSUMED);
    expect_ok(pto_wait(r.rt));
    assert_int_equal(rig_info(&r, held).state, PTO_TASK_CONSUMED);
    assert_int_equal(rig_info(&r, reader).state, PTO_TASK_CONSUMED);
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

/* A boundary scope is a separate lifetime, on the next level. */
static void test_a_boundary_counts_from_itself(void **state)
{
    rig r;
    pto_config config = PTO_CONFIG_INIT;
    config.levels = 3;
    rig_start(&r, state, &config);
    static const struct {
        uint32_t flags, level, count;
    } nest[] = {
        {0, 0, 1},
        {0, 0, 2},
        {PTO_SCOPE_BOUNDARY, 1, 1},
        {0, 1, 2},
        {0, 1, 3},
        {PTO_SCOPE_BOUNDARY, 2, 1},
        {PTO_SCOPE_BOUNDARY, 2, 1}, /* shares the last level */
        {0, 2, 2},
    };
    enum { DEPTH = sizeof nest / sizeof *nest };
    pto_task task[DEPTH];
    for (uint32_t i = 0; i < DEPTH; i++) {
        expect_ok(pto_scope_begin_ex(r.rt, nest[i].flags));
        assert_int_equal(pto_get_scope_depth(r.rt), i + 1);
        pto_tensor t = rig_temp(&r, 64);
        task[i] = RIG_SUBMIT(&r, r.hold, pto_output(&t));
        assert_int_equal(rig_info(&r, task[i]).level, nest[i].level);
        assert_int_equal(task[i] & 7, nest[i].level);
        RIG_FANOUT(&r, task[i], nest[i].count, nest[i].count);
    }
    for (uint32_t end = DEPTH; end-- > 0;) {
        expect_ok(pto_scope_end(r.rt));
        assert_int_equal(pto_get_scope_depth(r.rt), end);
        /* Of each lifetime, the scopes that are still open. */
        for (uint32_t i = 0; i < DEPTH; i++) {
            uint32_t first = i + 1 - nest[i].count;
            uint32_t left = end <= first ? 0 : (end < i + 1 ? end - first : nest[i].count);
            RIG_FANOUT(&r, task[i], nest[i].count, left);
        }
    }
    for (uint32_t i = 0; i < DEPTH; i++) {
        rig_finish(&r, task[i], PTO_OK);
    }
    for (uint32_t i = 0; i < DEPTH; i++) {
        rig_until(&r, task[i], PTO_TASK_CONSUMED);
    }
    rig_stop(&r);
}

/* Any depth works, and every scope counts. */
static void test_deep_nests(void **state)
{
    enum { DEPTH = 5000 };
    rig r;
    rig_start(&r, state, NULL);
    for (uint32_t i = 0; i < DEPTH; i++) {
        expect_ok(pto_scope_begin(r.rt));
    }
    assert_int_equal(pto_get_scope_depth(r.rt), DEPTH);
    assert_int_equal(rig_stats(&r).scope_depth, DEPTH);
    pto_tensor t = rig_temp(&r, 64);
    pto_task task = RIG_SUBMIT(&r, r.quick, pto_output(&t));
    expect_ok(pto_wait(r.rt));
    for (uint32_t i = DEPTH; i > 0; i--) {
        RIG_FANOUT(&r, task, DEPTH, i);
        expect_ok(pto_scope_end(r.rt));
    }
    rig_until(&r, task, PTO_TASK_CONSUMED);
    assert_int_equal(rig_stats(&r).scope_depth, 0);

    for (uint32_t i = 0; i < DEPTH; i++) {
        expect_ok(pto_scope_begin_ex(r.rt, i % 2 ? PTO_SCOPE_BOUNDARY : 0));
    }
    t = rig_temp(&r, 64);
    task = RIG_SUBMIT(&r, r.hold, pto_output(&t));
    RIG_FANOUT(&r, task, 1, 1);
    expect_ok(pto_scope_end(r.rt));
    RIG_FANOUT(&r, task, 1, 0);
    rig_finish(&r, task, PTO_OK);
    rig_until(&r, task, PTO_TASK_CONSUMED);
    for (uint32_t i = 1; i < DEPTH; i++) {
        expect_ok(pto_scope_end(r.rt));
    }
    rig_stop(&r);
}

/* ---- Lifetimes ---------------------------------------------------------------------------- */

/* Memory of a lifetime lives until its outermost scope ends. */
static void test_memory_dies_with_its_lifetime(void **state)
{
    rig r;
    unsigned char got[16];
    rig_start(&r, state, NULL);
    expect_ok(pto_scope_begin(r.rt));
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor plain = rig_temp(&r, 16);
    RIG_SUBMIT(&r, r.fill, pto_output(&plain), pto_scalar(7));
    expect_ok(pto_scope_begin_ex(r.rt, PTO_SCOPE_BOUNDARY));
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor inner = rig_temp(&r, 16);
    RIG_SUBMIT(&r, r.copy, pto_input(&plain), pto_output(&inner));
    expect_ok(pto_scope_end(r.rt));
    RIG_SUBMIT(&r, r.quick, pto_input(&inner)); /* its boundary is open */
    expect_ok(pto_scope_end(r.rt));
    expect_fail(pto_submit(r.rt, r.quick, pto_input(&inner)), PTO_STALE, "submit");
    expect_fail(pto_read(r.rt, &inner, got, sizeof got), PTO_STALE, "read");
    expect_ok(pto_scope_end(r.rt));
    RIG_SUBMIT(&r, r.quick, pto_input(&plain)); /* so is the first scope */
    expect_ok(pto_read(r.rt, &plain, got, sizeof got));
    assert_int_equal(got[15], 7);
    expect_ok(pto_scope_end(r.rt));
    expect_fail(pto_submit(r.rt, r.quick, pto_input(&plain)), PTO_STALE, "submit");
    rig_stop(&r);
}

/* A later scope at the same depth is another lifetime: old memory does not become valid again. */
static void test_another_scope_is_another_lifetime(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    for (uint32_t flags = 0; flags <= PTO_SCOPE_BOUNDARY; flags++) {
        expect_ok(pto_scope_begin_ex(r.rt, flags));
        pto_tensor t = rig_temp(&r, 16), never_written = rig_temp(&r, 16);
        pto_task writer = RIG_SUBMIT(&r, r.hold, pto_output(&t));
        expect_ok(pto_scope_end(r.rt));
        expect_ok(pto_scope_begin_ex(r.rt, flags));
        /* The writer still runs and the bytes are still there, but the handle is refused. */
        expect_fail(pto_submit(r.rt, r.quick, pto_input(&t)), PTO_STALE, "submit");
        expect_fail(pto_submit(r.rt, r.quick, pto_nodep(pto_input(&t))), PTO_STALE, "submit");
        expect_fail(pto_submit(r.rt, r.quick, pto_output(&never_written)), PTO_STALE, "submit");
        void *address = NULL;
        expect_fail(pto_get_buffer_addr(r.rt, &t, &address), PTO_STALE, "addr");
        assert_null(address);
        expect_ok(pto_scope_end(r.rt));
        rig_finish(&r, writer, PTO_OK);
    }
    rig_stop(&r);
}

/* ---- Beginning and ending ----------------------------------------------------------------- */

static void test_unbalanced_ends_change_nothing(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    expect_fail(pto_scope_end(r.rt), PTO_BAD_SCOPE, "scope");
    assert_int_equal(pto_get_scope_depth(r.rt), 0);
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor t = rig_temp(&r, 16);
    pto_task task = RIG_SUBMIT(&r, r.quick, pto_output(&t));
    expect_ok(pto_scope_end(r.rt));
    expect_fail(pto_scope_end(r.rt), PTO_BAD_SCOPE, "scope");
    expect_fail(pto_scope_end(r.rt), PTO_BAD_SCOPE, "scope");
    rig_until(&r, task, PTO_TASK_CONSUMED);
    /* No count went below zero: the next scope works normally. */
    expect_ok(pto_scope_begin(r.rt));
    assert_int_equal(pto_get_scope_depth(r.rt), 1);
    t = rig_temp(&r, 16);
    task = RIG_SUBMIT(&r, r.quick, pto_output(&t));
    expect_ok(pto_wait(r.rt));
    RIG_FANOUT(&r, task, 1, 1);
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

static void test_unknown_flags(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    expect_fail(pto_scope_begin_ex(r.rt, 2), PTO_BAD_PARAM, "2");
    expect_fail(pto_scope_begin_ex(r.rt, UINT32_MAX), PTO_BAD_PARAM, "scope");
    expect_fail(pto_scope_begin(NULL), PTO_NULL_ARGUMENT, "scope");
    expect_fail(pto_scope_end(NULL), PTO_NULL_ARGUMENT, "scope");
    assert_int_equal(pto_get_scope_depth(r.rt), 0);
    assert_int_equal(pto_get_scope_depth(NULL), 0);
    expect_fail(pto_scope_end(r.rt), PTO_BAD_SCOPE, "scope");
    /* A scope without a file name is accepted. */
    expect_ok(pto_scope_begin_at(r.rt, 0, NULL, 0));
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

static void leave_by_return(rig *r)
{
    PTO_BOUNDARY(r->rt) {
        assert_int_equal(pto_get_scope_depth(r->rt), 2);
        return;
    }
}

/* Whether the inner block was left at its end. */
static bool leave_by_jump(rig *r, int i)
{
    bool at_end = false;
    PTO_SCOPE(r->rt) {
        if (i == 3) {
            break;
        }
        if (i == 4) {
            continue;
        }
        at_end = true;
    }
    return at_end;
}

/* The block ends its scope however it is left, and is skipped if the scope cannot begin. */
static void test_the_block(void **state)
{
    rig r;
    int rounds = 0;
    rig_start(&r, state, NULL);
    PTO_SCOPE(r.rt) {
        rounds++;
        assert_int_equal(pto_get_scope_depth(r.rt), 1);
    }
    assert_int_equal(rounds, 1);
    assert_int_equal(pto_get_scope_depth(r.rt), 0);
    for (int i = 0; i < 5; i++) {
        PTO_BOUNDARY(r.rt) {
            rounds += leave_by_jump(&r, i);
            assert_int_equal(pto_get_scope_depth(r.rt), 1);
        }
        assert_int_equal(pto_get_scope_depth(r.rt), 0);
    }
    assert_int_equal(rounds, 4);
    PTO_SCOPE(r.rt) {
        leave_by_return(&r);
        assert_int_equal(pto_get_scope_depth(r.rt), 1);
    }
    assert_int_equal(pto_get_scope_depth(r.rt), 0);
    PTO_SCOPE(r.rt) {
        goto out;
    }
out:
    assert_int_equal(pto_get_scope_depth(r.rt), 0);
    const int line = __LINE__ + 1;
    PTO_SCOPE_EX(r.rt, 99) {
        fail();
    }
    pto_refusal kept; /* a block that was skipped is not forgotten */
    assert_true(pto_refused(r.rt, &kept));
    assert_int_equal(kept.line, line);
    PTO_SCOPE(NULL) {
        fail();
    }
    assert_int_equal(pto_get_scope_depth(r.rt), 0);
    rig_stop(&r);
}

int main(void)
{
    const rig_case cases[] = {
        RIG_CASE(test_each_scope_gives_back_one),
        RIG_CASE(test_the_last_scope_takes_what_is_complete),
        RIG_CASE(test_scopes_do_not_hold_tasks),
        RIG_CASE(test_a_boundary_counts_from_itself),
        RIG_CASE(test_deep_nests),
        RIG_CASE(test_memory_dies_with_its_lifetime),
        RIG_CASE(test_another_scope_is_another_lifetime),
        RIG_CASE(test_unbalanced_ends_change_nothing),
        RIG_CASE(test_unknown_flags),
        RIG_CASE(test_the_block),
    };
    return rig_run("scope", cases, sizeof cases / sizeof *cases);
}
