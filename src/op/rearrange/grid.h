/* grid.h - a strided copy, planned for a grid of GPU threads. Plans are made on the host; the kernels
 * (grid_code.h, kernels.cu) only follow them.
 *
 *   normalise   as for the CPU (loops.h)
 *   choose      a way of moving, from the innermost loops
 *
 *   TILES   the destination is dense along i, the source along j: one block of threads moves one
 *           tile of i x j elements through shared memory, so that both sides see whole lines
 *   ITEMS   anything else: one thread moves one item, which is a vector of a run that is dense on
 *           both sides, or one element
 *   FILL    items without a source: all bytes are given
 *
 * The items of a launch are numbered; for TILES an item is a tile. The number is written in digits,
 * one for each step of the plan, innermost first. Each digit advances both sides:
 *
 *     item = d0 + count0 * (d1 + count1 * (d2 + ...))        to = start + d0*to0 + d1*to1 + ...
 *
 * The last digit has no bound of its own: the number of items ends it. So a launch can do a part of
 * it, and a copy with more items than a launch may have (PTOI_GRID_MOST) becomes several launches.
 */
#ifndef PTOI_GRID_H
#define PTOI_GRID_H

#include <stddef.h>
#include <stdint.h>

#include <pto/tensor.h>

/* One digit; steps are in bytes. n / count == (n * mul / 2^32 + n) >> shift for n < 2^31. */
typedef struct ptoi_step {
    uint32_t count, mul, shift;
    int64_t to, from;
} ptoi_step;

typedef enum ptoi_grid_way {
    PTOI_GRID_NOTHING,
    PTOI_GRID_TILES,
    PTOI_GRID_ITEMS,
    PTOI_GRID_FILL,
} ptoi_grid_way;

enum {
    PTOI_GRID_THREADS = 256, /* of a block */
    PTOI_GRID_STEPS = PTO_MAX_DIMS + 3,
};
#define PTOI_GRID_MOST UINT32_C(0x7fff0000) /* items of a launch: with its last block, below 2^31 */

/* Tiles are squares. Small ones have rows of 128 bytes, or 256 where elements are wide, large ones
 * twice as much. Of 1 and 8 bytes there are only small ones, because large ones were not faster. */
enum { PTOI_TILE_SMALL, PTOI_TILE_LARGE, PTOI_TILE_FORMS };
#define PTOI_TILE_SIDE(size, form)                                                                 \
    ((size) == 1   ? 128                                                                           \
     : (size) == 2 ? ((form) ? 128 : 64)                                                           \
     : (size) == 4 ? ((form) ? 64 : 32)                                                            \
     : (size) == 8 ? 32                                                                            \
                   : ((form) ? 32 : 16))

/* An axis of TILES: steps [first, end) of the plan, after those of the items. Along it one side is
 * dense; the steps are for the other side: `from` along i, `to` along j. */
typedef struct ptoi_grid_axis {
    uint32_t count, first, end;
} ptoi_grid_axis;

/* What a kernel receives, by value. Invariants, checked by ptoi_grid_check:
 *   G1  each step divides as above; its count fits if it is not the last one of its list
 *   G2  ITEMS, FILL: all steps are multiples of `size`, which is 1, 2, 4, 8 or 16
 *   G3  TILES: along i, `to` is dense in elements of `size`, along j `from` is; the steps of the
 *       source, except along j, are multiples of vec_in, those of the destination, except along i, of
 *       vec_out
 *   G4  all launches together have as many bytes as the copy
 */
typedef struct ptoi_grid {
    uint32_t way;   /* ptoi_grid_way */
    uint32_t size;  /* bytes: of an element of TILES, of an item of ITEMS and FILL */
    uint32_t n;     /* steps of an item */
    uint32_t items; /* of a launch */
    uint32_t split; /* ITEMS: digits 0 and `split` count one loop, of `bound`; 0: none */
    uint32_t bound;
    uint32_t form;            /* TILES: PTOI_TILE_SMALL or _LARGE */
    uint32_t vec_in, vec_out; /* TILES: bytes of a load and of a store */
    ptoi_grid_axis i, j;
    int64_t to_start, from_start; /* first element moved, relative to element [0, 0, ...] */
    ptoi_step step[PTOI_GRID_STEPS];
} ptoi_grid;

/* The whole copy: for each index of `repeat`, as many launches as `inner` * `last` items need. */
typedef struct ptoi_grid_plan {
    ptoi_grid grid;
    int64_t inner, last; /* items inside the last step, and its count */
    int64_t bytes;       /* total moved */
    int32_t n_repeat;
    struct {
        int64_t count, to, from;
    } repeat[PTO_MAX_DIMS];
} ptoi_grid_plan;

/* Strides are in elements. Both sides are valid tensors of that shape; elements have 1, 2, 4 or 8
 * bytes; no two elements of the destination are at the same place. The addresses are those of
 * element [0, 0, ...], modulo 16 at least. `sms`: how many multiprocessors there are to fill. */
void ptoi_grid_make(ptoi_grid_plan *plan, int32_t ndim, const int64_t *shape,
                    const int64_t *to_strides, const int64_t *from_strides, uint32_t size,
                    uintptr_t to_address, uintptr_t from_address, uint32_t sms);

/* The same with tiles of a given form, for benches and tests. */
void ptoi_grid_make_with(ptoi_grid_plan *plan, int32_t ndim, const int64_t *shape,
                         const int64_t *to_strides, const int64_t *from_strides, uint32_t size,
                         uintptr_t to_address, uintptr_t from_address, uint32_t sms, int form);

/* The same for a fill. Its destination may repeat places. */
void ptoi_grid_make_fill(ptoi_grid_plan *plan, int32_t ndim, const int64_t *shape,
                         const int64_t *to_strides, uint32_t size, uintptr_t to_address);

/* PTO_CORRUPT if an invariant is broken. */
pto_status ptoi_grid_check(const ptoi_grid_plan *plan);

/* One readable line, written like snprintf does. */
size_t ptoi_grid_format(const ptoi_grid_plan *plan, char *text, size_t size);

#endif /* PTOI_GRID_H */
