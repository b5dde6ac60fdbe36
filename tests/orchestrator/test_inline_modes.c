/* test_inline_modes.c - medium tasks in every mode (orchestrator/inline_trial.h), and while modes change:
 * the memory is what the serial program leaves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <pto/pto.h>

#include "orchestrator/runtime.h"
#include "support.h"

enum { TILES = 12, WORDS = 8, TASKS = 20000 };

typedef uint64_t tile[WORDS];

static uint64_t mixed(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

/* to := a function of all three. Any other order of two tasks leaves something else. */
static void mix(const uint64_t *a, const uint64_t *b, uint64_t *to, uint64_t number)
{
    for (int i = 0; i < WORDS; i++) {
        to[i] = mixed(to[i] * 31 + a[i] * 7 + b[i] + number);
    }
}

static pto_status kernel_mix(const pto_call *call)
{
    mix(call->args[0].data, call->args[1].data, call->args[2].data, call->args[3].u64);
    return PTO_OK;
}

static pto_status kernel_nothing(const pto_call *call)
{
    (void)call;
    return PTO_OK;
}

/* Which tiles task i names: the third, which it updates, is none of the others. */
static void choose(uint64_t i, int which[3])
{
    const uint64_t r = mixed(i + 1);
    which[2] = (int)(r % TILES);
    which[0] = (int)((r >> 8) % (TILES - 1));
    which[1] = (int)((r >> 16) % (TILES - 1));
    which[0] += which[0] >= which[2];
    which[1] += which[1] >= which[2];
}

static void fill(tile *tiles)
{
    for (int i = 0; i < TILES * WORDS; i++) {
        tiles[i / WORDS][i % WORDS] = mixed((uint64_t)i);
    }
}

/* `mode` < 0: modes change every hundred tasks. Returns how many tasks submit ran itself. */
static uint64_t run_with(uint32_t workers, int mode, bool tried)
{
    static tile ours[TILES], serial[TILES];
    pto_config config = PTO_CONFIG_INIT;
    pto_runtime *rt = NULL;
    pto_kernel kernel;
    pto_tensor t[TILES];
    pto_runtime_stats stats;
    config.workers = workers;
    config.guard = PTO_NO_GUARD; /* with guards no task runs inline */
    assert_int_equal(pto_runtime_create(&rt, &config), PTO_OK);
    assert_int_equal(pto_kernel_register(rt, "mix", PTO_AI_CPU, kernel_mix, NULL, &kernel), PTO_OK);
    fill(ours);
    fill(serial);
    for (int i = 0; i < TILES; i++) {
        assert_int_equal(pto_tensor_init(&t[i], ours[i], sizeof ours[i], PTO_UINT64, 1,
                                         (int64_t[]){WORDS}, NULL, 0),
                         PTO_OK);
    }
    if (!tried) {
        rt->inlining.trial.at = UINT64_MAX;
    }
    for (uint64_t i = 0; i < TASKS; i++) {
        int which[3];
        choose(i, which);
        if (!tried) {
            rt->inlining.trial.mode = mode >= 0 ? (uint32_t)mode : (uint32_t)(i / 100 % PTOI_MODES);
        }
        /* No clock decides what is medium. */
        ptoi_set32(&rt->view.times[kernel ^ rt->first_kernel].length, PTOI_LENGTH_MEDIUM);
        assert_int_equal(pto_submit(rt, kernel, pto_input(&t[which[0]]), pto_input(&t[which[1]]),
                                    pto_inout(&t[which[2]]), pto_scalar_u64(i)),
                         PTO_OK);
        mix(serial[which[0]], serial[which[1]], serial[which[2]], i);
        if (i % 500 == 499) {
            assert_int_equal(pto_wait(rt), PTO_OK);
        }
    }
    assert_int_equal(pto_wait(rt), PTO_OK);
    assert_int_equal(pto_check(rt), PTO_OK);
    assert_int_equal(pto_stats(rt, &stats), PTO_OK);
    assert_int_equal(stats.completed, TASKS);
    assert_memory_equal(ours, serial, sizeof ours);
    assert_int_equal(pto_runtime_destroy(&rt, PTO_WAIT), PTO_OK);
    return stats.inlined;
}

static uint64_t run(int mode, bool tried)
{
    return run_with(2, mode, tried);
}

static void offloading_all_runs_none_inline(void **state)
{
    (void)state;
    assert_int_equal(run(PTOI_MODE_NONE, false), 0);
}

static void running_all_runs_what_waits_for_nothing(void **state)
{
    (void)state;
    /* At least the first task after each wait, once its tensors are known. */
    assert_true(run(PTOI_MODE_ALL, false) >= TASKS / 500 - TILES);
}

static void mixed_leaves_the_same(void **state)
{
    (void)state;
    (void)run(PTOI_MODE_MIXED, false);
}

static void modes_may_change_at_any_time(void **state)
{
    (void)state;
    (void)run(-1, false);
}

static void trials_change_nothing_but_time(void **state)
{
    (void)state;
    (void)run(-1, true);
}

/* So many that one looks into the inbox for all (scheduler/look.h). */
static void many_workers_leave_the_same(void **state)
{
    (void)state;
    assert_int_equal(run_with(9, PTOI_MODE_NONE, false), 0);
    (void)run_with(9, -1, false);
}

/* A program that works on two levels in turn is tried, too, and does not stay in the middle of a trial. */
static void trials_end_in_a_program_that_changes_levels(void **state)
{
    (void)state;
    uint64_t word = 1;
    pto_config config = PTO_CONFIG_INIT;
    pto_runtime *rt = NULL;
    pto_kernel kernel;
    pto_tensor t;
    uint64_t ended = 0;
    config.workers = 2;
    config.guard = PTO_NO_GUARD;
    assert_int_equal(pto_runtime_create(&rt, &config), PTO_OK);
    assert_int_equal(pto_kernel_register(rt, "nothing", PTO_AI_CPU, kernel_nothing, NULL, &kernel),
                     PTO_OK);
    assert_int_equal(pto_tensor_init(&t, &word, sizeof word, PTO_UINT64, 0, NULL, NULL, 0), PTO_OK);
    for (uint32_t i = 0; i < 2 * TASKS; i++) {
        if (i % 20 == 0) {
            assert_int_equal(
                i % 40 ? pto_scope_end(rt) : pto_scope_begin_ex(rt, PTO_SCOPE_BOUNDARY), PTO_OK);
        }
        ptoi_set32(&rt->view.times[kernel ^ rt->first_kernel].length, PTOI_LENGTH_MEDIUM);
        assert_int_equal(pto_submit(rt, kernel, pto_inout(&t)), PTO_OK);
        ended += rt->inlining.trial.known && !rt->inlining.trial.tries;
    }
    assert_true(ended > TASKS);
    assert_int_equal(pto_runtime_destroy(&rt, PTO_WAIT), PTO_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offloading_all_runs_none_inline),
        cmocka_unit_test(running_all_runs_what_waits_for_nothing),
        cmocka_unit_test(mixed_leaves_the_same),
        cmocka_unit_test(modes_may_change_at_any_time),
        cmocka_unit_test(trials_change_nothing_but_time),
        cmocka_unit_test(many_workers_leave_the_same),
        cmocka_unit_test(trials_end_in_a_program_that_changes_levels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
