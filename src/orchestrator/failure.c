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
#include "base/source.h"
#include "orchestrator/label.h"
#include "orchestrator/poison.h"
#include "orchestrator/process.h"
#include "orchestrator/retire.h"
#include "orchestrator/trace.h"
#include "orchestrator/wait.h"

/* Fills in kernel and submit site of the task. */
static void name(const pto_runtime *rt, uint32_t kernel, uint32_t number, pto_failure *f)
{
    const ptoi_view *view = &rt->view;
    const ptoi_site *site = &view->sites[number];
    f->line = site->line;
    snprintf(f->kernel, sizeof f->kernel, "%s", ptoi_kernel_name(view, kernel));
    snprintf(f->file, sizeof f->file, "%s", ptoi_string(view, site->file));
}

void ptoi_failure_add(pto_runtime *rt, uint32_t level, const ptoi_heap_block *block,
                      pto_status status, const char *message)
{
    pto_failure *f = &rt->damage;
    const pto_task task = block->has_task ? ptoi_task_make(block->until - 1, level) : 0;
    ptoi_trace_failed(rt, task, status, message);
    if (f->status != PTO_OK && f->order <= block->order) {
        return;
    }
    *f = (pto_failure){.task = task, .order = block->order, .status = status};
    name(rt, block->kernel, block->site, f);
    snprintf(f->message, sizeof f->message, "%s", message);
}

/* Reads the failure of one thread, which may be writing it. False if there is none of this era. */
static bool read_record(const pto_runtime *rt, const ptoi_failed *r, pto_failure *f)
{
    _Static_assert(sizeof f->message == sizeof r->message && sizeof f->label == sizeof r->label,
                   "a record holds a whole message and a whole label");
    for (uint64_t serial; (serial = ptoi_acquire64(&r->serial)) != 0;) {
        if (serial % 2 && ptoi_process_is_lost(rt)) {
            return false; /* its thread died while it wrote */
        }
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
        for (size_t i = 0; i < sizeof f->label / 8; i++) {
            const uint64_t part = ptoi_acquire64(&r->label[i]);
            memcpy(f->label + 8 * i, &part, sizeof part);
        }
        if (serial % 2 == 0 && ptoi_acquire64(&r->serial) == serial) {
            name(rt, header.kernel, header.site, f);
            return era == ptoi_get32(&rt->view.header->era);
        }
        ptoi_os_yield();
    }
    return false;
}

bool ptoi_failure_first(const pto_runtime *rt, pto_failure *failure)
{
    bool found = rt->damage.status != PTO_OK;
    if (found) {
        *failure = rt->damage;
    }
    const uint32_t lines = ptoi_lines(&rt->view);
    for (uint32_t i = 0; i < lines; i++) {
        pto_failure f;
        if (read_record(rt, &rt->view.failures[i], &f) && (!found || f.order < failure->order)) {
            *failure = f;
            found = true;
        }
    }
    return found;
}

void ptoi_failure_name(const pto_failure *f, char *text, size_t bytes)
{
    const ptoi_source at = ptoi_source_of(f->file, f->line);
    if (f->task) {
        snprintf(text, bytes, "task %" PRIu64 "%s%s%s (kernel '%s', submitted at %s)", f->order,
                 f->label[0] ? " '" : "", f->label, f->label[0] ? "'" : "", f->kernel, at.text);
    } else {
        snprintf(text, bytes, "the check of the memory that was asked for at %s", at.text);
    }
}

pto_status ptoi_failure_verdict(pto_runtime *rt)
{
    char words[PTOI_STATUS_WORDS], who[PTOI_FAILURE_NAME];
    pto_failure f;
    const bool failed = ptoi_failure_first(rt, &f), cancelled = ptoi_is_cancelled(&rt->view);
    rt->reported_failure = failed ? f.order + 1 : 0;
    rt->reported_cancel = cancelled;
    if (failed) {
        ptoi_failure_name(&f, who, sizeof who);
        return ptoi_fail(PTO_TASK_FAILED, "%s failed: %s: %s%s", who,
                         ptoi_status_words(f.status, words), f.message, ptoi_poison_words(rt));
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
    const uint64_t first = ptoi_failure_first(rt, &f) ? f.order + 1 : 0;
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
    PTO_TRY(ptoi_wait_all(rt));
    rt->damage.status = PTO_OK;
    rt->reported_failure = 0;
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
        ptoi_process_cancelled(rt);
    }
}

bool pto_is_cancelled(const pto_runtime *rt)
{
    return rt && ptoi_is_cancelled(&rt->view);
}
