/* tasks_patterns.h - the six programs of bench_tasks: shapes of dependencies that real ones have.
 *
 *   P1 independent   every task reads the same two tiles and writes one of its own
 *   P2 chain         every task updates the one tile
 *   P3 stencil       64 cells, two generations: a cell reads three of the old and writes a new one
 *   P4 bgemm         C[m,n] += A[m,k] B[k,n]: gemm into a tile that lives for these two tasks, then
 *                    add
 *   P5 cholesky      tiled factorisation, the tiles being parts of one row-major matrix
 *   P6 random        256 tiles: reads three and updates one, any of them
 *
 * They know no runtime: whoever includes this file, in C or C++, says first what a `tile` and a
 * `sink` is, and defines afterwards the functions declared under "Where a program sends its tasks".
 * So ours and every peer run the very same programs. The memory that the tasks, one after the
 * other, would leave is what each of them has to leave.
 */
#ifndef PTO_TASKS_PATTERNS_H
#define PTO_TASKS_PATTERNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define TILE INT64_C(4) /* elements on a side; bodies do not look, so size does not matter */
#define CHOLESKY 100    /* tiles on a side, at most */
#define MAX_READS 5
#define INLINE static inline __attribute__((always_inline))

static void *must_have(void *memory)
{
    if (!memory) {
        fprintf(stderr, "out of memory\n");
        exit(2);
    }
    return memory;
}

/* ---- Tasks ---------------------------------------------------------------------------------- */

/* X(name, text, whether it reads what it writes) */
#define KIND_MAP(X)                                                                                \
    X(INDEPENDENT, "independent", false)                                                           \
    X(CHAIN, "chain", true)                                                                        \
    X(STENCIL, "stencil", false)                                                                   \
    X(GEMM, "gemm", false)                                                                         \
    X(ADD, "add", true)                                                                            \
    X(POTRF, "potrf", true)                                                                        \
    X(TRSM, "trsm", true)                                                                          \
    X(SYRK, "syrk", true)                                                                          \
    X(UPDATE, "gemm_update", true)                                                                 \
    X(RANDOM, "random", true)

typedef enum kind {
#define KIND_ENUM(name, text, updates) name,
    KIND_MAP(KIND_ENUM)
#undef KIND_ENUM
        KINDS
} kind;

typedef struct kind_row {
    const char *name;
    bool updates;
} kind_row;

static const kind_row kinds[KINDS] = {
#define KIND_ROW(name, text, updates) {text, updates},
    KIND_MAP(KIND_ROW)
#undef KIND_ROW
};

static inline uint64_t mixed(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

/* The body of a task of some length: steps that wait for one another, so that another thread on the
 * same core does not make them longer. */
static inline void body_spin(uint64_t steps)
{
    uint64_t x = steps;
    for (uint64_t i = 0; i < steps; i++) {
        x = x * 3 + 1;
        __asm__ volatile("" : "+r"(x));
    }
}

/* Bodies alone, one after the other: all that `tasks` tasks have, or, if that would take long, some of
 * them. Returns how many. */
static inline uint64_t bodies_alone(uint64_t tasks, uint64_t steps)
{
    const uint64_t most = 4000000 / (steps + 1) + 1, some = tasks < most ? tasks : most;
    for (uint64_t i = 0; steps && i < some; i++) {
        body_spin(steps);
    }
    return some;
}

/* The body of a checked task: puts its number and every element that it reads into every element
 * that it writes, so that two tasks which touch the same memory in another order leave something
 * else there. Some begin late, so that those which ought to wait for them have time to overtake.
 * `tiles` are what it reads, then what it writes; `row` is from one row to the next. */
static inline void body_mix(kind which, uint64_t number, uint64_t *const *tiles, size_t reads,
                            int64_t row)
{
    uint64_t sum = mixed(number + 1);
    body_spin(sum % 64 ? 0 : 40000);
    for (size_t t = 0; t < reads + kinds[which].updates; t++) {
        for (int64_t i = 0; i < TILE * TILE; i++) {
            sum = mixed(sum * 31 + tiles[t][i / TILE * row + i % TILE]);
        }
    }
    for (int64_t i = 0; i < TILE * TILE; i++) {
        tiles[reads][i / TILE * row + i % TILE] = mixed(sum + (uint64_t)i);
    }
}

/* ---- Memory --------------------------------------------------------------------------------- */

/* The tiles of a program, made before any clock starts: each dense and apart from the others, or
 * parts of one matrix. */
typedef struct data {
    uint64_t *memory;
    size_t bytes, n_tiles;
    int64_t side; /* of the matrix, in tiles; 0: apart */
    int64_t row;  /* elements from one row of a tile to the next */
    tile *tiles;
} data;

static void tile_make(tile *t, const data *d, size_t index); /* the includer's */
static void tile_free(tile *t);                              /* likewise */

static uint64_t *tile_memory(const data *d, size_t index)
{
    const size_t side = (size_t)d->side;
    return side ? d->memory + (index / side * TILE * side + index % side) * TILE
                : d->memory + index * TILE * TILE;
}

#ifndef DATA_MEMORY /* an includer may have memory of its own */
#define DATA_MEMORY(bytes) aligned_alloc(64, bytes)
#define DATA_FREE(memory) free(memory)
#endif

static data data_make(size_t n_tiles, int64_t side)
{
    data d;
    d.n_tiles = n_tiles;
    d.bytes = n_tiles * TILE * TILE * sizeof(uint64_t);
    d.side = side;
    d.row = side ? side * TILE : TILE;
    d.memory = (uint64_t *)must_have(DATA_MEMORY(d.bytes));
    d.tiles = (tile *)must_have(calloc(n_tiles, sizeof *d.tiles));
    for (size_t i = 0; i < d.bytes / sizeof(uint64_t); i++) {
        d.memory[i] = mixed(i + 1);
    }
    for (size_t i = 0; i < n_tiles; i++) {
        tile_make(&d.tiles[i], &d, i);
    }
    return d;
}

static void data_free(data *d)
{
    for (size_t i = 0; i < d->n_tiles; i++) {
        tile_free(&d->tiles[i]);
    }
    DATA_FREE(d->memory);
    free(d->tiles);
}

/* One number for all that is in the memory: another process says that its own is the same. */
static inline uint64_t data_hash(const data *d)
{
    uint64_t sum = d->bytes;
    for (size_t i = 0; i < d->bytes / sizeof(uint64_t); i++) {
        sum = mixed(sum * 31 + d->memory[i]);
    }
    return sum;
}

/* ---- Where a program sends its tasks -------------------------------------------------------- */

/* A task that reads so many tiles, and writes or updates w: the includer defines them. */
INLINE void task0(sink *s, kind which, tile *w);
INLINE void task1(sink *s, kind which, tile *a, tile *w);
INLINE void task2(sink *s, kind which, tile *a, tile *b, tile *w);
INLINE void task3(sink *s, kind which, tile *a, tile *b, tile *c, tile *w);

/* A dense tile for the tasks from here to fresh_end: the n-th such. */
INLINE tile *fresh_begin(sink *s, uint64_t n);
INLINE void fresh_end(sink *s);

/* ---- The programs --------------------------------------------------------------------------- */

enum { OWN = 256 }; /* tiles of P1 that are written in turn, and all tiles of P6 */

static data independent_data(uint64_t tasks)
{
    (void)tasks;
    return data_make(2 + OWN, 0);
}

static void independent_run(sink *s, const data *d, uint64_t tasks)
{
    tile *own = d->tiles + 2;
    for (uint64_t i = 0; i < tasks; i++) {
        task2(s, INDEPENDENT, &d->tiles[0], &d->tiles[1], &own[i % OWN]);
    }
}

static data chain_data(uint64_t tasks)
{
    (void)tasks;
    return data_make(1, 0);
}

static void chain_run(sink *s, const data *d, uint64_t tasks)
{
    for (uint64_t i = 0; i < tasks; i++) {
        task0(s, CHAIN, &d->tiles[0]);
    }
}

enum { CELLS = 64 };

static data stencil_data(uint64_t tasks)
{
    (void)tasks;
    return data_make((size_t)2 * CELLS, 0);
}

static void stencil_run(sink *s, const data *d, uint64_t tasks)
{
    for (uint64_t i = 0; i < tasks; i++) {
        const uint64_t cell = i % CELLS, generation = i / CELLS % 2;
        tile *from = d->tiles + generation * CELLS, *to = d->tiles + (1 - generation) * CELLS;
        task3(s, STENCIL, &from[(cell + CELLS - 1) % CELLS], &from[cell], &from[(cell + 1) % CELLS],
              &to[cell]);
    }
}

enum { SIDE = 16 }; /* of the three matrices, in tiles */

static data bgemm_data(uint64_t tasks)
{
    (void)tasks;
    return data_make((size_t)3 * SIDE * SIDE, 0);
}

static void bgemm_run(sink *s, const data *d, uint64_t tasks)
{
    tile *a = d->tiles, *b = a + (size_t)SIDE * SIDE, *c = b + (size_t)SIDE * SIDE;
    for (uint64_t i = 0; i < tasks / 2; i++) {
        const uint64_t n = i % SIDE, m = i / SIDE % SIDE, k = i / SIDE / SIDE % SIDE;
        tile *product = fresh_begin(s, i);
        task2(s, GEMM, &a[m * SIDE + k], &b[k * SIDE + n], product);
        task1(s, ADD, product, &c[m * SIDE + n]);
        fresh_end(s);
    }
}

static uint64_t cholesky_tasks(uint64_t side)
{
    return side + side * (side - 1) + side * (side - 1) * (side - 2) / 6;
}

/* The matrix that comes nearest to so many tasks, up to CHOLESKY tiles a side. */
static int64_t cholesky_side(uint64_t tasks)
{
    uint64_t side = 1;
    while (side < CHOLESKY && cholesky_tasks(side) + cholesky_tasks(side + 1) <= 2 * tasks) {
        side++;
    }
    return (int64_t)side;
}

static data cholesky_data(uint64_t tasks)
{
    const int64_t side = cholesky_side(tasks);
    return data_make((size_t)(side * side), side);
}

static void cholesky_once(sink *s, const data *d, int64_t side)
{
    tile *a = d->tiles;
    for (int64_t k = 0; k < side; k++) {
        task0(s, POTRF, &a[k * side + k]);
        for (int64_t i = k + 1; i < side; i++) {
            task1(s, TRSM, &a[k * side + k], &a[i * side + k]);
        }
        for (int64_t i = k + 1; i < side; i++) {
            for (int64_t j = k + 1; j < i; j++) {
                task2(s, UPDATE, &a[i * side + k], &a[j * side + k], &a[i * side + j]);
            }
            task1(s, SYRK, &a[i * side + k], &a[i * side + i]);
        }
    }
}

static void cholesky_run(sink *s, const data *d, uint64_t tasks)
{
    const uint64_t each = cholesky_tasks((uint64_t)d->side);
    const uint64_t times = (tasks + each / 2) / each;
    for (uint64_t i = 0; i == 0 || i < times; i++) {
        cholesky_once(s, d, d->side);
    }
}

static data scattered_data(uint64_t tasks)
{
    (void)tasks;
    return data_make(OWN, 0);
}

static void scattered_run(sink *s, const data *d, uint64_t tasks)
{
    tile *t = d->tiles;
    for (uint64_t i = 0; i < tasks; i++) {
        const uint64_t r = mixed(i + 1); /* four numbers below 256; some may be equal */
        task3(s, RANDOM, &t[r & 255], &t[r >> 8 & 255], &t[r >> 16 & 255], &t[r >> 24 & 255]);
    }
}

typedef struct pattern {
    const char *name, *text;
    data (*make)(uint64_t tasks);
    void (*run)(sink *s, const data *d, uint64_t tasks); /* about so many */
} pattern;

enum { PATTERNS = 6, METG_PATTERN = 2 };

static const pattern patterns[PATTERNS] = {
    {"P1", "independent", independent_data, independent_run},
    {"P2", "chain", chain_data, chain_run},
    {"P3", "stencil", stencil_data, stencil_run},
    {"P4", "bgemm", bgemm_data, bgemm_run},
    {"P5", "cholesky", cholesky_data, cholesky_run},
    {"P6", "random", scattered_data, scattered_run},
};

#endif /* PTO_TASKS_PATTERNS_H */
