/* test_inline_trial.c - trials of where medium tasks run, in a simulated program: in each mode a task takes so
 * many ticks, and so many are submitted before they are complete. No clock is involved. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "orchestrator/inline_trial.h"

typedef struct sim {
    ptoi_trial trial;
    uint64_t ticks;
    uint64_t order;            /* tasks submitted */
    uint64_t completed;        /* of these */
    uint64_t cost[PTOI_MODES]; /* ticks of a task */
    uint64_t open[PTOI_MODES]; /* tasks that are submitted and not complete */
    uint64_t ran[PTOI_MODES];  /* tasks submitted in each mode */
    uint8_t modes[1024];       /* of the open tasks, by number */
} sim;

static sim make(uint64_t mixed, uint64_t all, uint64_t none)
{
    return (sim){.ticks = 1,
                 .cost = {mixed, all, none},
                 .open = {[PTOI_MODE_MIXED] = 100, [PTOI_MODE_ALL] = 0, [PTOI_MODE_NONE] = 900}};
}

/* Submits tasks. Each takes what its mode costs, whenever it runs. */
static void run(sim *s, uint64_t tasks)
{
    for (uint64_t i = 0; i < tasks; i++) {
        if (s->order >= s->trial.at) {
            ptoi_trial_look(&s->trial, &(ptoi_trial_sight){.ticks = s->ticks,
                                                           .order = s->order,
                                                           .completed = s->completed});
            assert_true(s->trial.at > s->order);
        }
        const uint32_t mode = s->trial.mode;
        assert_in_range(mode, 0, PTOI_MODES - 1);
        s->ran[mode]++;
        s->modes[s->order++ % 1024] = (uint8_t)mode;
        while (s->completed < s->order && s->order - s->completed > s->open[mode]) {
            s->ticks += s->cost[s->modes[s->completed++ % 1024]];
        }
    }
}

static void the_best_mode_stays(void **state)
{
    (void)state;
    static const uint64_t costs[][PTOI_MODES] = {{100, 200, 300}, {300, 100, 200}, {300, 200, 100},
                                                 {100, 300, 200}, {200, 100, 300}, {200, 300, 100}};
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
        sim s = make(costs[i][0], costs[i][1], costs[i][2]);
        run(&s, 30000);
        assert_true(s.trial.known);
        assert_int_equal(s.cost[s.trial.best], 100);
    }
}

static void trials_cost_little(void **state)
{
    (void)state;
    for (uint64_t worse = 150; worse <= 500; worse += 50) {
        sim s = make(worse, 100, worse);
        run(&s, 30000);
        assert_int_equal(s.trial.best, PTOI_MODE_ALL);
        const uint64_t before = s.ticks, done = s.completed;
        run(&s, 2000000);
        /* At most a twentieth more than without trials. */
        assert_true(s.ticks - before < (s.completed - done) * 105);
    }
}

static void equal_modes_do_not_alternate(void **state)
{
    (void)state;
    sim s = make(100, 102, 98);
    run(&s, 1000000);
    assert_int_equal(s.trial.best, PTOI_MODE_MIXED);
    assert_int_equal(s.trial.kept, PTOI_TRIAL_DOUBLES);
}

static void a_program_that_changes_is_followed(void **state)
{
    (void)state;
    sim s = make(200, 300, 100);
    run(&s, 300000);
    assert_int_equal(s.trial.best, PTOI_MODE_NONE);
    s.cost[PTOI_MODE_ALL] = 50; /* nothing shows that: it is tried again in time */
    run(&s, 2 * (PTOI_TRIAL_KEEP << PTOI_TRIAL_DOUBLES));
    assert_int_equal(s.trial.best, PTOI_MODE_ALL);
    run(&s, PTOI_TRIAL_KEEP / 2);
    s.cost[PTOI_MODE_ALL] = 400; /* this shows */
    run(&s, 12 * PTOI_TRIAL_WATCH);
    assert_int_equal(s.trial.best, PTOI_MODE_NONE);
}

static void a_pause_of_the_program_does_not_decide(void **state)
{
    (void)state;
    /* In the first round, whenever it comes. */
    for (uint64_t when = 0; when < 12000; when += 16) {
        sim s = make(200, 100, 200);
        run(&s, when);
        s.ticks += 10000000;
        run(&s, 30000 - when);
        assert_int_equal(s.trial.best, PTOI_MODE_ALL);
    }
}

static void it_can_be_switched_off(void **state)
{
    (void)state;
    sim s = make(300, 100, 200);
    s.trial.at = UINT64_MAX;
    run(&s, 100000);
    assert_int_equal(s.ran[PTOI_MODE_MIXED], 100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_mode_stays),
        cmocka_unit_test(trials_cost_little),
        cmocka_unit_test(equal_modes_do_not_alternate),
        cmocka_unit_test(a_program_that_changes_is_followed),
        cmocka_unit_test(a_pause_of_the_program_does_not_decide),
        cmocka_unit_test(it_can_be_switched_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
