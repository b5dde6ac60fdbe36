/* fuzz.h - what all fuzz targets share.
 *
 * A target is one file, fuzz_<name>.c, with one function: it makes a case from any bytes, and ends
 * the program if the library handles it wrongly. The generators of random cases decode the bytes
 * (test_rng_from), so nearly every input is a case, and the oracles are those of the tests.
 *
 *     ./dev fuzz NAME      clang's libFuzzer drives it, with the address and undefined-behaviour
 *                          sanitizers
 *     ./dev test fuzz      replay.c drives it through what is kept in corpus/<name>, in every build
 */
#ifndef PTO_FUZZ_H
#define PTO_FUZZ_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pto/status.h>

#include "support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Before main: a cmocka assertion outside a test must abort the program. */
__attribute__((constructor)) static void fuzz_assertions_abort(void)
{
    setenv("CMOCKA_TEST_ABORT", "1", 1);
}

/* Prints what is wrong and aborts. */
static inline PTO_PRINTF(1, 2) __attribute__((noreturn)) void fuzz_wrong(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    abort();
}

/* Memory of exactly this size, so that the sanitizer sees the first byte past it. */
static inline void *fuzz_copy(const void *from, size_t size)
{
    void *copy = malloc(size ? size : 1);
    if (!copy) {
        fuzz_wrong("no memory for %zu bytes", size);
    }
    if (size) {
        memcpy(copy, from, size);
    }
    return copy;
}

/* Text inputs contain several cases, separated by a byte that UTF-8 does not use. */
#define FUZZ_BETWEEN 0xFF

/* The case at *at and its length; moves *at behind it. */
static inline const uint8_t *fuzz_next_text(const uint8_t *data, size_t size, size_t *at,
                                            size_t *length)
{
    const uint8_t *text = data + *at;
    const uint8_t *end = memchr(text, FUZZ_BETWEEN, size - *at);
    *length = end ? (size_t)(end - text) : size - *at;
    *at += *length + 1;
    return text;
}

#endif /* PTO_FUZZ_H */
