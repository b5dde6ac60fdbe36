/* tensormap_patterns.h - regions for bench_tensormap: those in the map, and those that are queried.
 *
 * The memory is never accessed: a map only uses addresses.
 */
#ifndef PTO_TENSORMAP_PATTERNS_H
#define PTO_TENSORMAP_PATTERNS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <pto/tensor.h>

#define SIZES 4
#define TILE 64 /* floats on a side */

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

/* A dense float tensor at an unused address. */
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

/* Fills in the regions of the map and the queried regions. */
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

/* Every chunk is a row of a matrix whose columns are queried. */
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
    bool known; /* also query with known regions; those of the map always are */
    bool fresh; /* also query with regions that the map has not seen */
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

#endif /* PTO_TENSORMAP_PATTERNS_H */
