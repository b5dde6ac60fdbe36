/* refusal.c - the first refused call that nobody has acknowledged.
 *
 * A program that drops a status would otherwise lose work without notice. The record changes
 * nothing else: no task is skipped, and no memory is poisoned.
 */
#include "orchestrator/refusal.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "base/source.h"

/* Whether the status reports earlier trouble, so that the call itself was in order. */
static bool is_report(pto_status status)
{
    return status == PTO_TASK_FAILED || status == PTO_POISONED || status == PTO_CANCELLED ||
           status == PTO_REFUSED;
}

pto_status ptoi_refusal_keep(pto_runtime *rt, pto_status status, const char *call, const char *file,
                             int line)
{
    if (!ptoi_runtime_is_ours(rt) || rt->submits_for || is_report(status) ||
        ptoi_is_cancelled(&rt->view)) {
        return status;
    }
    pto_refusal *r = &rt->refusal;
    if (r->count++ == 0) {
        r->status = status;
        r->call = call;
        r->line = file ? line : 0;
        snprintf(r->file, sizeof r->file, "%s", file ? file : "");
        snprintf(r->message, sizeof r->message, "%s", pto_error_detail());
    }
    return status;
}

pto_status ptoi_refusal_report(const pto_runtime *rt, const char *who)
{
    const pto_refusal *r = &rt->refusal;
    char others[64] = "";
    if (r->count > 1) {
        snprintf(others, sizeof others, ", the first of %" PRIu64 " refused calls", r->count);
    }
    return ptoi_fail(PTO_REFUSED, "%s: the %s at %s was refused with %s%s: %s", who, r->call,
                     ptoi_source_of(r->file, r->line).text, pto_status_name(r->status), others,
                     r->message);
}

bool pto_refused(pto_runtime *rt, pto_refusal *refusal)
{
    if (!ptoi_runtime_is_ours(rt) || rt->refusal.count == 0) {
        return false;
    }
    if (refusal) {
        *refusal = rt->refusal;
    }
    rt->refusal.count = 0;
    return true;
}

pto_status ptoi_submit_for(pto_runtime *rt, pto_kernel kernel, pto_worker_type type,
                           const pto_param *params, size_t n_params, pto_task *task,
                           const char *file, int line)
{
    PTO_TRY(ptoi_runtime_enter(rt, "submit"));
    rt->submits_for = true;
    const pto_status s = pto_submit_task_at(rt, kernel, type, params, n_params, task, file, line);
    rt->submits_for = false;
    return s;
}
