/* tensor.c - distributed tensors and temporaries: the table of them, their tiles, and who owns these.
 *
 * A distributed tensor is a dense tensor over addresses that are reserved and never accessible. So
 * views of it are ordinary views, and all functions on tensors work. view.c turns them into pieces of tiles.
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
        free(o->mark);
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

object *object_find(world *w, const pto_tensor *t)
{
    if (w->last && object_is(w->last, t)) {
        return w->last;
    }
    if (!w->n_objects || (!t->owner && (uint64_t)((char *)t->storage - w->zone) >= w->zone_bytes)) {
        return NULL;
    }
    const uint64_t key = t->owner ? (uint32_t)t->owner : (uint64_t)(uintptr_t)t->storage;
    for (object *o = w->table[bucket_of(w, key)]; o; o = o->next) {
        if (object_is(o, t)) {
            w->last = o;
            w->whole = o->whole;
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

void tile_index(const object *o, int64_t tile, int64_t *index)
{
    for (int32_t d = o->ndim - 1; d >= 0; d--) {
        index[d] = tile % o->tiles[d];
        tile /= o->tiles[d];
    }
}

int64_t tile_size(const object *o, int32_t d, int64_t index)
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

static void describe_whole(object *o, const pto_tensor *t)
{
    tile_view *w = &o->whole;
    *w = (tile_view){
        .storage = o->key,
        .rows = (uint64_t)o->tile[0],
        .columns = (uint64_t)o->tile[1],
        .stride = (uint64_t)o->strides[0],
        .pitch = (uint64_t)(o->tile[0] * o->strides[0]),
        .full = {(uint64_t)(o->shape[0] / o->tile[0]), (uint64_t)(o->shape[1] / o->tile[1])},
        .across = (uint64_t)o->tiles[1],
        .hash = o->id << 33,
        .home = o->home,
        .version = o->version,
    };
    memcpy(&w->kind, &t->ndim, sizeof w->kind);
    w->per_pitch = UINT64_MAX / w->pitch;
    w->per_columns = UINT64_MAX / w->columns;
    /* The offset of a tile is less than half a pitch after the beginning of its row, unless tiles have
     * one row: then it is a tile less than the pitch. */
    w->half_columns = w->columns / 2;
    w->half_pitch = w->rows > 1 ? w->pitch / 2 : w->half_columns;
}

static pto_status make_tensor(world *w, const pto_mpi_layout *layout, object *o, pto_tensor *t,
                              uint64_t *hash)
{
    int32_t grid[PTO_MAX_DIMS] = {0};
    PTO_TRY(check_layout(w, layout, o, grid));
    PTO_TRY(grow_table(w));
    PTO_TRY(place_tiles(w, layout, grid, o, hash));
    if (!layout->owner) {
        memcpy(o->grid, grid, sizeof o->grid);
    }
    PTO_TRY(reserve(w, o));
    uint64_t bytes = o->element;
    for (int32_t d = o->ndim - 1; d >= 0; d--) {
        o->strides[d] = (int64_t)(bytes / o->element);
        bytes *= (uint64_t)o->shape[d];
    }
    PTO_TRY(
        pto_tensor_init(t, (void *)(uintptr_t)o->key, bytes, o->dtype, o->ndim, o->shape, NULL, 0));
    if (o->ndim == 2) {
        describe_whole(o, t);
    }
    return PTO_OK;
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
    PTO_TRY(only_refuses(w, "mpi_tensor"));
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
    w->stats.bytes_tiles += o->bytes;
    w->stats.bytes_tables += (uint64_t)o->n_tiles *
                             (sizeof *o->home + sizeof *o->version + sizeof *o->at);
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
    if (w->only.open) { /* not all ranks count it */
        w->next_id--;
        o->id = UINT64_C(1) << 62 | w->history.step;
        o->born = w->only.step;
    }
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
