/* sim.h - the simulated accelerators sim:0 to sim:7 (pto/sim.h). They belong to the process. */
#ifndef PTOI_SIM_H
#define PTOI_SIM_H

#include <pto/device.h>

/* The functions of sim:index, which is created at its first use. PTO_BAD_DEVICE: no such index. */
pto_status ptoi_sim_get(int32_t index, const pto_device_ops **ops);

/* Whether the device exists: it was used. */
bool ptoi_sim_exists(int32_t index);

#endif /* PTOI_SIM_H */
