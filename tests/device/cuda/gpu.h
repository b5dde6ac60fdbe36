/* gpu.h - what the tests of NVIDIA devices share. They are skipped where there is no GPU, unless
 * PTO_TEST_GPU is set: then that is a failure. */
#ifndef PTO_TEST_GPU_H
#define PTO_TEST_GPU_H

#include <pto/pto.h>
#include <pto/rearrange.h>

#include "../../tensor/tensors.h"

static const pto_device gpu = {PTO_DEVICE_NVIDIA, 0};
static pto_device_ops ops;

static inline bool gpu_is_there(void)
{
    if (pto_device_get(gpu, &ops) == PTO_OK) {
        return true;
    }
    if (getenv("PTO_TEST_GPU")) {
        fail_msg("%s", pto_error_detail());
    }
    print_message("%s\n", pto_error_detail());
    return false;
}

#define NEED_GPU()                                                                                 \
    do {                                                                                           \
        if (!gpu_is_there()) {                                                                     \
            skip();                                                                                \
        }                                                                                          \
        expect_ok(pto_device_set_current(gpu));                                                    \
    } while (0)

static inline void *gpu_alloc(uint64_t bytes)
{
    void *memory = NULL;
    expect_ok(ops.alloc(ops.self, bytes, &memory));
    assert_non_null(memory);
    return memory;
}

static inline void gpu_free(void *memory)
{
    ops.free(ops.self, memory, 0);
}

static inline void gpu_wait(void)
{
    expect_ok(ops.synchronize(ops.self));
}

#endif /* PTO_TEST_GPU_H */
