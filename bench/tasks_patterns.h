/* tasks_patterns.h - the six programs of bench_tasks: shapes of dependencies that real ones have.
 *
 *   P1 independent   every task reads the same two tiles and writes one of its own
 *   P2 chain         every task updates the one tile
 *   P3 stencil       64 cells, two generations: a cell reads three of the old and writes a new one
 *   P4 bgemm         C[m,n] += A[m,k] B[k,n]: gemm into a managed tile, then add; a boundary scope
 *                    around each such pair
 *   P5 cholesky      tiled factorisation, the tiles being views of one row-major matrix
 *   P6 random        256 tiles: reads three and updates one, any of them
 *
 * A program is written once and runs in two ways: through a runtime, or one task after the other
 * as it comes, which is what the runtime has to be equal to. Every task has its reads first and the
 * one tile that it writes last.
 */
#ifndef PTO_TASKS_PATTERNS_H
#define PTO_TASKS_PATTERNS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pto/pto.h>

#define TILE INT64_C(4) /* elements on a side; bodies are empty, so size does not matter */
#define CHOLESKY 100    /* tiles on a side, at most */
#define MAX_READS 3
#define MAX_PARAMS (MAX_READS + 2) /* the tile written, and in a checked run a number */

static void must(pto_status status)
{
    if (status != PTO_OK) {
        fprintf(stderr, "bench_tasks: %s: %s\n", pto_status_name(status), pto_error_detail());
        exit(2);
    }
}

static void *must_have(void *memory)
{
    if (!memory) {
        fprintf(stderr, "bench_tasks: out of memory\n");
        exit(2);
    }
    return memory;
}

/* ---- Kernels ------------------------------------------------------------------------------ */

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

static const struct {
    const char *name;
    bool updates;
} kinds[KINDS] = {
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

static pto_status kernel_empty(const pto_call *call)
{
    (void)call;
    return PTO_OK;
}

/* Puts the number of the task and every element that it reads into every element that it writes, so
 * that any two tasks which touch the same memory in another order leave something else there. */
static pto_status kernel_mix(const pto_call *call)
{
    const bool *updates = call->user;
    const uint32_t last = call->n_args - 2;
    uint64_t sum = mixed(call->args[last + 1].u64 + 1);
    for (uint32_t a = 0; a < last + *updates; a++) {
        const pto_arg *x = &call->args[a];
        for (int64_t i = 0; i < TILE * TILE; i++) {
            const int64_t at = i / TILE * x->strides[0] + i % TILE * x->strides[1];
            sum = mixed(sum * 31 + ((const uint64_t *)x->data)[at]);
        }
    }
    const pto_arg *to = &call->args[last];
    for (int64_t i = 0; i < TILE * TILE; i++) {
        const int64_t at = i / TILE * to->strides[0] + i % TILE * to->strides[1];
        ((uint64_t *)to->data)[at] = mixed(sum + (uint64_t)i);
    }
    return PTO_OK;
}

/* ---- Where a program sends its tasks ------------------------------------------------------- */

typedef struct sink {
    pto_runtime *rt;  /* NULL: a task runs as soon as it comes */
    bool checked;     /* bodies mix, and each task has its number; else they are empty */
    uint64_t tasks;   /* so far */
    pto_tensor local; /* stands for managed tiles where there is no runtime */
    uint64_t local_memory[TILE * TILE];
    pto_kernel kernels[KINDS];
} sink;

static pto_tensor dense_tile(uint64_t *memory)
{
    pto_tensor t;
    must(pto_tensor_init(&t, memory, TILE * TILE * sizeof *memory, PTO_UINT64, 2,
                         (int64_t[]){TILE, TILE}, NULL, 0));
    return t;
}

static void sink_init(sink *s, pto_runtime *rt, bool checked)
{
    *s = (sink){.rt = rt, .checked = checked};
    s->local = dense_tile(s->local_memory);
    for (int k = 0; rt && k < KINDS; k++) {
        must(pto_kernel_register(rt, kinds[k].name, PTO_AI_CPU, checked ? kernel_mix : kernel_empty,
                                 (void *)&kinds[k].updates, &s->kernels[k]));
    }
}

/* The serial program: resolve and call. */
static void run_now(kind which, const pto_param *params, size_t n)
{
    pto_arg args[MAX_PARAMS];
    for (size_t i = 0; i < n; i++) {
        args[i] = (pto_arg){.u64 = params[i].u64};
        if (params[i].kind != PTO_PARAM_SCALAR) {
            const pto_tensor *t = params[i].tensor;
            args[i] = (pto_arg){.data = (uint64_t *)t->storage + t->offset,
                                .shape = t->shape,
                                .strides = t->strides,
                                .ndim = t->ndim,
                                .dtype = t->dtype};
        }
    }
    must(kernel_mix(
        &(pto_call){.args = args, .n_args = (uint32_t)n, .user = (void *)&kinds[which].updates}));
}

/* `params` has room for one more. */
static inline void submit(sink *s, kind which, pto_param *params, size_t n)
{
    if (s->checked) {
        params[n++] = pto_scalar_u64(s->tasks);
    }
    s->tasks++;
    if (s->rt) {
        must(pto_submit_task(s->rt, s->kernels[which], PTO_KERNEL_TYPE, params, n, NULL));
    } else {
        run_now(which, params, n);
    }
}

/* task(sink, kind, parameters...) */
#define task(s, which, ...)                                                                        \
    submit((s), (which), (pto_param[MAX_PARAMS]){__VA_ARGS__},                                     \
           sizeof((pto_param[]){__VA_ARGS__}) / sizeof(pto_param))

static inline void boundary_begin(sink *s)
{
    if (s->rt) {
        must(pto_scope_begin_ex(s->rt, PTO_SCOPE_BOUNDARY));
    }
}

static inline void boundary_end(sink *s)
{
    if (s->rt) {
        must(pto_scope_end(s->rt));
    }
}

static inline pto_tensor managed_tile(sink *s)
{
    pto_tensor t = s->local;
    if (s->rt) {
        must(pto_temp(s->rt, PTO_UINT64, 2, (int64_t[]){TILE, TILE}, &t));
    }
    return t;
}

/* ---- The programs --------------------------------------------------------------------------- */

/* The memory of a program, and its tiles, made before any clock starts. */
typedef struct data {
    uint64_t *memory;
    size_t bytes;
    pto_tensor *tiles;
    size_t n_tiles;
} data;

static data data_make(size_t n_tiles)
{
    data d = {.bytes = n_tiles * TILE * TILE * sizeof(uint64_t), .n_tiles = n_tiles};
    d.memory = must_have(aligned_alloc(64, d.bytes));
    d.tiles = must_have(malloc(n_tiles * sizeof *d.tiles));
    for (size_t i = 0; i < d.bytes / sizeof(uint64_t); i++) {
        d.memory[i] = mixed(i + 1);
    }
    return d;
}

/* Each tile dense, in memory of its own. */
static data data_apart(size_t n_tiles)
{
    data d = data_make(n_tiles);
    for (size_t i = 0; i < n_tiles; i++) {
        d.tiles[i] = dense_tile(d.memory + i * TILE * TILE);
    }
    return d;
}

/* Views of one matrix of side x side tiles. */
static data data_matrix(int64_t side)
{
    data d = data_make((size_t)(side * side));
    pto_tensor m;
    must(pto_tensor_init(&m, d.memory, d.bytes, PTO_UINT64, 2,
                         (int64_t[]){side * TILE, side * TILE}, NULL, 0));
    for (int64_t i = 0; i < side * side; i++) {
        must(pto_tensor_view(&m, (int64_t[]){i / side * TILE, i % side * TILE},
                             (int64_t[]){TILE, TILE}, &d.tiles[i]));
    }
    return d;
}

static void data_free(data *d)
{
    free(d->memory);
    free(d->tiles);
}

enum { OWN = 256 }; /* tiles of P1 that are written in turn, and all tiles of P6 */

static data independent_data(uint64_t tasks)
{
    (void)tasks;
    return data_apart(2 + OWN);
}

static void independent_run(sink *s, const data *d, uint64_t tasks)
{
    const pto_tensor *own = d->tiles + 2;
    for (uint64_t i = 0; i < tasks; i++) {
        task(s, INDEPENDENT, pto_input(&d->tiles[0]), pto_input(&d->tiles[1]),
             pto_output(&own[i % OWN]));
    }
}

static data chain_data(uint64_t tasks)
{
    (void)tasks;
    return data_apart(1);
}

static void chain_run(sink *s, const data *d, uint64_t tasks)
{
    for (uint64_t i = 0; i < tasks; i++) {
        task(s, CHAIN, pto_inout(&d->tiles[0]));
    }
}

enum { CELLS = 64 };

static data stencil_data(uint64_t tasks)
{
    (void)tasks;
    return data_apart((size_t)2 * CELLS);
}

static void stencil_run(sink *s, const data *d, uint64_t tasks)
{
    for (uint64_t i = 0; i < tasks; i++) {
        const uint64_t cell = i % CELLS, generation = i / CELLS % 2;
        const pto_tensor *from = d->tiles + generation * CELLS;
        const pto_tensor *to = d->tiles + (1 - generation) * CELLS;
        task(s, STENCIL, pto_input(&from[(cell + CELLS - 1) % CELLS]), pto_input(&from[cell]),
             pto_input(&from[(cell + 1) % CELLS]), pto_output(&to[cell]));
    }
}

enum { SIDE = 16 }; /* of the three matrices, in tiles */

static data bgemm_data(uint64_t tasks)
{
    (void)tasks;
    return data_apart((size_t)3 * SIDE * SIDE);
}

static void bgemm_run(sink *s, const data *d, uint64_t tasks)
{
    const pto_tensor *a = d->tiles, *b = a + (size_t)SIDE * SIDE, *c = b + (size_t)SIDE * SIDE;
    for (uint64_t i = 0; i < tasks / 2; i++) {
        const uint64_t n = i % SIDE, m = i / SIDE % SIDE, k = i / SIDE / SIDE % SIDE;
        boundary_begin(s);
        const pto_tensor p = managed_tile(s);
        task(s, GEMM, pto_input(&a[m * SIDE + k]), pto_input(&b[k * SIDE + n]), pto_output(&p));
        task(s, ADD, pto_input(&p), pto_inout(&c[m * SIDE + n]));
        boundary_end(s);
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
    return data_matrix(cholesky_side(tasks));
}

static void cholesky_once(sink *s, const data *d, int64_t side)
{
    const pto_tensor *a = d->tiles;
    for (int64_t k = 0; k < side; k++) {
        task(s, POTRF, pto_inout(&a[k * side + k]));
        for (int64_t i = k + 1; i < side; i++) {
            task(s, TRSM, pto_input(&a[k * side + k]), pto_inout(&a[i * side + k]));
        }
        for (int64_t i = k + 1; i < side; i++) {
            for (int64_t j = k + 1; j < i; j++) {
                task(s, UPDATE, pto_input(&a[i * side + k]), pto_input(&a[j * side + k]),
                     pto_inout(&a[i * side + j]));
            }
            task(s, SYRK, pto_input(&a[i * side + k]), pto_inout(&a[i * side + i]));
        }
    }
}

static void cholesky_run(sink *s, const data *d, uint64_t tasks)
{
    const int64_t side = cholesky_side(tasks);
    const uint64_t each = cholesky_tasks((uint64_t)side);
    const uint64_t times = (tasks + each / 2) / each;
    for (uint64_t i = 0; i == 0 || i < times; i++) {
        cholesky_once(s, d, side);
    }
}

static data random_data(uint64_t tasks)
{
    (void)tasks;
    return data_apart(OWN);
}

static void random_run(sink *s, const data *d, uint64_t tasks)
{
    const pto_tensor *t = d->tiles;
    for (uint64_t i = 0; i < tasks; i++) {
        const uint64_t r = mixed(i + 1); /* four numbers below 256; some may be equal */
        task(s, RANDOM, pto_input(&t[r & 255]), pto_input(&t[r >> 8 & 255]),
             pto_input(&t[r >> 16 & 255]), pto_inout(&t[r >> 24 & 255]));
    }
}

typedef struct pattern {
    const char *name, *text;
    data (*make)(uint64_t tasks);
    void (*run)(sink *s, const data *d, uint64_t tasks); /* about so many */
} pattern;

enum { PATTERNS = 6 };

static const pattern patterns[PATTERNS] = {
    {"P1", "independent", independent_data, independent_run},
    {"P2", "chain", chain_data, chain_run},
    {"P3", "stencil", stencil_data, stencil_run},
    {"P4", "bgemm", bgemm_data, bgemm_run},
    {"P5", "cholesky", cholesky_data, cholesky_run},
    {"P6", "random", random_data, random_run},
};

#endif /* PTO_TASKS_PATTERNS_H */
