/* latency_cases.h - what bench_latency looks at, one moment at a time.
 *
 * Kernels and the submitting thread write down when they pass certain points (ptoi_ticks: the
 * counter of the processor where it runs evenly on all cores, else the monotonic clock); the
 * difference of two is one sample. The submitting thread looks at memory that the kernel writes,
 * rather than wait through the runtime, wherever it is not to help.
 */
#ifndef PTO_LATENCY_CASES_H
#define PTO_LATENCY_CASES_H

#include <pto/pto.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "bench.h"
#include "observe/log.h"

static void must(pto_status status)
{
    if (status != PTO_OK) {
        fprintf(stderr, "bench_latency: %s: %s\n", pto_status_name(status), pto_error_detail());
        exit(2);
    }
}

static void require(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "bench_latency: %s\n", what);
        exit(2);
    }
}

/* ---- The clock ------------------------------------------------------------------------------ */

static double ns_per_tick = 1;

/* A tenth of a second by both clocks; each pair is read closely together. */
static void clock_calibrate(void)
{
    ptoi_ticks_find_out();
    if (ptoi_ticks_by_counter) {
        const double ns = bench_now_ns();
        const uint64_t ticks = ptoi_ticks();
        (void)usleep(100000);
        const double after = bench_now_ns();
        ns_per_tick = (after - ns) / (double)(ptoi_ticks() - ticks);
    }
}

/* Another core may pass its point before this one looks at its own: that is no time at all. */
static double ns_between(uint64_t from, uint64_t to)
{
    return to > from ? (double)(to - from) * ns_per_tick : 0;
}

static void spin_ns(double ns)
{
    const uint64_t start = ptoi_ticks();
    while (ns_between(start, ptoi_ticks()) < ns) {
        ptoi_relax();
    }
}

/* ---- Kernels -------------------------------------------------------------------------------- */

/* One task, and what it and the submitting thread say to each other. */
typedef struct probe {
    /* Kernel: when it began, when it ended; 0: not yet. Released after `worker` is written. */
    _Alignas(64) ptoi_a64 began;
    ptoi_a64 ended;
    uint32_t worker;
    double lasts; /* ns that it spins; set before submit */
    /* Submitting thread: released when a kernel that holds may go on; NULL: it need not ask. */
    ptoi_a64 *go;
    double lingers;                  /* ns that it spins after that */
    _Alignas(64) uint64_t memory[8]; /* what it updates */
    pto_tensor tensor;
} probe;

static void probe_init(probe *p)
{
    memset(p, 0, sizeof *p);
    must(pto_tensor_init(&p->tensor, p->memory, sizeof p->memory, PTO_UINT64, 1, (int64_t[]){8},
                         NULL, 0));
}

/* There may be more threads than cores: now and then another one may have this one. */
static void breathe(uint32_t look)
{
    if (look % 64 == 63) {
        (void)sched_yield();
    } else {
        ptoi_relax();
    }
}

static void wait_set(const ptoi_a64 *word)
{
    for (uint32_t i = 0; !ptoi_acquire64(word); i++) {
        breathe(i);
    }
}

/* Its last argument is its probe. */
static pto_status kernel_probe(const pto_call *call)
{
    const uint64_t now = ptoi_ticks();
    probe *p = (probe *)(uintptr_t)call->args[call->n_args - 1].u64;
    p->worker = call->worker;
    ptoi_release64(&p->began, now);
    p->memory[0]++;
    if (p->go) {
        wait_set(p->go);
        spin_ns(p->lingers);
    }
    if (p->lasts > 0) {
        spin_ns(p->lasts);
    }
    ptoi_release64(&p->ended, ptoi_ticks());
    return PTO_OK;
}

/* ---- Runtimes ------------------------------------------------------------------------------- */

enum { PLACES = 2 };
static const char *const place_names[PLACES] = {"inline", "thread"};
static const pto_place places[PLACES] = {PTO_PLACE_INLINE, PTO_PLACE_THREAD};

typedef struct bench {
    pto_runtime *rt;
    pto_kernel cube, vector;
    uint64_t submitted;
} bench;

#define ALWAYS_SPIN (UINT32_C(1) << 31)

/* One worker for CUBE tasks; VECTOR ones are for the submitting thread, while it waits. So there
 * are no more threads than needed, and who runs what is certain. */
static bench bench_begin(int place, uint32_t spin, uint32_t ring_tasks)
{
    static const uint32_t types[1] = {PTO_TYPE_BIT(PTO_CUBE)};
    pto_config config = PTO_CONFIG_INIT;
    bench b = {0};
    config.place = places[place];
    config.workers = 1;
    config.worker_types = types;
    config.caller_types = PTO_TYPE_BIT(PTO_VECTOR);
    config.spin = spin;
    config.ring_tasks = ring_tasks;
    config.inline_ns = PTO_NO_INLINE;
    must(pto_runtime_create(&b.rt, &config));
    must(pto_kernel_register(b.rt, "cube", PTO_CUBE, kernel_probe, NULL, &b.cube));
    must(pto_kernel_register(b.rt, "vector", PTO_VECTOR, kernel_probe, NULL, &b.vector));
    return b;
}

/* Every task that was submitted ran, and the probes were updated as often. */
static void bench_end(bench *b)
{
    pto_runtime_stats stats;
    must(pto_wait(b->rt));
    must(pto_stats(b->rt, &stats));
    require(stats.submitted == b->submitted && stats.completed == b->submitted &&
                stats.failed + stats.skipped == 0,
            "not every task was run");
    must(pto_runtime_destroy(&b->rt, PTO_WAIT));
}

static void probe_submit(bench *b, pto_kernel kernel, probe *p, const pto_tensor *reads)
{
    pto_param params[3];
    size_t n = 0;
    if (reads) {
        params[n++] = pto_input(reads);
    }
    params[n++] = pto_inout(&p->tensor);
    params[n++] = pto_scalar_u64((uintptr_t)p);
    ptoi_set64(&p->began, 0);
    ptoi_set64(&p->ended, 0);
    b->submitted++;
    must(pto_submit_task(b->rt, kernel, PTO_KERNEL_TYPE, params, n, NULL));
}

static uint64_t parks(const bench *b)
{
    pto_runtime_stats stats;
    must(pto_stats(b->rt, &stats));
    return stats.parks;
}

/* Until all threads of the runtime sleep: each of them did so since `before`. (Counted a moment
 * before the system call.) */
static void let_sleep(const bench *b, int place, uint64_t before)
{
    const uint64_t threads = places[place] == PTO_PLACE_THREAD ? 2 : 1;
    while (parks(b) < before + threads) {
        (void)usleep(20);
    }
    (void)usleep(100);
}

/* ---- Samples -------------------------------------------------------------------------------- */

typedef struct samples {
    double *ns;
    size_t n, room;
} samples;

static void add(samples *s, double ns)
{
    if (s->n == s->room) {
        s->room = s->room ? 2 * s->room : 4096;
        s->ns = realloc(s->ns, s->room * sizeof *s->ns);
        require(s->ns != NULL, "out of memory");
    }
    s->ns[s->n++] = ns;
}

/* ---- From submit to start ------------------------------------------------------------------- */

/* `call` gets how long the call of submit itself took. */
static void one_start(bench *b, probe *p, samples *start, samples *call)
{
    const uint64_t runs = p->memory[0];
    const uint64_t before = ptoi_ticks();
    probe_submit(b, b->cube, p, NULL);
    const uint64_t after = ptoi_ticks();
    wait_set(&p->ended);
    require(p->memory[0] == runs + 1, "a task did not run once");
    add(start, ns_between(before, ptoi_get64(&p->began)));
    add(call, ns_between(before, after));
}

static void start_spinning(int place, size_t n, samples *out)
{
    bench b = bench_begin(place, ALWAYS_SPIN, 0);
    probe p;
    probe_init(&p);
    for (size_t i = 0; i < n; i++) {
        one_start(&b, &p, &out[0], &out[1]);
        spin_ns(1000); /* the worker is done with the one before */
    }
    bench_end(&b);
}

static void start_sleeping(int place, size_t n, samples *out)
{
    bench b = bench_begin(place, PTO_NO_SPIN, 0);
    probe p;
    probe_init(&p);
    let_sleep(&b, place, 0);
    for (size_t i = 0; i < n / 20 + 1; i++) {
        const uint64_t before = parks(&b);
        one_start(&b, &p, &out[0], &out[1]);
        let_sleep(&b, place, before);
    }
    bench_end(&b);
}

/* A task of 1 us every 2 us, whether those before have begun or not. A thread that was held up does
 * not catch up: a burst is not what is asked about. */
static void start_half_busy(int place, size_t n, samples *out)
{
    enum { PROBES = 64 };
    static probe ring[PROBES];
    static uint64_t asked[PROBES];
    bench b = bench_begin(place, ALWAYS_SPIN, 0);
    for (size_t i = 0; i < PROBES; i++) {
        probe_init(&ring[i]);
        ring[i].lasts = 1000;
    }
    uint64_t due = ptoi_ticks();
    for (size_t i = 0; i < n; i++) {
        const size_t at = i % PROBES;
        if (i >= PROBES) {
            wait_set(&ring[at].ended);
            add(&out[0], ns_between(asked[at], ptoi_get64(&ring[at].began)));
        }
        for (uint32_t look = 0; (asked[at] = ptoi_ticks()) < due; look++) {
            breathe(look);
        }
        due = asked[at] + (uint64_t)(2000 / ns_per_tick);
        probe_submit(&b, b.cube, &ring[at], NULL);
    }
    bench_end(&b);
}

/* Tasks that have piled up behind a long one: from the end of one to the start of the next. */
static void start_behind(int place, size_t n, samples *out)
{
    enum { QUEUED = 64 };
    static probe queue[QUEUED], first;
    ptoi_a64 go;
    bench b = bench_begin(place, ALWAYS_SPIN, 0);
    probe_init(&first);
    first.go = &go;
    for (size_t i = 0; i < QUEUED; i++) {
        probe_init(&queue[i]);
    }
    for (size_t done = 0; done < n; done += QUEUED) {
        ptoi_set64(&go, 0);
        probe_submit(&b, b.cube, &first, NULL);
        wait_set(&first.began);
        for (size_t i = 0; i < QUEUED; i++) {
            probe_submit(&b, b.cube, &queue[i], NULL);
        }
        ptoi_release64(&go, 1);
        wait_set(&queue[QUEUED - 1].ended);
        uint64_t ended = ptoi_acquire64(&first.ended);
        for (size_t i = 0; i < QUEUED; i++) {
            wait_set(&queue[i].ended);
            add(&out[0], ns_between(ended, ptoi_get64(&queue[i].began)));
            ended = ptoi_get64(&queue[i].ended);
        }
    }
    bench_end(&b);
}

/* ---- From completion to the consumer -------------------------------------------------------- */

/* A holds until B, which reads what A updates, is submitted; both on the worker. */
static void consumer_same(int place, size_t n, samples *out)
{
    bench b = bench_begin(place, ALWAYS_SPIN, 0);
    probe a, c;
    ptoi_a64 go;
    probe_init(&a);
    probe_init(&c);
    a.go = &go;
    for (size_t i = 0; i < n; i++) {
        ptoi_set64(&go, 0);
        probe_submit(&b, b.cube, &a, NULL);
        probe_submit(&b, b.cube, &c, &a.tensor);
        ptoi_release64(&go, 1);
        wait_set(&c.ended);
        require(c.worker == a.worker && ptoi_get64(&c.began) >= ptoi_get64(&a.ended),
                "a consumer began on another worker, or too early");
        add(&out[0], ns_between(ptoi_get64(&a.ended), ptoi_get64(&c.began)));
    }
    bench_end(&b);
}

/* The same with B on the submitting thread, which waits by then: it spins, or it sleeps. */
static void consumer_other(int place, size_t n, samples *out, uint32_t spin, double lingers)
{
    bench b = bench_begin(place, spin, 0);
    probe a, c;
    ptoi_a64 go;
    probe_init(&a);
    probe_init(&c);
    a.go = &go;
    a.lingers = lingers;
    for (size_t i = 0; i < n; i++) {
        ptoi_set64(&go, 0);
        probe_submit(&b, b.cube, &a, NULL);
        probe_submit(&b, b.vector, &c, &a.tensor);
        wait_set(&a.began);
        ptoi_release64(&go, 1);
        must(pto_wait(b.rt));
        require(c.worker != a.worker, "a consumer began on the wrong worker");
        add(&out[0], ns_between(ptoi_get64(&a.ended), ptoi_get64(&c.began)));
    }
    bench_end(&b);
}

static void consumer_spinning(int place, size_t n, samples *out)
{
    consumer_other(place, n, out, ALWAYS_SPIN, 3000);
}

static void consumer_sleeping(int place, size_t n, samples *out)
{
    consumer_other(place, n / 20 + 1, out, PTO_NO_SPIN, 200000);
}

/* ---- Waits for room ------------------------------------------------------------------------ */

static uint64_t waits_for_room(const bench *b)
{
    pto_runtime_stats stats;
    must(pto_stats(b->rt, &stats));
    return stats.level[0].ring[PTO_RING_TASKS].waits;
}

/* The task ring is full, and its oldest task runs: from its end until the submit that waits for
 * it returns. (A submit that comes too late to have to wait, for the system had other plans, is
 * none.) */
static void wait_for_room(int place, size_t n, samples *out, uint32_t spin, double lingers)
{
    enum { TASKS = 16 };
    static probe ring[TASKS], late;
    bench b = bench_begin(place, spin, TASKS);
    ptoi_a64 go;
    const size_t already = out[0].n;
    for (size_t i = 0; i < TASKS; i++) {
        probe_init(&ring[i]);
    }
    probe_init(&late);
    ring[0].go = &go;
    ring[0].lingers = lingers;
    for (size_t i = 0; i < n; i++) {
        ptoi_set64(&go, 0);
        for (size_t k = 0; k < TASKS; k++) {
            probe_submit(&b, b.cube, &ring[k], NULL);
        }
        const uint64_t before = waits_for_room(&b);
        wait_set(&ring[0].began);
        ptoi_release64(&go, 1);
        probe_submit(&b, b.cube, &late, NULL);
        const uint64_t after = ptoi_ticks();
        require(ptoi_acquire64(&ring[0].ended), "a submit did not wait for room");
        if (waits_for_room(&b) == before + 1) {
            add(&out[0], ns_between(ptoi_get64(&ring[0].ended), after));
        }
        must(pto_wait(b.rt));
    }
    require(out[0].n - already > n / 2, "most submits found room, though there was none");
    bench_end(&b);
}

static void wait_for_room_spinning(int place, size_t n, samples *out)
{
    wait_for_room(place, n, out, ALWAYS_SPIN, 3000);
}

static void wait_for_room_sleeping(int place, size_t n, samples *out)
{
    wait_for_room(place, n / 20 + 1, out, PTO_NO_SPIN, 200000);
}

/* ---- Reading -------------------------------------------------------------------------------- */

/* Submit and read what it writes: the whole round trip, with default settings. */
static void read_submitted(int place, size_t n, samples *out)
{
    pto_config config = PTO_CONFIG_INIT;
    bench b = {0};
    probe p;
    config.place = places[place];
    must(pto_runtime_create(&b.rt, &config));
    must(pto_kernel_register(b.rt, "vector", PTO_VECTOR, kernel_probe, NULL, &b.vector));
    probe_init(&p);
    for (size_t i = 0; i < n; i++) {
        uint64_t seen[8];
        const uint64_t before = ptoi_ticks();
        probe_submit(&b, b.vector, &p, NULL);
        must(pto_read(b.rt, &p.tensor, seen, sizeof seen));
        add(&out[0], ns_between(before, ptoi_ticks()));
        require(seen[0] == i + 1, "a read saw what was there before the task");
    }
    bench_end(&b);
}

/* ---- The cases ------------------------------------------------------------------------------ */

enum { OUTPUTS = 2 };

typedef struct latency_case {
    const char *names[OUTPUTS];
    void (*run)(int place, size_t n, samples *out);
} latency_case;

static const latency_case cases[] = {
    {{"submit to start, worker spins", "  the call of submit itself"}, start_spinning},
    {{"submit to start, worker sleeps", "  the call of submit, which wakes it"}, start_sleeping},
    {{"submit to start, half busy: 1 us every 2 us", NULL}, start_half_busy},
    {{"busy, 64 queued: end of one to start of next", NULL}, start_behind},
    {{"completion to consumer, same worker", NULL}, consumer_same},
    {{"completion to consumer, another that spins", NULL}, consumer_spinning},
    {{"completion to consumer, another that sleeps", NULL}, consumer_sleeping},
    {{"task ring full: room to return of submit, spinning", NULL}, wait_for_room_spinning},
    {{"task ring full: room to return of submit, asleep", NULL}, wait_for_room_sleeping},
    {{"submit, then pto_read of its output", NULL}, read_submitted},
};
enum { CASES = sizeof cases / sizeof *cases };

#endif /* PTO_LATENCY_CASES_H */
