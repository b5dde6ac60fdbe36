/* call.h - calling a kernel. This is the one place that does: for workers, and for tasks that submit
 * runs itself. It is inline because both want it so.
 *
 * It writes the scheduler's part of the window, through the view of the scheduler's side.
 */
#ifndef PTOI_CALL_H
#define PTOI_CALL_H

#include "base/error.h"
#include "window/window.h"

typedef struct ptoi_kernel {
    pto_kernel_fn fn;
    void *user;
    ptoi_a32 length; /* ptoi_length; view->times has it for the orchestrator */
} ptoi_kernel;

/* What a thread needs to call kernels. Nobody else touches it while the thread runs tasks. */
typedef struct ptoi_calls {
    const ptoi_view *view; /* of the scheduler's side */
    ptoi_worker_line *line;
    ptoi_kernel *kernels;
    pto_arg *args; /* of the task that is about to run */
    pto_runtime *rt;
    uint32_t id;      /* of the worker */
    uint32_t untimed; /* calls until one is timed */
    uint32_t wary;    /* so many calls are timed, all of them */
    bool watched;     /* there is a watcher, or the run is traced. Changes while there is no task */
} ptoi_calls;

/* The same call, and learns how long it takes (worker/kernel_time.c). */
pto_status ptoi_call_timed(ptoi_calls *calls, uint32_t kernel, const pto_call *call);

/* From now on the kernel counts as that long. */
void ptoi_call_set_length(const ptoi_calls *calls, uint32_t kernel, uint32_t length);

/* Around the kernel of a watched run (worker/watch.c). */
void ptoi_call_started(ptoi_calls *calls, pto_task task);
void ptoi_call_ended(ptoi_calls *calls, pto_task task, pto_status status);

/* Calls the kernel of task `self`, which is in slot `task` and whose phase is `phase` so far. Its
 * arguments are in calls->args. Returns how it ended; *words is ptoi_error_serial before. */
static inline pto_status ptoi_call_kernel(ptoi_calls *calls, uint32_t task, uint32_t kernel,
                                          uint32_t type, pto_task self, uint32_t n_args,
                                          uint32_t phase, uint64_t *words)
{
    ptoi_state *state = &calls->view->states[task];
    const ptoi_kernel *k = &calls->kernels[kernel];
    const pto_call call = {
        .args = calls->args,
        .n_args = n_args,
        .worker = calls->id,
        .worker_type = (pto_worker_type)type,
        .task = self,
        .user = k->user,
        .rt = calls->rt,
    };
    ptoi_set64(&calls->line->task, self);
    /* Relaxed: others learn of the task through its kernel, which runs later. */
    ptoi_set32(&state->phase, phase | PTOI_PHASE_RUNNING);
    *words = ptoi_error_serial();
    if (PTOI_UNLIKELY(calls->watched)) {
        ptoi_call_started(calls, self);
    }
    const bool timed = calls->untimed-- == 0 ||
                       ptoi_get32(&k->length) <= PTOI_LENGTH_DOUBTED;
    pto_status status = PTOI_UNLIKELY(timed) ? ptoi_call_timed(calls, kernel, &call) : k->fn(&call);
    if (PTOI_UNLIKELY(calls->watched)) {
        ptoi_call_ended(calls, self, status);
    }
    if (status == PTO_OK) { /* unless pto_task_complete said otherwise, which it should not */
        status = ptoi_phase_status(ptoi_get32(&state->phase));
    }
    return status;
}

/* The kernel has ended, and not with PTO_PENDING: pto_task_complete is refused from here on. */
static inline void ptoi_call_over(const ptoi_calls *calls, uint32_t task, uint32_t phase)
{
    ptoi_set32(&calls->view->states[task].phase, phase | PTOI_PHASE_RUNNING | PTOI_PHASE_COMPLETED);
}

#endif /* PTOI_CALL_H */
