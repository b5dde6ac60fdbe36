/* info.c - pto_task_info reports on one task, pto_stats on the whole runtime. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "orchestrator/handle.h"
#include "orchestrator/retire.h"
#include "orchestrator/runtime.h"

const char *pto_task_state_name(pto_task_state state)
{
    static const char *const names[] = {"pending", "ready", "running", "completed", "consumed"};
    return (uint32_t)state < sizeof names / sizeof *names ? names[state] : "invalid";
}

/* How many of the scopes that were open around the task at submit are still open. Those that were
 * opened before the task come first in the stack. */
static uint32_t open_scopes(const pto_runtime *rt, const ptoi_record *record, uint64_t order)
{
    uint32_t count = 0;
    while (count < record->scopes && record->base + count < rt->depth &&
           rt->scopes[record->base + count].order <= order) {
        count++;
    }
    return count;
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

pto_status pto_task_info(pto_runtime *rt, pto_task task, pto_task_report *report)
{
    PTO_TRY(ptoi_runtime_enter(rt, "task info"));
    if (!report) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "task info: report is NULL");
    }
    PTO_TRY(ptoi_handle_check(rt, "task info", task));
    uint32_t level = ptoi_ref_level(ptoi_handle_ref(task));
    uint64_t seq = ptoi_ref_seq(ptoi_handle_ref(task));
    ptoi_retire_exactly(rt, level);
    const ptoi_rings *t = &rt->rings[level];
    *report = (pto_task_report){.task = task, .state = PTO_TASK_CONSUMED, .level = level};
    if (seq < t->retired) {
        return PTO_OK;
    }
    const ptoi_view *view = &rt->view;
    const ptoi_slot *slot = &t->slots[(uint32_t)seq & t->mask];
    const ptoi_record *record = ptoi_record_of(t, seq);
    const ptoi_slot_header header = ptoi_slot_header_of(slot);
    const ptoi_state *state = &t->states[(uint32_t)seq & t->mask];
    const ptoi_site *site = &view->sites[header.site];
    const uint32_t lap = ptoi_lap(view, level, seq);
    uint64_t waiters = ptoi_acquire64(&state->waiters);
    uint32_t holders = 0;
    (void)ptoi_retire_holder(rt, level, seq, &holders);
    report->order = ptoi_order_of(view, slot);
    report->kernel = ptoi_string(view, view->kernels[header.kernel].name);
    report->file = ptoi_string(view, site->file);
    report->line = site->line;
    report->type = (pto_worker_type)header.type;
    report->fanin_count = slot->fanin;
    report->fanout_count = record->scopes + (record->holders & PTOI_HOLDERS);
    report->fanout_left = open_scopes(rt, record, report->order) + holders;
    report->heap_bytes = record->heap_size;
    const bool marked = ptoi_is_marked_complete(view, slot);
    if (marked || ptoi_list_closed(waiters, lap)) {
        report->state = PTO_TASK_COMPLETED;
        report->failed = !marked && ptoi_list_bad(waiters, lap);
        report->skipped = !marked && state->outcome == PTOI_SKIPPED;
        return PTO_OK;
    }
    /* The task is not complete, so its edges are still in the ring. */
    report->fanin_left = fanin_left(rt, slot);
    report->state = ptoi_phase_of(ptoi_get32(&state->phase), lap) & PTOI_PHASE_RUNNING
                        ? PTO_TASK_RUNNING
                    : report->fanin_left ? PTO_TASK_PENDING
                                         : PTO_TASK_READY;
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
                stats->oldest_kernel = ptoi_string(view, view->kernels[kernel].name);
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
    for (uint32_t i = 0; i < rt->settings.n_workers + PTOI_LINES_MORE; i++) {
        const ptoi_worker_line *line = &rt->view.workers[i];
        add_tally(stats, &line->tally);
        stats->parks += ptoi_get64(&line->parks);
    }
    /* Part of both sums, so read once, before the rest of the submissions. */
    const uint64_t inlined = ptoi_acquire64(&h->inlined), kept = ptoi_get64(&h->inlined_kept);
    stats->completed += inlined;
    stats->submitted = ptoi_acquire64(&h->inbox_head) + inlined + kept;
    stats->raw = ptoi_get64(&h->edges[0]);
    stats->war = ptoi_get64(&h->edges[1]);
    stats->waw = ptoi_get64(&h->edges[2]);
    stats->after = ptoi_get64(&h->edges[3]);
    stats->overlap_budget_hits = ptoi_get64(&h->budget_hits);
    stats->helped = ptoi_get64(&rt->helped) + inlined + kept;
    stats->inlined = inlined + kept;
    stats->scope_depth = ptoi_get64(&h->scope_depth);
    stats->buffers = ptoi_get64(&h->buffers);
    stats->buffers_peak = ptoi_get64(&h->buffers_peak);
    stats->levels = rt->levels;
    for (uint32_t l = 0; l < rt->levels; l++) {
        ptoi_window_read_rings(&rt->view, l, &stats->level[l]);
    }
    read_slots(rt, stats);
    return PTO_OK;
}
