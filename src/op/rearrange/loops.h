/* loops.h - the loops of a strided copy, and their normal form. The plans for the CPU (plan.h) and
 * for a grid of GPU threads (grid.h) both begin with it. */
#ifndef PTOI_LOOPS_H
#define PTOI_LOOPS_H

#include <stdbool.h>
#include <stdint.h>

#include <pto/tensor.h>

/* One loop; steps are in bytes. */
typedef struct ptoi_loop {
    int64_t count, to, from;
} ptoi_loop;

enum { PTOI_NEST_LOOPS = PTO_MAX_DIMS + 1 }; /* one more: a loop may be cut in two */

/* Loops, outermost first, and the first element moved, relative to element [0, 0, ...]. */
typedef struct ptoi_nest {
    int32_t n;
    int64_t to_start, from_start;
    ptoi_loop loop[PTOI_NEST_LOOPS];
} ptoi_nest;

static inline uint64_t ptoi_reach(int64_t step)
{
    return step < 0 ? 0 - (uint64_t)step : (uint64_t)step;
}

/* The loops of two valid tensors of that shape (E1 to E3 of tensor/tensor.h), without those of one
 * element. No size is 0. Strides are in elements. */
void ptoi_nest_make(ptoi_nest *nest, int32_t ndim, const int64_t *shape, const int64_t *to_strides,
                    const int64_t *from_strides, uint32_t size);

/* Sorts the loops by address of the destination, ascending, and merges two loops that continue each
 * other on both sides. Sorting is allowed if no two elements of the destination are at the same
 * place, which is certain if each step moves past everything that the inner loops touch. Otherwise
 * the loops are only merged, and the result is false. */
bool ptoi_nest_normalise(ptoi_nest *nest, uint32_t size);

/* Reverses a loop of the nest. */
void ptoi_nest_flip(ptoi_nest *nest, ptoi_loop *loop);

/* Removes a loop. */
ptoi_loop ptoi_nest_take(ptoi_nest *nest, int32_t at);

/* The loop with the smallest step in the source that is not 0; of equal ones the longest. -1 if
 * there is none. */
int32_t ptoi_nest_least_from(const ptoi_nest *nest);

#endif /* PTOI_LOOPS_H */
