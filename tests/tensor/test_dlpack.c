/* test_dlpack.c - tensors from and to other libraries: what is taken, what refused, who frees. */
#include <pto/dlpack.h>

#include <stdio.h>

#include "tensors.h"

static unsigned char memory[4096];

/* ---- Producers --------------------------------------------------------------------------- */

static int deleted;

static void delete_legacy(pto_dl_managed *self)
{
    assert_ptr_equal(self->manager, &deleted);
    deleted++;
}

static void delete_versioned(pto_dl_versioned *self)
{
    assert_ptr_equal(self->manager, &deleted);
    deleted++;
}

/* What another library might hand us: [3, 4] of float32, strides up to the test. */
static pto_dl_tensor plain(int64_t *shape, int64_t *strides)
{
    shape[0] = 3;
    shape[1] = 4;
    return (pto_dl_tensor){.data = memory,
                           .device = {1, 0},
                           .ndim = 2,
                           .dtype = {2, 32, 1},
                           .shape = shape,
                           .strides = strides};
}

static pto_dl_managed legacy(pto_dl_tensor dl)
{
    return (pto_dl_managed){.tensor = dl, .manager = &deleted, .deleter = delete_legacy};
}

static pto_dl_versioned versioned(pto_dl_tensor dl, uint32_t major, uint32_t minor, uint64_t flags)
{
    return (pto_dl_versioned){.version = {major, minor},
                              .manager = &deleted,
                              .deleter = delete_versioned,
                              .flags = flags,
                              .tensor = dl};
}

/* Takes it in through both doors, which must agree, down to the words of the refusal. */
static pto_status import_both(pto_dl_tensor dl, pto_tensor *out)
{
    pto_dl_managed m = legacy(dl);
    pto_dl_versioned v = versioned(dl, 1, 3, 0);
    pto_tensor other = *out;
    char detail[512];
    pto_status s = pto_dlpack_import_versioned(&v, &other, NULL);
    snprintf(detail, sizeof detail, "%s", pto_error_detail());
    assert_int_equal(pto_dlpack_import(&m, out), s);
    assert_memory_equal(&other, out, sizeof other);
    if (s) {
        assert_string_equal(strchr(detail, ':'), strchr(pto_error_detail(), ':'));
    }
    return s;
}

/* ---- Import ------------------------------------------------------------------------------ */

static void test_import(void **state)
{
    (void)state;
    int64_t shape[2], strides[2] = {8, 2};
    pto_tensor t;
    memset(&t, 0, sizeof t);

    expect_ok(import_both(plain(shape, NULL), &t));
    expect_dims(&t, 2, DIMS(3, 4), DIMS(4, 1));
    assert_ptr_equal(t.storage, memory);
    assert_int_equal(t.storage_bytes, 48);
    assert_int_equal(t.offset, 0);
    assert_int_equal(t.dtype, PTO_FLOAT32);
    assert_int_equal(t.kind, PTO_RAW);
    assert_int_equal(t.owner, 0);

    /* The storage is what the elements span, no more. */
    pto_dl_tensor dl = plain(shape, strides);
    dl.byte_offset = 20;
    expect_ok(import_both(dl, &t));
    expect_dims(&t, 2, DIMS(3, 4), DIMS(8, 2));
    assert_ptr_equal(t.storage, memory + 20);
    assert_int_equal(t.storage_bytes, 4 * (2 * 8 + 3 * 2 + 1));
    assert_int_equal(t.offset, 0);

    /* Backwards: it begins at the lowest byte, wherever the first element is. */
    strides[0] = -8;
    dl.byte_offset = 64;
    expect_ok(import_both(dl, &t));
    assert_ptr_equal(t.storage, memory);
    assert_int_equal(t.offset, 16);
    assert_int_equal(t.storage_bytes, 4 * (2 * 8 + 3 * 2 + 1));

    /* A byte offset in the middle of an element. */
    dl.byte_offset = 67;
    expect_ok(import_both(dl, &t));
    assert_ptr_equal(t.storage, memory + 3);
    assert_int_equal(t.offset, 16);

    /* No dims need no arrays. */
    dl = (pto_dl_tensor){.data = memory, .device = {1, 0}, .dtype = {2, 64, 1}, .byte_offset = 8};
    expect_ok(import_both(dl, &t));
    expect_dims(&t, 0, NULL, NULL);
    assert_ptr_equal(t.storage, memory + 8);
    assert_int_equal(t.storage_bytes, 8);

    /* No elements need no memory; their strides are free, as those of single elements are. */
    dl = plain(shape, strides);
    dl.data = NULL;
    shape[0] = 0;
    strides[1] = INT64_MIN;
    expect_ok(import_both(dl, &t));
    expect_dims(&t, 2, DIMS(0, 4), DIMS(-8, INT64_MIN));
    assert_null(t.storage);
    assert_int_equal(t.storage_bytes, 0);
    dl.byte_offset = 12;
    expect_ok(import_both(dl, &t));
    assert_null(t.storage);
    dl.data = memory;
    expect_ok(import_both(dl, &t));
    assert_ptr_equal(t.storage, memory + 12);
    dl = plain(shape, strides);
    shape[1] = 1;
    strides[0] = 4;
    expect_ok(import_both(dl, &t));
    expect_dims(&t, 2, DIMS(3, 1), DIMS(4, INT64_MIN));
    assert_int_equal(t.storage_bytes, 4 * 9);
}

static void test_import_dtypes(void **state)
{
    (void)state;
    static const struct {
        uint8_t code, bits;
        pto_dtype dtype;
    } good[] = {
        {0, 8, PTO_INT8},     {0, 16, PTO_INT16},    {0, 32, PTO_INT32},   {0, 64, PTO_INT64},
        {1, 8, PTO_UINT8},    {1, 64, PTO_UINT64},   {2, 16, PTO_FLOAT16}, {2, 32, PTO_FLOAT32},
        {2, 64, PTO_FLOAT64}, {4, 16, PTO_BFLOAT16}, {6, 8, PTO_BOOL},
    };
    int64_t shape[2];
    size_t taken = 0;
    pto_tensor t;
    memset(&t, 0, sizeof t);
    for (int code = 0; code < 256; code++) {
        for (int bits = 0; bits < 256; bits++) {
            pto_dl_tensor dl = plain(shape, NULL);
            pto_dl_managed m;
            pto_dtype want = PTO_DTYPE_NONE;
            for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
                if (good[i].code == code && good[i].bits == bits) {
                    want = good[i].dtype;
                }
            }
            dl.dtype = (pto_dl_dtype){(uint8_t)code, (uint8_t)bits, 1};
            m = legacy(dl);
            pto_status s = pto_dlpack_import(&m, &t);
            assert_int_equal(s, want ? PTO_OK : PTO_BAD_DLPACK);
            assert_true(s || t.dtype == want);
            taken += s == PTO_OK;
        }
    }
    assert_int_equal(taken, 11);
    pto_dl_tensor dl = plain(shape, NULL);
    dl.dtype = (pto_dl_dtype){5, 64, 1};
    expect_refused(t, import_both(dl, &t), PTO_BAD_DLPACK, "dlpack_import:", "code 5", "64 bits");
    dl.dtype = (pto_dl_dtype){0, 4, 1};
    expect_refused(t, import_both(dl, &t), PTO_BAD_DLPACK, "code 0", "4 bits");
    dl.dtype = (pto_dl_dtype){2, 32, 4};
    expect_refused(t, import_both(dl, &t), PTO_BAD_DLPACK, "4 lanes");
    dl.dtype = (pto_dl_dtype){2, 32, 0};
    expect_refused(t, import_both(dl, &t), PTO_BAD_DLPACK, "0 lanes");
}

static void test_import_devices(void **state)
{
    (void)state;
    static const struct {
        int32_t type, id;
        pto_device want;
    } good[] = {
        {1, 0, {PTO_DEVICE_CPU, 0}},
        {2, 3, {PTO_DEVICE_NVIDIA, 3}},
        {3, 3, {PTO_DEVICE_CPU, 0}},
    };
    int64_t shape[2];
    pto_tensor t;
    memset(&t, 0, sizeof t);
    pto_dl_tensor dl = plain(shape, NULL);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        dl.device = (pto_dl_device){good[i].type, good[i].id};
        expect_ok(import_both(dl, &t));
        assert_int_equal(t.device.type, good[i].want.type);
        assert_int_equal(t.device.index, good[i].want.index);
    }
    static const struct {
        int32_t type;
        const char *word;
    } bad[] = {{0, "device_type 0"},   {4, "device_type 4"},   {7, "device_type 7"},
               {10, "device_type 10"}, {13, "device_type 13"}, {-1, "device_type -1"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        dl.device = (pto_dl_device){bad[i].type, 0};
        expect_refused(t, import_both(dl, &t), PTO_BAD_DEVICE, bad[i].word);
    }
    dl.device = (pto_dl_device){2, -1};
    expect_refused(t, import_both(dl, &t), PTO_BAD_DEVICE, "device_id -1");
}

static void test_import_refuses(void **state)
{
    (void)state;
    int64_t shape[2], strides[2] = {4, 1};
    pto_tensor t;
    pto_dl_tensor dl = plain(shape, strides);

    dl.ndim = 9;
    expect_refused(t, import_both(dl, &t), PTO_BAD_NDIM, "ndim 9");
    dl.ndim = -1;
    expect_refused(t, import_both(dl, &t), PTO_BAD_NDIM, "ndim -1");
    dl = plain(shape, strides);
    dl.shape = NULL;
    expect_refused(t, import_both(dl, &t), PTO_NULL_ARGUMENT, "shape is NULL with ndim 2");
    dl = plain(shape, strides);
    dl.data = NULL;
    expect_refused(t, import_both(dl, &t), PTO_NULL_ARGUMENT, "data is NULL with 12 elements");
    dl = plain(shape, strides);
    shape[1] = -4;
    expect_refused(t, import_both(dl, &t), PTO_BAD_SHAPE, "shape[1] is -4");
    dl = plain(shape, NULL);
    shape[0] = INT64_MAX;
    expect_refused(t, import_both(dl, &t), PTO_OVERFLOW, "[9223372036854775807, 4]");

    /* Places that no address has: above, below, and by each of the sums on the way. */
    static const struct {
        int64_t strides[2];
        uint64_t byte_offset;
    } far[] = {
        {{4, 1}, UINT64_MAX - 100},
        {{INT64_MAX, 1}, 0},
        {{INT64_MIN, 1}, 0},
        {{INT64_MAX / 2, INT64_MAX / 3}, 0},
        {{INT64_MAX / 2, -1}, 0},
        {{-INT64_MAX / 2, -INT64_MAX / 3}, 0},
        {{INT64_C(1) << 61, 1}, 0},
        {{-(INT64_C(1) << 58), 1}, 0},
        {{INT64_C(1) << 59, 1}, UINT64_C(3) << 62},
    };
    for (size_t i = 0; i < sizeof far / sizeof far[0]; i++) {
        memcpy(strides, far[i].strides, sizeof strides);
        dl = plain(shape, strides);
        dl.byte_offset = far[i].byte_offset;
        expect_refused(t, import_both(dl, &t), PTO_OVERFLOW, "dlpack_import:");
        if (far[i].strides[0] > INT64_MAX / 3 || far[i].strides[0] < INT64_MIN / 3) {
            dl.dtype = (pto_dl_dtype){0, 8, 1};
            expect_refused(t, import_both(dl, &t), PTO_OVERFLOW, "dlpack_import:");
        }
    }

    /* Versions: checked before anything else is checked at. */
    pto_dl_versioned v = versioned((pto_dl_tensor){.ndim = 99}, 2, 7, 0);
    expect_refused(t, pto_dlpack_import_versioned(&v, &t, NULL), PTO_BAD_DLPACK, "version 2.7");
    v.version.major = 0;
    expect_refused(t, pto_dlpack_import_versioned(&v, &t, NULL), PTO_BAD_DLPACK, "version 0.7");

    pto_dl_managed m = legacy(plain(shape, NULL));
    v = versioned(m.tensor, 1, 0, 0);
    expect_refused(t, pto_dlpack_import(NULL, &t), PTO_NULL_ARGUMENT, "managed is NULL");
    expect_fail(pto_dlpack_import(&m, NULL), PTO_NULL_ARGUMENT, "out is NULL");
    expect_refused(t, pto_dlpack_import_versioned(NULL, &t, NULL), PTO_NULL_ARGUMENT, "managed");
    expect_fail(pto_dlpack_import_versioned(&v, NULL, NULL), PTO_NULL_ARGUMENT, "out is NULL");
}

static void test_read_only(void **state)
{
    (void)state;
    int64_t shape[2];
    pto_tensor t;
    pto_dl_versioned v = versioned(plain(shape, NULL), 1, 0, PTO_DL_FLAG_READ_ONLY);
    bool read_only = false;
    expect_ok(pto_dlpack_import_versioned(&v, &t, &read_only));
    assert_true(read_only);
    v.flags = PTO_DL_FLAG_IS_COPIED;
    expect_ok(pto_dlpack_import_versioned(&v, &t, &read_only));
    assert_false(read_only);
    /* Left alone on failure, like every output. */
    v.flags = PTO_DL_FLAG_READ_ONLY;
    v.tensor.ndim = 9;
    expect_fail(pto_dlpack_import_versioned(&v, &t, &read_only), PTO_BAD_NDIM, "ndim 9");
    assert_false(read_only);
}

/* ---- Release ----------------------------------------------------------------------------- */

static void test_release(void **state)
{
    (void)state;
    int64_t shape[2];
    pto_tensor t;
    pto_dl_managed m = legacy(plain(shape, NULL)), *pm = &m;
    pto_dl_versioned v = versioned(m.tensor, 1, 0, 0), *pv = &v;

    /* Looking at it any number of times, with or without success, deletes nothing. */
    deleted = 0;
    expect_ok(pto_dlpack_import(&m, &t));
    expect_ok(pto_dlpack_import_versioned(&v, &t, NULL));
    m.tensor.ndim = v.tensor.ndim = 9;
    expect_fail(pto_dlpack_import(&m, &t), PTO_BAD_NDIM, "9");
    expect_fail(pto_dlpack_import_versioned(&v, &t, NULL), PTO_BAD_NDIM, "9");
    assert_int_equal(deleted, 0);

    pto_dlpack_release(&pm);
    assert_null(pm);
    assert_int_equal(deleted, 1);
    pto_dlpack_release(&pm);
    assert_int_equal(deleted, 1);

    /* The deleter is where it is in every version. */
    v.version.major = 9;
    pto_dlpack_release_versioned(&pv);
    assert_null(pv);
    assert_int_equal(deleted, 2);
    pto_dlpack_release_versioned(&pv);
    assert_int_equal(deleted, 2);

    m.deleter = NULL;
    v.deleter = NULL;
    pm = &m;
    pv = &v;
    pto_dlpack_release(&pm);
    pto_dlpack_release_versioned(&pv);
    assert_null(pm);
    assert_null(pv);
    assert_int_equal(deleted, 2);
    pto_dlpack_release(NULL);
    pto_dlpack_release_versioned(NULL);
}

/* ---- Export ------------------------------------------------------------------------------ */

static void count_done(void *context)
{
    (*(int *)context)++;
}

static void test_export(void **state)
{
    (void)state;
    pto_tensor t;
    pto_dl_managed *m = NULL;
    pto_dl_versioned *v = NULL;
    int done = 0;
    expect_ok(pto_tensor_init(&t, memory, 400, PTO_BFLOAT16, 2, DIMS(3, 4), DIMS(-8, 2), 20));
    t.device = (pto_device){PTO_DEVICE_NVIDIA, 5};

    expect_ok(pto_dlpack_export(&t, count_done, &done, &m));
    expect_ok(pto_dlpack_export_versioned(&t, PTO_DL_FLAG_READ_ONLY | PTO_DL_FLAG_IS_COPIED,
                                          count_done, &done, &v));
    const pto_dl_tensor *both[] = {&m->tensor, &v->tensor};
    /* What was exported stands on its own. */
    memset(&t, 0, sizeof t);
    for (int i = 0; i < 2; i++) {
        assert_ptr_equal(both[i]->data, memory);
        assert_int_equal(both[i]->byte_offset, 40);
        assert_int_equal(both[i]->device.device_type, 2);
        assert_int_equal(both[i]->device.device_id, 5);
        assert_int_equal(both[i]->ndim, 2);
        assert_int_equal(both[i]->dtype.code, 4);
        assert_int_equal(both[i]->dtype.bits, 16);
        assert_int_equal(both[i]->dtype.lanes, 1);
        assert_memory_equal(both[i]->shape, DIMS(3, 4), 16);
        assert_memory_equal(both[i]->strides, DIMS(-8, 2), 16);
    }
    assert_int_equal(v->version.major, 1);
    assert_int_equal(v->version.minor, 0);
    assert_int_equal(v->flags, 3);

    /* Once for each, and the structs are gone with it: the address sanitizer watches. */
    assert_int_equal(done, 0);
    m->deleter(m);
    assert_int_equal(done, 1);
    pto_dlpack_release_versioned(&v);
    assert_int_equal(done, 2);
    assert_null(v);

    expect_ok(pto_tensor_init(&t, memory, 400, PTO_BOOL, 0, NULL, NULL, 7));
    expect_ok(pto_dlpack_export(&t, NULL, NULL, &m));
    assert_int_equal(m->tensor.ndim, 0);
    assert_int_equal(m->tensor.device.device_type, 1);
    pto_dlpack_release(&m);
}

static void test_export_refuses(void **state)
{
    (void)state;
    static pto_dl_managed none;
    static pto_dl_versioned none_v;
    pto_tensor t;
    pto_dl_managed *m = &none;
    pto_dl_versioned *v = &none_v;
    int done = 0;
#define REFUSED(tensor, status, ...)                                                               \
    do {                                                                                           \
        expect_fail(pto_dlpack_export((tensor), count_done, &done, &m), status,                    \
                    "dlpack_export: t", __VA_ARGS__);                                              \
        expect_fail(pto_dlpack_export_versioned((tensor), 0, count_done, &done, &v), status,       \
                    "dlpack_export_versioned: t", __VA_ARGS__);                                    \
        assert_ptr_equal(m, &none);                                                                \
        assert_ptr_equal(v, &none_v);                                                              \
        assert_int_equal(done, 0);                                                                 \
    } while (0)

    REFUSED(NULL, PTO_NULL_ARGUMENT, "NULL");
    expect_ok(pto_tensor_init(&t, memory, 400, PTO_BOOL, 1, DIMS(7), NULL, 7));
    t.shape[0] = 500;
    REFUSED(&t, PTO_OUT_OF_BOUNDS, "507", "400");
    t.shape[0] = 7;
    t.device = (pto_device){PTO_DEVICE_ASCEND, 4};
    REFUSED(&t, PTO_BAD_DEVICE, "ascend:4", "type 3");
    t.device = (pto_device){PTO_DEVICE_CPU, 0};
    t.owner = 6;
    t.storage = NULL;
    REFUSED(&t, PTO_NULL_ARGUMENT, "block 6");
    expect_fail(pto_dlpack_export(&t, NULL, NULL, NULL), PTO_NULL_ARGUMENT, "out is NULL");
    expect_fail(pto_dlpack_export_versioned(&t, 0, NULL, NULL, NULL), PTO_NULL_ARGUMENT,
                "out is NULL");
#undef REFUSED
}

/* ---- There and back ---------------------------------------------------------------------- */

static void test_round_trip(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    int done = 0, made = 0;
    uint64_t elements = 0;
    for (uint64_t i = random_rounds(5000); i > 0; i--) {
        pto_tensor t, back, again;
        pto_dl_managed *m;
        pto_dl_versioned *v;
        unsigned char *start = memory + test_between(&rng, 0, 7);
        if (!random_tensor(&rng, PTO_MAX_DIMS, 200, start, sizeof memory - 8, &t)) {
            continue;
        }
        memset(&back, 0, sizeof back);
        memset(&again, 0, sizeof again);
        expect_ok(pto_dlpack_export(&t, count_done, &done, &m));
        expect_ok(pto_dlpack_export_versioned(&t, 0, count_done, &done, &v));
        made += 2;
        expect_ok(pto_dlpack_import(m, &back));
        expect_ok(pto_dlpack_import_versioned(v, &again, NULL));
        assert_memory_equal(&back, &again, sizeof back);
        pto_dlpack_release(&m);
        pto_dlpack_release_versioned(&v);

        assert_int_equal(back.dtype, t.dtype);
        expect_dims(&back, t.ndim, t.shape, t.strides);
        int64_t index[PTO_MAX_DIMS] = {0}, size = (int64_t)pto_dtype_size(t.dtype);
        uint64_t low, end;
        if (count_of(t.ndim, t.shape)) {
            do {
                assert_ptr_equal((char *)back.storage + place_of(&back, index) * size,
                                 (char *)t.storage + place_of(&t, index) * size);
                elements++;
            } while (next_index(t.ndim, t.shape, index));
        }
        /* The storage is exactly what is touched. */
        expect_ok(pto_tensor_byte_range(&back, &low, &end));
        assert_int_equal(low, 0);
        assert_int_equal(end, back.storage_bytes);
    }
    assert_int_equal(done, made);
    assert_true(elements > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_import),         cmocka_unit_test(test_import_dtypes),
        cmocka_unit_test(test_import_devices), cmocka_unit_test(test_import_refuses),
        cmocka_unit_test(test_read_only),      cmocka_unit_test(test_release),
        cmocka_unit_test(test_export),         cmocka_unit_test(test_export_refuses),
        cmocka_unit_test(test_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
