/* slow.h - the slow path: a task that is being submitted, step by step. Orchestrator's side.
 *
 *     begin ──> read ──────> reserve ─────> link ────────> write ─────> publish
 *               params.c     room.c         link.c         write.c      submit.c
 *               what is      slot, heap,    which tasks    slot,        W1: fully
 *               asked for    args, entries  it waits for   record,      written
 *                                                          arguments
 *
 * A ptoi_slow belongs to one call of submit. Up to and including `reserve` the task may be refused
 * or may have to wait. Until then nothing has changed but the ptoi_slow itself, and marks that are
 * void in the next call (`attempt`). `link` can still refuse an invalid tensor and wait for edges,
 * before it records the first access. After that nothing can fail.
 *
 * A task may also be the first to write a buffer that outlives it. The memory of that buffer is
 * taken in an extra step after `read` (owner.c).
 */
#ifndef PTOI_SLOW_H
#define PTOI_SLOW_H

#include <string.h>

#include "orchestrator/edge.h"
#include "orchestrator/runtime.h"

typedef struct ptoi_slow {
    /* Set by begin. */
    pto_runtime *rt;
    const pto_param *params;
    size_t n_params;
    ptoi_rings *rings;
    uint32_t level;
    uint64_t seq;
    uint32_t base, scopes; /* its lifetime: `scopes` scopes from index `base` */

    /* Arrays with one entry per parameter, provided by submit and filled by read. */
    pto_map_param *accesses; /* that the map orders */
    uint8_t *kinds;          /* pto_param_kind of each */

    /* Counted by read. */
    size_t n_accesses;
    size_t n_fresh;      /* buffers whose memory the task brings and records in the map */
    uint64_t heap_bytes; /* of the memory that it brings, in one block */
    uint64_t units;      /* of the argument ring */
    uint32_t n_args;
    bool managed;     /* some parameter is in managed memory */
    bool needs_owner; /* it is the first to write a buffer of an outer lifetime */
    bool has_after;
    bool descs_may_run_out; /* new layouts may get no number, and then stand with the arguments */

    /* Found by reserve; valid until something is taken or recycled on the level. */
    bool barrier;     /* it runs alone: all earlier tasks are complete, and submit waits for it */
    uint64_t heap_at; /* place of its block */
    ptoi_piece args;  /* place of its arguments */

    /* Found by link. */
    bool poisoned;    /* it will be skipped */
    ptoi_piece deps;  /* place of its edges */
    ptoi_edges edges; /* the tasks it waits for, in rt->edges until they are copied */
} ptoi_slow;

static inline void ptoi_slow_begin(ptoi_slow *d, pto_runtime *rt, uint32_t level,
                                   const pto_param *params, size_t n_params)
{
    d->rt = rt;
    d->params = params;
    d->n_params = n_params;
    d->level = level;
    d->rings = &rt->rings[level];
    d->seq = d->rings->head;
    d->base = rt->base;
    d->scopes = rt->depth - d->base;
    d->heap_bytes = d->heap_at = d->units = 0;
    d->n_args = 0;
    d->n_accesses = d->n_fresh = 0;
    d->descs_may_run_out = ptoi_descs_may_run_out(&rt->map->descs, n_params);
    d->managed = d->needs_owner = d->has_after = d->poisoned = d->barrier = false;
    d->deps = (ptoi_piece){0, 0};
    d->edges = (ptoi_edges){.refs = rt->edges};
    rt->attempt++;
}

/* ---- params.c ---- */

/* Checks all parameters and adds up what they need. */
pto_status ptoi_slow_read(ptoi_slow *d);

/* Prefixes the error text with the number of the parameter. */
__attribute__((cold)) pto_status ptoi_slow_accuse(size_t param, pto_status status);

/* Does so if `status` is an error. */
static inline pto_status ptoi_slow_blame(size_t param, pto_status status)
{
    return status == PTO_OK ? PTO_OK : ptoi_slow_accuse(param, status);
}

/* ---- room.c ---- */

/* How many fast-path tasks are certain to find room on the level. */
uint64_t ptoi_fast_room(const pto_runtime *rt, uint32_t level);

/* The ring that has no room for the task. If there is none, the places of heap block and arguments
 * are set. */
ptoi_shortage ptoi_slow_shortage(ptoi_slow *d);

/* Finds room for all but edges. Waits if there is none. */
pto_status ptoi_slow_reserve(ptoi_slow *d);

/* Finds room for the edges. Waits for other tasks if there is none. */
void ptoi_slow_reserve_edges(ptoi_slow *d);

/* ---- link.c ---- */

/* Finds the tasks that this one waits for, and whether it will be skipped. Records its accesses in
 * the map. */
pto_status ptoi_slow_link(ptoi_slow *d);

/* ---- write.c ---- */

/* Takes everything that was reserved. Writes arguments, task record and slot. */
ptoi_slot *ptoi_slow_write(ptoi_slow *d, uint32_t kernel, uint32_t type, uint32_t site);

/* ---- owner.c ---- */

/* Takes memory for buffers of outer lifetimes that the task is the first to write. Then reads its
 * parameters again. */
pto_status ptoi_slow_give_owners(ptoi_slow *d, const char *file, int line);

#endif /* PTOI_SLOW_H */
