/* op.c - the kernel of pto_submit_op: calls the implementation of an operator. */
#include <inttypes.h>
#include <string.h>

#include <pto/op.h>
#include <pto/pto.h>

#include "base/error.h"
#include "op/elsewhere.h"
#include "window/builtin.h"
#include "worker/arg.h"
#include "worker/engine.h"

enum { MOST = 64 };

pto_status ptoi_kernel_op(const pto_call *call)
{
    const pto_arg *args = call->args;
    const uint32_t n = call->n_args - PTOI_OP_TENSORS;
    const uint64_t n_outputs = args[PTOI_OP_OUTPUTS].u64, bytes = args[PTOI_OP_BYTES].u64;
    if (call->n_args < PTOI_OP_TENSORS || n > MOST || n_outputs > n || bytes > PTO_OP_PARAMS) {
        return ptoi_fail(PTO_BAD_PARAM, "operator: %" PRIu32 " arguments are no request",
                         call->n_args);
    }
    const pto_op *op = (const pto_op *)(uintptr_t)args[PTOI_OP_OP].u64;
    uint64_t words[PTO_OP_PARAMS / 8];
    pto_tensor tensors[MOST];
    pto_op_fn fn;
    for (uint32_t i = 0; i < PTO_OP_PARAMS / 8; i++) {
        words[i] = args[PTOI_OP_PARAMS + i].u64;
    }
    for (uint32_t i = 0; i < n; i++) {
        PTO_TRY(ptoi_tensor_for_device(&args[PTOI_OP_TENSORS + i], &tensors[i]));
    }
    const pto_op_call request = {.op = op,
                                 .device = call->device,
                                 .outputs = tensors,
                                 .inputs = tensors + n_outputs,
                                 .n_outputs = n_outputs,
                                 .n_inputs = n - n_outputs,
                                 .params = bytes ? words : NULL,
                                 .stream = call->stream,
                                 .rt = call->rt,
                                 .task = call->task};
    PTO_TRY(pto_op_lookup(op, call->device.type, &fn));
    const uint64_t serial = ptoi_error_serial();
    const pto_status s = ptoi_op_is_elsewhere(fn) ? ptoi_work_begin_op(call, &request, fn)
                                                  : fn(&request);
    if (s && s != PTO_PENDING && ptoi_error_serial() == serial) {
        return ptoi_fail(s, "%s on %s:%" PRId32 ": %s", pto_op_name(op),
                         pto_device_name(call->device.type), call->device.index,
                         pto_status_text(s));
    }
    return s;
}
