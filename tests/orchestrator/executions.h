/* executions.h - shared by the tests of pto_execute: kernels, orchestrations, and where to run
 * them. */
#ifndef PTO_TEST_EXECUTIONS_H
#define PTO_TEST_EXECUTIONS_H

#include <pthread.h>
#include <time.h>

#include <pto/execute.h>
#include <pto/sim.h>

#include "../worker/requests.h"

/* ---- Where --------------------------------------------------------------------------------- */

static const pto_device sim_place = {PTO_DEVICE_SIM, 0}, inner_place = {PTO_DEVICE_SIM, 1};

static inline pto_execute_options on(pto_device device, pto_orchestrator orchestrator)
{
    return (pto_execute_options){
        .size = sizeof(pto_execute_options), .device = device, .orchestrator = orchestrator};
}

static inline pto_sim_stats sim_stats(pto_device device)
{
    pto_sim_stats stats;
    expect_ok(pto_sim_stats_get(device.index, &stats));
    return stats;
}

static const pto_orchestrator both[] = {PTO_ON_CALLER, PTO_ON_THREAD};

/* ---- Kernels and orchestrations ------------------------------------------------------------ */

static pto_kernel slow_add;

static inline pto_status slow_add_fn(const pto_call *call)
{
    const int32_t *a = call->args[0].data, *b = call->args[1].data;
    int32_t *sum = call->args[2].data;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    for (int64_t i = 0; i < call->args[2].shape[0]; i++) {
        sum[i] = a[i] + b[i];
    }
    return PTO_OK;
}

static inline int create_to_add(void **state)
{
    return create(state) ||
           pto_kernel_register(runtime, "slow add", PTO_VECTOR, slow_add_fn, NULL, &slow_add) ||
           pto_kernel_variant(runtime, slow_add, PTO_DEVICE_SIM, slow_add_fn, NULL) ||
           pto_kernel_variant(runtime, slow_add, PTO_DEVICE_ASCEND, slow_add_fn, NULL);
}

/* Counts how often it is run, if `params` is there to count in. */
static inline pto_status nothing(pto_runtime *rt, const pto_tensor *inputs,
                                 const pto_tensor *outputs, void *params)
{
    (void)rt, (void)inputs, (void)outputs;
    if (params) {
        ++*(int *)params;
    }
    return PTO_OK;
}

/* A check on any thread: an orchestration cannot leave a cmocka test. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            return pto_fail(PTO_CORRUPT, "line %d: not so: %s", __LINE__, #condition);             \
        }                                                                                          \
    } while (0)

/* outputs[0] = inputs[0] + inputs[1] + inputs[0], through a managed tensor; `params` gets the
 * thread. */
static inline pto_status sum(pto_runtime *rt, const pto_tensor *inputs, const pto_tensor *outputs,
                             void *params)
{
    pto_status s = PTO_OK;
    if (params) {
        *(pthread_t *)params = pthread_self();
    }
    PTO_SCOPE(rt) {
        pto_tensor half;
        PTO_TRY(pto_temp(rt, PTO_INT32, 1, inputs[0].shape, &half));
        PTO_TRY(pto_submit(rt, slow_add, pto_input(&inputs[0]), pto_input(&inputs[1]),
                           pto_output(&half)));
        s = pto_submit(rt, slow_add, pto_input(&half), pto_input(&inputs[0]),
                       pto_output(&outputs[0]));
    }
    return s;
}

/* Copies as many inputs to outputs as params points to. */
static inline pto_status copy_all(pto_runtime *rt, const pto_tensor *inputs,
                                  const pto_tensor *outputs, void *params)
{
    for (size_t i = 0; i < *(size_t *)params; i++) {
        pto_work work = copy_work(PTO_WORK_COPY, &inputs[i], &outputs[i]);
        PTO_TRY(pto_submit_work(rt, &work, NULL));
    }
    return PTO_OK;
}

/* A correct sum, to show that the runtime still works. */
static inline void expect_usable(void)
{
    int32_t a[] = {1, 2, 3}, b[] = {10, 20, 30}, c[3] = {0};
    pto_tensor in[] = {dense(a, PTO_INT32, 1, DIMS(3)), dense(b, PTO_INT32, 1, DIMS(3))},
               out = dense(c, PTO_INT32, 1, DIMS(3));
    expect_ok(pto_execute(runtime, sum, in, 2, &out, 1, NULL));
    assert_memory_equal(c, ((int32_t[]){12, 24, 36}), sizeof c);
    assert_int_equal(pto_get_scope_depth(runtime), 0);
}

#endif /* PTO_TEST_EXECUTIONS_H */
