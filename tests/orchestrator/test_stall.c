/* test_stall.c - full rings: submit waits if a task can make room, returns PTO_STALLED exactly
 * if none can, and PTO_TOO_LARGE if the request can never fit. */
#include "../runtime/rig.h"

static pto_config tiny(void)
{
    pto_config config = PTO_CONFIG_INIT;
    config.levels = 2;
    config.ring_tasks = 16;
    config.heap_bytes = 16384;
    config.arg_bytes = 16384;
    return config;
}

/* "file:line" of a line of this file. */
static const char *site(char *text, size_t size, int line)
{
    snprintf(text, size, "test_stall.c:%d", line);
    return text;
}

/* The largest number in a text. */
static uint64_t largest_number(const char *text)
{
    uint64_t largest = 0;
    while (*text) {
        char *end;
        if (*text >= '0' && *text <= '9') {
            uint64_t value = strtoull(text, &end, 10);
            largest = value > largest ? value : largest;
            text = end;
        } else {
            text++;
        }
    }
    return largest;
}

/* ---- Stalls -------------------------------------------------------------------------------- */

/* Scopes hold neither slots nor arguments: any number of tasks fits into one. */
static void test_any_number_of_tasks_in_a_scope(void **state)
{
    rig r;
    pto_config config = tiny();
    pto_param scalars[64];
    rig_start(&r, state, &config);
    for (int i = 0; i < 64; i++) {
        scalars[i] = pto_scalar(i);
    }
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor first = rig_temp(&r, 64);
    pto_task oldest = RIG_SUBMIT(&r, r.fill, pto_output(&first), pto_scalar(7));
    for (int i = 0; i < 3000; i++) {
        expect_ok(pto_submit_task(r.rt, r.quick, PTO_KERNEL_TYPE, scalars, (size_t)i % 64, NULL));
    }
    expect_ok(pto_wait(r.rt));
    assert_int_equal(rig_stats(&r).submitted, 3001);
    assert_int_equal(rig_ring(&r, 0, PTO_RING_TASKS).used, 0);
    assert_int_equal(rig_ring(&r, 0, PTO_RING_ARGS).used, 0);
    assert_int_equal(rig_ring(&r, 0, PTO_RING_HEAP).used, 64);
    /* The block answers for its task, whose slot is gone. */
    const pto_task_report report = rig_info(&r, oldest);
    assert_int_equal(report.state, PTO_TASK_COMPLETED);
    assert_string_equal(report.kernel, "fill");
    assert_int_equal(report.order, 0);
    assert_int_equal(report.heap_bytes, 64);
    RIG_FANOUT(&r, oldest, 1, 1);
    pto_tensor got;
    expect_ok(pto_task_get_output(r.rt, oldest, 0, &got));
    assert_memory_equal(&got, &first, sizeof got);
    expect_ok(pto_scope_end(r.rt));
    assert_int_equal(rig_info(&r, oldest).state, PTO_TASK_CONSUMED);
    expect_fail(pto_task_get_output(r.rt, oldest, 0, &got), PTO_BAD_TASK, "recycled");
    rig_stop(&r);
}

/* pto_alloc takes memory and no slot. */
static void test_alloc_takes_no_slot(void **state)
{
    rig r;
    pto_config config = tiny();
    pto_tensor t;
    rig_start(&r, state, &config);
    expect_ok(pto_scope_begin(r.rt));
    const pto_task before = RIG_SUBMIT_BARE(&r, r.hold);
    for (int i = 0; i < 40; i++) {
        expect_ok(pto_alloc(r.rt, PTO_UINT8, 1, DIMS(64), &t));
    }
    assert_int_equal(pto_last_task(r.rt), before);
    assert_int_equal(rig_stats(&r).submitted, 1);
    assert_int_equal(rig_ring(&r, 0, PTO_RING_TASKS).used, 1);
    assert_int_equal(rig_ring(&r, 0, PTO_RING_HEAP).used, 40 * 64);
    rig_finish(&r, before, PTO_OK);
    expect_ok(pto_scope_end(r.rt));
    expect_ok(pto_wait(r.rt));
    assert_int_equal(rig_ring(&r, 0, PTO_RING_HEAP).used, 0);
    rig_stop(&r);
}

/* Inner scopes of a lifetime hold memory, too. The scope that begins the lifetime is named. */
static void test_the_scope_that_holds_is_named(void **state)
{
    rig r;
    pto_config config = tiny();
    char outer[64];
    rig_start(&r, state, &config);
    int outer_line = __LINE__ + 1;
    expect_ok(pto_scope_begin(r.rt));
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor all = rig_temp(&r, 16384), more = rig_temp(&r, 64);
    RIG_SUBMIT(&r, r.quick, pto_output(&all));
    for (int inner = 1; inner >= 0; inner--) {
        expect_fail(pto_submit(r.rt, r.quick, pto_output(&more)), PTO_STALLED,
                    site(outer, sizeof outer, outer_line));
        expect_ok(pto_scope_end(r.rt));
    }
    expect_ok(pto_scope_begin(r.rt));
    more = rig_temp(&r, 64);
    RIG_SUBMIT(&r, r.quick, pto_output(&more));
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

/* The heap: four quarters fit, a fifth does not. */
static void test_a_full_heap_under_an_open_scope(void **state)
{
    rig r;
    pto_config config = tiny();
    char submitted[64], begun[64];
    rig_start(&r, state, &config);
    uint64_t heap = rig_ring(&r, 0, PTO_RING_HEAP).size;
    assert_int_equal(heap, 16384);
    int64_t quarter = (int64_t)heap / 4;
    int scope_line = __LINE__ + 1;
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor t = rig_temp(&r, quarter), more = rig_temp(&r, 1);
    int task_line = __LINE__ + 1;
    RIG_SUBMIT(&r, r.fill, pto_output(&t), pto_scalar(1));
    for (int i = 1; i < 4; i++) {
        pto_tensor other = rig_temp(&r, quarter);
        RIG_SUBMIT(&r, r.quick, pto_output(&other));
    }
    assert_int_equal(rig_ring(&r, 0, PTO_RING_HEAP).used, heap);
    expect_fail(pto_submit(r.rt, r.quick, pto_output(&more)), PTO_STALLED, "heap", "16384",
                "'fill'", site(submitted, sizeof submitted, task_line),
                site(begun, sizeof begun, scope_line), "scope");
    expect_fail(pto_alloc(r.rt, PTO_UINT8, 1, DIMS(1), &more), PTO_STALLED, "heap");
    assert_int_equal(rig_stats(&r).submitted, 4);
    assert_int_equal(rig_ring(&r, 0, PTO_RING_HEAP).used, heap);
    /* Tasks that need no heap still work. */
    pto_task reader = RIG_SUBMIT(&r, r.quick, pto_input(&t));
    expect_ok(pto_wait_task(r.rt, reader));
    expect_ok(pto_scope_end(r.rt));
    expect_ok(pto_scope_begin(r.rt));
    more = rig_temp(&r, (int64_t)heap);
    RIG_SUBMIT(&r, r.quick, pto_output(&more));
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

/* Memory comes back in the order of birth. A tensor that is given up (pto_release) makes room once
 * all before it are gone, too. */
static void test_memory_given_up(void **state)
{
    rig r;
    pto_config config = tiny();
    char begun[64], gone[64];
    rig_start(&r, state, &config);
    int scope_line = __LINE__ + 1;
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor step[4], more;
    for (int i = 0; i < 4; i++) {
        step[i] = rig_temp(&r, 4096);
        RIG_SUBMIT(&r, r.fill, pto_output(&step[i]), pto_scalar(i));
    }
    /* The second is given up, and waits behind the first. */
    int release_line = __LINE__ + 1;
    expect_ok(pto_release(r.rt, &step[1]));
    expect_fail(pto_submit(r.rt, r.quick, pto_input(&step[1])), PTO_STALE, "pto_release",
                site(gone, sizeof gone, release_line));
    expect_fail(pto_release(r.rt, &step[1]), PTO_STALE, "pto_release");
    more = rig_temp(&r, 8192);
    expect_fail(pto_submit(r.rt, r.quick, pto_output(&more)), PTO_STALLED, "heap", "pto_release",
                site(begun, sizeof begun, scope_line));
    pto_stall_report report;
    expect_ok(pto_last_stall(r.rt, &report));
    assert_int_equal(report.given_up, 4096);
    assert_int_equal(report.output, 0);
    assert_int_equal(report.output_bytes, 4096);
    /* A reader that is not complete keeps the memory, not the handle. */
    pto_task reader = RIG_SUBMIT(&r, r.hold, pto_input(&step[0]));
    expect_ok(pto_release(r.rt, &step[0]));
    rig_later later = {.status = PTO_OK};
    rig_later_start(&later, &r, reader, 5000);
    RIG_SUBMIT(&r, r.quick, pto_output(&more));
    assert_true(atomic_load(&later.ending));
    rig_later_join(&later);
    pto_tensor user = rig_bytes(&r, (char[8]){0}, 8);
    expect_fail(pto_release(r.rt, &user), PTO_BAD_MEMORY, "only managed");
    expect_fail(pto_release(r.rt, NULL), PTO_NULL_ARGUMENT, "NULL");
    unsigned char got[4096];
    expect_ok(pto_read(r.rt, &step[2], got, sizeof got));
    assert_int_equal(got[4095], 2);
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

/* Two time steps that roll over: their lifetimes do not nest, and one scope holds them all. */
static void test_rolling_steps(void **state)
{
    rig r;
    pto_config config = tiny();
    config.buffers = 3;
    rig_start(&r, state, &config);
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor old = rig_temp(&r, 4096);
    RIG_SUBMIT(&r, r.fill, pto_output(&old), pto_scalar(1));
    for (int i = 0; i < 1000; i++) {
        pto_tensor next = rig_temp(&r, 4096);
        RIG_SUBMIT(&r, r.copy, pto_input(&old), pto_output(&next));
        expect_ok(pto_release(r.rt, &old));
        old = next;
    }
    unsigned char got[4096];
    expect_ok(pto_read(r.rt, &old, got, sizeof got));
    assert_int_equal(got[0], 1);
    assert_int_equal(rig_stats(&r).buffers, 1);
    expect_ok(pto_check(r.rt));
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

/* Enough is free, but not in one piece: that is said, and not that the heap is full. */
static void test_no_gap(void **state)
{
    rig r;
    pto_config config = tiny();
    config.heap_bytes = 12288;
    rig_start(&r, state, &config);
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor a, b, c;
    expect_ok(pto_alloc(r.rt, PTO_UINT8, 1, DIMS(4096), &a));
    expect_ok(pto_alloc(r.rt, PTO_UINT8, 1, DIMS(4096), &b));
    expect_ok(pto_release(r.rt, &a));
    expect_fail(pto_alloc(r.rt, PTO_UINT8, 1, DIMS(8192), &c), PTO_STALLED, "alloc: the heap",
                "no gap of 8192 bytes", "4096 of 12288", "pto_release");
    expect_ok(pto_release(r.rt, &b));
    expect_ok(pto_alloc(r.rt, PTO_UINT8, 1, DIMS(8192), &c));
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

/* A tensor that was given up names the line, also when its record serves another one. PTO_SCOPE
 * names where the block begins: C does not say where it is left. */
static void test_why_a_handle_is_stale(void **state)
{
    rig r;
    char gone[64], block[64];
    rig_start(&r, state, NULL);
    pto_tensor t = {0}, u;
    int block_line = __LINE__ + 1;
    PTO_SCOPE(r.rt) {
        t = rig_temp(&r, 64);
        int line = __LINE__ + 1;
        expect_ok(pto_release(r.rt, &t));
        u = rig_temp(&r, 64);
        expect_fail(pto_submit(r.rt, r.quick, pto_output(&t)), PTO_STALE, "given up by pto_release",
                    site(gone, sizeof gone, line));
        RIG_SUBMIT(&r, r.quick, pto_output(&u));
        t = u;
    }
    expect_fail(pto_submit(r.rt, r.quick, pto_input(&t)), PTO_STALE, "the scope that began at",
                site(block, sizeof block, block_line), "has ended");
    rig_stop(&r);
}

/* A stale handle names the line where its scope ended. */
static void test_a_stale_handle_names_the_end_of_its_scope(void **state)
{
    rig r;
    pto_config config = tiny();
    char inner[64], outer[64];
    rig_start(&r, state, &config);
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor a = rig_temp(&r, 64);
    expect_ok(pto_scope_begin_ex(r.rt, PTO_SCOPE_BOUNDARY));
    pto_tensor b = rig_temp(&r, 64);
    int inner_line = __LINE__ + 1;
    expect_ok(pto_scope_end(r.rt));
    expect_fail(pto_submit(r.rt, r.quick, pto_output(&b)), PTO_STALE, "its scope was ended at",
                site(inner, sizeof inner, inner_line));
    int outer_line = __LINE__ + 1;
    expect_ok(pto_scope_end(r.rt));
    expect_fail(pto_submit(r.rt, r.quick, pto_output(&a)), PTO_STALE,
                site(outer, sizeof outer, outer_line));
    expect_fail(pto_submit(r.rt, r.quick, pto_output(&b)), PTO_STALE,
                site(inner, sizeof inner, inner_line));
    /* A loop of lifetimes is remembered as one. */
    for (int i = 0; i < 100; i++) {
        expect_ok(pto_scope_begin(r.rt));
        (void)rig_temp(&r, 64);
        expect_ok(pto_scope_end(r.rt));
    }
    expect_fail(pto_submit(r.rt, r.quick, pto_output(&a)), PTO_STALE,
                site(outer, sizeof outer, outer_line));
    rig_stop(&r);
}

/* Only so many ends are remembered. A handle whose own is forgotten is still recognised, and no
 * other line is named. */
static void test_a_stale_handle_whose_end_is_forgotten(void **state)
{
    rig r;
    pto_config config = tiny();
    pto_tensor first = {0}, last = {0};
    char end[64];
    int line = 0;
    rig_start(&r, state, &config);
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor outer = rig_temp(&r, 64);
    for (int i = 0; i < 100; i++) {
        expect_ok(pto_scope_begin_ex(r.rt, PTO_SCOPE_BOUNDARY));
        last = rig_temp(&r, 64);
        first = i ? first : last;
        line = __LINE__ + 1;
        expect_ok(pto_scope_end(r.rt));
        expect_ok(pto_scope_begin_ex(r.rt, PTO_SCOPE_BOUNDARY));
        (void)rig_temp(&r, 64);
        expect_ok(pto_scope_end(r.rt));
    }
    expect_fail(pto_release(r.rt, &first), PTO_STALE, "or it is of another runtime");
    expect_ok(pto_scope_end(r.rt));
    expect_fail(pto_release(r.rt, &first), PTO_STALE, "or it is of another runtime");
    expect_fail(pto_release(r.rt, &outer), PTO_STALE, "or it is of another runtime");
    expect_fail(pto_release(r.rt, &last), PTO_STALE, site(end, sizeof end, line));
    rig_stop(&r);
}

/* Records of managed tensors: only the end of a scope frees them. */
static void test_too_many_tensors_in_open_scopes(void **state)
{
    rig r;
    pto_config config = tiny();
    config.buffers = 4;
    pto_tensor t;
    rig_start(&r, state, &config);
    expect_ok(pto_scope_begin(r.rt));
    for (int round = 0; round < 3; round++) {
        expect_ok(pto_scope_begin_ex(r.rt, PTO_SCOPE_BOUNDARY));
        for (int i = 0; i < 4; i++) {
            t = rig_temp(&r, 64);
            RIG_SUBMIT(&r, r.quick, pto_output(&t));
        }
        expect_fail(pto_temp(r.rt, PTO_UINT8, 1, DIMS(64), &t), PTO_STALLED, "4", "buffers");
        expect_fail(pto_alloc(r.rt, PTO_UINT8, 1, DIMS(64), &t), PTO_STALLED, "4", "buffers");
        assert_int_equal(rig_stats(&r).buffers, 4);
        expect_ok(pto_scope_end(r.rt));
        assert_int_equal(rig_stats(&r).buffers, 0);
    }
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

/* ---- Waiting ------------------------------------------------------------------------------- */

typedef struct nap {
    atomic_bool full, slept;
} nap;

/* Sleeps on after the ring is full. */
static pto_status sleep_long(const pto_call *call)
{
    nap *n = call->user;
    while (!atomic_load(&n->full)) {
        rig_sleep_us(100);
    }
    rig_sleep_us(300000);
    atomic_store(&n->slept, true);
    return PTO_OK;
}

/* A slow kernel is no stall, whether it is the oldest task of the ring or only holds the memory
 * of the oldest task. */
static void test_a_slow_kernel_is_no_stall(void **state)
{
    rig r;
    pto_config config = tiny();
    rig_start(&r, state, &config);
    int64_t heap = (int64_t)rig_ring(&r, 0, PTO_RING_HEAP).size;
    nap *n = rig_memory(&r, sizeof *n);
    pto_kernel slow;
    atomic_init(&n->full, false);
    atomic_init(&n->slept, false);
    expect_ok(pto_kernel_register(r.rt, "slow", PTO_VECTOR, sleep_long, n, &slow));
    RIG_SUBMIT_BARE(&r, slow);
    for (int i = 1; i < 16; i++) {
        RIG_SUBMIT_BARE(&r, r.quick);
    }
    assert_false(atomic_load(&n->slept));
    assert_int_equal(rig_ring(&r, 0, PTO_RING_TASKS).waits, 0);
    atomic_store(&n->full, true);
    RIG_SUBMIT_BARE(&r, r.quick);
    assert_true(atomic_load(&n->slept));
    assert_int_equal(rig_ring(&r, 0, PTO_RING_TASKS).waits, 1);

    /* The oldest is complete, its scope has ended, and a task still reads its memory. */
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor t = rig_temp(&r, heap), next;
    RIG_SUBMIT(&r, r.quick, pto_output(&t));
    pto_task reader = RIG_SUBMIT(&r, r.hold, pto_input(&t));
    expect_ok(pto_scope_end(r.rt));
    rig_later holder = {.status = PTO_OK, .until_wait = true};
    rig_later_start(&holder, &r, reader, 20000);
    expect_ok(pto_scope_begin(r.rt));
    next = rig_temp(&r, heap);
    RIG_SUBMIT(&r, r.quick, pto_output(&next));
    assert_true(atomic_load(&holder.ending));
    rig_later_join(&holder);
    expect_ok(pto_scope_end(r.rt));
    assert_int_equal(rig_ring(&r, 0, PTO_RING_HEAP).waits, 1);
    rig_stop(&r);
}

/* Under an open scope no task can make room, whether the oldest is complete or its memory is in
 * use. Only the caller can, so submit fails immediately. If submit waited for a task that this
 * thread completes later, the test would hang. */
static void test_a_stall_is_proved_not_guessed(void **state)
{
    rig r;
    pto_config config = tiny();
    rig_start(&r, state, &config);
    int64_t heap = (int64_t)rig_ring(&r, 0, PTO_RING_HEAP).size;
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor t = rig_temp(&r, heap), more = rig_temp(&r, 64);
    pto_task oldest = RIG_SUBMIT(&r, r.hold, pto_output(&t));
    expect_fail(pto_submit(r.rt, r.quick, pto_output(&more)), PTO_STALLED, "heap");
    rig_finish(&r, oldest, PTO_OK);
    pto_task reader = RIG_SUBMIT(&r, r.hold, pto_input(&t));
    expect_fail(pto_submit(r.rt, r.quick, pto_output(&more)), PTO_STALLED, "heap");
    rig_finish(&r, reader, PTO_OK);
    expect_fail(pto_submit(r.rt, r.quick, pto_output(&more)), PTO_STALLED, "heap");
    expect_ok(pto_scope_end(r.rt));
    /* The handle died with the scope; the room is there. */
    expect_ok(pto_scope_begin(r.rt));
    more = rig_temp(&r, heap);
    RIG_SUBMIT(&r, r.quick, pto_output(&more));
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

/* pto_wait and pto_read wait for completion, never for room: a full ring does not matter to
 * them. */
static void test_waiting_needs_no_room(void **state)
{
    rig r;
    pto_config config = tiny();
    unsigned char got[64];
    rig_start(&r, state, &config);
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor t = rig_temp(&r, 64);
    RIG_SUBMIT(&r, r.fill, pto_output(&t), pto_scalar(3));
    pto_tensor rest = rig_temp(&r, 16384 - 64), more = rig_temp(&r, 64);
    RIG_SUBMIT(&r, r.quick, pto_output(&rest));
    expect_fail(pto_submit(r.rt, r.quick, pto_output(&more)), PTO_STALLED, "heap");
    expect_ok(pto_wait(r.rt));
    expect_ok(pto_read(r.rt, &t, got, sizeof got));
    assert_int_equal(got[63], 3);
    expect_ok(pto_write(r.rt, &t, got, sizeof got));
    expect_ok(pto_wait_task(r.rt, pto_last_task(r.rt)));
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

/* ---- Streaming ----------------------------------------------------------------------------- */

/* Boundary scopes inside an outer scope stream without limit, whatever the outer scope holds. */
static void stream(void **state, uint32_t levels, bool outer_task)
{
    rig r;
    pto_config config = tiny();
    config.levels = levels;
    unsigned char got[64];
    rig_start(&r, state, &config);
    uint64_t rounds = test_effort(10000);
    int64_t heap = (int64_t)rig_ring(&r, levels - 1, PTO_RING_HEAP).size;
    char *memory = rig_memory(&r, 64);
    pto_tensor outer = rig_bytes(&r, memory, 64);
    memset(memory, 5, 64);
    expect_ok(pto_scope_begin(r.rt));
    if (outer_task) {
        outer = rig_temp(&r, 64);
        RIG_SUBMIT(&r, r.fill, pto_output(&outer), pto_scalar(5));
    }
    for (uint64_t i = 0; i < rounds; i++) {
        expect_ok(pto_scope_begin_ex(r.rt, PTO_SCOPE_BOUNDARY));
        pto_tensor first = rig_temp(&r, 64), rest = rig_temp(&r, heap / 4);
        RIG_SUBMIT(&r, r.copy, pto_input(&outer), pto_output(&first));
        RIG_SUBMIT(&r, r.quick, pto_input(&first), pto_output(&rest));
        if (i % 1000 == 0) {
            expect_ok(pto_read(r.rt, &first, got, sizeof got));
            assert_int_equal(got[63], 5);
        }
        expect_ok(pto_scope_end(r.rt));
    }
    expect_ok(pto_wait(r.rt));
    pto_runtime_stats stats = rig_stats(&r);
    assert_int_equal(stats.submitted, 2 * rounds + outer_task);
    assert_true(stats.level[levels - 1].ring[PTO_RING_TASKS].peak <= 16);
    assert_true(stats.level[levels - 1].ring[PTO_RING_HEAP].peak <= (uint64_t)heap);
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

static void test_boundaries_stream_under_a_live_outer_task(void **state)
{
    stream(state, 2, true);
}

static void test_boundaries_stream_on_one_level_with_no_outer_task(void **state)
{
    stream(state, 1, false);
}

/* On one level live outer memory is in the way: this is a stall, whose report says so and which the
 * caller can end. */
static void test_one_level_and_live_outer_memory(void **state)
{
    rig r;
    pto_config config = tiny();
    config.levels = 1;
    char submitted[64], begun[64];
    rig_start(&r, state, &config);
    int scope_line = __LINE__ + 1;
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor outer = rig_temp(&r, 64);
    int task_line = __LINE__ + 1;
    RIG_SUBMIT(&r, r.fill, pto_output(&outer), pto_scalar(5));
    pto_status status = PTO_OK;
    uint32_t tasks = 1;
    while (status == PTO_OK && tasks < 1000) {
        expect_ok(pto_scope_begin_ex(r.rt, PTO_SCOPE_BOUNDARY));
        pto_tensor inner = rig_temp(&r, 1024);
        PTO_IGNORE(pto_fail(PTO_CORRUPT, "stale"));
        status = pto_submit(r.rt, r.quick, pto_input(&outer), pto_output(&inner));
        tasks += status == PTO_OK;
        expect_ok(pto_scope_end(r.rt));
    }
    /* pto_scope_end succeeded after it, so the detail is still that of submit. */
    expect_status(status, PTO_STALLED,
                  (const char *const[]){"heap", "16384", "'fill'",
                                        site(submitted, sizeof submitted, task_line),
                                        site(begun, sizeof begun, scope_line), "level", NULL},
                  "submit", __FILE__, __LINE__);
    expect_refusal(r.rt, status, PTO_STALLED);
    assert_int_equal(tasks, 16);
    expect_ok(pto_scope_end(r.rt));
    expect_ok(pto_scope_begin(r.rt));
    for (int i = 0; i < 100; i++) {
        expect_ok(pto_scope_begin_ex(r.rt, PTO_SCOPE_BOUNDARY));
        RIG_SUBMIT_BARE(&r, r.quick);
        expect_ok(pto_scope_end(r.rt));
    }
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

/* ---- Too large ----------------------------------------------------------------------------- */

static void test_outputs_beyond_the_heap(void **state)
{
    rig r;
    pto_config config = tiny();
    rig_start(&r, state, &config);
    int64_t heap = (int64_t)rig_ring(&r, 0, PTO_RING_HEAP).size;
    expect_ok(pto_scope_begin(r.rt));
    pto_tensor large, whole = rig_temp(&r, heap), byte = rig_temp(&r, 1);
    /* Refused when it is made, or at the latest when it gets memory. */
    pto_status status = pto_temp(r.rt, PTO_UINT8, 1, DIMS(heap + 1), &large);
    if (status == PTO_OK) {
        expect_fail(pto_submit(r.rt, r.quick, pto_output(&large)), PTO_TOO_LARGE, "16384");
        expect_fail(pto_write(r.rt, &large, "", 0), PTO_TOO_LARGE, "16384");
    } else {
        expect_refusal(r.rt, status, PTO_TOO_LARGE);
    }
    expect_fail(pto_alloc(r.rt, PTO_UINT8, 1, DIMS(heap + 1), &large), PTO_TOO_LARGE, "16384");
    /* Each fits alone, together they do not. */
    expect_fail(pto_submit(r.rt, r.quick, pto_output(&whole), pto_output(&byte)), PTO_TOO_LARGE,
                "16384");
    uint64_t enough = largest_number(pto_error_detail());
    assert_in_range(enough, (uint64_t)heap + 1, (uint64_t)heap + 4096);
    assert_int_equal(rig_stats(&r).submitted, 0);
    RIG_SUBMIT(&r, r.quick, pto_output(&whole));
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);

    /* The suggested size is enough. */
    config.heap_bytes = enough;
    rig_start(&r, state, &config);
    expect_ok(pto_scope_begin(r.rt));
    whole = rig_temp(&r, heap);
    byte = rig_temp(&r, 1);
    RIG_SUBMIT(&r, r.quick, pto_output(&whole), pto_output(&byte));
    expect_ok(pto_scope_end(r.rt));
    rig_stop(&r);
}

static void test_arguments_beyond_the_ring(void **state)
{
    enum { MANY = 20000 };
    rig r;
    pto_config config = tiny();
    rig_start(&r, state, &config);
    pto_param *scalars = calloc(MANY, sizeof *scalars);
    assert_non_null(scalars);
    for (int i = 0; i < MANY; i++) {
        scalars[i] = pto_scalar(i);
    }
    pto_task task = 4711;
    expect_fail(pto_submit_task(r.rt, r.quick, PTO_KERNEL_TYPE, scalars, MANY, &task),
                PTO_TOO_LARGE, "16384");
    assert_int_equal(task, 4711);
    assert_int_equal(rig_stats(&r).submitted, 0);
    uint64_t enough = largest_number(pto_error_detail());
    assert_true(enough > 16384);
    RIG_SUBMIT_BARE(&r, r.quick);
    rig_stop(&r);

    config.arg_bytes = enough;
    rig_start(&r, state, &config);
    expect_ok(pto_submit_task(r.rt, r.quick, PTO_KERNEL_TYPE, scalars, MANY, &task));
    expect_ok(pto_submit_task(r.rt, r.quick, PTO_KERNEL_TYPE, scalars, MANY, &task));
    rig_stop(&r);
    free(scalars);
}

/* ---- The heap as a ring --------------------------------------------------------------------- */

/* Wherever head and tail stand, a drained heap takes a block of its full size. */
static void test_a_drained_heap_takes_its_full_size(void **state)
{
    rig r;
    pto_config config = tiny();
    rig_start(&r, state, &config);
    int64_t heap = (int64_t)rig_ring(&r, 0, PTO_RING_HEAP).size;
    for (int64_t part = 64; part < heap; part += 1024 + 64) {
        expect_ok(pto_scope_begin(r.rt));
        pto_tensor t = rig_temp(&r, part);
        RIG_SUBMIT(&r, r.quick, pto_output(&t));
        expect_ok(pto_scope_end(r.rt));
        expect_ok(pto_scope_begin(r.rt));
        pto_tensor whole = rig_temp(&r, heap);
        RIG_SUBMIT(&r, r.fill, pto_output(&whole), pto_scalar(1));
        assert_int_equal(rig_ring(&r, 0, PTO_RING_HEAP).used, heap);
        expect_ok(pto_scope_end(r.rt));
    }
    rig_stop(&r);
}

/* Tasks without heap bytes do not affect the blocks around them. */
static void test_tasks_without_bytes_do_not_freeze_the_heap(void **state)
{
    rig r;
    pto_config config = tiny();
    rig_start(&r, state, &config);
    int64_t heap = (int64_t)rig_ring(&r, 0, PTO_RING_HEAP).size;
    for (int round = 0; round < 20; round++) {
        expect_ok(pto_scope_begin(r.rt));
        pto_tensor a = rig_temp(&r, heap / 2 + 64), b = rig_temp(&r, heap);
        RIG_SUBMIT(&r, r.quick, pto_output(&a));
        RIG_SUBMIT_BARE(&r, r.quick);
        pto_task reader = RIG_SUBMIT(&r, r.quick, pto_input(&a));
        expect_ok(pto_scope_end(r.rt));
        /* The oldest live task has no bytes, and stays alive. */
        pto_task empty = RIG_SUBMIT_BARE(&r, r.hold);
        rig_until(&r, reader, PTO_TASK_CONSUMED);
        expect_ok(pto_scope_begin(r.rt));
        b = rig_temp(&r, heap);
        RIG_SUBMIT(&r, r.quick, pto_output(&b));
        expect_ok(pto_scope_end(r.rt));
        rig_finish(&r, empty, PTO_OK);
        expect_ok(pto_wait(r.rt));
    }
    assert_int_equal(rig_ring(&r, 0, PTO_RING_HEAP).waits, 0);
    rig_stop(&r);
}

/* Blocks are aligned, inside the heap, never split at the wrap, and never shared by live tasks. */
static void test_blocks_are_whole(void **state)
{
    enum { ALIVE = 5 };
    rig r;
    pto_config config = tiny();
    config.guard = PTO_NO_GUARD; /* they would lie further apart */
    rig_start(&r, state, &config);
    test_rng rng = test_rng_make(test_seed());
    int64_t heap = (int64_t)rig_ring(&r, 1, PTO_RING_HEAP).size;
    expect_ok(pto_scope_begin_ex(r.rt, PTO_SCOPE_BOUNDARY));
    pto_tensor whole = rig_temp(&r, heap);
    RIG_SUBMIT(&r, r.quick, pto_output(&whole));
    unsigned char *base = rig_address(&r, &whole);
    assert_int_equal((uintptr_t)base % 64, 0);
    expect_ok(pto_scope_end(r.rt));

    for (uint64_t round = 0, rounds = test_effort(1000); round < rounds; round++) {
        expect_ok(pto_scope_begin_ex(r.rt, PTO_SCOPE_BOUNDARY));
        pto_tensor t[ALIVE];
        unsigned char *at[ALIVE];
        int64_t size[ALIVE];
        for (int i = 0; i < ALIVE; i++) {
            size[i] = test_between(&rng, 1, heap / 8);
            t[i] = rig_temp(&r, size[i]);
            RIG_SUBMIT(&r, r.fill, pto_output(&t[i]), pto_scalar((int64_t)i));
            at[i] = rig_address(&r, &t[i]);
            assert_int_equal((uintptr_t)at[i] % 64, 0);
            assert_true(at[i] >= base && at[i] + size[i] <= base + heap);
            for (int j = 0; j < i; j++) {
                assert_true(at[i] + size[i] <= at[j] || at[j] + size[j] <= at[i]);
            }
        }
        expect_ok(pto_scope_end(r.rt));
    }
    rig_stop(&r);
}

int main(void)
{
    const rig_case cases[] = {
        RIG_CASE(test_any_number_of_tasks_in_a_scope),
        RIG_CASE(test_alloc_takes_no_slot),
        RIG_CASE(test_the_scope_that_holds_is_named),
        RIG_CASE(test_a_full_heap_under_an_open_scope),
        RIG_CASE(test_memory_given_up),
        RIG_CASE(test_rolling_steps),
        RIG_CASE(test_no_gap),
        RIG_CASE(test_why_a_handle_is_stale),
        RIG_CASE(test_a_stale_handle_names_the_end_of_its_scope),
        RIG_CASE(test_a_stale_handle_whose_end_is_forgotten),
        RIG_CASE(test_too_many_tensors_in_open_scopes),
        RIG_CASE_SLOW(test_a_slow_kernel_is_no_stall),
        RIG_CASE(test_a_stall_is_proved_not_guessed),
        RIG_CASE(test_waiting_needs_no_room),
        RIG_CASE_SLOW(test_boundaries_stream_under_a_live_outer_task),
        RIG_CASE_SLOW(test_boundaries_stream_on_one_level_with_no_outer_task),
        RIG_CASE(test_one_level_and_live_outer_memory),
        RIG_CASE(test_outputs_beyond_the_heap),
        RIG_CASE(test_arguments_beyond_the_ring),
        RIG_CASE(test_a_drained_heap_takes_its_full_size),
        RIG_CASE(test_tasks_without_bytes_do_not_freeze_the_heap),
        RIG_CASE(test_blocks_are_whole),
    };
    return rig_run("stall", cases, sizeof cases / sizeof *cases);
}
