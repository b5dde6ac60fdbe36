/* guard.h - guard bytes around every buffer of managed memory.
 *
 * With guards a heap is three times as large as what it gives out: what it calls byte `at` lies at
 * 3 at + 64. So each buffer has at least a line of 64 bytes before it and one behind it that belong
 * to nobody, and how much fits where is as without:
 *
 *     at              at + 64          at + 128        what the heap has given out
 *     [=== buffer ===][=== buffer =====================]
 *     |               |
 *     3 at            3 at + 192
 *     [guard][buffer ][guard][ ....   ][guard][ buffer                ][guard][ .... ]
 *
 * They are written as a task takes the memory, looked at by the worker right after each kernel that
 * writes the buffer, by pto_wait, and as the memory is recycled; what is recycled is filled with a
 * pattern. Under the address sanitizer nobody may touch guards and recycled memory at all.
 *
 * Who looks where the buffer of an argument begins finds it by the place of the argument in its
 * ring; there its size is, by the place of the buffer in its heap.
 */
#ifndef PTOI_GUARD_H
#define PTOI_GUARD_H

#include "window/window.h"

#define PTOI_GUARD_STRETCH PTOI_WINDOW_STRETCH
#define PTOI_GUARD_LINE PTOI_LINE

typedef struct ptoi_guard_level {
    char *heap[2];    /* as the orchestrator and as the scheduler's side see it */
    ptoi_a64 *sizes;  /* by `at` / 64, for each buffer that begins there: its size, and TOLD.
                         Written by the orchestrator before W1, and TOLD by a worker before W2. */
    uint64_t *begins; /* by unit of arguments: 1 + where the buffer begins; 0: it is in none.
                         Written by the orchestrator before W1. */
    size_t size_bytes, begin_bytes;
    uint64_t hidden; /* what the sanitizer hides lies below */
} ptoi_guard_level;

/* Its guard is broken, and somebody was told. */
#define PTOI_GUARD_TOLD (UINT64_C(1) << 63)

typedef struct ptoi_guard {
    uint32_t levels;
    ptoi_guard_level level[PTO_MAX_LEVELS];
} ptoi_guard;

/* How far it was overwritten, counted from the buffer; 0: not at all. */
typedef struct ptoi_damage {
    uint64_t before, behind;
} ptoi_damage;

/* Where `at` lies in the memory of the heap, and back. */
static inline uint64_t ptoi_guard_place(const ptoi_guard *guard, uint64_t at)
{
    return guard ? PTOI_GUARD_STRETCH * at + PTOI_GUARD_LINE : at;
}

static inline uint64_t ptoi_guard_unplace(const ptoi_guard *guard, uint64_t place)
{
    return guard ? (place - PTOI_GUARD_LINE) / PTOI_GUARD_STRETCH : place;
}

/* PTO_OUT_OF_MEMORY, with nothing left. Heaps are set by the caller. */
pto_status ptoi_guard_create(ptoi_guard **guard, const pto_config *config);
void ptoi_guard_destroy(ptoi_guard *guard);

/* Of a buffer that a task is about to get, of more than 0 bytes. */
void ptoi_guard_arm(ptoi_guard *guard, uint32_t level, uint64_t at, uint64_t bytes);

/* Nobody uses the buffer any more. */
void ptoi_guard_bury(ptoi_guard *guard, uint32_t level, uint64_t at);

/* Whether its guards are broken, and how. `side` as in `heap`. */
bool ptoi_guard_broken(const ptoi_guard *guard, int side, uint32_t level, uint64_t at,
                       ptoi_damage *damage);

static inline uint64_t ptoi_guard_size(const ptoi_guard *guard, uint32_t level, uint64_t at)
{
    return ptoi_get64(&guard->level[level].sizes[at / PTOI_GUARD_LINE]) & ~PTOI_GUARD_TOLD;
}

static inline bool ptoi_guard_is_told(const ptoi_guard *guard, uint32_t level, uint64_t at)
{
    return ptoi_get64(&guard->level[level].sizes[at / PTOI_GUARD_LINE]) & PTOI_GUARD_TOLD;
}

/* Two workers may do so at once: both write the same. */
static inline void ptoi_guard_tell(const ptoi_guard *guard, uint32_t level, uint64_t at)
{
    ptoi_set64(&guard->level[level].sizes[at / PTOI_GUARD_LINE],
               ptoi_guard_size(guard, level, at) | PTOI_GUARD_TOLD);
}

#endif /* PTOI_GUARD_H */
