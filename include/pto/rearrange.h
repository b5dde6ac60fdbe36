/* pto/rearrange.h - Rearrange: copy any strided layout to any other, at memory speed.
 *
 *     float image[112][112][64], planes[64][112][112];
 *     pto_tensor src, dst, permuted;
 *     const int64_t hwc[] = {112, 112, 64}, chw[] = {64, 112, 112};
 *     PTO_TRY(pto_tensor_init(&src, image, sizeof image, PTO_FLOAT32, 3, hwc, NULL, 0));
 *     PTO_TRY(pto_tensor_init(&dst, planes, sizeof planes, PTO_FLOAT32, 3, chw, NULL, 0));
 *     PTO_TRY(pto_tensor_permute(&src, (int32_t[]){2, 0, 1}, &permuted)); // a view: nothing moves
 *     PTO_TRY(pto_rearrange(&dst, &permuted));                            // now it does
 *
 * Both tensors have the same shape, dtype and device. Their strides are arbitrary: negative,
 * padded, permuted, and in the source also zero. These errors are possible; pto_error_detail() has
 * the numbers:
 *
 *     PTO_DEVICES_DIFFER   the tensors are on different devices
 *     PTO_BAD_DEVICE       there is no such device
 *     PTO_NOT_IMPLEMENTED  nothing is registered for their device
 *     PTO_BAD_DTYPE        the dtypes differ
 *     PTO_BAD_SHAPE        the shapes differ
 *     PTO_SELF_OVERLAP     two elements of the destination share a byte
 *     PTO_OVERLAP          source and destination share a byte; identical tensors are allowed, and
 *                          nothing is done
 *     PTO_NULL_ARGUMENT    a pointer is NULL, or the memory of a tensor is
 *     PTO_OVERFLOW, PTO_OUT_OF_BOUNDS, ...  a tensor is invalid (pto_tensor_check)
 *     PTO_DEVICE_LOST, PTO_KERNEL_FAILED    the device of the tensors failed
 *
 * On the CPU a copy is complete when the function returns. On a GPU it has only been started then: it
 * is complete after `synchronize` of the device (pto/device.h).
 *
 * The overlap tests are exact. Only a layout with many unrelated strides can take too long to
 * decide. It is refused with the same code, and the detail says so.
 *
 * Empty tensors succeed and nothing is touched. Bytes between the elements of the destination are
 * never touched. Any thread may call.
 */
#ifndef PTO_REARRANGE_H
#define PTO_REARRANGE_H

#include <pto/op.h>
#include <pto/pto.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Immediate copies --------------------------------------------------------------------- */

/* Copies every element of src to the same index of dst. */
PTO_API PTO_MUST_CHECK pto_status pto_rearrange(const pto_tensor *dst, const pto_tensor *src);

/* Copies with several threads, including the calling one. `threads` 0 means one per core. Small
 * copies use fewer threads. Returns when the copy is complete. CPU only. */
PTO_API PTO_MUST_CHECK pto_status pto_rearrange_parallel(const pto_tensor *dst,
                                                         const pto_tensor *src, uint32_t threads);

/* Copies into new memory. Allocates a dense tensor with the shape, dtype and device of src and the
 * last dim fastest. Large tensors use huge pages if the system provides them. pto_rearrange_free
 * frees the memory and zeroes the tensor. A zeroed tensor is allowed. */
PTO_API PTO_MUST_CHECK pto_status pto_rearrange_new(const pto_tensor *src, pto_tensor *dst);
PTO_API void pto_rearrange_free(pto_tensor *dst);

/* Returns the operator of pto_rearrange: outputs[0] = inputs[0]. */
PTO_API pto_op *pto_rearrange_op(void);

/* ---- As tasks ----------------------------------------------------------------------------- */

/* Submits a copy, to workers of type PTO_VECTOR or PTO_ACCELERATOR. A large copy becomes several
 * tasks, each with a view of both tensors. The parts run in parallel, and a task that reads one
 * part waits only for that part. There is one task per MiB, at most 64, and at most a sixteenth of
 * the task ring of the level. A managed dst without memory receives memory. Together the parts
 * count as one write: they heal memory that a failed task should have written.
 *
 * Errors of the two tensors are returned here, not by a task. Only a stall or a cancel can come
 * between the parts; the detail says how many were submitted. pto_last_task is the last part, but
 * other parts may run longer. To wait for all of them call pto_wait, or read dst. (Each worker has
 * its own cache of plans, see below. Making a plan allocates memory.) */
PTO_API PTO_MUST_CHECK pto_status pto_submit_rearrange_at(pto_runtime *rt, const pto_tensor *dst,
                                                          const pto_tensor *src,
                                                          pto_worker_type type, const char *file,
                                                          int line);

#define pto_submit_rearrange(rt, dst, src, type)                                                   \
    pto_submit_rearrange_at((rt), (dst), (src), (type), __FILE__, __LINE__)

/* ---- Plans -------------------------------------------------------------------------------- */

/* A plan: how to make a copy, derived from shape, strides, element size and alignment. The
 * functions above cache the latest plans of each thread and device (see below). A program that
 * repeats one copy can keep its plan. Plans and pto_rearrange_parallel always use the CPU
 * implementation of the library, not the operator's table. */
typedef struct pto_rearrange_plan pto_rearrange_plan;

/* Creates a plan for copies from tensors like `src` to tensors like `dst`. The errors are those of
 * pto_rearrange. The caller destroys the plan. */
PTO_API PTO_MUST_CHECK pto_status pto_rearrange_plan_create(const pto_tensor *dst,
                                                            const pto_tensor *src,
                                                            pto_rearrange_plan **plan);

/* Runs a plan on two tensors. They must have the layout, element size, device and alignment
 * (address modulo 64) of the tensors of the plan; otherwise PTO_BAD_SHAPE, PTO_BAD_DTYPE or
 * PTO_BAD_PLAN. Several threads may run one plan at the same time. */
PTO_API PTO_MUST_CHECK pto_status pto_rearrange_plan_execute(const pto_rearrange_plan *plan,
                                                             const pto_tensor *dst,
                                                             const pto_tensor *src);

/* Destroys a plan that no thread runs any more. NULL is allowed. */
PTO_API void pto_rearrange_plan_destroy(pto_rearrange_plan *plan);

/* Formats a plan as one line of text, like snprintf: "tiles of 16 x 16, 4 bytes each, ..." */
PTO_API size_t pto_rearrange_plan_format(const pto_rearrange_plan *plan, char *text, size_t size);

/* ---- The plan cache ----------------------------------------------------------------------- */

#define PTO_REARRANGE_CACHE 100 /* default number of plans for each thread and device */

/* Statistics of a plan cache. */
typedef struct pto_rearrange_cache_stats {
    uint64_t hits, misses, evictions; /* since the thread started */
    uint64_t plans;                   /* now */
    uint64_t capacity;
} pto_rearrange_cache_stats;

/* Controls the plan cache of the calling thread. pto_rearrange_cache_get returns its statistics for
 * one device. pto_rearrange_cache_resize sets how many plans it may keep for each device (0: none,
 * every call makes its own). The clear functions destroy the plans of one device or of all, with
 * that device current; the counters stay. The plans of a thread are destroyed in the same way when
 * it ends. */
PTO_API PTO_MUST_CHECK pto_status pto_rearrange_cache_get(pto_device device,
                                                          pto_rearrange_cache_stats *stats);
PTO_API PTO_MUST_CHECK pto_status pto_rearrange_cache_resize(uint64_t capacity);
PTO_API PTO_MUST_CHECK pto_status pto_rearrange_cache_clear(pto_device device);
PTO_API PTO_MUST_CHECK pto_status pto_rearrange_cache_clear_all(void);

#ifdef __cplusplus
}
#endif

#endif /* PTO_REARRANGE_H */
