/* fuzz_tensormap.c - histories of a TensorMap, each answer compared with a naive list (../orchestrator/map). */
#include "fuzz.h"

#include "../orchestrator/map/history.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    test_rng rng = test_rng_from(data, size);
    const bool grid = test_between(&rng, 0, 3) == 0;
    history_run(rng, 0, UINT64_MAX, grid ? 16 : 1, grid);
    return 0;
}
