/* parallel.c - one copy by several threads, which live as long as the copy. */
#include <inttypes.h>

#include "base/error.h"
#include "base/os.h"
#include "base/thread.h"
#include "op/rearrange/rearrange.h"

enum { MOST_THREADS = 256 };

/* Starting and joining a thread takes as long as copying a good part of this. */
#define BYTES_A_THREAD (INT64_C(1) << 20)

typedef struct part {
    const ptoi_move *move;
    uint32_t number, parts;
    pthread_t thread;
} part;

static void *run_part(void *context)
{
    const part *p = context;
    ptoi_plan_run_part(p->move->plan, p->move->to, p->move->from, p->number, p->parts);
    return NULL;
}

static uint32_t parts_for(const ptoi_plan *plan, uint32_t threads)
{
    uint64_t worth = 1 + (uint64_t)(plan->bytes / BYTES_A_THREAD), parts = threads;
    parts = parts ? parts : ptoi_os_cores();
    parts = parts < worth ? parts : worth;
    return parts < MOST_THREADS ? (uint32_t)parts : MOST_THREADS;
}

static void run(const ptoi_move *move, uint32_t parts)
{
    part all[MOST_THREADS];
    bool started[MOST_THREADS];
    for (uint32_t i = 0; i < parts; i++) {
        all[i] = (part){.move = move, .number = i, .parts = parts};
        /* The caller does part 0, and each part for which no thread could be started. */
        started[i] = i > 0 && ptoi_os_thread(&all[i].thread, run_part, &all[i]) == 0;
    }
    for (uint32_t i = 0; i < parts; i++) {
        if (!started[i]) {
            (void)run_part(&all[i]);
        }
    }
    for (uint32_t i = 0; i < parts; i++) {
        if (started[i]) {
            (void)pthread_join(all[i].thread, NULL);
        }
    }
}

pto_status pto_rearrange_parallel(const pto_tensor *dst, const pto_tensor *src, uint32_t threads)
{
    static const ptoi_who who = PTOI_WHO("rearrange in parallel");
    if (!dst || !src) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "%s: %s is NULL", who.op, dst ? "src" : "dst");
    }
    PTO_TRY(ptoi_rearrange_device(&who, dst, src));
    if (dst->device.type != PTO_DEVICE_CPU) {
        return ptoi_fail(PTO_NOT_IMPLEMENTED,
                         "%s: the tensors are on %s:%" PRId32 "; threads are for the cpu", who.op,
                         pto_device_name(dst->device.type), dst->device.index);
    }
    ptoi_move move;
    PTO_TRY(ptoi_rearrange_prepare(&who, dst, src, &move));
    if (move.plan) {
        run(&move, parts_for(move.plan, threads));
    }
    return PTO_OK;
}
