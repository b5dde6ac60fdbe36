/* watch.c - around the kernel of a watched run: the watcher of the program, and the log of the
 * thread. */
#include "scheduler/scheduler.h"

static ptoi_worker *worker_of(ptoi_calls *calls)
{
    return (ptoi_worker *)(void *)calls; /* its first member */
}

/* The watcher comes first: its time is not the task's. */
void ptoi_call_started(ptoi_calls *calls, pto_task task)
{
    const ptoi_worker *worker = worker_of(calls);
    const pto_watcher *w = &worker->sched->watcher;
    if (w->started) {
        w->started(w->user, task, calls->id);
    }
    if (worker->log) {
        worker->log->began = ptoi_ticks();
    }
}

void ptoi_call_ended(ptoi_calls *calls, pto_task task, pto_status status)
{
    const pto_watcher *w = &worker_of(calls)->sched->watcher;
    if (w->ended) {
        w->ended(w->user, task, calls->id, status);
    }
}
