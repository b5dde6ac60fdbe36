/* pto/execute.h - run an orchestration on host data: copy in, run, wait, copy out.
 *
 *     static pto_status scale_all(pto_runtime *rt, const pto_tensor *inputs,
 *                                 const pto_tensor *outputs, void *params)
 *     {
 *         const pto_kernel *scale = (const pto_kernel *)params;
 *         return pto_submit(rt, *scale, pto_input(&inputs[0]), pto_output(&outputs[0]));
 *     }
 *
 *     PTO_TRY(pto_execute(rt, scale_all, &a, 1, &b, 1, &kernel)); // b is complete when it returns
 */
#ifndef PTO_EXECUTE_H
#define PTO_EXECUTE_H

#include <pto/device.h>
#include <pto/pto.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Execution --------------------------------------------------------------------------- */

/* An orchestration function. The tensors are dense and on the device, and pto_temp and pto_alloc give
 * memory there, too. Their memory lives until the function has returned and all its tasks are
 * complete. The inputs have the contents of the host inputs; they are copied while the function
 * already submits, and its tasks wait for them. (To touch an input, pto_read it: that waits, too.)
 * The contents of the outputs are undefined: the tasks must write all of them. */
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

/* Runs an orchestration on host data, on a device of the table (pto/device.h). It waits for all
 * earlier tasks, allocates inputs and outputs on the device, submits copies of the inputs, runs the
 * orchestration, submits copies of the outputs, and waits for all tasks. The copies are tasks: the
 * engine of the device makes them while kernels run (pto_copy). Memory on the device is kept for the
 * next call, until the runtime is destroyed.
 *
 * The tensors are user memory on the CPU, with any strides. An output may overlap inputs, but not
 * another output (PTO_OVERLAP). Scopes that the orchestration left open are ended. The
 * orchestration may itself call pto_execute.
 *
 * The first error is returned: an earlier failure or refusal (then nothing is run), an error of a
 * device function, the error that the orchestration returned, the first failure of a task, or a
 * refused call that the orchestration ignored. The failure of a task stays with the runtime until
 * pto_clear_error, a refusal until pto_refused.
 *
 * After an error each output is whole or as it was. If the orchestration returned an error or a call
 * of it was refused, nothing is copied out. If a task failed, the outputs that it and the tasks after
 * it should have written are as they were, and the others are whole. (An output whose own copy failed
 * is as it was on a device that writes nothing then, like the simulated ones; on others a part of it
 * may be written.) `options` may be NULL: then the device is the default one of the runtime. */
PTO_API PTO_MUST_CHECK pto_status pto_execute_at(pto_runtime *rt, pto_orchestration orchestration,
                                                 const pto_tensor *inputs, size_t n_in,
                                                 const pto_tensor *outputs, size_t n_out,
                                                 void *params, const pto_execute_options *options,
                                                 const char *file, int line);

#define pto_execute_ex(rt, ...) pto_execute_at((rt), __VA_ARGS__, __FILE__, __LINE__)

/* The same on the default device: pto_execute(rt, orchestration, inputs, n_in, outputs, n_out,
 * params). */
#define pto_execute(rt, ...) pto_execute_at((rt), __VA_ARGS__, NULL, __FILE__, __LINE__)

#ifdef __cplusplus
}
#endif

#endif /* PTO_EXECUTE_H */
