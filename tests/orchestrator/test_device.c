/* test_device.c - tasks, memory and copies on several devices. The simulated devices make every
 * access of the host to their memory a crash, so a test that ends has made none. */
#include "../worker/requests.h"

#include <pthread.h>
#include <time.h>

#include <pto/device.h>
#include <pto/op.h>
#include <pto/sim.h>

static const pto_device cpu = {PTO_DEVICE_CPU, 0}, sim0 = {PTO_DEVICE_SIM, 0},
                        sim1 = {PTO_DEVICE_SIM, 1};

enum { N = 1000 };

/* ---- Kernels ---- */

static pto_kernel add_one, total, lonely, scribble;
static pthread_mutex_t last_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_t last_thread;
static pto_call last_call;

/* inout += 1 */
static pto_status add_one_fn(const pto_call *call)
{
    int32_t *x = call->args[0].data;
    for (int64_t i = 0; i < call->args[0].shape[0]; i++) {
        x[i * call->args[0].strides[0]]++;
    }
    pthread_mutex_lock(&last_lock); /* tasks that do not depend on each other run at once */
    last_thread = pthread_self();
    last_call = *call;
    pthread_mutex_unlock(&last_lock);
    const pto_device d = call->args[0].device;
    return d.type == call->device.type && d.index == call->device.index
               ? PTO_OK
               : pto_fail(PTO_CORRUPT, "the argument is on another device than the call");
}

/* outputs[0] = inputs[0] + inputs[1] */
static pto_status total_fn(const pto_call *call)
{
    const int32_t *a = call->args[0].data, *b = call->args[1].data;
    int32_t *sum = call->args[2].data;
    for (int64_t i = 0; i < call->args[2].shape[0]; i++) {
        sum[i] = a[i] + b[i];
    }
    return PTO_OK;
}

static pto_status lonely_fn(const pto_call *call)
{
    (void)call;
    return PTO_OK;
}

static int create_kernels(void **state)
{
    return create(state) ||
           pto_kernel_register(runtime, "add one", PTO_VECTOR, add_one_fn, NULL, &add_one) ||
           pto_kernel_variant(runtime, add_one, PTO_DEVICE_SIM, add_one_fn, NULL) ||
           pto_kernel_register(runtime, "total", PTO_CUBE, total_fn, NULL, &total) ||
           pto_kernel_variant(runtime, total, PTO_DEVICE_SIM, total_fn, NULL) ||
           pto_kernel_register(runtime, "lonely", PTO_VECTOR, lonely_fn, NULL, &lonely) ||
           pto_kernel_register(runtime, "scribble", PTO_AI_CPU, lonely_fn, NULL, &scribble) ||
           pto_kernel_variant(runtime, scribble, PTO_DEVICE_SIM, lonely_fn, NULL);
}

static int repair(void **state)
{
    (void)state;
    for (int32_t i = 0; i < 4; i++) {
        expect_ok(pto_sim_repair(i));
        expect_ok(pto_sim_configure(i, &(pto_sim_config){.size = sizeof(pto_sim_config),
                                                         .memory = UINT64_C(1) << 30,
                                                         .bandwidth = PTO_SIM_NO_LIMIT,
                                                         .latency_ns = PTO_SIM_NO_LIMIT}));
    }
    return 0;
}

static int end(void **state)
{
    repair(state);
    PTO_IGNORE(pto_clear_error(runtime));
    return destroy(state);
}

static void count_up(int32_t *data, int32_t from)
{
    for (int32_t i = 0; i < N; i++) {
        data[i] = from + i;
    }
}

static void expect_counts(const int32_t *data, int32_t from)
{
    for (int32_t i = 0; i < N; i++) {
        assert_int_equal(data[i], from + i);
    }
}

/* ---- Where memory is, and where tasks run ---- */

static void a_task_runs_where_its_tensors_are(void **state)
{
    (void)state;
    int32_t data[N], back[N] = {0};
    count_up(data, 0);
    PTO_SCOPE(runtime) {
        pto_tensor a, b, c, output;
        expect_ok(pto_temp_on(runtime, sim0, PTO_INT32, 1, DIMS(N), &a));
        expect_ok(pto_alloc_on(runtime, sim0, PTO_INT32, 1, DIMS(N), &b));
        expect_ok(pto_temp_on(runtime, sim0, PTO_INT32, 1, DIMS(N), &c));
        assert_int_equal(a.device.type, PTO_DEVICE_SIM);
        expect_ok(pto_write(runtime, &a, data, sizeof data));
        expect_ok(pto_write(runtime, &b, data, sizeof data));
        pto_task task;
        const pto_param params[] = {pto_inout(&a)};
        expect_ok(pto_submit_task(runtime, add_one, PTO_KERNEL_TYPE, params, 1, &task));
        pto_task_report report;
        expect_ok(pto_task_info(runtime, task, &report));
        expect_ok(pto_submit(runtime, total, pto_input(&a), pto_input(&b), pto_output(&c)));
        expect_ok(pto_task_get_output(runtime, pto_last_task(runtime), 0, &output));
        assert_int_equal(output.device.type, PTO_DEVICE_SIM);
        assert_int_equal(output.device.index, 0);
        expect_ok(pto_read(runtime, &c, back, sizeof back));
        for (int32_t i = 0; i < N; i++) {
            assert_int_equal(back[i], 2 * i + 1);
        }
        /* On a worker of the device, with the device current; not on this thread. */
        assert_false(pthread_equal(last_thread, pthread_self()));
        assert_int_equal(last_call.device.type, PTO_DEVICE_SIM);
        expect_ok(pto_read(runtime, &output, back, sizeof back));
        assert_int_equal(back[1], 3);
        void *address;
        expect_ok(pto_get_buffer_addr(runtime, &c, &address));
        assert_true((uintptr_t)address % 64 == 0);
    }
    expect_ok(pto_wait(runtime));
    expect_ok(pto_check(runtime));
}

static void the_default_device_is_configured(void **state)
{
    (void)state;
    pto_config here = PTO_CONFIG_INIT;
    here.device = sim1;
    expect_ok(pto_runtime_destroy(&runtime, PTO_WAIT));
    config = &here;
    assert_int_equal(create_kernels(state), 0);
    config = NULL;
    int32_t data[N], back[N] = {0};
    count_up(data, 7);
    PTO_SCOPE(runtime) {
        pto_tensor a, b, c;
        pto_buffer buffer;
        expect_ok(pto_temp(runtime, PTO_INT32, 1, DIMS(N), &a));
        expect_ok(pto_alloc(runtime, PTO_INT32, 1, DIMS(N), &b));
        expect_ok(pto_create_buffer(runtime, sizeof data, &buffer));
        expect_ok(pto_managed_tensor(runtime, &buffer, 0, PTO_INT32, 1, DIMS(N), &c));
        const pto_tensor *all[] = {&a, &b, &c};
        for (int i = 0; i < 3; i++) {
            assert_int_equal(all[i]->device.type, PTO_DEVICE_SIM);
            assert_int_equal(all[i]->device.index, 1);
            expect_ok(pto_write(runtime, all[i], data, sizeof data));
            expect_ok(pto_submit(runtime, add_one, pto_inout(all[i])));
            expect_ok(pto_read(runtime, all[i], back, sizeof back));
            expect_counts(back, 8);
        }
        pto_tensor host;
        expect_ok(pto_temp_on(runtime, cpu, PTO_INT32, 1, DIMS(N), &host));
        assert_int_equal(host.device.type, PTO_DEVICE_CPU);
        expect_ok(pto_write(runtime, &host, data, sizeof data));
        expect_ok(pto_submit(runtime, add_one, pto_inout(&host)));
        expect_ok(pto_read(runtime, &host, back, sizeof back));
        expect_counts(back, 8);
        assert_int_equal(last_call.device.type, PTO_DEVICE_CPU);
    }
}

static void what_cannot_run_is_refused(void **state)
{
    (void)state;
    int32_t data[N] = {0};
    pto_tensor host = dense(data, PTO_INT32, 1, DIMS(N));
    PTO_SCOPE(runtime) {
        pto_tensor a, b, c;
        expect_ok(pto_alloc_on(runtime, sim0, PTO_INT32, 1, DIMS(N), &a));
        expect_ok(pto_alloc_on(runtime, sim1, PTO_INT32, 1, DIMS(N), &b));
        expect_ok(pto_temp(runtime, PTO_INT32, 1, DIMS(N), &c));
        expect_fail(pto_submit(runtime, total, pto_input(&a), pto_input(&host), pto_output(&c)),
                    PTO_DEVICES_DIFFER, "total", "sim:0", "cpu:0", "pto_copy");
        expect_fail(pto_submit(runtime, total, pto_input(&b), pto_input(&b), pto_output(&a)),
                    PTO_DEVICES_DIFFER, "sim:1", "sim:0");
        expect_fail(pto_submit(runtime, lonely, pto_inout(&a)), PTO_NOT_IMPLEMENTED, "lonely",
                    "sim:0", "pto_kernel_variant");
        expect_fail(pto_submit(runtime, scribble, pto_inout(&a)), PTO_BAD_WORKER, "scribble",
                    "ai_cpu", "sim:0");
        /* A handle that lies about its device. */
        pto_tensor liar = a;
        liar.device = cpu;
        expect_fail(pto_submit(runtime, add_one, pto_inout(&liar)), PTO_BAD_DEVICE, "cpu:0",
                    "sim:0");
        expect_fail(pto_read(runtime, &liar, data, sizeof data), PTO_BAD_DEVICE, "cpu:0", "sim:0");
        expect_fail(pto_write(runtime, &liar, data, sizeof data), PTO_BAD_DEVICE, "cpu:0");
        liar.device = sim1;
        expect_fail(pto_submit(runtime, add_one, pto_inout(&liar)), PTO_BAD_DEVICE, "sim:1",
                    "sim:0");
        liar = c;
        liar.device = sim0;
        expect_fail(pto_submit(runtime, add_one, pto_output(&liar)), PTO_BAD_DEVICE, "sim:0",
                    "cpu:0");
        liar.device.index = 9;
        expect_fail(pto_submit(runtime, add_one, pto_output(&liar)), PTO_BAD_DEVICE, "sim:9");
        expect_fail(pto_temp_on(runtime, (pto_device){PTO_DEVICE_QY, 3}, PTO_INT32, 1, DIMS(4), &c),
                    PTO_BAD_DEVICE, "qy:3");
        expect_fail(
            pto_alloc_on(runtime, (pto_device){PTO_DEVICE_CPU, 1}, PTO_INT32, 1, DIMS(4), &c),
            PTO_BAD_DEVICE, "cpu:1");
        expect_fail(pto_kernel_variant(runtime, add_one, PTO_DEVICE_SIM, add_one_fn, NULL),
                    PTO_BAD_KERNEL, "add one", "sim");
        expect_fail(pto_kernel_variant(runtime, add_one, (pto_device_type)44, add_one_fn, NULL),
                    PTO_BAD_DEVICE, "44");
        expect_fail(pto_kernel_variant(runtime, add_one, PTO_DEVICE_QY, NULL, NULL),
                    PTO_NULL_ARGUMENT, "fn");
        expect_fail(pto_kernel_variant(runtime, 99999, PTO_DEVICE_QY, add_one_fn, NULL),
                    PTO_BAD_KERNEL, "99999");
        expect_fail(pto_kernel_copies(runtime, 0), PTO_BAD_KERNEL, "0");
        /* The host still works as before. */
        expect_ok(pto_submit(runtime, add_one, pto_inout(&host)));
    }
    expect_ok(pto_wait(runtime));
    assert_int_equal(data[5], 1);
}

/* Memory of the program on a device, the first thing that the runtime learns of it. */
static void memory_of_the_program(void **state)
{
    (void)state;
    pto_device_ops ops;
    void *memory = NULL;
    int32_t data[N], back[N] = {0};
    count_up(data, 3);
    expect_ok(pto_device_get(sim0, &ops));
    expect_ok(ops.alloc(ops.self, sizeof data, &memory));
    pto_tensor there = dense(memory, PTO_INT32, 1, DIMS(N));
    there.device = sim0;
    expect_ok(ops.copy_in(ops.self, memory, data, sizeof data));
    expect_ok(pto_submit(runtime, add_one, pto_inout(&there)));
    pto_tensor half, every;
    expect_ok(pto_tensor_slice(&there, 0, 0, N / 2, 1, &half));
    expect_ok(pto_tensor_slice(&there, 0, 0, N, 2, &every));
    expect_ok(pto_submit(runtime, add_one, pto_inout(&half))); /* ordered by bytes */
    expect_ok(pto_submit(runtime, add_one, pto_inout(&every)));
    expect_ok(pto_read(runtime, &there, back, sizeof back));
    for (int32_t i = 0; i < N; i++) {
        assert_int_equal(back[i], 3 + i + 1 + (i < N / 2) + (i % 2 == 0));
    }
    expect_ok(pto_read(runtime, &every, back, sizeof back)); /* strided */
    assert_int_equal(back[N / 2 - 1], 3 + N - 2 + 2);
    count_up(data, 500);
    expect_ok(pto_write(runtime, &half, data, sizeof data / 2));
    expect_ok(pto_read(runtime, &there, back, sizeof back));
    assert_int_equal(back[10], 510);
    expect_ok(pto_wait(runtime));
    ops.free(ops.self, memory, sizeof data);
}

/* ---- Heaps ---- */

static void heaps_are_bounded_and_recycled(void **state)
{
    (void)state;
    pto_config tiny = PTO_CONFIG_INIT;
    tiny.device_heap_bytes = 3 * 4096;
    tiny.levels = 2;
    expect_ok(pto_runtime_destroy(&runtime, PTO_WAIT));
    config = &tiny;
    assert_int_equal(create_kernels(state), 0);
    config = NULL;
    int32_t data[N], back[N];
    const uint64_t before = ({
        pto_sim_stats stats;
        expect_ok(pto_sim_stats_get(0, &stats));
        stats.used;
    });
    PTO_SCOPE(runtime) {
        pto_tensor a, big;
        for (int32_t round = 0; round < 50; round++) { /* far more than fits */
            PTO_BOUNDARY(runtime) {
                count_up(data, round);
                expect_ok(pto_temp_on(runtime, sim0, PTO_INT32, 1, DIMS(N), &a));
                expect_ok(pto_copy(runtime, &a,
                                   &(pto_tensor){.storage = data,
                                                 .storage_bytes = sizeof data,
                                                 .ndim = 1,
                                                 .dtype = PTO_INT32,
                                                 .shape = {N},
                                                 .strides = {1}}));
                expect_ok(pto_submit(runtime, add_one, pto_inout(&a)));
                expect_ok(pto_read(runtime, &a, back, sizeof back));
                expect_counts(back, round + 1);
            }
        }
        pto_sim_stats stats;
        expect_ok(pto_sim_stats_get(0, &stats));
        assert_int_equal(stats.used - before, 3 * 4096); /* of level 1: no other is in use */
        expect_fail(pto_temp_on(runtime, sim0, PTO_INT32, 1, DIMS(5000), &big), PTO_TOO_LARGE,
                    "sim:0", "12288", "PTO_DEVICE_HEAP", "20032");
        /* Held by a scope: proved, and told with the device. */
        for (int i = 0; i < 3; i++) {
            expect_ok(pto_alloc_on(runtime, sim0, PTO_INT32, 1, DIMS(N), &a));
        }
        expect_fail(pto_alloc_on(runtime, sim0, PTO_INT32, 1, DIMS(N), &a), PTO_STALLED, "heap",
                    "level 0 on sim:0", "PTO_DEVICE_HEAP", "test_device.c");
        pto_runtime_stats all;
        expect_ok(pto_stats(runtime, &all));
        assert_int_equal(all.devices, 2);
        assert_int_equal(all.device[0].device.type, PTO_DEVICE_CPU);
        assert_int_equal(all.device[1].device.type, PTO_DEVICE_SIM);
        assert_true(all.device[1].workers >= 3); /* cube, vector and the engine */
        assert_int_equal(all.device[1].heap[0].size, 3 * 4096);
        assert_int_equal(all.device[1].heap[0].used, 3 * 4032);
        assert_true(all.device[1].heap[1].peak >= 4032); /* its blocks may not be recycled yet */
        assert_int_equal(all.level[0].ring[PTO_RING_HEAP].used, 0); /* nothing on the host */
        pto_stall_report report;
        expect_ok(pto_last_stall(runtime, &report));
        assert_int_equal(report.device.type, PTO_DEVICE_SIM);
        assert_int_equal(report.size, 3 * 4096);
        assert_string_equal(report.variable, "PTO_DEVICE_HEAP");
        char text[2048] = "";
        FILE *out = fmemopen(text, sizeof text, "w");
        assert_non_null(out);
        pto_stall_print(&report, out);
        fclose(out);
        assert_non_null(strstr(text, "heap of level 0 on sim:0"));
        assert_non_null(strstr(text, "PTO_DEVICE_HEAP"));
        /* The heap of the host has room as before. */
        expect_ok(pto_alloc(runtime, PTO_INT32, 1, DIMS(N), &a));
    }
    expect_ok(pto_check(runtime));
    expect_ok(pto_runtime_destroy(&runtime, PTO_WAIT));
    pto_sim_stats stats;
    expect_ok(pto_sim_stats_get(0, &stats));
    assert_int_equal(stats.used, before); /* all memory was given back */
    assert_int_equal(create_kernels(state), 0);
}

static void a_device_without_memory(void **state)
{
    (void)state;
    pto_tensor a;
    int32_t data[N], back[N];
    count_up(data, 1);
    expect_ok(
        pto_sim_configure(2, &(pto_sim_config){.size = sizeof(pto_sim_config), .memory = 1 << 20}));
    const pto_device sim2 = {PTO_DEVICE_SIM, 2};
    PTO_SCOPE(runtime) {
        expect_fail(pto_alloc_on(runtime, sim2, PTO_INT32, 1, DIMS(N), &a), PTO_OUT_OF_MEMORY,
                    "level 0 on sim:2", "67108864", "1048576", "PTO_DEVICE_HEAP");
        /* Nothing is lost: with more memory it works. */
        expect_ok(pto_sim_configure(
            2, &(pto_sim_config){.size = sizeof(pto_sim_config), .memory = 1 << 30}));
        expect_ok(pto_alloc_on(runtime, sim2, PTO_INT32, 1, DIMS(N), &a));
        expect_ok(pto_write(runtime, &a, data, sizeof data));
        expect_ok(pto_submit(runtime, add_one, pto_inout(&a)));
        expect_ok(pto_read(runtime, &a, back, sizeof back));
        expect_counts(back, 2);
    }
}

/* ---- Copies ---- */

static void copies_are_tasks(void **state)
{
    (void)state;
    int32_t data[N], back[N] = {0}, reversed[N] = {0};
    count_up(data, 0);
    pto_tensor from = dense(data, PTO_INT32, 1, DIMS(N)), to = dense(back, PTO_INT32, 1, DIMS(N));
    pto_tensor flip, other;
    expect_ok(
        pto_tensor_init(&flip, reversed, sizeof reversed, PTO_INT32, 1, DIMS(N), DIMS(-1), N - 1));
    PTO_SCOPE(runtime) {
        pto_tensor a, b, c;
        expect_ok(pto_temp_on(runtime, sim0, PTO_INT32, 1, DIMS(N), &a));
        expect_ok(pto_temp_on(runtime, sim1, PTO_INT32, 1, DIMS(N), &b));
        expect_ok(pto_temp(runtime, PTO_INT32, 1, DIMS(N), &c));
        expect_ok(pto_copy(runtime, &a, &from));                /* cpu -> sim:0 */
        expect_ok(pto_submit(runtime, add_one, pto_inout(&a))); /* waits for the copy */
        expect_ok(pto_copy(runtime, &b, &a));                   /* sim:0 -> sim:1 */
        expect_ok(pto_submit(runtime, add_one, pto_inout(&b)));
        expect_ok(pto_copy(runtime, &c, &b)); /* sim:1 -> cpu, managed */
        expect_ok(pto_submit(runtime, add_one, pto_inout(&c)));
        expect_ok(pto_copy(runtime, &to, &c)); /* cpu -> cpu */
        expect_ok(pto_copy(runtime, &flip, &a));
        expect_ok(pto_wait(runtime));
        expect_counts(back, 3);
        for (int32_t i = 0; i < N; i++) {
            assert_int_equal(reversed[N - 1 - i], i + 1);
        }
        expect_ok(pto_tensor_slice(&a, 0, 0, 10, 1, &other));
        expect_fail(pto_copy(runtime, &b, &other), PTO_BAD_SHAPE, "[10]", "[1000]");
        expect_fail(pto_copy(runtime, NULL, &a), PTO_NULL_ARGUMENT, "dst");
        expect_fail(pto_copy(runtime, &a, NULL), PTO_NULL_ARGUMENT, "src");
        other = dense(data, PTO_FLOAT32, 1, DIMS(N));
        expect_fail(pto_copy(runtime, &a, &other), PTO_BAD_DTYPE, "float32", "int32");
    }
}

/* Fill, gather and scatter work where the tensors are. */
static void requests_run_on_devices(void **state)
{
    (void)state;
    int32_t data[12], back[12] = {0};
    int64_t which[] = {2, 0, 2};
    for (int i = 0; i < 12; i++) {
        data[i] = i;
    }
    pto_tensor from = dense(data, PTO_INT32, 2, DIMS(3, 4)),
               index = dense(which, PTO_INT64, 1, DIMS(3));
    PTO_SCOPE(runtime) {
        pto_tensor a, b, i;
        expect_ok(pto_alloc_on(runtime, sim0, PTO_INT32, 2, DIMS(3, 4), &a));
        expect_ok(pto_alloc_on(runtime, sim0, PTO_INT32, 2, DIMS(3, 4), &b));
        expect_ok(pto_temp_on(runtime, sim0, PTO_INT64, 1, DIMS(3), &i));
        expect_ok(pto_copy(runtime, &a, &from));
        expect_ok(pto_copy(runtime, &i, &index));
        pto_tensor both[] = {a, i};
        pto_work gather = {.opcode = PTO_WORK_GATHER,
                           .inputs = both,
                           .n_inputs = 2,
                           .outputs = &b,
                           .n_outputs = 1};
        expect_ok(pto_submit_work(runtime, &gather, NULL));
        expect_ok(pto_read(runtime, &b, back, sizeof back));
        assert_memory_equal(back, ((int32_t[]){8, 9, 10, 11, 0, 1, 2, 3, 8, 9, 10, 11}), 48);
        pto_work fill = {.opcode = PTO_WORK_FILL, .outputs = &b, .n_outputs = 1, .params = {7}};
        expect_ok(pto_submit_work(runtime, &fill, NULL));
        pto_work scatter = {
            .opcode = PTO_WORK_SCATTER, .inputs = both, .n_inputs = 2, .inouts = &b, .n_inouts = 1};
        expect_ok(pto_submit_work(runtime, &scatter, NULL));
        expect_ok(pto_read(runtime, &b, back, sizeof back));
        assert_memory_equal(back, ((int32_t[]){4, 5, 6, 7, 7, 7, 7, 7, 8, 9, 10, 11}), 48);
        pto_work copy = copy_work(PTO_WORK_COPY, &a, &b);
        expect_ok(pto_submit_work(runtime, &copy, NULL));
        expect_ok(pto_read(runtime, &b, back, sizeof back));
        assert_memory_equal(back, data, 48);
        which[1] = 3; /* out of range: checked on the device's side, too */
        expect_ok(pto_copy(runtime, &i, &index));
        expect_ok(pto_submit_work(runtime, &gather, NULL));
        expect_fail(pto_wait(runtime), PTO_TASK_FAILED, "index 3", "position 1");
        expect_ok(pto_clear_error(runtime));
        pto_work unknown = {.opcode = 77, .outputs = &b, .n_outputs = 1};
        expect_fail(pto_submit_work(runtime, &unknown, NULL), PTO_BAD_OPCODE, "77", "sim:0");
    }
}

/* ---- Failures ---- */

static void a_failing_device_fails_its_tasks(void **state)
{
    (void)state;
    int32_t data[N], back[N], kept[N];
    count_up(data, 0);
    pto_tensor from = dense(data, PTO_INT32, 1, DIMS(N)), to = dense(back, PTO_INT32, 1, DIMS(N)),
               other = dense(kept, PTO_INT32, 1, DIMS(N));
    static const struct {
        pto_sim_fault fault;
        const char *says;
    } cases[] = {{PTO_SIM_FAIL_COPY, "told to fail: copy"},
                 {PTO_SIM_FAIL_KERNEL, "told to fail: kernel"},
                 {PTO_SIM_FAIL_LOST, "sim:0 is lost"}};
    for (int i = 0; i < 3; i++) {
        count_up(back, 100);
        PTO_SCOPE(runtime) {
            pto_tensor a, b;
            expect_ok(pto_temp_on(runtime, sim0, PTO_INT32, 1, DIMS(N), &a));
            expect_ok(pto_temp_on(runtime, sim1, PTO_INT32, 1, DIMS(N), &b));
            expect_ok(pto_sim_fail(0, cases[i].fault, 1));
            expect_ok(pto_copy(runtime, &a, &from));
            expect_ok(pto_submit(runtime, add_one, pto_inout(&a)));
            expect_ok(pto_copy(runtime, &to, &a));
            expect_ok(pto_copy(runtime, &b, &from)); /* another device goes on */
            expect_ok(pto_submit(runtime, add_one, pto_inout(&b)));
            expect_ok(pto_copy(runtime, &other, &b));
            expect_fail(pto_wait(runtime), PTO_TASK_FAILED, cases[i].says);
            expect_counts(back, 100); /* as it was */
            expect_counts(kept, 1);
            expect_fail(pto_read(runtime, &a, back, sizeof back), PTO_POISONED, "a task");
            expect_ok(pto_sim_repair(0));
            expect_ok(pto_clear_error(runtime));
        }
    }
    /* A read and a write that fail say so, and change nothing. */
    PTO_SCOPE(runtime) {
        pto_tensor a;
        expect_ok(pto_alloc_on(runtime, sim0, PTO_INT32, 1, DIMS(N), &a));
        expect_ok(pto_write(runtime, &a, data, sizeof data));
        expect_ok(pto_sim_fail(0, PTO_SIM_FAIL_COPY, 1));
        expect_fail(pto_read(runtime, &a, back, sizeof back), PTO_SYSTEM, "read", "sim:0");
        expect_counts(back, 100);
        expect_ok(pto_sim_fail(0, PTO_SIM_FAIL_COPY, 1));
        expect_fail(pto_write(runtime, &a, back, sizeof back), PTO_SYSTEM, "write", "sim:0");
        expect_ok(pto_read(runtime, &a, back, sizeof back));
        expect_counts(back, 0);
    }
}

/* ---- Copies and kernels at the same time ---- */

enum { ROUNDS = 8 };

static uint64_t copies_before;

/* Kernel number i waits for copy number i + 1: they must run at the same time. */
static pto_status patient_fn(const pto_call *call)
{
    const uint64_t want = copies_before + call->args[1].u64 + 2;
    for (int i = 0; i < 20000; i++) {
        pto_sim_stats stats;
        PTO_TRY(pto_sim_stats_get(0, &stats));
        if (stats.copies >= want || want > copies_before + ROUNDS) {
            return PTO_OK;
        }
        nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    }
    return pto_fail(PTO_STALLED, "no copy runs while a kernel does");
}

static void copies_overlap_kernels(void **state)
{
    (void)state;
    pto_kernel patient;
    int32_t data[N];
    count_up(data, 0);
    pto_tensor from = dense(data, PTO_INT32, 1, DIMS(N));
    expect_ok(pto_kernel_register(runtime, "patient", PTO_CUBE, patient_fn, NULL, &patient));
    expect_ok(pto_kernel_variant(runtime, patient, PTO_DEVICE_SIM, patient_fn, NULL));
    expect_ok(pto_sim_configure(
        0, &(pto_sim_config){.size = sizeof(pto_sim_config), .latency_ns = 1000000}));
    pto_sim_stats stats;
    expect_ok(pto_sim_stats_get(0, &stats));
    copies_before = stats.copies;
    PTO_SCOPE(runtime) {
        for (int i = 0; i < ROUNDS; i++) {
            pto_tensor there;
            expect_ok(pto_temp_on(runtime, sim0, PTO_INT32, 1, DIMS(N), &there));
            expect_ok(pto_copy(runtime, &there, &from));
            expect_ok(pto_submit(runtime, patient, pto_inout(&there), pto_scalar(i)));
        }
        expect_ok(pto_wait(runtime));
    }
}

/* ---- Engines of the user ---- */

enum { DOUBLE_IT = PTO_WORK_USER + 3 };

typedef struct doubling {
    pthread_t thread;
    pto_runtime *rt;
    pto_task task;
    int32_t *data;
    int64_t n;
} doubling;

static void *double_later(void *context)
{
    doubling *d = context;
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    for (int64_t i = 0; i < d->n; i++) {
        d->data[i] *= 2;
    }
    PTO_IGNORE(pto_task_complete(d->rt, d->task, PTO_OK));
    return NULL;
}

static pto_status double_start(void *self, const pto_work_call *call)
{
    doubling *d = self;
    pto_device_ops ops;
    PTO_TRY(pto_device_get(call->device, &ops));
    if (call->work->opcode != DOUBLE_IT || call->work->n_inouts != 1 ||
        call->work->params[15] != 42 || call->work->inouts[0].device.type != PTO_DEVICE_SIM) {
        return pto_fail(PTO_CORRUPT, "not the request that was submitted");
    }
    d->rt = call->rt;
    d->task = call->task;
    d->data = (int32_t *)((char *)call->work->inouts[0].storage + ops.shift) +
              call->work->inouts[0].offset;
    d->n = call->work->inouts[0].shape[0];
    return pthread_create(&d->thread, NULL, double_later, d) ? PTO_SYSTEM : PTO_PENDING;
}

static pto_status double_check(void *self, const pto_work *work)
{
    (void)self;
    if (work->n_inouts == 2) {
        return PTO_BAD_SHAPE; /* without a message */
    }
    return work->n_inouts == 1 ? PTO_OK
                               : pto_fail(PTO_BAD_PARAM, "double: %u inouts", work->n_inouts);
}

static void engines_of_the_user(void **state)
{
    (void)state;
    doubling d = {0};
    pto_engine engine = {
        .size = sizeof engine, .self = &d, .check = double_check, .start = double_start};
    int32_t data[N], back[N];
    count_up(data, 1);
    expect_ok(pto_engine_register(sim0, DOUBLE_IT, &engine));
    PTO_SCOPE(runtime) {
        pto_tensor a;
        expect_ok(pto_alloc_on(runtime, sim0, PTO_INT32, 1, DIMS(N), &a));
        expect_ok(pto_write(runtime, &a, data, sizeof data));
        pto_work work = {.opcode = DOUBLE_IT, .inouts = &a, .n_inouts = 1};
        work.params[15] = 42;
        expect_ok(pto_submit_work(runtime, &work, NULL));
        expect_ok(pto_submit(runtime, add_one, pto_inout(&a))); /* waits for the engine */
        expect_ok(pto_read(runtime, &a, back, sizeof back));
        for (int32_t i = 0; i < N; i++) {
            assert_int_equal(back[i], 2 * (1 + i) + 1);
        }
        pthread_join(d.thread, NULL);
        work.n_inouts = 0;
        work.outputs = &a;
        work.n_outputs = 1;
        expect_fail(pto_submit_work(runtime, &work, NULL), PTO_BAD_PARAM,
                    "submit work: opcode 1027: the engine of sim:0 refuses it: double: 0 inouts");
        const pto_tensor two[] = {a, a};
        const pto_work silent = {.opcode = DOUBLE_IT, .inouts = two, .n_inouts = 2};
        expect_fail(pto_submit_work(runtime, &silent, NULL), PTO_BAD_SHAPE, "opcode 1027",
                    "its check did not call pto_fail");
        const pto_work nothing = {.opcode = DOUBLE_IT, .n_inouts = 1};
        expect_fail(pto_submit_work(runtime, &nothing, NULL), PTO_NULL_ARGUMENT,
                    "opcode 1027: inouts is NULL");
        pto_tensor host = dense(data, PTO_INT32, 1, DIMS(N)); /* there is none for the host */
        work.outputs = &host;
        expect_fail(pto_submit_work(runtime, &work, NULL), PTO_BAD_OPCODE, "1027", "cpu:0");
    }
    expect_fail(pto_engine_register(sim0, 1023, &engine), PTO_BAD_OPCODE, "1023", "1024");
    expect_fail(pto_engine_register(sim0, PTO_WORK_NONE, &engine), PTO_BAD_OPCODE, "0");
    expect_fail(pto_engine_register(sim0, DOUBLE_IT, NULL), PTO_NULL_ARGUMENT, "engine");
    expect_fail(pto_engine_register((pto_device){PTO_DEVICE_SIM, 99}, DOUBLE_IT, &engine),
                PTO_BAD_DEVICE, "sim:99");
    engine.start = NULL;
    expect_fail(pto_engine_register(sim0, DOUBLE_IT, &engine), PTO_NULL_ARGUMENT, "start");
    engine.start = double_start;
    engine.size = 1;
    expect_fail(pto_engine_register(sim0, DOUBLE_IT, &engine), PTO_BAD_CONFIG, "1");
}

/* ---- Operators as tasks ---- */

static pto_op_call last_op;
static pthread_t op_thread;

static void *end_op(void *context)
{
    const pto_op_call *call = context;
    PTO_IGNORE(pto_task_complete(call->rt, call->task, PTO_OK));
    return NULL;
}

/* outputs[0] = inputs[0] * params, where the memory is; ends on another thread. */
static pto_status times(const pto_op_call *call)
{
    pto_device_ops ops;
    int32_t by;
    PTO_TRY(pto_device_get(call->device, &ops));
    memcpy(&by, call->params, sizeof by);
    const int32_t *from = (const int32_t *)(const void *)((const char *)call->inputs[0].storage +
                                                          ops.shift);
    int32_t *to = (int32_t *)(void *)((char *)call->outputs[0].storage + ops.shift);
    for (int64_t i = 0; i < call->outputs[0].shape[0]; i++) {
        to[i] = from[i] * by;
    }
    last_op = *call;
    if (!call->task) {
        return PTO_OK;
    }
    return pthread_create(&op_thread, NULL, end_op, &last_op) ? PTO_SYSTEM : PTO_PENDING;
}

static void operators_are_tasks(void **state)
{
    (void)state;
    int32_t data[N], back[N], three = 3;
    count_up(data, 0);
    pto_op *op;
    pto_tensor a, b, host = dense(data, PTO_INT32, 1, DIMS(N));
    expect_ok(pto_op_create("times", &op));
    expect_ok(pto_tensor_empty(sim0, PTO_INT32, 1, DIMS(N), &a));
    expect_ok(pto_tensor_empty(sim0, PTO_INT32, 1, DIMS(N), &b));
    expect_ok(pto_copy(runtime, &a, &host));
    expect_fail(pto_submit_op(runtime, op, &b, 1, &a, 1, &three, sizeof three, NULL),
                PTO_NOT_IMPLEMENTED, "times", "sim");
    expect_ok(pto_op_register(op, PTO_DEVICE_SIM, times, false));
    expect_ok(pto_submit_op(runtime, op, &b, 1, &a, 1, &three, sizeof three, NULL));
    three = 0; /* the params were copied */
    expect_ok(pto_submit(runtime, add_one, pto_inout(&b)));
    expect_ok(pto_read(runtime, &b, back, sizeof back));
    for (int32_t i = 0; i < N; i++) {
        assert_int_equal(back[i], 3 * i + 1);
    }
    assert_true(last_op.task && last_op.rt == runtime);
    pthread_join(op_thread, NULL);
    three = 3;
    expect_ok(pto_op_run(op, &b, 1, &a, 1, &three)); /* without a runtime: no task */
    assert_int_equal(last_op.task, 0);
    expect_fail(pto_submit_op(runtime, op, &b, 1, &host, 1, &three, sizeof three, NULL),
                PTO_DEVICES_DIFFER, "times", "outputs[0]", "sim:0", "inputs[0]", "cpu:0");
    expect_fail(pto_submit_op(runtime, NULL, &b, 1, &a, 1, NULL, 0, NULL), PTO_NULL_ARGUMENT, "op");
    expect_fail(pto_submit_op(runtime, op, &b, 1, &a, 1, data, sizeof data, NULL), PTO_TOO_LARGE,
                "4000", "128");
    double half = 0.5; /* a built-in one, on the host */
    float numbers[8] = {0};
    pto_tensor floats = dense(numbers, PTO_FLOAT32, 1, DIMS(8));
    expect_ok(pto_submit_op(runtime, pto_fill_op(), &floats, 1, NULL, 0, &half, sizeof half, NULL));
    expect_ok(pto_wait(runtime));
    assert_true(numbers[7] == 0.5f);
    expect_ok(pto_tensor_free(&a));
    expect_ok(pto_tensor_free(&b));
    assert_null(b.storage);
    expect_ok(pto_tensor_free(&b)); /* again, and nothing: nothing */
    expect_ok(pto_tensor_free(NULL));
    expect_fail(pto_tensor_empty((pto_device){PTO_DEVICE_QY, 77}, PTO_INT8, 1, DIMS(3), &a),
                PTO_BAD_DEVICE, "qy:77");
    expect_fail(pto_tensor_empty(sim0, PTO_INT8, 1, DIMS(INT64_C(1) << 50), &a), PTO_OUT_OF_MEMORY,
                "1125899906842624", "sim:0");
    expect_fail(pto_tensor_empty(sim0, (pto_dtype)99, 1, DIMS(3), &a), PTO_BAD_DTYPE, "99");
    pto_op_destroy(op);
}

/* ---- Random programs ---- */

enum { BUFFERS = 12, SMALL = 64 };

/* Tensors, copies and tasks spread over the host and two devices, in tiny heaps; a serial model says
 * what they must hold. */
static void random_programs(void **state)
{
    const pto_device places[] = {cpu, sim0, sim1};
    test_rng rng = test_rng_make(test_seed());
    uint64_t copies = 0, kernels = 0, reads = 0;
    for (uint64_t round = test_effort(60); round > 0; round--) {
        pto_config tiny = PTO_CONFIG_INIT;
        const uint64_t room = (uint64_t)test_between(&rng, BUFFERS, 2 * BUFFERS);
        tiny.device_heap_bytes = room * SMALL * 4;
        tiny.heap_bytes = room * SMALL * 4;
        tiny.ring_tasks = (uint32_t)test_between(&rng, 2, 64);
        tiny.levels = 2;
        tiny.place = test_chance(&rng, 30) ? PTO_PLACE_THREAD : PTO_PLACE_INLINE;
        tiny.workers = test_chance(&rng, 30) ? PTO_NO_WORKERS : 1;
        expect_ok(pto_runtime_destroy(&runtime, PTO_WAIT));
        config = &tiny;
        assert_int_equal(create_kernels(state), 0);
        config = NULL;
        for (int lifetime = 0; lifetime < 4; lifetime++) {
            int32_t model[BUFFERS][SMALL], host[SMALL];
            pto_tensor t[BUFFERS];
            int where[BUFFERS];
            PTO_BOUNDARY(runtime) {
                for (int b = 0; b < BUFFERS; b++) {
                    where[b] = (int)test_between(&rng, 0, 2);
                    expect_ok(
                        pto_alloc_on(runtime, places[where[b]], PTO_INT32, 1, DIMS(SMALL), &t[b]));
                    for (int k = 0; k < SMALL; k++) {
                        model[b][k] = (int32_t)test_between(&rng, -1000, 1000);
                    }
                    expect_ok(pto_write(runtime, &t[b], model[b], sizeof model[b]));
                }
                for (int64_t step = test_between(&rng, 1, 120); step > 0; step--) {
                    const int x = (int)test_between(&rng, 0, BUFFERS - 1),
                              y = (int)test_between(&rng, 0, BUFFERS - 1);
                    const int64_t what = test_between(&rng, 0, 9);
                    pto_tensor to = t[x], from = t[y];
                    if (what < 4 && x != y) { /* a copy, often of a part, often reversed */
                        const int64_t n = test_between(&rng, 1, SMALL),
                                      at = test_between(&rng, 0, SMALL - n),
                                      of = test_between(&rng, 0, SMALL - n);
                        const bool flips = test_chance(&rng, 30);
                        expect_ok(pto_tensor_slice(&t[x], 0, at, at + n, 1, &to));
                        expect_ok(pto_tensor_slice(&t[y], 0, flips ? of + n - 1 : of,
                                                   flips ? of - 1 : of + n, flips ? -1 : 1, &from));
                        expect_ok(pto_copy(runtime, &to, &from));
                        for (int64_t k = 0; k < n; k++) {
                            model[x][at + k] = model[y][flips ? of + n - 1 - k : of + k];
                        }
                        copies++;
                    } else if (what < 7) { /* a task on every second element, or on all */
                        const int64_t by = test_between(&rng, 1, 2);
                        expect_ok(pto_tensor_slice(&t[x], 0, 0, SMALL, by, &to));
                        expect_ok(pto_submit(runtime, add_one, pto_inout(&to)));
                        for (int64_t k = 0; k < SMALL; k += by) {
                            model[x][k]++;
                        }
                        kernels++;
                    } else if (what < 9) { /* a sum, refused where it must be */
                        const pto_status s = pto_submit(runtime, total, pto_input(&t[y]),
                                                        pto_input(&t[y]), pto_inout(&t[x]));
                        if (where[x] != where[y]) {
                            assert_int_equal(s, PTO_DEVICES_DIFFER);
                            assert_true(pto_refused(runtime, NULL));
                        } else {
                            expect_ok(s);
                            for (int64_t k = 0; k < SMALL; k++) {
                                model[x][k] = 2 * model[y][k];
                            }
                            kernels++;
                        }
                    } else {
                        expect_ok(pto_read(runtime, &t[x], host, sizeof host));
                        assert_memory_equal(host, model[x], sizeof host);
                        reads++;
                    }
                }
                for (int b = 0; b < BUFFERS; b++) {
                    expect_ok(pto_read(runtime, &t[b], host, sizeof host));
                    assert_memory_equal(host, model[b], sizeof host);
                }
                expect_ok(pto_check(runtime));
            }
        }
    }
    assert_true(copies && kernels && reads);
}

/* A task that is the first to write temporaries of two outer lifetimes: each has a heap of its own level. */
static void temporaries_of_two_lifetimes(void **state)
{
    (void)state;
    int32_t got[4] = {0};
    pto_tensor input, outer, inner;
    PTO_BOUNDARY(runtime) {
        expect_ok(pto_alloc_on(runtime, sim0, PTO_INT32, 1, DIMS(4), &input));
        expect_ok(pto_write(runtime, &input, (int32_t[]){1, 2, 3, 4}, sizeof got));
        expect_ok(pto_temp_on(runtime, sim0, PTO_INT32, 1, DIMS(4), &outer));
        PTO_BOUNDARY(runtime) {
            expect_ok(pto_temp_on(runtime, sim0, PTO_INT32, 1, DIMS(4), &inner));
            PTO_BOUNDARY(runtime) {
                expect_ok(pto_submit(runtime, total, pto_input(&input), pto_input(&input),
                                     pto_output(&outer), pto_output(&inner)));
            }
            expect_ok(pto_submit(runtime, total, pto_input(&outer), pto_input(&input),
                                 pto_output(&inner)));
        }
        expect_ok(pto_read(runtime, &outer, got, sizeof got));
        assert_int_equal(got[3], 8);
    }
    expect_ok(pto_check(runtime));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, create_kernels, end)

/* Work requests are tasks with many parameters. Errors name the tensor as the caller knows it. */
static void errors_name_the_tensor(void **state)
{
    (void)state;
    int32_t data[4];
    pto_tensor host, gone = {0}, fresh, small;
    expect_ok(pto_external_tensor(runtime, data, PTO_INT32, 1, DIMS(4), &host));
    PTO_SCOPE(runtime) {
        expect_ok(pto_alloc_on(runtime, sim0, PTO_INT32, 1, DIMS(4), &gone));
    }
    PTO_SCOPE(runtime) {
        expect_ok(pto_temp_on(runtime, sim0, PTO_INT32, 1, DIMS(4), &fresh));
        expect_fail(pto_copy(runtime, &gone, &host), PTO_STALE, "copy: dst: this managed tensor");
        expect_fail(pto_copy(runtime, &host, &fresh), PTO_NOT_WRITTEN, "copy: src reads a buffer");
        small = host;
        small.storage_bytes = 8;
        expect_fail(pto_copy(runtime, &small, &host), PTO_OUT_OF_BOUNDS, "copy: dst: tensor: ");
        pto_work work = {.opcode = PTO_WORK_COPY,
                         .inputs = &fresh,
                         .n_inputs = 1,
                         .outputs = &host,
                         .n_outputs = 1};
        expect_fail(pto_submit_work(runtime, &work, NULL), PTO_NOT_WRITTEN,
                    "submit work: ", ": inputs[0] reads a buffer");
        work.inputs = &host;
        work.outputs = &gone;
        expect_fail(pto_submit_work(runtime, &work, NULL), PTO_STALE,
                    "submit work: ", ": outputs[0]: this managed tensor");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_task_runs_where_its_tensors_are),
        TEST(the_default_device_is_configured),
        TEST(what_cannot_run_is_refused),
        TEST(memory_of_the_program),
        TEST(heaps_are_bounded_and_recycled),
        TEST(a_device_without_memory),
        TEST(copies_are_tasks),
        TEST(requests_run_on_devices),
        TEST(temporaries_of_two_lifetimes),
        TEST(errors_name_the_tensor),
        TEST(a_failing_device_fails_its_tasks),
        TEST(copies_overlap_kernels),
        TEST(engines_of_the_user),
        TEST(operators_are_tasks),
        TEST(random_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
