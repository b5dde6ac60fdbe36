#include "worker/end.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "worker/guard.h"
#include "worker/pause.h"

/* ---- Failures ---- */

void ptoi_end_keep_failure(const ptoi_scheduler *s, ptoi_failed *f, const ptoi_slot *slot,
                           pto_status status, const char *message)
{
    const uint64_t order = ptoi_order_of(&s->view, slot), serial = ptoi_get64(&f->serial);
    const uint64_t era = ptoi_get32(&s->view.header->era);
    char text[sizeof f->message] = "", label[PTO_LABEL_BYTES] = "";
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
    ptoi_label_read(&s->view.labels[ptoi_slot_index(&s->view, slot)], order, label);
    for (size_t i = 0; i < sizeof label / 8; i++) {
        uint64_t word;
        memcpy(&word, label + 8 * i, sizeof word);
        ptoi_release64(&f->label[i], word);
    }
    ptoi_store_sc64(&f->serial, serial + 2);
}

static void report(ptoi_scheduler *s, const ptoi_worker *worker, uint32_t index, pto_status status,
                   const char *message)
{
    const ptoi_slot *slot = &s->view.slots[index];
    if (worker) {
        ptoi_end_keep_failure(s, &s->view.failures[worker->calls.id], slot, status, message);
        ptoi_log_failed(worker->log, ptoi_task_of(slot), (uint32_t)status, message);
        return;
    }
    pthread_mutex_lock(&s->lock);
    ptoi_end_keep_failure(s, &s->view.failures[s->n_workers + PTOI_LINE_OTHERS + s->process], slot,
                          status, message);
    ptoi_log_failed(s->foreign_log, ptoi_task_of(slot), (uint32_t)status, message);
    pthread_mutex_unlock(&s->lock);
}

/* ---- Endings ---- */

/* Not inlined, since these endings are rare. */
static __attribute__((noinline)) void finish(ptoi_scheduler *s, ptoi_worker *worker, uint32_t index,
                                             ptoi_outcome outcome)
{
    ptoi_finish(s, worker, index, outcome);
}

void ptoi_end_skipped(ptoi_worker *worker, uint32_t index)
{
    finish(worker->sched, worker, index, PTOI_SKIPPED);
}

ptoi_outcome ptoi_end_judge(ptoi_scheduler *s, const ptoi_worker *worker, uint32_t index,
                            pto_status status, const char *message)
{
    if (status == PTO_CANCELLED && ptoi_is_cancelled(&s->view)) {
        return PTOI_SKIPPED; /* it ended early because of the cancel */
    }
    if (status != PTO_OK) {
        report(s, worker, index, status, message);
    }
    return status == PTO_OK ? PTOI_DONE : PTOI_FAILED;
}

static void end_with(ptoi_scheduler *s, ptoi_worker *worker, uint32_t index, pto_status status,
                     const char *message)
{
    finish(s, worker, index, ptoi_end_judge(s, worker, index, status, message));
}

const char *ptoi_end_message(uint64_t errors_before)
{
    return ptoi_error_serial() != errors_before ? pto_error_detail()
                                                : "no message: the kernel did not call pto_fail";
}

void ptoi_end_explain(pto_runtime *rt, pto_task task, const char *text)
{
    ptoi_scheduler *s = ptoi_scheduler_of(rt);
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < PTOI_REASONS_KEPT; i++) {
        if (!s->why[i].task) {
            s->why[i].task = task;
            snprintf(s->why[i].text, sizeof s->why[i].text, "%s", text);
            ptoi_fetch_add32(&s->n_why, 1);
            break;
        }
    }
    pthread_mutex_unlock(&s->lock);
}

/* Takes the reason that was given for the failure of a task; "": none was. */
static void take_reason(ptoi_scheduler *s, pto_task task, char text[256])
{
    text[0] = '\0';
    if (!ptoi_acquire32(&s->n_why)) {
        return; /* the reason of a task is kept before the task is completed, on the same thread */
    }
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < PTOI_REASONS_KEPT; i++) {
        if (s->why[i].task == task) {
            memcpy(text, s->why[i].text, sizeof s->why[i].text);
            s->why[i].task = 0;
            ptoi_fetch_add32(&s->n_why, (uint32_t)-1);
        }
    }
    pthread_mutex_unlock(&s->lock);
}

/* The same for a pending task. */
static void end_pending(ptoi_scheduler *s, ptoi_worker *worker, uint32_t index, pto_status status)
{
    char text[256] = "";
    if (status) {
        take_reason(s, ptoi_task_of(&s->view.slots[index]), text);
    }
    const uint64_t errors_before = ptoi_error_serial();
    if (s->guarded && !(status == PTO_CANCELLED && ptoi_is_cancelled(&s->view))) {
        /* This may be the thread of a device's engine, which would wait for itself. */
        status = ptoi_guard_check(s, &s->view.slots[index], PTOI_GUARD_AT_HAND, status);
    }
    end_with(s, worker, index, status,
             ptoi_error_serial() != errors_before ? pto_error_detail()
             : text[0]                            ? text
                                                  : "completed with this status");
}

void ptoi_end(ptoi_worker *worker, uint32_t index, pto_status status, uint64_t errors_before)
{
    ptoi_scheduler *s = worker->sched;
    ptoi_state *state = &s->view.states[index];
    if (status != PTO_PENDING) {
        end_with(s, worker, index, status, ptoi_end_message(errors_before));
        return;
    }
    uint32_t phase = ptoi_get32(&state->phase);
    while (!ptoi_cas32(&state->phase, &phase, phase | PTOI_PHASE_RETURNED)) { /* W8 */
    }
    if (phase & PTOI_PHASE_COMPLETED) { /* pto_task_complete was faster than the kernel */
        end_pending(s, worker, index, ptoi_phase_status(phase));
    } else if (worker->log) { /* the thread that completes it does not know its start and lane */
        ptoi_log_started(worker->log, ptoi_task_of(&s->view.slots[index]));
    }
}

/* ---- pto_task_complete ---- */

static pto_status no_such_task(pto_task task)
{
    return ptoi_fail(PTO_BAD_TASK, "complete: no task of this runtime has the handle %llu",
                     (unsigned long long)task);
}

/* What a task is that its program wants to complete. */
typedef struct pending {
    const ptoi_slot *slot;
    ptoi_state *state;
    uint32_t phase;
} pending;

/* Whether the task can be completed now: its kernel was called, and it is not complete. */
static pto_status find_pending(const ptoi_view *view, pto_task task, pto_status status, pending *p)
{
    const uint32_t level = (uint32_t)task & 7;
    const uint64_t seq = task >> 3;
    if (status == PTO_PENDING || (uint32_t)status > PTOI_PHASE_STATUS_MASK) {
        return ptoi_fail(PTO_BAD_TASK,
                         "complete: status %d of task %llu: a task ends with PTO_OK or with "
                         "an error from 1 to %u, not with PTO_PENDING",
                         (int)status, (unsigned long long)task, PTOI_PHASE_STATUS_MASK);
    }
    if (level >= view->levels) {
        return no_such_task(task);
    }
    p->slot = ptoi_slot_of(view, level, seq);
    p->state = ptoi_state_of(view, level, seq);
    p->phase = ptoi_acquire32(&p->state->phase);
    const uint32_t lap = ptoi_lap(view, level, seq), its = ptoi_phase_of(p->phase, lap);
    const uint64_t there = ptoi_get64(&p->slot->seq);
    const bool closed = ptoi_list_closed(ptoi_get64(&p->state->waiters), lap) ||
                        ptoi_is_marked_complete(view, p->slot);
    if (there == seq && its & PTOI_PHASE_RUNNING && !(its & PTOI_PHASE_COMPLETED) && !closed) {
        return PTO_OK;
    }
    if (there < seq || seq == 0) {
        return no_such_task(task);
    }
    const bool waits = there == seq && !(its & PTOI_PHASE_RUNNING) && !closed;
    return ptoi_fail(PTO_BAD_TASK, "complete: task handle %llu %s", (unsigned long long)task,
                     waits ? "has not begun" : "is complete already");
}

/* `worker` is NULL on a thread of the program. */
static pto_status complete(ptoi_scheduler *s, ptoi_worker *worker, pto_task task, pto_status status)
{
    const ptoi_view *view = &s->view;
    pending p;
    uint32_t after;
    do {
        PTO_TRY(find_pending(view, task, status, &p));
        after = p.phase | PTOI_PHASE_COMPLETED | (uint32_t)status << PTOI_PHASE_STATUS_SHIFT;
    } while (!ptoi_cas32(&p.state->phase, &p.phase, after)); /* W8 */
    if (p.phase & PTOI_PHASE_RETURNED) {
        end_pending(s, worker, ptoi_slot_index(view, p.slot), status);
    }
    return PTO_OK;
}

void ptoi_end_posted(ptoi_worker *worker, pto_task task, pto_status status)
{
    PTO_IGNORE(complete(worker->sched, worker, task, status));
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
    pto_status result;
    if (s->role == PTOI_ROLE_PROGRAM) {
        pending p;
        result = find_pending(&s->view, task, status, &p);
        result = result ? result : ptoi_post_completion(rt, task, status);
    } else if (s->role == PTOI_ROLE_WORKER) {
        ptoi_pause_guest_enters(s);
        result = complete(s, NULL, task, status);
        ptoi_pause_guest_leaves(s);
    } else {
        result = complete(s, NULL, task, status);
    }
    ptoi_fetch_add32(&s->guests, (uint32_t)-1);
    return result;
}
