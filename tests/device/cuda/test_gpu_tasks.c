/* test_gpu_tasks.c - tasks on an NVIDIA GPU: random programs against a serial run, operators, and the
 * errors after which the device goes on. */
#include "../launches.h"

#include <pto/op.h>

#include "gpu.h"
#include "kernels.h"

static const gpu_kernels *kernels;

#define NEED_KERNELS()                                                                             \
    do {                                                                                           \
        NEED_GPU();                                                                                \
        kernels = gpu_kernels_load("libpto-gpu-kernels.so");                                       \
    } while (0)

static void random_programs(void **state)
{
    (void)state;
    NEED_KERNELS();
    const uint64_t one = test_env("PTO_TEST_PROGRAM", UINT64_MAX);
    for (uint64_t i = 0, count = test_effort(200); i < count; i++) {
        launch_run(one != UINT64_MAX ? one : (test_seed() << 32) + i, gpu, kernels->mix, true);
    }
}

/* ---- One runtime ---- */

typedef struct rig {
    pto_runtime *rt;
    pto_tensor t[4];
} rig;

enum { N = 1024 };

static rig rig_make(void)
{
    rig r = {0};
    launch_must(pto_runtime_create(&r.rt, NULL));
    for (int i = 0; i < 4; i++) {
        launch_must(pto_tensor_empty(gpu, PTO_FLOAT32, 2, (int64_t[]){N, N}, &r.t[i]));
    }
    return r;
}

static pto_kernel rig_kernel(rig *r, const char *name, pto_kernel_fn fn)
{
    pto_kernel kernel;
    launch_must(pto_kernel_register(r->rt, name, PTO_VECTOR, launch_on_host, NULL, &kernel));
    launch_must(pto_kernel_variant(r->rt, kernel, PTO_DEVICE_NVIDIA, fn, NULL));
    return kernel;
}

static void rig_end(rig *r)
{
    PTO_IGNORE(pto_clear_error(r->rt));
    launch_must(pto_runtime_destroy(&r->rt, PTO_WAIT));
    for (int i = 0; i < 4; i++) {
        launch_must(pto_tensor_free(&r->t[i]));
    }
}

/* fill, transpose, add a row, copy to the host and on the device: all as tasks, in this order. */
static void operators(void **state)
{
    (void)state;
    NEED_KERNELS();
    rig r = rig_make();
    static float row[N], back[N][N];
    const double two = 2;
    pto_tensor first, host, turned;
    for (int i = 0; i < N; i++) {
        row[i] = (float)i;
    }
    launch_must(pto_external_tensor(r.rt, row, PTO_FLOAT32, 1, (int64_t[]){N}, &host));
    launch_must(pto_submit_op(r.rt, pto_fill_op(), &r.t[0], 1, NULL, 0, &two, sizeof two, NULL));
    launch_must(pto_tensor_select(&r.t[0], 0, 3, &first));
    launch_must(pto_copy(r.rt, &first, &host));
    launch_must(pto_tensor_permute(&r.t[0], (const int32_t[]){1, 0}, &turned));
    launch_must(pto_submit_op(r.rt, pto_rearrange_op(), &r.t[1], 1, &turned, 1, NULL, 0, NULL));
    launch_must(pto_copy(r.rt, &r.t[2], &r.t[1]));
    launch_must(pto_read(r.rt, &r.t[2], back, sizeof back));
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < N; k++) {
            assert_true(back[i][k] == (k == 3 ? (float)i : 2));
        }
    }
    rig_end(&r);
}

/* ---- Errors ---- */

static void expect_failure(rig *r, pto_status status, const char *words)
{
    pto_failure failure;
    bool failed;
    assert_int_equal(pto_wait(r->rt), PTO_TASK_FAILED);
    launch_must(pto_get_failure(r->rt, &failed, &failure));
    if (!failed || failure.status != status || !strstr(failure.message, words)) {
        fail_msg("%s: %s", pto_status_name(failure.status), failure.message);
    }
    launch_must(pto_clear_error(r->rt));
}

static void a_kernel_that_cannot_be_launched(void **state)
{
    (void)state;
    NEED_KERNELS();
    rig r = rig_make();
    const pto_kernel bad = rig_kernel(&r, "too big", kernels->too_big);
    const pto_kernel good = rig_kernel(&r, "nothing", kernels->nothing);
    launch_must(pto_submit(r.rt, good, pto_output(&r.t[0])));
    launch_must(pto_submit(r.rt, bad, pto_inout(&r.t[0])));
    launch_must(pto_submit(r.rt, good, pto_input(&r.t[0]), pto_output(&r.t[1]))); /* skipped */
    launch_must(pto_submit(r.rt, good, pto_output(&r.t[2])));
    expect_failure(&r, PTO_KERNEL_FAILED, "too big: invalid");
    launch_must(pto_submit(r.rt, good, pto_output(&r.t[0])));
    launch_must(pto_wait(r.rt));
    rig_end(&r);
}

static void another_architecture(void **state)
{
    (void)state;
    NEED_KERNELS();
    const char *other = getenv("PTO_TEST_GPU_OTHER");
    const gpu_kernels *wrong = gpu_kernels_load(other ? other : "other/libpto-gpu-kernels.so");
    rig r = rig_make();
    const pto_kernel bad = rig_kernel(&r, "wrong", wrong->nothing);
    launch_must(pto_submit(r.rt, bad, pto_output(&r.t[0])));
    expect_failure(&r, PTO_KERNEL_FAILED, "no kernel image");
    rig_end(&r);
}

static void out_of_memory(void **state)
{
    (void)state;
    NEED_KERNELS();
    pto_config c = PTO_CONFIG_INIT;
    pto_runtime *rt;
    pto_tensor t;
    c.device_heap_bytes = UINT64_C(1) << 42;
    launch_must(pto_runtime_create(&rt, &c));
    PTO_SCOPE(rt) {
        expect_fail(pto_alloc_on(rt, gpu, PTO_FLOAT32, 1, (int64_t[]){64}, &t), PTO_OUT_OF_MEMORY,
                    "PTO_DEVICE_HEAP", "free");
        pto_refusal refused;
        assert_int_equal(pto_refused(rt, &refused), 1);
    }
    launch_must(pto_runtime_destroy(&rt, PTO_WAIT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_programs),
        cmocka_unit_test(operators),
        cmocka_unit_test(a_kernel_that_cannot_be_launched),
        cmocka_unit_test(another_architecture),
        cmocka_unit_test(out_of_memory),
    };
    cmocka_set_test_filter(getenv("PTO_TEST_ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
