/* worker.h - a thread that runs kernels: find a task, resolve its arguments, call, finish. */
#ifndef PTOI_WORKER_H
#define PTOI_WORKER_H

#include "scheduler/scheduler.h"

/* Runs one task if there is one. If its kernel is not known, or may take longer than `longest`
 * (ptoi_length), the task is offered to others instead, and *longer is set. */
bool ptoi_worker_step(ptoi_worker *worker, uint32_t longest, bool *longer);

/* Whether there seems to be a task for it, as the last look before it sleeps. */
bool ptoi_worker_sees_work(ptoi_worker *worker);

#endif /* PTOI_WORKER_H */
