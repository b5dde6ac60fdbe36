/* test_advice.c - what `pto trace report` advises, of traces that are written by hand: each piece of
 * advice where it is due, and none where it is not. */
#define _GNU_SOURCE /* open_memstream */
#include "said.h"

#include "trace.h"

enum { TASKS = 400, US = 1000 };

static struct {
    ptrace_task tasks[TASKS];
    ptrace_edge edges[TASKS];
    ptrace_event events[40];
    ptrace_kernel kernels[2];
    ptrace_lane lanes[5];
    ptrace_cap caps[PTO_RINGS];
    char meta[64];
    ptoi_ptrace trace;
} made;

static const char strings[] = "\0first\0second";

static void begin(uint32_t workers, uint32_t cores)
{
    memset(&made, 0, sizeof made);
    made.kernels[0].name = 1;
    made.kernels[1].name = 7;
    for (uint32_t w = 0; w <= workers; w++) {
        made.lanes[w] = (ptrace_lane){.kind = w ? PTRACE_LANE_WORKER : PTRACE_LANE_ORCHESTRATOR,
                                      .types = w ? PTO_ALL_TYPES : 0};
    }
    for (uint32_t r = 0; r < PTO_RINGS; r++) {
        made.caps[r] = (ptrace_cap){.capacity = 1 << 20, .ring = r};
    }
    snprintf(made.meta, sizeof made.meta, "workers=%u\ncores=%u\n", workers, cores);
    made.trace = (ptoi_ptrace){.tasks = made.tasks,
                               .edges = made.edges,
                               .events = made.events,
                               .kernels = made.kernels,
                               .n_kernels = 2,
                               .lanes = made.lanes,
                               .n_lanes = workers + 1,
                               .caps = made.caps,
                               .n_caps = PTO_RINGS,
                               .strings = strings,
                               .n_strings = sizeof strings,
                               .meta = made.meta,
                               .n_meta = strlen(made.meta)};
}

/* A task that was submitted in `submit` ns from `called` on, and ran on a worker. */
static uint32_t add_task(uint64_t called, uint64_t submit, uint32_t worker, uint64_t start,
                         uint64_t ran)
{
    const uint32_t i = (uint32_t)made.trace.n_tasks++;
    assert_true(i < TASKS);
    made.tasks[i] = (ptrace_task){.task = (uint64_t)(i + 1) * 8,
                                  .called = called,
                                  .submitted = called + submit,
                                  .ready = start,
                                  .start = start,
                                  .end = start + ran,
                                  .retired = start + ran,
                                  .kernel = i % 2,
                                  .site = PTRACE_NONE,
                                  .lane = worker + 1,
                                  .first_edge = (uint32_t)made.trace.n_edges};
    return i;
}

static void add_edge(uint32_t from, ptrace_edge_kind kind)
{
    const uint32_t to = (uint32_t)made.trace.n_tasks - 1;
    made.edges[made.trace.n_edges++] = (ptrace_edge){.from = from,
                                                     .to = to,
                                                     .kind = (uint8_t)kind,
                                                     .arg_from = PTRACE_NONE,
                                                     .arg_to = PTRACE_NONE};
    made.tasks[to].edges++;
}

static char *advice(void)
{
    char *text = NULL;
    size_t n = 0;
    trace_stats stats;
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    assert_true(trace_count(&made.trace, &stats));
    assert_true(trace_print_advice(out, "my run.ptrace", &made.trace, &stats));
    trace_stats_free(&stats);
    fclose(out);
    return text;
}

#define EXPECT_ADVICE(...)                                                                         \
    do {                                                                                           \
        char *text_ = advice();                                                                    \
        EXPECT_SAID(text_, __VA_ARGS__);                                                           \
        free(text_);                                                                               \
    } while (0)

static void expect_none(const char *words)
{
    char *text = advice();
    if (strstr(text, words)) {
        fail_msg("'%s' is advised:\n%s", words, text);
    }
    free(text);
}

/* Long and short tasks in turn, in a ring of four: a long task keeps the slots of the short ones
 * behind it, and the second worker has nothing to do. */
static void test_a_ring(void **state)
{
    (void)state;
    for (uint64_t waits = 0; waits < 2; waits++) {
        begin(2, 2);
        made.caps[PTO_RING_TASKS].capacity = 4;
        for (uint64_t group = 0; group < 40; group++) {
            const uint64_t at = group * 1000 * US, room = group ? 990 * US : 0;
            const uint32_t task = add_task(at - room, room + US, 0, at + US, 998 * US);
            if (room && waits) {
                made.tasks[task].blocked = room;
                made.events[made.trace.n_events++] = (ptrace_event){
                    .begin = at - room, .end = at, .kind = (uint16_t)ptrace_room(PTO_RING_TASKS)};
            }
            for (uint64_t k = 0; k < 3; k++) {
                add_task(at + (2 + k) * US, US, 1, at + (4 + k) * US, US);
            }
        }
        if (waits) {
            EXPECT_ADVICE("\nadvice\n",
                          "submits waited 38.6 ms, 97 % of the makespan, for room in the task ring "
                          "of level 0, which has 4\n",
                          "    raise it: PTO_RING_TASKS=8\n", "a replay of the run takes 20.",
                          "with that, and 40.0 ms as recorded\n");
        } else {
            expect_none("raise");
        }
    }
    /* Submits wait, but the workers are busy: a larger ring would gain nothing. */
    begin(1, 2);
    made.caps[PTO_RING_TASKS].capacity = 4;
    for (uint64_t i = 0; i < 100; i++) {
        add_task(i > 3 ? (i - 4) * 100 * US : i * US, US, 0, 100 * US * i + US, 100 * US);
    }
    made.events[0] = (ptrace_event){.end = 9000 * US,
                                    .kind = (uint16_t)ptrace_room(PTO_RING_TASKS)};
    made.trace.n_events = 1;
    expect_none("raise");
}

/* Independent tasks, one worker that never rests, and a machine with more cores. */
static void test_workers(void **state)
{
    (void)state;
    for (uint32_t cores = 2; cores <= 8; cores *= 4) {
        begin(1, cores);
        for (uint64_t i = 0; i < 200; i++) {
            add_task(i * US, US, 0, 1 * US + i * 100 * US, 100 * US);
        }
        if (cores == 8) {
            EXPECT_ADVICE("the 1 thread that runs tasks was in kernels 100 % of the time, and the "
                          "machine has 8 cores\n",
                          "more workers would help: PTO_WORKERS=7. A replay of the run takes 2.9",
                          "and 20.0 ms as recorded\n");
        } else {
            char *text = advice();
            assert_string_equal(text, ""); /* nothing at all */
            free(text);
        }
    }
}

/* More workers than a chain can use are not advised. */
static void test_workers_of_a_chain(void **state)
{
    (void)state;
    begin(1, 8);
    for (uint32_t i = 0; i < 100; i++) {
        add_task(i * US, US, 0, US + i * UINT64_C(100) * US, 100 * US);
        if (i) {
            add_edge(i - 1, PTRACE_RAW);
        }
    }
    expect_none("workers");
}

/* A task is submitted in 500 ns and runs for 100, or for 10,000. */
static void test_tiles(void **state)
{
    (void)state;
    for (int large = 0; large < 2; large++) {
        begin(3, 4);
        const uint64_t ran = large ? 10000 : 100;
        for (uint64_t i = 0; i < 300; i++) {
            add_task(i * 500, 500, (uint32_t)(i % 3), (i + 1) * 500 + i / 3 * (large ? 10000 : 0),
                     ran);
        }
        if (large) {
            expect_none("tiles");
        } else {
            EXPECT_ADVICE("tiles are too small: a task runs for 100 ns on average, and its submit "
                          "takes 500 ns; submitting is 100 % of the makespan\n",
                          "with 3 threads a task should run for at least 1.50 us");
            expect_none("waited for"); /* it is not the dependencies */
        }
    }
}

/* `second` waits for `first`: 99 tasks in a chain, on two workers. */
static void test_dependencies(void **state)
{
    (void)state;
    static const ptrace_edge_kind kinds[] = {PTRACE_RAW, PTRACE_WAR};
    for (size_t k = 0; k < 2; k++) {
        begin(2, 2);
        for (uint32_t i = 0; i < 100; i++) {
            const uint64_t ran = i % 2 ? 10 * US : 90 * US;
            const uint64_t start = US * (UINT64_C(50) * i + (i % 2 ? 40 : 0)) + US;
            add_task(i * US / 2, US / 2, 0, start, ran);
            if (i) {
                add_edge(i - 1, kinds[k]);
            }
        }
        EXPECT_ADVICE("threads had no task 50 % of the time. 50 tasks of second waited for first, ",
                      k ? " each on average (WAR)" : " each on average (RAW)",
                      "task 99 waited longest: pto explain 'my run.ptrace' 98 99\n");
        if (k) {
            EXPECT_ADVICE("they wait to overwrite memory: write to memory of their own");
        } else {
            expect_none("overwrite");
        }
    }
}

/* Four workers on two cores, which are all in kernels all the time; on four cores, or in turn, that
 * is fine. And nothing is said about a run of few tasks. */
static void test_too_many_workers(void **state)
{
    enum { CROWDED, CORES_ENOUGH, IN_TURN, FEW_TASKS, CASES };
    (void)state;
    for (int c = 0; c < CASES; c++) {
        begin(4, c == CORES_ENOUGH ? 4 : 2);
        for (uint64_t i = 0; i < (c == FEW_TASKS ? 96 : 200); i++) {
            const uint64_t turn = c == IN_TURN ? i : i / 4;
            add_task(i * US / 8, US / 8, (uint32_t)(i % 4), (100 + turn * 100) * US, 100 * US);
        }
        if (c == CROWDED) {
            EXPECT_ADVICE(
                "up to 4 threads were in kernels, 98 % of the time more than the 2 cores of "
                "the machine",
                "    try PTO_WORKERS=1\n");
        } else {
            expect_none("PTO_WORKERS");
        }
    }
}

/* The path of a run that waits in between: tasks after a wait come after those before it. */
static void test_the_path_with_waits(void **state)
{
    (void)state;
    trace_stats stats;
    begin(2, 2);
    add_task(0, US, 0, US, 100 * US);             /* 0 */
    add_task(2 * US, US, 1, 3 * US, 50 * US);     /* 1 */
    add_task(200 * US, US, 0, 201 * US, 30 * US); /* 2: after a wait for task 1 */
    add_task(400 * US, US, 0, 401 * US, 10 * US); /* 3: after a wait for all */
    made.events[0] = (ptrace_event){
        .begin = 4 * US, .end = 60 * US, .kind = PTRACE_WAIT, .value = 16};
    made.events[1] = (ptrace_event){.begin = 300 * US, .end = 310 * US, .kind = PTRACE_WAIT};
    made.events[2] = (ptrace_event){.begin = 500 * US, .end = 510 * US, .kind = PTRACE_WAIT};
    made.trace.n_events = 3; /* nothing is submitted after the last */
    assert_true(trace_count(&made.trace, &stats));
    assert_int_equal(stats.critical, 100 * US);
    assert_int_equal(stats.waits, 2);
    assert_int_equal(stats.with_waits, (100 + 10) * US);
    trace_stats_free(&stats);
    made.tasks[1].end += 200 * US;
    assert_true(trace_count(&made.trace, &stats));
    assert_int_equal(stats.critical, 250 * US);
    assert_int_equal(stats.with_waits, (250 + 30 + 10) * US);
    trace_stats_free(&stats);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_ring),
        cmocka_unit_test(test_workers),
        cmocka_unit_test(test_workers_of_a_chain),
        cmocka_unit_test(test_tiles),
        cmocka_unit_test(test_dependencies),
        cmocka_unit_test(test_too_many_workers),
        cmocka_unit_test(test_the_path_with_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
