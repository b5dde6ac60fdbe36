/* Converting a recorded run. */
#include "example.h"

#include <pto/trace.h>

static pto_status run(pto_runtime *unused)
{
    (void)unused;
    pto_runtime *rt = NULL;
    pto_kernel kernel;
    pto_config config = PTO_CONFIG_INIT;
    config.trace = "run.ptrace";
    PTO_TRY(pto_runtime_create(&rt, &config));
    PTO_TRY(pto_kernel_register(rt, "scale", PTO_VECTOR, scale_fn, NULL, &kernel));
    PTO_TRY(pto_submit(rt, kernel, pto_inout(&ta), pto_scalar(2)));
    PTO_TRY(pto_runtime_destroy(&rt, PTO_WAIT));
    /* example */
    if (pto_trace_convert("run.ptrace", "run.html") != PTO_OK) {
        fprintf(stderr, "%s\n", pto_error_detail());
    }
    /* end */
    FILE *page = fopen("run.html", "r");
    CHECK(page && fclose(page) == 0);
    /* example: pto_trace_merge */
    const pto_trace_part parts[] = {{.name = "run.rank-0.ptrace"}, {.name = "run.rank-1.ptrace"}};
    if (pto_trace_merge(parts, 2, "run.html") != PTO_OK) {
        fprintf(stderr, "%s\n", pto_error_detail());
    }
    /* end */
    return PTO_OK;
}
