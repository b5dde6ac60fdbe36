/* call.h - calls a kernel. This is the only place that does, for workers and for tasks that submit
 * runs inline. It is in a header so that both can inline it.
 *
 * It writes the scheduler's part of the window, through the view of the scheduler's side.
 */
#ifndef PTOI_CALL_H
#define PTOI_CALL_H

#include "base/error.h"
#include "base/mutant.h"
#include "base/probe.h"
#include "window/window.h"

typedef struct ptoi_kernel {
    pto_kernel_fn fn;
    void *user;
    ptoi_a32 length; /* ptoi_length; view->times has it for the orchestrator */
} ptoi_kernel;

/* What a thread needs to call kernels. Other threads do not touch it while this one runs tasks. */
typedef struct ptoi_calls {
    const ptoi_view *view; /* of the scheduler's side */
    ptoi_worker_line *line;
    ptoi_kernel *kernels;
    pto_arg *args;    /* of the task that is about to run */
    pto_call call;    /* what a kernel gets; half of it is the same for all calls of the thread */
    uint32_t id;      /* of its line */
    uint32_t untimed; /* calls until the next timed one */
    uint32_t wary;    /* this many calls from now on are all timed */
    bool watched;     /* there is a watcher, or the run is traced. Changes only without tasks */
    bool isolated;    /* this thread belongs to a worker process: W17 */
    uint32_t forks;   /* isolated: ptoi_os_forks in this process */
} ptoi_calls;

/* Ticks now; and how long a call took that began then, for the next ones (worker/kernel_time.c). */
uint64_t ptoi_call_clock(void);
void ptoi_call_learn(ptoi_calls *calls, uint32_t kernel, uint64_t began, pto_status status);

/* Times the next calls of this thread, all of them. */
static inline void ptoi_call_be_wary(ptoi_calls *calls, uint32_t n)
{
    calls->wary = n;
    calls->untimed = 0;
}

/* From now on the kernel counts as that long. */
void ptoi_call_set_length(const ptoi_calls *calls, uint32_t kernel, uint32_t length);

/* The kernel of an isolated thread has returned. Pauses here if the scheduler's part is being rebuilt
 * (worker/pause.c). */
void ptoi_call_returned(ptoi_calls *calls);

/* Around the kernel of a watched run (worker/watch.c). */
void ptoi_call_started(ptoi_calls *calls, pto_task task);
void ptoi_call_ended(ptoi_calls *calls, pto_task task, pto_status status);

/* Calls the kernel of task `self`, which is in slot `index` and has phase `phase` so far. Its
 * arguments are in calls->args. Returns the status of the kernel; *errors_before is
 * ptoi_error_serial as it was before the call. */
static inline pto_status ptoi_call_kernel(ptoi_calls *calls, uint32_t index, uint32_t kernel,
                                          uint32_t type, pto_task self, uint32_t n_args,
                                          uint32_t phase, uint64_t *errors_before)
{
    ptoi_state *state = &calls->view->states[index];
    const ptoi_kernel *k = &calls->kernels[kernel];
    pto_call *call = &calls->call;
    call->n_args = n_args;
    call->worker_type = (pto_worker_type)type;
    call->task = self;
    call->user = k->user;
    if (PTOI_MUTANT(KERNEL_EARLY) && calls->isolated) {
        ptoi_release32(&calls->line->activity, PTOI_KERNEL);
    }
    ptoi_release64(&calls->line->task, self); /* W6: who finds the task here finds its slot */
    state->worker = (uint16_t)calls->id;
    /* Other threads learn of the task only from its kernel, which runs later. The release is for
     * the helper, which reads both if this process dies. */
    ptoi_release32(&state->phase, phase | PTOI_PHASE_RUNNING);
    *errors_before = ptoi_error_serial();
    if (PTOI_UNLIKELY(calls->watched)) {
        ptoi_call_started(calls, self);
    }
    const bool timed = calls->untimed-- == 0 || ptoi_get32(&k->length) <= PTOI_LENGTH_DOUBTED;
    const uint64_t began = PTOI_UNLIKELY(timed) ? ptoi_call_clock() : 0;
    PTOI_PROBE(kernel_start, self, ptoi_kernel_name(calls->view, kernel), calls->id);
    if (PTOI_UNLIKELY(calls->isolated)) {
        ptoi_release32(&calls->line->activity, PTOI_KERNEL); /* W17 */
    }
    pto_status status = k->fn(call);
    if (PTOI_UNLIKELY(calls->isolated)) {
        ptoi_call_returned(calls);
    }
    PTOI_PROBE(kernel_end, self, ptoi_kernel_name(calls->view, kernel), calls->id);
    if (PTOI_UNLIKELY(timed)) {
        ptoi_call_learn(calls, kernel, began, status);
    }
    if (PTOI_UNLIKELY(calls->watched)) {
        ptoi_call_ended(calls, self, status);
    }
    if (status == PTO_OK) { /* in case the kernel called pto_task_complete, which is wrong */
        status = ptoi_phase_status(ptoi_get32(&state->phase));
    }
    return status;
}

/* The kernel has returned, not with PTO_PENDING. pto_task_complete is refused from here on. */
static inline void ptoi_call_over(const ptoi_calls *calls, uint32_t index, uint32_t phase)
{
    ptoi_set32(&calls->view->states[index].phase,
               phase | PTOI_PHASE_RUNNING | PTOI_PHASE_COMPLETED);
}

#endif /* PTOI_CALL_H */
