/* test_buffer.c - managed buffers: when they get memory, their versions, their place in the
 * heap, and reads and writes. */
#include "../runtime/rig.h"

/* ---- Holders ------------------------------------------------------------------------------- */

/* One producer, two consumers: the count goes 1, 2, 3, and back with the scope and each
 * consumer. */
static void test_the_life_of_a_buffer(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor p = rig_temp(&r, 1000);
    pto_task producer = RIG_SUBMIT(&r, r.hold, pto_output(&p));
    RIG_FANOUT(&r, producer, 1, 1);
    assert_int_equal(rig_info(&r, producer).heap_bytes, 1024); /* blocks are multiples of 64 */
    pto_task first = RIG_SUBMIT(&r, r.hold, pto_input(&p));
    RIG_FANOUT(&r, producer, 2, 2);
    pto_task second = RIG_SUBMIT(&r, r.hold, pto_input(&p));
    RIG_FANOUT(&r, producer, 3, 3);
    assert_int_equal(rig_ring(&r, 0, PTO_RING_HEAP).used, 1024);

    expect_ok(pto_scope_end(r.rt));
    RIG_FANOUT(&r, producer, 3, 2);
    rig_finish(&r, producer, PTO_OK);
    RIG_FANOUT(&r, producer, 3, 2);
    assert_int_equal(rig_info(&r, producer).state, PTO_TASK_COMPLETED);
    rig_finish(&r, first, PTO_OK);
    RIG_FANOUT(&r, producer, 3, 1);
    assert_int_equal(rig_info(&r, producer).state, PTO_TASK_COMPLETED);
    rig_finish(&r, second, PTO_OK);
    rig_until(&r, producer, PTO_TASK_CONSUMED);
    rig_until(&r, second, PTO_TASK_CONSUMED);
    assert_int_equal(rig_ring(&r, 0, PTO_RING_HEAP).used, 0);
    rig_stop(&r);
}

/* A consumer counts even if the producer was complete long before. */
static void test_late_consumers_count(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor p = rig_temp(&r, 64);
    pto_task producer = RIG_SUBMIT(&r, r.quick, pto_output(&p));
    expect_ok(pto_wait(r.rt));
    pto_task late = RIG_SUBMIT(&r, r.hold, pto_input(&p));
    RIG_FANOUT(&r, producer, 2, 2);
    assert_int_equal(rig_info(&r, late).fanin_count, 0);
    expect_ok(pto_scope_end(r.rt));
    RIG_FANOUT(&r, producer, 2, 1);
    rig_finish(&r, late, PTO_OK);
    rig_until(&r, producer, PTO_TASK_CONSUMED);
    rig_stop(&r);
}

/* Holders are tasks, not arguments. */
static void test_a_consumer_counts_once(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor p = rig_temp(&r, 64), q = rig_temp(&r, 64);
    /* Two outputs of one task are one block. */
    pto_task producer = RIG_SUBMIT(&r, r.hold, pto_output(&p), pto_output(&q));
    pto_tensor left = rig_slice(&p, 0, 32), right = rig_slice(&p, 32, 64);
    pto_task consumer = RIG_SUBMIT(&r, r.quick, pto_input(&left), pto_input(&right), pto_inout(&q),
                                   pto_nodep(pto_input(&p)));
    RIG_FANOUT(&r, producer, 2, 2);
    assert_int_equal(rig_info(&r, consumer).fanin_count, 1);
    RIG_WAITS_FOR(&r, consumer, 1);
    rig_finish(&r, producer, PTO_OK);
    expect_ok(pto_wait(r.rt));
    RIG_FANOUT(&r, producer, 2, 1);
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

/* P[k] = A[k] B[k]; C = C + P[k], for two k. `fresh`: each sum is a managed tensor of its own. */
static void bgemm(void **state, bool fresh)
{
    rig r;
    rig_start(&r, state, NULL);
    float(*a)[16] = rig_memory(&r, sizeof(float[2][16])),
    (*b)[16] = rig_memory(&r, sizeof(float[2][16])), *c0 = rig_memory(&r, sizeof(float[16]));
    pto_task gemm[2], add[2];
    pto_tensor c;
    expect_ok(pto_external_tensor(r.rt, c0, PTO_FLOAT32, 2, DIMS(4, 4), &c));
    expect_ok(pto_scope_begin(r.rt));
    for (int k = 0; k < 2; k++) {
        pto_tensor ak, bk, p, next = c;
        expect_ok(pto_external_tensor(r.rt, a[k], PTO_FLOAT32, 2, DIMS(4, 4), &ak));
        expect_ok(pto_external_tensor(r.rt, b[k], PTO_FLOAT32, 2, DIMS(4, 4), &bk));
        expect_ok(pto_temp(r.rt, PTO_FLOAT32, 2, DIMS(4, 4), &p));
        gemm[k] = RIG_SUBMIT(&r, r.hold, pto_input(&ak), pto_input(&bk), pto_output(&p));
        if (fresh) {
            expect_ok(pto_temp(r.rt, PTO_FLOAT32, 2, DIMS(4, 4), &next));
            add[k] = RIG_SUBMIT(&r, r.hold, pto_input(&c), pto_input(&p), pto_output(&next));
        } else {
            add[k] = RIG_SUBMIT(&r, r.hold, pto_inout(&c), pto_input(&p));
        }
        c = next;
    }
    /* A task that only waits for it does not hold its memory. In place it has none. */
    RIG_FANOUT(&r, gemm[0], 2, 2);
    RIG_FANOUT(&r, gemm[1], 2, 2);
    RIG_FANOUT(&r, add[0], fresh ? 2 : 0, fresh ? 2 : 0);
    RIG_FANOUT(&r, add[1], fresh, fresh);
    assert_int_equal(rig_info(&r, gemm[0]).fanin_count, 0);
    assert_int_equal(rig_info(&r, gemm[1]).fanin_count, 0);
    assert_int_equal(rig_info(&r, add[0]).fanin_count, 1);
    assert_int_equal(rig_info(&r, add[1]).fanin_count, 2);
    rig_until(&r, gemm[0], PTO_TASK_RUNNING);
    rig_until(&r, gemm[1], PTO_TASK_RUNNING);
    RIG_WAITS_FOR(&r, add[0], 1);
    RIG_WAITS_FOR(&r, add[1], 2);

    rig_finish(&r, gemm[0], PTO_OK);
    rig_until(&r, add[0], PTO_TASK_RUNNING);
    RIG_WAITS_FOR(&r, add[1], 2);
    rig_finish(&r, gemm[1], PTO_OK);
    RIG_WAITS_FOR(&r, add[1], 1);
    RIG_FANOUT(&r, gemm[0], 2, 2);
    rig_finish(&r, add[0], PTO_OK);
    RIG_FANOUT(&r, gemm[0], 2, 1);
    rig_until(&r, add[1], PTO_TASK_RUNNING);

    expect_ok(pto_scope_end(r.rt));
    rig_until(&r, gemm[0], PTO_TASK_CONSUMED);
    RIG_FANOUT(&r, gemm[1], 2, 1);
    if (fresh) {
        RIG_FANOUT(&r, add[0], 2, 1);
    }
    rig_finish(&r, add[1], PTO_OK);
    rig_until(&r, gemm[1], PTO_TASK_CONSUMED);
    rig_until(&r, add[0], PTO_TASK_CONSUMED);
    rig_until(&r, add[1], PTO_TASK_CONSUMED);
    assert_int_equal(rig_ring(&r, 0, PTO_RING_HEAP).used, 0);
    rig_stop(&r);
}

static void test_bgemm_into_fresh_sums(void **state)
{
    bgemm(state, true);
}

static void test_bgemm_in_place(void **state)
{
    bgemm(state, false);
}

/* ---- Getting memory ----------------------------------------------------------------------- */

static void test_the_first_writer_brings_the_memory(void **state)
{
    rig r;
    void *address = NULL;
    unsigned char got[100];
    rig_start(&r, state, NULL);
    expect_ok(pto_scope_begin(r.rt));
    pto_buffer buffer;
    pto_tensor t;
    expect_ok(pto_create_buffer(r.rt, 100, &buffer));
    assert_int_equal(buffer.bytes, 100);
    expect_ok(pto_managed_tensor(r.rt, &buffer, 0, PTO_UINT8, 1, DIMS(100), &t));
    assert_int_equal(rig_ring(&r, 0, PTO_RING_HEAP).used, 0);
    expect_fail(pto_get_buffer_addr(r.rt, &t, &address), PTO_NOT_WRITTEN, "addr");
    expect_fail(pto_submit(r.rt, r.quick, pto_input(&t)), PTO_NOT_WRITTEN, "submit");
    expect_fail(pto_submit(r.rt, r.quick, pto_inout(&t)), PTO_NOT_WRITTEN, "submit");
    expect_fail(pto_read(r.rt, &t, got, sizeof got), PTO_NOT_WRITTEN, "read");
    /* The first write must cover the whole buffer, densely from its start. */
    pto_tensor part = rig_slice(&t, 0, 99), tail = rig_slice(&t, 1, 100), backwards;
    expect_fail(pto_submit(r.rt, r.quick, pto_output(&part)), PTO_NOT_CONTIGUOUS, "part", "100");
    expect_fail(pto_submit(r.rt, r.quick, pto_output(&tail)), PTO_NOT_CONTIGUOUS, "part", "100");
    expect_ok(pto_tensor_slice(&t, 0, 99, -1, -1, &backwards));
    expect_fail(pto_submit(r.rt, r.quick, pto_output(&backwards)), PTO_NOT_CONTIGUOUS, "submit");
    pto_tensor square, turned;
    expect_ok(pto_tensor_reshape(&t, 2, DIMS(10, 10), &square));
    expect_ok(pto_tensor_transpose(&square, 0, 1, &turned));
    expect_fail(pto_submit(r.rt, r.quick, pto_output(&turned)), PTO_NOT_CONTIGUOUS, "submit");
    assert_int_equal(rig_stats(&r).submitted, 0);
    assert_int_equal(rig_ring(&r, 0, PTO_RING_HEAP).used, 0);

    /* Another shape over the same bytes will do. */
    RIG_SUBMIT(&r, r.fill, pto_output(&square), pto_scalar(5));
    assert_int_equal(rig_ring(&r, 0, PTO_RING_HEAP).used, 128);
    unsigned char *at = rig_address(&r, &t);
    assert_int_equal((uintptr_t)at % 64, 0);
    assert_ptr_equal(rig_address(&r, &tail), at + 1);
    assert_ptr_equal(rig_address(&r, &backwards), at + 99);
    /* From now on parts may be written, in any layout. */
    RIG_SUBMIT(&r, r.fill, pto_output(&tail), pto_scalar(6));
    expect_ok(pto_read(r.rt, &turned, got, sizeof got));
    assert_int_equal(got[0], 5);
    assert_int_equal(got[1], 6);
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

/* Managed memory needs a scope, whichever call asks for it. */
/* Two buffers of an outer lifetime fit exactly into a heap that was used before. */
static void test_two_homes_in_a_drained_heap(void **state)
{
    rig r;
    pto_config config = PTO_CONFIG_INIT;
    config.levels = 1;
    config.heap_bytes = 384;
    rig_start(&r, state, &config);
    for (int64_t used = 1; used <= 384; used += 41) {
        PTO_SCOPE(r.rt) {
            pto_tensor t = rig_temp(&r, used);
            RIG_SUBMIT(&r, r.fill, pto_output(&t), pto_scalar(1));
        }
        PTO_BOUNDARY(r.rt) {
            pto_tensor a = rig_temp(&r, 240), b = rig_temp(&r, 120);
            PTO_BOUNDARY(r.rt) {
                RIG_SUBMIT(&r, r.quick, pto_output(&b), pto_output(&a));
            }
        }
    }
    rig_stop(&r);
}

static void test_no_memory_without_a_scope(void **state)
{
    rig r;
    pto_buffer buffer = {1, 2, 3};
    pto_tensor t, untouched;
    rig_start(&r, state, NULL);
    memset(&t, 0x5a, sizeof t);
    untouched = t;
    expect_fail(pto_create_buffer(r.rt, 64, &buffer), PTO_NO_SCOPE, "scope");
    expect_fail(pto_temp(r.rt, PTO_UINT8, 1, DIMS(64), &t), PTO_NO_SCOPE, "scope");
    expect_fail(pto_alloc(r.rt, PTO_UINT8, 1, DIMS(64), &t), PTO_NO_SCOPE, "scope");
    assert_memory_equal(&t, &untouched, sizeof t);
    assert_true(buffer.owner == 1 && buffer.bytes == 2 && buffer.generation == 3);
    assert_int_equal(rig_stats(&r).buffers, 0);
    rig_stop(&r);
}

/* pto_alloc: memory immediately, so that tasks can fill parts of it in parallel. */
static void test_alloc(void **state)
{
    rig r;
    unsigned char got[256];
    rig_start(&r, state, NULL);
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor t;
    expect_ok(pto_alloc(r.rt, PTO_UINT8, 1, DIMS(256), &t));
    assert_int_equal(rig_ring(&r, 0, PTO_RING_HEAP).used, 256);
    rig_address(&r, &t);
    pto_tensor left = rig_slice(&t, 0, 128), right = rig_slice(&t, 128, 256);
    pto_task a = RIG_SUBMIT(&r, r.hold, pto_output(&left));
    pto_task b = RIG_SUBMIT(&r, r.fill, pto_output(&right), pto_scalar(9));
    pto_task all = RIG_SUBMIT(&r, r.quick, pto_input(&t));
    rig_until(&r, b, PTO_TASK_COMPLETED); /* does not wait for its neighbour */
    RIG_WAITS_FOR(&r, all, 1);
    expect_ok(pto_read(r.rt, &right, got, 128));
    assert_int_equal(got[127], 9);
    rig_finish(&r, a, PTO_OK);
    rig_until(&r, all, PTO_TASK_COMPLETED);
    pto_tensor stale = t;
    expect_ok(pto_scope_end(r.rt));
    expect_fail(pto_submit(r.rt, r.quick, pto_input(&stale)), PTO_STALE, "submit");
    expect_ok(pto_wait(r.rt));
    assert_int_equal(rig_ring(&r, 0, PTO_RING_HEAP).used, 0);
    rig_stop(&r);
}

/* Empty tensors work and use no bytes; a tensor without dims has one element. */
static void test_empty_and_scalar_tensors(void **state)
{
    rig r;
    double value = 0;
    rig_start(&r, state, NULL);
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor empty, one;
    expect_ok(pto_temp(r.rt, PTO_FLOAT32, 2, DIMS(3, 0), &empty));
    expect_ok(pto_temp(r.rt, PTO_FLOAT64, 0, NULL, &one));
    pto_task task = RIG_SUBMIT(&r, r.fill, pto_output(&empty), pto_scalar(1));
    assert_int_equal(rig_info(&r, task).heap_bytes, 0);
    RIG_SUBMIT(&r, r.quick, pto_input(&empty));
    expect_ok(pto_read(r.rt, &empty, &value, 0));
    task = RIG_SUBMIT(&r, r.fill, pto_output(&one), pto_scalar(0));
    assert_int_equal(rig_info(&r, task).heap_bytes, 64);
    value = 1;
    expect_ok(pto_read(r.rt, &one, &value, sizeof value));
    assert_true(value == 0);
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

/* ---- Versions ------------------------------------------------------------------------------ */

static void test_versions(void **state)
{
    rig r;
    unsigned char got[64];
    rig_start(&r, state, NULL);
    expect_ok(pto_scope_begin(r.rt));
    pto_buffer buffer;
    pto_tensor v[4];
    expect_ok(pto_create_buffer(r.rt, 64, &buffer));
    for (uint32_t i = 0; i < 4; i++) {
        expect_ok(pto_managed_tensor(r.rt, &buffer, i, PTO_UINT8, 1, DIMS(64), &v[i]));
        assert_int_equal(v[i].version, i);
    }
    expect_fail(pto_submit(r.rt, r.quick, pto_output(&v[1])), PTO_BAD_VERSION, "1", "0");
    pto_task first = RIG_SUBMIT(&r, r.fill, pto_output(&v[0]), pto_scalar(1));
    expect_fail(pto_submit(r.rt, r.quick, pto_input(&v[1])), PTO_BAD_VERSION, "1", "0");
    expect_fail(pto_submit(r.rt, r.quick, pto_inout(&v[1])), PTO_BAD_VERSION, "1", "0");
    expect_fail(pto_submit(r.rt, r.quick, pto_output(&v[2])), PTO_BAD_VERSION, "2", "0");
    /* Parts of the current one, without a new version. */
    pto_tensor part = rig_slice(&v[0], 0, 32);
    RIG_SUBMIT(&r, r.fill, pto_output(&part), pto_scalar(2));
    RIG_SUBMIT(&r, r.quick, pto_input(&v[0]));
    /* The next one in place, by a task that reads the current one. */
    RIG_SUBMIT(&r, r.copy, pto_input(&v[0]), pto_output(&v[1]));
    expect_fail(pto_submit(r.rt, r.quick, pto_input(&v[0])), PTO_BAD_VERSION, "0", "1");
    expect_fail(pto_submit(r.rt, r.quick, pto_inout(&v[0])), PTO_BAD_VERSION, "0", "1");
    expect_fail(pto_submit(r.rt, r.quick, pto_output(&v[0])), PTO_BAD_VERSION, "0", "1");
    expect_fail(pto_submit(r.rt, r.quick, pto_nodep(pto_input(&v[0]))), PTO_BAD_VERSION, "0");
    expect_fail(pto_read(r.rt, &v[0], got, sizeof got), PTO_BAD_VERSION, "0", "1");
    /* A part of the next one is enough to begin it; both kinds of output in one task agree. */
    pto_tensor low = rig_slice(&v[2], 0, 8), high = rig_slice(&v[2], 8, 16);
    RIG_SUBMIT(&r, r.quick, pto_output(&low), pto_output(&high));
    RIG_SUBMIT(&r, r.quick, pto_inout(&v[2]));
    expect_ok(pto_read(r.rt, &v[2], got, sizeof got));
    assert_int_equal(got[31], 2);
    assert_int_equal(got[32], 1);
    /* All versions share the memory of one owner, held by the scope and the five tasks after it. */
    RIG_FANOUT(&r, first, 6, 1);
    expect_ok(pto_scope_end(r.rt));
    expect_fail(pto_submit(r.rt, r.quick, pto_output(&v[3])), PTO_STALE, "submit");
    rig_stop(&r);
}

/* A refused submit does not change the version. */
static void test_a_refused_submit_begins_no_version(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor t = rig_temp(&r, 64), next = t, unwritten = rig_temp(&r, 64);
    next.version = 1;
    RIG_SUBMIT(&r, r.quick, pto_output(&t));
    expect_fail(pto_submit(r.rt, r.quick, pto_output(&next), pto_input(&unwritten)),
                PTO_NOT_WRITTEN, "1");
    RIG_SUBMIT(&r, r.quick, pto_input(&t));
    RIG_SUBMIT(&r, r.quick, pto_output(&next));
    RIG_SUBMIT(&r, r.quick, pto_input(&next));
    /* The version of user memory means nothing. */
    char *memory = rig_memory(&r, 4);
    pto_tensor user = rig_bytes(&r, memory, 4);
    user.version = 17;
    RIG_SUBMIT(&r, r.quick, pto_input(&user));
    user.version = 3;
    RIG_SUBMIT(&r, r.quick, pto_output(&user));
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

/* ---- Handles -------------------------------------------------------------------------------- */

/* A handle is always refused after its scope, also when another buffer uses its record, and
 * whatever still runs. */
static void test_stale_handles_stay_stale(void **state)
{
    enum { OLD = 16, ROUNDS = 300 };
    rig r;
    static const char zeros[64];
    pto_buffer old_buffer[OLD];
    pto_tensor old[OLD], t;
    rig_start(&r, state, NULL);
    expect_ok(pto_scope_begin(r.rt));
    for (int i = 0; i < OLD; i++) {
        expect_ok(pto_create_buffer(r.rt, 64, &old_buffer[i]));
        expect_ok(pto_managed_tensor(r.rt, &old_buffer[i], 0, PTO_UINT8, 1, DIMS(64), &old[i]));
        if (i % 2) {
            RIG_SUBMIT(&r, r.quick, pto_output(&old[i]));
        }
    }
    expect_ok(pto_scope_end(r.rt));
    for (int round = 0; round < ROUNDS; round++) {
        expect_ok(pto_scope_begin_ex(r.rt, round % 2 ? PTO_SCOPE_BOUNDARY : 0));
        for (int i = 0; i < OLD; i++) {
            pto_tensor fresh = rig_temp(&r, 64);
            for (int j = 0; j < OLD && round == 0; j++) {
                assert_false(fresh.owner == old[j].owner && fresh.generation == old[j].generation);
            }
            RIG_SUBMIT(&r, r.quick, pto_output(&fresh));
        }
        const pto_tensor *stale = &old[round % OLD];
        expect_fail(pto_submit(r.rt, r.quick, pto_input(stale)), PTO_STALE, "submit");
        expect_fail(pto_submit(r.rt, r.quick, pto_output(stale)), PTO_STALE, "submit");
        expect_fail(pto_write(r.rt, stale, zeros, sizeof zeros), PTO_STALE, "write");
        expect_fail(
            pto_managed_tensor(r.rt, &old_buffer[round % OLD], 0, PTO_UINT8, 1, DIMS(64), &t),
            PTO_STALE, "tensor");
        expect_ok(pto_scope_end(r.rt));
    }
    assert_int_equal(rig_stats(&r).buffers, 0);
    assert_int_equal(rig_stats(&r).buffers_peak, OLD);
    rig_stop(&r);
}

/* What a task has brought is the same tensor after the task is recycled, with strides that have no
 * meaning, too. */
static void test_outputs_of_a_recycled_task(void **state)
{
    static const int64_t shapes[][3] = {{1, 4, 1}, {2, 0, 3}, {2, 3, 4}};
    rig r;
    rig_start(&r, state, NULL);
    expect_ok(pto_scope_begin(r.rt));
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        pto_tensor t, turned, got;
        expect_ok(pto_temp(r.rt, PTO_INT32, 3, shapes[i], &t));
        turned = t;
        if (i < 2) {
            expect_ok(pto_tensor_transpose(&t, 0, 1, &turned));
        }
        pto_task task = RIG_SUBMIT(&r, r.quick, pto_output(&turned));
        for (int recycled = 0; recycled < 2; recycled++) {
            expect_ok(pto_task_get_output(r.rt, task, 0, &got));
            assert_int_equal(got.owner, turned.owner);
            assert_int_equal(got.ndim, 3);
            assert_memory_equal(got.shape, turned.shape, 3 * sizeof *got.shape);
            assert_memory_equal(got.strides, turned.strides, 3 * sizeof *got.strides);
            expect_ok(pto_wait(r.rt));
        }
    }
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

/* The task is not complete, so its arguments are still known. What they named may be gone. */
static void test_outputs_that_were_given_up(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor x = rig_temp(&r, 64), last = rig_temp(&r, 64), got;
    pto_task task = RIG_SUBMIT(&r, r.hold, pto_output(&x), pto_output(&last));
    expect_ok(pto_release(r.rt, &x));
    expect_fail(pto_task_get_output(r.rt, task, 0, &got), PTO_STALE, "output 0");
    pto_tensor y = rig_temp(&r, 64); /* in the record of x */
    assert_int_equal((uint32_t)y.owner, (uint32_t)x.owner);
    expect_fail(pto_task_get_output(r.rt, task, 0, &got), PTO_STALE, "output 0");
    expect_ok(pto_task_get_output(r.rt, task, 1, &got));
    assert_int_equal(got.generation, last.generation);
    rig_finish(&r, task, PTO_OK);
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

/* Blocks are numbered on each level: the same number on another one is another block. */
static void test_outputs_on_two_levels(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor outer = rig_temp(&r, 64), got;
    pto_task a = RIG_SUBMIT(&r, r.quick, pto_output(&outer));
    expect_ok(pto_scope_begin_ex(r.rt, PTO_SCOPE_BOUNDARY));
    pto_tensor inner = rig_temp(&r, 64);
    pto_task b = RIG_SUBMIT(&r, r.quick, pto_output(&inner));
    expect_ok(pto_wait(r.rt));
    rig_until(&r, a, PTO_TASK_COMPLETED); /* and both are recycled */
    rig_until(&r, b, PTO_TASK_COMPLETED);
    expect_ok(pto_task_get_output(r.rt, a, 0, &got));
    assert_int_equal(got.generation, outer.generation);
    expect_ok(pto_task_get_output(r.rt, b, 0, &got));
    assert_int_equal(got.generation, inner.generation);
    expect_ok(pto_scope_end(r.rt));
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

/* Memory that pto_alloc took after a task is not that of the task. */
static void test_memory_behind_that_of_a_task(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor x = rig_temp(&r, 64), behind, got;
    pto_task task = RIG_SUBMIT(&r, r.quick, pto_output(&x));
    expect_ok(pto_alloc(r.rt, PTO_UINT8, 1, DIMS(64), &behind));
    expect_ok(pto_release(r.rt, &x));
    rig_until(&r, task, PTO_TASK_CONSUMED);
    assert_int_equal(rig_info(&r, task).heap_bytes, 0);
    expect_fail(pto_task_get_output(r.rt, task, 0, &got), PTO_BAD_TASK, "recycled");
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

/* Handles that were never issued. */
static void test_forged_handles(void **state)
{
    rig r;
    void *address = NULL;
    rig_start(&r, state, NULL);
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor t = rig_temp(&r, 64);
    RIG_SUBMIT(&r, r.quick, pto_output(&t));
    static const uint64_t owners[] = {1, 2, 77, UINT32_MAX, UINT64_C(1) << 32, UINT64_MAX};
    for (size_t i = 0; i < sizeof owners / sizeof *owners; i++) {
        pto_tensor forged = t;
        forged.owner ^= owners[i];
        if (forged.owner == 0) {
            continue; /* a tensor of the user, without storage */
        }
        expect_fail(pto_submit(r.rt, r.quick, pto_input(&forged)), PTO_STALE, "submit");
        expect_fail(pto_get_buffer_addr(r.rt, &forged, &address), PTO_STALE, "addr");
    }
    pto_tensor forged = t;
    forged.generation++;
    expect_fail(pto_submit(r.rt, r.quick, pto_input(&forged)), PTO_STALE, "submit");
    /* Larger than its buffer. */
    forged = t;
    forged.storage_bytes = 128;
    forged.shape[0] = 128;
    expect_fail(pto_submit(r.rt, r.quick, pto_input(&forged)), PTO_OUT_OF_BOUNDS, "128", "64");
    expect_fail(pto_submit(r.rt, r.quick, pto_output(&forged)), PTO_OUT_OF_BOUNDS, "128", "64");
    assert_int_equal(rig_stats(&r).submitted, 1);
    /* The record of a tensor that was given up is free: it has no generation, not even 0. */
    pto_tensor gone = rig_temp(&r, 0), other = rig_temp(&r, 0);
    expect_ok(pto_release(r.rt, &gone));
    gone.owner = (uint32_t)gone.owner;
    gone.generation = 0;
    for (gone.version = 0; gone.version < 64; gone.version++) {
        expect_fail(pto_submit(r.rt, r.quick, pto_output(&gone)), PTO_STALE, "not alive");
        expect_fail(pto_release(r.rt, &gone), PTO_STALE, "another runtime");
    }
    RIG_SUBMIT(&r, r.quick, pto_output(&other));
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

/* ---- In and out ---------------------------------------------------------------------------- */

static void test_read_waits_for_writers_only(void **state)
{
    rig r;
    unsigned char got[64];
    rig_start(&r, state, NULL);
    unsigned char *memory = rig_memory(&r, 64);
    memset(memory, 0, sizeof(unsigned char[64]));
    pto_tensor t = rig_bytes(&r, memory, 64);
    pto_tensor left = rig_slice(&t, 0, 32), right = rig_slice(&t, 32, 64);
    pto_task reader = RIG_SUBMIT(&r, r.hold, pto_input(&t));
    expect_ok(pto_read(r.rt, &t, got, 64)); /* a reader does not wait for readers */
    rig_finish(&r, reader, PTO_OK);

    pto_task writer = RIG_SUBMIT(&r, r.hold, pto_output(&left));
    RIG_SUBMIT(&r, r.fill, pto_inout(&left), pto_scalar(4));
    RIG_SUBMIT(&r, r.fill, pto_output(&right), pto_scalar(3));
    expect_ok(pto_read(r.rt, &right, got, 32)); /* nor for the neighbour */
    assert_int_equal(got[31], 3);
    rig_later later = {.status = PTO_OK};
    rig_later_start(&later, &r, writer, 20000);
    expect_ok(pto_read(r.rt, &t, got, 64));
    assert_true(atomic_load(&later.ending));
    assert_int_equal(got[0], 4);
    assert_int_equal(got[63], 3);
    rig_later_join(&later);
    rig_stop(&r);
}

static void test_write_waits_for_everybody(void **state)
{
    rig r;
    unsigned char ones[64];
    rig_start(&r, state, NULL);
    unsigned char *memory = rig_memory(&r, 64);
    memset(memory, 0, sizeof(unsigned char[64]));
    memset(ones, 1, sizeof ones);
    pto_tensor t = rig_bytes(&r, memory, 64);
    pto_tensor left = rig_slice(&t, 0, 32), right = rig_slice(&t, 32, 64);
    pto_task reader = RIG_SUBMIT(&r, r.hold, pto_input(&left));
    expect_ok(pto_write(r.rt, &right, ones, 32)); /* the neighbour's reader does not matter */
    assert_int_equal(memory[32], 1);
    rig_later later = {.status = PTO_OK, .look = memory, .look_bytes = 32, .expected = 0};
    rig_later_start(&later, &r, reader, 20000);
    expect_ok(pto_write(r.rt, &t, ones, 64));
    assert_true(atomic_load(&later.ending));
    rig_later_join(&later);
    assert_int_equal(memory[0], 1);
    rig_stop(&r);
}

/* Dense outside, strided inside; the first write allocates managed memory. */
static void test_read_and_write_layouts(void **state)
{
    rig r;
    int32_t in[12], out[12];
    const int32_t minus[] = {-1, -2, -3};
    rig_start(&r, state, NULL);
    expect_ok(pto_scope_begin(r.rt));
    for (int i = 0; i < 12; i++) {
        in[i] = i;
    }
    pto_tensor t, turned, column;
    expect_ok(pto_temp(r.rt, PTO_INT32, 2, DIMS(3, 4), &t));
    expect_ok(pto_tensor_transpose(&t, 0, 1, &turned));
    expect_ok(pto_tensor_slice(&t, 1, 2, 3, 1, &column));
    expect_fail(pto_write(r.rt, &turned, in, sizeof in), PTO_NOT_CONTIGUOUS, "48");
    expect_fail(pto_write(r.rt, &column, in, sizeof in), PTO_NOT_CONTIGUOUS, "48");
    expect_fail(pto_write(r.rt, &t, in, sizeof in - 1), PTO_BUFFER_TOO_SMALL, "47", "48");
    expect_fail(pto_get_buffer_addr(r.rt, &t, (void *[]){NULL}), PTO_NOT_WRITTEN, "addr");
    expect_ok(pto_write(r.rt, &t, in, sizeof in));
    expect_fail(pto_read(r.rt, &t, out, sizeof out - 1), PTO_BUFFER_TOO_SMALL, "47", "48");
    expect_ok(pto_read(r.rt, &turned, out, sizeof out));
    for (int i = 0; i < 12; i++) {
        assert_int_equal(out[i], i % 3 * 4 + i / 3);
    }
    expect_ok(pto_write(r.rt, &column, minus, sizeof minus));
    RIG_SUBMIT(&r, r.quick, pto_inout(&t));
    expect_ok(pto_read(r.rt, &t, out, sizeof out));
    for (int i = 0; i < 12; i++) {
        assert_int_equal(out[i], i % 4 == 2 ? -(i / 4) - 1 : i);
    }
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

int main(void)
{
    const rig_case cases[] = {
        RIG_CASE(test_the_life_of_a_buffer),
        RIG_CASE(test_late_consumers_count),
        RIG_CASE(test_a_consumer_counts_once),
        RIG_CASE(test_bgemm_into_fresh_sums),
        RIG_CASE(test_bgemm_in_place),
        RIG_CASE(test_the_first_writer_brings_the_memory),
        RIG_CASE(test_two_homes_in_a_drained_heap),
        RIG_CASE(test_no_memory_without_a_scope),
        RIG_CASE(test_alloc),
        RIG_CASE(test_empty_and_scalar_tensors),
        RIG_CASE(test_versions),
        RIG_CASE(test_a_refused_submit_begins_no_version),
        RIG_CASE(test_stale_handles_stay_stale),
        RIG_CASE(test_outputs_of_a_recycled_task),
        RIG_CASE(test_outputs_that_were_given_up),
        RIG_CASE(test_outputs_on_two_levels),
        RIG_CASE(test_memory_behind_that_of_a_task),
        RIG_CASE(test_forged_handles),
        RIG_CASE(test_read_waits_for_writers_only),
        RIG_CASE(test_write_waits_for_everybody),
        RIG_CASE(test_read_and_write_layouts),
    };
    return rig_run("buffer", cases, sizeof cases / sizeof *cases);
}
