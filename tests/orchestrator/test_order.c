/* test_order.c - who waits for whom: RAW, WAR and WAW by bytes, through any view, and nobody else.
 * Producers are held, so what waits is seen by its count and what does not by its running. */
#include "../runtime/rig.h"

/* A 16 x 16 matrix of floats, in bytes of its own. */
static unsigned char *memory; /* of the current test */

enum { MEMORY = 1024 };

static pto_tensor matrix(rig *r)
{
    pto_tensor t;
    expect_ok(pto_external_tensor(r->rt, memory, PTO_FLOAT32, 2, DIMS(16, 16), &t));
    return t;
}

static pto_tensor tile(const pto_tensor *m, int64_t row, int64_t col, int64_t rows, int64_t cols)
{
    pto_tensor t;
    expect_ok(pto_tensor_view(m, DIMS(row, col), DIMS(rows, cols), &t));
    return t;
}

/* ---- The three orders ---------------------------------------------------------------------- */

static void test_raw_war_waw(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    memory = rig_memory(&r, MEMORY);
    pto_tensor x = matrix(&r);
    pto_task w1 = RIG_SUBMIT(&r, r.hold, pto_output(&x));
    pto_task r1 = RIG_SUBMIT(&r, r.hold, pto_input(&x));
    pto_task r2 = RIG_SUBMIT(&r, r.hold, pto_input(&x));
    pto_task w2 = RIG_SUBMIT(&r, r.hold, pto_output(&x));
    pto_task u1 = RIG_SUBMIT(&r, r.hold, pto_inout(&x));
    pto_task r3 = RIG_SUBMIT(&r, r.hold, pto_input(&x));
    assert_int_equal(rig_info(&r, w1).fanin_count, 0);
    RIG_WAITS_FOR(&r, r1, 1);
    RIG_WAITS_FOR(&r, r2, 1); /* not for the other reader */
    /* Its readers, and the writer, who they wait for anyway: at least two, at most all three. */
    assert_in_range(rig_info(&r, w2).fanin_left, 2, 3);
    RIG_WAITS_FOR(&r, u1, 1); /* all that was before is covered by w2 */
    RIG_WAITS_FOR(&r, r3, 1);

    rig_finish(&r, w1, PTO_OK);
    rig_until(&r, r1, PTO_TASK_RUNNING);
    rig_until(&r, r2, PTO_TASK_RUNNING);
    RIG_WAITS_FOR(&r, w2, 2);
    rig_finish(&r, r2, PTO_OK);
    RIG_WAITS_FOR(&r, w2, 1);
    rig_finish(&r, r1, PTO_OK);
    rig_until(&r, w2, PTO_TASK_RUNNING);
    RIG_WAITS_FOR(&r, u1, 1);
    RIG_WAITS_FOR(&r, r3, 1);
    rig_finish(&r, w2, PTO_OK);
    rig_until(&r, u1, PTO_TASK_RUNNING);
    RIG_WAITS_FOR(&r, r3, 1);
    rig_finish(&r, u1, PTO_OK);
    rig_finish(&r, r3, PTO_OK);
    rig_stop(&r);
}

/* What is complete at submit is nobody's to wait for, also when somebody older is not. (It may still
 * be counted then: see observe.h.) */
static void test_complete_producers_do_not_count(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    memory = rig_memory(&r, MEMORY);
    char *other = rig_memory(&r, 8);
    pto_tensor x = matrix(&r), y = rig_bytes(&r, other, 8);
    for (int older = 0; older < 2; older++) {
        pto_task held = older ? RIG_SUBMIT(&r, r.hold, pto_inout(&y)) : 0;
        expect_ok(pto_scope_begin(r.rt));
        RIG_SUBMIT(&r, r.quick, pto_output(&x));
        pto_task reader = RIG_SUBMIT(&r, r.quick, pto_input(&x));
        rig_until(&r, reader, PTO_TASK_COMPLETED);
        /* It may have completed while that report was made. Asked again, the runtime knows. */
        (void)rig_info(&r, reader);
        pto_runtime_stats before = rig_stats(&r), now;
        pto_task next = RIG_SUBMIT(&r, r.hold, pto_inout(&x));
        now = rig_stats(&r);
        assert_int_equal(rig_info(&r, next).fanin_left, 0);
        if (!older) {
            assert_int_equal(rig_info(&r, next).fanin_count, 0);
            assert_int_equal(now.raw + now.war + now.waw, before.raw + before.war + before.waw);
        }
        rig_finish(&r, next, PTO_OK);
        expect_ok(pto_scope_end(r.rt));
        if (older) {
            rig_finish(&r, held, PTO_OK);
        }
    }
    rig_stop(&r);
}

/* A task that names memory several times waits neither for itself nor twice for others. */
static void test_a_task_never_waits_for_itself(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    memory = rig_memory(&r, MEMORY);
    pto_tensor x = matrix(&r), top = tile(&x, 0, 0, 8, 16), turned;
    expect_ok(pto_tensor_transpose(&x, 0, 1, &turned));
    pto_task first = RIG_SUBMIT(&r, r.hold, pto_input(&x), pto_output(&x), pto_inout(&top),
                                pto_output(&turned));
    assert_int_equal(rig_info(&r, first).fanin_count, 0);
    pto_task second = RIG_SUBMIT(&r, r.hold, pto_inout(&top), pto_input(&turned), pto_output(&x),
                                 pto_after(first));
    assert_int_equal(rig_info(&r, second).fanin_count, 1);
    RIG_WAITS_FOR(&r, second, 1);
    rig_finish(&r, first, PTO_OK);
    rig_finish(&r, second, PTO_OK);
    rig_stop(&r);
}

/* ---- By bytes ------------------------------------------------------------------------------- */

/* Disjoint tiles run side by side, though their ranges of bytes meet. */
static void test_column_tiles_do_not_meet(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    memory = rig_memory(&r, MEMORY);
    pto_tensor x = matrix(&r);
    pto_task task[4];
    for (int i = 0; i < 4; i++) {
        pto_tensor column = tile(&x, 0, 4 * i, 16, 4);
        task[i] = RIG_SUBMIT(&r, r.hold, pto_output(&column));
        assert_int_equal(rig_info(&r, task[i]).fanin_count, 0);
    }
    for (int i = 0; i < 4; i++) {
        rig_until(&r, task[i], PTO_TASK_RUNNING);
    }
    /* One row crosses all of them, a square in the middle two, the last column one. */
    pto_tensor row = tile(&x, 7, 0, 1, 16), middle = tile(&x, 4, 7, 2, 2);
    pto_tensor last = tile(&x, 0, 15, 16, 1);
    pto_task crosses = RIG_SUBMIT(&r, r.quick, pto_input(&row));
    pto_task meets_two = RIG_SUBMIT(&r, r.quick, pto_input(&middle));
    pto_task meets_one = RIG_SUBMIT(&r, r.quick, pto_input(&last));
    RIG_WAITS_FOR(&r, crosses, 4);
    RIG_WAITS_FOR(&r, meets_two, 2);
    RIG_WAITS_FOR(&r, meets_one, 1);
    rig_finish(&r, task[3], PTO_OK);
    rig_until(&r, meets_one, PTO_TASK_COMPLETED);
    RIG_WAITS_FOR(&r, crosses, 3);
    rig_finish(&r, task[1], PTO_OK);
    RIG_WAITS_FOR(&r, meets_two, 1);
    rig_finish(&r, task[2], PTO_OK);
    rig_until(&r, meets_two, PTO_TASK_COMPLETED);
    RIG_WAITS_FOR(&r, crosses, 1);
    rig_finish(&r, task[0], PTO_OK);
    rig_until(&r, crosses, PTO_TASK_COMPLETED);
    assert_int_equal(rig_stats(&r).raw, 7);
    rig_stop(&r);
}

/* A table of pairs: a held writer of `a`, then a reader of `b`. */
typedef struct view_of_bytes {
    pto_dtype dtype;
    int64_t base; /* where the storage begins, in bytes; another one for each is still one memory */
    int64_t offset, shape[2], strides[2];
} view_of_bytes;

static pto_tensor make_view(const view_of_bytes *v)
{
    pto_tensor t;
    expect_ok(pto_tensor_init(&t, memory + v->base, (uint64_t)MEMORY - (uint64_t)v->base, v->dtype,
                              2, v->shape, v->strides, v->offset));
    return t;
}

static void test_views_meet_by_bytes(void **state)
{
    static const struct {
        const char *what;
        view_of_bytes a, b;
        bool meet;
    } pairs[] = {
        {"even and odd columns",
         {PTO_FLOAT32, 0, 0, {16, 8}, {16, 2}},
         {PTO_FLOAT32, 0, 1, {16, 8}, {16, 2}},
         false},
        {"every second and every third column",
         {PTO_FLOAT32, 0, 0, {16, 8}, {16, 2}},
         {PTO_FLOAT32, 0, 0, {16, 5}, {16, 3}},
         true},
        {"the low and the high half of each float, as int16",
         {PTO_INT16, 0, 0, {16, 16}, {32, 2}},
         {PTO_INT16, 0, 1, {16, 16}, {32, 2}},
         false},
        {"floats and bytes of the same row, another base",
         {PTO_FLOAT32, 0, 16, {1, 16}, {16, 1}},
         {PTO_UINT8, 127, 0, {1, 1}, {1, 1}},
         true},
        {"floats and the byte after their row, another base",
         {PTO_FLOAT32, 0, 16, {1, 16}, {16, 1}},
         {PTO_UINT8, 128, 0, {1, 1}, {1, 1}},
         false},
        {"two progressions that meet in element size only",
         {PTO_FLOAT32, 0, 0, {1, 8}, {64, 2}},
         {PTO_INT16, 0, 1, {1, 8}, {64, 4}},
         true},
        {"a row backwards",
         {PTO_FLOAT32, 0, 31, {1, 16}, {1, -1}},
         {PTO_FLOAT32, 64, 0, {1, 16}, {16, 1}},
         true},
        {"a transposed tile and its neighbour below",
         {PTO_FLOAT32, 0, 0, {4, 4}, {1, 16}},
         {PTO_FLOAT32, 256, 0, {4, 4}, {16, 1}},
         false},
        {"a broadcast element and its row",
         {PTO_FLOAT32, 0, 17, {16, 16}, {0, 0}},
         {PTO_FLOAT32, 64, 0, {1, 16}, {16, 1}},
         true},
        {"a broadcast element and the row above",
         {PTO_FLOAT32, 0, 17, {16, 16}, {0, 0}},
         {PTO_FLOAT32, 0, 0, {1, 16}, {16, 1}},
         false},
        {"the diagonal and what is next to it",
         {PTO_FLOAT32, 0, 0, {1, 16}, {0, 17}},
         {PTO_FLOAT32, 0, 1, {1, 15}, {0, 17}},
         false},
        {"the diagonal and the other one, in an even matrix",
         {PTO_FLOAT32, 0, 0, {1, 16}, {0, 17}},
         {PTO_FLOAT32, 0, 15, {1, 16}, {0, 15}},
         false},
        {"the diagonal and a column",
         {PTO_FLOAT32, 0, 0, {1, 16}, {0, 17}},
         {PTO_FLOAT32, 0, 9, {16, 1}, {16, 1}},
         true},
        {"nothing at all",
         {PTO_FLOAT32, 0, 0, {0, 16}, {16, 1}},
         {PTO_FLOAT32, 0, 0, {16, 16}, {16, 1}},
         false},
    };
    rig r;
    rig_start(&r, state, NULL);
    memory = rig_memory(&r, MEMORY);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        pto_tensor a = make_view(&pairs[i].a), b = make_view(&pairs[i].b);
        for (int order = 0; order < 8; order++) {
            pto_tensor *first = order < 4 ? &a : &b, *second = order < 4 ? &b : &a;
            static const struct {
                pto_param_kind held, next;
            } kinds[] = {{PTO_PARAM_OUTPUT, PTO_PARAM_INPUT},
                         {PTO_PARAM_INPUT, PTO_PARAM_OUTPUT},
                         {PTO_PARAM_OUTPUT, PTO_PARAM_OUTPUT},
                         {PTO_PARAM_INOUT, PTO_PARAM_INOUT}};
            pto_param held = pto_input(first), next = pto_input(second);
            held.kind = kinds[order % 4].held;
            next.kind = kinds[order % 4].next;
            pto_task before = RIG_SUBMIT(&r, r.hold, held);
            pto_task after = RIG_SUBMIT(&r, r.hold, next);
            uint32_t waits = rig_info(&r, after).fanin_count;
            if (waits != (pairs[i].meet ? 1U : 0U)) {
                fail_msg("%s, order %d: waits for %u", pairs[i].what, order, waits);
            }
            if (!pairs[i].meet) {
                rig_finish(&r, after, PTO_OK); /* while the other one runs */
                rig_finish(&r, before, PTO_OK);
            } else {
                RIG_WAITS_FOR(&r, after, 1);
                rig_finish(&r, before, PTO_OK);
                rig_finish(&r, after, PTO_OK);
            }
            expect_ok(pto_wait(r.rt));
        }
    }
    assert_int_equal(rig_stats(&r).overlap_budget_hits, 0);
    rig_stop(&r);
}

/* A and B apart, then C over both, in any order of submission. */
static void test_a_bridge_over_two_memories(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    memory = rig_memory(&r, MEMORY);
    pto_tensor a = rig_bytes(&r, memory, 100), b = rig_bytes(&r, memory + 200, 100);
    pto_tensor c = rig_bytes(&r, memory + 50, 200), gap = rig_bytes(&r, memory + 100, 100);
    pto_task ta = RIG_SUBMIT(&r, r.hold, pto_output(&a));
    pto_task tb = RIG_SUBMIT(&r, r.hold, pto_output(&b));
    pto_task tc = RIG_SUBMIT(&r, r.hold, pto_inout(&c));
    pto_task tgap = RIG_SUBMIT(&r, r.hold, pto_input(&gap));
    pto_task ta2 = RIG_SUBMIT(&r, r.hold, pto_input(&a));
    RIG_WAITS_FOR(&r, tc, 2);
    RIG_WAITS_FOR(&r, tgap, 1);
    RIG_WAITS_FOR(&r, ta2, 2); /* parts of both writers are left in it */
    rig_finish(&r, ta, PTO_OK);
    rig_finish(&r, tb, PTO_OK);
    rig_finish(&r, tc, PTO_OK);
    rig_finish(&r, tgap, PTO_OK);
    rig_finish(&r, ta2, PTO_OK);
    rig_stop(&r);
}

/* Managed memory: the buffer counts, whatever view and version names it. */
static void test_managed_views(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor x, y;
    expect_ok(pto_temp(r.rt, PTO_FLOAT32, 2, DIMS(16, 16), &x));
    expect_ok(pto_temp(r.rt, PTO_FLOAT32, 2, DIMS(16, 16), &y));
    pto_task wx = RIG_SUBMIT(&r, r.hold, pto_output(&x));
    pto_task wy = RIG_SUBMIT(&r, r.hold, pto_output(&y));
    assert_int_equal(rig_info(&r, wy).fanin_count, 0);
    pto_tensor left = tile(&x, 0, 0, 16, 8), right = tile(&x, 0, 8, 16, 8), turned;
    expect_ok(pto_tensor_transpose(&right, 0, 1, &turned));
    pto_tensor next = left;
    next.version = 1;
    pto_task writes_right = RIG_SUBMIT(&r, r.hold, pto_inout(&turned));
    pto_task writes_left = RIG_SUBMIT(&r, r.hold, pto_output(&next));
    right.version = 1;
    pto_task reads_right = RIG_SUBMIT(&r, r.hold, pto_input(&right), pto_input(&y));
    RIG_WAITS_FOR(&r, writes_right, 1);
    RIG_WAITS_FOR(&r, writes_left, 1);
    assert_in_range(rig_info(&r, reads_right).fanin_left, 2, 3);
    rig_finish(&r, wx, PTO_OK);
    rig_until(&r, writes_right, PTO_TASK_RUNNING);
    rig_until(&r, writes_left, PTO_TASK_RUNNING); /* another column: at the same time */
    RIG_WAITS_FOR(&r, reads_right, 2);
    rig_finish(&r, writes_right, PTO_OK);
    RIG_WAITS_FOR(&r, reads_right, 1);
    rig_finish(&r, wy, PTO_OK);
    rig_finish(&r, reads_right, PTO_OK); /* with the left half still being written */
    rig_finish(&r, writes_left, PTO_OK);
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

/* Many readers, more than any small list would hold; then one writer. */
static void test_fan_in_and_fan_out_are_not_cut_off(void **state)
{
    enum { MANY = 300 };
    rig r;
    pto_config config = PTO_CONFIG_INIT;
    config.deps = 64; /* fewer edges than the writer has: it waits until they fit */
    rig_start(&r, state, &config);
    memory = rig_memory(&r, MEMORY);
    pto_tensor x = matrix(&r);
    pto_task writer = RIG_SUBMIT(&r, r.hold, pto_output(&x));
    RIG_WAITS_FOR(&r, RIG_SUBMIT(&r, r.hold, pto_input(&x)), 1);
    pto_task first = pto_last_task(r.rt);
    rig_finish(&r, writer, PTO_OK);
    for (int i = 1; i < MANY; i++) {
        RIG_SUBMIT(&r, r.quick, pto_input(&x));
    }
    rig_later later = {.status = PTO_OK};
    rig_later_start(&later, &r, first, 20000);
    pto_task last = RIG_SUBMIT(&r, r.quick, pto_output(&x));
    expect_ok(pto_wait_task(r.rt, last));
    assert_true(atomic_load(&later.ending));
    rig_later_join(&later);
    rig_stop(&r);

    /* With room for all of them each is counted. */
    config.deps = 4096;
    rig_start(&r, state, &config);
    memory = rig_memory(&r, MEMORY);
    x = matrix(&r);
    pto_task reader[MANY];
    for (int i = 0; i < MANY; i++) {
        reader[i] = RIG_SUBMIT(&r, r.hold, pto_input(&x));
    }
    last = RIG_SUBMIT(&r, r.quick, pto_output(&x));
    assert_int_equal(rig_info(&r, last).fanin_count, MANY);
    assert_int_equal(rig_stats(&r).war, MANY);
    for (int i = MANY; i-- > 0;) {
        RIG_WAITS_FOR(&r, last, (uint32_t)i + 1);
        rig_finish(&r, reader[i], PTO_OK);
    }
    rig_until(&r, last, PTO_TASK_COMPLETED);
    rig_stop(&r);
}

/* Appends argument 0 to what argument 1 on holds, each a byte that counts. */
static pto_status add_to_all(const pto_call *call)
{
    for (uint32_t i = 1; i < call->n_args; i++) {
        unsigned char *byte = call->args[i].data;
        *byte = (unsigned char)(*byte * 3 + (unsigned char)call->args[0].u64);
    }
    return PTO_OK;
}

/* A map that is too small to remember what one task touches forgets nothing: such a task runs alone,
 * and the order is as ever. */
static void test_a_map_that_is_too_small(void **state)
{
    enum { CELLS = 24, TASKS = 300 };
    for (uint32_t entries = 1; entries <= 64; entries *= 4) {
        rig r;
        pto_kernel kernel;
        unsigned char expected[CELLS];
        pto_config config = PTO_CONFIG_INIT;
        config.map_entries = entries;
        config.deps = 4;
        rig_start(&r, state, &config);
        expect_ok(pto_kernel_register(r.rt, "add", PTO_VECTOR, add_to_all, NULL, &kernel));
        unsigned char *cells = rig_memory(&r, CELLS);
        memset(cells, 1, CELLS);
        memset(expected, 1, sizeof expected);
        test_rng rng = test_rng_make(test_seed() + entries);
        for (int n = 0; n < TASKS; n++) {
            pto_tensor cell[CELLS];
            pto_param params[CELLS + 1];
            size_t count = 1;
            params[0] = pto_scalar(n);
            int64_t often = test_between(&rng, 1, 20);
            for (int i = 0; i < CELLS; i++) {
                if (test_between(&rng, 1, often) == 1) {
                    cell[i] = rig_bytes(&r, &cells[i], 1);
                    params[count++] = pto_inout(&cell[i]);
                    expected[i] = (unsigned char)(expected[i] * 3 + (unsigned char)n);
                }
            }
            expect_ok(pto_submit_task(r.rt, kernel, PTO_KERNEL_TYPE, params, count, NULL));
        }
        expect_ok(pto_wait(r.rt));
        assert_memory_equal(cells, expected, CELLS);
        rig_stop(&r);
    }
}

/* ---- By hand -------------------------------------------------------------------------------- */

static void test_after(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    pto_task a = RIG_SUBMIT_BARE(&r, r.hold);
    pto_task b = RIG_SUBMIT_BARE(&r, r.hold);
    pto_task both = RIG_SUBMIT(&r, r.hold, pto_after(a), pto_after(b), pto_after(a));
    assert_int_equal(rig_info(&r, both).fanin_count, 2);
    assert_int_equal(rig_stats(&r).after, 2);
    RIG_WAITS_FOR(&r, both, 2);
    rig_finish(&r, b, PTO_OK);
    RIG_WAITS_FOR(&r, both, 1);
    rig_finish(&r, a, PTO_OK);
    rig_until(&r, both, PTO_TASK_RUNNING);
    /* After a task that is done, and after one that is recycled. */
    rig_until(&r, a, PTO_TASK_CONSUMED);
    pto_task late = RIG_SUBMIT(&r, r.quick, pto_after(a), pto_after(b));
    assert_in_range(rig_info(&r, late).state, PTO_TASK_READY, PTO_TASK_CONSUMED);
    rig_until(&r, late, PTO_TASK_COMPLETED);
    rig_finish(&r, both, PTO_OK);
    for (int i = 0; i < 3000; i++) {
        RIG_SUBMIT(&r, r.quick, pto_after(a), pto_after(both));
    }
    rig_stop(&r);
}

/* Across levels: tasks inside and outside of a boundary wait for each other as any. */
static void test_order_across_levels(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    memory = rig_memory(&r, MEMORY);
    pto_tensor x = matrix(&r);
    pto_task outer = RIG_SUBMIT(&r, r.hold, pto_output(&x));
    expect_ok(pto_scope_begin_ex(r.rt, PTO_SCOPE_BOUNDARY));
    pto_task inner = RIG_SUBMIT(&r, r.hold, pto_inout(&x));
    expect_ok(pto_scope_begin_ex(r.rt, PTO_SCOPE_BOUNDARY));
    pto_task deepest = RIG_SUBMIT(&r, r.hold, pto_after(outer), pto_input(&x));
    expect_ok(pto_scope_end(r.rt));
    expect_ok(pto_scope_end(r.rt));
    pto_task last = RIG_SUBMIT(&r, r.hold, pto_output(&x));
    RIG_WAITS_FOR(&r, inner, 1);
    RIG_WAITS_FOR(&r, deepest, 2);
    assert_in_range(rig_info(&r, last).fanin_left, 1, 2);
    rig_finish(&r, outer, PTO_OK);
    rig_finish(&r, inner, PTO_OK);
    RIG_WAITS_FOR(&r, last, 1);
    rig_finish(&r, deepest, PTO_OK);
    rig_finish(&r, last, PTO_OK);
    rig_stop(&r);
}

/* An argument that orders nothing: neither does its task wait, nor does anybody wait for it. */
static void test_nodep(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    memory = rig_memory(&r, MEMORY);
    pto_tensor x = matrix(&r), top = tile(&x, 0, 0, 8, 16), bottom = tile(&x, 8, 0, 8, 16);
    pto_task writer = RIG_SUBMIT(&r, r.hold, pto_output(&x));
    pto_task free_reader = RIG_SUBMIT(&r, r.hold, pto_nodep(pto_input(&x)));
    pto_task free_writer = RIG_SUBMIT(&r, r.hold, pto_nodep(pto_output(&x)));
    pto_task free_both = RIG_SUBMIT(&r, r.hold, pto_nodep(pto_inout(&x)));
    assert_int_equal(rig_info(&r, free_reader).fanin_count, 0);
    assert_int_equal(rig_info(&r, free_writer).fanin_count, 0);
    assert_int_equal(rig_info(&r, free_both).fanin_count, 0);
    rig_until(&r, free_reader, PTO_TASK_RUNNING);
    rig_until(&r, free_writer, PTO_TASK_RUNNING);
    rig_until(&r, free_both, PTO_TASK_RUNNING);
    pto_task next = RIG_SUBMIT(&r, r.hold, pto_inout(&x));
    RIG_WAITS_FOR(&r, next, 1); /* for the writer alone */
    rig_finish(&r, writer, PTO_OK);
    rig_until(&r, next, PTO_TASK_RUNNING);
    /* Only the argument is out of it, not the task. */
    pto_task half = RIG_SUBMIT(&r, r.hold, pto_nodep(pto_input(&top)), pto_input(&bottom));
    RIG_WAITS_FOR(&r, half, 1);
    rig_finish(&r, next, PTO_OK);
    pto_task over_top = RIG_SUBMIT(&r, r.hold, pto_output(&top));
    assert_int_equal(rig_info(&r, over_top).fanin_left, 0);
    rig_until(&r, over_top, PTO_TASK_RUNNING);
    pto_task over_bottom = RIG_SUBMIT(&r, r.hold, pto_output(&bottom));
    RIG_WAITS_FOR(&r, over_bottom, 1);
    rig_finish(&r, half, PTO_OK);
    rig_finish(&r, over_top, PTO_OK);
    rig_finish(&r, over_bottom, PTO_OK);
    rig_finish(&r, free_reader, PTO_OK);
    rig_finish(&r, free_writer, PTO_OK);
    rig_finish(&r, free_both, PTO_OK);
    rig_stop(&r);
}

int main(void)
{
    const rig_case cases[] = {
        RIG_CASE(test_raw_war_waw),
        RIG_CASE(test_complete_producers_do_not_count),
        RIG_CASE(test_a_task_never_waits_for_itself),
        RIG_CASE(test_column_tiles_do_not_meet),
        RIG_CASE(test_views_meet_by_bytes),
        RIG_CASE(test_a_bridge_over_two_memories),
        RIG_CASE(test_managed_views),
        RIG_CASE(test_fan_in_and_fan_out_are_not_cut_off),
        RIG_CASE(test_a_map_that_is_too_small),
        RIG_CASE(test_after),
        RIG_CASE(test_order_across_levels),
        RIG_CASE(test_nodep),
    };
    return rig_run("order", cases, sizeof cases / sizeof *cases);
}
