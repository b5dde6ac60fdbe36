/* flat_rows.h - the rows of bench_flat: programs of a given size, and what is counted. */
#ifndef PTO_FLAT_ROWS_H
#define PTO_FLAT_ROWS_H

#include "tasks_ours.h"

/* Which threads run the tasks: only the submitting thread, while it waits; also workers; or also
 * workers, with the scheduler on its own thread. */
enum { ALONE, WORKERS, THREAD, MODES };
static const char *const mode_names[MODES] = {"alone", "inline", "thread"};

enum { MAX_SIZES = 5 };

/* One visit of a row: the request and the resulting figures. */
typedef struct run_info {
    int mode;
    uint64_t size;
    bool quick;
    double *samples; /* ns per unit, one for each run */
    size_t n_samples, room;
    double walk; /* ns per unit that the same cache lines cost without a runtime; 0: not measured */
} run_info;

typedef struct row_info {
    const char *name, *text, *unit, *by;
    uint64_t sizes[MAX_SIZES];
    uint64_t most, quick_most; /* the largest size without --full, and with --quick */
    void (*run)(const struct row_info *row, run_info *run);
    bool (*is_long)(const run_info *run); /* takes seconds: three rounds are enough */
    int pattern;                          /* of rows about a pattern */
    bool deep;                            /* rings for tens of thousands of tasks */
    uint32_t edges, entries;              /* for each task of the ring; 0: more than enough */
    bool shares; /* at larger sizes more edges share the fixed cost of a task */
    bool heads;  /* only the submits of tasks with many edges are timed */
} row_info;

static bool never_long(const run_info *run)
{
    (void)run;
    return false;
}

static void run_ring(const row_info *row, run_info *run);

/* Default rings, or rings large enough that only what the row is about runs short. */
static pto_runtime *row_runtime(const row_info *row, const run_info *run)
{
    pto_config config = PTO_CONFIG_INIT;
    pto_runtime *rt;
    config.place = run->mode == THREAD ? PTO_PLACE_THREAD : PTO_PLACE_INLINE;
    config.workers = run->mode == ALONE ? PTO_NO_WORKERS : 0;
    config.inline_ns = PTO_NO_INLINE; /* otherwise no task would have to wait */
    if (row->deep) {
        config.ring_tasks = 1 << 16;
    }
    if (row->run == run_ring) {
        config.ring_tasks = (uint32_t)run->size;
    }
    if (config.ring_tasks) {
        config.deps = config.ring_tasks * (row->edges ? row->edges : 8);
        config.map_entries = config.ring_tasks * (row->entries ? row->entries : 4);
    }
    must(pto_runtime_create(&rt, &config));
    return rt;
}

/* One thread that never sleeps is measured by its CPU time, so other load does not count. Several
 * threads are measured by wall-clock time. */
static double row_now(const run_info *run)
{
    struct timespec ts;
    clock_gettime(run->mode == ALONE ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static void add_sample(run_info *run, double ns)
{
    if (run->n_samples < run->room) {
        run->samples[run->n_samples++] = ns;
    }
}

static void require(bool holds, const row_info *row, const run_info *run, const char *what,
                    uint64_t got, uint64_t want)
{
    if (!holds) {
        fprintf(stderr, "bench_flat: %s %llu, %s: %llu %s, not %llu\n", row->name,
                (unsigned long long)run->size, mode_names[run->mode], (unsigned long long)got, what,
                (unsigned long long)want);
        exit(2);
    }
}

/* Every submitted task has run and succeeded. */
static void require_tasks(const row_info *row, const run_info *run, pto_runtime *rt, uint64_t tasks)
{
    pto_runtime_stats stats;
    must(pto_stats(rt, &stats));
    require(stats.submitted == tasks, row, run, "tasks were submitted", stats.submitted, tasks);
    require(stats.completed == tasks, row, run, "tasks are complete", stats.completed, tasks);
    require(stats.failed + stats.skipped == 0, row, run, "tasks failed or were skipped",
            stats.failed + stats.skipped, 0);
    if (row->deep && run->mode == ALONE) {
        const pto_ring_stats *rings = stats.level[0].ring;
        const uint64_t waits = rings[PTO_RING_DEPS].waits + rings[PTO_RING_MAP].waits;
        require(waits == 0, row, run, "submits ran short of edges, entries", waits, 0);
    }
}

/* ---- The length of a run, and the side of a matrix ------------------------------------------ */

enum { WARM_UP = 20000, SHORT_RUN = 200000, LENGTH_SIDE = 16 };

static uint64_t at_least_one(uint64_t n)
{
    return n ? n : 1;
}

/* About `tasks` tasks of a pattern, again and again if they are few. */
static void run_pattern(const row_info *row, run_info *run, const data *d, uint64_t tasks)
{
    const pattern *p = &patterns[row->pattern];
    pto_runtime *rt = row_runtime(row, run);
    const uint64_t times = tasks >= SHORT_RUN ? 1 : at_least_one(SHORT_RUN / 2 / tasks);
    sink s;
    sink_init(&s, rt, EMPTY);
    timed(p, &s, d, WARM_UP);
    for (uint64_t i = 0; i < times; i++) {
        const uint64_t before = s.tasks;
        const double start = row_now(run);
        timed(p, &s, d, tasks);
        add_sample(run, (row_now(run) - start) / (double)(s.tasks - before));
    }
    require_tasks(row, run, rt, s.tasks);
    must(pto_runtime_destroy(&rt, PTO_WAIT));
}

static void run_length(const row_info *row, run_info *run)
{
    const pattern *p = &patterns[row->pattern];
    /* The same matrix whatever the length. */
    data d = p->make == cholesky_data ? data_make((size_t)LENGTH_SIDE * LENGTH_SIDE, LENGTH_SIDE)
                                      : p->make(run->size);
    run_pattern(row, run, &d, run->size);
    data_free(&d);
}

static bool is_long_length(const run_info *run)
{
    return run->size > 1000000;
}

/* Where the tasks of a factorisation go: to the runtime, or to a walk over as many cache lines. A
 * walk goes from the fields of a tensor, three lines, to a bucket that a hash chooses, and on to a
 * record of 320 bytes, of which two lines are read and one is written. It does so for all tensors of
 * a task at once, and then for those of the next. So it costs what the caches charge whoever looks up
 * something for so many tiles, one task after the other. */
typedef struct walk_record {
    _Alignas(64) uint64_t line[5][8];
} walk_record;

typedef struct walk {
    walk_record *records;
    uint32_t *buckets; /* number of the record + 1 */
    uint32_t used, shift;
    uint64_t zero; /* always 0, but the compiler does not know */
} walk;

static uint32_t *walk_bucket(const walk *w, const tile *t)
{
    const uint64_t h = ((uint64_t)(uintptr_t)t->storage + (uint64_t)t->offset) *
                       UINT64_C(0x9E3779B97F4A7C15);
    return &w->buckets[h >> w->shift];
}

/* Two buckets for each tile, and the next one if a bucket is taken. */
static walk walk_make(size_t tiles)
{
    walk w = {.shift = 63};
    __asm__("" : "+r"(w.zero));
    while (UINT64_C(1) << (64 - w.shift) < 2 * tiles) {
        w.shift--;
    }
    w.records = must_have(aligned_alloc(64, tiles * sizeof *w.records));
    w.buckets = must_have(calloc((UINT64_C(1) << (64 - w.shift)) + tiles, sizeof *w.buckets));
    return w;
}

static void walk_free(walk *w)
{
    free(w->records);
    free(w->buckets);
}

/* Returns 0, and only after all of it was read: what is added to the next address. */
static uint64_t walk_tile(walk *w, const tile *t)
{
    uint32_t *bucket = walk_bucket(w, t);
    const uint64_t own = (uint64_t)t->offset + 1;
    while (*bucket && w->records[*bucket - 1].line[1][0] != own) {
        bucket++;
    }
    if (!*bucket) {
        *bucket = ++w->used;
        w->records[*bucket - 1].line[1][0] = own;
    }
    walk_record *r = &w->records[*bucket - 1];
    r->line[0][0] += (uint64_t)t->shape[0] + (uint64_t)t->strides[0] + t->generation;
    return r->line[0][0] & w->zero;
}

typedef struct steps {
    sink *s;
    walk *w; /* NULL: submits */
    uint64_t done, tasks;
    uint64_t at; /* of a walk: always 0, known when its last step is done */
} steps;

static void step(steps *p, kind which, tile *a, tile *b, tile *w)
{
    p->done++;
    if (p->w) {
        const uint64_t at = p->at;
        p->at = walk_tile(p->w, w + at);
        if (a) {
            p->at += walk_tile(p->w, a + at);
        }
        if (b) {
            p->at += walk_tile(p->w, b + at);
        }
    } else if (b) {
        task2(p->s, which, a, b, w);
    } else if (a) {
        task1(p->s, which, a, w);
    } else {
        task0(p->s, which, w);
    }
}

/* The factorisation, again and again, until there have been so many tasks. Of the largest matrix
 * these are the first few columns; each column goes over all tiles right of it. */
static void run_steps(steps *p, const data *d)
{
    const int64_t side = d->side;
    tile *a = d->tiles;
    for (int64_t k = 0; p->done < p->tasks; k = k + 1 < side ? k + 1 : 0) {
        step(p, POTRF, NULL, NULL, &a[k * side + k]);
        for (int64_t i = k + 1; i < side; i++) {
            step(p, TRSM, &a[k * side + k], NULL, &a[i * side + k]);
        }
        for (int64_t i = k + 1; i < side && p->done < p->tasks; i++) {
            for (int64_t j = k + 1; j < i; j++) {
                step(p, UPDATE, &a[i * side + k], &a[j * side + k], &a[i * side + j]);
            }
            step(p, SYRK, &a[i * side + k], NULL, &a[i * side + i]);
        }
    }
}

/* The same number of tasks whatever the side. Before the clock starts, three columns make all tiles
 * known. */
static void run_tiles(const row_info *row, run_info *run)
{
    const uint64_t known = 3 * run->size * run->size / 2;
    const uint64_t warm = known > WARM_UP ? known : WARM_UP;
    const uint64_t tasks = cholesky_tasks(run->quick ? 100 : 200);
    data d = data_make((size_t)(run->size * run->size), (int64_t)run->size);
    pto_runtime *rt = row_runtime(row, run);
    sink s;
    sink_init(&s, rt, EMPTY);
    run_steps(&(steps){.s = &s, .tasks = warm}, &d);
    must(pto_wait(rt));
    const uint64_t before = s.tasks;
    double start = row_now(run);
    run_steps(&(steps){.s = &s, .tasks = tasks}, &d);
    must(pto_wait(rt));
    add_sample(run, (row_now(run) - start) / (double)(s.tasks - before));
    require_tasks(row, run, rt, s.tasks);
    must(pto_runtime_destroy(&rt, PTO_WAIT));

    walk w = walk_make(d.n_tiles);
    run_steps(&(steps){.w = &w, .tasks = warm}, &d);
    steps timed_steps = {.w = &w, .tasks = tasks};
    start = row_now(run);
    run_steps(&timed_steps, &d);
    run->walk = (row_now(run) - start) / (double)timed_steps.done;
    walk_free(&w);
    data_free(&d);
}

/* ---- Tensors of a task ---------------------------------------------------------------------- */

enum { TENSOR_TILES = 256, TENSOR_TASKS = 50000, MOST_TENSORS = 12 };

/* Tasks that read all their tiles but one, which they update. In a full window of the default size
 * they must wait for slots, not for map entries. */
static void run_tensors(const row_info *row, run_info *run)
{
    data d = data_make(TENSOR_TILES, 0);
    pto_runtime *rt = row_runtime(row, run);
    pto_param params[MOST_TENSORS];
    pto_runtime_stats stats;
    sink s;
    uint64_t tasks = 0;
    sink_init(&s, rt, EMPTY);
    for (int i = -1; i < 2; i++) { /* the first one warms up */
        const double start = row_now(run);
        for (uint64_t n = 0; n < TENSOR_TASKS; n++, tasks++) {
            const uint64_t r = mixed(n + 1);
            for (uint64_t k = 0; k < run->size; k++) {
                const tile *t = &d.tiles[(r + k * (r >> 32 | 1)) % TENSOR_TILES];
                params[k] = k + 1 < run->size ? pto_input(t) : pto_inout(t);
            }
            must(pto_submit_task(rt, s.kernels[RANDOM], PTO_KERNEL_TYPE, params, run->size, NULL));
        }
        must(pto_wait(rt));
        if (i >= 0) {
            add_sample(run, (row_now(run) - start) / (double)TENSOR_TASKS / (double)run->size);
        }
    }
    require_tasks(row, run, rt, tasks);
    must(pto_stats(rt, &stats));
    require(stats.level[0].ring[PTO_RING_MAP].waits == 0, row, run, "waits for map entries",
            stats.level[0].ring[PTO_RING_MAP].waits, 0);
    must(pto_runtime_destroy(&rt, PTO_WAIT));
    data_free(&d);
}

/* ---- The size of the task ring -------------------------------------------------------------- */

enum { RING_RUN_TASKS = 50000 };

/* Random tiles, so that there is a bit of everything. With few edges or entries every submit finds
 * them short, because all others hold theirs as long as the ring is full. */
static void run_ring(const row_info *row, run_info *run)
{
    data d = scattered_data(0);
    run_pattern(row, run, &d, RING_RUN_TASKS);
    data_free(&d);
}

static bool is_long_ring(const run_info *run)
{
    return run->size > 4096;
}

/* ---- Scopes --------------------------------------------------------------------------------- */

enum { SCOPED_TASKS = 100000, SCOPED_BATCH = 256 };

/* Every 256 tasks: so many scopes are opened, one lifetime, and tasks bring tiles that live in
 * it. */
static void plain_scopes(sink *s, const data *d, uint64_t depth)
{
    for (uint64_t batch = 0; batch < SCOPED_TASKS / SCOPED_BATCH; batch++) {
        for (uint64_t i = 0; i < depth; i++) {
            must(pto_scope_begin_ex(s->rt, i ? 0 : PTO_SCOPE_BOUNDARY));
        }
        for (uint64_t i = 0; i < SCOPED_BATCH / 2; i++) {
            tile *c = &d->tiles[2 + (batch + i) % OWN];
            must(pto_temp(s->rt, PTO_UINT64, 2, (int64_t[]){TILE, TILE}, &s->fresh));
            task2(s, GEMM, &d->tiles[0], &d->tiles[1], &s->fresh);
            task1(s, ADD, &s->fresh, c);
        }
        for (uint64_t i = 0; i < depth; i++) {
            must(pto_scope_end(s->rt));
        }
    }
}

/* Inside of so many boundaries: a boundary for every two tasks. */
static void boundary_scopes(sink *s, const data *d, uint64_t depth)
{
    for (uint64_t i = 1; i < depth; i++) {
        must(pto_scope_begin_ex(s->rt, PTO_SCOPE_BOUNDARY));
    }
    for (uint64_t i = 0; i < SCOPED_TASKS / 2; i++) {
        tile *product = fresh_begin(s, i);
        task2(s, GEMM, &d->tiles[0], &d->tiles[1], product);
        task1(s, ADD, product, &d->tiles[2 + i % OWN]);
        fresh_end(s);
    }
    for (uint64_t i = 1; i < depth; i++) {
        must(pto_scope_end(s->rt));
    }
}

static void run_scopes(const row_info *row, run_info *run,
                       void (*program)(sink *s, const data *d, uint64_t depth))
{
    pto_runtime *rt = row_runtime(row, run);
    data d = independent_data(0);
    sink s;
    sink_init(&s, rt, EMPTY);
    for (int i = -1; i < 2; i++) { /* the first one warms up */
        const uint64_t before = s.tasks;
        const double start = row_now(run);
        program(&s, &d, run->size);
        must(pto_wait(rt));
        if (i >= 0) {
            add_sample(run, (row_now(run) - start) / (double)(s.tasks - before));
        }
    }
    require_tasks(row, run, rt, s.tasks);
    require(pto_get_scope_depth(rt) == 0, row, run, "scopes are open", pto_get_scope_depth(rt), 0);
    must(pto_runtime_destroy(&rt, PTO_WAIT));
    data_free(&d);
}

static void run_plain_scopes(const row_info *row, run_info *run)
{
    run_scopes(row, run, plain_scopes);
}

static void run_boundary_scopes(const row_info *row, run_info *run)
{
    run_scopes(row, run, boundary_scopes);
}

/* ---- Edges ---------------------------------------------------------------------------------- */

enum { FAN_EDGES = 10000, FAN_BATCHES = 3 };

/* Kernels count, each worker on a line of its own. */
typedef struct tally {
    _Alignas(64) uint64_t runs;
} tally;

static tally tallies[PTO_MAX_WORKERS + 1];

static pto_status kernel_count(const pto_call *call)
{
    tallies[call->worker].runs++;
    return PTO_OK;
}

static uint64_t tallies_take(void)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof tallies / sizeof *tallies; i++) {
        sum += tallies[i].runs;
        tallies[i].runs = 0;
    }
    return sum;
}

typedef struct fan {
    pto_runtime *rt;
    pto_kernel kernel;
    pto_tensor *tiles; /* FAN_EDGES of them */
    pto_param *params;
    uint64_t tasks, heads;
    double head_ns; /* spent in the submits of tasks with many edges */
} fan;

static void fan_submit(fan *f, const pto_param *params, size_t n)
{
    f->tasks++;
    must(pto_submit_task(f->rt, f->kernel, PTO_KERNEL_TYPE, params, n, NULL));
}

/* By the clock on the wall, whoever runs: asking for a thread's own time is a system call, which
 * would be most of a short submit. */
static void fan_head(fan *f, const pto_param *params, size_t n)
{
    const double start = bench_now_ns();
    fan_submit(f, params, n);
    f->head_ns += bench_now_ns() - start;
    f->heads++;
}

/* One writes, `width` read. */
static void fan_out(fan *f, uint64_t group, uint64_t width)
{
    const pto_param write = pto_output(&f->tiles[group]), read = pto_input(&f->tiles[group]);
    fan_submit(f, &write, 1);
    for (uint64_t i = 0; i < width; i++) {
        fan_submit(f, &read, 1);
    }
}

/* `width` write, one reads all of that. */
static void fan_in(fan *f, uint64_t group, uint64_t width)
{
    for (uint64_t i = 0; i < width; i++) {
        const pto_param write = pto_output(&f->tiles[group * width + i]);
        fan_submit(f, &write, 1);
        f->params[i] = pto_input(&f->tiles[group * width + i]);
    }
    fan_head(f, f->params, width);
}

/* `width` read, one writes. */
static void fan_war(fan *f, uint64_t group, uint64_t width)
{
    const pto_param write = pto_output(&f->tiles[group]), read = pto_input(&f->tiles[group]);
    for (uint64_t i = 0; i < width; i++) {
        fan_submit(f, &read, 1);
    }
    fan_head(f, &write, 1);
}

/* As many groups as make FAN_EDGES edges, whatever the width. They all wait for the end of the
 * batch when one thread does everything: then every edge is counted. */
static void run_fan(const row_info *row, run_info *run,
                    void (*group)(fan *f, uint64_t group, uint64_t width))
{
    fan f = {.rt = row_runtime(row, run)};
    uint64_t *memory = must_have(calloc(FAN_EDGES, sizeof *memory * 8));
    pto_runtime_stats stats;
    f.tiles = must_have(calloc(FAN_EDGES, sizeof *f.tiles));
    f.params = must_have(calloc(FAN_EDGES, sizeof *f.params));
    for (size_t i = 0; i < FAN_EDGES; i++) {
        must(pto_tensor_init(&f.tiles[i], memory + 8 * i, 64, PTO_UINT64, 1, (int64_t[]){8}, NULL,
                             0));
    }
    must(pto_kernel_register(f.rt, "count", PTO_AI_CPU, kernel_count, NULL, &f.kernel));
    (void)tallies_take();
    for (int batch = -1; batch < FAN_BATCHES; batch++) { /* the first one warms up */
        f.head_ns = 0;
        const double start = row_now(run);
        for (uint64_t i = 0; i < FAN_EDGES / run->size; i++) {
            group(&f, i, run->size);
        }
        must(pto_wait(f.rt));
        const double ns = row->heads ? f.head_ns : row_now(run) - start;
        if (batch >= 0) {
            add_sample(run, ns / FAN_EDGES);
        }
    }
    require_tasks(row, run, f.rt, f.tasks);
    const uint64_t runs = tallies_take(), edges = (uint64_t)FAN_EDGES * (FAN_BATCHES + 1);
    require(runs == f.tasks, row, run, "tasks ran", runs, f.tasks);
    must(pto_stats(f.rt, &stats));
    const uint64_t found = group == fan_war ? stats.war : stats.raw;
    require(run->mode == ALONE ? found == edges : found <= edges, row, run, "edges were found",
            found, edges);
    must(pto_runtime_destroy(&f.rt, PTO_WAIT));
    free(f.tiles);
    free(f.params);
    free(memory);
}

static void run_fan_out(const row_info *row, run_info *run)
{
    run_fan(row, run, fan_out);
}

static void run_fan_in(const row_info *row, run_info *run)
{
    run_fan(row, run, fan_in);
}

static void run_fan_war(const row_info *row, run_info *run)
{
    run_fan(row, run, fan_war);
}

/* ---- The rows ------------------------------------------------------------------------------- */

#define LENGTHS                                                                                    \
    .unit = "task", .by = "tasks in all", .sizes = {10000, 100000, 1000000, 10000000, 100000000},  \
    .most = 10000000, .quick_most = 1000000, .run = run_length, .is_long = is_long_length
#define TILES                                                                                      \
    .unit = "task", .by = "tiles a side", .sizes = {16, 50, 100, 200, 1000}, .most = 1000,         \
    .quick_most = 100, .run = run_tiles, .is_long = never_long, .pattern = 4
#define DEPTHS                                                                                     \
    .unit = "task", .sizes = {1, 4, 16, 64}, .most = 64, .quick_most = 64, .is_long = never_long
#define WIDTHS(largest)                                                                            \
    .unit = "edge", .sizes = {10, 100, 1000, (largest) > 1000 ? (largest) : 0}, .most = (largest), \
    .quick_most = (largest), .is_long = never_long, .deep = true, .shares = true

#define RING_SIZES                                                                                 \
    .unit = "task", .by = "tasks in the ring", .sizes = {256, 1024, 4096, 16384, 65536},           \
    .most = 16384, .quick_most = 4096, .run = run_ring, .is_long = is_long_ring, .pattern = 5

static const row_info rows[] = {
    {.name = "length P1", .text = "independent tasks", LENGTHS, .pattern = 0},
    {.name = "length P2", .text = "a chain", LENGTHS, .pattern = 1},
    {.name = "length P3", .text = "a stencil", LENGTHS, .pattern = 2},
    {.name = "length P4", .text = "tiles that live for two tasks", LENGTHS, .pattern = 3},
    {.name = "length P5",
     .text = "a matrix of 16 tiles a side, over and over",
     LENGTHS,
     .pattern = 4},
    {.name = "length P6", .text = "random tiles", LENGTHS, .pattern = 5},
    {.name = "tiles", .text = "Cholesky on one matrix, default rings", TILES},
    {.name = "live tiles",
     .text = "Cholesky on one matrix, rings for 65,536 tasks",
     TILES,
     .deep = true},
    {.name = "tensors",
     .text = "tasks with few and many tensors, default rings",
     .unit = "tensor",
     .by = "tensors of a task",
     .sizes = {2, 4, 6, 8, 12},
     .most = 12,
     .quick_most = 12,
     .run = run_tensors,
     .is_long = never_long,
     .shares = true},
    {.name = "ring", .text = "random tiles, edges and entries for all", RING_SIZES},
    {.name = "few edges", .text = "random tiles, two edges for each task", RING_SIZES, .edges = 2},
    {.name = "few entries",
     .text = "random tiles, two map entries for each task",
     RING_SIZES,
     .entries = 2},
    {.name = "scopes",
     .text = "tasks in nested scopes",
     .by = "scopes",
     DEPTHS,
     .run = run_plain_scopes},
    {.name = "boundaries",
     .text = "a boundary for every two tasks, in nested boundaries",
     .by = "boundaries",
     DEPTHS,
     .run = run_boundary_scopes},
    {.name = "fan-out",
     .text = "one writes, many read",
     .by = "readers of each",
     WIDTHS(10000),
     .run = run_fan_out},
    {.name = "fan-in",
     .text = "many write, one reads all",
     .by = "writers for each",
     WIDTHS(1000),
     .run = run_fan_in},
    {.name = "fan-in submit",
     .text = "the submit of the one that reads",
     .by = "writers for each",
     WIDTHS(1000),
     .run = run_fan_in,
     .heads = true},
    {.name = "war",
     .text = "many read, one writes",
     .by = "readers before each",
     WIDTHS(10000),
     .run = run_fan_war},
    {.name = "war submit",
     .text = "the submit of the one that writes",
     .by = "readers before each",
     WIDTHS(10000),
     .run = run_fan_war,
     .heads = true},
};
enum { ROWS = sizeof rows / sizeof *rows };

#endif /* PTO_FLAT_ROWS_H */
