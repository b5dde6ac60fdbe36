/* test_kill.c - worker processes, the helper and the program are killed at random times, and kernels
 * end their process in every way. ./dev soak --kills N does the same for longer. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/mman.h>

#include "kill.h"

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||                               \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define KNOWN_MS 2000 /* the sanitizer writes a report first */
#else
#define KNOWN_MS 100
#endif

enum { ROUNDS = 16, DEATHS = 6 };

/* A busy machine may be late now and then, a slow runtime always is: one of so many is in time. */
enum { TRIES = 20 };

/* ---- Random programs ---- */

static void test_programs(void **state)
{
    static kill_stage total;
    (void)state;
    for (uint64_t i = 0; i < test_effort(ROUNDS); i++) {
        if (!kill_round(test_seed() * 1000 + i, DEATHS, &total)) {
            fail_msg("%s", total.why);
        }
    }
    print_message("%llu kills, %llu losses; %llu programs, %llu tasks failed, %llu skipped\n",
                  (unsigned long long)total.kills, (unsigned long long)total.losses,
                  (unsigned long long)total.programs, (unsigned long long)total.failed,
                  (unsigned long long)total.skipped);
}

/* ---- One death ---- */

typedef struct stage {
    pto_runtime *rt;
    pto_kernel die, hold;
    _Atomic(uint32_t) *flag; /* shared: 1, the kernel has begun; 2: it may return */
    pto_tensor t;
} stage;

static pto_status die(const pto_call *call)
{
    kill_self((kill_way)call->args[1].i64);
    return PTO_OK;
}

static pto_status hold(const pto_call *call)
{
    kill_count *flag = call->args[0].data;
    atomic_store(flag, 1);
    while (atomic_load(flag) != 2) {
        usleep(100);
    }
    return PTO_OK;
}

static void start_with(stage *s, uint32_t workers, uint32_t grace_ms)
{
    pto_config c = PTO_CONFIG_INIT;
    void *memory;
    kill_no_handlers();
    c.place = PTO_PLACE_PROCESS;
    c.workers = workers;
    c.shared_bytes = 1 << 16;
    c.grace_ms = grace_ms;
    c.crash_report = PTO_NO_CRASH_REPORT;
    assert_int_equal(pto_runtime_create(&s->rt, &c), PTO_OK);
    assert_int_equal(pto_kernel_register(s->rt, "die", PTO_VECTOR, die, NULL, &s->die), PTO_OK);
    assert_int_equal(pto_kernel_register(s->rt, "hold", PTO_VECTOR, hold, NULL, &s->hold), PTO_OK);
    assert_int_equal(pto_shared_alloc(s->rt, 64, &memory), PTO_OK);
    s->flag = memory;
    assert_int_equal(pto_external_tensor(s->rt, memory, PTO_INT32, 0, NULL, &s->t), PTO_OK);
}

static void start(stage *s, uint32_t workers)
{
    start_with(s, workers, 0);
}

static void await_flag(stage *s)
{
    while (atomic_load(s->flag) != 1) {
        usleep(100);
    }
}

/* Each way: the loss says how the process ended, which task it ran and where that was submitted; the
 * failure says the same. */
static void test_ways(void **state)
{
    static const char *const words[KILL_WAY_COUNT] = {[KILL_SEGFAULT] = "SIGSEGV",
                                                      [KILL_ABORT] = "SIGABRT",
                                                      [KILL_EXIT_GOOD] = "exited with status 0",
                                                      [KILL_EXIT_BAD] = "exited with status 3",
                                                      [KILL_EXIT_AT_ONCE] = "exited with status 0",
                                                      [KILL_SIGNAL] = "SIGKILL",
                                                      [KILL_STACK] = "SIGSEGV"};
    stage s;
    (void)state;
    start(&s, 1);
    for (int way = KILL_SEGFAULT; way <= KILL_STACK; way++) {
        char site[64];
        bool failed = false;
        pto_failure f;
        const int line = __LINE__ + 1;
        assert_int_equal(pto_submit(s.rt, s.die, pto_inout(&s.t), pto_scalar((int64_t)way)),
                         PTO_OK);
        snprintf(site, sizeof site, "test_kill.c:%d", line);
        assert_int_equal(pto_wait(s.rt), PTO_WORKER_LOST);
        const bool told = KNOWN_MS > 100 || strstr(pto_error_detail(), words[way]);
        if (!told || !strstr(pto_error_detail(), "'die'") || !strstr(pto_error_detail(), site)) {
            fail_msg("%d: %s", way, pto_error_detail());
        }
        uint32_t value;
        assert_int_equal(pto_read(s.rt, &s.t, &value, sizeof value), PTO_WORKER_LOST);
        assert_int_equal(pto_wait_task(s.rt, pto_last_task(s.rt)), PTO_WORKER_LOST);
        assert_int_equal(pto_recover(s.rt), PTO_OK);
        assert_int_equal(pto_recover(s.rt), PTO_OK); /* nothing is lost now */
        assert_int_equal(pto_wait(s.rt), PTO_TASK_FAILED);
        assert_int_equal(pto_get_failure(s.rt, &failed, &f), PTO_OK);
        assert_true(failed && f.line == line && strcmp(f.kernel, "die") == 0);
        assert_int_equal(f.status, PTO_WORKER_LOST);
        assert_non_null(strstr(f.message, KNOWN_MS > 100 ? "process" : words[way]));
        assert_int_equal(pto_read(s.rt, &s.t, &value, sizeof value), PTO_POISONED);
        assert_int_equal(pto_clear_error(s.rt), PTO_OK);
    }
    assert_int_equal(pto_runtime_destroy(&s.rt, PTO_WAIT), PTO_OK);
}

/* Ends its process when another kernel does the same in another process. */
static pto_status die_together(const pto_call *call)
{
    kill_count *count = call->args[1].data;
    atomic_fetch_add(count, 1);
    while (atomic_load(count) < 2) {
        usleep(100);
    }
    kill_self(KILL_SIGNAL);
    return PTO_OK;
}

/* Two processes end at the same time. The loss names the first one, and says that there is another. */
static void test_two(void **state)
{
    stage s;
    pto_kernel kernel;
    pto_tensor t[2];
    void *memory;
    bool told = false;
    (void)state;
    start(&s, 2);
    assert_int_equal(pto_kernel_register(s.rt, "both", PTO_VECTOR, die_together, NULL, &kernel),
                     PTO_OK);
    assert_int_equal(pto_shared_alloc(s.rt, 2 * sizeof(int32_t), &memory), PTO_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            pto_external_tensor(s.rt, (int32_t *)memory + i, PTO_INT32, 0, NULL, &t[i]), PTO_OK);
        assert_int_equal(pto_submit(s.rt, kernel, pto_inout(&t[i]), pto_nodep(pto_inout(&s.t))),
                         PTO_OK);
    }
    for (int tries = 0; !told && tries < 10000; tries++) { /* the second end may be seen later */
        assert_int_equal(pto_wait(s.rt), PTO_WORKER_LOST);
        told = strstr(pto_error_detail(), "; 1 more process has ended: call pto_recover");
        usleep(1000);
    }
    if (!told) {
        fail_msg("%s", pto_error_detail());
    }
    assert_int_equal(pto_recover(s.rt), PTO_OK);
    assert_int_equal(pto_wait(s.rt), PTO_TASK_FAILED);
    assert_int_equal(pto_clear_error(s.rt), PTO_OK);
    assert_int_equal(pto_runtime_destroy(&s.rt, PTO_WAIT), PTO_OK);
}

/* From the kill to the return of a wait. Returns whether the loss was known in time. */
static bool await_loss(stage *s, int pid, const char *name)
{
    assert_true(kill_process(pid, name));
    const uint64_t since = kill_now();
    assert_int_equal(pto_wait(s->rt), PTO_WORKER_LOST);
    const uint64_t ms = (kill_now() - since) / 1000000;
    print_message("%s: known after %llu ms\n", name, (unsigned long long)ms);
    return ms < KNOWN_MS;
}

/* A killed worker is known in time; a task that runs elsewhere goes on over the recovery. */
static void test_in_time(void **state)
{
    stage s;
    pto_tensor u;
    void *memory;
    bool known = false;
    (void)state;
    start(&s, 2);
    assert_int_equal(pto_shared_alloc(s.rt, 64, &memory), PTO_OK);
    assert_int_equal(pto_external_tensor(s.rt, memory, PTO_INT32, 0, NULL, &u), PTO_OK);
    for (int i = 0; i < TRIES && !known; i++) {
        atomic_store(s.flag, 0);
        atomic_store((_Atomic(uint32_t) *)memory, 0);
        assert_int_equal(pto_submit(s.rt, s.hold, pto_inout(&s.t)), PTO_OK);
        const pto_task first = pto_last_task(s.rt);
        await_flag(&s);
        assert_int_equal(pto_submit(s.rt, s.hold, pto_inout(&u)), PTO_OK);
        while (atomic_load((_Atomic(uint32_t) *)memory) != 1) {
            usleep(100);
        }
        const uint32_t busy = ptoi_get64(&s.rt->view.workers[0].task) == first ? 0 : 1;
        known = await_loss(&s, kill_worker_pid(s.rt, 1 - busy), "pto-worker");
        assert_int_equal(pto_recover(s.rt), PTO_OK);
        atomic_store(s.flag, 2);
        assert_int_equal(pto_wait_task(s.rt, first), PTO_OK);
        assert_int_equal(pto_wait(s.rt), PTO_TASK_FAILED);
        assert_int_equal(pto_clear_error(s.rt), PTO_OK);
    }
    assert_true(known);
    assert_int_equal(pto_runtime_destroy(&s.rt, PTO_WAIT), PTO_OK);
}

/* The helper dies, and all workers with it, in the middle of a kernel. */
static void test_helper(void **state)
{
    stage s;
    (void)state;
    start(&s, 2);
    bool known = false;
    for (int i = 0; i < 3 || (i < TRIES && !known); i++) {
        atomic_store(s.flag, 0);
        assert_int_equal(pto_submit(s.rt, s.hold, pto_inout(&s.t)), PTO_OK);
        await_flag(&s);
        known |= await_loss(&s, kill_await_helper(s.rt), "pto-helper");
        assert_int_equal(pto_recover(s.rt), PTO_OK);
        assert_int_equal(pto_wait(s.rt), PTO_TASK_FAILED);
        assert_int_equal(pto_clear_error(s.rt), PTO_OK);
        assert_int_equal(pto_submit(s.rt, s.die, pto_output(&s.t), pto_scalar(INT64_C(0))), PTO_OK);
        assert_int_equal(pto_wait(s.rt), PTO_OK);
    }
    assert_true(known);
    assert_int_equal(pto_runtime_destroy(&s.rt, PTO_WAIT), PTO_OK);
}

/* A runtime that lost a worker in a kernel is given up. Nothing is left of it. */
static void test_given_up(void **state)
{
    stage s;
    int pids[3];
    bool known = false;
    (void)state;
    for (int i = 0; i < TRIES && !known; i++) {
        start(&s, 2);
        assert_int_equal(pto_submit(s.rt, s.hold, pto_inout(&s.t)), PTO_OK);
        await_flag(&s);
        pids[0] = kill_await_helper(s.rt);
        pids[1] = kill_await_worker(s.rt, 0);
        pids[2] = kill_await_worker(s.rt, 1);
        const bool first = ptoi_get64(&s.rt->view.workers[0].task) != 0;
        known = await_loss(&s, pids[first ? 1 : 2], "pto-worker");
        assert_int_equal(pto_runtime_destroy(&s.rt, PTO_WAIT), PTO_WORKER_LOST);
        assert_int_equal(pto_runtime_destroy(&s.rt, PTO_CANCEL), PTO_OK);
        for (int k = 0; k < 3; k++) {
            assert_true(kill_is_gone(pids[k]));
        }
    }
    assert_true(known);
}

/* After a cancel, a kernel that does not return in time is ended with its process. */
static void test_grace(void **state)
{
    enum { GRACE_MS = 150 };
    stage s;
    bool known = false;
    (void)state;
    start_with(&s, 2, GRACE_MS);
    for (int i = 0; i < TRIES && !known; i++) {
        atomic_store(s.flag, 0);
        assert_int_equal(pto_submit(s.rt, s.hold, pto_inout(&s.t)), PTO_OK);
        const pto_task held = pto_last_task(s.rt);
        assert_int_equal(pto_submit(s.rt, s.hold, pto_inout(&s.t)), PTO_OK);
        await_flag(&s);
        const uint64_t since = kill_now();
        pto_cancel(s.rt);
        usleep(20000);
        pto_cancel(s.rt); /* does not begin anew */
        assert_int_equal(pto_wait(s.rt), PTO_WORKER_LOST);
        const uint64_t ms = (kill_now() - since) / 1000000;
        print_message("ended after %llu ms\n", (unsigned long long)ms);
        assert_true(ms >= GRACE_MS);
        known = ms < GRACE_MS + KNOWN_MS;
        assert_int_equal(pto_recover(s.rt), PTO_OK);
        assert_int_equal(pto_wait(s.rt), PTO_TASK_FAILED);
        pto_task_report report;
        assert_int_equal(pto_task_info(s.rt, held, &report), PTO_OK);
        assert_true(report.failed);
        assert_int_equal(pto_clear_error(s.rt), PTO_OK);
    }
    assert_true(known);
    assert_int_equal(pto_runtime_destroy(&s.rt, PTO_WAIT), PTO_OK);
}

/* One that returns in time is left alone, and so is one that runs later, after the time. */
static void test_in_grace(void **state)
{
    enum { GRACE_MS = 1000 }; /* long: it must not end before this thread and the kernel have run */
    stage s;
    (void)state;
    start_with(&s, 2, GRACE_MS);
    const int pids[] = {kill_await_worker(s.rt, 0), kill_await_worker(s.rt, 1)};
    for (int late = 0; late < 2; late++) {
        atomic_store(s.flag, 0);
        assert_int_equal(pto_submit(s.rt, s.hold, pto_inout(&s.t)), PTO_OK);
        await_flag(&s);
        if (late) {
            usleep(GRACE_MS * 1200);
        } else {
            pto_cancel(s.rt);
        }
        atomic_store(s.flag, 2);
        assert_int_equal(pto_wait(s.rt), late ? PTO_OK : PTO_CANCELLED);
        assert_int_equal(pto_clear_error(s.rt), PTO_OK);
    }
    assert_int_equal(kill_worker_pid(s.rt, 0), pids[0]);
    assert_int_equal(kill_worker_pid(s.rt, 1), pids[1]);
    assert_int_equal(pto_runtime_destroy(&s.rt, PTO_WAIT), PTO_OK);
}

static pto_status cancels_and_hangs(const pto_call *call)
{
    pto_cancel(call->rt);
    while (call->n_args) { /* for ever */
        usleep(1000);
    }
    return PTO_OK;
}

/* The same if a kernel has cancelled. */
static void test_grace_of_a_kernel(void **state)
{
    stage s;
    pto_kernel hang;
    (void)state;
    start_with(&s, 1, 50);
    assert_int_equal(pto_kernel_register(s.rt, "hang", PTO_VECTOR, cancels_and_hangs, NULL, &hang),
                     PTO_OK);
    assert_int_equal(pto_submit(s.rt, hang, pto_inout(&s.t)), PTO_OK);
    assert_int_equal(pto_wait(s.rt), PTO_WORKER_LOST);
    assert_non_null(strstr(pto_error_detail(), "50 ms after a cancel"));
    assert_int_equal(pto_recover(s.rt), PTO_OK);
    assert_int_equal(pto_wait(s.rt), PTO_TASK_FAILED);
    assert_non_null(strstr(pto_error_detail(), "50 ms after a cancel"));
    assert_int_equal(pto_runtime_destroy(&s.rt, PTO_CANCEL), PTO_OK);
}

static kill_count *handler_ran; /* in memory that worker processes share */

static void at_exit(void)
{
    if (handler_ran) {
        atomic_fetch_add(handler_ran, 1);
    }
}

/* 1: forks, and the child returns, too. 0: exits. */
static pto_status forks_or_exits(const pto_call *call)
{
    if (!call->args[1].i64) {
        exit(5);
    }
    const pid_t child = fork();
    atomic_fetch_add((kill_count *)call->args[0].data, child == 0 ? 100 : 1);
    if (child > 0) { /* wait until the copy has returned and ended */
        int how = 0;
        waitpid(child, &how, 0);
        return WIFEXITED(how) && WEXITSTATUS(how) == 1 ? PTO_OK
                                                       : pto_fail(PTO_KERNEL_FAILED, "%d", how);
    }
    return PTO_OK;
}

/* exit runs no function that the program has registered. The copy of a worker does nothing. */
static void test_exit_and_fork(void **state)
{
    stage s;
    pto_kernel kernel;
    (void)state;
    handler_ran = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(handler_ran != MAP_FAILED);
    assert_int_equal(atexit(at_exit), 0);
    start(&s, 1);
    assert_int_equal(pto_kernel_register(s.rt, "forks", PTO_VECTOR, forks_or_exits, NULL, &kernel),
                     PTO_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pto_submit(s.rt, kernel, pto_inout(&s.t), pto_scalar(INT64_C(1))), PTO_OK);
    }
    assert_int_equal(pto_wait(s.rt), PTO_OK);
    assert_int_equal(atomic_load(s.flag), 303);
    assert_int_equal(pto_submit(s.rt, kernel, pto_inout(&s.t), pto_scalar(INT64_C(0))), PTO_OK);
    assert_int_equal(pto_wait(s.rt), PTO_WORKER_LOST);
    assert_non_null(strstr(pto_error_detail(), "exited with status 5"));
    assert_int_equal(atomic_load(handler_ran), 0);
    assert_int_equal(pto_recover(s.rt), PTO_OK);
    assert_int_equal(pto_wait(s.rt), PTO_TASK_FAILED);
    assert_int_equal(pto_runtime_destroy(&s.rt, PTO_CANCEL), PTO_OK);
    kill_count *memory = handler_ran;
    handler_ran = NULL;
    munmap(memory, 4096);
}

/* A stopped worker process does not keep the runtime from being destroyed. */
static void test_stopped(void **state)
{
    stage s;
    (void)state;
    start(&s, 2);
    assert_int_equal(pto_submit(s.rt, s.die, pto_output(&s.t), pto_scalar(INT64_C(0))), PTO_OK);
    assert_int_equal(pto_wait(s.rt), PTO_OK);
    const int pids[] = {kill_await_worker(s.rt, 1), kill_await_helper(s.rt)};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(kill(pids[i], SIGSTOP), 0);
    }
    assert_int_equal(pto_runtime_destroy(&s.rt, PTO_WAIT), PTO_OK);
    for (int i = 0; i < 2; i++) {
        assert_true(kill_is_gone(pids[i]));
    }
}

/* The program is killed while kernels run: no process is left. Returns how long that took. */
static uint64_t kill_program_of(void)
{
    int ends[2], pids[3];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        stage s;
        start(&s, 2);
        if (pto_submit(s.rt, s.hold, pto_inout(&s.t)) != PTO_OK) {
            _exit(1);
        }
        await_flag(&s);
        pids[0] = kill_await_helper(s.rt);
        pids[1] = kill_await_worker(s.rt, 0);
        pids[2] = kill_await_worker(s.rt, 1);
        _exit(write(ends[1], pids, sizeof pids) != sizeof pids || (pause(), 1));
    }
    assert_int_equal(read(ends[0], pids, sizeof pids), sizeof pids);
    close(ends[0]);
    close(ends[1]);
    const uint64_t since = kill_now();
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    for (int i = 0; i < 3; i++) {
        assert_true(kill_is_gone(pids[i]));
    }
    return kill_now() - since;
}

static void test_program(void **state)
{
    bool known = false;
    (void)state;
    for (int i = 0; i < TRIES && !known; i++) {
        known = kill_program_of() < KNOWN_MS * UINT64_C(1000000);
    }
    assert_true(known);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ways),
        cmocka_unit_test(test_two),
        cmocka_unit_test(test_in_time),
        cmocka_unit_test(test_helper),
        cmocka_unit_test(test_given_up),
        cmocka_unit_test(test_grace),
        cmocka_unit_test(test_in_grace),
        cmocka_unit_test(test_program),
        cmocka_unit_test(test_grace_of_a_kernel),
        cmocka_unit_test(test_exit_and_fork),
        cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
