/* test_life.c - create, destroy and cancel; two runtimes at the same time; and no leaks. */
#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>

#include "../runtime/rig.h"

/* ---- Cancel ------------------------------------------------------------------------------------ */

typedef struct counter {
    atomic_uint runs;
} counter;

static pto_status count_run(const pto_call *call)
{
    counter *c = *(counter **)call->user;
    atomic_fetch_add(&c->runs, 1);
    return PTO_OK;
}

/* Runs until the runtime is cancelled. */
static pto_status until_cancelled(const pto_call *call)
{
    while (!pto_is_cancelled(call->rt)) {
        rig_sleep_us(100);
    }
    return PTO_OK;
}

static void *cancel_later(void *argument)
{
    rig_sleep_us(5000);
    pto_cancel(argument);
    return NULL;
}

/* Running tasks finish, the others are skipped, and then the runtime works again. */
static void cancelled_runtime_goes_on(rig *r, pto_kernel count, counter *c, pto_task running,
                                      pto_task waiting, const pto_tensor *x)
{
    unsigned char got[8];
    assert_true(pto_is_cancelled(r->rt));
    assert_false(rig_info(r, running).failed);
    assert_true(rig_info(r, waiting).skipped);
    assert_int_equal(atomic_load(&c->runs), 0);
    expect_fail(pto_wait(r->rt), PTO_CANCELLED, "cancel");
    expect_fail(pto_wait_task(r->rt, waiting), PTO_CANCELLED, "cancel");
    expect_ok(pto_wait_task(r->rt, running));
    expect_fail(pto_submit(r->rt, count, pto_output(x)), PTO_CANCELLED, "submit");
    expect_fail(pto_read(r->rt, x, got, sizeof got), PTO_POISONED, "read");
    bool failed = true;
    pto_failure failure;
    expect_ok(pto_get_failure(r->rt, &failed, &failure));
    assert_false(failed);
    expect_ok(pto_clear_error(r->rt));
    assert_false(pto_is_cancelled(r->rt));
    expect_ok(pto_read(r->rt, x, got, sizeof got));
    RIG_SUBMIT(r, count, pto_inout(x));
    expect_ok(pto_wait(r->rt));
    assert_int_equal(atomic_load(&c->runs), 1);
}

static void test_cancel_from_another_thread(void **state)
{
    rig r;
    counter *c = rig_lasting(sizeof *c);
    pthread_t thread;
    pto_kernel endless, count;
    atomic_init(&c->runs, 0);
    rig_start(&r, state, NULL);
    unsigned char *memory = rig_memory(&r, 8);
    expect_ok(pto_kernel_register(r.rt, "endless", PTO_CUBE, until_cancelled, NULL, &endless));
    expect_ok(pto_kernel_register(r.rt, "count", PTO_CUBE, count_run, rig_user(&r, c), &count));
    pto_tensor x = rig_bytes(&r, memory, 8);
    expect_ok(pto_scope_begin(r.rt));
    pto_task running = RIG_SUBMIT(&r, endless, pto_output(&x));
    pto_task waiting = RIG_SUBMIT(&r, count, pto_inout(&x));
    rig_until(&r, running, PTO_TASK_RUNNING);
    assert_int_equal(pthread_create(&thread, NULL, cancel_later, r.rt), 0);
    expect_fail(pto_wait(r.rt), PTO_CANCELLED, "cancel");
    assert_int_equal(pthread_join(thread, NULL), 0);
    cancelled_runtime_goes_on(&r, count, c, running, waiting, &x);
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

static pto_runtime *signalled;

static void on_signal(int number)
{
    (void)number;
    pto_cancel(signalled);
}

static void *send_signal(void *argument)
{
    pthread_t *target = argument;
    rig_sleep_us(5000);
    pthread_kill(*target, SIGUSR1);
    return NULL;
}

/* In a signal handler on the orchestrating thread, once anywhere and once inside pto_wait. */
static void test_cancel_from_a_signal_handler(void **state)
{
    struct sigaction action, before;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    for (int in_wait = 0; in_wait < 2; in_wait++) {
        rig r;
        counter *c = rig_lasting(sizeof *c);
        pto_kernel endless, count;
        atomic_init(&c->runs, 0);
        pto_config config = PTO_CONFIG_INIT;
        config.caller_types = PTO_NO_TYPES; /* so that pto_wait sleeps */
        rig_start(&r, state, &config);
        signalled = r.rt;
        expect_ok(pto_kernel_register(r.rt, "endless", PTO_CUBE, until_cancelled, NULL, &endless));
        expect_ok(pto_kernel_register(r.rt, "count", PTO_CUBE, count_run, rig_user(&r, c), &count));
        pto_tensor x = rig_bytes(&r, rig_memory(&r, 8), 8);
        expect_ok(pto_scope_begin(r.rt));
        pto_task running = RIG_SUBMIT(&r, endless, pto_output(&x));
        pto_task waiting = RIG_SUBMIT(&r, count, pto_inout(&x));
        rig_until(&r, running, PTO_TASK_RUNNING);
        pthread_t thread, self = pthread_self();
        if (in_wait) {
            assert_int_equal(pthread_create(&thread, NULL, send_signal, &self), 0);
        } else {
            assert_int_equal(raise(SIGUSR1), 0);
        }
        expect_fail(pto_wait(r.rt), PTO_CANCELLED, "cancel");
        if (in_wait) {
            assert_int_equal(pthread_join(thread, NULL), 0);
        }
        cancelled_runtime_goes_on(&r, count, c, running, waiting, &x);
        expect_ok(pto_scope_end(r.rt));
        rig_stop(&r);
    }
    assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
}

/* A ready task has not started; and a failure takes precedence over a cancel. */
static void test_cancel_skips_what_is_ready(void **state)
{
    rig r;
    counter *c = rig_lasting(sizeof *c);
    pto_kernel count;
    atomic_init(&c->runs, 0);
    pto_config config = PTO_CONFIG_INIT;
    config.workers = PTO_NO_WORKERS; /* nothing runs before the wait */
    rig_start(&r, state, &config);
    expect_ok(pto_kernel_register(r.rt, "count", PTO_CUBE, count_run, rig_user(&r, c), &count));
    pto_task bad = RIG_SUBMIT_BARE(&r, r.fails);
    expect_fail(pto_wait_task(r.rt, bad), PTO_TASK_FAILED, "no luck");
    for (int i = 0; i < 50; i++) {
        RIG_SUBMIT_BARE(&r, count);
    }
    pto_cancel(r.rt);
    pto_cancel(r.rt);
    expect_fail(pto_wait(r.rt), PTO_TASK_FAILED, "no luck");
    assert_int_equal(atomic_load(&c->runs), 0);
    assert_int_equal(rig_stats(&r).skipped, 50);
    assert_int_equal(rig_stats(&r).failed, 1);
    assert_int_equal(rig_stats(&r).completed, 51);
    expect_ok(pto_clear_error(r.rt));
    rig_stop(&r);
}

/* ---- Destroy ------------------------------------------------------------------------------------ */

static void test_destroy_waits_for_everything(void **state)
{
    rig r;
    counter *c = rig_lasting(sizeof *c);
    pto_kernel count;
    atomic_init(&c->runs, 0);
    rig_start(&r, state, NULL);
    char *memory = rig_memory(&r, 8);
    expect_ok(pto_kernel_register(r.rt, "count", PTO_CUBE, count_run, rig_user(&r, c), &count));
    pto_tensor x = rig_bytes(&r, memory, 8);
    pto_task held = RIG_SUBMIT(&r, r.hold, pto_output(&x));
    for (int i = 0; i < 100; i++) {
        RIG_SUBMIT(&r, count, pto_inout(&x));
    }
    rig_later later = {.status = PTO_OK};
    rig_later_start(&later, &r, held, 10000);
    expect_ok(pto_runtime_destroy(&r.rt, PTO_WAIT));
    assert_null(r.rt);
    rig_later_join(&later);
    assert_int_equal(atomic_load(&c->runs), 100);
    rig_forget_gate(&r);
}

static void test_destroy_with_open_scopes(void **state)
{
    rig r;
    char site[64];
    rig_start(&r, state, NULL);
    expect_ok(pto_scope_begin(r.rt));
    int line = __LINE__ + 1;
    expect_ok(pto_scope_begin_ex(r.rt, PTO_SCOPE_BOUNDARY));
    pto_tensor t = rig_temp(&r, 64);
    pto_task task = RIG_SUBMIT(&r, r.quick, pto_output(&t));
    snprintf(site, sizeof site, "test_life.c:%d", line);
    expect_fail(pto_runtime_destroy(&r.rt, PTO_WAIT), PTO_OPEN_SCOPE, "2", site);
    assert_non_null(r.rt);
    expect_fail(pto_runtime_destroy(&r.rt, (pto_ending)7), PTO_BAD_PARAM, "7");
    assert_non_null(r.rt);
    /* It still works, with all its tasks. */
    assert_int_equal(pto_get_scope_depth(r.rt), 2);
    expect_ok(pto_wait_task(r.rt, task));
    RIG_SUBMIT(&r, r.quick, pto_input(&t));
    expect_ok(pto_scope_end(r.rt));
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

/* PTO_CANCEL: open scopes end, running tasks finish, the others never start. */
static void test_destroy_with_cancel(void **state)
{
    rig r;
    counter *c = rig_lasting(sizeof *c);
    pto_kernel count, endless;
    atomic_init(&c->runs, 0);
    rig_start(&r, state, NULL);
    char(*memory)[8] = rig_memory(&r, sizeof(char[2][8]));
    expect_ok(pto_kernel_register(r.rt, "count", PTO_CUBE, count_run, rig_user(&r, c), &count));
    expect_ok(pto_kernel_register(r.rt, "endless", PTO_CUBE, until_cancelled, NULL, &endless));
    pto_tensor x = rig_bytes(&r, memory[0], 8), y = rig_bytes(&r, memory[1], 8);
    for (int i = 0; i < 3; i++) {
        expect_ok(pto_scope_begin_ex(r.rt, i == 1 ? PTO_SCOPE_BOUNDARY : 0));
        pto_tensor t = rig_temp(&r, 64);
        RIG_SUBMIT(&r, r.quick, pto_output(&t));
    }
    pto_task running = RIG_SUBMIT(&r, endless, pto_output(&x));
    pto_task held = RIG_SUBMIT(&r, r.hold, pto_output(&y));
    for (int i = 0; i < 100; i++) {
        RIG_SUBMIT(&r, count, pto_inout(&x), pto_input(&y));
    }
    rig_until(&r, running, PTO_TASK_RUNNING);
    rig_later later = {.status = PTO_OK};
    rig_later_start(&later, &r, held, 10000);
    expect_ok(pto_runtime_destroy(&r.rt, PTO_CANCEL));
    assert_null(r.rt);
    assert_true(atomic_load(&later.ending));
    rig_later_join(&later);
    assert_int_equal(atomic_load(&c->runs), 0);
    rig_forget_gate(&r);
}

/* Destroy reports a failure that was not reported before, and no other. */
static void test_destroy_tells_of_failures(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    RIG_SUBMIT_BARE(&r, r.fails);
    expect_fail(pto_runtime_destroy(&r.rt, PTO_WAIT), PTO_TASK_FAILED, "'fails'", "no luck");
    assert_null(r.rt);
    rig_forget_gate(&r);

    rig_start(&r, state, NULL);
    RIG_SUBMIT_BARE(&r, r.fails);
    expect_fail(pto_wait(r.rt), PTO_TASK_FAILED, "no luck");
    expect_ok(pto_runtime_destroy(&r.rt, PTO_WAIT));
    assert_null(r.rt);
    rig_forget_gate(&r);

    rig_start(&r, state, NULL);
    RIG_SUBMIT_BARE(&r, r.fails);
    expect_ok(pto_runtime_destroy(&r.rt, PTO_CANCEL));
    assert_null(r.rt);
    rig_forget_gate(&r);
}

/* ---- Several ------------------------------------------------------------------------------------ */

/* Two interleaved runtimes on one thread do not affect each other. */
static void test_two_runtimes(void **state)
{
    rig a, b;
    unsigned char got[8];
    rig_start(&a, state, NULL);
    rig_start(&b, state, NULL);
    pto_tensor xa = rig_bytes(&a, rig_memory(&a, 8), 8);
    pto_tensor xb = rig_bytes(&b, rig_memory(&b, 8), 8);
    /* Each orders its own tasks alone. */
    pto_task held = RIG_SUBMIT(&a, a.hold, pto_output(&xa));
    pto_task free_one = RIG_SUBMIT(&b, b.fill, pto_output(&xb), pto_scalar(7));
    expect_ok(pto_wait_task(b.rt, free_one));
    expect_ok(pto_wait(b.rt));
    /* Scopes, failures and cancels belong to one runtime. */
    expect_ok(pto_scope_begin(a.rt));
    assert_int_equal(pto_get_scope_depth(b.rt), 0);
    expect_fail(pto_scope_end(b.rt), PTO_BAD_SCOPE, "scope");
    for (int i = 0; i < 200; i++) {
        expect_ok(pto_scope_begin(b.rt));
        pto_tensor ta = rig_temp(&a, 8), tb = rig_temp(&b, 8);
        RIG_SUBMIT(&a, a.fill, pto_output(&ta), pto_scalar(i));
        RIG_SUBMIT(&b, i == 100 ? b.fails : b.quick, pto_output(&tb));
        if (i % 50 == 49) {
            expect_ok(pto_read(a.rt, &ta, got, sizeof got));
            assert_int_equal(got[7], i);
        }
        expect_ok(pto_scope_end(b.rt));
    }
    expect_fail(pto_wait(b.rt), PTO_TASK_FAILED, "no luck");
    pto_cancel(b.rt);
    assert_false(pto_is_cancelled(a.rt));
    rig_finish(&a, held, PTO_OK);
    expect_ok(pto_wait(a.rt));
    expect_fail(pto_wait(b.rt), PTO_TASK_FAILED, "no luck");
    assert_int_equal(rig_stats(&a).submitted, 201);
    assert_int_equal(rig_stats(&b).submitted, 201);
    assert_int_equal(rig_stats(&a).failed, 0);
    assert_int_equal(rig_stats(&b).failed, 1);
    expect_ok(pto_scope_end(a.rt));
    rig_stop(&a);
    expect_ok(pto_clear_error(b.rt));
    RIG_SUBMIT(&b, b.quick, pto_inout(&xb)); /* works without the other */
    rig_stop(&b);
}

/* ---- No leaks --------------------------------------------------------------------------------------- */

static uint32_t entries_of(const char *path)
{
    uint32_t count = 0;
    DIR *folder = opendir(path);
    assert_non_null(folder);
    while (readdir(folder)) {
        count++;
    }
    closedir(folder);
    return count;
}

/* Numbers of pages: mapped, and resident. */
static void pages(uint64_t *mapped, uint64_t *resident)
{
    char line[128] = "", *end = NULL;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    fclose(file);
    *mapped = strtoull(line, &end, 10);
    *resident = strtoull(end, NULL, 10);
}

static void one_life(const rig_setup *setup, int i)
{
    pto_runtime *rt = NULL;
    pto_kernel quick;
    pto_config config = PTO_CONFIG_INIT;
    config.workers = 2;
    config.place = setup->place;
    config.map_twice = setup->map_twice;
    config.heap_bytes = UINT64_C(1) << 30;
    expect_ok(pto_runtime_create(&rt, &config));
    expect_ok(pto_kernel_register(rt, "quick", PTO_CUBE, rig_quick, NULL, &quick));
    PTO_SCOPE(rt) {
        pto_tensor t;
        expect_ok(pto_temp(rt, PTO_UINT8, 1, DIMS(100000), &t));
        expect_ok(pto_submit(rt, quick, pto_output(&t)));
        expect_ok(pto_submit(rt, quick, pto_input(&t)));
    }
    expect_ok(pto_runtime_destroy(&rt, i % 2 ? PTO_WAIT : PTO_CANCEL));
    /* A failed create leaves nothing, either. */
    config.levels = 99;
    expect_fail(pto_runtime_create(&rt, &config), PTO_BAD_CONFIG, "levels", "99");
    assert_null(rt);
}

/* A leak in each of 200 lives would be at least 200 pages or entries. */
static void test_nothing_is_left_behind(void **state)
{
    const rig_setup *setup = *state;
    uint64_t mapped[2], resident[2];
    uint32_t files[2], threads[2];
    for (int i = 0; i < 20; i++) {
        one_life(setup, i); /* the C library fills its caches */
    }
    pages(&mapped[0], &resident[0]);
    files[0] = entries_of("/proc/self/fd");
    threads[0] = entries_of("/proc/self/task");
    for (int i = 0; i < 200; i++) {
        one_life(setup, i);
    }
    pages(&mapped[1], &resident[1]);
    files[1] = entries_of("/proc/self/fd");
    uint64_t deadline = rig_now_ms() + RIG_PATIENCE_MS;
    do { /* a thread that was joined may take a moment to vanish from the list */
        threads[1] = entries_of("/proc/self/task");
    } while (threads[1] > threads[0] && rig_now_ms() < deadline);
    assert_int_equal(files[1], files[0]);
    assert_int_equal(threads[1], threads[0]);
    if (mapped[1] > mapped[0] + 2000 || resident[1] > resident[0] + 2000) {
        fail_msg("200 runtimes left %" PRIu64 " pages mapped, %" PRIu64 " of them in memory",
                 mapped[1] - mapped[0], resident[1] - resident[0]);
    }
}

/* If the system refuses a resource, the reason is reported and everything is undone. */
static void test_a_runtime_that_cannot_begin(void **state)
{
    const rig_setup *setup = *state;
    struct rlimit before, tight;
    pto_runtime *rt = NULL;
    pto_config config = PTO_CONFIG_INIT;
    config.place = setup->place;
    config.map_twice = setup->map_twice;
    uint64_t mapped[2], resident[2];
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    tight = before;
    tight.rlim_cur = 0;
    pages(&mapped[0], &resident[0]);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
        PTO_IGNORE(pto_fail(PTO_CORRUPT, "stale"));
        pto_status status = pto_runtime_create(&rt, &config);
        char detail[256];
        snprintf(detail, sizeof detail, "%s", pto_error_detail());
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_string_equal(pto_status_name(status), "PTO_SYSTEM");
        assert_non_null(strstr(detail, strerror(EMFILE)));
        assert_null(rt);
    }
    pages(&mapped[1], &resident[1]);
    assert_true(mapped[1] <= mapped[0] + 1000);
    expect_ok(pto_runtime_create(&rt, &config));
    expect_ok(pto_runtime_destroy(&rt, PTO_WAIT));
}

/* ---- Large ------------------------------------------------------------------------------------------ */

static pto_status touch_ends(const pto_call *call)
{
    const pto_arg *x = &call->args[0];
    *rig_element(x, 0) = 1;
    *rig_element(x, x->shape[0] - 1) = 2;
    return PTO_OK;
}

/* Memory is reserved, not used; and blocks of more than 4 GiB work like any other. */
static void test_a_heap_of_64_gib(void **state)
{
    rig r;
    pto_kernel touch;
    uint64_t mapped[2], resident[2];
    const int64_t gib = INT64_C(1) << 30;
    pto_config config = PTO_CONFIG_INIT;
    config.heap_bytes = (uint64_t)(64 * gib);
    if (test_on_valgrind()) { /* not enough address space there */
        skip();
    }
    pages(&mapped[0], &resident[0]);
    const double begun = rig_cpu_ms();
    rig_start(&r, state, &config);
    assert_true(rig_cpu_ms() - begun < 1000);
    pages(&mapped[1], &resident[1]);
    assert_true(resident[1] < resident[0] + 4096); /* 16 MiB, far above what is needed */
    expect_ok(pto_kernel_register(r.rt, "touch", PTO_CUBE, touch_ends, NULL, &touch));
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor t[4];
    unsigned char *at[4], got = 0;
    for (int i = 0; i < 4; i++) {
        t[i] = rig_temp(&r, 9 * gib + i);
        RIG_SUBMIT(&r, touch, pto_output(&t[i]));
        at[i] = rig_address(&r, &t[i]);
        for (int j = 0; j < i; j++) {
            assert_true(at[i] - at[j] >= 9 * gib + j || at[j] - at[i] >= 9 * gib + i);
        }
        pto_tensor last = rig_slice(&t[i], 9 * gib + i - 1, 9 * gib + i);
        expect_ok(pto_read(r.rt, &last, &got, 1));
        assert_int_equal(got, 2);
    }
    pto_tensor more = rig_temp(&r, 40 * gib);
    expect_fail(pto_submit(r.rt, touch, pto_output(&more)), PTO_STALLED, "heap");
    expect_ok(pto_scope_end(r.rt));
    pages(&mapped[1], &resident[1]);
    assert_true(resident[1] < resident[0] + 4096);
    rig_stop(&r);
}

/* Where the address space is limited, a runtime without any setting begins, with smaller heaps. */
static void test_little_address_space(void **state)
{
    (void)state;
    struct rlimit before, tight;
    uint64_t mapped, resident;
    pages(&mapped, &resident);
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    if (before.rlim_cur != RLIM_INFINITY || mapped > 1 << 18) {
        skip(); /* a sanitizer has reserved much more than the limits below */
    }
    for (unsigned gib = 1; gib <= 4; gib *= 2) {
        pto_runtime *rt = NULL;
        tight = before;
        tight.rlim_cur = (rlim_t)gib << 30;
        assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
        const pto_status status = pto_runtime_create(&rt, NULL);
        assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
        expect_ok(status);
        expect_ok(pto_runtime_destroy(&rt, PTO_WAIT));
    }
}

int main(void)
{
    const rig_case cases[] = {
        RIG_CASE(test_cancel_from_another_thread),
        RIG_CASE(test_cancel_from_a_signal_handler),
        RIG_CASE_ONE_PROCESS(test_cancel_skips_what_is_ready,
                             "the orchestrating thread runs the tasks"),
        RIG_CASE(test_destroy_waits_for_everything),
        RIG_CASE(test_destroy_with_open_scopes),
        RIG_CASE(test_destroy_with_cancel),
        RIG_CASE(test_destroy_tells_of_failures),
        RIG_CASE(test_two_runtimes),
        RIG_CASE(test_nothing_is_left_behind),
        RIG_CASE(test_a_runtime_that_cannot_begin),
        RIG_CASE(test_a_heap_of_64_gib),
        RIG_CASE(test_little_address_space),
    };
    return rig_run("life", cases, sizeof cases / sizeof *cases);
}
