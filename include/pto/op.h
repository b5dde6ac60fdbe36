/* pto/op.h - operators: one name, and an implementation for each type of device.
 *
 *     pto_op_run(op, outputs, 1, inputs, 1, params)
 *
 *     tensors --> all on one device? --> table[type of the device] --> make it current
 *                                                                  --> implementation(call)
 *                                                                  --> make the old one current
 *
 * Rearrange (pto/rearrange.h) and fill are built in, for the CPU. Others are made by anybody:
 *
 *     static pto_status negate_cpu(const pto_op_call *call) { ... call->outputs[0] ... }
 *
 *     pto_op *negate;
 *     pto_op_create("negate", &negate);
 *     pto_op_register(negate, PTO_DEVICE_CPU, negate_cpu, false);
 *     pto_op_run(negate, &y, 1, &x, 1, NULL);
 *
 * Any thread may look up, register and run at any time: whoever looks up sees an implementation
 * whole, the old or the new one.
 */
#ifndef PTO_OP_H
#define PTO_OP_H

#include <pto/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An operator: a name, and a table of implementations. */
typedef struct pto_op pto_op;

/* One call, as an implementation sees it. What the tensors must be like is the operator's to check,
 * but for their devices: they are all on `device`, which is current. */
typedef struct pto_op_call {
    const pto_op *op;
    pto_device device;
    const pto_tensor *outputs, *inputs;
    size_t n_outputs, n_inputs;
    const void *params; /* as given to pto_op_run; may be NULL */
} pto_op_call;

/* An implementation of an operator. One that fails may say why with pto_fail (pto/kernel.h). */
typedef pto_status (*pto_op_fn)(const pto_op_call *call);

/* Makes an operator of one's own, ends it, names it. The name, which is not empty, is copied.
 * Destroy it when nobody runs it any more; NULL is fine, and the built-in ones stay. */
PTO_API pto_status pto_op_create(const char *name, pto_op **op);
PTO_API void pto_op_destroy(pto_op *op);
PTO_API const char *pto_op_name(const pto_op *op);

/* Sets the implementation for one type of device, for some, for all. Where there is one already it
 * stays, unless `replace`. A NULL `fn` with `replace` takes implementations away. Some: all types
 * are checked before anything is set. */
PTO_API pto_status pto_op_register(pto_op *op, pto_device_type type, pto_op_fn fn, bool replace);
PTO_API pto_status pto_op_register_many(pto_op *op, const pto_device_type *types, size_t n,
                                        pto_op_fn fn, bool replace);
PTO_API pto_status pto_op_register_all(pto_op *op, pto_op_fn fn, bool replace);

/* The implementation for a type of device, in one step; PTO_NOT_IMPLEMENTED, with the names of
 * both, if there is none. */
PTO_API pto_status pto_op_lookup(const pto_op *op, pto_device_type type, pto_op_fn *fn);

/* Runs the operator where its tensors are; without any, on the current device. PTO_DEVICES_DIFFER
 * names both if two tensors are not on one device. The device that was current before is made current
 * again, whether the implementation failed or not; if that fails, so does the call. (What is current
 * is known from pto_device_set_current alone: a program that switches devices by other means tells us
 * through that, too.) */
PTO_API pto_status pto_op_run(const pto_op *op, const pto_tensor *outputs, size_t n_outputs,
                              const pto_tensor *inputs, size_t n_inputs, const void *params);

/* ---- Fill ---------------------------------------------------------------------------------- */

/* Fills a tensor with a number: all elements become `value`, converted to the dtype as C converts,
 * to integers toward zero, and PTO_BAD_PARAM if it does not fit or is no number; to floats to the
 * nearest one, of two the even one, and infinite if it is too large; to bool, whether it is not 0.
 * Any strides, also 0. */
PTO_API pto_status pto_fill(const pto_tensor *dst, double value);

/* The operator behind pto_fill: outputs[0], and params points to a double. */
PTO_API pto_op *pto_fill_op(void);

#ifdef __cplusplus
}
#endif

#endif /* PTO_OP_H */
