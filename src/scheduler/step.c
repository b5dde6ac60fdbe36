/* step.c - the step of the scheduler (step.h): what not every task needs. */
#include "scheduler/step.h"

bool ptoi_sched_look(ptoi_sched *sched, uint32_t task, uint32_t cursor)
{
    const ptoi_view *view = &sched->view;
    const ptoi_slot *slot = &view->slots[task];
    const uint32_t fanin = slot->fanin;
    const ptoi_ref *refs = view->level[ptoi_what_of(slot).level].deps + slot->deps;
    for (uint32_t i = cursor; i < fanin; i++) {
        const ptoi_ref ref = refs[i];
        ptoi_state *producer = ptoi_state_of(view, ptoi_ref_level(ref), ptoi_ref_seq(ref));
        const uint32_t lap = ptoi_lap_of_ref(view, ref);
        uint64_t waiters = ptoi_acquire64(&producer->waiters); /* pairs W2 */
        while ((!ptoi_list_closed(waiters, lap) && !ptoi_is_recycled(view, ref)) ||
               (PTOI_MUTANT(NO_CHECK) && waiters >> 32 == lap)) {
            view->waits[task] = (ptoi_wait){ptoi_list_first(waiters, lap), i};
            /* From the moment it has joined, the task belongs to whoever closes the list. */
            if (PTOI_MUTANT(NO_CLOSE)) {
                for (uint32_t wait = 0; wait < 200; wait++) {
                    ptoi_relax();
                }
                ptoi_release64(&producer->waiters, ptoi_list_word(lap, task));
                return false;
            }
            if (ptoi_cas64(&producer->waiters, &waiters, ptoi_list_word(lap, task))) { /* W3 */
                return false;
            }
        }
        if (ptoi_ref_poisons(ref) && ptoi_list_bad(waiters, lap)) {
            view->states[task].poisoned = 1;
        }
    }
    return true;
}

/* ---- Who runs it ---- */

void ptoi_sched_wake_types(ptoi_sched *sched, uint32_t types)
{
    if (ptoi_see32(&sched->idle) == 0) {
        return;
    }
    for (uint32_t i = 0; i <= sched->n_workers; i++) {
        ptoi_worker *worker = &sched->workers[i];
        if ((worker->types & types) && ptoi_park_wake(&worker->parker)) {
            return;
        }
    }
}

void ptoi_sched_offer(ptoi_sched *sched, uint32_t task)
{
    uint32_t type = ptoi_what_of(&sched->view.slots[task]).type;
    ptoi_queue_push(&sched->ready[type], task);
    ptoi_add32(&sched->offers, 1);
    ptoi_sched_wake_types(sched, PTO_TYPE_BIT(type));
}

void ptoi_sched_rouse(ptoi_sched *sched)
{
    if (sched->place == PTO_PLACE_THREAD) {
        ptoi_park_wake(&sched->own.parker);
    } else {
        ptoi_sched_wake_types(sched, PTO_ALL_TYPES);
    }
}

/* ---- Closing ---- */

/* Lists are built newest first; the oldest shall run first. */
static uint32_t oldest_first(const ptoi_view *view, uint32_t list)
{
    uint32_t turned = PTOI_LIST_EMPTY;
    while (list != PTOI_LIST_EMPTY) {
        uint32_t next = view->waits[list].next;
        view->waits[list].next = turned;
        turned = list;
        list = next;
    }
    return turned;
}

void ptoi_sched_closed(ptoi_sched *sched, ptoi_worker *worker, ptoi_ref ref, uint32_t list)
{
    const ptoi_view *view = &sched->view;
    const uint64_t awaited = ptoi_see64(&sched->awaited);
    if (awaited == ptoi_ref_task(ref) || awaited == PTOI_AWAIT_ANY) {
        ptoi_park_wake(&sched->workers[sched->n_workers].parker);
    }
    for (uint32_t at = oldest_first(view, list), next; at != PTOI_LIST_EMPTY; at = next) {
        next = view->waits[at].next;
        if (!ptoi_sched_look(sched, at, view->waits[at].cursor)) {
            continue;
        }
        if (__builtin_expect(sched->watched, 0) && worker == &sched->own) {
            ptoi_sched_tell_ready(sched, at);
        }
        if (worker && worker->next == PTOI_NONE &&
            worker->types >> ptoi_what_of(&view->slots[at]).type & 1) {
            worker->next = at;
        } else {
            ptoi_sched_offer(sched, at);
        }
    }
}

/* The end of a task of a traced run, and its beginning if it ran here. Before it is closed: its slot
 * is still its own, and whoever begins because of it begins later. */
void ptoi_sched_log_end(ptoi_sched *sched, const ptoi_worker *worker, uint32_t task,
                        ptoi_outcome outcome)
{
    const ptoi_slot *slot = &sched->view.slots[task];
    ptoi_log *log = worker ? worker->log : sched->foreign_log;
    const pto_task name = ptoi_task_of(slot);
    if (!log) {
        return; /* it is only watched */
    }
    if (!worker) {
        pthread_mutex_lock(&sched->lock);
    }
    ptoi_log_end(log, name, outcome);
    if (!worker) {
        pthread_mutex_unlock(&sched->lock);
    }
}
