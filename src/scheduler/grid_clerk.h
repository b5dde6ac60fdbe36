/* grid_clerk.h - the clerk of a grid (scheduler/grid.h): it completes tasks that the host has run, and answers
 * small reads without a call of the driver. All lanes of a warp carry it out. This header compiles as C11 and
 * as CUDA C++. */
#ifndef PTOI_GRID_CLERK_H
#define PTOI_GRID_CLERK_H

#include "scheduler/grid_work.h"

/* All of it belongs to one thread; the other lanes have a copy. */
typedef struct ptoi_grid_clerk {
    ptoi_grid_worker worker;
    uint32_t posts_taken;
    uint64_t letter; /* the last one that it has answered */
} ptoi_grid_clerk;

PTOI_INLINE ptoi_grid_clerk ptoi_grid_clerk_begin(const ptoi_grid *g)
{
    const ptoi_grid_clerk clerk = {ptoi_grid_worker_begin(g, g->n_workers, PTOI_NONE),
                                   g->control->posts_taken, g->control->letter};
    return clerk;
}

/* Answers a letter. All lanes. A word travels with the number of the letter. */
PTOI_INLINE void ptoi_grid_answer(const ptoi_grid *g, uint64_t letter)
{
    const uint32_t *from = (const uint32_t *)(uintptr_t)ptoi_letter_from(letter);
    const uint32_t words = ptoi_letter_words(letter);
    const uint64_t number = (uint64_t)ptoi_letter_number(letter) << 32;
    if (words == 1) {
        if (PTOI_GRID_LANE == 0) {
            ptoi_far_follow64(&g->shared->answered, number | *from); /* D9 */
        }
        return;
    }
    for (uint32_t i = PTOI_GRID_LANE; i < words; i += PTOI_GRID_LANES) {
        g->shared->text[i] = from[i];
    }
    PTOI_GRID_SYNC();
    if (PTOI_GRID_LANE == 0) {
        ptoi_far_release64(&g->shared->answered, number); /* D9 */
    }
}

/* Tells the keeper of a traced run what time it is, if it has asked. One word, so there is nothing to
 * order: what counts is that the clock is read after the question and before the answer. */
PTOI_INLINE void ptoi_grid_tell_time(const ptoi_grid *g)
{
    const uint32_t asked = ptoi_far_get32(&g->shared->asked_time);
    if (asked != g->control->asked_time) {
        g->control->asked_time = asked;
        ptoi_far_set64(&g->shared->time, ptoi_grid_clock());
    }
}

/* Whether it can complete another task. All lanes. If not the step ends: on a simulated device the thread of
 * the clerk is that of the writer, and would wait for itself. */
PTOI_INLINE bool ptoi_grid_clerk_has_room(const ptoi_grid *g, ptoi_grid_clerk *clerk)
{
    const bool has = ptoi_grid_has_room(g, &clerk->worker); /* the first lane counts what is done */
    return PTOI_GRID_FIRST(has);
}

/* Answers a letter, and completes tasks that were posted. All lanes. Returns whether there was one. */
PTOI_INLINE bool ptoi_grid_serve_host(const ptoi_grid *g, ptoi_grid_clerk *clerk)
{
    const uint32_t half = ptoi_far_acquire32(&g->shared->posted); /* pairs D6 */
    const uint64_t word = ptoi_far_acquire64(&g->mail->asked);    /* pairs D9 */
    const uint32_t posted = PTOI_GRID_FIRST(half);
    const uint64_t letter = PTOI_GRID_FIRST(word);
    if (letter == clerk->letter && posted == clerk->posts_taken) {
        return false;
    }
    ptoi_far_fence();
    PTOI_GRID_SYNC();
    if (letter != clerk->letter) {
        ptoi_grid_answer(g, letter);
        clerk->letter = letter;
    }
    for (; clerk->posts_taken != posted && ptoi_grid_clerk_has_room(g, clerk);
         clerk->posts_taken++) {
        const uint64_t post = ptoi_far_word(&g->posts[clerk->posts_taken & g->inbox_mask]);
        const uint32_t index = (uint32_t)post;
        const ptoi_grid_slot slot = ptoi_grid_own_slot(&g->view.slots[index]);
        ptoi_grid_complete(g, &clerk->worker, index, ptoi_grid_lap(&g->view, &slot),
                           (ptoi_outcome)(post >> 32));
    }
    return true;
}

/* One step of the clerk. All lanes. It ends if there is nothing to do after it has seen `closing`. */
PTOI_INLINE ptoi_grid_found ptoi_grid_serve(const ptoi_grid *g, ptoi_grid_clerk *clerk)
{
    ptoi_grid_control *c = g->control;
    const uint32_t half = ptoi_get32(&c->closing); /* nobody waits for it before the host's words */
    if (g->records && PTOI_GRID_LANE == 0) {
        ptoi_grid_tell_time(g);
    }
    if (ptoi_grid_serve_host(g, clerk)) {
        return PTOI_GRID_SOMETHING;
    }
    if (PTOI_LIKELY(!PTOI_GRID_FIRST(half))) {
        return PTOI_GRID_NOTHING;
    }
    (void)ptoi_acquire32(&c->closing); /* pairs D7 */
    if (ptoi_grid_serve_host(g, clerk)) {
        return PTOI_GRID_SOMETHING;
    }
    if (PTOI_GRID_LANE == 0) {
        c->posts_taken = clerk->posts_taken;
        c->letter = clerk->letter;
        ptoi_grid_leave(g, 1);
    }
    return PTOI_GRID_END;
}

#endif /* PTOI_GRID_CLERK_H */
