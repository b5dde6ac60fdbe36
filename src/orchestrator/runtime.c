/* runtime.c - creating and destroying a runtime. */
#include "orchestrator/runtime.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/os.h"
#include "base/pin.h"
#include "base/source.h"
#include "orchestrator/device.h"
#include "orchestrator/failure.h"
#include "orchestrator/mirror.h"
#include "orchestrator/names.h"
#include "orchestrator/poison.h"
#include "orchestrator/process.h"
#include "orchestrator/rearrange.h"
#include "orchestrator/refusal.h"
#include "orchestrator/retire.h"
#include "orchestrator/rings.h"
#include "orchestrator/shared.h"
#include "orchestrator/submit_op.h"
#include "orchestrator/trace.h"
#include "orchestrator/wait.h"
#include "orchestrator/work.h"

#define AHEAD 8 /* tasks per thread that keep it busy for a while, if they are not short */
#define EVERYTHING_NS 1000000 /* from this inline_ns on, everything runs inline */

pto_status ptoi_runtime_refuse(const pto_runtime *rt, const char *who)
{
    if (!rt) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "%s: the runtime is NULL", who);
    }
    PTO_TRY(ptoi_os_same_process(rt->forks, who));
    if (rt->is_handle) {
        return ptoi_fail(PTO_WRONG_THREAD,
                         "%s: called in a worker process: only the program that "
                         "created the runtime may",
                         who);
    }
    return ptoi_fail(PTO_WRONG_THREAD, "%s: called %s", who,
                     ptoi_get64(&rt->thread) == ptoi_os_self()
                         ? "inside of a kernel or a watcher"
                         : "on another thread than the orchestrating one");
}

void ptoi_runtime_adopt(pto_runtime *rt)
{
    ptoi_set64(&rt->thread, ptoi_os_self());
    ptoi_caller_adopt(rt->scheduler);
}

pto_runtime *ptoi_runtime_for_worker(const ptoi_settings *settings)
{
    pto_runtime *rt = ptoi_os_reserve(sizeof *rt);
    if (rt) {
        rt->is_handle = true;
        rt->forks = ptoi_os_forks;
        rt->settings = *settings;
        rt->levels = settings->config.levels;
    }
    return rt;
}

void ptoi_runtime_serves(pto_runtime *handle, ptoi_scheduler *s, const ptoi_view *view)
{
    handle->scheduler = s;
    handle->view = *view;
}

ptoi_scheduler *ptoi_scheduler_of(pto_runtime *rt)
{
    return rt->scheduler;
}

pto_task pto_last_task(const pto_runtime *rt)
{
    return ptoi_runtime_is_ours(rt) ? rt->last : 0;
}

uint32_t pto_thread_count(const pto_runtime *rt)
{
    return rt ? rt->settings.n_workers + (rt->settings.caller_types != 0) : 0;
}

/* ---- Create ---- */

static void *reserve(size_t bytes, size_t *kept)
{
    *kept = bytes;
    return ptoi_os_reserve(bytes);
}

static pto_status protect(const ptoi_mapping *mapping, ptoi_part part)
{
    return ptoi_os_protect(mapping->memory[part], mapping->bytes[part]);
}

/* Creates the window and its mappings. */
static pto_status create_window(pto_runtime *rt)
{
    const pto_config *c = &rt->settings.config;
    PTO_TRY(ptoi_window_create(&rt->settings, rt->files, &rt->mapping));
    PTO_TRY(ptoi_window_attach(&rt->mapping, &rt->view));
    rt->mapping_s = rt->mapping;
    if (c->map_twice && c->place != PTO_PLACE_PROCESS) {
        PTO_TRY(ptoi_window_map(rt->files, &rt->mapping, &rt->mapping_s));
        PTO_TRY(protect(&rt->mapping, PTOI_PART_SCHEDULER));
        PTO_TRY(protect(&rt->mapping_s, PTOI_PART_ORCHESTRATOR));
    } else if (c->place == PTO_PLACE_PROCESS) {
        PTO_TRY(protect(&rt->mapping, PTOI_PART_SCHEDULER));
    }
    rt->user_segment = PTOI_SEGMENT_USER;
    if (c->place == PTO_PLACE_PROCESS) {
        rt->user_segment = PTOI_SEGMENT_SHARED;
        rt->user_base = (uintptr_t)rt->view.base[PTOI_SEGMENT_SHARED];
    }
    rt->guarded = !ptoi_is_guarded(&rt->view) ? 0 : c->guard == PTO_GUARD_HOST ? 1 : UINT32_MAX;
    rt->heap_low[0] = (uintptr_t)rt->mapping.memory[PTOI_PART_HEAPS];
    rt->heap_low[1] = (uintptr_t)rt->mapping_s.memory[PTOI_PART_HEAPS];
    rt->heap_bytes = rt->view.header->heaps_bytes;
    const bool first = rt->heap_low[0] < rt->heap_low[1];
    rt->heap_begin = rt->heap_low[first ? 0 : 1];
    rt->heap_end = rt->heap_low[first ? 1 : 0] + rt->heap_bytes;
    return PTO_OK;
}

/* Numbers of tasks and buffers, of all runtimes of the process. A runtime numbers its own from
 * `numbers` on, so no handle of another runtime is valid in it. At first it takes RANGE numbers; it
 * gives those back that it did not use, unless another runtime was created meanwhile. So a handle
 * of a destroyed runtime stays invalid until the process has submitted 2^60 tasks, or has created
 * 2^24 runtimes whose lives overlap without being nested. (A runtime that submits more than RANGE
 * tasks runs into the numbers of one that was created during its life.) */
#define NUMBERS (UINT64_C(1) << 60) /* a ptoi_ref has room for these */
#define RANGE (UINT64_C(1) << 36)

static ptoi_a64 numbers;

/* Handles of kernels: the number of the runtime, which never repeats, and that of the kernel. */
_Static_assert(PTOI_MAX_KERNELS == 1 << 16, "a kernel has 16 bits of its handle");

static void choose_numbers(pto_runtime *rt)
{
    static ptoi_a64 created;
    rt->first_kernel = ptoi_fetch_add64(&created, 1) << 16;
    const uint64_t begin = ptoi_fetch_add64(&numbers, RANGE);
    rt->lives = begin % (NUMBERS - RANGE);
    if (rt->settings.config.first_task == 0) {
        rt->settings.config.first_task = rt->lives + 1;
        rt->numbers_end = begin + RANGE;
    }
}

static void give_back_numbers(const pto_runtime *rt)
{
    const uint64_t begin = rt->numbers_end - RANGE, first = begin % (NUMBERS - RANGE);
    uint64_t used = rt->lives - first, end = rt->numbers_end;
    if (!rt->numbers_end) {
        return;
    }
    for (uint32_t l = 0; l < rt->levels; l++) {
        const uint64_t head = rt->rings[l].head; /* 0: it was never set up */
        used = head && head - first > used ? head - first : used;
    }
    if (used < RANGE) {
        (void)ptoi_cas64(&numbers, &end, begin + used);
    }
}

/* Records of blocks, for each level: a power of two. A block has at least one buffer, or a task
 * that has not retired. */
static uint32_t count_blocks(const pto_runtime *rt)
{
    uint32_t count = 2;
    while (count < rt->settings.config.buffers || count < rt->view.header->slots) {
        count *= 2;
    }
    return count;
}

/* Reserves all memory before any is used. */
static pto_status reserve_rings(pto_runtime *rt)
{
    const pto_config *c = &rt->settings.config;
    const ptoi_header *h = rt->view.header;
    rt->max_buffers = c->buffers;
    rt->records = reserve(h->slots * sizeof *rt->records, &rt->record_bytes);
    const size_t blocks = (size_t)rt->levels * count_blocks(rt);
    rt->n_runs = 2 * (uint32_t)blocks;
    rt->blocks = reserve(blocks * sizeof *rt->blocks, &rt->block_bytes);
    rt->held_until = reserve(blocks * rt->levels * sizeof *rt->held_until, &rt->held_bytes);
    rt->runs = reserve(2 * (size_t)rt->n_runs * sizeof *rt->runs, &rt->run_bytes);
    rt->scopes = reserve(PTOI_MAX_SCOPES * sizeof *rt->scopes, &rt->scope_bytes);
    rt->buffers = reserve(c->buffers * sizeof *rt->buffers, &rt->buffer_bytes);
    rt->edges = reserve(h->slots * sizeof *rt->edges, &rt->edge_bytes);
    rt->accesses = reserve(h->max_params * (sizeof *rt->accesses + 1), &rt->access_bytes);
    if (!rt->records || !rt->blocks || !rt->runs || !rt->held_until || !rt->scopes ||
        !rt->buffers || !rt->edges || !rt->accesses) {
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
    const uint32_t blocks = count_blocks(rt);
    for (uint32_t l = 0; l < rt->levels; l++) {
        ptoi_rings *t = &rt->rings[l];
        t->head = t->completed = t->retired = first;
        t->mask = h->level[l].slots - 1;
        t->progress = &rt->view.header->progress[l];
        t->slots = rt->view.level[l].slots;
        t->states = rt->view.level[l].states;
        t->orders = rt->view.orders + h->level[l].first_slot;
        t->arg_descs = rt->view.level[l].args;
        t->refs = rt->view.level[l].deps;
        t->records = rt->records + h->level[l].first_slot;
        t->blocks = (ptoi_blocks){.head = 1,
                                  .tail = 1,
                                  .until = first,
                                  .mask = blocks - 1,
                                  .ring = rt->blocks + (size_t)l * blocks,
                                  .held_until = rt->held_until + (size_t)l * blocks * rt->levels};
        /* Twice as many runs as blocks: more than there can be. */
        ptoi_heap_init(&t->heap, h->level[l].heap_bytes, PTOI_HEAP_WARM,
                       rt->runs + 2 * (size_t)l * blocks, 2 * blocks);
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
        /* 0: as many, or fewer where the address space is limited */
        m.level_entries[l] = c->level_map_entries[l] == PTOI_MAP_ENTRIES ? 0
                                                                         : c->level_map_entries[l];
    }
    PTO_TRY(pto_tensormap_init(&rt->map, &m));
    ptoi_map_adopt(rt->map, rt->view.descs, &rt->order);
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
    rt->inlining.trial.at = workers ? 0 : UINT64_MAX; /* without workers there is no choice */
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
    const ptoi_wakes *wakes = rt->view.wakes;
    PTO_TRY(ptoi_scheduler_create(set, &rt->mapping_s, rt, &rt->scheduler));
    rt->calls = ptoi_caller_calls(rt->scheduler);
    for (uint32_t l = 0; l < rt->levels; l++) {
        rt->rings[l].renewed_lap = 1;
    }
    rt->sleepers = set->config.place == PTO_PLACE_THREAD || set->config.place == PTO_PLACE_GPU
                       ? &wakes->resting
                       : &wakes->idle;
    rt->routes = set->caller_types;
    for (uint32_t i = 0; i < set->n_workers; i++) {
        rt->routes |= set->worker_types[i];
    }
    create_inline(rt);
    return PTO_OK;
}

static void stop(pto_runtime *rt)
{
    if (rt->scheduler) {
        ptoi_store_sc32(&rt->view.header->stop, PTOI_END); /* W12 */
        ptoi_scheduler_join(rt->scheduler); /* no thread is in pto_task_complete after this */
        ptoi_process_destroy(rt);
    }
}

/* Frees a runtime, which may be incomplete. */
static void dismantle(pto_runtime *rt)
{
    stop(rt);
    give_back_numbers(rt);
    ptoi_trace_free(rt);
    ptoi_devices_destroy(rt);
    ptoi_scheduler_destroy(rt->scheduler);
    pto_tensormap_destroy(&rt->map);
    ptoi_poison_destroy(rt);
    ptoi_os_release(rt->records, rt->record_bytes);
    ptoi_os_release(rt->blocks, rt->block_bytes);
    ptoi_os_release(rt->runs, rt->run_bytes);
    ptoi_os_release(rt->held_until, rt->held_bytes);
    ptoi_os_release(rt->scopes, rt->scope_bytes);
    ptoi_os_release(rt->buffers, rt->buffer_bytes);
    ptoi_os_release(rt->edges, rt->edge_bytes);
    ptoi_os_release(rt->accesses, rt->access_bytes);
    ptoi_names_destroy(rt);
    ptoi_shared_destroy(rt);
    ptoi_guard_show_all(rt);
    if (rt->heaps_detached) {
        if (rt->mapping.memory[PTOI_PART_HEAPS] == rt->mapping_s.memory[PTOI_PART_HEAPS]) {
            rt->mapping.memory[PTOI_PART_HEAPS] = NULL;
        }
        rt->mapping_s.memory[PTOI_PART_HEAPS] = NULL;
    }
    if (rt->mapping_s.memory[0] != rt->mapping.memory[0]) {
        ptoi_window_unmap(&rt->mapping_s);
    }
    ptoi_window_unmap(&rt->mapping);
    ptoi_window_close(rt->files);
    ptoi_os_release(rt, sizeof *rt);
}

static pto_status create(pto_runtime *rt, const pto_config *config)
{
    PTO_TRY(ptoi_config_resolve(config, &rt->settings));
    (void)ptoi_pin_decide(&rt->settings);
    rt->levels = rt->settings.config.levels;
    choose_numbers(rt);
    PTO_TRY(create_window(rt));
    PTO_TRY(create_rings(rt));
    PTO_TRY(create_map(rt));
    ptoi_mirror_create(rt);
    PTO_TRY(ptoi_poison_create(rt));
    PTO_TRY(create_scheduler(rt));
    PTO_TRY(ptoi_trace_create(rt));
    ptoi_names_create(rt);
    ptoi_runtime_adopt(rt);
    PTO_TRY(ptoi_work_register(rt, &rt->work_kernel));
    PTO_TRY(ptoi_rearrange_register(rt));
    PTO_TRY(ptoi_op_register_kernels(rt));
    PTO_TRY(ptoi_scheduler_start(rt->scheduler));
    PTO_TRY(ptoi_process_create(rt));
    return ptoi_devices_create(rt);
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
    memset(made->files, -1, sizeof made->files); /* none is open */
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
    char detail[512];
    snprintf(detail, sizeof detail, "%s", pto_error_detail());
    const pto_status written = ptoi_trace_finish(rt);
    if (status == PTO_OK || written == PTO_OK) {
        return status == PTO_OK ? written : status;
    }
    return ptoi_fail(status, "%s; and the trace was not written: %s", detail, pto_error_detail());
}

/* A garbage collector destroys on whatever thread it runs. No call is running then, so the calling
 * thread can take over, unless it is a worker: a worker cannot wait for its own end. */
static void take_over(pto_runtime *rt)
{
    if (ptoi_get64(&rt->thread) != ptoi_os_self() && rt->forks == ptoi_os_forks &&
        !ptoi_scheduler_is_worker(rt->scheduler) && !rt->inside) {
        ptoi_runtime_adopt(rt);
    }
}

pto_status pto_runtime_destroy(pto_runtime **rt, pto_ending ending)
{
    if (!rt || !*rt) {
        return PTO_OK;
    }
    pto_runtime *old = *rt;
    if (old->kept_why) {
        return ptoi_fail(PTO_BAD_SCOPE, "destroy: the runtime %s", old->kept_why);
    }
    if (ending == PTO_CANCEL) {
        take_over(old);
    }
    PTO_TRY(ptoi_runtime_enter(old, "destroy"));
    if (old->executing) {
        return ptoi_fail(PTO_OPEN_SCOPE,
                         "destroy: inside of an orchestration that pto_execute runs");
    }
    if (ending == PTO_CANCEL) {
        old->interrupt.fn = NULL; /* this wait is short: nothing starts any more */
        pto_cancel(old);
        while (old->depth) {
            PTO_IGNORE(pto_scope_end_at(old, NULL, 0));
        }
    } else if (ending != PTO_WAIT) {
        return ptoi_fail(PTO_BAD_PARAM, "destroy: ending %d", (int)ending);
    } else if (old->depth) {
        const ptoi_site *site = &old->view.sites[old->scopes[old->depth - 1].site];
        return ptoi_fail(PTO_OPEN_SCOPE, "destroy: %" PRIu32 " %s open, the innermost since %s",
                         old->depth, old->depth == 1 ? "scope is" : "scopes are",
                         ptoi_source_of(ptoi_string(&old->view, site->file), site->line).text);
    }
    ptoi_wait_reason(old, PTOI_WHY_DESTROY);
    const uint64_t since = ptoi_trace_waits(old);
    pto_status s = PTO_OK;
    for (uint32_t l = 0; s == PTO_OK && l < old->levels; l++) {
        s = ptoi_wait_level(old, l);
    }
    if (s != PTO_OK && ending == PTO_WAIT) {
        return s; /* a worker process is lost, or the wait was interrupted. PTO_CANCEL gives up the rest */
    }
    ptoi_trace_wait(old, 0, since);
    if (old->guarded && s == PTO_OK) {
        ptoi_guard_sweep(old);
    }
    s = PTO_OK;
    if (ending == PTO_WAIT) {
        s = ptoi_failure_is_reported(old) ? PTO_OK : ptoi_failure_verdict(old);
        s = s ? s : ptoi_refusal_verdict(old, "destroy");
    }
    ptoi_release32(&old->view.header->orchestrator_done, 1);
    stop(old); /* no thread adds to the trace after this */
    s = add_trace(old, s);
    dismantle(old);
    *rt = NULL;
    return s;
}
