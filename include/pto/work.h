/* pto/work.h - work requests: copies and similar operations of fixed-function engines.
 *
 * A work request is a task of an ACCELERATOR worker: an operation, tensors, and up to sixteen
 * 64-bit parameters. Like every task it is ordered by the memory it touches.
 *
 *     pto_submit_work(rt, &(pto_work){.opcode = PTO_WORK_COPY, .inputs = &a, .n_inputs = 1,
 *                                     .outputs = &b, .n_outputs = 1}, NULL);
 *
 * Five operations are built in. The task fails like any kernel, and pto_wait reports it, if the
 * operation or the number of tensors is wrong, if shapes or dtypes do not match, if an index is out
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
 * (For other operations, register a kernel of type PTO_ACCELERATOR.)
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
} pto_work_opcode;

/* Returns the name of an operation: "strided copy"; "invalid" if it is unknown. */
PTO_API const char *pto_work_opcode_name(uint32_t opcode);

/* A work request. */
typedef struct pto_work {
    uint32_t opcode; /* a pto_work_opcode */
    uint32_t n_inputs, n_outputs, n_inouts;
    const pto_tensor *inputs, *outputs, *inouts; /* read during submit; the pointers are not kept */
    uint64_t params[PTO_WORK_PARAMS];
} pto_work;

/* Submits a work request. `task` receives the handle of the task; it may be NULL. Otherwise it is
 * the same as pto_submit_task. */
PTO_API pto_status pto_submit_work_at(pto_runtime *rt, const pto_work *work, pto_task *task,
                                      const char *file, int line);

#define pto_submit_work(rt, work, task) pto_submit_work_at((rt), (work), (task), __FILE__, __LINE__)

#ifdef __cplusplus
}
#endif

#endif /* PTO_WORK_H */
