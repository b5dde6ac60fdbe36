/* test_execute_fails.c - pto_execute when something fails: the orchestration, a task, any call
 * of the device, or the arguments. The outputs are unchanged, nothing leaks, and the runtime
 * still works. */
#include "executions.h"

/* So that a failed allocation also returns NULL under the sanitizers. */
const char *__asan_default_options(void);
const char *__tsan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}
const char *__tsan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static pto_kernel broken, inside;

static pto_status broken_fn(const pto_call *call)
{
    memset(call->args[0].data, 0x77, 1);
    return pto_fail(PTO_KERNEL_FAILED, "pivot 17 is zero");
}

/* The result of pto_execute inside a kernel. */
static pto_status inside_fn(const pto_call *call)
{
    *(pto_status *)call->user = pto_execute(call->rt, nothing, NULL, 0, NULL, 0, NULL);
    return PTO_OK;
}

static pto_status inside_says;

static int create_to_fail(void **state)
{
    return create_to_add(state) ||
           pto_kernel_register(runtime, "broken", PTO_VECTOR, broken_fn, NULL, &broken) ||
           pto_kernel_variant(runtime, broken, PTO_DEVICE_SIM, broken_fn, NULL) ||
           pto_kernel_register(runtime, "inside", PTO_VECTOR, inside_fn, &inside_says, &inside);
}

/* ---- It fails ------------------------------------------------------------------------------ */

typedef struct failing {
    pto_status status;
    bool says;       /* why */
    uint32_t scopes; /* left open; UINT32_MAX: one too many is ended */
    bool fails_task;
    bool cancels;
} failing;

static pto_status fail_somehow(pto_runtime *rt, const pto_tensor *inputs, const pto_tensor *outputs,
                               void *params)
{
    const failing *f = params;
    PTO_TRY(pto_submit(rt, slow_add, pto_input(&inputs[0]), pto_input(&inputs[0]),
                       pto_output(&outputs[0])));
    if (f->scopes == UINT32_MAX) {
        PTO_TRY(pto_scope_end(rt));
    }
    for (uint32_t i = 0; f->scopes != UINT32_MAX && i < f->scopes; i++) {
        PTO_TRY(pto_scope_begin_ex(rt, i % 2 ? PTO_SCOPE_BOUNDARY : 0));
        pto_tensor t;
        PTO_TRY(pto_temp(rt, PTO_INT32, 1, DIMS(3), &t));
        PTO_TRY(pto_submit(rt, slow_add, pto_input(&outputs[0]), pto_input(&inputs[0]),
                           pto_output(&t)));
    }
    if (f->fails_task) {
        PTO_TRY(pto_submit(rt, broken, pto_inout(&outputs[0])));
    }
    if (f->cancels) {
        pto_cancel(rt);
    }
    return f->says ? pto_fail(f->status, "the orchestration ran into 4711") : f->status;
}

/* Runs it on both threads and both kinds of device; the output is unchanged, nothing leaks, and the
 * runtime still works. */
static void expect_execute_fails(failing f, pto_status want, const char *word)
{
    for (int round = 0; round < 4; round++) {
        pto_execute_options options = on(round < 2 ? sim_place : (pto_device){0}, both[round % 2]);
        const uint64_t blocks = round == 1 ? sim_stats(sim_place).blocks : 0;
        int32_t a[] = {1, 2, 3}, c[6] = {4, 5, 6, 7, 8, 9};
        pto_tensor in = dense(a, PTO_INT32, 1, DIMS(3)), outs[2];
        outs[0] = dense(c, PTO_INT32, 1, DIMS(3));
        expect_ok(pto_tensor_init(&outs[1], c, sizeof c, PTO_INT32, 1, DIMS(2), DIMS(2), 3));
        if (f.scopes == UINT32_MAX) {
            expect_ok(pto_scope_begin(runtime));
        }
        if (want) {
            expect_fail(pto_execute_ex(runtime, fail_somehow, &in, 1, outs, 2, &f, &options), want,
                        word);
            assert_memory_equal(c, ((int32_t[]){4, 5, 6}), 3 * sizeof *c);
            /* Nothing has written the second output: it is copied as it is, or not at all. */
            assert_int_equal(c[4], 8);
        } else {
            expect_ok(pto_execute_ex(runtime, fail_somehow, &in, 1, outs, 2, &f, &options));
            assert_memory_equal(c, ((int32_t[]){2, 4, 6}), 3 * sizeof *c);
        }
        assert_int_equal(pto_get_scope_depth(runtime), 0);
        assert_true(round != 1 || sim_stats(sim_place).blocks == blocks); /* nothing leaks */
        if (f.fails_task || f.cancels) {
            pto_status again = f.fails_task ? PTO_TASK_FAILED : PTO_CANCELLED;
            assert_int_equal(pto_wait(runtime), again);
            int runs = 0;
            assert_int_equal(pto_execute(runtime, nothing, NULL, 0, NULL, 0, &runs), again);
            assert_int_equal(runs, 0);
            expect_ok(pto_clear_error(runtime));
        }
        expect_usable();
    }
}

static void a_failing_orchestration(void **state)
{
    (void)state;
    expect_execute_fails((failing){.status = PTO_BAD_INDEX, .says = true}, PTO_BAD_INDEX,
                         "the orchestration ran into 4711");
    expect_execute_fails((failing){.status = PTO_BAD_INDEX}, PTO_BAD_INDEX,
                         "the orchestration returned PTO_BAD_INDEX (44)");
    expect_execute_fails((failing){.status = PTO_PENDING}, PTO_PENDING, "PTO_PENDING");
    expect_execute_fails((failing){.status = (pto_status)9999}, (pto_status)9999, "9999");
    expect_execute_fails((failing){.status = PTO_BAD_INDEX, .says = true, .scopes = 5},
                         PTO_BAD_INDEX, "4711");
}

static void a_failing_task(void **state)
{
    (void)state;
    expect_execute_fails((failing){.fails_task = true}, PTO_TASK_FAILED, "pivot 17 is zero");
    expect_execute_fails((failing){.fails_task = true, .scopes = 3}, PTO_TASK_FAILED, "'broken'");
    /* Both: the error of the orchestration itself is reported. */
    expect_execute_fails((failing){.fails_task = true, .status = PTO_BAD_INDEX, .says = true},
                         PTO_BAD_INDEX, "4711");
}

static void a_cancel(void **state)
{
    (void)state;
    expect_execute_fails((failing){.cancels = true}, PTO_CANCELLED, "");
    expect_execute_fails((failing){.cancels = true, .scopes = 2}, PTO_CANCELLED, "");
}

static void scopes_left_open_are_ended(void **state)
{
    (void)state;
    expect_execute_fails((failing){.scopes = 1}, PTO_OK, "");
    expect_execute_fails((failing){.scopes = 6}, PTO_OK, "");
    expect_execute_fails((failing){.scopes = UINT32_MAX}, PTO_BAD_SCOPE, "1 were open, 0 are");
}

/* Each operation of the device fails in turn: every output is whole or as it was. */
static void every_operation_may_fail(void **state)
{
    (void)state;
    static const pto_sim_fault faults[] = {PTO_SIM_FAIL_ALLOC, PTO_SIM_FAIL_COPY,
                                           PTO_SIM_FAIL_KERNEL, PTO_SIM_FAIL_LOST};
    const pto_device place = {PTO_DEVICE_SIM, 2};
    uint64_t failed[4] = {0};
    for (int round = 0; round < 8; round++) {
        const pto_sim_fault fault = faults[round / 2];
        bool done = false;
        for (uint64_t at = 1; !done; at++) {
            pto_execute_options options = on(place, both[round % 2]);
            int32_t a[6] = {1, 2, 3, 4, 5, 6}, c[3] = {-1, -1, -1}, d[6] = {-1, -1, -1, -1, -1, -1};
            pto_tensor in[3], outs[3];
            size_t pairs = 3;
            in[0] = dense(a, PTO_INT32, 1, DIMS(3));
            outs[0] = dense(c, PTO_INT32, 1, DIMS(3));
            expect_ok(pto_tensor_init(&in[1], a, sizeof a, PTO_INT32, 1, DIMS(3), DIMS(2), 0));
            in[2] = dense(NULL, PTO_INT32, 1, DIMS(0));
            expect_ok(pto_tensor_init(&outs[1], d, sizeof d, PTO_INT32, 1, DIMS(3), DIMS(-2), 4));
            outs[2] = in[2];
            expect_ok(pto_sim_fail(place.index, fault, at));
            pto_status s = pto_execute_ex(runtime, copy_all, in, pairs, outs, pairs, &pairs,
                                          &options);
            expect_ok(pto_sim_repair(place.index));
            done = s == PTO_OK;
            const bool whole_c = !memcmp(c, a, sizeof c), whole_d = d[4] == 1;
            assert_true(whole_c || c[0] + c[1] + c[2] == -3);
            assert_memory_equal(d,
                                whole_d ? ((int32_t[]){5, -1, 3, -1, 1, -1})
                                        : ((int32_t[]){-1, -1, -1, -1, -1, -1}),
                                sizeof d);
            if (done) {
                assert_true(whole_c && whole_d);
                continue;
            }
            failed[round / 2]++;
            assert_non_null(strstr(pto_error_detail(), "sim:2"));
            pto_refused(runtime, NULL);
            PTO_IGNORE(pto_clear_error(runtime));
            expect_usable();
            /* Cached memory would hide the next allocation. */
            expect_ok(pto_runtime_destroy(&runtime, PTO_WAIT));
            assert_int_equal(create_to_fail(state), 0);
        }
        expect_ok(pto_runtime_destroy(&runtime, PTO_WAIT));
        assert_int_equal(create_to_fail(state), 0);
        assert_int_equal(sim_stats(place).blocks, 0);
    }
    assert_int_equal(failed[0], 2 * 4);           /* allocations */
    assert_int_equal(failed[1], 2 * (2 + 2 + 2)); /* copies: in, of the program, out */
    assert_int_equal(failed[2], 2 * 7);           /* requests begin like kernels */
    assert_int_equal(failed[3], 2 * (4 + 6 + 7)); /* each of these */
}

static void memory_that_cannot_be_had(void **state)
{
    (void)state;
    int32_t one = 1;
    size_t pairs = 1;
    pto_tensor small = dense(&one, PTO_INT32, 1, DIMS(1)), huge;
    pto_execute_options options = on(sim_place, PTO_ON_CALLER);
    /* One element, 2^60 times. */
    expect_ok(
        pto_tensor_init(&huge, &one, sizeof one, PTO_INT32, 1, DIMS(INT64_C(1) << 60), DIMS(0), 0));
    pto_tensor in[] = {small, huge};
    expect_fail(pto_execute_ex(runtime, copy_all, in, 2, &small, 1, &pairs, &options),
                PTO_OUT_OF_MEMORY, "alloc of sim:0 for input 1", "4611686018427387904 bytes");
    expect_fail(pto_execute(runtime, copy_all, in, 2, &small, 1, &pairs), PTO_OUT_OF_MEMORY,
                "alloc of cpu:0 for input 1", "4611686018427387904 bytes");
    expect_usable();
}

/* ---- Refused ------------------------------------------------------------------------------- */

static void *execute_elsewhere(void *context)
{
    *(pto_status *)context = pto_execute(runtime, nothing, NULL, 0, NULL, 0, NULL);
    return NULL;
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    int32_t data[4] = {0};
    int runs = 0;
    pto_execute_options options = on(sim_place, PTO_ON_CALLER);
    pto_tensor t = dense(data, PTO_INT32, 1, DIMS(4)), bad = t, two[] = {t, t};
    expect_fail(pto_execute(NULL, nothing, NULL, 0, NULL, 0, NULL), PTO_NULL_ARGUMENT, "rt");
    expect_fail(pto_execute(runtime, NULL, NULL, 0, NULL, 0, NULL), PTO_NULL_ARGUMENT,
                "orchestration");
    expect_fail(pto_execute(runtime, nothing, NULL, 1, NULL, 0, NULL), PTO_NULL_ARGUMENT, "inputs");
    expect_fail(pto_execute(runtime, nothing, NULL, 0, NULL, 1, NULL), PTO_NULL_ARGUMENT,
                "outputs");
    expect_fail(pto_execute(runtime, nothing, &t, SIZE_MAX, &t, 1, &runs), PTO_OVERFLOW,
                "1 outputs");
    expect_fail(pto_execute(runtime, nothing, &t, 1, &t, SIZE_MAX, &runs), PTO_OVERFLOW,
                "1 inputs");

    options.size--;
    expect_fail(pto_execute_ex(runtime, nothing, &t, 1, &t, 1, &runs, &options), PTO_BAD_CONFIG,
                "size");
    options.size++;
    options.orchestrator = (pto_orchestrator)2;
    expect_fail(pto_execute_ex(runtime, nothing, &t, 1, &t, 1, &runs, &options), PTO_BAD_CONFIG,
                "orchestrator 2");
    options = on((pto_device){PTO_DEVICE_KUNLUN, 3}, PTO_ON_CALLER);
    expect_fail(pto_execute_ex(runtime, nothing, &t, 1, &t, 1, &runs, &options), PTO_BAD_DEVICE,
                "kunlun:3");

    options = on(sim_place, PTO_ON_CALLER);
    bad.dtype = (pto_dtype)77;
    two[1] = bad;
    expect_fail(pto_execute_ex(runtime, nothing, two, 2, &t, 1, &runs, &options), PTO_BAD_DTYPE,
                "input 1", "77");
    expect_fail(pto_execute_ex(runtime, nothing, &t, 1, &bad, 1, &runs, &options), PTO_BAD_DTYPE,
                "output 0", "77");
    bad = t;
    bad.device = sim_place;
    expect_fail(pto_execute_ex(runtime, nothing, &t, 1, &bad, 1, &runs, &options), PTO_BAD_DEVICE,
                "output 0", "sim:0");
    PTO_SCOPE(runtime) {
        expect_ok(pto_temp(runtime, PTO_INT32, 1, DIMS(4), &bad));
        expect_fail(pto_execute_ex(runtime, nothing, &bad, 1, &t, 1, &runs, &options),
                    PTO_BAD_PARAM, "input 0", "managed");
        pto_work work = fill_work(&bad, 1);
        void *address = NULL;
        expect_ok(pto_submit_work(runtime, &work, NULL));
        expect_ok(pto_get_buffer_addr(runtime, &bad, &address));
        bad = dense(address, PTO_INT32, 1, DIMS(4));
        expect_fail(pto_execute_ex(runtime, nothing, &t, 1, &bad, 1, &runs, &options),
                    PTO_BAD_MEMORY, "execute");
    }

    pthread_t thread;
    pto_status status = PTO_OK;
    assert_int_equal(pthread_create(&thread, NULL, execute_elsewhere, &status), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(status, PTO_WRONG_THREAD);
    expect_ok(pto_submit(runtime, inside, pto_inout(&t)));
    expect_ok(pto_wait(runtime));
    assert_int_equal(inside_says, PTO_WRONG_THREAD);

    assert_int_equal(runs, 0);
    expect_usable();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failing_orchestration),
        cmocka_unit_test(a_failing_task),
        cmocka_unit_test(a_cancel),
        cmocka_unit_test(scopes_left_open_are_ended),
        cmocka_unit_test(every_operation_may_fail),
        cmocka_unit_test(memory_that_cannot_be_had),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests_name("execute_fails", tests, create_to_fail, destroy);
}
