/* scale.c - what one rank of many would do: tasks, messages, memory and the time to submit, counted without the
 * other ranks. For docs/scale.md; bench/mpi/scale.py draws its output.
 *
 *     scale cholesky|stencil RANKS EVERY        every rank has EVERY x EVERY tiles (16; 4 for stencil)
 *     scale panel RANKS                         one tile of a panel, without and with a tree
 *
 * One line for each of a few ranks, without and with ranges (pto_mpi_only). Ranks form a square. */
#include <pto/mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TILE = 256, CELLS = 2048, STEPS = 10 };

static pto_status nothing(const pto_call *call)
{
    (void)call;
    return PTO_OK;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

typedef struct run {
    pto_runtime *rt;
    pto_kernel kernel;
    int64_t tiles; /* along a side */
    int64_t every; /* of a rank, along a side */
    int side;      /* ranks along a side */
    bool ranges;
    bool trees; /* panels are broadcast (pto_mpi_broadcast) */
} run;

static pto_status tile_at(const pto_tensor *a, int64_t i, int64_t j, pto_tensor *t)
{
    return pto_tensor_view(a, (int64_t[]){i * TILE, j * TILE}, (int64_t[]){TILE, TILE}, t);
}

/* Rows from `i` on of column j of tiles. */
static pto_status below(const pto_tensor *a, int64_t i, int64_t j, int64_t tiles, pto_tensor *t)
{
    return pto_tensor_view(a, (int64_t[]){i * TILE, j * TILE},
                           (int64_t[]){(tiles - i) * TILE, TILE}, t);
}

/* Updates of column j with column k. */
static pto_status update(const run *r, const pto_tensor *a, int64_t k, int64_t j)
{
    pto_tensor left, right, to;
    PTO_TRY(tile_at(a, j, k, &right));
    for (int64_t i = j; i < r->tiles; i++) {
        PTO_TRY(tile_at(a, i, j, &to));
        if (i == j) {
            PTO_TRY(pto_mpi_submit(r->rt, r->kernel, pto_input(&right), pto_inout(&to)));
            continue;
        }
        PTO_TRY(tile_at(a, i, k, &left));
        PTO_TRY(
            pto_mpi_submit(r->rt, r->kernel, pto_input(&left), pto_input(&right), pto_inout(&to)));
    }
    return PTO_OK;
}

static pto_status panel(const run *r, const pto_tensor *a, int64_t k)
{
    pto_tensor pivot, to;
    PTO_TRY(tile_at(a, k, k, &pivot));
    PTO_TRY(pto_mpi_submit(r->rt, r->kernel, pto_inout(&pivot)));
    for (int64_t i = k + 1; i < r->tiles; i++) {
        PTO_TRY(tile_at(a, i, k, &to));
        PTO_TRY(pto_mpi_submit(r->rt, r->kernel, pto_input(&pivot), pto_inout(&to)));
    }
    return PTO_OK;
}

/* Tile [i, k] updates row i, right of it, and column i. */
static pto_status spread_panel(const run *r, const pto_tensor *a, int64_t k)
{
    for (int64_t i = k + 1; i < r->tiles; i++) {
        pto_tensor from, row, column;
        PTO_TRY(tile_at(a, i, k, &from));
        PTO_TRY(pto_tensor_view(a, (int64_t[]){i * TILE, (k + 1) * TILE},
                                (int64_t[]){TILE, (i - k) * TILE}, &row));
        PTO_TRY(below(a, i, i, r->tiles, &column));
        PTO_TRY(pto_mpi_broadcast(r->rt, &from, pto_input(&row), pto_input(&column)));
    }
    return PTO_OK;
}

static pto_status cholesky(const run *r)
{
    pto_tensor a, column, other;
    const int64_t n = r->tiles * TILE;
    PTO_TRY(pto_mpi_tensor(r->rt, PTO_FLOAT64, 2, (int64_t[]){n, n},
                           &(pto_mpi_layout){.tile = {TILE, TILE}, .grid = {r->side, r->side}},
                           &a));
    for (int64_t k = 0; k < r->tiles; k++) {
        PTO_TRY(below(&a, k, k, r->tiles, &column));
        if (r->ranges) {
            pto_mpi_only(r->rt, pto_inout(&column))
            {
                PTO_TRY(panel(r, &a, k));
            }
        } else {
            PTO_TRY(panel(r, &a, k));
        }
        if (r->trees) {
            PTO_TRY(spread_panel(r, &a, k));
        }
        for (int64_t j = k + 1; j < r->tiles; j++) {
            if (!r->ranges) {
                PTO_TRY(update(r, &a, k, j));
                continue;
            }
            PTO_TRY(below(&a, j, k, r->tiles, &column));
            PTO_TRY(below(&a, j, j, r->tiles, &other));
            pto_mpi_only(r->rt, pto_input(&column), pto_inout(&other))
            {
                PTO_TRY(update(r, &a, k, j));
            }
        }
    }
    return pto_mpi_wait(r->rt);
}

static int block_owner(const int64_t *tile, void *user)
{
    const run *r = user;
    return (int)(tile[0] / r->every) * r->side + (int)(tile[1] / r->every);
}

static pto_status part(const pto_tensor *a, int64_t i, int64_t j, int64_t height, int64_t width,
                       pto_tensor *t)
{
    return pto_tensor_view(a, (int64_t[]){i, j}, (int64_t[]){height, width}, t);
}

/* One tile: it reads itself and the edges of its neighbours, which are those at the rim of the plate. */
static pto_status spread(const run *r, const pto_tensor *from, const pto_tensor *to, int64_t i,
                         int64_t j)
{
    pto_tensor here, up, down, left, right, out;
    const int64_t n = r->tiles, y = i * CELLS, x = j * CELLS;
    PTO_TRY(part(from, y, x, CELLS, CELLS, &here));
    PTO_TRY(part(to, y, x, CELLS, CELLS, &out));
    PTO_TRY(part(from, i ? y - 1 : y, x, 1, CELLS, &up));
    PTO_TRY(part(from, i + 1 < n ? y + CELLS : y, x, 1, CELLS, &down));
    PTO_TRY(part(from, y, j ? x - 1 : x, CELLS, 1, &left));
    PTO_TRY(part(from, y, j + 1 < n ? x + CELLS : x, CELLS, 1, &right));
    return pto_mpi_submit(r->rt, r->kernel, pto_input(&here), pto_input(&up), pto_input(&down),
                          pto_input(&left), pto_input(&right), pto_output(&out));
}

static pto_status block(const run *r, const pto_tensor *from, const pto_tensor *to, int64_t i,
                        int64_t j)
{
    for (int64_t k = 0; k < r->every * r->every; k++) {
        PTO_TRY(spread(r, from, to, i + k / r->every, j + k % r->every));
    }
    return PTO_OK;
}

static pto_status stencil(run *r)
{
    pto_tensor plates[2], around, inside;
    const int64_t n = r->tiles * CELLS, size = r->every * CELLS;
    for (int i = 0; i < 2; i++) {
        PTO_TRY(pto_mpi_tensor(
            r->rt, PTO_FLOAT32, 2, (int64_t[]){n, n},
            &(pto_mpi_layout){.tile = {CELLS, CELLS}, .owner = block_owner, .user = r},
            &plates[i]));
    }
    for (int s = 0; s < STEPS; s++) {
        const pto_tensor *from = &plates[s % 2], *to = &plates[1 - s % 2];
        for (int64_t i = 0; i < r->tiles; i += r->every) {
            for (int64_t j = 0; j < r->tiles; j += r->every) {
                if (!r->ranges) {
                    PTO_TRY(block(r, from, to, i, j));
                    continue;
                }
                const int64_t y = i ? i * CELLS - 1 : 0, x = j ? j * CELLS - 1 : 0;
                const int64_t h = (i * CELLS + size < n ? i * CELLS + size + 1 : n) - y;
                const int64_t w = (j * CELLS + size < n ? j * CELLS + size + 1 : n) - x;
                PTO_TRY(part(from, y, x, h, w, &around));
                PTO_TRY(part(to, i * CELLS, j * CELLS, size, size, &inside));
                pto_mpi_only(r->rt, pto_input(&around), pto_output(&inside))
                {
                    PTO_TRY(block(r, from, to, i, j));
                }
            }
        }
    }
    return pto_mpi_wait(r->rt);
}

/* One tile of a panel and the tasks that read it: how often does its owner send it? */
static pto_status one_panel_tile(const run *r)
{
    pto_tensor a, from, to, row, column;
    const int64_t n = r->tiles * TILE, i = r->side, k = 0;
    PTO_TRY(pto_mpi_tensor(r->rt, PTO_FLOAT64, 2, (int64_t[]){n, n},
                           &(pto_mpi_layout){.tile = {TILE, TILE}, .grid = {r->side, r->side}},
                           &a));
    PTO_TRY(tile_at(&a, i, k, &from));
    PTO_TRY(pto_mpi_submit(r->rt, r->kernel, pto_inout(&from)));
    if (r->trees) {
        PTO_TRY(pto_tensor_view(&a, (int64_t[]){i * TILE, (k + 1) * TILE},
                                (int64_t[]){TILE, (i - k) * TILE}, &row));
        PTO_TRY(below(&a, i, i, r->tiles, &column));
        PTO_TRY(pto_mpi_broadcast(r->rt, &from, pto_input(&row), pto_input(&column)));
    }
    for (int64_t j = k + 1; j <= i; j++) {
        PTO_TRY(tile_at(&a, i, j, &to));
        PTO_TRY(pto_mpi_submit(r->rt, r->kernel, pto_input(&from), pto_inout(&to)));
    }
    for (int64_t j = i; j < r->tiles; j++) {
        PTO_TRY(tile_at(&a, j, i, &to));
        PTO_TRY(pto_mpi_submit(r->rt, r->kernel, pto_input(&from), pto_inout(&to)));
    }
    return pto_mpi_wait(r->rt);
}

static pto_status count(const char *name, int ranks, int rank, int64_t every, bool ranges,
                        bool trees)
{
    run r = {.every = every, .ranges = ranges, .trees = trees};
    pto_config config = PTO_CONFIG_INIT;
    config.workers = PTO_NO_WORKERS;
    while (r.side * r.side < ranks) {
        r.side++;
    }
    r.tiles = r.side * every;
    PTO_TRY(pto_runtime_create(&r.rt, &config));
    PTO_TRY(pto_mpi_create(r.rt, &(pto_mpi_config){.size = sizeof(pto_mpi_config),
                                                   .count_rank = rank,
                                                   .count_ranks = ranks}));
    PTO_TRY(pto_kernel_register(r.rt, "nothing", PTO_VECTOR, nothing, NULL, &r.kernel));
    const double begin = now();
    PTO_TRY(strcmp(name, "cholesky") == 0 ? cholesky(&r)
            : strcmp(name, "panel") == 0  ? one_panel_tile(&r)
                                          : stencil(&r));
    const double seconds = now() - begin;
    pto_mpi_stats s;
    PTO_TRY(pto_mpi_get_stats(r.rt, &s));
    printf("%s ranks=%d rank=%d tiles=%lld ranges=%d trees=%d tasks=%llu others=%llu skipped=%llu "
           "sent=%llu "
           "received=%llu "
           "bytes_sent=%llu bytes_received=%llu own=%llu cache=%llu scratch=%llu tables=%llu "
           "submit_s=%.6f\n",
           name, ranks, rank, (long long)r.tiles, ranges, trees, (unsigned long long)s.tasks,
           (unsigned long long)s.others, (unsigned long long)s.skipped, (unsigned long long)s.sent,
           (unsigned long long)s.received, (unsigned long long)s.bytes_sent,
           (unsigned long long)s.bytes_received, (unsigned long long)s.bytes_tiles,
           (unsigned long long)s.bytes_cache, (unsigned long long)s.bytes_scratch,
           (unsigned long long)s.bytes_tables, seconds);
    (void)fflush(stdout);
    PTO_TRY(pto_mpi_destroy(r.rt));
    return pto_runtime_destroy(&r.rt, PTO_WAIT);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "cholesky";
    const int ranks = argc > 2 ? atoi(argv[2]) : 16;
    const int64_t every = argc > 3 ? atoll(argv[3]) : strcmp(name, "cholesky") == 0 ? 16 : 4;
    /* A corner, the middle and the last one: the last one has most to do in a factorization. */
    const int which[] = {0, ranks / 2, ranks - 1};
    pto_status status = ranks > 0 && every > 0 ? PTO_OK : pto_fail(PTO_BAD_PARAM, "ranks, tiles");
    const bool panel = strcmp(name, "panel") == 0; /* the owner of the tile is rank 0 */
    for (int i = 0; i < 2 && panel && status == PTO_OK; i++) {
        status = count(name, ranks, 0, 4, false, i == 1);
    }
    for (int i = 0; i < 6 && !panel && status == PTO_OK; i++) {
        status = count(name, ranks, which[i % 3], every, i >= 3, strcmp(name, "cholesky") == 0);
    }
    if (status != PTO_OK) {
        fprintf(stderr, "scale: %s: %s\n", pto_status_text(status), pto_error_detail());
    }
    return status != PTO_OK;
}
