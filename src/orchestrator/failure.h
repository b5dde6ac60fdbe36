/* failure.h - the first failure, in order of submission. Orchestrator's side. */
#ifndef PTOI_FAILURE_H
#define PTOI_FAILURE_H

#include "orchestrator/runtime.h"

/* Records damage to a block that the orchestrator itself has found. It is a failure of the task that
 * brought the block, or of none (task 0). */
void ptoi_failure_add(pto_runtime *rt, uint32_t level, const ptoi_heap_block *block,
                      pto_status status, const char *message);

/* The first failure of either side since the last pto_clear_error; false if there is none. */
bool ptoi_failure_first(const pto_runtime *rt, pto_failure *failure);

/* Who failed, in words: "task 7 (kernel 'gemm', submitted at a.c:12)". */
void ptoi_failure_name(const pto_failure *f, char *text, size_t bytes);

#define PTOI_FAILURE_NAME sizeof(pto_failure) /* bytes that are enough for the words */

/* Reports what went wrong so far: PTO_TASK_FAILED, PTO_CANCELLED or PTO_OK. */
pto_status ptoi_failure_verdict(pto_runtime *rt);

/* Whether ptoi_failure_verdict has already reported the first failure and the cancel, if any. */
bool ptoi_failure_is_reported(const pto_runtime *rt);

#endif /* PTOI_FAILURE_H */
