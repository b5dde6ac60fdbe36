/* guard.h - guard bytes around every buffer of managed memory.
 *
 * With guards a heap is three times as large as what it allocates: offset `at` of the heap lies at
 * 3 at + 64 in memory. So each buffer has at least 64 bytes before it and 64 bytes behind it that
 * belong to no task. Which blocks fit into the heap does not change:
 *
 *     at              at + 64          at + 128        what the heap has allocated
 *     [=== buffer ===][=== buffer =====================]
 *     |               |
 *     3 at            3 at + 192
 *     [guard][buffer ][guard][ ....   ][guard][ buffer                ][guard][ .... ]
 *
 * The orchestrator writes the guards when a task allocates the memory (orchestrator/guard.c). The
 * worker checks them right after each kernel that writes the buffer (worker/guard.c). pto_wait
 * checks them again, and so does recycling, which then fills the memory with a pattern. The address
 * sanitizer reports any access to guards and to recycled memory.
 *
 * On a device the host cannot touch them: they are written and read by copies of the device, and the
 * thread that does so waits. So it must not be a thread that the copy needs. That is why the end of a
 * pending task, which any thread may report, checks memory of the host only; pto_wait finds the rest.
 * On a device with streams a task has written its memory when it is closed, not when its kernel
 * returns. It is checked then, and nothing is launched behind it before (worker/launcher.h).
 *
 * Three arrays, the first and the last for each heap; those of the host lie in the window:
 *
 *   guards    [o] index at / 64: size of the buffer that begins there, and its arming number
 *   begins    [o] of a level, index of an argument unit: 1 + `at` of the argument's buffer; 0: none
 *   reported  [s] index at / 64: arming number whose damage a worker has reported, before W2
 */
#ifndef PTOI_GUARD_H
#define PTOI_GUARD_H

#include "window/window.h"

#define PTOI_GUARD_STRETCH PTOI_WINDOW_STRETCH
#define PTOI_GUARD_LINE PTOI_LINE

typedef struct ptoi_guard {
    ptoi_a64 size;
    ptoi_a64
        arming; /* unique number; PTOI_GUARD_SEEN: the orchestrator has reported damage, or that
                        it cannot be checked. Set while no task uses the buffer */
} ptoi_guard;

#define PTOI_GUARD_SEEN (UINT64_C(1) << 63)

/* How many bytes of the guards were overwritten, counted from the buffer outwards; 0: none. */
typedef struct ptoi_damage {
    uint64_t before, behind;
} ptoi_damage;

/* From `at` to its place in the memory of the heap, and back. */
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
    return view->guards[0] != NULL;
}

static inline ptoi_guard *ptoi_guard_of(const ptoi_view *view, uint32_t segment, uint64_t at)
{
    return &view->guards[segment][at / PTOI_GUARD_LINE];
}

/* End (one past the last byte) of the guard behind a buffer of `bytes` bytes at `begin`. */
static inline uint64_t ptoi_guard_end(uint64_t begin, uint64_t bytes)
{
    return begin + (bytes + PTOI_GUARD_LINE - 1) / PTOI_GUARD_LINE * PTOI_GUARD_LINE +
           PTOI_GUARD_LINE;
}

/* The value of byte i of a guard. It varies, so that neither a fill nor a copy can match it. */
static inline char ptoi_guard_byte(uint64_t i)
{
    return (char)(unsigned char)(0x5a + 37 * i);
}

/* Whether the guards of a buffer of `bytes` bytes at `begin` are damaged; *damage says how far. `before`
 * and `behind` are their bytes: from `begin` - 64 on, and from the end of the buffer on. */
bool ptoi_guard_broken(uint64_t begin, uint64_t bytes, const char *before, const char *behind,
                       ptoi_damage *damage);

/* Whether a worker or the orchestrator has reported the damage. */
static inline bool ptoi_guard_is_reported(const ptoi_view *view, uint32_t segment, uint64_t at)
{
    const uint64_t arming = ptoi_get64(&ptoi_guard_of(view, segment, at)->arming);
    return arming & PTOI_GUARD_SEEN ||
           ptoi_get64(&view->reported[segment][at / PTOI_GUARD_LINE]) == arming;
}

/* "3 bytes behind its buffer of 100 bytes" */
void ptoi_guard_describe(const ptoi_damage *damage, uint64_t bytes, char text[128]);

#endif /* PTOI_GUARD_H */
