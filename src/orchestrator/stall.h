/* stall.h - waiting for room, and proving that it would be in vain. Orchestrator's side. */
#ifndef PTOI_STALL_H
#define PTOI_STALL_H

#include "orchestrator/runtime.h"

/* A ring of the level (tasks, arguments, the heap on a device) or the records of its blocks have no room. Waits for
 * a task that can make room. PTO_STALLED, with a full report, if none can. */
pto_status ptoi_stall(pto_runtime *rt, const char *who, uint32_t level, uint32_t device,
                      ptoi_shortage what, uint64_t wanted);

#endif /* PTOI_STALL_H */
