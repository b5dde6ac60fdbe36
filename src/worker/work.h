/* work.h - work requests (pto/work.h) are tasks of one kernel that the runtime brings along.
 *
 * What such a task is given, in this order:
 *     scalars  opcode, n_inputs, n_outputs, n_inouts, params[16]
 *     tensors  the inputs, the outputs, the inouts
 */
#ifndef PTOI_WORK_H
#define PTOI_WORK_H

#include <pto/work.h>

/* Makes the kernel known to a runtime, as it is created. */
pto_status ptoi_work_register(pto_runtime *rt, pto_kernel *kernel);

#endif /* PTOI_WORK_H */
