/* edge.h - whom a task waits for: one reference to each producer, however often it is met, and one
 * that poisons if it is for a RAW or an `after` at all.
 *
 * A producer that is met records the attempt and the number of its reference, so that meeting it
 * again costs one look, and nothing has to be cleaned.
 */
#ifndef PTOI_EDGE_H
#define PTOI_EDGE_H

#include "base/mutant.h"
#include "orchestrator/runtime.h"

typedef struct ptoi_edges {
    ptoi_ref *refs;
    uint32_t count;
    uint32_t why[PTOI_REASONS]; /* by reason; counts those that were dropped again, too */
} ptoi_edges;

/* To a task that was not complete when somebody last checked. */
static inline void ptoi_edge_to(pto_runtime *rt, ptoi_edges *edges, uint32_t level, uint64_t seq,
                                ptoi_reason why)
{
    ptoi_record *record = ptoi_record_of(&rt->rings[level], seq);
    bool poisons = why == PTOI_REASON_RAW || why == PTOI_REASON_AFTER;
    if (record->linked == rt->attempt) { /* known: at most it poisons now */
        edges->refs[record->link] |= poisons;
        return;
    }
    record->linked = rt->attempt;
    record->link = edges->count;
    edges->refs[edges->count++] = ptoi_ref_make(seq, level, poisons);
    edges->why[why]++;
}

static inline void ptoi_edge_add(pto_runtime *rt, ptoi_edges *edges, uint32_t level, uint64_t seq,
                                 ptoi_reason why)
{
    if (seq >= rt->rings[level].completed) {
        ptoi_edge_to(rt, edges, level, seq, why);
    }
}

/* For an access of this kind that met another one, which the map says is alive: of a task that was
 * not complete when somebody last checked. */
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

/* Whether edges are getting short. */
static inline bool ptoi_edges_are_few(const ptoi_rings *rings)
{
    return ptoi_ring_used(&rings->deps) >= rings->deps.size / 2;
}

/* Drops producers that are complete by now. Says whether one of them poisons. (room.c) */
bool ptoi_edges_drop_complete(const pto_runtime *rt, ptoi_edges *edges);

#endif /* PTOI_EDGE_H */
