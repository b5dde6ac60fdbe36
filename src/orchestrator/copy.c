/* copy.c - pto_read and pto_write: copies by the orchestrating thread, in order with the tasks. */
#include <inttypes.h>
#include <string.h>

#include <pto/embed.h>

#include "base/error.h"
#include "device/copy.h"
#include "device/device.h"
#include "op/rearrange/plan.h"
#include "orchestrator/buffer.h"
#include "orchestrator/device.h"
#include "orchestrator/failure.h"
#include "orchestrator/handle.h"
#include "orchestrator/map/access.h"
#include "orchestrator/mirror.h"
#include "orchestrator/poison.h"
#include "orchestrator/refusal.h"
#include "orchestrator/trace.h"
#include "orchestrator/wait.h"

typedef struct meeting {
    pto_runtime *rt;
    uint32_t count;
} meeting;

static void collect(void *context, uint64_t seq, uint32_t level, uint32_t entry,
                    pto_map_access access, bool live)
{
    meeting *m = context;
    pto_runtime *rt = m->rt;
    (void)entry;
    if (!live || seq < rt->rings[level].completed) {
        return;
    }
    const bool poisons = access == PTO_MAP_WRITE && ptoi_access_is_shared(rt->map);
    ptoi_record *record = ptoi_record_of(&rt->rings[level], seq);
    if (record->linked == rt->attempt) {
        rt->edges[record->link] |= poisons;
        return;
    }
    record->linked = rt->attempt;
    record->link = m->count;
    rt->edges[m->count++] = ptoi_ref_make(seq, level, poisons);
}

/* Waits for all tasks that the access must follow. *bad: one of the writers failed or was
 * skipped. */
static pto_status wait_for_access(pto_runtime *rt, const pto_tensor *t, pto_map_access access,
                                  bool *bad)
{
    ptoi_found found;
    PTO_TRY(ptoi_wait_unmapped(rt));
    PTO_TRY(ptoi_access_find(rt->map, t, &found));
    rt->attempt++;
    meeting m = {rt, 0};
    ptoi_access_ask(rt->map, &found, access, collect, &m);
    *bad = false;
    for (uint32_t i = 0; i < m.count; i++) {
        ptoi_ref ref = rt->edges[i];
        const uint64_t since = ptoi_trace_waits(rt);
        PTO_TRY(ptoi_wait_for(rt, ref));
        ptoi_trace_wait(rt, ptoi_ref_task(ref), since);
        const ptoi_state *state = ptoi_state_of(&rt->view, ptoi_ref_level(ref), ptoi_ref_seq(ref));
        *bad |= ptoi_ref_poisons(ref) &&
                ptoi_list_bad(ptoi_acquire64(&state->waiters), ptoi_lap_of_ref(&rt->view, ref));
    }
    return PTO_OK;
}

/* Checks both sides of a copy. *host is the dense memory as a tensor, because tasks may use it
 * too. */
static pto_status check_copy(pto_runtime *rt, const char *who, const pto_tensor *t, void *memory,
                             uint64_t bytes, pto_tensor *host)
{
    if (!t) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "%s: the tensor is NULL", who);
    }
    PTO_TRY(pto_tensor_check(t));
    uint64_t need;
    PTO_TRY(pto_tensor_nbytes(t, &need));
    if (!memory && need) {
        return ptoi_fail(PTO_NULL_ARGUMENT,
                         "%s: the memory is NULL, for a tensor of %" PRIu64 " bytes", who, need);
    }
    if (need > bytes) {
        return ptoi_fail(PTO_BUFFER_TOO_SMALL, "%s: %" PRIu64 " bytes for a tensor of %" PRIu64,
                         who, bytes, need);
    }
    PTO_TRY(pto_tensor_init(host, memory, need, PTO_UINT8, 1, (int64_t[]){(int64_t)need}, NULL, 0));
    PTO_TRY(ptoi_buffer_check_external(rt, who, host));
    if (!t->owner) {
        PTO_TRY(ptoi_buffer_check_external(rt, who, t));
        if (pto_tensor_overlaps(t, host)) {
            return ptoi_fail(PTO_OVERLAP,
                             "%s: the tensor overlaps the memory given, %" PRIu64 " bytes at "
                             "%p",
                             who, need, memory);
        }
    }
    return PTO_OK;
}

/* Copies the elements between the tensor, whose storage begins at `place`, and dense memory. */
static void move(const pto_tensor *t, char *place, void *dense, bool out)
{
    if (pto_tensor_numel(t) == 0) {
        return; /* neither side need have an address */
    }
    int64_t strides[PTO_MAX_DIMS] = {0}, step = 1;
    for (int32_t d = t->ndim - 1; d >= 0; d--) {
        strides[d] = step;
        step *= t->shape[d];
    }
    uint32_t size = (uint32_t)pto_dtype_size(t->dtype);
    char *first = place + (uint64_t)t->offset * size;
    if (out) {
        ptoi_copy(t->ndim, t->shape, dense, strides, first, t->strides, size);
    } else {
        ptoi_copy(t->ndim, t->shape, first, t->strides, dense, strides, size);
    }
}

/* Where the storage of a tensor begins in the orchestrator's mapping. */
static char *storage_of(const pto_runtime *rt, const pto_tensor *t)
{
    if (!t->owner) {
        return t->storage;
    }
    const ptoi_buffer *b = ptoi_buffer_of(rt, t);
    return rt->view.base[ptoi_segment_heap(b->device, b->level)] + b->at;
}

/* Copies between the tensor and dense memory of the host. Memory of a device is copied by the
 * device. */
static pto_status carry(pto_runtime *rt, const char *who, const pto_tensor *t, void *dense,
                        bool out)
{
    if (ptoi_device_is_host(t->device)) {
        move(t, storage_of(rt, t), dense, out);
        return PTO_OK;
    }
    pto_tensor there = *t, host;
    there.storage = storage_of(rt, t);
    there.owner = 0;
    if (pto_tensor_numel(t) == 0) {
        return PTO_OK;
    }
    const uint64_t bytes = (uint64_t)pto_tensor_numel(t) * pto_dtype_size(t->dtype);
    if (rt->mirrored && out && ptoi_mirror_read(rt, &there, dense, bytes)) {
        return PTO_OK;
    }
    PTO_TRY(pto_tensor_init(&host, dense, bytes, t->dtype, t->ndim, t->shape, NULL, 0));
    const pto_status s = out ? ptoi_device_copy_wait(&host, &there)
                             : ptoi_device_copy_wait(&there, &host);
    return s ? ptoi_fail(s, "%s: %s", who, pto_error_detail()) : PTO_OK;
}

/* A managed tensor is where its buffer is. */
static pto_status check_device(const pto_runtime *rt, const char *who, const pto_tensor *t)
{
    const pto_device there = t->owner ? ptoi_device_at(rt, ptoi_buffer_of(rt, t)->device)
                                      : t->device;
    return ptoi_device_equal(there, t->device)
               ? PTO_OK
               : ptoi_fail(PTO_BAD_DEVICE, "%s: the tensor says it is on %s; its buffer is on %s",
                           who, ptoi_device_words(t->device).s, ptoi_device_words(there).s);
}

/* Reports that a read met poisoned memory, with the first failure if there is one. */
static pto_status poisoned(pto_runtime *rt, const char *who, const pto_tensor *t)
{
    static const char cut[] = "...";
    char text[224]; /* less than half of a detail: the rest says what failed */
    pto_failure f;
    const bool failed = ptoi_failure_first(rt, &f);
    if (pto_tensor_format(t, text, sizeof text) >= sizeof text) {
        memcpy(text + sizeof text - sizeof cut, cut, sizeof cut);
    }
    if (!failed) {
        return ptoi_fail(PTO_POISONED, "%s: %s was to be written by a task that was skipped%s", who,
                         text, ptoi_poison_words(rt));
    }
    char who_failed[PTOI_FAILURE_NAME];
    ptoi_failure_name(&f, who_failed, sizeof who_failed);
    return ptoi_fail(PTO_POISONED,
                     "%s: %s was to be written by a task that failed or was skipped; the first "
                     "failure is %s%s",
                     who, text, who_failed, ptoi_poison_words(rt));
}

/* A managed tensor states the size of its buffer. The statement must be true. */
static pto_status check_bytes(const char *who, const ptoi_buffer *b, const pto_tensor *t)
{
    return t->storage_bytes == b->bytes
               ? PTO_OK
               : ptoi_fail(PTO_OUT_OF_BOUNDS,
                           "%s: the tensor says its buffer has %" PRIu64 " bytes; it has %" PRIu64,
                           who, t->storage_bytes, b->bytes);
}

/* Whether the buffer of a tensor, if it is managed, can be read. */
static pto_status check_readable(pto_runtime *rt, const char *who, const pto_tensor *t)
{
    if (!t->owner) {
        return PTO_OK;
    }
    const ptoi_buffer *b = ptoi_buffer_find(rt, who, t);
    if (!b) {
        return PTO_STALE;
    }
    PTO_TRY(check_bytes(who, b, t));
    PTO_TRY(check_device(rt, who, t));
    if (!b->block) {
        return ptoi_fail(PTO_NOT_WRITTEN,
                         "%s: nothing has written this buffer of %" PRIu64 " bytes", who, b->bytes);
    }
    if (t->version != b->version) {
        return ptoi_fail(PTO_BAD_VERSION,
                         "%s: version %" PRIu32 " of a buffer that is at version %" PRIu32, who,
                         t->version, b->version);
    }
    return PTO_OK;
}

/* Waits until the tensor has its final contents. */
static pto_status wait_for_writers(pto_runtime *rt, const char *who, const pto_tensor *t)
{
    bool bad;
    PTO_TRY(wait_for_access(rt, t, PTO_MAP_READ, &bad));
    return bad || (ptoi_poison_any(rt) && ptoi_poison_meets(rt, t)) ? poisoned(rt, who, t) : PTO_OK;
}

static pto_status read_out(pto_runtime *rt, const pto_tensor *t, void *to, uint64_t bytes)
{
    PTO_TRY(ptoi_runtime_enter(rt, "read"));
    pto_tensor host;
    PTO_TRY(check_copy(rt, "read", t, to, bytes, &host));
    PTO_TRY(check_readable(rt, "read", t));
    bool other;
    ptoi_wait_reason(rt, PTOI_WHY_READ);
    PTO_TRY(wait_for_access(rt, &host, PTO_MAP_WRITE, &other));
    PTO_TRY(wait_for_writers(rt, "read", t));
    PTO_TRY(ptoi_refusal_verdict(rt, "read"));
    return carry(rt, "read", t, to, true);
}

/* For the readers too, if the program is about to write. */
static pto_status wait_tensor(pto_runtime *rt, const pto_tensor *t, bool readers)
{
    PTO_TRY(ptoi_runtime_enter(rt, "wait for a tensor"));
    if (!t) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "wait for a tensor: the tensor is NULL");
    }
    PTO_TRY(pto_tensor_check(t));
    PTO_TRY(check_readable(rt, "wait for a tensor", t));
    if (!t->owner) {
        PTO_TRY(ptoi_buffer_check_external(rt, "wait for a tensor", t));
    }
    bool bad;
    ptoi_wait_reason(rt, PTOI_WHY_READ);
    if (readers) {
        PTO_TRY(wait_for_access(rt, t, PTO_MAP_WRITE, &bad));
        if (bad) {
            return poisoned(rt, "wait for a tensor", t);
        }
    }
    PTO_TRY(wait_for_writers(rt, "wait for a tensor", t));
    return ptoi_refusal_verdict(rt, "wait for a tensor");
}

static pto_status write_in(pto_runtime *rt, const pto_tensor *t, const void *from, uint64_t bytes,
                           const char *file, int line)
{
    PTO_TRY(ptoi_runtime_enter(rt, "write"));
    pto_tensor host;
    PTO_TRY(check_copy(rt, "write", t, (void *)(uintptr_t)from, bytes, &host));
    ptoi_buffer *b = NULL;
    if (t->owner) {
        b = ptoi_buffer_find(rt, "write", t);
        if (!b) {
            return PTO_STALE;
        }
        PTO_TRY(check_bytes("write", b, t));
        PTO_TRY(check_device(rt, "write", t));
        if (t->version != b->version && (!b->block || t->version != b->version + 1)) {
            return ptoi_fail(PTO_BAD_VERSION,
                             "write: version %" PRIu32 " of a buffer that is at version %" PRIu32,
                             t->version, b->version);
        }
        if (!b->block) {
            PTO_TRY(ptoi_buffer_check_first(b, "write", t));
            PTO_TRY(ptoi_block_give(rt, "write", b, file, line));
        }
    }
    bool bad, other;
    ptoi_wait_reason(rt, PTOI_WHY_WRITE);
    PTO_TRY(wait_for_access(rt, &host, PTO_MAP_READ, &other));
    PTO_TRY(wait_for_access(rt, t, PTO_MAP_WRITE, &bad));
    if (bad) {
        /* A bad writer is recorded when `completed` passes it. Only then can it be covered. */
        PTO_TRY(ptoi_wait_all(rt));
    }
    PTO_TRY(carry(rt, "write", t, (void *)(uintptr_t)from, false));
    if (ptoi_poison_any(rt)) {
        ptoi_poison_cover(rt, t, rt->order);
    }
    if (b) {
        b->version = t->version;
    }
    return PTO_OK;
}

pto_status pto_read_at(pto_runtime *rt, const pto_tensor *t, void *to, uint64_t bytes,
                       const char *file, int line)
{
    return ptoi_refusal_note_wait(rt, read_out(rt, t, to, bytes), "pto_read", file, line);
}

pto_status pto_wait_tensor_at(pto_runtime *rt, const pto_tensor *t, const char *file, int line)
{
    return ptoi_refusal_note_wait(rt, wait_tensor(rt, t, false), "pto_wait_tensor", file, line);
}

pto_status pto_wait_unused_at(pto_runtime *rt, const pto_tensor *t, const char *file, int line)
{
    return ptoi_refusal_note_wait(rt, wait_tensor(rt, t, true), "pto_wait_unused", file, line);
}

pto_status pto_write_at(pto_runtime *rt, const pto_tensor *t, const void *from, uint64_t bytes,
                        const char *file, int line)
{
    return ptoi_refusal_note(rt, write_in(rt, t, from, bytes, file, line), "pto_write", file, line);
}
