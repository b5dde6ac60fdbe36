/* refill.h - gives the scheduler's side its work again, after its part of the window was rebuilt
 * (scheduler/rebuild.h). Orchestrator's side. */
#ifndef PTOI_REFILL_H
#define PTOI_REFILL_H

#include "orchestrator/runtime.h"

/* Fills the empty inbox with all tasks that have not begun, in order of submission, and posts again
 * what was not taken or not done. All workers pause. */
void ptoi_refill(pto_runtime *rt);

#endif /* PTOI_REFILL_H */
