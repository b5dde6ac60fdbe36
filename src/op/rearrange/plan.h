/* plan.h - a strided copy, planned once and run any number of times, at any addresses.
 *
 *   normalise   drop dims of one element, make the destination ascend, sort the loops by address
 *               of the destination, merge two loops that chain on both sides
 *   choose      a way of moving, from the innermost loops
 *   run         piece by piece: a rectangle of the two innermost axes, and loops around it
 *
 * The two axes: i, along which the destination is densest, and j, along which the source is.
 *
 *   RUNS      both sides step by one element in the same loop: copies runs of bytes
 *   TILES     the destination steps by one element along i, the source along j: transposes blocks
 *   ELEMENTS  anything else: element by element, in rectangles that stay in the L1 cache
 *   ORDERED   the loops of the destination are not nested, so it may contain a place more than
 *             once: element by element in the order of the indices, the last dim fastest, so that
 *             the last one written stays
 *
 * Runs of 2, 4, 8 or 16 bytes on both sides count as one wide element, so that pairs of halves are
 * transposed like floats. If the rows of a block are short, an axis includes further loops: any
 * loop that continues the destination's memory may extend i, and any that continues the source's
 * memory may extend j. The other side then jumps from loop to loop. That costs nothing, because its
 * rows are apart anyway.
 *
 * A plan also has what follows from the layout alone: the range of bytes of each side.
 */
#ifndef PTOI_PLAN_H
#define PTOI_PLAN_H

#include <pto/tensor.h>

#include "op/rearrange/isa.h"
#include "op/rearrange/loops.h"

typedef enum ptoi_way {
    PTOI_WAY_NOTHING,
    PTOI_WAY_RUNS,
    PTOI_WAY_TILES,
    PTOI_WAY_ELEMENTS,
    PTOI_WAY_ORDERED,
} ptoi_way;

/* An axis: one loop or several that together form a row of memory on one side. */
typedef struct ptoi_axis {
    int64_t count; /* all its loops together; 1 if there are none */
    int64_t side;  /* most elements of it in a piece */
    int32_t n;
    ptoi_loop loop[PTO_MAX_DIMS]; /* innermost first */
} ptoi_axis;

/* Invariants, checked by ptoi_plan_check:
 *   PL1  way NOTHING: nothing else is set. Else size is 1, 2, 4, 8 or 16, and the loops, i and j
 *        together cover all elements: bytes == size of an item * all counts
 *   PL2  RUNS: an item is `run` bytes, run >= size; else an item is an element
 *   PL3  TILES: element k of i lies k * size further in the destination, of j in the source; blocks
 *        are no larger than PTOI_BLOCK_ROWS x PTOI_BLOCK_COLUMNS
 *   PL4  ORDERED: j is single, i is the last loop
 *   PL5  aligned: every `to` except those along i is a multiple of a line
 *   PL6  head: elements of i before the first whole line, if `aligned`; head * size < PTOI_LINE
 *   PL7  there are (pieces of i) * (pieces of j) * (chunks of a run) * (all loops) pieces
 */
typedef struct ptoi_plan {
    ptoi_way way;
    bool on_grid;        /* the plan for the CPU of a ptoi_gpu_plan */
    uint32_t size;       /* of one element; a wide element counts as one */
    bool stream;         /* past the caches: the copy is larger than they are */
    bool aligned;        /* all rows of the destination are aligned alike relative to cache
                                     lines */
    uint8_t line;        /* address of the first element written, modulo a line */
    uint8_t head;        /* elements of i before the first whole line, if aligned */
    const ptoi_isa *isa; /* the kernels */
    ptoi_nest nest;      /* loops around the axes, and where the copy begins */
    ptoi_axis i, j;
    int64_t run;    /* RUNS: bytes of an item */
    int64_t chunks; /* RUNS: pieces of each run */
    int64_t pieces; /* total */
    int64_t bytes;  /* total moved */
    /* Relative to element [0, 0, ...] of each side: the lowest byte touched, and one past the
     * highest. */
    int64_t to_low, to_end, from_low, from_end;
} ptoi_plan;

enum {
    PTOI_BLOCK_ROWS = 256,     /* of i, in a piece of TILES */
    PTOI_BLOCK_COLUMNS = 1024, /* of j */
    PTOI_CHUNK = 1 << 16,      /* bytes of a very long run in a piece of RUNS */
    PTOI_LONG_RUN = 256,       /* bytes: enough whole lines to stream */
};

/* Number of pieces of an axis that begins with a piece of `head` elements. */
static inline int64_t ptoi_axis_pieces(const ptoi_axis *axis, int64_t head)
{
    return (head > 0) + (axis->count - head + axis->side - 1) / axis->side;
}

/* A destination of at least this size is written past the caches. A smaller one will probably be
 * found in the cache by its next reader. Of a larger one most would be evicted, and every line of
 * it would be read only to be overwritten. */
enum { PTOI_STREAM_FROM = 4 << 20 };

/* Strides are in elements. Both sides are valid tensors (E1 to E3 of tensor/tensor.h) of that
 * shape; elements have 1, 2, 4 or 8 bytes. `to_address` is the future address of element [0, 0,
 * ...], modulo 64. At other addresses the plan is correct, but slower. */
void ptoi_plan_make(ptoi_plan *plan, int32_t ndim, const int64_t *shape, const int64_t *to_strides,
                    const int64_t *from_strides, uint32_t size, uintptr_t to_address);

/* The same with a given set of kernels (NULL: the best one here) and another threshold for
 * streams. */
void ptoi_plan_make_with(ptoi_plan *plan, int32_t ndim, const int64_t *shape,
                         const int64_t *to_strides, const int64_t *from_strides, uint32_t size,
                         uintptr_t to_address, const ptoi_isa *isa, int64_t stream_from);

/* `to` and `from` are the addresses of element [0, 0, ...]. They share no byte. The stores are
 * visible when it returns, like normal stores. */
void ptoi_plan_run(const ptoi_plan *plan, void *to, const void *from);

/* Runs one of `parts` disjoint parts, which together are the whole copy; a part may be empty.
 * (ORDERED copies have one part that does everything.) */
void ptoi_plan_run_part(const ptoi_plan *plan, void *to, const void *from, uint32_t part,
                        uint32_t parts);

/* Plans and runs. */
void ptoi_copy(int32_t ndim, const int64_t *shape, void *to, const int64_t *to_strides,
               const void *from, const int64_t *from_strides, uint32_t size);

/* PTO_CORRUPT if an invariant is broken. */
pto_status ptoi_plan_check(const ptoi_plan *plan);

/* One readable line, written like snprintf does. */
size_t ptoi_plan_format(const ptoi_plan *plan, char *text, size_t size);

#endif /* PTOI_PLAN_H */
