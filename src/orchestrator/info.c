/* info.c - pto_task_info reports on one task, pto_stats on the whole runtime. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "orchestrator/device.h"
#include "orchestrator/handle.h"
#include "orchestrator/label.h"
#include "orchestrator/mirror.h"
#include "orchestrator/poison.h"
#include "orchestrator/retire.h"
#include "orchestrator/runtime.h"

const char *pto_task_state_name(pto_task_state state)
{
    static const char *const names[] = {"pending", "ready", "running", "completed", "consumed"};
    return (uint32_t)state < sizeof names / sizeof *names ? names[state] : "invalid";
}

static uint32_t fanin_left(const pto_runtime *rt, const ptoi_slot *slot)
{
    const ptoi_ref *refs = rt->view.level[ptoi_slot_header_of(slot).level].deps + slot->deps;
    uint32_t left = 0;
    for (uint32_t i = 0; i < slot->fanin; i++) {
        left += !ptoi_task_is_complete(&rt->view, refs[i]);
    }
    return left;
}

/* Fills in kernel, site and type. */
static void name(const pto_runtime *rt, uint32_t kernel, uint32_t number, pto_task_report *report)
{
    const ptoi_view *view = &rt->view;
    const ptoi_site *site = &view->sites[number];
    report->kernel = ptoi_kernel_name(view, kernel);
    report->type = (pto_worker_type)view->kernels[kernel].type;
    report->file = ptoi_string(view, site->file);
    report->line = site->line;
}

/* What the block of a task knows about it. It remains when the slot is gone. */
static void report_block(const pto_runtime *rt, uint32_t level, uint64_t number,
                         pto_task_report *report)
{
    const ptoi_heap_block *block = ptoi_block_at(&rt->rings[level].blocks, number);
    name(rt, block->kernel, block->site, report);
    report->device = ptoi_device_at(rt, block->ran_on);
    report->order = block->order;
    report->fanout_count = block->scopes + (block->holders & PTOI_HOLDERS);
    report->fanout_left = ptoi_block_scopes(rt, block) + ptoi_block_users(rt, level, number);
    report->heap_bytes = block->bytes;
    report->state = PTO_TASK_COMPLETED;
}

/* What the slot of a task knows about it. */
static void report_slot(const pto_runtime *rt, uint32_t level, uint64_t seq,
                        pto_task_report *report)
{
    const ptoi_rings *t = &rt->rings[level];
    const ptoi_slot *slot = &t->slots[(uint32_t)seq & t->mask];
    const ptoi_slot_header header = ptoi_slot_header_of(slot);
    const ptoi_state *state = &t->states[(uint32_t)seq & t->mask];
    const uint32_t lap = ptoi_lap(&rt->view, level, seq);
    const uint64_t waiters = ptoi_acquire64(&state->waiters);
    name(rt, header.kernel, header.site, report);
    report->device = ptoi_device_at(rt, ptoi_lane_device(header.lane));
    ptoi_label_of(&rt->view, slot, report->label);
    report->order = ptoi_order_of(&rt->view, slot);
    report->fanin_count = slot->fanin;
    const bool marked = ptoi_is_marked_complete(&rt->view, slot);
    if (marked || ptoi_list_closed(waiters, lap)) {
        report->state = PTO_TASK_COMPLETED;
        report->failed = !marked && ptoi_list_bad(waiters, lap);
        report->skipped = !marked && state->outcome == PTOI_SKIPPED;
        return;
    }
    /* The task is not complete, so its edges are still in the ring. */
    report->fanin_left = fanin_left(rt, slot);
    report->state = ptoi_phase_of(ptoi_get32(&state->phase), lap) & PTOI_PHASE_RUNNING ||
                            (rt->mirrored && ptoi_mirror_is_running(rt, report->task))
                        ? PTO_TASK_RUNNING
                    : report->fanin_left ? PTO_TASK_PENDING
                                         : PTO_TASK_READY;
}

pto_status pto_task_info(pto_runtime *rt, pto_task task, pto_task_report *report)
{
    PTO_TRY(ptoi_runtime_enter(rt, "task info"));
    if (!report) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "task info: report is NULL");
    }
    PTO_TRY(ptoi_handle_check(rt, "task info", task));
    uint32_t level = ptoi_ref_level(ptoi_handle_ref(task));
    uint64_t seq = ptoi_ref_seq(ptoi_handle_ref(task)), number;
    ptoi_retire_exactly(rt, level);
    *report = (pto_task_report){
        .task = task, .state = PTO_TASK_CONSUMED, .level = level, .kernel = "", .file = ""};
    report->failed = ptoi_poison_is_bad(rt, level, seq, &report->skipped);
    if (ptoi_block_of_task(rt, level, seq, &number)) {
        report_block(rt, level, number, report);
    }
    if (seq >= rt->rings[level].retired) {
        report_slot(rt, level, seq, report);
    }
    return PTO_OK;
}

/* ---- Counts ---- */

static void add_tally(pto_runtime_stats *stats, const ptoi_tally *tally)
{
    stats->completed += ptoi_acquire64(&tally->completed); /* before all loads below */
    stats->failed += ptoi_get64(&tally->failed);
    stats->skipped += ptoi_get64(&tally->skipped);
}

/* Reads the slots as they are now: counts tasks whose kernel returned PTO_PENDING, and finds the
 * oldest unfinished task. */
static void read_slots(const pto_runtime *rt, pto_runtime_stats *stats)
{
    const ptoi_view *view = &rt->view;
    uint64_t oldest = UINT64_MAX;
    for (uint32_t l = 0; l < rt->levels; l++) {
        uint64_t n = ptoi_get64(&view->header->progress[l].completed);
        uint64_t head = ptoi_acquire64(&view->header->progress[l].head);
        bool first = true;
        for (; n < head; n++) {
            const ptoi_slot *slot = ptoi_slot_of(view, l, n);
            if (ptoi_task_is_complete(view, ptoi_ref_make(n, l, false))) {
                continue;
            }
            const uint32_t phase = ptoi_phase_of(ptoi_get32(&ptoi_state_of(view, l, n)->phase),
                                                 ptoi_lap(view, l, n));
            stats->pending += (phase & PTOI_PHASE_RETURNED) != 0;
            const uint64_t order = ptoi_order_of(view, slot);
            const uint32_t kernel = ptoi_slot_header_of(slot).kernel;
            /* The task is still unfinished, so the slot was its own while it was read. */
            if (first && order < oldest &&
                !ptoi_task_is_complete(view, ptoi_ref_make(n, l, false))) {
                oldest = order;
                stats->oldest = ptoi_ref_task(ptoi_ref_make(n, l, false));
                stats->oldest_kernel = ptoi_kernel_name(view, kernel);
            }
            first = false;
        }
    }
}

pto_status pto_stats(const pto_runtime *rt, pto_runtime_stats *stats)
{
    if (!rt || !stats) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "stats: %s is NULL", rt ? "stats" : "the runtime");
    }
    const ptoi_header *h = rt->view.header;
    memset(stats, 0, sizeof *stats);
    /* The orchestrating thread publishes first. Other threads see what it published last. */
    for (uint32_t l = 0; ptoi_get64(&rt->thread) == ptoi_os_self() && l < rt->levels; l++) {
        ptoi_retire_publish((pto_runtime *)(uintptr_t)rt, l);
    }
    /* Completions are read before submissions, so completed <= submitted holds. */
    for (uint32_t i = 0; i < ptoi_lines(&rt->view); i++) {
        const ptoi_worker_line *line = &rt->view.workers[i];
        add_tally(stats, &line->tally);
        stats->parks += ptoi_get64(&rt->view.wakes->threads[i].parks);
    }
    /* Part of both sums, so read once, before the rest of the submissions. */
    const uint64_t inlined = ptoi_acquire64(&h->inlined), kept = ptoi_get64(&h->inlined_kept);
    stats->completed += inlined;
    for (uint32_t l = 0; l < rt->levels;
         l++) { /* not inbox_head: pto_recover publishes tasks again */
        stats->submitted += ptoi_acquire64(&h->progress[l].head) - h->first_task; /* W6 */
    }
    stats->raw = ptoi_get64(&h->edges[0]);
    stats->war = ptoi_get64(&h->edges[1]);
    stats->waw = ptoi_get64(&h->edges[2]);
    stats->after = ptoi_get64(&h->edges[3]);
    stats->overlap_budget_hits = ptoi_get64(&h->budget_hits);
    stats->poison_lost = ptoi_get64(&h->poison_lost);
    stats->sites_lost = ptoi_get64(&h->sites_lost);
    stats->helped = ptoi_get64(&rt->helped) + inlined + kept;
    stats->inlined = inlined + kept;
    stats->scope_depth = ptoi_get64(&h->scope_depth);
    stats->buffers = ptoi_get64(&h->buffers);
    stats->buffers_peak = ptoi_get64(&h->buffers_peak);
    stats->levels = rt->levels;
    for (uint32_t l = 0; l < rt->levels; l++) {
        ptoi_window_read_rings(&rt->view, l, &stats->level[l]);
    }
    stats->devices = ptoi_window_read_devices(&rt->view, stats->device);
    read_slots(rt, stats);
    return PTO_OK;
}
