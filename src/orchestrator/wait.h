/* wait.h - waiting for tasks, while running others. Orchestrator's side. */
#ifndef PTOI_WAIT_H
#define PTOI_WAIT_H

#include "orchestrator/runtime.h"

/* Runs tasks until `ref` is complete. */
void ptoi_wait_for(pto_runtime *rt, ptoi_ref ref);

/* A count of complete tasks, from an arbitrary origin. It only rises. */
uint64_t ptoi_count_complete(const pto_runtime *rt);

/* Runs tasks until more are complete than `complete`, whichever they are. */
void ptoi_wait_any(pto_runtime *rt, uint64_t complete);

/* Waits until all tasks of a level are complete. */
void ptoi_wait_level(pto_runtime *rt, uint32_t level);

/* Waits until every task is complete. Recycles what can be, and checks all guards. */
void ptoi_wait_all(pto_runtime *rt);

/* Runs up to `tasks` tasks whose kernels are not longer than `longest`. Returns how many. *longer
 * (may be NULL): a longer one was left to the workers. */
uint64_t ptoi_help(pto_runtime *rt, uint64_t tasks, uint32_t longest, bool *longer);

/* Publishes the reason of the next waits, for outside readers. */
static inline void ptoi_wait_reason(pto_runtime *rt, ptoi_why why)
{
    ptoi_set32(&rt->view.header->waiting.why, why);
}

/* The same for room in a ring. */
void ptoi_wait_reason_room(pto_runtime *rt, uint32_t level, ptoi_shortage what, uint64_t wanted);

#endif /* PTOI_WAIT_H */
