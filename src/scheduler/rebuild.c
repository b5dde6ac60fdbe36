#include "scheduler/rebuild.h"

#include "scheduler/step.h"

/* The tasks that may be unfinished on a level: [*from, *to). */
static void open_tasks(const ptoi_view *view, uint32_t level, uint64_t *from, uint64_t *to)
{
    const uint64_t slots = view->level[level].mask + UINT64_C(1);
    *to = ptoi_acquire64(&view->header->progress[level].head);
    *from = *to - view->first < slots ? view->first : *to - slots;
}

/* Closes a task that nobody works on any more. */
static void close_task(const ptoi_rebuild *r, uint32_t index, uint32_t lap, bool died,
                       pto_status status)
{
    const ptoi_view *view = &r->s->view;
    const bool good = !died && status == PTO_OK;
    const bool skipped = !died && status == PTO_CANCELLED && ptoi_is_cancelled(view);
    if (!good && !skipped) {
        r->failed(r->context, index, died, status);
    }
    (void)ptoi_step_complete(view, index, lap,
                             good      ? PTOI_DONE
                             : skipped ? PTOI_SKIPPED
                                       : PTOI_FAILED);
}

/* Returns whether the task is complete afterwards. */
static bool settle(const ptoi_rebuild *r, uint32_t level, uint64_t seq)
{
    const ptoi_view *view = &r->s->view;
    const uint32_t index = ptoi_slot_index(view, ptoi_slot_of(view, level, seq));
    const uint32_t lap = ptoi_lap(view, level, seq);
    ptoi_state *state = &view->states[index];
    if (ptoi_list_closed(ptoi_acquire64(&state->waiters), lap)) {
        return true;
    }
    ptoi_release64(&state->waiters, ptoi_list_word(lap - 1, PTOI_LIST_CLOSED)); /* none waits */
    const uint32_t phase = ptoi_phase_of(ptoi_acquire32(&state->phase), lap);
    const uint32_t both = PTOI_PHASE_RETURNED | PTOI_PHASE_COMPLETED;
    if (!(phase & PTOI_PHASE_RUNNING) || PTOI_MUTANT(NO_RUNNING)) {
        return false;
    }
    if ((phase & both) == both) {
        close_task(r, index, lap, false, ptoi_phase_status(phase));
        return true;
    }
    if (r->is_dead(r->context, state->worker)) {
        close_task(r, index, lap, true, PTO_WORKER_LOST);
        return true;
    }
    return false;
}

/* The line of the helper gets what is missing in the sum of all lines: a dead thread may have
 * counted a task and not completed it, or the other way round. */
static void count_again(const ptoi_rebuild *r, uint64_t complete)
{
    const ptoi_view *view = &r->s->view;
    ptoi_worker_line *own = &view->workers[r->s->n_workers + PTOI_LINE_OTHERS];
    uint64_t others = 0;
    for (uint32_t i = 0; i < r->s->n_lines; i++) {
        others += &view->workers[i] == own ? 0 : ptoi_get64(&view->workers[i].tally.completed);
    }
    ptoi_release64(&own->tally.completed, complete - others); /* W7; modulo 2^64 */
}

static void empty_queues(const ptoi_scheduler *s)
{
    for (uint32_t q = 0; q < PTOI_QUEUES; q++) {
        ptoi_queue_reset(&s->queue[q], ptoi_get32(&s->queue[q].ends->tail));
    }
    ptoi_fetch_add32(&s->view.sched->ready_epoch, 1); /* W11 */
}

static void wake_nobody(const ptoi_scheduler *s)
{
    const ptoi_view *view = &s->view;
    ptoi_store_sc32(&view->wakes->idle, 0);
    ptoi_store_sc32(&view->wakes->resting, 0);
    ptoi_store_sc64(&view->wakes->awaited, 0);
    for (uint32_t i = 0; i < s->n_lines; i++) {
        ptoi_store_sc32(&view->wakes->threads[i].parked, PTOI_AWAKE);
    }
}

/* A record that its thread was writing when it died says nothing (W14). */
static void drop_torn_failures(const ptoi_rebuild *r)
{
    const ptoi_view *view = &r->s->view;
    for (uint32_t i = 0; i < r->s->n_lines; i++) {
        ptoi_failed *f = &view->failures[i];
        const uint64_t serial = ptoi_get64(&f->serial);
        if (serial % 2) {
            ptoi_release64(&f->era, 0);
            ptoi_store_sc64(&f->serial, serial + 1);
        }
    }
}

void ptoi_rebuild_lines(const ptoi_scheduler *s, uint32_t process, uint32_t first, uint32_t count)
{
    for (uint32_t w = first; w < first + count; w++) {
        ptoi_set32(&s->view.wakes->threads[w].types, 0);
        ptoi_set32(&s->view.workers[w].activity, PTOI_STEPS);
    }
    ptoi_set32(&s->view.workers[s->n_workers + PTOI_LINE_OTHERS + process].guests, 0);
}

void ptoi_rebuild_window(const ptoi_rebuild *r)
{
    const ptoi_view *view = &r->s->view;
    uint64_t complete = 0;
    drop_torn_failures(r);
    for (uint32_t l = 0; l < view->levels; l++) {
        uint64_t from, to;
        open_tasks(view, l, &from, &to);
        complete += from - view->first;
        for (uint64_t seq = from; seq != to; seq++) {
            complete += settle(r, l, seq);
        }
    }
    count_again(r, complete);
    empty_queues(r->s);
    ptoi_release64(&view->sched->inbox_claimed, ptoi_acquire64(&view->header->inbox_head));
    ptoi_release64(&view->sched->posts_taken, ptoi_acquire64(&view->header->posted_head));
    wake_nobody(r->s);
}
