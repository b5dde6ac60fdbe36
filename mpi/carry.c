/* carry.c - a rank's part of a plan (M4): messages, copies and the task, in the order that all ranks share. */
#include "plan.h"

/* Inputs of one rank `from` that go into the cache of rank `to`: one of the two is this rank. */
static pto_status move_cached(plan *p, int from, int to, pto_tensor *args)
{
    world *w = p->w;
    const piece *pieces[MPI_MOST_PARAMS];
    uint32_t which[MPI_MOST_PARAMS], n = 0;
    share_find found[MPI_MOST_PARAMS];
    for (uint32_t i = 0; i < p->n; i++) {
        if (way_of(p, i) == WAY_CACHED && piece_home(p->views[i].pieces) == from) {
            pieces[n] = p->views[i].pieces;
            which[n++] = i;
        }
    }
    const bool in = to == w->rank;
    share *s = in ? &w->peers[from].in : &w->peers[to].out;
    if (!n) {
        return PTO_OK;
    }
    if (!s->entries) {
        PTO_TRY(share_init(s, w->cache_bytes));
    }
    if (in && !s->memory && !(s->memory = world_reserve(s->bytes))) {
        return pto_fail(PTO_OUT_OF_MEMORY, "mpi: %" PRIu64 " bytes of cache", s->bytes);
    }
    uint64_t dropped = 0;
    if (!share_take(s, pieces, n, w->history.step, found, &dropped)) {
        return pto_fail(PTO_OUT_OF_MEMORY, "mpi: table of a share");
    }
    w->stats.dropped += in ? dropped : 0;
    for (uint32_t k = 0; k < n; k++) {
        const view *v = &p->views[which[k]];
        if (in) {
            args[which[k]] = piece_dense(v, pieces[k], s->memory + found[k].at);
        }
        if (found[k].hit) {
            w->stats.hits += in;
        } else if (in) {
            PTO_TRY(scratch_heal(p, &found[k].here, s->memory));
            PTO_TRY(scratch_heal(p, &found[k].behind, s->memory));
            PTO_TRY(message_receive(w, from, &args[which[k]], p->file, p->line));
        } else {
            const pto_tensor t = piece_tensor(v, pieces[k]);
            PTO_TRY(message_send(w, to, &t, p->file, p->line));
        }
    }
    return PTO_OK;
}

pto_status carry_piece(plan *p, const view *v, const piece *q, char *copy, bool home)
{
    world *w = p->w;
    const int at = piece_home(q);
    const bool place = p->place == w->rank, own = at == w->rank;
    pto_tensor tile = {0}, part = {0};
    if (own) {
        tile = piece_tensor(v, q);
    }
    if (place) {
        part = piece_part(v, q, copy);
    }
    if (place && own) {
        w->stats.copies++;
        if (w->counting) {
            return PTO_OK;
        }
        return home ? pto_copy_at(w->rt, &tile, &part, p->file, p->line)
                    : pto_copy_at(w->rt, &part, &tile, p->file, p->line);
    }
    if (place) {
        return home ? message_send(w, at, &part, p->file, p->line)
                    : message_receive(w, at, &part, p->file, p->line);
    }
    if (own) {
        return home ? message_receive(w, p->place, &tile, p->file, p->line)
                    : message_send(w, p->place, &tile, p->file, p->line);
    }
    return PTO_OK;
}

static pto_status move_copied(plan *p, char *block, bool home)
{
    for (uint32_t i = 0; i < p->n; i++) {
        const view *v = &p->views[i];
        if (way_of(p, i) != WAY_COPIED || !(home ? writes : reads)(&p->params[i])) {
            continue;
        }
        for (uint32_t k = 0; k < v->n; k++) {
            PTO_TRY(
                carry_piece(p, v, &v->pieces[k], block ? block + p->scratch_at[i] : NULL, home));
        }
    }
    return PTO_OK;
}

static pto_status run_here(plan *p, pto_kernel kernel, pto_worker_type type, pto_tensor *args)
{
    pto_param params[MPI_MOST_PARAMS];
    for (uint32_t i = 0; i < p->n; i++) {
        params[i] = p->params[i];
        if (way_of(p, i) != WAY_PLAIN) {
            params[i].tensor = &args[i];
            params[i].nodep = 0;
        }
    }
    if (p->w->counting) {
        return PTO_OK;
    }
    return pto_submit_task_at(p->w->rt, kernel, type, params, p->n, NULL, p->file, p->line);
}

/* Whether no earlier parameter is a cached input of the same rank. */
static bool is_first_of(const plan *p, uint32_t i)
{
    for (uint32_t k = 0; k < i; k++) {
        if (way_of(p, k) == WAY_CACHED &&
            piece_home(p->views[k].pieces) == piece_home(p->views[i].pieces)) {
            return false;
        }
    }
    return true;
}

pto_status carry_out(plan *p, pto_kernel kernel, pto_worker_type type)
{
    world *w = p->w;
    const bool here = p->place == w->rank;
    pto_tensor args[MPI_MOST_PARAMS];
    char *block = NULL;
    trace_step(w);
    if (here) {
        for (uint32_t i = 0; i < p->n; i++) { /* each rank once, by its first parameter */
            if (way_of(p, i) == WAY_CACHED && is_first_of(p, i)) {
                PTO_TRY(move_cached(p, piece_home(p->views[i].pieces), w->rank, args));
            }
        }
    } else {
        PTO_TRY(move_cached(p, w->rank, p->place, args));
    }
    if (here && p->scratch_bytes) {
        PTO_TRY(scratch_take(p, &block));
    }
    PTO_TRY(move_copied(p, block, false));
    if (here) {
        for (uint32_t i = 0; i < p->n; i++) {
            const view *v = &p->views[i];
            switch (way_of(p, i)) {
            case WAY_LOCAL:
                args[i] = piece_tensor(v, v->pieces);
                break;
            case WAY_COPIED:
                args[i] = piece_part(v, &(piece){.ndim = v->t->ndim}, block + p->scratch_at[i]);
                memcpy(args[i].shape, v->t->shape, sizeof args[i].shape);
                break;
            case WAY_EMPTY:
                args[i] = *v->t;
                if (!v->o->temp) {
                    args[i].storage = NULL;
                    args[i].storage_bytes = 0;
                    args[i].offset = 0;
                }
                break;
            case WAY_PLAIN:
            case WAY_CACHED:
                break;
            }
        }
        w->stats.tasks++;
        PTO_TRY(run_here(p, kernel, type, args));
    }
    return move_copied(p, block, true);
}
