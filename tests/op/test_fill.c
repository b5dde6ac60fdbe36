/* test_fill.c - fill: the number as an element of each dtype, and where it goes. */
#include "../tensor/tensors.h"

#include <float.h>
#include <math.h>

#include <pto/op.h>

/* ---- Which number ------------------------------------------------------------------------- */

/* The bits that a fill makes of a number, in a tensor of one element. */
static pto_status bits_of(pto_dtype dtype, double value, uint64_t *bits)
{
    pto_tensor t;
    *bits = 0;
    expect_ok(pto_tensor_init(&t, bits, sizeof *bits, dtype, 0, NULL, NULL, 0));
    return pto_fill(&t, value);
}

static void expect_bits(pto_dtype dtype, double value, uint64_t want)
{
    uint64_t got;
    expect_ok(bits_of(dtype, value, &got));
    if (got != want) {
        fail_msg("%.17g as %s: 0x%" PRIx64 ", want 0x%" PRIx64, value, pto_dtype_name(dtype), got,
                 want);
    }
}

static void numbers_become_integers(void **state)
{
    (void)state;
    static const struct {
        pto_dtype dtype;
        double value;
        uint64_t bits;
    } good[] = {
        {PTO_INT8, -128.9, 0x80},
        {PTO_INT8, 127.9, 0x7f},
        {PTO_INT8, -0.9, 0},
        {PTO_UINT8, 255.9, 0xff},
        {PTO_UINT8, -0.9, 0},
        {PTO_INT16, -32768.5, 0x8000},
        {PTO_INT16, 32767.5, 0x7fff},
        {PTO_INT32, -2147483648.5, 0x80000000},
        {PTO_INT32, 2147483647.5, 0x7fffffff},
        {PTO_INT64, -0x1p63, UINT64_C(0x8000000000000000)},
        {PTO_INT64, 0x1p63 - 1024, INT64_MAX - 1023},
        {PTO_INT64, -2.7, UINT64_C(0xfffffffffffffffe)},
        {PTO_UINT64, 0x1p64 - 2048, UINT64_MAX - 2047},
        {PTO_UINT64, -0.5, 0},
        {PTO_BOOL, 0, 0},
        {PTO_BOOL, -0.0, 0},
        {PTO_BOOL, 0x1p-1074, 1},
        {PTO_BOOL, -17, 1},
        {PTO_BOOL, NAN, 1},
        {PTO_BOOL, INFINITY, 1},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        expect_bits(good[i].dtype, good[i].value, good[i].bits);
    }
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    static const struct {
        pto_dtype dtype;
        double low, high; /* the first ones that do not fit */
    } ends[] = {
        {PTO_INT8, -129, 128},
        {PTO_UINT8, -1, 256},
        {PTO_INT16, -32769, 32768},
        {PTO_INT32, -2147483649.0, 2147483648.0},
        {PTO_INT64, -0x1p63 - 2048, 0x1p63},
        {PTO_UINT64, -1, 0x1p64},
    };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        uint64_t got;
        const char *name = pto_dtype_name(ends[i].dtype);
        const double bad[] = {ends[i].low, ends[i].high, NAN, INFINITY, -INFINITY, DBL_MAX};
        for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
            expect_fail(bits_of(ends[i].dtype, bad[k], &got), PTO_BAD_PARAM, "fill", name);
            assert_int_equal(got, 0);
        }
    }
    uint64_t got;
    expect_fail(bits_of(PTO_INT8, 4711, &got), PTO_BAD_PARAM, "4711");
}

static void numbers_become_floats(void **state)
{
    (void)state;
    static const struct {
        pto_dtype dtype;
        double value;
        uint64_t bits;
    } good[] = {
        {PTO_FLOAT64, 0.1, UINT64_C(0x3fb999999999999a)},
        {PTO_FLOAT64, -0.0, UINT64_C(0x8000000000000000)},
        {PTO_FLOAT32, 0.1, 0x3dcccccd},
        {PTO_FLOAT32, -1e300, 0xff800000},
        {PTO_FLOAT16, 1, 0x3c00},
        {PTO_FLOAT16, -2, 0xc000},
        {PTO_FLOAT16, -0.0, 0x8000},
        {PTO_FLOAT16, 65504, 0x7bff},
        {PTO_FLOAT16, 65519.99, 0x7bff}, /* nearer to the largest one */
        {PTO_FLOAT16, 65520, 0x7c00},    /* as near to 2^16, which is even */
        {PTO_FLOAT16, 1e300, 0x7c00},
        {PTO_FLOAT16, -INFINITY, 0xfc00},
        {PTO_FLOAT16, 1 + 0x1p-11, 0x3c00},           /* two as near: the even one */
        {PTO_FLOAT16, 1 + 3 * 0x1p-11, 0x3c02},       /* */
        {PTO_FLOAT16, 1 + 0x1p-11 + 0x1p-40, 0x3c01}, /* no float could tell */
        {PTO_FLOAT16, 0x1p-14, 0x0400},               /* the smallest normal one */
        {PTO_FLOAT16, 0x1p-14 - 0x1p-25, 0x0400},     /* rounds up to it */
        {PTO_FLOAT16, 0x1p-24, 0x0001},               /* the smallest one */
        {PTO_FLOAT16, 0x1p-25, 0x0000},               /* half of it: to even */
        {PTO_FLOAT16, 0x1p-25 + 0x1p-60, 0x0001},
        {PTO_FLOAT16, -3 * 0x1p-25, 0x8002},
        {PTO_FLOAT16, 0x1p-26, 0x0000},
        {PTO_FLOAT16, 0x1p-1074, 0x0000},
        {PTO_BFLOAT16, 1, 0x3f80},
        {PTO_BFLOAT16, 3.14159265358979, 0x4049},
        {PTO_BFLOAT16, 1 + 0x1p-8, 0x3f80},
        {PTO_BFLOAT16, 1 + 3 * 0x1p-8, 0x3f82},
        {PTO_BFLOAT16, 1 + 0x1p-8 + 0x1p-40, 0x3f81},
        {PTO_BFLOAT16, 0x1.fep127, 0x7f7f},
        {PTO_BFLOAT16, 0x1.ffp127, 0x7f80},
        {PTO_BFLOAT16, -INFINITY, 0xff80},
        {PTO_BFLOAT16, 0x1p-126, 0x0080},
        {PTO_BFLOAT16, 0x1p-133, 0x0001},
        {PTO_BFLOAT16, 0x1p-134, 0x0000},
        {PTO_BFLOAT16, -0x1.8p-134, 0x8001},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        expect_bits(good[i].dtype, good[i].value, good[i].bits);
    }
    /* No number stays none, quiet and with its sign. */
    expect_bits(PTO_FLOAT16, copysign(NAN, 1), 0x7e00);
    expect_bits(PTO_FLOAT16, copysign(NAN, -1), 0xfe00);
    expect_bits(PTO_BFLOAT16, copysign(NAN, 1), 0x7fc0);
    uint64_t got;
    float narrow;
    expect_ok(bits_of(PTO_FLOAT32, NAN, &got));
    memcpy(&narrow, &got, sizeof narrow);
    assert_true(isnan(narrow));
}

/* What 16 bits mean, the slow way. */
static double number_of(uint32_t bits, int fraction_bits)
{
    int exponent = (int)(bits & 0x7fff) >> fraction_bits, bias = (1 << (14 - fraction_bits)) - 1;
    double fraction = (double)(bits & ((1U << fraction_bits) - 1)) / (1 << fraction_bits);
    double size = exponent ? ldexp(1 + fraction, exponent - bias) : ldexp(fraction, 1 - bias);
    return bits & 0x8000 ? -size : size;
}

/* All finite numbers of 16 bits are themselves; halfway to the next one is the even one of both,
 * and a little to either side the nearer one. */
static void all_floats_of_16_bits(void **state)
{
    (void)state;
    static const struct {
        pto_dtype dtype;
        int fraction_bits;
        uint32_t infinite;
    } kinds[] = {{PTO_FLOAT16, 10, 0x7c00}, {PTO_BFLOAT16, 7, 0x7f80}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (uint32_t bits = 0; bits < kinds[k].infinite; bits++) {
            double here = number_of(bits, kinds[k].fraction_bits);
            double next = number_of(bits + 1, kinds[k].fraction_bits);
            if (bits + 1 == kinds[k].infinite) { /* where the next one would be */
                next = here + (here - number_of(bits - 1, kinds[k].fraction_bits));
            }
            double half = here + (next - here) / 2;
            expect_bits(kinds[k].dtype, here, bits);
            expect_bits(kinds[k].dtype, -here, bits | 0x8000);
            expect_bits(kinds[k].dtype, half, bits + (bits & 1));
            expect_bits(kinds[k].dtype, nextafter(half, 0), bits);
            expect_bits(kinds[k].dtype, nextafter(half, INFINITY), bits + 1);
        }
    }
}

/* ---- Where it goes ------------------------------------------------------------------------ */

/* Every element, and no byte between or around. */
static void expect_filled(const pto_tensor *t, const unsigned char *memory, size_t bytes,
                          const unsigned char *before, const void *element)
{
    static unsigned char want[1 << 16];
    int64_t index[PTO_MAX_DIMS] = {0};
    size_t size = pto_dtype_size(t->dtype);
    assert_true(bytes <= sizeof want);
    memcpy(want, before, bytes);
    if (count_of(t->ndim, t->shape)) {
        do {
            memcpy(want + place_of(t, index) * (int64_t)size, element, size);
        } while (next_index(t->ndim, t->shape, index));
    }
    assert_memory_equal(memory, want, bytes);
}

static void any_layout(void **state)
{
    (void)state;
    static unsigned char memory[1 << 15], before[sizeof memory];
    test_rng rng = test_rng_make(test_seed());
    for (uint64_t i = 0; i < random_rounds(5000); i++) {
        pto_tensor t;
        uint64_t element;
        double value = (double)test_between(&rng, 0, 127);
        if (!random_tensor(&rng, PTO_MAX_DIMS, 2000, memory, sizeof memory, &t)) {
            continue;
        }
        if (i % 64 == 0) {
            for (size_t b = 0; b < sizeof memory; b++) {
                memory[b] = (unsigned char)test_next(&rng);
            }
        }
        memcpy(before, memory, sizeof memory);
        expect_ok(bits_of(t.dtype, value, &element));
        expect_ok(pto_fill(&t, value));
        expect_filled(&t, memory, sizeof memory, before, &element);
    }
}

static void the_same_place_many_times(void **state)
{
    (void)state;
    float memory[3] = {1, 2, 3};
    pto_tensor t;
    /* More elements than could be visited. */
    expect_ok(pto_tensor_init(&t, memory, sizeof memory, PTO_FLOAT32, 2, DIMS(INT64_C(1) << 61, 2),
                              DIMS(0, 2), 0));
    expect_ok(pto_fill(&t, 9));
    assert_true(memory[0] == 9 && memory[1] == 2 && memory[2] == 9);
}

static void nothing_to_fill(void **state)
{
    (void)state;
    pto_tensor t;
    expect_ok(pto_tensor_init(&t, NULL, 0, PTO_INT8, 2, DIMS(3, 0), NULL, 0));
    expect_ok(pto_fill(&t, 1));
    expect_fail(pto_fill(&t, 1000), PTO_BAD_PARAM, "1000", "int8");
}

static void bad_arguments_are_refused(void **state)
{
    (void)state;
    float memory[4] = {1, 2, 3, 4};
    const double value = 5;
    pto_tensor t, bad;
    expect_ok(pto_tensor_init(&t, memory, sizeof memory, PTO_FLOAT32, 1, DIMS(4), NULL, 0));
    expect_fail(pto_fill(NULL, 5), PTO_NULL_ARGUMENT, "fill", "NULL");
    expect_fail(pto_op_run(pto_fill_op(), &t, 1, NULL, 0, NULL), PTO_NULL_ARGUMENT, "params");
    expect_fail(pto_op_run(pto_fill_op(), NULL, 0, NULL, 0, &value), PTO_BAD_PARAM, "0 outputs");
    expect_fail(pto_op_run(pto_fill_op(), &t, 1, &t, 1, &value), PTO_BAD_PARAM, "1 inputs");
    bad = t;
    bad.shape[0] = 5;
    expect_fail(pto_fill(&bad, 5), PTO_OUT_OF_BOUNDS, "fill: dst");
    bad = t;
    bad.dtype = (pto_dtype)44;
    expect_fail(pto_fill(&bad, 5), PTO_BAD_DTYPE, "44");
    bad = t;
    bad.storage = NULL;
    expect_fail(pto_fill(&bad, 5), PTO_NULL_ARGUMENT, "fill: dst");
    bad.owner = 61; /* managed, and nowhere yet */
    expect_fail(pto_fill(&bad, 5), PTO_NULL_ARGUMENT, "block 61");
    bad = t;
    bad.device = (pto_device){PTO_DEVICE_ASCEND, 2};
    expect_fail(pto_fill(&bad, 5), PTO_NOT_IMPLEMENTED, "fill: no implementation for ascend:2");
    for (int i = 0; i < 4; i++) {
        assert_true(memory[i] == (float)(i + 1));
    }
    expect_ok(pto_op_run(pto_fill_op(), &t, 1, NULL, 0, &value));
    assert_true(memory[0] == 5 && memory[3] == 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_become_integers),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(numbers_become_floats),
        cmocka_unit_test(all_floats_of_16_bits),
        cmocka_unit_test(any_layout),
        cmocka_unit_test(the_same_place_many_times),
        cmocka_unit_test(nothing_to_fill),
        cmocka_unit_test(bad_arguments_are_refused),
    };
    return cmocka_run_group_tests_name("fill", tests, NULL, NULL);
}
