/* vector.c - y = (a + b + 1) (a + b + 2) + (a + b), over a long vector that is cut into tiles.
 *
 * Five small kernels a tile instead of one loop, as they would run on the vector units of an
 * accelerator. Nobody says what has to wait for what, and nobody frees a temporary.
 *
 *     a[tile]   b[tile]            tiles are views: they share the memory of the vector
 *           \   /
 *            sum ---------------.
 *           /   \                \
 *     sum + 1   sum + 2           |    three readers of sum; the last of them, whichever
 *           \   /                 |    that is, lets go of its memory
 *          product                |
 *               \                /
 *                y[tile] = product + sum
 */
#include <errno.h>
#include <pto/pto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- Kernels ------------------------------------------------------------------------------ */

/* They get what was submitted, in that order. All tensors here are dense vectors, so no kernel looks
 * at strides; a kernel for any view would. */

static pto_status add(const pto_call *call)
{
    const float *x = call->args[0].data, *y = call->args[1].data;
    float *sum = call->args[2].data;
    for (int64_t i = 0; i < call->args[2].shape[0]; i++) {
        sum[i] = x[i] + y[i];
    }
    return PTO_OK;
}

static pto_status add_number(const pto_call *call)
{
    const float *x = call->args[0].data;
    float *sum = call->args[1].data, number = (float)pto_arg_f64(&call->args[2]);
    for (int64_t i = 0; i < call->args[1].shape[0]; i++) {
        sum[i] = x[i] + number;
    }
    return PTO_OK;
}

static pto_status multiply(const pto_call *call)
{
    const float *x = call->args[0].data, *y = call->args[1].data;
    float *product = call->args[2].data;
    for (int64_t i = 0; i < call->args[2].shape[0]; i++) {
        product[i] = x[i] * y[i];
    }
    return PTO_OK;
}

typedef struct kernels {
    pto_kernel add, add_number, multiply;
} kernels;

static pto_status register_kernels(pto_runtime *rt, kernels *k)
{
    PTO_TRY(pto_kernel_register(rt, "add", PTO_VECTOR, add, NULL, &k->add));
    PTO_TRY(pto_kernel_register(rt, "add_number", PTO_VECTOR, add_number, NULL, &k->add_number));
    return pto_kernel_register(rt, "multiply", PTO_VECTOR, multiply, NULL, &k->multiply);
}

/* ---- The orchestration function: the serial program ----------------------------------------- */

/* Written as if each line ran at once, one after the other. None has run when pto_submit returns. */
static pto_status orchestrate(pto_runtime *rt, const kernels *k, const pto_tensor *a,
                              const pto_tensor *b, const pto_tensor *y, int64_t tile)
{
    const int64_t n = a->shape[0];
    for (int64_t at = 0; at < n; at += tile) {
        const int64_t end = n - at < tile ? n : at + tile, shape[] = {end - at};
        pto_tensor a_tile, b_tile, y_tile, sum, left, right, product;
        PTO_TRY(pto_tensor_slice(a, 0, at, end, 1, &a_tile));
        PTO_TRY(pto_tensor_slice(b, 0, at, end, 1, &b_tile));
        PTO_TRY(pto_tensor_slice(y, 0, at, end, 1, &y_tile));

        /* The temporaries of a tile belong to this scope. It ends below, long before their tasks
         * have run, and waits for nothing: the end only says that no new task will name them. Tasks
         * that do keep what they use until they are done; then it goes back to the ring, and later
         * tiles use it again. So the vector may be of any length. With one scope around the whole
         * loop the temporaries of all tiles would have to fit into the ring. */
        PTO_BOUNDARY(rt) {
            /* Handles without memory. The task that writes one first brings the memory with it. */
            PTO_TRY(pto_temp(rt, PTO_FLOAT32, 1, shape, &sum));
            PTO_TRY(pto_temp(rt, PTO_FLOAT32, 1, shape, &left));
            PTO_TRY(pto_temp(rt, PTO_FLOAT32, 1, shape, &right));
            PTO_TRY(pto_temp(rt, PTO_FLOAT32, 1, shape, &product));

            PTO_TRY(
                pto_submit(rt, k->add, pto_input(&a_tile), pto_input(&b_tile), pto_output(&sum)));
            PTO_TRY(
                pto_submit(rt, k->add_number, pto_input(&sum), pto_output(&left), pto_scalar(1.0)));
            PTO_TRY(pto_submit(rt, k->add_number, pto_input(&sum), pto_output(&right),
                               pto_scalar(2.0)));
            PTO_TRY(pto_submit(rt, k->multiply, pto_input(&left), pto_input(&right),
                               pto_output(&product)));
            /* y_tile is memory of the caller and outlives all this; the struct itself need not: a
             * submit copies what it needs. */
            PTO_TRY(
                pto_submit(rt, k->add, pto_input(&product), pto_input(&sum), pto_output(&y_tile)));
        }
    }
    return pto_wait(rt); /* until then y may be written in part */
}

/* ---- Around it ------------------------------------------------------------------------------ */

typedef struct options {
    int64_t elements, tile, ahead, workers;
} options;

static const char usage[] =
    "usage: ./dev run [vector] [OPTIONS]\n"
    "  --elements N   length of the vectors (default 4194304)\n"
    "  --tile N       elements of a tile (default 16384)\n"
    "  --ahead N      tiles whose temporaries fit into memory at once (default 16)\n"
    "  --workers N    worker threads (default: one less than there are cores)\n"
    "  --help\n"
    "\n"
    "Computes (a + b + 1)(a + b + 2) + (a + b) tile by tile as a graph of tasks, and compares the\n"
    "result with that of a plain loop. The other examples: ./dev run hello, interrupt, overlap.\n";

static int64_t parse_number(const char *option, const char *text, int64_t most)
{
    char *end = NULL;
    errno = 0;
    const long long value = text ? strtoll(text, &end, 10) : 0;
    if (!text || end == text || *end || errno || value < 1 || value > most) {
        fprintf(stderr, "vector: %s takes a number from 1 to %lld, not '%s'\n\n%s", option,
                (long long)most, text ? text : "", usage);
        exit(2);
    }
    return value;
}

static options parse(int argc, char **argv)
{
    options o = {.elements = 4194304, .tile = 16384, .ahead = 16};
    for (int i = 1; i < argc; i += 2) {
        const char *option = argv[i], *value = argv[i + 1];
        if (!strcmp(option, "--help") || !strcmp(option, "-h")) {
            fputs(usage, stdout);
            exit(0);
        }
        if (!strcmp(option, "--elements")) {
            o.elements = parse_number(option, value, INT64_C(1) << 32);
        } else if (!strcmp(option, "--tile")) {
            o.tile = parse_number(option, value, INT64_C(1) << 32);
        } else if (!strcmp(option, "--ahead")) {
            o.ahead = parse_number(option, value, 4096);
        } else if (!strcmp(option, "--workers")) {
            o.workers = parse_number(option, value, PTO_MAX_WORKERS);
        } else {
            fprintf(stderr, "vector: unknown option '%s'\n\n%s", option, usage);
            exit(2);
        }
    }
    return o;
}

static double now_ms(void)
{
    struct timespec ts;
    timespec_get(&ts, TIME_UTC);
    return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

/* Small whole numbers, so that every result is exact and can be compared with ==. */
static void fill(float *a, float *b, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        a[i] = (float)(i % 1009);
        b[i] = (float)(i % 997);
        y[i] = -1;
    }
}

static int64_t count_wrong(const float *a, const float *b, const float *y, int64_t n)
{
    int64_t wrong = 0;
    for (int64_t i = 0; i < n; i++) {
        const float sum = a[i] + b[i];
        wrong += y[i] != (sum + 1) * (sum + 2) + sum;
    }
    return wrong;
}

static pto_status print_statistics(const pto_runtime *rt, const options *o, double ms)
{
    pto_runtime_stats s;
    uint64_t most = 0;
    PTO_TRY(pto_stats(rt, &s));
    for (uint32_t l = 0; l < s.levels; l++) {
        most += s.level[l].heap_peak;
    }
    const long long tiles = (o->elements + o->tile - 1) / o->tile;
    printf("%lld elements in %lld tiles of %lld\n", (long long)o->elements, tiles,
           (long long)o->tile);
    printf("tasks    %llu, of which this thread ran %llu while it waited, and workers the rest\n",
           (unsigned long long)s.completed, (unsigned long long)s.helped);
    printf("edges    %llu read after write, %llu write after read, %llu write after write\n",
           (unsigned long long)s.raw, (unsigned long long)s.war, (unsigned long long)s.waw);
    printf("memory   %.1f MB of temporaries in a ring that held %.1f MB at most\n",
           (double)o->elements * 16 / 1e6, (double)most / 1e6);
    printf("time     %.1f ms\n", ms);
    return PTO_OK;
}

static pto_status run(const options *o, float *memory, int64_t *wrong)
{
    float *a = memory, *b = a + o->elements, *y = b + o->elements;
    pto_config config = PTO_CONFIG_INIT;
    pto_runtime *rt;
    kernels k;
    pto_tensor ta, tb, ty;
    config.workers = (uint32_t)o->workers;
    /* Four temporaries a tile. A ring that is small stays in the cache, and bounds how far submitting
     * may run ahead of computing. */
    config.heap_bytes = (uint64_t)o->ahead * 4 * (((uint64_t)o->tile * sizeof(float) + 63) & ~63u);
    fill(a, b, y, o->elements);
    PTO_TRY(pto_runtime_create(&rt, &config));
    const double start = now_ms();
    pto_status status = register_kernels(rt, &k);
    if (!status && !(status = pto_external_tensor(rt, a, PTO_FLOAT32, 1, &o->elements, &ta)) &&
        !(status = pto_external_tensor(rt, b, PTO_FLOAT32, 1, &o->elements, &tb)) &&
        !(status = pto_external_tensor(rt, y, PTO_FLOAT32, 1, &o->elements, &ty)) &&
        !(status = orchestrate(rt, &k, &ta, &tb, &ty, o->tile))) {
        status = print_statistics(rt, o, now_ms() - start);
        *wrong = count_wrong(a, b, y, o->elements);
    }
    /* The words of the failure, if there was one, survive: destroying what failed is no failure. */
    const pto_status ended = pto_runtime_destroy(&rt, PTO_CANCEL);
    return status ? status : ended;
}

int main(int argc, char **argv)
{
    const options o = parse(argc, argv);
    int64_t wrong = o.elements;
    float *memory = malloc((size_t)o.elements * 3 * sizeof *memory);
    if (!memory) {
        fprintf(stderr, "vector: no memory for 3 x %lld elements\n", (long long)o.elements);
        return 1;
    }
    const pto_status status = run(&o, memory, &wrong);
    free(memory);
    if (status != PTO_OK) {
        fprintf(stderr, "vector: %s: %s\n  hint: %s\n", pto_status_text(status), pto_error_detail(),
                pto_status_hint(status));
        return 1;
    }
    if (wrong) {
        printf("result   WRONG: %lld elements differ from those of a plain loop\n",
               (long long)wrong);
        return 1;
    }
    printf("result   right: every element is that of a plain loop\n");
    return 0;
}
