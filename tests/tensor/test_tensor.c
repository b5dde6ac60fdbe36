/* test_tensor.c - the tensor value: init, check, the questions, and the readable line. */
#include "tensors.h"

#include <inttypes.h>
#include <stdio.h>

#define HUGE (INT64_C(1) << 62)

static float memory[64];

static pto_tensor sound(void)
{
    pto_tensor t;
    expect_ok(pto_tensor_init(&t, memory, sizeof memory, PTO_FLOAT32, 2, DIMS(4, 8), NULL, 8));
    return t;
}

/* ---- Names ------------------------------------------------------------------------------ */

static void test_dtypes(void **state)
{
    (void)state;
    static const struct {
        pto_dtype dtype;
        const char *name;
        size_t size;
    } want[] = {
        {PTO_FLOAT32, "float32", 4},   {PTO_FLOAT16, "float16", 2}, {PTO_INT32, "int32", 4},
        {PTO_INT16, "int16", 2},       {PTO_INT8, "int8", 1},       {PTO_UINT8, "uint8", 1},
        {PTO_BFLOAT16, "bfloat16", 2}, {PTO_INT64, "int64", 8},     {PTO_UINT64, "uint64", 8},
        {PTO_FLOAT64, "float64", 8},   {PTO_BOOL, "bool", 1},
    };
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        assert_int_equal(pto_dtype_size(want[i].dtype), want[i].size);
        assert_string_equal(pto_dtype_name(want[i].dtype), want[i].name);
    }
    static const int unknown[] = {0, 12, 255, 1 << 20, INT32_MAX, -1, INT32_MIN};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        assert_int_equal(pto_dtype_size((pto_dtype)unknown[i]), 0);
        assert_string_equal(pto_dtype_name((pto_dtype)unknown[i]), "invalid");
    }
}

static void test_devices(void **state)
{
    (void)state;
#define X(name, value, text) assert_string_equal(pto_device_name(PTO_DEVICE_##name), text);
    PTO_DEVICE_MAP(X)
#undef X
    assert_string_equal(pto_device_name((pto_device_type)11), "invalid");
    assert_string_equal(pto_device_name((pto_device_type)-1), "invalid");
}

/* ---- Init ------------------------------------------------------------------------------- */

static void test_init(void **state)
{
    (void)state;
    pto_tensor t;
    memset(&t, 0xff, sizeof t);
    expect_ok(pto_tensor_init(&t, memory, sizeof memory, PTO_FLOAT32, 3, DIMS(2, 3, 4), NULL, 5));
    expect_dims(&t, 3, DIMS(2, 3, 4), DIMS(12, 4, 1));
    assert_ptr_equal(t.storage, memory);
    assert_int_equal(t.storage_bytes, sizeof memory);
    assert_int_equal(t.offset, 5);
    assert_int_equal(t.dtype, PTO_FLOAT32);
    assert_int_equal(t.device.type, PTO_DEVICE_CPU);
    assert_int_equal(t.device.index, 0);
    assert_int_equal(t.kind, PTO_RAW);
    assert_int_equal(t.owner, 0);
    assert_int_equal(t.generation, 0);
    assert_int_equal(t.version, 0);
    assert_int_equal(t.reserved, 0);

    /* Backwards from the end, and the same one too far. */
    expect_ok(
        pto_tensor_init(&t, memory, sizeof memory, PTO_FLOAT32, 2, DIMS(2, 3), DIMS(-32, -2), 36));
    expect_dims(&t, 2, DIMS(2, 3), DIMS(-32, -2));
    expect_fail(
        pto_tensor_init(&t, memory, sizeof memory, PTO_FLOAT32, 2, DIMS(2, 3), DIMS(-32, -2), 35),
        PTO_OUT_OF_BOUNDS, "init:", "offset 35", "element -1");

    /* No dims: one element, at the very end of the storage or one past it. */
    expect_ok(pto_tensor_init(&t, memory, sizeof memory, PTO_FLOAT32, 0, NULL, NULL, 63));
    assert_int_equal(pto_tensor_numel(&t), 1);
    expect_fail(pto_tensor_init(&t, memory, sizeof memory, PTO_FLOAT32, 0, NULL, NULL, 64),
                PTO_OUT_OF_BOUNDS, "64 .. 64", "byte 260", "256");

    /* Elements need not fill the storage, nor the storage hold whole elements. */
    expect_ok(pto_tensor_init(&t, (char *)memory + 1, 7, PTO_FLOAT32, 1, DIMS(1), NULL, 0));
    expect_fail(pto_tensor_init(&t, memory, 7, PTO_FLOAT32, 1, DIMS(2), NULL, 0), PTO_OUT_OF_BOUNDS,
                "byte 8", "storage_bytes is 7");

    /* Nothing at all. */
    expect_ok(pto_tensor_init(&t, NULL, 0, PTO_INT8, 2, DIMS(0, 5), NULL, 0));
    assert_int_equal(pto_tensor_numel(&t), 0);
    expect_ok(pto_tensor_init(&t, memory, 8, PTO_FLOAT32, 1, DIMS(0), NULL, 2));
    expect_fail(pto_tensor_init(&t, memory, 8, PTO_FLOAT32, 1, DIMS(0), NULL, 3), PTO_OUT_OF_BOUNDS,
                "offset 3", "byte 12", "8");

    /* A shape may come from the tensor itself. */
    t = sound();
    expect_ok(pto_tensor_init(&t, memory, sizeof memory, PTO_INT8, t.ndim, t.shape, NULL, 0));
    expect_dims(&t, 2, DIMS(4, 8), DIMS(8, 1));
}

static void test_init_refuses(void **state)
{
    (void)state;
    static const struct {
        pto_status status;
        const char *words[3];
        int32_t ndim;
        pto_dtype dtype;
        int64_t shape[PTO_MAX_DIMS];
        int64_t strides[PTO_MAX_DIMS];
        int64_t offset;
    } bad[] = {
        {PTO_BAD_NDIM, {"ndim 9", "0 .. 8"}, 9, PTO_INT8, {1}, {0}, 0},
        {PTO_BAD_NDIM, {"ndim -1"}, -1, PTO_INT8, {1}, {0}, 0},
        {PTO_BAD_DTYPE, {"dtype 0"}, 1, PTO_DTYPE_NONE, {1}, {1}, 0},
        {PTO_BAD_DTYPE, {"dtype 12"}, 1, (pto_dtype)12, {1}, {1}, 0},
        {PTO_BAD_SHAPE, {"shape[1]", "-3"}, 2, PTO_INT8, {0, -3}, {1, 1}, 0},
        {PTO_OUT_OF_BOUNDS, {"offset -1"}, 1, PTO_INT8, {1}, {1}, -1},
        {PTO_OUT_OF_BOUNDS, {"257", "256"}, 1, PTO_INT8, {257}, {1}, 0},
        {PTO_OUT_OF_BOUNDS, {"element -1"}, 1, PTO_INT8, {2}, {-1}, 0},
        {PTO_OUT_OF_BOUNDS, {"element -9223372036854775808"}, 1, PTO_INT8, {2}, {INT64_MIN}, 0},
        {PTO_OVERFLOW, {"[4611686018427387904, 2]"}, 2, PTO_INT8, {HUGE, 2}, {0, 0}, 0},
        {PTO_OVERFLOW,
         {"dim 0", "size 3", "stride 4611686018427387904"},
         1,
         PTO_INT8,
         {3},
         {HUGE},
         0},
        {PTO_OVERFLOW, {"dim 1", "size 3"}, 2, PTO_INT8, {2, 3}, {1, -HUGE - 1}, 0},
        {PTO_OVERFLOW, {"dim 1"}, 2, PTO_INT8, {2, 2}, {-HUGE - HUGE, -1}, 0},
        {PTO_OVERFLOW, {"dim 0", "offset 1"}, 1, PTO_INT8, {2}, {INT64_MAX}, 1},
        {PTO_OVERFLOW, {"element 9223372036854775807"}, 0, PTO_INT8, {0}, {0}, INT64_MAX},
        {PTO_OVERFLOW, {"element 4611686018427387904", "8 bytes"}, 0, PTO_INT64, {0}, {0}, HUGE},
        {PTO_OVERFLOW, {"offset 4611686018427387904"}, 1, PTO_INT64, {0}, {0}, HUGE},
    };
    pto_tensor t;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *const *w = bad[i].words;
        expect_refused(t,
                       pto_tensor_init(&t, memory, sizeof memory, bad[i].dtype, bad[i].ndim,
                                       bad[i].shape, bad[i].strides, bad[i].offset),
                       bad[i].status, "init:", w[0], w[1] ? w[1] : w[0], w[2] ? w[2] : w[0]);
    }
    expect_fail(pto_tensor_init(NULL, memory, 4, PTO_INT8, 0, NULL, NULL, 0), PTO_NULL_ARGUMENT,
                "init: t is NULL");
    expect_refused(t, pto_tensor_init(&t, memory, 4, PTO_INT8, 2, NULL, NULL, 0), PTO_NULL_ARGUMENT,
                   "shape is NULL", "ndim 2");
    expect_refused(t, pto_tensor_init(&t, NULL, 4, PTO_INT8, 0, NULL, NULL, 0), PTO_NULL_ARGUMENT,
                   "storage is NULL", "4");
    expect_refused(t, pto_tensor_init(&t, memory, UINT64_C(1) << 63, PTO_INT8, 0, NULL, NULL, 0),
                   PTO_OVERFLOW, "storage_bytes 9223372036854775808");
    void *top = (void *)(UINTPTR_MAX - 7); /* NOLINT(performance-no-int-to-ptr) */
    expect_ok(pto_tensor_init(&t, top, 7, PTO_INT8, 1, DIMS(7), NULL, 0));
    expect_refused(t, pto_tensor_init(&t, top, 8, PTO_INT8, 1, DIMS(7), NULL, 0), PTO_OVERFLOW,
                   "0xfffffffffffffff8", "storage_bytes 8");
    /* Dense strides of a shape that no memory can hold. */
    expect_refused(t, pto_tensor_init(&t, memory, 4, PTO_INT8, 3, DIMS(HUGE, HUGE, HUGE), NULL, 0),
                   PTO_OVERFLOW, "4611686018427387904, 4611686018427387904");
}

/* With no elements no size is too large, dense or not. */
static void test_empty_shapes(void **state)
{
    (void)state;
    pto_tensor t;
    expect_ok(pto_tensor_init(&t, memory, 4, PTO_INT64, 4, DIMS(INT64_MAX, INT64_MAX, 0, INT64_MAX),
                              NULL, 0));
    assert_int_equal(pto_tensor_numel(&t), 0);
    assert_true(pto_tensor_is_contiguous(&t));
    expect_ok(
        pto_tensor_init(&t, memory, 4, PTO_INT64, 4, DIMS(0, INT64_MAX, INT64_MAX, 7), NULL, 0));
    expect_ok(pto_tensor_init(&t, memory, 4, PTO_INT64, 2, DIMS(INT64_MAX, 0),
                              DIMS(INT64_MIN, INT64_MAX), 0));
    expect_ok(pto_tensor_init(&t, memory, 4, PTO_INT64, 3, DIMS(2, 0, 3), NULL, 0));
    expect_dims(&t, 3, DIMS(2, 0, 3), DIMS(3, 3, 1));
}

/* ---- Check ------------------------------------------------------------------------------ */

#define BREAK(change, status, ...)                                                                 \
    do {                                                                                           \
        pto_tensor t = sound();                                                                    \
        t.change;                                                                                  \
        expect_fail(pto_tensor_check(&t), status, "tensor: ", __VA_ARGS__);                        \
        assert_int_equal(pto_tensor_numel(&t), -1);                                                \
        assert_false(pto_tensor_is_contiguous(&t));                                                \
        uint64_t low_ = 7, end_ = 7;                                                               \
        expect_fail(pto_tensor_byte_range(&t, &low_, &end_), status, "byte_range: t",              \
                    __VA_ARGS__);                                                                  \
        expect_fail(pto_tensor_nbytes(&t, &low_), status, "nbytes: t", __VA_ARGS__);               \
        assert_int_equal(low_, 7);                                                                 \
        assert_int_equal(end_, 7);                                                                 \
    } while (0)

static void test_check(void **state)
{
    (void)state;
    pto_tensor fine = sound();
    expect_ok(pto_tensor_check(&fine));
    expect_fail(pto_tensor_check(NULL), PTO_NULL_ARGUMENT, "tensor is NULL");

    BREAK(ndim = 9, PTO_BAD_NDIM, "ndim 9");
    BREAK(ndim = 99, PTO_BAD_NDIM, "ndim 99");
    BREAK(ndim = -1, PTO_BAD_NDIM, "ndim -1");
    BREAK(ndim = INT32_MIN, PTO_BAD_NDIM, "ndim -2147483648");
    BREAK(dtype = PTO_DTYPE_NONE, PTO_BAD_DTYPE, "dtype 0");
    BREAK(dtype = (pto_dtype)12, PTO_BAD_DTYPE, "dtype 12");
    BREAK(dtype = (pto_dtype)-1, PTO_BAD_DTYPE, "dtype 4294967295");
    BREAK(device.type = (pto_device_type)11, PTO_BAD_DEVICE, "device type 11", "0 .. 10");
    BREAK(device.type = (pto_device_type)-1, PTO_BAD_DEVICE, "device type");
    BREAK(device.index = -2, PTO_BAD_DEVICE, "device index -2");
    BREAK(kind = (pto_extraction)6, PTO_BAD_CONFIG, "kind 6", "0 .. 5");
    BREAK(kind = (pto_extraction)-1, PTO_BAD_CONFIG, "kind");
    BREAK(shape[1] = -1, PTO_BAD_SHAPE, "shape[1] is -1");
    BREAK(shape[0] = INT64_MIN, PTO_BAD_SHAPE, "shape[0] is -9223372036854775808");
    BREAK(offset = -1, PTO_OUT_OF_BOUNDS, "offset -1");
    BREAK(offset = 33, PTO_OUT_OF_BOUNDS, "33 .. 64", "byte 260", "256");
    BREAK(offset = INT64_MAX, PTO_OVERFLOW, "offset 9223372036854775807");
    BREAK(strides[0] = -3, PTO_OUT_OF_BOUNDS, "offset 8", "element -1");
    BREAK(strides[0] = 17, PTO_OUT_OF_BOUNDS, "8 .. 66");
    BREAK(strides[1] = INT64_MAX, PTO_OVERFLOW, "dim 1", "stride 9223372036854775807");
    BREAK(strides[1] = INT64_MIN, PTO_OVERFLOW, "dim 1", "stride -9223372036854775808");
    BREAK(storage_bytes = 159, PTO_OUT_OF_BOUNDS, "byte 160", "159");
    BREAK(storage_bytes = UINT64_MAX, PTO_OVERFLOW, "storage_bytes 18446744073709551615");
    BREAK(storage = NULL, PTO_NULL_ARGUMENT, "storage is NULL", "256");
    BREAK(storage = (void *)(UINTPTR_MAX - 255), PTO_OVERFLOW, /* NOLINT */
          "0xffffffffffffff00", "256");

    /* Strides of single elements and what is past ndim do not matter. */
    pto_tensor t = sound();
    t.shape[0] = 1;
    t.strides[0] = INT64_MIN;
    for (int32_t d = 2; d < PTO_MAX_DIMS; d++) {
        t.shape[d] = -1;
        t.strides[d] = INT64_MAX;
    }
    expect_ok(pto_tensor_check(&t));
    assert_true(pto_tensor_is_contiguous(&t));
    t.shape[0] = 0;
    t.shape[1] = INT64_MAX;
    t.strides[1] = INT64_MAX;
    expect_ok(pto_tensor_check(&t));

    /* More elements than 63 bits count, all at one place. */
    t = sound();
    t.shape[0] = t.shape[1] = INT64_C(1) << 32;
    t.strides[0] = t.strides[1] = 0;
    expect_fail(pto_tensor_check(&t), PTO_OVERFLOW, "[4294967296, 4294967296]");
    t.shape[0] = INT64_C(1) << 30;
    expect_ok(pto_tensor_check(&t));
    assert_int_equal(pto_tensor_numel(&t), INT64_C(1) << 62);
}

static void test_check_managed(void **state)
{
    (void)state;
    pto_tensor t = sound();
    t.owner = 3;
    expect_ok(pto_tensor_check(&t));
    t.storage = NULL;
    expect_ok(pto_tensor_check(&t));
    t.storage_bytes = 4 * 40 - 1;
    expect_fail(pto_tensor_check(&t), PTO_OUT_OF_BOUNDS, "byte 160", "159");
    t.storage_bytes = UINT64_C(1) << 63;
    expect_fail(pto_tensor_check(&t), PTO_OVERFLOW, "storage_bytes 9223372036854775808");
    t = sound();
    t.owner = 3;
    t.storage = (void *)(UINTPTR_MAX - 255); /* NOLINT(performance-no-int-to-ptr) */
    expect_fail(pto_tensor_check(&t), PTO_OVERFLOW, "0xffffffffffffff00");
}

/* ---- Questions, against a walk over all elements ----------------------------------------- */

static void test_questions_differential(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    uint64_t in = 0, out = 0, dense = 0, scattered = 0;
    for (uint64_t i = random_rounds(60000); i > 0; i--) {
        pto_tensor t;
        if (!random_tensor(&rng, PTO_MAX_DIMS, 500, memory, UINT64_MAX, &t)) {
            fail();
        }
        /* Shift it or cut the storage, so that about half of them stick out. */
        t.offset += test_between(&rng, -4, 4);
        if (test_chance(&rng, 20)) {
            t.storage_bytes -= t.storage_bytes ? 1 : 0;
        }
        int64_t size = (int64_t)pto_dtype_size(t.dtype), bytes = (int64_t)t.storage_bytes;
        int64_t numel = count_of(t.ndim, t.shape), k = 0;
        int64_t low = t.offset * size, end = low, index[PTO_MAX_DIMS] = {0};
        bool inside = t.offset >= 0 && low <= bytes, contiguous = true;
        if (numel) {
            low = INT64_MAX;
            end = INT64_MIN;
            do {
                int64_t at = place_of(&t, index);
                low = at * size < low ? at * size : low;
                end = (at + 1) * size > end ? (at + 1) * size : end;
                contiguous = contiguous && at == t.offset + k++;
            } while (next_index(t.ndim, t.shape, index));
            inside = inside && low >= 0 && end <= bytes;
        }
        pto_status s = pto_tensor_check(&t);
        if (!inside) {
            assert_int_equal(s, PTO_OUT_OF_BOUNDS);
            out++;
            continue;
        }
        uint64_t got_low, got_end, got_bytes;
        assert_int_equal(s, PTO_OK);
        assert_int_equal(pto_tensor_numel(&t), numel);
        assert_int_equal(pto_tensor_is_contiguous(&t), contiguous);
        expect_ok(pto_tensor_byte_range(&t, &got_low, &got_end));
        assert_int_equal(got_low, low);
        assert_int_equal(got_end, end);
        expect_ok(pto_tensor_nbytes(&t, &got_bytes));
        assert_int_equal(got_bytes, numel * size);
        in++;
        dense += contiguous && numel > 1;
        scattered += !contiguous;
    }
    assert_true(in > out / 10 && out > in / 10);
    assert_true(dense > in / 50 && scattered > in / 50);
}

static void test_question_arguments(void **state)
{
    (void)state;
    pto_tensor t = sound();
    uint64_t bytes = 7;
    assert_int_equal(pto_tensor_numel(NULL), -1);
    assert_false(pto_tensor_is_contiguous(NULL));
    expect_fail(pto_tensor_nbytes(NULL, &bytes), PTO_NULL_ARGUMENT, "nbytes: t is NULL");
    expect_fail(pto_tensor_nbytes(&t, NULL), PTO_NULL_ARGUMENT, "bytes is NULL");
    expect_fail(pto_tensor_byte_range(NULL, &bytes, &bytes), PTO_NULL_ARGUMENT, "t is NULL");
    expect_fail(pto_tensor_byte_range(&t, NULL, &bytes), PTO_NULL_ARGUMENT, "low is NULL");
    expect_fail(pto_tensor_byte_range(&t, &bytes, NULL), PTO_NULL_ARGUMENT, "end is NULL");
    assert_int_equal(bytes, 7);

    /* Elements that can be counted, bytes that cannot. */
    expect_ok(pto_tensor_init(&t, memory, sizeof memory, PTO_FLOAT64, 1, DIMS(INT64_C(1) << 61),
                              DIMS(0), 0));
    expect_fail(pto_tensor_nbytes(&t, &bytes), PTO_OVERFLOW, "2305843009213693952", "8 bytes");
    t.shape[0]--;
    expect_ok(pto_tensor_nbytes(&t, &bytes));
    assert_true(bytes == UINT64_MAX - 7);
}

/* ---- The readable line ------------------------------------------------------------------ */

static void expect_line(const pto_tensor *t, const char *want)
{
    char line[600];
    size_t length = pto_tensor_format(t, line, sizeof line);
    assert_string_equal(line, want);
    assert_int_equal(length, strlen(want));
    assert_int_equal(pto_tensor_format(t, NULL, 0), length);
    assert_int_equal(pto_tensor_format(t, NULL, 100), length);
    /* Every size cuts it as snprintf does, and writes nothing beyond. */
    for (size_t size = 0; size <= length + 1; size++) {
        memset(line, '#', sizeof line);
        assert_int_equal(pto_tensor_format(t, line, size), length);
        size_t kept = size == 0 ? 0 : size - 1;
        assert_memory_equal(line, want, kept);
        assert_int_equal(line[kept], size ? '\0' : '#');
        assert_int_equal(line[kept + 1], '#');
    }
}

static void test_format(void **state)
{
    (void)state;
    char want[300];
    pto_tensor t = sound();
    snprintf(want, sizeof want,
             "float32[4, 8] strides (8, 1) offset 8 of 256 bytes at 0x%" PRIxPTR " cpu:0",
             (uintptr_t)memory);
    expect_line(&t, want);

    t = (pto_tensor){.dtype = PTO_BOOL, .device = {PTO_DEVICE_ASCEND, 3}};
    expect_line(&t, "bool[] strides () offset 0 of 0 bytes at 0x0 ascend:3");

    t = (pto_tensor){.dtype = PTO_INT8,
                     .ndim = 1,
                     .shape = {2},
                     .strides = {-1},
                     .owner = 12,
                     .generation = 7,
                     .version = 2,
                     .kind = PTO_SHALLOW_TRANSPOSE};
    expect_line(&t, "int8[2] strides (-1) offset 0 of 0 bytes at 0x0 cpu:0 block 12 generation 7 "
                    "version 2 (shallow transpose)");
    expect_line(NULL, "(no tensor)");
}

static void test_format_garbage(void **state)
{
    (void)state;
    pto_tensor t;
    memset(&t, 0xff, sizeof t);
    t.ndim = 99;
    expect_line(&t, "(invalid dtype 4294967295)[invalid ndim 99] offset -1 of 18446744073709551615 "
                    "bytes at 0xffffffffffffffff invalid:-1 block 18446744073709551615 generation "
                    "4294967295 version 4294967295 (invalid kind 4294967295)");
    for (int32_t d = 0; d < PTO_MAX_DIMS; d++) {
        t.shape[d] = t.strides[d] = INT64_MIN;
    }
    t.ndim = PTO_MAX_DIMS;
    assert_true(pto_tensor_format(&t, NULL, 0) > 320);
    t.ndim = -1;
    assert_true(pto_tensor_format(&t, NULL, 0) > 0);

    /* Printing a tensor leaves the failure that is being reported alone. */
    expect_fail(pto_tensor_check(&t), PTO_BAD_NDIM, "ndim -1");
    char line[50];
    pto_tensor_format(&t, line, sizeof line);
    assert_non_null(strstr(pto_error_detail(), "ndim -1"));
}

/* Any bytes at all: a status or an answer, and nothing else happens. */
static void test_noise(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    for (uint64_t i = random_rounds(20000); i > 0; i--) {
        pto_tensor t;
        uint64_t words[sizeof t / 8] = {0};
        for (size_t w = 0; w < sizeof words / 8; w++) {
            words[w] = test_next(&rng) >> test_between(&rng, 0, 63);
        }
        memcpy(&t, words, sizeof t);
        t.ndim = (int32_t)test_between(&rng, -1, 9);
        t.dtype = random_dtype(&rng);
        t.device.type = PTO_DEVICE_CPU;
        t.device.index = 0;
        t.kind = PTO_RAW;
        char line[64];
        uint64_t low, end;
        bool good = pto_tensor_check(&t) == PTO_OK;
        assert_int_equal(good, pto_tensor_numel(&t) >= 0);
        assert_int_equal(good, pto_tensor_byte_range(&t, &low, &end) == PTO_OK);
        assert_true(!good || (low <= end && end <= t.storage_bytes));
        pto_tensor_format(&t, line, sizeof line);
        assert_true(strlen(line) < sizeof line);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_init),
        cmocka_unit_test(test_init_refuses),
        cmocka_unit_test(test_empty_shapes),
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_check_managed),
        cmocka_unit_test(test_questions_differential),
        cmocka_unit_test(test_question_arguments),
        cmocka_unit_test(test_format),
        cmocka_unit_test(test_format_garbage),
        cmocka_unit_test(test_noise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
