/* prototype.c - calling C functions by their prototype.
 *
 * No library for foreign functions is needed: in the calling conventions of x86-64 and aarch64 (System V,
 * AAPCS64), integers and pointers fill one sequence of registers and then the stack, and floating-point
 * numbers another sequence of registers. So one call with the most of both serves every function that takes
 * fewer. It is limited to 8 floating-point numbers, which all are in registers.
 */
#include <string.h>

#include "binding.h"

#define MOST_WORDS 24
#define FEW_WORDS 10 /* most functions have no more */
#define MOST_NUMBERS 8

typedef int64_t (*words_fn)(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                            int64_t, int64_t);
typedef int64_t (*few_fn)(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                          int64_t, int64_t, double, double, double, double, double, double, double,
                          double);
typedef int64_t (*any_fn)(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                          int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                          int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                          double, double, double, double, double, double, double, double);

static double as_float_register(double value)
{
    const float narrow = (float)value;
    uint32_t bits;
    uint64_t wide;
    double placed;
    memcpy(&bits, &narrow, sizeof bits);
    wide = bits;
    memcpy(&placed, &wide, sizeof placed);
    return placed;
}

static int64_t call_words(const Kernel *k, const int64_t *w)
{
    words_fn fn;
    memcpy(&fn, &k->address, sizeof fn);
    return fn(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9]);
}

static int64_t call_few(const Kernel *k, const int64_t *w, const double *f)
{
    few_fn fn;
    memcpy(&fn, &k->address, sizeof fn);
    return fn(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], f[0], f[1], f[2], f[3],
              f[4], f[5], f[6], f[7]);
}

static int64_t call_many(const Kernel *k, const int64_t *w, const double *f)
{
    any_fn fn;
    memcpy(&fn, &k->address, sizeof fn);
    return fn(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12],
              w[13], w[14], w[15], w[16], w[17], w[18], w[19], w[20], w[21], w[22], w[23], f[0],
              f[1], f[2], f[3], f[4], f[5], f[6], f[7]);
}

atomic_uint prototype_failures;

pto_status kernel_call_prototype(const pto_call *call)
{
    const Kernel *k = call->user;
    int64_t w[MOST_WORDS]; /* what is not set is passed, and not looked at */
    double f[MOST_NUMBERS];
    const bool few = k->words <= FEW_WORDS;
    memset(w, 0, FEW_WORDS * sizeof *w);
    if (!few) {
        memset(w + FEW_WORDS, 0, sizeof w - FEW_WORDS * sizeof *w);
    }
    if (!few || k->numbers) {
        memset(f, 0, sizeof f);
    }
    int words = 0, numbers = 0;
    for (uint32_t i = 0; i < call->n_args; i++) {
        const pto_arg *arg = &call->args[i];
        const Parameter *p = &k->parameters[i];
        if (p->kind != 's') {
            w[words++] = (int64_t)(uintptr_t)arg->data;
            if (!p->dense) {
                w[words++] = (int64_t)(uintptr_t)arg->shape;
                w[words++] = (int64_t)(uintptr_t)arg->strides;
            }
        } else if (p->dtype->as == PTO_FLOAT64) {
            f[numbers++] = pto_arg_f64(arg);
        } else if (p->dtype->as == PTO_FLOAT32) {
            f[numbers++] = as_float_register(pto_arg_f64(arg));
        } else {
            w[words++] = arg->i64;
        }
    }
    if (k->stream) {
        w[words] = (int64_t)(uintptr_t)call->stream;
    }
    const int64_t result = few && !k->numbers ? call_words(k, w)
                           : few              ? call_few(k, w, f)
                                              : call_many(k, w, f);
    if (k->result != 'i' || (int32_t)result == 0) {
        return PTO_OK;
    }
    atomic_fetch_add_explicit(&prototype_failures, 1, memory_order_relaxed);
    return pto_fail(PTO_KERNEL_FAILED, "%s returned %d", k->name, (int)(int32_t)result);
}

bool prototype_check(Kernel *k)
{
    int words = k->stream, numbers = 0;
    for (int i = 0; i < k->count; i++) {
        const Parameter *p = &k->parameters[i];
        const bool number = p->kind == 's' && p->dtype &&
                            (p->dtype->as == PTO_FLOAT64 || p->dtype->as == PTO_FLOAT32);
        numbers += number;
        words += number ? 0 : p->kind == 's' || p->dense ? 1 : 3;
    }
    if (words > MOST_WORDS || numbers > MOST_NUMBERS) {
        PyErr_Format(
            PyExc_ValueError,
            "%s: %d pointers and integers and %d floating-point numbers: at most %d and %d "
            "can be passed; use the kernel signature of pto/kernel.h",
            k->name, words, numbers, MOST_WORDS, MOST_NUMBERS);
        return false;
    }
    k->words = (uint8_t)words;
    k->numbers = (uint8_t)numbers;
    return true;
}
