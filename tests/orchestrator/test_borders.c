/* test_borders.c - handles of other runtimes, child processes, memory of the host, and more
 * submit sites than the table holds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <pto/execute.h>

#include "refusal.h"
#include "support.h"

static pto_status set_nine(const pto_call *call)
{
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    *(int32_t *)call->args[0].data = 9;
    return PTO_OK;
}

static pto_status at_once(const pto_call *call)
{
    *(int32_t *)call->args[0].data = 9;
    return PTO_OK;
}

static pto_status copy(const pto_call *call)
{
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    *(int32_t *)call->args[1].data = *(const int32_t *)call->args[0].data;
    return PTO_OK;
}

static pto_status fails(const pto_call *call)
{
    (void)call;
    return pto_fail(PTO_KERNEL_FAILED, "on purpose");
}

#define OK(call) assert_int_equal((call), PTO_OK)

/* Handles of tasks, buffers and kernels of two runtimes are never equal, also after destroy. */
static void test_handles_of_another_runtime(void **state)
{
    (void)state;
    pto_runtime *one, *two;
    pto_kernel k1, k2;
    pto_tensor a, b, x;
    int32_t value = 5;
    OK(pto_runtime_create(&one, NULL));
    OK(pto_runtime_create(&two, NULL));
    OK(pto_kernel_register(one, "nine", PTO_VECTOR, set_nine, NULL, &k1));
    OK(pto_kernel_register(two, "nine", PTO_VECTOR, set_nine, NULL, &k2));
    OK(pto_external_tensor(one, &value, PTO_INT32, 0, NULL, &x));
    expect_refusal(one, pto_submit(one, k2, pto_inout(&x)), PTO_BAD_KERNEL);
    OK(pto_scope_begin(one));
    OK(pto_scope_begin(two));
    OK(pto_temp(one, PTO_INT32, 0, NULL, &a));
    OK(pto_temp(two, PTO_INT32, 0, NULL, &b));
    OK(pto_submit(one, k1, pto_output(&a)));
    OK(pto_submit(two, k2, pto_output(&b)));
    pto_task task = pto_last_task(two);
    expect_refusal(one, pto_submit(one, k1, pto_inout(&b)), PTO_STALE);
    expect_refusal(one, pto_submit(one, k1, pto_inout(&x), pto_after(task)), PTO_BAD_TASK);
    expect_refusal(one, pto_wait_task(one, task), PTO_BAD_TASK);
    assert_int_equal(pto_task_complete(one, task, PTO_OK), PTO_BAD_TASK);
    OK(pto_scope_end(two));
    OK(pto_runtime_destroy(&two, PTO_WAIT));
    OK(pto_runtime_create(&two, NULL));
    OK(pto_scope_begin(two));
    pto_tensor c;
    OK(pto_alloc(two, PTO_INT32, 0, NULL, &c));
    expect_refusal(two, pto_read(two, &b, &value, sizeof value), PTO_STALE);
    OK(pto_scope_end(two));
    OK(pto_scope_end(one));
    OK(pto_runtime_destroy(&two, PTO_WAIT));
    OK(pto_runtime_destroy(&one, PTO_WAIT));
    assert_int_equal(value, 5);
}

/* However many runtimes come in between. Two of them live at the same time, in turns. */
static void test_handles_of_many_runtimes(void **state)
{
    (void)state;
    const int many = test_percent() < 100 ? 500 : 33000; /* all numbers once were back by then */
    pto_config config = PTO_CONFIG_INIT;
    config.workers = PTO_NO_WORKERS;
    config.levels = 1;
    config.ring_tasks = config.deps = config.map_entries = 64;
    config.heap_bytes = config.arg_bytes = 1 << 14;
    config.buffers = 16;
    pto_runtime *rt, *before = NULL;
    pto_kernel old_kernel = 0, kernel;
    pto_tensor old = {0}, t;
    pto_task old_task = 0;
    for (int i = 0; i < many; i++) {
        OK(pto_runtime_create(&rt, &config));
        OK(pto_kernel_register(rt, "nine", PTO_AI_CPU, at_once, NULL, &kernel));
        OK(pto_scope_begin(rt));
        OK(pto_temp(rt, PTO_INT32, 0, NULL, &t));
        assert_true(kernel != old_kernel);
        if (i) {
            expect_refusal(rt, pto_submit(rt, old_kernel, pto_output(&t)), PTO_BAD_KERNEL);
        }
        OK(pto_submit(rt, kernel, pto_output(&t)));
        if (i) {
            expect_refusal(rt, pto_wait_task(rt, old_task), PTO_BAD_TASK);
            expect_refusal(rt, pto_submit(rt, kernel, pto_inout(&old)), PTO_STALE);
        } else {
            old = t;
            old_kernel = kernel;
            old_task = pto_last_task(rt);
        }
        OK(pto_scope_end(rt));
        if (i % 2) {
            OK(pto_runtime_destroy(&rt, PTO_WAIT));
        } else {
            if (before) {
                OK(pto_runtime_destroy(&before, PTO_WAIT));
            }
            before = rt;
        }
    }
    OK(pto_runtime_destroy(&before, PTO_WAIT));
}

/* A child process has the memory of the runtime, but none of its threads. */
static void test_fork(void **state)
{
    (void)state;
    pto_runtime *rt;
    pto_kernel kernel;
    pto_tensor x;
    int32_t value = 0;
    OK(pto_runtime_create(&rt, NULL));
    OK(pto_kernel_register(rt, "nine", PTO_VECTOR, set_nine, NULL, &kernel));
    OK(pto_external_tensor(rt, &value, PTO_INT32, 0, NULL, &x));
    OK(pto_submit(rt, kernel, pto_inout(&x)));
    OK(pto_wait(rt));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        pto_cancel(rt); /* does nothing */
        bool right = pto_submit(rt, kernel, pto_inout(&x)) == PTO_WRONG_THREAD &&
                     strstr(pto_error_detail(), "child process") &&
                     pto_wait(rt) == PTO_WRONG_THREAD &&
                     pto_task_complete(rt, pto_last_task(rt), PTO_OK) == PTO_WRONG_THREAD &&
                     pto_runtime_destroy(&rt, PTO_CANCEL) == PTO_WRONG_THREAD;
#ifndef __SANITIZE_THREAD__ /* it ends a child process that starts threads */
        pto_runtime *own;
        right = right && pto_runtime_create(&own, NULL) == PTO_OK &&
                pto_kernel_register(own, "nine", PTO_VECTOR, set_nine, NULL, &kernel) == PTO_OK &&
                pto_submit(own, kernel, pto_inout(&x)) == PTO_OK && pto_wait(own) == PTO_OK &&
                pto_runtime_destroy(&own, PTO_WAIT) == PTO_OK;
#endif
        _exit(right ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_false(pto_is_cancelled(rt));
    OK(pto_submit(rt, kernel, pto_inout(&x)));
    OK(pto_wait(rt));
    OK(pto_runtime_destroy(&rt, PTO_WAIT));
}

/* The host memory of a read or a write may also be used by tasks. */
static void test_the_other_side_of_a_copy(void **state)
{
    (void)state;
    pto_runtime *rt;
    pto_kernel nine, copies, bad;
    int32_t a = 1, b = 2, o = 0;
    pto_tensor ta, tb, to;
    OK(pto_runtime_create(&rt, NULL));
    OK(pto_kernel_register(rt, "nine", PTO_VECTOR, set_nine, NULL, &nine));
    OK(pto_kernel_register(rt, "copy", PTO_VECTOR, copy, NULL, &copies));
    OK(pto_kernel_register(rt, "fails", PTO_VECTOR, fails, NULL, &bad));
    OK(pto_external_tensor(rt, &a, PTO_INT32, 0, NULL, &ta));
    OK(pto_external_tensor(rt, &b, PTO_INT32, 0, NULL, &tb));
    OK(pto_external_tensor(rt, &o, PTO_INT32, 0, NULL, &to));
    OK(pto_submit(rt, copies, pto_input(&tb), pto_output(&to)));
    OK(pto_read(rt, &ta, &b, sizeof b)); /* after the task has read b */
    OK(pto_wait(rt));
    assert_int_equal(o, 2);
    assert_int_equal(b, 1);
    OK(pto_submit(rt, nine, pto_output(&tb)));
    OK(pto_write(rt, &ta, &b, sizeof b)); /* after the task has written b */
    assert_int_equal(a, 9);
    /* Bytes on both sides, and memory of the runtime, are refused. */
    int32_t line[8] = {0};
    pto_tensor part, t;
    OK(pto_external_tensor(rt, line, PTO_INT32, 1, (int64_t[]){8}, &t));
    OK(pto_tensor_slice(&t, 0, 7, 3, -1, &part));
    expect_refusal(rt, pto_read(rt, &part, line + 2, 4 * sizeof *line), PTO_OVERLAP);
    expect_refusal(rt, pto_write(rt, &part, line + 2, 4 * sizeof *line), PTO_OVERLAP);
    OK(pto_read(rt, &part, line, 4 * sizeof *line));
    OK(pto_scope_begin(rt));
    pto_tensor mine;
    void *address;
    OK(pto_alloc(rt, PTO_INT32, 1, (int64_t[]){8}, &mine));
    OK(pto_get_buffer_addr(rt, &mine, &address));
    expect_refusal(rt, pto_read(rt, &ta, address, 4), PTO_BAD_MEMORY);
    OK(pto_scope_end(rt));
    /* One failure does not make a write wait for tasks on other memory. */
    OK(pto_submit(rt, bad, pto_output(&to)));
    assert_int_equal(pto_wait(rt), PTO_TASK_FAILED);
    OK(pto_write(rt, &ta, &o, sizeof o));
    assert_int_equal(pto_read(rt, &to, &b, sizeof b), PTO_POISONED);
    OK(pto_write(rt, &to, &a, sizeof a));
    OK(pto_read(rt, &to, &b, sizeof b));
    OK(pto_runtime_destroy(&rt, PTO_WAIT));
}

static pto_status destroys(pto_runtime *rt, const pto_tensor *in, const pto_tensor *out,
                           void *params)
{
    (void)in;
    (void)out;
    pto_status *answer = params;
    pto_runtime *same = rt;
    *answer = pto_runtime_destroy(&same, PTO_CANCEL);
    return PTO_OK;
}

static void test_destroy_inside_of_an_execution(void **state)
{
    (void)state;
    pto_runtime *rt;
    pto_status answer = PTO_OK;
    OK(pto_runtime_create(&rt, NULL));
    OK(pto_execute(rt, destroys, NULL, 0, NULL, 0, &answer));
    assert_int_equal(answer, PTO_OPEN_SCOPE);
    OK(pto_runtime_destroy(&rt, PTO_WAIT));
}

/* Generated programs submit from very many sites: each is found as fast as the first. Those that do
 * not fit are counted, and reports say that they did not fit. */
static void test_many_places(void **state)
{
    (void)state;
    enum { PLACES = 70000 };
    pto_runtime *rt;
    pto_kernel kernel;
    OK(pto_runtime_create(&rt, NULL));
    OK(pto_kernel_register(rt, "fails", PTO_VECTOR, fails, NULL, &kernel));
    pto_task_report report;
    for (int i = 1; i <= PLACES; i++) {
        OK(pto_scope_begin_at(rt, 0, "generated.c", i));
        OK(pto_scope_end(rt));
    }
    for (int i = 1; i <= PLACES; i += 9999) {
        OK(pto_scope_begin(rt));
        pto_tensor t; /* the scope holds its memory, which answers for a task that is recycled */
        OK(pto_temp(rt, PTO_UINT8, 1, (int64_t[]){64}, &t));
        const pto_param out = pto_output(&t);
        OK(pto_submit_task_at(rt, kernel, PTO_KERNEL_TYPE, &out, 1, NULL, "generated.c", i));
        OK(pto_task_info(rt, pto_last_task(rt), &report));
        if (i < 60000) {
            assert_int_equal(report.line, i);
            assert_string_equal(report.file, "generated.c");
        } else if (i > 65534) {
            assert_non_null(strstr(report.file, "no room for more than 65534 submit sites"));
        }
        OK(pto_scope_end(rt));
    }
    assert_int_equal(pto_wait(rt), PTO_TASK_FAILED);
    OK(pto_clear_error(rt));
    pto_runtime_stats stats;
    OK(pto_stats(rt, &stats));
    const uint64_t lost = stats.sites_lost;
    /* Each of the 8 scopes above has a begin and an end. */
    assert_true(lost >= PLACES - 65534 && lost < PLACES - 65534 + 2 * 8 + 2);
    OK(pto_submit_task_at(rt, kernel, PTO_KERNEL_TYPE, NULL, 0, NULL, "generated.c", 70001));
    assert_int_equal(pto_wait(rt), PTO_TASK_FAILED);
    assert_non_null(strstr(pto_error_detail(), "no room for more than 65534 submit sites))"));
    OK(pto_stats(rt, &stats));
    assert_int_equal(stats.sites_lost, lost + 1);
    OK(pto_runtime_destroy(&rt, PTO_WAIT));
    OK(pto_runtime_create(&rt, NULL));
    /* Names that do not fit are refused, not truncated. */
    char *name = malloc(1 << 21);
    assert_non_null(name);
    memset(name, 'k', 1 << 21);
    name[(1 << 21) - 1] = 0;
    assert_int_equal(pto_kernel_register(rt, name, PTO_VECTOR, fails, NULL, &kernel), PTO_FULL);
    free(name);
    OK(pto_runtime_destroy(&rt, PTO_WAIT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_handles_of_another_runtime),
        cmocka_unit_test(test_handles_of_many_runtimes),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_the_other_side_of_a_copy),
        cmocka_unit_test(test_destroy_inside_of_an_execution),
        cmocka_unit_test(test_many_places),
    };
    alarm(240); /* rather than hang */
    return cmocka_run_group_tests_name("borders", tests, NULL, NULL);
}
