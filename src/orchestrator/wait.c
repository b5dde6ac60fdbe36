/* wait.c - waiting for tasks, running others meanwhile; reading and writing in order with them. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "op/rearrange/plan.h"
#include "orchestrator/handle.h"
#include "orchestrator/runtime.h"
#include "orchestrator/trace.h"

/* Nobody else knows of a task that this thread was to run next. */
static void put_back(pto_runtime *rt)
{
    uint32_t task = rt->caller->next;
    if (task != PTOI_NONE) {
        rt->caller->next = PTOI_NONE;
        ptoi_sched_offer(&rt->sched, task);
    }
}

/* What a wait is for, and whether it is over: as the last look before sleeping, too (pairs W2 by
 * Dekker's pattern: the one who closes a task looks at `awaited` next). */
typedef struct aim {
    ptoi_ref ref;      /* this task, or 0: any */
    uint64_t complete; /* any: more than so many are */
} aim;

uint64_t ptoi_count_complete(const pto_runtime *rt)
{
    uint64_t count = 0;
    for (uint32_t l = 0; l < rt->levels; l++) {
        const ptoi_track *t = &rt->track[l];
        count += t->completed;
        for (uint64_t n = t->completed; n != t->head; n++) {
            count += ptoi_list_closed(ptoi_see64(&t->states[(uint32_t)n & t->mask].waiters),
                                      ptoi_lap(&rt->view, l, n));
        }
    }
    return count;
}

static bool is_reached(const pto_runtime *rt, const aim *a)
{
    if (!a->ref) {
        return ptoi_count_complete(rt) > a->complete;
    }
    const ptoi_state *state = ptoi_state_of(&rt->view, ptoi_ref_level(a->ref),
                                            ptoi_ref_seq(a->ref));
    return ptoi_list_closed(ptoi_see64(&state->waiters), ptoi_lap_of_ref(&rt->view, a->ref));
}

void ptoi_wait_tell_room(pto_runtime *rt, uint32_t level, ptoi_shortage what, uint64_t wanted)
{
    ptoi_waiting *w = &rt->view.header->waiting;
    ptoi_set32(&w->level, level);
    ptoi_set32(&w->ring, what);
    ptoi_set64(&w->wanted, wanted);
    ptoi_wait_tell(rt, PTOI_WHY_ROOM);
}

static void wait_begins(ptoi_waiting *w, const aim *a)
{
    ptoi_set64(&w->task, ptoi_ref_task(a->ref));
    ptoi_set64(&w->since, 0);
    ptoi_count64(&w->serial, 1);
}

/* Runs tasks until the aim is reached, and sleeps when there are none. */
static void wait_until(pto_runtime *rt, const aim *a)
{
    ptoi_sched *sched = &rt->sched;
    ptoi_worker *caller = rt->caller;
    ptoi_waiting *told = &rt->view.header->waiting;
    if (is_reached(rt, a)) {
        put_back(rt);
        return;
    }
    wait_begins(told, a);
    for (uint32_t idle = 0; !is_reached(rt, a);) {
        if (ptoi_worker_step(caller, PTOI_LENGTH_LONG, NULL)) {
            ptoi_count64(&rt->helped, 1);
            idle = 0;
        } else if (idle < sched->spin) {
            ptoi_park_spin(idle++);
        } else {
            idle = 0;
            if (!ptoi_get64(&told->since)) {
                ptoi_set64(&told->since, ptoi_os_clock());
            }
            ptoi_put64(&sched->awaited, a->ref ? ptoi_ref_task(a->ref) : PTOI_AWAIT_ANY);
            ptoi_park_announce(&caller->parker);
            if (is_reached(rt, a) || ptoi_worker_sees_work(caller)) {
                ptoi_park_withdraw(&caller->parker);
            } else {
                const uint64_t since = ptoi_log_now(caller->log);
                ptoi_park_sleep(&caller->parker);
                ptoi_log_parked(caller->log, since);
            }
            ptoi_set64(&sched->awaited, 0);
        }
    }
    ptoi_count64(&told->serial, 1);
    put_back(rt);
}

void ptoi_wait_for(pto_runtime *rt, ptoi_ref ref)
{
    wait_until(rt, &(aim){ref, 0});
}

void ptoi_wait_any(pto_runtime *rt, uint64_t complete)
{
    wait_until(rt, &(aim){0, complete});
}

bool ptoi_help(pto_runtime *rt, uint32_t tasks)
{
    bool helped = false;
    for (; tasks && ptoi_worker_step(rt->caller, PTOI_LENGTH_LONG, NULL); tasks--) {
        ptoi_count64(&rt->helped, 1);
        helped = true;
    }
    put_back(rt);
    return helped;
}

bool ptoi_catch_up(pto_runtime *rt, uint64_t ticks)
{
    const ptoi_track *t = &rt->track[rt->level];
    const uint64_t since = ptoi_ticks();
    bool longer = false;
    do {
        while (ptoi_worker_step(rt->caller, PTOI_LENGTH_BRIEF, &longer)) {
            ptoi_count64(&rt->helped, 1);
        }
        ptoi_retire_completed(rt, rt->level);
    } while (!longer && t->completed != t->head && ptoi_ticks() - since < ticks);
    put_back(rt);
    return t->completed == t->head;
}

void ptoi_help_short(pto_runtime *rt)
{
    bool longer = false;
    if (ptoi_worker_step(rt->caller, PTOI_LENGTH_SHORT, &longer)) {
        ptoi_count64(&rt->helped, 1);
    }
    put_back(rt);
}

void ptoi_wait_level(pto_runtime *rt, uint32_t level)
{
    const ptoi_track *t = &rt->track[level];
    ptoi_retire_completed(rt, level);
    if (t->completed != t->head) {
        ptoi_retire_publish(rt, level); /* for who looks in from outside meanwhile */
    }
    while (t->completed != t->head) {
        ptoi_wait_for(rt, ptoi_ref_make(t->completed, level, false));
        ptoi_retire_completed(rt, level);
    }
}

/* Everything submitted is complete. */
static void wait_all(pto_runtime *rt)
{
    ptoi_wait_tell(rt, PTOI_WHY_ALL);
    const uint64_t since = ptoi_trace_waits(rt);
    for (uint32_t l = 0; l < rt->levels; l++) {
        ptoi_wait_level(rt, l);
    }
    for (uint32_t l = 0; l < rt->levels; l++) {
        ptoi_retire(rt, l);
    }
    ptoi_trace_wait(rt, 0, since);
    if (rt->sched.guard) {
        ptoi_guard_sweep(rt);
    }
    ptoi_debug_check(rt);
}

/* What went wrong so far, in words. */
static pto_status verdict(pto_runtime *rt)
{
    ptoi_sched *sched = &rt->sched;
    pthread_mutex_lock(&sched->lock);
    bool failed = sched->has_failure;
    pto_failure f = sched->failure;
    sched->told = true;
    pthread_mutex_unlock(&sched->lock);
    rt->cancel_told = ptoi_get32(&rt->view.header->cancelled);
    if (failed) {
        return ptoi_fail(PTO_TASK_FAILED,
                         "task %" PRIu64 " (kernel '%s', submitted at %s:%d) failed: %s: %s",
                         f.order, f.kernel, f.file, f.line, pto_status_name(f.status), f.message);
    }
    if (ptoi_get32(&rt->view.header->cancelled)) {
        return ptoi_fail(PTO_CANCELLED, "wait: the runtime was cancelled; tasks that had not begun "
                                        "were skipped");
    }
    return PTO_OK;
}

pto_status pto_wait(pto_runtime *rt)
{
    PTO_TRY(ptoi_runtime_enter(rt, "wait"));
    wait_all(rt);
    return verdict(rt);
}

pto_status pto_wait_task(pto_runtime *rt, pto_task task)
{
    PTO_TRY(ptoi_runtime_enter(rt, "wait for a task"));
    PTO_TRY(ptoi_handle_check(rt, "wait", task));
    ptoi_ref ref = ptoi_handle_ref(task);
    uint32_t level = ptoi_ref_level(ref);
    uint64_t seq = ptoi_ref_seq(ref);
    bool bad = false;
    if (seq >= rt->track[level].completed) {
        ptoi_wait_tell(rt, PTOI_WHY_TASK);
        const uint64_t since = ptoi_trace_waits(rt);
        ptoi_wait_for(rt, ref);
        ptoi_trace_wait(rt, task, since);
        bad = ptoi_list_bad(ptoi_acquire64(&ptoi_state_of(&rt->view, level, seq)->waiters),
                            ptoi_lap(&rt->view, level, seq));
    } else {
        bad = ptoi_poison_is_bad(rt, level, seq);
    }
    if (!bad) {
        return PTO_OK;
    }
    /* The failure known by now is this one, or one that it was skipped for. */
    pto_status why = verdict(rt);
    return why == PTO_CANCELLED ? why : PTO_TASK_FAILED;
}

pto_status pto_watch(pto_runtime *rt, const pto_watcher *watcher)
{
    PTO_TRY(ptoi_runtime_enter(rt, "watch"));
    if (watcher && watcher->size != sizeof *watcher) {
        return ptoi_fail(PTO_BAD_CONFIG, "watch: size of the watcher is %zu, it should be %zu",
                         watcher->size, sizeof *watcher);
    }
    wait_all(rt);
    rt->sched.watched = watcher || rt->trace;
    rt->sched.watcher = watcher ? *watcher : (pto_watcher){0};
    return PTO_OK;
}

pto_status pto_clear_error(pto_runtime *rt)
{
    PTO_TRY(ptoi_runtime_enter(rt, "clear an error"));
    wait_all(rt);
    pthread_mutex_lock(&rt->sched.lock);
    rt->sched.has_failure = false;
    rt->sched.told = false;
    pthread_mutex_unlock(&rt->sched.lock);
    ptoi_poison_clear(rt);
    ptoi_set32(&rt->view.header->cancelled, 0);
    for (uint32_t l = 0; l < rt->levels; l++) {
        ptoi_retire(rt, l);
    }
    return PTO_OK;
}

pto_status pto_get_failure(pto_runtime *rt, bool *failed, pto_failure *failure)
{
    PTO_TRY(ptoi_runtime_enter(rt, "get a failure"));
    if (!failed || !failure) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "get a failure: %s is NULL",
                         failed ? "failure" : "failed");
    }
    pthread_mutex_lock(&rt->sched.lock);
    *failed = rt->sched.has_failure;
    if (*failed) {
        *failure = rt->sched.failure;
    }
    pthread_mutex_unlock(&rt->sched.lock);
    return PTO_OK;
}

/* ---- Reading and writing ---- */

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
    if (!live || seq < rt->track[level].completed) {
        return;
    }
    ptoi_note *note = ptoi_note_of(&rt->track[level], seq);
    if (note->linked == rt->attempt) {
        rt->edges[note->link] |= access == PTO_MAP_WRITE;
        return;
    }
    note->linked = rt->attempt;
    note->link = m->count;
    rt->edges[m->count++] = ptoi_ref_make(seq, level, access == PTO_MAP_WRITE);
}

/* Waits for all tasks that the access must come after; *bad if one of the writers was. */
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

/* Checks both sides of a copy. *host is the dense memory as a tensor: tasks may touch it, too. */
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
                             "%s: the memory given, %" PRIu64 " bytes at %p, and the "
                             "tensor share bytes",
                             who, need, memory);
        }
    }
    return PTO_OK;
}

/* Moves the elements between the tensor, at `place`, and dense memory. */
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

/* Where the storage of a tensor begins, for the orchestrator. */
static char *storage_of(const pto_runtime *rt, const pto_tensor *t)
{
    if (!t->owner) {
        return t->storage;
    }
    const ptoi_buffer *b = &rt->buffers[(uint32_t)t->owner - 1];
    return rt->view.level[b->level].heap + b->at;
}

/* Says so, and whose fault it is as far as known. */
static pto_status poisoned(pto_runtime *rt, const pto_tensor *t)
{
    char text[128];
    pthread_mutex_lock(&rt->sched.lock);
    pto_failure f = rt->sched.failure;
    bool failed = rt->sched.has_failure;
    pthread_mutex_unlock(&rt->sched.lock);
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

/* A managed tensor says how large its buffer is, and must be right. */
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
    ptoi_wait_tell(rt, PTOI_WHY_READ);
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
            PTO_TRY(ptoi_submit_memory(rt, b, file, line));
        }
    }
    bool bad, other;
    ptoi_wait_tell(rt, PTOI_WHY_WRITE);
    PTO_TRY(wait_for_access(rt, &host, PTO_MAP_READ, &other));
    PTO_TRY(wait_for_access(rt, t, PTO_MAP_WRITE, &bad));
    if (bad) {
        wait_all(rt); /* a bad writer is written down when it is passed: then it can be covered */
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
