/* test_gpu_tasks_lost.c - a task makes an illegal access on the GPU. The context of the process is gone
 * after it, so this is a program of its own. */
#include "../launches.h"

#include "gpu.h"
#include "kernels.h"

enum { TASKS = 40 };

static void lost(void **state)
{
    (void)state;
    NEED_GPU();
    const gpu_kernels *kernels = gpu_kernels_load("libpto-gpu-kernels.so");
    pto_runtime *rt;
    pto_kernel good, wild;
    pto_tensor t[TASKS];
    pto_failure failure;
    bool failed;
    launch_must(pto_runtime_create(&rt, NULL));
    launch_must(pto_kernel_register(rt, "good", PTO_VECTOR, launch_on_host, NULL, &good));
    launch_must(pto_kernel_variant(rt, good, PTO_DEVICE_NVIDIA, kernels->nothing, NULL));
    launch_must(pto_kernel_register(rt, "wild", PTO_VECTOR, launch_on_host, NULL, &wild));
    launch_must(pto_kernel_variant(rt, wild, PTO_DEVICE_NVIDIA, kernels->wild, NULL));
    for (int i = 0; i < TASKS; i++) {
        launch_must(pto_tensor_empty(gpu, PTO_UINT64, 1, (int64_t[]){16}, &t[i]));
        launch_must(pto_submit(rt, good, pto_output(&t[i])));
    }
    launch_must(pto_wait(rt)); /* none of these is a suspect */

    launch_must(pto_submit(rt, wild, pto_inout(&t[0])));
    char where[64];
    snprintf(where, sizeof where, "test_gpu_tasks_lost.c:%d", __LINE__ - 2);
    for (int i = 0; i < TASKS; i++) { /* some follow it, others are independent of it */
        launch_must(pto_submit(rt, good, pto_input(&t[i / 2]), pto_output(&t[i])));
    }
    assert_int_equal(pto_wait(rt), PTO_TASK_FAILED);
    launch_must(pto_get_failure(rt, &failed, &failure));
    if (!failed || failure.status != PTO_DEVICE_LOST || strcmp(failure.kernel, "wild") != 0 ||
        !strstr(failure.message, "illegal memory access") ||
        !strstr(failure.message, "first suspect") || !strstr(failure.message, "'wild'") ||
        !strstr(failure.message, where)) {
        fail_msg("%s, %s: %s", failure.kernel, pto_status_name(failure.status), failure.message);
    }
    print_message("%s\n", failure.message);

    /* Every task after it fails, too, and says why. */
    launch_must(pto_clear_error(rt));
    launch_must(pto_submit(rt, good, pto_output(&t[5])));
    assert_int_equal(pto_wait(rt), PTO_TASK_FAILED);
    launch_must(pto_get_failure(rt, &failed, &failure));
    assert_int_equal(failure.status, PTO_DEVICE_LOST);
    assert_non_null(strstr(failure.message, "'wild'"));
    launch_must(pto_clear_error(rt));

    /* The host goes on, and the runtime closes. */
    uint64_t here[4] = {0};
    pto_tensor host;
    launch_must(pto_external_tensor(rt, here, PTO_UINT64, 1, (int64_t[]){4}, &host));
    launch_must(pto_submit(rt, good, pto_scalar(UINT64_C(1)), pto_scalar(UINT64_C(0)),
                           pto_scalar(UINT64_C(0)), pto_output(&host)));
    launch_must(pto_wait(rt));
    assert_true(here[3] != 0);
    launch_must(pto_runtime_destroy(&rt, PTO_WAIT));
    for (int i = 0; i < TASKS; i++) {
        PTO_IGNORE(pto_tensor_free(&t[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lost)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
