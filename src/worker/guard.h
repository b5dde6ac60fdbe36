/* guard.h - whether a kernel kept to the memory it was given (window/guard.h has the guards). */
#ifndef PTOI_EXEC_GUARD_H
#define PTOI_EXEC_GUARD_H

#include "scheduler/scheduler.h"

/* Whether the guards of all managed memory that the task writes are as they should be. */
bool ptoi_guard_is_whole(const ptoi_sched *sched, const ptoi_slot *slot);

/* The same after its kernel: `status` if they are; if not PTO_OUT_OF_BOUNDS, and the detail says
 * which argument was overrun, on which side and how far. */
pto_status ptoi_guard_check(const ptoi_sched *sched, const ptoi_slot *slot, pto_status status);

/* "3 bytes behind its buffer of 100 bytes" */
void ptoi_guard_describe(const ptoi_damage *damage, uint64_t bytes, char text[128]);

#endif /* PTOI_EXEC_GUARD_H */
