/* heap.h - memory of a level: blocks are allocated and returned in the same order. Orchestrator's
 * side.
 *
 *        oldest run            newest run
 *           v                      v
 *     ......[====================] .....[========>.......................................
 *     0     ^ begin: returned here      ^ begin   ^ end: allocated here                size
 *
 * Blocks lie in runs, without gaps inside a run. The newest run grows at its end, the oldest
 * shrinks at its beginning. A ring would have at most two runs. Here a new run begins in the lowest
 * gap that is large enough, as soon as the newest run cannot grow or grows beyond `warm`. So a
 * streaming program stays in the memory that it needs, which is in cache, instead of walking
 * through the whole heap. A block is refused only if no gap is large enough.
 *
 * Only the orchestrating thread uses it.
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

/* Blocks are placed below this offset while gaps permit: about the size of a core's private cache.
 * More is used when more is alive. */
#define PTOI_HEAP_WARM (UINT64_C(2) << 20)

/* With this many runs, the newest one is not left while it can grow. */
#define PTOI_HEAP_FEW_RUNS 4

typedef struct ptoi_heap_run {
    uint64_t begin, end;
} ptoi_heap_run;

typedef struct ptoi_heap {
    uint64_t size;
    uint64_t warm; /* from this offset on, a lower gap is searched first */
    uint64_t used, peak;
    uint64_t room;   /* end of the gap that the newest run grows into */
    uint32_t first;  /* number of the oldest run; run i is runs[i & mask] */
    uint32_t newest; /* number of the newest run */
    uint32_t mask;
    ptoi_heap_run
        *runs; /* more than there can be blocks: each run but the newest has at least one */
} ptoi_heap;

/* `runs` is memory for n_runs runs: a power of two, and more than blocks that can be alive. */
void ptoi_heap_init(ptoi_heap *heap, uint64_t size, uint64_t warm, ptoi_heap_run *runs,
                    uint32_t n_runs);

/* A copy for a trial allocation. `runs` is memory for as many runs. */
void ptoi_heap_copy(ptoi_heap *copy, const ptoi_heap *heap, ptoi_heap_run *runs);

/* The slow part of ptoi_heap_fits: finds a gap for a new run. False if there is none. */
bool ptoi_heap_find_gap(const ptoi_heap *heap, uint64_t bytes, uint64_t *at);

/* Begins a new run in the gap that was found. */
void ptoi_heap_turn(ptoi_heap *heap, uint64_t at);

/* Returns the block, and all older ones with it. */
void ptoi_heap_give_back(ptoi_heap *heap, uint64_t at, uint64_t bytes);

/* Whether the invariants hold. */
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

/* Takes a block that ptoi_heap_fits has just found. */
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
