/* pto/sim.h - simulated accelerators: sim:0, sim:1 ... They are built in, so a program for a device
 * can be developed and tested on any machine.
 *
 *     PTO_TRY(pto_sim_configure(0, &(pto_sim_config){.size = sizeof(pto_sim_config),
 *                                                    .bandwidth = 16000000000, // bytes a second
 *                                                    .latency_ns = 10000}));
 *
 * A simulated device behaves like a real one where it matters:
 *
 *     memory    It is apart from that of the host. Every address of it that a program sees faults
 *               when the host reads or writes it. Only kernels of the device and its copy engine can:
 *               they see the same memory at another address (shift in pto_device_ops).
 *     workers   Threads for CUBE and for VECTOR kernels, which belong to the device. A kernel needs a
 *               variant for PTO_DEVICE_SIM; it is an ordinary C function.
 *     streams   With config.streams, kernels do not work when they are called: they launch. One thread
 *               calls them, they put functions on call->stream (pto_sim_launch) and return. Each stream
 *               calls its functions in order, on a thread of its own. So one can test how kernels of a
 *               GPU are ordered (streams in pto_device_ops).
 *     copies    A copy engine moves data while kernels run, one copy at a time. A copy takes
 *               latency + bytes / bandwidth. The engine sleeps until then; it does not spin.
 *     failures  It can be told to fail.
 *
 * A device exists from its first use on, with the options PTO_SIM_MEMORY, PTO_SIM_BANDWIDTH,
 * PTO_SIM_LATENCY_NS and PTO_SIM_WORKERS. Any thread may call these functions.
 */
#ifndef PTO_SIM_H
#define PTO_SIM_H

#include <pto/device.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PTO_SIM_DEVICES 8      /* sim:0 to sim:7 */
#define PTO_SIM_MAX_WORKERS 16 /* of each type */
#define PTO_SIM_MAX_STREAMS 16

#define PTO_SIM_NO_LIMIT UINT64_MAX
#define PTO_SIM_NO_STREAMS UINT32_MAX

/* The configuration of a simulated device. In every field but `size`, zero means unchanged. */
typedef struct pto_sim_config {
    size_t size;        /* sizeof(pto_sim_config) */
    uint64_t memory;    /* bytes; it costs nothing until it is used */
    uint64_t bandwidth; /* of copies, in bytes a second; or PTO_SIM_NO_LIMIT: as fast as the host */
    uint64_t latency_ns; /* of each copy; PTO_SIM_NO_LIMIT: none */
    uint32_t workers;    /* threads for CUBE kernels, and as many for VECTOR kernels */
    uint32_t streams;    /* for kernels that launch (pto_sim_launch); PTO_SIM_NO_STREAMS: none */
    uint64_t launch_ns;  /* least time of each launch on a stream; PTO_SIM_NO_LIMIT: none */
} pto_sim_config;

/* Changes a device. Bandwidth and latency apply to the copies that begin afterwards, launch_ns to
 * the launches, workers and streams to the runtimes that use the device for the first time
 * afterwards. The memory can be made smaller than PTO_SIM_MEMORY, but not larger, and not smaller
 * than what is in use. */
PTO_API PTO_MUST_CHECK pto_status pto_sim_configure(int32_t index, const pto_sim_config *config);

#define PTO_SIM_LAUNCH_BYTES 512 /* most bytes of the arguments of a launch */

/* Puts a call of `fn` on a stream of a simulated device: call->stream of a kernel. `bytes` bytes of
 * `args` are copied, and `fn` gets the copy. It is called when all that was put on the stream before
 * is done.
 *     static void twice(void *args) // on the stream
 *     {
 *         **(float **)args *= 2;
 *     }
 *     static pto_status twice_kernel(const pto_call *call)
 *     {
 *         return pto_sim_launch(call->stream, twice, &call->args[0].data, sizeof(void *));
 *     }
 */
PTO_API PTO_MUST_CHECK pto_status pto_sim_launch(void *stream, void (*fn)(void *args),
                                                 const void *args, size_t bytes);

/* What a simulated device can be told to fail at. */
typedef enum pto_sim_fault {
    PTO_SIM_FAIL_ALLOC,  /* an allocation: PTO_OUT_OF_MEMORY */
    PTO_SIM_FAIL_COPY,   /* a copy or a fill, which then writes nothing: PTO_SYSTEM */
    PTO_SIM_FAIL_KERNEL, /* the start of a kernel, which is then not called: PTO_KERNEL_FAILED */
    PTO_SIM_FAIL_LOST, /* the whole device, counted in operations of any kind: PTO_DEVICE_LOST from
                            then on, until pto_sim_repair */
    PTO_SIM_FAULTS,    /* number of faults */
} pto_sim_fault;

/* Lets the n-th such operation from now on fail; 1: the next one; 0: none. Each call replaces the
 * one before for that fault. */
PTO_API PTO_MUST_CHECK pto_status pto_sim_fail(int32_t index, pto_sim_fault fault, uint64_t n);

/* Lets nothing fail any more. A device that was lost works again, with its memory as it was. */
PTO_API PTO_MUST_CHECK pto_status pto_sim_repair(int32_t index);

/* What a simulated device has done. */
typedef struct pto_sim_stats {
    uint64_t memory, used, peak; /* bytes of its memory; allocated now; the most ever */
    uint64_t blocks;             /* allocated now */
    uint64_t copies;             /* and fills, that are complete */
    uint64_t bytes;              /* that they moved */
    uint64_t busy_ns;            /* time in which its engine was busy */
    uint64_t kernels;            /* that have begun */
    uint64_t faults;             /* operations that failed because they were told to */
} pto_sim_stats;

/* Gets the statistics of a device, which is created if it does not exist yet. */
PTO_API PTO_MUST_CHECK pto_status pto_sim_stats_get(int32_t index, pto_sim_stats *stats);

#ifdef __cplusplus
}
#endif

#endif /* PTO_SIM_H */
