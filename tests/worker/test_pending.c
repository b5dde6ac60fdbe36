/* test_pending.c - kernels that return PTO_PENDING: which thread may complete the task, and
 * when. */
#include <sched.h>

#include "../runtime/rig.h"

/* ---- When ----------------------------------------------------------------------------------- */

/* What a kernel passes to another thread. */
typedef struct parcel {
    pthread_mutex_t lock;
    pthread_cond_t change;
    pto_runtime *rt; /* of the program */
    pto_task task;   /* 0: nothing there */
    bool quit;
    pto_status result;
    uint64_t served;
} parcel;

static void *parcel_serve(void *argument)
{
    parcel *p = argument;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->task && !p->quit) {
            pthread_cond_wait(&p->change, &p->lock);
        }
        if (!p->task) {
            break;
        }
        pto_status status = pto_task_complete(p->rt, p->task, PTO_OK);
        p->result = status == PTO_OK ? p->result : status;
        p->task = 0;
        p->served++;
        pthread_cond_broadcast(&p->change);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* Returns only after the other thread has completed the task. */
static pto_status late_to_return(const pto_call *call)
{
    parcel *p = call->user;
    pthread_mutex_lock(&p->lock);
    while (p->task) { /* another worker's */
        pthread_cond_wait(&p->change, &p->lock);
    }
    uint64_t mine = p->served;
    p->task = call->task;
    pthread_cond_broadcast(&p->change);
    while (p->served == mine) {
        pthread_cond_wait(&p->change, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return PTO_PENDING;
}

static pto_status ends_itself(const pto_call *call)
{
    int *count = call->user;
    ++*count;
    pto_status status = pto_task_complete(call->rt, call->task, PTO_OK);
    return status == PTO_OK ? PTO_PENDING : status;
}

static void test_completed_before_the_kernel_returns(void **state)
{
    rig r;
    pthread_t thread;
    pto_kernel kernel;
    rig_start(&r, state, NULL);
    parcel *p = rig_memory(&r, sizeof *p);
    rig_lock_init(&p->lock, &p->change);
    p->rt = r.rt;
    char *memory = rig_memory(&r, 8);
    pto_tensor x = rig_bytes(&r, memory, 8);
    assert_int_equal(pthread_create(&thread, NULL, parcel_serve, p), 0);
    expect_ok(pto_kernel_register(r.rt, "late", PTO_VECTOR, late_to_return, p, &kernel));
    enum { TASKS = 200 };
    for (int i = 0; i < TASKS; i++) {
        if (i % 2) {
            RIG_SUBMIT(&r, kernel, pto_inout(&x));
        } else {
            RIG_SUBMIT_BARE(&r, kernel);
        }
    }
    expect_ok(pto_wait(r.rt));
    pthread_mutex_lock(&p->lock);
    p->quit = true;
    pthread_cond_broadcast(&p->change);
    pthread_mutex_unlock(&p->lock);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(p->result, PTO_OK);
    assert_int_equal(p->served, TASKS);
    assert_int_equal(rig_stats(&r).completed, TASKS);
    assert_int_equal(rig_stats(&r).pending, 0);
    rig_stop(&r);
}

static void test_completed_inside_of_the_kernel(void **state)
{
    rig r;
    pto_kernel kernel;
    rig_start(&r, state, NULL);
    int *count = rig_memory(&r, sizeof *count);
    pto_tensor x = rig_bytes(&r, rig_memory(&r, 8), 8);
    expect_ok(pto_kernel_register(r.rt, "itself", PTO_VECTOR, ends_itself, count, &kernel));
    for (int i = 0; i < 500; i++) {
        RIG_SUBMIT(&r, kernel, pto_inout(&x)); /* a chain: `count` has one writer at a time */
    }
    expect_ok(pto_wait(r.rt));
    assert_int_equal(*count, 500);
    assert_int_equal(rig_stats(&r).completed, 500);
    rig_stop(&r);
}

/* Many pending tasks, completed by another thread in another order, while the caller waits. */
typedef struct crowd {
    rig *r;
    pto_task task[256];
    pto_status result;
} crowd;

static void *end_all(void *argument)
{
    crowd *c = argument;
    rig_sleep_us(2000);
    for (uint32_t i = 0; i < 256; i++) {
        pto_status status = pto_task_complete(c->r->rt, c->task[i * 37 % 256], PTO_OK);
        c->result = status == PTO_OK ? c->result : status;
    }
    return NULL;
}

static void test_completed_from_another_thread(void **state)
{
    rig r;
    pthread_t thread;
    pto_config config = PTO_CONFIG_INIT;
    config.workers = 1;
    config.caller_types = PTO_NO_TYPES;
    rig_start(&r, state, &config);
    crowd c = {.r = &r};
    for (int round = 0; round < 4; round++) {
        /* One worker is enough for all: a pending task occupies none. */
        for (int i = 0; i < 256; i++) {
            c.task[i] = RIG_SUBMIT_BARE(&r, r.hold);
        }
        pto_task next = RIG_SUBMIT(&r, r.quick, pto_after(c.task[0]), pto_after(c.task[255]));
        for (int i = 0; i < 256; i++) {
            rig_until(&r, c.task[i], PTO_TASK_RUNNING);
        }
        uint64_t deadline = rig_now_ms() + RIG_PATIENCE_MS;
        while (rig_stats(&r).pending < 256) { /* counted as running first */
            assert_true(rig_now_ms() < deadline);
        }
        assert_int_equal(rig_stats(&r).pending, 256);
        assert_int_equal(rig_stats(&r).oldest, c.task[0]);
        assert_string_equal(rig_stats(&r).oldest_kernel, "hold");
        RIG_WAITS_FOR(&r, next, 2);
        assert_int_equal(pthread_create(&thread, NULL, end_all, &c), 0);
        expect_ok(pto_wait(r.rt));
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(c.result, PTO_OK);
        assert_int_equal(rig_stats(&r).pending, 0);
    }
    rig_stop(&r);
}

/* ---- The arguments stay --------------------------------------------------------------------- */

typedef struct kept {
    pto_arg args[16][4];
    atomic_uint count;
} kept;

static pto_status keep_arguments(const pto_call *call)
{
    kept *k = call->user;
    memcpy(k->args[call->args[1].i64], call->args, call->n_args * sizeof *call->args);
    atomic_fetch_add(&k->count, 1);
    return PTO_PENDING;
}

/* A copy of the arguments, with shapes and strides, stays valid until the task is complete,
 * whatever the worker does meanwhile. */
static void test_arguments_stay_until_the_end(void **state)
{
    rig r;
    kept k;
    pto_kernel kernel;
    pto_config config = PTO_CONFIG_INIT;
    config.workers = 1;
    pto_task task[16];
    memset(&k, 0, sizeof k);
    rig_start(&r, state, &config);
    int32_t(*memory)[24] = rig_memory(&r, sizeof(int32_t[16][24]));
    expect_ok(pto_kernel_register(r.rt, "keep", PTO_VECTOR, keep_arguments, &k, &kernel));
    for (int i = 0; i < 16; i++) {
        pto_tensor t, turned;
        expect_ok(pto_external_tensor(r.rt, memory[i], PTO_INT32, 2, DIMS(4, 6), &t));
        expect_ok(pto_tensor_transpose(&t, 0, 1, &turned));
        task[i] = RIG_SUBMIT(&r, kernel, pto_inout(&turned), pto_scalar(i), pto_scalar(i * 0.5),
                             pto_scalar((uint64_t)i << 60));
    }
    for (int i = 0; i < 100; i++) {
        pto_tensor byte = rig_bytes(&r, &task, 1);
        pto_task other = RIG_SUBMIT(&r, r.quick, pto_input(&byte), pto_scalar(-1));
        expect_ok(pto_wait_task(r.rt, other));
    }
    for (int i = 0; i < 16; i++) {
        rig_until(&r, task[i], PTO_TASK_RUNNING);
    }
    uint64_t deadline = rig_now_ms() + RIG_PATIENCE_MS;
    while (atomic_load(&k.count) < 16) {
        assert_true(rig_now_ms() < deadline);
    }
    for (int i = 0; i < 16; i++) {
        const pto_arg *a = k.args[i];
        assert_ptr_equal(a[0].data, memory[i]);
        assert_int_equal(a[0].ndim, 2);
        assert_int_equal(a[0].dtype, PTO_INT32);
        assert_int_equal(a[0].shape[0], 6);
        assert_int_equal(a[0].shape[1], 4);
        assert_int_equal(a[0].strides[0], 1);
        assert_int_equal(a[0].strides[1], 6);
        assert_int_equal(a[1].i64, i);
        assert_null(a[1].data);
        assert_int_equal(a[1].dtype, PTO_INT64);
        assert_true(a[2].f64 == i * 0.5);
        assert_int_equal(a[3].u64, (uint64_t)i << 60);
    }
    for (int i = 0; i < 16; i++) {
        rig_finish(&r, task[i], PTO_OK);
    }
    rig_stop(&r);
}

/* ---- What cannot be completed---------------------------------------------------------------- */

static void test_twice_is_once_too_often(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    char *memory = rig_memory(&r, 8);
    pto_tensor x = rig_bytes(&r, memory, 8);
    expect_ok(pto_scope_begin(r.rt));
    pto_task task = RIG_SUBMIT(&r, r.hold, pto_output(&x));
    pto_task next = RIG_SUBMIT(&r, r.hold, pto_inout(&x));
    rig_finish(&r, task, PTO_OK);
    expect_fail(pto_task_complete(r.rt, task, PTO_OK), PTO_BAD_TASK, "complete");
    expect_fail(pto_task_complete(r.rt, task, PTO_KERNEL_FAILED), PTO_BAD_TASK, "complete");
    rig_until(&r, next, PTO_TASK_RUNNING);
    assert_int_equal(rig_stats(&r).completed, 1);
    assert_int_equal(rig_stats(&r).failed, 0);
    rig_finish(&r, next, PTO_OK);
    expect_ok(pto_scope_end(r.rt));
    rig_until(&r, task, PTO_TASK_CONSUMED);
    expect_fail(pto_task_complete(r.rt, task, PTO_OK), PTO_BAD_TASK, "complete");
    /* Also when its slot holds another task that could be completed. */
    for (int i = 0; i < 3000; i++) {
        RIG_SUBMIT_BARE(&r, r.quick);
    }
    pto_task other = RIG_SUBMIT_BARE(&r, r.hold);
    rig_until(&r, other, PTO_TASK_RUNNING);
    for (pto_task old = task; old < other && old < task + 8 * 2048; old += 8) {
        expect_fail(pto_task_complete(r.rt, old, PTO_OK), PTO_BAD_TASK, "complete");
    }
    assert_int_equal(rig_info(&r, other).state, PTO_TASK_RUNNING);
    rig_finish(&r, other, PTO_OK);
    rig_stop(&r);
}

static pto_status ends_itself_twice(const pto_call *call)
{
    pto_status *second = call->user;
    if (pto_task_complete(call->rt, call->task, PTO_OK) != PTO_OK) {
        return PTO_KERNEL_FAILED;
    }
    *second = pto_task_complete(call->rt, call->task, PTO_OK);
    return PTO_PENDING;
}

static void test_twice_inside_of_the_kernel(void **state)
{
    rig r;
    pto_kernel kernel;
    rig_start(&r, state, NULL);
    pto_status *second = rig_memory(&r, sizeof *second);
    expect_ok(pto_kernel_register(r.rt, "twice", PTO_VECTOR, ends_itself_twice, second, &kernel));
    RIG_SUBMIT_BARE(&r, kernel);
    expect_ok(pto_wait(r.rt));
    assert_int_equal(*second, PTO_BAD_TASK);
    assert_int_equal(rig_stats(&r).completed, 1);
    rig_stop(&r);
}

/* Tasks that have not started, never existed, or have completed themselves. */
static void test_tasks_that_are_not_pending(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    char *memory = rig_memory(&r, 8);
    pto_tensor x = rig_bytes(&r, memory, 8);
    expect_fail(pto_task_complete(r.rt, 0, PTO_OK), PTO_BAD_TASK, "complete");
    expect_fail(pto_task_complete(r.rt, 8, PTO_OK), PTO_BAD_TASK, "complete");
    expect_fail(pto_task_complete(r.rt, UINT64_MAX, PTO_OK), PTO_BAD_TASK, "complete");
    expect_ok(pto_scope_begin(r.rt));
    pto_task done = RIG_SUBMIT_BARE(&r, r.quick);
    expect_ok(pto_wait(r.rt));
    pto_task held = RIG_SUBMIT(&r, r.hold, pto_output(&x));
    pto_task waits = RIG_SUBMIT(&r, r.hold, pto_input(&x));
    rig_until(&r, held, PTO_TASK_RUNNING);
    expect_fail(pto_task_complete(r.rt, done, PTO_OK), PTO_BAD_TASK, "complete");
    expect_fail(pto_task_complete(r.rt, waits, PTO_OK), PTO_BAD_TASK, "complete");
    expect_fail(pto_task_complete(r.rt, waits + 8, PTO_OK), PTO_BAD_TASK, "complete");
    expect_fail(pto_task_complete(r.rt, held | 7, PTO_OK), PTO_BAD_TASK, "complete");
    expect_fail(pto_task_complete(r.rt, held | 1, PTO_OK), PTO_BAD_TASK, "complete");
    expect_fail(pto_task_complete(r.rt, held ^ UINT64_C(1) << 40, PTO_OK), PTO_BAD_TASK,
                "complete");
    /* PTO_PENDING does not complete a task. */
    PTO_IGNORE(pto_fail(PTO_CORRUPT, "stale"));
    assert_int_not_equal(pto_task_complete(r.rt, held, PTO_PENDING), PTO_OK);
    assert_string_not_equal(pto_error_detail(), "stale");
    assert_int_equal(rig_info(&r, held).state, PTO_TASK_RUNNING);
    RIG_WAITS_FOR(&r, waits, 1);
    rig_finish(&r, held, PTO_OK);
    rig_finish(&r, waits, PTO_OK);
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

/* Several threads complete the same task: one succeeds, the others are refused, however late
 * they are. The task ring is as small as possible, so slots are reused immediately. */
enum { RACERS = 3, RACES = 3000 };

typedef struct race {
    pto_runtime *rt;
    uint32_t rounds;
    pto_task task[RACES];
    atomic_uint won[RACES];
    atomic_uint other; /* wrong results */
    atomic_uint begun; /* tasks that run, or have run */
} race;

static void *race_run(void *argument)
{
    race *c = argument;
    for (uint32_t next = 0; next < c->rounds;) {
        uint32_t begun = atomic_load(&c->begun);
        for (; next < begun; next++) {
            pto_status status = pto_task_complete(c->rt, c->task[next], PTO_OK);
            if (status == PTO_OK) {
                atomic_fetch_add(&c->won[next], 1);
            } else if (status != PTO_BAD_TASK) {
                atomic_fetch_add(&c->other, 1);
            }
        }
        sched_yield();
    }
    return NULL;
}

static void test_a_race_to_complete(void **state)
{
    rig r;
    pthread_t thread[RACERS];
    pto_config config = PTO_CONFIG_INIT;
    config.ring_tasks = 2;
    config.workers = 1;
    race *c = calloc(1, sizeof *c);
    assert_non_null(c);
    rig_start(&r, state, &config);
    c->rt = r.rt;
    c->rounds = (uint32_t)test_effort(RACES);
    c->rounds = c->rounds < RACES ? c->rounds : RACES;
    for (int i = 0; i < RACERS; i++) {
        assert_int_equal(pthread_create(&thread[i], NULL, race_run, c), 0);
    }
    for (uint32_t round = 0; round < c->rounds; round++) {
        c->task[round] = RIG_SUBMIT_BARE(&r, r.hold);
        while (rig_info(&r, c->task[round]).state < PTO_TASK_RUNNING) {
            sched_yield();
        }
        atomic_store(&c->begun, round + 1);
    }
    expect_ok(pto_wait(r.rt));
    for (int i = 0; i < RACERS; i++) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    }
    assert_int_equal(atomic_load(&c->other), 0);
    for (uint32_t round = 0; round < c->rounds; round++) {
        assert_int_equal(atomic_load(&c->won[round]), 1);
    }
    assert_int_equal(rig_stats(&r).completed, c->rounds);
    rig_stop(&r);
    free(c);
}

/* ---- Failing late --------------------------------------------------------------------------- */

static pto_status fails_inside(const pto_call *call)
{
    pto_status status = pto_task_complete(call->rt, call->task, PTO_BAD_INDEX);
    return status == PTO_OK ? PTO_PENDING : status;
}

static void test_completed_with_an_error(void **state)
{
    rig r;
    char got[8];
    bool failed = false;
    pto_failure failure;
    pto_kernel inside;
    rig_start(&r, state, NULL);
    char *memory = rig_memory(&r, 8);
    expect_ok(pto_kernel_register(r.rt, "inside", PTO_VECTOR, fails_inside, NULL, &inside));
    pto_tensor x = rig_bytes(&r, memory, 8);
    expect_ok(pto_scope_begin(r.rt));
    for (int from_inside = 0; from_inside < 2; from_inside++) {
        pto_task task = RIG_SUBMIT(&r, from_inside ? inside : r.hold, pto_output(&x));
        pto_task reader = RIG_SUBMIT(&r, r.quick, pto_input(&x));
        if (!from_inside) {
            rig_finish(&r, task, PTO_BAD_INDEX);
        }
        expect_fail(pto_wait(r.rt), PTO_TASK_FAILED, "PTO_BAD_INDEX",
                    from_inside ? "'inside'" : "'hold'", "test_pending.c");
        assert_true(rig_info(&r, task).failed);
        assert_false(rig_info(&r, task).skipped);
        assert_true(rig_info(&r, reader).skipped);
        expect_fail(pto_read(r.rt, &x, got, sizeof got), PTO_POISONED, "read");
        expect_ok(pto_get_failure(r.rt, &failed, &failure));
        assert_true(failed);
        assert_int_equal(failure.task, task);
        assert_int_equal(failure.status, PTO_BAD_INDEX);
        expect_ok(pto_clear_error(r.rt));
    }
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

int main(void)
{
    const rig_case cases[] = {
        RIG_CASE(test_completed_before_the_kernel_returns),
        RIG_CASE(test_completed_inside_of_the_kernel),
        RIG_CASE(test_completed_from_another_thread),
        RIG_CASE_ONE_PROCESS(test_arguments_stay_until_the_end,
                             "the test looks at arguments, which lie in memory of the worker"),
        RIG_CASE(test_twice_is_once_too_often),
        RIG_CASE(test_twice_inside_of_the_kernel),
        RIG_CASE(test_tasks_that_are_not_pending),
        RIG_CASE_SLOW(test_a_race_to_complete),
        RIG_CASE(test_completed_with_an_error),
    };
    return rig_run("pending", cases, sizeof cases / sizeof *cases);
}
