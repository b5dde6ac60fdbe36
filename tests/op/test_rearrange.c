/* test_rearrange.c - any layout to any other, byte for byte against a naive loop; what is
 * refused. */
#include "rearranges.h"

#include "op/rearrange/rearrange.h"

/* ---- Any layout to any other --------------------------------------------------------------- */

typedef pto_status rearrange_fn(const pto_tensor *dst, const pto_tensor *src);

static pto_status in_parallel(const pto_tensor *dst, const pto_tensor *src)
{
    return pto_rearrange_parallel(dst, src, 3);
}

static pto_status by_plan(const pto_tensor *dst, const pto_tensor *src)
{
    pto_rearrange_plan *plan = NULL;
    pto_status s = pto_rearrange_plan_create(dst, src, &plan);
    if (!s) {
        s = pto_rearrange_plan_execute(plan, dst, src);
    }
    pto_rearrange_plan_destroy(plan);
    return s;
}

/* What has come up: a test that never saw a case has not tested it. */
typedef struct seen {
    uint64_t done, empty, no_dims, all_dims, backwards, broadcast, twice, met, same, size[9];
} seen;

static void look(seen *s, const pto_tensor *dst, const pto_tensor *src)
{
    for (int32_t d = 0; d < dst->ndim; d++) {
        s->backwards += dst->shape[d] > 1 && dst->strides[d] < 0;
        s->broadcast += dst->shape[d] > 1 && src->strides[d] == 0;
    }
    s->empty += count_of(dst->ndim, dst->shape) == 0;
    s->no_dims += dst->ndim == 0;
    s->all_dims += dst->ndim == PTO_MAX_DIMS;
    s->size[pto_dtype_size(dst->dtype)]++;
}

static void rearrange_all_kinds(rearrange_fn *rearrange, uint64_t seed)
{
    test_rng rng = test_rng_make(test_seed() + seed);
    seen s = {0};
    for (uint64_t round = random_rounds(6000); round > 0; round--) {
        pto_tensor src, dst;
        int64_t shape[PTO_MAX_DIMS];
        int32_t ndim = random_shape(&rng, PTO_MAX_DIMS, MOST, shape);
        pto_dtype dtype = random_dtype(&rng);
        int from = test_chance(&rng, 30) ? 1 : 0; /* sometimes in the region of the other */
        if (!place(&rng, from, dtype, ndim, shape, &src) ||
            !place(&rng, 1, dtype, ndim, shape, &dst)) {
            continue;
        }
        if (from == 1 && test_chance(&rng, 20)) {
            dst = src;
        }
        scramble(&rng);
        look(&s, &dst, &src);
        if (meets_itself(&dst)) {
            s.twice++;
            expect_fail(rearrange(&dst, &src), PTO_SELF_OVERLAP, "dst", "strides");
        } else if (share_bytes(&dst, &src) && !same_elements(&dst, &src)) {
            s.met++;
            expect_fail(rearrange(&dst, &src), PTO_OVERLAP, "dst", "src", "share memory");
        } else {
            s.done++;
            s.same += share_bytes(&dst, &src);
            expect_ok(rearrange(&dst, &src));
            naive_copy(&dst, &src);
        }
        expect_same();
    }
    assert_true(s.done && s.empty && s.no_dims && s.all_dims && s.backwards && s.broadcast);
    assert_true(s.twice && s.met && s.same && s.size[1] && s.size[2] && s.size[4] && s.size[8]);
}

static void copies_of_all_kinds(void **state)
{
    (void)state;
    rearrange_all_kinds(pto_rearrange, 0);
}

static void parallel_copies_of_all_kinds(void **state)
{
    (void)state;
    rearrange_all_kinds(in_parallel, 1);
}

static void planned_copies_of_all_kinds(void **state)
{
    (void)state;
    rearrange_all_kinds(by_plan, 2);
}

/* The example of the header. */
static void images_become_planes(void **state)
{
    (void)state;
    static float image[48][64][3], planes[3][48][64];
    pto_tensor src, dst, turned;
    for (int i = 0; i < 48 * 64 * 3; i++) {
        (&image[0][0][0])[i] = (float)i;
    }
    expect_ok(pto_tensor_init(&src, image, sizeof image, PTO_FLOAT32, 3, DIMS(48, 64, 3), NULL, 0));
    expect_ok(
        pto_tensor_init(&dst, planes, sizeof planes, PTO_FLOAT32, 3, DIMS(3, 48, 64), NULL, 0));
    expect_ok(pto_tensor_permute(&src, (const int32_t[]){2, 0, 1}, &turned));
    expect_ok(pto_rearrange(&dst, &turned));
    for (int y = 0; y < 48; y++) {
        for (int x = 0; x < 64; x++) {
            for (int c = 0; c < 3; c++) {
                assert_true(planes[c][y][x] == image[y][x][c]);
            }
        }
    }
}

/* ---- Whether a view meets itself ------------------------------------------------------------ */

static bool meets_by_trial(int32_t ndim, const int64_t *shape, const int64_t *strides)
{
    static bool used[4096];
    int64_t index[PTO_MAX_DIMS] = {0};
    memset(used, 0, sizeof used);
    do {
        int64_t at = 2048;
        for (int32_t d = 0; d < ndim; d++) {
            at += index[d] * strides[d];
        }
        assert_true(at >= 0 && at < 4096);
        if (used[at]) {
            return true;
        }
        used[at] = true;
    } while (next_index(ndim, shape, index));
    return false;
}

/* All layouts of three dims with small sizes and strides, and random ones of more dims. */
static void views_meet_themselves_or_not(void **state)
{
    (void)state;
    uint64_t yes = 0, no = 0, unsorted = 0;
    for (int code = 0; code < 4 * 4 * 4 * 12 * 12 * 12; code++) {
        int rest = code;
        int64_t shape[3], strides[3];
        for (int d = 0; d < 3; d++, rest /= 4) {
            shape[d] = rest % 4 + 1;
        }
        for (int d = 0; d < 3; d++, rest /= 12) {
            strides[d] = rest % 12;
        }
        bool meets = meets_by_trial(3, shape, strides);
        *(meets ? &yes : &no) += 1;
        unsorted += !meets && shape[0] == 2 && shape[1] == 2 && strides[0] == 3 && strides[1] == 2;
        assert_int_equal(ptoi_meets_itself(3, shape, strides, UINT64_MAX),
                         meets ? PTOI_YES : PTOI_NO);
    }
    assert_true(yes && no && unsorted);
    test_rng rng = test_rng_make(test_seed());
    yes = no = 0;
    for (uint64_t round = random_rounds(20000); round > 0; round--) {
        int64_t shape[PTO_MAX_DIMS], strides[PTO_MAX_DIMS];
        int32_t ndim = (int32_t)test_between(&rng, 2, 5);
        for (int32_t d = 0; d < ndim; d++) {
            shape[d] = test_between(&rng, 1, 4);
            strides[d] = test_between(&rng, -120, 120);
        }
        bool meets = meets_by_trial(ndim, shape, strides);
        *(meets ? &yes : &no) += 1;
        assert_int_equal(ptoi_meets_itself(ndim, shape, strides, UINT64_MAX),
                         meets ? PTOI_YES : PTOI_NO);
    }
    assert_true(yes && no);
}

/* Large strides without a common measure: nothing short of a search can tell. */
static void tangled_destinations_are_refused_by_budget(void **state)
{
    (void)state;
    static const int64_t shape[] = {40, 40, 40, 40, 40};
    static const int64_t strides[] = {1000003, 999983, 999979, 999961, 999959};
    assert_int_equal(ptoi_meets_itself(5, shape, strides, 1), PTOI_OUT_OF_BUDGET);
    assert_int_not_equal(ptoi_meets_itself(5, shape, strides, UINT64_C(1) << 24),
                         PTOI_OUT_OF_BUDGET);
}

static void unsorted_strides_that_do_not_meet(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    scramble(&rng);
    /* Places 0, 2, 3, 5: no step of either dim moves past what the other touches. */
    pto_tensor src = dense_at(0, PTO_INT16, 2, DIMS(2, 2)),
               dst = view_at(1, PTO_INT16, 2, DIMS(2, 2), DIMS(3, 2), 0);
    expect_ok(pto_rearrange(&dst, &src));
    naive_copy(&dst, &src);
    expect_same();
    dst = view_at(1, PTO_INT16, 2, DIMS(3, 3), DIMS(3, 2), 0); /* 6 is 2 * 3 and 3 * 2 */
    src = dense_at(0, PTO_INT16, 2, DIMS(3, 3));
    expect_ok(pto_rearrange(&dst, &src));
    dst = view_at(1, PTO_INT16, 2, DIMS(3, 4), DIMS(3, 2), 0);
    src = dense_at(0, PTO_INT16, 2, DIMS(3, 4));
    expect_fail(pto_rearrange(&dst, &src), PTO_SELF_OVERLAP, "[3, 4]", "[3, 2]");
}

/* ---- What is refused ------------------------------------------------------------------------ */

static pto_device nvidia(int32_t index)
{
    return (pto_device){PTO_DEVICE_NVIDIA, index};
}

/* By every function that takes two tensors. */
static void refuse(const pto_tensor *dst, const pto_tensor *src, pto_status status,
                   const char *const *words)
{
    static rearrange_fn *const functions[] = {pto_rearrange, in_parallel, by_plan};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        PTO_IGNORE(pto_fail(PTO_CORRUPT, "stale"));
        expect_status(functions[i](dst, src), status, words, "a rearrange", __FILE__, __LINE__);
        expect_same();
    }
}

#define REFUSE(dst, src, status, ...)                                                              \
    refuse((dst), (src), (status), (const char *const[]){__VA_ARGS__, NULL})

static void pairs_that_do_not_fit(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    scramble(&rng);
    pto_tensor src = dense_at(0, PTO_FLOAT32, 2, DIMS(5, 7)),
               dst = dense_at(1, PTO_FLOAT32, 2, DIMS(5, 7)), t = src;
    REFUSE(&dst, NULL, PTO_NULL_ARGUMENT, "src is NULL");
    REFUSE(NULL, &src, PTO_NULL_ARGUMENT, "dst is NULL");
    t = dense_at(0, PTO_INT32, 2, DIMS(5, 7)); /* as many bytes each, and still not the same */
    REFUSE(&dst, &t, PTO_BAD_DTYPE, "int32", "float32", "3", "1");
    t = dense_at(0, PTO_FLOAT32, 2, DIMS(5, 8));
    REFUSE(&dst, &t, PTO_BAD_SHAPE, "[5, 8]", "[5, 7]");
    t = dense_at(0, PTO_FLOAT32, 1, DIMS(35));
    REFUSE(&dst, &t, PTO_BAD_SHAPE, "[35]", "[5, 7]");
    t = view_at(1, PTO_FLOAT32, 2, DIMS(5, 7), DIMS(0, 1), 3);
    REFUSE(&t, &src, PTO_SELF_OVERLAP, "[5, 7]", "[0, 1]");
    t = view_at(1, PTO_FLOAT32, 2, DIMS(5, 7), DIMS(6, 1), 3);
    REFUSE(&t, &src, PTO_SELF_OVERLAP, "[5, 7]", "[6, 1]");
    t = view_at(1, PTO_FLOAT32, 2, DIMS(5, 7), DIMS(7, 1), 34);
    REFUSE(&dst, &t, PTO_OVERLAP, "bytes 0 to 140", "136 to 276", "share memory");
    t = view_at(1, PTO_FLOAT32, 2, DIMS(5, 7), DIMS(-7, 1), 28);
    REFUSE(&dst, &t, PTO_OVERLAP, "share memory");
}

static void devices_that_do_not_fit(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    scramble(&rng);
    pto_tensor src = dense_at(0, PTO_FLOAT32, 1, DIMS(5)),
               dst = dense_at(1, PTO_FLOAT32, 1, DIMS(5));
    src.device = nvidia(3);
    REFUSE(&dst, &src, PTO_DEVICES_DIFFER, "nvidia:3", "cpu:0");
    dst.device = nvidia(2);
    REFUSE(&dst, &src, PTO_DEVICES_DIFFER, "nvidia:3", "nvidia:2");
    src.device = dst.device;
    REFUSE(&dst, &src, PTO_NOT_IMPLEMENTED, "nvidia:2");
    src.device = dst.device = (pto_device){PTO_DEVICE_CPU, 1};
    REFUSE(&dst, &src, PTO_BAD_DEVICE, "cpu:1");
    src.device = dst.device = (pto_device){(pto_device_type)77, 0};
    REFUSE(&dst, &src, PTO_BAD_DEVICE, "77");
}

/* Each of these is broken in one field; the layout is one for which a plan is known. */
static void hostile_tensors_with_a_known_layout(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    scramble(&rng);
    pto_tensor good[2] = {dense_at(1, PTO_FLOAT32, 2, DIMS(4, 8)),
                          view_at(0, PTO_FLOAT32, 2, DIMS(4, 8), DIMS(-8, 1), 24)};
    expect_ok(pto_rearrange(&good[0], &good[1]));
    naive_copy(&good[0], &good[1]);
    for (int side = 0; side < 2; side++) {
        const char *name = side ? "src" : "dst";
        pto_tensor t[2] = {good[0], good[1]}, *bad = &t[side];
#define BROKEN(change, status, ...)                                                                \
    do {                                                                                           \
        *bad = good[side];                                                                         \
        change;                                                                                    \
        REFUSE(&t[0], &t[1], status, name, __VA_ARGS__);                                           \
    } while (0)
        /* Offsets that keep the address modulo 64. */
        BROKEN(bad->offset += 16 * 1024, PTO_OUT_OF_BOUNDS, "8192");
        BROKEN(bad->offset -= 16 * 1024, PTO_OUT_OF_BOUNDS, side ? "-16360" : "-16384");
        BROKEN(bad->offset += INT64_C(1) << 61, PTO_OUT_OF_BOUNDS, "23058430092136939");
        BROKEN(bad->offset += INT64_C(1) << 62, PTO_OVERFLOW, "46116860");
        BROKEN(bad->offset = INT64_MIN, PTO_OUT_OF_BOUNDS, "-9223372036854775808");
        BROKEN(bad->storage_bytes = 127, PTO_OUT_OF_BOUNDS, "127", "128");
        BROKEN(bad->storage_bytes = UINT64_MAX, PTO_OVERFLOW, "18446744073709551615");
        BROKEN(bad->storage_bytes = INT64_MAX;
               bad->storage = (void *)-64, PTO_OVERFLOW, "0xffffffffffffffc0");
        BROKEN(bad->storage = NULL, PTO_NULL_ARGUMENT, "NULL", "8192");
        BROKEN(bad->storage = NULL; bad->owner = 99, PTO_NULL_ARGUMENT, "99");
        BROKEN(bad->kind = (pto_extraction)17, PTO_BAD_CONFIG, "17");
        BROKEN(bad->ndim = 9, PTO_BAD_NDIM, "9");
        BROKEN(bad->ndim = -1, PTO_BAD_NDIM, "-1");
        BROKEN(bad->dtype = (pto_dtype)55, PTO_BAD_DTYPE, "55");
        BROKEN(bad->shape[1] = -8, PTO_BAD_SHAPE, "-8");
        BROKEN(bad->strides[0] = INT64_MAX, PTO_OVERFLOW, "9223372036854775807");
#undef BROKEN
    }
    /* Down from an offset that is too small for the strides: still the same modulo 64. */
    pto_tensor low = good[1];
    low.offset = 8;
    REFUSE(&good[0], &low, PTO_OUT_OF_BOUNDS, "-16");
    expect_ok(pto_rearrange(&good[0], &good[1]));
    expect_same();
}

/* Without elements there is nothing to be wrong with memory or strides. */
static void nothing_is_copied_of_nothing(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    scramble(&rng);
    pto_tensor src, dst;
    expect_ok(pto_tensor_init(&src, NULL, 0, PTO_INT64, 3, DIMS(2, 0, 3), NULL, 0));
    expect_ok(pto_tensor_init(&dst, NULL, 0, PTO_INT64, 3, DIMS(2, 0, 3), DIMS(0, 0, 0), 0));
    expect_ok(pto_rearrange(&dst, &src));
    expect_ok(in_parallel(&dst, &src));
    expect_ok(by_plan(&dst, &src));
    dst = dense_at(1, PTO_INT64, 3, DIMS(2, 0, 3));
    expect_ok(pto_rearrange(&dst, &src));
    dst.offset = REGION; /* an empty tensor is somewhere, too */
    expect_fail(pto_rearrange(&dst, &src), PTO_OUT_OF_BOUNDS, "8192");
    expect_same();
}

/* The very same place is fine, whatever strides single elements have. */
static void onto_itself(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    scramble(&rng);
    pto_tensor one = view_at(1, PTO_INT8, 3, DIMS(3, 1, 4), DIMS(-5, 77, 1), 20),
               other = view_at(1, PTO_INT8, 3, DIMS(3, 1, 4), DIMS(-5, 0, 1), 20);
    expect_ok(pto_rearrange(&one, &other));
    expect_same();
    /* At the same place, and not the same elements. */
    one = view_at(1, PTO_INT8, 2, DIMS(4, 4), DIMS(4, 1), 0);
    other = view_at(1, PTO_INT8, 2, DIMS(4, 4), DIMS(1, 4), 0);
    REFUSE(&one, &other, PTO_OVERLAP, "bytes 0 to 16", "share memory");
    /* Interleaved, and never the same byte. */
    pto_tensor even = view_at(1, PTO_INT8, 1, DIMS(100), DIMS(2), 0),
               odd = view_at(1, PTO_INT8, 1, DIMS(100), DIMS(2), 1);
    expect_ok(pto_rearrange(&even, &odd));
    naive_copy(&even, &odd);
    expect_same();
}

static void the_operator_takes_one_of_each(void **state)
{
    (void)state;
    pto_tensor t[3] = {dense_at(0, PTO_INT8, 1, DIMS(4)), dense_at(1, PTO_INT8, 1, DIMS(4)),
                       dense_at(1, PTO_INT8, 1, DIMS(4))};
    expect_fail(pto_op_run(pto_rearrange_op(), t, 1, t + 1, 2, NULL), PTO_BAD_PARAM, "1 outputs",
                "2 inputs");
    expect_fail(pto_op_run(pto_rearrange_op(), t, 0, t + 1, 1, NULL), PTO_BAD_PARAM, "0 outputs");
    expect_ok(pto_op_run(pto_rearrange_op(), t, 1, t + 1, 1, NULL));
    assert_string_equal(pto_op_name(pto_rearrange_op()), "rearrange");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_of_all_kinds),
        cmocka_unit_test(parallel_copies_of_all_kinds),
        cmocka_unit_test(planned_copies_of_all_kinds),
        cmocka_unit_test(images_become_planes),
        cmocka_unit_test(views_meet_themselves_or_not),
        cmocka_unit_test(tangled_destinations_are_refused_by_budget),
        cmocka_unit_test(unsorted_strides_that_do_not_meet),
        cmocka_unit_test(pairs_that_do_not_fit),
        cmocka_unit_test(devices_that_do_not_fit),
        cmocka_unit_test(hostile_tensors_with_a_known_layout),
        cmocka_unit_test(nothing_is_copied_of_nothing),
        cmocka_unit_test(onto_itself),
        cmocka_unit_test(the_operator_takes_one_of_each),
    };
    return cmocka_run_group_tests_name("rearrange", tests, NULL, NULL);
}
