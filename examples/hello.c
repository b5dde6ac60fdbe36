#include <pto/pto.h>
static pto_status twice(const pto_call *call)
{
    *(float *)call->args[0].data *= 2;
    return PTO_OK;
}
int main(void)
{
    float x = 10.5f;
    pto_runtime *rt = NULL;
    pto_kernel kernel;
    pto_tensor t;
    bool bad = pto_runtime_create(&rt, NULL) ||
               pto_kernel_register(rt, "twice", PTO_VECTOR, twice, NULL, &kernel) ||
               pto_external_tensor(rt, &x, PTO_FLOAT32, 0, NULL, &t) ||
               pto_submit(rt, kernel, pto_inout(&t)) || pto_submit(rt, kernel, pto_inout(&t)) ||
               pto_runtime_destroy(&rt, PTO_WAIT);
    bad ? puts(pto_error_detail()) : printf("twice twice 10.5 is %g\n", x);
    return bad;
}
