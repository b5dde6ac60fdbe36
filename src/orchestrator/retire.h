/* retire.h - recycling what is complete, in order. */
#ifndef PTOI_RETIRE_H
#define PTOI_RETIRE_H

#include "orchestrator/runtime.h"

/* Finds how far tasks are complete on one level. Edges and map entries come back. */
void ptoi_retire_completed(pto_runtime *rt, uint32_t level);

/* The same on all levels, and recycles what can be on one. */
void ptoi_retire(pto_runtime *rt, uint32_t level);

/* The same, and if the oldest task seems to be held finds out whether it is. */
void ptoi_retire_exactly(pto_runtime *rt, uint32_t level);

/* Whether an unfinished task uses the memory of the oldest one; which one is in rings.blocker. */
bool ptoi_retire_is_held(pto_runtime *rt, uint32_t level, uint64_t seq);

/* An unfinished task that uses the memory of this one, 0 if there is none; and, if `count` is given,
 * how many there are. Visits all tasks. */
ptoi_ref ptoi_retire_holder(const pto_runtime *rt, uint32_t level, uint64_t seq, uint32_t *count);

/* Publishes how full the rings of a level are. */
void ptoi_retire_publish(pto_runtime *rt, uint32_t level);

#endif /* PTOI_RETIRE_H */
