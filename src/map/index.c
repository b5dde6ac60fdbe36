#include "map/index.h"

#include "base/error.h"
#include "map/mix.h"
#include "tensor/overlap.h"

/* An item of the tree of a memory is a region or, with this bit, a group. */
#define GROUP_BIT 0x80000000u

/* Mark of a leaf: its region is all of its box. Where this holds for the layout asked about as well,
 * boxes that meet are bytes that meet. */
#define EXACT 1u

static uint32_t take(ptoi_free *list)
{
    return list->freed == PTOI_NONE ? list->fresh++ : list->freed;
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
    uint32_t at = map->space_buckets[space_bucket(map, key)];
    while (at != PTOI_NONE && !same_space(&map->spaces[at], key)) {
        at = map->spaces[at].next;
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
    uint32_t *bucket = &map->space_buckets[space_bucket(map, key)];
    *s = (ptoi_space){key->a, key->b, (uint32_t)key->kind, *bucket, PTOI_NONE, 0};
    *bucket = at;
    return at;
}

static void space_release(pto_tensormap *map, uint32_t at)
{
    ptoi_space *s = &map->spaces[at];
    ptoi_space_key key = {s->a, s->b, (ptoi_space_kind)s->kind};
    uint32_t *link = &map->space_buckets[space_bucket(map, &key)];
    while (*link != at) {
        link = &map->spaces[*link].next;
    }
    *link = s->next;
    s->next = map->space_free.freed;
    map->space_free.freed = at;
}

/* ---- Groups ---- */

static uint32_t group_strides(const ptoi_layout *a)
{
    return a->k < PTOI_GROUP_STRIDES ? a->k : PTOI_GROUP_STRIDES;
}

static uint32_t group_hash(uint32_t space, const ptoi_layout *a)
{
    uint64_t h = space;
    for (uint32_t j = 0; j < group_strides(a); j++) {
        h = ptoi_mix(h ^ a->dim[j].s);
    }
    return (uint32_t)(h >> 32);
}

static bool group_fits(const ptoi_group *g, uint32_t space, const ptoi_layout *a)
{
    if (g->space != space || g->count != group_strides(a)) {
        return false;
    }
    for (uint32_t j = 0; j < g->count; j++) {
        if (g->strides[j] != a->dim[j].s) {
            return false;
        }
    }
    return true;
}

static ptoi_node_pool *group_pool(pto_tensormap *map, const ptoi_group *g)
{
    return &map->nodes[ptoi_node_size(g->count + 1)];
}

/* Writes the box around a layout in the digits of a group; says whether the layout is all of its box.
 *
 * Cut by s, a term of the layout whose stride is a multiple of s moves the digit alone; the other
 * terms move what is left over, from r to r + rest. If that stays below s, the digit and the
 * rest are independent and both ranges are exact. If not, the rest may be anything. */
static bool group_box(const ptoi_group *g, const ptoi_layout *a, ptoi_range *box)
{
    uint64_t at, end, rest = a->len - 1;
    bool exact = true;
    uint32_t left = (1u << a->k) - 1; /* terms not yet accounted for */
    bool whole = __builtin_add_overflow(a->lo, g->shift, &at) ||
                 __builtin_add_overflow(at, rest, &end);
    if (whole) { /* the last bytes of the address space: give up on digits */
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

/* The range of a group grows in steps of about its own size, so that it seldom has to move in the tree
 * of its memory: each time it does, it doubles. */
static void group_widen(pto_tensormap *map, uint32_t at, const ptoi_layout *a)
{
    ptoi_group *g = &map->groups[at];
    uint64_t lo = a->lo, hi = a->lo + (a->len - 1);
    if (g->members) {
        if (lo >= g->lo && hi <= g->hi) {
            return;
        }
        ptoi_boxtree_remove(&map->nodes[0], &map->spaces[g->space].root, g->leaf);
        uint64_t size = g->hi - g->lo;
        if (lo < g->lo) {
            lo = g->lo - lo < size && g->lo > size ? g->lo - size : lo;
        } else {
            lo = g->lo;
        }
        if (hi > g->hi) {
            hi = hi - g->hi < size && g->hi < UINT64_MAX - size ? g->hi + size : hi;
        } else {
            hi = g->hi;
        }
    }
    g->lo = lo;
    g->hi = hi;
    g->leaf = ptoi_boxtree_insert(&map->nodes[0], &map->spaces[g->space].root,
                                  &(ptoi_range){lo, hi}, 1, at | GROUP_BIT, 0);
}

static uint32_t group_of(pto_tensormap *map, uint32_t space, const ptoi_layout *a, uint64_t origin)
{
    uint32_t hash = group_hash(space, a);
    uint32_t *bucket = &map->group_buckets[hash & map->index_mask];
    for (uint32_t at = *bucket; at != PTOI_NONE; at = map->groups[at].next) {
        if (group_fits(&map->groups[at], space, a)) {
            return at;
        }
    }

    uint32_t at = take(&map->group_free);
    ptoi_group *g = &map->groups[at];
    if (at == map->group_free.freed) {
        map->group_free.freed = g->next;
    }
    *g = (ptoi_group){.count = group_strides(a), .space = space, .next = *bucket, .hash = hash};
    for (uint32_t j = 0; j < g->count; j++) {
        g->strides[j] = a->dim[j].s;
    }
    g->shift = a->dim[0].s - origin % a->dim[0].s;
    g->root = PTOI_NONE;
    *bucket = at;
    map->groups_used++;
    return at;
}

static void group_release(pto_tensormap *map, uint32_t at)
{
    ptoi_group *g = &map->groups[at];
    ptoi_boxtree_remove(&map->nodes[0], &map->spaces[g->space].root, g->leaf);
    uint32_t *link = &map->group_buckets[g->hash & map->index_mask];
    while (*link != at) {
        link = &map->groups[*link].next;
    }
    *link = g->next;
    g->next = map->group_free.freed;
    map->group_free.freed = at;
    map->groups_used--;
}

/* ---- Regions in and out ---- */

void ptoi_index_insert(pto_tensormap *map, uint32_t region, uint64_t origin)
{
    ptoi_region *r = &map->regions[region];
    ptoi_space_key key = {r->a, r->b, (ptoi_space_kind)r->kind};
    r->space = ptoi_space_find(map, &key);
    if (r->space == PTOI_NONE) {
        r->space = space_create(map, &key);
    }
    map->spaces[r->space].regions++;
    if (r->layout.k == 0) {
        ptoi_range range = {r->layout.lo, r->layout.lo + (r->layout.len - 1)};
        r->group = PTOI_NONE;
        r->leaf = ptoi_boxtree_insert(&map->nodes[0], &map->spaces[r->space].root, &range, 1,
                                      region, EXACT);
        return;
    }
    r->group = group_of(map, r->space, &r->layout, origin);
    group_widen(map, r->group, &r->layout);
    ptoi_group *g = &map->groups[r->group];
    ptoi_range box[PTOI_MAX_DIGITS];
    bool exact = group_box(g, &r->layout, box);
    g->members++;
    r->leaf = ptoi_boxtree_insert(group_pool(map, g), &g->root, box, g->count + 1, region,
                                  exact ? EXACT : 0);
}

void ptoi_index_remove(pto_tensormap *map, uint32_t region)
{
    ptoi_region *r = &map->regions[region];
    ptoi_space *s = &map->spaces[r->space];
    if (r->group == PTOI_NONE) {
        ptoi_boxtree_remove(&map->nodes[0], &s->root, r->leaf);
    } else {
        ptoi_group *g = &map->groups[r->group];
        ptoi_boxtree_remove(group_pool(map, g), &g->root, r->leaf);
        if (--g->members == 0) {
            group_release(map, r->group);
        }
    }
    if (--s->regions == 0 && r->space != 0) {
        space_release(map, r->space);
    }
}

/* ---- Search ---- */

void ptoi_search_begin(ptoi_search *s, pto_tensormap *map, uint32_t space,
                       const ptoi_layout *layout, uint32_t self)
{
    s->map = map;
    s->layout = layout;
    s->self = self;
    s->in_group = false;
    s->exact = layout->k == 0;
    s->twin = PTOI_NONE;
    s->idle = PTOI_NONE;
    s->outer.box[0] = (ptoi_range){layout->lo, layout->lo + (layout->len - 1)};
    ptoi_walk_begin(&s->outer, &map->nodes[0],
                    space == PTOI_NONE ? PTOI_NONE : map->spaces[space].root, 1);
    map->stats.searches++;
}

/* Whether a layout in rows touches the range of a node at all: what lies between its rows is passed
 * over, however much it is. */
static bool touches(const ptoi_layout *a, const ptoi_range *range)
{
    uint64_t found;
    return !a->nested || (ptoi_layout_successor(a, range->lo, &found) && found <= range->hi);
}

/* The next leaf of the tree of the memory that meets the layout. */
static const ptoi_node *next_outer(ptoi_search *s)
{
    const ptoi_node_pool *pool = s->outer.pool;
    if (s->layout->k == 0) {
        uint32_t at = ptoi_walk_next_leaf(&s->outer);
        return at == PTOI_NONE ? NULL : ptoi_node_at(pool, at);
    }
    for (uint32_t at; (at = ptoi_walk_next(&s->outer)) != PTOI_NONE;) {
        const ptoi_node *node = ptoi_node_at(pool, at);
        if (!touches(s->layout, node->box)) {
            continue;
        }
        if (node->leaf) {
            return node;
        }
        ptoi_walk_into(&s->outer, node);
    }
    return NULL;
}

/* The next leaf of a region whose box meets the layout, in whatever tree it is. */
static const ptoi_node *next_leaf(ptoi_search *s)
{
    for (;;) {
        const ptoi_node *leaf;
        if (s->twin != PTOI_NONE) {
            leaf = ptoi_node_at(s->in_group ? s->inner.pool : s->outer.pool, s->twin);
        } else if (s->in_group) {
            uint32_t at = ptoi_walk_next_leaf(&s->inner);
            if (at == PTOI_NONE) {
                s->in_group = false;
                s->exact = s->layout->k == 0;
                continue;
            }
            leaf = ptoi_node_at(s->inner.pool, at);
        } else {
            leaf = next_outer(s);
            if (!leaf) {
                return NULL;
            }
        }
        s->twin = leaf->child[1];
        if (!(leaf->child[0] & GROUP_BIT)) {
            return leaf;
        }
        /* What has the same range as the group is looked at after the group. */
        if (s->twin != PTOI_NONE) {
            s->outer.stack[s->outer.depth++] = s->twin;
        }
        s->twin = PTOI_NONE;
        const ptoi_group *g = &s->map->groups[leaf->child[0] & ~GROUP_BIT];
        s->exact = group_box(g, s->layout, s->inner.box);
        ptoi_walk_begin(&s->inner, group_pool(s->map, g), g->root, g->count + 1);
        s->in_group = true;
    }
}

uint32_t ptoi_search_next(ptoi_search *s)
{
    pto_tensormap *map = s->map;
    for (const ptoi_node *leaf; (leaf = next_leaf(s)) != NULL;) {
        uint32_t at = leaf->child[0];
        if (at == s->self) {
            continue;
        }
        ptoi_region *r = &map->regions[at];
        if (ptoi_region_idle(map, r)) {
            r->evict_next = s->idle;
            s->idle = at;
            continue;
        }
        map->stats.candidates++;
        s->proved = true;
        if (s->exact && leaf->rank == EXACT) {
            return at;
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

static pto_status check_group(const pto_tensormap *map, uint32_t at)
{
    const ptoi_group *g = &map->groups[at];
    uint32_t leaves;
    pto_status s = ptoi_boxtree_check(&map->nodes[ptoi_node_size(g->count + 1)], g->root, &leaves);
    if (s == PTO_OK && leaves != g->members) {
        return ptoi_fail(PTO_CORRUPT, "map: group %u has %u leaves for %u members", at, leaves,
                         g->members);
    }
    return s;
}

static pto_status check_space(const pto_tensormap *map, uint32_t at, uint32_t *groups)
{
    const ptoi_space *space = &map->spaces[at];
    uint32_t leaves, inside = 0, regions = 0;
    const ptoi_node_pool *pool = &map->nodes[0];
    pto_status s = ptoi_boxtree_check(pool, space->root, &leaves);
    if (s != PTO_OK) {
        return s;
    }
    ptoi_walk w;
    w.box[0] = (ptoi_range){0, UINT64_MAX};
    ptoi_walk_begin(&w, pool, space->root, 1);
    for (uint32_t n; (n = ptoi_walk_next_leaf(&w)) != PTOI_NONE;) {
        for (uint32_t l = n; l != PTOI_NONE; l = ptoi_node_at(pool, l)->child[1]) {
            uint32_t item = ptoi_node_at(pool, l)->child[0];
            inside++;
            if (!(item & GROUP_BIT)) {
                regions++;
                continue;
            }
            const ptoi_group *g = &map->groups[item & ~GROUP_BIT];
            if (g->leaf != l || g->space != at) {
                return ptoi_fail(PTO_CORRUPT, "map: group %u lost in memory %u", item & ~GROUP_BIT,
                                 at);
            }
            s = check_group(map, item & ~GROUP_BIT);
            if (s != PTO_OK) {
                return s;
            }
            regions += g->members;
            (*groups)++;
        }
    }
    if (inside != leaves || regions != space->regions) {
        return ptoi_fail(PTO_CORRUPT, "map: memory %u counts %u regions, its index holds %u", at,
                         space->regions, regions);
    }
    return PTO_OK;
}

pto_status ptoi_index_check(const pto_tensormap *map)
{
    uint32_t groups = 0;
    pto_status s = check_space(map, 0, &groups);
    for (uint32_t b = 0; s == PTO_OK && b <= map->index_mask; b++) {
        for (uint32_t at = map->space_buckets[b]; s == PTO_OK && at != PTOI_NONE;
             at = map->spaces[at].next) {
            s = check_space(map, at, &groups);
        }
    }
    if (s == PTO_OK && groups != map->groups_used) {
        s = ptoi_fail(PTO_CORRUPT, "map: %u groups in the index, %u in use", groups,
                      map->groups_used);
    }
    for (uint32_t r = 0; s == PTO_OK && r < map->region_free.fresh; r++) {
        const ptoi_region *region = &map->regions[r];
        if (!(region->flags & PTOI_REGION_USED)) {
            continue;
        }
        uint32_t digits = region->group == PTOI_NONE ? 1 : map->groups[region->group].count + 1;
        const ptoi_node *leaf = ptoi_node_at(&map->nodes[ptoi_node_size(digits)], region->leaf);
        if (!leaf->leaf || leaf->child[0] != r) {
            s = ptoi_fail(PTO_CORRUPT, "map: M4 broken, region %u is not at its leaf %u", r,
                          region->leaf);
        }
        if (s == PTO_OK && region->group != PTOI_NONE) {
            const ptoi_group *g = &map->groups[region->group];
            ptoi_range box[PTOI_MAX_DIGITS];
            if (group_box(g, &region->layout, box) != (leaf->rank == EXACT)) {
                s = ptoi_fail(PTO_CORRUPT, "map: region %u is marked wrongly", r);
            }
            for (uint32_t d = 0; d <= g->count; d++) {
                if (box[d].lo != leaf->box[d].lo || box[d].hi != leaf->box[d].hi) {
                    s = ptoi_fail(PTO_CORRUPT, "map: region %u has another box than its leaf", r);
                }
            }
            if (region->layout.lo < g->lo || region->layout.lo + (region->layout.len - 1) > g->hi) {
                s = ptoi_fail(PTO_CORRUPT, "map: region %u lies outside of its group", r);
            }
        }
    }
    return s;
}
