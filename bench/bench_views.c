/* bench_views.c - what tasks cost whose views overlap others or are new, or that are less plain in another way.
 *
 * Small tasks that add neighbours, in nine programs, beside one whose tiles overlap nothing. Each runs with the
 * default and with every task offloaded. All are checked against a serial loop. A figure is the median of some
 * rounds, in ns a task; the bars are ratios to the first row, which takes turns with the others.
 *
 *     tiles        x[tile] -> y[tile]                    known views, none overlaps another
 *     neighbours   x[tile and a cell on each side] -> y[tile], in memory of the user, and in managed memory
 *     borders      the same for tiles of a matrix
 *     whole        tiles, then one task that reads all of them
 *     waits        tiles, then a wait for all of them
 *     halves       halves of halves of one memory, down to a tile
 *     crossing     rows of a matrix, then its columns
 *     new views    x[tile] -> y[tile], each tile once
 *     parts        a temporary, written whole, and read in four parts
 *     after        the tiles, each task after the one before
 *     nodep        the tiles, of which x is not ordered
 *     many         the tiles, with 16 scalars more
 *     ring         the tiles, with room for two tasks
 */
#include "bench.h"

#include <string.h>

#include <pto/pto.h>

enum {
    CELLS = 16,   /* of a tile */
    TILES = 1000, /* known ones */
    SIDE = 4,     /* of a tile of the matrix, which has GRID tiles a side */
    GRID = 32,
    NEW = 200000, /* tiles of the program that uses each once */
    PARTS = 4,
    WHOLE = 300, /* tiles that one task reads */
    HALVES = 256,
    CROSSING = 100, /* rows and columns */
    SCALARS = 16,
    STEPS = 20,
    WARM = 300, /* steps, until it is known where tasks run best */
    ROUNDS = 7
};

#define MUST(call)                                                                                 \
    do {                                                                                           \
        if ((call) != PTO_OK) {                                                                    \
            fprintf(stderr, "bench_views: %s: %s\n", #call, pto_error_detail());                   \
            exit(2);                                                                               \
        }                                                                                          \
    } while (0)

static void *must_have(void *memory)
{
    if (!memory) {
        fprintf(stderr, "bench_views: out of memory\n");
        exit(2);
    }
    return memory;
}

/* ---- Kernels -------------------------------------------------------------------------------- */

/* y = x + its right neighbour, or x + x where there is none. */
static pto_status kernel_row(const pto_call *call)
{
    const uint32_t *x = call->args[0].data;
    uint32_t *y = call->args[1].data;
    const int64_t n = call->args[1].shape[0], more = call->args[0].shape[0] - n;
    for (int64_t i = 0; i < n; i++) {
        y[i] = x[i] + x[i + more];
    }
    return PTO_OK;
}

/* Each cell of a tile becomes the sum of the two on its diagonal. */
static pto_status kernel_tile(const pto_call *call)
{
    const uint32_t *x = call->args[0].data;
    uint32_t *y = call->args[1].data;
    const int64_t in = call->args[0].strides[0], out = call->args[1].strides[0];
    for (int64_t i = 0; i < SIDE; i++) {
        for (int64_t j = 0; j < SIDE; j++) {
            y[i * out + j] = x[i * in + j] + x[(i + 2) * in + j + 2];
        }
    }
    return PTO_OK;
}

static pto_status kernel_fill(const pto_call *call)
{
    uint32_t *x = call->args[0].data;
    for (int64_t i = 0; i < call->args[0].shape[0]; i++) {
        x[i] = (uint32_t)call->args[1].u64;
    }
    return PTO_OK;
}

static pto_status kernel_bump(const pto_call *call)
{
    ++*(uint32_t *)call->args[0].data;
    return PTO_OK;
}

static pto_status kernel_look(const pto_call *call)
{
    return call->args[0].data ? PTO_OK : PTO_KERNEL_FAILED;
}

static pto_status kernel_sum(const pto_call *call)
{
    const uint32_t *x = call->args[0].data;
    uint32_t *y = call->args[1].data;
    for (int64_t i = 0; i < CELLS; i++) {
        *y += x[i];
    }
    return PTO_OK;
}

/* ---- Programs ------------------------------------------------------------------------------- */

typedef struct program {
    pto_runtime *rt;
    pto_kernel row, tile, fill, sum, bump, look;
    int64_t n;         /* cells of each array */
    uint32_t *mine[2]; /* memory of the user; NULL: managed */
    uint32_t *model[2];
    pto_tensor all[2];
    uint64_t steps;
} program;

typedef struct row_info {
    const char *name, *text;
    bool managed;
    int64_t cells;
    uint64_t tasks, steps;     /* tasks of a step; steps of a round */
    void (*step)(program *p);  /* submits */
    void (*model)(program *p); /* the same, serially */
    uint32_t ring;             /* tasks that there is room for; 0: the default */
    double want;               /* at most so many times the first row; 0: no bar */
    const char *bar;
} row_info;

static pto_tensor cells_of(const pto_tensor *all, int64_t from, int64_t n)
{
    pto_tensor t;
    MUST(pto_tensor_view(all, &from, &n, &t));
    return t;
}

static void rows_of(program *p, int64_t tiles, int64_t more)
{
    const pto_tensor *x = &p->all[p->steps % 2], *y = &p->all[1 - p->steps % 2];
    for (int64_t i = 0; i < tiles; i++) {
        const pto_tensor a = cells_of(x, i * CELLS, CELLS + more);
        const pto_tensor b = cells_of(y, i * CELLS + more / 2, CELLS);
        MUST(pto_submit(p->rt, p->row, pto_input(&a), pto_output(&b)));
    }
}

static void model_rows(program *p, int64_t tiles, int64_t more)
{
    const uint32_t *from = p->model[p->steps % 2];
    uint32_t *to = p->model[1 - p->steps % 2];
    for (int64_t i = 0; i < tiles * CELLS; i++) {
        to[i + more / 2] = from[i] + from[i + more];
    }
}

static void step_tiles(program *p)
{
    rows_of(p, TILES, 0);
}

static void model_tiles(program *p)
{
    model_rows(p, TILES, 0);
}

/* The tasks of step_tiles, each with something more. */
static void tiles_with(program *p,
                       void (*submit)(program *p, const pto_tensor *a, const pto_tensor *b))
{
    const pto_tensor *x = &p->all[p->steps % 2], *y = &p->all[1 - p->steps % 2];
    for (int64_t i = 0; i < TILES; i++) {
        const pto_tensor a = cells_of(x, i * CELLS, CELLS), b = cells_of(y, i * CELLS, CELLS);
        submit(p, &a, &b);
    }
}

static void submit_after(program *p, const pto_tensor *a, const pto_tensor *b)
{
    const pto_task last = pto_last_task(p->rt);
    if (last) {
        MUST(pto_submit(p->rt, p->row, pto_input(a), pto_output(b), pto_after(last)));
    } else {
        MUST(pto_submit(p->rt, p->row, pto_input(a), pto_output(b)));
    }
}

static void step_after(program *p)
{
    tiles_with(p, submit_after);
}

static void submit_nodep(program *p, const pto_tensor *a, const pto_tensor *b)
{
    MUST(pto_submit(p->rt, p->row, pto_nodep(pto_input(a)), pto_output(b)));
}

static void step_nodep(program *p)
{
    tiles_with(p, submit_nodep);
    MUST(pto_wait(p->rt)); /* nothing else orders the steps */
}

static void submit_many(program *p, const pto_tensor *a, const pto_tensor *b)
{
    pto_param params[2 + SCALARS] = {pto_input(a), pto_output(b)};
    for (int i = 0; i < SCALARS; i++) {
        params[2 + i] = pto_scalar(i);
    }
    MUST(pto_submit_task(p->rt, p->row, PTO_KERNEL_TYPE, params, 2 + SCALARS, NULL));
}

static void step_many(program *p)
{
    tiles_with(p, submit_many);
}

static void step_neighbours(program *p)
{
    rows_of(p, TILES, 2);
}

static void model_neighbours(program *p)
{
    model_rows(p, TILES, 2);
}

static void step_new(program *p)
{
    rows_of(p, NEW, 0);
}

static void model_new(program *p)
{
    model_rows(p, NEW, 0);
}

enum { WIDE = GRID * SIDE + 2 };

static void step_borders(program *p)
{
    pto_tensor matrix[2];
    for (int i = 0; i < 2; i++) {
        MUST(pto_tensor_reshape(&p->all[i], 2, (int64_t[]){WIDE, WIDE}, &matrix[i]));
    }
    const pto_tensor *x = &matrix[p->steps % 2], *y = &matrix[1 - p->steps % 2];
    for (int64_t i = 0; i < GRID; i++) {
        for (int64_t j = 0; j < GRID; j++) {
            pto_tensor a, b;
            MUST(pto_tensor_view(x, (int64_t[]){i * SIDE, j * SIDE},
                                 (int64_t[]){SIDE + 2, SIDE + 2}, &a));
            MUST(pto_tensor_view(y, (int64_t[]){i * SIDE + 1, j * SIDE + 1},
                                 (int64_t[]){SIDE, SIDE}, &b));
            MUST(pto_submit(p->rt, p->tile, pto_input(&a), pto_output(&b)));
        }
    }
}

static void model_borders(program *p)
{
    const uint32_t *from = p->model[p->steps % 2];
    uint32_t *to = p->model[1 - p->steps % 2];
    for (int64_t i = 0; i + 2 < WIDE; i++) {
        for (int64_t j = 0; j + 2 < WIDE; j++) {
            to[(i + 1) * WIDE + j + 1] = from[i * WIDE + j] + from[(i + 2) * WIDE + j + 2];
        }
    }
}

static void step_parts(program *p)
{
    for (uint32_t k = 0; k < TILES / (PARTS + 1); k++) {
        MUST(pto_scope_begin_ex(p->rt, PTO_SCOPE_BOUNDARY));
        pto_tensor t;
        MUST(pto_temp(p->rt, PTO_INT32, 1, (int64_t[]){PARTS * CELLS}, &t));
        MUST(pto_submit(p->rt, p->fill, pto_output(&t), pto_scalar((uint64_t)k)));
        for (int64_t i = 0; i < PARTS; i++) {
            const pto_tensor part = cells_of(&t, i * CELLS, CELLS), y = cells_of(&p->all[0], i, 1);
            MUST(pto_submit(p->rt, p->sum, pto_input(&part), pto_inout(&y)));
        }
        MUST(pto_scope_end(p->rt));
    }
}

static void model_parts(program *p)
{
    for (uint32_t k = 0; k < TILES / (PARTS + 1); k++) {
        for (int64_t i = 0; i < PARTS; i++) {
            p->model[0][i] += k * CELLS;
        }
    }
}

#define LINE ((int64_t)TILES * CELLS + 2)
#define AREA ((int64_t)(GRID * SIDE + 2) * (GRID * SIDE + 2))

/* y = x + x, tile by tile, then a look at all of y. */
static void look_at_all(program *p, bool wait)
{
    rows_of(p, WHOLE, 0);
    const pto_tensor y = cells_of(&p->all[1 - p->steps % 2], 0, WHOLE * CELLS);
    if (wait) {
        MUST(pto_wait_tensor(p->rt, &y));
    } else {
        MUST(pto_submit(p->rt, p->look, pto_input(&y)));
    }
}

static void step_whole(program *p)
{
    look_at_all(p, false);
}

static void step_waits(program *p)
{
    look_at_all(p, true);
}

static void model_whole(program *p)
{
    model_rows(p, WHOLE, 0);
}

static void step_halves(program *p)
{
    for (int64_t tiles = 1; tiles <= HALVES; tiles *= 2) {
        for (int64_t i = 0; i < HALVES; i += tiles) {
            const pto_tensor t = cells_of(&p->all[0], i * CELLS, tiles * CELLS);
            MUST(pto_submit(p->rt, p->bump, pto_inout(&t)));
        }
    }
}

static void model_halves(program *p)
{
    for (int64_t tiles = 1; tiles <= HALVES; tiles *= 2) {
        for (int64_t i = 0; i < HALVES; i += tiles) {
            p->model[0][i * CELLS]++;
        }
    }
}

static void step_crossing(program *p)
{
    pto_tensor m, t;
    MUST(pto_tensor_reshape(&p->all[0], 2, (int64_t[]){CROSSING * SIDE, CROSSING * SIDE}, &m));
    for (int64_t i = 0; i < 2 * CROSSING; i++) {
        const int dim = i >= CROSSING;
        MUST(pto_tensor_slice(&m, dim, i % CROSSING * SIDE, (i % CROSSING + 1) * SIDE, 1, &t));
        MUST(pto_submit(p->rt, p->bump, pto_inout(&t)));
    }
}

static void model_crossing(program *p)
{
    for (int64_t i = 0; i < CROSSING; i++) {
        p->model[0][i * SIDE * CROSSING * SIDE]++;
        p->model[0][i * SIDE]++;
    }
}

static const row_info rows[] = {
    {"tiles", "known views, none overlaps another", false, LINE, TILES, STEPS, step_tiles,
     model_tiles, 0, 0, ""},
    {"neighbours", "slices with a cell more on each side", false, LINE, TILES, STEPS,
     step_neighbours, model_neighbours, 0, 2, "views neighbours"},
    {"managed", "the same in managed memory", true, LINE, TILES, STEPS, step_neighbours,
     model_neighbours, 0, 2, "views managed"},
    {"borders", "tiles of a matrix with a cell more on each side", false, AREA, GRID *GRID, STEPS,
     step_borders, model_borders, 0, 4, "views borders"},
    {"whole", "tiles, then a task that reads all of them", false, LINE, WHOLE + 1, STEPS,
     step_whole, model_whole, 0, 2, "views whole"},
    {"waits", "tiles, then a wait for all of them", false, LINE, WHOLE, STEPS, step_waits,
     model_whole, 0, 2, "views waits"},
    {"halves", "halves of halves of one memory, down to a tile", false, LINE, 2 * HALVES - 1, STEPS,
     step_halves, model_halves, 0, 3, "views halves"},
    {"crossing", "rows of a matrix, then its columns", false,
     (int64_t)CROSSING *SIDE *CROSSING *SIDE, 2 * CROSSING, STEPS, step_crossing, model_crossing, 0,
     10, "views crossing"},
    {"parts", "temporaries, written whole and read in parts", false, PARTS, TILES, STEPS,
     step_parts, model_parts, 0, 4, "views parts"},
    {"new", "each view once", false, (int64_t)NEW *CELLS, NEW, 1, step_new, model_new, 0, 10,
     "views new"},
    {"after", "known tiles, each task after the one before", false, LINE, TILES, STEPS, step_after,
     model_tiles, 0, 2, "views after"},
    {"nodep", "known tiles, of which one is not ordered", false, LINE, TILES, STEPS, step_nodep,
     model_tiles, 0, 2, "views nodep"},
    {"many", "known tiles, and 16 scalars", false, LINE, TILES, STEPS, step_many, model_tiles, 0,
     2.5, "views many"},
    {"ring", "known tiles, with room for two tasks", false, LINE, TILES, STEPS, step_tiles,
     model_tiles, 2, 1.5, "views ring"},
};

enum { ROWS = sizeof rows / sizeof *rows, MODES = 2 };

static program begin(const row_info *row, bool offload)
{
    pto_config config = PTO_CONFIG_INIT;
    program p = {.n = row->cells};
    config.inline_ns = offload ? PTO_NO_INLINE : 0;
    config.ring_tasks = row->ring;
    MUST(pto_runtime_create(&p.rt, &config));
    MUST(pto_kernel_register(p.rt, "row", PTO_VECTOR, kernel_row, NULL, &p.row));
    MUST(pto_kernel_register(p.rt, "tile", PTO_VECTOR, kernel_tile, NULL, &p.tile));
    MUST(pto_kernel_register(p.rt, "fill", PTO_VECTOR, kernel_fill, NULL, &p.fill));
    MUST(pto_kernel_register(p.rt, "sum", PTO_VECTOR, kernel_sum, NULL, &p.sum));
    MUST(pto_kernel_register(p.rt, "bump", PTO_VECTOR, kernel_bump, NULL, &p.bump));
    MUST(pto_kernel_register(p.rt, "look", PTO_VECTOR, kernel_look, NULL, &p.look));
    if (row->managed) {
        MUST(pto_scope_begin(p.rt));
    }
    for (int i = 0; i < 2; i++) {
        const size_t bytes = (size_t)p.n * sizeof(uint32_t);
        p.model[i] = must_have(malloc(bytes));
        for (int64_t k = 0; k < p.n; k++) {
            p.model[i][k] = (uint32_t)(k * 2654435761u) * (i == 0);
        }
        if (row->managed) {
            MUST(pto_alloc(p.rt, PTO_INT32, 1, &p.n, &p.all[i]));
            MUST(pto_write(p.rt, &p.all[i], p.model[i], bytes));
        } else {
            p.mine[i] = must_have(malloc(bytes));
            memcpy(p.mine[i], p.model[i], bytes);
            MUST(pto_external_tensor(p.rt, p.mine[i], PTO_INT32, 1, &p.n, &p.all[i]));
        }
    }
    return p;
}

static void end(const row_info *row, program *p)
{
    for (int i = 0; i < 2; i++) {
        const size_t bytes = (size_t)p->n * sizeof(uint32_t);
        uint32_t *got = must_have(malloc(bytes));
        MUST(pto_read(p->rt, &p->all[i], got, bytes));
        if (memcmp(got, p->model[i], bytes) != 0) {
            fprintf(stderr, "bench_views: %s: not what the serial loop leaves\n", row->name);
            exit(2);
        }
        free(got);
    }
    if (row->managed) {
        MUST(pto_scope_end(p->rt));
    }
    MUST(pto_runtime_destroy(&p->rt, PTO_WAIT));
    for (int i = 0; i < 2; i++) {
        free(p->mine[i]);
        free(p->model[i]);
    }
}

/* Some steps of the program, and the same of the model. Returns ns a task. */
static double run(const row_info *row, program *p, uint64_t steps)
{
    const uint64_t from = p->steps, to = from + steps;
    const double start = bench_now_ns();
    for (; p->steps < to; p->steps++) {
        row->step(p);
    }
    MUST(pto_wait(p->rt));
    const double ns = (bench_now_ns() - start) / (double)(steps * row->tasks);
    for (p->steps = from; p->steps < to; p->steps++) {
        row->model(p);
    }
    return ns;
}

static double visit(const row_info *row, bool offload, double *first)
{
    program p = begin(row, offload);
    double ns = *first = run(row, &p, 1);
    if (row->steps > 1) {
        (void)run(row, &p, WARM);
        ns = run(row, &p, row->steps);
    }
    end(row, &p);
    return ns;
}

int main(int argc, char **argv)
{
    static double ns[ROWS][MODES][ROUNDS], first[ROWS][MODES][ROUNDS], ratio[ROWS][ROUNDS];
    size_t rounds = ROUNDS;
    const char *only = NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            rounds = 3;
        } else if (strcmp(argv[i], "--row") == 0 && i + 1 < argc) {
            only = argv[++i];
        } else {
            printf("usage: bench_views [--quick] [--row NAME]\n"
                   "What tasks cost whose views overlap others or are new, or that are less plain "
                   "in another way.\n");
            return strcmp(argv[i], "--help") == 0 ? 0 : 2;
        }
    }
    for (size_t round = 0; round < rounds; round++) {
        for (size_t r = 0; r < ROWS; r++) {
            for (int mode = 0; mode < MODES && (!only || r == 0 || strcmp(only, rows[r].name) == 0);
                 mode++) {
                ns[r][mode][round] = visit(&rows[r], mode == 1, &first[r][mode][round]);
            }
            ratio[r][round] = ns[r][0][round] / ns[0][0][round];
        }
    }
    printf("%-61s %17s %17s\n%61s %8s %8s %8s %8s\n", "ns a task", "default", "offloaded", "", "",
           "1st step", "", "1st step");
    bool good = true;
    for (size_t r = 0; r < ROWS; r++) {
        if (ns[r][0][0] > 0) {
            printf("%-10s %-50s", rows[r].name, rows[r].text);
            for (int mode = 0; mode < MODES; mode++) {
                printf(" %8.0f %8.0f", bench_median(ns[r][mode], rounds),
                       bench_median(first[r][mode], rounds));
            }
            printf("\n");
        }
    }
    for (size_t r = 1; r < ROWS; r++) {
        if (ns[r][0][0] > 0) {
            good &= bench_bar_at_most(rows[r].bar, bench_median(ratio[r], rounds),
                                      "times known tiles", rows[r].want);
        }
    }
    return !good;
}
