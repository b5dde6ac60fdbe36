/* test_wide.c - large programs: many tasks, consumers, inputs and scopes, and large numbers.
 *
 * No list has a fixed size, and memory stays within the configuration.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <pto/pto.h>

#include "support.h"

#if defined(PTO_DEBUG_CHECKS) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CHECKED 1 /* each task costs many times as much */
#else
#define CHECKED 0
#endif

static void expect(pto_status status, const char *call, int line)
{
    if (status != PTO_OK) {
        fail_msg("line %d: %s: %s (%s)", line, call, pto_status_name(status), pto_error_detail());
    }
}

#define EXPECT_OK(call) expect((call), #call, __LINE__)
#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

/* ---- Kernels -------------------------------------------------------------------------------- */

/* Each element of argument 0 becomes argument 1. */
static pto_status fill(const pto_call *call)
{
    uint64_t *to = call->args[0].data;
    for (int64_t i = 0; i < call->args[0].shape[0]; i++) {
        to[i] = call->args[1].u64;
    }
    return PTO_OK;
}

/* Sum of all elements of the first arguments. */
static uint64_t sum(const pto_call *call, uint32_t count)
{
    uint64_t total = 0;
    for (uint32_t a = 0; a < count; a++) {
        const pto_arg *arg = &call->args[a];
        const uint64_t *from = arg->data;
        for (int64_t i = 0; i < arg->shape[0]; i++) {
            total += from[i];
        }
    }
    return total;
}

/* The last argument becomes the sum of all others. */
static pto_status add_all(const pto_call *call)
{
    *(uint64_t *)call->args[call->n_args - 1].data = sum(call, call->n_args - 1);
    return PTO_OK;
}

/* Order matters: hash = 31 * hash + sum of argument 0. */
static pto_status mix_in(const pto_call *call)
{
    uint64_t *hash = call->args[1].data;
    *hash = 31 * *hash + sum(call, 1);
    return PTO_OK;
}

static pto_status hold(const pto_call *call)
{
    (void)call;
    return PTO_PENDING;
}

typedef struct bench {
    pto_runtime *rt;
    pto_kernel fill, add_all, mix_in, hold;
} bench;

static void start(bench *b, const pto_config *config)
{
    EXPECT_OK(pto_runtime_create(&b->rt, config));
    EXPECT_OK(pto_kernel_register(b->rt, "fill", PTO_VECTOR, fill, NULL, &b->fill));
    EXPECT_OK(pto_kernel_register(b->rt, "add_all", PTO_VECTOR, add_all, NULL, &b->add_all));
    EXPECT_OK(pto_kernel_register(b->rt, "mix_in", PTO_VECTOR, mix_in, NULL, &b->mix_in));
    EXPECT_OK(pto_kernel_register(b->rt, "hold", PTO_VECTOR, hold, NULL, &b->hold));
}

static void stop(bench *b)
{
    pto_runtime_stats stats;
    EXPECT_OK(pto_wait(b->rt));
    EXPECT_OK(pto_check(b->rt));
    EXPECT_OK(pto_stats(b->rt, &stats));
    assert_int_equal(stats.submitted, stats.completed);
    EXPECT_OK(pto_runtime_destroy(&b->rt, PTO_WAIT));
}

static pto_tensor numbers(const bench *b, uint64_t *data, int64_t count)
{
    pto_tensor t;
    EXPECT_OK(pto_external_tensor(b->rt, data, PTO_UINT64, 1, DIMS(count), &t));
    return t;
}

/* A thread that completes a pending task after a while. */
typedef struct later {
    pto_runtime *rt;
    pto_task task;
    pthread_t thread;
    pto_status status;
} later;

static void *later_run(void *context)
{
    later *l = context;
    pto_status status;
    do {
        nanosleep(&(struct timespec){0, 20 * 1000000}, NULL);
        status = pto_task_complete(l->rt, l->task, PTO_OK);
    } while (status == PTO_BAD_TASK); /* its kernel has not even begun */
    l->status = status;
    return NULL;
}

static void later_start(later *l, const bench *b, pto_task task)
{
    l->rt = b->rt;
    l->task = task;
    assert_int_equal(pthread_create(&l->thread, NULL, later_run, l), 0);
}

static void later_join(later *l)
{
    assert_int_equal(pthread_join(l->thread, NULL), 0);
    assert_int_equal(l->status, PTO_OK);
}

/* ---- Ten million tasks ---------------------------------------------------------------------- */

#define LANES 8

/* Pages in memory: the second number there. */
static int64_t resident(void)
{
    char line[256] = "", *rest;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    fclose(file);
    (void)strtoll(line, &rest, 10);
    const int64_t pages = strtoll(rest, NULL, 10);
    assert_true(pages > 0);
    return pages;
}

/* A temporary, its writer and its reader: two tasks in a boundary scope. */
static void stream(const bench *b, const pto_tensor *lane, uint64_t first, uint64_t end)
{
    for (uint64_t i = first; i < end; i++) {
        PTO_BOUNDARY(b->rt) {
            pto_tensor t;
            EXPECT_OK(pto_temp(b->rt, PTO_UINT64, 1, DIMS(32), &t));
            EXPECT_OK(pto_submit(b->rt, b->fill, pto_output(&t), pto_scalar(i)));
            EXPECT_OK(pto_submit(b->rt, b->mix_in, pto_input(&t), pto_inout(&lane[i % LANES])));
        }
    }
}

/* By then all rings were fully used; pages of tables may still be touched for the first time.
 * One byte for each task would be seven times as much. Memory of sanitizers does not count. */
static void expect_flat(int64_t before, uint64_t warm)
{
    const int64_t pages = resident() - before, bound = CHECKED ? INT64_MAX : 256;
    if (warm >= 1000000 && pages > bound) {
        fail_msg("memory has grown by %d pages", (int)pages);
    }
}

static void test_ten_million_tasks(void **state)
{
    (void)state;
    const uint64_t scopes = test_effort(CHECKED ? 20000 : 5000000);
    uint64_t hash[LANES] = {0}, want[LANES] = {0};
    pto_tensor lane[LANES];
    pto_config config = PTO_CONFIG_INIT;
    bench b;
    config.ring_tasks = 64;
    config.heap_bytes = 4 << 20;
    start(&b, &config);
    for (int i = 0; i < LANES; i++) {
        lane[i] = numbers(&b, &hash[i], 1);
    }
    PTO_SCOPE(b.rt) { /* holds nothing inside the boundaries */
        const uint64_t warm = scopes / 4;
        stream(&b, lane, 0, warm);
        const int64_t before = resident();
        stream(&b, lane, warm, scopes);
        expect_flat(before, warm);
    }
    stop(&b);
    for (uint64_t i = 0; i < scopes; i++) {
        want[i % LANES] = 31 * want[i % LANES] + 32 * i;
    }
    assert_memory_equal(hash, want, sizeof hash);
}

/* ---- Counters that wrap --------------------------------------------------------------------- */

/* Enough tasks of all levels to cross the wrap in each counter, in rings of several sizes. */
static void cross(uint64_t first_task, uint32_t ring_tasks)
{
    uint64_t hash[LANES] = {0}, want[LANES] = {0};
    pto_tensor lane[LANES];
    pto_config config = PTO_CONFIG_INIT;
    bench b;
    config.ring_tasks = ring_tasks;
    config.heap_bytes = 4096;
    config.deps = 16;
    config.map_entries = 32;
    config.levels = 2;
    config.first_task = first_task;
    start(&b, &config);
    for (int i = 0; i < LANES; i++) {
        lane[i] = numbers(&b, &hash[i], 1);
    }
    stream(&b, lane, 0, 200); /* on level 1 */
    for (uint64_t i = 0; i < 200; i++) {
        PTO_SCOPE(b.rt) { /* on level 0 */
            pto_tensor t;
            EXPECT_OK(pto_alloc(b.rt, PTO_UINT64, 1, DIMS(4), &t));
            EXPECT_OK(pto_submit(b.rt, b.fill, pto_output(&t), pto_scalar(i)));
            EXPECT_OK(pto_submit(b.rt, b.mix_in, pto_input(&t), pto_inout(&lane[i % LANES])));
        }
    }
    stop(&b);
    for (uint64_t i = 0; i < 200; i++) {
        want[i % LANES] = 31 * want[i % LANES] + 32 * i;
    }
    for (uint64_t i = 0; i < 200; i++) {
        want[i % LANES] = 31 * want[i % LANES] + 4 * i;
    }
    assert_memory_equal(hash, want, sizeof hash);
}

static void test_counters_wrap(void **state)
{
    (void)state;
    static const int bits[] = {8, 15, 16, 28, 31, 32, 33, 40, 47, 48, 59};
    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
        for (uint32_t ring = 4; ring <= 64; ring *= 4) {
            cross((UINT64_C(1) << bits[i]) - 5, ring);
            cross((UINT64_C(1) << bits[i]) - ring - 1, ring);
        }
    }
    cross(3 * (UINT64_C(1) << 32) - 5, 16); /* a wrap that is not a power of two */
}

/* ---- Many consumers ------------------------------------------------------------------------- */

/* `count` consumers of one task that is pending until all of them wait for it (or the task ring is
 * full of them). */
static void consume(uint64_t count, uint32_t ring_tasks)
{
    uint64_t *data = calloc(count + 1, sizeof *data);
    pto_config config = PTO_CONFIG_INIT;
    pto_task_report report;
    pto_task producer, task;
    bench b;
    later end;
    assert_non_null(data);
    config.ring_tasks = ring_tasks;
    config.map_entries = 4 * ring_tasks; /* each consumer has an entry */
    config.deps = 2 * ring_tasks;        /* and an edge */
    start(&b, &config);
    const pto_tensor source = numbers(&b, data, 1);
    const pto_param params[] = {pto_output(&source)};
    data[0] = 7;
    EXPECT_OK(pto_submit_task(b.rt, b.hold, PTO_KERNEL_TYPE, params, 1, &producer));
    if (ring_tasks <= count) {
        later_start(&end, &b, producer);
    }
    for (uint64_t i = 1; i <= count; i++) {
        const pto_tensor to = numbers(&b, &data[i], 1);
        const pto_param both[] = {pto_input(&source), pto_output(&to)};
        EXPECT_OK(pto_submit_task(b.rt, b.add_all, PTO_KERNEL_TYPE, both, 2, &task));
    }
    if (ring_tasks > count) {
        EXPECT_OK(pto_task_info(b.rt, task, &report));
        assert_int_equal(report.state, PTO_TASK_PENDING);
        assert_int_equal(report.fanin_left, 1);
        later_start(&end, &b, producer);
    }
    EXPECT_OK(pto_wait(b.rt));
    later_join(&end);
    stop(&b);
    for (uint64_t i = 0; i <= count; i++) {
        assert_int_equal(data[i], 7);
    }
    free(data);
}

static void test_ten_thousand_consumers(void **state)
{
    (void)state;
    consume(10000, 16384);
    consume(10000, 64);
}

/* ---- Many inputs ---------------------------------------------------------------------------- */

/* One task reads what `count` others wrote, each through an argument of its own. */
static void gather(int64_t count, uint32_t deps, uint32_t map_entries)
{
    uint64_t *data = calloc((size_t)count + 1, sizeof *data), want = 0;
    pto_tensor *tile = calloc((size_t)count + 1, sizeof *tile);
    pto_param *params = calloc((size_t)count + 1, sizeof *params);
    pto_config config = PTO_CONFIG_INIT;
    bench b;
    assert_true(data && tile && params);
    config.ring_tasks = 2048;
    config.deps = deps;
    config.map_entries = map_entries;
    start(&b, &config);
    for (int64_t i = 0; i <= count; i++) {
        tile[i] = numbers(&b, &data[i], 1);
    }
    for (int turn = 1; turn <= 3; turn++) {
        want = 0;
        for (int64_t i = 0; i < count; i++) {
            const uint64_t value = (uint64_t)(i * turn + 1);
            EXPECT_OK(pto_submit(b.rt, b.fill, pto_output(&tile[i]), pto_scalar(value)));
            params[i] = pto_input(&tile[i]);
            want += value;
        }
        params[count] = pto_output(&tile[count]);
        EXPECT_OK(
            pto_submit_task(b.rt, b.add_all, PTO_KERNEL_TYPE, params, (size_t)count + 1, NULL));
    }
    stop(&b);
    assert_int_equal(data[count], want);
    free(params);
    free(tile);
    free(data);
}

static void test_a_thousand_inputs(void **state)
{
    (void)state;
    gather(1000, 0, 0);
    gather(1000, 1, 0);
    gather(1000, 0, 1);
    gather(1000, 1, 1);
    gather(1000, 16, 64);
}

/* ---- A wide fan-in -------------------------------------------------------------------------- */

/* `tiles` tasks, none of which can run before a first one, then one write over all their tiles: it
 * waits for each of them. Small pools cannot keep that many edges or entries, so there the first
 * task must end while others are submitted. */
static void cover(int64_t tiles, uint32_t deps, uint32_t map_entries)
{
    const bool small = deps || map_entries;
    uint64_t *data = calloc((size_t)tiles * 2 + 1, sizeof *data);
    pto_config config = PTO_CONFIG_INIT;
    pto_task_report report;
    pto_task gate, last;
    bench b;
    later end;
    assert_non_null(data);
    config.ring_tasks = 8192;
    config.deps = deps ? deps : 16384;
    config.map_entries = map_entries ? map_entries : 32768;
    start(&b, &config);
    const pto_tensor key = numbers(&b, &data[tiles * 2], 1);
    const pto_tensor all = numbers(&b, data, tiles * 2);
    const pto_param opens[] = {pto_output(&key)};
    EXPECT_OK(pto_submit_task(b.rt, b.hold, PTO_KERNEL_TYPE, opens, 1, &gate));
    if (small) {
        later_start(&end, &b, gate);
    }
    for (int64_t i = 0; i < tiles; i++) {
        const pto_tensor tile = numbers(&b, &data[2 * i], 2);
        EXPECT_OK(
            pto_submit(b.rt, b.fill, pto_output(&tile), pto_scalar((uint64_t)i), pto_after(gate)));
    }
    const pto_param covers[] = {pto_output(&all), pto_scalar(UINT64_C(77))};
    EXPECT_OK(pto_submit_task(b.rt, b.fill, PTO_KERNEL_TYPE, covers, 2, &last));
    if (!small) {
        EXPECT_OK(pto_task_info(b.rt, last, &report));
        assert_int_equal(report.fanin_count, tiles);
        assert_int_equal(report.fanin_left, tiles);
        later_start(&end, &b, gate);
    }
    EXPECT_OK(pto_wait(b.rt));
    later_join(&end);
    stop(&b);
    for (int64_t i = 0; i < 2 * tiles; i++) {
        assert_int_equal(data[i], 77);
    }
    free(data);
}

static void test_fan_in_of_five_thousand(void **state)
{
    (void)state;
    cover(5000, 0, 0);
    cover(5000, 1, 0);
    cover(5000, 0, 1);
    cover(5000, 1, 1);
    cover(5000, 64, 256);
}

/* ---- Deep scopes ---------------------------------------------------------------------------- */

#define DEPTH 1000

/* Each scope has a temporary that the one inside adds to its own. */
static void descend(uint32_t flags)
{
    pto_config config = PTO_CONFIG_INIT;
    pto_tensor t[DEPTH];
    pto_task task[DEPTH];
    pto_task_report report;
    uint64_t result = 0;
    bench b;
    config.ring_tasks = 2048;
    start(&b, &config);
    for (uint32_t d = 0; d < DEPTH; d++) {
        EXPECT_OK(pto_scope_begin_ex(b.rt, flags));
        EXPECT_OK(pto_temp(b.rt, PTO_UINT64, 1, DIMS(1), &t[d]));
        const pto_param params[] = {pto_output(&t[d]), pto_scalar(UINT64_C(1))};
        EXPECT_OK(pto_submit_task(b.rt, b.fill, PTO_KERNEL_TYPE, params, 2, &task[d]));
        if (d) {
            EXPECT_OK(pto_submit(b.rt, b.mix_in, pto_input(&t[d - 1]), pto_inout(&t[d])));
        }
    }
    assert_int_equal(pto_get_scope_depth(b.rt), DEPTH);
    EXPECT_OK(pto_read(b.rt, &t[DEPTH - 1], &result, sizeof result));
    uint64_t want = 1;
    for (uint32_t d = 1; d < DEPTH; d++) {
        want = 31 + want;
    }
    assert_int_equal(result, want);
    EXPECT_OK(pto_wait(b.rt));
    for (uint32_t d = 0; d < DEPTH; d += 111) {
        const uint32_t scopes = flags ? 1 : d + 1;
        const uint32_t holders = (d > 0 && d < DEPTH - 1) ? 2 : 1; /* it is added to, and read */
        EXPECT_OK(pto_task_info(b.rt, task[d], &report));
        assert_int_equal(report.fanout_count, scopes + holders);
        assert_int_equal(report.fanout_left, scopes);
    }
    for (uint32_t d = DEPTH; d > 0; d--) {
        /* Without boundaries they all live until the first scope ends. */
        const pto_status status = pto_read(b.rt, &t[d - 1], &result, sizeof result);
        assert_int_equal(status, PTO_OK);
        EXPECT_OK(pto_scope_end(b.rt));
        if (flags || d == 1) {
            assert_int_equal(pto_read(b.rt, &t[d - 1], &result, sizeof result), PTO_STALE);
            assert_true(pto_refused(b.rt, NULL));
        }
    }
    stop(&b);
}

static void test_a_thousand_scopes(void **state)
{
    (void)state;
    descend(0);
    descend(PTO_SCOPE_BOUNDARY);
}

/* ---- Failures in a small task ring ---------------------------------------------------------- */

static pto_status fails(const pto_call *call)
{
    (void)call;
    return pto_fail(PTO_KERNEL_FAILED, "on purpose");
}

static pto_status must_not_run(const pto_call *call)
{
    ++*(uint64_t *)call->args[0].data;
    return PTO_OK;
}

/* One task fails, its reader is skipped, and so must be the next reader: also if submit has to
 * wait for edges meanwhile and the slots of the bad tasks are about to be reused. */
static void spread_news(pto_place place, uint64_t turns)
{
    uint64_t data[8] = {0}, ran = 0;
    pto_tensor t[8];
    pto_kernel fail, never;
    pto_config config = PTO_CONFIG_INIT;
    bench b;
    config.levels = 1;
    config.workers = 3;
    config.place = place;
    config.ring_tasks = 4;
    config.deps = 4;
    start(&b, &config);
    EXPECT_OK(pto_kernel_register(b.rt, "fails", PTO_VECTOR, fails, NULL, &fail));
    EXPECT_OK(pto_kernel_register(b.rt, "must_not_run", PTO_VECTOR, must_not_run, NULL, &never));
    for (int i = 0; i < 8; i++) {
        t[i] = numbers(&b, &data[i], 1);
    }
    const pto_tensor count = numbers(&b, &ran, 1);
    for (uint64_t turn = 0; turn < turns; turn++) {
        const pto_param reads[] = {pto_input(&t[0]), pto_output(&t[3])};
        pto_task skipped;
        for (uint64_t i = 0; i < 2 + turn % 3; i++) {
            EXPECT_OK(pto_submit(b.rt, b.mix_in, pto_inout(&t[1]), pto_inout(&t[2])));
        }
        EXPECT_OK(pto_submit(b.rt, fail, pto_output(&t[0]), pto_inout(&t[1])));
        EXPECT_OK(pto_submit_task(b.rt, b.mix_in, PTO_KERNEL_TYPE, reads, 2, &skipped));
        EXPECT_OK(pto_submit(b.rt, b.mix_in, pto_inout(&t[2]), pto_inout(&t[4])));
        EXPECT_OK(pto_submit(b.rt, never, pto_inout(&count), pto_after(skipped), pto_input(&t[2]),
                             pto_input(&t[4])));
        for (int i = 0; i < 4; i++) {
            EXPECT_OK(pto_submit(b.rt, b.mix_in, pto_input(&t[7]), pto_inout(&t[5 + i % 2])));
        }
        EXPECT_OK(pto_clear_error(b.rt));
    }
    assert_int_equal(ran, 0);
    stop(&b);
}

static void test_failures_in_a_small_task_ring(void **state)
{
    (void)state;
    const uint64_t turns = test_effort(CHECKED ? 5000 : 60000);
    spread_news(PTO_PLACE_INLINE, turns);
    spread_news(PTO_PLACE_THREAD, turns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ten_million_tasks),
        cmocka_unit_test(test_counters_wrap),
        cmocka_unit_test(test_ten_thousand_consumers),
        cmocka_unit_test(test_a_thousand_inputs),
        cmocka_unit_test(test_fan_in_of_five_thousand),
        cmocka_unit_test(test_a_thousand_scopes),
        cmocka_unit_test(test_failures_in_a_small_task_ring),
    };
    alarm(280); /* rather than hang */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
