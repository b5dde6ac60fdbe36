/* test_crash.c - a kernel that crashes is named on stderr, and the process dies as it would have
 * died without that.
 *
 * Each case runs in a forked process, whose stderr and end are examined. */
#define _GNU_SOURCE /* memfd_create */
#include "../runtime/rig.h"

#include <pto/device.h>
#include <pto/gpu.h>

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||                               \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1 /* most of the signals belong to the sanitizer */
#else
#define SANITIZED 0
#endif

static const int deadly[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
enum { DEADLY = sizeof deadly / sizeof *deadly };

/* ---- Ways to crash ---------------------------------------------------------------------------- */

static void touch(volatile char *where)
{
    *where = 1;
}

__attribute__((noinline)) static int overflow(volatile char *from)
{
    volatile char frame[4096];
    frame[0] = *from;
    return frame[0] ? 0 : overflow(frame) + frame[1]; /* it never is */
}

enum { STACK = 1000 }; /* in place of a signal */

static pto_status crash(const pto_call *call)
{
    volatile uintptr_t low = 0x10;
    volatile char byte = 0;
    void *page;
    switch ((int)call->args[0].i64) {
    case SIGSEGV:
        touch((volatile char *)low); /* NOLINT: it is meant */
        break;
    case SIGBUS: /* beyond the end of a file */
        page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memfd_create("empty", 0), 0);
        touch(page);
        break;
    case SIGABRT:
        abort();
    case STACK:
        return (pto_status)overflow(&byte);
    default:
        raise((int)call->args[0].i64);
    }
    return PTO_OK;
}

/* ---- Children --------------------------------------------------------------------------------- */

typedef struct ended {
    int status; /* of waitpid */
    char text[4096];
} ended;

/* What a child does: it crashes, or exits. */
typedef void deed(void **state, const pto_config *config, int how);

static ended child(deed *what, void **state, const pto_config *config, int how)
{
    ended e = {.status = 0};
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        for (int i = 0; i < DEADLY && !SANITIZED; i++) {
            signal(deadly[i], SIG_DFL); /* cmocka has handlers */
        }
        signal(SIGABRT, SIG_DFL);
        dup2(pipes[1], STDERR_FILENO);
        alarm(60);
        what(state, config, how);
        _exit(0);
    }
    close(pipes[1]);
    size_t length = 0;
    ssize_t n;
    while ((n = read(pipes[0], e.text + length, sizeof e.text - 1 - length)) > 0) {
        length += (size_t)n;
    }
    close(pipes[0]);
    assert_int_equal(waitpid(pid, &e.status, 0), pid);
    return e;
}

static void expect_killed(const ended *e, int by, const char *const *words, int line)
{
    bool good = WIFSIGNALED(e->status) && WTERMSIG(e->status) == by;
    for (; good && *words; words++) {
        good = strstr(e->text, *words) != NULL;
    }
    if (!good) {
        print_error("line %d: want signal %d and \"%s\"; got status 0x%x and \"%s\"\n", line, by,
                    *words ? *words : "", (unsigned)e->status, e->text);
        fail();
    }
}

/* Killed by this signal, with these words. */
#define KILLED(e, by, ...)                                                                         \
    expect_killed((e), (by), (const char *const[]){__VA_ARGS__, NULL}, __LINE__)

/* Killed by this signal, and nothing was said. */
static void expect_silence(const ended *e, int by)
{
    assert_null(strstr(e->text, "pto: "));
    assert_true(WIFSIGNALED(e->status));
    assert_int_equal(WTERMSIG(e->status), by);
}

/* ---- Reports ---------------------------------------------------------------------------------- */

static void submit_crash(rig *r, int how)
{
    pto_kernel kernel;
    char bytes[8];
    const pto_tensor x = rig_bytes(r, bytes, 8);
    expect_ok(pto_kernel_register(r->rt, "bad", PTO_VECTOR, crash, NULL, &kernel));
    /* Two tasks before it, of which the same line was the last. It is complete. */
    RIG_SUBMIT(r, r->quick, pto_inout(&x));
    RIG_SUBMIT(r, r->quick, pto_inout(&x));
    expect_ok(pto_wait(r->rt));
    const pto_param what = pto_scalar(how);
    expect_ok(pto_label(r->rt, "tile[%d]", 3));
    expect_ok(pto_submit_task_at(r->rt, kernel, PTO_KERNEL_TYPE, &what, 1, NULL, "app.c", 12));
    expect_ok(pto_wait(r->rt));
}

static void crash_in_a_task(void **state, const pto_config *config, int how)
{
    rig r;
    rig_start(&r, state, config);
    submit_crash(&r, how);
    _exit(1);
}

static void test_names_the_task(void **state)
{
    pto_config config = PTO_CONFIG_INIT;
    for (int i = SANITIZED ? DEADLY - 1 : 0; i < DEADLY; i++) {
        config.workers = 1;
        config.caller_types = PTO_NO_TYPES;
        ended e = child(crash_in_a_task, state, &config, deadly[i]);
        KILLED(&e, deadly[i], "pto: SIG",
               "in task 2 'tile[3]' (kernel 'bad', submitted at app.c:12), on "
               "worker 0\n");
        config.workers = PTO_NO_WORKERS;
        config.caller_types = PTO_ALL_TYPES;
        e = child(crash_in_a_task, state, &config, deadly[i]);
        KILLED(&e, deadly[i],
               "in task 2 'tile[3]' (kernel 'bad', submitted at app.c:12), on the "
               "orchestrating thread\n");
    }
    if (!SANITIZED) {
        ended e = child(crash_in_a_task, state, &config, SIGSEGV);
        KILLED(&e, SIGSEGV, "pto: SIGSEGV at address 0x10 in task 2");
    }
}

/* The orchestrating thread runs it inside of submit. */
static void crash_inline(void **state, const pto_config *config, int how)
{
    rig r;
    pto_kernel kernel;
    rig_start(&r, state, config);
    expect_ok(pto_kernel_register(r.rt, "bad", PTO_VECTOR, crash, NULL, &kernel));
    for (int i = 0; i < 100; i++) { /* signal 0 does nothing: the kernel is timed as short */
        RIG_SUBMIT(&r, kernel, pto_scalar(0));
        expect_ok(pto_wait(r.rt));
    }
    if (rig_stats(&r).inlined == 0) {
        _exit(2);
    }
    RIG_SUBMIT(&r, kernel, pto_scalar(how));
    _exit(1);
}

static void test_inline_execution(void **state)
{
    if (((const rig_setup *)*state)->place != PTO_PLACE_INLINE) {
        skip(); /* there is none */
    }
    pto_config config = PTO_CONFIG_INIT;
    config.inline_ns = 1000000;
    config.guard = PTO_NO_GUARD; /* with guards there is no inline execution */
    ended e = child(crash_inline, state, &config, SIGABRT);
    KILLED(&e, SIGABRT, "pto: SIGABRT in task 100 (kernel 'bad', submitted at",
           "test_crash.c:", "on the orchestrating thread\n");
}

/* A worker has another stack for the handler. */
static void test_stack_overflow(void **state)
{
    if (SANITIZED) {
        skip();
    }
    pto_config config = PTO_CONFIG_INIT;
    config.workers = 2;
    config.caller_types = PTO_NO_TYPES;
    ended e = child(crash_in_a_task, state, &config, STACK);
    KILLED(&e, SIGSEGV, "pto: SIGSEGV at address 0x", "in task 2 'tile[3]' (kernel 'bad'",
           "on worker ");
}

/* A block of a simulated device that schedules for itself, also beyond the end of its stack. */
static void crash_in_a_block(void **state, const pto_config *config, int how)
{
    pto_runtime *rt = NULL;
    pto_kernel kernel;
    pto_tensor x;
    (void)state;
    expect_ok(pto_runtime_create(&rt, config));
    expect_ok(pto_gpu_kernel(rt, "bad", PTO_VECTOR, &kernel));
    expect_ok(pto_kernel_variant(rt, kernel, PTO_DEVICE_SIM, crash, NULL));
    expect_ok(pto_tensor_empty(config->device, PTO_UINT8, 1, DIMS(8), &x));
    for (int i = 0; i < 3; i++) { /* signal 0 does nothing */
        const pto_param params[] = {pto_scalar(i < 2 ? 0 : how), pto_inout(&x)};
        expect_ok(pto_label(rt, "tile[%d]", i));
        expect_ok(pto_submit_task_at(rt, kernel, PTO_KERNEL_TYPE, params, 2, NULL, "app.c", 12));
    }
    expect_ok(pto_wait(rt));
    _exit(1);
}

static void test_blocks_of_a_grid(void **state)
{
    if (((const rig_setup *)*state)->place != PTO_PLACE_INLINE) {
        skip(); /* it has a place of its own */
    }
    pto_config config = PTO_CONFIG_INIT;
    config.place = PTO_PLACE_GPU;
    config.device = (pto_device){PTO_DEVICE_SIM, 0};
    config.gpu_workers = 1;
    const ended e = child(crash_in_a_block, state, &config, SIGABRT);
    KILLED(&e, SIGABRT,
           "pto: SIGABRT in task 2 'tile[2]' (kernel 'bad', submitted at app.c:12), on "
           "block 0 of sim:0\n");
    if (!SANITIZED) {
        const ended deep = child(crash_in_a_block, state, &config, STACK);
        KILLED(&deep, SIGSEGV, "in task 2 'tile[2]' (kernel 'bad'", "on block 0 of sim:0\n");
    }
}

/* ---- Silence ---------------------------------------------------------------------------------- */

static void crash_outside(void **state, const pto_config *config, int how)
{
    rig r;
    rig_start(&r, state, config);
    for (int i = 0; i < 100; i++) {
        RIG_SUBMIT_BARE(&r, r.quick);
    }
    expect_ok(pto_wait(r.rt));
    raise(how);
}

/* Only kernels are reported: not what the program does elsewhere on the same thread. */
static void test_outside_of_kernels(void **state)
{
    pto_config config = PTO_CONFIG_INIT;
    for (int inline_ns = 0; inline_ns < 2; inline_ns++) {
        config.workers = PTO_NO_WORKERS;
        config.inline_ns = inline_ns ? 1000000 : PTO_NO_INLINE;
        config.guard = PTO_NO_GUARD;
        const ended e = child(crash_outside, state, &config, SIGABRT);
        expect_silence(&e, SIGABRT);
    }
}

static void test_opt_out(void **state)
{
    pto_config config = PTO_CONFIG_INIT;
    config.crash_report = PTO_NO_CRASH_REPORT;
    for (int i = SANITIZED ? DEADLY - 1 : 0; i < DEADLY; i++) {
        const ended e = child(crash_in_a_task, state, &config, deadly[i]);
        expect_silence(&e, deadly[i]);
    }
    config.crash_report = 0;
    assert_int_equal(setenv("PTO_CRASH_REPORT", "none", 1), 0);
    const ended e = child(crash_in_a_task, state, &config, SIGABRT);
    expect_silence(&e, SIGABRT);
    assert_int_equal(unsetenv("PTO_CRASH_REPORT"), 0);
}

static void leave(int number)
{
    _exit(100 + number);
}

static void crash_with_a_handler(void **state, const pto_config *config, int how)
{
    signal(how, leave);
    crash_in_a_task(state, config, how);
}

/* A handler of the program runs, also on a worker. */
static void test_handlers_of_the_program(void **state)
{
    for (int i = SANITIZED ? DEADLY - 1 : 0; i < DEADLY; i++) {
        pto_config config = PTO_CONFIG_INIT;
        config.workers = 1;
        config.caller_types = PTO_NO_TYPES;
        const ended e = child(crash_with_a_handler, state, &config, deadly[i]);
        assert_null(strstr(e.text, "pto: "));
        assert_true(WIFEXITED(e.status));
        assert_int_equal(WEXITSTATUS(e.status), 100 + deadly[i]);
    }
}

/* ---- Installed and restored ------------------------------------------------------------------- */

static void disposition(int number, bool is_default, int line)
{
    struct sigaction now;
    sigaction(number, NULL, &now);
    if ((now.sa_handler == SIG_DFL) != is_default) {
        fprintf(stderr, "line %d: signal %d\n", line, number);
        _exit(1);
    }
}
#define IS_DEFAULT(number) disposition((number), true, __LINE__)
#define IS_HANDLED(number) disposition((number), false, __LINE__)

static void create_and_destroy(void **state, const pto_config *config, int how)
{
    rig one, two, three;
    pto_config off = PTO_CONFIG_INIT;
    off.crash_report = PTO_NO_CRASH_REPORT;
    (void)how;
    IS_DEFAULT(SIGABRT);
    rig_start(&three, state, &off);
    IS_DEFAULT(SIGABRT);
    rig_start(&one, state, config);
    IS_HANDLED(SIGABRT);
    rig_start(&two, state, config);
    rig_stop(&one);
    IS_HANDLED(SIGABRT);
    rig_start(&one, state, config);
    rig_stop(&two);
    IS_HANDLED(SIGABRT);
    rig_stop(&one);
    for (int i = SANITIZED ? DEADLY - 1 : 0; i < DEADLY; i++) {
        IS_DEFAULT(deadly[i]);
    }
    rig_stop(&three);
    IS_DEFAULT(SIGABRT);
    /* A handler that the program installs meanwhile stays. */
    rig_start(&one, state, config);
    signal(SIGABRT, leave);
    rig_stop(&one);
    IS_HANDLED(SIGABRT);
    abort();
}

static void test_restored_after_destroy(void **state)
{
    const ended e = child(create_and_destroy, state, NULL, 0);
    assert_string_equal(e.text, "");
    assert_true(WIFEXITED(e.status));
    assert_int_equal(WEXITSTATUS(e.status), 100 + SIGABRT);
}

/* The first is destroyed, the second crashes; a third one has nothing to do with it. */
static void crash_in_the_second(void **state, const pto_config *config, int how)
{
    rig one, two, three;
    rig_start(&one, state, config);
    rig_start(&two, state, config);
    rig_start(&three, state, config);
    RIG_SUBMIT_BARE(&three, three.quick);
    expect_ok(pto_wait(three.rt));
    rig_stop(&one);
    submit_crash(&two, how);
}

static void test_several_runtimes(void **state)
{
    pto_config config = PTO_CONFIG_INIT;
    for (int workers = 0; workers < 2; workers++) {
        config.workers = workers ? 2 : PTO_NO_WORKERS;
        const ended e = child(crash_in_the_second, state, &config, SIGABRT);
        KILLED(&e, SIGABRT,
               "pto: SIGABRT in task 2 'tile[3]' (kernel 'bad', submitted at app.c:12), on ");
        assert_null(strstr(e.text, "task 0"));
    }
}

int main(void)
{
    const rig_case cases[] = {
        RIG_CASE_ONE_PROCESS(test_names_the_task, "a crash ends the program"),
        RIG_CASE(test_inline_execution),
        RIG_CASE_ONE_PROCESS(test_stack_overflow, "a crash ends the program"),
        RIG_CASE_ONE_PROCESS(test_blocks_of_a_grid, "a crash ends the program"),
        RIG_CASE_ONE_PROCESS(test_outside_of_kernels, "a crash ends the program"),
        RIG_CASE_ONE_PROCESS(test_opt_out, "a crash ends the program"),
        RIG_CASE_ONE_PROCESS(test_handlers_of_the_program, "a crash ends the program"),
        RIG_CASE_ONE_PROCESS(test_restored_after_destroy, "a crash ends the program"),
        RIG_CASE_ONE_PROCESS(test_several_runtimes, "a crash ends the program"),
    };
    return rig_run("crash", cases, sizeof cases / sizeof *cases);
}
