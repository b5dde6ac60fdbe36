/* replay_room.h - the rings of a simulated run: allocation and recycling.
 *
 *     find ──> (take edges) ──> enter ──> complete ──> recycle
 *       `─ a ring is full: recycle, compact, or wait until a task completes
 *
 * The code of the runtime (ring.h, heap.h) allocates the pieces. Nothing here knows about time or
 * workers; that is replay_run.c.
 */
#ifndef TOOL_REPLAY_ROOM_H
#define TOOL_REPLAY_ROOM_H

#include "orchestrator/ring/heap.h"
#include "orchestrator/ring/ring.h"
#include "replay.h"

/* Indices of nodes on their level. All below `completed` are complete; all below `retired` have
 * given back slot and arguments, all below `freed` their block. */
typedef struct replay_level {
    uint32_t head, completed, retired, freed;
    uint32_t slots;   /* in use */
    uint64_t entries; /* map entries in use */
    uint32_t loose;   /* first complete node that may still have entries, or PTRACE_NONE */
    ptoi_heap heap;
    ptoi_ring args, edges;
    ptoi_heap_run *runs;
    bool bounded_heap, bounded_args, bounded_edges;
} replay_level;

/* What a node holds, from enter on. */
typedef struct replay_claim {
    uint64_t heap_at, args_end, edges_end;
    uint32_t users; /* unfinished tasks that use its memory */
    uint32_t loose; /* next in the list of its level */
    bool complete, has_entries;
} replay_claim;

/* Where a node would be placed. */
typedef struct replay_place {
    uint64_t heap_at;
    ptoi_piece args;
} replay_place;

typedef struct replay_room {
    const replay_plan *plan;
    const replay_rings *rings;
    uint64_t (*most)[PTO_RINGS]; /* peak usage by level */
    replay_claim *claims;        /* by node */
    replay_level level[PTO_MAX_LEVELS];
    uint32_t n_levels;
    uint32_t op; /* where the orchestrating thread is in the plan; replay_run.c sets it */
} replay_room;

/* Returns false if memory runs out. Free it in either case. */
bool replay_room_make(replay_room *room, const replay_plan *plan, const replay_rings *rings,
                      uint64_t (*most)[PTO_RINGS]);
void replay_room_free(replay_room *room);

/* Finds room for a node. Returns the ring that is full, or PTO_RINGS and the place. */
uint32_t replay_room_find(const replay_room *room, uint32_t node, replay_place *place);

/* Counts the edges to unfinished tasks; takes room for them if there is any. */
uint32_t replay_room_count_edges(const replay_room *room, uint32_t node);
bool replay_room_take_edges(replay_room *room, uint32_t node, uint32_t edges);

/* Enters a node with everything it needs except edges. */
void replay_room_enter(replay_room *room, uint32_t node, replay_place place);

/* Completes a node: its memory owners lose a user. */
void replay_room_complete(replay_room *room, uint32_t node);

/* Recycles edges and map entries, which are free as soon as all earlier tasks are complete. */
void replay_room_recycle_completed(replay_room *room, uint32_t level);

/* The same for all levels. On this level also recycles slots, arguments and blocks. */
void replay_room_recycle(replay_room *room, uint32_t level);

/* Whether no task that completes makes room in the ring of slots, arguments or the heap. Everything
 * that can be recycled is. */
bool replay_room_is_stuck(const replay_room *room, uint32_t level, uint32_t ring);

/* Frees map entries of complete tasks behind an unfinished one. */
void replay_room_compact(replay_room *room, uint32_t level);

/* Whether the node has more accesses than the map has entries: then it runs alone. */
bool replay_room_is_barrier(const replay_room *room, uint32_t node);

#endif /* TOOL_REPLAY_ROOM_H */
