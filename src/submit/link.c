/* link.c - whom does the task wait for? The map is asked, and told.
 *
 * The map answers with tasks that touched the same bytes; each becomes one reference, however often
 * it is met, and one that poisons if it is for a RAW or an `after` at all. References are only
 * written down: whoever looks at the task joins the lists (sched/step.c).
 *
 * A task asks about all its accesses before it tells of the first, so it never meets itself. Once
 * the first is told nothing can fail.
 */
#include <string.h>

#include "base/mutant.h"
#include "submit/draft.h"
#include "submit/handle.h"

#define HITS 64 /* answers of the map that are taken the fast way */

/* ---- References ---- */

static inline void add_edge(ptoi_draft *d, uint32_t level, uint64_t seq, ptoi_reason why)
{
    pto_runtime *rt = d->rt;
    if (seq < rt->track[level].completed) {
        return;
    }
    ptoi_note *note = ptoi_note_of(&rt->track[level], seq);
    bool poisons = why == PTOI_REASON_RAW || why == PTOI_REASON_AFTER;
    if (note->linked == rt->attempt) { /* known: at most it poisons now */
        d->refs[note->link] |= poisons;
        return;
    }
    note->linked = rt->attempt;
    note->link = d->fanin;
    d->refs[d->fanin++] = ptoi_ref_make(seq, level, poisons);
    d->edges[why]++;
}

static inline void add_hit(ptoi_draft *d, uint64_t seq, uint32_t level, uint32_t access,
                           pto_map_access met)
{
    ptoi_reason why = met == PTO_MAP_READ                    ? PTOI_REASON_WAR
                      : d->kinds[access] == PTO_PARAM_OUTPUT ? PTOI_REASON_WAW
                                                             : PTOI_REASON_RAW;
    if ((PTOI_MUTANT(NO_WAR) && why == PTOI_REASON_WAR) ||
        (PTOI_MUTANT(NO_WAW) && why == PTOI_REASON_WAW) ||
        (PTOI_MUTANT(NO_RAW) && why == PTOI_REASON_RAW && d->kinds[access] == PTO_PARAM_INPUT)) {
        return;
    }
    add_edge(d, level, seq, why);
}

static void add_after(ptoi_draft *d)
{
    for (size_t i = 0; i < d->n_params; i++) {
        if (d->params[i].kind != PTO_PARAM_AFTER) {
            continue;
        }
        ptoi_ref ref = ptoi_handle_ref(d->params[i].task);
        uint32_t level = ptoi_ref_level(ref);
        uint64_t seq = ptoi_ref_seq(ref);
        if (seq < d->rt->track[level].completed) {
            d->poisoned |= ptoi_poison_is_bad(d->rt, level, seq);
        } else {
            add_edge(d, level, seq, PTOI_REASON_AFTER);
        }
    }
}

/* ---- The way of any task ---- */

typedef struct emit_context {
    ptoi_draft *d;
    uint32_t access;
} emit_context;

static void emit(void *context, uint64_t seq, uint32_t level, uint32_t entry, pto_map_access met,
                 bool live)
{
    const emit_context *c = context;
    (void)entry;
    if (live) {
        add_hit(c->d, seq, level, c->access, met);
    }
}

/* The parameter that an access belongs to: the first with that tensor. */
static size_t param_of(const ptoi_draft *d, size_t access)
{
    size_t i = 0;
    while (d->params[i].kind > PTO_PARAM_INOUT ||
           d->params[i].tensor != d->accesses[access].tensor) {
        i++;
    }
    return i;
}

/* All is asked, then all is recorded. Regions may come and go meanwhile, so each is found twice. */
static __attribute__((noinline)) pto_status link_any(ptoi_draft *d)
{
    pto_runtime *rt = d->rt;
    ptoi_found found;
    size_t entries = 0;
    d->refs = rt->edges;
    d->fanin = 0;
    for (size_t i = 0; i < d->n_accesses; i++) {
        pto_status sound = ptoi_access_find(rt->map, d->accesses[i].tensor, &found);
        if (PTOI_UNLIKELY(sound != PTO_OK)) {
            return ptoi_draft_accuse(param_of(d, i), sound);
        }
        entries += !found.empty;
        emit_context context = {d, (uint32_t)i};
        ptoi_access_ask(rt->map, &found, d->accesses[i].access, emit, &context);
    }
    add_after(d);
    ptoi_draft_reserve_edges(d);
    if (!d->barrier && entries) {
        /* There is room for as many, and what is complete by now has only made more. */
        PTO_TRY(ptoi_entry_reserve(rt->map, d->level, entries));
        const pto_map_task task = {d->seq, d->level};
        for (size_t i = 0; i < d->n_accesses; i++) {
            (void)ptoi_access_find(rt->map, d->accesses[i].tensor, &found); /* sound, as before */
            if (!found.empty) {
                ptoi_access_record(rt->map, &found, d->accesses[i].access, task);
            }
        }
        ptoi_map_debug_check(rt->map);
    }
    memcpy(rt->view.level[d->level].deps + d->deps.at, d->refs, d->fanin * sizeof *d->refs);
    return PTO_OK;
}

/* ---- The way that is hoped for ---- */

/* See ptoi_access_submit. Edges go straight to where they stay. False, with nothing changed, if it
 * cannot be gone. (Compilers do not like to inline so much stack; a call costs 16 instructions.) */
static inline __attribute__((always_inline)) bool link_known(ptoi_draft *d)
{
    pto_runtime *rt = d->rt;
    pto_map_hit hits[HITS];
    size_t n_hits = 0;
    if (PTOI_UNLIKELY(d->has_after || d->barrier ||
                      !ptoi_ring_fits(&d->track->deps, HITS, &d->deps) ||
                      (d->n_accesses && !ptoi_access_submit(rt->map, d->accesses, d->n_accesses,
                                                            (pto_map_task){d->seq, d->level}, hits,
                                                            HITS, &n_hits)))) {
        return false;
    }
    d->refs = rt->view.level[d->level].deps + d->deps.at;
    for (size_t i = 0; i < n_hits; i++) {
        add_hit(d, hits[i].task.id, hits[i].task.level, hits[i].param, hits[i].access);
    }
    if (PTOI_UNLIKELY(ptoi_draft_edges_are_few(d))) {
        ptoi_draft_drop_complete(d);
    }
    return true;
}

/* ---- Both ---- */

/* What the task brings itself: nobody has to be asked, everybody has to know. */
static void record_fresh(const ptoi_draft *d)
{
    const pto_runtime *rt = d->rt;
    for (size_t i = 0, left = d->n_fresh; left; i++) {
        const pto_param *p = &d->params[i];
        if (p->kind != PTO_PARAM_OUTPUT || !p->tensor->owner) {
            continue;
        }
        ptoi_buffer *b = ptoi_draft_buffer(d, p);
        if (b->told == rt->attempt) {
            b->told = 0; /* once, if it is named twice */
            left--;
            ptoi_access_record_fresh(rt->map, p->tensor, (pto_map_task){d->seq, d->level});
        }
    }
}

/* Reading what went bad makes the task bad; writing it makes it good, or the writer is bad itself
 * and says so when it is passed. */
static __attribute__((noinline, cold)) void judge(ptoi_draft *d)
{
    for (size_t i = 0; i < d->n_accesses; i++) {
        if (d->kinds[i] != PTO_PARAM_OUTPUT) {
            d->poisoned |= ptoi_poison_meets(d->rt, d->accesses[i].tensor);
        }
    }
    for (size_t i = 0; i < d->n_accesses; i++) {
        if (d->kinds[i] != PTO_PARAM_INPUT) {
            ptoi_poison_cover(d->rt, d->accesses[i].tensor);
        }
    }
}

pto_status ptoi_draft_link(ptoi_draft *d)
{
    if (PTOI_UNLIKELY(!link_known(d))) {
        PTO_TRY(link_any(d));
    }
    if (d->n_fresh && !d->barrier) {
        record_fresh(d);
    }
    if (PTOI_UNLIKELY(ptoi_poison_any(d->rt))) {
        judge(d);
    }
    return PTO_OK;
}
