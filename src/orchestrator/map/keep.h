/* keep.h - how many idle regions stay known.
 *
 * Programs come back to their views. So in the map of a runtime a region stays known when it is idle, and linked. But
 * each question about a place that it overlaps visits it, and finds nobody there. So visits of idle regions are
 * limited: every task earns PTOI_KEEP_EARN of them, and what is not used is saved, for the one task in a thousand that
 * reads what the others have written. A question that cannot pay for a visit evicts the region instead.
 *
 *     visits <= PTOI_KEEP_SAVED + 16 * regions that were ever used
 *
 * So a program that ceases to use its views soon gets rid of them, however much it had saved. Up to PTOI_LINKS_FREE links
 * of a region are followed without pay: then nothing is counted on the fast path of submit.
 */
#ifndef PTOI_KEEP_H
#define PTOI_KEEP_H

#include "orchestrator/map/map.h"

/* With 16, streams of overlapping views cost half as much again; with 4, deep hierarchies of tiles do not stay. */
#define PTOI_KEEP_EARN 8u
#define PTOI_KEEP_SAVED 1024u
#define PTOI_LINKS_FREE 128u

/* Adds what tasks have earned since the last call. */
static inline void ptoi_keep_earn(pto_tensormap *map)
{
    if (map->order) {
        const uint64_t most = PTOI_KEEP_SAVED + 16 * (uint64_t)map->region_free.untouched;
        const uint64_t visits = map->visits + PTOI_KEEP_EARN * (*map->order - map->earned);
        map->visits = visits < most ? visits : most;
        map->earned = *map->order;
    }
}

/* Pays for so many visits. False if there is not enough left: nothing is paid then. */
static inline bool ptoi_keep_pay(pto_tensormap *map, uint32_t count)
{
    ptoi_keep_earn(map);
    if (map->visits < count) {
        return false;
    }
    map->visits -= count;
    return true;
}

#endif /* PTOI_KEEP_H */
