/* workloads.c - the list of all workloads. The build generates it from the files in
 * examples/workloads (cmake/tools.cmake), so a new workload needs only a new file there. */
#include "workload.h"

#define WORKLOAD(name) extern const workload workload_##name;
#include "workloads.inc"
#undef WORKLOAD

const workload *const workloads[] = {
#define WORKLOAD(name) &workload_##name,
#include "workloads.inc"
#undef WORKLOAD
    NULL,
};
