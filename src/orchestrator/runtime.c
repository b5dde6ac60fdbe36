/* runtime.c - the life of a runtime: create, destroy; kernels and places in the program. */
#include "orchestrator/runtime.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/os.h"
#include "orchestrator/device.h"
#include "orchestrator/trace.h"
#include "worker/work.h"

#define SITE_BUCKETS (UINT32_C(2) * PTOI_MAX_SITES)
#define MOST_PARAMS (UINT64_C(1) << 20) /* of one task */
#define AHEAD 8 /* tasks for each thread that keep it busy for a while, if they are not brief */
#define EVERYTHING_NS 1000000 /* of brief_ns: who says so much wants everything at once */

pto_status ptoi_runtime_refuse(const pto_runtime *rt, const char *who)
{
    if (!rt) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "%s: the runtime is NULL", who);
    }
    PTO_TRY(ptoi_sched_same_process(&rt->sched, who));
    return ptoi_fail(PTO_WRONG_THREAD, "%s: called %s", who,
                     ptoi_get64(&rt->thread) == ptoi_os_self()
                         ? "inside of a kernel"
                         : "on another thread than the orchestrating one");
}

pto_status ptoi_sched_same_process(const ptoi_sched *sched, const char *who)
{
    if (sched->forks == ptoi_os_forks) {
        return PTO_OK;
    }
    return ptoi_fail(
        PTO_WRONG_THREAD,
        "%s: called in a child process: a runtime belongs to the process that created it", who);
}

void ptoi_runtime_adopt(pto_runtime *rt)
{
    ptoi_set64(&rt->thread, ptoi_os_self());
    ptoi_set32(&rt->caller->line->thread, ptoi_os_thread_number());
}

ptoi_sched *ptoi_sched_of(pto_runtime *rt)
{
    return &rt->sched;
}

/* ---- Strings, places, kernels ---- */

/* The offset of a copy of the text; of "" if there is no room for more. */
static uint32_t add_string(pto_runtime *rt, const char *text)
{
    size_t bytes = strlen(text) + 1;
    if (bytes > PTOI_STRING_BYTES - rt->string_bytes) {
        return 0;
    }
    uint32_t at = rt->string_bytes;
    memcpy(rt->view.strings + at, text, bytes);
    rt->string_bytes += (uint32_t)bytes;
    return at;
}

/* A place that the cache does not have: it is new, or the cache has lost it. A table of all, hashed by
 * the text, has the answer. */
static __attribute__((noinline)) uint32_t find_site(pto_runtime *rt, const char *file, int line)
{
    const ptoi_view *view = &rt->view;
    uint32_t hash = (uint32_t)line, known = 0;
    for (const char *c = file; *c; c++) {
        hash = (hash ^ (unsigned char)*c) * UINT32_C(16777619);
    }
    uint32_t at = hash % SITE_BUCKETS;
    for (; rt->site_table[at]; at = (at + 1) % SITE_BUCKETS) {
        const ptoi_site *site = &view->sites[rt->site_table[at]];
        if (strcmp(ptoi_string(view, site->file), file) == 0) {
            known = site->file;
            if (site->line == line) {
                return rt->site_table[at];
            }
        }
    }
    if (rt->n_sites == PTOI_MAX_SITES) {
        return 0;
    }
    if (!known && rt->n_sites > 1 &&
        strcmp(ptoi_string(view, view->sites[rt->n_sites - 1].file), file) == 0) {
        known = view->sites[rt->n_sites - 1].file; /* mostly the same as last time */
    }
    view->sites[rt->n_sites] = (ptoi_site){known ? known : add_string(rt, file), line};
    rt->site_table[at] = rt->n_sites;
    return rt->n_sites++;
}

uint32_t ptoi_site_find(pto_runtime *rt, const char *file, int line, uint32_t at)
{
    if (!file) {
        return 0;
    }
    rt->site_cache[at].site = find_site(rt, file, line);
    rt->site_cache[at].file = file;
    rt->site_cache[at].line = line;
    return rt->site_cache[at].site;
}

pto_status pto_kernel_register(pto_runtime *rt, const char *name, pto_worker_type type,
                               pto_kernel_fn fn, void *user, pto_kernel *kernel)
{
    PTO_TRY(ptoi_runtime_enter(rt, "register a kernel"));
    if (!name || !fn || !kernel) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "register a kernel: %s is NULL",
                         !name ? "name"
                         : !fn ? "fn"
                               : "kernel");
    }
    if ((uint32_t)type >= PTO_WORKER_TYPES) {
        return ptoi_fail(PTO_BAD_WORKER, "register a kernel: '%s' for worker type %d", name,
                         (int)type);
    }
    if (rt->n_kernels == PTOI_MAX_KERNELS) {
        return ptoi_fail(PTO_FULL, "register a kernel: '%s' after %d others", name,
                         PTOI_MAX_KERNELS - 1);
    }
    uint32_t text = add_string(rt, name);
    if (!text) {
        return ptoi_fail(PTO_FULL, "register a kernel: no room for a name of %zu bytes",
                         strlen(name));
    }
    rt->view.kernels[rt->n_kernels] = (ptoi_kernel_entry){text, (uint32_t)type};
    rt->sched.kernels[rt->n_kernels] = (ptoi_kernel){.fn = fn, .user = user};
    if (!rt->at_once.types) { /* nobody wants to know */
        ptoi_set32(&rt->sched.kernels[rt->n_kernels].length, PTOI_LENGTH_LONG);
    }
    *kernel = rt->first_kernel | rt->n_kernels++;
    return PTO_OK;
}

pto_task pto_last_task(const pto_runtime *rt)
{
    return rt ? rt->last : 0;
}

/* ---- Create ---- */

static void *reserve(size_t bytes, size_t *kept)
{
    *kept = bytes;
    return ptoi_os_reserve(bytes);
}

static pto_status create_window(pto_runtime *rt)
{
    const pto_config *c = &rt->settings.config;
    PTO_TRY(ptoi_window_create(c, &rt->file, &rt->memory, &rt->bytes));
    PTO_TRY(ptoi_window_attach(rt->memory, rt->bytes, &rt->view));
    rt->memory_s = rt->memory;
    if (c->map_twice) {
        rt->memory_s = NULL;
        PTO_TRY(ptoi_os_file_map(rt->file, rt->bytes, &rt->memory_s));
    }
    PTO_TRY(ptoi_window_attach(rt->memory_s, rt->bytes, &rt->sched.view));
    if (c->guard) {
        PTO_TRY(ptoi_guard_create(&rt->sched.guard, c));
        for (uint32_t l = 0; l < c->levels; l++) {
            rt->sched.guard->level[l].heap[0] = rt->view.level[l].heap;
            rt->sched.guard->level[l].heap[1] = rt->sched.view.level[l].heap;
        }
    }
    const ptoi_header *h = rt->view.header;
    rt->heap_low[0] = (uintptr_t)rt->view.level[0].heap;
    rt->heap_low[1] = (uintptr_t)rt->sched.view.level[0].heap;
    rt->heap_bytes = h->bytes - h->level[0].heap_at;
    bool first = rt->heap_low[0] < rt->heap_low[1];
    rt->heap_begin = rt->heap_low[first ? 0 : 1];
    rt->heap_end = rt->heap_low[first ? 1 : 0] + rt->heap_bytes;
    return PTO_OK;
}

/* Numbers of tasks, lives of buffers and kernels of each runtime begin elsewhere, so that what is one
 * runtime's is not taken for another's. Far more follow than a program lives to see. */
static void choose_numbers(pto_runtime *rt)
{
    static ptoi_a32 created;
    uint64_t salt = ptoi_add32(&created, 1) & 0x7fff;
    rt->lives = salt << 48;
    rt->first_kernel = (uint32_t)salt << 16;
    if (rt->settings.config.first_task == 0) {
        rt->settings.config.first_task = salt << 44 | 1;
    }
}

/* All of it, before any is used. */
static pto_status reserve_tracks(pto_runtime *rt)
{
    const pto_config *c = &rt->settings.config;
    const ptoi_header *h = rt->view.header;
    uint64_t most = h->slots;
    for (uint32_t l = 0; l < rt->levels; l++) {
        most = most < h->level[l].arg_units ? h->level[l].arg_units : most;
    }
    most = most < MOST_PARAMS ? most : MOST_PARAMS;
    rt->max_accesses = (uint32_t)most;
    rt->max_buffers = c->buffers;
    rt->notes = reserve(h->slots * sizeof *rt->notes, &rt->note_bytes);
    rt->held_until = reserve((size_t)h->slots * rt->levels * sizeof *rt->held_until,
                             &rt->held_bytes);
    rt->runs = reserve(4 * (size_t)h->slots * sizeof *rt->runs, &rt->run_bytes);
    rt->scopes = reserve(PTOI_MAX_SCOPES * sizeof *rt->scopes, &rt->scope_bytes);
    rt->buffers = reserve(c->buffers * sizeof *rt->buffers, &rt->buffer_bytes);
    rt->edges = reserve(h->slots * sizeof *rt->edges, &rt->edge_bytes);
    rt->site_table = reserve(SITE_BUCKETS * sizeof *rt->site_table, &rt->site_bytes);
    rt->accesses = reserve(most * (sizeof *rt->accesses + 1), &rt->access_bytes);
    if (!rt->notes || !rt->runs || !rt->held_until || !rt->scopes || !rt->buffers || !rt->edges ||
        !rt->accesses || !rt->site_table) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "create: notes about %u tasks", h->slots);
    }
    return PTO_OK;
}

static pto_status create_tracks(pto_runtime *rt)
{
    const ptoi_header *h = rt->view.header;
    PTO_TRY(reserve_tracks(rt));
    rt->now = &rt->track[0];
    uint64_t first = rt->settings.config.first_task;
    for (uint32_t l = 0; l < rt->levels; l++) {
        ptoi_track *t = &rt->track[l];
        t->head = t->completed = t->retired = t->released = first;
        t->mask = h->level[l].slots - 1;
        t->progress = &rt->view.header->progress[l];
        t->slots = rt->view.level[l].slots;
        t->states = rt->view.level[l].states;
        t->orders = rt->view.orders + h->level[l].first_slot;
        t->packed = rt->view.level[l].args;
        t->refs = rt->view.level[l].deps;
        t->notes = rt->notes + h->level[l].first_slot;
        t->held_until = rt->held_until + (size_t)h->level[l].first_slot * rt->levels;
        /* Twice as many as tasks: a power of two, and more than there are blocks. */
        ptoi_heap_init(&t->heap, h->level[l].heap_bytes, PTOI_HEAP_WARM,
                       rt->runs + 2 * (size_t)h->level[l].first_slot, 2 * h->level[l].slots);
        ptoi_ring_init(&t->args, h->level[l].arg_units);
        ptoi_ring_init(&t->deps, h->level[l].deps);
    }
    return PTO_OK;
}

static pto_status create_map(pto_runtime *rt)
{
    const pto_config *c = &rt->settings.config;
    pto_tensormap_config m = PTO_TENSORMAP_CONFIG_INIT;
    m.levels = rt->levels;
    m.overlap_budget = c->overlap_budget;
    m.first_entry = (uint32_t)c->first_task;
    for (uint32_t l = 0; l < rt->levels; l++) {
        m.level_entries[l] = c->level_map_entries[l];
    }
    PTO_TRY(pto_tensormap_init(&rt->map, &m));
    ptoi_map_adopt(rt->map, rt->view.forms);
    for (uint32_t l = 0; l < rt->levels; l++) {
        PTO_TRY(pto_tensormap_sync_validity(rt->map, l, rt->track[l].completed));
        ptoi_set64(&rt->view.header->progress[l].head, rt->track[l].head);
        ptoi_retire_publish(rt, l);
    }
    return PTO_OK;
}

/* What submit may run itself. */
static void create_at_once(pto_runtime *rt)
{
    const ptoi_sched *s = &rt->sched;
    const uint32_t brief_ns = rt->settings.config.brief_ns;
    const bool everything = brief_ns >= EVERYTHING_NS;
    ptoi_ticks_find_out();
    rt->at_once.created_ns = ptoi_os_clock();
    rt->at_once.created_ticks = rt->at_once.looked = ptoi_ticks();
    rt->at_once.ahead = s->n_workers ? AHEAD * (s->n_workers + 1) : 0;
    rt->at_once.least = rt->at_once.patience = everything ? 1 : 64;
    rt->at_once.most = everything ? 1 : 1 << 16;
    if (s->place == PTO_PLACE_INLINE && brief_ns && !s->guard) {
        rt->at_once.types = rt->caller->types;
    }
    if (everything) {
        ptoi_set32(&rt->sched.brief_ticks, UINT32_MAX);
    }
}

static pto_status create_workers(pto_runtime *rt)
{
    ptoi_sched *s = &rt->sched;
    const ptoi_settings *set = &rt->settings;
    const ptoi_header *h = rt->view.header;
    for (uint32_t l = 0; l < rt->levels; l++) {
        s->max_args = s->max_args < h->level[l].arg_units ? h->level[l].arg_units : s->max_args;
    }
    s->max_args = s->max_args < MOST_PARAMS ? s->max_args : (uint32_t)MOST_PARAMS;
    s->rt = rt;
    s->place = set->config.place;
    s->lopsided = ptoi_os_has_barrier();
    s->spin = set->config.spin;
    s->n_workers = set->n_workers;
    s->args_bytes = s->max_args * sizeof(pto_arg);
    s->kernels = reserve(PTOI_MAX_KERNELS * sizeof *s->kernels, &s->kernel_bytes);
    s->workers = reserve((s->n_workers + (size_t)1) * sizeof *s->workers, &s->worker_bytes);
    if (!s->kernels || !s->workers) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "create: %u workers", s->n_workers);
    }
    rt->caller = &s->workers[s->n_workers];
    rt->served = set->caller_types;
    for (uint32_t i = 0; i <= s->n_workers; i++) {
        ptoi_worker *w = &s->workers[i];
        w->sched = s;
        w->id = i;
        w->types = i < s->n_workers ? set->worker_types[i] : set->caller_types;
        w->next = PTOI_NONE;
        w->line = &s->view.workers[i];
        ptoi_set32(&w->line->types, w->types);
        w->parker.idle = &s->idle;
        w->parker.lopsided = s->lopsided;
        w->args = ptoi_os_reserve(s->args_bytes);
        if (!w->args) {
            return ptoi_fail(PTO_OUT_OF_MEMORY, "create: arguments of worker %u", i);
        }
        rt->served |= w->types;
    }
    create_at_once(rt);
    s->own.sched = s;
    s->own.next = PTOI_NONE;
    s->own.line = &s->view.workers[s->n_workers + PTOI_LINE_SCHEDULER];
    ptoi_set32(&rt->view.header->workers, s->n_workers);
    s->own.parker.idle = &s->resting;
    s->own.parker.lopsided = s->lopsided;
    uint32_t first = (uint32_t)set->config.first_task;
    for (uint32_t type = 0; type < PTO_WORKER_TYPES; type++) {
        PTO_TRY(ptoi_queue_init(&s->ready[type], h->slots, first));
        s->ready[type].lopsided = s->lopsided;
    }
    if (s->place == PTO_PLACE_THREAD) {
        PTO_TRY(ptoi_queue_init(&s->done, h->slots, first));
        s->done.lopsided = s->lopsided;
    }
    return PTO_OK;
}

static pto_status start(pto_runtime *rt)
{
    if (rt->sched.place == PTO_PLACE_THREAD) {
        PTO_TRY(ptoi_sched_thread_start(&rt->sched));
    }
    return ptoi_workers_start(&rt->sched);
}

static void stop(pto_runtime *rt)
{
    ptoi_put32(&rt->sched.stop, 1);
    if (rt->sched.workers) {
        ptoi_workers_stop(&rt->sched);
    }
    ptoi_sched_thread_stop(&rt->sched);
}

/* Frees whatever of a runtime there is. */
static void dismantle(pto_runtime *rt)
{
    ptoi_sched *s = &rt->sched;
    stop(rt);
    ptoi_trace_free(rt);
    for (uint32_t i = 0; s->workers && i <= s->n_workers; i++) {
        ptoi_os_release(s->workers[i].args, s->args_bytes);
    }
    ptoi_os_release(s->workers, s->worker_bytes);
    ptoi_os_release(s->kernels, s->kernel_bytes);
    for (uint32_t type = 0; type < PTO_WORKER_TYPES; type++) {
        ptoi_queue_free(&s->ready[type]);
    }
    ptoi_queue_free(&s->done);
    pthread_mutex_destroy(&s->lock);
    ptoi_devices_destroy(rt->devices);
    pto_tensormap_destroy(&rt->map);
    ptoi_poison_destroy(rt);
    ptoi_os_release(rt->notes, rt->note_bytes);
    ptoi_os_release(rt->runs, rt->run_bytes);
    ptoi_os_release(rt->held_until, rt->held_bytes);
    ptoi_os_release(rt->scopes, rt->scope_bytes);
    ptoi_os_release(rt->buffers, rt->buffer_bytes);
    ptoi_os_release(rt->edges, rt->edge_bytes);
    ptoi_os_release(rt->accesses, rt->access_bytes);
    ptoi_os_release(rt->site_table, rt->site_bytes);
    ptoi_guard_destroy(s->guard);
    if (rt->memory_s != rt->memory) {
        ptoi_os_release(rt->memory_s, rt->bytes);
    }
    ptoi_os_release(rt->memory, rt->bytes);
    ptoi_os_file_close(rt->file);
    ptoi_os_release(rt, sizeof *rt);
}

static pto_status create(pto_runtime *rt, const pto_config *config)
{
    PTO_TRY(ptoi_config_resolve(config, &rt->settings));
    rt->levels = rt->settings.config.levels;
    choose_numbers(rt);
    PTO_TRY(create_window(rt));
    PTO_TRY(create_tracks(rt));
    PTO_TRY(create_map(rt));
    PTO_TRY(ptoi_poison_create(rt));
    PTO_TRY(create_workers(rt));
    PTO_TRY(ptoi_trace_create(rt));
    rt->n_sites = 1; /* 0: not known, at line 0 of "" */
    rt->string_bytes = 1;
    rt->view.kernels[0] = (ptoi_kernel_entry){add_string(rt, "alloc"), 0};
    rt->n_kernels = 1;
    ptoi_runtime_adopt(rt);
    PTO_TRY(ptoi_devices_create(&rt->devices));
    PTO_TRY(ptoi_work_register(rt, &rt->work_kernel));
    PTO_TRY(ptoi_rearrange_register(rt));
    return start(rt);
}

pto_status pto_runtime_create(pto_runtime **rt, const pto_config *config)
{
    if (!rt) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "create: the place for the runtime is NULL");
    }
    int why = ptoi_os_count_forks();
    if (why) {
        return ptoi_fail(PTO_SYSTEM, "create: pthread_atfork: %s", strerror(why));
    }
    pto_runtime *made = ptoi_os_reserve(sizeof *made);
    if (!made) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "create: %zu bytes for the runtime", sizeof *made);
    }
    made->sched.forks = ptoi_os_forks;
    made->file = -1;
    pthread_mutex_init(&made->sched.lock, NULL);
    pto_status s = create(made, config);
    if (s != PTO_OK) {
        dismantle(made);
        return s;
    }
    *rt = made;
    return PTO_OK;
}

/* ---- Destroy ---- */

/* Writes the trace. That a task failed comes first, in words too; the trace is not lost for it. */
static pto_status add_trace(pto_runtime *rt, pto_status status)
{
    char words[512];
    snprintf(words, sizeof words, "%s", pto_error_detail());
    const pto_status written = ptoi_trace_finish(rt);
    if (status == PTO_OK || written == PTO_OK) {
        return status == PTO_OK ? written : status;
    }
    return ptoi_fail(status, "%s; and the trace is not written: %s", words, pto_error_detail());
}

pto_status pto_runtime_destroy(pto_runtime **rt, pto_ending ending)
{
    if (!rt || !*rt) {
        return PTO_OK;
    }
    pto_runtime *old = *rt;
    PTO_TRY(ptoi_runtime_enter(old, "destroy"));
    if (old->devices->current) {
        return ptoi_fail(PTO_OPEN_SCOPE,
                         "destroy: inside of an orchestration that pto_execute runs");
    }
    if (ending == PTO_CANCEL) {
        pto_cancel(old);
        while (old->depth) {
            (void)pto_scope_end(old);
        }
    } else if (ending != PTO_WAIT) {
        return ptoi_fail(PTO_BAD_PARAM, "destroy: ending %d", (int)ending);
    } else if (old->depth) {
        const ptoi_site *site = &old->view.sites[old->scopes[old->depth - 1].site];
        return ptoi_fail(PTO_OPEN_SCOPE,
                         "destroy: %" PRIu32 " scopes are open, the innermost since "
                         "%s:%d",
                         old->depth, ptoi_string(&old->view, site->file), site->line);
    }
    ptoi_wait_tell(old, PTOI_WHY_DESTROY);
    const uint64_t since = ptoi_trace_waits(old);
    for (uint32_t l = 0; l < old->levels; l++) {
        ptoi_wait_level(old, l);
    }
    ptoi_trace_wait(old, 0, since);
    if (old->sched.guard) {
        ptoi_guard_sweep(old);
    }
    /* Nothing runs any more: no lock. */
    bool told = ending == PTO_CANCEL ||
                (old->sched.told && old->cancel_told == pto_is_cancelled(old));
    pto_status s = told ? PTO_OK : pto_wait(old);
    ptoi_release32(&old->view.header->orchestrator_done, 1);
    while (ptoi_see32(&old->sched.guests)) {
        ptoi_os_yield();
    }
    stop(old); /* a trace is written when nobody adds to it any more */
    s = add_trace(old, s);
    dismantle(old);
    *rt = NULL;
    return s;
}

/* Sets a flag and no more, so that it may be called in a signal handler: tasks are skipped as
 * workers come to them, and workers are awake while there are any. */
void pto_cancel(pto_runtime *rt)
{
    if (rt && rt->sched.forks == ptoi_os_forks) {
        ptoi_release32(&rt->view.header->cancelled, 1);
    }
}

bool pto_is_cancelled(const pto_runtime *rt)
{
    return rt && ptoi_get32(&rt->view.header->cancelled);
}
