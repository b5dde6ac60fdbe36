/* scenario_streams.c - a device with two streams: kernels launch, and each stream is a thread that
 * carries out what it was given. What is launched works on plain memory, so a missing order between
 * streams, or with the host, is a race. */
#include <string.h>

#include <pto/device.h>
#include <pto/work.h>

#include "rig.h"

static const pto_device device = {PTO_DEVICE_QY, 0};

enum { STREAMS = 2, ITEMS = 24, EVENTS = 80 };

typedef enum item_kind {
    ITEM_SET,
    ITEM_ADD,
    ITEM_TWICE,
    ITEM_SIGNAL, /* tells another thread that it is its turn */
    ITEM_RECORD,
    ITEM_WAIT,
} item_kind;

/* Written before `put` of its stream is released. */
typedef struct item {
    item_kind kind;
    int64_t *out, value;
    const int64_t *in[2];
    uint32_t n_in;
    struct mark *event;
    uint32_t record;
    pto_task task; /* of ITEM_SIGNAL */
} item;

typedef struct queue {
    ptoi_a32 put; /* released by the launcher, acquired by the stream */
    item items[ITEMS];
} queue;

/* `passed` is released by the stream, and acquired by whoever waits; `recorded` is the launcher's. */
typedef struct mark {
    ptoi_a32 passed;
    uint32_t recorded;
} mark;

static struct gpu {
    queue queue[STREAMS];
    mark marks[EVENTS];
    uint32_t n_queues, n_marks;
    ptoi_a32 over; /* released by the program at the end */
} * gpu;

/* ---- The streams ---- */

static void carry_out(const item *it)
{
    int64_t sum = 0;
    switch (it->kind) {
    case ITEM_SET:
        *it->out = it->value;
        break;
    case ITEM_ADD:
        for (uint32_t i = 0; i < it->n_in; i++) {
            sum += *it->in[i];
        }
        *it->out = sum;
        break;
    case ITEM_TWICE:
        *it->out *= 2;
        break;
    case ITEM_SIGNAL:
        ptoi_release64(&r->pending, it->task);
        break;
    case ITEM_RECORD:
        ptoi_release32(&it->event->passed, it->record);
        break;
    case ITEM_WAIT:
        while (ptoi_acquire32(&it->event->passed) < it->record) {
            ptoi_os_yield();
        }
        break;
    }
}

static void run_stream(void *context)
{
    queue *q = context;
    for (uint32_t done = 0;;) {
        if (done < ptoi_acquire32(&q->put)) {
            carry_out(&q->items[done++]);
        } else if (ptoi_acquire32(&gpu->over)) {
            return;
        } else {
            ptoi_os_yield();
        }
    }
}

static void give(void *stream, const item *it)
{
    queue *q = stream;
    const uint32_t at = ptoi_get32(&q->put);
    world_check(at < ITEMS);
    q->items[at] = *it;
    ptoi_release32(&q->put, at + 1);
}

/* ---- The functions of the device ---- */

static pto_status stream_create(void *self, void **stream)
{
    (void)self;
    *stream = &gpu->queue[gpu->n_queues++];
    return PTO_OK;
}

static pto_status event_create(void *self, void **event)
{
    (void)self;
    world_check(gpu->n_marks < EVENTS);
    *event = &gpu->marks[gpu->n_marks++];
    return PTO_OK;
}

static void destroy_nothing(void *self, void *it)
{
    (void)self;
    (void)it;
}

static pto_status event_record(void *self, void *event, void *stream)
{
    mark *m = event;
    (void)self;
    give(stream, &(item){.kind = ITEM_RECORD, .event = m, .record = ++m->recorded});
    return PTO_OK;
}

static pto_status event_wait(void *self, void *stream, void *event)
{
    mark *m = event;
    (void)self;
    give(stream, &(item){.kind = ITEM_WAIT, .event = m, .record = m->recorded});
    return PTO_OK;
}

static pto_status event_query(void *self, void *event, bool *passed)
{
    mark *m = event;
    (void)self;
    *passed = ptoi_acquire32(&m->passed) >= m->recorded;
    return PTO_OK;
}

static pto_status alloc_nothing(void *self, uint64_t bytes, void **memory)
{
    (void)self;
    (void)bytes;
    *memory = NULL;
    return PTO_OUT_OF_MEMORY;
}

static void free_nothing(void *self, void *memory, uint64_t bytes)
{
    (void)self;
    (void)memory;
    (void)bytes;
}

static pto_status copy(void *self, const pto_tensor *to, const pto_tensor *from,
                       pto_device_done done, void *context)
{
    (void)self;
    *(int64_t *)to->storage = *(const int64_t *)from->storage;
    done(context, PTO_OK);
    return PTO_OK;
}

/* Kernels: `user` says which. */
static pto_status launch(const pto_call *call)
{
    item it = {.kind = (item_kind)(uintptr_t)call->user};
    const uint32_t tensors = call->n_args - (it.kind == ITEM_SET);
    it.out = call->args[tensors - 1].data;
    it.value = call->args[call->n_args - 1].i64;
    for (uint32_t i = 0; i + 1 < tensors; i++) {
        it.in[it.n_in++] = call->args[i].data;
    }
    give(call->stream, &it);
    return PTO_OK;
}

static pto_status launch_pending(const pto_call *call)
{
    give(call->stream, &(item){.kind = ITEM_SIGNAL, .task = call->task});
    return PTO_PENDING;
}

static pto_status refuse(const pto_call *call)
{
    (void)call;
    return PTO_TASK_FAILED;
}

static void prepare(void)
{
    const pto_device_ops ops = {.size = sizeof ops,
                                .alloc = alloc_nothing,
                                .free = free_nothing,
                                .copy = copy,
                                .streams = STREAMS,
                                .stream_create = stream_create,
                                .stream_destroy = destroy_nothing,
                                .event_create = event_create,
                                .event_destroy = destroy_nothing,
                                .event_record = event_record,
                                .event_query = event_query,
                                .event_wait = event_wait};
    gpu = world_memory(sizeof *gpu);
    world_name(gpu->marks, sizeof *gpu->marks, EVENTS, sizeof *gpu->marks, "event[%u]");
    world_name(gpu->queue, sizeof *gpu->queue, STREAMS, sizeof *gpu->queue, "stream[%u]");
    world_check(pto_device_add(device, &ops) == PTO_OK);
    pto_config c = rig_config(0, PTO_PLACE_INLINE);
    c.device = device;
    rig_create(&c);
    const struct {
        pto_kernel kernel;
        pto_kernel_fn fn;
        item_kind kind;
    } variants[] = {{r->set, launch, ITEM_SET},
                    {r->add, launch, ITEM_ADD},
                    {r->twice, launch, ITEM_TWICE},
                    {r->pend, launch_pending, ITEM_TWICE},
                    {r->fail, refuse, ITEM_TWICE}};
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        world_check(pto_kernel_variant(r->rt, variants[i].kernel, device.type, variants[i].fn,
                                       (void *)(uintptr_t)variants[i].kind) == PTO_OK);
    }
    world_name_thread(1, "launcher");
    world_name_thread(2, "copies");
    for (uint32_t i = 0; i < 5; i++) { /* the others are on the host */
        r->t[i].device = device;
    }
}

/* The streams are threads of the world while `program` runs. */
static void with_streams(void (*program)(void))
{
    uint32_t threads[STREAMS];
    threads[0] = world_thread("stream 0", run_stream, &gpu->queue[0]);
    threads[1] = world_thread("stream 1", run_stream, &gpu->queue[1]);
    program();
    ptoi_release32(&gpu->over, 1);
    world_join(threads[0]);
    world_join(threads[1]);
}

/* ---- A fork and a join on the device; then the host reads ---- */

static void fork_program(void)
{
    rig_submit(r->set, pto_output(&r->t[0]), pto_scalar(5));
    rig_submit(r->add, pto_input(&r->t[0]), pto_output(&r->t[1]));
    rig_submit(r->add, pto_input(&r->t[0]), pto_output(&r->t[2]));
    rig_submit(r->add, pto_input(&r->t[1]), pto_input(&r->t[2]), pto_output(&r->t[3]));
    world_check(pto_copy(r->rt, &r->t[5], &r->t[3]) == PTO_OK);
    world_check(pto_wait(r->rt) == PTO_OK);
    world_check(r->cell[5] == 10);
}

static void fork_run(void)
{
    with_streams(fork_program);
}

const scenario scenario_streams = {
    "streams", "a fork and a join on two streams of a device, and a copy to the host", prepare,
    fork_run, false};

/* ---- A copy overwrites what a launched task reads ---- */

static void overwrite_program(void)
{
    rig_submit(r->set, pto_output(&r->t[0]), pto_scalar(5));
    rig_submit(r->add, pto_input(&r->t[0]), pto_output(&r->t[1]));
    r->cell[5] = 9;
    world_check(pto_copy(r->rt, &r->t[0], &r->t[5]) == PTO_OK);
    rig_submit(r->twice, pto_inout(&r->t[0]));
    world_check(pto_wait(r->rt) == PTO_OK);
    world_check(r->cell[0] == 18 && r->cell[1] == 5);
}

static void overwrite_run(void)
{
    with_streams(overwrite_program);
}

const scenario scenario_streams_overwrite = {
    "streams-overwrite", "a copy from the host overwrites what a launched task reads", prepare,
    overwrite_run, false};

/* ---- A task is skipped behind one that is launched; a copy overwrites what both would write ---- */

static void skip_program(void)
{
    rig_submit(r->fail, pto_output(&r->t[1]));
    rig_submit(r->set, pto_output(&r->t[0]), pto_scalar(5));
    rig_submit(r->add, pto_input(&r->t[1]), pto_output(&r->t[0])); /* skipped; covers the first */
    r->cell[5] = 9;
    world_check(pto_copy(r->rt, &r->t[0], &r->t[5]) == PTO_OK);
    world_check(pto_wait(r->rt) == PTO_TASK_FAILED);
    world_check(r->cell[0] == 9);
}

static void skip_run(void)
{
    with_streams(skip_program);
}

const scenario scenario_streams_skip = {"streams-skip",
                                        "a skipped task stands between a launched one and a copy",
                                        prepare, skip_run, false};

/* ---- A pending kernel between two that are launched: another thread does its work ---- */

static void finish_pending(void *context)
{
    pto_task task;
    (void)context;
    while (!(task = ptoi_acquire64(&r->pending))) {
        ptoi_os_yield();
    }
    r->cell[0] *= 2;
    world_check(pto_task_complete(r->rt, task, PTO_OK) == PTO_OK);
}

static void pend_program(void)
{
    (void)world_thread("finishes", finish_pending, NULL);
    rig_submit(r->set, pto_output(&r->t[0]), pto_scalar(5));
    rig_submit(r->pend, pto_inout(&r->t[0]));
    rig_submit(r->add, pto_input(&r->t[0]), pto_output(&r->t[1]));
    world_check(pto_wait(r->rt) == PTO_OK);
    world_check(r->cell[1] == 10);
}

static void pend_run(void)
{
    with_streams(pend_program);
}

const scenario scenario_streams_pend = {
    "streams-pend", "a pending kernel of a device between two launches", prepare, pend_run, false};
