#include "orchestrator/map/boxtree.h"

#include <string.h>

#include <pto/pto.h>

#include "base/error.h"

/* Insert and remove are compiled for one digit (dense memory), for two (rows), and for any number. So their loops
 * over digits have a constant bound, and everything that they call is inlined. */
#define PTOI_ALWAYS_INLINE __attribute__((always_inline))

/* ---- Keys: low ends, then high ends ---- */

static inline PTOI_ALWAYS_INLINE uint64_t key_word(const ptoi_range *box, uint32_t digits,
                                                   uint32_t word)
{
    return word < digits ? box[word].lo : box[word - digits].hi;
}

static inline PTOI_ALWAYS_INLINE uint32_t key_bit(const ptoi_range *box, uint32_t digits,
                                                  uint16_t rank)
{
    return (uint32_t)(key_word(box, digits, 15u - (rank & 15u)) >> (rank >> 4)) & 1u;
}

/* The rank of the first bit in which two boxes differ, in the order of the key. */
static inline PTOI_ALWAYS_INLINE bool first_difference(const ptoi_range *a, const ptoi_range *b,
                                                       uint32_t digits, uint16_t *rank)
{
    uint32_t best = 0;
    bool differ = false;
    for (uint32_t word = 0; word < 2 * digits; word++) {
        uint64_t x = key_word(a, digits, word) ^ key_word(b, digits, word);
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

/* The slot of a node for a key. */
static inline PTOI_ALWAYS_INLINE uint32_t key_slot(const ptoi_node *node, const ptoi_range *box,
                                                   uint32_t digits)
{
    if (node->rank[0] == PTOI_NO_RANK) {
        return 0;
    }
    uint32_t side = key_bit(box, digits, node->rank[0]);
    uint16_t rank = node->rank[1 + side];
    return 2 * side + (rank == PTOI_NO_RANK ? 0 : key_bit(box, digits, rank));
}

/* ---- Nodes and slots ---- */

/* The box of a slot, writable. */
static inline ptoi_range *slot_box(ptoi_node *node, uint32_t slot, uint32_t digits)
{
    return &node->box[(size_t)slot * digits];
}

static inline bool is_node(uint32_t child)
{
    return !(child & PTOI_REF_BITS);
}

/* Everything that a change of one tree needs. */
typedef struct tree {
    ptoi_forest *forest;
    ptoi_node_pool *pool;
    uint32_t digits;
} tree;

static inline PTOI_ALWAYS_INLINE tree tree_of(ptoi_forest *forest, uint32_t digits)
{
    return (tree){forest, &forest->nodes[digits - 1], digits};
}

static inline PTOI_ALWAYS_INLINE void set_slot(const tree *t, ptoi_node *node, uint32_t slot,
                                               uint32_t child, const ptoi_range *box)
{
    node->child[slot] = child;
    memmove(slot_box(node, slot, t->digits), box, t->digits * sizeof *box);
}

static inline PTOI_ALWAYS_INLINE void clear_slot(const tree *t, ptoi_node *node, uint32_t slot)
{
    node->child[slot] = PTOI_NONE;
    for (uint32_t d = 0; d < t->digits; d++) {
        slot_box(node, slot, t->digits)[d] = (ptoi_range){UINT64_MAX, 0}; /* meets only the box of
                                                                             everything */
    }
}

static inline PTOI_ALWAYS_INLINE void move_slot(const tree *t, ptoi_node *node, uint32_t from,
                                                uint32_t to)
{
    if (from != to) {
        set_slot(t, node, to, node->child[from], ptoi_slot_box(node, from, t->digits));
        clear_slot(t, node, from);
    }
}

static inline PTOI_ALWAYS_INLINE uint32_t take_node(const tree *t, uint16_t rank)
{
    uint32_t at = t->pool->freed;
    if (at != PTOI_NONE) {
        t->pool->freed = ptoi_node_at(t->pool, at)->child[0];
    } else {
        at = t->pool->untouched++;
    }
    ptoi_node *node = ptoi_node_at(t->pool, at);
    node->rank[0] = rank;
    node->rank[1] = node->rank[2] = PTOI_NO_RANK;
    for (uint32_t slot = 0; slot < PTOI_SLOTS; slot++) {
        clear_slot(t, node, slot);
    }
    return at;
}

static inline PTOI_ALWAYS_INLINE void give_node(const tree *t, uint32_t at)
{
    ptoi_node_at(t->pool, at)->child[0] = t->pool->freed;
    t->pool->freed = at;
}

static uint32_t take_cell(ptoi_cell_pool *pool, uint32_t item, uint32_t next)
{
    uint32_t at = pool->freed;
    if (at != PTOI_NONE) {
        pool->freed = pool->cells[at].next;
    } else {
        at = pool->untouched++;
    }
    pool->cells[at] = (ptoi_cell){item, next};
    return at;
}

static void give_cell(ptoi_cell_pool *pool, uint32_t at)
{
    pool->cells[at].next = pool->freed;
    pool->freed = at;
}

static inline PTOI_ALWAYS_INLINE void grow(ptoi_range *box, const ptoi_range *by, uint32_t digits)
{
    for (uint32_t d = 0; d < digits; d++) {
        box[d].lo = by[d].lo < box[d].lo ? by[d].lo : box[d].lo;
        box[d].hi = by[d].hi > box[d].hi ? by[d].hi : box[d].hi;
    }
}

/* The smallest box around all slots of a node. */
static inline PTOI_ALWAYS_INLINE void box_around(const ptoi_node *node, uint32_t digits,
                                                 ptoi_range *box)
{
    memcpy(box, node->box, digits * sizeof *box); /* slot 0 is always used */
    for (uint32_t slot = 1; slot < PTOI_SLOTS; slot++) {
        if (node->child[slot] != PTOI_NONE) {
            grow(box, ptoi_slot_box(node, slot, digits), digits);
        }
    }
}

/* Merges the only child of a side into the node, if that child is a node with one fork. */
static inline PTOI_ALWAYS_INLINE void take_in(const tree *t, ptoi_node *node, uint32_t side)
{
    uint32_t slot = 2 * side, child = node->child[slot];
    if (node->rank[0] == PTOI_NO_RANK || node->rank[1 + side] != PTOI_NO_RANK || !is_node(child)) {
        return;
    }
    const ptoi_node *below = ptoi_node_at(t->pool, child);
    if (below->rank[1] != PTOI_NO_RANK || below->rank[2] != PTOI_NO_RANK) {
        return;
    }
    node->rank[1 + side] = below->rank[0];
    set_slot(t, node, 2 * side, below->child[0], below->box);
    set_slot(t, node, 2 * side + 1, below->child[2], ptoi_slot_box(below, 2, t->digits));
    give_node(t, child);
}

/* ---- Inserting ---- */

/* Makes a node with one fork: a new child and an old one, each on its side. Returns the node;
 * *around is the bounding box of both. */
static inline PTOI_ALWAYS_INLINE uint32_t fork_of(const tree *t, uint16_t rank, uint32_t child,
                                                  const ptoi_range *box, uint32_t old,
                                                  const ptoi_range *old_box, ptoi_range *around)
{
    uint32_t at = take_node(t, rank), side = key_bit(box, t->digits, rank);
    ptoi_node *node = ptoi_node_at(t->pool, at);
    set_slot(t, node, 2 * side, child, box);
    set_slot(t, node, 2 * !side, old, old_box);
    take_in(t, node, 0);
    take_in(t, node, 1);
    box_around(node, t->digits, around);
    return at;
}

/* Adds a child to a side that has one child, in its first slot. */
static inline PTOI_ALWAYS_INLINE void join(const tree *t, ptoi_node *node, uint32_t side,
                                           uint16_t rank, uint32_t child, const ptoi_range *box)
{
    uint32_t bit = key_bit(box, t->digits, rank);
    node->rank[1 + side] = rank;
    if (bit == 0) {
        move_slot(t, node, 2 * side, 2 * side + 1);
    }
    set_slot(t, node, 2 * side + bit, child, box);
}

/* Whether a new fork of this rank belongs below the top fork of the child. */
static inline PTOI_ALWAYS_INLINE bool goes_below(const tree *t, uint32_t child, uint16_t rank)
{
    return is_node(child) && ptoi_node_at(t->pool, child)->rank[0] > rank;
}

/* Tries to put the item into this node. Returns PTOI_SLOTS if that is done, otherwise the slot to
 * descend into.
 */
static inline PTOI_ALWAYS_INLINE uint32_t place(const tree *t, ptoi_node *node, uint16_t rank,
                                                uint32_t item, const ptoi_range *box)
{
    ptoi_range around[PTOI_MAX_DIGITS];
    uint32_t side = key_bit(box, t->digits, node->rank[0]), slot = 2 * side;
    uint16_t side_rank = node->rank[1 + side];
    if (side_rank == PTOI_NO_RANK) {
        if (goes_below(t, node->child[slot], rank)) {
            return slot;
        }
        join(t, node, side, rank, item, box);
        return PTOI_SLOTS;
    }
    if (rank > side_rank) { /* above the fork of this side, which moves to a new node */
        const ptoi_range *left = ptoi_slot_box(node, slot, t->digits);
        uint32_t below = fork_of(t, side_rank, node->child[slot], left, node->child[slot + 1],
                                 left + t->digits, around);
        clear_slot(t, node, slot + 1);
        set_slot(t, node, slot, below, around);
        join(t, node, side, rank, item, box);
        return PTOI_SLOTS;
    }
    slot += key_bit(box, t->digits, side_rank);
    if (goes_below(t, node->child[slot], rank)) {
        return slot;
    }
    uint32_t below = fork_of(t, rank, item, box, node->child[slot],
                             ptoi_slot_box(node, slot, t->digits), around);
    set_slot(t, node, slot, below, around);
    return PTOI_SLOTS;
}

/* Follows a key down to its item or twins. Returns the node and the slot. */
static inline PTOI_ALWAYS_INLINE uint32_t descend(const ptoi_node_pool *pool, uint32_t root,
                                                  const ptoi_range *box, uint32_t digits,
                                                  uint32_t *slot)
{
    for (uint32_t at = root;;) {
        const ptoi_node *node = ptoi_node_at(pool, at);
        *slot = key_slot(node, box, digits);
        if (!is_node(node->child[*slot])) {
            return at;
        }
        at = node->child[*slot];
    }
}

static inline PTOI_ALWAYS_INLINE void insert(ptoi_forest *forest, uint32_t *root,
                                             const ptoi_range *box, uint32_t digits, uint32_t item)
{
    tree t = tree_of(forest, digits);
    if (*root == PTOI_NONE) {
        *root = take_node(&t, PTOI_NO_RANK);
        set_slot(&t, ptoi_node_at(t.pool, *root), 0, item | PTOI_REF_ITEM, box);
        return;
    }

    /* Any item on the path of the key agrees with the key in all bits that the tree tests above the
     * point where they part. So one such item shows where that point is. */
    uint32_t slot;
    uint16_t rank;
    ptoi_node *node = ptoi_node_at(t.pool, descend(t.pool, *root, box, digits, &slot));
    if (!first_difference(box, ptoi_slot_box(node, slot, digits), digits, &rank)) {
        uint32_t old = node->child[slot];
        uint32_t next = old & PTOI_REF_ITEM
                            ? take_cell(&forest->cells, old & ~PTOI_REF_BITS, PTOI_NONE)
                            : old & ~PTOI_REF_BITS;
        node->child[slot] = take_cell(&forest->cells, item, next) | PTOI_REF_CELL;
        return;
    }

    item |= PTOI_REF_ITEM;
    node = ptoi_node_at(t.pool, *root);
    if (node->rank[0] == PTOI_NO_RANK) { /* a root with one child */
        uint32_t side = key_bit(box, digits, rank);
        node->rank[0] = rank;
        move_slot(&t, node, 0, 2 * !side);
        set_slot(&t, node, 2 * side, item, box);
    } else if (rank > node->rank[0]) {
        ptoi_range around[PTOI_MAX_DIGITS];
        box_around(node, digits, around);
        *root = fork_of(&t, rank, item, box, *root, around, around);
    } else {
        while ((slot = place(&t, node, rank, item, box)) != PTOI_SLOTS) {
            grow(slot_box(node, slot, digits), box, digits);
            node = ptoi_node_at(t.pool, node->child[slot]);
        }
    }
}

void ptoi_boxtree_insert(ptoi_forest *forest, uint32_t *root, const ptoi_range *box,
                         uint32_t digits, uint32_t item)
{
    switch (digits) {
    case 1:
        insert(forest, root, box, 1, item);
        break;
    case 2:
        insert(forest, root, box, 2, item);
        break;
    default:
        insert(forest, root, box, digits, item);
    }
}

/* ---- Removing ---- */

/* Empties a slot and restores T4. Returns false if the node is left with a single child, in slot 0.
 */
static inline PTOI_ALWAYS_INLINE bool empty_slot(const tree *t, ptoi_node *node, uint32_t slot)
{
    uint32_t side = slot / 2, other = !side;
    clear_slot(t, node, slot);
    if (node->rank[1 + side] != PTOI_NO_RANK) {
        node->rank[1 + side] = PTOI_NO_RANK;
        move_slot(t, node, slot ^ 1u, 2 * side);
        return true;
    }
    node->rank[0] = node->rank[1 + other];
    node->rank[1 + other] = PTOI_NO_RANK;
    if (node->rank[0] == PTOI_NO_RANK) {
        move_slot(t, node, 2 * other, 0);
        return false;
    }
    if (other == 0) {
        move_slot(t, node, 1, 2);
    } else {
        move_slot(t, node, 2, 0);
        move_slot(t, node, 3, 2);
    }
    return true;
}

static void remove_twin(ptoi_cell_pool *pool, uint32_t *child, uint32_t item)
{
    uint32_t first = *child & ~PTOI_REF_BITS, *link = &first;
    while (pool->cells[*link].item != item) {
        link = &pool->cells[*link].next;
    }
    uint32_t gone = *link;
    *link = pool->cells[gone].next;
    give_cell(pool, gone);
    *child = first | PTOI_REF_CELL;
    if (pool->cells[first].next == PTOI_NONE) { /* one item is left: it has no twin */
        *child = pool->cells[first].item | PTOI_REF_ITEM;
        give_cell(pool, first);
    }
}

static inline PTOI_ALWAYS_INLINE void remove_item(ptoi_forest *forest, uint32_t *root,
                                                  const ptoi_range *box, uint32_t digits,
                                                  uint32_t item)
{
    tree t = tree_of(forest, digits);
    uint32_t way[PTOI_TREE_DEPTH + 1], slots[PTOI_TREE_DEPTH + 1], depth = 0;
    uint32_t at = *root, last = 0;
    ptoi_node *node;
    do { /* the root is a node */
        last = depth++;
        node = ptoi_node_at(t.pool, at);
        way[last] = at;
        slots[last] = key_slot(node, box, digits);
        at = node->child[slots[last]];
    } while (is_node(at));
    if (node->child[slots[last]] & PTOI_REF_CELL) {
        remove_twin(&forest->cells, &node->child[slots[last]], item);
        return;
    }
    if (node->rank[0] == PTOI_NO_RANK) { /* the only item of the tree */
        give_node(&t, way[0]);
        *root = PTOI_NONE;
        return;
    }
    if (!empty_slot(&t, node, slots[last])) {
        if (last > 0) { /* the only child replaces the node */
            ptoi_node *above = ptoi_node_at(t.pool, way[last - 1]);
            set_slot(&t, above, slots[last - 1], node->child[0], node->box);
            give_node(&t, way[last]);
            last--;
        } else if (is_node(node->child[0])) {
            *root = node->child[0];
            give_node(&t, way[0]);
            return;
        }
    }
    for (;; last--) {
        node = ptoi_node_at(t.pool, way[last]);
        take_in(&t, node, 0);
        take_in(&t, node, 1);
        if (last == 0) {
            return;
        }
        ptoi_range around[PTOI_MAX_DIGITS];
        ptoi_range *old = slot_box(ptoi_node_at(t.pool, way[last - 1]), slots[last - 1], digits);
        box_around(node, digits, around);
        memcpy(old, around, digits * sizeof *old);
    }
}

void ptoi_boxtree_remove(ptoi_forest *forest, uint32_t *root, const ptoi_range *box,
                         uint32_t digits, uint32_t item)
{
    switch (digits) {
    case 1:
        remove_item(forest, root, box, 1, item);
        break;
    case 2:
        remove_item(forest, root, box, 2, item);
        break;
    default:
        remove_item(forest, root, box, digits, item);
    }
}

/* ---- Check ---- */

bool ptoi_boxtree_holds(const ptoi_forest *forest, uint32_t root, const ptoi_range *box,
                        uint32_t digits, uint32_t item)
{
    const ptoi_node_pool *pool = &forest->nodes[digits - 1];
    uint32_t slot;
    uint16_t rank;
    if (root == PTOI_NONE) {
        return false;
    }
    const ptoi_node *node = ptoi_node_at(pool, descend(pool, root, box, digits, &slot));
    uint32_t child = node->child[slot];
    if (child == PTOI_NONE ||
        first_difference(box, ptoi_slot_box(node, slot, digits), digits, &rank)) {
        return false;
    }
    if (child & PTOI_REF_ITEM) {
        return (child & ~PTOI_REF_BITS) == item;
    }
    for (child &= ~PTOI_REF_BITS; child != PTOI_NONE; child = forest->cells.cells[child].next) {
        if (forest->cells.cells[child].item == item) {
            return true;
        }
    }
    return false;
}

/* T1 and T3 to T5 of one node: the root, or a node below a fork of rank `above`. */
static pto_status check_node(const ptoi_node_pool *pool, uint32_t at, bool is_root, uint32_t above)
{
    const ptoi_node *node = ptoi_node_at(pool, at);
    if (at >= pool->untouched) {
        return ptoi_fail(PTO_CORRUPT, "box tree: node %u of %u in use", at, pool->untouched);
    }
    bool single = node->rank[0] == PTOI_NO_RANK;
    if (single && !is_root) {
        return ptoi_fail(PTO_CORRUPT, "box tree: T4 broken, node %u has one child", at);
    }
    if (!single && node->rank[0] >= above) {
        return ptoi_fail(PTO_CORRUPT, "box tree: T1 broken, rank %d below %u", node->rank[0],
                         above);
    }
    for (uint32_t slot = 0; slot < PTOI_SLOTS; slot++) {
        uint32_t side = slot / 2, child = node->child[slot];
        uint32_t rank = node->rank[1 + side];
        bool wanted = single ? slot == 0 : slot % 2 == 0 || rank != PTOI_NO_RANK;
        if (wanted != (child != PTOI_NONE) || (single && rank != PTOI_NO_RANK)) {
            return ptoi_fail(PTO_CORRUPT, "box tree: T4 broken, slot %u of node %u", slot, at);
        }
        if (rank != PTOI_NO_RANK && rank >= node->rank[0]) {
            return ptoi_fail(PTO_CORRUPT, "box tree: T1 broken, rank %u in node %u", rank, at);
        }
        if (child != PTOI_NONE && is_node(child)) {
            ptoi_range around[PTOI_MAX_DIGITS];
            box_around(ptoi_node_at(pool, child), pool->digits, around);
            const ptoi_node *below = ptoi_node_at(pool, child);
            if (!single && rank == PTOI_NO_RANK && below->rank[1] == PTOI_NO_RANK &&
                below->rank[2] == PTOI_NO_RANK) {
                return ptoi_fail(PTO_CORRUPT, "box tree: T5 broken, slot %u of node %u", slot, at);
            }
            if (memcmp(around, ptoi_slot_box(node, slot, pool->digits),
                       pool->digits * sizeof around[0]) != 0) {
                return ptoi_fail(PTO_CORRUPT, "box tree: T3 broken, slot %u of node %u", slot, at);
            }
        }
    }
    return PTO_OK;
}

pto_status ptoi_boxtree_check(const ptoi_forest *forest, uint32_t root, uint32_t digits,
                              uint32_t *items)
{
    const ptoi_node_pool *pool = &forest->nodes[digits - 1];
    uint32_t stack[PTOI_WALK_DEPTH], depth = 0;
    uint32_t ranks[sizeof stack / sizeof *stack];
    *items = 0;
    if (root != PTOI_NONE) {
        ranks[depth] = PTOI_NO_RANK;
        stack[depth++] = root;
    }
    while (depth) {
        uint32_t at = stack[--depth];
        const ptoi_node *node = ptoi_node_at(pool, at);
        PTO_TRY(check_node(pool, at, at == root, ranks[depth]));
        for (uint32_t slot = 0; slot < PTOI_SLOTS; slot++) {
            uint32_t child = node->child[slot], rank = node->rank[1 + slot / 2], cells = 0;
            if (child == PTOI_NONE) {
                continue;
            }
            if (is_node(child)) {
                ranks[depth] = rank == PTOI_NO_RANK ? node->rank[0] : rank;
                stack[depth++] = child;
                continue;
            }
            /* T2: the key leads back to this slot. */
            uint32_t found;
            if (descend(pool, root, ptoi_slot_box(node, slot, digits), digits, &found) != at ||
                found != slot) {
                return ptoi_fail(PTO_CORRUPT, "box tree: T2 broken, slot %u of node %u", slot, at);
            }
            if (child & PTOI_REF_CELL) {
                for (uint32_t c = child & ~PTOI_REF_BITS; c != PTOI_NONE;
                     c = forest->cells.cells[c].next) {
                    cells++;
                }
                if (cells < 2) {
                    return ptoi_fail(PTO_CORRUPT, "box tree: T4 broken, a twin alone in node %u",
                                     at);
                }
            }
            *items += cells ? cells : 1;
        }
    }
    return PTO_OK;
}
