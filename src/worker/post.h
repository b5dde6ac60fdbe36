/* post.h - completions that the program's process has posted (W16). Scheduler's side.
 *
 * In place process the orchestrator's side writes nothing of a task's state. So pto_task_complete
 * in the program's process only posts the task and its status (orchestrator/post.c). A worker takes
 * the post, and completes the task.
 */
#ifndef PTOI_WORKER_POST_H
#define PTOI_WORKER_POST_H

#include "scheduler/scheduler.h"

/* Takes all posts there are, and completes their tasks. */
void ptoi_posts_take(ptoi_worker *worker);

/* Whether there is a post. The last check before sleeping (W10). */
bool ptoi_posts_wait(const ptoi_worker *worker);

#endif /* PTOI_WORKER_POST_H */
