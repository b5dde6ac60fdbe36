/* slow.h - a task in the making, and the steps that make it.
 *
 *     begin ──> read ──────> reserve ─────> link ────────> write ─────> publish
 *               params.c     room.c         link.c         write.c      submit.c
 *               what is      slot, heap,    whom it        slot, note,  W1: it is whole
 *               asked for    args, entries  waits for      arguments
 *
 * A draft belongs to one call of submit. Up to and including `reserve` the task may be refused or
 * have to wait, and nothing is changed but the draft, and marks that mean nothing to the next call
 * (`attempt`). `link` still refuses a tensor that the map finds unsound, and waits for edges,
 * before it records the first access. From then on nothing can fail.
 *
 * A task may also bring memory to buffers that outlive it; that is a step of its own, after `read`
 * (home.c).
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
    uint32_t base, scopes; /* its lifetime: scopes from `base` on */

    /* Memory lent by submit, for as many as there are parameters; filled by read. */
    pto_map_param *accesses; /* that take part in ordering */
    uint8_t *kinds;          /* pto_param_kind of each */

    /* Counted by read. */
    size_t n_accesses;
    size_t n_fresh;      /* outputs in memory that the task brings */
    uint64_t heap_bytes; /* of fresh outputs, packed */
    uint64_t units;      /* of arguments */
    uint32_t n_args;
    bool managed;     /* some parameter is */
    bool needs_owner; /* it would bring memory to a buffer of an outer lifetime */
    bool has_after;
    bool crowded; /* descriptors that have no id yet may have to stand with the arguments */

    /* Found by reserve; holds as long as nothing is taken or recycled on the level. */
    bool barrier;     /* alone: all before it are complete, and it will be before submit returns */
    uint64_t heap_at; /* where its block would lie */
    ptoi_piece args;  /* where its arguments would */

    /* Found by link. */
    bool poisoned;    /* it will be skipped */
    ptoi_piece deps;  /* where its edges would lie */
    ptoi_edges edges; /* whom it waits for; still in rt->edges */
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
    d->crowded = ptoi_descs_may_run_out(&rt->map->descs, n_params);
    d->managed = d->needs_owner = d->has_after = d->poisoned = d->barrier = false;
    d->deps = (ptoi_piece){0, 0};
    d->edges = (ptoi_edges){.refs = rt->edges};
    rt->attempt++;
}

/* ---- params.c ---- */

/* Checks all parameters and adds up what they need. */
pto_status ptoi_slow_read(ptoi_slow *d);

/* Says which parameter it was, if something is wrong with it. */
__attribute__((cold)) pto_status ptoi_slow_accuse(size_t param, pto_status status);

static inline pto_status ptoi_slow_blame(size_t param, pto_status status)
{
    return status == PTO_OK ? PTO_OK : ptoi_slow_accuse(param, status);
}

/* ---- room.c ---- */

/* How many tasks of the fast path are sure to find room on the level. */
uint64_t ptoi_fast_room(const pto_runtime *rt, uint32_t level);

/* What there is no room for, if anything; otherwise the draft knows where all of it would lie. */
ptoi_shortage ptoi_slow_shortage(ptoi_slow *d);

/* Makes room for all but edges, by waiting if need be. */
pto_status ptoi_slow_reserve(ptoi_slow *d);

/* Makes room for the edges, by waiting for producers if there is none. */
void ptoi_slow_reserve_edges(ptoi_slow *d);

/* ---- link.c ---- */

/* Finds whom the task waits for and whether it is to be skipped; tells the map what it touches. */
pto_status ptoi_slow_link(ptoi_slow *d);

/* ---- write.c ---- */

/* Takes everything that was reserved, and writes arguments, note and slot. */
ptoi_slot *ptoi_slow_write(ptoi_slow *d, uint32_t kernel, uint32_t type, uint32_t site);

/* ---- home.c ---- */

/* Brings memory to buffers of outer lifetimes that the task is the first to write, and reads its
 * parameters anew. */
pto_status ptoi_slow_give_owners(ptoi_slow *d, const char *file, int line);

#endif /* PTOI_SLOW_H */
