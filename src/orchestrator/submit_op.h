/* submit_op.h - operators as tasks. Orchestrator's side. */
#ifndef PTOI_SUBMIT_OP_H
#define PTOI_SUBMIT_OP_H

#include <pto/pto.h>

/* Registers the kernels. Called once, by create. */
pto_status ptoi_op_register_kernels(pto_runtime *rt);

#endif /* PTOI_SUBMIT_OP_H */
