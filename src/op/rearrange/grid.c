/* grid.c - plans a strided copy for a grid of GPU threads. See grid.h. */
#include "op/rearrange/grid.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "op/rearrange/loops.h"

/* A copy that is being planned: loops go from the nest to the axes, and the rest become steps. */
typedef struct draft {
    ptoi_nest nest;
    uint32_t size;
    uint64_t to_address, from_address; /* of element [0, 0, ...] */
    int form;                          /* of tiles; -1: the better one */
    struct axis {
        int32_t n;
        int64_t count;
        ptoi_loop loop[PTO_MAX_DIMS]; /* innermost first */
    } i, j;
} draft;

/* ---- Steps ----------------------------------------------------------------------------------- */

static void add_step(ptoi_grid *grid, uint32_t *n, int64_t count, int64_t to, int64_t from)
{
    ptoi_step *step = &grid->step[(*n)++];
    *step = (ptoi_step){.to = to, .from = from};
    if (count > PTOI_GRID_MOST) {
        return; /* the last one, which is not divided */
    }
    while (INT64_C(1) << step->shift < count) {
        step->shift++;
    }
    step->count = (uint32_t)count;
    uint64_t rest = (UINT64_C(1) << step->shift) - step->count;
    step->mul = (uint32_t)((rest << 32) / step->count + 1);
}

/* Makes steps of the loops of the nest, innermost first, after the `n` steps with `inner` items that
 * are there. What does not fit into a launch any more is repeated by the host. */
static void add_steps(ptoi_grid_plan *plan, const ptoi_nest *nest, uint32_t n, int64_t inner)
{
    plan->inner = inner;
    plan->last = 1;
    for (int32_t k = nest->n - 1; k >= 0; k--) {
        const ptoi_loop *loop = &nest->loop[k];
        if (plan->inner <= PTOI_GRID_MOST / plan->last) {
            plan->inner *= plan->last;
            plan->last = loop->count;
            add_step(&plan->grid, &n, loop->count, loop->to, loop->from);
        } else {
            plan->repeat[plan->n_repeat].count = loop->count;
            plan->repeat[plan->n_repeat].to = loop->to;
            plan->repeat[plan->n_repeat++].from = loop->from;
        }
    }
    if (n == 0) {
        add_step(&plan->grid, &n, 1, 0, 0); /* a single item */
    }
    plan->grid.n = n;
    plan->grid.to_start = nest->to_start;
    plan->grid.from_start = nest->from_start;
}

/* The largest power of two, at most 16, that divides all of the bits. */
static uint32_t alignment(uint64_t bits)
{
    uint64_t low = bits & (0 - bits);
    return low && low < 16 ? (uint32_t)low : 16;
}

static uint64_t to_bits(const draft *d)
{
    uint64_t bits = d->to_address + (uint64_t)d->nest.to_start;
    for (int32_t k = 0; k < d->nest.n; k++) {
        bits |= (uint64_t)d->nest.loop[k].to;
    }
    return bits;
}

static uint64_t from_bits(const draft *d)
{
    uint64_t bits = d->from_address + (uint64_t)d->nest.from_start;
    for (int32_t k = 0; k < d->nest.n; k++) {
        bits |= (uint64_t)d->nest.loop[k].from;
    }
    return bits;
}

/* ---- Items ----------------------------------------------------------------------------------- */

/* Moves `run` bytes for each index of the nest, in vectors as wide as everything is aligned. */
static void plan_runs(ptoi_grid_plan *plan, draft *d, int64_t run)
{
    plan->grid.way = PTOI_GRID_ITEMS;
    plan->grid.size = alignment(to_bits(d) | from_bits(d) | (uint64_t)run);
    if (run > plan->grid.size) {
        d->nest.loop[d->nest.n++] = (ptoi_loop){run / plan->grid.size, plan->grid.size,
                                                plan->grid.size};
    }
    add_steps(plan, &d->nest, 0, 1);
}

enum { PART = 128, THIN = 1024 };

/* Moves elements one by one, in the order of the destination. If the source is dense along another,
 * short loop j, the loop i of the destination is cut into parts. All of j comes between two parts,
 * so that a line of the source is still in a cache when its next elements are read. */
static void plan_elements(ptoi_grid_plan *plan, draft *d)
{
    ptoi_nest *nest = &d->nest;
    int32_t at_j = ptoi_nest_least_from(nest), at_i = nest->n - 1;
    plan->grid.way = PTOI_GRID_ITEMS;
    plan->grid.size = d->size;
    if (at_j < 0 || at_j == at_i || nest->loop[at_j].count > THIN ||
        nest->loop[at_i].count <= PART || nest->loop[at_i].count > PTOI_GRID_MOST / (2 * THIN)) {
        add_steps(plan, nest, 0, 1);
        return;
    }
    ptoi_loop i = ptoi_nest_take(nest, at_i), j = ptoi_nest_take(nest, at_j);
    int64_t parts = (i.count + PART - 1) / PART, part = (i.count + parts - 1) / parts;
    uint32_t n = 0;
    add_step(&plan->grid, &n, part, i.to, i.from);
    add_step(&plan->grid, &n, j.count, j.to, j.from);
    plan->grid.split = n; /* the next one */
    plan->grid.bound = (uint32_t)i.count;
    nest->loop[nest->n++] = (ptoi_loop){parts, part * i.to, part * i.from};
    add_steps(plan, nest, n, part * j.count);
}

/* ---- Tiles ----------------------------------------------------------------------------------- */

/* With fewer bytes along an axis, tiles would be mostly empty. */
enum { THIN_BYTES = 32 };

static void extend(struct axis *axis, ptoi_loop loop)
{
    axis->loop[axis->n++] = loop;
    axis->count *= loop.count; /* fits, by E1 */
}

/* Takes the axes out of the nest: i, along which the destination is dense, and j, along which the
 * source is. An axis that is shorter than a tile goes on with loops that continue it in memory.
 * False: there are no such axes, or they are too short or too long. */
static bool take_axes(draft *d, int64_t side)
{
    ptoi_nest *nest = &d->nest;
    int64_t size = d->size;
    if (nest->n < 2 || nest->loop[nest->n - 1].to != size) {
        return false;
    }
    d->i.count = d->j.count = 1;
    extend(&d->i, ptoi_nest_take(nest, nest->n - 1));
    int32_t at = ptoi_nest_least_from(nest);
    if (at < 0 || ptoi_reach(nest->loop[at].from) != (uint64_t)size) {
        return false;
    }
    if (nest->loop[at].from < 0) {
        ptoi_nest_flip(nest, &nest->loop[at]);
    }
    extend(&d->j, ptoi_nest_take(nest, at));
    while (d->i.count < side && nest->n && nest->loop[nest->n - 1].to == d->i.count * size) {
        extend(&d->i, ptoi_nest_take(nest, nest->n - 1));
    }
    for (int32_t k = 0; k < nest->n && d->j.count < side; k++) {
        if (nest->loop[k].from == d->j.count * size) {
            extend(&d->j, ptoi_nest_take(nest, k));
            k = -1;
        }
    }
    return d->i.count * size >= THIN_BYTES && d->j.count * size >= THIN_BYTES &&
           d->i.count < PTOI_GRID_MOST && d->j.count < PTOI_GRID_MOST;
}

static int64_t tiles_of(int64_t count, int64_t side)
{
    return (count + side - 1) / side;
}

/* Bytes of a load: a vector or an element. Of a store: also a word of several elements. */
static void choose_vectors(ptoi_grid *grid, const draft *d)
{
    uint64_t from = from_bits(d), to = to_bits(d);
    for (int32_t k = 0; k < d->i.n; k++) {
        from |= (uint64_t)d->i.loop[k].from;
    }
    for (int32_t k = 0; k < d->j.n; k++) {
        to |= (uint64_t)d->j.loop[k].to;
    }
    grid->vec_in = alignment(from) == 16 ? 16 : d->size;
    grid->vec_out = alignment(to) == 16 ? 16 : alignment(to) >= 4 && d->size < 4 ? 4 : d->size;
}

static void add_axis(ptoi_grid *grid, uint32_t *n, ptoi_grid_axis *axis, const struct axis *from)
{
    axis->count = (uint32_t)from->count;
    axis->first = *n;
    for (int32_t k = 0; k < from->n; k++) {
        add_step(grid, n, from->loop[k].count, from->loop[k].to, from->loop[k].from);
    }
    axis->end = *n;
}

/* How much of the tiles is used. */
static double use(const draft *d, int64_t side)
{
    return (double)(d->i.count * d->j.count) /
           (double)(tiles_of(d->i.count, side) * tiles_of(d->j.count, side) * side * side);
}

/* Plans tiles of a form; false if that is not possible. *used: how much of the tiles is. */
static bool plan_tiles(ptoi_grid_plan *plan, draft d, uint32_t form, double *used)
{
    ptoi_grid *grid = &plan->grid;
    int64_t side = PTOI_TILE_SIDE(d.size, form);
    if (!take_axes(&d, side)) {
        return false;
    }
    int64_t ti = tiles_of(d.i.count, side), tj = tiles_of(d.j.count, side);
    if (ti > PTOI_GRID_MOST / tj) {
        return false;
    }
    *used = use(&d, side);
    grid->way = PTOI_GRID_TILES;
    grid->size = d.size;
    grid->form = form;
    choose_vectors(grid, &d);
    uint32_t n = 0;
    add_step(grid, &n, ti, 0, 0);
    add_step(grid, &n, tj, 0, 0);
    add_steps(plan, &d.nest, n, ti * tj);
    n = grid->n;
    add_axis(grid, &n, &grid->i, &d.i);
    add_axis(grid, &n, &grid->j, &d.j);
    return true;
}

/* How much faster large tiles are than small ones if both are full, by binary logarithm of the size; 0:
 * there are none. Measured on an H200: docs/devices.md. */
static const double gain[5] = {0, 1.01, 1.1, 0, 1.02};

/* Large tiles, unless they would be too empty or leave multiprocessors idle. */
static bool choose_tiles(ptoi_grid_plan *plan, const draft *d, uint32_t sms)
{
    ptoi_grid_plan large = *plan, small = *plan;
    double large_use = 0, small_use = 0;
    if (!plan_tiles(&small, *d, PTOI_TILE_SMALL, &small_use)) {
        return false;
    }
    double more = gain[__builtin_ctz(d->size)];
    bool fits = more > 0 && d->form != PTOI_TILE_SMALL &&
                plan_tiles(&large, *d, PTOI_TILE_LARGE, &large_use);
    if (fits && d->form < 0) {
        bool busy = large.n_repeat || large.last >= 4 * (int64_t)sms ||
                    large.last * large.inner >= 4 * (int64_t)sms;
        fits = busy && large_use * more > small_use;
    }
    *plan = fits ? large : small;
    return true;
}

/* ---- Plans ----------------------------------------------------------------------------------- */

static void choose(ptoi_grid_plan *plan, draft *d, bool nested, uint32_t sms)
{
    ptoi_nest *nest = &d->nest;
    int64_t size = d->size;
    if (alignment(to_bits(d) | from_bits(d)) < d->size) {
        plan_runs(plan, d, size); /* elements that are not aligned, in pieces */
        return;
    }
    if (nest->n && nest->loop[nest->n - 1].to == size && nest->loop[nest->n - 1].from == size) {
        int64_t run = ptoi_nest_take(nest, nest->n - 1).count * size;
        bool wide = run <= 16 && !(run & (run - 1)) && alignment(to_bits(d) | from_bits(d)) >= run;
        if (!wide) {
            plan_runs(plan, d, run);
            return;
        }
        d->size = (uint32_t)run; /* counts as one element */
    }
    if (!nested || !choose_tiles(plan, d, sms)) {
        plan_elements(plan, d);
    }
}

/* Starts a plan; false if there is nothing to move. */
static bool begin(ptoi_grid_plan *plan, int32_t ndim, const int64_t *shape, uint32_t size)
{
    *plan = (ptoi_grid_plan){.bytes = size};
    for (int32_t k = 0; k < ndim; k++) {
        if (shape[k] == 0) {
            plan->bytes = 0;
            return false;
        }
        if (__builtin_mul_overflow(plan->bytes, shape[k], &plan->bytes)) {
            plan->bytes = INT64_MAX; /* a fill that repeats places */
        }
    }
    return true;
}

static void finish(const ptoi_grid_plan *plan)
{
    (void)plan;
#ifdef PTO_DEBUG_CHECKS
    if (ptoi_grid_check(plan) != PTO_OK) {
        fprintf(stderr, "pto: %s\n", pto_error_detail());
        abort();
    }
#endif
}

void ptoi_grid_make(ptoi_grid_plan *plan, int32_t ndim, const int64_t *shape,
                    const int64_t *to_strides, const int64_t *from_strides, uint32_t size,
                    uintptr_t to_address, uintptr_t from_address, uint32_t sms)
{
    ptoi_grid_make_with(plan, ndim, shape, to_strides, from_strides, size, to_address, from_address,
                        sms, -1);
}

void ptoi_grid_make_with(ptoi_grid_plan *plan, int32_t ndim, const int64_t *shape,
                         const int64_t *to_strides, const int64_t *from_strides, uint32_t size,
                         uintptr_t to_address, uintptr_t from_address, uint32_t sms, int form)
{
    if (begin(plan, ndim, shape, size)) {
        draft d = {
            .size = size, .to_address = to_address, .from_address = from_address, .form = form};
        ptoi_nest_make(&d.nest, ndim, shape, to_strides, from_strides, size);
        bool nested = ptoi_nest_normalise(&d.nest, size);
        choose(plan, &d, nested, sms);
    }
    finish(plan);
}

void ptoi_grid_make_fill(ptoi_grid_plan *plan, int32_t ndim, const int64_t *shape,
                         const int64_t *to_strides, uint32_t size, uintptr_t to_address)
{
    static const int64_t still[PTO_MAX_DIMS];
    int64_t once[PTO_MAX_DIMS] = {0};
    for (int32_t k = 0; k < ndim; k++) {
        once[k] = shape[k] && !to_strides[k] ? 1 : shape[k]; /* stride 0: all share one place */
    }
    if (begin(plan, ndim, once, size)) {
        draft d = {.size = size, .to_address = to_address};
        ptoi_nest_make(&d.nest, ndim, once, to_strides, still, size);
        (void)ptoi_nest_normalise(&d.nest, size); /* any order will do */
        int64_t run = size;
        if (d.nest.n && d.nest.loop[d.nest.n - 1].to == size) {
            run *= ptoi_nest_take(&d.nest, d.nest.n - 1).count;
        }
        plan_runs(plan, &d, run);
        plan->grid.way = PTOI_GRID_FILL;
    }
    finish(plan);
}

/* ---- Checking and printing ------------------------------------------------------------------- */

/* Numbers at both ends of every range of quotients. */
static bool divides(const ptoi_step *step)
{
    for (uint64_t q = 1; q * step->count <= INT32_MAX; q = q * 3 + 1) {
        for (uint64_t n = q * step->count - 1; n <= q * step->count; n++) {
            if (((n * step->mul >> 32) + n) >> step->shift != n / step->count) {
                return false;
            }
        }
    }
    return true;
}

static bool is_multiple(int64_t step, uint32_t of)
{
    return step % of == 0;
}

static const char *check_tiles(const ptoi_grid *grid)
{
    int64_t to = grid->size, from = grid->size;
    for (uint32_t k = grid->i.first; k < grid->i.end; k++) {
        if (grid->step[k].to != to || !is_multiple(grid->step[k].from, grid->vec_in)) {
            return "G3: i is not dense, or its rows are not aligned";
        }
        to *= grid->step[k].count;
    }
    for (uint32_t k = grid->j.first; k < grid->j.end; k++) {
        if (grid->step[k].from != from || !is_multiple(grid->step[k].to, grid->vec_out)) {
            return "G3: j is not dense, or its rows are not aligned";
        }
        from *= grid->step[k].count;
    }
    for (uint32_t k = 0; k < grid->n; k++) {
        if (!is_multiple(grid->step[k].from, grid->vec_in) ||
            !is_multiple(grid->step[k].to, grid->vec_out)) {
            return "G3: a step is not aligned";
        }
    }
    return to == (int64_t)grid->i.count * grid->size && from == (int64_t)grid->j.count * grid->size
               ? NULL
               : "G3: an axis has another count than its steps";
}

static int64_t bytes_of(const ptoi_grid_plan *plan)
{
    const ptoi_grid *grid = &plan->grid;
    int64_t items = plan->inner * plan->last, of_item = grid->size;
    if (grid->way == PTOI_GRID_TILES) {
        int64_t side = PTOI_TILE_SIDE(grid->size, grid->form);
        items /= tiles_of(grid->i.count, side) * tiles_of(grid->j.count, side);
        of_item *= (int64_t)grid->i.count * grid->j.count;
    } else if (grid->split) {
        items = items / grid->step[0].count / grid->step[grid->split].count * grid->bound;
    }
    for (int32_t k = 0; k < plan->n_repeat; k++) {
        items *= plan->repeat[k].count;
    }
    return items * of_item;
}

pto_status ptoi_grid_check(const ptoi_grid_plan *plan)
{
    const ptoi_grid *grid = &plan->grid;
    const char *broken = NULL;
    if (grid->way == PTOI_GRID_NOTHING) {
        return plan->bytes ? ptoi_fail(PTO_CORRUPT, "grid plan: G4: nothing of %" PRId64 " bytes",
                                       plan->bytes)
                           : PTO_OK;
    }
    for (uint32_t k = 0; k < grid->n && !broken; k++) {
        if (k + 1 < grid->n && !divides(&grid->step[k])) {
            broken = "G1: a step does not divide";
        }
        if (grid->way != PTOI_GRID_TILES && (!is_multiple(grid->step[k].to, grid->size) ||
                                             !is_multiple(grid->step[k].from, grid->size))) {
            broken = "G2: a step is not aligned";
        }
    }
    if (!broken && grid->way == PTOI_GRID_TILES) {
        broken = check_tiles(grid);
    }
    if (!broken && (plan->inner > PTOI_GRID_MOST ||
                    (plan->bytes != INT64_MAX && bytes_of(plan) != plan->bytes))) {
        broken = "G4: not all bytes";
    }
    return broken ? ptoi_fail(PTO_CORRUPT, "grid plan: %s", broken) : PTO_OK;
}

size_t ptoi_grid_format(const ptoi_grid_plan *plan, char *text, size_t size)
{
    const ptoi_grid *grid = &plan->grid;
    int length = 0;
    switch ((ptoi_grid_way)grid->way) {
    case PTOI_GRID_NOTHING:
        length = snprintf(text, size, "nothing to move");
        break;
    case PTOI_GRID_TILES:
        length = snprintf(text, size,
                          "tiles of %d x %d %" PRIu32 "-byte elements, in planes of %" PRIu32
                          " x %" PRIu32 "; loads of %" PRIu32 " bytes, stores of %" PRIu32,
                          PTOI_TILE_SIDE(grid->size, grid->form),
                          PTOI_TILE_SIDE(grid->size, grid->form), grid->size, grid->i.count,
                          grid->j.count, grid->vec_in, grid->vec_out);
        break;
    case PTOI_GRID_ITEMS:
    case PTOI_GRID_FILL:
        length = snprintf(text, size, "%s %" PRIu32 " bytes each: %" PRId64,
                          grid->way == PTOI_GRID_FILL ? "fill," : "items of", grid->size,
                          plan->bytes / grid->size);
        break;
    }
    return length < 0 ? 0 : (size_t)length;
}
