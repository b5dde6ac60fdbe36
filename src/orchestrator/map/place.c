#include "orchestrator/map/place.h"

#include "base/error.h"
#include "orchestrator/map/mix.h"

pto_status ptoi_place_of_tensor(const pto_tensor *t, ptoi_place *place, bool *empty)
{
    pto_status status = ptoi_layout_of(t, &place->layout, empty);
    if (status != PTO_OK || *empty) {
        return status;
    }
    if (t->owner) {
        place->space = (ptoi_space_key){t->owner, t->generation, PTOI_SPACE_BLOCK};
        place->origin = 0;
    } else {
        place->space = (ptoi_space_key){0, 0, PTOI_SPACE_USER};
        place->origin = (uint64_t)(uintptr_t)t->storage;
    }
    place->hash = ptoi_mix_layout(&place->layout, &place->space);
    return PTO_OK;
}

void ptoi_place_of_block(uint64_t owner, uint64_t generation, uint64_t bytes, ptoi_place *place)
{
    place->layout = (ptoi_layout){.lo = 0, .len = bytes, .run = bytes, .nested = true};
    place->space = (ptoi_space_key){owner, generation, PTOI_SPACE_BLOCK};
    place->origin = 0;
    place->hash = ptoi_mix_layout(&place->layout, &place->space);
}

pto_status ptoi_place_of_region(const pto_region *r, ptoi_place *place, bool *empty)
{
    *empty = r->size == 0;
    if (r->size > UINT64_MAX - r->offset) {
        return ptoi_fail(PTO_OVERFLOW, "region: offset %llu + size %llu does not fit in 64 bits",
                         (unsigned long long)r->offset, (unsigned long long)r->size);
    }
    place->layout = (ptoi_layout){.lo = r->offset, .len = r->size, .run = r->size, .nested = true};
    place->space = (ptoi_space_key){(uint64_t)(uintptr_t)r->base, r->tile, PTOI_SPACE_REGION};
    place->origin = 0;
    place->hash = ptoi_mix_layout(&place->layout, &place->space);
    return PTO_OK;
}
