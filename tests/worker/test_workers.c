/* test_workers.c - which worker runs a task: types, the orchestrating thread as a helper,
 * parallel tasks; and that sleep costs no CPU time and no wake-up is lost. */
#include <sys/syscall.h>

#include "../runtime/rig.h"

enum { MOST = 64 };

/* Observations about the workers. */
typedef struct seen {
    pthread_mutex_t lock;
    pthread_cond_t change; /* unused */
    uint32_t runs;
    uint32_t types[MOST]; /* tasks that each worker ran */
    long threads[MOST];   /* that each worker is; 0: never seen */
    bool wrong;           /* a kernel of another type than its worker_type */
} seen;

static seen *seen_new(rig *r)
{
    seen *s = rig_memory(r, sizeof *s);
    rig_lock_init(&s->lock, &s->change);
    return s;
}

static long this_thread(void)
{
    return syscall(SYS_gettid);
}

/* Argument 0 is the registered type. */
static pto_status look_around(const pto_call *call)
{
    seen *s = call->user;
    uint32_t type = (uint32_t)call->args[0].u64;
    pthread_mutex_lock(&s->lock);
    s->runs++;
    s->wrong |= call->worker >= MOST || (uint32_t)call->worker_type != type;
    if (call->worker < MOST) {
        long thread = this_thread();
        s->types[call->worker] |= PTO_TYPE_BIT(type);
        s->wrong |= s->threads[call->worker] && s->threads[call->worker] != thread;
        s->threads[call->worker] = thread;
    }
    pthread_mutex_unlock(&s->lock);
    return PTO_OK;
}

static void register_all(rig *r, seen *s, pto_kernel *kernel)
{
    for (int type = 0; type < PTO_WORKER_TYPES; type++) {
        expect_ok(pto_kernel_register(r->rt, pto_worker_type_name((pto_worker_type)type),
                                      (pto_worker_type)type, look_around, s, &kernel[type]));
    }
}

static void submit_many(rig *r, const pto_kernel *kernel, int count)
{
    for (int i = 0; i < count; i++) {
        int type = i % PTO_WORKER_TYPES;
        RIG_SUBMIT(r, kernel[type], pto_scalar(type));
    }
}

/* ---- Types ---------------------------------------------------------------------------------- */

/* So many threads for each type: each serves only its own type. */
static void test_typed_workers(void **state)
{
    rig r;
    pto_kernel kernel[PTO_WORKER_TYPES];
    pto_config config = PTO_CONFIG_INIT;
    config.type_workers[PTO_CUBE] = 2;
    config.type_workers[PTO_VECTOR] = 1;
    config.type_workers[PTO_AI_CPU] = 1;
    config.type_workers[PTO_ACCELERATOR] = 1;
    config.caller_types = PTO_NO_TYPES;
    rig_start(&r, state, &config);
    seen *s = seen_new(&r);
    register_all(&r, s, kernel);
    submit_many(&r, kernel, 2000);
    expect_ok(pto_wait(r.rt));
    assert_int_equal(s->runs, 2000);
    assert_false(s->wrong);
    /* Workers are numbered type after type. */
    static const uint32_t expected[] = {
        PTO_TYPE_BIT(PTO_CUBE),   PTO_TYPE_BIT(PTO_CUBE),        PTO_TYPE_BIT(PTO_VECTOR),
        PTO_TYPE_BIT(PTO_AI_CPU), PTO_TYPE_BIT(PTO_ACCELERATOR),
    };
    uint32_t cubes = 0;
    for (uint32_t w = 0; w < MOST; w++) {
        if (w < 2) {
            assert_true((s->types[w] & ~expected[w]) == 0);
            cubes |= s->types[w];
        } else {
            assert_int_equal(s->types[w], w < 5 ? expected[w] : 0);
        }
        assert_true(s->threads[w] != this_thread());
    }
    assert_int_equal(cubes, PTO_TYPE_BIT(PTO_CUBE));
    assert_int_equal(rig_stats(&r).helped, 0);
    rig_stop(&r);
}

/* A set of types for each thread; the caller has the last index and helps with one type. */
static void test_sets_of_types(void **state)
{
    rig r;
    pto_kernel kernel[PTO_WORKER_TYPES];
    const uint32_t sets[] = {
        PTO_TYPE_BIT(PTO_CUBE) | PTO_TYPE_BIT(PTO_VECTOR),
        PTO_TYPE_BIT(PTO_ACCELERATOR),
    };
    pto_config config = PTO_CONFIG_INIT;
    config.workers = 2;
    config.worker_types = sets;
    config.caller_types = PTO_TYPE_BIT(PTO_AI_CPU);
    rig_start(&r, state, &config);
    seen *s = seen_new(&r);
    register_all(&r, s, kernel);
    submit_many(&r, kernel, 2000);
    expect_ok(pto_wait(r.rt));
    assert_false(s->wrong);
    assert_int_equal(s->runs, 2000);
    assert_int_equal(s->types[0], sets[0]);
    assert_int_equal(s->types[1], sets[1]);
    assert_int_equal(s->types[2], PTO_TYPE_BIT(PTO_AI_CPU));
    assert_int_equal(s->threads[2], this_thread());
    assert_int_equal(rig_stats(&r).helped, 500);
    rig_stop(&r);
}

/* Dependencies cross types. */
static void test_a_chain_through_all_types(void **state)
{
    rig r;
    pto_kernel kernel[PTO_WORKER_TYPES];
    pto_config config = PTO_CONFIG_INIT;
    for (int type = 0; type < PTO_WORKER_TYPES; type++) {
        config.type_workers[type] = 1;
    }
    config.caller_types = PTO_NO_TYPES;
    rig_start(&r, state, &config);
    seen *s = seen_new(&r);
    char *memory = rig_memory(&r, 8);
    register_all(&r, s, kernel);
    pto_tensor x = rig_bytes(&r, memory, 8);
    for (int i = 0; i < 2000; i++) {
        int type = i % 7 % PTO_WORKER_TYPES;
        RIG_SUBMIT(&r, kernel[type], pto_scalar(type), pto_inout(&x));
    }
    expect_ok(pto_wait(r.rt));
    assert_int_equal(s->runs, 2000);
    assert_false(s->wrong);
    rig_stop(&r);
}

/* ---- How many ------------------------------------------------------------------------------- */

typedef struct counted {
    atomic_uint wrong, ran, highest;
} counted;

/* Each index must be below the count, which a kernel may ask for. */
static pto_status count_me(const pto_call *call)
{
    counted *c = call->user;
    uint32_t highest = atomic_load(&c->highest);
    while (highest < call->worker &&
           !atomic_compare_exchange_weak(&c->highest, &highest, call->worker)) {
    }
    atomic_fetch_add(&c->wrong, call->worker >= pto_thread_count(call->rt));
    atomic_fetch_add(&c->ran, 1);
    return PTO_OK;
}

static void count_threads(void **state, const pto_config *config, uint32_t expected)
{
    rig r;
    pto_kernel kernel;
    counted c = {0};
    char bytes[8];
    rig_start(&r, state, config);
    assert_int_equal(pto_thread_count(r.rt), expected);
    expect_ok(pto_kernel_register(r.rt, "count", PTO_VECTOR, count_me, &c, &kernel));
    pto_tensor x = rig_bytes(&r, bytes, 8);
    for (int i = 0; i < 500; i++) {
        RIG_SUBMIT(&r, kernel, pto_inout(&x));
        RIG_SUBMIT_BARE(&r, kernel);
    }
    expect_ok(pto_wait(r.rt));
    assert_int_equal(atomic_load(&c.ran), 1000);
    assert_int_equal(atomic_load(&c.wrong), 0);
    if (rig_stats(&r).helped) { /* the orchestrating thread has the last index */
        assert_int_equal(atomic_load(&c.highest), expected - 1);
    }
    rig_stop(&r);
}

/* With and without workers, with a caller that helps, runs tasks inline, or does neither. */
static void test_thread_count(void **state)
{
    assert_int_equal(pto_thread_count(NULL), 0);
    pto_config config = PTO_CONFIG_INIT;
    config.workers = 3;
    config.guard = PTO_NO_GUARD; /* with guards there is no inline execution */
    count_threads(state, &config, 4);
    config.inline_ns = 1000000;
    count_threads(state, &config, 4);
    config.caller_types = PTO_NO_TYPES;
    count_threads(state, &config, 3);
    config = (pto_config)PTO_CONFIG_INIT;
    config.workers = PTO_NO_WORKERS;
    config.guard = PTO_NO_GUARD;
    count_threads(state, &config, 1);
    config.inline_ns = 1000000;
    count_threads(state, &config, 1);
    config = (pto_config)PTO_CONFIG_INIT;
    config.type_workers[PTO_VECTOR] = 2;
    config.type_workers[PTO_CUBE] = 1;
    config.caller_types = PTO_TYPE_BIT(PTO_CUBE);
    count_threads(state, &config, 4);
}

/* ---- The orchestrating thread --------------------------------------------------------------- */

/* Without workers no task runs until the caller waits; then it runs all of them. */
static void test_no_workers_at_all(void **state)
{
    rig r;
    pto_kernel kernel[PTO_WORKER_TYPES];
    char got[8];
    pto_config config = PTO_CONFIG_INIT;
    config.workers = PTO_NO_WORKERS;
    config.ring_tasks = 16;
    rig_start(&r, state, &config);
    seen *s = seen_new(&r);
    char *memory = rig_memory(&r, 8);
    register_all(&r, s, kernel);
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor x = rig_bytes(&r, memory, 8);
    pto_task first = RIG_SUBMIT(&r, kernel[PTO_CUBE], pto_scalar(PTO_CUBE), pto_output(&x));
    pto_task second = RIG_SUBMIT(&r, kernel[PTO_VECTOR], pto_scalar(PTO_VECTOR), pto_input(&x));
    rig_sleep_us(10000);
    assert_int_equal(rig_info(&r, first).state, PTO_TASK_READY);
    RIG_WAITS_FOR(&r, second, 1);
    expect_ok(pto_wait_task(r.rt, first));
    assert_true(rig_info(&r, first).state >= PTO_TASK_COMPLETED);
    expect_ok(pto_read(r.rt, &x, got, sizeof got));
    expect_ok(pto_wait(r.rt));
    expect_ok(pto_scope_end(r.rt));
    /* A submit that waits for room makes the room itself. */
    submit_many(&r, kernel, 500);
    expect_ok(pto_wait(r.rt));
    assert_int_equal(s->runs, 502);
    assert_false(s->wrong);
    assert_int_equal(s->types[0], PTO_ALL_TYPES); /* it has the last index, which is 0 here */
    assert_int_equal(s->threads[0], this_thread());
    assert_int_equal(rig_stats(&r).helped, 502);
    rig_stop(&r);
}

typedef struct persistent {
    pto_runtime *rt;
    pto_task task;
    pto_status result;
} persistent;

/* Retries until the task runs and can be completed. */
static void *end_it(void *argument)
{
    persistent *p = argument;
    do {
        rig_sleep_us(1000);
        p->result = pto_task_complete(p->rt, p->task, PTO_OK);
    } while (p->result == PTO_BAD_TASK);
    return NULL;
}

/* Without workers the caller still waits, asleep, for a pending task. */
static void test_no_workers_and_a_pending_kernel(void **state)
{
    rig r;
    pthread_t thread;
    pto_config config = PTO_CONFIG_INIT;
    config.workers = PTO_NO_WORKERS;
    rig_start(&r, state, &config);
    expect_ok(pto_scope_begin(r.rt));
    pto_task held = RIG_SUBMIT_BARE(&r, r.hold);
    pto_task last = RIG_SUBMIT(&r, r.quick, pto_after(held));
    persistent p = {r.rt, held, PTO_OK};
    assert_int_equal(pthread_create(&thread, NULL, end_it, &p), 0);
    expect_ok(pto_wait(r.rt));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(p.result, PTO_OK);
    assert_int_equal(rig_info(&r, last).state, PTO_TASK_CONSUMED);
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

/* No thread for a type: the runtime or at least the task is refused. */
static void test_no_thread_for_a_type(void **state)
{
    const rig_setup *setup = *state;
    pto_runtime *rt = NULL;
    pto_kernel kernel;
    pto_config config = PTO_CONFIG_INIT;
    config.workers = PTO_NO_WORKERS;
    config.caller_types = PTO_NO_TYPES;
    config.place = setup->place;
    PTO_IGNORE(pto_fail(PTO_CORRUPT, "stale"));
    pto_status status = pto_runtime_create(&rt, &config);
    if (status == PTO_OK) {
        expect_ok(pto_kernel_register(rt, "quick", PTO_CUBE, rig_quick, NULL, &kernel));
        expect_fail(pto_submit_task(rt, kernel, PTO_KERNEL_TYPE, NULL, 0, NULL), PTO_BAD_WORKER,
                    "cube");
        assert_true(pto_refused(rt, NULL));
        expect_ok(pto_runtime_destroy(&rt, PTO_WAIT));
    } else {
        expect_status(status, PTO_BAD_CONFIG, (const char *const[]){"workers", NULL}, "create",
                      __FILE__, __LINE__);
        assert_null(rt);
    }
}

/* ---- At the same time ----------------------------------------------------------------------- */

typedef struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t change;
    uint32_t expected, present, rounds;
    uint32_t workers; /* set of their numbers */
} meeting;

/* Continues when so many kernels are here at the same time. */
static pto_status meet(const pto_call *call)
{
    meeting *m = call->user;
    pthread_mutex_lock(&m->lock);
    uint32_t round = m->rounds;
    m->workers |= UINT32_C(1) << call->worker;
    if (++m->present == m->expected) {
        m->present = 0;
        m->rounds++;
        pthread_cond_broadcast(&m->change);
    }
    while (m->rounds == round) {
        pthread_cond_wait(&m->change, &m->lock);
    }
    pthread_mutex_unlock(&m->lock);
    return PTO_OK;
}

/* As many tasks run in parallel as there are workers, plus one on the caller. */
static void test_all_workers_in_parallel(void **state)
{
    rig r;
    pto_kernel kernel;
    pto_config config = PTO_CONFIG_INIT;
    config.workers = 7;
    const bool alone = ((const rig_setup *)*state)->place == PTO_PLACE_PROCESS;
    const uint32_t threads = alone ? 7 : 8; /* worker processes are on their own */
    rig_start(&r, state, &config);
    meeting *m = rig_memory(&r, sizeof *m);
    rig_lock_init(&m->lock, &m->change);
    m->expected = threads;
    expect_ok(pto_kernel_register(r.rt, "meet", PTO_CUBE, meet, m, &kernel));
    for (uint32_t round = 1; round <= 20; round++) {
        for (uint32_t i = 0; i < threads; i++) {
            RIG_SUBMIT_BARE(&r, kernel);
        }
        expect_ok(pto_wait(r.rt));
        assert_int_equal(m->rounds, round);
        if (round % 5 == 0) {
            rig_sleep_us(5000); /* from their sleep, too */
        }
    }
    assert_int_equal(m->workers, (1 << threads) - 1);
    assert_int_equal(rig_stats(&r).helped, alone ? 0 : 20);
    rig_stop(&r);
}

/* ---- Sleeping ------------------------------------------------------------------------------- */

static void test_idle_costs_nothing(void **state)
{
    rig r;
    pto_config config = PTO_CONFIG_INIT;
    config.workers = 4;
    rig_start(&r, state, &config);
    for (int i = 0; i < 1000; i++) {
        RIG_SUBMIT_BARE(&r, r.quick);
    }
    expect_ok(pto_wait(r.rt));
    rig_sleep_us(50000);
    double before = rig_cpu_ms();
    rig_sleep_us(300000);
    double idle = rig_cpu_ms() - before;
    /* The same while the caller waits for a task that is pending. */
    pto_task held = RIG_SUBMIT_BARE(&r, r.hold);
    rig_until(&r, held, PTO_TASK_RUNNING);
    rig_later later = {.status = PTO_OK};
    before = rig_cpu_ms();
    rig_later_start(&later, &r, held, 300000);
    expect_ok(pto_wait(r.rt));
    double waiting = rig_cpu_ms() - before;
    rig_later_join(&later);
    const double most = test_on_valgrind() ? 150 : 20; /* a spinning thread takes 300 and more */
    if (idle > most || waiting > most) {
        fail_msg("300 ms idle cost %.1f ms of CPU, 300 ms of waiting %.1f ms", idle, waiting);
    }
    assert_true(rig_stats(&r).parks >= 4);
    rig_stop(&r);
}

/* Short bursts, with all threads asleep in between. If a wake-up were lost, a task would remain and
 * pto_wait would never return. */
static void test_no_wake_up_is_lost(void **state)
{
    pto_config config = PTO_CONFIG_INIT;
    config.workers = 3;
    config.spin = 1;
    for (int helps = 0; helps < 2; helps++) {
        rig r;
        config.caller_types = helps ? 0 : PTO_NO_TYPES;
        rig_start(&r, state, &config);
        char(*memory)[8] = rig_memory(&r, 32);
        test_rng rng = test_rng_make(test_seed() + (uint64_t)helps);
        pto_tensor x[4];
        for (int i = 0; i < 4; i++) {
            x[i] = rig_bytes(&r, memory[i], 8);
        }
        uint64_t rounds = test_effort(1500), submitted = 0;
        for (uint64_t round = 0; round < rounds; round++) {
            int64_t burst = test_between(&rng, 1, 5);
            for (int64_t i = 0; i < burst; i++, submitted++) {
                RIG_SUBMIT(&r, r.quick, pto_inout(&x[test_between(&rng, 0, 3)]));
            }
            expect_ok(pto_wait(r.rt));
            if (test_between(&rng, 0, 9) == 0) {
                rig_sleep_us((uint32_t)test_between(&rng, 1, 200));
            }
        }
        /* No thread waits for these: the workers must find them themselves. */
        for (uint64_t round = 0; round < rounds / 10; round++, submitted++) {
            pto_task task = RIG_SUBMIT(&r, r.quick, pto_inout(&x[0]));
            rig_until(&r, task, PTO_TASK_COMPLETED);
        }
        assert_int_equal(rig_stats(&r).completed, submitted);
        assert_true(rig_stats(&r).parks > 0);
        rig_stop(&r);
    }
}

int main(void)
{
    const rig_case cases[] = {
        RIG_CASE(test_typed_workers),
        RIG_CASE_ONE_PROCESS(test_sets_of_types, "the orchestrating thread runs the tasks"),
        RIG_CASE_ONE_PROCESS(test_thread_count, "the orchestrating thread runs the tasks"),
        RIG_CASE_SLOW(test_a_chain_through_all_types),
        RIG_CASE_ONE_PROCESS(test_no_workers_at_all, "the orchestrating thread runs the tasks"),
        RIG_CASE_ONE_PROCESS(test_no_workers_and_a_pending_kernel,
                             "the orchestrating thread runs the tasks"),
        RIG_CASE(test_no_thread_for_a_type),
        RIG_CASE(test_all_workers_in_parallel),
        RIG_CASE_SLOW(test_idle_costs_nothing),
        RIG_CASE(test_no_wake_up_is_lost),
    };
    return rig_run("workers", cases, sizeof cases / sizeof *cases);
}
