#include "scheduler/complete.h"

void ptoi_scheduler_wake(ptoi_scheduler *s, uint32_t types)
{
    if (ptoi_load_sc32(&s->view.sched->idle) == 0) {
        return;
    }
    for (uint32_t i = 0; i <= s->n_workers; i++) {
        ptoi_worker *worker = &s->workers[i];
        if ((worker->types & types) && ptoi_park_wake(&worker->parker)) {
            return;
        }
    }
}

void ptoi_scheduler_offer(ptoi_scheduler *s, uint32_t task)
{
    const uint32_t type = ptoi_slot_header_of(&s->view.slots[task]).type;
    ptoi_queue_push(&s->ready[type], task);
    ptoi_fetch_add32(&s->view.sched->ready_epoch, 1); /* W11 */
    ptoi_scheduler_wake(s, PTO_TYPE_BIT(type));
}

void ptoi_scheduler_rouse(ptoi_scheduler *s)
{
    if (s->place == PTO_PLACE_THREAD) {
        ptoi_park_wake(&s->own.parker);
    } else {
        ptoi_scheduler_wake(s, PTO_ALL_TYPES);
    }
}

void ptoi_completed(ptoi_scheduler *s, ptoi_worker *worker, ptoi_ref ref, uint32_t list)
{
    const ptoi_view *view = &s->view;
    const uint64_t awaited = ptoi_load_sc64(&view->sched->awaited); /* W9 */
    if (awaited == ptoi_ref_task(ref) || awaited == PTOI_AWAIT_ANY) {
        ptoi_park_wake(&s->caller->parker);
    }
    list = ptoi_step_oldest_first(view, list);
    for (uint32_t task; (task = ptoi_step_next_ready(view, &list)) != PTOI_NONE;) {
        if (worker == &s->own) {
            ptoi_scheduler_log_ready(s, task);
        }
        if (worker && worker->next == PTOI_NONE &&
            worker->types >> ptoi_slot_header_of(&view->slots[task]).type & 1) {
            worker->next = task;
        } else {
            ptoi_scheduler_offer(s, task);
        }
    }
}

void ptoi_log_completed(ptoi_scheduler *s, const ptoi_worker *worker, uint32_t task,
                        ptoi_outcome outcome)
{
    ptoi_log *log = worker ? worker->log : s->foreign_log;
    if (!log) {
        return; /* watched, but not traced */
    }
    if (!worker) {
        pthread_mutex_lock(&s->lock);
    }
    ptoi_log_end(log, ptoi_task_of(&s->view.slots[task]), outcome);
    if (!worker) {
        pthread_mutex_unlock(&s->lock);
    }
}
