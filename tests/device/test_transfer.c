/* test_transfer.c - copies that go on by themselves (device/transfer.h), on devices that are made of
 * simulated memory and simulated streams. Their slots and stages are tiny, so most copies have many
 * pieces. */
#include "../op/rearranges.h"
#include "launches.h"

#include <unistd.h>

#include <pto/sim.h>

#include "base/atomic.h"
#include "device/copy.h"
#include "device/device.h"
#include "device/transfer.h"
#include "op/rearrange/plan.h"

/* nvidia:40 and nvidia:41, which no library knows, in the memory of sim:6. */
enum { SIM = 6, FIRST = 40, DEVICES = 2, SLOT = 200, STAGE = 600 };
static const pto_device a_device = {PTO_DEVICE_NVIDIA, FIRST},
                        b_device = {PTO_DEVICE_NVIDIA, FIRST + 1};

typedef struct fake {
    pto_device_ops sim;
    ptoi_transfer *transfer;
    ptoi_a32 pinned;               /* what is_pinned says */
    ptoi_a32 calls;                /* of carry and rearrange */
    ptoi_a32 fail;                 /* this call fails, from 1 on; 0: none */
    ptoi_a32 full;                 /* alloc finds no more than so many bytes; 0: no limit */
    ptoi_a32 closed;               /* the gate of copies to the device */
    ptoi_a64 pins, stages, staged; /* bytes of pin; of alloc by lanes; calls of rearrange */
} fake;

static fake fakes[DEVICES];

/* ---- The device ---- */

typedef struct on_stream {
    fake *f;
    char *to;
    const char *from;
    uint64_t bytes;
    bool in;
} on_stream;

static void carry_now(void *args)
{
    const on_stream *c = args;
    while (c->in && ptoi_acquire32(&c->f->closed)) {
        usleep(100);
    }
    memcpy(c->to + (c->in ? c->f->sim.shift : 0), c->from + (c->in ? 0 : c->f->sim.shift),
           c->bytes);
}

static pto_status count_call(fake *f)
{
    const uint32_t n = ptoi_fetch_add32(&f->calls, 1) + 1;
    return ptoi_get32(&f->fail) == n ? pto_fail(PTO_KERNEL_FAILED, "call %u was to fail", n)
                                     : PTO_OK;
}

static pto_status fake_carry(void *self, void *stream, void *to, const void *from, uint64_t bytes,
                             bool in)
{
    fake *f = self;
    PTO_TRY(count_call(f));
    return pto_sim_launch(stream, carry_now, &(on_stream){f, to, from, bytes, in},
                          sizeof(on_stream));
}

typedef struct layout {
    char *to;
    const char *from;
    int32_t ndim;
    uint32_t size;
    int64_t shape[PTO_MAX_DIMS], to_strides[PTO_MAX_DIMS], from_strides[PTO_MAX_DIMS];
    char element[8];
} layout;

static void rearrange_now(void *args)
{
    layout *l = args;
    ptoi_copy(l->ndim, l->shape, l->to, l->to_strides, l->from ? l->from : l->element,
              l->from_strides, l->size);
}

static char *inner(const fake *f, const pto_tensor *t)
{
    return (char *)t->storage + t->offset * (int64_t)pto_dtype_size(t->dtype) + f->sim.shift;
}

static layout layout_of(const fake *f, const pto_tensor *to, const pto_tensor *from)
{
    layout l = {.to = inner(f, to),
                .from = from ? inner(f, from) : NULL,
                .ndim = to->ndim,
                .size = (uint32_t)pto_dtype_size(to->dtype)};
    memcpy(l.shape, to->shape, sizeof l.shape);
    memcpy(l.to_strides, to->strides, sizeof l.to_strides);
    if (from) {
        memcpy(l.from_strides, from->strides, sizeof l.from_strides);
    }
    return l;
}

static pto_status fake_rearrange(void *self, void *stream, const pto_tensor *to,
                                 const pto_tensor *from)
{
    fake *f = self;
    const layout l = layout_of(f, to, from);
    ptoi_fetch_add64(&f->staged, 1);
    PTO_TRY(count_call(f));
    return pto_sim_launch(stream, rearrange_now, &l, sizeof l);
}

static pto_status fake_fill(void *self, void *stream, const pto_tensor *to, const void *element)
{
    fake *f = self;
    layout l = layout_of(f, to, NULL);
    memcpy(l.element, element, l.size);
    return pto_sim_launch(stream, rearrange_now, &l, sizeof l);
}

static pto_status fake_pin(void *self, uint64_t bytes, void **memory)
{
    static char slots[16][8 * SLOT];
    static ptoi_a32 next;
    fake *f = self;
    assert_true(bytes <= sizeof *slots);
    ptoi_fetch_add64(&f->pins, bytes);
    *memory = slots[ptoi_fetch_add32(&next, 1)];
    return PTO_OK;
}

static bool fake_is_pinned(void *self, const void *memory)
{
    (void)memory;
    return ptoi_get32(&((fake *)self)->pinned);
}

static pto_status fake_follow(void *self, void *stream)
{
    (void)self, (void)stream;
    return PTO_OK;
}

static pto_status fake_alloc(void *self, uint64_t bytes, void **memory)
{
    fake *f = self;
    const uint32_t full = ptoi_get32(&f->full);
    if (full && bytes > full) {
        return pto_fail(PTO_OUT_OF_MEMORY, "no %llu bytes", (unsigned long long)bytes);
    }
    ptoi_fetch_add64(&f->stages, bytes);
    return f->sim.alloc(f->sim.self, bytes, memory);
}

static pto_status fake_copy(void *self, const pto_tensor *to, const pto_tensor *from,
                            pto_device_done done, void *context)
{
    return ptoi_transfer_copy(((fake *)self)->transfer, to, from, done, context);
}

static pto_status fake_fill_all(void *self, const pto_tensor *to, const void *element,
                                pto_device_done done, void *context)
{
    return ptoi_transfer_fill(((fake *)self)->transfer, to, element, done, context);
}

/* These go to the simulated device. */
static void fake_free(void *self, void *memory, uint64_t bytes)
{
    const fake *f = self;
    f->sim.free(f->sim.self, memory, bytes);
}

static pto_status fake_copy_in(void *self, void *to, const void *from, uint64_t bytes)
{
    const fake *f = self;
    return f->sim.copy_in(f->sim.self, to, from, bytes);
}

static pto_status fake_copy_out(void *self, void *to, const void *from, uint64_t bytes)
{
    const fake *f = self;
    return f->sim.copy_out(f->sim.self, to, from, bytes);
}

static pto_status fake_stream_create(void *self, void **stream)
{
    const fake *f = self;
    return f->sim.stream_create(f->sim.self, stream);
}

static void fake_stream_destroy(void *self, void *stream)
{
    const fake *f = self;
    f->sim.stream_destroy(f->sim.self, stream);
}

static pto_status fake_event_create(void *self, void **event)
{
    const fake *f = self;
    return f->sim.event_create(f->sim.self, event);
}

static void fake_event_destroy(void *self, void *event)
{
    const fake *f = self;
    f->sim.event_destroy(f->sim.self, event);
}

static pto_status fake_event_record(void *self, void *event, void *stream)
{
    const fake *f = self;
    return f->sim.event_record(f->sim.self, event, stream);
}

static pto_status fake_event_query(void *self, void *event, bool *passed)
{
    const fake *f = self;
    return f->sim.event_query(f->sim.self, event, passed);
}

static pto_status fake_event_wait(void *self, void *stream, void *event)
{
    const fake *f = self;
    return f->sim.event_wait(f->sim.self, stream, event);
}

static int make_devices(void **state)
{
    (void)state;
    for (int i = 0; i < DEVICES; i++) {
        fake *f = &fakes[i];
        expect_ok(pto_device_get((pto_device){PTO_DEVICE_SIM, SIM}, &f->sim));
        pto_device_ops ops = {.size = sizeof ops,
                              .self = f,
                              .alloc = fake_alloc,
                              .free = fake_free,
                              .copy_in = fake_copy_in,
                              .copy_out = fake_copy_out,
                              .shift = f->sim.shift,
                              .streams = 4,
                              .stream_create = fake_stream_create,
                              .stream_destroy = fake_stream_destroy,
                              .event_create = fake_event_create,
                              .event_destroy = fake_event_destroy,
                              .event_record = fake_event_record,
                              .event_query = fake_event_query,
                              .event_wait = fake_event_wait};
        const ptoi_transfer_ops lanes = {.device = ops,
                                         .id = {PTO_DEVICE_NVIDIA, FIRST + i},
                                         .slot_bytes = SLOT,
                                         .stage_bytes = STAGE,
                                         .pin = fake_pin,
                                         .is_pinned = fake_is_pinned,
                                         .follow = fake_follow,
                                         .carry = fake_carry,
                                         .rearrange = fake_rearrange,
                                         .fill = fake_fill};
        expect_ok(ptoi_transfer_create(&lanes, &f->transfer));
        ops.copy = fake_copy;
        ops.fill = fake_fill_all;
        expect_ok(pto_device_add(lanes.id, &ops));
    }
    return 0;
}

/* ---- Copies against a naive loop ---- */

/* The arena once more, on the device. */
static char *there;

static pto_tensor on_device(pto_tensor t)
{
    t.storage = there + ((unsigned char *)t.storage - arena);
    t.device = a_device;
    return t;
}

static bool draw_pair(test_rng *rng, pto_tensor *dst, pto_tensor *src)
{
    int64_t shape[PTO_MAX_DIMS];
    const int32_t ndim = (int32_t)test_between(rng, 0, 6);
    const pto_dtype dtype = random_dtype(rng);
    for (int32_t d = 0; d < ndim; d++) {
        shape[d] = test_between(rng, 0, ndim > 3 ? 6 : ndim > 2 ? 14 : 60);
    }
    return count_of(ndim, shape) <= 3000 && place(rng, 0, dtype, ndim, shape, dst) &&
           place(rng, 1, dtype, ndim, shape, src);
}

/* In each direction and within the device: elements are where they should be, and nothing else was
 * touched on either side. */
static void random_copies(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    static unsigned char host_before[ARENA], far[ARENA];
    void *memory = NULL;
    expect_ok(fakes[0].sim.alloc(fakes[0].sim.self, ARENA, &memory));
    there = memory;
    for (uint64_t k = 0, n = test_effort(1500); k < n; k++) {
        pto_tensor dst, src;
        const int64_t way = test_between(&rng, 0, 2);
        if (!draw_pair(&rng, &dst, &src)) {
            continue;
        }
        scramble(&rng);
        memcpy(host_before, arena, ARENA);
        expect_ok(fakes[0].sim.copy_in(fakes[0].sim.self, there, arena, ARENA));
        ptoi_set32(&fakes[0].pinned, (uint32_t)test_between(&rng, 0, 1));
        const pto_tensor to = way == 1 ? dst : on_device(dst), from = way ? on_device(src) : src;
        if (way == 2 && meets_itself(&dst)) {
            continue; /* only the host copies in order */
        }
        expect_ok(ptoi_device_copy_wait(&to, &from));
        naive_copy(&dst, &src);
        expect_ok(fakes[0].sim.copy_out(fakes[0].sim.self, far, there, ARENA));
        assert_memory_equal(way == 1 ? far : arena, host_before, ARENA);
        assert_memory_equal(way == 1 ? arena : far, naive, ARENA);
    }
    /* Whatever was copied: 8 slots and one stage for each direction. */
    assert_true(ptoi_get64(&fakes[0].pins) <= UINT64_C(2) * 8 * SLOT);
    assert_true(ptoi_get64(&fakes[0].stages) <= UINT64_C(2) * STAGE);
    fakes[0].sim.free(fakes[0].sim.self, memory, ARENA);
}

/* What is dense after its dims are sorted needs neither the processor nor more pieces than slots. */
static void the_device_transposes(void **state)
{
    (void)state;
    enum { ROWS = 5, COLUMNS = 7 };
    static int32_t here[COLUMNS][ROWS], back[ROWS][COLUMNS];
    pto_tensor host, turned, far, dense;
    fake *f = &fakes[0];
    expect_ok(pto_tensor_empty(a_device, PTO_INT32, 2, DIMS(ROWS, COLUMNS), &far));
    expect_ok(
        pto_tensor_init(&host, here, sizeof here, PTO_INT32, 2, DIMS(COLUMNS, ROWS), NULL, 0));
    expect_ok(pto_tensor_permute(&host, (const int32_t[]){1, 0}, &turned));
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        here[i / ROWS][i % ROWS] = i;
    }
    ptoi_set32(&f->pinned, 1);
    const uint32_t calls = ptoi_get32(&f->calls);
    const uint64_t staged = ptoi_get64(&f->staged);
    expect_ok(ptoi_device_copy_wait(&far, &turned));
    assert_int_equal(ptoi_get32(&f->calls) - calls, 2); /* one dense copy, and one rearrange */
    assert_int_equal(ptoi_get64(&f->staged) - staged, 1);
    expect_ok(
        pto_tensor_init(&dense, back, sizeof back, PTO_INT32, 2, DIMS(ROWS, COLUMNS), NULL, 0));
    expect_ok(ptoi_device_copy_wait(&dense, &far));
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        assert_int_equal(back[i / COLUMNS][i % COLUMNS], here[i % COLUMNS][i / COLUMNS]);
    }
    ptoi_set32(&f->pinned, 0);
    expect_ok(pto_tensor_free(&far));
}

/* Two devices do not know each other: the copy goes through the host. */
static void between_devices(void **state)
{
    (void)state;
    static int16_t here[6][50], back[50][6];
    pto_tensor host, a, b, turned, got;
    for (int i = 0; i < 300; i++) {
        here[i / 50][i % 50] = (int16_t)(i * 7);
    }
    expect_ok(pto_tensor_init(&host, here, sizeof here, PTO_INT16, 2, DIMS(6, 50), NULL, 0));
    expect_ok(pto_tensor_init(&got, back, sizeof back, PTO_INT16, 2, DIMS(50, 6), NULL, 0));
    expect_ok(pto_tensor_empty(a_device, PTO_INT16, 2, DIMS(6, 50), &a));
    expect_ok(pto_tensor_empty(b_device, PTO_INT16, 2, DIMS(50, 6), &b));
    expect_ok(ptoi_device_copy_wait(&a, &host));
    expect_ok(pto_tensor_permute(&a, (const int32_t[]){1, 0}, &turned));
    expect_ok(ptoi_device_copy_wait(&b, &turned));
    expect_ok(ptoi_device_copy_wait(&got, &b));
    for (int i = 0; i < 300; i++) {
        assert_int_equal(back[i % 50][i / 50], here[i / 50][i % 50]);
    }
    expect_ok(pto_tensor_free(&a));
    expect_ok(pto_tensor_free(&b));
}

/* ---- Tasks ---- */

typedef struct rig {
    pto_runtime *rt;
    uint64_t here[4][64];
    pto_tensor host[4], far[4];
} rig;

static rig *rig_make(void)
{
    static rig r;
    memset(&r, 0, sizeof r);
    launch_must(pto_runtime_create(&r.rt, NULL));
    for (int i = 0; i < 4; i++) {
        launch_must(
            pto_external_tensor(r.rt, r.here[i], PTO_UINT64, 1, (int64_t[]){64}, &r.host[i]));
        launch_must(pto_tensor_empty(a_device, PTO_UINT64, 1, (int64_t[]){64}, &r.far[i]));
        for (int k = 0; k < 64; k++) {
            r.here[i][k] = (uint64_t)(1000 * i + k);
        }
    }
    return &r;
}

static void rig_end(rig *r)
{
    PTO_IGNORE(pto_clear_error(r->rt));
    launch_must(pto_runtime_destroy(&r->rt, PTO_WAIT));
    for (int i = 0; i < 4; i++) {
        launch_must(pto_tensor_free(&r->far[i]));
    }
}

static pto_task_state state_of(rig *r, pto_task task)
{
    pto_task_report report;
    launch_must(pto_task_info(r->rt, task, &report));
    return report.state;
}

/* While a copy to the device goes on, the worker serves the next tasks: a copy to the host, and one
 * within the device. */
static void a_copy_keeps_no_worker(void **state)
{
    (void)state;
    rig *r = rig_make();
    fake *f = &fakes[0];
    launch_must(pto_copy(r->rt, &r->far[1], &r->host[1]));
    launch_must(pto_wait(r->rt));
    ptoi_release32(&f->closed, 1);
    launch_must(pto_copy(r->rt, &r->far[0], &r->host[0]));
    const pto_task in = pto_last_task(r->rt);
    launch_must(pto_copy(r->rt, &r->host[2], &r->far[1]));
    const pto_task out = pto_last_task(r->rt);
    launch_must(pto_copy(r->rt, &r->far[3], &r->far[1]));
    const pto_task within = pto_last_task(r->rt);
    launch_must(pto_wait_task(r->rt, out));
    launch_must(pto_wait_task(r->rt, within));
    assert_int_equal(r->here[2][63], 1063);
    assert_int_equal(state_of(r, in), PTO_TASK_RUNNING);
    ptoi_release32(&f->closed, 0);
    launch_must(pto_wait(r->rt));
    assert_true(state_of(r, in) >= PTO_TASK_COMPLETED);
    rig_end(r);
}

/* A copy of which call `n` fails, while the first one is held up: the task does not end before what was
 * put on the stream, because that uses its memory. The next copy works. */
static void expect_late_failure(rig *r, const pto_tensor *to, const pto_tensor *from, uint32_t n)
{
    fake *f = &fakes[0];
    pto_failure failure;
    bool failed;
    const uint32_t which = ptoi_get32(&f->calls) + n;
    ptoi_release32(&f->closed, 1);
    ptoi_set32(&f->fail, which);
    launch_must(pto_copy(r->rt, to, from));
    const pto_task copy = pto_last_task(r->rt);
    for (int i = 0; i < 10000 && ptoi_acquire32(&f->calls) < which; i++) {
        usleep(1000);
    }
    usleep(20000);
    assert_int_equal(state_of(r, copy), PTO_TASK_RUNNING);
    ptoi_release32(&f->closed, 0);
    assert_int_equal(pto_wait(r->rt), PTO_TASK_FAILED);
    ptoi_set32(&f->fail, 0);
    launch_must(pto_get_failure(r->rt, &failed, &failure));
    assert_true(failed);
    assert_int_equal(failure.status, PTO_KERNEL_FAILED);
    assert_non_null(strstr(failure.message, "was to fail"));
    launch_must(pto_clear_error(r->rt));
    launch_must(pto_copy(r->rt, to, from));
    launch_must(pto_wait(r->rt));
}

static void a_piece_that_fails(void **state)
{
    (void)state;
    rig *r = rig_make();
    pto_tensor square, here;
    expect_late_failure(r, &r->far[0], &r->host[0], 3); /* 512 bytes: the last of three pieces */
    launch_must(pto_copy(r->rt, &r->host[3], &r->far[0]));
    launch_must(pto_wait(r->rt)); /* calls are counted */
    assert_int_equal(r->here[3][63], 63);
    /* The rearrange of the only piece, which is on its way. */
    launch_must(pto_tensor_slice(&r->far[1], 0, 0, 16, 1, &square));
    launch_must(pto_tensor_reshape(&square, 2, (int64_t[]){4, 4}, &square));
    launch_must(pto_tensor_permute(&square, (const int32_t[]){1, 0}, &square));
    launch_must(pto_tensor_slice(&r->host[1], 0, 0, 16, 1, &here));
    launch_must(pto_tensor_reshape(&here, 2, (int64_t[]){4, 4}, &here));
    expect_late_failure(r, &square, &here, 2);
    rig_end(r);
}

/* A device that is lost fails the copies that go on, and those after it until it works again. */
static void a_lost_device(void **state)
{
    (void)state;
    rig *r = rig_make();
    fake *f = &fakes[0];
    ptoi_release32(&f->closed, 1);
    launch_must(pto_copy(r->rt, &r->far[0], &r->host[0]));
    launch_must(pto_sim_fail(SIM, PTO_SIM_FAIL_LOST, 1));
    void *memory = NULL;
    assert_int_equal(f->sim.alloc(f->sim.self, 64, &memory), PTO_DEVICE_LOST);
    ptoi_release32(&f->closed, 0);
    assert_int_equal(pto_wait(r->rt), PTO_TASK_FAILED);
    pto_failure failure;
    bool failed;
    launch_must(pto_get_failure(r->rt, &failed, &failure));
    assert_int_equal(failure.status, PTO_DEVICE_LOST);
    assert_non_null(strstr(failure.message, "is lost"));
    launch_must(pto_clear_error(r->rt));
    launch_must(pto_copy(r->rt, &r->host[1], &r->far[1]));
    assert_int_equal(pto_wait(r->rt), PTO_TASK_FAILED);
    launch_must(pto_clear_error(r->rt));
    launch_must(pto_sim_repair(SIM));
    launch_must(pto_copy(r->rt, &r->far[0], &r->host[2]));
    launch_must(pto_copy(r->rt, &r->host[3], &r->far[0]));
    launch_must(pto_wait(r->rt));
    assert_int_equal(r->here[3][1], 2001);
    rig_end(r);
}

static void fills(void **state)
{
    (void)state;
    rig *r = rig_make();
    pto_tensor odd;
    launch_must(pto_copy(r->rt, &r->far[0], &r->host[0]));
    launch_must(pto_tensor_slice(&r->far[0], 0, 1, 64, 2, &odd));
    launch_must(pto_submit_work(r->rt,
                                &(pto_work){.opcode = PTO_WORK_FILL,
                                            .outputs = &odd,
                                            .n_outputs = 1,
                                            .params = {UINT64_C(0x1234567890abcdef)}},
                                NULL));
    launch_must(pto_copy(r->rt, &r->host[1], &r->far[0]));
    launch_must(pto_wait(r->rt));
    for (uint64_t k = 0; k < 64; k++) {
        assert_true(r->here[1][k] == (k % 2 ? UINT64_C(0x1234567890abcdef) : k));
    }
    rig_end(r);
}

/* Almost no memory is left on the device: a stage is smaller, or the copy fails with the reason. */
static void a_full_device(void **state)
{
    (void)state;
    fake *f = &fakes[1]; /* whose lanes have no stage for copies to it yet */
    static uint64_t here[40][3], back[3][40];
    pto_tensor host, far, turned, got;
    expect_ok(pto_tensor_empty(b_device, PTO_UINT64, 2, DIMS(3, 40), &far));
    expect_ok(pto_tensor_init(&host, here, sizeof here, PTO_UINT64, 2, DIMS(40, 3), NULL, 0));
    expect_ok(pto_tensor_init(&got, back, sizeof back, PTO_UINT64, 2, DIMS(3, 40), NULL, 0));
    expect_ok(pto_tensor_permute(&host, (const int32_t[]){1, 0}, &turned));
    for (int i = 0; i < 120; i++) {
        here[i / 3][i % 3] = (uint64_t)i;
    }
    ptoi_set32(&f->full, 1);
    expect_fail(ptoi_device_copy_wait(&far, &turned), PTO_OUT_OF_MEMORY, "no 37 bytes");
    ptoi_set32(&f->full, 150);
    expect_ok(ptoi_device_copy_wait(&far, &turned));
    ptoi_set32(&f->full, 0);
    expect_ok(ptoi_device_copy_wait(&got, &far));
    for (int i = 0; i < 120; i++) {
        assert_int_equal(back[i / 40][i % 40], here[i % 40][i / 40]);
    }
    expect_ok(pto_tensor_free(&far));
}

/* ---- Random programs ---- */

static void compute(void *args)
{
    const launch_work *w = args;
    launch_compute(w);
    if (w->way == LAUNCH_PENDING) {
        PTO_IGNORE(pto_task_complete(w->rt, w->task, PTO_OK));
    }
}

static pto_status mix(const pto_call *call)
{
    const launch_work w = launch_work_of(call);
    if (w.way == LAUNCH_FAIL) {
        return pto_fail(PTO_KERNEL_FAILED, "was to fail");
    }
    PTO_TRY(pto_sim_launch(call->stream, compute, &w, sizeof w));
    return w.way == LAUNCH_PENDING ? PTO_PENDING
           : w.way == LAUNCH_BREAK ? pto_fail(PTO_KERNEL_FAILED, "was to break")
                                   : PTO_OK;
}

static void random_programs(void **state)
{
    (void)state;
    const uint64_t one = test_env("PTO_TEST_PROGRAM", UINT64_MAX);
    for (uint64_t i = 0, count = test_effort(200); i < count; i++) {
        const uint64_t seed = one != UINT64_MAX ? one : (test_seed() << 32) + i;
        ptoi_set32(&fakes[0].pinned, seed % 2);
        launch_run(seed, a_device, mix, true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_copies),
        cmocka_unit_test(the_device_transposes),
        cmocka_unit_test(between_devices),
        cmocka_unit_test(a_copy_keeps_no_worker),
        cmocka_unit_test(a_piece_that_fails),
        cmocka_unit_test(a_lost_device),
        cmocka_unit_test(fills),
        cmocka_unit_test(a_full_device),
        cmocka_unit_test(random_programs),
    };
    return cmocka_run_group_tests(tests, make_devices, NULL);
}
