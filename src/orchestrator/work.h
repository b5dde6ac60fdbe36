/* work.h - work requests (pto/work.h): tasks of a built-in kernel. Orchestrator's side. */
#ifndef PTOI_WORK_H
#define PTOI_WORK_H

#include <pto/work.h>

/* Registers the kernel. Called once, by create. */
pto_status ptoi_work_register(pto_runtime *rt, pto_kernel *kernel);

#endif /* PTOI_WORK_H */
