/* The canonical form of a view: its invariants, its bytes, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "tensor/layout.h"
#include "views.h"

static pto_tensor tensor(pto_dtype dtype, int32_t ndim, const int64_t *shape,
                         const int64_t *strides, int64_t offset)
{
    pto_tensor t;
    assert_int_equal(
        pto_tensor_init(&t, view_arena, sizeof view_arena, dtype, ndim, shape, strides, offset),
        PTO_OK);
    return t;
}

static ptoi_layout layout(const pto_tensor *t)
{
    ptoi_layout l;
    bool empty = true;
    memset(&l, 0xee, sizeof l);
    assert_int_equal(ptoi_layout_of(t, &l, &empty), PTO_OK);
    assert_false(empty);
    if (ptoi_layout_check(&l) != PTO_OK) {
        fail_msg("%s", pto_error_detail());
    }
    return l;
}

/* Asserts run, k and the dims of a layout: pairs of n, s. */
static void assert_form(const pto_tensor *t, uint64_t run, uint32_t k, const uint64_t *dims)
{
    ptoi_layout l = layout(t);
    assert_int_equal(l.run, run);
    assert_int_equal(l.k, k);
    for (uint32_t j = 0; j < k; j++) {
        assert_int_equal(l.dim[j].n, dims[2 * j]);
        assert_int_equal(l.dim[j].s, dims[2 * j + 1]);
    }
}

#define LIST(...) ((const int64_t[]){__VA_ARGS__})
#define DIMS(...) ((const uint64_t[]){__VA_ARGS__})

static void each_rule(void **state)
{
    (void)state;
    pto_tensor t = tensor(PTO_FLOAT32, 2, LIST(4, 8), NULL, 3); /* dense */
    assert_form(&t, 128, 0, NULL);
    assert_int_equal(layout(&t).lo, (uint64_t)(uintptr_t)view_arena + 12);
    t = tensor(PTO_FLOAT32, 0, NULL, NULL, 3); /* a scalar */
    assert_form(&t, 4, 0, NULL);
    t = tensor(PTO_FLOAT32, 2, LIST(4, 3), LIST(8, 1), 0); /* a tile */
    assert_form(&t, 12, 1, DIMS(4, 32));
    t = tensor(PTO_FLOAT32, 2, LIST(3, 4), LIST(1, 8), 0); /* the same transposed */
    assert_form(&t, 12, 1, DIMS(4, 32));
    t = tensor(PTO_FLOAT32, 2, LIST(4, 3), LIST(-8, -1), 26); /* the same from its end */
    assert_form(&t, 12, 1, DIMS(4, 32));
    assert_int_equal(layout(&t).lo, (uint64_t)(uintptr_t)view_arena);
    t = tensor(PTO_INT8, 4, LIST(2, 1, 5, 3), LIST(20, 99, 0, 2), 0); /* ones and zeros drop */
    assert_form(&t, 1, 2, DIMS(2, 20, 3, 2));
    t = tensor(PTO_INT8, 3, LIST(2, 5, 3), LIST(50, 10, 1), 0); /* one progression */
    assert_form(&t, 3, 1, DIMS(10, 10));
    t = tensor(PTO_INT8, 3, LIST(3, 3, 2), LIST(8, 8, 1), 0); /* equal strides */
    assert_form(&t, 2, 1, DIMS(5, 8));
    t = tensor(PTO_INT8, 2, LIST(3, 4), LIST(8, 4), 0); /* half overlapping rows */
    assert_form(&t, 1, 1, DIMS(8, 4));
    t = tensor(PTO_INT8, 2, LIST(4, 9), LIST(5, 1), 0); /* overlapping rows of a run */
    assert_form(&t, 24, 0, NULL);
    t = tensor(PTO_INT8, 3, LIST(2, 9, 3), LIST(7, 2, 1), 0); /* absorb, absorb, absorb */
    assert_form(&t, 26, 0, NULL);
    t = tensor(PTO_INT8, 3, LIST(3, 2, 2), LIST(20, 11, 10), 0); /* 20 is 2 * 10: no neighbours */
    assert_form(&t, 1, 3, DIMS(3, 20, 2, 11, 2, 10));
    t = tensor(PTO_INT8, 3, LIST(2, 2, 2), LIST(7, 5, 3), 0); /* folded */
    assert_form(&t, 1, 3, DIMS(2, 7, 2, 5, 2, 3));
    assert_false(layout(&t).nested);
    t = tensor(PTO_INT8, 3, LIST(2, 2, 2), LIST(16, 8, 3), 0); /* rows of 8 that touch nothing */
    assert_form(&t, 1, 2, DIMS(4, 8, 2, 3));
    assert_true(layout(&t).nested);
    t = tensor(PTO_INT8, 3, LIST(2, 2, 4), LIST(16, 12, 1), 0); /* rows that touch */
    assert_form(&t, 4, 2, DIMS(2, 16, 2, 12));
    assert_true(layout(&t).nested);
    t = tensor(PTO_FLOAT64, 8, LIST(2, 2, 2, 2, 2, 2, 2, 2), LIST(0, 0, 0, 0, 0, 32, 8, 2), 0);
    assert_form(&t, 8, 3, DIMS(2, 256, 2, 64, 2, 16));
}

static void managed_memory_counts_from_its_block(void **state)
{
    (void)state;
    pto_tensor t = tensor(PTO_FLOAT32, 1, LIST(4), NULL, 5);
    t.owner = 7;
    assert_int_equal(layout(&t).lo, 20);
    t.storage = NULL; /* not placed yet */
    assert_int_equal(layout(&t).lo, 20);
    t.strides[0] = -1;
    assert_int_equal(layout(&t).lo, 8);
    t.owner = 0;
    ptoi_layout l;
    bool empty;
    assert_int_equal(ptoi_layout_of(&t, &l, &empty), PTO_NULL_ARGUMENT);
}

static void empty_views(void **state)
{
    (void)state;
    ptoi_layout l;
    bool empty;
    pto_tensor t = tensor(PTO_FLOAT32, 3, LIST(4, 0, 2), NULL, 5);
    assert_int_equal(ptoi_layout_of(&t, &l, &empty), PTO_OK);
    assert_true(empty);
    t = tensor(PTO_FLOAT32, 3, LIST(0, 4, 2), LIST(-1, 1, 900), 5);
    assert_int_equal(ptoi_layout_of(&t, &l, &empty), PTO_OK);
    assert_true(empty);
    t.storage = NULL;
    t.storage_bytes = 0;
    t.offset = 0;
    assert_int_equal(ptoi_layout_of(&t, &l, &empty), PTO_OK);
    assert_true(empty);
}

/* Whatever is wrong, the status is that of pto_tensor_check, and there is a detail. */
static void refused(const pto_tensor *t)
{
    ptoi_layout l;
    bool empty = true;
    pto_status status = ptoi_layout_of(t, &l, &empty);
    assert_int_not_equal(status, PTO_OK);
    assert_int_equal(status, pto_tensor_check(t));
    assert_true(pto_error_detail()[0] != '\0');
}

static void unsound_tensors(void **state)
{
    (void)state;
    pto_tensor sound = tensor(PTO_FLOAT32, 3, LIST(2, 4, 8), LIST(40, 8, 1), 0), t;
    refused(NULL);
    t = sound, t.dtype = PTO_DTYPE_NONE, refused(&t);
    t = sound, t.dtype = (pto_dtype)12, refused(&t);
    t = sound, t.dtype = (pto_dtype)-1, refused(&t);
    t = sound, t.ndim = -1, refused(&t);
    t = sound, t.ndim = 9, refused(&t);
    t = sound, t.offset = -1, refused(&t);
    t = sound, t.offset = 57, refused(&t);
    t = sound, t.offset = INT64_MAX, refused(&t);
    t = sound, t.storage_bytes = 287, refused(&t);
    t = sound, t.storage_bytes = UINT64_MAX, refused(&t);
    t = sound, t.storage = NULL, refused(&t);
    t = sound, t.storage = (void *)(UINTPTR_MAX - 100), refused(&t);
    for (int d = 0; d < 3; d++) {
        t = sound, t.shape[d] = -1, refused(&t);
        t = sound, t.shape[d] = INT64_MIN, refused(&t);
        t = sound, t.shape[d] = INT64_MAX, refused(&t);
        t = sound, t.shape[d] = 129, refused(&t);
        t = sound, t.strides[d] = -1, refused(&t);
        t = sound, t.strides[d] = 4096, refused(&t);
        t = sound, t.strides[d] = INT64_MAX, refused(&t);
        t = sound, t.strides[d] = INT64_MIN, refused(&t);
        t = sound, t.strides[d] = INT64_MAX / 8, t.shape[d] = 2, refused(&t);
    }
    /* More elements than can be counted, all of them in one place. */
    t = sound, t.shape[0] = t.shape[1] = t.shape[2] = INT64_C(1) << 40;
    t.strides[0] = t.strides[1] = t.strides[2] = 0;
    refused(&t);
    t.shape[1] = t.shape[2] = 1;
    assert_form(&t, 4, 0, NULL);
}

/* A storage of 2^63 - 1 bytes: the largest there is. */
static void largest_storage(void **state)
{
    (void)state;
    pto_tensor t;
    void *base = (void *)(uintptr_t)1;
    uint64_t bytes = INT64_MAX;
    assert_int_equal(pto_tensor_init(&t, base, bytes, PTO_INT8, 1, LIST(INT64_MAX), NULL, 0),
                     PTO_OK);
    assert_form(&t, bytes, 0, NULL);
    assert_int_equal(
        pto_tensor_init(&t, base, bytes, PTO_INT8, 1, LIST(2), LIST(1 - INT64_MAX), INT64_MAX - 1),
        PTO_OK);
    assert_form(&t, 1, 1, DIMS(2, (uint64_t)INT64_MAX - 1));
    assert_int_equal(layout(&t).lo, 1);
    assert_int_equal(layout(&t).len, bytes);
    assert_int_equal(pto_tensor_init(&t, (void *)(uintptr_t)(UINT64_MAX - bytes), bytes, PTO_INT64,
                                     2, LIST(2, 3), LIST(INT64_C(1) << 59, INT64_C(1) << 57), 0),
                     PTO_OK);
    assert_form(&t, 8, 2, DIMS(2, UINT64_C(1) << 62, 3, UINT64_C(1) << 60));
}

/* ---- Random views ----------------------------------------------------------------------- */

static void shuffle_and_flip(test_rng *rng, pto_tensor *t)
{
    for (int32_t d = t->ndim - 1; d > 0; d--) {
        int32_t e = (int32_t)view_pick(rng, d + 1);
        int64_t n = t->shape[d], s = t->strides[d];
        t->shape[d] = t->shape[e], t->strides[d] = t->strides[e];
        t->shape[e] = n, t->strides[e] = s;
    }
    for (int32_t d = 0; d < t->ndim; d++) {
        if (view_pick(rng, 2) && t->shape[d] > 0) {
            t->offset += (t->shape[d] - 1) * t->strides[d];
            t->strides[d] = -t->strides[d];
        }
    }
}

/* The bytes of a layout, by walking its dims; `origin` is where bit 0 of the bitmap stands. */
static void draw_layout(const ptoi_layout *l, uint64_t origin, uint64_t *bits)
{
    uint64_t index[PTO_MAX_DIMS] = {0};
    memset(bits, 0, VIEW_WORDS * sizeof *bits);
    for (;;) {
        uint64_t at = l->lo - origin;
        for (uint32_t j = 0; j < l->k; j++) {
            at += index[j] * l->dim[j].s;
        }
        for (uint64_t b = at; b < at + l->run; b++) {
            bits[b / 64] |= UINT64_C(1) << (b % 64);
        }
        uint32_t j = 0;
        for (; j < l->k; j++) {
            if (++index[j] < l->dim[j].n) {
                break;
            }
            index[j] = 0;
        }
        if (j == l->k) {
            return;
        }
    }
}

static void check_successor(const ptoi_layout *l, uint64_t origin, const view *v)
{
    uint64_t want = VIEW_ARENA; /* going down: the lowest byte at or after `at` */
    for (uint64_t at = VIEW_ARENA; at-- > 0;) {
        want = view_bit(v, at) ? at : want;
        uint64_t found = 0;
        bool any = ptoi_layout_successor(l, origin + at, &found);
        assert_int_equal(any, want < VIEW_ARENA);
        if (any) {
            assert_int_equal(found - origin, want);
        }
    }
}

static void random_views(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    uint64_t count = test_effort(300000), folded = 0, dims[PTO_MAX_DIMS + 1] = {0};
    for (uint64_t i = 0; i < count; i++) {
        view v;
        view_family family = view_family_make(&rng, (view_kind)(i % VIEW_KINDS));
        view_random(&rng, &family, &v);
        if (pto_tensor_numel(&v.t) == 0) {
            continue;
        }
        ptoi_layout l = layout(&v.t);
        uint64_t origin = v.t.owner ? 0 : (uint64_t)(uintptr_t)view_arena, bits[VIEW_WORDS];
        draw_layout(&l, origin, bits);
        assert_memory_equal(bits, v.bits, sizeof bits);

        pto_tensor other = v.t;
        shuffle_and_flip(&rng, &other);
        ptoi_layout m = layout(&other);
        assert_true(ptoi_layout_equal(&l, &m));
        assert_int_equal(l.nested, m.nested);
        if (l.nested && i % 16 == 0) {
            check_successor(&l, origin, &v);
        }
        folded += !l.nested;
        dims[l.k]++;
    }
    assert_true(folded > count / 100);
    for (int k = 0; k <= 4; k++) {
        assert_true(dims[k] > 0);
    }
}

/* ---- The other functions ---------------------------------------------------------------- */

static void equal_means_every_field(void **state)
{
    (void)state;
    pto_tensor t = tensor(PTO_FLOAT32, 3, LIST(2, 3, 2), LIST(40, 8, 1), 0);
    ptoi_layout a = layout(&t), b = a;
    assert_true(ptoi_layout_equal(&a, &b));
    b.dim[5].n = 99; /* past k: does not count */
    assert_true(ptoi_layout_equal(&a, &b));
    b = a, b.lo++, assert_false(ptoi_layout_equal(&a, &b));
    b = a, b.len++, assert_false(ptoi_layout_equal(&a, &b));
    b = a, b.run++, assert_false(ptoi_layout_equal(&a, &b));
    b = a, b.k--, assert_false(ptoi_layout_equal(&a, &b));
    b = a, b.dim[1].n++, assert_false(ptoi_layout_equal(&a, &b));
    b = a, b.dim[0].s++, assert_false(ptoi_layout_equal(&a, &b));
}

static void corrupt(const ptoi_layout *l, const char *name)
{
    assert_int_equal(ptoi_layout_check(l), PTO_CORRUPT);
    assert_non_null(strstr(pto_error_detail(), name));
}

static void check_names_the_invariant(void **state)
{
    (void)state;
    ptoi_layout sound = {.lo = 64,
                         .len = 8 + 2 * 16 + 1 * 100,
                         .run = 8,
                         .k = 2,
                         .nested = true,
                         .dim = {{2, 100}, {3, 16}}};
    ptoi_layout l = sound;
    assert_int_equal(ptoi_layout_check(&l), PTO_OK);
    l.run = 0, corrupt(&l, "L1");
    l = sound, l.k = 9, corrupt(&l, "L2");
    l = sound, l.dim[1].n = 1, corrupt(&l, "L2");
    l = sound, l.dim[1].s = 8, corrupt(&l, "L2");
    l = sound, l.dim[0].s = 16, corrupt(&l, "L2");
    l = sound, l.dim[0].n = UINT64_MAX / 4, corrupt(&l, "L3");
    l = sound, l.len++, corrupt(&l, "L3");
    l = sound, l.lo = UINT64_MAX - 10, corrupt(&l, "L3");
    l = sound, l.nested = false, corrupt(&l, "L4");
    l = sound, l.dim[0].s = 39, l.len = 79, corrupt(&l, "L4");
    l = sound, l.dim[0].s = 48, l.len = 88, corrupt(&l, "L5");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rule),
        cmocka_unit_test(managed_memory_counts_from_its_block),
        cmocka_unit_test(empty_views),
        cmocka_unit_test(unsound_tensors),
        cmocka_unit_test(largest_storage),
        cmocka_unit_test(random_views),
        cmocka_unit_test(equal_means_every_field),
        cmocka_unit_test(check_names_the_invariant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
