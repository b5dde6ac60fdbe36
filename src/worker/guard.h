/* guard.h - checks that a kernel wrote only to its own buffers (see window/guard.h). */
#ifndef PTOI_WORKER_GUARD_H
#define PTOI_WORKER_GUARD_H

#include "scheduler/scheduler.h"
#include "window/guard.h"

/* Which memory a check looks at. */
typedef enum ptoi_guard_where {
    PTOI_GUARD_EVERYWHERE,
    PTOI_GUARD_AT_HAND, /* not on devices: the calling thread must not wait for one */
} ptoi_guard_where;

/* Whether the guards of all managed memory that the task writes are intact, as far as can be seen. */
bool ptoi_guard_is_whole(const ptoi_scheduler *s, const ptoi_slot *slot);

/* Checks them after the kernel. Returns `status` if they are intact, else PTO_OUT_OF_BOUNDS. The
 * detail says which argument was overrun, on which side and how far. If a device cannot tell, and
 * `status` is PTO_OK, returns its error. */
pto_status ptoi_guard_check(const ptoi_scheduler *s, const ptoi_slot *slot, ptoi_guard_where where,
                            pto_status status);

#endif /* PTOI_WORKER_GUARD_H */
