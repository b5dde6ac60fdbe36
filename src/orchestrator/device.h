/* device.h - the devices that a runtime knows how to use. */
#ifndef PTOI_DEVICE_H
#define PTOI_DEVICE_H

#include <pto/execute.h>

typedef struct ptoi_device {
    pto_device device;
    pto_device_ops ops;
} ptoi_device;

/* One entry for each device, in no order: there are few. */
struct ptoi_devices {
    size_t n, room;
    ptoi_device *entries;
    const pto_device_ops *current; /* of the innermost pto_execute under way; NULL: none is */
};

/* A table with cpu:0 in it. */
pto_status ptoi_devices_create(struct ptoi_devices **out);
void ptoi_devices_destroy(struct ptoi_devices *devices); /* NULL is fine */

#endif /* PTOI_DEVICE_H */
