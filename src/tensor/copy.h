/* copy.h - elements from one strided place to another.
 *
 * A copy is thought about once and then runs as often as wanted, at any addresses: a gather plans
 * one row and runs it for each index. A fill is a copy whose source stands still: all strides 0.
 *
 * Where the destination names a place more than once, what comes last stays, in the order of the
 * indices with the last dim fastest. (Only a destination that cannot do so is walked in another
 * order.)
 */
#ifndef PTOI_COPY_H
#define PTOI_COPY_H

#include <pto/tensor.h>

/* Loops, the outermost first; single elements are left out, and loops that chain on both sides are
 * one. Steps count bytes.
 *   C1  every count >= 2, unless `empty`
 *   C2  no loop i could swallow the next: not (to[i] == count[i+1] * to[i+1] and the same of from)
 */
typedef struct ptoi_copy {
    bool empty; /* nothing to do, and nothing else is set */
    int32_t ndim;
    int64_t size;                 /* of one element */
    int64_t to_start, from_start; /* the first one moved, from element [0, 0, ...] */
    int64_t count[PTO_MAX_DIMS];
    int64_t to[PTO_MAX_DIMS];
    int64_t from[PTO_MAX_DIMS];
} ptoi_copy;

/* Strides count elements. Both sides are sound tensors (E1 - E3 of tensor.h) of that shape, and
 * elements have 1, 2, 4 or 8 bytes. */
void ptoi_copy_plan(ptoi_copy *copy, int32_t ndim, const int64_t *shape, const int64_t *to_strides,
                    const int64_t *from_strides, uint64_t size);

/* `to` and `from` are where element [0, 0, ...] lies. They share no byte. */
void ptoi_copy_run(const ptoi_copy *copy, void *to, const void *from);

#endif /* PTOI_COPY_H */
