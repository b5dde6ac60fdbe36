/* grid.c - a grid of threads: how a simulated device schedules for itself. The roles are those of a real
 * one, from the same source (scheduler/grid.h). One thread carries out the steps of mover, resolver,
 * clerk and writer in turn; each worker is a thread. */
#include <string.h>

#include <pto/pto.h>

#include "base/error.h"
#include "base/thread.h"
#include "scheduler/complete.h"
#include "scheduler/grid_clerk.h"
#include "scheduler/grid_move.h"
#include "scheduler/grid_roles.h"
#include "scheduler/grid_write.h"
#include "worker/arg.h"
#include "worker/crash.h"
#include "worker/end.h"
#include "worker/keeper.h"
#include "worker/worker.h"

#define POLLS 64 /* that found nothing, before a thread naps */
#define NAP_US 50

typedef struct ptoi_grid_threads {
    ptoi_scheduler *sched;
    ptoi_keeper *keeper;
    ptoi_worker *workers;
    size_t worker_bytes;
    char *stacks; /* for signals, one for each worker */
    pthread_t service;
    bool serving;
} ptoi_grid_threads;

/* Lets other threads run: those of a grid are more than there are cores. */
static void back_off(uint32_t *idle)
{
    if (++*idle < POLLS) {
        ptoi_os_yield();
    } else {
        ptoi_a32 nobody;
        ptoi_set32(&nobody, 0);
        ptoi_os_nap(&nobody, 0, NAP_US);
    }
}

static void *serve(void *context)
{
    const ptoi_grid_threads *t = context;
    const ptoi_grid *g = &t->keeper->grid;
    ptoi_mover mover = g->control->mover;
    const ptoi_grid_span span = g->records ? ptoi_grid_span_begin(g->records) : (ptoi_grid_span){0};
    ptoi_grid_clerk clerk = ptoi_grid_clerk_begin(g);
    uint64_t at = ptoi_grid_first(g, 0);
    ptoi_grid_found resolver = PTOI_GRID_NOTHING, writer = resolver, clerks = resolver;
    uint32_t idle = 0;
    while (mover.phase != PTOI_GRID_OVER) {
        bool found = ptoi_grid_move(g, &mover);
        if (resolver != PTOI_GRID_END) {
            resolver = ptoi_grid_resolve(g, 0, &at);
            found |= resolver == PTOI_GRID_SOMETHING;
        }
        if (clerks != PTOI_GRID_END) {
            clerks = ptoi_grid_serve(g, &clerk);
            found |= clerks == PTOI_GRID_SOMETHING;
        }
        if (writer != PTOI_GRID_END) {
            writer = ptoi_grid_write(g, 0);
            found |= writer == PTOI_GRID_SOMETHING;
        }
        if (found) {
            idle = 0;
        } else {
            back_off(&idle);
        }
    }
    if (g->records) {
        ptoi_grid_span_end(g->records, span);
    }
    return NULL;
}

/* Calls the kernel of a task, which may run. Returns how it ended. */
static ptoi_outcome call(const ptoi_grid *g, ptoi_worker *worker, uint32_t index,
                         const ptoi_grid_slot *slot)
{
    const ptoi_slot_header header = ptoi_slot_header_read(slot->header);
    const uint32_t phase = ptoi_phase_begin(ptoi_grid_lap(&g->view, slot));
    uint64_t errors_before = ptoi_error_serial();
    worker->calls.watched = worker->sched->caller->calls.watched; /* D1, D2, D3 publish it */
    ptoi_args_resolve(&g->view, g->view.level[header.level].args + slot->args, slot->n_args,
                      worker->calls.args);
    pto_status status = ptoi_worker_begin(worker);
    if (status == PTO_OK) {
        status = ptoi_call_kernel(&worker->calls, index, header.kernel, ptoi_lane_type(header.lane),
                                  ptoi_task_make(slot->seq, header.level), slot->n_args, phase,
                                  &errors_before);
    }
    if (status == PTO_PENDING) {
        status = ptoi_fail(PTO_KERNEL_FAILED,
                           "a kernel of a device that schedules for itself cannot be "
                           "pending (PTO_SCHEDULER=gpu)");
    }
    return status == PTO_OK ? PTOI_DONE
                            : ptoi_end_judge(worker->sched, worker, index, status,
                                             ptoi_end_message(errors_before));
}

static void *work(void *context)
{
    ptoi_worker *worker = context;
    ptoi_scheduler *s = worker->sched;
    const ptoi_grid *g = &s->keeper->grid;
    const uint32_t id = worker->calls.call.worker;
    ptoi_grid_worker w = ptoi_grid_worker_begin(g, id, ptoi_grid_ring_of(g, id));
    ptoi_grid_place log = g->records ? g->records->place[id] : (ptoi_grid_place){0};
    ptoi_grid_mark began = {0}, ended = began;
    uint32_t idle = 0, index = 0;
    ptoi_set32(&worker->calls.line->thread, ptoi_os_thread_number());
    ptoi_crash_thread_begin(worker);
    for (;;) {
        const ptoi_grid_found found = ptoi_grid_take(g, &w, &index);
        if (found == PTOI_GRID_END) {
            break;
        }
        if (found == PTOI_GRID_NOTHING) {
            back_off(&idle);
            continue;
        }
        const ptoi_grid_slot slot = ptoi_grid_taken_slot(g, &w, index);
        const pto_task task = ptoi_task_make(slot.seq, ptoi_slot_header_read(slot.header).level);
        if (g->records) {
            began = ptoi_grid_now();
        }
        const bool runs = ptoi_grid_may_run(g, index, &slot);
        const ptoi_outcome outcome = runs ? call(g, worker, index, &slot) : PTOI_SKIPPED;
        if (g->records) {
            ended = ptoi_grid_now();
        }
        ptoi_grid_complete(g, &w, index, ptoi_grid_lap(&g->view, &slot), outcome);
        if (g->records) {
            ptoi_grid_log_ran(g->records, &log, id, task, runs, began, ended, outcome);
        }
        idle = 0;
    }
    if (g->records) {
        ptoi_grid_log_leave(g->records, &log, id);
    }
    ptoi_crash_thread_end(worker);
    return NULL;
}

pto_status ptoi_grid_threads_create(ptoi_scheduler *s, ptoi_keeper *k, uint32_t first)
{
    const uint32_t n = k->grid.n_workers;
    ptoi_grid_threads *t = ptoi_os_reserve(sizeof *t);
    if (!t) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "create: a grid of %u threads", n);
    }
    k->threads = t;
    t->sched = s;
    t->keeper = k;
    t->worker_bytes = n * sizeof *t->workers;
    t->workers = ptoi_os_reserve(t->worker_bytes);
    t->stacks = s->crash_report ? ptoi_os_reserve(n * PTOI_CRASH_STACK) : NULL;
    if (!t->workers || (s->crash_report && !t->stacks)) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "create: a grid of %u threads", n);
    }
    for (uint32_t i = 0; i < n; i++) {
        ptoi_worker *w = &t->workers[i];
        const uint32_t id = ptoi_line_of_device(&s->view, first + i);
        ptoi_scheduler_init_device_worker(s, w, k->device, id, 0);
        w->calls.args = ptoi_os_reserve(s->args_bytes);
        if (!w->calls.args) {
            break;
        }
        w->calls.view = &k->grid.view;
        w->calls.call.args = w->calls.args;
        w->calls.call.worker = i;
        w->calls.call.device = s->devices[k->device].device;
        w->log = s->logs ? &s->logs[id] : NULL;
        w->stack = t->stacks ? t->stacks + i * PTOI_CRASH_STACK : NULL;
    }
    return t->workers[n - 1].calls.args
               ? PTO_OK
               : ptoi_fail(PTO_OUT_OF_MEMORY, "create: a grid of %u threads", n);
}

/* Sends those threads home that were started. */
static void call_off(ptoi_keeper *k)
{
    ptoi_grid_control *c = k->grid.control;
    ptoi_release32(&c->leave, 1);
    ptoi_grid_threads_join(k);
    ptoi_set32(&c->leave, 0);
    ptoi_set32(&c->left, 0);
    for (uint32_t q = 0; q < PTOI_GRID_QUEUES; q++) {
        ptoi_set32(&c->queue[q].ticket, ptoi_get32(&c->queue[q].tail));
    }
}

static pto_status start(ptoi_keeper *k)
{
    ptoi_grid_threads *t = k->threads;
    for (uint32_t i = 0; i < k->grid.n_workers; i++) {
        const int why = ptoi_os_thread(&t->workers[i].thread, work, &t->workers[i]);
        if (why) {
            return ptoi_fail(PTO_SYSTEM, "thread %u of a grid of %u: %s", i, k->grid.n_workers,
                             strerror(why));
        }
        t->workers[i].started = true;
    }
    const int why = ptoi_os_thread(&t->service, serve, t);
    t->serving = why == 0;
    return why ? ptoi_fail(PTO_SYSTEM, "the thread that serves a grid: %s", strerror(why)) : PTO_OK;
}

pto_status ptoi_grid_threads_launch(ptoi_keeper *k)
{
    const pto_status status = start(k);
    if (status) {
        call_off(k);
    }
    return status;
}

void ptoi_grid_threads_join(ptoi_keeper *k)
{
    ptoi_grid_threads *t = k->threads;
    for (uint32_t i = 0; i < k->grid.n_workers; i++) {
        if (t->workers[i].started) {
            pthread_join(t->workers[i].thread, NULL);
            t->workers[i].started = false;
        }
    }
    if (t->serving) {
        pthread_join(t->service, NULL);
        t->serving = false;
    }
}

void ptoi_grid_threads_destroy(ptoi_scheduler *s, ptoi_keeper *k)
{
    ptoi_grid_threads *t = k->threads;
    if (!t) {
        return;
    }
    for (uint32_t i = 0; t->workers && i < k->grid.n_workers; i++) {
        ptoi_os_release(t->workers[i].calls.args, s->args_bytes);
    }
    ptoi_os_release(t->workers, t->worker_bytes);
    ptoi_os_release(t->stacks, k->grid.n_workers * PTOI_CRASH_STACK);
    ptoi_os_release(t, sizeof *t);
    k->threads = NULL;
}

const ptoi_worker *ptoi_keeper_blocks(const ptoi_scheduler *s, uint32_t *n)
{
    const ptoi_grid_threads *t = s->keeper ? s->keeper->threads : NULL;
    *n = t && t->workers ? s->keeper->grid.n_workers : 0;
    return t ? t->workers : NULL;
}
