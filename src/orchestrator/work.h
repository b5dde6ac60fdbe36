/* work.h - work requests (pto/work.h): tasks of one kernel that the runtime brings along. */
#ifndef PTOI_WORK_H
#define PTOI_WORK_H

#include <pto/work.h>

/* Registers the kernel, as the runtime is created. */
pto_status ptoi_work_register(pto_runtime *rt, pto_kernel *kernel);

#endif /* PTOI_WORK_H */
