/* scenario_room.c - rings that wrap around while a thread is slow, and scopes that end
 * meanwhile. */
#include "rig.h"

/* ---- Task ring and inbox ---- */

static void window_prepare(void)
{
    pto_config c = rig_config(2, PTO_PLACE_INLINE);
    c.ring_tasks = 2;
    c.first_task = UINT32_MAX - 1; /* counters of 32 bits wrap */
    rig_create(&c);
}

static void window_prepare_thread(void)
{
    pto_config c = rig_config(1, PTO_PLACE_THREAD);
    c.ring_tasks = 2;
    c.caller_types = PTO_NO_TYPES;
    c.first_task = UINT32_MAX - 1;
    rig_create(&c);
}

/* The slot of a producer is reused before its consumer has resolved it. */
static void window_run(void)
{
    rig_submit(r->set, pto_output(&r->t[0]), pto_scalar(5));
    rig_submit(r->add, pto_input(&r->t[0]), pto_output(&r->t[1]));
    rig_submit(r->set, pto_output(&r->t[2]), pto_scalar(6));
    rig_submit(r->add, pto_input(&r->t[1]), pto_input(&r->t[2]), pto_output(&r->t[3]));
    world_check(pto_wait(r->rt) == PTO_OK);
    world_check(r->cell[3] == 11);
}

const scenario scenario_window = {"window", "a window of two tasks comes round; 2 workers",
                                  window_prepare, window_run, false};

const scenario scenario_window_thread = {
    "window-thread", "the same with the scheduler on a thread, 1 worker, and a caller that waits",
    window_prepare_thread, window_run, false};

/* ---- Heap, and scopes ---- */

static void heap_prepare(void)
{
    pto_config c = rig_config(2, PTO_PLACE_INLINE);
    c.heap_bytes = 64; /* one block */
    rig_create(&c);
}

static void use_temp(int64_t value, uint32_t to)
{
    pto_tensor x;
    world_check(pto_temp(r->rt, PTO_INT64, 1, (int64_t[]){1}, &x) == PTO_OK);
    rig_submit(r->set, pto_output(&x), pto_scalar(value));
    rig_submit(r->add, pto_input(&x), pto_output(&r->t[to]));
}

/* The next scope gets the block as soon as it is recycled, and not before. */
static void heap_run(void)
{
    for (uint32_t i = 0; i < 2; i++) {
        PTO_SCOPE(r->rt) {
            use_temp(10 + (int64_t)i, i);
        }
    }
    world_check(pto_wait(r->rt) == PTO_OK);
    world_check(r->cell[0] == 10 && r->cell[1] == 11);
}

const scenario scenario_heap = {"heap", "a heap of one block: scope end against consumption",
                                heap_prepare, heap_run, false};

/* A owns memory, B updates it in place, and C reads it and waits only for B: C holds A's block. */
static void lifetime_run(void)
{
    PTO_SCOPE(r->rt) {
        pto_tensor x;
        world_check(pto_temp(r->rt, PTO_INT64, 1, (int64_t[]){1}, &x) == PTO_OK);
        rig_submit(r->set, pto_output(&x), pto_scalar(3));
        rig_submit(r->twice, pto_inout(&x));
        rig_submit(r->add, pto_input(&x), pto_output(&r->t[0]));
    }
    PTO_SCOPE(r->rt) {
        use_temp(11, 1);
    }
    world_check(pto_wait(r->rt) == PTO_OK);
    world_check(r->cell[0] == 6 && r->cell[1] == 11);
}

const scenario scenario_lifetime = {"lifetime", "memory lives until its last user is complete",
                                    heap_prepare, lifetime_run, false};

/* Inside one scope there is never room for a second block: it is refused, and the first is
 * intact. */
static void held_run(void)
{
    PTO_SCOPE(r->rt) {
        pto_tensor x, y;
        world_check(pto_temp(r->rt, PTO_INT64, 1, (int64_t[]){1}, &x) == PTO_OK);
        world_check(pto_temp(r->rt, PTO_INT64, 1, (int64_t[]){1}, &y) == PTO_OK);
        rig_submit(r->set, pto_output(&x), pto_scalar(3));
        world_check(pto_submit(r->rt, r->set, pto_output(&y), pto_scalar(4)) == PTO_STALLED);
        world_check(pto_refused(r->rt, NULL));
        rig_submit(r->add, pto_input(&x), pto_output(&r->t[0]));
    }
    world_check(pto_wait(r->rt) == PTO_OK);
    world_check(r->cell[0] == 3);
}

const scenario scenario_held = {"held", "an open scope holds the only block: a stall is proved",
                                heap_prepare, held_run, false};

/* The same when its own scope has ended and the scope around it has not. */
static void nested_run(void)
{
    PTO_SCOPE(r->rt) {
        pto_tensor x, y;
        PTO_SCOPE(r->rt) {
            world_check(pto_temp(r->rt, PTO_INT64, 1, (int64_t[]){1}, &x) == PTO_OK);
            rig_submit(r->set, pto_output(&x), pto_scalar(3));
        }
        world_check(pto_temp(r->rt, PTO_INT64, 1, (int64_t[]){1}, &y) == PTO_OK);
        world_check(pto_submit(r->rt, r->set, pto_output(&y), pto_scalar(4)) == PTO_STALLED);
        world_check(pto_refused(r->rt, NULL));
        rig_submit(r->add, pto_input(&x), pto_output(&r->t[0]));
    }
    world_check(pto_wait(r->rt) == PTO_OK);
    world_check(r->cell[0] == 3);
}

const scenario scenario_nested = {"nested", "a scope ends inside of another: its memory stays",
                                  heap_prepare, nested_run, false};

/* Two blocks in turn: the second is in use when the first is free again. */
static void blocks_prepare(void)
{
    pto_config c = rig_config(1, PTO_PLACE_INLINE);
    c.heap_bytes = 128;
    rig_create(&c);
}

static void blocks_run(void)
{
    for (uint32_t i = 0; i < 4; i++) {
        PTO_SCOPE(r->rt) {
            use_temp(20 + (int64_t)i, i);
        }
    }
    world_check(pto_wait(r->rt) == PTO_OK);
    for (uint32_t i = 0; i < 4; i++) {
        world_check(r->cell[i] == 20 + (int64_t)i);
    }
}

const scenario scenario_blocks = {"blocks", "a heap of two blocks comes round; 1 worker",
                                  blocks_prepare, blocks_run, false};

/* Boundary scopes stream through the rings of their level while an outer block stays alive. */
static void stream_prepare(void)
{
    pto_config c = rig_config(1, PTO_PLACE_INLINE);
    c.levels = 2;
    c.heap_bytes = 64;
    c.ring_tasks = 4;
    rig_create(&c);
}

static void stream_run(void)
{
    PTO_SCOPE(r->rt) {
        pto_tensor x;
        world_check(pto_temp(r->rt, PTO_INT64, 1, (int64_t[]){1}, &x) == PTO_OK);
        rig_submit(r->set, pto_output(&x), pto_scalar(1));
        for (uint32_t i = 0; i < 2; i++) {
            PTO_BOUNDARY(r->rt) {
                pto_tensor y;
                world_check(pto_temp(r->rt, PTO_INT64, 1, (int64_t[]){1}, &y) == PTO_OK);
                rig_submit(r->add, pto_input(&x), pto_input(&r->t[0]), pto_output(&y));
                rig_submit(r->add, pto_input(&y), pto_output(&r->t[0]));
            }
        }
    }
    world_check(pto_wait(r->rt) == PTO_OK);
    world_check(r->cell[0] == 2);
}

static void stream_prepare_thread(void)
{
    pto_config c = rig_config(1, PTO_PLACE_THREAD);
    c.levels = 2;
    c.heap_bytes = 64;
    c.ring_tasks = 4;
    rig_create(&c);
}

const scenario scenario_stream_thread = {"stream-thread", "the same with the scheduler on a thread",
                                         stream_prepare_thread, stream_run, false};

const scenario scenario_stream = {"stream", "boundary scopes stream past an outer block; 1 worker",
                                  stream_prepare, stream_run, false};

/* ---- Arguments, edges, map entries ---- */

static void args_prepare(void)
{
    pto_config c = rig_config(2, PTO_PLACE_INLINE);
    c.arg_bytes = 128;
    rig_create(&c);
}

static void edges_prepare(void)
{
    pto_config c = rig_config(2, PTO_PLACE_INLINE);
    c.deps = 2;
    rig_create(&c);
}

static void entries_prepare(void)
{
    pto_config c = rig_config(2, PTO_PLACE_INLINE);
    c.map_entries = 4;
    rig_create(&c);
}

static void tight_run(void)
{
    rig_submit(r->set, pto_output(&r->t[0]), pto_scalar(1));
    rig_submit(r->set, pto_output(&r->t[1]), pto_scalar(2));
    rig_submit(r->add, pto_input(&r->t[0]), pto_input(&r->t[1]), pto_output(&r->t[2]));
    rig_submit(r->twice, pto_inout(&r->t[0]));
    rig_submit(r->add, pto_input(&r->t[0]), pto_input(&r->t[2]), pto_output(&r->t[3]));
    world_check(pto_wait(r->rt) == PTO_OK);
    world_check(r->cell[2] == 3 && r->cell[3] == 5);
}

const scenario scenario_args = {"args", "the ring of arguments comes round; 2 workers",
                                args_prepare, tight_run, false};
const scenario scenario_edges = {"edges", "the ring of edges comes round; 2 workers", edges_prepare,
                                 tight_run, false};
const scenario scenario_entries = {"entries", "the map runs short of entries; 2 workers",
                                   entries_prepare, tight_run, false};

/* More accesses than the map has entries: the task runs alone, after all earlier ones. */
static void alone_prepare(void)
{
    pto_config c = rig_config(2, PTO_PLACE_INLINE);
    c.map_entries = 2;
    rig_create(&c);
}

static void alone_run(void)
{
    rig_submit(r->set, pto_output(&r->t[0]), pto_scalar(1));
    rig_submit(r->set, pto_output(&r->t[1]), pto_scalar(2));
    rig_submit(r->add, pto_input(&r->t[0]), pto_input(&r->t[1]), pto_output(&r->t[2]));
    rig_submit(r->twice, pto_inout(&r->t[2]));
    world_check(pto_wait(r->rt) == PTO_OK);
    world_check(r->cell[2] == 6);
}

const scenario scenario_alone = {"alone", "a task that the map cannot hold runs alone; 2 workers",
                                 alone_prepare, alone_run, false};
