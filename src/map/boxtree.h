/* boxtree.h - a tree of boxes: finds those that meet a given box without looking at the others.
 *
 * A box is a closed range in each of up to seven digits (index.h says what the digits are). Its key
 * is the string of bits that takes turns through all low ends and all high ends, highest bits
 * first (a Z-order curve through both corners). The tree is the binary trie over these keys with
 * all one-way paths left out, and each inner node knows the box around its leaves.
 *
 *                  [ bit of rank r, box around all ]
 *                   /                            \
 *          key bit 0                              key bit 1
 *       [ leaf: box, item ]                  [ rank < r, box ... ]
 *           |                                   /            \
 *         twin: same box
 *
 * Why this shape: it depends on the boxes alone, not on the order they came in; there is nothing to
 * balance; tiles of a matrix fall into disjoint subtrees; a node that does not meet the box asked
 * about ends the descent. Depth is at most the number of key bits (64 * 14), for n tiles of a grid
 * about log2(n).
 *
 * Invariants (ptoi_boxtree_check):
 *   T1  ranks fall strictly on every way down
 *   T2  left of an inner node the bit of its rank is 0, right of it 1, in every leaf
 *   T3  the box of an inner node is the smallest around the boxes of its children
 *   T4  twins have equal boxes and hang on their head, in a list; parent links mirror child links
 *
 * Nodes come from a pool that the caller sized: n leaves need at most 2n - 1 nodes.
 */
#ifndef PTOI_BOXTREE_H
#define PTOI_BOXTREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pto/status.h>

#define PTOI_NONE UINT32_MAX
#define PTOI_MAX_DIGITS 7
#define PTOI_TREE_DEPTH (64 * 2 * PTOI_MAX_DIGITS)

typedef struct ptoi_range {
    uint64_t lo, hi; /* both included */
} ptoi_range;

typedef struct ptoi_node {
    uint32_t parent;   /* inner node above, or the twin before this one; PTOI_NONE at the root */
    uint32_t child[2]; /* inner: the two subtrees; leaf: the item, and the next twin */
    uint16_t rank;     /* inner: bit * 16 + 15 - number of the key word; leaf: a mark of the user */
    uint8_t leaf;      /* 0 inner, 1 leaf in the tree, 2 leaf that is a twin of another */
    uint8_t digits;
    ptoi_range box[]; /* as many as there are digits */
} ptoi_node;

/* Nodes of one size. Trees of few digits have small nodes: what a walk costs is lines of cache. */
typedef struct ptoi_node_pool {
    char *nodes;
    uint32_t shift; /* a node has 1 << shift bytes */
    uint32_t fresh; /* nodes from here on were never used */
    uint32_t freed; /* list of used ones, through `parent` */
} ptoi_node_pool;

/* 32, 64 and 128 bytes: for one digit, for two or three, and for up to seven. */
#define PTOI_NODE_SIZES 3

static inline uint32_t ptoi_node_size(uint32_t digits)
{
    return digits == 1 ? 0 : digits <= 3 ? 1 : 2;
}

static inline ptoi_node *ptoi_node_at(const ptoi_node_pool *pool, uint32_t at)
{
    return (ptoi_node *)(void *)(pool->nodes + ((size_t)at << pool->shift));
}

/* Adds a leaf for `item`, with a mark of the caller's, and returns its node. */
uint32_t ptoi_boxtree_insert(ptoi_node_pool *pool, uint32_t *root, const ptoi_range *box,
                             uint32_t digits, uint32_t item, uint16_t mark);

/* Takes a leaf out. */
void ptoi_boxtree_remove(ptoi_node_pool *pool, uint32_t *root, uint32_t leaf);

/* PTO_CORRUPT with a detail unless T1 - T4 hold; *leaves is how many there are. */
pto_status ptoi_boxtree_check(const ptoi_node_pool *pool, uint32_t root, uint32_t *leaves);

static inline bool ptoi_boxes_meet(const ptoi_range *a, const ptoi_range *b, uint32_t digits)
{
    for (uint32_t d = 0; d < digits; d++) {
        if (a[d].lo > b[d].hi || b[d].lo > a[d].hi) {
            return false;
        }
    }
    return true;
}

/* ---- Walking over the leaves that meet a box ---- */

typedef struct ptoi_walk {
    const ptoi_node_pool *pool;
    uint32_t digits;
    uint32_t depth; /* nodes on the stack: they meet the box and are still to be visited */
    ptoi_range box[PTOI_MAX_DIGITS];
    uint32_t stack[PTOI_TREE_DEPTH + 2];
} ptoi_walk;

static inline void ptoi_walk_push(ptoi_walk *w, uint32_t at)
{
    if (ptoi_boxes_meet(ptoi_node_at(w->pool, at)->box, w->box, w->digits)) {
        w->stack[w->depth++] = at;
    }
}

/* The tree must not change during the walk. Set w->box (of `digits` ranges) before. */
static inline void ptoi_walk_begin(ptoi_walk *w, const ptoi_node_pool *pool, uint32_t root,
                                   uint32_t digits)
{
    w->pool = pool;
    w->digits = digits;
    w->depth = 0;
    if (root != PTOI_NONE) {
        ptoi_walk_push(w, root);
    }
}

/* The next node that meets the box; PTOI_NONE at the end. Below an inner node the walk goes on only if
 * the caller says so, with ptoi_walk_into. */
static inline uint32_t ptoi_walk_next(ptoi_walk *w)
{
    return w->depth ? w->stack[--w->depth] : PTOI_NONE;
}

static inline void ptoi_walk_into(ptoi_walk *w, const ptoi_node *node)
{
    ptoi_walk_push(w, node->child[1]);
    ptoi_walk_push(w, node->child[0]);
}

/* The next leaf. The branches are for the processor to guess: while it waits for one node it looks at
 * the next ones already, which a choice by arithmetic would not let it. */
static inline uint32_t ptoi_walk_next_leaf(ptoi_walk *w)
{
    uint32_t at = ptoi_walk_next(w);
    while (at != PTOI_NONE) {
        const ptoi_node *node = ptoi_node_at(w->pool, at);
        if (node->leaf) {
            break;
        }
        uint32_t left = node->child[0], right = node->child[1];
        bool into_right = ptoi_boxes_meet(ptoi_node_at(w->pool, right)->box, w->box, w->digits);
        if (ptoi_boxes_meet(ptoi_node_at(w->pool, left)->box, w->box, w->digits)) {
            if (into_right) {
                w->stack[w->depth++] = right;
            }
            at = left;
        } else {
            at = into_right ? right : ptoi_walk_next(w);
        }
    }
    return at;
}

#endif /* PTOI_BOXTREE_H */
