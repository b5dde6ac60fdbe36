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

enum { MANY = 1000 }; /* more completions than a ring of the grid holds */

static pto_task pending[MANY];
static atomic_int n_pending;

static pto_status stays_pending(const pto_call *call)
{
    pending[call->args[1].i64] = call->task;
    atomic_fetch_add(&n_pending, 1);
    return PTO_PENDING;
}

/* Tasks of the host that end faster than the grid can show that they are complete. Its clerk must not wait for its
 * writer: on a simulated device they share a thread. */
static void many_host_tasks_end_at_once(void **state)
{
    (void)state;
    pto_config config = PTO_CONFIG_INIT;
    int64_t cells[MANY] = {0};
    config.ring_tasks = 2 * MANY;
    on_grid g = on_grid_start(&config, 1, 1);
    const pto_tensor a = on_grid_cell(&g, 0);
    pto_kernel wait;
    expect_ok(pto_kernel_register(g.rt, "wait", PTO_AI_CPU, stays_pending, NULL, &wait));
    for (int round = 0; round < 3; round++) {
        atomic_store(&n_pending, 0);
        for (int i = 0; i < MANY; i++) {
            pto_tensor cell;
            expect_ok(pto_tensor_init(&cell, &cells[i], 8, PTO_INT64, 1, DIMS(1), NULL, 0));
            expect_ok(pto_submit(g.rt, wait, pto_inout(&cell), pto_scalar(i)));
        }
        const pto_task last = pto_last_task(g.rt);
        expect_ok(pto_submit(g.rt, g.add, pto_inout(&a), pto_scalar(1), pto_after(last)));
        const uint64_t begin = rig_now_ms();
        while (atomic_load(&n_pending) < MANY) {
            assert_true(rig_now_ms() - begin < RIG_PATIENCE_MS);
            rig_sleep_us(50);
        }
        for (int i = 0; i < MANY; i++) {
            expect_ok(pto_task_complete(g.rt, pending[i], PTO_OK));
        }
        expect_ok(pto_wait(g.rt));
    }
    int64_t got = 0;
    expect_ok(pto_read(g.rt, &a, &got, sizeof got));
    assert_int_equal(got, 3);
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

/* ---- Watchers ---- */

typedef struct sighting {
    atomic_int started, ended;
} sighting;

static void see_start(void *user, pto_task task, uint32_t worker)
{
    (void)task;
    (void)worker;
    atomic_fetch_add(&((sighting *)user)->started, 1);
}

static void see_end(void *user, pto_task task, uint32_t worker, pto_status status)
{
    (void)task;
    (void)worker;
    (void)status;
    atomic_fetch_add(&((sighting *)user)->ended, 1);
}

/* A watcher that comes while the grid is there sees its tasks, and sees none after it was removed. */
static void watchers_see_tasks_of_a_grid(void **state)
{
    (void)state;
    pto_config config = PTO_CONFIG_INIT;
    config.gpu_idle_us = UINT32_C(1) << 31; /* it does not leave */
    on_grid g = on_grid_start(&config, 2, 1);
    const pto_tensor a = on_grid_cell(&g, 0);
    for (int round = 0; round < 3; round++) {
        sighting seen = {0, 0};
        const pto_watcher watcher = {
            .size = sizeof watcher, .user = &seen, .started = see_start, .ended = see_end};
        expect_ok(pto_submit(g.rt, g.add, pto_inout(&a), pto_scalar(1)));
        expect_ok(pto_watch(g.rt, &watcher));
        for (int i = 0; i < 10; i++) {
            expect_ok(pto_submit(g.rt, g.add, pto_inout(&a), pto_scalar(1)));
        }
        expect_ok(pto_watch(g.rt, NULL));
        expect_ok(pto_submit(g.rt, g.add, pto_inout(&a), pto_scalar(1)));
        expect_ok(pto_wait(g.rt));
        assert_int_equal(atomic_load(&seen.started), 10);
        assert_int_equal(atomic_load(&seen.ended), 10);
    }
    on_grid_stop(&g);
}

/* ---- Modules ---- */

static const char *const module_names[] = {"mine", "other"};

static const pto_gpu_module a_module = {.size = sizeof a_module,
                                        .version = PTO_GPU_GRID_VERSION,
                                        .n_kernels = 2,
                                        .kernels = module_names,
                                        .threads = 64};

/* A program for a GPU runs on a simulated device, with variants in C. */
static void kernels_of_a_module_in_c(void **state)
{
    (void)state;
    for (int with_module = 0; with_module < 2; with_module++) {
        pto_config config = PTO_CONFIG_INIT;
        config.gpu_module = with_module ? &a_module : NULL;
        on_grid g = on_grid_start(&config, 2, 1);
        const pto_tensor a = on_grid_cell(&g, 0);
        int64_t host = 3, got = 0;
        pto_tensor on_host;
        pto_kernel mine;
        expect_ok(pto_tensor_init(&on_host, &host, 8, PTO_INT64, 1, DIMS(1), NULL, 0));
        if (with_module) {
            expect_fail(pto_gpu_kernel(g.rt, "none", PTO_VECTOR, &mine), PTO_BAD_KERNEL, "'none'",
                        "2 kernels");
        }
        expect_ok(pto_gpu_kernel(g.rt, "mine", PTO_VECTOR, &mine));
        expect_fail(pto_submit(g.rt, mine, pto_inout(&a), pto_scalar(4)), PTO_NOT_IMPLEMENTED,
                    "'mine'", "sim");
        expect_fail(pto_submit(g.rt, mine, pto_inout(&on_host), pto_scalar(4)), PTO_NOT_IMPLEMENTED,
                    "'mine'", "cpu");
        expect_fail(pto_submit(g.rt, mine, pto_scalar(4)), PTO_NOT_IMPLEMENTED, "'mine'");
        assert_true(pto_refused(g.rt, NULL));
        expect_ok(pto_kernel_variant(g.rt, mine, PTO_DEVICE_SIM, on_grid_add, NULL));
        expect_ok(pto_submit(g.rt, mine, pto_inout(&a), pto_scalar(4)));
        expect_ok(pto_read(g.rt, &a, &got, sizeof got));
        assert_int_equal(got, 4);
        on_grid_stop(&g);
    }
}

/* A device that refuses a second grid, as an NVIDIA GPU does. It has no work, so none is launched. */
static int fake_taken, fake_allocated;

static pto_status fake_alloc(void *self, uint64_t bytes, void **memory)
{
    (void)self;
    fake_allocated++;
    *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    return *memory ? PTO_OK : PTO_OUT_OF_MEMORY;
}

static void fake_free(void *self, void *memory, uint64_t bytes)
{
    (void)self;
    (void)bytes;
    fake_allocated--;
    free(memory);
}

static pto_status fake_copy(void *self, void *to, const void *from, uint64_t bytes)
{
    (void)self;
    memcpy(to, from, bytes);
    return PTO_OK;
}

static pto_status fake_share(void *self, void *memory, uint64_t bytes, void **there)
{
    (void)self;
    (void)bytes;
    *there = memory;
    return PTO_OK;
}

static void fake_unshare(void *self, void *memory, uint64_t bytes)
{
    (void)self;
    (void)memory;
    (void)bytes;
}

static pto_status fake_prepare(void *self, const pto_gpu_module *module, uint32_t *blocks)
{
    (void)self;
    (void)module;
    if (fake_taken) {
        assert_int_equal(fake_allocated, *(int *)self); /* nothing for the second runtime */
        return pto_fail(PTO_BAD_DEVICE, "another runtime has it");
    }
    fake_taken = 1;
    *blocks = 8;
    return PTO_OK;
}

static pto_status fake_launch(void *self, const pto_gpu_module *module, const void *grid,
                              uint32_t blocks)
{
    (void)self;
    (void)module;
    (void)grid;
    (void)blocks;
    return pto_fail(PTO_DEVICE_LOST, "no grid is expected");
}

static pto_status fake_ended(void *self, bool *ended)
{
    (void)self;
    *ended = true;
    return PTO_OK;
}

static void fake_release(void *self)
{
    (void)self;
    fake_taken--;
}

static void one_grid_on_a_device(void **state)
{
    (void)state;
    static int expected;
    const pto_device device = {PTO_DEVICE_QY, 3};
    const pto_device_ops ops = {.size = sizeof ops,
                                .self = &expected,
                                .alloc = fake_alloc,
                                .free = fake_free,
                                .copy_in = fake_copy,
                                .copy_out = fake_copy,
                                .share = fake_share,
                                .unshare = fake_unshare,
                                .grid_prepare = fake_prepare,
                                .grid_launch = fake_launch,
                                .grid_ended = fake_ended,
                                .grid_release = fake_release};
    expect_ok(pto_device_add(device, &ops));
    for (int round = 0; round < 3; round++) {
        pto_runtime *first = NULL, *second = NULL;
        pto_config config = PTO_CONFIG_INIT;
        config.place = PTO_PLACE_GPU;
        config.device = device;
        expect_fail(pto_runtime_create(&first, &config), PTO_BAD_CONFIG, "gpu_module");
        config.gpu_module = &a_module;
        config.gpu_cube_workers = 100; /* refused when the device was prepared */
        expect_fail(pto_runtime_create(&first, &config), PTO_BAD_CONFIG, "gpu_cube_workers");
        assert_int_equal(fake_taken, 0);
        config.gpu_cube_workers = 0;
        expect_ok(pto_runtime_create(&first, &config));
        expected = fake_allocated;
        expect_fail(pto_runtime_create(&second, &config), PTO_BAD_DEVICE, "another runtime has it");
        assert_null(second);
        assert_int_equal(fake_taken, 1);
        expect_ok(pto_runtime_destroy(&first, PTO_WAIT));
        assert_int_equal(fake_taken, 0);
        assert_int_equal(fake_allocated, 0);
    }
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
        cmocka_unit_test(many_host_tasks_end_at_once),
        cmocka_unit_test(a_lost_device_fails_its_tasks),
        cmocka_unit_test(cancel_ends_what_runs),
        cmocka_unit_test(watchers_see_tasks_of_a_grid),
        cmocka_unit_test(kernels_of_a_module_in_c),
        cmocka_unit_test(one_grid_on_a_device),
        cmocka_unit_test(letters_read_small_tensors),
    };
    return cmocka_run_group_tests_name("grid", tests, NULL, NULL);
}
