/* world.c - the life of a world, what all ranks agree on in a wait, and failures. */
#define _GNU_SOURCE /* PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP */
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

/* Recursive: a thread of the program that has it may run the kernel of a message in pto_submit. */
pthread_mutex_t mpi_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

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

static _Thread_local uint32_t holds;     /* calls of pto_mpi_lock that this thread has not undone */
static _Thread_local uint32_t held_back; /* of these: given up while it waits in the runtime */

static void take(uint32_t times)
{
    for (; times; times--) {
        pthread_mutex_lock(&mpi_lock);
        holds++;
    }
}

static void give(uint32_t times)
{
    for (; times && holds; times--) { /* an unlock without a lock gives up nobody else's */
        holds--;
        pthread_mutex_unlock(&mpi_lock);
    }
}

void pto_mpi_lock(pto_runtime *rt)
{
    (void)rt; /* one lock for all worlds */
    take(1);
}

void pto_mpi_unlock(pto_runtime *rt)
{
    (void)rt;
    give(1);
}

pto_status world_without_lock(const char *who)
{
    return !holds
               ? PTO_OK
               : pto_fail(PTO_BAD_SCOPE,
                          "%s: between pto_mpi_lock and pto_mpi_unlock, where the library cannot "
                          "call MPI",
                          who);
}

pto_status world_wrong_thread(const char *who)
{
    return pto_fail(
        PTO_WRONG_THREAD,
        "%s: called inside of a kernel, or on another thread than the orchestrating one", who);
}

pto_status world_may(const world *w, const char *who)
{
    PTO_TRY(world_without_lock(who));
    return world_check_thread(w, who);
}

pto_status world_enter(world *w, const char *who, const char *file, int line)
{
    PTO_TRY(world_may(w, who));
    w->file = file;
    w->line = line;
    return world_check(w);
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
    /* A rank that is cancelled hears that first, also if another one was at the same time. */
    return pto_fail(pto_is_cancelled(w->rt) ? PTO_CANCELLED : w->broken_status, "%s",
                    w->broken_text);
}

pto_status world_refused(world *w, pto_status status)
{
    if (w->refused == PTO_OK) {
        w->refused = status;
        w->refused_step = w->history.step;
        snprintf(w->refused_text, sizeof w->refused_text,
                 "the call at %.100s:%d was refused with %s: %s", w->file ? w->file : "?", w->line,
                 pto_status_name(status), pto_error_detail());
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
    pthread_mutex_lock(&mpi_lock);
    int code = MPI_Iallgather(mine, (int)sizeof *mine, MPI_BYTE, all, (int)sizeof *mine, MPI_BYTE,
                              w->control, &request);
    pthread_mutex_unlock(&mpi_lock);
    for (uint32_t polls = 0; code == MPI_SUCCESS && !passed; polls++) {
        pthread_mutex_lock(&mpi_lock);
        if (atomic_load(&w->broken)) {
            pthread_mutex_unlock(&mpi_lock);
            atomic_store(&w->waiting, 0);
            return world_check(w);
        }
        code = MPI_Test(&request, &passed, MPI_STATUS_IGNORE);
        pthread_mutex_unlock(&mpi_lock);
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
        pthread_mutex_lock(&mpi_lock);
        tell_everything(w);
        pthread_mutex_unlock(&mpi_lock);
    }
    for (uint32_t naps = 0; differ && !atomic_load(&w->broken); naps++) {
        nap();
        if (naps == DIFFER_NAPS) { /* it was longer ago than ranks remember */
            return world_break(w, PTO_MISMATCH, "mpi_wait: the ranks run different programs");
        }
    }
    w->only.sum = 0;
    if (passed && !differ) {
        history_agree(w);
    }
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
    pto_status status = pto_is_cancelled(w->rt) && !w->counting ? world_cancelled(w)
                                                                : world_check(w);
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
    PTO_TRY(world_enter(w, "mpi_wait", file, line));
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
    PTO_TRY(world_enter(w, "mpi_clear_error", file, line));
    PTO_TRY(only_refuses(w, "mpi_clear_error"));
    history_step(w, 22, file, line);
    if (pto_is_cancelled(rt) && !w->counting) { /* it would be forgotten */
        return world_cancelled(w);
    }
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

/* A wait of the library between pto_mpi_lock and pto_mpi_unlock, in pto_wait or a submit without room, gives up the lock:
 * the messages that it waits for need it. */
static void wait_begins(void *of)
{
    atomic_store(&((world *)of)->waiting, 1);
    held_back = holds;
    give(holds);
}

static void wait_ends(void *of)
{
    world *w = of;
    atomic_store(&w->waiting, 0);
    if (pto_is_cancelled(w->rt) && !w->counting) { /* pto_clear_error may be next */
        PTO_IGNORE(world_cancelled(w));
    }
    take(held_back);
    held_back = 0;
}

/* Under the lock, which other threads of this process may hold for ever by now. */
static void lock_at_end(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    (void)pthread_mutex_timedlock(&mpi_lock, &until);
}

/* Ends all ranks: the others wait for this one. */
static void give_up(int rank, const char *why)
{
    fprintf(stderr, "pto: rank %d %s\n", rank, why);
    (void)fflush(stderr);
    /* The launcher of MPICH may end before it has passed on what it has just read. */
    nanosleep(&(struct timespec){0, 200000000}, NULL);
    lock_at_end(); /* a progress thread may be in MPI; or this thread has the lock, and exits for that */
    MPI_Abort(MPI_COMM_WORLD, 1);
}

void worlds_finalize(void)
{
    for (const world *w = atomic_load(&worlds); w; w = w->next) {
        if (w->rt && !w->counting && !atomic_load(&w->broken)) {
            give_up(w->rank, "calls MPI_Finalize before pto_mpi_destroy");
        }
    }
}

static int finalizes(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm;
    (void)key;
    (void)value;
    (void)extra;
    worlds_finalize();
    return MPI_SUCCESS;
}

void world_watch_finalize(void)
{
    static int key = MPI_KEYVAL_INVALID;
    if (key == MPI_KEYVAL_INVALID) {
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, finalizes, &key, NULL);
        MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    }
}

/* When a rank ends without MPI_Finalize, the launcher ends the others: in the middle of a trace, or of what they have to
 * say. So the ranks of a broken world end at the same time, or some seconds after they began to wait for that. */
static void end_together(world *w)
{
    enum { NAPS = 100000 }; /* five seconds */
    (void)fflush(NULL);
    lock_at_end();
    tell_ended(w);
    for (int naps = 0; naps < NAPS && !tell_all_ended(w); naps++) {
        nap();
    }
}

static pid_t its_process; /* that may end MPI; before atexit */
static bool its_mpi;      /* MPI was initialized here */

/* At the end of the process: finalizes MPI, if it was initialized here. Others must not wait for a rank
 * that has just left. */
static void at_end(void)
{
    int finalized = 0;
    const world *alive = NULL;
    world *broken = NULL;
    if (getpid() !=
        its_process) { /* a child of a fork: MPI and all worlds are those of its parent */
        return;
    }
    MPI_Finalized(&finalized);
    for (world *w = atomic_load(&worlds); w; w = w->next) {
        if (w->counting) {
            continue;
        }
        broken = atomic_load(&w->broken) ? w : broken;
        alive = w->rt && !atomic_load(&w->broken) ? w : alive;
    }
    if (finalized) {
        return;
    }
    if (alive) {
        give_up(alive->rank, "ends without pto_mpi_destroy");
    } else if (broken) {
        end_together(broken);
    } else if (its_mpi) {
        MPI_Finalize();
    }
}

/* Whether this rank may join, as far as MPI goes. *started: MPI can be called at all. */
static pto_status start_mpi(bool *started)
{
    int begun = 0, over = 0, level = MPI_THREAD_SINGLE;
    pthread_mutex_lock(&guard);
    MPI_Initialized(&begun);
    MPI_Finalized(&over);
    if (!begun) {
        MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
        its_mpi = true;
    } else if (!over) {
        MPI_Query_thread(&level);
    }
    if (!its_process) {
        its_process = getpid();
        (void)atexit(at_end);
    }
    pthread_mutex_unlock(&guard);
    *started = !over;
    if (over) {
        return pto_fail(PTO_BAD_CONFIG, "mpi_create: the program has called MPI_Finalize, and MPI "
                                        "cannot begin again in this process");
    }
    if (level < MPI_THREAD_SERIALIZED) {
        return pto_fail(
            PTO_BAD_CONFIG,
            "mpi_create: MPI was initialized with %s, and MPI_THREAD_SERIALIZED is needed: %s",
            level == MPI_THREAD_SINGLE ? "MPI_THREAD_SINGLE" : "MPI_THREAD_FUNNELED",
            begun ? "ask for it in MPI_Init_thread, or leave MPI_Init to pto_mpi_create"
                  : "this MPI offers no more");
    }
    return PTO_OK;
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
    stage_close(w);
    free(w->peers);
    free(w->scratch.blocks);
    free(w->orders);
    free(w->plan);
    free(w->history.marks);
}

/* A world that has ended stays in the list, since others may walk along it, and world_of may remember it. So the next one
 * takes its place. NULL: no memory. */
static world *take_world(void)
{
    enum { KEPT = offsetof(world, rank) }; /* what others read */
    world *w;
    pthread_mutex_lock(&guard);
    for (w = atomic_load(&worlds); w && !w->free; w = w->next) {
    }
    if (w) {
        w->free = false;
        memset((char *)w + KEPT, 0, sizeof *w - KEPT);
    } else if ((w = calloc(1, sizeof *w))) {
        w->next = atomic_load(&worlds);
        atomic_store(&worlds, w);
    }
    pthread_mutex_unlock(&guard);
    return w;
}

/* Nobody's from now on; and of a world that broke, MPI may still read. */
static void leave_world(world *w, bool broken)
{
    if (!broken) {
        free_world(w);
    }
    pthread_mutex_lock(&guard);
    w->rt = NULL;
    w->free = !broken;
    pthread_mutex_unlock(&guard);
}

/* This rank cannot go on, and the others think that it has joined. */
static pto_status leave_at_once(world *w, pto_status status)
{
    char why[MPI_TEXT];
    snprintf(why, sizeof why, "%s", pto_error_detail());
    status = world_break(w, status, "%s", why);
    leave_world(w, true);
    return status;
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
    const bool counting = config && (config->count_ranks || config->count_rank);
    if (counting && (config->count_rank < 0 || config->count_rank >= config->count_ranks)) {
        return pto_fail(PTO_BAD_CONFIG, "mpi_create: rank %d of %d", config->count_rank,
                        config->count_ranks);
    }
    pto_status status = PTO_OK;
    if (!counting) {
        bool started;
        status = start_mpi(&started);
        if (!started) {
            return status;
        }
    }
    world *w = take_world();
    if (!w) {
        return pto_fail(PTO_OUT_OF_MEMORY, "mpi_create: no memory");
    }
    const uint64_t usual = UINT64_C(64) << 20;
    w->rt = rt;
    w->history.stride = STEP_CALL;
    w->cache_bytes = config && config->cache_bytes ? config->cache_bytes : usual;
    w->small_bytes = config && config->small_bytes ? config->small_bytes : 8192;
    w->scratch.bytes = config && config->scratch_bytes ? config->scratch_bytes : usual;
    w->scratch.capacity = 16;
    w->scratch.blocks = malloc(w->scratch.capacity * sizeof *w->scratch.blocks);
    w->counting = counting;
    w->rank = counting ? config->count_rank : 0;
    w->ranks = counting ? config->count_ranks : 0;
    history_agree(w);
    status = status == PTO_OK ? message_register(w) : status;
    status = counting ? status : join_connect(w, config, status);
    const bool joined = status == PTO_OK && !counting;
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
        status = pto_refuse_destroy(rt, "is in a world of MPI: call pto_mpi_destroy before, or "
                                        "pto_mpi_runtime_destroy instead");
    }
    if (status == PTO_OK) {
        status = message_start(w);
    }
    if (status != PTO_OK) {
        PTO_IGNORE(pto_refuse_destroy(rt, NULL));
        PTO_IGNORE(pto_set_wait_hooks(rt, NULL, NULL, NULL));
        PTO_IGNORE(pto_set_poll(rt, NULL, NULL));
        if (joined) {
            return leave_at_once(w, status);
        }
        leave_world(w, false); /* it never began, as all ranks know */
    }
    return status;
}

pto_status pto_mpi_destroy_at(pto_runtime *rt, const char *file, int line)
{
    world *w = world_of(rt);
    if (!w) {
        return pto_fail(PTO_NULL_ARGUMENT, "mpi_destroy: the runtime is in no world");
    }
    PTO_TRY(world_may(w, "mpi_destroy"));
    pto_mpi_only_end_at(rt, file, line);
    history_step(w, 23, file, line);
    pto_status status = world_check(w);
    char why[MPI_TEXT];
    status = status == PTO_OK ? wait_and_agree(w) : status;
    snprintf(why, sizeof why, "%s", pto_error_detail());
    const bool broken = atomic_load(&w->broken);
    if (broken) {
        void *memory;
        size_t bytes;
        PTO_IGNORE(pto_wait(rt)); /* its tasks have failed by now, or will */
        PTO_IGNORE(pto_detach_heaps(rt, &memory, &bytes)); /* MPI may still read temporaries */
    }
    message_stop(w);
    pthread_mutex_lock(&mpi_lock);
    trace_leave(w, broken);
    if (!broken && !w->counting) {
        tell_stop(w);
        MPI_Comm_free(&w->data);
        MPI_Comm_free(&w->control);
    }
    pthread_mutex_unlock(&mpi_lock);
    PTO_IGNORE(pto_set_wait_hooks(rt, NULL, NULL, NULL));
    PTO_IGNORE(pto_set_poll(rt, NULL, NULL));
    PTO_IGNORE(pto_refuse_destroy(rt, NULL));
    leave_world(w, broken);
    return status == PTO_OK ? PTO_OK : pto_fail(status, "%s", why);
}

pto_status pto_mpi_runtime_destroy_at(pto_runtime **rt, pto_ending ending, const char *file,
                                      int line)
{
    char why[MPI_TEXT];
    const bool joined = rt && *rt && world_of(*rt);
    const pto_status left = joined ? pto_mpi_destroy_at(*rt, file, line) : PTO_OK;
    snprintf(why, sizeof why, "%s", pto_error_detail());
    if (joined && world_of(*rt)) { /* it has not been left */
        return left;
    }
    const pto_status status = pto_runtime_destroy(rt, ending);
    return left == PTO_OK ? status : pto_fail(left, "%s", why);
}
