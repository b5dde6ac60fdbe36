/* soak_grid.c - random programs in place gpu for a long time, without growth of resources.
 *
 *     soak_grid [--device nvidia:0|sim:0] [--minutes N | --programs N] [--seed N] [--only] [--break N]
 *
 * Each program has a runtime of its own, with rings from large to tiny, one block or all, a ready ring or
 * two, and a grid that leaves at once, now and then or never. Its tasks are on the device and on the host,
 * with copies in between; whole tensors and slices of them, temporaries, many inputs, kernels that fail,
 * cancels, small and large reads, and pauses in which the grid may leave. Everything is compared with a
 * serial run: each value, each poisoned tensor, and which task failed first.
 *
 * The kernels of an NVIDIA GPU are those of tests/device/cuda/grid_kernels.cu; a simulated device has the
 * same in C. So the test itself is tested without a GPU (soak.grid).
 *
 * A program that does not end within two minutes hangs; PTO_TEST_PTO names the command `pto`, which then says what it
 * waits for. Between programs the process must hold what it held when it had settled (holdings.h), and the device, too.
 * Program N has seed + N. A failure names the seed of its program, and --seed with --only runs that program
 * again and again. --break N lets program N fail, to see that it is noticed.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>

#include <pto/gpu.h>
#include <pto/op.h>
#include <pto/pto.h>
#include <pto/sim.h>
#include <pto/work.h>

#ifdef SOAK_LANES /* qy:0 has the grid of a GPU on threads of the process: ../worker/lanes */
#include "../worker/lanes/lanes.h"
#else
#include "../device/cuda/grid_kernels.h"
#endif
#include "holdings.h"
#include "support.h"

enum { CELLS = 32, HOSTS = 6, ELEMENTS = 37, MOST_INPUTS = 20, TEMPS = 3 };

#define PATIENCE 120      /* seconds for one program: it hangs, nothing else */
#define DEVICE_SLACK 8192 /* KiB that the device may have more in use */

/* Programs in which caches fill and arenas grow; of a real device those of its driver, too. */
enum { SETTLING = 24, SETTLING_REAL = 200 };

typedef struct options {
    uint64_t minutes, programs, seed, broken;
    pto_device device;
    bool only;
} options;

/* A tensor, and what a serial run leaves there. */
typedef struct cell {
    pto_tensor t;
    uint64_t value[ELEMENTS];
    bool poisoned;
} cell;

/* What was done in all programs. */
typedef struct sights {
    uint64_t programs, tasks, failed, skipped, cancels, reads;
} sights;

typedef struct program {
    const options *o;
    uint64_t seed;
    test_rng rng;
    pto_runtime *rt;
    pto_kernel mix[2], mix_on_host, spin; /* of cube and of vector tasks */
    pto_tensor all;
    cell on_device[CELLS], on_host[HOSTS];
    uint64_t memory[HOSTS][ELEMENTS];
    uint64_t salt;            /* of the next task */
    uint64_t failed, skipped; /* tasks of this segment, in a serial run */
    pto_task first;           /* of those that failed; 0: none */
    bool slices;              /* tasks may touch parts of tensors */
    sights *seen;
} program;

static atomic_bool stop;
static atomic_ullong running; /* seed of the program that runs */

static void interrupt(int number)
{
    (void)number;
    atomic_store(&stop, true);
}

static void wrong(const program *p, const char *format, ...) PTO_PRINTF(2, 3);

static void wrong(const program *p, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fprintf(stderr, "soak_grid: program %" PRIu64 ": ", p->seed);
    vfprintf(stderr, format, list);
    fprintf(stderr, "\n  again: soak_grid --device %s:%" PRId32 " --seed %" PRIu64 " --only\n",
            pto_device_name(p->o->device.type), p->o->device.index, p->seed);
    va_end(list);
    exit(1);
}

static const char *doctor; /* the command pto; NULL: it is not known */

/* The program hangs: says what it waits for, if `pto doctor` can be asked. */
static void too_long(int number)
{
    char text[96];
    (void)number;
    const int n = snprintf(text, sizeof text, "soak_grid: program %llu does not end\n",
                           atomic_load(&running));
    (void)!write(STDERR_FILENO, text, (size_t)n);
    snprintf(text, sizeof text, "%ld", (long)getpid());
    const pid_t child = doctor ? fork() : -1;
    if (child == 0) {
        dup2(STDERR_FILENO, STDOUT_FILENO);
        execl(doctor, doctor, "doctor", text, (char *)NULL);
        _exit(127);
    }
    if (child > 0) {
        (void)waitpid(child, NULL, 0);
    }
    abort();
}

#define MUST(p, call)                                                                              \
    do {                                                                                           \
        const pto_status must_ = (call);                                                           \
        if (must_) {                                                                               \
            wrong(p, "line %d: %s: %s", __LINE__, pto_status_name(must_), pto_error_detail());     \
        }                                                                                          \
    } while (0)

static uint64_t roll(program *p, uint64_t most)
{
    return test_next(&p->rng) % (most + 1);
}

static bool one_in(program *p, uint64_t n)
{
    return test_next(&p->rng) % n == 0;
}

/* ---- Kernels in C: as those of grid_kernels.cu ------------------------------------------------ */

static uint64_t mixed(uint64_t h, uint64_t x)
{
    h = (h ^ x) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ (h >> 29);
}

/* scalar salt, scalar keep, scalar fails, out or inout uint64[n] x, then inputs of the same size */
static pto_status mix(const pto_call *call)
{
    const uint64_t salt = call->args[0].u64, keep = call->args[1].u64;
    const pto_arg *x = &call->args[3];
    for (int64_t i = 0; i < x->shape[0]; i++) {
        uint64_t *mine = (uint64_t *)x->data + i * x->strides[0];
        uint64_t h = mixed(salt, keep ? *mine : (uint64_t)i);
        for (uint32_t k = 4; k < call->n_args; k++) {
            const pto_arg *from = &call->args[k];
            h = mixed(h, ((const uint64_t *)from->data)[i * from->strides[0]]);
        }
        *mine = h;
    }
    return call->args[2].u64 ? pto_fail(PTO_KERNEL_FAILED, "was to fail") : PTO_OK;
}

/* inout uint64 x, scalar ns: runs until the runtime is cancelled */
static pto_status spin(const pto_call *call)
{
    while (!pto_is_cancelled(call->rt)) {
        usleep(20);
    }
    return PTO_CANCELLED;
}

/* ---- Tasks, on the device and in a serial run ------------------------------------------------- */

/* The elements first, first + step ... that a task touches of each of its tensors. */
typedef struct slice {
    int64_t first, step, n;
} slice;

static slice draw_slice(program *p)
{
    slice s = {0, 1, ELEMENTS};
    if (p->slices && one_in(p, 3)) {
        s.step = 1 + (int64_t)roll(p, 2);
        s.first = (int64_t)roll(p, ELEMENTS - 1);
        s.n = 1 + (int64_t)roll(p, (uint64_t)((ELEMENTS - 1 - s.first) / s.step));
    }
    return s;
}

static pto_tensor part_of(program *p, const cell *c, slice s)
{
    pto_tensor part = c->t;
    if (s.n != ELEMENTS) {
        MUST(p,
             pto_tensor_slice(&c->t, 0, s.first, s.first + (s.n - 1) * s.step + 1, s.step, &part));
    }
    for (int64_t more = one_in(p, 4) ? (int64_t)roll(p, PTO_MAX_DIMS - 1) : 0; more > 0; more--) {
        part.shape[part.ndim] = part.strides[part.ndim] = 1; /* kernels need the first dim alone */
        part.ndim++;
    }
    return part;
}

/* The task in the serial run. */
static void carry_out(program *p, cell *to, cell *const *from, uint32_t n, uint64_t keep,
                      uint64_t fails, slice s, pto_task task)
{
    bool bad = keep && to->poisoned;
    for (uint32_t k = 0; k < n; k++) {
        bad = bad || from[k]->poisoned;
    }
    p->skipped += bad;
    p->failed += !bad && fails;
    p->first = !bad && fails && !p->first ? task : p->first;
    to->poisoned = bad || fails;
    for (int64_t i = 0; i < s.n && !to->poisoned; i++) {
        const int64_t at = s.first + i * s.step;
        uint64_t h = mixed(p->salt, keep ? to->value[at] : (uint64_t)i);
        for (uint32_t k = 0; k < n; k++) {
            h = mixed(h, from[k]->value[at]);
        }
        to->value[at] = h;
    }
}

/* Submits a task that mixes `from` into `to`: all on the device, or all on the host. */
static pto_status submit_mix(program *p, bool on_host, cell *to, cell *const *from, uint32_t n,
                             uint64_t keep, uint64_t fails, slice s)
{
    pto_param params[4 + MOST_INPUTS];
    pto_tensor part[1 + MOST_INPUTS];
    pto_task task = 0;
    const pto_kernel kernel = on_host ? p->mix_on_host : p->mix[roll(p, 1)];
    part[0] = part_of(p, to, s);
    params[0] = pto_scalar_u64(++p->salt);
    params[1] = pto_scalar_u64(keep);
    params[2] = pto_scalar_u64(fails);
    params[3] = keep ? pto_inout(&part[0]) : pto_output(&part[0]);
    for (uint32_t k = 0; k < n; k++) {
        part[1 + k] = part_of(p, from[k], s);
        params[4 + k] = pto_input(&part[1 + k]);
    }
    PTO_TRY(pto_submit_task(p->rt, kernel, PTO_KERNEL_TYPE, params, 4 + n, &task));
    carry_out(p, to, from, n, keep, fails, s, task);
    p->seen->tasks++;
    return PTO_OK;
}

/* A random task. `fails`: the chance that its kernel fails is one in so many; 0: none does. */
static pto_status submit_any(program *p, uint64_t fails)
{
    const bool on_host = one_in(p, 8);
    cell *all = on_host ? p->on_host : p->on_device, *from[MOST_INPUTS];
    const uint32_t count = on_host ? HOSTS : CELLS, to = (uint32_t)roll(p, count - 1);
    const uint32_t n = (uint32_t)roll(p, one_in(p, 16) ? MOST_INPUTS : 3);
    for (uint32_t k = 0; k < n; k++) { /* not the one that it writes */
        from[k] = &all[(to + 1 + roll(p, count - 2)) % count];
    }
    const uint64_t bad = fails && one_in(p, fails), keep = roll(p, 1);
    return submit_mix(p, on_host, &all[to], from, n, keep, bad, draw_slice(p));
}

static void copy(program *p, cell *to, cell *from)
{
    MUST(p, pto_copy(p->rt, &to->t, &from->t));
    p->skipped += from->poisoned;
    to->poisoned = from->poisoned;
    memcpy(to->value, from->value, to->poisoned ? 0 : sizeof to->value);
    p->seen->tasks++;
}

/* A chain through temporaries, whose memory is used again afterwards. */
static void use_temporaries(program *p, uint64_t fails)
{
    cell temp[TEMPS], *before = &p->on_device[roll(p, CELLS - 1)];
    const slice whole = {0, 1, ELEMENTS};
    const int64_t shape[] = {ELEMENTS};
    PTO_BOUNDARY(p->rt) {
        for (int i = 0; i < TEMPS; i++) {
            MUST(p, pto_temp(p->rt, PTO_UINT64, 1, shape, &temp[i].t));
            const uint64_t bad = fails && one_in(p, fails);
            MUST(p, submit_mix(p, false, &temp[i], &before, 1, 0, bad, whole));
            before = &temp[i];
        }
        cell *last[] = {&temp[0], &temp[TEMPS - 1]};
        MUST(p, submit_mix(p, false, &p->on_device[roll(p, CELLS - 1)], last, 2, 0, 0, whole));
    }
}

static void fill(program *p, cell *c)
{
    for (int i = 0; i < ELEMENTS; i++) {
        c->value[i] = test_next(&p->rng);
    }
    MUST(p, pto_write(p->rt, &c->t, c->value, sizeof c->value));
    c->poisoned = false;
}

/* Reads a tensor or an element, and compares. */
static void compare(program *p, cell *c, bool whole)
{
    uint64_t got[ELEMENTS];
    const uint64_t at = whole ? 0 : roll(p, ELEMENTS - 1), n = whole ? ELEMENTS : 1;
    const pto_tensor part = part_of(p, c, (slice){(int64_t)at, 1, (int64_t)n});
    const pto_status status = pto_read(p->rt, &part, got, n * sizeof *got);
    p->seen->reads++;
    if (status != (c->poisoned ? PTO_POISONED : PTO_OK)) {
        wrong(p, "a read gives %s, and the tensor is %s: %s", pto_status_name(status),
              c->poisoned ? "poisoned" : "good", pto_error_detail());
    }
    if (!c->poisoned && memcmp(got, &c->value[at], n * sizeof *got) != 0) {
        wrong(p, "cell %td of the %s is not what the serial run leaves",
              c->t.device.type == PTO_DEVICE_CPU ? c - p->on_host : c - p->on_device,
              c->t.device.type == PTO_DEVICE_CPU ? "host" : "device");
    }
}

static void compare_all(program *p)
{
    for (int i = 0; i < CELLS; i++) {
        compare(p, &p->on_device[i], true);
    }
    for (int i = 0; i < HOSTS; i++) {
        compare(p, &p->on_host[i], true);
    }
}

/* ---- Segments of a program -------------------------------------------------------------------- */

static void one_step(program *p, uint64_t fails)
{
    cell *here = &p->on_host[roll(p, HOSTS - 1)], *there = &p->on_device[roll(p, CELLS - 1)];
    pto_task_report report;
    switch (roll(p, 40)) {
    case 0:
        copy(p, here, there);
        break;
    case 1:
        copy(p, there, here);
        break;
    case 2:
    case 3:
        use_temporaries(p, fails);
        break;
    case 4:
        compare(p, there, one_in(p, 2));
        break;
    case 5:
        fill(p, there);
        break;
    case 6:
        if (pto_last_task(p->rt)) {
            MUST(p, pto_task_info(p->rt, pto_last_task(p->rt), &report));
        }
        break;
    case 7:
        if (one_in(p, 8)) {
            usleep((useconds_t)roll(p, 2000)); /* the grid may leave */
        }
        break;
    default:
        MUST(p, submit_any(p, fails));
    }
}

/* Tasks, some of which may fail. The failure is the first in order of submission, and what depends on it
 * was skipped, and nothing else. */
static void run_segment(program *p, uint32_t steps, uint64_t fails)
{
    pto_runtime_stats before = {0}, after = {0};
    pto_failure failure;
    bool failed = false;
    p->failed = p->skipped = p->first = 0;
    p->slices = !fails;
    MUST(p, pto_stats(p->rt, &before));
    for (uint32_t i = 0; i < steps; i++) {
        one_step(p, fails);
    }
    const pto_status status = pto_wait(p->rt);
    MUST(p, pto_stats(p->rt, &after));
    if (status != (p->failed ? PTO_TASK_FAILED : PTO_OK)) {
        wrong(p, "the wait gives %s: %s", pto_status_name(status), pto_error_detail());
    }
    if (after.failed - before.failed != p->failed || after.skipped - before.skipped != p->skipped) {
        wrong(p,
              "%" PRIu64 " tasks failed and %" PRIu64 " were skipped; in the serial run %" PRIu64
              " and %" PRIu64,
              after.failed - before.failed, after.skipped - before.skipped, p->failed, p->skipped);
    }
    MUST(p, pto_get_failure(p->rt, &failed, &failure));
    if (failed != (p->failed > 0) || (failed && failure.task != p->first)) {
        wrong(p, "the first failure is of task %" PRIu64 ", and should be of %" PRIu64,
              failed ? failure.task : 0, p->first);
    }
    if (p->seed == p->o->broken) {
        p->on_device[3].value[5]++;
    }
    compare_all(p);
    MUST(p, pto_clear_error(p->rt));
    p->seen->failed += p->failed;
    p->seen->skipped += p->skipped;
}

static void heal(program *p, bool all)
{
    for (int i = 0; i < CELLS; i++) {
        if (all || p->on_device[i].poisoned) {
            fill(p, &p->on_device[i]);
        }
    }
    for (int i = 0; i < HOSTS; i++) {
        if (all || p->on_host[i].poisoned) {
            fill(p, &p->on_host[i]);
        }
    }
}

static void *cancel(void *context)
{
    program *p = context;
    usleep((useconds_t)(p->seed % 16 * 200));
    pto_cancel(p->rt);
    return NULL;
}

/* Tasks behind one that only a cancel ends, which comes from another thread. */
static void run_cancelled(program *p, uint32_t steps)
{
    pthread_t thread;
    pto_status status = PTO_OK;
    p->slices = false;
    MUST(p,
         pto_submit(p->rt, p->spin, pto_inout(&p->on_device[0].t), pto_scalar(UINT64_C(1) << 60)));
    if (pthread_create(&thread, NULL, cancel, p)) {
        wrong(p, "no thread");
    }
    for (uint32_t i = 0; i < steps && !status; i++) {
        status = submit_any(p, 0);
    }
    if (status && status != PTO_CANCELLED) {
        wrong(p, "a submit gives %s: %s", pto_status_name(status), pto_error_detail());
    }
    pthread_join(thread, NULL);
    status = pto_wait(p->rt);
    if (status != PTO_CANCELLED) {
        wrong(p, "a wait gives %s after a cancel: %s", pto_status_name(status), pto_error_detail());
    }
    (void)pto_refused(p->rt, NULL);
    MUST(p, pto_clear_error(p->rt));
    p->seen->cancels++;
}

/* ---- Programs --------------------------------------------------------------------------------- */

static uint64_t any_of(program *p, const uint64_t *from, uint64_t n)
{
    return from[roll(p, n - 1)];
}

#define ANY(p, ...)                                                                                \
    any_of(p, (const uint64_t[]){__VA_ARGS__},                                                     \
           sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

/* Whether the kernels are those of a module. */
static bool is_real(const program *p)
{
    return p->o->device.type != PTO_DEVICE_SIM;
}

static const pto_gpu_module *module_of(bool small)
{
#ifdef SOAK_LANES
    return small ? &grid_small_module : &grid_module;
#else
    return grid_module_load(small ? "grid_small_module" : "grid_module");
#endif
}

/* Two modules: one has blocks of 64 threads, two on a multiprocessor, and no kernel that spins. */
static void begin(program *p, bool small)
{
    pto_config c = PTO_CONFIG_INIT;
    c.place = PTO_PLACE_GPU;
    c.device = p->o->device;
    c.workers = 1 + (uint32_t)roll(p, 2);
    c.levels = 1 + (uint32_t)roll(p, 2);
    c.ring_tasks = (uint32_t)ANY(p, 0, 8, 16, 64, 1024);
    c.deps = (uint32_t)ANY(p, 0, 0, 64, 512);
    c.arg_bytes = ANY(p, 0, 0, 4096, 65536);
    c.heap_bytes = ANY(p, 0, 8192, 1 << 20);
    c.gpu_idle_us = (uint32_t)ANY(p, 0, 1, 20, 200, UINT32_C(1) << 31);
    c.gpu_workers = (uint32_t)ANY(p, 0, 1, 2, 5);
    c.gpu_cube_workers = (c.gpu_workers == 0 && is_real(p)) || c.gpu_workers > 1
                             ? (uint32_t)roll(p, 1)
                             : 0;
    c.first_task = ANY(p, 0, 0, (UINT64_C(1) << 32) - 500, (UINT64_C(1) << 20) - 700);
    c.gpu_module = is_real(p) ? module_of(small) : NULL;
    MUST(p, pto_runtime_create(&p->rt, &c));
    MUST(p, pto_kernel_register(p->rt, "mix_on_host", PTO_AI_CPU, mix, NULL, &p->mix_on_host));
    MUST(p, pto_gpu_kernel(p->rt, "grid_mix", PTO_CUBE, &p->mix[0]));
    MUST(p, pto_gpu_kernel(p->rt, "grid_mix", PTO_VECTOR, &p->mix[1]));
    if (!small) {
        MUST(p, pto_gpu_kernel(p->rt, "grid_spin", PTO_VECTOR, &p->spin));
    }
    if (!is_real(p)) {
        MUST(p, pto_kernel_variant(p->rt, p->mix[0], PTO_DEVICE_SIM, mix, NULL));
        MUST(p, pto_kernel_variant(p->rt, p->mix[1], PTO_DEVICE_SIM, mix, NULL));
        if (!small) {
            MUST(p, pto_kernel_variant(p->rt, p->spin, PTO_DEVICE_SIM, spin, NULL));
        }
    }
}

static uint32_t steps_of(pto_device_type type)
{
    return type == PTO_DEVICE_NVIDIA ? 4000 : type == PTO_DEVICE_SIM ? 300 : 60;
}

static void run_program(const options *o, uint64_t seed, sights *seen)
{
    static program p;
    p = (program){.o = o, .seed = seed, .rng = test_rng_make(seed), .seen = seen};
    const bool small = one_in(&p, 3);
    const uint32_t most = steps_of(o->device.type); /* of a segment */
    begin(&p, small);
    MUST(&p, pto_tensor_empty(o->device, PTO_UINT64, 2, (int64_t[]){CELLS, ELEMENTS}, &p.all));
    for (int i = 0; i < CELLS; i++) {
        MUST(&p, pto_tensor_select(&p.all, 0, i, &p.on_device[i].t));
    }
    for (int i = 0; i < HOSTS; i++) {
        MUST(&p, pto_external_tensor(p.rt, p.memory[i], PTO_UINT64, 1, (int64_t[]){ELEMENTS},
                                     &p.on_host[i].t));
    }
    heal(&p, true);
    for (uint64_t i = 0, n = 1 + roll(&p, 3); i < n; i++) {
        const uint32_t steps = 20 + (uint32_t)roll(&p, most);
        const uint64_t kind = roll(&p, 3);
        if (kind == 0 && !small) {
            run_cancelled(&p, steps);
            heal(&p, true);
        } else {
            run_segment(&p, steps, kind == 1 ? ANY(&p, 10, 50, 300) : 0);
            heal(&p, false);
        }
    }
    MUST(&p, pto_runtime_destroy(&p.rt, one_in(&p, 4) ? PTO_CANCEL : PTO_WAIT));
    MUST(&p, pto_tensor_free(&p.all));
    seen->programs++;
}

/* ---- Main ------------------------------------------------------------------------------------- */

static uint64_t device_kib(pto_device device, const pto_device_ops *ops)
{
    uint64_t bytes = 0, used = 0;
    pto_sim_stats simulated = {0};
    if (device.type == PTO_DEVICE_SIM) {
        return pto_sim_stats_get(device.index, &simulated) ? 0 : (simulated.used + 1023) / 1024;
    }
    return ops->memory && !ops->memory(ops->self, &bytes, &used) ? used / 1024 : 0;
}

static void usage(const char *what)
{
    fprintf(
        stderr,
        "soak_grid: %s\nusage: soak_grid [--device nvidia:0|sim:0] [--minutes N | --programs N] "
        "[--seed N] [--only] [--break N]\n",
        what);
    exit(2);
}

static uint64_t number_of(const char *text)
{
    char *end = NULL;
    errno = 0;
    const uint64_t value = text ? strtoull(text, &end, 10) : 0;
    if (!text || *text < '0' || *text > '9' || *end || errno) {
        usage(text ? text : "a number is missing");
    }
    return value;
}

static options read_options(int argc, char **argv)
{
    options o = {.minutes = 4,
                 .programs = UINT64_MAX,
                 .seed = (uint64_t)time(NULL) << 24,
                 .broken = UINT64_MAX,
                 .device = {PTO_DEVICE_NVIDIA, 0}};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(argv[i], "--only")) {
            o.only = true;
            continue;
        }
        if (!strcmp(argv[i], "--device")) {
            if (!value || pto_device_parse(value, &o.device) || o.device.type == PTO_DEVICE_CPU) {
                usage(value ? value : "--device needs one");
            }
        } else if (!strcmp(argv[i], "--minutes")) {
            o.minutes = number_of(value);
        } else if (!strcmp(argv[i], "--programs")) {
            o.programs = number_of(value);
        } else if (!strcmp(argv[i], "--seed")) {
            o.seed = number_of(value);
        } else if (!strcmp(argv[i], "--break")) {
            o.broken = number_of(value);
        } else {
            usage(argv[i]);
        }
        i++;
    }
    return o;
}

/* What the process and the device hold. */
typedef struct balance {
    holdings settled, now;
    uint64_t threads; /* before the first program: a driver may have some */
    uint64_t device_before, device_settled, device_now; /* KiB */
    holding more;                                       /* that has grown; HOLD_COUNT: none has */
    bool device_more;
} balance;

static void look(balance *b, const options *o, const pto_device_ops *ops, bool settles)
{
    const uint64_t threads = b->settled.count[HOLD_THREADS];
    b->now = holdings_look(b->threads > threads ? b->threads : threads);
    b->device_now = device_kib(o->device, ops);
    if (settles) {
        holdings_settle(&b->settled, &b->now);
        b->device_settled = b->device_now > b->device_settled ? b->device_now : b->device_settled;
        return;
    }
    b->more = holdings_grown(&b->settled, &b->now);
    b->device_more = b->device_now > b->device_settled + DEVICE_SLACK;
}

static double mib(uint64_t kib)
{
    return (double)kib / 1024;
}

/* One line, and what is wrong. */
static bool tell(const options *o, const sights *seen, const balance *b, double seconds,
                 bool settled)
{
    printf(
        "soak of %s:%" PRId32 ": %" PRIu64 " programs from seed %" PRIu64 " in %.0f s, %" PRIu64
        " tasks, %" PRIu64 " failed, %" PRIu64 " skipped, %" PRIu64 " reads, %" PRIu64
        " cancels; memory of the device: %.1f MiB before, %.1f settled, %.1f after; of the host: "
        "%.1f MiB settled, %.1f after\n",
        pto_device_name(o->device.type), o->device.index, seen->programs, o->seed, seconds,
        seen->tasks, seen->failed, seen->skipped, seen->reads, seen->cancels, mib(b->device_before),
        mib(b->device_settled), mib(b->device_now), mib(b->settled.count[HOLD_RESIDENT]),
        mib(b->now.count[HOLD_RESIDENT]));
    if (b->more != HOLD_COUNT) {
        printf("%s pile up: %" PRIu64 ", and %" PRIu64 " when it had settled\n",
               holding_texts[b->more], b->now.count[b->more], b->settled.count[b->more]);
    }
    if (b->device_more) {
        printf("memory of the device piles up\n");
    }
    if (!settled) {
        printf("too short to see whether resources grow\n");
    }
    const bool good = b->more == HOLD_COUNT && !b->device_more;
    printf("soak: %s\n", good ? "all as it should be" : "FAILED");
    return good;
}

int main(int argc, char **argv)
{
    const options o = read_options(argc, argv);
    const uint64_t settling = o.device.type == PTO_DEVICE_SIM ? SETTLING : SETTLING_REAL;
    const time_t begin_s = time(NULL), end = begin_s + 60 * (time_t)o.minutes;
    balance b = {.more = HOLD_COUNT};
    sights seen = {0};
    pto_device_ops ops;
#ifdef SOAK_LANES
    if (lanes_add_device((pto_device){PTO_DEVICE_QY, 0})) {
        return 1;
    }
#endif
    if (pto_device_get(o.device, &ops) || pto_device_set_current(o.device)) {
        fprintf(stderr, "soak_grid: %s\n", pto_error_detail());
        return 1;
    }
    mallopt(M_ARENA_MAX, 2); /* otherwise memory depends on the order of threads */
    signal(SIGINT, interrupt);
    signal(SIGTERM, interrupt);
    doctor = getenv("PTO_TEST_PTO");
    signal(SIGALRM, too_long);
    b.threads = holdings_look(UINT64_MAX).count[HOLD_THREADS];
    b.device_before = device_kib(o.device, &ops);
    while (!atomic_load(&stop) && seen.programs < o.programs && b.more == HOLD_COUNT &&
           !b.device_more && (o.programs != UINT64_MAX || time(NULL) < end)) {
        const uint64_t seed = o.only ? o.seed : o.seed + seen.programs;
        atomic_store(&running, seed);
        alarm(PATIENCE);
        run_program(&o, seed, &seen);
        alarm(0);
        look(&b, &o, &ops, seen.programs <= settling);
    }
    return !tell(&o, &seen, &b, difftime(time(NULL), begin_s), seen.programs > settling);
}
