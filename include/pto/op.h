/* pto/op.h - operators: one name, and one implementation for each device type.
 *
 *     pto_op_run(op, outputs, 1, inputs, 1, params)
 *
 *     tensors --> all on one device? --> table[type of the device] --> make it current
 *                                                                  --> implementation(call)
 *                                                                  --> make the old one current
 *
 * Rearrange (pto/rearrange.h) and fill are built in, for the CPU, for NVIDIA GPUs and for simulated
 * devices. Users can add operators:
 *
 *     static pto_status negate_cpu(const pto_op_call *call)
 *     {
 *         const pto_tensor *in = &call->inputs[0], *out = &call->outputs[0];
 *         ((float *)out->storage)[out->offset] = -((const float *)in->storage)[in->offset];
 *         return PTO_OK;
 *     }
 *
 *     pto_op *negate;
 *     PTO_TRY(pto_op_create("negate", &negate));
 *     PTO_TRY(pto_op_register(negate, PTO_DEVICE_CPU, negate_cpu, false));
 *     PTO_TRY(pto_op_run(negate, &y, 1, &x, 1, NULL));
 *
 * Any thread may look up, register and run operators at any time. A lookup returns either the old
 * or the new implementation.
 */
#ifndef PTO_OP_H
#define PTO_OP_H

#include <pto/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An operator: a name and a table of implementations. */
typedef struct pto_op pto_op;

/* One call of an implementation. All tensors are on `device`, which is current. The implementation
 * checks everything else about them. */
typedef struct pto_op_call {
    const pto_op *op;
    pto_device device;
    const pto_tensor *outputs, *inputs;
    size_t n_outputs, n_inputs;
    const void *params; /* the pointer given to pto_op_run; may be NULL */
    void *stream;       /* of the device (pto_device_ops); NULL: it has none */
    pto_runtime *rt;    /* of the task, in pto_submit_op; NULL: it is no task */
    pto_task task;      /* 0: it is no task */
} pto_op_call;

/* An implementation of an operator. If it fails it can say why with pto_fail (pto/kernel.h). In a task
 * it may return PTO_PENDING and call pto_task_complete(call->rt, call->task, status) later. */
typedef pto_status (*pto_op_fn)(const pto_op_call *call);

/* Creates, destroys or names an operator. The name is copied and must not be empty. Destroy an
 * operator only when no thread runs it any more. NULL is allowed; a built-in operator is not
 * destroyed. */
PTO_API PTO_MUST_CHECK pto_status pto_op_create(const char *name, pto_op **op);
PTO_API void pto_op_destroy(pto_op *op);
PTO_API const char *pto_op_name(const pto_op *op);

/* Sets the implementation for one device type, for several or for all. An existing implementation
 * is kept unless `replace` is true. A NULL `fn` with `replace` removes implementations.
 * pto_op_register_many checks all types before it sets any. */
PTO_API PTO_MUST_CHECK pto_status pto_op_register(pto_op *op, pto_device_type type, pto_op_fn fn,
                                                  bool replace);
PTO_API PTO_MUST_CHECK pto_status pto_op_register_many(pto_op *op, const pto_device_type *types,
                                                       size_t n, pto_op_fn fn, bool replace);
PTO_API PTO_MUST_CHECK pto_status pto_op_register_all(pto_op *op, pto_op_fn fn, bool replace);

/* Looks up the implementation for a device type. PTO_NOT_IMPLEMENTED if there is none; the detail
 * names the operator and the type. */
PTO_API PTO_MUST_CHECK pto_status pto_op_lookup(const pto_op *op, pto_device_type type,
                                                pto_op_fn *fn);

/* Runs an operator on the device of its tensors, or on the current device if there are no tensors.
 * PTO_DEVICES_DIFFER if the tensors are on different devices. The detail of an error names the
 * operator, the devices and the line of the call. Afterwards the previous device is made current
 * again, also if the implementation failed. If that fails, the call fails. (Only
 * pto_device_set_current tells the library which device is current. A program that switches devices
 * by other means must call it, too.) */
PTO_API PTO_MUST_CHECK pto_status pto_op_run_at(const pto_op *op, const pto_tensor *outputs,
                                                size_t n_outputs, const pto_tensor *inputs,
                                                size_t n_inputs, const void *params,
                                                const char *file, int line);

#define pto_op_run(op, ...) pto_op_run_at((op), __VA_ARGS__, __FILE__, __LINE__)

/* ---- As a task ----------------------------------------------------------------------------- */

#define PTO_OP_PARAMS 128 /* most bytes of the params of a task */

/* Submits an operator as a task. It runs on a VECTOR worker of the device where its tensors are, and
 * is ordered by the bytes that it touches. `params_bytes` bytes of `params` are copied, so the pointer
 * need not stay valid. `task` may be NULL. PTO_DEVICES_DIFFER: the tensors are on different devices.
 * PTO_NOT_IMPLEMENTED: the operator has no implementation for the device; or the tasks run in worker
 * processes (pto/process.h), which do not know operators. (pto_submit_rearrange and work requests run
 * there.) The operator must live as long as the task. */
PTO_API PTO_MUST_CHECK pto_status pto_submit_op_at(pto_runtime *rt, const pto_op *op,
                                                   const pto_tensor *outputs, size_t n_outputs,
                                                   const pto_tensor *inputs, size_t n_inputs,
                                                   const void *params, size_t params_bytes,
                                                   pto_task *task, const char *file, int line);

#define pto_submit_op(rt, ...) pto_submit_op_at((rt), __VA_ARGS__, __FILE__, __LINE__)

/* ---- Fill ---------------------------------------------------------------------------------- */

/* Fills a tensor with a number: sets all elements to `value`, converted to the dtype. For an
 * integer dtype the value is truncated toward zero; NaN or a value that does not fit is
 * PTO_BAD_PARAM. For a floating-point dtype it is rounded to nearest even, and to infinity if it is
 * too large. For bool it is compared with 0. Strides are arbitrary and may be 0. */
PTO_API PTO_MUST_CHECK pto_status pto_fill(const pto_tensor *dst, double value);

/* Returns the operator of pto_fill: outputs[0] is the destination, params points to a double. */
PTO_API pto_op *pto_fill_op(void);

#ifdef __cplusplus
}
#endif

#endif /* PTO_OP_H */
