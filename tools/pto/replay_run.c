/* replay_run.c - one run of a plan on a machine, event by event: workers and the orchestrating
 * thread. replay.h says what is modelled; replay_room.c has the rings. */
#include <stdlib.h>
#include <string.h>

#include "replay_room.h"

void (*replay_progress)(uint64_t done, uint64_t all);

enum { CALLER = REPLAY_KINDS, NOBODY, PROGRESS_EVERY = 1 << 16 };

/* An event: a worker becomes free, and a task completes if there is one. */
typedef struct moment {
    uint64_t at;
    uint64_t order; /* order of creation, for events at the same time */
    uint32_t node;  /* PTRACE_NONE: no task completes; it is still pending */
    uint32_t who;   /* kind of worker, CALLER or NOBODY */
} moment;

typedef struct queue {
    uint32_t first, last;
} queue;

typedef enum mood {
    WORKS,       /* until `time`, when the op starts */
    SUBMITS,     /* until `time`, when the task is published */
    WAITS_ROOM,  /* waits for room for the op */
    WAITS_EDGES, /* waits for room for its edges; everything else was found */
    WAITS_TASK,
    OVER,
} mood;

/* The state of a node. */
typedef struct state {
    uint32_t waiting; /* number of unfinished dependencies */
    uint32_t next;    /* next in its queue */
    bool submitted;
} state;

typedef struct sim {
    const replay_plan *plan;
    const replay_machine *machine;
    const replay_marks *marks;
    replay_result *result;
    state *nodes;
    replay_room room;
    /* Ready tasks by type. First those that a completion made ready, then those that were ready
     * when submitted. */
    queue ready[PTO_WORKER_TYPES][2];
    uint32_t idle[REPLAY_KINDS]; /* idle workers of each kind, and since when; the last one first */
    uint64_t *since_idle[REPLAY_KINDS];
    bool caller_idle; /* it waits and polls for work */
    moment *moments;  /* a binary heap: the next event first */
    size_t n_moments, room_moments;
    uint32_t *todo; /* nodes that complete at this moment */
    size_t n_todo;
    uint64_t now, order, last;
    /* The orchestrating thread. */
    mood mood;
    bool helps; /* it runs a task */
    uint64_t time, since;
    uint32_t left; /* tasks submitted and not complete */
} sim;

static uint64_t later(uint64_t at, uint64_t ns)
{
    return at + ns < at ? UINT64_MAX : at + ns;
}

/* ---- Events ---- */

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

/* ---- Workers ---- */

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

/* Makes a task ready. Idle workers with the fewest types take it first. Among equal ones any fixed
 * order will do. */
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
    put(s, &s->ready[type][fresh], node); /* for the first worker that comes */
    if (best != NOBODY) {
        s->idle[best]--;
        push_moment(s, later(s->now, sleeps ? s->plan->wake_ns : s->plan->find_ns), PTRACE_NONE,
                    best);
    }
}

/* ---- Completion ---- */

/* Completes a node. Returns the first task that becomes ready and that `who` can run, which `who`
 * takes. */
static uint32_t complete_one(sim *s, uint32_t node, uint32_t who)
{
    const replay_plan *p = s->plan;
    uint32_t mine = PTRACE_NONE;
    replay_room_complete(&s->room, node);
    s->left--;
    s->last = s->now > s->last ? s->now : s->last;
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

/* ---- The orchestrating thread ---- */

static void stall(sim *s, uint32_t number, uint32_t ring, uint32_t node)
{
    s->result->end = REPLAY_STALLED;
    s->result->level = number;
    s->result->ring = ring;
    s->result->node = node;
}

/* Runs tasks while it waits. */
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

/* Ends a wait. */
static void resume(sim *s)
{
    if (s->mood == WAITS_ROOM || s->mood == WAITS_EDGES) {
        s->result->waited += s->now - s->since;
    }
    s->caller_idle = false;
}

static void next_op(sim *s)
{
    s->room.op++;
    s->mood = s->room.op < s->plan->n_ops ? WORKS : OVER;
    if (s->mood == WORKS) {
        s->time = later(s->now, s->plan->ops[s->room.op].before);
    }
    if (replay_progress && s->room.op % PROGRESS_EVERY == 0) {
        replay_progress(s->room.op, s->plan->n_ops);
    }
}

/* Finds room for a node, or starts a wait. */
static bool find_room(sim *s, uint32_t node, replay_place *place)
{
    const uint32_t level = s->plan->nodes[node].level;
    if (s->machine->way == REPLAY_EAGERLY) {
        replay_room_recycle(&s->room, level);
    }
    uint32_t what = replay_room_find(&s->room, node, place);
    if (what != PTO_RINGS && s->machine->way != REPLAY_EAGERLY) {
        replay_room_recycle(&s->room, level);
        what = replay_room_find(&s->room, node, place);
    }
    if (what == PTO_RING_MAP) {
        if (replay_room_is_barrier(&s->room, node)) {
            what = s->left ? what : PTO_RINGS;
        } else {
            if (s->mood == WORKS) { /* the ring is full, even if there is nothing to wait for */
                s->result->waits[level][what]++;
                s->mood = WAITS_ROOM;
                s->since = s->now;
            }
            replay_room_compact(&s->room, level);
            what = replay_room_find(&s->room, node, place);
        }
    }
    if (what == PTO_RINGS) {
        return true;
    }
    if (what < PTO_RING_DEPS && replay_room_is_stuck(&s->room, level, what)) {
        stall(s, level, what, node);
        return false;
    }
    begin_wait(s, WAITS_ROOM, level, what);
    return false;
}

static bool find_edges(sim *s, uint32_t node)
{
    const uint32_t level = s->plan->nodes[node].level;
    const uint32_t edges = replay_room_count_edges(&s->room, node);
    if (s->marks) {
        s->marks->edges[s->room.op] = edges;
    }
    if (s->machine->way != REPLAY_EAGERLY && replay_room_take_edges(&s->room, node, edges)) {
        return true;
    }
    replay_room_recycle_completed(&s->room, level);
    if (!replay_room_take_edges(&s->room, node, edges)) {
        begin_wait(s, WAITS_EDGES, level, PTO_RING_DEPS);
        return false;
    }
    return true;
}

static void submit(sim *s, const replay_op *op)
{
    replay_place place;
    if (!find_room(s, op->node, &place)) {
        return;
    }
    if (s->marks) {
        s->marks->freed[s->room.op] = s->room.level[op->level].freed;
        s->marks->completed[s->room.op] = s->room.level[op->level].completed;
    }
    if (op->what == REPLAY_SUBMIT && !find_edges(s, op->node)) {
        return;
    }
    replay_room_enter(&s->room, op->node, place);
    resume(s);
    if (op->what == REPLAY_BLOCK) {
        next_op(s);
    } else {
        s->mood = SUBMITS;
        s->time = later(s->now, op->cost);
    }
}

/* The submit call returns. */
static void submitted(sim *s, uint32_t node)
{
    if (s->plan->nodes[node].order % REPLAY_RECYCLE_EVERY == 0) {
        replay_room_recycle(&s->room, s->plan->nodes[node].level);
    }
    next_op(s);
}

/* Publishes a task: it waits, or can run. */
static void publish(sim *s, uint32_t node)
{
    s->left++;
    s->nodes[node].submitted = true;
    s->nodes[node].waiting = replay_room_count_edges(&s->room, node);
    if (!s->nodes[node].waiting) {
        make_ready(s, node, true);
        while (s->n_todo) {
            (void)complete(s, s->todo[--s->n_todo], NOBODY);
        }
    }
    if (replay_room_is_barrier(&s->room, node) && s->left) {
        begin_wait(s, WAITS_TASK, 0, 0); /* waits for all tasks, then continues */
        return;
    }
    submitted(s, node);
}

static void act(sim *s)
{
    const replay_op *op = &s->plan->ops[s->room.op];
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
        if (op->node == PTRACE_NONE ? s->left != 0 : !s->room.claims[op->node].complete) {
            begin_wait(s, WAITS_TASK, 0, 0);
            return;
        }
        for (uint32_t l = 0; op->node == PTRACE_NONE && l < s->room.n_levels; l++) {
            replay_room_recycle(&s->room, l);
        }
        break;
    }
    resume(s);
    next_op(s);
}

/* Continues a wait after something has changed. */
static void refill(sim *s)
{
    const replay_op *op = &s->plan->ops[s->room.op];
    if (s->mood == WAITS_TASK && op->what == REPLAY_SUBMIT) { /* a task that runs alone */
        if (s->left) {
            help(s);
            return;
        }
        resume(s);
        submitted(s, op->node);
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
    if (who == CALLER) { /* it first checks whether it still waits */
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
                refill(s);
            }
        } else {
            break;
        }
    }
    if (s->result->end == REPLAY_DONE && s->mood != OVER) { /* no worker serves a task */
        uint32_t node = 0;
        while (node + 1 < s->plan->n_tasks &&
               (!s->nodes[node].submitted || s->room.claims[node].complete ||
                s->nodes[node].waiting)) {
            node++;
        }
        s->result->end = REPLAY_NO_WORKER;
        s->result->node = node;
    }
    s->result->makespan = s->last;
}

void replay_run(const replay_plan *plan, const replay_machine *machine, const replay_marks *marks,
                replay_result *result)
{
    sim s = {.plan = plan, .machine = machine, .marks = marks, .result = result};
    memset(result, 0, sizeof *result);
    s.nodes = calloc((size_t)plan->n_nodes + 1, sizeof *s.nodes);
    s.todo = malloc(((size_t)plan->n_nodes + 1) * sizeof *s.todo);
    bool good = replay_room_make(&s.room, plan, &machine->rings, result->most) && s.nodes && s.todo;
    for (uint32_t k = 0; k < REPLAY_KINDS; k++) {
        s.idle[k] = machine->workers[k]; /* idle since the start */
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
    replay_room_free(&s.room);
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
