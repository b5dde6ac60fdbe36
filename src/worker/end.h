/* end.h - ends a task: done, failed, skipped or pending. Failures are stored in the window. */
#ifndef PTOI_END_H
#define PTOI_END_H

#include "scheduler/complete.h"

/* Ends the task in slot `index`, whose kernel did not return PTO_OK. `errors_before` is
 * ptoi_error_serial as it was before the call. */
void ptoi_end(ptoi_worker *worker, uint32_t index, pto_status status, uint64_t errors_before);

/* What the status of a task means for it. A failure is stored, with its message. `worker` is NULL on
 * a thread of the program. */
ptoi_outcome ptoi_end_judge(ptoi_scheduler *s, const ptoi_worker *worker, uint32_t index,
                            pto_status status, const char *message);

/* What a kernel that failed has said since then. */
const char *ptoi_end_message(uint64_t errors_before);

/* Completes a pending task, as the program's process has asked. Does nothing if the task is not
 * pending. */
void ptoi_end_posted(ptoi_worker *worker, pto_task task, pto_status status);

/* Stores a failure in a record of the window, if it is the first there in order of submission in
 * this era (W14). */
void ptoi_end_keep_failure(const ptoi_scheduler *s, ptoi_failed *record, const ptoi_slot *slot,
                           pto_status status, const char *message);

/* Ends a task that is skipped. */
void ptoi_end_skipped(ptoi_worker *worker, uint32_t index);

/* Says why a pending task fails, before pto_task_complete ends it with an error. */
void ptoi_end_explain(pto_runtime *rt, pto_task task, const char *text);

#endif /* PTOI_END_H */
