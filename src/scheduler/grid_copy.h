/* grid_copy.h - how the mover of a grid (scheduler/grid.h) copies what is new from the window into the
 * mirror: slots, edges, arguments, layouts and kernels. All lanes of a warp carry it out. This header
 * compiles as C11 and as CUDA C++. */
#ifndef PTOI_GRID_COPY_H
#define PTOI_GRID_COPY_H

#include "scheduler/grid.h"

/* ---- The mover: copies ---- */

/* Copies pairs of words that lie at a multiple of 16. All lanes. Several reads are under way at a time,
 * since each takes a microsecond. */
PTOI_INLINE void ptoi_grid_copy_pairs(uint64_t *mirror, const uint64_t *from, uint64_t pairs)
{
#ifdef __CUDA_ARCH__
    enum { AHEAD = 8 };
    for (uint64_t i = PTOI_GRID_LANE; i < pairs; i += PTOI_GRID_LANES * AHEAD) {
        ulonglong2 pair[AHEAD];
#pragma unroll
        for (uint32_t k = 0; k < AHEAD; k++) {
            const uint64_t at = i + k * PTOI_GRID_LANES;
            if (at < pairs) {
                pair[k] = ptoi_far_pair(from + 2 * at);
            }
        }
#pragma unroll
        for (uint32_t k = 0; k < AHEAD; k++) {
            const uint64_t at = i + k * PTOI_GRID_LANES;
            if (at < pairs) {
                ((ulonglong2 *)mirror)[at] = pair[k];
            }
        }
    }
#else
    for (uint64_t i = 0; i < 2 * pairs; i++) {
        mirror[i] = from[i];
    }
#endif
}

/* How many units of a ring of `size` units there are to copy, from unit *at on. If the ring has started
 * over, that is 0. */
PTOI_INLINE uint32_t ptoi_grid_ring_units(uint64_t from, uint64_t to, ptoi_head_part part,
                                          uint32_t *at, uint32_t size)
{
    uint32_t units = ptoi_head_distance(from, to, part);
    if ((from ^ to) & PTOI_HEAD_TURN(part)) {
        units -= size - *at;
        *at = 0;
    }
    return units;
}

/* Copies `units` of a ring of `size` units of 16 bytes, from unit *at on. */
PTOI_INLINE void ptoi_grid_copy_ring(uint64_t *mirror, const uint64_t *ring, uint32_t *at,
                                     uint32_t units, uint32_t size)
{
    const uint32_t end = (uint32_t)(((uint64_t)*at + units) % size);
    if (*at + units > size) {
        ptoi_grid_copy_pairs(mirror + 2 * (uint64_t)*at, ring + 2 * (uint64_t)*at, size - *at);
        ptoi_grid_copy_pairs(mirror, ring, end);
    } else {
        ptoi_grid_copy_pairs(mirror + 2 * (uint64_t)*at, ring + 2 * (uint64_t)*at, units);
    }
    *at = end;
}

/* The same for references, of 8 bytes. A device copies whole pairs, of which the first and the last word may
 * be of others: such a word is not used, or the mirror has it already, so a copy of it does no harm. In C
 * that would be a race. */
PTOI_INLINE void ptoi_grid_copy_refs(uint64_t *mirror, const uint64_t *ring, uint32_t *at,
                                     uint32_t refs, uint32_t size)
{
    const uint32_t end = *at + refs;
#ifdef __CUDA_ARCH__
    uint32_t pair = *at / 2;
    ptoi_grid_copy_ring(mirror, ring, &pair, (end + 1) / 2 - *at / 2, (size + 1) / 2);
#else
    for (uint32_t i = *at; i != end; i++) {
        mirror[i % size] = ring[i % size];
    }
#endif
    *at = end % size;
}

/* Copies `n` slots from number `seq` on. */
PTOI_INLINE void ptoi_grid_copy_slots(const ptoi_grid *g, uint32_t level, uint64_t seq, uint32_t n)
{
    enum { AHEAD = PTOI_GRID_LANES > 1 ? 4 : 1 };
    for (uint32_t i = PTOI_GRID_LANE; i < n; i += PTOI_GRID_LANES * AHEAD) {
        ptoi_grid_slot slot[AHEAD];
        PTOI_GRID_UNROLL
        for (uint32_t k = 0; k < AHEAD; k++) {
            const uint32_t at = i + k * PTOI_GRID_LANES;
            if (at < n) {
                slot[k] = ptoi_grid_read_slot(ptoi_slot_of(&g->window, level, seq + at));
            }
        }
        PTOI_GRID_UNROLL
        for (uint32_t k = 0; k < AHEAD; k++) {
            const uint32_t at = i + k * PTOI_GRID_LANES;
            if (at < n) {
                ptoi_grid_write_slot(ptoi_slot_of(&g->view, level, seq + at), &slot[k]);
            }
        }
    }
}

#ifdef __CUDA_ARCH__
/* Copies all of a few tasks of a level. Everything is under way at the same time, so it takes one trip over
 * the bus and not three. Returns false, and has done nothing, if they are too many or a ring wraps. */
PTOI_INLINE bool ptoi_grid_copy_few(const ptoi_grid *g, uint32_t level, uint32_t deps_at,
                                    uint32_t refs, uint32_t args_at, uint32_t units, uint64_t seq,
                                    uint32_t slots)
{
    enum { PAIRS = 2, UNITS = 8, SLOTS = 2 }; /* for each lane */
    const ptoi_view_level *their = &g->window.level[level], *mine = &g->view.level[level];
    const uint32_t first = deps_at / 2, pairs = (deps_at + refs + 1) / 2 - first;
    if (pairs > PAIRS * PTOI_GRID_LANES || units > UNITS * PTOI_GRID_LANES ||
        slots > SLOTS * PTOI_GRID_LANES || deps_at + refs >= their->n_deps ||
        args_at + units >= their->n_args) {
        return false;
    }
    ulonglong2 pair[PAIRS], unit[UNITS], head[SLOTS], tail[SLOTS];
    const uint64_t *args = (const uint64_t *)(const void *)(their->args + args_at);
#pragma unroll
    for (uint32_t k = 0; k < SLOTS; k++) {
        const uint32_t i = PTOI_GRID_LANE + k * PTOI_GRID_LANES;
        if (i < slots) {
            const uint64_t *words = (const uint64_t *)(const void *)ptoi_slot_of(&g->window, level,
                                                                                 seq + i);
            head[k] = ptoi_far_pair(words);
            tail[k] = ptoi_far_pair(words + 2);
        }
    }
#pragma unroll
    for (uint32_t k = 0; k < PAIRS; k++) {
        const uint32_t i = PTOI_GRID_LANE + k * PTOI_GRID_LANES;
        if (i < pairs) {
            pair[k] = ptoi_far_pair(their->deps + 2 * (uint64_t)(first + i));
        }
    }
#pragma unroll
    for (uint32_t k = 0; k < UNITS; k++) {
        const uint32_t i = PTOI_GRID_LANE + k * PTOI_GRID_LANES;
        if (i < units) {
            unit[k] = ptoi_far_pair(args + 2 * (uint64_t)i);
        }
    }
#pragma unroll
    for (uint32_t k = 0; k < SLOTS; k++) {
        const uint32_t i = PTOI_GRID_LANE + k * PTOI_GRID_LANES;
        if (i < slots) {
            ulonglong2 *words = (ulonglong2 *)(void *)ptoi_slot_of(&g->view, level, seq + i);
            words[0] = head[k];
            words[1] = tail[k];
        }
    }
#pragma unroll
    for (uint32_t k = 0; k < PAIRS; k++) {
        const uint32_t i = PTOI_GRID_LANE + k * PTOI_GRID_LANES;
        if (i < pairs) {
            ((ulonglong2 *)(void *)mine->deps)[first + i] = pair[k];
        }
    }
#pragma unroll
    for (uint32_t k = 0; k < UNITS; k++) {
        const uint32_t i = PTOI_GRID_LANE + k * PTOI_GRID_LANES;
        if (i < units) {
            ((ulonglong2 *)(void *)mine->args)[args_at + i] = unit[k];
        }
    }
    return true;
}
#endif

/* Copies what the log names: layout descriptors and kernels. */
PTOI_INLINE void ptoi_grid_copy_log(const ptoi_grid *g, uint64_t from, uint64_t to)
{
    for (uint64_t i = from + PTOI_GRID_LANE; i < to; i += PTOI_GRID_LANES) {
        const uint32_t entry = ptoi_far_half(&g->log[i % PTOI_LOG_ENTRIES]);
        const uint32_t id = entry & ~PTOI_LOG_KERNEL;
        if (entry & PTOI_LOG_KERNEL) {
            g->view.codes[id].address = ptoi_far_word(&g->window.codes[id].address);
            continue;
        }
        const uint64_t *their = (const uint64_t *)(const void *)(g->window.descs +
                                                                 id * PTOI_DESC_UNIT);
        uint64_t *mine = (uint64_t *)(void *)(g->view.descs + id * PTOI_DESC_UNIT);
        const uint64_t first = ptoi_far_word(their); /* ndim is its lower half */
        const uint64_t words = ptoi_desc_bytes((int32_t)first) / sizeof *mine;
        mine[0] = first;
        for (uint64_t k = 1; k < words; k++) {
            mine[k] = ptoi_far_word(their + k);
        }
    }
}

/* Copies what a level has gained since the last reading. */
PTOI_INLINE void ptoi_grid_copy_level(const ptoi_grid *g, ptoi_mover_level *m, uint32_t level)
{
    const uint64_t from = m->mirrored, to = m->known, seq = m->seq;
    const ptoi_view_level *their = &g->window.level[level], *mine = &g->view.level[level];
    uint32_t deps_at = m->deps_at, args_at = m->args_at;
    const uint32_t refs = ptoi_grid_ring_units(from, to, PTOI_HEAD_DEPS, &deps_at, their->n_deps);
    const uint32_t units = ptoi_grid_ring_units(from, to, PTOI_HEAD_ARGS, &args_at, their->n_args);
    const uint32_t slots = ptoi_head_distance(from, to, PTOI_HEAD_SLOTS);
    bool copied = false;
#ifdef __CUDA_ARCH__
    copied = ptoi_grid_copy_few(g, level, deps_at, refs, args_at, units, seq, slots);
#endif
    if (copied) {
        deps_at += refs;
        args_at += units;
    } else {
        ptoi_grid_copy_refs(mine->deps, their->deps, &deps_at, refs, their->n_deps);
        ptoi_grid_copy_ring((uint64_t *)(void *)mine->args, (const uint64_t *)(void *)their->args,
                            &args_at, units, their->n_args);
        ptoi_grid_copy_slots(g, level, seq, slots);
    }
    PTOI_GRID_SYNC();
    if (PTOI_GRID_LANE == 0) {
        m->seq = seq + slots;
        m->deps_at = deps_at;
        m->args_at = args_at;
        m->before = from;
        m->mirrored = to;
    }
}

/* Brings the mirror up to the last reading, for the levels of `work`. */
PTOI_INLINE void ptoi_grid_mirror(const ptoi_grid *g, ptoi_mover *m, uint32_t work)
{
    if (work >> PTOI_GRID_LOG) {
        ptoi_grid_copy_log(g, m->log_mirrored, m->log_known);
        PTOI_GRID_SYNC();
        if (PTOI_GRID_LANE == 0) {
            m->log_mirrored = m->log_known;
            ptoi_far_set64(&g->shared->log_taken, m->log_known);
        }
    }
    for (uint32_t bits = work % (UINT32_C(1) << PTOI_GRID_LOG); bits; bits &= bits - 1) {
        const uint32_t l = PTOI_GRID_LOWEST(bits);
        ptoi_grid_copy_level(g, &m->level[l], l);
    }
    PTOI_GRID_SYNC();
}

#endif /* PTOI_GRID_COPY_H */
