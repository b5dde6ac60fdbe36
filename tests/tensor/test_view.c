/* test_view.c - view, slice, permute, transpose, broadcast, and long chains of them. */
#include "chains.h"

static float memory[4096];

/* [4, 8] of a matrix with rows of 16, from element 3 on; with all the rest filled in. */
static pto_tensor sound(void)
{
    pto_tensor t;
    expect_ok(
        pto_tensor_init(&t, memory, sizeof memory, PTO_FLOAT32, 2, DIMS(4, 8), DIMS(16, 1), 3));
    t.owner = 11;
    t.generation = 22;
    t.version = 33;
    t.device = (pto_device){PTO_DEVICE_NVIDIA, 2};
    /* Past ndim anything may stand in what users fill by hand. */
    t.shape[2] = t.strides[7] = -77;
    return t;
}

/* What every view keeps of its source. */
static void expect_same_memory(const pto_tensor *t, const pto_tensor *src, pto_extraction kind)
{
    assert_ptr_equal(t->storage, src->storage);
    assert_int_equal(t->storage_bytes, src->storage_bytes);
    assert_int_equal(t->owner, src->owner);
    assert_int_equal(t->generation, src->generation);
    assert_int_equal(t->version, src->version);
    assert_int_equal(t->dtype, src->dtype);
    assert_int_equal(t->device.type, src->device.type);
    assert_int_equal(t->device.index, src->device.index);
    assert_int_equal(t->reserved, 0);
    assert_int_equal(t->kind, kind);
    expect_ok(pto_tensor_check(t));
}

/* ---- Each op ---------------------------------------------------------------------------- */

static void test_view(void **state)
{
    (void)state;
    pto_tensor src = sound(), out;
    expect_ok(pto_tensor_view(&src, DIMS(1, 2), DIMS(3, 5), &out));
    expect_dims(&out, 2, DIMS(3, 5), DIMS(16, 1));
    assert_int_equal(out.offset, 3 + 16 + 2);
    expect_same_memory(&out, &src, PTO_SHALLOW_VIEW);

    expect_refused(out, pto_tensor_view(&src, DIMS(1, 2), DIMS(4, 5), &out), PTO_OUT_OF_BOUNDS,
                   "view: start 1 and size 4 of dim 0, which has 4");
    expect_refused(out, pto_tensor_view(&src, DIMS(0, 9), DIMS(4, 0), &out), PTO_OUT_OF_BOUNDS,
                   "start 9 and size 0 of dim 1, which has 8");
    expect_refused(out, pto_tensor_view(&src, DIMS(0, -1), DIMS(4, 1), &out), PTO_OUT_OF_BOUNDS,
                   "start[1] is -1");
    expect_refused(out, pto_tensor_view(&src, DIMS(0, 0), DIMS(-4, 1), &out), PTO_BAD_SHAPE,
                   "shape[0] is -4");
    expect_refused(out, pto_tensor_view(&src, DIMS(0, 2), DIMS(1, INT64_MAX), &out), PTO_OVERFLOW,
                   "start 2 plus size 9223372036854775807 of dim 1");
    expect_refused(out, pto_tensor_view(&src, NULL, DIMS(1, 1), &out), PTO_NULL_ARGUMENT,
                   "view: start is NULL");
    expect_refused(out, pto_tensor_view(&src, DIMS(1, 1), NULL, &out), PTO_NULL_ARGUMENT,
                   "view: shape is NULL");
    expect_fail(pto_tensor_view(&src, DIMS(0, 0), DIMS(1, 1), NULL), PTO_NULL_ARGUMENT,
                "view: out is NULL");

    /* An empty box may begin where memory has ended. */
    expect_ok(pto_tensor_init(&src, memory, 16, PTO_FLOAT32, 1, DIMS(2), DIMS(3), 0));
    expect_ok(pto_tensor_view(&src, DIMS(2), DIMS(0), &out));
    expect_dims(&out, 1, DIMS(0), DIMS(3));
    assert_int_equal(out.offset, 0);
    expect_same_memory(&out, &src, PTO_SHALLOW_VIEW);

    /* No dims, so no arrays either. */
    expect_ok(pto_tensor_init(&src, memory, 16, PTO_FLOAT32, 0, NULL, NULL, 1));
    expect_ok(pto_tensor_view(&src, NULL, NULL, &out));
    expect_dims(&out, 0, NULL, NULL);
    assert_int_equal(out.offset, 1);
}

static void test_select(void **state)
{
    (void)state;
    pto_tensor src = sound(), out, back;
    expect_ok(pto_tensor_select(&src, 0, 3, &out));
    expect_dims(&out, 1, DIMS(8), DIMS(1));
    assert_int_equal(out.offset, 3 + 3 * 16);
    expect_same_memory(&out, &src, PTO_SHALLOW_VIEW);
    expect_ok(pto_tensor_select(&src, 1, 7, &out));
    expect_dims(&out, 1, DIMS(4), DIMS(16));
    assert_int_equal(out.offset, 3 + 7);
    /* One element, and of nothing there is nothing to select. In place. */
    expect_ok(pto_tensor_select(&out, 0, 2, &out));
    assert_int_equal(out.ndim, 0);
    assert_int_equal(out.offset, 3 + 7 + 2 * 16);
    assert_int_equal(out.shape[0], 0);
    expect_refused(back, pto_tensor_select(&out, 0, 0, &back), PTO_BAD_DIM, "select: dim 0");
    expect_refused(out, pto_tensor_select(&src, 0, 4, &out), PTO_OUT_OF_BOUNDS,
                   "select: index 4 of dim 0, which has 4 elements");
    expect_refused(out, pto_tensor_select(&src, 0, -1, &out), PTO_OUT_OF_BOUNDS, "index -1");
    expect_refused(out, pto_tensor_select(&src, 2, 0, &out), PTO_BAD_DIM, "dim 2");
    expect_fail(pto_tensor_select(&src, 0, 0, NULL), PTO_NULL_ARGUMENT, "select: out is NULL");
    /* Free strides are not multiplied. */
    expect_ok(pto_tensor_init(&src, memory, 4, PTO_FLOAT32, 2, DIMS(5, 0), DIMS(INT64_MIN, 9), 1));
    expect_ok(pto_tensor_select(&src, 0, 4, &out));
    assert_int_equal(out.offset, 1);
}

static void test_slice(void **state)
{
    (void)state;
    static const struct {
        int64_t start, stop, step, size, stride, offset;
    } good[] = {
        {0, 8, 1, 8, 1, 3},
        {2, 7, 2, 3, 2, 5},
        {2, 8, 2, 3, 2, 5},
        {7, -1, -1, 8, -1, 10},
        {7, -1, -7, 2, -7, 10},
        {6, 1, -2, 3, -2, 9},
        {3, 4, 1, 1, 1, 6},
        /* One element keeps its stride: the step may be anything. */
        {3, 8, INT64_MAX, 1, 1, 6},
        {3, -1, INT64_MIN, 1, 1, 6},
        /* None: at, or already past, the stop. */
        {8, 8, 1, 0, 1, 3},
        {5, 2, 3, 0, 1, 3},
        {-1, -1, -1, 0, 1, 3},
        {2, 5, -1, 0, 1, 3},
    };
    pto_tensor src = sound(), out;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        expect_ok(pto_tensor_slice(&src, 1, good[i].start, good[i].stop, good[i].step, &out));
        expect_dims(&out, 2, DIMS(4, good[i].size), DIMS(16, good[i].stride));
        assert_int_equal(out.offset, good[i].offset);
        expect_same_memory(&out, &src, PTO_SHALLOW_VIEW);
    }
    expect_refused(out, pto_tensor_slice(&src, 1, 0, 12, 1, &out), PTO_OUT_OF_BOUNDS,
                   "slice: stop 12 of dim 1, which has 8 elements", "0 .. 8");
    expect_refused(out, pto_tensor_slice(&src, 1, -1, 8, 1, &out), PTO_OUT_OF_BOUNDS,
                   "slice: start -1 of dim 1, which has 8");
    expect_refused(out, pto_tensor_slice(&src, 0, 5, 5, 1, &out), PTO_OUT_OF_BOUNDS,
                   "start 5 of dim 0, which has 4");
    expect_refused(out, pto_tensor_slice(&src, 0, 0, -1, 1, &out), PTO_OUT_OF_BOUNDS, "stop -1");
    expect_refused(out, pto_tensor_slice(&src, 0, 4, 0, -1, &out), PTO_OUT_OF_BOUNDS,
                   "start 4 of dim 0, which has 4", "step -1", "-1 .. 3");
    expect_refused(out, pto_tensor_slice(&src, 0, 3, -2, -1, &out), PTO_OUT_OF_BOUNDS, "stop -2");
    expect_refused(out, pto_tensor_slice(&src, 0, 3, 4, -1, &out), PTO_OUT_OF_BOUNDS, "stop 4");
    expect_refused(out, pto_tensor_slice(&src, 0, INT64_MIN, INT64_MAX, 1, &out), PTO_OUT_OF_BOUNDS,
                   "start -9223372036854775808");
    expect_refused(out, pto_tensor_slice(&src, 0, 0, 4, 0, &out), PTO_BAD_STEP, "step 0 of dim 0");
    expect_refused(out, pto_tensor_slice(&src, 2, 0, 0, 1, &out), PTO_BAD_DIM,
                   "slice: dim 2 of a tensor with 2 dims");
    expect_refused(out, pto_tensor_slice(&src, -1, 0, 0, 1, &out), PTO_BAD_DIM, "dim -1");
    expect_fail(pto_tensor_slice(&src, 0, 0, 1, 1, NULL), PTO_NULL_ARGUMENT, "slice: out is NULL");

    /* A dim of INT64_MAX elements, all at one place. */
    expect_ok(pto_tensor_init(&src, memory, 4, PTO_FLOAT32, 1, DIMS(INT64_MAX), DIMS(0), 0));
    expect_ok(pto_tensor_slice(&src, 0, INT64_MAX - 1, -1, -1, &out));
    expect_dims(&out, 1, DIMS(INT64_MAX), DIMS(0));
    expect_ok(pto_tensor_slice(&src, 0, 0, INT64_MAX, INT64_MAX - 1, &out));
    expect_dims(&out, 1, DIMS(2), DIMS(0));

    /* Free strides stay free. */
    expect_ok(pto_tensor_init(&src, memory, 4, PTO_FLOAT32, 2, DIMS(5, 0), DIMS(INT64_MIN, 9), 1));
    expect_ok(pto_tensor_slice(&src, 0, 4, -1, -2, &out));
    expect_dims(&out, 2, DIMS(3, 0), DIMS(INT64_MIN, 9));
    assert_int_equal(out.offset, 1);
    expect_ok(pto_tensor_init(&src, memory, 4, PTO_FLOAT32, 1, DIMS(1), DIMS(INT64_MIN), 0));
    expect_ok(pto_tensor_slice(&src, 0, 0, 1, 1, &out));
    expect_dims(&out, 1, DIMS(1), DIMS(INT64_MIN));
}

static void test_permute(void **state)
{
    (void)state;
    pto_tensor src = sound(), out;
    expect_ok(pto_tensor_permute(&src, (const int32_t[]){1, 0}, &out));
    expect_dims(&out, 2, DIMS(8, 4), DIMS(1, 16));
    expect_same_memory(&out, &src, PTO_SHALLOW_TRANSPOSE);
    expect_ok(pto_tensor_transpose(&src, 0, 1, &out));
    expect_dims(&out, 2, DIMS(8, 4), DIMS(1, 16));
    expect_same_memory(&out, &src, PTO_SHALLOW_TRANSPOSE);
    expect_ok(pto_tensor_transpose(&src, 1, 1, &out));
    expect_dims(&out, 2, DIMS(4, 8), DIMS(16, 1));

    expect_refused(out, pto_tensor_permute(&src, (const int32_t[]){0, 0}, &out),
                   PTO_BAD_PERMUTATION, "permute: perm[0] and perm[1] are both 0");
    expect_refused(out, pto_tensor_permute(&src, (const int32_t[]){0, 2}, &out),
                   PTO_BAD_PERMUTATION, "perm[1] is 2 with 2 dims");
    expect_refused(out, pto_tensor_permute(&src, (const int32_t[]){-1, 0}, &out),
                   PTO_BAD_PERMUTATION, "perm[0] is -1");
    expect_refused(out, pto_tensor_permute(&src, NULL, &out), PTO_NULL_ARGUMENT, "perm is NULL");
    expect_fail(pto_tensor_permute(&src, (const int32_t[]){0, 1}, NULL), PTO_NULL_ARGUMENT,
                "permute: out is NULL");
    expect_refused(out, pto_tensor_transpose(&src, 0, 2, &out), PTO_BAD_DIM,
                   "transpose: d1 2 of a tensor with 2");
    expect_refused(out, pto_tensor_transpose(&src, -3, 0, &out), PTO_BAD_DIM, "d0 -3");
    expect_fail(pto_tensor_transpose(&src, 0, 0, NULL), PTO_NULL_ARGUMENT,
                "transpose: out is NULL");

    expect_ok(pto_tensor_init(&src, memory, 4, PTO_FLOAT32, 0, NULL, NULL, 0));
    expect_ok(pto_tensor_permute(&src, NULL, &out));
    expect_dims(&out, 0, NULL, NULL);
    expect_refused(out, pto_tensor_transpose(&src, 0, 0, &out), PTO_BAD_DIM, "d0 0", "0 dims");
}

static void test_broadcast(void **state)
{
    (void)state;
    pto_tensor src = sound(), row, out;
    expect_ok(pto_tensor_slice(&src, 0, 2, 3, 1, &row));
    expect_ok(pto_tensor_broadcast(&row, 4, DIMS(5, 1, 6, 8), &out));
    expect_dims(&out, 4, DIMS(5, 1, 6, 8), DIMS(0, 0, 0, 1));
    assert_int_equal(out.offset, 3 + 32);
    expect_same_memory(&out, &src, PTO_SHALLOW_VIEW);
    expect_ok(pto_tensor_broadcast(&src, 2, DIMS(4, 8), &out));
    expect_dims(&out, 2, DIMS(4, 8), DIMS(16, 1));
    expect_ok(pto_tensor_broadcast(&row, 2, DIMS(0, 8), &out));
    expect_dims(&out, 2, DIMS(0, 8), DIMS(0, 1));

    expect_refused(out, pto_tensor_broadcast(&src, 2, DIMS(4, 9), &out), PTO_NOT_BROADCASTABLE,
                   "broadcast: size 9 of dim 1 from size 8 of source dim 1");
    expect_refused(out, pto_tensor_broadcast(&src, 3, DIMS(4, 8, 8), &out), PTO_NOT_BROADCASTABLE,
                   "size 8 of dim 1 from size 4 of source dim 0");
    expect_refused(out, pto_tensor_broadcast(&src, 2, DIMS(0, 8), &out), PTO_NOT_BROADCASTABLE,
                   "size 0 of dim 0 from size 4");
    expect_refused(out, pto_tensor_broadcast(&src, 2, DIMS(1, 8), &out), PTO_NOT_BROADCASTABLE,
                   "size 1 of dim 0 from size 4");
    expect_refused(out, pto_tensor_broadcast(&src, 1, DIMS(8), &out), PTO_NOT_BROADCASTABLE,
                   "1 dims from a source with 2");
    expect_refused(out, pto_tensor_broadcast(&src, 9, DIMS(1), &out), PTO_BAD_NDIM, "ndim 9");
    expect_refused(out, pto_tensor_broadcast(&src, -1, DIMS(1), &out), PTO_BAD_NDIM, "ndim -1");
    expect_refused(out, pto_tensor_broadcast(&src, 2, DIMS(4, -8), &out), PTO_BAD_SHAPE,
                   "shape[1] is -8");
    expect_refused(out, pto_tensor_broadcast(&src, 2, NULL, &out), PTO_NULL_ARGUMENT,
                   "shape is NULL");
    expect_fail(pto_tensor_broadcast(&src, 2, DIMS(4, 8), NULL), PTO_NULL_ARGUMENT,
                "broadcast: out is NULL");
    expect_refused(out, pto_tensor_broadcast(&src, 4, DIMS(1 << 30, 1 << 30, 4, 8), &out),
                   PTO_OVERFLOW, "[1073741824, 1073741824, 4, 8]");
    expect_ok(pto_tensor_broadcast(&src, 4, DIMS(1 << 30, 1 << 27, 4, 8), &out));
    assert_int_equal(pto_tensor_numel(&out), INT64_C(1) << 62);
}

/* ---- What all of them share ------------------------------------------------------------- */

static void test_unsound_source(void **state)
{
    (void)state;
    pto_tensor bad = sound(), out;
    bad.storage_bytes = 100;
    for (int round = 0; round < 2; round++) {
        const pto_tensor *src = round ? NULL : &bad;
        pto_status s = round ? PTO_NULL_ARGUMENT : PTO_OUT_OF_BOUNDS;
        const char *word = round ? ": src is NULL" : "storage_bytes is 100";
        expect_refused(out, pto_tensor_view(src, DIMS(0, 0), DIMS(1, 1), &out), s, "view:", word);
        expect_refused(out, pto_tensor_slice(src, 0, 0, 1, 1, &out), s, "slice:", word);
        expect_refused(out, pto_tensor_permute(src, (const int32_t[]){0, 1}, &out), s,
                       "permute:", word);
        expect_refused(out, pto_tensor_transpose(src, 0, 1, &out), s, "transpose:", word);
        expect_refused(out, pto_tensor_reshape(src, 1, DIMS(32), &out), s, "reshape:", word);
        expect_refused(out, pto_tensor_broadcast(src, 2, DIMS(4, 8), &out), s, "broadcast:", word);
    }
}

/* An output that is the input, and arrays that are part of it, also when the call fails. */
static void test_in_place(void **state)
{
    (void)state;
    pto_tensor t = sound(), kept;
    expect_ok(pto_tensor_view(&t, DIMS(1, 0), DIMS(2, 8), &t));
    expect_dims(&t, 2, DIMS(2, 8), DIMS(16, 1));
    expect_ok(pto_tensor_slice(&t, 1, 7, -1, -1, &t));
    expect_dims(&t, 2, DIMS(2, 8), DIMS(16, -1));
    expect_ok(pto_tensor_transpose(&t, 0, 1, &t));
    expect_ok(pto_tensor_permute(&t, (const int32_t[]){1, 0}, &t));
    expect_dims(&t, 2, DIMS(2, 8), DIMS(16, -1));
    expect_ok(pto_tensor_reshape(&t, 3, DIMS(2, 4, 2), &t));
    expect_dims(&t, 3, DIMS(2, 4, 2), DIMS(16, -2, -1));
    expect_ok(pto_tensor_reshape(&t, 3, t.shape, &t));
    expect_ok(pto_tensor_broadcast(&t, 3, t.shape, &t));
    expect_ok(pto_tensor_view(&t, DIMS(0, 0, 0), t.shape, &t));
    expect_dims(&t, 3, DIMS(2, 4, 2), DIMS(16, -2, -1));
    assert_int_equal(t.offset, 3 + 16 + 7);

    /* Arrays of an output that is not the input; dims past ndim are cleared, whatever was there. */
    pto_tensor out = t;
    out.shape[7] = out.strides[7] = 9;
    out.shape[0] = 1;
    out.strides[1] = 3;
    expect_ok(pto_tensor_view(&t, DIMS(1, 0, 0), out.shape, &out));
    expect_dims(&out, 3, DIMS(1, 4, 2), DIMS(16, -2, -1));
    assert_int_equal(out.shape[7] | out.strides[7], 0);
    assert_int_equal(out.offset, t.offset + 16);
    pto_tensor row;
    expect_ok(pto_tensor_select(&t, 0, 0, &row)); /* [4, 2] */
    memset(&out, 9, sizeof out);
    out.shape[0] = out.strides[0] = 1, out.shape[1] = out.strides[1] = 1;
    expect_ok(pto_tensor_view(&row, out.shape, out.strides, &out));
    expect_dims(&out, 2, DIMS(1, 1), DIMS(-2, -1));
    assert_int_equal(out.offset, row.offset - 3);
    assert_int_equal(out.shape[2] | out.strides[2] | out.shape[7] | out.strides[7], 0);

    kept = t;
    expect_fail(pto_tensor_view(&t, DIMS(0, 0, 1), t.shape, &t), PTO_OUT_OF_BOUNDS, "dim 2");
    expect_fail(pto_tensor_slice(&t, 1, 0, 5, 1, &t), PTO_OUT_OF_BOUNDS, "stop 5");
    expect_fail(pto_tensor_permute(&t, (const int32_t[]){1, 0, 1}, &t), PTO_BAD_PERMUTATION, "1");
    expect_fail(pto_tensor_reshape(&t, 1, DIMS(16), &t), PTO_NEEDS_COPY, "16");
    expect_fail(pto_tensor_broadcast(&t, 3, DIMS(3, 4, 2), &t), PTO_NOT_BROADCASTABLE, "3");
    assert_memory_equal(&t, &kept, sizeof t);
}

/* ---- Long chains ------------------------------------------------------------------------- */

static void test_chains(void **state)
{
    (void)state;
    static chain_model m;
    test_rng rng = test_rng_make(test_seed());
    uint64_t emptied = 0, grown = 0;
    for (uint64_t i = random_rounds(20000); i > 0; i--) {
        pto_tensor t;
        if (!random_tensor(&rng, 5, 300, memory, sizeof memory, &t)) {
            continue;
        }
        chain_model_of(&t, &m);
        chain_expect(&t, &m);
        for (int64_t steps = test_between(&rng, 1, 10); steps > 0; steps--) {
            chain_step(&rng, &t, &m);
        }
        int64_t count = count_of(m.ndim, m.shape);
        emptied += count == 0;
        grown += count > 20;
    }
    assert_true(emptied > 20 && grown > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_view),           cmocka_unit_test(test_slice),
        cmocka_unit_test(test_select),         cmocka_unit_test(test_select),
        cmocka_unit_test(test_permute),        cmocka_unit_test(test_broadcast),
        cmocka_unit_test(test_unsound_source), cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_chains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
