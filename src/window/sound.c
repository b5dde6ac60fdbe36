#include "window/sound.h"

#include "window/guard.h"

static bool edges_are_sound(const ptoi_view *view, const ptoi_view_level *level,
                            const ptoi_slot *slot)
{
    const uint32_t first = slot->deps, count = slot->fanin;
    if (first > level->n_deps || count > level->n_deps - first) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (ptoi_ref_level(level->deps[first + i]) >= view->levels) {
            return false;
        }
    }
    return true;
}

/* The bytes that a layout reaches before and behind its first element. False: they do not fit in 63
 * bits, or the layout is no layout. *empty: it has no elements. */
static bool measure(const ptoi_desc *desc, int64_t *before, int64_t *behind, bool *empty)
{
    const int64_t size = (int64_t)pto_dtype_size(desc->dtype);
    *before = 0;
    *behind = size;
    *empty = false;
    if (!size || (uint32_t)desc->ndim > PTO_MAX_DIMS) {
        return false;
    }
    for (int32_t d = 0; d < desc->ndim; d++) {
        if (desc->dims[d] < 0) {
            return false;
        }
        *empty |= desc->dims[d] == 0;
    }
    for (int32_t d = 0; d < desc->ndim && !*empty; d++) { /* strides of an empty one mean nothing */
        const int64_t n = desc->dims[d], stride = desc->dims[desc->ndim + d];
        int64_t reach;
        if (n > 1 && (__builtin_mul_overflow(n - 1, stride, &reach) ||
                      __builtin_mul_overflow(reach, size, &reach) ||
                      (reach < 0 ? __builtin_sub_overflow(*before, reach, before)
                                 : __builtin_add_overflow(*behind, reach, behind)))) {
            return false;
        }
    }
    return true;
}

static bool tensor_is_sound(const ptoi_view *view, const ptoi_arg_desc *arg, const ptoi_desc *desc)
{
    int64_t before, behind;
    bool empty;
    if (!measure(desc, &before, &behind, &empty)) {
        return false;
    }
    if (empty) {
        return arg->segment < PTOI_SEGMENTS;
    }
    if (arg->segment >= PTOI_SEGMENTS || !view->base[arg->segment]) {
        return false;
    }
    const uint64_t bytes = view->segment_bytes[arg->segment];
    return arg->value <= bytes && (uint64_t)before <= arg->value &&
           (uint64_t)behind <= bytes - arg->value;
}

/* The buffer that an argument lies in has guards inside of the heap (guard.h). */
static bool guard_is_sound(const ptoi_view *view, const ptoi_view_level *level, uint32_t unit,
                           const ptoi_arg_desc *arg)
{
    if (!level->begins || arg->segment >= view->levels || !level->begins[unit]) {
        return true;
    }
    const uint64_t at = level->begins[unit] - 1;
    const uint64_t heap = view->segment_bytes[arg->segment] / PTOI_WINDOW_STRETCH;
    return at < heap && ptoi_get64(&ptoi_guard_of(view, arg->segment, at)->size) <= heap - at;
}

static bool args_are_sound(const ptoi_view *view, const ptoi_view_level *level,
                           const ptoi_slot *slot)
{
    const uint32_t units = level->n_args, count = slot->n_args;
    uint32_t at = slot->args;
    if (count > view->max_params) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (at >= units) {
            return false;
        }
        const ptoi_arg_desc *arg = &level->args[at];
        uint64_t length = 1;
        if (!ptoi_arg_is_scalar(arg)) {
            const uint64_t room = units - at - UINT64_C(1); /* units behind it */
            const ptoi_desc *desc = ptoi_arg_layout(view, arg);
            const uint64_t left = arg->desc ? PTOI_DESC_BYTES - arg->desc * PTOI_DESC_UNIT
                                            : room * sizeof *arg;
            if (left < sizeof *desc || (uint32_t)desc->ndim > PTO_MAX_DIMS ||
                left < ptoi_desc_bytes(desc->ndim) || !tensor_is_sound(view, arg, desc) ||
                !guard_is_sound(view, level, at, arg)) {
                return false;
            }
            length = arg->desc ? 1 : ptoi_arg_units(desc->ndim);
        }
        at += (uint32_t)length;
    }
    return true;
}

bool ptoi_task_is_sound(const ptoi_view *view, uint32_t index)
{
    if (index >= view->n_slots) {
        return false;
    }
    const ptoi_slot *slot = &view->slots[index];
    const ptoi_slot_header header = ptoi_slot_header_of(slot);
    if (header.level >= view->levels || header.lane >= PTO_WORKER_TYPES) {
        return false;
    }
    const ptoi_view_level *level = &view->level[header.level];
    return slot == &level->slots[(uint32_t)ptoi_get64(&slot->seq) & level->mask] &&
           edges_are_sound(view, level, slot) && args_are_sound(view, level, slot);
}
