#include "orchestrator/refill.h"

#include "orchestrator/post.h"

static void fill_inbox(pto_runtime *rt)
{
    const ptoi_view *view = &rt->view;
    uint64_t at[PTO_MAX_LEVELS], head = ptoi_get64(&view->header->inbox_head);
    for (uint32_t l = 0; l < rt->levels; l++) {
        at[l] = rt->rings[l].completed;
    }
    for (;;) {
        uint32_t level = PTOI_NONE;
        uint64_t first = UINT64_MAX;
        for (uint32_t l = 0; l < rt->levels; l++) {
            const ptoi_rings *t = &rt->rings[l];
            const uint64_t order = at[l] == t->head
                                       ? UINT64_MAX
                                       : ptoi_order_of(view, ptoi_slot_of(view, l, at[l]));
            if (order < first) {
                first = order;
                level = l;
            }
        }
        if (level == PTOI_NONE) {
            break;
        }
        const uint64_t seq = at[level]++;
        const uint32_t lap = ptoi_lap(view, level, seq);
        const ptoi_state *state = ptoi_state_of(view, level, seq);
        const uint32_t phase = ptoi_phase_of(ptoi_acquire32(&state->phase), lap);
        if (!ptoi_list_closed(ptoi_acquire64(&state->waiters), lap) &&
            !(phase & PTOI_PHASE_RUNNING)) {
            ptoi_set32(&view->inbox[(uint32_t)head++ & view->inbox_mask],
                       ptoi_slot_index(view, ptoi_slot_of(view, level, seq)));
        }
    }
    ptoi_store_asym64(&view->header->inbox_head, head, view->header->asymmetric); /* W1 */
}

void ptoi_refill(pto_runtime *rt)
{
    fill_inbox(rt);
    ptoi_posts_again(rt);
}
