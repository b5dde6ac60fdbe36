#include "orchestrator/map/index.h"

#include <string.h>

#include <pto/pto.h>

#include "base/error.h"
#include "orchestrator/map/keep.h"
#include "orchestrator/map/mix.h"
#include "tensor/overlap.h"

/* An item in the tree of a memory is a region or, with this bit, a group. */
#define GROUP_BIT 0x20000000u

#define GROUP_TRIES 32 /* items to look at in the search for a group around a layout */

static uint32_t take(ptoi_free *list)
{
    return list->freed == PTOI_NONE ? list->untouched++ : list->freed;
}

/* ---- Memories ---- */

static uint32_t space_bucket(const pto_tensormap *map, const ptoi_space_key *key)
{
    return (uint32_t)(ptoi_mix_space(key) >> 32) & map->index_mask;
}

static bool same_space(const ptoi_space *s, const ptoi_space_key *key)
{
    return s->a == key->a && s->b == key->b && s->kind == (uint32_t)key->kind;
}

uint32_t ptoi_space_find(const pto_tensormap *map, const ptoi_space_key *key)
{
    if (key->kind == PTOI_SPACE_USER) {
        return 0;
    }
    uint32_t at = ptoi_chain_at(map->space_buckets[space_bucket(map, key)]);
    while (at != PTOI_NONE && !same_space(&map->spaces[at], key)) {
        at = ptoi_chain_at(map->spaces[at].next);
    }
    return at;
}

static uint32_t space_create(pto_tensormap *map, const ptoi_space_key *key)
{
    uint32_t at = take(&map->space_free);
    ptoi_space *s = &map->spaces[at];
    if (at == map->space_free.freed) {
        map->space_free.freed = s->next;
    }
    ptoi_chain *bucket = &map->space_buckets[space_bucket(map, key)];
    *s = (ptoi_space){key->a, key->b, (uint32_t)key->kind, *bucket, {PTOI_NONE, PTOI_NONE}, 0};
    *bucket = ptoi_chain_to(at);
    return at;
}

static void space_release(pto_tensormap *map, uint32_t at)
{
    ptoi_space *s = &map->spaces[at];
    ptoi_space_key key = {s->a, s->b, (ptoi_space_kind)s->kind};
    ptoi_chain *link = &map->space_buckets[space_bucket(map, &key)];
    while (ptoi_chain_at(*link) != at) {
        link = &map->spaces[ptoi_chain_at(*link)].next;
    }
    *link = s->next;
    s->next = map->space_free.freed;
    map->space_free.freed = at;
}

/* ---- Groups ---- */

static ptoi_range range_of(const ptoi_layout *a)
{
    return (ptoi_range){a->lo, a->lo + (a->len - 1)};
}

static uint32_t group_strides(const ptoi_layout *a)
{
    return a->k < PTOI_GROUP_STRIDES ? a->k : PTOI_GROUP_STRIDES;
}

static uint32_t group_hash(uint32_t space, bool written, const ptoi_layout *a, uint64_t shift)
{
    uint64_t h = ptoi_mix((space << 1 | written) ^ shift << 33);
    for (uint32_t j = 0; j < group_strides(a); j++) {
        h = ptoi_mix(h ^ a->dim[j].s);
    }
    return (uint32_t)(h >> 32);
}

static bool group_fits(const ptoi_group *g, uint32_t space, bool written, const ptoi_layout *a)
{
    if (g->space != space || g->written != written || g->count != group_strides(a)) {
        return false;
    }
    for (uint32_t j = 0; j < g->count; j++) {
        if (g->strides[j] != a->dim[j].s) {
            return false;
        }
    }
    return true;
}

/* Writes the bounding box of a layout in the digits of a group. Returns whether the layout fills
 * its box.
 *
 * Divide by s. A term of the layout whose stride is a multiple of s changes the digit alone. The
 * other terms change the remainder, from r to r + rest. If the remainder stays below s, digit and
 * remainder are independent, and both ranges are exact. Otherwise the remainder can be any
 * number. */
static bool group_box(const ptoi_group *g, const ptoi_layout *a, ptoi_range *box)
{
    uint64_t at, end, rest = a->len - 1;
    bool exact = true;
    uint32_t left = (1u << a->k) - 1; /* terms that are not processed yet */
    bool whole = __builtin_add_overflow(a->lo, g->shift, &at) ||
                 __builtin_add_overflow(at, rest, &end);
    if (whole) { /* the end of the address space: digits would overflow */
        for (uint32_t j = 0; j <= g->count; j++) {
            box[j] = (ptoi_range){0, UINT64_MAX};
        }
        return false;
    }
    for (uint32_t j = 0; j < g->count; j++) {
        uint64_t s = g->strides[j];
        uint64_t digit = at / s, r = at % s, steps = 0;
        for (uint32_t i = 0; i < a->k; i++) {
            const ptoi_dim *d = &a->dim[i];
            if (!(left & (1u << i))) {
                continue;
            }
            if (d->s == s) {
                steps += d->n - 1;
                left &= ~(1u << i);
            } else if (d->s % s == 0) {
                steps += (d->n - 1) * (d->s / s);
                left &= ~(1u << i);
                exact = false;
            }
        }
        uint64_t inner = rest - steps * s;
        if (inner < s - r) {
            box[j] = (ptoi_range){digit, digit + steps};
            at = r;
            rest = inner;
        } else {
            box[j] = (ptoi_range){digit, digit + (r + rest) / s};
            at = 0;
            rest = s - 1;
            left = 0;
            exact = false;
        }
    }
    box[g->count] = (ptoi_range){at, at + rest};
    return exact && !left;
}

static uint32_t *root_of_group(pto_tensormap *map, const ptoi_group *g)
{
    return &map->spaces[g->space].root[g->written];
}

/* Extends the range of a group. Each time it has to move in the tree of its memory it doubles, so
 * it seldom moves. */
static void group_widen(pto_tensormap *map, uint32_t at, const ptoi_layout *a)
{
    ptoi_group *g = &map->groups[at];
    uint64_t lo = a->lo, hi = a->lo + (a->len - 1);
    g->extent.lo = lo < g->extent.lo ? lo : g->extent.lo;
    g->extent.hi = hi > g->extent.hi ? hi : g->extent.hi;
    if (g->members) {
        if (lo >= g->range.lo && hi <= g->range.hi) {
            return;
        }
        ptoi_boxtree_remove(&map->forest, root_of_group(map, g), &g->range, 1, at | GROUP_BIT);
        uint64_t size = g->range.hi - g->range.lo;
        if (lo < g->range.lo) {
            lo = g->range.lo - lo < size && g->range.lo > size ? g->range.lo - size : lo;
        } else {
            lo = g->range.lo;
        }
        if (hi > g->range.hi) {
            hi = hi - g->range.hi < size && g->range.hi < UINT64_MAX - size ? g->range.hi + size
                                                                            : hi;
        } else {
            hi = g->range.hi;
        }
    }
    g->range.lo = lo;
    g->range.hi = hi;
    ptoi_boxtree_insert(&map->forest, root_of_group(map, g), &g->range, 1, at | GROUP_BIT);
}

/* A group that has members where this layout lies, of another matrix or of another origin in the same one. Otherwise
 * each of many tiles that were made with origins of their own would be a group of its own. */
static uint32_t group_around(const pto_tensormap *map, uint32_t space, bool written,
                             const ptoi_layout *a)
{
    ptoi_walk w;
    w.box[0] = range_of(a);
    ptoi_walk_begin(&w, &map->forest, map->spaces[space].root[written], 1);
    for (uint32_t tries = 0, at; tries < GROUP_TRIES && (at = ptoi_walk_next(&w)) != PTOI_NONE;
         tries++) {
        if (!(at & GROUP_BIT)) {
            continue;
        }
        const ptoi_group *g = &map->groups[at & ~GROUP_BIT];
        if (group_fits(g, space, written, a) && ptoi_boxes_meet(&g->extent, w.box, 1)) {
            return at & ~GROUP_BIT;
        }
    }
    return PTOI_NONE;
}

/* The group of a layout: one with its strides and its digits, or one around it, or a new one. Matrices with the same
 * strides begin at different places of a row, and what is one box in the digits of one matrix crosses the end of a
 * digit in those of another. */
static uint32_t group_of(pto_tensormap *map, uint32_t space, bool written, const ptoi_layout *a,
                         uint64_t shift)
{
    uint32_t hash = group_hash(space, written, a, shift);
    ptoi_chain *bucket = &map->group_buckets[hash & map->index_mask];
    for (uint32_t known = ptoi_chain_at(*bucket); known != PTOI_NONE;
         known = ptoi_chain_at(map->groups[known].next)) {
        if (map->groups[known].shift == shift &&
            group_fits(&map->groups[known], space, written, a)) {
            return known;
        }
    }
    const uint32_t around = group_around(map, space, written, a);
    if (around != PTOI_NONE) {
        return around;
    }

    uint32_t at = take(&map->group_free);
    ptoi_group *g = &map->groups[at];
    if (at == map->group_free.freed) {
        map->group_free.freed = g->next;
    }
    *g = (ptoi_group){.count = group_strides(a),
                      .space = space,
                      .written = written,
                      .next = *bucket,
                      .hash = hash};
    for (uint32_t j = 0; j < g->count; j++) {
        g->strides[j] = a->dim[j].s;
    }
    g->shift = shift;
    g->extent = range_of(a);
    g->root = PTOI_NONE;
    *bucket = ptoi_chain_to(at);
    map->groups_used++;
    return at;
}

static void group_release(pto_tensormap *map, uint32_t at)
{
    ptoi_group *g = &map->groups[at];
    ptoi_boxtree_remove(&map->forest, root_of_group(map, g), &g->range, 1, at | GROUP_BIT);
    ptoi_chain *link = &map->group_buckets[g->hash & map->index_mask];
    while (ptoi_chain_at(*link) != at) {
        link = &map->groups[ptoi_chain_at(*link)].next;
    }
    *link = g->next;
    g->next = map->group_free.freed;
    map->group_free.freed = at;
    map->groups_used--;
}

/* ---- Adding and removing regions ---- */

/* `shift`: of a group that the region may have to itself. */
static void insert_into_tree(pto_tensormap *map, uint32_t region, uint64_t shift)
{
    ptoi_region *r = &map->regions[region];
    const bool written = !ptoi_region_only_read(r);
    r->flags &= (uint8_t)~PTOI_REGION_EXACT;
    if (r->layout.k == 0) {
        ptoi_range range = range_of(&r->layout);
        r->group = PTOI_NONE;
        r->flags |= PTOI_REGION_EXACT;
        ptoi_boxtree_insert(&map->forest, &map->spaces[r->space].root[written], &range, 1, region);
        return;
    }
    r->group = group_of(map, r->space, written, &r->layout, shift);
    group_widen(map, r->group, &r->layout);
    ptoi_group *g = &map->groups[r->group];
    ptoi_range box[PTOI_MAX_DIGITS];
    if (group_box(g, &r->layout, box)) {
        r->flags |= PTOI_REGION_EXACT;
    }
    g->members++;
    ptoi_boxtree_insert(&map->forest, &g->root, box, g->count + 1, region);
}

void ptoi_index_insert(pto_tensormap *map, uint32_t region, uint64_t origin)
{
    ptoi_region *r = &map->regions[region];
    ptoi_space_key key = {r->a, r->b, (ptoi_space_kind)r->kind};
    r->space = ptoi_space_find(map, &key);
    if (r->space == PTOI_NONE) {
        r->space = space_create(map, &key);
    }
    map->spaces[r->space].regions++;
    const uint64_t stride = r->layout.k ? r->layout.dim[0].s : 1;
    insert_into_tree(map, region, stride - origin % stride);
}

static void remove_from_tree(pto_tensormap *map, uint32_t region)
{
    ptoi_region *r = &map->regions[region];
    const bool written = !ptoi_region_only_read(r);
    if (r->group == PTOI_NONE) {
        ptoi_range range = range_of(&r->layout);
        ptoi_boxtree_remove(&map->forest, &map->spaces[r->space].root[written], &range, 1, region);
    } else {
        ptoi_group *g = &map->groups[r->group];
        ptoi_range box[PTOI_MAX_DIGITS];
        group_box(g, &r->layout, box);
        ptoi_boxtree_remove(&map->forest, &g->root, box, g->count + 1, region);
        if (--g->members == 0) {
            group_release(map, r->group);
        }
    }
}

void ptoi_index_remove(pto_tensormap *map, uint32_t region)
{
    const ptoi_region *r = &map->regions[region];
    ptoi_space *s = &map->spaces[r->space];
    remove_from_tree(map, region);
    if (--s->regions == 0 && r->space != 0) {
        space_release(map, r->space);
    }
}

void ptoi_index_move_to_written(pto_tensormap *map, uint32_t region)
{
    ptoi_region *r = &map->regions[region];
    const uint64_t shift = r->group == PTOI_NONE ? 0 : map->groups[r->group].shift;
    remove_from_tree(map, region);
    r->flags &= (uint8_t)~PTOI_REGION_ONLY_READ;
    insert_into_tree(map, region, shift);
}

/* A memory is in use while it has regions, a group while it has members. */
void ptoi_index_fill_tables(pto_tensormap *map)
{
    memset(map->space_buckets, 0, ((size_t)map->index_mask + 1) * sizeof *map->space_buckets);
    memset(map->group_buckets, 0, ((size_t)map->index_mask + 1) * sizeof *map->group_buckets);
    for (uint32_t i = 1; i < map->space_free.untouched; i++) {
        ptoi_space *s = &map->spaces[i];
        if (s->regions) {
            ptoi_chain *bucket = &map->space_buckets[space_bucket(
                map, &(ptoi_space_key){s->a, s->b, (ptoi_space_kind)s->kind})];
            s->next = *bucket;
            *bucket = ptoi_chain_to(i);
        }
    }
    for (uint32_t i = 0; i < map->group_free.untouched; i++) {
        ptoi_group *g = &map->groups[i];
        if (g->members) {
            ptoi_chain *bucket = &map->group_buckets[g->hash & map->index_mask];
            g->next = *bucket;
            *bucket = ptoi_chain_to(i);
        }
    }
}

/* ---- Search ---- */

/* Begins with the next tree. False if there is none. */
static bool next_tree(ptoi_search *s)
{
    if (!s->left) {
        return false;
    }
    const bool written = s->left & PTOI_WRITTEN;
    s->left &= written ? ~PTOI_WRITTEN : ~PTOI_ONLY_READ;
    ptoi_walk_begin(&s->outer, &s->map->forest, s->map->spaces[s->space].root[written], 1);
    return true;
}

void ptoi_search_begin(ptoi_search *s, pto_tensormap *map, uint32_t space,
                       const ptoi_layout *layout, uint32_t self, uint32_t trees)
{
    s->map = map;
    s->layout = layout;
    s->self = self;
    s->in_group = false;
    s->exact = layout->k == 0;
    s->idle_too = false;
    s->idle = PTOI_NONE;
    ptoi_keep_earn(map);
    s->space = space;
    s->left = space == PTOI_NONE ? 0 : trees;
    s->outer.box[0] = range_of(layout);
    (void)next_tree(s);
    map->stats.searches++;
}

/* Whether a layout in rows touches the range of a child. This skips everything that lies between
 * two rows. Groups, too, although they have boxes of their own: otherwise the shape of the tree would decide whether a
 * group is met, and where the budget runs out the same question would have different answers. */
static inline bool in_rows(const void *layout, const ptoi_range *box, uint32_t child)
{
    uint64_t found;
    (void)child;
    return ptoi_layout_successor(layout, box->lo, &found) && found <= box->hi;
}

/* The next item in the tree of the memory. */
static inline uint32_t next_outer(ptoi_search *s)
{
    uint32_t at;
    do {
        at = s->layout->k == 0 || !s->layout->nested
                 ? ptoi_walk_next(&s->outer)
                 : ptoi_walk_next_if(&s->outer, in_rows, s->layout);
    } while (at == PTOI_NONE && next_tree(s));
    return at;
}

/* The next region whose box meets the layout, in any tree. */
static uint32_t next_region(ptoi_search *s)
{
    for (;;) {
        uint32_t at;
        if (s->in_group) {
            at = ptoi_walk_next(&s->inner);
            if (at != PTOI_NONE) {
                return at;
            }
            s->in_group = false;
            s->exact = s->layout->k == 0;
        }
        at = next_outer(s);
        if (at == PTOI_NONE || !(at & GROUP_BIT)) {
            return at;
        }
        const ptoi_group *g = &s->map->groups[at & ~GROUP_BIT];
        s->exact = group_box(g, s->layout, s->inner.box);
        ptoi_walk_begin(&s->inner, &s->map->forest, g->root, g->count + 1);
        s->in_group = true;
    }
}

uint32_t ptoi_search_next(ptoi_search *s)
{
    pto_tensormap *map = s->map;
    for (uint32_t at; (at = next_region(s)) != PTOI_NONE;) {
        if (at == s->self) {
            continue;
        }
        ptoi_region *r = &map->regions[at];
        if (!(s->idle_too && map->order) && ptoi_region_idle(map, r)) {
            if (map->visits) {
                map->visits--;
            } else {
                r->evict_next = s->idle;
                s->idle = at;
            }
            continue;
        }
        map->stats.candidates++;
        s->proved = true;
        if (s->exact && (r->flags & PTOI_REGION_EXACT)) {
            return at; /* both fill their boxes, so boxes that meet share bytes */
        }
        pto_overlap_result met = ptoi_overlaps(s->layout, &r->layout, map->budget);
        s->proved = met.stage != PTO_STAGE_BUDGET;
        map->stats.budget_hits += !s->proved;
        if (met.yes) {
            return at;
        }
    }
    return PTOI_NONE;
}

/* ---- Check ---- */

/* Checks one tree of a memory, and the trees of its groups. Counts regions and groups. */
static pto_status check_tree(const pto_tensormap *map, uint32_t at, bool written, uint32_t *regions,
                             uint32_t *groups)
{
    const uint32_t root = map->spaces[at].root[written];
    uint32_t items, seen = 0;
    PTO_TRY(ptoi_boxtree_check(&map->forest, root, 1, &items));
    ptoi_walk w;
    w.box[0] = (ptoi_range){0, UINT64_MAX};
    ptoi_walk_begin(&w, &map->forest, root, 1);
    for (uint32_t item; (item = ptoi_walk_next(&w)) != PTOI_NONE; seen++) {
        if (!(item & GROUP_BIT)) {
            (*regions)++;
            continue;
        }
        const ptoi_group *g = &map->groups[item & ~GROUP_BIT];
        uint32_t members;
        PTO_TRY(ptoi_boxtree_check(&map->forest, g->root, g->count + 1, &members));
        if (g->space != at || g->written != written || members != g->members) {
            return ptoi_fail(PTO_CORRUPT, "map: group %u holds %u regions of %u", item & ~GROUP_BIT,
                             members, g->members);
        }
        *regions += g->members;
        (*groups)++;
    }
    return seen == items ? PTO_OK
                         : ptoi_fail(PTO_CORRUPT, "map: memory %u has %u items, a walk finds %u",
                                     at, items, seen);
}

/* Checks one memory: its trees, and the number of its regions. */
static pto_status check_space(const pto_tensormap *map, uint32_t at, uint32_t *groups)
{
    uint32_t regions = 0;
    PTO_TRY(check_tree(map, at, false, &regions, groups));
    PTO_TRY(check_tree(map, at, true, &regions, groups));
    if (regions != map->spaces[at].regions) {
        return ptoi_fail(PTO_CORRUPT, "map: memory %u counts %u regions, its index holds %u", at,
                         map->spaces[at].regions, regions);
    }
    return PTO_OK;
}

/* M4: the region is in its tree, with the right box. */
static pto_status check_place(const pto_tensormap *map, uint32_t region)
{
    const ptoi_region *r = &map->regions[region];
    ptoi_range range = range_of(&r->layout), box[PTOI_MAX_DIGITS];
    const bool written = !ptoi_region_only_read(r);
    bool exact = true, there;
    if (r->group == PTOI_NONE) {
        there = ptoi_boxtree_holds(&map->forest, map->spaces[r->space].root[written], &range, 1,
                                   region);
    } else {
        const ptoi_group *g = &map->groups[r->group];
        exact = group_box(g, &r->layout, box);
        there = range.lo >= g->range.lo && range.hi <= g->range.hi && g->space == r->space &&
                g->written == written &&
                ptoi_boxtree_holds(&map->forest, g->root, box, g->count + 1, region) &&
                ptoi_boxtree_holds(&map->forest, map->spaces[g->space].root[written], &g->range, 1,
                                   r->group | GROUP_BIT);
    }
    if (!there || exact != ((r->flags & PTOI_REGION_EXACT) != 0)) {
        return ptoi_fail(PTO_CORRUPT, "map: M4 broken, region %u is missing in the index", region);
    }
    return PTO_OK;
}

pto_status ptoi_index_check(const pto_tensormap *map)
{
    uint32_t groups = 0;
    PTO_TRY(check_space(map, 0, &groups));
    for (uint32_t b = 0; b <= map->index_mask; b++) {
        for (uint32_t at = ptoi_chain_at(map->space_buckets[b]); at != PTOI_NONE;
             at = ptoi_chain_at(map->spaces[at].next)) {
            PTO_TRY(check_space(map, at, &groups));
        }
    }
    if (groups != map->groups_used) {
        return ptoi_fail(PTO_CORRUPT, "map: %u groups in the index, %u in use", groups,
                         map->groups_used);
    }
    for (uint32_t r = 0; r < map->region_free.untouched; r++) {
        if (ptoi_region_is_indexed(&map->regions[r])) {
            PTO_TRY(check_place(map, r));
        }
    }
    return PTO_OK;
}
