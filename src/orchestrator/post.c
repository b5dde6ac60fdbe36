#include "orchestrator/post.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/mutant.h"

/* What was posted for the task in each slot. */
typedef struct posted {
    uint64_t task; /* 0: none */
    pto_status status;
} posted;

struct ptoi_posts {
    pthread_mutex_t lock;
    posted *slots;
    size_t bytes;
};

pto_status ptoi_posts_create(pto_runtime *rt)
{
    struct ptoi_posts *posts = calloc(1, sizeof *posts);
    rt->posts = posts;
    if (posts) {
        pthread_mutex_init(&posts->lock, NULL);
        posts->bytes = rt->view.header->slots * sizeof *posts->slots;
        posts->slots = ptoi_os_reserve(posts->bytes);
    }
    return posts && posts->slots
               ? PTO_OK
               : ptoi_fail(PTO_OUT_OF_MEMORY, "create: posts of %u tasks", rt->view.header->slots);
}

void ptoi_posts_destroy(pto_runtime *rt)
{
    if (rt->posts) {
        pthread_mutex_destroy(&rt->posts->lock);
        ptoi_os_release(rt->posts->slots, rt->posts->bytes);
        free(rt->posts);
        rt->posts = NULL;
    }
}

/* Under the lock. */
static void post(pto_runtime *rt, pto_task task, pto_status status)
{
    ptoi_header *h = rt->view.header;
    const uint64_t at = ptoi_get64(&h->posted_head);
    ptoi_post *place = &rt->view.posts[(uint32_t)at & rt->view.inbox_mask];
    ptoi_set64(&place->task, task);
    ptoi_set64(&place->status, (uint64_t)(uint32_t)status);
    ptoi_store_asym64(&h->posted_head, at + 1, h->asymmetric); /* W16 */
}

pto_status ptoi_post_completion(pto_runtime *rt, pto_task task, pto_status status)
{
    const ptoi_view *view = &rt->view;
    posted *p =
        &rt->posts->slots[ptoi_slot_index(view, ptoi_slot_of(view, (uint32_t)task & 7, task >> 3))];
    pthread_mutex_lock(&rt->posts->lock);
    /* The task was pending a moment ago. By now another thread may have posted it, and the slot may
     * be that of a later task. */
    const bool again = p->task >> 3 >= task >> 3;
    if (!again) {
        *p = (posted){task, status};
        post(rt, task, status);
        if (ptoi_load_sc32(rt->sleepers)) { /* W10. Under the lock: not during a recovery, which
                                               counts sleepers anew */
            ptoi_scheduler_rouse(rt->scheduler, PTOI_NONE);
        }
    }
    pthread_mutex_unlock(&rt->posts->lock);
    return again ? ptoi_fail(PTO_BAD_TASK, "complete: task handle %llu is complete already",
                             (unsigned long long)task)
                 : PTO_OK;
}

void ptoi_posts_hold(pto_runtime *rt)
{
    pthread_mutex_lock(&rt->posts->lock);
}

void ptoi_posts_let_go(pto_runtime *rt)
{
    pthread_mutex_unlock(&rt->posts->lock);
}

void ptoi_posts_again(pto_runtime *rt)
{
    const ptoi_view *view = &rt->view;
    /* All workers pause. Posts that were not taken are posted again with the others. */
    ptoi_set64(&view->header->posted_head, ptoi_acquire64(&view->sched->posts_taken));
    for (uint32_t i = 0; i < view->header->slots; i++) {
        const posted *p = &rt->posts->slots[i];
        const uint32_t level = (uint32_t)p->task & 7;
        const uint64_t seq = p->task >> 3;
        if (!p->task || ptoi_get64(&view->slots[i].seq) != seq) {
            continue;
        }
        const uint32_t lap = ptoi_lap(view, level, seq);
        const uint32_t phase = ptoi_phase_of(ptoi_acquire32(&view->states[i].phase), lap);
        if (!(phase & PTOI_PHASE_COMPLETED) && !PTOI_MUTANT(POST_ONCE) &&
            !ptoi_list_closed(ptoi_acquire64(&view->states[i].waiters), lap)) {
            post(rt, p->task, p->status);
        }
    }
}
