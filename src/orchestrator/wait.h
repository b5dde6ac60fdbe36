/* wait.h - waiting for tasks, while running others. Orchestrator's side. */
#ifndef PTOI_WAIT_H
#define PTOI_WAIT_H

#include "orchestrator/edge.h"
#include "orchestrator/runtime.h"

/* All of these return PTO_WORKER_LOST, and wait no longer, once a worker process has ended: then
 * what they wait for may never happen (orchestrator/process.h). They return PTO_INTERRUPTED once the
 * program ends the wait (pto_set_interrupt). Otherwise PTO_OK. */

/* Runs tasks until `ref` is complete. */
PTO_MUST_CHECK pto_status ptoi_wait_for(pto_runtime *rt, ptoi_ref ref);

/* A count of complete tasks, from an arbitrary origin. It only rises. */
uint64_t ptoi_count_complete(const pto_runtime *rt);

/* Runs tasks until more are complete than `complete`, whichever they are. */
PTO_MUST_CHECK pto_status ptoi_wait_any(pto_runtime *rt, uint64_t complete);

/* Runs tasks until the oldest unfinished task of the level is complete, or one of those that `edges` names,
 * none of which was complete when the caller looked last. */
PTO_MUST_CHECK pto_status ptoi_wait_oldest_or(pto_runtime *rt, uint32_t level,
                                              const ptoi_edges *edges);

/* Waits until all tasks of a level are complete. */
PTO_MUST_CHECK pto_status ptoi_wait_level(pto_runtime *rt, uint32_t level);

/* Waits until every task is complete. Recycles what can be, and checks all guards. */
PTO_MUST_CHECK pto_status ptoi_wait_all(pto_runtime *rt);

/* Waits for the task that runs alone because the map cannot hold it, if there is one. */
PTO_MUST_CHECK pto_status ptoi_wait_unmapped(pto_runtime *rt);

/* Runs up to `tasks` tasks whose kernels are not longer than `longest`, which is short. Returns how many. *longer
 * (may be NULL): a longer one was left to the workers. */
uint64_t ptoi_help(pto_runtime *rt, uint64_t tasks, uint32_t longest, bool *longer);

/* Runs up to `tasks` tasks of any length, and stores how many in *helped. Also PTO_INTERRUPTED. In place
 * process it runs none: it gives the workers a few microseconds to complete as many of the level, and
 * *helped says whether the oldest unfinished one has ended. */
PTO_MUST_CHECK pto_status ptoi_help_or_stop(pto_runtime *rt, uint32_t level, uint64_t tasks,
                                            uint64_t *helped);

/* Publishes the reason of the next waits, for outside readers. */
static inline void ptoi_wait_reason(pto_runtime *rt, ptoi_why why)
{
    ptoi_set32(&rt->view.header->waiting.why, why);
}

/* The same for room in a ring. */
void ptoi_wait_reason_room(pto_runtime *rt, uint32_t level, ptoi_shortage what, uint64_t wanted);

#endif /* PTOI_WAIT_H */
