/* where.h - where a workload computes: the options --device and --place, and the kernels of the device.
 *
 *     --device             place      kernels
 *     none, cpu:0, sim:0   any        C functions, in the file of the workload
 *     nvidia:0             not gpu    nvidia.cu: each launches on a stream
 *     nvidia:0             gpu        gpu.cu: device functions, which a grid on the GPU calls
 *
 * Both .cu files are in libpto-cuda.so, which is loaded when such a device is first used. A kernel is
 * named after its workload there: vector_add. */
#ifndef WORKLOAD_WHERE_H
#define WORKLOAD_WHERE_H

#include "workload.h"

/* The option --device. */
#define WORKLOAD_DEVICE_OPTION                                                                     \
    {                                                                                              \
        .name = "device",                                                                          \
        .help = "where to compute: cpu:0, sim:0, nvidia:0 ... (see pto info); none: in place",     \
        .text = "none"                                                                             \
    }

/* In `prepare`: reads --device, and sets `device` and `elsewhere` of the job. `launched`: the workload
 * has kernels in nvidia.cu. */
pto_status workload_device(workload_job *job, const char *text, bool launched);

/* In `start`: registers a kernel where the workload computes. */
pto_status workload_kernel(workload_job *job, const char *name, pto_worker_type type,
                           pto_kernel_fn fn, pto_kernel *kernel);

/* Whether sums may have another order than in the C functions. */
bool workload_other_kernels(const workload_job *job);

/* Called by the tool for place process: the data must be copied into memory that workers reach. */
pto_status workload_place_process(const workload_job *job);

/* Called by the tool for place gpu: completes the configuration. */
pto_status workload_place_gpu(const workload_job *job, pto_config *config);

#endif /* WORKLOAD_WHERE_H */
