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
    uint64_t dropped = 0;
    if (!share_take(s, pieces, n, w->history.step, found, &dropped)) {
        return pto_fail(PTO_OUT_OF_MEMORY, "mpi: table of a share");
    }
    w->stats.dropped += in ? dropped : 0;
    for (uint32_t k = 0; k < n; k++) {
        const view *v = &p->views[which[k]];
        pto_tensor t;
        if (in) {
            w->stats.hits += found[k].hit;
            PTO_TRY(stage_receive(p, from, found[k].hit ? -1 : from, v, pieces[k], &found[k], &t,
                                  &args[which[k]]));
        } else if (!found[k].hit) {
            PTO_TRY(stage_send(p, to, v, pieces[k], &found[k], &t));
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
    if (!place) {
        return own ? stage_tile(p, v, q, p->place, home) : PTO_OK;
    }
    pto_tensor part = piece_part(v, q, copy), there;
    PTO_TRY(stage_scratch(p, q->o, &part, &there));
    if (own) {
        const pto_tensor tile = piece_tensor(v, q);
        w->stats.copies++;
        if (w->counting) {
            return PTO_OK;
        }
        return home ? pto_copy_at(w->rt, &tile, &there, p->file, p->line)
                    : pto_copy_at(w->rt, &there, &tile, p->file, p->line);
    }
    const bool staged = there.device.type != PTO_DEVICE_CPU;
    if (home) {
        PTO_TRY(staged ? stage_copy(p, &part, &there) : PTO_OK);
        return message_send(w, at, &part, p->file, p->line);
    }
    PTO_TRY(message_receive(w, at, &part, p->file, p->line));
    return staged ? stage_copy(p, &there, &part) : PTO_OK;
}

/* ---- Copied parameters ------------------------------------------------------------------------------- */

/* A piece on its way between its tile and the copy at the place of the task. */
typedef struct parcel {
    const view *v;
    const piece *q;
    char *copy;
    bool done;
} parcel;

enum { PARCELS = 64 }; /* pieces of a task that are looked through at a time */

/* Whether a piece may share a message. All ranks that it concerns get the same answer. On a device each is staged by
 * itself. */
static bool is_small(const plan *p, const parcel *x)
{
    return !x->done && !x->q->o->twins && piece_home(x->q) != p->place &&
           piece_bytes(x->q) <= p->w->small_bytes;
}

/* The first parcel, and the small ones after it of the same home: one message. They are pieces of one task, before
 * it or after it: if one is poisoned, the task is, and no other task reads the copies. So nothing is lost by
 * letting all of them fail. */
static pto_status carry_together(plan *p, parcel *list, uint32_t n, bool home)
{
    world *w = p->w;
    pto_tensor pieces[MPI_MOST_PIECES];
    uint32_t count = 0;
    const int at = piece_home(list->q);
    const bool place = p->place == w->rank;
    for (uint32_t i = 0; i < n && count < MPI_MOST_PIECES; i++) {
        parcel *x = &list[i];
        if (is_small(p, x) && piece_home(x->q) == at) {
            pieces[count++] = place ? piece_part(x->v, x->q, x->copy) : piece_tensor(x->v, x->q);
            x->done = true;
        }
    }
    return place == home
               ? message_send_all(w, place ? at : p->place, pieces, count, p->file, p->line)
               : message_receive_all(w, place ? at : p->place, pieces, count, p->file, p->line);
}

static pto_status carry_parcels(plan *p, parcel *list, uint32_t n, bool home)
{
    for (uint32_t i = 0; i < n; i++) {
        parcel *x = &list[i];
        const int at = piece_home(x->q);
        if (x->done || (p->place != p->w->rank && at != p->w->rank)) {
            continue;
        }
        PTO_TRY(is_small(p, x) ? carry_together(p, x, n - i, home)
                               : carry_piece(p, x->v, x->q, x->copy, home));
    }
    return PTO_OK;
}

static pto_status move_copied(plan *p, char *block, bool home)
{
    parcel list[PARCELS];
    uint32_t n = 0;
    if (!(p->ways_taken & 1u << WAY_COPIED)) {
        return PTO_OK;
    }
    for (uint32_t i = 0; i < p->n; i++) {
        const view *v = &p->views[i];
        if (way_of(p, i) != WAY_COPIED || !(home ? writes : reads)(&p->params[i])) {
            continue;
        }
        for (uint32_t k = 0; k < v->n; k++) {
            if (n == PARCELS) {
                PTO_TRY(carry_parcels(p, list, n, home));
                n = 0;
            }
            list[n++] = (parcel){v, &v->pieces[k], block ? block + p->scratch_at[i] : NULL, false};
        }
    }
    return carry_parcels(p, list, n, home);
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

/* All of a dense copy. */
static pto_status copied_arg(plan *p, const view *v, char *copy, pto_tensor *arg)
{
    pto_tensor all = piece_part(v, &(piece){.ndim = v->t->ndim}, copy);
    memcpy(all.shape, v->t->shape, sizeof all.shape);
    return stage_scratch(p, v->o, &all, arg);
}

/* A view without elements needs no memory: neither that of a tile, nor that of a temporary, which lives on one rank
 * only. */
static pto_tensor nowhere(const view *v)
{
    pto_tensor t = {.ndim = v->t->ndim, .dtype = v->t->dtype, .device = object_device(v->o)};
    memcpy(t.shape, v->t->shape, sizeof t.shape);
    memcpy(t.strides, v->t->strides, sizeof t.strides);
    return t;
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
                PTO_TRY(copied_arg(p, v, block + p->scratch_at[i], &args[i]));
                break;
            case WAY_EMPTY:
                args[i] = nowhere(v);
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
