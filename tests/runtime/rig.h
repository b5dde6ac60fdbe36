/* rig.h - a runtime for tests: kernels that stop where the test wants, and queries about single
 * tasks. No test depends on timing: a task runs until the test completes it, and what must not
 * happen is checked by counts, not by waiting.
 *
 *     static void test_something(void **state)
 *     {
 *         rig r;
 *         rig_start(&r, state, NULL);
 *         pto_task held = RIG_SUBMIT(&r, r.hold, pto_output(&x));     // stays until rig_finish
 *         pto_task next = RIG_SUBMIT(&r, r.quick, pto_input(&x));
 *         assert_int_equal(rig_info(&r, next).fanin_left, 1);
 *         rig_finish(&r, held, PTO_OK);
 *         rig_until(&r, next, PTO_TASK_CONSUMED);
 *         rig_stop(&r);
 *     }
 *
 * Each test runs once for every row of rig_setups: the place of the scheduler, whether its side
 * maps the window at a second address, and counters that begin just below the 32-bit wrap.
 */
#ifndef PTO_TEST_RIG_H
#define PTO_TEST_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <pto/process.h>

#include "refusal.h"
#include "support.h"

/* ---- Expectations ------------------------------------------------------------------------- */

static inline void expect_status(pto_status got, pto_status want, const char *const *words,
                                 const char *call, const char *file, int line)
{
    bool good = got == want;
    for (; good && *words; words++) {
        good = strstr(pto_error_detail(), *words) != NULL;
    }
    if (!good) {
        print_error("%s\n  gives %s, want %s%s%s\n  detail: %s\n", call, pto_status_name(got),
                    pto_status_name(want), *words ? " with " : "", *words ? *words : "",
                    pto_error_detail());
        _fail(file, line);
    }
}

/* Success. */
#define expect_ok(call)                                                                            \
    expect_status((call), PTO_OK, (const char *const[]){NULL}, #call, __FILE__, __LINE__)

/* Failure with this status, and a fresh detail that contains each of the words. */
#define expect_fail(call, status, ...)                                                             \
    (expect_status((PTO_IGNORE(pto_fail(PTO_CORRUPT, "stale")), (call)), (status),                 \
                   (const char *const[]){__VA_ARGS__, NULL}, #call, __FILE__, __LINE__),           \
     expect_kept((status), #call, __FILE__, __LINE__))

#define DIMS(...)                                                                                  \
    (const int64_t[])                                                                              \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

/* ---- Time --------------------------------------------------------------------------------- */

/* Far longer than any test takes; only a failing test waits that long. */
#define RIG_PATIENCE_MS 30000

static inline uint64_t rig_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Processor time of the program: what it costs, however busy the machine is. */
static inline double rig_cpu_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static inline void rig_sleep_us(uint32_t us)
{
    struct timespec pause = {us / 1000000, (long)(us % 1000000) * 1000};
    nanosleep(&pause, NULL);
}

/* ---- The bench ---------------------------------------------------------------------------- */

typedef struct rig_setup {
    const char *name;
    pto_place place;
    uint32_t map_twice;
    uint64_t first_task;
} rig_setup;

/* The thread sanitizer identifies memory by address. With two addresses it would not see that
 * the two sides synchronize, and would report races. */
#ifdef __SANITIZE_THREAD__
#define RIG_TWICE 0
#define RIG_PROCESSES "the thread sanitizer does not see what another process orders"
#else
#define RIG_TWICE 1
#define RIG_PROCESSES NULL /* worker processes are fine */
#endif

static const rig_setup rig_setups[] = {
    {"inline", PTO_PLACE_INLINE, 0, 0},
    {"thread", PTO_PLACE_THREAD, 0, 0},
    {"process", PTO_PLACE_PROCESS, 0, 0},
    {"inline, mapped twice, wrapping", PTO_PLACE_INLINE, RIG_TWICE, UINT32_MAX - 2},
    {"thread, mapped twice, wrapping", PTO_PLACE_THREAD, RIG_TWICE, UINT32_MAX - 2},
    {"process, mapped elsewhere, wrapping", PTO_PLACE_PROCESS, 1, UINT32_MAX - 2},
};

#define RIG_SETUPS (sizeof rig_setups / sizeof *rig_setups)
#define RIG_PLACES 3 /* the first setups: one for each place */

/* Kernels wait at a gate until it is opened. */
typedef struct rig_gate {
    pthread_mutex_t lock;
    pthread_cond_t change;
    uint32_t inside; /* kernels that have arrived so far */
    bool open;
} rig_gate;

typedef struct rig {
    pto_runtime *rt;
    pto_kernel quick; /* does nothing */
    pto_kernel hold;  /* returns PTO_PENDING: runs until rig_finish, without a worker */
    pto_kernel gate;  /* blocks its worker until rig_open */
    pto_kernel fill;  /* sets each byte of argument 0 to argument 1 */
    pto_kernel copy;  /* copies argument 0 to argument 1, both dense and of one size */
    pto_kernel fails; /* fails with the message "no luck" */
    rig_gate *at;     /* in memory that kernels see */
} rig;

static inline pto_status rig_quick(const pto_call *call)
{
    (void)call;
    return PTO_OK;
}

static inline pto_status rig_hold(const pto_call *call)
{
    (void)call;
    return PTO_PENDING;
}

static inline pto_status rig_gate_wait(const pto_call *call)
{
    rig_gate *gate = call->user;
    pthread_mutex_lock(&gate->lock);
    gate->inside++;
    pthread_cond_broadcast(&gate->change);
    while (!gate->open) {
        pthread_cond_wait(&gate->change, &gate->lock);
    }
    pthread_mutex_unlock(&gate->lock);
    return PTO_OK;
}

static inline int64_t rig_numel(const pto_arg *arg)
{
    int64_t count = 1;
    for (int32_t d = 0; d < arg->ndim; d++) {
        count *= arg->shape[d];
    }
    return count;
}

/* Element number `i` of an argument, last dim fastest. */
static inline unsigned char *rig_element(const pto_arg *arg, int64_t i)
{
    int64_t at = 0;
    for (int32_t d = arg->ndim - 1; d >= 0; d--) {
        at += i % arg->shape[d] * arg->strides[d];
        i /= arg->shape[d];
    }
    return (unsigned char *)arg->data + at * (int64_t)pto_dtype_size(arg->dtype);
}

static inline pto_status rig_fill(const pto_call *call)
{
    const pto_arg *to = &call->args[0];
    for (int64_t i = 0, n = rig_numel(to); i < n; i++) {
        memset(rig_element(to, i), (int)call->args[1].u64, pto_dtype_size(to->dtype));
    }
    return PTO_OK;
}

static inline pto_status rig_copy(const pto_call *call)
{
    const pto_arg *from = &call->args[0], *to = &call->args[1];
    size_t size = pto_dtype_size(from->dtype);
    for (int64_t i = 0, n = rig_numel(from); i < n; i++) {
        memcpy(rig_element(to, i), rig_element(from, i), size);
    }
    return PTO_OK;
}

static inline pto_status rig_fails(const pto_call *call)
{
    (void)call;
    return pto_fail(PTO_KERNEL_FAILED, "no luck");
}

/* Zeroed memory that kernels see, in every place. It lives as long as the runtime. */
static inline void *rig_memory(rig *r, uint64_t bytes)
{
    void *memory = NULL;
    expect_ok(pto_shared_alloc(r->rt, bytes, &memory));
    return memory;
}

/* Memory that kernels see and that outlives the runtime: it is mapped before worker processes are
 * forked, so they have it at the same address. Their `user` is rig_user. Some pages stay mapped
 * until the test program ends. */
static inline void *rig_lasting(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

/* For `user`: a place that holds the pointer. */
static inline void *rig_user(rig *r, void *lasting)
{
    void **user = rig_memory(r, sizeof *user);
    *user = lasting;
    return user;
}

/* A lock and its condition, in memory that kernels share. */
static inline void rig_lock_init(pthread_mutex_t *lock, pthread_cond_t *change)
{
    pthread_mutexattr_t of_lock;
    pthread_condattr_t of_change;
    pthread_mutexattr_init(&of_lock);
    pthread_mutexattr_setpshared(&of_lock, PTHREAD_PROCESS_SHARED);
    pthread_condattr_init(&of_change);
    pthread_condattr_setpshared(&of_change, PTHREAD_PROCESS_SHARED);
    assert_int_equal(pthread_mutex_init(lock, &of_lock), 0);
    assert_int_equal(pthread_cond_init(change, &of_change), 0);
    pthread_condattr_destroy(&of_change);
    pthread_mutexattr_destroy(&of_lock);
}

/* A runtime with two workers unless `config` says otherwise; the setup overrides both. */
static inline void rig_start(rig *r, void **state, const pto_config *config)
{
    const rig_setup *setup = *state;
    pto_config c = PTO_CONFIG_INIT;
    memset(r, 0, sizeof *r);
    if (config) {
        c = *config;
    }
    bool typed = false;
    for (int type = 0; type < PTO_WORKER_TYPES; type++) {
        typed |= c.type_workers[type] != 0;
    }
    if (!c.workers && !typed) {
        c.workers = 2;
    }
    if (!c.inline_ns) {
        c.inline_ns = PTO_NO_INLINE; /* no clock decides */
    }
    c.place = setup->place;
    c.map_twice = setup->map_twice;
    c.first_task = setup->first_task;
    expect_ok(pto_runtime_create(&r->rt, &c));
    refusal_of = &r->rt;
    assert_non_null(r->rt);
    r->at = rig_memory(r, sizeof *r->at);
    rig_lock_init(&r->at->lock, &r->at->change);
    expect_ok(pto_kernel_register(r->rt, "quick", PTO_VECTOR, rig_quick, NULL, &r->quick));
    expect_ok(pto_kernel_register(r->rt, "hold", PTO_VECTOR, rig_hold, NULL, &r->hold));
    expect_ok(pto_kernel_register(r->rt, "gate", PTO_VECTOR, rig_gate_wait, r->at, &r->gate));
    expect_ok(pto_kernel_register(r->rt, "fill", PTO_VECTOR, rig_fill, NULL, &r->fill));
    expect_ok(pto_kernel_register(r->rt, "copy", PTO_VECTOR, rig_copy, NULL, &r->copy));
    expect_ok(pto_kernel_register(r->rt, "fails", PTO_VECTOR, rig_fails, NULL, &r->fails));
}

static inline void rig_forget_gate(rig *r)
{
    refusal_of = NULL; /* the runtime is destroyed, and the rig may go out of scope */
    r->at = NULL;      /* nothing was allocated for lock and condition */
}

/* All tasks are complete, the invariants hold, and there is no unexpected failure. */
static inline void rig_stop(rig *r)
{
    expect_ok(pto_wait(r->rt));
    expect_ok(pto_check(r->rt));
    expect_ok(pto_runtime_destroy(&r->rt, PTO_WAIT));
    assert_null(r->rt);
    rig_forget_gate(r);
}

/* ---- Tasks -------------------------------------------------------------------------------- */

static inline pto_task rig_submit(rig *r, pto_kernel kernel, const pto_param *params, size_t n,
                                  const char *file, int line)
{
    pto_task task = 0;
    expect_status(pto_submit_task_at(r->rt, kernel, PTO_KERNEL_TYPE, params, n, &task, file, line),
                  PTO_OK, (const char *const[]){NULL}, "submit", file, line);
    assert_int_not_equal(task, 0);
    return task;
}

#define RIG_SUBMIT(r, kernel, ...)                                                                 \
    rig_submit((r), (kernel), (const pto_param[]){__VA_ARGS__},                                    \
               sizeof((const pto_param[]){__VA_ARGS__}) / sizeof(pto_param), __FILE__, __LINE__)

/* A task without any parameter. */
#define RIG_SUBMIT_BARE(r, kernel) rig_submit((r), (kernel), NULL, 0, __FILE__, __LINE__)

static inline pto_task_report rig_info(rig *r, pto_task task)
{
    pto_task_report report;
    expect_ok(pto_task_info(r->rt, task, &report));
    assert_int_equal(report.task, task);
    return report;
}

static inline pto_runtime_stats rig_stats(rig *r)
{
    pto_runtime_stats stats;
    expect_ok(pto_stats(r->rt, &stats));
    return stats;
}

static inline pto_ring_stats rig_ring(rig *r, uint32_t level, pto_ring ring)
{
    return rig_stats(r).level[level].ring[ring];
}

static inline void rig_until_at(rig *r, pto_task task, pto_task_state state, const char *file,
                                int line)
{
    uint64_t deadline = rig_now_ms() + RIG_PATIENCE_MS;
    pto_task_report report = rig_info(r, task);
    while (report.state < state) {
        if (rig_now_ms() > deadline) {
            print_error("task %" PRIu64 " (%s) is %s for ever, want %s\n", task,
                        report.kernel ? report.kernel : "?", pto_task_state_name(report.state),
                        pto_task_state_name(state));
            _fail(file, line);
        }
        rig_sleep_us(20);
        report = rig_info(r, task);
    }
}

/* Waits until the task has reached at least this state. */
#define rig_until(r, task, state) rig_until_at((r), (task), (state), __FILE__, __LINE__)

static inline void rig_is_at(rig *r, pto_task task, pto_task_state state, uint32_t fanin_left,
                             const char *file, int line)
{
    pto_task_report report = rig_info(r, task);
    if (report.state != state || report.fanin_left != fanin_left) {
        print_error("task %" PRIu64 " (%s) is %s with %u to wait for, want %s with %u\n", task,
                    report.kernel ? report.kernel : "?", pto_task_state_name(report.state),
                    report.fanin_left, pto_task_state_name(state), fanin_left);
        _fail(file, line);
    }
}

/* The task waits for exactly so many others. */
#define RIG_WAITS_FOR(r, task, count)                                                              \
    rig_is_at((r), (task), PTO_TASK_PENDING, (count), __FILE__, __LINE__)

static inline void rig_counts_at(rig *r, pto_task task, uint32_t count, uint32_t left,
                                 const char *file, int line)
{
    pto_task_report report = rig_info(r, task);
    if (report.state == PTO_TASK_CONSUMED || report.fanout_count != count ||
        report.fanout_left != left) {
        print_error("task %" PRIu64 " is %s, fanout %u of %u left; want %u of %u\n", task,
                    pto_task_state_name(report.state), report.fanout_left, report.fanout_count,
                    left, count);
        _fail(file, line);
    }
}

/* Number of holders so far, and now. */
#define RIG_FANOUT(r, task, count, left)                                                           \
    rig_counts_at((r), (task), (count), (left), __FILE__, __LINE__)

/* Completes a task of the kernel `hold`. */
static inline void rig_finish(rig *r, pto_task task, pto_status status)
{
    rig_until(r, task, PTO_TASK_RUNNING);
    expect_ok(pto_task_complete(r->rt, task, status));
    rig_until(r, task, PTO_TASK_COMPLETED);
}

/* Waits until so many kernels have arrived at the gate. */
static inline void rig_at_gate(rig *r, uint32_t count)
{
    uint64_t deadline = rig_now_ms() + RIG_PATIENCE_MS;
    for (uint32_t inside = 0; inside < count;) {
        assert_true(rig_now_ms() < deadline);
        pthread_mutex_lock(&r->at->lock);
        inside = r->at->inside;
        pthread_mutex_unlock(&r->at->lock);
        rig_sleep_us(20);
    }
}

static inline void rig_open(rig *r)
{
    pthread_mutex_lock(&r->at->lock);
    r->at->open = true;
    pthread_cond_broadcast(&r->at->change);
    pthread_mutex_unlock(&r->at->lock);
}

/* A thread that completes a held task after a while, to show that the orchestrating thread waits
 * for it: `ending` is set before, never after. It may check memory first. */
typedef struct rig_later {
    rig *r;
    pto_task task;
    pto_status status; /* status for pto_task_complete */
    pto_status result; /* result of pto_task_complete */
    uint32_t after_us;
    const unsigned char *look; /* bytes to check, or NULL */
    size_t look_bytes;
    unsigned char expected; /* expected value of each */
    bool intact;
    bool until_wait; /* not before a submit waits for heap */
    uint64_t waits;
    atomic_bool ending;
    pthread_t thread;
} rig_later;

static inline uint64_t rig_heap_waits(rig *r)
{
    pto_runtime_stats stats;
    uint64_t waits = 0;
    PTO_IGNORE(pto_stats(r->rt, &stats));
    for (uint32_t l = 0; l < stats.levels; l++) {
        waits += stats.level[l].ring[PTO_RING_HEAP].waits;
    }
    return waits;
}

static inline void *rig_later_run(void *argument)
{
    rig_later *later = argument;
    const uint64_t began = rig_now_ms();
    while (later->until_wait && rig_heap_waits(later->r) == later->waits &&
           rig_now_ms() - began < RIG_PATIENCE_MS) {
        rig_sleep_us(100);
    }
    rig_sleep_us(later->after_us);
    later->intact = true;
    for (size_t i = 0; i < later->look_bytes; i++) {
        later->intact &= later->look[i] == later->expected;
    }
    atomic_store(&later->ending, true);
    later->result = pto_task_complete(later->r->rt, later->task, later->status);
    return NULL;
}

static inline void rig_later_start(rig_later *later, rig *r, pto_task task, uint32_t after_us)
{
    rig_until(r, task, PTO_TASK_RUNNING);
    later->r = r;
    later->task = task;
    later->after_us = after_us;
    later->waits = rig_heap_waits(r);
    atomic_init(&later->ending, false);
    assert_int_equal(pthread_create(&later->thread, NULL, rig_later_run, later), 0);
}

static inline void rig_later_join(rig_later *later)
{
    assert_int_equal(pthread_join(later->thread, NULL), 0);
    assert_string_equal(pto_status_name(later->result), "PTO_OK");
    assert_true(later->intact);
}

/* ---- Memory ------------------------------------------------------------------------------- */

/* Dense bytes of the user. */
static inline pto_tensor rig_bytes(rig *r, void *data, int64_t count)
{
    pto_tensor t;
    expect_ok(pto_external_tensor(r->rt, data, PTO_UINT8, 1, DIMS(count), &t));
    return t;
}

/* Managed bytes, not allocated yet. */
static inline pto_tensor rig_temp(rig *r, int64_t count)
{
    pto_tensor t;
    expect_ok(pto_temp(r->rt, PTO_UINT8, 1, DIMS(count), &t));
    return t;
}

static inline unsigned char *rig_address(rig *r, const pto_tensor *t)
{
    void *address = NULL;
    expect_ok(pto_get_buffer_addr(r->rt, t, &address));
    assert_non_null(address);
    return address;
}

/* Bytes low .. high of a tensor of bytes. */
static inline pto_tensor rig_slice(const pto_tensor *t, int64_t low, int64_t high)
{
    pto_tensor part;
    expect_ok(pto_tensor_slice(t, 0, low, high, 1, &part));
    return part;
}

/* ---- Running ------------------------------------------------------------------------------ */

typedef struct rig_case {
    const char *name;
    CMUnitTestFunction run;
    size_t setups;           /* how many of rig_setups, from the first on */
    const char *one_process; /* why it cannot run with worker processes; NULL: it can */
} rig_case;

#define RIG_CASE(function)                                                                         \
    {                                                                                              \
#function, function, RIG_SETUPS, NULL                                                      \
    }

/* For a case that needs kernels in the process of the test. It counts as skipped elsewhere, with
 * the reason. */
#define RIG_CASE_ONE_PROCESS(function, why)                                                        \
    {                                                                                              \
#function, function, RIG_SETUPS, why                                                       \
    }

/* For slow cases that do not depend on addresses or counters: once for each place. */
#define RIG_CASE_SLOW(function)                                                                    \
    {                                                                                              \
#function, function, RIG_PLACES, NULL                                                      \
    }

#define RIG_CASE_SLOW_ONE_PROCESS(function, why)                                                   \
    {                                                                                              \
#function, function, RIG_PLACES, why                                                       \
    }

static inline void rig_skip(void **state)
{
    print_message("needs one process: %s\n", (const char *)*state);
    skip();
}

/* Runs every case with its setups. A case that hangs ends the program. */
static inline int rig_run(const char *group, const rig_case *cases, size_t n_cases)
{
    struct CMUnitTest *tests = calloc(n_cases * RIG_SETUPS, sizeof *tests);
    char(*names)[128] = calloc(n_cases * RIG_SETUPS, sizeof *names);
    if (!tests || !names) {
        abort();
    }
    size_t n = 0;
    for (size_t c = 0; c < n_cases; c++) {
        for (size_t s = 0; s < cases[c].setups; s++, n++) {
            snprintf(names[n], sizeof names[n], "%s (%s)", cases[c].name, rig_setups[s].name);
            tests[n].name = names[n];
            const char *skips = cases[c].one_process          ? cases[c].one_process
                                : getenv("PTO_TEST_EMULATED") ? "too slow in an emulator"
                                                              : RIG_PROCESSES;
            skips = rig_setups[s].place == PTO_PLACE_PROCESS ? skips : NULL;
            tests[n].test_func = skips ? rig_skip : cases[c].run;
            tests[n].initial_state = (void *)(uintptr_t)(skips ? (const void *)skips
                                                               : &rig_setups[s]);
        }
    }
    alarm(240);
    int failed = _cmocka_run_group_tests(group, tests, n, NULL, NULL);
    free(names);
    free(tests);
    return failed;
}

#endif /* PTO_TEST_RIG_H */
