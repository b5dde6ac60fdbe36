/* test_fast_path.c - limits of the fast path of submit and of the table of unindexed blocks: beyond
 * them the slow path must give the same results. */
#include "../runtime/rig.h"
#include "orchestrator/runtime.h"

/* pto_temp makes the same tensor as pto_tensor_init of that shape, except for the memory. */
static void test_temps_are_dense(void **state)
{
    rig r;
    test_rng rng = test_rng_make(7);
    rig_start(&r, state, NULL);
    for (uint64_t i = 0; i < test_effort(2000); i++) {
        int64_t shape[PTO_MAX_DIMS];
        const int32_t ndim = (int32_t)test_between(&rng, 0, PTO_MAX_DIMS);
        const pto_dtype dtype = test_next(&rng) & 1 ? PTO_FLOAT64 : PTO_UINT8;
        for (int32_t d = 0; d < ndim; d++) {
            shape[d] = test_between(&rng, i % 16 ? 1 : 0, 3);
        }
        pto_tensor t, same;
        expect_ok(pto_scope_begin(r.rt));
        expect_ok(pto_temp(r.rt, dtype, ndim, shape, &t));
        if (i % 2) { /* the descriptor is cached by now, and the next equal tensor uses it */
            expect_ok(pto_submit(r.rt, r.quick, pto_output(&t)));
            expect_ok(pto_temp(r.rt, dtype, ndim, shape, &t));
            expect_ok(pto_temp(r.rt, dtype, ndim, shape, &t));
        }
        expect_ok(pto_tensor_init(&same, (void *)64, t.storage_bytes, dtype, ndim, shape, NULL, 0));
        same.storage = NULL;
        same.owner = t.owner;
        same.generation = t.generation;
        assert_memory_equal(&t, &same, sizeof t);
        assert_int_equal(t.storage_bytes,
                         (uint64_t)pto_tensor_numel(&same) * pto_dtype_size(dtype));
        expect_ok(pto_scope_end(r.rt));
    }
    rig_stop(&r);
}

/* A block is unindexed until a task names a part of it. Earlier accesses are not lost. */
static void test_parts_of_a_block(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor t;
    expect_ok(pto_temp(r.rt, PTO_UINT8, 1, DIMS(128), &t));
    pto_tensor left = rig_slice(&t, 0, 64), right = rig_slice(&t, 64, 128);
    pto_task brings = RIG_SUBMIT(&r, r.hold, pto_output(&t));
    pto_task reads = RIG_SUBMIT(&r, r.quick, pto_input(&t));
    RIG_WAITS_FOR(&r, reads, 1);
    pto_task part = RIG_SUBMIT(&r, r.quick, pto_output(&left)); /* the owner and a reader */
    RIG_WAITS_FOR(&r, part, 2);
    pto_task other = RIG_SUBMIT(&r, r.quick, pto_input(&right));
    RIG_WAITS_FOR(&r, other, 1);
    pto_task all = RIG_SUBMIT(&r, r.quick, pto_input(&t)); /* the owner and the writer of a part */
    RIG_WAITS_FOR(&r, all, 2);
    pto_task again = RIG_SUBMIT(&r, r.quick,
                                pto_inout(&t)); /* and all readers except the covered one */
    RIG_WAITS_FOR(&r, again, 5);
    expect_ok(pto_check(r.rt));
    rig_finish(&r, brings, PTO_OK);
    expect_ok(pto_scope_end(r.rt));
    expect_ok(pto_wait(r.rt));
    rig_stop(&r);
}

/* More readers and more parameters than the fast path takes. */
static void test_many(void **state)
{
    enum { READERS = 100, WIDE = 20 };
    rig r;
    rig_start(&r, state, NULL);
    unsigned char(*memory)[64] = rig_memory(&r, WIDE * 64);
    pto_tensor t[WIDE];
    pto_param params[WIDE];
    for (int i = 0; i < WIDE; i++) {
        expect_ok(pto_tensor_init(&t[i], memory[i], 64, PTO_UINT8, 1, DIMS(64), NULL, 0));
        params[i] = pto_inout(&t[i]);
    }
    pto_task first = RIG_SUBMIT(&r, r.hold, pto_output(&t[0]));
    for (int i = 0; i < READERS; i++) {
        RIG_WAITS_FOR(&r, RIG_SUBMIT(&r, r.quick, pto_input(&t[0])), 1);
    }
    pto_task writes = RIG_SUBMIT(&r, r.quick, pto_output(&t[0]));
    RIG_WAITS_FOR(&r, writes, READERS + 1);
    pto_task wide = 0;
    expect_ok(pto_submit_task(r.rt, r.quick, PTO_KERNEL_TYPE, params, WIDE, &wide));
    RIG_WAITS_FOR(&r, wide, 1);
    expect_ok(pto_submit_task(r.rt, r.quick, PTO_KERNEL_TYPE, params, WIDE, &wide));
    RIG_WAITS_FOR(&r, wide, 1);
    rig_finish(&r, first, PTO_OK);
    expect_ok(pto_wait(r.rt));
    rig_stop(&r);
}

/* When edges are short, none is kept for a complete producer. If that producer has failed, the
 * failure must not be lost with the edge, although an older, incomplete task delays its
 * recording. */
static void test_bad_and_short_of_edges(void **state)
{
    enum { EDGES = 256 };
    rig r;
    pto_config config = PTO_CONFIG_INIT;
    config.deps = EDGES;
    rig_start(&r, state, &config);
    unsigned char(*memory)[64] = rig_memory(&r, sizeof(unsigned char[3][64]));
    pto_tensor t[3];
    for (int i = 0; i < 3; i++) {
        t[i] = rig_bytes(&r, memory[i], 64);
    }
    pto_task held = RIG_SUBMIT(&r, r.hold, pto_output(&t[0]));
    RIG_SUBMIT(&r, r.quick, pto_output(&t[1]), pto_output(&t[2]));
    pto_task bad = RIG_SUBMIT(&r, r.fails, pto_output(&t[1]));
    rig_until(&r, bad, PTO_TASK_COMPLETED);
    for (int i = 0; i < EDGES / 2; i++) {
        RIG_WAITS_FOR(&r, RIG_SUBMIT(&r, r.quick, pto_input(&t[0])), 1);
    }
    pto_task reads = RIG_SUBMIT(&r, r.quick, pto_input(&t[1]), pto_output(&t[2]));
    assert_int_equal(rig_info(&r, reads).fanin_count, 0);
    rig_until(&r, reads, PTO_TASK_COMPLETED);
    assert_true(rig_info(&r, reads).skipped);
    rig_finish(&r, held, PTO_OK);
    expect_fail(pto_wait(r.rt), PTO_TASK_FAILED, "no luck");
    assert_int_equal(rig_stats(&r).skipped, 1);
    expect_ok(pto_clear_error(r.rt));
    rig_stop(&r);
}

/* One task allocates several buffers and names one of them twice. */
static void test_brought_twice(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor a, b;
    expect_ok(pto_temp(r.rt, PTO_UINT8, 1, DIMS(64), &a));
    expect_ok(pto_temp(r.rt, PTO_UINT8, 1, DIMS(100), &b));
    pto_task task = RIG_SUBMIT(&r, r.hold, pto_output(&a), pto_output(&b), pto_output(&a));
    assert_int_equal(rig_info(&r, task).heap_bytes, 64 + 128);
    RIG_WAITS_FOR(&r, RIG_SUBMIT(&r, r.quick, pto_input(&a), pto_input(&b)), 1);
    expect_ok(pto_check(r.rt));
    rig_finish(&r, task, PTO_OK);
    expect_ok(pto_scope_end(r.rt));
    expect_ok(pto_wait(r.rt));
    rig_stop(&r);
}

/* A task reads a block that has been idle for a long time and allocates another one. The read
 * must be recorded, so that the next writer of the first block waits. */
static void test_a_reader_that_brings(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    unsigned char *memory = rig_memory(&r, 64);
    pto_tensor a, b, x = rig_bytes(&r, memory, 64);
    expect_ok(pto_scope_begin(r.rt));
    expect_ok(pto_temp(r.rt, PTO_UINT8, 1, DIMS(64), &a));
    RIG_SUBMIT(&r, r.quick, pto_output(&a));
    for (int i = 0; i < 400; i++) { /* until the map has forgotten who wrote it */
        RIG_SUBMIT(&r, r.quick, pto_output(&x));
        expect_ok(pto_wait(r.rt));
    }
    expect_ok(pto_temp(r.rt, PTO_UINT8, 1, DIMS(64), &b));
    pto_task reads = RIG_SUBMIT(&r, r.hold, pto_input(&a), pto_output(&b));
    pto_task writes = RIG_SUBMIT(&r, r.quick, pto_output(&a));
    RIG_WAITS_FOR(&r, writes, 1);
    rig_finish(&r, reads, PTO_OK);
    expect_ok(pto_scope_end(r.rt));
    expect_ok(pto_wait(r.rt));
    rig_stop(&r);
}

/* What a managed tensor says about its buffer is checked on both paths. */
static void test_forged_sizes(void **state)
{
    rig r;
    char got[4096];
    rig_start(&r, state, NULL);
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor t = rig_temp(&r, 64), other = rig_temp(&r, 64), far = t, large;
    far.offset = INT64_C(1) << 30;
    expect_fail(pto_submit(r.rt, r.quick, pto_output(&t), pto_output(&far)), PTO_OUT_OF_BOUNDS,
                "parameter 1");
    RIG_SUBMIT(&r, r.quick, pto_output(&other));
    large = other;
    large.storage_bytes = 4096;
    large.shape[0] = 128;
    expect_fail(pto_read(r.rt, &large, got, sizeof got), PTO_OUT_OF_BOUNDS, "4096");
    expect_fail(pto_write(r.rt, &large, got, sizeof got), PTO_OUT_OF_BOUNDS, "4096");
    expect_ok(pto_scope_end(r.rt));
    expect_ok(pto_wait(r.rt));
    rig_stop(&r);
}

/* Invalid values in place of the shape of a temporary are refused. */
static void test_nonsense_for_a_temp(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor t;
    expect_ok(pto_temp(r.rt, PTO_FLOAT32, 2, DIMS(4, 4), &t));
    pto_tensor bad = t;
    bad.dtype = (pto_dtype)(PTO_FLOAT32 + 16);
    expect_fail(pto_submit(r.rt, r.quick, pto_output(&bad)), PTO_BAD_DTYPE, "parameter 0");
    bad = t;
    bad.ndim = 9;
    expect_fail(pto_submit(r.rt, r.quick, pto_output(&bad)), PTO_BAD_NDIM, "parameter 0");
    bad = t;
    bad.shape[0] = INT64_C(1) << 62; /* times four wraps to 0 */
    bad.shape[1] = 4;
    expect_fail(pto_submit(r.rt, r.quick, pto_output(&bad)), PTO_OVERFLOW, "parameter 0");
    bad = t;
    bad.strides[0] = 5;
    expect_fail(pto_submit(r.rt, r.quick, pto_output(&bad)), PTO_OUT_OF_BOUNDS, "parameter 0");
    assert_int_equal(rig_info(&r, RIG_SUBMIT(&r, r.quick, pto_output(&t))).heap_bytes, 64);
    expect_ok(pto_scope_end(r.rt));
    expect_ok(pto_wait(r.rt));
    rig_stop(&r);
}

/* Fails unless the first argument has the strides that the second one gives. */
static pto_status has_strides(const pto_call *call)
{
    const pto_arg *arg = &call->args[0];
    if (call->n_args != 2 || arg->ndim != PTO_MAX_DIMS || arg->dtype != PTO_UINT8 ||
        arg->strides[0] != call->args[1].i64 || arg->strides[PTO_MAX_DIMS - 1] != 7 ||
        arg->shape[PTO_MAX_DIMS - 1] != 1) {
        return pto_fail(PTO_CORRUPT, "stride %lld, not %lld", (long long)arg->strides[0],
                        (long long)call->args[1].i64);
    }
    *(uint8_t *)arg->data = (uint8_t)call->args[1].i64;
    return PTO_OK;
}

/* More layout descriptors than ids: the others are stored with the arguments. The argument ring
 * wraps many times, and results do not differ. */
static void test_more_descs_than_ids(void **state)
{
    enum { MORE = PTOI_DESC_UNITS / 3 + 500 };
    rig r;
    pto_kernel kernel;
    pto_config config = PTO_CONFIG_INIT;
    config.arg_bytes = 4096;
    rig_start(&r, state, &config);
    expect_ok(pto_kernel_register(r.rt, "has_strides", PTO_CUBE, has_strides, NULL, &kernel));
    uint8_t *memory = rig_memory(&r, 64);
    int64_t shape[PTO_MAX_DIMS], strides[PTO_MAX_DIMS];
    for (int32_t d = 0; d < PTO_MAX_DIMS; d++) {
        shape[d] = 1;
        strides[d] = 7;
    }
    for (int64_t i = 0; i < MORE; i++) {
        pto_tensor t, temp, back;
        strides[0] = i;
        expect_ok(pto_tensor_init(&t, memory, 64, PTO_UINT8, PTO_MAX_DIMS, shape, strides, 5));
        pto_task task = RIG_SUBMIT(&r, kernel, pto_inout(&t), pto_scalar_i64(i));
        if (i < MORE - 400) {
            continue;
        }
        expect_ok(pto_task_get_output(r.rt, task, 0, &back));
        assert_memory_equal(back.strides, t.strides, sizeof t.strides);
        assert_int_equal((char *)back.storage + back.offset - (char *)memory, 5);
        /* A temporary whose layout descriptor has no id: allocated, read, updated. */
        expect_ok(pto_scope_begin_ex(r.rt, PTO_SCOPE_BOUNDARY));
        expect_ok(pto_temp(r.rt, PTO_UINT8, 3, DIMS(1 + i % 7, 3, 5), &temp));
        (void)RIG_SUBMIT(&r, r.fill, pto_output(&temp), pto_scalar_u64((uint64_t)i & 255));
        (void)RIG_SUBMIT(&r, r.quick, pto_input(&temp));
        pto_task last = RIG_SUBMIT(&r, r.quick, pto_inout(&temp), pto_input(&t));
        expect_ok(pto_wait_task(r.rt, last));
        void *at;
        expect_ok(pto_get_buffer_addr(r.rt, &temp, &at));
        assert_int_equal(*(uint8_t *)at, i & 255);
        expect_ok(pto_scope_end(r.rt));
    }
    expect_ok(pto_wait(r.rt));
    assert_int_equal(memory[5], (MORE - 1) & 255);
    /* Arguments with an id take little room: so many with full layout descriptors would not fit. */
    pto_param many[200];
    pto_tensor known;
    strides[0] = 3;
    expect_ok(pto_tensor_init(&known, memory, 64, PTO_UINT8, PTO_MAX_DIMS, shape, strides, 5));
    for (size_t i = 0; i < sizeof many / sizeof *many; i++) {
        many[i] = pto_input(&known);
    }
    expect_ok(
        pto_submit_task(r.rt, r.quick, PTO_KERNEL_TYPE, many, sizeof many / sizeof *many, NULL));
    expect_ok(pto_wait(r.rt));
    expect_ok(pto_check(r.rt));
    rig_stop(&r);
}

/* A tensor of one byte, with a layout that only `i` has. */
static pto_tensor one_of_many(uint8_t *byte, int64_t i)
{
    pto_tensor t;
    expect_ok(pto_tensor_init(&t, byte, 1, PTO_UINT8, 2, DIMS(1, 1), DIMS(i, 1), 0));
    return t;
}

/* A program may use ever-new layouts: those that no task names any more give their ids back, and new
 * ones get an id. While one task names nearly all of them, others have none. */
static void test_ids_of_layouts_come_back(void **state)
{
    enum { MORE = PTOI_DESC_UNITS * 3 / 2 };
    rig r;
    pto_config config = PTO_CONFIG_INIT;
    config.arg_bytes = 16 << 20;
    config.ring_tasks = 8192; /* all of them fit behind a task that is held */
    rig_start(&r, state, &config);
    const ptoi_descs *descs = &r.rt->map->descs;
    uint8_t *bytes = rig_memory(&r, 2);
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor kept, got;
    expect_ok(pto_temp(r.rt, PTO_UINT8, 3, DIMS(3, 1, 5), &kept));
    pto_task brings = RIG_SUBMIT(&r, r.quick, pto_output(&kept));
    for (int i = 0; i < 2; i++) { /* the last layout of pto_temp, which nobody names */
        expect_ok(pto_temp(r.rt, PTO_UINT8, 3, DIMS(5, 1, 3), &got));
        RIG_SUBMIT(&r, r.quick, pto_output(&got));
        expect_ok(pto_release(r.rt, &got));
    }
    assert_int_not_equal(r.rt->temp_desc, 0);
    for (int64_t i = 0; i < MORE; i++) {
        pto_tensor t = one_of_many(bytes, i);
        expect_ok(pto_submit(r.rt, r.fill, pto_output(&t), pto_scalar(i & 255)));
        assert_int_not_equal(ptoi_desc_find(descs, &t), 0);
    }
    expect_ok(pto_wait(r.rt));
    assert_int_equal(bytes[0], (MORE - 1) & 255);
    expect_ok(pto_check(r.rt));
    expect_ok(pto_task_get_output(r.rt, brings, 0, &got)); /* a buffer names its layout, too */
    assert_memory_equal(&got, &kept, sizeof got);
    expect_ok(pto_temp(r.rt, PTO_UINT8, 3, DIMS(5, 1, 3), &got));
    assert_int_equal(r.rt->temp_desc, ptoi_desc_find(descs, &got));
    expect_ok(pto_scope_end(r.rt));

    enum { MANY = PTOI_DESC_UNITS + 500 };
    pto_tensor *tensors = calloc(MANY, sizeof *tensors);
    pto_param *params = calloc(MANY, sizeof *params);
    for (int64_t i = 0; i < MANY; i++) {
        tensors[i] = one_of_many(bytes, MORE + i);
        params[i] = pto_nodep(pto_input(&tensors[i]));
    }
    pto_task holds;
    r.rt->sweep_at =
        0; /* all tasks are complete: a sweep now leaves nearly all ids to the held task */
    expect_ok(pto_submit_task(r.rt, r.hold, PTO_KERNEL_TYPE, params, MANY, &holds));
    pto_tensor t = one_of_many(bytes + 1, -1);
    int refused = 0;
    for (int i = 0; i < 6000; i++) { /* more than lie between two sweeps */
        t = one_of_many(bytes + 1, -1 - i);
        expect_ok(pto_submit(r.rt, r.fill, pto_output(&t), pto_scalar(i & 255)));
        refused += ptoi_desc_find(descs, &t) == 0;
    }
    expect_ok(pto_wait_tensor(r.rt, &t));
    assert_int_equal(bytes[1], 5999 & 255);
    assert_true(refused > 5000);
    for (int64_t i = 0; i < MANY; i += 97) { /* the held task has not lost any */
        assert_true(i > MANY - 2000 || ptoi_desc_find(descs, &tensors[i]) != 0);
    }
    expect_ok(pto_check(r.rt));
    rig_finish(&r, holds, PTO_OK);
    for (int i = 0; i < 5000; i++) {
        t = one_of_many(bytes + 1, -50000 - i);
        expect_ok(pto_submit(r.rt, r.fill, pto_output(&t), pto_scalar(i & 255)));
    }
    assert_int_not_equal(ptoi_desc_find(descs, &t), 0);
    rig_stop(&r);
    free(params);
    free(tensors);
}

/* Strides of an empty tensor mean nothing, however large. */
static void test_output_without_elements(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    pto_tensor t, back;
    expect_ok(pto_tensor_init(&t, NULL, 0, PTO_FLOAT32, 2, DIMS(0, 4),
                              (int64_t[]){INT64_MAX, INT64_MAX / 2}, 0));
    pto_task held = RIG_SUBMIT(&r, r.hold, pto_output(&t));
    expect_ok(pto_task_get_output(r.rt, held, 0, &back));
    assert_memory_equal(back.shape, t.shape, sizeof t.shape);
    assert_memory_equal(back.strides, t.strides, sizeof t.strides);
    rig_finish(&r, held, PTO_CORRUPT); /* its output memory is checked, too */
    assert_int_not_equal(pto_wait(r.rt), PTO_OK);
    expect_ok(pto_clear_error(r.rt));
    rig_stop(&r);
}

int main(void)
{
    const rig_case cases[] = {
        RIG_CASE_SLOW(test_ids_of_layouts_come_back),
        RIG_CASE(test_output_without_elements),
        RIG_CASE(test_more_descs_than_ids),
        RIG_CASE(test_temps_are_dense),
        RIG_CASE(test_parts_of_a_block),
        RIG_CASE(test_many),
        RIG_CASE(test_bad_and_short_of_edges),
        RIG_CASE(test_brought_twice),
        RIG_CASE(test_nonsense_for_a_temp),
        RIG_CASE(test_a_reader_that_brings),
        RIG_CASE(test_forged_sizes),
    };
    return rig_run("known", cases, sizeof cases / sizeof *cases);
}
