/* support.h - shared by tests and benches: seeded random numbers and effort.
 *
 * PTO_TEST_SEED=N    another seed (default 1), so that a failure can be run again
 * PTO_TEST_EFFORT=P  percent of the usual number of random cases (default 100, at most 100000);
 *                    sanitizer runs use less
 *
 * An invalid value ends the program before its first test.
 */
#ifndef PTO_TEST_SUPPORT_H
#define PTO_TEST_SUPPORT_H

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct test_rng {
    uint64_t state;
    /* of test_rng_from: bytes that are used before random numbers */
    const uint8_t *bytes;
    size_t left;
    int has_bytes;
} test_rng;

static inline uint64_t test_env_within(const char *name, uint64_t otherwise, uint64_t low,
                                       uint64_t high)
{
    const char *text = getenv(name);
    if (!text || !*text) {
        return otherwise;
    }
    errno = 0;
    const uint64_t value = strtoull(text, NULL, 10);
    if (text[strspn(text, "0123456789")] || errno || value < low || value > high) {
        fprintf(stderr, "%s=%s: must be a decimal number from %" PRIu64 " to %" PRIu64 "\n", name,
                text, low, high);
        exit(2);
    }
    return value;
}

static inline uint64_t test_env(const char *name, uint64_t otherwise)
{
    return test_env_within(name, otherwise, 0, UINT64_MAX);
}

static inline uint64_t test_seed(void)
{
    return test_env("PTO_TEST_SEED", 1);
}

static inline uint64_t test_percent(void)
{
    return test_env_within("PTO_TEST_EFFORT", 100, 1, 100000);
}

/* `count` scaled by the effort, at least 1. */
static inline uint64_t test_effort(uint64_t count)
{
    uint64_t scaled = count * test_percent() / 100;
    return scaled ? scaled : 1;
}

/* Whether valgrind runs the program: it is much slower and adds mappings. */
static inline int test_on_valgrind(void)
{
    const char *preloaded = getenv("LD_PRELOAD");
    return preloaded && strstr(preloaded, "vgpreload_");
}

/* Before main, so that a typing error is found immediately. */
__attribute__((constructor)) static void test_env_check(void)
{
    test_seed();
    test_percent();
}

static inline test_rng test_rng_make(uint64_t seed)
{
    return (test_rng){seed * UINT64_C(0x9E3779B97F4A7C15) + 1, NULL, 0, 0};
}

/* Random numbers from the bytes of a fuzzer, in order. Each number takes as few bytes as its range
 * needs, so changing one byte changes one decision. So every generator of random cases also decodes
 * fuzz inputs. When the bytes are used up, it continues as from a seed. */
static inline test_rng test_rng_from(const uint8_t *bytes, size_t size)
{
    test_rng rng = test_rng_make(size);
    rng.bytes = bytes;
    rng.left = size;
    rng.has_bytes = 1;
    return rng;
}

/* Whether there were bytes, and all are used. */
static inline int test_rng_is_spent(const test_rng *rng)
{
    return rng->has_bytes && !rng->left;
}

/* The number in the next bytes, as many as `most` needs; 0 if none are left. */
static inline uint64_t test_take(test_rng *rng, uint64_t most)
{
    uint64_t value = 0;
    for (; most; most >>= 8) {
        value <<= 8;
        if (rng->left) {
            value |= *rng->bytes++;
            rng->left--;
        }
    }
    return value;
}

/* A Weyl sequence through a 64-bit mixer: small, fast, and good enough for test data. */
static inline uint64_t test_next(test_rng *rng)
{
    uint64_t x = rng->left ? test_take(rng, UINT16_MAX)
                           : (rng->state += UINT64_C(0x9E3779B97F4A7C15));
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

/* Uniform in low .. high, both included. */
static inline int64_t test_between(test_rng *rng, int64_t low, int64_t high)
{
    const uint64_t count = (uint64_t)(high - low + 1);
    const uint64_t number = rng->left ? test_take(rng, count - 1) : test_next(rng);
    return low + (int64_t)(number % count);
}

#endif /* PTO_TEST_SUPPORT_H */
