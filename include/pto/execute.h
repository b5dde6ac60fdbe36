/* pto/execute.h - run an orchestration over data of the host: copy in, run, wait, copy out.
 *
 *     static pto_status scale_all(pto_runtime *rt, const pto_tensor *inputs,
 *                                 const pto_tensor *outputs, void *params)
 *     {
 *         const struct kernels *k = params;
 *         return pto_submit(rt, k->scale, pto_input(&inputs[0]), pto_output(&outputs[0]));
 *     }
 *
 *     pto_execute(rt, scale_all, &a, 1, &b, 1, &kernels);       // b is there when it returns
 */
#ifndef PTO_EXECUTE_H
#define PTO_EXECUTE_H

#include <pto/device.h>
#include <pto/pto.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Devices ----------------------------------------------------------------------------- */

/* Adds a device to the runtime's table, or replaces it. cpu:0 is built in. `ops` is copied; what it
 * points to must live as long as the runtime. The runtime calls it on the orchestrating thread. */
PTO_API pto_status pto_device_register(pto_runtime *rt, pto_device device,
                                       const pto_device_ops *ops);

/* The entry of a device in the runtime's table; PTO_BAD_DEVICE if there is none. */
PTO_API pto_status pto_device_find(pto_runtime *rt, pto_device device, pto_device_ops *ops);

/* ---- Execution --------------------------------------------------------------------------- */

/* An orchestration function. The tensors are on the device: dense, in memory that lives until it
 * has returned and all its tasks are complete. The inputs have the contents of those of the host,
 * the contents of the outputs are undefined: all of them is for the tasks to write. */
typedef pto_status (*pto_orchestration)(pto_runtime *rt, const pto_tensor *inputs,
                                        const pto_tensor *outputs, void *params);

/* Which thread runs the orchestration function. */
typedef enum pto_orchestrator {
    PTO_ON_CALLER = 0, /* on the calling thread */
    PTO_ON_THREAD,     /* on a thread of the device's side, which orchestrates meanwhile */
} pto_orchestrator;

/* Where and how to execute. Zero means default in every field but `size`. */
typedef struct pto_execute_options {
    size_t size;       /* sizeof(pto_execute_options) */
    pto_device device; /* zero: cpu:0 */
    pto_orchestrator orchestrator;
} pto_execute_options;

/* Runs an orchestration over data of the host: waits for what was submitted before, allocates
 * inputs and outputs on the device, copies the inputs in, runs the orchestration, waits for all
 * tasks, copies the outputs out, and frees.
 *
 * The tensors are memory of the user on the CPU, with any strides. An output may share memory with
 * inputs, and not with another output (PTO_OVERLAP). Scopes that the orchestration left open are
 * ended. It may itself call pto_execute.
 *
 * The first thing that goes wrong is returned: a failure from before (then nothing is run), one of
 * a device function, the orchestration's own error, or the first failure of a task, which stays
 * with the runtime until pto_clear_error. The outputs are then as they were, unless it is copying
 * them out that failed: then they are undefined. `options` may be NULL. */
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
