/* submit.c - one task, from the call to the inbox.
 *
 *     check ──> walk over the parameters ──┬── run inline   it waits for no task, and is short
 *       │       fast.h                     ├── publish      it goes to the scheduler: fast.h
 *       │                                  ├── many         less common, run or published: many.h
 *       │                                  └── slow path    anything unusual: slow.h
 *       └─────> several devices in use: route.h
 */
#include <inttypes.h>

#include <pto/embed.h>

#include "base/error.h"
#include "orchestrator/attach.h"
#include "orchestrator/check.h"
#include "orchestrator/declare.h"
#include "orchestrator/fast.h"
#include "orchestrator/inline.h"
#include "orchestrator/many.h"
#include "orchestrator/refusal.h"
#include "orchestrator/retire.h"
#include "orchestrator/room.h"
#include "orchestrator/route.h"
#include "orchestrator/trace.h"

/* Tasks between two retires, if all rings have room. Recycled memory is then still in cache. */
#define RETIRE_EVERY 32

/* ---- Running inline ----
 *
 * The task is complete when submit returns. So no task ever waits for it, and it needs no map
 * entries, no edges, no arguments and no cell of the inbox. It has a number, and its slot says that
 * it is complete. It brings a block like any task. A buffer in that block is `unmapped`: it is not
 * in the map before an offloaded task uses it.
 */

/* Commits a task whose kernel returned PTO_OK. It is recycled immediately if all before it are.
 * Otherwise it keeps its slot until retire. */
static inline void commit_inline(pto_runtime *rt, uint64_t seq, uint32_t n_args)
{
    ptoi_rings *rings = rt->ring;
    if (rings->completed == seq) {
        rings->completed = seq + 1;
        ptoi_set64(&rings->progress->completed, seq + 1);
    }
    if (rings->retired == seq) {
        rings->head = rings->retired = seq + 1;
        ptoi_set64(&rings->progress->retired, seq + 1);
        if (PTOI_UNLIKELY(rt->trace != NULL)) {
            ptoi_trace_retired(rt, rt->level, seq, seq + 1);
        }
        return;
    }
    (void)ptoi_ring_take_here(&rings->args, n_args);
    ptoi_write_record(rings, seq);
}

/* Writes the arguments of an inline task, for watchers and the trace. */
static __attribute__((noinline, cold)) uint32_t describe_all(pto_runtime *rt,
                                                             const pto_param *params, size_t n)
{
    ptoi_arg_desc *const first = rt->ring->arg_descs + rt->ring->args.at, *at = first;
    for (size_t i = 0; i < n; i++) {
        const pto_tensor *t = params[i].tensor;
        if (params[i].kind == PTO_PARAM_AFTER) {
            continue;
        }
        if (params[i].kind == PTO_PARAM_SCALAR) {
            at = ptoi_write_scalar(at, &params[i]);
            continue;
        }
        *at = ptoi_write_place(rt, t, t->owner ? ptoi_buffer_of(rt, t) : NULL,
                               ptoi_desc_find(&rt->map->descs, t));
        at++->access = (uint8_t)((uint32_t)params[i].kind | (params[i].nodep ? PTOI_ARG_NODEP : 0));
    }
    return (uint32_t)(at - first);
}

/* The kernel of an inline task did not return PTO_OK. */
static __attribute__((noinline, cold)) void
ran_badly(pto_runtime *rt, uint32_t index, uint32_t kernel, uint32_t phase, pto_status status)
{
    rt->inside = false;
    if (status != PTO_PENDING) {
        ptoi_call_over(rt->calls, index, phase);
    }
    /* The kernel counts as long until it is timed again: not inline. */
    ptoi_call_set_length(rt->calls, kernel, PTOI_LENGTH_LONG);
}

/* Runs the task. False: its kernel did not return PTO_OK. Then the slow path records the task like
 * an offloaded one, and *end says how it ends. */
static inline __attribute__((always_inline)) bool run_inline(pto_runtime *rt, const ptoi_request *q,
                                                             const ptoi_resolved *f, size_t n_args,
                                                             ptoi_inline_end *end)
{
    ptoi_rings *rings = rt->ring;
    const uint64_t seq = rings->head;
    const uint32_t site = ptoi_site_of(rt, q->file, q->line);
    const uint64_t header = ptoi_slot_header_word(q->kernel, site, rt->level, q->lane, false);
    const pto_task self = ptoi_task_make(seq, rt->level);
    const uint32_t described = PTOI_UNLIKELY(rt->watched) ? describe_all(rt, q->params, q->n_params)
                                                          : 0;
    const ptoi_slot *slot = ptoi_write_slot(rings, seq, rt->order, header, rings->args.at,
                                            described, 0, 0);
    if (PTOI_UNLIKELY(rt->watched)) {
        ptoi_watch_submitted(rt, slot, q->params, q->n_params);
    }
    PTOI_PROBE(submit, self, ptoi_kernel_name(&rt->view, q->kernel), rt->order);
    rt->inside = true;
    const uint32_t index = ptoi_slot_index(&rt->view, slot);
    const uint32_t phase = ptoi_phase_begin(ptoi_lap(&rt->view, rt->level, seq));
    end->status = ptoi_call_kernel(rt->calls, index, q->kernel, q->lane, self, (uint32_t)n_args,
                                   phase, &end->errors_before);
    if (PTOI_UNLIKELY(end->status != PTO_OK)) {
        ran_badly(rt, index, q->kernel, phase, end->status);
        return false;
    }
    if (PTOI_UNLIKELY(rt->watched)) {
        ptoi_caller_log(rt->scheduler, index);
    }
    rt->inside = false;
    ptoi_write_complete(rings, seq, rt->order);
    for (uint64_t left = f->managed; left; left &= left - 1) {
        (void)ptoi_write_name(rt, ptoi_buffer_of(rt, q->params[__builtin_ctzll(left)].tensor));
    }
    if (f->fresh) {
        ptoi_fast_take_block(rt, q, 0, f, seq, site, true);
    }
    commit_inline(rt, seq, described);
    rt->last = self;
    rt->order++;
    ptoi_header *h = rt->view.header;
    ptoi_release64(&h->inlined, ptoi_get64(&h->inlined) + 1); /* W7 */
    if (rt->order % PTOI_CLOCK_EVERY == 0) {
        ptoi_inline_check_clock(rt);
    }
    return true;
}

/* ---- Submit ---- */

/* Four ways off the fast path. They take the request field by field: if its address was taken, every
 * submit would store it. */
static __attribute__((noinline)) pto_status submit_slowly(pto_runtime *rt, const pto_param *params,
                                                          size_t n_params, uint32_t kernel,
                                                          uint32_t lane, const char *file, int line,
                                                          const ptoi_inline_end *ran)
{
    ptoi_request q = {params, n_params, kernel, lane, file, line};
    return ptoi_slow_submit(rt, &q, ran);
}

/* Runs the task if the walk of many.h takes it: PTOI_RESOLVED, and *status is that of the submit. */
static __attribute__((noinline)) ptoi_fast_verdict
run_many(pto_runtime *rt, const pto_param *params, size_t n_params, uint32_t kernel, uint32_t lane,
         const char *file, int line, pto_status *status)
{
    const ptoi_request q = {params, n_params, kernel, lane, file, line};
    ptoi_resolved f;
    ptoi_inline_end end;
    const ptoi_fast_verdict v = ptoi_many_walk(rt, &q, &f);
    if (v == PTOI_RESOLVED) {
        *status = run_inline(rt, &q, &f, n_params - f.afters, &end)
                      ? PTO_OK
                      : submit_slowly(rt, params, n_params, kernel, lane, file, line, &end);
    }
    return v;
}

static __attribute__((noinline)) bool submit_many(pto_runtime *rt, const pto_param *params,
                                                  size_t n_params, uint32_t kernel, uint32_t lane,
                                                  const char *file, int line)
{
    const ptoi_request q = {params, n_params, kernel, lane, file, line};
    return ptoi_many_submit(rt, &q, 0);
}

static __attribute__((noinline)) pto_status
submit_by_route(pto_runtime *rt, const pto_param *params, size_t n_params, uint32_t kernel,
                uint32_t lane, const char *file, int line, bool *host)
{
    ptoi_request q = {params, n_params, kernel, lane, file, line};
    return ptoi_route_submit(rt, &q, host);
}

/* The walk, then one of the three endings. A task that should run inline but turns out to wait for
 * others is walked again, to be published. */
static inline pto_status submit(pto_runtime *rt, const ptoi_request *q)
{
    const ptoi_inline_wish wish = ptoi_inline_wanted(rt, q->kernel);
    if (wish != PTOI_INLINE_NO) {
        ptoi_resolved f;
        ptoi_fast_verdict v;
        do {
            v = ptoi_fast_may(rt, q)
                    ? ptoi_fast_resolve(rt, q, (ptoi_fast_walk){.run = true}, &f, NULL, NULL)
                    : PTOI_MANY;
            if (v == PTOI_RESOLVED) {
                ptoi_inline_end end;
                return run_inline(rt, q, &f, q->n_params - f.afters, &end)
                           ? PTO_OK
                           : submit_slowly(rt, q->params, q->n_params, q->kernel, q->lane, q->file,
                                           q->line, &end);
            }
            pto_status status;
            if (v == PTOI_MANY && (v = run_many(rt, q->params, q->n_params, q->kernel, q->lane,
                                                q->file, q->line, &status)) == PTOI_RESOLVED) {
                return status;
            }
        } while (v == PTOI_BLOCKED && ptoi_inline_blocked(rt, wish));
    }
    ptoi_resolved f;
    uint32_t found[PTOI_FAST_PARAMS];
    ptoi_edges edges = {.refs = rt->ring->refs + rt->ring->deps.at}; /* in their final place */
    const ptoi_fast_walk few = {.most = PTOI_FAST_EDGES};
    const ptoi_fast_verdict v = ptoi_fast_may(rt, q)
                                    ? ptoi_fast_resolve(rt, q, few, &f, found, &edges)
                                    : PTOI_MANY;
    if (PTOI_UNLIKELY(v != PTOI_RESOLVED)) {
        return v == PTOI_MANY &&
                       submit_many(rt, q->params, q->n_params, q->kernel, q->lane, q->file, q->line)
                   ? PTO_OK
                   : submit_slowly(rt, q->params, q->n_params, q->kernel, q->lane, q->file, q->line,
                                   NULL);
    }
    ptoi_fast_publish(rt, q, few, &f, found, &edges);
    return PTO_OK;
}

/* Renews state.waiters before a word is 2^32 laps old: see ptoi_scheduler_refresh. Tasks of the last
 * lap may not be complete yet, so the words become those of the lap before. */
static inline void refresh(pto_runtime *rt, ptoi_rings *rings)
{
    const uint32_t lap = ptoi_lap(&rt->view, rt->level, rings->head);
    if (PTOI_UNLIKELY(lap - rings->renewed_lap >= PTOI_REFRESH_LAPS)) {
        ptoi_scheduler_refresh(rt->scheduler, rt->level, lap - 2);
        rings->renewed_lap = lap;
    }
}

/* Runs after a submit once fast_until is reached: retires tasks, and finds room for the next
 * fast-path tasks. During the first RETIRE_EVERY tasks the state is published at orders that are
 * powers of two, so that outside readers see a short program, too. */
static __attribute__((noinline)) void refill(pto_runtime *rt)
{
    ptoi_rings *rings = rt->ring;
    if (PTOI_UNLIKELY(rt->order < RETIRE_EVERY)) {
        if ((rt->order & (rt->order - 1)) == 0) {
            ptoi_retire_publish(rt, rt->level);
        }
        rt->retire_at = rt->order + 1;
    } else if (rt->order >= rt->retire_at) {
        if (PTOI_UNLIKELY(rt->inlining.types && !ptoi_get32(&rt->view.header->inline_ticks))) {
            ptoi_inline_learn_ticks(rt);
        }
        ptoi_retire(rt, rt->level);
        refresh(rt, rings);
        rt->retire_at = rt->order + RETIRE_EVERY;
    }
    const uint64_t until = rt->order + ptoi_fast_room(rt, rt->level);
    rings->fast_until = until < rt->retire_at ? until : rt->retire_at;
    rings->edges_short = ptoi_edges_run_short(rings);
}

static __attribute__((noinline, cold)) pto_status
refuse_kernel(const pto_runtime *rt, uint64_t kernel, pto_worker_type type)
{
    if (kernel == 0 || kernel >= rt->n_kernels) {
        return ptoi_fail(PTO_BAD_KERNEL,
                         "submit: kernel handle %" PRIu64 " was not registered with this runtime",
                         kernel ^ rt->first_kernel);
    }
    const ptoi_kernel_entry *entry = &rt->view.kernels[kernel];
    const char *name = ptoi_string(&rt->view, entry->name);
    if (type != PTO_KERNEL_TYPE && (uint32_t)type >= PTO_WORKER_TYPES) {
        return ptoi_fail(PTO_BAD_WORKER, "submit: kernel '%s': type %d is no worker type", name,
                         (int)type);
    }
    if (type != PTO_KERNEL_TYPE && (uint32_t)type != entry->type) {
        return ptoi_fail(PTO_BAD_WORKER, "submit: kernel '%s' is for %s workers, not for %s", name,
                         pto_worker_type_name((pto_worker_type)entry->type),
                         pto_worker_type_name(type));
    }
    return ptoi_fail(PTO_BAD_WORKER, "submit: kernel '%s' needs a worker of type %s: there is none",
                     name, pto_worker_type_name((pto_worker_type)entry->type));
}

static inline pto_status check_declared(const pto_runtime *rt, uint32_t kernel,
                                        const pto_param *params, size_t n_params, const char *file,
                                        int line)
{
    const ptoi_declaration *d = rt->kernels[kernel].declaration;
    return d ? ptoi_declaration_check(d, ptoi_kernel_name(&rt->view, kernel), params, n_params,
                                      file, line)
             : PTO_OK;
}

/* A kernel that no short test lets pass: it has a declaration, or it is refused. */
static __attribute__((noinline)) pto_status check_kernel(const pto_runtime *rt, uint32_t kernel,
                                                         pto_worker_type type,
                                                         const pto_param *params, size_t n_params,
                                                         const char *file, int line)
{
    const ptoi_registered *k = &rt->kernels[kernel];
    const uint32_t own_type = k->route & ~PTOI_ROUTE_DECLARED;
    /* With several devices, ptoi_route_find finds out whether there is a worker. */
    if ((type != PTO_KERNEL_TYPE && (uint32_t)type != own_type) ||
        (rt->n_devices == 1 &&
         !((rt->devices[0].served | ptoi_attach_types(rt)) >> own_type & 1))) {
        return refuse_kernel(rt, kernel, type);
    }
    PTO_TRY(ptoi_attach_check(rt, kernel));
    if (PTOI_UNLIKELY(!params && n_params)) {
        return PTO_OK; /* submit refuses that next */
    }
    return check_declared(rt, kernel, params, n_params, file, line);
}

pto_status pto_check_kernel_at(pto_runtime *rt, pto_kernel kernel, pto_worker_type type,
                               const pto_param *params, size_t n_params, const char *file, int line)
{
    PTO_TRY(ptoi_runtime_enter(rt, "submit"));
    const uint64_t number = kernel ^ rt->first_kernel;
    if (number == 0 || number >= rt->n_kernels ||
        (type != PTO_KERNEL_TYPE &&
         (uint32_t)type != (rt->kernels[number].route & ~PTOI_ROUTE_DECLARED))) {
        return refuse_kernel(rt, number, type);
    }
    return params ? check_declared(rt, (uint32_t)number, params, n_params, file, line) : PTO_OK;
}

static inline pto_status submit_task(pto_runtime *rt, pto_kernel kernel, pto_worker_type type,
                                     const pto_param *params, size_t n_params, pto_task *task,
                                     const char *file, int line)
{
    PTO_TRY(ptoi_runtime_enter(rt, "submit"));
    if (PTOI_UNLIKELY(rt->watched)) {
        PTO_TRY(ptoi_watch_called(rt));
    }
    const uint64_t kernel_number = kernel ^ rt->first_kernel;
    if (PTOI_UNLIKELY(kernel_number - 1 >= rt->n_kernels - 1)) {
        return refuse_kernel(rt, kernel_number, type);
    }
    const uint32_t number = (uint32_t)kernel_number;
    uint32_t own_type = rt->kernels[number].route;
    if (PTOI_UNLIKELY((type != PTO_KERNEL_TYPE && (uint32_t)type != own_type) ||
                      !(rt->routes >> own_type & 1))) {
        /* With several devices in use no route has a bit; then most kernels still need no look. */
        if (type != PTO_KERNEL_TYPE || own_type >= PTOI_ROUTE_DECLARED || rt->n_devices == 1 ||
            rt->attach) {
            PTO_TRY(check_kernel(rt, number, type, params, n_params, file, line));
        }
        own_type &= ~PTOI_ROUTE_DECLARED;
    }
    if (PTOI_UNLIKELY(!params && n_params)) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "submit: %zu parameters, but params is NULL", n_params);
    }
    if (PTOI_UNLIKELY(ptoi_is_cancelled(&rt->view))) {
        return ptoi_fail(PTO_CANCELLED, "submit: the runtime was cancelled");
    }
    const ptoi_request q = {params, n_params, number, own_type, file, line};
    bool host = true;
    if (PTOI_UNLIKELY(!rt->routes)) { /* the task has to find its device */
        PTO_TRY(submit_by_route(rt, params, n_params, number, own_type, file, line, &host));
    }
    if (PTOI_LIKELY(host)) {
        PTO_TRY(submit(rt, &q));
    }
    if (task) {
        *task = rt->last;
    }
    if (rt->order >= rt->ring->fast_until) {
        refill(rt);
    }
    ptoi_debug_check(rt);
    return PTO_OK;
}

pto_status pto_submit_task_at(pto_runtime *rt, pto_kernel kernel, pto_worker_type type,
                              const pto_param *params, size_t n_params, pto_task *task,
                              const char *file, int line)
{
    return ptoi_refusal_note(rt, submit_task(rt, kernel, type, params, n_params, task, file, line),
                             "pto_submit", file, line);
}
