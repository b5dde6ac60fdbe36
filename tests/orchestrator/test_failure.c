/* test_failure.c - a failing kernel affects only its descendants: where poison spreads, how long it
 * stays, and how failures are reported. */
#include "../runtime/rig.h"

enum { CELLS = 16 };

/* Words for user memory: cell 0, cell 1, ... each 8 bytes. */
typedef struct field {
    rig r;
    unsigned char (*bytes)[8]; /* CELLS */
    pto_tensor cell[CELLS], all;
} field;

static void field_start(field *f, void **state, const pto_config *config)
{
    rig_start(&f->r, state, config);
    f->bytes = rig_memory(&f->r, CELLS * 8);
    for (int i = 0; i < CELLS; i++) {
        f->cell[i] = rig_bytes(&f->r, f->bytes[i], 8);
    }
    f->all = rig_bytes(&f->r, f->bytes, CELLS * 8);
    /* Keeps reports of tasks that are complete. */
    expect_ok(pto_scope_begin(f->r.rt));
}

/* The failures are expected; afterwards the runtime is clean. */
static void field_stop(field *f)
{
    expect_ok(pto_clear_error(f->r.rt));
    RIG_SUBMIT(&f->r, f->r.fill, pto_output(&f->all), pto_scalar(77));
    pto_task good = RIG_SUBMIT(&f->r, f->r.quick, pto_inout(&f->cell[0]));
    expect_ok(pto_wait_task(f->r.rt, good));
    unsigned char got[8];
    expect_ok(pto_read(f->r.rt, &f->cell[CELLS - 1], got, sizeof got));
    assert_int_equal(got[0], 77);
    expect_ok(pto_scope_end(f->r.rt));
    rig_stop(&f->r);
}

typedef enum fate { RAN, FAILED, SKIPPED } fate;

static void has_fate(field *f, pto_task task, fate want, const char *file, int line)
{
    pto_task_report report = rig_info(&f->r, task);
    fate got = report.skipped ? SKIPPED : (report.failed ? FAILED : RAN);
    static const char *const names[] = {"ran", "failed", "was skipped"};
    if (report.state < PTO_TASK_COMPLETED || got != want) {
        print_error("task %" PRIu64 " (%s) is %s and %s, want %s\n", report.order, report.kernel,
                    pto_task_state_name(report.state), names[got], names[want]);
        _fail(file, line);
    }
}

#define FATE(f, task, want) has_fate((f), (task), (want), __FILE__, __LINE__)

static void is_poisoned(field *f, const pto_tensor *t, bool want, const char *file, int line)
{
    unsigned char got[CELLS * 8];
    expect_status(pto_read(f->r.rt, t, got, sizeof got), want ? PTO_POISONED : PTO_OK,
                  (const char *const[]){NULL}, "read", file, line);
}

#define POISONED(f, t) is_poisoned((f), (t), true, __FILE__, __LINE__)
#define SOUND(f, t) is_poisoned((f), (t), false, __FILE__, __LINE__)

/* ---- Where it spreads ---------------------------------------------------------------------- */

/* Twice: with the failure known before anything else is submitted, and with it known last. */
static void test_poison_follows_reads_and_after(void **state)
{
    for (int late = 0; late < 2; late++) {
        field f;
        field_start(&f, state, NULL);
        rig *r = &f.r;
        pto_task bad = RIG_SUBMIT(r, late ? r->hold : r->fails, pto_output(&f.cell[0]),
                                  pto_input(&f.cell[9]));
        if (!late) {
            assert_int_equal(pto_wait(r->rt), PTO_TASK_FAILED);
        }
        pto_task raw = RIG_SUBMIT(r, r->quick, pto_input(&f.cell[0]), pto_output(&f.cell[1]));
        pto_task inout = RIG_SUBMIT(r, r->quick, pto_inout(&f.cell[0]));
        pto_task after = RIG_SUBMIT(r, r->quick, pto_after(bad), pto_output(&f.cell[2]));
        pto_task second = RIG_SUBMIT(r, r->quick, pto_input(&f.cell[1]), pto_output(&f.cell[3]));
        pto_task after_second = RIG_SUBMIT(r, r->quick, pto_after(second));
        pto_task partly = RIG_SUBMIT(r, r->quick, pto_input(&f.all), pto_output(&f.cell[10]));
        /* Not: writing what it read, writing what it wrote, opting out, or having nothing to do
         * with it. */
        pto_task war = RIG_SUBMIT(r, r->fill, pto_output(&f.cell[9]), pto_scalar(1));
        pto_task nodep = RIG_SUBMIT(r, r->quick, pto_nodep(pto_input(&f.cell[0])));
        pto_task other = RIG_SUBMIT(r, r->fill, pto_output(&f.cell[8]), pto_scalar(1));
        pto_task waw = RIG_SUBMIT(r, r->fill, pto_output(&f.cell[0]), pto_scalar(1));
        pto_task fresh = RIG_SUBMIT(r, r->copy, pto_input(&f.cell[0]), pto_output(&f.cell[4]));
        if (late) {
            rig_finish(r, bad, PTO_KERNEL_FAILED);
        }
        assert_int_equal(pto_wait(r->rt), PTO_TASK_FAILED);
        FATE(&f, bad, FAILED);
        FATE(&f, raw, SKIPPED);
        FATE(&f, inout, SKIPPED);
        FATE(&f, after, SKIPPED);
        FATE(&f, second, SKIPPED);
        FATE(&f, after_second, SKIPPED);
        FATE(&f, partly, SKIPPED);
        FATE(&f, war, RAN);
        FATE(&f, nodep, RAN);
        FATE(&f, other, RAN);
        FATE(&f, waw, RAN);
        FATE(&f, fresh, RAN);
        POISONED(&f, &f.cell[1]);
        POISONED(&f, &f.cell[2]);
        POISONED(&f, &f.cell[3]);
        POISONED(&f, &f.cell[10]);
        POISONED(&f, &f.all);
        SOUND(&f, &f.cell[0]);
        SOUND(&f, &f.cell[4]);
        SOUND(&f, &f.cell[8]);
        SOUND(&f, &f.cell[9]);
        pto_runtime_stats stats = rig_stats(r);
        assert_int_equal(stats.failed, 1);
        assert_int_equal(stats.skipped, 6);
        assert_int_equal(stats.completed, 12);
        expect_ok(pto_wait_task(r->rt, fresh));
        expect_fail(pto_wait_task(r->rt, bad), PTO_TASK_FAILED, "KERNEL_FAILED");
        expect_fail(pto_wait_task(r->rt, second), PTO_TASK_FAILED, "task");
        field_stop(&f);
    }
}

/* Outputs with pto_nodep of a failed task poison nothing. */
static void test_nodep_outputs_are_not_poisoned(void **state)
{
    field f;
    field_start(&f, state, NULL);
    rig *r = &f.r;
    RIG_SUBMIT(r, r->fails, pto_output(&f.cell[0]), pto_nodep(pto_output(&f.cell[1])),
               pto_nodep(pto_inout(&f.cell[2])));
    assert_int_equal(pto_wait(r->rt), PTO_TASK_FAILED);
    POISONED(&f, &f.cell[0]);
    SOUND(&f, &f.cell[1]);
    SOUND(&f, &f.cell[2]);
    /* A write with pto_nodep heals nothing. */
    pto_task task = RIG_SUBMIT(r, r->fill, pto_nodep(pto_output(&f.cell[0])), pto_scalar(1));
    assert_int_equal(pto_wait(r->rt), PTO_TASK_FAILED);
    FATE(&f, task, RAN);
    POISONED(&f, &f.cell[0]);
    field_stop(&f);
}

/* ---- How long it stays ---------------------------------------------------------------------- */

/* Only one successful write that covers all of it heals, whether the failure was known or not. */
static void test_only_a_covering_write_heals(void **state)
{
    for (int late = 0; late < 2; late++) {
        field f;
        field_start(&f, state, NULL);
        rig *r = &f.r;
        pto_tensor pair = rig_bytes(r, f.bytes[4], 16);
        pto_task bad = RIG_SUBMIT(r, late ? r->hold : r->fails, pto_output(&pair));
        if (!late) {
            assert_int_equal(pto_wait(r->rt), PTO_TASK_FAILED);
        }
        pto_task half = RIG_SUBMIT(r, r->fill, pto_output(&f.cell[4]), pto_scalar(1));
        pto_task reads_half = RIG_SUBMIT(r, r->quick, pto_input(&f.cell[4]));
        pto_task rest = RIG_SUBMIT(r, r->fill, pto_output(&f.cell[5]), pto_scalar(1));
        pto_task reads_both = RIG_SUBMIT(r, r->quick, pto_input(&pair));
        pto_tensor wide = rig_bytes(r, f.bytes[3], 25);
        pto_task covers = RIG_SUBMIT(r, r->fill, pto_output(&wide), pto_scalar(2));
        pto_task reads_now = RIG_SUBMIT(r, r->copy, pto_input(&f.cell[5]), pto_output(&f.cell[9]));
        if (late) {
            rig_finish(r, bad, PTO_KERNEL_FAILED);
        }
        assert_int_equal(pto_wait(r->rt), PTO_TASK_FAILED);
        FATE(&f, half, RAN);
        FATE(&f, reads_half, SKIPPED); /* its region is one with the rest */
        FATE(&f, rest, RAN);
        FATE(&f, reads_both, SKIPPED); /* two writes that cover it together do not count */
        FATE(&f, covers, RAN);
        FATE(&f, reads_now, RAN);
        SOUND(&f, &f.all);
        assert_int_equal(f.bytes[9][7], 2);
        field_stop(&f);
    }
}

/* A covering write that fails or is skipped heals nothing. */
static void test_a_failed_write_does_not_heal(void **state)
{
    field f;
    field_start(&f, state, NULL);
    rig *r = &f.r;
    pto_task held = RIG_SUBMIT(r, r->hold, pto_output(&f.cell[0]));
    pto_task fails = RIG_SUBMIT(r, r->fails, pto_output(&f.cell[0]));
    pto_task reads = RIG_SUBMIT(r, r->quick, pto_input(&f.cell[0]), pto_output(&f.cell[1]));
    pto_task skipped = RIG_SUBMIT(r, r->quick, pto_input(&f.cell[1]), pto_output(&f.cell[2]));
    rig_finish(r, held, PTO_OK);
    assert_int_equal(pto_wait(r->rt), PTO_TASK_FAILED);
    FATE(&f, held, RAN);
    FATE(&f, fails, FAILED);
    FATE(&f, reads, SKIPPED);
    FATE(&f, skipped, SKIPPED);
    POISONED(&f, &f.cell[0]);
    POISONED(&f, &f.cell[2]);
    pto_task again = RIG_SUBMIT(r, r->fails, pto_output(&f.cell[2]));
    expect_fail(pto_wait_task(r->rt, again), PTO_TASK_FAILED, "task");
    POISONED(&f, &f.cell[2]);
    RIG_SUBMIT(r, r->quick, pto_output(&f.cell[2]));
    SOUND(&f, &f.cell[2]);
    field_stop(&f);
}

/* Memory stays poisoned long after its writer is recycled. */
static void test_poison_outlives_its_task(void **state)
{
    field f;
    pto_config config = PTO_CONFIG_INIT;
    config.ring_tasks = 16;
    config.map_entries = 64;
    field_start(&f, state, &config);
    rig *r = &f.r;
    expect_ok(pto_scope_end(r->rt));
    pto_task bad = RIG_SUBMIT(r, r->fails, pto_output(&f.cell[0]));
    pto_task skipped = RIG_SUBMIT(r, r->quick, pto_after(bad), pto_output(&f.cell[1]));
    for (int i = 0; i < 2000; i++) {
        RIG_SUBMIT(r, r->quick, pto_inout(&f.cell[8 + i % 8]));
    }
    rig_until(r, bad, PTO_TASK_CONSUMED);
    rig_until(r, skipped, PTO_TASK_CONSUMED);
    expect_ok(pto_scope_begin(r->rt));
    pto_task reader = RIG_SUBMIT(r, r->quick, pto_input(&f.cell[0]));
    pto_task follows = RIG_SUBMIT(r, r->quick, pto_after(bad));
    pto_task second = RIG_SUBMIT(r, r->quick, pto_after(skipped), pto_output(&f.cell[2]));
    pto_task good = RIG_SUBMIT(r, r->quick, pto_inout(&f.cell[8]));
    assert_int_equal(pto_wait(r->rt), PTO_TASK_FAILED);
    FATE(&f, reader, SKIPPED);
    FATE(&f, follows, SKIPPED);
    FATE(&f, second, SKIPPED);
    FATE(&f, good, RAN);
    POISONED(&f, &f.cell[0]);
    POISONED(&f, &f.cell[1]);
    POISONED(&f, &f.cell[2]);
    SOUND(&f, &f.cell[8]);
    /* A query about the task itself still gets the same answer. */
    expect_fail(pto_wait_task(r->rt, bad), PTO_TASK_FAILED, "KERNEL_FAILED");
    expect_fail(pto_wait_task(r->rt, skipped), PTO_TASK_FAILED, "task");
    field_stop(&f);
}

/* The same for a task with more accesses than the map has entries. */
static void test_a_task_that_the_map_cannot_remember(void **state)
{
    field f;
    pto_config config = PTO_CONFIG_INIT;
    config.map_entries = 4;
    field_start(&f, state, &config);
    rig *r = &f.r;
    for (int skipped = 0; skipped < 2; skipped++) {
        pto_param params[CELLS];
        pto_task bad = 0;
        for (int i = 0; i < CELLS; i++) {
            params[i] = i < 8 ? pto_input(&f.cell[i]) : pto_output(&f.cell[i]);
        }
        if (skipped) {
            RIG_SUBMIT(r, r->fails, pto_output(&f.cell[7]));
        }
        expect_ok(pto_submit_task(r->rt, skipped ? r->quick : r->fails, PTO_KERNEL_TYPE, params,
                                  CELLS, &bad));
        pto_task reader = RIG_SUBMIT(r, r->quick, pto_input(&f.cell[12]), pto_output(&f.cell[0]));
        pto_task good = RIG_SUBMIT(r, r->quick, pto_inout(&f.cell[3]));
        pto_task heals = RIG_SUBMIT(r, r->fill, pto_output(&f.cell[13]), pto_scalar(1));
        expect_fail(pto_wait(r->rt), PTO_TASK_FAILED, "no luck");
        FATE(&f, bad, skipped ? SKIPPED : FAILED);
        FATE(&f, reader, SKIPPED);
        FATE(&f, good, RAN);
        FATE(&f, heals, RAN);
        POISONED(&f, &f.cell[0]);
        POISONED(&f, &f.cell[8]);
        POISONED(&f, &f.cell[15]);
        SOUND(&f, &f.cell[3]);
        SOUND(&f, &f.cell[13]);
        expect_fail(pto_wait_task(r->rt, bad), PTO_TASK_FAILED, "no luck");
        expect_ok(pto_clear_error(r->rt));
    }
    field_stop(&f);
}

/* Managed memory: poison ends with the buffer and does not return when the bytes are reused. */
static void test_poison_dies_with_its_buffer(void **state)
{
    field f;
    pto_config config = PTO_CONFIG_INIT;
    config.heap_bytes = 4096;
    field_start(&f, state, &config);
    rig *r = &f.r;
    expect_ok(pto_scope_end(r->rt));
    for (int round = 0; round < 20; round++) {
        expect_ok(pto_scope_begin(r->rt));
        pto_tensor t = rig_temp(r, 4096), part = rig_slice(&t, 64, 128);
        if (round % 2 == 0) {
            RIG_SUBMIT(r, r->fails, pto_output(&t));
            pto_task skipped = RIG_SUBMIT(r, r->quick, pto_inout(&part));
            assert_int_equal(pto_wait(r->rt), PTO_TASK_FAILED);
            FATE(&f, skipped, SKIPPED);
            POISONED(&f, &part);
        } else {
            RIG_SUBMIT(r, r->quick, pto_output(&t));
            pto_task reader = RIG_SUBMIT(r, r->quick, pto_input(&part));
            assert_int_equal(pto_wait(r->rt), PTO_TASK_FAILED); /* still, of the round before */
            FATE(&f, reader, RAN);
            SOUND(&f, &part);
        }
        expect_ok(pto_scope_end(r->rt));
    }
    expect_ok(pto_scope_begin(r->rt));
    field_stop(&f);
}

/* A failed version is poisoned like any memory; the next version heals it. */
static void test_poison_and_versions(void **state)
{
    field f;
    field_start(&f, state, NULL);
    rig *r = &f.r;
    pto_tensor v0 = rig_temp(r, 64), v1 = v0, v2 = v0;
    v1.version = 1;
    v2.version = 2;
    RIG_SUBMIT(r, r->quick, pto_output(&v0));
    RIG_SUBMIT(r, r->fails, pto_input(&v0), pto_output(&v1));
    pto_task reader = RIG_SUBMIT(r, r->quick, pto_input(&v1));
    pto_task next = RIG_SUBMIT(r, r->quick, pto_output(&v2));
    pto_task reads_next = RIG_SUBMIT(r, r->quick, pto_input(&v2));
    assert_int_equal(pto_wait(r->rt), PTO_TASK_FAILED);
    FATE(&f, reader, SKIPPED);
    FATE(&f, next, RAN);
    FATE(&f, reads_next, RAN);
    SOUND(&f, &v2);
    field_stop(&f);
}

/* pto_write always succeeds and heals like a task. */
static void test_pto_write_heals(void **state)
{
    field f;
    static const unsigned char ones[CELLS * 8] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    field_start(&f, state, NULL);
    rig *r = &f.r;
    pto_tensor pair = rig_bytes(r, f.bytes[0], 16);
    RIG_SUBMIT(r, r->fails, pto_output(&pair));
    expect_ok(pto_write(r->rt, &f.cell[0], ones, 8)); /* a part of it: no */
    POISONED(&f, &f.cell[0]);
    expect_ok(pto_write(r->rt, &pair, ones, 16));
    SOUND(&f, &pair);
    assert_int_equal(f.bytes[0][0], 1);
    pto_task reader = RIG_SUBMIT(r, r->quick, pto_input(&pair));
    expect_ok(pto_wait_task(r->rt, reader));
    field_stop(&f);
}

/* A kernel may return any number: it is not translated into words that say less. */
static pto_status returns_1234(const pto_call *call)
{
    (void)call;
    return (pto_status)1234;
}

static void test_a_status_of_the_user(void **state)
{
    field f;
    pto_kernel strange;
    field_start(&f, state, NULL);
    expect_ok(pto_kernel_register(f.r.rt, "strange", PTO_VECTOR, returns_1234, NULL, &strange));
    pto_task task = RIG_SUBMIT(&f.r, strange, pto_output(&f.cell[0]));
    expect_fail(pto_wait(f.r.rt), PTO_TASK_FAILED, "'strange'", "status 1234");
    expect_fail(pto_wait_task(f.r.rt, task), PTO_TASK_FAILED, "status 1234");
    field_stop(&f);
}

/* ---- Reports --------------------------------------------------------------------------------- */

/* The first in submission order counts, even if it fails last. */
static void test_the_first_failure_is_the_first_in_order(void **state)
{
    field f;
    bool failed = true;
    pto_failure failure;
    char site[64];
    field_start(&f, state, NULL);
    rig *r = &f.r;
    expect_ok(pto_get_failure(r->rt, &failed, &failure));
    assert_false(failed);
    RIG_SUBMIT(r, r->quick, pto_output(&f.cell[5]));
    int line = __LINE__ + 1;
    pto_task first = RIG_SUBMIT(r, r->hold, pto_output(&f.cell[0]));
    pto_task second = RIG_SUBMIT(r, r->fails, pto_output(&f.cell[1]));
    pto_task third = RIG_SUBMIT(r, r->hold, pto_output(&f.cell[2]));
    rig_finish(r, third, PTO_BAD_SHAPE);
    expect_fail(pto_wait_task(r->rt, second), PTO_TASK_FAILED, "task");
    rig_finish(r, first, PTO_BAD_DTYPE);
    snprintf(site, sizeof site, "test_failure.c:%d)", line);
    expect_fail(pto_wait(r->rt), PTO_TASK_FAILED, "task 1 (kernel 'hold', submitted at ", site,
                "failed: PTO_BAD_DTYPE");
    expect_ok(pto_get_failure(r->rt, &failed, &failure));
    assert_true(failed);
    assert_int_equal(failure.task, first);
    assert_int_equal(failure.order, 1);
    assert_int_equal(failure.status, PTO_BAD_DTYPE);
    assert_string_equal(failure.kernel, "hold");
    assert_non_null(strstr(failure.file, "test_failure.c"));
    assert_int_equal(failure.line, line);
    /* It stays the first, and is reported, until it is cleared. */
    RIG_SUBMIT(r, r->fails, pto_output(&f.cell[3]));
    expect_fail(pto_wait(r->rt), PTO_TASK_FAILED, "task 1 ");
    expect_fail(pto_wait(r->rt), PTO_TASK_FAILED, "task 1 ");
    assert_int_equal(rig_stats(r).failed, 4);
    expect_ok(pto_clear_error(r->rt));
    expect_ok(pto_wait(r->rt));
    expect_ok(pto_get_failure(r->rt, &failed, &failure));
    assert_false(failed);
    SOUND(&f, &f.all);
    /* Afterwards the next one is the first. */
    RIG_SUBMIT(r, r->fails, pto_output(&f.cell[3]));
    expect_fail(pto_wait(r->rt), PTO_TASK_FAILED, "task 5 ", "'fails'", "no luck");
    field_stop(&f);
}

static pto_status many_words(const pto_call *call)
{
    char words[400];
    memset(words, 'w', sizeof words);
    words[sizeof words - 1] = 0;
    return pto_fail(PTO_BAD_INDEX, "pivot %" PRId64 " of %s is zero: %s", call->args[0].i64, "A",
                    words);
}

static pto_status no_words(const pto_call *call)
{
    return call->args[0].i64 ? (pto_status)call->args[0].i64 : PTO_KERNEL_FAILED;
}

/* Sets an error detail and succeeds. */
static pto_status grumbles(const pto_call *call)
{
    (void)call;
    PTO_IGNORE(pto_fail(PTO_BAD_INDEX, "that did not work, so another way"));
    return PTO_OK;
}

static void test_the_words_arrive(void **state)
{
    field f;
    bool failed = false;
    pto_failure failure;
    pto_kernel words, silent, grumble;
    pto_config config = PTO_CONFIG_INIT;
    config.workers = 1; /* so that an old detail could be mistaken for a new one */
    config.caller_types = PTO_NO_TYPES;
    field_start(&f, state, &config);
    rig *r = &f.r;
    expect_ok(pto_kernel_register(r->rt, "words", PTO_VECTOR, many_words, NULL, &words));
    expect_ok(pto_kernel_register(r->rt, "silent", PTO_VECTOR, no_words, NULL, &silent));
    expect_ok(pto_kernel_register(r->rt, "grumble", PTO_VECTOR, grumbles, NULL, &grumble));
    RIG_SUBMIT(r, words, pto_scalar(-7));
    expect_fail(pto_wait(r->rt), PTO_TASK_FAILED, "'words'", "PTO_BAD_INDEX",
                "pivot -7 of A is zero: ww");
    expect_ok(pto_get_failure(r->rt, &failed, &failure));
    assert_int_equal(failure.status, PTO_BAD_INDEX);
    assert_int_equal(strncmp(failure.message, "pivot -7 of A is zero: ww", 25), 0);
    assert_true(strlen(failure.message) < sizeof failure.message);
    expect_ok(pto_clear_error(r->rt));

    RIG_SUBMIT(r, silent, pto_scalar(0));
    expect_fail(pto_wait(r->rt), PTO_TASK_FAILED, "'silent'", "PTO_KERNEL_FAILED");
    assert_null(strstr(pto_error_detail(), "pivot"));
    expect_ok(pto_get_failure(r->rt, &failed, &failure));
    assert_null(strstr(failure.message, "pivot"));
    expect_ok(pto_clear_error(r->rt));

    RIG_SUBMIT_BARE(r, grumble);
    expect_ok(pto_wait(r->rt));
    RIG_SUBMIT(r, silent, pto_scalar(0));
    assert_int_equal(pto_wait(r->rt), PTO_TASK_FAILED);
    assert_null(strstr(pto_error_detail(), "another way"));
    expect_ok(pto_clear_error(r->rt));

    /* An unknown status is a failure like any other. */
    RIG_SUBMIT(r, silent, pto_scalar(4711));
    expect_fail(pto_wait(r->rt), PTO_TASK_FAILED, "'silent'");
    expect_ok(pto_get_failure(r->rt, &failed, &failure));
    assert_int_equal(failure.status, 4711);
    expect_ok(pto_clear_error(r->rt));
    RIG_SUBMIT(r, silent, pto_scalar(-3));
    expect_fail(pto_wait(r->rt), PTO_TASK_FAILED, "'silent'");
    expect_ok(pto_get_failure(r->rt, &failed, &failure));
    assert_int_equal((int)failure.status, -3);
    field_stop(&f);
}

/* A skipped task waits for all its producers, so no consumer of it runs too early. */
static void test_skipped_tasks_wait_for_their_fan_in(void **state)
{
    field f;
    field_start(&f, state, NULL);
    rig *r = &f.r;
    pto_task held = RIG_SUBMIT(r, r->hold, pto_inout(&f.cell[1]));
    pto_task bad = RIG_SUBMIT(r, r->fails, pto_output(&f.cell[0]));
    pto_task joint = RIG_SUBMIT(r, r->quick, pto_input(&f.cell[0]), pto_inout(&f.cell[1]));
    pto_task over = RIG_SUBMIT(r, r->fill, pto_output(&f.cell[1]), pto_scalar(3));
    expect_fail(pto_wait_task(r->rt, bad), PTO_TASK_FAILED, "task");
    RIG_WAITS_FOR(r, joint, 1);
    assert_in_range(rig_info(r, over).fanin_left, 1, 2);
    assert_int_equal(rig_info(r, over).state, PTO_TASK_PENDING);
    rig_finish(r, held, PTO_OK);
    expect_fail(pto_wait_task(r->rt, joint), PTO_TASK_FAILED, "task");
    FATE(&f, joint, SKIPPED);
    expect_ok(pto_wait_task(r->rt, over));
    SOUND(&f, &f.cell[1]);
    field_stop(&f);
}

/* pto_clear_error waits for running tasks and also clears their failures. */
static void test_clear_error_waits(void **state)
{
    field f;
    field_start(&f, state, NULL);
    rig *r = &f.r;
    pto_task held = RIG_SUBMIT(r, r->hold, pto_output(&f.cell[0]));
    pto_task reader = RIG_SUBMIT(r, r->quick, pto_input(&f.cell[0]));
    RIG_SUBMIT(r, r->fails, pto_output(&f.cell[1]));
    rig_later later = {.status = PTO_KERNEL_FAILED};
    rig_later_start(&later, r, held, 20000);
    expect_ok(pto_clear_error(r->rt));
    assert_true(atomic_load(&later.ending));
    rig_later_join(&later);
    FATE(&f, reader, RAN); /* it is recycled, and that it was skipped is forgotten */
    expect_ok(pto_wait(r->rt));
    SOUND(&f, &f.all);
    pto_task after = RIG_SUBMIT(r, r->quick, pto_after(held), pto_input(&f.cell[0]));
    expect_ok(pto_wait_task(r->rt, after));
    expect_ok(pto_clear_error(r->rt)); /* nothing to forget: fine */
    field_stop(&f);
}

/* Many concurrent failures, each on its own memory, among as many good tasks. */
static void test_many_failures(void **state)
{
    enum { MANY = 1000 };
    rig r;
    pto_config config = PTO_CONFIG_INIT;
    config.ring_tasks = 64;
    rig_start(&r, state, &config);
    unsigned char(*bytes)[8] = rig_memory(&r, sizeof(unsigned char[MANY][8]));
    memset(bytes, 0, sizeof(unsigned char[MANY][8]));
    for (int i = 0; i < MANY; i++) {
        pto_tensor t = rig_bytes(&r, bytes[i], 8);
        RIG_SUBMIT(&r, i % 3 == 1 ? r.fails : r.fill, pto_output(&t), pto_scalar(1));
    }
    for (int i = 0; i < MANY; i++) {
        pto_tensor t = rig_bytes(&r, bytes[i], 8);
        RIG_SUBMIT(&r, r.fill, pto_inout(&t), pto_scalar(2));
    }
    expect_fail(pto_wait(r.rt), PTO_TASK_FAILED, "task 1 ");
    for (int i = 0; i < MANY; i++) {
        unsigned char got[8];
        pto_tensor t = rig_bytes(&r, bytes[i], 8);
        pto_status want = i % 3 == 1 ? PTO_POISONED : PTO_OK;
        assert_int_equal(pto_read(r.rt, &t, got, 8), want);
        assert_int_equal(bytes[i][7], i % 3 == 1 ? 0 : 2);
    }
    pto_runtime_stats stats = rig_stats(&r);
    assert_int_equal(stats.failed, MANY / 3);
    assert_int_equal(stats.skipped, MANY / 3);
    expect_ok(pto_clear_error(r.rt));
    rig_stop(&r);
}

int main(void)
{
    const rig_case cases[] = {
        RIG_CASE(test_poison_follows_reads_and_after),
        RIG_CASE(test_nodep_outputs_are_not_poisoned),
        RIG_CASE(test_only_a_covering_write_heals),
        RIG_CASE(test_a_failed_write_does_not_heal),
        RIG_CASE(test_poison_outlives_its_task),
        RIG_CASE(test_a_task_that_the_map_cannot_remember),
        RIG_CASE(test_poison_dies_with_its_buffer),
        RIG_CASE(test_poison_and_versions),
        RIG_CASE(test_pto_write_heals),
        RIG_CASE(test_the_first_failure_is_the_first_in_order),
        RIG_CASE(test_the_words_arrive),
        RIG_CASE(test_a_status_of_the_user),
        RIG_CASE(test_skipped_tasks_wait_for_their_fan_in),
        RIG_CASE(test_clear_error_waits),
        RIG_CASE(test_many_failures),
    };
    return rig_run("failure", cases, sizeof cases / sizeof *cases);
}
