/* The dependency map on its own. */
#include "example.h"

/* example: pto_tensormap_read_deps pto_tensormap_lookup_all */
static void print_hit(void *context, const pto_map_hit *hit)
{
    printf("%s task %llu, which %s it\n", (const char *)context, (unsigned long long)hit->task.id,
           hit->access == PTO_MAP_READ ? "reads" : "writes");
}

static pto_status print_dependencies(pto_tensormap *map, const pto_tensor *t)
{
    PTO_TRY(pto_tensormap_lookup_all(map, t, print_hit, "written by"));
    PTO_TRY(pto_tensormap_read_deps(map, t, print_hit, "a read waits for"));
    return pto_tensormap_write_deps(map, t, print_hit, "a write waits for");
}
/* end */

static pto_status run(pto_runtime *rt)
{
    (void)rt;
    /* example: pto_tensormap_init pto_tensormap_destroy */
    pto_tensormap *map;
    pto_tensormap_config config = PTO_TENSORMAP_CONFIG_INIT;
    config.entries = 1024;
    PTO_TRY(pto_tensormap_init(&map, &config));
    /* end */
    /* example: pto_tensormap_insert pto_tensormap_lookup */
    bool found;
    pto_map_task producer;
    PTO_TRY(pto_tensormap_insert(map, &ta, (pto_map_task){.id = 1}));      /* task 1 writes a */
    PTO_TRY(pto_tensormap_insert_read(map, &ta, (pto_map_task){.id = 2})); /* task 2 reads it */
    PTO_TRY(pto_tensormap_lookup(map, &ta, &found, &producer));            /* task 1 */
    /* end */
    CHECK(found && producer.id == 1);
    PTO_TRY(print_dependencies(map, &ta));
    /* example: pto_tensormap_submit */
    pto_map_param params[] = {{&ta, PTO_MAP_READ}, {&tb, PTO_MAP_WRITE}};
    pto_map_hit hits[16];
    size_t n;
    PTO_TRY(pto_tensormap_submit(map, params, 2, (pto_map_task){.id = 3}, hits, 16, &n));
    for (size_t i = 0; i < n; i++) {
        printf("parameter %u: after task %llu\n", hits[i].param,
               (unsigned long long)hits[i].task.id);
    }
    /* end */
    CHECK(n == 1);
    /* example: pto_tensormap_sync_validity pto_tensormap_cleanup_retired */
    PTO_TRY(pto_tensormap_sync_validity(map, 0, 3)); /* tasks 1 and 2 have ended */
    PTO_TRY(pto_tensormap_cleanup_retired(map));     /* now, instead of some ids later */
    /* end */
    /* example: pto_tensormap_get_stats pto_tensormap_check */
    pto_tensormap_stats stats;
    PTO_TRY(pto_tensormap_get_stats(map, &stats));
    PTO_TRY(pto_tensormap_check(map));
    printf("%llu entries, %llu regions\n", (unsigned long long)stats.entries,
           (unsigned long long)stats.regions);
    /* end */
    /* example: pto_tensormap_destroy */
    pto_tensormap_destroy(&map);
    /* end */
    CHECK(map == NULL);
    return PTO_OK;
}
