/* scheduler.h - the scheduler's side: the data its threads share, and the queues of ready tasks.
 *
 *        inbox ──claim──> step (step.h) ──ready──> queue of the lane ──> worker ──> complete
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

#include <pto/device.h>

#include "base/crash.h"
#include "observe/log.h"
#include "scheduler/look.h"
#include "scheduler/park.h"
#include "scheduler/ready.h"
#include "window/caller.h"

struct ptoi_sched_device;
struct ptoi_launcher;
struct ptoi_keeper;

/* Which process this is (place process). */
typedef enum ptoi_role {
    PTOI_ROLE_ALL,     /* the one process of all other places */
    PTOI_ROLE_PROGRAM, /* the program: its thread runs no kernel and takes no step */
    PTOI_ROLE_HELPER,  /* starts worker processes, and rebuilds the window when one is lost */
    PTOI_ROLE_WORKER,
} ptoi_role;

/* A thread that runs kernels. The orchestrating thread is the last one of the host. */
typedef struct ptoi_worker {
    _Alignas(PTOI_LINE) ptoi_calls calls;
    ptoi_scheduler *sched;
    const ptoi_queue *queues; /* of ready tasks on its device, by worker type */
    uint32_t first_lane;      /* of its device: ptoi_lane */
    bool careful;             /* memory has guards, or it serves a device: worker.c */
    bool plain;               /* its step is ptoi_worker_step, and no more: caller.c */
    uint32_t next;            /* a ready task that it runs next, without a queue; PTOI_NONE */
    uint32_t ready_epoch;     /* the epoch at which it found no ready task (W11) */
    uint32_t backoff; /* pauses before its next read of the inbox; 0 unless its last task came from
                         there, since then more may follow */
    uint64_t inbox;   /* inbox_head as it last read it */
    ptoi_look *look;  /* of one of many workers (look.h); NULL: it looks as often as it likes */
    pthread_t thread;
    uint32_t cpu; /* its thread stays there; PTOI_NONE: anywhere */
    bool started;
    ptoi_log *log; /* of a traced run; NULL: not traced. Fixed before it starts */
    ptoi_parker parker;
    const struct ptoi_sched_device *device; /* NULL: the host */
    struct ptoi_launcher *launcher;         /* of a device with streams (worker/launcher.h); NULL */
    char *stack;                            /* for signals; NULL: none */
} ptoi_worker;

/* A device other than the host, and its workers. Fixed before a task names it (W1). */
typedef struct ptoi_sched_device {
    pto_device device;
    pto_device_ops ops;
    uint32_t n_workers;
    ptoi_worker *workers;
    size_t worker_bytes;
    char *stacks;
    /* Ready tasks, in memory of this process: there are no devices in place process. */
    ptoi_queue queue[PTO_WORKER_TYPES];
    ptoi_queue_ends *ends; /* and the cells behind them */
    size_t queue_bytes;
    struct ptoi_launcher *launcher; /* of its first worker; NULL: it has no streams */
    size_t launcher_bytes;
} ptoi_sched_device;

#define PTOI_REASONS_KEPT 16

struct ptoi_scheduler {
    /* fixed at creation, except for kernels: they are added before a task names them (W1) */
    ptoi_view view; /* the scheduler's own */
    pto_runtime *rt;
    uint32_t forks; /* ptoi_os_forks at creation */
    pto_place place;
    ptoi_role role;
    uint32_t process; /* number of the line of this process's other threads; 0: not a worker's */
    uint32_t own_first, own_count; /* the workers whose threads are in this process */
    bool guarded;                  /* memory has guards (window/guard.h) */
    bool devices_guarded;          /* that of devices, too */
    bool
        relayed; /* workers get tasks from the scheduler's own thread, and give them back to it: places
                     thread and gpu */
    uint32_t spin;
    uint32_t n_workers; /* of the host, without the orchestrating thread */
    uint32_t n_lines;   /* worker lines in use, without those of other devices */
    ptoi_worker *workers;
    ptoi_worker *caller; /* the last of them: the orchestrating thread */
    ptoi_kernel *kernels;
    pto_watcher watcher; /* changes only while there is no task; W1 publishes it to the workers */
    size_t worker_bytes, args_bytes, kernel_bytes;
    bool crash_report;    /* worker/crash.h */
    ptoi_witness witness; /* `tell` is NULL: it is not in the list */
    char *stacks;         /* for signals, one for each worker */

    ptoi_look look;                /* of many workers: look.h */
    ptoi_queue queue[PTOI_QUEUES]; /* ready tasks on the host by worker type; and PTOI_QUEUE_DONE */
    ptoi_sched_device devices[PTOI_DEVICES]; /* by number; 0, the host, is not used */
    uint32_t n_devices;                      /* one past the last in use */
    ptoi_log *logs;                          /* of a traced run, one for each worker line */

    struct ptoi_keeper *keeper; /* place gpu: worker/keeper.h */
    ptoi_grid_times grid_times; /* when it has left */

    /* places thread and gpu */
    ptoi_worker own; /* the scheduler's thread: serves no worker type, but counts and sleeps */

    /* threads of the program that call pto_task_complete */
    ptoi_a32 leaving;      /* the threads of this process must end. A process that has attached */
    ptoi_a32 lost;         /* a worker process has ended: the caller must not wait. Place process */
    ptoi_a32 guests;       /* calls in progress: raised on entry, lowered as their last access */
    pthread_mutex_t lock;  /* protects their line in the window, their failure and their log */
    ptoi_log *foreign_log; /* of a traced run */
    struct {           /* why pending tasks failed, until they end: worker/end.h. With the lock */
        pto_task task; /* 0: free */
        char text[256];
    } why[PTOI_REASONS_KEPT];
    ptoi_a32 n_why; /* how many of these are taken: most runs have none, and need not lock */
};

/* ptoi_scheduler_create (window/caller.h) in another role. */
pto_status ptoi_scheduler_create_as(ptoi_role role, const ptoi_settings *settings,
                                    const ptoi_mapping *mapping, pto_runtime *rt,
                                    ptoi_scheduler **made);

/* The window is damaged. Says so on stderr and aborts: in a worker process the program learns of it
 * as of any crash. */
_Noreturn void ptoi_scheduler_broken(const char *what);

/* Starts all workers of a process that has attached. ptoi_scheduler_join waits until they have left. */
pto_status ptoi_scheduler_start_all(ptoi_scheduler *s);

/* Runs the workers of a worker process, the first one on this thread, until the runtime ends. */
pto_status ptoi_scheduler_run(ptoi_scheduler *s);

/* The worker types that a thread serves. Only the thread itself changes them. */
static inline uint32_t ptoi_worker_types(const ptoi_worker *worker)
{
    return ptoi_get32(&worker->parker.line->types);
}

/* Whether it serves a lane: a type on its own device. */
static inline bool ptoi_worker_serves(const ptoi_worker *worker, uint32_t lane)
{
    const uint32_t type = lane ^ worker->first_lane; /* on another device: 4 or more */
    return type < PTO_WORKER_TYPES && ptoi_worker_types(worker) >> type & 1;
}

/* ---- Ready tasks ---- */

/* Pushes a ready task into the queue of its type, and wakes a worker for it. */
void ptoi_scheduler_offer(ptoi_scheduler *s, uint32_t index);

/* Wakes a worker of a device that serves one of these types. Returns false if none of them sleeps. */
bool ptoi_scheduler_wake(ptoi_scheduler *s, uint32_t device, uint32_t types);

/* Sets up a thread of a device, with line `id`, before it starts. */
void ptoi_scheduler_init_device_worker(ptoi_scheduler *s, ptoi_worker *w, uint32_t number,
                                       uint32_t id, uint32_t types);

/* Makes the queues of a device. On failure those that were made are freed with the scheduler. */
pto_status ptoi_scheduler_create_queues(ptoi_scheduler *s, uint32_t device);

/* In a traced run, logs the time at which the scheduler's thread found a task ready. Call it before
 * the task goes to a queue. */
static inline void ptoi_scheduler_log_ready(const ptoi_scheduler *s, uint32_t index)
{
    if (PTOI_UNLIKELY(s->own.log != NULL)) {
        const ptoi_slot *slot = &s->view.slots[index];
        ptoi_log_ran(s->own.log,
                     (ptoi_ran){ptoi_task_of(slot), ptoi_ticks(), 0, PTOI_RAN_READY, 0});
    }
}

#endif /* PTOI_SCHEDULER_H */
