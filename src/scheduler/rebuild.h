/* rebuild.h - makes the scheduler's part of the window whole again after a worker process was lost.
 *
 * A process may die between any two stores. So nothing is repaired: everything that a dead thread
 * may have left half done is thrown away, and made again from what is certain.
 *
 *     certain                               thrown away
 *     a closed list: the task is complete   all other lists of waiters
 *     RUNNING, and who called the kernel    ready queues, claims of the inbox and of posts
 *     slots, edges, arguments [o]           who sleeps, counts of complete tasks
 *
 * What becomes of a task that is not complete:
 *
 *     its kernel was not called             it goes through the inbox again, from the start
 *     it runs, or is pending, and its       nothing: it goes on, and ends as it would have
 *     process lives
 *     its kernel ran in a dead process      it fails
 *     pto_task_complete has ended it        it ends with that status
 *
 * Before: no live thread is in the step (worker/pause.h), and the orchestrating thread waits. The
 * orchestrator fills the inbox afterwards. The helper runs this; explorer and tests do, too.
 */
#ifndef PTOI_REBUILD_H
#define PTOI_REBUILD_H

#include "scheduler/scheduler.h"

/* How to tell a dead worker, and what to do with a task that ends here. */
typedef struct ptoi_rebuild {
    ptoi_scheduler *s;
    bool (*is_dead)(const void *context, uint32_t worker);
    /* The task failed. Called before its list is closed. `died`: its process did; otherwise `status`
     * was given to pto_task_complete. */
    void (*failed)(const void *context, uint32_t index, bool died, pto_status status);
    const void *context;
} ptoi_rebuild;

/* The lines of a process that is dead. Nobody else writes them. Before ptoi_rebuild_window. */
void ptoi_rebuild_lines(const ptoi_scheduler *s, uint32_t process, uint32_t first, uint32_t count);

void ptoi_rebuild_window(const ptoi_rebuild *r);

#endif /* PTOI_REBUILD_H */
