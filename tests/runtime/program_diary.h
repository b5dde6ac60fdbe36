/* program_diary.h - everything visible of a run, in order, to compare two runs of one program. Only
 * on one thread are two runs always equal.
 */
#ifndef PTO_TEST_PROGRAM_DIARY_H
#define PTO_TEST_PROGRAM_DIARY_H

#include "program_data.h"

typedef struct diary_entry {
    uint32_t op;      /* that was at hand */
    const char *what; /* a literal */
    uint64_t value;
} diary_entry;

typedef struct program_diary {
    diary_entry *entry;
    uint32_t n, room;
    uint32_t op;
    void (*look_inside)(struct program_diary *d, pto_runtime *rt);
    uint8_t *const
        *area; /* memory of the user, at the same addresses each time: what follows what in
                             the map, and so why an edge is counted, depends on them */
} program_diary;

static inline void diary_note(program_diary *d, const char *what, uint64_t value)
{
    if (d->n == d->room) {
        d->room = d->room ? 2 * d->room : 4096;
        d->entry = realloc(d->entry, d->room * sizeof *d->entry);
        program_must(d->entry != NULL, "no memory");
    }
    d->entry[d->n++] = (diary_entry){d->op, what, value};
}

static inline void diary_bytes(program_diary *d, const char *what, const uint8_t *data,
                               uint64_t bytes)
{
    uint64_t h = bytes;
    for (uint64_t i = 0; i < bytes; i++) {
        h = (h ^ data[i]) * UINT64_C(0x100000001B3);
    }
    diary_note(d, what, h);
}

static inline void diary_level(program_diary *d, const pto_level_stats *l)
{
    diary_note(d, "tasks alive", l->ring[PTO_RING_TASKS].used);
    diary_note(d, "the most tasks alive", l->ring[PTO_RING_TASKS].peak);
    diary_note(d, "heap in use", l->ring[PTO_RING_HEAP].used);
    diary_note(d, "the most heap in use", l->ring[PTO_RING_HEAP].peak);
    diary_note(d, "arguments in use", l->ring[PTO_RING_ARGS].used);
    diary_note(d, "edges in use", l->ring[PTO_RING_DEPS].used);
    diary_note(d, "map entries in use", l->ring[PTO_RING_MAP].used);
    diary_note(d, "waits for the task ring", l->ring[PTO_RING_TASKS].waits);
    diary_note(d, "waits for the heap", l->ring[PTO_RING_HEAP].waits);
    diary_note(d, "waits for arguments", l->ring[PTO_RING_ARGS].waits);
    diary_note(d, "waits for edges", l->ring[PTO_RING_DEPS].waits);
    diary_note(d, "waits for the map", l->ring[PTO_RING_MAP].waits);
}

static inline void diary_stats(program_diary *d, pto_runtime *rt)
{
    pto_runtime_stats s;
    program_must(pto_stats(rt, &s) == PTO_OK, "pto_stats");
    diary_note(d, "tasks submitted", s.submitted);
    diary_note(d, "tasks completed", s.completed);
    diary_note(d, "tasks failed", s.failed);
    diary_note(d, "tasks skipped", s.skipped);
    diary_note(d, "raw edges", s.raw);
    diary_note(d, "war edges", s.war);
    diary_note(d, "waw edges", s.waw);
    diary_note(d, "after edges", s.after);
    diary_note(d, "overlaps guessed", s.overlap_budget_hits);
    diary_note(d, "tasks helped with", s.helped);
    diary_note(d, "depth of scopes", s.scope_depth);
    diary_note(d, "buffers", s.buffers);
    diary_note(d, "the oldest task", s.oldest);
    for (uint32_t l = 0; l < s.levels; l++) {
        diary_level(d, &s.level[l]);
    }
}

static inline void diary_task(program_diary *d, pto_runtime *rt, pto_task task)
{
    pto_task_report r;
    if (task == 0) {
        return;
    }
    program_must(pto_task_info(rt, task, &r) == PTO_OK, "pto_task_info");
    diary_note(d, "the last task", task);
    diary_note(d, "its state", r.state);
    if (r.state != PTO_TASK_CONSUMED) {
        diary_note(d, "its order", r.order);
        diary_note(d, "its fan-in", r.fanin_count);
        diary_note(d, "what it waits for", r.fanin_left);
        diary_note(d, "its fan-out", r.fanout_count);
        diary_note(d, "who holds it", r.fanout_left);
        diary_note(d, "its heap", r.heap_bytes);
        diary_note(d, "its line", (uint64_t)r.line);
        diary_note(d, "its failure", r.failed * 2u + r.skipped);
    }
}

/* Whether two diaries are equal; if not, `why` says where they differ. */
static inline bool diary_same(const program_diary *a, const program_diary *b, const char *name_a,
                              const char *name_b, char *why, size_t size)
{
    for (uint32_t i = 0; i < a->n || i < b->n; i++) {
        static const diary_entry end = {0, "the end", 0};
        const diary_entry *x = i < a->n ? &a->entry[i] : &end, *y = i < b->n ? &b->entry[i] : &end;
        if (x->op != y->op || strcmp(x->what, y->what) != 0 || x->value != y->value) {
            snprintf(why, size,
                     "operation %u: %s: %" PRIu64 " %s; operation %u: %s: %" PRIu64 " %s", x->op,
                     x->what, x->value, name_a, y->op, y->what, y->value, name_b);
            return false;
        }
    }
    return true;
}

static inline void diary_free(program_diary *d)
{
    free(d->entry);
    memset(d, 0, sizeof *d);
}

#endif /* PTO_TEST_PROGRAM_DIARY_H */
