/* test_why.c - what a program hears that asks for a GPU which cannot be used here. PTO_TEST_WHY is what
 * it must contain; without it, what is said where the library is not found. */
#include "gpu.h"

static void says_what_is_missing(void **state)
{
    (void)state;
    const char *words = getenv("PTO_TEST_WHY");
    float memory[4];
    pto_tensor t;
    pto_status s = pto_device_get(gpu, &ops);
    if (s == PTO_OK && !words) {
        skip(); /* it is installed, and there is a GPU */
    }
    words = words ? words : "NVIDIA";
    expect_fail(pto_device_get(gpu, &ops), PTO_BAD_DEVICE, "device get: nvidia:0 cannot be used",
                words);
    print_message("%s\n", pto_error_detail());
    expect_ok(pto_tensor_init(&t, memory, sizeof memory, PTO_FLOAT32, 1, DIMS(4), NULL, 0));
    t.device = gpu;
    expect_fail(pto_fill(&t, 1), PTO_NOT_IMPLEMENTED, "fill: no implementation for nvidia:0",
                words);
    expect_fail(pto_rearrange(&t, &t), PTO_NOT_IMPLEMENTED,
                "rearrange: no implementation for nvidia:0", words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(says_what_is_missing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
