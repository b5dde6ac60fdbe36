/* test_blas.c - the routines that kernels call (examples/workloads/blas.h) against plain loops. It is
 * built twice: with what the workloads use, and without a library (cmake/tests.cmake).
 *
 * All numbers are whole, and those on diagonals powers of two, so that nothing is ever rounded:
 * results are compared with ==. Matrices lie inside larger ones whose other elements must stay what
 * they are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "blas.h"
#include "blas_small.h"
#include "support.h"

/* ---- Matrices ------------------------------------------------------------------------------ */

typedef struct matrix {
    int64_t rows, columns, ld;
    double *all, *at; /* `at` is where the matrix begins in the larger one */
} matrix;

enum { EDGE = 3 };

static const double outside = 12345;

static size_t size_of(const matrix *m)
{
    return (size_t)((m->rows + 2 * EDGE) * m->ld);
}

static matrix make(test_rng *rng, int64_t rows, int64_t columns)
{
    matrix m = {rows, columns, columns + 2 * EDGE + test_between(rng, 0, 9), NULL, NULL};
    m.all = malloc(size_of(&m) * sizeof(double));
    assert_non_null(m.all);
    m.at = m.all + EDGE * m.ld + EDGE;
    for (size_t i = 0; i < size_of(&m); i++) {
        m.all[i] = outside;
    }
    return m;
}

static double *element(const matrix *m, int64_t i, int64_t j)
{
    return m->at + i * m->ld + j;
}

static void fill(test_rng *rng, const matrix *m, int64_t most)
{
    for (int64_t i = 0; i < m->rows; i++) {
        for (int64_t j = 0; j < m->columns; j++) {
            *element(m, i, j) = (double)test_between(rng, -most, most);
        }
    }
}

/* A triangle, and on the other side what is no number: nobody may use it. */
static matrix make_triangle(test_rng *rng, int64_t n, bool lower)
{
    matrix t = make(rng, n, n);
    fill(rng, &t, 1);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            if (lower ? j > i : j < i) {
                *element(&t, i, j) = (double)NAN;
            }
        }
        *element(&t, i, i) = (double)(1 << test_between(rng, 0, 2));
    }
    return t;
}

static matrix copy(const matrix *m)
{
    matrix c = *m;
    c.all = malloc(size_of(m) * sizeof(double));
    assert_non_null(c.all);
    memcpy(c.all, m->all, size_of(m) * sizeof(double));
    c.at = c.all + (m->at - m->all);
    return c;
}

/* The whole of the larger ones: what is outside as well. */
static void expect_equal(const matrix *m, const matrix *want)
{
    for (size_t i = 0; i < size_of(m); i++) {
        if (!(m->all[i] == want->all[i]) && !(isnan(m->all[i]) && isnan(want->all[i]))) {
            const int64_t at = (int64_t)i - (m->at - m->all);
            fail_msg("%" PRId64 " x %" PRId64 ", place %" PRId64 " (row %" PRId64 "): %g, not %g",
                     m->rows, m->columns, at, at / m->ld, m->all[i], want->all[i]);
        }
    }
}

static void drop(const matrix *m)
{
    free(m->all);
}

static int64_t some_size(test_rng *rng)
{
    return test_between(rng, 0, 3) ? test_between(rng, 1, 40) : test_between(rng, 1, 110);
}

/* ---- Products ------------------------------------------------------------------------------ */

typedef struct product {
    bool turn_b;
    int64_t m, n, k;
    double alpha, beta;
    matrix a, b, c, want;
} product;

/* `plain`: without what sgemm cannot do. */
static product make_product(test_rng *rng, int64_t k, bool plain)
{
    product p = {.turn_b = !plain && test_between(rng, 0, 1) != 0,
                 .m = some_size(rng),
                 .n = some_size(rng),
                 .k = k,
                 .alpha = plain ? 1 : (double)test_between(rng, -2, 2),
                 .beta = (double)test_between(rng, -1, 2)};
    p.a = make(rng, p.m, k);
    p.b = p.turn_b ? make(rng, p.n, k) : make(rng, k, p.n);
    p.c = make(rng, p.m, p.n);
    fill(rng, &p.a, 9);
    fill(rng, &p.b, 9);
    fill(rng, &p.c, 9);
    p.want = copy(&p.c);
    for (int64_t i = 0; i < p.m; i++) {
        for (int64_t j = 0; j < p.n; j++) {
            double sum = 0;
            for (int64_t q = 0; q < k; q++) {
                sum += *element(&p.a, i, q) *
                       (p.turn_b ? *element(&p.b, j, q) : *element(&p.b, q, j));
            }
            *element(&p.want, i, j) = p.alpha * sum + p.beta * *element(&p.c, i, j);
            if (p.beta == 0) { /* what was there does not count, whatever it was */
                *element(&p.c, i, j) = (double)NAN;
            }
        }
    }
    return p;
}

static void drop_product(const product *p)
{
    drop(&p->a);
    drop(&p->b);
    drop(&p->c);
    drop(&p->want);
}

/* Several panels below each other, and more than small products take. */
static int64_t some_depth(test_rng *rng, uint64_t i)
{
    return i % 16 == 0 ? 600 : i % 16 < 3 ? test_between(rng, 120, 256) : some_size(rng);
}

static void test_dgemm(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    for (uint64_t i = 0; i < test_effort(150); i++) {
        const product p = make_product(&rng, some_depth(&rng, i), false);
        blas_small_set_lanes(i % 2 ? 4 : 8);
        blas_dgemm(p.turn_b, p.m, p.n, p.k, p.alpha, p.a.at, p.a.ld, p.b.at, p.b.ld, p.beta, p.c.at,
                   p.c.ld);
        expect_equal(&p.c, &p.want);
        drop_product(&p);
    }
    blas_small_set_lanes(8);
}

/* Memory of exactly its size, for the address sanitizer to see what is read. */
static void test_dgemm_reads_nothing_else(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    for (int64_t n = 1; n < 30; n++) {
        const size_t size = (size_t)(n * n);
        double *a = malloc(size * sizeof *a), *b = malloc(size * sizeof *b);
        double *c = malloc(size * sizeof *c);
        assert_true(a && b && c);
        for (size_t i = 0; i < size; i++) {
            a[i] = (double)test_between(&rng, -9, 9);
            b[i] = (int64_t)i / n == (int64_t)i % n; /* the unit matrix */
        }
        blas_dgemm(n % 2, n, n, n, 1, a, n, b, n, 0, c, n);
        for (size_t i = 0; i < size; i++) {
            assert_true(c[i] == a[i]);
        }
        free(a);
        free(b);
        free(c);
    }
}

static void test_gemm_of_no_depth(void **state)
{
    (void)state;
    double c[] = {1, 2, 3, 4};
    float d[] = {1, 2, 3, 4};
    blas_dgemm(false, 2, 2, 0, 1, c, 2, c, 2, 3, c, 2);
    blas_sgemm(2, 2, 0, d, 2, d, 2, 0, d, 2);
    for (int i = 0; i < 4; i++) {
        assert_true(c[i] == 3 * (i + 1) && d[i] == 0);
    }
}

/* The same in single precision: copied there and back. */
static float *narrow(const matrix *m)
{
    float *narrowed = malloc(size_of(m) * sizeof(float));
    assert_non_null(narrowed);
    for (size_t i = 0; i < size_of(m); i++) {
        narrowed[i] = (float)m->all[i];
    }
    return narrowed;
}

static void test_single(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    for (uint64_t i = 0; i < test_effort(150); i++) {
        const product p = make_product(&rng, i % 16 ? some_size(&rng) : 600, true);
        float *a = narrow(&p.a), *b = narrow(&p.b), *c = narrow(&p.c);
        const ptrdiff_t at_a = p.a.at - p.a.all, at_b = p.b.at - p.b.all;
        blas_sgemm(p.m, p.n, p.k, a + at_a, p.a.ld, b + at_b, p.b.ld, (float)p.beta,
                   c + (p.c.at - p.c.all), p.c.ld);
        for (size_t e = 0; e < size_of(&p.c); e++) {
            p.c.all[e] = (double)c[e];
        }
        expect_equal(&p.c, &p.want);
        free(a);
        free(b);
        free(c);
        drop_product(&p);
    }
}

static void test_dsyrk(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    for (uint64_t i = 0; i < test_effort(100); i++) {
        const int64_t n = some_size(&rng), k = some_depth(&rng, i);
        const matrix a = make(&rng, n, k), c = make(&rng, n, n);
        blas_small_set_lanes(i % 2 ? 4 : 8);
        fill(&rng, &a, 9);
        fill(&rng, &c, 9);
        const matrix want = copy(&c);
        for (int64_t r = 0; r < n; r++) {
            for (int64_t s = 0; s <= r; s++) {
                for (int64_t q = 0; q < k; q++) {
                    *element(&want, r, s) -= *element(&a, r, q) * *element(&a, s, q);
                }
            }
        }
        blas_dsyrk(n, k, a.at, a.ld, c.at, c.ld);
        expect_equal(&c, &want);
        drop(&a);
        drop(&c);
        drop(&want);
    }
    blas_small_set_lanes(8);
}

/* ---- Solving --------------------------------------------------------------------------------- */

/* Each begins with the answer and multiplies it out; whole numbers below 2^53 stay exact. */

static void test_dtrsm(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    for (uint64_t i = 0; i < test_effort(200); i++) {
        const int64_t m = some_size(&rng), n = some_size(&rng);
        const int kind = (int)(i % 3); /* right, lower, upper */
        const matrix t = make_triangle(&rng, kind == 1 ? m : n, kind != 2);
        const matrix x = make(&rng, m, n);
        fill(&rng, &x, 9);
        const matrix b = copy(&x);
        for (int64_t r = 0; r < m; r++) {
            for (int64_t s = 0; s < n; s++) {
                double sum = 0;
                if (kind == 1) { /* the diagonal counts as ones */
                    for (int64_t q = 0; q <= r; q++) {
                        sum += (q < r ? *element(&t, r, q) : 1) * *element(&x, q, s);
                    }
                } else {
                    for (int64_t q = 0; q <= s; q++) {
                        sum += *element(&x, r, q) *
                               (kind == 0 ? *element(&t, s, q) : *element(&t, q, s));
                    }
                }
                *element(&b, r, s) = sum;
            }
        }
        (kind == 0   ? blas_dtrsm_right
         : kind == 1 ? blas_dtrsm_lower
                     : blas_dtrsm_upper)(m, n, t.at, t.ld, b.at, b.ld);
        expect_equal(&b, &x);
        drop(&t);
        drop(&x);
        drop(&b);
    }
}

typedef int64_t dpotrf(int64_t n, double *a, int64_t lda);

static void expect_potrf(test_rng *rng, dpotrf *run, bool negative)
{
    const int64_t n = some_size(rng), row = test_between(rng, 0, n - 1);
    const matrix l = make_triangle(rng, n, true), a = copy(&l);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j <= i; j++) {
            double sum = 0;
            for (int64_t q = 0; q <= j; q++) {
                sum += *element(&l, i, q) * *element(&l, j, q);
            }
            *element(&a, i, j) = sum;
        }
    }
    if (negative) {
        /* Exactly zero is the least that is wrong. */
        *element(&a, row, row) -= *element(&l, row, row) * *element(&l, row, row);
        assert_int_equal(run(n, a.at, a.ld), row + 1);
    } else {
        assert_int_equal(run(n, a.at, a.ld), 0);
        expect_equal(&a, &l);
    }
    drop(&l);
    drop(&a);
}

static void test_dpotrf(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    for (uint64_t i = 0; i < test_effort(100); i++) {
        expect_potrf(&rng, blas_dpotrf, i % 4 == 0);
    }
    for (uint64_t i = 0; i < test_effort(50); i++) {
        expect_potrf(&rng, blas_library_dpotrf, i % 4 == 0);
    }
}

static void test_dpotrf_of_no_number(void **state)
{
    (void)state;
    double a[] = {4, 0, 0, 0, (double)NAN, 0, 0, 0, 4};
    assert_int_equal(blas_dpotrf(3, a, 3), 2);
}

static void expect_getrf(test_rng *rng, bool zero)
{
    const int64_t n = some_size(rng), row = test_between(rng, 0, n - 1);
    const matrix want = make(rng, n, n), a = copy(&want);
    fill(rng, &want, 1);
    for (int64_t i = 0; i < n; i++) {
        const int64_t pivot = 1 << test_between(rng, 0, 2);
        *element(&want, i, i) = (double)(test_between(rng, 0, 1) ? pivot : -pivot);
    }
    if (zero) {
        *element(&want, row, row) = 0;
    }
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t q = 0; q <= i && q <= j; q++) {
                sum += (q < i ? *element(&want, i, q) : 1) * *element(&want, q, j);
            }
            *element(&a, i, j) = sum;
        }
    }
    assert_int_equal(blas_dgetrf(n, a.at, a.ld), zero ? row + 1 : 0);
    if (!zero) {
        expect_equal(&a, &want);
    }
    drop(&want);
    drop(&a);
}

static void test_dgetrf(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    for (uint64_t i = 0; i < test_effort(100); i++) {
        expect_getrf(&rng, i % 4 == 0);
    }
}

/* ---- Threads ------------------------------------------------------------------------------- */

enum { SIDE = 300 }; /* large enough for the library, where there is one */

static void *multiply(void *out)
{
    double *a = malloc(2 * SIDE * SIDE * sizeof *a), *b = a + SIDE * SIDE;
    for (int64_t i = 0; a && i < SIDE * SIDE; i++) {
        a[i] = (double)(i % 7);
        b[i] = (double)(i % 11);
    }
    for (int i = 0; a && i < 3; i++) {
        blas_dgemm(true, SIDE, SIDE, SIDE, 1, a, SIDE, b, SIDE, 0, out, SIDE);
    }
    free(a);
    return a ? out : NULL;
}

static void test_threads_at_once(void **state)
{
    (void)state;
    enum { THREADS = 8, SIZE = SIDE * SIDE };
    pthread_t threads[THREADS];
    double *c = calloc((THREADS + 1) * SIZE, sizeof *c);
    assert_non_null(c);
    assert_non_null(multiply(c + THREADS * SIZE));
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, multiply, c + i * SIZE), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *result;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_non_null(result);
        assert_memory_equal(c + i * SIZE, c + THREADS * SIZE, SIZE * sizeof *c);
    }
    free(c);
}

static int start(void **state)
{
    (void)state;
    print_message("%s\n", blas_start());
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dgemm),
        cmocka_unit_test(test_dgemm_reads_nothing_else),
        cmocka_unit_test(test_gemm_of_no_depth),
        cmocka_unit_test(test_single),
        cmocka_unit_test(test_dsyrk),
        cmocka_unit_test(test_dtrsm),
        cmocka_unit_test(test_dpotrf),
        cmocka_unit_test(test_dpotrf_of_no_number),
        cmocka_unit_test(test_dgetrf),
        cmocka_unit_test(test_threads_at_once),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
