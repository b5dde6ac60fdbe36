/* sweep_patterns.h - the programs of bench_sweep: rows of tasks, each of which reads some of the row
 * before it.
 *
 *   chain         its own column: as many chains as the row is wide
 *   stencil       its own column and those beside it
 *   fft           its own column, and those at a distance of 1, 2, 4, ...
 *   tree          one task, then two, then four, up to the width: each reads its parent
 *   dominator     its own column and the one to the left
 *   nearest5      its own column and two on each side
 *   random        three columns of the row before it, any of them
 *   independent   nothing; and no other task writes its tile for a long time
 *   P3            the stencil of bench_tasks: a ring of 64 columns
 *
 * Two rows of tiles take turns, so a task also waits for those that still read what it overwrites. A
 * program is a table that is run again and again: which tiles a task reads, and which it writes.
 */
#ifndef PTO_SWEEP_PATTERNS_H
#define PTO_SWEEP_PATTERNS_H

#include <stdint.h>

enum { SWEEP_READS = 5, SWEEP_TASKS = 4096, SWEEP_TILES = 2048, SWEEP_P3 = 64 };

typedef struct sweep_task {
    uint16_t reads, writes; /* how many tiles it reads; the tile that it writes */
    uint16_t from[SWEEP_READS];
} sweep_task;

typedef struct sweep_program {
    uint32_t n;
    sweep_task tasks[SWEEP_TASKS];
} sweep_program;

typedef enum shape {
    SHAPE_CHAIN,
    SHAPE_STENCIL,
    SHAPE_FFT,
    SHAPE_TREE,
    SHAPE_DOMINATOR,
    SHAPE_NEAREST,
    SHAPE_RANDOM,
    SHAPE_INDEPENDENT,
    SHAPES,            /* of the bars */
    SHAPE_P3 = SHAPES, /* for METG only */
    ALL_SHAPES
} shape;

static const char *const shape_names[ALL_SHAPES] = {
    "chain", "stencil", "fft", "tree", "dominator", "nearest5", "random", "independent", "P3"};

/* The columns of the row before that a task reads. */
static uint16_t sweep_columns(shape which, int row, int column, int width, int *columns)
{
    uint16_t n = 0;
    int far = 1, stages = 0;
    switch (which) {
    case SHAPE_CHAIN:
        columns[n++] = column;
        break;
    case SHAPE_STENCIL:
    case SHAPE_DOMINATOR:
    case SHAPE_NEAREST: {
        const int left = which == SHAPE_NEAREST ? 2 : 1,
                  right = which == SHAPE_DOMINATOR ? 0 : left;
        for (int c = column - left; c <= column + right; c++) {
            if (c >= 0 && c < width) {
                columns[n++] = c;
            }
        }
        break;
    }
    case SHAPE_FFT:
        while (1 << stages < width) {
            stages++;
        }
        far = 1 << row % stages;
        for (int c = column - far; c <= column + far; c += far) {
            if (c >= 0 && c < width) {
                columns[n++] = c;
            }
        }
        break;
    case SHAPE_TREE:
        columns[n++] = column / 2;
        break;
    case SHAPE_RANDOM:
        for (uint64_t r = mixed((uint64_t)(row * width + column) + 1); n < 3; r >>= 16) {
            const int c = (int)(r % (uint64_t)width);
            if ((n > 0 && c == columns[0]) || (n > 1 && c == columns[1])) {
                if (width <= n) {
                    break;
                }
                r = mixed(r + 1) << 16; /* another one */
                continue;
            }
            columns[n++] = c;
        }
        break;
    case SHAPE_P3:
        columns[n++] = (column + width - 1) % width;
        columns[n++] = column;
        columns[n++] = (column + 1) % width;
        break;
    default:
        break;
    }
    return n;
}

/* As many rows as fit into the table: an even number, since two rows of tiles take turns. */
static void sweep_make(sweep_program *p, shape which, int width)
{
    p->n = 0;
    for (int row = 0, wide = which == SHAPE_TREE ? 1 : width;; row++) {
        if (row % 2 == 0 && p->n + 2u * (unsigned)width > SWEEP_TASKS) {
            return;
        }
        for (int column = 0; column < wide; column++) {
            int columns[SWEEP_READS];
            sweep_task *t = &p->tasks[p->n];
            t->reads = sweep_columns(which, row, column, width, columns);
            for (int i = 0; i < t->reads; i++) {
                t->from[i] = (uint16_t)((row + 1) % 2 * width + columns[i]);
            }
            t->writes = (uint16_t)(which == SHAPE_INDEPENDENT ? (int)(p->n % SWEEP_TILES)
                                                              : row % 2 * width + column);
            p->n++;
        }
        if (which == SHAPE_TREE) {
            wide = wide < width ? 2 * wide : 1;
        }
    }
}

#endif /* PTO_SWEEP_PATTERNS_H */
