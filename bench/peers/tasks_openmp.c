/* tasks_openmp.c - OpenMP as a peer of bench_tasks: tasks with `depend` clauses.
 *
 * One source for two runtimes, libgomp and libomp. OpenMP identifies a tile by the address of
 * its first element. All tasks are made by the thread of a `single`, whose
 * team waits for them, and runs them, at its end; that thread helps in `taskwait`.
 */
#include <stdint.h>

typedef uint64_t *tile;
typedef struct sink sink;

#include "tasks_peer.h"

struct sink {
    uint64_t fresh_memory[FRESH][TILE * TILE];
    tile fresh[FRESH];
};

static void tile_make(tile *t, const data *d, size_t index)
{
    *t = tile_memory(d, index);
}

static void tile_free(tile *t)
{
    (void)t;
}

/* What a task takes along is firstprivate, as locals are here. What is written but not read could
 * be `out`; OpenMP orders it like `inout`. */
INLINE void task0(sink *s, kind which, tile *w)
{
    uint64_t *to = *w, number = task_number(s);
#pragma omp task depend(inout : to[0])
    body_run(which, number, (uint64_t *[]){to}, 0);
}

INLINE void task1(sink *s, kind which, tile *a, tile *w)
{
    uint64_t *x = *a, *to = *w, number = task_number(s);
#pragma omp task depend(in : x[0]) depend(inout : to[0])
    body_run(which, number, (uint64_t *[]){x, to}, 1);
}

INLINE void task2(sink *s, kind which, tile *a, tile *b, tile *w)
{
    uint64_t *x = *a, *y = *b, *to = *w, number = task_number(s);
#pragma omp task depend(in : x[0], y[0]) depend(inout : to[0])
    body_run(which, number, (uint64_t *[]){x, y, to}, 2);
}

INLINE void task3(sink *s, kind which, tile *a, tile *b, tile *c, tile *w)
{
    uint64_t *x = *a, *y = *b, *z = *c, *to = *w, number = task_number(s);
#pragma omp task depend(in : x[0], y[0], z[0]) depend(inout : to[0])
    body_run(which, number, (uint64_t *[]){x, y, z, to}, 3);
}

INLINE tile *fresh_begin(sink *s, uint64_t n)
{
    return &s->fresh[n % FRESH];
}

INLINE void fresh_end(sink *s)
{
    (void)s;
}

static void sink_wait(sink *s)
{
    (void)s;
#pragma omp taskwait
}

int main(int argc, char **argv)
{
    static sink s;
    int status = 0;
    for (int i = 0; i < FRESH; i++) {
        s.fresh[i] = s.fresh_memory[i];
    }
#pragma omp parallel
#pragma omp single
    status = peer_main(&s, argc, argv);
    return status;
}
