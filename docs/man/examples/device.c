/* Devices. */
#include "example.h"

#include <pto/device.h>

static int current;

/* example: pto_device_add pto_device_set_current pto_device_get */
static pto_status set_current(void *self)
{
    current = *(int *)self; /* a real one tells its driver */
    return PTO_OK;
}

static pto_status use_device(void)
{
    static int number = 1;
    pto_device device = {PTO_DEVICE_ASCEND, 0};
    pto_device_ops ops = {.size = sizeof ops, .self = &number, .set_current = set_current};
    PTO_TRY(pto_device_add(device, &ops));
    PTO_TRY(pto_device_set_current(device)); /* calls set_current */
    return pto_device_get(device, &ops);
}
/* end */

static pto_status run(pto_runtime *rt)
{
    (void)rt;
    PTO_TRY(use_device());
    CHECK(current == 1);
    /* example: pto_device_current */
    pto_device before = pto_device_current();
    PTO_TRY(pto_device_set_current((pto_device){PTO_DEVICE_CPU, 0}));
    /* work on the CPU */
    PTO_TRY(pto_device_set_current(before));
    /* end */
    /* example: pto_device_list */
    pto_device devices[16];
    size_t count;
    PTO_TRY(pto_device_list(devices, 16, &count));
    for (size_t i = 0; i < count && i < 16; i++) {
        printf("%s:%d\n", pto_device_name(devices[i].type), (int)devices[i].index);
    }
    /* end */
    CHECK(count >= 2);
    /* example: pto_device_parse */
    pto_device device;
    PTO_TRY(pto_device_parse("sim:1", &device)); /* {PTO_DEVICE_SIM, 1} */
    /* end */
    CHECK(device.type == PTO_DEVICE_SIM && device.index == 1);
    /* example: pto_tensor_empty pto_tensor_free */
    pto_tensor there;
    PTO_TRY(pto_tensor_empty(device, PTO_FLOAT32, 2, (int64_t[]){64, 64}, &there)); /* on sim:1 */
    PTO_TRY(pto_tensor_free(&there));
    /* end */
    return PTO_OK;
}
