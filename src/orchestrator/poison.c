/* poison.c - failed and skipped ("bad") tasks, and the memory they were to write.
 *
 * While a bad task is in its slot, its consumers see that it is bad (CLOSED_BAD). When `completed`
 * passes it, the map forgets it, so it is recorded here first. Submits and reads check these lists
 * from then on. So the answer does not depend on when it is asked for:
 *
 *   A task is bad if it failed, or reads memory that a bad task was the last to cover, or comes
 *   after a bad task. Memory is bad until one good write covers all that the bad task wrote.
 *
 * An output is not recorded if a later task, submitted before the bad one was passed, covers it:
 * the map knows that the later task is its writer. All answers about bad memory are exact: what the
 * overlap budget leaves undecided is decided at any cost (tensor/exact.h).
 *
 * Bad memory is kept in a map of its own, so a question costs as much as its answers, however many
 * tasks have failed. The map is created at the first failure. Outputs are not merged: each is bad
 * until one write covers all of *it*. There is room for MAX_OUTPUTS of them; those that were covered
 * or whose buffers are gone make room for others. If all are in use, all memory counts as bad from
 * then on, which reports say and statistics count (poison_lost), until pto_clear_error. Numbers of
 * bad tasks are kept as ranges. If MAX_RANGES are in use, the two oldest become one, so tasks in
 * between count as bad; that is counted as well.
 *
 * Only the orchestrating thread uses this.
 */
#include "orchestrator/poison.h"

#include <string.h>

#include "base/error.h"
#include "base/os.h"
#include "orchestrator/buffer.h"
#include "orchestrator/map/access.h"
#include "orchestrator/map/grow.h"
#include "orchestrator/map/index.h"
#include "orchestrator/map/links.h"
#include "orchestrator/map/place.h"

#define MAX_OUTPUTS PTOI_POISON_OUTPUTS
#define MAX_RANGES 65536

pto_status ptoi_poison_create(pto_runtime *rt)
{
    ptoi_poison *p = &rt->poison;
    bool good = true;
    p->bad_bytes = MAX_RANGES * sizeof *p->bad[0];
    for (uint32_t l = 0; l < rt->levels; l++) {
        p->bad[l] = ptoi_os_reserve(p->bad_bytes);
        good = good && p->bad[l];
    }
    p->fence_bytes = (size_t)rt->view.header->slots * rt->levels * sizeof *p->fences;
    p->fences = ptoi_os_reserve(p->fence_bytes);
    return good && p->fences ? PTO_OK : ptoi_fail(PTO_OUT_OF_MEMORY, "create: lists of failures");
}

/* Forgets all bad memory. */
static void drop_map(ptoi_poison *p)
{
    pto_tensormap_destroy(&p->map);
    ptoi_os_release(p->orders, p->order_bytes);
    p->orders = NULL;
    p->recorded = p->swept = 0;
    p->count = p->managed = p->asked = 0;
    p->all = false;
}

void ptoi_poison_destroy(pto_runtime *rt)
{
    drop_map(&rt->poison);
    ptoi_os_release(rt->poison.fences, rt->poison.fence_bytes);
    for (uint32_t l = 0; l < PTO_MAX_LEVELS; l++) {
        ptoi_os_release(rt->poison.bad[l], rt->poison.bad_bytes);
    }
}

static void count_lost(pto_runtime *rt)
{
    ptoi_count64(&rt->view.header->poison_lost, 1);
}

/* ---- Tasks ---- */

static ptoi_bad_range *range_at(const ptoi_poison *p, uint32_t level, uint32_t i)
{
    return &p->bad[level][(p->oldest[level] + i) % MAX_RANGES];
}

static void remember_task(pto_runtime *rt, uint32_t level, uint64_t seq, bool skipped)
{
    ptoi_poison *p = &rt->poison;
    const uint32_t n = p->n_bad[level];
    ptoi_bad_range *last = n ? range_at(p, level, n - 1) : NULL;
    if (last && last->last + 1 == seq && last->skipped == skipped) {
        last->last = seq;
        return;
    }
    if (n == MAX_RANGES) {
        range_at(p, level, 1)->first = range_at(p, level, 0)->first;
        p->oldest[level] = (p->oldest[level] + 1) % MAX_RANGES;
        p->n_bad[level]--;
        count_lost(rt);
    }
    *range_at(p, level, p->n_bad[level]++) = (ptoi_bad_range){seq, seq, skipped};
}

bool ptoi_poison_is_bad(const pto_runtime *rt, uint32_t level, uint64_t seq, bool *skipped)
{
    const ptoi_poison *p = &rt->poison;
    uint32_t low = 0, high = p->n_bad[level];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (range_at(p, level, middle)->last < seq) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    const bool bad = low < p->n_bad[level] && range_at(p, level, low)->first <= seq;
    if (skipped) {
        *skipped = bad && range_at(p, level, low)->skipped;
    }
    return bad;
}

/* ---- Memory ---- */

static pto_status create_map(ptoi_poison *p)
{
    pto_tensormap_config config = PTO_TENSORMAP_CONFIG_INIT;
    config.levels = 1;
    config.level_entries[0] = MAX_OUTPUTS;
    PTO_TRY(pto_tensormap_init(&p->map, &config));
    p->map->exact = true;
    p->order_bytes = p->map->region_limit * sizeof *p->orders;
    p->orders = ptoi_os_reserve(p->order_bytes);
    if (!p->orders) {
        pto_tensormap_destroy(&p->map);
        return PTO_OUT_OF_MEMORY;
    }
    return PTO_OK;
}

/* Whether an entry of the map is of no use: its output was covered, or its buffer is gone. */
static bool is_gone(const void *context, uint64_t writer, uint32_t region)
{
    const pto_runtime *rt = context;
    const ptoi_region *r = &rt->poison.map->regions[region];
    return r->writer != writer ||
           (r->kind == PTOI_SPACE_BLOCK && !ptoi_buffer_is(rt, r->a, (uint32_t)r->b));
}

/* Closes the gaps in the map. Visits all of it. */
static void sweep(pto_runtime *rt)
{
    ptoi_poison *p = &rt->poison;
    ptoi_entry_compact(p->map, 0, is_gone, rt);
    p->count = ptoi_entry_used(&p->map->level[0]);
    p->swept = p->recorded;
    p->managed = p->asked = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        p->managed += ptoi_entry_at(&p->map->level[0], p->map->level[0].tail + i)->kind ==
                      PTOI_SPACE_BLOCK;
    }
}

/* Buffers that are gone must not keep later tasks off the fast path. So the map is swept now and
 * then, after as many questions as it has entries. */
static void sweep_now_and_then(pto_runtime *rt)
{
    ptoi_poison *p = &rt->poison;
    if (p->managed && ++p->asked >= ptoi_entry_used(&p->map->level[0])) {
        sweep(rt);
    }
}

/* Whether there is room for one more. A sweep has to pay off, or every record would sweep. */
static bool has_room(pto_runtime *rt)
{
    const ptoi_poison *p = &rt->poison;
    if (!ptoi_grow_entries(p->map, 0, 1) && p->recorded - p->swept >= MAX_OUTPUTS / 8) {
        sweep(rt);
    }
    return ptoi_grow_entries(p->map, 0, 1);
}

static void remember_memory(pto_runtime *rt, const pto_tensor *t, uint64_t order)
{
    ptoi_poison *p = &rt->poison;
    ptoi_found found;
    if (p->all) {
        count_lost(rt);
        return;
    }
    if (p->map) {
        ptoi_poison_cover(rt, t, order + 1); /* it replaces outputs that it covers */
    }
    if ((!p->map && create_map(p) != PTO_OK) || !has_room(rt)) {
        p->all = true;
        count_lost(rt);
        return;
    }
    if (ptoi_access_find(p->map, t, &found) != PTO_OK || found.empty) {
        return; /* not possible: submit has checked it */
    }
    const bool again = found.region != PTOI_NONE && p->map->regions[found.region].writer;
    ptoi_access_record(p->map, &found, PTO_MAP_WRITE, (pto_map_task){++p->recorded, 0});
    if (!again || p->orders[found.region] < order) {
        p->orders[found.region] = order;
    }
    p->count += !again;
    p->managed += t->owner != 0;
}

/* Only tasks that were submitted after this one, and before now, can refer to it. A row has one past
 * the last of them on each level, or 0 if there are none. Orders rise along a level. */
static void raise_fence(pto_runtime *rt, const ptoi_slot *slot)
{
    uint64_t *row = rt->poison.fences + (size_t)ptoi_slot_index(&rt->view, slot) * rt->levels;
    const uint64_t order = ptoi_order_of(&rt->view, slot);
    for (uint32_t l = 0; l < rt->levels; l++) {
        const ptoi_rings *t = &rt->rings[l];
        const bool later = t->head != t->completed &&
                           ptoi_order_of(&rt->view, ptoi_slot_of(&rt->view, l, t->head - 1)) >
                               order;
        row[l] = later ? t->head : 0;
    }
}

void ptoi_poison_record(pto_runtime *rt, uint32_t level, uint64_t seq)
{
    const ptoi_rings *rings = &rt->rings[level];
    const ptoi_slot *slot = &rings->slots[(uint32_t)seq & rings->mask];
    const ptoi_arg_desc *arg = rt->view.level[level].args + slot->args;
    bool mapped = rt->unmapped != ptoi_ref_task(ptoi_ref_make(seq, level, false));
    remember_task(rt, level, seq,
                  rings->states[(uint32_t)seq & rings->mask].outcome == PTOI_SKIPPED);
    for (uint32_t l = 0; l < rt->levels; l++) {
        rt->rings[l].fast_until = 0; /* later tasks must be checked on the slow path */
    }
    for (uint32_t i = 0; i < slot->n_args; i++) {
        const ptoi_arg_desc *this = arg;
        arg = ptoi_arg_next(this);
        pto_tensor t;
        ptoi_found found;
        if ((this->access != PTO_PARAM_OUTPUT && this->access != PTO_PARAM_INOUT) ||
            !ptoi_buffer_unpack(rt, slot, this, &t) || pto_tensor_numel(&t) == 0) {
            continue;
        }
        if (mapped) {
            /* Is the task still the last writer? */
            if (ptoi_access_find(rt->map, &t, &found) != PTO_OK || found.empty ||
                found.region == PTOI_NONE) {
                continue;
            }
            const ptoi_region *region = &rt->map->regions[found.region];
            if (region->writer != seq || region->writer_level != level) {
                continue;
            }
        }
        remember_memory(rt, &t, ptoi_order_of(&rt->view, slot));
    }
    raise_fence(rt, slot);
}

bool ptoi_poison_is_asked_about(const pto_runtime *rt, uint32_t level, uint64_t seq, ptoi_ref *by)
{
    const ptoi_slot *slot = ptoi_slot_of(&rt->view, level, seq);
    const uint64_t *row = rt->poison.fences + (size_t)ptoi_slot_index(&rt->view, slot) * rt->levels;
    for (uint32_t l = 0; l < rt->levels; l++) {
        if (rt->rings[l].completed < row[l]) {
            *by = ptoi_ref_make(rt->rings[l].completed, l, false);
            return true;
        }
    }
    return false;
}

/* Where the map is to be searched for a tensor. False if it has no bytes there. */
static bool place_of(const ptoi_poison *p, const pto_tensor *t, ptoi_place *place, uint32_t *space)
{
    bool empty;
    if (ptoi_place_of_tensor(t, place, &empty) != PTO_OK || empty) {
        return false;
    }
    *space = ptoi_space_find(p->map, &place->space);
    return *space != PTOI_NONE;
}

bool ptoi_poison_meets(pto_runtime *rt, const pto_tensor *t)
{
    ptoi_poison *p = &rt->poison;
    if (p->all) {
        return pto_tensor_numel(t) != 0;
    }
    sweep_now_and_then(rt);
    ptoi_place place;
    uint32_t space;
    if (!place_of(p, t, &place, &space)) {
        return false;
    }
    bool met = false;
    ptoi_search s;
    ptoi_search_begin(&s, p->map, space, &place.layout, PTOI_NONE, PTOI_ALL);
    for (uint32_t other; !met && (other = ptoi_search_next(&s)) != PTOI_NONE;) {
        met = s.proved || ptoi_overlaps_exactly(&place.layout, &p->map->regions[other].layout);
    }
    ptoi_region_evict(p->map, s.idle);
    return met;
}

void ptoi_poison_cover(pto_runtime *rt, const pto_tensor *t, uint64_t order)
{
    ptoi_poison *p = &rt->poison;
    ptoi_place place;
    uint32_t space;
    if (p->all || !p->map) {
        return;
    }
    sweep_now_and_then(rt);
    if (!place_of(p, t, &place, &space)) {
        return;
    }
    ptoi_search s;
    ptoi_search_begin(&s, p->map, space, &place.layout, PTOI_NONE, PTOI_ALL);
    for (uint32_t other; (other = ptoi_search_next(&s)) != PTOI_NONE;) {
        if (p->orders[other] < order &&
            ptoi_map_covers(p->map, &place.layout, &p->map->regions[other].layout)) {
            ptoi_region_drop(p->map, other);
            ptoi_region_let_go(p->map, other);
            p->count--;
        }
    }
    ptoi_region_evict(p->map, s.idle);
}

const char *ptoi_poison_words(const pto_runtime *rt)
{
    return !rt->poison.all ? ""
                           : "; there is no room for more outputs of failed tasks, so all memory "
                             "counts as poisoned until pto_clear_error";
}

void ptoi_poison_clear(pto_runtime *rt)
{
    ptoi_poison *p = &rt->poison;
    drop_map(p);
    memset(p->n_bad, 0, sizeof p->n_bad);
    memset(p->oldest, 0, sizeof p->oldest);
}
