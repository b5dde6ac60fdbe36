/* rows.c - finds the tasks that were pending, and assigns them to rows beside the lane. */
#include "observe/rows.h"

#include <stdlib.h>

#include "observe/log.h"

static int by_lane_and_start(const void *a, const void *b)
{
    const ptoi_task_run *x = a, *y = b;
    if (x->lane != y->lane) {
        return x->lane < y->lane ? -1 : 1;
    }
    return x->start != y->start ? (x->start < y->start ? -1 : 1)
                                : (x->task > y->task) - (x->task < y->task);
}

/* An event of a lane begins, or ends. */
typedef struct mark {
    uint64_t at;
    uint32_t lane;
} mark;

static int by_lane_and_time(const void *a, const void *b)
{
    const mark *x = a, *y = b;
    if (x->lane != y->lane) {
        return x->lane < y->lane ? -1 : 1;
    }
    return x->at < y->at ? -1 : x->at > y->at;
}

/* A heap of rows, with the smallest key on top. */
typedef struct heap {
    struct keyed {
        uint64_t key;
        uint32_t row;
    } * at;
    uint64_t n;
} heap;

static void push(heap *h, uint64_t key, uint32_t row)
{
    uint64_t i = h->n++;
    for (; i && h->at[(i - 1) / 2].key > key; i = (i - 1) / 2) {
        h->at[i] = h->at[(i - 1) / 2];
    }
    h->at[i] = (struct keyed){key, row};
}

static uint32_t pop(heap *h)
{
    const uint32_t row = h->at[0].row;
    const struct keyed last = h->at[--h->n];
    uint64_t i = 0;
    for (uint64_t next = 1; next < h->n; next = 2 * i + 1) {
        next += next + 1 < h->n && h->at[next + 1].key < h->at[next].key;
        if (h->at[next].key >= last.key) {
            break;
        }
        h->at[i] = h->at[next];
        i = next;
    }
    h->at[i] = last;
    return row;
}

typedef struct maker {
    const ptoi_ptrace *trace;
    ptoi_rows *rows;
    mark *marks; /* by lane and time */
    uint64_t n_marks;
    heap busy, idle; /* rows beside a lane: busy ones by end time, free ones by number */
} maker;

/* The first time after the start of run i at which its lane begins or ends something else. */
static uint64_t next_of(const maker *m, uint64_t i)
{
    const ptrace_task *tasks = m->trace->tasks;
    const ptoi_task_run *r = &m->rows->runs[i];
    uint64_t next = i + 1 < m->rows->n_runs && r[1].lane == r->lane ? r[1].start : UINT64_MAX;
    uint64_t low = 0, high = m->n_marks;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (by_lane_and_time(&m->marks[middle], &(mark){r->start, r->lane}) <= 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low < m->n_marks && m->marks[low].lane == r->lane && m->marks[low].at < next) {
        next = m->marks[low].at;
    }
    if (r->lane != 0) {
        return next;
    }
    for (low = 0, high = m->trace->n_tasks; low < high;) { /* submits are in order of time */
        const uint64_t middle = low + (high - low) / 2;
        if (tasks[middle].called <= r->start) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low < m->trace->n_tasks && tasks[low].called < next) {
        next = tasks[low].called;
    }
    return low && tasks[low - 1].submitted > r->start && tasks[low - 1].submitted < next
               ? tasks[low - 1].submitted
               : next;
}

/* Assigns the runs `i` to before `end`, which are all runs of one lane. A thread does one thing at
 * a time: if it began something else before a task was complete, the task was pending, and it goes
 * to the first free row. Returns the number of rows. */
static uint32_t stack(maker *m, uint64_t i, uint64_t end)
{
    heap *busy = &m->busy, *idle = &m->idle;
    uint32_t rows = 0;
    busy->n = idle->n = 0;
    for (; i < end; i++) {
        ptoi_task_run *r = &m->rows->runs[i];
        const uint64_t next = next_of(m, i);
        if (next >= r->end || r->end - next <= PTOI_TICKS_BLUR_NS) {
            r->end = r->end < next ? r->end : next; /* equal within the clock error */
            continue;
        }
        while (busy->n && busy->at[0].key <= r->start) {
            const uint32_t row = pop(busy);
            push(idle, row, row);
        }
        r->row = idle->n ? pop(idle) : ++rows;
        push(busy, r->end, r->row);
    }
    return rows;
}

static void find_marks(maker *m)
{
    for (uint64_t i = 0; i < m->trace->n_events; i++) {
        const ptrace_event *e = &m->trace->events[i];
        m->marks[m->n_marks++] = (mark){e->begin, e->lane};
        m->marks[m->n_marks++] = (mark){e->begin + ptoi_ptrace_span(e->begin, e->end), e->lane};
    }
    qsort(m->marks, m->n_marks, sizeof *m->marks, by_lane_and_time);
}

static void find_runs(maker *m)
{
    for (uint64_t i = 0; i < m->trace->n_tasks; i++) {
        const ptrace_task *t = &m->trace->tasks[i];
        m->rows->run_of[i] = PTRACE_NONE;
        if (t->lane != PTRACE_NONE && t->start != PTRACE_UNKNOWN) {
            m->rows->runs[m->rows->n_runs++] = (ptoi_task_run){
                t->start, t->start + ptoi_ptrace_ran(t), t->lane, (uint32_t)i, 0};
        }
    }
    qsort(m->rows->runs, m->rows->n_runs, sizeof *m->rows->runs, by_lane_and_start);
}

bool ptoi_rows_find(const ptoi_ptrace *trace, ptoi_rows *rows)
{
    const size_t n = trace->n_tasks + 1;
    maker m = {.trace = trace, .rows = rows};
    *rows = (ptoi_rows){.runs = malloc(n * sizeof *rows->runs),
                        .run_of = malloc(n * sizeof *rows->run_of),
                        .beside = calloc(trace->n_lanes + 1, sizeof *rows->beside)};
    m.busy.at = malloc(n * sizeof *m.busy.at);
    m.idle.at = malloc(n * sizeof *m.idle.at);
    m.marks = malloc((2 * trace->n_events + 1) * sizeof *m.marks);
    const bool good = rows->runs && rows->run_of && rows->beside && m.busy.at && m.idle.at &&
                      m.marks;
    if (good) {
        find_marks(&m);
        find_runs(&m);
        for (uint64_t l = 0, first = 0, end; l < trace->n_lanes; l++, first = end) {
            for (end = first; end < rows->n_runs && rows->runs[end].lane == l; end++) {
                rows->run_of[rows->runs[end].task] = (uint32_t)end;
            }
            rows->beside[l + 1] = rows->beside[l] + stack(&m, first, end);
        }
    }
    free(m.busy.at);
    free(m.idle.at);
    free(m.marks);
    return good;
}

void ptoi_rows_free(ptoi_rows *rows)
{
    free(rows->runs);
    free(rows->run_of);
    free(rows->beside);
}
