/* test_sim.c - the simulated accelerator: memory that the host cannot touch, copies with deadlines,
 * and faults. */
#include "../tensor/tensors.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <pto/kernel.h>
#include <pto/sim.h>

static pto_device_ops ops_of(int32_t index)
{
    pto_device_ops ops = {0};
    expect_ok(pto_device_get((pto_device){PTO_DEVICE_SIM, index}, &ops));
    return ops;
}

static pto_sim_stats stats_of(int32_t index)
{
    pto_sim_stats stats;
    expect_ok(pto_sim_stats_get(index, &stats));
    return stats;
}

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- Memory ---- */

/* Touches the memory in a child. Returns the signal that ended it; 0: none did. */
static int signal_of(char *memory, bool writes)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        volatile char *at = memory;
        if (writes) {
            *at = 1;
        } else {
            (void)*at;
        }
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) ? -1 : 0;
}

static void the_host_cannot_touch_it(void **state)
{
    (void)state;
    pto_device_ops ops = ops_of(0);
    void *memory = NULL;
    expect_ok(ops.alloc(ops.self, 1000, &memory));
    assert_int_equal((uintptr_t)memory % 64, 0);
    assert_true(ops.shift != 0);
    assert_int_not_equal(signal_of(memory, false), 0);
    assert_int_not_equal(signal_of(memory, true), 0);
    /* A kernel of the device can, at the other address. */
    assert_int_equal(signal_of((char *)memory + ops.shift, true), 0);
    char there[1000], back[1000] = "";
    memset(there, 7, sizeof there);
    expect_ok(ops.copy_in(ops.self, memory, there, sizeof there));
    assert_int_equal(((char *)memory + ops.shift)[999], 7);
    expect_ok(ops.copy_out(ops.self, back, memory, sizeof back));
    assert_memory_equal(back, there, sizeof back);
    ops.free(ops.self, memory, 1000);
    assert_int_equal(stats_of(0).used, 0);
}

static void memory_is_bounded_and_comes_back(void **state)
{
    (void)state;
    const pto_sim_config small = {.size = sizeof small, .memory = 4096};
    pto_device_ops ops = ops_of(1);
    void *block[5] = {NULL};
    expect_ok(pto_sim_configure(1, &small));
    for (int i = 0; i < 4; i++) {
        expect_ok(ops.alloc(ops.self, 1000, &block[i]));
    }
    expect_fail(ops.alloc(ops.self, 1000, &block[4]), PTO_OUT_OF_MEMORY, "sim:1", "1000", "4096",
                "PTO_SIM_MEMORY");
    assert_int_equal(stats_of(1).blocks, 4);
    ops.free(ops.self, block[1], 1000);
    ops.free(ops.self, block[2], 1000);
    expect_ok(ops.alloc(ops.self, 2048, &block[4])); /* exactly the gap */
    assert_ptr_equal(block[4], block[1]);
    expect_fail(pto_sim_configure(1, &(pto_sim_config){.size = sizeof small, .memory = 4000}),
                PTO_BAD_CONFIG, "4096");
    ops.free(ops.self, block[0], 1000);
    ops.free(ops.self, block[4], 2048);
    ops.free(ops.self, block[3], 1000);
    const pto_sim_stats stats = stats_of(1);
    assert_int_equal(stats.used, 0);
    assert_int_equal(stats.blocks, 0);
    assert_int_equal(stats.peak, 4096);
    expect_ok(ops.alloc(ops.self, 4096, &block[0])); /* all of it in one piece again */
    ops.free(ops.self, block[0], 4096);
    uint64_t bytes = 0, used = 1;
    expect_ok(ops.memory(ops.self, &bytes, &used));
    assert_int_equal(bytes, 4096);
    assert_int_equal(used, 0);
}

static void memory_is_freed_once(void **state)
{
    (void)state;
    pto_tensor t, again;
    expect_ok(pto_tensor_empty((pto_device){PTO_DEVICE_SIM, 5}, PTO_FLOAT32, 1, DIMS(4), &t));
    again = t;
    expect_ok(pto_tensor_free(&t));
    expect_ok(pto_tensor_free(&t)); /* it has no memory any more */
    expect_fail(pto_tensor_free(&again), PTO_BAD_MEMORY, "tensor free: 16 bytes at ",
                "are not memory of sim:5, or were freed before");
    assert_non_null(again.storage);
    float host[4];
    again.storage = host;
    expect_fail(pto_tensor_free(&again), PTO_BAD_MEMORY, "are not memory of sim:5");
}

static void wrong_configurations_are_refused(void **state)
{
    (void)state;
    pto_sim_stats stats;
    pto_device_ops ops;
    expect_fail(pto_sim_configure(0, NULL), PTO_NULL_ARGUMENT, "config");
    expect_fail(pto_sim_configure(0, &(pto_sim_config){.size = 3}), PTO_BAD_CONFIG, "3");
    expect_fail(pto_sim_configure(
                    0, &(pto_sim_config){.size = sizeof(pto_sim_config), .memory = UINT64_MAX}),
                PTO_BAD_CONFIG, "18446744073709551615", "PTO_SIM_MEMORY");
    expect_fail(
        pto_sim_configure(0, &(pto_sim_config){.size = sizeof(pto_sim_config), .workers = 17}),
        PTO_BAD_CONFIG, "17");
    expect_fail(pto_sim_configure(8, &(pto_sim_config){.size = sizeof(pto_sim_config)}),
                PTO_BAD_DEVICE, "sim:8");
    expect_fail(pto_sim_fail(0, (pto_sim_fault)9, 1), PTO_BAD_PARAM, "9");
    expect_fail(pto_sim_fail(-1, PTO_SIM_FAIL_COPY, 1), PTO_BAD_DEVICE, "sim:-1");
    expect_fail(pto_sim_repair(99), PTO_BAD_DEVICE, "sim:99");
    expect_fail(pto_sim_stats_get(0, NULL), PTO_NULL_ARGUMENT, "stats");
    expect_fail(pto_sim_stats_get(8, &stats), PTO_BAD_DEVICE, "sim:8");
    expect_fail(pto_device_get((pto_device){PTO_DEVICE_SIM, 8}, &ops), PTO_BAD_DEVICE, "sim:8");
    ops = ops_of(0);
    expect_fail(pto_device_add((pto_device){PTO_DEVICE_SIM, 0}, &ops), PTO_BAD_DEVICE, "built in");
}

/* ---- Copies ---- */

typedef struct end {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int ended;
    pto_status status;
    char detail[256];
} end;

#define END_INIT                                                                                   \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER                     \
    }

static void note(void *context, pto_status status)
{
    end *e = context;
    pthread_mutex_lock(&e->lock);
    e->ended++;
    e->status = status;
    snprintf(e->detail, sizeof e->detail, "%s", status ? pto_error_detail() : "");
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

static void wait_for(end *e, int count)
{
    pthread_mutex_lock(&e->lock);
    while (e->ended < count) {
        pthread_cond_wait(&e->changed, &e->lock);
    }
    pthread_mutex_unlock(&e->lock);
}

static pto_tensor on(int32_t index, void *memory)
{
    pto_tensor t;
    expect_ok(pto_tensor_init(&t, memory, 48, PTO_INT32, 2, DIMS(3, 4), NULL, 0));
    t.device = (pto_device){PTO_DEVICE_SIM, index};
    return t;
}

/* Strided host -> sim:2 -> sim:3 -> transposed host. */
static void copies_take_any_strides_and_two_devices(void **state)
{
    (void)state;
    pto_device_ops two = ops_of(2), three = ops_of(3);
    void *a = NULL, *b = NULL;
    int32_t from[48], to[12] = {0};
    for (int i = 0; i < 48; i++) {
        from[i] = i;
    }
    expect_ok(two.alloc(two.self, 48, &a));
    expect_ok(three.alloc(three.self, 48, &b));
    pto_tensor host, back;
    expect_ok(
        pto_tensor_init(&host, from, sizeof from, PTO_INT32, 2, DIMS(3, 4), DIMS(16, -2), 15));
    pto_tensor x = on(2, a), y = on(3, b);
    expect_ok(pto_tensor_init(&back, to, sizeof to, PTO_INT32, 2, DIMS(3, 4), DIMS(1, 3), 0));
    end e = END_INIT;
    expect_ok(two.copy(two.self, &x, &host, note, &e));
    wait_for(&e, 1);
    expect_ok(three.copy(three.self, &y, &x, note, &e));
    wait_for(&e, 2);
    expect_ok(three.copy(three.self, &back, &y, note, &e));
    wait_for(&e, 3);
    expect_ok(e.status);
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 4; k++) {
            assert_int_equal(to[i + 3 * k], 15 + 16 * i - 2 * k);
        }
    }
    const int32_t nine = 9;
    expect_ok(two.fill(two.self, &x, &nine, note, &e));
    wait_for(&e, 4);
    expect_ok(two.copy_out(two.self, to, a, 48));
    assert_int_equal(to[0], 9);
    assert_int_equal(to[11], 9);
    /* Memory that nobody has allocated, and other devices. */
    two.free(two.self, a, 48);
    expect_fail(two.copy(two.self, &x, &host, note, &e), PTO_BAD_MEMORY, "sim:2", "destination");
    x.device = (pto_device){PTO_DEVICE_NVIDIA, 0};
    expect_fail(two.copy(two.self, &host, &x, note, &e), PTO_BAD_DEVICE, "nvidia:0");
    three.free(three.self, b, 48);
    assert_int_equal(e.ended, 4);
}

/* A copy takes as long as it should, and no processor time. */
static void copies_have_deadlines(void **state)
{
    (void)state;
    pto_device_ops ops = ops_of(4);
    static char data[1 << 20];
    void *memory = NULL;
    const pto_sim_config slow = {.size = sizeof slow, .bandwidth = 50 << 20, .latency_ns = 5000000};
    expect_ok(ops.alloc(ops.self, sizeof data, &memory));
    expect_ok(pto_sim_configure(4, &slow));
    struct timespec spent[2];
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent[0]);
    const uint64_t begin = now();
    for (int i = 0; i < 4; i++) { /* 20 ms + 5 ms each */
        expect_ok(ops.copy_in(ops.self, memory, data, sizeof data));
    }
    const uint64_t took = now() - begin;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent[1]);
    const uint64_t cpu = (uint64_t)(spent[1].tv_sec - spent[0].tv_sec) * 1000000000 +
                         (uint64_t)spent[1].tv_nsec - (uint64_t)spent[0].tv_nsec;
    assert_true(took >= 100000000);
    assert_true(cpu < took / 2);
    const pto_sim_stats stats = stats_of(4);
    assert_int_equal(stats.copies, 4);
    assert_int_equal(stats.bytes, 4 << 20);
    assert_true(stats.busy_ns >= 100000000);
    ops.free(ops.self, memory, sizeof data);
}

/* ---- Faults ---- */

static void it_fails_when_it_is_told_to(void **state)
{
    (void)state;
    pto_device_ops ops = ops_of(5);
    void *memory = NULL, *other = NULL;
    int32_t data[4] = {1, 2, 3, 4}, back[4] = {0};
    expect_ok(ops.alloc(ops.self, 16, &memory));
    expect_ok(pto_sim_fail(5, PTO_SIM_FAIL_ALLOC, 2));
    expect_ok(ops.alloc(ops.self, 16, &other));
    ops.free(ops.self, other, 16);
    expect_fail(ops.alloc(ops.self, 16, &other), PTO_OUT_OF_MEMORY, "sim:5", "alloc");
    expect_ok(ops.alloc(ops.self, 16, &other));
    ops.free(ops.self, other, 16);

    expect_ok(ops.copy_in(ops.self, memory, data, 16));
    expect_ok(pto_sim_fail(5, PTO_SIM_FAIL_COPY, 1));
    expect_fail(ops.copy_out(ops.self, back, memory, 16), PTO_SYSTEM, "sim:5", "copy");
    assert_int_equal(back[0], 0); /* nothing was written */
    expect_ok(ops.copy_out(ops.self, back, memory, 16));
    assert_memory_equal(back, data, sizeof data);

    expect_ok(pto_sim_fail(5, PTO_SIM_FAIL_KERNEL, 1));
    expect_fail(ops.begin(ops.self), PTO_KERNEL_FAILED, "sim:5", "kernel");
    expect_ok(ops.begin(ops.self));

    expect_ok(pto_sim_fail(5, PTO_SIM_FAIL_LOST, 2));
    expect_ok(ops.begin(ops.self));
    expect_fail(ops.begin(ops.self), PTO_DEVICE_LOST, "sim:5");
    expect_fail(ops.alloc(ops.self, 16, &other), PTO_DEVICE_LOST, "sim:5");
    expect_fail(ops.copy_in(ops.self, memory, data, 16), PTO_DEVICE_LOST, "sim:5");
    expect_ok(pto_sim_repair(5));
    memset(back, 0, sizeof back);
    expect_ok(ops.copy_out(ops.self, back, memory, 16)); /* memory as it was */
    assert_memory_equal(back, data, sizeof data);
    assert_true(stats_of(5).faults >= 5);
    ops.free(ops.self, memory, 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_host_cannot_touch_it),
        cmocka_unit_test(memory_is_bounded_and_comes_back),
        cmocka_unit_test(memory_is_freed_once),
        cmocka_unit_test(wrong_configurations_are_refused),
        cmocka_unit_test(copies_take_any_strides_and_two_devices),
        cmocka_unit_test(copies_have_deadlines),
        cmocka_unit_test(it_fails_when_it_is_told_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
