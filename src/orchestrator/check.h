/* check.h - the invariants of a runtime. Orchestrator's side.
 *
 * ptoi_debug_check does nothing unless the build has PTO_DEBUG_CHECKS. */
#ifndef PTOI_CHECK_H
#define PTOI_CHECK_H

#include "orchestrator/runtime.h"

#ifdef PTO_DEBUG_CHECKS
void ptoi_debug_check(pto_runtime *rt);
#else
static inline void ptoi_debug_check(pto_runtime *rt)
{
    (void)rt;
}
#endif

#endif /* PTOI_CHECK_H */
