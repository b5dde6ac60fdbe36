/* grid_resolve.h - resolvers of a grid (scheduler/grid.h): whether a task can run, and where it goes if so. Each
 * lane takes new tasks in turn; workers use the same functions for tasks that waited (grid_work.h). This header
 * compiles as C11 and as CUDA C++.
 *
 *     moved ──> fresh[n] ──can run──> ready ring, or host_ready
 *                        └─────────> list of a producer
 */
#ifndef PTOI_GRID_RESOLVE_H
#define PTOI_GRID_RESOLVE_H

#include "scheduler/grid.h"

/* ---- Ready tasks ---- */

/* Functions that a device calls out of line take what they need of a slot, and no address of one: a struct whose
 * address is passed on is in local memory, and each fence empties the cache that local memory is read through. */

/* The ring of a task, by the header of its slot; PTOI_NONE: the host runs it. */
PTOI_INLINE uint32_t ptoi_grid_queue_of(const ptoi_grid *g, uint64_t header)
{
    const uint32_t lane = ptoi_slot_header_read(header).lane;
    return ptoi_lane_device(lane) == g->device && ptoi_lane_type(lane) != PTOI_LANE_ENGINE
               ? g->queue_of[ptoi_lane_type(lane)]
               : PTOI_NONE;
}

/* Whether a task is to be skipped, as submit knew or its producers say. The mark in the mirror belongs to
 * the task that has the slot, which takes it away when it completes. */
PTOI_INLINE bool ptoi_grid_is_poisoned(const ptoi_grid *g, uint32_t index, uint64_t header)
{
    return g->view.states[index].poisoned || ptoi_slot_header_read(header).poisoned;
}

/* Passes on a task that the host runs. */
PTOI_OUTLINE void ptoi_grid_push_to_host(const ptoi_grid *g, uint32_t index, uint64_t header)
{
    const uint32_t at = ptoi_draw32(&g->control->host_tail, 1);
    const bool bad = ptoi_grid_is_poisoned(g, index, header) && !PTOI_MUTANT(HOST_POISON_LOST);
    const uint32_t poisoned = bad ? PTOI_HOST_POISONED : 0;
    ptoi_far_release64(&g->host_ready[at & g->inbox_mask],
                       ptoi_cell_word(at + 1, index | poisoned)); /* D5 */
}

/* Draws cells of ready rings for the tasks of all lanes, one number for all that go into a ring. All lanes; queue:
 * PTOI_NONE, this one has no task. A cell that is drawn must be filled soon. D7: see ptoi_grid_all_wait. */
PTOI_INLINE uint32_t ptoi_grid_draw_cells(const ptoi_grid *g, uint32_t queue)
{
    uint32_t cell = 0;
    PTOI_GRID_UNROLL
    for (uint32_t q = 0; q < PTOI_GRID_QUEUES; q++) {
        const uint32_t votes = PTOI_GRID_VOTES(queue == q);
        if (votes) {
            uint32_t first = 0;
            if (PTOI_GRID_LANE == PTOI_GRID_LOWEST(votes)) {
                first = ptoi_draw32(&g->control->queue[q].tail, PTOI_GRID_COUNT(votes));
            }
            first = PTOI_GRID_OF(first, PTOI_GRID_LOWEST(votes));
            cell = queue == q ? first + ptoi_grid_before(votes) : cell;
        }
    }
    return cell;
}

/* Waits until a cell that was drawn is free. */
PTOI_INLINE void ptoi_grid_await_cell(const ptoi_grid *g, uint32_t queue, uint32_t at)
{
    const ptoi_a64 *cell = &g->cells[queue][at & g->inbox_mask];
    while ((uint32_t)(ptoi_get64(cell) >> 32) !=
           at) { /* pairs D3: its last task was not read yet */
        ptoi_grid_pause();
    }
}

/* Passes on the tasks of lanes that have a ready one, after a fence. All lanes. */
PTOI_INLINE void ptoi_grid_push(const ptoi_grid *g, uint32_t index, uint64_t header, bool ready)
{
    const uint32_t its = ptoi_grid_queue_of(g, header), queue = ready ? its : PTOI_NONE;
    const uint32_t at = ptoi_grid_draw_cells(g, queue);
    if (queue != PTOI_NONE) {
        ptoi_grid_await_cell(g, queue, at);
        ptoi_follow64(&g->cells[queue][at & g->inbox_mask],
                      ptoi_cell_word(at + 1, index)); /* D3: after that fence */
    } else if (ready) {
        ptoi_grid_push_to_host(g, index, header);
    }
    PTOI_GRID_SYNC();
}

/* ---- Resolving ---- */

#define PTOI_GRID_BEYOND (UINT32_C(1) << 31) /* in wait.cursor: it waits for a later producer */

/* The producers of a task. */
PTOI_INLINE const ptoi_ref *ptoi_grid_refs(const ptoi_view *view, const ptoi_grid_slot *slot)
{
    return view->level[ptoi_slot_header_read(slot->header).level].deps + slot->deps;
}

/* Whether a producer is complete, by a word of state.waiters in the mirror. */
PTOI_INLINE bool ptoi_grid_is_complete(uint64_t word, uint32_t lap)
{
    return ptoi_list_closed(word, lap) ||
           ((int32_t)((uint32_t)(word >> 32) - lap) > 0 && !PTOI_MUTANT(NO_LATER_LAP));
}

/* Joins the list of a producer. False: that is complete meanwhile. */
PTOI_INLINE bool ptoi_grid_join(const ptoi_view *view, uint32_t index, uint32_t cursor,
                                ptoi_ref ref, uint64_t word)
{
    ptoi_a64 *waiters = &ptoi_state_of(view, ptoi_ref_level(ref), ptoi_ref_seq(ref))->waiters;
    const uint32_t lap = ptoi_lap_of_ref(view, ref);
    view->waits[index].cursor = cursor;
    do {
        view->waits[index].next = ptoi_list_first(word, lap);
        if (ptoi_cas64(waiters, &word, ptoi_list_word(lap, index))) { /* W3 */
            return true;
        }
    } while (!ptoi_grid_is_complete(word, lap));
    return false;
}

/* Tasks of several lanes join lists. All lanes; index: PTOI_NONE, this one has no task. Returns whether it has joined.
 * Those that wait for one producer link each other first, and one of them puts all into the list: tasks of a stage
 * wait for the same one, and would take turns otherwise. */
PTOI_INLINE bool ptoi_grid_join_all(const ptoi_view *view, uint32_t index, uint32_t cursor,
                                    ptoi_ref ref, uint64_t word)
{
#ifdef __CUDA_ARCH__
    const uint32_t all = PTOI_GRID_VOTES(index != PTOI_NONE);
    if (index == PTOI_NONE) {
        return false;
    }
    ptoi_a64 *waiters = &ptoi_state_of(view, ptoi_ref_level(ref), ptoi_ref_seq(ref))->waiters;
    const uint32_t lap = ptoi_lap_of_ref(view, ref), lane = PTOI_GRID_LANE;
    const uint32_t peers = __match_any_sync(all, ref), first = PTOI_GRID_LOWEST(peers);
    const uint32_t before = peers & ((1u << lane) - 1u), leader = PTOI_GRID_LAST(peers);
    const uint32_t next = __shfl_sync(peers, index, before ? PTOI_GRID_LAST(before) : first);
    const uint32_t last = __shfl_sync(peers, index, first);
    view->waits[index].cursor = cursor;
    if (before) {
        view->waits[index].next = next;
    }
    ptoi_fence(); /* after ptoi_glance64 of each lane; the fence of ptoi_cas64 is the leader's alone */
    __syncwarp(peers); /* their links, before the leader's exchange */
    bool joined = false;
    if (lane == leader) {
        do {
            view->waits[last].next = ptoi_list_first(word, lap);
            joined = ptoi_cas64(waiters, &word, ptoi_list_word(lap, index)); /* W3 */
        } while (!joined && !ptoi_grid_is_complete(word, lap));
    }
    return __shfl_sync(peers, joined, leader);
#else
    return index != PTOI_NONE && ptoi_grid_join(view, index, cursor, ref, word);
#endif
}

/* Whether a task can run. If not, it has joined the list of a producer, and who completes that owns it.
 * Producers before `cursor` are complete. It is ptoi_step_resolve with two differences. A load takes long,
 * so several are under way at a time. And it waits for the newest of several producers that are not
 * complete: that one is likely to be the last, so the task is resolved once more and not for each.
 * All lanes, each with a task of its own; index: PTOI_NONE, this one has none. */
PTOI_OUTLINE bool ptoi_grid_can_run(const ptoi_view *view, uint32_t index, const ptoi_ref *refs,
                                    uint32_t n_refs, uint32_t cursor)
{
    enum { AHEAD = 4 };
    const bool there = index != PTOI_NONE;
    const uint32_t fanin = there ? n_refs : cursor;
    bool looks = cursor != fanin;
    while (PTOI_GRID_VOTES(looks)) {
        const uint32_t n = !looks ? 0 : fanin - cursor < AHEAD ? fanin - cursor : AHEAD;
        ptoi_ref ref[AHEAD], newest = 0;
        uint64_t word[AHEAD], its = 0;
        uint32_t first = n, last = n; /* of those that are not complete: the first, the newest */
        bool bad = false;
        PTOI_GRID_UNROLL
        for (uint32_t k = 0; k < AHEAD; k++) {
            ref[k] = k < n ? refs[cursor + k] : 0;
        }
        PTOI_GRID_UNROLL
        for (uint32_t k = 0; k < AHEAD; k++) {
            word[k] = k < n ? ptoi_glance64(
                                  &ptoi_state_of(view, ptoi_ref_level(ref[k]), ptoi_ref_seq(ref[k]))
                                       ->waiters)
                            : 0; /* pairs W2 */
        }
        PTOI_GRID_UNROLL
        for (uint32_t k = 0; k < AHEAD; k++) {
            const uint32_t lap = ptoi_lap_of_ref(view, ref[k]);
            const bool open = k < n && !ptoi_grid_is_complete(word[k], lap);
            bad = bad || (k < n && ptoi_ref_poisons(ref[k]) && ptoi_list_bad(word[k], lap));
            first = open && first == n ? k : first;
            if (open && ref[k] >= newest) {
                newest = ref[k];
                its = word[k];
                last = k;
            }
        }
        if (bad) {
            view->states[index].poisoned = 1;
        }
        cursor += first;
        const bool joined = ptoi_grid_join_all(view, looks && first != n ? index : PTOI_NONE,
                                               cursor | (last == first ? 0 : PTOI_GRID_BEYOND),
                                               newest, its);
        looks = looks && !joined && cursor != fanin;
        if (joined) {
            cursor = PTOI_NONE;
        }
    }
    ptoi_fence(); /* after ptoi_glance64, and before the task is passed on: D3 */
    return there && cursor == fanin;
}

/* Whether none of the producers that are left is open or poisons the task. All lanes, at least one with producers; n: 0,
 * this one has none. Lanes share the work: with up to 2^k tasks, each task has 32 / 2^k lanes, and each of these looks at
 * EACH producers at a time. So producers of a stage are looked at in two loads that wait for each other, and in C by one lane.
 * ptoi_fence must follow: D3. */
PTOI_OUTLINE bool ptoi_grid_none_open(const ptoi_view *view, const ptoi_ref *refs, uint32_t n)
{
    enum { EACH = 8 };
    const uint32_t some = PTOI_GRID_VOTES(n != 0), tasks = PTOI_GRID_COUNT(some);
    const uint32_t shift = tasks > 1 ? PTOI_GRID_LAST(tasks - 1) + 1 : 0;
    const uint32_t lanes = PTOI_GRID_LANES >> shift; /* of each task */
    const uint32_t which = (PTOI_GRID_LANE << shift) / PTOI_GRID_LANES;
    const uint32_t owner = which < tasks ? ptoi_grid_nth(some, which) : PTOI_GRID_LANE;
    const ptoi_ref *its = (const ptoi_ref *)(uintptr_t)PTOI_GRID_OF((uintptr_t)refs, owner);
    const uint32_t its_n = PTOI_GRID_OF(n, owner), end = which < tasks ? its_n : 0;
    bool open = false;
    PTOI_GRID_ROLLED
    for (uint32_t at = PTOI_GRID_LANE & (lanes - 1); PTOI_GRID_VOTES(at < end && !open);
         at += EACH * lanes) {
        ptoi_ref ref[EACH];
        uint64_t word[EACH];
        PTOI_GRID_UNROLL
        for (uint32_t k = 0; k < EACH; k++) {
            ref[k] = at + k * lanes < end ? its[at + k * lanes] : 0;
        }
        PTOI_GRID_UNROLL
        for (uint32_t k = 0; k < EACH; k++) {
            word[k] = at + k * lanes < end
                          ? ptoi_glance64(
                                &ptoi_state_of(view, ptoi_ref_level(ref[k]), ptoi_ref_seq(ref[k]))
                                     ->waiters)
                          : 0; /* pairs W2 */
        }
        PTOI_GRID_UNROLL
        for (uint32_t k = 0; k < EACH; k++) {
            const uint32_t lap = ptoi_lap_of_ref(view, ref[k]);
            const bool bad = ptoi_ref_poisons(ref[k]) && ptoi_list_bad(word[k], lap);
            open = open || (at + k * lanes < end && (bad || !ptoi_grid_is_complete(word[k], lap)));
        }
    }
    const uint32_t votes = PTOI_GRID_VOTES(open), mine = (2u << (lanes - 1)) - 1u;
    return n == 0 || !(votes >> ptoi_grid_before(some) * lanes & mine);
}

/* Whether all producers of a task are complete, from `cursor` on, and none of them poisons it. All lanes, each with a task
 * of its own; index: PTOI_NONE, this one has none. Often there is none left to look at. ptoi_fence must follow. */
PTOI_INLINE bool ptoi_grid_all_complete(const ptoi_view *view, uint32_t index, const ptoi_ref *refs,
                                        uint32_t fanin, uint32_t cursor)
{
    const uint32_t n = index != PTOI_NONE ? fanin - cursor : 0;
    if (PTOI_GRID_VOTES(n != 0) && !ptoi_grid_none_open(view, refs + cursor, n)) {
        return false;
    }
    return index != PTOI_NONE;
}

/* The same for one task, by all lanes of a warp: each looks at one producer. So a task with many producers is resolved
 * in two loads that wait for each other, and not in two for every four producers. */
PTOI_OUTLINE bool ptoi_grid_can_run_by_all(const ptoi_view *view, uint32_t index,
                                           const ptoi_ref *refs, uint32_t fanin, uint32_t cursor)
{
    while (cursor != fanin) {
        const uint32_t n = fanin - cursor < PTOI_GRID_LANES ? fanin - cursor : PTOI_GRID_LANES;
        const bool mine = PTOI_GRID_LANE < n;
        const ptoi_ref ref = mine ? refs[cursor + PTOI_GRID_LANE] : 0;
        const uint32_t lap = ptoi_lap_of_ref(view, ref);
        const uint64_t word =
            mine ? ptoi_glance64(
                       &ptoi_state_of(view, ptoi_ref_level(ref), ptoi_ref_seq(ref))->waiters)
                 : 0; /* pairs W2 */
        const bool open = mine && !ptoi_grid_is_complete(word, lap);
        if (mine && ptoi_ref_poisons(ref) && ptoi_list_bad(word, lap)) {
            view->states[index].poisoned = 1;
        }
        PTOI_GRID_SYNC(); /* before one of them joins a list */
        const uint32_t votes = PTOI_GRID_VOTES(open);
        if (!votes) {
            cursor += n;
            continue;
        }
        const uint32_t first = PTOI_GRID_LOWEST(votes);
        const uint64_t newest = ptoi_grid_most(open ? ref : 0);
        const uint32_t last = PTOI_GRID_LAST(PTOI_GRID_VOTES(open && ref == newest));
        cursor += first;
        const bool joined = PTOI_GRID_LANE == last &&
                            ptoi_grid_join(view, index,
                                           cursor | (last == first ? 0 : PTOI_GRID_BEYOND), ref,
                                           word);
        if (PTOI_GRID_VOTES(joined)) {
            return false;
        }
    }
    ptoi_fence(); /* after ptoi_glance64, and before the task is passed on: D3 */
    PTOI_GRID_SYNC();
    return true;
}

/* ptoi_grid_can_run for tasks that waited. A sum over the parts of a stage has a producer for each part: such tasks are
 * few, and all lanes look at one after the other. */
PTOI_INLINE bool ptoi_grid_can_run_now(const ptoi_view *view, uint32_t index, const ptoi_ref *refs,
                                       uint32_t fanin, uint32_t cursor)
{
    const uint32_t tasks = PTOI_GRID_VOTES(index != PTOI_NONE);
    const uint64_t most = ptoi_grid_most(index != PTOI_NONE ? fanin - cursor : 0);
    if (PTOI_GRID_COUNT(tasks) * 8 > most) {
        return ptoi_grid_can_run(view, index, refs, fanin, cursor);
    }
    bool can = false;
    PTOI_GRID_ROLLED
    for (uint32_t bits = tasks; bits; bits &= bits - 1) {
        const uint32_t lane = PTOI_GRID_LOWEST(bits);
        const ptoi_ref *its = (const ptoi_ref *)(uintptr_t)PTOI_GRID_OF((uintptr_t)refs, lane);
        const bool its_can = ptoi_grid_can_run_by_all(view, PTOI_GRID_OF(index, lane), its,
                                                      PTOI_GRID_OF(fanin, lane),
                                                      PTOI_GRID_OF(cursor, lane));
        can = PTOI_GRID_LANE == lane ? its_can : can;
    }
    ptoi_fence(); /* D3: also for tasks of other lanes, of which the caller knows that they can run */
    PTOI_GRID_SYNC();
    return can;
}

/* ---- Resolvers ---- */

#define PTOI_GRID_ENDED UINT64_MAX /* instead of the next task of a lane */

/* Begins a launch for a lane. Returns its first task: lane r takes tasks r, r + n, r + 2n ... The mover may
 * be at work already: what it has stored when the last launch ended does not change meanwhile. */
PTOI_INLINE uint64_t ptoi_grid_first(const ptoi_grid *g, uint32_t lane)
{
    const uint64_t moved = g->control->mover.moved;
    const uint32_t n = g->n_resolvers;
    const uint64_t first = moved + (lane + n - (uint32_t)(moved % n)) % n;
    ptoi_release64(&g->resolved[lane], first); /* D2: it need not have had a task before */
    return first;
}

/* Whether a lane ends that found nothing. */
PTOI_INLINE bool ptoi_grid_lane_ends(const ptoi_grid *g, uint64_t at, bool closing)
{
    if (!closing || !ptoi_acquire32(&g->control->closing)) { /* pairs D7 */
        return false;
    }
    return PTOI_MUTANT(LANE_EARLY) ||
           at >= ptoi_acquire64(&g->control->moved); /* after `closing` */
}

/* One step of a lane: resolves task number *at, if it was released. All lanes of a warp; one that has ended (*at:
 * PTOI_GRID_ENDED) stays with the others. */
PTOI_INLINE ptoi_grid_found ptoi_grid_resolve(const ptoi_grid *g, uint32_t lane, uint64_t *at)
{
    const bool closing = ptoi_get32(&g->control->closing);
    const bool found = *at < ptoi_acquire64(&g->control->moved); /* pairs D2 */
    uint32_t index = PTOI_NONE;
    ptoi_grid_slot slot = {0, 0, 0, 0, 0, 0};
    if (found) {
        index = g->fresh[(uint32_t)*at & g->inbox_mask];
        slot = ptoi_grid_own_slot(&g->view.slots[index]);
    } else if (*at != PTOI_GRID_ENDED && ptoi_grid_lane_ends(g, *at, closing)) {
        ptoi_grid_leave(g, 1);
        *at = PTOI_GRID_ENDED;
    }
    if (!PTOI_GRID_VOTES(found)) {
        return *at == PTOI_GRID_ENDED ? PTOI_GRID_END : PTOI_GRID_NOTHING;
    }
    if (PTOI_MUTANT(NO_LATER_LAP) && lane) {
        ptoi_grid_pause_long();
    }
    const ptoi_ref *refs = ptoi_grid_refs(&g->view, &slot);
    const bool ready = ptoi_grid_can_run(&g->view, index, refs, slot.fanin, 0);
    ptoi_grid_push(g, index, slot.header, ready);
    if (!found) {
        return *at == PTOI_GRID_ENDED ? PTOI_GRID_END : PTOI_GRID_NOTHING;
    }
    *at += g->n_resolvers;
    ptoi_follow64(&g->resolved[lane], *at); /* D2: it has joined a list, or pushed */
    return PTOI_GRID_SOMETHING;
}

#endif /* PTOI_GRID_RESOLVE_H */
