/* plan.c - where a task runs (M2), what it needs and what must be refused. All of it is computed from the
 * arguments and earlier steps alone, so all ranks get the same answers. */
#include "plan.h"

plan *plan_of(world *w, const char *file, int line)
{
    if (!w->plan && !(w->plan = calloc(1, sizeof *w->plan))) {
        return NULL;
    }
    w->plan->w = w;
    w->plan->file = file;
    w->plan->line = line;
    return w->plan;
}

pto_status plan_resolve(plan *p, uint64_t *hash, uint32_t *distributed)
{
    pto_status status = PTO_OK;
    *distributed = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        const pto_param *q = &p->params[i];
        p->views[i] = (view){.pieces = &p->first[i]};
        if (!is_tensor(q) || status != PTO_OK) {
            *hash = hash_other(*hash, q);
            continue;
        }
        status = view_resolve(p->w, "mpi_submit", q->tensor, &p->first[i], &p->views[i]);
        if (q->tensor) {
            *hash = hash_param(*hash, q, view_hash(p->views[i].o, q->tensor));
        }
        *hash += (uint64_t)status; /* all ranks must refuse it */
        *distributed += p->views[i].o != NULL;
    }
    return status;
}

/* Whether a view is all of a temporary, as its first writer must write it. A temporary without elements has no other
 * views. */
static bool is_whole(const view *v)
{
    int64_t n = 1;
    for (int32_t d = 0; d < v->o->ndim; d++) {
        n *= v->o->shape[d];
    }
    return n == 0 ||
           (v->t->offset == 0 && pto_tensor_numel(v->t) == n && pto_tensor_is_contiguous(v->t));
}

pto_status plan_check_kinds(const plan *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        const pto_param *q = &p->params[i];
        const view *v = &p->views[i];
        if ((uint32_t)q->kind > PTO_PARAM_AFTER) {
            return pto_fail(PTO_BAD_PARAM, "mpi_submit: parameter %u is of kind %d", i,
                            (int)q->kind);
        }
        if (q->kind == PTO_PARAM_AFTER) {
            return pto_fail(PTO_BAD_PARAM,
                            "mpi_submit: parameter %u is pto_after, and the task has "
                            "distributed tensors",
                            i);
        }
        if (is_tensor(q) && !v->o && writes(q)) {
            return pto_fail(PTO_BAD_PARAM,
                            "mpi_submit: parameter %u writes plain memory, and the task has "
                            "distributed tensors",
                            i);
        }
        if (plan_is_fresh(p, i)) {
            if (reads(q)) {
                return pto_fail(PTO_NOT_WRITTEN,
                                "mpi_submit: parameter %u is a temporary that no task has written",
                                i);
            }
            if (!is_whole(v)) {
                return pto_fail(
                    PTO_NOT_CONTIGUOUS,
                    "mpi_submit: parameter %u is the first to write a temporary, and does "
                    "not write all of it",
                    i);
            }
        }
    }
    return PTO_OK;
}

int plan_place(const plan *p)
{
    static const pto_param_kind order[] = {PTO_PARAM_OUTPUT, PTO_PARAM_INOUT, PTO_PARAM_INPUT};
    const view *fresh = NULL;
    for (uint32_t k = 0; k < 3; k++) {
        for (uint32_t i = 0; i < p->n; i++) {
            const view *v = &p->views[i];
            if (p->params[i].kind != order[k] || !v->o || !v->n) {
                continue;
            }
            if (piece_home(v->pieces) >= 0) {
                return piece_home(v->pieces);
            }
            fresh = v;
        }
    }
    if (!fresh) {
        return 0;
    }
    int place = (int)(fresh->o->id % (uint64_t)p->w->ranks);
    while (!only_walks(p->w, place)) {
        place = (place + 1) % p->w->ranks;
    }
    return place;
}

bool plan_concerns_us(const plan *p)
{
    const int rank = p->w->rank;
    bool mine = p->place == rank;
    for (uint32_t i = 0; i < p->n && !mine; i++) {
        const view *v = &p->views[i];
        for (uint32_t k = 0; v->o && k < v->n && !mine; k++) {
            mine = piece_home(&v->pieces[k]) == rank;
        }
    }
    return mine;
}

bool plan_makes_temp(const plan *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        if (plan_is_fresh(p, i)) {
            return true;
        }
    }
    return false;
}

/* The sizes of a plan: the same answer on all ranks. */
static pto_status check_sizes(plan *p)
{
    p->scratch_bytes = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        const way how = way_of(p, i);
        const view *v = &p->views[i];
        if (how == WAY_COPIED) {
            p->scratch_at[i] = p->scratch_bytes;
            p->scratch_bytes += padded(v->bytes);
        }
        for (uint32_t k = 0; how >= WAY_CACHED && k < v->n; k++) {
            if (piece_bytes(&v->pieces[k]) > MPI_MOST_BYTES) {
                return pto_fail(PTO_TOO_LARGE,
                                "mpi_submit: parameter %u needs a message of %" PRIu64
                                " bytes (at most %" PRIu64 "): use smaller tiles",
                                i, piece_bytes(&v->pieces[k]), MPI_MOST_BYTES);
            }
        }
        uint64_t sum = 0;
        for (uint32_t k = 0; how == WAY_CACHED && k < p->n; k++) {
            if (way_of(p, k) == WAY_CACHED &&
                piece_home(p->views[k].pieces) == piece_home(v->pieces)) {
                sum += padded(p->views[k].bytes);
            }
        }
        if (sum > p->w->cache_bytes) {
            return pto_fail(PTO_TOO_LARGE,
                            "mpi_submit: the task reads %" PRIu64
                            " bytes of rank %d, and cache_bytes "
                            "is %" PRIu64 ": raise it, or use smaller tiles",
                            sum, piece_home(v->pieces), p->w->cache_bytes);
        }
    }
    if (p->scratch_bytes > p->w->scratch.bytes) {
        return pto_fail(PTO_TOO_LARGE,
                        "mpi_submit: the task needs %" PRIu64 " bytes of scratch memory, and "
                        "scratch_bytes is %" PRIu64 ": raise it, or use smaller views",
                        p->scratch_bytes, p->w->scratch.bytes);
    }
    return PTO_OK;
}

/* In a dense copy each index has an element of its own, which would be written instead. */
static pto_status check_repeats(const plan *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        if (writes(&p->params[i]) && p->views[i].repeats) {
            return pto_fail(PTO_OVERLAP,
                            "mpi_submit: parameter %u is written, and two of its indices are one "
                            "element",
                            i);
        }
    }
    return PTO_OK;
}

/* A kernel that reads what it has just written through another parameter would see it in one process. */
static pto_status check_overlaps(const plan *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        if (way_of(p, i) < WAY_CACHED) {
            continue;
        }
        for (uint32_t k = 0; k < p->n; k++) {
            const way other = way_of(p, k);
            if (k != i && other >= WAY_LOCAL && p->views[k].o == p->views[i].o &&
                (writes(&p->params[i]) || writes(&p->params[k])) &&
                pto_tensor_overlaps(p->views[i].t, p->views[k].t)) {
                return pto_fail(
                    PTO_OVERLAP,
                    "mpi_submit: parameters %u and %u share memory, one is written, and "
                    "they are not both in one tile of rank %d",
                    i < k ? i : k, i < k ? k : i, p->place);
            }
        }
    }
    return PTO_OK;
}

/* A task runs where its tensors are. */
static pto_status check_devices(const plan *p)
{
    uint32_t first = p->n;
    pto_device one = {0};
    for (uint32_t i = 0; i < p->n; i++) {
        const pto_param *q = &p->params[i];
        if (!is_tensor(q)) {
            continue;
        }
        const pto_device device = p->views[i].o ? object_device(p->views[i].o) : q->tensor->device;
        if (first == p->n) {
            first = i;
            one = device;
        } else if (device.type != one.type || device.index != one.index) {
            return pto_fail(
                PTO_DEVICES_DIFFER,
                "mpi_submit: parameter %u is on %s:%d, parameter %u on %s:%d: make both "
                "on one device (device of pto_mpi_layout, pto_mpi_temp_on)",
                first, pto_device_name(one.type), (int)one.index, i, pto_device_name(device.type),
                (int)device.index);
        }
    }
    return PTO_OK;
}

pto_status plan_check(plan *p, pto_kernel kernel, pto_worker_type type)
{
    PTO_TRY(world_without_lock("mpi_submit"));
    PTO_TRY(pto_check_kernel_at(p->w->rt, kernel, type, p->params, p->n, p->file, p->line));
    PTO_TRY(check_devices(p));
    PTO_TRY(check_repeats(p));
    p->ways_taken = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        p->ways[i] = find_way(p, i);
        p->ways_taken |= 1u << p->ways[i];
    }
    if (!(p->ways_taken & (1u << WAY_CACHED | 1u << WAY_COPIED))) {
        p->scratch_bytes = 0;
        return PTO_OK;
    }
    PTO_TRY(check_sizes(p));
    return check_overlaps(p);
}

void plan_commit(plan *p, bool refused)
{
    for (uint32_t i = 0; i < p->n; i++) {
        const view *v = &p->views[i];
        if (!is_tensor(&p->params[i]) || !v->o || !writes(&p->params[i])) {
            continue;
        }
        if (plan_is_fresh(p, i) && !refused) { /* also if it has no elements, and so no pieces */
            v->o->home[0] = p->place;
        }
        for (uint32_t k = 0; k < v->n; k++) {
            v->o->version[v->pieces[k].tile] = p->w->history.step;
        }
    }
}
