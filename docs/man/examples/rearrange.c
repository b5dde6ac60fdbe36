/* Copies between layouts. */
#include "example.h"

#include <pto/rearrange.h>

static float image[16][16][4], planes[4][16][16];

static pto_status run(pto_runtime *rt)
{
    pto_tensor src, dst, permuted;
    PTO_TRY(pto_tensor_init(&src, image, sizeof image, PTO_FLOAT32, 3, (int64_t[]){16, 16, 4}, NULL,
                            0));
    PTO_TRY(pto_tensor_init(&dst, planes, sizeof planes, PTO_FLOAT32, 3, (int64_t[]){4, 16, 16},
                            NULL, 0));
    image[3][5][2] = 42;
    /* example: pto_rearrange pto_rearrange_parallel */
    PTO_TRY(pto_tensor_permute(&src, (int32_t[]){2, 0, 1}, &permuted)); /* a view */
    PTO_TRY(pto_rearrange(&dst, &permuted));                            /* the copy */
    PTO_TRY(pto_rearrange_parallel(&dst, &permuted, 0));                /* with all cores */
    /* end */
    CHECK(planes[2][3][5] == 42);
    /* example: pto_rearrange_new */
    pto_tensor fresh; /* in memory of its own */
    PTO_TRY(pto_rearrange_new(&permuted, &fresh));
    pto_rearrange_free(&fresh);
    /* end */
    /* example: pto_submit_rearrange */
    PTO_TRY(pto_submit_rearrange(rt, &dst, &permuted, PTO_VECTOR));
    PTO_TRY(pto_wait(rt));
    /* end */
    /* example: pto_rearrange_plan_create pto_rearrange_plan_execute pto_rearrange_plan_destroy pto_rearrange_plan_format */
    pto_rearrange_plan *plan;
    char text[128];
    PTO_TRY(pto_rearrange_plan_create(&dst, &permuted, &plan));
    pto_rearrange_plan_format(plan, text, sizeof text);
    printf("%s\n", text);
    for (int i = 0; i < 10; i++) {
        PTO_TRY(pto_rearrange_plan_execute(plan, &dst, &permuted));
    }
    pto_rearrange_plan_destroy(plan);
    /* end */
    /* example: pto_rearrange_cache_get */
    pto_rearrange_cache_stats stats;
    PTO_TRY(pto_rearrange_cache_get((pto_device){PTO_DEVICE_CPU, 0}, &stats));
    printf("%llu hits, %llu misses\n", (unsigned long long)stats.hits,
           (unsigned long long)stats.misses);
    PTO_TRY(pto_rearrange_cache_resize(1000)); /* many layouts take turns */
    PTO_TRY(pto_rearrange_cache_clear_all());
    /* end */
    /* example: pto_rearrange_op */
    PTO_TRY(pto_op_run(pto_rearrange_op(), &dst, 1, &permuted, 1, NULL)); /* as pto_rearrange */
    /* end */
    return PTO_OK;
}
