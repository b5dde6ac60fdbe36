/* grid_roles.h - which warp of a grid plays which role (scheduler/grid.h). This header compiles as C11
 * and as CUDA C++.
 *
 * Warps are numbered through all blocks, in the order in which the blocks took a ticket:
 *
 *     warp     0       1       2 ...               2 + resolvers / 32 ...
 *     role     mover   clerk   resolvers           writers
 *
 * The blocks that these warps fill do nothing else. Each of the others is one worker.
 */
#ifndef PTOI_GRID_ROLES_H
#define PTOI_GRID_ROLES_H

#include "scheduler/grid.h"

#define PTOI_WARP 32u /* lanes */

/* The number of warps that are not workers. The lanes of a role fill whole warps. */
PTOI_INLINE uint32_t ptoi_grid_service_warps(const ptoi_grid *g)
{
    return 2 + g->n_resolvers / PTOI_WARP + g->n_writers / PTOI_WARP;
}

/* The number of blocks that are not workers. A grid is launched with so many blocks, and one for each
 * worker: neither more nor fewer. */
PTOI_INLINE uint32_t ptoi_grid_service_blocks(const ptoi_grid *g, uint32_t threads)
{
    const uint32_t warps = threads / PTOI_WARP;
    return (ptoi_grid_service_warps(g) + warps - 1) / warps;
}

/* The ready ring that a worker takes tasks from. */
PTOI_INLINE uint32_t ptoi_grid_ring_of(const ptoi_grid *g, uint32_t worker)
{
    return worker < g->workers_of[0] ? 0 : 1;
}

#endif /* PTOI_GRID_ROLES_H */
