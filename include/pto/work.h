/* pto/work.h - work requests: what fixed-function engines do, copies and the like.
 *
 * A work request is a task of an ACCELERATOR worker: an operation, tensors, and up to sixteen
 * 64-bit parameters. It is ordered with all other tasks by the memory it touches.
 *
 *     pto_submit_work(rt, &(pto_work){.opcode = PTO_WORK_COPY, .inputs = &a, .n_inputs = 1,
 *                                     .outputs = &b, .n_outputs = 1}, NULL);
 *
 * Five operations are built in. A wrong operation, a wrong number of tensors, shapes and dtypes that
 * do not fit, an index out of range or memory that must not be shared are failures of the task, as
 * of any kernel: pto_wait tells. All is checked before anything is written.
 *
 *     copy          outputs[0] = inputs[0], byte for byte. Both dense, as many bytes; shapes and
 *                   dtypes may differ. They may share memory: all is read before it is overwritten.
 *     strided copy  outputs[0] = inputs[0]. Same shape and dtype, any strides.
 *     fill          outputs[0] = params[0], in all elements: its low bytes, as many as an element
 *                   has. Any strides.
 *     gather        outputs[0][i] = inputs[0][inputs[1][i]], along dim 0. The other dims of both
 *                   are of the same sizes, the dtypes are equal, strides are any. inputs[1] has one
 *                   dim, and int32 or int64 indices from 0 to the size of dim 0 of inputs[0] - 1.
 *     scatter       inouts[0][inputs[1][i]] = inputs[0][i], likewise; the rest of inouts[0] stays
 *                   as it is. Of equal indices the last one stays.
 *
 * But for copy, what is written may share no byte with what is read (PTO_OVERLAP); only a strided
 * copy of a tensor to itself is fine, and does nothing. Where a tensor to be written names a place
 * more than once, what comes last stays, in the order of the indices, the last dim fastest.
 *
 * (For operations of one's own, register a kernel of type PTO_ACCELERATOR.)
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
    PTO_WORK_NONE = 0, /* a forgotten one is noticed */
#define PTO_WORK_ENUM(name, value, text, inputs, outputs, inouts) PTO_WORK_##name = (value),
    PTO_WORK_MAP(PTO_WORK_ENUM)
#undef PTO_WORK_ENUM
} pto_work_opcode;

/* Name of an operation: "strided copy"; "invalid" for an unknown one. */
PTO_API const char *pto_work_opcode_name(uint32_t opcode);

/* A work request. */
typedef struct pto_work {
    uint32_t opcode; /* a pto_work_opcode */
    uint32_t n_inputs, n_outputs, n_inouts;
    const pto_tensor *inputs, *outputs, *inouts; /* read during submit, not kept */
    uint64_t params[PTO_WORK_PARAMS];
} pto_work;

/* Submits a work request; `task`, if not NULL, is set. As pto_submit_task in all else. */
PTO_API pto_status pto_submit_work_at(pto_runtime *rt, const pto_work *work, pto_task *task,
                                      const char *file, int line);

#define pto_submit_work(rt, work, task) pto_submit_work_at((rt), (work), (task), __FILE__, __LINE__)

#ifdef __cplusplus
}
#endif

#endif /* PTO_WORK_H */
