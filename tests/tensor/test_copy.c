/* test_copy.c - clone and contiguous, byte for byte against a naive loop. */
#include "tensors.h"

static unsigned char memory[16384];

typedef pto_status copy_op(const pto_tensor *src, void *storage, uint64_t bytes, pto_tensor *out);

static void fill(test_rng *rng)
{
    for (size_t i = 0; i < sizeof memory; i++) {
        memory[i] = (unsigned char)test_next(rng);
    }
}

static unsigned char *element(const pto_tensor *t, const int64_t *index)
{
    return (unsigned char *)t->storage + place_of(t, index) * (int64_t)pto_dtype_size(t->dtype);
}

/* Every element equal, and the copy fills its bytes: no gap, no place used twice. */
static void expect_copy(const pto_tensor *src, const pto_tensor *copy)
{
    static unsigned char used[sizeof memory];
    int64_t index[PTO_MAX_DIMS] = {0}, count = count_of(src->ndim, src->shape);
    size_t size = pto_dtype_size(src->dtype);
    expect_ok(pto_tensor_check(copy));
    assert_int_equal(copy->ndim, src->ndim);
    assert_int_equal(copy->dtype, src->dtype);
    memset(used, 0, sizeof used);
    for (int32_t d = 0; d < PTO_MAX_DIMS; d++) {
        assert_int_equal(copy->shape[d], d < src->ndim ? src->shape[d] : 0);
        assert_true(d < src->ndim || copy->strides[d] == 0);
    }
    assert_int_equal(copy->offset, 0);
    if (!count) {
        return;
    }
    do {
        int64_t at = place_of(copy, index);
        assert_in_range(at, 0, count - 1);
        assert_int_equal(used[at]++, 0);
        assert_memory_equal(element(copy, index), element(src, index), size);
    } while (next_index(src->ndim, src->shape, index));
}

/* A smaller |stride| in the source lies further in, equal ones stay in order. */
static void expect_memory_order(const pto_tensor *src, const pto_tensor *copy)
{
    if (!count_of(src->ndim, src->shape)) {
        return;
    }
    for (int32_t a = 0; a < src->ndim; a++) {
        for (int32_t b = a + 1; b < src->ndim; b++) {
            if (src->shape[a] == 1 || src->shape[b] == 1) {
                continue;
            }
            int64_t far_a = llabs(src->strides[a]), far_b = llabs(src->strides[b]);
            assert_int_equal(far_a >= far_b, copy->strides[a] > copy->strides[b]);
        }
    }
}

/* ---- By hand ----------------------------------------------------------------------------- */

static void test_small(void **state)
{
    (void)state;
    int32_t a[2][3] = {{1, 2, 3}, {4, 5, 6}}, b[6];
    pto_tensor t, out;
    expect_ok(pto_tensor_init(&t, a, sizeof a, PTO_INT32, 2, DIMS(2, 3), NULL, 0));
    expect_ok(pto_tensor_transpose(&t, 0, 1, &t));
    t.version = 4;
    t.device.index = 1;

    expect_ok(pto_tensor_contiguous(&t, b, sizeof b, &out));
    assert_memory_equal(b, ((int32_t[]){1, 4, 2, 5, 3, 6}), sizeof b);
    expect_dims(&out, 2, DIMS(3, 2), DIMS(2, 1));
    assert_int_equal(out.kind, PTO_DEEP_CONTIGUOUS);

    /* A transposed matrix stays transposed: its memory is a plain copy. */
    expect_ok(pto_tensor_clone(&t, b, sizeof b, &out));
    assert_memory_equal(b, a, sizeof b);
    expect_dims(&out, 2, DIMS(3, 2), DIMS(1, 3));
    assert_int_equal(out.kind, PTO_DEEP_VIEW);
    assert_ptr_equal(out.storage, b);
    assert_int_equal(out.storage_bytes, sizeof b);
    assert_int_equal(out.version, 0);
    assert_int_equal(out.device.index, 1);

    /* Backwards in memory is forwards in the copy. */
    expect_ok(pto_tensor_slice(&t, 0, 2, -1, -1, &t));
    expect_ok(pto_tensor_clone(&t, b, sizeof b, &out));
    assert_memory_equal(b, ((int32_t[]){3, 2, 1, 6, 5, 4}), sizeof b);
    expect_dims(&out, 2, DIMS(3, 2), DIMS(1, 3));

    /* A broadcast becomes real. */
    expect_ok(pto_tensor_init(&t, a, sizeof a, PTO_INT32, 2, DIMS(2, 3), DIMS(0, 1), 3));
    expect_ok(pto_tensor_contiguous(&t, b, sizeof b, &out));
    assert_memory_equal(b, ((int32_t[]){4, 5, 6, 4, 5, 6}), sizeof b);
    expect_ok(pto_tensor_clone(&t, b, sizeof b, &out));
    assert_memory_equal(b, ((int32_t[]){4, 4, 5, 5, 6, 6}), sizeof b);
    expect_dims(&out, 2, DIMS(2, 3), DIMS(1, 2));

    /* Sizes of 1 take the place their neighbours give them. */
    expect_ok(pto_tensor_init(&t, a, sizeof a, PTO_INT32, 4, DIMS(1, 2, 1, 3),
                              DIMS(INT64_MIN, 3, 1000, 1), 0));
    expect_ok(pto_tensor_clone(&t, b, sizeof b, &out));
    expect_dims(&out, 4, DIMS(1, 2, 1, 3), DIMS(6, 3, 3, 1));
    assert_true(pto_tensor_is_contiguous(&out));

    /* No dims; no elements; the copy in place of the source. */
    expect_ok(pto_tensor_init(&t, a, sizeof a, PTO_INT32, 0, NULL, NULL, 5));
    expect_ok(pto_tensor_clone(&t, b, 4, &t));
    assert_int_equal(b[0], 6);
    assert_ptr_equal(t.storage, b);
    expect_ok(pto_tensor_init(&t, a, sizeof a, PTO_INT32, 2, DIMS(5, 0), DIMS(INT64_MIN, 3), 2));
    expect_ok(pto_tensor_clone(&t, NULL, 0, &out));
    expect_dims(&out, 2, DIMS(5, 0), DIMS(1, 1));
    assert_int_equal(out.offset, 0);
    /* Nothing is written, so nothing is shared. */
    expect_ok(pto_tensor_contiguous(&t, a, sizeof a, &t));
}

static void refuse_all(copy_op *op, const char *name)
{
    pto_tensor t, bad, out;
    unsigned char to[64];
    expect_ok(pto_tensor_init(&t, memory, 128, PTO_INT16, 2, DIMS(4, 8), DIMS(16, 1), 0));

    expect_refused(out, op(NULL, to, sizeof to, &out), PTO_NULL_ARGUMENT, name, "src is NULL");
    expect_fail(op(&t, to, sizeof to, NULL), PTO_NULL_ARGUMENT, name, "out is NULL");
    expect_refused(out, op(&t, NULL, 64, &out), PTO_NULL_ARGUMENT, name, "storage is NULL", "64");
    expect_refused(out, op(&t, to, 63, &out), PTO_BUFFER_TOO_SMALL, name, "63", "64 are needed");
    expect_refused(out, op(&t, NULL, 0, &out), PTO_BUFFER_TOO_SMALL, name, "is 0", "64");
    expect_refused(out, op(&t, to, UINT64_C(1) << 63, &out), PTO_OVERFLOW, name,
                   "9223372036854775808");
    void *top = (void *)(UINTPTR_MAX - 63); /* NOLINT(performance-no-int-to-ptr) */
    expect_refused(out, op(&t, top, 64, &out), PTO_OVERFLOW, name, "0xffffffffffffffc0", "64");

    bad = t;
    bad.shape[0] = 5;
    expect_refused(out, op(&bad, to, sizeof to, &out), PTO_OUT_OF_BOUNDS, name, "128");
    bad = t;
    bad.device = (pto_device){PTO_DEVICE_NVIDIA, 3};
    expect_refused(out, op(&bad, to, sizeof to, &out), PTO_BAD_DEVICE, name, "nvidia:3");
    bad = t;
    bad.owner = 17;
    bad.storage = NULL;
    expect_refused(out, op(&bad, to, sizeof to, &out), PTO_NULL_ARGUMENT, name, "block 17");
    bad = t;
    bad.dtype = PTO_INT64;
    bad.ndim = 1;
    bad.shape[0] = INT64_C(1) << 61;
    bad.strides[0] = 0;
    expect_refused(out, op(&bad, to, sizeof to, &out), PTO_OVERFLOW, name, "2305843009213693952");

    /* Rows of 16 bytes with gaps of 16: the first gap is large enough for a single row. */
    expect_refused(out, op(&t, memory, 64, &out), PTO_OVERLAP, name, "64 bytes");
    expect_refused(out, op(&t, memory + 111, 64, &out), PTO_OVERLAP, name, "64 bytes");
    expect_refused(out, op(&t, memory + 16, 64, &out), PTO_OVERLAP, name);
    expect_ok(op(&t, memory + 112, 64, &out));
    expect_ok(pto_tensor_slice(&t, 1, 0, 2, 1, &t));
    expect_ok(op(&t, memory + 4, 28, &out));
    expect_refused(out, op(&t, memory + 17, 16, &out), PTO_OVERLAP, name, "16 bytes");

    /* Managed memory is where its address says. */
    bad = t;
    bad.owner = 17;
    bad.generation = 18;
    bad.version = 19;
    expect_refused(out, op(&bad, memory + 17, 16, &out), PTO_OVERLAP, name, "16 bytes");
    expect_ok(op(&bad, to, sizeof to, &out));
    assert_int_equal(out.owner, 0);
    assert_int_equal(out.generation, 0);
    assert_int_equal(out.version, 0);
}

static void test_refuses(void **state)
{
    (void)state;
    refuse_all(pto_tensor_clone, "clone: ");
    refuse_all(pto_tensor_contiguous, "contiguous: ");
}

/* ---- At random --------------------------------------------------------------------------- */

static void test_differential(void **state)
{
    (void)state;
    static unsigned char to[sizeof memory + 64];
    test_rng rng = test_rng_make(test_seed());
    uint64_t copied = 0, large = 0;
    fill(&rng);
    for (uint64_t i = random_rounds(20000); i > 0; i--) {
        pto_tensor t, out;
        uint64_t bytes, shift = (uint64_t)test_between(&rng, 0, 7);
        if (!random_tensor(&rng, PTO_MAX_DIMS, 700, memory + shift, sizeof memory - 8, &t)) {
            continue;
        }
        bool clone = test_chance(&rng, 50);
        copy_op *op = clone ? pto_tensor_clone : pto_tensor_contiguous;
        unsigned char *at = to + 16 + test_between(&rng, 0, 7); /* aligned or not */
        expect_ok(pto_tensor_nbytes(&t, &bytes));
        memset(to, 0xa5, bytes + 64);
        expect_ok(op(&t, at, bytes, &out));
        expect_copy(&t, &out);
        if (clone) {
            expect_memory_order(&t, &out);
        } else {
            assert_true(pto_tensor_is_contiguous(&out));
        }
        for (unsigned char *p = to; p < to + bytes + 64; p++) {
            assert_true((p >= at && p < at + bytes) || *p == 0xa5);
        }
        copied++;
        large += bytes > 500;
    }
    assert_true(copied > 100 && large > 10);
}

/* Refused exactly if a byte of the destination is one of the source. */
static void test_overlap_differential(void **state)
{
    (void)state;
    static unsigned char touched[sizeof memory], kept[sizeof memory];
    test_rng rng = test_rng_make(test_seed());
    uint64_t shared = 0, between = 0;
    for (uint64_t i = random_rounds(5000); i > 0; i--) {
        pto_tensor t, out;
        uint64_t bytes;
        if (!random_tensor(&rng, 4, 60, memory + 1024, sizeof memory - 2048, &t)) {
            continue;
        }
        if (test_chance(&rng, 50)) {
            t.owner = 1;
        }
        expect_ok(pto_tensor_nbytes(&t, &bytes));
        size_t size = pto_dtype_size(t.dtype);
        int64_t index[PTO_MAX_DIMS] = {0}, low = INT64_MAX, end = 0;
        memset(touched, 0, sizeof touched);
        if (bytes) {
            do {
                int64_t at = element(&t, index) - memory;
                memset(touched + at, 1, size);
                low = at < low ? at : low;
                end = at + (int64_t)size > end ? at + (int64_t)size : end;
            } while (next_index(t.ndim, t.shape, index));
        } else {
            low = end = 1024;
        }
        int64_t at = test_between(&rng, low - (int64_t)bytes - 4, end + 4);
        bool meet = bytes && memchr(touched + at, 1, bytes);
        memcpy(kept, memory, sizeof kept);
        pto_status s = pto_tensor_contiguous(&t, memory + at, bytes, &out);
        assert_int_equal(s, meet ? PTO_OVERLAP : PTO_OK);
        if (meet) {
            assert_memory_equal(kept, memory, sizeof kept);
        } else if (bytes) {
            expect_copy(&t, &out);
        }
        shared += meet;
        between += !meet && bytes && at > low && at < end;
    }
    assert_true(shared > 50 && between > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_differential),
        cmocka_unit_test(test_overlap_differential),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
