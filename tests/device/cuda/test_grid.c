/* test_grid.c - place gpu on an NVIDIA GPU: tasks against a serial run, arguments of all kinds, failures,
 * cancel, and a grid that leaves and comes back. */
#include <string.h>
#include <unistd.h>

#include <pto/gpu.h>
#include <pto/op.h>
#include <pto/work.h>

#include "gpu.h"
#include "grid_kernels.h"

typedef struct rig {
    pto_runtime *rt;
    const pto_gpu_module *module;
} rig;

static void must(pto_status status)
{
    if (status) {
        fail_msg("%s: %s", pto_status_name(status), pto_error_detail());
    }
}

static rig rig_make(const char *module, pto_config *config)
{
    rig r = {.module = grid_module_load(module)};
    config->place = PTO_PLACE_GPU;
    config->device = gpu;
    config->gpu_module = r.module;
    must(pto_runtime_create(&r.rt, config));
    return r;
}

static rig rig_plain(void)
{
    pto_config config = PTO_CONFIG_INIT;
    return rig_make("grid_module", &config);
}

static pto_kernel kernel_of(const rig *r, const char *name)
{
    pto_kernel kernel;
    must(pto_gpu_kernel(r->rt, name, PTO_VECTOR, &kernel));
    return kernel;
}

static pto_tensor empty(pto_dtype dtype, int32_t ndim, const int64_t *shape)
{
    pto_tensor t;
    must(pto_tensor_empty(gpu, dtype, ndim, shape, &t));
    return t;
}

/* ---- Random programs against a serial run ---- */

enum { CELLS = 48, ELEMENTS = 37, MOST_INPUTS = 24 };

static uint64_t mixed(uint64_t h, uint64_t x)
{
    h = (h ^ x) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ (h >> 29);
}

static void random_program(uint64_t seed, const char *module, pto_config *config, uint32_t tasks)
{
    static uint64_t right[CELLS][ELEMENTS], got[CELLS][ELEMENTS];
    test_rng rng = test_rng_make(seed);
    rig r = rig_make(module, config);
    const pto_kernel mix = kernel_of(&r, "grid_mix");
    pto_tensor all = empty(PTO_UINT64, 2, (int64_t[]){CELLS, ELEMENTS}), cell[CELLS];
    memset(right, 0, sizeof right);
    for (int i = 0; i < CELLS; i++) {
        must(pto_tensor_select(&all, 0, i, &cell[i]));
        must(pto_write(r.rt, &cell[i], right[i], sizeof right[i]));
    }
    for (uint32_t k = 0; k < tasks; k++) {
        pto_param params[4 + MOST_INPUTS];
        const uint32_t to = (uint32_t)(test_next(&rng) % CELLS);
        const bool many = test_next(&rng) % 16 == 0;
        const uint32_t n = (uint32_t)(test_next(&rng) % (many ? MOST_INPUTS + 1 : 4));
        const uint64_t keep = test_next(&rng) % 2;
        uint32_t from[MOST_INPUTS];
        params[0] = pto_scalar_u64(k + 1);
        params[1] = pto_scalar_u64(keep);
        params[2] = pto_scalar_u64(0);
        params[3] = keep ? pto_inout(&cell[to]) : pto_output(&cell[to]);
        for (uint32_t i = 0; i < n; i++) { /* not the one that it writes */
            from[i] = (to + 1 + (uint32_t)(test_next(&rng) % (CELLS - 1))) % CELLS;
            params[4 + i] = pto_input(&cell[from[i]]);
        }
        must(pto_submit_task(r.rt, mix, PTO_KERNEL_TYPE, params, 4 + n, NULL));
        for (uint32_t e = 0; e < ELEMENTS; e++) {
            uint64_t h = mixed(k + 1, keep ? right[to][e] : e);
            for (uint32_t i = 0; i < n; i++) {
                h = mixed(h, right[from[i]][e]);
            }
            right[to][e] = h;
        }
        if (test_next(&rng) % 256 == 0) {
            usleep((useconds_t)(test_next(&rng) % 2000)); /* the grid may leave */
        }
        if (test_next(&rng) % 512 == 0) {
            must(pto_read(r.rt, &cell[to], got[to], sizeof got[to]));
            assert_memory_equal(got[to], right[to], sizeof got[to]);
        }
    }
    for (int i = 0; i < CELLS; i++) {
        must(pto_read(r.rt, &cell[i], got[i], sizeof got[i]));
    }
    must(pto_runtime_destroy(&r.rt, PTO_WAIT));
    must(pto_tensor_free(&all));
    for (int i = 0; i < CELLS; i++) {
        if (memcmp(got[i], right[i], sizeof got[i]) != 0) {
            fail_msg("program %llu: cell %d is not what the serial program leaves",
                     (unsigned long long)seed, i);
        }
    }
}

static void random_programs(void **state)
{
    (void)state;
    NEED_GPU();
    for (uint64_t i = 0, count = test_effort(40); i < count; i++) {
        pto_config config = PTO_CONFIG_INIT;
        config.ring_tasks = i % 3 == 0 ? 16 : 0; /* slots are used again at once */
        config.gpu_idle_us = i % 2 ? 20 : 0;
        config.gpu_workers = i % 5 == 0 ? 3 : 0;
        random_program((test_seed() << 32) + i, i % 4 == 3 ? "grid_small_module" : "grid_module",
                       &config, 3000);
    }
}

/* ---- Arguments ---- */

/* Three dims, strides of both signs, scalars of all types. */
static void strides_and_scalars(void **state)
{
    (void)state;
    NEED_GPU();
    rig r = rig_plain();
    const pto_kernel set = kernel_of(&r, "grid_set"), axpy = kernel_of(&r, "grid_axpy"),
                     add = kernel_of(&r, "grid_add");
    const int64_t shape[] = {3, 4, 5};
    pto_tensor x = empty(PTO_FLOAT32, 3, shape), y = empty(PTO_FLOAT32, 3, shape),
               z = empty(PTO_FLOAT32, 3, (int64_t[]){5, 3, 4}), turned, back;
    static float start[3][4][5], got[5][3][4];
    for (int i = 0; i < 60; i++) {
        (&start[0][0][0])[i] = (float)i;
    }
    must(pto_write(r.rt, &x, start, sizeof start));
    must(pto_submit(r.rt, set, pto_output(&y), pto_scalar(-2)));                 /* y = -2 */
    must(pto_submit(r.rt, axpy, pto_inout(&y), pto_input(&x), pto_scalar(0.5))); /* y = x / 2 - 2 */
    must(pto_submit(r.rt, axpy, pto_inout(&y), pto_input(&x), pto_scalar(UINT64_C(3))));
    must(pto_tensor_permute(&y, (const int32_t[]){2, 0, 1}, &turned));
    must(pto_tensor_permute(&x, (const int32_t[]){2, 0, 1}, &back));
    must(pto_tensor_slice(&back, 0, 4, -1, -1, &back)); /* from the last to the first */
    must(pto_submit(r.rt, add, pto_input(&turned), pto_input(&back), pto_output(&z)));
    must(pto_read(r.rt, &z, got, sizeof got));
    for (int i = 0; i < 5; i++) {
        for (int j = 0; j < 3; j++) {
            for (int k = 0; k < 4; k++) {
                assert_true(got[i][j][k] == 3.5f * start[j][k][i] - 2 + start[j][k][4 - i]);
            }
        }
    }
    must(pto_runtime_destroy(&r.rt, PTO_WAIT));
    must(pto_tensor_free(&x));
    must(pto_tensor_free(&y));
    must(pto_tensor_free(&z));
}

static void shared_memory(void **state)
{
    (void)state;
    NEED_GPU();
    enum { N = 8192 };
    pto_config config = PTO_CONFIG_INIT;
    rig r = rig_make("grid_small_module", &config);
    const pto_kernel reverse = kernel_of(&r, "grid_reverse");
    static float start[N], got[N];
    pto_tensor x = empty(PTO_FLOAT32, 1, (int64_t[]){N});
    for (int i = 0; i < N; i++) {
        start[i] = (float)i;
    }
    must(pto_write(r.rt, &x, start, sizeof start));
    must(pto_submit(r.rt, reverse, pto_inout(&x)));
    must(pto_read(r.rt, &x, got, sizeof got));
    for (int i = 0; i < N; i++) {
        assert_true(got[i] == start[N - 1 - i]);
    }
    must(pto_runtime_destroy(&r.rt, PTO_WAIT));
    must(pto_tensor_free(&x));
}

/* ---- Failures ---- */

static void a_kernel_that_fails(void **state)
{
    (void)state;
    NEED_GPU();
    rig r = rig_plain();
    const pto_kernel fails = kernel_of(&r, "grid_fail"), set = kernel_of(&r, "grid_set");
    pto_tensor x = empty(PTO_FLOAT32, 1, (int64_t[]){64}),
               y = empty(PTO_FLOAT32, 1, (int64_t[]){64});
    float got[64];
    pto_failure failure;
    bool failed;
    for (int round = 0; round < 3; round++) {
        must(pto_label(r.rt, "the one that fails"));
        must(pto_submit(r.rt, fails, pto_output(&x), pto_scalar((int)PTO_BAD_SHAPE)));
        const int line = __LINE__ - 1;
        must(pto_submit(r.rt, fails, pto_output(&y), pto_scalar((int)PTO_BAD_DIM)));
        must(pto_submit(r.rt, set, pto_inout(&x), pto_scalar(1))); /* skipped */
        assert_int_equal(pto_wait(r.rt), PTO_TASK_FAILED);
        must(pto_get_failure(r.rt, &failed, &failure));
        assert_true(failed);
        assert_int_equal(failure.status, PTO_BAD_SHAPE); /* the first in order of submission */
        assert_string_equal(failure.kernel, "grid_fail");
        assert_string_equal(failure.message, "this kernel always fails");
        assert_int_equal(failure.line, line);
        assert_string_equal(failure.label, "the one that fails");
        must(pto_clear_error(r.rt));
        must(pto_submit(r.rt, set, pto_output(&x), pto_scalar(round)));
        must(pto_read(r.rt, &x, got, sizeof got));
        assert_true(got[0] == (float)round && got[63] == (float)round);
    }
    must(pto_runtime_destroy(&r.rt, PTO_WAIT));
    must(pto_tensor_free(&x));
    must(pto_tensor_free(&y));
}

static void cancel(void **state)
{
    (void)state;
    NEED_GPU();
    rig r = rig_plain();
    const pto_kernel spin = kernel_of(&r, "grid_spin"), set = kernel_of(&r, "grid_set");
    pto_tensor x = empty(PTO_FLOAT32, 1, (int64_t[]){64});
    float got[64];
    for (int i = 0; i < 100; i++) {
        must(pto_submit(r.rt, spin, pto_inout(&x), pto_scalar(UINT64_C(20000000000))));
    }
    usleep(20000);
    pto_cancel(r.rt);
    assert_int_equal(pto_wait(r.rt), PTO_CANCELLED); /* not after 2000 s */
    must(pto_clear_error(r.rt));
    must(pto_submit(r.rt, set, pto_output(&x), pto_scalar(7)));
    must(pto_read(r.rt, &x, got, sizeof got));
    assert_true(got[5] == 7);
    must(pto_runtime_destroy(&r.rt, PTO_WAIT));
    must(pto_tensor_free(&x));
}

/* ---- A grid that leaves, and others beside it ---- */

static void it_leaves_and_comes_back(void **state)
{
    (void)state;
    NEED_GPU();
    pto_config config = PTO_CONFIG_INIT;
    config.gpu_idle_us = 50;
    rig r = rig_make("grid_module", &config);
    const pto_kernel axpy = kernel_of(&r, "grid_axpy"), set = kernel_of(&r, "grid_set");
    pto_tensor x = empty(PTO_FLOAT32, 1, (int64_t[]){64}),
               one = empty(PTO_FLOAT32, 1, (int64_t[]){64}),
               extra = empty(PTO_FLOAT32, 1, (int64_t[]){64});
    float got[64];
    must(pto_submit(r.rt, set, pto_output(&x), pto_scalar(0)));
    must(pto_submit(r.rt, set, pto_output(&one), pto_scalar(1)));
    for (int i = 0; i < 300; i++) {
        must(pto_submit(r.rt, axpy, pto_inout(&x), pto_input(&one), pto_scalar(1)));
        usleep((useconds_t)(i % 7 * 40));
    }
    must(pto_wait(r.rt));
    usleep(20000);
    must(pto_tensor_free(&extra)); /* waits for the whole device: the grid has left */
    must(pto_read(r.rt, &x, got, sizeof got));
    assert_true(got[0] == 300 && got[63] == 300);
    must(pto_runtime_destroy(&r.rt, PTO_WAIT));
    must(pto_tensor_free(&x));
    must(pto_tensor_free(&one));
}

static pto_status double_on_host(const pto_call *call)
{
    float *x = call->args[0].data;
    for (int64_t i = 0; i < call->args[0].shape[0]; i++) {
        x[i] *= 2;
    }
    return PTO_OK;
}

/* A task of the host between two of the GPU, again and again. */
static void tasks_of_the_host(void **state)
{
    (void)state;
    NEED_GPU();
    rig r = rig_plain();
    const pto_kernel axpy = kernel_of(&r, "grid_axpy"), set = kernel_of(&r, "grid_set");
    pto_kernel twice;
    pto_tensor x = empty(PTO_FLOAT32, 1, (int64_t[]){64}),
               one = empty(PTO_FLOAT32, 1, (int64_t[]){64}), host;
    static float here[64];
    must(pto_kernel_register(r.rt, "double", PTO_AI_CPU, double_on_host, NULL, &twice));
    must(pto_external_tensor(r.rt, here, PTO_FLOAT32, 1, (int64_t[]){64}, &host));
    must(pto_submit(r.rt, set, pto_output(&x), pto_scalar(0)));
    must(pto_submit(r.rt, set, pto_output(&one), pto_scalar(1)));
    for (int i = 0; i < 12; i++) {
        must(pto_submit(r.rt, axpy, pto_inout(&x), pto_input(&one), pto_scalar(1)));
        must(pto_copy(r.rt, &host, &x));
        must(pto_submit(r.rt, twice, pto_inout(&host)));
        must(pto_copy(r.rt, &x, &host));
    }
    must(pto_wait(r.rt));
    assert_true(here[0] == 8190 && here[63] == 8190); /* 2 + 4 + ... + 4096 */
    must(pto_runtime_destroy(&r.rt, PTO_WAIT));
    must(pto_tensor_free(&x));
    must(pto_tensor_free(&one));
}

/* ---- Modules that cannot be used ---- */

static void wrong_modules(void **state)
{
    (void)state;
    NEED_GPU();
    pto_gpu_module module = *grid_module_load("grid_module");
    uint32_t blocks = 0;
    module.version++;
    expect_fail(ops.grid_prepare(ops.self, &module, &blocks), PTO_BAD_CONFIG, "compile it again");
    module = *grid_module_load("grid_module");
    module.threads = 100;
    expect_fail(ops.grid_prepare(ops.self, &module, &blocks), PTO_BAD_CONFIG, "100 threads");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strides_and_scalars),
        cmocka_unit_test(shared_memory),
        cmocka_unit_test(a_kernel_that_fails),
        cmocka_unit_test(cancel),
        cmocka_unit_test(it_leaves_and_comes_back),
        cmocka_unit_test(tasks_of_the_host),
        cmocka_unit_test(wrong_modules),
        cmocka_unit_test(random_programs),
    };
    cmocka_set_test_filter(getenv("PTO_TEST_ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
