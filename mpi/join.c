/* join.c - how a rank joins a world: what all ranks must have alike, and how many cores there are. */
#define _GNU_SOURCE /* CPU_COUNT */
#include "world.h"

#include <sched.h>
#include <time.h>

/* A program that was started by the launcher of another MPI is alone in a world of its own, as often as there were to be
 * ranks, and each would do all of the work. The launchers say how many they have started. */
static pto_status check_launcher(const world *w)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    for (int i = 0; i < 2 && w->ranks == 1; i++) {
        const char *text = getenv(names[i]);
        const long started = text ? strtol(text, NULL, 10) : 1;
        if (started > 1) {
            return pto_fail(
                PTO_BAD_CONFIG,
                "mpi_create: the launcher has started %ld ranks (%s), and this MPI knows "
                "of one: use the launcher of the MPI that the program is linked with",
                started, names[i]);
        }
    }
    return PTO_OK;
}

/* What must be the same on all ranks. */
typedef struct terms {
    char version[16];
    uint64_t cache_bytes, scratch_bytes, small_bytes;
    int32_t ranks;
    int32_t status; /* PTO_OK, or why the rank cannot join; then nobody does */
    int32_t traced; /* the only one that may differ: then each rank has its own trace */
} terms;

static pto_status check_terms(const world *w, const terms *mine, bool *traced)
{
    terms *all = malloc((size_t)w->ranks * sizeof *all);
    pto_status status = PTO_OK;
    if (!all) {
        return pto_fail(PTO_OUT_OF_MEMORY, "mpi_create: no memory");
    }
    if (MPI_Allgather(mine, (int)sizeof *mine, MPI_BYTE, all, (int)sizeof *mine, MPI_BYTE,
                      w->control) != MPI_SUCCESS) {
        status = pto_fail(PTO_SYSTEM, "mpi_create: MPI_Allgather failed");
    }
    *traced = true;
    for (int i = 0; i < w->ranks && status == PTO_OK; i++) {
        const terms *t = &all[i];
        *traced = *traced && t->traced;
        if (t->status != PTO_OK) {
            status = pto_fail(PTO_BAD_CONFIG, "mpi_create: rank %d cannot join: %s", i,
                              pto_status_text((pto_status)t->status));
        } else if (memcmp(t->version, all[0].version, sizeof t->version) != 0) {
            status = pto_fail(PTO_BAD_CONFIG, "mpi_create: rank %d has version %.15s, rank 0 %.15s",
                              i, t->version, all[0].version);
        } else if (t->cache_bytes != all[0].cache_bytes ||
                   t->scratch_bytes != all[0].scratch_bytes ||
                   t->small_bytes != all[0].small_bytes) {
            status = pto_fail(PTO_BAD_CONFIG,
                              "mpi_create: rank %d has cache_bytes %" PRIu64
                              ", scratch_bytes %" PRIu64 ", small_bytes %" PRIu64
                              "; rank 0 %" PRIu64 ", %" PRIu64 ", %" PRIu64,
                              i, t->cache_bytes, t->scratch_bytes, t->small_bytes,
                              all[0].cache_bytes, all[0].scratch_bytes, all[0].small_bytes);
        } else if (t->ranks && t->ranks != w->ranks) {
            status = pto_fail(PTO_BAD_CONFIG,
                              "mpi_create: the program needs %d ranks, and there are %d", t->ranks,
                              w->ranks);
        }
    }
    free(all);
    return status;
}

/* How many cores of this machine there are for each rank on it, beyond those for threads that run kernels;
 * negative: there are too few even for these. All ranks of a machine are taken to have as many threads, and either
 * cores of their own (launchers bind them) or the same ones. */
static int spare_cores(const pto_runtime *rt, MPI_Comm comm)
{
    MPI_Comm near;
    cpu_set_t mine, all;
    int n = 1, count, sum;
    const int threads = (int)pto_thread_count(rt);
    CPU_ZERO(&mine);
    if (sched_getaffinity(0, sizeof mine, &mine) != 0) {
        CPU_ZERO(&mine);
    }
    all = mine;
    count = sum = CPU_COUNT(&mine);
    if (MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near) == MPI_SUCCESS) {
        MPI_Comm_size(near, &n);
        MPI_Allreduce(&mine, &all, (int)sizeof all, MPI_BYTE, MPI_BOR, near);
        MPI_Allreduce(&count, &sum, 1, MPI_INT, MPI_SUM, near);
        MPI_Comm_free(&near);
    }
    const int cores = CPU_COUNT(&all);
    if (sum == cores) { /* of its own */
        return count < threads ? -1 : count - threads;
    }
    return cores < n * threads ? -1 : cores / n - threads;
}

/* Returns when all ranks are here. Other worlds of this process need the lock until then: their messages may be what a
 * rank waits for that is not here yet. */
static int meet(MPI_Comm comm)
{
    MPI_Request request;
    int here = 0;
    pthread_mutex_lock(&mpi_lock);
    int code = MPI_Ibarrier(comm, &request);
    while (code == MPI_SUCCESS && !here) {
        code = MPI_Test(&request, &here, MPI_STATUS_IGNORE);
        if (!here) {
            pthread_mutex_unlock(&mpi_lock);
            nanosleep(&(struct timespec){0, 20000}, NULL);
            pthread_mutex_lock(&mpi_lock);
        }
    }
    pthread_mutex_unlock(&mpi_lock);
    return code;
}

/* Under the lock, when all ranks are here. */
static pto_status connect_all(world *w, const pto_mpi_config *config, MPI_Comm comm,
                              pto_status ready)
{
    char why[MPI_TEXT];
    snprintf(why, sizeof why, "%s", pto_error_detail());
    int *bound = NULL, there = 0;
    if (MPI_Comm_dup(comm, &w->data) != MPI_SUCCESS ||
        MPI_Comm_dup(comm, &w->control) != MPI_SUCCESS) {
        return pto_fail(PTO_SYSTEM, "mpi_create: MPI_Comm_dup failed");
    }
    MPI_Comm_set_errhandler(w->data, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(w->control, MPI_ERRORS_RETURN);
    world_watch_finalize();
    MPI_Comm_rank(w->data, &w->rank);
    MPI_Comm_size(w->data, &w->ranks);
    if (comm == MPI_COMM_WORLD) {
        PTO_TRY(check_launcher(w));
    }
    MPI_Comm_get_attr(w->data, MPI_TAG_UB, (void *)&bound, &there);
    w->tags = there && *bound < 1 << 20 ? *bound + 1 : 1 << 20;
    terms mine = {.cache_bytes = w->cache_bytes,
                  .small_bytes = w->small_bytes,
                  .scratch_bytes = w->scratch.bytes,
                  .ranks = config ? config->ranks : 0,
                  .status = (int32_t)ready,
                  .traced = pto_trace_clock(w->rt) != 0};
    bool traced = false;
    snprintf(mine.version, sizeof mine.version, "%s", PTO_VERSION);
    w->cores = spare_cores(w->rt, w->control);
    w->spin = config && config->spin ? config->spin : w->cores >= 0 ? 20000 : 2000;
    const pto_status agreed = check_terms(w, &mine, &traced);
    if (ready != PTO_OK) {
        return pto_fail(ready, "%s", why);
    }
    PTO_TRY(agreed);
    return traced ? trace_join(w) : PTO_OK;
}

pto_status join_connect(world *w, const pto_mpi_config *config, pto_status ready)
{
    MPI_Comm comm = config && config->comm ? *(const MPI_Comm *)config->comm : MPI_COMM_WORLD;
    if (meet(comm) != MPI_SUCCESS) {
        return pto_fail(PTO_SYSTEM, "mpi_create: MPI_Ibarrier failed");
    }
    pthread_mutex_lock(&mpi_lock);
    const pto_status status = connect_all(w, config, comm, ready);
    pthread_mutex_unlock(&mpi_lock);
    return status;
}
