/* caller.c - the orchestrating thread as a worker, and the loop that every thread of the
 * scheduler's side runs (window/caller.h). */
#include <string.h>

#include <pto/device.h>

#include "base/error.h"
#include "base/pin.h"
#include "base/thread.h"
#include "scheduler/thread.h"
#include "worker/crash.h"
#include "worker/end.h"
#include "worker/keeper.h"
#include "worker/launcher.h"
#include "worker/pause.h"
#include "worker/post.h"
#include "worker/worker.h"

/* ---- The loop ---- */

/* A wait that can be stopped sleeps for this long at most: a signal may arrive just before it falls
 * asleep, and then nothing interrupts the sleep. */
#define NAP_US 100000

/* A poll that always wants to be called again must not keep a wait from being stopped. */
#define POLLS 1024

/* While launched tasks are not complete, their launcher checks at least this often. */
#define LAUNCHED_US 50

/* Whether the thread must leave the loop. The caller has a goal; all others stop at the end. */
static bool is_over(const ptoi_scheduler *s, const ptoi_goal *goal)
{
    return goal ? ptoi_goal_is_reached(&s->view, goal) || ptoi_load_sc32(&s->lost)
                : ptoi_load_sc32(&s->view.header->stop) == PTOI_END || ptoi_load_sc32(&s->leaving);
}

static bool step(ptoi_worker *worker)
{
    if (PTOI_LIKELY(worker->plain)) {
        return ptoi_worker_step(worker, PTOI_LENGTH_LONG, NULL);
    }
    if (worker->launcher) {
        return ptoi_launcher_step(worker);
    }
    if (PTOI_UNLIKELY(worker->sched->role == PTOI_ROLE_PROGRAM)) {
        return false;
    }
    if (PTOI_UNLIKELY(worker->calls.isolated)) {
        ptoi_pause_if_asked(worker);
        ptoi_posts_take(worker);
    }
    if (worker != &worker->sched->own) {
        return ptoi_worker_step(worker, PTOI_LENGTH_LONG, NULL);
    }
    return worker->sched->keeper ? ptoi_keeper_step(worker->sched)
                                 : ptoi_thread_step(worker->sched);
}

static bool sees_work(ptoi_worker *worker)
{
    if (PTOI_UNLIKELY(worker->calls.isolated) &&
        (ptoi_posts_wait(worker) ||
         ptoi_load_sc32(&worker->sched->view.header->stop) == PTOI_PAUSE)) {
        return true;
    }
    if (worker != &worker->sched->own) {
        return ptoi_worker_sees_work(worker);
    }
    return worker->sched->keeper ? ptoi_keeper_sees_work(worker->sched)
                                 : ptoi_thread_sees_work(worker->sched);
}

/* Whether somebody may have news who wakes nobody: a device that schedules for itself. Then the keeper and
 * a waiting orchestrator nap, and announce nothing: submit need not wake them. */
static bool must_look_again(const ptoi_worker *worker, const ptoi_goal *goal)
{
    const ptoi_scheduler *s = worker->sched;
    return s->place == PTO_PLACE_GPU && (goal || (worker == &s->own && ptoi_keeper_is_resident(s)));
}

static bool is_stopped(ptoi_interrupt *stop)
{
    if (stop && stop->fn && !stop->stopped) {
        stop->stopped = stop->fn(stop->user);
    }
    return stop && stop->stopped;
}

/* Runs steps until it is over, or stopped. Without work it spins for a while, and then sleeps. Returns
 * how many steps found work. */
static uint64_t work(ptoi_worker *worker, const ptoi_goal *goal, ptoi_interrupt *stop)
{
    ptoi_scheduler *s = worker->sched;
    uint64_t steps = 0, polls = 0;
    for (uint32_t idle = 0; !is_over(s, goal);) {
        if (step(worker)) {
            idle = 0;
            steps++;
            if (is_stopped(stop)) {
                break;
            }
        } else if (stop && stop->poll && stop->poll(stop->poll_user)) {
            idle = 0; /* it may have completed a task */
            if (++polls % POLLS == 0 && is_stopped(stop)) {
                break;
            }
        } else if (idle < s->spin) {
            ptoi_park_spin(idle++);
        } else if (PTOI_UNLIKELY(must_look_again(worker, goal))) {
            ptoi_os_nap(&worker->parker.line->parked, PTOI_AWAKE, PTOI_KEEPER_NAP_US);
            if (is_stopped(stop)) {
                break;
            }
        } else {
            idle = 0;
            if (goal) {
                ptoi_store_sc64(&s->view.wakes->awaited, goal->ref && !goal->n_some
                                                             ? ptoi_ref_task(goal->ref)
                                                             : PTOI_AWAIT_ANY); /* W9 */
            }
            ptoi_park_announce(&worker->parker);
            if (is_over(s, goal) || sees_work(worker)) {
                ptoi_park_withdraw(&worker->parker);
            } else {
                const uint64_t since = ptoi_log_now(worker->log);
                if (stop && stop->fn) {
                    ptoi_park_nap(&worker->parker, NAP_US);
                } else if (worker->launcher && ptoi_launcher_is_busy(worker->launcher)) {
                    ptoi_park_nap(&worker->parker, LAUNCHED_US);
                } else {
                    ptoi_park_sleep(&worker->parker);
                }
                ptoi_log_parked(worker->log, since);
            }
            if (goal) {
                ptoi_set64(&s->view.wakes->awaited, 0);
            }
            if (is_stopped(stop)) {
                break;
            }
        }
    }
    return steps;
}

/* Moves the next task of this thread to a ready queue, since no other thread can find it here. */
static void put_back_next(ptoi_worker *worker)
{
    const uint32_t index = worker->next;
    if (index != PTOI_NONE) {
        worker->next = PTOI_NONE;
        ptoi_scheduler_offer(worker->sched, index);
    }
}

/* ---- Threads ---- */

/* A worker leaves and others stay. Its next task goes back to a queue. A wake-up that was meant for
 * it goes to another one. */
static void leave(ptoi_worker *worker)
{
    ptoi_store_sc32(&worker->parker.line->types, 0);
    if (!PTOI_MUTANT(KEEP_NEXT)) {
        put_back_next(worker);
    }
    if (!PTOI_MUTANT(NO_FORWARD)) {
        (void)ptoi_scheduler_wake(worker->sched, 0, PTO_ALL_TYPES);
    }
}

static void *run_thread(void *context)
{
    ptoi_worker *worker = context;
    ptoi_set32(&worker->calls.line->thread, ptoi_os_thread_number());
    if (worker->cpu != PTOI_NONE) {
        ptoi_pin_here(worker->cpu);
    }
    ptoi_crash_thread_begin(worker);
    const ptoi_sched_device *device = worker == &worker->sched->own
                                          ? ptoi_keeper_device(worker->sched)
                                          : worker->device;
    if (device) { /* if it cannot be made current, the first task reports it */
        PTO_IGNORE(pto_device_set_current(device->device));
    }
    if (worker->launcher) {
        ptoi_launcher_open(worker);
    }
    (void)work(worker, NULL, NULL);
    if (worker->launcher) {
        ptoi_launcher_close(worker);
    }
    if (worker == &worker->sched->own && worker->sched->keeper) {
        ptoi_keeper_close(worker->sched);
    }
    if (worker->calls.isolated) {
        leave(worker);
    }
    ptoi_crash_thread_end(worker);
    return NULL;
}

int ptoi_worker_start(ptoi_worker *worker)
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

static pto_status start_workers(ptoi_scheduler *s, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++) {
        const int why = ptoi_worker_start(&s->workers[i]);
        if (why) {
            return ptoi_fail(PTO_SYSTEM, "create: the thread of worker %u of %u: %s", i,
                             s->n_workers, strerror(why));
        }
    }
    return PTO_OK;
}

pto_status ptoi_scheduler_start_all(ptoi_scheduler *s)
{
    PTO_TRY(ptoi_crash_begin(s));
    return start_workers(s, s->own_first, s->own_first + s->own_count);
}

pto_status ptoi_scheduler_run(ptoi_scheduler *s)
{
    PTO_TRY(ptoi_crash_begin(s));
    PTO_TRY(start_workers(s, s->own_first + 1, s->own_first + s->own_count));
    (void)run_thread(&s->workers[s->own_first]);
    ptoi_scheduler_join(s);
    return PTO_OK;
}

pto_status ptoi_scheduler_start(ptoi_scheduler *s)
{
    if (s->role == PTOI_ROLE_PROGRAM) {
        return PTO_OK; /* its helper starts worker processes (orchestrator/process.c) */
    }
    PTO_TRY(ptoi_crash_begin(s));
    if (s->place == PTO_PLACE_THREAD) {
        const int why = ptoi_worker_start(&s->own);
        if (why) {
            return ptoi_fail(PTO_SYSTEM, "create: the scheduler's thread: %s", strerror(why));
        }
    }
    return start_workers(s, 0, s->n_workers);
}

/* Wakes a thread, also one that its wake word calls awake: see ptoi_scheduler_wake_all. */
static void wake_surely(ptoi_parker *parker)
{
    if (!ptoi_park_wake(parker) && !PTOI_MUTANT(TRUST_DEAD)) {
        ptoi_os_wake(&parker->line->parked);
    }
}

void ptoi_scheduler_set_lost(ptoi_scheduler *s, bool lost)
{
    ptoi_store_sc32(&s->lost, lost);
    wake_surely(&s->caller->parker);
}

void ptoi_scheduler_wake_all(ptoi_scheduler *s)
{
    for (uint32_t i = 0; i < s->n_workers; i++) {
        wake_surely(&s->workers[i].parker);
    }
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
    for (uint32_t d = 1; d < s->n_devices; d++) {
        for (uint32_t i = 0; i < s->devices[d].n_workers; i++) {
            join(&s->devices[d].workers[i]);
        }
    }
    join(&s->own);
    ptoi_crash_end(s); /* it names the blocks of the keeper's grid */
    ptoi_keeper_destroy(s);
}

/* ---- The orchestrating thread ---- */

uint64_t ptoi_caller_help(ptoi_scheduler *s, uint64_t tasks, uint32_t longest, bool *longer)
{
    ptoi_worker *caller = s->caller;
    uint64_t helped = 0;
    if (s->role == PTOI_ROLE_PROGRAM) {
        return 0;
    }
    while (helped < tasks && ptoi_worker_step(caller, longest, longer)) {
        helped++;
    }
    put_back_next(caller);
    return helped;
}

uint64_t ptoi_caller_help_or_stop(ptoi_scheduler *s, uint64_t tasks, ptoi_interrupt *stop)
{
    ptoi_worker *caller = s->caller;
    uint64_t helped = 0;
    while (helped < tasks && ptoi_worker_step(caller, PTOI_LENGTH_LONG, NULL)) {
        helped++;
        if (is_stopped(stop)) {
            break;
        }
    }
    put_back_next(caller);
    return helped;
}

uint64_t ptoi_caller_wait(ptoi_scheduler *s, const ptoi_goal *goal, ptoi_interrupt *stop)
{
    ptoi_worker *caller = s->caller;
    const uint64_t helped = work(caller, goal, stop);
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

void ptoi_caller_end(ptoi_scheduler *s, uint32_t index, pto_status status, uint64_t errors_before)
{
    log_as(s->caller, PTOI_RAN_INLINE);
    ptoi_end(s->caller, index, status, errors_before);
    log_as(s->caller, 0);
    put_back_next(s->caller);
}

void ptoi_caller_log(ptoi_scheduler *s, uint32_t index)
{
    log_as(s->caller, PTOI_RAN_INLINE);
    ptoi_log_completed(s, s->caller, index, PTOI_DONE);
    log_as(s->caller, 0);
}

ptoi_calls *ptoi_caller_calls(ptoi_scheduler *s)
{
    return &s->caller->calls;
}

void ptoi_scheduler_refresh(ptoi_scheduler *s, uint32_t level, uint32_t oldest)
{
    const ptoi_view_level *l = &s->view.level[level];
    if (s->role == PTOI_ROLE_PROGRAM || s->place == PTO_PLACE_GPU) {
        return; /* no task is completed by submit here, so every lap renews every word */
    }
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
    if (s->role == PTOI_ROLE_PROGRAM) {
        return; /* it runs no kernel */
    }
    ptoi_set32(&s->caller->calls.line->thread, ptoi_os_thread_number());
}

bool ptoi_scheduler_is_worker(const ptoi_scheduler *s)
{
    const uint32_t self = ptoi_os_thread_number();
    if (s->role == PTOI_ROLE_WORKER) {
        return true; /* whatever thread of a worker process it is */
    }
    /* The lines of the host's workers, then those of the other devices. */
    const uint32_t first = ptoi_line_of_device(&s->view, 0), end = ptoi_lines(&s->view);
    for (uint32_t i = 0; s->role == PTOI_ROLE_ALL && i < end; i++) {
        if ((i < s->n_workers || i >= first) && ptoi_get32(&s->view.workers[i].thread) == self) {
            return true;
        }
    }
    return false;
}

bool ptoi_scheduler_cancel(ptoi_scheduler *s)
{
    if (!ptoi_scheduler_is_worker(s)) {
        return false;
    }
    ptoi_release32(&s->view.sched->cancel, ptoi_get32(&s->view.header->era)); /* W13 */
    return true;
}
