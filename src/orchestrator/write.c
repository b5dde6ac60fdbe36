/* write.c - slow path, last step: takes what was reserved, and writes the task. */
#include "orchestrator/write.h"

#include "device/device.h"
#include "orchestrator/buffer.h"
#include "orchestrator/device.h"

/* Managed parameters: fresh buffers get their place in the block of the task, other blocks are
 * held, versions advance. */
static void place_managed(ptoi_slow *d)
{
    const uint64_t own = d->brings ? d->rings->blocks.head - 1 : 0;
    uint32_t outputs = 0;
    for (size_t i = 0; i < d->n_params; i++) {
        const pto_param *p = &d->params[i];
        const uint32_t output = outputs;
        outputs += p->kind == PTO_PARAM_OUTPUT || p->kind == PTO_PARAM_INOUT;
        if (p->kind > PTO_PARAM_INOUT || !p->tensor->owner) {
            continue;
        }
        ptoi_buffer *b = ptoi_buffer_of(d->rt, p->tensor);
        if (!b->block) {
            b->block = own;
            b->output = output;
            b->desc = (uint16_t)ptoi_desc_intern(&d->rt->map->descs, p->tensor);
            b->level = (uint8_t)d->level;
            b->at = ptoi_guard_place(ptoi_guard_is_on(d->rt, b->device), b->at + d->heap_at);
        } else if (b->block != own || b->level != d->level) {
            ptoi_write_hold(d->rt, b, d->level, d->seq);
        }
        if (p->tensor->version == b->version + 1) {
            b->version++;
        }
    }
}

ptoi_arg_desc ptoi_write_place_on(pto_runtime *rt, const pto_tensor *t, const ptoi_buffer *b,
                                  uint32_t desc)
{
    ptoi_arg_desc place = ptoi_write_place(rt, t, b, desc);
    uint32_t device = 0;
    if (!ptoi_device_is_host(t->device)) {
        (void)ptoi_device_number(rt, "submit", t->device, &device); /* it is in use */
        place.segment = (uint8_t)(b ? ptoi_segment_heap(device, b->level)
                                    : ptoi_segment_user(device));
    }
    return place;
}

/* Writes any tensor as an argument, followed by its layout if that has no number. */
static ptoi_arg_desc *write_tensor(pto_runtime *rt, ptoi_arg_desc *at, const pto_param *p,
                                   const ptoi_buffer *b, uint32_t desc)
{
    const pto_tensor *t = p->tensor;
    *at = PTOI_UNLIKELY(rt->n_devices > 1) ? ptoi_write_place_on(rt, t, b, desc)
                                           : ptoi_write_place(rt, t, b, desc);
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
            at = write_tensor(d->rt, at, p,
                              p->tensor->owner ? ptoi_buffer_of(d->rt, p->tensor) : NULL,
                              ptoi_desc_intern(&d->rt->map->descs, p->tensor));
        }
    }
    d->units = (uint64_t)(at - begin);
}

ptoi_slot *ptoi_slow_write(ptoi_slow *d, uint32_t kernel, uint32_t lane, uint32_t site)
{
    pto_runtime *rt = d->rt;
    ptoi_rings *t = d->rings;
    if (d->brings) {
        ptoi_heap_block *block = ptoi_write_task_block(rt, t, d->heap, d->seq, d->heap_at,
                                                       d->heap_bytes, d->brings, kernel, site);
        block->device = d->device & 15;
        block->ran_on = ptoi_lane_device(lane) & 15;
    }
    if (d->managed) {
        place_managed(d);
    }
    write_args(d);
    if (PTOI_UNLIKELY(rt->guarded)) {
        ptoi_guard_task(rt, d->level, d->brings != 0, d->args.at, d->params, d->n_params);
    }
    if (d->n_params) { /* without parameters it took no more than a fast-path task */
        t->fast_until = 0;
    }
    (void)ptoi_ring_take(&t->args, d->args, d->units);
    (void)ptoi_ring_take(&t->deps, d->deps, d->edges.count);
    ptoi_write_record(t, d->seq);
    return ptoi_write_slot(t, d->seq, rt->order,
                           ptoi_slot_header_word(kernel, site, d->level, lane, d->poisoned),
                           d->args.at, d->n_args, d->deps.at, d->edges.count);
}
