/* failure.c - the first failure, cancelling, and clearing both.
 *
 * Each thread of the scheduler's side keeps the first failure it has seen (W14). The orchestrator
 * takes the one with the lowest order, of these and of those it has found itself. `era` counts
 * calls of pto_clear_error. Failures and cancels of an earlier era are ignored, so neither side has
 * to clear what the other wrote.
 */
#include "orchestrator/failure.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "orchestrator/poison.h"
#include "orchestrator/retire.h"
#include "orchestrator/wait.h"

/* Fills in kernel and submit site of the task. */
static void name(const pto_runtime *rt, ptoi_slot_header header, pto_failure *f)
{
    const ptoi_view *view = &rt->view;
    const ptoi_site *site = &view->sites[header.site];
    f->line = site->line;
    snprintf(f->kernel, sizeof f->kernel, "%s",
             ptoi_string(view, view->kernels[header.kernel].name));
    snprintf(f->file, sizeof f->file, "%s", ptoi_string(view, site->file));
}

void ptoi_failure_add(pto_runtime *rt, const ptoi_slot *slot, pto_status status,
                      const char *message)
{
    pto_failure *f = &rt->damage;
    const uint64_t order = ptoi_order_of(&rt->view, slot);
    if (f->task && f->order <= order) {
        return;
    }
    *f = (pto_failure){.task = ptoi_task_of(slot), .order = order, .status = status};
    name(rt, ptoi_slot_header_of(slot), f);
    snprintf(f->message, sizeof f->message, "%s", message);
}

/* Reads the failure of one thread, which may be writing it. False if there is none of this era. */
static bool read_record(const pto_runtime *rt, const ptoi_failed *r, pto_failure *f)
{
    _Static_assert(sizeof f->message == sizeof r->message, "a record holds a whole message");
    for (uint64_t serial; (serial = ptoi_acquire64(&r->serial)) != 0;) {
        const uint64_t era = ptoi_acquire64(&r->era), word = ptoi_acquire64(&r->header);
        ptoi_slot_header header;
        memcpy(&header, &word, sizeof header);
        *f = (pto_failure){
            .task = ptoi_acquire64(&r->task),
            .order = ptoi_acquire64(&r->order),
            .status = (pto_status)(uint32_t)ptoi_acquire64(&r->status),
        };
        for (size_t i = 0; i < sizeof f->message / 8; i++) {
            const uint64_t part = ptoi_acquire64(&r->message[i]);
            memcpy(f->message + 8 * i, &part, sizeof part);
        }
        if (serial % 2 == 0 && ptoi_acquire64(&r->serial) == serial) {
            name(rt, header, f);
            return era == ptoi_get32(&rt->view.header->era);
        }
        ptoi_os_yield();
    }
    return false;
}

bool ptoi_failure_first(const pto_runtime *rt, pto_failure *failure)
{
    bool found = rt->damage.task != 0;
    if (found) {
        *failure = rt->damage;
    }
    const uint32_t lines = ptoi_get32(&rt->view.header->workers) + PTOI_LINES_MORE;
    for (uint32_t i = 0; i < lines; i++) {
        pto_failure f;
        if (read_record(rt, &rt->view.failures[i], &f) && (!found || f.order < failure->order)) {
            *failure = f;
            found = true;
        }
    }
    return found;
}

pto_status ptoi_failure_verdict(pto_runtime *rt)
{
    pto_failure f;
    const bool failed = ptoi_failure_first(rt, &f), cancelled = ptoi_is_cancelled(&rt->view);
    rt->reported_failure = failed ? f.task : 0;
    rt->reported_cancel = cancelled;
    if (failed) {
        return ptoi_fail(PTO_TASK_FAILED,
                         "task %" PRIu64 " (kernel '%s', submitted at %s:%d) failed: %s: %s",
                         f.order, f.kernel, f.file, f.line, pto_status_name(f.status), f.message);
    }
    if (cancelled) {
        return ptoi_fail(PTO_CANCELLED, "wait: the runtime was cancelled; tasks that had not begun "
                                        "were skipped");
    }
    return PTO_OK;
}

bool ptoi_failure_is_reported(const pto_runtime *rt)
{
    pto_failure f;
    const pto_task first = ptoi_failure_first(rt, &f) ? f.task : 0;
    return first == rt->reported_failure && rt->reported_cancel == ptoi_is_cancelled(&rt->view);
}

pto_status pto_get_failure(pto_runtime *rt, bool *failed, pto_failure *failure)
{
    PTO_TRY(ptoi_runtime_enter(rt, "get a failure"));
    if (!failed || !failure) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "get a failure: %s is NULL",
                         failed ? "failure" : "failed");
    }
    *failed = ptoi_failure_first(rt, failure);
    return PTO_OK;
}

pto_status pto_clear_error(pto_runtime *rt)
{
    PTO_TRY(ptoi_runtime_enter(rt, "clear an error"));
    ptoi_wait_all(rt);
    rt->damage.task = rt->reported_failure = 0;
    ptoi_poison_clear(rt);
    ptoi_count32(&rt->view.header->era, 1); /* W13: no task is unfinished */
    for (uint32_t l = 0; l < rt->levels; l++) {
        ptoi_retire(rt, l);
    }
    return PTO_OK;
}

/* Only sets a flag, so a signal handler may call it. Workers skip tasks as they come to them, and
 * they are awake while there are any. */
void pto_cancel(pto_runtime *rt)
{
    if (rt && rt->forks == ptoi_os_forks && !ptoi_scheduler_cancel(rt->scheduler)) {
        ptoi_release32(&rt->view.header->cancel, ptoi_get32(&rt->view.header->era)); /* W13 */
    }
}

bool pto_is_cancelled(const pto_runtime *rt)
{
    return rt && ptoi_is_cancelled(&rt->view);
}
