#include "map/boxtree.h"

#include "base/error.h"

/* The words of a key: low ends, then high ends. */
static inline uint64_t key_word(const ptoi_node *leaf, uint32_t word)
{
    return word < leaf->digits ? leaf->box[word].lo : leaf->box[word - leaf->digits].hi;
}

static inline uint32_t key_bit(const ptoi_node *leaf, uint16_t rank)
{
    return (uint32_t)(key_word(leaf, 15u - (rank & 15u)) >> (rank >> 4)) & 1u;
}

/* The rank of the first bit, in the order of the key, in which two leaves differ. */
static bool first_difference(const ptoi_node *a, const ptoi_node *b, uint16_t *rank)
{
    uint32_t best = 0;
    bool differ = false;
    for (uint32_t word = 0; word < 2u * a->digits; word++) {
        uint64_t x = key_word(a, word) ^ key_word(b, word);
        if (!x) {
            continue;
        }
        uint32_t r = (63u - (uint32_t)__builtin_clzll(x)) * 16u + 15u - word;
        if (!differ || r > best) {
            best = r;
        }
        differ = true;
    }
    *rank = (uint16_t)best;
    return differ;
}

static uint32_t take_node(ptoi_node_pool *pool)
{
    uint32_t at = pool->freed;
    if (at != PTOI_NONE) {
        pool->freed = ptoi_node_at(pool, at)->parent;
    } else {
        at = pool->fresh++;
    }
    return at;
}

static void give_node(ptoi_node_pool *pool, uint32_t at)
{
    ptoi_node_at(pool, at)->parent = pool->freed;
    pool->freed = at;
}

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The box of an inner node from those of its children; false if it was that already. */
static bool refit(ptoi_node_pool *pool, ptoi_node *node)
{
    const ptoi_node *a = ptoi_node_at(pool, node->child[0]),
                    *b = ptoi_node_at(pool, node->child[1]);
    bool changed = false;
    for (uint32_t d = 0; d < node->digits; d++) {
        uint64_t lo = min_u64(a->box[d].lo, b->box[d].lo);
        uint64_t hi = max_u64(a->box[d].hi, b->box[d].hi);
        changed |= lo != node->box[d].lo || hi != node->box[d].hi;
        node->box[d] = (ptoi_range){lo, hi};
    }
    return changed;
}

static void add_twin(ptoi_node_pool *pool, uint32_t head, uint32_t leaf)
{
    ptoi_node *h = ptoi_node_at(pool, head), *l = ptoi_node_at(pool, leaf);
    l->leaf = 2;
    l->parent = head;
    l->child[1] = h->child[1];
    if (l->child[1] != PTOI_NONE) {
        ptoi_node_at(pool, l->child[1])->parent = leaf;
    }
    h->child[1] = leaf;
}

uint32_t ptoi_boxtree_insert(ptoi_node_pool *pool, uint32_t *root, const ptoi_range *box,
                             uint32_t digits, uint32_t item, uint16_t mark)
{
    uint32_t leaf = take_node(pool);
    ptoi_node *l = ptoi_node_at(pool, leaf);
    l->parent = PTOI_NONE;
    l->child[0] = item;
    l->child[1] = PTOI_NONE;
    l->rank = mark;
    l->leaf = 1;
    l->digits = (uint8_t)digits;
    for (uint32_t d = 0; d < digits; d++) {
        l->box[d] = box[d];
    }
    if (*root == PTOI_NONE) {
        *root = leaf;
        return leaf;
    }

    /* Any leaf on the way of the key shares with it all bits that the tree tests above the place
     * where they part, so it tells that place. */
    uint32_t at = *root;
    while (!ptoi_node_at(pool, at)->leaf) {
        at = ptoi_node_at(pool, at)->child[key_bit(l, ptoi_node_at(pool, at)->rank)];
    }
    uint16_t rank;
    if (!first_difference(l, ptoi_node_at(pool, at), &rank)) {
        add_twin(pool, at, leaf);
        return leaf;
    }

    /* Down again to that place; every box passed grows by the new one. */
    uint32_t above = PTOI_NONE;
    at = *root;
    while (!ptoi_node_at(pool, at)->leaf && ptoi_node_at(pool, at)->rank > rank) {
        ptoi_node *n = ptoi_node_at(pool, at);
        for (uint32_t d = 0; d < digits; d++) {
            n->box[d].lo = min_u64(n->box[d].lo, box[d].lo);
            n->box[d].hi = max_u64(n->box[d].hi, box[d].hi);
        }
        above = at;
        at = n->child[key_bit(l, n->rank)];
    }
    uint32_t fork = take_node(pool);
    ptoi_node *f = ptoi_node_at(pool, fork);
    uint32_t side = key_bit(l, rank);
    f->parent = above;
    f->child[side] = leaf;
    f->child[!side] = at;
    f->rank = rank;
    f->leaf = 0;
    f->digits = (uint8_t)digits;
    refit(pool, f);
    l->parent = fork;
    ptoi_node_at(pool, at)->parent = fork;
    if (above == PTOI_NONE) {
        *root = fork;
    } else {
        ptoi_node_at(pool, above)->child[ptoi_node_at(pool, above)->child[1] == at] = fork;
    }
    return leaf;
}

/* `by` (PTOI_NONE: nothing) takes the place of `old` below the parent of `old`. */
static void replace(ptoi_node_pool *pool, uint32_t *root, uint32_t old, uint32_t by)
{
    uint32_t above = ptoi_node_at(pool, old)->parent;
    if (above == PTOI_NONE) {
        *root = by;
    } else {
        ptoi_node_at(pool, above)->child[ptoi_node_at(pool, above)->child[1] == old] = by;
    }
    if (by != PTOI_NONE) {
        ptoi_node_at(pool, by)->parent = above;
    }
}

void ptoi_boxtree_remove(ptoi_node_pool *pool, uint32_t *root, uint32_t leaf)
{
    ptoi_node *l = ptoi_node_at(pool, leaf);
    uint32_t twin = l->child[1];
    if (l->leaf == 2) {
        ptoi_node_at(pool, l->parent)->child[1] = twin;
        if (twin != PTOI_NONE) {
            ptoi_node_at(pool, twin)->parent = l->parent;
        }
    } else if (twin != PTOI_NONE) {
        ptoi_node_at(pool, twin)->leaf = 1;
        replace(pool, root, leaf, twin);
    } else if (l->parent == PTOI_NONE) {
        *root = PTOI_NONE;
    } else {
        uint32_t fork = l->parent;
        const ptoi_node *f = ptoi_node_at(pool, fork);
        uint32_t above = f->parent;
        replace(pool, root, fork, f->child[f->child[0] == leaf]);
        give_node(pool, fork);
        while (above != PTOI_NONE && refit(pool, ptoi_node_at(pool, above))) {
            above = ptoi_node_at(pool, above)->parent;
        }
    }
    give_node(pool, leaf);
}

static pto_status check_leaf(const ptoi_node_pool *pool, uint32_t at, uint32_t *leaves)
{
    uint32_t before = at;
    (*leaves)++;
    for (uint32_t twin = ptoi_node_at(pool, at)->child[1]; twin != PTOI_NONE;
         twin = ptoi_node_at(pool, twin)->child[1]) {
        const ptoi_node *t = ptoi_node_at(pool, twin);
        uint16_t rank;
        if (t->leaf != 2 || t->parent != before ||
            first_difference(t, ptoi_node_at(pool, at), &rank)) {
            return ptoi_fail(PTO_CORRUPT, "box tree: T4 broken at twin %u of leaf %u", twin, at);
        }
        before = twin;
        (*leaves)++;
    }
    /* T2, seen from the leaf: on the way up every inner node has it on the right side. */
    for (uint32_t below = at, up = ptoi_node_at(pool, at)->parent; up != PTOI_NONE;
         below = up, up = ptoi_node_at(pool, up)->parent) {
        const ptoi_node *u = ptoi_node_at(pool, up);
        if (u->child[key_bit(ptoi_node_at(pool, at), u->rank)] != below) {
            return ptoi_fail(PTO_CORRUPT, "box tree: T2 broken, leaf %u below node %u", at, up);
        }
    }
    return PTO_OK;
}

pto_status ptoi_boxtree_check(const ptoi_node_pool *pool, uint32_t root, uint32_t *leaves)
{
    uint32_t stack[PTOI_TREE_DEPTH + 2], depth = 0;
    *leaves = 0;
    if (root == PTOI_NONE) {
        return PTO_OK;
    }
    if (ptoi_node_at(pool, root)->parent != PTOI_NONE) {
        return ptoi_fail(PTO_CORRUPT, "box tree: root %u has a parent", root);
    }
    stack[depth++] = root;
    while (depth) {
        uint32_t at = stack[--depth];
        const ptoi_node *n = ptoi_node_at(pool, at);
        if (at >= pool->fresh) {
            return ptoi_fail(PTO_CORRUPT, "box tree: node %u of %u in use", at, pool->fresh);
        }
        if (n->leaf) {
            pto_status s = n->leaf == 1 ? check_leaf(pool, at, leaves)
                                        : ptoi_fail(PTO_CORRUPT, "box tree: twin %u as head", at);
            if (s != PTO_OK) {
                return s;
            }
            continue;
        }
        ptoi_range box[PTOI_MAX_DIGITS];
        for (uint32_t side = 0; side < 2; side++) {
            const ptoi_node *c = ptoi_node_at(pool, n->child[side]);
            if (c->parent != at || c->digits != n->digits) {
                return ptoi_fail(PTO_CORRUPT, "box tree: T4 broken below node %u", at);
            }
            if (!c->leaf && c->rank >= n->rank) {
                return ptoi_fail(PTO_CORRUPT, "box tree: T1 broken, rank %d below %d", c->rank,
                                 n->rank);
            }
            for (uint32_t d = 0; d < n->digits; d++) {
                box[d].lo = side ? min_u64(box[d].lo, c->box[d].lo) : c->box[d].lo;
                box[d].hi = side ? max_u64(box[d].hi, c->box[d].hi) : c->box[d].hi;
            }
            stack[depth++] = n->child[side];
        }
        for (uint32_t d = 0; d < n->digits; d++) {
            if (box[d].lo != n->box[d].lo || box[d].hi != n->box[d].hi) {
                return ptoi_fail(PTO_CORRUPT, "box tree: T3 broken at node %u, digit %u", at, d);
            }
        }
    }
    return PTO_OK;
}
