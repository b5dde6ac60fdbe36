/* device.h - the table of devices that a runtime can use. Orchestrator's side. */
#ifndef PTOI_DEVICE_H
#define PTOI_DEVICE_H

#include <pto/execute.h>

typedef struct ptoi_device {
    pto_device device;
    pto_device_ops ops;
} ptoi_device;

/* One entry per device, unsorted: there are few. */
struct ptoi_devices {
    size_t n, room;
    ptoi_device *entries;
    const pto_device_ops
        *current; /* device of the innermost running pto_execute; NULL: none runs */
};

/* A table with cpu:0 in it. */
pto_status ptoi_devices_create(struct ptoi_devices **out);
void ptoi_devices_destroy(struct ptoi_devices *devices); /* NULL is fine */

#endif /* PTOI_DEVICE_H */
