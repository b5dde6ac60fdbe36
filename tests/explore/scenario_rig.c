/* scenario_rig.c - what the scenarios over a whole runtime share. */
#include <string.h>

#include "rig.h"
#include "scheduler/scheduler.h"

rig *r;

/* ---- Kernels: on plain memory, so that accesses without order are races ---- */

static pto_status set_fn(const pto_call *call)
{
    int64_t *out = call->args[0].data;
    *out = call->args[1].i64;
    return PTO_OK;
}

static pto_status add_fn(const pto_call *call)
{
    int64_t *out = call->args[call->n_args - 1].data, sum = 0;
    for (uint32_t i = 0; i + 1 < call->n_args; i++) {
        sum += *(const int64_t *)call->args[i].data;
    }
    *out = sum;
    return PTO_OK;
}

static pto_status twice_fn(const pto_call *call)
{
    int64_t *it = call->args[0].data;
    *it *= 2;
    return PTO_OK;
}

static pto_status fail_fn(const pto_call *call)
{
    (void)call;
    return PTO_TASK_FAILED;
}

static pto_status pend_fn(const pto_call *call)
{
    int64_t *other = call->args[1].data;
    ptoi_release64(&r->pending, call->task);
    *other = 1; /* another thread may already have completed it */
    return PTO_PENDING;
}

static pto_status signal_fn(const pto_call *call)
{
    (void)call;
    ptoi_fetch_add32(&r->signals, 1);
    return PTO_OK;
}

/* ---- Names ---- */

#define NAME(base, stride, count, field, text)                                                     \
    world_name(&(base)->field, stride, count, sizeof((base)->field), text)

static void name_window(const ptoi_view *v)
{
    const ptoi_header *h = v->header;
    const ptoi_slot *slot = v->slots;
    const ptoi_state *state = v->states;
    NAME(h, 1, 1, inbox_head, "inbox_head");
    NAME(h, 1, 1, cancel, "cancelled");
    NAME(h, 1, 1, era, "era");
    NAME(h, 1, 1, stop, "stop");
    NAME(v->sched, 1, 1, inbox_claimed, "inbox_claimed");
    NAME(v->wakes, 1, 1, idle, "idle");
    NAME(v->sched, 1, 1, ready_epoch, "ready_epoch");
    NAME(v->wakes, 1, 1, awaited, "awaited");
    NAME(v->wakes, 1, 1, resting, "resting");
    NAME(v->sched, 1, 1, cancel, "worker_cancelled");
    NAME(h, 1, 1, orchestrator_done, "orchestrator_done");
    world_name(h->edges, sizeof h->edges[0], 4, sizeof h->edges[0], "edges[%u]");
    NAME(h, 1, 1, scope_depth, "scope_depth");
    NAME(h, 1, 1, buffers, "buffers");
    NAME(h, 1, 1, buffers_peak, "buffers_peak");
    NAME(h, 1, 1, budget_hits, "budget_hits");
    world_name(h->progress, sizeof h->progress[0], h->levels, sizeof h->progress[0],
               "progress[%u]");
    NAME(h->progress, sizeof h->progress[0], h->levels, head, "progress[%u].head");
    NAME(h->progress, sizeof h->progress[0], h->levels, completed, "progress[%u].completed");
    NAME(h->progress, sizeof h->progress[0], h->levels, retired, "progress[%u].retired");
    world_name(v->inbox, sizeof *v->inbox, v->inbox_mask + 1, sizeof *v->inbox, "inbox[%u]");
#define SLOT_NAME(field) NAME(slot, sizeof *slot, h->slots, field, "slot[%u]." #field);
    SLOT_NAME(seq)
    SLOT_NAME(header)
    SLOT_NAME(deps)
    SLOT_NAME(fanin)
    SLOT_NAME(args)
    SLOT_NAME(n_args)
#define STATE_NAME(field) NAME(state, sizeof *state, h->slots, field, "state[%u]." #field);
    STATE_NAME(waiters)
    STATE_NAME(phase)
    STATE_NAME(poisoned)
    STATE_NAME(outcome)
    NAME(v->waits, sizeof *v->waits, h->slots, next, "wait[%u].next");
    NAME(v->waits, sizeof *v->waits, h->slots, cursor, "wait[%u].cursor");
    world_name(v->orders, sizeof *v->orders, h->slots, sizeof *v->orders, "order[%u]");
#undef STATE_NAME
#undef SLOT_NAME
    for (uint32_t l = 0; l < h->levels; l++) {
        const ptoi_view_level *level = &v->level[l];
        world_name(level->deps, sizeof *level->deps, h->level[l].deps, sizeof *level->deps,
                   l ? "level 1 deps[%u]" : "level 0 deps[%u]");
        world_name(level->args, sizeof *level->args, h->level[l].arg_units, sizeof *level->args,
                   l ? "level 1 args[%u]" : "level 0 args[%u]");
        world_name(v->base[l], 8, (uint32_t)(h->level[l].heap_bytes / 8), 8,
                   l ? "level 1 heap[%u]" : "level 0 heap[%u]");
    }
}

static void name_queue(const ptoi_queue *queue, const char *head, const char *tail,
                       const char *sequence, const char *task)
{
    NAME(queue->ends, 1, 1, head, head);
    NAME(queue->ends, 1, 1, tail, tail);
    NAME(queue->cells, sizeof *queue->cells, queue->mask + 1, sequence, sequence);
    NAME(queue->cells, sizeof *queue->cells, queue->mask + 1, index, task);
}

static void name_worker(const ptoi_worker *worker, uint32_t count, const char *state,
                        const char *parks, const char *completed, const char *task,
                        const char *whole)
{
    world_name(worker, sizeof *worker, count, sizeof *worker, whole);
    NAME(worker->parker.line, sizeof *worker->parker.line, count, parked, state);
    NAME(worker->parker.line, sizeof *worker->parker.line, count, parks, parks);
    NAME(worker->calls.line, sizeof *worker->calls.line, count, tally.completed, completed);
    NAME(worker->calls.line, sizeof *worker->calls.line, count, task, task);
}

static void name_sched(const ptoi_scheduler *sched)
{
    world_name(sched, 1, 1, sizeof *sched, "sched");
    NAME(sched, 1, 1, guests, "guests");
    NAME(sched, 1, 1, lock, "lock");
    name_queue(&sched->queue[PTO_VECTOR], "ready.head", "ready.tail", "ready[%u].sequence",
               "ready[%u].task");
    name_queue(&sched->queue[PTO_CUBE], "cube.head", "cube.tail", "cube[%u].sequence",
               "cube[%u].task");
    name_worker(sched->workers, sched->n_workers + 1, "worker[%u].state", "worker[%u].parks",
                "worker[%u].completed", "worker[%u].task", "worker[%u]");
    if (sched->place == PTO_PLACE_THREAD) {
        name_queue(&sched->queue[PTOI_QUEUE_DONE], "done.head", "done.tail", "done[%u].sequence",
                   "done[%u].task");
    }
    name_worker(&sched->own, 1, "scheduler.state", "scheduler.parks", "scheduler.completed",
                "scheduler.task", "scheduler");
    NAME(&sched->view.workers[sched->n_workers + PTOI_LINE_OTHERS], 1, 1, tally, "foreign");
    world_name(sched->view.failures, sizeof *sched->view.failures,
               sched->n_workers + PTOI_LINES_MORE, sizeof *sched->view.failures, "failed[%u].word");
    NAME(sched->view.failures, sizeof *sched->view.failures, sched->n_workers + PTOI_LINES_MORE,
         serial, "failed[%u].serial");
}

/* ---- The runtime ---- */

pto_config rig_config(uint32_t workers, pto_place place)
{
    static const uint32_t types[WORLD_THREADS] = {
        PTO_TYPE_BIT(PTO_VECTOR), PTO_TYPE_BIT(PTO_VECTOR), PTO_TYPE_BIT(PTO_VECTOR)};
    pto_config c = PTO_CONFIG_INIT;
    c.levels = 1;
    c.ring_tasks = 8;
    c.heap_bytes = 1024;
    c.deps = 16;
    c.map_entries = 32;
    c.buffers = 16;
    c.workers = workers ? workers : PTO_NO_WORKERS;
    c.worker_types = workers ? types : NULL; /* one type: one ready queue */
    c.caller_types = PTO_TYPE_BIT(PTO_VECTOR);
    c.place = place;
    c.spin = PTO_NO_SPIN;
    c.inline_ns = PTO_NO_INLINE; /* otherwise a clock would decide */
    c.first_task = 1;
    c.guard = PTO_NO_GUARD; /* guards would be checked in every schedule, between the same steps */
    return c;
}

void rig_create(const pto_config *config)
{
    static const struct {
        const char *name;
        pto_worker_type type;
        pto_kernel_fn fn;
        size_t at;
    } kernels[] = {{"set", PTO_VECTOR, set_fn, offsetof(rig, set)},
                   {"add", PTO_VECTOR, add_fn, offsetof(rig, add)},
                   {"twice", PTO_VECTOR, twice_fn, offsetof(rig, twice)},
                   {"cube", PTO_CUBE, twice_fn, offsetof(rig, cube)},
                   {"fail", PTO_VECTOR, fail_fn, offsetof(rig, fail)},
                   {"pend", PTO_VECTOR, pend_fn, offsetof(rig, pend)},
                   {"signal", PTO_VECTOR, signal_fn, offsetof(rig, signal)}};
    pto_runtime *rt;
    pto_config quiet = *config;
    quiet.crash_report = PTO_NO_CRASH_REPORT; /* signals and their lock are the explorer's */
    r = world_memory(sizeof *r);
    world_check(pto_runtime_create(&rt, &quiet) == PTO_OK);
    r->rt = rt;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        pto_kernel made;
        world_check(pto_kernel_register(rt, kernels[i].name, kernels[i].type, kernels[i].fn, NULL,
                                        &made) == PTO_OK);
        memcpy((char *)r + kernels[i].at, &made, sizeof made);
    }
    for (uint32_t i = 0; i < RIG_CELLS; i++) {
        world_check(pto_external_tensor(rt, &r->cell[i], PTO_INT64, 1, (int64_t[]){1}, &r->t[i]) ==
                    PTO_OK);
    }
    world_name(r->cell, sizeof *r->cell, RIG_CELLS, sizeof *r->cell, "cell[%u]");
    NAME(r, 1, 1, pending, "pending");
    NAME(r, 1, 1, signals, "signals");
    NAME(rt, 1, 1, thread, "rt.thread");
    NAME(rt, 1, 1, helped, "rt.helped");
    world_name(rt, 1, 1, sizeof *rt, "rt");
    name_window(&rt->view);
    name_sched(rt->scheduler);
    uint32_t thread = 1;
    if (config->place == PTO_PLACE_THREAD) {
        world_name_thread(thread++, "scheduler");
    }
    for (uint32_t i = 0; i < rt->settings.n_workers; i++) {
        char name[] = "worker 0";
        name[sizeof name - 2] = (char)('0' + i);
        world_name_thread(thread++, name);
    }
}
