/* step.h - the step of the scheduler: claim, look, close. What every task goes through is in this
 * header, because whoever takes the step wants it without calls. */
#ifndef PTOI_STEP_H
#define PTOI_STEP_H

#include "base/mutant.h"
#include "scheduler/scheduler.h"

/* A task was taken out of the inbox: what is written about it from now on is its own. */
static inline void ptoi_sched_begin(const ptoi_view *view, uint32_t task)
{
    const ptoi_slot *slot = &view->slots[task];
    const ptoi_what what = ptoi_what_of(slot);
    ptoi_state *state = &view->states[task];
    ptoi_set32(&state->phase, ptoi_phase_begin(ptoi_lap(view, what.level, ptoi_get64(&slot->seq))));
    state->poisoned = what.poisoned;
}

/* The next new task that can run, PTOI_NONE if there is none. Others it meets join their lists.
 * *breath is how long to wait before looking for more of them: see ptoi_park_breathe. */
static inline uint32_t ptoi_sched_claim(ptoi_sched *sched, uint64_t *inbox, uint32_t *breath)
{
    ptoi_header *h = sched->view.header;
    uint64_t at = ptoi_get64(&h->inbox_claimed);
    for (;;) {
        /* *inbox may be behind, never ahead: what it admits was published. */
        if (at >= *inbox) {
            ptoi_park_breathe(*breath);
            *inbox = ptoi_acquire64(&h->inbox_head); /* pairs W1 */
            if (*breath) {
                *breath = ptoi_park_next_breath(*breath, at < *inbox ? *inbox - at : 0);
            }
            if (at >= *inbox) {
                return PTOI_NONE;
            }
        }
        /* Read before it is ours: if another one is faster the entry may be overwritten, and then
         * the swap fails. */
        uint32_t task = ptoi_get32(&sched->view.inbox[(uint32_t)at & sched->view.inbox_mask]);
        if (ptoi_cas64(&h->inbox_claimed, &at, at + 1)) {
            ptoi_sched_begin(&sched->view, task);
            if (sched->view.slots[task].fanin == 0 || ptoi_sched_look(sched, task, 0)) {
                return task;
            }
            at++;
        }
    }
}

/* ---- Closing ---- */

static inline void ptoi_sched_count(ptoi_sched *sched, ptoi_worker *worker, ptoi_outcome outcome)
{
    if (!worker) {
        pthread_mutex_lock(&sched->lock);
    }
    ptoi_worker_line *line = worker ? worker->line : ptoi_sched_others(sched);
    /* Released: who sees it counted sees it submitted, too (pto_stats). */
    ptoi_release64(&line->tally.completed, ptoi_get64(&line->tally.completed) + 1);
    if (outcome != PTOI_DONE) {
        ptoi_count64(outcome == PTOI_FAILED ? &line->tally.failed : &line->tally.skipped, 1);
    }
    if (!worker) {
        pthread_mutex_unlock(&sched->lock);
    }
}

/* Closes the list and takes all who are in it, in one step. */
static inline uint64_t ptoi_sched_close_list(ptoi_state *state, uint64_t closed)
{
    if (PTOI_MUTANT(NO_SWAP)) {
        uint64_t waiters = ptoi_acquire64(&state->waiters);
        for (uint32_t wait = 0; wait < 200; wait++) {
            ptoi_relax();
        }
        ptoi_release64(&state->waiters, closed);
        return waiters;
    }
    return ptoi_swap64(&state->waiters, closed); /* W2 */
}

/* The task is complete: closes its list and looks at all who wait in it. The first that the worker
 * can run becomes its next, the others are put where workers find them. `worker` may be NULL. */
static inline void ptoi_sched_close(ptoi_sched *sched, ptoi_worker *worker, uint32_t task,
                                    ptoi_outcome outcome)
{
    const ptoi_view *view = &sched->view;
    const ptoi_slot *slot = &view->slots[task];
    ptoi_state *state = &view->states[task];
    const uint64_t seq = ptoi_get64(&slot->seq);
    const uint32_t level = ptoi_what_of(slot).level, lap = ptoi_lap(view, level, seq);
    ptoi_sched_count(sched, worker, outcome);
    state->outcome = (uint8_t)outcome;
    const uint64_t waiters = ptoi_sched_close_list(
        state, ptoi_list_word(lap, outcome == PTOI_DONE ? PTOI_LIST_CLOSED : PTOI_LIST_CLOSED_BAD));
    /* The slot may be another task's from here on. */
    const uint32_t list = ptoi_list_first(waiters, lap);
    if (__builtin_expect(list != PTOI_LIST_EMPTY || ptoi_see64(&sched->awaited), 0)) {
        ptoi_sched_closed(sched, worker, ptoi_ref_make(seq, level, false), list);
    }
}

/* A task has run, on a worker or (NULL) completed by another thread: closes it, or lets the
 * scheduler's thread do it. */
static inline void ptoi_sched_finish(ptoi_sched *sched, ptoi_worker *worker, uint32_t task,
                                     ptoi_outcome outcome)
{
    if (__builtin_expect(sched->watched, 0)) {
        ptoi_sched_log_end(sched, worker, task, outcome);
    }
    if (sched->place == PTO_PLACE_THREAD) {
        sched->view.states[task].outcome = (uint8_t)outcome;
        ptoi_queue_push(&sched->done, task);
        if (ptoi_see32(&sched->resting)) {
            ptoi_park_wake(&sched->own.parker);
        }
    } else {
        ptoi_sched_close(sched, worker, task, outcome);
    }
}

#endif /* PTOI_STEP_H */
