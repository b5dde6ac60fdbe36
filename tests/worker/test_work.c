/* test_work.c - work requests: every operation compared byte for byte with a naive loop, and
 * their order among other tasks. */
#include "requests.h"

/* Whether an index occurs twice. */
static bool meets_itself(const pto_tensor *t)
{
    static bool touched[ARENA];
    int64_t index[PTO_MAX_DIMS] = {0};
    memset(touched, 0, sizeof touched);
    if (!count_of(t->ndim, t->shape)) {
        return false;
    }
    do {
        bool *at = &touched[byte_of(t, index)];
        if (*at) {
            return true;
        }
        *at = true;
    } while (next_index(t->ndim, t->shape, index));
    return false;
}

/* Writes indices from 0 to rows - 1 into both memories. */
static void put_indices(test_rng *rng, const pto_tensor *indices, int64_t rows)
{
    for (int64_t i = 0; i < indices->shape[0]; i++) {
        int64_t wide = test_between(rng, 0, rows - 1);
        int32_t narrow = (int32_t)wide;
        bool is_wide = indices->dtype == PTO_INT64;
        size_t at = byte_of(indices, &i), size = pto_dtype_size(indices->dtype);
        memcpy(arena + at, is_wide ? (void *)&wide : (void *)&narrow, size);
        memcpy(naive + at, arena + at, size);
    }
}

/* ---- Random requests ----------------------------------------------------------------------- */

/* Cases that occurred: a case that never occurs is not tested. */
typedef struct seen {
    uint64_t empty, no_dims, all_dims, backwards, broadcast, twice, size[9];
} seen;

static void look(seen *s, const pto_tensor *read, const pto_tensor *written)
{
    const pto_tensor *both[] = {read, written};
    for (int k = 0; k < 2; k++) {
        for (int32_t d = 0; both[k] && d < both[k]->ndim; d++) {
            s->backwards += both[k]->shape[d] > 1 && both[k]->strides[d] < 0;
            s->broadcast += !k && both[k]->shape[d] > 1 && both[k]->strides[d] == 0;
        }
    }
    s->empty += count_of(written->ndim, written->shape) == 0;
    s->no_dims += written->ndim == 0;
    s->all_dims += written->ndim == PTO_MAX_DIMS;
    s->twice += meets_itself(written);
    s->size[pto_dtype_size(written->dtype)]++;
}

static void expect_seen(const seen *s, bool rows, bool reads)
{
    assert_true(s->empty && s->all_dims && s->backwards && s->twice);
    assert_true(s->size[1] && s->size[2] && s->size[4] && s->size[8]);
    assert_true(rows || s->no_dims);
    assert_true(!reads || s->broadcast);
}

static void strided_copies_of_all_kinds(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    seen s = {0};
    for (uint64_t round = random_rounds(4000); round > 0; round--) {
        pto_tensor from, to;
        int64_t shape[PTO_MAX_DIMS];
        int32_t ndim = random_shape(&rng, PTO_MAX_DIMS, MOST, shape);
        pto_dtype dtype = random_dtype(&rng);
        if (place(&rng, 0, dtype, ndim, shape, &from) && place(&rng, 1, dtype, ndim, shape, &to)) {
            scramble(&rng);
            look(&s, &from, &to);
            pto_work work = copy_work(PTO_WORK_STRIDED_COPY, &from, &to);
            expect_work(&work);
            naive_copy(&from, &to);
            expect_same();
        }
    }
    expect_seen(&s, false, true);
}

static void fills_of_all_kinds(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    seen s = {0};
    for (uint64_t round = random_rounds(2000); round > 0; round--) {
        pto_tensor to;
        int64_t shape[PTO_MAX_DIMS];
        int32_t ndim = random_shape(&rng, PTO_MAX_DIMS, MOST, shape);
        if (place(&rng, 1, random_dtype(&rng), ndim, shape, &to)) {
            uint64_t value = test_next(&rng);
            scramble(&rng);
            look(&s, NULL, &to);
            pto_work work = fill_work(&to, value);
            expect_work(&work);
            naive_fill(&to, value);
            expect_same();
        }
    }
    expect_seen(&s, false, false);
}

static void random_rows(bool scatters)
{
    test_rng rng = test_rng_make(test_seed() + scatters);
    seen s = {0};
    uint64_t narrow = 0, wide = 0;
    for (uint64_t round = random_rounds(4000); round > 0; round--) {
        pto_tensor from_indices[2], to;
        int64_t lined_up[PTO_MAX_DIMS], indexed[PTO_MAX_DIMS], rows = test_between(&rng, 1, 9);
        int32_t ndim = 0;
        while (!ndim) {
            ndim = random_shape(&rng, PTO_MAX_DIMS, MOST, lined_up);
        }
        memcpy(indexed, lined_up, sizeof indexed);
        indexed[0] = rows;
        pto_dtype dtype = random_dtype(&rng),
                  index_dtype = test_chance(&rng, 50) ? PTO_INT32 : PTO_INT64;
        if (place(&rng, 0, dtype, ndim, scatters ? lined_up : indexed, &from_indices[0]) &&
            place(&rng, 1, dtype, ndim, scatters ? indexed : lined_up, &to) &&
            place(&rng, 2, index_dtype, 1, lined_up, &from_indices[1])) {
            scramble(&rng);
            put_indices(&rng, &from_indices[1], rows);
            look(&s, &from_indices[0], &to);
            *(index_dtype == PTO_INT32 ? &narrow : &wide) += 1;
            pto_work work = scatters ? scatter_work(from_indices, &to)
                                     : gather_work(from_indices, &to);
            expect_work(&work);
            naive_rows(&from_indices[0], &from_indices[1], &to, scatters);
            expect_same();
        }
    }
    expect_seen(&s, true, true);
    assert_true(narrow && wide);
}

static void gathers_of_all_kinds(void **state)
{
    (void)state;
    random_rows(false);
}

static void scatters_of_all_kinds(void **state)
{
    (void)state;
    random_rows(true);
}

/* Dense, with different shapes and dtypes on both sides, often overlapping. */
static void copies_of_all_kinds(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    uint64_t shared = 0, empty = 0;
    for (uint64_t round = random_rounds(2000); round > 0; round--) {
        int64_t eights = test_between(&rng, 0, 40), parts = test_between(&rng, 1, 8);
        pto_dtype a = random_dtype(&rng), b = random_dtype(&rng);
        int64_t in_a = eights * 8 / (int64_t)pto_dtype_size(a),
                in_b = eights * 8 / (int64_t)pto_dtype_size(b);
        parts = in_b % parts ? 1 : parts;
        scramble(&rng);
        unsigned char *at_a = arena + test_between(&rng, 0, 500),
                      *at_b = arena + test_between(&rng, 0, 500);
        pto_tensor from = dense(at_a, a, 1, DIMS(in_a));
        pto_tensor to = dense(at_b, b, 3, DIMS(parts, 1, in_b / parts));
        empty += !eights;
        shared += naive_share(&from, &to);
        pto_work work = copy_work(PTO_WORK_COPY, &from, &to);
        expect_work(&work);
        memmove(naive + (at_b - arena), naive + (at_a - arena), (size_t)eights * 8);
        expect_same();
    }
    assert_true(shared && empty);
}

/* ---- Among other tasks --------------------------------------------------------------------- */

static pto_status add_one(const pto_call *call)
{
    const pto_arg *x = &call->args[0];
    unsigned char *data = x->data;
    for (int64_t i = 0; i < x->shape[0]; i++) {
        data[i * x->strides[0]]++;
    }
    return PTO_OK;
}

/* Many requests and other tasks on the same memory, with one wait: as if run serially. */
static void requests_are_ordered_with_all_tasks(void **state)
{
    (void)state;
    pto_kernel kernel;
    test_rng rng = test_rng_make(test_seed());
    expect_ok(pto_kernel_register(runtime, "add one", PTO_VECTOR, add_one, NULL, &kernel));
    for (uint64_t round = test_effort(40); round > 0; round--) {
        scramble(&rng);
        for (int n = 0; n < 100; n++) {
            pto_tensor from, to;
            int64_t shape[PTO_MAX_DIMS];
            int32_t ndim = random_shape(&rng, 4, MOST, shape);
            pto_dtype dtype = random_dtype(&rng);
            if (!place(&rng, 0, dtype, ndim, shape, &from) ||
                !place(&rng, 0, dtype, ndim, shape, &to)) {
                continue;
            }
            if (ndim == 1 && dtype == PTO_INT8 && !meets_itself(&to)) {
                expect_ok(pto_submit(runtime, kernel, pto_inout(&to)));
                for (int64_t i = 0; i < shape[0]; i++) {
                    naive[byte_of(&to, &i)]++;
                }
            } else if (naive_share(&from, &to)) {
                uint64_t value = test_next(&rng);
                pto_work work = fill_work(&to, value);
                expect_ok(pto_submit_work(runtime, &work, NULL));
                naive_fill(&to, value);
            } else {
                pto_work work = copy_work(PTO_WORK_STRIDED_COPY, &from, &to);
                expect_ok(pto_submit_work(runtime, &work, NULL));
                naive_copy(&from, &to);
            }
        }
        expect_ok(pto_wait(runtime));
        expect_same();
    }
}

/* Managed memory, from the first write to a read; and a failure that skips its reader. */
static void managed_tensors_pass_through(void **state)
{
    (void)state;
    int32_t got[6] = {0};
    pto_tensor table, indices = dense(arena, PTO_INT64, 1, DIMS(3)), rows;
    memcpy(arena, (int64_t[]){2, 0, 2}, 3 * sizeof(int64_t));
    PTO_SCOPE(runtime) {
        expect_ok(pto_temp(runtime, PTO_INT32, 2, DIMS(3, 2), &table));
        expect_ok(pto_temp(runtime, PTO_INT32, 2, DIMS(3, 2), &rows));
        pto_work work = fill_work(&table, 7);
        expect_ok(pto_submit_work(runtime, &work, NULL));
        pto_tensor last;
        expect_ok(pto_tensor_slice(&table, 0, 2, 3, 1, &last));
        work = fill_work(&last, (uint32_t)-9);
        expect_ok(pto_submit_work(runtime, &work, NULL));
        pto_tensor in[] = {table, indices};
        work = gather_work(in, &rows);
        expect_ok(pto_submit_work(runtime, &work, NULL));
        expect_ok(pto_read(runtime, &rows, got, sizeof got));
        assert_memory_equal(got, ((int32_t[]){-9, -9, 7, 7, -9, -9}), sizeof got);

        pto_tensor bad, after;
        bool failed = false;
        pto_failure failure;
        expect_ok(pto_temp(runtime, PTO_INT32, 2, DIMS(3, 2), &bad));
        expect_ok(pto_temp(runtime, PTO_INT32, 2, DIMS(3, 2), &after));
        memcpy(arena, (int64_t[]){2, 0, 3}, 3 * sizeof(int64_t));
        work = gather_work(in, &bad);
        expect_ok(pto_submit_work(runtime, &work, NULL));
        work = copy_work(PTO_WORK_COPY, &bad, &after);
        expect_ok(pto_submit_work(runtime, &work, NULL));
        expect_fail(pto_read(runtime, &after, got, sizeof got), PTO_POISONED, "");
        expect_ok(pto_read(runtime, &rows, got, sizeof got));
        expect_ok(pto_get_failure(runtime, &failed, &failure));
        assert_true(failed);
        assert_int_equal(failure.status, PTO_BAD_INDEX);
        expect_ok(pto_clear_error(runtime));
    }
    expect_ok(pto_wait(runtime));
}

static void work_on_all_runtimes(void **state)
{
    on_all_runtimes(create, requests_are_ordered_with_all_tasks, state);
    on_all_runtimes(create, managed_tensors_pass_through, state);
}

static void every_opcode_has_a_name(void **state)
{
    (void)state;
    assert_string_equal(pto_work_opcode_name(PTO_WORK_COPY), "copy");
    assert_string_equal(pto_work_opcode_name(PTO_WORK_STRIDED_COPY), "strided copy");
    assert_string_equal(pto_work_opcode_name(PTO_WORK_FILL), "fill");
    assert_string_equal(pto_work_opcode_name(PTO_WORK_GATHER), "gather");
    assert_string_equal(pto_work_opcode_name(PTO_WORK_SCATTER), "scatter");
    assert_string_equal(pto_work_opcode_name(PTO_WORK_NONE), "invalid");
    assert_string_equal(pto_work_opcode_name(6), "invalid");
    assert_string_equal(pto_work_opcode_name(UINT32_MAX), "invalid");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_opcode_has_a_name),
        cmocka_unit_test(copies_of_all_kinds),
        cmocka_unit_test(strided_copies_of_all_kinds),
        cmocka_unit_test(fills_of_all_kinds),
        cmocka_unit_test(gathers_of_all_kinds),
        cmocka_unit_test(scatters_of_all_kinds),
        cmocka_unit_test(requests_are_ordered_with_all_tasks),
        cmocka_unit_test(managed_tensors_pass_through),
        cmocka_unit_test(work_on_all_runtimes),
    };
    return cmocka_run_group_tests_name("work", tests, create, destroy);
}
