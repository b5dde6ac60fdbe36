/* stall.h - is waiting for room hopeless? */
#ifndef PTOI_STALL_H
#define PTOI_STALL_H

#include "orchestrator/runtime.h"

/* Room of this kind (window, heap, arguments) is short on the level. Waits for something that can
 * make room; PTO_STALLED, with a full report, if nothing can. */
pto_status ptoi_stall(pto_runtime *rt, uint32_t level, ptoi_shortage what, uint64_t wanted);

#endif /* PTOI_STALL_H */
