/* on_grid.h - for tests of place gpu on a simulated device: a runtime, and kernels of one element. */
#ifndef PTO_TEST_ON_GRID_H
#define PTO_TEST_ON_GRID_H

#include "rig.h"

#include <pto/gpu.h>
#include <pto/sim.h>
#include <pto/work.h>

static const pto_device on_grid_sim = {PTO_DEVICE_SIM, 0};

typedef struct on_grid {
    pto_runtime *rt;
    pto_kernel add;  /* inout int64[1] x, scalar: x += scalar, on either side */
    pto_kernel fail; /* inout int64[1] x: fails with a text */
    pto_kernel hold; /* inout int64[1] x: until on_grid_gate is open, or the runtime is cancelled */
    pto_tensor cells;
} on_grid;

static atomic_int on_grid_gate, on_grid_held;

static inline pto_status on_grid_add(const pto_call *call)
{
    *(int64_t *)call->args[0].data += pto_arg_i64(&call->args[1]);
    return PTO_OK;
}

static inline pto_status on_grid_fail(const pto_call *call)
{
    (void)call;
    return pto_fail(PTO_KERNEL_FAILED, "the matrix is singular in column %d", 7);
}

static inline pto_status on_grid_hold(const pto_call *call)
{
    atomic_fetch_add(&on_grid_held, 1);
    while (!atomic_load(&on_grid_gate)) {
        if (pto_is_cancelled(call->rt)) {
            return PTO_CANCELLED;
        }
        rig_sleep_us(100);
    }
    *(int64_t *)call->args[0].data += 1;
    return PTO_OK;
}

static inline pto_kernel on_grid_kernel(pto_runtime *rt, const char *name, pto_worker_type type,
                                        pto_kernel_fn fn)
{
    pto_kernel kernel;
    expect_ok(pto_kernel_register(rt, name, type, fn, NULL, &kernel));
    expect_ok(pto_kernel_variant(rt, kernel, PTO_DEVICE_SIM, fn, NULL));
    return kernel;
}

/* Starts a runtime with `workers` threads of the grid. Fields of `config` that it does not set are kept.
 * There are `n` cells on the device, all 0. */
static inline on_grid on_grid_start(pto_config *config, uint32_t workers, int64_t n)
{
    on_grid g = {0};
    atomic_store(&on_grid_gate, 0);
    atomic_store(&on_grid_held, 0);
    config->place = PTO_PLACE_GPU;
    config->device = on_grid_sim;
    config->gpu_workers = workers;
    config->workers = config->workers ? config->workers : 1;
    expect_ok(pto_runtime_create(&g.rt, config));
    g.add = on_grid_kernel(g.rt, "add", PTO_VECTOR, on_grid_add);
    g.fail = on_grid_kernel(g.rt, "fail", PTO_CUBE, on_grid_fail);
    g.hold = on_grid_kernel(g.rt, "hold", PTO_VECTOR, on_grid_hold);
    expect_ok(pto_tensor_empty(on_grid_sim, PTO_INT64, 1, DIMS(n), &g.cells));
    int64_t *zeros = calloc((size_t)n, sizeof *zeros);
    assert_non_null(zeros);
    expect_ok(pto_write(g.rt, &g.cells, zeros, (uint64_t)n * sizeof *zeros));
    free(zeros);
    return g;
}

static inline pto_tensor on_grid_cell(const on_grid *g, int64_t i)
{
    pto_tensor cell;
    expect_ok(pto_tensor_slice(&g->cells, 0, i, i + 1, 1, &cell));
    return cell;
}

/* Waits until `n` tasks of `hold` are running. */
static inline void on_grid_until_held(int n)
{
    const uint64_t begin = rig_now_ms();
    while (atomic_load(&on_grid_held) < n) {
        assert_true(rig_now_ms() - begin < RIG_PATIENCE_MS);
        rig_sleep_us(50);
    }
}

static inline void on_grid_stop(on_grid *g)
{
    atomic_store(&on_grid_gate, 1);
    expect_ok(pto_runtime_destroy(&g->rt, PTO_WAIT));
    expect_ok(pto_tensor_free(&g->cells));
}

#endif /* PTO_TEST_ON_GRID_H */
