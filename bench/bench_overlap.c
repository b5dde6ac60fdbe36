/* bench_overlap.c - the cost of one overlap test, by the kind of views.
 *
 * Each case is an array of pairs of tensors, made before the clock starts. Each case has four
 * figures, medians of many passes over all pairs: the bare cascade on precomputed layouts; the two
 * public functions on tensors, with checks and layouts; and the layout of one tensor. Then the
 * table says which stage decided. The clock is the CPU time of this thread, and the cases take
 * turns, so that other load disturbs a few passes of each rather than all of one.
 *
 * "adversarial" has equally many pairs of each case below it: unrelated strides, as if one memory
 * were seen through unrelated layouts.
 */
#include <pto/tensor.h>

#include <string.h>

#include "bench.h"
#include "support.h"
#include "tensor/overlap.h"

#define PAIRS 4096
#define ROUNDS 9
#define PASSES 3  /* over all pairs, in each round */
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

/* `ndim` dims of up to `steps` steps, as many as fit in `room` bytes; `stride` makes strides. */
static pto_tensor strange(test_rng *rng, int32_t ndim, int64_t steps, int64_t room,
                          int64_t (*stride)(test_rng *rng))
{
    static const pto_dtype dtypes[] = {PTO_INT8, PTO_FLOAT16, PTO_FLOAT32, PTO_FLOAT64};
    int64_t shape[PTO_MAX_DIMS], strides[PTO_MAX_DIMS], kind = pick(rng, 4), size = 1 << kind;
    room /= size;
    int64_t left = room - 1;
    for (int32_t d = 0; d < ndim; d++) {
        int64_t s = stride(rng);
        int64_t most = left / (ndim - d) / s + 1;
        shape[d] = test_between(rng, most < 2 ? 1 : 2, most < 2 ? 1 : most < steps ? most : steps);
        strides[d] = s;
        left -= (shape[d] - 1) * s;
    }
    pto_tensor t;
    must(pto_tensor_init(&t, matrix.storage, (uint64_t)(room * size), dtypes[kind], ndim, shape,
                         strides, pick(rng, left + 1)));
    return t;
}

static int64_t any_stride(test_rng *rng)
{
    return test_between(rng, 10, 1200);
}

static int64_t fibonacci_stride(test_rng *rng)
{
    static const int64_t fibonacci[] = {13, 21, 34, 55, 89, 144, 233, 377, 610, 987};
    return fibonacci[pick(rng, 10)] + test_between(rng, -1, 1);
}

static int64_t mixed_stride(test_rng *rng)
{
    return pick(rng, 2) ? any_stride(rng) : fibonacci_stride(rng);
}

static int64_t prime_stride(test_rng *rng)
{
    static const int64_t primes[] = {100003, 100019, 100043, 100049, 100057,
                                     1009,   1013,   1019,   1021,   1031};
    return primes[pick(rng, 10)];
}

static void make_coprime(test_rng *rng, pair *p)
{
    p->a = strange(rng, 1, 2000, 1 << 16, any_stride);
    p->b = strange(rng, 1, 2000, 1 << 16, any_stride);
}

static void make_fibonacci(test_rng *rng, pair *p)
{
    p->a = strange(rng, 1, 2000, 1 << 16, fibonacci_stride);
    p->b = strange(rng, 1, 2000, 1 << 16, fibonacci_stride);
}

static void make_primes(test_rng *rng, pair *p)
{
    p->a = strange(rng, 2, 40, 1 << 24, prime_stride);
    p->b = strange(rng, 2, 40, 1 << 24, prime_stride);
}

/* A tile of one matrix and one of another in the same memory: pitches and steps nearly equal. */
static void make_pitches(test_rng *rng, pair *p)
{
    pto_tensor *both[] = {&p->a, &p->b};
    for (int i = 0; i < 2; i++) {
        int64_t pitch = 1021 + test_between(rng, 0, 4), step = test_between(rng, 1, 3);
        must(pto_tensor_init(both[i], matrix.storage, matrix.storage_bytes,
                             pick(rng, 2) ? PTO_FLOAT32 : PTO_FLOAT16, 2,
                             (int64_t[]){test_between(rng, 20, 100), test_between(rng, 10, 40)},
                             (int64_t[]){pitch, step}, pick(rng, 20 * pitch)));
    }
}

/* The same with three dims, each side of a pitch and a height of its own. */
static void make_bricks(test_rng *rng, pair *p)
{
    static const int64_t pitches[] = {127, 131, 137, 139, 149, 151, 157, 163};
    static const int64_t heights[] = {61, 67, 71, 73, 79, 83, 89, 97};
    pto_tensor *both[] = {&p->a, &p->b};
    for (int i = 0; i < 2; i++) {
        int64_t pitch = pitches[pick(rng, 8)], plane = pitch * heights[pick(rng, 8)];
        must(pto_tensor_init(both[i], matrix.storage, matrix.storage_bytes,
                             pick(rng, 2) ? PTO_FLOAT32 : PTO_FLOAT16, 3,
                             (int64_t[]){test_between(rng, 4, 16), test_between(rng, 8, 32),
                                         test_between(rng, 8, 32)},
                             (int64_t[]){plane, pitch, test_between(rng, 1, 3)},
                             pick(rng, 4 * plane)));
    }
}

/* Rows that run into each other, as sliding windows have them. */
static void make_folded(test_rng *rng, pair *p)
{
    p->a = strange(rng, (int32_t)test_between(rng, 2, 3), 12, 1 << 16, mixed_stride);
    p->b = strange(rng, (int32_t)test_between(rng, 1, 3), 12, 1 << 16, mixed_stride);
}

static void make_many_dims(test_rng *rng, pair *p)
{
    p->a = strange(rng, (int32_t)test_between(rng, 4, 8), 3, 1 << 16, mixed_stride);
    p->b = strange(rng, (int32_t)test_between(rng, 4, 8), 3, 1 << 16, mixed_stride);
}

static void make_adversarial(test_rng *rng, pair *p)
{
    static void (*const makes[])(test_rng * rng, pair * p) = {
        make_coprime, make_fibonacci, make_primes,   make_pitches,
        make_bricks,  make_folded,    make_many_dims};
    makes[(size_t)(p - pairs) % (sizeof makes / sizeof *makes)](rng, p);
}

/* ---- The clock -------------------------------------------------------------------------- */

static double now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

enum { CASCADE, OVERLAPS, COVERS, LAYOUT, FIGURES };

typedef struct bench_case {
    const char *name;
    void (*make)(test_rng *rng, pair *p);
    double ns[FIGURES][ROUNDS * PASSES];
    uint64_t stages[PTO_STAGE_COUNT], yes;
} bench_case;

static void prepare(bench_case *c)
{
    test_rng rng = test_rng_make(test_seed());
    memset(c->stages, 0, sizeof c->stages);
    c->yes = 0;
    for (int i = 0; i < PAIRS; i++) {
        bool empty;
        pto_overlap_result result;
        c->make(&rng, &pairs[i]);
        must(ptoi_layout_of(&pairs[i].a, &layouts[i][0], &empty));
        must(ptoi_layout_of(&pairs[i].b, &layouts[i][1], &empty));
        must(pto_tensor_overlaps_ex(&pairs[i].a, &pairs[i].b, 0, &result));
        c->stages[result.stage]++;
        c->yes += result.yes;
    }
}

static void measure(bench_case *c, int pass)
{
    uint64_t sum = 0;
    double start = now_ns();
    for (int i = 0; i < PAIRS; i++) {
        sum += ptoi_overlaps(&layouts[i][0], &layouts[i][1], 0).yes;
    }
    c->ns[CASCADE][pass] = (now_ns() - start) / PAIRS;
    start = now_ns();
    for (int i = 0; i < PAIRS; i++) {
        sum += pto_tensor_overlaps(&pairs[i].a, &pairs[i].b);
    }
    c->ns[OVERLAPS][pass] = (now_ns() - start) / PAIRS;
    start = now_ns();
    for (int i = 0; i < PAIRS; i++) {
        sum += pto_tensor_covers(&pairs[i].a, &pairs[i].b);
    }
    c->ns[COVERS][pass] = (now_ns() - start) / PAIRS;
    start = now_ns();
    for (int i = 0; i < PAIRS; i++) {
        ptoi_layout l;
        bool empty;
        must(ptoi_layout_of(&pairs[i].a, &l, &empty));
        sum += l.lo;
    }
    c->ns[LAYOUT][pass] = (now_ns() - start) / PAIRS;
    bench_keep(sum);
}

/* Returns what pto_tensor_overlaps costs. */
static double report(bench_case *c)
{
    double figure[FIGURES];
    for (int f = 0; f < FIGURES; f++) {
        figure[f] = bench_median(c->ns[f], (size_t)ROUNDS * PASSES);
    }
    printf("%-14s %8.1f %10.1f %8.1f %8.1f %6.1f%%  ", c->name, figure[CASCADE], figure[OVERLAPS],
           figure[COVERS], figure[LAYOUT], 100.0 * (double)c->yes / PAIRS);
    for (int s = 0; s < PTO_STAGE_COUNT; s++) {
        if (c->stages[s]) {
            printf(" %s %.1f%%", pto_overlap_stage_name((pto_overlap_stage)s),
                   100.0 * (double)c->stages[s] / PAIRS);
        }
    }
    printf("\n");
    return figure[OVERLAPS];
}

int main(void)
{
    static bench_case cases[] = {
        {.name = "slices", .make = make_slices},
        {.name = "tiles", .make = make_tiles},
        {.name = "tile grid", .make = make_grid},
        {.name = "halo", .make = make_halo},
        {.name = "transposes", .make = make_transposes},
        {.name = "strided", .make = make_strided},
        {.name = "padded blocks", .make = make_blocks},
        {.name = "adversarial", .make = make_adversarial},
        {.name = "  coprime", .make = make_coprime},
        {.name = "  fibonacci", .make = make_fibonacci},
        {.name = "  primes", .make = make_primes},
        {.name = "  pitches", .make = make_pitches},
        {.name = "  bricks", .make = make_bricks},
        {.name = "  folded", .make = make_folded},
        {.name = "  many dims", .make = make_many_dims},
    };
    enum { SLICES = 0, TILES = 1, ADVERSARIAL = 7 };
    int count = (int)(sizeof cases / sizeof *cases);
    double figure[sizeof cases / sizeof *cases];

    void *memory = (void *)(uintptr_t)(UINT64_C(1) << 32); /* an address, no more */
    must(pto_tensor_init(&matrix, memory, (uint64_t)SIDE * SIDE * 4, PTO_FLOAT32, 2,
                         (int64_t[]){SIDE, SIDE}, NULL, 0));
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < count; i++) {
            prepare(&cases[i]);
            for (int pass = 0; pass < PASSES; pass++) {
                measure(&cases[i], round * PASSES + pass);
            }
        }
    }
    printf("%d pairs of views a case, %d x %d float32; ns a question\n\n", PAIRS, SIDE, SIDE);
    printf("%-14s %8s %10s %8s %8s %7s   %s\n", "case", "cascade", "overlaps()", "covers()",
           "layout", "yes", "decided by");
    for (int i = 0; i < count; i++) {
        figure[i] = report(&cases[i]);
    }
    printf("\n");
    bool ok = bench_bar_at_most("overlap slices", figure[SLICES], "ns", 60);
    ok = bench_bar_at_most("overlap tiles", figure[TILES], "ns", 60) && ok;
    ok = bench_bar_at_most("overlap adversarial", figure[ADVERSARIAL], "ns", 200) && ok;
    return ok ? 0 : 1;
}
