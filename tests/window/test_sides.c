/* test_sides.c - the two sides of a window: each part is written by one side only, and old words
 * are refreshed. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../runtime/rig.h"
#include "orchestrator/runtime.h"
#include "windows.h"

/* Whether a store to this word kills the process. */
static bool store_faults(void *word)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        __atomic_fetch_or((char *)word, 0, __ATOMIC_RELAXED); /* a store that changes nothing */
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

/* With two mappings, each side maps the other's part read-only. Other tests also run in this
 * mode. */
static void test_parts_are_read_only_for_the_other_side(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    const ptoi_mapping *const o = &r.rt->mapping, *const s = &r.rt->mapping_s;
    const bool twice = ((const rig_setup *)*state)->map_twice;
    for (int p = 0; p < PTOI_PARTS; p++) {
        const size_t last = o->bytes[p] - 1;
        char *const of_o = o->memory[p], *const of_s = s->memory[p];
        assert_int_equal(of_o != of_s, twice);
        assert_int_equal(store_faults(of_o), twice && p == PTOI_PART_SCHEDULER);
        assert_int_equal(store_faults(of_o + last), twice && p == PTOI_PART_SCHEDULER);
        assert_int_equal(store_faults(of_s), twice && p == PTOI_PART_ORCHESTRATOR);
        assert_int_equal(store_faults(of_s + last), twice && p == PTOI_PART_ORCHESTRATOR);
    }
    window_expect_inside(&r.rt->view, o);
    rig_stop(&r);
}

/* Words of very old laps become closed words of a recent lap; recent words stay. */
static void test_old_words_are_renewed(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    ptoi_view v;
    expect_ok(ptoi_window_attach(&r.rt->mapping_s, &v));
    const uint32_t laps[] = {0, 1, UINT32_C(1) << 30, UINT32_C(1) << 31, UINT32_MAX};
    for (size_t i = 0; i < sizeof laps / sizeof *laps; i++) {
        const uint32_t oldest = laps[i];
        const struct {
            uint64_t before, after;
        } cases[] = {
            {ptoi_list_word(oldest, 3), ptoi_list_word(oldest, 3)},
            {ptoi_list_word(oldest + 1, PTOI_LIST_CLOSED_BAD),
             ptoi_list_word(oldest + 1, PTOI_LIST_CLOSED_BAD)},
            {ptoi_list_word(oldest - 1, PTOI_LIST_CLOSED_BAD),
             ptoi_list_word(oldest, PTOI_LIST_CLOSED)},
            {ptoi_list_word(oldest - 2 * PTOI_REFRESH_LAPS + 1, 7),
             ptoi_list_word(oldest, PTOI_LIST_CLOSED)},
        };
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
            ptoi_set64(&v.level[0].states[k].waiters, cases[k].before);
        }
        ptoi_scheduler_refresh(r.rt->scheduler, 0, oldest);
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
            assert_int_equal(ptoi_get64(&v.level[0].states[k].waiters), cases[k].after);
        }
    }
    memset(v.level[0].states, 0, 4 * sizeof *v.level[0].states);
    rig_stop(&r);
}

/* Runs tasks inside of submit until the lap of the task ring is `lap`. They leave the words of their
 * slots alone. */
static void run_until(rig *r, uint32_t lap)
{
    while ((int32_t)(ptoi_lap(&r->rt->view, 0, r->rt->rings[0].head) - lap) < 0) {
        RIG_SUBMIT(r, r->quick, pto_scalar(0));
    }
}

/* How many words are older than the lap. */
static uint32_t words_before(const ptoi_view_level *level, uint32_t lap)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i <= level->mask; i++) {
        count += (int32_t)((uint32_t)(ptoi_get64(&level->states[i].waiters) >> 32) - lap) < 0;
    }
    return count;
}

/* Submit has the words renewed 2^30 laps after the last time. Here the last time seems to be almost
 * as long ago. A task of the lap before is not complete then, and must not be taken for complete. */
static void test_submit_has_old_words_renewed(void **state)
{
    rig r;
    ptoi_view v;
    rig_start(&r, state,
              &(pto_config){.size = sizeof(pto_config),
                            .ring_tasks = 64,
                            .inline_ns = 1000000,    /* every kernel counts as short */
                            .guard = PTO_NO_GUARD}); /* with guards no task runs inline */
    expect_ok(ptoi_window_attach(&r.rt->mapping_s, &v));
    const bool runs_inline = r.rt->settings.config.place == PTO_PLACE_INLINE;
    while (runs_inline && rig_stats(&r).inlined < 1000) { /* the kernel is timed first */
        RIG_SUBMIT(&r, r.quick, pto_scalar(0));
    }
    for (int again = 0; again < 2; again++) {
        ptoi_rings *rings = &r.rt->rings[0];
        const uint32_t due = ptoi_lap(&v, 0, rings->head) + 40;
        expect_ok(pto_wait(r.rt));
        rings->renewed_lap = due - PTOI_REFRESH_LAPS;
        for (uint32_t i = 0; i <= rings->mask; i++) {
            ptoi_set64(&v.level[0].states[i].waiters,
                       ptoi_list_word(rings->renewed_lap - 1, PTOI_LIST_CLOSED));
        }
        run_until(&r, due - 1);
        if (runs_inline) {
            assert_true(words_before(&v.level[0], due - 50) > 0);
            assert_int_equal(rings->renewed_lap, due - PTOI_REFRESH_LAPS);
        }
        while (ptoi_lap(&v, 0, rings->head + 1) != due) {
            RIG_SUBMIT(&r, r.quick, pto_scalar(0));
        }
        const pto_task last = RIG_SUBMIT(&r, r.hold, pto_scalar(0));
        const pto_task after = RIG_SUBMIT(&r, r.quick, pto_scalar(0), pto_after(last));
        for (int i = 0; i < 40; i++) { /* submit looks every 32 tasks */
            RIG_SUBMIT(&r, r.quick, pto_scalar(0));
        }
        assert_int_equal(rings->renewed_lap, due);
        assert_int_equal(words_before(&v.level[0], due - 2), 0);
        rig_until(&r, last, PTO_TASK_RUNNING);
        assert_int_equal(rig_info(&r, after).fanin_left, 1);
        rig_finish(&r, last, PTO_OK);
        expect_ok(pto_wait(r.rt));
    }
    rig_stop(&r);
}

/* A kernel cancels on the scheduler's side, the program on its own; neither clears the other's
 * word. */
static pto_status cancels(const pto_call *call)
{
    pto_cancel(call->rt);
    return PTO_OK;
}

static void test_a_cancel_has_a_word_for_each_side(void **state)
{
    rig r;
    pto_kernel kernel;
    rig_start(&r, state, &(pto_config){.size = sizeof(pto_config), .caller_types = PTO_NO_TYPES});
    const ptoi_view *v = &r.rt->view;
    expect_ok(pto_kernel_register(r.rt, "cancels", PTO_VECTOR, cancels, NULL, &kernel));
    for (uint32_t era = 1; era < 4; era++) {
        assert_int_equal(ptoi_get32(&v->header->era), era);
        RIG_SUBMIT(&r, kernel, pto_scalar(0));
        assert_int_equal(pto_wait(r.rt), PTO_CANCELLED);
        assert_int_equal(ptoi_get32(&v->sched->cancel), era);
        assert_int_not_equal(ptoi_get32(&v->header->cancel), era);
        pto_cancel(r.rt);
        assert_int_equal(ptoi_get32(&v->header->cancel), era);
        expect_ok(pto_clear_error(r.rt));
        assert_false(pto_is_cancelled(r.rt));
        RIG_SUBMIT(&r, r.quick, pto_scalar(0));
        expect_ok(pto_wait(r.rt));
    }
    rig_stop(&r);
}

int main(void)
{
    const rig_case cases[] = {
        RIG_CASE_ONE_PROCESS(test_parts_are_read_only_for_the_other_side,
                             "the test writes words of the scheduler"),
        RIG_CASE_ONE_PROCESS(test_old_words_are_renewed, "the test writes words of the scheduler"),
        RIG_CASE_ONE_PROCESS(test_submit_has_old_words_renewed,
                             "the test writes words of the scheduler"),
        RIG_CASE(test_a_cancel_has_a_word_for_each_side),
    };
    return rig_run("sides", cases, sizeof cases / sizeof *cases);
}
