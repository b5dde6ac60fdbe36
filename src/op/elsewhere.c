#include "op/elsewhere.h"

#include <inttypes.h>

#include "base/error.h"
#include "device/copy.h"
#include "op/fill.h"
#include "op/rearrange/rearrange.h"

/* ---- Beginning ---- */

static pto_status begin_rearrange(const pto_op_call *call, pto_device_done done, void *context)
{
    static const ptoi_who who = PTOI_WHO("rearrange");
    bool same;
    PTO_TRY(ptoi_rearrange_check_call(call));
    PTO_TRY(ptoi_rearrange_check(&who, call->outputs, call->inputs, &same));
    PTO_TRY(ptoi_rearrange_check_memory(&who, call->outputs, call->inputs));
    if (same) {
        done(context, PTO_OK);
        return PTO_OK;
    }
    return ptoi_device_copy(call->outputs, call->inputs, done, context);
}

static pto_status begin_fill(const pto_op_call *call, pto_device_done done, void *context)
{
    ptoi_extent extent;
    uint64_t element;
    PTO_TRY(ptoi_fill_check(call, &element, &extent));
    return ptoi_device_fill(call->outputs, &element, done, context);
}

pto_status ptoi_op_begin(const pto_op_call *call, pto_op_fn fn, pto_device_done done, void *context)
{
    return fn == ptoi_fill_elsewhere ? begin_fill(call, done, context)
                                     : begin_rearrange(call, done, context);
}

/* ---- Waiting ---- */

static pto_status run(const pto_op_call *call, pto_op_fn fn)
{
    ptoi_device_wait w = PTOI_DEVICE_WAIT;
    PTO_TRY(ptoi_op_begin(call, fn, ptoi_device_wake, &w));
    return ptoi_device_wait_for(&w);
}

pto_status ptoi_rearrange_elsewhere(const pto_op_call *call)
{
    return run(call, ptoi_rearrange_elsewhere);
}

pto_status ptoi_fill_elsewhere(const pto_op_call *call)
{
    return run(call, ptoi_fill_elsewhere);
}
