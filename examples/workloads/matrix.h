/* matrix.h - tiles of one row-major matrix of doubles, and a check for available memory. Shared by
 * bgemm, cholesky and lu. */
#ifndef WORKLOAD_MATRIX_H
#define WORKLOAD_MATRIX_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workload.h"

/* The number of tiles that cover n rows. The last one may be smaller. */
static inline int64_t matrix_tiles(int64_t n, int64_t tile)
{
    return n / tile + (n % tile != 0);
}

/* Number of rows of tile `at`. */
static inline int64_t matrix_extent(int64_t n, int64_t tile, int64_t at)
{
    return n - at * tile < tile ? n - at * tile : tile;
}

/* Makes a view of tile [i, j]. Nothing is copied, and no table of tiles is needed: two views of the
 * same place are the same memory to the runtime, whenever they are made. */
static inline pto_status matrix_tile(const pto_tensor *matrix, int64_t tile, int64_t i, int64_t j,
                                     pto_tensor *out)
{
    return pto_tensor_view(matrix, (const int64_t[]){i * tile, j * tile},
                           (const int64_t[]){matrix_extent(matrix->shape[0], tile, i),
                                             matrix_extent(matrix->shape[1], tile, j)},
                           out);
}

/* An argument of a kernel in the form that blas.h needs. */
typedef struct matrix_arg {
    double *data;
    int64_t rows, columns,
        ld; /* elements from one row to the next: for a tile, those of the matrix */
} matrix_arg;

static inline matrix_arg matrix_of(const pto_call *call, int arg)
{
    const pto_arg *a = &call->args[arg];
    return (matrix_arg){a->data, a->shape[0], a->shape[1], a->strides[0]};
}

/* Memory that is available without swapping, in bytes; UINT64_MAX if unknown. */
static inline uint64_t matrix_memory(void)
{
    static const char key[] = "MemAvailable:";
    char line[128];
    uint64_t kib = UINT64_MAX >> 10;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (!strncmp(line, key, sizeof key - 1)) {
            kib = strtoull(line + sizeof key - 1, NULL, 10);
            break;
        }
    }
    if (file) {
        (void)fclose(file);
    }
    return kib << 10;
}

/* Refuses sizes that do not fit into memory, before the system kills the program. `elements` is a
 * double because an absurd size may exceed 64 bits. */
static inline pto_status matrix_fits(const char *what, double elements)
{
    const double gib = 1024.0 * 1024 * 1024, needed = elements * (double)sizeof(double);
    const double there = (double)matrix_memory();
    if (needed > there) {
        return pto_fail(PTO_OUT_OF_MEMORY, "%.1f GiB are needed for %s, and %.1f are available",
                        needed / gib, what, there / gib);
    }
    return PTO_OK;
}

#endif /* WORKLOAD_MATRIX_H */
