#include "worker/worker.h"

#include <string.h>

#include "base/error.h"
#include "scheduler/inbox.h"
#include "worker/end.h"
#include "worker/guard.h"

/* ---- One task ---- */

/* Builds the arguments of a kernel from the argument descriptors in the window. */
static inline void resolve_args(const ptoi_view *view, const ptoi_arg_desc *from, uint32_t n,
                                pto_arg *args)
{
    for (pto_arg *arg = args, *end = args + n; arg != end; arg++) {
        if (PTOI_UNLIKELY(ptoi_arg_is_scalar(from))) {
            ptoi_arg_scalar(arg, (pto_dtype)from->desc, from->value);
            from++;
            continue;
        }
        const ptoi_desc *desc = ptoi_arg_layout(view, from);
        ptoi_arg_tensor(arg, desc,
                        from->segment == PTOI_SEGMENT_USER
                            ? (char *)(uintptr_t)from->value
                            : view->level[from->segment].heap + from->value);
        from += PTOI_LIKELY(from->desc != 0) ? 1 : ptoi_arg_units(desc->ndim);
    }
}

static inline void run(ptoi_worker *worker, uint32_t task)
{
    ptoi_scheduler *s = worker->sched;
    const ptoi_slot *slot = &s->view.slots[task];
    const ptoi_state *state = &s->view.states[task];
    if (state->poisoned || ptoi_is_cancelled(&s->view)) {
        ptoi_end_skipped(worker, task);
        return;
    }
    uint64_t words;
    const ptoi_slot_header header = ptoi_slot_header_of(slot);
    const uint32_t n_args = slot->n_args, phase = ptoi_get32(&state->phase);
    resolve_args(&s->view, s->view.level[header.level].args + slot->args, n_args,
                 worker->calls.args);
    /* If guards are damaged before the kernel starts, it is not the cause. */
    const bool guarded = s->guarded && ptoi_guard_is_whole(&s->view, slot);
    pto_status status = ptoi_call_kernel(&worker->calls, task, header.kernel, header.type,
                                         ptoi_task_make(ptoi_get64(&slot->seq), header.level),
                                         n_args, phase, &words);
    if (status != PTO_PENDING) {
        ptoi_call_over(&worker->calls, task, phase);
        if (PTOI_UNLIKELY(guarded)) {
            status = ptoi_guard_check(&s->view, slot, status);
        }
    }
    if (PTOI_LIKELY(status == PTO_OK)) {
        ptoi_finish(s, worker, task, PTOI_DONE);
    } else {
        ptoi_end(worker, task, status, words);
    }
}

/* ---- The next task ---- */

static __attribute__((noinline)) uint32_t pop(ptoi_worker *worker, uint32_t epoch)
{
    for (uint32_t types = worker->types; types; types &= types - 1) {
        const uint32_t task = ptoi_queue_pop(&worker->sched->ready[__builtin_ctz(types)]);
        if (task != PTOI_NONE) {
            return task;
        }
    }
    worker->ready_epoch = epoch;
    return PTOI_NONE;
}

static uint32_t find(ptoi_worker *worker)
{
    ptoi_scheduler *s = worker->sched;
    const ptoi_view *view = &s->view;
    uint32_t task = worker->next;
    if (task != PTOI_NONE) {
        worker->next = PTOI_NONE;
        worker->backoff = 0;
        return task;
    }
    const uint32_t epoch = ptoi_acquire32(&view->sched->ready_epoch); /* pairs W11 */
    if (epoch != worker->ready_epoch) {
        task = pop(worker, epoch);
        if (task != PTOI_NONE) {
            worker->backoff = 0;
            return task;
        }
    }
    if (s->place == PTO_PLACE_THREAD) {
        return PTOI_NONE;
    }
    while ((task = ptoi_inbox_claim(view, &worker->inbox, &worker->backoff)) != PTOI_NONE) {
        if (!worker->backoff && worker->id != s->n_workers) {
            worker->backoff = PTOI_BACKOFF; /* not the caller: its own submits fill the inbox */
        }
        if (worker->types >> ptoi_slot_header_of(&view->slots[task]).type & 1) {
            return task;
        }
        ptoi_scheduler_offer(s, task);
    }
    worker->backoff = 0;
    return PTOI_NONE;
}

bool ptoi_worker_step(ptoi_worker *worker, uint32_t longest, bool *longer)
{
    const uint32_t task = find(worker);
    if (task == PTOI_NONE) {
        return false;
    }
    if (PTOI_UNLIKELY(longest != PTOI_LENGTH_LONG)) {
        const ptoi_view *view = &worker->sched->view;
        const uint32_t kernel = ptoi_slot_header_of(&view->slots[task]).kernel;
        const uint32_t length = ptoi_get32(&view->times[kernel].length);
        if (length == PTOI_LENGTH_UNKNOWN || length > longest) {
            ptoi_scheduler_offer(worker->sched, task);
            *longer = true;
            return false;
        }
    }
    run(worker, task);
    return true;
}

bool ptoi_worker_sees_work(ptoi_worker *worker)
{
    const ptoi_scheduler *s = worker->sched;
    for (uint32_t types = worker->types; types; types &= types - 1) {
        if (ptoi_queue_has_task(&s->ready[__builtin_ctz(types)])) {
            /* The push may not have raised the epoch yet. */
            worker->ready_epoch = ptoi_get32(&s->view.sched->ready_epoch) - 1;
            return true;
        }
    }
    return s->place == PTO_PLACE_INLINE && worker->types && ptoi_inbox_has_task(&s->view);
}
