#include "map/recall.h"

void ptoi_recall_forget(pto_tensormap *map, uint32_t region)
{
    ptoi_region *r = &map->regions[region];
    if (r->form == PTOI_FORM_NONE) {
        return;
    }
    ptoi_chain *link = &map->aliases[r->alias_bucket];
    while (ptoi_chain_at(*link) != region) {
        link = &map->regions[ptoi_chain_at(*link)].alias_next;
    }
    *link = r->alias_next;
    r->form = PTOI_FORM_NONE;
}

void ptoi_recall_name(pto_tensormap *map, uint32_t region, const pto_tensor *t)
{
    ptoi_region *r = &map->regions[region];
    ptoi_alias *alias = &r->alias;
    ptoi_recall_forget(map, region);
    r->form = ptoi_form(t);
    alias->storage[0] = (uint64_t)(uintptr_t)t->storage;
    alias->storage[1] = t->storage_bytes;
    alias->offset[0] = (uint64_t)t->offset;
    alias->offset[1] = t->owner;
    for (int32_t d = 0; d < PTO_MAX_DIMS; d++) {
        alias->dims[d / 2].n[d % 2] = t->shape[d];
        alias->dims[d / 2].s[d % 2] = t->strides[d];
    }
    r->alias_bucket = ptoi_alias_bucket(map, t);
    r->alias_next = map->aliases[r->alias_bucket];
    map->aliases[r->alias_bucket] = ptoi_chain_to(region);
}
