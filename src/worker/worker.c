/* worker.c - the threads that run kernels: find a task, resolve its arguments, call, finish. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "scheduler/step.h"
#include "worker/guard.h"

/* ---- One task ---- */

/* What a kernel sees, from what the window holds. */
static void resolve(const ptoi_sched *sched, const ptoi_slot *slot, pto_arg *args)
{
    const ptoi_packed *packed = sched->view.level[ptoi_what_of(slot).level].args + slot->args;
    for (pto_arg *arg = args, *end = args + slot->n_args; arg != end; arg++) {
        if (__builtin_expect(ptoi_packed_is_scalar(packed), 0)) {
            *arg = (pto_arg){.dtype = (pto_dtype)packed->form};
            arg->u64 = packed->value;
            packed++;
            continue;
        }
        const ptoi_form *form = ptoi_packed_form(&sched->view, packed);
        arg->data = (char *)(uintptr_t)packed->value;
        if (packed->segment != PTOI_SEGMENT_USER) {
            arg->data = sched->view.level[packed->segment].heap + packed->value;
        }
        arg->shape = form->dims;
        arg->strides = form->dims + form->ndim;
        memcpy(&arg->ndim, &form->ndim, 8); /* and dtype */
        arg->u64 = 0;
        packed += __builtin_expect(packed->form != 0, 1) ? 1 : ptoi_packed_units(form->ndim);
    }
}

void ptoi_worker_report(ptoi_sched *sched, const ptoi_slot *slot, pto_status status,
                        const char *message)
{
    const ptoi_view *view = &sched->view;
    pthread_mutex_lock(&sched->lock);
    const ptoi_what what = ptoi_what_of(slot);
    const uint64_t order = ptoi_order_of(view, slot);
    if (!sched->has_failure || order < sched->failure.order) {
        pto_failure *f = &sched->failure;
        const ptoi_site *site = &view->sites[what.site];
        memset(f, 0, sizeof *f);
        f->task = ptoi_task_of(slot);
        f->order = order;
        f->status = status;
        f->line = site->line;
        snprintf(f->kernel, sizeof f->kernel, "%s",
                 ptoi_string(view, view->kernels[what.kernel].name));
        snprintf(f->file, sizeof f->file, "%s", ptoi_string(view, site->file));
        snprintf(f->message, sizeof f->message, "%s", message);
        sched->has_failure = true;
        sched->told = false;
    }
    pthread_mutex_unlock(&sched->lock);
}

/* The end of a task that is not the usual one. */
static __attribute__((noinline)) void finish(ptoi_sched *sched, ptoi_worker *worker, uint32_t task,
                                             ptoi_outcome outcome)
{
    ptoi_sched_finish(sched, worker, task, outcome);
}

/* The status that a task ended with becomes its outcome. */
static void settle(ptoi_sched *sched, ptoi_worker *worker, uint32_t task, pto_status status,
                   const char *message)
{
    if (status != PTO_OK) {
        ptoi_worker_report(sched, &sched->view.slots[task], status, message);
    }
    finish(sched, worker, task, status == PTO_OK ? PTOI_DONE : PTOI_FAILED);
}

/* The same for a task that was pending. */
static void settle_pending(ptoi_sched *sched, ptoi_worker *worker, uint32_t task, pto_status status)
{
    uint64_t words = ptoi_error_serial();
    if (status == PTO_CANCELLED && ptoi_get32(&sched->view.header->cancelled)) {
        finish(sched, worker, task, PTOI_SKIPPED); /* as if its kernel had returned it */
        return;
    }
    if (sched->guard) {
        status = ptoi_guard_check(sched, &sched->view.slots[task], status);
    }
    settle(sched, worker, task, status,
           ptoi_error_serial() != words ? pto_error_detail() : "completed with this status");
}

/* The kernel is about to be called. The watcher comes first: his time is not the task's. */
static __attribute__((noinline)) void tell_started(const ptoi_worker *worker, pto_task task)
{
    const pto_watcher *w = &worker->sched->watcher;
    if (w->started) {
        w->started(w->user, task, worker->id);
    }
    if (worker->log) {
        worker->log->began = ptoi_ticks();
    }
}

void ptoi_worker_end(ptoi_worker *worker, uint32_t task, pto_status status, uint64_t words)
{
    ptoi_sched *sched = worker->sched;
    ptoi_state *state = &sched->view.states[task];
    if (status == PTO_CANCELLED && ptoi_get32(&sched->view.header->cancelled)) {
        finish(sched, worker, task, PTOI_SKIPPED); /* it ended early, as it was asked to */
        return;
    }
    if (status != PTO_PENDING) {
        settle(sched, worker, task, status,
               ptoi_error_serial() != words ? pto_error_detail() : "the kernel gave no words");
        return;
    }
    uint32_t phase = ptoi_get32(&state->phase);
    while (!ptoi_cas32(&state->phase, &phase, phase | PTOI_PHASE_RETURNED)) {
    }
    if (phase & PTOI_PHASE_COMPLETED) { /* it was faster than the kernel */
        settle_pending(sched, worker, task, ptoi_phase_status(phase));
    } else if (worker->log) { /* whoever completes it does not know when it began, and where */
        const pto_task self = ptoi_task_of(&sched->view.slots[task]);
        ptoi_log_ran(worker->log, (ptoi_ran){self, worker->log->began, 0, PTOI_RAN_STARTED, 0});
        worker->log->began = 0;
    }
}

static inline void run(ptoi_worker *worker, uint32_t task, ptoi_kernel *kernel)
{
    ptoi_sched *sched = worker->sched;
    const ptoi_slot *slot = &sched->view.slots[task];
    const ptoi_what what = ptoi_what_of(slot);
    ptoi_state *state = &sched->view.states[task];
    if (state->poisoned || ptoi_get32(&sched->view.header->cancelled)) {
        finish(sched, worker, task, PTOI_SKIPPED);
        return;
    }
    const pto_task self = ptoi_task_of(slot);
    ptoi_set64(&worker->line->task, self);
    resolve(sched, slot, worker->args);
    const pto_call call = {
        .args = worker->args,
        .n_args = slot->n_args,
        .worker = worker->id,
        .worker_type = (pto_worker_type)what.type,
        .task = self,
        .user = kernel->user,
        .rt = sched->rt,
    };
    /* Relaxed: the kernel itself is how anybody else learns of the task, and it runs after. */
    const uint32_t running = ptoi_get32(&state->phase) | PTOI_PHASE_RUNNING;
    ptoi_set32(&state->phase, running);
    uint64_t words = ptoi_error_serial();
    worker->running = true;
    if (__builtin_expect(sched->watched, 0)) {
        tell_started(worker, call.task);
    }
    bool guarded = sched->guard && ptoi_guard_is_whole(sched, slot); /* if not, it was not us */
    pto_status status = ptoi_worker_call(worker, kernel, &call);
    if (__builtin_expect(sched->watched, 0) && sched->watcher.ended) {
        sched->watcher.ended(sched->watcher.user, call.task, worker->id, status);
    }
    worker->running = false;
    if (status != PTO_PENDING) {
        if (status == PTO_OK) { /* unless pto_task_complete said otherwise, which it should not */
            status = ptoi_phase_status(ptoi_get32(&state->phase));
        }
        ptoi_set32(&state->phase, running | PTOI_PHASE_COMPLETED); /* nobody else may end it now */
        if (__builtin_expect(guarded, 0)) {
            status = ptoi_guard_check(sched, slot, status);
        }
    }
    if (status == PTO_OK) {
        ptoi_sched_finish(sched, worker, task, PTOI_DONE);
        return;
    }
    ptoi_worker_end(worker, task, status, words);
}

static pto_status complete(ptoi_sched *sched, pto_task task, pto_status status)
{
    const ptoi_view *view = &sched->view;
    uint32_t level = (uint32_t)task & 7;
    uint64_t seq = task >> 3;
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
        uint64_t there = ptoi_get64(&slot->seq);
        const uint32_t its = ptoi_phase_of(phase, lap);
        if (there != seq || !(its & PTOI_PHASE_RUNNING) || its & PTOI_PHASE_COMPLETED ||
            ptoi_list_closed(ptoi_get64(&state->waiters), lap)) {
            const char *why = "is complete already";
            if (there < seq || seq == 0) {
                why = "never was";
            } else if (there == seq && !(its & PTOI_PHASE_RUNNING) &&
                       !ptoi_list_closed(ptoi_get64(&state->waiters), lap)) {
                why = "has not begun";
            }
            return ptoi_fail(PTO_BAD_TASK, "complete: task handle %llu %s",
                             (unsigned long long)task, why);
        }
        after = phase | PTOI_PHASE_COMPLETED | (uint32_t)status << PTOI_PHASE_STATUS_SHIFT;
    } while (!ptoi_cas32(&state->phase, &phase, after));
    if (phase & PTOI_PHASE_RETURNED) {
        settle_pending(sched, NULL, ptoi_slot_number(view, slot), status);
    }
    return PTO_OK;
}

pto_status pto_task_complete(pto_runtime *rt, pto_task task, pto_status status)
{
    if (!rt) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "complete: the runtime is NULL");
    }
    PTO_TRY(ptoi_sched_same_process(ptoi_sched_of(rt), "complete"));
    /* From the moment the task is complete nobody waits for this thread any more but destroy. */
    ptoi_sched *sched = ptoi_sched_of(rt);
    ptoi_add32(&sched->guests, 1);
    pto_status s = complete(sched, task, status);
    ptoi_add32(&sched->guests, (uint32_t)-1);
    return s;
}

/* ---- The next task ---- */

static __attribute__((noinline)) uint32_t pop(ptoi_worker *worker, uint32_t offers)
{
    for (uint32_t types = worker->types; types; types &= types - 1) {
        uint32_t task = ptoi_queue_pop(&worker->sched->ready[__builtin_ctz(types)]);
        if (task != PTOI_NONE) {
            return task;
        }
    }
    worker->offers = offers;
    return PTOI_NONE;
}

static uint32_t find(ptoi_worker *worker)
{
    uint32_t task = worker->next;
    if (task != PTOI_NONE) {
        worker->next = PTOI_NONE;
        worker->breath = 0;
        return task;
    }
    const uint32_t offers = ptoi_acquire32(&worker->sched->offers);
    if (offers != worker->offers) {
        task = pop(worker, offers);
        if (task != PTOI_NONE) {
            worker->breath = 0;
            return task;
        }
    }
    if (worker->sched->place == PTO_PLACE_THREAD) {
        return PTOI_NONE;
    }
    while ((task = ptoi_sched_claim(worker->sched, &worker->inbox, &worker->breath)) != PTOI_NONE) {
        if (!worker->breath && worker->id != worker->sched->n_workers) {
            worker->breath = PTOI_BREATH; /* not the caller, who writes there himself */
        }
        if (worker->types >> ptoi_what_of(&worker->sched->view.slots[task]).type & 1) {
            return task;
        }
        ptoi_sched_offer(worker->sched, task);
    }
    worker->breath = 0;
    return PTOI_NONE;
}

bool ptoi_worker_step(ptoi_worker *worker, uint32_t longest, bool *longer)
{
    const uint32_t task = find(worker);
    if (task == PTOI_NONE) {
        return false;
    }
    ptoi_sched *sched = worker->sched;
    ptoi_kernel *kernel = &sched->kernels[ptoi_what_of(&sched->view.slots[task]).kernel];
    if (__builtin_expect(longest != PTOI_LENGTH_LONG, 0)) {
        const uint32_t length = ptoi_get32(&kernel->length);
        if (length == PTOI_LENGTH_UNKNOWN || length > longest) {
            ptoi_sched_offer(sched, task);
            *longer = true;
            return false;
        }
    }
    run(worker, task, kernel);
    return true;
}

bool ptoi_worker_sees_work(ptoi_worker *worker)
{
    const ptoi_sched *sched = worker->sched;
    const ptoi_header *h = sched->view.header;
    for (uint32_t types = worker->types; types; types &= types - 1) {
        if (ptoi_queue_see(&sched->ready[__builtin_ctz(types)])) {
            worker->offers = ptoi_get32(&sched->offers) - 1; /* it may not be counted yet */
            return true;
        }
    }
    return sched->place == PTO_PLACE_INLINE && worker->types &&
           ptoi_see64(&h->inbox_head) != ptoi_see64(&h->inbox_claimed);
}

/* ---- Threads ---- */

static void *work(void *context)
{
    ptoi_worker *worker = context;
    ptoi_sched *sched = worker->sched;
    ptoi_set32(&worker->line->thread, ptoi_os_thread_number());
    for (uint32_t idle = 0; !ptoi_acquire32(&sched->stop);) {
        if (ptoi_worker_step(worker, PTOI_LENGTH_LONG, NULL)) {
            idle = 0;
        } else if (idle < sched->spin) {
            ptoi_park_spin(idle++);
        } else {
            idle = 0;
            ptoi_park_announce(&worker->parker);
            if (ptoi_see32(&sched->stop) || ptoi_worker_sees_work(worker)) {
                ptoi_park_withdraw(&worker->parker);
            } else {
                const uint64_t since = ptoi_log_now(worker->log);
                ptoi_park_sleep(&worker->parker);
                ptoi_log_parked(worker->log, since);
            }
        }
    }
    return NULL;
}

pto_status ptoi_workers_start(ptoi_sched *sched)
{
    for (uint32_t i = 0; i < sched->n_workers; i++) {
        ptoi_worker *worker = &sched->workers[i];
        int why = ptoi_os_thread(&worker->thread, work, worker);
        if (why) {
            return ptoi_fail(PTO_SYSTEM, "create: the thread of worker %u of %u: %s", i,
                             sched->n_workers, strerror(why));
        }
        worker->started = true;
    }
    return PTO_OK;
}

void ptoi_workers_stop(ptoi_sched *sched)
{
    for (uint32_t i = 0; i < sched->n_workers; i++) {
        ptoi_worker *worker = &sched->workers[i];
        if (worker->started) {
            ptoi_park_wake(&worker->parker);
            pthread_join(worker->thread, NULL);
            worker->started = false;
        }
    }
}
