/* copy.c - pto_read and pto_write: copies by the orchestrating thread, in order with the tasks. */
#include <inttypes.h>

#include "base/error.h"
#include "op/rearrange/plan.h"
#include "orchestrator/buffer.h"
#include "orchestrator/failure.h"
#include "orchestrator/handle.h"
#include "orchestrator/owner.h"
#include "orchestrator/poison.h"
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
    ptoi_record *record = ptoi_record_of(&rt->rings[level], seq);
    if (record->linked == rt->attempt) {
        rt->edges[record->link] |= access == PTO_MAP_WRITE;
        return;
    }
    record->linked = rt->attempt;
    record->link = m->count;
    rt->edges[m->count++] = ptoi_ref_make(seq, level, access == PTO_MAP_WRITE);
}

/* Waits for all tasks that the access must follow. *bad: one of the writers failed or was
 * skipped. */
static pto_status wait_for_access(pto_runtime *rt, const pto_tensor *t, pto_map_access access,
                                  bool *bad)
{
    ptoi_found found;
    PTO_TRY(ptoi_access_find(rt->map, t, &found));
    rt->attempt++;
    meeting m = {rt, 0};
    ptoi_access_ask(rt->map, &found, access, collect, &m);
    *bad = false;
    for (uint32_t i = 0; i < m.count; i++) {
        ptoi_ref ref = rt->edges[i];
        const uint64_t since = ptoi_trace_waits(rt);
        ptoi_wait_for(rt, ref);
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
    if (!t || !memory) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "%s: the %s is NULL", who, t ? "memory" : "tensor");
    }
    PTO_TRY(pto_tensor_check(t));
    uint64_t need;
    PTO_TRY(pto_tensor_nbytes(t, &need));
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
    return rt->view.level[b->level].heap + b->at;
}

/* Reports that a read met poisoned memory, with the first failure if there is one. */
static pto_status poisoned(pto_runtime *rt, const pto_tensor *t)
{
    char text[128];
    pto_failure f;
    const bool failed = ptoi_failure_first(rt, &f);
    (void)pto_tensor_format(t, text, sizeof text);
    if (!failed) {
        return ptoi_fail(PTO_POISONED, "read: %s was to be written by a task that was skipped",
                         text);
    }
    return ptoi_fail(PTO_POISONED,
                     "read: %s was to be written by a task that failed or was skipped; the first "
                     "failure is task %" PRIu64 " (kernel '%s', submitted at %s:%d)",
                     text, f.order, f.kernel, f.file, f.line);
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

pto_status pto_read(pto_runtime *rt, const pto_tensor *t, void *to, uint64_t bytes)
{
    PTO_TRY(ptoi_runtime_enter(rt, "read"));
    pto_tensor host;
    PTO_TRY(check_copy(rt, "read", t, to, bytes, &host));
    if (t->owner) {
        const ptoi_buffer *b = ptoi_buffer_find(rt, "read", t);
        if (!b) {
            return PTO_STALE;
        }
        PTO_TRY(check_bytes("read", b, t));
        if (!b->seq) {
            return ptoi_fail(PTO_NOT_WRITTEN,
                             "read: nothing has written this buffer of %" PRIu64 " bytes",
                             b->bytes);
        }
        if (t->version != b->version) {
            return ptoi_fail(PTO_BAD_VERSION,
                             "read: version %" PRIu32 " of a buffer that is at version %" PRIu32,
                             t->version, b->version);
        }
    }
    bool bad, other;
    ptoi_wait_reason(rt, PTOI_WHY_READ);
    PTO_TRY(wait_for_access(rt, &host, PTO_MAP_WRITE, &other));
    PTO_TRY(wait_for_access(rt, t, PTO_MAP_READ, &bad));
    if (bad || (ptoi_poison_any(rt) && ptoi_poison_meets(rt, t))) {
        return poisoned(rt, t);
    }
    move(t, storage_of(rt, t), to, true);
    return PTO_OK;
}

pto_status pto_write_at(pto_runtime *rt, const pto_tensor *t, const void *from, uint64_t bytes,
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
        if (t->version != b->version && (!b->seq || t->version != b->version + 1)) {
            return ptoi_fail(PTO_BAD_VERSION,
                             "write: version %" PRIu32 " of a buffer that is at version %" PRIu32,
                             t->version, b->version);
        }
        if (!b->seq) {
            PTO_TRY(ptoi_buffer_check_first(b, "write", t));
            PTO_TRY(ptoi_owner_give(rt, b, file, line));
        }
    }
    bool bad, other;
    ptoi_wait_reason(rt, PTOI_WHY_WRITE);
    PTO_TRY(wait_for_access(rt, &host, PTO_MAP_READ, &other));
    PTO_TRY(wait_for_access(rt, t, PTO_MAP_WRITE, &bad));
    if (bad) {
        /* A bad writer is recorded when `completed` passes it. Only then can it be covered. */
        ptoi_wait_all(rt);
    }
    if (ptoi_poison_any(rt)) {
        ptoi_poison_cover(rt, t, rt->order);
    }
    move(t, storage_of(rt, t), (void *)(uintptr_t)from, false);
    if (b) {
        b->version = t->version;
    }
    return PTO_OK;
}
