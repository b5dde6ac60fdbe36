/* form.h - what a tensor is but for its memory: element type, sizes and strides.
 *
 * Programs use few forms, over and over. So each is written down once and has a number from then on:
 * an argument of a task is an address and a number, and two tensors are of the same form if the
 * numbers are the same.
 *
 *     records, in units of one line of cache; the number of a form is that of its first unit
 *
 *       0        1            2            3                         4
 *       [ none ] [ 4x4, f32 ] [ 8x8, f32 ] [ 2x3x4x5, f16 ......... ] ...
 *
 * Records are only ever added, by one thread, and never changed. When there is no room for another
 * the form has no number, and whoever needs it keeps it himself.
 */
#ifndef PTOI_FORM_H
#define PTOI_FORM_H

#include <string.h>

#include <pto/tensor.h>

#define PTOI_FORM_UNIT UINT64_C(64)
#define PTOI_FORM_UNITS 65536u /* so that a number has 16 bits */
#define PTOI_FORM_BYTES (PTOI_FORM_UNITS * PTOI_FORM_UNIT)
#define PTOI_FORM_SEATS (2u * PTOI_FORM_UNITS) /* of the table: at most half of them are taken */

typedef struct ptoi_form {
    int32_t ndim; /* as in a tensor, where the two stand together as well */
    pto_dtype dtype;
    uint64_t dense; /* bytes, if they lie together in order; 0 if not, or if there are none */
    int64_t dims[]; /* ndim sizes, then ndim strides */
} ptoi_form;

_Static_assert(sizeof(ptoi_form) == 16 && offsetof(ptoi_form, dtype) == 4 &&
                   offsetof(pto_tensor, dtype) == offsetof(pto_tensor, ndim) + 4 &&
                   sizeof(pto_dtype) == 4,
               "ndim and dtype are compared as one word");

typedef struct ptoi_forms {
    char *records;   /* PTOI_FORM_BYTES, zeroed */
    uint16_t *table; /* numbers by hash, PTOI_FORM_SEATS of them, zeroed; 0: free */
    uint32_t used;   /* units, but for the first */
} ptoi_forms;

/* Bytes of a form with so many dims. */
static inline uint64_t ptoi_form_bytes(int32_t ndim)
{
    return sizeof(ptoi_form) + 16 * (uint64_t)(uint32_t)ndim;
}

static inline const ptoi_form *ptoi_form_record(const char *records, uint32_t number)
{
    return (const ptoi_form *)(const void *)(records + number * PTOI_FORM_UNIT);
}

/* Two words, looked at at once where the machine can. */
typedef uint64_t ptoi_words __attribute__((vector_size(16)));

static inline ptoi_words ptoi_load_words(const void *from)
{
    ptoi_words pair;
    memcpy(&pair, from, sizeof pair);
    return pair;
}

static inline ptoi_words ptoi_differ(const void *a, const void *b)
{
    return ptoi_load_words(a) ^ ptoi_load_words(b);
}

/* Whether sizes and strides are those of the tensor, whose ndim is the same. */
bool ptoi_form_has_dims(const ptoi_form *form, const pto_tensor *t);

/* Whether the tensor, which may be any nonsense, is of this form, and `others` is zero: one branch
 * for both where there are two dims, as most have. */
static inline bool ptoi_form_is_and(const ptoi_form *form, const pto_tensor *t, ptoi_words others)
{
    uint64_t a, b;
    memcpy(&a, form, sizeof a);
    memcpy(&b, &t->ndim, sizeof b);
    if (__builtin_expect(form->ndim == 2, 1)) {
        others |= ptoi_differ(form->dims, t->shape) | ptoi_differ(form->dims + 2, t->strides);
        return !((a ^ b) | others[0] | others[1]);
    }
    return !((a ^ b) | others[0] | others[1]) && ptoi_form_has_dims(form, t);
}

static inline bool ptoi_form_is(const ptoi_form *form, const pto_tensor *t)
{
    return ptoi_form_is_and(form, t, (ptoi_words){0, 0});
}

/* Whether so many more forms may be too many. */
static inline bool ptoi_forms_are_few(const ptoi_forms *forms, size_t more)
{
    const uint64_t most = (ptoi_form_bytes(PTO_MAX_DIMS) + PTOI_FORM_UNIT - 1) / PTOI_FORM_UNIT;
    return more + 1 >= (PTOI_FORM_UNITS - forms->used) / most;
}

/* Writes down the form of a tensor whose ndim is right. */
void ptoi_form_write(ptoi_form *form, const pto_tensor *t);

/* The number of the tensor's form; 0 if it has none. ndim must be right. */
uint32_t ptoi_form_find(const ptoi_forms *forms, const pto_tensor *t);

/* The same, and it gets one if it has none and there is room. */
uint32_t ptoi_form_number(ptoi_forms *forms, const pto_tensor *t);

/* Whether what is written down is sound, and found. */
pto_status ptoi_forms_check(const ptoi_forms *forms);

#endif /* PTOI_FORM_H */
