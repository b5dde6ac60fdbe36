/* pause.h - keeps the threads of worker processes out of the step while the scheduler's part of the
 * window is rebuilt (scheduler/rebuild.h). Scheduler's side.
 *
 *     the orchestrator    stop = PAUSE     wakes all, asks the helper
 *     a worker            in a kernel      stays there, and pauses when the kernel returns
 *                         elsewhere        ends its step and pauses
 *     the helper          waits until each live worker is in a kernel or paused: W17
 */
#ifndef PTOI_PAUSE_H
#define PTOI_PAUSE_H

#include "scheduler/scheduler.h"

/* Pauses if that is asked for. Between two steps. */
void ptoi_pause_if_asked(ptoi_worker *worker);

/* Around all that a thread which is no worker does in pto_task_complete. */
void ptoi_pause_guest_enters(ptoi_scheduler *s);
void ptoi_pause_guest_leaves(ptoi_scheduler *s);

/* Whether all threads of these workers, and all guests of their process, are out of the step. */
bool ptoi_pause_is_reached(const ptoi_scheduler *s, uint32_t process, uint32_t first,
                           uint32_t count);

#endif /* PTOI_PAUSE_H */
