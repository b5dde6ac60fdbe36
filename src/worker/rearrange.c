/* rearrange.c - the kernel of pto_submit_rearrange. It does one part of a copy. */
#include <inttypes.h>

#include "base/error.h"
#include "op/rearrange/rearrange.h"
#include "window/builtin.h"
#include "worker/arg.h"

pto_status ptoi_kernel_rearrange(const pto_call *call)
{
    const pto_arg *args = call->args;
    if (call->n_args != PTOI_REARRANGE_ARGS || !args[PTOI_REARRANGE_SRC].shape ||
        !args[PTOI_REARRANGE_DST].shape || args[PTOI_REARRANGE_DEVICE].shape) {
        return ptoi_fail(PTO_BAD_PARAM,
                         "rearrange: %" PRIu32 " arguments; it takes two tensors and a scalar",
                         call->n_args);
    }
    pto_tensor src = ptoi_tensor_of_arg(&args[PTOI_REARRANGE_SRC]),
               dst = ptoi_tensor_of_arg(&args[PTOI_REARRANGE_DST]);
    src.device = dst.device = ptoi_device_of_word(args[PTOI_REARRANGE_DEVICE].u64);
    return pto_rearrange(&dst, &src);
}
