/* caller.c - the orchestrating thread as a worker, and the loop that every thread of the
 * scheduler's side runs (window/caller.h). */
#include <string.h>

#include "base/error.h"
#include "base/thread.h"
#include "scheduler/thread.h"
#include "worker/end.h"
#include "worker/worker.h"

/* ---- The loop ---- */

/* Whether the thread must leave the loop. The caller has a goal; all others stop at the end. */
static bool is_over(const ptoi_scheduler *s, const ptoi_goal *goal)
{
    return goal ? ptoi_goal_is_reached(&s->view, goal) : ptoi_load_sc32(&s->view.header->stop);
}

static bool step(ptoi_worker *worker)
{
    return worker == &worker->sched->own ? ptoi_thread_step(worker->sched)
                                         : ptoi_worker_step(worker, PTOI_LENGTH_LONG, NULL);
}

static bool sees_work(ptoi_worker *worker)
{
    return worker == &worker->sched->own ? ptoi_thread_sees_work(worker->sched)
                                         : ptoi_worker_sees_work(worker);
}

/* Runs steps until it is over. Without work it spins for a while, and then sleeps. Returns how many
 * steps found work. */
static uint64_t work(ptoi_worker *worker, const ptoi_goal *goal)
{
    ptoi_scheduler *s = worker->sched;
    uint64_t steps = 0;
    for (uint32_t idle = 0; !is_over(s, goal);) {
        if (step(worker)) {
            idle = 0;
            steps++;
        } else if (idle < s->spin) {
            ptoi_park_spin(idle++);
        } else {
            idle = 0;
            if (goal) {
                ptoi_store_sc64(&s->view.sched->awaited,
                                goal->ref ? ptoi_ref_task(goal->ref) : PTOI_AWAIT_ANY); /* W9 */
            }
            ptoi_park_announce(&worker->parker);
            if (is_over(s, goal) || sees_work(worker)) {
                ptoi_park_withdraw(&worker->parker);
            } else {
                const uint64_t since = ptoi_log_now(worker->log);
                ptoi_park_sleep(&worker->parker);
                ptoi_log_parked(worker->log, since);
            }
            if (goal) {
                ptoi_set64(&s->view.sched->awaited, 0);
            }
        }
    }
    return steps;
}

/* ---- Threads ---- */

static void *run_thread(void *context)
{
    ptoi_worker *worker = context;
    ptoi_set32(&worker->line->thread, ptoi_os_thread_number());
    (void)work(worker, NULL);
    return NULL;
}

static int start(ptoi_worker *worker)
{
    const int why = ptoi_os_thread(&worker->thread, run_thread, worker);
    worker->started = why == 0;
    return why;
}

static void join(ptoi_worker *worker)
{
    if (worker->started) {
        ptoi_park_wake(&worker->parker);
        pthread_join(worker->thread, NULL);
        worker->started = false;
    }
}

pto_status ptoi_scheduler_start(ptoi_scheduler *s)
{
    if (s->place == PTO_PLACE_THREAD) {
        const int why = start(&s->own);
        if (why) {
            return ptoi_fail(PTO_SYSTEM, "create: the scheduler's thread: %s", strerror(why));
        }
    }
    for (uint32_t i = 0; i < s->n_workers; i++) {
        const int why = start(&s->workers[i]);
        if (why) {
            return ptoi_fail(PTO_SYSTEM, "create: the thread of worker %u of %u: %s", i,
                             s->n_workers, strerror(why));
        }
    }
    return PTO_OK;
}

void ptoi_scheduler_join(ptoi_scheduler *s)
{
    if (!s) {
        return;
    }
    while (ptoi_load_sc32(&s->guests)) {
        ptoi_os_yield();
    }
    for (uint32_t i = 0; i < s->n_workers; i++) {
        join(&s->workers[i]);
    }
    join(&s->own);
}

/* ---- The orchestrating thread ---- */

/* Moves the next task of this thread to a ready queue, since no other thread can find it here. */
static void put_back_next(ptoi_worker *caller)
{
    const uint32_t task = caller->next;
    if (task != PTOI_NONE) {
        caller->next = PTOI_NONE;
        ptoi_scheduler_offer(caller->sched, task);
    }
}

uint64_t ptoi_caller_help(ptoi_scheduler *s, uint64_t tasks, uint32_t longest, bool *longer)
{
    ptoi_worker *caller = s->caller;
    uint64_t helped = 0;
    while (helped < tasks && ptoi_worker_step(caller, longest, longer)) {
        helped++;
    }
    put_back_next(caller);
    return helped;
}

uint64_t ptoi_caller_wait(ptoi_scheduler *s, const ptoi_goal *goal)
{
    ptoi_worker *caller = s->caller;
    const uint64_t helped = work(caller, goal);
    put_back_next(caller);
    return helped;
}

/* Sets the flags with which this thread logs its tasks. */
static void log_as(ptoi_worker *caller, uint16_t flags)
{
    if (caller->log) {
        caller->log->flags = flags;
    }
}

void ptoi_caller_end(ptoi_scheduler *s, uint32_t task, pto_status status, uint64_t words)
{
    log_as(s->caller, PTOI_RAN_INLINE);
    ptoi_end(s->caller, task, status, words);
    log_as(s->caller, 0);
    put_back_next(s->caller);
}

void ptoi_caller_log(ptoi_scheduler *s, uint32_t task)
{
    log_as(s->caller, PTOI_RAN_INLINE);
    ptoi_log_completed(s, s->caller, task, PTOI_DONE);
    log_as(s->caller, 0);
}

ptoi_calls *ptoi_caller_calls(ptoi_scheduler *s)
{
    return &s->caller->calls;
}

void ptoi_scheduler_refresh(ptoi_scheduler *s, uint32_t level, uint32_t oldest)
{
    const ptoi_view_level *l = &s->view.level[level];
    for (uint32_t i = 0; i <= l->mask; i++) {
        ptoi_a64 *waiters = &l->states[i].waiters;
        uint64_t word = ptoi_acquire64(waiters);
        /* If a thread joins or closes the list meanwhile, the word is new, and the
         * compare-and-swap fails. */
        if ((int32_t)((uint32_t)(word >> 32) - oldest) < 0) {
            (void)ptoi_cas64(waiters, &word, ptoi_list_word(oldest, PTOI_LIST_CLOSED));
        }
    }
}

void ptoi_caller_adopt(ptoi_scheduler *s)
{
    ptoi_set32(&s->caller->line->thread, ptoi_os_thread_number());
}

bool ptoi_scheduler_cancel(ptoi_scheduler *s)
{
    const uint32_t self = ptoi_os_thread_number();
    for (uint32_t i = 0; i < s->n_workers; i++) {
        if (ptoi_get32(&s->workers[i].line->thread) == self) {
            ptoi_release32(&s->view.sched->cancel, ptoi_get32(&s->view.header->era)); /* W13 */
            return true;
        }
    }
    return false;
}
