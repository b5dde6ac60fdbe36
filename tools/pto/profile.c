/* profile.c - see profile.h.
 *
 * During the run each thread writes only its own data: the orchestrating thread the tasks, their
 * edges, the map and the table of handles, each worker its calls. They are combined at the end,
 * when no task runs.
 *
 *     tasks   0          1          2          3            in submission order
 *     edges   |          | 0        | 0        | 1 2        the producers of each task
 *     calls   of worker 0: (1, begin, end) ...  of worker 1: (0, begin, end) ...
 */
#include "profile.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "window/window.h"

typedef struct task {
    pto_task number;
    uint64_t edges_end; /* its edges end here; they start where those of the previous task end */
    uint32_t kernel;
    uint32_t before; /* previous task on the longest chain that ends here; NOBODY: none */
    uint64_t time;   /* time in the kernel */
    uint64_t path;   /* length of the longest chain that ends here, including this task */
} task;

typedef struct call {
    pto_task number;
    uint64_t begin, end;
} call;

/* Calls of one worker, at least a cache line apart from the next worker. */
typedef struct worker {
    call *calls;
    size_t n, room;
    bool failed;
    char apart[128 - sizeof(call *) - 2 * sizeof(size_t) - sizeof(bool)];
} worker;

enum { NOBODY = UINT32_MAX, TASKS_MOST = UINT32_MAX - 1 };

struct profile {
    task *tasks;
    size_t n_tasks, task_room;
    uint32_t *edges;
    size_t n_edges, edge_room;
    uint32_t *table; /* from handle to index in `tasks`, plus 1; open addressing */
    size_t table_mask;

    pto_tensormap *map; /* task k + 1 of the map is tasks[k] */
    pto_map_param *accesses;
    size_t access_room;
    pto_map_hit *hits;
    size_t hit_room;

    profile_kernel *kernels;
    size_t n_kernels, kernel_room;
    uint64_t busy[PTOI_LINES];
    worker workers[PTOI_LINES]; /* by the number that a watcher gets: workers of devices, too */

    pto_status status; /* the first failure on the orchestrating thread, and its message */
    char words[200];
};

static uint64_t now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

/* Makes room for `n` elements. Grows by at least a factor of two. */
static pto_status grow(void *array, size_t *room, size_t n, size_t size)
{
    void *old;
    memcpy(&old, array, sizeof old);
    if (n <= *room) {
        return PTO_OK;
    }
    const size_t more = n > 2 * *room ? n : 2 * *room;
    void *grown = realloc(old, more * size);
    if (!grown) {
        return pto_fail(PTO_OUT_OF_MEMORY, "profile: no memory for %zu x %zu bytes", more, size);
    }
    memcpy(array, &grown, sizeof grown);
    *room = more;
    return PTO_OK; /* cppcheck-suppress memleak ; `array` has it now */
}

/* ---- From handle to index ------------------------------------------------------------------ */

static uint32_t *find_in(uint32_t *table, size_t mask, const task *tasks, pto_task number)
{
    size_t at = (size_t)((number * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & mask;
    while (table[at] && tasks[table[at] - 1].number != number) {
        at = (at + 1) & mask;
    }
    return &table[at];
}

static task *find_task(const profile *p, pto_task number)
{
    const uint32_t *entry = find_in(p->table, p->table_mask, p->tasks, number);
    return *entry ? &p->tasks[*entry - 1] : NULL;
}

/* Adds a task to the table, which stays at most half full. */
static pto_status remember(profile *p, size_t place)
{
    if (2 * (place + 1) > p->table_mask) {
        const size_t mask = 2 * p->table_mask + 1;
        uint32_t *table = calloc(mask + 1, sizeof *table);
        if (!table) {
            return pto_fail(PTO_OUT_OF_MEMORY, "profile: no memory for a table of %zu", mask + 1);
        }
        for (size_t i = 0; i < place; i++) {
            *find_in(table, mask, p->tasks, p->tasks[i].number) = (uint32_t)i + 1;
        }
        free(p->table);
        p->table = table;
        p->table_mask = mask;
    }
    *find_in(p->table, p->table_mask, p->tasks, p->tasks[place].number) = (uint32_t)place + 1;
    return PTO_OK;
}

/* ---- Watching ------------------------------------------------------------------------------ */

static pto_status find_kernel(profile *p, const char *name, uint32_t *kernel)
{
    size_t i = 0;
    while (i < p->n_kernels && strcmp(p->kernels[i].name, name) != 0) {
        i++;
    }
    if (i == p->n_kernels) {
        PTO_TRY(grow(&p->kernels, &p->kernel_room, i + 1, sizeof *p->kernels));
        p->kernels[p->n_kernels++] = (profile_kernel){.name = name, .least = UINT64_MAX};
    }
    *kernel = (uint32_t)i;
    return PTO_OK;
}

static pto_status add_edge(profile *p, size_t to)
{
    PTO_TRY(grow(&p->edges, &p->edge_room, p->n_edges + 1, sizeof *p->edges));
    p->edges[p->n_edges++] = (uint32_t)to;
    return PTO_OK;
}

static pto_status add_after(profile *p, pto_task number)
{
    const task *before = find_task(p, number);
    /* An unknown handle is not a task of this run: it is a pto_alloc, or older. */
    return before ? add_edge(p, (size_t)(before - p->tasks)) : PTO_OK;
}

static pto_status add_task(profile *p, pto_task number, const char *name, const pto_param *params,
                           size_t n_params)
{
    const size_t place = p->n_tasks;
    size_t n_accesses = 0, n_hits = 0;
    if (place >= TASKS_MOST) {
        return pto_fail(PTO_FULL, "profile: more than %" PRIu32 " tasks", (uint32_t)TASKS_MOST);
    }
    PTO_TRY(grow(&p->tasks, &p->task_room, place + 1, sizeof *p->tasks));
    PTO_TRY(grow(&p->accesses, &p->access_room, n_params, sizeof *p->accesses));
    p->tasks[place] = (task){.number = number, .before = NOBODY};
    PTO_TRY(find_kernel(p, name, &p->tasks[place].kernel));
    PTO_TRY(remember(p, place));
    for (size_t i = 0; i < n_params; i++) {
        const pto_param *param = &params[i];
        if (param->kind == PTO_PARAM_AFTER) {
            PTO_TRY(add_after(p, param->task));
        } else if (param->kind != PTO_PARAM_SCALAR && !param->nodep) {
            p->accesses[n_accesses++] = (pto_map_param){
                param->tensor, param->kind == PTO_PARAM_INPUT ? PTO_MAP_READ : PTO_MAP_WRITE};
        }
    }
    const pto_map_task self = {.id = place + 1};
    pto_status status = pto_tensormap_submit(p->map, p->accesses, n_accesses, self, p->hits,
                                             p->hit_room, &n_hits);
    if (status == PTO_BUFFER_TOO_SMALL) {
        PTO_TRY(grow(&p->hits, &p->hit_room, n_hits, sizeof *p->hits));
        status = pto_tensormap_submit(p->map, p->accesses, n_accesses, self, p->hits, p->hit_room,
                                      &n_hits);
    }
    PTO_TRY(status);
    for (size_t i = 0; i < n_hits; i++) {
        PTO_TRY(add_edge(p, (size_t)p->hits[i].task.id - 1));
    }
    p->tasks[place].edges_end = p->n_edges;
    p->n_tasks++;
    return PTO_OK;
}

static void submitted(void *user, pto_task number, const char *kernel, const pto_param *params,
                      size_t n_params)
{
    profile *p = user;
    if (p->status == PTO_OK) {
        p->status = add_task(p, number, kernel, params, n_params);
        if (p->status != PTO_OK) {
            snprintf(p->words, sizeof p->words, "%s", pto_error_detail());
        }
    }
}

static call *next_call(profile *p, uint32_t who)
{
    worker *w = &p->workers[who];
    if (w->failed || grow(&w->calls, &w->room, w->n + 1, sizeof *w->calls) != PTO_OK) {
        w->failed = true;
        return NULL;
    }
    return &w->calls[w->n];
}

/* A worker runs one kernel at a time. The start is stored in the next free call, which the end
 * completes. */
static void started(void *user, pto_task number, uint32_t who)
{
    call *c = next_call(user, who);
    if (c) {
        *c = (call){.number = number, .begin = now()};
    }
}

static void ended(void *user, pto_task number, uint32_t who, pto_status status)
{
    const uint64_t end = now();
    profile *p = user;
    worker *w = &p->workers[who];
    (void)status;
    if (!w->failed && w->room > w->n && w->calls[w->n].number == number) {
        w->calls[w->n++].end = end;
    }
}

void profile_add(profile *p, uint32_t who, pto_task number, uint64_t begin, uint64_t end)
{
    call *c = next_call(p, who);
    if (c) {
        *c = (call){number, begin, end};
        p->workers[who].n++;
    }
}

pto_watcher profile_watcher(profile *p)
{
    return (pto_watcher){.size = sizeof(pto_watcher),
                         .user = p,
                         .submitted = submitted,
                         .started = started,
                         .ended = ended};
}

/* ---- The end ------------------------------------------------------------------------------- */

static pto_status add_calls(profile *p, uint32_t who, profile_report *r)
{
    const worker *w = &p->workers[who];
    if (w->failed) {
        return pto_fail(PTO_OUT_OF_MEMORY, "profile: no memory for the calls of worker %u", who);
    }
    for (size_t i = 0; i < w->n; i++) {
        const uint64_t time = w->calls[i].end - w->calls[i].begin;
        task *t = find_task(p, w->calls[i].number);
        if (!t) {
            return pto_fail(PTO_CORRUPT, "profile: task %" PRIu64 " ran and was never submitted",
                            w->calls[i].number);
        }
        t->time = time;
        p->busy[who] += time;
        profile_kernel *k = &p->kernels[t->kernel];
        k->calls++;
        k->time += time;
        k->least = time < k->least ? time : k->least;
        k->longest = time > k->longest ? time : k->longest;
    }
    r->busy_total += p->busy[who];
    r->n_workers = w->n ? who + 1 : r->n_workers;
    return PTO_OK;
}

/* Edges lead only to earlier tasks, so one pass in submission order is enough. */
static void find_path(profile *p, profile_report *r)
{
    size_t last = 0;
    for (size_t i = 0, edge = 0; i < p->n_tasks; i++) {
        task *t = &p->tasks[i];
        for (; edge < t->edges_end; edge++) {
            const task *before = &p->tasks[p->edges[edge]];
            if (t->before == NOBODY || before->path > p->tasks[t->before].path) {
                t->before = p->edges[edge];
            }
        }
        t->path = t->time + (t->before == NOBODY ? 0 : p->tasks[t->before].path);
        last = t->path > p->tasks[last].path ? i : last;
    }
    r->path = p->n_tasks ? p->tasks[last].path : 0;
    for (uint32_t at = p->n_tasks ? (uint32_t)last : NOBODY; at != NOBODY;
         at = p->tasks[at].before) {
        p->kernels[p->tasks[at].kernel].on_path++;
        r->path_tasks++;
    }
}

static int more_time_first(const void *left, const void *right)
{
    const profile_kernel *a = left, *b = right;
    return a->time != b->time ? (a->time < b->time ? 1 : -1) : strcmp(a->name, b->name);
}

pto_status profile_finish(profile *p, profile_report *r)
{
    *r = (profile_report){.tasks = p->n_tasks, .edges = p->n_edges};
    if (p->status != PTO_OK) {
        return pto_fail(p->status, "%s", p->words);
    }
    for (uint32_t who = 0; who < PTOI_LINES; who++) {
        PTO_TRY(add_calls(p, who, r));
    }
    find_path(p, r);
    if (p->n_kernels) {
        qsort(p->kernels, p->n_kernels, sizeof *p->kernels, more_time_first);
    }
    r->kernels = p->kernels;
    r->n_kernels = p->n_kernels;
    r->busy = p->busy;
    return PTO_OK;
}

/* ---- Life ---------------------------------------------------------------------------------- */

pto_status profile_create(profile **made, uint64_t tasks)
{
    enum { TABLE = 1024, PER_TASK = 8, ENTRIES_LEAST = 4096, ENTRIES_MOST = 1 << 26 };
    uint64_t entries = tasks < ENTRIES_MOST / PER_TASK ? tasks * PER_TASK : ENTRIES_MOST;
    pto_tensormap_config config = PTO_TENSORMAP_CONFIG_INIT;
    profile *p = calloc(1, sizeof *p);
    *made = p;
    if (!p || !(p->table = calloc(TABLE, sizeof *p->table))) {
        profile_destroy(made);
        return pto_fail(PTO_OUT_OF_MEMORY, "profile: no memory");
    }
    p->table_mask = TABLE - 1;
    config.levels = 1;
    config.entries = entries < ENTRIES_LEAST ? ENTRIES_LEAST : (uint32_t)entries;
    const pto_status status = pto_tensormap_init(&p->map, &config);
    if (status != PTO_OK) {
        profile_destroy(made);
    }
    return status;
}

void profile_destroy(profile **made)
{
    profile *p = *made;
    if (p) {
        for (uint32_t who = 0; who <= PTO_MAX_WORKERS; who++) {
            free(p->workers[who].calls);
        }
        pto_tensormap_destroy(&p->map);
        free(p->kernels);
        free(p->hits);
        free(p->accesses);
        free(p->table);
        free(p->edges);
        free(p->tasks);
        free(p);
    }
    *made = NULL;
}
