/* tensor.c - distributed tensors and temporaries, and views of them as pieces of tiles.
 *
 * A distributed tensor is a dense tensor over addresses that are reserved and never accessible. So
 * views of it are ordinary views, and all functions on tensors work. The offset and the strides of
 * a view tell which elements it has:
 *
 *     offset = sum c[d] * strides[d]         digits c[d] < shape[d]: the indices of its first element
 *     stride = sum k[d] * strides[d]         one step along a dim of the view moves by k[d] along d
 *
 * Views of temporaries need no such arithmetic: a temporary is one tile, with the same strides on every rank.
 */
#include <sys/mman.h>

#include "world.h"

/* ---- The table ------------------------------------------------------------------------------------ */

static uint32_t bucket_of(const world *w, uint64_t key)
{
    return (uint32_t)(hash_mix(0, key) >> 20) & (w->buckets - 1);
}

static pto_status grow_table(world *w)
{
    if (w->n_objects < w->buckets) {
        return PTO_OK;
    }
    const uint32_t old = w->buckets;
    object **before = w->table, **table = calloc(old ? old * 2 : 64, sizeof(object *));
    if (!table) {
        return pto_fail(PTO_OUT_OF_MEMORY, "mpi: table of tensors");
    }
    w->table = table;
    w->buckets = old ? old * 2 : 64;
    for (uint32_t i = 0; i < old; i++) {
        for (object *o = before[i], *next; o; o = next) {
            object **at = &table[bucket_of(w, o->key)];
            next = o->next;
            o->next = *at;
            *at = o;
        }
    }
    free(before);
    return PTO_OK;
}

static void free_object(object *o)
{
    if (o) {
        if (o->memory) {
            munmap(o->memory, o->bytes);
        }
        free(o->home);
        free(o->version);
        free(o->at);
        free(o);
    }
}

/* Adds an object; one of the same key, a temporary that is gone, leaves. */
static void add_object(world *w, object *o)
{
    object **at = &w->table[bucket_of(w, o->key)];
    for (object **i = at; *i; i = &(*i)->next) {
        if ((*i)->key == o->key) {
            object *gone = *i;
            *i = gone->next;
            w->n_objects--;
            w->last = NULL;
            free_object(gone);
            break;
        }
    }
    o->next = *at;
    *at = o;
    w->n_objects++;
}

void objects_free(world *w)
{
    for (uint32_t i = 0; i < w->buckets; i++) {
        for (object *o = w->table[i], *next; o; o = next) {
            next = o->next;
            free_object(o);
        }
    }
    free(w->table);
    free(w->memo);
    if (w->zone) {
        munmap(w->zone, w->zone_bytes);
    }
}

static bool is_of(const object *o, const pto_tensor *t)
{
    return o->temp ? o->owner == t->owner && o->generation == t->generation && t->owner
                   : o->key == (uint64_t)(uintptr_t)t->storage && !t->owner;
}

object *object_find(world *w, const pto_tensor *t)
{
    if (w->last && is_of(w->last, t)) {
        return w->last;
    }
    if (!w->n_objects || (!t->owner && (uint64_t)((char *)t->storage - w->zone) >= w->zone_bytes)) {
        return NULL;
    }
    const uint64_t key = t->owner ? (uint32_t)t->owner : (uint64_t)(uintptr_t)t->storage;
    for (object *o = w->table[bucket_of(w, key)]; o; o = o->next) {
        if (is_of(o, t)) {
            w->last = o;
            return o;
        }
    }
    return NULL;
}

/* ---- Making tensors ---------------------------------------------------------------------------------- */

/* A grid of ranks over the first two dims that are cut, as square as possible. */
static void choose_grid(const object *o, int ranks, int32_t *grid)
{
    int32_t cut[2] = {-1, -1};
    for (int32_t d = 0, n = 0; d < o->ndim && n < 2; d++) {
        if (o->tiles[d] > 1) {
            cut[n++] = d;
        }
    }
    for (int32_t d = 0; d < PTO_MAX_DIMS; d++) {
        grid[d] = 1;
    }
    int32_t rows = ranks;
    if (cut[1] >= 0) {
        rows = 1;
        for (int32_t r = 1; r * r <= ranks; r++) {
            rows = ranks % r == 0 ? r : rows;
        }
        grid[cut[1]] = ranks / rows;
    }
    grid[cut[0] >= 0 ? cut[0] : 0] = rows;
}

static pto_status check_layout(const world *w, const pto_mpi_layout *layout, object *o,
                               int32_t *grid)
{
    int64_t product = 1;
    bool given = false;
    o->n_tiles = 1;
    for (int32_t d = 0; d < o->ndim; d++) {
        o->tile[d] = layout->tile[d] ? layout->tile[d] : o->shape[d];
        if (o->tile[d] < 1) {
            return pto_fail(PTO_BAD_SHAPE,
                            "mpi_tensor: dim %d has size %" PRId64 " and tiles of %" PRId64, d,
                            o->shape[d], o->tile[d]);
        }
        o->tiles[d] = (o->shape[d] - 1) / o->tile[d] + 1;
        if (__builtin_mul_overflow(o->n_tiles, o->tiles[d], &o->n_tiles) ||
            o->n_tiles > INT64_C(1) << 32) {
            return pto_fail(PTO_TOO_LARGE, "mpi_tensor: more than 2^32 tiles");
        }
        grid[d] = layout->grid[d];
        given = given || grid[d];
    }
    if (layout->owner) {
        return PTO_OK;
    }
    if (!given) {
        choose_grid(o, w->ranks, grid);
    }
    for (int32_t d = 0; d < o->ndim; d++) {
        grid[d] = grid[d] ? grid[d] : 1;
        product *= grid[d] > 0 ? grid[d] : w->ranks + 1;
    }
    if (o->ndim && product != w->ranks) {
        return pto_fail(PTO_BAD_CONFIG, "mpi_tensor: a grid of %" PRId64 " ranks, and there are %d",
                        product, w->ranks);
    }
    return PTO_OK;
}

static void tile_index(const object *o, int64_t tile, int64_t *index)
{
    for (int32_t d = o->ndim - 1; d >= 0; d--) {
        index[d] = tile % o->tiles[d];
        tile /= o->tiles[d];
    }
}

static int64_t tile_size(const object *o, int32_t d, int64_t index)
{
    const int64_t left = o->shape[d] - index * o->tile[d];
    return left < o->tile[d] ? left : o->tile[d];
}

/* Owners of all tiles, and places of our own. Adds the owners to the hash of the step. */
static pto_status place_tiles(const world *w, const pto_mpi_layout *layout, const int32_t *grid,
                              object *o, uint64_t *hash)
{
    uint64_t bytes = 0;
    o->home = malloc((size_t)o->n_tiles * sizeof *o->home);
    o->version = calloc((size_t)o->n_tiles, sizeof *o->version);
    o->at = malloc((size_t)o->n_tiles * sizeof *o->at);
    if (!o->home || !o->version || !o->at) {
        return pto_fail(PTO_OUT_OF_MEMORY, "mpi_tensor: %" PRId64 " tiles", o->n_tiles);
    }
    for (int64_t i = 0; i < o->n_tiles; i++) {
        int64_t index[PTO_MAX_DIMS] = {0};
        uint64_t size = o->element;
        int home = 0;
        tile_index(o, i, index);
        for (int32_t d = 0; d < o->ndim; d++) {
            size *= (uint64_t)tile_size(o, d, index[d]);
            const int32_t n = grid[d] > 0 ? grid[d] : 1;
            home = layout->owner ? home : home * n + (int)(index[d] % n);
        }
        home = layout->owner ? layout->owner(index, layout->user) : home;
        if (home < 0 || home >= w->ranks) {
            return pto_fail(PTO_BAD_CONFIG, "mpi_tensor: tile %" PRId64 " belongs to rank %d of %d",
                            i, home, w->ranks);
        }
        *hash = hash_mix(*hash, (uint64_t)home);
        o->home[i] = home;
        o->at[i] = home == w->rank ? (int64_t)bytes : -1;
        bytes += home == w->rank ? (size + MPI_ALIGN - 1) / MPI_ALIGN * MPI_ALIGN : 0;
    }
    o->bytes = bytes;
    return PTO_OK;
}

static pto_status reserve(world *w, object *o)
{
    uint64_t bytes = o->element;
    for (int32_t d = 0; d < o->ndim; d++) {
        if (__builtin_mul_overflow(bytes, (uint64_t)o->shape[d], &bytes)) {
            return pto_fail(PTO_OVERFLOW, "mpi_tensor: its size does not fit into 64 bits");
        }
    }
    for (uint64_t size = UINT64_C(1) << 45; !w->zone && size >= UINT64_C(1) << 32; size /= 2) {
        void *zone = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                          0);
        w->zone = zone == MAP_FAILED ? NULL : zone;
        w->zone_bytes = size;
    }
    if (!w->zone || bytes > w->zone_bytes - w->zone_used) {
        return pto_fail(PTO_OUT_OF_MEMORY, "mpi_tensor: no addresses for %" PRIu64 " bytes", bytes);
    }
    if (o->bytes) {
        void *memory = mmap(NULL, o->bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) {
            return pto_fail(PTO_OUT_OF_MEMORY, "mpi_tensor: no %" PRIu64 " bytes for own tiles",
                            o->bytes);
        }
        o->memory = memory;
    }
    o->key = (uint64_t)(uintptr_t)(w->zone + w->zone_used);
    /* A page apart, so that tensors never touch. */
    w->zone_used += (bytes + 4095) / 4096 * 4096 + 4096;
    return PTO_OK;
}

static pto_status make_tensor(world *w, const pto_mpi_layout *layout, object *o, pto_tensor *t,
                              uint64_t *hash)
{
    int32_t grid[PTO_MAX_DIMS] = {0};
    PTO_TRY(check_layout(w, layout, o, grid));
    PTO_TRY(grow_table(w));
    PTO_TRY(place_tiles(w, layout, grid, o, hash));
    PTO_TRY(reserve(w, o));
    uint64_t bytes = o->element;
    for (int32_t d = o->ndim - 1; d >= 0; d--) {
        o->strides[d] = (int64_t)(bytes / o->element);
        bytes *= (uint64_t)o->shape[d];
    }
    return pto_tensor_init(t, (void *)(uintptr_t)o->key, bytes, o->dtype, o->ndim, o->shape, NULL,
                           0);
}

static object *new_object(world *w, pto_dtype dtype, int32_t ndim, const int64_t *shape)
{
    object *o = calloc(1, sizeof *o);
    if (o) {
        o->id = ++w->next_id;
        o->dtype = dtype;
        o->element = pto_dtype_size(dtype);
        o->ndim = ndim;
        memcpy(o->shape, shape, (size_t)ndim * sizeof *shape);
    }
    return o;
}

static uint64_t hash_shape(uint64_t hash, pto_dtype dtype, int32_t ndim, const int64_t *shape)
{
    hash = hash_mix(hash, (uint64_t)dtype << 8 | (uint64_t)ndim);
    for (int32_t d = 0; d < ndim; d++) {
        hash = hash_mix(hash, (uint64_t)shape[d]);
    }
    return hash;
}

pto_status pto_mpi_tensor_at(pto_runtime *rt, pto_dtype dtype, int32_t ndim, const int64_t *shape,
                             const pto_mpi_layout *layout, pto_tensor *t, const char *file,
                             int line)
{
    world *w = world_of(rt);
    if (!w || !layout || !t || (ndim && !shape)) {
        return pto_fail(PTO_NULL_ARGUMENT, "mpi_tensor: %s",
                        w ? "shape, layout or t is NULL" : "the runtime is in no world");
    }
    PTO_TRY(world_check(w));
    if (ndim < 0 || ndim > PTO_MAX_DIMS) {
        return world_refuse(w, PTO_BAD_NDIM, "mpi_tensor: %d dims", ndim);
    }
    if (!pto_dtype_size(dtype)) {
        return world_refuse(w, PTO_BAD_DTYPE, "mpi_tensor: dtype %d", (int)dtype);
    }
    uint64_t hash = hash_shape(11, dtype, ndim, shape);
    object *o = new_object(w, dtype, ndim, shape);
    if (!o) {
        return world_break(w, PTO_OUT_OF_MEMORY, "mpi_tensor: no memory");
    }
    pto_tensor made;
    const pto_status status = make_tensor(w, layout, o, &made, &hash);
    history_step(w, hash, file, line);
    if (status != PTO_OK) {
        char why[MPI_TEXT];
        snprintf(why, sizeof why, "%s", pto_error_detail());
        free_object(o);
        return status == PTO_OUT_OF_MEMORY ? world_break(w, status, "%s", why)
                                           : world_refuse(w, status, "%s", why);
    }
    add_object(w, o);
    *t = made;
    return PTO_OK;
}

pto_status pto_mpi_temp_at(pto_runtime *rt, pto_dtype dtype, int32_t ndim, const int64_t *shape,
                           pto_tensor *t, const char *file, int line)
{
    world *w = world_of(rt);
    if (!w || !t || (ndim && !shape)) {
        return pto_fail(PTO_NULL_ARGUMENT, "mpi_temp: %s",
                        w ? "shape or t is NULL" : "the runtime is in no world");
    }
    PTO_TRY(world_check(w));
    const bool sound = ndim >= 0 && ndim <= PTO_MAX_DIMS;
    history_step(w, hash_shape(12, dtype, sound ? ndim : 0, shape), file, line);
    /* On every rank: a handle costs no memory, and ends with its scope. */
    pto_status status = pto_temp_at(rt, dtype, ndim, shape, t, file, line);
    if (status != PTO_OK) {
        return world_refused(w, status);
    }
    object *o = new_object(w, dtype, ndim, shape);
    if (o && grow_table(w) == PTO_OK) {
        o->home = malloc(sizeof *o->home);
        o->version = calloc(1, sizeof *o->version);
    }
    if (!o || !o->home || !o->version) {
        free_object(o);
        return world_break(w, PTO_OUT_OF_MEMORY, "mpi_temp: no memory");
    }
    o->n_tiles = 1;
    o->temp = true;
    o->key = (uint32_t)t->owner;
    o->owner = t->owner;
    o->generation = t->generation;
    o->home[0] = -1;
    for (int32_t d = 0; d < ndim; d++) {
        o->tile[d] = shape[d];
        o->tiles[d] = 1;
    }
    add_object(w, o);
    return PTO_OK;
}

/* ---- Views -> pieces ----------------------------------------------------------------------------------- */

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

static void local_strides(const object *o, const int64_t *index, int64_t *strides)
{
    int64_t stride = 1;
    for (int32_t d = o->ndim - 1; d >= 0; d--) {
        strides[d] = stride;
        stride *= tile_size(o, d, index[d]);
    }
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
    local_strides(o, index, strides);
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

pto_status view_resolve(world *w, const char *who, const pto_tensor *t, piece *first, view *v)
{
    *v = (view){.t = t, .pieces = first};
    if (!t) {
        return pto_fail(PTO_NULL_ARGUMENT, "%s: a tensor is NULL", who);
    }
    v->o = object_find(w, t);
    if (!v->o) {
        return (uint64_t)((char *)t->storage - w->zone) < w->zone_bytes && !t->owner
                   ? pto_fail(PTO_STALE, "%s: no distributed tensor", who)
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
        return PTO_OK;
    }
    v->n = 0;
    return cut(&in, v);
}

/* ---- Known tiles ----------------------------------------------------------------------------------------- */

uint64_t view_hash(const object *o, const pto_tensor *t)
{
    uint64_t h = hash_mix((uint64_t)t->ndim << 16 | (uint64_t)t->dtype,
                          o ? o->id ^ (uint64_t)t->offset << 20 : 0);
    for (int32_t d = 0; d < t->ndim && d < PTO_MAX_DIMS; d++) {
        h = hash_mix(h, (uint64_t)t->shape[d] ^ (uint64_t)t->strides[d] << 32);
    }
    return h;
}

static memo *memo_at(const world *w, const pto_tensor *t)
{
    return &w->memo[hash_mix((uint64_t)(uintptr_t)t->storage, (uint64_t)t->offset) >> 50 &
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

void memo_add(world *w, const view *v)
{
    if (v->o->temp || v->n != 1 || v->t->ndim > MPI_MEMO_DIMS ||
        (!w->memo && !(w->memo = calloc(MPI_MEMO, sizeof *w->memo)))) {
        return;
    }
    memo *m = memo_at(w, v->t);
    *m = (memo){.storage = v->t->storage,
                .offset = v->t->offset,
                .ndim = v->t->ndim,
                .dtype = v->t->dtype,
                .o = v->o,
                .tile = v->pieces->tile,
                .hash = view_hash(v->o, v->t)};
    memcpy(m->shape, v->t->shape, sizeof m->shape);
    memcpy(m->strides, v->t->strides, sizeof m->strides);
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
    if (o->temp) {
        return t; /* a temporary is one piece */
    }
    int64_t index[PTO_MAX_DIMS] = {0};
    uint64_t bytes = o->element;
    tile_index(o, p->tile, index);
    for (int32_t d = 0; d < o->ndim; d++) {
        bytes *= (uint64_t)tile_size(o, d, index[d]);
    }
    t.storage = o->memory + o->at[p->tile];
    t.storage_bytes = bytes;
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
