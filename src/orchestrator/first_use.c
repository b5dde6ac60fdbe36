/* first_use.c - fast path: a task that should run inline uses a view that the map does not know yet.
 *
 * A program that streams through memory uses each view once. The map is asked who is in the way, as in the slow
 * path (link.c). But the task is complete when submit returns, so no access is recorded. If the map has room, the
 * view becomes known as an idle region, and the next task on it takes the walk of fast.h alone.
 */
#include "orchestrator/first_use.h"

#include "base/mutant.h"
#include "device/device.h"
#include "orchestrator/fast.h"

/* Whether the tensor may be used as it is: the checks of params.c that a known region has passed before. */
static bool is_plain(const pto_runtime *rt, const pto_tensor *t, const ptoi_buffer *b)
{
    if (!ptoi_device_equal(t->device, ptoi_device_at(rt, 0))) {
        return false;
    }
    if (b) {
        return t->storage_bytes == b->bytes && b->device == 0;
    }
    const uintptr_t low = (uintptr_t)t->storage;
    return !rt->processes && (low >= rt->heap_end || low + t->storage_bytes <= rt->heap_begin);
}

ptoi_first ptoi_first_use(pto_runtime *rt, const pto_tensor *t, const ptoi_buffer *b, uint64_t kind,
                          pto_arg *arg)
{
    pto_tensormap *map = rt->map;
    ptoi_found found;
    if (!is_plain(rt, t, b) || ptoi_access_find(map, t, &found) != PTO_OK || found.empty) {
        return PTOI_FIRST_UNUSUAL;
    }
    const uint32_t desc = ptoi_desc_intern(&map->descs, t);
    if (!desc) {
        return PTOI_FIRST_UNUSUAL;
    }
    /* No offloaded task has used a buffer that is unmapped, so nobody is in the way. */
    if (!b || !b->unmapped) {
        const pto_map_access access = kind == PTO_PARAM_INPUT ? PTO_MAP_READ : PTO_MAP_WRITE;
        if (ptoi_access_waits(map, &found, access) && !PTOI_MUTANT(FIRST_USE)) {
            return PTOI_FIRST_WAITS;
        }
        ptoi_access_know(map, &found, access);
    }
    const ptoi_arg_desc place = ptoi_write_place(rt, t, b, desc);
    ptoi_arg_tensor(arg, ptoi_desc_at(map->descs.records, desc),
                    b ? rt->calls->view->base[b->level] + place.value
                      : (char *)(uintptr_t)place.value);
    return PTOI_FIRST_FREE;
}
