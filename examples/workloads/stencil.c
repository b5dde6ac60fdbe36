/* stencil.c - heat spreads over a plate: a 2-D stencil, tile by tile, step by step.
 *
 * The data is one array of two planes; each step reads one plane and writes the other. A task reads
 * its tile with a border of one cell, which reaches into the surrounding tiles, and writes its
 * tile.
 *
 *     plane 0                    plane 1
 *     +----+----+----+           +----+----+----+
 *     |   .|....|.   |           |    |    |    |        the border is a view of the memory of
 *     +---:+----+:---+           +----+----+----+        the neighbouring tiles: it is neither
 *     |   :|tile|:   |   ----->  |    |tile|    |        sent nor declared
 *     +---:+----+:---+           +----+----+----+
 *     |   .|....|.   |           |    |    |    |
 *     +----+----+----+           +----+----+----+
 *
 * So a tile of the next step waits for nine tiles of this step: those it reads, and those that
 * still read the memory it overwrites. It waits for no others, so distant parts of the plate may be
 * several steps apart. There is no barrier between steps.
 *
 * With --device, pto_execute copies the plates to a device and back, and the same program runs there.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <pto/execute.h>
#include <pto/work.h>

#include "where.h"

/* The new value of a cell: one formula for the kernel and the reference. It is built without
 * contraction to fused operations (cmake/tools.cmake), so it gives the same bits in both. */
static inline float spread(float here, float up, float down, float left, float right)
{
    return here + 0.2f * (up + down + left + right - 4.0f * here);
}

/* ---- The kernel ----------------------------------------------------------------------------- */

/* args[0]: a tile with its border; args[1]: the tile, one step later. Rows are dense, but far
 * apart. */
static pto_status step_tile(const pto_call *call)
{
    const pto_arg *from = &call->args[0], *to = &call->args[1];
    const int64_t rows = to->shape[0], columns = to->shape[1];
    for (int64_t i = 0; i < rows; i++) {
        const float *up = (const float *)from->data + i * from->strides[0] + 1;
        const float *here = up + from->strides[0], *down = here + from->strides[0];
        float *out = (float *)to->data + i * to->strides[0];
        for (int64_t j = 0; j < columns; j++) {
            out[j] = spread(here[j], up[j], down[j], here[j - 1], here[j + 1]);
        }
    }
    return PTO_OK;
}

/* ---- The orchestration ---------------------------------------------------------------------- */

/* `plates` is [2, rows + 2, columns + 2]. Cells on the rim keep their heat. */
static pto_status simulate(workload_job *job, pto_kernel kernel, const pto_tensor *plates,
                           int64_t tile, int64_t steps)
{
    const int64_t rows = plates->shape[1] - 2, columns = plates->shape[2] - 2;
    for (int64_t step = 0; step < steps; step++) {
        const int64_t now = step % 2, next = 1 - now;
        for (int64_t i = 0; i < rows; i += tile) {
            for (int64_t j = 0; j < columns; j += tile) {
                const int64_t height = rows - i < tile ? rows - i : tile;
                const int64_t width = columns - j < tile ? columns - j : tile;
                pto_tensor around, inside;
                PTO_TRY(pto_tensor_view(plates, (int64_t[]){now, i, j},
                                        (int64_t[]){1, height + 2, width + 2}, &around));
                PTO_TRY(pto_tensor_view(plates, (int64_t[]){next, i + 1, j + 1},
                                        (int64_t[]){1, height, width}, &inside));
                /* Remove the plane dim for the kernel. */
                PTO_TRY(pto_tensor_select(&around, 0, 0, &around));
                PTO_TRY(pto_tensor_select(&inside, 0, 0, &inside));
                PTO_TRY(workload_submit(job, kernel, pto_input(&around), pto_output(&inside)));
            }
        }
        workload_progress(job, (uint64_t)step + 1);
    }
    return PTO_OK;
}

/* ---- As a workload -------------------------------------------------------------------------- */

enum { ROWS, COLUMNS, TILE, STEPS, DEVICE };

static const workload_option options[] = {
    [ROWS] = {.name = "rows",
              .help = "cells from top to bottom, without the rim",
              .number = 2048,
              .low = 1,
              .high = 65536,
              .small = 70},
    [COLUMNS] = {.name = "columns",
                 .help = "cells from left to right",
                 .number = 2048,
                 .low = 1,
                 .high = 65536,
                 .small = 53},
    [TILE] = {.name = "tile",
              .help = "rows and columns of a tile",
              .number = 256,
              .low = 1,
              .high = 65536,
              .small = 9,
              .gpu = 128},
    [STEPS] = {.name = "steps",
               .help = "time steps",
               .number = 100,
               .low = 1,
               .high = 1000000,
               .small = 12},
    [DEVICE] = WORKLOAD_DEVICE_OPTION,
};

typedef struct stencil {
    int64_t rows, columns, tile, steps;
    float *plates; /* two planes */
    pto_tensor tensor;
    pto_kernel kernel;
} stencil;

static size_t cells(const stencil *s) /* of one plane, with its rim */
{
    return (size_t)(s->rows + 2) * (size_t)(s->columns + 2);
}

/* Random heat in plane 0. The rim of both planes is the same, and stays. */
static void fill(const stencil *s, uint64_t seed, float *plates)
{
    workload_rng rng = workload_rng_make(seed, 0);
    for (size_t i = 0; i < cells(s); i++) {
        plates[i] = (float)workload_uniform(&rng);
    }
    memcpy(plates + cells(s), plates, cells(s) * sizeof *plates);
}

static pto_status restore(workload_job *job)
{
    const stencil *s = job->data;
    fill(s, job->seed, s->plates);
    return job->rt ? workload_put(job, &s->tensor, s->plates) : PTO_OK;
}

static pto_status prepare(workload_job *job)
{
    stencil *s = calloc(1, sizeof *s);
    if (!s) {
        return pto_fail(PTO_OUT_OF_MEMORY, "stencil: no memory");
    }
    job->data = s;
    s->rows = job->number[ROWS];
    s->columns = job->number[COLUMNS];
    s->tile = job->number[TILE];
    s->steps = job->number[STEPS];
    PTO_TRY(workload_device(job, job->text[DEVICE], false));
    if (s->tile > s->rows && s->tile > s->columns) {
        return pto_fail(PTO_BAD_SHAPE,
                        "stencil: a tile of %" PRId64 " x %" PRId64
                        " is larger than the plate of %" PRId64 " x %" PRId64 " cells",
                        s->tile, s->tile, s->rows, s->columns);
    }
    s->plates = workload_alloc(2 * cells(s), sizeof *s->plates);
    if (!s->plates) {
        return PTO_OUT_OF_MEMORY;
    }
    const double updates = (double)s->rows * (double)s->columns * (double)s->steps;
    job->flops = 7 * updates;
    job->bytes = 2 * sizeof(float) * updates; /* each cell read once and written once */
    job->total = (uint64_t)s->steps;
    /* Four steps ahead keep all threads busy. More steps would only find more readers to wait for:
     * no single write covers a border, so its read stays in the map until its reader retires. */
    const int64_t across = (s->columns + s->tile - 1) / s->tile;
    const int64_t tiles = across * ((s->rows + s->tile - 1) / s->tile);
    job->usual.ring_tasks = tiles < 16 ? 64 : tiles < 256 ? (uint32_t)tiles * 4 : 1024;
    /* Nothing is allocated in a scope here, so the smallest rings work: a submit waits for earlier
     * tasks when it must. These are a little larger: four tasks with 96 bytes of arguments each. */
    job->tight.ring_tasks = 4;
    job->tight.heap_bytes = 64;
    job->tight.arg_bytes = UINT64_C(4) * 96;
    job->tight.deps = 16;
    job->tight.map_entries = 8;
    return restore(job);
}

static pto_status start(workload_job *job)
{
    stencil *s = job->data;
    PTO_TRY(workload_tensor(job, s->plates, PTO_FLOAT32, 3,
                            (int64_t[]){2, s->rows + 2, s->columns + 2},
                            (int64_t[]){1, s->tile, s->tile}, &s->tensor));
    if (job->elsewhere && job->mpi) {
        return pto_fail(PTO_BAD_PARAM, "--device and --mpi exclude each other");
    }
    return workload_kernel(job, "step_tile", PTO_VECTOR, step_tile, &s->kernel);
}

/* On a device: in the memory of the output. */
static pto_status simulate_there(pto_runtime *rt, const pto_tensor *inputs,
                                 const pto_tensor *outputs, void *params)
{
    workload_job *job = params;
    const stencil *s = job->data;
    PTO_TRY(pto_copy(rt, &outputs[0], &inputs[0]));
    return simulate(job, s->kernel, &outputs[0], s->tile, s->steps);
}

static pto_status orchestrate(workload_job *job)
{
    const stencil *s = job->data;
    if (job->elsewhere) {
        const pto_execute_options where = {.size = sizeof where, .device = job->device};
        return pto_execute_ex(job->rt, simulate_there, &s->tensor, 1, &s->tensor, 1, job, &where);
    }
    PTO_TRY(simulate(job, s->kernel, &s->tensor, s->tile, s->steps));
    return workload_wait(job);
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The whole plate in serial loops, step by step. All bits must be equal. */
static pto_status check(workload_job *job)
{
    const stencil *s = job->data;
    PTO_TRY(workload_get(job, &s->tensor, s->plates));
    if (!workload_is_root(job)) {
        return PTO_OK;
    }
    const int64_t width = s->columns + 2;
    float *want = workload_alloc(2 * cells(s), sizeof *want);
    pto_status status = PTO_OK;
    if (!want) {
        return PTO_OUT_OF_MEMORY;
    }
    fill(s, job->seed, want);
    for (int64_t step = 0; step < s->steps; step++) {
        const float *now = want + (step % 2 ? cells(s) : 0);
        float *next = want + (step % 2 ? 0 : cells(s));
        for (int64_t i = 1; i <= s->rows; i++) {
            for (int64_t at = i * width + 1; at <= i * width + s->columns; at++) {
                next[at] = spread(now[at], now[at - width], now[at + width], now[at - 1],
                                  now[at + 1]);
            }
        }
    }
    for (size_t i = 0; i < 2 * cells(s) && status == PTO_OK; i++) {
        if (bits_of(s->plates[i]) != bits_of(want[i])) {
            const size_t in = i % cells(s);
            status = pto_fail(PTO_KERNEL_FAILED, "plane %zu, row %zu, column %zu: %.9g, not %.9g",
                              i / cells(s), in / (size_t)width, in % (size_t)width,
                              (double)s->plates[i], (double)want[i]);
        }
    }
    workload_free(want);
    snprintf(job->verdict, sizeof job->verdict,
             "every cell is equal, bit for bit, to that of serial loops");
    return status;
}

static void discard(workload_job *job)
{
    stencil *s = job->data;
    if (s) {
        workload_free(s->plates);
        free(s);
    }
}

const workload workload_stencil = {
    .name = "stencil",
    .summary = "heat on a plate: tiles whose borders are views into their neighbours",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .prepare = prepare,
    .start = start,
    .orchestrate = orchestrate,
    .restore = restore,
    .check = check,
    .discard = discard,
    .mpi = true,
};
