/* workloads_openmp.c - OpenMP as a peer of bench_workloads: tasks with `depend` clauses on the
 * first element of each tile.
 *
 * Built without OpenMP it is the serial program: the kernels alone, one after the other. One
 * copy for each core runs at the same time, each on its own matrices, and the slowest counts: no
 * runtime with these tiles can be faster.
 */
#include <sys/wait.h>
#include <unistd.h>

typedef struct handle {
    char none;
} handle;

#include "workloads_tasks.h"

static void tile_register(tile *t)
{
    (void)t;
}

static void tile_unregister(tile *t)
{
    (void)t;
}

INLINE void task0(kind which, tile *w)
{
#pragma omp task firstprivate(which, w) depend(inout : w->b.at[0])
    kernel_run(which, NULL, NULL, &w->b);
}

INLINE void task1(kind which, tile *x, tile *w)
{
#pragma omp task firstprivate(which, x, w) depend(in : x->b.at[0]) depend(inout : w->b.at[0])
    kernel_run(which, &x->b, NULL, &w->b);
}

/* What is written but not read is `out`; OpenMP orders it like `inout`. */
INLINE void task2(kind which, tile *x, tile *y, tile *w)
{
#pragma omp task firstprivate(which, x, y, w) depend(in                                            \
                                                     : x->b.at[0], y->b.at[0])                     \
    depend(inout                                                                                   \
           : w->b.at[0])
    kernel_run(which, &x->b, &y->b, &w->b);
}

static void tasks_wait(void)
{
#pragma omp taskwait
}

#if defined(_OPENMP)

int main(int argc, char **argv)
{
    int status = 0;
#pragma omp parallel
#pragma omp single
    status = peer_main(argc, argv, false);
    return status;
}

#else

/* Each copy writes its line into a pipe; the one with the most seconds is passed on. */
int main(int argc, char **argv)
{
    const char *threads = getenv("OMP_NUM_THREADS");
    const long copies = threads ? strtol(threads, NULL, 10) : 1;
    int ends[2], status = 0, bad = 0;
    char line[256], slowest[256] = "";
    if (pipe(ends) != 0) {
        return 2;
    }
    for (long i = 0; i < copies; i++) {
        if (fork() == 0) {
            dup2(ends[1], STDOUT_FILENO);
            close(ends[0]);
            exit(peer_main(argc, argv, false));
        }
    }
    close(ends[1]);
    FILE *lines = fdopen(ends[0], "r");
    while (lines && fgets(line, sizeof line, lines)) {
        if (line[0] == 'w' || strtod(line, NULL) > strtod(slowest, NULL)) {
            memcpy(slowest, line, sizeof line);
        }
    }
    while (wait(&status) > 0) {
        bad |= !WIFEXITED(status) || WEXITSTATUS(status);
    }
    fputs(slowest, stdout);
    return bad;
}

#endif
