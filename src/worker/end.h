/* end.h - how a task ends: done, failed, skipped or pending; the failures that threads keep. */
#ifndef PTOI_END_H
#define PTOI_END_H

#include "scheduler/complete.h"

/* The kernel of a task has returned something else than PTO_OK. `words` is what ptoi_error_serial
 * was before. */
void ptoi_end(ptoi_worker *worker, uint32_t task, pto_status status, uint64_t words);

/* The task is skipped. */
void ptoi_end_skipped(ptoi_worker *worker, uint32_t task);

#endif /* PTOI_END_H */
