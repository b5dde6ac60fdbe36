#include "worker/post.h"

#include "worker/end.h"

void ptoi_posts_take(ptoi_worker *worker)
{
    const ptoi_view *view = &worker->sched->view;
    ptoi_a64 *taken = &view->sched->posts_taken;
    uint64_t at = ptoi_get64(taken);
    while (at < ptoi_acquire64(&view->header->posted_head)) { /* pairs W16 */
        /* The post is read before it is claimed, like an entry of the inbox. */
        const ptoi_post *post = &view->posts[(uint32_t)at & view->inbox_mask];
        const uint64_t task = ptoi_get64(&post->task), status = ptoi_get64(&post->status);
        if (ptoi_cas64(taken, &at, at + 1)) {
            ptoi_end_posted(worker, task, (pto_status)status);
            at++;
        }
    }
}

bool ptoi_posts_wait(const ptoi_worker *worker)
{
    const ptoi_view *view = &worker->sched->view;
    return ptoi_load_sc64(&view->header->posted_head) != ptoi_load_sc64(&view->sched->posts_taken);
}
