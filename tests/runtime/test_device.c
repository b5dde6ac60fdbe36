/* test_device.c - random programs whose tensors, copies and tasks are spread over cpu:0, sim:0 and
 * sim:1, compared with a serial oracle: program.h. Device heaps are tiny, and devices fail.
 *
 * PTO_TEST_PROGRAM=N  runs only program N (failures name it), a hundred times
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "program.h"

#include "orchestrator/device.h"
#include "orchestrator/slow.h"

static program_sights seen;
static uint64_t programs;
static uint64_t slow; /* tasks on devices that took the slow path of submit, copies not counted */

pto_status __real_ptoi_slow_link(ptoi_slow *d);
pto_status __wrap_ptoi_slow_link(ptoi_slow *d);

pto_status __wrap_ptoi_slow_link(ptoi_slow *d)
{
    slow += d->n_params <= PTOI_FAST_PARAMS && ptoi_device_is_named(d->params, d->n_params);
    return __real_ptoi_slow_link(d);
}

static void try_one(uint64_t seed)
{
    static program p;
    char why[512] = "", again[128];
    snprintf(again, sizeof again, "PTO_TEST_PROGRAM=%" PRIu64 " ./dev test runtime.device", seed);
    program_make(&p, seed, PROFILE_DEVICE);
    try_announce(&p, again);
    const bool good = program_try(&p, &seen, why, sizeof why);
    try_quiet();
    programs++;
    if (!good) {
        program_report(&p, why, again);
        fail_msg("program %" PRIu64 ": %s", seed, why);
    }
}

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
    for (uint64_t i = 0, count = test_effort(1500); i < count; i++) {
        try_one(first + i);
    }
}

/* All that can happen with devices has happened, if there were enough programs. */
static void test_everything_was_seen(void **state)
{
    (void)state;
    for (int i = 0; i < SEEN_COUNT; i++) {
        printf("%10" PRIu64 " %s\n", seen.count[i], program_sight_text((program_sight)i));
    }
    const uint64_t tasks = seen.count[SEEN_ON_DEVICE];
    print_message("%" PRIu64 " of %" PRIu64 " tasks on devices took the slow path\n", slow, tasks);
    assert_true(programs < 1000 || slow < tasks - tasks / 20);
    for (int i = 0; i < SEEN_COUNT && programs >= 1000; i++) {
        if (!seen.count[i] && program_sees_devices(i)) {
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
