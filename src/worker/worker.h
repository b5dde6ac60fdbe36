/* worker.h - a thread that runs kernels: finds a task, builds its arguments, calls its kernel and
 * finishes the task. */
#ifndef PTOI_WORKER_H
#define PTOI_WORKER_H

#include "scheduler/scheduler.h"

/* Runs one task if there is one. If the length of its kernel is not known, or exceeds `longest`
 * (ptoi_length), the task goes to a ready queue instead, and *longer is set. */
bool ptoi_worker_step(ptoi_worker *worker, uint32_t longest, bool *longer);

/* Parts of that step, for a worker that launches tasks (launcher.h). The next task, or PTOI_NONE. */
uint32_t ptoi_worker_find(ptoi_worker *worker);

/* Before each kernel of a device. It may refuse: it was lost, or could not be made current on this
 * thread. */
pto_status ptoi_worker_begin(const ptoi_worker *worker);

/* Whether there may be a task for this worker. The last check before it sleeps (W10). */
bool ptoi_worker_sees_work(ptoi_worker *worker);

/* Starts the thread of a worker that is set up. Returns 0 or an error number. */
int ptoi_worker_start(ptoi_worker *worker);

#endif /* PTOI_WORKER_H */
