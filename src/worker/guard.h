/* guard.h - checks that a kernel wrote only to its own buffers (see window/guard.h). */
#ifndef PTOI_WORKER_GUARD_H
#define PTOI_WORKER_GUARD_H

#include "window/guard.h"

/* Whether the guards of all managed memory that the task writes are intact. */
bool ptoi_guard_is_whole(const ptoi_view *view, const ptoi_slot *slot);

/* Checks them after the kernel. Returns `status` if they are intact, else PTO_OUT_OF_BOUNDS. The
 * detail says which argument was overrun, on which side and how far. */
pto_status ptoi_guard_check(const ptoi_view *view, const ptoi_slot *slot, pto_status status);

#endif /* PTOI_WORKER_GUARD_H */
