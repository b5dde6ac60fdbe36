/* retire.h - recycling tasks in order. Orchestrator's side. */
#ifndef PTOI_RETIRE_H
#define PTOI_RETIRE_H

#include "orchestrator/runtime.h"

/* Advances `completed` on one level. Returns edges and map entries of the tasks it passes. */
void ptoi_retire_completed(pto_runtime *rt, uint32_t level);

/* Advances `completed` on all levels, then recycles tasks of one level as far as possible. */
void ptoi_retire(pto_runtime *rt, uint32_t level);

/* The same, but where held_until says that a task may be held, visits all tasks to find out. */
void ptoi_retire_exactly(pto_runtime *rt, uint32_t level);

/* Whether an unfinished task uses the memory of the oldest one. rings.blocker names it. */
bool ptoi_retire_is_held(pto_runtime *rt, uint32_t level, uint64_t seq);

/* An unfinished task that uses the memory of this one; 0 if there is none. If `count` is given,
 * adds how many there are. Visits all tasks. */
ptoi_ref ptoi_retire_holder(const pto_runtime *rt, uint32_t level, uint64_t seq, uint32_t *count);

/* Publishes the state of a level and its rings, and the counts of edges, for outside readers. */
void ptoi_retire_publish(pto_runtime *rt, uint32_t level);

#endif /* PTOI_RETIRE_H */
