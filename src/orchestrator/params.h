/* params.h - slow path: are the parameters valid, and what do they need? Orchestrator's side. */
#ifndef PTOI_PARAMS_H
#define PTOI_PARAMS_H

#include "orchestrator/slow.h"

/* Checks all parameters and adds up what they need. */
pto_status ptoi_slow_read(ptoi_slow *d);

/* Prefixes the error text with the number of the parameter. */
__attribute__((cold)) pto_status ptoi_slow_accuse(size_t param, pto_status status);

/* Does so if `status` is an error. */
static inline pto_status ptoi_slow_blame(size_t param, pto_status status)
{
    return status == PTO_OK ? PTO_OK : ptoi_slow_accuse(param, status);
}

#endif /* PTOI_PARAMS_H */
