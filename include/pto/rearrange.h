/* pto/rearrange.h - Rearrange: any strided layout to any other, at the speed of memory.
 *
 *     float image[112][112][64], planes[64][112][112];
 *     pto_tensor src, dst, permuted;
 *     pto_tensor_init(&src, image, sizeof image, PTO_FLOAT32, 3, (int64_t[]){112, 112, 64}, NULL, 0);
 *     pto_tensor_init(&dst, planes, sizeof planes, PTO_FLOAT32, 3, (int64_t[]){64, 112, 112}, NULL, 0);
 *     pto_tensor_permute(&src, (int32_t[]){2, 0, 1}, &permuted);   // a view: nothing moves
 *     pto_rearrange(&dst, &permuted);                              // now it does
 *
 * Both tensors have the same shape, dtype and device; strides are any: negative, padded, permuted,
 * in the source also zero. What is refused, with the numbers in pto_error_detail():
 *
 *     PTO_DEVICES_DIFFER   they are on two devices
 *     PTO_BAD_DEVICE       there is no such device
 *     PTO_NOT_IMPLEMENTED  nothing was registered for the device they are on
 *     PTO_BAD_DTYPE        the dtypes differ
 *     PTO_BAD_SHAPE        the shapes differ
 *     PTO_SELF_OVERLAP     two elements of the destination share a byte
 *     PTO_OVERLAP          source and destination share a byte; only the very same layout at the same
 *                          place is fine, and nothing is done then
 *     PTO_NULL_ARGUMENT    a pointer is NULL, or the memory of a tensor is
 *     PTO_OVERFLOW, PTO_OUT_OF_BOUNDS, ...  a tensor that is not sound (pto_tensor_check)
 *
 * Whether bytes are shared is found exactly. Only a layout of many unrelated strides may be too tangled
 * for that in reasonable time; it is refused with the same code, and the detail says so.
 *
 * Tensors without elements succeed and touch nothing. No byte between the elements of the
 * destination is ever touched. Any thread may call.
 */
#ifndef PTO_REARRANGE_H
#define PTO_REARRANGE_H

#include <pto/op.h>
#include <pto/pto.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- At once ------------------------------------------------------------------------------ */

/* Copies all elements of src to their places in dst. */
PTO_API pto_status pto_rearrange(const pto_tensor *dst, const pto_tensor *src);

/* Rearranges by several threads, the calling one included: 0 means one for each core, and a copy
 * too small to gain by it takes fewer. Returns when all is done. CPU only. */
PTO_API pto_status pto_rearrange_parallel(const pto_tensor *dst, const pto_tensor *src,
                                          uint32_t threads);

/* Rearranges into new memory: allocates a dense tensor of src's shape, dtype and device (last dim
 * fastest; memory of large ones in huge pages where the system gives them), and copies.
 * pto_rearrange_free gives the memory back and zeroes the tensor; a zeroed one is fine. */
PTO_API pto_status pto_rearrange_new(const pto_tensor *src, pto_tensor *dst);
PTO_API void pto_rearrange_free(pto_tensor *dst);

/* The operator behind pto_rearrange: outputs[0] = inputs[0]. */
PTO_API pto_op *pto_rearrange_op(void);

/* ---- As tasks ----------------------------------------------------------------------------- */

/* Submits a rearrangement, to workers of type PTO_VECTOR or PTO_ACCELERATOR. A large one becomes
 * several tasks, each with a view of both tensors: parts run side by side, and whoever needs a part
 * waits for that part alone. There is one for each MiB, at most 64 of them, and at most a sixteenth
 * of the window of the level. A managed dst without memory gets it. Together they count as one
 * write: memory that a failed task was to write is good again.
 *
 * What is wrong with the two tensors together is refused here, not by a task. Only a stall or a
 * cancel may come between the parts; the detail says how many were submitted. pto_last_task is the
 * last of the parts, and others may run longer: to wait for all of them, pto_wait or read dst.
 * (Each worker keeps plans of its own, see below; to make one takes memory from the system.) */
PTO_API pto_status pto_submit_rearrange_at(pto_runtime *rt, const pto_tensor *dst,
                                           const pto_tensor *src, pto_worker_type type,
                                           const char *file, int line);

#define pto_submit_rearrange(rt, dst, src, type)                                                   \
    pto_submit_rearrange_at((rt), (dst), (src), (type), __FILE__, __LINE__)

/* ---- Plans -------------------------------------------------------------------------------- */

/* How a copy will be made, as it follows from shape, strides, size of an element and alignment. The
 * calls above keep the latest ones of each thread and device (see below). Whoever makes the same
 * copy again and again may keep the plan. Plans, and pto_rearrange_parallel, are of the CPU's own
 * implementation: they do not look into the operator's table. */
typedef struct pto_rearrange_plan pto_rearrange_plan;

/* Makes a plan for copies from tensors like `src` to tensors like `dst`. What pto_rearrange refuses
 * is refused here. The plan is the caller's to destroy. */
PTO_API pto_status pto_rearrange_plan_create(const pto_tensor *dst, const pto_tensor *src,
                                             pto_rearrange_plan **plan);

/* Runs a plan on two tensors. They have the layout, size of elements, device and alignment (address
 * modulo 64) of those it was made for, or it is PTO_BAD_SHAPE, PTO_BAD_DTYPE, PTO_BAD_PLAN. Any
 * number of threads may run one plan at a time. */
PTO_API pto_status pto_rearrange_plan_execute(const pto_rearrange_plan *plan, const pto_tensor *dst,
                                              const pto_tensor *src);

/* Destroys a plan that nobody runs any more. NULL is fine. */
PTO_API void pto_rearrange_plan_destroy(pto_rearrange_plan *plan);

/* Writes one readable line about what a plan does, as snprintf: "tiles of 16 x 16, 4 bytes each,
 * ..." */
PTO_API size_t pto_rearrange_plan_format(const pto_rearrange_plan *plan, char *text, size_t size);

/* ---- The cache of plans ------------------------------------------------------------------- */

#define PTO_REARRANGE_CACHE 100 /* plans for each thread and device, unless said otherwise */

/* What a cache of plans did. */
typedef struct pto_rearrange_cache_stats {
    uint64_t hits, misses, evictions; /* since the thread began */
    uint64_t plans;                   /* now */
    uint64_t capacity;
} pto_rearrange_cache_stats;

/* The cache of plans of the calling thread, and of no other: what that of a device did, and how
 * many plans it may keep from now on for each device (0: none, every call makes its own). Clear
 * destroys the plans of one device or of all, with that device current; counts stay. What a thread
 * keeps goes when it ends, in the same way. */
PTO_API pto_status pto_rearrange_cache_get(pto_device device, pto_rearrange_cache_stats *stats);
PTO_API pto_status pto_rearrange_cache_resize(uint64_t capacity);
PTO_API pto_status pto_rearrange_cache_clear(pto_device device);
PTO_API pto_status pto_rearrange_cache_clear_all(void);

#ifdef __cplusplus
}
#endif

#endif /* PTO_REARRANGE_H */
