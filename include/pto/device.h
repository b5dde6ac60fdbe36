/* pto/device.h - devices: memory, copies, and the current device.
 *
 * A tensor is on one device, a task runs where its tensors are (pto/pto.h), and only a copy has
 * tensors on two. Memory of a device is touched by its own kernels and copy functions, never by the
 * host. A device is a table of functions; cpu:0 and the simulated accelerators (pto/sim.h) are built
 * in, and pto_device_add adds others.
 */
#ifndef PTO_DEVICE_H
#define PTO_DEVICE_H

#include <pto/kernel.h>

#ifdef __cplusplus
extern "C" {
#endif

struct pto_gpu_module; /* pto/gpu.h */

/* How an operation of a device reports its end: called once, on any thread, with PTO_OK or with an
 * error whose message was set on that thread (pto_fail). */
typedef void (*pto_device_done)(void *context, pto_status status);

/* The functions of one device. Each receives `self`. A function that may be NULL then does nothing.
 * A function that fails can say why with pto_fail. None is called for 0 bytes. Several threads may
 * call them at the same time: those of runtimes, and the workers of the device. */
typedef struct pto_device_ops {
    size_t size; /* sizeof(pto_device_ops) */
    void *self;
    pto_status (*alloc)(void *self, uint64_t bytes, void **memory); /* aligned to 64 bytes */
    /* If it fails, only pto_fail can say so: then pto_tensor_free returns PTO_BAD_MEMORY. */
    void (*free)(void *self, void *memory, uint64_t bytes);
    /* Copy to the device, and back to the host. A copy may still be in progress when the function
     * returns, until the next `synchronize`. Both sides stay unchanged until then. */
    pto_status (*copy_in)(void *self, void *to, const void *from, uint64_t bytes);
    pto_status (*copy_out)(void *self, void *to, const void *from, uint64_t bytes);
    pto_status (*set_current)(void *self); /* called on the thread that is about to use the device;
                                              may be NULL */
    pto_status (*synchronize)(void *self); /* waits for all copies started so far; may be NULL */
    void *stream; /* for kernels of the device: stream of pto_call and pto_op_call; may be NULL */

    /* All that follows may be 0 or NULL. */

    /* Threads that run kernels of the device in a runtime, for each type of worker. If all are 0,
     * there is one thread for PTO_ACCELERATOR and one for the other types. */
    uint32_t workers[PTO_WORKER_TYPES];
    /* Kernels find the memory of the device at its address plus this. 0: at its address. */
    intptr_t shift;
    /* Begins a copy between tensors of the same shape and dtype, with any strides. One of them is on
     * this device, the other on this device or on the CPU. Both have an address and do not overlap.
     * If PTO_OK is returned, `done` is called when the copy has ended, possibly before the return;
     * until then the memory stays valid. The tensors themselves are only valid during the call.
     * NULL, or if PTO_NOT_IMPLEMENTED is returned: copies are made of copy_in, copy_out and
     * synchronize. */
    pto_status (*copy)(void *self, const pto_tensor *to, const pto_tensor *from,
                       pto_device_done done, void *context);
    /* Begins to set all elements to one value, of which `element` has the bytes. */
    pto_status (*fill)(void *self, const pto_tensor *to, const void *element, pto_device_done done,
                       void *context);
    /* Called on the thread of a worker before each kernel. If it fails, the task fails. */
    pto_status (*begin)(void *self);
    /* How much memory there is, and how much of it is in use. */
    pto_status (*memory)(void *self, uint64_t *bytes, uint64_t *used);
    const char *description; /* one line for `pto info` */

    /* Streams: queues of the device, each of which carries out what it is given in order. With
     * `streams` above 0, kernels of the device *launch*: they put their work on call->stream and
     * return PTO_OK before it is done. The runtime makes so many streams (16 at most), spreads tasks
     * that do not depend on each other, and orders the others on the device. All functions below are
     * needed then, and `workers` has no meaning. One thread of a runtime calls them for its streams
     * and events; other threads may do so for events of their own, on any stream. A kernel may
     * touch memory of its task only through call->stream, also if it returns PTO_PENDING.
     *
     * An event is a mark on a stream. It has passed when all that the stream was given before the
     * mark is done. Recorded again, it is the new mark; streams that wait for the old one go on to
     * do so. `event_wait` lets a stream wait, on the device. An error of record, query or
     * wait means that the device is lost: all tasks that were launched and are not known to be done
     * fail. */
    uint32_t streams;
    pto_status (*stream_create)(void *self, void **stream);
    void (*stream_destroy)(void *self, void *stream); /* after all events on it have passed */
    pto_status (*event_create)(void *self, void **event);
    void (*event_destroy)(void *self, void *event);
    pto_status (*event_record)(void *self, void *event, void *stream);
    pto_status (*event_query)(void *self, void *event, bool *passed);
    pto_status (*event_wait)(void *self, void *stream, void *event);

    /* A device that schedules for itself (pto/gpu.h). `share` makes memory of the host, which begins at
     * a page, usable for code of the device, at the address *there; it stays so until `unshare`.
     * `grid_prepare` loads a module for one runtime, and *blocks of it can be on the device at a time.
     * It refuses if another runtime has a grid there, until that calls `grid_release`. `grid_launch`
     * starts that many; `grid` is an address on the device. `grid_ended` finds out whether the launch
     * before has ended; an error means that the device is lost. The device is current. */
    pto_status (*share)(void *self, void *memory, uint64_t bytes, void **there);
    void (*unshare)(void *self, void *memory, uint64_t bytes);
    pto_status (*grid_prepare)(void *self, const struct pto_gpu_module *module, uint32_t *blocks);
    pto_status (*grid_launch)(void *self, const struct pto_gpu_module *module, const void *grid,
                              uint32_t blocks);
    pto_status (*grid_ended)(void *self, bool *ended);
    void (*grid_release)(void *self);
} pto_device_ops;

/* ---- The table of devices ----------------------------------------------------------------- */

/* The process has one table of devices. Operators (pto/op.h), runtimes and tools use it. cpu:0 and
 * sim:0 to sim:7 (pto/sim.h) are built in and cannot be changed. nvidia:N is added when it is first
 * asked for, if libpto-cuda.so and a GPU are there. Any other CPU index, an unknown type or a
 * negative index is PTO_BAD_DEVICE. Any thread may call these functions. */

/* Adds a device. `ops` is copied and kept until the process ends, so what it points to must stay
 * valid for as long. Each function may be NULL. `alloc` and `free`, both or neither, are needed
 * for results that an operator allocates, and these two, `copy_in` and `copy_out` by pto_execute
 * (pto/execute.h). Adding a device again replaces its functions for later lookups. */
PTO_API PTO_MUST_CHECK pto_status pto_device_add(pto_device device, const pto_device_ops *ops);

/* Gets the functions of a device. PTO_BAD_DEVICE if it was never added. An NVIDIA device need not be
 * added: the library for it, libpto-cuda.so, is loaded when one is first asked for. If that, the
 * driver or the GPU is not there, the detail says so. The copies of such a device go on while the
 * program does, and so do operators on its tensors, until `synchronize`. An operator waits for the
 * copies before it, and a copy for the operators before it; copies to the device and to the host do
 * not wait for each other. */
PTO_API PTO_MUST_CHECK pto_status pto_device_get(pto_device device, pto_device_ops *ops);

/* Lists the devices: cpu:0, then the others by type and index, with sim:0 and those simulated ones
 * that were used at the end. Stores the first `most` in *devices,
 * and their total number in *count. `pto info` prints them. */
PTO_API PTO_MUST_CHECK pto_status pto_device_list(pto_device *devices, size_t most, size_t *count);

/* Makes a dense tensor in new memory of a device, and frees such memory. The contents are undefined.
 * The memory belongs to the program: for a runtime it is external memory. A tensor must be the whole
 * one that pto_tensor_empty made; NULL and a tensor without memory are allowed. Free it when no task
 * uses it any more. PTO_BAD_MEMORY: it is managed memory, or the device says that the memory is not its
 * own; simulated devices do so. */
PTO_API PTO_MUST_CHECK pto_status pto_tensor_empty(pto_device device, pto_dtype dtype, int32_t ndim,
                                                   const int64_t *shape, pto_tensor *t);
PTO_API PTO_MUST_CHECK pto_status pto_tensor_free(pto_tensor *t);

/* Returns the current device of the calling thread. At first it is cpu:0. */
PTO_API pto_device pto_device_current(void);

/* Makes a device current on the calling thread. This calls its `set_current`, if it has one. A
 * device that was never added can be current, too. Nothing is called if the device is already
 * current and was not added again since. On failure the old device stays current. */
PTO_API PTO_MUST_CHECK pto_status pto_device_set_current(pto_device device);

#ifdef __cplusplus
}
#endif

#endif /* PTO_DEVICE_H */
