/* edges.c - computes the edges of a trace from the arguments of its tasks.
 *
 * The tasks go through a tensor map once more, in order of submission. It answers like the map of
 * the runtime, with one difference. The runtime drops a task as soon as it finds it complete, since
 * no later task has to wait for it. A reader of the trace wants these edges too. So here a task is
 * dropped only if it was complete before the later task was submitted, and at least REMEMBER tasks
 * lie between the two. Programs of up to REMEMBER tasks get all their edges, however fast their
 * tasks ran. Longer programs get every edge that a task could have waited for, and all edges
 * between tasks that are close. (Without a limit there may be far too many edges: in a program of a
 * thousand steps, each step that writes the tiles of a matrix depends on every earlier step that
 * read all of it.)
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <pto/pto.h>
#include <pto/tensormap.h>

#include "base/error.h"
#include "base/os.h"
#include "observe/export.h"

#define REMEMBER 16384          /* tasks */
#define MOST_ENTRIES (1u << 20) /* tracked accesses: far more than REMEMBER tasks have */

typedef struct finder {
    ptoi_built_trace *built;
    ptrace_task *tasks;
    uint64_t budget;
    pto_tensormap *map;
    uint32_t low; /* tasks before this one are dropped */

    ptrace_edge *edges; /* grows */
    uint64_t n_edges;
    size_t room;

    /* Scratch memory for one task. */
    pto_tensor *tensors;
    pto_map_param *params;
    uint32_t *args; /* which argument a parameter is */
    size_t n_params, max_params;
    pto_map_hit *hits;
    size_t max_hits;
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

/* An argument as a tensor. Its storage is exactly the bytes that it spans. */
static void as_tensor(const ptoi_ptrace *trace, const ptrace_arg *arg, pto_tensor *t)
{
    const int64_t size = (int64_t)pto_dtype_size((pto_dtype)arg->dtype);
    const int64_t *dims = trace->dims + arg->dims;
    int64_t low = 0, high = 0;
    bool empty = false;
    memset(t, 0, sizeof *t);
    t->dtype = (pto_dtype)arg->dtype;
    t->ndim = arg->ndim;
    for (int32_t d = 0; d < t->ndim; d++) {
        t->shape[d] = dims[d];
        t->strides[d] = dims[t->ndim + d];
        empty |= t->shape[d] == 0;
    }
    if (empty) {
        return; /* it has no bytes */
    }
    for (int32_t d = 0; d < t->ndim; d++) {
        const int64_t reach = t->shape[d] > 1 ? (t->shape[d] - 1) * t->strides[d] : 0;
        low += reach < 0 ? reach : 0;
        high += reach > 0 ? reach : 0;
    }
    if (arg->segment == PTRACE_USER) {
        t->storage = (void *)(uintptr_t)(arg->where + (uint64_t)(low * size));
        t->storage_bytes = (uint64_t)((high - low + 1) * size);
        t->offset = -low;
    } else { /* all views of a buffer count from the start of the same heap */
        t->owner = 1;
        t->generation = arg->buffer;
        t->offset = (int64_t)arg->where / size;
        t->storage_bytes = (uint64_t)((t->offset + high + 1) * size);
    }
}

static bool takes_part(const ptrace_arg *arg)
{
    return arg->access >= PTO_PARAM_INPUT && arg->access <= PTO_PARAM_INOUT;
}

static pto_status read_params(finder *f, const ptrace_task *task)
{
    const ptoi_ptrace *trace = &f->built->trace;
    if (task->args > f->max_params) {
        size_t room[3] = {f->max_params, f->max_params, f->max_params};
        void *tensors = grown(f->tensors, &room[0], task->args, sizeof *f->tensors);
        f->tensors = tensors ? tensors : f->tensors;
        void *params = grown(f->params, &room[1], task->args, sizeof *f->params);
        f->params = params ? params : f->params;
        void *args = grown(f->args, &room[2], task->args, sizeof *f->args);
        f->args = args ? args : f->args;
        if (!tensors || !params || !args) {
            return no_memory(task->args);
        }
        f->max_params = room[0];
    }
    f->n_params = 0;
    for (uint32_t i = task->first_arg; i < task->first_arg + task->args; i++) {
        const ptrace_arg *arg = &trace->args[i];
        if (takes_part(arg)) {
            const size_t n = f->n_params++;
            as_tensor(trace, arg, &f->tensors[n]);
            f->params[n].tensor = &f->tensors[n];
            f->params[n].access = arg->access == PTO_PARAM_INPUT ? PTO_MAP_READ : PTO_MAP_WRITE;
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
        (void)pto_tensormap_sync_validity(f->map, 0, f->low + UINT64_C(1));
    }
}

/* Submits the task to the map. Repeats with more room until all hits fit. */
static pto_status ask(finder *f, uint32_t i, size_t *n_hits)
{
    const pto_map_task task = {i + UINT64_C(1), 0};
    for (;;) {
        const pto_status status = pto_tensormap_submit(f->map, f->params, f->n_params, task,
                                                       f->hits, f->max_hits, n_hits);
        if (status == PTO_BUFFER_TOO_SMALL) {
            pto_map_hit *hits = grown(f->hits, &f->max_hits, *n_hits, sizeof *hits);
            if (!hits) {
                return no_memory(*n_hits);
            }
            f->hits = hits;
        } else if (status == PTO_FULL && f->low < i) {
            f->low += (i - f->low + 1) / 2; /* drop the older half */
            (void)pto_tensormap_sync_validity(f->map, 0, f->low + UINT64_C(1));
            (void)pto_tensormap_cleanup_retired(f->map);
        } else {
            return status;
        }
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
    as_tensor(trace, to, &mine);
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
        as_tensor(trace, arg, &other);
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

static pto_status find_of(finder *f, uint32_t i, const uint32_t *afters, uint32_t n_afters)
{
    ptrace_task *task = &f->tasks[i];
    const uint64_t first = f->n_edges;
    size_t n_hits = 0;
    PTO_TRY(read_params(f, task));
    if (f->n_params) {
        PTO_TRY(ask(f, i, &n_hits));
    }
    for (size_t h = 0; h < n_hits; h++) {
        const uint32_t arg = f->args[f->hits[h].param];
        const ptrace_edge_kind kind = kind_of(&f->built->trace.args[arg], f->hits[h].access);
        PTO_TRY(add_edge(f, (ptrace_edge){.from = (uint32_t)(f->hits[h].task.id - 1),
                                          .to = i,
                                          .kind = (uint8_t)kind,
                                          .arg_from = PTRACE_NONE,
                                          .arg_to = arg}));
    }
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
    free(f.edges);
    free(f.tensors);
    free(f.params);
    free(f.args);
    free(f.hits);
    return status;
}
