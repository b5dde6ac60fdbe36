/* worker.h - a thread that runs kernels: finds a task, builds its arguments, calls its kernel and
 * finishes the task. */
#ifndef PTOI_WORKER_H
#define PTOI_WORKER_H

#include "scheduler/scheduler.h"

/* Runs one task if there is one. If the length of its kernel is not known, or exceeds `longest`
 * (ptoi_length), the task goes to a ready queue instead, and *longer is set. */
bool ptoi_worker_step(ptoi_worker *worker, uint32_t longest, bool *longer);

/* Whether there may be a task for this worker. The last check before it sleeps (W10). */
bool ptoi_worker_sees_work(ptoi_worker *worker);

#endif /* PTOI_WORKER_H */
