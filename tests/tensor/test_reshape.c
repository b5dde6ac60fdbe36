/* test_reshape.c - reshape: exactly those that need no copy, and the right strides. */
#include "reshapes.h"

static int16_t memory[8192];

typedef struct dims {
    int32_t n;
    int64_t d[PTO_MAX_DIMS];
} dims;

static pto_tensor tensor_of(dims shape, const int64_t *strides, int64_t offset)
{
    pto_tensor t;
    expect_ok(
        pto_tensor_init(&t, memory, sizeof memory, PTO_INT16, shape.n, shape.d, strides, offset));
    return t;
}

static void test_views(void **state)
{
    (void)state;
    static const struct {
        dims from, strides, to, want, want_strides;
    } good[] = {
        /* Dense, split, merged, both. */
        {{2, {4, 6}}, {2, {6, 1}}, {1, {24}}, {1, {24}}, {1, {1}}},
        {{1, {24}}, {1, {1}}, {3, {2, 3, 4}}, {3, {2, 3, 4}}, {3, {12, 4, 1}}},
        {{2, {4, 6}}, {2, {6, 1}}, {2, {8, 3}}, {2, {8, 3}}, {2, {3, 1}}},
        {{1, {24}}, {1, {-5}}, {2, {6, 4}}, {2, {6, 4}}, {2, {-20, -5}}},
        /* Rows with a gap: splits stay within rows. */
        {{2, {4, 6}}, {2, {10, 1}}, {4, {2, 2, 3, 2}}, {4, {2, 2, 3, 2}}, {4, {20, 10, 2, 1}}},
        {{4, {2, 2, 3, 2}}, {4, {20, 10, 2, 1}}, {2, {4, 6}}, {2, {4, 6}}, {2, {10, 1}}},
        /* Two runs, neither of them dense. */
        {{4, {2, 3, 2, 5}}, {4, {90, 30, 10, 2}}, {2, {6, 10}}, {2, {6, 10}}, {2, {30, 2}}},
        /* Transposed: dims keep apart, but each splits. */
        {{2, {6, 4}}, {2, {1, 6}}, {3, {3, 2, 4}}, {3, {3, 2, 4}}, {3, {2, 1, 6}}},
        /* Broadcasts chain as stride 0. */
        {{2, {4, 6}}, {2, {0, 0}}, {2, {3, 8}}, {2, {3, 8}}, {2, {0, 0}}},
        {{3, {4, 6, 2}}, {3, {0, 0, 1}}, {3, {3, 8, 2}}, {3, {3, 8, 2}}, {3, {0, 0, 1}}},
        /* Sizes of 1 come and go, whatever their strides. */
        {{3, {2, 1, 3}}, {3, {3, INT64_MIN, 1}}, {1, {6}}, {1, {6}}, {1, {1}}},
        {{4, {1, 2, 1, 3}}, {4, {7, 9, 7, 2}}, {2, {2, 3}}, {2, {2, 3}}, {2, {9, 2}}},
        {{2, {2, 3}},
         {2, {9, 2}},
         {5, {1, 2, 1, 3, 1}},
         {5, {1, 2, 1, 3, 1}},
         {5, {18, 9, 6, 2, 2}}},
        {{0, {0}}, {0, {0}}, {2, {1, 1}}, {2, {1, 1}}, {2, {1, 1}}},
        {{2, {1, 1}}, {2, {5, INT64_MAX}}, {0, {0}}, {0, {0}}, {0, {0}}},
        {{0, {0}}, {0, {0}}, {0, {0}}, {0, {0}}, {0, {0}}},
        /* One size left open. */
        {{2, {4, 6}}, {2, {6, 1}}, {2, {-1, 3}}, {2, {8, 3}}, {2, {3, 1}}},
        {{2, {4, 6}}, {2, {6, 1}}, {3, {4, -1, 6}}, {3, {4, 1, 6}}, {3, {6, 6, 1}}},
        {{0, {0}}, {0, {0}}, {1, {-1}}, {1, {1}}, {1, {1}}},
        {{2, {0, 5}}, {2, {5, 1}}, {2, {-1, 7}}, {2, {0, 7}}, {2, {7, 1}}},
        /* Nothing becomes any nothing. */
        {{2, {3, 0}}, {2, {-4, INT64_MAX}}, {3, {0, 7, 2}}, {3, {0, 7, 2}}, {3, {14, 2, 1}}},
        {{1, {0}}, {1, {1}}, {2, {INT64_MAX, 0}}, {2, {INT64_MAX, 0}}, {2, {1, 1}}},
        /* Eight dims, in and out. */
        {{8, {2, 2, 2, 2, 2, 2, 2, 2}},
         {8, {128, 64, 32, 16, 8, 4, 2, 1}},
         {2, {16, 16}},
         {2, {16, 16}},
         {2, {16, 1}}},
        {{1, {256}},
         {1, {2}},
         {8, {2, 2, 2, 2, 2, 2, 2, 2}},
         {8, {2, 2, 2, 2, 2, 2, 2, 2}},
         {8, {256, 128, 64, 32, 16, 8, 4, 2}}},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        pto_tensor src = tensor_of(good[i].from, good[i].strides.d, 200), out;
        src.version = 5;
        expect_ok(pto_tensor_reshape(&src, good[i].to.n, good[i].to.d, &out));
        expect_dims(&out, good[i].want.n, good[i].want.d, good[i].want_strides.d);
        assert_int_equal(out.offset, 200);
        assert_int_equal(out.kind, PTO_SHALLOW_RESHAPE);
        assert_int_equal(out.version, 5);
        expect_ok(pto_tensor_check(&out));
    }
}

static void test_kinds(void **state)
{
    (void)state;
    /* The kind is that of the last step. */
    pto_tensor t = tensor_of((dims){2, {4, 6}}, NULL, 0);
    expect_ok(pto_tensor_reshape(&t, 1, DIMS(24), &t));
    assert_int_equal(t.kind, PTO_SHALLOW_RESHAPE);
    expect_ok(pto_tensor_view(&t, DIMS(2), DIMS(8), &t));
    assert_int_equal(t.kind, PTO_SHALLOW_VIEW);
    expect_ok(pto_tensor_reshape(&t, 2, DIMS(2, 4), &t));
    expect_ok(pto_tensor_transpose(&t, 0, 1, &t));
    assert_int_equal(t.kind, PTO_SHALLOW_TRANSPOSE);
}

static void test_refuses(void **state)
{
    (void)state;
    pto_tensor src = tensor_of((dims){2, {4, 6}}, DIMS(10, 1), 0), out;
    expect_refused(out, pto_tensor_reshape(&src, 1, DIMS(24), &out), PTO_NEEDS_COPY,
                   "reshape: new dim 0 of size 24 spans", "dims 0 (stride 10)",
                   "1 (size 6, stride 1)");
    expect_refused(out, pto_tensor_reshape(&src, 3, DIMS(1, 8, 3), &out), PTO_NEEDS_COPY,
                   "new dim 1 of size 8");
    expect_refused(out, pto_tensor_reshape(&src, 2, DIMS(4, 5), &out), PTO_BAD_SHAPE, "24 elements",
                   "[4, 5]");
    expect_refused(out, pto_tensor_reshape(&src, 2, DIMS(5, -1), &out), PTO_BAD_SHAPE,
                   "24 elements", "[5, -1]");
    expect_refused(out, pto_tensor_reshape(&src, 2, DIMS(0, -1), &out), PTO_BAD_SHAPE, "[0, -1]",
                   "dim 1");
    expect_refused(out, pto_tensor_reshape(&src, 3, DIMS(-1, 2, -1), &out), PTO_BAD_SHAPE,
                   "shape[0] and shape[2]");
    expect_refused(out, pto_tensor_reshape(&src, 2, DIMS(-2, 12), &out), PTO_BAD_SHAPE,
                   "shape[0] is -2");
    expect_refused(out, pto_tensor_reshape(&src, 0, NULL, &out), PTO_BAD_SHAPE, "24 elements",
                   "[]");
    expect_refused(out, pto_tensor_reshape(&src, 2, DIMS(0, 3), &out), PTO_BAD_SHAPE, "24 elements",
                   "[0, 3]");
    expect_refused(out, pto_tensor_reshape(&src, 3, DIMS(INT64_MAX, 3, -1), &out), PTO_OVERFLOW,
                   "9223372036854775807");
    expect_refused(out, pto_tensor_reshape(&src, 9, DIMS(24), &out), PTO_BAD_NDIM, "ndim 9");
    expect_refused(out, pto_tensor_reshape(&src, -1, DIMS(24), &out), PTO_BAD_NDIM, "ndim -1");
    expect_refused(out, pto_tensor_reshape(&src, 1, NULL, &out), PTO_NULL_ARGUMENT,
                   "shape is NULL");
    expect_fail(pto_tensor_reshape(&src, 1, DIMS(24), NULL), PTO_NULL_ARGUMENT,
                "reshape: out is NULL");
    src = tensor_of((dims){2, {0, 5}}, NULL, 0);
    expect_refused(out, pto_tensor_reshape(&src, 2, DIMS(-1, 0), &out), PTO_BAD_SHAPE, "[-1, 0]");
    expect_refused(out, pto_tensor_reshape(&src, 1, DIMS(1), &out), PTO_BAD_SHAPE, "0 elements");
}

/* Strides so long that size * stride does not fit: no chain, but no error either. */
static void test_long_strides(void **state)
{
    (void)state;
    pto_tensor t = {.storage = memory,
                    .storage_bytes = INT64_MAX,
                    .dtype = PTO_INT8,
                    .ndim = 2,
                    .shape = {2, 2},
                    .strides = {1, INT64_C(1) << 62}};
    t.owner = 1;
    t.storage = NULL;
    pto_tensor out;
    expect_refused(out, pto_tensor_reshape(&t, 1, DIMS(4), &out), PTO_NEEDS_COPY,
                   "stride 4611686018427387904");
    expect_ok(pto_tensor_reshape(&t, 4, DIMS(1, 2, 1, 2), &out));
    expect_dims(&out, 4, DIMS(1, 2, 1, 2), DIMS(2, 1, 0, INT64_C(1) << 62));
}

/* ---- Against all places ------------------------------------------------------------------ */

static void test_differential(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    uint64_t yes = 0, no = 0;
    for (uint64_t i = random_rounds(100000); i > 0; i--) {
        if (reshape_case(&rng)) {
            yes++;
        } else {
            no++;
        }
    }
    assert_true(yes > no / 10 && no > yes / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_views),        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_refuses),      cmocka_unit_test(test_long_strides),
        cmocka_unit_test(test_differential),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
