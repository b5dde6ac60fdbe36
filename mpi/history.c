/* history.c - the rolling hash of all calls, and the comparison of two ranks. Written by the
 * orchestrating thread; read by the progress thread when ranks are blocked. */
#include "world.h"

static uint64_t count_of(const world *w)
{
    return atomic_load_explicit(&w->history.count, memory_order_acquire);
}

/* The oldest item that will not be replaced at once. */
static uint64_t oldest(uint64_t count)
{
    return count > MPI_HISTORY - 4 ? count - (MPI_HISTORY - 4) : 1;
}

static uint64_t step_at(const world *w, uint64_t item)
{
    return atomic_load_explicit(&w->history.of[item & (MPI_HISTORY - 1)].step,
                                memory_order_relaxed);
}

/* Reads one item. False if it is not remembered any more, or not made yet. */
static bool read_item(const world *w, uint64_t item, told *t)
{
    const history *h = &w->history;
    const size_t i = item & (MPI_HISTORY - 1);
    if (item == 0 || item > count_of(w)) {
        return false;
    }
    const char *file = atomic_load_explicit(&h->of[i].file, memory_order_relaxed);
    *t = (told){.step = atomic_load_explicit(&h->of[i].step, memory_order_relaxed),
                .hash = atomic_load_explicit(&h->of[i].hash, memory_order_relaxed),
                .line = atomic_load_explicit(&h->of[i].line, memory_order_relaxed)};
    const size_t length = file ? strlen(file) : 0;
    snprintf(t->file, sizeof t->file, "%s",
             !file                     ? "?"
             : length < sizeof t->file ? file
                                       : file + length - sizeof t->file + 1);
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&h->count, memory_order_relaxed) - item < MPI_HISTORY - 1;
}

/* The last item whose step is at most `step`; 0: none that is remembered. */
static uint64_t item_of(const world *w, uint64_t step)
{
    const uint64_t count = count_of(w);
    uint64_t low = oldest(count), high = count + 1; /* the answer is below high */
    if (!count || step_at(w, low) > step) {
        return 0;
    }
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (step_at(w, middle) <= step) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Items from `first` to `last`, evenly chosen, with both. */
static void report_items(const world *w, uint64_t first, uint64_t last, report *r)
{
    const uint64_t n = last - first + 1 < MPI_TOLD ? last - first + 1 : MPI_TOLD;
    r->rank = w->rank;
    r->n = 0;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t item = n > 1 ? first + (last - first) * i / (n - 1) : last;
        r->n += read_item(w, item, &r->steps[r->n]);
    }
}

void history_report_last(const world *w, report *r)
{
    const uint64_t count = count_of(w);
    r->rank = w->rank;
    r->n = 0;
    if (count) {
        report_items(w, count > MPI_TOLD ? count - MPI_TOLD + 1 : 1, count, r);
    }
}

uint64_t history_report_next(const world *w, uint64_t item, report *r)
{
    const uint64_t count = count_of(w), begin = oldest(count);
    const uint64_t first = item + 1 > begin ? item + 1 : begin;
    if (first > count) {
        return 0;
    }
    const uint64_t last = count - first < MPI_TOLD ? count : first + MPI_TOLD - 1;
    report_items(w, first, last, r);
    return last;
}

void history_report(const world *w, uint64_t low, uint64_t high, report *r)
{
    const uint64_t first = item_of(w, low), last = item_of(w, high);
    const uint64_t begin = first ? first : oldest(count_of(w));
    r->rank = w->rank;
    r->n = 0;
    if (last >= begin) {
        report_items(w, begin, last, r);
    }
}

static bool recall(const world *w, uint64_t step, told *t)
{
    const uint64_t item = item_of(w, step);
    return item && read_item(w, item, t) && t->step == step;
}

bool history_differs(const world *w, const report *other, uint64_t *low, uint64_t *high, bool *next,
                     char *text, size_t bytes)
{
    told mine;
    *low = 0;
    for (uint32_t i = 0; i < other->n && i < MPI_TOLD; i++) {
        const told *theirs = &other->steps[i];
        if (!recall(w, theirs->step, &mine)) {
            continue;
        }
        if (mine.hash == theirs->hash) {
            *low = theirs->step;
            continue;
        }
        const uint64_t before = item_of(w, *low);
        *high = theirs->step;
        *next = item_of(w, *high) == (before ? before + 1 : oldest(count_of(w)));
        char inside[40] = "";
        if (*high & STEP_INSIDE) {
            snprintf(inside, sizeof inside, ", step %" PRIu64 " of its range,",
                     *high & STEP_INSIDE);
        }
        snprintf(text, bytes,
                 "the ranks run different programs: they differ from call %" PRIu64
                 " on,%s which is at %.51s:%d on rank %d and at %.51s:%d on rank %d",
                 *high >> STEP_BITS, inside, mine.file, mine.line, w->rank, theirs->file,
                 theirs->line, other->rank);
        return true;
    }
    return false;
}
