#include "scheduler/complete.h"

#include <stdio.h>
#include <stdlib.h>

void ptoi_scheduler_broken(const char *what)
{
    fprintf(stderr,
            "pto: process %u: the window is damaged: %s leads out of it; a kernel or the program "
            "has written to memory that is not its own\n",
            ptoi_os_process(), what);
    abort();
}

static bool wake_if(ptoi_worker *worker, uint32_t types)
{
    return (ptoi_worker_types(worker) & types) && ptoi_park_wake(&worker->parker);
}

bool ptoi_scheduler_wake(ptoi_scheduler *s, uint32_t device, uint32_t types)
{
    if (ptoi_load_sc32(&s->view.wakes->idle) == 0) {
        return false;
    }
    ptoi_worker *workers = device ? s->devices[device].workers : s->workers;
    const uint32_t n = device ? s->devices[device].n_workers : s->n_workers + 1;
    for (uint32_t i = 0; i < n; i++) {
        if (wake_if(&workers[i], types)) {
            return true;
        }
    }
    return false;
}

void ptoi_scheduler_offer(ptoi_scheduler *s, uint32_t index)
{
    const uint32_t lane = ptoi_slot_header_of(&s->view.slots[index]).lane;
    const uint32_t device = ptoi_lane_device(lane), type = ptoi_lane_type(lane);
    ptoi_queue_push(&(device ? s->devices[device].queue : s->queue)[type], index);
    ptoi_fetch_add32(&s->view.sched->ready_epoch, 1); /* W11 */
    (void)ptoi_scheduler_wake(s, device, PTO_TYPE_BIT(type));
}

/* The launcher of the device that a task is for; NULL: there is none. */
static ptoi_worker *launcher_for(const ptoi_scheduler *s, uint32_t index)
{
    const uint32_t device = s->n_devices > 1 && index != PTOI_NONE
                                ? ptoi_lane_device(ptoi_slot_header_of(&s->view.slots[index]).lane)
                                : 0;
    return device && s->devices[device].launcher ? s->devices[device].workers : NULL;
}

void ptoi_scheduler_rouse(ptoi_scheduler *s, uint32_t index)
{
    ptoi_worker *launcher;
    if (s->relayed) {
        ptoi_park_wake(&s->own.parker);
    } else if ((launcher = launcher_for(s, index)) != NULL) {
        /* It claims the task itself. If it is awake it will, before it sleeps (W10). A thread of the
         * host would only hand the task over. */
        (void)ptoi_park_wake(&launcher->parker);
    } else {
        for (uint32_t d = 0; d < s->n_devices && !ptoi_scheduler_wake(s, d, PTO_ALL_TYPES); d++) {
        }
    }
}

/* Whether a task should begin before another one: a copy or a message before a kernel, since it runs beside
 * that. */
static inline bool goes_first(const ptoi_view *view, uint32_t index, uint32_t other)
{
    return ptoi_slot_header_of(&view->slots[index]).lane == PTO_ACCELERATOR &&
           ptoi_slot_header_of(&view->slots[other]).lane != PTO_ACCELERATOR;
}

/* Resolves the tasks of a list that was taken. */
static inline __attribute__((always_inline)) void resolve_list(ptoi_scheduler *s,
                                                               ptoi_worker *worker, uint32_t list)
{
    const ptoi_view *view = &s->view;
    list = ptoi_step_oldest_first(view, list);
    if (PTOI_UNLIKELY(list == PTOI_LIST_BROKEN)) {
        ptoi_scheduler_broken("a list of waiters");
    }
    for (uint32_t index; (index = ptoi_step_next_ready(view, &list)) != PTOI_NONE;) {
        if (worker == &s->own) {
            ptoi_scheduler_log_ready(s, index);
        }
        if (worker && worker->next == PTOI_NONE &&
            ptoi_worker_serves(worker, ptoi_slot_header_of(&view->slots[index]).lane)) {
            worker->next = index;
        } else if (worker && worker->next != PTOI_NONE && goes_first(view, index, worker->next) &&
                   ptoi_worker_serves(worker, PTO_ACCELERATOR)) {
            ptoi_scheduler_offer(s, worker->next);
            worker->next = index;
        } else {
            ptoi_scheduler_offer(s, index);
        }
    }
}

void ptoi_completed(ptoi_scheduler *s, ptoi_worker *worker, ptoi_ref ref, uint32_t list)
{
    const uint64_t awaited = ptoi_load_sc64(&s->view.wakes->awaited); /* W9 */
    if (awaited == ptoi_ref_task(ref) || awaited == PTOI_AWAIT_ANY) {
        ptoi_park_wake(&s->caller->parker);
    }
    resolve_list(s, worker, list);
}

bool ptoi_launched(ptoi_worker *worker, uint32_t index)
{
    ptoi_scheduler *s = worker->sched;
    const ptoi_slot *slot = &s->view.slots[index];
    const uint32_t lap = ptoi_lap(&s->view, ptoi_slot_header_of(slot).level,
                                  ptoi_get64(&slot->seq));
    const uint32_t list = ptoi_step_launch(&s->view, index, lap);
    if (list == PTOI_LIST_EMPTY) {
        return false;
    }
    resolve_list(s, worker, list);
    return ptoi_list_first_of_any(ptoi_acquire64(&s->view.states[index].waiters), lap) !=
           PTOI_LIST_EMPTY;
}

void ptoi_close(ptoi_worker *worker, uint32_t index, ptoi_outcome outcome)
{
    ptoi_scheduler *s = worker->sched;
    const ptoi_slot *slot = &s->view.slots[index];
    const uint64_t seq = ptoi_get64(&slot->seq);
    const uint32_t level = ptoi_slot_header_of(slot).level;
    if (worker->calls.watched) {
        ptoi_log_completed(s, worker, index, outcome);
    }
    ptoi_count_completed(s, worker, outcome);
    const uint32_t list = ptoi_step_close(&s->view, index, ptoi_lap(&s->view, level, seq), outcome);
    ptoi_completed(s, worker, ptoi_ref_make(seq, level, false), list);
}

void ptoi_log_completed(ptoi_scheduler *s, const ptoi_worker *worker, uint32_t index,
                        ptoi_outcome outcome)
{
    ptoi_log *log = worker ? worker->log : s->foreign_log;
    if (!log) {
        return; /* watched, but not traced */
    }
    if (!worker) {
        pthread_mutex_lock(&s->lock);
    }
    ptoi_log_end(log, ptoi_task_of(&s->view.slots[index]), outcome);
    if (!worker) {
        pthread_mutex_unlock(&s->lock);
    }
}
