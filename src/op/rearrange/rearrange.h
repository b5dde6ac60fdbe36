/* rearrange.h - from two tensors to a plan and two addresses.
 *
 *   two tensors --> key: all that a plan depends on
 *               --> this thread's cache: a plan, with what checking the layouts came to
 *               --> what depends on the place: memory, bounds, overlap
 *               --> run
 *
 * Whatever a plan depends on is in its key, and so is all that its checks depended on but offset,
 * storage_bytes, the rest of the addresses and the dtypes. So a plan that is found says that the
 * layouts are good, and only those few are looked at again.
 */
#ifndef PTOI_REARRANGE_H
#define PTOI_REARRANGE_H

#include <pto/rearrange.h>

#include "op/rearrange/plan.h"
#include "tensor/search.h"

/* How details begin: the operation, and either side of it. */
typedef struct ptoi_who {
    const char *op, *dst, *src;
} ptoi_who;

#define PTOI_WHO(text)                                                                             \
    {                                                                                              \
        text, text ": dst", text ": src"                                                           \
    }

/* A copy, all checked. */
typedef struct ptoi_move {
    const ptoi_plan *plan; /* NULL: nothing is to be done */
    void *to;
    const void *from;
    ptoi_plan own; /* where the plan is if no cache keeps it */
} ptoi_move;

/* PTO_DEVICES_DIFFER, PTO_BAD_DEVICE. */
pto_status ptoi_rearrange_device(const ptoi_who *who, const pto_tensor *dst, const pto_tensor *src);

/* Checks everything but the devices, and finds or makes the plan. That one is good until the next
 * call on this thread. */
pto_status ptoi_rearrange_prepare(const ptoi_who *who, const pto_tensor *dst, const pto_tensor *src,
                                  ptoi_move *move);

/* The checks alone, devices included, and whether there is an implementation. Managed memory need
 * not have an address: whether the two share a byte is asked of the blocks, not of addresses.
 * *same: they are the very same elements, and there is nothing to do. */
pto_status ptoi_rearrange_check(const ptoi_who *who, const pto_tensor *dst, const pto_tensor *src,
                                bool *same);

/* ---- distinct.c ---- */

/* Whether two elements of a sound view share a byte, within so many steps of search for each dim. */
ptoi_verdict ptoi_meets_itself(int32_t ndim, const int64_t *shape, const int64_t *strides,
                               uint64_t budget);

#endif /* PTOI_REARRANGE_H */
