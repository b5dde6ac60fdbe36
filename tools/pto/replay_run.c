/* replay_run.c - one run of a plan on a machine, event by event. replay.h says what is modelled. */
#include <stdlib.h>
#include <string.h>

#include "replay.h"
#include "ring/heap.h"
#include "ring/ring.h"

void (*replay_progress)(uint64_t done, uint64_t all);

enum { CALLER = REPLAY_KINDS, NOBODY, PROGRESS_EVERY = 1 << 16 };

/* A worker is free at that time; and a task complete, if there is one. */
typedef struct moment {
    uint64_t at;
    uint64_t order; /* of two at the same time: the one that came about first */
    uint32_t node;  /* PTRACE_NONE: it is still pending, and complete later */
    uint32_t who;   /* which kind of worker, CALLER or NOBODY */
} moment;

typedef struct queue {
    uint32_t first, last;
} queue;

typedef struct level {
    uint32_t head, completed, retired, released;
    uint64_t entries; /* of the map, in use */
    ptoi_heap heap;
    ptoi_ring args, edges;
    ptoi_run *runs;
    bool bounded_heap, bounded_args, bounded_edges;
} level;

typedef enum mood {
    WORKS,       /* until `time`; then the op begins */
    SUBMITS,     /* until `time`; then the task is there for all */
    WAITS_ROOM,  /* for room for the op */
    WAITS_EDGES, /* likewise, with all but edges found */
    WAITS_TASK,
    OVER,
} mood;

/* Of each node. */
typedef struct state {
    uint64_t heap_at, args_end, edges_end;
    uint32_t waiting; /* so many that it waits for are not complete */
    uint32_t users;   /* unfinished tasks that use its memory */
    uint32_t next;    /* in a queue */
    bool submitted, complete, has_entries;
} state;

typedef struct sim {
    const replay_plan *plan;
    const replay_machine *machine;
    const replay_marks *marks;
    replay_result *result;
    state *nodes;
    level level[PTO_MAX_LEVELS];
    uint32_t n_levels;
    /* Ready tasks by type: those that another one made ready, before those that came ready. */
    queue ready[PTO_WORKER_TYPES][2];
    uint32_t idle[REPLAY_KINDS]; /* workers of each kind, and since when: the last one first */
    uint64_t *since_idle[REPLAY_KINDS];
    bool caller_idle; /* it waits, and looks for work */
    moment *moments;  /* a heap: the next one first */
    size_t n_moments, room_moments;
    uint32_t *todo; /* nodes that are complete at this very time */
    size_t n_todo;
    uint64_t now, order, last;
    /* The orchestrating thread. */
    mood mood;
    bool helps; /* it runs a task */
    bool scoped;
    uint64_t time, since;
    uint32_t op;
    uint32_t left; /* tasks submitted and not complete */
} sim;

static uint64_t later(uint64_t at, uint64_t ns)
{
    return at + ns < at ? UINT64_MAX : at + ns;
}

/* ---- Moments ---- */

static bool sooner(const moment *a, const moment *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void push_moment(sim *s, uint64_t at, uint32_t node, uint32_t who)
{
    if (s->n_moments == s->room_moments) {
        const size_t room = s->room_moments ? 2 * s->room_moments : 64;
        moment *larger = realloc(s->moments, room * sizeof *larger);
        if (!larger) {
            s->result->end = REPLAY_NO_MEMORY;
            return;
        }
        s->moments = larger;
        s->room_moments = room;
    }
    const moment m = {at, s->order++, node, who};
    size_t i = s->n_moments++;
    for (; i && sooner(&m, &s->moments[(i - 1) / 2]); i = (i - 1) / 2) {
        s->moments[i] = s->moments[(i - 1) / 2];
    }
    s->moments[i] = m;
}

static moment pop_moment(sim *s)
{
    const moment top = s->moments[0], m = s->moments[--s->n_moments];
    size_t i = 0;
    for (size_t next; (next = 2 * i + 1) < s->n_moments; i = next) {
        next += next + 1 < s->n_moments && sooner(&s->moments[next + 1], &s->moments[next]);
        if (!sooner(&s->moments[next], &m)) {
            break;
        }
        s->moments[i] = s->moments[next];
    }
    s->moments[i] = m;
    return top;
}

/* ---- Who runs what ---- */

static void start(sim *s, uint32_t node, uint32_t who, uint64_t delay)
{
    const replay_node *n = &s->plan->nodes[node];
    const uint64_t at = later(s->now, delay);
    s->helps |= who == CALLER;
    if (n->held < n->ran) {
        push_moment(s, later(at, n->held), PTRACE_NONE, who);
        push_moment(s, later(at, n->ran), node, NOBODY);
    } else {
        push_moment(s, later(at, n->ran), node, who);
    }
}

static void put(sim *s, queue *q, uint32_t node)
{
    s->nodes[node].next = PTRACE_NONE;
    if (q->first == PTRACE_NONE) {
        q->first = node;
    } else {
        s->nodes[q->last].next = node;
    }
    q->last = node;
}

static uint32_t take(sim *s, uint32_t types)
{
    for (uint32_t fresh = 0; fresh < 2; fresh++) {
        for (uint32_t t = 0; t < PTO_WORKER_TYPES; t++) {
            queue *q = &s->ready[t][fresh];
            if (types >> t & 1 && q->first != PTRACE_NONE) {
                const uint32_t node = q->first;
                q->first = s->nodes[node].next;
                return node;
            }
        }
    }
    return PTRACE_NONE;
}

static uint32_t types_of(const sim *s, uint32_t who)
{
    return who == CALLER ? s->machine->caller : who;
}

/* The task can run. Of idle workers those with the fewest types take it; bits count as numbers well
 * enough, for the order is only to be the same each time. */
static void make_ready(sim *s, uint32_t node, bool fresh)
{
    const uint32_t type = s->plan->nodes[node].type;
    if (!s->plan->nodes[node].runs) {
        s->todo[s->n_todo++] = node;
        return;
    }
    uint32_t best = NOBODY;
    for (uint32_t k = 1; k < REPLAY_KINDS; k++) {
        if (s->idle[k] && k >> type & 1 &&
            (best == NOBODY || __builtin_popcount(k) < __builtin_popcount(best))) {
            best = k;
        }
    }
    bool sleeps = false;
    if (best != NOBODY) {
        const uint64_t since = s->since_idle[best][s->idle[best] - 1];
        sleeps = s->now - since > s->plan->patience_ns;
    }
    if (s->caller_idle && s->machine->caller >> type & 1 && (best == NOBODY || sleeps)) {
        s->caller_idle = false;
        start(s, node, CALLER, s->plan->find_ns);
        return;
    }
    put(s, &s->ready[type][fresh], node); /* for whoever comes first */
    if (best != NOBODY) {
        s->idle[best]--;
        push_moment(s, later(s->now, sleeps ? s->plan->wake_ns : s->plan->find_ns), PTRACE_NONE,
                    best);
    }
}

/* ---- Completion ---- */

/* The first that becomes ready by it and that `who` can run is theirs, and comes back. */
static uint32_t complete_one(sim *s, uint32_t node, uint32_t who)
{
    const replay_plan *p = s->plan;
    uint32_t mine = PTRACE_NONE;
    s->nodes[node].complete = true;
    s->left--;
    s->last = s->now > s->last ? s->now : s->last;
    for (uint32_t i = p->owners.at[node]; i < p->owners.at[node + 1]; i++) {
        s->nodes[p->owners.list[i]].users--;
    }
    for (uint32_t i = p->after.at[node]; i < p->after.at[node + 1]; i++) {
        const uint32_t next = p->after.list[i];
        if (!s->nodes[next].submitted || --s->nodes[next].waiting) {
            continue;
        }
        if (mine == PTRACE_NONE && who != NOBODY && p->nodes[next].runs &&
            types_of(s, who) >> p->nodes[next].type & 1) {
            mine = next;
        } else {
            make_ready(s, next, false);
        }
    }
    return mine;
}

static uint32_t complete(sim *s, uint32_t node, uint32_t who)
{
    uint32_t mine = complete_one(s, node, who);
    while (s->n_todo) {
        const uint32_t next = complete_one(s, s->todo[--s->n_todo],
                                           mine == PTRACE_NONE ? who : NOBODY);
        mine = mine == PTRACE_NONE ? next : mine;
    }
    return mine;
}

/* ---- Recycling ---- */

static void retire_completed(sim *s, level *l, const uint32_t *nodes)
{
    const uint32_t from = l->completed;
    for (; l->completed < l->head && s->nodes[nodes[l->completed]].complete; l->completed++) {
        state *n = &s->nodes[nodes[l->completed]];
        if (n->has_entries) {
            n->has_entries = false;
            l->entries -= s->plan->nodes[nodes[l->completed]].entries;
        }
    }
    if (l->bounded_edges && l->completed != from) {
        ptoi_ring_give_back(&l->edges, s->nodes[nodes[l->completed - 1]].edges_end);
    }
}

/* Of the level, when it is known who is complete. */
static void retire(sim *s, uint32_t number)
{
    level *l = &s->level[number];
    const uint32_t *nodes = s->plan->level[number];
    const uint32_t from = l->retired;
    uint32_t block = PTRACE_NONE;
    const uint32_t end = l->completed < l->released ? l->completed : l->released;
    for (; l->retired < end && !s->nodes[nodes[l->retired]].users; l->retired++) {
        if (s->plan->nodes[nodes[l->retired]].heap) {
            block = nodes[l->retired];
        }
    }
    if (block != PTRACE_NONE && l->bounded_heap) {
        ptoi_heap_give_back(&l->heap, s->nodes[block].heap_at, s->plan->nodes[block].heap);
    }
    if (l->retired != from && l->bounded_args) {
        ptoi_ring_give_back(&l->args, s->nodes[nodes[l->retired - 1]].args_end);
    }
}

/* Entries of complete tasks, behind one that is not. */
static void compact_entries(sim *s, level *l, const uint32_t *nodes)
{
    for (uint32_t i = l->completed; i < l->head; i++) {
        state *n = &s->nodes[nodes[i]];
        if (n->complete && n->has_entries) {
            n->has_entries = false;
            l->entries -= s->plan->nodes[nodes[i]].entries;
        }
    }
}

/* ---- Room ---- */

static void note_most(sim *s, uint32_t number, uint32_t ring, uint64_t used)
{
    uint64_t *most = &s->result->most[number][ring];
    *most = used > *most ? used : *most;
}

/* What is short for the node; PTRACE_RING_KINDS if nothing is. Where it would lie comes back. */
static uint32_t find_short(sim *s, uint32_t node, uint64_t *at, ptoi_piece *piece)
{
    const replay_node *n = &s->plan->nodes[node];
    const uint64_t *size = s->machine->rings.size[n->level];
    const level *l = &s->level[n->level];
    *at = 0;
    *piece = (ptoi_piece){0, 0};
    if (size[PTRACE_RING_SLOTS] && l->head - l->retired >= size[PTRACE_RING_SLOTS]) {
        return PTRACE_RING_SLOTS;
    }
    if (l->bounded_heap && !ptoi_heap_fits(&l->heap, n->heap, at)) {
        return PTRACE_RING_HEAP;
    }
    if (l->bounded_args && n->args && !ptoi_ring_fits(&l->args, n->args, piece)) {
        return PTRACE_RING_ARG_BYTES;
    }
    if (size[PTRACE_RING_MAP_ENTRIES] && n->entries &&
        l->entries + n->entries > size[PTRACE_RING_MAP_ENTRIES]) {
        return PTRACE_RING_MAP_ENTRIES;
    }
    return PTRACE_RING_KINDS;
}

static uint32_t count_edges(const sim *s, uint32_t node)
{
    const replay_plan *p = s->plan;
    uint32_t count = 0;
    for (uint32_t i = p->before.at[node]; i < p->before.at[node + 1]; i++) {
        count += !s->nodes[p->before.list[i]].complete;
    }
    return count;
}

/* It is written down, with everything it takes but edges. */
static void enter(sim *s, uint32_t node, uint64_t at, ptoi_piece piece)
{
    const replay_plan *p = s->plan;
    const replay_node *n = &p->nodes[node];
    level *l = &s->level[n->level];
    state *now = &s->nodes[node];
    if (l->bounded_heap) {
        now->heap_at = at;
        ptoi_heap_take(&l->heap, at, n->heap);
        note_most(s, n->level, PTRACE_RING_HEAP, l->heap.used);
    }
    if (l->bounded_args) {
        now->args_end = ptoi_ring_take(&l->args, piece, n->args);
        note_most(s, n->level, PTRACE_RING_ARG_BYTES, ptoi_ring_used(&l->args) * 16);
    }
    l->entries += n->entries;
    now->has_entries = n->entries > 0;
    l->head++;
    note_most(s, n->level, PTRACE_RING_SLOTS, l->head - l->retired);
    note_most(s, n->level, PTRACE_RING_MAP_ENTRIES, l->entries);
    if (!s->scoped) {
        l->released = l->head;
    }
    for (uint32_t i = n->is_block ? 0 : p->owners.at[node];
         i < (n->is_block ? 0 : p->owners.at[node + 1]); i++) {
        s->nodes[p->owners.list[i]].users++;
    }
}

/* ---- The orchestrating thread ---- */

static void stall(sim *s, uint32_t number, uint32_t ring, uint32_t node)
{
    s->result->end = REPLAY_STALLED;
    s->result->level = number;
    s->result->ring = ring;
    s->result->node = node;
}

/* It has nothing to do but to run tasks. */
static void help(sim *s)
{
    if (s->helps || s->caller_idle || !s->machine->caller) {
        return;
    }
    const uint32_t node = take(s, s->machine->caller);
    if (node == PTRACE_NONE) {
        s->caller_idle = true;
    } else {
        start(s, node, CALLER, s->plan->next_ns);
    }
}

static void begin_wait(sim *s, mood how, uint32_t number, uint32_t ring)
{
    if (s->mood != how) {
        s->mood = how;
        s->since = s->now;
        if (how != WAITS_TASK) {
            s->result->waits[number][ring]++;
        }
    }
    help(s);
}

/* Goes on with its own work. */
static void resume(sim *s)
{
    if (s->mood == WAITS_ROOM || s->mood == WAITS_EDGES) {
        s->result->waited += s->now - s->since;
    }
    s->caller_idle = false;
}

static void next_op(sim *s)
{
    s->op++;
    s->mood = s->op < s->plan->n_ops ? WORKS : OVER;
    if (s->mood == WORKS) {
        s->time = later(s->now, s->plan->ops[s->op].before);
    }
    if (replay_progress && s->op % PROGRESS_EVERY == 0) {
        replay_progress(s->op, s->plan->n_ops);
    }
}

/* The map can never remember all that it touches: it runs alone. */
static bool is_barrier(const sim *s, const replay_node *n)
{
    const uint64_t entries = s->machine->rings.size[n->level][PTRACE_RING_MAP_ENTRIES];
    return entries && n->entries > entries;
}

/* Room for the node, or the beginning of a wait. */
static bool find_room(sim *s, uint32_t node, uint64_t *at, ptoi_piece *piece)
{
    const replay_node *n = &s->plan->nodes[node];
    level *l = &s->level[n->level];
    for (uint32_t i = 0; i < s->n_levels; i++) {
        retire_completed(s, &s->level[i], s->plan->level[i]);
    }
    retire(s, n->level);
    uint32_t what = find_short(s, node, at, piece);
    if (what == PTRACE_RING_MAP_ENTRIES) {
        if (is_barrier(s, n)) {
            what = s->left ? what : PTRACE_RING_KINDS;
        } else {
            if (s->mood == WORKS) { /* it is short, even if there is nothing to wait for */
                s->result->waits[n->level][what]++;
                s->mood = WAITS_ROOM;
                s->since = s->now;
            }
            compact_entries(s, l, s->plan->level[n->level]);
            what = find_short(s, node, at, piece);
        }
    }
    if (what == PTRACE_RING_KINDS) {
        return true;
    }
    if (what < PTRACE_RING_EDGE_REFS && (l->retired == l->head || l->retired >= l->released)) {
        stall(s, n->level, what, node);
        return false;
    }
    begin_wait(s, WAITS_ROOM, n->level, what);
    return false;
}

static bool find_edges(sim *s, uint32_t node)
{
    const replay_node *n = &s->plan->nodes[node];
    level *l = &s->level[n->level];
    ptoi_piece piece = {0, 0};
    retire_completed(s, l, s->plan->level[n->level]);
    const uint32_t edges = count_edges(s, node);
    if (s->marks) {
        s->marks->edges[s->op] = edges;
    }
    if (!l->bounded_edges) {
        return true;
    }
    if (edges && !ptoi_ring_fits(&l->edges, edges, &piece)) {
        begin_wait(s, WAITS_EDGES, n->level, PTRACE_RING_EDGE_REFS);
        return false;
    }
    s->nodes[node].edges_end = ptoi_ring_take(&l->edges, piece, edges);
    note_most(s, n->level, PTRACE_RING_EDGE_REFS, ptoi_ring_used(&l->edges));
    return true;
}

static void submit(sim *s, const replay_op *op)
{
    uint64_t at;
    ptoi_piece piece;
    if (!find_room(s, op->node, &at, &piece)) {
        return;
    }
    const level *l = &s->level[op->level];
    if (s->marks) {
        s->marks->retired[s->op] = l->retired;
        s->marks->completed[s->op] = l->completed;
    }
    if (op->what == REPLAY_SUBMIT && !find_edges(s, op->node)) {
        return;
    }
    enter(s, op->node, at, piece);
    resume(s);
    if (op->what == REPLAY_BLOCK) {
        s->nodes[op->node].edges_end = l->edges.head;
        s->nodes[op->node].complete = true;
        next_op(s);
    } else {
        s->mood = SUBMITS;
        s->time = later(s->now, op->cost);
    }
}

/* The task is there for all: it waits, or can run. */
static void publish(sim *s, uint32_t node)
{
    s->left++;
    s->nodes[node].submitted = true;
    s->nodes[node].waiting = count_edges(s, node);
    if (!s->nodes[node].waiting) {
        make_ready(s, node, true);
        while (s->n_todo) {
            (void)complete(s, s->todo[--s->n_todo], NOBODY);
        }
    }
    if (is_barrier(s, &s->plan->nodes[node]) && s->left) {
        begin_wait(s, WAITS_TASK, 0, 0); /* for all, and then on */
        return;
    }
    next_op(s);
}

static void act(sim *s)
{
    const replay_op *op = &s->plan->ops[s->op];
    if (s->mood == SUBMITS) {
        publish(s, op->node);
        return;
    }
    switch ((replay_what)op->what) {
    case REPLAY_SUBMIT:
    case REPLAY_BLOCK:
        submit(s, op);
        return;
    case REPLAY_WAIT:
        if (op->node == PTRACE_NONE ? s->left != 0 : !s->nodes[op->node].complete) {
            begin_wait(s, WAITS_TASK, 0, 0);
            return;
        }
        break;
    case REPLAY_RELEASE:
        if (op->node > s->level[op->level].released) {
            s->level[op->level].released = op->node < s->level[op->level].head
                                               ? op->node
                                               : s->level[op->level].head;
        }
        break;
    case REPLAY_SCOPED:
        s->scoped = true;
        break;
    case REPLAY_UNSCOPED:
        s->scoped = false;
        break;
    }
    resume(s);
    next_op(s);
}

/* It waits, runs no task, and something has changed. */
static void look_again(sim *s)
{
    const replay_op *op = &s->plan->ops[s->op];
    if (s->mood == WAITS_TASK && op->what == REPLAY_SUBMIT) { /* a task that runs alone */
        if (s->left) {
            help(s);
            return;
        }
        resume(s);
        next_op(s);
        return;
    }
    act(s);
}

/* ---- All ---- */

static void free_worker(sim *s, uint32_t who, uint32_t mine)
{
    if (who == NOBODY) {
        return;
    }
    if (who == CALLER) { /* first of all it looks whether it still waits */
        s->helps = false;
        if (mine != PTRACE_NONE) {
            make_ready(s, mine, false);
        }
        return;
    }
    const uint32_t node = mine != PTRACE_NONE ? mine : take(s, who);
    if (node == PTRACE_NONE) {
        s->since_idle[who][s->idle[who]++] = s->now;
    } else {
        start(s, node, who, s->plan->next_ns);
    }
}

static void run(sim *s)
{
    while (s->result->end == REPLAY_DONE) {
        const bool acts = s->mood == WORKS || s->mood == SUBMITS;
        if (acts && (!s->n_moments || s->time <= s->moments[0].at)) {
            s->now = s->time;
            act(s);
        } else if (s->n_moments) {
            const moment m = pop_moment(s);
            s->now = m.at;
            free_worker(s, m.who, m.node == PTRACE_NONE ? m.node : complete(s, m.node, m.who));
            if (s->mood > SUBMITS && s->mood != OVER && !s->helps) {
                look_again(s);
            }
        } else {
            break;
        }
    }
    if (s->result->end == REPLAY_DONE && s->mood != OVER) { /* a task is left that nobody runs */
        uint32_t node = 0;
        while (node + 1 < s->plan->n_tasks &&
               (!s->nodes[node].submitted || s->nodes[node].complete || s->nodes[node].waiting)) {
            node++;
        }
        s->result->end = REPLAY_NO_WORKER;
        s->result->node = node;
    }
    s->result->makespan = s->last;
}

/* More runs than blocks: a power of two. */
static uint32_t count_runs(uint32_t nodes, uint64_t slots)
{
    const uint64_t most = slots && slots < nodes ? slots : nodes;
    uint32_t runs = 4;
    while (runs < most + 2 && runs < UINT32_C(1) << 31) {
        runs *= 2;
    }
    return runs;
}

static bool make_level(sim *s, uint32_t number)
{
    const uint64_t *size = s->machine->rings.size[number];
    level *l = &s->level[number];
    const uint32_t nodes = s->plan->n_level[number];
    if (!nodes) {
        return true;
    }
    s->n_levels = number + 1;
    l->bounded_heap = size[PTRACE_RING_HEAP] != 0;
    l->bounded_args = size[PTRACE_RING_ARG_BYTES] != 0;
    l->bounded_edges = size[PTRACE_RING_EDGE_REFS] != 0;
    if (l->bounded_heap) {
        const uint32_t runs = count_runs(nodes, size[PTRACE_RING_SLOTS]);
        l->runs = malloc(runs * sizeof *l->runs);
        if (!l->runs) {
            return false;
        }
        ptoi_heap_init(&l->heap, size[PTRACE_RING_HEAP], PTOI_HEAP_WARM, l->runs, runs);
    }
    ptoi_ring_init(&l->args, l->bounded_args ? size[PTRACE_RING_ARG_BYTES] / 16 : 1);
    ptoi_ring_init(&l->edges, l->bounded_edges ? size[PTRACE_RING_EDGE_REFS] : 1);
    return true;
}

void replay_run(const replay_plan *plan, const replay_machine *machine, const replay_marks *marks,
                replay_result *result)
{
    sim s = {.plan = plan, .machine = machine, .marks = marks, .result = result};
    memset(result, 0, sizeof *result);
    s.nodes = calloc((size_t)plan->n_nodes + 1, sizeof *s.nodes);
    s.todo = malloc(((size_t)plan->n_nodes + 1) * sizeof *s.todo);
    bool good = s.nodes && s.todo;
    for (uint32_t i = 0; i < PTO_MAX_LEVELS; i++) {
        good = good && make_level(&s, i);
    }
    for (uint32_t k = 0; k < REPLAY_KINDS; k++) {
        s.idle[k] = machine->workers[k]; /* since the start */
        s.since_idle[k] = calloc((size_t)machine->workers[k] + 1, sizeof *s.since_idle[k]);
        good = good && s.since_idle[k];
    }
    memset(s.ready, 0xff, sizeof s.ready);
    if (good) {
        s.time = plan->n_ops ? plan->ops[0].before : 0;
        s.mood = plan->n_ops ? WORKS : OVER;
        run(&s);
    } else {
        result->end = REPLAY_NO_MEMORY;
    }
    for (uint32_t i = 0; i < PTO_MAX_LEVELS; i++) {
        free(s.level[i].runs);
    }
    for (uint32_t k = 0; k < REPLAY_KINDS; k++) {
        free(s.since_idle[k]);
    }
    free(s.nodes);
    free(s.todo);
    free(s.moments);
}

void replay_machine_recorded(const replay_plan *plan, replay_machine *machine)
{
    const ptoi_ptrace *t = plan->trace;
    memset(machine, 0, sizeof *machine);
    for (uint64_t i = 0; i < t->n_lanes; i++) {
        const uint32_t types = t->lanes[i].types & PTO_ALL_TYPES;
        if (t->lanes[i].kind == PTRACE_LANE_WORKER && types) {
            machine->workers[types]++;
        } else if (t->lanes[i].kind == PTRACE_LANE_ORCHESTRATOR) {
            machine->caller = types;
        }
    }
    for (uint64_t i = 0; i < t->n_caps; i++) {
        const ptrace_cap *c = &t->caps[i];
        const uint64_t largest = replay_largest(c->ring);
        machine->rings.size[c->level][c->ring] = c->capacity < largest ? c->capacity : largest;
    }
}
