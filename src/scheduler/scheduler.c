/* scheduler.c - creates and destroys the scheduler's side. */
#include "scheduler/scheduler.h"

#include "base/error.h"

static void *reserve(size_t bytes, size_t *kept)
{
    *kept = bytes;
    return ptoi_os_reserve(bytes);
}

static void init_worker(ptoi_scheduler *s, ptoi_worker *w, uint32_t id, ptoi_a32 *idle)
{
    w->calls = (ptoi_calls){.view = &s->view,
                            .line = &s->view.workers[id],
                            .kernels = s->kernels,
                            .id = id,
                            .isolated = s->role == PTOI_ROLE_WORKER,
                            .forks = s->forks};
    w->calls.call.rt = s->rt;
    w->calls.call.worker = id;
    w->sched = s;
    w->queues = s->queue;
    w->careful = s->guarded;
    w->plain = s->role == PTOI_ROLE_ALL && w != &s->own;
    w->next = PTOI_NONE;
    w->cpu = PTOI_NONE;
    w->parker = (ptoi_parker){.line = &s->view.wakes->threads[id],
                              .idle = idle,
                              .asymmetric = s->view.header->asymmetric,
                              .shared = s->place == PTO_PLACE_PROCESS};
}

static ptoi_queue queue_of(const ptoi_view *view, uint32_t number, bool shared)
{
    const uint32_t cells = view->inbox_mask + 1;
    return (ptoi_queue){.ends = &view->sched->queues[number],
                        .cells = view->cells + (size_t)number * cells,
                        .mask = cells - 1,
                        .asymmetric = view->header->asymmetric,
                        .stop = shared ? &view->header->stop : NULL};
}

void ptoi_scheduler_init_device_worker(ptoi_scheduler *s, ptoi_worker *w, uint32_t number,
                                       uint32_t id, uint32_t types)
{
    init_worker(s, w, id, &s->view.wakes->idle);
    ptoi_set32(&w->parker.line->types, types);
    w->device = &s->devices[number];
    w->queues = w->device->queue;
    w->first_lane = ptoi_lane(number, 0);
    w->careful = true;
}

pto_status ptoi_scheduler_create_queues(ptoi_scheduler *s, uint32_t device)
{
    ptoi_sched_device *d = &s->devices[device];
    const uint32_t cells = s->view.inbox_mask + 1;
    d->queue_bytes = PTO_WORKER_TYPES * (sizeof *d->ends + cells * sizeof(ptoi_queue_cell));
    d->ends = ptoi_os_reserve(d->queue_bytes);
    if (!d->ends) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "queues of %u tasks for a device", cells);
    }
    ptoi_queue_cell *first = (ptoi_queue_cell *)(void *)(d->ends + PTO_WORKER_TYPES);
    for (uint32_t type = 0; type < PTO_WORKER_TYPES; type++) {
        d->queue[type] = (ptoi_queue){.ends = &d->ends[type],
                                      .cells = first + (size_t)type * cells,
                                      .mask = cells - 1,
                                      .asymmetric = s->view.header->asymmetric};
        ptoi_queue_reset(&d->queue[type], ptoi_get32(&s->queue[type].ends->tail));
    }
    return PTO_OK;
}

static pto_status create(ptoi_scheduler *s, const ptoi_settings *settings)
{
    s->args_bytes = s->view.max_params * sizeof(pto_arg);
    s->kernels = reserve(PTOI_MAX_KERNELS * sizeof *s->kernels, &s->kernel_bytes);
    s->workers = reserve((s->n_workers + (size_t)1) * sizeof *s->workers, &s->worker_bytes);
    if (!s->kernels || !s->workers) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "create: %u workers", s->n_workers);
    }
    s->caller = &s->workers[s->n_workers];
    for (uint32_t i = 0; i <= s->n_workers; i++) {
        init_worker(s, &s->workers[i], i, &s->view.wakes->idle);
        if (s->role == PTOI_ROLE_ALL) {
            ptoi_set32(&s->workers[i].parker.line->types,
                       i < s->n_workers ? settings->worker_types[i] : settings->caller_types);
        }
        if (settings->pinned && i < settings->n_started) {
            s->workers[i].cpu = settings->worker_cpus[i];
        }
        if (s->role == PTOI_ROLE_ALL && i < s->n_workers && s->n_workers >= PTOI_LOOK_WORKERS) {
            s->workers[i].look = &s->look;
        }
        s->workers[i].calls.args = ptoi_os_reserve(s->args_bytes);
        if (!s->workers[i].calls.args) {
            return ptoi_fail(PTO_OUT_OF_MEMORY, "create: arguments of worker %u", i);
        }
        s->workers[i].calls.call.args = s->workers[i].calls.args;
    }
    init_worker(s, &s->own, s->n_workers + PTOI_LINE_SCHEDULER, &s->view.wakes->resting);
    s->n_devices = 1;
    for (uint32_t q = 0; q < PTOI_QUEUES; q++) {
        s->queue[q] = queue_of(&s->view, q, s->place == PTO_PLACE_PROCESS);
        if (s->role == PTOI_ROLE_ALL) { /* the helper does that when it rebuilds */
            ptoi_queue_reset(&s->queue[q], (uint32_t)settings->config.first_task);
        }
    }
    return PTO_OK;
}

pto_status ptoi_scheduler_create(const ptoi_settings *settings, const ptoi_mapping *mapping,
                                 pto_runtime *rt, ptoi_scheduler **made)
{
    const bool alone = settings->config.place != PTO_PLACE_PROCESS;
    return ptoi_scheduler_create_as(alone ? PTOI_ROLE_ALL : PTOI_ROLE_PROGRAM, settings, mapping,
                                    rt, made);
}

pto_status ptoi_scheduler_create_as(ptoi_role role, const ptoi_settings *settings,
                                    const ptoi_mapping *mapping, pto_runtime *rt,
                                    ptoi_scheduler **made)
{
    ptoi_scheduler *s = ptoi_os_reserve(sizeof *s);
    if (!s) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "create: %zu bytes for the scheduler", sizeof *s);
    }
    pthread_mutex_init(&s->lock, NULL);
    s->rt = rt;
    s->forks = ptoi_os_forks;
    s->place = settings->config.place;
    s->role = role;
    s->own_count = role == PTOI_ROLE_ALL ? settings->n_workers : 0;
    s->relayed = s->place == PTO_PLACE_THREAD || s->place == PTO_PLACE_GPU;
    s->spin = settings->config.spin;
    s->n_workers = settings->n_workers;
    s->n_lines = settings->n_workers + PTOI_LINES_MORE + settings->n_processes;
    s->guarded = settings->config.guard != 0;
    s->devices_guarded = s->guarded && settings->config.guard != PTO_GUARD_HOST;
    s->crash_report = settings->config.crash_report;
    pto_status status = ptoi_window_attach(mapping, &s->view);
    s->view.checked = role == PTOI_ROLE_WORKER;
    if (status == PTO_OK) {
        status = create(s, settings);
    }
    if (status != PTO_OK) {
        ptoi_scheduler_destroy(s);
        return status;
    }
    *made = s;
    return PTO_OK;
}

void ptoi_scheduler_destroy(ptoi_scheduler *s)
{
    if (!s) {
        return;
    }
    for (uint32_t i = 0; s->workers && i <= s->n_workers; i++) {
        ptoi_os_release(s->workers[i].calls.args, s->args_bytes);
    }
    ptoi_os_release(s->workers, s->worker_bytes);
    ptoi_os_release(s->kernels, s->kernel_bytes);
    for (uint32_t d = 1; d < s->n_devices; d++) {
        ptoi_sched_device *device = &s->devices[d];
        for (uint32_t i = 0; device->workers && i < device->n_workers; i++) {
            ptoi_os_release(device->workers[i].calls.args, s->args_bytes);
        }
        ptoi_os_release(device->workers, device->worker_bytes);
        ptoi_os_release(device->ends, device->queue_bytes);
        ptoi_os_release(device->launcher, device->launcher_bytes);
    }
    pthread_mutex_destroy(&s->lock);
    ptoi_os_release(s, sizeof *s);
}

void ptoi_scheduler_add_kernel(ptoi_scheduler *s, uint32_t number, pto_kernel_fn fn, void *user,
                               bool timed)
{
    s->kernels[number] = (ptoi_kernel){.fn = fn, .user = user};
    if (s->role == PTOI_ROLE_ALL) { /* worker processes find it in the window */
        ptoi_call_set_length(&s->caller->calls, number,
                             timed ? PTOI_LENGTH_UNKNOWN : PTOI_LENGTH_NEVER);
    }
}

void ptoi_scheduler_watch(ptoi_scheduler *s, const pto_watcher *watcher, bool watched)
{
    s->watcher = watcher ? *watcher : (pto_watcher){0};
    for (uint32_t i = 0; i <= s->n_workers; i++) {
        s->workers[i].calls.watched = watched; /* W1 publishes it to the workers */
    }
    for (uint32_t d = 1; d < s->n_devices; d++) {
        for (uint32_t i = 0; i < s->devices[d].n_workers; i++) {
            s->devices[d].workers[i].calls.watched = watched;
        }
    }
}

void ptoi_scheduler_log(ptoi_scheduler *s, ptoi_log *logs)
{
    s->logs = logs;
    for (uint32_t i = 0; i <= s->n_workers; i++) {
        s->workers[i].log = &logs[i];
    }
    s->own.log = &logs[s->n_workers + PTOI_LINE_SCHEDULER];
    s->foreign_log = &logs[s->n_workers + PTOI_LINE_OTHERS + s->process];
}
