/* test_mutants.c - the differential test detects broken runtimes.
 *
 * Each switch of src/base/mutant.h breaks one part of the runtime. Random programs
 * (tests/runtime/program.h) must soon detect it: by a different result, by a program that does not
 * end, or by a crash. Without a mutant the same programs pass.
 *
 * A mutant may do anything, so it runs in a separate process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mutant.h"
#include "program.h"

#define PROGRAMS 2000 /* among which each mutant must be detected */
#define SECONDS 2     /* after which a program counts as hanging; normally it takes milliseconds */

static const char *const mutant_names[] = {"none",
#define MUTANT_NAME(name, text) #name ": " text,
                                           PTOI_MUTANT_MAP(MUTANT_NAME)
#undef MUTANT_NAME
};

typedef struct hunt {
    ptoi_mutant_name mutant;
    uint64_t programs;
} hunt;

/* Runs programs until one of them fails. */
static bool hunt_child(void *context, char *why, size_t size)
{
    const hunt *h = context;
    static program p;
    static program_sights sights;
    ptoi_mutant = h->mutant;
    for (uint64_t i = 0; i < h->programs; i++) {
        char words[400] = "";
        program_make(&p, (test_seed() << 32) + i, PROFILE_RACE);
        alarm(SECONDS * (h->mutant == PTOI_MUTANT_NONE ? 10 : 1));
        if (!program_try(&p, &sights, words, sizeof words)) {
            snprintf(why, size, "program %" PRIu64 ", %s", i, words);
            return false;
        }
    }
    return true;
}

static void test_mutant(void **state)
{
    hunt h = {(ptoi_mutant_name)(uintptr_t)*state, PROGRAMS};
    char why[512];
    if (h.mutant == PTOI_MUTANT_NO_BARRIER || h.mutant == PTOI_MUTANT_NO_NAP ||
        h.mutant == PTOI_MUTANT_NO_MARK || h.mutant == PTOI_MUTANT_MARK_EARLY ||
        h.mutant == PTOI_MUTANT_GROW_TABLES || h.mutant == PTOI_MUTANT_GROW_IN_PLACE ||
        h.mutant >= PTOI_MUTANT_TRUST_DEAD) {
        /* Only rare timing, or the death of a process, would show it: left to the explorer. Growth
         * of the map is left to test_map_growth.c. */
        skip();
    }
    const try_result result = try_forked(hunt_child, &h, SECONDS, why, sizeof why);
    print_message("%s\n    %s: %s\n", mutant_names[h.mutant],
                  result == TRY_GOOD ? "NOT DETECTED" : "detected", why);
    if (result == TRY_GOOD) {
        fail_msg("not detected by %d programs: %s", PROGRAMS, mutant_names[h.mutant]);
    }
}

static void test_none(void **state)
{
    hunt h = {PTOI_MUTANT_NONE, test_effort(PROGRAMS / 4)};
    char why[512];
    (void)state;
    if (try_forked(hunt_child, &h, SECONDS, why, sizeof why) != TRY_GOOD) {
        fail_msg("with nothing broken: %s", why);
    }
}

int main(void)
{
#define MUTANT_TEST(name, text)                                                                    \
    cmocka_unit_test_prestate(test_mutant, (void *)(uintptr_t)PTOI_MUTANT_##name),
    struct CMUnitTest tests[] = {cmocka_unit_test(test_none), PTOI_MUTANT_MAP(MUTANT_TEST)};
#undef MUTANT_TEST
    static char names[PTOI_MUTANT_COUNT][32];
    for (int i = 1; i < PTOI_MUTANT_COUNT; i++) {
        snprintf(names[i], sizeof names[i], "test_mutant %.*s", (int)strcspn(mutant_names[i], ":"),
                 mutant_names[i]);
        tests[i].name = names[i];
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
