/* test_tensormap_random.c - long random histories, each step compared with the naive list.
 *
 * PTO_TEST_HISTORY=N  runs only history N (failures name it)
 * PTO_TEST_TRACE=1    prints every step
 */
#include "history.h"

/* History `from` + i of `count`, or only the one that was asked for. */
static void run_histories(uint64_t from, uint64_t count, uint64_t steps, uint64_t check_every,
                          bool grid)
{
    const uint64_t only = test_env("PTO_TEST_HISTORY", UINT64_MAX);
    for (uint64_t i = from; i < from + count; i++) {
        if (only == UINT64_MAX || only == i) {
            history_run(test_rng_make(test_seed() * UINT64_C(1000003) + i), i, steps, check_every,
                        grid);
        }
    }
}

static void test_short_histories(void **state)
{
    (void)state;
    run_histories(0, test_effort(8000), 40, 1, false);
}

static void test_longer_histories(void **state)
{
    (void)state;
    run_histories(100000, test_effort(800), 300, 3, false);
}

static void test_very_long_histories(void **state)
{
    (void)state;
    run_histories(200000, test_effort(12), 20000, 50, false);
}

/* Hundreds of live regions in few groups: what the index is for. */
static void test_grids(void **state)
{
    (void)state;
    run_histories(300000, test_effort(16), 4000, 500, true);
}

/* The same few hundred tiles over and over, in a map that begins with room for fewer. */
static void test_tiles_that_come_back(void **state)
{
    (void)state;
    run_histories(400000, test_effort(200), 600, 20, true);
}

/* After all histories: they went where the errors are. */
static void test_the_histories_went_everywhere(void **state)
{
    (void)state;
    if (test_env("PTO_TEST_HISTORY", UINT64_MAX) != UINT64_MAX) {
        skip();
    }
    print_message("%d steps, %d answers, %d superseded, %d full, %d truncated, %d recycled, "
                  "%d arrays too small, %d inexact, %d and %d times more entries and regions\n",
                  (int)history_seen.steps, (int)history_seen.answers, (int)history_seen.superseded,
                  (int)history_seen.fulls, (int)history_seen.truncated, (int)history_seen.recycled,
                  (int)history_seen.too_small, (int)history_seen.inexact,
                  (int)history_seen.grown_entries, (int)history_seen.grown_regions);
    assert_true(history_seen.steps >= test_effort(100000));
    assert_true(history_seen.answers > history_seen.steps / 4);
    assert_true(history_seen.superseded > history_seen.steps / 50);
    assert_true(history_seen.fulls > history_seen.steps / 100);
    assert_true(history_seen.recycled > history_seen.steps / 10);
    assert_true(history_seen.too_small > history_seen.steps / 200);
    assert_true(history_seen.truncated > 0);
    assert_true(history_seen.wraps > 0);
    assert_true(history_seen.grown_entries > history_seen.steps / 1000);
    assert_true(history_seen.grown_regions > history_seen.steps / 50000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_histories),
        cmocka_unit_test(test_longer_histories),
        cmocka_unit_test(test_very_long_histories),
        cmocka_unit_test(test_grids),
        cmocka_unit_test(test_tiles_that_come_back),
        cmocka_unit_test(test_the_histories_went_everywhere),
    };
    return cmocka_run_group_tests_name("tensormap histories", tests, NULL, NULL);
}
