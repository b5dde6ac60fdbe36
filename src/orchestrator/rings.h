/* rings.h - the rings of a level: their fill and their names. Orchestrator's side.
 *
 * PTO_LEVEL_RING_MAP (pto/observe.h) lists them. A new ring needs a row there and a case
 * in ptoi_rings_read. Statistics, reports, tools and traces loop over the table.
 */
#ifndef PTOI_RINGS_H
#define PTOI_RINGS_H

#include "orchestrator/map/entry.h"
#include "orchestrator/runtime.h"

/* In the unit of the ring. */
typedef struct ptoi_ring_fill {
    uint64_t used, peak, size;
} ptoi_ring_fill;

static inline ptoi_ring_fill ptoi_rings_read(const pto_runtime *rt, uint32_t level, pto_ring ring)
{
    const ptoi_rings *t = &rt->rings[level];
    const ptoi_level *map = &rt->map->level[level];
    const uint64_t unit = sizeof(ptoi_arg_desc);
    ptoi_ring_fill fill = {0, 0, 0};
    switch (ring) {
    case PTO_RING_TASKS: /* retire.c keeps the peak, only in the window */
        fill = (ptoi_ring_fill){t->head - t->retired,
                                ptoi_get64(&t->progress->ring[PTO_RING_TASKS].peak),
                                t->mask + UINT64_C(1)};
        break;
    case PTO_RING_HEAP:
        return (ptoi_ring_fill){t->heap.used, t->heap.peak, t->heap.size};
    case PTO_RING_ARGS:
        fill = (ptoi_ring_fill){ptoi_ring_used(&t->args) * unit, t->args.peak * unit,
                                t->args.size * unit};
        break;
    case PTO_RING_DEPS:
        fill = (ptoi_ring_fill){ptoi_ring_used(&t->deps), t->deps.peak, t->deps.size};
        break;
    case PTO_RING_MAP:
        fill = (ptoi_ring_fill){ptoi_entry_used(map), map->peak, map->limit};
        break;
    case PTO_RING_BUFFERS: /* records of blocks */
        fill = (ptoi_ring_fill){t->blocks.head - t->blocks.tail, 0, t->blocks.mask + UINT64_C(1)};
        break;
    }
    /* The stored peak dates from the last time room came back. More may have been taken since. */
    fill.peak = fill.used > fill.peak ? fill.used : fill.peak;
    return fill;
}

/* Stores used and peak of a ring in the window. For the task ring, readers compute them from head
 * and retired. */
static inline void ptoi_ring_publish(pto_runtime *rt, uint32_t level, pto_ring ring)
{
    ptoi_progress *p = rt->rings[level].progress;
    const ptoi_ring_fill fill = ptoi_rings_read(rt, level, ring);
    if (ring != PTO_RING_TASKS) {
        ptoi_set64(&p->ring[ring].used, fill.used);
        ptoi_set64(&p->ring[ring].peak, fill.peak);
    }
}

/* Stores them for all rings. This runs every 32 tasks, so the macro unrolls the loop and resolves
 * the switch at compile time. */
static inline void ptoi_rings_publish(pto_runtime *rt, uint32_t level)
{
#define PTOI_PUBLISH_RING(NAME, ...) ptoi_ring_publish(rt, level, PTO_RING_##NAME);
    PTO_LEVEL_RING_MAP(PTOI_PUBLISH_RING)
#undef PTOI_PUBLISH_RING
}

/* Stores the sizes, which never change. */
void ptoi_rings_publish_sizes(pto_runtime *rt, uint32_t level);

/* Counts a submit that waits for room. */
static inline void ptoi_rings_count_wait(pto_runtime *rt, uint32_t level, ptoi_shortage what)
{
    if (what != PTOI_SHORT_BUFFERS) { /* records of blocks have no counter */
        ptoi_count64(&rt->view.header->progress[level].ring[what].waits, 1);
    }
}

/* ---- Names: columns of the table, and the option that makes the ring larger ---- */

typedef struct ptoi_ring_names {
    const char *name, *unit, *field, *variable;
    const char *option; /* "ring_tasks (PTO_RING_TASKS)" */
} ptoi_ring_names;

/* The names of a ring. Any number is allowed: one that does not exist is an "unknown ring". */
const ptoi_ring_names *ptoi_rings_names(pto_ring ring);

#endif /* PTOI_RINGS_H */
