/* rearrange.c - the kernel of pto_submit_rearrange. It does one part of a copy. */
#include <inttypes.h>

#include <pto/pto.h>

#include "base/error.h"
#include "op/elsewhere.h"
#include "op/rearrange/rearrange.h"
#include "window/builtin.h"
#include "worker/arg.h"
#include "worker/engine.h"

pto_status ptoi_kernel_rearrange(const pto_call *call)
{
    const pto_arg *args = call->args;
    if (call->n_args != PTOI_REARRANGE_ARGS || !args[PTOI_REARRANGE_SRC].shape ||
        !args[PTOI_REARRANGE_DST].shape) {
        return ptoi_fail(PTO_BAD_PARAM, "rearrange: %" PRIu32 " arguments; it takes two tensors",
                         call->n_args);
    }
    pto_tensor src, dst;
    PTO_TRY(ptoi_tensor_for_device(&args[PTOI_REARRANGE_SRC], &src));
    PTO_TRY(ptoi_tensor_for_device(&args[PTOI_REARRANGE_DST], &dst));
    const pto_op_call request = {.op = pto_rearrange_op(),
                                 .device = call->device,
                                 .outputs = &dst,
                                 .inputs = &src,
                                 .n_outputs = 1,
                                 .n_inputs = 1,
                                 .stream = call->stream,
                                 .rt = call->rt,
                                 .task = call->task};
    pto_op_fn fn;
    PTO_TRY(pto_op_lookup(request.op, call->device.type, &fn));
    return ptoi_op_is_elsewhere(fn) ? ptoi_work_begin_op(call, &request, fn)
                                    : pto_rearrange(&dst, &src);
}
