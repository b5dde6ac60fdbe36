/* mix.h - hash functions of the map. A bucket is the high bits of a product, which depend on all
 * bits below them. A hash only chooses a bucket; the elements found there are compared in full. */
#ifndef PTOI_MIX_H
#define PTOI_MIX_H

#include "orchestrator/map/place.h"

#define PTOI_MIX_1 UINT64_C(0x9E3779B97F4A7C15) /* odd; bits of the golden ratio */
#define PTOI_MIX_2 UINT64_C(0xD1342543DE82EF95) /* odd, and unrelated to the first */

static inline uint64_t ptoi_mix(uint64_t x)
{
    x *= PTOI_MIX_1;
    return x ^ (x >> 32);
}

static inline uint64_t ptoi_mix_space(const ptoi_space_key *key)
{
    return ptoi_mix(ptoi_mix(key->a) + key->b * PTOI_MIX_2 + (uint64_t)key->kind) * PTOI_MIX_1;
}

/* Hashes a place by its lowest byte and its number of bytes. These differ between nearly all places
 * that programs use. */
static inline uint32_t ptoi_mix_layout(const ptoi_layout *layout, const ptoi_space_key *space)
{
    uint64_t bytes = layout->run;
    for (uint32_t j = 0; j < layout->k; j++) {
        bytes *= layout->dim[j].n;
    }
    uint64_t h = layout->lo + bytes * PTOI_MIX_2;
    if (space->kind != PTOI_SPACE_USER) {
        h += ptoi_mix_space(space);
    }
    return (uint32_t)(((h ^ (h >> 32)) * PTOI_MIX_1) >> 32);
}

#endif /* PTOI_MIX_H */
