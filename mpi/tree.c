/* tree.c - one piece to many ranks, along a binomial tree.
 *
 *     position   0 is the home of the piece, then the readers by rank, from the home on and around
 *     parent     of position i: i without its lowest bit
 *     children   of position i: i + 1, 2, 4 ... below the lowest bit of i; of the home: all of them
 *
 *                 0                    eight ranks: the home sends three times, and the last one has the piece
 *           4     2   1                after three messages
 *          6 5    3
 *          7
 *
 * Who reads is announced by the program (pto_mpi_broadcast), or known (pto_mpi_read: all). So every rank that takes
 * part computes the same tree, and nobody asks.
 *
 *     M7  tree   the step has one message for each position but 0, from its parent. A rank receives before it
 *                sends. The piece lies where it would lie if the home had sent it: in the share that the home has in
 *                the cache of the reader, and both take room there (M5), whether or not it was there before
 *
 * Why that cannot deadlock: order the messages of the step by depth in the tree. A message waits for that of its
 * parent, which is earlier, and for the last users of its room, which belong to earlier steps. So the
 * earliest one can always pass, as docs/mpi.md says of steps with one message.
 */
#include "plan.h"

enum { BROADCAST_MOST = 8 }; /* views that name readers */

int tree_parent(int position)
{
    return position & (position - 1);
}

int tree_child(int position, int n, int k)
{
    const int low = position ? position & -position : n;
    int bit = 1, count = 0;
    while (bit < low && position + bit < n) {
        bit <<= 1;
        count++;
    }
    return k < count ? position + (1 << (count - 1 - k)) : -1; /* the largest part first */
}

/* ---- Readers --------------------------------------------------------------------------------------- */

typedef struct readers {
    uint32_t n;
    tile_box boxes[BROADCAST_MOST];
} readers;

static bool is_reader(const readers *r, int rank)
{
    for (uint32_t i = 0; i < r->n; i++) {
        if (box_has(&r->boxes[i], rank)) {
            return true;
        }
    }
    return false;
}

/* Marks the owners of a box. */
static void mark_owners(const tile_box *b, uint8_t *marks)
{
    int64_t index[PTO_MAX_DIMS];
    const object *o = b->o;
    memcpy(index, b->from, sizeof index);
    for (int32_t d = 0; d >= 0;) {
        int64_t tile = 0;
        for (int32_t k = 0; k < o->ndim; k++) {
            tile = tile * o->tiles[k] + index[k];
        }
        marks[o->home[tile]] = 1;
        for (d = o->ndim - 1; d >= 0; d--) { /* owners repeat with the grid */
            const int64_t to = o->grid[0] && b->to[d] - b->from[d] > o->grid[d]
                                   ? b->from[d] + o->grid[d]
                                   : b->to[d];
            if (++index[d] < to) {
                break;
            }
            index[d] = b->from[d];
        }
    }
}

/* Ranks by position: the home, then the readers. Returns how many. */
static int list_ranks(const world *w, const readers *r, int home, uint8_t *marks, int *list)
{
    int n = 0;
    memset(marks, 0, (size_t)w->ranks);
    for (uint32_t i = 0; i < r->n; i++) {
        mark_owners(&r->boxes[i], marks);
    }
    list[n++] = home;
    for (int i = 1; i < w->ranks; i++) {
        const int rank = (home + i) % w->ranks;
        if (marks[rank]) {
            list[n++] = rank;
        }
    }
    return n;
}

/* ---- One piece ---------------------------------------------------------------------------------------- */

static pto_status send_on(plan *p, const pto_tensor *t, const int *list, int n, int position)
{
    for (int k = 0, child; (child = tree_child(position, n, k)) >= 0; k++) {
        PTO_TRY(message_send(p->w, list[child], t, p->file, p->line));
    }
    return PTO_OK;
}

static pto_status take_room(world *w, share *s, const piece *q, share_find *found,
                            uint64_t *dropped)
{
    if (!s->entries) {
        PTO_TRY(share_init(s, w->cache_bytes));
    }
    return share_take(s, &q, 1, w->history.step, found, dropped)
               ? PTO_OK
               : pto_fail(PTO_OUT_OF_MEMORY, "mpi: table of a share");
}

static pto_status broadcast_piece(plan *p, const view *v, const piece *q, const int *list, int n)
{
    world *w = p->w;
    int position = 0;
    share_find found;
    uint64_t dropped = 0;
    while (position < n && list[position] != w->rank) {
        position++;
    }
    if (position == n || n == 1) {
        return PTO_OK;
    }
    pto_tensor t, arg;
    if (position == 0) {
        for (int i = 1; i < n; i++) {
            PTO_TRY(take_room(w, &w->peers[list[i]].out, q, &found, &dropped));
            PTO_TRY(i == 1 ? stage_send(p, list[i], v, q, &found, &t)
                           : stage_heal_sent(p, list[i], &found));
        }
        return send_on(p, &t, list, n, 0);
    }
    PTO_TRY(take_room(w, &w->peers[list[0]].in, q, &found, &dropped));
    w->stats.dropped += dropped;
    PTO_TRY(stage_receive(p, list[0], list[tree_parent(position)], v, q, &found, &t, &arg));
    return send_on(p, &t, list, n, position);
}

/* ---- The call ------------------------------------------------------------------------------------------- */

static pto_status check(const world *w, const view *v)
{
    if (v->o->temp && v->o->home[0] < 0) {
        return pto_fail(PTO_NOT_WRITTEN, "mpi_broadcast: no task has written the temporary");
    }
    for (uint32_t k = 0; k < v->n; k++) {
        const uint64_t bytes = piece_bytes(&v->pieces[k]);
        if (padded(bytes) > w->cache_bytes || bytes > MPI_MOST_BYTES) {
            return pto_fail(PTO_TOO_LARGE,
                            "mpi_broadcast: a piece of %" PRIu64
                            " bytes, and cache_bytes is %" PRIu64 " (a message has at most %" PRIu64
                            "): use smaller tiles, or raise it",
                            bytes, w->cache_bytes, MPI_MOST_BYTES);
        }
    }
    return PTO_OK;
}

static pto_status carry(plan *p, const view *v, const readers *r)
{
    world *w = p->w;
    int *list = malloc((size_t)w->ranks * (sizeof *list + 1));
    pto_status status = list ? PTO_OK : pto_fail(PTO_OUT_OF_MEMORY, "mpi: list of readers");
    uint8_t *marks = list ? (uint8_t *)(list + w->ranks) : NULL;
    for (uint32_t k = 0; k < v->n && status == PTO_OK; k++) {
        const piece *q = &v->pieces[k];
        const int n = list_ranks(w, r, piece_home(q), marks, list);
        status = broadcast_piece(p, v, q, list, n);
    }
    free(list);
    return status;
}

/* The readers, and what they add to the hash. */
static pto_status read_readers(world *w, const pto_param *params, size_t n, readers *r,
                               uint64_t *hash)
{
    if (n > BROADCAST_MOST) {
        return pto_fail(PTO_BAD_PARAM, "mpi_broadcast: %zu views of readers (at most %d)", n,
                        BROADCAST_MOST);
    }
    for (size_t i = 0; i < n; i++) {
        const pto_tensor *t = is_tensor(&params[i]) ? params[i].tensor : NULL;
        uint32_t pieces;
        if (!t) {
            return pto_fail(PTO_BAD_PARAM, "mpi_broadcast: reader %zu is no tensor", i);
        }
        PTO_TRY(box_of(w, "mpi_broadcast", t, &r->boxes[r->n], &pieces));
        *hash = hash_param(*hash, &params[i], view_hash(r->boxes[r->n].o, t));
        if (r->boxes[r->n].o->temp && r->boxes[r->n].o->home[0] < 0) {
            return pto_fail(PTO_NOT_WRITTEN, "mpi_broadcast: reader %zu has no owner yet", i);
        }
        r->n += pieces != 0;
    }
    return PTO_OK;
}

pto_status pto_mpi_broadcast_at(pto_runtime *rt, const pto_tensor *t, const pto_param *params,
                                size_t n_params, const char *file, int line)
{
    world *w = world_of(rt);
    if (!w || !t || (n_params && !params)) {
        return pto_fail(PTO_NULL_ARGUMENT, "mpi_broadcast: %s",
                        !w   ? "the runtime is in no world"
                        : !t ? "the tensor is NULL"
                             : "the readers are NULL");
    }
    PTO_TRY(world_enter(w, "mpi_broadcast", file, line));
    PTO_TRY(only_refuses(w, "mpi_broadcast"));
    readers r = {0};
    tile_box own = {0};
    uint32_t pieces = 0;
    uint64_t hash = 51;
    pto_status status = box_of(w, "mpi_broadcast", t, &own, &pieces);
    if (status == PTO_OK) {
        hash = hash_next(hash, view_hash(own.o, t));
        status = read_readers(w, params, n_params, &r, &hash);
    }
    history_step(w, hash, file, line);
    if (status != PTO_OK) {
        return world_refused(w, status);
    }
    if (!is_reader(&r, w->rank) && !box_has(&own, w->rank)) {
        w->stats.others++;
        return PTO_OK;
    }
    plan *p = plan_of(w, file, line);
    if (!p) {
        return world_break(w, PTO_OUT_OF_MEMORY, "mpi_broadcast: no memory");
    }
    p->n = 0;
    view *v = &p->views[0];
    status = view_resolve(w, "mpi_broadcast", t, &p->first[0], v);
    status = status == PTO_OK ? check(w, v) : status;
    if (status != PTO_OK) {
        status = world_refused(w, status);
    } else {
        trace_step(w);
        status = submit_finish(w, carry(p, v, &r), "mpi_broadcast", file, line);
    }
    view_free(v, &p->first[0]);
    return status;
}
