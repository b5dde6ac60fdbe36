/* views.h - random views for the tests of layouts and overlap, and the very bytes they touch.
 *
 * Views lie in an arena of VIEW_ARENA bytes that nobody reads or writes. A `view` is a tensor and
 * its bitmap: one bit for each byte of the arena (of the block, for managed memory), set by walking
 * all elements. That is the oracle.
 */
#ifndef PTO_TEST_VIEWS_H
#define PTO_TEST_VIEWS_H

#include <pto/tensor.h>

#include <string.h>

#include "support.h"

#define VIEW_ARENA 512
#define VIEW_WORDS (VIEW_ARENA / 64)

typedef struct view {
    pto_tensor t;
    uint64_t bits[VIEW_WORDS];
} view;

static char view_arena[VIEW_ARENA];

static inline bool view_bit(const view *v, uint64_t byte)
{
    return v->bits[byte / 64] >> (byte % 64) & 1;
}

/* The bitmap of v->t. */
static inline void view_draw(view *v)
{
    const pto_tensor *t = &v->t;
    int64_t size = (int64_t)pto_dtype_size(t->dtype), index[PTO_MAX_DIMS] = {0};
    int64_t base = t->owner ? 0 : (int64_t)((char *)t->storage - view_arena);
    uint64_t element = (UINT64_C(1) << size) - 1;
    memset(v->bits, 0, sizeof v->bits);
    for (int32_t d = 0; d < t->ndim; d++) {
        if (t->shape[d] == 0) {
            return;
        }
    }
    int64_t at = t->offset;
    for (;;) {
        uint64_t byte = (uint64_t)(base + at * size);
        v->bits[byte / 64] |= element << (byte % 64);
        if (byte % 64 + (uint64_t)size > 64) {
            v->bits[byte / 64 + 1] |= element >> (64 - byte % 64);
        }
        int32_t d = t->ndim - 1;
        for (; d >= 0; d--) {
            at += t->strides[d];
            if (++index[d] < t->shape[d]) {
                break;
            }
            at -= index[d] * t->strides[d];
            index[d] = 0;
        }
        if (d < 0) {
            return;
        }
    }
}

static inline bool view_meets(const view *a, const view *b)
{
    uint64_t any = 0;
    for (int i = 0; i < VIEW_WORDS; i++) {
        any |= a->bits[i] & b->bits[i];
    }
    return any != 0;
}

static inline bool view_contains(const view *a, const view *b)
{
    uint64_t missing = 0;
    for (int i = 0; i < VIEW_WORDS; i++) {
        missing |= b->bits[i] & ~a->bits[i];
    }
    return missing == 0;
}

/* ---- Making views ----------------------------------------------------------------------- */

static inline int64_t view_pick(test_rng *rng, int64_t count)
{
    return test_between(rng, 0, count - 1);
}

static inline pto_dtype view_dtype(test_rng *rng, int64_t size)
{
    static const pto_dtype of[4][2] = {{PTO_INT8, PTO_BOOL},
                                       {PTO_FLOAT16, PTO_BFLOAT16},
                                       {PTO_FLOAT32, PTO_INT32},
                                       {PTO_FLOAT64, PTO_UINT64}};
    return of[size == 8 ? 3 : size / 2][view_pick(rng, 2)];
}

/* Shape and strides (in bytes, multiples of size) wanted, put somewhere in the arena, in a storage
 * that begins anywhere before the lowest byte. Sizes shrink until they fit. `at` >= 0 is the place
 * of the lowest byte wanted, taken if it fits. */
static inline void view_make(test_rng *rng, view *v, int64_t size, int32_t ndim, int64_t *shape,
                             int64_t *strides, int64_t at)
{
    int64_t span, numel, down;
    for (;;) {
        span = size;
        numel = 1;
        down = 0;
        int32_t widest = 0;
        for (int32_t d = 0; d < ndim; d++) {
            int64_t reach = shape[d] > 0 ? (shape[d] - 1) * strides[d] : 0;
            span += reach < 0 ? -reach : reach;
            down += reach < 0 ? -reach : 0;
            numel *= shape[d] > 0 ? shape[d] : 1;
            widest = shape[d] > shape[widest] ? d : widest;
        }
        if (span <= VIEW_ARENA && numel <= 128) {
            break;
        }
        shape[widest]--;
    }
    if (at < 0 || at + span > VIEW_ARENA) {
        at = view_pick(rng, VIEW_ARENA - span + 1);
    }
    /* The storage begins a whole number of elements before element [0, 0, ...]. */
    int64_t first = at + down, back = test_between(rng, down / size, first / size);
    memset(v, 0, sizeof *v);
    v->t.storage = view_arena + (first - back * size);
    v->t.storage_bytes = (uint64_t)(VIEW_ARENA - (first - back * size));
    v->t.offset = back;
    v->t.dtype = view_dtype(rng, size);
    v->t.ndim = ndim;
    for (int32_t d = 0; d < ndim; d++) {
        v->t.shape[d] = shape[d];
        v->t.strides[d] = strides[d] / size;
    }
    view_draw(v);
}

/* The kinds of families: views of one family have a reason to meet. */
typedef enum view_kind {
    VIEW_UNIFORM, /* anything */
    VIEW_TILE,    /* tiles of one matrix, some with steps, reversed, or permuted */
    VIEW_NEARLY,  /* the same with a stride off by one */
    VIEW_HALO,    /* equal tiles on a grid, grown by a halo */
    VIEW_PANEL,   /* rows, columns, diagonals and all of one matrix */
    VIEW_STEP,    /* 1-D with steps */
    VIEW_FOLDED,  /* views that overlap themselves */
    VIEW_PRIME,   /* few dims of coprime or Fibonacci strides */
    VIEW_BRICK,   /* 4-D blocks in a padded matrix, strides that do not divide */
    VIEW_KINDS
} view_kind;

typedef struct view_family {
    view_kind kind;
    int64_t size;      /* of an element of the matrix */
    int32_t ndim;      /* of the matrix */
    int64_t shape[4];  /* of the matrix */
    int64_t stride[4]; /* of the matrix, in bytes */
    int64_t origin;    /* of the matrix */
} view_family;

static inline view_family view_family_make(test_rng *rng, view_kind kind)
{
    view_family f = {.kind = kind, .size = INT64_C(1) << view_pick(rng, 4)};
    int64_t room = VIEW_ARENA / f.size - view_pick(rng, 8);
    f.ndim = (int32_t)test_between(rng, kind == VIEW_BRICK ? 3 : 2, kind == VIEW_BRICK ? 4 : 3);
    int64_t stride = f.size;
    for (int32_t d = f.ndim - 1; d >= 0; d--) {
        int64_t most = d == 0 ? room : d == f.ndim - 1 ? 12 : 5;
        most = most < room ? most : room;
        f.shape[d] = test_between(rng, most < 2 ? 1 : 2, most < 2 ? 1 : most);
        f.stride[d] = stride;
        room /= f.shape[d];
        stride *= f.shape[d];
        if (kind == VIEW_BRICK && room > 2) { /* a pad that keeps the next stride from dividing */
            stride += f.size * test_between(rng, 1, 2);
            room = (VIEW_ARENA - f.size) / stride;
        }
    }
    f.origin = view_pick(rng, 8);
    return f;
}

/* A box of the matrix of the family. */
static inline void view_of_matrix(test_rng *rng, const view_family *f, view *v, bool full_first,
                                  bool full_last)
{
    int64_t shape[PTO_MAX_DIMS], strides[PTO_MAX_DIMS], at = f->origin, size = f->size;
    int32_t ndim = f->ndim;
    for (int32_t d = 0; d < ndim; d++) {
        bool full = (d == 0 && full_first) || (d == ndim - 1 && full_last);
        int64_t n = full ? f->shape[d] : test_between(rng, 1, f->shape[d]);
        int64_t step = f->kind != VIEW_HALO && view_pick(rng, 4) == 0 ? test_between(rng, 1, 3) : 1;
        if (f->kind == VIEW_HALO && f->shape[d] > 2) {
            n = 3 < f->shape[d] ? 3 : f->shape[d];
        }
        at += f->stride[d] * view_pick(rng, f->shape[d] - n + 1);
        shape[d] = (n + step - 1) / step;
        strides[d] = f->stride[d] * step;
        if (view_pick(rng, 8) == 0) {
            strides[d] = -strides[d];
        }
    }
    if (f->kind == VIEW_NEARLY) {
        strides[view_pick(rng, ndim)] += view_pick(rng, 2) ? size : -size;
    }
    /* Look at the same bytes through smaller elements: one more dim. */
    if (size > 1 && view_pick(rng, 6) == 0) {
        size /= 2;
        shape[ndim] = 2;
        strides[ndim++] = size;
    }
    while (ndim < PTO_MAX_DIMS && view_pick(rng, 8) == 0) { /* broadcast and unit dims */
        shape[ndim] = test_between(rng, 1, 3);
        strides[ndim] = shape[ndim] > 1 ? 0 : size * test_between(rng, -9, 9);
        ndim++;
    }
    for (int32_t d = 0; d < ndim && view_pick(rng, 3) == 0; d++) { /* permute */
        int32_t e = (int32_t)view_pick(rng, ndim);
        int64_t n = shape[d], s = strides[d];
        shape[d] = shape[e], strides[d] = strides[e];
        shape[e] = n, strides[e] = s;
    }
    view_make(rng, v, size, ndim, shape, strides, at);
}

static inline void view_random(test_rng *rng, const view_family *f, view *v)
{
    static const int64_t primes[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47};
    static const int64_t fibonacci[] = {2, 3, 5, 8, 13, 21, 34, 55};
    int64_t shape[PTO_MAX_DIMS] = {0}, strides[PTO_MAX_DIMS] = {0};
    int64_t size = view_pick(rng, 3) ? f->size : INT64_C(1) << view_pick(rng, 4);
    int32_t ndim = 1;
    switch (f->kind) {
    case VIEW_TILE:
    case VIEW_NEARLY:
    case VIEW_HALO:
    case VIEW_BRICK:
        view_of_matrix(rng, f, v, false, false);
        break;
    case VIEW_PANEL:
        view_of_matrix(rng, f, v, view_pick(rng, 2), view_pick(rng, 2));
        break;
    case VIEW_STEP:
        shape[0] = test_between(rng, 1, 40);
        strides[0] = size * test_between(rng, -12, 12);
        view_make(rng, v, size, 1, shape, strides, -1);
        break;
    case VIEW_FOLDED:
        ndim = (int32_t)test_between(rng, 2, 5);
        for (int32_t d = 0; d < ndim; d++) {
            shape[d] = test_between(rng, 1, 4);
            strides[d] = size * test_between(rng, -9, 9);
        }
        view_make(rng, v, size, ndim, shape, strides, -1);
        break;
    case VIEW_PRIME:
        ndim = (int32_t)test_between(rng, 1, 4);
        size = view_pick(rng, 2) ? 1 : size;
        for (int32_t d = 0; d < ndim; d++) {
            shape[d] = test_between(rng, 2, ndim == 1 ? 30 : 6);
            strides[d] = size * (view_pick(rng, 2) ? primes[view_pick(rng, 15)]
                                                   : fibonacci[view_pick(rng, 8)]);
        }
        view_make(rng, v, size, ndim, shape, strides, -1);
        break;
    case VIEW_UNIFORM:
    case VIEW_KINDS:
        ndim = (int32_t)view_pick(rng, PTO_MAX_DIMS + 1);
        for (int32_t d = 0; d < ndim; d++) {
            int64_t far = view_pick(rng, 3) ? 8 : 80;
            shape[d] = test_between(rng, view_pick(rng, 30) ? 1 : 0, ndim > 4 ? 3 : 5);
            strides[d] = size * test_between(rng, -far, far);
        }
        view_make(rng, v, size, ndim, shape, strides, -1);
        break;
    }
    /* Some live in managed blocks, which begin where their storage does. */
    if (view_pick(rng, 24) == 0) {
        v->t.owner = (uint64_t)test_between(rng, 1, 2);
        v->t.generation = (uint32_t)test_between(rng, 1, 2);
        view_draw(v);
    }
}

#endif /* PTO_TEST_VIEWS_H */
