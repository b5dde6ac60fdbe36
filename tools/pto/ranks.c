/* ranks.c - loads libpto-mpi, and spreads the tensors of workloads over ranks. The command links no MPI: a
 * library for each one is beside it, and which one is right only the launcher knows. */

#include "ranks.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pto/mpi.h>

typedef struct library {
    void *handle;
    pto_status (*create)(pto_runtime *rt, const pto_mpi_config *config);
    pto_status (*destroy)(pto_runtime *rt, const char *file, int line);
    int (*rank)(const pto_runtime *rt);
    int (*ranks)(const pto_runtime *rt);
    workload_mpi functions;
} library;

static library loaded;

/* Variables by which a launcher says which rank a process is. */
static const struct {
    const char *name, *variable;
} launchers[] = {{"openmpi", "OMPI_COMM_WORLD_RANK"}, {"mpich", "PMI_RANK"}};

int mpi_rank_of_launcher(void)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const char *text = getenv(launchers[i].variable);
        if (text) {
            return atoi(text);
        }
    }
    return 0;
}

/* In the build folder, in an installation, or where the loader looks. */
static void *open_library(const char *name)
{
    static const char *const places[] = {"/../", "/../lib/", "/../lib/x86_64-linux-gnu/",
                                         "/../lib/aarch64-linux-gnu/"};
    char folder[PATH_MAX], path[PATH_MAX + 64];
    const ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
    folder[length > 0 ? length : 0] = 0;
    char *slash = strrchr(folder, '/');
    for (size_t i = 0; slash && i < sizeof places / sizeof *places; i++) {
        *slash = 0;
        snprintf(path, sizeof path, "%s%slibpto-mpi-%s.so", folder, places[i], name);
        void *handle = access(path, R_OK) == 0 ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
        if (handle) {
            return handle;
        }
    }
    snprintf(path, sizeof path, "libpto-mpi-%s.so", name);
    return dlopen(path, RTLD_NOW | RTLD_GLOBAL);
}

static bool find(void *handle, const char *name, void *function)
{
    void *address = dlsym(handle, name);
    memcpy(function, &address, sizeof address);
    return address;
}

static pto_status load(void)
{
    const char *name = "openmpi";
    library l = {0};
    if (loaded.handle) {
        return PTO_OK;
    }
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        if (getenv(launchers[i].variable)) {
            name = launchers[i].name;
            break;
        }
    }
    l.handle = open_library(name);
    if (!l.handle) {
        return pto_fail(PTO_SYSTEM, "--mpi: libpto-mpi-%s.so cannot be loaded: %s", name,
                        dlerror());
    }
    workload_mpi *f = &l.functions;
    if (!find(l.handle, "pto_mpi_create", &l.create) ||
        !find(l.handle, "pto_mpi_destroy_at", &l.destroy) ||
        !find(l.handle, "pto_mpi_rank", &l.rank) || !find(l.handle, "pto_mpi_ranks", &l.ranks) ||
        !find(l.handle, "pto_mpi_submit_task_at", &f->submit) ||
        !find(l.handle, "pto_mpi_wait_at", &f->wait) ||
        !find(l.handle, "pto_mpi_temp_at", &f->temp) ||
        !find(l.handle, "pto_mpi_tensor_at", &f->tensor) ||
        !find(l.handle, "pto_mpi_gather_at", &f->gather) ||
        !find(l.handle, "pto_mpi_scatter_at", &f->scatter) ||
        !find(l.handle, "pto_mpi_broadcast_at", &f->broadcast)) {
        return pto_fail(PTO_SYSTEM, "--mpi: libpto-mpi-%s.so lacks a function: %s", name,
                        dlerror());
    }
    loaded = l;
    return PTO_OK;
}

pto_status mpi_join(workload_job *job)
{
    PTO_TRY(load());
    PTO_TRY(loaded.create(job->rt, NULL));
    loaded.functions.rank = loaded.rank(job->rt);
    loaded.functions.ranks = loaded.ranks(job->rt);
    job->mpi = &loaded.functions;
    return PTO_OK;
}

pto_status mpi_leave(workload_job *job)
{
    if (!job->mpi) {
        return PTO_OK;
    }
    job->mpi = NULL;
    return loaded.destroy(job->rt, __FILE__, __LINE__);
}

/* ---- Called by workloads -------------------------------------------------------------------------- */

pto_status workload_tensor(workload_job *job, void *memory, pto_dtype dtype, int32_t ndim,
                           const int64_t *shape, const int64_t *tile, pto_tensor *t)
{
    if (!job->mpi) {
        return pto_external_tensor(job->rt, memory, dtype, ndim, shape, t);
    }
    pto_mpi_layout layout = {.tile = {0}};
    memcpy(layout.tile, tile, (size_t)ndim * sizeof *tile);
    PTO_TRY(job->mpi->tensor(job->rt, dtype, ndim, shape, &layout, t, __FILE__, __LINE__));
    return workload_put(job, t, memory);
}

pto_status workload_put(const workload_job *job, const pto_tensor *t, const void *memory)
{
    return job->mpi ? job->mpi->scatter(job->rt, t, 0, memory, UINT64_MAX, __FILE__, __LINE__)
                    : PTO_OK;
}

pto_status workload_get(const workload_job *job, const pto_tensor *t, void *memory)
{
    return job->mpi ? job->mpi->gather(job->rt, t, 0, memory, UINT64_MAX, __FILE__, __LINE__)
                    : PTO_OK;
}
