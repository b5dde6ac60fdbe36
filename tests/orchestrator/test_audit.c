/* test_audit.c - no code of the host touches memory of a device: one test for each way in. The memory
 * of a simulated device is mapped with no access for the host, so a test that ends has touched none,
 * and what cannot be done on the device must be refused with its name. */
#include "../worker/requests.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pto/device.h>
#include <pto/dlpack.h>
#include <pto/execute.h>
#include <pto/op.h>
#include <pto/rearrange.h>
#include <pto/sim.h>

static const pto_device cpu = {PTO_DEVICE_CPU, 0}, sim0 = {PTO_DEVICE_SIM, 0},
                        sim1 = {PTO_DEVICE_SIM, 1};

enum { N = 16, BYTES = N * sizeof(int32_t) };

static pthread_mutex_t last_lock = PTHREAD_MUTEX_INITIALIZER; /* tasks may run at once */
static pto_call last_call;
static pto_arg last_args[2];
static atomic_bool held; /* set by a test: kernels wait until it is not */

/* inout += 1. Keeps what it was called with. */
static pto_status add_one_fn(const pto_call *call)
{
    int32_t *x = call->args[0].data;
    while (atomic_load(&held)) {
        usleep(100);
    }
    for (int i = 0; i < N; i++) {
        x[i]++;
    }
    pthread_mutex_lock(&last_lock);
    last_call = *call;
    memcpy(last_args, call->args, call->n_args * sizeof *last_args);
    pthread_mutex_unlock(&last_lock);
    return PTO_OK;
}

static pto_kernel add_one, lonely;

static int begin(void **state)
{
    const pto_config eager = {.size = sizeof eager, .inline_ns = 1000000000}; /* any short kernel */
    config = &eager;
    const int failed = create(state);
    config = NULL;
    return failed ||
           pto_kernel_register(runtime, "add one", PTO_VECTOR, add_one_fn, NULL, &add_one) ||
           pto_kernel_variant(runtime, add_one, PTO_DEVICE_SIM, add_one_fn, NULL) ||
           pto_kernel_register(runtime, "lonely", PTO_VECTOR, add_one_fn, NULL, &lonely);
}

static pto_tensor empty_on(pto_device device)
{
    pto_tensor t;
    expect_ok(pto_tensor_empty(device, PTO_INT32, 1, DIMS(N), &t));
    return t;
}

static bool is_on(const pto_tensor *t, pto_device device)
{
    return t->device.type == device.type && t->device.index == device.index;
}

/* The signal that ends a process of the host that reads the address; 0: none does. */
static int signal_of(const void *address)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        volatile const char *at = address;
        (void)*at;
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) ? -1 : 0;
}

static void heaps_of_a_device_are_its_memory(void **state)
{
    (void)state;
    PTO_SCOPE(runtime) {
        pto_tensor t, here;
        void *there = NULL, *on_host = NULL;
        expect_ok(pto_alloc_on(runtime, sim0, PTO_INT32, 1, DIMS(N), &t));
        expect_ok(pto_alloc(runtime, PTO_INT32, 1, DIMS(N), &here));
        expect_ok(pto_get_buffer_addr(runtime, &t, &there));
        expect_ok(pto_get_buffer_addr(runtime, &here, &on_host));
        assert_int_not_equal(signal_of(there), 0);
        assert_int_equal(signal_of(on_host), 0);
    }
}

/* They give their copy to the engine, and take no task: nothing is submitted. */
static void read_and_write(void **state)
{
    (void)state;
    int32_t data[N] = {1, 2, 3}, back[N] = {0};
    pto_sim_stats before, after;
    pto_runtime_stats tasks;
    pto_tensor mine = empty_on(sim0), flipped;
    PTO_SCOPE(runtime) {
        pto_tensor t;
        expect_ok(pto_temp_on(runtime, sim0, PTO_INT32, 1, DIMS(N), &t));
        expect_ok(pto_sim_stats_get(0, &before));
        expect_ok(pto_write(runtime, &t, data, sizeof data));
        expect_ok(pto_read(runtime, &t, back, sizeof back));
        assert_memory_equal(back, data, sizeof data);
        expect_ok(pto_write(runtime, &mine, data, sizeof data));
        expect_ok(pto_tensor_slice(&mine, 0, N - 1, -1, -1, &flipped));
        expect_ok(pto_read(runtime, &flipped, back, sizeof back));
        assert_int_equal(back[N - 1], 1);
        expect_ok(pto_sim_stats_get(0, &after));
        assert_int_equal(after.copies - before.copies, 4);
        expect_ok(pto_stats(runtime, &tasks));
        assert_int_equal(tasks.submitted, 0);
    }
    expect_ok(pto_tensor_free(&mine));
}

/* A read or write leaves nothing behind by which a kernel of the host could be given the memory. */
static void a_kernel_of_the_host_is_refused(void **state)
{
    (void)state;
    int32_t data[N] = {0};
    pto_tensor t = empty_on(sim0), host = dense(data, PTO_INT32, 1, DIMS(N));
    for (int i = 0; i < 3; i++) { /* the kernel is known to be short: it would run inline */
        expect_ok(pto_submit(runtime, lonely, pto_inout(&host)));
    }
    expect_ok(pto_write(runtime, &t, data, sizeof data));
    expect_ok(pto_read(runtime, &t, data, sizeof data));
    for (int i = 0; i < 3; i++) {
        expect_fail(pto_submit(runtime, lonely, pto_inout(&t)), PTO_NOT_IMPLEMENTED, "lonely",
                    "sim:0");
        expect_ok(pto_submit(runtime, add_one, pto_inout(&t)));
    }
    expect_ok(pto_read(runtime, &t, data, sizeof data));
    assert_int_equal(data[0], 6); /* three times on either device */
    expect_ok(pto_tensor_free(&t));
}

/* Each of the five built-in requests. */
static void work_requests(void **state)
{
    (void)state;
    int32_t rows[] = {3, 1}, data[8] = {0, 1, 2, 3, 4, 5, 6, 7}, back[8];
    pto_tensor a, b, two, index, host = dense(data, PTO_INT32, 2, DIMS(4, 2)),
                                 host_rows = dense(rows, PTO_INT32, 1, DIMS(2));
    expect_ok(pto_tensor_empty(sim0, PTO_INT32, 2, DIMS(4, 2), &a));
    expect_ok(pto_tensor_empty(sim0, PTO_INT32, 2, DIMS(4, 2), &b));
    expect_ok(pto_tensor_empty(sim0, PTO_INT32, 2, DIMS(2, 2), &two));
    expect_ok(pto_tensor_empty(sim0, PTO_INT32, 1, DIMS(2), &index));
    pto_sim_stats before, after;
    expect_ok(pto_sim_stats_get(0, &before));
    expect_ok(pto_copy(runtime, &a, &host)); /* STRIDED_COPY */
    expect_ok(pto_copy(runtime, &index, &host_rows));
    const pto_tensor picked[] = {a, index}, put[] = {two, index};
    const pto_work requests[] = {
        {.opcode = PTO_WORK_COPY, .inputs = &a, .n_inputs = 1, .outputs = &b, .n_outputs = 1},
        {.opcode = PTO_WORK_GATHER,
         .inputs = picked,
         .n_inputs = 2,
         .outputs = &two,
         .n_outputs = 1},
        {.opcode = PTO_WORK_FILL, .outputs = &b, .n_outputs = 1, .params = {9}},
        {.opcode = PTO_WORK_SCATTER, .inputs = put, .n_inputs = 2, .inouts = &b, .n_inouts = 1}};
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        expect_ok(pto_submit_work(runtime, &requests[i], NULL));
    }
    expect_ok(pto_read(runtime, &b, back, sizeof back));
    assert_memory_equal(back, ((int32_t[]){9, 9, 2, 3, 9, 9, 6, 7}), sizeof back);
    /* By the engine: two copies in, a copy, a fill, and one copy for the indices and for each row of a
     * gather and a scatter, and the read. */
    expect_ok(pto_sim_stats_get(0, &after));
    assert_int_equal(after.copies - before.copies, 4 + 2 * 3 + 1);
    const pto_work unknown = {.opcode = PTO_WORK_USER + 5, .outputs = &b, .n_outputs = 1};
    expect_fail(pto_submit_work(runtime, &unknown, NULL), PTO_BAD_OPCODE, "sim:0");
    pto_tensor *all[] = {&a, &b, &two, &index};
    for (int i = 0; i < 4; i++) {
        expect_ok(pto_tensor_free(all[i]));
    }
}

/* An argument, a call, a report and an output say where they are. */
static void everything_names_its_device(void **state)
{
    (void)state;
    PTO_SCOPE(runtime) {
        pto_tensor t, out;
        pto_task task;
        pto_task_report report;
        const int32_t zeros[N] = {0};
        expect_ok(pto_alloc_on(runtime, sim1, PTO_INT32, 1, DIMS(N), &t));
        expect_ok(pto_write(runtime, &t, zeros, sizeof zeros));
        atomic_store(&held, true); /* a task that is consumed is reported without its device */
        expect_ok(
            pto_submit_task(runtime, add_one, PTO_VECTOR, (pto_param[]){pto_inout(&t)}, 1, &task));
        expect_ok(pto_task_get_output(runtime, task, 0, &out));
        assert_true(is_on(&out, sim1));
        expect_ok(pto_task_info(runtime, task, &report));
        atomic_store(&held, false);
        assert_int_equal(report.device.type, PTO_DEVICE_SIM);
        assert_int_equal(report.device.index, 1);
        expect_ok(pto_wait(runtime));
        assert_int_equal(last_args[0].device.type, PTO_DEVICE_SIM);
        assert_int_equal(last_args[0].device.index, 1);
        assert_int_equal(last_call.device.index, 1);
        pto_buffer buffer = {t.owner, t.storage_bytes, t.generation};
        expect_ok(pto_managed_tensor(runtime, &buffer, 0, PTO_UINT8, 1, DIMS(BYTES), &out));
        assert_true(is_on(&out, sim1));
        out.device = cpu; /* a lie */
        expect_fail(pto_submit(runtime, add_one, pto_inout(&out)), PTO_BAD_DEVICE, "cpu:0",
                    "sim:1");
        expect_fail(pto_read(runtime, &out, (char[BYTES]){0}, BYTES), PTO_BAD_DEVICE, "cpu:0",
                    "sim:1");
        expect_fail(pto_write(runtime, &out, (char[BYTES]){0}, BYTES), PTO_BAD_DEVICE, "cpu:0",
                    "sim:1");
        expect_fail(pto_copy(runtime, &out, &out), PTO_BAD_DEVICE, "cpu:0", "sim:1");
    }
}

static void two_devices_in_one_task(void **state)
{
    (void)state;
    int32_t data[N] = {0};
    pto_tensor a = empty_on(sim0), b = empty_on(sim1), host = dense(data, PTO_INT32, 1, DIMS(N));
    for (int i = 0; i < 2; i++) { /* also when both are known */
        expect_fail(pto_submit(runtime, add_one, pto_inout(&a), pto_input(&b)), PTO_DEVICES_DIFFER,
                    "add one", "sim:0", "sim:1");
        expect_fail(pto_submit(runtime, add_one, pto_inout(&host), pto_input(&b)),
                    PTO_DEVICES_DIFFER, "add one", "cpu:0", "sim:1");
        expect_fail(pto_submit_op(runtime, pto_rearrange_op(), &a, 1, &host, 1, NULL, 0, NULL),
                    PTO_DEVICES_DIFFER, "rearrange", "sim:0", "cpu:0");
        expect_fail(pto_submit_rearrange(runtime, &a, &host, PTO_VECTOR), PTO_DEVICES_DIFFER,
                    "sim:0", "cpu:0");
        expect_ok(pto_submit(runtime, add_one, pto_inout(&a)));
        expect_ok(pto_submit(runtime, add_one, pto_inout(&b)));
        expect_ok(pto_submit(runtime, add_one, pto_inout(&host)));
        expect_ok(pto_wait(runtime));
    }
    expect_ok(pto_tensor_free(&a));
    expect_ok(pto_tensor_free(&b));
}

/* Functions of the CPU alone. */
static void functions_of_the_host_refuse(void **state)
{
    (void)state;
    char memory[BYTES];
    pto_tensor a = empty_on(sim0), b = empty_on(sim0), out;
    pto_rearrange_plan *plan = NULL;
    pto_dl_managed *managed = NULL;
    expect_fail(pto_tensor_clone(&a, memory, sizeof memory, &out), PTO_BAD_DEVICE, "sim:0");
    expect_fail(pto_tensor_contiguous(&a, memory, sizeof memory, &out), PTO_BAD_DEVICE, "sim:0");
    expect_fail(pto_rearrange_plan_create(&a, &b, &plan), PTO_NOT_IMPLEMENTED, "sim:0");
    expect_fail(pto_rearrange_parallel(&a, &b, 2), PTO_NOT_IMPLEMENTED, "sim:0");
    expect_fail(pto_dlpack_export(&a, NULL, NULL, &managed), PTO_BAD_DEVICE, "sim");
    expect_ok(pto_tensor_free(&a));
    expect_ok(pto_tensor_free(&b));
}

static pto_status nothing(pto_runtime *rt, const pto_tensor *inputs, const pto_tensor *outputs,
                          void *params)
{
    (void)params;
    assert_true(is_on(inputs, sim0) && is_on(outputs, sim0));
    PTO_SCOPE(rt) {
        pto_tensor t;
        PTO_TRY(pto_temp(rt, PTO_INT32, 1, DIMS(N), &t)); /* where the orchestration runs */
        assert_true(is_on(&t, sim0));
    }
    return pto_copy(rt, outputs, inputs);
}

/* The data of pto_execute is on the host, its tensors are on the device. */
static void execute(void **state)
{
    (void)state;
    int32_t from[N] = {4, 5}, to[N] = {0};
    pto_tensor in = dense(from, PTO_INT32, 1, DIMS(N)), out = dense(to, PTO_INT32, 1, DIMS(N));
    pto_tensor there = empty_on(sim0);
    const pto_execute_options options = {.size = sizeof options, .device = sim0};
    expect_ok(pto_execute_ex(runtime, nothing, &in, 1, &out, 1, NULL, &options));
    assert_memory_equal(to, from, sizeof to);
    expect_fail(pto_execute_ex(runtime, nothing, &there, 1, &out, 1, NULL, &options),
                PTO_BAD_DEVICE, "sim:0");
    expect_ok(pto_tensor_free(&there));
}

/* ---- The table of devices, and the stream ---- */

static int stream_of_fake;
static void *op_stream;

static pto_status fake_alloc(void *self, uint64_t bytes, void **memory)
{
    (void)self;
    *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    return *memory ? PTO_OK : PTO_OUT_OF_MEMORY;
}

static void fake_free(void *self, void *memory, uint64_t bytes)
{
    (void)self;
    (void)bytes;
    free(memory);
}

static pto_status fake_copy(void *self, void *to, const void *from, uint64_t bytes)
{
    (void)self;
    memcpy(to, from, bytes);
    return PTO_OK;
}

static pto_status look_at_stream(const pto_op_call *call)
{
    op_stream = call->stream;
    return PTO_OK;
}

static void one_table_and_its_streams(void **state)
{
    (void)state;
    const pto_device fake = {PTO_DEVICE_MOORE, 7};
    static const pto_device_ops ops = {.size = sizeof ops,
                                       .alloc = fake_alloc,
                                       .free = fake_free,
                                       .copy_in = fake_copy,
                                       .copy_out = fake_copy,
                                       .stream = &stream_of_fake};
    pto_device list[64];
    size_t count = 0, found = 0;
    expect_ok(pto_device_add(fake, &ops));
    expect_ok(pto_device_list(list, 64, &count));
    for (size_t i = 0; i < count; i++) {
        found += list[i].type == fake.type && list[i].index == fake.index;
    }
    assert_int_equal(found, 1);
    pto_tensor t = empty_on(fake); /* operators and runtimes use the same table */
    pto_op *op;
    expect_ok(pto_op_create("look", &op));
    expect_ok(pto_op_register(op, fake.type, look_at_stream, false));
    expect_ok(pto_op_run(op, &t, 1, NULL, 0, NULL));
    assert_ptr_equal(op_stream, &stream_of_fake);
    op_stream = NULL;
    expect_ok(pto_submit_op(runtime, op, &t, 1, NULL, 0, NULL, 0, NULL));
    expect_ok(pto_kernel_variant(runtime, add_one, fake.type, add_one_fn, NULL));
    expect_ok(pto_submit(runtime, add_one, pto_inout(&t)));
    expect_ok(pto_wait(runtime));
    assert_ptr_equal(op_stream, &stream_of_fake);
    assert_ptr_equal(last_call.stream, &stream_of_fake);
    assert_int_equal(last_call.device.type, PTO_DEVICE_MOORE);
    expect_ok(pto_tensor_free(&t));
    pto_op_destroy(op);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, destroy)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(heaps_of_a_device_are_its_memory), TEST(read_and_write),
        TEST(a_kernel_of_the_host_is_refused),  TEST(work_requests),
        TEST(everything_names_its_device),      TEST(two_devices_in_one_task),
        TEST(functions_of_the_host_refuse),     TEST(execute),
        TEST(one_table_and_its_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
