/* test_process.c - place process: what worker processes cannot reach or do is refused by the call that
 * asks for it, with the reason and the remedy. And pto_task_complete takes no status that it cannot keep. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/mman.h>
#include <unistd.h>

#include <pto/execute.h>
#include <pto/observe.h>
#include <pto/process.h>

#include "../runtime/rig.h"

static pto_status twice(const pto_call *call)
{
    *(int32_t *)call->args[0].data *= 2;
    return PTO_OK;
}

static pto_status copy_twice(const pto_call *call)
{
    *(int32_t *)call->args[1].data = 2 * *(const int32_t *)call->args[0].data;
    return PTO_OK;
}

static pto_status later(const pto_call *call)
{
    (void)call;
    return PTO_PENDING;
}

static pto_runtime *start(void)
{
    pto_runtime *rt = NULL;
    pto_config c = PTO_CONFIG_INIT;
    c.place = PTO_PLACE_PROCESS;
    c.workers = 1;
    c.shared_bytes = 1 << 16;
    expect_ok(pto_runtime_create(&rt, &c));
    return rt;
}

static void memory_that_is_not_shared_is_refused(void **state)
{
    pto_runtime *rt = start();
    pto_kernel kernel;
    pto_tensor ours, across, shared, byte;
    void *memory;
    int32_t x = 1;
    (void)state;
    expect_ok(pto_kernel_register(rt, "twice", PTO_VECTOR, twice, NULL, &kernel));
    expect_ok(pto_shared_alloc(rt, 64, &memory));
    expect_ok(pto_external_tensor(rt, &x, PTO_INT32, 0, NULL, &ours));
    expect_fail(pto_submit(rt, kernel, pto_inout(&ours)), PTO_BAD_MEMORY,
                "parameter 0: worker processes cannot reach",
                "4 bytes: get it with pto_shared_alloc", "pto_execute");
    expect_ok(pto_external_tensor(rt, &x, PTO_UINT8, 0, NULL, &byte));
    expect_fail(pto_submit(rt, kernel, pto_inout(&byte)), PTO_BAD_MEMORY, "1 byte: get it");
    /* Its first element is shared, its last one is not. */
    expect_ok(pto_tensor_init(&across, memory, 1 << 20, PTO_INT32, 1, DIMS(1 << 18), NULL, 0));
    expect_fail(pto_submit(rt, kernel, pto_inout(&across)), PTO_BAD_MEMORY, "1048576 bytes");
    assert_true(pto_refused(rt, NULL));

    *(int32_t *)memory = 21;
    expect_ok(pto_external_tensor(rt, memory, PTO_INT32, 0, NULL, &shared));
    expect_ok(pto_submit(rt, kernel, pto_inout(&shared)));
    expect_ok(pto_wait(rt));
    assert_int_equal(*(int32_t *)memory, 42);
    expect_ok(pto_runtime_destroy(&rt, PTO_WAIT));
    assert_int_equal(x, 1);
}

static void kernels_that_workers_do_not_have_are_refused(void **state)
{
    pto_runtime *rt = start();
    pto_kernel kernel;
    void *memory;
    int x = 0;
    (void)state;
    expect_fail(pto_kernel_register(rt, "mine", PTO_VECTOR, twice, &x, &kernel), PTO_BAD_MEMORY,
                "'mine'", "cannot reach its user data", "get that memory with pto_shared_alloc");
    expect_ok(pto_shared_alloc(rt, 4, &memory));
    expect_ok(pto_kernel_register(rt, "mine", PTO_VECTOR, twice, memory, &kernel));
    /* Code that is made after the runtime. It is never called. */
    void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(code != MAP_FAILED);
    expect_fail(
        pto_kernel_register(rt, "late", PTO_VECTOR, (pto_kernel_fn)(uintptr_t)code, NULL, &kernel),
        PTO_BAD_KERNEL, "'late'", "loaded or made after the runtime was created");
    munmap(code, 4096);
    expect_ok(pto_runtime_destroy(&rt, PTO_WAIT));
}

static void started(void *user, pto_task task, uint32_t worker)
{
    (void)user;
    (void)task;
    (void)worker;
}

static void devices_and_watchers_are_refused(void **state)
{
    pto_runtime *rt = start();
    const pto_device sim = {PTO_DEVICE_SIM, 0};
    pto_tensor t;
    (void)state;
    expect_ok(pto_scope_begin(rt));
    expect_fail(pto_temp_on(rt, sim, PTO_INT32, 0, NULL, &t), PTO_BAD_DEVICE,
                "sim:0: worker processes");
    assert_true(pto_refused(rt, NULL));
    expect_ok(pto_scope_end(rt));
    const pto_watcher watcher = {.size = sizeof watcher, .started = started};
    expect_fail(pto_watch(rt, &watcher), PTO_BAD_CONFIG, "other processes");
    expect_ok(pto_runtime_destroy(&rt, PTO_WAIT));
}

static pto_status orchestrate(pto_runtime *rt, const pto_tensor *inputs, const pto_tensor *outputs,
                              void *params)
{
    return pto_submit(rt, *(pto_kernel *)params, pto_input(&inputs[0]), pto_output(&outputs[0]));
}

/* pto_execute is the way for ordinary memory. */
static void execute_copies_ordinary_memory(void **state)
{
    pto_runtime *rt = start();
    pto_kernel kernel;
    pto_tensor in, out;
    int32_t x = 21, y = 0;
    (void)state;
    expect_ok(pto_kernel_register(rt, "copy_twice", PTO_VECTOR, copy_twice, NULL, &kernel));
    expect_ok(pto_external_tensor(rt, &x, PTO_INT32, 0, NULL, &in));
    expect_ok(pto_external_tensor(rt, &y, PTO_INT32, 0, NULL, &out));
    expect_ok(pto_execute(rt, orchestrate, &in, 1, &out, 1, &kernel));
    assert_int_equal(y, 42);
    expect_ok(pto_runtime_destroy(&rt, PTO_WAIT));
}

/* In every place: a status that does not fit into the state of a task is refused, and the task can still
 * be completed. */
static void complete_takes_statuses_that_fit(void **state)
{
    (void)state;
    for (int place = PTO_PLACE_INLINE; place <= PTO_PLACE_PROCESS; place++) {
        pto_runtime *rt = NULL;
        pto_kernel kernel;
        pto_config c = PTO_CONFIG_INIT;
        pto_status s;
        c.place = (pto_place)place;
        c.workers = 1;
        c.shared_bytes = 1 << 16;
        expect_ok(pto_runtime_create(&rt, &c));
        expect_ok(pto_kernel_register(rt, "later", PTO_VECTOR, later, NULL, &kernel));
        expect_ok(pto_submit(rt, kernel));
        const pto_task task = pto_last_task(rt);
        expect_fail(pto_task_complete(rt, task, (pto_status)777), PTO_BAD_TASK, "status 777",
                    "PTO_OK or with an error from 1 to 255");
        expect_fail(pto_task_complete(rt, task, PTO_PENDING), PTO_BAD_TASK, "not with PTO_PENDING");
        do { /* its kernel may not have begun */
            usleep(100);
            s = pto_task_complete(rt, task, (pto_status)201);
        } while (s == PTO_BAD_TASK && strstr(pto_error_detail(), "has not begun"));
        expect_ok(s);
        expect_fail(pto_wait(rt), PTO_TASK_FAILED, "status 201, which is none of PTO's");
        expect_ok(pto_clear_error(rt));
        expect_ok(pto_runtime_destroy(&rt, PTO_WAIT));
    }
}

/* The size comes first: a struct of another version may have no name. */
static void attach_checks_its_options(void **state)
{
    const pto_worker_options other = {.size = 3}, nameless = {.size = sizeof nameless};
    (void)state;
    expect_fail(pto_worker_attach(NULL), PTO_NULL_ARGUMENT, "options");
    expect_fail(pto_worker_attach(&other), PTO_BAD_CONFIG, "size of options is 3");
    expect_fail(pto_worker_attach(&nameless), PTO_NULL_ARGUMENT, "the name");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attach_checks_its_options),
        cmocka_unit_test(memory_that_is_not_shared_is_refused),
        cmocka_unit_test(kernels_that_workers_do_not_have_are_refused),
        cmocka_unit_test(devices_and_watchers_are_refused),
        cmocka_unit_test(execute_copies_ordinary_memory),
        cmocka_unit_test(complete_takes_statuses_that_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
