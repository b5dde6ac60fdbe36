/* mirror.h - what the window has for a device that schedules for itself (place gpu): how far the mirror
 * has to go, and what the device and the keeper tell each other. The edges are listed in
 * scheduler/grid.h. This header compiles as C11 and as CUDA C++. */
#ifndef PTOI_MIRROR_H
#define PTOI_MIRROR_H

#include "window/task.h"

/* ---- The heads: [o] ---- */

/* How far the rings of a level are written, after the newest task: three counts, which run freely. The
 * distance of two counts is at most twice the size of the ring, less one.
 *
 *     bits   0 to 19   20 to 40   41 to 61    62, 63
 *            tasks     edges      arguments   turns of the two rings before
 *
 * A ring that is empty starts over, so that it is skipped up to its end. That bit changes then: what was
 * skipped need not be copied. Everything before it was complete, so it is the first thing that a reader
 * meets, and there is no second one before the reader has seen this. */
typedef enum ptoi_head_part {
    PTOI_HEAD_SLOTS,
    PTOI_HEAD_DEPS,
    PTOI_HEAD_ARGS,
} ptoi_head_part;

#define PTOI_HEAD_BITS 21
#define PTOI_HEAD_SLOT_BITS 20
#define PTOI_HEAD_SLOTS_MAX (UINT32_C(1) << 19)
#define PTOI_HEAD_UNITS_MAX (UINT32_C(1) << 20)
#define PTOI_HEAD_TURN(part) (UINT64_C(1) << (61 + (part)))

PTOI_INLINE uint64_t ptoi_head_mask(ptoi_head_part part)
{
    return (UINT64_C(1) << (part == PTOI_HEAD_SLOTS ? PTOI_HEAD_SLOT_BITS : PTOI_HEAD_BITS)) - 1;
}

PTOI_INLINE uint32_t ptoi_head_shift(ptoi_head_part part)
{
    return part == PTOI_HEAD_SLOTS
               ? 0
               : PTOI_HEAD_SLOT_BITS + PTOI_HEAD_BITS * ((uint32_t)part - PTOI_HEAD_DEPS);
}

PTOI_INLINE uint64_t ptoi_head_word(uint64_t slots, uint64_t deps, uint64_t args)
{
    return (slots & ptoi_head_mask(PTOI_HEAD_SLOTS)) |
           (deps & ptoi_head_mask(PTOI_HEAD_DEPS)) << ptoi_head_shift(PTOI_HEAD_DEPS) |
           (args & ptoi_head_mask(PTOI_HEAD_ARGS)) << ptoi_head_shift(PTOI_HEAD_ARGS);
}

/* How far the part went on from one word to a later one. */
PTOI_INLINE uint32_t ptoi_head_distance(uint64_t from, uint64_t to, ptoi_head_part part)
{
    const uint32_t shift = ptoi_head_shift(part);
    return (uint32_t)(((to >> shift) - (from >> shift)) & ptoi_head_mask(part));
}

/* The bit of a ring in the next word: it changes if the ring is empty up to a tail behind what the word
 * before says, because then it has started over. */
PTOI_INLINE uint64_t ptoi_head_turn(uint64_t before, uint64_t tail, ptoi_head_part part)
{
    const uint64_t skipped = (tail - (before >> ptoi_head_shift(part))) & ptoi_head_mask(part);
    const uint64_t turn = PTOI_HEAD_TURN(part);
    return skipped - 1 < PTOI_HEAD_UNITS_MAX - 1 ? ~before & turn : before & turn;
}

/* An entry of the log: a layout descriptor or a kernel that is new, or has changed. */
#define PTOI_LOG_KERNEL (UINT32_C(1) << 31)
#define PTOI_LOG_ENTRIES 65536u

/* A letter: a read of a few bytes that the grid carries out, without a call of a driver. It is one word, so
 * that the grid needs one read over the bus to know it.
 *
 *     bits   0 to 44                           45 to 54                   55 to 63
 *            address on the device, by words   words of 4 bytes, less 1   number of the letter
 */
#define PTOI_MAIL_BYTES 4096
#define PTOI_MAIL_ADDRESSES (UINT64_C(1) << 47)

typedef struct ptoi_mail {
    _Alignas(PTOI_LINE) ptoi_a64 asked; /* D9 */
} ptoi_mail;

PTOI_INLINE uint64_t ptoi_letter_make(uint32_t number, uint64_t from, uint32_t length)
{
    return from / 4 | (uint64_t)(length - 1) << 45 | (uint64_t)number << 55;
}

PTOI_INLINE uint64_t ptoi_letter_from(uint64_t letter)
{
    return letter % (PTOI_MAIL_ADDRESSES / 4) * 4;
}

PTOI_INLINE uint32_t ptoi_letter_words(uint64_t letter)
{
    return ((uint32_t)(letter >> 45) & 1023) + 1;
}

PTOI_INLINE uint32_t ptoi_letter_number(uint64_t letter)
{
    return (uint32_t)(letter >> 55);
}

/* ---- Memory of the host that the device writes, and posts of the keeper: [s] ---- */

typedef struct ptoi_grid_shared {
    /* written by the keeper */
    _Alignas(PTOI_LINE) ptoi_a32 posted; /* D6: posts written */
    ptoi_a32 hurry;                      /* end as soon as there is nothing to do */
    ptoi_a32 launched;                   /* how often the grid was launched; relaxed */
    ptoi_a32 lost;                       /* 1: the device is lost, and nobody answers any more */
    ptoi_a32 asked_time; /* of a traced run: how often the keeper asked for the time; relaxed */
    /* written by the grid */
    _Alignas(PTOI_LINE) ptoi_a64 consumed; /* tasks released so far, when it ended */
    ptoi_a32 posts_taken;                  /* posts completed, when it ended */
    ptoi_a32 ended;                        /* D8: how often it has ended */
    ptoi_a64 log_taken;                    /* entries of the log that it has copied; relaxed */
    ptoi_a64 answered; /* D9: the number of the last letter; below it a word, if it asked for one */
    ptoi_a64 time;     /* clock of the device when it answered `asked_time`; 0: never. Relaxed */
    _Alignas(PTOI_LINE) uint32_t text[PTOI_MAIL_BYTES / 4]; /* the answer */
} ptoi_grid_shared;

/* A post: the task of the host in this slot has run. */
PTOI_INLINE uint64_t ptoi_post_word(uint32_t index, ptoi_outcome outcome)
{
    return (uint64_t)(uint32_t)outcome << 32 | index;
}

/* A cell of host_ready: its number, whether the task is poisoned, and its slot. */
#define PTOI_HOST_POISONED (UINT32_C(1) << 31)

PTOI_INLINE uint64_t ptoi_cell_word(uint32_t number, uint32_t index)
{
    return (uint64_t)number << 32 | index;
}

#endif /* PTOI_MIRROR_H */
