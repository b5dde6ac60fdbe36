/* progress.c - completing messages, and noticing when a rank is blocked.
 *
 *     the orchestrating thread   polls while it waits and finds no task to run (pto_set_poll)
 *     the progress thread        does so when nobody else does: all run kernels, or the orchestrating thread
 *                                sleeps or submits
 *
 * So a message that a rank waits for passes through one thread, and needs no wake-up.
 */
#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include "world.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Ends all tasks that wait for messages: the world is broken. Their requests are left alone, since
 * MPI is not called any more. */
static void fail_all(world *w)
{
    for (;;) {
        pthread_mutex_lock(&mpi_lock);
        message *m = w->n_active ? w->active[--w->n_active] : NULL;
        pthread_mutex_unlock(&mpi_lock);
        if (!m) {
            return;
        }
        PTO_IGNORE(
            pto_task_complete(w->rt, m->task, pto_fail(w->broken_status, "%s", w->broken_text)));
    }
}

enum {
    MOST = 64,    /* messages that are tested at a time, */
    EARLIEST = 8, /* usually */
    TURNS = 8,    /* times of EARLIEST messages between two of MOST */
    /* ns between two looks of the progress thread if it has no core of its own. Each look takes the core of a thread
     * that runs kernels, and the system may then put the threads of two ranks on one core. */
    RARE = 2000000,
};

static const double PATIENCE = 0.33; /* seconds until a rank that waits says so */

typedef struct passed {
    pto_task task;
    bool good;
    int peer;
} passed;

/* Tests the messages from number `begin` on, up to `most`, under the lock. Returns how many have passed. */
static int test_range(world *w, int begin, int most, passed *list)
{
    MPI_Status statuses[MOST];
    int n = 0;
    const int count = w->n_active - begin < most ? w->n_active - begin : most;
    const int code = MPI_Testsome(count, w->requests + begin, &n, w->done, statuses);
    if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) {
        PTO_IGNORE(message_explain(code, "MPI_Testsome"));
        world_broken_by(w, PTO_SYSTEM, pto_error_detail());
        return 0;
    }
    n = n == MPI_UNDEFINED ? 0 : n;
    for (int i = 0; i < n; i++) {
        message *m = w->active[begin + w->done[i]];
        int bytes = 0;
        if (!m->sends) {
            MPI_Get_count(&statuses[i], MPI_BYTE, &bytes);
        }
        list[i] = (passed){m->task, m->sends || bytes != 0, m->peer};
        if (!m->sends || m->empty) { /* nobody needs it any more */
            message_spare(w, m);
        }
        w->active[begin + w->done[i]] = NULL;
    }
    if (n) { /* the others stay in the order in which they were posted */
        int left = begin;
        for (int i = begin; i < w->n_active; i++) {
            if (w->active[i]) {
                w->active[left] = w->active[i];
                w->requests[left++] = w->requests[i];
            }
        }
        w->n_active = left;
    }
    return n;
}

/* Tests what is under way, under the lock. Returns how many have passed, up to MOST. Receives are posted long before
 * their messages come, so there may be thousands of them, and the earliest ones mostly pass first. They are
 * tested each time, and the others in turns. */
static int test_some(world *w, passed *list)
{
    if (!w->n_active) {
        return 0;
    }
    if (w->n_active <= EARLIEST || w->round++ % TURNS != 0) {
        return test_range(w, 0, EARLIEST, list);
    }
    const int begin = (int)(w->round / TURNS * MOST % (unsigned)w->n_active);
    return test_range(w, begin, MOST, list);
}

/* The same for a thread that looks rarely: it tests all, until some have passed. */
static int test_all(world *w, passed *list)
{
    int n = 0;
    for (int begin = 0; begin < w->n_active && !n; begin += MOST) {
        n = test_range(w, begin, MOST, list);
    }
    return n;
}

static void complete(world *w, const passed *p)
{
    pto_status status = PTO_OK;
    if (!p->good) {
        status = pto_fail(PTO_POISONED, "rank %d could not send: its task failed or was skipped",
                          p->peer);
    }
    PTO_IGNORE(pto_task_complete(w->rt, p->task, status));
}

static void complete_all(world *w, const passed *list, int n)
{
    for (int i = 0; i < n; i++) {
        complete(w, &list[i]);
    }
    if (n) {
        atomic_fetch_add(&w->passed, (uint64_t)n);
    }
}

/* The orchestrating thread has nothing to run. True: it should look again at once. */
bool progress_poll(void *of)
{
    world *w = of;
    passed list[MOST];
    atomic_store_explicit(&w->polls, atomic_load_explicit(&w->polls, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    if (atomic_load(&w->broken) || pthread_mutex_trylock(&mpi_lock)) {
        return false;
    }
    const int n = atomic_load(&w->broken) ? 0 : test_some(w, list);
    const bool more = w->n_active;
    pthread_mutex_unlock(&mpi_lock);
    complete_all(w, list, n);
    const uint64_t count = atomic_load_explicit(&w->passed, memory_order_relaxed);
    if (count != w->poll.passed) {
        w->poll.passed = count;
        w->poll.idle = 0;
    } else if (w->cores < 0 && w->poll.idle % 8 == 7) {
        sched_yield(); /* the rank whose message is awaited may need this core */
    }
    if (n || (more && w->poll.idle++ < w->spin)) {
        return true;
    }
    if (more && !atomic_exchange(&w->dozing, true)) {
        pthread_mutex_lock(&mpi_lock);
        pthread_cond_signal(&w->wake); /* from a long nap */
        pthread_mutex_unlock(&mpi_lock);
    }
    return false;
}

typedef struct pacing {
    uint32_t idle;   /* rounds without a message */
    uint64_t polls;  /* of the orchestrating thread, in the last round */
    double listened; /* when others were last heard */
    double still;    /* since when nothing has passed while the rank waits, or it has said so */
    double patience; /* seconds until it says so */
    uint64_t passed;
} pacing;

/* Now and then: hear what others say, and say that we are blocked if nothing happens. */
static void look_around(world *w, pacing *p)
{
    const double t = now();
    if (t - p->listened < 0.01) {
        return;
    }
    p->listened = t;
    if (pto_is_cancelled(w->rt)) { /* skipped messages: nobody else would end them */
        PTO_IGNORE(world_cancelled(w));
        return;
    }
    pthread_mutex_lock(&mpi_lock);
    tell_listen(w);
    const uint64_t n = atomic_load(&w->passed);
    if (!atomic_load(&w->waiting) || n != p->passed) {
        p->passed = n;
        p->still = t;
        p->patience = PATIENCE;
    } else if (t - p->still > p->patience && !atomic_load(&w->broken)) {
        report r = {0};
        p->still = t; /* and again if it lasts, ever less often: mostly a kernel takes its time */
        p->patience = p->patience < 5 ? 2 * p->patience : p->patience;
        history_report_last(w, &r);
        tell_blocked(w, &r);
    }
    pthread_mutex_unlock(&mpi_lock);
}

/* Under the lock. */
static void wait_for_wake(world *w, long ns)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += ns;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&w->wake, &mpi_lock, &until);
}

/* A nap without a core of its own. It ends when the orchestrating thread dozes. */
static void nap_long(world *w)
{
    pthread_mutex_lock(&mpi_lock);
    if (!atomic_load(&w->dozing) && !w->stop) {
        wait_for_wake(w, RARE);
    }
    pthread_mutex_unlock(&mpi_lock);
}

/* Spins only if there is a core for it: the threads that run kernels come first. */
static void pause_for_a_while(world *w, pacing *p)
{
    const uint32_t spin = w->cores > 0 ? w->spin : 0;
    p->idle++;
    if (p->idle < spin) {
        sched_yield();
    } else if (w->cores > 0 || atomic_load(&w->dozing)) {
        const long nap = p->idle - spin < 64 ? 20000 : p->idle - spin < 512 ? 100000 : 500000;
        nanosleep(&(struct timespec){0, nap}, NULL);
    } else {
        p->idle = 0;
        nap_long(w);
    }
}

/* Asleep, but for a look at the others every now and then. Under the lock. */
static void sleep_until_posted(world *w)
{
    w->asleep = true;
    wait_for_wake(w, 20000000);
    w->asleep = false;
}

/* One round, which begins under the lock. Then a pause that suits what it found. */
static void look_once(world *w, pacing *p)
{
    passed list[MOST];
    const uint64_t polls = atomic_load_explicit(&w->polls, memory_order_relaxed);
    const bool others = polls != p->polls, broken = atomic_load(&w->broken);
    p->polls = polls;
    if (!w->n_active && !broken && !others) {
        sleep_until_posted(w);
        p->idle = 0;
    }
    const int n = broken || others ? 0 : test_all(w, list);
    pthread_mutex_unlock(&mpi_lock);
    if (n) {
        atomic_store(&w->dozing, false); /* before it is woken */
    }
    complete_all(w, list, n);
    if (others && w->cores > 0) {
        /* The orchestrating thread polls. If it stops, for a long kernel, this is soon noticed. */
        nanosleep(&(struct timespec){0, 200000}, NULL);
    } else if (others) {
        nap_long(w);
    } else if (n) {
        p->idle = 0;
    } else if (!broken) {
        pause_for_a_while(w, p);
    }
}

void *progress_main(void *of)
{
    world *w = of;
    pacing p = {.still = now(), .patience = PATIENCE};
    prctl(PR_SET_TIMERSLACK, 1000); /* ns: a nap takes as long as it says */
    for (;;) {
        pthread_mutex_lock(&mpi_lock);
        if (w->stop) {
            break;
        }
        look_once(w, &p);
        if (atomic_load(&w->broken)) {
            fail_all(w);
            nanosleep(&(struct timespec){0, 1000000}, NULL);
        } else {
            look_around(w, &p);
        }
    }
    pthread_mutex_unlock(&mpi_lock);
    return NULL;
}
