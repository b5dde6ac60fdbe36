/* retire.h - recycling tasks in order. Orchestrator's side. */
#ifndef PTOI_RETIRE_H
#define PTOI_RETIRE_H

#include "orchestrator/runtime.h"

/* Advances `completed` on one level. Returns edges and map entries of the tasks it passes. */
void ptoi_retire_completed(pto_runtime *rt, uint32_t level);

/* Advances `completed` on all levels, then recycles tasks and blocks of one level as far as
 * possible. */
void ptoi_retire(pto_runtime *rt, uint32_t level);

/* The same, but decides exactly whether a block is in use: ptoi_blocks_recycle. */
void ptoi_retire_exactly(pto_runtime *rt, uint32_t level);

/* Publishes the state of a level and its rings, and the counts of edges, for outside readers. */
void ptoi_retire_publish(pto_runtime *rt, uint32_t level);

#endif /* PTOI_RETIRE_H */
