/* caller.h - how the orchestrating thread reaches the scheduler's side of its process.
 *
 * The two sides share the window. Where they also share a process, the orchestrating thread is a
 * worker as well: it helps while it waits, it runs short tasks in submit, and it wakes workers that
 * sleep. Those calls are here. Neither side owns this header, and neither includes headers of the
 * other. The functions belong to the scheduler's side: they write the scheduler's part of the
 * window, through the scheduler's own view of it. (A few that say so are in orchestrator/.)
 *
 *     life      create, start, join, destroy; kernels, watcher and logs
 *     notify    a task was published: wake a thread that claims tasks
 *     help      run tasks that are ready
 *     wait      help until a goal is reached, and park when there is nothing to run
 *     run       submit runs a task inline: window/call.h, and how such a task ends
 */
#ifndef PTOI_CALLER_H
#define PTOI_CALLER_H

#include <pto/device.h>
#include <pto/observe.h>

#include "base/channel.h"
#include "base/config.h"
#include "window/call.h"

typedef struct ptoi_scheduler ptoi_scheduler; /* scheduler/scheduler.h */
struct ptoi_log;
struct ptoi_damage; /* window/guard.h */

/* ---- Life ---- */

/* Creates the scheduler's side over its own mapping of the window. Kernels get `rt` as call->rt. On
 * failure nothing is left behind. */
pto_status ptoi_scheduler_create(const ptoi_settings *settings, const ptoi_mapping *mapping,
                                 pto_runtime *rt, ptoi_scheduler **made);

/* Starts the threads. After a failure ptoi_scheduler_join joins those that have started. */
pto_status ptoi_scheduler_start(ptoi_scheduler *s);

/* Call it after header.stop is set. Waits until no thread is in pto_task_complete, and until all
 * threads of the scheduler have ended. `s` may be NULL, and a second call does nothing. */
void ptoi_scheduler_join(ptoi_scheduler *s);
void ptoi_scheduler_destroy(ptoi_scheduler *s);

/* Makes kernel `number` callable, before a task names it (W1 publishes it to workers). If it is not
 * `timed`, submit never runs it inline. */
void ptoi_scheduler_add_kernel(ptoi_scheduler *s, uint32_t number, pto_kernel_fn fn, void *user,
                               bool timed);

/* Makes a device usable, before a task names its number: queues, and threads on which it is current.
 * `first` threads of other devices are there already. *served: the types of its workers. After a
 * failure the number must not be used. */
pto_status ptoi_scheduler_add_device(ptoi_scheduler *s, uint32_t number, pto_device device,
                                     const pto_device_ops *ops, uint32_t first, uint32_t *served,
                                     uint32_t *n_workers);

/* How many threads that are. */
uint32_t ptoi_scheduler_count_threads(const ptoi_scheduler *s, const pto_device_ops *ops);

/* The types of tasks that a grid runs. */
#define PTOI_GRID_TYPES (PTO_TYPE_BIT(PTO_CUBE) | PTO_TYPE_BIT(PTO_VECTOR))

/* Place gpu: device `number` is to schedule for itself. Loads its module. It comes before anything is
 * allocated there: if another runtime has the device, to free that again would wait for its grid. */
pto_status ptoi_scheduler_prepare_grid(ptoi_scheduler *s, uint32_t number,
                                       const ptoi_settings *settings);

/* The rest, when the heaps of that device are there. `first` threads of other devices are there already, and
 * it adds *n_workers. */
pto_status ptoi_scheduler_add_grid(ptoi_scheduler *s, const ptoi_settings *settings, uint32_t first,
                                   uint32_t *n_workers);

/* The times of a traced grid, after ptoi_scheduler_join: how far they may be from those of the host, the
 * step of the device's clock, and how often the clocks were compared. All 0: nothing was recorded. */
typedef struct ptoi_grid_times {
    uint64_t error_ns, step_ns, compared;
} ptoi_grid_times;

ptoi_grid_times ptoi_scheduler_grid_times(const ptoi_scheduler *s);

/* Tells it where the heap of a level on a device is, by its address on the host. Before a task names
 * it. With guards also where their arrays are; else NULL. */
void ptoi_scheduler_add_heap(ptoi_scheduler *s, uint32_t device, uint32_t level, char *memory,
                             struct ptoi_guard *guards, ptoi_a64 *reported);

/* Whether the guards of the buffer at `at` of a heap are damaged; *damage says how far. On a device it
 * waits for copies, and returns their error. In worker/guard.c. */
pto_status ptoi_scheduler_inspect(const ptoi_scheduler *s, uint32_t segment, uint64_t at,
                                  bool *broken, struct ptoi_damage *damage);

/* Sets the watcher, while every task is complete. `watched`: there is a watcher, or the run is
 * traced. */
void ptoi_scheduler_watch(ptoi_scheduler *s, const pto_watcher *watcher, bool watched);

/* Sets the logs of a traced run, one for each worker line in use. Before the threads start. */
void ptoi_scheduler_log(ptoi_scheduler *s, struct ptoi_log *logs);

/* The scheduler's side of a runtime, for public functions that any thread may call. In
 * orchestrator/. */
ptoi_scheduler *ptoi_scheduler_of(pto_runtime *rt);

/* ---- Another process ---- */

/* In place process the scheduler's side runs in processes that are forked from a helper
 * (worker/process.h). This is what the helper inherits from the program. */
typedef struct ptoi_helper_start {
    const ptoi_settings *settings;
    ptoi_mapping mapping; /* the program's. The helper replaces it by its own */
    int files[PTOI_PARTS];
    int channel; /* the helper's end */
    int program; /* a pidfd of the program; -1: the system has none */
    int life; /* a pipe that the helper and all worker processes hold open, and nobody writes: when
                 the program finds it closed, all of them have ended */
    struct ptoi_log *logs; /* of a traced run, in memory that all processes share; or NULL */
} ptoi_helper_start;

/* What is sent over the channel. */
typedef enum ptoi_message_kind {
    /* from the program */
    PTOI_SAY_REBUILD,  /* every thread was asked to pause: rebuild, and start what is missing */
    PTOI_SAY_KILL,     /* end the worker processes that are in a kernel */
    PTOI_SAY_ATTACHED, /* a worker process has attached from outside. Later: BYE or ENDED */
    /* from the helper */
    PTOI_SAY_READY, /* all worker processes run, or could not be started: `how` and `text` */
    PTOI_SAY_ENDED, /* a worker process has ended. Of one that had attached, the program tells the
                       helper, which says it back: READY covers all ends that it has told before */
    /* between the program and a process that attaches, in this order */
    PTOI_SAY_HELLO,   /* from the worker: `count` threads for `types`, `value` is its version */
    PTOI_SAY_REFUSED, /* from the program: why not */
    PTOI_SAY_WELCOME, /* from the program: process, first, count; `value` is config.spin. With the
                         files of the window, and a pidfd of the program */
    PTOI_SAY_LACKS,   /* from the worker: it has no kernel of the name of `kernel` */
    PTOI_SAY_JOINED, /* from the worker: it has answered for the first `value` kernels, and can start */
    PTOI_SAY_AGAIN,  /* from the program: there are more kernels by now */
    PTOI_SAY_GO,     /* from the program */
    PTOI_SAY_KERNEL, /* from the program: do you have `kernel`? */
    PTOI_SAY_HAS,    /* from the worker: yes (or LACKS) */
    PTOI_SAY_BYE, /* from the worker, and from the program to the helper: all its threads have left */
} ptoi_message_kind;

/* The address of a program that workers may attach to: the name of an abstract Unix socket, which
 * vanishes with the process. `at` has room for 108 bytes. Returns its length. */
size_t ptoi_attach_address(const char *name, char at[108]);

/* The life of the helper. Does not return. */
_Noreturn void ptoi_helper_run(const ptoi_helper_start *start);

/* The handle that kernels get as call->rt in a worker process: good for pto_task_complete,
 * pto_cancel and pto_is_cancelled. NULL: no memory. In orchestrator/, like the next two. */
pto_runtime *ptoi_runtime_for_worker(const ptoi_settings *settings);
void ptoi_runtime_serves(pto_runtime *handle, ptoi_scheduler *s, const ptoi_view *view);

/* Posts a completion to the worker processes (W16). */
pto_status ptoi_post_completion(pto_runtime *rt, pto_task task, pto_status status);

/* Wakes all workers, whatever their wake words say: a thread that died may have stored that another
 * one is awake, and not have woken it. */
void ptoi_scheduler_wake_all(ptoi_scheduler *s);

/* A worker process was lost, or no longer: whether the caller may wait. */
void ptoi_scheduler_set_lost(ptoi_scheduler *s, bool lost);

/* ---- Notify ---- */

/* Wakes a thread that claims tasks from the inbox, if one sleeps. It is called after a task was published
 * in slot `index`; PTOI_NONE: something else was. */
void ptoi_scheduler_rouse(ptoi_scheduler *s, uint32_t index);

/* ---- Help and wait ---- */

/* Runs up to `tasks` ready tasks. A task whose kernel may take longer than `longest` (ptoi_length)
 * is left to workers, and *longer is set. Returns how many tasks it ran. */
uint64_t ptoi_caller_help(ptoi_scheduler *s, uint64_t tasks, uint32_t longest, bool *longer);

/* Functions of the program that are called while this thread waits. */
typedef struct ptoi_interrupt {
    bool (*fn)(void *user); /* asked between two tasks: true stops the wait; NULL: none */
    void *user;
    bool stopped;             /* it has returned true */
    bool (*poll)(void *user); /* called when there is no task to run: true: again, do not sleep */
    void *poll_user;
} ptoi_interrupt;

/* Like ptoi_caller_help with tasks of any length. `stop` may be NULL. */
uint64_t ptoi_caller_help_or_stop(ptoi_scheduler *s, uint64_t tasks, ptoi_interrupt *stop);

/* What a wait is for: one task (`ref`, or one of `some`), or that ptoi_goal_count exceeds `complete`. On
 * level l all tasks below open[l].from are complete, and those from there to below open[l].to are
 * checked: that visits all of them, so it is for rare waits. */
typedef struct ptoi_goal {
    ptoi_ref ref;         /* 0: none */
    const ptoi_ref *some; /* they stay as they are during the wait */
    uint32_t n_some;
    uint64_t complete;
    uint32_t levels;
    struct {
        uint64_t from, to;
    } open[PTO_MAX_LEVELS];
} ptoi_goal;

/* Pairs W2. Sequentially consistent, since it is the last check before sleeping (W9). */
static inline bool ptoi_goal_task_is_closed(const ptoi_view *view, uint32_t level, uint64_t seq)
{
    return ptoi_is_marked_complete(view, ptoi_slot_of(view, level, seq)) ||
           ptoi_list_closed(ptoi_load_sc64(&ptoi_state_of(view, level, seq)->waiters),
                            ptoi_lap(view, level, seq));
}

/* Number of complete tasks: the sum of all open[l].from, and the complete ones among those checked.
 * It never falls. */
static inline uint64_t ptoi_goal_count(const ptoi_view *view, const ptoi_goal *goal)
{
    uint64_t count = 0;
    for (uint32_t l = 0; l < goal->levels; l++) {
        count += goal->open[l].from;
        for (uint64_t n = goal->open[l].from; n != goal->open[l].to; n++) {
            count += ptoi_goal_task_is_closed(view, l, n);
        }
    }
    return count;
}

static inline bool ptoi_goal_is_reached(const ptoi_view *view, const ptoi_goal *goal)
{
    if (!goal->ref && !goal->n_some) {
        return ptoi_goal_count(view, goal) > goal->complete;
    }
    bool reached = goal->ref && ptoi_goal_task_is_closed(view, ptoi_ref_level(goal->ref),
                                                         ptoi_ref_seq(goal->ref));
    for (uint32_t i = 0; i < goal->n_some && !reached; i++) {
        reached = ptoi_goal_task_is_closed(view, ptoi_ref_level(goal->some[i]),
                                           ptoi_ref_seq(goal->some[i]));
    }
    return reached;
}

/* Runs tasks until the goal is reached; sleeps while there are none. Returns how many it ran. `stop`
 * (may be NULL) is asked between tasks, and as often as the thread wakes: after a signal, and at least
 * ten times a second. */
uint64_t ptoi_caller_wait(ptoi_scheduler *s, const ptoi_goal *goal, ptoi_interrupt *stop);

/* ---- Run ---- */

/* What submit needs to call kernels itself (window/call.h). */
ptoi_calls *ptoi_caller_calls(ptoi_scheduler *s);

/* Submit ran the task in this slot, and its kernel did not return PTO_OK. The task is recorded now,
 * and ends like one that was offloaded. */
void ptoi_caller_end(ptoi_scheduler *s, uint32_t index, pto_status status, uint64_t errors_before);

/* Logs a task of a watched run that submit ran in this slot, and whose kernel returned PTO_OK. */
void ptoi_caller_log(ptoi_scheduler *s, uint32_t index);

/* Tasks that submit completes do not change the state of their slot. A word of state.waiters that
 * is 2^32 laps old would be taken for a new one. So the orchestrator has old words renewed long
 * before: words from before lap `oldest` of the level become closed words of that lap. All tasks of
 * that lap must be complete. */
void ptoi_scheduler_refresh(ptoi_scheduler *s, uint32_t level, uint32_t oldest);
#define PTOI_REFRESH_LAPS (UINT32_C(1) << 30)

/* Makes the calling thread the orchestrating thread. */
void ptoi_caller_adopt(ptoi_scheduler *s);

/* Whether the calling thread is one of the workers. */
bool ptoi_scheduler_is_worker(const ptoi_scheduler *s);

/* ---- Cancel ---- */

/* Cancels from the scheduler's side if the calling thread is a worker, else returns false. Safe in
 * a signal handler. */
bool ptoi_scheduler_cancel(ptoi_scheduler *s);

#endif /* PTOI_CALLER_H */
