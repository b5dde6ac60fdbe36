/* boxtree.h - a tree of boxes: finds those that meet a given box without visiting the others.
 *
 * A box is a closed range in each of up to seven digits (index.h defines the digits). Its key is a
 * string of bits. It interleaves all low ends and all high ends, highest bits first: a Z-order
 * curve through both corners. The tree is the binary trie over these keys, with one-way paths left
 * out. A fork tests one bit. The *rank* of that bit falls from fork to fork on the way down. A node
 * holds two levels of forks, with a bounding box for each subtree:
 *
 *                     rank[0]                      node: three forks, four slots
 *                    /       \                     each slot: a child and its bounding box
 *              rank[1]       rank[2]               child: a node, an item, or a cell of twins
 *              /    \         /    \
 *          slot 0  slot 1  slot 2  slot 3          a side with one child has no rank,
 *                                                  and its child is in slot 0 or 2
 *
 * Why this shape: the forks depend on the boxes alone, not on the order of insertion, so nothing
 * has to be balanced. Tiles of a matrix fall into disjoint subtrees. One visit to a node decides
 * about four subtrees without touching them. A path has at most as many forks as a key has bits (64
 * * 14); for n tiles of a grid it has about log2(n). How forks are packed into nodes does depend on
 * the order of insertion.
 *
 * Invariants (ptoi_boxtree_check):
 *   T1  ranks fall strictly on every path down, inside nodes and from node to node
 *   T2  below a fork, the bit of its rank is 0 in every item on the left, and 1 on the right
 *   T3  the box of a slot is the smallest around all items below it
 *   T4  both sides of a node are used; a list of cells has all items with one box, at least two
 *   T5  no side has a single child that is a node with one fork: that fork would fit in here
 *
 * The caller sizes the pools of nodes and cells: n items need at most n of each.
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

/* The most children that wait on the stack of a walk. On the way down, a node leaves at most two of
 * them for each rank: two where the path takes a side without a rank, else three for two ranks. */
#define PTOI_WALK_DEPTH (2 * PTOI_TREE_DEPTH + 4)

/* A child is a node (no bit set), an item, or a cell. The other bits are its number. */
#define PTOI_REF_ITEM 0x80000000u
#define PTOI_REF_CELL 0x40000000u
#define PTOI_REF_BITS (PTOI_REF_ITEM | PTOI_REF_CELL)

typedef struct ptoi_range {
    uint64_t lo, hi; /* both included */
} ptoi_range;

#define PTOI_SLOTS 4
#define PTOI_NO_RANK UINT16_MAX

typedef struct ptoi_node {
    uint16_t rank[3]; /* of the top, left and right fork: bit * 16 + 15 - number of the key word */
    uint16_t unused;
    uint32_t child[PTOI_SLOTS]; /* PTOI_NONE: the slot is empty */
    ptoi_range box[];           /* first those of slot 0, then of slot 1, ... */
} ptoi_node;

/* One of several items with the same box. */
typedef struct ptoi_cell {
    uint32_t item, next;
} ptoi_cell;

/* All trees with the same number of digits share a pool of nodes. */
typedef struct ptoi_node_pool {
    char *nodes;
    uint32_t bytes; /* of one node */
    uint32_t digits;
    uint32_t untouched; /* nodes from here on were never used */
    uint32_t freed;     /* list of freed nodes, through child[0] */
} ptoi_node_pool;

typedef struct ptoi_cell_pool {
    ptoi_cell *cells;
    uint32_t untouched, freed;
} ptoi_cell_pool;

typedef struct ptoi_forest {
    ptoi_node_pool nodes[PTOI_MAX_DIGITS]; /* [digits - 1] */
    ptoi_cell_pool cells;
} ptoi_forest;

/* Bytes of a node with so many digits: whole cache lines. */
static inline uint32_t ptoi_node_bytes(uint32_t digits)
{
    size_t bytes = sizeof(ptoi_node) + (size_t)PTOI_SLOTS * digits * sizeof(ptoi_range);
    return (uint32_t)((bytes + 63) & ~(size_t)63);
}

static inline ptoi_node *ptoi_node_at(const ptoi_node_pool *pool, uint32_t at)
{
    return (ptoi_node *)(void *)(pool->nodes + (size_t)at * pool->bytes);
}

/* The box of a slot. */
static inline const ptoi_range *ptoi_slot_box(const ptoi_node *node, uint32_t slot, uint32_t digits)
{
    return &node->box[(size_t)slot * digits];
}

/* A tree is the number of its root node, or PTOI_NONE. A root may have one child, in slot 0. */

/* Inserts an item, which is a number below 2^30, and removes it. Both take the same box. */
void ptoi_boxtree_insert(ptoi_forest *forest, uint32_t *root, const ptoi_range *box,
                         uint32_t digits, uint32_t item);
void ptoi_boxtree_remove(ptoi_forest *forest, uint32_t *root, const ptoi_range *box,
                         uint32_t digits, uint32_t item);

/* Whether the item is in the slot of its box. */
bool ptoi_boxtree_holds(const ptoi_forest *forest, uint32_t root, const ptoi_range *box,
                        uint32_t digits, uint32_t item);

/* PTO_CORRUPT with a detail unless T1 to T5 hold. Counts the items in *items. */
pto_status ptoi_boxtree_check(const ptoi_forest *forest, uint32_t root, uint32_t digits,
                              uint32_t *items);

static inline bool ptoi_boxes_meet(const ptoi_range *a, const ptoi_range *b, uint32_t digits)
{
    for (uint32_t d = 0; d < digits; d++) {
        if (a[d].lo > b[d].hi || b[d].lo > a[d].hi) {
            return false;
        }
    }
    return true;
}

/* ---- Walking over the items whose boxes meet a box ---- */

typedef struct ptoi_walk {
    const ptoi_forest *forest;
    const ptoi_node_pool *pool;
    uint32_t digits;
    uint32_t depth; /* children on the stack: their boxes meet the box, and they are not visited
                       yet */
    ptoi_range box[PTOI_MAX_DIGITS];
    uint32_t stack[PTOI_WALK_DEPTH];
} ptoi_walk;

/* Starts a walk. The caller has set w->box (`digits` ranges). The tree must not change during the
 * walk. */
static inline void ptoi_walk_begin(ptoi_walk *w, const ptoi_forest *forest, uint32_t root,
                                   uint32_t digits)
{
    w->forest = forest;
    w->pool = &forest->nodes[digits - 1];
    w->digits = digits;
    w->depth = 0;
    if (root != PTOI_NONE) {
        w->stack[w->depth++] = root;
    }
}

/* The item of a child that is not a node. Its twins go on the stack. */
static inline uint32_t ptoi_walk_item(ptoi_walk *w, uint32_t child)
{
    if (child & PTOI_REF_ITEM) {
        return child & ~PTOI_REF_BITS;
    }
    const ptoi_cell *cell = &w->forest->cells.cells[child & ~PTOI_REF_BITS];
    if (cell->next != PTOI_NONE) {
        w->stack[w->depth++] = cell->next | PTOI_REF_CELL;
    }
    return cell->item;
}

/* Whether to visit a child whose box meets the box of the walk. */
typedef bool (*ptoi_walk_filter)(const void *context, const ptoi_range *box, uint32_t child);

/* The next item, or PTOI_NONE at the end. The boxes of empty slots meet only the box of
 * everything. */
static inline uint32_t ptoi_walk_next_if(ptoi_walk *w, ptoi_walk_filter wanted, const void *context)
{
    while (w->depth) {
        uint32_t at = w->stack[--w->depth];
        if (at & PTOI_REF_BITS) {
            return ptoi_walk_item(w, at);
        }
        const ptoi_node *node = ptoi_node_at(w->pool, at);
        for (uint32_t slot = PTOI_SLOTS; slot-- > 0;) {
            const ptoi_range *box = ptoi_slot_box(node, slot, w->digits);
            uint32_t child = node->child[slot];
            if (ptoi_boxes_meet(box, w->box, w->digits) && child != PTOI_NONE &&
                (!wanted || wanted(context, box, child))) {
                w->stack[w->depth++] = child;
            }
        }
    }
    return PTOI_NONE;
}

static inline uint32_t ptoi_walk_next(ptoi_walk *w)
{
    return ptoi_walk_next_if(w, NULL, NULL);
}

#endif /* PTOI_BOXTREE_H */
