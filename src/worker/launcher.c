#include "worker/launcher.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "worker/arg.h"
#include "worker/end.h"
#include "worker/guard.h"
#include "worker/worker.h"

#define POLL_EVERY 8 /* launches: then one stream is asked */
#define PATIENCE                                                                                   \
    8 /* steps without a task before events are recorded and asked for: these calls take
                        longer than a task that is about to come */

size_t ptoi_launcher_bytes(const ptoi_view *view)
{
    return sizeof(ptoi_launcher) + view->n_slots * sizeof(ptoi_launch);
}

void ptoi_launcher_open(ptoi_worker *worker)
{
    ptoi_launcher *l = worker->launcher;
    for (uint32_t i = 0; i < PTOI_STREAMS; i++) {
        l->queue[i].first = l->queue[i].last = PTOI_NONE;
    }
    l->broken = ptoi_streams_open(&l->streams, &worker->device->ops);
    l->open = !l->broken;
    if (!l->open) {
        snprintf(l->why, sizeof l->why, "streams of the device: %s", pto_error_detail());
    }
}

void ptoi_launcher_close(ptoi_worker *worker)
{
    ptoi_streams_close(&worker->launcher->streams);
}

/* ---- Tasks on a stream ---- */

static void put(ptoi_launcher *l, uint32_t at, uint32_t index, ptoi_ending ending, bool guarded)
{
    ptoi_launch *launch = &l->launches_of[index];
    *launch = (ptoi_launch){.place = ptoi_streams_put(&l->streams, at),
                            .when = launch->when,
                            .next = PTOI_NONE,
                            .stream = (uint8_t)at,
                            .ending = (uint8_t)ending,
                            .guarded = guarded};
    if (l->queue[at].first == PTOI_NONE) {
        l->queue[at].first = index;
    } else {
        l->launches_of[l->queue[at].last].next = index;
    }
    l->queue[at].last = index;
    l->busy++;
}

/* Takes the first task off a stream. */
static uint32_t take(ptoi_launcher *l, uint32_t at)
{
    const uint32_t index = l->queue[at].first;
    l->queue[at].first = l->launches_of[index].next;
    l->busy--;
    return index;
}

/* In a traced run, says when a task that was launched has begun: nobody knows when the device did. It
 * was not before the launch, nor before the tasks that it needs and the one before it on its stream were
 * closed. So in the trace, too, no task begins before the end of one that it waits for. */
static void note_begin(const ptoi_worker *worker, uint32_t index)
{
    const ptoi_launcher *l = worker->launcher;
    const ptoi_view *view = &worker->sched->view;
    const ptoi_slot *slot = &view->slots[index];
    const ptoi_ref *refs = view->level[ptoi_slot_header_of(slot).level].deps + slot->deps;
    uint64_t begin = l->launches_of[index].when;
    const uint64_t closed = l->queue[l->launches_of[index].stream].closed;
    begin = closed > begin ? closed : begin;
    for (uint32_t i = 0; i < slot->fanin; i++) {
        const ptoi_slot *its = ptoi_slot_of(view, ptoi_ref_level(refs[i]), ptoi_ref_seq(refs[i]));
        const uint64_t when = l->launches_of[ptoi_slot_index(view, its)].when;
        begin = when > begin ? when : begin;
    }
    worker->log->began = begin;
}

/* The device is done with a task: checks the memory that it has written. Returns how it ends. */
static uint32_t check_guards(const ptoi_worker *worker, uint32_t index)
{
    ptoi_scheduler *s = worker->sched;
    const pto_status status = ptoi_guard_check(s, &s->view.slots[index], PTOI_GUARD_EVERYWHERE,
                                               PTO_OK);
    return ptoi_end_judge(s, worker, index, status, pto_error_detail());
}

static void close_task(ptoi_worker *worker, uint32_t index, uint32_t ending)
{
    ptoi_launch *launch = &worker->launcher->launches_of[index];
    if (launch->guarded && ending == PTOI_ENDS_DONE) {
        ending = check_guards(worker, index);
    }
    if (worker->log && ending != PTOI_ENDS_PENDING) {
        if (ending != PTOI_ENDS_SKIPPED) {
            note_begin(worker, index);
        }
        ptoi_close(worker, index, (ptoi_outcome)ending);
        launch->when = worker->launcher->queue[launch->stream].closed = ptoi_ticks();
        return;
    }
    if (ending == PTOI_ENDS_PENDING) {
        ptoi_end(worker, index, PTO_PENDING, 0);
    } else {
        ptoi_close(worker, index, (ptoi_outcome)ending);
    }
}

/* Closes the tasks of a stream that are done. Returns whether there were any. */
static bool close_passed(ptoi_worker *worker, uint32_t at)
{
    ptoi_launcher *l = worker->launcher;
    bool any = false;
    while (l->queue[at].first != PTOI_NONE &&
           l->launches_of[l->queue[at].first].place <= l->streams.stream[at].passed) {
        const uint32_t index = take(l, at);
        close_task(worker, index, l->launches_of[index].ending);
        any = true;
    }
    return any;
}

/* ---- A lost device ---- */

/* The task that was submitted first, of those that are not closed. */
static uint32_t first_suspect(const ptoi_worker *worker)
{
    const ptoi_launcher *l = worker->launcher;
    const ptoi_view *view = &worker->sched->view;
    uint32_t first = PTOI_NONE;
    for (uint32_t i = 0; i < l->streams.n; i++) {
        for (uint32_t k = l->queue[i].first; k != PTOI_NONE; k = l->launches_of[k].next) {
            if (l->launches_of[k].ending == PTOI_ENDS_DONE &&
                (first == PTOI_NONE ||
                 ptoi_order_of(view, &view->slots[k]) < ptoi_order_of(view, &view->slots[first]))) {
                first = k;
            }
        }
    }
    return first;
}

static void name_suspect(const ptoi_worker *worker, uint32_t index, char *text, size_t size)
{
    const ptoi_view *view = &worker->sched->view;
    const ptoi_slot_header header = ptoi_slot_header_of(&view->slots[index]);
    const ptoi_site *site = &view->sites[header.site];
    snprintf(text, size,
             "; first suspect of %" PRIu64 ": task %" PRIu64 ", kernel '%s', submitted at "
             "%s:%" PRId32,
             worker->launcher->busy, ptoi_order_of(view, &view->slots[index]),
             ptoi_kernel_name(view, header.kernel), ptoi_string(view, site->file), site->line);
}

/* The device has said, in the detail of this thread, that it is lost. Nothing that was launched will
 * be done. */
static void lose(ptoi_worker *worker, pto_status status)
{
    ptoi_launcher *l = worker->launcher;
    const uint32_t suspect = first_suspect(worker);
    snprintf(l->why, sizeof l->why, "%s", pto_error_detail());
    if (suspect != PTOI_NONE) {
        const size_t at = strlen(l->why);
        name_suspect(worker, suspect, l->why + at, sizeof l->why - at);
    }
    l->broken = status;
    for (uint32_t i = 0; i < l->streams.n; i++) {
        ptoi_stream *stream = &l->streams.stream[i];
        while (l->queue[i].first != PTOI_NONE) {
            const uint32_t index = take(l, i);
            uint32_t ending = l->launches_of[index].ending;
            if (ending == PTOI_ENDS_DONE) {
                ending = ptoi_end_judge(worker->sched, worker, index, status, l->why);
            }
            close_task(worker, index, ending);
        }
        stream->passed = stream->marked = stream->put;
        stream->n = 0;
    }
}

/* ---- Progress ---- */

/* Asks the device how far a stream is, and closes what is done. With `mark`, also the tasks without a
 * marker can be seen next time. Returns whether anything was closed. */
static bool poll_stream(ptoi_worker *worker, uint32_t at, bool mark)
{
    ptoi_streams *streams = &worker->launcher->streams;
    pto_status s = mark ? ptoi_streams_mark(streams, at) : PTO_OK;
    s = s ? s : ptoi_streams_poll(streams, at);
    if (s) {
        lose(worker, s);
        return true;
    }
    return close_passed(worker, at);
}

/* There is nothing to launch: somebody may wait for what was launched. */
static bool poll_all(ptoi_worker *worker)
{
    ptoi_launcher *l = worker->launcher;
    bool any = false;
    for (uint32_t i = 0; i < l->streams.n; i++) {
        any |= l->queue[i].first != PTOI_NONE && poll_stream(worker, i, true);
    }
    return any;
}

/* ---- Launching ---- */

/* What a task needs: the places of the producers that are not closed. */
static void find_needs(const ptoi_worker *worker, uint32_t index, ptoi_needs *needs)
{
    const ptoi_view *view = &worker->sched->view;
    const ptoi_slot *slot = &view->slots[index];
    const ptoi_ref *refs = view->level[ptoi_slot_header_of(slot).level].deps + slot->deps;
    needs->set = 0;
    for (uint32_t i = 0; i < slot->fanin; i++) {
        uint64_t waiters;
        if (!ptoi_is_complete(view, refs[i], &waiters)) {
            const ptoi_slot *its = ptoi_slot_of(view, ptoi_ref_level(refs[i]),
                                                ptoi_ref_seq(refs[i]));
            const ptoi_launch *launch = &worker->launcher->launches_of[ptoi_slot_index(view, its)];
            ptoi_needs_add(needs, launch->stream, launch->place);
        }
    }
}

/* Calls the kernel of a task, and returns its status. */
static pto_status call(ptoi_worker *worker, uint32_t index, uint64_t *errors_before)
{
    const ptoi_view *view = &worker->sched->view;
    const ptoi_slot *slot = &view->slots[index];
    const ptoi_slot_header header = ptoi_slot_header_of(slot);
    const uint32_t phase = ptoi_get32(&view->states[index].phase);
    ptoi_args_resolve(view, view->level[header.level].args + slot->args, slot->n_args,
                      worker->calls.args);
    pto_status status = ptoi_worker_begin(worker);
    if (!status) {
        status = ptoi_call_kernel(&worker->calls, index, header.kernel, ptoi_lane_type(header.lane),
                                  ptoi_task_make(ptoi_get64(&slot->seq), header.level),
                                  slot->n_args, phase, errors_before);
    }
    if (status != PTO_PENDING) {
        ptoi_call_over(&worker->calls, index, phase);
    }
    return status;
}

/* The device was lost. It may have been repaired: simulated ones can be. */
static bool is_broken(ptoi_worker *worker)
{
    ptoi_launcher *l = worker->launcher;
    const pto_device_ops *ops = &worker->device->ops;
    if (l->broken && l->open && ops->begin && !ops->begin(ops->self)) {
        l->broken = PTO_OK;
    }
    return l->broken != PTO_OK;
}

/* The kernel of a task failed, or its stream could not be ordered. If the device is lost, that is the
 * reason, and then no other task is on a stream. */
static pto_status find_reason(ptoi_worker *worker, pto_status status, char *why, size_t size,
                              uint64_t errors_before)
{
    ptoi_launcher *l = worker->launcher;
    const pto_device_ops *ops = &worker->device->ops;
    bool passed;
    snprintf(why, size, "%s", ptoi_end_message(errors_before));
    /* A device that is lost answers no question, whatever the event. */
    const pto_status asked = l->broken
                                 ? PTO_OK
                                 : ops->event_query(ops->self,
                                                    l->streams.stream[0].markers[0].event, &passed);
    if (asked) {
        lose(worker, asked);
    }
    if (l->broken) {
        snprintf(why, size, "%s", l->why);
        return l->broken;
    }
    return status;
}

static void fail(ptoi_worker *worker, uint32_t at, uint32_t index, pto_status status,
                 uint64_t errors_before)
{
    char why[sizeof worker->launcher->why];
    status = find_reason(worker, status, why, sizeof why, errors_before);
    const ptoi_outcome outcome = ptoi_end_judge(worker->sched, worker, index, status, why);
    if (worker->launcher->broken) {
        if (worker->log) {
            worker->log->began = worker->launcher->launches_of[index].when;
        }
        ptoi_close(worker, index, outcome);
    } else {
        put(worker->launcher, at, index, (ptoi_ending)outcome, false);
    }
}

/* The kernel has put its work on a stream. With guards nobody follows before the task is closed: it may
 * turn out to have failed. */
static void launched(ptoi_worker *worker, uint32_t at, uint32_t index, bool guarded)
{
    ptoi_launcher *l = worker->launcher;
    put(l, at, index, PTOI_ENDS_DONE, guarded);
    const bool awaited = worker->sched->devices_guarded || ptoi_launched(worker, index);
    const ptoi_stream *stream = &l->streams.stream[at];
    if (awaited || stream->put - stream->marked >= PTOI_MARK_EVERY) {
        const pto_status s = ptoi_streams_mark(&l->streams, at);
        if (s) {
            lose(worker, s);
        }
    }
}

static void launch(ptoi_worker *worker, uint32_t index)
{
    ptoi_launcher *l = worker->launcher;
    const ptoi_scheduler *s = worker->sched;
    const bool skipped = s->view.states[index].poisoned || ptoi_is_cancelled(&s->view);
    bool guarded = false;
    uint64_t errors_before = ptoi_error_serial();
    ptoi_needs needs;
    find_needs(worker, index, &needs);
    const bool follows = needs.set && !(skipped && PTOI_MUTANT(SKIP_EARLY));
    if (skipped && !follows) {
        ptoi_close(worker, index, PTOI_SKIPPED);
        return;
    }
    if (!skipped && is_broken(worker)) { /* then nothing is launched, so it needs nothing */
        ptoi_close(worker, index, ptoi_end_judge(worker->sched, worker, index, l->broken, l->why));
        return;
    }
    const uint32_t at = ptoi_streams_choose(&l->streams, &needs);
    pto_status status = ptoi_streams_order(&l->streams, at, &needs);
    if (status) {
        lose(worker, status);
    } else if (!skipped) {
        /* If guards are damaged before the kernel starts, it is not the cause. */
        guarded = s->devices_guarded && ptoi_guard_is_whole(s, &s->view.slots[index]);
        worker->calls.call.stream = l->streams.stream[at].handle;
        status = call(worker, index, &errors_before);
        if (worker->log && status != PTO_PENDING) {
            l->launches_of[index].when = worker->log->began;
            worker->log->began = 0;
        }
    }
    if (status == PTO_PENDING && PTOI_MUTANT(PENDING_LAUNCHED)) {
        status = PTO_OK;
    }
    if (status && skipped) {
        ptoi_close(worker, index, PTOI_SKIPPED);
    } else if (status && status != PTO_PENDING) {
        fail(worker, at, index, status, errors_before);
    } else if (status == PTO_PENDING && !follows) {
        ptoi_end(worker, index, PTO_PENDING, errors_before);
    } else if (status == PTO_PENDING || skipped) {
        put(l, at, index, skipped ? PTOI_ENDS_SKIPPED : PTOI_ENDS_PENDING, false);
    } else {
        launched(worker, at, index, guarded);
    }
}

bool ptoi_launcher_step(ptoi_worker *worker)
{
    ptoi_launcher *l = worker->launcher;
    const uint32_t index = ptoi_worker_find(worker);
    if (index == PTOI_NONE) {
        const uint32_t patience = worker->sched->spin < PATIENCE ? worker->sched->spin : PATIENCE;
        return l->busy && ++l->idle > patience && poll_all(worker);
    }
    l->idle = 0;
    launch(worker, index);
    if (l->busy && ++l->launches >= POLL_EVERY) {
        l->launches = 0;
        l->polled = l->polled + 1 < l->streams.n ? l->polled + 1 : 0;
        (void)poll_stream(worker, l->polled, false);
    }
    return true;
}
