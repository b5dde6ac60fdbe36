/* scenario_parts.c - single structures: a ready queue, looks into the inbox, and parking. */
#include "base/os.h"
#include "scenario.h"
#include "scheduler/look.h"
#include "scheduler/park.h"
#include "scheduler/ready.h"

/* ---- Two workers on one queue ---- */

enum { QUEUE_TASKS = 2 }; /* pushed by each of two threads, through a queue of two */

static struct {
    ptoi_queue_ends ends;
    ptoi_queue_cell cells[4];
    ptoi_queue queue;
    ptoi_a32 left;    /* to pop */
    ptoi_a32 pushed;  /* no more than fit: a queue has room for every slot */
    uint32_t data[4]; /* plain, written before the push, read after the pop */
    ptoi_a32 popped[4];
} * q;

static void queue_prepare(void)
{
    q = world_memory(sizeof *q);
    q->queue = (ptoi_queue){.ends = &q->ends, .cells = q->cells, .mask = 3};
    ptoi_queue_reset(&q->queue, UINT32_MAX - 1); /* counters wrap */
    ptoi_set32(&q->left, 2 * QUEUE_TASKS);
    world_name(&q->ends.head, 4, 1, 4, "queue.head");
    world_name(&q->ends.tail, 4, 1, 4, "queue.tail");
    world_name(&q->cells[0].sequence, sizeof(ptoi_queue_cell), 4, 4, "queue.cell[%u].sequence");
    world_name(&q->cells[0].index, sizeof(ptoi_queue_cell), 4, 4, "queue.cell[%u].task");
    world_name(q->data, 4, 4, 4, "data[%u]");
    world_name(&q->left, 4, 1, 4, "left");
    world_name(q->popped, 4, 4, 4, "popped[%u]");
}

static void queue_push(void *context)
{
    const uint32_t first = (uint32_t)(uintptr_t)context;
    for (uint32_t i = first; i < first + QUEUE_TASKS; i++) {
        q->data[i] = i + 1;
        ptoi_queue_push(&q->queue, i);
    }
}

static void queue_pop(void *context)
{
    (void)context;
    while (ptoi_acquire32(&q->left)) {
        const uint32_t task = ptoi_queue_pop(&q->queue);
        if (task == PTOI_NONE) {
            ptoi_os_yield();
            continue;
        }
        world_check(task < 4 && q->data[task] == task + 1);
        q->data[task] = 0;
        world_check(ptoi_fetch_add32(&q->popped[task], 1) == 0);
        ptoi_fetch_add32(&q->left, (uint32_t)-1);
    }
}

static void queue_run(void)
{
    const uint32_t a = world_thread("pushes", queue_push, (void *)(uintptr_t)QUEUE_TASKS);
    const uint32_t b = world_thread("pops", queue_pop, NULL);
    queue_push((void *)(uintptr_t)0);
    queue_pop(NULL);
    world_join(a);
    world_join(b);
    for (uint32_t i = 0; i < 4; i++) {
        world_check(ptoi_get32(&q->popped[i]) == 1);
    }
    world_check(ptoi_queue_pop(&q->queue) == PTOI_NONE);
}

const scenario scenario_queue = {
    "queue", "two push into one ready queue, two pop: each task once, with what was written before",
    queue_prepare, queue_run, false};

/* ---- The queue wraps around ---- */

static void round_prepare(void)
{
    q = world_memory(sizeof *q);
    q->queue = (ptoi_queue){.ends = &q->ends, .cells = q->cells, .mask = 1};
    ptoi_queue_reset(&q->queue, UINT32_MAX);
    ptoi_set32(&q->left, 4);
    world_name(&q->ends.head, 4, 1, 4, "queue.head");
    world_name(&q->ends.tail, 4, 1, 4, "queue.tail");
    world_name(&q->cells[0].sequence, sizeof(ptoi_queue_cell), 2, 4, "queue.cell[%u].sequence");
    world_name(&q->cells[0].index, sizeof(ptoi_queue_cell), 2, 4, "queue.cell[%u].task");
    world_name(q->data, 4, 4, 4, "data[%u]");
    world_name(&q->left, 4, 1, 4, "left");
    world_name(&q->pushed, 4, 1, 4, "pushed");
    world_name(q->popped, 4, 4, 4, "popped[%u]");
}

static void round_run(void)
{
    const uint32_t a = world_thread("pops 1", queue_pop, NULL);
    const uint32_t b = world_thread("pops 2", queue_pop, NULL);
    for (uint32_t i = 0; i < 4; i++) {
        /* A queue has room for every slot, so never more tasks than that are in it. */
        while (i >= 2 && ptoi_acquire32(&q->left) > 4 - (i - 1)) {
            ptoi_os_yield();
        }
        q->data[i] = i + 1;
        ptoi_queue_push(&q->queue, i);
    }
    world_join(a);
    world_join(b);
}

const scenario scenario_queue_round = {
    "queue-round", "a queue of two cells, four tasks, two who pop: cells are taken again",
    round_prepare, round_run, false};

/* ---- Many workers, one look ---- */

enum { LOOK_TASKS = 2 };

static struct {
    ptoi_look look;
    ptoi_a64 inbox_head, claimed;
    uint32_t data[LOOK_TASKS]; /* plain, written before inbox_head */
    ptoi_a32 taken[LOOK_TASKS];
} * l;

static void look_prepare(void)
{
    l = world_memory(sizeof *l);
    world_name(&l->look.seen, 8, 1, 8, "look.seen");
    world_name(&l->look.next, 8, 1, 8, "look.next");
    world_name(&l->inbox_head, 8, 1, 8, "inbox_head");
    world_name(&l->claimed, 8, 1, 8, "inbox_claimed");
    world_name(l->data, 4, LOOK_TASKS, 4, "data[%u]");
    world_name(l->taken, 4, LOOK_TASKS, 4, "taken[%u]");
}

/* Claims until all are claimed. The clocks of the two differ: sometimes the one may look, sometimes the
 * other, and sometimes neither. */
static void look_claim(void *context)
{
    uint64_t now = (uint64_t)(uintptr_t)context * PTOI_LOOK_NS / 2;
    uint64_t at = ptoi_get64(&l->claimed);
    while (at < LOOK_TASKS) {
        const uint64_t head = ptoi_look_head(&l->look, &l->inbox_head, at, now);
        world_check(head >= at && head <= LOOK_TASKS);
        now += PTOI_LOOK_NS * 3 / 4;
        if (head == at) {
            ptoi_os_yield();
            at = ptoi_get64(&l->claimed);
        } else if (ptoi_cas64(&l->claimed, &at, at + 1)) {
            world_check(l->data[at] == at + 1);
            world_check(ptoi_fetch_add32(&l->taken[at], 1) == 0);
            at++;
        }
    }
}

static void look_run(void)
{
    const uint32_t a = world_thread("worker 1", look_claim, (void *)(uintptr_t)1);
    const uint32_t b = world_thread("worker 2", look_claim, (void *)(uintptr_t)2);
    for (uint32_t i = 0; i < LOOK_TASKS; i++) {
        l->data[i] = i + 1;
        ptoi_release64(&l->inbox_head, i + 1); /* W1 */
    }
    world_join(a);
    world_join(b);
    for (uint32_t i = 0; i < LOOK_TASKS; i++) {
        world_check(ptoi_get32(&l->taken[i]) == 1);
    }
}

const scenario scenario_look = {
    "look",
    "two workers claim what either of them saw: each task once, with what was written before",
    look_prepare, look_run, false};

/* ---- Park against wake ---- */

static struct {
    ptoi_wake_line line[2];
    ptoi_parker parker[2];
    ptoi_a32 idle;
    ptoi_a32 work; /* units of work to take */
    ptoi_a32 stop;
} * p;

static void park_prepare(void)
{
    p = world_memory(sizeof *p);
    for (int i = 0; i < 2; i++) {
        p->parker[i] = (ptoi_parker){.line = &p->line[i], .idle = &p->idle};
    }
    world_name(&p->idle, 4, 1, 4, "idle");
    world_name(&p->work, 4, 1, 4, "work");
    world_name(&p->stop, 4, 1, 4, "stop");
    world_name(&p->line[0].parked, sizeof p->line[0], 2, 4, "parker[%u].state");
    world_name(&p->line[0].parks, sizeof p->line[0], 2, 8, "parker[%u].parks");
}

static bool park_take(void)
{
    uint32_t there = ptoi_acquire32(&p->work);
    while (there) {
        if (ptoi_cas32(&p->work, &there, there - 1)) {
            return true;
        }
    }
    return false;
}

static void park_work(void *context)
{
    ptoi_parker *me = &p->parker[(uintptr_t)context];
    while (!ptoi_acquire32(&p->stop)) {
        if (park_take()) {
            continue;
        }
        ptoi_park_announce(me);
        if (ptoi_load_sc32(&p->stop) || ptoi_load_sc32(&p->work)) {
            ptoi_park_withdraw(me);
        } else {
            ptoi_park_sleep(me);
        }
    }
}

static void park_run(void)
{
    const uint32_t a = world_thread("sleeper 0", park_work, (void *)(uintptr_t)0);
    const uint32_t b = world_thread("sleeper 1", park_work, (void *)(uintptr_t)1);
    for (uint32_t i = 0; i < 2; i++) {
        ptoi_fetch_add32(&p->work, 1);
        if (ptoi_load_sc32(&p->idle)) {
            (void)(ptoi_park_wake(&p->parker[0]) || ptoi_park_wake(&p->parker[1]));
        }
    }
    while (ptoi_acquire32(&p->work)) { /* another thread takes it, not main */
        ptoi_os_yield();
    }
    ptoi_store_sc32(&p->stop, 1);
    (void)ptoi_park_wake(&p->parker[0]);
    (void)ptoi_park_wake(&p->parker[1]);
    world_join(a);
    world_join(b);
    world_check(ptoi_load_sc32(&p->idle) == 0);
}

const scenario scenario_park = {
    "park", "two go to sleep while work and the end are announced: nobody sleeps on", park_prepare,
    park_run, true};
