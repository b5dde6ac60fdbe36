/* bench_gpu_grid.c - place gpu: the six programs of bench_tasks, with empty kernels, submitted one by one
 * to a GPU that schedules for itself. Beside it, in the same process: the same programs on streams, CUDA
 * graphs that are replayed, the prototype (peers/resident.h), and a bare ping-pong.
 *
 * A time is from the first submit until pto_wait returns. Figures are medians.
 *
 * bench_gpu_grid [PART...]: rates, chain, latency, metg, memory; all without arguments. PTO_BENCH_MILLIONS:
 * so many million tasks for `memory` (default 20). PTO_BENCH_RING: tasks in flight.
 */
#include "bench.h"

#include <string.h>

#include <pto/device.h>
#include <pto/gpu.h>
#include <pto/pto.h>

#include "../../tests/device/cuda/grid_kernels.h"
#include "../../tests/device/cuda/kernels.h"
#include "../peers/resident.h"

typedef pto_tensor tile;
typedef struct sink sink;

#include "../tasks_patterns.h"

enum { ROUNDS = 5, TASKS = 400000, ON_STREAMS = 20000, IN_GRAPH = 12800, LINKS = 100000 };
enum { ALL_TASKS = 200000, ALL_RING = 1 << 18 }; /* all tasks fit into the rings */

static const pto_device gpu = {PTO_DEVICE_NVIDIA, 0};
static pto_device_ops ops;
static const pto_gpu_module *module;
static const gpu_kernels *launched;
static resident_peer peer;
static char *memory; /* on the device: as much as a pattern has on the host */

static void must(pto_status status)
{
    if (status != PTO_OK) {
        fprintf(stderr, "bench_gpu_grid: %s: %s\n", pto_status_name(status), pto_error_detail());
        exit(2);
    }
}

/* ---- Where the programs send their tasks ---- */

struct sink {
    pto_runtime *rt;
    pto_kernel kernel;
    bool spins;
    uint64_t ns; /* of a spinning task */
    uint64_t tasks;
    pto_tensor fresh;
};

/* A tile lies where the host's would, in memory of the device. */
static void tile_make(tile *t, const data *d, size_t index)
{
    const int64_t i = (int64_t)index;
    char *at = memory + ((char *)tile_memory(d, index) - (char *)d->memory);
    pto_tensor matrix;
    if (!d->side) {
        must(pto_tensor_init(t, at, TILE * TILE * sizeof(uint64_t), PTO_UINT64, 2,
                             (int64_t[]){TILE, TILE}, NULL, 0));
        t->device = gpu;
        return;
    }
    must(pto_tensor_init(&matrix, memory, d->bytes, PTO_UINT64, 2, (int64_t[]){d->row, d->row},
                         NULL, 0));
    matrix.device = gpu;
    must(pto_tensor_view(&matrix, (int64_t[]){i / d->side * TILE, i % d->side * TILE},
                         (int64_t[]){TILE, TILE}, t));
}

static void tile_free(tile *t)
{
    (void)t;
}

INLINE void submit(sink *s, pto_param *params, size_t n)
{
    s->tasks++;
    if (s->spins) {
        params[n++] = pto_scalar_u64(s->ns);
    }
    must(pto_submit_task(s->rt, s->kernel, PTO_KERNEL_TYPE, params, n, NULL));
}

INLINE pto_param written(kind which, tile *w)
{
    return kinds[which].updates ? pto_inout(w) : pto_output(w);
}

INLINE void task0(sink *s, kind which, tile *w)
{
    submit(s, (pto_param[2]){written(which, w)}, 1);
}

INLINE void task1(sink *s, kind which, tile *a, tile *w)
{
    submit(s, (pto_param[3]){pto_input(a), written(which, w)}, 2);
}

INLINE void task2(sink *s, kind which, tile *a, tile *b, tile *w)
{
    submit(s, (pto_param[4]){pto_input(a), pto_input(b), written(which, w)}, 3);
}

INLINE void task3(sink *s, kind which, tile *a, tile *b, tile *c, tile *w)
{
    submit(s, (pto_param[5]){pto_input(a), pto_input(b), pto_input(c), written(which, w)}, 4);
}

INLINE tile *fresh_begin(sink *s, uint64_t n)
{
    (void)n;
    must(pto_scope_begin_ex(s->rt, PTO_SCOPE_BOUNDARY));
    must(pto_temp(s->rt, PTO_UINT64, 2, (int64_t[]){TILE, TILE}, &s->fresh));
    return &s->fresh;
}

INLINE void fresh_end(sink *s)
{
    must(pto_scope_end(s->rt));
}

/* ---- Runtimes ---- */

static pto_status on_host(const pto_call *call)
{
    (void)call;
    return PTO_OK;
}

/* Tasks in flight: more than the GPU needs to be busy, and few enough for the caches of the host. */
static uint32_t ring(void)
{
    const char *text = getenv("PTO_BENCH_RING");
    return text ? (uint32_t)strtoul(text, NULL, 10) : 8192;
}

static sink grid_make(const char *kernel, uint32_t ring_tasks)
{
    sink s = {0};
    pto_config config = PTO_CONFIG_INIT;
    config.place = PTO_PLACE_GPU;
    config.device = gpu;
    config.gpu_module = module;
    config.gpu_idle_us = 100000;
    config.workers = 1;
    config.ring_tasks = ring_tasks;
    config.deps = 4 * ring_tasks;
    config.arg_bytes = UINT64_C(64) * ring_tasks;
    config.map_entries = 4 * ring_tasks;
    must(pto_runtime_create(&s.rt, &config));
    must(pto_gpu_kernel(s.rt, kernel, PTO_VECTOR, &s.kernel));
    s.spins = strcmp(kernel, "grid_spin") == 0;
    return s;
}

static sink streams_make(void)
{
    sink s = {0};
    pto_config config = PTO_CONFIG_INIT;
    config.device = gpu;
    config.workers = 1;
    config.ring_tasks = 32768;
    config.deps = 131072;
    config.map_entries = 131072;
    must(pto_runtime_create(&s.rt, &config));
    must(pto_kernel_register(s.rt, "nothing", PTO_VECTOR, on_host, NULL, &s.kernel));
    must(pto_kernel_variant(s.rt, s.kernel, PTO_DEVICE_NVIDIA, launched->nothing, NULL));
    return s;
}

static void sink_end(sink *s)
{
    must(pto_runtime_destroy(&s->rt, PTO_WAIT));
}

/* ns for each task; *submitted: until the last submit had returned. */
static double timed(sink *s, const pattern *p, const data *d, uint64_t tasks, double *submitted)
{
    s->tasks = 0;
    const double begin = bench_now_ns();
    p->run(s, d, tasks);
    *submitted = (bench_now_ns() - begin) / (double)s->tasks;
    must(pto_wait(s->rt));
    return (bench_now_ns() - begin) / (double)s->tasks;
}

/* Median ns for each task of a pattern on a runtime. */
static double rate_of(sink *s, const pattern *p, uint64_t tasks, double *submitted)
{
    double ours[ROUNDS], submits[ROUNDS];
    data d = p->make(tasks);
    for (int k = -1; k < ROUNDS; k++) {
        const int at = k < 0 ? 0 : k;
        ours[at] = timed(s, p, &d, tasks, &submits[at]);
    }
    data_free(&d);
    *submitted = bench_median(submits, ROUNDS);
    return bench_median(ours, ROUNDS);
}

/* ---- Rates ---- */

static double mtasks(double ns)
{
    return 1000 / ns;
}

static double peer_of(double (*run)(resident_shape, uint32_t), resident_shape shape, uint32_t tasks)
{
    double times[ROUNDS];
    for (int k = -1; k < ROUNDS; k++) {
        times[k < 0 ? 0 : k] = run(shape, tasks);
    }
    return bench_median(times, ROUNDS);
}

static bool bench_rates(void)
{
    double ours[PATTERNS], ceiling[PATTERNS], submits[PATTERNS], streams[PATTERNS], unused;
    sink s = grid_make("grid_empty", ring());
    for (int i = 0; i < PATTERNS; i++) {
        ours[i] = rate_of(&s, &patterns[i], i == 1 ? LINKS : TASKS, &submits[i]);
    }
    sink_end(&s);
    s = grid_make("grid_empty", ALL_RING); /* submit never waits for room */
    for (int i = 0; i < PATTERNS; i++) {
        (void)rate_of(&s, &patterns[i], i == 1 ? LINKS : ALL_TASKS, &ceiling[i]);
    }
    sink_end(&s);
    s = streams_make();
    for (int i = 0; i < PATTERNS; i++) {
        streams[i] = rate_of(&s, &patterns[i], ON_STREAMS, &unused);
    }
    sink_end(&s);
    printf("%-14s %12s %14s %16s %12s %8s\n", "Mtasks/s", "place gpu", "submit of it",
           "submit ceiling", "streams", "times");
    for (int i = 0; i < PATTERNS; i++) {
        printf("%s %-11s %12.2f %14.2f %16.2f %12.3f %8.1f\n", patterns[i].name, patterns[i].text,
               mtasks(ours[i]), mtasks(submits[i]), mtasks(ceiling[i]), mtasks(streams[i]),
               streams[i] / ours[i]);
    }
    const double proto = peer_of(peer.prototype, RESIDENT_STENCIL, RESIDENT_MOST);
    const double graph = peer_of(peer.graph, RESIDENT_STENCIL, IN_GRAPH);
    printf("independent: the prototype %.2f, a graph replayed %.2f Mtasks/s\n",
           mtasks(peer_of(peer.prototype, RESIDENT_INDEPENDENT, RESIDENT_MOST)),
           mtasks(peer_of(peer.graph, RESIDENT_INDEPENDENT, IN_GRAPH)));
    printf("stencil: the prototype %.2f, a graph replayed %.2f Mtasks/s\n", mtasks(proto),
           mtasks(graph));
    bool ok = true;
    for (int i = 0; i < PATTERNS; i++) {
        char name[64];
        if (i == 1) {
            continue;
        }
        snprintf(name, sizeof name, "%s %s on the grid", patterns[i].name, patterns[i].text);
        ok &= bench_bar_at_least(name, mtasks(ours[i]), "Mtasks/s", 8);
        snprintf(name, sizeof name, "%s %s, times streams", patterns[i].name, patterns[i].text);
        ok &= bench_bar_at_least(name, streams[i] / ours[i], "", 20);
    }
    return bench_bar_at_least("P3 stencil, times a graph replayed", graph / ours[METG_PATTERN], "",
                              3) &&
           ok;
}

/* ---- A chain ---- */

static bool at_most(const char *name, double figure, double want)
{
    const bool ok = figure <= want;
    printf("BAR %s: %.2f (want <= %g) %s\n", name, figure, want, ok ? "ok" : "short");
    return ok;
}

static bool bench_chain(void)
{
    double ours[ROUNDS], theirs[ROUNDS], submitted;
    sink s = grid_make("grid_empty", ring());
    data d = patterns[1].make(LINKS);
    for (int k = -1; k < ROUNDS; k++) { /* they take turns; the prototype needs the whole GPU */
        ours[k < 0 ? 0 : k] = timed(&s, &patterns[1], &d, LINKS, &submitted);
    }
    data_free(&d);
    sink_end(&s);
    for (int k = -1; k < ROUNDS; k++) {
        theirs[k < 0 ? 0 : k] = peer.prototype(RESIDENT_CHAIN, LINKS);
    }
    const double mine = bench_median(ours, ROUNDS), proto = bench_median(theirs, ROUNDS);
    printf("a chain: %.0f ns a task, the prototype %.0f ns, a graph replayed %.0f ns\n", mine,
           proto, peer_of(peer.graph, RESIDENT_CHAIN, IN_GRAPH));
    return at_most("P2 chain, time of the prototype", mine / proto, 1.3);
}

/* ---- Latency ---- */

static bool bench_latency(void)
{
    enum { TIMES = 2001 };
    static double flags[TIMES], waits[TIMES], reads[TIMES], alone[TIMES];
    sink s = grid_make("grid_flag", 4096);
    uint64_t *flag = peer.flag();
    pto_tensor x;
    pto_kernel set;
    must(pto_gpu_kernel(s.rt, "grid_set", PTO_VECTOR, &set));
    must(pto_tensor_init(&x, memory, 4, PTO_FLOAT32, 1, (int64_t[]){1}, NULL, 0));
    x.device = gpu;
    for (int k = 0; k < TIMES; k++) {
        const uint64_t number = (uint64_t)k + 1;
        const double begin = bench_now_ns();
        must(pto_submit(s.rt, s.kernel, pto_inout(&x), pto_scalar((uint64_t)(uintptr_t)flag),
                        pto_scalar(number)));
        while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) != number) {
        }
        flags[k] = bench_now_ns() - begin;
        must(pto_wait(s.rt));
        waits[k] = bench_now_ns() - begin;
    }
    for (int k = 0; k < TIMES; k++) {
        float value = -1;
        const double begin = bench_now_ns();
        must(pto_submit(s.rt, set, pto_output(&x), pto_scalar((double)k)));
        must(pto_read(s.rt, &x, &value, sizeof value));
        reads[k] = bench_now_ns() - begin;
        if (value != (float)k) {
            fprintf(stderr, "bench_gpu_grid: read %g, and %d was written\n", (double)value, k);
            exit(2);
        }
        const double again = bench_now_ns();
        must(pto_read(s.rt, &x, &value, sizeof value));
        alone[k] = bench_now_ns() - again;
    }
    sink_end(&s);
    const double ping = peer.ping_pong(TIMES);
    const double seen = bench_median(flags, TIMES), read = bench_median(reads, TIMES);
    printf("us: from submit until the host sees a flag %.2f, until pto_wait returns %.2f; a bare "
           "ping-pong "
           "%.2f\n",
           seen / 1000, bench_median(waits, TIMES) / 1000, ping / 1000);
    printf("us: submit and pto_read of 4 bytes %.2f; pto_read of what is complete %.2f\n",
           read / 1000, bench_median(alone, TIMES) / 1000);
    bool ok = at_most("submit to flag, times a ping-pong", seen / ping, 2);
    ok &= bench_bar_at_most("pto_read of 4 bytes after its writer", (read - seen) / 1000, "us", 8);
    return ok;
}

/* ---- METG ---- */

/* The smallest task that keeps the workers busy half of the time: independent tasks, on all blocks. */
static void bench_metg(void)
{
    uint32_t blocks = 0;
    if (module->prepare(&blocks)) {
        exit(2);
    }
    const double workers = blocks - (10 + module->threads / 32 - 1) / (module->threads / 32);
    sink s = grid_make("grid_spin", ring());
    data d = patterns[0].make(TASKS);
    double before_ns = 0, before = 0, metg = 0;
    for (s.ns = 64000; s.ns >= 250; s.ns /= 2) {
        const uint64_t tasks = 4000000000 / s.ns < 100000 ? 4000000000 / s.ns : 100000;
        double submitted, times[3];
        for (int k = 0; k < 3; k++) {
            times[k] = timed(&s, &patterns[0], &d, tasks, &submitted);
        }
        const double efficiency = (double)s.ns / (bench_median(times, 3) * workers);
        printf("tasks of %6.2f us on %.0f blocks: efficiency %.2f\n", (double)s.ns / 1000, workers,
               efficiency);
        if (efficiency < 0.5 && before >= 0.5) {
            metg = (double)s.ns +
                   (before_ns - (double)s.ns) * (0.5 - efficiency) / (before - efficiency);
            break;
        }
        before_ns = (double)s.ns;
        before = efficiency;
    }
    data_free(&d);
    sink_end(&s);
    printf("METG(50%%) of independent tasks on all blocks: %.2f us\n", metg / 1000);
}

/* ---- Memory ---- */

static double resident_mb(void)
{
    long pages = 0, unused;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld %ld", &unused, &pages) != 2) {
        exit(2);
    }
    fclose(f);
    return (double)pages * 4096 / 1e6;
}

static bool bench_memory(void)
{
    const char *millions = getenv("PTO_BENCH_MILLIONS");
    const uint64_t total = (millions ? strtoull(millions, NULL, 10) : 20) * 1000000;
    uint64_t bytes, before = 0, after = 0;
    double host = 0, submitted;
    sink s = grid_make("grid_empty", 4096);
    data d = patterns[3].make(TASKS);
    const double begin = bench_now_ns();
    for (uint64_t done = 0; done < total; done += 1000000) {
        (void)timed(&s, &patterns[3], &d, 1000000, &submitted);
        if (done == 0) {
            host = resident_mb();
            must(ops.memory ? ops.memory(ops.self, &bytes, &before) : PTO_OK);
        }
    }
    const double seconds = (bench_now_ns() - begin) / 1e9;
    must(ops.memory ? ops.memory(ops.self, &bytes, &after) : PTO_OK);
    const double grown = resident_mb() - host;
    data_free(&d);
    sink_end(&s);
    printf(
        "%.0f million tasks of P4 in %.1f s: %.2f Mtasks/s; the device has %.1f MB more in use\n",
        (double)total / 1e6, seconds, (double)total / 1e6 / seconds,
        ((double)after - (double)before) / 1e6);
    return bench_bar_at_most("memory of the host, grown by", grown, "MB", 1);
}

int main(int argc, char **argv)
{
    static const char *const all[] = {"chain", "rates", "latency", "metg", "memory"};
    bool ok = true;
    must(pto_device_get(gpu, &ops));
    must(pto_device_set_current(gpu));
    module = grid_module_load("grid_module");
    launched = gpu_kernels_load("libpto-gpu-kernels.so");
    peer = resident_peer_load();
    void *there = NULL;
    must(ops.alloc(ops.self, UINT64_C(8) << 20, &there));
    memory = there;
    const char *const *parts = argc > 1 ? (const char *const *)argv + 1 : all;
    for (int i = 0; i < (argc > 1 ? argc - 1 : 5); i++) {
        if (!strcmp(parts[i], "rates")) {
            ok &= bench_rates();
        } else if (!strcmp(parts[i], "chain")) {
            ok &= bench_chain();
        } else if (!strcmp(parts[i], "latency")) {
            ok &= bench_latency();
        } else if (!strcmp(parts[i], "metg")) {
            bench_metg();
        } else if (!strcmp(parts[i], "memory")) {
            ok &= bench_memory();
        } else {
            fprintf(stderr, "bench_gpu_grid: no part '%s'\n", parts[i]);
            return 2;
        }
        fflush(stdout);
    }
    return !ok;
}
