/* submit.c - one task, from the call to the inbox: read, reserve, link, write, publish.
 *
 * Everything that can be refused or has to wait comes first, with nothing changed: parameters are
 * checked, then there is room in every ring, then the map is asked. Only then is anything taken,
 * recorded or linked, and from there on nothing can fail. The steps, and what they hand on, are in
 * draft.h; the task that is hoped for takes them all at once (known.h).
 */
#include <inttypes.h>

#include "base/error.h"
#include "orchestrator/at_once.h"
#include "orchestrator/draft.h"
#include "orchestrator/trace.h"

#define FEW 32         /* parameters that need no memory beyond the stack */
#define LEARN_NS 20000 /* since the runtime was created: enough to learn what a tick is */
#define LOOK_EVERY 32  /* tasks, even if nothing is short: what is recycled is still in the cache */

static __attribute__((noinline, cold)) pto_status
refuse_kernel(const pto_runtime *rt, pto_kernel kernel, pto_worker_type type)
{
    if (kernel == 0 || kernel >= rt->n_kernels) {
        return ptoi_fail(PTO_BAD_KERNEL,
                         "submit: kernel %" PRIu32 " is none of the %" PRIu32
                         " that this runtime knows",
                         kernel ^ rt->first_kernel, rt->n_kernels - 1);
    }
    const ptoi_kernel_entry *entry = &rt->view.kernels[kernel];
    const char *name = ptoi_string(&rt->view, entry->name);
    if (type != PTO_KERNEL_TYPE && (uint32_t)type != entry->type) {
        return ptoi_fail(PTO_BAD_WORKER, "submit: kernel '%s' is for %s workers, not for %s", name,
                         pto_worker_type_name((pto_worker_type)entry->type),
                         pto_worker_type_name(type));
    }
    return ptoi_fail(PTO_BAD_WORKER, "submit: kernel '%s' needs a worker of type %s: there is none",
                     name, pto_worker_type_name((pto_worker_type)entry->type));
}

/* More accesses than the stack should hold: the runtime keeps memory for one such task. */
static __attribute__((noinline, cold)) pto_status borrow_accesses(ptoi_draft *d)
{
    pto_runtime *rt = d->rt;
    if (d->n_params > rt->max_accesses) {
        return ptoi_fail(PTO_TOO_LARGE,
                         "submit: %zu parameters for the %" PRIu64 " bytes of arguments of level "
                         "%u: it takes arg_bytes (PTO_ARGS) of at least %zu, and a task has at "
                         "most a million",
                         d->n_params, d->track->args.size * 16, d->level, d->n_params * 16);
    }
    d->accesses = rt->accesses;
    d->kinds = (uint8_t *)(rt->accesses + rt->max_accesses);
    return PTO_OK;
}

void ptoi_tell_submitted(pto_runtime *rt, const ptoi_slot *slot, const pto_param *params,
                         size_t n_params)
{
    const pto_watcher *w = &rt->sched.watcher;
    if (w->submitted) {
        const ptoi_kernel_entry *kernel = &rt->view.kernels[ptoi_what_of(slot).kernel];
        w->submitted(w->user, rt->last, ptoi_string(&rt->view, kernel->name), params, n_params);
    }
    if (rt->trace) {
        ptoi_trace_submitted(rt, slot, params, n_params);
    }
}

/* Any task, step by step. */
static __attribute__((noinline)) pto_status submit_any(pto_runtime *rt, uint32_t kernel,
                                                       uint32_t type, const pto_param *params,
                                                       size_t n_params, const char *file, int line)
{
    ptoi_draft d;
    pto_map_param accesses[FEW];
    uint8_t kinds[FEW];
    ptoi_draft_begin(&d, rt, rt->level, params, n_params);
    d.accesses = accesses;
    d.kinds = kinds;
    if (PTOI_UNLIKELY(n_params > FEW)) {
        PTO_TRY(borrow_accesses(&d));
    }
    PTO_TRY(ptoi_draft_read(&d));
    if (PTOI_UNLIKELY(d.homeless)) {
        PTO_TRY(ptoi_draft_find_homes(&d, file, line));
    }
    PTO_TRY(ptoi_draft_reserve(&d));
    PTO_TRY(ptoi_draft_link(&d));
    uint32_t site = ptoi_site_of(rt, file, line);
    const ptoi_slot *slot = ptoi_draft_write(&d, kernel, type, site);
    if (PTOI_UNLIKELY(rt->sched.watched)) {
        ptoi_tell_submitted(rt, slot, params, n_params);
    }
    ptoi_publish(rt, slot, &d.edges);
    if (PTOI_UNLIKELY(d.barrier)) { /* the map does not know it: none may follow before it ends */
        rt->unmapped = rt->last;
        ptoi_wait_level(rt, d.level);
        rt->unmapped = 0;
    }
    return PTO_OK;
}

/* How many ticks a kernel may take that is to be called brief, once there is something to go by. */
static __attribute__((noinline, cold)) void learn_ticks(pto_runtime *rt)
{
    const uint64_t ns = ptoi_os_clock() - rt->at_once.created_ns;
    const double ticks = (double)(ptoi_ticks() - rt->at_once.created_ticks);
    if (ns >= LEARN_NS) {
        const double most = (double)rt->settings.config.brief_ns * ticks / (double)ns + 1;
        ptoi_set32(&rt->sched.brief_ticks, most < UINT32_MAX ? (uint32_t)most : UINT32_MAX);
    }
}

/* Now and then, after a task: what is complete comes back, and the next ones may be quick. Of a program
 * that submits few tasks the numbers are to be seen from outside, too: those of its first tasks are
 * told more and more seldom. */
static __attribute__((noinline)) void look_again(pto_runtime *rt)
{
    ptoi_track *track = rt->now;
    if (PTOI_UNLIKELY(rt->order < LOOK_EVERY)) {
        if ((rt->order & (rt->order - 1)) == 0) {
            ptoi_retire_publish(rt, rt->level);
        }
        rt->look_at = rt->order + 1;
    } else if (rt->order >= rt->look_at) {
        if (PTOI_UNLIKELY(rt->at_once.types && !ptoi_get32(&rt->sched.brief_ticks))) {
            learn_ticks(rt);
        }
        ptoi_retire(rt, rt->level);
        rt->look_at = rt->order + LOOK_EVERY;
    }
    const uint64_t until = rt->order + ptoi_known_room(rt, rt->level);
    track->quick = until < rt->look_at ? until : rt->look_at;
    track->few = ptoi_edges_are_few(track);
}

pto_status pto_submit_task_at(pto_runtime *rt, pto_kernel kernel, pto_worker_type type,
                              const pto_param *params, size_t n_params, pto_task *task,
                              const char *file, int line)
{
    PTO_TRY(ptoi_runtime_enter(rt, "submit"));
    if (PTOI_UNLIKELY(rt->sched.watched)) {
        ptoi_trace_called(rt);
    }
    uint32_t number = kernel ^ rt->first_kernel;
    if (PTOI_UNLIKELY(number == 0 || number >= rt->n_kernels)) {
        return refuse_kernel(rt, number, type);
    }
    uint32_t own_type = rt->view.kernels[number].type;
    if (PTOI_UNLIKELY((type != PTO_KERNEL_TYPE && (uint32_t)type != own_type) ||
                      !(rt->served >> own_type & 1))) {
        return refuse_kernel(rt, number, type);
    }
    if (PTOI_UNLIKELY(n_params && !params)) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "submit: %zu parameters at NULL", n_params);
    }
    if (PTOI_UNLIKELY(ptoi_get32(&rt->view.header->cancelled))) {
        return ptoi_fail(PTO_CANCELLED, "submit: the runtime was cancelled");
    }

    if (!try_at_once(rt, number, own_type, params, n_params, file, line) &&
        !submit_known(rt, number, own_type, params, n_params, file, line)) {
        const pto_status status = submit_any(rt, number, own_type, params, n_params, file, line);
        rt->at_once.ran = false;
        PTO_TRY(status);
    }
    if (task) {
        *task = rt->last;
    }
    if (rt->order >= rt->now->quick) {
        look_again(rt);
    }
    ptoi_debug_check(rt);
    return PTO_OK;
}
