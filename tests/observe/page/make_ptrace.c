/* make_ptrace.c - writes a .ptrace file of a run that never was: a program is laid out, and a small
 * simulation runs it on so many workers. For the tests of the timeline page, which need files of
 * any size, the same on every machine.
 *
 *     make_ptrace cholesky TILES WORKERS OUT     (TILES^3 / 6 tasks: 182 for a million)
 *     make_ptrace layers LAYERS WORKERS OUT      (14 kernels, a failure and what it poisons, waits
 *                                                 for room, tasks that ran inline, labels, ranges;
 *                                                 more workers than cores)
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX
#define UNKNOWN UINT64_MAX

typedef struct task_record {
    uint64_t task, called, submitted, ready, start, end, retired, blocked;
    uint32_t kernel, site, lane, first_edge, edges, first_arg;
    uint16_t args;
    uint8_t level, outcome;
    uint32_t flags; /* 1: submit ran it */
} task_record;

typedef struct edge_record {
    uint32_t from, to;
    uint8_t kind, verdict;
    uint16_t zero;
    uint32_t arg_from, arg_to;
} edge_record;

typedef struct arg_record {
    uint64_t where, bytes;
    uint32_t buffer;
    uint8_t segment, dtype, ndim, access;
    uint32_t dims, zero;
} arg_record;

typedef struct event_record {
    uint64_t begin, end;
    uint32_t lane;
    uint16_t kind, level;
    uint64_t value;
} event_record;

typedef struct ring_record {
    uint64_t at, used;
    uint32_t level, ring;
} ring_record;

typedef struct lane_record {
    uint32_t name, kind, types, zero;
    uint64_t lost;
} lane_record;

typedef struct cap_record {
    uint64_t capacity;
    uint32_t level, ring;
} cap_record;

typedef struct failure_record {
    uint32_t task, status, name, words, cause, edge;
} failure_record;

typedef struct label_record {
    uint32_t task, text;
} label_record;

typedef struct range_record {
    uint64_t begin, end;
    uint32_t name, parent, first_task, tasks;
} range_record;

_Static_assert(sizeof(task_record) == 96, "as the format says");
_Static_assert(sizeof(edge_record) == 20, "as the format says");
_Static_assert(sizeof(arg_record) == 32, "as the format says");

/* ---- Arrays that grow ------------------------------------------------------------------------ */

typedef struct array {
    char *data;
    size_t item, count, room;
} array;

static void *add(array *a)
{
    if (a->count == a->room) {
        a->room = a->room ? 2 * a->room : 1024;
        a->data = realloc(a->data, a->room * a->item);
        if (!a->data) {
            perror("make_ptrace");
            exit(1);
        }
    }
    void *at = a->data + a->count++ * a->item;
    memset(at, 0, a->item);
    return at;
}

enum {
    META = 1,
    STRINGS,
    KERNELS,
    SITES,
    LANES,
    TASKS,
    EDGES,
    ARGS,
    DIMS,
    EVENTS,
    RINGS,
    CAPS,
    LIVES,
    FAILURES,
    LABELS,
    RANGES
};

static array sections[] = {
    [META] = {.item = 1},    [STRINGS] = {.item = 1},   [KERNELS] = {.item = 8},
    [SITES] = {.item = 8},   [LANES] = {.item = 24},    [TASKS] = {.item = 96},
    [EDGES] = {.item = 20},  [ARGS] = {.item = 32},     [DIMS] = {.item = 8},
    [EVENTS] = {.item = 32}, [RINGS] = {.item = 24},    [CAPS] = {.item = 16},
    [LIVES] = {.item = 32},  [FAILURES] = {.item = 24}, [LABELS] = {.item = 8},
    [RANGES] = {.item = 32},
};

static task_record *task_at(size_t i)
{
    return (task_record *)(void *)sections[TASKS].data + i;
}

static edge_record *edge_at(size_t i)
{
    return (edge_record *)(void *)sections[EDGES].data + i;
}

static uint32_t string(const char *text)
{
    uint32_t at = (uint32_t)sections[STRINGS].count;
    do {
        *(char *)add(&sections[STRINGS]) = *text;
    } while (*text++);
    return at;
}

static void meta(const char *text)
{
    for (; *text; text++) {
        *(char *)add(&sections[META]) = *text;
    }
}

static uint64_t seed = 88172645463325252u;

static double chance(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (double)(seed >> 11) / 9007199254740992.0;
}

/* ---- The program ----------------------------------------------------------------------------- */

typedef struct tile {
    uint64_t where;
    uint32_t buffer, dims, writer, writer_arg;
    uint8_t segment, dtype, ndim;
    uint64_t bytes;
    uint32_t readers[8], reader_args[8]; /* the last few: enough for a picture */
    uint32_t reader_count;
} tile;

static array costs = {.item = sizeof(double)}; /* of each task, ns */
static array heaps = {.item = sizeof(uint64_t)};

static uint32_t kernel(const char *name, uint32_t type)
{
    uint32_t *k = add(&sections[KERNELS]);
    k[0] = string(name);
    k[1] = type;
    return (uint32_t)sections[KERNELS].count - 1;
}

static uint32_t site(uint32_t file, uint32_t line)
{
    uint32_t *s = add(&sections[SITES]);
    s[0] = file;
    s[1] = line;
    return (uint32_t)sections[SITES].count - 1;
}

static uint32_t dims(unsigned n, const int64_t *sizes, const int64_t *strides)
{
    uint32_t at = (uint32_t)sections[DIMS].count;
    for (unsigned i = 0; i < 2 * n; i++) {
        *(int64_t *)add(&sections[DIMS]) = i < n ? sizes[i] : strides[i - n];
    }
    return at;
}

static uint32_t submit(uint32_t k, uint32_t s, uint8_t level, double cost, uint64_t heap)
{
    uint32_t i = (uint32_t)sections[TASKS].count;
    task_record *t = add(&sections[TASKS]);
    t->task = ((uint64_t)i << 2) + level;
    t->kernel = k;
    t->site = s;
    t->level = level;
    t->first_edge = (uint32_t)sections[EDGES].count;
    t->first_arg = (uint32_t)sections[ARGS].count;
    *(double *)add(&costs) = cost * (0.85 + 0.3 * chance() + (chance() < 0.01 ? 1.5 : 0));
    *(uint64_t *)add(&heaps) = heap;
    return i;
}

static void link(uint32_t from, uint8_t kind, uint8_t verdict, uint32_t arg_from, uint32_t arg_to)
{
    uint32_t to = (uint32_t)sections[TASKS].count - 1;
    task_record *t = task_at(to);
    if (from == to) {
        return;
    }
    for (uint32_t e = 0; e < t->edges; e++) {
        if (edge_at(t->first_edge + e)->from == from) {
            return;
        }
    }
    *(edge_record *)add(&sections[EDGES]) = (edge_record){.from = from,
                                                          .to = to,
                                                          .kind = kind,
                                                          .verdict = verdict,
                                                          .arg_from = arg_from,
                                                          .arg_to = arg_to};
    t->edges++;
}

enum { IN = 1, OUT, INOUT, SCALAR };

static void use(tile *x, uint8_t access)
{
    uint32_t me = (uint32_t)sections[TASKS].count - 1, arg = (uint32_t)sections[ARGS].count;
    uint8_t plain = access & 127;
    *(arg_record *)add(&sections[ARGS]) = (arg_record){.where = x->where,
                                                       .bytes = x->bytes,
                                                       .buffer = x->buffer,
                                                       .segment = x->segment,
                                                       .dtype = x->dtype,
                                                       .ndim = x->ndim,
                                                       .access = access,
                                                       .dims = x->dims};
    task_at(me)->args++;
    if (access & 128) {
        return;
    }
    if (x->writer != NONE) {
        link(x->writer, plain == OUT ? 2 : 0, x->ndim == 2 ? 255 : 4, x->writer_arg, arg);
    }
    if (plain == IN) {
        x->readers[x->reader_count % 8] = me;
        x->reader_args[x->reader_count++ % 8] = arg;
        return;
    }
    for (uint32_t r = 0; r < x->reader_count && r < 8; r++) {
        link(x->readers[r], 1, 6, x->reader_args[r], arg);
    }
    x->reader_count = 0;
    x->writer = me;
    x->writer_arg = arg;
}

static void number(double value)
{
    arg_record *a = add(&sections[ARGS]);
    memcpy(&a->where, &value, sizeof value);
    a->dtype = 10;
    a->access = SCALAR;
    a->buffer = NONE;
    a->dims = NONE;
    task_at(sections[TASKS].count - 1)->args++;
}

static void label(const char *text)
{
    label_record *l = add(&sections[LABELS]);
    *l = (label_record){(uint32_t)sections[TASKS].count - 1, string(text)};
}

/* A range that begins with the next task. Its times are set when the tasks have theirs. */
static uint32_t range(const char *name, uint32_t parent)
{
    range_record *r = add(&sections[RANGES]);
    *r = (range_record){
        .name = string(name), .parent = parent, .first_task = (uint32_t)sections[TASKS].count};
    return (uint32_t)sections[RANGES].count - 1;
}

static range_record *range_at(size_t i)
{
    return (range_record *)(void *)sections[RANGES].data + i;
}

static void range_end(uint32_t i)
{
    range_at(i)->tasks = (uint32_t)sections[TASKS].count - range_at(i)->first_task;
}

static void time_ranges(void)
{
    for (size_t i = 0; i < sections[RANGES].count; i++) {
        range_record *r = range_at(i);
        r->begin = task_at(r->first_task)->called;
        r->end = task_at(r->first_task + r->tasks - 1)->submitted;
    }
}

static tile *tiles(size_t count, uint64_t base, uint32_t buffer, uint8_t segment, uint8_t dtype,
                   uint8_t ndim, uint32_t d, uint64_t bytes)
{
    tile *t = calloc(count, sizeof *t);
    if (!t) {
        perror("make_ptrace");
        exit(1);
    }
    for (size_t i = 0; i < count; i++) {
        t[i] = (tile){.where = base + i * bytes,
                      .buffer = buffer,
                      .dims = d,
                      .writer = NONE,
                      .segment = segment,
                      .dtype = dtype,
                      .ndim = ndim,
                      .bytes = bytes};
    }
    return t;
}

static void cholesky(uint32_t n)
{
    uint32_t file = string("examples/workloads/cholesky.c");
    uint32_t potrf = kernel("potrf", 2), trsm = kernel("trsm", 0);
    uint32_t syrk = kernel("syrk", 0), gemm = kernel("gemm", 0);
    uint32_t at[] = {site(file, 214), site(file, 219), site(file, 225), site(file, 230)};
    uint32_t d = dims(2, (int64_t[]){64, 64}, (int64_t[]){64 * n, 1});
    const uint64_t base = UINT64_C(0x7f3a40000000), row = UINT64_C(64) * n * 8;
    tile *a = tiles((size_t)n * n, base, 0, 255, 10, 2, d, row * 64 * n);
    for (uint32_t i = 0; i < n * n; i++) {
        a[i].where = base + i / n * 64 * row + i % n * UINT64_C(64) * 8;
    }
    for (uint32_t k = 0; k < n; k++) {
        submit(potrf, at[0], 0, 11e3, 0);
        use(&a[k * n + k], INOUT);
        for (uint32_t i = k + 1; i < n; i++) {
            submit(trsm, at[1], 0, 14e3, 0);
            use(&a[k * n + k], IN);
            use(&a[i * n + k], INOUT);
        }
        for (uint32_t i = k + 1; i < n; i++) {
            submit(syrk, at[2], 0, 15e3, 0);
            use(&a[i * n + k], IN);
            use(&a[i * n + i], INOUT);
            for (uint32_t j = k + 1; j < i; j++) {
                submit(gemm, at[3], 0, 26e3, 0);
                use(&a[i * n + k], IN);
                use(&a[j * n + k], IN);
                use(&a[i * n + j], INOUT);
            }
        }
    }
    free(a);
}

/* One kernel fails, and what read from it is skipped. */
static void fail(size_t failed)
{
    task_at(failed)->outcome = 1;
    failure_record *f = add(&sections[FAILURES]);
    *f = (failure_record){.task = (uint32_t)failed,
                          .status = 24,
                          .name = string("PTO_KERNEL_FAILED"),
                          .words = string("row 7: the norm is not a number\n<b>x[7] = nan</b>"),
                          .cause = (uint32_t)failed,
                          .edge = NONE};
    for (size_t i = failed + 1; i < sections[TASKS].count; i++) {
        task_record *t = task_at(i);
        for (uint32_t j = 0; j < t->edges && !t->outcome; j++) {
            const edge_record *edge = edge_at(t->first_edge + j);
            uint8_t before = task_at(edge->from)->outcome;
            if ((before == 1 || before == 2) && (edge->kind == 0 || edge->kind == 3)) {
                t->outcome = 2;
                *((double *)(void *)costs.data + i) = 0;
                f = add(&sections[FAILURES]);
                *f = (failure_record){
                    .task = (uint32_t)i, .cause = (uint32_t)failed, .edge = t->first_edge + j};
            }
        }
    }
}

static void layers(uint32_t n)
{
    static const struct {
        const char *name;
        uint32_t type;
        double cost;
    } list[] = {{"rms_norm", 1, 9e3},   {"qkv", 0, 60e3},        {"rope", 1, 7e3},
                {"attention", 0, 45e3}, {"merge_heads", 3, 5e3}, {"project", 0, 40e3},
                {"residual", 1, 6e3},   {"route", 2, 4e3},       {"gate", 0, 50e3},
                {"up", 0, 50e3},        {"silu_mul", 1, 8e3},    {"down", 0, 55e3},
                {"combine", 1, 8e3},    {"sample", 2, 20e3}};
    enum {
        NORM,
        QKV,
        ROPE,
        ATTENTION,
        MERGE,
        PROJECT,
        RESIDUAL,
        ROUTE,
        GATE,
        UP,
        SILU,
        DOWN,
        COMBINE,
        SAMPLE,
        KINDS,
        HEADS = 8,
        EXPERTS = 4
    };
    uint32_t file = string("examples/workloads/decode.c"), k[KINDS], at[KINDS];
    for (uint32_t i = 0; i < KINDS; i++) {
        k[i] = kernel(list[i].name, list[i].type);
        at[i] = site(file, 120 + 7 * i);
    }
    uint32_t row = dims(2, (int64_t[]){16, 512}, (int64_t[]){512, 1});
    uint32_t part = dims(3, (int64_t[]){16, 1, 64}, (int64_t[]){512, 64, 1});
    tile *x = tiles(1, UINT64_C(0x7f11c0000000), 0, 255, 1, 2, row, 32768);
    tile *h = tiles(4, 0, 10, 1, 1, 2, row, 32768);
    tile *q = tiles(HEADS, 131072, 2, 1, 1, 3, part, 32768);
    tile *cache = tiles(HEADS, UINT64_C(0x7f22d0000000), 0, 255, 7, 3, part, 1u << 20);
    tile *e = tiles(3 * EXPERTS, 262144, 20, 1, 1, 2, row, 32768);
    for (uint32_t i = 0; i < 3 * EXPERTS; i++) { /* a buffer each; the heads are columns of one */
        h[i % 4].buffer = 10 + i % 4;
        e[i].buffer = 20 + i;
        q[i % HEADS].where = 131072 + i % HEADS * UINT64_C(64) * 4;
    }
#define SUBMIT(kind, heap) submit(k[kind], at[kind], 1, list[kind].cost, heap)
    char text[64];
    for (uint32_t l = 0; l < n; l++) {
        snprintf(text, sizeof text, "layer %" PRIu32, l);
        uint32_t layer = range(text, NONE);
        SUBMIT(NORM, 32768), use(x, IN), use(&h[0], OUT), number(1e-5);
        SUBMIT(QKV, 98304), use(&h[0], IN);
        for (uint32_t i = 0; i < HEADS; i++) {
            use(&q[i], OUT);
        }
        for (uint32_t i = 0; i < HEADS; i++) {
            SUBMIT(ROPE, 4096), use(&q[i], INOUT), number(l);
            SUBMIT(ATTENTION, 8192), use(&q[i], INOUT), use(&cache[i], i == 3 ? IN + 128 : IN);
            snprintf(text, sizeof text, "heads[%" PRIu32 ", %" PRIu32 "]", l, i);
            label(text);
        }
        SUBMIT(MERGE, 32768);
        for (uint32_t i = 0; i < HEADS; i++) {
            use(&q[i], IN);
        }
        use(&h[1], OUT);
        uint32_t projected = SUBMIT(PROJECT, 32768);
        use(&h[1], IN), use(&h[2], OUT);
        SUBMIT(RESIDUAL, 0), use(&h[2], IN), use(x, INOUT);
        SUBMIT(ROUTE, 1024), use(x, IN), use(&h[3], OUT);
        link(projected, 3, 255, NONE, NONE);
        uint32_t experts = range("experts", layer);
        for (uint32_t i = 0; i < EXPERTS; i++) {
            SUBMIT(GATE, 32768), use(x, IN), use(&h[3], IN), use(&e[3 * i], OUT);
            SUBMIT(UP, 32768), use(x, IN), use(&h[3], IN), use(&e[3 * i + 1], OUT);
            SUBMIT(SILU, 0), use(&e[3 * i], INOUT), use(&e[3 * i + 1], IN);
            SUBMIT(DOWN, 32768), use(&e[3 * i], IN), use(&e[3 * i + 2], OUT);
        }
        SUBMIT(COMBINE, 0);
        for (uint32_t i = 0; i < EXPERTS; i++) {
            use(&e[3 * i + 2], IN);
        }
        use(x, INOUT);
        range_end(experts);
        range_end(layer);
    }
    SUBMIT(SAMPLE, 0), use(x, IN), number(0.7);
#undef SUBMIT
    free(x), free(h), free(q), free(cache), free(e);
    size_t count = sections[TASKS].count;
    for (size_t i = 0; i < count; i++) {
        task_at(i)->flags = task_at(i)->kernel == k[ROUTE];
    }
    fail(count - count / 6);
}

/* ---- The run --------------------------------------------------------------------------------- */

typedef struct moment {
    uint64_t at;
    uint32_t task;
} moment;

typedef struct heap {
    moment *items;
    size_t count;
} heap;

static bool before(moment a, moment b)
{
    return a.at != b.at ? a.at < b.at : a.task < b.task;
}

static void push(heap *h, uint64_t at, uint32_t task)
{
    size_t i = h->count++;
    moment m = {at, task};
    for (; i && before(m, h->items[(i - 1) / 2]); i = (i - 1) / 2) {
        h->items[i] = h->items[(i - 1) / 2];
    }
    h->items[i] = m;
}

static moment pop(heap *h)
{
    moment top = h->items[0], m = h->items[--h->count];
    size_t i = 0;
    for (size_t next; (next = 2 * i + 1) < h->count; i = next) {
        next += next + 1 < h->count && before(h->items[next + 1], h->items[next]);
        if (!before(h->items[next], m)) {
            break;
        }
        h->items[i] = h->items[next];
    }
    h->items[i] = m;
    return top;
}

static void event(uint64_t begin, uint64_t end, uint32_t lane, uint16_t kind, uint64_t value)
{
    *(event_record *)add(&sections[EVENTS]) = (event_record){
        .begin = begin, .end = end, .lane = lane, .kind = kind, .value = value};
}

static void sample(uint64_t at, uint32_t ring, uint64_t used, uint32_t level)
{
    *(ring_record *)add(&sections[RINGS]) = (ring_record){
        .at = at, .used = used, .level = level, .ring = ring};
}

/* Lane 0 submits; when it has submitted all, it waits. `slots` tasks may be on the way. */
static void run(uint32_t workers, uint32_t slots, uint64_t heap_bytes, uint32_t level)
{
    uint32_t count = (uint32_t)sections[TASKS].count, edges = (uint32_t)sections[EDGES].count;
    const double *cost = (const double *)(const void *)costs.data;
    const uint64_t *bytes = (const uint64_t *)(const void *)heaps.data;
    uint32_t *left = calloc(count + 1, 4), *first = calloc(count + 2, 4);
    uint32_t *out = calloc(edges + 1, 4);
    uint64_t *free_since = calloc(workers + 1, 8);
    heap ready = {calloc(count + 1, sizeof(moment)), 0};
    heap running = {calloc(workers + 1, sizeof(moment)), 0};
    uint8_t *on = calloc(count + 1, 1);
    if (!left || !first || !out || !free_since || !ready.items || !running.items || !on) {
        perror("make_ptrace");
        exit(1);
    }
    for (uint32_t e = 0; e < edges; e++) {
        first[edge_at(e)->from + 2]++;
    }
    for (uint32_t i = 0; i < count; i++) {
        first[i + 2] += first[i + 1];
    }
    for (uint32_t e = 0; e < edges; e++) {
        out[first[edge_at(e)->from + 1]++] = edge_at(e)->to;
    }
    uint64_t now = 40000, next_submit = now, waits_since = UNKNOWN, used = 0, live_edges = 0;
    uint64_t sampled = 0;
    uint32_t submitted = 0, retired = 0, busy = 0;
    bool for_heap = false;
    while (retired < count) {
        if (submitted < count && next_submit <= now) {
            task_record *t = task_at(submitted);
            for_heap = used + bytes[submitted] > heap_bytes;
            if (submitted - retired >= slots || for_heap) {
                waits_since = waits_since == UNKNOWN ? now : waits_since;
                next_submit = UNKNOWN;
            } else {
                t->called = waits_since == UNKNOWN ? now : waits_since;
                t->blocked = now - t->called;
                t->submitted = now + 150 + (uint64_t)(120 * chance());
                t->lane = NONE;
                t->ready = UNKNOWN;
                if (waits_since != UNKNOWN) {
                    event(waits_since, now, 0, for_heap ? 1 : 0, for_heap ? bytes[submitted] : 1);
                    waits_since = UNKNOWN;
                }
                for (uint32_t e = 0; e < t->edges; e++) {
                    /* Not ended yet: it is waited for. */
                    left[submitted] += !on[edge_at(t->first_edge + e)->from];
                }
                used += bytes[submitted];
                live_edges += t->edges;
                if (!left[submitted]) {
                    t->ready = t->submitted;
                    push(&ready, t->ready, submitted);
                }
                next_submit = t->submitted + 60;
                next_submit = submitted + 1 < count ? next_submit : UNKNOWN;
                if (submitted++ % 16 == 0) {
                    sample(t->submitted, 0, submitted - retired, level);
                    sample(t->submitted, 1, used, level);
                    sample(t->submitted, 3, live_edges, level);
                }
                continue;
            }
        }
        while (busy < workers && ready.count && ready.items[0].at <= now) {
            uint32_t i = pop(&ready).task, w = 1;
            while (free_since[w] == UNKNOWN) {
                w++;
            }
            task_record *t = task_at(i);
            t->lane = w;
            t->start = now + 90 + (uint64_t)(160 * chance());
            if (t->start - free_since[w] > 60000) {
                event(free_since[w] + 20000, t->start - 3000, w, 6, 0);
            }
            t->end = t->start + (uint64_t)cost[i];
            if (t->outcome == 2) {
                t->lane = NONE;
                t->start = t->end = now;
            }
            free_since[w] = UNKNOWN;
            busy++;
            push(&running, t->end, i);
            /* Which worker a skipped task kept is known here only. */
            left[i] = w;
        }
        uint64_t then = next_submit;
        if (running.count && running.items[0].at < then) {
            then = running.items[0].at;
        }
        if (ready.count && busy < workers && ready.items[0].at < then) {
            then = ready.items[0].at;
        }
        now = then > now ? then : now;
        while (running.count && running.items[0].at <= now) {
            uint32_t i = pop(&running).task;
            uint64_t end = task_at(i)->end;
            free_since[left[i]] = end;
            busy--;
            on[i] = 1;
            for (uint32_t o = i ? first[i] : 0; o < first[i + 1]; o++) {
                if (out[o] < submitted && !--left[out[o]]) {
                    task_at(out[o])->ready = end;
                    push(&ready, end, out[o]);
                }
            }
        }
        bool moved = false;
        for (; retired < submitted && on[retired]; retired++) {
            task_at(retired)->retired = now + 200;
            used -= bytes[retired];
            live_edges -= task_at(retired)->edges;
            moved = true;
        }
        if (moved && now - sampled > 2000) {
            sampled = now;
            sample(now + 200, 0, submitted - retired, level);
            sample(now + 200, 1, used, level);
            sample(now + 200, 3, live_edges, level);
        }
        if (moved && next_submit == UNKNOWN && submitted < count) {
            next_submit = now;
        }
    }
    uint64_t end = 0;
    for (uint32_t i = 0; i < count; i++) {
        end = task_at(i)->retired > end ? task_at(i)->retired : end;
    }
    event(task_at(count - 1)->submitted + 200, end, 0, 5, 0);
    sample(end, 0, 0, level);
    sample(end, 1, 0, level);
    sample(end, 3, 0, level);
    free(left), free(first), free(out), free(free_since), free(ready.items), free(running.items);
    free(on);
}

/* ---- The file -------------------------------------------------------------------------------- */

static bool write_file(const char *path, uint64_t lost)
{
    struct {
        char magic[8];
        uint32_t version, count;
        uint64_t sections_at, bytes, origin_ns, lost, zero[2];
    } header = {.magic = "PTOTRACE",
                .version = 1,
                .count = RANGES,
                .sections_at = 64,
                .origin_ns = UINT64_C(1767225600000000000),
                .lost = lost};
    struct {
        uint32_t kind, item_bytes;
        uint64_t at, count;
    } table[RANGES];
    uint64_t at = sizeof header + sizeof table;
    for (uint32_t i = 0; i < RANGES; i++) {
        const array *a = &sections[i + 1];
        table[i].kind = i + 1;
        table[i].item_bytes = (uint32_t)a->item;
        table[i].at = at;
        table[i].count = a->count;
        at += (a->item * a->count + 7) / 8 * 8;
    }
    header.bytes = at;
    FILE *file = fopen(path, "wb");
    bool good = file && fwrite(&header, sizeof header, 1, file) == 1 &&
                fwrite(table, sizeof table, 1, file) == 1;
    for (uint32_t i = 0; good && i < RANGES; i++) {
        const array *a = &sections[i + 1];
        size_t size = a->item * a->count, fill = (8 - size % 8) % 8;
        good = fwrite(a->data, 1, size, file) == size &&
               fwrite("\0\0\0\0\0\0\0", 1, fill, file) == fill;
    }
    good = file && !fclose(file) && good;
    if (!good) {
        perror(path);
    }
    return good;
}

int main(int count, char **words)
{
    uint32_t size = count == 5 ? (uint32_t)strtoul(words[2], NULL, 10) : 0;
    uint32_t workers = count == 5 ? (uint32_t)strtoul(words[3], NULL, 10) : 0;
    bool is_layers = count == 5 && !strcmp(words[1], "layers");
    if (!size || !workers || workers > 250 || (!is_layers && strcmp(words[1], "cholesky") != 0)) {
        fprintf(stderr, "usage: make_ptrace cholesky|layers SIZE WORKERS OUT\n");
        return 2;
    }
    string("");
    char text[300];
    snprintf(text, sizeof text,
             "program=%s\npid=4242\nversion=0.1.0\ncpu=a machine of the tests\nworkers=%" PRIu32
             "\ncores=%u\nscheduler=inline\n",
             words[1], workers, is_layers ? 4u : 8u);
    meta(text);
    for (uint32_t i = 0; i <= workers; i++) {
        snprintf(text, sizeof text, "worker %" PRIu32, i);
        *(lane_record *)add(&sections[LANES]) = (lane_record){
            .name = string(i ? text : "orchestrator"),
            .kind = i > 0,
            .types = i ? 15 : 0,
            .lost = is_layers && i == 2 ? 17 : 0};
    }
    uint32_t level = is_layers ? 1 : 0;
    uint64_t caps[][2] = {
        {0, is_layers ? 64 : 4096}, {1, is_layers ? 1u << 20 : 1u << 26}, {3, 32768}};
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
        *(cap_record *)add(&sections[CAPS]) = (cap_record){
            .capacity = caps[i][1], .level = level, .ring = (uint32_t)caps[i][0]};
    }
    if (is_layers) {
        layers(size);
    } else {
        cholesky(size);
    }
    run(workers, (uint32_t)caps[0][1], caps[1][1], level);
    time_ranges();
    return !write_file(words[4], is_layers ? 17 : 0);
}
