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
    int64_t gpu;       /* default with --place gpu; 0: the same */
} workload_option;

typedef struct workload_job workload_job;
struct pto_mpi_layout;

/* Functions of libpto-mpi (docs/mpi.md), which `pto run --mpi` has loaded. */
typedef struct workload_mpi {
    int rank, ranks;
    pto_status (*submit)(pto_runtime *rt, int rank, pto_kernel kernel, pto_worker_type type,
                         const pto_param *params, size_t n_params, const char *file, int line);
    pto_status (*wait)(pto_runtime *rt, const char *file, int line);
    pto_status (*temp)(pto_runtime *rt, pto_dtype dtype, int32_t ndim, const int64_t *shape,
                       pto_tensor *t, const char *file, int line);
    pto_status (*tensor)(pto_runtime *rt, pto_dtype dtype, int32_t ndim, const int64_t *shape,
                         const struct pto_mpi_layout *layout, pto_tensor *t, const char *file,
                         int line);
    pto_status (*gather)(pto_runtime *rt, const pto_tensor *t, int root, void *to, uint64_t bytes,
                         const char *file, int line);
    pto_status (*scatter)(pto_runtime *rt, const pto_tensor *t, int root, const void *from,
                          uint64_t bytes, const char *file, int line);
    pto_status (*broadcast)(pto_runtime *rt, const pto_tensor *t, const pto_param *readers,
                            size_t n_readers, const char *file, int line);
} workload_mpi;

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
    bool mpi;                           /* can run on several ranks */
} workload;

/* One run. */
struct workload_job {
    /* Set by the tool before `prepare`. */
    const workload *what;
    const int64_t *number;   /* values of the options, in the order of the table */
    const char *const *text; /* the same for text options */
    uint64_t seed;
    bool gpu; /* --place gpu: the device schedules for itself */

    /* Set by `prepare`. */
    void *data;        /* private data of the workload */
    double flops;      /* floating-point operations of one orchestration; 0: not counted */
    double bytes;      /* bytes moved by one orchestration; 0: not counted */
    uint64_t total;    /* steps of progress in one orchestration; 0: unknown */
    pto_config tight;  /* rings close to the smallest that work, for --rings tight */
    pto_config usual;  /* preset; zero: the defaults of the runtime */
    bool elsewhere;    /* --device: the data is copied there and back (where.h) */
    pto_device device; /* which */

    /* Set by the tool before `start`. */
    pto_runtime *rt;
    const workload_mpi *mpi; /* NULL: one process */

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

/* Submits a task and waits for all, in one process or on several ranks; otherwise as pto_submit, pto_temp and
 * pto_wait. */
static inline pto_status workload_submit_at(const workload_job *job, pto_kernel kernel,
                                            const pto_param *params, size_t n, const char *file,
                                            int line)
{
    return job->mpi
               ? job->mpi->submit(job->rt, -1, kernel, PTO_KERNEL_TYPE, params, n, file, line)
               : pto_submit_task_at(job->rt, kernel, PTO_KERNEL_TYPE, params, n, NULL, file, line);
}

#define workload_submit(job, ...)                                                                  \
    workload_submit_at((job), PTO_KERNEL_OF_(__VA_ARGS__, ), PTO_PARAMS_OF_(__VA_ARGS__, ),        \
                       sizeof(PTO_PARAMS_OF_(__VA_ARGS__, )) / sizeof(pto_param) - 1, __FILE__,    \
                       __LINE__)

static inline pto_status workload_temp(const workload_job *job, pto_dtype dtype, int32_t ndim,
                                       const int64_t *shape, pto_tensor *t)
{
    return job->mpi ? job->mpi->temp(job->rt, dtype, ndim, shape, t, __FILE__, __LINE__)
                    : pto_temp(job->rt, dtype, ndim, shape, t);
}

static inline pto_status workload_wait(const workload_job *job)
{
    return job->mpi ? job->mpi->wait(job->rt, __FILE__, __LINE__) : pto_wait(job->rt);
}

/* Makes a tensor over memory that holds its contents. On several ranks its tiles are spread over them, and
 * rank 0 has the contents; workload_put sends them to the tiles, workload_get brings them back. Elsewhere
 * both do nothing. */
pto_status workload_tensor(workload_job *job, void *memory, pto_dtype dtype, int32_t ndim,
                           const int64_t *shape, const int64_t *tile, pto_tensor *t);
pto_status workload_put(const workload_job *job, const pto_tensor *t, const void *memory);
pto_status workload_get(const workload_job *job, const pto_tensor *t, void *memory);

/* Whether this rank has all data, and so checks the result. */
static inline bool workload_is_root(const workload_job *job)
{
    return !job->mpi || job->mpi->rank == 0;
}

/* All workloads, in the order of `pto run --list`, then NULL. */
extern const workload *const workloads[];

#endif /* WORKLOAD_H */
