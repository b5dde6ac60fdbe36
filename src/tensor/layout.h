/* layout.h - the bytes that a view touches, in one canonical form.
 *
 *     bytes = { lo + i1*s1 + ... + ik*sk + b  :  0 <= ij < nj,  0 <= b < run }
 *
 *      lo                lo+s1              lo+2*s1
 *      |                 |                  |
 *      [run]...[run].....[run]...[run]......[run]...[run]
 *      |-- s2 -|         |<----- s1 ------->|
 *
 * Invariants (ptoi_layout_check):
 *   L1  run >= 1 (no layout describes the empty set: see ptoi_layout_of)
 *   L2  every n >= 2, every s > run; s1 > s2 > ... > sk (strictly: equal strides merge)
 *   L3  len == (n1-1)*s1 + ... + (nk-1)*sk + run, lo + len does not wrap, and len < 2^63 if k > 0
 *       (no storage is larger)
 *   L4  nested  <=>  for every j: sj >= (span of the dims after j, with the run)
 *       where span = (nj+1 - 1)*sj+1 + ... + run. In a nested layout, each step of an outer dim
 *       moves past all bytes of the inner dims: rows are disjoint and in order of address.
 *   L5  neighbours do not form one progression: not (s(j) % s(j+1) == 0 and s(j)/s(j+1) <= n(j+1))
 * Dense <=> k == 0.
 *
 * Equal layouts touch equal bytes. The converse holds for nested layouts with the same strides.
 */
#ifndef PTOI_LAYOUT_H
#define PTOI_LAYOUT_H

#include <pto/tensor.h>

typedef struct ptoi_dim {
    uint64_t n; /* steps */
    uint64_t s; /* bytes from one step to the next */
} ptoi_dim;

typedef struct ptoi_layout {
    uint64_t lo;  /* lowest byte: an address, or an offset into a managed block */
    uint64_t len; /* bytes from the lowest to the highest, inclusive */
    uint64_t run; /* contiguous bytes */
    uint32_t k;   /* dims in use */
    bool nested;
    ptoi_dim dim[PTO_MAX_DIMS]; /* largest stride first; unset past k */
} ptoi_layout;

/* The layout of a tensor. Checks the tensor as pto_tensor_check does, except for fields that do not
 * matter for bytes (device and kind). *empty: the tensor touches nothing and `out` is not set. `lo`
 * is the absolute address for user memory, and the offset into the block for managed memory (owner
 * != 0). */
pto_status ptoi_layout_of(const pto_tensor *t, ptoi_layout *out, bool *empty);

/* Whether both layouts are described alike. Then they touch the same bytes. */
bool ptoi_layout_equal(const ptoi_layout *a, const ptoi_layout *b);

/* The lowest byte of a nested layout at or after address `at`; false if there is none. */
bool ptoi_layout_successor(const ptoi_layout *a, uint64_t at, uint64_t *found);

/* PTO_CORRUPT with a detail unless L1 to L5 hold. */
pto_status ptoi_layout_check(const ptoi_layout *a);

#endif /* PTOI_LAYOUT_H */
