/* scheduler.c - creates and destroys the scheduler's side. */
#include "scheduler/scheduler.h"

#include "base/error.h"

#define MOST_ARGS (UINT64_C(1) << 20) /* of one task */

static void *reserve(size_t bytes, size_t *kept)
{
    *kept = bytes;
    return ptoi_os_reserve(bytes);
}

static void init_worker(ptoi_scheduler *s, ptoi_worker *w, uint32_t line, uint32_t types,
                        ptoi_a32 *idle)
{
    w->sched = s;
    w->id = line;
    w->types = types;
    w->next = PTOI_NONE;
    w->line = &s->view.workers[line];
    w->parker = (ptoi_parker){.line = w->line, .idle = idle, .asymmetric = s->asymmetric};
    ptoi_set32(&w->line->types, types);
}

static pto_status create_queue(ptoi_scheduler *s, ptoi_queue *queue, uint32_t first)
{
    queue->asymmetric = s->asymmetric;
    return ptoi_queue_init(queue, s->view.header->slots, first);
}

static pto_status create(ptoi_scheduler *s, const ptoi_settings *settings)
{
    const ptoi_header *h = s->view.header;
    const uint32_t first = (uint32_t)settings->config.first_task;
    uint64_t max_args = 0;
    for (uint32_t l = 0; l < h->levels; l++) {
        max_args = max_args < h->level[l].arg_units ? h->level[l].arg_units : max_args;
    }
    max_args = max_args < MOST_ARGS ? max_args : MOST_ARGS;
    s->args_bytes = max_args * sizeof(pto_arg);
    s->kernels = reserve(PTOI_MAX_KERNELS * sizeof *s->kernels, &s->kernel_bytes);
    s->workers = reserve((s->n_workers + (size_t)1) * sizeof *s->workers, &s->worker_bytes);
    if (!s->kernels || !s->workers) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "create: %u workers", s->n_workers);
    }
    s->caller = &s->workers[s->n_workers];
    for (uint32_t i = 0; i <= s->n_workers; i++) {
        init_worker(s, &s->workers[i], i,
                    i < s->n_workers ? settings->worker_types[i] : settings->caller_types,
                    &s->view.sched->idle);
        ptoi_calls *calls = &s->workers[i].calls;
        *calls = (ptoi_calls){.view = &s->view,
                              .line = s->workers[i].line,
                              .kernels = s->kernels,
                              .args = ptoi_os_reserve(s->args_bytes),
                              .rt = s->rt,
                              .id = i};
        if (!calls->args) {
            return ptoi_fail(PTO_OUT_OF_MEMORY, "create: arguments of worker %u", i);
        }
    }
    init_worker(s, &s->own, s->n_workers + PTOI_LINE_SCHEDULER, 0, &s->view.sched->resting);
    for (uint32_t type = 0; type < PTO_WORKER_TYPES; type++) {
        PTO_TRY(create_queue(s, &s->ready[type], first));
    }
    return s->place == PTO_PLACE_THREAD ? create_queue(s, &s->done, first) : PTO_OK;
}

pto_status ptoi_scheduler_create(const ptoi_settings *settings, void *memory, size_t bytes,
                                 pto_runtime *rt, ptoi_scheduler **made)
{
    ptoi_scheduler *s = ptoi_os_reserve(sizeof *s);
    if (!s) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "create: %zu bytes for the scheduler", sizeof *s);
    }
    pthread_mutex_init(&s->lock, NULL);
    s->rt = rt;
    s->forks = ptoi_os_forks;
    s->place = settings->config.place;
    s->asymmetric = ptoi_os_has_barrier();
    s->spin = settings->config.spin;
    s->n_workers = settings->n_workers;
    s->guarded = settings->config.guard;
    pto_status status = ptoi_window_attach(memory, bytes, &s->view);
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
    for (uint32_t type = 0; type < PTO_WORKER_TYPES; type++) {
        ptoi_queue_free(&s->ready[type]);
    }
    ptoi_queue_free(&s->done);
    pthread_mutex_destroy(&s->lock);
    ptoi_os_release(s, sizeof *s);
}

void ptoi_scheduler_add_kernel(ptoi_scheduler *s, uint32_t number, pto_kernel_fn fn, void *user,
                               bool timed)
{
    s->kernels[number] = (ptoi_kernel){.fn = fn, .user = user};
    ptoi_call_set_length(&s->caller->calls, number,
                         timed ? PTOI_LENGTH_UNKNOWN : PTOI_LENGTH_NEVER);
}

void ptoi_scheduler_watch(ptoi_scheduler *s, const pto_watcher *watcher, bool watched)
{
    s->watcher = watcher ? *watcher : (pto_watcher){0};
    s->watched = watched;
    for (uint32_t i = 0; i <= s->n_workers; i++) {
        s->workers[i].calls.watched = watched; /* W1 publishes it to the workers */
    }
}

void ptoi_scheduler_log(ptoi_scheduler *s, ptoi_log *logs)
{
    for (uint32_t i = 0; i <= s->n_workers; i++) {
        s->workers[i].log = &logs[i];
    }
    s->own.log = &logs[s->n_workers + PTOI_LINE_SCHEDULER];
    s->foreign_log = &logs[s->n_workers + PTOI_LINE_OTHERS];
}
