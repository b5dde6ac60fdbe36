/* Several ranks. The tests run it on one. */
#include "example.h"

#include <pto/mpi.h>

enum { ROWS = 4, TILE = 16 };

static pto_tensor row[ROWS]; /* each is one tile */

static pto_status rest(pto_runtime *rt)
{
    float total = 0, result[ROWS * TILE];
    pto_tensor sum;
    /* example: pto_mpi_temp */
    PTO_SCOPE(rt) {
        PTO_TRY(pto_mpi_temp(rt, PTO_FLOAT32, 1, (int64_t[]){TILE}, &sum));
        PTO_TRY(pto_mpi_submit(rt, add, pto_input(&row[0]), pto_input(&row[1]), pto_output(&sum)));
        PTO_TRY(pto_mpi_submit(rt, add, pto_input(&sum), pto_input(&row[2]), pto_output(&row[3])));
    }
    /* end */
    /* example: pto_mpi_temp_on */
    const pto_device sim0 = {PTO_DEVICE_SIM, 0};
    pto_tensor there;
    PTO_TRY(pto_kernel_variant(rt, add, PTO_DEVICE_SIM, add_fn, NULL));
    PTO_TRY(pto_mpi_tensor(rt, PTO_FLOAT32, 1, (int64_t[]){TILE},
                           &(pto_mpi_layout){.tile = {TILE}, .device = sim0}, &there));
    PTO_SCOPE(rt) {
        PTO_TRY(pto_mpi_temp_on(rt, sim0, PTO_FLOAT32, 1, (int64_t[]){TILE}, &sum));
        PTO_TRY(pto_mpi_submit(rt, add, pto_input(&there), pto_input(&there), pto_output(&sum)));
        PTO_TRY(pto_mpi_submit(rt, add, pto_input(&sum), pto_input(&sum), pto_output(&there)));
    }
    /* end */
    /* example: pto_mpi_submit_on */
    const int last = pto_mpi_ranks(rt) - 1;
    PTO_TRY(pto_mpi_submit_on(rt, last, scale, pto_inout(&row[0]), pto_scalar(2.0)));
    /* end */
    /* example: pto_mpi_submit_task */
    const pto_param params[] = {pto_inout(&row[0]), pto_scalar(2.0)};
    PTO_TRY(pto_mpi_submit_task(rt, PTO_MPI_OWNER, scale, PTO_VECTOR, params, 2));
    /* end */
    /* example: pto_mpi_only_begin */
    if (pto_mpi_only_begin(rt, pto_inout(&row[0]))) {
        PTO_TRY(pto_mpi_submit(rt, scale, pto_inout(&row[0]), pto_scalar(2.0)));
        pto_mpi_only_end(rt);
    }
    /* end */
    /* example: pto_mpi_broadcast */
    PTO_TRY(pto_mpi_submit(rt, scale, pto_inout(&row[0]), pto_scalar(0.5)));
    /* the owners of these read it */
    PTO_TRY(pto_mpi_broadcast(rt, &row[0], pto_input(&row[1]), pto_input(&row[2])));
    PTO_TRY(pto_mpi_submit(rt, add, pto_input(&row[0]), pto_input(&row[3]), pto_output(&row[1])));
    PTO_TRY(pto_mpi_submit(rt, add, pto_input(&row[0]), pto_input(&row[3]), pto_output(&row[2])));
    /* end */
    /* example: pto_mpi_only */
    /* ranks that own neither skip the block */
    pto_mpi_only(rt, pto_input(&row[0]), pto_inout(&row[3]))
    {
        const pto_tensor *from = &row[0];
        PTO_TRY(pto_mpi_submit(rt, add, pto_input(from), pto_input(from), pto_output(&row[3])));
    }
    /* end */
    /* example: pto_mpi_read */
    PTO_TRY(pto_tensor_slice(&row[3], 0, 0, 1, 1, &sum));
    /* every rank gets it, and decides alike */
    PTO_TRY(pto_mpi_read(rt, &sum, &total, sizeof total));
    if (total > 100) {
        PTO_TRY(pto_mpi_submit(rt, scale, pto_inout(&row[3]), pto_scalar(0.01)));
    }
    /* end */
    /* example: pto_mpi_gather */
    PTO_TRY(pto_mpi_gather(rt, &row[3], 0, result, sizeof result)); /* to rank 0 */
    result[0] = 1;
    PTO_TRY(pto_mpi_scatter(rt, &row[3], 0, result, sizeof result)); /* and back */
    /* end */
    /* example: pto_mpi_clear_error */
    PTO_TRY(pto_mpi_submit(rt, bad, pto_inout(&row[0])));
    if (pto_mpi_wait(rt) == PTO_TASK_FAILED) { /* on all ranks */
        printf("%s\n", pto_error_detail());
        PTO_TRY(pto_mpi_clear_error(rt));
    }
    /* end */
    /* example: pto_mpi_refused */
    if (pto_mpi_submit(rt, scale, pto_inout(&ta), pto_input(&row[0])) == PTO_BAD_PARAM) {
        printf("%s\n", pto_error_detail()); /* one task writes plain and distributed memory */
        CHECK(pto_mpi_refused(rt));         /* otherwise pto_mpi_wait would return PTO_REFUSED */
    }
    /* end */
    return PTO_OK;
}

static pto_status run(pto_runtime *rt)
{
    /* example: pto_mpi_create pto_mpi_tensor pto_mpi_config pto_mpi_layout */
    const pto_mpi_config config = {.size = sizeof config, .cache_bytes = 16 << 20};
    const pto_mpi_layout layout = {.tile = {TILE}};
    pto_tensor all;
    PTO_TRY(pto_mpi_create(rt, &config));
    PTO_TRY(pto_mpi_tensor(rt, PTO_FLOAT32, 1, (int64_t[]){ROWS * TILE}, &layout, &all));
    for (int64_t i = 0; i < ROWS; i++) {
        PTO_TRY(pto_tensor_slice(&all, 0, i * TILE, (i + 1) * TILE, 1, &row[i]));
    }
    /* end */
    /* example: pto_mpi_submit pto_mpi_wait */
    PTO_TRY(pto_mpi_submit(rt, add, pto_input(&row[0]), pto_input(&row[1]), pto_output(&row[2])));
    PTO_TRY(pto_mpi_wait(rt));
    /* end */
    PTO_TRY(rest(rt));
    /* example: pto_mpi_rank pto_mpi_owner pto_mpi_get_stats pto_mpi_stats */
    pto_mpi_stats stats;
    PTO_TRY(pto_mpi_get_stats(rt, &stats));
    printf("rank %d of %d ran %llu tasks; tile 0 belongs to rank %d\n", pto_mpi_rank(rt),
           pto_mpi_ranks(rt), (unsigned long long)stats.tasks, pto_mpi_owner(rt, &row[0]));
    /* end */
    CHECK(stats.steps >= 12);
    /* example: pto_mpi_lock */
    pto_mpi_lock(rt);
    /* calls of MPI, on any thread */
    pto_mpi_unlock(rt);
    /* end */
    /* example: pto_mpi_destroy */
    PTO_TRY(pto_mpi_destroy(rt)); /* all ranks leave the world; the runtime remains */
    /* end */
    return PTO_OK;
}

/* example: pto_mpi_runtime_destroy */
static pto_status once(void)
{
    pto_runtime *rt;
    PTO_TRY(pto_runtime_create(&rt, NULL));
    PTO_TRY(pto_mpi_create(rt, NULL));
    /* tasks */
    return pto_mpi_runtime_destroy(&rt, PTO_WAIT);
}
/* end */
