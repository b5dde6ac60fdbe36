/* test_thread.c - one thread orchestrates: on other threads and inside kernels, all but a few
 * calls are refused. */
#include <pto/execute.h>
#include <pto/work.h>

#include "../runtime/rig.h"

/* ---- What is refused -------------------------------------------------------------------------- */

/* Each call that only the orchestrating thread may make. */
typedef struct outsider {
    pto_runtime *rt;
    pto_kernel kernel;
    pto_task task;
    pto_buffer buffer;
    pto_tensor user, managed;
    char memory[64];
    bool in_kernel;
    const char *wrong; /* a call that was not refused */
    pto_status status;
} outsider;

static pto_status never_called(pto_runtime *rt, const pto_tensor *inputs, const pto_tensor *outputs,
                               void *params)
{
    (void)rt;
    (void)inputs;
    (void)outputs;
    (void)params;
    return PTO_OK;
}

#define MUST_REFUSE(o, call)                                                                       \
    do {                                                                                           \
        pto_status refused_ = (call);                                                              \
        if (refused_ != PTO_WRONG_THREAD && !(o)->wrong) {                                         \
            (o)->wrong = #call;                                                                    \
            (o)->status = refused_;                                                                \
        }                                                                                          \
    } while (0)

static void try_everything(outsider *o)
{
    pto_runtime *rt = o->rt;
    pto_kernel kernel = 0;
    pto_buffer buffer;
    pto_tensor t;
    void *address = NULL;
    char bytes[64] = {0};
    bool failed = false;
    pto_failure failure;
    pto_task_report report;
    pto_work work = {.opcode = PTO_WORK_FILL, .outputs = &o->user, .n_outputs = 1};
    const pto_param param = pto_input(&o->user);
    MUST_REFUSE(o, pto_kernel_register(rt, "late", PTO_CUBE, rig_quick, NULL, &kernel));
    MUST_REFUSE(o, pto_submit_task(rt, o->kernel, PTO_KERNEL_TYPE, &param, 1, NULL));
    MUST_REFUSE(o, pto_submit_work(rt, &work, NULL));
    MUST_REFUSE(o, pto_create_buffer(rt, 64, &buffer));
    MUST_REFUSE(o, pto_managed_tensor(rt, &o->buffer, 0, PTO_UINT8, 1, DIMS(64), &t));
    MUST_REFUSE(o, pto_temp(rt, PTO_UINT8, 1, DIMS(64), &t));
    MUST_REFUSE(o, pto_alloc(rt, PTO_UINT8, 1, DIMS(64), &t));
    MUST_REFUSE(o, pto_external_tensor(rt, bytes, PTO_UINT8, 1, DIMS(64), &t));
    MUST_REFUSE(o, pto_get_buffer_addr(rt, &o->managed, &address));
    MUST_REFUSE(o, pto_task_get_output(rt, o->task, 0, &t));
    MUST_REFUSE(o, pto_scope_begin(rt));
    MUST_REFUSE(o, pto_scope_begin_ex(rt, PTO_SCOPE_BOUNDARY));
    MUST_REFUSE(o, pto_scope_end(rt));
    MUST_REFUSE(o, pto_wait(rt));
    MUST_REFUSE(o, pto_wait_task(rt, o->task));
    MUST_REFUSE(o, pto_read(rt, &o->managed, bytes, 64));
    MUST_REFUSE(o, pto_write(rt, &o->managed, bytes, 64));
    MUST_REFUSE(o, pto_get_failure(rt, &failed, &failure));
    MUST_REFUSE(o, pto_clear_error(rt));
    MUST_REFUSE(o, pto_task_info(rt, o->task, &report));
    MUST_REFUSE(o, pto_check(rt));
    MUST_REFUSE(o, pto_execute(rt, never_called, NULL, 0, NULL, 0, NULL));
    MUST_REFUSE(o, pto_runtime_destroy(&rt, PTO_WAIT));
    if (o->in_kernel) { /* another thread may: test_embed.c */
        MUST_REFUSE(o, pto_runtime_destroy(&rt, PTO_CANCEL));
    }
    PTO_SCOPE(rt) {
        o->wrong = "PTO_SCOPE";
    }
}

static void *try_on_a_thread(void *argument)
{
    try_everything(argument);
    return NULL;
}

static pto_status try_in_a_kernel(const pto_call *call)
{
    try_everything(call->user);
    return PTO_OK;
}

static void test_only_one_thread_orchestrates(void **state)
{
    for (int workers = 0; workers < 2; workers++) {
        rig r;
        outsider o;
        pthread_t thread;
        pto_kernel kernel;
        pto_config config = PTO_CONFIG_INIT;
        /* Without workers the kernel runs on the very thread that orchestrates. */
        config.workers = workers ? 1 : PTO_NO_WORKERS;
        config.caller_types = workers ? PTO_NO_TYPES : 0;
        rig_start(&r, state, &config);
        memset(&o, 0, sizeof o);
        o.rt = r.rt;
        o.kernel = r.quick;
        expect_ok(pto_scope_begin(r.rt));
        o.user = rig_bytes(&r, o.memory, 64);
        expect_ok(pto_create_buffer(r.rt, 64, &o.buffer));
        expect_ok(pto_managed_tensor(r.rt, &o.buffer, 0, PTO_UINT8, 1, DIMS(64), &o.managed));
        o.task = RIG_SUBMIT(&r, r.quick, pto_output(&o.managed));
        expect_ok(pto_wait(r.rt));
        pto_runtime_stats before = rig_stats(&r);

        assert_int_equal(pthread_create(&thread, NULL, try_on_a_thread, &o), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        if (o.wrong) {
            fail_msg("on another thread: %s gives %s", o.wrong, pto_status_name(o.status));
        }
        assert_int_equal(rig_stats(&r).submitted, before.submitted);

        o.in_kernel = true;
        expect_ok(pto_kernel_register(r.rt, "outsider", PTO_CUBE, try_in_a_kernel, &o, &kernel));
        RIG_SUBMIT_BARE(&r, kernel);
        expect_ok(pto_wait(r.rt));
        if (o.wrong) {
            fail_msg("in a kernel: %s gives %s", o.wrong, pto_status_name(o.status));
        }
        assert_int_equal(rig_stats(&r).submitted, before.submitted + 1);
        assert_int_equal(rig_stats(&r).buffers, before.buffers);
        assert_int_equal(pto_get_scope_depth(r.rt), 1);
        expect_ok(pto_scope_end(r.rt));
        rig_stop(&r);
    }
}

/* ---- What is not -------------------------------------------------------------------------------- */

typedef struct guest {
    pto_runtime *rt;
    pto_task task;
    bool before, after;
    pto_status stats, complete;
    pto_runtime_stats seen;
} guest;

static void *use_what_is_free(void *argument)
{
    guest *g = argument;
    g->before = pto_is_cancelled(g->rt);
    g->stats = pto_stats(g->rt, &g->seen);
    g->complete = pto_task_complete(g->rt, g->task, PTO_OK);
    pto_cancel(g->rt);
    g->after = pto_is_cancelled(g->rt);
    return NULL;
}

static pto_status use_in_a_kernel(const pto_call *call)
{
    guest *g = call->user;
    g->rt = call->rt;
    use_what_is_free(g);
    return PTO_OK;
}

/* pto_cancel, pto_is_cancelled, pto_stats and pto_task_complete are allowed on every thread. */
static void test_what_any_thread_may_do(void **state)
{
    for (int in_kernel = 0; in_kernel < 2; in_kernel++) {
        rig r;
        pthread_t thread;
        pto_kernel kernel;
        rig_start(&r, state, NULL);
        guest *g = rig_memory(&r, sizeof *g);
        expect_ok(pto_kernel_register(r.rt, "guest", PTO_VECTOR, use_in_a_kernel, g, &kernel));
        g->rt = r.rt;
        g->task = RIG_SUBMIT_BARE(&r, r.hold);
        rig_until(&r, g->task, PTO_TASK_RUNNING);
        if (in_kernel) {
            RIG_SUBMIT_BARE(&r, kernel);
        } else {
            assert_int_equal(pthread_create(&thread, NULL, use_what_is_free, g), 0);
            assert_int_equal(pthread_join(thread, NULL), 0);
        }
        expect_fail(pto_wait(r.rt), PTO_CANCELLED, "cancel");
        assert_false(g->before);
        assert_true(g->after);
        assert_int_equal(g->stats, PTO_OK);
        assert_int_equal(g->seen.submitted, in_kernel ? 2 : 1);
        assert_int_equal(g->complete, PTO_OK);
        expect_ok(pto_clear_error(r.rt));
        rig_stop(&r);
    }
}

int main(void)
{
    const rig_case cases[] = {
        RIG_CASE_ONE_PROCESS(test_only_one_thread_orchestrates,
                             "the orchestrating thread runs the tasks"),
        RIG_CASE(test_what_any_thread_may_do),
    };
    return rig_run("thread", cases, sizeof cases / sizeof *cases);
}
