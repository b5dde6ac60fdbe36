/* simd128.c - moves bytes with vectors of 128 bits: NEON on aarch64, SSE2 on x86-64. A register is a
 * quarter of a cache line.
 *
 * The vectors are those of the compiler, so there is one source for both. Every processor of these
 * two architectures has them.
 */
#if defined(__x86_64__) || defined(__aarch64__)

#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

typedef uint8_t vec __attribute__((vector_size(16)));

#include "op/rearrange/edges.h"

static inline vec load(const char *from)
{
    vec v;
    memcpy(&v, from, sizeof v);
    return v;
}

static inline void store(char *to, vec v)
{
    memcpy(to, &v, sizeof v);
}

/* Past the caches. C has no such store for aarch64, and its cores notice that whole lines are
 * written one after the other. */
#if defined(__x86_64__)
enum { STREAMS = true };

static inline void stream_quarter(char *to, vec v)
{
    _mm_stream_si128((__m128i *)(void *)to, (__m128i)v);
}
#else
enum { STREAMS = false };

static inline void stream_quarter(char *to, vec v)
{
    store(to, v);
}
#endif

/* ---- Rows ---------------------------------------------------------------------------------- */

static inline void move_row(char *to, const char *from, int64_t bytes)
{
    int64_t at = 0;
    for (; at + 64 <= bytes; at += 64) {
        vec a = load(from + at), b = load(from + at + 16);
        vec c = load(from + at + 32), d = load(from + at + 48);
        store(to + at, a);
        store(to + at + 16, b);
        store(to + at + 32, c);
        store(to + at + 48, d);
    }
    if (bytes < 16) {
        move_few(to, from, bytes);
        return;
    }
    for (; at + 16 <= bytes; at += 16) {
        store(to + at, load(from + at));
    }
    store(to + bytes - 16, load(from + bytes - 16));
}

/* Streams whole cache lines past the caches, and stores partial lines at both ends normally. */
static inline void stream_row(char *to, const char *from, int64_t bytes)
{
    int64_t at = ptoi_smaller((int64_t)(-(uintptr_t)to & (PTOI_LINE - 1)), bytes);
    move_row(to, from, at);
    for (; at + PTOI_LINE <= bytes; at += PTOI_LINE) {
        vec a = load(from + at), b = load(from + at + 16);
        vec c = load(from + at + 32), d = load(from + at + 48);
        stream_quarter(to + at, a);
        stream_quarter(to + at + 16, b);
        stream_quarter(to + at + 32, c);
        stream_quarter(to + at + 48, d);
    }
    move_row(to + at, from + at, bytes - at);
}

static void rows(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t count,
                 int64_t bytes, bool stream)
{
    for (int64_t i = 0; i < count; i++) {
        if (stream) {
            stream_row(to + i * to_step, from + i * from_step, bytes);
        } else {
            move_row(to + i * to_step, from + i * from_step, bytes);
        }
    }
}

/* ---- Squares ------------------------------------------------------------------------------- */

enum { LANES = 1, PARTS = 4 };

#define vec_load(from) load(from)
#define vec_store(to, v) store((to), (v))
#define vec_stream(to, v) stream_quarter((to), (v))

/* Interleaves elements of one size: the compiler knows the instruction (zip1, punpckl ...). */
typedef uint16_t vec_2 __attribute__((vector_size(16)));
typedef uint32_t vec_4 __attribute__((vector_size(16)));
typedef uint64_t vec_8 __attribute__((vector_size(16)));

#define LOW_1(a, b)                                                                                \
    __builtin_shufflevector((a), (b), 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH_1(a, b)                                                                               \
    __builtin_shufflevector((a), (b), 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define LOW_2(a, b) (vec) __builtin_shufflevector((vec_2)(a), (vec_2)(b), 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH_2(a, b)                                                                               \
    (vec) __builtin_shufflevector((vec_2)(a), (vec_2)(b), 4, 12, 5, 13, 6, 14, 7, 15)
#define LOW_4(a, b) (vec) __builtin_shufflevector((vec_4)(a), (vec_4)(b), 0, 4, 1, 5)
#define HIGH_4(a, b) (vec) __builtin_shufflevector((vec_4)(a), (vec_4)(b), 2, 6, 3, 7)
#define LOW_8(a, b) (vec) __builtin_shufflevector((vec_8)(a), (vec_8)(b), 0, 2)
#define HIGH_8(a, b) (vec) __builtin_shufflevector((vec_8)(a), (vec_8)(b), 1, 3)
#define LOW_16(a, b) (a) /* a lane is one element, so there is nothing to interleave */
#define HIGH_16(a, b) (b)

/* A vector is one lane. */
PTOI_INLINE void turn_lanes(const vec group[4], vec out[LANES][PARTS])
{
    for (int64_t p = 0; p < PARTS; p++) {
        out[0][p] = group[p];
    }
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
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

const ptoi_isa ptoi_isa_simd128 = {"simd128",
                                   rows,
                                   {block_1, block_2, block_4, block_8, block_16},
                                   {stream_1, stream_2, stream_4, stream_8, stream_16},
                                   fence,
                                   STREAMS};

#endif
