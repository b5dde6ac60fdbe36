/* test_poison.c - poison is exact where the overlap budget runs out, and bounded, however many tasks
 * fail. */
#include "../runtime/rig.h"

#include "orchestrator/poison.h"

/* ---- Exact ----------------------------------------------------------------------------------- */

/* Two views in 5 dims that share no byte. The default budget does not suffice to see that. */
static void hard_views(unsigned char *bytes, uint64_t size, pto_tensor *a, pto_tensor *b)
{
    pto_overlap_result r;
    expect_ok(pto_tensor_init(a, bytes, size, PTO_UINT8, 5, DIMS(5, 4, 2, 4, 3),
                              DIMS(1179, 739, 2679, 2400, 554), 0));
    expect_ok(pto_tensor_init(b, bytes, size, PTO_UINT8, 5, DIMS(2, 7, 2, 7, 4),
                              DIMS(2147, 2884, 544, 954, 2159), 1533));
    expect_ok(pto_tensor_overlaps_ex(a, b, 0, &r));
    assert_int_equal(r.stage, PTO_STAGE_BUDGET);
    expect_ok(pto_tensor_overlaps_ex(a, b, UINT64_MAX, &r));
    assert_false(r.yes);
}

static bool ran(rig *r, pto_task task)
{
    pto_task_report report = rig_info(r, task);
    assert_true(report.state >= PTO_TASK_COMPLETED);
    return !report.skipped && !report.failed;
}

/* The writer fails before the reader is submitted, after that, or behind a pending one. */
static void test_undecided_overlaps_do_not_poison(void **state)
{
    enum { BYTES = 65536 };
    for (int when = 0; when < 3; when++) {
        rig r;
        pto_tensor a, b;
        rig_start(&r, state, NULL);
        unsigned char *bytes = rig_memory(&r, BYTES);
        hard_views(bytes, BYTES, &a, &b);
        expect_ok(pto_scope_begin(r.rt)); /* keeps reports of tasks that are complete */
        pto_task before = RIG_SUBMIT(&r, r.fill, pto_output(&b), pto_scalar(7));
        pto_task bad = RIG_SUBMIT(&r, when == 1 ? r.hold : r.fails, pto_output(&a));
        if (when == 0) {
            assert_int_equal(pto_wait(r.rt), PTO_TASK_FAILED);
        }
        pto_task reader = RIG_SUBMIT(&r, r.quick, pto_input(&b));
        pto_task changes = RIG_SUBMIT(&r, r.quick, pto_inout(&b));
        pto_task victim = RIG_SUBMIT(&r, r.quick, pto_input(&a));
        if (when == 1) {
            rig_finish(&r, bad, PTO_KERNEL_FAILED);
        }
        unsigned char got[2 * 7 * 2 * 7 * 4];
        expect_ok(pto_read(r.rt, &b, got, sizeof got));
        assert_int_equal(got[0], 7);
        expect_fail(pto_read(r.rt, &a, got, sizeof got), PTO_POISONED, "fail");
        assert_int_equal(pto_wait(r.rt), PTO_TASK_FAILED);
        assert_true(ran(&r, before));
        assert_true(ran(&r, reader));
        assert_true(ran(&r, changes));
        assert_false(ran(&r, victim));
        assert_true(rig_stats(&r).overlap_budget_hits > 0);
        expect_ok(pto_scope_end(r.rt));
        expect_ok(pto_clear_error(r.rt));
        rig_stop(&r);
    }
}

/* A view that covers another one. The default budget does not suffice to see that. */
static void test_undecided_covers_heal(void **state)
{
    enum { BYTES = 262144 };
    for (int late = 0; late < 2; late++) {
        rig r;
        pto_tensor all, part;
        pto_overlap_result hard;
        rig_start(&r, state, NULL);
        unsigned char *bytes = rig_memory(&r, BYTES);
        expect_ok(
            pto_tensor_init(&all, bytes, BYTES, PTO_UINT8, 2, DIMS(100, 100), DIMS(997, 1009), 0));
        expect_ok(pto_tensor_init(&part, bytes, BYTES, PTO_UINT8, 2, DIMS(80, 80), DIMS(997, 1009),
                                  5 * 997 + 3 * 1009));
        expect_ok(pto_tensor_covers_ex(&all, &part, 0, &hard));
        assert_int_equal(hard.stage, PTO_STAGE_BUDGET);
        expect_ok(pto_scope_begin(r.rt));
        pto_task bad = RIG_SUBMIT(&r, late ? r.hold : r.fails, pto_output(&part));
        if (!late) {
            assert_int_equal(pto_wait(r.rt), PTO_TASK_FAILED);
        }
        pto_task heals = RIG_SUBMIT(&r, r.quick, pto_output(&all));
        pto_task reader = RIG_SUBMIT(&r, r.quick, pto_input(&part));
        if (late) {
            rig_finish(&r, bad, PTO_KERNEL_FAILED);
        }
        assert_int_equal(pto_wait(r.rt), PTO_TASK_FAILED);
        assert_true(ran(&r, heals));
        assert_true(ran(&r, reader));
        unsigned char got[80 * 80];
        expect_ok(pto_read(r.rt, &part, got, sizeof got));
        expect_ok(pto_scope_end(r.rt));
        expect_ok(pto_clear_error(r.rt));
        rig_stop(&r);
    }
}

/* ---- Many ------------------------------------------------------------------------------------ */

enum { TILE = 16 };

/* Tasks that fail, each with a tile of its own, from tile `first` on. */
static void fail_tiles(rig *r, unsigned char *bytes, int first, int count)
{
    for (int i = first; i < first + count; i++) {
        pto_tensor t = rig_bytes(r, bytes + (size_t)i * TILE, TILE / 2);
        expect_ok(pto_submit(r->rt, r->fails, pto_output(&t)));
    }
    assert_int_equal(pto_wait(r->rt), PTO_TASK_FAILED);
}

static bool is_poisoned(rig *r, unsigned char *at)
{
    unsigned char got[TILE / 2];
    pto_tensor t = rig_bytes(r, at, TILE / 2);
    const pto_status s = pto_read(r->rt, &t, got, sizeof got);
    assert_true(s == PTO_OK || s == PTO_POISONED);
    return s == PTO_POISONED;
}

/* The thousandth failure costs as much as the first. */
static void test_failures_cost_the_same(void **state)
{
    enum { FEW = 5000, MANY = 4 * FEW };
    for (int many = 0; many < 2; many++) {
        rig r;
        rig_start(&r, state, NULL);
        unsigned char *bytes = rig_memory(&r, (uint64_t)MANY * TILE);
        fail_tiles(&r, bytes, 0, many ? MANY : FEW);
        /* What a failure costs is searches of the map of bad memory, and regions compared there. */
        pto_tensormap_stats s;
        expect_ok(pto_tensormap_get_stats(r.rt->poison.map, &s));
        assert_in_range(s.inserts, many ? MANY : FEW, many ? MANY : FEW);
        assert_true(s.searches <= 4 * s.inserts);
        assert_true(s.candidates <= 4 * s.inserts);
        for (int i = 0; i < FEW; i += 99) {
            assert_true(is_poisoned(&r, bytes + (size_t)i * TILE));
            assert_false(is_poisoned(&r, bytes + (size_t)i * TILE + TILE / 2));
        }
        expect_ok(pto_clear_error(r.rt));
        assert_false(is_poisoned(&r, bytes));
        rig_stop(&r);
    }
}

/* Up to the limit nothing else is poisoned. Beyond it all memory counts as poisoned, and that is
 * said and counted. */
static void test_more_failures_than_are_remembered(void **state)
{
    enum { MOST = PTOI_POISON_OUTPUTS, MORE = 100 };
    rig r;
    rig_start(&r, state, NULL);
    unsigned char *bytes = rig_memory(&r, (uint64_t)(MOST + MORE) * TILE);
    fail_tiles(&r, bytes, 0, MOST);
    assert_int_equal(rig_stats(&r).poison_lost, 0);
    pto_tensor free_tile = rig_bytes(&r, bytes + TILE / 2, TILE / 2);
    expect_ok(pto_wait_tensor(r.rt, &free_tile));
    pto_task good = RIG_SUBMIT(&r, r.quick, pto_input(&free_tile));
    expect_ok(pto_wait_task(r.rt, good));

    fail_tiles(&r, bytes, MOST, MORE);
    assert_int_equal(rig_stats(&r).poison_lost, MORE);
    expect_fail(pto_wait_tensor(r.rt, &free_tile), PTO_POISONED, "no room for more outputs",
                "pto_clear_error");
    expect_fail(pto_wait(r.rt), PTO_TASK_FAILED, "no room for more outputs", "pto_clear_error");
    expect_ok(pto_clear_error(r.rt));
    expect_ok(pto_wait_tensor(r.rt, &free_tile));
    assert_false(is_poisoned(&r, bytes));
    fail_tiles(&r, bytes, 0, 10); /* the room is back */
    assert_true(is_poisoned(&r, bytes));
    assert_int_equal(rig_stats(&r).poison_lost, MORE);
    expect_ok(pto_wait_tensor(r.rt, &free_tile));
    expect_ok(pto_clear_error(r.rt));
    rig_stop(&r);
}

/* A failed task keeps its slot only for tasks that came after it: a task before it, which takes its
 * time, does not fill the ring with failed ones. */
static void test_slots_of_failed_tasks_come_back(void **state)
{
    rig r;
    pto_config config = PTO_CONFIG_INIT;
    config.levels = 2;
    config.level_ring_tasks[1] = 8;
    rig_start(&r, state, &config);
    unsigned char *bytes = rig_memory(&r, 64);
    pto_tensor slow = rig_bytes(&r, bytes, 8), fast = rig_bytes(&r, bytes + 32, 8);
    pto_task holds = RIG_SUBMIT(&r, r.hold, pto_output(&slow));
    PTO_BOUNDARY(r.rt) {
        for (int i = 0; i < 100; i++) {
            expect_ok(pto_submit(r.rt, r.fails, pto_output(&fast)));
        }
        assert_true(rig_info(&r, holds).state < PTO_TASK_COMPLETED);
    }
    rig_finish(&r, holds, PTO_OK);
    assert_int_equal(pto_wait(r.rt), PTO_TASK_FAILED);
    assert_int_equal(rig_stats(&r).failed, 100);
    expect_ok(pto_clear_error(r.rt));
    rig_stop(&r);
}

/* The tensor is described whole, or the description says that it is not. */
static void test_long_descriptions(void **state)
{
    rig r;
    pto_tensor t;
    rig_start(&r, state, NULL);
    unsigned char *bytes = rig_memory(&r, 64);
    for (int huge = 0; huge < 2; huge++) {
        int64_t shape[8] = {1, 1, 1, 1, 1, 1, 1, 64}, strides[8];
        for (int d = 0; d < 7; d++) {
            strides[d] = huge ? INT64_C(-1000000000000000000) : 1000;
        }
        strides[7] = 1;
        expect_ok(pto_tensor_init(&t, bytes, 64, PTO_UINT8, 8, shape, strides, 0));
        expect_ok(pto_submit(r.rt, r.fails, pto_output(&t)));
        expect_fail(pto_wait_tensor(r.rt, &t), PTO_POISONED,
                    huge ? "... was to be written by" : " cpu:0 was to be written by",
                    "(kernel 'fails', submitted at ", "test_poison.c");
    }
    expect_ok(pto_clear_error(r.rt));
    rig_stop(&r);
}

/* Outputs that were written again, and buffers that are gone, need no room. */
static void test_room_comes_back(void **state)
{
    enum { ROUNDS = 1100, TILES = 100 };
    rig r;
    rig_start(&r, state, NULL);
    unsigned char *bytes = rig_memory(&r, TILES * TILE);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < TILES; i++) {
            pto_tensor t = rig_bytes(&r, bytes + i * TILE, TILE / 2);
            expect_ok(pto_submit(r.rt, r.fails, pto_output(&t)));
        }
        PTO_BOUNDARY(r.rt) {
            pto_tensor t;
            expect_ok(pto_temp(r.rt, PTO_UINT8, 1, DIMS(8), &t));
            expect_ok(pto_submit(r.rt, r.fails, pto_output(&t)));
        }
    }
    assert_int_equal(pto_wait(r.rt), PTO_TASK_FAILED);
    assert_int_equal(rig_stats(&r).failed, ROUNDS * (TILES + 1));
    assert_int_equal(rig_stats(&r).poison_lost, 0);
    for (int i = 0; i < TILES; i++) {
        assert_true(is_poisoned(&r, bytes + i * TILE));
        assert_false(is_poisoned(&r, bytes + i * TILE + TILE / 2));
    }
    expect_ok(pto_clear_error(r.rt));
    rig_stop(&r);
}

int main(void)
{
    const rig_case cases[] = {
        RIG_CASE(test_undecided_overlaps_do_not_poison),
        RIG_CASE(test_undecided_covers_heal),
        RIG_CASE(test_slots_of_failed_tasks_come_back),
        RIG_CASE_SLOW(test_failures_cost_the_same),
        RIG_CASE_SLOW(test_more_failures_than_are_remembered),
        RIG_CASE(test_long_descriptions),
        RIG_CASE_SLOW(test_room_comes_back),
    };
    return rig_run("poison", cases, sizeof cases / sizeof *cases);
}
