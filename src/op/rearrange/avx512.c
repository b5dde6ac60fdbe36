/* avx512.c - moves bytes with AVX-512. A register is a cache line. */
#if defined(__x86_64__)

#include <immintrin.h>

typedef __m512i vec;

#include "op/rearrange/squares.h"

static inline __mmask64 first_bytes(int64_t bytes)
{
    return bytes >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << bytes) - 1;
}

/* ---- Rows ---------------------------------------------------------------------------------- */

/* Up to one cache line. */
static inline void move_few(char *to, const char *from, int64_t bytes)
{
    __mmask64 mask = first_bytes(bytes);
    _mm512_mask_storeu_epi8(to, mask, _mm512_maskz_loadu_epi8(mask, from));
}

static inline void move_row(char *to, const char *from, int64_t bytes)
{
    int64_t at = 0;
    for (; at + 256 <= bytes; at += 256) {
        __m512i a = _mm512_loadu_si512(from + at), b = _mm512_loadu_si512(from + at + 64);
        __m512i c = _mm512_loadu_si512(from + at + 128), d = _mm512_loadu_si512(from + at + 192);
        _mm512_storeu_si512(to + at, a);
        _mm512_storeu_si512(to + at + 64, b);
        _mm512_storeu_si512(to + at + 128, c);
        _mm512_storeu_si512(to + at + 192, d);
    }
    for (; at + 64 <= bytes; at += 64) {
        _mm512_storeu_si512(to + at, _mm512_loadu_si512(from + at));
    }
    if (at < bytes) {
        move_few(to + at, from + at, bytes - at);
    }
}

/* Streams whole cache lines past the caches, and stores partial lines at both ends normally. */
static inline void stream_row(char *to, const char *from, int64_t bytes)
{
    int64_t at = (int64_t)(-(uintptr_t)to & (PTOI_LINE - 1));
    if (at > bytes) {
        at = bytes;
    }
    if (at) {
        move_few(to, from, at);
    }
    for (; at + 256 <= bytes; at += 256) {
        __m512i a = _mm512_loadu_si512(from + at), b = _mm512_loadu_si512(from + at + 64);
        __m512i c = _mm512_loadu_si512(from + at + 128), d = _mm512_loadu_si512(from + at + 192);
        _mm512_stream_si512((void *)(to + at), a);
        _mm512_stream_si512((void *)(to + at + 64), b);
        _mm512_stream_si512((void *)(to + at + 128), c);
        _mm512_stream_si512((void *)(to + at + 192), d);
    }
    for (; at + 64 <= bytes; at += 64) {
        _mm512_stream_si512((void *)(to + at), _mm512_loadu_si512(from + at));
    }
    if (at < bytes) {
        move_few(to + at, from + at, bytes - at);
    }
}

static void rows(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t count,
                 int64_t bytes, bool stream)
{
    if (stream) {
        for (int64_t i = 0; i < count; i++) {
            stream_row(to + i * to_step, from + i * from_step, bytes);
        }
    } else if (bytes <= 64) {
        __mmask64 mask = first_bytes(bytes);
        for (int64_t i = 0; i < count; i++) {
            __m512i row = _mm512_maskz_loadu_epi8(mask, from + i * from_step);
            _mm512_mask_storeu_epi8(to + i * to_step, mask, row);
        }
    } else {
        for (int64_t i = 0; i < count; i++) {
            move_row(to + i * to_step, from + i * from_step, bytes);
        }
    }
}

/* ---- Squares ------------------------------------------------------------------------------- */

enum { LANES = 4, PARTS = 1 };

#define vec_load(from) _mm512_loadu_si512(from)
#define vec_store(to, v) _mm512_storeu_si512((to), (v))
#define vec_stream(to, v) _mm512_stream_si512((void *)(to), (v))

#define LOW_1 _mm512_unpacklo_epi8
#define HIGH_1 _mm512_unpackhi_epi8
#define LOW_2 _mm512_unpacklo_epi16
#define HIGH_2 _mm512_unpackhi_epi16
#define LOW_4 _mm512_unpacklo_epi32
#define HIGH_4 _mm512_unpackhi_epi32
#define LOW_8 _mm512_unpacklo_epi64
#define HIGH_8 _mm512_unpackhi_epi64
#define LOW_16(a, b) (a) /* a lane is one element, so there is nothing to interleave */
#define HIGH_16(a, b) (b)

PTOI_INLINE void turn_lanes(const vec group[4], vec out[LANES][PARTS])
{
    vec ab01 = _mm512_shuffle_i32x4(group[0], group[1], 0x44);
    vec ab23 = _mm512_shuffle_i32x4(group[0], group[1], 0xee);
    vec cd01 = _mm512_shuffle_i32x4(group[2], group[3], 0x44);
    vec cd23 = _mm512_shuffle_i32x4(group[2], group[3], 0xee);
    out[0][0] = _mm512_shuffle_i32x4(ab01, cd01, 0x88);
    out[1][0] = _mm512_shuffle_i32x4(ab01, cd01, 0xdd);
    out[2][0] = _mm512_shuffle_i32x4(ab23, cd23, 0x88);
    out[3][0] = _mm512_shuffle_i32x4(ab23, cd23, 0xdd);
}

/* Edges are loaded and stored with masks: masked-out bytes are not touched. */
#define PART(size)                                                                                 \
    PTOI_INLINE void turn_##size(vec *row);                                                        \
    static void part_##size(const ptoi_block *b, int64_t i, int64_t j)                             \
    {                                                                                              \
        enum { K = 16 / (size), N = PTOI_LINE / (size) };                                          \
        int64_t ni = ptoi_smaller(b->ni - i, N), nj = ptoi_smaller(b->nj - j, N);                  \
        __mmask64 in = first_bytes(nj * (size)), out_of = first_bytes(ni * (size));                \
        vec group[4][K];                                                                           \
        PTOI_UNROLL(GCC unroll 4)                                                                  \
        for (int64_t g = 0; g < 4; g++) {                                                          \
            PTOI_UNROLL(GCC unroll 4)                                                              \
            for (int64_t k = 0; k < K; k++) {                                                      \
                bool is_there = g * K + k < ni;                                                    \
                const char *row = b->from + b->from_rows[is_there ? i + g * K + k : i];            \
                group[g][k] = _mm512_maskz_loadu_epi8(is_there ? in : 0, row + j * (size));        \
            }                                                                                      \
            turn_##size(group[g]);                                                                 \
        }                                                                                          \
        PTOI_UNROLL(GCC unroll 4)                                                                  \
        for (int64_t k = 0; k < K; k++) {                                                          \
            vec lanes[4] = {group[0][k], group[1][k], group[2][k], group[3][k]};                   \
            vec out[LANES][PARTS];                                                                 \
            turn_lanes(lanes, out);                                                                \
            PTOI_UNROLL(GCC unroll 4)                                                              \
            for (int64_t l = 0; l < LANES; l++) {                                                  \
                if (l * K + k < nj) {                                                              \
                    char *row = b->to + b->to_rows[j + l * K + k];                                 \
                    _mm512_mask_storeu_epi8(row + i * (size), out_of, out[l][0]);                  \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    PTOI_SQUARES(size)

PART(1)
PART(2)
PART(4)
PART(8)
PART(16)
PTOI_STREAM(1)
PTOI_STREAM(2)

static void fence(void)
{
    _mm_sfence();
}

/* For elements of 4 bytes and more, streams wait for memory, not for instructions. Two half lines
 * were measured to be 5 to 30 % faster than one whole line on Zen 4. */
const ptoi_isa ptoi_isa_avx512 = {
    "avx512",
    rows,
    {block_1, block_2, block_4, block_8, block_16},
    {stream_1, stream_2, ptoi_avx2_stream_4, ptoi_avx2_stream_8, ptoi_avx2_stream_16},
    fence,
    true};

#endif
