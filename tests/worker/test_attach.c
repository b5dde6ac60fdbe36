/* test_attach.c - worker processes that attach from outside: they run tasks, leave, die, are replaced, and
 * are refused. Each is this program once more, with arguments. The runtime starts no workers for the type
 * VECTOR itself, so only they can run its tasks. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/mman.h>

#include "../runtime/rig.h"
#include "base/channel.h"
#include "kill.h"
#include "scheduler/rebuild.h"

enum { PATIENCE_S = 60 };
#define EARLY "early" /* instead of types: a signal arrives before the process attaches */

typedef struct stage {
    pto_runtime *rt;
    pto_kernel add, die, stay, die_here;
    char name[40];
    int64_t *cell; /* shared: sum, process; of another one */
    pto_tensor t, u;
} stage;

/* ---- Delays ---- */

/* What makes a process slow at a place where another one may overtake it. In memory that the helper
 * shares. Written by the test, read by all. */
typedef struct delays {
    atomic_uint_fast32_t
        tells_us;          /* the program, before it tells the helper of an attached process */
    atomic_int ready_kill; /* the helper, before READY: kills this process, and its end is seen */
    atomic_uint_fast32_t
        until_line; /* the helper, in a rebuild: until a worker serves with this line */
} delays;

static delays *slow;
static pid_t program;

bool __real_ptoi_channel_send(int channel, const ptoi_message *message, const int *files,
                              int count);
bool __wrap_ptoi_channel_send(int channel, const ptoi_message *message, const int *files,
                              int count);
void __real_ptoi_rebuild_lines(const ptoi_scheduler *s, uint32_t process, uint32_t first,
                               uint32_t count);
void __wrap_ptoi_rebuild_lines(const ptoi_scheduler *s, uint32_t process, uint32_t first,
                               uint32_t count);

bool __wrap_ptoi_channel_send(int channel, const ptoi_message *message, const int *files, int count)
{
    const bool helps = getpid() != program;
    if (slow && !helps && message->process) {
        usleep((useconds_t)atomic_load(&slow->tells_us));
    } else if (slow && helps && message->kind == PTOI_SAY_READY) {
        const int pid = atomic_exchange(&slow->ready_kill, 0);
        if (pid) {
            kill(pid, SIGKILL);
            usleep(100000);
        }
    }
    return __real_ptoi_channel_send(channel, message, files, count);
}

void __wrap_ptoi_rebuild_lines(const ptoi_scheduler *s, uint32_t process, uint32_t first,
                               uint32_t count)
{
    const uint32_t line = slow ? (uint32_t)atomic_exchange(&slow->until_line, 0) : 0;
    while (line && !ptoi_get32(&s->view.wakes->threads[line].types)) {
        usleep(1000);
    }
    __real_ptoi_rebuild_lines(s, process, first, count);
}

/* Kernels of the program: their code is not that of the library. */
static pto_status not_here(const pto_call *call)
{
    (void)call;
    return pto_fail(PTO_KERNEL_FAILED, "this ran in a worker of the program");
}

/* In the worker process that the runtime has started. */
static pto_status die_here(const pto_call *call)
{
    (void)call;
    _exit(8);
}

static void start(stage *s)
{
    static int count;
    pto_config c = PTO_CONFIG_INIT;
    snprintf(s->name, sizeof s->name, "attach-test-%d-%d", (int)getpid(), count++);
    c.place = PTO_PLACE_PROCESS;
    c.type_workers[PTO_CUBE] = 1;
    c.attach = s->name;
    c.shared_bytes = 1 << 16;
    c.crash_report = PTO_NO_CRASH_REPORT;
    expect_ok(pto_runtime_create(&s->rt, &c));
    expect_ok(pto_kernel_register(s->rt, "add", PTO_VECTOR, not_here, NULL, &s->add));
    expect_ok(pto_kernel_register(s->rt, "die", PTO_VECTOR, not_here, NULL, &s->die));
    expect_ok(pto_kernel_register(s->rt, "stay", PTO_VECTOR, not_here, NULL, &s->stay));
    expect_ok(pto_kernel_register(s->rt, "die_here", PTO_CUBE, die_here, NULL, &s->die_here));
    void *memory;
    expect_ok(pto_shared_alloc(s->rt, 3 * sizeof *s->cell, &memory));
    s->cell = memory;
    expect_ok(pto_external_tensor(s->rt, memory, PTO_INT64, 1, DIMS(2), &s->t));
    expect_ok(pto_external_tensor(s->rt, &s->cell[2], PTO_INT64, 1, DIMS(1), &s->u));
}

static void stop(stage *s)
{
    expect_ok(pto_runtime_destroy(&s->rt, PTO_WAIT));
}

static void detach(int number)
{
    (void)number;
    pto_worker_detach();
}

/* The life of a worker process. Its exit status is the status of pto_worker_attach. It prints what that
 * said. */
static int serve(const char *name, const char *library, const char *types)
{
    const pto_worker_options o = {.size = sizeof o,
                                  .name = name,
                                  .libraries = &library,
                                  .n_libraries = 1,
                                  .types = (uint32_t)atoi(types)};
    signal(SIGTERM, detach);
    if (!strcmp(types, EARLY)) {
        raise(SIGTERM);
    }
    const pto_status status = pto_worker_attach(&o);
    if (status != PTO_OK) {
        puts(pto_error_detail());
    }
    return (int)status;
}

typedef struct worker {
    pid_t pid;
    int told; /* read it */
} worker;

static worker attach_as(const stage *s, const char *library, const char *types)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    const worker w = {fork(), ends[0]};
    assert_true(w.pid >= 0);
    if (w.pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execl("/proc/self/exe", "attach", s->name, library, types, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    return w;
}

static worker attach(const stage *s, const char *library, uint32_t types)
{
    char set[16];
    snprintf(set, sizeof set, "%u", types);
    return attach_as(s, library, set);
}

/* Waits until it ends; *text is what it said. Returns its exit status, or minus a signal. */
static int await_end(const worker *w, char text[512])
{
    int how;
    size_t n = 0;
    for (ssize_t got; n < 511 && (got = read(w->told, text + n, 511 - n)) > 0;) {
        n += (size_t)got;
    }
    text[n] = '\0';
    close(w->told);
    assert_int_equal(waitpid(w->pid, &how, 0), w->pid);
    return WIFSIGNALED(how) ? -WTERMSIG(how) : WEXITSTATUS(how);
}

/* Submits as soon as a worker serves the type. */
static void submit(stage *s, pto_kernel kernel, int64_t value)
{
    for (int i = 0; i < PATIENCE_S * 1000; i++) {
        const pto_status status = pto_submit(s->rt, kernel, pto_inout(&s->t), pto_scalar(value));
        if (status != PTO_BAD_WORKER) {
            expect_ok(status);
            return;
        }
        assert_true(pto_refused(s->rt, NULL));
        usleep(1000);
    }
    fail_msg("no worker attached");
}

static void test_runs_leaves_and_is_replaced(void **state)
{
    stage s = {0};
    char text[512];
    (void)state;
    start(&s);
    expect_fail(pto_submit(s.rt, s.add, pto_inout(&s.t), pto_scalar(INT64_C(1))), PTO_BAD_WORKER,
                "vector");
    assert_true(pto_refused(s.rt, NULL));
    int64_t sum = 0;
    for (int round = 0; round < 3; round++) {
        const worker w = attach(&s, PTO_TEST_KERNELS, PTO_TYPE_BIT(PTO_VECTOR));
        for (int64_t i = 0; i < 200; i++) {
            submit(&s, s.add, i);
            sum += i;
        }
        expect_ok(pto_wait(s.rt));
        assert_int_equal(s.cell[0], sum);
        assert_int_equal(s.cell[1], w.pid);
        kill(w.pid, SIGTERM);
        assert_int_equal(await_end(&w, text), PTO_OK);
    }
    stop(&s);
}

/* Two at once: each task runs once. One leaves in the middle. */
static void test_two_and_one_leaves(void **state)
{
    stage s = {0};
    char text[512];
    (void)state;
    start(&s);
    const worker a = attach(&s, PTO_TEST_KERNELS, PTO_TYPE_BIT(PTO_VECTOR));
    submit(&s, s.add, 0); /* now it runs, and knows what to do with a signal */
    expect_ok(pto_wait(s.rt));
    const worker b = attach(&s, PTO_TEST_KERNELS, 0);
    for (int64_t i = 0; i < 3000; i++) {
        submit(&s, s.add, 1);
        if (i == 1500) {
            kill(a.pid, SIGTERM);
        }
        if (i % 64 == 0) {
            expect_ok(pto_wait(s.rt)); /* they sleep now and then */
        }
    }
    expect_ok(pto_wait(s.rt));
    assert_int_equal(s.cell[0], 3000);
    assert_int_equal(await_end(&a, text), PTO_OK);
    submit(&s, s.add, 0); /* if the other one has not attached yet, it does now */
    expect_ok(pto_wait(s.rt));
    assert_int_equal(s.cell[1], b.pid);
    stop(&s); /* it leaves with the runtime */
    assert_int_equal(await_end(&b, text), PTO_OK);
}

static void test_dies_and_is_replaced(void **state)
{
    stage s = {0};
    char text[512];
    (void)state;
    start(&s);
    worker w = attach(&s, PTO_TEST_KERNELS, 0);
    submit(&s, s.add, 5);
    expect_ok(pto_wait(s.rt));
    submit(&s, s.die, 0);
    expect_fail(pto_wait(s.rt), PTO_WORKER_LOST, "worker process", "'die'");
    assert_int_equal(await_end(&w, text), 9);
    expect_ok(pto_recover(s.rt));
    expect_fail(pto_wait(s.rt), PTO_TASK_FAILED, "attached");
    expect_ok(pto_clear_error(s.rt));
    w = attach(&s, PTO_TEST_KERNELS, 0);
    for (;;) { /* its output was poisoned: write it anew */
        const pto_status status = pto_submit(s.rt, s.add, pto_output(&s.t), pto_scalar(INT64_C(2)));
        if (status == PTO_OK) {
            break;
        }
        assert_int_equal(status, PTO_BAD_WORKER);
        assert_true(pto_refused(s.rt, NULL));
        usleep(1000);
    }
    expect_ok(pto_wait(s.rt));
    assert_int_equal(s.cell[1], w.pid);
    stop(&s);
    assert_int_equal(await_end(&w, text), PTO_OK);
}

/* Its death is known before the helper is told. */
static void test_is_told_late(void **state)
{
    stage s = {0};
    char text[512];
    (void)state;
    start(&s);
    const worker w = attach(&s, PTO_TEST_KERNELS, PTO_TYPE_BIT(PTO_VECTOR));
    submit(&s, s.die, 0);
    atomic_store(&slow->tells_us, 100000);
    expect_fail(pto_wait(s.rt), PTO_WORKER_LOST, "worker process", "'die'");
    expect_ok(pto_recover(s.rt));
    expect_fail(pto_wait(s.rt), PTO_TASK_FAILED, "attached");
    atomic_store(&slow->tells_us, 0);
    assert_int_equal(await_end(&w, text), 9);
    expect_ok(pto_clear_error(s.rt));
    stop(&s);
}

/* A worker process of the runtime dies. */
static void lose_another(stage *s)
{
    expect_ok(pto_submit(s->rt, s->die_here, pto_output(&s->u)));
    expect_fail(pto_wait_task(s->rt, pto_last_task(s->rt)), PTO_WORKER_LOST, "'die_here'");
}

/* It dies while the program recovers from another loss, when the helper has rebuilt the window. */
static void test_dies_during_a_recovery(void **state)
{
    stage s = {0};
    char text[512];
    (void)state;
    start(&s);
    const worker w = attach(&s, PTO_TEST_KERNELS, PTO_TYPE_BIT(PTO_VECTOR));
    submit(&s, s.stay, 0);
    while (*(volatile int64_t *)&s.cell[1] != w.pid) {
        usleep(1000);
    }
    lose_another(&s);
    atomic_store(&slow->ready_kill, w.pid);
    expect_ok(pto_recover(s.rt));
    expect_fail(pto_wait(s.rt), PTO_WORKER_LOST, "worker process", "'stay'");
    expect_ok(pto_recover(s.rt));
    expect_fail(pto_wait(s.rt), PTO_TASK_FAILED, "stay", "attached");
    assert_int_equal(await_end(&w, text), -SIGKILL);
    expect_ok(pto_clear_error(s.rt));
    stop(&s);
}

static void *kill_soon(void *context)
{
    usleep(200000);
    kill(*(const pid_t *)context, SIGKILL);
    return NULL;
}

/* It is stopped, so that it does not pause for a recovery, and dies then: it is waited for no more. */
static void test_dies_instead_of_a_pause(void **state)
{
    stage s = {0};
    char text[512];
    pthread_t thread;
    (void)state;
    start(&s);
    worker w = attach(&s, PTO_TEST_KERNELS, PTO_TYPE_BIT(PTO_VECTOR));
    submit(&s, s.add, 1);
    expect_ok(pto_wait(s.rt));
    lose_another(&s); /* first: where it is stopped, it may have claimed a task */
    kill(w.pid, SIGSTOP);
    for (int parent; kill_state_of(w.pid, &parent) != 'T';) {
        usleep(100);
    }
    assert_int_equal(pthread_create(&thread, NULL, kill_soon, &w.pid), 0);
    expect_ok(pto_recover(s.rt));
    pthread_join(thread, NULL);
    expect_fail(pto_wait(s.rt), PTO_TASK_FAILED, "die_here");
    assert_int_equal(await_end(&w, text), -SIGKILL);
    expect_ok(pto_clear_error(s.rt));
    stop(&s);
}

/* One leaves, and another one gets its lines while the program recovers from a loss. */
static void test_attaches_during_a_recovery(void **state)
{
    stage s = {0};
    char text[512];
    (void)state;
    start(&s);
    worker w = attach(&s, PTO_TEST_KERNELS, PTO_TYPE_BIT(PTO_VECTOR));
    submit(&s, s.add, 1);
    expect_ok(pto_wait(s.rt));
    kill(w.pid, SIGTERM);
    assert_int_equal(await_end(&w, text), PTO_OK);
    lose_another(&s);
    atomic_store(&slow->until_line, 1); /* behind that of the runtime's own worker */
    w = attach(&s, PTO_TEST_KERNELS, PTO_TYPE_BIT(PTO_VECTOR));
    expect_ok(pto_recover(s.rt));
    expect_fail(pto_wait(s.rt), PTO_TASK_FAILED, "die_here");
    expect_ok(pto_clear_error(s.rt));
    submit(&s, s.add, 1);
    expect_ok(pto_wait(s.rt));
    assert_int_equal(s.cell[0], 2);
    assert_int_equal(s.cell[1], w.pid);
    stop(&s);
    assert_int_equal(await_end(&w, text), PTO_OK);
}

/* Without a kernel that the program uses it is refused, and no task of the program fails. */
static void test_lacks_a_kernel(void **state)
{
    stage s = {0};
    char text[512];
    (void)state;
    start(&s);
    const worker good = attach(&s, PTO_TEST_KERNELS, 0);
    submit(&s, s.add, 1);
    const worker bad = attach(&s, PTO_TEST_KERNELS_LACKING, 0);
    siginfo_t end = {.si_pid = 0};
    while (waitid(P_PID, (id_t)bad.pid, &end, WEXITED | WNOHANG | WNOWAIT) == 0 && !end.si_pid) {
        submit(&s, s.add, 1);
    }
    assert_int_equal(await_end(&bad, text), PTO_BAD_KERNEL);
    assert_non_null(strstr(text, "'add'"));
    expect_ok(pto_wait(s.rt));
    /* It serves a type whose kernels it has. */
    const worker cube = attach(&s, PTO_TEST_KERNELS_LACKING, PTO_TYPE_BIT(PTO_CUBE));
    usleep(20000);
    kill(cube.pid, SIGTERM);
    const int how = await_end(&cube, text);
    assert_true(how == PTO_OK || how == -SIGTERM);
    /* A kernel that is registered later is asked for: one is there, one is not. */
    pto_kernel later, unknown;
    expect_ok(pto_kernel_register(s.rt, "later", PTO_VECTOR, not_here, NULL, &later));
    expect_ok(pto_kernel_register(s.rt, "unknown", PTO_VECTOR, not_here, NULL, &unknown));
    submit(&s, later, 0);
    expect_fail(pto_submit(s.rt, unknown, pto_inout(&s.t)), PTO_BAD_KERNEL, "'unknown'");
    assert_true(pto_refused(s.rt, NULL));
    expect_ok(pto_wait(s.rt));
    stop(&s);
    assert_int_equal(await_end(&good, text), PTO_OK);
}

/* The helper of the runtime dies, and another one takes its place: attached workers go on. */
static void test_outlives_the_helper(void **state)
{
    stage s = {0};
    pto_runtime_stats stats;
    char text[512];
    (void)state;
    start(&s);
    const worker w = attach(&s, PTO_TEST_KERNELS, 0);
    submit(&s, s.add, 1);
    expect_ok(pto_wait(s.rt));
    assert_true(kill_process(kill_await_helper(s.rt), "pto-helper"));
    for (int64_t n = 2; n < 200; n++) { /* the loss is known at any time */
        pto_status status;
        while ((status = pto_submit(s.rt, s.add, pto_inout(&s.t), pto_scalar(INT64_C(1)))) ==
               PTO_WORKER_LOST) {
            assert_true(pto_refused(s.rt, NULL));
            expect_ok(pto_recover(s.rt));
        }
        expect_ok(status);
        while ((status = pto_wait(s.rt)) == PTO_WORKER_LOST) {
            expect_ok(pto_recover(s.rt));
        }
        expect_ok(status);
        assert_int_equal(s.cell[0], n);
        usleep(100);
    }
    kill(w.pid, SIGKILL); /* the fresh helper knows of it */
    while (pto_stats(s.rt, &stats) == PTO_OK && !ptoi_get64(&s.rt->view.header->lost)) {
        usleep(1000);
    }
    expect_ok(pto_recover(s.rt));
    expect_ok(pto_wait(s.rt));
    stop(&s);
    assert_int_equal(await_end(&w, text), -SIGKILL);
}

/* A signal that arrives before the process has attached is not lost. */
static void test_detaches_early(void **state)
{
    stage s = {0};
    char text[512];
    (void)state;
    start(&s);
    const worker w = attach_as(&s, PTO_TEST_KERNELS, EARLY);
    assert_int_equal(await_end(&w, text), PTO_OK);
    stop(&s);
}

static void test_what_is_refused(void **state)
{
    stage s = {0};
    pto_runtime *rt = NULL;
    char text[512];
    (void)state;
    start(&s);
    pto_config c = PTO_CONFIG_INIT;
    c.place = PTO_PLACE_PROCESS;
    c.attach = s.name;
    expect_fail(pto_runtime_create(&rt, &c), PTO_BAD_CONFIG, s.name);
    c.place = PTO_PLACE_INLINE;
    expect_fail(pto_runtime_create(&rt, &c), PTO_BAD_CONFIG, "PTO_ATTACH", "process");
    worker w = attach(&s, "/nowhere/libnothing.so", 0);
    assert_int_equal(await_end(&w, text), PTO_BAD_FILE);
    stage nobody = {.name = "nobody-has-this-name"};
    w = attach(&nobody, PTO_TEST_KERNELS, 0);
    assert_int_equal(await_end(&w, text), PTO_SYSTEM);
    assert_non_null(strstr(text, "nobody-has-this-name"));
    stop(&s);
}

int main(int argc, char **argv)
{
    if (argc == 4) {
        return serve(argv[1], argv[2], argv[3]);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs_leaves_and_is_replaced),
        cmocka_unit_test(test_two_and_one_leaves),
        cmocka_unit_test(test_dies_and_is_replaced),
        cmocka_unit_test(test_is_told_late),
        cmocka_unit_test(test_dies_during_a_recovery),
        cmocka_unit_test(test_dies_instead_of_a_pause),
        cmocka_unit_test(test_attaches_during_a_recovery),
        cmocka_unit_test(test_lacks_a_kernel),
        cmocka_unit_test(test_outlives_the_helper),
        cmocka_unit_test(test_detaches_early),
        cmocka_unit_test(test_what_is_refused),
    };
    signal(SIGPIPE, SIG_IGN);
    program = getpid();
    slow = mmap(NULL, sizeof *slow, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (slow == MAP_FAILED) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
