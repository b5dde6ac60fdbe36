/* sched.h - the scheduler's side: which task can run, and who runs it.
 *
 *        inbox ──claim──> look ──all producers complete──> ready ──> worker ──> close
 *                           │                                ^                    │
 *                           └──joins the list of the first   └────look again──────┘
 *                              producer that is not               at each task in the list
 *
 * A task waits in the list of *one* producer at a time. When that one is complete the task is looked
 * at again: the producers that follow may be complete by now, or it joins the list of the next one
 * that is not. So a task needs one link, which is its own; nothing is counted; and a list is
 * never longer than there are tasks.
 *
 * The step (claim, look, close) is the same wherever it is taken: inline by the workers and by the
 * orchestrating thread while it waits, or on a thread of its own, which the workers then tell what
 * they have done.
 */
#ifndef PTOI_SCHED_H
#define PTOI_SCHED_H

#include <pthread.h>

#include <pto/pto.h>

#include "observe/log.h"
#include "scheduler/park.h"
#include "scheduler/ready.h"
#include "window/guard.h"
#include "window/window.h"

typedef struct ptoi_sched ptoi_sched;

/* A thread that runs kernels. The orchestrating thread is the last one. */
typedef struct ptoi_worker {
    _Alignas(PTOI_LINE) ptoi_sched *sched;
    uint32_t id;
    uint32_t types;  /* that it serves */
    uint32_t next;   /* a task to run next, without a queue between; PTOI_NONE */
    uint32_t offers; /* the number at which it found nothing ready for it */
    bool running;    /* a kernel is on this thread's stack */
    uint32_t breath; /* before its next look into the inbox; 0 unless its last task came from there,
                        so that more may be on their way */
    uint32_t untimed; /* calls until one is timed */
    uint32_t wary;    /* so many are timed, all of them */
    uint64_t inbox;   /* the head of the inbox when it was last read */
    pto_arg *args;    /* of the task that runs */
    pthread_t thread;
    bool started;
    ptoi_worker_line *line; /* in the window: what it runs, and its counts */
    ptoi_log *log; /* what it writes of a traced run; NULL: nothing. Fixed before it starts */
    ptoi_parker parker;
} ptoi_worker;

typedef struct ptoi_kernel {
    pto_kernel_fn fn;
    void *user;
    ptoi_a32 length; /* ptoi_length: put now and then by whoever has run it, for everybody */
    ptoi_a32 owed;   /* so many brief calls until it is called brief; this and the rest, likewise */
    ptoi_a32 suspect; /* how often it was found to be long at times */
    ptoi_a32 calm;    /* brief calls since */
} ptoi_kernel;

/* How long a kernel takes: see worker/length.c. */
typedef enum ptoi_length {
    PTOI_LENGTH_UNKNOWN,
    PTOI_LENGTH_DOUBTED,
    PTOI_LENGTH_BRIEF,
    PTOI_LENGTH_SHORT,
    PTOI_LENGTH_LONG,
} ptoi_length;

#define PTOI_SHORT 40       /* times what is brief */
#define PTOI_TIMED_EVERY 32 /* calls of a thread */

static inline bool ptoi_is_brief(uint32_t length)
{
    return length - PTOI_LENGTH_DOUBTED <= PTOI_LENGTH_BRIEF - PTOI_LENGTH_DOUBTED;
}

struct ptoi_sched {
    /* fixed at creation, but for kernels, which are added before a task names them (W1) */
    ptoi_view view; /* the scheduler's own */
    pto_runtime *rt;
    uint32_t forks; /* ptoi_os_forks as it was created */
    pto_place place;
    bool lopsided; /* W1 and Q1 are releases, and sleepers make a barrier: `tell` in atomic.h */
    uint32_t spin;
    uint32_t n_workers; /* without the orchestrating thread */
    ptoi_worker *workers;
    ptoi_kernel *kernels;
    ptoi_a32
        brief_ticks; /* a kernel that takes fewer is brief; 0: not known yet. By the orchestrating
                             thread, once */
    pto_watcher watcher; /* changes only while there is no task; W1 shows it to the workers */
    bool watched;        /* there is one, or the run is traced: one branch for both */
    ptoi_guard *guard;   /* NULL: memory has no guards */
    uint32_t max_args;
    size_t worker_bytes, args_bytes, kernel_bytes;

    _Alignas(PTOI_LINE) ptoi_a32 idle; /* workers asleep; see park.h */
    ptoi_a32 stop;                     /* the threads shall end; put by the orchestrator */
    ptoi_a32
        guests; /* calls of pto_task_complete under way: raised as they enter, lowered as the last
                        thing they do; destroy waits for them */
    ptoi_a64 awaited; /* the task that the orchestrating thread sleeps for, put by it; 0: none; or
                         PTOI_AWAIT_ANY */

    ptoi_queue ready[PTO_WORKER_TYPES];
    _Alignas(
        PTOI_LINE) ptoi_a32 offers; /* tasks ever put into them, added after each: who has found
                                            them empty at a number need not look again before the
                                            next */

    /* place thread */
    ptoi_queue done;                      /* tasks whose kernel has returned */
    _Alignas(PTOI_LINE) ptoi_a32 resting; /* 1: the scheduler's thread sleeps, or is about to */
    ptoi_worker own; /* the scheduler's thread: serves no type, counts, sleeps */

    /* completions by threads that are none of ours */
    pthread_mutex_t lock;  /* of what follows, and of their line in the window */
    ptoi_log *foreign_log; /* of a traced run */
    bool has_failure;
    bool told;           /* somebody has waited and heard of it */
    pto_failure failure; /* the first, by order */
};

/* The line of threads that are none of ours. */
static inline ptoi_worker_line *ptoi_sched_others(const ptoi_sched *sched)
{
    return &sched->view.workers[sched->n_workers + PTOI_LINE_OTHERS];
}

#define PTOI_AWAIT_ANY UINT64_MAX /* in `awaited` */

/* PTO_WRONG_THREAD in a process that was forked off the one that created the runtime. */
pto_status ptoi_sched_same_process(const ptoi_sched *sched, const char *who);

/* The scheduler's side of a runtime. */
ptoi_sched *ptoi_sched_of(pto_runtime *rt);

/* ---- step.c: parts of the step, which is in step.h ---- */

/* Whether a task can run. If not, it now waits in the list of one of its producers, and whoever
 * completes that looks again. The caller is the only one who has the task, and knows that its
 * producers before the one at `cursor` are complete. */
bool ptoi_sched_look(ptoi_sched *sched, uint32_t task, uint32_t cursor);

/* A task is complete, and its list closed: wakes who sleeps for it, and looks at all in the list. */
void ptoi_sched_closed(ptoi_sched *sched, ptoi_worker *worker, ptoi_ref ref, uint32_t list);

/* The end of a task of a traced run, and its beginning if it ran here. Before it is closed. */
void ptoi_sched_log_end(ptoi_sched *sched, const ptoi_worker *worker, uint32_t task,
                        ptoi_outcome outcome);

/* Puts a task that can run where a worker finds it, and wakes one. */
void ptoi_sched_offer(ptoi_sched *sched, uint32_t task);

/* The scheduler's thread has found a task ready, which is not offered yet: a traced run notes it. */
static inline void ptoi_sched_tell_ready(const ptoi_sched *sched, uint32_t task)
{
    if (__builtin_expect(sched->watched, 0) && sched->own.log) {
        const ptoi_slot *slot = &sched->view.slots[task];
        ptoi_log_ran(sched->own.log,
                     (ptoi_ran){ptoi_task_of(slot), ptoi_ticks(), 0, PTOI_RAN_READY, 0});
    }
}

/* Wakes whoever takes tasks out of the inbox, if they sleep. */
void ptoi_sched_rouse(ptoi_sched *sched);

/* The orchestrator has put tasks into the inbox. */
static inline void ptoi_sched_notify(ptoi_sched *sched)
{
    if (__builtin_expect(
            ptoi_see32(sched->place == PTO_PLACE_THREAD ? &sched->resting : &sched->idle), 0)) {
        ptoi_sched_rouse(sched);
    }
}

/* Wakes a worker that serves one of these types, if one sleeps. */
void ptoi_sched_wake_types(ptoi_sched *sched, uint32_t types);

/* ---- thread.c: the step on a thread of its own ---- */

pto_status ptoi_sched_thread_start(ptoi_sched *sched);
void ptoi_sched_thread_stop(ptoi_sched *sched);

/* ---- worker/worker.c ---- */

/* Runs one task if there is one. If its kernel is not known, or longer than `longest` (ptoi_length), it is
 * offered to others instead, and *longer says so; with PTOI_LENGTH_LONG none is. */
bool ptoi_worker_step(ptoi_worker *worker, uint32_t longest, bool *longer);

/* Calls a kernel, and learns whether it is brief: length.c. */
pto_status ptoi_worker_call_timed(ptoi_worker *worker, ptoi_kernel *kernel, const pto_call *call);

static inline pto_status ptoi_worker_call(ptoi_worker *worker, ptoi_kernel *kernel,
                                          const pto_call *call)
{
    const bool timed = worker->untimed-- == 0 || ptoi_get32(&kernel->length) <= PTOI_LENGTH_DOUBTED;
    return __builtin_expect(timed, 0) ? ptoi_worker_call_timed(worker, kernel, call)
                                      : kernel->fn(call);
}

/* The kernel of a task has returned something else than PTO_OK; `words` is what ptoi_error_serial was
 * before. */
void ptoi_worker_end(ptoi_worker *worker, uint32_t task, pto_status status, uint64_t words);

/* Whether there seems to be something for it, as the last look before it sleeps. */
bool ptoi_worker_sees_work(ptoi_worker *worker);

/* Keeps a failure if it is the first, in order of submission. */
void ptoi_worker_report(ptoi_sched *sched, const ptoi_slot *slot, pto_status status,
                        const char *message);

pto_status ptoi_workers_start(ptoi_sched *sched);
void ptoi_workers_stop(ptoi_sched *sched);

#endif /* PTOI_SCHED_H */
