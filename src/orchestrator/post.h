/* post.h - completions that the program posts to worker processes (W16). Orchestrator's side.
 *
 * Any thread of the program may call pto_task_complete, so a lock protects the ring of posts. Each
 * task is posted once. The ring has room for every slot: a task whose post was not taken is not
 * complete.
 */
#ifndef PTOI_ORCHESTRATOR_POST_H
#define PTOI_ORCHESTRATOR_POST_H

#include "orchestrator/runtime.h"

pto_status ptoi_posts_create(pto_runtime *rt);
void ptoi_posts_destroy(pto_runtime *rt);

/* Between these two no thread posts, and none wakes a worker for a post: a recovery. */
void ptoi_posts_hold(pto_runtime *rt);
void ptoi_posts_let_go(pto_runtime *rt);

/* After a rebuild, while posts are held: posts once more what a dead worker may have taken. */
void ptoi_posts_again(pto_runtime *rt);

#endif /* PTOI_ORCHESTRATOR_POST_H */
