/* grid_code.h - what one thread of a grid plan (grid.h) does. It runs on the GPU, in the kernels of
 * kernels.cu, and on the CPU, in the interpreter of tests/op/grid_interpreter.h: one source, so that
 * the arithmetic of a kernel is tested where there is no GPU.
 *
 * A tile goes through shared memory as words. A word has W = max(4, size) bytes: P = W / size
 * elements that are adjacent along i. So after packing, every size is a transpose of words.
 *
 *     source        row i   [e e e e e e ...]  16 bytes a load, P rows for each thread
 *     pack          P x P elements are transposed in registers --> words (i .. i+P-1, j)
 *     shared        row r = i / P, word j, in granules of 16 bytes; granule g is at `seat(g, r)`
 *     destination   row j   [16 bytes along i] = 16 / W words of one column
 *
 * `seat` permutes the granules of a row within groups of 8, which is all 32 banks, such that the
 * lanes of a warp that access shared memory together use different banks. It needs that in
 *   loading  8 lanes have 8 neighbouring pieces of one row: their granules are P apart
 *   storing  8 lanes have rows r that are 16 / W apart (or 1, if stores are narrow), and 4 such
 *            groups of lanes have 4 neighbouring words
 * The test op.grid counts the accesses of each bank.
 */
#ifndef PTOI_GRID_CODE_H
#define PTOI_GRID_CODE_H

#include "op/rearrange/grid.h"

/* The includer defines, for the machine that it compiles for:
 *   PTOI_GPU     before each function: static inline, for the device
 *   PTOI_UNROLL  before loops that must be unrolled
 *   PTOI_PERM    __byte_perm(a, b, selector)
 *   PTOI_GET(type, from), PTOI_PUT(type, to, value)       global memory
 *   PTOI_FETCH(type, from), PTOI_STASH(type, to, value)   shared memory
 * and ptoi_vec, 16 bytes with members w[4]. */

enum { PTOI_LANES = 32, PTOI_WARPS = PTOI_GRID_THREADS / PTOI_LANES };

/* ---- Digits ---------------------------------------------------------------------------------- */

PTOI_GPU uint32_t ptoi_quotient(uint32_t n, const ptoi_step *step)
{
    return ((uint32_t)((uint64_t)n * step->mul >> 32) + n) >> step->shift;
}

/* Advances both sides by the digits of steps [k, end). */
PTOI_GPU void ptoi_advance(const ptoi_grid *grid, uint32_t k, uint32_t end, uint32_t n, int64_t *to,
                           int64_t *from)
{
    for (; k + 1 < end; k++) {
        uint32_t q = ptoi_quotient(n, &grid->step[k]);
        uint32_t digit = n - q * grid->step[k].count;
        *to += digit * grid->step[k].to;
        *from += digit * grid->step[k].from;
        n = q;
    }
    *to += n * grid->step[k].to;
    *from += n * grid->step[k].from;
}

/* ---- Items ----------------------------------------------------------------------------------- */

/* Where an item is. False: it is beyond the end of the loop that is cut. */
PTOI_GPU int ptoi_item_at(const ptoi_grid *grid, uint32_t item, int64_t *to, int64_t *from)
{
    *to = grid->to_start;
    *from = grid->from_start;
    ptoi_advance(grid, 0, grid->n, item, to, from);
    if (!grid->split) {
        return 1;
    }
    uint32_t q0 = ptoi_quotient(item, &grid->step[0]), q1 = ptoi_quotient(q0, &grid->step[1]);
    uint32_t high = grid->split + 1 < grid->n
                        ? q1 - ptoi_quotient(q1, &grid->step[2]) * grid->step[2].count
                        : q1;
    return item - q0 * grid->step[0].count + high * grid->step[0].count < grid->bound;
}

/* ---- Tiles ----------------------------------------------------------------------------------- */

typedef struct ptoi_tile {
    uint32_t i, j;    /* its first element on both axes */
    int64_t to, from; /* where the plane is */
    int full;         /* all of it is inside of the axes */
} ptoi_tile;

PTOI_GPU ptoi_tile ptoi_tile_at(const ptoi_grid *grid, uint32_t item, uint32_t side)
{
    ptoi_tile tile;
    uint32_t q0 = ptoi_quotient(item, &grid->step[0]);
    uint32_t q1 = grid->n > 2 ? ptoi_quotient(q0, &grid->step[1]) : 0;
    tile.i = (item - q0 * grid->step[0].count) * side;
    tile.j = (q0 - q1 * grid->step[1].count) * side;
    tile.to = grid->to_start;
    tile.from = grid->from_start;
    if (grid->n > 2) {
        ptoi_advance(grid, 2, grid->n, q1, &tile.to, &tile.from);
    }
    tile.full = tile.i + side <= grid->i.count && tile.j + side <= grid->j.count;
    return tile;
}

/* Offset of row i in the source, or of row j in the destination. */
PTOI_GPU int64_t ptoi_row(const ptoi_grid *grid, const ptoi_grid_axis *axis, uint32_t at, int is_to)
{
    int64_t to = 0, from = 0;
    ptoi_advance(grid, axis->first, axis->end, at, &to, &from);
    return is_to ? to : from;
}

PTOI_GPU uint32_t ptoi_words_packed(uint32_t size)
{
    return size < 4 ? 4 / size : 1;
}

/* Byte of word j of row r in shared memory. */
PTOI_GPU uint32_t ptoi_seat(uint32_t r, uint32_t j, uint32_t size, uint32_t side, uint32_t vec_out)
{
    uint32_t word = size < 4 ? 4 : size, many = 16 / word, packed = ptoi_words_packed(size);
    uint32_t g = j / many, turn = vec_out == 16 ? r / many : r;
    g ^= (g / 8 & (packed - 1)) ^ (turn & 7);
    return r * side * word + g * 16 + j % many * word;
}

/* One column of words of P rows: element `e` of each of them. */
PTOI_GPU uint32_t ptoi_pack(const ptoi_vec *rows, uint32_t size, uint32_t e)
{
    uint32_t k = e * size / 4;
    if (size == 2) {
        return PTOI_PERM(rows[0].w[k], rows[1].w[k], e % 2 ? 0x7632 : 0x5410);
    }
    uint32_t select = e % 4 / 2 ? 0x7362 : 0x5140;
    uint32_t low = PTOI_PERM(rows[0].w[k], rows[1].w[k], select);
    uint32_t high = PTOI_PERM(rows[2].w[k], rows[3].w[k], select);
    return PTOI_PERM(low, high, e % 2 ? 0x7632 : 0x5410);
}

/* The elements of a vector that are inside of the axis, one by one. */
PTOI_GPU ptoi_vec ptoi_get_some(const char *from, uint32_t size, uint32_t count)
{
    ptoi_vec v = {{0, 0, 0, 0}};
    PTOI_UNROLL
    for (uint32_t e = 0; e < 16 / size; e++) {
        if (e < count) {
            uint32_t k = e * size / 4, bits = e * size % 4 * 8;
            if (size == 1) {
                v.w[k] |= (uint32_t)PTOI_GET(uint8_t, from + e) << bits;
            } else if (size == 2) {
                v.w[k] |= (uint32_t)PTOI_GET(uint16_t, from + e * 2) << bits;
            } else if (size == 4) {
                v.w[k] = PTOI_GET(uint32_t, from + e * 4);
            } else if (size == 8) {
                uint64_t word = PTOI_GET(uint64_t, from + e * 8);
                v.w[k] = (uint32_t)word;
                v.w[k + 1] = (uint32_t)(word >> 32);
            } else {
                v = PTOI_GET(ptoi_vec, from);
            }
        }
    }
    return v;
}

PTOI_GPU void ptoi_put_some(char *to, ptoi_vec v, uint32_t size, uint32_t count)
{
    PTOI_UNROLL
    for (uint32_t e = 0; e < 16 / size; e++) {
        if (e < count) {
            uint32_t k = e * size / 4, bits = e * size % 4 * 8;
            if (size == 1) {
                PTOI_PUT(uint8_t, to + e, (uint8_t)(v.w[k] >> bits));
            } else if (size == 2) {
                PTOI_PUT(uint16_t, to + e * 2, (uint16_t)(v.w[k] >> bits));
            } else if (size == 4) {
                PTOI_PUT(uint32_t, to + e * 4, v.w[k]);
            } else if (size == 8) {
                PTOI_PUT(uint64_t, to + e * 8, (uint64_t)v.w[k + 1] << 32 | v.w[k]);
            } else {
                PTOI_PUT(ptoi_vec, to, v);
            }
        }
    }
}

/* Elements from `at` on that are inside of an axis. */
PTOI_GPU uint32_t ptoi_left(const ptoi_grid_axis *axis, uint32_t at)
{
    return at < axis->count ? axis->count - at : 0;
}

/* Loads of 16 bytes: a thread takes P rows by 16 / size elements at a time, in ROUNDS. All loads are
 * issued before the first is used. */
PTOI_GPU void ptoi_tile_load_16(const ptoi_grid *grid, const ptoi_tile *tile, const char *from,
                                uint32_t thread, char *shared, const uint32_t size,
                                const uint32_t side, const uint32_t vec_out, const int full)
{
    enum { VECTORS = 8 }; /* of a thread, at most */
    const uint32_t packed = ptoi_words_packed(size), each = 16 / size, across = side / each;
    const uint32_t rounds = side / packed * across / PTOI_GRID_THREADS;
    ptoi_vec v[VECTORS];
    PTOI_UNROLL
    for (uint32_t q = 0; q < rounds; q++) {
        uint32_t unit = thread + q * PTOI_GRID_THREADS, j = tile->j + unit % across * each;
        PTOI_UNROLL
        for (uint32_t p = 0; p < packed; p++) {
            uint32_t i = tile->i + unit / across * packed + p;
            const char *at = from + tile->from + ptoi_row(grid, &grid->i, i, 0) + (int64_t)j * size;
            if (full) {
                v[q * packed + p] = PTOI_GET(ptoi_vec, at);
            } else {
                uint32_t left = i < grid->i.count ? ptoi_left(&grid->j, j) : 0;
                v[q * packed + p] = left >= each ? PTOI_GET(ptoi_vec, at)
                                                 : ptoi_get_some(at, size, left);
            }
        }
    }
    PTOI_UNROLL
    for (uint32_t q = 0; q < rounds; q++) {
        uint32_t unit = thread + q * PTOI_GRID_THREADS, r = unit / across, j = unit % across * each;
        if (packed == 1) {
            PTOI_STASH(ptoi_vec, shared + ptoi_seat(r, j, size, side, vec_out), v[q]);
        } else {
            PTOI_UNROLL
            for (uint32_t p = 0; p < packed; p++) {
                ptoi_vec words;
                PTOI_UNROLL
                for (uint32_t e = 0; e < 4; e++) {
                    words.w[e] = ptoi_pack(&v[q * packed], size, p * 4 + e);
                }
                PTOI_STASH(ptoi_vec, shared + ptoi_seat(r, j + p * 4, size, side, vec_out), words);
            }
        }
    }
}

/* Loads of single elements, for rows that are not aligned. */
PTOI_GPU void ptoi_tile_load_1(const ptoi_grid *grid, const ptoi_tile *tile, const char *from,
                               uint32_t thread, char *shared, const uint32_t size,
                               const uint32_t side, const uint32_t vec_out)
{
    enum { AHEAD = 8 };
    const uint32_t packed = ptoi_words_packed(size);
    const uint32_t rounds = side / packed * side / PTOI_GRID_THREADS;
    const uint32_t ahead = rounds < AHEAD ? rounds : AHEAD;
    for (uint32_t first = 0; first < rounds; first += ahead) {
        ptoi_vec v[AHEAD];
        PTOI_UNROLL
        for (uint32_t q = 0; q < ahead; q++) {
            uint32_t unit = thread + (first + q) * PTOI_GRID_THREADS, j = tile->j + unit % side;
            v[q].w[0] = 0;
            PTOI_UNROLL
            for (uint32_t p = 0; p < packed; p++) {
                uint32_t i = tile->i + unit / side * packed + p;
                const char *at = from + tile->from + ptoi_row(grid, &grid->i, i, 0) +
                                 (int64_t)j * size;
                if (i < grid->i.count && j < grid->j.count) {
                    if (size == 1) {
                        v[q].w[0] |= (uint32_t)PTOI_GET(uint8_t, at) << (8 * p);
                    } else if (size == 2) {
                        v[q].w[0] |= (uint32_t)PTOI_GET(uint16_t, at) << (16 * p);
                    } else {
                        v[q] = ptoi_get_some(at, size, 1);
                    }
                }
            }
        }
        PTOI_UNROLL
        for (uint32_t q = 0; q < ahead; q++) {
            uint32_t unit = thread + (first + q) * PTOI_GRID_THREADS;
            char *seat = shared + ptoi_seat(unit / side, unit % side, size, side, vec_out);
            if (size == 16) {
                PTOI_STASH(ptoi_vec, seat, v[q]);
            } else if (size == 8) {
                PTOI_STASH(uint64_t, seat, (uint64_t)v[q].w[1] << 32 | v[q].w[0]);
            } else {
                PTOI_STASH(uint32_t, seat, v[q].w[0]);
            }
        }
    }
}

/* Word j of row r. */
PTOI_GPU ptoi_vec ptoi_tile_word(const char *shared, uint32_t r, uint32_t j, const uint32_t size,
                                 const uint32_t side, const uint32_t vec_out)
{
    ptoi_vec v = {{0, 0, 0, 0}};
    const char *seat = shared + ptoi_seat(r, j, size, side, vec_out);
    if (size == 16) {
        v = PTOI_FETCH(ptoi_vec, seat);
    } else if (size == 8) {
        uint64_t word = PTOI_FETCH(uint64_t, seat);
        v.w[0] = (uint32_t)word;
        v.w[1] = (uint32_t)(word >> 32);
    } else {
        v.w[0] = PTOI_FETCH(uint32_t, seat);
    }
    return v;
}

/* Stores of 16 bytes. 8 lanes have 128 bytes of one row of the destination, a warp has 4 rows. */
PTOI_GPU void ptoi_tile_store_16(const ptoi_grid *grid, const ptoi_tile *tile, char *to,
                                 uint32_t thread, const char *shared, const uint32_t size,
                                 const uint32_t side, const int full)
{
    const uint32_t word = size < 4 ? 4 : size, many = 16 / word, each = 16 / size;
    const uint32_t across = side * size / 128, rounds = side / 4 * across / PTOI_WARPS;
    PTOI_UNROLL
    for (uint32_t q = 0; q < rounds; q++) {
        uint32_t group = thread / PTOI_LANES + q * PTOI_WARPS, lane = thread % PTOI_LANES;
        uint32_t piece = group % across * 8 + lane % 8, j = group / across * 4 + lane / 8;
        ptoi_vec v;
        PTOI_UNROLL
        for (uint32_t w = 0; w < many; w++) {
            ptoi_vec one = ptoi_tile_word(shared, piece * many + w, j, size, side, 16);
            PTOI_UNROLL
            for (uint32_t k = 0; k < word / 4; k++) {
                v.w[w * (word / 4) + k] = one.w[k];
            }
        }
        uint32_t i = tile->i + piece * each;
        char *at = to + tile->to + ptoi_row(grid, &grid->j, tile->j + j, 1) + (int64_t)i * size;
        uint32_t left = full ? each : tile->j + j < grid->j.count ? ptoi_left(&grid->i, i) : 0;
        if (left >= each) {
            PTOI_PUT(ptoi_vec, at, v);
        } else {
            ptoi_put_some(at, v, size, left);
        }
    }
}

/* Stores of words or of single elements. 8 lanes have 8 words of one row of the destination. */
PTOI_GPU void ptoi_tile_store_1(const ptoi_grid *grid, const ptoi_tile *tile, char *to,
                                uint32_t thread, const char *shared, const uint32_t size,
                                const uint32_t side, const uint32_t vec_out)
{
    const uint32_t packed = ptoi_words_packed(size), across = side / packed / 8;
    const uint32_t rounds = side / 4 * across / PTOI_WARPS;
    for (uint32_t q = 0; q < rounds; q++) {
        uint32_t group = thread / PTOI_LANES + q * PTOI_WARPS, lane = thread % PTOI_LANES;
        uint32_t r = group % across * 8 + lane % 8, j = group / across * 4 + lane / 8;
        ptoi_vec v = ptoi_tile_word(shared, r, j, size, side, vec_out);
        uint32_t i = tile->i + r * packed, left = ptoi_left(&grid->i, i);
        char *at = to + tile->to + ptoi_row(grid, &grid->j, tile->j + j, 1) + (int64_t)i * size;
        if (tile->j + j >= grid->j.count) {
            continue;
        }
        if (vec_out > size && left >= packed) {
            PTOI_PUT(uint32_t, at, v.w[0]);
        } else {
            ptoi_put_some(at, v, size, left < packed ? left : packed);
        }
    }
}

PTOI_GPU void ptoi_tile_load(const ptoi_grid *grid, const ptoi_tile *tile, const char *from,
                             uint32_t thread, char *shared, const uint32_t size,
                             const uint32_t side, const uint32_t vec_in, const uint32_t vec_out)
{
    if (vec_in == 16 && tile->full) {
        ptoi_tile_load_16(grid, tile, from, thread, shared, size, side, vec_out, 1);
    } else if (vec_in == 16) {
        ptoi_tile_load_16(grid, tile, from, thread, shared, size, side, vec_out, 0);
    } else {
        ptoi_tile_load_1(grid, tile, from, thread, shared, size, side, vec_out);
    }
}

PTOI_GPU void ptoi_tile_store(const ptoi_grid *grid, const ptoi_tile *tile, char *to,
                              uint32_t thread, const char *shared, const uint32_t size,
                              const uint32_t side, const uint32_t vec_out)
{
    if (vec_out == 16 && tile->full) {
        ptoi_tile_store_16(grid, tile, to, thread, shared, size, side, 1);
    } else if (vec_out == 16) {
        ptoi_tile_store_16(grid, tile, to, thread, shared, size, side, 0);
    } else {
        ptoi_tile_store_1(grid, tile, to, thread, shared, size, side, vec_out);
    }
}

#endif /* PTOI_GRID_CODE_H */
