/* cores_patterns.h - the programs of bench_cores, for ours and for its peers: wide enough for many
 * cores. Whoever includes this file has included tasks_patterns.h.
 *
 *   stencil       128 cells, two generations: a cell reads three of the old and writes a new one
 *   independent   every task updates a tile of its own
 */
#ifndef PTO_CORES_PATTERNS_H
#define PTO_CORES_PATTERNS_H

#include "tasks_patterns.h"

enum { WIDE_CELLS = 128, OWN_TILES = 4096 }; /* more tiles than any runtime lets tasks be open */

static data wide_data(uint64_t tasks)
{
    (void)tasks;
    return data_make((size_t)2 * WIDE_CELLS, 0);
}

static void wide_run(sink *s, const data *d, uint64_t tasks)
{
    const uint64_t n = WIDE_CELLS;
    for (uint64_t i = 0; i < tasks; i++) {
        const uint64_t cell = i % n, generation = i / n % 2;
        tile *from = d->tiles + generation * n, *to = d->tiles + (1 - generation) * n;
        task3(s, STENCIL, &from[(cell + n - 1) % n], &from[cell], &from[(cell + 1) % n], &to[cell]);
    }
}

static data inouts_data(uint64_t tasks)
{
    (void)tasks;
    return data_make(OWN_TILES, 0);
}

static void inouts_run(sink *s, const data *d, uint64_t tasks)
{
    for (uint64_t i = 0; i < tasks; i++) {
        task0(s, CHAIN, &d->tiles[i % OWN_TILES]);
    }
}

enum { CORES_STENCIL, CORES_INDEPENDENT, CORES_PATTERNS };

static const pattern cores_patterns[CORES_PATTERNS] = {
    {"stencil", "stencil, 128 wide", wide_data, wide_run},
    {"independent", "independent", inouts_data, inouts_run},
};

#endif /* PTO_CORES_PATTERNS_H */
