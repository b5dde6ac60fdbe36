/* place.h - a place: the bytes that an access touches, and the memory they are in. */
#ifndef PTOI_PLACE_H
#define PTOI_PLACE_H

#include <pto/tensormap.h>

#include "tensor/layout.h"

/* The memory that a layout is in. Places in different memories never overlap. */
typedef enum ptoi_space_kind {
    PTOI_SPACE_USER,   /* absolute addresses; a = b = 0 */
    PTOI_SPACE_BLOCK,  /* a managed block: owner, generation */
    PTOI_SPACE_REGION, /* a memory of the pto_region functions: base, tile */
} ptoi_space_kind;

typedef struct ptoi_space_key {
    uint64_t a, b;
    ptoi_space_kind kind;
} ptoi_space_key;

/* A place to ask about: canonical layout, with its hash. */
typedef struct ptoi_place {
    ptoi_layout layout;
    ptoi_space_key space;
    uint64_t origin; /* start of the storage: a hint for the index, not part of the identity */
    uint32_t hash;
} ptoi_place;

/* The place of a tensor or region. Sets *empty if it has no bytes. */
pto_status ptoi_place_of_tensor(const pto_tensor *t, ptoi_place *place, bool *empty);
pto_status ptoi_place_of_region(const pto_region *r, ptoi_place *place, bool *empty);

/* The place of a whole managed block. */
void ptoi_place_of_block(uint64_t owner, uint64_t generation, uint64_t bytes, ptoi_place *place);

#endif /* PTOI_PLACE_H */
