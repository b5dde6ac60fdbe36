#include <pto/pto.h>
#include <stdio.h>

static pto_status twice(const pto_call *call) /* args[1] = 2 * args[0] */
{
    *(float *)call->args[1].data = 2 * *(const float *)call->args[0].data;
    return PTO_OK;
}

int main(void)
{
    float x = 10.5f;
    pto_runtime *rt = NULL;
    pto_kernel kernel;
    pto_tensor a, b;
    bool ok = !pto_runtime_create(&rt, NULL) &&
              !pto_kernel_register(rt, "twice", PTO_VECTOR, twice, NULL, &kernel) &&
              !pto_external_tensor(rt, &x, PTO_FLOAT32, 0, NULL, &a);
    PTO_SCOPE(rt) { /* b is memory of the runtime, for as long as this scope or its readers */
        ok = ok && !pto_temp(rt, PTO_FLOAT32, 0, NULL, &b) &&
             !pto_submit(rt, kernel, pto_input(&a), pto_output(&b)) &&
             !pto_submit(rt, kernel, pto_input(&b), pto_output(&a));
    }
    ok = ok && !pto_wait(rt);
    ok ? printf("twice twice 10.5 is %g\n", x) : fprintf(stderr, "%s\n", pto_error_detail());
    return pto_runtime_destroy(&rt, PTO_WAIT) || !ok;
}
