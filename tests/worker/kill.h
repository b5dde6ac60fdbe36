/* kill.h - random programs in place process whose worker processes die, for the kill test and for
 * soak.
 *
 * A program submits tasks over a few cells of shared memory. Each kernel counts its runs there. Some
 * kernels end their process in one of several ways, and a thread kills worker processes, now and then
 * the helper, at random times. The program recovers and goes on. At the end of each program:
 *
 *     each task ran at most once; a task that did not fail and reads nothing that a failed or
 *     skipped one wrote ran exactly once, and all such cells have the values of a serial run; all
 *     others did not run; every task is complete, and counts agree
 */
#ifndef PTO_TEST_KILL_H
#define PTO_TEST_KILL_H

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <pto/observe.h>
#include <pto/process.h>

#include "orchestrator/runtime.h"
#include "support.h"

typedef _Atomic(uint32_t) kill_count; /* in memory that kernels share */

enum { KILL_CELLS = 6, KILL_TASKS = 96 };

/* How a kernel ends its process. */
#define KILL_WAYS(X)                                                                               \
    X(NOT) X(SEGFAULT) X(ABORT) X(EXIT_GOOD) X(EXIT_BAD) X(EXIT_AT_ONCE) X(SIGNAL) X(STACK)
typedef enum kill_way {
#define KILL_ENUM(name) KILL_##name,
    KILL_WAYS(KILL_ENUM)
#undef KILL_ENUM
        KILL_WAY_COUNT
} kill_way;

/* In shared memory: kernels write it. */
typedef struct kill_board {
    _Alignas(64) int64_t cell[KILL_CELLS][8];
    _Atomic(uint32_t) ran[KILL_TASKS];
} kill_board;

typedef struct kill_task {
    pto_task task;
    uint32_t read[2], write; /* cells */
    bool writes_only;
    kill_way way;
    int line; /* of its submit */
} kill_task;

typedef struct kill_stage {
    test_rng rng;
    pto_runtime *rt;
    pto_kernel mix, set;
    kill_board *shared;
    pto_tensor t[KILL_CELLS];
    kill_task tasks[KILL_TASKS];
    uint32_t n;
    int64_t value[KILL_CELLS]; /* of a serial run */
    bool bad[KILL_CELLS];

    uint64_t kills, losses, failed, skipped, programs; /* counted */
    char why[400];                                     /* what was wrong; "": nothing */

    /* the killer */
    pthread_t thread;
    atomic_bool ending;
    atomic_uint_fast64_t sent;
    uint64_t seed;
} kill_stage;

#define kill_must(k, condition, ...)                                                               \
    do {                                                                                           \
        if (!(condition) && !(k)->why[0]) {                                                        \
            const int used = snprintf((k)->why, sizeof(k)->why, "%s:%d: %s: ", __FILE__, __LINE__, \
                                      #condition);                                                 \
            snprintf((k)->why + used, sizeof(k)->why - (size_t)used, __VA_ARGS__);                 \
        }                                                                                          \
    } while (0)

/* ---- Kernels: in a worker process ---- */

static int kill_deep(volatile char *from)
{
    volatile char frame[4096];
    frame[0] = *from;
    return frame[0] ? 0 : kill_deep(frame) + frame[1]; /* it never is */
}

static inline void kill_self(kill_way way)
{
    volatile uintptr_t low = 0x10;
    volatile char byte = 0;
    switch (way) {
    case KILL_SEGFAULT:
        *(volatile char *)low = 1; /* NOLINT: it is meant */
        break;
    case KILL_ABORT:
        abort();
    case KILL_EXIT_GOOD:
        exit(0);
    case KILL_EXIT_BAD:
        exit(3);
    case KILL_EXIT_AT_ONCE:
        _exit(0);
    case KILL_SIGNAL:
        raise(SIGKILL);
        break;
    case KILL_STACK:
        _exit(kill_deep(&byte));
    default:
        break;
    }
}

/* A few microseconds, so that kernels of several workers overlap. */
static inline void kill_dawdle(uint64_t rounds)
{
    for (volatile uint64_t i = 0; i < rounds * 50; i++) {
    }
}

/* inout cell, two inputs, the runs, number, way */
static pto_status kill_mix(const pto_call *call)
{
    int64_t *out = call->args[0].data;
    const int64_t *a = call->args[1].data, *b = call->args[2].data;
    kill_count *ran = call->args[3].data;
    const int64_t number = call->args[4].i64;
    atomic_fetch_add(&ran[number], 1);
    kill_dawdle((uint64_t)number);
    kill_self((kill_way)call->args[5].i64);
    *out = (int64_t)((uint64_t)*out * 31 + (uint64_t)*a * 7 + (uint64_t)*b + (uint64_t)number);
    return PTO_OK;
}

/* output cell, the runs, number */
static pto_status kill_set(const pto_call *call)
{
    kill_count *ran = call->args[1].data;
    const int64_t number = call->args[2].i64;
    atomic_fetch_add(&ran[number], 1);
    *(int64_t *)call->args[0].data = number;
    return PTO_OK;
}

/* Faults end a process as they do without a test: cmocka and sanitizers have handlers of their own,
 * which worker processes would inherit. Before a runtime is created. */
static inline void kill_no_handlers(void)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        signal(faults[i], SIG_DFL);
    }
}

/* ---- Processes ---- */

/* The name of a process; "": it is gone. */
static inline void kill_name_of(int pid, char name[32])
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/comm", pid);
    FILE *in = fopen(path, "r");
    name[0] = '\0';
    if (in) {
        if (!fgets(name, 32, in)) {
            name[0] = '\0';
        }
        name[strcspn(name, "\n")] = '\0';
        fclose(in);
    }
}

/* 'R', 'S', 'Z' ...; 0: it is gone. Its parent is *parent. */
static inline char kill_state_of(int pid, int *parent)
{
    char path[64], line[256], state = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *in = fopen(path, "r");
    *parent = 0;
    if (in) {
        char *close = fgets(line, sizeof line, in) ? strrchr(line, ')') : NULL;
        if (close) {
            state = close[2];
            *parent = atoi(close + 4);
        }
        fclose(in);
    }
    return state;
}

/* A process that was killed together with its helper has given back its memory and its files, and
 * may take a moment to vanish. A zombie is for its new parent to collect. */
static inline bool kill_is_gone(int pid)
{
    for (int tries = 0; tries < 100000; tries++) { /* it ends; only when is up to the system */
        int parent;
        const char state = kill_state_of(pid, &parent);
        if (state == 0 || state == 'Z' || state == 'X') {
            return true;
        }
        usleep(100);
    }
    return false;
}

/* 0: it has not started. */
static inline int kill_worker_pid(const pto_runtime *rt, uint32_t worker)
{
    const uint32_t each = rt->settings.config.process_threads;
    const int pid = (int)ptoi_get32(&rt->view.workers[worker / each * each].thread);
    char name[32];
    kill_name_of(pid, name);
    return strcmp(name, "pto-worker") == 0 ? pid : 0;
}

static inline int kill_helper_pid(const pto_runtime *rt)
{
    for (uint32_t i = 0; i < rt->settings.n_workers; i++) {
        const int pid = kill_worker_pid(rt, i);
        int parent;
        char name[32];
        if (pid && kill_state_of(pid, &parent)) {
            kill_name_of(parent, name);
            if (strcmp(name, "pto-helper") == 0) {
                return parent;
            }
        }
    }
    return 0;
}

/* The same, when they have started: create and pto_recover do not wait for that. */
static inline int kill_await_worker(const pto_runtime *rt, uint32_t worker)
{
    int pid;
    while (!(pid = kill_worker_pid(rt, worker))) {
        usleep(100);
    }
    return pid;
}

static inline int kill_await_helper(const pto_runtime *rt)
{
    int pid;
    while (!(pid = kill_helper_pid(rt))) {
        usleep(100);
    }
    return pid;
}

/* SIGKILL for a process that still has this name: its number may have been reused. */
static inline bool kill_process(int pid, const char *name)
{
    char is[32];
    const int file = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    bool sent = false;
    if (file >= 0) {
        kill_name_of(pid, is);
        sent = strcmp(is, name) == 0 && syscall(SYS_pidfd_send_signal, file, SIGKILL, NULL, 0) == 0;
        close(file);
    }
    return sent;
}

static inline void *kill_thread(void *context)
{
    kill_stage *k = context;
    test_rng rng = test_rng_make(k->seed);
    while (!atomic_load(&k->ending)) {
        const struct timespec pause = {.tv_nsec = test_between(&rng, 1, 3000000)};
        nanosleep(&pause, NULL);
        const uint32_t worker = (uint32_t)test_between(&rng, 0, k->rt->settings.n_workers - 1);
        const bool helper = test_between(&rng, 0, 15) == 0;
        if (helper ? kill_process(kill_helper_pid(k->rt), "pto-helper")
                   : kill_process(kill_worker_pid(k->rt, worker), "pto-worker")) {
            atomic_fetch_add(&k->sent, 1);
        }
    }
    return NULL;
}

/* ---- One program ---- */

static inline uint64_t kill_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline void kill_recover(kill_stage *k)
{
    pto_status s;
    int tries = 0;
    k->losses++;
    kill_must(k, strstr(pto_error_detail(), "process "), "%s", pto_error_detail());
    while ((s = pto_recover(k->rt)) == PTO_WORKER_LOST && ++tries < 20) {
    }
    kill_must(k, s == PTO_OK, "%s", pto_error_detail());
}

/* The call, repeated after a recovery as long as a worker is lost. */
#define KILL_CALL(k, s, call)                                                                      \
    do {                                                                                           \
        while (((s) = (call)) == PTO_WORKER_LOST && !(k)->why[0]) {                                \
            kill_recover(k);                                                                       \
            (void)pto_refused((k)->rt, NULL); /* the call is repeated */                           \
        }                                                                                          \
    } while (0)

static inline bool kill_create(kill_stage *k, uint64_t seed)
{
    pto_config c = PTO_CONFIG_INIT;
    void *memory;
    memset(k, 0, sizeof *k);
    kill_no_handlers();
    k->rng = test_rng_make(seed);
    k->seed = seed;
    c.place = PTO_PLACE_PROCESS;
    c.workers = (uint32_t)test_between(&k->rng, 1, 3);
    c.process_threads = (uint32_t)test_between(&k->rng, 1, 2);
    c.ring_tasks = UINT32_C(1) << test_between(&k->rng, 2, 7);
    c.shared_bytes = 1 << 20;
    c.crash_report = PTO_NO_CRASH_REPORT;
    c.map_twice = (uint32_t)test_between(&k->rng, 0, 1);
    pto_status s = pto_runtime_create(&k->rt, &c);
    s = s ? s : pto_kernel_register(k->rt, "mix", PTO_VECTOR, kill_mix, NULL, &k->mix);
    s = s ? s : pto_kernel_register(k->rt, "set", PTO_VECTOR, kill_set, NULL, &k->set);
    s = s ? s : pto_shared_alloc(k->rt, sizeof *k->shared, &memory);
    kill_must(k, s == PTO_OK, "%s", pto_error_detail());
    if (s != PTO_OK) {
        return false;
    }
    k->shared = memory;
    for (uint32_t i = 0; i < KILL_CELLS; i++) {
        s = pto_external_tensor(k->rt, k->shared->cell[i], PTO_INT64, 0, NULL, &k->t[i]);
        kill_must(k, s == PTO_OK, "%s", pto_error_detail());
    }
    return !k->why[0];
}

/* Submits a random program. `deadly`: one in so many kernels ends its process; 0: none does. */
static inline void kill_submit(kill_stage *k, uint32_t deadly)
{
    pto_status s;
    pto_tensor runs;
    s = pto_external_tensor(k->rt, k->shared->ran, PTO_INT32, 1, (int64_t[]){KILL_TASKS}, &runs);
    kill_must(k, s == PTO_OK, "%s", pto_error_detail());
    k->n = (uint32_t)test_between(&k->rng, 1, KILL_TASKS);
    memset(k->shared->ran, 0, sizeof k->shared->ran);
    for (uint32_t i = 0; i < k->n && !k->why[0]; i++) {
        kill_task *t = &k->tasks[i];
        *t = (kill_task){.read = {(uint32_t)test_between(&k->rng, 0, KILL_CELLS - 1),
                                  (uint32_t)test_between(&k->rng, 0, KILL_CELLS - 1)},
                         .write = (uint32_t)test_between(&k->rng, 0, KILL_CELLS - 1),
                         .writes_only = test_between(&k->rng, 0, 7) == 0};
        if (t->writes_only) {
            t->line = __LINE__ + 2; /* of pto_submit */
            KILL_CALL(k, s,
                      pto_submit(k->rt, k->set, pto_output(&k->t[t->write]),
                                 pto_nodep(pto_input(&runs)), pto_scalar((int64_t)i)));
        } else {
            if (deadly && test_between(&k->rng, 0, deadly - 1) == 0) {
                t->way = (kill_way)test_between(&k->rng, 1, KILL_STACK);
            }
            t->line = __LINE__ + 2; /* of pto_submit */
            KILL_CALL(k, s,
                      pto_submit(k->rt, k->mix, pto_inout(&k->t[t->write]),
                                 pto_input(&k->t[t->read[0]]), pto_input(&k->t[t->read[1]]),
                                 pto_nodep(pto_input(&runs)), pto_scalar((int64_t)i),
                                 pto_scalar((int64_t)t->way)));
        }
        kill_must(k, s == PTO_OK, "%s", pto_error_detail());
        t->task = pto_last_task(k->rt);
    }
}

/* What a serial run would leave, given which tasks have failed. */
static inline void kill_check_task(kill_stage *k, uint32_t i, uint64_t *failed, uint64_t *skipped)
{
    const kill_task *t = &k->tasks[i];
    pto_task_report report;
    const uint32_t ran = atomic_load(&k->shared->ran[i]);
    const pto_status s = pto_task_info(k->rt, t->task, &report);
    kill_must(k, s == PTO_OK, "%s", pto_error_detail());
    kill_must(k, ran <= 1, "task %u ran %u times", i, ran);
    kill_must(k, report.state >= PTO_TASK_COMPLETED, "task %u is %s", i,
              pto_task_state_name(report.state));
    const bool poisoned = !t->writes_only &&
                          (k->bad[t->write] || k->bad[t->read[0]] || k->bad[t->read[1]]);
    kill_must(k, report.skipped == poisoned, "task %u: skipped %d, poisoned %d", i, report.skipped,
              poisoned);
    kill_must(k, t->way == KILL_NOT || report.failed, "task %u ended its process and is good", i);
    k->kills += t->way != KILL_NOT && ran;
    *failed += report.failed && !report.skipped;
    *skipped += report.skipped;
    k->bad[t->write] = report.failed;
    if (report.failed) {
        kill_must(k, !poisoned || !ran, "task %u is skipped and ran", i);
        return;
    }
    kill_must(k, ran == 1, "task %u is good and ran %u times", i, ran);
    int64_t *out = &k->value[t->write];
    *out = t->writes_only ? (int64_t)i
                          : (int64_t)((uint64_t)*out * 31 + (uint64_t)k->value[t->read[0]] * 7 +
                                      (uint64_t)k->value[t->read[1]] + i);
}

static inline void kill_check(kill_stage *k, pto_status waited)
{
    uint64_t failed = 0, skipped = 0;
    for (uint32_t i = 0; i < k->n && !k->why[0]; i++) {
        kill_check_task(k, i, &failed, &skipped);
    }
    kill_must(k, waited == (failed ? PTO_TASK_FAILED : PTO_OK), "wait gives %s, %llu failed",
              pto_status_name(waited), (unsigned long long)failed);
    for (uint32_t i = 0; i < KILL_CELLS && !k->why[0]; i++) {
        int64_t value = 0;
        pto_status s;
        KILL_CALL(k, s, pto_read(k->rt, &k->t[i], &value, sizeof value));
        kill_must(k, s == (k->bad[i] ? PTO_POISONED : PTO_OK), "cell %u: %s", i,
                  pto_error_detail());
        kill_must(k, k->bad[i] || value == k->value[i], "cell %u: %lld, serial run %lld", i,
                  (long long)value, (long long)k->value[i]);
    }
    k->failed += failed;
    k->skipped += skipped;
}

/* The first failure names the kernel and the line of its submit. */
static inline void kill_check_failure(kill_stage *k)
{
    pto_failure f;
    bool is = false;
    const pto_status s = pto_get_failure(k->rt, &is, &f);
    kill_must(k, s == PTO_OK && is, "%s", pto_error_detail());
    for (uint32_t i = 0; i < k->n && !k->why[0]; i++) {
        if (k->tasks[i].task == f.task) {
            kill_must(k, f.line == k->tasks[i].line && strstr(f.file, "kill.h"), "%s:%d", f.file,
                      f.line);
            kill_must(k, strcmp(f.kernel, k->tasks[i].writes_only ? "set" : "mix") == 0, "%s",
                      f.kernel);
            kill_must(k, strstr(f.message, "process"), "%s", f.message);
            return;
        }
    }
    kill_must(k, false, "the failure names task %llu, which is none of these",
              (unsigned long long)f.task);
}

/* A program, with deaths, and the check of it. The runtime is as new afterwards. */
static inline void kill_program(kill_stage *k, uint32_t deadly)
{
    pto_status waited, s;
    pto_runtime_stats stats;
    for (uint32_t i = 0; i < KILL_CELLS; i++) {
        k->shared->cell[i][0] = k->value[i] = i;
        k->bad[i] = false;
    }
    kill_submit(k, deadly);
    KILL_CALL(k, waited, pto_wait(k->rt));
    if (!k->why[0]) {
        kill_check(k, waited);
    }
    if (!k->why[0] && waited == PTO_TASK_FAILED) {
        kill_check_failure(k);
    }
    s = pto_stats(k->rt, &stats);
    kill_must(k, s == PTO_OK, "%s", pto_error_detail());
    kill_must(k, stats.completed == stats.submitted, "%llu of %llu complete",
              (unsigned long long)stats.completed, (unsigned long long)stats.submitted);
    KILL_CALL(k, s, pto_clear_error(k->rt));
    kill_must(k, s == PTO_OK, "%s", pto_error_detail());
    k->programs++;
}

/* The number of entries of a folder of /proc. */
static inline int kill_entries(const char *folder)
{
    DIR *open = opendir(folder);
    int count = 0;
    while (open && readdir(open)) {
        count++;
    }
    if (open) {
        closedir(open);
    }
    return count;
}

/* Destroys the runtime. No process of it is left, no child, no file and no thread. */
static inline void kill_destroy(kill_stage *k, int files, int threads)
{
    int pids[1 + PTO_MAX_WORKERS], n = 0;
    pids[n++] = kill_helper_pid(k->rt);
    for (uint32_t i = 0; i < k->rt->settings.n_workers; i++) {
        pids[n++] = kill_worker_pid(k->rt, i);
    }
    pto_status s;
    KILL_CALL(k, s, pto_runtime_destroy(&k->rt, PTO_WAIT));
    kill_must(k, s == PTO_OK, "%s", pto_error_detail());
    for (int i = 0; i < n; i++) {
        kill_must(k, !pids[i] || kill_is_gone(pids[i]), "process %d is left", pids[i]);
    }
    kill_must(k, waitpid(-1, NULL, WNOHANG) == -1, "a child is left");
    kill_must(k, kill_entries("/proc/self/fd") == files, "%d files, %d before",
              kill_entries("/proc/self/fd"), files);
    for (int i = 0; i < 1000 && kill_entries("/proc/self/task") != threads; i++) {
        usleep(1000); /* a joined thread may still be leaving the kernel */
    }
    kill_must(k, kill_entries("/proc/self/task") == threads, "threads are left");
}

/* A runtime and programs over it, with about so many deaths. Adds to `total`; false: it failed. */
static inline bool kill_round(uint64_t seed, uint64_t deaths, kill_stage *total)
{
    const int files = kill_entries("/proc/self/fd"), threads = kill_entries("/proc/self/task");
    kill_stage *k = malloc(sizeof *k);
    if (!k || !kill_create(k, seed)) {
        snprintf(total->why, sizeof total->why, "seed %llu: %.360s", (unsigned long long)seed,
                 k ? k->why : "no memory");
        free(k);
        return false;
    }
    const bool killed = test_between(&k->rng, 0, 2) != 0;
    if (killed) {
        kill_must(k, pthread_create(&k->thread, NULL, kill_thread, k) == 0, "a thread");
    }
    while (k->kills + atomic_load(&k->sent) < deaths && !k->why[0]) {
        kill_program(k, killed ? (uint32_t)test_between(&k->rng, 0, 1) * 64 : 24);
    }
    if (killed) {
        atomic_store(&k->ending, true);
        pthread_join(k->thread, NULL);
        kill_program(k, 0);
    }
    if (!k->why[0]) {
        kill_destroy(k, files, threads);
    }
    total->kills += k->kills + atomic_load(&k->sent);
    total->losses += k->losses;
    total->failed += k->failed;
    total->skipped += k->skipped;
    total->programs += k->programs;
    if (k->why[0]) {
        snprintf(total->why, sizeof total->why, "seed %llu: %.*s", (unsigned long long)seed, 360,
                 k->why);
    }
    const bool good = !k->why[0];
    free(k);
    return good;
}

#endif /* PTO_TEST_KILL_H */
