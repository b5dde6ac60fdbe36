/* test_grid.c - place gpu on a simulated device, where the grid is made of threads: blocks for one type of
 * task, failures and their texts, a lost device, cancel, and reads by letter. */
#include "../runtime/on_grid.h"

#include "orchestrator/mirror.h"

/* ---- Blocks for cube and for vector tasks ---- */

static atomic_uint ran_on[PTO_WORKER_TYPES]; /* a bit for each block */

static pto_status note(const pto_call *call)
{
    atomic_fetch_or(&ran_on[call->worker_type], 1u << call->worker);
    return PTO_OK;
}

static void blocks_serve_one_type(void **state)
{
    (void)state;
    pto_config config = PTO_CONFIG_INIT;
    config.gpu_cube_workers = 2;
    on_grid g = on_grid_start(&config, 3, 4);
    const pto_kernel cube = on_grid_kernel(g.rt, "cube", PTO_CUBE, note);
    const pto_kernel vector = on_grid_kernel(g.rt, "vector", PTO_VECTOR, note);
    atomic_store(&ran_on[PTO_CUBE], 0);
    atomic_store(&ran_on[PTO_VECTOR], 0);
    for (int i = 0; i < 200; i++) { /* chains that change from one type to the other */
        const pto_tensor cell = on_grid_cell(&g, i % 4);
        expect_ok(pto_submit(g.rt, i / 4 % 2 ? cube : vector, pto_inout(&cell)));
    }
    expect_ok(pto_wait(g.rt));
    assert_int_equal(atomic_load(&ran_on[PTO_CUBE]) & ~3u, 0);
    assert_int_equal(atomic_load(&ran_on[PTO_VECTOR]), 4);
    /* A long vector task leaves the blocks for cube tasks alone. */
    const pto_tensor a = on_grid_cell(&g, 0), b = on_grid_cell(&g, 1);
    expect_ok(pto_submit(g.rt, g.hold, pto_inout(&a)));
    on_grid_until_held(1);
    pto_task last = 0;
    for (int i = 0; i < 10; i++) {
        expect_ok(
            pto_submit_task(g.rt, cube, PTO_KERNEL_TYPE, (pto_param[]){pto_inout(&b)}, 1, &last));
    }
    expect_ok(pto_wait_task(g.rt, last));
    pto_task_report report;
    pto_task held = 0;
    expect_ok(
        pto_submit_task(g.rt, vector, PTO_KERNEL_TYPE, (pto_param[]){pto_inout(&b)}, 1, &held));
    expect_ok(pto_task_info(g.rt, held, &report));
    assert_int_equal(report.state, PTO_TASK_READY); /* the only block for it is busy */
    on_grid_stop(&g);
}

static void a_block_must_be_left(void **state)
{
    (void)state;
    pto_config config = PTO_CONFIG_INIT;
    pto_runtime *rt = NULL;
    config.place = PTO_PLACE_GPU;
    config.device = on_grid_sim;
    config.gpu_workers = 2;
    config.gpu_cube_workers = 2;
    expect_fail(pto_runtime_create(&rt, &config), PTO_BAD_CONFIG, "gpu_cube_workers = 2",
                "PTO_GPU_CUBE_WORKERS", "2 blocks", "vector");
    assert_null(rt);
}

/* ---- Failures ---- */

/* The first failure by order of submission, with its text, kernel and place; what depends on it is skipped,
 * on the device, in copies and on the host. */
static void failures_are_told(void **state)
{
    (void)state;
    pto_config config = PTO_CONFIG_INIT;
    on_grid g = on_grid_start(&config, 2, 3);
    const pto_tensor a = on_grid_cell(&g, 0), b = on_grid_cell(&g, 1), c = on_grid_cell(&g, 2);
    int64_t host = 3, got = 0;
    pto_tensor on_host;
    expect_ok(pto_tensor_init(&on_host, &host, 8, PTO_INT64, 1, DIMS(1), NULL, 0));
    expect_ok(pto_submit(g.rt, g.add, pto_inout(&b), pto_scalar(5)));
    expect_ok(pto_label(g.rt, "tile %d", 4));
    expect_ok(pto_submit(g.rt, g.fail, pto_inout(&a)));
    expect_ok(pto_submit(g.rt, g.fail, pto_inout(&c)));
    expect_ok(pto_submit(g.rt, g.add, pto_inout(&a), pto_scalar(1))); /* on the device */
    expect_ok(pto_copy(g.rt, &on_host, &a));                          /* by the copy engine */
    expect_ok(pto_submit(g.rt, g.add, pto_inout(&on_host), pto_scalar(100))); /* on the host */
    expect_fail(pto_wait(g.rt), PTO_TASK_FAILED, "kernel 'fail'", "test_grid.c",
                "PTO_KERNEL_FAILED", "the matrix is singular in column 7");
    pto_failure failure;
    bool failed = false;
    expect_ok(pto_get_failure(g.rt, &failed, &failure));
    assert_true(failed);
    assert_int_equal(failure.status, PTO_KERNEL_FAILED);
    assert_string_equal(failure.kernel, "fail");
    assert_string_equal(failure.label, "tile 4");
    pto_runtime_stats now = {0};
    expect_ok(pto_stats(g.rt, &now));
    assert_int_equal(now.failed, 2);
    assert_int_equal(now.skipped, 3);
    assert_int_equal(host, 3);
    assert_int_equal(pto_read(g.rt, &a, &got, sizeof got), PTO_POISONED);
    expect_ok(pto_clear_error(g.rt));
    expect_ok(pto_read(g.rt, &b, &got, sizeof got));
    assert_int_equal(got, 5);
    on_grid_stop(&g);
}

/* A task of the host fails: what the device was to do with it is skipped. */
static void failures_of_the_host_reach_the_device(void **state)
{
    (void)state;
    pto_config config = PTO_CONFIG_INIT;
    on_grid g = on_grid_start(&config, 2, 1);
    const pto_tensor a = on_grid_cell(&g, 0);
    int64_t host = 3;
    pto_tensor on_host;
    expect_ok(pto_tensor_init(&on_host, &host, 8, PTO_INT64, 1, DIMS(1), NULL, 0));
    expect_ok(pto_submit(g.rt, g.fail, pto_inout(&on_host)));
    expect_ok(pto_copy(g.rt, &a, &on_host));
    expect_ok(pto_submit(g.rt, g.add, pto_inout(&a), pto_scalar(1)));
    expect_fail(pto_wait(g.rt), PTO_TASK_FAILED, "kernel 'fail'", "singular in column 7");
    pto_runtime_stats now = {0};
    expect_ok(pto_stats(g.rt, &now));
    assert_int_equal(now.failed, 1);
    assert_int_equal(now.skipped, 2);
    expect_ok(pto_clear_error(g.rt));
    on_grid_stop(&g);
}

/* A simulated device that is lost fails each task that it would start. It can be repaired. */
static void a_lost_device_fails_its_tasks(void **state)
{
    (void)state;
    pto_config config = PTO_CONFIG_INIT;
    on_grid g = on_grid_start(&config, 2, 2);
    const pto_tensor a = on_grid_cell(&g, 0), b = on_grid_cell(&g, 1);
    int64_t host = 3, got = 0;
    pto_tensor on_host;
    expect_ok(pto_tensor_init(&on_host, &host, 8, PTO_INT64, 1, DIMS(1), NULL, 0));
    expect_ok(pto_submit(g.rt, g.add, pto_inout(&b), pto_scalar(7)));
    expect_ok(pto_wait(g.rt));
    expect_ok(pto_sim_fail(0, PTO_SIM_FAIL_LOST, 1));
    expect_ok(pto_submit(g.rt, g.add, pto_inout(&a), pto_scalar(1)));
    expect_ok(pto_submit(g.rt, g.add, pto_inout(&a), pto_scalar(1)));
    expect_ok(pto_submit(g.rt, g.add, pto_inout(&on_host), pto_scalar(1))); /* not of the device */
    expect_fail(pto_wait(g.rt), PTO_TASK_FAILED, "kernel 'add'", "PTO_DEVICE_LOST",
                "sim:0 is lost");
    assert_int_equal(host, 4);
    expect_ok(pto_clear_error(g.rt));
    expect_ok(pto_sim_repair(0));
    expect_ok(pto_submit(g.rt, g.add, pto_inout(&b), pto_scalar(1)));
    expect_ok(pto_read(g.rt, &b, &got, sizeof got));
    assert_int_equal(got, 8);
    on_grid_stop(&g);
}

/* ---- Cancel ---- */

/* A kernel that runs may end early, tasks that have not started are skipped, and the runtime works
 * afterwards. */
static void cancel_ends_what_runs(void **state)
{
    (void)state;
    pto_config config = PTO_CONFIG_INIT;
    on_grid g = on_grid_start(&config, 1, 2);
    const pto_tensor a = on_grid_cell(&g, 0), b = on_grid_cell(&g, 1);
    int64_t got = 0;
    expect_ok(pto_submit(g.rt, g.hold, pto_inout(&a)));
    for (int i = 0; i < 20; i++) {
        expect_ok(pto_submit(g.rt, g.add, pto_inout(&b), pto_scalar(1)));
    }
    on_grid_until_held(1);
    pto_cancel(g.rt);
    assert_int_equal(pto_wait(g.rt), PTO_CANCELLED);
    pto_runtime_stats now = {0};
    expect_ok(pto_stats(g.rt, &now));
    assert_int_equal(now.failed, 0);
    /* The held task sees the cancel itself. The mover tells the block, which may have begun others by
     * then. (The explorer's grid-cancel has all interleavings.) */
    assert_in_range(now.skipped, 1, 21);
    assert_int_equal(now.completed, 21);
    expect_ok(pto_clear_error(g.rt));
    const int64_t zero = 0;
    expect_ok(pto_write(g.rt, &b, &zero, sizeof zero));
    for (int i = 0; i < 20; i++) {
        expect_ok(pto_submit(g.rt, g.add, pto_inout(&b), pto_scalar(1)));
    }
    expect_ok(pto_read(g.rt, &b, &got, sizeof got));
    assert_int_equal(got, 20);
    on_grid_stop(&g);
}

/* ---- Letters ---- */

enum { LETTER_CELLS = 1024 }; /* twice as many bytes as a letter can have */

/* What a letter can carry, and what it cannot. The grid is there, because a task runs. */
static void letters_read_small_tensors(void **state)
{
    (void)state;
    pto_config config = PTO_CONFIG_INIT;
    on_grid g = on_grid_start(&config, 2, LETTER_CELLS);
    static int64_t got[LETTER_CELLS];
    const pto_tensor a = on_grid_cell(&g, 0);
    pto_tensor part, every;
    expect_ok(pto_tensor_slice(&g.cells, 0, 1, 513, 1, &part));
    expect_ok(pto_tensor_slice(&g.cells, 0, 1, 9, 2, &every));
    for (int64_t i = 1; i < 20; i++) {
        const pto_tensor cell = on_grid_cell(&g, i);
        expect_ok(pto_submit(g.rt, g.add, pto_inout(&cell), pto_scalar(i * i)));
    }
    expect_ok(pto_wait(g.rt));
    expect_ok(pto_submit(g.rt, g.hold, pto_inout(&a)));
    on_grid_until_held(1);
    memset(got, 1, sizeof got);
    assert_true(ptoi_mirror_read(g.rt, &part, got, 4096));
    for (int64_t i = 0; i < 512; i++) {
        assert_int_equal(got[i], i < 19 ? (i + 1) * (i + 1) : 0);
    }
    assert_false(ptoi_mirror_read(g.rt, &g.cells, got, sizeof got)); /* too long */
    assert_false(ptoi_mirror_read(g.rt, &every, got, 32));           /* not contiguous */
    pto_tensor bytes = part;
    bytes.dtype = PTO_UINT8;
    bytes.shape[0] = 3;
    assert_false(ptoi_mirror_read(g.rt, &bytes, got, 3)); /* not whole words */
    /* The same through the public call, whichever way it takes. */
    int64_t one = 0;
    const pto_tensor third = on_grid_cell(&g, 3);
    expect_ok(pto_read(g.rt, &third, &one, sizeof one));
    assert_int_equal(one, 9);
    on_grid_stop(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_serve_one_type),
        cmocka_unit_test(a_block_must_be_left),
        cmocka_unit_test(failures_are_told),
        cmocka_unit_test(failures_of_the_host_reach_the_device),
        cmocka_unit_test(a_lost_device_fails_its_tasks),
        cmocka_unit_test(cancel_ends_what_runs),
        cmocka_unit_test(letters_read_small_tensors),
    };
    return cmocka_run_group_tests_name("grid", tests, NULL, NULL);
}
