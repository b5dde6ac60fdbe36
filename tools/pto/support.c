/* support.c - memory and random numbers for workloads (workload.h). */
#define _GNU_SOURCE /* MADV_HUGEPAGE */
#include "workload.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LINE = 64, HUGE = 2 << 20 };

/* The first number after `name` in a file under /proc or /sys; with "" the first number of the
 * file. `none` if there is none. */
static uint64_t number_in(const char *path, const char *name, uint64_t none)
{
    uint64_t found = none;
    char line[512];
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        char *end = NULL;
        const char *text = line + strlen(name);
        if (!strncmp(line, name, strlen(name))) {
            const uint64_t number = strtoull(text, &end, 10);
            found = end == text ? none : number; /* "max" is not a number */
            break;
        }
    }
    if (file) {
        (void)fclose(file);
    }
    return found;
}

/* Memory that the control group at this path and all its parents still allow; at most `most`. */
static uint64_t left_to_group(const char *root, char *path, const char *limit, const char *used,
                              uint64_t most)
{
    char name[1024];
    for (;;) {
        (void)snprintf(name, sizeof name, "%s%s/%s", root, path, limit);
        const uint64_t may = number_in(name, "", UINT64_MAX);
        (void)snprintf(name, sizeof name, "%s%s/%s", root, path, used);
        const uint64_t has = number_in(name, "", 0), left = may > has ? may - has : 0;
        most = left < most ? left : most;
        char *slash = strrchr(path, '/');
        if (!slash) {
            return most;
        }
        *slash = 0;
    }
}

/* Memory that can be allocated without being killed, according to the system: the machine and our
 * control groups (both versions; a container has one of them). */
static uint64_t available(void)
{
    const uint64_t kib = number_in("/proc/meminfo", "MemAvailable:", UINT64_MAX >> 10);
    uint64_t most = (uint64_t)PTRDIFF_MAX - HUGE;
    most = kib < most >> 10 ? kib << 10 : most;
    char line[512];
    FILE *file = fopen("/proc/self/cgroup", "r");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *second = strrchr(line, ':');
        if (!strncmp(line, "0::", 3)) {
            most = left_to_group("/sys/fs/cgroup", second + 1, "memory.max", "memory.current",
                                 most);
        } else if (strstr(line, ":memory:")) {
            most = left_to_group("/sys/fs/cgroup/memory", second + 1, "memory.limit_in_bytes",
                                 "memory.usage_in_bytes", most);
        }
    }
    if (file) {
        (void)fclose(file);
    }
    return most;
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
            /* Only a hint: it also works without huge pages. */
            (void)(align == HUGE && madvise(memory, bytes, MADV_HUGEPAGE));
            memset(memory, 0, bytes);
        }
    }
    if (!memory) {
        PTO_IGNORE(pto_fail(PTO_OUT_OF_MEMORY,
                            "no memory for %" PRIu64 " x %" PRIu64 " bytes; %" PRIu64
                            " MiB are available",
                            count, size, most >> 20));
    }
    return memory;
}

void workload_free(void *memory)
{
    free(memory);
}

/* SplitMix64: a counter with a fixed odd step, and a mixer in which every output bit depends on
 * every input bit. */
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
