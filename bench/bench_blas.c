/* bench_blas.c - the BLAS routines of the workloads compared with OpenBLAS and BLIS, by tile size.
 *
 * One thread, and at the end two threads of one process at once. Tiles lie in a matrix of LD columns, as in the workloads. The contenders take turns in
 * many short rounds, and the fastest round counts: another program on the same core only makes a
 * round slower. The libraries are loaded when the program runs, so that it builds without them.
 *
 * A routine of our own stays in examples/workloads/blas.c only if it is clearly faster than that of
 * OpenBLAS over all tile sizes: the bars.
 */
#define _GNU_SOURCE /* RTLD_DEEPBIND */
#include "bench.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "../examples/workloads/blas.h"

enum { LD = 2000, ROUNDS = 60, ROUND_NS = 200000, MAX_TILE = 512 };
enum { DEPTH = 512, COLUMNS = 4096, MAX_ROWS = 192 }; /* of sgemm: as in decode */
#define WANT_RATIO 1.2

enum { WORKLOADS, OPENBLAS, BLIS, CONTENDERS };

/* The enums of CBLAS are ints. */
enum { BY_ROWS = 101, PLAIN = 111, TURNED = 112, UPPER = 121, LOWER = 122, ANY = 131, UNIT = 132 };
enum { LEFT = 141, RIGHT = 142 };

typedef struct library {
    const char *name, *file, *package;
    void (*dgemm)(int order, int turn_a, int turn_b, int m, int n, int k, double alpha,
                  const double *a, int lda, const double *b, int ldb, double beta, double *c,
                  int ldc);
    void (*sgemm)(int order, int turn_a, int turn_b, int m, int n, int k, float alpha,
                  const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
    void (*dsyrk)(int order, int uplo, int turn, int n, int k, double alpha, const double *a,
                  int lda, double beta, double *c, int ldc);
    void (*dtrsm)(int order, int side, int uplo, int turn, int diagonal, int m, int n, double alpha,
                  const double *a, int lda, double *b, int ldb);
    void (*dpotrf)(const char *uplo, const int *n, double *a, const int *lda, int *info, size_t);
} library;

static library libraries[CONTENDERS] = {
    [WORKLOADS] = {.name = "workloads"},
    [OPENBLAS] = {.name = "OpenBLAS", .file = "libopenblas.so.0", .package = "libopenblas0"},
    [BLIS] = {.name = "BLIS", .file = "libblis.so.4", .package = "libblis4-serial"},
};

/* Inputs a and b; c is updated, and `saved` is what it was. x w = y in single precision. */
static double *a, *b, *c, *saved;
static float *x, *w, *y;

/* ---- Routines -------------------------------------------------------------------------------- */

/* A library without function pointers is the workloads' own. */

static void gemm_plain(const library *l, int n)
{
    if (l->dgemm) {
        l->dgemm(BY_ROWS, PLAIN, PLAIN, n, n, n, 1, a, LD, b, LD, 0, c, LD);
    } else {
        blas_dgemm(false, n, n, n, 1, a, LD, b, LD, 0, c, LD);
    }
}

static void gemm_turned(const library *l, int n)
{
    if (l->dgemm) {
        l->dgemm(BY_ROWS, PLAIN, TURNED, n, n, n, -1, a, LD, b, LD, 1, c, LD);
    } else {
        blas_dgemm(true, n, n, n, -1, a, LD, b, LD, 1, c, LD);
    }
}

static void syrk(const library *l, int n)
{
    if (l->dsyrk) {
        l->dsyrk(BY_ROWS, LOWER, PLAIN, n, n, -1, a, LD, 1, c, LD);
    } else {
        blas_dsyrk(n, n, a, LD, c, LD);
    }
}

static void trsm_right(const library *l, int n)
{
    if (l->dtrsm) {
        l->dtrsm(BY_ROWS, RIGHT, LOWER, TURNED, ANY, n, n, 1, a, LD, c, LD);
    } else {
        blas_dtrsm_right(n, n, a, LD, c, LD);
    }
}

static void trsm_upper(const library *l, int n)
{
    if (l->dtrsm) {
        l->dtrsm(BY_ROWS, RIGHT, UPPER, PLAIN, ANY, n, n, 1, a, LD, c, LD);
    } else {
        blas_dtrsm_upper(n, n, a, LD, c, LD);
    }
}

static void trsm_lower(const library *l, int n)
{
    if (l->dtrsm) {
        l->dtrsm(BY_ROWS, LEFT, LOWER, PLAIN, UNIT, n, n, 1, a, LD, c, LD);
    } else {
        blas_dtrsm_lower(n, n, a, LD, c, LD);
    }
}

/* All tiles in one row of tiles, because each can be factored only once. */
static void potrf(const library *l, int n)
{
    const int ld = LD;
    int info;
    for (int at = 0; at + n <= MAX_TILE; at += n) {
        if (l->dpotrf) {
            l->dpotrf("U", &n, c + at, &ld, &info, 1);
        } else {
            bench_keep((uint64_t)blas_dpotrf(n, c + at, LD));
        }
    }
}

static void sgemm(const library *l, int rows, int n)
{
    if (l->sgemm) {
        l->sgemm(BY_ROWS, PLAIN, PLAIN, rows, n, DEPTH, 1, x, DEPTH, w, COLUMNS, 0, y, COLUMNS);
    } else {
        blas_sgemm(rows, n, DEPTH, x, DEPTH, w, COLUMNS, 0, y, COLUMNS);
    }
}

static void sgemm_1(const library *l, int n)
{
    sgemm(l, 1, n);
}

static void sgemm_8(const library *l, int n)
{
    sgemm(l, 8, n);
}

static void sgemm_192(const library *l, int n)
{
    sgemm(l, MAX_ROWS, n);
}

typedef struct routine {
    const char *name;
    void (*run)(const library *l, int n);
    double cubes;    /* flops = cubes * n^3, */
    double rows;     /* or, if not 0, 2 * rows * n * DEPTH */
    bool is_factor;  /* c cannot be used twice */
    const char *bar; /* our own */
} routine;

static const routine routines[] = {
    {.name = "dgemm: c = a b", .run = gemm_plain, .cubes = 2, .bar = "dgemm"},
    {.name = "dgemm: c -= a b'", .run = gemm_turned, .cubes = 2, .bar = "dgemm, turned"},
    {.name = "dsyrk: c -= a a'", .run = syrk, .cubes = 1, .bar = "dsyrk"},
    {.name = "dtrsm: c / l'", .run = trsm_right, .cubes = 1, .bar = "dtrsm, right, lower"},
    {.name = "dtrsm: c / u", .run = trsm_upper, .cubes = 1, .bar = "dtrsm, right, upper"},
    {.name = "dtrsm: l \\ c", .run = trsm_lower, .cubes = 1, .bar = "dtrsm, left, lower"},
    {.name = "dpotrf", .run = potrf, .cubes = 1.0 / 3, .is_factor = true, .bar = "dpotrf"},
    {.name = "sgemm, 1 row", .run = sgemm_1, .rows = 1},
    {.name = "sgemm, 8 rows", .run = sgemm_8, .rows = 8},
    {.name = "sgemm, 192 rows", .run = sgemm_192, .rows = MAX_ROWS},
};

/* ---- Libraries and data ---------------------------------------------------------------------- */

static void find_library(library *l)
{
    /* Each must call its own routines, although all have the same names. */
    void *file = dlopen(l->file, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    const struct {
        const char *name;
        void *place;
    } symbols[] = {{"cblas_dgemm", &l->dgemm},
                   {"cblas_sgemm", &l->sgemm},
                   {"cblas_dsyrk", &l->dsyrk},
                   {"cblas_dtrsm", &l->dtrsm},
                   {"dpotrf_", &l->dpotrf}};
    for (size_t i = 0; file && i < sizeof symbols / sizeof *symbols; i++) {
        void *found = dlsym(file, symbols[i].name);
        memcpy(symbols[i].place, &found, sizeof found);
    }
    if (!l->dgemm) {
        printf("without %s: %s is not installed\n", l->name, l->package);
    }
}

static bool has(const library *l, const routine *r)
{
    return l == &libraries[WORKLOADS] || (l->dgemm && (!r->is_factor || l->dpotrf));
}

static bool prepare(void)
{
    const size_t size = (size_t)LD * MAX_TILE;
    a = calloc(size, sizeof *a);
    b = calloc(size, sizeof *b);
    c = calloc(size, sizeof *c);
    saved = calloc(size, sizeof *saved);
    x = calloc((size_t)MAX_ROWS * DEPTH, sizeof *x);
    w = calloc((size_t)DEPTH * COLUMNS, sizeof *w);
    y = calloc((size_t)MAX_ROWS * COLUMNS, sizeof *y);
    return a && b && c && saved && x && w && y;
}

/* Unit diagonals in every tile: solving with it changes little, and it has a Cholesky factor. */
static void make_tiles(int tile)
{
    const size_t bytes = (size_t)LD * MAX_TILE * sizeof *saved;
    for (int i = 0; i < MAX_TILE; i++) {
        for (int j = 0; j < LD; j++) {
            saved[i * LD + j] = i % tile == j % tile ? 1 : 1e-6 * ((i * 31 + j * 17) % 100);
        }
    }
    memcpy(a, saved, bytes);
    memcpy(b, saved, bytes);
    memcpy(c, saved, bytes);
}

/* ---- Measuring ------------------------------------------------------------------------------- */

static double one_round(const library *l, const routine *r, int tile, int calls)
{
    if (r->is_factor) {
        memcpy(c, saved, (size_t)LD * MAX_TILE * sizeof *c);
    }
    const double start = bench_now_ns();
    for (int i = 0; i < calls; i++) {
        r->run(l, tile);
    }
    return (bench_now_ns() - start) / calls;
}

static double flops_of(const routine *r, int tile)
{
    const double n = tile, tiles = r->is_factor ? MAX_TILE / tile : 1;
    return r->rows > 0 ? 2 * r->rows * n * DEPTH : r->cubes * n * n * n * tiles;
}

/* Prints a line. Returns the speed of the workloads' routine, relative to that of OpenBLAS. */
static double measure(const routine *r, int tile)
{
    double best[CONTENDERS] = {INFINITY, INFINITY, INFINITY};
    make_tiles(tile);
    const double once = one_round(&libraries[WORKLOADS], r, tile, 1);
    const int calls = r->is_factor || once > ROUND_NS ? 1 : (int)(ROUND_NS / once) + 1;
    for (int round = 0; round < ROUNDS; round++) {
        for (int who = 0; who < CONTENDERS; who++) {
            if (has(&libraries[who], r)) {
                best[who] = fmin(best[who], one_round(&libraries[who], r, tile, calls));
            }
        }
    }
    const double flops = flops_of(r, tile);
    printf("%-18s %5d", r->name, tile);
    for (int who = 0; who < CONTENDERS; who++) {
        if (has(&libraries[who], r)) {
            printf(" %10.1f", flops / best[who]);
        } else {
            printf(" %10s", "-");
        }
    }
    puts("");
    (void)fflush(stdout);
    return best[OPENBLAS] / best[WORKLOADS];
}

/* ---- Two threads at once --------------------------------------------------------------------- */

typedef struct crowd {
    const library *l;
    int tile, calls;
    double *c; /* its own */
    double ns; /* for a product */
} crowd;

static void *crowd_run(void *argument)
{
    crowd *me = argument;
    const int n = me->tile;
    const double start = bench_now_ns();
    for (int i = 0; i < me->calls; i++) {
        if (me->l->dgemm) {
            me->l->dgemm(BY_ROWS, PLAIN, TURNED, n, n, n, -1, a, LD, b, LD, 1, me->c, LD);
        } else {
            blas_dgemm(true, n, n, n, -1, a, LD, b, LD, 1, me->c, LD);
        }
    }
    me->ns = (bench_now_ns() - start) / me->calls;
    return NULL;
}

/* ns for a product, on so many threads of one process. */
static double crowd_measure(const library *l, int tile, int threads)
{
    enum { MOST = 2, TIMES = 9 };
    pthread_t ids[MOST];
    crowd all[MOST];
    double ns[TIMES];
    for (int time = 0; time < TIMES; time++) {
        for (int i = 0; i < threads; i++) {
            all[i] = (crowd){l, tile, 40000000 / (tile * tile * tile), c + i * LD / MOST, 0};
        }
        for (int i = 1; i < threads; i++) {
            if (pthread_create(&ids[i], NULL, crowd_run, &all[i]) != 0) {
                return 0;
            }
        }
        crowd_run(&all[0]);
        for (int i = 1; i < threads; i++) {
            pthread_join(ids[i], NULL);
        }
        ns[time] = all[0].ns;
    }
    return bench_median(ns, TIMES);
}

static void print_crowd(void)
{
    static const int tiles[] = {16, 32, 64, 128};
    printf("\n%-18s %5s %21s %21s\n%-24s %10s %10s %10s %10s\n", "ns: c -= a b'", "tile",
           "workloads", "OpenBLAS", "threads at once", "one", "two", "one", "two");
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        make_tiles(tiles[i]);
        printf("%-18s %5d", "", tiles[i]);
        for (int who = WORKLOADS; who <= OPENBLAS; who++) {
            for (int threads = 1; threads <= 2 && has(&libraries[who], &routines[0]); threads++) {
                printf(" %10.0f", crowd_measure(&libraries[who], tiles[i], threads));
            }
        }
        puts("");
    }
}

int main(void)
{
    static const int tiles[] = {8, 16, 32, 64, 128, 256, 512};
    enum { TILES = sizeof tiles / sizeof *tiles, ROUTINES = sizeof routines / sizeof *routines };
    double logarithms[ROUTINES] = {0};
    bool good = true;
    if (!prepare()) {
        (void)fprintf(stderr, "bench_blas: no memory\n");
        return 1;
    }
    (void)setenv("OPENBLAS_NUM_THREADS", "1", 1);
    (void)setenv("BLIS_NUM_THREADS", "1", 1);
    find_library(&libraries[OPENBLAS]);
    find_library(&libraries[BLIS]);
    printf("workloads: %s\n\n%-18s %5s %10s %10s %10s\n", blas_start(), "GFLOP/s", "tile",
           "workloads", "OpenBLAS", "BLIS");
    for (size_t i = 0; i < ROUTINES; i++) {
        for (size_t t = 0; t < TILES; t++) {
            logarithms[i] += log(measure(&routines[i], tiles[t])) / TILES;
        }
    }
    print_crowd();
    for (size_t i = 0; i < ROUTINES && libraries[OPENBLAS].dgemm; i++) {
        if (routines[i].bar) {
            good &= bench_bar_ratio(routines[i].bar, "geometric mean of the speed, vs OpenBLAS",
                                    exp(logarithms[i]), WANT_RATIO);
        }
    }
    return good ? 0 : 1;
}
