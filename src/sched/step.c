/* step.c - the step of the scheduler: claim, look, close. */
#include "base/mutant.h"
#include "sched/sched.h"

bool ptoi_sched_look(ptoi_sched *sched, uint32_t task, uint32_t cursor)
{
    const ptoi_view *view = &sched->view;
    const ptoi_slot *slot = &view->slots[task];
    const uint32_t fanin = slot->fanin;
    if (cursor == fanin) {
        return true;
    }
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

/* A task was taken out of the inbox: what is written about it from now on is its own. */
static inline void begin(const ptoi_view *view, uint32_t task)
{
    const ptoi_slot *slot = &view->slots[task];
    const ptoi_what what = ptoi_what_of(slot);
    ptoi_state *state = &view->states[task];
    ptoi_set32(&state->phase, ptoi_phase_begin(ptoi_lap(view, what.level, ptoi_get64(&slot->seq))));
    state->poisoned = what.poisoned;
}

uint32_t ptoi_sched_claim(ptoi_sched *sched, uint64_t *inbox, uint32_t *breath)
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
            begin(&sched->view, task);
            if (ptoi_sched_look(sched, task, 0)) {
                return task;
            }
            at++;
        }
    }
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

static void count(ptoi_sched *sched, ptoi_worker *worker, ptoi_outcome outcome)
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
static inline uint64_t close_list(ptoi_state *state, uint64_t closed)
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

void ptoi_sched_close(ptoi_sched *sched, ptoi_worker *worker, uint32_t task, ptoi_outcome outcome)
{
    const ptoi_view *view = &sched->view;
    const ptoi_slot *slot = &view->slots[task];
    ptoi_state *state = &view->states[task];
    const uint64_t seq = ptoi_get64(&slot->seq);
    const uint32_t level = ptoi_what_of(slot).level, lap = ptoi_lap(view, level, seq);
    count(sched, worker, outcome);
    state->outcome = (uint8_t)outcome;
    const uint64_t waiters = close_list(
        state, ptoi_list_word(lap, outcome == PTOI_DONE ? PTOI_LIST_CLOSED : PTOI_LIST_CLOSED_BAD));
    /* The slot may be another task's from here on. */
    uint64_t awaited = ptoi_see64(&sched->awaited);
    if (awaited == ptoi_ref_task(ptoi_ref_make(seq, level, false)) || awaited == PTOI_AWAIT_ANY) {
        ptoi_park_wake(&sched->workers[sched->n_workers].parker);
    }
    for (uint32_t at = oldest_first(view, ptoi_list_first(waiters, lap)), next;
         at != PTOI_LIST_EMPTY; at = next) {
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
static __attribute__((noinline)) void log_end(ptoi_sched *sched, const ptoi_worker *worker,
                                              uint32_t task, ptoi_outcome outcome)
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

void ptoi_sched_finish(ptoi_sched *sched, ptoi_worker *worker, uint32_t task, ptoi_outcome outcome)
{
    if (__builtin_expect(sched->watched, 0)) {
        log_end(sched, worker, task, outcome);
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
