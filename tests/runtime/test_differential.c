/* test_differential.c - random programs on the runtime, compared with a serial oracle: program.h.
 *
 * PTO_TEST_PROGRAM=N  runs only program N (failures name it), a hundred times
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "program.h"

static program_sights seen;
static uint64_t programs;

static void try_one(uint64_t seed)
{
    static program p;
    char why[512] = "", again[128];
    snprintf(again, sizeof again, "PTO_TEST_PROGRAM=%" PRIu64 " ./dev test runtime.differential",
             seed);
    program_make(&p, seed, program_profile_of(seed));
    try_announce(&p, again);
    const bool good = program_try(&p, &seen, why, sizeof why);
    try_quiet();
    programs++;
    if (!good) {
        program_report(&p, why, again);
        fail_msg("program %" PRIu64 ": %s", seed, why);
    }
}

/* Programs of one seed follow each other; seeds lie far apart. */
static void test_programs(void **state)
{
    (void)state;
    const uint64_t one = test_env("PTO_TEST_PROGRAM", UINT64_MAX);
    try_watch();
    if (one != UINT64_MAX) {
        for (int i = 0; i < 100; i++) {
            try_one(one);
        }
        return;
    }
    const uint64_t first = test_seed() << 32;
    for (uint64_t i = 0, count = test_effort(4000); i < count; i++) {
        try_one(first + i);
    }
}

/* All that programs are there for has happened, if there were enough of them. */
static void test_everything_was_seen(void **state)
{
    (void)state;
    for (int i = 0; i < SEEN_COUNT; i++) {
        printf("%10" PRIu64 " %s\n", seen.count[i], program_sight_text((program_sight)i));
    }
    for (int i = 0; i < SEEN_COUNT && programs >= 1000; i++) {
        if (!seen.count[i] && !program_sees_devices(i)) {
            fail_msg("in %" PRIu64 " programs: no %s", programs,
                     program_sight_text((program_sight)i));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_programs),
        cmocka_unit_test(test_everything_was_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
