/* test_inline_views.c - views that the map does not know, and views that overlap others: inline execution, what the
 * map keeps, and the serial result. */
#include "inline.h"
#include "orchestrator/runtime.h"

enum { ROWS = 300, WIDE = 8, CELLS = ROWS * WIDE + 2, FIRST = 1200 };

static pto_tensor cells(const pto_tensor *all, int64_t from, int64_t to)
{
    pto_tensor t;
    expect_ok(pto_tensor_slice(all, 0, from, to, 1, &t));
    return t;
}

/* Each cell becomes the sum of its two neighbours. */
static pto_status step(const pto_call *call)
{
    saw(call);
    const unsigned char *old = call->args[0].data;
    unsigned char *new = call->args[1].data;
    for (int64_t i = 0; i < call->args[1].shape[0]; i++) {
        new[i] = (unsigned char)(old[i] + old[i + 2]);
    }
    return PTO_OK;
}

/* Slices that reach into their neighbours, as a stencil reads them, and tiles, as it writes them. From the third
 * step on the map knows all of them, and keeps them. */
static void steps_of(bench *b, pto_kernel kernel, pto_tensor all[2], unsigned char *serial[2])
{
    for (int n = 0; n < 6; n++) {
        const unsigned here = atomic_load(&b->here);
        const pto_tensor *old = &all[n % 2], *new = &all[1 - n % 2];
        for (int64_t i = 0; i < ROWS; i++) {
            pto_tensor from = cells(old, i * WIDE, i * WIDE + WIDE + 2);
            pto_tensor to = cells(new, i * WIDE + 1, i * WIDE + WIDE + 1);
            expect_ok(pto_submit(b->r.rt, kernel, pto_input(&from), pto_output(&to)));
        }
        for (int64_t i = 1; i + 1 < CELLS; i++) {
            serial[1 - n % 2][i] = (unsigned char)(serial[n % 2][i - 1] + serial[n % 2][i + 1]);
        }
        expect_ok(pto_check(b->r.rt));
        if (b->can && n >= 2) {
            assert_int_equal(atomic_load(&b->here) - here, ROWS);
        }
    }
    finish(b);
}

static void test_neighbours(void **state)
{
    bench b;
    tiles x;
    pto_kernel kernel;
    static unsigned char mine[2][CELLS], model[2][CELLS];
    unsigned char *serial[2] = {model[0], model[1]};
    start_with(&b, &x, state, NULL);
    expect_ok(pto_kernel_register(b.r.rt, "step", PTO_VECTOR, step, &b, &kernel));
    for (int i = 0; i < CELLS; i++) {
        mine[0][i] = model[0][i] = mine[1][i] = model[1][i] = (unsigned char)(i * 37);
    }
    atomic_store(&b.inside, true);
    pto_tensor all[2] = {rig_bytes(&b.r, mine[0], CELLS), rig_bytes(&b.r, mine[1], CELLS)};
    pto_tensor one = cells(&all[0], 0, 3), two = cells(&all[1], 0, 1);
    for (int i = 0; i < 40; i++) { /* the kernel is timed; the border is written as it was */
        expect_ok(pto_submit(b.r.rt, kernel, pto_input(&one), pto_output(&two)));
    }
    finish(&b);
    mine[1][0] = model[1][0];
    steps_of(&b, kernel, all, serial);
    assert_memory_equal(mine[0], model[0], CELLS);
    assert_memory_equal(mine[1], model[1], CELLS);

    /* The same in managed memory. */
    expect_ok(pto_scope_begin(b.r.rt));
    for (int i = 0; i < 2; i++) {
        expect_ok(pto_alloc(b.r.rt, PTO_UINT8, 1, (int64_t[]){CELLS}, &all[i]));
        expect_ok(pto_write(b.r.rt, &all[i], model[i], CELLS));
    }
    steps_of(&b, kernel, all, serial);
    for (int i = 0; i < 2; i++) {
        assert_memory_equal(rig_address(&b.r, &all[i]), model[i], CELLS);
    }
    atomic_store(&b.inside, false);
    expect_ok(pto_scope_end(b.r.rt));
    finish(&b);
    rig_stop(&b.r);
}

/* Halves of halves of one memory, down to SMALLEST bytes: each view overlaps all that it contains, and all that contain
 * it. The map knows all of them from some step on, and searches no more. Then one view is used alone. */
static void test_tiles_in_tiles(void **state)
{
    enum { ALL = 2048, SMALLEST = 8, STEPS = 8, KNOWN = 4 };
    bench b;
    tiles x;
    static unsigned char memory[ALL];
    start_with(&b, &x, state, NULL);
    memset(memory, 0, sizeof memory);
    pto_tensor all = rig_bytes(&b.r, memory, ALL);
    const pto_tensormap *map = b.r.rt->map;
    int64_t levels = 0, alone = 0;
    for (int n = 0; n < STEPS; n++) {
        const uint64_t searches = map->stats.searches;
        levels = 0;
        for (int64_t size = SMALLEST; size <= ALL; size *= 2, levels++) {
            for (int64_t at = 0; at < ALL; at += size) {
                pto_tensor t = cells(&all, at, at + size);
                expect_ok(pto_submit(b.r.rt, b.bump, pto_inout(&t)));
            }
        }
        finish(&b);
        expect_ok(pto_check(b.r.rt));
        is_byte(memory, (unsigned char)((n + 1) * levels), ALL);
        if (n >= KNOWN) {
            assert_int_equal(map->stats.searches, searches);
        }
    }
    const uint32_t known = map->regions_used;
    assert_true(known >= 2 * ALL / SMALLEST - 1);
    for (; alone < 100; alone++) { /* it has to pass by all others */
        expect_ok(pto_submit(b.r.rt, b.bump, pto_inout(&all)));
        finish(&b);
    }
    assert_true(map->regions_used < known / 4);
    expect_ok(pto_check(b.r.rt));
    is_byte(memory, (unsigned char)(STEPS * levels + alone), ALL);
    rig_stop(&b.r);
}

/* Tiles, and waits for all of them at once: questions about a view that no task uses, so it never becomes known. */
static void test_wait_for_tiles(void **state)
{
    enum { SLICES = 200, STEPS = 8, KNOWN = 2 };
    bench b;
    tiles x;
    static unsigned char memory[SLICES * BYTES];
    start_with(&b, &x, state, NULL);
    memset(memory, 0, sizeof memory);
    pto_tensor all = rig_bytes(&b.r, memory, sizeof memory);
    const pto_tensormap *map = b.r.rt->map;
    for (int n = 0; n < STEPS; n++) {
        const uint64_t searches = map->stats.searches;
        for (int64_t i = 0; i < SLICES; i++) {
            pto_tensor t = cells(&all, i * BYTES, i * BYTES + BYTES);
            expect_ok(pto_submit(b.r.rt, b.bump, pto_inout(&t)));
        }
        expect_ok(pto_wait_tensor(b.r.rt, &all));
        is_byte(memory, (unsigned char)(n + 1), sizeof memory);
        if (n >= KNOWN) {
            assert_true(map->stats.searches - searches <= 1);
        }
    }
    finish(&b);
    expect_ok(pto_check(b.r.rt));
    rig_stop(&b.r);
}

/* A view that was never used runs inline, unless a task that is not complete is in the way. */
static void test_first_use(void **state)
{
    bench b;
    tiles x;
    static unsigned char memory[FIRST * BYTES];
    memset(memory, 0, sizeof memory);
    start_with(&b, &x, state, NULL);
    const pto_tensor all = rig_bytes(&b.r, memory, sizeof memory);
    for (int64_t i = 0; i < 100; i++) {
        pto_tensor t = cells(&all, i * BYTES, i * BYTES + BYTES);
        is_done(&b, INLINE(&b, b.fill, pto_output(&t), pto_scalar(3)));
        pto_tensor across = cells(&all, i * BYTES + 16, i * BYTES + 32);
        INLINE(&b, b.is, pto_input(&across), pto_scalar(3));
    }
    finish(&b);
    /* In the way: a writer, a reader, through another view, of another layout. */
    pto_tensor held_on = cells(&all, 20 * BYTES + 8, 20 * BYTES + 9), before, behind, odd;
    before = cells(&all, 20 * BYTES + 1, 20 * BYTES + 9);
    behind = cells(&all, 20 * BYTES + 9, 20 * BYTES + 11);
    expect_ok(pto_tensor_slice(&all, 0, 20 * BYTES + 2, 20 * BYTES + 32, 3,
                               &odd)); /* bytes 2, 5, 8, 11 ... */
    const pto_task writes = RIG_SUBMIT(&b.r, b.r.hold, pto_inout(&held_on));
    must_wait(&b, OFFLOADED(&b, b.is, pto_input(&before), pto_scalar(3)));
    must_wait(&b, OFFLOADED(&b, b.is, pto_input(&odd), pto_scalar(3)));
    INLINE(&b, b.bump, pto_inout(&behind));
    rig_finish(&b.r, writes, PTO_OK);
    finish(&b);
    pto_tensor read = cells(&all, 30 * BYTES, 30 * BYTES + 4), near;
    near = cells(&all, 30 * BYTES + 3, 30 * BYTES + 7);
    const pto_task reads = RIG_SUBMIT(&b.r, b.r.hold, pto_input(&read));
    INLINE(&b, b.is, pto_input(&near), pto_scalar(3));
    near = cells(&all, 30 * BYTES + 3, 30 * BYTES + 6);
    must_wait(&b, OFFLOADED(&b, b.bump, pto_inout(&near)));
    rig_finish(&b.r, reads, PTO_OK);
    finish(&b);
    rig_stop(&b.r);
}

/* More views than the map has regions, once: then it keeps what it knows. Again and again: then it grows. */
static void test_more_than_regions(void **state)
{
    bench b;
    tiles x;
    pto_config config = PTO_CONFIG_INIT;
    static unsigned char memory[FIRST * BYTES];
    config.map_entries = 64; /* 4 levels: 256 regions */
    start_with(&b, &x, state, &config);
    memset(memory, 0, sizeof memory);
    const pto_tensor all = rig_bytes(&b.r, memory, sizeof memory);
    for (int n = 0; n < 3; n++) {
        for (int64_t i = 0; i < FIRST; i++) {
            pto_tensor t = cells(&all, i * BYTES, i * BYTES + BYTES);
            INLINE(&b, b.bump, pto_inout(&t));
            if (i % 64 == 0) {
                INLINE(&b, b.bump, pto_inout(&x.t[0])); /* known */
                expect_ok(pto_check(b.r.rt));
            }
        }
    }
    finish(&b);
    is_byte(memory, 3, sizeof memory);
    is_byte(x.byte[0], 57, BYTES);
    rig_stop(&b.r);
}

/* Most regions have a live access: views of inline tasks replace the others. */
static void test_few_regions_idle(void **state)
{
    enum { HELD = 40 };
    bench b;
    tiles x;
    pto_config config = PTO_CONFIG_INIT;
    static unsigned char memory[FIRST * BYTES];
    config.map_entries = 128;
    config.levels = 1;
    start_with(&b, &x, state, &config);
    const pto_tensor all = rig_bytes(&b.r, memory, sizeof memory);
    memset(memory, 0, sizeof memory);
    const pto_task held = RIG_SUBMIT(&b.r, b.r.hold, pto_inout(&x.t[0]));
    const int64_t n = b.can ? 800 : HELD; /* offloaded tasks would fill the map */
    for (int64_t i = 0; i < n; i++) {
        pto_tensor t = cells(&all, i * BYTES, i * BYTES + BYTES);
        if (i < HELD) {
            RIG_WAITS_FOR(&b.r, OFFLOADED(&b, b.bump, pto_inout(&t), pto_after(held)), 1);
        } else {
            INLINE(&b, b.bump, pto_inout(&t));
        }
    }
    expect_ok(pto_check(b.r.rt));
    is_byte(memory, 0, HELD * BYTES);
    rig_finish(&b.r, held, PTO_OK);
    finish(&b);
    is_byte(memory, 1, (size_t)n * BYTES);
    rig_stop(&b.r);
}

/* Parts of a temporary that inline tasks have written: no task can be in the way of those. Afterwards an offloaded
 * task uses it. */
static void test_parts_of_a_temporary(void **state)
{
    bench b;
    tiles x;
    start_with(&b, &x, state, NULL);
    for (int n = 0; n < 50; n++) {
        expect_ok(pto_scope_begin_ex(b.r.rt, PTO_SCOPE_BOUNDARY));
        RIG_SUBMIT_BARE(&b.r, b.act); /* the first task of a level is offloaded */
        finish(&b);
        pto_tensor t = rig_temp(&b.r, BYTES), left = rig_slice(&t, 0, 40),
                   right = rig_slice(&t, 24, 64);
        INLINE(&b, b.fill, pto_output(&t), pto_scalar(n));
        INLINE(&b, b.bump, pto_inout(&left));
        INLINE(&b, b.bump, pto_inout(&right));
        INLINE(&b, b.copy, pto_input(&t), pto_output(&x.t[1]));
        if (n % 2) { /* the block is in the map from here on */
            const pto_task held = RIG_SUBMIT(&b.r, b.r.hold, pto_inout(&left));
            must_wait(&b, OFFLOADED(&b, b.bump, pto_inout(&right)));
            rig_finish(&b.r, held, PTO_OK);
            finish(&b);
            INLINE(&b, b.bump, pto_inout(&left));
            INLINE(&b, b.copy, pto_input(&t), pto_output(&x.t[2]));
        }
        expect_ok(pto_scope_end(b.r.rt));
        finish(&b);
        is_byte(x.byte[1], (unsigned char)(n + 1), 24);
        is_byte(x.byte[1] + 24, (unsigned char)(n + 2), 16);
        is_byte(x.byte[1] + 40, (unsigned char)(n + 1), 24);
        if (n % 2) {
            is_byte(x.byte[2], (unsigned char)(n + 2), 24);
            is_byte(x.byte[2] + 24, (unsigned char)(n + 4), 16);
            is_byte(x.byte[2] + 40, (unsigned char)(n + 2), 24);
        }
    }
    rig_stop(&b.r);
}

/* Slices that were only read, each overlapping the next. The first task that writes one runs inline, too, and the map
 * knows afterwards who is in the way. */
static void test_first_write(void **state)
{
    enum { SLICES = 40, WIDE_ONE = 16, ALL = SLICES * 8 + 8 };
    bench b;
    tiles x;
    static unsigned char memory[ALL];
    start_with(&b, &x, state, NULL);
    memset(memory, 0, sizeof memory);
    const pto_tensor all = rig_bytes(&b.r, memory, ALL);
    pto_tensor to = rig_slice(&x.t[1], 0, WIDE_ONE);
    for (int n = 0; n < 2; n++) {
        for (int64_t i = 0; i < SLICES; i++) {
            pto_tensor t = cells(&all, i * 8, i * 8 + WIDE_ONE);
            INLINE(&b, b.copy, pto_input(&t), pto_output(&to));
        }
    }
    expect_ok(pto_check(b.r.rt));
    for (int64_t i = 0; i < SLICES; i++) {
        pto_tensor t = cells(&all, i * 8, i * 8 + WIDE_ONE);
        if (i % 4 == 3) { /* who reads the neighbour is in the way */
            pto_tensor near = cells(&all, i * 8 - 8, i * 8 - 8 + WIDE_ONE);
            const pto_task held = RIG_SUBMIT(&b.r, b.r.hold, pto_input(&near));
            must_wait(&b, OFFLOADED(&b, b.bump, pto_inout(&t)));
            rig_finish(&b.r, held, PTO_OK);
            finish(&b);
        } else {
            INLINE(&b, b.bump, pto_inout(&t));
        }
        expect_ok(pto_check(b.r.rt));
    }
    finish(&b);
    is_byte(memory, 1, 8);
    is_byte(memory + 8, 2, (SLICES - 1) * 8);
    is_byte(memory + (size_t)SLICES * 8, 1, 8);
    rig_stop(&b.r);
}

int main(void)
{
    const rig_case cases[] = {
        RIG_CASE_ONE_PROCESS(test_neighbours, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_tiles_in_tiles, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_wait_for_tiles, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_first_use, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_more_than_regions, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_few_regions_idle, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_parts_of_a_temporary, "inline execution"),
        RIG_CASE_ONE_PROCESS(test_first_write, "inline execution"),
    };
    return rig_run("inline_views", cases, sizeof cases / sizeof *cases);
}
