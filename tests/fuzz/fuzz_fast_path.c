/* fuzz_fast_path.c - the fast path of submit against the slow path: programs run twice. */
#include "fuzz.h"

#include "../runtime/program_twice.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static program p;
    static program_sights seen;
    char why[512] = "";
    test_rng rng = test_rng_from(data, size);
    const bool same = test_between(&rng, 0, 3) != 0;
    const uint64_t seed = (uint64_t)test_between(&rng, 0, UINT8_MAX);
    program_make_from(&p, rng, seed, same ? PROFILE_SAME : PROFILE_ALL);
    twice_alone(&p);
    if (!twice_try(&p, &seen, why, sizeof why)) {
        program_print(stderr, &p);
        fuzz_wrong("%s", why);
    }
    return 0;
}
