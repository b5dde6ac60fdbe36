/* attach.c - kernels of the test of attached workers, in a shared object. Built twice: whole, and
 * with LACKING, without the kernel 'add'. */
#include <unistd.h>

#include <pto/process.h>

/* inout cell: += argument 1. Cell 1 becomes the process. */
static pto_status add(const pto_call *call)
{
    int64_t *cell = call->args[0].data;
    cell[0] += call->args[1].i64;
    cell[1] = getpid();
    return PTO_OK;
}

static pto_status later(const pto_call *call)
{
    *(int64_t *)call->args[0].data += 1;
    return PTO_OK;
}

/* Never returns. Cell 1 becomes the process. */
static pto_status stay(const pto_call *call)
{
    ((volatile int64_t *)call->args[0].data)[1] = getpid();
    for (;;) {
        pause();
    }
    return PTO_OK;
}

static pto_status die(const pto_call *call)
{
    (void)call;
    _exit(9);
}

#ifdef LACKING
PTO_KERNEL_EXPORT({"die", die}, {"hold", later}, {"unused", add}, {"stay", stay},
                  {"die_here", die});
#else
PTO_KERNEL_EXPORT({"add", add}, {"later", later}, {"die", die}, {"stay", stay}, {"die_here", die});
#endif
