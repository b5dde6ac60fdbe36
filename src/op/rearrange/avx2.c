/* avx2.c - moves bytes with AVX2. A register is half a cache line. */
#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

typedef __m256i vec;

#include "op/rearrange/edges.h"

/* ---- Rows ---------------------------------------------------------------------------------- */

static inline __m256i load(const char *from)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)from);
}

static inline void store(char *to, __m256i value)
{
    _mm256_storeu_si256((__m256i *)(void *)to, value);
}

static inline void stream_half(char *to, __m256i value)
{
    _mm256_stream_si256((__m256i *)(void *)to, value);
}

/* Up to 32 bytes: two moves that may overlap in the middle. */
static inline void move_half(char *to, const char *from, int64_t bytes)
{
    if (bytes >= 16) {
        __m128i a = _mm_loadu_si128((const __m128i *)(const void *)from);
        __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(from + bytes - 16));
        _mm_storeu_si128((__m128i *)(void *)to, a);
        _mm_storeu_si128((__m128i *)(void *)(to + bytes - 16), b);
    } else {
        move_few(to, from, bytes);
    }
}

static inline void move_row(char *to, const char *from, int64_t bytes)
{
    int64_t at = 0;
    for (; at + 64 <= bytes; at += 64) {
        __m256i a = load(from + at), b = load(from + at + 32);
        store(to + at, a);
        store(to + at + 32, b);
    }
    if (bytes >= 32) {
        if (at + 32 <= bytes) {
            store(to + at, load(from + at));
        }
        store(to + bytes - 32, load(from + bytes - 32));
    } else {
        move_half(to, from, bytes);
    }
}

/* Streams whole cache lines past the caches, and stores partial lines at both ends normally. */
static inline void stream_row(char *to, const char *from, int64_t bytes)
{
    int64_t at = (int64_t)(-(uintptr_t)to & (PTOI_LINE - 1));
    if (at > bytes) {
        at = bytes;
    }
    move_row(to, from, at);
    for (; at + 64 <= bytes; at += 64) {
        __m256i a = load(from + at), b = load(from + at + 32);
        stream_half(to + at, a);
        stream_half(to + at + 32, b);
    }
    move_row(to + at, from + at, bytes - at);
}

static void rows(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t count,
                 int64_t bytes, bool stream)
{
    if (stream) {
        for (int64_t i = 0; i < count; i++) {
            stream_row(to + i * to_step, from + i * from_step, bytes);
        }
    } else {
        for (int64_t i = 0; i < count; i++) {
            move_row(to + i * to_step, from + i * from_step, bytes);
        }
    }
}

/* ---- Squares ------------------------------------------------------------------------------- */

enum { LANES = 2, PARTS = 2 };

#define vec_load(from) load(from)
#define vec_store(to, v) store((to), (v))
#define vec_stream(to, v) stream_half((to), (v))

#define LOW_1 _mm256_unpacklo_epi8
#define HIGH_1 _mm256_unpackhi_epi8
#define LOW_2 _mm256_unpacklo_epi16
#define HIGH_2 _mm256_unpackhi_epi16
#define LOW_4 _mm256_unpacklo_epi32
#define HIGH_4 _mm256_unpackhi_epi32
#define LOW_8 _mm256_unpacklo_epi64
#define HIGH_8 _mm256_unpackhi_epi64
#define LOW_16(a, b) (a) /* a lane is one element, so there is nothing to interleave */
#define HIGH_16(a, b) (b)

PTOI_INLINE void turn_lanes(const vec group[4], vec out[LANES][PARTS])
{
    out[0][0] = _mm256_permute2x128_si256(group[0], group[1], 0x20);
    out[0][1] = _mm256_permute2x128_si256(group[2], group[3], 0x20);
    out[1][0] = _mm256_permute2x128_si256(group[0], group[1], 0x31);
    out[1][1] = _mm256_permute2x128_si256(group[2], group[3], 0x31);
}

PTOI_EDGES(1)
PTOI_EDGES(2)
PTOI_EDGES(4)
PTOI_EDGES(8)
PTOI_EDGES(16)
PTOI_STREAM(1)
PTOI_STREAM(2)
PTOI_STREAM(4)
PTOI_STREAM(8)
PTOI_STREAM(16)

static void fence(void)
{
    _mm_sfence();
}

const ptoi_isa ptoi_isa_avx2 = {"avx2",
                                rows,
                                {block_1, block_2, block_4, block_8, block_16},
                                {stream_1, stream_2, stream_4, stream_8, stream_16},
                                fence,
                                true};

void ptoi_avx2_stream_4(const ptoi_block *block)
{
    stream_4(block);
}

void ptoi_avx2_stream_8(const ptoi_block *block)
{
    stream_8(block);
}

void ptoi_avx2_stream_16(const ptoi_block *block)
{
    stream_16(block);
}

#endif
