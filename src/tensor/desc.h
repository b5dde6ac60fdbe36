/* desc.h - layout descriptors: element type, device, sizes and strides of a tensor, without its
 * memory.
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
 * One thread adds records. Other threads read those whose ids it has given to them. When the
 * records are full, a new descriptor has no id, and its user stores it elsewhere. Then it is time
 * for a sweep: its caller marks every id that anybody still names, and the others are free. Ids
 * never move. A freed record may be written again at once, so the caller must know that the threads
 * that had its id are done with it.
 *
 * Invariants (ptoi_descs_check):
 *   - taken units are those of records, each of which is found in the table by its layout
 *   - `used` is the number of taken units, and at least `room` more descriptors fit
 */
#ifndef PTOI_DESC_H
#define PTOI_DESC_H

#include <string.h>

#include <pto/tensor.h>

#include "base/likely.h"
#include "tensor/desc_record.h"

#define PTOI_DESC_UNITS 65536u /* so that an id has 16 bits */
#define PTOI_DESC_BYTES (PTOI_DESC_UNITS * PTOI_DESC_UNIT)
#define PTOI_DESC_SLOTS (2u * PTOI_DESC_UNITS) /* of the table: at most half are used */

_Static_assert(sizeof(ptoi_desc) == 32 && offsetof(ptoi_desc, dtype) == 4 &&
                   offsetof(ptoi_desc, device) == 8 &&
                   offsetof(pto_tensor, dtype) == offsetof(pto_tensor, ndim) + 4 &&
                   offsetof(pto_tensor, device) == offsetof(pto_tensor, ndim) + 8 &&
                   sizeof(pto_dtype) == 4 && sizeof(pto_device) == 8,
               "ndim, dtype and device are compared as two words");

#define PTOI_DESC_WORDS (PTOI_DESC_UNITS / 64) /* of a set of units */

/* The ids of records that were written, in order, for somebody who has copies of them. If the copies are
 * far behind, a new descriptor gets no id. */
typedef struct ptoi_desc_log {
    uint32_t *entries; /* as many as `size`, a power of two; NULL: nobody has copies */
    uint64_t size;
    uint64_t count;        /* entries ever written */
    const ptoi_a64 *taken; /* entries that were copied; relaxed */
} ptoi_desc_log;

/* Adds an entry. Returns false if there is no room. */
static inline bool ptoi_desc_log_add(ptoi_desc_log *log, uint32_t entry)
{
    if (log->count - ptoi_get64(log->taken) >= log->size) {
        return false;
    }
    log->entries[log->count++ & (log->size - 1)] = entry;
    return true;
}

typedef struct ptoi_descs {
    char *records;    /* PTOI_DESC_BYTES, zeroed */
    uint16_t *table;  /* PTOI_DESC_SLOTS ids by hash, zeroed; 0: free slot */
    uint64_t *taken;  /* PTOI_DESC_WORDS: the units in use */
    uint64_t *marks;  /* PTOI_DESC_WORDS: of a sweep, the ids that are named */
    uint32_t used;    /* units in use, without unit 0 */
    uint32_t at;      /* units before this one are not looked at before the next sweep */
    uint32_t refused; /* as many units, or more, were not found since the last sweep */
    uint32_t room;    /* so many more descriptors fit, of any size; there may be room for more */
    ptoi_desc_log log;
} ptoi_descs;

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
    others |= ptoi_differ(desc, &t->ndim);
    if (PTOI_LIKELY(desc->ndim == 2)) {
        others |= ptoi_differ(desc->dims, t->shape) | ptoi_differ(desc->dims + 2, t->strides);
        return !(others[0] | others[1]);
    }
    return !(others[0] | others[1]) && ptoi_desc_has_dims(desc, t);
}

static inline bool ptoi_desc_matches(const ptoi_desc *desc, const pto_tensor *t)
{
    return ptoi_desc_matches_and(desc, t, (ptoi_words){0, 0});
}

/* Makes a table without descriptors. All four arrays are zeroed. */
void ptoi_descs_init(ptoi_descs *descs, char *records, uint16_t *table, uint64_t *taken,
                     uint64_t *marks);

/* Whether `more` further descriptors might not fit. */
static inline bool ptoi_descs_may_run_out(const ptoi_descs *descs, size_t more)
{
    return more > descs->room;
}

/* A sweep: marks ids that are named (0 is none), then frees all others. */
static inline void ptoi_descs_mark(ptoi_descs *descs, uint32_t id)
{
    descs->marks[id / 64] |= UINT64_C(1) << id % 64;
}

void ptoi_descs_sweep(ptoi_descs *descs);

/* Writes the layout descriptor of a tensor with a valid ndim. */
void ptoi_desc_write(ptoi_desc *desc, const pto_tensor *t);

/* The id of the tensor's layout descriptor, or 0 if it has none. ndim must be valid. */
uint32_t ptoi_desc_find(const ptoi_descs *descs, const pto_tensor *t);

/* The same, but first interns a descriptor that has no id yet, if there is room. */
uint32_t ptoi_desc_intern(ptoi_descs *descs, const pto_tensor *t);

/* Checks that all records are valid and can be found. */
pto_status ptoi_descs_check(const ptoi_descs *descs);

#endif /* PTOI_DESC_H */
