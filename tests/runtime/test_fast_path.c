/* test_fast_path.c - the fast path of submit does what the slow path does: program_twice.h.
 *
 * PTO_TEST_PROGRAM=N  runs only program N (failures name it)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "program_twice.h"

static program_sights seen;

static void try_one(uint64_t seed)
{
    static program p;
    char why[512] = "", again[128];
    snprintf(again, sizeof again, "PTO_TEST_PROGRAM=%" PRIu64 " ./dev test runtime.fast_path",
             seed);
    program_make(&p, seed, seed % 4 ? PROFILE_SAME : program_profile_of(seed / 4));
    twice_alone(&p);
    try_announce(&p, again);
    const bool good = twice_try(&p, &seen, why, sizeof why);
    try_quiet();
    if (!good) {
        fprintf(stderr, "\nprogram %" PRIu64 ": %s\n  again: %s\n", seed, why, again);
        program_print(stderr, &p);
        fail_msg("program %" PRIu64 ": %s", seed, why);
    }
}

static void test_programs(void **state)
{
    (void)state;
    const uint64_t one = test_env("PTO_TEST_PROGRAM", UINT64_MAX);
    try_watch();
    if (one != UINT64_MAX) {
        try_one(one);
        return;
    }
    /* Here a walk that ended with a refusal had changed what the map knows of a view. */
    static const uint64_t kept[] = {30064773832, 34359740898, 38654707640, 87020843485365052};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        try_one(kept[i]);
    }
    const uint64_t first = test_seed() << 32, count = test_effort(1000);
    for (uint64_t i = 0; i < count; i++) {
        try_one(first + i);
    }
    print_message("%" PRIu64 " programs: %" PRIu64 " of %" PRIu64
                  " submits took the fast path, %" PRIu64 " with many parameters or edges\n",
                  count, twice.tasks - twice.slow, twice.tasks, twice.many);
    assert_true(twice.tasks - twice.slow > twice.tasks / 10);
    assert_true(twice.many > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_programs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
