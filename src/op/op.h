/* op.h - the table of an operator: one function for each device type, found with one load.
 *
 * A built-in operator is a static object without initialization at start:
 *
 *     static pto_op rearrange = PTOI_OP_INIT("rearrange", rearrange_cpu, rearrange_sim);
 *     pto_op *pto_rearrange_op(void) { return &rearrange; }
 */
#ifndef PTOI_OP_H
#define PTOI_OP_H

#include <pto/op.h>

#include "base/atomic.h"
#include "device/device.h"

/* A function pointer is stored as a number, so that it is read and replaced atomically. */
_Static_assert(sizeof(pto_op_fn) == sizeof(uint64_t), "a function fits into an atomic number");

struct pto_op {
    const char *name;
    bool built_in;
    /* By device type; 0: no implementation. Registering: release. Running: acquire, so the function
     * sees everything that was set up before it was registered. */
    ptoi_a64 table[PTOI_DEVICE_TYPES];
};

#define PTOI_OP_INIT(op_name, cpu_fn, sim_fn)                                                      \
    {                                                                                              \
        .name = (op_name), .built_in = true,                                                       \
        .table = {                                                                                 \
            [PTO_DEVICE_CPU] = {(uint64_t)(cpu_fn)}, [PTO_DEVICE_SIM] = {(uint64_t)(sim_fn)}},     \
    }

/* pto_op_lookup for one device; the error detail also names its index. */
pto_status ptoi_op_find(const pto_op *op, pto_device device, pto_op_fn *fn);

/* pto_op_run, for calls of the library: errors name no line of the program. */
pto_status ptoi_op_run(const pto_op *op, const pto_tensor *outputs, size_t n_outputs,
                       const pto_tensor *inputs, size_t n_inputs, const void *params);

#endif /* PTOI_OP_H */
