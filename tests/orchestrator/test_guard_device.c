/* test_guard_device.c - kernels that write beyond their memory on a device. The device copies the guard
 * bytes, with and without streams; the kernel, its line and the device are named. */
#include "fake_device.h"

#include <pto/sim.h>

static const pto_device sim0 = {PTO_DEVICE_SIM, 0}, fake0 = {PTO_DEVICE_ASCEND, 3};

/* ---- The kernels ---- */

/* Writes `shape[0]` bytes of 7 at `data`, then `before` bytes in front of them and `behind` bytes behind
 * them. */
typedef struct work {
    unsigned char *data;
    int64_t bytes, before, behind;
} work;

static void write_beyond(void *args)
{
    const work *w = args;
    memset(w->data, 7, (size_t)w->bytes);
    memset(w->data - w->before, 8, (size_t)w->before);
    memset(w->data + w->bytes, 9, (size_t)w->behind);
}

/* On a device with streams: puts it on the stream; elsewhere does it. */
static pto_status do_work(const pto_call *call, work w)
{
    if (call->stream) {
        return pto_sim_launch(call->stream, write_beyond, &w, sizeof w);
    }
    write_beyond(&w);
    return PTO_OK;
}

static work work_of(const pto_call *call)
{
    return (work){call->args[0].data, call->args[0].shape[0], call->args[1].i64, call->args[2].i64};
}

static pto_status wild(const pto_call *call)
{
    return do_work(call, work_of(call));
}

/* Reads argument 0 and writes around it; argument 3 is its output. */
static pto_status wild_reader(const pto_call *call)
{
    work w = work_of(call);
    memset(call->args[3].data, 1, (size_t)call->args[3].shape[0]);
    return do_work(call, w);
}

static pto_status wild_and_pending(const pto_call *call)
{
    write_beyond(
        &(work){call->args[0].data, call->args[0].shape[0], call->args[1].i64, call->args[2].i64});
    return PTO_PENDING;
}

/* ---- The runtime ---- */

enum { HEAP = 4096 };

typedef struct rig {
    pto_runtime *rt;
    pto_device device;
    pto_kernel wild, reader, pending;
} rig;

static void register_kernel(rig *r, const char *name, pto_kernel_fn fn, pto_kernel *kernel)
{
    expect_ok(pto_kernel_register(r->rt, name, PTO_VECTOR, fn, NULL, kernel));
    expect_ok(pto_kernel_variant(r->rt, *kernel, r->device.type, fn, NULL));
}

static rig start_on(pto_device device, uint32_t guard)
{
    rig r = {.device = device};
    pto_config config = PTO_CONFIG_INIT;
    config.device = device;
    config.device_heap_bytes = HEAP;
    config.levels = 2;
    config.guard = guard;
    expect_ok(pto_runtime_create(&r.rt, &config));
    register_kernel(&r, "wild", wild, &r.wild);
    register_kernel(&r, "reader", wild_reader, &r.reader);
    register_kernel(&r, "pending", wild_and_pending, &r.pending);
    return r;
}

static rig start(uint32_t streams)
{
    expect_ok(pto_sim_repair(0));
    expect_ok(
        pto_sim_configure(0, &(pto_sim_config){.size = sizeof(pto_sim_config),
                                               .streams = streams ? streams : PTO_SIM_NO_STREAMS}));
    return start_on(sim0, 1);
}

static void stop(rig *r)
{
    expect_ok(pto_runtime_destroy(&r->rt, PTO_WAIT));
}

static pto_tensor temp(const rig *r, int64_t bytes)
{
    pto_tensor t;
    expect_ok(pto_temp(r->rt, PTO_UINT8, 1, DIMS(bytes), &t));
    return t;
}

#define SUBMIT(r, kernel, ...) expect_ok(pto_submit((r)->rt, (kernel), __VA_ARGS__))

static pto_task_report info(const rig *r, pto_task task)
{
    pto_task_report d;
    expect_ok(pto_task_info(r->rt, task, &d));
    return d;
}

/* Runs a test without streams, with one and with several. */
static void each(void (*test)(uint32_t streams))
{
    test(0);
    test(1);
    test(4);
}

/* ---- Detected ---- */

/* One task overruns a buffer; only its consumers are skipped, and later programs are well. */
static void overrun(uint32_t streams, int64_t bytes, int64_t before, int64_t behind,
                    const char *where)
{
    rig r = start(streams);
    char line[64];
    PTO_SCOPE(r.rt) {
        pto_tensor x = temp(&r, bytes), y = temp(&r, bytes), z = temp(&r, bytes);
        snprintf(line, sizeof line, "test_guard_device.c:%d", __LINE__ + 1);
        SUBMIT(&r, r.wild, pto_output(&x), pto_scalar(before), pto_scalar(behind));
        const pto_task task = pto_last_task(r.rt);
        SUBMIT(&r, r.wild, pto_output(&y), pto_scalar(0), pto_scalar(0), pto_input(&x));
        const pto_task next = pto_last_task(r.rt);
        SUBMIT(&r, r.wild, pto_output(&z), pto_scalar(0), pto_scalar(0));
        const pto_task apart = pto_last_task(r.rt);
        expect_fail(pto_wait(r.rt), PTO_TASK_FAILED, "'wild'", line, "PTO_OUT_OF_BOUNDS",
                    "argument 0", where, "on sim:0");
        assert_true(info(&r, task).failed && !info(&r, task).skipped);
        assert_true(info(&r, next).skipped);
        assert_false(info(&r, apart).failed || info(&r, apart).skipped);
        unsigned char copy[256];
        expect_fail(pto_read(r.rt, &x, copy, sizeof copy), PTO_POISONED, "'wild'");
        expect_ok(pto_read(r.rt, &z, copy, sizeof copy));
        assert_int_equal(copy[bytes - 1], 7);
    }
    expect_ok(pto_clear_error(r.rt));
    PTO_SCOPE(r.rt) { /* it is reported once */
        pto_tensor x = temp(&r, bytes);
        SUBMIT(&r, r.wild, pto_output(&x), pto_scalar(0), pto_scalar(0));
        expect_ok(pto_wait(r.rt));
    }
    stop(&r);
}

static void overruns(uint32_t streams)
{
    overrun(streams, 100, 0, 1, "wrote 1 bytes behind its buffer of 100 bytes");
    overrun(streams, 64, 0, 1, "wrote 1 bytes behind its buffer of 64 bytes");
    overrun(streams, 1, 0, 1, "wrote 1 bytes behind its buffer of 1 bytes");
    overrun(streams, 128, 64, 0, "wrote 64 bytes before its buffer of 128 bytes");
    overrun(streams, 100, 5, 92, "wrote 5 bytes before and 92 bytes behind its buffer of 100");
}

static void an_overrun_fails_its_task(void **state)
{
    (void)state;
    each(overruns);
}

/* Of a chain over one buffer the task that did it is named: on a stream, the tasks behind it have not
 * begun when it is checked. */
static void middle_of_a_chain(uint32_t streams)
{
    rig r = start(streams);
    char line[64];
    pto_task first = 0, third = 0;
    PTO_SCOPE(r.rt) {
        pto_tensor x = temp(&r, 100);
        SUBMIT(&r, r.wild, pto_output(&x), pto_scalar(0), pto_scalar(0));
        first = pto_last_task(r.rt);
        snprintf(line, sizeof line, "test_guard_device.c:%d", __LINE__ + 1);
        SUBMIT(&r, r.wild, pto_inout(&x), pto_scalar(3), pto_scalar(0));
        SUBMIT(&r, r.wild, pto_inout(&x), pto_scalar(0), pto_scalar(4));
        third = pto_last_task(r.rt);
        expect_fail(pto_wait(r.rt), PTO_TASK_FAILED, line, "3 bytes before its buffer");
        assert_false(info(&r, first).failed || info(&r, first).skipped);
        assert_true(info(&r, third).skipped);
        expect_ok(pto_clear_error(r.rt));
        /* Damaged before the task started: not its fault. */
        SUBMIT(&r, r.wild, pto_inout(&x), pto_scalar(0), pto_scalar(0));
        expect_ok(pto_wait(r.rt));
    }
    stop(&r);
}

static void the_right_task_of_a_chain(void **state)
{
    (void)state;
    each(middle_of_a_chain);
}

/* Memory of pto_alloc_on, and one of several buffers of a block. */
static void other_memory(uint32_t streams)
{
    rig r = start(streams);
    PTO_SCOPE(r.rt) {
        pto_tensor whole, a = temp(&r, 70), b = temp(&r, 30);
        expect_ok(pto_alloc_on(r.rt, sim0, PTO_UINT8, 1, DIMS(100), &whole));
        pto_tensor tail;
        expect_ok(pto_tensor_slice(&whole, 0, 50, 100, 1, &tail));
        SUBMIT(&r, r.wild, pto_inout(&tail), pto_scalar(50), pto_scalar(0)); /* not beyond it all */
        expect_ok(pto_wait(r.rt));
        SUBMIT(&r, r.wild, pto_inout(&tail), pto_scalar(0), pto_scalar(1));
        expect_fail(pto_wait(r.rt), PTO_TASK_FAILED, "1 bytes behind its buffer of 100", "sim:0",
                    "or a concurrent task that writes another part");
        expect_ok(pto_clear_error(r.rt));
        SUBMIT(&r, r.wild, pto_output(&b), pto_scalar(0), pto_scalar(2), pto_output(&a));
        expect_fail(pto_wait(r.rt), PTO_TASK_FAILED, "argument 0",
                    "2 bytes behind its buffer of 30");
        expect_ok(pto_clear_error(r.rt));
    }
    stop(&r);
}

static void memory_without_a_task(void **state)
{
    (void)state;
    each(other_memory);
}

/* ---- Found by the orchestrator ---- */

/* A task without write access: the owner of the memory is named, when everything is complete. */
static void damage_by_another_task(void **state)
{
    (void)state;
    rig r = start(0);
    char line[64];
    PTO_SCOPE(r.rt) {
        pto_tensor x = temp(&r, 100), y = temp(&r, 1);
        snprintf(line, sizeof line, "test_guard_device.c:%d", __LINE__ + 1);
        SUBMIT(&r, r.wild, pto_output(&x), pto_scalar(0), pto_scalar(0));
        SUBMIT(&r, r.reader, pto_input(&x), pto_scalar(2), pto_scalar(0), pto_output(&y));
        expect_fail(pto_wait(r.rt), PTO_TASK_FAILED, "'wild'", line, "PTO_OUT_OF_BOUNDS",
                    "without write access", "2 bytes before its buffer of 100 bytes on sim:0");
        expect_ok(pto_clear_error(r.rt));
        expect_ok(pto_wait(r.rt)); /* reported once */
    }
    stop(&r);
}

/* The thread that completes a pending task may be one that the copies of the device need, so it does
 * not check. pto_wait does; without one, recycling does, and destroy. */
static void a_pending_task(void **state)
{
    (void)state;
    rig r = start(0);
    for (int how = 0; how < 3; how++) {
        PTO_SCOPE(r.rt) {
            pto_tensor x = temp(&r, 100);
            SUBMIT(&r, r.pending, pto_output(&x), pto_scalar(0), pto_scalar(6));
            const pto_task task = pto_last_task(r.rt);
            while (pto_task_complete(r.rt, task, PTO_OK) != PTO_OK) {
            }
            expect_ok(pto_wait_task(r.rt, task));
            if (how == 0) {
                expect_fail(pto_wait(r.rt), PTO_TASK_FAILED, "'pending'",
                            "or by one that was pending",
                            "6 bytes behind its buffer of 100 bytes on sim:0");
                expect_ok(pto_clear_error(r.rt));
            }
        }
        if (how == 1) {
            PTO_SCOPE(r.rt) {
                pto_tensor all = temp(&r, HEAP); /* takes the whole heap */
                SUBMIT(&r, r.wild, pto_output(&all), pto_scalar(0), pto_scalar(0));
            }
            expect_fail(pto_wait(r.rt), PTO_TASK_FAILED, "'pending'", "6 bytes behind");
            expect_ok(pto_clear_error(r.rt));
        }
    }
    expect_fail(pto_runtime_destroy(&r.rt, PTO_WAIT), PTO_TASK_FAILED, "'pending'",
                "6 bytes behind");
}

/* ---- No damage ---- */

static void nothing(uint32_t streams)
{
    rig r = start(streams);
    test_rng rng = test_rng_make(test_seed());
    for (uint64_t i = 0, rounds = test_effort(100); i < rounds; i++) {
        PTO_SCOPE(r.rt) {
            pto_tensor x = temp(&r, test_between(&rng, 1, 700)), none = temp(&r, 0);
            pto_tensor y = temp(&r, test_between(&rng, 1, 700));
            SUBMIT(&r, r.wild, pto_output(&x), pto_scalar(0), pto_scalar(0), pto_output(&none));
            SUBMIT(&r, r.wild, pto_output(&y), pto_scalar(0), pto_scalar(0), pto_input(&x));
            SUBMIT(&r, r.wild, pto_inout(&x), pto_scalar(0), pto_scalar(0));
            expect_ok(pto_check(r.rt));
        }
    }
    PTO_SCOPE(r.rt) {
        pto_tensor all = temp(&r, HEAP);
        SUBMIT(&r, r.wild, pto_output(&all), pto_scalar(0), pto_scalar(0));
    }
    expect_ok(pto_wait(r.rt));
    stop(&r);
}

static void nothing_is_wrong(void **state)
{
    (void)state;
    each(nothing);
}

/* A device without a copy function carries bytes in and out. */
static void a_device_of_bytes(void **state)
{
    (void)state;
    static fake_device fake;
    fake.late = true;
    const pto_device_ops ops = fake_ops(&fake);
    expect_ok(pto_device_add(fake0, &ops));
    rig r = start_on(fake0, 1);
    PTO_SCOPE(r.rt) {
        pto_tensor x = temp(&r, 100);
        SUBMIT(&r, r.wild, pto_output(&x), pto_scalar(0), pto_scalar(0));
        expect_ok(pto_wait(r.rt));
        SUBMIT(&r, r.wild, pto_inout(&x), pto_scalar(0), pto_scalar(1));
        expect_fail(pto_wait(r.rt), PTO_TASK_FAILED, "1 bytes behind its buffer of 100 bytes on ",
                    "PTO_OUT_OF_BOUNDS");
        expect_ok(pto_clear_error(r.rt));
    }
    stop(&r);
    assert_int_equal(fake.n_blocks, 0);
}

/* ---- Without guards there ---- */

/* Guards of the host only, or none: the device copies nothing. */
static void nothing_is_copied_without_guards(void **state)
{
    (void)state;
    static const uint32_t guards[] = {PTO_NO_GUARD, PTO_GUARD_HOST};
    for (size_t i = 0; i < 2; i++) {
        pto_sim_stats before, after;
        rig r = start(0);
        stop(&r);
        expect_ok(pto_sim_stats_get(0, &before));
        r = start_on(sim0, guards[i]);
        PTO_SCOPE(r.rt) {
            pto_tensor x = temp(&r, 100), y = temp(&r, 100);
            SUBMIT(&r, r.wild, pto_output(&x), pto_scalar(0), pto_scalar(28), pto_output(&y));
            expect_ok(pto_wait(r.rt));
            expect_ok(pto_sim_stats_get(0, &after));
            assert_int_equal(after.copies, before.copies);
            assert_int_equal(after.used - before.used, HEAP);
        }
        stop(&r);
    }
}

/* ---- A device that fails ---- */

/* With `lost`, the whole device; else one copy. `n`: the operation that fails, counted from the submit. */
static void fails_at(bool lost, uint64_t n, const char *words)
{
    rig r = start(0);
    PTO_SCOPE(r.rt) {
        pto_tensor first = temp(&r, 64), x = temp(&r, 100);
        SUBMIT(&r, r.wild, pto_output(&first), pto_scalar(0), pto_scalar(0)); /* makes the heap */
        expect_ok(pto_wait(r.rt));
        expect_ok(pto_sim_fail(0, lost ? PTO_SIM_FAIL_LOST : PTO_SIM_FAIL_COPY, n));
        SUBMIT(&r, r.wild, pto_output(&x), pto_scalar(0), pto_scalar(0));
        expect_fail(pto_wait(r.rt), PTO_TASK_FAILED, "'wild'", words);
        expect_ok(pto_sim_repair(0));
        expect_ok(pto_clear_error(r.rt));
        expect_ok(pto_wait(r.rt)); /* what could not be checked is reported once */
        pto_tensor y = temp(&r, 100);
        SUBMIT(&r, r.wild, pto_output(&y), pto_scalar(0), pto_scalar(3));
        expect_fail(pto_wait(r.rt), PTO_TASK_FAILED, "3 bytes behind");
        expect_ok(pto_clear_error(r.rt));
    }
    stop(&r);
}

static void a_device_that_fails(void **state)
{
    (void)state;
    fails_at(false, 1, "the guards of its memory could not be written: sim:0 was told to fail");
    fails_at(false, 2, "the guards of its memory could not be written: sim:0 was told to fail");
    fails_at(false, 5, "the guards of its memory could not be read: sim:0 was told to fail");
    fails_at(true, 1, "sim:0 is lost");
    fails_at(true, 4, "sim:0 is lost");
    fails_at(true, 6, "sim:0 is lost");
}

/* Heaps take three times the memory. */
static void a_device_that_is_too_small(void **state)
{
    (void)state;
    rig r = start(0);
    expect_ok(pto_sim_configure(
        0, &(pto_sim_config){.size = sizeof(pto_sim_config), .memory = 2 * HEAP}));
    PTO_SCOPE(r.rt) {
        pto_tensor x = temp(&r, 100);
        expect_fail(pto_submit(r.rt, r.wild, pto_output(&x), pto_scalar(0), pto_scalar(0)),
                    PTO_OUT_OF_MEMORY, "12288 bytes wanted, with guards (PTO_GUARD)", "sim:0",
                    "of 8192 are in use", "PTO_DEVICE_HEAP");
        assert_true(pto_refused(r.rt, NULL));
    }
    expect_ok(pto_sim_configure(
        0, &(pto_sim_config){.size = sizeof(pto_sim_config), .memory = UINT64_C(1) << 30}));
    stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_overrun_fails_its_task),
        cmocka_unit_test(the_right_task_of_a_chain),
        cmocka_unit_test(memory_without_a_task),
        cmocka_unit_test(damage_by_another_task),
        cmocka_unit_test(a_pending_task),
        cmocka_unit_test(nothing_is_wrong),
        cmocka_unit_test(a_device_of_bytes),
        cmocka_unit_test(nothing_is_copied_without_guards),
        cmocka_unit_test(a_device_that_fails),
        cmocka_unit_test(a_device_that_is_too_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
