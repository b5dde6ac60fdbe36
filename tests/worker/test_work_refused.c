/* test_work_refused.c - invalid work requests: each fails with the numbers in its message, and
 * writes nothing. */
#include <pthread.h>

#include "requests.h"

#include "orchestrator/runtime.h"

/* ---- Shared memory ------------------------------------------------------------------------- */

/* Refused if and only if a byte is both read and written. */
static void overlap_is_found_exactly(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    uint64_t apart = 0, shared = 0;
    for (uint64_t round = random_rounds(2000); round > 0; round--) {
        pto_tensor from, to;
        int64_t shape[PTO_MAX_DIMS];
        int32_t ndim = random_shape(&rng, 3, 60, shape);
        if (!place(&rng, 0, PTO_INT16, ndim, shape, &from) ||
            !place(&rng, 0, PTO_INT16, ndim, shape, &to)) {
            continue;
        }
        /* Closer together than random positions. */
        to.offset = test_chance(&rng, 70) ? from.offset + test_between(&rng, -9, 9) : to.offset;
        if (pto_tensor_check(&to)) {
            continue;
        }
        scramble(&rng);
        pto_work work = copy_work(PTO_WORK_STRIDED_COPY, &from, &to);
        bool same = from.offset == to.offset;
        for (int32_t d = 0; d < ndim; d++) {
            same &= shape[d] == 1 || from.strides[d] == to.strides[d];
        }
        if (naive_share(&from, &to) && !same) {
            shared++;
            expect_work_fails(work, PTO_OVERLAP, "strided copy", "share memory");
        } else {
            apart++;
            expect_work(&work);
            naive_copy(&from, &to);
            expect_same();
        }
    }
    assert_true(apart > 50 && shared > 50);
}

static void rows_and_indices_must_not_be_written(void **state)
{
    (void)state;
    int32_t *data = (int32_t *)(void *)arena;
    memset(arena, 0, ARENA);
    pto_tensor in[] = {dense(data, PTO_INT32, 2, DIMS(4, 2)),
                       dense(data + 100, PTO_INT32, 1, DIMS(3))};
    pto_tensor over_in = dense(data + 7, PTO_INT32, 2, DIMS(3, 2)),
               over_indices = dense(data + 95, PTO_INT32, 2, DIMS(3, 2)),
               beside = dense(data + 8, PTO_INT32, 2, DIMS(3, 2));
    expect_work_fails(gather_work(in, &over_in), PTO_OVERLAP, "gather: the input", "32", "24");
    expect_work_fails(gather_work(in, &over_indices), PTO_OVERLAP, "gather: the indices", "12");
    pto_work work = gather_work(in, &beside);
    expect_work(&work);

    pto_tensor source[] = {dense(data + 20, PTO_INT32, 2, DIMS(3, 2)), in[1]};
    pto_tensor over_source = dense(data + 14, PTO_INT32, 2, DIMS(4, 2)),
               over_places = dense(data + 102, PTO_INT32, 2, DIMS(4, 2));
    expect_work_fails(scatter_work(source, &over_source), PTO_OVERLAP, "scatter: the input");
    expect_work_fails(scatter_work(source, &over_places), PTO_OVERLAP, "scatter: the indices");
    work = scatter_work(source, &in[0]);
    expect_work(&work);
}

/* ---- Wrong ---------------------------------------------------------------------------------- */

static void wrong_requests_fail(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    scramble(&rng);
    pto_tensor a = dense(arena, PTO_FLOAT32, 2, DIMS(4, 6)),
               b = dense(arena + REGION, PTO_FLOAT32, 2, DIMS(4, 6)),
               c = dense(arena + REGION, PTO_FLOAT32, 2, DIMS(6, 4)),
               ints = dense(arena + REGION, PTO_INT32, 2, DIMS(4, 6)),
               shorter = dense(arena + REGION, PTO_FLOAT32, 2, DIMS(4, 5)),
               flat = dense(arena + REGION, PTO_FLOAT32, 1, DIMS(24)), turned, two[] = {a, a};
    expect_ok(pto_tensor_transpose(&a, 0, 1, &turned));

    static const uint32_t unknown[] = {PTO_WORK_NONE, 6, PTO_WORK_USER - 1, UINT32_MAX};
    for (int i = 0; i < 4; i++) { /* refused at submit, by name of the device */
        char number[24];
        pto_work work = copy_work(unknown[i], &a, &b);
        snprintf(number, sizeof number, "opcode %" PRIu32, unknown[i]);
        expect_fail(pto_submit_work(runtime, &work, NULL), PTO_BAD_OPCODE, number, "1 .. 5",
                    "cpu:0");
    }

    pto_work work = copy_work(PTO_WORK_COPY, two, &b);
    work.n_inputs = 2;
    expect_work_fails(work, PTO_BAD_PARAM, "copy", "2 inputs, 1 outputs, 0 inouts", "1, 1 and 0");
    work.n_inputs = 0;
    expect_work_fails(work, PTO_BAD_PARAM, "copy", "0 inputs", "1, 1 and 0");
    work = copy_work(PTO_WORK_GATHER, &a, &b);
    expect_work_fails(work, PTO_BAD_PARAM, "gather", "1 inputs", "2, 1 and 0");
    work = fill_work(&b, 7);
    work.inouts = work.outputs;
    work.n_inouts = 1;
    work.n_outputs = 0;
    expect_work_fails(work, PTO_BAD_PARAM, "fill", "0 outputs, 1 inouts", "0, 1 and 0");

    expect_work_fails(copy_work(PTO_WORK_COPY, &turned, &c), PTO_NOT_CONTIGUOUS, "input", "[6, 4]",
                      "[1, 6]");
    expect_work_fails(copy_work(PTO_WORK_COPY, &c, &turned), PTO_NOT_CONTIGUOUS, "output");
    expect_work_fails(copy_work(PTO_WORK_COPY, &a, &shorter), PTO_BAD_SHAPE, "96 bytes", "80");
    expect_work_fails(copy_work(PTO_WORK_STRIDED_COPY, &a, &c), PTO_BAD_SHAPE, "[4, 6]", "[6, 4]");
    expect_work_fails(copy_work(PTO_WORK_STRIDED_COPY, &a, &flat), PTO_BAD_SHAPE, "[4, 6]", "[24]");
    expect_work_fails(copy_work(PTO_WORK_STRIDED_COPY, &a, &ints), PTO_BAD_DTYPE, "float32",
                      "int32");
}

/* A request that was never filled in: nothing is allocated for its counts, and nothing read. */
static void counts_that_cannot_be_are_refused(void **state)
{
    (void)state;
    pto_tensor a = dense(arena, PTO_FLOAT32, 2, DIMS(4, 6)),
               b = dense(arena + REGION, PTO_FLOAT32, 2, DIMS(4, 6));
    for (int i = 0; i < 3; i++) {
        pto_work work = copy_work(PTO_WORK_COPY, &a, &b);
        work.inouts = &b;
        *(i == 0 ? &work.n_inputs : i == 1 ? &work.n_outputs : &work.n_inouts) = UINT32_MAX - 7;
        expect_fail(pto_submit_work(runtime, &work, NULL), PTO_TOO_LARGE, "copy", "4294967288",
                    "at most");
    }
    pto_work work = copy_work(PTO_WORK_COPY, &a, &b);
    expect_work(&work); /* the runtime is as before */
}

static void wrong_rows_fail(void **state)
{
    (void)state;
    memset(arena, 0, ARENA);
    void *there = arena + REGION, *places = arena + 2 * (size_t)REGION;
    pto_tensor a = dense(arena, PTO_FLOAT32, 2, DIMS(4, 6)),
               out = dense(there, PTO_FLOAT32, 2, DIMS(3, 6)),
               indices = dense(places, PTO_INT32, 1, DIMS(3)), in[] = {a, indices};

    in[1] = dense(places, PTO_INT16, 1, DIMS(3));
    expect_work_fails(gather_work(in, &out), PTO_BAD_DTYPE, "gather", "int16");
    in[1] = dense(places, PTO_UINT64, 1, DIMS(3));
    expect_work_fails(gather_work(in, &out), PTO_BAD_DTYPE, "gather", "uint64");
    in[1] = dense(places, PTO_INT32, 2, DIMS(3, 1));
    expect_work_fails(gather_work(in, &out), PTO_BAD_SHAPE, "gather", "2 dims, not 1");
    in[1] = dense(places, PTO_INT32, 0, NULL);
    expect_work_fails(gather_work(in, &out), PTO_BAD_SHAPE, "gather", "0 dims, not 1");
    in[1] = dense(places, PTO_INT32, 1, DIMS(4));
    expect_work_fails(gather_work(in, &out), PTO_BAD_SHAPE, "gather", "4 indices", "3 rows");
    in[1] = indices;

    out.dtype = PTO_INT32;
    expect_work_fails(gather_work(in, &out), PTO_BAD_DTYPE, "gather", "float32", "int32");
    out = dense(there, PTO_FLOAT32, 2, DIMS(3, 5));
    expect_work_fails(gather_work(in, &out), PTO_BAD_SHAPE, "gather", "[4, 6]", "[3, 5]");
    out = dense(there, PTO_FLOAT32, 3, DIMS(3, 6, 1));
    expect_work_fails(gather_work(in, &out), PTO_BAD_SHAPE, "gather", "[4, 6]", "[3, 6, 1]");
    in[0] = dense(arena, PTO_FLOAT32, 0, NULL);
    out = dense(there, PTO_FLOAT32, 0, NULL);
    expect_work_fails(gather_work(in, &out), PTO_BAD_SHAPE, "gather", "[]");

    /* A scatter has the roles the other way round. */
    in[0] = a;
    out = dense(there, PTO_FLOAT32, 2, DIMS(9, 6));
    expect_work_fails(scatter_work(in, &out), PTO_BAD_SHAPE, "scatter", "3 indices", "4 rows");
    in[0] = dense(arena, PTO_FLOAT32, 2, DIMS(3, 5));
    expect_work_fails(scatter_work(in, &out), PTO_BAD_SHAPE, "scatter", "[9, 6]", "[3, 5]");
}

/* The bad index comes last, and still nothing is written: expect_failure checks this. */
static void bad_indices_fail_before_anything_is_written(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    scramble(&rng);
    void *places = arena + 2 * (size_t)REGION;
    pto_tensor four = dense(arena, PTO_INT8, 2, DIMS(4, 6)),
               three = dense(arena + REGION, PTO_INT8, 2, DIMS(3, 6)),
               in[] = {four, dense(places, PTO_INT32, 1, DIMS(3))},
               source[] = {three, dense(places, PTO_INT64, 1, DIMS(3))};

    memcpy(places, (int32_t[]){3, 0, 4}, 3 * sizeof(int32_t));
    expect_work_fails(gather_work(in, &three), PTO_BAD_INDEX, "index 4 at position 2 of 3",
                      "size 4");
    memcpy(places, (int32_t[]){3, 0, -1}, 3 * sizeof(int32_t));
    expect_work_fails(gather_work(in, &three), PTO_BAD_INDEX, "index -1 at position 2", "size 4");
    memcpy(places, (int64_t[]){0, 3, INT64_C(1) << 32}, 3 * sizeof(int64_t));
    expect_work_fails(scatter_work(source, &four), PTO_BAD_INDEX,
                      "index 4294967296 at position 2 of 3", "size 4");
    memcpy(places, (int64_t[]){0, INT64_MIN, 1}, 3 * sizeof(int64_t));
    expect_work_fails(scatter_work(source, &four), PTO_BAD_INDEX, "-9223372036854775808",
                      "position 1");

    /* Empty rows, or no rows at all: indices are checked all the same. */
    in[0] = dense(arena, PTO_INT8, 2, DIMS(4, 0));
    pto_tensor none = dense(arena + REGION, PTO_INT8, 2, DIMS(3, 0));
    memcpy(places, (int32_t[]){3, 0, 4}, 3 * sizeof(int32_t));
    expect_work_fails(gather_work(in, &none), PTO_BAD_INDEX, "index 4");
    in[0] = dense(arena, PTO_INT8, 2, DIMS(0, 6));
    expect_work_fails(gather_work(in, &three), PTO_BAD_INDEX, "index 3 at position 0", "size 0");
    in[1] = dense(places, PTO_INT32, 1, DIMS(0));
    none = dense(arena + REGION, PTO_INT8, 2, DIMS(0, 6));
    pto_work work = gather_work(in, &none);
    expect_work(&work);
}

static void *submit_elsewhere(void *context)
{
    pto_status *status = context;
    pto_tensor a = dense(arena, PTO_INT8, 1, DIMS(8));
    pto_work work = fill_work(&a, 1);
    *status = pto_submit_work(runtime, &work, NULL);
    return NULL;
}

static void submit_refuses(void **state)
{
    (void)state;
    pto_tensor a = dense(arena, PTO_INT8, 1, DIMS(8));
    pto_work work = fill_work(&a, 1);
    expect_fail(pto_submit_work(NULL, &work, NULL), PTO_NULL_ARGUMENT, "runtime");
    expect_fail(pto_submit_work(runtime, NULL, NULL), PTO_NULL_ARGUMENT, "work");
    work.n_inputs = 3;
    expect_fail(pto_submit_work(runtime, &work, NULL), PTO_NULL_ARGUMENT,
                "fill: inputs is NULL, but n_inputs is 3");
    work = (pto_work){.opcode = PTO_WORK_FILL, .n_outputs = 1};
    expect_fail(pto_submit_work(runtime, &work, NULL), PTO_NULL_ARGUMENT,
                "outputs is NULL, but n_outputs is 1");
    work = (pto_work){.opcode = PTO_WORK_SCATTER, .n_inouts = 2};
    expect_fail(pto_submit_work(runtime, &work, NULL), PTO_NULL_ARGUMENT,
                "inouts is NULL, but n_inouts is 2");
    a.dtype = PTO_DTYPE_NONE;
    work = fill_work(&a, 1);
    expect_fail(pto_submit_work(runtime, &work, NULL), PTO_BAD_DTYPE, "0");

    pthread_t thread;
    pto_status status = PTO_OK;
    assert_int_equal(pthread_create(&thread, NULL, submit_elsewhere, &status), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(status, PTO_WRONG_THREAD);
    expect_ok(pto_wait(runtime));
}

/* No worker for it, and the program does not help either. */
static void nobody_serves_accelerators(void **state)
{
    pto_config vectors = PTO_CONFIG_INIT;
    pto_tensor a = dense(arena, PTO_INT8, 1, DIMS(8));
    pto_work work = fill_work(&a, 1);
    vectors.type_workers[PTO_VECTOR] = 1;
    vectors.caller_types = PTO_TYPE_BIT(PTO_VECTOR);
    assert_int_equal(destroy(state), 0);
    config = &vectors;
    assert_int_equal(create(state), 0);
    expect_fail(pto_submit_work(runtime, &work, NULL), PTO_BAD_WORKER, "accelerator");
    assert_int_equal(destroy(state), 0);
    config = NULL;
    assert_int_equal(create(state), 0);
}

/* Too many tensors: the request fails, not the submit. */
static void many_tensors_are_passed_on(void **state)
{
    (void)state;
    pto_tensor many[150];
    for (int i = 0; i < 150; i++) {
        many[i] = dense(arena + i * 8, PTO_INT8, 1, DIMS(8));
    }
    pto_work work = copy_work(PTO_WORK_COPY, many, &many[149]);
    work.n_inputs = 100;
    work.inouts = many + 100;
    work.n_inouts = 49;
    expect_work_fails(work, PTO_BAD_PARAM, "100 inputs, 1 outputs, 49 inouts in 150 tensors");
}

/* A direct submit to the kernel, by its number, is not trusted. */
static void malformed_tasks_fail(void **state)
{
    (void)state;
    pto_tensor a = dense(arena, PTO_INT8, 1, DIMS(8));
    pto_param params[22];
    for (int i = 0; i < 22; i++) {
        params[i] = pto_scalar_u64(0);
    }
    params[0] = pto_scalar_u64(PTO_WORK_FILL);
    params[2] = pto_scalar_u64(1);
    const struct {
        size_t n, tensor; /* parameters; which of them is a tensor */
        uint64_t opcode;
        pto_status status;
        const char *says;
    } cases[] = {
        {19, 20, PTO_WORK_FILL, PTO_BAD_PARAM, "19 arguments"},
        {20, 20, PTO_WORK_FILL, PTO_BAD_PARAM, "in 0 tensors"},
        {21, 3, PTO_WORK_FILL, PTO_BAD_PARAM, "argument 3 is a tensor"},
        {22, 20, PTO_WORK_FILL, PTO_BAD_PARAM, "argument 21 is a scalar"},
        {21, 20, UINT64_C(1) << 32 | PTO_WORK_FILL, PTO_BAD_OPCODE, "4294967299"},
        {21, 20, PTO_WORK_FILL, PTO_OK, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pto_param list[22];
        memcpy(list, params, sizeof list);
        list[0].u64 = cases[i].opcode;
        list[cases[i].tensor] = pto_output(&a);
        expect_ok(pto_submit_task(runtime, runtime->work_kernel, PTO_KERNEL_TYPE, list, cases[i].n,
                                  NULL));
        if (cases[i].status) {
            expect_fail(pto_wait(runtime), PTO_TASK_FAILED, pto_status_name(cases[i].status),
                        cases[i].says);
            expect_ok(pto_clear_error(runtime));
        }
        expect_ok(pto_wait(runtime));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlap_is_found_exactly),
        cmocka_unit_test(rows_and_indices_must_not_be_written),
        cmocka_unit_test(wrong_requests_fail),
        cmocka_unit_test(counts_that_cannot_be_are_refused),
        cmocka_unit_test(wrong_rows_fail),
        cmocka_unit_test(bad_indices_fail_before_anything_is_written),
        cmocka_unit_test(submit_refuses),
        cmocka_unit_test(nobody_serves_accelerators),
        cmocka_unit_test(many_tensors_are_passed_on),
        cmocka_unit_test(malformed_tasks_fail),
    };
    return cmocka_run_group_tests_name("work_refused", tests, create, destroy);
}
