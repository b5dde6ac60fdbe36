/* test_copy.c - pto_read, pto_write and pto_wait_tensor: what they wait for, and empty tensors. */
#include "../runtime/rig.h"

static bool is_complete(rig *r, pto_task task)
{
    return rig_info(r, task).state >= PTO_TASK_COMPLETED;
}

/* It waits for the writers of the tensor, for nobody else, and copies nothing. */
static void test_waiting_for_a_tensor(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    unsigned char *bytes = rig_memory(&r, 64);
    pto_tensor all = rig_bytes(&r, bytes, 64), low = rig_slice(&all, 0, 32),
               high = rig_slice(&all, 32, 64);
    expect_ok(pto_scope_begin(r.rt)); /* keeps reports of tasks that are complete */
    pto_task other = RIG_SUBMIT(&r, r.hold, pto_output(&high));
    RIG_SUBMIT(&r, r.fill, pto_output(&low), pto_scalar(3));
    pto_task second = RIG_SUBMIT(&r, r.fill, pto_output(&low), pto_scalar(4));
    pto_task reader = RIG_SUBMIT(&r, r.hold, pto_input(&low));
    expect_ok(pto_wait_tensor(r.rt, &low));
    assert_true(is_complete(&r, second));
    assert_int_equal(bytes[0], 4);
    assert_int_equal(bytes[31], 4);
    assert_false(is_complete(&r, other));
    assert_false(is_complete(&r, reader));
    rig_finish(&r, other, PTO_OK);
    expect_ok(pto_wait_tensor(r.rt, &all));
    assert_false(is_complete(&r, reader));
    rig_finish(&r, reader, PTO_OK);
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

/* It fails where pto_read fails. */
static void test_a_tensor_that_cannot_be_had(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    pto_tensor t, none = {0};
    const char who[] = "wait for a tensor";
    expect_fail(pto_wait_tensor(NULL, &none), PTO_NULL_ARGUMENT, who);
    expect_fail(pto_wait_tensor(r.rt, NULL), PTO_NULL_ARGUMENT, who);
    PTO_SCOPE(r.rt) {
        expect_ok(pto_temp(r.rt, PTO_UINT8, 1, DIMS(8), &t));
        expect_fail(pto_wait_tensor(r.rt, &t), PTO_NOT_WRITTEN, who, "8 bytes");
        RIG_SUBMIT(&r, r.fails, pto_output(&t));
        expect_fail(pto_wait_tensor(r.rt, &t), PTO_POISONED, who, "'fails'");
        RIG_SUBMIT(&r, r.fill, pto_output(&t), pto_scalar(5)); /* heals it */
        expect_ok(pto_wait_tensor(r.rt, &t));
        assert_int_equal(*rig_address(&r, &t), 5);
        pto_tensor next = t;
        next.version++;
        expect_fail(pto_wait_tensor(r.rt, &next), PTO_BAD_VERSION, who);
    }
    expect_fail(pto_wait_tensor(r.rt, &t), PTO_STALE, who);
    expect_ok(pto_clear_error(r.rt));
    rig_stop(&r);
}

/* A tensor without elements needs no memory on either side. */
static void test_empty_copies(void **state)
{
    rig r;
    rig_start(&r, state, NULL);
    unsigned char *bytes = rig_memory(&r, 8);
    bytes[0] = 7;
    pto_tensor user, nowhere, eight = rig_bytes(&r, bytes, 8);
    expect_ok(pto_tensor_slice(&eight, 0, 4, 4, 1, &user));
    expect_ok(pto_external_tensor(r.rt, NULL, PTO_FLOAT32, 2, DIMS(3, 0), &nowhere));
    const pto_tensor *const empty[] = {&user, &nowhere};
    for (int i = 0; i < 2; i++) {
        expect_ok(pto_read(r.rt, empty[i], NULL, 0));
        expect_ok(pto_write(r.rt, empty[i], NULL, 0));
        expect_ok(pto_read(r.rt, empty[i], bytes, 8));
        expect_ok(pto_write(r.rt, empty[i], bytes, 8));
        expect_ok(pto_wait_tensor(r.rt, empty[i]));
    }
    assert_int_equal(bytes[0], 7);
    expect_fail(pto_read(r.rt, &eight, NULL, 0), PTO_NULL_ARGUMENT, "read", "NULL", "8 bytes");
    expect_fail(pto_write(r.rt, &eight, NULL, 8), PTO_NULL_ARGUMENT, "write", "NULL", "8 bytes");
    PTO_SCOPE(r.rt) {
        pto_tensor t, part;
        expect_ok(pto_alloc(r.rt, PTO_UINT8, 1, DIMS(8), &t));
        expect_ok(pto_tensor_slice(&t, 0, 8, 8, 1, &part));
        expect_ok(pto_write(r.rt, &part, NULL, 0));
        expect_ok(pto_read(r.rt, &part, NULL, 0));
    }
    rig_stop(&r);
}

int main(void)
{
    const rig_case cases[] = {
        RIG_CASE(test_waiting_for_a_tensor),
        RIG_CASE(test_a_tensor_that_cannot_be_had),
        RIG_CASE(test_empty_copies),
    };
    return rig_run("copy", cases, sizeof cases / sizeof *cases);
}
