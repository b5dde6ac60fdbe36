/* history.c - the rolling hash of all calls, and the comparison of two ranks. Written by the
 * orchestrating thread; read by the progress thread when ranks are blocked. */
#include "world.h"

/* Reads one step. False if it is not remembered any more, or not made yet. */
static bool recall(const world *w, uint64_t step, told *t)
{
    const history *h = &w->history;
    const size_t i = step & (MPI_HISTORY - 1);
    const uint64_t now = atomic_load_explicit(&h->step, memory_order_acquire);
    if (step == 0 || step > now) {
        return false;
    }
    const char *file = atomic_load_explicit(&h->of[i].file, memory_order_relaxed);
    *t = (told){.step = step,
                .hash = atomic_load_explicit(&h->of[i].hash, memory_order_relaxed),
                .line = atomic_load_explicit(&h->of[i].line, memory_order_relaxed)};
    const size_t length = file ? strlen(file) : 0;
    snprintf(t->file, sizeof t->file, "%s",
             !file                     ? "?"
             : length < sizeof t->file ? file
                                       : file + length - sizeof t->file + 1);
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&h->step, memory_order_relaxed) - step < MPI_HISTORY - 1;
}

void history_report(const world *w, uint64_t low, uint64_t high, report *r)
{
    const uint64_t now = atomic_load_explicit(&w->history.step, memory_order_acquire);
    if (now > MPI_HISTORY - 4 && low < now - (MPI_HISTORY - 4)) {
        low = now - (MPI_HISTORY - 4);
    }
    r->rank = w->rank;
    r->n = 0;
    if (high <= low) {
        return;
    }
    const uint64_t steps = high - low, n = steps < MPI_TOLD ? steps : MPI_TOLD;
    for (uint64_t i = 1; i <= n; i++) {
        r->n += recall(w, low + steps * i / n, &r->steps[r->n]);
    }
}

bool history_differs(const world *w, const report *other, uint64_t *low, uint64_t *high, char *text,
                     size_t bytes)
{
    told mine;
    const uint64_t now = atomic_load_explicit(&w->history.step, memory_order_acquire);
    *low = now > MPI_HISTORY - 4 ? now - (MPI_HISTORY - 4) : 0;
    for (uint32_t i = 0; i < other->n && i < MPI_TOLD; i++) {
        const told *theirs = &other->steps[i];
        if (!recall(w, theirs->step, &mine)) {
            continue;
        }
        if (mine.hash == theirs->hash) {
            *low = theirs->step;
            continue;
        }
        *high = theirs->step;
        snprintf(text, bytes,
                 "the ranks run different programs: they differ from call %" PRIu64
                 " on, which is at %.51s:%d on rank %d and at %.51s:%d on rank %d",
                 theirs->step, mine.file, mine.line, w->rank, theirs->file, theirs->line,
                 other->rank);
        return true;
    }
    return false;
}
