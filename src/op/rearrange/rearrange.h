/* rearrange.h - from two tensors to a plan and two addresses.
 *
 *   two tensors --> key: everything that a plan depends on
 *               --> this thread's cache: a plan whose layouts are checked
 *               --> checks that depend on the addresses: memory, bounds, overlap
 *               --> run
 *
 * The key contains everything that a plan depends on, and everything that its checks depended on,
 * except offset, storage_bytes, the rest of the addresses and the dtypes. So a plan in the cache
 * proves that the layouts are valid, and only those few fields are checked again.
 */
#ifndef PTOI_REARRANGE_H
#define PTOI_REARRANGE_H

#include <pto/rearrange.h>

#include "op/rearrange/grid.h"
#include "op/rearrange/plan.h"
#include "tensor/search.h"

/* How error details begin: the operation, and each side of it. */
typedef struct ptoi_who {
    const char *op, *dst, *src;
} ptoi_who;

#define PTOI_WHO(text)                                                                             \
    {                                                                                              \
        text, text ": dst", text ": src"                                                           \
    }

/* A plan for a GPU. `plan` has what the checks need. */
typedef struct ptoi_gpu_plan {
    ptoi_plan plan; /* first */
    ptoi_grid_plan grid;
} ptoi_gpu_plan;

/* A copy, completely checked. */
typedef struct ptoi_move {
    const ptoi_plan *plan; /* NULL: nothing to do */
    void *to;
    const void *from;
    ptoi_gpu_plan own; /* the plan, if no cache stores it; `grid` only for a GPU */
} ptoi_move;

/* PTO_DEVICES_DIFFER, PTO_BAD_DEVICE. */
pto_status ptoi_rearrange_device(const ptoi_who *who, const pto_tensor *dst, const pto_tensor *src);

/* Checks everything but the devices, and finds or makes the plan, which is valid until the next
 * call on this thread. */
pto_status ptoi_rearrange_prepare(const ptoi_who *who, const pto_tensor *dst, const pto_tensor *src,
                                  ptoi_move *move);

/* The same for a GPU with that many multiprocessors: the plan of the move is that of a
 * ptoi_gpu_plan. */
pto_status ptoi_rearrange_prepare_gpu(const ptoi_who *who, const pto_tensor *dst,
                                      const pto_tensor *src, uint32_t sms, ptoi_move *move);

/* Only the checks, including the devices and whether there is an implementation. Managed memory
 * needs no address: whether the two share a byte is decided by blocks, not by addresses. *same:
 * both are the same elements, and there is nothing to do. */
pto_status ptoi_rearrange_check(const ptoi_who *who, const pto_tensor *dst, const pto_tensor *src,
                                bool *same);

/* Whether a call has one output and one input. */
pto_status ptoi_rearrange_check_call(const pto_op_call *call);

/* Whether two valid tensors have the memory that their elements need. */
pto_status ptoi_rearrange_check_memory(const ptoi_who *who, const pto_tensor *dst,
                                       const pto_tensor *src);

/* ---- distinct.c ---- */

/* Whether two elements of a valid view share a byte. The search has `budget` steps for each dim. */
ptoi_verdict ptoi_meets_itself(int32_t ndim, const int64_t *shape, const int64_t *strides,
                               uint64_t budget);

#endif /* PTOI_REARRANGE_H */
