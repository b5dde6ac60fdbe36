/* view.c - views of distributed tensors as pieces of tiles. The offset and the strides of a view tell which
 * elements it has:
 *
 *     offset = sum c[d] * strides[d]         digits c[d] < shape[d]: the indices of its first element
 *     stride = sum k[d] * strides[d]         one step along a dim of the view moves by k[d] along d
 *
 * Views of temporaries need no such arithmetic: a temporary is one tile, with the same strides on every rank.
 */
#include "world.h"

/* The indices of an element of a tensor. */
static void digits(const object *o, int64_t offset, int64_t *c)
{
    for (int32_t d = 0; d < o->ndim; d++) {
        c[d] = offset / o->strides[d];
        offset -= c[d] * o->strides[d];
    }
}

/* What one step along dim v of the view does to the indices. */
static void step_of(const object *o, const pto_tensor *t, int32_t v, const int64_t *c, int64_t *k)
{
    int64_t to[PTO_MAX_DIMS];
    digits(o, t->offset + t->strides[v], to);
    for (int32_t d = 0; d < o->ndim; d++) {
        k[d] = to[d] - c[d];
    }
}

/* Of a dense tile. Returns how many elements it has. */
static int64_t local_strides(const object *o, const int64_t *index, int64_t *strides)
{
    int64_t stride = 1;
    for (int32_t d = o->ndim - 1; d >= 0; d--) {
        strides[d] = stride;
        stride *= tile_size(o, d, index[d]);
    }
    return stride;
}

/* The piece of a view that begins at `from`, whose first element has the indices c. */
static void make_piece(object *o, const int64_t *c, const int64_t (*k)[PTO_MAX_DIMS],
                       const pto_tensor *t, piece *p)
{
    int64_t index[PTO_MAX_DIMS] = {0}, strides[PTO_MAX_DIMS] = {0};
    p->o = o;
    p->tile = 0;
    p->offset = 0;
    p->ndim = t->ndim;
    for (int32_t d = 0; d < o->ndim; d++) {
        index[d] = c[d] / o->tile[d];
        p->tile = p->tile * o->tiles[d] + index[d];
    }
    p->tile_bytes = (uint64_t)local_strides(o, index, strides) * o->element;
    for (int32_t d = 0; d < o->ndim; d++) {
        p->offset += (c[d] - index[d] * o->tile[d]) * strides[d];
    }
    for (int32_t v = 0; v < t->ndim; v++) {
        p->strides[v] = 0;
        for (int32_t d = 0; d < o->ndim && p->shape[v] > 1; d++) {
            p->strides[v] += k[v][d] * strides[d];
        }
    }
}

/* How many steps along a dim stay in the tile, from index c on, with steps of k. */
static int64_t steps_in_tile(const object *o, int32_t d, int64_t c, int64_t k)
{
    const int64_t low = c / o->tile[d] * o->tile[d];
    const int64_t high = low + tile_size(o, d, c / o->tile[d]) - 1;
    return k == 0 ? INT64_MAX : k < 0 ? (c - low) / -k + 1 : (high - c) / k + 1;
}

typedef struct walk {
    object *o;
    const pto_tensor *t;
    int64_t c[PTO_MAX_DIMS];               /* indices of the first element */
    int64_t k[PTO_MAX_DIMS][PTO_MAX_DIMS]; /* steps of each dim of the view */
    int32_t along[PTO_MAX_DIMS];           /* the dim of the tensor along which it runs; -1: none */
} walk;

/* Whether the view stays in the tensor, as indices see it: no step carries into another digit. Then
 * every element has the indices c + sum i[v] k[v]. */
static bool is_linear(walk *w, bool *one_tile, bool *straight)
{
    int64_t low[PTO_MAX_DIMS], high[PTO_MAX_DIMS], used = 0;
    const object *o = w->o;
    memcpy(low, w->c, sizeof low);
    memcpy(high, w->c, sizeof high);
    *straight = true;
    for (int32_t v = 0; v < w->t->ndim; v++) {
        w->along[v] = -1;
        memset(w->k[v], 0, sizeof w->k[v]);
        if (w->t->shape[v] <= 1 || w->t->strides[v] == 0) {
            continue;
        }
        step_of(o, w->t, v, w->c, w->k[v]);
        for (int32_t d = 0; d < o->ndim; d++) {
            const int64_t k = w->k[v][d];
            if (k) {
                *straight = *straight && w->along[v] < 0 && !(used >> d & 1);
                used |= INT64_C(1) << d;
                w->along[v] = d;
                *(k < 0 ? &low[d] : &high[d]) += k * (w->t->shape[v] - 1);
            }
        }
    }
    *one_tile = true;
    for (int32_t d = 0; d < o->ndim; d++) {
        if (low[d] < 0 || high[d] >= o->shape[d]) {
            return false;
        }
        *one_tile = *one_tile && low[d] / o->tile[d] == high[d] / o->tile[d];
    }
    return true;
}

/* Cuts a view at the borders of tiles: the product of the cuts of its dims. */
static pto_status cut(const walk *w, view *v)
{
    const pto_tensor *t = w->t;
    uint32_t room = 0;
    int64_t from[PTO_MAX_DIMS] = {0};
    v->pieces = NULL;
    for (int32_t d = 0; d >= 0;) {
        int64_t c[PTO_MAX_DIMS], size[PTO_MAX_DIMS] = {0};
        memcpy(c, w->c, sizeof c);
        for (int32_t i = 0; i < t->ndim; i++) {
            const int32_t a = w->along[i];
            size[i] = t->shape[i] - from[i];
            if (a >= 0) {
                c[a] += from[i] * w->k[i][a];
                const int64_t most = steps_in_tile(w->o, a, c[a], w->k[i][a]);
                size[i] = size[i] < most ? size[i] : most;
            }
        }
        if (v->n == room) {
            room = room ? room * 2 : 16;
            piece *more = realloc(v->pieces, room * sizeof *more);
            if (!more) {
                return pto_fail(PTO_OUT_OF_MEMORY, "mpi: %u pieces of a view", room);
            }
            v->pieces = more;
        }
        piece *p = &v->pieces[v->n++];
        memcpy(p->from, from, sizeof from);
        memcpy(p->shape, size, sizeof size);
        make_piece(w->o, c, w->k, t, p);
        for (d = t->ndim - 1; d >= 0; d--) {
            from[d] += size[d];
            if (from[d] < t->shape[d]) {
                break;
            }
            from[d] = 0;
        }
    }
    return PTO_OK;
}

/* Whether each step along a dim goes beyond all elements of the dims after it. */
static bool is_nested(const pto_tensor *t)
{
    uint64_t reach = 0; /* from the first to the last element of the dims after d */
    for (int32_t d = t->ndim - 1; d >= 0; d--) {
        const uint64_t step = (uint64_t)t->strides[d], stride = t->strides[d] < 0 ? -step : step;
        if (t->shape[d] > 1 && stride <= reach) {
            return false;
        }
        reach += ((uint64_t)t->shape[d] - 1) * stride;
    }
    return true;
}

/* Whether two indices of a view are one element, as in a broadcast or a sliding window. Two halves that share nothing
 * leave the question to one of them, since the other one is the same, moved. */
static bool repeats(const pto_tensor *t)
{
    pto_tensor part = *t;
    for (int32_t d = 0; d < t->ndim && !is_nested(&part); d++) {
        while (part.shape[d] > 1) {
            const int64_t half = (part.shape[d] + 1) / 2;
            pto_tensor rest = part;
            rest.offset += half * part.strides[d];
            rest.shape[d] -= half;
            part.shape[d] = half;
            if (pto_tensor_overlaps(&part, &rest)) {
                return true;
            }
        }
    }
    return false;
}

/* ---- Known tiles ----------------------------------------------------------------------------------------- */

uint64_t view_hash(const object *o, const pto_tensor *t)
{
    uint64_t tile;
    if (o && whole_tile(&o->whole, t, &tile)) {
        return tile_hash(&o->whole, tile);
    }
    uint64_t h = hash_mix((uint64_t)t->ndim << 16 | (uint64_t)t->dtype,
                          o ? o->id ^ (uint64_t)t->offset << 20 : 0);
    for (int32_t d = 0; d < t->ndim && d < PTO_MAX_DIMS; d++) {
        h = hash_mix(h, (uint64_t)t->shape[d] ^ (uint64_t)t->strides[d] << 32);
    }
    return h;
}

static memo *memo_at(const world *w, const pto_tensor *t)
{
    return &w->memo[hash_mix((uint64_t)(uintptr_t)t->storage ^ (uint64_t)t->shape[0] << 40,
                             (uint64_t)t->offset) >>
                        50 &
                    (MPI_MEMO - 1)];
}

const memo *memo_find(const world *w, const pto_tensor *t)
{
    const memo *m = w->memo && t ? memo_at(w, t) : NULL;
    if (!m || m->storage != t->storage || m->offset != t->offset || m->ndim != t->ndim ||
        m->dtype != t->dtype || t->owner) {
        return NULL;
    }
    for (int32_t d = 0; d < t->ndim; d++) {
        if (m->shape[d] != t->shape[d] || m->strides[d] != t->strides[d]) {
            return NULL;
        }
    }
    return m;
}

static void memo_add(world *w, const view *v)
{
    const piece *p = v->pieces;
    if (v->t->ndim > MPI_MEMO_DIMS ||
        (!w->memo && !(w->memo = calloc(MPI_MEMO, sizeof *w->memo)))) {
        return;
    }
    memo *m = memo_at(w, v->t);
    *m = (memo){.storage = v->t->storage,
                .offset = v->t->offset,
                .ndim = v->t->ndim,
                .dtype = v->t->dtype,
                .home = piece_home(p),
                .version = &v->o->version[p->tile],
                .hash = view_hash(v->o, v->t),
                .o = v->o,
                .tile = p->tile,
                .at = p->offset,
                .repeats = v->repeats,
                .bytes = v->bytes,
                .tile_bytes = p->tile_bytes};
    memcpy(m->shape, v->t->shape, sizeof m->shape);
    memcpy(m->strides, v->t->strides, sizeof m->strides);
    memcpy(m->local, p->strides, sizeof m->local);
}

/* A view that was resolved before. */
static void recall(const memo *m, const pto_tensor *t, piece *first, view *v)
{
    v->o = m->o;
    v->repeats = m->repeats;
    v->bytes = m->bytes;
    v->n = 1;
    first->o = m->o;
    first->tile = m->tile;
    first->offset = m->at;
    first->tile_bytes = m->tile_bytes;
    first->ndim = t->ndim;
    for (int32_t d = 0; d < MPI_MEMO_DIMS; d++) {
        first->from[d] = 0;
        first->shape[d] = t->shape[d];
        first->strides[d] = m->local[d];
    }
}

/* A whole tile of full size of a matrix. */
static void resolve_whole(object *o, uint64_t tile, const pto_tensor *t, piece *first, view *v)
{
    v->n = 1;
    first->o = o;
    first->tile = (int64_t)tile;
    first->offset = 0;
    first->tile_bytes = v->bytes = (uint64_t)(t->shape[0] * t->shape[1]) * o->element;
    first->ndim = 2;
    for (int32_t d = 0; d < 2; d++) {
        first->from[d] = 0;
        first->shape[d] = t->shape[d];
    }
    first->strides[0] = t->shape[0] > 1 ? t->shape[1] : 0;
    first->strides[1] = t->shape[1] > 1;
}

/* ---- Resolving ----------------------------------------------------------------------------------------------- */

pto_status view_resolve(world *w, const char *who, const pto_tensor *t, piece *first, view *v)
{
    *v = (view){.t = t, .pieces = first};
    if (!t) {
        return pto_fail(PTO_NULL_ARGUMENT, "%s: a tensor is NULL", who);
    }
    const memo *m = memo_find(w, t);
    if (m) {
        recall(m, t, first, v);
        return PTO_OK;
    }
    uint64_t tile;
    v->o = object_find(w, t);
    if (v->o && whole_tile(&v->o->whole, t, &tile)) {
        resolve_whole(v->o, tile, t, first, v);
        return PTO_OK;
    }
    if (t->owner) { /* its record stays when its scope ends, until another temporary takes its place */
        PTO_TRY(pto_check_alive(w->rt, who, t));
    }
    if (!v->o) {
        return !t->owner && zone_has(t->storage)
                   ? pto_fail(PTO_STALE,
                              "%s: this is no distributed tensor of this world: its world "
                              "has ended, or it is that of another runtime",
                              who)
                   : PTO_OK;
    }
    PTO_TRY(pto_tensor_nbytes(t, &v->bytes));
    if (pto_dtype_size(t->dtype) != v->o->element) {
        return pto_fail(PTO_BAD_DTYPE, "%s: a view with elements of %zu bytes, not %" PRIu64, who,
                        pto_dtype_size(t->dtype), v->o->element);
    }
    if (!v->bytes) {
        return PTO_OK;
    }
    v->n = 1;
    v->repeats = repeats(t);
    if (v->o->temp) {
        first->o = v->o;
        first->tile = 0;
        first->offset = t->offset;
        first->ndim = t->ndim;
        memset(first->from, 0, sizeof first->from);
        memcpy(first->shape, t->shape, sizeof first->shape);
        memcpy(first->strides, t->strides, sizeof first->strides);
        return PTO_OK;
    }
    walk in = {.o = v->o, .t = t};
    bool one_tile, straight;
    digits(v->o, t->offset, in.c);
    const bool linear = is_linear(&in, &one_tile, &straight);
    if (!linear || (!one_tile && !straight)) {
        return pto_fail(PTO_NEEDS_COPY,
                        "%s: the dims of a view that crosses tiles must run along those of the "
                        "tensor",
                        who);
    }
    if (one_tile) {
        memset(first->from, 0, sizeof first->from);
        memcpy(first->shape, t->shape, sizeof first->shape);
        make_piece(v->o, in.c, in.k, t, first);
        memo_add(w, v);
        return PTO_OK;
    }
    v->n = 0;
    return cut(&in, v);
}

void view_free(view *v, const piece *first)
{
    if (v->pieces != first) {
        free(v->pieces);
    }
}

pto_tensor piece_tensor(const view *v, const piece *p)
{
    const object *o = p->o;
    pto_tensor t = *v->t;
    t.device = object_device(o);
    if (o->temp) {
        return t; /* a temporary is one piece */
    }
    t.storage = o->memory + o->at[p->tile];
    t.storage_bytes = p->tile_bytes;
    t.offset = p->offset;
    memcpy(t.shape, p->shape, (size_t)p->ndim * sizeof *t.shape);
    memcpy(t.strides, p->strides, (size_t)p->ndim * sizeof *t.strides);
    return t;
}

static pto_tensor dense(const pto_tensor *of, int32_t ndim, const int64_t *shape, char *memory)
{
    pto_tensor t = {.storage = memory, .ndim = ndim, .dtype = of->dtype};
    int64_t stride = 1;
    for (int32_t d = ndim - 1; d >= 0; d--) {
        t.shape[d] = shape[d];
        t.strides[d] = stride;
        stride *= shape[d];
    }
    t.storage_bytes = (uint64_t)stride * pto_dtype_size(t.dtype);
    return t;
}

pto_tensor piece_dense(const view *v, const piece *p, char *memory)
{
    return dense(v->t, p->ndim, p->shape, memory);
}

pto_tensor piece_part(const view *v, const piece *p, char *memory)
{
    pto_tensor t = dense(v->t, v->t->ndim, v->t->shape, memory);
    for (int32_t d = 0; d < t.ndim; d++) {
        t.offset += p->from[d] * t.strides[d];
        t.shape[d] = p->shape[d];
    }
    return t;
}

int pto_mpi_owner(pto_runtime *rt, const pto_tensor *t)
{
    world *w = world_of(rt);
    piece first;
    view v;
    if (!w || view_resolve(w, "mpi_owner", t, &first, &v) != PTO_OK) {
        return -1;
    }
    const int home = v.o && v.n ? piece_home(&v.pieces[0]) : -1;
    view_free(&v, &first);
    return home;
}
