/* workload.h - the interface of a workload, which `pto run` runs, times and checks.
 *
 * A workload is one file in this folder: its kernels, its orchestration, and a reference for its
 * result. `pto run NAME` calls it in these steps:
 *
 *     options --> prepare     checks the sizes, allocates memory and fills it from the seed
 *             --> runtime     is created as the user asked, or with the small rings of `tight`
 *             --> start       registers the kernels
 *             --> orchestrate submits everything and waits; this is timed (several times with
 *                             --repeat; restore resets the data in between)
 *             --> check       compares with the reference; a wrong result is a failure, and its
 *                             message says what differs
 *             --> discard     frees the memory
 *
 * Functions return PTO_OK, or a failure with a message from pto_fail. A failure of `prepare` is bad
 * input (exit status 2); other failures are errors (exit status 1).
 */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#include <pto/pto.h>

/* An option of a workload: --name N, or --name TEXT. */
typedef struct workload_option {
    const char *name;  /* "tile" */
    const char *help;  /* "rows and columns of a tile" */
    const char *text;  /* default of a text option; NULL: the option takes a number */
    int64_t number;    /* default of a number */
    int64_t low, high; /* bounds of the number, checked before `prepare` */
    int64_t small;     /* value for the tests, which run in a fraction of a second */
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
    pto_status (*restore)(workload_job *job); /* may be NULL: nothing to reset */
    pto_status (*check)(workload_job *job);
    void (*discard)(workload_job *job); /* also called after `prepare` has failed */
} workload;

/* One run. */
struct workload_job {
    /* Set by the tool before `prepare`. */
    const workload *what;
    const int64_t *number;   /* values of the options, in the order of the table */
    const char *const *text; /* the same for text options */
    uint64_t seed;

    /* Set by `prepare`. */
    void *data;       /* private data of the workload */
    double flops;     /* floating-point operations of one orchestration; 0: not counted */
    double bytes;     /* bytes moved by one orchestration; 0: not counted */
    uint64_t total;   /* steps of progress in one orchestration; 0: unknown */
    pto_config tight; /* rings close to the smallest that work, for --rings tight */
    pto_config usual; /* preset; zero: the defaults of the runtime */

    /* Set by the tool before `start`. */
    pto_runtime *rt;

    /* Set by `check`, for the summary: one line about the comparison, like "largest error 3.1e-15
     * (allowed 1e-12)". */
    char verdict[200];

    void *tool; /* private data of the tool */
};

/* Reports that `done` of `total` steps were submitted. Cheap enough to call for every step. */
void workload_progress(workload_job *job, uint64_t done);

/* Prints a line above the summary (on a terminal: above the progress line). Only the first of
 * several runs prints it. */
void workload_say(workload_job *job, const char *format, ...) PTO_PRINTF(2, 3);

/* Allocates zeroed memory, aligned to 64 bytes, with huge pages where they help. NULL and an error
 * message if there is none. */
void *workload_alloc(uint64_t count, uint64_t size);
void workload_free(void *memory);

/* Seeded random numbers, the same on every machine: uniform in [0, 1). The state is kept by the
 * caller. */
typedef struct workload_rng {
    uint64_t state;
} workload_rng;

workload_rng workload_rng_make(uint64_t seed, uint64_t stream);
uint64_t workload_random(workload_rng *rng);
double workload_uniform(workload_rng *rng);

/* All workloads, in the order of `pto run --list`, then NULL. */
extern const workload *const workloads[];

#endif /* WORKLOAD_H */
