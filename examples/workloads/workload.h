/* workload.h - what a workload is to `pto run`, which runs it, times it and checks it.
 *
 * A workload is one file beside this one: its kernels, its orchestration, and a reference to check the
 * result against. `pto run NAME` goes through it like this:
 *
 *     options --> prepare     sizes are checked, memory is allocated and filled from the seed
 *             --> runtime     created as the user asked, or with rings as small as `tight` says
 *             --> start       kernels are registered
 *             --> orchestrate submits everything and waits; this is what is timed (several times
 *                             with --repeat; restore brings the data back in between)
 *             --> check       compares with the reference; a result that is wrong is a failure whose
 *                             words say what differs
 *             --> discard     memory is freed
 *
 * Functions return PTO_OK, or a failure with its words from pto_fail: of `prepare` it is bad input
 * (exit status 2), of the others an error (exit status 1).
 */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#include <pto/pto.h>

/* An option of a workload: --name N, or --name TEXT. */
typedef struct workload_option {
    const char *name;  /* "tile" */
    const char *help;  /* "rows and columns of a tile" */
    const char *text;  /* default of an option that takes text; NULL: it takes a number */
    int64_t number;    /* default of one that takes a number */
    int64_t low, high; /* bounds of the number, checked before `prepare` */
    int64_t small;     /* the number that the tests use: done in a fraction of a second */
} workload_option;

typedef struct workload_job workload_job;

typedef struct workload {
    const char *name;
    const char *summary; /* one line */
    const workload_option *options;
    size_t n_options;
    pto_status (*prepare)(workload_job *job);
    pto_status (*start)(workload_job *job);
    pto_status (*orchestrate)(workload_job *job);
    pto_status (*restore)(workload_job *job); /* may be NULL: nothing needs to be brought back */
    pto_status (*check)(workload_job *job);
    void (*discard)(workload_job *job); /* also after a `prepare` that failed half way */
} workload;

/* One run. */
struct workload_job {
    /* From the tool, before `prepare`. */
    const workload *what;
    const int64_t *number;   /* values of the options, in the order of the table */
    const char *const *text; /* likewise, of those that take text */
    uint64_t seed;

    /* From `prepare`. */
    void *data;       /* the workload's own */
    double flops;     /* floating-point operations of one orchestration; 0: not counted */
    double bytes;     /* or bytes moved, where that is what counts; 0: not counted */
    uint64_t total;   /* steps of progress in one orchestration; 0: unknown */
    pto_config tight; /* rings near the least that works, for --rings tight */
    pto_config usual; /* what it wants by default; zero: the defaults of the runtime */

    /* From the tool, before `start`. */
    pto_runtime *rt;

    /* From `check`, for the summary: one line of what was compared and how near it was, like
     * "largest error 3.1e-15 (allowed 1e-12)". */
    char verdict[200];

    void *tool; /* the tool's own */
};

/* So many steps of `total` were submitted. Cheap: may be called for every one. */
void workload_progress(workload_job *job, uint64_t done);

/* A line for people, printed above the summary (of a terminal: above the progress); of several runs
 * only those of the first are printed. */
void workload_say(workload_job *job, const char *format, ...) PTO_PRINTF(2, 3);

/* Memory aligned to 64 bytes and zeroed, huge pages where they help; NULL and words if there is
 * none. */
void *workload_alloc(uint64_t count, uint64_t size);
void workload_free(void *memory);

/* Seeded random numbers, the same on every machine: uniform in [0, 1), and the state to keep. */
typedef struct workload_rng {
    uint64_t state;
} workload_rng;

workload_rng workload_rng_make(uint64_t seed, uint64_t stream);
uint64_t workload_random(workload_rng *rng);
double workload_uniform(workload_rng *rng);

/* All of them, in the order of `pto run --list`; NULL ends it. */
extern const workload *const workloads[];

#endif /* WORKLOAD_H */
