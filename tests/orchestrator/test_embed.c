/* test_embed.c - what bindings of other languages use: the watermark, interrupts, waits for readers,
 * heaps that outlive the runtime, and a destroy on another thread. */
#include <signal.h>
#include <sys/mman.h>

#include <pto/embed.h>
#include <pto/work.h>

#include "../runtime/rig.h"

/* The watermark is the length of the longest prefix of complete tasks, over all levels. */
static void test_watermark_counts_a_prefix(void **state)
{
    rig r;
    uint64_t submitted = 99;
    rig_start(&r, state, NULL);
    assert_int_equal(pto_watermark(r.rt, &submitted), 0);
    assert_int_equal(submitted, 0);
    pto_task first = RIG_SUBMIT_BARE(&r, r.quick);
    rig_until(&r, first, PTO_TASK_CONSUMED);
    pto_task outer = RIG_SUBMIT_BARE(&r, r.hold);
    expect_ok(pto_scope_begin_ex(r.rt, PTO_SCOPE_BOUNDARY));
    pto_task inner = RIG_SUBMIT_BARE(&r, r.hold);
    pto_task last = RIG_SUBMIT_BARE(&r, r.quick);
    rig_until(&r, last, PTO_TASK_COMPLETED);
    assert_int_equal(pto_watermark(r.rt, &submitted), 1);
    assert_int_equal(submitted, 4);
    rig_finish(&r, inner, PTO_OK);
    expect_ok(pto_wait_task(r.rt, inner));
    assert_int_equal(pto_watermark(r.rt, NULL), 1); /* the outer one is older */
    rig_finish(&r, outer, PTO_OK);
    expect_ok(pto_wait(r.rt));
    assert_int_equal(pto_watermark(r.rt, NULL), 4);
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

/* Not while the orchestrating thread runs a kernel. */
static pto_status asks_kernel(const pto_call *call)
{
    bool *may = (bool *)call->args[0].data;
    *may = pto_may_call(call->user);
    return PTO_OK;
}

static void test_who_may_call(void **state)
{
    (void)state;
    pto_config config = PTO_CONFIG_INIT;
    pto_runtime *rt;
    pto_kernel asks;
    pto_tensor t;
    bool may = true;
    config.workers = PTO_NO_WORKERS;
    config.place = PTO_PLACE_INLINE;
    assert_false(pto_may_call(NULL));
    expect_ok(pto_runtime_create(&rt, &config));
    assert_true(pto_may_call(rt));
    expect_ok(pto_kernel_register(rt, "asks", PTO_VECTOR, asks_kernel, rt, &asks));
    expect_ok(pto_external_tensor(rt, &may, PTO_BOOL, 0, NULL, &t));
    expect_ok(pto_submit(rt, asks, pto_output(&t)));
    expect_ok(pto_wait(rt));
    assert_false(may);
    assert_true(pto_may_call(rt));
    expect_ok(pto_runtime_destroy(&rt, PTO_WAIT));
}

static void test_names_of_kernels(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    assert_string_equal(pto_kernel_name(r.rt, r.quick), "quick");
    assert_string_equal(pto_kernel_name(r.rt, r.hold), "hold");
    assert_null(pto_kernel_name(r.rt, 0));
    assert_null(pto_kernel_name(r.rt, r.quick + 1000));
    assert_null(pto_kernel_name(r.rt, r.quick ^ UINT64_C(1) << 40)); /* of another runtime */
    assert_null(pto_kernel_name(NULL, r.quick));
    rig_stop(&r);
}

static void test_checks(void **state)
{
    rig r;
    pto_tensor temp, same, plain;
    int memory = 0;
    rig_start(&r, state, NULL);
    expect_ok(pto_external_tensor(r.rt, &memory, PTO_INT32, 1, (int64_t[]){1}, &plain));
    const pto_param params[] = {pto_inout(&plain)};
    expect_ok(pto_check_kernel(r.rt, r.quick, PTO_KERNEL_TYPE, params, 1));
    expect_fail(pto_check_kernel(r.rt, r.quick + 1000, PTO_KERNEL_TYPE, params, 1), PTO_BAD_KERNEL,
                "was not registered");
    expect_fail(pto_check_kernel(r.rt, 0, PTO_KERNEL_TYPE, params, 1), PTO_BAD_KERNEL,
                "was not registered");
    expect_fail(pto_check_kernel(r.rt, r.quick, (pto_worker_type)77, params, 1), PTO_BAD_WORKER,
                "no worker type");
    expect_ok(pto_kernel_declare(r.rt, r.quick, "in i32[2] x"));
    expect_fail(pto_check_kernel(r.rt, r.quick, PTO_KERNEL_TYPE, params, 1), PTO_MISMATCH,
                "declares");
    expect_ok(pto_scope_begin(r.rt));
    expect_ok(pto_temp(r.rt, PTO_INT32, 1, (int64_t[]){1}, &temp));
    same = temp;
    expect_ok(pto_check_alive(r.rt, "look", &temp)); /* though nothing has written it */
    expect_ok(pto_check_alive(r.rt, "look", &plain));
    expect_fail(pto_check_alive(r.rt, "look", NULL), PTO_NULL_ARGUMENT, "NULL");
    expect_ok(pto_release(r.rt, &temp));
    expect_fail(pto_check_alive(r.rt, "look", &same), PTO_STALE,
                "look: this managed tensor is not alive: it was given up by pto_release");
    expect_ok(pto_scope_end(r.rt));
    assert_false(pto_refused(r.rt, NULL)); /* it only asked */
    rig_stop(&r);
}

static void test_refused_destroy(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    pto_runtime *rt = r.rt;
    expect_ok(pto_refuse_destroy(rt, "is open in a studio"));
    expect_fail(pto_runtime_destroy(&rt, PTO_WAIT), PTO_BAD_SCOPE,
                "the runtime is open in a studio");
    expect_fail(pto_runtime_destroy(&rt, PTO_CANCEL), PTO_BAD_SCOPE, "studio");
    assert_ptr_equal(rt, r.rt);
    RIG_SUBMIT_BARE(&r, r.quick);
    expect_ok(pto_wait(r.rt));
    expect_ok(pto_refuse_destroy(rt, NULL));
    rig_stop(&r);
}

static void *ask_watermark(void *rt)
{
    uint64_t submitted = 99;
    return (void *)(uintptr_t)(pto_watermark(rt, &submitted) + submitted);
}

static void test_watermark_is_for_one_thread(void **state)
{
    rig r;
    pthread_t thread;
    void *seen;
    rig_start(&r, state, NULL);
    RIG_SUBMIT_BARE(&r, r.quick);
    expect_ok(pto_wait(r.rt));
    assert_int_equal(pthread_create(&thread, NULL, ask_watermark, r.rt), 0);
    assert_int_equal(pthread_join(thread, &seen), 0);
    assert_null(seen);
    rig_stop(&r);
}

static bool count_down(void *user)
{
    int *left = user;
    return (*left)-- <= 0;
}

/* Every call that waits can be interrupted, and made again. */
static void test_interrupts(void **state)
{
    rig r;
    int left;
    char out[64];
    pto_config config = PTO_CONFIG_INIT;
    config.ring_tasks = 16;
    rig_start(&r, state, &config);
    char *const bytes = rig_memory(&r, 64);
    pto_tensor t = rig_bytes(&r, bytes, 64);
    pto_task held = RIG_SUBMIT(&r, r.hold, pto_output(&t));
    rig_until(&r, held, PTO_TASK_RUNNING);
    expect_ok(pto_set_interrupt(r.rt, count_down, &left));
    left = 0;
    expect_fail(pto_wait(r.rt), PTO_INTERRUPTED, "pto_set_interrupt");
    left = 2; /* asked several times, while nothing happens */
    expect_fail(pto_wait_task(r.rt, held), PTO_INTERRUPTED, "pto_set_interrupt");
    assert_int_equal(left, -1);
    left = 0;
    expect_fail(pto_wait_tensor(r.rt, &t), PTO_INTERRUPTED, "pto_set_interrupt");
    left = 0;
    expect_fail(pto_wait_unused(r.rt, &t), PTO_INTERRUPTED, "pto_set_interrupt");
    left = 0;
    expect_fail(pto_read(r.rt, &t, out, 64), PTO_INTERRUPTED, "pto_set_interrupt");
    left = 0;
    expect_fail(pto_write(r.rt, &t, out, 64), PTO_INTERRUPTED, "pto_set_interrupt");
    /* The ring is full behind the held task: a submit waits, and is interrupted. */
    pto_status s = PTO_OK;
    uint64_t submitted = 0;
    for (int i = 0; i < 100 && s == PTO_OK; i++) {
        left = 0;
        (void)pto_watermark(r.rt, &submitted);
        s = pto_submit(r.rt, r.quick, pto_input(&t));
    }
    assert_int_equal(s, PTO_INTERRUPTED);
    assert_int_equal(rig_stats(&r).submitted, submitted);
    assert_true(pto_refused(r.rt, NULL));
    expect_ok(pto_set_interrupt(r.rt, NULL, NULL));
    rig_finish(&r, held, PTO_OK);
    expect_ok(pto_wait(r.rt));
    expect_ok(pto_submit(r.rt, r.quick, pto_input(&t)));
    expect_ok(pto_wait(r.rt));
    rig_stop(&r);
}

typedef struct hooks {
    int begun, ended;
    pto_runtime *rt;
    pto_status status;
} hooks;

static void note_begin(void *user)
{
    hooks *h = user;
    h->begun++;
    h->status = pto_submit_task(h->rt, 0, PTO_KERNEL_TYPE, NULL, 0, NULL); /* is refused */
}

static void note_end(void *user)
{
    hooks *h = user;
    h->ended++;
    assert_int_equal(h->begun, h->ended);
}

/* The hooks are called in pairs, where the thread waits, and nowhere else. */
static void test_wait_hooks(void **state)
{
    rig r;
    hooks h = {0, 0, NULL, PTO_OK};
    rig_start(&r, state, NULL);
    h.rt = r.rt;
    expect_fail(pto_set_wait_hooks(r.rt, note_begin, NULL, &h), PTO_NULL_ARGUMENT, "end");
    expect_ok(pto_set_wait_hooks(r.rt, note_begin, note_end, &h));
    expect_ok(pto_wait(r.rt)); /* there is nothing to wait for */
    assert_int_equal(h.begun, 0);
    pto_task held = RIG_SUBMIT_BARE(&r, r.hold);
    rig_until(&r, held, PTO_TASK_RUNNING);
    rig_finish(&r, held, PTO_OK);
    const int before = h.begun;
    held = RIG_SUBMIT_BARE(&r, r.hold);
    rig_until(&r, held, PTO_TASK_RUNNING);
    int left = 1;
    expect_ok(pto_set_interrupt(r.rt, count_down, &left));
    expect_fail(pto_wait(r.rt), PTO_INTERRUPTED, "pto_set_interrupt");
    assert_true(h.begun > before);
    assert_int_equal(h.begun, h.ended);
    assert_int_equal(h.status, PTO_WRONG_THREAD);
    expect_ok(pto_set_interrupt(r.rt, NULL, NULL));
    rig_finish(&r, held, PTO_OK);
    expect_ok(pto_wait(r.rt));
    expect_ok(pto_set_wait_hooks(r.rt, NULL, NULL, NULL));
    rig_stop(&r);
}

typedef struct polled {
    pto_runtime *rt;
    pto_task task; /* pending; 0: none yet */
    int left;      /* calls until it is completed */
} polled;

static pto_status pend(const pto_call *call)
{
    ((polled *)call->user)->task = call->task;
    return PTO_PENDING;
}

static bool look(void *user)
{
    polled *p = user;
    if (p->task && --p->left == 0) {
        expect_ok(pto_task_complete(p->rt, p->task, PTO_OK));
        p->task = 0;
    }
    return true;
}

/* Nobody but the waiting thread completes the task. */
static void test_poll(void **state)
{
    (void)state;
    pto_runtime *rt;
    pto_kernel kernel;
    pto_config c = PTO_CONFIG_INIT;
    c.workers = PTO_NO_WORKERS;
    expect_ok(pto_runtime_create(&rt, &c));
    polled p = {rt, 0, 5000};
    expect_ok(pto_kernel_register(rt, "pend", PTO_VECTOR, pend, &p, &kernel));
    expect_ok(pto_set_poll(rt, look, &p));
    expect_ok(pto_submit(rt, kernel));
    expect_ok(pto_wait(rt));
    assert_int_equal(p.left, 0);
    /* A poll that always wants to be called again does not keep an interrupt from being asked. */
    p.left = -1;
    int asked = 3;
    expect_ok(pto_submit(rt, kernel));
    expect_ok(pto_set_interrupt(rt, count_down, &asked));
    expect_fail(pto_wait(rt), PTO_INTERRUPTED, "pto_set_interrupt");
    expect_ok(pto_set_interrupt(rt, NULL, NULL));
    p.left = 100;
    expect_ok(pto_wait(rt));
    expect_ok(pto_set_poll(rt, NULL, NULL));
    expect_ok(pto_runtime_destroy(&rt, PTO_WAIT));
}

static void nothing(int signal)
{
    (void)signal;
}

static bool note_signal(void *user)
{
    return *(atomic_int *)user != 0;
}

typedef struct poke {
    pthread_t target;
    atomic_int *asked;
} poke;

static void *send_signal(void *argument)
{
    poke *p = argument;
    usleep(20000);
    atomic_store(p->asked, 1);
    pthread_kill(p->target, SIGUSR1);
    return NULL;
}

/* A signal wakes a thread that sleeps in a wait. */
static void test_a_signal_interrupts(void **state)
{
    rig r;
    pthread_t thread;
    atomic_int asked = 0;
    struct sigaction action = {.sa_handler = nothing}, old;
    assert_int_equal(sigaction(SIGUSR1, &action, &old), 0);
    rig_start(&r, state, NULL);
    pto_task held = RIG_SUBMIT_BARE(&r, r.hold);
    poke p = {pthread_self(), &asked};
    expect_ok(pto_set_interrupt(r.rt, note_signal, &asked));
    assert_int_equal(pthread_create(&thread, NULL, send_signal, &p), 0);
    expect_fail(pto_wait(r.rt), PTO_INTERRUPTED, "pto_set_interrupt");
    assert_int_equal(pthread_join(thread, NULL), 0);
    expect_ok(pto_set_interrupt(r.rt, NULL, NULL));
    rig_finish(&r, held, PTO_OK);
    expect_ok(pto_wait(r.rt));
    rig_stop(&r);
    assert_int_equal(sigaction(SIGUSR1, &old, NULL), 0);
}

/* pto_wait_tensor returns while a reader runs; pto_wait_unused waits for it. */
static void test_unused_waits_for_readers(void **state)
{
    rig r;
    int left = 1;
    rig_start(&r, state, NULL);
    pto_tensor t = rig_bytes(&r, rig_memory(&r, 64), 64);
    pto_task reader = RIG_SUBMIT(&r, r.hold, pto_input(&t));
    rig_until(&r, reader, PTO_TASK_RUNNING);
    expect_ok(pto_wait_tensor(r.rt, &t));
    expect_ok(pto_set_interrupt(r.rt, count_down, &left));
    expect_fail(pto_wait_unused(r.rt, &t), PTO_INTERRUPTED, "pto_set_interrupt");
    expect_ok(pto_set_interrupt(r.rt, NULL, NULL));
    rig_finish(&r, reader, PTO_OK);
    expect_ok(pto_wait_unused(r.rt, &t));
    rig_stop(&r);
}

static void test_heaps_outlive_the_runtime(void **state)
{
    rig r;
    pto_tensor t;
    void *address, *memory = NULL;
    size_t bytes = 0;
    rig_start(&r, state, NULL);
    expect_fail(pto_detach_heaps(r.rt, NULL, &bytes), PTO_NULL_ARGUMENT, "memory");
    expect_ok(pto_scope_begin(r.rt));
    expect_ok(pto_alloc(r.rt, PTO_UINT8, 1, DIMS(64), &t));
    expect_ok(pto_get_buffer_addr(r.rt, &t, &address));
    memset(address, 42, 64);
    expect_ok(pto_detach_heaps(r.rt, &memory, &bytes));
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
    assert_int_equal(memchr(memory, 42, bytes) != NULL, 1);
    assert_int_equal(munmap(memory, bytes), 0);
}

/* No call takes a tensor at refused addresses, also one that was made before; and it does again afterwards. */
static void test_refused_memory(void **state)
{
    static float memory[64], other[8];
    const char *why = "is a volume";
    rig r;
    pto_tensor volume, later, plain, outside;
    void *address = NULL;
    rig_start(&r, state, NULL);
    expect_ok(pto_external_tensor(r.rt, memory + 32, PTO_FLOAT32, 1, DIMS(8), &volume));
    expect_ok(pto_external_tensor(r.rt, other, PTO_FLOAT32, 1, DIMS(8), &plain));
    expect_ok(pto_external_tensor(r.rt, memory + 8, PTO_FLOAT32, 1, DIMS(8), &outside));
    expect_ok(pto_refuse_memory(r.rt, memory + 16, 32 * sizeof *memory, why));
    expect_fail(pto_external_tensor(r.rt, memory + 9, PTO_FLOAT32, 1, DIMS(8), &later),
                PTO_BAD_MEMORY, why);
    expect_fail(pto_submit(r.rt, r.quick, pto_input(&volume)), PTO_BAD_MEMORY, why);
    expect_fail(pto_submit(r.rt, r.quick, pto_nodep(pto_input(&volume))), PTO_BAD_MEMORY, why);
    expect_fail(pto_read(r.rt, &volume, other, sizeof other), PTO_BAD_MEMORY, why);
    expect_fail(pto_write(r.rt, &volume, other, sizeof other), PTO_BAD_MEMORY, why);
    expect_fail(pto_copy(r.rt, &plain, &volume), PTO_BAD_MEMORY, why);
    expect_fail(pto_wait_unused(r.rt, &volume), PTO_BAD_MEMORY, why);
    expect_fail(pto_get_buffer_addr(r.rt, &volume, &address), PTO_BAD_MEMORY, why);
    assert_null(address);
    expect_ok(pto_get_buffer_addr(r.rt, &outside, &address));
    expect_ok(pto_write(r.rt, &outside, other, sizeof other));
    expect_fail(pto_refuse_memory(r.rt, memory, 1, NULL), PTO_NULL_ARGUMENT, "why");
    expect_fail(pto_refuse_memory(r.rt, memory, UINT64_MAX, why), PTO_OVERFLOW, "refuse memory");
    expect_fail(pto_submit(r.rt, r.quick, pto_input(&volume)), PTO_BAD_MEMORY, why);
    expect_ok(pto_refuse_memory(r.rt, NULL, 0, NULL));
    expect_ok(pto_write(r.rt, &volume, other, sizeof other));
    rig_stop(&r);
}

static void *destroy_here(void *argument)
{
    return (void *)(uintptr_t)pto_runtime_destroy(argument, PTO_CANCEL);
}

/* A collector's thread may destroy a runtime that nobody uses, with open scopes and with work. */
static void test_any_thread_destroys(void **state)
{
    rig r;
    pthread_t thread;
    void *status;
    rig_start(&r, state, NULL);
    expect_ok(pto_scope_begin(r.rt));
    for (int i = 0; i < 100; i++) {
        RIG_SUBMIT_BARE(&r, r.quick);
    }
    pto_runtime *rt = r.rt;
    r.rt = NULL;
    assert_int_equal(pthread_create(&thread, NULL, destroy_here, &rt), 0);
    assert_int_equal(pthread_join(thread, &status), 0);
    assert_null(status);
    assert_null(rt);
    rig_forget_gate(&r);
}

int main(void)
{
    const rig_case cases[] = {
        RIG_CASE(test_watermark_counts_a_prefix),
        RIG_CASE(test_watermark_is_for_one_thread),
        RIG_CASE(test_who_may_call),
        RIG_CASE(test_names_of_kernels),
        RIG_CASE(test_checks),
        RIG_CASE(test_refused_destroy),
        RIG_CASE(test_interrupts),
        RIG_CASE(test_a_signal_interrupts),
        RIG_CASE(test_unused_waits_for_readers),
        RIG_CASE(test_heaps_outlive_the_runtime),
        RIG_CASE_ONE_PROCESS(test_refused_memory, "the tensors are memory of the program"),
        RIG_CASE(test_any_thread_destroys),
        RIG_CASE(test_wait_hooks),
        RIG_CASE_SLOW_ONE_PROCESS(test_poll, "the kernel tells the test its task"),
    };
    return rig_run("embed", cases, sizeof cases / sizeof *cases);
}
