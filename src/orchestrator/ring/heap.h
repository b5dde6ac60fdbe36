/* heap.h - memory of a level: blocks that are given out and taken back in the same order.
 *
 *        oldest run            newest run
 *           v                      v
 *     ......[====================] .....[========>.......................................
 *     0     ^ begin: taken back here    ^ begin   ^ end: given out here                size
 *
 * Blocks lie in runs, one after the other without a gap. The newest run grows at its end, the oldest
 * shrinks at its begin. A ring would be two runs at most; here a new one begins in the lowest gap
 * that is large enough, as soon as the newest run ends or leaves the memory that was lately used. So
 * a program that streams stays in the memory it needs, which is warm, instead of walking through all
 * that it could have; and a block is refused only if no gap is large enough.
 *
 * Only the orchestrating thread uses one.
 *
 * Invariants (ptoi_heap_check):
 *   H1  runs do not overlap and lie inside; only the newest may be empty
 *   H2  used = the sum of their lengths; peak >= used
 *   H3  room = the end of the gap that the newest run grows into
 *   H4  if used = 0 then the newest run is at 0
 */
#ifndef PTOI_HEAP_H
#define PTOI_HEAP_H

#include <stdbool.h>
#include <stdint.h>

/* How much of it is used before its blocks begin to come round again: about what a core's own cache
 * holds. More is used when more is alive. */
#define PTOI_HEAP_WARM (UINT64_C(2) << 20)

/* With so many runs the newest one is not left any more while it can grow. */
#define PTOI_HEAP_FEW_RUNS 4

typedef struct ptoi_heap_run {
    uint64_t begin, end;
} ptoi_heap_run;

typedef struct ptoi_heap {
    uint64_t size;
    uint64_t warm; /* beyond it, the newest run looks for a gap further down */
    uint64_t used, peak;
    uint64_t room;   /* where the gap ends that the newest run grows into */
    uint32_t first;  /* the oldest run; run i is runs[i & mask] */
    uint32_t newest; /* */
    uint32_t mask;
    ptoi_heap_run *runs; /* more than there can be blocks: each run but the newest has one */
} ptoi_heap;

/* `runs` is memory for n_runs of them: a power of two, more than blocks will ever be alive. */
void ptoi_heap_init(ptoi_heap *heap, uint64_t size, uint64_t warm, ptoi_heap_run *runs,
                    uint32_t n_runs);

/* A copy to try things on; `runs` is memory for as many. */
void ptoi_heap_copy(ptoi_heap *copy, const ptoi_heap *heap, ptoi_heap_run *runs);

/* The slow part: a gap for a new run; false if there is none. */
bool ptoi_heap_find_gap(const ptoi_heap *heap, uint64_t bytes, uint64_t *at);

/* Begins a new run in the gap that was found. */
void ptoi_heap_turn(ptoi_heap *heap, uint64_t at);

/* The block is the oldest that is not taken back, or all before it go with it. */
void ptoi_heap_give_back(ptoi_heap *heap, uint64_t at, uint64_t bytes);

bool ptoi_heap_check(const ptoi_heap *heap);

static inline ptoi_heap_run *ptoi_heap_newest(const ptoi_heap *heap)
{
    return &heap->runs[heap->newest & heap->mask];
}

/* Whether `bytes` fit now, and where they would lie. Nothing is taken yet. */
static inline bool ptoi_heap_fits(const ptoi_heap *heap, uint64_t bytes, uint64_t *at)
{
    uint64_t end = heap->runs[heap->newest & heap->mask].end;
    *at = end;
    if (bytes <= heap->room - end && end + bytes <= heap->warm) {
        return true;
    }
    return bytes == 0 || ptoi_heap_find_gap(heap, bytes, at);
}

/* Takes what was just said to fit. */
static inline void ptoi_heap_take(ptoi_heap *heap, uint64_t at, uint64_t bytes)
{
    if (bytes == 0) {
        return;
    }
    if (at != ptoi_heap_newest(heap)->end) {
        ptoi_heap_turn(heap, at);
    }
    ptoi_heap_newest(heap)->end += bytes;
    heap->used += bytes;
    if (heap->used > heap->peak) {
        heap->peak = heap->used;
    }
}

#endif /* PTOI_HEAP_H */
