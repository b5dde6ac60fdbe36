/* runtime.c - creating and destroying a runtime. */
#include "orchestrator/runtime.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/os.h"
#include "orchestrator/device.h"
#include "orchestrator/failure.h"
#include "orchestrator/names.h"
#include "orchestrator/poison.h"
#include "orchestrator/rearrange.h"
#include "orchestrator/retire.h"
#include "orchestrator/rings.h"
#include "orchestrator/trace.h"
#include "orchestrator/wait.h"
#include "orchestrator/work.h"

#define MOST_PARAMS (UINT64_C(1) << 20) /* of one task */
#define AHEAD 8 /* tasks per thread that keep it busy for a while, if they are not short */
#define EVERYTHING_NS 1000000 /* from this inline_ns on, everything runs inline */

pto_status ptoi_runtime_refuse(const pto_runtime *rt, const char *who)
{
    if (!rt) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "%s: the runtime is NULL", who);
    }
    PTO_TRY(ptoi_os_same_process(rt->forks, who));
    return ptoi_fail(PTO_WRONG_THREAD, "%s: called %s", who,
                     ptoi_get64(&rt->thread) == ptoi_os_self()
                         ? "inside of a kernel"
                         : "on another thread than the orchestrating one");
}

void ptoi_runtime_adopt(pto_runtime *rt)
{
    ptoi_set64(&rt->thread, ptoi_os_self());
    ptoi_caller_adopt(rt->scheduler);
}

ptoi_scheduler *ptoi_scheduler_of(pto_runtime *rt)
{
    return rt->scheduler;
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

/* Creates the window and its mappings. */
static pto_status create_window(pto_runtime *rt)
{
    const pto_config *c = &rt->settings.config;
    PTO_TRY(ptoi_window_create(c, &rt->file, &rt->memory, &rt->bytes));
    PTO_TRY(ptoi_window_attach(rt->memory, rt->bytes, &rt->view));
    rt->memory_s = rt->memory;
    if (c->map_twice) {
        rt->memory_s = NULL;
        PTO_TRY(ptoi_os_file_map(rt->file, rt->bytes, &rt->memory_s));
        PTO_TRY(ptoi_window_protect(rt->memory, PTOI_SIDE_ORCHESTRATOR));
        PTO_TRY(ptoi_window_protect(rt->memory_s, PTOI_SIDE_SCHEDULER));
    }
    const ptoi_header *h = rt->view.header;
    rt->guarded = ptoi_is_guarded(&rt->view);
    rt->heap_low[0] = (uintptr_t)rt->memory + h->heaps_at;
    rt->heap_low[1] = (uintptr_t)rt->memory_s + h->heaps_at;
    rt->heap_bytes = h->bytes - h->heaps_at;
    const bool first = rt->heap_low[0] < rt->heap_low[1];
    rt->heap_begin = rt->heap_low[first ? 0 : 1];
    rt->heap_end = rt->heap_low[first ? 1 : 0] + rt->heap_bytes;
    return PTO_OK;
}

/* Numbers of tasks, buffers and kernels start at another value in each runtime. So a handle of one
 * runtime is not valid in another. No program lives long enough to use up such a range. */
static void choose_numbers(pto_runtime *rt)
{
    static ptoi_a32 created;
    uint64_t salt = ptoi_fetch_add32(&created, 1) & 0x7fff;
    rt->lives = salt << 48;
    rt->first_kernel = (uint32_t)salt << 16;
    if (rt->settings.config.first_task == 0) {
        rt->settings.config.first_task = salt << 44 | 1;
    }
}

/* Reserves all memory before any is used. */
static pto_status reserve_rings(pto_runtime *rt)
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
    rt->records = reserve(h->slots * sizeof *rt->records, &rt->record_bytes);
    rt->held_until = reserve((size_t)h->slots * rt->levels * sizeof *rt->held_until,
                             &rt->held_bytes);
    rt->runs = reserve(4 * (size_t)h->slots * sizeof *rt->runs, &rt->run_bytes);
    rt->scopes = reserve(PTOI_MAX_SCOPES * sizeof *rt->scopes, &rt->scope_bytes);
    rt->buffers = reserve(c->buffers * sizeof *rt->buffers, &rt->buffer_bytes);
    rt->edges = reserve(h->slots * sizeof *rt->edges, &rt->edge_bytes);
    rt->accesses = reserve(most * (sizeof *rt->accesses + 1), &rt->access_bytes);
    if (!rt->records || !rt->runs || !rt->held_until || !rt->scopes || !rt->buffers || !rt->edges ||
        !rt->accesses) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "create: records about %u tasks", h->slots);
    }
    return ptoi_names_reserve(rt);
}

static pto_status create_rings(pto_runtime *rt)
{
    const ptoi_header *h = rt->view.header;
    PTO_TRY(reserve_rings(rt));
    rt->ring = &rt->rings[0];
    uint64_t first = rt->settings.config.first_task;
    for (uint32_t l = 0; l < rt->levels; l++) {
        ptoi_rings *t = &rt->rings[l];
        t->head = t->completed = t->retired = t->released = first;
        t->mask = h->level[l].slots - 1;
        t->progress = &rt->view.header->progress[l];
        t->slots = rt->view.level[l].slots;
        t->states = rt->view.level[l].states;
        t->orders = rt->view.orders + h->level[l].first_slot;
        t->arg_descs = rt->view.level[l].args;
        t->refs = rt->view.level[l].deps;
        t->records = rt->records + h->level[l].first_slot;
        t->held_until = rt->held_until + (size_t)h->level[l].first_slot * rt->levels;
        /* Twice as many runs as tasks: a power of two, and more than there are blocks. */
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
    ptoi_map_adopt(rt->map, rt->view.descs);
    for (uint32_t l = 0; l < rt->levels; l++) {
        PTO_TRY(pto_tensormap_sync_validity(rt->map, l, rt->rings[l].completed));
        ptoi_set64(&rt->view.header->progress[l].head, rt->rings[l].head);
        ptoi_rings_publish_sizes(rt, l);
        ptoi_retire_publish(rt, l);
    }
    return PTO_OK;
}

/* Decides what submit may run inline. */
static void create_inline(pto_runtime *rt)
{
    const uint32_t inline_ns = rt->settings.config.inline_ns, workers = rt->settings.n_workers;
    const bool everything = inline_ns >= EVERYTHING_NS;
    ptoi_ticks_find_out();
    rt->inlining.created_ns = ptoi_os_clock();
    rt->inlining.created_ticks = rt->inlining.checked = ptoi_ticks();
    rt->inlining.ahead = workers ? AHEAD * (workers + 1) : 0;
    rt->inlining.least = rt->inlining.patience = everything ? 1 : 64;
    rt->inlining.most = everything ? 1 : 1 << 16;
    if (rt->settings.config.place == PTO_PLACE_INLINE && inline_ns && !rt->guarded) {
        rt->inlining.types = rt->settings.caller_types;
    }
    if (everything) {
        ptoi_set32(&rt->view.header->inline_ticks, UINT32_MAX);
    }
}

static pto_status create_scheduler(pto_runtime *rt)
{
    const ptoi_settings *set = &rt->settings;
    const ptoi_sched_header *words = rt->view.sched;
    PTO_TRY(ptoi_scheduler_create(set, rt->memory_s, rt->bytes, rt, &rt->scheduler));
    ptoi_set32(&rt->view.header->workers, set->n_workers);
    rt->asymmetric = ptoi_os_has_barrier();
    rt->calls = ptoi_caller_calls(rt->scheduler);
    for (uint32_t l = 0; l < rt->levels; l++) {
        rt->rings[l].fresh_lap = 1;
    }
    rt->sleepers = set->config.place == PTO_PLACE_THREAD ? &words->resting : &words->idle;
    rt->served = set->caller_types;
    for (uint32_t i = 0; i < set->n_workers; i++) {
        rt->served |= set->worker_types[i];
    }
    create_inline(rt);
    return PTO_OK;
}

static void stop(pto_runtime *rt)
{
    if (rt->scheduler) {
        ptoi_store_sc32(&rt->view.header->stop, 1); /* W12 */
        ptoi_scheduler_join(rt->scheduler);
    }
}

/* Frees a runtime, which may be incomplete. */
static void dismantle(pto_runtime *rt)
{
    stop(rt);
    ptoi_trace_free(rt);
    ptoi_scheduler_destroy(rt->scheduler);
    ptoi_devices_destroy(rt->devices);
    pto_tensormap_destroy(&rt->map);
    ptoi_poison_destroy(rt);
    ptoi_os_release(rt->records, rt->record_bytes);
    ptoi_os_release(rt->runs, rt->run_bytes);
    ptoi_os_release(rt->held_until, rt->held_bytes);
    ptoi_os_release(rt->scopes, rt->scope_bytes);
    ptoi_os_release(rt->buffers, rt->buffer_bytes);
    ptoi_os_release(rt->edges, rt->edge_bytes);
    ptoi_os_release(rt->accesses, rt->access_bytes);
    ptoi_os_release(rt->site_table, rt->site_bytes);
    ptoi_guard_show_all(rt);
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
    PTO_TRY(create_rings(rt));
    PTO_TRY(create_map(rt));
    PTO_TRY(ptoi_poison_create(rt));
    PTO_TRY(create_scheduler(rt));
    PTO_TRY(ptoi_trace_create(rt));
    ptoi_names_create(rt);
    ptoi_runtime_adopt(rt);
    PTO_TRY(ptoi_devices_create(&rt->devices));
    PTO_TRY(ptoi_work_register(rt, &rt->work_kernel));
    PTO_TRY(ptoi_rearrange_register(rt));
    return ptoi_scheduler_start(rt->scheduler);
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
    made->forks = ptoi_os_forks;
    made->file = -1;
    pto_status s = create(made, config);
    if (s != PTO_OK) {
        dismantle(made);
        return s;
    }
    *rt = made;
    return PTO_OK;
}

/* ---- Destroy ---- */

/* Writes the trace, even if a task failed. `status` takes precedence over an error of the trace. */
static pto_status add_trace(pto_runtime *rt, pto_status status)
{
    char words[512];
    snprintf(words, sizeof words, "%s", pto_error_detail());
    const pto_status written = ptoi_trace_finish(rt);
    if (status == PTO_OK || written == PTO_OK) {
        return status == PTO_OK ? written : status;
    }
    return ptoi_fail(status, "%s; and the trace was not written: %s", words, pto_error_detail());
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
    ptoi_wait_reason(old, PTOI_WHY_DESTROY);
    const uint64_t since = ptoi_trace_waits(old);
    for (uint32_t l = 0; l < old->levels; l++) {
        ptoi_wait_level(old, l);
    }
    ptoi_trace_wait(old, 0, since);
    if (old->guarded) {
        ptoi_guard_sweep(old);
    }
    const bool told = ending == PTO_CANCEL || ptoi_failure_is_reported(old);
    pto_status s = told ? PTO_OK : pto_wait(old);
    ptoi_release32(&old->view.header->orchestrator_done, 1);
    stop(old); /* no thread adds to the trace after this */
    s = add_trace(old, s);
    dismantle(old);
    *rt = NULL;
    return s;
}
