/* builtin.h - the built-in kernels, and the layout of their arguments. Submit writes the arguments
 * (orchestrator/work.c and rearrange.c); workers call the kernels (worker/).
 */
#ifndef PTOI_BUILTIN_H
#define PTOI_BUILTIN_H

#include <pto/op.h>
#include <pto/work.h>

/* A work request (pto/work.h): these scalars, then the inputs, the outputs and the inouts. */
enum {
    PTOI_WORK_OPCODE,
    PTOI_WORK_INPUTS, /* number of inputs */
    PTOI_WORK_OUTPUTS,
    PTOI_WORK_INOUTS,
    PTOI_WORK_PARAMS,
    PTOI_WORK_TENSORS = PTOI_WORK_PARAMS + PTO_WORK_PARAMS,
};

/* Their names. A process that attaches finds them by these. */
#define PTOI_KERNEL_WORK "work"
#define PTOI_KERNEL_REARRANGE "rearrange"

pto_status ptoi_kernel_work(const pto_call *call);

/* One part of a rearrange: two tensors on one device. */
enum { PTOI_REARRANGE_DST, PTOI_REARRANGE_SRC, PTOI_REARRANGE_ARGS };

/* A device as a number. */
static inline uint64_t ptoi_device_word(pto_device device)
{
    return (uint64_t)device.type << 32 | (uint32_t)device.index;
}

static inline pto_device ptoi_device_of_word(uint64_t word)
{
    return (pto_device){(pto_device_type)(word >> 32), (int32_t)(uint32_t)word};
}

/* An operator as a task: these scalars, then the outputs and the inputs. */
enum {
    PTOI_OP_OP,      /* its address: operators live longer than runtimes */
    PTOI_OP_OUTPUTS, /* number of outputs */
    PTOI_OP_BYTES,   /* of its params */
    PTOI_OP_PARAMS,
    PTOI_OP_TENSORS = PTOI_OP_PARAMS + PTO_OP_PARAMS / 8,
};

pto_status ptoi_kernel_op(const pto_call *call);

pto_status ptoi_kernel_rearrange(const pto_call *call);

#endif /* PTOI_BUILTIN_H */
