/* The life of a runtime, tasks, memory, scopes, waiting, failures. */
#include "example.h"

#include <signal.h>

/* example: PTO_TRY */
static pto_status add_twice(pto_runtime *rt)
{
    PTO_TRY(pto_submit(rt, add, pto_input(&ta), pto_input(&tb), pto_output(&tc)));
    PTO_TRY(pto_submit(rt, add, pto_input(&ta), pto_input(&tc), pto_output(&tb)));
    return pto_wait(rt);
}
/* end */

static pto_status life(void)
{
    /* example: pto_runtime_create pto_runtime_destroy */
    pto_runtime *rt = NULL;
    pto_config config = PTO_CONFIG_INIT;
    config.workers = 2;
    config.heap_bytes = 64 << 20;
    if (pto_runtime_create(&rt, &config) != PTO_OK) {
        fprintf(stderr, "%s\n", pto_error_detail());
        return PTO_SYSTEM;
    }
    /* submit tasks here */
    if (pto_runtime_destroy(&rt, PTO_WAIT) != PTO_OK) { /* a failure that no wait has reported */
        fprintf(stderr, "%s\n", pto_error_detail());
    }
    /* end */
    CHECK(rt == NULL);
    return PTO_OK;
}

static pto_status tasks(pto_runtime *rt)
{
    /* example: pto_submit pto_input pto_scalar */
    PTO_TRY(pto_submit(rt, add, pto_input(&ta), pto_input(&tb), pto_output(&tc)));
    PTO_TRY(pto_submit(rt, scale, pto_inout(&tc), pto_scalar(0.5)));
    /* end */
    /* example: pto_submit_task */
    pto_param params[] = {pto_inout(&tc), pto_scalar(2.0)};
    pto_task task;
    PTO_TRY(pto_submit_task(rt, scale, PTO_KERNEL_TYPE, params, 2, &task));
    /* end */
    /* example: pto_wait pto_last_task */
    pto_task last = pto_last_task(rt);
    PTO_TRY(pto_wait_task(rt, last)); /* one task */
    PTO_TRY(pto_wait(rt));            /* all of them */
    /* end */
    CHECK(c[3] == 13 && last == task);
    /* example: pto_after */
    PTO_TRY(pto_submit(rt, scale, pto_inout(&ta), pto_scalar(2)));
    PTO_TRY(pto_submit(rt, scale, pto_inout(&tb), pto_scalar(2), pto_after(pto_last_task(rt))));
    /* end */
    /* example: pto_nodep */
    /* Two tasks that touch other elements of c, which the runtime cannot know. */
    PTO_TRY(pto_submit(rt, scale, pto_nodep(pto_inout(&tc)), pto_scalar(1)));
    PTO_TRY(pto_submit(rt, scale, pto_nodep(pto_inout(&tc)), pto_scalar(1)));
    /* end */
    /* example: pto_scalar_i64 */
    pto_param by_type[] = {pto_scalar_i64(-1), pto_scalar_u64(UINT64_MAX), pto_scalar_f64(0.1)};
    /* end */
    CHECK(by_type[0].i64 == -1);
    return pto_wait(rt);
}

static pto_status memory(pto_runtime *rt)
{
    const int64_t shape[] = {N};
    float out[N];
    /* example: pto_external_tensor */
    static float data[4][16];
    pto_tensor t;
    PTO_TRY(pto_external_tensor(rt, data, PTO_FLOAT32, 2, (int64_t[]){4, 16}, &t));
    /* end */
    /* example: pto_temp PTO_SCOPE */
    PTO_SCOPE(rt) {
        pto_tensor sum; /* its memory comes with the task that writes it, and goes with the scope */
        PTO_TRY(pto_temp(rt, PTO_FLOAT32, 1, shape, &sum));
        PTO_TRY(pto_submit(rt, add, pto_input(&ta), pto_input(&tb), pto_output(&sum)));
        PTO_TRY(pto_submit(rt, add, pto_input(&sum), pto_input(&sum), pto_output(&tc)));
    }
    /* end */
    /* example: PTO_SCOPE_EX */
    for (int step = 0; step < 1000; step++) {
        PTO_BOUNDARY(rt) { /* a lifetime of its own: the loop can run for ever */
            pto_tensor next;
            PTO_TRY(pto_temp(rt, PTO_FLOAT32, 1, shape, &next));
            PTO_TRY(pto_submit(rt, add, pto_input(&ta), pto_input(&tb), pto_output(&next)));
        }
    }
    /* end */
    PTO_SCOPE(rt) {
        /* example: pto_alloc */
        pto_tensor whole, half; /* written in two parts */
        PTO_TRY(pto_alloc(rt, PTO_FLOAT32, 1, shape, &whole));
        for (int64_t i = 0; i < N; i += N / 2) {
            PTO_TRY(pto_tensor_slice(&whole, 0, i, i + N / 2, 1, &half));
            PTO_TRY(pto_submit(rt, add, pto_input(&ta), pto_input(&tb), pto_output(&half)));
        }
        /* end */
        /* example: pto_read pto_write */
        const float ones[N] = {1, 1, 1, 1, 1, 1, 1, 1};
        float sum[N];
        PTO_TRY(pto_write(rt, &whole, ones, sizeof ones));
        PTO_TRY(pto_submit(rt, scale, pto_inout(&whole), pto_scalar(3)));
        PTO_TRY(pto_read(rt, &whole, sum, sizeof sum)); /* waits for the task; sum[0] is 3 */
        /* end */
        CHECK(sum[0] == 3);
        /* example: pto_get_buffer_addr */
        void *address; /* of element 0; valid while the scope is open */
        PTO_TRY(pto_get_buffer_addr(rt, &whole, &address));
        /* end */
        CHECK(*(float *)address == 3);
    }
    /* example: pto_create_buffer pto_managed_tensor */
    PTO_SCOPE(rt) {
        pto_buffer buffer;
        pto_tensor old, new;
        PTO_TRY(pto_create_buffer(rt, sizeof out, &buffer));
        PTO_TRY(pto_managed_tensor(rt, &buffer, 0, PTO_FLOAT32, 1, shape, &old));
        PTO_TRY(pto_managed_tensor(rt, &buffer, 1, PTO_FLOAT32, 1, shape, &new));
        PTO_TRY(pto_submit(rt, add, pto_input(&ta), pto_input(&tb), pto_output(&old)));
        PTO_TRY(pto_submit(rt, add, pto_input(&ta), pto_input(&ta), pto_output(&new)));
        PTO_TRY(pto_read(rt, &new, out, sizeof out)); /* reading `old` is PTO_BAD_VERSION now */
    }
    /* end */
    /* example: pto_release */
    PTO_SCOPE(rt) {
        pto_tensor old, next;
        PTO_TRY(pto_temp(rt, PTO_FLOAT32, 1, shape, &old));
        PTO_TRY(pto_submit(rt, add, pto_input(&ta), pto_input(&tb), pto_output(&old)));
        for (int step = 0; step < 1000; step++) { /* two steps live at a time */
            PTO_TRY(pto_temp(rt, PTO_FLOAT32, 1, shape, &next));
            PTO_TRY(pto_submit(rt, add, pto_input(&old), pto_input(&tb), pto_output(&next)));
            PTO_TRY(pto_release(rt, &old));
            old = next;
        }
    }
    /* end */
    /* example: pto_task_get_output */
    PTO_SCOPE(rt) {
        pto_tensor sum, again;
        PTO_TRY(pto_temp(rt, PTO_FLOAT32, 1, shape, &sum));
        PTO_TRY(pto_submit(rt, add, pto_input(&ta), pto_input(&tb), pto_output(&sum)));
        PTO_TRY(pto_task_get_output(rt, pto_last_task(rt), 0, &again)); /* the same tensor */
    }
    /* end */
    /* example: pto_scope_begin pto_scope_end */
    PTO_TRY(pto_scope_begin(rt));
    printf("%u scopes are open\n", pto_get_scope_depth(rt));
    PTO_TRY(pto_scope_end(rt));
    /* end */
    return PTO_OK;
}

static pto_status failures(pto_runtime *rt)
{
    PTO_TRY(pto_submit(rt, bad, pto_output(&tc)));
    /* example: pto_wait_tensor */
    if (pto_wait_tensor(rt, &tc) == PTO_POISONED) { /* as pto_read, without the copy */
        fprintf(stderr, "%s\n", pto_error_detail());
    }
    /* end */
    /* example: pto_get_failure pto_clear_error */
    if (pto_wait(rt) == PTO_TASK_FAILED) {
        bool failed;
        pto_failure f;
        PTO_TRY(pto_get_failure(rt, &failed, &f));
        fprintf(stderr, "%s, submitted at %s:%d: %s\n", f.kernel, f.file, (int)f.line, f.message);
        PTO_TRY(pto_clear_error(rt)); /* go on */
    }
    /* end */
    return pto_wait(rt);
}

static pto_status refusals(pto_runtime *rt)
{
    const pto_tensor nowhere = {0};
    PTO_IGNORE(pto_submit(rt, scale, pto_inout(&nowhere), pto_scalar(2)));
    /* example: pto_refused */
    if (pto_wait(rt) == PTO_REFUSED) { /* some call above was refused, and its status was dropped */
        pto_refusal r;
        if (pto_refused(rt, &r)) {
            fprintf(stderr, "%llu calls were refused, the first at %s:%d\n",
                    (unsigned long long)r.count, r.file, (int)r.line);
        }
    }
    /* end */
    return pto_wait(rt);
}

/* example: pto_cancel */
static pto_runtime *interrupted;

static void on_interrupt(int number) /* may call pto_cancel, and little else */
{
    (void)number;
    pto_cancel(interrupted);
}

static pto_status run_until_interrupted(pto_runtime *rt)
{
    interrupted = rt;
    signal(SIGINT, on_interrupt);
    PTO_TRY(pto_submit(rt, scale, pto_inout(&ta), pto_scalar(2))); /* and many more */
    return pto_wait(rt);                                           /* PTO_CANCELLED after Ctrl-C */
}
/* end */

static pto_status run(pto_runtime *rt)
{
    PTO_TRY(life());
    PTO_TRY(tasks(rt));
    PTO_TRY(memory(rt));
    PTO_TRY(failures(rt));
    PTO_TRY(refusals(rt));
    PTO_TRY(add_twice(rt));
    PTO_TRY(run_until_interrupted(rt));
    raise(SIGINT);
    CHECK(pto_wait(rt) == PTO_CANCELLED);
    return pto_clear_error(rt);
}
