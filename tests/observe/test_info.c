/* test_info.c - task reports and statistics: one task through all its states, exact counts of a
 * fixed program, and counts that another thread reads while a program runs. */
#include "../runtime/rig.h"

/* ---- One task ------------------------------------------------------------------------------- */

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(pto_task_state_name(PTO_TASK_PENDING), "pending");
    assert_string_equal(pto_task_state_name(PTO_TASK_READY), "ready");
    assert_string_equal(pto_task_state_name(PTO_TASK_RUNNING), "running");
    assert_string_equal(pto_task_state_name(PTO_TASK_COMPLETED), "completed");
    assert_string_equal(pto_task_state_name(PTO_TASK_CONSUMED), "consumed");
    assert_non_null(pto_task_state_name((pto_task_state)99));
    assert_non_null(pto_task_state_name((pto_task_state)-1));
    assert_string_equal(pto_worker_type_name(PTO_CUBE), "cube");
    assert_string_equal(pto_worker_type_name(PTO_VECTOR), "vector");
    assert_string_equal(pto_worker_type_name(PTO_AI_CPU), "ai_cpu");
    assert_string_equal(pto_worker_type_name(PTO_ACCELERATOR), "accelerator");
    assert_non_null(pto_worker_type_name(PTO_WORKER_TYPES));
    assert_non_null(pto_worker_type_name(PTO_KERNEL_TYPE));
}

/* Pending, ready, running, completed, consumed: each state with its report. */
static void test_a_task_through_its_states(void **state)
{
    rig r;
    pto_kernel kernel;
    pto_config config = PTO_CONFIG_INIT;
    config.type_workers[PTO_VECTOR] = 1;
    config.type_workers[PTO_CUBE] = 1;
    config.caller_types = PTO_NO_TYPES;
    rig_start(&r, state, &config);
    char *memory = rig_memory(&r, 8);
    expect_ok(pto_kernel_register(r.rt, "matmul", PTO_CUBE, rig_hold, NULL, &kernel));
    pto_kernel block;
    expect_ok(pto_kernel_register(r.rt, "block", PTO_CUBE, rig_gate_wait, r.at, &block));
    pto_tensor x = rig_bytes(&r, memory, 8);
    expect_ok(pto_scope_begin_ex(r.rt, PTO_SCOPE_BOUNDARY));
    pto_tensor t = rig_temp(&r, 100), u = rig_temp(&r, 1);
    pto_task producer = RIG_SUBMIT(&r, r.hold, pto_output(&x));
    pto_task occupied = RIG_SUBMIT_BARE(&r, block); /* the only worker of its type */
    rig_at_gate(&r, 1);
    int line = __LINE__ + 1;
    pto_task task = RIG_SUBMIT(&r, kernel, pto_input(&x), pto_output(&t), pto_output(&u));

    pto_task_report i = rig_info(&r, task);
    assert_int_equal(i.state, PTO_TASK_PENDING);
    assert_int_equal(i.order, 2);
    assert_int_equal(i.level, 1);
    assert_string_equal(i.kernel, "matmul");
    assert_non_null(strstr(i.file, "test_info.c"));
    assert_int_equal(i.line, line);
    assert_int_equal(i.type, PTO_CUBE);
    assert_int_equal(i.fanin_count, 1);
    assert_int_equal(i.fanin_left, 1);
    assert_int_equal(i.fanout_count, 1);
    assert_int_equal(i.fanout_left, 1);
    assert_int_equal(i.heap_bytes, 192); /* each of the two begins at a multiple of 64 */
    assert_false(i.failed);
    assert_false(i.skipped);

    rig_finish(&r, producer, PTO_OK);
    i = rig_info(&r, task);
    assert_int_equal(i.state, PTO_TASK_READY); /* its worker is busy */
    assert_int_equal(i.fanin_count, 1);
    assert_int_equal(i.fanin_left, 0);

    rig_open(&r);
    rig_until(&r, task, PTO_TASK_RUNNING);
    assert_int_equal(rig_info(&r, task).state, PTO_TASK_RUNNING);
    rig_until(&r, occupied, PTO_TASK_COMPLETED);
    assert_int_equal(rig_info(&r, task).fanin_left, 0);

    rig_finish(&r, task, PTO_OK);
    i = rig_info(&r, task);
    assert_int_equal(i.state, PTO_TASK_COMPLETED);
    assert_int_equal(i.fanout_left, 1);
    assert_int_equal(i.fanin_left, 0);

    expect_ok(pto_scope_end(r.rt));
    rig_until(&r, task, PTO_TASK_CONSUMED);
    i = rig_info(&r, task);
    assert_int_equal(i.state, PTO_TASK_CONSUMED);
    /* It stays consumed, however often its slot is reused. */
    for (int n = 0; n < 3000; n++) {
        RIG_SUBMIT_BARE(&r, r.quick);
    }
    expect_ok(pto_wait(r.rt));
    assert_int_equal(rig_info(&r, task).state, PTO_TASK_CONSUMED);
    rig_stop(&r);
}

/* Memory of a pto_alloc belongs to no task. A task that uses it holds it. */
static void test_alloc_is_no_task(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor t;
    expect_ok(pto_alloc(r.rt, PTO_UINT8, 1, DIMS(100), &t));
    assert_int_equal(pto_last_task(r.rt), 0);
    pto_task user = RIG_SUBMIT(&r, r.hold, pto_output(&t));
    RIG_FANOUT(&r, user, 0, 0);
    assert_int_equal(rig_info(&r, user).heap_bytes, 0);
    assert_int_equal(rig_info(&r, user).order, 0);
    expect_ok(pto_scope_end(r.rt));
    assert_int_equal(rig_ring(&r, 0, PTO_RING_HEAP).used, 128);
    rig_finish(&r, user, PTO_OK);
    rig_until(&r, user, PTO_TASK_CONSUMED);
    assert_int_equal(rig_ring(&r, 0, PTO_RING_HEAP).used, 0);
    rig_stop(&r);
}

/* Handles of tasks that never existed. */
static void test_tasks_that_never_were(void **state)
{
    rig r;
    pto_task_report report, untouched;
    rig_start(&r, state, NULL);
    memset(&report, 0x5a, sizeof report);
    untouched = report;
    assert_int_equal(pto_last_task(r.rt), 0);
    pto_task first = 0;
    for (int submitted = 0; submitted < 2; submitted++) {
        const pto_task wrong[] = {0, 1, 7, 8 * 5, first + 8, first | 1, first | 7, UINT64_MAX};
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            expect_fail(pto_task_info(r.rt, wrong[i], &report), PTO_BAD_TASK, "task");
            expect_fail(pto_wait_task(r.rt, wrong[i]), PTO_BAD_TASK, "task");
            assert_memory_equal(&report, &untouched, sizeof report);
        }
        first = RIG_SUBMIT_BARE(&r, r.quick);
        assert_int_equal(pto_last_task(r.rt), first);
    }
    rig_stop(&r);
}

/* ---- Counts ---------------------------------------------------------------------------------- */

/* A fixed program with known counts. */
static void test_counts_of_a_known_program(void **state)
{
    rig r;
    pto_config config = PTO_CONFIG_INIT;
    config.levels = 3;
    config.ring_tasks = 64;
    config.heap_bytes = 8192;
    config.deps = 256;
    config.map_entries = 128;
    config.arg_bytes = 65536;
    config.level_ring_tasks[2] = 16;
    config.level_heap_bytes[2] = 4096;
    rig_start(&r, state, &config);
    char(*memory)[8] = rig_memory(&r, sizeof(char[3][8]));
    pto_runtime_stats s = rig_stats(&r);
    assert_int_equal(s.submitted + s.completed + s.failed + s.skipped, 0);
    assert_int_equal(s.raw + s.war + s.waw + s.after, 0);
    assert_int_equal(s.oldest, 0);
    assert_int_equal(s.pending, 0);
    assert_int_equal(s.levels, 3);
    for (uint32_t l = 0; l < 3; l++) {
        const uint64_t sizes[] = {[PTO_RING_TASKS] = l == 2 ? 16 : 64,
                                  [PTO_RING_HEAP] = l == 2 ? 4096 : 8192,
                                  [PTO_RING_ARGS] = 65536,
                                  [PTO_RING_DEPS] = 256,
                                  [PTO_RING_MAP] = 128};
        for (uint32_t ring = 0; ring < PTO_RINGS; ring++) {
            assert_int_equal(s.level[l].ring[ring].size, sizes[ring]);
            assert_int_equal(s.level[l].ring[ring].used + s.level[l].ring[ring].peak, 0);
        }
    }

    pto_tensor x = rig_bytes(&r, memory[0], 8), y = rig_bytes(&r, memory[1], 8);
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor t = rig_temp(&r, 65), never = rig_temp(&r, 4096);
    pto_task w = RIG_SUBMIT(&r, r.hold, pto_output(&x), pto_output(&t)); /* 0 */
    pto_task r1 = RIG_SUBMIT(&r, r.quick, pto_input(&x));                /* 1: raw on 0 */
    RIG_SUBMIT(&r, r.quick, pto_input(&t), pto_inout(&y));               /* 2: raw on 0 */
    RIG_SUBMIT(&r, r.quick, pto_after(w), pto_after(r1));                /* 3: after 0, 1 */
    RIG_SUBMIT(&r, r.quick, pto_inout(&y));                              /* 4: raw on 2 */
    RIG_SUBMIT(&r, r.fails, pto_output(&y));                             /* 5: waw on 4 */
    pto_task r2 = RIG_SUBMIT(&r, r.hold, pto_input(&y));                 /* 6: raw on 5: skipped */
    RIG_SUBMIT(&r, r.quick, pto_output(&y));                             /* 7: war on 6, waw on 5 */
    s = rig_stats(&r);
    assert_int_equal(s.submitted, 8);
    assert_int_equal(s.completed, 0);
    assert_int_equal(s.raw, 4);
    assert_int_equal(s.after, 2);
    assert_int_equal(s.war, 1);
    assert_in_range(s.waw, 1, 2); /* 5 completes before 6, so its edge to 7 may be left out */
    assert_int_equal(s.scope_depth, 1);
    assert_int_equal(s.buffers, 2);
    assert_int_equal(s.oldest, w);
    assert_string_equal(s.oldest_kernel, "hold");
    assert_int_equal(s.level[0].ring[PTO_RING_TASKS].used, 8);
    assert_int_equal(s.level[0].ring[PTO_RING_HEAP].used, 128);
    assert_int_equal(s.level[1].ring[PTO_RING_TASKS].used, 0);
    assert_int_equal(s.level[0].ring[PTO_RING_DEPS].used, s.raw + s.after + s.war + s.waw);
    assert_true(s.level[0].ring[PTO_RING_MAP].used >= 7 &&
                s.level[0].ring[PTO_RING_MAP].used <= 10);
    assert_true(s.level[0].ring[PTO_RING_ARGS].used > 0);

    rig_finish(&r, w, PTO_OK);
    assert_int_equal(pto_wait(r.rt), PTO_TASK_FAILED);
    assert_true(rig_info(&r, r2).skipped);
    s = rig_stats(&r);
    assert_int_equal(s.completed, 8);
    assert_int_equal(s.failed, 1);
    assert_int_equal(s.skipped, 1);
    assert_int_equal(s.oldest, 0);
    assert_int_equal(s.level[0].ring[PTO_RING_TASKS].used, 0); /* scopes do not hold tasks */
    assert_int_equal(s.level[0].ring[PTO_RING_HEAP].used, 128);
    assert_int_equal(s.level[0].ring[PTO_RING_DEPS].used, 0);
    expect_ok(pto_clear_error(r.rt));
    expect_ok(pto_scope_end(r.rt));

    expect_ok(pto_scope_begin_ex(r.rt, PTO_SCOPE_BOUNDARY));
    never = rig_temp(&r, 4096);
    RIG_SUBMIT(&r, r.quick, pto_output(&never)); /* 8, on level 1 */
    expect_ok(pto_scope_end(r.rt));
    expect_ok(pto_wait(r.rt));
    s = rig_stats(&r);
    assert_int_equal(s.submitted, 9);
    assert_int_equal(s.completed, 9);
    assert_int_equal(s.failed, 1);
    assert_int_equal(s.buffers, 0);
    assert_int_equal(s.buffers_peak, 2);
    assert_int_equal(s.scope_depth, 0);
    assert_int_equal(s.overlap_budget_hits, 0);
    assert_int_equal(s.level[0].ring[PTO_RING_TASKS].peak, 8);
    assert_int_equal(s.level[1].ring[PTO_RING_TASKS].peak, 1);
    assert_int_equal(s.level[0].ring[PTO_RING_HEAP].peak, 128);
    assert_int_equal(s.level[1].ring[PTO_RING_HEAP].peak, 4096);
    for (uint32_t l = 0; l < 3; l++) {
        assert_int_equal(s.level[l].ring[PTO_RING_TASKS].used, 0);
        assert_int_equal(s.level[l].ring[PTO_RING_HEAP].used, 0);
        assert_int_equal(s.level[l].ring[PTO_RING_ARGS].used, 0);
        assert_int_equal(s.level[l].ring[PTO_RING_DEPS].used, 0);
        assert_int_equal(
            s.level[l].ring[PTO_RING_TASKS].waits + s.level[l].ring[PTO_RING_HEAP].waits, 0);
        assert_int_equal(s.level[l].ring[PTO_RING_ARGS].waits +
                             s.level[l].ring[PTO_RING_DEPS].waits +
                             s.level[l].ring[PTO_RING_MAP].waits,
                         0);
    }
    rig_stop(&r);
}

/* Waits for room are counted for their ring, once for each submit. */
static void test_waits_are_counted(void **state)
{
    rig r;
    pto_config config = PTO_CONFIG_INIT;
    config.ring_tasks = 16;
    config.map_entries = 16;
    rig_start(&r, state, &config);
    char *memory = rig_memory(&r, 8);
    pto_tensor x = rig_bytes(&r, memory, 8);
    pto_task held = RIG_SUBMIT(&r, r.hold, pto_input(&x));
    for (int i = 1; i < 16; i++) {
        RIG_SUBMIT(&r, r.quick, pto_input(&x));
    }
    assert_int_equal(rig_ring(&r, 0, PTO_RING_TASKS).waits, 0);
    rig_later later = {.status = PTO_OK};
    rig_later_start(&later, &r, held, 10000);
    RIG_SUBMIT(&r, r.quick, pto_input(&x));
    rig_later_join(&later);
    pto_level_stats level = rig_stats(&r).level[0];
    assert_int_equal(level.ring[PTO_RING_TASKS].waits, 1);
    assert_int_equal(level.ring[PTO_RING_HEAP].waits + level.ring[PTO_RING_ARGS].waits, 0);
    assert_int_equal(level.ring[PTO_RING_TASKS].peak, 16);
    rig_stop(&r);
}

/* ---- From another thread ------------------------------------------------------------------- */

typedef struct watcher {
    const pto_runtime *rt;
    atomic_bool quit;
    const char *wrong;
    atomic_uint looks;
} watcher;

#define RISES(w, field)                                                                            \
    do {                                                                                           \
        if (now.field < before.field) {                                                            \
            (w)->wrong = #field " falls";                                                          \
        }                                                                                          \
    } while (0)

static void *watch(void *argument)
{
    watcher *w = argument;
    pto_runtime_stats before, now;
    memset(&before, 0, sizeof before);
    while (!atomic_load(&w->quit) && !w->wrong) {
        if (pto_stats(w->rt, &now) != PTO_OK) {
            w->wrong = "pto_stats failed";
        }
        RISES(w, submitted);
        RISES(w, completed);
        RISES(w, failed);
        RISES(w, skipped);
        RISES(w, raw);
        RISES(w, war);
        RISES(w, waw);
        RISES(w, after);
        RISES(w, helped);
        RISES(w, parks);
        RISES(w, buffers_peak);
        RISES(w, level[0].ring[PTO_RING_TASKS].peak);
        RISES(w, level[0].ring[PTO_RING_HEAP].peak);
        RISES(w, level[0].ring[PTO_RING_TASKS].waits);
        if (now.completed > now.submitted) {
            w->wrong = "more completed than submitted";
        }
        if (now.level[0].ring[PTO_RING_TASKS].used > now.level[0].ring[PTO_RING_TASKS].size) {
            w->wrong = "more tasks alive than the window has places";
        }
        if (now.level[0].ring[PTO_RING_HEAP].used > now.level[0].ring[PTO_RING_HEAP].size ||
            now.scope_depth > 1 || now.buffers > 1) {
            w->wrong = "more than there is";
        }
        before = now;
        atomic_fetch_add(&w->looks, 1);
    }
    return NULL;
}

typedef struct glance {
    const pto_runtime *rt;
    pto_status status;
    pto_runtime_stats stats;
} glance;

static void *take_a_look(void *argument)
{
    glance *g = argument;
    g->status = pto_stats(g->rt, &g->stats);
    return NULL;
}

/* The counts are also right, and fast, before anything was recycled. */
static void test_the_first_look_of_another_thread(void **state)
{
    rig r;
    pthread_t thread;
    rig_start(&r, state, NULL);
    glance g = {.rt = r.rt};
    pto_task held = RIG_SUBMIT_BARE(&r, r.hold);
    const double begun = rig_cpu_ms();
    assert_int_equal(pthread_create(&thread, NULL, take_a_look, &g), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(rig_cpu_ms() - begun < 1000);
    assert_int_equal(g.status, PTO_OK);
    assert_int_equal(g.stats.submitted, 1);
    assert_int_equal(g.stats.completed, 0);
    assert_int_equal(g.stats.oldest, held);
    assert_int_equal(g.stats.level[0].ring[PTO_RING_TASKS].used, 1);
    assert_int_equal(g.stats.level[0].ring[PTO_RING_TASKS].peak, 1);
    assert_int_equal(g.stats.level[1].ring[PTO_RING_TASKS].used, 0);
    rig_finish(&r, held, PTO_OK);
    rig_stop(&r);
}

static void test_stats_from_another_thread(void **state)
{
    rig r;
    watcher w;
    pthread_t thread;
    pto_config config = PTO_CONFIG_INIT;
    config.ring_tasks = 64;
    config.heap_bytes = 16384;
    rig_start(&r, state, &config);
    char(*memory)[8] = rig_memory(&r, sizeof(char[4][8]));
    memset(&w, 0, sizeof w);
    w.rt = r.rt;
    atomic_init(&w.quit, false);
    atomic_init(&w.looks, 0);
    assert_int_equal(pthread_create(&thread, NULL, watch, &w), 0);
    while (atomic_load(&w.looks) == 0) {
        rig_sleep_us(10);
    }
    uint64_t rounds = test_effort(2000);
    for (uint64_t i = 0; i < rounds; i++) {
        expect_ok(pto_scope_begin(r.rt));
        pto_tensor t = rig_temp(&r, 1000), x = rig_bytes(&r, memory[i % 4], 8);
        RIG_SUBMIT(&r, r.fill, pto_output(&t), pto_scalar(1));
        RIG_SUBMIT(&r, i % 100 == 7 ? r.fails : r.quick, pto_input(&t), pto_output(&x));
        RIG_SUBMIT(&r, r.quick, pto_input(&x));
        expect_ok(pto_scope_end(r.rt));
    }
    assert_int_equal(pto_wait(r.rt), PTO_TASK_FAILED);
    atomic_store(&w.quit, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    if (w.wrong) {
        fail_msg("%s", w.wrong);
    }
    pto_runtime_stats s = rig_stats(&r);
    assert_int_equal(s.submitted, 3 * rounds);
    assert_int_equal(s.completed, 3 * rounds);
    uint64_t bad = 0;
    for (uint64_t i = 0; i < rounds; i++) {
        bad += i % 100 == 7;
    }
    assert_int_equal(s.failed, bad);
    assert_int_equal(s.skipped, bad);
    expect_ok(pto_clear_error(r.rt));
    rig_stop(&r);
}

int main(void)
{
    const rig_case cases[] = {
        RIG_CASE(test_names),
        RIG_CASE(test_a_task_through_its_states),
        RIG_CASE(test_alloc_is_no_task),
        RIG_CASE(test_tasks_that_never_were),
        RIG_CASE(test_counts_of_a_known_program),
        RIG_CASE(test_waits_are_counted),
        RIG_CASE(test_the_first_look_of_another_thread),
        RIG_CASE(test_stats_from_another_thread),
    };
    return rig_run("info", cases, sizeof cases / sizeof *cases);
}
