/* replay_room.c - room in the rings, and recycling. See replay_room.h. */
#include "replay_room.h"

#include <stdlib.h>
#include <string.h>

static void note_most(replay_room *r, uint32_t level, uint32_t ring, uint64_t used)
{
    uint64_t *most = &r->most[level][ring];
    *most = used > *most ? used : *most;
}

/* ---- Life ---- */

/* More runs than blocks in a heap of this size; a power of two. */
static uint32_t count_runs(uint32_t nodes, uint64_t size)
{
    const uint64_t most = size / replay_grain(PTO_RING_HEAP) < nodes
                              ? size / replay_grain(PTO_RING_HEAP)
                              : nodes;
    uint32_t runs = 4;
    while (runs < most + 2 && runs < UINT32_C(1) << 31) {
        runs *= 2;
    }
    return runs;
}

static bool make_level(replay_room *r, uint32_t number)
{
    const uint64_t *size = r->rings->size[number];
    replay_level *l = &r->level[number];
    const uint32_t nodes = r->plan->n_level[number];
    l->loose = PTRACE_NONE;
    if (!nodes) {
        return true;
    }
    r->n_levels = number + 1;
    l->bounded_heap = size[PTO_RING_HEAP] != 0;
    l->bounded_args = size[PTO_RING_ARGS] != 0;
    l->bounded_edges = size[PTO_RING_DEPS] != 0;
    if (l->bounded_heap) {
        const uint32_t runs = count_runs(nodes, size[PTO_RING_HEAP]);
        l->runs = malloc(runs * sizeof *l->runs);
        if (!l->runs) {
            return false;
        }
        ptoi_heap_init(&l->heap, size[PTO_RING_HEAP], PTOI_HEAP_WARM, l->runs, runs);
    }
    ptoi_ring_init(&l->args, l->bounded_args ? size[PTO_RING_ARGS] / 16 : 1);
    ptoi_ring_init(&l->edges, l->bounded_edges ? size[PTO_RING_DEPS] : 1);
    return true;
}

bool replay_room_make(replay_room *room, const replay_plan *plan, const replay_rings *rings,
                      uint64_t (*most)[PTO_RINGS])
{
    *room = (replay_room){.plan = plan, .rings = rings, .most = most};
    room->claims = calloc((size_t)plan->n_nodes + 1, sizeof *room->claims);
    bool good = room->claims;
    for (uint32_t i = 0; i < PTO_MAX_LEVELS; i++) {
        good = good && make_level(room, i);
    }
    return good;
}

void replay_room_free(replay_room *room)
{
    for (uint32_t i = 0; i < PTO_MAX_LEVELS; i++) {
        free(room->level[i].runs);
    }
    free(room->claims);
}

/* ---- Room ---- */

uint32_t replay_room_find(const replay_room *room, uint32_t node, replay_place *place)
{
    const replay_node *n = &room->plan->nodes[node];
    const uint64_t *size = room->rings->size[n->level];
    const replay_level *l = &room->level[n->level];
    *place = (replay_place){0, {0, 0}};
    if (size[PTO_RING_TASKS] && n->order && l->slots >= size[PTO_RING_TASKS]) {
        return PTO_RING_TASKS;
    }
    if (l->bounded_heap && !ptoi_heap_fits(&l->heap, n->heap, &place->heap_at)) {
        return PTO_RING_HEAP;
    }
    if (l->bounded_args && n->args && !ptoi_ring_fits(&l->args, n->args, &place->args)) {
        return PTO_RING_ARGS;
    }
    if (size[PTO_RING_MAP] && n->entries && l->entries + n->entries > size[PTO_RING_MAP]) {
        return PTO_RING_MAP;
    }
    return PTO_RINGS;
}

bool replay_room_is_barrier(const replay_room *room, uint32_t node)
{
    const replay_node *n = &room->plan->nodes[node];
    const uint64_t entries = room->rings->size[n->level][PTO_RING_MAP];
    return entries && n->entries > entries;
}

uint32_t replay_room_count_edges(const replay_room *room, uint32_t node)
{
    const replay_plan *p = room->plan;
    uint32_t count = 0;
    for (uint32_t i = p->before.at[node]; i < p->before.at[node + 1]; i++) {
        count += !room->claims[p->before.list[i]].complete;
    }
    return count;
}

bool replay_room_take_edges(replay_room *room, uint32_t node, uint32_t edges)
{
    const uint32_t level = room->plan->nodes[node].level;
    replay_level *l = &room->level[level];
    ptoi_piece piece = {0, 0};
    if (!l->bounded_edges) {
        return true;
    }
    if (edges && !ptoi_ring_fits(&l->edges, edges, &piece)) {
        return false;
    }
    room->claims[node].edges_end = ptoi_ring_take(&l->edges, piece, edges);
    note_most(room, level, PTO_RING_DEPS, ptoi_ring_used(&l->edges));
    return true;
}

void replay_room_enter(replay_room *room, uint32_t node, replay_place place)
{
    const replay_plan *p = room->plan;
    const replay_node *n = &p->nodes[node];
    replay_level *l = &room->level[n->level];
    replay_claim *claim = &room->claims[node];
    if (l->bounded_heap) {
        claim->heap_at = place.heap_at;
        ptoi_heap_take(&l->heap, place.heap_at, n->heap);
        note_most(room, n->level, PTO_RING_HEAP, l->heap.used);
    }
    if (l->bounded_args) {
        claim->args_end = ptoi_ring_take(&l->args, place.args, n->args);
        note_most(room, n->level, PTO_RING_ARGS, ptoi_ring_used(&l->args) * 16);
    }
    l->entries += n->entries;
    claim->has_entries = n->entries > 0;
    l->head++;
    l->slots += n->order != 0;
    note_most(room, n->level, PTO_RING_TASKS, l->slots);
    note_most(room, n->level, PTO_RING_MAP, l->entries);
    if (!n->order) {
        claim->edges_end = l->edges.head;
        claim->complete = true;
        return;
    }
    for (uint32_t i = p->owners.at[node]; i < p->owners.at[node + 1]; i++) {
        room->claims[p->owners.list[i]].users++;
    }
}

/* ---- Recycling ---- */

void replay_room_complete(replay_room *room, uint32_t node)
{
    const replay_lists *owners = &room->plan->owners;
    replay_level *l = &room->level[room->plan->nodes[node].level];
    room->claims[node].complete = true;
    room->claims[node].loose = l->loose;
    l->loose = node;
    for (uint32_t i = owners->at[node]; i < owners->at[node + 1]; i++) {
        room->claims[owners->list[i]].users--;
    }
}

static void drop_entries(replay_room *room, replay_level *l, uint32_t node)
{
    if (room->claims[node].has_entries) {
        room->claims[node].has_entries = false;
        l->entries -= room->plan->nodes[node].entries;
    }
}

void replay_room_recycle_completed(replay_room *room, uint32_t level)
{
    replay_level *l = &room->level[level];
    const uint32_t *nodes = room->plan->level[level];
    const uint32_t from = l->completed;
    for (; l->completed < l->head && room->claims[nodes[l->completed]].complete; l->completed++) {
        drop_entries(room, l, nodes[l->completed]);
    }
    if (l->bounded_edges && l->completed != from) {
        ptoi_ring_give_back(&l->edges, room->claims[nodes[l->completed - 1]].edges_end);
    }
}

static void retire(replay_room *room, uint32_t level)
{
    replay_level *l = &room->level[level];
    const uint32_t *nodes = room->plan->level[level];
    if (l->retired == l->completed) {
        return;
    }
    for (; l->retired < l->completed; l->retired++) {
        l->slots -= room->plan->nodes[nodes[l->retired]].order != 0;
    }
    if (l->bounded_args) {
        ptoi_ring_give_back(&l->args, room->claims[nodes[l->retired - 1]].args_end);
    }
}

/* Whether a task or a lifetime holds the block of the node with this index. The block is the
 * oldest: so if no task brings it, it has no other task to wait for than those that use it. */
static bool is_held(const replay_room *room, uint32_t level, uint32_t index)
{
    const uint32_t node = room->plan->level[level][index];
    const replay_node *n = &room->plan->nodes[node];
    return (n->order && index >= room->level[level].completed) || room->claims[node].users ||
           room->op < n->held_until;
}

/* Frees blocks in order of birth. Afterwards `freed` is the oldest block, or the head. */
static void free_blocks(replay_room *room, uint32_t level)
{
    replay_level *l = &room->level[level];
    const replay_plan *p = room->plan;
    uint32_t last = PTRACE_NONE;
    for (; l->freed < l->head; l->freed++) {
        const uint32_t node = p->level[level][l->freed];
        if (p->nodes[node].has_block && is_held(room, level, l->freed)) {
            break;
        }
        last = p->nodes[node].heap ? node : last;
    }
    if (last != PTRACE_NONE && l->bounded_heap) {
        ptoi_heap_give_back(&l->heap, room->claims[last].heap_at, p->nodes[last].heap);
    }
}

void replay_room_recycle(replay_room *room, uint32_t level)
{
    for (uint32_t i = 0; i < room->n_levels; i++) {
        replay_room_recycle_completed(room, i);
    }
    retire(room, level);
    free_blocks(room, level);
}

bool replay_room_is_stuck(const replay_room *room, uint32_t level, uint32_t ring)
{
    const replay_level *l = &room->level[level];
    if (ring != PTO_RING_HEAP) {
        return l->retired == l->head;
    }
    return l->freed == l->head ||
           room->op < room->plan->nodes[room->plan->level[level][l->freed]].held_until;
}

/* Visits each complete node once: a walk over all nodes of the ring at each wait would take time
 * that grows with the square of its size. */
void replay_room_compact(replay_room *room, uint32_t level)
{
    replay_level *l = &room->level[level];
    for (; l->loose != PTRACE_NONE; l->loose = room->claims[l->loose].loose) {
        drop_entries(room, l, l->loose);
    }
}
