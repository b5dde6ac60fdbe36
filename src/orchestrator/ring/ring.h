/* ring.h - room in a ring, taken and returned in order. Orchestrator's side.
 *
 *      tail ............ in use ............ head         positions run freely and never wrap;
 *        v                                    v           position p lies at p % size
 *     ---[====][=======][==][///skipped///]   [====]
 *
 * A piece is never split. If it does not fit before the end of the ring it begins at position 0 of
 * the ring, and the rest is skipped. An empty ring starts over, so that it can take a piece of its
 * full size. The owner of a piece records the head after it. When the piece is returned, that head
 * becomes the tail, which thereby also passes skipped room and pieces of length 0.
 *
 * The argument ring and the edge ring of a level are such rings. (For its memory see heap.h.) Only
 * the orchestrating thread uses them.
 *
 * Invariants (ptoi_ring_check):
 *   R1  tail <= head <= tail + size
 *   R2  at = head % size, so at < size
 *   R3  peak <= size
 *   R4  if head = tail then at = 0
 *   R5  here = what fits at `at`: up to the end of the ring, and up to the tail
 */
#ifndef PTOI_RING_H
#define PTOI_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/likely.h"

typedef struct ptoi_ring {
    uint64_t size;
    uint64_t head;
    uint64_t tail;
    uint64_t at;   /* head % size */
    uint64_t here; /* how much fits at `at`: R5 */
    uint64_t peak; /* the most in use at any return so far */
} ptoi_ring;

/* A piece about to be taken. */
typedef struct ptoi_piece {
    uint64_t begin; /* position */
    uint64_t at;    /* begin % size */
} ptoi_piece;

static inline void ptoi_ring_init(ptoi_ring *ring, uint64_t size)
{
    *ring = (ptoi_ring){.size = size, .here = size};
}

static inline uint64_t ptoi_ring_used(const ptoi_ring *ring)
{
    return ring->head - ring->tail;
}

/* Whether `amount` fits now, and where it would lie. Nothing is taken yet. */
static inline bool ptoi_ring_fits(const ptoi_ring *ring, uint64_t amount, ptoi_piece *piece)
{
    uint64_t rest = ring->size - ring->at;
    uint64_t skip = amount <= rest ? 0 : rest;
    *piece = (ptoi_piece){ring->head + skip, skip ? 0 : ring->at};
    return ptoi_ring_used(ring) + skip + amount <= ring->size;
}

/* Computes `here`: R5. */
static inline uint64_t ptoi_ring_room_here(const ptoi_ring *ring)
{
    const uint64_t rest = ring->size - ring->at, free = ring->size - ptoi_ring_used(ring);
    return rest < free ? rest : free;
}

/* Takes a piece that ptoi_ring_fits has just found, or less of it. Returns the head after it. */
static inline uint64_t ptoi_ring_take(ptoi_ring *ring, ptoi_piece piece, uint64_t amount)
{
    if (amount == 0) {
        return ring->head;
    }
    ring->head = piece.begin + amount;
    ring->at = piece.at + amount;
    if (ring->at == ring->size) {
        ring->at = 0;
    }
    ring->here = ptoi_ring_room_here(ring);
    return ring->head;
}

/* Takes `amount` at `at`, at most `here`. Returns the head after it. */
static inline uint64_t ptoi_ring_take_here(ptoi_ring *ring, uint64_t amount)
{
    ring->head += amount;
    ring->at += amount;
    ring->here -= amount;
    if (PTOI_UNLIKELY(ring->at == ring->size)) {
        ring->at = 0;
        ring->here = ptoi_ring_room_here(ring);
    }
    return ring->head;
}

/* The most ever in use. Usage falls only when a piece is returned, so `peak` is updated there. */
static inline uint64_t ptoi_ring_peak(const ptoi_ring *ring)
{
    uint64_t used = ptoi_ring_used(ring);
    return used > ring->peak ? used : ring->peak;
}

/* Returns everything up to `end`, a recorded head. */
static inline void ptoi_ring_give_back(ptoi_ring *ring, uint64_t end)
{
    ring->peak = ptoi_ring_peak(ring);
    if (end > ring->tail) {
        ring->tail = end;
    }
    if (ring->tail == ring->head && ring->at) { /* R4: an empty ring starts over */
        ring->head += ring->size - ring->at;
        ring->tail = ring->head;
        ring->at = 0;
    }
    ring->here = ptoi_ring_room_here(ring);
}

/* Whether the invariants hold. */
static inline bool ptoi_ring_check(const ptoi_ring *ring)
{
    return ring->tail <= ring->head && ptoi_ring_used(ring) <= ring->size &&
           ring->at < ring->size && ring->at == ring->head % ring->size &&
           ring->peak <= ring->size && (ring->head != ring->tail || ring->at == 0) &&
           ring->here == ptoi_ring_room_here(ring);
}

#endif /* PTOI_RING_H */
