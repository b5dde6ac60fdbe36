/* write.c - slow path, last step: takes what was reserved, and writes the task. */
#include "orchestrator/write.h"

#include "orchestrator/buffer.h"
#include "orchestrator/slow.h"

/* Managed parameters: fresh buffers get their place, others hold their owner, versions advance. */
static void place_managed(ptoi_slow *d)
{
    for (size_t i = 0; i < d->n_params; i++) {
        const pto_param *p = &d->params[i];
        if (p->kind > PTO_PARAM_INOUT || !p->tensor->owner) {
            continue;
        }
        ptoi_buffer *b = ptoi_buffer_of(d->rt, p->tensor);
        if (!b->seq) {
            b->seq = d->seq;
            b->level = (uint8_t)d->level;
            b->at = ptoi_guard_place(d->rt->guarded, b->at + d->heap_at);
        } else if (b->seq != d->seq || b->level != d->level) {
            ptoi_write_hold(d->rt, b, d->level, d->seq);
        }
        if (p->tensor->version == b->version + 1) {
            b->version++;
        }
    }
}

/* Writes any tensor as an argument, followed by its layout if that has no number. */
static ptoi_arg_desc *write_tensor(ptoi_arg_desc *at, const pto_param *p, const ptoi_buffer *b,
                                   uint32_t desc)
{
    const pto_tensor *t = p->tensor;
    *at = ptoi_write_place(t, b, desc);
    at->access = (uint8_t)((uint32_t)p->kind | (p->nodep ? PTOI_ARG_NODEP : 0));
    if (pto_tensor_numel(t) == 0) { /* an empty tensor has no address */
        at->value = 0;
        at->segment = PTOI_SEGMENT_USER;
    }
    if (desc) {
        return at + 1;
    }
    ptoi_desc_write((ptoi_desc *)(void *)(at + 1), t);
    return at + ptoi_arg_units(t->ndim);
}

/* The arguments may take fewer units than were reserved. */
static void write_args(ptoi_slow *d)
{
    ptoi_arg_desc *const begin = d->rt->view.level[d->level].args + d->args.at, *at = begin;
    for (size_t i = 0; i < d->n_params; i++) {
        const pto_param *p = &d->params[i];
        if (p->kind == PTO_PARAM_SCALAR) {
            at = ptoi_write_scalar(at, p);
        } else if (p->kind != PTO_PARAM_AFTER) {
            at = write_tensor(at, p, p->tensor->owner ? ptoi_buffer_of(d->rt, p->tensor) : NULL,
                              ptoi_desc_intern(&d->rt->map->descs, p->tensor));
        }
    }
    d->units = (uint64_t)(at - begin);
}

ptoi_slot *ptoi_slow_write(ptoi_slow *d, uint32_t kernel, uint32_t type, uint32_t site)
{
    pto_runtime *rt = d->rt;
    ptoi_rings *t = d->rings;
    if (d->managed) {
        place_managed(d);
    }
    write_args(d);
    if (PTOI_UNLIKELY(rt->guarded)) {
        ptoi_guard_task(rt, d->level, d->seq, d->args.at, d->params, d->n_params);
    }
    if (d->n_params) { /* without parameters it took no more than a fast-path task */
        t->fast_until = 0;
    }
    ptoi_heap_take(&t->heap, d->heap_at, d->heap_bytes);
    (void)ptoi_ring_take(&t->args, d->args, d->units);
    (void)ptoi_ring_take(&t->deps, d->deps, d->edges.count);
    ptoi_write_record(rt, t, d->seq, d->base, d->scopes, d->heap_at, d->heap_bytes);
    return ptoi_write_slot(t, d->seq, rt->order,
                           ptoi_slot_header_word(kernel, site, d->level, type, d->poisoned),
                           d->args.at, d->n_args, d->deps.at, d->edges.count);
}
