/* rings.c - sizes and names of the rings: rings.h. */
#include "orchestrator/rings.h"

void ptoi_rings_publish_sizes(pto_runtime *rt, uint32_t level)
{
    for (uint32_t r = 0; r < PTO_RINGS; r++) {
        ptoi_set64(&rt->rings[level].progress->ring[r].size,
                   ptoi_rings_read(rt, level, (pto_ring)r).size);
    }
}

/* ---- Names ---- */

const ptoi_ring_names *ptoi_rings_names(pto_ring ring)
{
#define NAMES(NAME, name, key, trace, unit, field, variable)                                       \
    [PTO_RING_##NAME] = {name, unit, field, variable, field " (" variable ")"},
    static const ptoi_ring_names names[] = {
        PTO_LEVEL_RING_MAP(NAMES) /* */
        NAMES(BUFFERS, "records of tensors", "", "", "tensors", "buffers", "PTO_BUFFERS")};
#undef NAMES
    static const ptoi_ring_names unknown = {"unknown ring", "", "", "", ""};
    return (uint32_t)ring < sizeof names / sizeof *names ? &names[ring] : &unknown;
}

const char *pto_ring_name(pto_ring ring)
{
    return ptoi_rings_names(ring)->name;
}
