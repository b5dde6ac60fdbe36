/* test_fault.c - whatever the system refuses: the call fails with a message or works without,
 * nothing leaks, and the same call succeeds when it is repeated (tests/support/fault.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/wait.h>
#include <unistd.h>

#include <pto/dlpack.h>
#include <pto/execute.h>
#include <pto/op.h>
#include <pto/pto.h>
#include <pto/rearrange.h>
#include <pto/trace.h>
#include <pto/work.h>

#include "fault.h"

#include "support.h"
#include <pto/process.h>

#define DIMS(...)                                                                                  \
    (const int64_t[])                                                                              \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

/* ---- A runtime that works ------------------------------------------------------------------- */

static pto_status add_one(const pto_call *call)
{
    const int32_t *from = call->args[0].data;
    int32_t *to = call->args[1].data;
    for (int64_t i = 0; i < call->args[1].shape[0]; i++) {
        to[i * call->args[1].strides[0]] = from[i * call->args[0].strides[0]] + 1;
    }
    return PTO_OK;
}

enum { LENGTH = 32, STEPS = 20 };

/* A chain through managed memory, in nested scopes, with kernels registered on the way. */
static void use_at(pto_runtime *rt, int32_t *memory)
{
    int32_t result[LENGTH];
    pto_kernel kernel;
    pto_tensor x, y;
    TRY(pto_kernel_register(rt, "add one", PTO_VECTOR, add_one, NULL, &kernel));
    TRY(pto_external_tensor(rt, memory, PTO_INT32, 1, DIMS(LENGTH), &x));
    TRY(pto_scope_begin(rt));
    for (int i = 0; i < STEPS; i++) {
        TRY(pto_scope_begin_ex(rt, PTO_SCOPE_BOUNDARY));
        TRY(pto_temp(rt, PTO_INT32, 1, DIMS(LENGTH), &y));
        TRY(pto_submit(rt, kernel, pto_input(&x), pto_output(&y)));
        TRY(pto_submit(rt, kernel, pto_input(&y), pto_output(&x)));
        TRY(pto_scope_end(rt));
    }
    TRY(pto_alloc(rt, PTO_INT32, 1, DIMS(LENGTH), &y));
    TRY(pto_write(rt, &y, memory, LENGTH * sizeof *memory));
    TRY(pto_submit(rt, kernel, pto_input(&x), pto_output(&y)));
    TRY(pto_read(rt, &y, result, sizeof result));
    TRY(pto_scope_end(rt));
    TRY(pto_wait(rt));
    CHECK(result[0] == 2 * STEPS + 1 && result[LENGTH - 1] == 2 * STEPS + 1);
    TRY(pto_check(rt));
}

static void use(pto_runtime *rt)
{
    int32_t memory[LENGTH] = {0};
    use_at(rt, memory);
}

static void use_shared(pto_runtime *rt)
{
    void *memory = NULL;
    TRY(pto_shared_alloc(rt, LENGTH * sizeof(int32_t), &memory));
    use_at(rt, memory);
    TRY(pto_shared_free(rt, memory));
}

static pto_config configuration(pto_place place, uint32_t workers)
{
    pto_config config = PTO_CONFIG_INIT;
    config.place = place;
    config.workers = workers;
    config.ring_tasks = 64;
    config.heap_bytes = 1 << 16;
    return config;
}

/* Created, used and destroyed. */
static void live(const pto_config *config, void (*with)(pto_runtime *rt))
{
    pto_runtime *rt = NULL;
    uint64_t words = ptoi_error_serial();
    pto_status s = pto_runtime_create(&rt, config);
    if (s != PTO_OK) {
        CHECK(fault_excuses(s, words));
        CHECK(rt == NULL);
        fault_calm();
        CHECK(pto_runtime_create(&rt, config) == PTO_OK);
    }
    fault_runtime = rt;
    with(rt);
    fault_runtime = NULL;
    words = ptoi_error_serial();
    s = pto_runtime_destroy(&rt, PTO_WAIT);
    CHECK(rt == NULL);
    /* Destroy always succeeds; only the trace may be lost, which is reported. */
    CHECK(s == PTO_OK || (config && config->trace && fault_excuses(s, words)));
}

static void create_inline(void)
{
    pto_config config = configuration(PTO_PLACE_INLINE, 2);
    config.pin = PTO_PIN_CORES; /* works without any file that it looks at */
    live(&config, use);
}

static void create_thread(void)
{
    pto_config config = configuration(PTO_PLACE_THREAD, 2);
    live(&config, use);
}

static void create_alone(void)
{
    pto_config config = configuration(PTO_PLACE_INLINE, PTO_NO_WORKERS);
    config.levels = 1;
    live(&config, use);
}

static void create_typed(void)
{
    pto_config config = configuration(PTO_PLACE_INLINE, 0);
    config.type_workers[PTO_CUBE] = config.type_workers[PTO_VECTOR] = 1;
    config.levels = PTO_MAX_LEVELS;
    live(&config, use);
}

static void create_mapped_twice(void)
{
    pto_config config = configuration(PTO_PLACE_INLINE, PTO_NO_WORKERS);
    config.map_twice = 1;
    live(&config, use);
}

static void create_processes(void)
{
    pto_config config = configuration(PTO_PLACE_PROCESS, 2);
    config.attach = "pto-fault-test";
    live(&config, use_shared);
}

/* Nobody has that name, and the library has no kernels. */
static void attach(void)
{
    const char *const library = "libm.so.6";
    const pto_worker_options options = {
        .size = sizeof options, .name = "pto-fault-nobody", .libraries = &library};
    pto_worker_options with = options;
    const pto_status s = pto_worker_attach(&with);
    with.n_libraries = 1;
    const pto_status t = pto_worker_attach(&with);
    CHECK(s == PTO_SYSTEM || s == PTO_OUT_OF_MEMORY || s == PTO_BAD_CONFIG);
    CHECK(t == PTO_BAD_FILE || t == PTO_OUT_OF_MEMORY || t == PTO_BAD_CONFIG);
}

static void create_guarded(void)
{
    pto_config config = configuration(PTO_PLACE_INLINE, 1);
    config.guard = 1;
    live(&config, use);
}

static char trace_path[] = "/tmp/pto-fault-XXXXXX.ptrace";

/* Recorded, and converted to other formats. */
static void create_traced(void)
{
    pto_config config = configuration(PTO_PLACE_INLINE, 1);
    config.trace = trace_path;
    live(&config, use);
}

static void convert(void)
{
    static char page[sizeof trace_path + 5];
    snprintf(page, sizeof page, "%s.html", trace_path);
    TRY(pto_trace_convert(trace_path, page));
    (void)unlink(page);
}

static void test_trace(void **state)
{
    (void)state;
    const int file = mkstemps(trace_path, 7);
    assert_true(file >= 0);
    (void)__real_close(file);
    fault_everywhere(create_traced);
    create_traced(); /* whole */
    fault_everywhere(convert);
    (void)unlink(trace_path);
}

static void create_default(void)
{
    live(NULL, use);
}

static void test_create(void **state)
{
    (void)state;
    fault_everywhere(create_inline);
    fault_everywhere(create_thread);
    fault_everywhere(create_alone);
    fault_everywhere(create_typed);
    fault_everywhere(create_mapped_twice);
    fault_everywhere(create_guarded);
    fault_everywhere(create_processes);
    fault_everywhere(attach);
    fault_everywhere(create_default);
}

/* ---- Other functions of a runtime ----------------------------------------------------------- */

static pto_config small(void)
{
    return configuration(PTO_PLACE_INLINE, 1);
}

/* A request with too many tensors for the stack; its kernel refuses it later. */
static void submit_work(pto_runtime *rt)
{
    enum { N = 100 };
    int32_t memory[N];
    pto_tensor inputs[N], output;
    for (int i = 0; i < N; i++) {
        TRY(pto_external_tensor(rt, &memory[i], PTO_INT32, 1, DIMS(1), &inputs[i]));
    }
    int32_t last;
    TRY(pto_external_tensor(rt, &last, PTO_INT32, 1, DIMS(1), &output));
    pto_work work = {.opcode = PTO_WORK_COPY,
                     .inputs = inputs,
                     .n_inputs = N,
                     .outputs = &output,
                     .n_outputs = 1};
    TRY(pto_submit_work(rt, &work, NULL));
    CHECK(pto_wait(rt) == PTO_TASK_FAILED);
    TRY(pto_clear_error(rt));
    use(rt);
}

static void work(void)
{
    pto_config config = small();
    live(&config, submit_work);
}

/* Workers make their own plans, and work without if there is no memory for them. */
static void submit_rearranges(pto_runtime *rt)
{
    enum { ROWS = 24, COLUMNS = 40 };
    int32_t from[ROWS][COLUMNS], to[COLUMNS][ROWS];
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        from[i / COLUMNS][i % COLUMNS] = i;
    }
    pto_tensor x, y, turned;
    TRY(pto_external_tensor(rt, from, PTO_INT32, 2, DIMS(ROWS, COLUMNS), &x));
    TRY(pto_external_tensor(rt, to, PTO_INT32, 2, DIMS(COLUMNS, ROWS), &y));
    TRY(pto_tensor_transpose(&x, 0, 1, &turned));
    for (int i = 0; i < 4; i++) {
        memset(to, 0, sizeof to);
        TRY(pto_submit_rearrange(rt, &y, &turned, i % 2 ? PTO_VECTOR : PTO_ACCELERATOR));
        TRY(pto_wait(rt));
        for (int k = 0; k < ROWS * COLUMNS; k++) {
            CHECK(to[k % COLUMNS][k / COLUMNS] == k);
        }
    }
}

static void rearrange_tasks(void)
{
    pto_config config = small();
    live(&config, submit_rearranges);
}

static pto_status orchestration(pto_runtime *rt, const pto_tensor *inputs,
                                const pto_tensor *outputs, void *params)
{
    const pto_kernel *kernel = params;
    pto_tensor between;
    PTO_TRY(pto_scope_begin(rt));
    PTO_TRY(pto_temp(rt, PTO_INT32, 1, DIMS(8), &between));
    PTO_TRY(pto_submit(rt, *kernel, pto_input(&inputs[0]), pto_output(&between)));
    PTO_TRY(pto_submit(rt, *kernel, pto_input(&between), pto_output(&outputs[0])));
    return pto_scope_end(rt);
}

/* Every second element of both sides, so that each is packed on the way. */
static void execute_on(pto_runtime *rt, pto_orchestrator where)
{
    int32_t in[16], out[16] = {0};
    pto_kernel kernel;
    pto_tensor x, y;
    for (int i = 0; i < 16; i++) {
        in[i] = i;
    }
    TRY(pto_kernel_register(rt, "add one", PTO_VECTOR, add_one, NULL, &kernel));
    TRY(pto_tensor_init(&x, in, sizeof in, PTO_INT32, 1, DIMS(8), DIMS(2), 0));
    TRY(pto_tensor_init(&y, out, sizeof out, PTO_INT32, 1, DIMS(8), DIMS(2), 0));
    pto_execute_options options = {.size = sizeof options, .orchestrator = where};
    TRY(pto_execute_ex(rt, orchestration, &x, 1, &y, 1, &kernel, &options));
    for (int i = 0; i < 16; i++) {
        CHECK(out[i] == (i % 2 ? 0 : i + 2));
    }
    CHECK(pto_get_scope_depth(rt) == 0);
    use(rt);
}

static void execute_here(pto_runtime *rt)
{
    execute_on(rt, PTO_ON_CALLER);
}

static void execute_there(pto_runtime *rt)
{
    execute_on(rt, PTO_ON_THREAD);
}

static void execute(void)
{
    pto_config config = small();
    live(&config, execute_here);
}

static void execute_on_thread(void)
{
    pto_config config = small();
    live(&config, execute_there);
}

static pto_status give(void *self, uint64_t bytes, void **memory)
{
    (void)self;
    *memory = malloc(bytes);
    return *memory ? PTO_OK : PTO_OUT_OF_MEMORY;
}

static void take(void *self, void *memory, uint64_t bytes)
{
    (void)self, (void)bytes;
    free(memory);
}

static pto_status carry(void *self, void *to, const void *from, uint64_t bytes)
{
    (void)self;
    memcpy(to, from, bytes);
    return PTO_OK;
}

static const pto_device_ops carrier = {
    .size = sizeof carrier, .alloc = give, .free = take, .copy_in = carry, .copy_out = carry};

/* More than the table holds at first; the first entry still works. */
static void register_devices(pto_runtime *rt)
{
    pto_device_ops ops;
    for (int32_t i = 0; i < 20; i++) {
        TRY(pto_device_add((pto_device){PTO_DEVICE_ASCEND, i}, &carrier));
    }
    for (int32_t i = 0; i < 20; i++) {
        TRY(pto_device_get((pto_device){PTO_DEVICE_ASCEND, i}, &ops));
    }
    use(rt);
}

static void devices(void)
{
    pto_config config = small();
    live(&config, register_devices);
}

static void test_runtime(void **state)
{
    (void)state;
    fault_everywhere(work);
    fault_everywhere(rearrange_tasks);
    fault_everywhere(execute);
    fault_everywhere(execute_on_thread);
    fault_everywhere(devices);
}

/* ---- Without a runtime ---------------------------------------------------------------------- */

enum { WIDE = 1024, HIGH = 1024 };

static int32_t matrix[HIGH][WIDE], turned_matrix[WIDE][HIGH];

static bool is_turned(const int32_t *data, int64_t high, int64_t wide)
{
    for (int64_t i = 0; i < high * wide; i += 97) {
        if (data[i % wide * high + i / wide] != matrix[i / wide][i % wide]) {
            return false;
        }
    }
    return true;
}

static void rearrange(void)
{
    pto_tensor all, x, y, made, turned;
    pto_rearrange_plan *plan = NULL;
    enum { N = 64 };
    static int32_t to[N][N];
    TRY(pto_tensor_init(&all, matrix, sizeof matrix, PTO_INT32, 2, DIMS(HIGH, WIDE), NULL, 0));
    TRY(pto_tensor_slice(&all, 0, 0, N, 1, &x));
    TRY(pto_tensor_slice(&x, 1, 0, N, 1, &x));
    TRY(pto_tensor_transpose(&x, 0, 1, &turned));
    TRY(pto_tensor_init(&y, to, sizeof to, PTO_INT32, 2, DIMS(N, N), NULL, 0));
    TRY(pto_fill(&y, 0));
    TRY(pto_rearrange(&y, &turned));
    CHECK(is_turned(&to[0][0], N, N));
    TRY(pto_rearrange_new(&turned, &made));
    CHECK(is_turned(made.storage, N, N));
    pto_rearrange_free(&made);
    TRY(pto_rearrange_plan_create(&y, &turned, &plan));
    TRY(pto_rearrange_plan_execute(plan, &y, &turned));
    pto_rearrange_plan_destroy(plan);
    /* More plans than the cache has room for at first; then fewer; then none. */
    for (int64_t rows = 1; rows <= 40; rows++) {
        pto_tensor part, place;
        TRY(pto_tensor_slice(&turned, 0, 0, rows, 1, &part));
        TRY(pto_tensor_slice(&y, 0, 0, rows, 1, &place));
        TRY(pto_rearrange(&place, &part));
    }
    CHECK(is_turned(&to[0][0], N, N));
    TRY(pto_rearrange_cache_resize(5));
    TRY(pto_rearrange(&y, &turned));
    TRY(pto_rearrange_cache_clear_all());
    TRY(pto_rearrange(&y, &turned));
    CHECK(is_turned(&to[0][0], N, N));
}

static void rearrange_parallel(void)
{
    pto_tensor x, y, turned;
    TRY(pto_tensor_init(&x, matrix, sizeof matrix, PTO_INT32, 2, DIMS(HIGH, WIDE), NULL, 0));
    TRY(pto_tensor_init(&y, turned_matrix, sizeof turned_matrix, PTO_INT32, 2, DIMS(WIDE, HIGH),
                        NULL, 0));
    TRY(pto_tensor_transpose(&x, 0, 1, &turned));
    memset(turned_matrix, 0, sizeof turned_matrix);
    TRY(pto_rearrange_parallel(&y, &turned, 4));
    CHECK(is_turned(&turned_matrix[0][0], HIGH, WIDE));
}

static void as_many_as_cores(void)
{
    pto_tensor x, y, turned;
    TRY(pto_tensor_init(&x, matrix, sizeof matrix, PTO_INT32, 2, DIMS(16, WIDE), NULL, 0));
    TRY(pto_tensor_init(&y, turned_matrix, sizeof turned_matrix, PTO_INT32, 2, DIMS(WIDE, 16), NULL,
                        0));
    TRY(pto_tensor_transpose(&x, 0, 1, &turned));
    memset(turned_matrix, 0, sizeof(int32_t) * 16 * WIDE);
    TRY(pto_rearrange_parallel(&y, &turned, 0));
    CHECK(is_turned(&turned_matrix[0][0], 16, WIDE));
}

static void dlpack(void)
{
    pto_tensor x, back;
    pto_dl_managed *legacy = NULL;
    pto_dl_versioned *versioned = NULL;
    bool read_only;
    TRY(pto_tensor_init(&x, matrix, sizeof matrix, PTO_INT32, 2, DIMS(HIGH, WIDE), NULL, 0));
    TRY(pto_dlpack_export(&x, NULL, NULL, &legacy));
    TRY(pto_dlpack_import(legacy, &back));
    pto_dlpack_release(&legacy);
    TRY(pto_dlpack_export_versioned(&x, 0, NULL, NULL, &versioned));
    TRY(pto_dlpack_import_versioned(versioned, &back, &read_only));
    pto_dlpack_release_versioned(&versioned);
}

/* The library for GPUs is not beside this program. */
static void missing_gpu(void)
{
    pto_device_ops ops;
    pto_status s = pto_device_get((pto_device){PTO_DEVICE_NVIDIA, 0}, &ops);
    CHECK(s == PTO_BAD_DEVICE && strstr(pto_error_detail(), "libpto-cuda.so"));
}

static void operator(void)
{
    pto_op *op = NULL;
    TRY(pto_op_create("nothing", &op));
    CHECK(strcmp(pto_op_name(op), "nothing") == 0);
    pto_op_destroy(op);
}

static void tensormap(void)
{
    pto_tensormap *map = NULL;
    pto_tensor x;
    bool found;
    pto_map_task producer;
    TRY(pto_tensor_init(&x, matrix, sizeof matrix, PTO_INT32, 2, DIMS(HIGH, WIDE), NULL, 0));
    TRY(pto_tensormap_init_default(&map));
    TRY(pto_tensormap_insert(map, &x, (pto_map_task){.id = 1}));
    TRY(pto_tensormap_lookup(map, &x, &found, &producer));
    CHECK(found && producer.id == 1);
    pto_tensormap_destroy(&map);
}

static void test_without_a_runtime(void **state)
{
    (void)state;
    fault_everywhere(rearrange);
    fault_everywhere(rearrange_parallel);
    fault_everywhere(as_many_as_cores);
    fault_everywhere(dlpack);
    fault_everywhere(operator);
    fault_everywhere(missing_gpu);
    fault_everywhere(tensormap);
}

/* ---- The first time in a process ------------------------------------------------------------ */

/* Devices of operators are never removed, so they are added in a separate process. */
static void first_time(void)
{
    pto_device_ops ops;
    for (int32_t i = 0; i < 3; i++) {
        TRY(pto_device_add((pto_device){PTO_DEVICE_ASCEND, i}, &carrier));
        TRY(pto_device_get((pto_device){PTO_DEVICE_ASCEND, i}, &ops));
    }
    rearrange();
    create_alone();
}

static void test_first_time(void **state)
{
    (void)state;
    enum { HIT = 10, UNTOUCHED = 11 };
    for (int mode = FAULT_ONCE; mode <= (int)fault_last_mode(); mode++) {
        int ended = HIT;
        uint64_t n = 0;
        for (; ended == HIT; n++) {
            pid_t child = fork();
            assert_true(child >= 0);
            if (child == 0) {
                fault_arm((fault_mode)mode, n);
                first_time();
                bool hit = atomic_load(&fault.hits) > 0;
                fault_calm();
                first_time(); /* whatever the result, from now on everything works */
                if (atomic_load(&fault.bad)) {
                    fprintf(stderr, "the first time, with call %" PRIu64 ": %s\n", n, fault.words);
                    _exit(1);
                }
                _exit(hit ? HIT : UNTOUCHED);
            }
            int status = 0;
            assert_true(waitpid(child, &status, 0) == child);
            assert_true(WIFEXITED(status));
            ended = WEXITSTATUS(status);
        }
        assert_int_equal(ended, UNTOUCHED);
        print_message("%-28s %3" PRIu64 " calls\n", "first time", n - 1);
    }
}

int main(void)
{
    for (int i = 0; i < HIGH * WIDE; i++) {
        matrix[i / WIDE][i % WIDE] = i;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_time), /* while there is one thread, and nothing was used */
        cmocka_unit_test(test_create),     cmocka_unit_test(test_trace),
        cmocka_unit_test(test_runtime),    cmocka_unit_test(test_without_a_runtime),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
