/* step.h - the step of the scheduler: begin, resolve, complete.
 *
 *     claimed ──begin──> resolve ──all producers complete──> ready ──> its kernel ──> complete
 *                           │                                  ^                         │
 *                           └─ joins the list of the first     └──── resolve again ──────┘
 *                              producer that is not                  each task in the list
 *
 * A task waits in the list of one producer at a time. When that producer completes, the task is
 * resolved again from where it stood: it can run, or it joins the list of the next producer that is
 * not complete. So a task needs one link, which is its own, and nothing is counted.
 *
 * These functions work on the window alone. They do not lock, log, park or wake. They return a list
 * of tasks, and which of them can run; the caller does the rest. So the step is the same in every
 * place: on workers, on a scheduler thread, in another process, on a device. This header compiles
 * as C11 and as CUDA C++ (tests/scheduler/step.cu).
 */
#ifndef PTOI_STEP_H
#define PTOI_STEP_H

#include "window/task.h"

/* Begins a task that was just claimed. From now on the caller owns its state. */
PTOI_INLINE void ptoi_step_begin(const ptoi_view *view, uint32_t task)
{
    const ptoi_slot *slot = &view->slots[task];
    const ptoi_slot_header header = ptoi_slot_header_of(slot);
    ptoi_state *state = &view->states[task];
    ptoi_set32(&state->phase,
               ptoi_phase_begin(ptoi_lap(view, header.level, ptoi_get64(&slot->seq))));
    state->poisoned = header.poisoned;
}

/* Whether a task can run. If not, it has joined the list of a producer, and the thread that
 * completes that producer owns it. Before: the caller owns the task, and its producers before
 * `cursor` are complete. */
PTOI_INLINE bool ptoi_step_resolve(const ptoi_view *view, uint32_t task, uint32_t cursor)
{
    const ptoi_slot *slot = &view->slots[task];
    const uint32_t fanin = slot->fanin;
    const ptoi_ref *refs = view->level[ptoi_slot_header_of(slot).level].deps + slot->deps;
    for (uint32_t i = cursor; i < fanin; i++) {
        const ptoi_ref ref = refs[i];
        ptoi_state *producer = ptoi_state_of(view, ptoi_ref_level(ref), ptoi_ref_seq(ref));
        const uint32_t lap = ptoi_lap_of_ref(view, ref);
        uint64_t waiters = ptoi_acquire64(&producer->waiters); /* pairs W2 */
        while ((!ptoi_list_closed(waiters, lap) && !ptoi_is_recycled(view, ref)) ||
               (PTOI_MUTANT(NO_CHECK) && waiters >> 32 == lap)) {
            view->waits[task].next = ptoi_list_first(waiters, lap);
            view->waits[task].cursor = i;
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

/* Closes the list of a task and returns its first waiter. The newest waiter comes first. From here
 * on the slot may be recycled. */
PTOI_INLINE uint32_t ptoi_step_complete(const ptoi_view *view, uint32_t task, uint32_t lap,
                                        ptoi_outcome outcome)
{
    ptoi_state *state = &view->states[task];
    const uint64_t closed = ptoi_list_word(lap, outcome == PTOI_DONE ? PTOI_LIST_CLOSED
                                                                     : PTOI_LIST_CLOSED_BAD);
    state->outcome = (uint8_t)outcome;
    if (PTOI_MUTANT(NO_SWAP)) {
        const uint64_t waiters = ptoi_acquire64(&state->waiters);
        for (uint32_t wait = 0; wait < 200; wait++) {
            ptoi_relax();
        }
        ptoi_release64(&state->waiters, closed);
        return ptoi_list_first(waiters, lap);
    }
    return ptoi_list_first(ptoi_exchange64(&state->waiters, closed), lap); /* W2 */
}

/* Reverses a closed list, so that the task that joined first is resolved first. */
PTOI_INLINE uint32_t ptoi_step_oldest_first(const ptoi_view *view, uint32_t list)
{
    uint32_t reversed = PTOI_LIST_EMPTY;
    while (list != PTOI_LIST_EMPTY) {
        const uint32_t next = view->waits[list].next;
        view->waits[list].next = reversed;
        reversed = list;
        list = next;
    }
    return reversed;
}

/* The next task of a closed list that can run; PTOI_NONE at the end of the list. The tasks passed
 * over have joined another list. */
PTOI_INLINE uint32_t ptoi_step_next_ready(const ptoi_view *view, uint32_t *list)
{
    while (*list != PTOI_LIST_EMPTY) {
        const uint32_t task = *list;
        *list = view->waits[task].next;
        if (ptoi_step_resolve(view, task, view->waits[task].cursor)) {
            return task;
        }
    }
    return PTOI_NONE;
}

#endif /* PTOI_STEP_H */
