/* isa.h - kernels that move bytes, one set for each instruction set, chosen at run time.
 *
 * A kernel moves what the innermost loops of a plan describe: rows of bytes, or a block to be
 * transposed. Elements have 1, 2, 4, 8 or 16 bytes; tables are indexed by the binary logarithm.
 *
 * `stream` means past the caches, for copies larger than those. Other threads see such stores only
 * after `fence`.
 */
#ifndef PTOI_ISA_H
#define PTOI_ISA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PTOI_LINE 64 /* bytes of a cache line, as in window/window.h */

/* Copies `count` rows of `bytes` each. Streaming accepts any alignment. Partial lines at the ends
 * of a row are not streamed. */
typedef void ptoi_rows_fn(char *to, int64_t to_step, const char *from, int64_t from_step,
                          int64_t count, int64_t bytes, bool stream);

/* Element (i, j) goes from `from + from_rows[i] + j * size` to `to + to_rows[j] + i * size`. */
typedef struct ptoi_block {
    char *to;
    const int64_t *to_rows; /* nj rows of ni elements each */
    const char *from;
    const int64_t *from_rows; /* ni rows of nj elements each */
    int64_t ni, nj;
    bool lines; /* for streams: every row of the destination begins at a cache line */
    /* The next block, to be prefetched: next_ni rows. NULL: none. */
    const char *next;
    const int64_t *next_rows;
    int64_t next_ni;
} ptoi_block;

typedef void ptoi_block_fn(const ptoi_block *block);

typedef struct ptoi_isa {
    const char *name;
    ptoi_rows_fn *rows;
    ptoi_block_fn *block[5];
    /* Writes past the caches where `lines` is set, and always prefetches. Rows of the destination
     * have at most ptoi_block_lines whole lines. */
    ptoi_block_fn *stream[5];
    void (*fence)(void);
    bool streams; /* whether `stream` really goes past the caches */
} ptoi_isa;

/* The best length of rows in a streamed block, in lines. It is also the limit. */
static inline int64_t ptoi_block_lines(uint32_t size)
{
    return size == 1 ? 2 : 4;
}

/* The instruction sets that this machine supports, best first; the last one is portable C. NULL
 * past the end. */
const ptoi_isa *ptoi_isa_at(size_t index);

/* The sets of kernels, for ptoi_isa_at. */
extern const ptoi_isa ptoi_isa_portable;
#if defined(__x86_64__) || defined(__aarch64__)
extern const ptoi_isa ptoi_isa_simd128;
#endif
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
