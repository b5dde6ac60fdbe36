/* bench_handover.c - the cost of moving a task to another core, without any runtime around it.
 *
 * This is the lower bound for every runtime in which one thread submits and another runs tasks. Two
 * pinned threads share a ring of tasks that are only written, read and written again, in two
 * layouts:
 *
 *     together   descriptor and state share one cache line, which moves there and back
 *     apart      the descriptor is half a line and moves one way, like the arguments; the state is
 *                a quarter of a line and comes back with three others
 *
 * A task has three arguments, of 16 bytes or, with their shapes, of 48 bytes. Each layout is
 * measured without work and with some work on both sides, so that the threads need not wait for
 * each other at each task. Then the round trip of one cache line: if it takes several times as long
 * as in another run, the cores are far apart. The host of a virtual machine may change that at any
 * time.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "bench.h"

enum { RING = 4096, TASKS = 1000000, ROUNDS = 7, RETIRE_EVERY = 32, BACKOFF = 12 };

typedef struct layout {
    const char *name;
    size_t slot;   /* bytes of a descriptor */
    size_t args;   /* bytes of the arguments of a task */
    bool together; /* the state is the last word of the descriptor */
} layout;

static const layout layouts[] = {
    {"together, shapes inside", 64, 144, true},
    {"together", 64, 48, true},
    {"apart", 32, 48, false},
};

typedef struct ring {
    _Alignas(64) ptoi_a64 head;
    _Alignas(64) ptoi_a64 stop;
    const layout *layout;
    char *slots, *args, *states;
    uint64_t own, other; /* steps of work per task, on each side */
    uint64_t sum;
} ring;

static void *must_have(void *memory)
{
    if (!memory) {
        fprintf(stderr, "bench_handover: out of memory\n");
        exit(2);
    }
    return memory;
}

static cpu_set_t cores[2];

/* The first two cores that this process may use. */
static void find_cores(void)
{
    cpu_set_t all;
    int found = 0;
    CPU_ZERO(&all);
    (void)sched_getaffinity(0, sizeof all, &all);
    for (size_t cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++) {
        if (CPU_ISSET(cpu, &all)) {
            CPU_ZERO(&cores[found]);
            CPU_SET(cpu, &cores[found++]);
        }
    }
    if (found < 2) {
        fprintf(stderr, "bench_handover: needs two cores\n");
        exit(2);
    }
}

static void pin(int nth)
{
    (void)sched_setaffinity(0, sizeof cores[nth], &cores[nth]);
}

static void work(uint64_t steps)
{
    uint64_t x = steps;
    for (uint64_t i = 0; i < steps; i++) {
        x = x * 3 + 1;
        bench_keep(x);
    }
}

static ptoi_a64 *word(char *base, uint64_t task, size_t size)
{
    return (ptoi_a64 *)(void *)(base + task % RING * size);
}

static ptoi_a64 *state_of(const ring *r, uint64_t task)
{
    return r->layout->together ? word(r->slots, task, 64) + 7 : word(r->states, task, 16);
}

static void *consume(void *context)
{
    ring *r = context;
    pin(1);
    for (uint64_t at = 0, head = 0, sum = 0; !ptoi_get64(&r->stop); r->sum = sum) {
        if (at == head) {
            for (int i = 0; i < BACKOFF; i++) {
                ptoi_relax();
            }
            head = ptoi_acquire64(&r->head);
            continue;
        }
        const ptoi_a64 *slot = word(r->slots, at, r->layout->slot);
        const ptoi_a64 *args = word(r->args, at, r->layout->args);
        for (size_t i = 0; i < 4; i++) {
            sum += ptoi_get64(&slot[i]);
        }
        for (size_t i = 0; i < r->layout->args / 8; i++) {
            sum += ptoi_get64(&args[i]);
        }
        work(r->other);
        (void)ptoi_exchange64(state_of(r, at), at + 1);
        at++;
    }
    return NULL;
}

/* Number of complete tasks without a gap. */
static uint64_t done(const ring *r, uint64_t from, uint64_t to)
{
    while (from != to && ptoi_acquire64(state_of(r, from)) == from + 1) {
        from++;
    }
    return from;
}

static double produce(ring *r)
{
    uint64_t retired = 0;
    const double start = bench_now_ns();
    for (uint64_t n = 0; n < TASKS; n++) {
        while (n - retired == RING) {
            retired = done(r, retired, n);
        }
        work(r->own);
        ptoi_a64 *slot = word(r->slots, n, r->layout->slot);
        ptoi_a64 *args = word(r->args, n, r->layout->args);
        for (size_t i = 0; i < r->layout->slot / 8; i++) {
            ptoi_set64(&slot[i], 0);
        }
        for (size_t i = 0; i < r->layout->args / 8; i++) {
            ptoi_set64(&args[i], n);
        }
        ptoi_release64(&r->head, n + 1);
        if (n % RETIRE_EVERY == 0) {
            retired = done(r, retired, n);
        }
    }
    while (retired != TASKS) {
        retired = done(r, retired, TASKS);
    }
    return (bench_now_ns() - start) / TASKS;
}

/* Nanoseconds per task; the other thread starts before the clock does. */
static double hand_over(const layout *l, uint64_t own, uint64_t other)
{
    static ring r;
    pthread_t thread;
    r = (ring){.layout = l, .own = own, .other = other};
    r.slots = must_have(aligned_alloc(4096, RING * 64));
    r.args = must_have(aligned_alloc(4096, RING * 192));
    r.states = must_have(aligned_alloc(4096, RING * 16));
    memset(r.slots, 0, RING * 64);
    memset(r.args, 0, RING * 192);
    memset(r.states, 0, RING * 16);
    if (pthread_create(&thread, NULL, consume, &r) != 0) {
        fprintf(stderr, "bench_handover: no thread\n");
        exit(2);
    }
    usleep(1000);
    pin(0);
    const double ns = produce(&r);
    ptoi_set64(&r.stop, 1);
    (void)pthread_join(thread, NULL);
    bench_keep(r.sum);
    free(r.slots);
    free(r.args);
    free(r.states);
    return ns;
}

/* ---- Round trip of a cache line ---- */

enum { TURNS = 100000 };
static struct {
    _Alignas(128) ptoi_a64 ball;
} court[2];

static void *answer(void *context)
{
    (void)context;
    pin(1);
    for (uint64_t i = 1; i <= TURNS; i++) {
        while (ptoi_acquire64(&court[0].ball) != i) {
        }
        ptoi_release64(&court[1].ball, i);
    }
    return NULL;
}

static double there_and_back(void)
{
    pthread_t thread;
    ptoi_set64(&court[0].ball, 0);
    ptoi_set64(&court[1].ball, 0);
    if (pthread_create(&thread, NULL, answer, NULL) != 0) {
        fprintf(stderr, "bench_handover: no thread\n");
        exit(2);
    }
    usleep(1000);
    pin(0);
    const double start = bench_now_ns();
    for (uint64_t i = 1; i <= TURNS; i++) {
        ptoi_release64(&court[0].ball, i);
        while (ptoi_acquire64(&court[1].ball) != i) {
        }
    }
    const double ns = (bench_now_ns() - start) / TURNS;
    (void)pthread_join(thread, NULL);
    return ns;
}

int main(void)
{
    enum { LAYOUTS = sizeof layouts / sizeof *layouts, WORKS = 2 };
    static const uint64_t works[WORKS][2] = {{0, 0}, {50, 30}}; /* own, other */
    double ns[LAYOUTS][WORKS][ROUNDS], back[ROUNDS];
    find_cores();
    for (int round = 0; round < ROUNDS; round++) {
        back[round] = there_and_back();
        for (int l = 0; l < LAYOUTS; l++) {
            for (int w = 0; w < WORKS; w++) {
                ns[l][w][round] = hand_over(&layouts[l], works[w][0], works[w][1]);
            }
        }
    }
    printf("handing %d tasks from one core to another, ns a task, median of %d\n\n", TASKS, ROUNDS);
    printf("%-26s %9s %12s\n", "layout", "no work", "some work");
    for (int l = 0; l < LAYOUTS; l++) {
        printf("%-26s %9.1f %12.1f\n", layouts[l].name, bench_median(ns[l][0], ROUNDS),
               bench_median(ns[l][1], ROUNDS));
    }
    const double middle = bench_median(back, ROUNDS); /* sorts them */
    printf("\na line there and back: %.0f ns (%.0f to %.0f)\n", middle, back[0], back[ROUNDS - 1]);
    return 0;
}
