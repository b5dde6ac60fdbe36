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

/* The task ring: it is full, and the scope holds all its tasks. */
static void test_a_full_task_ring_under_an_open_scope(void **state)
{
    rig r;
    pto_config config = tiny();
    char submitted[64], begun[64];
    rig_start(&r, state, &config);
    uint64_t slots = rig_ring(&r, 0, PTO_RING_TASKS).size;
    assert_int_equal(slots, 16);
    int scope_line = __LINE__ + 1;
    expect_ok(pto_scope_begin(r.rt));
    int task_line = __LINE__ + 1;
    pto_task oldest = RIG_SUBMIT_BARE(&r, r.hold);
    for (uint32_t i = 1; i < slots; i++) {
        RIG_SUBMIT_BARE(&r, r.quick);
    }
    rig_finish(&r, oldest, PTO_OK);
    assert_int_equal(rig_ring(&r, 0, PTO_RING_TASKS).waits, 0);
    pto_task task = 4711, last = pto_last_task(r.rt);
    expect_fail(pto_submit_task(r.rt, r.quick, PTO_KERNEL_TYPE, NULL, 0, &task), PTO_STALLED,
                "task ring", "16", "'hold'", site(submitted, sizeof submitted, task_line),
                site(begun, sizeof begun, scope_line), "scope", "level");
    assert_int_equal(task, 4711);
    assert_int_equal(pto_last_task(r.rt), last);
    assert_int_equal(rig_stats(&r).submitted, slots);
    assert_int_equal(rig_ring(&r, 0, PTO_RING_TASKS).used, slots);
    expect_ok(pto_check(r.rt));
    /* Again, as long as the scope is open. */
    expect_fail(pto_submit_task(r.rt, r.quick, PTO_KERNEL_TYPE, NULL, 0, &task), PTO_STALLED,
                "task ring");
    /* Another level has room. */
    expect_ok(pto_scope_begin_ex(r.rt, PTO_SCOPE_BOUNDARY));
    RIG_SUBMIT_BARE(&r, r.quick);
    expect_ok(pto_scope_end(r.rt));
    expect_ok(pto_scope_end(r.rt));
    for (uint32_t i = 0; i < 3 * slots; i++) {
        RIG_SUBMIT_BARE(&r, r.quick);
    }
    rig_stop(&r);
}

/* Inner scopes of a lifetime hold tasks, too: the innermost one that holds is named. */
static void test_the_scope_that_holds_is_named(void **state)
{
    rig r;
    pto_config config = tiny();
    char outer[64], inner[64];
    rig_start(&r, state, &config);
    int outer_line = __LINE__ + 1;
    expect_ok(pto_scope_begin(r.rt));
    int inner_line = __LINE__ + 1;
    expect_ok(pto_scope_begin(r.rt));
    for (int i = 0; i < 16; i++) {
        RIG_SUBMIT_BARE(&r, r.quick);
    }
    (void)pto_fail(PTO_CORRUPT, "stale");
    assert_int_equal(pto_submit_task(r.rt, r.quick, PTO_KERNEL_TYPE, NULL, 0, NULL), PTO_STALLED);
    bool named = strstr(pto_error_detail(), site(inner, sizeof inner, inner_line)) ||
                 strstr(pto_error_detail(), site(outer, sizeof outer, outer_line));
    assert_true(named);
    /* With the inner one ended the outer one is the reason. */
    expect_ok(pto_scope_end(r.rt));
    expect_fail(pto_submit_task(r.rt, r.quick, PTO_KERNEL_TYPE, NULL, 0, NULL), PTO_STALLED,
                site(outer, sizeof outer, outer_line));
    expect_ok(pto_scope_end(r.rt));
    RIG_SUBMIT_BARE(&r, r.quick);
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

/* The arguments: tasks that take much more of them than usual. */
static void test_full_arguments_under_an_open_scope(void **state)
{
    rig r;
    pto_config config = tiny();
    config.ring_tasks = 1024;
    pto_param scalars[64];
    char submitted[64], begun[64];
    rig_start(&r, state, &config);
    for (int i = 0; i < 64; i++) {
        scalars[i] = pto_scalar(i);
    }
    int scope_line = __LINE__ + 1;
    expect_ok(pto_scope_begin(r.rt));
    pto_status status = PTO_OK;
    int tasks = 0, task_line = __LINE__ + 2;
    while (tasks < 1000 && status == PTO_OK) {
        status = pto_submit_task(r.rt, r.quick, PTO_KERNEL_TYPE, scalars, 64, NULL);
        tasks += status == PTO_OK;
    }
    /* 64 scalars are 512 bytes at least, and not more than a few times that. */
    assert_int_equal(status, PTO_STALLED);
    assert_in_range(tasks, 2, 32);
    pto_level_stats level = rig_stats(&r).level[0];
    assert_int_equal(level.ring[PTO_RING_ARGS].size, 16384);
    assert_true(level.ring[PTO_RING_ARGS].used <= 16384);
    expect_fail(pto_submit_task(r.rt, r.quick, PTO_KERNEL_TYPE, scalars, 64, NULL), PTO_STALLED,
                "arg", "16384", "'quick'", site(submitted, sizeof submitted, task_line),
                site(begun, sizeof begun, scope_line), "scope");
    assert_int_equal(rig_stats(&r).submitted, tasks);
    expect_ok(pto_scope_end(r.rt));
    for (int i = 0; i < 100; i++) {
        expect_ok(pto_submit_task(r.rt, r.quick, PTO_KERNEL_TYPE, scalars, 64, NULL));
    }
    expect_ok(pto_wait(r.rt));
    assert_int_equal(rig_ring(&r, 0, PTO_RING_ARGS).used, 0);
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

static pto_status sleep_long(const pto_call *call)
{
    rig_sleep_us(500000);
    atomic_store((atomic_bool *)call->user, true);
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
    atomic_bool slept;
    pto_kernel slow;
    atomic_init(&slept, false);
    expect_ok(pto_kernel_register(r.rt, "slow", PTO_VECTOR, sleep_long, &slept, &slow));
    RIG_SUBMIT_BARE(&r, slow);
    for (int i = 1; i < 16; i++) {
        RIG_SUBMIT_BARE(&r, r.quick);
    }
    assert_false(atomic_load(&slept));
    assert_int_equal(rig_ring(&r, 0, PTO_RING_TASKS).waits, 0);
    RIG_SUBMIT_BARE(&r, r.quick);
    assert_true(atomic_load(&slept));
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
    for (int i = 1; i < 16; i++) {
        RIG_SUBMIT(&r, r.quick, pto_input(&t));
    }
    expect_fail(pto_submit(r.rt, r.quick, pto_input(&t)), PTO_STALLED, "task ring");
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
    char memory[64];
    pto_tensor outer = rig_bytes(&r, memory, 64);
    memset(memory, 5, sizeof memory);
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

/* On one level a live outer task is in the way: this is a stall, whose report says so and which the
 * caller can end. */
static void test_one_level_and_a_live_outer_task(void **state)
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
        (void)pto_fail(PTO_CORRUPT, "stale");
        status = pto_submit(r.rt, r.quick, pto_input(&outer));
        tasks += status == PTO_OK;
        expect_ok(pto_scope_end(r.rt));
    }
    /* pto_scope_end succeeded after it, so the detail is still that of submit. */
    expect_status(status, PTO_STALLED,
                  (const char *const[]){"task ring", "16", "'fill'",
                                        site(submitted, sizeof submitted, task_line),
                                        site(begun, sizeof begun, scope_line), "level", NULL},
                  "submit", __FILE__, __LINE__);
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
        assert_int_equal(status, PTO_TOO_LARGE);
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
        RIG_CASE(test_a_full_task_ring_under_an_open_scope),
        RIG_CASE(test_the_scope_that_holds_is_named),
        RIG_CASE(test_a_full_heap_under_an_open_scope),
        RIG_CASE(test_full_arguments_under_an_open_scope),
        RIG_CASE(test_too_many_tensors_in_open_scopes),
        RIG_CASE_SLOW(test_a_slow_kernel_is_no_stall),
        RIG_CASE(test_a_stall_is_proved_not_guessed),
        RIG_CASE(test_waiting_needs_no_room),
        RIG_CASE_SLOW(test_boundaries_stream_under_a_live_outer_task),
        RIG_CASE_SLOW(test_boundaries_stream_on_one_level_with_no_outer_task),
        RIG_CASE(test_one_level_and_a_live_outer_task),
        RIG_CASE(test_outputs_beyond_the_heap),
        RIG_CASE(test_arguments_beyond_the_ring),
        RIG_CASE(test_a_drained_heap_takes_its_full_size),
        RIG_CASE(test_tasks_without_bytes_do_not_freeze_the_heap),
        RIG_CASE(test_blocks_are_whole),
    };
    return rig_run("stall", cases, sizeof cases / sizeof *cases);
}
