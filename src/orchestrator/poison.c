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
 * the map knows that the later task is its writer. (Only where a search exceeds its budget may the
 * map be more exact than the lists here.) Only the orchestrating thread uses this.
 */
#include <string.h>

#include "base/error.h"
#include "base/os.h"
#include "orchestrator/buffer.h"
#include "orchestrator/poison.h"
#include "orchestrator/runtime.h"

#define MAX_REGIONS 65536
#define MAX_RANGES 65536

pto_status ptoi_poison_create(pto_runtime *rt)
{
    ptoi_poison *p = &rt->poison;
    p->capacity = MAX_REGIONS;
    p->region_bytes = MAX_REGIONS * sizeof *p->regions;
    p->bad_bytes = MAX_RANGES * sizeof *p->bad[0];
    p->regions = ptoi_os_reserve(p->region_bytes);
    bool good = p->regions;
    for (uint32_t l = 0; l < rt->levels; l++) {
        p->bad[l] = ptoi_os_reserve(p->bad_bytes);
        good = good && p->bad[l];
    }
    return good ? PTO_OK : ptoi_fail(PTO_OUT_OF_MEMORY, "create: lists of failures");
}

void ptoi_poison_destroy(pto_runtime *rt)
{
    ptoi_poison *p = &rt->poison;
    ptoi_os_release(p->regions, p->region_bytes);
    for (uint32_t l = 0; l < PTO_MAX_LEVELS; l++) {
        ptoi_os_release(p->bad[l], p->bad_bytes);
    }
}

/* ---- Tasks ---- */

static void remember_task(ptoi_poison *p, uint32_t level, uint64_t seq)
{
    ptoi_bad_range *ranges = p->bad[level];
    uint32_t n = p->n_bad[level];
    if (n && (ranges[n - 1].last + 1 == seq || n == MAX_RANGES)) {
        ranges[n - 1].last =
            seq; /* adjacent, or the list is full: tasks in between then count as bad, too */
    } else {
        ranges[p->n_bad[level]++] = (ptoi_bad_range){seq, seq};
    }
}

bool ptoi_poison_is_bad(const pto_runtime *rt, uint32_t level, uint64_t seq)
{
    const ptoi_bad_range *ranges = rt->poison.bad[level];
    uint32_t low = 0, high = rt->poison.n_bad[level];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (ranges[middle].last < seq) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < rt->poison.n_bad[level] && ranges[low].first <= seq;
}

/* ---- Memory ---- */

/* The budget is that of the map, so that both give the same answers. */
static bool overlaps(const pto_runtime *rt, const pto_tensor *a, const pto_tensor *b)
{
    pto_overlap_result result;
    return pto_tensor_overlaps_ex(a, b, rt->map->budget, &result) != PTO_OK || result.yes;
}

static bool covers(const pto_runtime *rt, const pto_tensor *a, const pto_tensor *b)
{
    pto_overlap_result result;
    return pto_tensor_covers_ex(a, b, rt->map->budget, &result) == PTO_OK && result.yes;
}

static void remember_memory(pto_runtime *rt, const pto_tensor *t, uint64_t order)
{
    ptoi_poison *p = &rt->poison;
    ptoi_poison_cover(rt, t, order + 1); /* it replaces regions that it covers */
    if (p->count == p->capacity) {
        p->all = true;
    } else {
        p->regions[p->count++] = (ptoi_bad_region){*t, order};
    }
}

void ptoi_poison_record(pto_runtime *rt, uint32_t level, uint64_t seq)
{
    const ptoi_rings *rings = &rt->rings[level];
    const ptoi_slot *slot = &rings->slots[(uint32_t)seq & rings->mask];
    const ptoi_arg_desc *arg = rt->view.level[level].args + slot->args;
    bool mapped = rt->unmapped != ptoi_ref_task(ptoi_ref_make(seq, level, false));
    remember_task(&rt->poison, level, seq);
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
    for (uint32_t l = 0; l < rt->levels; l++) {
        rt->poison.fence[l] = rt->rings[l].head;
    }
}

/* Regions in managed memory that is gone are removed when a search meets them. */
static bool is_alive(const pto_runtime *rt, const pto_tensor *t)
{
    return !t->owner || ptoi_buffer_is(rt, t->owner, t->generation);
}

bool ptoi_poison_meets(pto_runtime *rt, const pto_tensor *t)
{
    ptoi_poison *p = &rt->poison;
    if (p->all) {
        return pto_tensor_numel(t) != 0;
    }
    for (uint32_t i = 0; i < p->count;) {
        if (!is_alive(rt, &p->regions[i].tensor)) {
            p->regions[i] = p->regions[--p->count];
        } else if (overlaps(rt, &p->regions[i].tensor, t)) {
            return true;
        } else {
            i++;
        }
    }
    return false;
}

void ptoi_poison_cover(pto_runtime *rt, const pto_tensor *t, uint64_t order)
{
    ptoi_poison *p = &rt->poison;
    for (uint32_t i = 0; i < p->count;) {
        const ptoi_bad_region *r = &p->regions[i];
        if (!is_alive(rt, &r->tensor) || (r->order < order && covers(rt, t, &r->tensor))) {
            p->regions[i] = p->regions[--p->count];
        } else {
            i++;
        }
    }
}

void ptoi_poison_clear(pto_runtime *rt)
{
    ptoi_poison *p = &rt->poison;
    p->count = 0;
    p->all = false;
    memset(p->n_bad, 0, sizeof p->n_bad);
    memset(p->fence, 0, sizeof p->fence);
}
