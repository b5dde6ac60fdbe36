/* rearrange.h - Rearrange as tasks. */
#ifndef PTOI_SUBMIT_REARRANGE_H
#define PTOI_SUBMIT_REARRANGE_H

#include "orchestrator/runtime.h"

/* Registers the kernels of pto_submit_rearrange, as the runtime is created. */
pto_status ptoi_rearrange_register(pto_runtime *rt);

#endif /* PTOI_SUBMIT_REARRANGE_H */
