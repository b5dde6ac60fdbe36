#include "worker/end.h"

#include <string.h>

#include "base/error.h"
#include "worker/guard.h"

/* ---- Failures ---- */

/* Stores a failure in the record of its thread, if it is the first in order of submission in this
 * era (W14). */
static void keep_failure(const ptoi_scheduler *s, ptoi_failed *f, const ptoi_slot *slot,
                         pto_status status, const char *message)
{
    const uint64_t order = ptoi_order_of(&s->view, slot), serial = ptoi_get64(&f->serial);
    const uint64_t era = ptoi_get32(&s->view.header->era);
    char text[sizeof f->message] = "";
    if (serial && ptoi_get64(&f->era) == era && ptoi_get64(&f->order) <= order) {
        return;
    }
    strncpy(text, message, sizeof text - 1);
    if (!PTOI_MUTANT(NO_MARK)) {
        ptoi_store_sc64(&f->serial, serial + 1);
    }
    ptoi_release64(&f->era, era);
    ptoi_release64(&f->order, order);
    ptoi_release64(&f->task, ptoi_task_of(slot));
    ptoi_release64(&f->status, (uint64_t)(uint32_t)status);
    ptoi_release64(&f->header, ptoi_get64(&slot->header));
    for (size_t i = 0; i < sizeof text / 8; i++) {
        uint64_t word;
        memcpy(&word, text + 8 * i, sizeof word);
        ptoi_release64(&f->message[i], word);
    }
    ptoi_store_sc64(&f->serial, serial + 2);
}

static void report(ptoi_scheduler *s, const ptoi_worker *worker, uint32_t task, pto_status status,
                   const char *message)
{
    const ptoi_slot *slot = &s->view.slots[task];
    if (worker) {
        keep_failure(s, &s->view.failures[worker->id], slot, status, message);
        return;
    }
    pthread_mutex_lock(&s->lock);
    keep_failure(s, &s->view.failures[s->n_workers + PTOI_LINE_OTHERS], slot, status, message);
    pthread_mutex_unlock(&s->lock);
}

/* ---- Endings ---- */

/* Not inlined, since these endings are rare. */
static __attribute__((noinline)) void finish(ptoi_scheduler *s, ptoi_worker *worker, uint32_t task,
                                             ptoi_outcome outcome)
{
    ptoi_finish(s, worker, task, outcome);
}

void ptoi_end_skipped(ptoi_worker *worker, uint32_t task)
{
    finish(worker->sched, worker, task, PTOI_SKIPPED);
}

/* Turns the status of a task into its outcome, reports a failure, and finishes the task. */
static void end_with(ptoi_scheduler *s, ptoi_worker *worker, uint32_t task, pto_status status,
                     const char *message)
{
    if (status == PTO_CANCELLED && ptoi_is_cancelled(&s->view)) {
        finish(s, worker, task, PTOI_SKIPPED); /* it ended early because of the cancel */
        return;
    }
    if (status != PTO_OK) {
        report(s, worker, task, status, message);
    }
    finish(s, worker, task, status == PTO_OK ? PTOI_DONE : PTOI_FAILED);
}

/* The same for a pending task. */
static void end_pending(ptoi_scheduler *s, ptoi_worker *worker, uint32_t task, pto_status status)
{
    const uint64_t words = ptoi_error_serial();
    if (s->guarded && !(status == PTO_CANCELLED && ptoi_is_cancelled(&s->view))) {
        status = ptoi_guard_check(&s->view, &s->view.slots[task], status);
    }
    end_with(s, worker, task, status,
             ptoi_error_serial() != words ? pto_error_detail() : "completed with this status");
}

void ptoi_end(ptoi_worker *worker, uint32_t task, pto_status status, uint64_t words)
{
    ptoi_scheduler *s = worker->sched;
    ptoi_state *state = &s->view.states[task];
    if (status != PTO_PENDING) {
        end_with(s, worker, task, status,
                 ptoi_error_serial() != words ? pto_error_detail() : "the kernel gave no words");
        return;
    }
    uint32_t phase = ptoi_get32(&state->phase);
    while (!ptoi_cas32(&state->phase, &phase, phase | PTOI_PHASE_RETURNED)) { /* W8 */
    }
    if (phase & PTOI_PHASE_COMPLETED) { /* pto_task_complete was faster than the kernel */
        end_pending(s, worker, task, ptoi_phase_status(phase));
    } else if (worker->log) { /* the thread that completes it does not know its start and lane */
        ptoi_log_started(worker->log, ptoi_task_of(&s->view.slots[task]));
    }
}

/* ---- pto_task_complete ---- */

static pto_status complete(ptoi_scheduler *s, pto_task task, pto_status status)
{
    const ptoi_view *view = &s->view;
    const uint32_t level = (uint32_t)task & 7;
    const uint64_t seq = task >> 3;
    if (status == PTO_PENDING || (uint32_t)status > PTOI_PHASE_STATUS_MASK) {
        return ptoi_fail(PTO_BAD_TASK, "complete: status %d of task %llu is no ending", (int)status,
                         (unsigned long long)task);
    }
    if (level >= view->header->levels) {
        return ptoi_fail(PTO_BAD_TASK, "complete: task handle %llu never was",
                         (unsigned long long)task);
    }
    const ptoi_slot *slot = ptoi_slot_of(view, level, seq);
    ptoi_state *state = ptoi_state_of(view, level, seq);
    const uint32_t lap = ptoi_lap(view, level, seq);
    uint32_t phase = ptoi_acquire32(&state->phase), after;
    do {
        const uint64_t there = ptoi_get64(&slot->seq);
        const uint32_t its = ptoi_phase_of(phase, lap);
        const bool closed = ptoi_list_closed(ptoi_get64(&state->waiters), lap) ||
                            ptoi_is_marked_complete(view, slot);
        if (there != seq || !(its & PTOI_PHASE_RUNNING) || its & PTOI_PHASE_COMPLETED || closed) {
            const char *why = "is complete already";
            if (there < seq || seq == 0) {
                why = "never was";
            } else if (there == seq && !(its & PTOI_PHASE_RUNNING) && !closed) {
                why = "has not begun";
            }
            return ptoi_fail(PTO_BAD_TASK, "complete: task handle %llu %s",
                             (unsigned long long)task, why);
        }
        after = phase | PTOI_PHASE_COMPLETED | (uint32_t)status << PTOI_PHASE_STATUS_SHIFT;
    } while (!ptoi_cas32(&state->phase, &phase, after)); /* W8 */
    if (phase & PTOI_PHASE_RETURNED) {
        end_pending(s, NULL, ptoi_slot_number(view, slot), status);
    }
    return PTO_OK;
}

pto_status pto_task_complete(pto_runtime *rt, pto_task task, pto_status status)
{
    if (!rt) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "complete: the runtime is NULL");
    }
    ptoi_scheduler *s = ptoi_scheduler_of(rt);
    PTO_TRY(ptoi_os_same_process(s->forks, "complete"));
    /* When the task is complete the runtime may be destroyed: destroy waits for `guests`. */
    ptoi_fetch_add32(&s->guests, 1);
    const pto_status result = complete(s, task, status);
    ptoi_fetch_add32(&s->guests, (uint32_t)-1);
    return result;
}
