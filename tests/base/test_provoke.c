/* test_provoke.c - every code can be provoked, and its detail names the numbers.
 *
 * The table has one row for each code of PTO_STATUS_MAP; a code without a row fails the test. So a
 * new code cannot be added without a way to provoke it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <pto/dlpack.h>
#include <pto/embed.h>
#include <pto/op.h>
#include <pto/pto.h>
#include <pto/rearrange.h>
#include <pto/sim.h>
#include <pto/trace.h>
#include <pto/work.h>

#include "tensor/layout.h"

static float matrix[4][8];

/* The whole matrix: float32[4, 8]. */
static pto_tensor whole(void)
{
    pto_tensor t;
    const int64_t shape[] = {4, 8};
    assert_int_equal(pto_tensor_init(&t, matrix, sizeof matrix, PTO_FLOAT32, 2, shape, NULL, 0),
                     PTO_OK);
    return t;
}

/* A map of `levels` levels with room for at least `entries` accesses each. */
static pto_tensormap *small_map(uint32_t levels, uint32_t entries)
{
    pto_tensormap *map = NULL;
    pto_tensormap_config config = PTO_TENSORMAP_CONFIG_INIT;
    config.levels = levels;
    config.entries = entries;
    assert_int_equal(pto_tensormap_init(&map, &config), PTO_OK);
    return map;
}

/* ---- one provocation each ---------------------------------------------------------------- */

static pto_status ok(void)
{
    pto_tensor t = whole();
    return pto_tensor_check(&t);
}

static pto_status null_argument(void)
{
    const int64_t start[] = {0, 0};
    pto_tensor t = whole();
    return pto_tensor_view(&t, start, NULL, &t);
}

static pto_status bad_dtype(void)
{
    pto_tensor t;
    const int64_t shape[] = {4, 8};
    return pto_tensor_init(&t, matrix, sizeof matrix, (pto_dtype)77, 2, shape, NULL, 0);
}

static pto_status bad_ndim(void)
{
    pto_tensor t;
    const int64_t shape[9] = {0};
    return pto_tensor_init(&t, matrix, sizeof matrix, PTO_FLOAT32, 9, shape, NULL, 0);
}

static pto_status bad_shape(void)
{
    pto_tensor t;
    const int64_t shape[] = {4, -13};
    return pto_tensor_init(&t, matrix, sizeof matrix, PTO_FLOAT32, 2, shape, NULL, 0);
}

static pto_status out_of_bounds(void)
{
    pto_tensor t = whole();
    return pto_tensor_slice(&t, 1, 2, 4711, 1, &t);
}

static pto_status overflow(void)
{
    pto_tensor t;
    const int64_t shape[] = {INT64_MAX, 3};
    return pto_tensor_init(&t, matrix, sizeof matrix, PTO_FLOAT32, 2, shape, NULL, 0);
}

static pto_status bad_dim(void)
{
    pto_tensor t = whole();
    return pto_tensor_slice(&t, 5, 0, 1, 1, &t);
}

static pto_status bad_permutation(void)
{
    pto_tensor t = whole();
    const int32_t perm[] = {1, 1};
    return pto_tensor_permute(&t, perm, &t);
}

static pto_status bad_step(void)
{
    pto_tensor t = whole();
    return pto_tensor_slice(&t, 1, 0, 8, 0, &t);
}

static pto_status needs_copy(void)
{
    pto_tensor t = whole();
    const int64_t shape[] = {32};
    assert_int_equal(pto_tensor_transpose(&t, 0, 1, &t), PTO_OK);
    return pto_tensor_reshape(&t, 1, shape, &t);
}

static pto_status not_broadcastable(void)
{
    pto_tensor t = whole();
    const int64_t shape[] = {4, 17};
    return pto_tensor_broadcast(&t, 2, shape, &t);
}

static pto_status buffer_too_small(void)
{
    pto_tensor t = whole();
    static char storage[128];
    return pto_tensor_contiguous(&t, storage, 127, &t);
}

static pto_status overlap(void)
{
    pto_tensor t = whole();
    return pto_tensor_clone(&t, matrix, sizeof matrix, &t);
}

static pto_status bad_device(void)
{
    static char storage[128];
    pto_tensor t = whole();
    t.device = (pto_device){PTO_DEVICE_NVIDIA, 3};
    return pto_tensor_clone(&t, storage, sizeof storage, &t);
}

static pto_status bad_dlpack(void)
{
    pto_tensor t = whole();
    int64_t shape[] = {4, 2};
    pto_dl_managed managed = {
        .tensor = {.data = matrix,
                   .device = {1, 0},
                   .ndim = 2,
                   .dtype = {2, 32, 19}, /* vectors of 19 floats */
                   .shape = shape},
    };
    return pto_dlpack_import(&managed, &t);
}

static pto_status bad_config(void)
{
    pto_tensormap *map = NULL;
    pto_tensormap_config config = PTO_TENSORMAP_CONFIG_INIT;
    config.levels = 99;
    pto_status status = pto_tensormap_init(&map, &config);
    assert_null(map);
    return status;
}

/* Far more than the free address space: the limit is just above what is in use. */
static pto_status out_of_memory(void)
{
    FILE *statm = fopen("/proc/self/statm", "r");
    assert_non_null(statm);
    char line[128] = "";
    assert_non_null(fgets(line, sizeof line, statm));
    fclose(statm);
    unsigned long long pages = strtoull(line, NULL, 10);
    assert_true(pages > 0);

    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    struct rlimit tight = before;
    tight.rlim_cur = pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)256 << 20);
    assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);

    pto_tensormap *map = NULL;
    pto_tensormap_config config = PTO_TENSORMAP_CONFIG_INIT;
    config.levels = PTO_MAP_MAX_LEVELS;
    config.entries = UINT32_C(1) << 26;
    pto_status status = pto_tensormap_init(&map, &config);

    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_null(map);
    return status;
}

static pto_status full(void)
{
    pto_tensormap *map = small_map(2, 16);
    pto_tensormap_stats stats;
    assert_int_equal(pto_tensormap_get_stats(map, &stats), PTO_OK);
    pto_tensor t = whole();
    pto_status status = PTO_OK;
    /* Readers never supersede each other, so they accumulate. */
    for (uint64_t id = 1; status == PTO_OK && id <= stats.entries_capacity + 1; id++) {
        status = pto_tensormap_insert_read(map, &t, (pto_map_task){.id = id, .level = 1});
    }
    pto_tensormap_destroy(&map);
    return status;
}

static pto_status bad_order(void)
{
    pto_tensormap *map = small_map(1, 16);
    pto_tensor t = whole();
    assert_int_equal(pto_tensormap_insert(map, &t, (pto_map_task){.id = 1234}), PTO_OK);
    pto_status status = pto_tensormap_insert(map, &t, (pto_map_task){.id = 567});
    pto_tensormap_destroy(&map);
    return status;
}

static pto_status bad_level(void)
{
    pto_tensormap *map = small_map(2, 16);
    pto_tensor t = whole();
    pto_status status = pto_tensormap_insert(map, &t, (pto_map_task){.id = 1, .level = 6});
    pto_tensormap_destroy(&map);
    return status;
}

static pto_status bad_access(void)
{
    pto_tensormap *map = small_map(1, 16);
    pto_tensor t = whole();
    size_t n_hits = 0;
    pto_map_param params[] = {{&t, PTO_MAP_READ}, {&t, (pto_map_access)7}};
    pto_status status = pto_tensormap_submit(map, params, 2, (pto_map_task){.id = 1}, NULL, 0,
                                             &n_hits);
    pto_tensormap_destroy(&map);
    return status;
}

static pto_status corrupt(void)
{
    ptoi_layout layout;
    bool empty = true;
    pto_tensor t = whole();
    assert_int_equal(pto_tensor_slice(&t, 1, 2, 4, 1, &t), PTO_OK);
    assert_int_equal(ptoi_layout_of(&t, &layout, &empty), PTO_OK);
    assert_false(empty);
    assert_int_equal(ptoi_layout_check(&layout), PTO_OK);
    layout.len = 8191;
    return ptoi_layout_check(&layout);
}

/* ---- provocations of a runtime ------------------------------------------------------------ */

static pto_status quick_kernel(const pto_call *call)
{
    (void)call;
    return PTO_OK;
}

static pto_status failing_kernel(const pto_call *call)
{
    return pto_fail(PTO_KERNEL_FAILED, "pivot %d of task %d is zero", 17, (int)(call->task & 7));
}

/* It completes its task itself, before it returns. */
static pto_status pending_kernel(const pto_call *call)
{
    if (pto_task_complete(call->rt, call->task, PTO_OK) != PTO_OK) {
        return PTO_CORRUPT;
    }
    return pto_fail(PTO_PENDING, "transfer %d is under way", 12);
}

/* Everything runs on this thread, and the rings are small. */
typedef struct machine {
    pto_runtime *rt;
    pto_kernel quick, failing, pending;
} machine;

static machine machine_start(void)
{
    machine m;
    pto_config config = PTO_CONFIG_INIT;
    config.workers = PTO_NO_WORKERS;
    config.levels = 1;
    config.ring_tasks = 16;
    config.heap_bytes = 4096;
    m.rt = NULL;
    assert_int_equal(pto_runtime_create(&m.rt, &config), PTO_OK);
    assert_int_equal(pto_kernel_register(m.rt, "quick", PTO_CUBE, quick_kernel, NULL, &m.quick),
                     PTO_OK);
    assert_int_equal(
        pto_kernel_register(m.rt, "failing", PTO_CUBE, failing_kernel, NULL, &m.failing), PTO_OK);
    assert_int_equal(
        pto_kernel_register(m.rt, "pending", PTO_CUBE, pending_kernel, NULL, &m.pending), PTO_OK);
    return m;
}

/* Destroys the runtime and keeps the error detail. */
static pto_status machine_stop(machine *m, pto_status status)
{
    char detail[512];
    snprintf(detail, sizeof detail, "%s", pto_error_detail());
    assert_int_equal(pto_runtime_destroy(&m->rt, PTO_CANCEL), PTO_OK);
    assert_null(m->rt);
    return status == PTO_OK ? PTO_OK : pto_fail(status, "%s", detail);
}

/* The status of the first failed task. */
static pto_status failure_of(machine *m)
{
    bool failed = false;
    pto_failure failure;
    assert_int_equal(pto_wait(m->rt), PTO_TASK_FAILED);
    assert_int_equal(pto_get_failure(m->rt, &failed, &failure), PTO_OK);
    assert_true(failed);
    return machine_stop(m, failure.status);
}

static pto_tensor managed(machine *m, int64_t bytes)
{
    pto_tensor t;
    assert_int_equal(pto_temp(m->rt, PTO_UINT8, 1, &bytes, &t), PTO_OK);
    return t;
}

/* The only code that a kernel returns to the runtime, and not the other way round. */
static pto_status pending(void)
{
    machine m = machine_start();
    assert_int_equal(pto_submit_task(m.rt, m.pending, PTO_CUBE, NULL, 0, NULL), PTO_OK);
    assert_int_equal(pto_wait(m.rt), PTO_OK);
    return machine_stop(&m, PTO_PENDING);
}

static pto_status kernel_failed(void)
{
    machine m = machine_start();
    assert_int_equal(pto_submit_task(m.rt, m.failing, PTO_CUBE, NULL, 0, NULL), PTO_OK);
    return failure_of(&m);
}

static pto_status task_failed(void)
{
    machine m = machine_start();
    assert_int_equal(pto_submit_task(m.rt, m.quick, PTO_CUBE, NULL, 0, NULL), PTO_OK);
    assert_int_equal(pto_submit_task(m.rt, m.failing, PTO_CUBE, NULL, 0, NULL), PTO_OK);
    return machine_stop(&m, pto_wait(m.rt));
}

static pto_status poisoned(void)
{
    machine m = machine_start();
    pto_tensor t = whole();
    assert_int_equal(pto_submit(m.rt, m.failing, pto_output(&t)), PTO_OK);
    float copy[4][8];
    return machine_stop(&m, pto_read(m.rt, &t, copy, sizeof copy));
}

static pto_status cancelled(void)
{
    machine m = machine_start();
    assert_int_equal(pto_submit_task(m.rt, m.quick, PTO_CUBE, NULL, 0, NULL), PTO_OK);
    pto_cancel(m.rt);
    return machine_stop(&m, pto_wait(m.rt));
}

static pto_status stalled(void)
{
    machine m = machine_start();
    assert_int_equal(pto_scope_begin(m.rt), PTO_OK);
    pto_tensor a = managed(&m, 4096), b = managed(&m, 1);
    assert_int_equal(pto_submit(m.rt, m.quick, pto_output(&a)), PTO_OK);
    return machine_stop(&m, pto_submit(m.rt, m.quick, pto_output(&b)));
}

static pto_status too_large(void)
{
    machine m = machine_start();
    assert_int_equal(pto_scope_begin(m.rt), PTO_OK);
    pto_tensor a = managed(&m, 4096), b = managed(&m, 1);
    return machine_stop(&m, pto_submit(m.rt, m.quick, pto_output(&a), pto_output(&b)));
}

static pto_status bad_task(void)
{
    machine m = machine_start();
    return machine_stop(&m, pto_task_complete(m.rt, 80, PTO_OK));
}

static pto_status bad_kernel(void)
{
    machine m = machine_start();
    return machine_stop(&m, pto_submit_task(m.rt, 4242, PTO_KERNEL_TYPE, NULL, 0, NULL));
}

static pto_status bad_worker(void)
{
    machine m = machine_start();
    pto_kernel kernel = 0;
    return machine_stop(
        &m, pto_kernel_register(m.rt, "k", (pto_worker_type)9, quick_kernel, NULL, &kernel));
}

static pto_status bad_param(void)
{
    machine m = machine_start();
    pto_param unknown = pto_scalar(0);
    unknown.kind = (pto_param_kind)55;
    return machine_stop(&m, pto_submit(m.rt, m.quick, pto_scalar(1), unknown));
}

static pto_status stale(void)
{
    machine m = machine_start();
    assert_int_equal(pto_scope_begin(m.rt), PTO_OK);
    pto_tensor t = managed(&m, 64);
    assert_int_equal(pto_scope_end(m.rt), PTO_OK);
    return machine_stop(&m, pto_submit(m.rt, m.quick, pto_output(&t)));
}

static pto_status bad_version(void)
{
    machine m = machine_start();
    assert_int_equal(pto_scope_begin(m.rt), PTO_OK);
    pto_tensor t = managed(&m, 64);
    assert_int_equal(pto_submit(m.rt, m.quick, pto_output(&t)), PTO_OK);
    t.version = 31;
    return machine_stop(&m, pto_submit(m.rt, m.quick, pto_input(&t)));
}

static pto_status no_scope(void)
{
    machine m = machine_start();
    pto_buffer buffer;
    return machine_stop(&m, pto_create_buffer(m.rt, 321, &buffer));
}

static pto_status open_scope(void)
{
    machine m = machine_start();
    assert_int_equal(pto_scope_begin_at(m.rt, 0, "outer.c", 43), PTO_OK);
    assert_int_equal(pto_scope_begin_at(m.rt, 0, "inner.c", 44), PTO_OK);
    pto_status status = pto_runtime_destroy(&m.rt, PTO_WAIT);
    assert_non_null(m.rt);
    return machine_stop(&m, status);
}

static pto_status bad_scope(void)
{
    machine m = machine_start();
    return machine_stop(&m, pto_scope_end(m.rt));
}

static pto_status not_contiguous(void)
{
    machine m = machine_start();
    assert_int_equal(pto_scope_begin(m.rt), PTO_OK);
    pto_tensor t = managed(&m, 64);
    assert_int_equal(pto_tensor_slice(&t, 0, 0, 63, 1, &t), PTO_OK);
    return machine_stop(&m, pto_submit(m.rt, m.quick, pto_output(&t)));
}

static pto_status not_written(void)
{
    machine m = machine_start();
    assert_int_equal(pto_scope_begin(m.rt), PTO_OK);
    pto_tensor t = managed(&m, 77);
    return machine_stop(&m, pto_submit(m.rt, m.quick, pto_input(&t)));
}

static pto_status bad_memory(void)
{
    machine m = machine_start();
    void *address = NULL;
    int64_t size = 48;
    assert_int_equal(pto_scope_begin(m.rt), PTO_OK);
    pto_tensor t = managed(&m, 64);
    assert_int_equal(pto_submit(m.rt, m.quick, pto_output(&t)), PTO_OK);
    assert_int_equal(pto_get_buffer_addr(m.rt, &t, &address), PTO_OK);
    return machine_stop(&m, pto_external_tensor(m.rt, address, PTO_UINT8, 1, &size, &t));
}

static void *wait_elsewhere(void *argument)
{
    static char detail[512];
    machine *m = argument;
    pto_status status = pto_wait(m->rt);
    snprintf(detail, sizeof detail, "%s", pto_error_detail());
    return status == PTO_WRONG_THREAD ? detail : NULL;
}

static pto_status wrong_thread(void)
{
    machine m = machine_start();
    pthread_t thread;
    void *detail = NULL;
    assert_int_equal(pthread_create(&thread, NULL, wait_elsewhere, &m), 0);
    assert_int_equal(pthread_join(thread, &detail), 0);
    assert_non_null(detail);
    PTO_IGNORE(pto_fail(PTO_WRONG_THREAD, "%s", (char *)detail));
    return machine_stop(&m, PTO_WRONG_THREAD);
}

static pto_status bad_opcode(void)
{
    machine m = machine_start();
    pto_work work = {.opcode = 96};
    pto_status status = pto_submit_work(m.rt, &work, NULL);
    return status == PTO_OK ? failure_of(&m) : machine_stop(&m, status);
}

static pto_status bad_index(void)
{
    machine m = machine_start();
    pto_tensor t;
    assert_int_equal(pto_submit_task(m.rt, m.quick, PTO_CUBE, NULL, 0, NULL), PTO_OK);
    assert_int_equal(pto_scope_begin(m.rt), PTO_OK);
    pto_task task = 0;
    assert_int_equal(pto_submit_task(m.rt, m.quick, PTO_CUBE, NULL, 0, &task), PTO_OK);
    return machine_stop(&m, pto_task_get_output(m.rt, task, 65, &t));
}

/* A runtime needs a memory file, and none is available. */
static pto_status system_refuses(void)
{
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    pto_runtime *rt = NULL;
    pto_status status = pto_runtime_create(&rt, NULL);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_null(rt);
    return status;
}

/* ---- provocations of operators ------------------------------------------------------------ */

static pto_status not_implemented(void)
{
    pto_tensor t = whole();
    t.device = (pto_device){PTO_DEVICE_KUNLUN, 38};
    return pto_fill(&t, 1);
}

static pto_status devices_differ(void)
{
    pto_tensor a = whole(), b = whole();
    b.device = (pto_device){PTO_DEVICE_KUNLUN, 39};
    return pto_op_run(pto_fill_op(), &a, 1, &b, 1, NULL);
}

static pto_status self_overlap(void)
{
    static float other[4][8];
    pto_tensor src = whole(), dst = whole();
    dst.storage = other;
    dst.strides[0] = 5;
    return pto_rearrange(&dst, &src);
}

static pto_status bad_plan(void)
{
    static _Alignas(64) float other[4][8];
    pto_tensor src = whole(), dst = whole();
    pto_rearrange_plan *plan = NULL;
    dst.storage = other;
    assert_int_equal(pto_rearrange_plan_create(&dst, &src, &plan), PTO_OK);
    dst.strides[0] = 1;
    dst.strides[1] = 4;
    pto_status status = pto_rearrange_plan_execute(plan, &dst, &src);
    pto_rearrange_plan_destroy(plan);
    return status;
}

/* This program is not a trace file. */
static pto_status bad_file(void)
{
    return pto_trace_convert("/proc/self/exe", "test_provoke.json");
}

static pto_status bad_declaration(void)
{
    machine m = machine_start();
    pto_kernel gemm;
    assert_int_equal(pto_kernel_register(m.rt, "gemm", PTO_CUBE, quick_kernel, NULL, &gemm),
                     PTO_OK);
    return machine_stop(&m, pto_kernel_declare(m.rt, gemm, "in f32[2] a, out f31[2] b, i64 n"));
}

static pto_status mismatch(void)
{
    machine m = machine_start();
    pto_kernel gemm;
    static double doubles[4][8];
    pto_tensor a = whole(), b;
    assert_int_equal(pto_external_tensor(m.rt, doubles, PTO_FLOAT64, 2, a.shape, &b), PTO_OK);
    assert_int_equal(pto_kernel_register(m.rt, "gemm", PTO_CUBE, quick_kernel, NULL, &gemm),
                     PTO_OK);
    assert_int_equal(pto_kernel_declare(m.rt, gemm, "in f32[2] a, in f32[2] b, f64 alpha"), PTO_OK);
    return machine_stop(&m, pto_submit(m.rt, gemm, pto_input(&a), pto_input(&b), pto_scalar(0.5)));
}

static pto_status refused(void)
{
    machine m = machine_start();
    PTO_IGNORE(pto_scope_end(m.rt));
    return machine_stop(&m, pto_wait(m.rt));
}

static pto_status device_lost(void)
{
    pto_device_ops ops;
    PTO_TRY(pto_device_get((pto_device){PTO_DEVICE_SIM, 6}, &ops));
    PTO_TRY(pto_sim_fail(6, PTO_SIM_FAIL_LOST, 1));
    return ops.begin(ops.self);
}

static pto_status unknown_option(void)
{
    size_t count;
    assert_int_equal(setenv("PTO_WORKER", "4", 1), 0);
    const pto_status status = pto_options_list(NULL, 0, &count);
    assert_int_equal(unsetenv("PTO_WORKER"), 0);
    return status;
}

static bool always(void *user)
{
    return user == NULL;
}

static pto_status not_yet(const pto_call *call)
{
    *(pto_task *)call->user = call->task;
    return PTO_PENDING;
}

static pto_status interrupted(void)
{
    machine m = machine_start();
    pto_kernel kernel;
    pto_task task;
    assert_int_equal(pto_kernel_register(m.rt, "later", PTO_VECTOR, not_yet, &task, &kernel),
                     PTO_OK);
    assert_int_equal(pto_set_interrupt(m.rt, always, NULL), PTO_OK);
    assert_int_equal(pto_submit(m.rt, kernel), PTO_OK);
    const pto_status s = pto_wait(m.rt);
    assert_int_equal(pto_set_interrupt(m.rt, NULL, NULL), PTO_OK);
    while (pto_task_complete(m.rt, pto_last_task(m.rt), PTO_OK) != PTO_OK) {
    }
    assert_int_equal(pto_wait(m.rt), PTO_OK);
    PTO_IGNORE(pto_fail(s, "the wait was ended by the function given to pto_set_interrupt"));
    return machine_stop(&m, s);
}

static pto_status exits(const pto_call *call)
{
    (void)call;
    _exit(43);
}

static pto_status worker_lost(void)
{
    pto_runtime *rt = NULL;
    pto_kernel kernel;
    pto_config config = PTO_CONFIG_INIT;
    config.place = PTO_PLACE_PROCESS;
    config.workers = 1;
    assert_int_equal(pto_runtime_create(&rt, &config), PTO_OK);
    assert_int_equal(pto_kernel_register(rt, "exits", PTO_VECTOR, exits, NULL, &kernel), PTO_OK);
    assert_int_equal(pto_submit(rt, kernel), PTO_OK);
    const pto_status status = pto_wait(rt);
    char detail[512];
    snprintf(detail, sizeof detail, "%s", pto_error_detail());
    assert_int_equal(pto_runtime_destroy(&rt, PTO_CANCEL), PTO_OK);
    return status ? pto_fail(status, "%s", detail) : PTO_OK;
}

/* ---- the table --------------------------------------------------------------------------- */

typedef struct provocation {
    pto_status (*run)(void);
    const char *says[3]; /* numbers, or names of arguments, that the detail must have */
} provocation;

static const provocation provocations[] = {
    [PTO_OK] = {ok, {NULL}},
    [PTO_NULL_ARGUMENT] = {null_argument, {"view", "shape"}},
    [PTO_BAD_DTYPE] = {bad_dtype, {"77"}},
    [PTO_BAD_NDIM] = {bad_ndim, {"9", "8"}},
    [PTO_BAD_SHAPE] = {bad_shape, {"-13"}},
    [PTO_OUT_OF_BOUNDS] = {out_of_bounds, {"4711", "1", "8"}},
    [PTO_OVERFLOW] = {overflow, {"9223372036854775807", "3"}},
    [PTO_BAD_DIM] = {bad_dim, {"5", "2"}},
    [PTO_BAD_PERMUTATION] = {bad_permutation, {"1"}},
    [PTO_BAD_STEP] = {bad_step, {"0", "1"}},
    [PTO_NEEDS_COPY] = {needs_copy, {"32", "8", "1"}},
    [PTO_NOT_BROADCASTABLE] = {not_broadcastable, {"17", "8"}},
    [PTO_BUFFER_TOO_SMALL] = {buffer_too_small, {"127", "128"}},
    [PTO_OVERLAP] = {overlap, {"128"}},
    [PTO_BAD_DEVICE] = {bad_device, {"nvidia", "3"}},
    [PTO_BAD_DLPACK] = {bad_dlpack, {"19"}},
    [PTO_BAD_CONFIG] = {bad_config, {"levels", "99", "8"}},
    [PTO_OUT_OF_MEMORY] = {out_of_memory, {"bytes", "536870912", "8"}},
    [PTO_FULL] = {full, {"1", "16"}},
    [PTO_BAD_ORDER] = {bad_order, {"567", "1234"}},
    [PTO_BAD_LEVEL] = {bad_level, {"6", "2"}},
    [PTO_CORRUPT] = {corrupt, {"8191"}},
    [PTO_BAD_ACCESS] = {bad_access, {"7", "1"}},
    [PTO_PENDING] = {pending, {"12"}},
    [PTO_KERNEL_FAILED] = {kernel_failed, {"failing", "17"}},
    [PTO_TASK_FAILED] = {task_failed, {"1", "failing", "17"}},
    [PTO_POISONED] = {poisoned, {"failed"}},
    [PTO_CANCELLED] = {cancelled, {"cancelled"}},
    [PTO_STALLED] = {stalled, {"heap", "4096", "quick"}},
    [PTO_TOO_LARGE] = {too_large, {"4096", "4160"}},
    [PTO_BAD_TASK] = {bad_task, {"80"}},
    [PTO_BAD_KERNEL] = {bad_kernel, {"4242"}},
    [PTO_BAD_WORKER] = {bad_worker, {"9"}},
    [PTO_BAD_PARAM] = {bad_param, {"1", "55"}},
    [PTO_STALE] = {stale, {"test_provoke.c"}},
    [PTO_BAD_VERSION] = {bad_version, {"31", "0"}},
    [PTO_NO_SCOPE] = {no_scope, {"321"}},
    [PTO_OPEN_SCOPE] = {open_scope, {"2", "inner", "44"}},
    [PTO_BAD_SCOPE] = {bad_scope, {"end"}},
    [PTO_NOT_CONTIGUOUS] = {not_contiguous, {"64"}},
    [PTO_NOT_WRITTEN] = {not_written, {"0", "77"}},
    [PTO_BAD_MEMORY] = {bad_memory, {"48"}},
    [PTO_WRONG_THREAD] = {wrong_thread, {"wait", "thread"}},
    [PTO_BAD_OPCODE] = {bad_opcode, {"96"}},
    [PTO_BAD_INDEX] = {bad_index, {"65", "0"}},
    [PTO_SYSTEM] = {system_refuses, {"files"}},
    [PTO_NOT_IMPLEMENTED] = {not_implemented, {"fill", "kunlun", "38"}},
    [PTO_DEVICES_DIFFER] = {devices_differ, {"cpu", "kunlun", "39"}},
    [PTO_SELF_OVERLAP] = {self_overlap, {"4", "8", "5"}},
    [PTO_BAD_PLAN] = {bad_plan, {"dst", "4", "8"}},
    [PTO_BAD_FILE] = {bad_file, {"8", "PTOTRACE"}},
    [PTO_BAD_DECLARATION] = {bad_declaration, {"gemm", "18", "f31"}},
    [PTO_MISMATCH] = {mismatch, {"1", "f64", "f32"}},
    [PTO_REFUSED] = {refused, {"pto_scope_end", "test_provoke.c", "PTO_BAD_SCOPE"}},
    [PTO_INTERRUPTED] = {interrupted, {"pto_set_interrupt"}},
    [PTO_UNKNOWN_OPTION] = {unknown_option, {"4", "PTO_WORKERS"}},
    [PTO_WORKER_LOST] = {worker_lost, {"43", "exits", "0"}},
    [PTO_DEVICE_LOST] = {device_lost, {"sim:6"}},
};

/* Whether `text` contains `word` as a whole word: the 8 of "18" or "82" does not count. */
static bool says(const char *text, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word)) {
        bool begins = at == text || !isalnum((unsigned char)at[-1]);
        if (begins && !isalnum((unsigned char)at[length])) {
            return true;
        }
    }
    return false;
}

static void every_code_can_be_provoked(void **state)
{
    (void)state;
    static const struct {
        pto_status status;
        const char *name;
    } codes[] = {
#define CODE(name, value, text, hint) {PTO_##name, #name},
        PTO_STATUS_MAP(CODE)
#undef CODE
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        size_t code = (size_t)codes[i].status;
        if (code >= sizeof provocations / sizeof *provocations || !provocations[code].run) {
            fail_msg("PTO_%s: no provocation in this table", codes[i].name);
        }
        const provocation *p = &provocations[code];

        /* A mark that no function sets, to see that a new detail is set. */
        char before[512];
        snprintf(before, sizeof before, "%s", pto_error_detail());
        pto_status status = p->run();
        const char *detail = pto_error_detail();
        print_message("  PTO_%s: \"%s\"\n", codes[i].name, status ? detail : "");
        if (status != codes[i].status) {
            fail_msg("PTO_%s: got %s \"%s\"", codes[i].name, pto_status_name(status), detail);
        }
        if (status == PTO_OK) {
            assert_string_equal(detail, before);
            continue;
        }
        assert_true(*detail);
        assert_string_not_equal(detail, before);
        for (size_t w = 0; w < sizeof p->says / sizeof *p->says && p->says[w]; w++) {
            if (!says(detail, p->says[w])) {
                fail_msg("PTO_%s: \"%s\" does not say %s", codes[i].name, detail, p->says[w]);
            }
        }
        /* All but these few have numbers in their detail. */
        bool wordy = status == PTO_NULL_ARGUMENT || status == PTO_POISONED ||
                     status == PTO_CANCELLED || status == PTO_INTERRUPTED ||
                     status == PTO_BAD_SCOPE || status == PTO_WRONG_THREAD || status == PTO_SYSTEM;
        if (!wordy && !strpbrk(detail, "0123456789")) {
            fail_msg("PTO_%s: \"%s\" has no number", codes[i].name, detail);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_can_be_provoked),
    };
    return cmocka_run_group_tests_name("provoke", tests, NULL, NULL);
}
