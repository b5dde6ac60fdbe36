/* test_trace.c - a fixed program is recorded and read back, field by field. */
#define _GNU_SOURCE /* setenv, mkdtemp, program_invocation_short_name */
#include "traces.h"

#include <pto/trace.h>

#include <errno.h>
#include <sys/stat.h>

typedef struct edge {
    uint32_t from, to;
    ptrace_edge_kind kind;
    uint32_t arg_from, arg_to; /* of their tasks */
    bool same;                 /* region */
} edge;

static void expect_edges(const ptoi_ptrace *t, const edge *want, size_t n)
{
    assert_int_equal(t->n_edges, n);
    for (size_t i = 0; i < n; i++) {
        const ptrace_edge *e = &t->edges[i];
        const ptrace_task *to = &t->tasks[want[i].to];
        if (e->from != want[i].from || e->to != want[i].to || e->kind != want[i].kind) {
            fail_msg("edge %zu: %u -> %u kind %u, want %u -> %u kind %u", i, e->from, e->to,
                     e->kind, want[i].from, want[i].to, want[i].kind);
        }
        assert_true(i >= to->first_edge && i < to->first_edge + to->edges);
        if (want[i].kind == PTRACE_AFTER) {
            assert_int_equal(e->arg_from, PTRACE_NONE);
            assert_int_equal(e->arg_to, PTRACE_NONE);
            continue;
        }
        assert_int_equal(e->arg_from, t->tasks[want[i].from].first_arg + want[i].arg_from);
        assert_int_equal(e->arg_to, to->first_arg + want[i].arg_to);
        assert_int_equal(e->verdict == PTRACE_SAME_REGION, want[i].same);
    }
}

/* The configuration of a traced runtime, and the path of its file. */
static pto_config recorded(char path[128])
{
    pto_config config = PTO_CONFIG_INIT;
    config.trace = traces_path("run.ptrace", path);
    return config;
}

static void stop(rig *r, pto_status status)
{
    expect_status(pto_runtime_destroy(&r->rt, PTO_WAIT), status, (const char *const[]){NULL},
                  "destroy", __FILE__, __LINE__);
    assert_null(r->rt);
    rig_forget_gate(r);
}

static void expect_arg(const ptoi_ptrace *t, uint32_t task, uint32_t arg, const void *where,
                       uint64_t bytes, int64_t count, int64_t stride, uint32_t access)
{
    assert_true(arg < t->tasks[task].args);
    const ptrace_arg *a = &t->args[t->tasks[task].first_arg + arg];
    assert_int_equal(a->where, (uintptr_t)where);
    assert_int_equal(a->bytes, bytes);
    assert_int_equal(a->segment, PTRACE_USER);
    assert_int_equal(a->buffer, 0);
    assert_int_equal(a->dtype, PTO_UINT8);
    assert_int_equal(a->access, access);
    assert_int_equal(a->ndim, 1);
    assert_int_equal(t->dims[a->dims], count);
    assert_int_equal(t->dims[a->dims + 1], stride);
}

/* ---- Fork and join, all kinds of edges ---- */

static void test_every_edge_and_every_field(void **state)
{
    const rig_setup *setup = *state;
    rig r;
    char path[128];
    const pto_config config = recorded(path);
    rig_start(&r, state, &config);
    char *x = rig_memory(&r, 8);
    char *y = rig_memory(&r, 8);
    char *z = rig_memory(&r, 8);
    pto_tensor tx = rig_bytes(&r, x, 8), ty = rig_bytes(&r, y, 8), tz = rig_bytes(&r, z, 8);
    const pto_tensor part = rig_slice(&tx, 2, 6);
    pto_tensor even;
    expect_ok(pto_tensor_slice(&tx, 0, 0, 8, 2, &even));
    pto_task task[9];
    const int line = __LINE__ + 1; /* no task starts before the first is complete */
    task[0] = RIG_SUBMIT(&r, r.hold, pto_output(&tx));
    task[1] = RIG_SUBMIT(&r, r.quick, pto_scalar(7), pto_input(&tx), pto_output(&ty));
    task[2] = RIG_SUBMIT(&r, r.quick, pto_input(&tx), pto_output(&tz));
    task[3] = RIG_SUBMIT(&r, r.quick, pto_input(&ty), pto_input(&tz));
    task[4] = RIG_SUBMIT(&r, r.quick, pto_output(&tx));
    task[5] = RIG_SUBMIT(&r, r.quick, pto_after(task[3]), pto_after(task[0]));
    task[6] = RIG_SUBMIT(&r, r.quick, pto_inout(&part));
    task[7] = RIG_SUBMIT(&r, r.quick, pto_input(&even), pto_output(&ty));
    task[8] = RIG_SUBMIT(&r, r.quick, pto_nodep(pto_inout(&tx)));
    pto_runtime_stats stats;
    do { /* until its kernel has returned: then this thread completes the task, and no worker does */
        stats = rig_stats(&r);
    } while (stats.pending == 0);
    rig_finish(&r, task[0], PTO_OK);
    expect_ok(pto_wait(r.rt));
    stop(&r, PTO_OK);

    ptoi_ptrace t;
    expect_ok(ptoi_ptrace_open(path, &t));
    assert_int_equal(t.n_tasks, 9);
    assert_int_equal(t.lost, 0);
    const edge want[] = {
        {0, 1, PTRACE_RAW, 0, 1, true},
        {0, 2, PTRACE_RAW, 0, 0, true},
        {1, 3, PTRACE_RAW, 2, 0, true},
        {2, 3, PTRACE_RAW, 1, 1, true},
        {0, 4, PTRACE_WAW, 0, 0, true},
        {1, 4, PTRACE_WAR, 1, 0, true},
        {2, 4, PTRACE_WAR, 0, 0, true},
        {0, 5, PTRACE_AFTER, 0, 0, false},
        {3, 5, PTRACE_AFTER, 0, 0, false},
        {4, 6, PTRACE_RAW, 0, 0, false}, /* writes a part of what 4 wrote */
        {1, 7, PTRACE_WAW, 2, 1, true},  /* of y */
        {3, 7, PTRACE_WAR, 0, 1, true},  /* of y */
        {4, 7, PTRACE_RAW, 0, 0, false}, /* of x */
        {6, 7, PTRACE_RAW, 0, 0, false}, /* of the part */
    };
    expect_edges(&t, want, sizeof want / sizeof *want);
    /* The runtime itself counted as many, while no task was complete. */
    assert_int_equal(stats.raw + stats.war + stats.waw + stats.after, t.n_edges);
    assert_int_equal(t.edges[9].verdict, PTO_STAGE_DENSE);
    traces_check_times(&t);
    for (uint32_t i = 0; i < 9; i++) {
        const ptrace_task *at = &t.tasks[i];
        assert_int_equal(at->task, task[i]);
        assert_int_equal(at->outcome, PTRACE_DONE);
        assert_int_equal(at->level, 0);
        assert_string_equal(ptoi_ptrace_kernel(&t, at), i ? "quick" : "hold");
        assert_string_equal(ptoi_ptrace_file(&t, at), __FILE__);
        assert_int_equal(ptoi_ptrace_line(&t, at), line + (int)i);
        assert_int_equal(t.kernels[at->kernel].type, PTO_VECTOR);
        assert_true(t.lanes[at->lane].kind <= PTRACE_LANE_WORKER);
    }
    /* 1 became ready when 0 was completed, by another thread. */
    assert_true(t.tasks[1].ready >= t.tasks[0].end);
    assert_int_equal(t.n_lanes, setup->place == PTO_PLACE_THREAD ? 5 : 4);
    assert_int_equal(t.lanes[0].kind, PTRACE_LANE_ORCHESTRATOR);
    assert_int_equal(t.lanes[1].kind, PTRACE_LANE_WORKER);
    assert_int_equal(t.lanes[t.n_lanes - 1].kind, PTRACE_LANE_FOREIGN);
    assert_string_equal(ptoi_ptrace_string(&t, t.lanes[2].name), "worker 1");
    expect_arg(&t, 0, 0, x, 8, 8, 1, PTO_PARAM_OUTPUT);
    expect_arg(&t, 1, 1, x, 8, 8, 1, PTO_PARAM_INPUT);
    expect_arg(&t, 1, 2, y, 8, 8, 1, PTO_PARAM_OUTPUT);
    expect_arg(&t, 6, 0, x + 2, 8, 4, 1, PTO_PARAM_INOUT);
    assert_int_equal(t.args[t.tasks[0].first_arg].offset, 1);
    assert_int_equal(t.args[t.tasks[6].first_arg].offset, 3);
    expect_arg(&t, 7, 0, x, 8, 4, 2, PTO_PARAM_INPUT);
    expect_arg(&t, 8, 0, x, 8, 8, 1, PTO_PARAM_INOUT | PTRACE_NODEP);
    const ptrace_arg *scalar = &t.args[t.tasks[1].first_arg];
    assert_int_equal(scalar->access, PTO_PARAM_SCALAR);
    assert_int_equal(scalar->where, 7);
    assert_int_equal(scalar->ndim, 0);
    assert_int_equal(t.tasks[5].args, 0); /* `after` is no argument */
    assert_int_equal(t.n_caps, 4 * PTO_RINGS);
    assert_int_equal(t.caps[0].capacity, 1024);
    ptoi_ptrace_close(&t);
}

/* The name of a process (comm) has at most 15 letters; that of a program may have more. */
static void test_the_whole_name_of_the_program(void **state)
{
    rig r;
    char path[128], *was = program_invocation_short_name;
    const pto_config config = recorded(path);
    program_invocation_short_name = "a_program_with_a_long_name";
    rig_start(&r, state, &config);
    char *x = rig_memory(&r, 8);
    pto_tensor tx = rig_bytes(&r, x, 8);
    RIG_SUBMIT(&r, r.quick, pto_output(&tx));
    stop(&r, PTO_OK);
    program_invocation_short_name = was;
    ptoi_ptrace t;
    static const char want[] = "program=a_program_with_a_long_name\n";
    expect_ok(ptoi_ptrace_open(path, &t));
    assert_true(t.n_meta > sizeof want - 1);
    assert_memory_equal(t.meta, want, sizeof want - 1);
    ptoi_ptrace_close(&t);
}

/* ---- Failures ---- */

static void test_failed_and_skipped(void **state)
{
    rig r;
    char path[128];
    const pto_config config = recorded(path);
    rig_start(&r, state, &config);
    char *x = rig_memory(&r, 8);
    char *y = rig_memory(&r, 8);
    char *z = rig_memory(&r, 8);
    pto_tensor tx = rig_bytes(&r, x, 8), ty = rig_bytes(&r, y, 8), tz = rig_bytes(&r, z, 8);
    RIG_SUBMIT(&r, r.fails, pto_output(&tx));
    RIG_SUBMIT(&r, r.quick, pto_input(&tx), pto_output(&ty));
    RIG_SUBMIT(&r, r.quick, pto_input(&ty));
    RIG_SUBMIT(&r, r.quick, pto_output(&tz));
    stop(&r, PTO_TASK_FAILED); /* it reports the failure and still writes the trace */

    ptoi_ptrace t;
    static const uint8_t outcomes[] = {PTRACE_FAILED, PTRACE_SKIPPED, PTRACE_SKIPPED, PTRACE_DONE};
    expect_ok(ptoi_ptrace_open(path, &t));
    assert_int_equal(t.n_tasks, 4);
    traces_check_times(&t);
    for (uint32_t i = 0; i < 4; i++) {
        const bool ran = outcomes[i] != PTRACE_SKIPPED;
        assert_int_equal(t.tasks[i].outcome, outcomes[i]);
        assert_int_equal(t.tasks[i].start != PTRACE_UNKNOWN, ran);
        assert_int_equal(t.tasks[i].lane != PTRACE_NONE, ran);
    }
    assert_int_equal(t.n_failures, 3);
    const ptrace_failure *f = t.failures;
    assert_int_equal(f[0].task, 0);
    assert_int_equal(f[0].cause, 0);
    assert_int_equal(f[0].edge, PTRACE_NONE);
    assert_string_equal(ptoi_ptrace_string(&t, f[0].words), "no luck");
    assert_string_equal(ptoi_ptrace_string(&t, f[0].name), pto_status_name(f[0].status));
    for (uint32_t i = 1; i < 3; i++) {
        assert_int_equal(f[i].task, i);
        assert_int_equal(f[i].cause, 0);
        assert_int_equal(t.edges[f[i].edge].from, i - 1);
        assert_int_equal(t.edges[f[i].edge].to, i);
        assert_int_equal(f[i].status, PTO_OK);
        assert_string_equal(ptoi_ptrace_string(&t, f[i].words), "");
    }
    assert_ptr_equal(ptoi_ptrace_failure(&t, 2), &f[2]);
    assert_null(ptoi_ptrace_failure(&t, 3));
    ptoi_ptrace_close(&t);
}

static pto_status returns_its_scalar(const pto_call *call)
{
    return (pto_status)pto_arg_i64(&call->args[1]);
}

/* A status that is none of the library's keeps its number, in the trace and in what is made of it.
 * The longest words have room, however many tasks fail. */
static void test_unknown_status(void **state)
{
    enum { TASKS = 60 };
    static const int numbers[] = {INT32_MIN, INT32_MIN + 1};
    rig r;
    char path[128], other[128], want[64];
    const pto_config config = recorded(path);
    pto_kernel kernel;
    rig_start(&r, state, &config);
    char *x = rig_memory(&r, 8);
    expect_ok(pto_kernel_register(r.rt, "odd", PTO_VECTOR, returns_its_scalar, NULL, &kernel));
    pto_tensor tx = rig_bytes(&r, x, 8);
    for (int i = 0; i < TASKS; i++) {
        RIG_SUBMIT(&r, kernel, pto_output(&tx), pto_scalar(numbers[i % 2]));
    }
    stop(&r, PTO_TASK_FAILED);

    ptoi_ptrace t;
    expect_ok(ptoi_ptrace_open(path, &t));
    assert_int_equal(t.n_failures, TASKS);
    for (int i = 0; i < TASKS; i++) {
        snprintf(want, sizeof want, "status %d, which is none of PTO's", numbers[i % 2]);
        assert_int_equal((int)t.failures[i].status, numbers[i % 2]);
        assert_string_equal(ptoi_ptrace_string(&t, t.failures[i].name), want);
    }
    ptoi_ptrace_close(&t);
    expect_ok(pto_trace_convert(path, traces_path("odd.json", other)));
    size_t n;
    char *json = traces_bytes(other, &n);
    assert_non_null(strstr(json, want));
    free(json);
}

/* Two failures reach one task: the first in order of submission is the cause. Poison does not
 * follow WAR and WAW edges. Words of pto_task_complete are recorded, too. */
static void test_causes(void **state)
{
    rig r;
    char path[128];
    const pto_config config = recorded(path);
    rig_start(&r, state, &config);
    char *x = rig_memory(&r, 8);
    char *y = rig_memory(&r, 8);
    char *z = rig_memory(&r, 8);
    pto_tensor tx = rig_bytes(&r, x, 8), ty = rig_bytes(&r, y, 8), tz = rig_bytes(&r, z, 8);
    pto_task held = RIG_SUBMIT(&r, r.hold, pto_output(&tx));
    pto_task last = RIG_SUBMIT(&r, r.fails, pto_output(&ty));
    RIG_SUBMIT(&r, r.quick, pto_input(&ty), pto_input(&tx), pto_output(&tz));
    RIG_SUBMIT(&r, r.quick, pto_output(&tx)); /* WAW after the first, WAR after the skipped task */
    RIG_SUBMIT(&r, r.quick, pto_input(&tx), pto_after(last));
    rig_finish(&r, held, PTO_SYSTEM);
    stop(&r, PTO_TASK_FAILED);

    ptoi_ptrace t;
    static const uint32_t causes[] = {0, 1, 0, PTRACE_NONE, 1};
    expect_ok(ptoi_ptrace_open(path, &t));
    assert_int_equal(t.n_tasks, 5);
    assert_int_equal(t.n_failures, 4);
    for (uint32_t i = 0; i < 5; i++) {
        const ptrace_failure *f = ptoi_ptrace_failure(&t, i);
        assert_int_equal(f ? f->cause : PTRACE_NONE, causes[i]);
    }
    assert_int_equal(t.failures[0].status, PTO_SYSTEM);
    assert_string_equal(ptoi_ptrace_string(&t, t.failures[0].name), "PTO_SYSTEM");
    assert_int_equal(t.edges[t.failures[3].edge].kind, PTRACE_AFTER);
    ptoi_ptrace_close(&t);
}

/* Tasks that a cancel skips have no cause. */
static void test_cancelled(void **state)
{
    rig r;
    char path[128];
    const pto_config config = recorded(path);
    rig_start(&r, state, &config);
    char *x = rig_memory(&r, 8);
    pto_tensor tx = rig_bytes(&r, x, 8);
    pto_task held = RIG_SUBMIT(&r, r.hold, pto_output(&tx));
    RIG_SUBMIT(&r, r.quick, pto_input(&tx));
    rig_until(&r, held, PTO_TASK_RUNNING);
    pto_cancel(r.rt);
    rig_finish(&r, held, PTO_OK);
    stop(&r, PTO_CANCELLED);

    ptoi_ptrace t;
    expect_ok(ptoi_ptrace_open(path, &t));
    assert_int_equal(t.n_failures, 1);
    assert_int_equal(t.failures[0].task, 1);
    assert_int_equal(t.failures[0].cause, PTRACE_NONE);
    assert_int_equal(t.failures[0].edge, PTRACE_NONE);
    ptoi_ptrace_close(&t);
}

/* ---- Waits ---- */

static void test_waits_for_room_and_tasks(void **state)
{
    rig r;
    char path[128];
    pto_config config = recorded(path);
    config.ring_tasks = 4;
    config.workers = PTO_NO_WORKERS;
    rig_start(&r, state, &config);
    char *x = rig_memory(&r, 8);
    pto_tensor tx = rig_bytes(&r, x, 8);
    pto_task last = 0;
    for (int i = 0; i < 40; i++) {
        last = RIG_SUBMIT(&r, r.quick, pto_inout(&tx));
    }
    expect_ok(pto_wait_task(r.rt, last));
    char out[8];
    expect_ok(pto_read(r.rt, &tx, out, 8));
    expect_ok(pto_wait(r.rt));
    stop(&r, PTO_OK);

    ptoi_ptrace t;
    uint64_t rooms = 0, waits = 0, waited = 0, blocked = 0, most = 0;
    bool for_last = false;
    expect_ok(ptoi_ptrace_open(path, &t));
    assert_int_equal(t.n_tasks, 40);
    traces_check_times(&t);
    for (uint64_t i = 0; i < t.n_events; i++) {
        const ptrace_event *e = &t.events[i];
        if (e->kind == ptrace_room(PTO_RING_TASKS)) {
            assert_int_equal(e->lane, 0);
            assert_int_equal(e->level, 0);
            assert_int_equal(e->value, 1);
            rooms++;
            waited += e->end - e->begin;
        }
        waits += e->kind == PTRACE_WAIT;
        for_last |= e->kind == PTRACE_WAIT && e->value == last;
    }
    for (uint64_t i = 0; i < t.n_tasks; i++) {
        blocked += t.tasks[i].blocked;
        assert_int_equal(t.tasks[i].lane, 0);
        assert_int_equal(t.tasks[i].edges, i ? 1 : 0);
    }
    for (uint64_t i = 0; i < t.n_rings; i++) {
        if (t.rings[i].ring == PTO_RING_TASKS && t.rings[i].used > most) {
            most = t.rings[i].used;
        }
    }
    assert_true(rooms > 0);
    assert_int_equal(blocked, waited);
    assert_true(for_last);
    assert_true(waits >= 2);
    assert_true(most > 0 && most <= 4);
    assert_int_equal(t.caps[PTO_RING_TASKS].capacity, 4);
    ptoi_ptrace_close(&t);
}

/* ---- Managed memory ---- */

/* Short-lived buffers reuse the same bytes of the heap: this creates no edges. */
static void test_buffers_are_told_apart(void **state)
{
    rig r;
    char path[128];
    pto_config config = recorded(path);
    config.level_heap_bytes[1] = 128;
    config.guard = PTO_NO_GUARD; /* it would move them */
    rig_start(&r, state, &config);
    char *x = rig_memory(&r, 64);
    pto_tensor tx = rig_bytes(&r, x, 64);
    enum { ROUNDS = 20 };
    for (int i = 0; i < ROUNDS; i++) {
        PTO_BOUNDARY(r.rt) {
            pto_tensor temp = rig_temp(&r, 64);
            RIG_SUBMIT(&r, r.quick, pto_input(&tx), pto_output(&temp));
            const pto_tensor half = rig_slice(&temp, 32, 64);
            RIG_SUBMIT(&r, r.quick, pto_inout(&half));
        }
        expect_ok(pto_wait(r.rt)); /* so that memory is reused */
    }
    stop(&r, PTO_OK);

    ptoi_ptrace t;
    expect_ok(ptoi_ptrace_open(path, &t));
    assert_int_equal(t.n_tasks, 2 * ROUNDS);
    assert_int_equal(t.n_edges, ROUNDS);
    traces_check_times(&t);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        const ptrace_edge *e = &t.edges[i];
        const ptrace_arg *whole = &t.args[e->arg_from], *half = &t.args[e->arg_to];
        assert_int_equal(e->from, 2 * i);
        assert_int_equal(e->to, 2 * i + 1);
        assert_int_equal(e->kind, PTRACE_RAW);
        assert_int_equal(whole->segment, 1);
        assert_int_equal(whole->offset, 0); /* not known of managed memory */
        assert_true(whole->where < 128);    /* room for two of the twenty */
        assert_int_equal(half->buffer, whole->buffer);
        assert_int_equal(half->where, whole->where + 32);
        assert_int_equal(half->bytes, 64);
        assert_int_equal(t.tasks[2 * i].level, 1);
        if (i) {
            assert_int_not_equal(whole->buffer, t.args[t.edges[i - 1].arg_from].buffer);
        }
    }
    ptoi_ptrace_close(&t);
}

/* Ring levels from the first use until they are empty again, also for few tasks. */
static void test_rings_until_they_are_empty(void **state)
{
    rig r;
    char path[128];
    pto_config config = recorded(path);
    config.workers = PTO_NO_WORKERS; /* no task is complete before the wait */
    rig_start(&r, state, &config);
    PTO_BOUNDARY(r.rt) {
        const pto_tensor temp = rig_temp(&r, 64);
        RIG_SUBMIT(&r, r.quick, pto_output(&temp));
        RIG_SUBMIT(&r, r.quick, pto_inout(&temp));
        RIG_SUBMIT(&r, r.quick, pto_input(&temp));
    }
    expect_ok(pto_wait(r.rt));
    stop(&r, PTO_OK);

    ptoi_ptrace t;
    uint64_t most[PTO_RINGS] = {0}, last[PTO_RINGS] = {0}, at = 0;
    expect_ok(ptoi_ptrace_open(path, &t));
    traces_check_times(&t);
    for (uint64_t i = 0; i < t.n_rings; i++) {
        const ptrace_ring_sample *s = &t.rings[i];
        assert_int_equal(s->level, 1);
        most[s->ring] = s->used > most[s->ring] ? s->used : most[s->ring];
        last[s->ring] = s->used;
        at = s->ring == PTO_RING_TASKS ? s->at : at;
    }
    assert_int_equal(most[PTO_RING_TASKS], 3);
    assert_true(most[PTO_RING_HEAP] >= 64);
    assert_true(most[PTO_RING_ARGS] > 0);
    for (uint32_t ring = PTO_RING_TASKS; ring <= PTO_RING_DEPS; ring++) {
        assert_int_equal(last[ring], 0);
    }
    assert_true(at >= t.tasks[2].retired);
    ptoi_ptrace_close(&t);
}

/* ---- Lifetimes ---- */

static void expect_life(const ptoi_ptrace *t, uint64_t i, ptrace_life_kind kind, uint32_t level)
{
    assert_true(i < t->n_lives);
    assert_int_equal(t->lives[i].kind, kind);
    assert_int_equal(t->lives[i].level, level);
    assert_true(!i || t->lives[i - 1].at <= t->lives[i].at);
}

static void test_lifetimes_are_recorded(void **state)
{
    rig r;
    char path[128];
    const pto_config config = recorded(path);
    rig_start(&r, state, &config);
    enum { ROUNDS = 2 };
    RIG_SUBMIT(&r, r.quick, pto_scalar(0)); /* in no scope: nothing is recorded */
    PTO_SCOPE(r.rt) {
        pto_tensor kept;
        RIG_SUBMIT(&r, r.quick, pto_scalar(1));
        expect_ok(pto_alloc(r.rt, PTO_UINT8, 1, (int64_t[]){192}, &kept));
        RIG_SUBMIT(&r, r.quick, pto_output(&kept));
        for (int i = 0; i < ROUNDS; i++) {
            PTO_BOUNDARY(r.rt) {
                const pto_tensor temp = rig_temp(&r, 64);
                RIG_SUBMIT(&r, r.quick, pto_output(&temp));
                PTO_SCOPE(r.rt) { /* ends with the boundary: nothing is recorded, either */
                    RIG_SUBMIT(&r, r.quick, pto_inout(&temp));
                }
                expect_ok(pto_release(r.rt, &temp));
            }
        }
        expect_ok(pto_release(r.rt, &kept));
    }
    stop(&r, PTO_OK);

    ptoi_ptrace t;
    expect_ok(ptoi_ptrace_open(path, &t));
    assert_int_equal(t.n_lives, 4 + 3 * ROUNDS);
    expect_life(&t, 0, PTRACE_BEGUN, 0);
    assert_true(t.tasks[0].submitted <= t.lives[0].at && t.lives[0].at <= t.tasks[1].called);
    expect_life(&t, 1, PTRACE_MEMORY, 0);
    assert_int_equal(t.lives[1].bytes, 192);
    assert_int_equal(t.lives[1].buffer, t.args[t.tasks[2].first_arg].buffer);
    assert_int_not_equal(t.lives[1].buffer, 0);
    assert_int_equal(t.lives[1].task, 1); /* the outermost lifetime */
    assert_true(t.tasks[1].submitted <= t.lives[1].at && t.lives[1].at <= t.tasks[2].called);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        const ptrace_life *life = &t.lives[2 + 3 * i];
        const ptrace_task *first = &t.tasks[3 + 2 * i];
        expect_life(&t, 2 + 3 * i, PTRACE_BEGUN, 1);
        expect_life(&t, 3 + 3 * i, PTRACE_GIVEN_UP, 1);
        expect_life(&t, 4 + 3 * i, PTRACE_ENDED, 1);
        assert_int_equal(life[1].buffer, t.args[first->first_arg].buffer);
        assert_true(life[0].at <= first->called && first[1].submitted <= life[1].at);
    }
    expect_life(&t, 2 + 3 * ROUNDS, PTRACE_GIVEN_UP, 0);
    assert_int_equal(t.lives[2 + 3 * ROUNDS].buffer, t.lives[1].buffer);
    expect_life(&t, 3 + 3 * ROUNDS, PTRACE_ENDED, 0);
    ptoi_ptrace_close(&t);
}

/* ---- Many tasks ---- */

typedef struct tile {
    uint32_t writer;       /* task plus one */
    uint32_t readers[600]; /* since */
    uint32_t n_readers;
} tile;

/* Records that task `to` comes after `from`, with the stronger reason. */
static void note(uint8_t *kinds, uint32_t from, ptrace_edge_kind kind)
{
    static const uint8_t rank[] = {[PTRACE_RAW] = 3, [PTRACE_WAW] = 2, [PTRACE_WAR] = 1};
    if (rank[kind] > (kinds[from] ? rank[kinds[from] - 1] : 0)) {
        kinds[from] = (uint8_t)(kind + 1);
    }
}

static void test_many_tasks_as_a_model_says(void **state)
{
    enum { TILES = 8, TASKS = 600, ARGS = 3 };
    static tile tiles[TILES];
    static uint8_t want[TASKS][TASKS];
    rig r;
    char path[128];
    pto_config config = recorded(path);
    config.workers = 3;
    config.ring_tasks = 32;
    rig_start(&r, state, &config);
    char(*memory)[16] = rig_memory(&r, sizeof(char[TILES][16]));
    memset(tiles, 0, sizeof tiles);
    memset(want, 0, sizeof want);
    test_rng rng = test_rng_make(801);
    for (uint32_t i = 0; i < TASKS; i++) {
        pto_tensor t[ARGS];
        pto_param params[ARGS];
        uint32_t which[ARGS];
        for (uint32_t a = 0; a < ARGS; a++) {
            do { /* each tile once */
                which[a] = (uint32_t)(test_next(&rng) % TILES);
            } while ((a && which[a] == which[0]) || (a == 2 && which[a] == which[1]));
            t[a] = rig_bytes(&r, memory[which[a]], 16);
            const uint64_t kind = test_next(&rng) % 4;
            params[a] = kind == 0   ? pto_output(&t[a])
                        : kind == 1 ? pto_inout(&t[a])
                                    : pto_input(&t[a]);
            tile *at = &tiles[which[a]];
            if (at->writer) {
                note(want[i], at->writer - 1,
                     params[a].kind == PTO_PARAM_OUTPUT ? PTRACE_WAW : PTRACE_RAW);
            }
            for (uint32_t n = 0; params[a].kind != PTO_PARAM_INPUT && n < at->n_readers; n++) {
                note(want[i], at->readers[n], PTRACE_WAR);
            }
        }
        for (uint32_t a = 0; a < ARGS; a++) {
            tile *at = &tiles[which[a]];
            if (params[a].kind == PTO_PARAM_INPUT) {
                at->readers[at->n_readers++] = i;
            } else {
                at->writer = i + 1;
                at->n_readers = 0;
            }
        }
        rig_submit(&r, r.quick, params, ARGS, __FILE__, __LINE__);
    }
    stop(&r, PTO_OK);

    ptoi_ptrace t;
    uint64_t n_want = 0;
    expect_ok(ptoi_ptrace_open(path, &t));
    assert_int_equal(t.n_tasks, TASKS);
    assert_int_equal(t.lost, 0);
    traces_check_times(&t);
    for (uint64_t e = 0; e < t.n_edges; e++) {
        assert_int_equal(want[t.edges[e].to][t.edges[e].from], t.edges[e].kind + 1);
    }
    for (uint32_t i = 0; i < TASKS; i++) {
        assert_int_equal(t.tasks[i].outcome, PTRACE_DONE);
        for (uint32_t from = 0; from < i; from++) {
            n_want += want[i][from] != 0;
        }
    }
    assert_int_equal(t.n_edges, n_want);
    ptoi_ptrace_close(&t);
}

/* ---- Limits ---- */

/* Whether both tasks touch a byte of the array, and one of them writes it. */
static bool in_conflict(const ptoi_ptrace *t, uint32_t a, uint32_t b)
{
    const ptrace_task *x = &t->tasks[a], *y = &t->tasks[b];
    for (uint32_t i = x->first_arg; i < x->first_arg + x->args; i++) {
        for (uint32_t j = y->first_arg; j < y->first_arg + y->args; j++) {
            pto_tensor p, q;
            assert_true(ptoi_ptrace_tensor(t, &t->args[i], &p));
            assert_true(ptoi_ptrace_tensor(t, &t->args[j], &q));
            if ((t->args[i].access != PTO_PARAM_INPUT || t->args[j].access != PTO_PARAM_INPUT) &&
                pto_tensor_overlaps(&p, &q)) {
                return true;
            }
        }
    }
    return false;
}

/* Views that overlap in part, so that no single write covers a read: the edges order every pair of
 * tasks in conflict, and no edge is between tasks that are not. */
static void test_partial_overlaps(void **state)
{
    enum { TASKS = 160, BYTES = 24 };
    static bool before[TASKS][TASKS]; /* before[j][i]: there is a path from i to j */
    rig r;
    char path[128];
    const pto_config config = recorded(path);
    test_rng rng = test_rng_make(test_seed());
    rig_start(&r, state, &config);
    char *x = rig_memory(&r, BYTES);
    const pto_tensor tx = rig_bytes(&r, x, BYTES);
    for (uint32_t i = 0; i < TASKS; i++) {
        pto_tensor views[2];
        for (uint32_t k = 0; k < 2; k++) {
            const int64_t from = test_between(&rng, 0, BYTES - 2);
            const int64_t to = test_between(&rng, from + 1, BYTES);
            expect_ok(pto_tensor_slice(&tx, 0, from, to, test_between(&rng, 1, 3), &views[k]));
        }
        switch (test_between(&rng, 0, 3)) {
        case 0:
            RIG_SUBMIT(&r, r.quick, pto_inout(&views[0]));
            break;
        case 1:
            RIG_SUBMIT(&r, r.quick, pto_input(&views[0]), pto_output(&views[1]));
            break;
        default:
            RIG_SUBMIT(&r, r.quick, pto_input(&views[0]), pto_input(&views[1]));
            break;
        }
    }
    stop(&r, PTO_OK);

    ptoi_ptrace t;
    expect_ok(ptoi_ptrace_open(path, &t));
    assert_int_equal(t.n_tasks, TASKS);
    memset(before, 0, sizeof before);
    for (uint32_t j = 0; j < TASKS; j++) {
        for (uint32_t e = t.tasks[j].first_edge; e < t.tasks[j].first_edge + t.tasks[j].edges;
             e++) {
            const uint32_t i = t.edges[e].from;
            assert_true(in_conflict(&t, i, j));
            before[j][i] = true;
            for (uint32_t k = 0; k < i; k++) {
                before[j][k] |= before[i][k];
            }
        }
        for (uint32_t i = 0; i < j; i++) {
            if (!before[j][i] && in_conflict(&t, i, j)) {
                fail_msg("no path from task %u to %u", i, j);
            }
        }
    }
    ptoi_ptrace_close(&t);
}

/* A stencil: each read of a tile and its neighbours is overwritten tile by tile. Every step has the
 * same number of edges, however many came before. */
static void test_a_stencil_has_each_edge_once(void **state)
{
    enum { TILES = 6, STEPS = 24, WIDTH = 4 };
    rig r;
    char path[128];
    const pto_config config = recorded(path);
    rig_start(&r, state, &config);
    char(*x)[TILES * WIDTH] = rig_memory(&r, sizeof(char[2][TILES * WIDTH]));
    char *rhs = rig_memory(&r, 8);
    pto_tensor plane[2] = {rig_bytes(&r, x[0], sizeof x[0]), rig_bytes(&r, x[1], sizeof x[1])};
    const pto_tensor constant = rig_bytes(&r, rhs, 8); /* read by all, and never written */
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < TILES; i++) {
            const int64_t low = i ? i * WIDTH - 1 : 0;
            const int64_t high = i + 1 < TILES ? (i + 1) * WIDTH + 1 : TILES * WIDTH;
            const pto_tensor around = rig_slice(&plane[step % 2], low, high);
            const pto_tensor inside = rig_slice(&plane[1 - step % 2], i * WIDTH, (i + 1) * WIDTH);
            RIG_SUBMIT(&r, r.quick, pto_input(&around), pto_input(&constant), pto_output(&inside));
            /* One more reader, so that there are WAR edges at all. */
            RIG_SUBMIT(&r, r.quick, pto_input(&around));
        }
    }
    stop(&r, PTO_OK);

    ptoi_ptrace t;
    uint64_t steps[STEPS] = {0}, wars = 0;
    expect_ok(ptoi_ptrace_open(path, &t));
    for (uint64_t i = 0; i < t.n_tasks; i++) {
        steps[i / (2 * TILES)] += t.tasks[i].edges;
    }
    for (uint64_t i = 0; i < t.n_edges; i++) {
        wars += t.edges[i].kind == PTRACE_WAR;
    }
    assert_int_not_equal(wars, 0);
    for (int step = 4; step < STEPS; step++) {
        assert_int_equal(steps[step], steps[3]);
    }
    ptoi_ptrace_close(&t);
}

static void test_a_full_log_counts_what_it_loses(void **state)
{
    rig r;
    char path[128];
    pto_config config = recorded(path);
    config.trace_limit = 4;
    rig_start(&r, state, &config);
    char *x = rig_memory(&r, 8);
    pto_tensor tx = rig_bytes(&r, x, 8);
    for (int i = 0; i < 10; i++) {
        RIG_SUBMIT(&r, r.quick, pto_inout(&tx));
    }
    expect_ok(pto_wait(r.rt));
    stop(&r, PTO_OK);
    ptoi_ptrace t;
    expect_ok(ptoi_ptrace_open(path, &t));
    assert_int_equal(t.n_tasks, 4);
    assert_int_equal(t.lost, 6);
    assert_int_equal(t.lanes[0].lost, 6);
    traces_check_times(&t);
    ptoi_ptrace_close(&t);
}

/* A watcher works at the same time. */
static void count_start(void *user, pto_task task, uint32_t worker)
{
    (void)task;
    (void)worker;
    atomic_fetch_add((atomic_int *)user, 1);
}

static void test_watched_and_traced(void **state)
{
    rig r;
    char path[128];
    atomic_int started;
    const pto_config config = recorded(path);
    atomic_init(&started, 0);
    rig_start(&r, state, &config);
    char *x = rig_memory(&r, 8);
    pto_tensor tx = rig_bytes(&r, x, 8);
    RIG_SUBMIT(&r, r.quick, pto_inout(&tx));
    pto_watcher watcher = {.size = sizeof watcher, .user = &started, .started = count_start};
    expect_ok(pto_watch(r.rt, &watcher));
    RIG_SUBMIT(&r, r.quick, pto_inout(&tx));
    RIG_SUBMIT(&r, r.quick, pto_inout(&tx));
    expect_ok(pto_watch(r.rt, NULL));
    /* Arguments that differ in a single field are kept apart. */
    const pto_tensor low = rig_slice(&tx, 0, 4);
    pto_tensor even;
    expect_ok(pto_tensor_slice(&tx, 0, 0, 8, 2, &even));
    RIG_SUBMIT(&r, r.quick, pto_inout(&low));
    RIG_SUBMIT(&r, r.quick, pto_inout(&even));
    stop(&r, PTO_OK);
    assert_int_equal(atomic_load(&started), 2);
    ptoi_ptrace t;
    expect_ok(ptoi_ptrace_open(path, &t));
    assert_int_equal(t.n_tasks, 5);
    expect_arg(&t, 3, 0, x, 8, 4, 1, PTO_PARAM_INOUT);
    expect_arg(&t, 4, 0, x, 8, 4, 2, PTO_PARAM_INOUT);
    traces_check_times(&t);
    ptoi_ptrace_close(&t);
}

/* ---- Files that cannot be written ---- */

/* A traced run runs tasks inline as an untraced one does, and the file says which. */
static void test_inline_tasks_are_traced(void **state)
{
    enum { TASKS = 100, EVERYTHING_NS = 2000000 };
    const bool can = ((const rig_setup *)*state)->place == PTO_PLACE_INLINE;
    uint64_t ran_inline[2];
    char path[128];
    for (int traced = 0; traced < 2; traced++) {
        rig r;
        unsigned char bytes[4][16] = {{0}};
        pto_config config = recorded(path);
        pto_runtime_stats stats;
        pto_tensor t[4];
        config.trace = traced ? path : NULL;
        config.inline_ns = EVERYTHING_NS;
        config.guard = PTO_NO_GUARD;     /* with guards nothing runs inline */
        config.workers = PTO_NO_WORKERS; /* no thread decides by chance */
        rig_start(&r, state, &config);
        for (int i = 0; i < 4; i++) {
            t[i] = rig_bytes(&r, bytes[i], sizeof bytes[i]);
        }
        for (unsigned char i = 0; i < TASKS; i++) {
            RIG_SUBMIT(&r, i == TASKS - 1 ? r.fails : r.fill, pto_output(&t[i % 4]), pto_scalar(i));
            if (i == 4) {
                expect_ok(pto_wait(r.rt)); /* the kernel is timed */
            }
        }
        assert_int_equal(pto_wait(r.rt), PTO_TASK_FAILED);
        expect_ok(pto_stats(r.rt, &stats));
        assert_int_equal(stats.completed, TASKS);
        assert_true(can ? stats.inlined > TASKS / 2 : stats.inlined == 0);
        ran_inline[traced] = stats.inlined;
        stop(&r, PTO_OK);
    }
    assert_int_equal(ran_inline[0], ran_inline[1]);
    ptoi_ptrace t;
    uint64_t marked = 0;
    expect_ok(ptoi_ptrace_open(path, &t));
    traces_check_times(&t);
    assert_int_equal(t.n_tasks, TASKS);
    for (uint64_t i = 0; i < TASKS; i++) {
        const ptrace_task *task = &t.tasks[i];
        assert_int_equal(task->outcome, i == TASKS - 1 ? PTRACE_FAILED : PTRACE_DONE);
        assert_int_equal(task->args, 2);
        assert_int_equal(t.args[task->first_arg].access, PTO_PARAM_OUTPUT);
        assert_int_equal(t.args[task->first_arg + 1].access, PTO_PARAM_SCALAR);
        marked += task->flags & PTRACE_INLINE ? 1 : 0;
    }
    assert_int_equal(marked, ran_inline[1]);
    ptoi_ptrace_close(&t);
}

static void test_a_trace_that_cannot_be_written(void **state)
{
    rig r;
    char path[128], full[128];
    pto_config config = recorded(path);
    /* Errors that can be detected at creation are reported then. */
    pto_runtime *rt = NULL;
    config.trace = "/nowhere/at/all.json";
    expect_fail(pto_runtime_create(&rt, &config), PTO_SYSTEM, "/nowhere/at/all.json",
                "No such file");
    config.trace = traces_path("folder.json", full);
    assert_int_equal(mkdir(full, 0700), 0);
    expect_fail(pto_runtime_create(&rt, &config), PTO_SYSTEM, "folder.json", "Is a directory");
    assert_null(rt);

    /* A folder that disappears during the run. */
    snprintf(full, sizeof full, "%s/folder.json/run.dot", traces_folder);
    config.trace = full;
    rig_start(&r, state, &config);
    snprintf(path, sizeof path, "%s/folder.json", traces_folder);
    assert_int_equal(rmdir(path), 0);
    expect_fail(pto_runtime_destroy(&r.rt, PTO_WAIT), PTO_SYSTEM, "folder.json/run.dot",
                "No such file");
    assert_null(r.rt);
    rig_forget_gate(&r);

    /* A full disk and a failed task: both are reported. */
    config.trace = traces_path("full.dot", full);
    (void)unlink(full);
    assert_int_equal(symlink("/dev/full", full), 0);
    rig_start(&r, state, &config);
    pto_tensor tx = rig_bytes(&r, rig_memory(&r, 8), 8);
    RIG_SUBMIT(&r, r.fails, pto_inout(&tx));
    expect_fail(pto_runtime_destroy(&r.rt, PTO_WAIT), PTO_TASK_FAILED, "no luck", "full.dot",
                "No space left");
    assert_null(r.rt);
    rig_forget_gate(&r);
    assert_int_equal(unlink(full), 0); /* still there: it was not replaced */

    /* A name without a known format is refused immediately. */
    static const char *const names[] = {"run.txt", "run", ".json", "folder/.dot", ""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        pto_config c = PTO_CONFIG_INIT;
        c.trace = names[i];
        expect_fail(pto_runtime_create(&rt, &c), PTO_BAD_CONFIG, "trace", ".ptrace");
        assert_null(rt);
    }
}

/* ---- The environment ---- */

static void test_runtimes_of_a_process_are_told_apart(void **state)
{
    char pattern[128], name[160];
    (void)state;
    assert_int_equal(setenv("PTO_TRACE", traces_path("env-%p.ptrace", pattern), 1), 0);
    pto_runtime *a = NULL, *b = NULL;
    pto_config config = PTO_CONFIG_INIT;
    config.workers = 1;
    expect_ok(pto_runtime_create(&a, &config));
    expect_ok(pto_runtime_create(&b, &config));
    assert_int_equal(unsetenv("PTO_TRACE"), 0); /* was read at creation */
    expect_ok(pto_runtime_destroy(&b, PTO_WAIT));
    expect_ok(pto_runtime_destroy(&a, PTO_WAIT));
    for (int i = 1; i <= 2; i++) {
        ptoi_ptrace t;
        snprintf(name, sizeof name, "%s/env-%ld%s.ptrace", traces_folder, (long)getpid(),
                 i == 1 ? "" : ".2");
        expect_ok(ptoi_ptrace_open(name, &t));
        assert_int_equal(t.n_tasks, 0);
        assert_int_equal(t.n_lanes, 2);
        ptoi_ptrace_close(&t);
    }
}

/* Shared memory begins at an address, not at 0. */
static void test_the_first_shared_memory(void **state)
{
    const rig_setup *setup = *state;
    pto_runtime *rt = NULL;
    pto_kernel quick;
    pto_tensor x;
    void *memory = NULL;
    char path[128];
    pto_config config = recorded(path);
    config.place = setup->place;
    expect_ok(pto_runtime_create(&rt, &config));
    expect_ok(pto_kernel_register(rt, "quick", PTO_VECTOR, rig_quick, NULL, &quick));
    expect_ok(pto_shared_alloc(rt, 8, &memory));
    expect_ok(pto_external_tensor(rt, memory, PTO_UINT8, 1, DIMS(8), &x));
    expect_ok(pto_submit(rt, quick, pto_output(&x)));
    expect_ok(pto_runtime_destroy(&rt, PTO_WAIT));

    ptoi_ptrace t;
    expect_ok(ptoi_ptrace_open(path, &t));
    assert_int_equal(t.args[0].where, (uintptr_t)memory);
    ptoi_ptrace_close(&t);
}

int main(void)
{
    const rig_case cases[] = {
        RIG_CASE_ONE_PROCESS(test_every_edge_and_every_field,
                             "the orchestrating thread runs the tasks"),
        RIG_CASE(test_the_whole_name_of_the_program),
        RIG_CASE(test_failed_and_skipped),
        RIG_CASE(test_unknown_status),
        RIG_CASE(test_causes),
        RIG_CASE(test_cancelled),
        RIG_CASE(test_the_first_shared_memory),
        RIG_CASE_ONE_PROCESS(test_waits_for_room_and_tasks,
                             "the orchestrating thread runs the tasks"),
        RIG_CASE(test_buffers_are_told_apart),
        RIG_CASE_ONE_PROCESS(test_rings_until_they_are_empty,
                             "the orchestrating thread runs the tasks"),
        RIG_CASE(test_lifetimes_are_recorded),
        RIG_CASE(test_many_tasks_as_a_model_says),
        RIG_CASE(test_partial_overlaps),
        RIG_CASE(test_a_stencil_has_each_edge_once),
        RIG_CASE_SLOW(test_a_full_log_counts_what_it_loses),
        RIG_CASE_SLOW_ONE_PROCESS(test_watched_and_traced, "watchers are called by workers"),
        RIG_CASE_ONE_PROCESS(test_inline_tasks_are_traced, "inline execution"),
        RIG_CASE_SLOW(test_a_trace_that_cannot_be_written),
        {"test_runtimes_of_a_process_are_told_apart", test_runtimes_of_a_process_are_told_apart, 1,
         NULL},
    };
    return rig_run("trace", cases, sizeof cases / sizeof *cases);
}
