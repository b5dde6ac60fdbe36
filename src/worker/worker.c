#include "worker/worker.h"

#include <string.h>

#include <pto/pto.h>

#include "base/error.h"
#include "scheduler/inbox.h"
#include "worker/arg.h"
#include "worker/end.h"
#include "worker/guard.h"
#include "worker/process.h"

/* ---- One task ---- */

__attribute__((noinline)) pto_status ptoi_worker_begin(const ptoi_worker *worker)
{
    const ptoi_sched_device *d = worker->device;
    if (!d) {
        return PTO_OK;
    }
    PTO_TRY(pto_device_set_current(d->device)); /* nothing, if it still is */
    return d->ops.begin ? d->ops.begin(d->ops.self) : PTO_OK;
}

/* Whether this process knows where the kernel is. A worker process finds out when it first runs it: its
 * length is then stored last. */
static inline bool has_kernel(const ptoi_worker *worker, uint32_t number)
{
    const ptoi_kernel *k = &worker->sched->kernels[number];
    return PTOI_UNLIKELY(worker->calls.isolated) ? ptoi_acquire32(&k->length) != PTOI_LENGTH_UNKNOWN
                                                 : k->fn != NULL;
}

static inline void run(ptoi_worker *worker, uint32_t index)
{
    ptoi_scheduler *s = worker->sched;
    const ptoi_slot *slot = &s->view.slots[index];
    const ptoi_state *state = &s->view.states[index];
    if (state->poisoned || ptoi_is_cancelled(&s->view)) {
        ptoi_end_skipped(worker, index);
        return;
    }
    uint64_t errors_before;
    const ptoi_slot_header header = ptoi_slot_header_of(slot);
    const uint32_t n_args = slot->n_args, phase = ptoi_get32(&state->phase);
    if (PTOI_UNLIKELY(!has_kernel(worker, header.kernel)) &&
        !ptoi_process_adopt_kernel(s, header.kernel)) {
        ptoi_end(worker, index, PTO_BAD_KERNEL, ptoi_error_serial() - 1);
        return;
    }
    ptoi_args_resolve(&s->view, s->view.level[header.level].args + slot->args, n_args,
                      worker->calls.args);
    bool guarded = false;
    if (PTOI_UNLIKELY(worker->careful)) {
        errors_before = ptoi_error_serial();
        const pto_status begun = ptoi_worker_begin(worker);
        if (begun) {
            ptoi_call_over(&worker->calls, index, phase);
            ptoi_end(worker, index, begun, errors_before);
            return;
        }
        /* If guards are damaged before the kernel starts, it is not the cause. */
        guarded = s->guarded && ptoi_guard_is_whole(s, slot);
    }
    pto_status status = ptoi_call_kernel(
        &worker->calls, index, header.kernel, ptoi_lane_type(header.lane),
        ptoi_task_make(ptoi_get64(&slot->seq), header.level), n_args, phase, &errors_before);
    if (status != PTO_PENDING) {
        ptoi_call_over(&worker->calls, index, phase);
        if (PTOI_UNLIKELY(guarded)) {
            status = ptoi_guard_check(s, slot, PTOI_GUARD_EVERYWHERE, status);
        }
    }
    if (PTOI_LIKELY(status == PTO_OK)) {
        ptoi_finish(s, worker, index, PTOI_DONE);
    } else {
        ptoi_end(worker, index, status, errors_before);
    }
}

/* ---- The next task ---- */

/* The last type comes first, which is PTO_ACCELERATOR: copies and messages run beside kernels, so they begin
 * before these. */
static __attribute__((noinline)) uint32_t pop(ptoi_worker *worker, uint32_t epoch)
{
    for (uint32_t types = ptoi_worker_types(worker); types;) {
        const uint32_t type = 31u - (uint32_t)__builtin_clz(types);
        const uint32_t index = ptoi_queue_pop(&worker->queues[type]);
        if (index != PTOI_NONE) {
            return index;
        }
        types ^= 1u << type;
    }
    worker->ready_epoch = epoch;
    return PTOI_NONE;
}

/* Inlined into the step, which every task takes, and into ptoi_worker_find. */
static inline __attribute__((always_inline)) uint32_t find(ptoi_worker *worker)
{
    ptoi_scheduler *s = worker->sched;
    const ptoi_view *view = &s->view;
    uint32_t index = worker->next;
    if (index != PTOI_NONE) {
        worker->next = PTOI_NONE;
        worker->backoff = 0;
        return index;
    }
    const uint32_t epoch = ptoi_acquire32(&view->sched->ready_epoch); /* pairs W11 */
    if (epoch != worker->ready_epoch) {
        index = pop(worker, epoch);
        if (index != PTOI_NONE) {
            worker->backoff = 0;
            return index;
        }
    }
    if (s->relayed) {
        return PTOI_NONE;
    }
    while ((index = ptoi_inbox_claim(view, &worker->inbox, &worker->backoff, worker->look)) !=
           PTOI_NONE) {
        if (!worker->backoff && worker != s->caller) {
            worker->backoff = PTOI_BACKOFF; /* not the caller: its own submits fill the inbox */
        }
        if (index == PTOI_BROKEN ||
            ptoi_worker_serves(worker, ptoi_slot_header_of(&view->slots[index]).lane)) {
            return index;
        }
        ptoi_scheduler_offer(s, index);
    }
    worker->backoff = 0;
    return PTOI_NONE;
}

uint32_t ptoi_worker_find(ptoi_worker *worker)
{
    const uint32_t index = find(worker);
    if (index >= worker->sched->view.n_slots && index != PTOI_NONE) {
        ptoi_scheduler_broken("the inbox, a queue or a task");
    }
    return index;
}

bool ptoi_worker_step(ptoi_worker *worker, uint32_t longest, bool *longer)
{
    const uint32_t index = find(worker);
    if (PTOI_UNLIKELY(index >= worker->sched->view.n_slots)) {
        if (index != PTOI_NONE) {
            ptoi_scheduler_broken("the inbox, a queue or a task");
        }
        return false;
    }
    if (PTOI_UNLIKELY(longest != PTOI_LENGTH_LONG)) {
        const ptoi_view *view = &worker->sched->view;
        const uint32_t kernel = ptoi_slot_header_of(&view->slots[index]).kernel;
        const uint32_t length = ptoi_get32(&view->times[kernel].length);
        if (length == PTOI_LENGTH_UNKNOWN || length > longest) {
            ptoi_scheduler_offer(worker->sched, index);
            *longer = true;
            return false;
        }
    }
    run(worker, index);
    return true;
}

bool ptoi_worker_sees_work(ptoi_worker *worker)
{
    const ptoi_scheduler *s = worker->sched;
    for (uint32_t types = ptoi_worker_types(worker); types; types &= types - 1) {
        if (ptoi_queue_has_task(&worker->queues[__builtin_ctz(types)])) {
            /* The push may not have raised the epoch yet. */
            worker->ready_epoch = ptoi_get32(&s->view.sched->ready_epoch) - 1;
            return true;
        }
    }
    return !s->relayed && ptoi_worker_types(worker) && ptoi_inbox_has_task(&s->view);
}
