/* test_merge.c - one trace of several ranks. The ranks are runtimes of this process, whose clocks are the
 * same; so a clock that is ahead is one whose answers say so. */
#include "traces.h"

#include <pto/embed.h>
#include <pto/trace.h>

#define AHEAD UINT64_C(3000000000) /* ticks: about a second */

static pto_status nothing(const pto_call *call)
{
    (void)call;
    return PTO_OK;
}

typedef struct rank {
    pto_runtime *rt;
    pto_kernel send, receive, work;
    pto_tensor x;
    double memory[8];
    char path[128];
} rank;

static void note(rank *r, pto_note_kind kind, uint32_t peer, uint64_t number, pto_task task)
{
    pto_trace_note(r->rt, &(pto_note){.kind = kind, .peer = peer, .number = number, .task = task});
}

static void begin(rank *r, uint32_t number, uint32_t ranks)
{
    char name[32];
    snprintf(name, sizeof name, "rank%u.ptrace", number);
    traces_path(name, r->path);
    pto_config config = PTO_CONFIG_INIT;
    config.workers = 0;
    config.trace = r->path;
    assert_int_equal(pto_runtime_create(&r->rt, &config), PTO_OK);
    assert_int_equal(pto_kernel_register(r->rt, "send", PTO_ACCELERATOR, nothing, NULL, &r->send),
                     PTO_OK);
    assert_int_equal(
        pto_kernel_register(r->rt, "receive", PTO_ACCELERATOR, nothing, NULL, &r->receive), PTO_OK);
    assert_int_equal(pto_kernel_register(r->rt, "work", PTO_ACCELERATOR, nothing, NULL, &r->work),
                     PTO_OK);
    assert_int_equal(pto_external_tensor(r->rt, r->memory, PTO_FLOAT64, 1, (int64_t[]){8}, &r->x),
                     PTO_OK);
    assert_true(pto_trace_clock(r->rt) != 0);
    if (ranks) {
        note(r, PTO_NOTE_RANK, number, ranks, 0);
    }
}

static void end(rank *r)
{
    assert_int_equal(pto_wait(r->rt), PTO_OK);
    assert_int_equal(pto_runtime_destroy(&r->rt, PTO_WAIT), PTO_OK);
}

static pto_task run(rank *r, pto_kernel kernel)
{
    pto_task task = 0;
    const pto_param params[] = {pto_inout(&r->x)};
    assert_int_equal(pto_submit_task_at(r->rt, kernel, PTO_KERNEL_TYPE, params, 1, &task, "x.c", 1),
                     PTO_OK);
    return task;
}

/* Rank 1 is asked, and its clock is ahead by so many ticks. */
static void ask(rank *zero, rank *one, uint64_t number, uint64_t ahead)
{
    const uint64_t asked = pto_trace_clock(zero->rt);
    pto_trace_note(one->rt, &(pto_note){.kind = PTO_NOTE_ANSWERED,
                                        .number = number,
                                        .ticks = pto_trace_clock(one->rt) + ahead});
    const uint64_t half = (pto_trace_clock(zero->rt) - asked) / 2 + 1;
    pto_trace_note(zero->rt, &(pto_note){.kind = PTO_NOTE_ASKED,
                                         .peer = 1,
                                         .number = number,
                                         .ticks = asked + half,
                                         .error = half});
}

static uint64_t index_of(const ptoi_ptrace *t, const char *lane, const char *kernel, uint64_t nth)
{
    for (uint64_t i = 0; i < t->n_tasks; i++) {
        const ptrace_task *task = &t->tasks[i];
        assert_true(task->lane != PTRACE_NONE);
        if (!strncmp(ptoi_ptrace_string(t, t->lanes[task->lane].name), lane, strlen(lane)) &&
            !strcmp(ptoi_ptrace_kernel(t, task), kernel) && nth-- == 0) {
            return i;
        }
    }
    fail_msg("no task %s on %s", kernel, lane);
    return 0;
}

static uint64_t messages_of(const ptoi_ptrace *t)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < t->n_edges; i++) {
        n += t->edges[i].kind == PTRACE_MESSAGE;
    }
    return n;
}

/* Rank 1 sends in step 2 and receives in step 3. Its tasks are submitted before those of rank 0. */
static void it_is_in_the_order_of_the_program(void **state)
{
    rank r[2] = {0};
    char out[128];
    ptoi_ptrace t;
    (void)state;
    begin(&r[0], 0, 2);
    begin(&r[1], 1, 2);
    ask(&r[0], &r[1], 7, 0);
    note(&r[1], PTO_NOTE_STEP, 0, 2, 0);
    note(&r[1], PTO_NOTE_SEND, 0, 0, run(&r[1], r[1].send));
    note(&r[1], PTO_NOTE_STEP, 0, 3, 0);
    note(&r[1], PTO_NOTE_RECEIVE, 0, 0, run(&r[1], r[1].receive));
    (void)run(&r[1], r[1].work);
    note(&r[0], PTO_NOTE_STEP, 0, 1, 0);
    (void)run(&r[0], r[0].work);
    note(&r[0], PTO_NOTE_STEP, 0, 2, 0);
    note(&r[0], PTO_NOTE_RECEIVE, 1, 0, run(&r[0], r[0].receive));
    note(&r[0], PTO_NOTE_STEP, 0, 3, 0);
    note(&r[0], PTO_NOTE_SEND, 1, 0, run(&r[0], r[0].send));
    ask(&r[0], &r[1], 8, 0);
    end(&r[0]);
    end(&r[1]);
    const pto_trace_part parts[] = {{.name = r[1].path}, {.name = r[0].path}}; /* in any order */
    assert_int_equal(pto_trace_merge(parts, 2, traces_path("all.ptrace", out)), PTO_OK);
    assert_int_equal(ptoi_ptrace_open(out, &t), PTO_OK);
    assert_int_equal(t.n_tasks, 6);
    const char *const want[][2] = {{"rank 0 ", "work"},    {"rank 1 ", "send"},
                                   {"rank 0 ", "receive"}, {"rank 0 ", "send"},
                                   {"rank 1 ", "receive"}, {"rank 1 ", "work"}};
    for (uint64_t i = 0; i < 6; i++) {
        assert_int_equal(index_of(&t, want[i][0], want[i][1], 0), i);
    }
    assert_int_equal(messages_of(&t), 2);
    const ptrace_edge *last = &t.edges[t.tasks[4].first_edge + t.tasks[4].edges - 1];
    assert_int_equal(last->kind, PTRACE_MESSAGE);
    assert_int_equal(last->from, 3);
    for (uint64_t i = 0, n = 0; i < t.n_kernels; i++) { /* each once */
        n += !strcmp(ptoi_ptrace_string(&t, t.kernels[i].name), "send");
        assert_true(i + 1 < t.n_kernels || n == 1);
    }
    ptoi_ptrace_close(&t);

    /* The other formats. A message goes from the begin of the send to the end of the receive. */
    char other[128];
    size_t n;
    assert_int_equal(pto_trace_convert(out, traces_path("all.dot", other)), PTO_OK);
    char *text = traces_bytes(other, &n);
    assert_non_null(strstr(text, "t3 -> t4 [color=blue, label=\"message\"]"));
    free(text);
    assert_int_equal(pto_trace_convert(out, traces_path("all.json", other)), PTO_OK);
    text = traces_bytes(other, &n);
    assert_non_null(strstr(text, "\"name\":\"message\""));
    assert_non_null(strstr(text, "rank 1 orchestrator"));
    free(text);
}

/* How far the answers of rank 1 are ahead of the questions: the least and the most, in ns. */
static void span_of_answers(const ptoi_ptrace *zero, const ptoi_ptrace *one, int64_t *low,
                            int64_t *high)
{
    *low = INT64_MAX;
    *high = INT64_MIN;
    for (uint64_t i = 0; i < zero->n_notes; i++) {
        for (uint64_t k = 0; k < one->n_notes; k++) {
            const ptrace_note *asked = &zero->notes[i], *answer = &one->notes[k];
            if (asked->kind == PTO_NOTE_ASKED && answer->kind == PTO_NOTE_ANSWERED &&
                asked->number == answer->number) {
                const int64_t ahead = (int64_t)answer->at - (int64_t)asked->at;
                *low = ahead < *low ? ahead : *low;
                *high = ahead > *high ? ahead : *high;
            }
        }
    }
}

/* A clock that is ahead by a lot, and later by a little more, is moved back by what was answered. */
static void clocks_are_aligned(void **state)
{
    (void)state;
    for (uint64_t drift = 0; drift < 2; drift++) {
        rank r[2] = {0};
        char out[128];
        ptoi_ptrace t, alone[2];
        int64_t low, high;
        begin(&r[0], 0, 2);
        begin(&r[1], 1, 2);
        ask(&r[0], &r[1], 1, AHEAD);
        note(&r[1], PTO_NOTE_SEND, 0, 0, run(&r[1], r[1].send));
        note(&r[0], PTO_NOTE_RECEIVE, 1, 0, run(&r[0], r[0].receive));
        ask(&r[0], &r[1], 2, AHEAD + drift * 100000);
        end(&r[0]);
        end(&r[1]);
        const pto_trace_part parts[] = {{.name = r[0].path}, {.name = r[1].path}};
        assert_int_equal(pto_trace_merge(parts, 2, traces_path("all.ptrace", out)), PTO_OK);
        assert_int_equal(ptoi_ptrace_open(out, &t), PTO_OK);
        assert_int_equal(ptoi_ptrace_open(r[0].path, &alone[0]), PTO_OK);
        assert_int_equal(ptoi_ptrace_open(r[1].path, &alone[1]), PTO_OK);
        span_of_answers(&alone[0], &alone[1], &low, &high);
        assert_true(low > 100000000);
        const ptrace_task *send = &t.tasks[index_of(&t, "rank 1 ", "send", 0)];
        const ptrace_task *receive = &t.tasks[index_of(&t, "rank 0 ", "receive", 0)];
        const int64_t back = (int64_t)(receive->start - alone[0].tasks[0].start) -
                             (int64_t)(send->start - alone[1].tasks[0].start);
        /* The tasks are between the two questions, up to what the line through both bends. */
        const int64_t bend = 2000 + (high - low);
        if (back < low - bend || back > high + bend) {
            fail_msg("moved back by %ld ns, not by %ld to %ld", (long)back, (long)low, (long)high);
        }
        ptoi_ptrace_close(&t);
        ptoi_ptrace_close(&alone[0]);
        ptoi_ptrace_close(&alone[1]);
    }
}

static void what_is_no_rank_is_refused(void **state)
{
    rank r[3] = {0};
    char out[128];
    (void)state;
    begin(&r[0], 0, 2);
    begin(&r[1], 1, 3);
    begin(&r[2], 2, 0);
    for (int i = 0; i < 3; i++) {
        end(&r[i]);
    }
    traces_path("refused.ptrace", out);
    const pto_trace_part none = {.name = r[2].path},
                         differ[] = {{.name = r[0].path}, {.name = r[1].path}},
                         twice[] = {{.name = r[0].path}, {.name = r[0].path}},
                         missing = {.name = "/nowhere/at.ptrace"},
                         damaged = {"damaged", "PTOTRACE", 8};
    assert_int_equal(pto_trace_merge(&none, 1, out), PTO_BAD_PARAM);
    assert_non_null(strstr(pto_error_detail(), "not the trace of a rank"));
    assert_int_equal(pto_trace_merge(differ, 2, out), PTO_BAD_PARAM);
    assert_non_null(strstr(pto_error_detail(), "on 2 ranks"));
    assert_int_equal(pto_trace_merge(twice, 2, out), PTO_BAD_PARAM);
    assert_non_null(strstr(pto_error_detail(), "both of rank 0"));
    assert_int_equal(pto_trace_merge(&missing, 1, out), PTO_SYSTEM);
    assert_int_equal(pto_trace_merge(&damaged, 1, out), PTO_BAD_FILE);
    assert_int_equal(pto_trace_merge(differ, 0, out), PTO_BAD_PARAM);
    assert_int_equal(pto_trace_merge(NULL, 1, out), PTO_NULL_ARGUMENT);
    assert_int_equal(pto_trace_merge(twice, 1, "x.text"), PTO_BAD_PARAM);
    assert_int_equal(pto_trace_merge(twice, 1, out), PTO_OK); /* a rank alone */
}

/* A send that comes after its receive, in steps that do not rise: as no program makes them. */
static void damaged_notes_do_no_harm(void **state)
{
    rank r[2] = {0};
    char out[128];
    ptoi_ptrace t;
    (void)state;
    begin(&r[0], 0, 2);
    begin(&r[1], 1, 2);
    for (uint32_t i = 0; i < 2; i++) {
        note(&r[i], PTO_NOTE_STEP, 0, 9 - i, 0);
        note(&r[i], PTO_NOTE_RECEIVE, 1 - i, 0, run(&r[i], r[i].receive));
        note(&r[i], PTO_NOTE_STEP, 0, 3, 0);
        note(&r[i], PTO_NOTE_SEND, 1 - i, 0, run(&r[i], r[i].send));
        note(&r[i], PTO_NOTE_SEND, 1 - i, 0, 12345);
        end(&r[i]);
    }
    const pto_trace_part parts[] = {{.name = r[0].path}, {.name = r[1].path}};
    assert_int_equal(pto_trace_merge(parts, 2, traces_path("all.ptrace", out)), PTO_OK);
    assert_int_equal(ptoi_ptrace_open(out, &t), PTO_OK);
    assert_int_equal(t.n_tasks, 4);
    assert_int_equal(messages_of(&t), 1); /* the other would lead backwards */
    ptoi_ptrace_close(&t);
}

/* The writer gets the bytes of the file, and there is no file. */
static pto_status take(void *user, const char *path, const void *bytes, size_t n)
{
    ptoi_ptrace t;
    assert_int_equal(ptoi_ptrace_parse(path, bytes, n, &t), PTO_OK);
    *(uint64_t *)user = t.n_tasks;
    ptoi_ptrace_close(&t);
    return PTO_OK;
}

static void a_writer_gets_the_trace(void **state)
{
    rank r = {0};
    uint64_t tasks = 0;
    (void)state;
    begin(&r, 5, 0);
    (void)run(&r, r.work);
    assert_int_equal(pto_set_trace_writer(r.rt, take, &tasks), PTO_OK);
    end(&r);
    assert_int_equal(tasks, 1);
    assert_null(fopen(r.path, "rb"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_in_the_order_of_the_program),
        cmocka_unit_test(clocks_are_aligned),
        cmocka_unit_test(what_is_no_rank_is_refused),
        cmocka_unit_test(damaged_notes_do_no_harm),
        cmocka_unit_test(a_writer_gets_the_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
