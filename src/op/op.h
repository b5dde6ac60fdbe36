/* op.h - the table behind an operator: one function for each type of device, one load to find it.
 *
 * A built-in operator is a static object that needs nothing done at start:
 *
 *     static pto_op rearrange = PTOI_OP_INIT("rearrange", rearrange_cpu);
 *     pto_op *pto_rearrange_op(void) { return &rearrange; }
 */
#ifndef PTOI_OP_H
#define PTOI_OP_H

#include <pto/op.h>

#include "base/atomic.h"
#include "op/device.h"

/* A function lies in a number, so that it is found and changed in one piece. */
_Static_assert(sizeof(pto_op_fn) == sizeof(uint64_t), "a function fits into an atomic number");

struct pto_op {
    const char *name;
    bool built_in;
    /* By device type; 0: no implementation. Written by whoever registers (release), read by whoever
     * runs (acquire): what was set up before registering is there for the function. */
    ptoi_a64 table[PTOI_DEVICE_TYPES];
};

#define PTOI_OP_INIT(op_name, cpu_fn)                                                              \
    {                                                                                              \
        .name = (op_name), .built_in = true, .table = {[PTO_DEVICE_CPU] = {(uint64_t)(cpu_fn)}},   \
    }

/* pto_op_lookup for one device, whose index the words name, too. */
pto_status ptoi_op_find(const pto_op *op, pto_device device, pto_op_fn *fn);

#endif /* PTOI_OP_H */
