/* grid_rig.h - a runtime in place gpu in a world. The orchestrator and the keeper are the real ones, and the
 * roles of the grid are threads of the world. The device never waits for idle time, so the grid ends whenever it
 * has nothing to do, and is launched again. Kernels work on plain memory, and so do the copies of the mover: an
 * order that is missing is a race. */
#ifndef EXPLORE_GRID_RIG_H
#define EXPLORE_GRID_RIG_H

#include "rig.h"
#include "scheduler/grid.h"

enum { GRID_ROLES = 4, GRID_CELLS = 5 /* of the rig that are on the device */ };

/* What a thread of the grid does. */
enum {
    MOVES = 1,
    RESOLVES = 2,
    RESOLVES_TOO = 4, /* the second lane */
    SERVES = 8,
    WRITES = 16,
    WORKS = 32,
    WORKS_TOO = 64, /* the second worker */
};

#define RESOLVERS (RESOLVES | RESOLVES_TOO)
#define WORKERS (WORKS | WORKS_TOO)

/* The threads of a grid; 0 ends them. */
typedef uint32_t duties[GRID_ROLES];

typedef struct grid_rig {
    const uint32_t *duties;
    uint32_t n_threads;
    ptoi_grid *grid;   /* published by the first launch */
    ptoi_a32 launched; /* released by the keeper, acquired by the threads of the grid */
    ptoi_a32 gone;     /* released by them as they leave, acquired by the keeper */
    ptoi_a32 over;     /* released by the program when the keeper is gone */
    bool slow;         /* kernels let others go on; set before the world begins */
    bool may_die;      /* the same */
    ptoi_a32 dead;     /* the device is lost: released by who breaks it, acquired by all others */
    pto_kernel host_twice, host_fail;
} grid_rig;

extern grid_rig *gpu;

/* Creates a runtime with this configuration and grid. Kernels and the first GRID_CELLS cells of the rig are
 * those of the device. */
pto_config grid_rig_config(void);
void grid_rig_create(const pto_config *config, const duties threads);

/* The same with a grid of threads of the process (worker/grid.c). */
void grid_rig_create_threads(void);

/* The description of the grid, before its first launch. */
ptoi_grid *grid_rig_grid(void);

/* Runs a program. The threads of the grid are there meanwhile, and until the keeper has ended. */
void grid_rig_run(void (*program)(void));

#endif /* EXPLORE_GRID_RIG_H */
