/* desc.h - layout descriptors: element type, sizes and strides of a tensor, without its memory.
 *
 * Programs use few layouts, over and over. So descriptors are interned: each is stored once and has
 * an id. An argument of a task is an address and an id, and two tensors have the same layout
 * exactly if their ids are equal.
 *
 *     records, in units of one cache line; the id of a descriptor is the number of its first unit
 *
 *       0        1            2            3                         4
 *       [ none ] [ 4x4, f32 ] [ 8x8, f32 ] [ 2x3x4x5, f16 ......... ] ...
 *
 * One thread adds records. They are never changed or removed. When the records are full, a new
 * descriptor has no id, and its user stores it elsewhere.
 */
#ifndef PTOI_DESC_H
#define PTOI_DESC_H

#include <string.h>

#include <pto/tensor.h>

#include "base/likely.h"

#define PTOI_DESC_UNIT UINT64_C(64)
#define PTOI_DESC_UNITS 65536u /* so that an id has 16 bits */
#define PTOI_DESC_BYTES (PTOI_DESC_UNITS * PTOI_DESC_UNIT)
#define PTOI_DESC_SLOTS (2u * PTOI_DESC_UNITS) /* of the table: at most half are used */

typedef struct ptoi_desc {
    int32_t ndim; /* ndim and dtype are adjacent here as in pto_tensor */
    pto_dtype dtype;
    uint64_t dense; /* size in bytes if the layout is dense and row-major, else 0 */
    int64_t dims[]; /* ndim sizes, then ndim strides */
} ptoi_desc;

_Static_assert(sizeof(ptoi_desc) == 16 && offsetof(ptoi_desc, dtype) == 4 &&
                   offsetof(pto_tensor, dtype) == offsetof(pto_tensor, ndim) + 4 &&
                   sizeof(pto_dtype) == 4,
               "ndim and dtype are compared as one word");

typedef struct ptoi_descs {
    char *records;   /* PTOI_DESC_BYTES, zeroed */
    uint16_t *table; /* PTOI_DESC_SLOTS ids by hash, zeroed; 0: free slot */
    uint32_t used;   /* units in use, without unit 0 */
} ptoi_descs;

/* Bytes of a layout descriptor with `ndim` dims. */
static inline uint64_t ptoi_desc_bytes(int32_t ndim)
{
    return sizeof(ptoi_desc) + 16 * (uint64_t)(uint32_t)ndim;
}

static inline const ptoi_desc *ptoi_desc_at(const char *records, uint32_t id)
{
    return (const ptoi_desc *)(const void *)(records + id * PTOI_DESC_UNIT);
}

/* Two words that are compared at once, where the machine can. */
typedef uint64_t ptoi_words __attribute__((vector_size(16)));

static inline ptoi_words ptoi_load_words(const void *from)
{
    ptoi_words pair;
    memcpy(&pair, from, sizeof pair);
    return pair;
}

static inline ptoi_words ptoi_differ(const void *a, const void *b)
{
    return ptoi_load_words(a) ^ ptoi_load_words(b);
}

/* Whether sizes and strides equal those of the tensor, which has the same ndim. */
bool ptoi_desc_has_dims(const ptoi_desc *desc, const pto_tensor *t);

/* Whether the tensor, which may hold any values, has this layout, and `others` is zero. With two
 * dims, the most common case, this is one branch. */
static inline bool ptoi_desc_matches_and(const ptoi_desc *desc, const pto_tensor *t,
                                         ptoi_words others)
{
    uint64_t a, b;
    memcpy(&a, desc, sizeof a);
    memcpy(&b, &t->ndim, sizeof b);
    if (PTOI_LIKELY(desc->ndim == 2)) {
        others |= ptoi_differ(desc->dims, t->shape) | ptoi_differ(desc->dims + 2, t->strides);
        return !((a ^ b) | others[0] | others[1]);
    }
    return !((a ^ b) | others[0] | others[1]) && ptoi_desc_has_dims(desc, t);
}

static inline bool ptoi_desc_matches(const ptoi_desc *desc, const pto_tensor *t)
{
    return ptoi_desc_matches_and(desc, t, (ptoi_words){0, 0});
}

/* Whether `more` further descriptors might not fit. */
static inline bool ptoi_descs_may_run_out(const ptoi_descs *descs, size_t more)
{
    const uint64_t most = (ptoi_desc_bytes(PTO_MAX_DIMS) + PTOI_DESC_UNIT - 1) / PTOI_DESC_UNIT;
    return more + 1 >= (PTOI_DESC_UNITS - descs->used) / most;
}

/* Writes the layout descriptor of a tensor with a valid ndim. */
void ptoi_desc_write(ptoi_desc *desc, const pto_tensor *t);

/* The id of the tensor's layout descriptor, or 0 if it has none. ndim must be valid. */
uint32_t ptoi_desc_find(const ptoi_descs *descs, const pto_tensor *t);

/* The same, but first interns a descriptor that has no id yet, if there is room. */
uint32_t ptoi_desc_intern(ptoi_descs *descs, const pto_tensor *t);

/* Checks that all records are valid and can be found. */
pto_status ptoi_descs_check(const ptoi_descs *descs);

#endif /* PTOI_DESC_H */
