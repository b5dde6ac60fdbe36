/* test_explain.c - `pto explain` of tasks that share memory: which bytes, and why that orders
 * nothing. Programs are recorded here, so that the addresses are known. */
#define _GNU_SOURCE /* mkdtemp, strdup */
#include <pto/work.h>

#include "../observe/traces.h"
#include "commands.h"
#include "said.h"

static rig_setup setup = {"inline", PTO_PLACE_INLINE, 0, 1};

static void begin(rig *r, const char *path)
{
    void *state = &setup;
    pto_config config = PTO_CONFIG_INIT;
    config.trace = path;
    rig_start(r, &state, &config);
}

static void expect_bytes(const char *text, uint64_t count, const void *first, const void *last)
{
    char want[128];
    snprintf(want, sizeof want, "they share %llu byte%s, from 0x%llx to 0x%llx\n",
             (unsigned long long)count, count == 1 ? "" : "s", (unsigned long long)(uintptr_t)first,
             (unsigned long long)(uintptr_t)last);
    EXPECT_SAID(text, want);
}

/* Views that begin at different addresses. */
static void test_unordered(void **state)
{
    rig r;
    char path[128], x[16], y[16];
    (void)state;
    begin(&r, traces_path("unordered.ptrace", path));
    const pto_tensor tx = rig_bytes(&r, x, 16), ty = rig_bytes(&r, y, 16);
    const pto_tensor low = rig_slice(&tx, 0, 10), high = rig_slice(&tx, 6, 16);
    pto_tensor even, odd;
    expect_ok(pto_tensor_slice(&ty, 0, 0, 16, 2, &even));
    expect_ok(pto_tensor_slice(&ty, 0, 1, 16, 2, &odd));
    (void)RIG_SUBMIT(&r, r.quick, pto_input(&low), pto_output(&even)); /* 0 */
    (void)RIG_SUBMIT(&r, r.quick, pto_input(&high), pto_output(&odd)); /* 1: reads, as 0 does */
    (void)RIG_SUBMIT(&r, r.quick, pto_nodep(pto_inout(&high)));        /* 2: a race with 0 and 1 */
    const pto_tensor seventh = rig_slice(&tx, 6, 7);
    (void)RIG_SUBMIT(&r, r.quick, pto_nodep(pto_inout(&seventh))); /* 3 */
    rig_stop(&r);

    char *text = SAID(0, command_explain, "explain", path, "0", "1");
    EXPECT_SAID(text, ") are independent.\n", "0 reads argument 0: uint8[10]",
                "1 reads argument 0: uint8[10]", "both only read them: that orders nothing\n",
                "1 pair of arguments lies in the same range of addresses but shares no byte\n");
    expect_bytes(text, 4, x + 6, x + 9);
    assert_null(strstr(text, "race"));
    free(text);
    text = SAID(0, command_explain, "explain", path, "0", "2");
    EXPECT_SAID(text, "0 reads argument 0", "2 updates argument 0",
                "the second is pto_nodep: the runtime does not order them by these bytes\n",
                "Nothing else orders these tasks");
    expect_bytes(text, 4, x + 6, x + 9);
    free(text);
    text = SAID(0, command_explain, "explain", path, "3", "2");
    EXPECT_SAID(text, "both are pto_nodep", "Nothing else orders these tasks");
    expect_bytes(text, 1, x + 6, x + 6);
    free(text);
}

/* Tasks that share nothing say so, in managed memory too. */
static void test_nothing_shared(void **state)
{
    rig r;
    char path[128], x[16];
    (void)state;
    begin(&r, traces_path("nothing.ptrace", path));
    const pto_tensor tx = rig_bytes(&r, x, 16);
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor a = rig_temp(&r, 64), b = rig_temp(&r, 64);
    (void)RIG_SUBMIT(&r, r.quick, pto_output(&a));
    (void)RIG_SUBMIT(&r, r.quick, pto_output(&b), pto_output(&tx));
    pto_tensor part = rig_slice(&a, 8, 24), other = rig_slice(&a, 20, 40);
    (void)RIG_SUBMIT(&r, r.quick, pto_input(&part));
    (void)RIG_SUBMIT(&r, r.quick, pto_input(&other));
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);

    char *text = SAID(0, command_explain, "explain", path, "0", "1");
    EXPECT_SAID(text, "no argument of one task shares a byte with an argument of the other\n");
    free(text);
    text = SAID(0, command_explain, "explain", path, "2", "3");
    EXPECT_SAID(text, "they share 4 bytes, from byte ", " of the heap of level 0\n",
                "both only read them");
    free(text);
}

/* An edge that is not there because others do its work. */
static void test_ordered_through_others(void **state)
{
    rig r;
    char path[128], x[16];
    (void)state;
    begin(&r, traces_path("through.ptrace", path));
    const pto_tensor tx = rig_bytes(&r, x, 16);
    const pto_tensor low = rig_slice(&tx, 0, 8);
    (void)RIG_SUBMIT(&r, r.quick, pto_inout(&low));
    (void)RIG_SUBMIT(&r, r.quick, pto_inout(&tx));
    (void)RIG_SUBMIT(&r, r.quick, pto_input(&tx));
    rig_stop(&r);

    char *text = SAID(0, command_explain, "explain", path, "0", "2");
    EXPECT_SAID(text, "through 2 edges:\n", "Memory that both use:\n",
                "no edge of their own is needed: the edges above order them\n");
    expect_bytes(text, 8, x, x + 7);
    free(text);
    text = SAID(0, command_explain, "explain", path, "0", "1");
    assert_null(strstr(text, "Memory that both use"));
    free(text);
}

/* Two updates that the runtime does not order. What the program waits for between them does. */
static void test_waits_order(void **state)
{
    static const struct {
        const char *words;
        bool ordered;
    } cases[] = {
        {"race", false},
        {"it waited for all tasks, also 0, from ", true},
        {"it waited for task 0, from ", true},
        {"it waited for all tasks, also 0, from ", true}, /* and then for 0, which was complete */
        {"it waited for a task that depends on 0, from ", true},
        {"race", false}, /* for another task */
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rig r;
        char path[128], x[8], y[8], w[8];
        begin(&r, traces_path("waits.ptrace", path));
        const pto_tensor tx = rig_bytes(&r, x, 8), ty = rig_bytes(&r, y, 8);
        const pto_task first = RIG_SUBMIT(&r, r.quick, pto_nodep(pto_inout(&tx)), pto_output(&ty));
        if (i == 1 || i == 3) {
            expect_ok(pto_wait(r.rt));
        }
        if (i == 2 || i == 3) {
            expect_ok(pto_wait_task(r.rt, first));
        }
        const pto_tensor z = rig_bytes(&r, w, 8);
        const pto_task other = i == 4 ? RIG_SUBMIT(&r, r.quick, pto_input(&ty), pto_output(&z))
                                      : RIG_SUBMIT(&r, r.quick, pto_output(&z));
        if (i >= 4) {
            expect_ok(pto_wait_task(r.rt, other));
        }
        (void)RIG_SUBMIT(&r, r.quick, pto_nodep(pto_inout(&tx)));
        rig_stop(&r);

        ptoi_ptrace trace;
        uint64_t named = 0;
        expect_ok(ptoi_ptrace_open(path, &trace));
        for (uint64_t e = 0; e < trace.n_events; e++) {
            named += trace.events[e].kind == PTRACE_WAIT && trace.events[e].value == first;
        }
        ptoi_ptrace_close(&trace);
        assert_int_equal(named, i == 2 || i == 3);
        char *text = SAID(0, command_explain, "explain", path, "0", "2");
        EXPECT_SAID(text, cases[i].words, "both are pto_nodep");
        assert_int_equal(strstr(text, "independent, but the program waited between them.") != NULL,
                         cases[i].ordered);
        assert_int_equal(strstr(text, "unless the program does, this is a race") == NULL,
                         cases[i].ordered);
        free(text);
    }
}

/* All that orders two tasks is said, the strongest first. */
static void test_all_reasons(void **state)
{
    rig r;
    char path[128], x[16], y[16], z[16];
    (void)state;
    begin(&r, traces_path("reasons.ptrace", path));
    const pto_tensor tx = rig_bytes(&r, x, 16), ty = rig_bytes(&r, y, 16),
                     tz = rig_bytes(&r, z, 16);
    const pto_tensor part = rig_slice(&tx, 4, 16);
    (void)RIG_SUBMIT(&r, r.quick, pto_input(&tx), pto_output(&ty), pto_output(&tz));
    (void)RIG_SUBMIT(&r, r.quick, pto_output(&part), pto_output(&tz), pto_input(&ty));
    (void)RIG_SUBMIT(&r, r.quick, pto_input(&tz));
    rig_stop(&r);

    char *text = SAID(0, command_explain, "explain", path, "0", "1");
    EXPECT_SAID(text, "): RAW, the same region\n", "    also WAW\n", "    also WAR\n",
                "      0 reads argument 0: uint8[16]", "      1 writes argument 0: uint8[12]");
    expect_bytes(text, 16, z, z + 15);
    expect_bytes(text, 12, x + 4, x + 15);
    assert_true(strstr(text, "also WAW") < strstr(text, "also WAR"));
    assert_null(strstr(strstr(text, "also WAR") + 1, "also"));
    free(text);
    text = SAID(0, command_explain, "explain", path, "1", "2"); /* for one reason */
    assert_null(strstr(text, "also"));
    free(text);
}

/* Tasks by label: of several the number decides, and a kernel of the same name is not forgotten. */
static void test_labels(void **state)
{
    rig r;
    char path[128], x[8];
    (void)state;
    begin(&r, traces_path("labels.ptrace", path));
    const pto_tensor tx = rig_bytes(&r, x, 8);
    static const char *const labels[] = {"same", "same", "only", "fill", "same#3"};
    for (size_t i = 0; i < 5; i++) {
        expect_ok(pto_label(r.rt, "%s", labels[i]));
        (void)RIG_SUBMIT(&r, r.quick, pto_inout(&tx));
    }
    (void)RIG_SUBMIT(&r, r.fill, pto_output(&tx), pto_scalar(1)); /* 5 */
    rig_stop(&r);

    static const struct {
        int status;
        const char *word, *words;
    } cases[] = {
        {2, "same",
         "2 tasks have the label 'same': 0, 1; give a number, or 'same#1' for the first\n"},
        {0, "same#2", "task 1 (quick@"},
        {0, "same#3", "task 4 (quick@"},
        {2, "same#4", "no task 'same#4': 2 tasks have the label\n"},
        {2, "only#2", "no task 'only#2': 1 task has the label\n"},
        {2, "fill#2", "no task 'fill#2': 1 task matches\n"},
        {0, "fill",
         "'fill' is the label of task 3 and also a kernel; the task with the label is "
         "taken, 'fill#1' is the first of the kernel\n"},
        {0, "fill", "task 3 (quick@"},
        {0, "fill#1", "task 5 (fill@"},
        {2, "9", "the trace has 6 tasks\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = SAID(cases[i].status, command_explain, "explain", path, "2", cases[i].word);
        EXPECT_SAID(text, cases[i].words);
        free(text);
    }
    begin(&r, traces_path("one.ptrace", path));
    (void)RIG_SUBMIT(&r, r.quick, pto_inout(&tx));
    rig_stop(&r);
    char *text = SAID(2, command_explain, "explain", path, "0", "1");
    EXPECT_SAID(text, "the trace has 1 task\n");
    free(text);
}

static pto_status start_nothing(void *self, const pto_work_call *call)
{
    (void)self;
    (void)call;
    return PTO_OK;
}

static pto_status nothing(const pto_call *call)
{
    (void)call;
    return PTO_OK;
}

/* A copy and a request with an engine of the program: by operation, and tensors by their lists. The
 * kernel of the program that is called "work", too, is none. */
static void test_requests(void **state)
{
    enum { MINE = PTO_WORK_USER + 3 };
    const pto_device sim = {PTO_DEVICE_SIM, 0};
    const pto_engine engine = {.size = sizeof engine, .start = start_nothing};
    rig r;
    char path[128], x[16];
    pto_kernel own;
    (void)state;
    begin(&r, traces_path("requests.ptrace", path));
    const pto_tensor tx = rig_bytes(&r, x, 16);
    expect_ok(pto_engine_register(sim, MINE, &engine));
    expect_ok(pto_kernel_register(r.rt, "work", PTO_VECTOR, nothing, NULL, &own));
    PTO_SCOPE(r.rt) {
        pto_tensor there, part;
        expect_ok(pto_alloc_on(r.rt, sim, tx.dtype, tx.ndim, tx.shape, &there));
        expect_ok(pto_tensor_slice(&there, 0, 3, 9, 1, &part));
        expect_ok(pto_copy(r.rt, &there, &tx)); /* 0 */
        expect_ok(pto_submit_work(
            r.rt,
            &((pto_work){
                .opcode = MINE, .inputs = &tx, .n_inputs = 1, .inouts = &part, .n_inouts = 1}),
            NULL));                                                          /* 1 */
        expect_ok(pto_submit(r.rt, own, pto_scalar_u64(1), pto_input(&tx))); /* 2 */
    }
    rig_stop(&r);

    char *text = SAID(0, command_explain, "explain", path, "0", "1");
    EXPECT_SAID(text, ", strided copy) through one edge:\n",
                ", opcode 1027) depends on task 0 (work@", "0 writes outputs[0]: uint8[16]",
                "1 updates inouts[0]: uint8[6]", " of the heap of level 0 on sim:0\n");
    free(text);
    text = SAID(0, command_explain, "explain", path, "0", "2");
    EXPECT_SAID(text, "0 reads inputs[0]: uint8[16]", "2 reads argument 1: uint8[16]");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unordered),
        cmocka_unit_test(test_nothing_shared),
        cmocka_unit_test(test_ordered_through_others),
        cmocka_unit_test(test_waits_order),
        cmocka_unit_test(test_all_reasons),
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
