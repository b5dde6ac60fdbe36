/* progress.c - see progress.h. A separate thread writes the line ten times a second. The timed run
 * pays one store per step. */
#include "progress.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "words.h"

enum { EVERY_MS = 100 };

struct progress {
    const workload_job *job;
    _Atomic uint64_t done; /* written by the orchestrating thread */
    pthread_t thread;
    pthread_mutex_t lock; /* protects all fields below, and the terminal */
    pthread_cond_t wake;
    bool running, stop;
    int64_t run, runs;
    uint64_t before; /* tasks of earlier runs */
    struct timespec start;
};

static double seconds_since(const struct timespec *start)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)(ts.tv_sec - start->tv_sec) + (double)(ts.tv_nsec - start->tv_nsec) * 1e-9;
}

static void erase(void)
{
    fputs("\r\033[K", stderr);
}

/* The fraction done: the submitted part of the steps times the completed part of the submitted
 * tasks. */
static void draw(progress *p)
{
    const workload_job *job = p->job;
    const uint64_t done = p->done;
    pto_runtime_stats s;
    if (pto_stats(job->rt, &s) != PTO_OK) {
        return;
    }
    const uint64_t completed = s.completed - p->before, submitted = s.submitted - p->before;
    erase();
    fprintf(stderr, "%s ", job->what->name);
    if (p->runs > 1) {
        fprintf(stderr, "%" PRId64 " of %" PRId64 "  ", p->run, p->runs);
    }
    if (job->total && submitted) {
        fprintf(stderr, "%3.0f %%  ",
                100.0 * (double)done / (double)job->total * (double)completed / (double)submitted);
    }
    fprintf(stderr, "%" PRIu64 " tasks  %.1f s", completed, seconds_since(&p->start));
    fflush(stderr);
}

static void *write_line(void *context)
{
    progress *p = context;
    pthread_mutex_lock(&p->lock);
    while (!p->stop) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += EVERY_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        pthread_cond_timedwait(&p->wake, &p->lock, &until);
        if (p->running) {
            draw(p);
        }
        while (!p->running && !p->stop) {
            pthread_cond_wait(&p->wake, &p->lock);
        }
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

progress *progress_create(const workload_job *job)
{
    if (!isatty(STDERR_FILENO)) {
        return NULL;
    }
    progress *p = calloc(1, sizeof *p);
    if (!p) {
        return NULL; /* the run works without it */
    }
    p->job = job;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    /* Ctrl-C must reach the orchestrating thread. */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    const int failed = pthread_create(&p->thread, NULL, write_line, p);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (failed) {
        free(p);
        return NULL;
    }
    return p;
}

void progress_destroy(progress *p)
{
    if (!p) {
        return;
    }
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

void progress_begin(progress *p, int64_t run, int64_t runs)
{
    pto_runtime_stats s;
    if (!p || pto_stats(p->job->rt, &s) != PTO_OK) {
        return;
    }
    pthread_mutex_lock(&p->lock);
    p->done = 0;
    p->before = s.completed;
    p->run = run;
    p->runs = runs;
    clock_gettime(CLOCK_MONOTONIC, &p->start);
    p->running = true;
    pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

void progress_end(progress *p)
{
    if (p) {
        pthread_mutex_lock(&p->lock);
        p->running = false;
        erase();
        fflush(stderr);
        pthread_mutex_unlock(&p->lock);
    }
}

void progress_step(progress *p, uint64_t done)
{
    if (p) {
        p->done = done;
    }
}

void progress_hide(progress *p)
{
    if (p) {
        pthread_mutex_lock(&p->lock);
        erase();
        fflush(stderr);
    }
}

void progress_show(progress *p)
{
    if (p) {
        pthread_mutex_unlock(&p->lock);
    }
}
