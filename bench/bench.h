/* bench.h - what all benches share: a clock, medians, bars.
 *
 * A bench prints a table and ends with one BAR line for each promised figure. Its exit status is 1
 * if one of them is missed.
 */
#ifndef PTO_BENCH_H
#define PTO_BENCH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline double bench_now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static inline int bench_compare_(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median; sorts the array. */
static inline double bench_median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, bench_compare_);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* Keeps the compiler from dropping a result, or from moving work across this line. */
static inline void bench_keep(uint64_t value)
{
    __asm__ volatile("" : : "r"(value) : "memory");
}

/* Prints "BAR name: 12.3 ns (want <= 40) ok". Returns whether the bar holds. */
static inline bool bench_bar_at_most(const char *name, double figure, const char *unit, double want)
{
    bool ok = figure <= want;
    printf("BAR %s: %.1f%s%s (want <= %g) %s\n", name, figure, *unit ? " " : "", unit, want,
           ok ? "ok" : "short");
    return ok;
}

static inline bool bench_bar_at_least(const char *name, double figure, const char *unit,
                                      double want)
{
    bool ok = figure >= want;
    printf("BAR %s: %.2f%s%s (want >= %g) %s\n", name, figure, *unit ? " " : "", unit, want,
           ok ? "ok" : "short");
    return ok;
}

/* "BAR name: ratio 3.21 (want >= 3.0) ok"; `label` says what is divided. */
static inline bool bench_bar_ratio(const char *name, const char *label, double ratio, double want)
{
    bool ok = ratio >= want;
    printf("BAR %s: %s %.2f (want >= %.1f) %s\n", name, label, ratio, want, ok ? "ok" : "short");
    return ok;
}

#endif /* PTO_BENCH_H */
