/* replay_plan.c - derives a plan from a trace: the steps of the orchestrating thread, the needs of
 * each task, its dependencies and the memory it uses. */
#include <stdlib.h>
#include <string.h>

#include <pto/pto.h>

#include "replay.h"
#include "tensor/desc.h"
#include "window/window.h"

#define MOST_NS (UINT64_C(1) << 50)   /* longest recorded time: 13 days */
#define MOST_HEAP (UINT64_C(1) << 47) /* larger than any heap */

typedef struct maker {
    replay_plan *plan;
    const ptoi_ptrace *trace;
    size_t room_nodes, room_ops, room_levels[PTO_MAX_LEVELS], room_owners, room_open, room_ends;
    uint64_t *handles[PTO_MAX_LEVELS]; /* of the nodes of a level, by index */
    size_t room_handles[PTO_MAX_LEVELS];
    uint32_t *known; /* hash table of managed buffers: the node that owns one, plus one */
    uint32_t *buffers;
    uint32_t mask;
    uint64_t now, own; /* current time, and own work of the program since its last step */
    uint64_t event, life;
    ptoi_descs descs; /* numbered as in the map of the runtime */
    uint32_t *open;   /* lifetimes that are open, the innermost last */
    uint32_t *ends;   /* by lifetime: the op of the plan after its end, or PTRACE_NONE */
    uint32_t n_open, n_lifetimes;
    bool short_of_memory;
} maker;

static uint64_t span(uint64_t from, uint64_t to)
{
    const uint64_t ns = ptoi_ptrace_span(from, to);
    return ns < MOST_NS ? ns : MOST_NS;
}

/* Appends an item. NULL, and a flag is set, if memory runs out. */
static void *add(maker *m, void **items, size_t *room, size_t count, size_t item)
{
    if (count == *room) {
        const size_t larger = *room ? *room * 2 : 1024;
        void *memory = realloc(*items, larger * item);
        if (!memory) {
            m->short_of_memory = true;
            return NULL;
        }
        *items = memory;
        *room = larger;
    }
    return (char *)*items + count * item;
}

/* ---- Owners of buffers ---- */

/* The hash slot of a buffer, or the free slot for it. */
static uint32_t place_of(const maker *m, uint32_t buffer)
{
    uint32_t at = (uint32_t)(buffer * UINT64_C(0x9E3779B97F4A7C15) >> 32) & m->mask;
    while (m->known[at] && m->buffers[at] != buffer) {
        at = (at + 1) & m->mask;
    }
    return at;
}

static uint32_t owner_of(const maker *m, uint32_t buffer)
{
    return m->known[place_of(m, buffer)] - 1; /* PTRACE_NONE if there is none */
}

static void own(const maker *m, uint32_t buffer, uint32_t node)
{
    const uint32_t at = place_of(m, buffer);
    m->buffers[at] = buffer;
    m->known[at] = node + 1;
}

static bool make_hash(maker *m)
{
    uint64_t count = 16;
    for (uint64_t i = 0; i < m->trace->n_args; i++) {
        count += m->trace->args[i].buffer != 0;
    }
    count += m->trace->n_lives;
    m->mask = 1;
    while (m->mask < 2 * count && m->mask < UINT32_C(1) << 31) {
        m->mask = m->mask * 2 + 1;
    }
    m->known = calloc((size_t)m->mask + 1, sizeof *m->known);
    m->buffers = calloc((size_t)m->mask + 1, sizeof *m->buffers);
    return m->known && m->buffers;
}

/* ---- Steps ---- */

static void step(maker *m, replay_what what, uint32_t node, uint32_t level, uint64_t cost)
{
    replay_plan *p = m->plan;
    replay_op *op = add(m, (void **)&p->ops, &m->room_ops, p->n_ops, sizeof *op);
    if (op) {
        *op = (replay_op){m->own, cost, node, (uint8_t)what, (uint8_t)level};
        p->n_ops++;
        m->own = 0;
    }
}

/* The program did its own work until `to`. */
static void advance(maker *m, uint64_t to)
{
    if (to != PTRACE_UNKNOWN && to > m->now) {
        m->own += span(m->now, to);
        m->now = to;
    }
}

/* Appends the node to its level. A block without a task has the handle of the task before it. */
static void enter(maker *m, uint32_t node)
{
    replay_plan *p = m->plan;
    const uint32_t l = p->nodes[node].level, n = p->n_level[l];
    uint32_t *at = add(m, (void **)&p->level[l], &m->room_levels[l], n, sizeof *at);
    uint64_t *h = add(m, (void **)&m->handles[l], &m->room_handles[l], n, sizeof *h);
    if (at && h) {
        *at = node;
        *h = node < p->n_tasks ? m->trace->tasks[node].task : n ? h[-1] : 0;
        p->n_level[l]++;
    }
}

/* ---- Lifetimes ---- */

static void begin_lifetime(maker *m)
{
    uint32_t *at = add(m, (void **)&m->open, &m->room_open, m->n_open, sizeof *at);
    uint32_t *end = add(m, (void **)&m->ends, &m->room_ends, m->n_lifetimes, sizeof *end);
    if (at && end) {
        *end = PTRACE_NONE;
        *at = ++m->n_lifetimes;
        m->n_open++;
    }
}

static void end_lifetime(maker *m)
{
    if (m->n_open) { /* its begin may be lost */
        m->ends[m->open[--m->n_open] - 1] = m->plan->n_ops;
    }
}

/* The open lifetime with this number, counted from 1; 0 if there is none. */
static uint32_t lifetime_of(const maker *m, uint64_t number)
{
    return number && number <= m->n_open ? m->open[number - 1] : 0;
}

static void give_up(const maker *m, uint32_t buffer)
{
    const uint32_t owner = owner_of(m, buffer);
    if (owner != PTRACE_NONE && m->plan->nodes[owner].buffers &&
        --m->plan->nodes[owner].buffers == 0) {
        m->plan->nodes[owner].held_until = m->plan->n_ops;
    }
}

/* Blocks whose buffers were not all given up are held until their lifetime ends. */
static void end_holds(const maker *m)
{
    for (uint32_t i = 0; i < m->plan->n_nodes; i++) {
        replay_node *node = &m->plan->nodes[i];
        if (node->has_block && node->buffers) {
            node->held_until = node->lifetime ? m->ends[node->lifetime - 1] : 0;
        }
    }
}

/* Adds a block that no task brings. The new node owns it. */
static void add_block(maker *m, uint32_t level, uint32_t buffer, uint64_t bytes, uint32_t lifetime)
{
    replay_plan *p = m->plan;
    replay_node *node = add(m, (void **)&p->nodes, &m->room_nodes, p->n_nodes, sizeof *node);
    if (node) {
        *node = (replay_node){.heap = ((bytes < MOST_HEAP ? bytes : MOST_HEAP) + 63) &
                                      ~UINT64_C(63),
                              .lifetime = lifetime,
                              .buffers = 1,
                              .level = (uint8_t)level,
                              .has_block = true};
        own(m, buffer, p->n_nodes);
        enter(m, p->n_nodes);
        step(m, REPLAY_BLOCK, p->n_nodes, level, 0);
        p->n_nodes++;
    }
}

/* Number of nodes on the level with lower handles. Handles rise. */
static uint32_t count_below(const maker *m, uint32_t level, uint64_t handle)
{
    uint32_t low = 0, high = m->plan->n_level[level];
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (m->handles[level][middle] < handle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void take_life(maker *m, const ptrace_life *life)
{
    advance(m, life->at);
    switch ((ptrace_life_kind)life->kind) {
    case PTRACE_MEMORY:
        add_block(m, life->level, life->buffer, life->bytes, lifetime_of(m, life->task));
        break;
    case PTRACE_BEGUN:
        begin_lifetime(m);
        break;
    case PTRACE_ENDED:
        end_lifetime(m);
        break;
    case PTRACE_GIVEN_UP:
        give_up(m, life->buffer);
        break;
    default: /* replay_is_outdated */
        break;
    }
}

/* The task with this handle, among those submitted so far. */
static uint32_t task_of(const maker *m, uint64_t handle, uint32_t submitted)
{
    for (uint32_t l = 0; l < PTO_MAX_LEVELS; l++) {
        const uint32_t at = count_below(m, l, handle);
        const uint32_t node = at < m->plan->n_level[l] ? m->plan->level[l][at] : PTRACE_NONE;
        if (node < submitted && m->trace->tasks[node].task == handle) {
            return node;
        }
    }
    return PTRACE_NONE;
}

static void take_event(maker *m, const ptrace_event *e, uint32_t submitted)
{
    if (e->kind > PTRACE_WAIT) {
        return;
    }
    advance(m, e->begin);
    if (e->kind == PTRACE_WAIT) {
        const uint32_t task = e->value ? task_of(m, e->value, submitted) : PTRACE_NONE;
        if (!e->value || task != PTRACE_NONE) {
            step(m, REPLAY_WAIT, task, 0, 0);
        }
    }
    /* The time of the wait is not work of the program. */
    if (e->end != PTRACE_UNKNOWN && e->end > m->now) {
        m->now = e->end;
    }
}

/* Takes all records before `until`, in order. */
static void take_notes(maker *m, uint64_t until, uint32_t submitted)
{
    const ptoi_ptrace *t = m->trace;
    for (;;) {
        const ptrace_event *e = m->event < t->n_events ? &t->events[m->event] : NULL;
        const ptrace_life *l = m->life < t->n_lives ? &t->lives[m->life] : NULL;
        if (e && e->begin < until && (!l || e->begin <= l->at)) {
            take_event(m, e, submitted);
            m->event++;
        } else if (l && l->at < until) {
            take_life(m, l);
            m->life++;
        } else {
            return;
        }
    }
}

/* ---- Tasks ---- */

static bool is_empty(const ptoi_ptrace *t, const ptrace_arg *a)
{
    for (uint32_t d = 0; d < a->ndim; d++) {
        if (t->dims[a->dims + d] == 0) {
            return true;
        }
    }
    return false;
}

/* Adds the owner of the buffer to the task, once. Returns false if the owner is unknown. */
static bool use_buffer(maker *m, uint32_t task, const ptrace_arg *a)
{
    replay_plan *p = m->plan;
    const uint32_t owner = owner_of(m, a->buffer);
    if (owner == PTRACE_NONE) {
        return false;
    }
    if (owner == task || p->nodes[owner].user == task + 1) {
        return true;
    }
    replay_lists *o = &p->owners;
    p->nodes[owner].user = task + 1;
    uint32_t *at = add(m, (void **)&o->list, &m->room_owners, o->at[task + 1], sizeof *at);
    if (at) {
        *at = owner;
        o->at[task + 1]++;
    }
    return true;
}

/* Argument units of a tensor. When layout descriptors may run out, their size is counted for all
 * tensors, as submit does when it looks for room, although some tensors will still get a
 * descriptor. */
static uint32_t units_of(maker *m, const ptrace_arg *a, bool crowded)
{
    pto_tensor t = {.ndim = a->ndim, .dtype = (pto_dtype)a->dtype};
    for (uint32_t d = 0; d < a->ndim; d++) {
        t.shape[d] = m->trace->dims[a->dims + d];
        t.strides[d] = m->trace->dims[a->dims + a->ndim + d];
    }
    (void)ptoi_desc_intern(&m->descs, &t);
    return crowded ? (uint32_t)ptoi_arg_units(a->ndim) : 1;
}

static void take_arg(maker *m, uint32_t task, const ptrace_arg *a, bool crowded)
{
    replay_node *node = &m->plan->nodes[task];
    const uint32_t access = a->access & ~PTRACE_NODEP;
    if (access == PTO_PARAM_SCALAR) {
        node->args++;
        return;
    }
    node->args += units_of(m, a, crowded);
    if (!(a->access & PTRACE_NODEP) && !is_empty(m->trace, a)) {
        node->entries++;
    }
    if (!a->buffer || use_buffer(m, task, a)) {
        return;
    }
    if (access == PTO_PARAM_OUTPUT && (a->segment == node->level || a->segment == PTRACE_USER)) {
        const uint64_t bytes = a->bytes < MOST_HEAP ? a->bytes : MOST_HEAP;
        node->heap += (bytes + 63) & ~UINT64_C(63);
        node->heap = node->heap < MOST_HEAP ? node->heap : MOST_HEAP;
        node->has_block = true;
        node->buffers++;
        own(m, a->buffer, task);
    } else if (!m->trace->n_lives && a->segment != PTRACE_USER) {
        /* The trace has no records of blocks: there must have been one here. */
        add_block(m, a->segment, a->buffer, a->bytes, 0);
        (void)use_buffer(m, task, a);
    }
}

static void take_task(maker *m, uint32_t i)
{
    const ptoi_ptrace *t = m->trace;
    const ptrace_task *task = &t->tasks[i];
    replay_plan *p = m->plan;
    take_notes(m, task->called, i);
    advance(m, task->called);
    const uint64_t before = m->own;
    m->own = 0;
    take_notes(m, task->submitted, i); /* the submit may have started with blocks; its own waits do
                                          not count */
    advance(m, task->submitted);
    const uint64_t cost = m->own;
    const bool ran = task->start != PTRACE_UNKNOWN && task->end != PTRACE_UNKNOWN;
    m->own = before;
    p->nodes[i] = (replay_node){
        .ran = span(task->start, task->end),
        .held = span(task->start, task->end),
        .order = i + 1,
        .lifetime = lifetime_of(m, m->n_open),
        .level = task->level,
        .runs = ran,
        .type = task->kernel == PTRACE_NONE ? 0 : (uint8_t)t->kernels[task->kernel].type};
    p->owners.at[i + 1] = p->owners.at[i];
    if (ptoi_descs_may_run_out(&m->descs, task->args)) {
        ptoi_descs_sweep(&m->descs); /* as the runtime does, which keeps those that are in use */
    }
    const bool crowded = ptoi_descs_may_run_out(&m->descs, task->args);
    for (uint32_t a = task->first_arg; a < task->first_arg + task->args; a++) {
        take_arg(m, i, &t->args[a], crowded);
    }
    enter(m, i);
    step(m, REPLAY_SUBMIT, i, task->level, cost);
    p->open += task->outcome == PTRACE_OPEN;
    p->types |= ran ? 1u << p->nodes[i].type : 0;
}

static bool take_steps(maker *m)
{
    const ptoi_ptrace *t = m->trace;
    replay_plan *p = m->plan;
    const uint64_t begin = t->n_tasks ? t->tasks[0].called : 0;
    m->now = begin; /* anything earlier takes no time */
    for (uint32_t i = 0; i < t->n_tasks && !m->short_of_memory; i++) {
        take_task(m, i);
    }
    for (uint32_t i = 0; i < p->n_ops; i++) {
        p->submitting += p->ops[i].before + p->ops[i].cost;
    }
    take_notes(m, PTRACE_UNKNOWN, p->n_tasks);
    m->own = 0;
    step(m, REPLAY_WAIT, PTRACE_NONE, 0, 0);
    if (!m->short_of_memory) {
        end_holds(m);
    }
    return !m->short_of_memory;
}

/* ---- Edges ---- */

static bool make_lists(maker *m)
{
    const ptoi_ptrace *t = m->trace;
    replay_plan *p = m->plan;
    const size_t n = (size_t)p->n_nodes + 2;
    p->before.at = calloc(n, sizeof *p->before.at);
    p->after.at = calloc(n, sizeof *p->after.at);
    p->before.list = calloc(t->n_edges + 1, sizeof *p->before.list);
    p->after.list = calloc(t->n_edges + 1, sizeof *p->after.list);
    if (!p->before.at || !p->after.at || !p->before.list || !p->after.list) {
        return false;
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->n_tasks; i++) {
        const ptrace_task *task = &t->tasks[i];
        for (uint32_t e = task->first_edge; e < task->first_edge + task->edges; e++) {
            if (t->edges[e].from != PTRACE_NONE && count < t->n_edges) {
                p->before.list[count++] = t->edges[e].from;
                p->after.at[t->edges[e].from + 2]++;
            }
        }
        p->before.at[i + 1] = count;
    }
    for (uint32_t i = p->n_tasks; i < p->n_nodes; i++) {
        p->before.at[i + 1] = count;
    }
    for (size_t i = 2; i < n; i++) {
        p->after.at[i] += p->after.at[i - 1];
    }
    for (uint32_t i = 0; i < p->n_tasks; i++) {
        for (uint32_t e = p->before.at[i]; e < p->before.at[i + 1]; e++) {
            p->after.list[p->after.at[p->before.list[e] + 1]++] = i;
        }
    }
    return true;
}

/* ---- Threads ---- */

typedef struct ran {
    uint32_t lane, task;
    uint64_t start;
} ran;

static int by_lane_and_start(const void *a, const void *b)
{
    const ran *x = a, *y = b;
    if (x->lane != y->lane) {
        return x->lane < y->lane ? -1 : 1;
    }
    return x->start != y->start ? (x->start < y->start ? -1 : 1)
                                : (x->task > y->task) - (x->task < y->task);
}

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t median(uint64_t *values, size_t n)
{
    qsort(values, n, sizeof *values, by_value);
    return n ? values[(n - 1) / 2] : 0;
}

/* Delays, as medians of the recording. */
typedef enum gap {
    NEXT,
    FIND,
    WAKE,
    PATIENCE,
    GAPS,
} gap;

typedef struct threads {
    ran *ran, *parks; /* tasks by thread and start; sleeps by thread and start */
    size_t n_ran, n_parks;
    uint64_t *gaps[GAPS];
    size_t n_gaps[GAPS];
} threads;

static void note_gap(threads *t, gap which, uint64_t from, uint64_t to)
{
    t->gaps[which][t->n_gaps[which]++] = span(from, to);
}

/* Two successive tasks of one thread. If the first ended after the second started, it was pending
 * and had left the thread. *park is the first sleep that may lie between them. */
static void look_between(maker *m, threads *t, const ran *one, const ran *two, size_t *park)
{
    const ptrace_task *last = &m->trace->tasks[one->task], *task = &m->trace->tasks[two->task];
    if (last->end > task->start) {
        m->plan->nodes[one->task].held = span(last->start, task->start);
        return;
    }
    if (task->ready <= last->end) {
        note_gap(t, NEXT, last->end, task->start);
        return;
    }
    if (m->trace->lanes[two->lane].kind != PTRACE_LANE_WORKER) {
        return;
    }
    const ran *p = t->parks;
    while (*park < t->n_parks && (p[*park].lane < one->lane ||
                                  (p[*park].lane == one->lane && p[*park].start < last->end))) {
        ++*park;
    }
    const bool slept = *park < t->n_parks && p[*park].lane == one->lane &&
                       p[*park].start < task->start;
    note_gap(t, slept ? WAKE : FIND, task->ready, task->start);
    if (slept) {
        note_gap(t, PATIENCE, last->end, p[*park].start);
    }
}

static bool make_threads(const maker *m, threads *t)
{
    const ptoi_ptrace *trace = m->trace;
    const size_t n = (size_t)m->plan->n_tasks + 1;
    bool good = true;
    t->ran = calloc(n, sizeof *t->ran);
    t->parks = calloc(trace->n_events + 1, sizeof *t->parks);
    for (gap g = 0; g < GAPS; g++) {
        t->gaps[g] = calloc(n, sizeof *t->gaps[g]);
        good = good && t->gaps[g];
    }
    if (!good || !t->ran || !t->parks) {
        return false;
    }
    for (uint32_t i = 0; i < m->plan->n_tasks; i++) {
        if (trace->tasks[i].lane != PTRACE_NONE && m->plan->nodes[i].runs) {
            t->ran[t->n_ran++] = (ran){trace->tasks[i].lane, i, trace->tasks[i].start};
        }
    }
    for (uint64_t i = 0; i < trace->n_events; i++) {
        if (trace->events[i].kind == PTRACE_PARKED) {
            t->parks[t->n_parks++] = (ran){trace->events[i].lane, 0, trace->events[i].begin};
        }
    }
    qsort(t->ran, t->n_ran, sizeof *t->ran, by_lane_and_start);
    qsort(t->parks, t->n_parks, sizeof *t->parks, by_lane_and_start);
    return true;
}

static bool look_at_threads(maker *m)
{
    replay_plan *p = m->plan;
    threads t = {0};
    size_t park = 0;
    const bool good = make_threads(m, &t);
    for (size_t i = 1; good && i < t.n_ran; i++) {
        if (t.ran[i].lane == t.ran[i - 1].lane) {
            look_between(m, &t, &t.ran[i - 1], &t.ran[i], &park);
        }
    }
    if (good) {
        p->next_ns = median(t.gaps[NEXT], t.n_gaps[NEXT]);
        p->find_ns = median(t.gaps[FIND], t.n_gaps[FIND]);
        p->wake_ns = median(t.gaps[WAKE], t.n_gaps[WAKE]);
        p->patience_ns = t.n_gaps[WAKE] ? median(t.gaps[PATIENCE], t.n_gaps[PATIENCE])
                                        : UINT64_MAX; /* no worker slept */
    }
    for (gap g = 0; g < GAPS; g++) {
        free(t.gaps[g]);
    }
    free(t.ran);
    free(t.parks);
    return good;
}

/* ---- All ---- */

static bool make(maker *m)
{
    const ptoi_ptrace *t = m->trace;
    replay_plan *p = m->plan;
    trace_stats stats;
    if (!trace_count(t, &stats)) {
        return false;
    }
    p->recorded = ptoi_ptrace_span(stats.begin, stats.end);
    p->work = stats.work;
    p->critical = stats.critical;
    trace_stats_free(&stats);
    p->n_nodes = p->n_tasks = (uint32_t)t->n_tasks;
    m->room_nodes = (size_t)p->n_tasks + 64;
    p->nodes = calloc(m->room_nodes, sizeof *p->nodes);
    p->owners.at = calloc((size_t)p->n_tasks + 1, sizeof *p->owners.at);
    const uint32_t seats = PTOI_DESC_SLOTS, words = PTOI_DESC_WORDS;
    m->descs.records = calloc(PTOI_DESC_UNITS, PTOI_DESC_UNIT);
    m->descs.table = calloc(seats, sizeof *m->descs.table);
    m->descs.taken = calloc(words, sizeof *m->descs.taken);
    m->descs.marks = calloc(words, sizeof *m->descs.marks);
    if (!m->descs.records || !m->descs.table || !m->descs.taken || !m->descs.marks) {
        return false;
    }
    ptoi_descs_init(&m->descs, m->descs.records, m->descs.table, m->descs.taken, m->descs.marks);
    return p->nodes && p->owners.at && make_hash(m) && take_steps(m) && make_lists(m) &&
           look_at_threads(m);
}

bool replay_is_outdated(const ptoi_ptrace *trace)
{
    for (uint64_t i = 0; i < trace->n_lives; i++) {
        if (trace->lives[i].kind < PTRACE_MEMORY) {
            return true;
        }
    }
    return false;
}

bool replay_plan_make(const ptoi_ptrace *trace, replay_plan *plan)
{
    memset(plan, 0, sizeof *plan);
    plan->trace = trace;
    maker m = {.plan = plan, .trace = trace};
    const bool good = make(&m);
    for (uint32_t l = 0; l < PTO_MAX_LEVELS; l++) {
        free(m.handles[l]);
    }
    free(m.descs.records);
    free(m.descs.table);
    free(m.descs.taken);
    free(m.descs.marks);
    free(m.known);
    free(m.buffers);
    free(m.open);
    free(m.ends);
    if (!good) {
        replay_plan_free(plan);
    }
    return good;
}

void replay_plan_free(replay_plan *plan)
{
    free(plan->nodes);
    free(plan->ops);
    replay_lists *const lists[] = {&plan->before, &plan->after, &plan->owners};
    for (size_t i = 0; i < sizeof lists / sizeof(replay_lists *); i++) {
        free(lists[i]->at);
        free(lists[i]->list);
    }
    for (uint32_t l = 0; l < PTO_MAX_LEVELS; l++) {
        free(plan->level[l]);
    }
    memset(plan, 0, sizeof *plan);
}
