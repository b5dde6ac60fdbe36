/* plan.h - a strided copy, thought about once and run as often as wanted, at any addresses.
 *
 *   normalise   drop single elements, walk the destination upwards, sort the loops by where the
 *               destination lies in memory, make one loop of two that chain on both sides
 *   choose      a way of moving, from what the innermost loops look like
 *   run         piece by piece: a rectangle of the two innermost axes, and loops around it
 *
 * The two axes: i, along which the destination lies densest, and j, along which the source does.
 *
 *   RUNS      both sides step by one element in the same loop: bytes are copied in runs
 *   TILES     the destination steps by one element along i, the source along j: blocks are turned
 *   ELEMENTS  anything else: element by element, in rectangles that stay in the first cache
 *   ORDERED   the loops of the destination are not one inside of the other, so it may name a place
 *             more than once: element by element in the order of the indices, the last dim fastest,
 *             so that what comes last stays
 *
 * Runs of both sides that are 2, 4, 8 or 16 bytes long count as one wide element, so that pairs of
 * halves are turned like floats. And where rows of a block are short, an axis takes in further loops:
 * whatever goes on in the memory of the destination may follow along i, and in that of the source
 * along j. The other side jumps then from loop to loop, which costs it nothing: its rows are apart
 * anyway.
 *
 * A plan also knows what can be told from the layout alone: the bytes that either side spans.
 */
#ifndef PTOI_PLAN_H
#define PTOI_PLAN_H

#include <pto/tensor.h>

#include "op/rearrange/isa.h"

typedef enum ptoi_way {
    PTOI_WAY_NOTHING,
    PTOI_WAY_RUNS,
    PTOI_WAY_TILES,
    PTOI_WAY_ELEMENTS,
    PTOI_WAY_ORDERED,
} ptoi_way;

/* One loop; steps count bytes. */
typedef struct ptoi_loop {
    int64_t count, to, from;
} ptoi_loop;

/* An axis: one loop or several, of which one side makes a row of memory. */
typedef struct ptoi_axis {
    int64_t count; /* all its loops together; 1 if there is none */
    int64_t side;  /* so many at a time: what a piece has of it, at most */
    int32_t n;
    ptoi_loop loop[PTO_MAX_DIMS]; /* the innermost first */
} ptoi_axis;

/* Invariants, checked by ptoi_plan_check:
 *   P1  way NOTHING: nothing else is set. Else size is 1, 2, 4, 8 or 16, and the loops, i and j
 *       together come to all elements: bytes == size of an item * all counts
 *   P2  RUNS: an item is `run` bytes, run >= size; else an item is an element
 *   P3  TILES: element k of i lies k * size further in the destination, of j in the source; blocks
 *       are no larger than PTOI_BLOCK_ROWS x PTOI_BLOCK_COLUMNS
 *   P4  ORDERED: j is single, i is the last loop
 *   P5  aligned: every `to` but those along i is a multiple of a line
 *   P6  head: elements of i before the first whole line, if `aligned`; head * size < PTOI_LINE
 *   P7  there are (pieces of i) * (pieces of j) * (chunks of a run) * (all loops) pieces
 */
typedef struct ptoi_plan {
    ptoi_way way;
    uint32_t size;                /* of one element, wide ones counted as one */
    int32_t n;                    /* loops around the axes, the outermost first */
    bool stream;                  /* past the caches: there is more than would stay in them */
    bool aligned;                 /* every row of the destination meets its lines in the same way */
    uint8_t line;                 /* address of the first one written, modulo a line */
    uint8_t head;                 /* elements of i before the first whole line, if aligned */
    const ptoi_isa *isa;          /* who moves */
    int64_t to_start, from_start; /* the first one moved, from element [0, 0, ...] */
    ptoi_loop loops[PTO_MAX_DIMS];
    ptoi_axis i, j;
    int64_t run;    /* RUNS: bytes of an item */
    int64_t chunks; /* RUNS: in so many pieces each */
    int64_t pieces; /* in all */
    int64_t bytes;  /* moved in all */
    /* From the element [0, 0, ...] of each side: the lowest byte touched, and one past the highest. */
    int64_t to_low, to_end, from_low, from_end;
} ptoi_plan;

enum {
    PTOI_BLOCK_ROWS = 256,     /* of i, in a piece of TILES */
    PTOI_BLOCK_COLUMNS = 1024, /* of j */
    PTOI_CHUNK = 1 << 16,      /* bytes of a very long run, in a piece of RUNS */
    PTOI_LONG_RUN = 256,       /* bytes: enough whole lines for a stream */
};

/* Pieces of an axis that begins with `head` of its own. */
static inline int64_t ptoi_axis_pieces(const ptoi_axis *axis, int64_t head)
{
    return (head > 0) + (axis->count - head + axis->side - 1) / axis->side;
}

/* A destination of so many bytes is written past the caches. Below it the consumer of the copy is
 * likely to find it there; above it most would be gone, and every line of it would be read only to be
 * overwritten. */
enum { PTOI_STREAM_FROM = 4 << 20 };

/* Strides count elements. Both sides are sound tensors (E1 - E3 of tensor/tensor.h) of that shape, and
 * elements have 1, 2, 4 or 8 bytes. `to_address`: where element [0, 0, ...] will lie, modulo 64; the
 * plan is right at other addresses too, but not as fast. */
void ptoi_plan_make(ptoi_plan *plan, int32_t ndim, const int64_t *shape, const int64_t *to_strides,
                    const int64_t *from_strides, uint32_t size, uintptr_t to_address);

/* The same with a set of kernels of one's own choice (NULL: the best one here), and with streams from
 * another number of bytes on. */
void ptoi_plan_make_with(ptoi_plan *plan, int32_t ndim, const int64_t *shape,
                         const int64_t *to_strides, const int64_t *from_strides, uint32_t size,
                         uintptr_t to_address, const ptoi_isa *isa, int64_t stream_from);

/* `to` and `from` are where element [0, 0, ...] lies. They share no byte. When it returns, what was
 * written is visible to whoever this thread tells. */
void ptoi_plan_run(const ptoi_plan *plan, void *to, const void *from);

/* One of `parts` parts that do not meet and together are all; one may be empty. (ORDERED copies have
 * one part that does it all.) */
void ptoi_plan_run_part(const ptoi_plan *plan, void *to, const void *from, uint32_t part,
                        uint32_t parts);

/* Plan and run in one. */
void ptoi_copy(int32_t ndim, const int64_t *shape, void *to, const int64_t *to_strides,
               const void *from, const int64_t *from_strides, uint32_t size);

/* PTO_CORRUPT if an invariant does not hold. */
pto_status ptoi_plan_check(const ptoi_plan *plan);

/* One readable line, as snprintf. */
size_t ptoi_plan_format(const ptoi_plan *plan, char *text, size_t size);

#endif /* PTOI_PLAN_H */
