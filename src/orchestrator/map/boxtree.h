/* boxtree.h - a tree of boxes: finds those that meet a given box without looking at the others.
 *
 * A box is a closed range in each of up to seven digits (index.h says what the digits are). Its key
 * is the string of bits that takes turns through all low ends and all high ends, highest bits first
 * (a Z-order curve through both corners). The tree is the binary trie over these keys with all
 * one-way paths left out: a fork tests one bit, the *rank* of which falls from fork to fork on the
 * way down. Two levels of forks are kept in one node, next to the boxes around all that lies below:
 *
 *                     rank[0]                      node: three forks, four slots
 *                    /       \                     each slot: a child and the box around it
 *              rank[1]       rank[2]               child: a node, an item, or a cell of twins
 *              /    \         /    \
 *          slot 0  slot 1  slot 2  slot 3          a side with one child only has no rank,
 *                                                  and its child in slot 0 or 2
 *
 * Why this shape: the forks depend on the boxes alone, not on the order they came in, so there is
 * nothing to balance; tiles of a matrix fall into disjoint subtrees; one visit of a node decides
 * about four subtrees without touching them. There are at most as many forks on a way as key bits
 * (64 * 14), for n tiles of a grid about log2(n); how they are packed into nodes does depend on the
 * order.
 *
 * Invariants (ptoi_boxtree_check):
 *   T1  ranks fall strictly on every way down, inside of nodes and from node to node
 *   T2  below a fork the bit of its rank is 0 on the left and 1 on the right, in every item
 *   T3  the box of a slot is the smallest around all items below it
 *   T4  both sides of a node are used; items of equal boxes, and only those, share a list of cells
 *   T5  no side has as its only child a node with one fork: that fork would fit in here
 *
 * Nodes and cells come from pools that the caller sized: n items need at most n of each.
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

/* Children that wait at once in a walk: a node leaves at most two behind for each rank on the way
 * down (two where the way goes through a side without a rank, three for two ranks where it does
 * not). */
#define PTOI_WALK_DEPTH (2 * PTOI_TREE_DEPTH + 4)

/* A child is a node (no bits set), an item, or a cell. The other bits are its number. */
#define PTOI_REF_ITEM 0x80000000u
#define PTOI_REF_CELL 0x40000000u
#define PTOI_REF_BITS (PTOI_REF_ITEM | PTOI_REF_CELL)

typedef struct ptoi_range {
    uint64_t lo, hi; /* both included */
} ptoi_range;

#define PTOI_SLOTS 4
#define PTOI_NO_RANK UINT16_MAX

typedef struct ptoi_node {
    uint16_t rank[3]; /* bit * 16 + 15 - number of the key word; of the top, left and right fork */
    uint16_t unused;
    uint32_t child[PTOI_SLOTS]; /* PTOI_NONE if the slot is not used */
    ptoi_range box[];           /* those of slot 0, then of slot 1, ... */
} ptoi_node;

/* One of several items with the same box. */
typedef struct ptoi_cell {
    uint32_t item, next;
} ptoi_cell;

/* All trees of one number of digits share a pool of nodes. */
typedef struct ptoi_node_pool {
    char *nodes;
    uint32_t bytes; /* of one node */
    uint32_t digits;
    uint32_t fresh; /* nodes from here on were never used */
    uint32_t freed; /* list of used ones, through child[0] */
} ptoi_node_pool;

typedef struct ptoi_cell_pool {
    ptoi_cell *cells;
    uint32_t fresh, freed;
} ptoi_cell_pool;

typedef struct ptoi_forest {
    ptoi_node_pool nodes[PTOI_MAX_DIGITS]; /* [digits - 1] */
    ptoi_cell_pool cells;
} ptoi_forest;

/* Bytes of a node for that many digits: whole lines of cache. */
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

/* Adds an item, a number below 2^30, and takes it out again: with the same box. */
void ptoi_boxtree_insert(ptoi_forest *forest, uint32_t *root, const ptoi_range *box,
                         uint32_t digits, uint32_t item);
void ptoi_boxtree_remove(ptoi_forest *forest, uint32_t *root, const ptoi_range *box,
                         uint32_t digits, uint32_t item);

/* Whether the item is where its box belongs. */
bool ptoi_boxtree_holds(const ptoi_forest *forest, uint32_t root, const ptoi_range *box,
                        uint32_t digits, uint32_t item);

/* PTO_CORRUPT with a detail unless T1 - T4 hold; *items is how many there are. */
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
    uint32_t depth; /* children on the stack: their boxes meet, they are still to be visited */
    ptoi_range box[PTOI_MAX_DIGITS];
    uint32_t stack[PTOI_WALK_DEPTH];
} ptoi_walk;

/* The tree must not change during the walk. Set w->box (of `digits` ranges) before. */
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

/* The item of a child that is no node; its twins are left for later. */
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

/* Whether a child whose box meets that of the walk is worth a visit. */
typedef bool (*ptoi_walk_filter)(const void *context, const ptoi_range *box, uint32_t child);

/* The next item; PTOI_NONE at the end. Slots that are not used have boxes that meet nothing but the
 * box of everything. */
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
