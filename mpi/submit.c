/* submit.c - a task is submitted on every rank: it is hashed, and each rank does its part of the plan. Most
 * tasks are none of a rank's business: pass.h. */
#include "pass.h"

__attribute__((noinline)) uint64_t hash_kernel(world *w, pto_kernel kernel)
{
    const char *name = pto_kernel_name(w->rt, kernel);
    uint64_t hash = hash_mix(0, kernel ^ w->send);
    if (!name) {
        return hash; /* the call will be refused */
    }
    for (const char *c = name; *c; c++) {
        hash = hash_mix(hash, (unsigned char)*c);
    }
    w->kernels[kernel & (MPI_KERNELS - 1)] = (kernel_known){kernel, hash};
    return hash;
}

/* Which step the tasks belong to that were submitted since the last call. */
void submit_remember_order(world *w)
{
    if (w->counting) {
        return;
    }
    uint64_t submitted;
    const uint64_t complete = pto_watermark(w->rt, &submitted);
    if (w->n_orders == w->room_orders) {
        pto_failure failure;
        bool failed = false;
        size_t keep = 0;
        PTO_IGNORE(pto_get_failure(w->rt, &failed, &failure));
        /* The tasks that are not complete, and the first one that has failed. */
        for (size_t i = 0; i < w->n_orders; i++) {
            const uint64_t order = w->orders[i].order;
            const bool first = failed && order > failure.order;
            if (order > complete || first) {
                w->orders[keep++] = w->orders[i];
            }
            failed = failed && !first;
        }
        w->n_orders = keep;
        if (w->n_orders * 2 > w->room_orders || !w->room_orders) {
            const size_t room = w->room_orders ? w->room_orders * 2 : 1024;
            step_order *more = realloc(w->orders, room * sizeof *more);
            if (!more) {
                return; /* a failure would be reported with a later step */
            }
            w->orders = more;
            w->room_orders = room;
        }
    }
    w->orders[w->n_orders++] = (step_order){submitted, w->history.step};
}

pto_status submit_finish(world *w, pto_status status, const char *who, const char *file, int line)
{
    char why[MPI_TEXT];
    snprintf(why, sizeof why, "%s", status == PTO_OK ? "" : pto_error_detail());
    submit_remember_order(w);
    if (status == PTO_OK) {
        /* While this thread submits it does not wait, and there may be no core for another one. */
        if (!w->counting && w->cores <= 0 && ++w->poll.submits % 16 == 0) {
            (void)progress_poll(w);
        }
        return PTO_OK;
    }
    return world_break(w, status, "%s at %s:%d: %s", who, file ? file : "?", line, why);
}

static pto_status submit_plan(plan *p, int rank, uint32_t distributed, pto_kernel kernel,
                              pto_worker_type type)
{
    world *w = p->w;
    pto_status status = only_check(p, rank, distributed);
    if (status != PTO_OK) {
        return world_refused(w, status);
    }
    if (rank >= w->ranks || rank < PTO_MPI_OWNER) {
        return world_refuse(w, PTO_BAD_PARAM, "mpi_submit: rank %d of %d", rank, w->ranks);
    }
    if (!distributed) {
        w->stats.tasks++;
        if (w->counting) {
            return PTO_OK;
        }
        trace_step(w);
        status = pto_submit_task_at(w->rt, kernel, type, p->params, p->n, NULL, p->file, p->line);
        submit_remember_order(w);
        return status == PTO_OK ? PTO_OK : world_refused(w, status);
    }
    status = plan_check_kinds(p);
    if (status != PTO_OK) {
        return world_refused(w, status);
    }
    p->place = rank == PTO_MPI_OWNER ? plan_place(p) : rank;
    if (!plan_concerns_us(p)) {
        if (plan_makes_temp(p)) {
            /* Where it lives concerns all ranks, so all must know whether the task was refused. */
            status = plan_check(p, kernel, type);
            if (status != PTO_OK) {
                plan_commit(p, true);
                return world_refused(w, status);
            }
        }
        w->stats.others++;
        plan_commit(p, false);
        return PTO_OK;
    }
    status = plan_check(p, kernel, type);
    if (status != PTO_OK) {
        plan_commit(p, true);
        return world_refused(w, status);
    }
    /* Before versions change: inputs are of the versions that were written before. */
    for (uint32_t i = 0; i < p->n; i++) {
        if (plan_is_fresh(p, i)) {
            p->views[i].o->home[0] = p->place;
        }
    }
    status = carry_out(p, kernel, type);
    plan_commit(p, false);
    return submit_finish(w, status, "submit", p->file, p->line);
}

/* Not a task that this rank may pass by. */
static __attribute__((noinline)) pto_status submit_here(world *w, int rank, pto_kernel kernel,
                                                        pto_worker_type type,
                                                        const pto_param *params, size_t n_params,
                                                        const char *file, int line)
{
    w->file = file;
    w->line = line;
    if (n_params > MPI_MOST_PARAMS) {
        return world_refuse(w, PTO_BAD_PARAM, "mpi_submit: %zu parameters (at most %d)", n_params,
                            MPI_MOST_PARAMS);
    }
    plan *p = plan_of(w, file, line);
    if (!p) {
        return world_break(w, PTO_OUT_OF_MEMORY, "mpi_submit: no memory");
    }
    p->params = params;
    p->n = (uint32_t)n_params;
    uint64_t hash = hash_call(w, kernel, rank);
    uint32_t distributed;
    pto_status status = plan_resolve(p, &hash, &distributed);
    history_step(w, hash, file, line);
    status = status == PTO_OK ? submit_plan(p, rank, distributed, kernel, type)
                              : world_refused(w, status);
    for (uint32_t i = 0; i < p->n; i++) {
        view_free(&p->views[i], &p->first[i]);
    }
    return status;
}

pto_status pto_mpi_submit_task_at(pto_runtime *rt, int rank, pto_kernel kernel,
                                  pto_worker_type type, const pto_param *params, size_t n_params,
                                  const char *file, int line)
{
    world *w = world_of(rt);
    if (!w || (n_params && !params)) {
        return pto_fail(PTO_NULL_ARGUMENT, "mpi_submit: %s",
                        w ? "params is NULL" : "the runtime is in no world");
    }
    PTO_TRY(world_check(w));
    PTO_TRY(world_check_thread(w, "mpi_submit"));
    if (w->only.open ? pass_by_inside(w, rank, kernel, params, n_params, file, line)
                     : pass_by(w, rank, kernel, params, n_params, file, line, false)) {
        return PTO_OK;
    }
    return submit_here(w, rank, kernel, type, params, n_params, file, line);
}
