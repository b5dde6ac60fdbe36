/* write.c - writing a task down: rings, buffers, arguments, note and slot. */
#include "submit/write.h"

#include "submit/draft.h"

/* Every managed parameter gets its memory, its version, and holds its owner. */
static void settle_managed(ptoi_draft *d)
{
    for (size_t i = 0; i < d->n_params; i++) {
        const pto_param *p = &d->params[i];
        if (p->kind > PTO_PARAM_INOUT || !p->tensor->owner) {
            continue;
        }
        ptoi_buffer *b = ptoi_draft_buffer(d, p);
        if (!b->seq) {
            b->seq = d->seq;
            b->level = d->level;
            b->at = ptoi_guard_place(d->rt->sched.guard, b->at + d->heap_at);
        } else if (b->seq != d->seq || b->level != d->level) {
            ptoi_buffer_hold(d->rt, b, d->level, d->seq);
        }
        if (p->tensor->version == b->version + 1) {
            b->version++;
        }
    }
}

static void pack(const ptoi_draft *d)
{
    ptoi_packed *at = d->rt->view.level[d->level].args + d->args.at;
    for (size_t i = 0; i < d->n_params; i++) {
        const pto_param *p = &d->params[i];
        if (p->kind == PTO_PARAM_SCALAR) {
            at = ptoi_pack_scalar(at, p);
        } else if (p->kind != PTO_PARAM_AFTER) {
            at = ptoi_pack_tensor(at, p, p->tensor->owner ? ptoi_draft_buffer(d, p) : NULL);
        }
    }
}

ptoi_slot *ptoi_draft_write(ptoi_draft *d, uint32_t kernel, uint32_t type, uint32_t site,
                            uint32_t list)
{
    if (d->managed) {
        settle_managed(d);
    }
    pack(d);
    if (PTOI_UNLIKELY(d->rt->sched.guard)) {
        ptoi_guard_task(d->rt, d->level, d->seq, d->args.at, d->params, d->n_params);
    }
    const ptoi_written task = {
        .level = d->level,
        .seq = d->seq,
        .base = d->base,
        .scopes = d->scopes,
        .heap_at = d->heap_at,
        .heap_bytes = d->heap_bytes,
        .args = d->args,
        .units = d->units,
        .n_args = d->n_args,
        .deps = d->deps,
        .fanin = d->edges.count,
        .kernel = kernel,
        .type = type,
        .site = site,
        .poisoned = d->poisoned,
        .list = list,
    };
    return ptoi_write(d->rt, &task);
}
