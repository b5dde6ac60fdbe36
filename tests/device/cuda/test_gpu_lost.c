/* test_gpu_lost.c - an illegal access on the GPU. The context of the process is gone after it, so this
 * is a program of its own, and its last test. */
#include "gpu.h"

static void lost(void **state)
{
    (void)state;
    NEED_GPU();
    char byte = 0;
    void *memory = gpu_alloc(64 * 64 * 4), *other = NULL;
    pto_tensor good, bad, turned;
    expect_ok(pto_tensor_init(&good, memory, 64 * 64 * 4, PTO_FLOAT32, 2, DIMS(64, 64), NULL, 0));
    good.device = gpu;
    expect_ok(pto_fill(&good, 1));
    gpu_wait(); /* not a suspect */
    bad = good;
    bad.storage = (void *)(uintptr_t)0x10000; /* nobody's memory */
    expect_ok(pto_tensor_permute(&bad, (const int32_t[]){1, 0}, &turned));
    expect_ok(pto_rearrange(&good, &turned));
    expect_ok(pto_rearrange(&good, &turned));

    /* The first who waits hears of it, and everybody after. */
    expect_fail(ops.synchronize(ops.self), PTO_DEVICE_LOST, "nvidia:0 is lost",
                "illegal memory access", "rearrange of [64, 64]", "2 operations");
    expect_fail(pto_fill(&good, 1), PTO_DEVICE_LOST, "rearrange of [64, 64]");
    expect_fail(pto_rearrange(&good, &turned), PTO_DEVICE_LOST, "illegal memory access");
    expect_fail(ops.alloc(ops.self, 16, &other), PTO_DEVICE_LOST, "nvidia:0");
    expect_fail(ops.copy_in(ops.self, memory, &byte, 1), PTO_DEVICE_LOST, "nvidia:0");
    expect_fail(ops.copy_out(ops.self, &byte, memory, 1), PTO_DEVICE_LOST, "nvidia:0");
    expect_fail(ops.synchronize(ops.self), PTO_DEVICE_LOST, "nvidia:0");
    gpu_free(memory); /* harmless */

    /* The CPU goes on. */
    float here[4];
    pto_tensor t;
    expect_ok(pto_tensor_init(&t, here, sizeof here, PTO_FLOAT32, 1, DIMS(4), NULL, 0));
    expect_ok(pto_fill(&t, 2));
    assert_true(here[3] == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lost)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
