/* grid_write.h - writers of a grid (scheduler/grid.h): they show the orchestrator which tasks are complete. Each
 * lane has done rings of some workers. This header compiles as C11 and as CUDA C++.
 *
 *     done ring ──D4──> states of the window ──W2──> orchestrator
 */
#ifndef PTOI_GRID_WRITE_H
#define PTOI_GRID_WRITE_H

#include "scheduler/grid.h"

/* Writes how a task ended. A task that the host has run has its phase and outcome there already. */
PTOI_INLINE void ptoi_grid_write_state(const ptoi_grid *g, uint32_t id, uint32_t index,
                                       uint32_t lap, uint32_t outcome)
{
    ptoi_state *state = &g->window.states[index];
    const uint32_t phase = ptoi_phase_begin(lap) | PTOI_PHASE_RUNNING | PTOI_PHASE_COMPLETED;
    const uint32_t worker = g->first_line + id;
#ifdef __CUDA_ARCH__
    _Static_assert(offsetof(ptoi_state, phase) == 8 && offsetof(ptoi_state, outcome) == 13 &&
                       offsetof(ptoi_state, worker) == 14,
                   "one store over the bus");
    ptoi_far_set64((ptoi_a64 *)(void *)&state->phase,
                   phase | (uint64_t)outcome << 40 | (uint64_t)worker << 48);
#else
    ptoi_far_set32(&state->phase, phase);
    state->outcome = (uint8_t)outcome;
    state->worker = (uint16_t)worker;
#endif
}

/* Shows the orchestrator that up to PTOI_GRID_BATCH tasks of a ring are complete; from W2 on their slots
 * may be used again. Returns how many. They share a fence, which takes a trip over the bus: a worker must
 * not wait for that with each task of a chain. */
PTOI_INLINE uint32_t ptoi_grid_write_back(const ptoi_grid *g, uint32_t id, uint32_t taken)
{
    ptoi_grid_done *done = &g->done[id];
    const uint64_t completed = ptoi_get64(&done->completed); /* under way with the cells */
    uint64_t word[PTOI_GRID_BATCH];
    uint32_t n = 0, bad = 0;
    PTOI_GRID_UNROLL
    for (uint32_t k = 0; k < PTOI_GRID_BATCH; k++) {
        word[k] = ptoi_far_acquire64(&done->cell[(taken + k) % PTOI_GRID_DONE]); /* pairs D4 */
    }
    PTOI_GRID_UNROLL
    for (uint32_t k = 0; k < PTOI_GRID_BATCH; k++) {
        n += n == k && ((uint32_t)word[k] >> 24) == ((taken + k + 1) & 255);
    }
    if (n == 0) {
        return 0;
    }
    PTOI_GRID_UNROLL
    for (uint32_t k = 0; k < PTOI_GRID_BATCH; k++) {
        const uint32_t outcome = (uint32_t)word[k] >> 22 & 3;
        if (k < n && id < g->n_workers) {
            bad |= outcome;
            ptoi_grid_write_state(g, id, (uint32_t)word[k] & 0x3fffff, (uint32_t)(word[k] >> 32),
                                  outcome);
        }
    }
    if (id < g->n_workers) { /* W7: before W2 */
        ptoi_tally *tally = &g->lines[id].tally;
        if (PTOI_UNLIKELY(bad)) {
            for (uint32_t k = 0; k < n; k++) {
                const uint64_t it = ptoi_get64(&done->cell[(taken + k) % PTOI_GRID_DONE]);
                done->failed += ((uint32_t)it >> 22 & 3) == PTOI_FAILED;
                done->skipped += ((uint32_t)it >> 22 & 3) == PTOI_SKIPPED;
            }
            ptoi_far_set64(&tally->failed, done->failed);
            ptoi_far_set64(&tally->skipped, done->skipped);
        }
        ptoi_set64(&done->completed, completed + n);
        ptoi_far_set64(&tally->completed, completed + n);
    }
    ptoi_far_fence();
    PTOI_GRID_UNROLL
    for (uint32_t k = 0; k < PTOI_GRID_BATCH; k++) {
        if (k < n) {
            const bool good = ((uint32_t)word[k] >> 22 & 3) == PTOI_DONE;
            ptoi_far_follow64(
                &g->window.states[(uint32_t)word[k] & 0x3fffff].waiters,
                ptoi_list_word((uint32_t)(word[k] >> 32),
                               good ? PTOI_LIST_CLOSED : PTOI_LIST_CLOSED_BAD)); /* W2 */
        }
    }
    return n;
}

/* Looks at the rings of completions lane, lane + n ... Returns whether there was something. */
PTOI_INLINE bool ptoi_grid_write_rings(const ptoi_grid *g, uint32_t lane)
{
    bool found = false;
    for (uint32_t id = lane; id <= g->n_workers; id += g->n_writers) {
        const uint32_t taken = ptoi_own32(&g->done[id].taken);
        const uint64_t running = ptoi_get64(&g->done[id].running), shown = g->done[id].shown;
        const uint32_t n = ptoi_grid_write_back(g, id, taken);
        if (running != shown) {
            g->done[id].shown = running;
            ptoi_far_set64(&g->lines[id].task, running); /* W6 */
        }
        if (n) {
            ptoi_follow32(&g->done[id].taken, taken + n); /* D4 */
            found = true;
        }
    }
    return found;
}

/* One step of writer lane `lane`. It ends if there is nothing in its rings after it has seen `leave`. */
PTOI_INLINE ptoi_grid_found ptoi_grid_write(const ptoi_grid *g, uint32_t lane)
{
    const uint32_t leave = ptoi_get32(
        &g->control->leave); /* nobody waits for it before the rings */
    if (ptoi_grid_write_rings(g, lane)) {
        return PTOI_GRID_SOMETHING;
    }
    if (PTOI_LIKELY(!leave)) {
        return PTOI_GRID_NOTHING;
    }
    (void)ptoi_acquire32(&g->control->leave); /* pairs D7 */
    if (ptoi_grid_write_rings(g, lane)) {
        return PTOI_GRID_SOMETHING;
    }
    ptoi_grid_leave(g, 1);
    return PTOI_GRID_END;
}

#endif /* PTOI_GRID_WRITE_H */
