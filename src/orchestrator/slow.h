/* slow.h - the slow path: a task that is being submitted, step by step. Orchestrator's side. Each
 * step is a file with a header of its own.
 *
 *     begin ──> read ──────> reserve ─────> link ────────> write ─────> publish
 *               params.c     room.c         link.c         write.c      slow.c
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
 * taken in an extra step after `read` (ptoi_block_give_outer).
 */
#ifndef PTOI_SLOW_H
#define PTOI_SLOW_H

#include <string.h>

#include "orchestrator/edge.h"
#include "orchestrator/runtime.h"

/* What is submitted. Kernel and type are checked. */
typedef struct ptoi_request {
    const pto_param *params;
    size_t n_params;
    uint32_t kernel, lane; /* the variant of the kernel, and where it runs (window/task.h) */
    const char *file;
    int line;
} ptoi_request;

typedef struct ptoi_slow {
    /* Set by begin. */
    pto_runtime *rt;
    const char *who; /* the call, for errors */
    const pto_param *params;
    size_t n_params;
    ptoi_rings *rings;
    uint32_t level;
    uint64_t seq;
    uint32_t device; /* of the memory that it brings; read changes it, and the heap */
    ptoi_heap *heap; /* of that device */

    /* Arrays with one entry per parameter, provided by submit and filled by read. */
    pto_map_param *accesses; /* that the map orders */
    uint8_t *kinds;          /* pto_param_kind of each */

    /* Counted by read. */
    size_t n_accesses;
    size_t n_fresh;      /* buffers whose memory the task brings and records in the map */
    uint32_t brings;     /* buffers whose memory it brings, recorded in the map or not */
    uint64_t heap_bytes; /* of the memory that it brings, in one block */
    uint64_t units;      /* of the argument ring */
    uint32_t n_args;
    bool managed;     /* some parameter is in managed memory */
    bool memory_only; /* no task: only a block is wanted */
    bool needs_outer; /* it is the first to write a buffer of an outer lifetime */
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
    d->who = "submit";
    d->params = params;
    d->n_params = n_params;
    d->level = level;
    d->rings = &rt->rings[level];
    d->device = 0;
    d->heap = &d->rings->heap;
    d->seq = d->rings->head;
    d->heap_bytes = d->heap_at = d->units = 0;
    d->n_args = d->brings = 0;
    d->n_accesses = d->n_fresh = 0;
    d->descs_may_run_out = ptoi_descs_may_run_out(&rt->map->descs, n_params);
    d->managed = d->memory_only = d->needs_outer = d->has_after = false;
    d->poisoned = d->barrier = false;
    d->deps = (ptoi_piece){0, 0};
    d->edges = (ptoi_edges){.refs = rt->edges};
    rt->attempt++;
}

/* Submits any task, and may change its route. `ran`: it ran inline, and its kernel did not return
 * PTO_OK. */
struct ptoi_inline_end;
pto_status ptoi_slow_submit(pto_runtime *rt, ptoi_request *q, const struct ptoi_inline_end *ran);

#endif /* PTOI_SLOW_H */
