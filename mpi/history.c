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

static void copy_item(const history_item *item, told *t)
{
    const char *file = atomic_load_explicit(&item->file, memory_order_relaxed);
    *t = (told){.step = atomic_load_explicit(&item->step, memory_order_relaxed),
                .hash = atomic_load_explicit(&item->hash, memory_order_relaxed),
                .line = atomic_load_explicit(&item->line, memory_order_relaxed)};
    const size_t length = file ? strlen(file) : 0;
    snprintf(t->file, sizeof t->file, "%s",
             !file                     ? "?"
             : length < sizeof t->file ? file
                                       : file + length - sizeof t->file + 1);
}

/* Reads one item. False if it is not remembered any more, or not made yet. */
static bool read_item(const world *w, uint64_t item, told *t)
{
    const history *h = &w->history;
    const size_t i = item & (MPI_HISTORY - 1);
    if (item == 0 || item > count_of(w)) {
        return false;
    }
    copy_item(&h->of[i], t);
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&h->count, memory_order_relaxed) - item < MPI_HISTORY - 1;
}

/* ---- Marks ---------------------------------------------------------------------------------------------- */

enum { EVERY_BITS = 4 }; /* of MPI_MARK_EVERY */
_Static_assert(1 << EVERY_BITS == MPI_MARK_EVERY, "bits");

static void set_item(history_item *to, uint64_t step, uint64_t hash, const char *file, int line)
{
    atomic_store_explicit(&to->step, step, memory_order_relaxed);
    atomic_store_explicit(&to->hash, hash, memory_order_relaxed);
    atomic_store_explicit(&to->file, file, memory_order_relaxed);
    atomic_store_explicit(&to->line, line, memory_order_relaxed);
}

/* Readers see that marks change. */
static void marks_change(history *h)
{
    atomic_fetch_add(&h->epoch, 1);
}

void history_agree(world *w)
{
    history *h = &w->history;
    marks_change(h);
    atomic_store(&h->n_marks, 0);
    atomic_store(&h->agreed, h->step);
    h->mask = w->counting ? UINT64_MAX : (UINT64_C(1) << (STEP_BITS + EVERY_BITS)) - 1;
    marks_change(h);
}

/* Every second one goes. */
static void thin_out(history *h)
{
    uint64_t n = 0;
    marks_change(h);
    h->mask = 2 * h->mask + 1;
    for (uint64_t i = 0; i < MPI_MARKS; i++) {
        const history_item *m = &h->marks[i];
        if (!(m->step & h->mask)) {
            set_item(&h->marks[n++], m->step, m->hash, m->file, m->line);
        }
    }
    atomic_store(&h->n_marks, n);
    marks_change(h);
}

__attribute__((noinline)) void history_mark(world *w, uint64_t step, const char *file, int line)
{
    history *h = &w->history;
    if (!h->marks && !(h->marks = calloc(MPI_MARKS, sizeof *h->marks))) {
        return; /* ranks that differ may then be found later, or by the next wait */
    }
    if (atomic_load_explicit(&h->n_marks, memory_order_relaxed) == MPI_MARKS) {
        thin_out(h);
    }
    if (step & h->mask) {
        return;
    }
    const uint64_t n = atomic_load_explicit(&h->n_marks, memory_order_relaxed);
    set_item(&h->marks[n], step, h->hash, file, line);
    atomic_store_explicit(&h->n_marks, n + 1, memory_order_release);
}

/* ---- What is remembered ------------------------------------------------------------------------------------ */

/* All that this rank remembers, in order of steps: position 1 to `marks` are marks that are older than the items, then come
 * items from `first` on. */
typedef struct past {
    const world *w;
    uint64_t epoch, marks, first, end; /* end: the last position */
} past;

static past past_of(const world *w)
{
    const history *h = &w->history;
    const uint64_t epoch = atomic_load_explicit(&h->epoch, memory_order_acquire);
    const uint64_t count = count_of(w);
    past p = {.w = w, .epoch = epoch, .first = oldest(count)};
    if (count && !(epoch & 1)) {
        p.marks = atomic_load_explicit(&h->n_marks, memory_order_acquire);
        while (p.marks && atomic_load_explicit(&h->marks[p.marks - 1].step, memory_order_relaxed) >=
                              step_at(w, p.first)) {
            p.marks--;
        }
    }
    p.end = p.marks + (count ? count - p.first + 1 : 0);
    return p;
}

static uint64_t past_step(const past *p, uint64_t position)
{
    return position > p->marks ? step_at(p->w, p->first + position - p->marks - 1)
                               : atomic_load_explicit(&p->w->history.marks[position - 1].step,
                                                      memory_order_relaxed);
}

static bool past_read(const past *p, uint64_t position, told *t)
{
    const history *h = &p->w->history;
    if (position > p->marks) {
        return read_item(p->w, p->first + position - p->marks - 1, t);
    }
    if (!position) {
        return false;
    }
    copy_item(&h->marks[position - 1], t);
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&h->epoch, memory_order_relaxed) == p->epoch;
}

/* The last position whose step is at most `step`; 0: none that is remembered. */
static uint64_t past_find(const past *p, uint64_t step)
{
    uint64_t low = 0, high = p->end + 1; /* the answer is below high */
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (past_step(p, middle) <= step) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* ---- Reports ------------------------------------------------------------------------------------------------ */

/* Positions from `first` to `last`, evenly chosen, with both. */
static void report_items(const past *p, uint64_t first, uint64_t last, report *r)
{
    const uint64_t n = last - first + 1 < MPI_TOLD ? last - first + 1 : MPI_TOLD;
    r->rank = p->w->rank;
    r->n = 0;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t position = n > 1 ? first + (last - first) * i / (n - 1) : last;
        r->n += past_read(p, position, &r->steps[r->n]);
    }
}

/* The last steps, and before these the last multiple of each power of two: others may remember no more of that time. */
void history_report_last(const world *w, report *r)
{
    enum { POWERS = MPI_TOLD / 2 };
    const past p = past_of(w);
    const uint64_t last = p.end ? past_step(&p, p.end) : 0;
    const uint64_t recent = p.end > MPI_TOLD - POWERS ? p.end - (MPI_TOLD - POWERS) + 1 : 1;
    r->rank = w->rank;
    r->n = 0;
    for (int bits = EVERY_BITS + POWERS - 1, before = 0; bits >= EVERY_BITS; bits--) {
        const uint64_t step = last >> (STEP_BITS + bits) << (STEP_BITS + bits);
        const uint64_t position = past_find(&p, step);
        if (position > (uint64_t)before && position < recent && past_step(&p, position) == step) {
            r->n += past_read(&p, position, &r->steps[r->n]);
            before = (int)position;
        }
    }
    for (uint64_t position = recent; position <= p.end; position++) {
        r->n += past_read(&p, position, &r->steps[r->n]);
    }
}

uint64_t history_report_next(const world *w, uint64_t item, report *r)
{
    past p = past_of(w);
    const uint64_t count = count_of(w);
    const uint64_t first = item + 1 > p.first ? item + 1 : p.first;
    if (first > count) {
        return 0;
    }
    const uint64_t last = count - first < MPI_TOLD ? count : first + MPI_TOLD - 1;
    p.marks = 0; /* positions are items, from p.first on */
    report_items(&p, first - p.first + 1, last - p.first + 1, r);
    return last;
}

void history_report(const world *w, uint64_t low, uint64_t high, report *r)
{
    const past p = past_of(w);
    const uint64_t first = past_find(&p, low), last = past_find(&p, high);
    r->rank = w->rank;
    r->n = 0;
    if (last) {
        report_items(&p, first ? first : 1, last, r);
    }
}

/* Whether no call lies between two steps that this rank remembers at `position` and before. */
static bool is_next(const past *p, uint64_t low, uint64_t high, uint64_t position)
{
    return high == ((low >> STEP_BITS) + 1) << STEP_BITS ||
           (position > p->marks + 1 && past_step(p, position - 1) <= low);
}

bool history_differs(const world *w, const report *other, uint64_t *low, uint64_t *high, bool *next,
                     char *text, size_t bytes)
{
    const past p = past_of(w);
    *low = atomic_load(&w->history.agreed);
    for (uint32_t i = 0; i < other->n && i < MPI_TOLD; i++) {
        const told *theirs = &other->steps[i];
        const uint64_t position = past_find(&p, theirs->step);
        told mine;
        if (theirs->step <= *low || !past_read(&p, position, &mine) || mine.step != theirs->step) {
            continue;
        }
        if (mine.hash == theirs->hash) {
            *low = theirs->step;
            continue;
        }
        *high = theirs->step;
        *next = position == past_find(&p, *low) + 1; /* nothing in between */
        char inside[40] = "";
        if (*high & STEP_INSIDE) {
            snprintf(inside, sizeof inside, " step %" PRIu64 " of its range,", *high & STEP_INSIDE);
        }
        snprintf(text, bytes,
                 "the ranks run different programs: they differ from call %" PRIu64
                 "%s on,%s which is at %.51s:%d on rank %d and at %.51s:%d on rank %d%s",
                 *high >> STEP_BITS,
                 is_next(&p, *low, *high, position) ? "" : " (or an earlier one)", inside,
                 mine.file, mine.line, w->rank, theirs->file, theirs->line, other->rank,
                 mine.line == theirs->line && !strcmp(mine.file, theirs->file)
                     ? ", with other arguments, kernels or owners of tiles"
                     : "");
        return true;
    }
    return false;
}
