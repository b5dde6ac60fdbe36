/* edge.h - the edges of a task that is being submitted. Orchestrator's side.
 *
 * A task has one reference to each producer, however many reasons there are to wait for it. The
 * reference poisons if one of the reasons is a RAW or an `after`.
 *
 * A reference in the window poisons only if that is certain. Where the overlap budget ran out, the
 * task waits for the producer in any case, but before the reference poisons, the pair is decided
 * exactly (link.c). That happens at submit: the producer may fail as soon as the task is published,
 * and then nobody is left who could decide.
 *
 * The record of a producer holds the attempt that linked it and the index of its reference. So a
 * second reason costs one comparison, and no mark has to be cleared.
 */
#ifndef PTOI_EDGE_H
#define PTOI_EDGE_H

#include "base/mutant.h"
#include "orchestrator/runtime.h"

typedef struct ptoi_edges {
    ptoi_ref *refs;
    uint32_t count;
    uint32_t why[PTOI_REASONS]; /* by reason; includes edges that were dropped later */
} ptoi_edges;

/* Adds an edge to a task at or above `completed`. `poisons`: if that task fails or is skipped, so
 * is this one. */
static inline void ptoi_edge_put(pto_runtime *rt, ptoi_edges *edges, uint32_t level, uint64_t seq,
                                 ptoi_reason why, bool poisons)
{
    ptoi_record *record = ptoi_record_of(&rt->rings[level], seq);
    if (record->linked == rt->attempt) { /* it has an edge, which may have to poison now */
        edges->refs[record->link] |= poisons;
        return;
    }
    record->linked = rt->attempt;
    record->link = edges->count;
    edges->refs[edges->count++] = ptoi_ref_make(seq, level, poisons);
    edges->why[why]++;
}

static inline void ptoi_edge_to(pto_runtime *rt, ptoi_edges *edges, uint32_t level, uint64_t seq,
                                ptoi_reason why)
{
    ptoi_edge_put(rt, edges, level, seq, why, why == PTOI_REASON_RAW || why == PTOI_REASON_AFTER);
}

static inline void ptoi_edge_add(pto_runtime *rt, ptoi_edges *edges, uint32_t level, uint64_t seq,
                                 ptoi_reason why)
{
    if (seq >= rt->rings[level].completed) {
        ptoi_edge_to(rt, edges, level, seq, why);
    }
}

/* Adds the edge for an access of this kind that conflicts with an earlier access `met`. The map
 * says that the earlier one is live: its task is at or above `completed`. */
static inline void ptoi_edge_met(pto_runtime *rt, ptoi_edges *edges, uint32_t level, uint64_t seq,
                                 uint32_t kind, pto_map_access met)
{
    ptoi_reason why = met == PTO_MAP_READ        ? PTOI_REASON_WAR
                      : kind == PTO_PARAM_OUTPUT ? PTOI_REASON_WAW
                                                 : PTOI_REASON_RAW;
    if ((PTOI_MUTANT(NO_WAR) && why == PTOI_REASON_WAR) ||
        (PTOI_MUTANT(NO_WAW) && why == PTOI_REASON_WAW) ||
        (PTOI_MUTANT(NO_RAW) && why == PTOI_REASON_RAW && kind == PTO_PARAM_INPUT)) {
        return;
    }
    ptoi_edge_to(rt, edges, level, seq, why);
}

/* Whether the edge ring is half full. Edges to complete tasks are dropped from then on. */
static inline bool ptoi_edges_run_short(const ptoi_rings *rings)
{
    return ptoi_ring_used(&rings->deps) >= rings->deps.size / 2;
}

#endif /* PTOI_EDGE_H */
