/* program_twice.h - the fast path of submit (src/orchestrator/submit.c) against the slow path.
 *
 * A program runs twice on one thread, once unchanged and once without the fast path. No visible
 * difference is allowed. The linker redirects the calls to this file (--wrap), so the library needs
 * no switch.
 */
#ifndef PTO_TEST_PROGRAM_TWICE_H
#define PTO_TEST_PROGRAM_TWICE_H

#include "program.h"

#include "orchestrator/many.h"
#include "orchestrator/map/entry.h"
#include "orchestrator/slow.h"

static struct {
    bool closed;          /* the fast path is closed: every submit takes the slow path */
    uint64_t tasks, slow; /* submits, and those on the slow path, while the fast path was open */
    uint64_t many;        /* those on the fast path with many parameters or edges */
} twice;

uint64_t __real_ptoi_fast_room(const pto_runtime *rt, uint32_t level);
uint64_t __wrap_ptoi_fast_room(const pto_runtime *rt, uint32_t level);
bool __real_ptoi_many_submit(pto_runtime *rt, const ptoi_request *q, uint32_t device);
bool __wrap_ptoi_many_submit(pto_runtime *rt, const ptoi_request *q, uint32_t device);
pto_status __real_ptoi_slow_link(ptoi_slow *d);
pto_status __wrap_ptoi_slow_link(ptoi_slow *d);

uint64_t __wrap_ptoi_fast_room(const pto_runtime *rt, uint32_t level)
{
    return twice.closed ? 0 : __real_ptoi_fast_room(rt, level);
}

bool __wrap_ptoi_many_submit(pto_runtime *rt, const ptoi_request *q, uint32_t device)
{
    const bool done = !twice.closed && __real_ptoi_many_submit(rt, q, device);
    twice.many += done;
    return done;
}

pto_status __wrap_ptoi_slow_link(ptoi_slow *d)
{
    twice.slow += !twice.closed;
    return __real_ptoi_slow_link(d);
}

/* One thread does everything, so only the program decides the order. */
static inline void twice_alone(program *p)
{
    pto_config *c = &p->config;
    c->workers = PTO_NO_WORKERS;
    c->caller_types = 0;
    memset(c->type_workers, 0, sizeof c->type_workers);
    p->types_apart = false;
    if (!c->first_task) {
        c->first_task = 1; /* otherwise each runtime has its own numbers */
    }
    c->place = PTO_PLACE_INLINE;
    c->inline_ns = PTO_NO_INLINE;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        program_work *work = &p->op[i].work;
        if (work->ending != END_RETURN) {
            work->ending = END_INSIDE;
        }
        work->delay[0] = work->delay[1] = 0;
    }
}

/* Notes the state that the API does not show, or shows only later. */
static inline void twice_look_inside(program_diary *d, pto_runtime *rt)
{
    pto_tensormap_stats map;
    twice.tasks += twice.closed ? 0 : rt->order;
    program_must(pto_tensormap_get_stats(rt->map, &map) == PTO_OK, "pto_tensormap_get_stats");
    diary_note(d, "accesses recorded", map.inserts);
    diary_note(d, "regions of bad memory", rt->poison.count);
    for (uint32_t l = 0; l < rt->levels; l++) {
        const ptoi_rings *t = &rt->rings[l];
        diary_note(d, "bad tasks", rt->poison.n_bad[l]);
        diary_note(d, "head", t->head);
        diary_note(d, "completed", t->completed);
        diary_note(d, "retired", t->retired);
        diary_note(d, "blocks", t->blocks.head - t->blocks.tail);
        diary_note(d, "head of the arguments", t->args.head);
        diary_note(d, "tail of the arguments", t->args.tail);
        diary_note(d, "head of the edges", t->deps.head);
        diary_note(d, "tail of the edges", t->deps.tail);
        diary_note(d, "heap", t->heap.used);
        diary_note(d, "entries of the map", ptoi_entry_used(&rt->map->level[l]));
    }
}

/* Whether both runs match the oracle and each other. */
static inline bool twice_try(const program *p, program_sights *sights, char *why, size_t size)
{
    uint8_t *area[AREA_COUNT];
    for (int i = 0; i < AREA_COUNT; i++) {
        area[i] = program_room(program_area_bytes[i], 1);
    }
    program_diary fast = {.look_inside = twice_look_inside, .area = area}, slow = fast;
    twice.closed = false;
    bool good = program_try_noting(p, sights, &fast, why, size);
    twice.closed = true;
    good = good && program_try_noting(p, sights, &slow, why, size) &&
           diary_same(&fast, &slow, "unchanged", "without the fast path", why, size);
    twice.closed = false;
    diary_free(&fast);
    diary_free(&slow);
    for (int i = 0; i < AREA_COUNT; i++) {
        free(area[i]);
    }
    return good;
}

#endif /* PTO_TEST_PROGRAM_TWICE_H */
