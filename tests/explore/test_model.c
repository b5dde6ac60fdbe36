/* test_model.c - tests the explorer itself: which results of small programs it finds.
 *
 * These are the classic litmus tests. Each runs all schedules within a generous bound; the set of
 * results must be exactly the one that the memory model of world.h allows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "litmus.h"
#include "world.h"

/* Runs all schedules of one test and returns the set of results, as bits. */
static uint64_t results_of(const scenario *s)
{
    search_result r = {0};
    memset(litmus_seen, 0, sizeof litmus_seen);
    search_open(s);
    search_exhaustive((search_bound){6, 4}, 1000000, &r);
    search_close();
    if (r.failed || !r.complete) {
        fail_msg("%s: %s", s->name, r.failed ? r.why : "not complete");
    }
    uint64_t set = 0;
    for (uint32_t i = 0; i < 64; i++) {
        set |= (uint64_t)(litmus_seen[i] != 0) << i;
    }
    return set;
}

static void test_litmus(void **state)
{
    const litmus *l = *state;
    const uint64_t found = results_of(&l->scenario);
    if (found != l->allowed) {
        fail_msg("%s: results %#" PRIx64 ", the model allows %#" PRIx64, l->scenario.name, found,
                 l->allowed);
    }
}

/* A race is reported in every schedule, whatever the values are. */
static void test_race(void **state)
{
    search_result r = {0};
    (void)state;
    search_open(&litmus_race);
    search_exhaustive((search_bound){0, 0}, 1000, &r);
    assert_true(r.failed);
    assert_int_equal(r.ending, FAIL_RACE);
    search_close();
}

/* All threads wait for each other. */
static void test_hang(void **state)
{
    search_result r = {0};
    (void)state;
    search_open(&litmus_hang);
    search_exhaustive((search_bound){2, 0}, 1000, &r);
    assert_true(r.failed);
    assert_int_equal(r.ending, FAIL_HANG);
    search_close();
}

/* A random failure can be replayed from its seed, from its list of changes, and from the reduced
 * list. */
static void test_replay(void **state)
{
    search_result r = {0}, again;
    char seed[32];
    (void)state;
    search_open(&litmus_rare);
    search_random(1, 100000, &r);
    assert_true(r.failed);
    snprintf(seed, sizeof seed, "%" PRIu64, r.seed);
    search_replay(seed, &again);
    assert_true(again.failed);
    assert_string_equal(again.why, r.why);
    assert_string_equal(again.replay, r.replay);
    search_replay(r.replay, &again);
    assert_true(again.failed);
    assert_string_equal(again.why, r.why);
    const size_t length = strlen(r.replay);
    search_shorten(&r);
    assert_true(strlen(r.replay) <= length);
    search_replay(r.replay, &again);
    assert_true(again.failed);
    assert_int_equal(again.ending, r.ending);
    search_close();
}

/* With and without its reductions the exhaustive search finds the same orders. */
static void test_reductions(void **state)
{
    static const char *const names[] = {"queue-round", "park", "poll", "pending"};
    (void)state;
    for (const scenario *const *s = scenarios; *s; s++) {
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            if (strcmp((*s)->name, names[i]) != 0) {
                continue;
            }
            search_result all = {0}, fewer = {0};
            search_open(*s);
            search_reduces = false;
            search_exhaustive((search_bound){1, 1}, 1000000, &all);
            search_reduces = true;
            search_close();
            search_open(*s);
            search_exhaustive((search_bound){1, 1}, 1000000, &fewer);
            search_close();
            print_message("%s: %" PRIu64 " orders in %" PRIu64 " schedules; reduced: %" PRIu64
                          " in %" PRIu64 "\n",
                          (*s)->name, all.orders, all.schedules, fewer.orders, fewer.schedules);
            assert_true(all.complete && fewer.complete);
            assert_true(all.orders == fewer.orders);
        }
    }
}

int main(void)
{
    struct CMUnitTest tests[64] = {cmocka_unit_test(test_race), cmocka_unit_test(test_hang),
                                   cmocka_unit_test(test_replay),
                                   cmocka_unit_test(test_reductions)};
    size_t n = 4;
    for (const litmus *l = litmus_tests; l->scenario.name; l++) {
        tests[n++] = (struct CMUnitTest){.name = l->scenario.name,
                                         .test_func = test_litmus,
                                         .initial_state = (void *)(uintptr_t)l};
    }
    /* cmocka needs the size of the array. */
    return _cmocka_run_group_tests("explore.model", tests, n, NULL, NULL);
}
