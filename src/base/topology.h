/* topology.h - the cores of the machine, as /sys describes them: which are near each other, and how much
 * of them this process may use. */
#ifndef PTOI_TOPOLOGY_H
#define PTOI_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PTOI_CPUS 4096 /* machines with more are not understood */

/* A set of cores, by the number that the system gives them. */
typedef struct ptoi_cpus {
    uint64_t word[PTOI_CPUS / 64];
} ptoi_cpus;

static inline bool ptoi_cpus_has(const ptoi_cpus *set, uint32_t cpu)
{
    return cpu < PTOI_CPUS && set->word[cpu / 64] >> cpu % 64 & 1;
}

static inline void ptoi_cpus_add(ptoi_cpus *set, uint32_t cpu)
{
    set->word[cpu / 64] |= (uint64_t)(cpu < PTOI_CPUS) << cpu % 64;
}

uint32_t ptoi_cpus_count(const ptoi_cpus *set);

/* Whether all cores of `part` are in `whole`. */
bool ptoi_cpus_contains(const ptoi_cpus *whole, const ptoi_cpus *part);

/* Adds a list like "0-3,8". False: it is not one, or names a core beyond PTOI_CPUS. */
bool ptoi_cpus_parse(const char *text, ptoi_cpus *set);

/* How far a core is from another one. */
typedef enum ptoi_distance {
    PTOI_SAME_CACHE,   /* both use the same last-level cache */
    PTOI_SAME_NODE,    /* the same memory: a NUMA node */
    PTOI_SAME_PACKAGE, /* the same socket */
    PTOI_ELSEWHERE,
} ptoi_distance;

typedef struct ptoi_cpu {
    uint16_t number;
    uint8_t sibling;  /* how many hardware threads of the same core come before it */
    uint8_t distance; /* ptoi_distance */
} ptoi_cpu;

/* All functions below read files under `root`: "" is the machine, tests have trees of their own. What a
 * file does not say is taken to be like everywhere: no siblings, one cache, one node, no limit. */

/* The cores of `usable`, best first, for threads that work together with one on core `self`: whole cores
 * before second hardware threads, and near before far. `self` itself comes last: it is in use. Returns
 * how many there are. */
uint32_t ptoi_topology_order(const char *root, const ptoi_cpus *usable, uint32_t self,
                             ptoi_cpu order[PTOI_CPUS]);

/* How many cores the control groups of this process let it use at a time, on average; 0: no limit. */
double ptoi_topology_quota(const char *root);

/* Whether the cores were set apart for this process: they are fewer than there are, they are isolated from
 * the scheduler of the system, or its control group has them for itself. Nobody can know whether others use
 * them all the same. */
bool ptoi_topology_owned(const char *root, const ptoi_cpus *usable);

#endif /* PTOI_TOPOLOGY_H */
