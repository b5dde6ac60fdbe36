/* scheduler.h - the scheduler's side: the data its threads share, and the queues of ready tasks.
 *
 *        inbox ──claim──> step (step.h) ──ready──> queue of the type ──> worker ──> complete
 *
 * The step is the same in every place. Place inline: workers, and the orchestrating thread while it
 * helps, claim tasks and complete them. Place thread: the scheduler's thread does both, and workers
 * pass it the tasks whose kernels have returned (thread.c).
 *
 * The orchestrator's side does not include this header. The sides share the window, and the
 * orchestrating thread calls the functions of window/caller.h.
 */
#ifndef PTOI_SCHEDULER_H
#define PTOI_SCHEDULER_H

#include <pthread.h>

#include "observe/log.h"
#include "scheduler/park.h"
#include "scheduler/ready.h"
#include "window/caller.h"

/* A thread that runs kernels. The orchestrating thread is the last one. */
typedef struct ptoi_worker {
    _Alignas(PTOI_LINE) ptoi_calls calls; /* one cache line */
    ptoi_scheduler *sched;
    uint32_t id;
    uint32_t types;       /* that it serves */
    uint32_t next;        /* a ready task that it runs next, without a queue; PTOI_NONE */
    uint32_t ready_epoch; /* the epoch at which it found no ready task (W11) */
    uint32_t backoff; /* pauses before its next read of the inbox; 0 unless its last task came from
                         there, since then more may follow */
    uint64_t inbox;   /* inbox_head as it last read it */
    pthread_t thread;
    bool started;
    ptoi_worker_line *line; /* in the window */
    ptoi_log *log;          /* of a traced run; NULL: not traced. Fixed before it starts */
    ptoi_parker parker;
} ptoi_worker;

struct ptoi_scheduler {
    /* fixed at creation, except for kernels: they are added before a task names them (W1) */
    ptoi_view view; /* the scheduler's own */
    pto_runtime *rt;
    uint32_t forks; /* ptoi_os_forks at creation */
    pto_place place;
    bool asymmetric; /* W1 and Q1 are plain releases, and sleepers make the barrier */
    bool guarded;
    uint32_t spin;
    uint32_t n_workers; /* without the orchestrating thread */
    ptoi_worker *workers;
    ptoi_worker *caller; /* the last of them: the orchestrating thread */
    ptoi_kernel *kernels;
    pto_watcher watcher; /* changes only while there is no task; W1 publishes it to the workers */
    bool watched;        /* there is a watcher, or the run is traced: one branch for both */
    size_t worker_bytes, args_bytes, kernel_bytes;

    ptoi_queue ready[PTO_WORKER_TYPES];

    /* place thread */
    ptoi_queue done; /* tasks whose kernel has returned */
    ptoi_worker own; /* the scheduler's thread: serves no worker type, but counts and sleeps */

    /* threads of the program that call pto_task_complete */
    ptoi_a32 guests;       /* calls in progress: raised on entry, lowered as their last access */
    pthread_mutex_t lock;  /* protects their line in the window, their failure and their log */
    ptoi_log *foreign_log; /* of a traced run */
};

/* ---- Ready tasks ---- */

/* Pushes a ready task into the queue of its type, and wakes a worker for it. */
void ptoi_scheduler_offer(ptoi_scheduler *s, uint32_t task);

/* Wakes a worker that serves one of these types, if one sleeps. */
void ptoi_scheduler_wake(ptoi_scheduler *s, uint32_t types);

/* In a traced run, logs the time at which the scheduler's thread found a task ready. Call it before
 * the task goes to a queue. */
static inline void ptoi_scheduler_log_ready(const ptoi_scheduler *s, uint32_t task)
{
    if (PTOI_UNLIKELY(s->watched) && s->own.log) {
        const ptoi_slot *slot = &s->view.slots[task];
        ptoi_log_ran(s->own.log,
                     (ptoi_ran){ptoi_task_of(slot), ptoi_ticks(), 0, PTOI_RAN_READY, 0});
    }
}

#endif /* PTOI_SCHEDULER_H */
