/* test_scenarios.c - some thousand schedules of each scenario; ./dev explore tries many more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "support.h"
#include "world.h"

enum { SCHEDULES = 2000 };

static void test_scenario(void **state)
{
    const scenario *s = *state;
    search_result r = {0};
    search_bound bound;
    search_open(s);
    search_all(test_effort(SCHEDULES), test_seed(), &r, &bound);
    if (r.failed) {
        search_shorten(&r);
        search_print();
        fail_msg("%s: schedule %" PRIu64 ": %s\n    ./dev explore %s --replay '%s'", s->name, r.at,
                 r.why, s->name, r.replay);
    }
    print_message("%s: %" PRIu64 " schedules, %" PRIu64 " distinct; complete: %u preemptions, %u "
                  "surprises\n",
                  s->name, r.schedules, r.distinct, bound.preemptions, bound.surprises);
    search_close();
}

/* Code of a device with its own memory orders: relaxed loads and stores between fences. */
static void test_device_orders(void **state)
{
    explore_device_orders = true;
    test_scenario(state);
    explore_device_orders = false;
}

int main(void)
{
    struct CMUnitTest tests[128];
    static char names[128][32];
    size_t n = 0;
    for (const scenario *const *s = scenarios; *s; s++) {
        tests[n++] = (struct CMUnitTest){
            .name = (*s)->name, .test_func = test_scenario, .initial_state = (void *)(uintptr_t)*s};
    }
    for (const scenario *const *s = scenarios; *s; s++) {
        if (strncmp((*s)->name, "grid", 4) == 0) {
            snprintf(names[n], sizeof names[n], "%s-orders", (*s)->name);
            tests[n] = (struct CMUnitTest){.name = names[n],
                                           .test_func = test_device_orders,
                                           .initial_state = (void *)(uintptr_t)*s};
            n++;
        }
    }
    return _cmocka_run_group_tests("explore.scenarios", tests, n, NULL, NULL);
}
