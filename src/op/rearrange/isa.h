/* isa.h - what moves bytes, once for each instruction set, chosen when the program runs.
 *
 * A set of kernels moves what the innermost loops of a plan are: rows of bytes, or a block to be
 * turned. Elements have 1, 2, 4, 8 or 16 bytes; tables are indexed by the binary logarithm.
 *
 * `stream` means past the caches, for copies larger than those. Such stores are seen by others only
 * after `fence`.
 */
#ifndef PTOI_ISA_H
#define PTOI_ISA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PTOI_LINE 64 /* bytes of a cache line, as in window/window.h */

/* `count` rows of `bytes` each. Stream: any alignment; lines at the ends of a row are written in part
 * and not streamed. */
typedef void ptoi_rows_fn(char *to, int64_t to_step, const char *from, int64_t from_step,
                          int64_t count, int64_t bytes, bool stream);

/* Element (i, j) goes from `from + from_rows[i] + j * size` to `to + to_rows[j] + i * size`. */
typedef struct ptoi_block {
    char *to;
    const int64_t *to_rows; /* nj rows of ni elements each */
    const char *from;
    const int64_t *from_rows; /* ni rows of nj elements each */
    int64_t ni, nj;
    bool lines; /* streams: every row of the destination begins with a line */
    /* The block after this one, to be fetched ahead: next_ni rows. NULL if there is none. */
    const char *next;
    const int64_t *next_rows;
    int64_t next_ni;
} ptoi_block;

typedef void ptoi_block_fn(const ptoi_block *block);

typedef struct ptoi_isa {
    const char *name;
    ptoi_rows_fn *rows;
    ptoi_block_fn *block[5];
    /* Past the caches where `lines` says so, and fetching ahead in any case. Rows of the destination
     * have no more than ptoi_block_lines whole lines. */
    ptoi_block_fn *stream[5];
    void (*fence)(void);
} ptoi_isa;

/* How many lines long the rows of a streamed block are, at most and at best. */
static inline int64_t ptoi_block_lines(uint32_t size)
{
    return size == 1 ? 2 : 4;
}

/* Those that this machine can run, the best one first; the last one is portable C. NULL past the
 * end. */
const ptoi_isa *ptoi_isa_at(size_t index);

/* The sets themselves, for ptoi_isa_at. */
extern const ptoi_isa ptoi_isa_portable;
#if defined(__x86_64__)
extern const ptoi_isa ptoi_isa_avx2;
extern const ptoi_isa ptoi_isa_avx512;
ptoi_block_fn ptoi_avx2_stream_4, ptoi_avx2_stream_8, ptoi_avx2_stream_16;
#endif

static inline int64_t ptoi_smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

#endif /* PTOI_ISA_H */
