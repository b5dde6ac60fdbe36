/* caller.h - how the orchestrating thread reaches the scheduler's side of its process.
 *
 * The two sides share the window. Where they also share a process, the orchestrating thread is a
 * worker as well: it helps while it waits, it runs short tasks in submit, and it wakes workers that
 * sleep. Those calls are here. Neither side owns this header, and neither includes headers of the
 * other. The functions belong to the scheduler's side: they write the scheduler's part of the
 * window, through the scheduler's own view of it. (Only ptoi_scheduler_of is in orchestrator/.)
 *
 *     life      create, start, join, destroy; kernels, watcher and logs
 *     notify    a task was published: wake a thread that claims tasks
 *     help      run tasks that are ready
 *     wait      help until a goal is reached, and park when there is nothing to run
 *     run       submit runs a task inline: window/call.h, and how such a task ends
 */
#ifndef PTOI_CALLER_H
#define PTOI_CALLER_H

#include <pto/observe.h>

#include "base/config.h"
#include "window/call.h"

typedef struct ptoi_scheduler ptoi_scheduler; /* scheduler/scheduler.h */
struct ptoi_log;

/* ---- Life ---- */

/* Creates the scheduler's side over its own mapping of the window. Kernels get `rt` as call->rt. On
 * failure nothing is left behind. */
pto_status ptoi_scheduler_create(const ptoi_settings *settings, void *memory, size_t bytes,
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

/* Sets the watcher, while every task is complete. `watched`: there is a watcher, or the run is
 * traced. */
void ptoi_scheduler_watch(ptoi_scheduler *s, const pto_watcher *watcher, bool watched);

/* Sets the logs of a traced run, one for each worker line in use. Before the threads start. */
void ptoi_scheduler_log(ptoi_scheduler *s, struct ptoi_log *logs);

/* The scheduler's side of a runtime, for public functions that any thread may call. */
ptoi_scheduler *ptoi_scheduler_of(pto_runtime *rt);

/* ---- Notify ---- */

/* Wakes a thread that claims tasks from the inbox, if one sleeps. */
void ptoi_scheduler_rouse(ptoi_scheduler *s);

/* ---- Help and wait ---- */

/* Runs up to `tasks` ready tasks. A task whose kernel may take longer than `longest` (ptoi_length)
 * is left to workers, and *longer is set. Returns how many tasks it ran. */
uint64_t ptoi_caller_help(ptoi_scheduler *s, uint64_t tasks, uint32_t longest, bool *longer);

/* What a wait is for: one task (`ref`), or that ptoi_goal_count exceeds `complete`. On level l all
 * tasks below open[l].from are complete, and those from there to below open[l].to are checked. */
typedef struct ptoi_goal {
    ptoi_ref ref; /* 0: any task */
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
    if (!goal->ref) {
        return ptoi_goal_count(view, goal) > goal->complete;
    }
    return ptoi_goal_task_is_closed(view, ptoi_ref_level(goal->ref), ptoi_ref_seq(goal->ref));
}

/* Runs tasks until the goal is reached; sleeps while there are none. Returns how many it ran. */
uint64_t ptoi_caller_wait(ptoi_scheduler *s, const ptoi_goal *goal);

/* ---- Run ---- */

/* What submit needs to call kernels itself (window/call.h). */
ptoi_calls *ptoi_caller_calls(ptoi_scheduler *s);

/* Submit ran the task in this slot, and its kernel did not return PTO_OK. The task is recorded now,
 * and ends like one that was offloaded. */
void ptoi_caller_end(ptoi_scheduler *s, uint32_t task, pto_status status, uint64_t words);

/* Logs a task of a watched run that submit ran in this slot, and whose kernel returned PTO_OK. */
void ptoi_caller_log(ptoi_scheduler *s, uint32_t task);

/* Tasks that submit completes do not change the state of their slot. A word of state.waiters that
 * is 2^32 laps old would be taken for a new one. So the orchestrator has old words renewed long
 * before: words from before lap `oldest` of the level become closed words of that lap. */
void ptoi_scheduler_refresh(ptoi_scheduler *s, uint32_t level, uint32_t oldest);
#define PTOI_REFRESH_LAPS (UINT32_C(1) << 30)

/* Makes the calling thread the orchestrating thread. */
void ptoi_caller_adopt(ptoi_scheduler *s);

/* ---- Cancel ---- */

/* Cancels from the scheduler's side if the calling thread is a worker, else returns false. Safe in
 * a signal handler. */
bool ptoi_scheduler_cancel(ptoi_scheduler *s);

#endif /* PTOI_CALLER_H */
