/* test_trace_grid.c - traces of a device that schedules for itself (place gpu): a lane for each block, with
 * times of the device, beside those of the host. The clock of a simulated device is an hour ahead. */
#define _GNU_SOURCE /* setenv, mkdtemp */
#include "../runtime/on_grid.h"
#include "traces.h"

static const char *lane_name(const ptoi_ptrace *t, uint32_t lane)
{
    assert_true(lane < t->n_lanes);
    return ptoi_ptrace_string(t, t->lanes[lane].name);
}

/* The number after `key` in META. */
static uint64_t meta_number(const ptoi_ptrace *t, const char *key)
{
    char *text = calloc(1, t->n_meta + 1);
    assert_non_null(text);
    memcpy(text, t->meta, t->n_meta);
    const char *at = strstr(text, key);
    if (!at) {
        fail_msg("no %s in\n%s", key, text);
        return 0;
    }
    const uint64_t number = strtoull(at + strlen(key), NULL, 10);
    free(text);
    return number;
}

/* A chain over all cells, each of which has tasks of the grid and, after a copy, of the host. */
static void submit_all(on_grid *g, int64_t *host, pto_tensor *on_host, int64_t cells, int rounds)
{
    for (int64_t i = 0; i < cells; i++) {
        pto_tensor cell = on_grid_cell(g, i);
        for (int k = 0; k < rounds; k++) {
            expect_ok(pto_submit(g->rt, g->add, pto_inout(&cell), pto_scalar(1)));
        }
        expect_ok(pto_tensor_init(&on_host[i], &host[i], 8, PTO_INT64, 1, DIMS(1), NULL, 0));
        expect_ok(pto_copy(g->rt, &on_host[i], &cell));
        expect_ok(pto_submit(g->rt, g->add, pto_inout(&on_host[i]), pto_scalar(100)));
        expect_ok(pto_copy(g->rt, &cell, &on_host[i]));
        expect_ok(pto_submit(g->rt, g->add, pto_inout(&cell), pto_scalar(1000)));
    }
}

static void blocks_have_lanes_with_their_times(void **state)
{
    (void)state;
    enum { CELLS = 5, ROUNDS = 20 };
    char path[128];
    pto_config config = PTO_CONFIG_INIT;
    int64_t host[CELLS] = {0}, got[CELLS];
    pto_tensor on_host[CELLS];
    config.trace = traces_path("grid.ptrace", path);
    config.gpu_idle_us = 1; /* it leaves again and again: records of several launches */
    on_grid g = on_grid_start(&config, 3, CELLS);
    submit_all(&g, host, on_host, CELLS, ROUNDS);
    expect_ok(pto_read(g.rt, &g.cells, got, sizeof got));
    expect_ok(pto_wait(g.rt));
    on_grid_stop(&g);
    for (int i = 0; i < CELLS; i++) {
        assert_int_equal(got[i], ROUNDS + 1100);
    }
    ptoi_ptrace t;
    expect_ok(ptoi_ptrace_open(path, &t));
    assert_int_equal(t.lost, 0);
    assert_true(meta_number(&t, "device_clock_error_ns=") > 0);
    assert_true(meta_number(&t, "device_clock_compared=") > 0);
    uint32_t on_blocks = 0, on_workers = 0, blocks = 0, schedulers = 0;
    for (uint32_t l = 0; l < t.n_lanes; l++) {
        const char *name = lane_name(&t, l);
        schedulers += t.lanes[l].kind == PTRACE_LANE_SCHEDULER;
        if (strstr(name, "block")) {
            char want[32];
            snprintf(want, sizeof want, "sim:0 block %u", blocks++);
            assert_string_equal(name, want);
            assert_int_equal(t.lanes[l].kind, PTRACE_LANE_WORKER);
            assert_int_equal(t.lanes[l].types, 1u << PTO_CUBE | 1u << PTO_VECTOR);
        }
    }
    assert_int_equal(blocks, 3);
    assert_int_equal(schedulers, 1);
    uint64_t end[16] = {0}; /* of the last task of each lane */
    assert_true(t.n_lanes <= 16);
    for (uint64_t i = 0; i < t.n_tasks; i++) {
        const ptrace_task *task = &t.tasks[i];
        const bool adds = strcmp(ptoi_ptrace_kernel(&t, task), "add") == 0;
        assert_int_equal(task->outcome, PTRACE_DONE);
        on_blocks += adds && strstr(lane_name(&t, task->lane), "sim:0 block") != NULL;
        on_workers += adds && strcmp(lane_name(&t, task->lane), "worker 0") == 0;
        end[task->lane] = task->end > end[task->lane] ? task->end : end[task->lane];
    }
    assert_int_equal(on_blocks, CELLS * (ROUNDS + 1));
    assert_int_equal(on_workers, CELLS);
    /* What the device did lies within the run, as the host saw it: an hour would be noticed. */
    const uint64_t error = meta_number(&t, "device_clock_error_ns=");
    uint64_t waited = 0;
    for (uint64_t i = 0; i < t.n_events; i++) {
        waited = t.events[i].kind == PTRACE_WAIT && t.events[i].end > waited ? t.events[i].end
                                                                             : waited;
    }
    for (uint32_t l = 0; l < t.n_lanes; l++) {
        assert_true(end[l] <= waited + error);
    }
    traces_check_times(&t);
    ptoi_ptrace_close(&t);
}

static void failures_have_their_texts(void **state)
{
    (void)state;
    char path[128];
    pto_config config = PTO_CONFIG_INIT;
    config.trace = traces_path("grid_fails.ptrace", path);
    on_grid g = on_grid_start(&config, 2, 2);
    pto_tensor a = on_grid_cell(&g, 0), b = on_grid_cell(&g, 1);
    expect_ok(pto_submit(g.rt, g.fail, pto_inout(&a)));
    expect_ok(pto_submit(g.rt, g.add, pto_inout(&a), pto_scalar(1)));
    expect_ok(pto_submit(g.rt, g.add, pto_inout(&b), pto_scalar(1)));
    expect_fail(pto_wait(g.rt), PTO_TASK_FAILED, "singular in column 7");
    expect_ok(pto_clear_error(g.rt));
    on_grid_stop(&g);
    ptoi_ptrace t;
    expect_ok(ptoi_ptrace_open(path, &t));
    assert_int_equal(t.n_failures, 2);
    assert_non_null(strstr(ptoi_ptrace_string(&t, t.failures[0].words), "singular in column 7"));
    assert_int_equal(t.tasks[t.failures[0].task].outcome, PTRACE_FAILED);
    assert_int_equal(t.tasks[t.failures[1].task].outcome, PTRACE_SKIPPED);
    assert_int_equal(t.failures[1].cause, t.failures[0].task);
    traces_check_times(&t);
    ptoi_ptrace_close(&t);
}

/* A trace that is full: what has no room is counted, and the run goes on. */
static void the_log_is_bounded(void **state)
{
    (void)state;
    enum { TASKS = 3000 };
    char path[128];
    pto_config config = PTO_CONFIG_INIT;
    int64_t got = 0;
    config.trace = traces_path("grid_full.ptrace", path);
    config.trace_limit = 100;
    on_grid g = on_grid_start(&config, 1, 1);
    pto_tensor cell = on_grid_cell(&g, 0);
    for (int i = 0; i < TASKS; i++) {
        expect_ok(pto_submit(g.rt, g.add, pto_inout(&cell), pto_scalar(1)));
    }
    expect_ok(pto_read(g.rt, &cell, &got, sizeof got));
    assert_int_equal(got, TASKS);
    on_grid_stop(&g);
    ptoi_ptrace t;
    expect_ok(ptoi_ptrace_open(path, &t));
    assert_int_equal(t.n_tasks, 100);
    uint64_t lost = 0;
    for (uint32_t l = 0; l < t.n_lanes; l++) {
        lost += strstr(lane_name(&t, l), "block") ? t.lanes[l].lost : 0;
    }
    /* Chunks of 64 records: one for each 64 tasks of the limit, and two more. */
    assert_int_equal(lost, TASKS - 64 * (100 / 64 + 2));
    ptoi_ptrace_close(&t);
}

/* Every other form that a file can have. */
static void all_exporters_take_it(void **state)
{
    (void)state;
    static const char *const names[] = {"grid.html", "grid.json", "grid.dot"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[128];
        pto_config config = PTO_CONFIG_INIT;
        size_t n = 0;
        config.trace = traces_path(names[i], path);
        on_grid g = on_grid_start(&config, 2, 1);
        pto_tensor cell = on_grid_cell(&g, 0);
        expect_ok(pto_submit(g.rt, g.add, pto_inout(&cell), pto_scalar(1)));
        expect_ok(pto_wait(g.rt));
        on_grid_stop(&g);
        char *bytes = traces_bytes(path, &n);
        if (i == 1) {
            assert_non_null(strstr(bytes, "sim:0 block 0"));
            assert_non_null(strstr(bytes, "device_clock_error_ns"));
        }
        assert_true(n > 100);
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_have_lanes_with_their_times),
        cmocka_unit_test(failures_have_their_texts),
        cmocka_unit_test(the_log_is_bounded),
        cmocka_unit_test(all_exporters_take_it),
    };
    return cmocka_run_group_tests_name("trace_grid", tests, NULL, NULL);
}
