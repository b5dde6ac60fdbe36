/* Tasks, statistics, stalls, watchers. */
#include "example.h"

/* example: pto_watch */
static void count_started(void *user, pto_task task, uint32_t worker)
{
    (void)task, (void)worker;
    __atomic_fetch_add((unsigned *)user, 1, __ATOMIC_RELAXED); /* on any thread */
}

static pto_status count_tasks(pto_runtime *rt, unsigned *count)
{
    pto_watcher watcher = {.size = sizeof watcher, .user = count, .started = count_started};
    PTO_TRY(pto_watch(rt, &watcher));
    PTO_TRY(pto_submit(rt, scale, pto_inout(&ta), pto_scalar(2)));
    PTO_TRY(pto_watch(rt, NULL)); /* waits for all tasks */
    return PTO_OK;
}
/* end */

static pto_status stall(void)
{
    pto_runtime *rt = NULL;
    pto_config config = PTO_CONFIG_INIT;
    config.heap_bytes = 4096;
    PTO_TRY(pto_runtime_create(&rt, &config));
    /* example: pto_last_stall pto_stall_print pto_stall_kind_name */
    pto_tensor t;
    pto_status status = PTO_OK;
    PTO_SCOPE(rt) {
        while (status == PTO_OK) { /* until the heap is full, and only this scope could empty it */
            status = pto_alloc(rt, PTO_UINT8, 1, (int64_t[]){1024}, &t);
        }
    }
    pto_stall_report report;
    PTO_TRY(pto_last_stall(rt, &report));
    printf("%s: %s\n", pto_status_name(status), pto_stall_kind_name(report.kind));
    pto_stall_print(&report, stdout);
    /* end */
    CHECK(status == PTO_STALLED && report.count == 1);
    return pto_runtime_destroy(&rt, PTO_CANCEL);
}

static pto_status run(pto_runtime *rt)
{
    unsigned count = 0;
    PTO_TRY(count_tasks(rt, &count));
    CHECK(count == 1);
    /* example: pto_task_info pto_task_state_name */
    pto_task_report report;
    PTO_TRY(pto_submit(rt, scale, pto_inout(&ta), pto_scalar(2)));
    PTO_TRY(pto_task_info(rt, pto_last_task(rt), &report));
    printf("%s\n", pto_task_state_name(report.state)); /* "pending", "running" ... */
    /* end */
    /* example: pto_label PTO_RANGE */
    for (int step = 0; step < 3; step++) {
        PTO_RANGE(rt, "step %d", step)
        {
            PTO_TRY(pto_label(rt, "a, step %d", step)); /* the next task */
            PTO_TRY(pto_submit(rt, scale, pto_inout(&ta), pto_scalar(2)));
        }
    }
    /* end */
    /* example: pto_range_begin */
    PTO_TRY(pto_range_begin(rt, "layer %d", 7));
    PTO_TRY(pto_submit(rt, scale, pto_inout(&ta), pto_scalar(2)));
    PTO_TRY(pto_range_end(rt));
    /* end */
    /* example: pto_stats pto_ring_name */
    pto_runtime_stats stats;
    PTO_TRY(pto_stats(rt, &stats));
    for (int ring = 0; ring < PTO_RINGS; ring++) {
        const pto_ring_stats *r = &stats.level[0].ring[ring];
        printf("%s: %llu of %llu at most, %llu waits\n", pto_ring_name((pto_ring)ring),
               (unsigned long long)r->peak, (unsigned long long)r->size,
               (unsigned long long)r->waits);
    }
    /* end */
    PTO_TRY(pto_wait(rt));
    /* example: pto_check */
    if (pto_check(rt) == PTO_CORRUPT) { /* in a test: something has overwritten the runtime */
        fprintf(stderr, "%s\n", pto_error_detail());
        abort();
    }
    /* end */
    return stall();
}
