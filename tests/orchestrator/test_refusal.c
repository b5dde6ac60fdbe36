/* test_refusal.c - a refused call whose status was dropped: it is kept, reported and acknowledged. */
#include "../runtime/rig.h"

#include <pto/execute.h>
#include <pto/rearrange.h>
#include <pto/work.h>

/* Makes a call without looking at its status. */
#define DROP(call) PTO_IGNORE(call)

/* The record is this one. It is gone afterwards. */
static void expect_taken(pto_runtime *rt, pto_status status, const char *call, int line,
                         uint64_t count)
{
    pto_refusal kept;
    memset(&kept, 0x5a, sizeof kept);
    assert_true(pto_refused(rt, &kept));
    assert_string_equal(pto_status_name(kept.status), pto_status_name(status));
    assert_string_equal(kept.call, call);
    assert_string_equal(kept.file, __FILE__);
    assert_int_equal(kept.line, line);
    assert_int_equal(kept.count, count);
    assert_true(kept.message[0] != '\0');
    assert_false(pto_refused(rt, &kept));
}

static const char *line_text(int line, char *text, size_t size)
{
    snprintf(text, size, "test_refusal.c:%d", line);
    return text;
}

/* ---- Work that was never submitted ---------------------------------------------------------- */

/* 3,000 submits in one scope, statuses ignored: the heap is exhausted on the way. */
static void test_three_thousand_submits(void **state)
{
    enum { SUBMITS = 3000, BYTES = 4096, FIT = 1024 };
    rig r;
    char where[64];
    pto_config config = PTO_CONFIG_INIT;
    config.heap_bytes = (uint64_t)FIT * BYTES;
    config.ring_tasks = 4096;
    config.buffers = 4096;
    rig_start(&r, state, &config);
    int line = 0;
    PTO_SCOPE(r.rt) {
        for (int i = 0; i < SUBMITS; i++) {
            pto_tensor t = rig_temp(&r, BYTES);
            line = __LINE__ + 1;
            DROP(pto_submit(r.rt, r.quick, pto_output(&t)));
        }
    }
    const uint64_t submitted = rig_stats(&r).submitted;
    assert_in_range(submitted, FIT / 2, FIT);
    /* Again and again, until somebody asks. */
    for (int i = 0; i < 3; i++) {
        expect_fail(pto_wait(r.rt), PTO_REFUSED, "wait", "pto_submit",
                    line_text(line, where, sizeof where), "PTO_STALLED", "heap");
    }
    expect_taken(r.rt, PTO_STALLED, "pto_submit", line, SUBMITS - submitted);
    /* What was submitted has run, and the runtime works as before. */
    assert_int_equal(rig_stats(&r).completed, submitted);
    assert_int_equal(rig_stats(&r).failed + rig_stats(&r).skipped, 0);
    expect_ok(pto_wait(r.rt));
    rig_stop(&r);
}

/* The count goes on, the record stays the first; a success in between changes nothing. */
static void test_the_first_of_several(void **state)
{
    rig r;
    char where[64], count[64];
    rig_start(&r, state, NULL);
    const int line = __LINE__ + 1;
    DROP(pto_submit(r.rt, 0, pto_scalar(1)));
    RIG_SUBMIT_BARE(&r, r.quick);
    DROP(pto_scope_end(r.rt));
    DROP(pto_submit(r.rt, r.quick, pto_input(NULL)));
    snprintf(count, sizeof count, "first of %d", 3);
    expect_fail(pto_wait(r.rt), PTO_REFUSED, line_text(line, where, sizeof where), count,
                "PTO_BAD_KERNEL");
    expect_taken(r.rt, PTO_BAD_KERNEL, "pto_submit", line, 3);
    /* A new record begins. */
    const int next = __LINE__ + 1;
    DROP(pto_scope_end(r.rt));
    expect_fail(pto_wait(r.rt), PTO_REFUSED, line_text(next, where, sizeof where), "PTO_BAD_SCOPE");
    assert_null(strstr(pto_error_detail(), "first of"));
    assert_true(pto_refused(r.rt, NULL));
    assert_false(pto_refused(r.rt, NULL));
    rig_stop(&r);
}

/* ---- Who reports it -------------------------------------------------------------------------- */

static pto_status nothing(pto_runtime *rt, const pto_tensor *inputs, const pto_tensor *outputs,
                          void *params)
{
    (void)inputs;
    (void)outputs;
    *(int *)params += 1;
    return rt ? PTO_OK : PTO_NULL_ARGUMENT;
}

static void test_waits_and_reads_report_it(void **state)
{
    rig r;
    char where[64];
    unsigned char got[64], untouched[64];
    int runs = 0;
    rig_start(&r, state, NULL);
    unsigned char *memory = rig_memory(&r, 64);
    pto_tensor t = rig_bytes(&r, memory, sizeof(unsigned char[64]));
    const pto_task task = RIG_SUBMIT(&r, r.fill, pto_output(&t), pto_scalar(7));
    const int line = __LINE__ + 1;
    DROP(pto_scope_end(r.rt));
    line_text(line, where, sizeof where);
    memset(got, 0x11, sizeof got);
    memset(untouched, 0x11, sizeof untouched);
    for (int i = 0; i < 2; i++) {
        expect_fail(pto_read(r.rt, &t, got, sizeof got), PTO_REFUSED, "read", where);
        expect_fail(pto_wait_task(r.rt, task), PTO_REFUSED, "wait for a task", where);
        expect_fail(pto_wait(r.rt), PTO_REFUSED, "wait", where);
        expect_fail(pto_wait_tensor(r.rt, &t), PTO_REFUSED, "wait for a tensor", where);
        expect_fail(pto_execute(r.rt, nothing, NULL, 0, NULL, 0, &runs), PTO_REFUSED, where);
    }
    assert_memory_equal(got, untouched, sizeof got);
    assert_int_equal(runs, 0);
    /* None of these reports is a refusal itself. */
    expect_taken(r.rt, PTO_BAD_SCOPE, "pto_scope_end", line, 1);
    expect_ok(pto_read(r.rt, &t, got, sizeof got));
    assert_int_equal(got[63], 7);
    expect_ok(pto_wait_task(r.rt, task));
    expect_ok(pto_execute(r.rt, nothing, NULL, 0, NULL, 0, &runs));
    assert_int_equal(runs, 1);
    rig_stop(&r);
}

static void test_destroy_reports_it(void **state)
{
    rig r;
    char where[64];
    rig_start(&r, state, NULL);
    const int line = __LINE__ + 1;
    DROP(pto_scope_end(r.rt));
    expect_fail(pto_runtime_destroy(&r.rt, PTO_WAIT), PTO_REFUSED, "destroy", "pto_scope_end",
                line_text(line, where, sizeof where));
    assert_null(r.rt);
    /* Also if pto_wait has reported it: a report is no acknowledgement. */
    rig_start(&r, state, NULL);
    DROP(pto_scope_end(r.rt));
    expect_fail(pto_wait(r.rt), PTO_REFUSED, "wait");
    expect_fail(pto_runtime_destroy(&r.rt, PTO_WAIT), PTO_REFUSED, "destroy");
    assert_null(r.rt);
    /* PTO_CANCEL gives up the results, and with them what is missing. */
    rig_start(&r, state, NULL);
    DROP(pto_scope_end(r.rt));
    expect_ok(pto_runtime_destroy(&r.rt, PTO_CANCEL));
    assert_null(r.rt);
}

/* ---- Failures come first --------------------------------------------------------------------- */

static void test_failures_come_first(void **state)
{
    rig r;
    unsigned char got[64];
    rig_start(&r, state, NULL);
    unsigned char *memory = rig_memory(&r, 64);
    pto_tensor t = rig_bytes(&r, memory, sizeof(unsigned char[64]));
    const int line = __LINE__ + 1;
    DROP(pto_scope_end(r.rt));
    const pto_task task = RIG_SUBMIT(&r, r.fails, pto_output(&t));
    assert_int_equal(pto_wait(r.rt), PTO_TASK_FAILED);
    assert_int_equal(pto_wait_task(r.rt, task), PTO_TASK_FAILED);
    assert_int_equal(pto_read(r.rt, &t, got, sizeof got), PTO_POISONED);
    /* To clear the failure is not to acknowledge the refusal. */
    expect_ok(pto_clear_error(r.rt));
    assert_int_equal(pto_wait(r.rt), PTO_REFUSED);
    assert_int_equal(pto_read(r.rt, &t, got, sizeof got), PTO_REFUSED);
    expect_taken(r.rt, PTO_BAD_SCOPE, "pto_scope_end", line, 1);
    expect_ok(pto_wait(r.rt));
    expect_ok(pto_read(r.rt, &t, got, sizeof got));
    rig_stop(&r);
}

static void test_destroy_reports_a_failure_first(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    unsigned char *memory = rig_memory(&r, 64);
    pto_tensor t = rig_bytes(&r, memory, sizeof(unsigned char[64]));
    DROP(pto_scope_end(r.rt));
    RIG_SUBMIT(&r, r.fails, pto_output(&t));
    assert_int_equal(pto_runtime_destroy(&r.rt, PTO_WAIT), PTO_TASK_FAILED);
    assert_null(r.rt);
    /* A failure that was reported leaves the refusal. */
    rig_start(&r, state, NULL);
    DROP(pto_scope_end(r.rt));
    RIG_SUBMIT(&r, r.fails, pto_output(&t));
    assert_int_equal(pto_wait(r.rt), PTO_TASK_FAILED);
    assert_int_equal(pto_runtime_destroy(&r.rt, PTO_WAIT), PTO_REFUSED);
    assert_null(r.rt);
}

/* Nothing is poisoned by a refusal: what a refused task should have written keeps its contents. */
static void test_nothing_is_poisoned(void **state)
{
    rig r;
    unsigned char got[64];
    rig_start(&r, state, NULL);
    unsigned char *memory = rig_memory(&r, 64);
    pto_tensor t = rig_bytes(&r, memory, sizeof(unsigned char[64]));
    RIG_SUBMIT(&r, r.fill, pto_output(&t), pto_scalar(3));
    DROP(pto_submit(r.rt, r.fill, pto_output(&t), pto_input(NULL)));
    RIG_SUBMIT(&r, r.copy, pto_input(&t), pto_inout(&t));
    assert_true(pto_refused(r.rt, NULL));
    expect_ok(pto_read(r.rt, &t, got, sizeof got));
    assert_int_equal(got[0], 3);
    assert_int_equal(rig_stats(&r).skipped, 0);
    rig_stop(&r);
}

/* ---- What is not kept ------------------------------------------------------------------------ */

static void *refused_elsewhere(void *argument)
{
    rig *r = argument;
    pto_refusal kept;
    DROP(pto_scope_end(r->rt));
    DROP(pto_submit(r->rt, 0, pto_scalar(1)));
    assert_false(pto_refused(r->rt, &kept)); /* nor can it be taken from here */
    return NULL;
}

static pto_status refused_inside(const pto_call *call)
{
    DROP(pto_scope_end(call->rt));
    DROP(pto_submit(call->rt, 0, pto_scalar(1)));
    return pto_refused(call->rt, NULL) ? PTO_CORRUPT : PTO_OK;
}

static void test_wrong_threads(void **state)
{
    rig r;
    pthread_t thread;
    pto_kernel inside;
    rig_start(&r, state, NULL);
    expect_ok(pto_kernel_register(r.rt, "inside", PTO_VECTOR, refused_inside, NULL, &inside));
    assert_int_equal(pthread_create(&thread, NULL, refused_elsewhere, &r), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    RIG_SUBMIT_BARE(&r, inside);
    expect_ok(pto_wait(r.rt));
    /* A record can be neither seen nor taken there. */
    const int line = __LINE__ + 1;
    DROP(pto_scope_end(r.rt));
    assert_int_equal(pthread_create(&thread, NULL, refused_elsewhere, &r), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    RIG_SUBMIT_BARE(&r, inside);
    assert_int_equal(pto_wait(r.rt), PTO_REFUSED);
    expect_taken(r.rt, PTO_BAD_SCOPE, "pto_scope_end", line, 1);
    assert_false(pto_refused(NULL, NULL));
    rig_stop(&r);
}

static void test_after_a_cancel(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    const int line = __LINE__ + 1;
    DROP(pto_scope_end(r.rt));
    pto_cancel(r.rt);
    assert_int_equal(pto_submit_task(r.rt, r.quick, PTO_KERNEL_TYPE, NULL, 0, NULL), PTO_CANCELLED);
    assert_int_equal(pto_submit(r.rt, 0, pto_scalar(1)), PTO_BAD_KERNEL);
    assert_int_equal(pto_scope_end(r.rt), PTO_BAD_SCOPE);
    assert_int_equal(pto_wait(r.rt), PTO_CANCELLED);
    expect_ok(pto_clear_error(r.rt));
    expect_taken(r.rt, PTO_BAD_SCOPE, "pto_scope_end", line, 1);
    rig_stop(&r);
}

/* Questions about the state lose no work. */
static void test_questions_are_not_kept(void **state)
{
    rig r;
    pto_task_report report;
    rig_start(&r, state, NULL);
    assert_int_equal(pto_task_info(r.rt, 12345678, &report), PTO_BAD_TASK);
    assert_int_equal(pto_task_complete(r.rt, 12345678, PTO_OK), PTO_BAD_TASK);
    assert_int_equal(pto_get_failure(r.rt, NULL, NULL), PTO_NULL_ARGUMENT);
    assert_int_equal(pto_runtime_destroy(&r.rt, (pto_ending)77), PTO_BAD_PARAM);
    assert_false(pto_refused(r.rt, NULL));
    rig_stop(&r);
}

/* ---- Every call knows its line --------------------------------------------------------------- */

#define EXPECT_KEPT(rt, call, status, name)                                                        \
    do {                                                                                           \
        assert_int_equal((call), (status));                                                        \
        expect_taken((rt), (status), (name), __LINE__, 1);                                         \
    } while (0)

static void test_every_call_knows_its_line(void **state)
{
    rig r;
    void *address;
    pto_buffer buffer = {0};
    pto_tensor t = {0}, bytes;
    unsigned char memory[64];
    rig_start(&r, state, NULL);
    bytes = rig_bytes(&r, memory, sizeof memory);
    pto_runtime *rt = r.rt;
    EXPECT_KEPT(rt, pto_submit(rt, 0, pto_scalar(1)), PTO_BAD_KERNEL, "pto_submit");
    EXPECT_KEPT(rt, pto_submit_task(rt, r.quick, PTO_KERNEL_TYPE, NULL, 1, NULL), PTO_NULL_ARGUMENT,
                "pto_submit");
    EXPECT_KEPT(rt, pto_submit_work(rt, NULL, NULL), PTO_NULL_ARGUMENT, "pto_submit_work");
    const pto_work unsound = {.opcode = PTO_WORK_FILL, .outputs = &t, .n_outputs = 1};
    EXPECT_KEPT(rt, pto_submit_work(rt, &unsound, NULL), PTO_BAD_DTYPE, "pto_submit_work");
    EXPECT_KEPT(rt, pto_submit_rearrange(rt, NULL, &bytes, PTO_VECTOR), PTO_NULL_ARGUMENT,
                "pto_submit_rearrange");
    EXPECT_KEPT(rt, pto_submit_rearrange(rt, &bytes, &bytes, PTO_CUBE), PTO_BAD_WORKER,
                "pto_submit_rearrange");
    pto_tensor stale;
    PTO_SCOPE(rt) {
        stale = rig_temp(&r, sizeof memory);
    }
    EXPECT_KEPT(rt, pto_submit_rearrange(rt, &stale, &bytes, PTO_VECTOR), PTO_STALE,
                "pto_submit_rearrange");
    EXPECT_KEPT(rt, pto_temp(rt, PTO_UINT8, 1, DIMS(8), &t), PTO_NO_SCOPE, "pto_temp");
    EXPECT_KEPT(rt, pto_alloc(rt, PTO_UINT8, 1, DIMS(8), &t), PTO_NO_SCOPE, "pto_alloc");
    EXPECT_KEPT(rt, pto_create_buffer(rt, 8, &buffer), PTO_NO_SCOPE, "pto_create_buffer");
    EXPECT_KEPT(rt, pto_managed_tensor(rt, &buffer, 0, PTO_UINT8, 1, DIMS(8), &t), PTO_STALE,
                "pto_managed_tensor");
    EXPECT_KEPT(rt, pto_external_tensor(rt, memory, PTO_UINT8, -1, NULL, &t), PTO_BAD_NDIM,
                "pto_external_tensor");
    EXPECT_KEPT(rt, pto_get_buffer_addr(rt, NULL, &address), PTO_NULL_ARGUMENT,
                "pto_get_buffer_addr");
    EXPECT_KEPT(rt, pto_task_get_output(rt, 12345678, 0, &t), PTO_BAD_TASK, "pto_task_get_output");
    EXPECT_KEPT(rt, pto_release(rt, &stale), PTO_STALE, "pto_release");
    EXPECT_KEPT(rt, pto_scope_begin_ex(rt, 64), PTO_BAD_PARAM, "pto_scope_begin");
    EXPECT_KEPT(rt, pto_scope_end(rt), PTO_BAD_SCOPE, "pto_scope_end");
    EXPECT_KEPT(rt, pto_wait_task(rt, 12345678), PTO_BAD_TASK, "pto_wait_task");
    EXPECT_KEPT(rt, pto_wait_tensor(rt, NULL), PTO_NULL_ARGUMENT, "pto_wait_tensor");
    EXPECT_KEPT(rt, pto_read(rt, &bytes, memory, 1), PTO_BUFFER_TOO_SMALL, "pto_read");
    EXPECT_KEPT(rt, pto_write(rt, &bytes, memory, 1), PTO_BUFFER_TOO_SMALL, "pto_write");
    EXPECT_KEPT(rt, pto_execute(rt, NULL, NULL, 0, NULL, 0, NULL), PTO_NULL_ARGUMENT,
                "pto_execute");
    EXPECT_KEPT(rt, pto_execute_ex(rt, NULL, NULL, 0, NULL, 0, NULL, NULL), PTO_NULL_ARGUMENT,
                "pto_execute");
    /* A binding that has no place to give. */
    pto_refusal kept;
    assert_int_equal(pto_scope_end_at(rt, NULL, 77), PTO_BAD_SCOPE);
    expect_fail(pto_wait(rt), PTO_REFUSED, "pto_scope_end at (unknown) was refused");
    assert_true(pto_refused(rt, &kept));
    assert_string_equal(kept.file, "");
    assert_int_equal(kept.line, 0);
    rig_stop(&r);
}

/* ---- Executions ------------------------------------------------------------------------------ */

typedef struct careless {
    int line;
    bool returns_it;
} careless;

static pto_status orchestrate(pto_runtime *rt, const pto_tensor *inputs, const pto_tensor *outputs,
                              void *params)
{
    careless *c = params;
    (void)inputs;
    c->line = __LINE__ + 1;
    const pto_status s = pto_submit(rt, 0, pto_output(&outputs[0]));
    return c->returns_it ? s : PTO_OK;
}

static void test_a_careless_orchestration(void **state)
{
    rig r;
    char where[64];
    unsigned char memory[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const unsigned char before[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    rig_start(&r, state, NULL);
    for (int thread = 0; thread < 2; thread++) {
        const pto_execute_options options = {
            .size = sizeof options, .orchestrator = thread ? PTO_ON_THREAD : PTO_ON_CALLER};
        careless c = {0};
        pto_tensor out = rig_bytes(&r, memory, sizeof memory);
        const pto_status s = pto_execute_ex(r.rt, orchestrate, NULL, 0, &out, 1, &c, &options);
        assert_int_equal(s, PTO_REFUSED);
        assert_non_null(strstr(pto_error_detail(), line_text(c.line, where, sizeof where)));
        assert_memory_equal(memory, before, sizeof memory);
        expect_taken(r.rt, PTO_BAD_KERNEL, "pto_submit", c.line, 1);
        /* It passes the error on: still one refused call. */
        c.returns_it = true;
        DROP(pto_execute_ex(r.rt, orchestrate, NULL, 0, &out, 1, &c, &options));
        expect_taken(r.rt, PTO_BAD_KERNEL, "pto_submit", c.line, 1);
    }
    rig_stop(&r);
}

static pto_status gives_up(pto_runtime *rt, const pto_tensor *inputs, const pto_tensor *outputs,
                           void *params)
{
    (void)rt;
    (void)inputs;
    (void)outputs;
    (void)params;
    return pto_fail(PTO_BAD_INDEX, "row 4711");
}

/* The outputs are as they were. A program that does not look finds out in the end. */
static void test_an_execution_that_failed(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    const int line = __LINE__ + 1;
    DROP(pto_execute(r.rt, gives_up, NULL, 0, NULL, 0, NULL));
    expect_fail(pto_wait(r.rt), PTO_REFUSED, "pto_execute", "row 4711");
    expect_taken(r.rt, PTO_BAD_INDEX, "pto_execute", line, 1);
    rig_stop(&r);
}

/* ---- A program that handles it --------------------------------------------------------------- */

/* A stall is handled by a new scope, and acknowledged. The run ends without an error. */
static void test_a_stall_that_is_handled(void **state)
{
    enum { TASKS = 100, BYTES = 1024 };
    rig r;
    pto_config config = PTO_CONFIG_INIT;
    config.heap_bytes = UINT64_C(8) * BYTES;
    rig_start(&r, state, &config);
    int stalls = 0;
    expect_ok(pto_scope_begin(r.rt));
    for (int i = 0; i < TASKS; i++) {
        pto_tensor t = rig_temp(&r, BYTES);
        pto_status s = pto_submit(r.rt, r.quick, pto_output(&t));
        if (s == PTO_STALLED) {
            stalls++;
            assert_true(pto_refused(r.rt, NULL));
            expect_ok(pto_scope_end(r.rt));
            expect_ok(pto_scope_begin(r.rt));
            t = rig_temp(&r, BYTES);
            s = pto_submit(r.rt, r.quick, pto_output(&t));
        }
        expect_ok(s);
    }
    expect_ok(pto_scope_end(r.rt));
    assert_in_range(stalls, TASKS / 8 - 1, TASKS);
    expect_ok(pto_wait(r.rt));
    assert_int_equal(rig_stats(&r).submitted, TASKS);
    rig_stop(&r);
}

int main(void)
{
    const rig_case cases[] = {
        RIG_CASE(test_three_thousand_submits),
        RIG_CASE(test_the_first_of_several),
        RIG_CASE(test_waits_and_reads_report_it),
        RIG_CASE(test_destroy_reports_it),
        RIG_CASE(test_failures_come_first),
        RIG_CASE(test_destroy_reports_a_failure_first),
        RIG_CASE(test_nothing_is_poisoned),
        RIG_CASE(test_wrong_threads),
        RIG_CASE(test_after_a_cancel),
        RIG_CASE(test_questions_are_not_kept),
        RIG_CASE(test_every_call_knows_its_line),
        RIG_CASE(test_a_careless_orchestration),
        RIG_CASE(test_an_execution_that_failed),
        RIG_CASE(test_a_stall_that_is_handled),
    };
    return rig_run("refusal", cases, sizeof cases / sizeof *cases);
}
