#include "worker/guard.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"

/* The arguments of a task, one after the other, and what is wrong with the one just looked at. */
typedef struct look {
    uint32_t n;              /* how many were looked at */
    const ptoi_packed *arg;  /* the last of them */
    const ptoi_packed *next; /* */
    uint64_t at;             /* where its buffer begins */
    ptoi_damage damage;
} look;

static look look_at(const ptoi_sched *sched, const ptoi_slot *slot)
{
    return (look){.next = sched->view.level[ptoi_what_of(slot).level].args + slot->args};
}

/* Goes on to the next argument that the task writes and whose buffer has broken guards. */
static bool find_broken(const ptoi_sched *sched, const ptoi_slot *slot, look *l)
{
    const ptoi_guard *guard = sched->guard;
    const ptoi_packed *args = sched->view.level[ptoi_what_of(slot).level].args;
    while (l->n < slot->n_args) {
        const ptoi_packed *arg = l->arg = l->next;
        const uint32_t kind = arg->access & ~PTOI_PACKED_NODEP;
        l->next = ptoi_packed_next(arg);
        l->n++;
        if ((kind != PTO_PARAM_OUTPUT && kind != PTO_PARAM_INOUT) ||
            arg->segment == PTOI_SEGMENT_USER) {
            continue;
        }
        const uint64_t begin = guard->level[ptoi_what_of(slot).level].begins[arg - args];
        l->at = begin - 1;
        if (begin && ptoi_guard_broken(guard, 1, arg->segment, l->at, &l->damage)) {
            return true;
        }
    }
    return false;
}

bool ptoi_guard_is_whole(const ptoi_sched *sched, const ptoi_slot *slot)
{
    look l = look_at(sched, slot);
    return !find_broken(sched, slot, &l);
}

/* Whether no other task can write the buffer at the same time. */
static bool is_all_of_it(const ptoi_view *view, const ptoi_packed *arg, uint64_t bytes)
{
    const ptoi_form *form = ptoi_packed_form(view, arg);
    uint64_t size = pto_dtype_size(form->dtype);
    for (int32_t d = 0; d < form->ndim; d++) {
        size *= (uint64_t)form->dims[d];
    }
    return size == bytes && !(arg->access & PTOI_PACKED_NODEP);
}

pto_status ptoi_guard_check(const ptoi_sched *sched, const ptoi_slot *slot, pto_status status)
{
    look l = look_at(sched, slot);
    for (bool first = true; find_broken(sched, slot, &l); first = false) {
        const uint64_t bytes = ptoi_guard_size(sched->guard, l.arg->segment, l.at);
        char text[128];
        ptoi_guard_tell(sched->guard, l.arg->segment, l.at);
        if (first) {
            ptoi_guard_describe(&l.damage, bytes, text);
            status = ptoi_fail(PTO_OUT_OF_BOUNDS, "argument %" PRIu32 ": wrote %s%s", l.n - 1, text,
                               is_all_of_it(&sched->view, l.arg, bytes)
                                   ? ""
                                   : ", or a task did that writes other parts of it just then");
        }
    }
    return status;
}

void ptoi_guard_describe(const ptoi_damage *damage, uint64_t bytes, char text[128])
{
    char before[40] = "", behind[40] = "";
    if (damage->before) {
        snprintf(before, sizeof before, "%" PRIu64 " bytes before", damage->before);
    }
    if (damage->behind) {
        snprintf(behind, sizeof behind, "%" PRIu64 " bytes behind", damage->behind);
    }
    snprintf(text, 128, "%s%s%s its buffer of %" PRIu64 " bytes", before,
             *before && *behind ? " and " : "", behind, bytes);
}
