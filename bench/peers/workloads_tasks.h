/* workloads_tasks.h - cholesky and bgemm as tasks, for the peers of bench_workloads that are runtimes.
 *
 * The tasks are those of examples/workloads, in the same order, and call the same routines of
 * blas.h, out of the same archive, on tiles of one row-major matrix. The file of a peer defines
 * `handle`, what it knows a tile by, before it includes this one, and afterwards what is declared
 * below.
 */
#ifndef PTO_PEERS_WORKLOADS_TASKS_H
#define PTO_PEERS_WORKLOADS_TASKS_H

#include "workloads_peer.h"

#define INLINE static inline __attribute__((always_inline, unused))

typedef enum kind { POTRF, TRSM, SYRK, UPDATE, MULTIPLY, ADD, KINDS } kind;
enum { MAX_READS = 2 };
static const int reads_of[KINDS] = {
    [POTRF] = 0, [TRSM] = 1, [SYRK] = 1, [UPDATE] = 2, [MULTIPLY] = 2, [ADD] = 1};

typedef struct block {
    double *at;
    int64_t rows, columns, ld;
} block;

typedef struct tile {
    block b;
    handle h;
} tile;

/* Of the peer. Each task reads the first tiles and updates the last one (MULTIPLY: writes). */
static void tile_register(tile *t);
static void tile_unregister(tile *t);
static void task0(kind which, tile *w);
static void task1(kind which, tile *x, tile *w);
static void task2(kind which, tile *x, tile *y, tile *w);
static void tasks_wait(void);

/* ---- Kernels -------------------------------------------------------------------------------- */

static void add(const block *p, const block *c)
{
    for (int64_t i = 0; i < c->rows; i++) {
        const double *restrict from = p->at + i * p->ld;
        double *restrict to = c->at + i * c->ld;
        for (int64_t j = 0; j < c->columns; j++) {
            to[j] += from[j];
        }
    }
}

/* What a task does; unused arguments are NULL. */
INLINE void kernel_run(kind which, const block *x, const block *y, const block *w)
{
    switch (which) {
    case POTRF:
        (void)blas_dpotrf(w->rows, w->at, w->ld); /* what fails shows in the check */
        break;
    case TRSM:
        blas_dtrsm_right(w->rows, w->columns, x->at, x->ld, w->at, w->ld);
        break;
    case SYRK:
        blas_dsyrk(w->rows, x->columns, x->at, x->ld, w->at, w->ld);
        break;
    case UPDATE:
        blas_dgemm(true, w->rows, w->columns, x->columns, -1, x->at, x->ld, y->at, y->ld, 1, w->at,
                   w->ld);
        break;
    case MULTIPLY:
        /* The temporary is as large as a whole tile, also where those at the edge are smaller. */
        blas_dgemm(false, x->rows, y->columns, x->columns, 1, x->at, x->ld, y->at, y->ld, 0, w->at,
                   w->ld);
        break;
    default:
        add(x, w);
        break;
    }
}

/* ---- Tiles ---------------------------------------------------------------------------------- */

typedef struct grid {
    int64_t down, across;
    tile *tiles;
} grid;

static grid a_grid, b_grid, c_grid;
static grid temporaries; /* used in turn: as much memory as ours takes for them */
static double *temporary_memory;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The tiles of `count` matrices of n x n below each other; none reaches from one into the next. */
static grid grid_make(double *memory, int64_t count, int64_t n, int64_t side)
{
    const int64_t across = (n + side - 1) / side, tiles = count * across * across;
    grid g = {count * across, across, must_alloc(tiles, sizeof(tile))};
    for (int64_t l = 0; l < tiles; l++) {
        const int64_t j = l % across, i = l / across % across, which = l / across / across;
        g.tiles[l].b = (block){memory + (which * n + i * side) * n + j * side,
                               least(side, n - i * side), least(side, n - j * side), n};
        tile_register(&g.tiles[l]);
    }
    return g;
}

static void grid_free(grid *g)
{
    for (int64_t i = 0; i < g->down * g->across; i++) {
        tile_unregister(&g->tiles[i]);
    }
    workload_free(g->tiles);
}

INLINE tile *at(const grid *g, int64_t i, int64_t j)
{
    return &g->tiles[i * g->across + j];
}

/* ---- What workloads_peer.h asks for --------------------------------------------------------- */

static void peer_begin(const problem *p)
{
    const int64_t batch = p->is_bgemm ? BGEMM_BATCH : 1, side = p->tile;
    const int64_t one = side * side * (int64_t)sizeof(double);
    const int64_t count = BGEMM_MEMORY / one > 8 ? BGEMM_MEMORY / one : 8;
    (void)blas_start();
    a_grid = grid_make(p->a, batch, p->n, side);
    if (p->is_bgemm) {
        b_grid = grid_make(p->b, batch, p->n, side);
        c_grid = grid_make(p->c, batch, p->n, side);
        temporary_memory = must_alloc(count * side * side, sizeof(double));
        temporaries = grid_make(temporary_memory, count, side, side);
    }
}

static void peer_end(void)
{
    grid_free(&a_grid);
    grid_free(&b_grid);
    grid_free(&c_grid);
    grid_free(&temporaries);
    workload_free(temporary_memory);
}

static void cholesky_run(const grid *a)
{
    for (int64_t k = 0; k < a->down; k++) {
        task0(POTRF, at(a, k, k));
        for (int64_t i = k + 1; i < a->down; i++) {
            task1(TRSM, at(a, k, k), at(a, i, k));
        }
        for (int64_t i = k + 1; i < a->down; i++) {
            for (int64_t j = k + 1; j < i; j++) {
                task2(UPDATE, at(a, i, k), at(a, j, k), at(a, i, j));
            }
            task1(SYRK, at(a, i, k), at(a, i, i));
        }
    }
}

static void bgemm_run(void)
{
    const int64_t tiles = a_grid.across;
    int64_t next = 0;
    for (int64_t l = 0; l < a_grid.down; l++) {
        for (int64_t j = 0; j < tiles; j++) {
            for (int64_t q = 0; q < tiles; q++) {
                tile *p = &temporaries.tiles[next];
                next = next + 1 == temporaries.down ? 0 : next + 1;
                task2(MULTIPLY, at(&a_grid, l, q), at(&b_grid, l / tiles * tiles + q, j), p);
                task1(ADD, p, at(&c_grid, l, j));
            }
        }
    }
}

static void peer_run(const problem *p)
{
    if (p->is_bgemm) {
        bgemm_run();
    } else {
        cholesky_run(&a_grid);
    }
    tasks_wait();
}

#endif /* PTO_PEERS_WORKLOADS_TASKS_H */
