#include "worker/guard.h"

#include <inttypes.h>

#include "base/error.h"

/* A walk over the arguments of a task. */
typedef struct walk {
    uint32_t n;                /* arguments visited */
    const ptoi_arg_desc *arg;  /* the last one visited */
    const ptoi_arg_desc *next; /* the one after it */
    uint64_t at;               /* where the buffer of `arg` begins */
    ptoi_damage damage;
} walk;

static walk walk_of(const ptoi_view *view, const ptoi_slot *slot)
{
    return (walk){.next = view->level[ptoi_slot_header_of(slot).level].args + slot->args};
}

/* Advances to the next argument that the task writes and whose guards are damaged. */
static bool find_broken(const ptoi_view *view, const ptoi_slot *slot, walk *w)
{
    const ptoi_view_level *level = &view->level[ptoi_slot_header_of(slot).level];
    while (w->n < slot->n_args) {
        const ptoi_arg_desc *arg = w->arg = w->next;
        const uint32_t kind = arg->access & ~PTOI_ARG_NODEP;
        w->next = ptoi_arg_next(arg);
        w->n++;
        if ((kind != PTO_PARAM_OUTPUT && kind != PTO_PARAM_INOUT) ||
            arg->segment == PTOI_SEGMENT_USER) {
            continue;
        }
        const uint64_t begin = level->begins[arg - level->args];
        w->at = begin - 1;
        if (begin && ptoi_guard_broken(view, arg->segment, w->at, &w->damage)) {
            return true;
        }
    }
    return false;
}

bool ptoi_guard_is_whole(const ptoi_view *view, const ptoi_slot *slot)
{
    walk w = walk_of(view, slot);
    return !find_broken(view, slot, &w);
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

pto_status ptoi_guard_check(const ptoi_view *view, const ptoi_slot *slot, pto_status status)
{
    walk w = walk_of(view, slot);
    for (bool first = true; find_broken(view, slot, &w); first = false) {
        const uint32_t level = w.arg->segment;
        const ptoi_guard *guard = ptoi_guard_of(view, level, w.at);
        const uint64_t bytes = ptoi_get64(&guard->size);
        char text[128];
        /* Two workers may do this at the same time: both store the same value. */
        ptoi_set64(&view->level[level].reported[w.at / PTOI_GUARD_LINE],
                   ptoi_get64(&guard->arming));
        if (first) {
            ptoi_guard_describe(&w.damage, bytes, text);
            status = ptoi_fail(PTO_OUT_OF_BOUNDS, "argument %" PRIu32 ": wrote %s%s", w.n - 1, text,
                               is_all_of_it(view, w.arg, bytes)
                                   ? ""
                                   : ", or a concurrent task that writes another part of it did");
        }
    }
    return status;
}
