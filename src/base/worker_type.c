/* worker_type.c - names of worker types. */
#include <pto/kernel.h>

const char *pto_worker_type_name(pto_worker_type type)
{
    switch (type) {
#define WORKER_NAME(name, value, text)                                                             \
    case PTO_##name:                                                                               \
        return text;
        PTO_WORKER_MAP(WORKER_NAME)
#undef WORKER_NAME
    case PTO_KERNEL_TYPE:
        return "that of the kernel";
    case PTO_WORKER_TYPES:
    default:
        return "invalid";
    }
}
