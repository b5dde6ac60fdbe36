/* complete.h - completes a task: counts it, closes its list of waiters and resolves them. The code
 * that every task runs is inline. */
#ifndef PTOI_COMPLETE_H
#define PTOI_COMPLETE_H

#include "scheduler/scheduler.h"
#include "scheduler/step.h"

/* The line of a worker. If `worker` is NULL, the line that all threads of the program share. */
static inline ptoi_worker_line *ptoi_line_of(const ptoi_scheduler *s, const ptoi_worker *worker)
{
    return worker ? worker->calls.line
                  : &s->view.workers[s->n_workers + PTOI_LINE_OTHERS + s->process];
}

/* Call it after the list of a task was closed. Wakes the orchestrating thread if it sleeps for this
 * task, and resolves the tasks in the list. The first ready task that the worker can run becomes
 * its next one. The other ready tasks go to the ready queues. */
void ptoi_completed(ptoi_scheduler *s, ptoi_worker *worker, ptoi_ref ref, uint32_t list);

/* Marks a task as launched (W18) and resolves the tasks that wait for it. Returns whether some of
 * them still do: they are not of its device. */
bool ptoi_launched(ptoi_worker *worker, uint32_t index);

/* Completes a task that may be launched, in whatever place. */
void ptoi_close(ptoi_worker *worker, uint32_t index, ptoi_outcome outcome);

/* Logs the end of a task of a traced run, and its start if it ran here. Call it before the list of
 * the task is closed: the slot is still its own, and its consumers start later. */
void ptoi_log_completed(ptoi_scheduler *s, const ptoi_worker *worker, uint32_t index,
                        ptoi_outcome outcome);

static inline void ptoi_count_completed(ptoi_scheduler *s, ptoi_worker *worker,
                                        ptoi_outcome outcome)
{
    if (!worker) {
        pthread_mutex_lock(&s->lock);
    }
    ptoi_tally *tally = &ptoi_line_of(s, worker)->tally;
    ptoi_release64(&tally->completed, ptoi_get64(&tally->completed) + 1); /* W7 */
    if (outcome != PTOI_DONE) {
        ptoi_count64(outcome == PTOI_FAILED ? &tally->failed : &tally->skipped, 1);
    }
    if (!worker) {
        pthread_mutex_unlock(&s->lock);
    }
}

/* Completes a task. `worker` is NULL on a thread of the program. */
static inline void ptoi_complete(ptoi_scheduler *s, ptoi_worker *worker, uint32_t index,
                                 ptoi_outcome outcome)
{
    const ptoi_view *view = &s->view;
    const ptoi_slot *slot = &view->slots[index];
    const uint64_t seq = ptoi_get64(&slot->seq);
    const uint32_t level = ptoi_slot_header_of(slot).level;
    ptoi_count_completed(s, worker, outcome);
    const uint32_t list = ptoi_step_complete(view, index, ptoi_lap(view, level, seq), outcome);
    if (PTOI_UNLIKELY(list != PTOI_LIST_EMPTY || ptoi_load_sc64(&view->wakes->awaited))) { /* W9 */
        ptoi_completed(s, worker, ptoi_ref_make(seq, level, false), list);
    }
}

/* The kernel of a task has returned, or the task is skipped: completes it, or passes it to the
 * scheduler's thread. */
static inline void ptoi_finish(ptoi_scheduler *s, ptoi_worker *worker, uint32_t index,
                               ptoi_outcome outcome)
{
    if (PTOI_UNLIKELY((worker ? worker : s->caller)->calls.watched)) {
        ptoi_log_completed(s, worker, index, outcome);
    }
    if (s->relayed) {
        s->view.states[index].outcome = (uint8_t)outcome;
        ptoi_queue_push(&s->queue[PTOI_QUEUE_DONE], index);
        if (ptoi_load_sc32(&s->view.wakes->resting)) {
            ptoi_park_wake(&s->own.parker);
        }
    } else {
        ptoi_complete(s, worker, index, outcome);
    }
}

#endif /* PTOI_COMPLETE_H */
