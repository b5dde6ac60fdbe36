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
#include <stdint.h>

#include <pto/status.h>

#define PTOI_NONE UINT32_MAX
#define PTOI_MAX_DIGITS 7
#define PTOI_TREE_DEPTH (64 * 2 * PTOI_MAX_DIGITS)

typedef struct ptoi_range {
    uint64_t lo, hi; /* both included */
} ptoi_range;

/* Two lines of cache; boxes of up to three digits fit in the first. */
typedef struct ptoi_node {
    uint32_t parent;   /* inner node above, or the twin before this one; PTOI_NONE at the root */
    uint32_t child[2]; /* inner: the two subtrees; leaf: the item, and the next twin */
    uint16_t rank;     /* inner: bit * 16 + 15 - number of the key word */
    uint8_t leaf;      /* 0 inner, 1 leaf in the tree, 2 leaf that is a twin of another */
    uint8_t digits;
    ptoi_range box[PTOI_MAX_DIGITS];
} ptoi_node;

typedef struct ptoi_node_pool {
    ptoi_node *nodes;
    uint32_t capacity;
    uint32_t fresh; /* nodes from here on were never used */
    uint32_t freed; /* list of used ones, through `parent` */
} ptoi_node_pool;

/* Adds a leaf for `item` and returns its node. */
uint32_t ptoi_boxtree_insert(ptoi_node_pool *pool, uint32_t *root, const ptoi_range *box,
                             uint32_t digits, uint32_t item);

/* Takes a leaf out. */
void ptoi_boxtree_remove(ptoi_node_pool *pool, uint32_t *root, uint32_t leaf);

/* PTO_CORRUPT with a detail unless T1 - T4 hold; *leaves is how many there are. */
pto_status ptoi_boxtree_check(const ptoi_node_pool *pool, uint32_t root, uint32_t *leaves);

static inline bool ptoi_boxes_meet(const ptoi_range *a, const ptoi_range *b, uint32_t digits)
{
    for (uint32_t d = 0; d < digits; d++)
        if (a[d].lo > b[d].hi || b[d].lo > a[d].hi)
            return false;
    return true;
}

/* ---- Walking over the leaves that meet a box ---- */

typedef struct ptoi_walk {
    const ptoi_node_pool *pool;
    uint32_t digits;
    uint32_t depth; /* nodes on the stack: subtrees still to visit */
    ptoi_range box[PTOI_MAX_DIGITS];
    uint32_t stack[PTOI_TREE_DEPTH + 2];
} ptoi_walk;

/* The tree must not change during the walk. Set w->box (of `digits` ranges) before. */
static inline void ptoi_walk_begin(ptoi_walk *w, const ptoi_node_pool *pool, uint32_t root,
                                   uint32_t digits)
{
    w->pool = pool;
    w->digits = digits;
    w->depth = 0;
    if (root != PTOI_NONE)
        w->stack[w->depth++] = root;
}

/* Pops the next node that meets the box; PTOI_NONE at the end. The caller goes on with
 * ptoi_walk_into to see what lies below an inner node, or not to. */
static inline uint32_t ptoi_walk_pop(ptoi_walk *w)
{
    while (w->depth) {
        uint32_t at = w->stack[--w->depth];
        if (ptoi_boxes_meet(w->pool->nodes[at].box, w->box, w->digits))
            return at;
    }
    return PTOI_NONE;
}

static inline void ptoi_walk_into(ptoi_walk *w, const ptoi_node *node)
{
    w->stack[w->depth++] = node->child[1];
    w->stack[w->depth++] = node->child[0];
}

#endif /* PTOI_BOXTREE_H */
