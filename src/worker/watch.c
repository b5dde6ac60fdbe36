/* watch.c - runs before and after each kernel of a watched run: calls the program's watcher and
 * writes the log of the thread. */
#include "scheduler/scheduler.h"

static ptoi_worker *worker_of(ptoi_calls *calls)
{
    return (ptoi_worker *)(void *)calls; /* its first member */
}

/* The watcher comes first, so that its time does not count as time of the task. */
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
