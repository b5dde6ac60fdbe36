/* step.h - the step of the scheduler: begin, resolve, complete.
 *
 *     claimed ──begin──> resolve ──all producers complete──> ready ──> its kernel ──> complete
 *                           │                                  ^                         │
 *                           └─ joins the list of the first     └──── resolve again ──────┘
 *                              producer that is not                  each task in the list
 *
 * On a device with streams there is one more step: `launch` takes the list of a task that is launched
 * and leaves it open. Tasks of the same device pass a launched producer; the others join again.
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

#include "base/likely.h"
#include "window/task.h"

/* Begins a task that was just claimed. From now on the caller owns its state. */
PTOI_INLINE void ptoi_step_begin(const ptoi_view *view, uint32_t index)
{
    const ptoi_slot *slot = &view->slots[index];
    const ptoi_slot_header header = ptoi_slot_header_own(slot);
    ptoi_state *state = &view->states[index];
    ptoi_set32(&state->phase,
               ptoi_phase_begin(ptoi_lap(view, header.level, ptoi_own64(&slot->seq))));
    state->poisoned = header.poisoned;
}

/* What a task does whose producer is launched. */
typedef enum ptoi_meeting {
    PTOI_FOLLOWS, /* it need not wait: both are on one device, which keeps the order */
    PTOI_JOINED,  /* it has joined the list of the producer */
    PTOI_MISSED,  /* the word has changed meanwhile: *waiters is the new one */
} ptoi_meeting;

/* Resolves producer number `at` of a task, which is launched as *waiters says (pairs W18). If the
 * producer is complete meanwhile and its slot has another task, it does not matter which device that
 * is for: either the task need not wait any more, or the compare-and-swap fails. */
PTOI_COLD ptoi_meeting ptoi_step_meet(const ptoi_view *view, uint32_t index, uint32_t at,
                                      uint64_t *waiters)
{
    const ptoi_slot_header header = ptoi_slot_header_of(&view->slots[index]);
    const ptoi_ref ref = view->level[header.level].deps[view->slots[index].deps + at];
    const ptoi_slot *its = ptoi_slot_of(view, ptoi_ref_level(ref), ptoi_ref_seq(ref));
    const uint32_t device = ptoi_lane_device(ptoi_slot_header_of(its).lane);
    const uint32_t lap = ptoi_lap_of_ref(view, ref);
    if (PTOI_MUTANT(FOLLOW_ANY) || (ptoi_lane_device(header.lane) == device &&
                                    ptoi_lane_type(header.lane) != PTOI_LANE_ENGINE)) {
        return PTOI_FOLLOWS;
    }
    view->waits[index].next = ptoi_list_first_of_any(*waiters, lap);
    view->waits[index].cursor = at;
    return ptoi_cas64(&ptoi_state_of(view, ptoi_ref_level(ref), ptoi_ref_seq(ref))->waiters,
                      waiters, ptoi_list_word(lap, PTOI_LIST_LAUNCHED | index))
               ? PTOI_JOINED /* W3 */
               : PTOI_MISSED;
}

/* Whether a task can run. If not, it has joined the list of a producer, and the thread that
 * completes that producer owns it. Before: the caller owns the task, and its producers before
 * `cursor` are complete. */
PTOI_INLINE bool ptoi_step_resolve(const ptoi_view *view, uint32_t index, uint32_t cursor)
{
    const ptoi_slot *slot = &view->slots[index];
    const uint32_t fanin = slot->fanin;
    const ptoi_ref *refs = view->level[ptoi_slot_header_own(slot).level].deps + slot->deps;
    for (uint32_t i = cursor; i < fanin; i++) {
        const ptoi_ref ref = refs[i];
        ptoi_state *producer = ptoi_state_of(view, ptoi_ref_level(ref), ptoi_ref_seq(ref));
        const uint32_t lap = ptoi_lap_of_ref(view, ref);
        uint64_t waiters = ptoi_acquire64(&producer->waiters); /* pairs W2 */
        while ((!ptoi_list_closed(waiters, lap) && !ptoi_is_recycled(view, ref)) ||
               (PTOI_MUTANT(NO_CHECK) && waiters >> 32 == lap)) {
            if (PTOI_UNLIKELY(ptoi_list_launched(waiters, lap))) {
                uint64_t word = waiters; /* so that `waiters` itself can stay in a register */
                const ptoi_meeting met = ptoi_step_meet(view, index, i, &word);
                waiters = word;
                if (met == PTOI_JOINED) {
                    return false;
                }
                if (met == PTOI_FOLLOWS) {
                    break;
                }
                continue;
            }
            view->waits[index].next = ptoi_list_first(waiters, lap);
            view->waits[index].cursor = i;
            if (PTOI_MUTANT(NO_CLOSE)) {
                for (uint32_t wait = 0; wait < 200; wait++) {
                    ptoi_relax();
                }
                ptoi_release64(&producer->waiters, ptoi_list_word(lap, index));
                return false;
            }
            if (ptoi_cas64(&producer->waiters, &waiters, ptoi_list_word(lap, index))) { /* W3 */
                return false;
            }
        }
        if (ptoi_ref_poisons(ref) && ptoi_list_bad(waiters, lap)) {
            view->states[index].poisoned = 1;
        }
    }
    return true;
}

/* Closes the list of a task and returns its first waiter. The newest waiter comes first. From here
 * on the slot may be recycled. */
PTOI_INLINE uint32_t ptoi_step_close_list(const ptoi_view *view, uint32_t index, uint32_t lap,
                                          ptoi_outcome outcome)
{
    ptoi_a64 *word = &view->states[index].waiters;
    const uint64_t closed = ptoi_list_word(lap, outcome == PTOI_DONE ? PTOI_LIST_CLOSED
                                                                     : PTOI_LIST_CLOSED_BAD);
    if (PTOI_MUTANT(NO_SWAP)) {
        const uint64_t waiters = ptoi_acquire64(word);
        for (uint32_t wait = 0; wait < 200; wait++) {
            ptoi_relax();
        }
        ptoi_release64(word, closed);
        return ptoi_list_first(waiters, lap);
    }
    return ptoi_list_first(ptoi_exchange64(word, closed), lap); /* W2 */
}

/* The same, and notes how the task ended. */
PTOI_INLINE uint32_t ptoi_step_complete(const ptoi_view *view, uint32_t index, uint32_t lap,
                                        ptoi_outcome outcome)
{
    view->states[index].outcome = (uint8_t)outcome;
    return ptoi_step_close_list(view, index, lap, outcome);
}

/* Marks a task as launched and returns its first waiter, like ptoi_step_complete. The list stays
 * open. */
PTOI_INLINE uint32_t ptoi_step_launch(const ptoi_view *view, uint32_t index, uint32_t lap)
{
    ptoi_a64 *waiters = &view->states[index].waiters;
    const uint64_t launched = ptoi_list_word(lap, PTOI_LIST_LAUNCHED | PTOI_LIST_NOBODY);
    if (PTOI_MUTANT(LAUNCH_TWO_STEPS)) {
        const uint64_t before = ptoi_acquire64(waiters);
        ptoi_relax();
        ptoi_release64(waiters, launched);
        return ptoi_list_first(before, lap);
    }
    return ptoi_list_first(ptoi_exchange64(waiters, launched), lap); /* W18 */
}

/* ptoi_step_complete for a task that may be launched. */
PTOI_INLINE uint32_t ptoi_step_close(const ptoi_view *view, uint32_t index, uint32_t lap,
                                     ptoi_outcome outcome)
{
    ptoi_state *state = &view->states[index];
    state->outcome = (uint8_t)outcome;
    return ptoi_list_first_of_any(
        ptoi_exchange64(
            &state->waiters,
            ptoi_list_word(lap, outcome == PTOI_DONE ? PTOI_LIST_CLOSED : PTOI_LIST_CLOSED_BAD)),
        lap); /* W2 */
}

/* Reverses a closed list, so that the task that joined first is resolved first. PTOI_LIST_BROKEN: it
 * leads out of the window, or into a circle. (From a circle the walk comes back to the first task,
 * which then is not the last one.) */
PTOI_INLINE uint32_t ptoi_step_oldest_first(const ptoi_view *view, uint32_t list)
{
    const uint32_t first = list;
    uint32_t reversed = PTOI_LIST_EMPTY;
    while (list < view->n_slots) {
        const uint32_t next = view->waits[list].next;
        view->waits[list].next = reversed;
        reversed = list;
        list = next;
    }
    if (list != PTOI_LIST_EMPTY ||
        (first != PTOI_LIST_EMPTY && view->waits[first].next != PTOI_LIST_EMPTY)) {
        return PTOI_LIST_BROKEN;
    }
    return reversed;
}

/* The next task of a closed list that can run; PTOI_NONE at the end of the list. The tasks passed
 * over have joined another list. */
PTOI_INLINE uint32_t ptoi_step_next_ready(const ptoi_view *view, uint32_t *list)
{
    while (*list < view->n_slots) { /* else it is EMPTY: it was walked before, see oldest_first */
        const uint32_t index = *list;
        *list = view->waits[index].next;
        if (ptoi_step_resolve(view, index, view->waits[index].cursor)) {
            return index;
        }
    }
    return PTOI_NONE;
}

#endif /* PTOI_STEP_H */
