/* crash.h - a crash in a kernel names the kernel, the task and its submit site before the process
 * dies. Scheduler's side. The signals are in base/crash.h. */
#ifndef PTOI_WORKER_CRASH_H
#define PTOI_WORKER_CRASH_H

#include "scheduler/scheduler.h"

/* From before the first thread starts to after the last kernel has returned. A second `end`, or one
 * without a begin, does nothing. */
pto_status ptoi_crash_begin(ptoi_scheduler *s);
void ptoi_crash_end(ptoi_scheduler *s);

/* Around all that a worker's thread does. */
void ptoi_crash_thread_begin(const ptoi_worker *worker);
void ptoi_crash_thread_end(const ptoi_worker *worker);

#endif /* PTOI_WORKER_CRASH_H */
