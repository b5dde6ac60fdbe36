/* test_launch.c - kernels that launch on streams, on simulated devices. See launches.h. */
#include "launches.h"

#include <unistd.h>

#include <pto/sim.h>

#include "base/atomic.h"

static const pto_device sim = {PTO_DEVICE_SIM, 3};

static void compute(void *args)
{
    const launch_work *w = args;
    launch_compute(w);
    if (w->way == LAUNCH_PENDING) {
        PTO_IGNORE(pto_task_complete(w->rt, w->task, PTO_OK));
    }
}

static pto_status launch_mix_on_sim(const pto_call *call)
{
    const launch_work w = launch_work_of(call);
    if (w.way == LAUNCH_FAIL) {
        return pto_fail(PTO_KERNEL_FAILED, "was to fail");
    }
    PTO_TRY(pto_sim_launch(call->stream, compute, &w, sizeof w));
    return w.way == LAUNCH_PENDING ? PTO_PENDING
           : w.way == LAUNCH_BREAK ? pto_fail(PTO_KERNEL_FAILED, "was to break")
                                   : PTO_OK;
}

static void configure(uint32_t streams, uint64_t launch_ns)
{
    launch_must(pto_sim_configure(sim.index, &(pto_sim_config){.size = sizeof(pto_sim_config),
                                                               .streams = streams,
                                                               .launch_ns = launch_ns}));
}

/* ---- Random programs ---- */

static void random_programs(void **state)
{
    (void)state;
    const uint64_t one = test_env("PTO_TEST_PROGRAM", UINT64_MAX);
    for (uint64_t i = 0, count = test_effort(300); i < count; i++) {
        const uint64_t seed = one != UINT64_MAX ? one : (test_seed() << 32) + i;
        configure(1 + (uint32_t)(seed % 5), seed % 4 == 1 ? 30000 : PTO_SIM_NO_LIMIT);
        launch_run(seed, sim, launch_mix_on_sim, true);
    }
}

/* ---- A few tasks ---- */

typedef struct rig {
    pto_runtime *rt;
    pto_kernel mix, probe;
    pto_tensor t[8];
} rig;

static ptoi_a32 running, most_running, probes;

static void probe_work(void *args)
{
    (void)args;
    const uint32_t now = ptoi_fetch_add32(&running, 1) + 1;
    uint32_t most = ptoi_get32(&most_running);
    while (most < now && !ptoi_cas32(&most_running, &most, now)) {
    }
    for (int i = 0; i < 2000 && ptoi_acquire32(&most_running) < 4; i++) {
        usleep(1000); /* until the others are here as well */
    }
    ptoi_fetch_add32(&running, (uint32_t)-1);
    ptoi_fetch_add32(&probes, 1);
}

static pto_status probe(const pto_call *call)
{
    return pto_sim_launch(call->stream, probe_work, NULL, 0);
}

static rig rig_make(uint32_t streams)
{
    rig r = {0};
    configure(streams, PTO_SIM_NO_LIMIT);
    launch_must(pto_sim_repair(sim.index));
    ptoi_set32(&most_running, 0);
    ptoi_set32(&probes, 0);
    launch_must(pto_runtime_create(&r.rt, NULL));
    launch_must(pto_kernel_register(r.rt, "mix", PTO_VECTOR, launch_on_host, NULL, &r.mix));
    launch_must(pto_kernel_variant(r.rt, r.mix, sim.type, launch_mix_on_sim, NULL));
    launch_must(pto_kernel_register(r.rt, "probe", PTO_VECTOR, launch_on_host, NULL, &r.probe));
    launch_must(pto_kernel_variant(r.rt, r.probe, sim.type, probe, NULL));
    for (int i = 0; i < 8; i++) {
        launch_must(pto_tensor_empty(sim, PTO_UINT64, 1, (int64_t[]){4}, &r.t[i]));
    }
    return r;
}

static void rig_end(rig *r)
{
    PTO_IGNORE(pto_clear_error(r->rt));
    launch_must(pto_runtime_destroy(&r->rt, PTO_WAIT));
    for (int i = 0; i < 8; i++) {
        launch_must(pto_tensor_free(&r->t[i]));
    }
    launch_must(pto_sim_repair(sim.index));
    configure(PTO_SIM_NO_STREAMS, PTO_SIM_NO_LIMIT);
}

/* Tasks that do not depend on each other are on the device at once; those of a chain are not. */
static void independent_tasks_run_at_once(void **state)
{
    (void)state;
    rig r = rig_make(8);
    for (int i = 0; i < 4; i++) {
        launch_must(pto_submit(r.rt, r.probe, pto_output(&r.t[i])));
    }
    launch_must(pto_wait(r.rt));
    assert_int_equal(ptoi_get32(&most_running), 4);
    assert_int_equal(ptoi_get32(&probes), 4);
    rig_end(&r);
}

static ptoi_a32 gate;

static void wait_for_gate(void *args)
{
    (void)args;
    while (!ptoi_acquire32(&gate)) {
        usleep(100);
    }
}

static pto_status gated(const pto_call *call)
{
    return pto_sim_launch(call->stream, wait_for_gate, NULL, 0);
}

static ptoi_a32 launches;

static pto_status counted(const pto_call *call)
{
    ptoi_fetch_add32(&launches, 1);
    return pto_sim_launch(call->stream, wait_for_gate, NULL, 0);
}

/* Consumers on the device are launched while their producer runs; host tasks, copies and waits are
 * not served. */
static void consumers_are_launched_before_the_end(void **state)
{
    (void)state;
    rig r = rig_make(4);
    pto_kernel wait_here, count;
    uint64_t here[4] = {7, 7, 7, 7};
    pto_tensor host;
    ptoi_set32(&gate, 0);
    ptoi_set32(&launches, 0);
    launch_must(pto_external_tensor(r.rt, here, PTO_UINT64, 1, (int64_t[]){4}, &host));
    launch_must(pto_kernel_register(r.rt, "gated", PTO_CUBE, launch_on_host, NULL, &wait_here));
    launch_must(pto_kernel_variant(r.rt, wait_here, sim.type, gated, NULL));
    launch_must(pto_kernel_register(r.rt, "counted", PTO_VECTOR, launch_on_host, NULL, &count));
    launch_must(pto_kernel_variant(r.rt, count, sim.type, counted, NULL));
    launch_must(pto_submit(r.rt, wait_here, pto_output(&r.t[0])));
    for (int i = 1; i < 5; i++) { /* two of the chain, two that fork off */
        launch_must(
            pto_submit(r.rt, count, pto_input(&r.t[i < 3 ? i - 1 : 0]), pto_output(&r.t[i])));
    }
    launch_must(pto_copy(r.rt, &host, &r.t[4]));
    const pto_task copied = pto_last_task(r.rt);
    for (int i = 0; i < 10000 && ptoi_acquire32(&launches) < 4; i++) {
        usleep(1000);
    }
    assert_int_equal(ptoi_acquire32(&launches), 4);
    pto_task_report report;
    launch_must(pto_task_info(r.rt, copied, &report));
    assert_int_equal(report.state, PTO_TASK_PENDING);
    ptoi_release32(&gate, 1);
    launch_must(pto_wait(r.rt));
    rig_end(&r);
}

/* ---- Errors ---- */

static void a_lost_device(void **state)
{
    (void)state;
    rig r = rig_make(4);
    pto_kernel wait_here;
    pto_failure failure;
    ptoi_set32(&gate, 0);
    launch_must(pto_kernel_register(r.rt, "gated", PTO_CUBE, launch_on_host, NULL, &wait_here));
    launch_must(pto_kernel_variant(r.rt, wait_here, sim.type, gated, NULL));
    launch_must(pto_submit(r.rt, wait_here, pto_output(&r.t[0])));
    const int line = __LINE__ - 1;
    launch_must(pto_submit(r.rt, wait_here, pto_inout(&r.t[0])));
    launch_must(pto_submit(r.rt, wait_here, pto_output(&r.t[1])));
    launch_must(pto_sim_fail(sim.index, PTO_SIM_FAIL_LOST, 1)); /* the next operation of any kind */
    launch_must(pto_submit(r.rt, wait_here, pto_output(&r.t[2])));
    ptoi_release32(&gate, 1);
    assert_int_equal(pto_wait(r.rt), PTO_TASK_FAILED);
    bool failed;
    launch_must(pto_get_failure(r.rt, &failed, &failure));
    assert_true(failed);
    char where[64];
    snprintf(where, sizeof where, "test_launch.c:%d", line);
    assert_int_equal(failure.status, PTO_DEVICE_LOST);
    if (strstr(failure.message, "first suspect") && !strstr(failure.message, where)) {
        fail_msg("%s", failure.message);
    }
    /* What comes later fails too, until the device works again. */
    launch_must(pto_submit(r.rt, r.mix, pto_scalar(UINT64_C(1)), pto_scalar(UINT64_C(0)),
                           pto_scalar(UINT64_C(0)), pto_output(&r.t[5])));
    assert_int_equal(pto_wait(r.rt), PTO_TASK_FAILED);
    launch_must(pto_clear_error(r.rt));
    launch_must(pto_sim_repair(sim.index));
    launch_must(pto_submit(r.rt, r.mix, pto_scalar(UINT64_C(1)), pto_scalar(UINT64_C(0)),
                           pto_scalar(UINT64_C(0)), pto_output(&r.t[5])));
    launch_must(pto_wait(r.rt));
    rig_end(&r);
}

static void bad_launches(void **state)
{
    (void)state;
    void *stream;
    pto_device_ops ops;
    static const char large[PTO_SIM_LAUNCH_BYTES + 1];
    launch_must(pto_device_get(sim, &ops));
    launch_must(ops.stream_create(ops.self, &stream));
    assert_int_equal(pto_sim_launch(NULL, compute, NULL, 0), PTO_NULL_ARGUMENT);
    assert_int_equal(pto_sim_launch(stream, NULL, NULL, 0), PTO_NULL_ARGUMENT);
    assert_int_equal(pto_sim_launch(stream, compute, NULL, 1), PTO_NULL_ARGUMENT);
    assert_int_equal(pto_sim_launch(stream, compute, large, sizeof large), PTO_TOO_LARGE);
    ops.stream_destroy(ops.self, stream);
    const pto_sim_config many = {.size = sizeof many, .streams = PTO_SIM_MAX_STREAMS + 1};
    assert_int_equal(pto_sim_configure(sim.index, &many), PTO_BAD_CONFIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_programs),
        cmocka_unit_test(independent_tasks_run_at_once),
        cmocka_unit_test(consumers_are_launched_before_the_end),
        cmocka_unit_test(a_lost_device),
        cmocka_unit_test(bad_launches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
