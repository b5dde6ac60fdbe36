/* tensor.c - distributed tensors and temporaries: the table of them, their tiles, and who owns these.
 *
 * A distributed tensor is a dense tensor over addresses that are reserved and never accessible. So
 * views of it are ordinary views, and all functions on tensors work. view.c turns them into pieces of tiles.
 */
#include <pto/device.h>
#include <pto/sim.h>
#include <sys/mman.h>

#include "world.h"

/* ---- Addresses -------------------------------------------------------------------------------------- */

/* A zone is a range of addresses for the tensors of one world at a time. It stays when the world ends, and the next one
 * uses the rest of it. So the address of a tensor that is gone is found to be stale: it is that of no other one. */
typedef struct zone {
    char *base;
    uint64_t bytes, used;
    bool taken;
} zone;

enum { MOST_ZONES = 64 };
static zone zones[MOST_ZONES];
static atomic_int n_zones; /* base and bytes of these do not change: read without `guard` */
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

bool zone_has(const void *address)
{
    const int n = atomic_load_explicit(&n_zones, memory_order_acquire);
    for (int i = 0; i < n; i++) {
        if ((uint64_t)((const char *)address - zones[i].base) < zones[i].bytes) {
            return true;
        }
    }
    return false;
}

/* A new zone, as large as the system permits; NULL: none. Under `guard`. */
static zone *new_zone(void)
{
    const int n = atomic_load(&n_zones);
    for (uint64_t size = UINT64_C(1) << 45; n < MOST_ZONES && size >= UINT64_C(1) << 32;
         size /= 2) {
        void *base = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                          0);
        if (base != MAP_FAILED) {
            zones[n] = (zone){.base = base, .bytes = size};
            atomic_store_explicit(&n_zones, n + 1, memory_order_release);
            return &zones[n];
        }
    }
    return NULL;
}

static void zone_enter(world *w)
{
    zone *z = NULL;
    pthread_mutex_lock(&guard);
    for (int i = 0; i < atomic_load(&n_zones) && !z; i++) {
        z = zones[i].taken ? NULL : &zones[i];
    }
    z = z ? z : new_zone();
    if (z) {
        z->taken = true;
        w->zone = z->base;
        w->zone_bytes = z->bytes;
        w->zone_used = w->zone_first = z->used;
    }
    pthread_mutex_unlock(&guard);
}

static void zone_leave(const world *w)
{
    pthread_mutex_lock(&guard);
    for (int i = 0; i < atomic_load(&n_zones); i++) {
        if (w->zone && zones[i].base == w->zone) {
            zones[i].used = w->zone_used;
            zones[i].taken = false;
        }
    }
    pthread_mutex_unlock(&guard);
}

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
        if (o->held.storage) {
            PTO_IGNORE(pto_tensor_free(&o->held));
        } else if (o->memory) {
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
    zone_leave(w);
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
        o->tile[d] = layout->tile[d] && layout->tile[d] < o->shape[d] ? layout->tile[d]
                                                                      : o->shape[d];
        if (o->shape[d] < 1 || o->tile[d] < 1) {
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

/* Where the first tile of a tensor begins in its memory. Tiles often are a multiple of a page, and tensors the same
 * size. If all began with a page, a kernel that reads one and writes another at the same index would stall: loads
 * wait for earlier stores whose addresses have the same last 12 bits. */
static uint64_t first_at(const object *o)
{
    return o->id * 5 % 16 * 256;
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
        bytes = home == w->rank && !bytes ? first_at(o) : bytes;
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
    if (!w->zone) {
        zone_enter(w);
        PTO_TRY(pto_refuse_memory(
            w->rt, w->zone, w->zone_bytes,
            "is distributed: give it to pto_mpi_submit, pto_mpi_read and others of "
            "pto/mpi.h, or define PTO_MPI_NAMES before that header"));
    }
    if (w->zone && bytes > w->zone_bytes - w->zone_used && w->zone_used == w->zone_first) {
        w->zone_used = w->zone_first = 0; /* earlier worlds have used it up: begin again */
    }
    if (!w->zone || bytes > w->zone_bytes - w->zone_used) {
        return pto_fail(PTO_OUT_OF_MEMORY, "mpi_tensor: no addresses for %" PRIu64 " bytes", bytes);
    }
    if (o->bytes && o->twins && !w->counting) {
        PTO_TRY(pto_tensor_empty(o->twins->device, PTO_UINT8, 1, (int64_t[]){(int64_t)o->bytes},
                                 &o->held));
        o->memory = o->held.storage;
    } else if (o->bytes) {
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
    t->device = object_device(o);
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

/* Begins to use a device. All ranks refuse one that cannot be; one that only this rank cannot use breaks the world. */
static pto_status open_device(world *w, const char *who, pto_device device, twins **found)
{
    const pto_tensor there = {.ndim = 1, .dtype = PTO_UINT8, .device = device};
    if (device.type == PTO_DEVICE_CPU && !device.index) {
        return PTO_OK;
    }
    if (pto_tensor_check(&there) == PTO_BAD_DEVICE) {
        return world_refused(w, PTO_BAD_DEVICE);
    }
    if (device.type == PTO_DEVICE_SIM && device.index >= PTO_SIM_DEVICES) {
        return world_refuse(w, PTO_BAD_DEVICE, "%s: sim:%d, but there are sim:0 to sim:%d", who,
                            (int)device.index, PTO_SIM_DEVICES - 1);
    }
    const pto_status status = stage_open(w, device, found);
    if (status == PTO_OK) {
        return PTO_OK;
    }
    char why[MPI_TEXT];
    snprintf(why, sizeof why, "%s", pto_error_detail());
    return world_break(w, status, "%s: rank %d cannot use %s:%d, and every rank needs it: %s", who,
                       w->rank, pto_device_name(device.type), (int)device.index, why);
}

/* An error that depends on memory and devices of this rank breaks the world. All others are the same on all ranks. */
static pto_status break_or_refuse(world *w, pto_status status)
{
    char why[MPI_TEXT];
    snprintf(why, sizeof why, "%s", pto_error_detail());
    return status == PTO_OUT_OF_MEMORY || status == PTO_SYSTEM || status == PTO_BAD_DEVICE ||
                   status == PTO_DEVICE_LOST || status == PTO_FULL
               ? world_break(w, status, "%s", why)
               : world_refused(w, pto_fail(status, "%s", why));
}

/* Zeros on a device: a task. Memory of the host is zero already. */
static pto_status clear(world *w, const object *o, const char *file, int line)
{
    if (!o->held.storage) {
        return PTO_OK;
    }
    const pto_work zero = {.opcode = PTO_WORK_FILL, .n_outputs = 1, .outputs = &o->held};
    trace_step(w);
    return submit_finish(w, pto_submit_work_at(w->rt, &zero, NULL, file, line), "mpi_tensor", file,
                         line);
}

static uint64_t hash_device(uint64_t hash, pto_device device)
{
    return hash_mix(hash, (uint64_t)device.type << 32 | (uint32_t)device.index);
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
    PTO_TRY(world_enter(w, "mpi_tensor", file, line));
    PTO_TRY(only_refuses(w, "mpi_tensor"));
    if (ndim < 0 || ndim > PTO_MAX_DIMS) {
        return world_refuse(w, PTO_BAD_NDIM, "mpi_tensor: %d dims", ndim);
    }
    if (!pto_dtype_size(dtype)) {
        return world_refuse(w, PTO_BAD_DTYPE, "mpi_tensor: dtype %d", (int)dtype);
    }
    uint64_t hash = hash_device(hash_shape(11, dtype, ndim, shape), layout->device);
    object *o = new_object(w, dtype, ndim, shape);
    if (!o) {
        return world_break(w, PTO_OUT_OF_MEMORY, "mpi_tensor: no memory");
    }
    pto_tensor made;
    pto_status status = open_device(w, "mpi_tensor", layout->device, &o->twins);
    if (status != PTO_OK) {
        free_object(o);
        return status;
    }
    status = make_tensor(w, layout, o, &made, &hash);
    history_step(w, hash, file, line);
    if (status != PTO_OK) {
        status = break_or_refuse(w, status);
        free_object(o);
        return status;
    }
    w->stats.bytes_tiles += o->bytes;
    w->stats.bytes_tables += (uint64_t)o->n_tiles *
                             (sizeof *o->home + sizeof *o->version + sizeof *o->at);
    add_object(w, o);
    *t = made;
    return clear(w, o, file, line);
}

/* The record of a temporary; its handle is made already. */
static pto_status add_temp(world *w, object *o, const pto_tensor *t)
{
    if (grow_table(w) == PTO_OK) {
        o->home = malloc(sizeof *o->home);
        o->version = calloc(1, sizeof *o->version);
    }
    if (!o->home || !o->version) {
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
    for (int32_t d = 0; d < o->ndim; d++) {
        o->tile[d] = o->shape[d];
        o->tiles[d] = 1;
    }
    add_object(w, o);
    return PTO_OK;
}

static pto_status make_temp(pto_runtime *rt, const pto_device *device, pto_dtype dtype,
                            int32_t ndim, const int64_t *shape, pto_tensor *t, const char *file,
                            int line)
{
    world *w = world_of(rt);
    if (!w || !t || (ndim && !shape)) {
        return pto_fail(PTO_NULL_ARGUMENT, "mpi_temp: %s",
                        w ? "shape or t is NULL" : "the runtime is in no world");
    }
    PTO_TRY(world_enter(w, "mpi_temp", file, line));
    const bool sound = ndim >= 0 && ndim <= PTO_MAX_DIMS;
    const uint64_t hash = hash_shape(12, dtype, sound ? ndim : 0, shape);
    twins *there = NULL;
    history_step(w, device ? hash_device(hash, *device) : hash, file, line);
    PTO_TRY(device ? open_device(w, "mpi_temp", *device, &there) : PTO_OK);
    /* On every rank: a handle costs no memory, and ends with its scope. A rank that is counted has no device. */
    pto_status status = there && !w->counting
                            ? pto_temp_on_at(rt, *device, dtype, ndim, shape, t, file, line)
                            : pto_temp_at(rt, dtype, ndim, shape, t, file, line);
    if (status != PTO_OK) {
        return there ? break_or_refuse(w, status) : world_refused(w, status);
    }
    t->device = there ? *device : t->device;
    PTO_TRY(device ? PTO_OK : open_device(w, "mpi_temp", t->device, &there));
    object *o = new_object(w, dtype, ndim, shape);
    if (!o) {
        return world_break(w, PTO_OUT_OF_MEMORY, "mpi_temp: no memory");
    }
    o->twins = there;
    return add_temp(w, o, t);
}

pto_status pto_mpi_temp_at(pto_runtime *rt, pto_dtype dtype, int32_t ndim, const int64_t *shape,
                           pto_tensor *t, const char *file, int line)
{
    return make_temp(rt, NULL, dtype, ndim, shape, t, file, line);
}

pto_status pto_mpi_temp_on_at(pto_runtime *rt, pto_device device, pto_dtype dtype, int32_t ndim,
                              const int64_t *shape, pto_tensor *t, const char *file, int line)
{
    return make_temp(rt, &device, dtype, ndim, shape, t, file, line);
}
