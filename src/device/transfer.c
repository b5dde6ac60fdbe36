#include "device/transfer.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pto/pto.h>

#include "base/atomic.h"
#include "base/error.h"
#include "base/os.h"
#include "base/thread.h"
#include "device/device.h"
#include "op/rearrange/rearrange.h"

enum {
    SLOTS = 8,
    SPIN_NS = 50000,       /* without progress: then the thread sleeps between polls */
    NAP_US = 20,           /* between two polls */
    STREAM_FROM = 1 << 16, /* bytes: what comes from the device is written past the caches */
};

typedef enum way { IN, OUT, WITHIN, WAYS } way;

/* One copy or fill. The giver makes it; from then on it belongs to the thread of its lane. */
typedef struct job {
    struct job *next;
    pto_tensor to, from; /* of a fill: `from` means nothing */
    char element[8];
    bool fills;
    bool begun;         /* all its pieces are */
    uint32_t in_flight; /* pieces that were begun and have not passed */
    pto_status status;  /* the first error, and its detail */
    char why[512];
    pto_device_done done;
    void *context;
} job;

/* A piece that was begun. */
typedef struct slot {
    void *event;
    char *memory; /* pinned */
    job *job;
    bool lands; /* `memory` is unpacked to `host` when the event has passed */
    pto_tensor host;
} slot;

typedef struct lane {
    ptoi_transfer *of;
    way way;
    pthread_mutex_t lock; /* protects what follows, down to `forks` */
    job *first, **last;   /* the queue */
    bool started;
    uint32_t forks; /* ptoi_os_forks when the thread was started: a child has none */
    ptoi_a32 given; /* jobs so far. Giver: with the lock, then wakes. Thread: sleeps on it */
    /* All that follows belongs to the thread. */
    void *stream; /* NULL: not open */
    char *pinned, *stage;
    uint64_t stage_bytes;
    slot slots[SLOTS];
    uint64_t begun, ended;
    uint64_t busy; /* ptoi_os_clock when there was progress last */
} lane;

struct ptoi_transfer {
    ptoi_transfer_ops ops;
    lane lane[WAYS];
};

/* ---- Ending ---- */

static void note(job *j, pto_status status)
{
    if (status && !j->status) {
        j->status = status;
        snprintf(j->why, sizeof j->why, "%s", pto_error_detail());
    }
}

static void finish(job *j)
{
    if (j->status) {
        (void)ptoi_fail(j->status, "%s", j->why); /* the detail of this thread is for `done` */
    }
    j->done(j->context, j->status);
    free(j);
}

static void *first_of(const pto_tensor *t)
{
    return (char *)t->storage + t->offset * (int64_t)pto_dtype_size(t->dtype);
}

/* Copies on the host, from a tensor to dense memory and back. */
static void pack(char *dense, const pto_tensor *host)
{
    int64_t strides[PTO_MAX_DIMS];
    ptoi_dense_strides(host->ndim, host->shape, strides);
    ptoi_copy(host->ndim, host->shape, dense, strides, first_of(host), host->strides,
              (uint32_t)pto_dtype_size(host->dtype));
}

static void unpack(const pto_tensor *host, const char *dense)
{
    ptoi_plan plan;
    int64_t strides[PTO_MAX_DIMS];
    ptoi_dense_strides(host->ndim, host->shape, strides);
    ptoi_plan_make_with(&plan, host->ndim, host->shape, host->strides, strides,
                        (uint32_t)pto_dtype_size(host->dtype), (uintptr_t)first_of(host), NULL,
                        STREAM_FROM);
    ptoi_plan_run(&plan, first_of(host), dense);
}

/* The oldest piece is over: it has passed, or the device is lost (`status`). */
static void end_piece(lane *l, pto_status status)
{
    slot *s = &l->slots[l->ended++ % SLOTS];
    job *j = s->job;
    note(j, status);
    if (s->lands && !status) {
        unpack(&s->host, s->memory);
    }
    if (--j->in_flight == 0 && j->begun) {
        finish(j);
    }
}

/* Ends the pieces that have passed. Returns whether there were any. */
static bool end_passed(lane *l)
{
    const pto_device_ops *ops = &l->of->ops.device;
    const uint64_t before = l->ended;
    while (l->ended < l->begun) {
        bool passed = false;
        const pto_status s = ops->event_query(ops->self, l->slots[l->ended % SLOTS].event, &passed);
        if (!s && !passed) {
            break;
        }
        end_piece(l, s);
    }
    return l->ended != before;
}

/* Nothing has passed, and maybe nothing is there to do. `given`: jobs when that was seen. */
static void rest(lane *l, uint32_t given)
{
    if (l->begun == l->ended) {
        ptoi_os_sleep(&l->given, given);
        l->busy = ptoi_os_clock();
    } else if (ptoi_os_clock() - l->busy < SPIN_NS) {
        ptoi_relax();
    } else {
        ptoi_os_nap(&l->given, given, NAP_US);
    }
}

/* ---- Pieces ---- */

/* The next slot, as soon as it is free. */
static slot *take(lane *l)
{
    while (l->begun - l->ended == SLOTS) {
        if (end_passed(l)) {
            l->busy = ptoi_os_clock();
        } else {
            rest(l, ptoi_acquire32(&l->given));
        }
    }
    return &l->slots[l->begun % SLOTS];
}

/* All of a piece is on the stream. After a failure that may be a part of it: the memory of the piece
 * is in use until the event has passed all the same. */
static pto_status put(lane *l, slot *s, job *j, pto_status status)
{
    const pto_device_ops *ops = &l->of->ops.device;
    note(j, status);
    const pto_status marked = ops->event_record(ops->self, s->event, l->stream);
    if (!marked) {
        s->job = j;
        s->lands &= !status;
        j->in_flight++;
        l->begun++;
    }
    return status ? status : marked;
}

static pto_status need_pinned(lane *l)
{
    const ptoi_transfer_ops *ops = &l->of->ops;
    if (!l->pinned) {
        void *memory = NULL;
        PTO_TRY(ops->pin(ops->device.self, SLOTS * ops->slot_bytes, &memory));
        l->pinned = memory;
        for (uint32_t i = 0; i < SLOTS; i++) {
            l->slots[i].memory = l->pinned + i * ops->slot_bytes;
        }
    }
    return PTO_OK;
}

/* A device that is almost full has a smaller stage. */
static pto_status need_stage(lane *l)
{
    enum { LEAST = 16 };
    const ptoi_transfer_ops *ops = &l->of->ops;
    pto_status s = PTO_OK;
    for (uint64_t bytes = ops->stage_bytes; !l->stage; bytes /= 2) {
        void *memory = NULL;
        s = ops->device.alloc(ops->device.self, bytes, &memory);
        l->stage = s ? NULL : memory;
        l->stage_bytes = s ? 0 : bytes;
        if (s && bytes / 2 < ops->stage_bytes / LEAST) {
            return s;
        }
    }
    return PTO_OK;
}

/* Puts a dense piece on the stream: between `here` on the host and the tensor `there`. */
static pto_status carry(lane *l, char *here, const pto_tensor *there, uint64_t bytes)
{
    const ptoi_transfer_ops *ops = &l->of->ops;
    void *self = ops->device.self;
    if (pto_tensor_is_contiguous(there)) {
        return l->way == IN ? ops->carry(self, l->stream, first_of(there), here, bytes, true)
                            : ops->carry(self, l->stream, here, first_of(there), bytes, false);
    }
    pto_tensor stage;
    PTO_TRY(
        pto_tensor_init(&stage, l->stage, bytes, there->dtype, there->ndim, there->shape, NULL, 0));
    stage.device = there->device;
    if (l->way == IN) {
        PTO_TRY(ops->carry(self, l->stream, l->stage, here, bytes, true));
        return ops->rearrange(self, l->stream, there, &stage);
    }
    PTO_TRY(ops->rearrange(self, l->stream, &stage, there));
    return ops->carry(self, l->stream, here, l->stage, bytes, false);
}

/* Begins one piece. `direct`: the host's side is dense and pinned. */
static pto_status begin_piece(lane *l, job *j, const pto_tensor *host, const pto_tensor *there,
                              bool direct)
{
    slot *s = take(l);
    uint64_t bytes;
    PTO_TRY(pto_tensor_nbytes(host, &bytes));
    if (j->status) {
        return j->status; /* the device was lost meanwhile */
    }
    if (!direct && l->way == IN) {
        pack(s->memory, host);
    }
    s->lands = !direct && l->way == OUT;
    s->host = *host;
    return put(l, s, j, carry(l, direct ? first_of(host) : s->memory, there, bytes));
}

/* ---- Cutting ---- */

/* Dims in the order of the host's strides, the largest first. */
static void sort_dims(pto_tensor *host, pto_tensor *there)
{
    for (int32_t d = 1; d < host->ndim; d++) {
        for (int32_t k = d; k > 0 && llabs(host->strides[k]) > llabs(host->strides[k - 1]); k--) {
            pto_tensor *both[] = {host, there};
            for (int side = 0; side < 2; side++) {
                pto_tensor *t = both[side];
                const int64_t count = t->shape[k], stride = t->strides[k];
                t->shape[k] = t->shape[k - 1];
                t->strides[k] = t->strides[k - 1];
                t->shape[k - 1] = count;
                t->strides[k - 1] = stride;
            }
        }
    }
}

/* The same memory as bytes. */
static pto_status as_bytes(pto_tensor *t)
{
    uint64_t bytes;
    const pto_device device = t->device;
    PTO_TRY(pto_tensor_nbytes(t, &bytes));
    PTO_TRY(
        pto_tensor_init(t, first_of(t), bytes, PTO_UINT8, 1, (int64_t[]){(int64_t)bytes}, NULL, 0));
    t->device = device;
    return PTO_OK;
}

/* A part of a tensor: elements index[d - 1] .. + count of dim d - 1, at index[k] of the dims k
 * before it, and all of those behind it. */
static pto_tensor part_of(const pto_tensor *t, int32_t d, const int64_t *index, int64_t count)
{
    pto_tensor part = *t;
    part.ndim = t->ndim - (d - 1);
    for (int32_t k = 0; k < d; k++) {
        part.offset += index[k] * t->strides[k];
    }
    for (int32_t k = 0; k < PTO_MAX_DIMS; k++) {
        const int32_t old = k + d - 1;
        part.shape[k] = k < part.ndim ? t->shape[old] : 0;
        part.strides[k] = k < part.ndim ? t->strides[old] : 0;
    }
    part.shape[0] = count;
    return part;
}

/* Begins all pieces, each of at most `most` bytes, in the order of their elements. */
static pto_status begin_pieces(lane *l, job *j, const pto_tensor *host, const pto_tensor *there,
                               uint64_t most, bool direct)
{
    int32_t d = host->ndim; /* dims from d on are never cut */
    uint64_t inner = pto_dtype_size(host->dtype);
    while (d > 0 && (uint64_t)host->shape[d - 1] <= most / inner) {
        inner *= (uint64_t)host->shape[--d];
    }
    if (d == 0) {
        return begin_piece(l, j, host, there, direct);
    }
    const int64_t step = (int64_t)(most / inner);
    int64_t index[PTO_MAX_DIMS] = {0};
    for (int32_t k = d; k > 0;) {
        const int64_t left = host->shape[d - 1] - index[d - 1], count = left < step ? left : step;
        const pto_tensor a = part_of(host, d, index, count), b = part_of(there, d, index, count);
        PTO_TRY(begin_piece(l, j, &a, &b, direct));
        index[d - 1] += count;
        for (k = d; k > 0 && index[k - 1] == host->shape[k - 1]; k--) {
            index[k - 1] = 0;
            if (k > 1) {
                index[k - 2]++;
            }
        }
    }
    return PTO_OK;
}

static pto_status begin_carrying(lane *l, job *j)
{
    const ptoi_transfer_ops *ops = &l->of->ops;
    pto_tensor host = l->way == IN ? j->from : j->to, there = l->way == IN ? j->to : j->from;
    uint64_t bytes, most = UINT64_MAX;
    sort_dims(&host, &there);
    const bool dense = pto_tensor_is_contiguous(&host), staged = !pto_tensor_is_contiguous(&there);
    PTO_TRY(pto_tensor_nbytes(&host, &bytes));
    const bool direct = dense && bytes >= ops->direct_bytes &&
                        ops->is_pinned(ops->device.self, first_of(&host));
    if (!direct) {
        PTO_TRY(need_pinned(l));
        most = ops->slot_bytes;
    }
    if (staged) {
        PTO_TRY(need_stage(l));
        most = most < l->stage_bytes ? most : l->stage_bytes;
    }
    if (dense && !staged) {
        PTO_TRY(as_bytes(&host));
        PTO_TRY(as_bytes(&there));
    }
    return begin_pieces(l, j, &host, &there, most, direct);
}

static pto_status begin_within(lane *l, job *j)
{
    const ptoi_transfer_ops *ops = &l->of->ops;
    slot *s = take(l);
    s->lands = false;
    return put(l, s, j,
               j->fills ? ops->fill(ops->device.self, l->stream, &j->to, j->element)
                        : ops->rearrange(ops->device.self, l->stream, &j->to, &j->from));
}

/* ---- The thread of a lane ---- */

static pto_status open_lane(lane *l)
{
    const pto_device_ops *ops = &l->of->ops.device;
    if (l->stream) {
        return PTO_OK;
    }
    if (ops->set_current) {
        PTO_TRY(ops->set_current(ops->self));
    }
    for (uint32_t i = 0; i < SLOTS; i++) {
        if (!l->slots[i].event) {
            PTO_TRY(ops->event_create(ops->self, &l->slots[i].event));
        }
    }
    return ops->stream_create(ops->self, &l->stream);
}

static void begin(lane *l, job *j)
{
    const ptoi_transfer_ops *ops = &l->of->ops;
    pto_status s = open_lane(l);
    s = s ? s : ops->follow(ops->device.self, l->stream);
    s = s ? s : l->way == WITHIN ? begin_within(l, j) : begin_carrying(l, j);
    note(j, s);
    j->begun = true;
    if (!j->in_flight) {
        finish(j);
    }
}

static job *next_job(lane *l)
{
    pthread_mutex_lock(&l->lock);
    job *j = l->first;
    if (j) {
        l->first = j->next;
        l->last = l->first ? l->last : &l->first;
    }
    pthread_mutex_unlock(&l->lock);
    return j;
}

static void *run(void *context)
{
    lane *l = context;
    for (;;) {
        const uint32_t given = ptoi_acquire32(&l->given);
        job *j = next_job(l);
        if (j) {
            begin(l, j);
        }
        if (end_passed(l) || j) {
            l->busy = ptoi_os_clock();
        } else {
            rest(l, given);
        }
    }
    return NULL;
}

/* With the lock. */
static pto_status start(lane *l)
{
    if (l->started && l->forks == ptoi_os_forks) {
        return PTO_OK;
    }
    if (l->started) { /* this is a child: the queue and all pieces are the parent's */
        l->first = NULL;
        l->last = &l->first;
        l->ended = l->begun;
        l->started = false;
    }
    pthread_t thread;
    const int why = ptoi_os_thread(&thread, run, l);
    if (why) {
        return ptoi_fail(PTO_SYSTEM, "the thread for copies of %s:%" PRId32 ": %s",
                         pto_device_name(l->of->ops.id.type), l->of->ops.id.index, strerror(why));
    }
    pthread_detach(thread);
    l->started = true;
    l->forks = ptoi_os_forks;
    return PTO_OK;
}

/* ---- Giving ---- */

static pto_status give(lane *l, const job *wanted)
{
    job *j = malloc(sizeof *j);
    if (!j) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "copy: no %zu bytes on the host", sizeof *j);
    }
    *j = *wanted;
    pthread_mutex_lock(&l->lock);
    const pto_status s = start(l);
    if (!s) {
        *l->last = j;
        l->last = &j->next;
        ptoi_release32(&l->given, ptoi_get32(&l->given) + 1);
    }
    pthread_mutex_unlock(&l->lock);
    if (s) {
        free(j);
    } else {
        ptoi_os_wake(&l->given);
    }
    return s;
}

/* Such a copy needs its order, which pieces and a device do not keep. */
static bool meets_itself(const pto_tensor *t)
{
    return !pto_tensor_is_contiguous(t) &&
           ptoi_meets_itself(t->ndim, t->shape, t->strides, PTO_OVERLAP_BUDGET) != PTOI_NO;
}

pto_status ptoi_transfer_copy(ptoi_transfer *t, const pto_tensor *to, const pto_tensor *from,
                              pto_device_done done, void *context)
{
    const pto_device id = t->ops.id;
    const way w = ptoi_device_is_host(from->device) ? IN
                  : ptoi_device_is_host(to->device) ? OUT
                                                    : WITHIN;
    if ((w != OUT && !ptoi_device_equal(to->device, id)) ||
        (w != IN && !ptoi_device_equal(from->device, id))) {
        return ptoi_fail(PTO_NOT_IMPLEMENTED, "copy: not from one device to another");
    }
    if (meets_itself(to)) {
        return ptoi_fail(PTO_NOT_IMPLEMENTED, "copy: elements of the destination share memory");
    }
    return give(&t->lane[w], &(job){.to = *to, .from = *from, .done = done, .context = context});
}

pto_status ptoi_transfer_fill(ptoi_transfer *t, const pto_tensor *to, const void *element,
                              pto_device_done done, void *context)
{
    job j = {.to = *to, .fills = true, .done = done, .context = context};
    memcpy(j.element, element, pto_dtype_size(to->dtype));
    return give(&t->lane[WITHIN], &j);
}

pto_status ptoi_transfer_create(const ptoi_transfer_ops *ops, ptoi_transfer **made)
{
    ptoi_transfer *t = calloc(1, sizeof *t);
    if (!t) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "copies of a device: no %zu bytes", sizeof *t);
    }
    t->ops = *ops;
    for (int w = 0; w < WAYS; w++) {
        lane *l = &t->lane[w];
        l->of = t;
        l->way = (way)w;
        l->last = &l->first;
        pthread_mutex_init(&l->lock, NULL);
    }
    *made = t;
    return PTO_OK;
}
