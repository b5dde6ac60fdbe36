/* pto/work.h - work requests: copies and similar operations of fixed-function engines.
 *
 * A work request is a task of an ACCELERATOR worker: an operation, tensors, and up to sixteen
 * 64-bit parameters. Like every task it is ordered by the memory it touches. It runs on the device of
 * its tensors. They may be on several devices: then it runs on that of the first one, outputs before
 * inputs, that is not on the CPU. The engine of a device works while its kernels run: a request that
 * it has taken is pending until it is done.
 *
 *     PTO_TRY(pto_submit_work(rt, &(pto_work){.opcode = PTO_WORK_COPY, .inputs = &a, .n_inputs = 1,
 *                                             .outputs = &b, .n_outputs = 1}, NULL));
 *
 * Five operations are built in, on every device that can copy. An unknown operation is refused by
 * submit (PTO_BAD_OPCODE). The task fails like any kernel, and pto_wait reports it, if the number of
 * tensors is wrong, if shapes or dtypes do not match, if an index is out
 * of range, or if memory overlaps that must not. All of this is checked before anything is written.
 *
 *     copy          outputs[0] = inputs[0], byte for byte. Both are dense and have the same number
 *                   of bytes; shapes and dtypes may differ. They may overlap, as in memmove.
 *     strided copy  outputs[0] = inputs[0]. Same shape and dtype, any strides.
 *     fill          outputs[0] = params[0] in all elements: its low bytes, as many as an element
 *                   has. Any strides.
 *     gather        outputs[0][i] = inputs[0][inputs[1][i]], along dim 0. The other dims have equal
 *                   sizes, the dtypes are equal, strides are arbitrary. inputs[1] has one dim, and
 *                   int32 or int64 indices from 0 to the size of dim 0 of inputs[0] - 1.
 *     scatter       inouts[0][inputs[1][i]] = inputs[0][i], under the same rules. The rest of
 *                   inouts[0] is unchanged. If an index appears twice, its last element wins.
 *
 * Except in a copy, written and read memory must not share a byte (PTO_OVERLAP). The one exception
 * is a strided copy of a tensor to itself, which does nothing. If the written tensor names a byte
 * more than once, the last element in index order wins, with the last dim fastest.
 *
 * Other operations are the user's: pto_engine_register.
 */
#ifndef PTO_WORK_H
#define PTO_WORK_H

#include <pto/pto.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PTO_WORK_PARAMS 16

/* X(name, value, text, inputs, outputs, inouts) */
#define PTO_WORK_MAP(X)                                                                            \
    X(COPY, 1, "copy", 1, 1, 0)                                                                    \
    X(STRIDED_COPY, 2, "strided copy", 1, 1, 0)                                                    \
    X(FILL, 3, "fill", 0, 1, 0)                                                                    \
    X(GATHER, 4, "gather", 2, 1, 0)                                                                \
    X(SCATTER, 5, "scatter", 2, 0, 1)

/* The operations of work requests. */
typedef enum pto_work_opcode {
    PTO_WORK_NONE = 0, /* an uninitialized request is rejected */
#define PTO_WORK_ENUM(name, value, text, inputs, outputs, inouts) PTO_WORK_##name = (value),
    PTO_WORK_MAP(PTO_WORK_ENUM)
#undef PTO_WORK_ENUM
        PTO_WORK_USER = 1024, /* this and all above are the user's: pto_engine_register */
} pto_work_opcode;

/* Returns the name of an operation: "strided copy"; "invalid" if it is unknown. */
PTO_API const char *pto_work_opcode_name(uint32_t opcode);

/* A work request. */
typedef struct pto_work {
    uint32_t opcode; /* a pto_work_opcode, or one of the user's */
    uint32_t n_inputs, n_outputs, n_inouts;
    const pto_tensor *inputs, *outputs, *inouts; /* read during submit; the pointers are not kept */
    uint64_t params[PTO_WORK_PARAMS];
} pto_work;

/* Submits a work request. `task` receives the handle of the task; it may be NULL. Otherwise it is
 * the same as pto_submit_task. (The macro is variadic so that the request can be written in the call:
 * pto_submit_work(rt, work, task).) */
PTO_API PTO_MUST_CHECK pto_status pto_submit_work_at(pto_runtime *rt, const pto_work *work,
                                                     pto_task *task, const char *file, int line);

#define pto_submit_work(rt, ...) pto_submit_work_at((rt), __VA_ARGS__, __FILE__, __LINE__)

/* ---- Copies ------------------------------------------------------------------------------------ */

/* Submits a copy between two tensors of the same shape and dtype, with any strides, on any two
 * devices. It is a task like any other: ordered by the bytes that it touches, run by the engine of a
 * device while kernels run. Between two devices that do not know each other the data goes through
 * memory of the host.
 *
 *     const pto_device sim0 = {PTO_DEVICE_SIM, 0};
 *     PTO_TRY(pto_temp_on(rt, sim0, x.dtype, x.ndim, x.shape, &a));
 *     PTO_TRY(pto_copy(rt, &a, &x));                                     // host -> sim:0
 *     PTO_TRY(pto_submit(rt, kernel, pto_inout(&a)));
 *     PTO_TRY(pto_copy(rt, &y, &a));                                     // sim:0 -> host
 *     PTO_TRY(pto_wait(rt));
 *
 * PTO_BAD_SHAPE, PTO_BAD_DTYPE: they differ. (pto_read and pto_write copy at once, and take no task.
 * To convert between layouts on one device in parallel, use pto_submit_rearrange.) */
PTO_API PTO_MUST_CHECK pto_status pto_copy_at(pto_runtime *rt, const pto_tensor *dst,
                                              const pto_tensor *src, const char *file, int line);

#define pto_copy(rt, ...) pto_copy_at((rt), __VA_ARGS__, __FILE__, __LINE__)

/* ---- Engines ----------------------------------------------------------------------------------- */

/* One call of an engine. `work` has tensors with addresses, by which functions of a device know its
 * memory (pto/device.h); it is valid during the call only. An engine that returns PTO_PENDING calls
 * pto_task_complete(rt, task, status) when it is done. */
typedef struct pto_work_call {
    const pto_work *work;
    pto_task task;
    pto_runtime *rt;
    pto_device device; /* current on this thread */
    void *stream;      /* of the device; NULL: it has none */
} pto_work_call;

/* An engine: the functions that execute one operation on one device. */
typedef struct pto_engine {
    size_t size; /* sizeof(pto_engine) */
    void *self;  /* passed to each function */
    /* Called by submit. An error refuses the request. May be NULL. */
    pto_status (*check)(void *self, const pto_work *work);
    /* Called on an ACCELERATOR worker of the device when the request may run. Returns PTO_OK,
     * PTO_PENDING or an error, like a kernel. */
    pto_status (*start)(void *self, const pto_work_call *call);
} pto_engine;

/* Adds an engine for an operation on a device, for all runtimes of the process: one of the user's
 * (from PTO_WORK_USER on), or a built-in one that the device does better. `engine` is copied and kept
 * until the process ends. Adding it again replaces it for later requests. Any thread may call it. */
PTO_API PTO_MUST_CHECK pto_status pto_engine_register(pto_device device, uint32_t opcode,
                                                      const pto_engine *engine);

#ifdef __cplusplus
}
#endif

#endif /* PTO_WORK_H */
