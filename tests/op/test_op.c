/* test_op.c - operators: the table, and running one where its tensors are. */
#include "../tensor/tensors.h"

#include <pthread.h>

#include <pto/kernel.h>
#include <pto/op.h>

#include "device/device.h"

static const pto_device cpu = {PTO_DEVICE_CPU, 0};

static pto_tensor tensor_on(pto_device_type type, int32_t index)
{
    static float memory[4];
    pto_tensor t;
    expect_ok(pto_tensor_init(&t, memory, sizeof memory, PTO_FLOAT32, 1, DIMS(4), NULL, 0));
    t.device = (pto_device){type, index};
    return t;
}

/* ---- Implementations ---------------------------------------------------------------------- */

/* What the implementation saw when it was last called. */
static pto_op_call seen;
static pto_device seen_current;
static int calls;

static pto_status look(const pto_op_call *call)
{
    seen = *call;
    seen_current = pto_device_current();
    calls++;
    return PTO_OK;
}

static pto_status look_elsewhere(const pto_op_call *call)
{
    (void)call;
    return PTO_OK;
}

static pto_status fail_with_words(const pto_op_call *call)
{
    (void)look(call);
    return pto_fail(PTO_FULL, "row %d is singular", 23);
}

static pto_status fail_silently(const pto_op_call *call)
{
    (void)look(call);
    return PTO_FULL;
}

static pto_status go_elsewhere(const pto_op_call *call)
{
    (void)call;
    return pto_device_set_current((pto_device){PTO_DEVICE_QY, 8});
}

/* ---- A device ----------------------------------------------------------------------------- */

/* What is added stays, so each test that needs one has an index of its own. */
typedef struct fake {
    int currents;
    int fail_at; /* the call that fails, counted from 1; 0: none */
} fake;

static pto_status fake_current(void *self)
{
    fake *f = self;
    f->currents++;
    return f->currents == f->fail_at ? pto_fail(PTO_SYSTEM, "the fake is gone") : PTO_OK;
}

static pto_device add_fake(fake *f, int32_t index)
{
    const pto_device device = {PTO_DEVICE_NVIDIA, index};
    const pto_device_ops ops = {.size = sizeof ops, .self = f, .set_current = fake_current};
    expect_ok(pto_device_add(device, &ops));
    return device;
}

/* ---- The table ---------------------------------------------------------------------------- */

static void an_operator_has_a_name(void **state)
{
    (void)state;
    pto_op *op = NULL;
    char name[] = "negate";
    expect_ok(pto_op_create(name, &op));
    name[0] = 'x';
    assert_string_equal(pto_op_name(op), "negate");
    pto_op_destroy(op);
    pto_op_destroy(NULL);
    assert_non_null(pto_op_name(NULL));
    expect_fail(pto_op_create(NULL, &op), PTO_NULL_ARGUMENT, "name");
    expect_fail(pto_op_create("negate", NULL), PTO_NULL_ARGUMENT, "op is NULL");
    expect_fail(pto_op_create("", &op), PTO_BAD_PARAM, "empty");
}

static void the_built_in_one_stays(void **state)
{
    (void)state;
    pto_op_fn fn = NULL;
    pto_op_destroy(pto_fill_op());
    assert_string_equal(pto_op_name(pto_fill_op()), "fill");
    expect_ok(pto_op_lookup(pto_fill_op(), PTO_DEVICE_CPU, &fn));
    assert_non_null(fn);
    for (int type = PTO_DEVICE_CPU + 1; type <= PTO_DEVICE_QY; type++) {
        expect_fail(pto_op_lookup(pto_fill_op(), (pto_device_type)type, &fn), PTO_NOT_IMPLEMENTED,
                    "fill", pto_device_name((pto_device_type)type));
    }
}

static void expect_table(const pto_op *op, const pto_op_fn *want)
{
    for (int type = 0; type < PTOI_DEVICE_TYPES; type++) {
        pto_op_fn fn = NULL;
        pto_status s = pto_op_lookup(op, (pto_device_type)type, &fn);
        assert_int_equal(s, want[type] ? PTO_OK : PTO_NOT_IMPLEMENTED);
        assert_ptr_equal((void *)(uintptr_t)fn, (void *)(uintptr_t)want[type]);
    }
}

static void registering_fills_the_table(void **state)
{
    (void)state;
    pto_op *op = NULL;
    pto_op_fn want[PTOI_DEVICE_TYPES] = {NULL};
    const pto_device_type some[] = {PTO_DEVICE_QY, PTO_DEVICE_CPU, PTO_DEVICE_MOORE};
    expect_ok(pto_op_create("negate", &op));
    expect_table(op, want);

    expect_ok(pto_op_register(op, PTO_DEVICE_MOORE, look, false));
    want[PTO_DEVICE_MOORE] = look;
    expect_table(op, want);

    /* What is there stays, unless it is to be replaced. */
    expect_ok(pto_op_register_many(op, some, 3, look_elsewhere, false));
    want[PTO_DEVICE_QY] = want[PTO_DEVICE_CPU] = look_elsewhere;
    expect_table(op, want);
    expect_ok(pto_op_register_many(op, some, 3, look_elsewhere, true));
    want[PTO_DEVICE_MOORE] = look_elsewhere;
    expect_table(op, want);
    expect_ok(pto_op_register_many(op, NULL, 0, look, true));
    expect_table(op, want);

    expect_ok(pto_op_register_all(op, look, false));
    for (int type = 0; type < PTOI_DEVICE_TYPES; type++) {
        want[type] = want[type] ? want[type] : look;
    }
    expect_table(op, want);

    /* Taken away again, some and all. */
    expect_ok(pto_op_register(op, PTO_DEVICE_CPU, NULL, true));
    want[PTO_DEVICE_CPU] = NULL;
    expect_table(op, want);
    expect_ok(pto_op_register_all(op, look, true));
    expect_ok(pto_op_register_all(op, NULL, true));
    memset(want, 0, sizeof want);
    expect_table(op, want);
    pto_op_destroy(op);
}

static void bad_arguments_change_nothing(void **state)
{
    (void)state;
    pto_op *op = NULL;
    const pto_op_fn none[PTOI_DEVICE_TYPES] = {NULL};
    const pto_device_type bad[] = {PTO_DEVICE_CPU, (pto_device_type)31};
    pto_op_fn fn = look;
    expect_ok(pto_op_create("negate", &op));
    expect_fail(pto_op_register(NULL, PTO_DEVICE_CPU, look, false), PTO_NULL_ARGUMENT, "op");
    expect_fail(pto_op_register_all(NULL, look, false), PTO_NULL_ARGUMENT, "op");
    expect_fail(pto_op_register(op, PTO_DEVICE_CPU, NULL, false), PTO_NULL_ARGUMENT, "negate",
                "fn");
    expect_fail(pto_op_register_all(op, NULL, false), PTO_NULL_ARGUMENT, "negate", "fn");
    expect_fail(pto_op_register_many(op, NULL, 2, look, true), PTO_NULL_ARGUMENT, "types", "2");
    expect_fail(pto_op_register_many(op, bad, 2, look, true), PTO_BAD_DEVICE, "31", "0 .. 10");
    expect_fail(pto_op_register(op, (pto_device_type)-1, look, true), PTO_BAD_DEVICE, "negate");
    expect_fail(pto_op_lookup(NULL, PTO_DEVICE_CPU, &fn), PTO_NULL_ARGUMENT, "op");
    expect_fail(pto_op_lookup(op, PTO_DEVICE_CPU, NULL), PTO_NULL_ARGUMENT, "fn");
    expect_fail(pto_op_lookup(op, (pto_device_type)31, &fn), PTO_BAD_DEVICE, "negate", "31");
    expect_fail(pto_op_lookup(op, PTO_DEVICE_CPU, &fn), PTO_NOT_IMPLEMENTED, "negate", "cpu");
    assert_true(fn == look); /* untouched */
    expect_table(op, none);
    pto_op_destroy(op);
}

/* ---- Running ------------------------------------------------------------------------------ */

static void an_implementation_sees_the_call(void **state)
{
    (void)state;
    pto_op *op = NULL;
    pto_tensor out[2] = {tensor_on(PTO_DEVICE_CPU, 0), tensor_on(PTO_DEVICE_CPU, 0)};
    pto_tensor in[3] = {out[0], out[0], out[0]};
    int params = 5;
    expect_ok(pto_op_create("negate", &op));
    expect_ok(pto_op_register(op, PTO_DEVICE_CPU, look, false));
    calls = 0;
    expect_ok(pto_op_run(op, out, 2, in, 3, &params));
    assert_int_equal(calls, 1);
    assert_ptr_equal(seen.op, op);
    assert_ptr_equal(seen.outputs, out);
    assert_ptr_equal(seen.inputs, in);
    assert_int_equal(seen.n_outputs, 2);
    assert_int_equal(seen.n_inputs, 3);
    assert_ptr_equal(seen.params, &params);
    assert_true(ptoi_device_equal(seen.device, cpu));
    /* Inputs alone, and nothing at all: then it is the current device that counts. */
    expect_ok(pto_op_run(op, NULL, 0, in, 1, NULL));
    assert_null(seen.params);
    expect_ok(pto_op_run(op, NULL, 0, NULL, 0, NULL));
    assert_int_equal(calls, 3);
    expect_ok(pto_device_set_current((pto_device){PTO_DEVICE_METAX, 2}));
    expect_fail(pto_op_run(op, NULL, 0, NULL, 0, NULL), PTO_NOT_IMPLEMENTED, "negate", "metax:2");
    expect_ok(pto_op_register(op, PTO_DEVICE_METAX, look, false));
    expect_ok(pto_op_run(op, NULL, 0, NULL, 0, NULL));
    assert_int_equal(seen.device.type, PTO_DEVICE_METAX);
    assert_int_equal(seen.device.index, 2);
    expect_ok(pto_device_set_current(cpu));
    pto_op_destroy(op);
}

static void what_cannot_run_is_refused(void **state)
{
    (void)state;
    pto_op *op = NULL;
    pto_tensor a = tensor_on(PTO_DEVICE_NVIDIA, 0), b = tensor_on(PTO_DEVICE_NVIDIA, 1);
    pto_tensor bad = tensor_on((pto_device_type)66, 0), second = tensor_on(PTO_DEVICE_CPU, 1);
    pto_tensor negative = tensor_on(PTO_DEVICE_QY, -7);
    expect_ok(pto_op_create("negate", &op));
    expect_ok(pto_op_register_all(op, look, false));
    calls = 0;
    expect_fail(pto_op_run(NULL, &a, 1, &a, 1, NULL), PTO_NULL_ARGUMENT, "op is NULL");
    expect_fail(pto_op_run(op, NULL, 7, &a, 1, NULL), PTO_NULL_ARGUMENT, "outputs", "7");
    expect_fail(pto_op_run(op, &a, 1, NULL, 8, NULL), PTO_NULL_ARGUMENT, "inputs", "8");
    expect_fail(pto_op_run(op, &a, 1, &b, 1, NULL), PTO_DEVICES_DIFFER,
                "negate: outputs[0] is on nvidia:0, inputs[0] on nvidia:1", "test_op.c:");
    expect_fail(pto_op_run(op, (pto_tensor[]){a, a, b}, 3, NULL, 0, NULL), PTO_DEVICES_DIFFER,
                "outputs[0] is on nvidia:0, outputs[2] on nvidia:1");
    expect_fail(pto_op_run(op, NULL, 0, (pto_tensor[]){b, a}, 2, NULL), PTO_DEVICES_DIFFER,
                "inputs[0] is on nvidia:1, inputs[1] on nvidia:0");
    /* Unknown ones anywhere. */
    expect_fail(pto_op_run(op, &bad, 1, &bad, 1, NULL), PTO_BAD_DEVICE, "negate: outputs[0]", "66");
    expect_fail(pto_op_run(op, &a, 1, &bad, 1, NULL), PTO_BAD_DEVICE, "negate: inputs[0]", "66");
    expect_fail(pto_op_run(op, &second, 1, &second, 1, NULL), PTO_BAD_DEVICE, "cpu:1");
    expect_fail(pto_op_run(op, NULL, 0, &negative, 1, NULL), PTO_BAD_DEVICE, "inputs[0]", "-7");
    assert_int_equal(calls, 0);
    pto_op_destroy(op);
}

static void the_device_is_current_meanwhile(void **state)
{
    (void)state;
    static fake f, g;
    pto_op *op = NULL;
    const pto_device here = add_fake(&f, 10), there = add_fake(&g, 11);
    pto_tensor t = tensor_on(there.type, there.index);
    expect_ok(pto_op_create("negate", &op));
    /* Without an implementation no device is touched. */
    expect_fail(pto_op_run(op, &t, 1, NULL, 0, NULL), PTO_NOT_IMPLEMENTED,
                "negate: no implementation for nvidia:11");
    assert_int_equal(g.currents, 0);
    expect_ok(pto_op_register(op, PTO_DEVICE_NVIDIA, look, false));

    expect_ok(pto_op_run(op, &t, 1, NULL, 0, NULL)); /* from the cpu and back */
    assert_true(ptoi_device_equal(seen_current, there));
    assert_true(ptoi_device_equal(pto_device_current(), cpu));
    assert_int_equal(g.currents, 1);

    expect_ok(pto_device_set_current(here));
    expect_ok(pto_op_run(op, &t, 1, NULL, 0, NULL));
    assert_true(ptoi_device_equal(seen_current, there));
    assert_true(ptoi_device_equal(pto_device_current(), here));
    assert_int_equal(f.currents, 2);
    assert_int_equal(g.currents, 2);

    expect_ok(pto_device_set_current(there)); /* it is current already */
    expect_ok(pto_op_run(op, &t, 1, NULL, 0, NULL));
    assert_int_equal(g.currents, 3);
    expect_ok(pto_device_set_current(cpu));

    /* An implementation that goes away does not take the caller with it. */
    t.device = cpu;
    expect_ok(pto_op_register(op, PTO_DEVICE_CPU, go_elsewhere, false));
    expect_ok(pto_op_run(op, &t, 1, NULL, 0, NULL));
    assert_true(ptoi_device_equal(pto_device_current(), cpu));
    pto_op_destroy(op);
}

static void the_first_failure_counts(void **state)
{
    (void)state;
    static fake f, g;
    pto_op *op = NULL;
    const pto_device here = add_fake(&f, 20), there = add_fake(&g, 21);
    pto_tensor t = tensor_on(there.type, there.index);
    expect_ok(pto_op_create("negate", &op));
    expect_ok(pto_device_set_current(here));

    /* The implementation fails; the way back does not. */
    expect_ok(pto_op_register(op, PTO_DEVICE_NVIDIA, fail_with_words, true));
    expect_fail(pto_op_run(op, &t, 1, NULL, 0, NULL), PTO_FULL, "row 23 is singular");
    assert_true(ptoi_device_equal(pto_device_current(), here));
    expect_ok(pto_op_register(op, PTO_DEVICE_NVIDIA, fail_silently, true));
    expect_fail(pto_op_run(op, &t, 1, NULL, 0, NULL), PTO_FULL, "negate", "nvidia:21",
                pto_status_text(PTO_FULL));
    assert_true(ptoi_device_equal(pto_device_current(), here));

    /* Both fail. */
    expect_ok(pto_op_register(op, PTO_DEVICE_NVIDIA, fail_with_words, true));
    f.fail_at = f.currents + 1;
    expect_fail(pto_op_run(op, &t, 1, NULL, 0, NULL), PTO_FULL, "row 23 is singular");
    assert_true(ptoi_device_equal(pto_device_current(), there));

    /* The way back alone. */
    expect_ok(pto_device_set_current(here));
    expect_ok(pto_op_register(op, PTO_DEVICE_NVIDIA, look, true));
    f.fail_at = f.currents + 1;
    expect_fail(pto_op_run(op, &t, 1, NULL, 0, NULL), PTO_SYSTEM, "nvidia:20", "gone");
    assert_true(ptoi_device_equal(pto_device_current(), there));

    /* The way there: nothing runs. */
    expect_ok(pto_device_set_current(here));
    calls = 0;
    g.fail_at = g.currents + 1;
    expect_fail(pto_op_run(op, &t, 1, NULL, 0, NULL), PTO_SYSTEM, "nvidia:21", "gone");
    assert_int_equal(calls, 0);
    assert_true(ptoi_device_equal(pto_device_current(), here));
    expect_ok(pto_device_set_current(cpu));
    pto_op_destroy(op);
}

/* ---- Several at a time -------------------------------------------------------------------- */

/* Set before the implementation is registered, read by the implementation: registering
 * publishes. */
static int plain_first, plain_second;

static pto_status read_first(const pto_op_call *call)
{
    (void)call;
    return plain_first == 1 ? PTO_OK : PTO_CORRUPT;
}

static pto_status read_second(const pto_op_call *call)
{
    (void)call;
    return plain_second == 2 ? PTO_OK : PTO_CORRUPT;
}

enum { ROUNDS = 2000 };

/* Runs until it has seen the second implementation, or has checked for long enough. */
static void *run_meanwhile(void *op)
{
    pto_tensor t = {.dtype = PTO_FLOAT32};
    uintptr_t wrong = 0;
    for (int i = 0; i < ROUNDS; i++) {
        pto_status s = pto_op_run(op, &t, 1, &t, 1, NULL);
        wrong += s != PTO_OK && s != PTO_NOT_IMPLEMENTED;
    }
    return (void *)wrong;
}

static void threads_run_while_others_register(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < test_effort(20); round++) {
        pto_op *op = NULL;
        pthread_t runners[2];
        expect_ok(pto_op_create("negate", &op));
        plain_first = plain_second = 0;
        for (size_t i = 0; i < 2; i++) {
            assert_int_equal(pthread_create(&runners[i], NULL, run_meanwhile, op), 0);
        }
        plain_first = 1;
        expect_ok(pto_op_register(op, PTO_DEVICE_CPU, read_first, false));
        plain_second = 2;
        expect_ok(pto_op_register(op, PTO_DEVICE_CPU, read_second, true));
        expect_ok(pto_op_register(op, PTO_DEVICE_CPU, NULL, true));
        for (size_t i = 0; i < 2; i++) {
            void *wrong;
            assert_int_equal(pthread_join(runners[i], &wrong), 0);
            assert_null(wrong);
        }
        pto_op_destroy(op);
    }
}

static pto_op *contested;

static void *register_first(void *fn)
{
    pto_op_fn mine = fn ? look : look_elsewhere, found = NULL;
    bool good = pto_op_register_all(contested, mine, false) == PTO_OK &&
                pto_op_lookup(contested, PTO_DEVICE_CPU, &found) == PTO_OK;
    return good ? (void *)(uintptr_t)found : NULL;
}

/* Without `replace` the first one stays: all see the same one ever after. */
static void one_of_several_registers(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < test_effort(50); round++) {
        pthread_t other;
        void *theirs, *ours;
        pto_op_fn after = NULL;
        expect_ok(pto_op_create("negate", &contested));
        assert_int_equal(pthread_create(&other, NULL, register_first, NULL), 0);
        ours = register_first(&other);
        assert_int_equal(pthread_join(other, &theirs), 0);
        expect_ok(pto_op_lookup(contested, PTO_DEVICE_CPU, &after));
        assert_non_null(ours);
        assert_ptr_equal(ours, theirs);
        assert_ptr_equal(ours, (void *)(uintptr_t)after);
        pto_op_destroy(contested);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_operator_has_a_name),
        cmocka_unit_test(the_built_in_one_stays),
        cmocka_unit_test(registering_fills_the_table),
        cmocka_unit_test(bad_arguments_change_nothing),
        cmocka_unit_test(an_implementation_sees_the_call),
        cmocka_unit_test(what_cannot_run_is_refused),
        cmocka_unit_test(the_device_is_current_meanwhile),
        cmocka_unit_test(the_first_failure_counts),
        cmocka_unit_test(threads_run_while_others_register),
        cmocka_unit_test(one_of_several_registers),
    };
    return cmocka_run_group_tests_name("op", tests, NULL, NULL);
}
