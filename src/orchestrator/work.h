/* work.h - work requests (pto/work.h): tasks of a built-in kernel. Orchestrator's side. */
#ifndef PTOI_WORK_H
#define PTOI_WORK_H

#include <pto/work.h>

/* Registers the kernel. Called once, by create. */
pto_status ptoi_work_register(pto_runtime *rt, pto_kernel *kernel);

/* pto_copy of the library, on behalf of a call at this line. */
pto_status ptoi_copy_for(pto_runtime *rt, const pto_tensor *dst, const pto_tensor *src,
                         const char *file, int line);

#endif /* PTOI_WORK_H */
