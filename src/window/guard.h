/* guard.h - guard bytes around every buffer of managed memory.
 *
 * With guards a heap is three times as large as what it gives out: what it calls byte `at` lies at
 * 3 at + 64. So each buffer has at least a line of 64 bytes before it and one behind it that belong
 * to nobody. Which blocks fit does not change:
 *
 *     at              at + 64          at + 128        what the heap has given out
 *     [=== buffer ===][=== buffer =====================]
 *     |               |
 *     3 at            3 at + 192
 *     [guard][buffer ][guard][ ....   ][guard][ buffer                ][guard][ .... ]
 *
 * The orchestrator writes the guards as a task takes the memory (orchestrator/guard.c). The worker
 * checks them right after each kernel that writes the buffer (worker/guard.c). pto_wait checks them
 * again, and so does recycling, which then fills the memory with a pattern. Under the address
 * sanitizer nobody may touch guards and recycled memory at all.
 *
 * The window has three arrays for each level, all of them in lines of 64 bytes or in arguments:
 *
 *   guards    [o] by at / 64: size of the buffer that begins there, and the number of its arming
 *   begins    [o] by unit of arguments: 1 + where the buffer of the argument begins; 0: no buffer
 *   reported  [s] by at / 64: the arming whose damage a worker has reported, before W2
 */
#ifndef PTOI_GUARD_H
#define PTOI_GUARD_H

#include "window/window.h"

#define PTOI_GUARD_STRETCH PTOI_WINDOW_STRETCH
#define PTOI_GUARD_LINE PTOI_LINE

typedef struct ptoi_guard {
    ptoi_a64 size;
    ptoi_a64
        arming; /* never the same twice; with PTOI_GUARD_SEEN if the orchestrator reported it */
} ptoi_guard;

#define PTOI_GUARD_SEEN (UINT64_C(1) << 63)

/* How far the guards were overwritten, counted from the buffer; 0: not at all. */
typedef struct ptoi_damage {
    uint64_t before, behind;
} ptoi_damage;

/* Where `at` lies in the memory of the heap, and back. */
static inline uint64_t ptoi_guard_place(bool guarded, uint64_t at)
{
    return guarded ? PTOI_GUARD_STRETCH * at + PTOI_GUARD_LINE : at;
}

static inline uint64_t ptoi_guard_unplace(bool guarded, uint64_t place)
{
    return guarded ? (place - PTOI_GUARD_LINE) / PTOI_GUARD_STRETCH : place;
}

static inline bool ptoi_is_guarded(const ptoi_view *view)
{
    return view->level[0].guards != NULL;
}

static inline ptoi_guard *ptoi_guard_of(const ptoi_view *view, uint32_t level, uint64_t at)
{
    return &view->level[level].guards[at / PTOI_GUARD_LINE];
}

/* The last byte of a guard plus one, for a buffer of so many bytes that begins at `begin`. */
static inline uint64_t ptoi_guard_end(uint64_t begin, uint64_t bytes)
{
    return begin + (bytes + PTOI_GUARD_LINE - 1) / PTOI_GUARD_LINE * PTOI_GUARD_LINE +
           PTOI_GUARD_LINE;
}

/* Byte i of a guard. It differs from byte to byte, so that no fill and no copy looks the same. */
static inline char ptoi_guard_byte(uint64_t i)
{
    return (char)(unsigned char)(0x5a + 37 * i);
}

/* Whether the guards of the buffer at `at` are broken, and how. */
bool ptoi_guard_broken(const ptoi_view *view, uint32_t level, uint64_t at, ptoi_damage *damage);

/* Whether somebody has reported that. */
static inline bool ptoi_guard_is_reported(const ptoi_view *view, uint32_t level, uint64_t at)
{
    const uint64_t arming = ptoi_get64(&ptoi_guard_of(view, level, at)->arming);
    return arming & PTOI_GUARD_SEEN ||
           ptoi_get64(&view->level[level].reported[at / PTOI_GUARD_LINE]) == arming;
}

/* "3 bytes behind its buffer of 100 bytes" */
void ptoi_guard_describe(const ptoi_damage *damage, uint64_t bytes, char text[128]);

#endif /* PTOI_GUARD_H */
