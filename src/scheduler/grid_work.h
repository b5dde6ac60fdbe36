/* grid_work.h - workers of a grid (scheduler/grid.h): each takes a ready task, runs its kernel, and completes it. A
 * task that waited for it and can run is the worker's next one. This header compiles as C11 and as CUDA C++.
 *
 *     ready ring ──take──> kernel ──complete──> done ring: writers show it to the host (grid_write.h)
 *                  ^                   │
 *                  └── next, if one <──┴──> tasks that waited: ready ring, or list of a producer
 */
#ifndef PTOI_GRID_WORK_H
#define PTOI_GRID_WORK_H

#include "scheduler/grid_resolve.h"

/* A worker, or the clerk. All of it belongs to one thread. */
typedef struct ptoi_grid_worker {
    uint32_t id;         /* of its ring of completions */
    uint32_t queue;      /* of its tasks; PTOI_NONE: it runs none */
    uint32_t next;       /* a ready task that it runs next; PTOI_NONE */
    ptoi_grid_slot slot; /* of that task */
    bool kept;           /* its last task was such a one */
    uint32_t ticket;     /* that it waits with */
    bool waits;          /* it has a ticket */
    uint32_t done;       /* tasks that it has completed */
    uint32_t taken;      /* of these, the writer had taken so many */
} ptoi_grid_worker;

PTOI_INLINE ptoi_grid_worker ptoi_grid_worker_begin(const ptoi_grid *g, uint32_t id, uint32_t queue)
{
    const uint32_t done = ptoi_acquire32(
        &g->done[id].taken); /* all were, when the last launch ended */
    ptoi_grid_worker w = {id, queue, PTOI_NONE, {0, 0, 0, 0, 0, 0}, false, 0, false, done, done};
    return w;
}

/* The next task of a worker: *index, if it is SOMETHING. */
PTOI_INLINE ptoi_grid_found ptoi_grid_take(const ptoi_grid *g, ptoi_grid_worker *w, uint32_t *index)
{
    w->kept = w->next != PTOI_NONE;
    if (w->kept) {
        *index = w->next;
        w->next = PTOI_NONE;
        return PTOI_GRID_SOMETHING;
    }
    ptoi_grid_queue *q = &g->control->queue[w->queue];
    if (!w->waits) {
        w->ticket = ptoi_fetch_add32(&q->ticket, 1);
        w->waits = true;
    }
    ptoi_a64 *cell = &g->cells[w->queue][w->ticket & g->inbox_mask];
    const bool leave = ptoi_get32(&g->control->leave); /* pairs D7: from then on no task comes */
    const uint64_t word = ptoi_acquire64(cell);        /* pairs D3 */
    if ((uint32_t)(word >> 32) != w->ticket + 1) {
        if (leave) {
            ptoi_grid_leave(g, 1);
            return PTOI_GRID_END;
        }
        return PTOI_GRID_NOTHING;
    }
    ptoi_set64(cell, ptoi_cell_word(w->ticket + g->inbox_mask + 1, 0)); /* D3 */
    w->waits = false;
    *index = (uint32_t)word;
    return PTOI_GRID_SOMETHING;
}

/* The slot of a task that was just taken. */
PTOI_INLINE ptoi_grid_slot ptoi_grid_taken_slot(const ptoi_grid *g, const ptoi_grid_worker *w,
                                                uint32_t index)
{
    return w->kept ? w->slot : ptoi_grid_own_slot(&g->view.slots[index]);
}

/* Whether the kernel of a task is called. If not, the task is skipped. */
PTOI_INLINE bool ptoi_grid_may_run(const ptoi_grid *g, uint32_t index, const ptoi_grid_slot *slot)
{
    return !ptoi_grid_is_poisoned(g, index, slot->header) && !ptoi_get32(&g->control->cancelled);
}

/* Tells the writer which task runs, before its kernel is called; the writer tells the host (W6). The fence that
 * completes a task would wait for a store over the bus. */
PTOI_INLINE void ptoi_grid_tell(const ptoi_grid *g, uint32_t id, uint64_t task)
{
    ptoi_set64(&g->done[id].running, task);
}

/* Whether the writer has room for another completion. */
PTOI_INLINE bool ptoi_grid_has_room(const ptoi_grid *g, ptoi_grid_worker *w)
{
    if (w->done - w->taken == PTOI_GRID_DONE) {
        w->taken = ptoi_acquire32(&g->done[w->id].taken); /* pairs D4 */
    }
    return w->done - w->taken != PTOI_GRID_DONE;
}

PTOI_INLINE uint64_t ptoi_grid_done_word(uint32_t number, uint32_t lap, uint32_t index,
                                         ptoi_outcome outcome)
{
    _Static_assert(PTOI_MAX_LEVELS * PTOI_HEAD_SLOTS_MAX <= UINT32_C(1) << 22,
                   "a slot has 22 bits");
    return (uint64_t)lap << 32 | (uint64_t)(number & 255) << 24 | (uint64_t)outcome << 22 | index;
}

/* Closes the list of a task and passes the task on to the writer. Returns the list. */
PTOI_INLINE uint32_t ptoi_grid_close_list(const ptoi_grid *g, ptoi_grid_worker *w, uint32_t index,
                                          uint32_t lap, ptoi_outcome outcome)
{
    ptoi_a64 *cell = &g->done[w->id].cell[w->done % PTOI_GRID_DONE];
    const uint64_t word = ptoi_grid_done_word(w->done + 1, lap, index, outcome);
    if (PTOI_UNLIKELY(outcome == PTOI_SKIPPED)) {
        g->view.states[index].poisoned = 0;
    }
    if (PTOI_MUTANT(WRITE_EARLY)) {
        ptoi_release64(cell, word);
        ptoi_grid_pause_long();
    }
    const uint32_t list = ptoi_step_close_list(&g->view, index, lap, outcome);
    while (!ptoi_grid_has_room(g, w)) {
        ptoi_grid_pause();
    }
    ptoi_follow64(cell, word); /* D4 */
    w->done++;
    return list;
}

/* Whether a task that waits is the only one in its list, waits for nothing else, and can be the next one of a
 * worker of this ring: a link of a chain. It cannot complete meanwhile, so its slot does not change. */
PTOI_INLINE bool ptoi_grid_is_link(const ptoi_grid *g, uint32_t queue, uint32_t waiter,
                                   ptoi_grid_slot *slot)
{
    const ptoi_wait wait = g->view.waits[waiter];
    *slot = ptoi_grid_own_slot(&g->view.slots[waiter]);
    return wait.next == PTOI_LIST_EMPTY && wait.cursor + 1 == slot->fanin && queue != PTOI_NONE &&
           ptoi_grid_queue_of(g, slot->header) == queue;
}

/* The first task in the list of one that is not complete yet; PTOI_NONE: there is none so far. */
PTOI_INLINE uint32_t ptoi_grid_first_waiter(const ptoi_grid *g, uint32_t index, uint32_t lap)
{
    const uint64_t word = ptoi_acquire64(&g->view.states[index].waiters); /* pairs W3 */
    const uint32_t first = ptoi_list_first(word, lap);
    return first < g->view.n_slots ? first : PTOI_NONE;
}

/* The next link after a task that is not complete yet; PTOI_NONE: there is none so far. It can be made ready to
 * run while the task completes. It is the next task if the closed list begins with it: tasks join at the
 * beginning, so the list did not change. */
PTOI_INLINE uint32_t ptoi_grid_peek(const ptoi_grid *g, uint32_t queue, uint32_t index,
                                    uint32_t lap, ptoi_grid_slot *slot)
{
    const uint32_t first = PTOI_GRID_FIRST(ptoi_grid_first_waiter(g, index, lap));
    return first != PTOI_NONE && ptoi_grid_is_link(g, queue, first, slot) ? first : PTOI_NONE;
}

/* Resolves the only task of a closed list. If it can run it is the worker's next one, or goes into a ring. All lanes. */
PTOI_INLINE void ptoi_grid_pass_on_one(const ptoi_grid *g, ptoi_grid_worker *w, uint32_t waiter,
                                       uint32_t cursor, const ptoi_grid_slot *slot,
                                       ptoi_outcome outcome)
{
    const bool keeps = w->queue != PTOI_NONE && ptoi_grid_queue_of(g, slot->header) == w->queue;
    const bool pass = !(cursor & PTOI_GRID_BEYOND) && outcome == PTOI_DONE; /* as below */
    const uint32_t at = (cursor & ~PTOI_GRID_BEYOND) + pass;
    if ((!keeps || at != slot->fanin) &&
        !ptoi_grid_can_run_by_all(&g->view, waiter, ptoi_grid_refs(&g->view, slot), slot->fanin,
                                  at)) {
        return;
    }
    if (!keeps) {
        ptoi_grid_push(g, waiter, slot->header, PTOI_GRID_LANE == 0);
    } else if (PTOI_GRID_LANE == 0) {
        w->slot = *slot;
        w->next = waiter;
    }
}

/* A window of slots, one for each lane, which ends with the first task of a list. Tasks of a stage were submitted together,
 * so their slots are next to each other, and the newest of them is the first of the list. */
typedef struct ptoi_grid_window {
    uint32_t list, base; /* its first task; lane n looks at slot base + n */
    ptoi_wait wait;      /* of the task of this lane */
    ptoi_grid_slot slot; /* the same */
} ptoi_grid_window;

/* Reads the window of a list that is not empty. All lanes. Tasks that are not in the list may change while they are read;
 * nobody looks at these. */
PTOI_INLINE ptoi_grid_window ptoi_grid_read_window(const ptoi_view *view, uint32_t list)
{
    const uint32_t base = list < PTOI_GRID_LANES ? 0 : list - (PTOI_GRID_LANES - 1);
    const uint32_t at = base + PTOI_GRID_LANE, mine = at < view->n_slots ? at : list;
    const ptoi_grid_window window = {list, base, view->waits[mine],
                                     ptoi_grid_own_slot(&view->slots[mine])};
    return window;
}

/* Whether the list has one task. All lanes. */
PTOI_INLINE bool ptoi_grid_is_single(const ptoi_grid_window *w)
{
    return PTOI_GRID_OF(w->wait.next, w->list - w->base) == PTOI_LIST_EMPTY;
}

/* The lanes whose tasks the list leads to before it leaves the window, a bit for each. *rest: the list from there on. All
 * lanes. They do not walk along the list, which would take a shuffle for each task. A lane has the tasks that the next n
 * links lead to; when it has asked the lane where these end for the same, it has those of 2n links. */
PTOI_INLINE uint32_t ptoi_grid_members_of(const ptoi_grid_window *w, uint32_t *rest)
{
    const uint32_t next = w->wait.next - w->base;
    uint32_t to = next < PTOI_GRID_LANES ? next : PTOI_GRID_LANE;
    uint32_t reach = 1u << PTOI_GRID_LANE, end = w->wait.next;
    PTOI_GRID_UNROLL
    for (uint32_t n = 1; n < PTOI_GRID_LANES; n *= 2) {
        reach |= PTOI_GRID_OF(reach, to);
        end = PTOI_GRID_OF(end, to);
        to = PTOI_GRID_OF(to, to);
    }
    *rest = PTOI_GRID_OF(end, w->list - w->base);
    return PTOI_GRID_OF(reach, w->list - w->base);
}

/* The slot that a lane has. All lanes. */
PTOI_INLINE ptoi_grid_slot ptoi_grid_slot_of_lane(const ptoi_grid_slot *slot, uint32_t lane)
{
    const ptoi_grid_slot its = {PTOI_GRID_OF(slot->seq, lane),  PTOI_GRID_OF(slot->header, lane),
                                PTOI_GRID_OF(slot->deps, lane), PTOI_GRID_OF(slot->fanin, lane),
                                PTOI_GRID_OF(slot->args, lane), PTOI_GRID_OF(slot->n_args, lane)};
    return its;
}

/* What a lane has of a closed list. */
typedef struct ptoi_grid_member {
    uint32_t index, cursor; /* PTOI_NONE: this lane has none */
    ptoi_grid_slot slot;
} ptoi_grid_member;

/* The task of this lane in the window, if it is in the list. */
PTOI_INLINE ptoi_grid_member ptoi_grid_member_of(const ptoi_grid_window *w, uint32_t members)
{
    const bool mine = members >> PTOI_GRID_LANE & 1;
    const ptoi_grid_member m = {mine ? w->base + PTOI_GRID_LANE : PTOI_NONE, w->wait.cursor,
                                w->slot};
    return m;
}

/* Takes at most as many tasks from a closed list as there are lanes, and gives each lane one of them. All lanes.
 * window: that of the list. */
PTOI_INLINE ptoi_grid_member ptoi_grid_take_members(const ptoi_view *view, ptoi_grid_window window,
                                                    uint32_t *list)
{
    uint32_t members = ptoi_grid_members_of(&window, list), n = PTOI_GRID_COUNT(members);
    ptoi_grid_member m = ptoi_grid_member_of(&window, members);
    if (*list >= view->n_slots || n == PTOI_GRID_LANES) {
        return m; /* each lane has read its own */
    }
    m.index = PTOI_GRID_LANE < n ? window.base + ptoi_grid_nth(members, PTOI_GRID_LANE) : PTOI_NONE;
    PTOI_GRID_ROLLED
    while (*list < view->n_slots && n < PTOI_GRID_LANES) {
        uint32_t rest;
        window = ptoi_grid_read_window(view, *list);
        members = ptoi_grid_members_of(&window, &rest);
        const uint32_t more = PTOI_GRID_COUNT(members);
        if (n + more > PTOI_GRID_LANES) {
            break;
        }
        if (PTOI_GRID_LANE - n < more) {
            m.index = window.base + ptoi_grid_nth(members, PTOI_GRID_LANE - n);
        }
        n += more;
        *list = rest;
    }
    if (m.index != PTOI_NONE) { /* for all at once: in the loop one would wait for the other */
        m.cursor = view->waits[m.index].cursor;
        m.slot = ptoi_grid_own_slot(&view->slots[m.index]);
    }
    return m;
}

/* Resolves the tasks of a closed list. One that can run is the worker's next one, if it can run it. All lanes: the
 * first one has the list, and then each resolves one task of it. */
PTOI_INLINE void ptoi_grid_pass_on(const ptoi_grid *g, ptoi_grid_worker *w, uint32_t closed,
                                   ptoi_outcome outcome)
{
    const ptoi_view *view = &g->view;
    uint32_t next = PTOI_NONE;
    if (PTOI_GRID_LANES == 1) { /* several lanes look at many at once */
        closed = ptoi_step_oldest_first(view, closed);
    }
    uint32_t list = PTOI_GRID_FIRST(closed);
    PTOI_GRID_SYNC(); /* what the first lane has acquired */
    if (list >= view->n_slots) {
        return;
    }
    ptoi_grid_window window = ptoi_grid_read_window(view, list);
    if (ptoi_grid_is_single(&window)) {
        const uint32_t cursor = PTOI_GRID_OF(window.wait.cursor, list - window.base);
        const ptoi_grid_slot its = ptoi_grid_slot_of_lane(&window.slot, list - window.base);
        ptoi_grid_pass_on_one(g, w, list, cursor, &its, outcome);
        return;
    }
    for (;;) {
        ptoi_grid_member m = ptoi_grid_take_members(view, window, &list);
        /* If it waited for the producer at its cursor, that is this task. It is looked at again only if it may
         * poison. */
        const bool pass = !(m.cursor & PTOI_GRID_BEYOND) && outcome == PTOI_DONE;
        const uint32_t cursor = (m.cursor & ~PTOI_GRID_BEYOND) + pass;
        const ptoi_ref *refs = ptoi_grid_refs(view, &m.slot);
        bool ready = ptoi_grid_all_complete(view, m.index, refs, m.slot.fanin, cursor);
        if (PTOI_GRID_VOTES(m.index != PTOI_NONE && !ready)) {
            const bool can = ptoi_grid_can_run_now(view, ready ? PTOI_NONE : m.index, refs,
                                                   m.slot.fanin, cursor);
            ready = ready || can;
        } else {
            ptoi_fence(); /* before tasks are passed on: D3 */
            PTOI_GRID_SYNC();
        }
        if (next == PTOI_NONE && w->queue != PTOI_NONE) {
            const uint32_t votes = PTOI_GRID_VOTES(ready && ptoi_grid_queue_of(g, m.slot.header) ==
                                                                w->queue);
            const uint32_t one = votes ? PTOI_GRID_LOWEST(votes) : PTOI_GRID_LANES;
            next = votes ? PTOI_GRID_OF(m.index, one) : next;
            if (PTOI_GRID_LANE == one) {
                w->slot = m.slot;
                ready = false;
            }
        }
        ptoi_grid_push(g, m.index, m.slot.header, ready);
        if (list >= view->n_slots) {
            break;
        }
        window = ptoi_grid_read_window(view, list);
    }
    if (PTOI_GRID_LANE == 0) {
        w->next = next;
    }
}

/* Completes a task, and passes on those that waited for it. All lanes. (A block of a device has two warps for
 * that: ptoi_block_complete.) */
PTOI_INLINE void ptoi_grid_complete(const ptoi_grid *g, ptoi_grid_worker *w, uint32_t index,
                                    uint32_t lap, ptoi_outcome outcome)
{
    ptoi_grid_slot slot = {0, 0, 0, 0, 0, 0};
    uint32_t ahead = PTOI_NONE, closed = PTOI_LIST_EMPTY; /* the list of the first lane */
    if (w->queue != PTOI_NONE && outcome == PTOI_DONE) {
        ahead = ptoi_grid_peek(g, w->queue, index, lap, &slot);
    }
    if (PTOI_GRID_LANE == 0) {
        closed = ptoi_grid_close_list(g, w, index, lap, outcome);
    }
    if (PTOI_GRID_FIRST(closed) == ahead || (PTOI_MUTANT(PEEK_TRUSTED) && ahead != PTOI_NONE)) {
        w->slot = slot;
        w->next = ahead;
    } else {
        ptoi_grid_pass_on(g, w, closed, outcome);
    }
}

#endif /* PTOI_GRID_WORK_H */
