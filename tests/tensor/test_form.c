/* test_form.c - forms: numbers are the same exactly for tensors that differ in their memory alone. */
#include "tensor/form.h"
#include "tensors.h"

typedef struct table {
    ptoi_forms forms;
} table;

static table table_make(void)
{
    table t = {{.records = calloc(1, PTOI_FORM_BYTES),
                .table = calloc(PTOI_FORM_SEATS, sizeof(uint16_t))}};
    assert_non_null(t.forms.records);
    assert_non_null(t.forms.table);
    return t;
}

static void table_free(table *t)
{
    free(t->forms.records);
    free(t->forms.table);
}

static bool same_form(const pto_tensor *a, const pto_tensor *b)
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
    const ptoi_form *form = ptoi_form_record(t->forms.records, number);
    int64_t numel = 1;
    bool dense = true;
    assert_true(ptoi_form_is(form, tensor));
    for (int32_t d = tensor->ndim - 1; d >= 0; d--) {
        assert_int_equal(form->dims[d], tensor->shape[d]);
        assert_int_equal(form->dims[tensor->ndim + d], tensor->strides[d]);
        dense = dense && tensor->strides[d] == numel;
        numel *= tensor->shape[d];
    }
    assert_int_equal(form->dense, dense ? (uint64_t)numel * pto_dtype_size(tensor->dtype) : 0);
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
        numbers[i] = ptoi_form_number(&t.forms, &kept[i]);
        assert_int_not_equal(numbers[i], 0);
        assert_int_equal(ptoi_form_find(&t.forms, &kept[i]), numbers[i]);
        check_record(&t, numbers[i], &kept[i]);
    }
    for (int i = 0; i < KEPT; i++) {
        for (int k = 0; k < KEPT; k++) {
            const bool same = same_form(&kept[i], &kept[k]);
            assert_int_equal(numbers[i] == numbers[k], same);
            assert_int_equal(ptoi_form_is(ptoi_form_record(t.forms.records, numbers[i]), &kept[k]),
                             same);
        }
    }
    expect_ok(ptoi_forms_check(&t.forms));
    table_free(&t);
}

/* Until there is no room; then those that are known stay known. */
static void test_full(void **state)
{
    table t = table_make();
    pto_tensor tensor;
    (void)state;
    for (int32_t ndim = 1; ndim <= PTO_MAX_DIMS; ndim += 7) {
        memset(t.forms.table, 0, PTOI_FORM_SEATS * sizeof *t.forms.table);
        t.forms.used = 0;
        memset(&tensor, 0, sizeof tensor);
        tensor.ndim = ndim;
        tensor.dtype = PTO_INT16;
        const uint32_t units = ndim == 1 ? 1 : 3;
        int64_t count = 0;
        for (uint32_t number;; count++) {
            const bool few = ptoi_forms_are_few(&t.forms, 1);
            tensor.shape[0] = count;
            number = ptoi_form_number(&t.forms, &tensor);
            assert_true(number || few);
            if (!number) {
                break;
            }
            assert_int_equal(number, 1 + count * units);
        }
        assert_int_equal(count, (PTOI_FORM_UNITS - 1) / units);
        assert_int_equal(ptoi_form_find(&t.forms, &tensor), 0);
        for (int64_t i = 0; i < count; i += 97) {
            tensor.shape[0] = i;
            assert_int_equal(ptoi_form_number(&t.forms, &tensor), 1 + i * units);
        }
        expect_ok(ptoi_forms_check(&t.forms));
    }
    /* A record that is not what its number is for is noticed. */
    ((ptoi_form *)(void *)(t.forms.records + PTOI_FORM_UNIT))->dims[0]++;
    assert_int_equal(ptoi_forms_check(&t.forms), PTO_CORRUPT);
    table_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
