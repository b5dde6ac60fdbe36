#include "worker/pause.h"

#include <stdio.h>
#include <unistd.h>

#include "base/os.h"
#include "scheduler/complete.h"

static void sleep_while_paused(const ptoi_view *view)
{
    while (ptoi_load_sc32(&view->header->stop) == PTOI_PAUSE) {
        ptoi_os_sleep(&view->header->stop, PTOI_PAUSE);
    }
}

static void pause_here(const ptoi_view *view, ptoi_worker_line *line)
{
    while (ptoi_load_sc32(&view->header->stop) == PTOI_PAUSE) {
        ptoi_store_sc32(&line->activity, PTOI_PAUSED);
        sleep_while_paused(view);
        ptoi_store_sc32(&line->activity, PTOI_STEPS); /* and see that no other pause has begun */
    }
}

void ptoi_pause_if_asked(ptoi_worker *worker)
{
    const ptoi_view *view = &worker->sched->view;
    if (PTOI_UNLIKELY(ptoi_load_sc32(&view->header->stop) == PTOI_PAUSE)) {
        worker->next = PTOI_NONE; /* the rebuild finds it */
        pause_here(view, worker->calls.line);
        worker->backoff = 0;
    }
}

/* A kernel has called fork, and its child returns from the kernel, too. */
static __attribute__((noinline, cold)) _Noreturn void end_copy(void)
{
    fprintf(
        stderr,
        "pto: process %d: a kernel forked it and let it return; it ends here. The child of a fork "
        "in a kernel must end with _exit or exec\n",
        (int)getpid());
    _exit(1);
}

void ptoi_call_returned(ptoi_calls *calls)
{
    if (PTOI_UNLIKELY(calls->forks != ptoi_os_forks)) {
        end_copy();
    }
    ptoi_store_asym32(&calls->line->activity, PTOI_STEPS, calls->view->header->asymmetric);
    if (PTOI_UNLIKELY(ptoi_load_sc32(&calls->view->header->stop) == PTOI_PAUSE) &&
        !PTOI_MUTANT(NO_PAUSE)) { /* W17 */
        pause_here(calls->view, calls->line);
    }
}

void ptoi_pause_guest_enters(ptoi_scheduler *s)
{
    ptoi_a32 *guests = &ptoi_line_of(s, NULL)->guests;
    ptoi_fetch_add32(guests, 1);
    while (ptoi_load_sc32(&s->view.header->stop) == PTOI_PAUSE) {
        ptoi_fetch_add32(guests, (uint32_t)-1);
        sleep_while_paused(&s->view);
        ptoi_fetch_add32(guests, 1);
    }
}

void ptoi_pause_guest_leaves(ptoi_scheduler *s)
{
    ptoi_fetch_add32(&ptoi_line_of(s, NULL)->guests, (uint32_t)-1);
}

bool ptoi_pause_is_reached(const ptoi_scheduler *s, uint32_t process, uint32_t first,
                           uint32_t count)
{
    const ptoi_worker_line *lines = s->view.workers;
    bool reached = !ptoi_load_sc32(&lines[s->n_workers + PTOI_LINE_OTHERS + process].guests);
    for (uint32_t i = first; i < first + count; i++) {
        reached &= ptoi_load_sc32(&lines[i].activity) != PTOI_STEPS;
    }
    return reached;
}
