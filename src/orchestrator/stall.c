/* stall.c - is waiting for room hopeless?
 *
 * A ring returns room in order, so its oldest task A decides. Waiting is hopeless if and only if an
 * open scope holds A: only the caller could end that scope, and the caller is here. (It does not
 * matter whether A is complete: the scope would still hold it.) In every other case some submitted
 * task can still end and make room, so we run tasks until it has.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "orchestrator/retire.h"
#include "orchestrator/rings.h"
#include "orchestrator/runtime.h"
#include "orchestrator/stall.h"
#include "orchestrator/stall_report.h"
#include "orchestrator/wait.h"

/* Reports the stall, which is proved. */
static pto_status hopeless(pto_runtime *rt, uint32_t level, ptoi_shortage what, uint64_t wanted)
{
    const ptoi_rings *t = &rt->rings[level];
    const ptoi_view *view = &rt->view;
    uint64_t seq = t->retired;
    const ptoi_slot *slot = &t->slots[(uint32_t)seq & t->mask];
    const ptoi_slot_header small = ptoi_slot_header_of(slot);
    const ptoi_scope *scope = &rt->scopes[ptoi_record_of(t, seq)->base];
    const ptoi_ring_fill fill = ptoi_rings_read(rt, level, (pto_ring)what);
    const ptoi_ring_words *ring = ptoi_rings_words((pto_ring)what);
    bool shared = rt->scopes[rt->depth - 1].boundaries >= rt->levels;
    pto_stall_report r = {
        .kind = shared ? PTO_STALL_LEVELS : PTO_STALL_SCOPE,
        .ring = (pto_ring)what,
        .level = level,
        .size = fill.size,
        .used = fill.used,
        .wanted = what == PTOI_SHORT_TASKS ? 1 : wanted,
        .oldest = ptoi_ref_task(ptoi_ref_make(seq, level, false)),
        .order = ptoi_order_of(&rt->view, slot),
    };
    ptoi_stall_keep(rt, &r, small.kernel, small.site, scope->site);
    char need[64] = "";
    if (what != PTOI_SHORT_TASKS) {
        snprintf(need, sizeof need, ", %" PRIu64 " wanted", wanted);
    }
    const ptoi_site *site = &view->sites[small.site], *opened = &view->sites[scope->site];
    return ptoi_fail(PTO_STALLED,
                     "submit: the %s of level %u is full (%" PRIu64 " %s%s), and no task that ends "
                     "can make room: its oldest task %" PRIu64 " (kernel '%s', submitted at %s:%d) "
                     "is held by the scope opened at %s:%d. End that scope, %s, or raise %s",
                     ring->name, level, r.size, ring->unit, need, r.order,
                     ptoi_string(view, view->kernels[small.kernel].name),
                     ptoi_string(view, site->file), site->line, ptoi_string(view, opened->file),
                     opened->line,
                     shared ? "raise levels (PTO_LEVELS): boundary scopes share the last ring here"
                            : "put repeated work into PTO_BOUNDARY scopes",
                     ring->option);
}

pto_status ptoi_stall(pto_runtime *rt, uint32_t level, ptoi_shortage what, uint64_t wanted)
{
    ptoi_rings *t = &rt->rings[level];
    uint64_t before = t->retired;
    ptoi_retire_exactly(rt, level);
    if (t->retired != before) {
        return PTO_OK;
    }
    ptoi_wait_reason_room(rt, level, what, what == PTOI_SHORT_TASKS ? 1 : wanted);
    uint64_t oldest = t->retired;
    if (oldest == t->head) {
        (void)ptoi_stall_too_large(rt, level, what, wanted, 0);
        return ptoi_fail(
            PTO_TOO_LARGE, "submit: the %s of level %u is empty, and still too small: raise %s",
            pto_ring_name((pto_ring)what), level, ptoi_rings_words((pto_ring)what)->option);
    }
    if (oldest >= t->released) {
        return hopeless(rt, level, what, wanted);
    }
    if (oldest == t->completed) {
        ptoi_wait_for(rt, ptoi_ref_make(oldest, level, false));
        /* Room for one task would bring the next submit straight back here. So run a few more
         * tasks, if there are any, but wait for none. */
        (void)ptoi_help(rt, (t->mask + 1) / 16, PTOI_LENGTH_LONG, NULL);
        return PTO_OK;
    }
    if (ptoi_retire_is_held(rt, level, oldest)) {
        ptoi_wait_for(rt, t->blocker);
        return PTO_OK;
    }
    /* The oldest is bad, and unfinished tasks may still ask about it. */
    for (uint32_t l = 0; l < rt->levels; l++) {
        if (rt->rings[l].completed < rt->poison.fence[l]) {
            ptoi_wait_for(rt, ptoi_ref_make(rt->rings[l].completed, l, false));
            return PTO_OK;
        }
    }
    return PTO_OK; /* the task that held it has just ended */
}
