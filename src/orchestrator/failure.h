/* failure.h - the first failure, by order of submission. */
#ifndef PTOI_FAILURE_H
#define PTOI_FAILURE_H

#include "orchestrator/runtime.h"

/* A failure that the orchestrator's side has found itself. */
void ptoi_failure_add(pto_runtime *rt, const ptoi_slot *slot, pto_status status,
                      const char *message);

/* The first failure of either side since the last pto_clear_error; false if there is none. */
bool ptoi_failure_first(const pto_runtime *rt, pto_failure *failure);

/* What went wrong so far, in words: PTO_TASK_FAILED, PTO_CANCELLED or PTO_OK. */
pto_status ptoi_failure_verdict(pto_runtime *rt);

/* Whether a verdict has named all there is to say. */
bool ptoi_failure_is_told(const pto_runtime *rt);

#endif /* PTOI_FAILURE_H */
