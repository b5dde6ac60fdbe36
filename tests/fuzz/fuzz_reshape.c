/* fuzz_reshape.c - reshape says yes exactly when strides exist (../tensor/reshapes.h). */
#include "fuzz.h"

#include "../tensor/reshapes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    test_rng rng = test_rng_from(data, size);
    while (!test_rng_is_spent(&rng)) {
        reshape_case(&rng);
    }
    return 0;
}
