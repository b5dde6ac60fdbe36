/* end.h - ends a task: done, failed, skipped or pending. Failures are stored in the window. */
#ifndef PTOI_END_H
#define PTOI_END_H

#include "scheduler/complete.h"

/* Ends a task whose kernel did not return PTO_OK. `words` is ptoi_error_serial as it was before the
 * call. */
void ptoi_end(ptoi_worker *worker, uint32_t task, pto_status status, uint64_t words);

/* Ends a task that is skipped. */
void ptoi_end_skipped(ptoi_worker *worker, uint32_t task);

#endif /* PTOI_END_H */
