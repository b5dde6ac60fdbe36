/* test_label.c - labels of tasks and ranges: whom they name, and where they are seen. */
#define _GNU_SOURCE /* mkdtemp */
#include "../observe/traces.h"

#include <pto/trace.h>

static const char *label_of(rig *r, pto_task task)
{
    static pto_task_report report;
    report = rig_info(r, task);
    return report.label;
}

/* A label names the next task and no other. Every way through submit takes it. */
static void test_the_next_task_has_it(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    char *x = rig_memory(&r, 8);
    const pto_tensor tx = rig_bytes(&r, x, 8);
    const pto_task before = RIG_SUBMIT(&r, r.hold, pto_output(&tx));
    expect_ok(pto_label(r.rt, "lost, since another follows"));
    expect_ok(pto_label(r.rt, "heat[%d,%d] step %d", 3, 4, 7));
    const pto_task named = RIG_SUBMIT(&r, r.quick, pto_input(&tx));
    const pto_task after = RIG_SUBMIT(&r, r.quick, pto_input(&tx));
    expect_ok(pto_label(r.rt, "the fast path"));
    const pto_task fast = RIG_SUBMIT(&r, r.quick, pto_input(&tx));
    expect_ok(pto_label(r.rt, "gone"));
    expect_ok(pto_label(r.rt, "%s", ""));
    const pto_task bare = RIG_SUBMIT(&r, r.quick, pto_input(&tx));
    assert_string_equal(label_of(&r, before), "");
    assert_string_equal(label_of(&r, named), "heat[3,4] step 7");
    assert_string_equal(label_of(&r, after), "");
    assert_string_equal(label_of(&r, fast), "the fast path");
    assert_string_equal(label_of(&r, bare), "");
    rig_finish(&r, before, PTO_OK);
    rig_stop(&r);
}

/* A submit that is refused uses up the label. */
static void test_a_refused_task_takes_it_along(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    char *x = rig_memory(&r, 8);
    const pto_tensor tx = rig_bytes(&r, x, 8);
    expect_ok(pto_label(r.rt, "of a task that never was"));
    expect_fail(pto_submit_task(r.rt, 12345, PTO_VECTOR, NULL, 0, NULL), PTO_BAD_KERNEL, "12345");
    const pto_task held = RIG_SUBMIT(&r, r.hold, pto_output(&tx));
    assert_string_equal(label_of(&r, held), "");
    expect_ok(pto_label(r.rt, "also lost"));
    expect_fail(pto_submit_task(r.rt, 12345, PTO_VECTOR, NULL, 0, NULL), PTO_BAD_KERNEL, "12345");
    expect_ok(pto_label(r.rt, "mine"));
    const pto_task mine = RIG_SUBMIT(&r, r.quick, pto_input(&tx));
    assert_string_equal(label_of(&r, mine), "mine");
    rig_finish(&r, held, PTO_OK);
    rig_stop(&r);
}

/* The label of an old task is not that of the task that takes its slot; the level of the next task
 * may change after the label was given. */
static void test_slots_are_reused(void **state)
{
    rig r;
    pto_config config = PTO_CONFIG_INIT;
    config.ring_tasks = 4;
    rig_start(&r, state, &config);
    char *x = rig_memory(&r, 8);
    const pto_tensor tx = rig_bytes(&r, x, 8);
    for (int i = 0; i < 64; i++) {
        if (i % 3 == 0) {
            expect_ok(pto_label(r.rt, "task %d", i));
        }
        if (i % 5 == 0) {
            expect_ok(pto_scope_begin_ex(r.rt, PTO_SCOPE_BOUNDARY));
        }
        const pto_task task = RIG_SUBMIT(&r, r.hold, pto_inout(&tx));
        char want[32] = "";
        if (i % 3 == 0) {
            snprintf(want, sizeof want, "task %d", i);
        }
        assert_string_equal(label_of(&r, task), want);
        rig_finish(&r, task, PTO_OK);
        if (i % 5 == 0) {
            expect_ok(pto_scope_end(r.rt));
        }
    }
    rig_stop(&r);
}

static void test_long_texts_are_cut(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    char *x = rig_memory(&r, 8);
    const pto_tensor tx = rig_bytes(&r, x, 8);
#define TEN "0123456789"
#define SIXTY TEN TEN TEN TEN TEN TEN
    static const char *const texts[][2] = {
        {SIXTY "xyz", SIXTY "xyz"}, /* 63 bytes and a NUL */
        {SIXTY "wxyz", SIXTY "..."},
        {TEN TEN TEN TEN TEN "12345678x\xe2\x82\xac" TEN, TEN TEN TEN TEN TEN "12345678x..."},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        expect_ok(pto_label(r.rt, "%s", texts[i][0]));
        const pto_task task = RIG_SUBMIT(&r, r.hold, pto_inout(&tx));
        assert_string_equal(label_of(&r, task), texts[i][1]);
        rig_finish(&r, task, PTO_OK);
    }
    rig_stop(&r);
}

/* Reports are made of lines: no name may end one, or move the cursor. */
static void test_control_characters(void **state)
{
    rig r;
    pto_kernel kernel;
    rig_start(&r, state, NULL);
    char *x = rig_memory(&r, 8);
    const pto_tensor tx = rig_bytes(&r, x, 8);
    expect_fail(pto_kernel_register(r.rt, "", PTO_VECTOR, rig_fails, NULL, &kernel), PTO_BAD_PARAM,
                "name is empty");
    expect_ok(pto_kernel_register(r.rt, "two\nlines\x7f, \xe2\x82\xac", PTO_VECTOR, rig_fails, NULL,
                                  &kernel));
    const pto_task gate = RIG_SUBMIT(&r, r.hold, pto_output(&tx)); /* keeps the next from ending */
    expect_ok(pto_label(r.rt, "tile\n%d\t\x1b[31m", 7));
    const pto_task task = RIG_SUBMIT(&r, kernel, pto_inout(&tx));
    assert_string_equal(label_of(&r, task), "tile?7??[31m");
    rig_finish(&r, gate, PTO_OK);
    expect_fail(pto_wait(r.rt), PTO_TASK_FAILED,
                "'tile?7??[31m' (kernel 'two?lines?, \xe2\x82\xac', submitted at ");
    expect_ok(pto_clear_error(r.rt));
    rig_stop(&r);
}

/* A failure names its task, on whichever thread it happened. */
static void test_failures_have_it(void **state)
{
    rig r;
    pto_failure failure;
    bool failed = false;
    rig_start(&r, state, NULL);
    char *x = rig_memory(&r, 8);
    const pto_tensor tx = rig_bytes(&r, x, 8);
    expect_ok(pto_label(r.rt, "tile %d", 12));
    (void)RIG_SUBMIT(&r, r.fails, pto_output(&tx));
    expect_fail(pto_wait(r.rt), PTO_TASK_FAILED, "task 0 'tile 12' (kernel 'fails'", "no luck");
    expect_ok(pto_get_failure(r.rt, &failed, &failure));
    assert_true(failed);
    assert_string_equal(failure.label, "tile 12");
    expect_ok(pto_clear_error(r.rt));
    const pto_task held = RIG_SUBMIT(&r, r.hold, pto_output(&tx)); /* has no label */
    rig_finish(&r, held, PTO_SYSTEM);
    expect_fail(pto_wait(r.rt), PTO_TASK_FAILED, "task 1 (kernel 'hold'");
    expect_ok(pto_clear_error(r.rt));
    rig_stop(&r);
}

static void *label_elsewhere(void *user)
{
    rig *r = user;
    expect_fail(pto_label(r->rt, "x"), PTO_WRONG_THREAD, "");
    expect_fail(pto_range_begin(r->rt, "x"), PTO_WRONG_THREAD, "");
    expect_fail(pto_range_end(r->rt), PTO_WRONG_THREAD, "");
    return NULL;
}

static void test_refused(void **state)
{
    rig r;
    pthread_t other;
    rig_start(&r, state, NULL);
    expect_fail(pto_label(NULL, "x"), PTO_NULL_ARGUMENT, "");
    expect_fail(pto_range_begin(NULL, "x"), PTO_NULL_ARGUMENT, "");
    const char *none = NULL;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-security"
    expect_fail(pto_label(r.rt, none), PTO_NULL_ARGUMENT, "format");
    expect_fail(pto_range_begin(r.rt, none), PTO_NULL_ARGUMENT, "format");
#pragma GCC diagnostic pop
    expect_fail(pto_range_end(r.rt), PTO_BAD_SCOPE, "no range is open");
    assert_int_equal(pthread_create(&other, NULL, label_elsewhere, &r), 0);
    assert_int_equal(pthread_join(other, NULL), 0);
    rig_stop(&r);
}

/* ---- In a trace ---- */

static void expect_range(const ptoi_ptrace *t, uint32_t i, const char *name, uint32_t parent,
                         uint32_t first, uint32_t tasks)
{
    const ptrace_range *range = &t->ranges[i];
    assert_string_equal(ptoi_ptrace_string(t, range->name), name);
    assert_int_equal(range->parent, parent);
    assert_int_equal(range->first_task, first);
    assert_int_equal(range->tasks, tasks);
    for (uint32_t k = first; k < first + tasks; k++) {
        assert_true(range->begin <= t->tasks[k].called);
        assert_true(t->tasks[k].submitted <= range->end);
    }
}

static void test_traced(void **state)
{
    rig r;
    char path[128];
    pto_config config = PTO_CONFIG_INIT;
    config.trace = traces_path("labels.ptrace", path);
    rig_start(&r, state, &config);
    char *x = rig_memory(&r, 8);
    const pto_tensor tx = rig_bytes(&r, x, 8);
    expect_ok(pto_label(r.rt, "first"));
    (void)RIG_SUBMIT(&r, r.quick, pto_inout(&tx));
    for (int i = 0; i < 2; i++) {
        PTO_RANGE(r.rt, "step %d", i)
        {
            (void)RIG_SUBMIT(&r, r.quick, pto_inout(&tx));
            PTO_RANGE(r.rt, "inner")
            {
                expect_ok(pto_label(r.rt, "in step %d", i));
                (void)RIG_SUBMIT(&r, r.quick, pto_inout(&tx));
            }
        }
    }
    expect_ok(pto_range_begin(r.rt, "open"));
    (void)RIG_SUBMIT(&r, r.quick, pto_inout(&tx));
    rig_stop(&r);

    ptoi_ptrace t;
    expect_ok(ptoi_ptrace_open(path, &t));
    traces_check_times(&t);
    assert_int_equal(t.n_tasks, 6);
    static const char *const labels[] = {"first", "", "in step 0", "", "in step 1", ""};
    assert_int_equal(t.n_labels, 3);
    for (uint32_t i = 0; i < 6; i++) {
        assert_string_equal(ptoi_ptrace_label(&t, i), labels[i]);
    }
    assert_int_equal(t.n_ranges, 5);
    expect_range(&t, 0, "step 0", PTRACE_NONE, 1, 2);
    expect_range(&t, 1, "inner", 0, 2, 1);
    expect_range(&t, 2, "step 1", PTRACE_NONE, 3, 2);
    expect_range(&t, 3, "inner", 2, 4, 1);
    expect_range(&t, 4, "open", PTRACE_NONE, 5, 1);
    assert_int_equal(t.ranges[4].end, PTRACE_UNKNOWN);
    ptoi_ptrace_close(&t);

    char to[128];
    size_t n;
    expect_ok(pto_trace_convert(path, traces_path("labels.json", to)));
    char *text = traces_bytes(to, &n);
    assert_non_null(strstr(text, "\"label\":\"in step 1\""));
    assert_non_null(strstr(text, "\"cat\":\"range\""));
    assert_non_null(strstr(text, "\"name\":\"step 0\""));
    free(text);
    expect_ok(pto_trace_convert(path, traces_path("labels.dot", to)));
    text = traces_bytes(to, &n);
    assert_non_null(strstr(text, "\"2 quick\\nin step 0\\n"));
    free(text);
}

int main(int argc, char **argv)
{
    if (argc > 1) { /* records a trace, for tests/tools */
        static rig_setup setup = {"inline", PTO_PLACE_INLINE, 0, 1};
        void *state = &setup;
        rig r;
        char x[8];
        pto_config config = PTO_CONFIG_INIT;
        config.trace = argv[1];
        rig_start(&r, &state, &config);
        const pto_tensor tx = rig_bytes(&r, x, 8);
        PTO_RANGE(r.rt, "step 1")
        {
            expect_ok(pto_label(r.rt, "tile (1, \xe2\x82\xac)"));
            (void)RIG_SUBMIT(&r, r.quick, pto_inout(&tx));
            PTO_RANGE(r.rt, "sub")
            {
                (void)RIG_SUBMIT(&r, r.quick, pto_inout(&tx));
            }
        }
        rig_stop(&r);
        return 0;
    }
    const rig_case cases[] = {
        RIG_CASE(test_the_next_task_has_it),
        RIG_CASE(test_a_refused_task_takes_it_along),
        RIG_CASE(test_slots_are_reused),
        RIG_CASE(test_long_texts_are_cut),
        RIG_CASE(test_control_characters),
        RIG_CASE(test_failures_have_it),
        RIG_CASE(test_refused),
        RIG_CASE(test_traced),
    };
    return rig_run("label", cases, sizeof cases / sizeof *cases);
}
