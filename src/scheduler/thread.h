/* thread.h - the scheduler's step on a thread of its own (place thread). */
#ifndef PTOI_THREAD_H
#define PTOI_THREAD_H

#include "scheduler/scheduler.h"

/* Completes tasks whose kernels have returned, and claims new tasks. Returns whether there were
 * any. */
bool ptoi_thread_step(ptoi_scheduler *s);

/* Whether there is work. The last check before sleeping (W10). */
bool ptoi_thread_sees_work(const ptoi_scheduler *s);

#endif /* PTOI_THREAD_H */
