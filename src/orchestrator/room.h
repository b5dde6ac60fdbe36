/* room.h - slow path: room for a task, and for fast-path tasks in advance. Orchestrator's side. */
#ifndef PTOI_ROOM_H
#define PTOI_ROOM_H

#include "orchestrator/slow.h"

/* How many fast-path tasks are certain to find room on the level. */
uint64_t ptoi_fast_room(const pto_runtime *rt, uint32_t level);

/* The ring that has no room for the task. If there is none, the places of heap block and arguments
 * are set. */
ptoi_shortage ptoi_slow_shortage(ptoi_slow *d);

/* Finds room for all but edges. Waits if there is none. */
pto_status ptoi_slow_reserve(ptoi_slow *d);

/* Finds room for the edges. Waits for other tasks if there is none. */
PTO_MUST_CHECK pto_status ptoi_slow_reserve_edges(ptoi_slow *d);

/* Drops edges to tasks that are complete by now. Returns whether one of them poisons. */
bool ptoi_edges_drop_complete(const pto_runtime *rt, ptoi_edges *edges);

#endif /* PTOI_ROOM_H */
