/* programs.c - random programs on several ranks against a serial run of the same tasks in each rank.
 *
 *     mpirun -n 4 programs SEED COUNT
 *
 * Tensors of one to three dims with random tiles and owners, caches that hold a few pieces, small rings,
 * views that cross tiles, temporaries, ranges that some ranks skip, kernels that fail, reads that decide what comes next,
 * tensors on simulated devices, with workers and with streams. Everything
 * is integers, and must be equal. Calls of MPI are delayed and their completions reordered at random
 * (the functions named MPI_ below replace those of MPI for the library).
 *
 * The model of failures is that of docs/design.md: an output of a bad task stays bad until one good
 * write covers all of it. An output that crosses tiles counts as one output for each tile.
 */
#include <mpi.h>
#include <pto/mpi.h>
#include <pto/sim.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "support.h"

enum { MOST_TENSORS = 3, MOST_TEMPS = 4, MOST_ELEMENTS = 400, MOST_VIEW = 64, MOST_BAD = 512 };

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: seed %" PRIu64 ", rank %d: ", __FILE__, __LINE__, seed, rank); \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fprintf(stderr, " (%s)\n", pto_error_detail());                                        \
            fflush(stderr);                                                                        \
            MPI_Abort(MPI_COMM_WORLD, 3);                                                          \
        }                                                                                          \
    } while (0)

static uint64_t seed;
static int rank, ranks;

static uint64_t below(test_rng *rng, uint64_t n)
{
    return test_next(rng) % n;
}

/* ---- MPI, slower and in another order ------------------------------------------------------------- */

static _Thread_local uint64_t chaos = 88172645463325252u;

static uint64_t chance(uint64_t n)
{
    chaos ^= chaos << 13;
    chaos ^= chaos >> 7;
    chaos ^= chaos << 17;
    return (chaos + (uint64_t)rank * 77 + seed) % n;
}

static void dawdle(void)
{
    if (chance(16) == 0) {
        usleep((useconds_t)chance(300));
    }
}

int MPI_Isend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    dawdle();
    /* A synchronous send passes only when its receive is posted. */
    return chance(2) ? PMPI_Issend(buf, count, type, dest, tag, comm, request)
                     : PMPI_Isend(buf, count, type, dest, tag, comm, request);
}

int MPI_Issend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    dawdle();
    return PMPI_Issend(buf, count, type, dest, tag, comm, request);
}

int MPI_Irecv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    dawdle();
    return PMPI_Irecv(buf, count, type, source, tag, comm, request);
}

int MPI_Testsome(int incount, MPI_Request *requests, int *outcount, int *indices,
                 MPI_Status *statuses)
{
    const int begin = (int)chance((uint64_t)incount),
              n = 1 + (int)chance((uint64_t)(incount - begin));
    const int code = PMPI_Testsome(n, requests + begin, outcount, indices, statuses);
    for (int i = 0; i < *outcount && *outcount != MPI_UNDEFINED; i++) {
        indices[i] += begin;
    }
    return code;
}

/* ---- The model ---------------------------------------------------------------------------------------- */

typedef struct thing {
    pto_tensor t;
    int64_t n;
    uint32_t *model;
    int64_t tile[PTO_MAX_DIMS];
    bool temp, written;
    int32_t device; /* of WHERE */
} thing;

typedef struct bad {
    const thing *of;
    bool element[MOST_ELEMENTS];
} bad;

/* Where tensors lie: the device of streams launches kernels, as a GPU does. */
static const pto_device WHERE[] = {{PTO_DEVICE_CPU, 0}, {PTO_DEVICE_SIM, 0}, {PTO_DEVICE_SIM, 1}};
static uint64_t n_where; /* of these, in this program */

static int32_t somewhere(test_rng *rng)
{
    return (int32_t)(n_where < 3 ? n_where : below(rng, 3));
}

static thing things[MOST_TENSORS + MOST_TEMPS];
static int n_things, n_tensors;
static bad bads[MOST_BAD];
static int n_bads;
static bool failed;
static uint64_t first_failure;

/* Positions of the elements of a view, in order. */
static int64_t elements(const pto_tensor *t, int64_t *at)
{
    int64_t index[PTO_MAX_DIMS] = {0}, n = 0;
    for (int64_t left = pto_tensor_numel(t); left > 0; left--) {
        int64_t position = t->offset;
        for (int32_t d = 0; d < t->ndim; d++) {
            position += index[d] * t->strides[d];
        }
        at[n++] = position;
        for (int32_t d = t->ndim - 1; d >= 0 && ++index[d] == t->shape[d]; d--) {
            index[d] = 0;
        }
    }
    return n;
}

static int64_t tile_of(const thing *o, int64_t position)
{
    int64_t tile = 0;
    for (int32_t d = 0; d < o->t.ndim && !o->temp; d++) {
        const int64_t c = position / o->t.strides[d] % o->t.shape[d];
        tile = tile * 1000 + c / o->tile[d];
    }
    return tile;
}

static bool is_bad(const thing *o, const pto_tensor *t)
{
    int64_t at[MOST_ELEMENTS];
    const int64_t n = elements(t, at);
    for (int b = 0; b < n_bads; b++) {
        for (int64_t i = 0; bads[b].of == o && i < n; i++) {
            if (bads[b].element[at[i]]) {
                return true;
            }
        }
    }
    return false;
}

/* A write: what it covers is good again; a bad one is bad, tile by tile. */
static void written(const thing *o, const pto_tensor *t, bool good)
{
    int64_t at[MOST_ELEMENTS];
    const int64_t n = elements(t, at);
    for (int64_t i = 0; i < n; i++) { /* one tile after the other */
        bool part[MOST_ELEMENTS] = {false};
        const int64_t tile = tile_of(o, at[i]);
        bool seen = false;
        for (int64_t k = 0; k < i; k++) {
            seen = seen || tile_of(o, at[k]) == tile;
        }
        for (int64_t k = 0; k < n && !seen; k++) {
            part[at[k]] = tile_of(o, at[k]) == tile;
        }
        if (seen) {
            continue;
        }
        for (int b = 0; b < n_bads;) {
            bool covered = bads[b].of == o;
            for (int64_t k = 0; k < o->n && covered; k++) {
                covered = !bads[b].element[k] || part[k];
            }
            if (covered) {
                bads[b] = bads[--n_bads];
            } else {
                b++;
            }
        }
        if (!good) {
            CHECK(n_bads < MOST_BAD, "too many failures");
            bads[n_bads].of = o;
            memcpy(bads[n_bads++].element, part, sizeof part);
        }
    }
}

/* ---- Kernels -------------------------------------------------------------------------------------------- */

static uint32_t *element_of(const pto_arg *a, int64_t flat)
{
    uint32_t *at = a->data;
    for (int32_t d = a->ndim - 1; d >= 0; d--) {
        at += flat % a->shape[d] * a->strides[d];
        flat /= a->shape[d];
    }
    return at;
}

static int64_t count_of(const pto_arg *a)
{
    int64_t n = 1;
    for (int32_t d = 0; d < a->ndim; d++) {
        n *= a->shape[d];
    }
    return n;
}

/* args: number of the task, kinds of the tensors (two bits each), tensors. Every element that is written
 * depends on all inputs. */
static pto_status mix(const pto_call *call)
{
    const uint64_t number = call->args[0].u64, kinds = call->args[1].u64;
    uint32_t sum = (uint32_t)number;
    if (kinds >> 63) {
        return pto_fail(PTO_KERNEL_FAILED, "task %" PRIu64 " fails.", number);
    }
    for (uint32_t i = 2; i < call->n_args; i++) {
        const int64_t n = count_of(&call->args[i]);
        for (int64_t e = 0; e < n && (kinds >> 2 * i & 3) != PTO_PARAM_OUTPUT; e++) {
            sum = sum * 31 + *element_of(&call->args[i], e);
        }
    }
    for (uint32_t i = 2; i < call->n_args; i++) {
        const int64_t n = count_of(&call->args[i]);
        for (int64_t e = 0; e < n && (kinds >> 2 * i & 3) != PTO_PARAM_INPUT; e++) {
            *element_of(&call->args[i], e) = sum ^ (uint32_t)(e * 2654435761u);
        }
    }
    return PTO_OK;
}

/* The same for a device with streams: what `mix` needs, copied to the stream. */
typedef struct launch {
    uint64_t number, kinds;
    uint32_t n;
    struct {
        void *data;
        int32_t ndim;
        int64_t shape[3], strides[3];
    } of[4];
} launch;

static void mix_later(void *of)
{
    launch *l = of;
    pto_arg args[6] = {{.u64 = l->number}, {.u64 = l->kinds}};
    for (uint32_t i = 0; i < l->n; i++) {
        args[i + 2] = (pto_arg){.data = l->of[i].data,
                                .shape = l->of[i].shape,
                                .strides = l->of[i].strides,
                                .ndim = l->of[i].ndim,
                                .dtype = PTO_INT32};
    }
    PTO_IGNORE(mix(&(pto_call){.args = args, .n_args = l->n + 2}));
}

static atomic_uint_fast64_t on_devices;

static pto_status mix_sim(const pto_call *call)
{
    launch l = {call->args[0].u64, call->args[1].u64, call->n_args - 2, {{0}}};
    atomic_fetch_add(&on_devices, 1);
    if (!call->stream || l.kinds >> 63) {
        return mix(call);
    }
    for (uint32_t i = 0; i < l.n; i++) {
        const pto_arg *a = &call->args[i + 2];
        l.of[i].data = a->data;
        l.of[i].ndim = a->ndim;
        for (int32_t d = 0; d < a->ndim; d++) {
            l.of[i].shape[d] = a->shape[d];
            l.of[i].strides[d] = a->strides[d];
        }
    }
    return pto_sim_launch(call->stream, mix_later, &l, sizeof l);
}

/* ---- Random programs -------------------------------------------------------------------------------------- */

static int random_owner(const int64_t *tile, void *user)
{
    uint64_t h = (uintptr_t)user;
    for (int d = 0; d < 3; d++) {
        h = (h ^ (uint64_t)tile[d]) * UINT64_C(0x9E3779B97F4A7C15);
    }
    return (int)((h >> 33) % (uint64_t)ranks);
}

/* Views of tensors that the program has used before: most programs use the same tiles again and again. */
static pto_tensor familiar[MOST_TENSORS][4];
static int n_familiar[MOST_TENSORS];

static pto_tensor new_view(test_rng *rng, const thing *o);

static pto_tensor random_view(test_rng *rng, const thing *o)
{
    const int i = (int)(o - things), n = o->temp ? 0 : n_familiar[i];
    if (n && below(rng, 3)) {
        return familiar[i][below(rng, (uint64_t)n)];
    }
    const pto_tensor t = new_view(rng, o);
    if (!o->temp && n < 4) {
        familiar[i][n_familiar[i]++] = t;
    }
    return t;
}

/* A random box of a tensor, in one tile or across, with steps, mirrored or transposed. */
static pto_tensor new_view(test_rng *rng, const thing *o)
{
    pto_tensor t = o->t;
    const uint64_t kind = below(rng, 4);
    for (int32_t d = 0; d < t.ndim; d++) {
        const int64_t size = o->t.shape[d], tile = o->temp ? size : o->tile[d];
        int64_t from = 0, to = size;
        if (kind < 2) { /* a tile, or a part of one */
            from = (int64_t)below(rng, (uint64_t)((size - 1) / tile + 1)) * tile;
            to = from + tile < size ? from + tile : size;
        }
        if (kind >= 1) {
            from += (int64_t)below(rng, (uint64_t)(to - from));
            to = from + 1 + (int64_t)below(rng, (uint64_t)(to - from));
        }
        const int64_t step = kind >= 1 && below(rng, 4) == 0 ? 2 : 1;
        CHECK(pto_tensor_slice(&t, d, from, to, step, &t) == PTO_OK, "slice");
        if (kind >= 1 && below(rng, 6) == 0) {
            CHECK(pto_tensor_slice(&t, d, t.shape[d] - 1, -1, -1, &t) == PTO_OK, "mirror");
        }
    }
    if (t.ndim > 1 && below(rng, 5) == 0) {
        CHECK(pto_tensor_transpose(&t, 0, 1, &t) == PTO_OK, "transpose");
    }
    while (pto_tensor_numel(&t) > MOST_VIEW) {
        for (int32_t d = 0; d < t.ndim; d++) {
            CHECK(pto_tensor_slice(&t, d, 0, (t.shape[d] + 1) / 2, 1, &t) == PTO_OK, "halve");
        }
    }
    return t;
}

static void make_tensor(test_rng *rng, pto_runtime *rt)
{
    thing *o = &things[n_things++];
    int64_t shape[3], n = 1;
    const int32_t ndim = 1 + (int32_t)below(rng, 3);
    pto_mpi_layout layout = {.tile = {0}};
    *o = (thing){.device = somewhere(rng)};
    layout.device = WHERE[o->device];
    for (int32_t d = 0; d < ndim; d++) {
        shape[d] = 1 + (int64_t)below(rng, ndim == 1 ? 200 : ndim == 2 ? 16 : 6);
        layout.tile[d] = o->tile[d] = 1 + (int64_t)below(rng, (uint64_t)shape[d]);
        n *= shape[d];
    }
    if (below(rng, 4)) {
        layout.owner = random_owner;
        layout.user = (void *)(uintptr_t)below(rng, 1000);
    }
    CHECK(pto_mpi_tensor(rt, PTO_INT32, ndim, shape, &layout, &o->t) == PTO_OK, "tensor");
    o->n = n;
    o->model = calloc((size_t)n, sizeof *o->model);
    n_tensors++;
}

static void make_temp(test_rng *rng, pto_runtime *rt)
{
    thing *o = &things[n_things++];
    const int64_t n = 1 + (int64_t)below(rng, MOST_VIEW);
    *o = (thing){.temp = true,
                 .device = somewhere(rng),
                 .n = n,
                 .model = calloc((size_t)n, sizeof *o->model)};
    CHECK((o->device ? pto_mpi_temp_on(rt, WHERE[o->device], PTO_INT32, 1, &n, &o->t)
                     : pto_mpi_temp(rt, PTO_INT32, 1, &n, &o->t)) == PTO_OK,
          "temp");
}

static pto_arg model_arg(const thing *o, const pto_tensor *t)
{
    return (pto_arg){.data = o->model + t->offset,
                     .shape = t->shape,
                     .strides = t->strides,
                     .ndim = t->ndim,
                     .dtype = t->dtype};
}

static bool share_elements(const pto_tensor *a, const pto_tensor *b)
{
    return pto_tensor_overlaps(a, b);
}

/* A range of pto_mpi_only: which views its tasks may use. */
static struct {
    bool open, mine;
    uint64_t n;
    const thing *of[3];
    pto_tensor view[3];
    bool writes[3];
} range;

/* A part of a view. */
static pto_tensor part_of(test_rng *rng, const pto_tensor *whole)
{
    pto_tensor t = *whole;
    for (int32_t d = 0; d < t.ndim && below(rng, 2); d++) {
        const int64_t from = (int64_t)below(rng, (uint64_t)t.shape[d]);
        const int64_t to = from + 1 + (int64_t)below(rng, (uint64_t)(t.shape[d] - from));
        CHECK(pto_tensor_slice(&t, d, from, to, 1, &t) == PTO_OK, "part");
    }
    while (pto_tensor_numel(&t) > MOST_VIEW) {
        for (int32_t d = 0; d < t.ndim; d++) {
            CHECK(pto_tensor_slice(&t, d, 0, (t.shape[d] + 1) / 2, 1, &t) == PTO_OK, "halve");
        }
    }
    return t;
}

/* A view goes to owners of others. That changes nothing: the model does nothing. */
static void broadcast(test_rng *rng, pto_runtime *rt)
{
    enum { MOST = 3 };
    pto_tensor views[MOST];
    pto_param readers[MOST];
    const uint64_t n = below(rng, MOST + 1);
    const thing *o = &things[below(rng, (uint64_t)n_things)];
    if (o->temp && !o->written) {
        return;
    }
    const pto_tensor t = random_view(rng, o);
    uint64_t count = 0;
    for (uint64_t i = 0; i < n; i++) {
        const thing *of = &things[below(rng, (uint64_t)n_things)];
        if (!of->temp || of->written) {
            views[count] = random_view(rng, of);
            readers[count] = pto_input(&views[count]);
            count++;
        }
    }
    const pto_status status = pto_mpi_broadcast_at(rt, &t, readers, count, __FILE__, __LINE__);
    CHECK(status == PTO_OK || status == PTO_TOO_LARGE, "broadcast: %s", pto_error_detail());
    if (status == PTO_TOO_LARGE) { /* its cache is tiny */
        pto_mpi_refused(rt);
    }
}

/* Submits a random task, and runs it in the model. */
static void task(test_rng *rng, pto_runtime *rt, pto_kernel kernel, uint64_t number)
{
    enum { MOST = 4 };
    pto_tensor views[MOST];
    const thing *of[MOST];
    pto_param params[MOST + 2];
    pto_arg args[MOST + 2] = {{.u64 = number}};
    uint64_t kinds = 0;
    uint32_t n = 0;
    bool skipped = false, writes = false;
    const uint32_t want = 1 + (uint32_t)below(rng, MOST);
    for (uint32_t i = 0; i < want; i++) {
        const uint64_t declared = below(rng, range.open ? range.n : 1);
        const thing *o = range.open ? range.of[declared] : &things[below(rng, (uint64_t)n_things)];
        pto_param_kind kind = (pto_param_kind)(PTO_PARAM_INPUT + below(rng, 3));
        kind = !writes && i + 1 == want ? PTO_PARAM_OUTPUT : kind;
        kind = range.open && !range.writes[declared] ? PTO_PARAM_INPUT : kind;
        const bool fresh = o->temp && !o->written;
        kind = fresh ? PTO_PARAM_OUTPUT : kind;
        views[n] = fresh        ? o->t
                   : range.open ? part_of(rng, &range.view[declared])
                                : random_view(rng, o);
        bool meets = n && of[0]->device != o->device; /* a task runs on one */
        for (uint32_t k = 0; k < n; k++) {
            meets = meets ||
                    (of[k] == o && share_elements(&views[k], &views[n]) &&
                     (kind != PTO_PARAM_INPUT || (kinds >> (2 * k + 4) & 3) != PTO_PARAM_INPUT));
            meets = meets || (of[k] == o && fresh);
        }
        if (meets) {
            continue;
        }
        of[n] = o;
        kinds |= (uint64_t)kind << (2 * n + 4);
        writes = writes || kind != PTO_PARAM_INPUT;
        skipped = skipped || (kind != PTO_PARAM_OUTPUT && is_bad(o, &views[n]));
        params[n + 2] = kind == PTO_PARAM_INPUT    ? pto_input(&views[n])
                        : kind == PTO_PARAM_OUTPUT ? pto_output(&views[n])
                                                   : pto_inout(&views[n]);
        args[n + 2] = model_arg(o, &views[n]);
        n++;
    }
    const bool fails = below(rng, 40) == 0;
    kinds |= fails ? UINT64_C(1) << 63 : 0;
    params[0] = pto_scalar_u64(number);
    params[1] = pto_scalar_u64(kinds);
    const int where = below(rng, 4) || range.open ? PTO_MPI_OWNER
                                                  : (int)below(rng, (uint64_t)ranks);
    CHECK((range.open && !range.mine) ||
              pto_mpi_submit_task(rt, where, kernel, PTO_KERNEL_TYPE, params, n + 2) == PTO_OK,
          "submit of task %" PRIu64, number);
    if (fails && !skipped && !failed) {
        failed = true;
        first_failure = number;
    }
    args[1].u64 = kinds;
    const bool good = !fails && !skipped;
    if (good) {
        const pto_call call = {.args = args, .n_args = n + 2};
        CHECK(mix(&call) == PTO_OK, "model");
    }
    for (uint32_t i = 0; i < n; i++) {
        if ((kinds >> (2 * i + 4) & 3) != PTO_PARAM_INPUT) {
            written(of[i], &views[i], good);
            ((thing *)(uintptr_t)of[i])->written = true;
        }
    }
}

/* Some tasks that only the ranks submit which own something of some views. */
static void tasks_in_range(test_rng *rng, pto_runtime *rt, pto_kernel kernel, uint64_t *number)
{
    pto_param params[3];
    const uint64_t want = 1 + below(rng, 3);
    range.n = 0;
    for (uint64_t i = 0; i < want; i++) {
        const thing *o = &things[below(rng, (uint64_t)n_things)];
        if (o->temp && !o->written) {
            continue;
        }
        range.of[range.n] = o;
        range.view[range.n] = below(rng, 4) ? random_view(rng, o) : o->t;
        range.writes[range.n] = below(rng, 3);
        pto_tensor *t = &range.view[range.n];
        params[range.n] = range.writes[range.n] ? pto_inout(t) : pto_input(t);
        range.n++;
    }
    if (!range.n) {
        return;
    }
    range.mine = pto_mpi_only_begin_at(rt, params, range.n, __FILE__, __LINE__);
    range.open = true;
    for (uint64_t n = below(rng, 12); n > 0; n--) {
        task(rng, rt, kernel, ++*number);
    }
    range.open = false;
    pto_mpi_only_end(rt); /* nothing, on ranks that did not walk through it */
}

static void compare(const thing *o, const pto_tensor *t, const uint32_t *got, const char *what)
{
    int64_t at[MOST_ELEMENTS];
    const int64_t n = elements(t, at);
    for (int64_t i = 0; i < n; i++) {
        CHECK(got[i] == o->model[at[i]], "%s: element %" PRId64 " is %u, not %u", what, i, got[i],
              o->model[at[i]]);
    }
}

static void read_view(test_rng *rng, pto_runtime *rt)
{
    const thing *o = &things[below(rng, (uint64_t)n_things)];
    uint32_t got[MOST_ELEMENTS];
    if (o->temp && !o->written) {
        return;
    }
    const pto_tensor t = below(rng, 3) ? random_view(rng, o) : o->t;
    const bool expected = is_bad(o, &t);
    const pto_status status = pto_mpi_read(rt, &t, got, sizeof got);
    CHECK(status == (expected ? PTO_POISONED : PTO_OK), "read: %s", pto_status_text(status));
    if (!expected) {
        compare(o, &t, got, "read");
        /* Control flow that depends on data. */
        for (uint32_t i = 0; i < got[0] % 3; i++) {
            test_next(rng);
        }
    }
}

static void scatter(test_rng *rng, pto_runtime *rt)
{
    const thing *o = &things[below(rng, (uint64_t)n_tensors)];
    const int root = (int)below(rng, (uint64_t)ranks);
    uint32_t from[MOST_ELEMENTS];
    for (int64_t i = 0; i < o->n; i++) {
        from[i] = o->model[i] = (uint32_t)test_next(rng);
    }
    CHECK(pto_mpi_scatter(rt, &o->t, root, rank == root ? from : NULL, sizeof from) == PTO_OK,
          "scatter");
    written(o, &o->t, true);
}

static void gather(test_rng *rng, pto_runtime *rt)
{
    const thing *o = &things[below(rng, (uint64_t)n_tensors)];
    const int root = (int)below(rng, (uint64_t)ranks);
    uint32_t got[MOST_ELEMENTS];
    const bool expected = is_bad(o, &o->t) && rank == root;
    const pto_status status = pto_mpi_gather(rt, &o->t, root, rank == root ? got : NULL,
                                             sizeof got);
    CHECK(status == (expected ? PTO_POISONED : PTO_OK), "gather: %s", pto_status_text(status));
    if (rank == root && !expected) {
        compare(o, &o->t, got, "gather");
    }
}

static void wait_all(pto_runtime *rt, bool clear)
{
    char name[64];
    const pto_status status = pto_mpi_wait(rt);
    CHECK(status == (failed ? PTO_TASK_FAILED : PTO_OK), "wait: %s", pto_status_text(status));
    snprintf(name, sizeof name, "task %" PRIu64 " fails.", first_failure);
    CHECK(!failed || strstr(pto_error_detail(), name), "the first failure is '%s'", name);
    if (clear) {
        CHECK(pto_mpi_clear_error(rt) == PTO_OK, "clear");
        /* What failed tasks wrote is undefined: write everything again. */
        failed = false;
        n_bads = 0;
        for (int i = 0; i < n_tensors; i++) {
            for (int64_t k = 0; k < things[i].n; k++) {
                things[i].model[k] = (uint32_t)(k * 7 + i);
            }
            CHECK(pto_mpi_scatter(rt, &things[i].t, 0, things[i].model,
                                  (uint64_t)things[i].n * sizeof(uint32_t)) == PTO_OK,
                  "scatter after clear");
        }
    }
}

static void drop_temps(void)
{
    while (n_things > n_tensors) {
        const thing *o = &things[--n_things];
        for (int b = 0; b < n_bads;) {
            if (bads[b].of == o) {
                bads[b] = bads[--n_bads];
            } else {
                b++;
            }
        }
        free(o->model);
    }
}

static void program(uint64_t number)
{
    test_rng rng = test_rng_make(number);
    pto_config config = PTO_CONFIG_INIT;
    pto_mpi_config mpi = {.size = sizeof mpi};
    pto_runtime *rt;
    pto_kernel kernel;
    uint64_t tasks = 0;
    seed = number;
    config.workers = below(&rng, 3) ? 1 + (uint32_t)below(&rng, 2) : PTO_NO_WORKERS;
    config.ring_tasks = below(&rng, 2) ? 4 + (uint32_t)below(&rng, 16) : 0;
    config.deps = below(&rng, 2) ? 1 + (uint32_t)below(&rng, 64) : 0;
    config.place = below(&rng, 4) ? PTO_PLACE_INLINE : PTO_PLACE_THREAD;
    config.inline_ns = below(&rng, 2) ? PTO_NO_INLINE : 1000000;
    config.crash_report = PTO_NO_CRASH_REPORT;
    config.spin = PTO_NO_SPIN;
    mpi.cache_bytes = 1024 + below(&rng, 2) * below(&rng, 8192);
    mpi.small_bytes = below(&rng, 3) ? 1 + below(&rng, 64) : 0; /* some pieces share messages */
    mpi.scratch_bytes = 1024 + below(&rng, 2) * below(&rng, 8192);
    mpi.spin = 1 + (uint32_t)below(&rng, 20);
    CHECK(pto_runtime_create(&rt, &config) == PTO_OK, "create");
    CHECK(pto_mpi_create(rt, &mpi) == PTO_OK, "world");
    rank = pto_mpi_rank(rt);
    ranks = pto_mpi_ranks(rt);
    CHECK(pto_kernel_register(rt, "mix", PTO_VECTOR, mix, NULL, &kernel) == PTO_OK, "register");
    CHECK(pto_kernel_variant(rt, kernel, PTO_DEVICE_SIM, mix_sim, NULL) == PTO_OK, "variant");
    n_where = below(&rng, 2) ? 0 : 1 + below(&rng, 3); /* the host, one device, or all of them */
    n_things = n_tensors = n_bads = 0;
    memset(n_familiar, 0, sizeof n_familiar);
    failed = false;
    for (uint64_t n = 1 + below(&rng, MOST_TENSORS); n > 0; n--) {
        make_tensor(&rng, rt);
    }
    for (uint64_t scopes = 1 + below(&rng, 4); scopes > 0; scopes--) {
        PTO_SCOPE(rt) {
            for (uint64_t ops = below(&rng, 60); ops > 0; ops--) {
                switch (below(&rng, 24)) {
                case 0:
                    gather(&rng, rt);
                    break;
                case 1:
                    scatter(&rng, rt);
                    break;
                case 2:
                case 3:
                    read_view(&rng, rt);
                    break;
                case 4:
                    wait_all(rt, false);
                    break;
                case 7:
                case 8:
                case 9:
                case 10:
                    tasks_in_range(&rng, rt, kernel, &tasks);
                    break;
                case 11:
                case 12:
                case 13:
                    broadcast(&rng, rt);
                    break;
                case 5:
                case 6:
                    if (n_things - n_tensors < MOST_TEMPS) {
                        make_temp(&rng, rt);
                        break;
                    } /* fall through */
                default:
                    task(&rng, rt, kernel, ++tasks);
                }
            }
        }
        drop_temps();
        if (below(&rng, 3) == 0) {
            wait_all(rt, true);
        }
    }
    for (int i = 0; i < n_tensors; i++) {
        uint32_t got[MOST_ELEMENTS];
        const bool expected = is_bad(&things[i], &things[i].t);
        CHECK(pto_mpi_read(rt, &things[i].t, got, sizeof got) == (expected ? PTO_POISONED : PTO_OK),
              "last read");
        if (!expected) {
            compare(&things[i], &things[i].t, got, "at the end");
        }
    }
    CHECK(pto_mpi_destroy(rt) == (failed ? PTO_TASK_FAILED : PTO_OK), "destroy");
    PTO_IGNORE(pto_runtime_destroy(&rt, PTO_CANCEL));
    for (int i = 0; i < n_tensors; i++) {
        free(things[i].model);
    }
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: programs SEED COUNT\n");
        return 2;
    }
    const uint64_t first = strtoull(argv[1], NULL, 10), count = strtoull(argv[2], NULL, 10);
    if (pto_sim_configure(1, &(pto_sim_config){.size = sizeof(pto_sim_config), .streams = 3}) !=
        PTO_OK) {
        return 2;
    }
    for (uint64_t i = first; i < first + count; i++) {
        program(i);
    }
    return 0;
}
