/* test_doctor.c - programs that hang, each in its own way, and what the doctor says about them.
 * Each is a process of its own, checked at from outside while it hangs. Nothing depends on how
 * long anything takes: it is checked until the answer is there, or for so long that it will not
 * come. */
#define _GNU_SOURCE /* open_memstream */
#include "doctor.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "commands.h"
#include "support.h"

enum { PATIENCE_S = 60 };

/* ---- Programs that hang -------------------------------------------------------------------- */

/* What a child does, and how its runtime is configured. */
typedef struct program {
    void (*run)(pto_runtime *rt);
    uint32_t workers; /* 0: PTO_NO_WORKERS */
    uint32_t types;   /* of each; 0: all */
    uint32_t caller;  /* types; 0: none */
    uint32_t ring_tasks;
    pto_place place;
    uint64_t heap; /* bytes; 0: the usual */
} program;

static int ready_end; /* of a pipe: the child says that it begins to hang */

static void must(pto_status s)
{
    if (s != PTO_OK) {
        fprintf(stderr, "child: %s: %s\n", pto_status_name(s), pto_error_detail());
        _exit(3);
    }
}

static void say_ready(void)
{
    if (write(ready_end, "x", 1) != 1) {
        _exit(4);
    }
}

static void hang(void)
{
    say_ready();
    for (;;) {
        pause();
    }
}

static pto_status quick(const pto_call *call)
{
    (void)call;
    return PTO_OK;
}

static pto_status pend(const pto_call *call)
{
    (void)call;
    return PTO_PENDING;
}

static pto_status stick(const pto_call *call)
{
    (void)call;
    for (;;) {
        pause();
    }
    return PTO_OK;
}

static pto_kernel make(pto_runtime *rt, const char *name, pto_worker_type type, pto_kernel_fn fn)
{
    pto_kernel kernel;
    must(pto_kernel_register(rt, name, type, fn, NULL, &kernel));
    return kernel;
}

static pto_task submit(pto_runtime *rt, pto_kernel kernel, pto_task after, int line)
{
    pto_task task;
    const pto_param param = pto_after(after);
    must(pto_submit_task_at(rt, kernel, PTO_KERNEL_TYPE, &param, after ? 1 : 0, &task, "model.c",
                            line));
    return task;
}

static void run_pending(pto_runtime *rt)
{
    const pto_kernel pends = make(rt, "send", PTO_VECTOR, pend);
    const pto_kernel other = make(rt, "use", PTO_VECTOR, quick);
    const pto_task first = submit(rt, pends, 0, 10);
    const pto_task second = submit(rt, other, first, 11);
    const pto_task third = submit(rt, other, second, 12);
    say_ready();
    must(pto_wait_task(rt, third));
}

static void run_labelled(pto_runtime *rt)
{
    const pto_kernel pends = make(rt, "send", PTO_VECTOR, pend);
    must(pto_range_begin(rt, "step %d", 7));
    must(pto_range_begin(rt, "halo\n"));
    must(pto_label(rt, "tile [%d]", 3));
    const pto_task first = submit(rt, pends, 0, 10);
    say_ready();
    must(pto_wait_task(rt, first));
}

static void run_long_chain(pto_runtime *rt)
{
    const pto_kernel other = make(rt, "use", PTO_VECTOR, quick);
    pto_task last = submit(rt, make(rt, "send", PTO_VECTOR, pend), 0, 10);
    for (int i = 1; i < 20; i++) {
        last = submit(rt, other, last, 10 + i);
    }
    say_ready();
    must(pto_wait_task(rt, last));
}

static void run_slow(pto_runtime *rt)
{
    submit(rt, make(rt, "sleepy", PTO_VECTOR, stick), 0, 20);
    say_ready();
    must(pto_wait(rt));
}

/* The same on a device, in memory of its heap. */
static void run_slow_device(pto_runtime *rt)
{
    const pto_device sim1 = {PTO_DEVICE_SIM, 1};
    const pto_kernel kernel = make(rt, "sleepy", PTO_CUBE, stick);
    pto_tensor t;
    must(pto_kernel_variant(rt, kernel, PTO_DEVICE_SIM, stick, NULL));
    must(pto_scope_begin(rt));
    must(pto_temp_on(rt, sim1, PTO_UINT8, 1, (int64_t[]){1000}, &t));
    must(pto_submit_task_at(rt, kernel, PTO_CUBE, (pto_param[]){pto_output(&t)}, 1, NULL, "model.c",
                            22));
    say_ready();
    must(pto_wait(rt));
}

static pto_kernel make_for_sim(pto_runtime *rt, const char *name, pto_kernel_fn fn)
{
    const pto_kernel kernel = make(rt, name, PTO_CUBE, fn);
    must(pto_kernel_variant(rt, kernel, PTO_DEVICE_SIM, fn, NULL));
    return kernel;
}

/* Place gpu: one block runs, another task is ready, and a third waits. */
static void run_grid(pto_runtime *rt)
{
    const pto_task first = submit(rt, make_for_sim(rt, "sleepy", stick), 0, 100);
    const pto_kernel other = make_for_sim(rt, "next", quick);
    submit(rt, other, first, 101);
    say_ready();
    must(pto_wait(rt));
}

static void run_grid_busy(pto_runtime *rt)
{
    submit(rt, make_for_sim(rt, "sleepy", stick), 0, 102);
    const pto_task second = submit(rt, make_for_sim(rt, "urgent", quick), 0, 103);
    say_ready();
    must(pto_wait_task(rt, second));
}

/* The orchestrating thread is stuck in a kernel that it runs while it waits. */
static void run_slow_caller(pto_runtime *rt)
{
    static uint8_t bytes[64];
    pto_tensor t;
    must(pto_external_tensor(rt, bytes, PTO_UINT8, 1, (int64_t[]){64}, &t));
    submit(rt, make(rt, "sleepy", PTO_VECTOR, stick), 0, 21);
    must(pto_submit(rt, make(rt, "use", PTO_VECTOR, quick), pto_input(&t)));
    say_ready();
    must(pto_wait(rt));
}

static void run_busy(pto_runtime *rt)
{
    submit(rt, make(rt, "sleepy", PTO_CUBE, stick), 0, 30);
    const pto_task second = submit(rt, make(rt, "urgent", PTO_CUBE, quick), 0, 31);
    say_ready();
    must(pto_wait_task(rt, second));
}

static void run_caller(pto_runtime *rt)
{
    submit(rt, make(rt, "urgent", PTO_AI_CPU, quick), 0, 40);
    hang();
}

static void run_full(pto_runtime *rt)
{
    submit(rt, make(rt, "send", PTO_VECTOR, pend), 0, 50);
    const pto_kernel other = make(rt, "use", PTO_VECTOR, quick);
    say_ready();
    for (int i = 0; i < 1000; i++) {
        submit(rt, other, 0, 51);
    }
}

static void run_read(pto_runtime *rt)
{
    static uint8_t bytes[64], to[64];
    pto_tensor t;
    must(pto_external_tensor(rt, bytes, PTO_UINT8, 1, (int64_t[]){64}, &t));
    const pto_param param = pto_output(&t);
    must(pto_submit_task_at(rt, make(rt, "send", PTO_VECTOR, pend), PTO_KERNEL_TYPE, &param, 1,
                            NULL, "model.c", 60));
    say_ready();
    must(pto_read(rt, &t, to, sizeof to));
}

enum { BLOCK = 64, BLOCKS = 4 }; /* of the heap that stalls */

/* The task brings a block. */
static pto_status submit_block(pto_runtime *rt, pto_kernel kernel, int line)
{
    pto_buffer buffer;
    pto_tensor t;
    must(pto_create_buffer(rt, BLOCK, &buffer));
    must(pto_managed_tensor(rt, &buffer, 0, PTO_UINT8, 1, (int64_t[]){BLOCK}, &t));
    const pto_param param = pto_output(&t);
    return pto_submit_task_at(rt, kernel, PTO_KERNEL_TYPE, &param, 1, NULL, "model.c", line);
}

/* The scope holds the heap, whatever the tasks do: one more is refused. */
static void be_refused(pto_runtime *rt, pto_kernel first, bool wait)
{
    const pto_kernel other = make(rt, "use", PTO_VECTOR, quick);
    must(pto_scope_begin_at(rt, 0, "model.c", 7));
    for (int i = 0; i < BLOCKS; i++) {
        must(submit_block(rt, i ? other : first, 70 + i));
    }
    if (wait) {
        must(pto_wait(rt));
    }
    if (submit_block(rt, other, 75) != PTO_STALLED) {
        _exit(5);
    }
}

static void run_stalled(pto_runtime *rt)
{
    be_refused(rt, make(rt, "first", PTO_VECTOR, quick), true);
    hang();
}

static void run_refused_ready(pto_runtime *rt)
{
    be_refused(rt, make(rt, "first", PTO_VECTOR, quick), false);
    hang();
}

static void run_refused_pending(pto_runtime *rt)
{
    be_refused(rt, make(rt, "send", PTO_VECTOR, pend), false);
    pto_refused(rt, NULL); /* else the wait would report it */
    say_ready();
    must(pto_wait(rt));
}

/* Memory of tasks that nobody has recycled, and too few of them for that to be tried. */
static void run_few(pto_runtime *rt)
{
    const pto_kernel pends = make(rt, "send", PTO_VECTOR, pend);
    must(pto_scope_begin_at(rt, 0, "model.c", 7));
    for (int i = 0; i < 21; i++) {
        pto_tensor t;
        pto_buffer buffer;
        must(pto_create_buffer(rt, 4096, &buffer));
        must(pto_managed_tensor(rt, &buffer, 0, PTO_UINT8, 1, (int64_t[]){4096}, &t));
        must(pto_submit(rt, pends, pto_output(&t)));
    }
    hang();
}

/* This runtime is idle, and another one of the process hangs. */
static void run_two(pto_runtime *rt)
{
    pto_config config = PTO_CONFIG_INIT;
    pto_runtime *other;
    submit(rt, make(rt, "use", PTO_VECTOR, quick), 0, 120);
    must(pto_wait(rt));
    config.workers = 1;
    must(pto_runtime_create(&other, &config));
    run_pending(other);
}

static void run_idle(pto_runtime *rt)
{
    submit(rt, make(rt, "use", PTO_VECTOR, quick), 0, 80);
    must(pto_wait(rt));
    hang();
}

static void run_on(pto_runtime *rt)
{
    const pto_kernel other = make(rt, "use", PTO_VECTOR, quick);
    say_ready();
    for (;;) {
        submit(rt, other, 0, 90);
    }
}

/* ---- The child ------------------------------------------------------------------------------ */

static pid_t start(const program *p)
{
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        uint32_t types[4] = {p->types, p->types, p->types, p->types};
        pto_config config = PTO_CONFIG_INIT;
        pto_runtime *rt;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(4 * PATIENCE_S);
        close(ends[0]);
        ready_end = ends[1];
        config.workers = p->workers ? p->workers : PTO_NO_WORKERS;
        config.worker_types = p->types ? types : NULL;
        config.caller_types = p->caller ? p->caller : PTO_NO_TYPES;
        config.ring_tasks = p->ring_tasks;
        config.place = p->place;
        config.heap_bytes = p->heap;
        config.levels = 2;
        if (p->place == PTO_PLACE_GPU) {
            config.device = (pto_device){PTO_DEVICE_SIM, 0};
            config.gpu_workers = 1;
        }
        must(pto_runtime_create(&rt, &config));
        p->run(rt);
        _exit(0);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    return child;
}

static void end(pid_t child)
{
    int status;
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* Looks until the answer is `want`. The report is the caller's to free. */
static void expect_cause_of(pid_t child, uint32_t number, doctor_cause want, doctor_report *r)
{
    peek p;
    const time_t deadline = time(NULL) + PATIENCE_S;
    if (peek_open(&p, child, number) != PTO_OK) {
        fail_msg("%s", pto_error_detail());
    }
    for (;;) {
        assert_int_equal(doctor_examine(&p, 0.06, r), PTO_OK);
        if (r->cause == want) {
            break;
        }
        if (time(NULL) > deadline) {
            doctor_print(stderr, r);
            fail_msg("the doctor says '%s', not '%s'", doctor_cause_name(r->cause),
                     doctor_cause_name(want));
        }
        doctor_free(r);
    }
    peek_close(&p);
}

static void expect_cause(pid_t child, doctor_cause want, doctor_report *r)
{
    expect_cause_of(child, 0, want, r);
}

/* What is printed contains each of the words, up to NULL. */
static void expect_words(const doctor_report *r, const char *const *words)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    doctor_print(out, r);
    fclose(out);
    for (; *words; words++) {
        if (!strstr(text, *words)) {
            fail_msg("no '%s' in:\n%s", *words, text);
        }
    }
    free(text);
}

#define EXPECT_WORDS(report, ...) expect_words((report), (const char *const[]){__VA_ARGS__, NULL})

/* ---- Each way ------------------------------------------------------------------------------- */

#define ALL PTO_ALL_TYPES
#define BIT(type) PTO_TYPE_BIT(type)

static void pending_at(pto_place place)
{
    const program p = {run_pending, 2, 0, ALL, 0, place, 0};
    const pid_t child = start(&p);
    doctor_report r;
    char call[80];
    expect_cause(child, DOCTOR_PENDING, &r);
    assert_int_equal(r.length, 3);
    assert_int_equal(r.n_chain, 3);
    assert_int_equal(r.look.submitted, 3);
    assert_int_equal(r.look.completed, 0);
    assert_int_equal(r.look.states[PEEK_PENDING], 1);
    assert_int_equal(r.look.states[PEEK_WAITS], 2);
    assert_int_equal(r.look.oldest.order, 0);
    assert_int_equal(r.look.wait.why, PTOI_WHY_TASK);
    snprintf(call, sizeof call, "pto_task_complete(rt, %llu, status)\n       where %llu is",
             (unsigned long long)r.chain[2].task, (unsigned long long)r.chain[2].task);
    EXPECT_WORDS(
        &r, "complete, 1 pending, 2 waiting.\n",
        "waits for one task (pto_wait_task), currently for task 2 (kernel 'use', submitted",
        "  task 2 (kernel 'use', submitted at model.c:12) waits for\n"
        "  task 1 (kernel 'use', submitted at model.c:11) waits for\n"
        "  task 0 (kernel 'send', submitted at model.c:10) is pending\n"
        "\n"
        "cause  the kernel 'send' returned PTO_PENDING, but pto_task_complete has not "
        "been called for the task.\n",
        call);
    doctor_free(&r);
    end(child);
}

/* The blocks of a device that schedules for itself: their tasks, and what they serve. */
static void test_a_block_runs(void **state)
{
    (void)state;
    const program p = {run_grid, 1, 0, 0, 0, PTO_PLACE_GPU, 0};
    const pid_t child = start(&p);
    doctor_report r;
    expect_cause(child, DOCTOR_RUNS, &r);
    assert_int_equal(r.look.place, PTO_PLACE_GPU);
    assert_int_equal(r.look.states[PEEK_RUNS], 1);
    assert_int_equal(r.look.states[PEEK_WAITS], 1);
    assert_int_equal(r.look.threads, 4); /* a worker, the caller, a thread for copies, a block */
    assert_false(r.look.worker[2].block);
    assert_true(r.look.worker[3].block);
    assert_string_equal(peek_types_of(r.look.worker[3].types).s, "cube+vector");
    assert_int_equal(r.look.worker[1].types, 0); /* the caller runs nothing */
    assert_string_equal(r.look.worker[3].runs.kernel, "sleepy");
    EXPECT_WORDS(&r, "complete, 1 running, 1 waiting.\n",
                 "  task 0 (kernel 'sleepy', submitted at model.c:100) is running\n",
                 ", on sim:0 block 0 (thread ", "get a backtrace");
    doctor_free(&r);
    end(child);
}

static void test_all_blocks_are_busy(void **state)
{
    (void)state;
    const program p = {run_grid_busy, 1, 0, 0, 0, PTO_PLACE_GPU, 0};
    const pid_t child = start(&p);
    doctor_report r;
    expect_cause(child, DOCTOR_BUSY, &r);
    assert_int_equal(r.look.states[PEEK_RUNS], 1);
    assert_int_equal(r.look.states[PEEK_READY], 1);
    EXPECT_WORDS(&r, "cause  all blocks that serve cube tasks are busy:\n", "sim:0 block 0",
                 "(kernel 'sleepy', submitted at model.c:102)", "(PTO_GPU_WORKERS)");
    doctor_free(&r);
    end(child);
}

static void test_pending(void **state)
{
    (void)state;
    pending_at(PTO_PLACE_INLINE);
}

static void test_pending_with_a_scheduler_thread(void **state)
{
    (void)state;
    pending_at(PTO_PLACE_THREAD);
}

/* The label of the task and the open ranges, which may contain anything. */
static void test_labels_and_ranges(void **state)
{
    (void)state;
    const program p = {run_labelled, 1, 0, ALL, 0, PTO_PLACE_INLINE, 0};
    const pid_t child = start(&p);
    doctor_report r;
    expect_cause(child, DOCTOR_PENDING, &r);
    assert_string_equal(r.look.oldest.label, "tile [3]");
    assert_int_equal(r.look.n_ranges, 2);
    EXPECT_WORDS(&r, "  task 0 'tile [3]' (kernel 'send', submitted at model.c:10) is pending\n",
                 "It is in range step 7 > halo?.\n");
    assert_string_equal(peek_brief_of(&r.look.oldest).s,
                        "task 0 'tile [3]' (kernel 'send', submitted at model.c:10)");
    doctor_free(&r);
    end(child);
}

static void test_a_long_chain(void **state)
{
    (void)state;
    const program p = {run_long_chain, 1, 0, ALL, 0, PTO_PLACE_INLINE, 0};
    const pid_t child = start(&p);
    doctor_report r;
    expect_cause(child, DOCTOR_PENDING, &r);
    assert_int_equal(r.length, 20);
    EXPECT_WORDS(&r,
                 "  task 16 (kernel 'use', submitted at model.c:26) waits for\n"
                 "  ... and 12 more ...\n"
                 "  task 3 (kernel 'use', submitted at model.c:13) waits for\n",
                 "  task 0 (kernel 'send', submitted at model.c:10) is pending\n");
    doctor_free(&r);
    end(child);
}

static void test_a_slow_kernel(void **state)
{
    (void)state;
    const program p = {run_slow, 1, 0, 0, 0, PTO_PLACE_INLINE, 0};
    const pid_t child = start(&p);
    doctor_report r;
    expect_cause(child, DOCTOR_RUNS, &r);
    assert_int_equal(r.worker, 0);
    assert_int_equal(r.look.worker[0].runs.order, 0);
    assert_int_equal(r.look.worker[1].runs.task, 0);
    assert_true(r.thread.known);
    EXPECT_WORDS(&r, "The orchestrating thread waits for all tasks (pto_wait)",
                 "  task 0 (kernel 'sleepy', submitted at model.c:20) is running\n",
                 "cause  the kernel 'sleepy' has been running for at least ",
                 ", on worker 0 (thread ", "nothing if the kernel is expected to take this long");
    doctor_free(&r);
    end(child);
}

static void test_a_slow_kernel_on_a_device(void **state)
{
    (void)state;
    const program p = {run_slow_device, 1, 0, 0, 0, PTO_PLACE_INLINE, 0};
    const pid_t child = start(&p);
    doctor_report r;
    expect_cause(child, DOCTOR_RUNS, &r);
    assert_int_equal(r.look.devices, 2);
    assert_string_equal(peek_device_name(r.look.device[1].device).s, "sim:1");
    assert_int_equal(r.look.threads, 1 + 1 + r.look.device[1].workers);
    assert_true(r.worker > r.look.workers);
    assert_int_equal(r.look.worker[r.worker].device, 1);
    assert_int_equal(r.look.device[1].heap[0].used, 1024);
    assert_true(r.thread.known);
    EXPECT_WORDS(&r, "  task 0 (kernel 'sleepy', submitted at model.c:22) is running\n",
                 ", on sim:1 worker 0 (thread ");
    doctor_free(&r);
    end(child);
}

static void test_a_slow_kernel_on_the_orchestrating_thread(void **state)
{
    (void)state;
    const program p = {run_slow_caller, 0, 0, ALL, 0, PTO_PLACE_INLINE, 0};
    const pid_t child = start(&p);
    doctor_report r;
    expect_cause(child, DOCTOR_RUNS, &r);
    assert_int_equal(r.worker, 0);
    assert_int_equal(r.look.workers, 0);
    /* Nothing was recycled yet, and still the rings are reported. */
    assert_int_equal(r.look.level[0].rings.ring[PTO_RING_TASKS].used, 2);
    assert_int_equal(r.look.level[0].rings.ring[PTO_RING_TASKS].peak, 2);
    assert_true(r.look.level[0].rings.ring[PTO_RING_ARGS].used > 0);
    assert_int_equal(r.look.level[0].rings.ring[PTO_RING_MAP].used, 1);
    EXPECT_WORDS(&r,
                 "waits for all tasks (pto_wait) and runs task 0 (kernel 'sleepy', submitted at "
                 "model.c:21) meanwhile",
                 ", on the orchestrating thread.\n");
    doctor_free(&r);
    end(child);
}

static void test_all_workers_of_a_type_are_busy(void **state)
{
    (void)state;
    const program p = {run_busy, 1, BIT(PTO_CUBE), BIT(PTO_VECTOR), 0, PTO_PLACE_INLINE, 0};
    const pid_t child = start(&p);
    doctor_report r;
    expect_cause(child, DOCTOR_BUSY, &r);
    EXPECT_WORDS(&r,
                 "  task 1 (kernel 'urgent', submitted at model.c:31) is ready but does not run\n",
                 "cause  all threads that serve cube tasks are busy:\n",
                 ": task 0 (kernel 'sleepy', submitted at model.c:30)\n", "more workers for cube");
    doctor_free(&r);
    end(child);
}

static void test_only_the_orchestrating_thread_could(void **state)
{
    (void)state;
    const program p = {run_caller, 1, BIT(PTO_CUBE), BIT(PTO_AI_CPU), 0, PTO_PLACE_INLINE, 0};
    const pid_t child = start(&p);
    doctor_report r;
    expect_cause(child, DOCTOR_CALLER, &r);
    EXPECT_WORDS(&r, "The orchestrating thread is in user code or submits tasks.",
                 "cause  only the orchestrating thread serves ai_cpu tasks", "call pto_wait");
    doctor_free(&r);
    end(child);
}

static void test_no_room(void **state)
{
    (void)state;
    const program p = {run_full, 1, 0, ALL, 8, PTO_PLACE_INLINE, 0};
    const pid_t child = start(&p);
    doctor_report r;
    expect_cause(child, DOCTOR_PENDING, &r);
    assert_int_equal(r.look.submitted, 8);
    assert_int_equal(r.look.completed, 7);
    EXPECT_WORDS(&r,
                 "waits for room to submit: it needs 1 more in the task ring of level 0, "
                 "currently for task "
                 "0 (kernel 'send', submitted at model.c:50)",
                 "pto_task_complete");
    doctor_free(&r);
    end(child);
}

static void test_reading(void **state)
{
    (void)state;
    const program p = {run_read, 1, 0, ALL, 0, PTO_PLACE_INLINE, 0};
    const pid_t child = start(&p);
    doctor_report r;
    expect_cause(child, DOCTOR_PENDING, &r);
    EXPECT_WORDS(&r, "waits to read a tensor (pto_read), currently for task 0 (kernel 'send'");
    doctor_free(&r);
    end(child);
}

static void test_a_stall(void **state)
{
    (void)state;
    const program p = {run_stalled, 1, 0, ALL, 0, PTO_PLACE_INLINE, BLOCKS * BLOCK};
    const pid_t child = start(&p);
    doctor_report r;
    expect_cause(child, DOCTOR_STALLED, &r);
    EXPECT_WORDS(&r, "The last call to the runtime was refused",
                 "stalled: no task that ends can make room\n"
                 "  short of  heap of level 0: 64 wanted, 256 of 256 bytes in use\n"
                 "  oldest    output 0, 64 bytes, of task 0 (kernel 'first', submitted at "
                 "model.c:70)\n"
                 "  held by   the scope opened at model.c:7, which only this program can end\n",
                 "the program must handle it");
    doctor_free(&r);
    end(child);
}

static void test_a_stall_before_anything_ran(void **state)
{
    (void)state;
    const program p = {run_refused_ready, 0, 0, ALL, 0, PTO_PLACE_INLINE, BLOCKS * BLOCK};
    const pid_t child = start(&p);
    doctor_report r;
    expect_cause(child, DOCTOR_STALLED, &r);
    assert_int_equal(r.look.states[PEEK_READY], 4);
    EXPECT_WORDS(&r, "The last call to the runtime was refused", "ago:\n",
                 "  held by   the scope opened at model.c:7, which only this program can end\n",
                 "but that makes no room");
    doctor_free(&r);
    end(child);
}

static void test_a_stall_and_another_cause(void **state)
{
    (void)state;
    const program p = {run_refused_pending, 1, 0, ALL, 0, PTO_PLACE_INLINE, BLOCKS * BLOCK};
    const pid_t child = start(&p);
    doctor_report r;
    expect_cause(child, DOCTOR_PENDING, &r);
    EXPECT_WORDS(&r, "pto_task_complete has not been called", "An earlier call to the runtime",
                 "  held by   the scope opened at model.c:7, which only this program can end\n");
    doctor_free(&r);
    end(child);
}

/* Numbers that are published now and then have an age. */
static void test_how_old_numbers_are(void **state)
{
    (void)state;
    const program p = {run_few, 1, 0, 0, 64, PTO_PLACE_INLINE, 0};
    const pid_t child = start(&p);
    doctor_report r;
    expect_cause(child, DOCTOR_PENDING, &r);
    const peek_level *level = &r.look.level[0];
    assert_int_equal(level->rings.ring[PTO_RING_TASKS].used, 21);
    assert_true(level->since < 21);
    assert_int_equal(level->rings.ring[PTO_RING_HEAP].used, (21 - level->since) * 4096);
    doctor_free(&r);
    end(child);
}

static void test_the_other_of_two(void **state)
{
    (void)state;
    const program p = {run_two, 1, 0, ALL, 0, PTO_PLACE_INLINE, 0};
    const pid_t child = start(&p);
    doctor_report r;
    char words[80];
    assert_int_equal(peek_windows(child), 2);
    expect_cause(child, DOCTOR_IDLE, &r);
    assert_false(doctor_hangs(&r));
    snprintf(words, sizeof words, "(process %d, runtime 0 of 2)", (int)child);
    EXPECT_WORDS(&r, words);
    doctor_free(&r);

    expect_cause_of(child, 1, DOCTOR_PENDING, &r);
    assert_true(doctor_hangs(&r));
    snprintf(words, sizeof words, "(process %d, runtime 1 of 2)", (int)child);
    EXPECT_WORDS(&r, words);
    doctor_free(&r);

    /* The command looks at both. */
    char *arguments[] = {"doctor", "--wait", "0.03", words, NULL};
    snprintf(words, sizeof words, "%d", (int)child);
    assert_int_equal(command_doctor(4, arguments), 1);
    snprintf(words, sizeof words, "%d:0", (int)child);
    assert_int_equal(command_doctor(4, arguments), 0);
    snprintf(words, sizeof words, "%d:2", (int)child);
    assert_int_equal(command_doctor(4, arguments), 2);
    end(child);
}

static void test_idle_stopped_and_ended(void **state)
{
    (void)state;
    const program p = {run_idle, 1, 0, ALL, 0, PTO_PLACE_INLINE, 0};
    const pid_t child = start(&p);
    doctor_report r;
    int status;
    peek kept;
    expect_cause(child, DOCTOR_IDLE, &r);
    EXPECT_WORDS(&r, "1 task submitted, 1 complete", "the program is in user code");
    doctor_free(&r);

    kill(child, SIGSTOP);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    expect_cause(child, DOCTOR_STOPPED, &r);
    EXPECT_WORDS(&r, "kill -CONT");
    doctor_free(&r);

    /* What was mapped stays readable. */
    assert_int_equal(peek_open(&kept, child, 0), PTO_OK);
    end(child);
    assert_int_equal(doctor_examine(&kept, 0.03, &r), PTO_OK);
    assert_int_equal(r.cause, DOCTOR_ENDED);
    EXPECT_WORDS(&r, "has ended.\n");
    doctor_free(&r);
    peek_close(&kept);
}

static void test_moving(void **state)
{
    (void)state;
    const program p = {run_on, 1, 0, ALL, 0, PTO_PLACE_INLINE, 0};
    const pid_t child = start(&p);
    doctor_report r;
    expect_cause(child, DOCTOR_MOVES, &r);
    assert_true(r.submitted > 0 || r.completed > 0);
    EXPECT_WORDS(&r, "makes progress: in ");
    doctor_free(&r);
    end(child);
}

/* ---- What is no program ---------------------------------------------------------------------- */

static void test_nothing_to_look_at(void **state)
{
    (void)state;
    peek p;
    assert_int_equal(peek_open(&p, (int)getpid(), 0), PTO_SYSTEM);
    assert_non_null(strstr(pto_error_detail(), "has no runtime"));
    assert_int_equal(peek_open(&p, INT32_MAX, 0), PTO_SYSTEM);
    assert_non_null(strstr(pto_error_detail(), "there is no process"));
    const program idle = {run_idle, 1, 0, ALL, 0, PTO_PLACE_INLINE, 0};
    const pid_t child = start(&idle);
    assert_int_equal(peek_open(&p, (int)child, 1), PTO_SYSTEM);
    assert_non_null(strstr(pto_error_detail(), "there is no number 1"));
    end(child);
}

/* A window full of garbage: reading it does no harm. */
static void test_garbage(void **state)
{
    (void)state;
    const program waiting = {run_pending, 2, 0, ALL, 16, PTO_PLACE_INLINE, 0};
    const pid_t child = start(&waiting);
    peek p, broken;
    doctor_report r;
    expect_cause(child, DOCTOR_PENDING, &r);
    doctor_free(&r);
    assert_int_equal(peek_open(&p, child, 0), PTO_OK);
    ptoi_mapping copy = p.mapping;
    for (int part = 0; part < PTOI_PART_HEAPS; part++) {
        copy.memory[part] = malloc(copy.bytes[part]);
        assert_non_null(copy.memory[part]);
    }
    assert_null(copy.memory[PTOI_PART_HEAPS]); /* nobody looks at the heaps */
    test_rng rng = test_rng_make(test_seed());
    FILE *nowhere = fopen("/dev/null", "w");
    assert_non_null(nowhere);
    const size_t fixed[] = {offsetof(ptoi_header, inbox_head),
                            offsetof(ptoi_sched_header, inbox_claimed)};
    const size_t headers[] = {sizeof(ptoi_header), sizeof(ptoi_sched_header)};
    for (uint64_t i = 0, n = test_effort(300); i < n; i++) {
        memcpy(copy.memory[0], p.mapping.memory[0], copy.bytes[0]);
        memcpy(copy.memory[1], p.mapping.memory[1], copy.bytes[1]);
        memcpy(copy.memory[2], p.mapping.memory[2], copy.bytes[2]);
        /* Few bytes, or many, in the headers or where tasks, workers and texts are. */
        const uint64_t many = UINT64_C(1) << test_next(&rng) % 12;
        for (uint64_t k = 0; k < many; k++) {
            const int part = test_next(&rng) % 3 == 0;
            const size_t limit = test_next(&rng) % 2 ? headers[part] : copy.bytes[part];
            ((char *)copy.memory[part])[fixed[part] + test_next(&rng) % (limit - fixed[part])] =
                (char)test_next(&rng);
        }
        if (peek_attach(&broken, &copy) != PTO_OK) {
            continue;
        }
        assert_int_equal(doctor_examine(&broken, 0, &r), PTO_OK);
        r.cause = (doctor_cause)(test_next(&rng) % DOCTOR_CAUSES); /* the words of each */
        if (r.n_chain || r.cause <= DOCTOR_STALLED) {
            doctor_print(nowhere, &r);
        }
        doctor_free(&r);
    }
    fclose(nowhere);
    free(copy.memory[0]);
    free(copy.memory[1]);
    free(copy.memory[2]);
    peek_close(&p);
    end(child);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_block_runs),
        cmocka_unit_test(test_all_blocks_are_busy),
        cmocka_unit_test(test_pending),
        cmocka_unit_test(test_pending_with_a_scheduler_thread),
        cmocka_unit_test(test_labels_and_ranges),
        cmocka_unit_test(test_a_long_chain),
        cmocka_unit_test(test_a_slow_kernel),
        cmocka_unit_test(test_a_slow_kernel_on_a_device),
        cmocka_unit_test(test_a_slow_kernel_on_the_orchestrating_thread),
        cmocka_unit_test(test_all_workers_of_a_type_are_busy),
        cmocka_unit_test(test_only_the_orchestrating_thread_could),
        cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_reading),
        cmocka_unit_test(test_a_stall),
        cmocka_unit_test(test_a_stall_before_anything_ran),
        cmocka_unit_test(test_a_stall_and_another_cause),
        cmocka_unit_test(test_how_old_numbers_are),
        cmocka_unit_test(test_the_other_of_two),
        cmocka_unit_test(test_idle_stopped_and_ended),
        cmocka_unit_test(test_moving),
        cmocka_unit_test(test_nothing_to_look_at),
        cmocka_unit_test(test_garbage),
    };
    alarm(280);
    return cmocka_run_group_tests_name("doctor", tests, NULL, NULL);
}
