/* support.c - what workload.h promises to workloads: memory and random numbers. */
#define _GNU_SOURCE /* MADV_HUGEPAGE */
#include "workload.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LINE = 64, HUGE = 2 << 20 };

/* What could be had without being killed for it, as far as the system says. */
static uint64_t available(void)
{
    const uint64_t most = (uint64_t)PTRDIFF_MAX - HUGE;
    uint64_t kib = 0;
    char line[128];
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof line, file)) {
        static const char name[] = "MemAvailable:";
        if (!strncmp(line, name, sizeof name - 1)) {
            kib = strtoull(line + sizeof name - 1, NULL, 10);
        }
    }
    if (file) {
        (void)fclose(file);
    }
    return kib == 0 || kib > most >> 10 ? most : kib << 10;
}

void *workload_alloc(uint64_t count, uint64_t size)
{
    const uint64_t most = available();
    void *memory = NULL;
    if (count <= most / (size ? size : 1)) {
        const uint64_t wanted = count * size, align = wanted < HUGE ? LINE : HUGE;
        const uint64_t bytes = wanted ? (wanted + align - 1) / align * align : align;
        memory = aligned_alloc(align, bytes);
        if (memory) {
            /* A wish only: without huge pages it works as well. */
            (void)(align == HUGE && madvise(memory, bytes, MADV_HUGEPAGE));
            memset(memory, 0, bytes);
        }
    }
    if (!memory) {
        (void)pto_fail(PTO_OUT_OF_MEMORY,
                       "no memory for %" PRIu64 " x %" PRIu64 " bytes; %" PRIu64 " MiB can be had",
                       count, size, most >> 20);
    }
    return memory;
}

void workload_free(void *memory)
{
    free(memory);
}

/* Steps of a fixed odd width, each mixed until every bit depends on every other. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

workload_rng workload_rng_make(uint64_t seed, uint64_t stream)
{
    return (workload_rng){mix(mix(seed) + stream)};
}

uint64_t workload_random(workload_rng *rng)
{
    rng->state += UINT64_C(0x9e3779b97f4a7c15);
    return mix(rng->state);
}

double workload_uniform(workload_rng *rng)
{
    return (double)(workload_random(rng) >> 11) * 0x1p-53;
}
