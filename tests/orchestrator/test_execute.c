/* test_execute.c - an orchestration on host data: its inputs and outputs, on several devices. */
#include "executions.h"

#include "fake_device.h"

/* ---- It works ------------------------------------------------------------------------------ */

static void a_sum_on_either_thread(void **state)
{
    (void)state;
    const pto_sim_stats before = sim_stats(sim_place);
    for (int round = 0; round < 4; round++) {
        pto_orchestrator where = both[round % 2];
        pto_execute_options options = on(round < 2 ? (pto_device){PTO_DEVICE_CPU, 0} : sim_place,
                                         where);
        int32_t a[] = {1, 2, 3}, b[] = {10, 20, 30}, c[3] = {0};
        pto_tensor in[] = {dense(a, PTO_INT32, 1, DIMS(3)), dense(b, PTO_INT32, 1, DIMS(3))},
                   out = dense(c, PTO_INT32, 1, DIMS(3));
        pthread_t thread = pthread_self();
        expect_ok(pto_execute_ex(runtime, sum, in, 2, &out, 1, &thread, &options));
        assert_memory_equal(c, ((int32_t[]){12, 24, 36}), sizeof c);
        assert_int_equal(pthread_equal(thread, pthread_self()) != 0, where == PTO_ON_CALLER);
        expect_usable(); /* the runtime is the caller's again */
    }
    const pto_sim_stats after = sim_stats(sim_place);
    assert_int_equal(after.copies - before.copies, 6);
    assert_int_equal(after.bytes - before.bytes, 6 * 12);
    /* Three blocks, kept for the next call; and the heap of the orchestration's temporary. */
    assert_int_equal(after.blocks - before.blocks, 4);
}

/* The orchestration gets dense tensors in device memory only. */
static pto_status look_around(pto_runtime *rt, const pto_tensor *inputs, const pto_tensor *outputs,
                              void *params)
{
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
    (void)params;
    CHECK(rt == runtime);
    for (int i = 0; i < 4; i++) {
        PTO_TRY(pto_tensor_check(all[i]));
        CHECK(all[i]->dtype == want[i].dtype && all[i]->ndim == want[i].ndim);
        CHECK(!memcmp(all[i]->shape, want[i].shape, sizeof want[i].shape));
        CHECK(!memcmp(all[i]->strides, want[i].strides, sizeof want[i].strides));
        CHECK(all[i]->device.type == sim_place.type && all[i]->device.index == sim_place.index);
        CHECK(all[i]->offset == 0 && all[i]->owner == 0);
    }
    CHECK(!outputs[1].storage);
    int32_t six[6], one;
    PTO_TRY(pto_read(rt, &inputs[0], six, sizeof six)); /* waits for the copy */
    PTO_TRY(pto_read(rt, &inputs[1], &one, sizeof one));
    CHECK(!memcmp(six, (int32_t[]){0, 2, 4, 6, 8, 10}, 24));
    CHECK(one == 11);
    const int8_t fives[] = {5, 5, 5, 5, 5, 5, 5, 5};
    PTO_TRY(pto_write(rt, &outputs[0], fives, sizeof fives)); /* also an orchestration may write */
    pto_tensor temporary;
    PTO_SCOPE(rt) {
        PTO_TRY(pto_temp(rt, PTO_INT8, 1, DIMS(3), &temporary)); /* is there, too */
        CHECK(temporary.device.type == sim_place.type);
    }
    return PTO_OK;
}

static void the_orchestration_sees_device_tensors(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        pto_execute_options options = on(sim_place, both[round]);
        int32_t data[12];
        char out[9] = {0};
        for (int i = 0; i < 12; i++) {
            data[i] = i;
        }
        pto_tensor in[2], outs[2], temporary;
        expect_ok(
            pto_tensor_init(&in[0], data, sizeof data, PTO_INT32, 2, DIMS(2, 3), DIMS(6, 2), 0));
        expect_ok(pto_tensor_init(&in[1], data, sizeof data, PTO_INT32, 0, NULL, NULL, 11));
        expect_ok(pto_tensor_init(&outs[0], out, sizeof out, PTO_INT8, 3, DIMS(4, 1, 2), NULL, 0));
        expect_ok(pto_tensor_init(&outs[1], out, sizeof out, PTO_INT8, 2, DIMS(5, 0), NULL, 0));
        expect_ok(pto_execute_ex(runtime, look_around, in, 2, outs, 2, NULL, &options));
        assert_memory_equal(out, ((char[]){5, 5, 5, 5, 5, 5, 5, 5, 0}), sizeof out);
        PTO_SCOPE(runtime) { /* the default device is the host again */
            expect_ok(pto_temp(runtime, PTO_INT8, 1, DIMS(3), &temporary));
            assert_int_equal(temporary.device.type, PTO_DEVICE_CPU);
        }
    }
}

/* Blocks of the device are kept from call to call, and freed with the runtime. */
static void device_memory_is_kept(void **state)
{
    (void)state;
    int32_t a[] = {1, 2, 3}, b[] = {10, 20, 30}, c[3];
    pto_tensor in[] = {dense(a, PTO_INT32, 1, DIMS(3)), dense(b, PTO_INT32, 1, DIMS(3))},
               out = dense(c, PTO_INT32, 1, DIMS(3));
    pto_execute_options options = on((pto_device){PTO_DEVICE_SIM, 3}, PTO_ON_CALLER);
    uint64_t used = 0;
    for (int i = 0; i < 20; i++) {
        memset(c, 0, sizeof c);
        expect_ok(pto_execute_ex(runtime, sum, in, 2, &out, 1, NULL, &options));
        assert_memory_equal(c, ((int32_t[]){12, 24, 36}), sizeof c);
        const uint64_t now = sim_stats(options.device).used;
        assert_true(i == 0 || now == used);
        used = now;
    }
    expect_ok(pto_runtime_destroy(&runtime, PTO_WAIT));
    assert_int_equal(sim_stats(options.device).used, 0);
    assert_int_equal(create_to_add(state), 0);
}

/* Any strides on both sides, many tensors, on a device and on the host. */
static void strided_tensors_of_all_kinds(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    pto_execute_options options = on(sim_place, PTO_ON_CALLER);
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
        options.device = test_chance(&rng, 30) ? (pto_device){PTO_DEVICE_CPU, 0} : sim_place;
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

/* Sums on another device. */
static pto_status sum_inside(pto_runtime *rt, const pto_tensor *inputs, const pto_tensor *outputs,
                             void *params)
{
    int32_t a[3], b[] = {100, 100, 100}, c[3] = {0};
    pto_tensor in[] = {dense(a, PTO_INT32, 1, DIMS(3)), dense(b, PTO_INT32, 1, DIMS(3))},
               out = dense(c, PTO_INT32, 1, DIMS(3)), temporary;
    PTO_TRY(pto_read(rt, &inputs[0], a, sizeof a));
    PTO_TRY(pto_scope_begin(rt));
    PTO_TRY(pto_execute_ex(rt, sum, in, 2, &out, 1, NULL, params));
    CHECK(pto_get_scope_depth(rt) == 1);
    PTO_TRY(pto_temp(rt, PTO_INT32, 1, DIMS(3), &temporary));
    CHECK(temporary.device.index ==
          sim_place.index); /* the default device is the outer one again */
    PTO_TRY(pto_write(rt, &outputs[0], c, sizeof c));
    return PTO_OK; /* with a scope open */
}

static void an_orchestration_may_execute(void **state)
{
    (void)state;
    for (int round = 0; round < 4; round++) {
        pto_execute_options options = on(sim_place, both[round % 2]),
                            inner = on(inner_place, both[round / 2]);
        int32_t a[] = {1, 2, 3}, c[3] = {0};
        pto_tensor in = dense(a, PTO_INT32, 1, DIMS(3)), out = dense(c, PTO_INT32, 1, DIMS(3));
        expect_ok(pto_execute_ex(runtime, sum_inside, &in, 1, &out, 1, &inner, &options));
        assert_memory_equal(c, ((int32_t[]){102, 104, 106}), sizeof c);
        expect_usable();
    }
}

static pto_status leave_a_scope_open(pto_runtime *rt, const pto_tensor *inputs,
                                     const pto_tensor *outputs, void *params)
{
    (void)inputs;
    (void)outputs;
    PTO_TRY(pto_scope_begin(rt));
    return pto_temp(rt, PTO_INT32, 1, DIMS(3), params);
}

/* Its end has no line of the program, so none is named. */
static void a_scope_that_was_left_open_ends(void **state)
{
    (void)state;
    pto_tensor t;
    expect_ok(pto_execute(runtime, leave_a_scope_open, NULL, 0, NULL, 0, &t));
    expect_fail(pto_release(runtime, &t), PTO_STALE, "its scope has ended");
    assert_null(strstr(pto_error_detail(), " at "));
}

static void execute_on_all_runtimes(void **state)
{
    on_all_runtimes(create_to_add, a_sum_on_either_thread, state);
    on_all_runtimes(create_to_add, an_orchestration_may_execute, state);
    on_all_runtimes(create_to_add, a_scope_that_was_left_open_ends, state);
}

/* ---- A device that only copies dense bytes --------------------------------------------------- */

static void strides_without_a_copy_function(void **state)
{
    (void)state;
    static fake_device fake = {.late = true};
    const pto_device ascend = {PTO_DEVICE_ASCEND, 1};
    pto_device_ops ops = fake_ops(&fake);
    expect_ok(pto_device_add(ascend, &ops));
    pto_execute_options options = on(ascend, PTO_ON_CALLER);
    int32_t a[12], b[3] = {10, 20, 30}, c[6] = {0};
    for (int i = 0; i < 12; i++) {
        a[i] = i;
    }
    pto_tensor in[2], out;
    expect_ok(pto_tensor_init(&in[0], a, sizeof a, PTO_INT32, 1, DIMS(3), DIMS(-4), 11));
    in[1] = dense(b, PTO_INT32, 1, DIMS(3));
    expect_ok(pto_tensor_init(&out, c, sizeof c, PTO_INT32, 1, DIMS(3), DIMS(2), 1));
    expect_ok(pto_execute_ex(runtime, sum, in, 2, &out, 1, NULL, &options));
    assert_memory_equal(c, ((int32_t[]){0, 32, 0, 34, 0, 36}), sizeof c);
    /* Strided on the device, and back. */
    PTO_SCOPE(runtime) {
        pto_tensor there, every, other;
        int32_t back[6] = {0};
        expect_ok(pto_alloc_on(runtime, ascend, PTO_INT32, 1, DIMS(6), &there));
        expect_ok(pto_write(runtime, &there, a, 24));
        expect_ok(pto_tensor_slice(&there, 0, 0, 6, 2, &every));
        expect_ok(pto_copy(runtime, &every, &in[1]));
        expect_ok(pto_read(runtime, &there, back, sizeof back));
        assert_memory_equal(back, ((int32_t[]){10, 1, 20, 3, 30, 5}), sizeof back);
        /* To a device of another type: through the host. */
        expect_ok(pto_temp_on(runtime, sim_place, PTO_INT32, 1, DIMS(3), &other));
        expect_ok(pto_copy(runtime, &other, &every));
        expect_ok(
            pto_submit(runtime, slow_add, pto_input(&other), pto_input(&other), pto_inout(&other)));
        expect_ok(pto_copy(runtime, &every, &other));
        expect_ok(pto_read(runtime, &there, back, sizeof back));
        assert_memory_equal(back, ((int32_t[]){20, 1, 40, 3, 60, 5}), sizeof back);
    }
    assert_int_equal(fake.n_copies, 0);
    assert_true(fake.synchronizes > 0);
}

static void useless_devices_are_refused(void **state)
{
    (void)state;
    static fake_device fake;
    pto_device_ops ops = fake_ops(&fake), wrong = ops;
    static const char *const lacks[] = {"copy_in", "copy_out", "alloc"};
    pto_execute_options incomplete = on((pto_device){PTO_DEVICE_QY, 1}, PTO_ON_CALLER);
    expect_fail(pto_execute_ex(runtime, nothing, NULL, 0, NULL, 0, NULL, &incomplete),
                PTO_BAD_DEVICE, "qy:1");
    for (int i = 0; i < 3; i++) { /* operators can use such a device, a runtime cannot */
        wrong = ops;
        wrong.copy_in = i == 0 ? NULL : wrong.copy_in;
        wrong.copy_out = i == 1 ? NULL : wrong.copy_out;
        if (i == 2) {
            wrong.alloc = NULL;
            wrong.free = NULL;
        }
        expect_ok(pto_device_add(incomplete.device, &wrong));
        expect_fail(pto_execute_ex(runtime, nothing, NULL, 0, NULL, 0, NULL, &incomplete),
                    PTO_BAD_DEVICE, "qy:1", lacks[i]);
    }
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
        cmocka_unit_test(device_memory_is_kept),
        cmocka_unit_test(strides_without_a_copy_function),
        cmocka_unit_test(useless_devices_are_refused),
    };
    return cmocka_run_group_tests_name("execute", tests, create_to_add, destroy);
}
