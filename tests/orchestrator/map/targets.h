/* targets.h - random pieces of memory for histories: tiles, halos, panels, slices and worse.
 *
 * A target is something to hand to the map, with the bytes it touches. All user tensors of one
 * history lie in one arena; managed blocks and the memories of regions are as large as the arena.
 * A few matrices are laid over each, so that views meet as they do in real programs.
 *
 * For maps with many regions there are grids: a matrix of 32 x 32 tiles, each of which counts as
 * one "byte" in the bitmap. All targets are made of whole tiles then.
 */
#ifndef PTO_TEST_TARGETS_H
#define PTO_TEST_TARGETS_H

#include "naive.h"
#include "support.h"

#define TARGET_MATRICES 4
#define TARGET_BLOCKS 3  /* managed */
#define TARGET_TILES 3   /* memories of the region door */
#define TARGET_RECENT 24 /* targets to come back to */

#define GRID 32     /* tiles on a side */
#define GRID_FEW 12 /* rows and columns that are used where tiles are to come back */
#define GRID_TILE 4 /* elements on a side of a tile */

typedef struct target {
    bool is_region;
    int32_t space; /* 0 user, then blocks, then tiles */
    pto_tensor tensor;
    pto_region region;
    naive_bytes bytes;
} target;

typedef struct target_maker {
    test_rng rng;
    uint64_t base;  /* address of the arena */
    uint64_t bytes; /* its size */
    bool regions, managed, grid;
    bool tiles; /* of a grid: nearly all are single tiles */
    pto_tensor matrix[TARGET_MATRICES];
    target recent[TARGET_RECENT];
    size_t n_recent;
} target_maker;

static inline int64_t target_roll(target_maker *m, int64_t low, int64_t high)
{
    return test_between(&m->rng, low, high);
}

static inline bool target_one_in(target_maker *m, int64_t n)
{
    return test_between(&m->rng, 1, n) == 1;
}

static inline pto_dtype target_dtype(target_maker *m)
{
    static const pto_dtype dtypes[] = {PTO_FLOAT32, PTO_FLOAT16, PTO_UINT8, PTO_FLOAT64};
    return dtypes[target_roll(m, 0, 3)];
}

/* A storage somewhere in the arena that ends with it: base pointers differ, memory is shared. */
static inline pto_tensor target_storage(target_maker *m)
{
    static const uint64_t shifts[] = {0, 0, 0, 64, 8, 4, 1};
    const uint64_t shift = shifts[target_roll(m, 0, 6)];
    pto_tensor t = {.storage = (void *)(uintptr_t)(m->base + shift)};
    t.storage_bytes = m->bytes - shift;
    t.dtype = target_dtype(m);
    return t;
}

/* A matrix of 1 to 4 dims in row-major order, its rows padded now and then. */
static inline pto_tensor target_matrix(target_maker *m)
{
    pto_tensor t = target_storage(m);
    const int64_t room = (int64_t)(t.storage_bytes / answers_element(t.dtype));
    int64_t stride = 1;
    t.ndim = (int32_t)target_roll(m, 1, 4);
    for (int32_t d = t.ndim - 1; d >= 0; d--) {
        const int64_t most = room / stride > 0 ? room / stride : 1;
        int64_t size = d == 0 ? most : target_roll(m, 2, t.ndim == 2 ? 32 : 8);
        size = size > most ? most : size;
        t.shape[d] = size;
        t.strides[d] = stride;
        stride *= size + (d > 0 && target_one_in(m, 4) ? target_roll(m, 1, 3) : 0);
    }
    if (t.shape[0] > 32) {
        t.shape[0] = target_roll(m, 8, 32);
    }
    return t;
}

/* Gives dim d the elements start, start + step, ... */
static inline void target_cut(pto_tensor *t, int32_t d, int64_t start, int64_t count, int64_t step)
{
    t->offset += start * t->strides[d];
    t->strides[d] *= step;
    t->shape[d] = count;
}

/* One dim of a view: an aligned tile, a tile with its halo, all of it, any box, any slice. */
static inline void target_cut_somehow(target_maker *m, pto_tensor *t, int32_t d, int64_t kind,
                                      int64_t tile)
{
    const int64_t size = t->shape[d];
    if (kind <= 1) {
        const int64_t number = target_roll(m, 0, (size - 1) / tile);
        int64_t first = number * tile, end = first + tile;
        if (kind == 1) {
            first -= first > 0;
            end += 1;
        }
        end = end > size ? size : end;
        target_cut(t, d, first, end - first, 1);
    } else if (kind == 2) {
        target_cut(t, d, 0, size, 1);
    } else if (kind == 3) {
        const int64_t first = target_roll(m, 0, size - 1);
        target_cut(t, d, first, target_roll(m, 1, size - first), 1);
    } else {
        const int64_t step = target_roll(m, 1, 3), first = target_roll(m, 0, size - 1);
        const int64_t most = (size - 1 - first) / step + 1, count = target_roll(m, 1, most);
        if (target_one_in(m, 2)) {
            target_cut(t, d, first, count, step);
        } else {
            target_cut(t, d, first + (count - 1) * step, count, -step);
        }
    }
}

/* The dims in another order, and one more of stride 0 now and then. */
static inline void target_permute(target_maker *m, pto_tensor *t)
{
    if (t->ndim < PTO_MAX_DIMS && target_one_in(m, 16)) {
        t->shape[t->ndim] = target_roll(m, 1, 3);
        t->strides[t->ndim++] = 0;
    }
    for (int32_t d = t->ndim - 1; d > 0 && target_one_in(m, 2); d--) {
        const int32_t other = (int32_t)target_roll(m, 0, d);
        const int64_t shape = t->shape[d], stride = t->strides[d];
        t->shape[d] = t->shape[other];
        t->strides[d] = t->strides[other];
        t->shape[other] = shape;
        t->strides[other] = stride;
    }
}

static inline pto_tensor target_view(target_maker *m)
{
    pto_tensor t = m->matrix[target_roll(m, 0, TARGET_MATRICES - 1)];
    static const int64_t tiles[] = {1, 2, 4, 8};
    const int64_t kind = target_roll(m, 0, 5), tile = tiles[target_roll(m, 0, 3)];
    for (int32_t d = 0; d < t.ndim; d++) {
        /* Kind 5 is a panel: one dim in tiles, the others whole; else all dims alike. */
        const bool panel = kind == 5 || (kind == 0 && d > 1);
        target_cut_somehow(m, &t, d, panel ? (d == (int32_t)(tile & 1) ? 0 : 2) : kind,
                           panel ? 4 : tile);
    }
    target_permute(m, &t);
    return t;
}

/* Any strides at all: rows that run into each other, views that overlap themselves. */
static inline pto_tensor target_wild(target_maker *m)
{
    for (;;) {
        pto_tensor t = target_storage(m);
        const int64_t room = (int64_t)(t.storage_bytes / answers_element(t.dtype));
        int64_t low = 0, high = 0;
        t.ndim = (int32_t)target_roll(m, 0, 4);
        for (int32_t d = 0; d < t.ndim; d++) {
            t.shape[d] = target_roll(m, 1, 6);
            t.strides[d] = target_roll(m, -40, 40);
            const int64_t reach = (t.shape[d] - 1) * t.strides[d];
            low += reach < 0 ? reach : 0;
            high += reach > 0 ? reach : 0;
        }
        if (high - low < room) {
            t.offset = target_roll(m, -low, room - 1 - high);
            return t;
        }
    }
}

/* As many dims as there can be, none of which merges with another. */
static inline pto_tensor target_deep(target_maker *m)
{
    pto_tensor t = {.storage = (void *)(uintptr_t)m->base, .storage_bytes = m->bytes};
    int64_t stride = 2, reach = 0;
    t.dtype = PTO_UINT8;
    for (int32_t d = 0; d < PTO_MAX_DIMS && reach + stride < (int64_t)m->bytes; d++) {
        t.shape[d] = target_one_in(m, 4) ? 1 : 2;
        t.strides[d] = stride;
        reach += (t.shape[d] - 1) * stride;
        stride = 2 * stride + 1;
        t.ndim = d + 1;
    }
    t.offset = target_roll(m, 0, (int64_t)m->bytes - 1 - reach);
    target_permute(m, &t);
    return t;
}

static inline void target_make_tensor(target_maker *m, target *out)
{
    const int64_t dice = target_roll(m, 1, 20);
    pto_tensor t = dice <= 16 ? target_view(m) : dice <= 18 ? target_wild(m) : target_deep(m);
    if (t.ndim && target_one_in(m, 40)) {
        t.shape[target_roll(m, 0, t.ndim - 1)] = 0;
    }
    out->space = 0;
    if (m->managed && target_one_in(m, 3)) {
        /* Blocks 1 and 2 are two generations of one owner. */
        out->space = (int32_t)target_roll(m, 1, TARGET_BLOCKS);
        t.owner = out->space == 3 ? 9 : 7;
        t.generation = out->space == 2 ? 1 : 0;
        naive_mark_tensor(&out->bytes, &t, (uint64_t)(uintptr_t)t.storage);
    } else {
        naive_mark_tensor(&out->bytes, &t, m->base);
    }
    out->tensor = t;
}

static inline void target_make_region(target_maker *m, target *out)
{
    /* The bases are those of tensors, and the pairs differ in one half each. */
    static const uint64_t bases[TARGET_TILES] = {0, 0, 1}, tiles[TARGET_TILES] = {0, 1, 0};
    const int64_t which = target_roll(m, 0, TARGET_TILES - 1);
    const int64_t unit = target_one_in(m, 2) ? 16 : 1;
    const int64_t units = (int64_t)m->bytes / unit;
    const int64_t first = target_roll(m, 0, units - 1);
    const int64_t most = units - first > 8 ? 8 : units - first;
    out->is_region = true;
    out->space = 1 + TARGET_BLOCKS + (int32_t)which;
    out->region.base = (const void *)(uintptr_t)(m->base + bases[which]);
    out->region.tile = tiles[which];
    out->region.offset = (uint64_t)(first * unit);
    out->region.size = (uint64_t)(target_roll(m, target_one_in(m, 20) ? 0 : 1, most) * unit);
    naive_mark(&out->bytes, out->region.offset, out->region.size);
}

/* Tiles first, first + step, ... of a dim of a grid, as two dims of a tensor. Returns how many. */
static inline int64_t target_grid_dim(target_maker *m, pto_tensor *t, int64_t kind, int64_t stride,
                                      int64_t *first, int64_t *step)
{
    int64_t count = 1;
    *first = target_roll(m, 0, (m->tiles ? GRID_FEW : GRID) - 1);
    *step = 1;
    if (kind == 1) { /* all of them */
        *first = 0;
        count = GRID;
    } else if (kind == 2) {
        count = target_roll(m, 1, GRID - *first > 4 ? 4 : GRID - *first);
    } else if (kind == 3) {
        *step = target_roll(m, 2, 5);
        count = target_roll(m, 1, (GRID - 1 - *first) / *step + 1);
    }
    t->offset += *first * GRID_TILE * stride;
    t->shape[t->ndim] = count;
    t->strides[t->ndim++] = *step * GRID_TILE * stride;
    t->shape[t->ndim] = GRID_TILE;
    t->strides[t->ndim++] = stride;
    return count;
}

/* Single tiles, panels, boxes and combs of tiles, in one of three matrices. */
static inline void target_make_grid(target_maker *m, target *out)
{
    const int64_t dice = target_roll(m, 1, 20);
    const int64_t most = m->tiles && !target_one_in(m, 50) ? 14 : dice;
    const int64_t kind = most <= 14 ? 0 : most <= 16 ? 1 : most <= 19 ? 2 : 3;
    const bool panel_of_rows = target_one_in(m, 2);
    int64_t row, rows, row_step, col, cols, col_step;
    pto_tensor t = {.storage = (void *)(uintptr_t)m->base, .dtype = PTO_FLOAT16};
    out->space = (int32_t)target_roll(m, 0, m->managed ? 2 : 0);
    t.storage_bytes = GRID * GRID * GRID_TILE * GRID_TILE * 2;
    t.owner = (uint64_t)out->space;
    rows = target_grid_dim(m, &t, kind == 1 && panel_of_rows ? 0 : kind, GRID * GRID_TILE, &row,
                           &row_step);
    cols = target_grid_dim(m, &t, kind == 1 && !panel_of_rows ? 0 : kind, 1, &col, &col_step);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < cols; j++) {
            naive_mark(&out->bytes, (uint64_t)((row + i * row_step) * GRID + col + j * col_step),
                       1);
        }
    }
    target_permute(m, &t);
    out->tensor = t;
}

/* A target: one used before, as programs do, or a new one. */
static inline const target *target_make(target_maker *m, bool tensors_only)
{
    if (m->n_recent && target_roll(m, 1, 10) <= (m->grid ? 3 : 6)) {
        const target *t = &m->recent[target_roll(m, 0, (int64_t)m->n_recent - 1)];
        if (!(tensors_only && t->is_region)) {
            return t;
        }
    }
    target *t = &m->recent[target_roll(m, 0, TARGET_RECENT - 1)];
    if (m->n_recent < TARGET_RECENT) {
        t = &m->recent[m->n_recent++];
    }
    memset(t, 0, sizeof *t);
    if (m->grid) {
        target_make_grid(m, t);
    } else if (m->regions && !tensors_only && target_one_in(m, 4)) {
        target_make_region(m, t);
    } else {
        target_make_tensor(m, t);
    }
    return t;
}

static inline void target_maker_init(target_maker *m, test_rng rng, bool grid)
{
    /* Ordinary, over the end of the low 4 GiB, over the middle, at the very top. */
    static const uint64_t bases[] = {0x10000, 0x7f0012345680, 0xfffffe00, 0x7ffffffffffffe00, 0};
    *m = (target_maker){.rng = rng, .grid = grid};
    m->bytes = (uint64_t)256 << target_roll(m, 0, 3);
    m->base = bases[target_roll(m, 0, grid ? 3 : 4)];
    m->base = m->base ? m->base : 0 - m->bytes - 8;
    m->base += target_one_in(m, 3) ? 4 : 0;
    m->regions = target_one_in(m, 2);
    m->managed = target_one_in(m, 2);
    m->tiles = grid && target_one_in(m, 2);
    for (int i = 0; i < TARGET_MATRICES; i++) {
        m->matrix[i] = target_matrix(m);
    }
}

#endif /* PTO_TEST_TARGETS_H */
