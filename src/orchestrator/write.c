/* write.c - writing a task down: rings, buffers, arguments, note and slot. */
#include "orchestrator/write.h"

#include "orchestrator/draft.h"

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
            b->level = (uint8_t)d->level;
            b->at = ptoi_guard_place(d->rt->sched.guard, b->at + d->heap_at);
        } else if (b->seq != d->seq || b->level != d->level) {
            ptoi_buffer_hold(d->rt, b, d->level, d->seq);
        }
        if (p->tensor->version == b->version + 1) {
            b->version++;
        }
    }
}

ptoi_packed *ptoi_pack_tensor(ptoi_packed *at, const pto_param *p, const ptoi_buffer *b,
                              uint32_t form)
{
    const pto_tensor *t = p->tensor;
    *at = ptoi_pack_place(t, b, form);
    at->access = (uint8_t)((uint32_t)p->kind | (p->nodep ? PTOI_PACKED_NODEP : 0));
    if (pto_tensor_numel(t) == 0) { /* it is nowhere */
        at->value = 0;
        at->segment = PTOI_SEGMENT_USER;
    }
    if (form) {
        return at + 1;
    }
    ptoi_form_write((ptoi_form *)(void *)(at + 1), t);
    return at + ptoi_packed_units(t->ndim);
}

/* It may take fewer units than were reserved. */
static void pack(ptoi_draft *d)
{
    ptoi_packed *const begin = d->rt->view.level[d->level].args + d->args.at, *at = begin;
    for (size_t i = 0; i < d->n_params; i++) {
        const pto_param *p = &d->params[i];
        if (p->kind == PTO_PARAM_SCALAR) {
            at = ptoi_pack_scalar(at, p);
        } else if (p->kind != PTO_PARAM_AFTER) {
            at = ptoi_pack_tensor(at, p, p->tensor->owner ? ptoi_draft_buffer(d, p) : NULL,
                                  ptoi_form_number(&d->rt->map->forms, p->tensor));
        }
    }
    d->units = (uint64_t)(at - begin);
}

ptoi_slot *ptoi_draft_write(ptoi_draft *d, uint32_t kernel, uint32_t type, uint32_t site)
{
    if (d->managed) {
        settle_managed(d);
    }
    pack(d);
    if (PTOI_UNLIKELY(d->rt->sched.guard)) {
        ptoi_guard_task(d->rt, d->level, d->seq, d->args.at, d->params, d->n_params);
    }
    ptoi_track *t = d->track;
    if (d->n_params) { /* else it took no more than a known one would have */
        t->quick = 0;
    }
    ptoi_heap_take(&t->heap, d->heap_at, d->heap_bytes);
    const ptoi_written task = {
        .level = d->level,
        .seq = d->seq,
        .base = d->base,
        .scopes = d->scopes,
        .heap_at = d->heap_at,
        .heap_bytes = d->heap_bytes,
        .args_at = d->args.at,
        .args_end = ptoi_ring_take(&t->args, d->args, d->units),
        .n_args = d->n_args,
        .deps_at = d->deps.at,
        .deps_end = ptoi_ring_take(&t->deps, d->deps, d->edges.count),
        .fanin = d->edges.count,
        .kernel = kernel,
        .type = type,
        .site = site,
        .poisoned = d->poisoned,
    };
    return ptoi_write(d->rt, &task);
}
