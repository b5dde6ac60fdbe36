#include "scheduler/thread.h"

#include "scheduler/complete.h"
#include "scheduler/inbox.h"

bool ptoi_thread_step(ptoi_scheduler *s)
{
    bool moved = false;
    for (uint32_t index; (index = ptoi_queue_pop(&s->queue[PTOI_QUEUE_DONE])) != PTOI_NONE;
         moved = true) {
        ptoi_complete(s, &s->own, index, (ptoi_outcome)s->view.states[index].outcome);
    }
    /* A step claims a limited number of new tasks, so that completions, which make room, are not
     * delayed. */
    for (uint32_t n = 0; n < 64; n++) {
        const uint32_t index = ptoi_inbox_claim(&s->view, &s->own.inbox, &s->own.backoff, NULL);
        if (index == PTOI_NONE) {
            break;
        }
        ptoi_scheduler_log_ready(s, index);
        ptoi_scheduler_offer(s, index);
        moved = true;
    }
    return moved;
}

bool ptoi_thread_sees_work(const ptoi_scheduler *s)
{
    return ptoi_queue_has_task(&s->queue[PTOI_QUEUE_DONE]) || ptoi_inbox_has_task(&s->view);
}
