/* elsewhere.h - the built-in operators on a device that has no kernels of its own for them: its copy
 * and fill functions do the work (device/copy.h). The simulated devices use these.
 *
 * Outside of a task they wait for the device. The kernel of a task begins them instead, and is
 * pending (worker/op.c).
 */
#ifndef PTOI_OP_ELSEWHERE_H
#define PTOI_OP_ELSEWHERE_H

#include <pto/op.h>

/* The implementations, for the tables of the two operators. */
pto_status ptoi_rearrange_elsewhere(const pto_op_call *call);
pto_status ptoi_fill_elsewhere(const pto_op_call *call);

/* Whether the implementation is one of these. */
static inline bool ptoi_op_is_elsewhere(pto_op_fn fn)
{
    return fn == ptoi_rearrange_elsewhere || fn == ptoi_fill_elsewhere;
}

/* Begins the work of one of them. After PTO_OK, `done` is called once, possibly before the return. */
pto_status ptoi_op_begin(const pto_op_call *call, pto_op_fn fn, pto_device_done done,
                         void *context);

#endif /* PTOI_OP_ELSEWHERE_H */
