/* pto/execute.h - run an orchestration on host data: copy in, run, wait, copy out.
 *
 *     static pto_status scale_all(pto_runtime *rt, const pto_tensor *inputs,
 *                                 const pto_tensor *outputs, void *params)
 *     {
 *         const struct kernels *k = params;
 *         return pto_submit(rt, k->scale, pto_input(&inputs[0]), pto_output(&outputs[0]));
 *     }
 *
 *     pto_execute(rt, scale_all, &a, 1, &b, 1, &kernels);       // b is complete when it returns
 */
#ifndef PTO_EXECUTE_H
#define PTO_EXECUTE_H

#include <pto/device.h>
#include <pto/pto.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Devices ----------------------------------------------------------------------------- */

/* Adds a device to the table of the runtime, or replaces it. cpu:0 is built in. `ops` is copied;
 * what it points to must live as long as the runtime. The runtime calls the functions on the
 * orchestrating thread. */
PTO_API pto_status pto_device_register(pto_runtime *rt, pto_device device,
                                       const pto_device_ops *ops);

/* Looks up a device in the table of the runtime. PTO_BAD_DEVICE if it is not there. */
PTO_API pto_status pto_device_find(pto_runtime *rt, pto_device device, pto_device_ops *ops);

/* ---- Execution --------------------------------------------------------------------------- */

/* An orchestration function. The tensors are dense and on the device. Their memory lives until the
 * function has returned and all its tasks are complete. The inputs have the contents of the host
 * inputs. The contents of the outputs are undefined: the tasks must write all of them. */
typedef pto_status (*pto_orchestration)(pto_runtime *rt, const pto_tensor *inputs,
                                        const pto_tensor *outputs, void *params);

/* Which thread runs the orchestration function. */
typedef enum pto_orchestrator {
    PTO_ON_CALLER = 0, /* the calling thread */
    PTO_ON_THREAD,     /* a thread on the device side, which orchestrates for the duration of the
                          call */
} pto_orchestrator;

/* Where and how to execute. In every field but `size`, zero means the default. */
typedef struct pto_execute_options {
    size_t size;       /* sizeof(pto_execute_options) */
    pto_device device; /* zero: cpu:0 */
    pto_orchestrator orchestrator;
} pto_execute_options;

/* Runs an orchestration on host data. It waits for all earlier tasks, allocates inputs and outputs
 * on the device, copies the inputs in, runs the orchestration, waits for all tasks, copies the
 * outputs out and frees the device memory.
 *
 * The tensors are user memory on the CPU, with any strides. An output may overlap inputs, but not
 * another output (PTO_OVERLAP). Scopes that the orchestration left open are ended. The
 * orchestration may itself call pto_execute.
 *
 * The first error is returned: an earlier failure (then nothing is run), an error of a device
 * function, the error that the orchestration returned, or the first failure of a task. The failure
 * of a task stays with the runtime until pto_clear_error. After an error the outputs are unchanged,
 * unless the copy out failed: then they are undefined. `options` may be NULL. */
PTO_API pto_status pto_execute_ex(pto_runtime *rt, pto_orchestration orchestration,
                                  const pto_tensor *inputs, size_t n_in, const pto_tensor *outputs,
                                  size_t n_out, void *params, const pto_execute_options *options);

static inline pto_status pto_execute(pto_runtime *rt, pto_orchestration orchestration,
                                     const pto_tensor *inputs, size_t n_in,
                                     const pto_tensor *outputs, size_t n_out, void *params)
{
    return pto_execute_ex(rt, orchestration, inputs, n_in, outputs, n_out, params, NULL);
}

#ifdef __cplusplus
}
#endif

#endif /* PTO_EXECUTE_H */
