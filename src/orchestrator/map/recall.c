#include "orchestrator/map/recall.h"

void ptoi_recall_forget(pto_tensormap *map, uint32_t region)
{
    ptoi_region *r = &map->regions[region];
    if (r->form == 0) {
        return;
    }
    ptoi_chain *link = &map->aliases[r->alias_bucket];
    while (ptoi_chain_at(*link) != region) {
        link = &map->regions[ptoi_chain_at(*link)].alias_next;
    }
    *link = r->alias_next;
    r->form = 0;
}

void ptoi_recall_name(pto_tensormap *map, uint32_t region, const pto_tensor *t)
{
    ptoi_region *r = &map->regions[region];
    const uint32_t form = ptoi_form_number(&map->forms, t);
    ptoi_recall_forget(map, region);
    if (form == 0) {
        return;
    }
    ptoi_alias_set(r, t, form);
    r->alias_bucket = ptoi_alias_bucket(map, t);
    r->alias_next = map->aliases[r->alias_bucket];
    map->aliases[r->alias_bucket] = ptoi_chain_to(region);
}
