/* test_elsewhere.c - Rearrange and fill on a device without kernels for them: its copy and fill
 * functions do the work. Memory of the simulated device cannot be touched by the host, so a test that
 * ends has not done so. */
#include "requests.h"

#include <pto/rearrange.h>
#include <pto/sim.h>

static const pto_device sim5 = {PTO_DEVICE_SIM, 5};

enum { ROWS = 6, COLUMNS = 10, N = ROWS * COLUMNS };

static pto_status nothing(const pto_call *call)
{
    (void)call;
    return PTO_OK;
}

static pto_tensor on_device(pto_dtype dtype, int64_t rows, int64_t columns)
{
    pto_tensor t;
    expect_ok(pto_tensor_empty(sim5, dtype, 2, DIMS(rows, columns), &t));
    return t;
}

static pto_device_ops ops_of(pto_device device)
{
    pto_device_ops ops = {0};
    expect_ok(pto_device_get(device, &ops));
    return ops;
}

static void put(const pto_tensor *t, const int32_t *data)
{
    const pto_device_ops ops = ops_of(sim5);
    expect_ok(ops.copy_in(ops.self, t->storage, data, N * sizeof *data));
}

static void expect_there(const pto_tensor *t, const int32_t *want)
{
    int32_t data[N];
    const pto_device_ops ops = ops_of(sim5);
    expect_ok(ops.copy_out(ops.self, data, t->storage, sizeof data));
    assert_memory_equal(data, want, sizeof data);
}

static int repair(void **state)
{
    expect_ok(pto_sim_repair(5));
    expect_ok(pto_sim_configure(
        5, &(pto_sim_config){.size = sizeof(pto_sim_config), .latency_ns = PTO_SIM_NO_LIMIT}));
    return runtime ? destroy(state) : 0;
}

/* Without a task they are complete when the function returns. */
static void they_wait_for_the_device(void **state)
{
    (void)state;
    int32_t data[N], turned[N], filled[N];
    for (int32_t i = 0; i < N; i++) {
        data[i] = i;
        turned[i % COLUMNS * ROWS + i / COLUMNS] = i;
        filled[i] = i % COLUMNS % 2 ? i : -3;
    }
    pto_tensor a = on_device(PTO_INT32, ROWS, COLUMNS), b = on_device(PTO_INT32, COLUMNS, ROWS);
    pto_tensor flipped, even, made;
    put(&a, data);
    expect_ok(pto_tensor_transpose(&a, 0, 1, &flipped));
    expect_ok(pto_rearrange(&b, &flipped));
    expect_there(&b, turned);
    expect_ok(pto_rearrange_new(&flipped, &made)); /* allocated there */
    assert_int_equal(made.device.type, PTO_DEVICE_SIM);
    expect_there(&made, turned);
    pto_rearrange_free(&made);
    expect_ok(pto_tensor_slice(&a, 1, 0, COLUMNS, 2, &even));
    expect_ok(pto_fill(&even, -3));
    expect_there(&a, filled);
    expect_ok(pto_rearrange(&a, &a)); /* the same place */
    pto_tensor left, right;
    expect_ok(pto_tensor_slice(&a, 0, 0, 4, 1, &left));
    expect_ok(pto_tensor_slice(&a, 0, 2, 6, 1, &right));
    expect_fail(pto_rearrange(&left, &right), PTO_OVERLAP, "rearrange");
    expect_fail(pto_rearrange(&a, &b), PTO_BAD_SHAPE, "[10, 6]", "[6, 10]");
    expect_fail(pto_fill(&a, 1e30), PTO_BAD_PARAM, "int32");
    pto_tensor host = dense(data, PTO_INT32, 2, DIMS(ROWS, COLUMNS));
    expect_fail(pto_rearrange(&a, &host), PTO_DEVICES_DIFFER, "sim:5", "cpu:0");
    expect_fail(pto_op_run(pto_rearrange_op(), &a, 1, &host, 1, NULL), PTO_DEVICES_DIFFER,
                "rearrange", "sim:5", "cpu:0", "test_elsewhere.c:");
    pto_tensor nowhere = a;
    nowhere.storage = NULL;
    nowhere.owner = 1;
    expect_fail(pto_rearrange(&a, &nowhere), PTO_NULL_ARGUMENT, "src");
    expect_fail(pto_fill(&nowhere, 1), PTO_NULL_ARGUMENT, "fill");
    expect_ok(pto_sim_fail(5, PTO_SIM_FAIL_COPY, 1));
    expect_fail(pto_rearrange(&b, &flipped), PTO_SYSTEM, "sim:5");
    expect_ok(pto_sim_fail(5, PTO_SIM_FAIL_COPY, 1));
    expect_fail(pto_fill(&even, 4), PTO_SYSTEM, "sim:5");
    expect_there(&a, filled);
    expect_ok(pto_tensor_free(&a));
    expect_ok(pto_tensor_free(&b));
}

/* As tasks they are pending: the only VECTOR worker of the device runs a kernel meanwhile. */
static void tasks_are_pending(void **state)
{
    (void)state;
    int32_t data[N], turned[N];
    const double value = 7;
    pto_kernel kernel;
    pto_tensor a = on_device(PTO_INT32, ROWS, COLUMNS), b = on_device(PTO_INT32, COLUMNS, ROWS),
               c = on_device(PTO_INT32, ROWS, COLUMNS), flipped;
    for (int32_t i = 0; i < N; i++) {
        data[i] = i;
        turned[i % COLUMNS * ROWS + i / COLUMNS] = i;
    }
    put(&a, data);
    expect_ok(pto_kernel_register(runtime, "nothing", PTO_VECTOR, nothing, NULL, &kernel));
    expect_ok(pto_kernel_variant(runtime, kernel, PTO_DEVICE_SIM, nothing, NULL));
    expect_ok(pto_tensor_transpose(&a, 0, 1, &flipped));
    pto_task_report report = {.state = PTO_TASK_COMPLETED};
    /* A busy machine may need longer for the kernel than for a copy: then once more, with a longer one. */
    for (uint64_t ms = 300; report.state != PTO_TASK_RUNNING && ms < 60000; ms *= 4) {
        const pto_sim_config slow = {.size = sizeof slow, .latency_ns = ms * 1000000};
        pto_task copies, runs;
        expect_ok(pto_wait(runtime));
        expect_ok(pto_sim_configure(5, &slow));
        expect_ok(pto_submit_op(runtime, pto_rearrange_op(), &b, 1, &flipped, 1, NULL, 0, &copies));
        expect_ok(
            pto_submit_task(runtime, kernel, PTO_VECTOR, (pto_param[]){pto_inout(&c)}, 1, &runs));
        expect_ok(pto_wait_task(runtime, runs));
        expect_ok(pto_task_info(runtime, copies, &report));
    }
    assert_int_equal(report.state, PTO_TASK_RUNNING);
    expect_ok(pto_sim_configure(
        5, &(pto_sim_config){.size = sizeof(pto_sim_config), .latency_ns = PTO_SIM_NO_LIMIT}));
    expect_ok(pto_submit_op(runtime, pto_fill_op(), &a, 1, NULL, 0, &value, sizeof value, NULL));
    expect_ok(pto_wait(runtime)); /* the fill came after the copy has read */
    expect_there(&b, turned);
    for (int32_t i = 0; i < N; i++) {
        data[i] = 7;
    }
    expect_there(&a, data);
    expect_ok(pto_submit_rearrange(runtime, &c, &a, PTO_ACCELERATOR));
    expect_ok(pto_wait(runtime));
    expect_there(&c, data);
    expect_ok(pto_sim_fail(5, PTO_SIM_FAIL_COPY, 1));
    expect_ok(pto_submit_rearrange(runtime, &b, &flipped, PTO_VECTOR));
    expect_fail(pto_wait(runtime), PTO_TASK_FAILED, "sim:5", "test_elsewhere.c");
    expect_ok(pto_clear_error(runtime));
    expect_ok(pto_tensor_free(&a));
    expect_ok(pto_tensor_free(&b));
    expect_ok(pto_tensor_free(&c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(they_wait_for_the_device, repair),
        cmocka_unit_test_setup_teardown(tasks_are_pending, create, repair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
