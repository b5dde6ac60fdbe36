/* edges.c - computes the edges of a trace from the arguments of its tasks.
 *
 * The tasks are gone through once more, in order of submission. A tensor map finds the writers that
 * a task has to wait for, and readers.h the readers. They answer like the map of the runtime, with
 * two differences. The runtime drops a task as soon as it finds it complete, since no later task has
 * to wait for it. A reader of the trace wants these edges too. So here a task is dropped only if it
 * was complete before the later task was submitted, and at least REMEMBER tasks lie between the two.
 * Programs of up to REMEMBER tasks get all their edges, however fast their tasks ran. And each read
 * has one WAR edge for each region that overwrites it, where the runtime may find it again and again.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <pto/pto.h>
#include <pto/tensormap.h>

#include "base/error.h"
#include "base/os.h"
#include "observe/export.h"
#include "observe/readers.h"

#define REMEMBER 16384          /* tasks */
#define MOST_ENTRIES (1u << 20) /* tracked writes: far more than REMEMBER tasks have */

typedef struct finder {
    ptoi_built_trace *built;
    ptrace_task *tasks;
    uint64_t budget;
    pto_tensormap *map;    /* of writes */
    ptoi_readers *readers; /* of everything */
    uint32_t low;          /* tasks before this one are dropped */

    ptrace_edge *edges; /* grows */
    uint64_t n_edges;
    size_t room;

    /* Scratch memory for one task. */
    pto_tensor *tensors;
    uint32_t *args; /* which argument a tensor is */
    size_t n_params, max_params;
    size_t at;         /* the tensor that a visitor is asked about, */
    uint32_t to;       /* its task, */
    pto_status status; /* and how that went */
} finder;

/* ---- Memory that grows ---- */

/* Grows an array to at least `count` items and returns its new address. NULL if there is no memory:
 * then the old array is unchanged. */
static void *grown(void *array, size_t *room, size_t count, size_t bytes)
{
    if (count <= *room) {
        return array;
    }
    const size_t more = *room * 2 > count ? *room * 2 : count;
    void *larger = realloc(array, more * bytes);
    *room = larger ? more : *room;
    return larger;
}

static pto_status no_memory(uint64_t count)
{
    return ptoi_fail(PTO_OUT_OF_MEMORY, "trace: no memory for %" PRIu64 " edges", count);
}

/* ---- Arguments as tensors ---- */

static bool takes_part(const ptrace_arg *arg)
{
    return arg->access >= PTO_PARAM_INPUT && arg->access <= PTO_PARAM_INOUT;
}

static pto_status read_params(finder *f, const ptrace_task *task)
{
    const ptoi_ptrace *trace = &f->built->trace;
    if (task->args > f->max_params) {
        size_t room[2] = {f->max_params, f->max_params};
        void *tensors = grown(f->tensors, &room[0], task->args, sizeof *f->tensors);
        f->tensors = tensors ? tensors : f->tensors;
        void *args = grown(f->args, &room[1], task->args, sizeof *f->args);
        f->args = args ? args : f->args;
        if (!tensors || !args) {
            return no_memory(task->args);
        }
        f->max_params = room[0];
    }
    f->n_params = 0;
    for (uint32_t i = task->first_arg; i < task->first_arg + task->args; i++) {
        const ptrace_arg *arg = &trace->args[i];
        if (takes_part(arg)) {
            const size_t n = f->n_params++;
            (void)ptoi_ptrace_tensor(trace, arg, &f->tensors[n]);
            f->args[n] = i;
        }
    }
    return PTO_OK;
}

/* ---- Queries ---- */

/* Drops old tasks that this task could not have waited for. */
static void forget(finder *f, uint32_t i)
{
    const uint32_t before = f->low;
    while (f->low + REMEMBER <= i && f->tasks[f->low].end <= f->tasks[i].called) {
        f->low++;
    }
    if (f->low != before) {
        PTO_IGNORE(pto_tensormap_sync_validity(f->map, 0, f->low + UINT64_C(1)));
    }
}

/* ---- Edges ---- */

/* A lower rank is a stronger reason. */
static int rank_of(ptrace_edge_kind kind)
{
    static const int ranks[] = {
        [PTRACE_RAW] = 0, [PTRACE_WAW] = 1, [PTRACE_WAR] = 2, [PTRACE_AFTER] = 3};
    return ranks[kind];
}

static pto_status add_edge(finder *f, ptrace_edge edge)
{
    ptrace_edge *edges = grown(f->edges, &f->room, f->n_edges + 1, sizeof *edges);
    if (!edges) {
        return no_memory(f->n_edges);
    }
    f->edges = edges;
    f->edges[f->n_edges++] = edge;
    return PTO_OK;
}

static int by_from(const void *a, const void *b)
{
    const ptrace_edge *x = a, *y = b;
    if (x->from != y->from) {
        return x->from < y->from ? -1 : 1;
    }
    const int ranks = rank_of(x->kind) - rank_of(y->kind);
    return ranks ? ranks : (x->arg_to > y->arg_to) - (x->arg_to < y->arg_to);
}

/* Sorts by the producer, with the strongest reason first. Mostly there are few edges. */
static void sort_edges(ptrace_edge *first, uint64_t n)
{
    if (n > 16) {
        qsort(first, n, sizeof *first, by_from);
        return;
    }
    for (uint64_t i = 1; i < n; i++) {
        const ptrace_edge edge = first[i];
        uint64_t at = i;
        for (; at && by_from(&first[at - 1], &edge) > 0; at--) {
            first[at] = first[at - 1];
        }
        first[at] = edge;
    }
}

static bool same_region(const ptoi_ptrace *trace, const ptrace_arg *a, const ptrace_arg *b)
{
    return a->where == b->where && a->segment == b->segment && a->buffer == b->buffer &&
           a->dtype == b->dtype && a->ndim == b->ndim &&
           (a->dims == b->dims || memcmp(trace->dims + a->dims, trace->dims + b->dims,
                                         (size_t)a->ndim * 2 * sizeof *trace->dims) == 0);
}

/* Finds the argument of the producer that overlaps, and how the overlap was decided. */
static void explain(const finder *f, ptrace_edge *edge)
{
    const ptoi_ptrace *trace = &f->built->trace;
    const ptrace_task *from = &f->tasks[edge->from];
    const ptrace_arg *to = &trace->args[edge->arg_to];
    pto_tensor mine, other;
    (void)ptoi_ptrace_tensor(trace, to, &mine);
    edge->verdict = PTO_STAGE_BUDGET; /* the map has found an overlap; nothing more is known yet */
    for (uint32_t i = from->first_arg; i < from->first_arg + from->args; i++) {
        const ptrace_arg *arg = &trace->args[i];
        pto_overlap_result result;
        if (!takes_part(arg) || (arg->access == PTO_PARAM_INPUT) != (edge->kind == PTRACE_WAR)) {
            continue;
        }
        if (same_region(trace, arg, to)) {
            edge->verdict = PTRACE_SAME_REGION;
            edge->arg_from = i;
            return;
        }
        (void)ptoi_ptrace_tensor(trace, arg, &other);
        if (edge->arg_from == PTRACE_NONE &&
            pto_tensor_overlaps_ex(&other, &mine, f->budget, &result) == PTO_OK && result.yes) {
            edge->verdict = (uint8_t)result.stage;
            edge->arg_from = i; /* unless a later argument is the same region */
        }
    }
}

static ptrace_edge_kind kind_of(const ptrace_arg *arg, pto_map_access met)
{
    return met == PTO_MAP_READ               ? PTRACE_WAR
           : arg->access == PTO_PARAM_OUTPUT ? PTRACE_WAW
                                             : PTRACE_RAW;
}

/* ---- Queries and records ---- */

static bool is_read(const finder *f, size_t n)
{
    return f->built->trace.args[f->args[n]].access == PTO_PARAM_INPUT;
}

static pto_status add_hit(finder *f, uint32_t from, pto_map_access met)
{
    const uint32_t arg = f->args[f->at];
    const ptrace_edge_kind kind = kind_of(&f->built->trace.args[arg], met);
    return add_edge(f, (ptrace_edge){.from = from,
                                     .to = f->to,
                                     .kind = (uint8_t)kind,
                                     .arg_from = PTRACE_NONE,
                                     .arg_to = arg});
}

static void meet_writer(void *context, const pto_map_hit *hit)
{
    finder *f = context;
    if (f->status == PTO_OK) {
        f->status = add_hit(f, (uint32_t)(hit->task.id - 1), PTO_MAP_WRITE);
    }
}

static pto_status meet_reader(void *context, uint32_t task)
{
    return add_hit(context, task, PTO_MAP_READ);
}

/* Finds all that the task has to wait for. */
static pto_status ask(finder *f, uint32_t i)
{
    f->to = i;
    f->status = PTO_OK;
    for (f->at = 0; f->at < f->n_params; f->at++) {
        const pto_tensor *t = &f->tensors[f->at];
        if (!pto_tensor_numel(t)) {
            continue;
        }
        PTO_TRY(pto_tensormap_read_deps(f->map, t, meet_writer, f));
        PTO_TRY(f->status);
        if (!is_read(f, f->at)) {
            PTO_TRY(ptoi_readers_ask(f->readers, t, f->low, meet_reader, f));
        }
    }
    return PTO_OK;
}

/* Records a write. If the map is full, the older half of the tasks is dropped. */
static pto_status record_write(finder *f, const pto_tensor *t, uint32_t i)
{
    const pto_map_task task = {i + UINT64_C(1), 0};
    pto_status status;
    while ((status = pto_tensormap_insert(f->map, t, task)) == PTO_FULL && f->low < i) {
        f->low += (i - f->low + 1) / 2;
        PTO_IGNORE(pto_tensormap_sync_validity(f->map, 0, f->low + UINT64_C(1)));
        PTO_IGNORE(pto_tensormap_cleanup_retired(f->map));
    }
    return status;
}

/* Records what the task does, its writes first. */
static pto_status record(finder *f, uint32_t i)
{
    for (size_t n = 0; n < f->n_params; n++) {
        const pto_tensor *t = &f->tensors[n];
        if (!is_read(f, n) && pto_tensor_numel(t)) {
            PTO_TRY(record_write(f, t, i));
            PTO_TRY(ptoi_readers_add_write(f->readers, t, i));
        }
    }
    for (size_t n = 0; n < f->n_params; n++) {
        if (is_read(f, n) && pto_tensor_numel(&f->tensors[n])) {
            PTO_TRY(ptoi_readers_add_read(f->readers, &f->tensors[n], i));
        }
    }
    return PTO_OK;
}

static pto_status find_of(finder *f, uint32_t i, const uint32_t *afters, uint32_t n_afters)
{
    ptrace_task *task = &f->tasks[i];
    const uint64_t first = f->n_edges;
    PTO_TRY(read_params(f, task));
    PTO_TRY(ask(f, i));
    PTO_TRY(record(f, i));
    for (uint32_t a = 0; a < n_afters; a++) {
        PTO_TRY(add_edge(f, (ptrace_edge){afters[a], i, PTRACE_AFTER, PTRACE_SAME_REGION, 0,
                                          PTRACE_NONE, PTRACE_NONE}));
    }
    sort_edges(f->edges + first, f->n_edges - first);
    uint64_t kept = first; /* keep one edge for each pair of tasks */
    for (uint64_t e = first; e < f->n_edges; e++) {
        if (kept > first && f->edges[kept - 1].from == f->edges[e].from &&
            f->edges[e].from != PTRACE_NONE) {
            continue;
        }
        f->edges[kept] = f->edges[e];
        if (f->edges[kept].kind != PTRACE_AFTER) {
            explain(f, &f->edges[kept]);
        }
        kept++;
    }
    f->n_edges = kept;
    if (kept > PTRACE_NONE) {
        return ptoi_fail(PTO_OVERFLOW, "trace: more than %" PRIu32 " edges: lower trace_limit",
                         PTRACE_NONE);
    }
    task->first_edge = (uint32_t)first;
    task->edges = (uint32_t)(kept - first);
    return PTO_OK;
}

/* ---- All ---- */

static pto_status find_all(finder *f, uint32_t n_tasks, const ptoi_afters *afters)
{
    pto_tensormap_config config = PTO_TENSORMAP_CONFIG_INIT;
    const uint64_t n_args = f->built->trace.n_args;
    config.levels = 1;
    config.entries = n_args < MOST_ENTRIES ? (uint32_t)n_args + 1 : MOST_ENTRIES;
    config.overlap_budget = f->budget;
    PTO_TRY(pto_tensormap_init(&f->map, &config));
    PTO_TRY(ptoi_readers_create(&f->readers, n_args, f->budget));
    const uint32_t *after = afters->from;
    for (uint32_t i = 0; i < n_tasks; i++) {
        forget(f, i);
        PTO_TRY(find_of(f, i, after, afters->n[i]));
        after += afters->n[i];
    }
    return PTO_OK;
}

pto_status ptoi_edges_find(ptoi_built_trace *built, ptrace_task *tasks, const ptoi_afters *afters,
                           uint64_t budget)
{
    finder f = {.built = built, .tasks = tasks, .budget = budget};
    pto_status status = find_all(&f, (uint32_t)built->trace.n_tasks, afters);
    if (status == PTO_OK) {
        ptrace_edge *edges = ptoi_built_memory(built, f.n_edges * sizeof *edges);
        if (edges && f.n_edges) {
            memcpy(edges, f.edges, f.n_edges * sizeof *edges);
        }
        status = edges ? PTO_OK : no_memory(f.n_edges);
        built->trace.edges = edges;
        built->trace.n_edges = f.n_edges;
    }
    pto_tensormap_destroy(&f.map);
    ptoi_readers_free(f.readers);
    free(f.edges);
    free(f.tensors);
    free(f.args);
    return status;
}
