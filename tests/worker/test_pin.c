/* test_pin.c - PTO_PIN: workers stay on one core each, and the orchestrating thread is left alone. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_getaffinity */
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sched.h>
#include <string.h>

#include <pto/process.h>

#include "support.h"

enum { TASKS = 64 };

/* How many cores its thread may use, and the first of them. */
typedef struct seen {
    int32_t cores, first, worker, unused;
} seen;

static seen look(void)
{
    cpu_set_t set;
    seen s = {.cores = -1, .first = -1};
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        s.cores = CPU_COUNT(&set);
        for (int cpu = 0; s.first < 0 && cpu < CPU_SETSIZE; cpu++) {
            s.first = CPU_ISSET((size_t)cpu, &set) ? cpu : -1;
        }
    }
    return s;
}

static pto_status kernel_look(const pto_call *call)
{
    seen s = look();
    s.worker = (int32_t)call->worker;
    memcpy(call->args[0].data, &s, sizeof s);
    return PTO_OK;
}

/* What TASKS kernels saw, with 2 workers that alone run them. */
static void run(pto_place place, pto_pin pin, seen *out)
{
    pto_config config = PTO_CONFIG_INIT;
    pto_runtime *rt = NULL;
    pto_kernel kernel;
    void *memory = NULL;
    config.place = place;
    config.workers = 2;
    config.caller_types = PTO_NO_TYPES;
    config.pin = pin;
    const seen before = look();
    assert_int_equal(pto_runtime_create(&rt, &config), PTO_OK);
    assert_int_equal(pto_kernel_register(rt, "look", PTO_AI_CPU, kernel_look, NULL, &kernel),
                     PTO_OK);
    assert_int_equal(pto_shared_alloc(rt, TASKS * sizeof *out, &memory), PTO_OK);
    for (int i = 0; i < TASKS; i++) {
        pto_tensor t;
        assert_int_equal(pto_tensor_init(&t, (seen *)memory + i, sizeof *out, PTO_INT32, 1,
                                         (int64_t[]){sizeof *out / 4}, NULL, 0),
                         PTO_OK);
        assert_int_equal(pto_submit(rt, kernel, pto_output(&t)), PTO_OK);
    }
    assert_int_equal(pto_wait(rt), PTO_OK);
    memcpy(out, memory, TASKS * sizeof *out);
    const seen after = look();
    assert_memory_equal(&before, &after, sizeof before); /* never the caller */
    assert_int_equal(pto_runtime_destroy(&rt, PTO_WAIT), PTO_OK);
}

static void each_worker_has_a_core(void **state)
{
    (void)state;
    static const pto_place places[] = {PTO_PLACE_INLINE, PTO_PLACE_THREAD, PTO_PLACE_PROCESS};
    const seen mine = look();
    if (mine.cores < 2) {
        skip(); /* the workers would share it */
    }
    for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
        seen out[TASKS];
        int32_t core_of[2] = {-1, -1};
        run(places[p], PTO_PIN_CORES, out);
        for (int i = 0; i < TASKS; i++) {
            assert_in_range(out[i].worker, 0, 1);
            assert_int_equal(out[i].cores, 1);
            int32_t *core = &core_of[out[i].worker];
            assert_true(*core < 0 || *core == out[i].first);
            *core = out[i].first;
        }
        assert_true(core_of[0] != core_of[1]);
    }
}

static void without_it_they_may_go_anywhere(void **state)
{
    (void)state;
    const seen mine = look();
    seen out[TASKS];
    run(PTO_PLACE_INLINE, PTO_PIN_OFF, out);
    for (int i = 0; i < TASKS; i++) {
        assert_int_equal(out[i].cores, mine.cores);
    }
    run(PTO_PLACE_INLINE, PTO_PIN_DEFAULT, out);
    for (int i = 0; i < TASKS; i++) {
        assert_int_equal(out[i].cores, mine.cores);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_worker_has_a_core),
        cmocka_unit_test(without_it_they_may_go_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
