#include "worker/guard.h"

#include <inttypes.h>
#include <stdio.h>

#include <pto/pto.h>

#include "base/error.h"
#include "device/copy.h"

/* ---- One buffer ---- */

pto_status ptoi_scheduler_inspect(const ptoi_scheduler *s, uint32_t segment, uint64_t at,
                                  bool *broken, ptoi_damage *damage)
{
    const uint64_t bytes = ptoi_get64(&ptoi_guard_of(&s->view, segment, at)->size);
    const uint64_t begin = ptoi_guard_place(true, at), end = begin + bytes;
    const uint32_t number = ptoi_segment_device(segment);
    char *heap = s->view.base[segment];
    if (!number) {
        *broken = ptoi_guard_broken(begin, bytes, heap + begin - PTOI_GUARD_LINE, heap + end,
                                    damage);
        return PTO_OK;
    }
    const ptoi_sched_device *d = &s->devices[number];
    char before[PTOI_GUARD_LINE], behind[2 * PTOI_GUARD_LINE];
    heap -= d->ops.shift; /* copies know memory by its address on the host */
    PTO_TRY(ptoi_device_copy_bytes(d->device, heap + begin - PTOI_GUARD_LINE, before, sizeof before,
                                   false));
    PTO_TRY(ptoi_device_copy_bytes(d->device, heap + end, behind,
                                   ptoi_guard_end(begin, bytes) - end, false));
    *broken = ptoi_guard_broken(begin, bytes, before, behind, damage);
    return PTO_OK;
}

/* ---- A task ---- */

/* A walk over the arguments of a task. */
typedef struct walk {
    const ptoi_scheduler *s;
    const ptoi_slot *slot;
    ptoi_guard_where where;
    uint32_t n;                /* arguments visited */
    const ptoi_arg_desc *arg;  /* the last one visited */
    const ptoi_arg_desc *next; /* the one after it */
    uint64_t at;               /* where the buffer of `arg` begins */
    ptoi_damage damage;
    pto_status unread; /* a device could not tell: its error, with the detail of this thread */
} walk;

static walk walk_of(const ptoi_scheduler *s, const ptoi_slot *slot, ptoi_guard_where where)
{
    return (walk){.s = s,
                  .slot = slot,
                  .where = where,
                  .next = s->view.level[ptoi_slot_header_of(slot).level].args + slot->args};
}

/* Advances to the next argument that the task writes and whose guards are damaged. */
static bool find_broken(walk *w)
{
    const ptoi_view *view = &w->s->view;
    const ptoi_view_level *level = &view->level[ptoi_slot_header_of(w->slot).level];
    while (w->n < w->slot->n_args) {
        const ptoi_arg_desc *arg = w->arg = w->next;
        const uint32_t kind = arg->access & ~PTOI_ARG_NODEP;
        w->next = ptoi_arg_next(arg);
        w->n++;
        if ((kind != PTO_PARAM_OUTPUT && kind != PTO_PARAM_INOUT) || !view->guards[arg->segment] ||
            (w->where == PTOI_GUARD_AT_HAND && ptoi_segment_device(arg->segment))) {
            continue;
        }
        const uint64_t begin = level->begins[arg - level->args];
        bool broken = false;
        w->at = begin - 1;
        if (!begin ||
            ptoi_get64(&ptoi_guard_of(view, arg->segment, w->at)->arming) & PTOI_GUARD_SEEN) {
            continue;
        }
        const pto_status s = ptoi_scheduler_inspect(w->s, arg->segment, w->at, &broken, &w->damage);
        w->unread = w->unread ? w->unread : s;
        if (broken) {
            return true;
        }
    }
    return false;
}

bool ptoi_guard_is_whole(const ptoi_scheduler *s, const ptoi_slot *slot)
{
    walk w = walk_of(s, slot, PTOI_GUARD_EVERYWHERE);
    return !find_broken(&w);
}

/* Whether no other task can write the buffer at the same time. */
static bool is_all_of_it(const ptoi_view *view, const ptoi_arg_desc *arg, uint64_t bytes)
{
    const ptoi_desc *desc = ptoi_arg_layout(view, arg);
    uint64_t size = pto_dtype_size(desc->dtype);
    for (int32_t d = 0; d < desc->ndim; d++) {
        size *= (uint64_t)desc->dims[d];
    }
    return size == bytes && !(arg->access & PTOI_ARG_NODEP);
}

/* The detail for a task that overran the buffer of the argument. */
static pto_status blame(const walk *w, uint64_t bytes)
{
    const uint32_t number = ptoi_segment_device(w->arg->segment);
    char text[128], device[48] = "";
    ptoi_guard_describe(&w->damage, bytes, text);
    if (number) {
        const pto_device it = w->s->devices[number].device;
        snprintf(device, sizeof device, " on %s:%" PRId32, pto_device_name(it.type), it.index);
    }
    return ptoi_fail(PTO_OUT_OF_BOUNDS, "argument %" PRIu32 ": wrote %s%s%s", w->n - 1, text,
                     device,
                     is_all_of_it(&w->s->view, w->arg, bytes)
                         ? ""
                         : ", or a concurrent task that writes another part of it did");
}

pto_status ptoi_guard_check(const ptoi_scheduler *s, const ptoi_slot *slot, ptoi_guard_where where,
                            pto_status status)
{
    const ptoi_view *view = &s->view;
    walk w = walk_of(s, slot, where);
    bool found = false;
    for (; find_broken(&w); found = true) {
        const uint32_t segment = w.arg->segment;
        const ptoi_guard *guard = ptoi_guard_of(view, segment, w.at);
        /* Two workers may do this at the same time: both store the same value. */
        ptoi_set64(&view->reported[segment][w.at / PTOI_GUARD_LINE], ptoi_get64(&guard->arming));
        if (!found) {
            status = blame(&w, ptoi_get64(&guard->size));
        }
    }
    if (w.unread && !found && status == PTO_OK) {
        char why[256];
        snprintf(why, sizeof why, "%s", pto_error_detail());
        status = ptoi_fail(w.unread, "the guards of its memory could not be read: %s", why);
    }
    return status;
}
