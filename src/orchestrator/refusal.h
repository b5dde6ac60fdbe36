/* refusal.h - the first refused call that nobody has acknowledged. Orchestrator's side.
 *
 * A public call that orchestrates does its work in a function of its own and hands the status to
 * ptoi_refusal_note. So the record is made in one place, on the error path alone:
 *
 *     pto_status pto_temp_at(pto_runtime *rt, ..., const char *file, int line)
 *     {
 *         return ptoi_refusal_note(rt, temp(rt, ...), "pto_temp", file, line);
 *     }
 */
#ifndef PTOI_REFUSAL_H
#define PTOI_REFUSAL_H

#include "orchestrator/runtime.h"

/* Keeps the refusal unless another one is kept, and counts it. Returns `status`. Not kept: reports
 * of earlier trouble, calls on a wrong thread, calls after a cancel, and calls that another call of
 * the library made (ptoi_submit_for). */
pto_status ptoi_refusal_keep(pto_runtime *rt, pto_status status, const char *call, const char *file,
                             int line) __attribute__((noinline, cold));

static inline pto_status ptoi_refusal_note(pto_runtime *rt, pto_status status, const char *call,
                                           const char *file, int line)
{
    return PTOI_LIKELY(status == PTO_OK) ? PTO_OK : ptoi_refusal_keep(rt, status, call, file, line);
}

/* The same for a call that waits, and is not refused work: if a worker process is lost, nothing is
 * lost with the call. */
static inline pto_status ptoi_refusal_note_wait(pto_runtime *rt, pto_status status,
                                                const char *call, const char *file, int line)
{
    return status == PTO_WORKER_LOST ? status : ptoi_refusal_note(rt, status, call, file, line);
}

/* Reports the refusal that is kept: PTO_REFUSED, or PTO_OK if there is none. */
pto_status ptoi_refusal_report(const pto_runtime *rt, const char *who)
    __attribute__((noinline, cold));

static inline pto_status ptoi_refusal_verdict(const pto_runtime *rt, const char *who)
{
    return PTOI_LIKELY(rt->refusal.count == 0) ? PTO_OK : ptoi_refusal_report(rt, who);
}

/* Submits a task for another call of the library, which notes a refusal itself. */
pto_status ptoi_submit_for(pto_runtime *rt, pto_kernel kernel, pto_worker_type type,
                           const pto_param *params, size_t n_params, pto_task *task,
                           const char *file, int line);

#endif /* PTOI_REFUSAL_H */
