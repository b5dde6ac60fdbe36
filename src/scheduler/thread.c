/* thread.c - the scheduler's step on a thread of its own. */
#include <string.h>

#include "base/error.h"
#include "scheduler/step.h"

static bool step(ptoi_sched *sched)
{
    bool moved = false;
    for (uint32_t task; (task = ptoi_queue_pop(&sched->done)) != PTOI_NONE; moved = true) {
        ptoi_sched_close(sched, &sched->own, task, (ptoi_outcome)sched->view.states[task].outcome);
    }
    /* Not all new tasks at once: completions make room, new tasks fill it. */
    for (uint32_t n = 0; n < 64; n++) {
        uint32_t task = ptoi_sched_claim(sched, &sched->own.inbox, &sched->own.breath);
        if (task == PTOI_NONE) {
            break;
        }
        ptoi_sched_tell_ready(sched, task);
        ptoi_sched_offer(sched, task);
        moved = true;
    }
    return moved;
}

static bool sees_work(ptoi_sched *sched)
{
    const ptoi_header *h = sched->view.header;
    return ptoi_see32(&sched->stop) || ptoi_queue_see(&sched->done) ||
           ptoi_see64(&h->inbox_head) != ptoi_get64(&h->inbox_claimed);
}

static void *run(void *context)
{
    ptoi_sched *sched = context;
    ptoi_set32(&sched->own.line->thread, ptoi_os_thread_number());
    for (uint32_t idle = 0; !ptoi_acquire32(&sched->stop);) {
        if (step(sched)) {
            idle = 0;
        } else if (idle < sched->spin) {
            ptoi_park_spin(idle++);
        } else {
            idle = 0;
            ptoi_park_announce(&sched->own.parker);
            if (sees_work(sched)) {
                ptoi_park_withdraw(&sched->own.parker);
            } else {
                const uint64_t since = ptoi_log_now(sched->own.log);
                ptoi_park_sleep(&sched->own.parker);
                ptoi_log_parked(sched->own.log, since);
            }
        }
    }
    return NULL;
}

pto_status ptoi_sched_thread_start(ptoi_sched *sched)
{
    int why = ptoi_os_thread(&sched->own.thread, run, sched);
    if (why) {
        return ptoi_fail(PTO_SYSTEM, "create: the scheduler's thread: %s", strerror(why));
    }
    sched->own.started = true;
    return PTO_OK;
}

void ptoi_sched_thread_stop(ptoi_sched *sched)
{
    if (sched->own.started) {
        ptoi_park_wake(&sched->own.parker);
        pthread_join(sched->own.thread, NULL);
        sched->own.started = false;
    }
}
