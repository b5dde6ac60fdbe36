/* world.c - the life of a world, what all ranks agree on in a wait, and failures. */
#define _GNU_SOURCE /* CPU_COUNT */
#include "world.h"

#include <sched.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* The worlds of the process. Written under `guard`; read without it by orchestrating threads, each of which
 * looks for a world of its own runtime. */
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(world *) worlds;

_Atomic(world *) world_recent;

world *world_search(const pto_runtime *rt)
{
    for (world *w = atomic_load(&worlds); rt && w; w = w->next) {
        if (w->rt == rt) {
            atomic_store_explicit(&world_recent, w, memory_order_release);
            return w;
        }
    }
    return NULL;
}

char *world_reserve(uint64_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

int pto_mpi_rank(const pto_runtime *rt)
{
    const world *w = world_of(rt);
    return w ? w->rank : -1;
}

int pto_mpi_ranks(const pto_runtime *rt)
{
    const world *w = world_of(rt);
    return w ? w->ranks : -1;
}

void pto_mpi_lock(pto_runtime *rt)
{
    pthread_mutex_lock(&world_of(rt)->lock);
}

void pto_mpi_unlock(pto_runtime *rt)
{
    pthread_mutex_unlock(&world_of(rt)->lock);
}

pto_status pto_mpi_get_stats(const pto_runtime *rt, pto_mpi_stats *stats)
{
    const world *w = world_of(rt);
    if (!w || !stats) {
        return pto_fail(PTO_NULL_ARGUMENT, "mpi_get_stats: %s",
                        w ? "stats is NULL" : "the runtime is in no world");
    }
    *stats = w->stats;
    stats->bytes_scratch = w->scratch.peak;
    for (int i = 0; i < w->ranks; i++) {
        stats->bytes_cache += w->peers[i].in.peak;
        stats->bytes_tables += (w->peers[i].in.capacity + (uint64_t)w->peers[i].out.capacity) *
                               (sizeof(share_entry) + sizeof(uint32_t));
    }
    stats->bytes_tables += sizeof *w + (uint64_t)w->ranks * sizeof *w->peers;
    stats->steps = w->history.step >> STEP_BITS;
    return PTO_OK;
}

/* ---- Refusals and breaks ------------------------------------------------------------------------------- */

pto_status world_is_broken(world *w)
{
    return pto_fail(w->broken_status, "%s", w->broken_text);
}

pto_status world_refused(world *w, pto_status status)
{
    if (w->refused == PTO_OK) {
        w->refused = status;
        w->refused_step = w->history.step;
        snprintf(w->refused_text, sizeof w->refused_text, "%s", pto_error_detail());
    }
    return status;
}

pto_status world_refuse(world *w, pto_status status, const char *format, ...)
{
    char text[MPI_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return world_refused(w, pto_fail(status, "%s", text));
}

bool pto_mpi_refused(pto_runtime *rt)
{
    world *w = world_of(rt);
    const bool was = w && w->refused != PTO_OK;
    if (was) {
        w->refused = PTO_OK;
        pto_refused(rt, NULL);
    }
    return was;
}

/* ---- Agreement --------------------------------------------------------------------------------------------- */

/* The step of a local task. */
static uint64_t step_of(const world *w, uint64_t order)
{
    for (size_t i = 0; i < w->n_orders; i++) {
        if (w->orders[i].order > order) {
            return w->orders[i].step;
        }
    }
    return w->history.step;
}

/* What this rank has to say after its own wait. */
static void describe(world *w, pto_status status, agreement *a)
{
    pto_failure f;
    bool failed = false;
    *a = (agreement){.step = w->history.step,
                     .hash = w->history.hash,
                     .inside = w->only.sum,
                     .failed = UINT64_MAX,
                     .status = (int32_t)status};
    snprintf(a->text, sizeof a->text, "%s", status == PTO_OK ? "" : pto_error_detail());
    if (status == PTO_TASK_FAILED && pto_get_failure(w->rt, &failed, &f) == PTO_OK && failed) {
        /* A receive fails after the task whose output it was to bring home, in the same step. */
        a->failed = 2 * step_of(w, f.order) + !strcmp(f.kernel, "mpi_receive");
        snprintf(a->text, sizeof a->text, "rank %d: kernel '%s', submitted at %s:%d: %s", w->rank,
                 f.kernel, f.file, f.line, f.message);
    } else if (status == PTO_OK && w->refused != PTO_OK) {
        a->status = PTO_REFUSED;
        a->failed = 2 * w->refused_step;
        snprintf(a->text, sizeof a->text, "rank %d: %.500s", w->rank, w->refused_text);
    } else if (status != PTO_OK) {
        a->failed = 2 * w->history.step;
    }
}

/* How long ranks that differ look for the line, in naps: seconds. */
enum { DIFFER_NAPS = 100000 };

static void nap(void)
{
    nanosleep(&(struct timespec){0, 50000}, NULL);
}

/* Exchanges what all ranks have to say. Others may still need our progress thread, so nothing blocks. */
static pto_status exchange(world *w, const agreement *mine, agreement *all)
{
    MPI_Request request;
    int passed = 0;
    atomic_store(&w->waiting, 1);
    pthread_mutex_lock(&w->lock);
    int code = MPI_Iallgather(mine, (int)sizeof *mine, MPI_BYTE, all, (int)sizeof *mine, MPI_BYTE,
                              w->control, &request);
    pthread_mutex_unlock(&w->lock);
    for (uint32_t polls = 0; code == MPI_SUCCESS && !passed; polls++) {
        pthread_mutex_lock(&w->lock);
        if (atomic_load(&w->broken)) {
            pthread_mutex_unlock(&w->lock);
            atomic_store(&w->waiting, 0);
            return world_check(w);
        }
        code = MPI_Test(&request, &passed, MPI_STATUS_IGNORE);
        pthread_mutex_unlock(&w->lock);
        if (!passed && polls < w->spin) {
            if (w->cores < 0) { /* the others may need this core to get here */
                sched_yield();
            }
        } else if (!passed) {
            nap();
        }
    }
    /* Ranks that came here with different programs: their progress threads find out where that began. */
    bool differ = false;
    uint64_t inside = 0;
    for (int i = 0; i < w->ranks && passed; i++) {
        differ = differ || all[i].step != mine->step || all[i].hash != mine->hash;
        inside += all[i].inside;
    }
    if (passed && !differ && inside) {
        differ = true;
        pthread_mutex_lock(&w->lock);
        tell_everything(w);
        pthread_mutex_unlock(&w->lock);
    }
    for (uint32_t naps = 0; differ && !atomic_load(&w->broken); naps++) {
        nap();
        if (naps == DIFFER_NAPS) { /* it was longer ago than ranks remember */
            return world_break(w, PTO_MISMATCH, "mpi_wait: the ranks run different programs");
        }
    }
    w->only.sum = 0;
    atomic_store(&w->waiting, 0);
    if (code != MPI_SUCCESS) {
        return world_break(w, PTO_SYSTEM, "mpi_wait: MPI_Iallgather failed");
    }
    return world_check(w);
}

/* Waits for the own tasks, and agrees with all others about how that ended. */
static pto_status wait_and_agree(world *w)
{
    agreement mine, *all = malloc((size_t)w->ranks * sizeof *all);
    if (!all) {
        return world_break(w, PTO_OUT_OF_MEMORY, "mpi_wait: no memory");
    }
    const pto_status own = pto_wait(w->rt);
    pto_status status = world_check(w);
    if (status == PTO_OK) {
        describe(w, own, &mine);
        if (w->counting) { /* nobody else */
            for (int i = 0; i < w->ranks; i++) {
                all[i] = mine;
            }
        } else {
            status = exchange(w, &mine, all);
        }
    }
    if (status != PTO_OK) {
        w->told = all; /* MPI may still write there: a broken world leaves its memory alone */
        return status;
    }
    const agreement *first = NULL;
    for (int i = 0; i < w->ranks; i++) {
        const agreement *a = &all[i];
        if (a->status != PTO_OK &&
            (!first || (a->status != PTO_REFUSED) > (first->status != PTO_REFUSED) ||
             ((a->status != PTO_REFUSED) == (first->status != PTO_REFUSED) &&
              a->failed < first->failed))) {
            first = a;
        }
    }
    if (first) {
        status = pto_fail((pto_status)first->status, "%s", first->text);
    }
    free(all);
    return status;
}

pto_status pto_mpi_wait_at(pto_runtime *rt, const char *file, int line)
{
    world *w = world_of(rt);
    if (!w) {
        return pto_fail(PTO_NULL_ARGUMENT, "mpi_wait: the runtime is in no world");
    }
    PTO_TRY(world_check(w));
    PTO_TRY(only_refuses(w, "mpi_wait"));
    history_step(w, 21, file, line);
    return wait_and_agree(w);
}

pto_status pto_mpi_clear_error_at(pto_runtime *rt, const char *file, int line)
{
    world *w = world_of(rt);
    if (!w) {
        return pto_fail(PTO_NULL_ARGUMENT, "mpi_clear_error: the runtime is in no world");
    }
    PTO_TRY(world_check(w));
    PTO_TRY(only_refuses(w, "mpi_clear_error"));
    history_step(w, 22, file, line);
    PTO_TRY(pto_clear_error(rt));
    PTO_TRY(world_check(w));
    for (int i = 0; i < w->ranks; i++) {
        share *both[] = {&w->peers[i].in, &w->peers[i].out};
        for (int k = 0; k < 2; k++) {
            if (both[k]->entries) {
                share_clear(both[k]);
            }
        }
    }
    w->n_orders = 0;
    return PTO_OK;
}

/* ---- Life ----------------------------------------------------------------------------------------------------- */

static void wait_begins(void *of)
{
    atomic_store(&((world *)of)->waiting, 1);
}

static void wait_ends(void *of)
{
    atomic_store(&((world *)of)->waiting, 0);
}

/* At the end of the process: finalizes MPI, if it was initialized here. Others must not wait for a rank
 * that has just left. */
static void at_end(void)
{
    int finalized = 0;
    const world *alive = NULL;
    bool broken = false;
    MPI_Finalized(&finalized);
    for (const world *w = atomic_load(&worlds); w; w = w->next) {
        if (w->counting) {
            continue;
        }
        broken = broken || atomic_load(&w->broken);
        alive = w->rt && !atomic_load(&w->broken) ? w : alive;
    }
    if (finalized) {
        return;
    }
    if (alive) {
        fprintf(stderr, "pto: rank %d ends without pto_mpi_destroy\n", alive->rank);
        (void)fflush(stderr);
        MPI_Abort(MPI_COMM_WORLD, 1);
    } else if (!broken) {
        MPI_Finalize();
    }
}

static pto_status start_mpi(void)
{
    int started = 0, level = MPI_THREAD_SINGLE;
    pthread_mutex_lock(&guard);
    MPI_Initialized(&started);
    if (!started) {
        MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
        (void)atexit(at_end);
    } else {
        MPI_Query_thread(&level);
    }
    pthread_mutex_unlock(&guard);
    return level >= MPI_THREAD_SERIALIZED ? PTO_OK
                                          : pto_fail(PTO_BAD_CONFIG,
                                                     "mpi_create: MPI offers thread level %d, and "
                                                     "MPI_THREAD_SERIALIZED is needed",
                                                     level);
}

/* What must be the same on all ranks. */
typedef struct terms {
    char version[16];
    uint64_t cache_bytes, scratch_bytes;
    int32_t ranks;
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
        if (memcmp(t->version, all[0].version, sizeof t->version) != 0) {
            status = pto_fail(PTO_BAD_CONFIG, "mpi_create: rank %d has version %.15s, rank 0 %.15s",
                              i, t->version, all[0].version);
        } else if (t->cache_bytes != all[0].cache_bytes ||
                   t->scratch_bytes != all[0].scratch_bytes) {
            status = pto_fail(PTO_BAD_CONFIG,
                              "mpi_create: rank %d has cache_bytes %" PRIu64
                              " and scratch_bytes %" PRIu64 ", rank 0 %" PRIu64 " and %" PRIu64,
                              i, t->cache_bytes, t->scratch_bytes, all[0].cache_bytes,
                              all[0].scratch_bytes);
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
 * negative: there are too few even for these. All ranks of a machine are taken to have as many threads. */
static int spare_cores(const pto_runtime *rt, MPI_Comm comm)
{
    MPI_Comm near;
    int n = 1;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    if (MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near) == MPI_SUCCESS) {
        MPI_Comm_size(near, &n);
        MPI_Comm_free(&near);
    }
    const int threads = (int)pto_thread_count(rt);
    if (sched_getaffinity(0, sizeof cpus, &cpus) != 0 || CPU_COUNT(&cpus) < n * threads) {
        return -1;
    }
    return CPU_COUNT(&cpus) / n - threads;
}

static pto_status connect(world *w, const pto_mpi_config *config)
{
    MPI_Comm comm = config && config->comm ? *(const MPI_Comm *)config->comm : MPI_COMM_WORLD;
    int *bound = NULL, there = 0;
    if (MPI_Comm_dup(comm, &w->data) != MPI_SUCCESS ||
        MPI_Comm_dup(comm, &w->control) != MPI_SUCCESS) {
        return pto_fail(PTO_SYSTEM, "mpi_create: MPI_Comm_dup failed");
    }
    MPI_Comm_set_errhandler(w->data, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(w->control, MPI_ERRORS_RETURN);
    MPI_Comm_rank(w->data, &w->rank);
    MPI_Comm_size(w->data, &w->ranks);
    MPI_Comm_get_attr(w->data, MPI_TAG_UB, (void *)&bound, &there);
    w->tags = there && *bound < 1 << 20 ? *bound + 1 : 1 << 20;
    terms mine = {.cache_bytes = w->cache_bytes,
                  .scratch_bytes = w->scratch.bytes,
                  .ranks = config ? config->ranks : 0,
                  .traced = pto_trace_clock(w->rt) != 0};
    bool traced = false;
    snprintf(mine.version, sizeof mine.version, "%s", PTO_VERSION);
    w->cores = spare_cores(w->rt, w->control);
    w->spin = config && config->spin ? config->spin : w->cores >= 0 ? 20000 : 2000;
    PTO_TRY(check_terms(w, &mine, &traced));
    return traced ? trace_join(w) : PTO_OK;
}

static void free_world(world *w)
{
    for (int i = 0; i < w->ranks && w->peers; i++) {
        peer *p = &w->peers[i];
        if (p->in.memory) {
            munmap(p->in.memory, p->in.bytes);
        }
        share_free(&p->in);
        share_free(&p->out);
        free(p->in_tasks);
        free(p->out_tasks);
    }
    if (w->scratch.memory) {
        munmap(w->scratch.memory, w->scratch.bytes);
    }
    objects_free(w);
    free(w->peers);
    free(w->scratch.blocks);
    free(w->orders);
    free(w->plan);
    for (kept *k = w->kept, *next; k; k = next) { /* all ranks have left: nobody waits for them */
        next = k->next;
        free(k);
    }
}

pto_status pto_mpi_create(pto_runtime *rt, const pto_mpi_config *config)
{
    if (!rt) {
        return pto_fail(PTO_NULL_ARGUMENT, "mpi_create: rt is NULL");
    }
    if (config && config->size != sizeof *config) {
        return pto_fail(PTO_BAD_CONFIG, "mpi_create: size is %zu, not %zu", config->size,
                        sizeof *config);
    }
    if (world_of(rt)) {
        return pto_fail(PTO_BAD_CONFIG, "mpi_create: the runtime is in a world already");
    }
    const bool counting = config && config->count_ranks;
    if (counting && (config->count_rank < 0 || config->count_rank >= config->count_ranks)) {
        return pto_fail(PTO_BAD_CONFIG, "mpi_create: rank %d of %d", config->count_rank,
                        config->count_ranks);
    }
    if (!counting) {
        PTO_TRY(start_mpi());
    }
    world *w = calloc(1, sizeof *w);
    if (!w) {
        return pto_fail(PTO_OUT_OF_MEMORY, "mpi_create: no memory");
    }
    const uint64_t usual = UINT64_C(64) << 20;
    w->rt = rt;
    w->history.stride = STEP_CALL;
    w->cache_bytes = config && config->cache_bytes ? config->cache_bytes : usual;
    w->scratch.bytes = config && config->scratch_bytes ? config->scratch_bytes : usual;
    w->scratch.capacity = 16;
    w->scratch.blocks = malloc(w->scratch.capacity * sizeof *w->scratch.blocks);
    w->counting = counting;
    w->rank = counting ? config->count_rank : 0;
    w->ranks = counting ? config->count_ranks : 0;
    pto_status status = counting ? PTO_OK : connect(w, config);
    w->peers = calloc((size_t)w->ranks, sizeof *w->peers);
    if (status == PTO_OK && (!w->peers || !w->scratch.blocks)) {
        status = pto_fail(PTO_OUT_OF_MEMORY, "mpi_create: no memory");
    }
    if (status == PTO_OK) {
        status = pto_set_wait_hooks(rt, wait_begins, wait_ends, w);
    }
    if (status == PTO_OK && !counting) {
        status = pto_set_poll(rt, progress_poll, w);
    }
    if (status == PTO_OK) {
        status = message_start(w);
    }
    if (status != PTO_OK) {
        PTO_IGNORE(pto_set_wait_hooks(rt, NULL, NULL, NULL));
        PTO_IGNORE(pto_set_poll(rt, NULL, NULL));
        free_world(w);
        free(w);
        return status;
    }
    pthread_mutex_lock(&guard);
    w->next = atomic_load(&worlds);
    atomic_store(&worlds, w);
    pthread_mutex_unlock(&guard);
    return PTO_OK;
}

pto_status pto_mpi_destroy_at(pto_runtime *rt, const char *file, int line)
{
    world *w = world_of(rt);
    if (!w) {
        return pto_fail(PTO_NULL_ARGUMENT, "mpi_destroy: the runtime is in no world");
    }
    pto_mpi_only_end_at(rt, file, line);
    history_step(w, 23, file, line);
    pto_status status = world_check(w);
    char why[MPI_TEXT];
    status = status == PTO_OK ? wait_and_agree(w) : status;
    snprintf(why, sizeof why, "%s", pto_error_detail());
    const bool broken = atomic_load(&w->broken);
    if (broken) {
        PTO_IGNORE(pto_wait(rt)); /* its tasks have failed by now, or will */
        /* A launcher ends all ranks when one has left without MPI_Finalize. Let them say why first. */
        nanosleep(&(struct timespec){0, 300000000}, NULL);
    }
    message_stop(w);
    trace_leave(w, broken);
    PTO_IGNORE(pto_set_wait_hooks(rt, NULL, NULL, NULL));
    PTO_IGNORE(pto_set_poll(rt, NULL, NULL));
    if (!broken) {
        if (!w->counting) {
            MPI_Comm_free(&w->data);
            MPI_Comm_free(&w->control);
        }
        free_world(w);
    }
    /* The world itself stays in the list, since world_of may remember it; it belongs to nobody now. */
    w->rt = NULL;
    return status == PTO_OK ? PTO_OK : pto_fail(status, "%s", why);
}
