#include "scheduler/thread.h"

#include "scheduler/complete.h"
#include "scheduler/inbox.h"

bool ptoi_thread_step(ptoi_scheduler *s)
{
    bool moved = false;
    for (uint32_t task; (task = ptoi_queue_pop(&s->done)) != PTOI_NONE; moved = true) {
        ptoi_complete(s, &s->own, task, (ptoi_outcome)s->view.states[task].outcome);
    }
    /* A step claims a limited number of new tasks, so that completions, which make room, are not
     * delayed. */
    for (uint32_t n = 0; n < 64; n++) {
        const uint32_t task = ptoi_inbox_claim(&s->view, &s->own.inbox, &s->own.backoff);
        if (task == PTOI_NONE) {
            break;
        }
        ptoi_scheduler_log_ready(s, task);
        ptoi_scheduler_offer(s, task);
        moved = true;
    }
    return moved;
}

bool ptoi_thread_sees_work(const ptoi_scheduler *s)
{
    return ptoi_queue_has_task(&s->done) || ptoi_inbox_has_task(&s->view);
}
