/* test_rearrange_new.c - Rearrange into memory that is allocated for it, and by several threads. */
#include "rearranges.h"

#include <stdlib.h>
#include <sys/resource.h>

/* A sanitizer needs address space of its own, and takes a hopeless request for a bug. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/* ---- Allocated results ---------------------------------------------------------------------- */

static void results_are_allocated(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    for (uint64_t round = random_rounds(1000); round > 0; round--) {
        pto_tensor src, dst;
        int64_t shape[PTO_MAX_DIMS], index[PTO_MAX_DIMS] = {0}, at = 0;
        int32_t ndim = random_shape(&rng, PTO_MAX_DIMS, MOST, shape);
        pto_dtype dtype = random_dtype(&rng);
        if (!place(&rng, 0, dtype, ndim, shape, &src)) {
            continue;
        }
        src.version = 7;
        scramble(&rng);
        expect_ok(pto_rearrange_new(&src, &dst));
        expect_ok(pto_tensor_check(&dst));
        assert_true(pto_tensor_is_contiguous(&dst));
        assert_int_equal(dst.kind, PTO_DEEP_CONTIGUOUS);
        assert_int_equal(dst.version, 0);
        size_t size = pto_dtype_size(dtype);
        assert_int_equal(dst.storage_bytes, (uint64_t)count_of(ndim, shape) * size);
        assert_int_equal((uintptr_t)dst.storage % 64, 0);
        if (dst.storage_bytes) {
            do {
                assert_memory_equal((char *)dst.storage + at++ * (int64_t)size,
                                    arena + byte_of(&src, index), size);
            } while (next_index(ndim, shape, index));
        }
        pto_rearrange_free(&dst);
        assert_memory_equal(&dst, &(pto_tensor){0}, sizeof dst);
        pto_rearrange_free(&dst);
    }
    pto_rearrange_free(NULL);
}

/* The output may be the struct of the input; large ones begin with a huge page. */
static void large_results(void **state)
{
    (void)state;
    static unsigned char big[5 << 20];
    test_rng rng = test_rng_make(test_seed());
    for (size_t i = 0; i < sizeof big; i++) {
        big[i] = (unsigned char)test_next(&rng);
    }
    pto_tensor t;
    expect_ok(pto_tensor_init(&t, big, sizeof big, PTO_UINT8, 2, DIMS(1280, 4096), NULL, 0));
    expect_ok(pto_tensor_transpose(&t, 0, 1, &t));
    expect_ok(pto_rearrange_new(&t, &t));
    assert_int_equal((uintptr_t)t.storage % (2 << 20), 0);
    const unsigned char *turned = t.storage;
    for (size_t i = 0; i < 4096; i++) {
        for (size_t j = 0; j < 1280; j++) {
            assert_true(turned[i * 1280 + j] == big[j * 4096 + i]);
        }
    }
    pto_rearrange_free(&t);
}

static void no_results_of_nonsense(void **state)
{
    (void)state;
    pto_tensor dst, src = dense_at(0, PTO_FLOAT32, 2, DIMS(5, 7));
    expect_fail(pto_rearrange_new(&src, NULL), PTO_NULL_ARGUMENT, "dst");
    expect_refused(dst, pto_rearrange_new(NULL, &dst), PTO_NULL_ARGUMENT, "src");
    src.offset = REGION;
    expect_refused(dst, pto_rearrange_new(&src, &dst), PTO_OUT_OF_BOUNDS, "8192");
    src.offset = 0;
    src.device = (pto_device){PTO_DEVICE_CPU, 1};
    expect_refused(dst, pto_rearrange_new(&src, &dst), PTO_BAD_DEVICE, "cpu:1");
    src.device = (pto_device){PTO_DEVICE_MOORE, 5};
    expect_refused(dst, pto_rearrange_new(&src, &dst), PTO_NOT_IMPLEMENTED, "rearrange", "moore:5");
    /* A broadcast of more than any memory. */
    src = view_at(0, PTO_INT64, 2, DIMS(INT64_C(1) << 31, INT64_C(1) << 31), DIMS(0, 0), 0);
    expect_refused(dst, pto_rearrange_new(&src, &dst), PTO_OVERFLOW, "4611686018427387904");
    src = view_at(0, PTO_INT64, 2, DIMS(INT64_C(1) << 29, INT64_C(1) << 30), DIMS(0, 0), 0);
    if (!SANITIZED) {
        expect_refused(dst, pto_rearrange_new(&src, &dst), PTO_OUT_OF_MEMORY,
                       "4611686018427387904");
    }
    src = dense_at(0, PTO_FLOAT32, 2, DIMS(5, 7));
    src.storage = NULL; /* managed, and only tasks know where */
    src.owner = 4711;
    expect_refused(dst, pto_rearrange_new(&src, &dst), PTO_NULL_ARGUMENT, "4711");
}

/* A device that keeps books, and an implementation for it. */
static struct {
    int allocs, frees, runs;
    bool fails;
    void *memory;
    uint64_t bytes;
} far;

static pto_status far_alloc(void *self, uint64_t bytes, void **memory)
{
    assert_ptr_equal(self, &far);
    assert_int_equal(pto_device_current().index, 6);
    far.allocs++;
    far.bytes = bytes;
    *memory = far.memory = malloc(bytes);
    return PTO_OK;
}

static void far_free(void *self, void *memory, uint64_t bytes)
{
    assert_ptr_equal(self, &far);
    assert_int_equal(pto_device_current().index, 6);
    assert_ptr_equal(memory, far.memory);
    assert_int_equal(bytes, far.bytes);
    far.frees++;
    free(memory);
}

static pto_status far_rearrange(const pto_op_call *call)
{
    assert_int_equal(call->device.index, 6);
    assert_int_equal(pto_device_current().index, 6);
    far.runs++;
    if (far.fails) {
        return pto_fail(PTO_SYSTEM, "the far side gave up");
    }
    memset(call->outputs[0].storage, 0x77, call->outputs[0].storage_bytes);
    return PTO_OK;
}

static void results_on_another_device(void **state)
{
    (void)state;
    pto_device device = {PTO_DEVICE_QY, 6};
    pto_device_ops ops = {.size = sizeof ops, .self = &far, .alloc = far_alloc, .free = far_free};
    pto_tensor src = dense_at(0, PTO_INT8, 1, DIMS(100)), dst;
    src.device = device;
    expect_refused(dst, pto_rearrange_new(&src, &dst), PTO_NOT_IMPLEMENTED, "rearrange", "qy:6");
    expect_ok(pto_op_register(pto_rearrange_op(), PTO_DEVICE_QY, far_rearrange, false));
    expect_refused(dst, pto_rearrange_new(&src, &dst), PTO_BAD_DEVICE, "qy:6");
    expect_ok(pto_device_add(device, &ops));
    assert_true(!far.allocs && !far.runs);
    int allocs = far.allocs;
    expect_ok(pto_rearrange_new(&src, &dst));
    assert_int_equal(far.allocs, allocs + 1);
    assert_int_equal(far.runs, 1);
    assert_int_equal(dst.device.index, 6);
    assert_int_equal(pto_device_current().type, PTO_DEVICE_CPU);
    assert_int_equal(((unsigned char *)dst.storage)[99], 0x77);
    pto_rearrange_free(&dst);
    assert_int_equal(far.allocs, far.frees);
    far.fails = true;
    expect_refused(dst, pto_rearrange_new(&src, &dst), PTO_SYSTEM, "gave up");
    assert_int_equal(far.allocs, far.frees);
    assert_int_equal(pto_device_current().type, PTO_DEVICE_CPU);
    /* Threads and plans are for the cpu. */
    pto_rearrange_plan *plan = NULL;
    expect_fail(pto_rearrange_parallel(&src, &src, 2), PTO_NOT_IMPLEMENTED, "qy:6");
    expect_fail(pto_rearrange_plan_create(&src, &src, &plan), PTO_NOT_IMPLEMENTED, "qy:6");
    assert_null(plan);
    expect_ok(pto_op_register(pto_rearrange_op(), PTO_DEVICE_QY, NULL, true));
}

/* ---- Several threads ------------------------------------------------------------------------ */

/* Large enough for several threads to be worth it, and odd enough to leave rests. */
static void large_copies_by_threads(void **state)
{
    (void)state;
    static const struct {
        int32_t ndim;
        int64_t shape[4];
        int32_t perm[4];
    } cases[] = {
        {2, {1021, 1031}, {1, 0}},     {2, {3, 700001}, {1, 0}},
        {2, {700001, 3}, {1, 0}},      {3, {7, 401, 409}, {2, 1, 0}},
        {3, {401, 7, 409}, {1, 0, 2}}, {4, {5, 3, 301, 257}, {0, 2, 3, 1}},
        {1, {1300007}, {0}},
    };
    enum { BYTES = 9 << 20, SPARE = 129 };
    unsigned char *from = malloc(BYTES + SPARE), *to = malloc(BYTES + SPARE),
                  *want = malloc(BYTES + SPARE);
    assert_true(from && to && want);
    test_rng rng = test_rng_make(test_seed());
    for (size_t i = 0; i < BYTES + SPARE; i++) {
        from[i] = (unsigned char)test_next(&rng);
    }
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        for (uint32_t threads = 0; threads <= 4; threads++) {
            pto_tensor src, dst;
            int64_t shape[4], index[4] = {0};
            int32_t ndim = cases[c].ndim;
            unsigned char *start = to + (size_t)test_between(&rng, 0, SPARE - 1);
            expect_ok(
                pto_tensor_init(&src, from, BYTES, PTO_FLOAT32, ndim, cases[c].shape, NULL, 0));
            expect_ok(pto_tensor_permute(&src, cases[c].perm, &src));
            memcpy(shape, src.shape, sizeof shape);
            expect_ok(pto_tensor_init(&dst, start, BYTES, PTO_FLOAT32, ndim, shape, NULL, 0));
            memset(to, 0x55, BYTES + SPARE);
            memset(want, 0x55, BYTES + SPARE);
            unsigned char *at = want + (start - to);
            do {
                memcpy(at, from + place_of(&src, index) * 4, 4);
                at += 4;
            } while (next_index(ndim, shape, index));
            expect_ok(pto_rearrange_parallel(&dst, &src, threads));
            assert_memory_equal(to, want, BYTES + SPARE);
        }
    }
    free(from);
    free(to);
    free(want);
}

/* Where no thread is to be had the caller does it all. */
static void without_threads_the_caller_does_it(void **state)
{
    (void)state;
    enum { SIDE = 2048 };
    uint16_t *from = malloc(2 * SIDE * SIDE), *to = malloc(2 * SIDE * SIDE);
    assert_true(from && to);
    for (int i = 0; i < SIDE * SIDE; i++) {
        from[i] = (uint16_t)(i * 7 + i / SIDE);
        to[i] = 0;
    }
    pto_tensor src, dst;
    expect_ok(
        pto_tensor_init(&src, from, 2 * SIDE * SIDE, PTO_INT16, 2, DIMS(SIDE, SIDE), NULL, 0));
    expect_ok(pto_tensor_init(&dst, to, 2 * SIDE * SIDE, PTO_INT16, 2, DIMS(SIDE, SIDE), NULL, 0));
    expect_ok(pto_tensor_transpose(&src, 0, 1, &src));
    /* Stacks of threads need address space. */
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    const bool needs_it = SANITIZED || test_on_valgrind();
    struct rlimit none = {needs_it ? before.rlim_cur : 1, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
    pto_status s = pto_rearrange_parallel(&dst, &src, 4);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    expect_ok(s);
    for (int i = 0; i < SIDE; i++) {
        for (int j = 0; j < SIDE; j++) {
            assert_true(to[i * SIDE + j] == from[j * SIDE + i]);
        }
    }
    free(from);
    free(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* First: stacks of threads that have ended are used again. */
        cmocka_unit_test(without_threads_the_caller_does_it),
        cmocka_unit_test(results_are_allocated),
        cmocka_unit_test(large_results),
        cmocka_unit_test(no_results_of_nonsense),
        cmocka_unit_test(results_on_another_device),
        cmocka_unit_test(large_copies_by_threads),
    };
    return cmocka_run_group_tests_name("rearrange into new memory", tests, NULL, NULL);
}
