/* tell.c - what ranks tell each other besides messages of tasks: that they are blocked, and after which steps,
 * and that they cannot go on. All of it on the control communicator, under the lock. */
#include <stdarg.h>

#include "world.h"

/* Tells another rank something. Under the lock. A rank that does not listen is not waited for: reports are
 * small, and MPI sends them at once. */
static void tell(world *w, int to, int tag, const report *r)
{
    MPI_Request request;
    kept *copy = malloc(sizeof *copy);
    if (!copy) {
        return;
    }
    copy->report = *r;
    copy->next = w->kept; /* MPI may read it later; few are ever made */
    w->kept = copy;
    if (MPI_Isend(&copy->report, (int)sizeof copy->report, MPI_BYTE, to, tag, w->control,
                  &request) == MPI_SUCCESS) {
        MPI_Request_free(&request);
    }
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

pto_status world_break(world *w, pto_status status, const char *format, ...)
{
    char text[MPI_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pthread_mutex_lock(&w->lock);
    if (!atomic_load(&w->broken)) {
        char words[MPI_TEXT + 64];
        snprintf(words, sizeof words, "rank %d cannot go on: %s", w->rank, text);
        words[MPI_TEXT - 1] = 0;
        report r = {.rank = w->rank, .status = PTO_WORKER_LOST};
        memcpy(r.text, words, sizeof r.text);
        tell_all(w, TAG_BROKEN, &r);
        world_broken_by(w, status, text);
    }
    pthread_mutex_unlock(&w->lock);
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
        if (status.MPI_TAG == TAG_BROKEN) {
            world_broken_by(w, (pto_status)r->status, r->text);
        } else {
            compare(w, r);
        }
    }
    free(r);
}

void tell_everything(world *w)
{
    report r = {0};
    for (uint64_t item = 0; (item = history_report_next(w, item, &r)) != 0;) {
        tell_all(w, TAG_BLOCKED, &r);
    }
}
