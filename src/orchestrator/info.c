/* info.c - one task, and counts of everything. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "orchestrator/handle.h"
#include "orchestrator/runtime.h"

const char *pto_task_state_name(pto_task_state state)
{
    static const char *const names[] = {"pending", "ready", "running", "completed", "consumed"};
    return (uint32_t)state < sizeof names / sizeof *names ? names[state] : "invalid";
}

/* Scopes around the task at its birth that are still open. They are nested: those that were opened
 * before it come first. */
static uint32_t open_scopes(const pto_runtime *rt, const ptoi_note *note, uint64_t order)
{
    uint32_t count = 0;
    while (count < note->scopes && note->base + count < rt->depth &&
           rt->scopes[note->base + count].order <= order) {
        count++;
    }
    return count;
}

static uint32_t fanin_left(const pto_runtime *rt, const ptoi_slot *slot)
{
    const ptoi_ref *refs = rt->view.level[ptoi_what_of(slot).level].deps + slot->deps;
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
    const ptoi_track *t = &rt->track[level];
    *report = (pto_task_report){.task = task, .state = PTO_TASK_CONSUMED, .level = level};
    if (seq < t->retired) {
        return PTO_OK;
    }
    const ptoi_view *view = &rt->view;
    const ptoi_slot *slot = &t->slots[(uint32_t)seq & t->mask];
    const ptoi_note *note = ptoi_note_of(t, seq);
    const ptoi_what what = ptoi_what_of(slot);
    const ptoi_state *state = &t->states[(uint32_t)seq & t->mask];
    const ptoi_site *site = &view->sites[what.site];
    const uint32_t lap = ptoi_lap(view, level, seq);
    uint64_t waiters = ptoi_acquire64(&state->waiters);
    uint32_t holders = 0;
    (void)ptoi_retire_holder(rt, level, seq, &holders);
    report->order = ptoi_order_of(view, slot);
    report->kernel = ptoi_string(view, view->kernels[what.kernel].name);
    report->file = ptoi_string(view, site->file);
    report->line = site->line;
    report->type = (pto_worker_type)what.type;
    report->fanin_count = slot->fanin;
    report->fanout_count = note->scopes + (note->holders & PTOI_HOLDERS);
    report->fanout_left = open_scopes(rt, note, report->order) + holders;
    report->heap_bytes = note->heap_size;
    if (ptoi_list_closed(waiters, lap)) {
        report->state = PTO_TASK_COMPLETED;
        report->failed = ptoi_list_bad(waiters, lap);
        report->skipped = state->outcome == PTOI_SKIPPED;
        return PTO_OK;
    }
    /* Edges come back when a task and all before it are complete; this one is not. */
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
    stats->completed += ptoi_acquire64(&tally->completed); /* before anything that is read after */
    stats->failed += ptoi_get64(&tally->failed);
    stats->skipped += ptoi_get64(&tally->skipped);
}

static void read_level(const pto_runtime *rt, uint32_t l, pto_level_stats *out)
{
    const ptoi_progress *p = &rt->view.header->progress[l];
    const ptoi_window_level *level = &rt->view.header->level[l];
    /* The head first: it was never more than a window ahead of what `retired` is by now. */
    uint64_t head = ptoi_acquire64(&p->head), retired = ptoi_get64(&p->retired);
    out->tasks = head > retired ? (uint32_t)(head - retired) : 0;
    out->tasks_peak = (uint32_t)ptoi_get64(
        &p->tasks_peak); /* as of the last time one was recycled */
    out->tasks_peak = out->tasks > out->tasks_peak ? out->tasks : out->tasks_peak;
    out->window = level->slots;
    out->heap_used = ptoi_get64(&p->heap_used);
    out->heap_peak = ptoi_get64(&p->heap_peak);
    out->heap_bytes = level->heap_bytes;
    out->args_used = ptoi_get64(&p->args_used);
    out->args_peak = ptoi_get64(&p->args_peak);
    out->arg_bytes = level->arg_units * sizeof(ptoi_packed);
    out->deps_used = (uint32_t)ptoi_get64(&p->deps_used);
    out->deps_peak = (uint32_t)ptoi_get64(&p->deps_peak);
    out->deps = level->deps;
    out->map_used = (uint32_t)ptoi_get64(&p->map_used);
    out->map_peak = (uint32_t)ptoi_get64(&p->map_peak);
    out->map_entries = rt->settings.config.level_map_entries[l];
    out->stalls_window = ptoi_get64(&p->stalls[PTOI_SHORT_WINDOW]);
    out->stalls_heap = ptoi_get64(&p->stalls[PTOI_SHORT_HEAP]);
    out->stalls_args = ptoi_get64(&p->stalls[PTOI_SHORT_ARGS]);
    out->stalls_deps = ptoi_get64(&p->stalls[PTOI_SHORT_DEPS]);
    out->stalls_map = ptoi_get64(&p->stalls[PTOI_SHORT_MAP]);
}

/* Tasks whose kernel is away, and the oldest of those that are not complete, by looking at the slots
 * as they are now. */
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
            const uint32_t kernel = ptoi_what_of(slot).kernel;
            /* Still not complete: then what was read is of this task. */
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
    const ptoi_sched *s = &rt->sched;
    memset(stats, 0, sizeof *stats);
    /* Other threads see what the orchestrating one told last; itself it tells now. */
    for (uint32_t l = 0; ptoi_get64(&rt->thread) == ptoi_os_self() && l < rt->levels; l++) {
        ptoi_retire_publish((pto_runtime *)(uintptr_t)rt, l);
    }
    /* Completions first: a task is never complete before it was submitted. */
    for (uint32_t i = 0; i < s->n_workers + PTOI_LINES_MORE; i++) {
        add_tally(stats, &s->view.workers[i].tally);
    }
    for (uint32_t i = 0; i <= s->n_workers; i++) {
        stats->parks += ptoi_get64(&s->workers[i].parker.parks);
    }
    stats->parks += ptoi_get64(&s->own.parker.parks);
    const uint64_t at_once = ptoi_get64(&h->at_once);
    stats->submitted = ptoi_acquire64(&h->inbox_head) + at_once;
    stats->raw = ptoi_get64(&h->edges[0]);
    stats->war = ptoi_get64(&h->edges[1]);
    stats->waw = ptoi_get64(&h->edges[2]);
    stats->after = ptoi_get64(&h->edges[3]);
    stats->overlap_budget_hits = ptoi_get64(&h->budget_hits);
    stats->helped = ptoi_get64(&rt->helped) + at_once;
    stats->at_once = at_once;
    stats->scope_depth = ptoi_get64(&h->scope_depth);
    stats->buffers = ptoi_get64(&h->buffers);
    stats->buffers_peak = ptoi_get64(&h->buffers_peak);
    stats->levels = rt->levels;
    for (uint32_t l = 0; l < rt->levels; l++) {
        read_level(rt, l, &stats->level[l]);
    }
    read_slots(rt, stats);
    return PTO_OK;
}
