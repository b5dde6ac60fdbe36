/* heap.c - allocation outside the newest run, returning blocks, and the invariants: heap.h. */
#include "orchestrator/ring/heap.h"

static const ptoi_heap_run *run_at(const ptoi_heap *heap, uint32_t i)
{
    return &heap->runs[i & heap->mask];
}

void ptoi_heap_init(ptoi_heap *heap, uint64_t size, uint64_t warm, ptoi_heap_run *runs,
                    uint32_t n_runs)
{
    *heap = (ptoi_heap){.size = size,
                        .warm = warm < size ? warm : size,
                        .room = size,
                        .mask = n_runs - 1,
                        .runs = runs};
    runs[0] = (ptoi_heap_run){0, 0};
}

void ptoi_heap_copy(ptoi_heap *copy, const ptoi_heap *heap, ptoi_heap_run *runs)
{
    *copy = *heap;
    copy->runs = runs;
    for (uint32_t i = heap->first; i != heap->newest + 1; i++) {
        runs[i & heap->mask] = *run_at(heap, i);
    }
}

/* Where the gap that begins at `at` ends. */
static uint64_t gap_end(const ptoi_heap *heap, uint64_t at)
{
    uint64_t end = heap->size;
    for (uint32_t i = heap->first; i != heap->newest + 1; i++) {
        const ptoi_heap_run *run = run_at(heap, i);
        if (run->begin < run->end && run->begin >= at && run->begin < end) {
            end = run->begin;
        }
    }
    return end;
}

bool ptoi_heap_find_gap(const ptoi_heap *heap, uint64_t bytes, uint64_t *at)
{
    uint64_t end = run_at(heap, heap->newest)->end;
    bool grows = bytes <= heap->room - end;
    bool found = grows;
    *at = end;
    if (grows && heap->newest - heap->first + 1 >= PTOI_HEAP_FEW_RUNS) {
        return true;
    }
    /* Gaps begin at 0 and at the end of each run; a gap has length 0 where another run begins. The
     * lowest large enough is chosen. A newest run that can grow is left only for a gap with room
     * for four such blocks. */
    for (uint32_t i = heap->first; i != heap->newest + 2; i++) {
        uint64_t begin = i == heap->newest + 1 ? 0 : run_at(heap, i)->end;
        uint64_t room = gap_end(heap, begin) - begin;
        if (room >= (grows ? 4 * bytes : bytes) && (!found || begin < *at)) {
            *at = begin;
            found = true;
        }
    }
    return found;
}

void ptoi_heap_turn(ptoi_heap *heap, uint64_t at)
{
    ptoi_heap_run *newest = ptoi_heap_newest(heap);
    if (newest->begin == newest->end) {
        newest->begin = newest->end = at; /* the run is empty, so it moves */
    } else {
        heap->newest++;
        *ptoi_heap_newest(heap) = (ptoi_heap_run){at, at};
    }
    heap->room = gap_end(heap, at);
}

void ptoi_heap_give_back(ptoi_heap *heap, uint64_t at, uint64_t bytes)
{
    if (bytes == 0) {
        return;
    }
    for (;;) {
        ptoi_heap_run *run = &heap->runs[heap->first & heap->mask];
        bool here = run->begin <= at && at < run->end;
        uint64_t begin = here ? at + bytes : run->end;
        heap->used -= begin - run->begin;
        run->begin = begin;
        if (run->begin == run->end && heap->first != heap->newest) {
            heap->first++;
        }
        if (here || heap->used == 0) {
            break;
        }
    }
    if (heap->used == 0) { /* H4: the whole heap is one gap again */
        *ptoi_heap_newest(heap) = (ptoi_heap_run){0, 0};
    }
    heap->room = gap_end(heap, ptoi_heap_newest(heap)->end);
}

bool ptoi_heap_check(const ptoi_heap *heap)
{
    uint64_t used = 0;
    if (heap->newest - heap->first > heap->mask) {
        return false;
    }
    for (uint32_t i = heap->first; i != heap->newest + 1; i++) {
        const ptoi_heap_run *run = run_at(heap, i);
        if (run->begin > run->end || run->end > heap->size ||
            (run->begin == run->end && i != heap->newest)) {
            return false;
        }
        used += run->end - run->begin;
        for (uint32_t k = heap->first; k != i; k++) {
            if (run_at(heap, k)->begin < run->end && run->begin < run_at(heap, k)->end) {
                return false;
            }
        }
    }
    if (used == 0 && run_at(heap, heap->newest)->end != 0) {
        return false;
    }
    return used == heap->used && heap->peak >= used && heap->peak <= heap->size &&
           heap->room == gap_end(heap, run_at(heap, heap->newest)->end);
}
