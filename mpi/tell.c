/* tell.c - what ranks tell each other besides messages of tasks: that they are blocked, and after which steps,
 * and that they cannot go on. All of it on the control communicator, under the lock. */
#include <stdarg.h>

#include "world.h"

/* Frees the reports that have been sent. */
static void sweep(world *w)
{
    for (kept **at = &w->kept; *at;) {
        kept *k = *at;
        int sent = 0;
        if (MPI_Test(&k->request, &sent, MPI_STATUS_IGNORE) == MPI_SUCCESS && sent) {
            *at = k->next;
            free(k);
        } else {
            at = &k->next;
        }
    }
}

/* Whether the rank still has to take the last report of this kind: a new one would tell it as little, and all of them
 * take memory. */
static bool on_its_way(const world *w, int to, int tag)
{
    for (const kept *k = w->kept; k; k = k->next) {
        if (k->to == to && k->tag == tag) {
            return true;
        }
    }
    return false;
}

/* Tells another rank something. Under the lock. A rank that does not listen is not waited for: reports are
 * small, and MPI sends them at once. */
static void tell(world *w, int to, int tag, const report *r)
{
    kept *copy = malloc(sizeof *copy);
    if (!copy) {
        return;
    }
    copy->to = to;
    copy->tag = tag;
    copy->report = *r;
    if (MPI_Isend(&copy->report, (int)sizeof copy->report, MPI_BYTE, to, tag, w->control,
                  &copy->request) != MPI_SUCCESS) {
        free(copy);
        return;
    }
    copy->next = w->kept;
    w->kept = copy;
}

void tell_blocked(world *w, const report *r)
{
    sweep(w);
    for (int i = 0; i < w->ranks; i++) {
        if (i != w->rank && !on_its_way(w, i, TAG_BLOCKED)) {
            tell(w, i, TAG_BLOCKED, r);
        }
    }
}

void tell_stop(world *w)
{
    sweep(w);
    for (kept *k = w->kept; k; k = k->next) {
        MPI_Request_free(&k->request);
    }
    w->kept = NULL; /* MPI may still read them */
}

void tell_all(world *w, int tag, const report *r)
{
    for (int i = 0; i < w->ranks && !w->counting; i++) {
        if (i != w->rank) {
            tell(w, i, tag, r);
        }
    }
}

void world_broken_by(world *w, pto_status status, const char *text)
{
    if (!atomic_load(&w->broken)) {
        snprintf(w->broken_text, sizeof w->broken_text, "%s", text);
        w->broken_status = status;
        atomic_store(&w->broken, true);
        pthread_cond_signal(&w->wake);
    }
}

static void break_and_tell(world *w, pto_status status, const char *text)
{
    report r = {.rank = w->rank, .status = (int32_t)status};
    if (atomic_load(&w->broken)) {
        return;
    }
    snprintf(r.text, sizeof r.text, "%s", text);
    tell_all(w, TAG_BROKEN, &r);
    world_broken_by(w, status, text);
}

pto_status world_cancelled(world *w)
{
    return world_break(w, PTO_CANCELLED, "the runtime was cancelled (pto_cancel)");
}

pto_status world_break(world *w, pto_status status, const char *format, ...)
{
    char text[MPI_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pthread_mutex_lock(&mpi_lock);
    if (!atomic_load(&w->broken)) {
        char words[MPI_TEXT + 64];
        snprintf(words, sizeof words, "rank %d cannot go on: %s", w->rank, text);
        words[MPI_TEXT - 1] = 0;
        report r = {.rank = w->rank, .status = PTO_WORKER_LOST};
        memcpy(r.text, words, sizeof r.text);
        tell_all(w, TAG_BROKEN, &r);
        world_broken_by(w, status, text);
    }
    pthread_mutex_unlock(&mpi_lock);
    return pto_fail(status, "%s", text);
}

/* Compares what another rank did with what we did. If that differs, both narrow down together where it
 * began: each answer is 24 steps between the last one that was equal and the first one that was not. */
static void compare(world *w, const report *r)
{
    char text[MPI_TEXT];
    uint64_t low, high;
    bool next;
    if (!history_differs(w, r, &low, &high, &next, text, sizeof text)) {
        return;
    }
    if (next) {
        break_and_tell(w, PTO_MISMATCH, text);
        return;
    }
    report answer = {0};
    history_report(w, low, high, &answer);
    tell(w, r->rank, TAG_BLOCKED, &answer);
}

void tell_listen(world *w)
{
    report *r = NULL;
    for (int there = 1; there && !atomic_load(&w->broken);) {
        MPI_Status status;
        if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, w->control, &there, &status) != MPI_SUCCESS ||
            !there || (!r && !(r = malloc(sizeof *r)))) {
            break;
        }
        if (MPI_Recv(r, (int)sizeof *r, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, w->control,
                     MPI_STATUS_IGNORE) != MPI_SUCCESS) {
            break;
        }
        r->text[MPI_TEXT - 1] = 0;
        if (status.MPI_TAG == TAG_ENDED) {
            w->ended++;
        } else if (status.MPI_TAG == TAG_BROKEN) {
            world_broken_by(w, (pto_status)r->status, r->text);
        } else {
            compare(w, r);
        }
    }
    free(r);
}

void tell_ended(world *w)
{
    tell_all(w, TAG_ENDED, &(report){.rank = w->rank});
}

bool tell_all_ended(world *w)
{
    report r;
    int there = 1;
    while (MPI_Iprobe(MPI_ANY_SOURCE, TAG_ENDED, w->control, &there, MPI_STATUS_IGNORE) ==
               MPI_SUCCESS &&
           there) {
        if (MPI_Recv(&r, (int)sizeof r, MPI_BYTE, MPI_ANY_SOURCE, TAG_ENDED, w->control,
                     MPI_STATUS_IGNORE) != MPI_SUCCESS) {
            break;
        }
        w->ended++;
    }
    return w->ended >= w->ranks - 1;
}

void tell_everything(world *w)
{
    report r = {0};
    for (uint64_t item = 0; (item = history_report_next(w, item, &r)) != 0;) {
        tell_all(w, TAG_BLOCKED, &r);
    }
}
