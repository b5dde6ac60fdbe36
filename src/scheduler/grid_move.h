/* grid_move.h - the mover of a grid (scheduler/grid.h): it asks how far the rings of the window are written,
 * has that copied (grid_copy.h), releases tasks to resolvers (D2), and ends the grid (D7, D8). This header
 * compiles as C11 and as CUDA C++.
 *
 *     heads ──ask──> known ──copy──> mirrored ──enter──> released: resolvers may take them,
 *                                                        or the mover has resolved a few itself
 */
#ifndef PTOI_GRID_MOVE_H
#define PTOI_GRID_MOVE_H

#include "scheduler/grid_copy.h"
#include "scheduler/grid_resolve.h"

/* ---- The mover: heads and releases ---- */

/* What the mover asks the host for in each step. On a device, each lane asks for one word, and nobody waits
 * for an answer before ptoi_grid_hear. */
typedef struct ptoi_question {
#ifdef __CUDA_ARCH__
    uint64_t word;
    uint32_t half;
#else
    uint64_t word[PTOI_MAX_LEVELS + 1]; /* the heads, and that of the log */
#endif
    uint32_t era, cancel[2], hurry;
} ptoi_question;

/* Pairs D1. `busy`: copies are under way at the same time, and ptoi_far_fence comes before the next ones. */
PTOI_INLINE ptoi_question ptoi_grid_ask(const ptoi_grid *g, bool busy)
{
    ptoi_question q;
#ifdef __CUDA_ARCH__
    const uint32_t lane = PTOI_GRID_LANE;
    const ptoi_a64 *word = lane < g->view.levels ? &g->heads[lane] : g->log_head;
    const ptoi_a32 *half = lane == 0   ? g->era
                           : lane == 1 ? g->cancel[0]
                           : lane == 2 ? g->cancel[1]
                                       : &g->shared->hurry;
    q.half = ptoi_far_get32(half);
    q.word = busy ? ptoi_far_acquire64(word) : ptoi_far_await64(word);
#else
    /* The log first: on a device, in any order. */
    q.word[PTOI_GRID_LOG] = busy ? ptoi_far_acquire64(g->log_head) : ptoi_far_await64(g->log_head);
    for (uint32_t l = 0; l < PTOI_MAX_LEVELS; l++) {
        q.word[l] = l >= g->view.levels ? 0
                    : busy              ? ptoi_far_acquire64(&g->heads[l])
                                        : ptoi_far_await64(&g->heads[l]);
    }
    q.era = ptoi_far_get32(g->era);
    q.cancel[0] = ptoi_far_get32(g->cancel[0]);
    q.cancel[1] = ptoi_far_get32(g->cancel[1]);
    q.hurry = ptoi_far_get32(&g->shared->hurry);
#endif
    return q;
}

/* Which levels have changed: a bit for each. */
PTOI_INLINE uint32_t ptoi_grid_hear(const ptoi_grid *g, const ptoi_mover *m, ptoi_question *q)
{
#ifdef __CUDA_ARCH__
    const uint32_t lane = PTOI_GRID_LANE;
    const uint64_t known = lane < g->view.levels   ? m->level[lane].known
                           : lane == PTOI_GRID_LOG ? m->log_known
                                                   : q->word;
    q->era = PTOI_GRID_OF(q->half, 0);
    q->cancel[0] = PTOI_GRID_OF(q->half, 1);
    q->cancel[1] = PTOI_GRID_OF(q->half, 2);
    q->hurry = PTOI_GRID_OF(q->half, 3);
    return PTOI_GRID_VOTES(q->word != known);
#else
    uint32_t changed = (uint32_t)(q->word[PTOI_GRID_LOG] != m->log_known) << PTOI_GRID_LOG;
    for (uint32_t l = 0; l < g->view.levels; l++) {
        changed |= (uint32_t)(q->word[l] != m->level[l].known) << l;
    }
    return changed;
#endif
}

/* Keeps the answers: from now on they are known. */
PTOI_INLINE void ptoi_grid_learn(const ptoi_grid *g, ptoi_mover *m, const ptoi_question *q)
{
#ifdef __CUDA_ARCH__
    const uint32_t lane = PTOI_GRID_LANE;
    if (lane < g->view.levels) {
        m->level[lane].known = q->word;
    } else if (lane == PTOI_GRID_LOG) {
        m->log_known = q->word;
    }
#else
    for (uint32_t l = 0; l < g->view.levels; l++) {
        m->level[l].known = q->word[l];
    }
    m->log_known = q->word[PTOI_GRID_LOG];
#endif
}

/* Whether all lanes have read what `n` more tasks overwrite. All lanes of the mover. */
PTOI_INLINE bool ptoi_grid_has_read(const ptoi_grid *g, ptoi_mover *m, uint32_t n)
{
    uint64_t room = m->room;
    if (m->moved + n > room) {
        uint64_t least = m->moved;
        for (uint32_t lane = PTOI_GRID_LANE; lane < g->n_resolvers; lane += PTOI_GRID_LANES) {
            const uint64_t at = ptoi_acquire64(&g->resolved[lane]); /* pairs D2 */
            least = at < least ? at : least;
        }
        room = ptoi_grid_least(least) + g->inbox_mask + 1;
        PTOI_GRID_SYNC();
        if (PTOI_GRID_LANE == 0) {
            m->room = room;
        }
    }
    return m->moved + n <= room || PTOI_MUTANT(FRESH_EARLY);
}

/* What became of tasks that may be released. */
typedef enum ptoi_grid_release {
    PTOI_GRID_NONE,     /* there were none */
    PTOI_GRID_WAITS,    /* a resolver is slow */
    PTOI_GRID_ENTERED,  /* in `fresh`: D2 follows */
    PTOI_GRID_RESOLVED, /* the mover has resolved them */
} ptoi_grid_release;

/* How far a level may be released: see the top of this file. */
PTOI_INLINE uint64_t ptoi_grid_upto(const ptoi_mover *m, uint32_t level, uint32_t changed)
{
    return changed >> PTOI_GRID_LOG && !PTOI_MUTANT(RELEASE_EARLY) ? m->level[level].before
                                                                   : m->level[level].mirrored;
}

/* The slot of task number `seq` of a level. */
PTOI_INLINE uint32_t ptoi_grid_index(const ptoi_grid *g, uint32_t level, uint64_t seq)
{
    const ptoi_view_level *l = &g->view.level[level];
    return (uint32_t)(l->slots - g->view.slots) + ((uint32_t)seq & l->mask);
}

/* Releases the tasks of the levels of `work` that may be: it enters them into `fresh`, or, if they are few and no more
 * are known, each lane resolves one. Then no resolver has to hear of them first. If a resolver is slow they wait. */
PTOI_INLINE ptoi_grid_release ptoi_grid_enter(const ptoi_grid *g, ptoi_mover *m, uint32_t work,
                                              uint32_t changed)
{
    uint32_t all = 0, mine = PTOI_NONE;
    for (uint32_t bits = work; bits; bits &= bits - 1) {
        const uint32_t l = PTOI_GRID_LOWEST(bits);
        all += ptoi_head_distance(m->level[l].released, ptoi_grid_upto(m, l, changed),
                                  PTOI_HEAD_SLOTS);
    }
    const bool few = all <= g->few && all <= PTOI_GRID_LANES && !changed;
    if (all == 0 || (!few && !ptoi_grid_has_read(g, m, all))) {
        return all ? PTOI_GRID_WAITS : PTOI_GRID_NONE;
    }
    uint32_t n_before = 0;
    for (uint32_t bits = work; bits; bits &= bits - 1) {
        const uint32_t l = PTOI_GRID_LOWEST(bits);
        ptoi_mover_level *level = &m->level[l];
        const uint64_t upto = ptoi_grid_upto(m, l, changed);
        const uint32_t n = ptoi_head_distance(level->released, upto, PTOI_HEAD_SLOTS);
        const uint64_t seq = level->seq -
                             ptoi_head_distance(level->released, level->mirrored, PTOI_HEAD_SLOTS);
        if (!few) {
            for (uint32_t i = PTOI_GRID_LANE; i < n; i += PTOI_GRID_LANES) {
                g->fresh[(uint32_t)(m->moved + n_before + i) & g->inbox_mask] = ptoi_grid_index(
                    g, l, seq + i);
            }
        } else if (PTOI_GRID_LANE - n_before < n) {
            mine = ptoi_grid_index(g, l, seq + PTOI_GRID_LANE - n_before);
        }
        n_before += n;
        PTOI_GRID_SYNC();
        if (PTOI_GRID_LANE == 0) {
            level->released = upto;
        }
    }
    PTOI_GRID_SYNC();
    if (PTOI_GRID_LANE == 0) {
        m->moved += few ? 0 : all;
        m->resolved += few ? all : 0;
    }
    if (few) {
        ptoi_grid_slot slot = {0, 0, 0, 0, 0, 0};
        if (mine != PTOI_NONE) {
            slot = ptoi_grid_own_slot(&g->view.slots[mine]);
        }
        const ptoi_ref *refs = ptoi_grid_refs(&g->view, &slot);
        const bool ready = ptoi_grid_can_run(&g->view, mine, refs, slot.fanin, 0);
        ptoi_grid_push(g, mine, slot.header, ready); /* the fence of can_run: D2 */
    }
    return few ? PTOI_GRID_RESOLVED : PTOI_GRID_ENTERED;
}

/* The levels of `work` whose tasks are not all released. */
PTOI_INLINE uint32_t ptoi_grid_unreleased(const ptoi_mover *m, uint32_t work)
{
    uint32_t left = 0;
    for (uint32_t bits = work; bits; bits &= bits - 1) {
        const uint32_t l = PTOI_GRID_LOWEST(bits);
        left |= (uint32_t)(m->level[l].released != m->level[l].mirrored) << l;
    }
    return left;
}

/* ---- The end of the grid ----
 *
 * The mover decides that the grid ends. What was released is still carried out; what comes later waits
 * for the next launch.
 *
 *     closing   the mover releases nothing more. Resolvers end when they have resolved what was released,
 *               the clerk when it has completed what was posted. Then only workers push tasks.
 *     leave     all workers wait for a cell: ticket - tail = workers, on every ring. Then nothing is ready
 *               or running, and nobody is left who could change that. Workers end, and writers do when
 *               they have written what was completed.
 *
 * Tickets are read before tails: ticket - tail is at most the number of workers at any time, so if the
 * older ticket and the newer tail differ by that, they did so all the time between the two. All tickets are
 * read before the first tail, so there was a moment at which the workers of all rings waited: a worker of
 * one may push tasks into another. A worker takes its ticket, and the others leave, after what they have
 * pushed: who sees that sees the tail, too. */

PTOI_INLINE bool ptoi_grid_all_wait(const ptoi_grid *g)
{
    const uint32_t queues = PTOI_MUTANT(ONE_QUEUE) ? 1 : PTOI_GRID_QUEUES;
    uint32_t ticket[PTOI_GRID_QUEUES] = {0}, tail[PTOI_GRID_QUEUES] = {0};
    bool all = true;
    for (uint32_t q = 0; q < queues; q++) {
        if (PTOI_MUTANT(LEAVE_EARLY)) {
            tail[q] = ptoi_acquire32(&g->control->queue[q].tail);
            ptoi_grid_pause();
        }
        ticket[q] = ptoi_acquire32(&g->control->queue[q].ticket);
    }
    for (uint32_t q = 0; q < queues; q++) {
        if (!PTOI_MUTANT(LEAVE_EARLY)) {
            tail[q] = ptoi_acquire32(&g->control->queue[q].tail);
        }
        all = all && ticket[q] - tail[q] == g->workers_of[q];
    }
    return all;
}

/* The last steps of the mover. */
PTOI_INLINE void ptoi_grid_close(const ptoi_grid *g, ptoi_mover *m)
{
    ptoi_grid_control *c = g->control;
    const uint32_t left = ptoi_acquire32(&c->left), service = g->n_resolvers + 1; /* pairs D7 */
    if (m->phase == PTOI_GRID_CLOSES) {
        if (left == service && ptoi_grid_all_wait(g)) {
            ptoi_release32(&c->leave, 1); /* D7 */
            m->phase = PTOI_GRID_LEAVES;
        }
        return;
    }
    if (left != service + g->n_workers + g->n_writers) {
        return;
    }
    for (uint32_t q = 0; q < PTOI_GRID_QUEUES; q++) { /* tickets for which nobody waits any more */
        ptoi_set32(&c->queue[q].ticket, ptoi_get32(&c->queue[q].tail));
    }
    ptoi_set32(&c->closing, 0);
    ptoi_set32(&c->leave, 0);
    ptoi_set32(&c->left, 0);
    ptoi_set32(&c->roles, 0);
    m->phase = PTOI_GRID_RUNS; /* of the next launch */
    c->mover = *m;
    m->phase = PTOI_GRID_OVER;
    ptoi_far_set64(&g->shared->consumed, m->moved + m->resolved);
    ptoi_far_set32(&g->shared->posts_taken, c->posts_taken);
    ptoi_far_release32(&g->shared->ended, ptoi_far_get32(&g->shared->ended) + 1); /* D8 */
}

/* Whether the grid may end: there was nothing to do for as long as it waits, or at all if it is in a hurry.
 * It looks at the workers now and then only, since that takes as long as half a step. */
PTOI_INLINE bool ptoi_grid_is_idle(const ptoi_grid *g, ptoi_mover *m, bool busy, bool hurry)
{
    if (busy) {
        m->idle_since = 0; /* since the next look at the clock */
        return false;
    }
    const uint64_t now = ptoi_grid_clock();
    if (!m->idle_since) {
        m->idle_since = m->looked = now;
    }
    if (!hurry && now - m->looked < g->idle_ns / 16) {
        return false;
    }
    m->looked = now;
    if (!PTOI_MUTANT(LEAVE_EARLY) && !ptoi_grid_all_wait(g)) { /* to close early does no harm */
        m->idle_since = now;
        return false;
    }
    return hurry || now - m->idle_since >= g->idle_ns;
}

/* Copies what is known, and asks for more meanwhile. All lanes. Returns whether there was something. */
PTOI_INLINE bool ptoi_grid_copy(const ptoi_grid *g, ptoi_mover *m, ptoi_question *q)
{
    const uint32_t work = m->behind, levels = work % (UINT32_C(1) << PTOI_GRID_LOG);
    *q = ptoi_grid_ask(g, work != 0);
    if (work) {
        ptoi_grid_mirror(g, m, work);
    }
    const uint32_t changed = ptoi_grid_hear(g, m, q);
    const bool cancelled = q->cancel[0] == q->era || q->cancel[1] == q->era;
    if (PTOI_GRID_LANE == 0 && (cancelled || !PTOI_MUTANT(CANCEL_STAYS))) {
        ptoi_set32(&g->control->cancelled, cancelled); /* before tasks of a new era are released */
    }
    if (!work && !changed) {
        return false;
    }
    const ptoi_grid_release released = levels ? ptoi_grid_enter(g, m, levels, changed)
                                              : PTOI_GRID_NONE;
    /* All lanes: the mirror and `fresh`, before `moved`. */
    if (work && changed) {
        ptoi_far_fence(); /* and pairs D1 */
    } else if (released == PTOI_GRID_ENTERED) {
        ptoi_fence();
    }
    PTOI_GRID_SYNC();
    ptoi_grid_learn(g, m, q);
    if (PTOI_GRID_LANE == 0) {
        m->behind = changed | ptoi_grid_unreleased(m, levels);
        if (released == PTOI_GRID_ENTERED) {
            ptoi_follow64(&g->control->moved, m->moved); /* D2 */
        }
    }
    PTOI_GRID_SYNC();
    return released != PTOI_GRID_NONE || changed;
}

/* One step of the mover. All lanes. Returns whether it found something to do. */
PTOI_INLINE bool ptoi_grid_move(const ptoi_grid *g, ptoi_mover *m)
{
    const uint32_t phase = m->phase;
    bool found = false;
    PTOI_GRID_SYNC(); /* all have read it, before the first lane changes it */
    if (phase == PTOI_GRID_RUNS) {
        ptoi_question q;
        found = ptoi_grid_copy(g, m, &q);
        if (PTOI_GRID_LANE == 0) {
            if (ptoi_grid_is_idle(g, m, found, q.hurry)) {
                ptoi_release32(&g->control->closing, 1); /* D7 */
                m->phase = PTOI_GRID_CLOSES;
            }
        }
    } else if (PTOI_GRID_LANE == 0) {
        ptoi_grid_close(g, m);
    }
    PTOI_GRID_SYNC();
    return found;
}

#endif /* PTOI_GRID_MOVE_H */
