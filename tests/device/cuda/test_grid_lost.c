/* test_grid_lost.c - place gpu: a kernel makes an illegal access. The context of the process is gone after
 * it, so this is a program of its own. */
#include <string.h>

#include <pto/gpu.h>

#include "gpu.h"
#include "grid_kernels.h"

static void lost(void **state)
{
    (void)state;
    NEED_GPU();
    pto_config config = PTO_CONFIG_INIT;
    pto_runtime *rt;
    pto_kernel set, wild;
    pto_tensor x, y;
    pto_failure failure;
    bool failed;
    config.place = PTO_PLACE_GPU;
    config.device = gpu;
    config.gpu_module = grid_module_load("grid_module");
    expect_ok(pto_runtime_create(&rt, &config));
    expect_ok(pto_gpu_kernel(rt, "grid_set", PTO_VECTOR, &set));
    expect_ok(pto_gpu_kernel(rt, "grid_wild", PTO_VECTOR, &wild));
    expect_ok(pto_tensor_empty(gpu, PTO_FLOAT32, 1, (int64_t[]){64}, &x));
    expect_ok(pto_tensor_empty(gpu, PTO_FLOAT32, 1, (int64_t[]){64}, &y));
    expect_ok(pto_submit(rt, set, pto_output(&y), pto_scalar(1)));
    expect_ok(pto_wait(rt));
    expect_ok(pto_submit(rt, wild, pto_output(&x)));
    char where[64];
    snprintf(where, sizeof where, "test_grid_lost.c:%d", __LINE__ - 2);
    assert_int_equal(pto_wait(rt), PTO_TASK_FAILED);
    expect_ok(pto_get_failure(rt, &failed, &failure));
    print_message("%s\n", failure.message);
    assert_true(failed);
    assert_int_equal(failure.status, PTO_DEVICE_LOST);
    assert_non_null(strstr(failure.message, "illegal memory access"));
    assert_non_null(strstr(failure.message, "'grid_wild'")); /* what ran then */
    assert_non_null(strstr(failure.message, where));

    /* Later tasks fail, too, and the runtime closes. */
    expect_ok(pto_clear_error(rt));
    expect_ok(pto_submit(rt, set, pto_output(&y), pto_scalar(1)));
    assert_int_equal(pto_wait(rt), PTO_TASK_FAILED);
    expect_ok(pto_clear_error(rt));
    expect_ok(pto_runtime_destroy(&rt, PTO_WAIT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lost)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
