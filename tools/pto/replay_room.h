/* replay_room.h - the rings of a run that is replayed: who has room in them, and who goes next.
 *
 *     find ──> (take edges) ──> enter ──> complete ──> recycle
 *       `─ the ring that is short: recycle, compact, or wait until somebody is complete
 *
 * The pieces are given out by the code of the runtime (ring.h, heap.h). Nothing here knows of time or
 * of workers: that is replay_run.c's.
 */
#ifndef TOOL_REPLAY_ROOM_H
#define TOOL_REPLAY_ROOM_H

#include "orchestrator/ring/heap.h"
#include "orchestrator/ring/ring.h"
#include "replay.h"

/* Numbers of nodes on their level: below retired all are recycled, below completed all are complete,
 * below released no scope holds any. */
typedef struct replay_level {
    uint32_t head, completed, retired, released;
    uint64_t entries; /* of the map, in use */
    ptoi_heap heap;
    ptoi_ring args, edges;
    ptoi_heap_run *runs;
    bool bounded_heap, bounded_args, bounded_edges;
} replay_level;

/* What a node has, from when it is entered. */
typedef struct replay_claim {
    uint64_t heap_at, args_end, edges_end;
    uint32_t users; /* unfinished tasks that use its memory */
    bool complete, has_entries;
} replay_claim;

/* Where a node would lie. */
typedef struct replay_place {
    uint64_t heap_at;
    ptoi_piece args;
} replay_place;

typedef struct replay_room {
    const replay_plan *plan;
    const replay_rings *rings;
    uint64_t (*most)[PTO_RINGS]; /* by level: that were in use */
    replay_claim *claims;        /* by node */
    replay_level level[PTO_MAX_LEVELS];
    uint32_t n_levels;
    bool scoped; /* a scope is open: what is entered is held */
} replay_room;

/* False if there is no memory; to be freed all the same. */
bool replay_room_make(replay_room *room, const replay_plan *plan, const replay_rings *rings,
                      uint64_t (*most)[PTO_RINGS]);
void replay_room_free(replay_room *room);

/* The ring that is short for the node; PTO_RINGS if none is, and its place. */
uint32_t replay_room_find(const replay_room *room, uint32_t node, replay_place *place);

/* Edges to tasks that are not complete; and room for so many, if there is. */
uint32_t replay_room_count_edges(const replay_room *room, uint32_t node);
bool replay_room_take_edges(replay_room *room, uint32_t node, uint32_t edges);

/* It is written down, with everything it takes but edges. */
void replay_room_enter(replay_room *room, uint32_t node, replay_place place);

/* It is complete: whose memory it used has one user less. */
void replay_room_complete(replay_room *room, uint32_t node);

/* No scope holds nodes of the level below this number any more. */
void replay_room_release(replay_room *room, uint32_t level, uint32_t number);

/* Takes back what goes as soon as all before are complete: edges, and entries of the map. */
void replay_room_recycle_completed(replay_room *room, uint32_t level);

/* Likewise, of all levels; and of this one what must not be held, either: slots, heap, arguments. */
void replay_room_recycle(replay_room *room, uint32_t level);

/* Entries of complete tasks, behind one that is not. */
void replay_room_compact(replay_room *room, uint32_t level);

/* The map can never remember all that the node touches: it runs alone. */
bool replay_room_is_barrier(const replay_room *room, uint32_t node);

#endif /* TOOL_REPLAY_ROOM_H */
