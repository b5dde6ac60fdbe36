/* rearrange.h - pto_submit_rearrange: a copy between layouts, as tasks. Orchestrator's side. */
#ifndef PTOI_SUBMIT_REARRANGE_H
#define PTOI_SUBMIT_REARRANGE_H

#include "orchestrator/runtime.h"

/* Registers the kernels of pto_submit_rearrange. Called once, by create. */
pto_status ptoi_rearrange_register(pto_runtime *rt);

#endif /* PTOI_SUBMIT_REARRANGE_H */
