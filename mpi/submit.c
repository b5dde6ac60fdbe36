/* submit.c - where a task runs (M2), what has to be sent for it (M4), and the tasks and messages that follow.
 *
 * A task whose place is rank x, parameter by parameter:
 *
 *     in one tile, of x             the task works on the memory of the tile
 *     in one tile, of h, read       h sends the piece into its share of x's cache, unless it is there
 *     any other                     a dense copy in scratch memory of x: pieces are received or copied before
 *                                   the task, sent home or copied after it
 *
 * All ranks that own a piece compute the same plan, and each carries out its part, in the same order:
 * cached inputs, copied inputs, the task, outputs.
 */
#include "world.h"

typedef struct plan plan;
struct plan {
    world *w;
    const pto_param *params;
    uint32_t n;
    int place;
    bool mine; /* this rank runs it, or owns a part of it */
    view views[MPI_MOST_PARAMS];
    piece first[MPI_MOST_PARAMS];
    uint64_t scratch_at[MPI_MOST_PARAMS]; /* in the block of the task */
    uint64_t scratch_bytes;
    const char *file;
    int line;
};

static bool is_tensor(const pto_param *p)
{
    return p->kind >= PTO_PARAM_INPUT && p->kind <= PTO_PARAM_INOUT;
}

static bool reads(const pto_param *p)
{
    return p->kind == PTO_PARAM_INPUT || p->kind == PTO_PARAM_INOUT;
}

static bool writes(const pto_param *p)
{
    return p->kind == PTO_PARAM_OUTPUT || p->kind == PTO_PARAM_INOUT;
}

/* Home of a piece when the task runs: a new temporary belongs to the place. */
static int home_in(const plan *p, const piece *q)
{
    const int home = piece_home(q);
    return home < 0 ? p->place : home;
}

/* How a parameter gets to the kernel. */
typedef enum way { WAY_PLAIN, WAY_EMPTY, WAY_LOCAL, WAY_CACHED, WAY_COPIED } way;

static way way_of(const plan *p, uint32_t i)
{
    const view *v = &p->views[i];
    if (!is_tensor(&p->params[i]) || !v->o) {
        return WAY_PLAIN;
    }
    if (!v->n) {
        return WAY_EMPTY;
    }
    if (v->n == 1 && home_in(p, v->pieces) == p->place) {
        return WAY_LOCAL;
    }
    return v->n == 1 && p->params[i].kind == PTO_PARAM_INPUT ? WAY_CACHED : WAY_COPIED;
}

static uint64_t padded(uint64_t bytes)
{
    return (bytes + MPI_ALIGN - 1) / MPI_ALIGN * MPI_ALIGN;
}

/* ---- The plan ---------------------------------------------------------------------------------------- */

static uint64_t hash_param(uint64_t h, const pto_param *p, uint64_t tensor)
{
    return hash_mix(h, tensor ^ (uint64_t)p->kind << 60);
}

/* Handles of tasks differ from rank to rank. */
static uint64_t hash_other(uint64_t h, const pto_param *p)
{
    return hash_mix(hash_mix(h, (uint64_t)p->kind), p->kind == PTO_PARAM_SCALAR ? p->u64 : 0);
}

static uint64_t hash_call(const world *w, pto_kernel kernel, int rank)
{
    return hash_mix(1, (kernel ^ w->send) << 32 ^ (uint64_t)(rank + 1));
}

/* Resolves the parameters and hashes them. */
static pto_status resolve(plan *p, uint64_t *hash, uint32_t *distributed)
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
        *distributed += p->views[i].o != NULL;
    }
    return status;
}

/* Whether a view is all of a temporary, as its first writer must write it. */
static bool is_whole(const view *v)
{
    int64_t n = 1;
    for (int32_t d = 0; d < v->o->ndim; d++) {
        n *= v->o->shape[d];
    }
    return v->t->offset == 0 && pto_tensor_numel(v->t) == n && pto_tensor_is_contiguous(v->t);
}

static pto_status check_kinds(const plan *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        const pto_param *q = &p->params[i];
        const view *v = &p->views[i];
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
        if (is_tensor(q) && v->o && v->o->temp && v->o->home[0] < 0) {
            if (reads(q)) {
                return pto_fail(PTO_NOT_WRITTEN,
                                "mpi_submit: parameter %u is a temporary that no task has written",
                                i);
            }
            if (v->n && !is_whole(v)) {
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

/* M2. */
static int choose_place(const plan *p)
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
    return fresh ? (int)(fresh->o->id % (uint64_t)p->w->ranks) : 0;
}

static bool concerns_us(const plan *p)
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

/* The sizes of a plan: the same answer on all ranks that it concerns. */
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
                            "is %" PRIu64,
                            sum, piece_home(v->pieces), p->w->cache_bytes);
        }
    }
    if (p->scratch_bytes > p->w->scratch.bytes) {
        return pto_fail(PTO_TOO_LARGE,
                        "mpi_submit: the task needs %" PRIu64 " bytes of scratch memory, and "
                        "scratch_bytes is %" PRIu64,
                        p->scratch_bytes, p->w->scratch.bytes);
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

/* ---- Scratch ------------------------------------------------------------------------------------------- */

/* How the block of a task is written: sizes and cuts of its parts. */
static uint64_t what_of(const plan *p)
{
    uint64_t h = 1;
    for (uint32_t i = 0; i < p->n; i++) {
        if (way_of(p, i) != WAY_COPIED) {
            continue;
        }
        h = hash_mix(h, p->scratch_at[i]);
        h = hash_mix(h, p->views[i].bytes);
        for (uint32_t k = 0; reads(&p->params[i]) && k < p->views[i].n; k++) {
            const piece *q = &p->views[i].pieces[k];
            for (int32_t d = 0; d < q->ndim; d++) {
                h = hash_mix(h, (uint64_t)q->from[d] << 32 ^ (uint64_t)q->shape[d]);
            }
        }
    }
    return h;
}

static scratch_block *block_at(const scratch *s, uint64_t number)
{
    return &s->blocks[number & (s->capacity - 1)];
}

static pto_status heal(plan *p, const share_left *left, char *memory)
{
    return left->low == left->high
               ? PTO_OK
               : message_scrub(p->w, memory + left->low, left->high - left->low, p->file, p->line);
}

static void leave(share_left *left, const scratch_block *b)
{
    left->low = left->low == left->high || b->at < left->low ? b->at : left->low;
    left->high = b->at + b->bytes > left->high ? b->at + b->bytes : left->high;
}

/* Takes the block of a task from the ring. The runtime waits for its last users, by the memory. */
static pto_status take_scratch(plan *p, char **memory)
{
    scratch *s = &p->w->scratch;
    const uint64_t bytes = p->scratch_bytes, what = what_of(p);
    share_left here = {0}, behind = {0};
    if (!s->memory && !(s->memory = world_reserve(s->bytes))) {
        return pto_fail(PTO_OUT_OF_MEMORY, "mpi: %" PRIu64 " bytes of scratch memory", s->bytes);
    }
    if (s->head + bytes > s->bytes) {
        while (s->first != s->end && block_at(s, s->first)->at >= s->head) {
            leave(&behind, block_at(s, s->first++));
        }
        s->head = 0;
    }
    while (s->first != s->end) {
        const scratch_block *b = block_at(s, s->first);
        if (b->at >= s->head + bytes || b->at + b->bytes <= s->head) {
            break;
        }
        if (b->at != s->head || b->bytes != bytes || b->what != what) {
            leave(&here, b);
        }
        s->first++;
    }
    if (s->end - s->first == s->capacity) {
        scratch_block *more = malloc((size_t)s->capacity * 2 * sizeof *more);
        if (!more) {
            return pto_fail(PTO_OUT_OF_MEMORY, "mpi: list of scratch memory");
        }
        for (uint64_t i = s->first; i != s->end; i++) {
            more[i & (s->capacity * 2 - 1)] = *block_at(s, i);
        }
        free(s->blocks);
        s->blocks = more;
        s->capacity *= 2;
    }
    *block_at(s, s->end++) = (scratch_block){s->head, bytes, what};
    *memory = s->memory + s->head;
    s->head += bytes;
    PTO_TRY(heal(p, &behind, s->memory));
    return heal(p, &here, s->memory);
}

/* ---- Carrying it out ------------------------------------------------------------------------------------ */

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
            PTO_TRY(heal(p, &found[k].here, s->memory));
            PTO_TRY(heal(p, &found[k].behind, s->memory));
            PTO_TRY(message_receive(w, from, &args[which[k]], p->file, p->line));
        } else {
            const pto_tensor t = piece_tensor(v, pieces[k]);
            PTO_TRY(message_send(w, to, &t, p->file, p->line));
        }
    }
    return PTO_OK;
}

/* One piece between its tile and a part of the copy at the place of the task. */
static pto_status move_piece(plan *p, const view *v, const piece *q, char *copy, bool home)
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
            PTO_TRY(move_piece(p, v, &v->pieces[k], block ? block + p->scratch_at[i] : NULL, home));
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
    return pto_submit_task_at(p->w->rt, kernel, type, params, p->n, NULL, p->file, p->line);
}

static pto_status carry_out(plan *p, pto_kernel kernel, pto_worker_type type)
{
    world *w = p->w;
    const bool here = p->place == w->rank;
    pto_tensor args[MPI_MOST_PARAMS];
    char *block = NULL;
    if (here) {
        for (int from = 0; from < w->ranks; from++) {
            if (from != w->rank) {
                PTO_TRY(move_cached(p, from, w->rank, args));
            }
        }
    } else {
        PTO_TRY(move_cached(p, w->rank, p->place, args));
    }
    if (here && p->scratch_bytes) {
        PTO_TRY(take_scratch(p, &block));
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

/* The tiles that a task writes have a new version, wherever it runs, and even if it was refused. */
static void commit(plan *p, bool refused)
{
    for (uint32_t i = 0; i < p->n; i++) {
        const view *v = &p->views[i];
        if (!is_tensor(&p->params[i]) || !v->o || !writes(&p->params[i])) {
            continue;
        }
        for (uint32_t k = 0; k < v->n; k++) {
            object *o = v->pieces[k].o;
            o->version[v->pieces[k].tile] = p->w->history.step;
            if (o->temp && o->home[0] < 0 && !refused) {
                o->home[0] = p->place;
            }
        }
    }
}

/* Which step the tasks belong to that were submitted since the last call. */
void submit_remember_order(world *w)
{
    uint64_t submitted;
    const uint64_t complete = pto_watermark(w->rt, &submitted);
    pto_failure failure;
    bool failed = true;
    if (w->n_orders == w->room_orders) {
        size_t keep = 0;
        if (pto_get_failure(w->rt, &failed, &failure) == PTO_OK && !failed) {
            for (size_t i = 0; i < w->n_orders; i++) {
                if (w->orders[i].order > complete) {
                    w->orders[keep++] = w->orders[i];
                }
            }
            w->n_orders = keep;
        }
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

/* Ends a call that has begun to send: other ranks rely on it. */
static pto_status finish(world *w, pto_status status, const char *who, const char *file, int line)
{
    char why[MPI_TEXT];
    submit_remember_order(w);
    if (status == PTO_OK) {
        return PTO_OK;
    }
    snprintf(why, sizeof why, "%s", pto_error_detail());
    return world_break(w, status, "%s at %s:%d: %s", who, file ? file : "?", line, why);
}

static pto_status submit_plan(plan *p, int rank, uint32_t distributed, pto_kernel kernel,
                              pto_worker_type type)
{
    world *w = p->w;
    if (!distributed) {
        const pto_status status = pto_submit_task_at(w->rt, kernel, type, p->params, p->n, NULL,
                                                     p->file, p->line);
        submit_remember_order(w);
        w->stats.tasks++;
        return status == PTO_OK ? PTO_OK : world_refused(w, status);
    }
    pto_status status = check_kinds(p);
    if (status != PTO_OK) {
        return world_refused(w, status);
    }
    if (rank >= w->ranks || rank < PTO_MPI_OWNER) {
        return world_refuse(w, PTO_BAD_PARAM, "mpi_submit: rank %d of %d", rank, w->ranks);
    }
    p->place = rank == PTO_MPI_OWNER ? choose_place(p) : rank;
    if (!concerns_us(p)) {
        w->stats.others++;
        commit(p, false);
        for (uint32_t i = 0; i < p->n; i++) {
            if (p->views[i].o) {
                memo_add(w, &p->views[i]);
            }
        }
        return PTO_OK;
    }
    status = check_sizes(p);
    if (status == PTO_OK) {
        status = check_overlaps(p);
    }
    if (status != PTO_OK) {
        commit(p, true);
        return world_refused(w, status);
    }
    /* Before versions change: inputs are of the versions that were written before. */
    int32_t fresh[MPI_MOST_PARAMS];
    for (uint32_t i = 0; i < p->n; i++) {
        const view *v = &p->views[i];
        fresh[i] = is_tensor(&p->params[i]) && v->o && v->o->temp && v->o->home[0] < 0;
    }
    for (uint32_t i = 0; i < p->n; i++) {
        if (fresh[i]) {
            p->views[i].o->home[0] = p->place;
        }
    }
    status = carry_out(p, kernel, type);
    commit(p, false);
    return finish(w, status, "submit", p->file, p->line);
}

/* A task that is none of our business, in tiles that are known: only its hash and versions count. Comes
 * to the same as the plan would. */
static bool pass_by(world *w, int rank, pto_kernel kernel, const pto_param *params, uint32_t n,
                    const char *file, int line)
{
    enum { MOST = 8 };
    const memo *writes_to[MOST];
    uint32_t written = 0, known = 0;
    uint64_t hash = hash_call(w, kernel, rank);
    if (n > MOST || rank == w->rank || rank >= w->ranks || rank < PTO_MPI_OWNER) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        const pto_param *q = &params[i];
        if (q->kind == PTO_PARAM_SCALAR) {
            hash = hash_other(hash, q);
            continue;
        }
        const memo *m = is_tensor(q) ? memo_find(w, q->tensor) : NULL;
        if (!m || m->o->home[m->tile] == w->rank) {
            return false;
        }
        hash = hash_param(hash, q, m->hash);
        known++;
        if (writes(q)) {
            writes_to[written++] = m;
        }
    }
    if (!known) {
        return false;
    }
    history_step(w, hash, file, line);
    w->stats.others++;
    for (uint32_t i = 0; i < written; i++) {
        writes_to[i]->o->version[writes_to[i]->tile] = w->history.step;
    }
    return true;
}

/* Calls do not nest, so one plan is enough. */
static plan *plan_of(world *w, const char *file, int line)
{
    if (!w->plan && !(w->plan = calloc(1, sizeof *w->plan))) {
        return NULL;
    }
    w->plan->w = w;
    w->plan->file = file;
    w->plan->line = line;
    return w->plan;
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
    if (n_params > MPI_MOST_PARAMS) {
        return world_refuse(w, PTO_BAD_PARAM, "mpi_submit: %zu parameters (at most %d)", n_params,
                            MPI_MOST_PARAMS);
    }
    if (pass_by(w, rank, kernel, params, (uint32_t)n_params, file, line)) {
        return PTO_OK;
    }
    plan *p = plan_of(w, file, line);
    if (!p) {
        return world_break(w, PTO_OUT_OF_MEMORY, "mpi_submit: no memory");
    }
    p->params = params;
    p->n = (uint32_t)n_params;
    uint64_t hash = hash_call(w, kernel, rank);
    uint32_t distributed;
    pto_status status = resolve(p, &hash, &distributed);
    history_step(w, hash, file, line);
    status = status == PTO_OK ? submit_plan(p, rank, distributed, kernel, type)
                              : world_refused(w, status);
    for (uint32_t i = 0; i < p->n; i++) {
        view_free(&p->views[i], &p->first[i]);
    }
    return status;
}

/* ---- Reading, gather, scatter ----------------------------------------------------------------------------- */

typedef struct transfer {
    const char *who;
    int root;  /* whose memory; -1: that of all ranks */
    bool home; /* from the memory into the tiles */
    void *memory;
    uint64_t bytes;
} transfer;

/* What all ranks find. */
static pto_status check_transfer(const world *w, const transfer *x, const view *v)
{
    if (x->root >= w->ranks || x->root < -1) {
        return pto_fail(PTO_BAD_PARAM, "%s: rank %d of %d", x->who, x->root, w->ranks);
    }
    if (!v->o) {
        return pto_fail(PTO_BAD_PARAM, "%s: the tensor is not distributed", x->who);
    }
    if (v->o->temp && v->o->home[0] < 0) {
        return pto_fail(PTO_NOT_WRITTEN, "%s: no task has written the temporary", x->who);
    }
    for (uint32_t k = 0; k < v->n; k++) {
        if (piece_bytes(&v->pieces[k]) > MPI_MOST_BYTES) {
            return pto_fail(PTO_TOO_LARGE, "%s: a message of %" PRIu64 " bytes", x->who,
                            piece_bytes(&v->pieces[k]));
        }
    }
    return PTO_OK;
}

/* What only the rank finds that has the memory: the others have begun to send. */
static pto_status check_memory(const world *w, const transfer *x, const view *v)
{
    const bool here = x->root < 0 || x->root == w->rank;
    if (here && v->bytes && (!x->memory || x->bytes < v->bytes)) {
        return pto_fail(x->memory ? PTO_BUFFER_TOO_SMALL : PTO_NULL_ARGUMENT,
                        "%s: %" PRIu64 " bytes of memory, and the tensor has %" PRIu64, x->who,
                        x->memory ? x->bytes : 0, v->bytes);
    }
    return PTO_OK;
}

/* The messages of one piece. */
static pto_status transfer_piece(plan *p, const transfer *x, const view *v, const piece *q)
{
    const int home = piece_home(q);
    if (x->root >= 0) {
        p->place = x->root;
        return move_piece(p, v, q, x->memory, x->home);
    }
    p->place = p->w->rank;
    PTO_TRY(move_piece(p, v, q, x->memory, false));
    for (int to = 0; home == p->w->rank && to < p->w->ranks; to++) {
        if (to != home) {
            p->place = to;
            PTO_TRY(move_piece(p, v, q, NULL, false));
        }
    }
    return PTO_OK;
}

/* Waits until the memory may be used. */
static pto_status wait_memory(plan *p, const transfer *x, const view *v)
{
    world *w = p->w;
    if ((x->root >= 0 && x->root != w->rank) || !v->n) {
        return PTO_OK;
    }
    const pto_tensor all = {.storage = x->memory,
                            .storage_bytes = v->bytes,
                            .ndim = 1,
                            .dtype = PTO_UINT8,
                            .shape = {(int64_t)v->bytes},
                            .strides = {1}};
    const pto_status status = x->home ? pto_wait_unused_at(w->rt, &all, p->file, p->line)
                                      : pto_wait_tensor_at(w->rt, &all, p->file, p->line);
    if (status == PTO_POISONED && !x->home) {
        char why[MPI_TEXT];
        snprintf(why, sizeof why, "%s", pto_error_detail());
        /* The memory is the program's own: it must not stay poisoned. */
        PTO_TRY(message_scrub(w, x->memory, v->bytes, p->file, p->line));
        PTO_TRY(world_check(w));
        return pto_fail(PTO_POISONED, "%s", why);
    }
    const pto_status broken = world_check(w);
    return broken == PTO_OK ? status : broken;
}

static pto_status transfer_all(world *w, const pto_tensor *t, const transfer *x, uint64_t hash,
                               const char *file, int line)
{
    plan *p = plan_of(w, file, line);
    if (!p) {
        return world_break(w, PTO_OUT_OF_MEMORY, "%s: no memory", x->who);
    }
    p->n = 0;
    view *v = &p->views[0];
    pto_status status = view_resolve(w, x->who, t, &p->first[0], v);
    hash = hash_mix(hash, (uint64_t)x->root + 1);
    if (t) {
        hash = hash_mix(hash, view_hash(v->o, t));
    }
    history_step(w, hash, file, line);
    if (status == PTO_OK) {
        status = check_transfer(w, x, v);
    }
    if (status != PTO_OK) {
        status = world_refused(w, status);
    } else {
        status = check_memory(w, x, v);
        for (uint32_t k = 0; k < v->n && status == PTO_OK; k++) {
            status = transfer_piece(p, x, v, &v->pieces[k]);
            if (x->home) {
                v->o->version[v->pieces[k].tile] = w->history.step;
            }
        }
        status = finish(w, status, x->who, file, line);
        if (status == PTO_OK) {
            status = wait_memory(p, x, v);
        }
    }
    view_free(v, &p->first[0]);
    return status;
}

pto_status pto_mpi_read_at(pto_runtime *rt, const pto_tensor *t, void *to, uint64_t bytes,
                           const char *file, int line)
{
    world *w = world_of(rt);
    if (!w) {
        return pto_fail(PTO_NULL_ARGUMENT, "mpi_read: the runtime is in no world");
    }
    PTO_TRY(world_check(w));
    if (t && !object_find(w, t)) {
        history_step(w, 31, file, line);
        return pto_read_at(rt, t, to, bytes, file, line);
    }
    const transfer x = {"mpi_read", -1, false, to, bytes};
    return transfer_all(w, t, &x, 32, file, line);
}

pto_status pto_mpi_gather_at(pto_runtime *rt, const pto_tensor *t, int root, void *to,
                             uint64_t bytes, const char *file, int line)
{
    world *w = world_of(rt);
    if (!w) {
        return pto_fail(PTO_NULL_ARGUMENT, "mpi_gather: the runtime is in no world");
    }
    PTO_TRY(world_check(w));
    const transfer x = {"mpi_gather", root < 0 ? w->ranks : root, false, to, bytes};
    return transfer_all(w, t, &x, 33, file, line);
}

pto_status pto_mpi_scatter_at(pto_runtime *rt, const pto_tensor *t, int root, const void *from,
                              uint64_t bytes, const char *file, int line)
{
    world *w = world_of(rt);
    if (!w) {
        return pto_fail(PTO_NULL_ARGUMENT, "mpi_scatter: the runtime is in no world");
    }
    PTO_TRY(world_check(w));
    const transfer x = {"mpi_scatter", root < 0 ? w->ranks : root, true, (void *)(uintptr_t)from,
                        bytes};
    return transfer_all(w, t, &x, 34, file, line);
}
