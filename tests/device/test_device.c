/* test_device.c - the devices of the process, and the one that is current on a thread. */
#include "../tensor/tensors.h"

#include <pthread.h>

#include <pto/device.h>
#include <pto/kernel.h>

#include "device/device.h"

/* A device that counts, and fails on request. Devices are never removed, so each test has an index
 * of its own. */
typedef struct fake {
    uint64_t currents;
    pto_status status; /* what set_current returns */
    const char *words; /* and says, if not NULL */
} fake;

static pto_status fake_current(void *self)
{
    fake *f = self;
    f->currents++;
    return f->status && f->words ? pto_fail(f->status, "%s", f->words) : f->status;
}

static pto_device_ops ops_of(fake *f)
{
    return (pto_device_ops){.size = sizeof(pto_device_ops), .self = f, .set_current = fake_current};
}

static const pto_device cpu = {PTO_DEVICE_CPU, 0};

static void expect_current(pto_device want)
{
    pto_device got = pto_device_current();
    assert_int_equal(got.type, want.type);
    assert_int_equal(got.index, want.index);
}

static void the_cpu_is_built_in(void **state)
{
    (void)state;
    pto_device_ops ops = {0};
    void *memory = NULL;
    char there[8] = "", back[8] = "";
    expect_current(cpu);
    expect_ok(pto_device_get(cpu, &ops));
    assert_int_equal(ops.size, sizeof ops);
    expect_ok(ops.alloc(ops.self, 100, &memory));
    assert_int_equal((uintptr_t)memory % 64, 0);
    memset(memory, 1, 100);
    ops.free(ops.self, memory, 100);
    expect_ok(ops.copy_in(ops.self, there, "seven", 6));
    expect_ok(ops.copy_out(ops.self, back, there, 6));
    assert_string_equal(back, "seven");
    expect_fail(ops.alloc(ops.self, UINT64_MAX, &memory), PTO_OUT_OF_MEMORY,
                "18446744073709551615");
    expect_ok(pto_device_set_current(cpu));
    expect_current(cpu);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    static fake f;
    pto_device_ops ops = ops_of(&f), got;
    static const struct {
        pto_device device;
        const char *says;
    } bad[] = {
        {{(pto_device_type)11, 0}, "11"},
        {{(pto_device_type)-1, 0}, "4294967295"},
        {{PTO_DEVICE_NVIDIA, -3}, "-3"},
        {{PTO_DEVICE_CPU, 1}, "cpu:1"},
        {{PTO_DEVICE_CPU, -1}, "-1"},
        {{PTO_DEVICE_QY, INT32_MIN}, "-2147483648"},
        {{(pto_device_type)77, INT32_MAX}, "77"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        expect_fail(pto_device_add(bad[i].device, &ops), PTO_BAD_DEVICE, "add", bad[i].says);
        expect_fail(pto_device_get(bad[i].device, &got), PTO_BAD_DEVICE, "get", bad[i].says);
        expect_fail(pto_device_set_current(bad[i].device), PTO_BAD_DEVICE, "set", bad[i].says);
        assert_false(ptoi_device_sound(bad[i].device));
    }
    expect_current(cpu);
    const pto_device d = {PTO_DEVICE_NVIDIA, 100};
    expect_fail(pto_device_add(cpu, &ops), PTO_BAD_DEVICE, "cpu:0 is built in");
    expect_fail(pto_device_add(d, NULL), PTO_NULL_ARGUMENT, "ops");
    expect_fail(pto_device_get(d, NULL), PTO_NULL_ARGUMENT, "ops");
    ops.size = 12;
    expect_fail(pto_device_add(d, &ops), PTO_BAD_CONFIG, "12");
    ops = ptoi_device_host;
    ops.free = NULL;
    expect_fail(pto_device_add(d, &ops), PTO_NULL_ARGUMENT, "free");
    ops = ptoi_device_host;
    ops.alloc = NULL;
    expect_fail(pto_device_add(d, &ops), PTO_NULL_ARGUMENT, "alloc");
    expect_fail(pto_device_get(d, &got), PTO_BAD_DEVICE, "nvidia:100 cannot be used");
}

static void added_devices_are_found_and_replaced(void **state)
{
    (void)state;
    static fake one, other;
    pto_device_ops got = {0}, ops = ops_of(&one);
    /* No limit on the index, and each type has its own. */
    const pto_device a = {PTO_DEVICE_MOORE, INT32_MAX}, b = {PTO_DEVICE_MOORE, 0},
                     c = {PTO_DEVICE_METAX, 0};
    expect_ok(pto_device_add(a, &ops));
    ops.stream = &other;
    expect_ok(pto_device_add(b, &ops));
    ops.self = &other;
    expect_fail(pto_device_get(c, &got), PTO_BAD_DEVICE, "metax:0");
    expect_ok(pto_device_get(a, &got));
    assert_ptr_equal(got.self, &one);
    assert_null(got.stream);
    expect_ok(pto_device_get(b, &got));
    assert_ptr_equal(got.self, &one);
    assert_ptr_equal(got.stream, &other);
    expect_ok(pto_device_add(b, &ops)); /* in front of a */
    expect_ok(pto_device_get(b, &got));
    assert_ptr_equal(got.self, &other);
    expect_ok(pto_device_get(a, &got));
    assert_ptr_equal(got.self, &one);
}

static void making_one_current_calls_it(void **state)
{
    (void)state;
    static fake f, g;
    pto_device_ops ops = ops_of(&f);
    const pto_device a = {PTO_DEVICE_NVIDIA, 1}, b = {PTO_DEVICE_NVIDIA, 2};
    expect_ok(pto_device_add(a, &ops));
    ops = ops_of(&g);
    expect_ok(pto_device_add(b, &ops));

    expect_ok(pto_device_set_current(a));
    expect_current(a);
    assert_int_equal(f.currents, 1);
    expect_ok(pto_device_set_current(a)); /* it is */
    assert_int_equal(f.currents, 1);
    expect_ok(pto_device_set_current(b));
    assert_int_equal(g.currents, 1);
    expect_current(b);

    f.status = PTO_SYSTEM;
    expect_fail(pto_device_set_current(a), PTO_SYSTEM, "nvidia:1", pto_status_text(PTO_SYSTEM));
    expect_current(b);
    f.words = "the driver is asleep";
    expect_fail(pto_device_set_current(a), PTO_SYSTEM, "nvidia:1", f.words);
    expect_current(b);
    f.status = PTO_OK;
    expect_ok(pto_device_set_current(a));
    assert_int_equal(f.currents, 4);

    expect_ok(pto_device_set_current(cpu)); /* nothing to call */
    assert_int_equal(f.currents, 4);
    assert_int_equal(g.currents, 1);
    expect_current(cpu);
}

static void one_that_was_never_added_can_be_current(void **state)
{
    (void)state;
    static fake f;
    const pto_device d = {PTO_DEVICE_ASCEND, 5};
    pto_device_ops ops = ops_of(&f);
    expect_ok(pto_device_set_current(d));
    expect_current(d);
    /* Set to a new device it is called, although it is current; set to the same, it is not. */
    expect_ok(pto_device_add(d, &ops));
    expect_ok(pto_device_set_current(d));
    assert_int_equal(f.currents, 1);
    expect_ok(pto_device_add(d, &ops));
    expect_ok(pto_device_set_current(d));
    assert_int_equal(f.currents, 1);
    ops.stream = &f;
    expect_ok(pto_device_add(d, &ops));
    expect_ok(pto_device_set_current(d));
    assert_int_equal(f.currents, 2);
    ops.set_current = NULL;
    expect_ok(pto_device_add(d, &ops));
    expect_ok(pto_device_set_current(d));
    expect_current(d);
    assert_int_equal(f.currents, 2);
    expect_ok(pto_device_set_current(cpu));
}

static void the_way_back(void **state)
{
    (void)state;
    static fake f;
    pto_device_ops ops = ops_of(&f);
    const pto_device d = {PTO_DEVICE_HYGON, 0};
    expect_ok(pto_device_add(d, &ops));
    /* The first failure counts, in its own words. */
    f.status = PTO_SYSTEM;
    f.words = "no way back";
    expect_fail(ptoi_device_return(d, PTO_OK), PTO_SYSTEM, "hygon:0", "no way back");
    expect_fail((ptoi_fail(PTO_FULL, "13 are too many"), ptoi_device_return(d, PTO_FULL)), PTO_FULL,
                "13 are too many");
    expect_current(cpu);
    f.status = PTO_OK;
    expect_fail((ptoi_fail(PTO_FULL, "13 are too many"), ptoi_device_return(d, PTO_FULL)), PTO_FULL,
                "13 are too many");
    expect_current(d);
    expect_ok(ptoi_device_return(cpu, PTO_OK));
    expect_current(cpu);
}

static void *look_at_current(void *seen)
{
    *(pto_device *)seen = pto_device_current();
    PTO_IGNORE(pto_device_set_current((pto_device){PTO_DEVICE_KUNLUN, 4}));
    return NULL;
}

static void each_thread_has_its_own(void **state)
{
    (void)state;
    const pto_device d = {PTO_DEVICE_KUNLUN, 3};
    pto_device seen = {PTO_DEVICE_QY, 9};
    pthread_t thread;
    expect_ok(pto_device_set_current(d));
    assert_int_equal(pthread_create(&thread, NULL, look_at_current, &seen), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(ptoi_device_equal(seen, cpu));
    expect_current(d);
    expect_ok(pto_device_set_current(cpu));
}

/* ---- Several at a time -------------------------------------------------------------------- */

enum { ADDERS = 3, INDICES = 40 };

static char selves[ADDERS][INDICES];

static pto_status quiet_current(void *self)
{
    return self ? PTO_OK : PTO_NULL_ARGUMENT;
}

/* Adds all indices, and looks at those that the others add meanwhile. */
static void *add_and_look(void *mine)
{
    char *row = mine;
    uintptr_t wrong = 0;
    for (int32_t i = 0; i < INDICES; i++) {
        const pto_device d = {PTO_DEVICE_ILUVATAR, i};
        pto_device_ops got, ops = {.size = sizeof ops,
                                   .self = &row[i],
                                   .stream = &row[i],
                                   .set_current = quiet_current};
        wrong += pto_device_add(d, &ops) != PTO_OK;
        wrong += pto_device_set_current(d) != PTO_OK;
        for (int32_t k = 0; k <= i; k++) {
            bool known = false;
            wrong += pto_device_get((pto_device){PTO_DEVICE_ILUVATAR, k}, &got) != PTO_OK;
            for (int32_t a = 0; a < ADDERS; a++) {
                known |= got.self == &selves[a][k];
            }
            wrong += !known || got.stream != got.self || got.set_current != quiet_current;
        }
    }
    return (void *)wrong;
}

static void threads_add_at_a_time(void **state)
{
    (void)state;
    pthread_t threads[ADDERS];
    for (size_t i = 0; i < ADDERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, add_and_look, selves[i]), 0);
    }
    for (size_t i = 0; i < ADDERS; i++) {
        void *wrong;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
}

/* One table, in order: what was added is listed once, whoever added it. */
static void devices_are_listed(void **state)
{
    (void)state;
    static fake f;
    pto_device_ops ops = ops_of(&f);
    pto_device all[256];
    size_t before = 0, count = 0;
    expect_ok(pto_device_list(NULL, 0, &before));
    assert_true(before >= 1);
    expect_ok(pto_device_add((pto_device){PTO_DEVICE_KUNLUN, 9}, &ops));
    expect_ok(pto_device_add((pto_device){PTO_DEVICE_KUNLUN, 4}, &ops));
    ops.stream = &f;
    expect_ok(pto_device_add((pto_device){PTO_DEVICE_KUNLUN, 9}, &ops)); /* again */
    expect_ok(pto_device_list(all, 256, &count));
    assert_int_equal(count, before + 2);
    assert_int_equal(all[0].type, PTO_DEVICE_CPU);
    size_t found = 0;
    for (size_t i = 1; i < count; i++) {
        assert_true(all[i].type > all[i - 1].type ||
                    (all[i].type == all[i - 1].type && all[i].index > all[i - 1].index));
        found += all[i].type == PTO_DEVICE_KUNLUN;
    }
    assert_int_equal(found, 2);
    pto_device one[1] = {{PTO_DEVICE_QY, 7}};
    expect_ok(pto_device_list(one, 1, &count));
    assert_int_equal(one[0].type, PTO_DEVICE_CPU);
    assert_int_equal(count, before + 2);
    expect_fail(pto_device_list(NULL, 1, &count), PTO_NULL_ARGUMENT, "devices");
    expect_fail(pto_device_list(one, 1, NULL), PTO_NULL_ARGUMENT, "count");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_listed),
        cmocka_unit_test(the_cpu_is_built_in),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(added_devices_are_found_and_replaced),
        cmocka_unit_test(making_one_current_calls_it),
        cmocka_unit_test(one_that_was_never_added_can_be_current),
        cmocka_unit_test(the_way_back),
        cmocka_unit_test(each_thread_has_its_own),
        cmocka_unit_test(threads_add_at_a_time),
    };
    return cmocka_run_group_tests_name("device", tests, NULL, NULL);
}
