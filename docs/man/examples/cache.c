/* A cache of plans for an operator of one's own. */
#include "example.h"

#include <pto/cache.h>

/* example: pto_cache_here pto_cache_find pto_cache_put */
static _Thread_local pto_cache *plans; /* one for each operator */

/* The plan of n elements, which is computed once for each thread and device. NULL: no memory. */
static const int64_t *plan_of(pto_device device, int64_t n)
{
    pto_cache *cache = pto_cache_here(&plans, free);
    int64_t *plan = pto_cache_find(cache, device, &n, sizeof n);
    if (!plan) {
        plan = malloc(sizeof *plan);
        if (plan) {
            *plan = n * n; /* what takes long */
        }
        if (!pto_cache_put(cache, device, &n, sizeof n, plan)) {
            free(plan); /* it is still ours */
            return NULL;
        }
    }
    return plan; /* valid until the next call */
}
/* end */

static pto_status run(pto_runtime *rt)
{
    const pto_device cpu = {PTO_DEVICE_CPU, 0};
    (void)rt;
    CHECK(plan_of(cpu, 3) && *plan_of(cpu, 3) == 9);
    /* example: pto_cache_get_stats pto_cache_resize pto_cache_clear */
    pto_cache_stats stats;
    PTO_TRY(pto_cache_resize(plans, 10)); /* for each device */
    PTO_TRY(pto_cache_get_stats(plans, cpu, &stats));
    printf("%llu hits, %llu misses\n", (unsigned long long)stats.hits,
           (unsigned long long)stats.misses);
    PTO_TRY(pto_cache_clear(plans, NULL)); /* of all devices */
    /* end */
    CHECK(stats.hits == 1 && stats.misses == 1 && stats.capacity == 10);
    return PTO_OK;
}
