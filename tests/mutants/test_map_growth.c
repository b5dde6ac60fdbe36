/* test_map_growth.c - a map that loses something when it grows is detected.
 *
 * The mutants GROW_... of src/base/mutant.h break how a map grows. A map that begins small, beside
 * one that need not grow, must soon give other answers, fail its check, hang or crash. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../orchestrator/map/twins.h"
#include "base/mutant.h"
#include "program.h"

enum { HISTORIES = 200, SECONDS = 20 };

static bool run_child(void *context, char *why, size_t size)
{
    uint64_t entries = 0, regions = 0;
    ptoi_mutant = *(const ptoi_mutant_name *)context;
    alarm(SECONDS);
    signal(SIGSEGV, SIG_DFL); /* cmocka would go on with the next test, in the child */
    for (uint64_t i = 0; i < HISTORIES; i++) {
        const char *wrong = twins_run(test_rng_make(test_seed() * 1000 + i), &entries, &regions);
        if (wrong) {
            snprintf(why, size, "history %d: %s", (int)i, wrong);
            return false;
        }
    }
    return true;
}

static void test_mutant(void **state)
{
    ptoi_mutant_name mutant = (ptoi_mutant_name)(uintptr_t)*state;
    char why[512] = "";
    const bool good = try_forked(run_child, &mutant, SECONDS, why, sizeof why) == TRY_GOOD;
    print_message("%s\n", why);
    assert_int_equal(good, mutant == PTOI_MUTANT_NONE);
}

int main(void)
{
#define TEST(name)                                                                                 \
    {                                                                                              \
        "test_mutant " #name, test_mutant, NULL, NULL, (void *)(uintptr_t)PTOI_MUTANT_##name       \
    }
    const struct CMUnitTest tests[] = {TEST(NONE), TEST(GROW_TABLES), TEST(GROW_IN_PLACE)};
    return cmocka_run_group_tests_name("mutants of growth", tests, NULL, NULL);
}
