/* test_execute.c - an orchestration on host data: its inputs and outputs; and the table of
 * devices. */
#include "executions.h"

/* ---- It works ------------------------------------------------------------------------------ */

static void a_sum_on_either_thread(void **state)
{
    (void)state;
    fake_device fake = {.late = true};
    for (int round = 0; round < 4; round++) {
        pto_orchestrator where = both[round % 2];
        pto_execute_options options = round < 2 ? on((pto_device){PTO_DEVICE_CPU, 0}, where)
                                                : on_fake(&fake, where);
        int32_t a[] = {1, 2, 3}, b[] = {10, 20, 30}, c[3] = {0};
        pto_tensor in[] = {dense(a, PTO_INT32, 1, DIMS(3)), dense(b, PTO_INT32, 1, DIMS(3))},
                   out = dense(c, PTO_INT32, 1, DIMS(3));
        pthread_t thread = pthread_self();
        expect_ok(pto_execute_ex(runtime, sum, in, 2, &out, 1, &thread, &options));
        assert_memory_equal(c, ((int32_t[]){12, 24, 36}), sizeof c);
        assert_int_equal(pthread_equal(thread, pthread_self()) != 0, where == PTO_ON_CALLER);
        expect_usable(); /* the runtime is the caller's again */
    }
    fake_expect_idle(&fake);
    assert_int_equal(fake.allocs, 6);
    assert_int_equal(fake.copies_in, 4);
    assert_int_equal(fake.copies_out, 2);
}

/* The orchestration gets dense tensors in device memory only. */
static pto_status look_around(pto_runtime *rt, const pto_tensor *inputs, const pto_tensor *outputs,
                              void *params)
{
    const fake_device *fake = params;
    const pto_tensor *all[] = {&inputs[0], &inputs[1], &outputs[0], &outputs[1]};
    static const struct {
        pto_dtype dtype;
        int32_t ndim;
        int64_t shape[PTO_MAX_DIMS], strides[PTO_MAX_DIMS];
    } want[] = {
        {PTO_INT32, 2, {2, 3}, {3, 1}},
        {PTO_INT32, 0, {0}, {0}},
        {PTO_INT8, 3, {4, 1, 2}, {2, 2, 1}},
        {PTO_INT8, 2, {5, 0}, {1, 1}},
    };
    CHECK(rt == runtime);
    CHECK(fake->n_copies == 0);
    for (int i = 0; i < 4; i++) {
        PTO_TRY(pto_tensor_check(all[i]));
        CHECK(all[i]->dtype == want[i].dtype && all[i]->ndim == want[i].ndim);
        CHECK(!memcmp(all[i]->shape, want[i].shape, sizeof want[i].shape));
        CHECK(!memcmp(all[i]->strides, want[i].strides, sizeof want[i].strides));
        CHECK(all[i]->device.type == fake_place.type && all[i]->device.index == fake_place.index);
        CHECK(all[i]->offset == 0 && all[i]->owner == 0);
        CHECK(!all[i]->storage_bytes || fake_owns(fake, all[i]->storage, all[i]->storage_bytes));
    }
    CHECK(!outputs[1].storage);
    CHECK(!memcmp(inputs[0].storage, (int32_t[]){0, 2, 4, 6, 8, 10}, 24));
    CHECK(!memcmp(inputs[1].storage, (int32_t[]){11}, 4));
    memset(outputs[0].storage, 5, 8); /* also an orchestration may write */
    return PTO_OK;
}

static void the_orchestration_sees_device_tensors(void **state)
{
    (void)state;
    for (int round = 0; round < 4; round++) {
        fake_device fake = {.late = round / 2};
        pto_execute_options options = on_fake(&fake, both[round % 2]);
        int32_t data[12];
        char out[9] = {0};
        for (int i = 0; i < 12; i++) {
            data[i] = i;
        }
        pto_tensor in[2], outs[2];
        expect_ok(
            pto_tensor_init(&in[0], data, sizeof data, PTO_INT32, 2, DIMS(2, 3), DIMS(6, 2), 0));
        expect_ok(pto_tensor_init(&in[1], data, sizeof data, PTO_INT32, 0, NULL, NULL, 11));
        expect_ok(pto_tensor_init(&outs[0], out, sizeof out, PTO_INT8, 3, DIMS(4, 1, 2), NULL, 0));
        expect_ok(pto_tensor_init(&outs[1], out, sizeof out, PTO_INT8, 2, DIMS(5, 0), NULL, 0));
        expect_ok(pto_execute_ex(runtime, look_around, in, 2, outs, 2, &fake, &options));
        assert_memory_equal(out, ((char[]){5, 5, 5, 5, 5, 5, 5, 5, 0}), sizeof out);
        fake_expect_idle(&fake);
        assert_int_equal(fake.allocs, 3);
        assert_int_equal(fake.copies_in, 2);
        assert_int_equal(fake.copies_out, 1);
    }
}

/* Any strides on both sides, many tensors, on a prompt device, a late one and the host. */
static void strided_tensors_of_all_kinds(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    fake_device fake = {0};
    pto_execute_options options = on_fake(&fake, PTO_ON_CALLER);
    uint64_t empty = 0, strided = 0, straight = 0, shared = 0;
    for (uint64_t round = random_rounds(1000); round > 0; round--) {
        enum { PAIRS = 4 };
        pto_tensor in[PAIRS], out[PAIRS];
        size_t n = 0, wanted = (size_t)test_between(&rng, 0, PAIRS);
        while (n < wanted) {
            int64_t shape[PTO_MAX_DIMS];
            int32_t ndim = random_shape(&rng, PTO_MAX_DIMS, MOST, shape);
            pto_dtype dtype = random_dtype(&rng);
            n += place(&rng, 0, dtype, ndim, shape, &in[n]) &&
                 place(&rng, 1, dtype, ndim, shape, &out[n]);
        }
        scramble(&rng);
        fake.late = test_chance(&rng, 50);
        options.device = test_chance(&rng, 30) ? (pto_device){PTO_DEVICE_CPU, 0} : fake_place;
        options.orchestrator = test_chance(&rng, 5) ? PTO_ON_THREAD : PTO_ON_CALLER;
        bool share = false;
        for (size_t i = 0; i < n; i++) {
            for (size_t j = 0; j < i; j++) {
                share |= naive_share(&out[i], &out[j]);
            }
        }
        if (share) {
            shared++;
            expect_fail(pto_execute_ex(runtime, copy_all, in, n, out, n, &n, &options), PTO_OVERLAP,
                        "outputs");
            expect_same();
            continue;
        }
        expect_ok(pto_execute_ex(runtime, copy_all, in, n, out, n, &n, &options));
        for (size_t i = 0; i < n; i++) {
            naive_copy(&in[i], &out[i]);
            empty += !pto_tensor_numel(&in[i]);
            strided += !pto_tensor_is_contiguous(&in[i]) && !pto_tensor_is_contiguous(&out[i]);
            straight += pto_tensor_is_contiguous(&in[i]) && pto_tensor_is_contiguous(&out[i]);
        }
        expect_same();
    }
    fake_expect_idle(&fake);
    assert_true(empty && strided && straight && shared);
}

/* One tensor may be input and output, and inputs may share memory. */
static void inputs_may_be_outputs(void **state)
{
    (void)state;
    int32_t data[] = {1, 2, 3, 4};
    pto_tensor in[2], out;
    expect_ok(pto_tensor_init(&in[0], data, sizeof data, PTO_INT32, 1, DIMS(3), NULL, 0));
    expect_ok(pto_tensor_init(&in[1], data, sizeof data, PTO_INT32, 1, DIMS(3), DIMS(-1), 3));
    out = in[0];
    expect_ok(pto_execute(runtime, sum, in, 2, &out, 1, NULL));
    assert_memory_equal(data, ((int32_t[]){6, 7, 8, 4}), sizeof data);
}

static void no_tensors_at_all(void **state)
{
    (void)state;
    int runs = 0;
    pto_execute_options options = on((pto_device){PTO_DEVICE_CPU, 0}, PTO_ON_THREAD);
    expect_ok(pto_execute(runtime, nothing, NULL, 0, NULL, 0, &runs));
    expect_ok(pto_execute_ex(runtime, nothing, NULL, 0, NULL, 0, &runs, &options));
    assert_int_equal(runs, 2);
}

/* Earlier tasks have written the inputs before they are copied in. */
static void earlier_tasks_come_first(void **state)
{
    (void)state;
    int32_t a[] = {1, 2, 3}, b[] = {5, 5, 5}, c[3] = {0};
    pto_tensor in[] = {dense(a, PTO_INT32, 1, DIMS(3)), dense(b, PTO_INT32, 1, DIMS(3))},
               out = dense(c, PTO_INT32, 1, DIMS(3));
    for (int i = 0; i < 10; i++) {
        expect_ok(pto_submit(runtime, slow_add, pto_input(&in[1]), pto_input(&in[0]),
                             pto_output(&in[0])));
    }
    expect_ok(pto_execute(runtime, sum, in, 2, &out, 1, NULL));
    assert_memory_equal(c, ((int32_t[]){107, 109, 111}), sizeof c);
}

/* ---- Nested -------------------------------------------------------------------------------- */

typedef struct nest {
    fake_device *outer;
    pto_execute_options inner;
} nest;

/* Sums on another device. */
static pto_status sum_inside(pto_runtime *rt, const pto_tensor *inputs, const pto_tensor *outputs,
                             void *params)
{
    const nest *n = params;
    int32_t *a = inputs[0].storage, b[] = {100, 100, 100}, c[3] = {0};
    pto_tensor in[] = {dense(a, PTO_INT32, 1, DIMS(3)), dense(b, PTO_INT32, 1, DIMS(3))},
               out = dense(c, PTO_INT32, 1, DIMS(3));
    CHECK(fake_current == n->outer);
    PTO_TRY(pto_scope_begin(rt));
    PTO_TRY(pto_execute_ex(rt, sum, in, 2, &out, 1, NULL, &n->inner));
    CHECK(fake_current == n->outer);
    CHECK(pto_get_scope_depth(rt) == 1);
    memcpy(outputs[0].storage, c, sizeof c);
    return PTO_OK; /* with a scope open */
}

static void an_orchestration_may_execute(void **state)
{
    (void)state;
    for (int round = 0; round < 4; round++) {
        fake_device outer = {0}, inner = {.late = true};
        pto_execute_options options = on_fake(&outer, both[round % 2]);
        pto_device_ops ops = fake_ops(&inner);
        expect_ok(pto_device_register(runtime, (pto_device){PTO_DEVICE_NVIDIA, 0}, &ops));
        nest n = {&outer, on((pto_device){PTO_DEVICE_NVIDIA, 0}, both[round / 2])};
        int32_t a[] = {1, 2, 3}, c[3] = {0};
        pto_tensor in = dense(a, PTO_INT32, 1, DIMS(3)), out = dense(c, PTO_INT32, 1, DIMS(3));
        expect_ok(pto_execute_ex(runtime, sum_inside, &in, 1, &out, 1, &n, &options));
        assert_memory_equal(c, ((int32_t[]){102, 104, 106}), sizeof c);
        fake_expect_idle(&outer);
        fake_expect_idle(&inner);
        expect_usable();
    }
}

static void execute_on_all_runtimes(void **state)
{
    on_all_runtimes(create_to_add, a_sum_on_either_thread, state);
    on_all_runtimes(create_to_add, an_orchestration_may_execute, state);
}

/* ---- The table ----------------------------------------------------------------------------- */

static void devices_are_found_again(void **state)
{
    (void)state;
    enum { MANY = 200 };
    static fake_device fakes[MANY];
    pto_device_ops ops = fake_ops(&fakes[0]), got;
    for (int i = 0; i < MANY; i++) {
        ops = fake_ops(&fakes[i]);
        ops.stream = &fakes[i].calls;
        expect_ok(pto_device_register(runtime, (pto_device){PTO_DEVICE_METAX, i}, &ops));
    }
    expect_ok(pto_device_find(runtime, (pto_device){PTO_DEVICE_CPU, 0}, &got));
    assert_true(got.alloc && got.free && got.copy_in && got.copy_out);
    for (int i = 0; i < MANY; i++) {
        expect_ok(pto_device_find(runtime, (pto_device){PTO_DEVICE_METAX, i}, &got));
        assert_ptr_equal(got.self, &fakes[i]);
        assert_ptr_equal(got.stream, &fakes[i].calls);
    }
    /* Replaced, and only that one. */
    ops = fake_ops(&fakes[9]);
    expect_ok(pto_device_register(runtime, (pto_device){PTO_DEVICE_METAX, 5}, &ops));
    expect_ok(pto_device_find(runtime, (pto_device){PTO_DEVICE_METAX, 5}, &got));
    assert_ptr_equal(got.self, &fakes[9]);
    expect_ok(pto_device_find(runtime, (pto_device){PTO_DEVICE_METAX, 6}, &got));
    assert_ptr_equal(got.self, &fakes[6]);

    expect_fail(pto_device_find(runtime, (pto_device){PTO_DEVICE_METAX, MANY}, &got),
                PTO_BAD_DEVICE, "metax:200");
    expect_fail(pto_device_find(runtime, (pto_device){(pto_device_type)99, 0}, &got),
                PTO_BAD_DEVICE, "99");
    expect_fail(pto_device_find(NULL, (pto_device){0}, &got), PTO_NULL_ARGUMENT, "rt");
    expect_fail(pto_device_find(runtime, (pto_device){0}, NULL), PTO_NULL_ARGUMENT, "ops");
}

static void useless_devices_are_refused(void **state)
{
    (void)state;
    fake_device fake = {0};
    pto_device place_of_it = {PTO_DEVICE_QY, 0};
    pto_device_ops ops = fake_ops(&fake), wrong = ops;
    expect_fail(pto_device_register(NULL, place_of_it, &ops), PTO_NULL_ARGUMENT, "rt");
    expect_fail(pto_device_register(runtime, place_of_it, NULL), PTO_NULL_ARGUMENT, "ops");
    wrong.size = 8;
    expect_fail(pto_device_register(runtime, place_of_it, &wrong), PTO_BAD_CONFIG, "8");
    wrong = ops;
    wrong.alloc = NULL;
    expect_fail(pto_device_register(runtime, place_of_it, &wrong), PTO_NULL_ARGUMENT, "alloc");
    wrong = ops;
    wrong.free = NULL;
    expect_fail(pto_device_register(runtime, place_of_it, &wrong), PTO_NULL_ARGUMENT, "free");
    wrong = ops;
    wrong.copy_in = NULL;
    expect_fail(pto_device_register(runtime, place_of_it, &wrong), PTO_NULL_ARGUMENT, "copy_in");
    wrong = ops;
    wrong.copy_out = NULL;
    expect_fail(pto_device_register(runtime, place_of_it, &wrong), PTO_NULL_ARGUMENT, "copy_out");
    expect_fail(pto_device_register(runtime, (pto_device){(pto_device_type)99, 0}, &ops),
                PTO_BAD_DEVICE, "99");
    expect_fail(pto_device_register(runtime, (pto_device){PTO_DEVICE_QY, -1}, &ops), PTO_BAD_DEVICE,
                "-1");
    expect_fail(pto_device_find(runtime, place_of_it, &wrong), PTO_BAD_DEVICE, "qy:0");

    /* The two optional functions. */
    ops.set_current = NULL;
    ops.synchronize = NULL;
    fake_current = &fake;
    expect_ok(pto_device_register(runtime, place_of_it, &ops));
    pto_execute_options options = on(place_of_it, PTO_ON_THREAD);
    int32_t data[] = {1, 2};
    size_t pairs = 1;
    pto_tensor t = dense(data, PTO_INT32, 1, DIMS(2));
    expect_ok(pto_execute_ex(runtime, copy_all, &t, 1, &t, 1, &pairs, &options));
    fake_expect_idle(&fake);
    assert_int_equal(fake.allocs, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sum_on_either_thread),
        cmocka_unit_test(the_orchestration_sees_device_tensors),
        cmocka_unit_test(strided_tensors_of_all_kinds),
        cmocka_unit_test(inputs_may_be_outputs),
        cmocka_unit_test(no_tensors_at_all),
        cmocka_unit_test(earlier_tasks_come_first),
        cmocka_unit_test(an_orchestration_may_execute),
        cmocka_unit_test(execute_on_all_runtimes),
        cmocka_unit_test(devices_are_found_again),
        cmocka_unit_test(useless_devices_are_refused),
    };
    return cmocka_run_group_tests_name("execute", tests, create_to_add, destroy);
}
