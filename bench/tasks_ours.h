/* tasks_ours.h - the programs of tasks_patterns.h on our runtime, or serially: then each task runs
 * when it is submitted, and the runtime must leave the same memory. */
#ifndef PTO_TASKS_OURS_H
#define PTO_TASKS_OURS_H

#include <pto/process.h>
#include <stdbool.h>
#include <stdint.h>

#include "bench.h"

/* The runtime whose shared memory tiles are made in, which then lives as long as the runtime. NULL:
 * ordinary memory. */
static pto_runtime *tiles_of;

static inline void *tiles_memory(size_t bytes)
{
    void *memory = NULL;
    if (tiles_of) {
        return pto_shared_alloc(tiles_of, bytes, &memory) == PTO_OK ? memory : NULL;
    }
    return aligned_alloc(64, bytes);
}

static inline void tiles_free(void *memory)
{
    if (!tiles_of) {
        free(memory);
    }
}

#define DATA_MEMORY tiles_memory
#define DATA_FREE tiles_free

typedef pto_tensor tile;
typedef struct sink sink;

#include "tasks_patterns.h"

typedef enum body { EMPTY, MIX, SPIN } body;

struct sink {
    pto_runtime *rt; /* NULL: the serial program, whose bodies mix */
    body does;
    uint64_t *numbers; /* for kernels: each kind, then the length of a SPIN body. Shared memory */
    uint64_t tasks;    /* so far; a MIX body gets the number of its task */
    pto_tensor fresh;  /* the managed tile; without a runtime it is in fresh_memory */
    uint64_t fresh_memory[TILE * TILE];
    pto_kernel kernels[KINDS];
};

static void must(pto_status status)
{
    if (status != PTO_OK) {
        fprintf(stderr, "bench_tasks: %s: %s\n", pto_status_name(status), pto_error_detail());
        exit(2);
    }
}

/* ---- Tiles ---------------------------------------------------------------------------------- */

static pto_tensor dense_tile(uint64_t *memory)
{
    pto_tensor t;
    must(pto_tensor_init(&t, memory, TILE * TILE * sizeof *memory, PTO_UINT64, 2,
                         (int64_t[]){TILE, TILE}, NULL, 0));
    return t;
}

static void tile_make(tile *t, const data *d, size_t index)
{
    if (!d->side) {
        *t = dense_tile(tile_memory(d, index));
        return;
    }
    const int64_t i = (int64_t)index;
    pto_tensor matrix;
    must(pto_tensor_init(&matrix, d->memory, d->bytes, PTO_UINT64, 2, (int64_t[]){d->row, d->row},
                         NULL, 0));
    must(pto_tensor_view(&matrix, (int64_t[]){i / d->side * TILE, i % d->side * TILE},
                         (int64_t[]){TILE, TILE}, t));
}

static void tile_free(tile *t)
{
    (void)t;
}

/* ---- Kernels -------------------------------------------------------------------------------- */

static pto_status kernel_empty(const pto_call *call)
{
    (void)call;
    return PTO_OK;
}

static pto_status kernel_mix(const pto_call *call)
{
    uint64_t *tiles[MAX_READS + 1];
    const uint32_t reads = call->n_args - 2;
    for (uint32_t i = 0; i <= reads; i++) {
        tiles[i] = call->args[i].data;
    }
    body_mix((kind) * (const uint64_t *)call->user, call->args[reads + 1].u64, tiles, reads,
             call->args[0].strides[0]);
    return PTO_OK;
}

static pto_status kernel_spin(const pto_call *call)
{
    body_spin(*(const uint64_t *)call->user);
    return PTO_OK;
}

/* ---- The sink ------------------------------------------------------------------------------- */

static void sink_init(sink *s, pto_runtime *rt, body does)
{
    static pto_status (*const functions[])(const pto_call *) = {
        [EMPTY] = kernel_empty, [MIX] = kernel_mix, [SPIN] = kernel_spin};
    void *numbers = NULL;
    *s = (sink){.rt = rt, .does = does};
    if (!rt) {
        return;
    }
    must(pto_shared_alloc(rt, (KINDS + 1) * sizeof *s->numbers, &numbers));
    s->numbers = numbers;
    for (int k = 0; k < KINDS; k++) {
        s->numbers[k] = (uint64_t)k;
        must(pto_kernel_register(rt, kinds[k].name, PTO_AI_CPU, functions[does],
                                 &s->numbers[does == SPIN ? KINDS : k], &s->kernels[k]));
    }
}

/* The serial program: resolve and call. */
static void run_now(kind which, const pto_param *params, size_t n, uint64_t number)
{
    uint64_t *tiles[MAX_READS + 1];
    for (size_t i = 0; i < n; i++) {
        tiles[i] = (uint64_t *)params[i].tensor->storage + params[i].tensor->offset;
    }
    body_mix(which, number, tiles, n - 1, params[0].tensor->strides[0]);
}

/* `params` has room for one more. */
INLINE void submit(sink *s, kind which, pto_param *params, size_t n)
{
    const uint64_t number = s->tasks++;
    if (!s->rt) {
        run_now(which, params, n, number);
        return;
    }
    if (s->does == MIX) {
        params[n++] = pto_scalar_u64(number);
    }
    must(pto_submit_task(s->rt, s->kernels[which], PTO_KERNEL_TYPE, params, n, NULL));
}

INLINE pto_param written(kind which, tile *w)
{
    return kinds[which].updates ? pto_inout(w) : pto_output(w);
}

INLINE void task0(sink *s, kind which, tile *w)
{
    submit(s, which, (pto_param[2]){written(which, w)}, 1);
}

INLINE void task1(sink *s, kind which, tile *a, tile *w)
{
    submit(s, which, (pto_param[3]){pto_input(a), written(which, w)}, 2);
}

INLINE void task2(sink *s, kind which, tile *a, tile *b, tile *w)
{
    submit(s, which, (pto_param[4]){pto_input(a), pto_input(b), written(which, w)}, 3);
}

INLINE void task3(sink *s, kind which, tile *a, tile *b, tile *c, tile *w)
{
    submit(s, which, (pto_param[5]){pto_input(a), pto_input(b), pto_input(c), written(which, w)},
           4);
}

INLINE tile *fresh_begin(sink *s, uint64_t n)
{
    (void)n;
    if (s->rt) {
        must(pto_scope_begin_ex(s->rt, PTO_SCOPE_BOUNDARY));
        must(pto_temp(s->rt, PTO_UINT64, 2, (int64_t[]){TILE, TILE}, &s->fresh));
    } else {
        s->fresh = dense_tile(s->fresh_memory);
    }
    return &s->fresh;
}

INLINE void fresh_end(sink *s)
{
    if (s->rt) {
        must(pto_scope_end(s->rt));
    }
}

/* ---- Runs ----------------------------------------------------------------------------------- */

/* Ours, three times: with the scheduler inline, which is the default; with the scheduler on its own
 * thread; and inline again, with every task offloaded (no inline execution: PTO_INLINE_NS=none). */
enum { OFFLOADED = 2, PROCESS, PLACES };
static const char *const place_names[PLACES] = {"inline", "thread", "offloaded", "process"};
static const pto_place places[PLACES] = {PTO_PLACE_INLINE, PTO_PLACE_THREAD, PTO_PLACE_INLINE,
                                         PTO_PLACE_PROCESS};
static const uint32_t place_inline_ns[PLACES] = {0, 0, PTO_NO_INLINE, PTO_NO_INLINE};

static inline pto_runtime *runtime_make(int place, uint32_t inline_ns)
{
    pto_config config = PTO_CONFIG_INIT;
    pto_runtime *rt;
    config.place = places[place];
    config.inline_ns = inline_ns;
    must(pto_runtime_create(&rt, &config));
    tiles_of = place == PROCESS ? rt : NULL;
    return rt;
}

/* Nanoseconds from the first submit until all tasks are complete. Callgrind counts only this
 * function. */
static __attribute__((noinline, unused)) double timed(const pattern *p, sink *s, const data *d,
                                                      uint64_t tasks)
{
    const double start = bench_now_ns();
    p->run(s, d, tasks);
    must(pto_wait(s->rt));
    return bench_now_ns() - start;
}

/* The memory that the serial program leaves. */
static inline data serial_data(const pattern *p, uint64_t tasks)
{
    sink s;
    data d = p->make(tasks);
    sink_init(&s, NULL, MIX);
    p->run(&s, &d, tasks);
    return d;
}

#endif /* PTO_TASKS_OURS_H */
