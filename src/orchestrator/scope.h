/* scope.h - when did the scope of a buffer end? Orchestrator's side. */
#ifndef PTOI_SCOPE_H
#define PTOI_SCOPE_H

#include "orchestrator/runtime.h"

/* How the lifetime in which this life was born has ended. NULL if it has not, or if PTOI_ENDS
 * others with managed memory have ended since. */
const ptoi_end *ptoi_scope_end_of(const pto_runtime *rt, uint64_t life);

#endif /* PTOI_SCOPE_H */
