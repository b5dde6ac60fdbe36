/* test_replay.c - the replay of runs whose answers are known: chains, forks, types, lifetimes; bounds that
 * hold for any graph; and rings of which one grain less is too small, in the model and in the
 * runtime. */
#include "replay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <pto/pto.h>

#include "support.h"

enum { TASKS = 400, ARGS = 1200, EDGES = 2400, LIVES = 1200 };

/* A trace that is written by hand. */
static struct {
    ptrace_task tasks[TASKS];
    ptrace_edge edges[EDGES];
    ptrace_arg args[ARGS];
    ptrace_life lives[LIVES];
    ptrace_kernel kernels[PTO_WORKER_TYPES];
    ptrace_lane lanes[4];
    uint64_t now;
    ptoi_ptrace trace;
} made;

static void begin(void)
{
    memset(&made, 0, sizeof made);
    for (uint32_t k = 0; k < PTO_WORKER_TYPES; k++) {
        made.kernels[k].type = k;
    }
    made.trace = (ptoi_ptrace){.tasks = made.tasks,
                               .edges = made.edges,
                               .args = made.args,
                               .lives = made.lives,
                               .kernels = made.kernels,
                               .n_kernels = PTO_WORKER_TYPES,
                               .lanes = made.lanes};
}

/* It ran for so long, at no time that matters. */
static uint32_t add_task(uint32_t type, uint64_t ns, uint32_t level)
{
    const uint32_t i = (uint32_t)made.trace.n_tasks++;
    assert_in_range(i, 0, TASKS - 1);
    made.tasks[i] = (ptrace_task){.task = (uint64_t)(i + 1) * 2 * 8 + level,
                                  .called = made.now,
                                  .submitted = made.now,
                                  .start = 1000000,
                                  .end = 1000000 + ns,
                                  .kernel = type,
                                  .site = PTRACE_NONE,
                                  .lane = PTRACE_NONE,
                                  .first_edge = (uint32_t)made.trace.n_edges,
                                  .first_arg = (uint32_t)made.trace.n_args,
                                  .level = (uint8_t)level};
    return i;
}

/* The last task comes after this one. */
static void add_edge(uint32_t from)
{
    const uint32_t to = (uint32_t)made.trace.n_tasks - 1;
    assert_in_range(made.trace.n_edges, 0, EDGES - 1);
    made.edges[made.trace.n_edges++] = (ptrace_edge){
        .from = from, .to = to, .arg_from = PTRACE_NONE, .arg_to = PTRACE_NONE};
    made.tasks[to].edges++;
}

/* The last task uses a managed buffer. */
static void add_arg(uint32_t buffer, uint64_t bytes, pto_param_kind access)
{
    ptrace_task *task = &made.tasks[made.trace.n_tasks - 1];
    assert_in_range(made.trace.n_args, 0, ARGS - 1);
    made.args[made.trace.n_args++] = (ptrace_arg){.bytes = bytes,
                                                  .buffer = buffer,
                                                  .segment = task->level,
                                                  .access = (uint8_t)access,
                                                  .dims = PTRACE_NONE};
    task->args++;
}

/* `number` is that of a lifetime, for MEMORY. */
static void add_life(ptrace_life_kind kind, uint32_t number, uint32_t buffer, uint64_t bytes)
{
    assert_in_range(made.trace.n_lives, 0, LIVES - 1);
    made.lives[made.trace.n_lives++] = (ptrace_life){
        .at = made.now, .task = number, .bytes = bytes, .buffer = buffer, .kind = (uint16_t)kind};
    made.now++; /* what is noted before a task is before it in time */
}

static replay_machine machine(uint32_t types, uint32_t workers)
{
    replay_machine m = {.caller = 0};
    m.workers[types] = workers;
    return m;
}

static replay_result run(const replay_machine *m)
{
    replay_plan plan;
    replay_result result;
    assert_true(replay_plan_make(&made.trace, &plan));
    replay_run(&plan, m, NULL, &result);
    replay_plan_free(&plan);
    return result;
}

static uint64_t makespan(const replay_machine *m)
{
    const replay_result result = run(m);
    assert_int_equal(result.end, REPLAY_DONE);
    return result.makespan;
}

static uint64_t makespan_on(uint32_t workers)
{
    const replay_machine m = machine(PTO_ALL_TYPES, workers);
    return makespan(&m);
}

/* ---- Known answers ---- */

static void test_nothing(void **state)
{
    (void)state;
    begin();
    assert_int_equal(makespan_on(1), 0);
    assert_int_equal(makespan_on(0), 0);
}

static void test_chain(void **state)
{
    (void)state;
    begin();
    for (uint32_t i = 0; i < 50; i++) {
        add_task(PTO_VECTOR, 10 + i, 0);
        if (i) {
            add_edge(i - 1);
        }
    }
    for (uint32_t workers = 1; workers <= 8; workers *= 2) {
        assert_int_equal(makespan_on(workers), 50 * 10 + 49 * 50 / 2);
    }
}

static void test_independent(void **state)
{
    (void)state;
    begin();
    for (uint32_t i = 0; i < 48; i++) {
        add_task(PTO_CUBE, 100, 0);
    }
    for (uint32_t workers = 1; workers <= 50; workers++) {
        assert_int_equal(makespan_on(workers), (48 + workers - 1) / workers * 100);
    }
}

static void test_fork_and_join(void **state)
{
    (void)state;
    begin();
    add_task(PTO_CUBE, 70, 0);
    for (uint32_t i = 1; i <= 12; i++) {
        add_task(PTO_CUBE, 30, 0);
        add_edge(0);
    }
    add_task(PTO_CUBE, 11, 0);
    for (uint32_t i = 1; i <= 12; i++) {
        add_edge(i);
    }
    assert_int_equal(makespan_on(1), 70 + 12 * 30 + 11);
    assert_int_equal(makespan_on(4), 70 + 3 * 30 + 11);
    assert_int_equal(makespan_on(12), 70 + 30 + 11);
    assert_int_equal(makespan_on(100), 70 + 30 + 11);
}

static void test_types(void **state)
{
    (void)state;
    begin();
    for (uint32_t i = 0; i < 8; i++) {
        add_task(PTO_CUBE, 100, 0);
        add_task(PTO_VECTOR, 10, 0);
    }
    replay_machine m = machine(1u << PTO_CUBE, 2);
    m.workers[1u << PTO_VECTOR] = 1;
    assert_int_equal(makespan(&m), 400);
    m.workers[1u << PTO_CUBE] = 8;
    assert_int_equal(makespan(&m), 100);
    m.workers[1u << PTO_CUBE] = 1;
    assert_int_equal(makespan(&m), 800);
    /* Nobody for one of them. */
    m.workers[1u << PTO_VECTOR] = 0;
    const replay_result result = run(&m);
    assert_int_equal(result.end, REPLAY_NO_WORKER);
    assert_int_equal(result.node, 1);
}

/* P, which A made ready, goes before Q, which has waited longer: so R, which waits for P, runs beside
 * Q and not after it. */
static void test_workers_go_on_with_what_they_made_ready(void **state)
{
    (void)state;
    begin();
    const uint32_t a = add_task(PTO_CUBE, 10, 0), v = add_task(PTO_VECTOR, 5, 0);
    add_task(PTO_CUBE, 100, 0); /* Q */
    add_edge(v);
    const uint32_t p = add_task(PTO_CUBE, 10, 0);
    add_edge(a);
    add_task(PTO_VECTOR, 100, 0); /* R */
    add_edge(p);
    replay_machine m = machine(1u << PTO_CUBE, 1);
    m.workers[1u << PTO_VECTOR] = 1;
    assert_int_equal(makespan(&m), 10 + 10 + 100);
}

static void test_caller_helps_while_it_waits(void **state)
{
    (void)state;
    begin();
    for (uint32_t i = 0; i < 10; i++) {
        add_task(PTO_CUBE, 100, 0);
    }
    replay_machine m = machine(PTO_ALL_TYPES, 1);
    assert_int_equal(makespan(&m), 1000);
    m.caller = PTO_ALL_TYPES;
    assert_int_equal(makespan(&m), 500);
    m.workers[PTO_ALL_TYPES] = 0;
    assert_int_equal(makespan(&m), 1000);
    /* With what it does not serve, it does not. */
    m.caller = 1u << PTO_VECTOR;
    m.workers[PTO_ALL_TYPES] = 1;
    assert_int_equal(makespan(&m), 1000);
}

static void test_submits_take_their_time(void **state)
{
    (void)state;
    begin();
    for (uint32_t i = 0; i < 10; i++) {
        const uint32_t task = add_task(PTO_CUBE, 5, 0);
        made.tasks[task].submitted = made.now + 20;
        made.now += 50; /* 30 of other work */
    }
    assert_int_equal(makespan_on(1), 9 * 50 + 20 + 5);
    assert_int_equal(makespan_on(9), 9 * 50 + 20 + 5);
}

static void test_time_that_was_waited_is_nobodys(void **state)
{
    (void)state;
    begin();
    static ptrace_event events[2];
    add_task(PTO_CUBE, 5, 0);
    events[0] = (ptrace_event){10, 1000, 0, PTRACE_WAIT, 0, 0};
    made.now = 1010; /* 10 before the wait, 10 after it */
    const uint32_t task = add_task(PTO_CUBE, 5, 0);
    events[1] = (ptrace_event){1015, 2000, 0, (uint16_t)ptrace_room(PTO_RING_TASKS), 0, 1};
    made.tasks[task].submitted = 2003; /* 5 before, 3 after */
    made.tasks[task].blocked = 985;
    made.trace.events = events;
    made.trace.n_events = 2;
    made.trace.n_lanes = 1;
    assert_int_equal(makespan_on(1), 10 + 10 + 5 + 3 + 5);
    made.tasks[0].end += 95; /* the wait is as long as the task */
    assert_int_equal(makespan_on(1), 100 + 10 + 5 + 3 + 5);
}

static void test_pending_tasks_leave_their_worker(void **state)
{
    (void)state;
    begin();
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t task = add_task(PTO_ACCELERATOR, 1000, 0);
        made.tasks[task].start = 1000000 + 10 * i; /* the next one began when this had not ended */
        made.tasks[task].end = made.tasks[task].start + 1000;
        made.tasks[task].lane = 0;
    }
    made.lanes[0].kind = PTRACE_LANE_WORKER;
    made.trace.n_lanes = 1;
    assert_int_equal(makespan_on(1), 30 + 1000);
}

static void test_skipped_tasks_take_no_worker(void **state)
{
    (void)state;
    begin();
    add_task(PTO_CUBE, 100, 0);
    for (uint32_t i = 1; i < 6; i++) {
        const uint32_t task = add_task(PTO_CUBE, 100, 0);
        add_edge(i - 1);
        made.tasks[task].start = PTRACE_UNKNOWN;
        made.tasks[task].outcome = PTRACE_SKIPPED;
    }
    assert_int_equal(makespan_on(1), 100);
}

/* ---- Any graph ---- */

enum { DEEP = 3, BUFFERS = 1200, MOST_ARGS = 3 };

/* Memory as the runtime sees it, step by step: who holds a block, and how much of the heap cannot be
 * free when all tasks are complete. */
typedef struct memory {
    uint32_t depth; /* open lifetimes */
    uint32_t n_blocks, n_buffers;
    uint64_t most; /* bytes that a block needed, with those that could not go before it */
    struct {
        uint64_t bytes;
        uint32_t lifetime; /* 0: ended, or never in one */
        uint32_t live;
    } blocks[BUFFERS];
    uint32_t block_of[BUFFERS]; /* of buffers, from 1; BUFFERS: it is gone */
} memory;

static void begin_lifetime(memory *m)
{
    add_life(PTRACE_BEGUN, 0, 0, 0);
    m->depth++;
}

static void end_lifetime(memory *m)
{
    add_life(PTRACE_ENDED, 0, 0, 0);
    for (uint32_t i = 0; i < m->n_blocks; i++) {
        m->blocks[i].lifetime = m->blocks[i].lifetime == m->depth ? 0 : m->blocks[i].lifetime;
    }
    for (uint32_t i = 1; i <= m->n_buffers; i++) {
        m->block_of[i] = m->block_of[i] != BUFFERS && !m->blocks[m->block_of[i]].lifetime
                             ? BUFFERS
                             : m->block_of[i];
    }
    m->depth--;
}

static void bear(memory *m, uint32_t lifetime)
{
    m->blocks[m->n_blocks].lifetime = lifetime;
    m->blocks[m->n_blocks].live = 0;
    m->blocks[m->n_blocks++].bytes = 0;
}

static uint32_t bear_buffer(memory *m, uint64_t bytes)
{
    m->blocks[m->n_blocks - 1].bytes += (bytes + 63) / 64 * 64;
    m->blocks[m->n_blocks - 1].live++;
    m->block_of[++m->n_buffers] = m->n_blocks - 1;
    return m->n_buffers;
}

/* The newest block is complete: how much memory is in use from the oldest that is held? */
static void measure(memory *m)
{
    uint32_t oldest = 0;
    uint64_t bytes = 0;
    while (oldest < m->n_blocks - 1 && !(m->blocks[oldest].lifetime && m->blocks[oldest].live)) {
        oldest++;
    }
    for (uint32_t i = oldest; i < m->n_blocks && m->blocks[m->n_blocks - 1].bytes; i++) {
        bytes += m->blocks[i].bytes;
    }
    m->most = bytes > m->most ? bytes : m->most;
}

/* A buffer that still is; 0: none was met. */
static uint32_t some_buffer(test_rng *rng, const memory *m)
{
    for (int tries = 0; tries < 4 && m->n_buffers; tries++) {
        const uint32_t b = (uint32_t)test_between(rng, 1, m->n_buffers);
        if (m->block_of[b] != BUFFERS) {
            return b;
        }
    }
    return 0;
}

static void give_up_some(test_rng *rng, memory *m)
{
    const uint32_t buffer = some_buffer(rng, m);
    if (buffer) {
        add_life(PTRACE_GIVEN_UP, 0, buffer, 0);
        m->blocks[m->block_of[buffer]].live--;
        m->block_of[buffer] = BUFFERS;
    }
}

/* What happens between two tasks. `grain`: all sizes are 0 or this; 0: any. */
static void change_lifetimes(test_rng *rng, memory *m, uint64_t grain)
{
    if (test_between(rng, 0, 4) == 0) {
        if (m->depth == DEEP || (m->depth && test_between(rng, 0, 1))) {
            end_lifetime(m);
        } else {
            begin_lifetime(m);
        }
    }
    if (m->depth && test_between(rng, 0, 7) == 0) { /* perhaps in an outer one */
        const uint32_t lifetime = (uint32_t)test_between(rng, 1, m->depth);
        const uint64_t bytes = grain ? grain : (uint64_t)test_between(rng, 1, 500);
        bear(m, lifetime);
        add_life(PTRACE_MEMORY, lifetime, bear_buffer(m, bytes), bytes);
        measure(m);
    }
    if (test_between(rng, 0, 2) == 0) {
        give_up_some(rng, m);
    }
}

/* The last task uses memory, and brings some. */
static void add_args(test_rng *rng, memory *m, uint64_t grain)
{
    bool brings = false;
    for (int64_t a = m->depth ? test_between(rng, 0, MOST_ARGS) : 0; a > 0; a--) {
        const uint32_t used = test_between(rng, 0, 1) ? some_buffer(rng, m) : 0;
        if (used) {
            add_arg(used, 1, PTO_PARAM_INPUT);
            continue;
        }
        if (!brings) {
            bear(m, m->depth);
        }
        const uint64_t bytes = !grain ? (uint64_t)test_between(rng, 0, 1000)
                               : brings || test_between(rng, 0, 5) == 0 ? 0
                                                                        : grain;
        add_arg(bear_buffer(m, bytes), bytes, PTO_PARAM_OUTPUT);
        brings = true;
    }
    if (brings) {
        measure(m);
    }
}

/* Returns how much heap it needs at least, if all sizes are 0 or `grain`. */
static uint64_t make_random(test_rng *rng, bool managed, uint64_t grain)
{
    static memory m;
    const uint32_t tasks = (uint32_t)test_between(rng, 1, 120);
    uint32_t first = 0;
    m = (memory){0};
    begin();
    for (uint32_t i = 0; i < tasks; i++) {
        if (managed) {
            change_lifetimes(rng, &m, grain);
        }
        add_task((uint32_t)test_between(rng, 0, 3), (uint64_t)test_between(rng, 1, 300), 0);
        for (int64_t e = test_between(rng, 0, 3); e > 0 && i; e--) {
            const uint32_t from = (uint32_t)test_between(rng, first, i - 1);
            bool known = false;
            for (uint32_t k = 0; k < made.tasks[i].edges; k++) {
                known |= made.edges[made.tasks[i].first_edge + k].from == from;
            }
            if (!known) {
                add_edge(from);
            }
        }
        add_args(rng, &m, grain);
        first = test_between(rng, 0, 9) ? first : i;
    }
    return m.most;
}

/* Graham: whoever never lets a worker idle while a task is ready takes at most work/m and a part of
 * the critical path; and nobody takes less than each. With a worker for each task it is the critical
 * path itself. */
static void test_bounds_hold(void **state)
{
    test_rng rng = test_rng_make(test_seed());
    (void)state;
    for (uint64_t n = test_effort(200); n > 0; n--) {
        make_random(&rng, false, 0);
        trace_stats stats;
        assert_true(trace_count(&made.trace, &stats));
        for (uint32_t workers = 1; workers <= 16; workers *= 2) {
            const uint64_t ns = makespan_on(workers);
            assert_true(ns >= stats.critical && ns * workers >= stats.work);
            assert_true(ns * workers <= stats.work + (workers - 1) * stats.critical);
        }
        assert_int_equal(makespan_on(1), stats.work);
        assert_int_equal(makespan_on(TASKS), stats.critical);
        trace_stats_free(&stats);
    }
}

static uint64_t count_waits(const replay_result *r)
{
    uint64_t waits = 0;
    for (uint32_t i = 0; i < PTO_MAX_LEVELS * PTO_RINGS; i++) {
        waits += r->waits[i / PTO_RINGS][i % PTO_RINGS];
    }
    return waits;
}

static uint64_t less(uint32_t ring, uint64_t size)
{
    return replay_grain(ring) ? size - replay_grain(ring) : size / 2;
}

/* Whether a submit waits for that ring, or the run does not end, in at least one way. */
static bool is_short(const replay_plan *plan, replay_machine *m, uint32_t level, uint32_t ring)
{
    bool found = false;
    for (uint32_t way = 0; way < REPLAY_WAYS; way++) {
        replay_result result;
        m->way = (replay_way)way;
        replay_run(plan, m, NULL, &result);
        found |= result.end == REPLAY_STALLED || result.waits[level][ring] > 0;
    }
    m->way = REPLAY_AS_NEEDED;
    return found;
}

/* Together no submit waits, in any way; in any one of them that is only counted, the next smaller size
 * makes one wait. Where it also matters where pieces lie, one grain less does so nearly always. */
static void test_rings_are_the_smallest(void **state)
{
    test_rng rng = test_rng_make(test_seed() + 1);
    uint64_t tried = 0, tight = 0;
    (void)state;
    for (uint64_t n = test_effort(100); n > 0; n--) {
        make_random(&rng, true, 0);
        replay_plan plan;
        replay_sizes sizes;
        replay_result result;
        replay_machine m = machine(PTO_ALL_TYPES, (uint32_t)test_between(&rng, 1, 4));
        m.caller = test_between(&rng, 0, 1) ? PTO_ALL_TYPES : 0;
        assert_true(replay_plan_make(&made.trace, &plan));
        assert_true(replay_rings_find(&plan, &m, &sizes));
        assert_int_equal(sizes.with_free.end, REPLAY_DONE);
        assert_int_equal(count_waits(&sizes.with_free), 0);
        assert_int_equal(sizes.with_good.end, REPLAY_DONE);
        assert_int_equal(sizes.with_least.end, REPLAY_DONE);
        replay_run(&plan, &m, NULL, &result); /* without bounds: no longer, no shorter */
        assert_int_equal(result.makespan, sizes.with_free.makespan);
        assert_true(sizes.with_good.makespan <= result.makespan + result.makespan / 100);
        for (uint32_t r = 0; r < PTO_RINGS; r++) {
            m.rings = sizes.free;
            assert_false(is_short(&plan, &m, 0, r));
            if (sizes.free.size[0][r] > replay_smallest(r)) {
                m.rings.size[0][r] = less(r, sizes.free.size[0][r]);
                const bool last = is_short(&plan, &m, 0, r);
                /* A task with more accesses than the map has entries runs alone: it may not wait. */
                const bool alone = r == PTO_RING_MAP && m.rings.size[0][r] < MOST_ARGS;
                assert_true(last || replay_grain(r) || alone);
                tight += last;
                tried++;
            }
        }
        m.rings = sizes.least;
        for (uint32_t way = 0; way < REPLAY_WAYS; way++) {
            m.way = (replay_way)way;
            replay_run(&plan, &m, NULL, &result);
            assert_int_equal(result.end, REPLAY_DONE);
        }
        replay_plan_free(&plan);
    }
    assert_true(tried > 0 && tight * 4 >= tried * 3);
}

static replay_sizes sizes_of(uint32_t workers)
{
    replay_plan plan;
    replay_sizes sizes;
    const replay_machine m = machine(PTO_ALL_TYPES, workers);
    assert_true(replay_plan_make(&made.trace, &plan));
    assert_true(replay_rings_find(&plan, &m, &sizes));
    replay_plan_free(&plan);
    return sizes;
}

/* The heap that is called proven is enough however long the tasks take, whoever runs them. And it is
 * no larger than a block more for each one that is held. */
static void test_a_proven_heap_never_deadlocks(void **state)
{
    test_rng rng = test_rng_make(test_seed() + 2);
    uint64_t guesses = 0;
    (void)state;
    for (uint64_t n = test_effort(60); n > 0; n--) {
        make_random(&rng, true, 0);
        const replay_sizes sizes = sizes_of((uint32_t)test_between(&rng, 1, 4));
        assert_int_not_equal(sizes.proven_heap[0], 0);
        assert_true(sizes.least.size[0][PTO_RING_HEAP] <= sizes.proven_heap[0]);
        guesses += sizes.least.size[0][PTO_RING_HEAP] < sizes.proven_heap[0];
        for (int again = 0; again < 20; again++) {
            for (uint64_t i = 0; i < made.trace.n_tasks; i++) {
                made.tasks[i].end = made.tasks[i].start + (uint64_t)test_between(&rng, 1, 3000);
            }
            replay_machine m = machine(PTO_ALL_TYPES, (uint32_t)test_between(&rng, 1, 6));
            m.rings.size[0][PTO_RING_HEAP] = sizes.proven_heap[0];
            m.way = (replay_way)test_between(&rng, 0, REPLAY_WAYS - 1);
            assert_int_equal(run(&m).end, REPLAY_DONE);
        }
    }
    assert_int_not_equal(guesses, 0); /* else the test is about nothing */
    /* Three blocks are held by a lifetime, and the fourth is larger: 3 * 64, and four gaps of 128. */
    begin();
    add_life(PTRACE_BEGUN, 0, 0, 0);
    for (uint32_t i = 1; i <= 4; i++) {
        add_task(PTO_CUBE, 10, 0);
        add_arg(i, i < 4 ? 64 : 128, PTO_PARAM_OUTPUT);
    }
    assert_int_equal(sizes_of(1).proven_heap[0], 3 * 64 + 4 * 128);
}

/* ---- Lifetimes ---- */

/* Blocks of one size leave no gap that is too small, so what is held is all that counts. */
static void test_the_least_heap_is_what_lifetimes_hold(void **state)
{
    test_rng rng = test_rng_make(test_seed() + 3);
    uint64_t more = 0;
    (void)state;
    for (uint64_t n = test_effort(200); n > 0; n--) {
        const uint64_t most = make_random(&rng, true, 192);
        const replay_sizes sizes = sizes_of((uint32_t)test_between(&rng, 1, 4));
        assert_int_equal(sizes.least.size[0][PTO_RING_HEAP], most ? most : 64);
        assert_int_equal(sizes.least.size[0][PTO_RING_TASKS], 2);
        assert_int_equal(sizes.least.size[0][PTO_RING_ARGS], 64);
        more += most > 192;
        if (most > 192) { /* a grain less stalls for ever, whatever the workers */
            replay_machine m = machine(PTO_ALL_TYPES, (uint32_t)test_between(&rng, 1, 6));
            m.rings.size[0][PTO_RING_HEAP] = most - 64;
            const replay_result result = run(&m);
            assert_int_equal(result.end, REPLAY_STALLED);
            assert_int_equal(result.ring, PTO_RING_HEAP);
        }
    }
    assert_int_not_equal(more, 0);
}

static void test_lifetimes_hold_memory_and_nothing_else(void **state)
{
    (void)state;
    for (int scoped = 0; scoped < 2; scoped++) {
        begin();
        for (uint32_t round = 0; round < 5; round++) {
            if (scoped) {
                add_life(PTRACE_BEGUN, 0, 0, 0);
            }
            for (uint32_t i = 0; i < 10; i++) {
                add_task(PTO_CUBE, 100, 0);
                add_arg(round * 10 + i + 1, 100, PTO_PARAM_OUTPUT);
            }
            if (scoped) {
                add_life(PTRACE_ENDED, 0, 0, 0);
            }
        }
        const replay_sizes sizes = sizes_of(1);
        assert_int_equal(sizes.free.size[0][PTO_RING_TASKS], 64);
        assert_int_equal(sizes.free.size[0][PTO_RING_HEAP], 50 * 128);
        assert_int_equal(sizes.least.size[0][PTO_RING_TASKS], 2);
        assert_int_equal(sizes.least.size[0][PTO_RING_HEAP], scoped ? 10 * 128 : 128);
        assert_int_equal(sizes.least.size[0][PTO_RING_ARGS], 64);
        /* Slots and arguments are waited for, however few there are. */
        replay_machine m = machine(PTO_ALL_TYPES, 1);
        m.rings.size[0][PTO_RING_TASKS] = 2;
        m.rings.size[0][PTO_RING_ARGS] = 64;
        assert_int_equal(makespan(&m), 50 * 100);
    }
}

/* Of three blocks in a lifetime the first is given up at once, and the third before the second: its
 * room comes back only after the second. */
static void test_memory_that_is_given_up(void **state)
{
    (void)state;
    begin();
    add_life(PTRACE_BEGUN, 0, 0, 0);
    add_task(PTO_CUBE, 10, 0);
    add_arg(1, 64, PTO_PARAM_OUTPUT);
    add_arg(2, 64, PTO_PARAM_OUTPUT);
    add_life(PTRACE_GIVEN_UP, 0, 1, 0);
    add_life(PTRACE_MEMORY, 1, 3, 64); /* the block of both is still there: 192 */
    add_life(PTRACE_GIVEN_UP, 0, 2, 0);
    add_life(PTRACE_MEMORY, 1, 4, 64);
    add_life(PTRACE_GIVEN_UP, 0, 4, 0);
    add_task(PTO_CUBE, 10, 0);
    add_arg(5, 128, PTO_PARAM_OUTPUT); /* 64 held, and 64 behind it: 256 */
    add_life(PTRACE_GIVEN_UP, 0, 3, 0);
    add_life(PTRACE_GIVEN_UP, 0, 5, 0);
    add_task(PTO_CUBE, 10, 0);
    add_arg(6, 192, PTO_PARAM_OUTPUT); /* nothing is held */
    assert_int_equal(sizes_of(1).least.size[0][PTO_RING_HEAP], 256);
    replay_machine m = machine(PTO_ALL_TYPES, 1);
    m.rings.size[0][PTO_RING_HEAP] = 192;
    const replay_result result = run(&m);
    assert_int_equal(result.end, REPLAY_STALLED);
    assert_int_equal(result.node, 1);
}

/* Two slots, and a block that no task brings between tasks: it takes none. */
static void test_memory_takes_no_slot(void **state)
{
    (void)state;
    begin();
    add_life(PTRACE_BEGUN, 0, 0, 0);
    add_task(PTO_CUBE, 100, 0);
    for (uint32_t i = 1; i <= 5; i++) {
        add_life(PTRACE_MEMORY, 1, i, 64);
    }
    add_task(PTO_CUBE, 100, 0);
    replay_machine m = machine(PTO_ALL_TYPES, 2);
    m.rings.size[0][PTO_RING_TASKS] = 2;
    const replay_result result = run(&m);
    assert_int_equal(result.end, REPLAY_DONE);
    assert_int_equal(result.waits[0][PTO_RING_TASKS], 0);
    assert_int_equal(result.most[0][PTO_RING_TASKS], 2);
}

static void test_files_in_which_scopes_hold_tasks(void **state)
{
    (void)state;
    begin();
    add_life(PTRACE_BEGUN, 0, 0, 0);
    add_life(PTRACE_MEMORY, 1, 1, 64);
    assert_false(replay_is_outdated(&made.trace));
    add_life(PTRACE_RELEASED, 0, 0, 0);
    assert_true(replay_is_outdated(&made.trace));
}

/* A owns memory that B uses for long: C, which wants as much, waits for B, not for A alone. */
static void test_memory_lives_as_long_as_it_is_used(void **state)
{
    (void)state;
    begin();
    add_task(PTO_CUBE, 10, 0);
    add_arg(1, 64, PTO_PARAM_OUTPUT);
    add_task(PTO_CUBE, 1000, 0);
    add_edge(0);
    add_arg(1, 64, PTO_PARAM_INPUT);
    add_task(PTO_CUBE, 5, 0);
    add_arg(2, 64, PTO_PARAM_OUTPUT);
    replay_machine m = machine(PTO_ALL_TYPES, 3);
    assert_int_equal(makespan(&m), 1010);
    m.rings.size[0][PTO_RING_HEAP] = 64;
    const replay_result result = run(&m);
    assert_int_equal(result.end, REPLAY_DONE);
    assert_int_equal(result.makespan, 10 + 1000 + 5);
    assert_int_equal(result.waits[0][PTO_RING_HEAP], 1);
    assert_int_equal(result.waited, 1010);
}

/* ---- The runtime itself ---- */

static pto_status nothing(const pto_call *call)
{
    (void)call;
    return PTO_OK;
}

static pto_tensor new_tensor(pto_runtime *rt, int64_t bytes)
{
    pto_buffer buffer;
    pto_tensor t;
    assert_int_equal(pto_create_buffer(rt, (uint64_t)bytes, &buffer), PTO_OK);
    assert_int_equal(pto_managed_tensor(rt, &buffer, 0, PTO_UINT8, 1, (int64_t[]){bytes}, &t),
                     PTO_OK);
    return t;
}

/* Scopes of several tasks each, with blocks of one size or of several, some of them before their
 * first task. Half of the memory is given up early. A task of each scope writes memory of the scope
 * outside. */
static pto_status program(const pto_config *config, bool even)
{
    pto_runtime *rt = NULL;
    pto_kernel kernel;
    pto_status status = pto_runtime_create(&rt, config);
    assert_int_equal(status, PTO_OK);
    assert_int_equal(pto_kernel_register(rt, "nothing", PTO_CUBE, nothing, NULL, &kernel), PTO_OK);
    assert_int_equal(pto_scope_begin(rt), PTO_OK);
    for (uint32_t round = 0; round < 6 && status == PTO_OK; round++) {
        const pto_tensor outer = new_tensor(rt, 100);
        PTO_BOUNDARY(rt) {
            pto_tensor old;
            status = pto_alloc(rt, PTO_UINT8, 1,
                               (int64_t[]){even ? 100 : 200 + 10 * (int64_t)round}, &old);
            for (int64_t i = 0; i < 7 + round && status == PTO_OK; i++) {
                const pto_tensor t = new_tensor(rt, even ? 100 + i : 50 * i + 8);
                status = pto_submit(rt, kernel, pto_inout(&old), pto_output(&t));
                if (status == PTO_OK && i < 4) {
                    assert_int_equal(pto_release(rt, &old), PTO_OK);
                }
                old = t;
            }
            if (status == PTO_OK) {
                status = pto_submit(rt, kernel, pto_inout(&old), pto_output(&outer), pto_scalar(1),
                                    pto_scalar(2), pto_scalar(3));
            }
        }
        if (status == PTO_OK && round % 2) {
            assert_int_equal(pto_release(rt, &outer), PTO_OK);
        }
    }
    assert_int_equal(pto_scope_end(rt), PTO_OK);
    assert_int_equal(pto_runtime_destroy(&rt, status == PTO_OK ? PTO_WAIT : PTO_CANCEL), PTO_OK);
    return status;
}

static pto_config config_of(const replay_rings *rings, const char *trace)
{
    pto_config config = PTO_CONFIG_INIT;
    config.levels = 2;
    config.workers = PTO_NO_WORKERS;
    config.guard = PTO_NO_GUARD;
    config.trace = trace;
    if (rings) {
        for (uint32_t l = 0; l < config.levels; l++) {
            config.level_ring_tasks[l] = (uint32_t)rings->size[l][PTO_RING_TASKS];
            config.level_heap_bytes[l] = rings->size[l][PTO_RING_HEAP];
            config.level_arg_bytes[l] = rings->size[l][PTO_RING_ARGS];
        }
    }
    return config;
}

/* What replay says of a recorded run is what the runtime does: at the least it gets to its end. If
 * blocks have one size, then the least is exact: with one grain less of a heap it reports a stall. */
static void check_program(bool even)
{
    char path[] = "/tmp/pto_replay.XXXXXX.ptrace";
    const int file = mkstemps(path, 7);
    ptoi_ptrace trace;
    replay_plan plan;
    replay_machine m;
    replay_sizes sizes;
    assert_true(file >= 0);
    close(file);
    pto_config config = config_of(NULL, path);
    assert_int_equal(program(&config, even), PTO_OK);
    assert_int_equal(ptoi_ptrace_open(path, &trace), PTO_OK);
    unlink(path);
    assert_true(replay_plan_make(&trace, &plan));
    assert_int_equal(plan.n_nodes - plan.n_tasks, 12);
    replay_machine_recorded(&plan, &m);
    assert_true(replay_rings_find(&plan, &m, &sizes));
    config = config_of(&sizes.least, NULL);
    assert_int_equal(program(&config, even), PTO_OK);
    assert_int_equal(sizes.least.size[1][PTO_RING_TASKS], 2);
    assert_int_equal(sizes.least.size[1][PTO_RING_ARGS], 128);
    for (uint32_t i = 0; i < 3; i++) { /* the heaps, then the arguments */
        replay_rings rings = sizes.least;
        rings.size[i < 1 ? 0 : 1][i < 2 ? PTO_RING_HEAP : PTO_RING_ARGS] -= 64;
        config = config_of(&rings, NULL);
        if (even || i != 1) {
            assert_int_equal(program(&config, even), i < 2 ? PTO_STALLED : PTO_TOO_LARGE);
        }
    }
    replay_plan_free(&plan);
    ptoi_ptrace_close(&trace);
}

static void test_the_runtime_agrees(void **state)
{
    (void)state;
    check_program(true);
    check_program(false);
}

/* As many layout descriptors as have ids, one dim each; then a scope of tasks with further ones. They
 * get the ids of tasks that are recycled, so their arguments take no more room than others. */
enum { DESCS = 65535, MANY = 32, LATER = 20 };

static pto_status crowded_program(const pto_config *config)
{
    char byte = 0;
    pto_runtime *rt = NULL;
    pto_kernel kernel;
    pto_param params[MANY];
    pto_tensor tensors[MANY];
    int64_t stride = 1;
    pto_status status = pto_runtime_create(&rt, config);
    assert_int_equal(status, PTO_OK);
    assert_int_equal(pto_kernel_register(rt, "nothing", PTO_CUBE, nothing, NULL, &kernel), PTO_OK);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(
            pto_tensor_init(&tensors[i], &byte, 1, PTO_UINT8, 1, (int64_t[]){1}, NULL, 0), PTO_OK);
        params[i] = pto_nodep(pto_input(&tensors[i]));
    }
    while (stride <= DESCS && status == PTO_OK) {
        for (uint32_t i = 0; i < MANY; i++) {
            tensors[i].strides[0] = stride++;
        }
        status = pto_submit_task(rt, kernel, PTO_KERNEL_TYPE, params, MANY, NULL);
    }
    PTO_BOUNDARY(rt) {
        for (uint32_t i = 0; i < LATER && status == PTO_OK; i++) {
            tensors[0].strides[0] = stride++;
            status = pto_submit_task(rt, kernel, PTO_KERNEL_TYPE, params, 1, NULL);
        }
    }
    assert_int_equal(pto_runtime_destroy(&rt, status == PTO_OK ? PTO_WAIT : PTO_CANCEL), PTO_OK);
    return status;
}

static void test_ids_of_descs_come_back(void **state)
{
    char path[] = "/tmp/pto_replay.XXXXXX.ptrace";
    const int file = mkstemps(path, 7);
    ptoi_ptrace trace;
    replay_plan plan;
    (void)state;
    assert_true(file >= 0);
    close(file);
    pto_config config = config_of(NULL, path);
    assert_int_equal(crowded_program(&config), PTO_OK);
    assert_int_equal(ptoi_ptrace_open(path, &trace), PTO_OK);
    unlink(path);
    assert_true(replay_plan_make(&trace, &plan));
    assert_int_equal(plan.nodes[0].args, MANY);
    assert_int_equal(plan.nodes[plan.n_tasks - 1].args, 1);
    replay_plan_free(&plan);
    ptoi_ptrace_close(&trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_independent),
        cmocka_unit_test(test_fork_and_join),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_workers_go_on_with_what_they_made_ready),
        cmocka_unit_test(test_caller_helps_while_it_waits),
        cmocka_unit_test(test_submits_take_their_time),
        cmocka_unit_test(test_time_that_was_waited_is_nobodys),
        cmocka_unit_test(test_pending_tasks_leave_their_worker),
        cmocka_unit_test(test_skipped_tasks_take_no_worker),
        cmocka_unit_test(test_bounds_hold),
        cmocka_unit_test(test_rings_are_the_smallest),
        cmocka_unit_test(test_a_proven_heap_never_deadlocks),
        cmocka_unit_test(test_the_least_heap_is_what_lifetimes_hold),
        cmocka_unit_test(test_lifetimes_hold_memory_and_nothing_else),
        cmocka_unit_test(test_memory_that_is_given_up),
        cmocka_unit_test(test_memory_takes_no_slot),
        cmocka_unit_test(test_files_in_which_scopes_hold_tasks),
        cmocka_unit_test(test_memory_lives_as_long_as_it_is_used),
        cmocka_unit_test(test_the_runtime_agrees),
        cmocka_unit_test(test_ids_of_descs_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
