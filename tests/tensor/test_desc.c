/* test_desc.c - layout descriptors: numbers are the same exactly for tensors that differ in their memory alone. */
#include "tensor/desc.h"
#include "tensors.h"

typedef struct table {
    ptoi_descs descs;
} table;

static table table_make(void)
{
    table t;
    char *records = calloc(1, PTOI_DESC_BYTES);
    uint16_t *ids = calloc(PTOI_DESC_SLOTS, sizeof *ids);
    uint64_t *taken = calloc(PTOI_DESC_WORDS, sizeof *taken);
    uint64_t *marks = calloc(PTOI_DESC_WORDS, sizeof *marks);
    assert_true(records && ids && taken && marks);
    ptoi_descs_init(&t.descs, records, ids, taken, marks);
    return t;
}

static void table_free(table *t)
{
    free(t->descs.records);
    free(t->descs.table);
    free(t->descs.taken);
    free(t->descs.marks);
}

static bool same_desc(const pto_tensor *a, const pto_tensor *b)
{
    bool same = a->ndim == b->ndim && a->dtype == b->dtype;
    for (int32_t d = 0; same && d < a->ndim; d++) {
        same = a->shape[d] == b->shape[d] && a->strides[d] == b->strides[d];
    }
    return same;
}

/* Few different ones, so that many are the same; what lies past ndim is no part of it. */
static pto_tensor any_tensor(test_rng *rng)
{
    pto_tensor t;
    memset(&t, 0, sizeof t);
    t.ndim = (int32_t)test_between(rng, 0, PTO_MAX_DIMS);
    t.dtype = test_next(rng) & 1 ? PTO_FLOAT32 : PTO_UINT8;
    t.offset = test_between(rng, 0, 100);
    for (int32_t d = 0; d < PTO_MAX_DIMS; d++) {
        t.shape[d] = test_between(rng, 0, 2);
        t.strides[d] = test_between(rng, -1, 1);
    }
    if (test_next(rng) & 1) { /* dense */
        int64_t step = 1;
        for (int32_t d = t.ndim - 1; d >= 0; d--) {
            t.strides[d] = step;
            step *= t.shape[d];
        }
    }
    return t;
}

static void check_record(const table *t, uint32_t number, const pto_tensor *tensor)
{
    const ptoi_desc *desc = ptoi_desc_at(t->descs.records, number);
    int64_t numel = 1;
    bool dense = true;
    assert_true(ptoi_desc_matches(desc, tensor));
    for (int32_t d = tensor->ndim - 1; d >= 0; d--) {
        assert_int_equal(desc->dims[d], tensor->shape[d]);
        assert_int_equal(desc->dims[tensor->ndim + d], tensor->strides[d]);
        dense = dense && tensor->strides[d] == numel;
        numel *= tensor->shape[d];
    }
    assert_int_equal(desc->dense, dense ? (uint64_t)numel * pto_dtype_size(tensor->dtype) : 0);
}

static void test_numbers(void **state)
{
    enum { KEPT = 200 };
    table t = table_make();
    test_rng rng = test_rng_make(1);
    pto_tensor kept[KEPT];
    uint32_t numbers[KEPT];
    (void)state;
    for (int i = 0; i < KEPT; i++) {
        kept[i] = any_tensor(&rng);
        numbers[i] = ptoi_desc_intern(&t.descs, &kept[i]);
        assert_int_not_equal(numbers[i], 0);
        assert_int_equal(ptoi_desc_find(&t.descs, &kept[i]), numbers[i]);
        check_record(&t, numbers[i], &kept[i]);
    }
    for (int i = 0; i < KEPT; i++) {
        for (int k = 0; k < KEPT; k++) {
            const bool same = same_desc(&kept[i], &kept[k]);
            assert_int_equal(numbers[i] == numbers[k], same);
            assert_int_equal(ptoi_desc_matches(ptoi_desc_at(t.descs.records, numbers[i]), &kept[k]),
                             same);
        }
    }
    expect_ok(ptoi_descs_check(&t.descs));
    table_free(&t);
}

/* Until there is no room; then those that are known stay known. */
static void test_full(void **state)
{
    table t = table_make();
    pto_tensor tensor;
    (void)state;
    for (int32_t ndim = 1; ndim <= PTO_MAX_DIMS; ndim += 7) {
        ptoi_descs_sweep(&t.descs); /* nothing is marked: all are gone */
        assert_int_equal(t.descs.used, 0);
        memset(&tensor, 0, sizeof tensor);
        tensor.ndim = ndim;
        tensor.dtype = PTO_INT16;
        const uint32_t units = ndim == 1 ? 1 : 3;
        int64_t count = 0;
        for (uint32_t number;; count++) {
            const bool few = ptoi_descs_may_run_out(&t.descs, 1);
            tensor.shape[0] = count;
            number = ptoi_desc_intern(&t.descs, &tensor);
            assert_true(number || few);
            if (!number) {
                break;
            }
            assert_int_equal(number, 1 + count * units);
        }
        assert_int_equal(count, (PTOI_DESC_UNITS - 1) / units);
        assert_int_equal(ptoi_desc_find(&t.descs, &tensor), 0);
        for (int64_t i = 0; i < count; i += 97) {
            tensor.shape[0] = i;
            assert_int_equal(ptoi_desc_intern(&t.descs, &tensor), 1 + i * units);
        }
        expect_ok(ptoi_descs_check(&t.descs));
    }
    /* A record that is not what its number is for is noticed. */
    ((ptoi_desc *)(void *)(t.descs.records + PTOI_DESC_UNIT))->dims[0]++;
    assert_int_equal(ptoi_descs_check(&t.descs), PTO_CORRUPT);
    table_free(&t);
}

/* A program that uses ever-new layouts, a few at a time: each gets an id after a sweep, those that
 * are named keep theirs, and others lose theirs. */
static void test_ids_come_back(void **state)
{
    enum { KEPT = 500, ROUNDS = 400000 };
    (void)state;
    table t = table_make();
    test_rng rng = test_rng_make(test_seed());
    pto_tensor kept[KEPT];
    uint32_t ids[KEPT] = {0}, sweeps = 0;
    for (int64_t i = 0; i < ROUNDS; i++) {
        pto_tensor tensor;
        memset(&tensor, 0, sizeof tensor);
        tensor.ndim = (int32_t)test_between(&rng, 1, PTO_MAX_DIMS);
        tensor.dtype = PTO_INT16;
        tensor.shape[0] = i;
        if (ptoi_descs_may_run_out(&t.descs, 1) && !ptoi_desc_intern(&t.descs, &tensor)) {
            for (int k = 0; k < KEPT; k++) {
                ptoi_descs_mark(&t.descs, ids[k]);
            }
            ptoi_descs_sweep(&t.descs);
            expect_ok(ptoi_descs_check(&t.descs));
            for (int k = 0; k < KEPT; k++) {
                assert_int_equal(ptoi_desc_find(&t.descs, &kept[k]), ids[k]);
            }
            assert_true(t.descs.used <= 3 * KEPT);
            sweeps++;
        }
        const uint32_t id = ptoi_desc_intern(&t.descs, &tensor);
        assert_int_not_equal(id, 0);
        check_record(&t, id, &tensor);
        kept[i % KEPT] = tensor;
        ids[i % KEPT] = id;
    }
    assert_true(sweeps > 5);
    table_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_ids_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
