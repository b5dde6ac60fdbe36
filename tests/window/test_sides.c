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
    const ptoi_header *h = r.rt->view.header;
    char *const o = r.rt->memory, *const s = r.rt->memory_s;
    const bool twice = ((const rig_setup *)*state)->map_twice;
    assert_true(h->sched_at < h->heaps_at && h->heaps_at < h->bytes);
    assert_int_equal(o != s, twice);
    assert_int_equal(store_faults(o + h->sched_at), twice);
    assert_int_equal(store_faults(o + h->heaps_at - 1), twice);
    assert_int_equal(store_faults(s), twice);
    assert_int_equal(store_faults(s + h->sched_at - 1), twice);
    assert_false(store_faults(o));
    assert_false(store_faults(s + h->sched_at));
    assert_false(store_faults(o + h->heaps_at));
    assert_false(store_faults(s + h->heaps_at));
    /* Everything that belongs to one side lies in its part of the window. */
    const ptoi_view *v = &r.rt->view;
    assert_true((char *)v->slots < o + h->sched_at && (char *)v->orders < o + h->sched_at &&
                (char *)v->level[0].args < o + h->sched_at && v->strings < o + h->sched_at);
    assert_true((char *)v->states >= o + h->sched_at && (char *)v->waits >= o + h->sched_at &&
                (char *)v->workers >= o + h->sched_at && (char *)v->times < o + h->heaps_at);
    assert_true(v->level[0].heap >= o + h->heaps_at);
    rig_stop(&r);
}

/* Words of very old laps become closed words of a recent lap; recent words stay. */
static void test_old_words_are_renewed(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    ptoi_view v;
    expect_ok(ptoi_window_attach(r.rt->memory_s, r.rt->bytes, &v));
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
        RIG_CASE(test_parts_are_read_only_for_the_other_side),
        RIG_CASE(test_old_words_are_renewed),
        RIG_CASE(test_a_cancel_has_a_word_for_each_side),
    };
    return rig_run("sides", cases, sizeof cases / sizeof *cases);
}
