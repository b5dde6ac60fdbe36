/* workloads.c - all workloads. The list is made by the build, from the files in examples/workloads
 * that define one (cmake/tools.cmake): a new one is a new file there, and nothing else. */
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
