/* fuzz_program.c - whole programs on the runtime, compared with a serial oracle (../runtime). */
#include "fuzz.h"

#include "../runtime/program.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static program p;
    static program_sights seen;
    char why[512] = "";
    test_rng rng = test_rng_from(data, size);
    const program_profile profile = (program_profile)test_between(&rng, PROFILE_ALL, PROFILE_FAIL);
    const uint64_t seed = (uint64_t)test_between(&rng, 0, UINT8_MAX);
    program_make_from(&p, rng, seed, profile);
    if (!program_try(&p, &seen, why, sizeof why)) {
        program_print(stderr, &p);
        fuzz_wrong("%s", why);
    }
    return 0;
}
