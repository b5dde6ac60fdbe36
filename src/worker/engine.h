/* engine.h - work requests on devices: handed to an engine, and completed when it is done. */
#ifndef PTOI_WORKER_ENGINE_H
#define PTOI_WORKER_ENGINE_H

#include <pto/op.h>
#include <pto/work.h>

/* Calls an engine with the whole request. */
pto_status ptoi_work_start(const pto_call *call, const pto_engine *engine);

/* Executes a built-in operation with the copy and fill functions of devices. The numbers of tensors
 * are right. */
pto_status ptoi_work_elsewhere(const pto_call *call, uint32_t opcode, const pto_arg *tensors);

/* Begins a built-in operator that the copy and fill functions of its device do (op/elsewhere.h). */
pto_status ptoi_work_begin_op(const pto_call *call, const pto_op_call *op, pto_op_fn fn);

#endif /* PTOI_WORKER_ENGINE_H */
