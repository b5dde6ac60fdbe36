#include "worker/keeper.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <pto/gpu.h>
#include <pto/pto.h>

#include "base/error.h"
#include "base/mutant.h"
#include "device/device.h"
#include "scheduler/complete.h"
#include "scheduler/grid_roles.h"
#include "worker/end.h"
#include "worker/grid_log.h"
#include "worker/worker.h"

#define POLLS_TO_ASK 64 /* of a resident grid, between two questions whether the device is well */
#define SERVICE_WARPS_RESOLVE 4 /* of a real grid */
#define SERVICE_WARPS_WRITE 4

/* ---- The mirror ---- */

/* Places arrays in the image one after the other. */
static uint64_t place(uint64_t *end, uint64_t bytes)
{
    const uint64_t at = *end;
    *end += (bytes + 255) / 256 * 256;
    return at;
}

typedef struct layout {
    uint64_t grid, control, done, slots, states, waits, fresh, resolved, descs, codes;
    uint64_t cells[PTOI_GRID_QUEUES], deps[PTOI_MAX_LEVELS], args[PTOI_MAX_LEVELS];
    uint64_t log, log_used, log_place; /* of a traced run */
    uint64_t bytes;
} layout;

static layout lay_out(const ptoi_view *view, uint32_t n_workers, uint32_t n_resolvers,
                      const ptoi_keeper_log *trace)
{
    layout at = {0};
    const uint64_t cells = view->inbox_mask + UINT64_C(1);
    at.grid = place(&at.bytes, sizeof(ptoi_grid));
    at.control = place(&at.bytes, sizeof(ptoi_grid_control));
    at.done = place(&at.bytes, (n_workers + UINT64_C(1)) * sizeof(ptoi_grid_done));
    at.slots = place(&at.bytes, view->n_slots * sizeof(ptoi_slot));
    at.states = place(&at.bytes, view->n_slots * sizeof(ptoi_state));
    at.waits = place(&at.bytes, view->n_slots * sizeof(ptoi_wait));
    at.fresh = place(&at.bytes, cells * sizeof(uint32_t));
    at.resolved = place(&at.bytes, n_resolvers * sizeof(ptoi_a64));
    at.descs = place(&at.bytes, PTOI_DESC_BYTES);
    at.codes = place(&at.bytes, PTOI_MAX_KERNELS * sizeof(ptoi_kernel_code));
    for (uint32_t q = 0; q < PTOI_GRID_QUEUES; q++) {
        at.cells[q] = place(&at.bytes, cells * sizeof(ptoi_a64));
    }
    for (uint32_t l = 0; l < view->levels; l++) {
        at.deps[l] = place(&at.bytes, view->level[l].n_deps * sizeof(ptoi_ref));
        at.args[l] = place(&at.bytes, view->level[l].n_args * sizeof(ptoi_arg_desc));
    }
    if (trace) {
        at.log = place(&at.bytes, sizeof(ptoi_grid_log));
        at.log_used = place(&at.bytes, trace->n_chunks * sizeof(uint32_t));
        at.log_place = place(&at.bytes, n_workers * sizeof(ptoi_grid_place));
    }
    return at;
}

/* The address on the device of memory of the window: `moved` is how far the parts lie from here. */
typedef struct distance {
    intptr_t o, s;
} distance;

#define MOVED(pointer, by) ((__typeof__(pointer))(uintptr_t)((char *)(pointer) + (by)))

static void fill_in_window(ptoi_grid *g, const ptoi_view *view, distance by)
{
    ptoi_header *h = view->header;
    g->window = *view;
    g->window.slots = MOVED(view->slots, by.o);
    g->window.orders = MOVED(view->orders, by.o);
    g->window.descs = MOVED(view->descs, by.o);
    g->window.codes = MOVED(view->codes, by.o);
    g->window.labels = MOVED(view->labels, by.o);
    g->window.states = MOVED(view->states, by.s);
    for (uint32_t l = 0; l < view->levels; l++) {
        g->window.level[l].slots = MOVED(view->level[l].slots, by.o);
        g->window.level[l].deps = MOVED(view->level[l].deps, by.o);
        g->window.level[l].args = MOVED(view->level[l].args, by.o);
        g->window.level[l].states = MOVED(view->level[l].states, by.s);
    }
    g->heads = MOVED(&h->heads[0], by.o);
    g->log_head = MOVED(&h->log_head, by.o);
    g->log = (const uint32_t *)(const void *)((const char *)h + h->log_at + by.o);
    g->mail = MOVED(&h->mail, by.o);
    g->cancel[0] = MOVED(&h->cancel, by.o);
    g->era = MOVED(&h->era, by.o);
    g->cancel[1] = MOVED(&view->sched->cancel, by.s);
    char *s = (char *)view->sched + by.s;
    g->shared = (ptoi_grid_shared *)(void *)(s + view->sched->grid_at);
    g->host_ready = (ptoi_a64 *)(void *)(s + view->sched->host_ready_at);
    g->posts = (const uint64_t *)(void *)(s + view->sched->host_posts_at);
    g->lines = MOVED(&view->workers[g->first_line], by.s);
    g->failures = MOVED(&view->failures[g->first_line], by.s);
}

static void fill_in_mirror(ptoi_grid *g, const ptoi_view *view, const layout *at, char *memory)
{
    g->view = *view;
    g->view.slots = (ptoi_slot *)(void *)(memory + at->slots);
    g->view.states = (ptoi_state *)(void *)(memory + at->states);
    g->view.waits = (ptoi_wait *)(void *)(memory + at->waits);
    g->view.descs = memory + at->descs;
    g->view.codes = (ptoi_kernel_code *)(void *)(memory + at->codes);
    for (uint32_t l = 0; l < view->levels; l++) {
        const ptoi_window_level *level = &view->header->level[l];
        g->view.level[l].slots = g->view.slots + level->first_slot;
        g->view.level[l].states = g->view.states + level->first_slot;
        g->view.level[l].deps = (uint64_t *)(void *)(memory + at->deps[l]);
        g->view.level[l].args = (ptoi_arg_desc *)(void *)(memory + at->args[l]);
    }
    g->control = (ptoi_grid_control *)(void *)(memory + at->control);
    g->done = (ptoi_grid_done *)(void *)(memory + at->done);
    g->fresh = (uint32_t *)(void *)(memory + at->fresh);
    g->resolved = (ptoi_a64 *)(void *)(memory + at->resolved);
    for (uint32_t q = 0; q < PTOI_GRID_QUEUES; q++) {
        g->cells[q] = (ptoi_a64 *)(void *)(memory + at->cells[q]);
    }
    g->inbox_mask = view->inbox_mask;
}

/* What the mirror holds before the first launch: nothing was read so far. Counts begin at `first`, so
 * that tests can make them wrap. */
static void fill_in_image(char *image, const layout *at, const ptoi_view *view, uint32_t first)
{
    ptoi_grid_control *c = (ptoi_grid_control *)(void *)(image + at->control);
    for (uint32_t q = 0; q < PTOI_GRID_QUEUES; q++) {
        ptoi_a64 *cells = (ptoi_a64 *)(void *)(image + at->cells[q]);
        for (uint32_t i = 0; i <= view->inbox_mask; i++) {
            ptoi_set64(&cells[(first + i) & view->inbox_mask], ptoi_cell_word(first + i, 0));
        }
        ptoi_set32(&c->queue[q].tail, first);
        ptoi_set32(&c->queue[q].ticket, first);
    }
    for (uint32_t l = 0; l < view->levels; l++) {
        const uint64_t head = ptoi_head_word(view->first, 0, 0);
        ptoi_mover_level *level = &c->mover.level[l];
        level->known = level->mirrored = level->before = level->released = head;
        level->seq = view->first;
    }
}

/* The log of a traced run, before anything was recorded. */
static void fill_in_log(ptoi_keeper *k, const layout *at)
{
    ptoi_keeper_log *t = k->trace;
    if (!t) {
        return;
    }
    ptoi_grid_log *log = (ptoi_grid_log *)(void *)(k->image + at->log);
    ptoi_grid_place *places = (ptoi_grid_place *)(void *)(k->image + at->log_place);
    log->n_chunks = t->n_chunks;
    log->ran = t->ran;
    log->used = (uint32_t *)(void *)((char *)k->memory + at->log_used);
    log->place = (ptoi_grid_place *)(void *)((char *)k->memory + at->log_place);
    for (uint32_t i = 0; i < k->grid.n_workers; i++) {
        places[i].chunk = PTOI_NONE;
    }
    k->grid.records = t->log = (ptoi_grid_log *)(void *)((char *)k->memory + at->log);
}

/* Lets the device use the window. */
static pto_status share(ptoi_scheduler *s, ptoi_keeper *k, distance *by)
{
    ptoi_header *h = s->view.header;
    ptoi_sched_header *sched = s->view.sched;
    void *const parts[] = {h, sched};
    const uint64_t bytes[] = {h->file.bytes, sched->file.bytes};
    intptr_t moved[2] = {0, 0};
    for (int i = 0; k->module && i < 2; i++) {
        void *there = NULL;
        PTO_TRY(k->ops.share(k->ops.self, parts[i], bytes[i], &there));
        k->shared_at[i] = parts[i];
        k->shared_bytes[i] = bytes[i];
        moved[i] = (char *)there - (char *)parts[i];
    }
    *by = (distance){moved[0], moved[1]};
    return PTO_OK;
}

static pto_status create_mirror(ptoi_scheduler *s, ptoi_keeper *k)
{
    const layout at = lay_out(&s->view, k->grid.n_workers, k->grid.n_resolvers, k->trace);
    distance by;
    k->image_bytes = at.bytes;
    k->image = ptoi_os_reserve(at.bytes);
    if (!k->image) {
        return ptoi_fail(PTO_OUT_OF_MEMORY,
                         "create: %" PRIu64 " bytes for the mirror of the window", at.bytes);
    }
    k->memory = k->image;
    if (k->module) {
        k->memory = NULL;
        PTO_TRY(k->ops.alloc(k->ops.self, at.bytes, &k->memory));
    }
    PTO_TRY(share(s, k, &by));
    k->there = (char *)k->memory + at.grid;
    fill_in_window(&k->grid, &s->view, by);
    fill_in_mirror(&k->grid, &s->view, &at, k->memory);
    fill_in_image(k->image, &at, &s->view, (uint32_t)s->view.first);
    fill_in_log(k, &at);
    if (!k->module) {
        return PTO_OK;
    }
    memcpy(k->image + at.grid, &k->grid, sizeof k->grid);
    PTO_TRY(k->ops.copy_in(k->ops.self, k->memory, k->image, at.bytes));
    PTO_TRY(k->ops.synchronize ? k->ops.synchronize(k->ops.self) : PTO_OK);
    ptoi_os_release(k->image, k->image_bytes);
    k->image = NULL;
    return PTO_OK;
}

/* ---- Life ---- */

/* How many workers, and how many lanes serve them. */
static pto_status count_roles(ptoi_keeper *k, uint32_t wanted)
{
    ptoi_grid *g = &k->grid;
    g->few = PTOI_GRID_FEW;
    if (!k->module) {
        const uint32_t own = k->ops.workers[PTO_CUBE] + k->ops.workers[PTO_VECTOR];
        g->n_workers = wanted ? wanted : own ? own : 2;
        g->n_resolvers = g->n_writers = 1;
        return PTO_OK;
    }
    g->n_resolvers = PTOI_WARP * SERVICE_WARPS_RESOLVE;
    g->n_writers = PTOI_WARP * SERVICE_WARPS_WRITE;
    PTO_TRY(k->ops.grid_prepare(k->ops.self, k->module, &k->blocks));
    k->prepared = true;
    const uint32_t blocks = ptoi_grid_service_blocks(g, k->module->threads);
    if (k->blocks <= blocks) {
        return ptoi_fail(PTO_BAD_DEVICE,
                         "create: %u blocks of the module fit on the device, and %u are needed to "
                         "schedule",
                         k->blocks, blocks);
    }
    g->n_workers = k->blocks - blocks;
    if (wanted && wanted < g->n_workers) {
        g->n_workers = wanted;
    }
    g->n_workers = g->n_workers < PTOI_GRID_WORKERS ? g->n_workers : PTOI_GRID_WORKERS;
    k->blocks = g->n_workers + blocks;
    return PTO_OK;
}

/* Which blocks serve which ready ring: all of them one, or `cube` of them the first and the others the
 * second. */
static pto_status share_out_blocks(ptoi_grid *g, uint32_t cube)
{
    if (cube && cube >= g->n_workers) {
        return ptoi_fail(PTO_BAD_CONFIG,
                         "create: gpu_cube_workers = %u (PTO_GPU_CUBE_WORKERS): the grid has %u "
                         "block%s, and none would be left for vector tasks",
                         cube, g->n_workers, g->n_workers == 1 ? "" : "s");
    }
    g->queue_of[PTO_VECTOR] = cube ? 1 : 0;
    g->workers_of[0] = cube ? cube : g->n_workers;
    g->workers_of[1] = g->n_workers - g->workers_of[0];
    return PTO_OK;
}

/* The types that a block serves. */
static uint32_t types_of(const ptoi_grid *g, uint32_t block)
{
    return !g->workers_of[1]             ? PTOI_GRID_TYPES
           : ptoi_grid_ring_of(g, block) ? PTO_TYPE_BIT(PTO_VECTOR)
                                         : PTO_TYPE_BIT(PTO_CUBE);
}

static pto_status create(ptoi_scheduler *s, ptoi_keeper *k, const ptoi_settings *settings,
                         uint32_t first)
{
    ptoi_grid *g = &k->grid;
    char *sched = (char *)s->view.sched;
    g->device = k->device;
    g->idle_ns = settings->config.gpu_idle_us * UINT64_C(1000);
    PTO_TRY(share_out_blocks(g, settings->config.gpu_cube_workers));
    g->first_line = ptoi_line_of_device(&s->view, first);
    k->shared = (ptoi_grid_shared *)(void *)(sched + s->view.sched->grid_at);
    k->host_ready = (const ptoi_a64 *)(void *)(sched + s->view.sched->host_ready_at);
    k->posts = (uint64_t *)(void *)(sched + s->view.sched->host_posts_at);
    k->posted_laps = ptoi_os_reserve(s->view.n_slots * sizeof *k->posted_laps);
    if (!k->posted_laps) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "create: marks of %u tasks", s->view.n_slots);
    }
    PTO_TRY(ptoi_keeper_log_create(s, k, settings->config.trace_limit));
    PTO_TRY(create_mirror(s, k));
    if (!k->module) {
        PTO_TRY(ptoi_grid_threads_create(s, k, first));
    }
    for (uint32_t i = 0; i < g->n_workers; i++) { /* for readers: nobody wakes them */
        ptoi_set32(&s->view.wakes->threads[g->first_line + i].types, types_of(g, i));
    }
    const int why = ptoi_worker_start(&s->own);
    return why ? ptoi_fail(PTO_SYSTEM, "create: the scheduler's thread: %s", strerror(why))
               : PTO_OK;
}

pto_status ptoi_scheduler_prepare_grid(ptoi_scheduler *s, uint32_t number,
                                       const ptoi_settings *settings)
{
    ptoi_keeper *k = ptoi_os_reserve(sizeof *k);
    if (!k) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "create: %zu bytes for the grid", sizeof *k);
    }
    s->keeper = k; /* from here on it is freed with the scheduler */
    k->device = number;
    k->ops = s->devices[number].ops;
    k->module = k->ops.grid_launch ? settings->config.gpu_module : NULL;
    if (k->ops.grid_launch && !k->module) {
        return ptoi_fail(PTO_BAD_CONFIG,
                         "create: place = PTO_PLACE_GPU (PTO_SCHEDULER=gpu) needs the "
                         "kernels of the device: set config.gpu_module (pto/gpu.h)");
    }
    const pto_device before = pto_device_current();
    PTO_TRY(pto_device_set_current(s->devices[number].device));
    return ptoi_device_return(before, count_roles(k, settings->config.gpu_workers));
}

pto_status ptoi_scheduler_add_grid(ptoi_scheduler *s, const ptoi_settings *settings, uint32_t first,
                                   uint32_t *n_workers)
{
    ptoi_keeper *k = s->keeper;
    const pto_device before = pto_device_current();
    PTO_TRY(pto_device_set_current(s->devices[k->device].device));
    const pto_status status = create(s, k, settings, first);
    *n_workers = status ? 0 : k->grid.n_workers;
    return ptoi_device_return(before, status);
}

ptoi_grid_times ptoi_scheduler_grid_times(const ptoi_scheduler *s)
{
    return s->grid_times;
}

void ptoi_keeper_destroy(ptoi_scheduler *s)
{
    ptoi_keeper *k = s->keeper;
    if (!k) {
        return;
    }
    const pto_device before = pto_device_current();
    PTO_IGNORE(pto_device_set_current(s->devices[k->device].device));
    ptoi_keeper_log_finish(s, k);
    ptoi_keeper_log_destroy(k);
    ptoi_grid_threads_destroy(s, k);
    for (int i = 0; i < 2; i++) {
        if (k->shared_at[i]) {
            k->ops.unshare(k->ops.self, k->shared_at[i], k->shared_bytes[i]);
        }
    }
    if (k->memory && k->memory != k->image) {
        k->ops.free(k->ops.self, k->memory, k->image_bytes);
    }
    if (k->prepared && k->ops.grid_release) {
        k->ops.grid_release(k->ops.self);
    }
    ptoi_os_release(k->image, k->image_bytes);
    ptoi_os_release(k->posted_laps, k->posted_laps ? s->view.n_slots * sizeof *k->posted_laps : 0);
    ptoi_os_release(k, sizeof *k);
    s->keeper = NULL;
    PTO_IGNORE(ptoi_device_return(before, PTO_OK));
}

/* ---- Tasks of the host ---- */

static uint32_t lap_of(const ptoi_view *view, uint32_t index)
{
    const ptoi_slot *slot = &view->slots[index];
    return ptoi_lap(view, ptoi_slot_header_of(slot).level, ptoi_get64(&slot->seq));
}

/* Passes tasks on whose kernels have returned. Counts them: what is complete has been counted (W7). */
static bool post_completed(ptoi_scheduler *s, ptoi_keeper *k)
{
    const uint32_t before = k->posted;
    for (uint32_t index; (index = ptoi_queue_pop(&s->queue[PTOI_QUEUE_DONE])) != PTOI_NONE;) {
        const ptoi_outcome outcome = (ptoi_outcome)s->view.states[index].outcome;
        ptoi_count_completed(s, &s->own, outcome);
        k->posted_laps[index] = lap_of(&s->view, index) + UINT64_C(1);
        k->posts[k->posted++ & s->view.inbox_mask] = ptoi_post_word(
            index, PTOI_MUTANT(POST_GOOD) ? PTOI_DONE : outcome);
    }
    if (k->posted != before) {
        ptoi_release32(&k->shared->posted, k->posted); /* D6 */
    }
    return k->posted != before;
}

/* Offers tasks that the grid has found ready. */
static bool offer_ready(ptoi_scheduler *s, ptoi_keeper *k)
{
    bool found = false;
    for (;; found = true) {
        const uint64_t word = ptoi_acquire64(
            &k->host_ready[k->ready_taken & s->view.inbox_mask]); /* pairs D5 */
        if ((uint32_t)(word >> 32) != k->ready_taken + 1) {
            return found;
        }
        const uint32_t index = (uint32_t)word & ~PTOI_HOST_POISONED;
        k->ready_taken++;
        ptoi_step_begin(&s->view, index);
        s->view.states[index].poisoned |= (word & PTOI_HOST_POISONED) != 0;
        ptoi_scheduler_log_ready(s, index);
        ptoi_scheduler_offer(s, index);
    }
}

/* ---- The grid ---- */

/* Whether the grid has something to do that it has not seen when it ended. */
static bool grid_has_work(const ptoi_scheduler *s, const ptoi_keeper *k)
{
    return ptoi_load_sc64(&s->view.header->inbox_head) != ptoi_get64(&k->shared->consumed) ||
           (k->posted != ptoi_get32(&k->shared->posts_taken) && !PTOI_MUTANT(POST_LOST)) ||
           (ptoi_letter_number(ptoi_load_sc64(&s->view.header->mail.asked)) !=
                ptoi_get64(&k->shared->answered) >> 32 &&
            !PTOI_MUTANT(LETTER_LOST));
}

static pto_status launch(ptoi_keeper *k)
{
    return k->module ? k->ops.grid_launch(k->ops.self, k->module, k->there, k->blocks)
                     : ptoi_grid_threads_launch(k);
}

/* Whether the grid is gone, after it has said so, or because the device is lost. */
static pto_status has_ended(ptoi_keeper *k, bool *ended)
{
    *ended = ptoi_acquire32(&k->shared->ended) == k->launches; /* pairs D8 */
    if (!k->module) {
        if (*ended) {
            ptoi_grid_threads_join(k);
        }
        return PTO_OK;
    }
    if (!*ended && k->polls++ % POLLS_TO_ASK) {
        return PTO_OK;
    }
    return k->ops.grid_ended(k->ops.self, ended);
}

/* ---- A lost device ---- */

/* The tasks that blocks were running, for a message. */
static void name_running(const ptoi_scheduler *s, const ptoi_keeper *k, char *text, size_t bytes)
{
    const ptoi_view *view = &s->view;
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < k->grid.n_workers && used + 1 < bytes; i++) {
        const pto_task task = ptoi_get64(&view->workers[k->grid.first_line + i].task);
        const ptoi_ref ref = (ptoi_ref)task << 1;
        uint64_t waiters;
        if (!task || ptoi_is_complete(view, ref, &waiters)) {
            continue;
        }
        const ptoi_slot *slot = ptoi_slot_of(view, ptoi_ref_level(ref), ptoi_ref_seq(ref));
        const ptoi_slot_header header = ptoi_slot_header_of(slot);
        const ptoi_site *site = &view->sites[header.site];
        const int more = snprintf(
            text + used, bytes - used, "%s'%s' (%s:%" PRId32 ")", used ? ", " : "; it was running ",
            ptoi_kernel_name(view, header.kernel), ptoi_string(view, site->file), site->line);
        used += more > 0 ? (size_t)more : 0;
    }
}

/* Whether workers of the host or engines have tasks. Their memory and slots are in use. */
static bool host_is_busy(const ptoi_keeper *k)
{
    return k->ready_taken != k->posted && !PTOI_MUTANT(LOST_EARLY);
}

/* Completes tasks that the host has run: the grid is not there to do it. */
static bool complete_host_tasks(ptoi_scheduler *s, ptoi_keeper *k)
{
    bool found = false;
    for (uint32_t index; (index = ptoi_queue_pop(&s->queue[PTOI_QUEUE_DONE])) != PTOI_NONE;) {
        const ptoi_outcome outcome = (ptoi_outcome)s->view.states[index].outcome;
        k->posted++;
        found = true;
        if (!PTOI_MUTANT(LOST_EARLY)) {
            ptoi_count_completed(s, &s->own, outcome);
            (void)ptoi_step_complete(&s->view, index, lap_of(&s->view, index), outcome);
        }
    }
    return found;
}

/* The device is gone, and with it the states of all tasks that are not complete: they fail, and so does
 * every later one, when the host has none of them any more. Nobody else completes tasks from here on. */
static bool fail_all(ptoi_scheduler *s, ptoi_keeper *k)
{
    const ptoi_view *view = &s->view;
    const bool completed = complete_host_tasks(s, k);
    if (host_is_busy(k)) {
        return completed;
    }
    const uint64_t head = ptoi_acquire64(&view->header->inbox_head); /* pairs W1 */
    const bool found = k->failed != head;
    if (head - k->failed > view->inbox_mask) {
        k->failed = head - view->inbox_mask - 1; /* older tasks are complete */
    }
    for (; k->failed != head; k->failed++) {
        const uint32_t index = ptoi_get32(&view->inbox[(uint32_t)k->failed & view->inbox_mask]);
        const uint32_t lap = lap_of(view, index);
        if (!ptoi_list_closed(ptoi_get64(&view->states[index].waiters), lap)) {
            ptoi_outcome outcome = (ptoi_outcome)view->states[index].outcome;
            if (k->posted_laps[index] != lap + UINT64_C(1)) { /* else the host has run it */
                outcome = ptoi_end_judge(s, &s->own, index, PTO_DEVICE_LOST, k->lost);
                ptoi_count_completed(s, &s->own, outcome);
            }
            (void)ptoi_step_complete(view, index, lap, outcome);
        }
    }
    return found || completed;
}

static void lose(ptoi_scheduler *s, ptoi_keeper *k)
{
    char running[160];
    name_running(s, k, running, sizeof running);
    snprintf(k->lost, sizeof k->lost, "%s%s", pto_error_detail(), running);
    ptoi_release32(&k->shared->lost, 1);
    k->resident = false;
}

static bool reside(ptoi_scheduler *s, ptoi_keeper *k)
{
    bool ended = false;
    if (k->resident) {
        const pto_status status = has_ended(k, &ended);
        if (status) {
            lose(s, k);
            return true;
        }
        k->resident = !ended;
        if (ended) {
            ptoi_keeper_log_ended(k);
        } else {
            ptoi_keeper_log_time(k, false);
        }
        return ended;
    }
    if (!grid_has_work(s, k)) {
        return false;
    }
    ptoi_keeper_log_launch(k);
    if (launch(k)) {
        lose(s, k);
        return true;
    }
    k->launches++;
    ptoi_set32(&k->shared->launched, k->launches);
    k->resident = true;
    return true;
}

bool ptoi_keeper_step(ptoi_scheduler *s)
{
    ptoi_keeper *k = s->keeper;
    if (PTOI_UNLIKELY(k->lost[0])) {
        return fail_all(s, k);
    }
    bool found = post_completed(s, k);
    found |= offer_ready(s, k);
    return reside(s, k) || found;
}

bool ptoi_keeper_sees_work(const ptoi_scheduler *s)
{
    const ptoi_keeper *k = s->keeper;
    if (PTOI_UNLIKELY(k->lost[0])) {
        return ptoi_queue_has_task(&s->queue[PTOI_QUEUE_DONE]) ||
               (!host_is_busy(k) && ptoi_load_sc64(&s->view.header->inbox_head) != k->failed);
    }
    return ptoi_queue_has_task(&s->queue[PTOI_QUEUE_DONE]) ||
           (!k->resident && !PTOI_MUTANT(KEEPER_BLIND) && grid_has_work(s, k));
}

void ptoi_keeper_close(ptoi_scheduler *s)
{
    ptoi_keeper *k = s->keeper;
    if (k->resident) {
        ptoi_keeper_log_time(k, true);
    }
    ptoi_release32(&k->shared->hurry, 1);
    while (k->resident) {
        if (!reside(s, k)) {
            ptoi_os_yield();
        }
    }
}
