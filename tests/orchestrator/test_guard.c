/* test_guard.c - kernels that write beyond their memory: the guard bytes detect it, and the
 * kernel is named. */
#include "../runtime/rig.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define UNSEEN __attribute__((no_sanitize("address"))) /* it overruns on purpose */
#else
#define UNSEEN
#endif

/* ---- The kernels ---------------------------------------------------------------------------- */

/* Writes argument 0 correctly; then bytes before and behind it, as many as arguments 1 and 2
 * say. The sanitizer must not see these. */
static UNSEEN void write_beyond(const pto_call *call)
{
    const pto_arg *to = &call->args[0];
    unsigned char *data = to->data;
    for (int64_t i = 0; i < to->shape[0]; i++) {
        data[i] = 7;
    }
    for (int64_t i = 1; i <= call->args[1].i64; i++) {
        data[-i] = 8;
    }
    for (int64_t i = 0; i < call->args[2].i64; i++) {
        data[to->shape[0] + i] = 9;
    }
}

static pto_status wild(const pto_call *call)
{
    write_beyond(call);
    return PTO_OK;
}

static pto_status wild_and_fails(const pto_call *call)
{
    write_beyond(call);
    return pto_fail(PTO_KERNEL_FAILED, "its own words");
}

static pto_status wild_and_pending(const pto_call *call)
{
    write_beyond(call);
    return PTO_PENDING;
}

/* Reads argument 0 and writes around it; argument 3 is its output. */
static pto_status wild_reader(const pto_call *call)
{
    pto_arg args[3] = {call->args[0], call->args[1], call->args[2]};
    const pto_call as = {.args = args, .n_args = 3};
    write_beyond(&as);
    *(unsigned char *)call->args[3].data = 1;
    return PTO_OK;
}

static void start(rig *r, void **state, pto_kernel_fn fn, pto_kernel *kernel)
{
    pto_config config = PTO_CONFIG_INIT;
    config.heap_bytes = 4096;
    config.guard = 1;
    rig_start(r, state, &config);
    expect_ok(pto_kernel_register(r->rt, "wild", PTO_VECTOR, fn, NULL, kernel));
}

/* ---- Detected ------------------------------------------------------------------------------- */

/* One task overruns a buffer of so many bytes; only its consumers are skipped. */
static void overrun(void **state, pto_kernel_fn fn, int64_t bytes, int64_t before, int64_t behind,
                    const char *where)
{
    rig r;
    pto_kernel kernel;
    char line[32];
    start(&r, state, fn, &kernel);
    pto_tensor other = rig_bytes(&r, rig_memory(&r, 8), 8);
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor x = rig_temp(&r, bytes), y = rig_temp(&r, bytes);
    const int at = __LINE__ + 1;
    pto_task task = RIG_SUBMIT(&r, kernel, pto_output(&x), pto_scalar(before), pto_scalar(behind));
    pto_task next = RIG_SUBMIT(&r, r.copy, pto_input(&x), pto_output(&y));
    pto_task apart = RIG_SUBMIT(&r, r.fill, pto_output(&other), pto_scalar(1));
    if (fn == wild_and_pending) {
        rig_until(&r, task, PTO_TASK_RUNNING);
        while (rig_stats(&r).pending == 0) { /* counted as running first */
        }
        expect_ok(pto_task_complete(r.rt, task, PTO_OK));
    }
    snprintf(line, sizeof line, "test_guard.c:%d", at);
    expect_fail(pto_wait(r.rt), PTO_TASK_FAILED, "'wild'", line, "PTO_OUT_OF_BOUNDS", "argument 0",
                where);
    assert_true(rig_info(&r, task).failed && !rig_info(&r, task).skipped);
    assert_true(rig_info(&r, next).skipped);
    assert_false(rig_info(&r, apart).failed);
    unsigned char copy[128];
    expect_fail(pto_read(r.rt, &x, copy, sizeof copy), PTO_POISONED, "'wild'");
    expect_ok(pto_scope_end(r.rt));
    /* It is reported once. */
    expect_ok(pto_clear_error(r.rt));
    expect_ok(pto_scope_begin(r.rt));
    x = rig_temp(&r, bytes);
    RIG_SUBMIT(&r, r.fill, pto_output(&x), pto_scalar(3));
    expect_ok(pto_wait(r.rt));
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

static void test_one_byte_behind(void **state)
{
    overrun(state, wild, 100, 0, 1, "wrote 1 bytes behind its buffer of 100 bytes");
    overrun(state, wild, 64, 0, 1, "wrote 1 bytes behind its buffer of 64 bytes");
    overrun(state, wild, 1, 0, 1, "wrote 1 bytes behind its buffer of 1 bytes");
}

static void test_before(void **state)
{
    overrun(state, wild, 100, 3, 0, "wrote 3 bytes before its buffer of 100 bytes");
    overrun(state, wild, 128, 64, 0, "wrote 64 bytes before its buffer of 128 bytes");
}

static void test_both_sides(void **state)
{
    overrun(state, wild, 100, 5, 92, "wrote 5 bytes before and 92 bytes behind its buffer of 100");
}

static void test_a_failing_kernel(void **state)
{
    overrun(state, wild_and_fails, 100, 0, 2, "wrote 2 bytes behind its buffer of 100 bytes");
}

static void test_a_pending_kernel(void **state)
{
    overrun(state, wild_and_pending, 100, 1, 0, "wrote 1 bytes before its buffer of 100 bytes");
}

/* ---- Attribution ---------------------------------------------------------------------------- */

/* The second of three buffers in one block; and memory of pto_alloc, written in parts. */
static void test_the_right_argument(void **state)
{
    rig r;
    pto_kernel kernel;
    start(&r, state, wild, &kernel);
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor a = rig_temp(&r, 70), b = rig_temp(&r, 30), c = rig_temp(&r, 64), whole;
    RIG_SUBMIT(&r, kernel, pto_output(&b), pto_scalar(0), pto_scalar(0), pto_output(&a),
               pto_output(&c));
    expect_ok(pto_wait(r.rt));
    RIG_SUBMIT(&r, r.quick, pto_inout(&a), pto_input(&b), pto_inout(&c));
    RIG_SUBMIT(&r, kernel, pto_inout(&b), pto_scalar(0), pto_scalar(4), pto_inout(&a),
               pto_inout(&c));
    expect_fail(pto_wait(r.rt), PTO_TASK_FAILED, "'wild'", "argument 0",
                "4 bytes behind its buffer of 30 bytes");
    expect_ok(pto_clear_error(r.rt));

    expect_ok(pto_alloc(r.rt, PTO_UINT8, 1, DIMS(100), &whole));
    pto_tensor head = rig_slice(&whole, 0, 50), tail = rig_slice(&whole, 50, 100);
    RIG_SUBMIT(&r, kernel, pto_inout(&head), pto_scalar(0), pto_scalar(50)); /* not beyond it all */
    expect_ok(pto_wait(r.rt));
    RIG_SUBMIT(&r, kernel, pto_inout(&tail), pto_scalar(0), pto_scalar(1));
    expect_fail(pto_wait(r.rt), PTO_TASK_FAILED, "'wild'", "1 bytes behind its buffer of 100",
                "or a concurrent task that writes another part");
    expect_ok(pto_clear_error(r.rt));
    /* Damaged before the task started: not its fault. */
    RIG_SUBMIT(&r, r.fill, pto_inout(&tail), pto_scalar(1));
    expect_ok(pto_wait(r.rt));
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

/* The damage comes from a task without write access to this block: the owner of the memory is
 * named, when everything is complete. */
static void test_damage_by_another_task(void **state)
{
    rig r;
    pto_kernel kernel;
    start(&r, state, wild_reader, &kernel);
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor x = rig_temp(&r, 100), y = rig_temp(&r, 1);
    RIG_SUBMIT(&r, r.fill, pto_output(&x), pto_scalar(1));
    RIG_SUBMIT(&r, kernel, pto_input(&x), pto_scalar(2), pto_scalar(0), pto_output(&y));
    expect_fail(pto_wait(r.rt), PTO_TASK_FAILED, "'fill'", "PTO_OUT_OF_BOUNDS",
                "written by a task without write access: 2 bytes before its buffer of 100 bytes");
    expect_ok(pto_clear_error(r.rt));
    expect_ok(pto_wait(r.rt)); /* reported once */
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

/* Memory of pto_alloc has no task of its own: the line that asked for it is named, and no task. */
static void test_damage_of_memory_without_a_task(void **state)
{
    rig r;
    pto_kernel kernel;
    pto_tensor x;
    char line[256];
    start(&r, state, wild_reader, &kernel);
    expect_ok(pto_scope_begin(r.rt));
    snprintf(line, sizeof line, "the memory that was asked for at %s:%d failed", __FILE__,
             __LINE__ + 1);
    expect_ok(pto_alloc(r.rt, PTO_UINT8, 1, DIMS(100), &x));
    pto_tensor y = rig_temp(&r, 1);
    RIG_SUBMIT(&r, kernel, pto_input(&x), pto_scalar(2), pto_scalar(0), pto_output(&y));
    expect_fail(pto_wait(r.rt), PTO_TASK_FAILED, line, "PTO_OUT_OF_BOUNDS",
                "written by a task without write access: 2 bytes before its buffer of 100 bytes");
    bool failed = false;
    pto_failure failure;
    expect_ok(pto_get_failure(r.rt, &failed, &failure));
    assert_true(failed);
    assert_int_equal(failure.task, 0);
    expect_ok(pto_clear_error(r.rt));
    expect_ok(pto_release(r.rt, &x));
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

static UNSEEN void break_guard(unsigned char *at)
{
    *at ^= 1;
}

/* Detected when memory is recycled, if there was no wait before; also by destroy. */
static void test_as_memory_is_recycled(void **state)
{
    rig r;
    pto_kernel kernel;
    start(&r, state, wild, &kernel);
    for (int end = 0; end < 2; end++) {
        expect_ok(pto_scope_begin(r.rt));
        pto_tensor x = rig_temp(&r, 100);
        RIG_SUBMIT(&r, r.fill, pto_output(&x), pto_scalar(1));
        expect_ok(pto_wait(r.rt));
        break_guard(rig_address(&r, &x) + 110);
        expect_ok(pto_scope_end(r.rt));
        if (!end) {
            expect_ok(pto_scope_begin(r.rt));
            x = rig_temp(&r, 4096); /* takes the whole heap */
            RIG_SUBMIT(&r, r.fill, pto_output(&x), pto_scalar(1));
            expect_ok(pto_scope_end(r.rt));
            expect_fail(pto_wait(r.rt), PTO_TASK_FAILED, "'fill'", "11 bytes behind");
            expect_ok(pto_clear_error(r.rt));
        }
    }
    expect_fail(pto_runtime_destroy(&r.rt, PTO_WAIT), PTO_TASK_FAILED, "11 bytes behind");
    assert_null(r.rt);
    rig_forget_gate(&r);
}

/* ---- No damage ------------------------------------------------------------------------------ */

/* Kernels that stay inside their memory, of any size, several per task, in a heap that wraps
 * around; the whole heap in one buffer; and empty buffers. */
static void test_nothing_is_wrong(void **state)
{
    rig r;
    pto_kernel kernel;
    test_rng rng = test_rng_make(test_seed());
    start(&r, state, wild, &kernel);
    for (uint64_t i = 0, rounds = test_effort(300); i < rounds; i++) {
        expect_ok(pto_scope_begin(r.rt));
        pto_tensor x = rig_temp(&r, test_between(&rng, 1, 700));
        pto_tensor y = rig_temp(&r, test_between(&rng, 1, 700));
        pto_tensor none = rig_temp(&r, 0);
        RIG_SUBMIT(&r, kernel, pto_output(&x), pto_scalar(0), pto_scalar(0), pto_output(&none));
        RIG_SUBMIT(&r, r.fill, pto_output(&y), pto_scalar(5), pto_input(&x), pto_inout(&none));
        RIG_SUBMIT(&r, r.fill, pto_inout(&x), pto_scalar(6));
        expect_ok(pto_scope_end(r.rt));
    }
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor all = rig_temp(&r, 4096);
    RIG_SUBMIT(&r, kernel, pto_output(&all), pto_scalar(0), pto_scalar(0));
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

/* Without guards, buffers lie side by side. */
static void test_off(void **state)
{
    rig r;
    pto_kernel kernel;
    pto_config config = PTO_CONFIG_INIT;
    config.guard = PTO_NO_GUARD;
    rig_start(&r, state, &config);
    expect_ok(pto_kernel_register(r.rt, "wild", PTO_VECTOR, wild, NULL, &kernel));
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor x = rig_temp(&r, 100), y = rig_temp(&r, 100);
    RIG_SUBMIT(&r, kernel, pto_output(&x), pto_scalar(0), pto_scalar(28), pto_output(&y));
    expect_ok(pto_wait(r.rt));
    assert_ptr_equal(rig_address(&r, &y), rig_address(&r, &x) + 128);
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

/* ---- Recycled memory ------------------------------------------------------------------------ */

static UNSEEN unsigned char peek(const unsigned char *at)
{
    return *at;
}

static void test_recycled_memory_is_not_what_it_was(void **state)
{
    rig r;
    pto_kernel kernel;
    start(&r, state, wild, &kernel);
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor x = rig_temp(&r, 100);
    RIG_SUBMIT(&r, r.fill, pto_output(&x), pto_scalar(1));
    expect_ok(pto_wait(r.rt));
    const unsigned char *at = rig_address(&r, &x);
    assert_int_equal(at[99], 1);
#if defined(__SANITIZE_ADDRESS__)
    assert_false(__asan_address_is_poisoned(at) || __asan_address_is_poisoned(at + 99));
    assert_true(__asan_address_is_poisoned(at - 1) && __asan_address_is_poisoned(at + 100));
#endif
    expect_ok(pto_scope_end(r.rt));
    expect_ok(pto_wait(r.rt));
    assert_int_equal(peek(at), 0xdb);
    assert_int_equal(peek(at + 99), 0xdb);
#if defined(__SANITIZE_ADDRESS__)
    assert_true(__asan_address_is_poisoned(at) && __asan_address_is_poisoned(at + 99));
#endif
    rig_stop(&r);
}

int main(void)
{
    const rig_case cases[] = {
        RIG_CASE(test_one_byte_behind),
        RIG_CASE(test_before),
        RIG_CASE(test_both_sides),
        RIG_CASE(test_a_failing_kernel),
        RIG_CASE(test_a_pending_kernel),
        RIG_CASE(test_the_right_argument),
        RIG_CASE(test_damage_by_another_task),
        RIG_CASE(test_damage_of_memory_without_a_task),
        RIG_CASE(test_as_memory_is_recycled),
        RIG_CASE(test_nothing_is_wrong),
        RIG_CASE(test_off),
        RIG_CASE(test_recycled_memory_is_not_what_it_was),
    };
    return rig_run("guard", cases, sizeof cases / sizeof *cases);
}
