/* engines.h - the engines of the process: one for an operation on a device (pto/work.h). */
#ifndef PTOI_DEVICE_ENGINES_H
#define PTOI_DEVICE_ENGINES_H

#include <pto/work.h>

/* The engine for an operation on a device; NULL if there is none. What it points to never changes. */
const pto_engine *ptoi_engine_find(pto_device device, uint32_t opcode);

#endif /* PTOI_DEVICE_ENGINES_H */
