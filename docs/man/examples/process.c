/* Worker processes. The runtime of the example has them only where the environment says so. */
#include "example.h"

#include <pto/process.h>

/* example: pto_recover */
static pto_status wait_and_survive(pto_runtime *rt)
{
    pto_status s = pto_wait(rt);
    while (s == PTO_WORKER_LOST) {
        puts(pto_error_detail()); /* which process, how it ended, and which task it ran */
        PTO_TRY(pto_recover(rt));
        s = pto_wait(rt); /* PTO_TASK_FAILED: the tasks that died, and their descendants */
    }
    return s;
}
/* end */

/* example: PTO_KERNEL_EXPORT */
static pto_status negate(const pto_call *call)
{
    float *x = call->args[0].data;
    *x = -*x;
    return PTO_OK;
}

PTO_KERNEL_EXPORT({"negate", negate}, {"add", add_fn});
/* end */

static pto_status run(pto_runtime *rt)
{
    /* example: pto_shared_alloc */
    void *memory;
    PTO_TRY(pto_shared_alloc(rt, N * sizeof(float), &memory));
    pto_tensor t;
    float *shared = memory; /* zero */
    PTO_TRY(pto_external_tensor(rt, shared, PTO_FLOAT32, 1, (int64_t[]){N}, &t));
    PTO_TRY(pto_submit(rt, add, pto_input(&t), pto_input(&t), pto_output(&t)));
    /* end */
    PTO_TRY(wait_and_survive(rt));
    /* example: pto_shared_free */
    PTO_TRY(pto_shared_free(rt, memory));
    /* end */
    CHECK(pto_exported_kernels[0].fn == negate);
    /* example: pto_worker_attach */
    pto_worker_options options = {
        .size = sizeof options,
        .name = "nobody", /* the program's PTO_ATTACH */
        .workers = 2,
    };
    const pto_status s = pto_worker_attach(&options);
    printf("%s\n", s ? pto_error_detail() : "the program has ended");
    /* end */
    CHECK(s == PTO_SYSTEM);
    /* example: pto_worker_detach */
    pto_worker_detach(); /* in a handler of SIGTERM, for example */
    /* end */
    return PTO_OK;
}
