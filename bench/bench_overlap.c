/* bench_overlap.c - what one question costs, by the kind of views it is about.
 *
 * Each case is an array of pairs of tensors, made before the clock starts. Four figures a case, each
 * the median of REPEATS passes over all pairs: the bare cascade on layouts made before; the public
 * functions on tensors, checks and layouts included; and the layout of one tensor. Then who decided.
 */
#include <pto/tensor.h>

#include "bench.h"
#include "support.h"
#include "tensor/overlap.h"

#define PAIRS 4096
#define REPEATS 15
#define SIDE 4096 /* rows and columns of the matrix */

typedef struct pair {
    pto_tensor a, b;
} pair;

static pair pairs[PAIRS];
static ptoi_layout layouts[PAIRS][2];

static pto_tensor matrix; /* float32[SIDE, SIDE]; the memory is never touched */

static void must(pto_status status)
{
    if (status != PTO_OK) {
        fprintf(stderr, "bench_overlap: %s: %s\n", pto_status_name(status), pto_error_detail());
        exit(2);
    }
}

static int64_t pick(test_rng *rng, int64_t count)
{
    return test_between(rng, 0, count - 1);
}

/* ---- The cases -------------------------------------------------------------------------- */

static pto_tensor box(int64_t row, int64_t column, int64_t rows, int64_t columns)
{
    pto_tensor t;
    int64_t start[] = {row, column}, shape[] = {rows, columns};
    must(pto_tensor_view(&matrix, start, shape, &t));
    return t;
}

/* Blocks of rows, of columns, single rows, and parts of a row. */
static pto_tensor slice(test_rng *rng)
{
    int64_t at = pick(rng, SIDE - 64), width = test_between(rng, 1, 64);
    switch (pick(rng, 4)) {
    case 0:
        return box(at, 0, width, SIDE);
    case 1:
        return box(0, at, SIDE, width);
    case 2:
        return box(pick(rng, SIDE), at, 1, width);
    default:
        return box(pick(rng, 64), pick(rng, 64), SIDE - 64, SIDE - 64);
    }
}

static void make_slices(test_rng *rng, pair *p)
{
    p->a = slice(rng);
    p->b = slice(rng);
}

/* Tiles of 64 x 64 in rows that they share in part, columns anywhere in 512. */
static void make_tiles(test_rng *rng, pair *p)
{
    int64_t row = pick(rng, SIDE - 128), column = pick(rng, SIDE - 640);
    p->a = box(row, column + pick(rng, 512), 64, 64);
    p->b = box(row + pick(rng, 64), column + pick(rng, 512), 64, 64);
}

/* The tile grid itself: neighbours in the same band of rows, or the very same tile. */
static void make_grid(test_rng *rng, pair *p)
{
    int64_t row = 64 * pick(rng, SIDE / 64);
    p->a = box(row, 64 * pick(rng, 8), 64, 64);
    p->b = box(row, 64 * pick(rng, 8), 64, 64);
}

/* A tile, and a tile with a halo of one or two around it. */
static void make_halo(test_rng *rng, pair *p)
{
    int64_t halo = test_between(rng, 1, 2);
    int64_t row = 64 * test_between(rng, 1, SIDE / 64 - 3);
    int64_t column = 64 * test_between(rng, 1, SIDE / 64 - 5);
    p->a = box(row, column, 64, 64);
    p->b = box(row + 64 * pick(rng, 2) - halo, column + 64 * pick(rng, 4) - halo, 64 + 2 * halo,
               64 + 2 * halo);
}

static void make_transposes(test_rng *rng, pair *p)
{
    make_tiles(rng, p);
    must(pto_tensor_transpose(&p->b, 0, 1, &p->b));
    if (pick(rng, 2)) {
        must(pto_tensor_transpose(&p->a, 0, 1, &p->a));
    }
}

/* Every second to fifth row and column, some from the end. */
static void make_strided(test_rng *rng, pair *p)
{
    make_tiles(rng, p);
    pto_tensor *both[] = {&p->a, &p->b};
    for (int i = 0; i < 2; i++) {
        for (int32_t d = 0; d < 2; d++) {
            int64_t step = test_between(rng, 2, 5);
            bool down = pick(rng, 4) == 0;
            must(pto_tensor_slice(both[i], d, down ? 63 : 0, down ? -1 : 64, down ? -step : step,
                                  both[i]));
        }
    }
}

/* 4-D blocks of a batch of images whose rows and planes are padded: strides do not divide. */
static void make_blocks(test_rng *rng, pair *p)
{
    pto_tensor images;
    must(pto_tensor_init(&images, matrix.storage, matrix.storage_bytes, PTO_FLOAT16, 4,
                         (int64_t[]){8, 16, 200, 200}, (int64_t[]){680003, 42101, 208, 1}, 0));
    pto_tensor *both[] = {&p->a, &p->b};
    int64_t near[4] = {pick(rng, 4), pick(rng, 8), pick(rng, 100), pick(rng, 100)};
    for (int i = 0; i < 2; i++) {
        int64_t start[4], shape[] = {2, 4, 32, 32};
        int64_t spread[] = {2, 4, 40, 60};
        for (int d = 0; d < 4; d++) {
            start[d] = near[d] + pick(rng, spread[d]);
        }
        must(pto_tensor_view(&images, start, shape, both[i]));
    }
}

static pto_tensor strange(test_rng *rng, int32_t ndim, int64_t steps)
{
    static const int64_t fibonacci[] = {377, 610, 987, 1597, 2584, 4181, 6765, 10946, 17711, 28657};
    int64_t shape[PTO_MAX_DIMS], strides[PTO_MAX_DIMS];
    static const pto_dtype dtypes[] = {PTO_INT8, PTO_FLOAT16, PTO_FLOAT32, PTO_FLOAT64};
    for (int32_t d = 0; d < ndim; d++) {
        shape[d] = test_between(rng, 2, steps);
        strides[d] = pick(rng, 2) ? fibonacci[pick(rng, 10)] + test_between(rng, -1, 1)
                                  : test_between(rng, 100, 20000) | 1;
    }
    pto_tensor t;
    must(pto_tensor_init(&t, matrix.storage, UINT64_C(1) << 32, dtypes[pick(rng, 4)], ndim, shape,
                         strides, pick(rng, 20000)));
    return t;
}

/* Strides that share no divisor, next to Fibonacci numbers, rows that overlap: 1 to 3 dims a side. */
static void make_adversarial(test_rng *rng, pair *p)
{
    int32_t ndim = (int32_t)test_between(rng, 1, 3);
    p->a = strange(rng, ndim, ndim == 1 ? 1000 : ndim == 2 ? 40 : 8);
    ndim = (int32_t)test_between(rng, 1, 3);
    p->b = strange(rng, ndim, ndim == 1 ? 1000 : ndim == 2 ? 40 : 8);
}

/* Only what reaches the last stages: two progressions; and three to four strides that overlap. */
static void make_progressions(test_rng *rng, pair *p)
{
    p->a = strange(rng, 1, 1000);
    p->b = strange(rng, 1, 1000);
}

static void make_folded(test_rng *rng, pair *p)
{
    p->a = strange(rng, 2, 30);
    p->b = strange(rng, 2, 30);
}

/* ---- The clock -------------------------------------------------------------------------- */

typedef struct figures {
    double bare, overlaps, covers, layout;
} figures;

static figures measure(void)
{
    double bare[REPEATS], overlaps[REPEATS], covers[REPEATS], layout[REPEATS];
    uint64_t sum = 0;
    for (int r = 0; r < REPEATS; r++) {
        double start = bench_now_ns();
        for (int i = 0; i < PAIRS; i++) {
            sum += ptoi_overlaps(&layouts[i][0], &layouts[i][1], 0).yes;
        }
        bare[r] = (bench_now_ns() - start) / PAIRS;
        start = bench_now_ns();
        for (int i = 0; i < PAIRS; i++) {
            sum += pto_tensor_overlaps(&pairs[i].a, &pairs[i].b);
        }
        overlaps[r] = (bench_now_ns() - start) / PAIRS;
        start = bench_now_ns();
        for (int i = 0; i < PAIRS; i++) {
            sum += pto_tensor_covers(&pairs[i].a, &pairs[i].b);
        }
        covers[r] = (bench_now_ns() - start) / PAIRS;
        start = bench_now_ns();
        for (int i = 0; i < PAIRS; i++) {
            ptoi_layout l;
            bool empty;
            must(ptoi_layout_of(&pairs[i].a, &l, &empty));
            sum += l.lo;
        }
        layout[r] = (bench_now_ns() - start) / PAIRS;
    }
    bench_keep(sum);
    return (figures){bench_median(bare, REPEATS), bench_median(overlaps, REPEATS),
                     bench_median(covers, REPEATS), bench_median(layout, REPEATS)};
}

static double run_case(const char *name, void (*make)(test_rng *rng, pair *p))
{
    test_rng rng = test_rng_make(test_seed());
    uint64_t stages[PTO_STAGE_COUNT] = {0}, yes = 0;
    for (int i = 0; i < PAIRS; i++) {
        bool empty;
        pto_overlap_result result;
        make(&rng, &pairs[i]);
        must(ptoi_layout_of(&pairs[i].a, &layouts[i][0], &empty));
        must(ptoi_layout_of(&pairs[i].b, &layouts[i][1], &empty));
        must(pto_tensor_overlaps_ex(&pairs[i].a, &pairs[i].b, 0, &result));
        stages[result.stage]++;
        yes += result.yes;
    }
    figures f = measure();
    printf("%-14s %8.1f %10.1f %8.1f %8.1f %6.1f%%  ", name, f.bare, f.overlaps, f.covers, f.layout,
           100.0 * (double)yes / PAIRS);
    for (int s = 0; s < PTO_STAGE_COUNT; s++) {
        if (stages[s]) {
            printf(" %s %.1f%%", pto_overlap_stage_name((pto_overlap_stage)s),
                   100.0 * (double)stages[s] / PAIRS);
        }
    }
    printf("\n");
    return f.overlaps;
}

int main(void)
{
    void *memory = (void *)(uintptr_t)(UINT64_C(1) << 32); /* an address, no more */
    must(pto_tensor_init(&matrix, memory, (uint64_t)SIDE * SIDE * 4, PTO_FLOAT32, 2,
                         (int64_t[]){SIDE, SIDE}, NULL, 0));
    printf("%d pairs of views a case, %d x %d float32; ns a question\n\n", PAIRS, SIDE, SIDE);
    printf("%-14s %8s %10s %8s %8s %7s   %s\n", "case", "cascade", "overlaps()", "covers()",
           "layout", "yes", "decided by");
    double slices = run_case("slices", make_slices);
    double tiles = run_case("tiles", make_tiles);
    run_case("tile grid", make_grid);
    run_case("halo", make_halo);
    run_case("transposes", make_transposes);
    run_case("strided", make_strided);
    run_case("padded blocks", make_blocks);
    double adversarial = run_case("adversarial", make_adversarial);
    run_case("- 1-D", make_progressions);
    run_case("- 2-D", make_folded);
    printf("\n");
    bool ok = bench_bar_at_most("overlap slices", slices, "ns", 60);
    ok &= bench_bar_at_most("overlap tiles", tiles, "ns", 60);
    ok &= bench_bar_at_most("overlap adversarial", adversarial, "ns", 200);
    return ok ? 0 : 1;
}
