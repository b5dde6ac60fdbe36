/* bench_tensormap.c - what it costs to find who touches a piece of memory, and to remember it.
 *
 * Part one fills a map with n disjoint regions of one memory and asks it about regions: the same
 * ones, parts of them, and others across them. What counts is the time for one answer, and how it
 * grows from n = 16 to n = 10,000. "known": the map has met the region asked about before, as in
 * a program that sweeps the same tiles again; "new": it has not.
 *
 * Part two submits small tasks, look-ups, inserts and retirement together: over tiles that the map
 * knows, and over managed blocks that are new each time.
 *
 * The memory is never touched: tensors over addresses are all that a map looks at.
 */
#define _GNU_SOURCE /* syscall */
#include <inttypes.h>
#include <string.h>

#if defined(__linux__)
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <pto/tensormap.h>

#include "bench.h"
#include "support.h"

#define REPETITIONS 9
#define SIZES 4
#define ANSWERS_EACH 30000 /* at least, in one measurement */
#define TILE 64            /* floats on a side */
#define LAG 256            /* tasks alive */

static const int64_t sizes[SIZES] = {16, 100, 1024, 10000};
static const int64_t sides[SIZES] = {4, 10, 32, 100};

static void must(pto_status status)
{
    if (status != PTO_OK) {
        fprintf(stderr, "bench_tensormap: %s: %s\n", pto_status_name(status), pto_error_detail());
        exit(2);
    }
}

static void *must_have(void *memory)
{
    if (!memory) {
        fprintf(stderr, "bench_tensormap: out of memory\n");
        exit(2);
    }
    return memory;
}

/* ---- Tensors ------------------------------------------------------------------------------ */

typedef struct tensors {
    pto_tensor *t;
    size_t count;
} tensors;

static void add(tensors *list, pto_tensor t)
{
    if ((list->count & (list->count - 1)) == 0) {
        list->t = must_have(realloc(list->t, (list->count ? 2 * list->count : 1) * sizeof t));
    }
    list->t[list->count++] = t;
}

/* A dense float tensor at an address that is nobody's. */
static pto_tensor dense(int32_t ndim, const int64_t *shape)
{
    pto_tensor t;
    uint64_t bytes = 4;
    for (int32_t d = 0; d < ndim; d++) {
        bytes *= (uint64_t)shape[d];
    }
    must(pto_tensor_init(&t, (void *)(uintptr_t)UINT64_C(0x100000000000), bytes, PTO_FLOAT32, ndim,
                         shape, NULL, 0));
    return t;
}

static pto_tensor matrix(int64_t rows, int64_t cols)
{
    return dense(2, (int64_t[]){rows, cols});
}

/* The box of rows r .. r + rows and columns c .. c + cols, cut off at the edges. */
static pto_tensor box(const pto_tensor *m, int64_t r, int64_t c, int64_t rows, int64_t cols)
{
    pto_tensor t;
    int64_t r_end = r + rows < m->shape[0] ? r + rows : m->shape[0];
    int64_t c_end = c + cols < m->shape[1] ? c + cols : m->shape[1];
    r = r > 0 ? r : 0;
    c = c > 0 ? c : 0;
    must(pto_tensor_view(m, (int64_t[]){r, c}, (int64_t[]){r_end - r, c_end - c}, &t));
    return t;
}

/* ---- The patterns ------------------------------------------------------------------------- */

/* Fills in the regions that the map holds and those that it is asked about. */
typedef void pattern_make(int size, tensors *held, tensors *asked);

static void row_tiles(int size, tensors *held, tensors *asked, bool part)
{
    pto_tensor m = matrix(sizes[size] * TILE, 1024);
    for (int64_t i = 0; i < sizes[size]; i++) {
        add(held, box(&m, i * TILE, 0, TILE, 1024));
        add(asked, part ? box(&m, i * TILE + 8, 0, TILE / 2, 1024) : held->t[i]);
    }
}

static void rows_themselves(int size, tensors *held, tensors *asked)
{
    row_tiles(size, held, asked, false);
}

static void parts_of_rows(int size, tensors *held, tensors *asked)
{
    row_tiles(size, held, asked, true);
}

static void column_tiles(int size, tensors *held, tensors *asked, bool part)
{
    pto_tensor m = matrix(1024, sizes[size] * TILE);
    for (int64_t i = 0; i < sizes[size]; i++) {
        add(held, box(&m, 0, i * TILE, 1024, TILE));
        add(asked, part ? box(&m, 100, i * TILE + 8, 500, TILE / 2) : held->t[i]);
    }
}

static void columns_themselves(int size, tensors *held, tensors *asked)
{
    column_tiles(size, held, asked, false);
}

static void parts_of_columns(int size, tensors *held, tensors *asked)
{
    column_tiles(size, held, asked, true);
}

/* The square of side x side tiles. */
static pto_tensor tiles(int size, tensors *held)
{
    const int64_t side = sides[size];
    pto_tensor m = matrix(side * TILE, side * TILE);
    for (int64_t i = 0; i < side; i++) {
        for (int64_t j = 0; j < side; j++) {
            add(held, box(&m, i * TILE, j * TILE, TILE, TILE));
        }
    }
    return m;
}

static void tiles_themselves(int size, tensors *held, tensors *asked)
{
    tiles(size, held);
    for (size_t i = 0; i < held->count; i++) {
        add(asked, held->t[i]);
    }
}

/* A box for each tile, from there on, of this size. */
static void tile_boxes(int size, tensors *held, tensors *asked, int64_t from, int64_t side,
                       bool transposed)
{
    pto_tensor m = tiles(size, held);
    for (int64_t i = 0; i < sides[size]; i++) {
        for (int64_t j = 0; j < sides[size]; j++) {
            pto_tensor t = box(&m, i * TILE + from, j * TILE + from, side, side);
            if (transposed) {
                must(pto_tensor_transpose(&t, 0, 1, &t));
            }
            add(asked, t);
        }
    }
}

static void parts_of_tiles(int size, tensors *held, tensors *asked)
{
    tile_boxes(size, held, asked, 8, TILE / 2, false);
}

static void halos_over_tiles(int size, tensors *held, tensors *asked)
{
    tile_boxes(size, held, asked, -1, TILE + 2, false);
}

static void transposed_over_tiles(int size, tensors *held, tensors *asked)
{
    tile_boxes(size, held, asked, TILE / 2, TILE, true);
}

/* Blocks of 8^4 floats in a tensor of four dims; `from` and `side` choose a part of each. */
static void blocks(int size, tensors *held, tensors *asked, int64_t from, int64_t side)
{
    static const int64_t counts[SIZES][4] = {
        {2, 2, 2, 2}, {2, 5, 2, 5}, {4, 8, 4, 8}, {10, 10, 10, 10}};
    const int64_t *n = counts[size];
    pto_tensor all = dense(4, (int64_t[]){8 * n[0], 8 * n[1], 8 * n[2], 8 * n[3]});
    for (int64_t i = 0; i < sizes[size]; i++) {
        int64_t at[4], rest = i;
        for (int d = 3; d >= 0; d--) {
            at[d] = rest % n[d] * 8;
            rest /= n[d];
        }
        pto_tensor t;
        must(pto_tensor_view(&all, at, (int64_t[]){8, 8, 8, 8}, &t));
        add(held, t);
        for (int d = 0; d < 4; d++) {
            at[d] += from;
        }
        must(pto_tensor_view(&all, at, (int64_t[]){side, side, side, side}, &t));
        add(asked, t);
    }
}

static void blocks_themselves(int size, tensors *held, tensors *asked)
{
    blocks(size, held, asked, 0, 8);
}

static void parts_of_blocks(int size, tensors *held, tensors *asked)
{
    blocks(size, held, asked, 2, 5);
}

static void rows_over_columns(int size, tensors *held, tensors *asked)
{
    pto_tensor m = matrix(1024, sizes[size] * TILE);
    for (int64_t i = 0; i < sizes[size]; i++) {
        add(held, box(&m, 0, i * TILE, 1024, TILE));
    }
    for (int64_t i = 0; i < 1024 / TILE; i++) {
        add(asked, box(&m, i * TILE, 0, TILE, m.shape[1]));
    }
}

static void columns_over_tiles(int size, tensors *held, tensors *asked)
{
    pto_tensor m = tiles(size, held);
    for (int64_t j = 0; j < sides[size]; j++) {
        add(asked, box(&m, 0, j * TILE, m.shape[0], TILE));
    }
}

static void rows_over_tiles(int size, tensors *held, tensors *asked)
{
    pto_tensor m = tiles(size, held);
    for (int64_t i = 0; i < sides[size]; i++) {
        add(asked, box(&m, i * TILE + 8, 0, TILE / 2, m.shape[1]));
    }
}

/* Small tiles, each inside one column tile. */
static void tiles_over_columns(int size, tensors *held, tensors *asked)
{
    pto_tensor m = matrix(1024, sizes[size] * TILE);
    for (int64_t i = 0; i < sizes[size]; i++) {
        add(held, box(&m, 0, i * TILE, 1024, TILE));
        add(asked, box(&m, i % 16 * TILE, i * TILE, TILE, TILE));
    }
}

/* Every chunk is a row of a matrix whose columns are asked for. */
static void columns_over_chunks(int size, tensors *held, tensors *asked)
{
    pto_tensor m = matrix(sizes[size], 4096);
    for (int64_t i = 0; i < sizes[size]; i++) {
        pto_tensor t;
        must(pto_tensor_init(&t, (char *)m.storage + i * 16384, 16384, PTO_UINT8, 1,
                             (int64_t[]){16384}, NULL, 0));
        add(held, t);
    }
    for (int64_t j = 0; j < 4096 / TILE; j += 4) {
        add(asked, box(&m, 0, j * TILE, m.shape[0], TILE));
    }
}

typedef struct pattern {
    const char *name;
    pattern_make *make;
    bool known; /* ask also with the regions known; those of the map themselves always are */
    bool fresh; /* ask also with regions that the map has not met */
} pattern;

static const pattern patterns[] = {
    {"row tiles", rows_themselves, true, false},
    {"parts of row tiles", parts_of_rows, true, true},
    {"column tiles", columns_themselves, true, false},
    {"parts of column tiles", parts_of_columns, true, true},
    {"2-D tiles", tiles_themselves, true, false},
    {"parts of 2-D tiles", parts_of_tiles, true, true},
    {"4-D blocks", blocks_themselves, true, false},
    {"parts of 4-D blocks", parts_of_blocks, true, true},
    {"row panels on column tiles", rows_over_columns, true, true},
    {"tiles on column tiles", tiles_over_columns, true, true},
    {"column panels on 2-D tiles", columns_over_tiles, true, true},
    {"row panels on 2-D tiles", rows_over_tiles, true, true},
    {"transposed on 2-D tiles", transposed_over_tiles, true, true},
    {"halo tiles on 2-D tiles", halos_over_tiles, true, true},
    {"columns on byte chunks", columns_over_chunks, true, true},
};

/* ---- Part one: asking --------------------------------------------------------------------- */

typedef struct world {
    pto_tensormap *map;
    tensors held, asked;
    double ns[REPETITIONS]; /* for an answer */
    double answers_each;    /* answers to a question */
    double candidates;      /* regions compared for an answer */
} world;

static void count_answer(void *context, const pto_map_hit *hit)
{
    *(uint64_t *)context += hit->task.id != 0;
}

static void shuffle(tensors *list, uint64_t seed)
{
    test_rng rng = test_rng_make(seed);
    for (size_t i = list->count; i > 1; i--) {
        size_t j = test_next(&rng) % i;
        pto_tensor t = list->t[i - 1];
        list->t[i - 1] = list->t[j];
        list->t[j] = t;
    }
}

/* Task i + 1 writes region i; if the questions are to be known, one more task reads each. */
static void world_build(world *w, const pattern *p, int size, bool known, bool scattered)
{
    pto_tensormap_config config = PTO_TENSORMAP_CONFIG_INIT;
    uint64_t id = 0;
    *w = (world){0};
    p->make(size, &w->held, &w->asked);
    config.levels = 1;
    config.entries = 32768;
    must(pto_tensormap_init(&w->map, &config));
    for (size_t i = 0; i < w->held.count; i++) {
        must(pto_tensormap_insert(w->map, &w->held.t[i], (pto_map_task){.id = ++id}));
    }
    for (size_t i = 0; known && i < w->asked.count; i++) {
        must(pto_tensormap_insert_read(w->map, &w->asked.t[i], (pto_map_task){.id = ++id}));
    }
    /* The questions themselves lie in memory in the order they are asked in. */
    if (scattered) {
        shuffle(&w->asked, 7);
    }
}

static void world_free(world *w)
{
    pto_tensormap_destroy(&w->map);
    free(w->held.t);
    free(w->asked.t);
}

static double world_measure(world *w)
{
    pto_tensormap_stats before, after;
    uint64_t answers = 0, questions = 0;
    must(pto_tensormap_get_stats(w->map, &before));
    double start = bench_now_ns();
    while (answers < ANSWERS_EACH) {
        for (size_t i = 0; i < w->asked.count; i++) {
            must(pto_tensormap_read_deps(w->map, &w->asked.t[i], count_answer, &answers));
        }
        questions += w->asked.count;
        if (answers == 0) {
            fprintf(stderr, "bench_tensormap: questions without an answer\n");
            exit(2);
        }
    }
    double ns = bench_now_ns() - start;
    must(pto_tensormap_get_stats(w->map, &after));
    w->answers_each = (double)answers / (double)questions;
    w->candidates = (double)(after.candidates - before.candidates) / (double)answers;
    return ns / (double)answers;
}

typedef struct bar {
    char name[96];
    double figure;
    double want;
} bar;

static bar bars[128];
static size_t n_bars;

static void run_pattern(const pattern *p, bool known, bool scattered)
{
    world worlds[SIZES];
    double ns[SIZES];
    for (int size = 0; size < SIZES; size++) {
        world_build(&worlds[size], p, size, known, scattered);
        (void)world_measure(&worlds[size]); /* warm */
    }
    /* Sizes take turns, so that a slow spell of the machine hits all of them. */
    for (int r = 0; r < REPETITIONS; r++) {
        for (int size = 0; size < SIZES; size++) {
            worlds[size].ns[r] = world_measure(&worlds[size]);
        }
    }
    for (int size = 0; size < SIZES; size++) {
        ns[size] = bench_median(worlds[size].ns, REPETITIONS);
    }
    const world *last = &worlds[SIZES - 1];
    const double ratio = ns[SIZES - 1] / ns[0];
    printf("%-27s %-5s %-8s %7.1f %7.1f %7.1f %7.1f %6.2f %9.1f %10.0f %7.2f\n", p->name,
           known ? "known" : "new", scattered ? "random" : "in order", ns[0], ns[1], ns[2], ns[3],
           ratio, last->answers_each, ns[SIZES - 1] * last->answers_each, last->candidates);
    bar *b = &bars[n_bars++];
    snprintf(b->name, sizeof b->name, "tensormap growth, %s, %s, %s", p->name,
             known ? "known" : "new", scattered ? "random" : "in order");
    b->figure = ratio;
    b->want = scattered ? 6 : 3;
    for (int size = 0; size < SIZES; size++) {
        world_free(&worlds[size]);
    }
}

/* ---- Instructions, where the system lets us count them ------------------------------------ */

#if defined(__linux__)
static int counter_open(void)
{
    struct perf_event_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.size = sizeof attr;
    attr.type = PERF_TYPE_HARDWARE;
    attr.config = PERF_COUNT_HW_INSTRUCTIONS;
    attr.exclude_kernel = 1;
    attr.exclude_hv = 1;
    return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

/* Instructions so far; 0 if there is no counter. */
static uint64_t counter_read(int counter)
{
    uint64_t value = 0;
    if (counter < 0 || read(counter, &value, sizeof value) != (ssize_t)sizeof value) {
        return 0;
    }
    return value;
}

static void counter_close(int counter)
{
    if (counter >= 0) {
        close(counter);
    }
}
#else
static int counter_open(void)
{
    return -1;
}

static uint64_t counter_read(int counter)
{
    (void)counter;
    return 0;
}

static void counter_close(int counter)
{
    (void)counter;
}
#endif

/* ---- Part two: small tasks ---------------------------------------------------------------- */

#define PROGRAM 8192 /* tasks, submitted over and over */

typedef struct program {
    const char *name;
    pto_tensormap *map;
    tensors tiles;
    pto_map_param (*params)[3];
    uint64_t id;
    uint64_t hits;
    uint64_t instructions;
    uint64_t sync_every;
    double ns[REPETITIONS];
} program;

/* Two reads and a write of tiles out of n; each in its turn, or any. */
static void program_build(program *p, const char *name, int64_t n, bool scattered,
                          uint64_t sync_every)
{
    test_rng rng = test_rng_make((uint64_t)n);
    int64_t side = 1;
    *p = (program){.name = name, .sync_every = sync_every};
    while (side * side < n) {
        side++;
    }
    pto_tensor m = matrix(side * TILE, side * TILE);
    for (int64_t i = 0; i < n; i++) {
        add(&p->tiles, box(&m, i / side * TILE, i % side * TILE, TILE, TILE));
    }
    p->params = must_have(malloc(PROGRAM * sizeof *p->params));
    for (int64_t t = 0; t < PROGRAM; t++) {
        const int64_t turn[3] = {t % n, (t + 1) % n, (t + n / 2) % n};
        for (int i = 0; i < 3; i++) {
            int64_t tile = scattered ? test_between(&rng, 0, n - 1) : turn[i];
            p->params[t][i].tensor = &p->tiles.t[tile];
            p->params[t][i].access = i < 2 ? PTO_MAP_READ : PTO_MAP_WRITE;
        }
    }
    must(pto_tensormap_init_default(&p->map));
}

static double program_run(program *p, int counter)
{
    enum { ROOM = 4096 };
    static pto_map_hit hits[ROOM];
    uint64_t id = p->id, found = 0;
    const uint64_t before = counter_read(counter);
    const double start = bench_now_ns();
    for (size_t t = 0; t < PROGRAM; t++) {
        size_t n_hits;
        id++;
        must(pto_tensormap_submit(p->map, p->params[t], 3, (pto_map_task){.id = id}, hits, ROOM,
                                  &n_hits));
        found += n_hits;
        if (id > LAG && id % p->sync_every == 0) {
            must(pto_tensormap_sync_validity(p->map, 0, id - LAG + 1));
        }
    }
    const double ns = bench_now_ns() - start;
    p->instructions = counter_read(counter) - before;
    p->hits = found;
    p->id = id;
    return ns / PROGRAM;
}

/* Each task writes a managed block that is new and reads the one before. */
static double blocks_run(program *p, int counter)
{
    pto_map_hit hits[8];
    pto_tensor block[2] = {matrix(TILE, TILE), matrix(TILE, TILE)};
    uint64_t id = p->id, found = 0;
    block[id & 1].owner = id;
    const uint64_t before = counter_read(counter);
    const double start = bench_now_ns();
    for (size_t t = 0; t < PROGRAM; t++) {
        size_t n_hits;
        id++;
        block[id & 1].owner = id;
        const pto_map_param params[2] = {{&block[(id & 1) ^ 1], PTO_MAP_READ},
                                         {&block[id & 1], PTO_MAP_WRITE}};
        must(pto_tensormap_submit(p->map, params + (id == 1), id == 1 ? 1 : 2,
                                  (pto_map_task){.id = id}, hits, 8, &n_hits));
        found += n_hits;
        if (id > LAG) {
            must(pto_tensormap_sync_validity(p->map, 0, id - LAG + 1));
        }
    }
    const double ns = bench_now_ns() - start;
    p->instructions = counter_read(counter) - before;
    p->hits = found;
    p->id = id;
    return ns / PROGRAM;
}

static double run_tasks(void)
{
    enum { PROGRAMS = 11 };
    static const int64_t counts[5] = {16, 64, 100, 1024, 10000};
    static char names[PROGRAMS][64];
    program programs[PROGRAMS];
    double hot = 0;
    const int counter = counter_open();
    for (int i = 0; i < 10; i++) {
        snprintf(names[i], sizeof names[i], "%d tiles, %s", (int)counts[i % 5],
                 i < 5 ? "in order" : "random");
        program_build(&programs[i], names[i], counts[i % 5], i >= 5, 1);
    }
    programs[10] = (program){.name = "managed blocks, each new", .sync_every = 1};
    must(pto_tensormap_init_default(&programs[10].map));
    for (int r = -2; r < REPETITIONS; r++) { /* the first two to warm up */
        for (int i = 0; i < PROGRAMS; i++) {
            double ns = i < 10 ? program_run(&programs[i], counter)
                               : blocks_run(&programs[i], counter);
            if (r >= 0) {
                programs[i].ns[r] = ns;
            }
        }
    }
    printf("\n%-27s %9s %9s %13s\n", "one task", "ns", "hits", "instructions");
    for (int i = 0; i < PROGRAMS; i++) {
        program *p = &programs[i];
        double ns = bench_median(p->ns, REPETITIONS);
        printf("%-27s %9.1f %9.2f", p->name, ns, (double)p->hits / PROGRAM);
        if (p->instructions) {
            printf(" %13.0f", (double)p->instructions / PROGRAM);
        }
        printf("\n");
        if (i < 3 && ns > hot) {
            hot = ns;
        }
        pto_tensormap_destroy(&p->map);
        free(p->params);
        free(p->tiles.t);
    }
    counter_close(counter);
    return hot;
}

/* With an argument: only the patterns whose name contains it ("task": none of them). */
int main(int argc, char **argv)
{
    const size_t n_patterns = sizeof patterns / sizeof patterns[0];
    bool all = true;
    printf("asking about n live regions: ns for an answer\n");
    printf("%-27s %-5s %-8s %7s %7s %7s %7s %6s %9s %10s %7s\n", "", "", "", "n=16", "n=100",
           "n=1024", "n=10000", "growth", "answers/q", "ns/quest.", "looked");
    for (size_t i = 0; i < n_patterns; i++) {
        if (argc > 1 && !strstr(patterns[i].name, argv[1])) {
            continue;
        }
        for (int scattered = 0; scattered < 2; scattered++) {
            if (patterns[i].known) {
                run_pattern(&patterns[i], true, scattered != 0);
            }
            if (patterns[i].fresh) {
                run_pattern(&patterns[i], false, scattered != 0);
            }
        }
    }
    printf("growth: n=10000 to n=16; answers/q, ns/quest.: for a question at n=10000;\n"
           "looked: regions compared exactly for an answer at n=10000\n");
    const double hot = run_tasks();
    printf("one task: two reads and a write (managed: a read and a write), submitted and retired "
           "%d later\n\n",
           LAG);
    for (size_t i = 0; i < n_bars; i++) {
        all &= bench_bar_at_most(bars[i].name, bars[i].figure, "x", bars[i].want);
    }
    all &= bench_bar_at_most("tensormap hot task", hot, "ns", 40);
    return all ? 0 : 1;
}
