/* test_behind.c - one long task does not delay later ones: map entries are recycled as tasks
 * complete, in any order, and only incomplete producers need edges. (Slots, memory and room for
 * edges are recycled in order.)
 *
 * The orchestrating thread itself completes the long task, after all submits: if a submit waited
 * for it, the test would hang. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <unistd.h>

#include <pto/pto.h>

#include "support.h"

enum { MANY = 300 };

static pto_status quick(const pto_call *call)
{
    (void)call;
    return PTO_OK;
}

static pto_status hold(const pto_call *call)
{
    (void)call;
    return PTO_PENDING;
}

typedef struct world {
    pto_runtime *rt;
    pto_kernel quick, hold;
    char memory[MANY + 8];
    pto_task first;
} world;

static const pto_place places[] = {PTO_PLACE_INLINE, PTO_PLACE_THREAD};
static const uint32_t workers[] = {1, 3, PTO_NO_WORKERS};

static pto_tensor byte(world *w, int at)
{
    pto_tensor t;
    assert_int_equal(pto_external_tensor(w->rt, &w->memory[at], PTO_UINT8, 1, (int64_t[]){1}, &t),
                     PTO_OK);
    return t;
}

static void start(world *w, pto_config *config, pto_place place, uint32_t n_workers)
{
    config->place = place;
    config->workers = n_workers;
    assert_int_equal(pto_runtime_create(&w->rt, config), PTO_OK);
    assert_int_equal(pto_kernel_register(w->rt, "quick", PTO_CUBE, quick, NULL, &w->quick), PTO_OK);
    assert_int_equal(pto_kernel_register(w->rt, "hold", PTO_CUBE, hold, NULL, &w->hold), PTO_OK);
}

static void stop(world *w)
{
    pto_task_report report = {0};
    do { /* without workers only a wait would run it, and that would not end */
        assert_int_equal(pto_task_info(w->rt, w->first, &report), PTO_OK);
        if (report.state == PTO_TASK_READY) {
            pto_tensor other = byte(w, MANY + 7);
            assert_int_equal(pto_submit(w->rt, w->quick, pto_inout(&other)), PTO_OK);
            assert_int_equal(pto_wait_task(w->rt, pto_last_task(w->rt)), PTO_OK);
        }
    } while (report.state != PTO_TASK_RUNNING);
    while (pto_task_complete(w->rt, w->first, PTO_OK) != PTO_OK) {
    }
    assert_int_equal(pto_wait(w->rt), PTO_OK);
    assert_int_equal(pto_check(w->rt), PTO_OK);
    assert_int_equal(pto_runtime_destroy(&w->rt, PTO_WAIT), PTO_OK);
}

typedef enum pattern { READ_ANEW, WRITE_ANEW, READ_ONE, WRITE_ONE, PATTERNS } pattern;

/* 16 map entries; each task takes one. */
static void test_map_entries(void **state)
{
    (void)state;
    for (size_t c = 0; c < 6; c++) {
        for (pattern which = 0; which < PATTERNS; which++) {
            world w = {0};
            pto_config config = PTO_CONFIG_INIT;
            config.map_entries = 16;
            start(&w, &config, places[c % 2], workers[c / 2]);
            pto_tensor held = byte(&w, MANY);
            assert_int_equal(pto_submit(w.rt, w.hold, pto_inout(&held)), PTO_OK);
            w.first = pto_last_task(w.rt);
            for (int i = 0; i < MANY; i++) {
                pto_tensor t = byte(&w, which == READ_ANEW || which == WRITE_ANEW ? i : 0);
                bool reads = which == READ_ANEW || which == READ_ONE;
                assert_int_equal(pto_submit(w.rt, w.quick, reads ? pto_input(&t) : pto_output(&t)),
                                 PTO_OK);
            }
            stop(&w);
        }
    }
}

/* 8 edges. A writer waits for many readers, one of which does not end. */
static void test_edges(void **state)
{
    (void)state;
    for (size_t c = 0; c < 6; c++) {
        world w = {0};
        pto_config config = PTO_CONFIG_INIT;
        config.deps = 8;
        start(&w, &config, places[c % 2], workers[c / 2]);
        pto_tensor x = byte(&w, 0);
        assert_int_equal(pto_submit(w.rt, w.hold, pto_input(&x)), PTO_OK);
        w.first = pto_last_task(w.rt);
        for (int i = 0; i < MANY; i++) {
            assert_int_equal(pto_submit(w.rt, w.quick, pto_input(&x)), PTO_OK);
        }
        assert_int_equal(pto_submit(w.rt, w.quick, pto_output(&x)), PTO_OK);
        pto_task_report report;
        assert_int_equal(pto_task_info(w.rt, pto_last_task(w.rt), &report), PTO_OK);
        assert_int_equal(report.state, PTO_TASK_PENDING);
        stop(&w);
    }
}

int main(void)
{
    alarm(240); /* rather than hang */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map_entries),
        cmocka_unit_test(test_edges),
    };
    return cmocka_run_group_tests_name("behind", tests, NULL, NULL);
}
