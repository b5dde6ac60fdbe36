/* Overlap and cover: cases one can check by hand, all small views, and numbers at the edge. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support.h"
#include "tensor/overlap.h"

typedef unsigned long long ull;

#define LIST(...) ((const int64_t[]){__VA_ARGS__})

static char arena[4096];

static pto_tensor tensor_at(uint64_t byte, pto_dtype dtype, int32_t ndim, const int64_t *shape,
                            const int64_t *strides)
{
    pto_tensor t;
    assert_int_equal(
        pto_tensor_init(&t, arena + byte, sizeof arena - byte, dtype, ndim, shape, strides, 0),
        PTO_OK);
    return t;
}

static void assert_verdict(const pto_tensor *a, const pto_tensor *b, bool yes,
                           pto_overlap_stage stage)
{
    pto_overlap_result r, back;
    assert_int_equal(pto_tensor_overlaps_ex(a, b, 0, &r), PTO_OK);
    assert_int_equal(pto_tensor_overlaps_ex(b, a, 0, &back), PTO_OK);
    assert_string_equal(pto_overlap_stage_name(r.stage), pto_overlap_stage_name(stage));
    assert_int_equal(r.yes, yes);
    assert_int_equal(back.yes, yes);
    assert_int_equal(back.stage, stage);
    assert_int_equal(pto_tensor_overlaps(a, b), yes);
}

static void assert_cover(const pto_tensor *a, const pto_tensor *b, bool yes,
                         pto_overlap_stage stage)
{
    pto_overlap_result r;
    assert_int_equal(pto_tensor_covers_ex(a, b, 0, &r), PTO_OK);
    assert_string_equal(pto_overlap_stage_name(r.stage), pto_overlap_stage_name(stage));
    assert_int_equal(r.yes, yes);
    assert_int_equal(pto_tensor_covers(a, b), yes);
}

/* ---- By hand ---------------------------------------------------------------------------- */

static void one_case_for_each_stage(void **state)
{
    (void)state;
    pto_tensor row = tensor_at(0, PTO_FLOAT32, 1, LIST(16), NULL);
    pto_tensor next = tensor_at(64, PTO_FLOAT32, 1, LIST(16), NULL);
    pto_tensor shifted = tensor_at(63, PTO_INT8, 1, LIST(2), NULL);
    assert_verdict(&row, &next, false, PTO_STAGE_RANGE);
    assert_verdict(&row, &shifted, true, PTO_STAGE_DENSE);

    pto_tensor none = tensor_at(0, PTO_FLOAT32, 2, LIST(0, 16), NULL);
    assert_verdict(&row, &none, false, PTO_STAGE_EMPTY);
    assert_cover(&row, &none, true, PTO_STAGE_EMPTY);
    assert_cover(&none, &row, false, PTO_STAGE_EMPTY);
    assert_cover(&none, &none, true, PTO_STAGE_EMPTY);

    /* An 8 x 16 matrix of floats, rows of 64 bytes: two columns, one tile, a row and a half. */
    pto_tensor left = tensor_at(0, PTO_FLOAT32, 2, LIST(8, 4), LIST(16, 1));
    pto_tensor right = tensor_at(16, PTO_FLOAT32, 2, LIST(8, 4), LIST(16, 1));
    pto_tensor tile = tensor_at(2 * 64 + 8, PTO_FLOAT32, 2, LIST(3, 4), LIST(16, 1));
    pto_tensor part = tensor_at(3 * 64 + 32, PTO_FLOAT32, 1, LIST(6), NULL);
    assert_verdict(&left, &left, true, PTO_STAGE_SAME);
    assert_verdict(&left, &right, false, PTO_STAGE_GRID);
    assert_verdict(&left, &tile, true, PTO_STAGE_GRID);
    assert_verdict(&right, &tile, true, PTO_STAGE_GRID);
    assert_verdict(&left, &part, false, PTO_STAGE_SUCCESSOR);
    assert_verdict(&right, &part, false, PTO_STAGE_SUCCESSOR);
    pto_tensor inner = tensor_at(2 * 64 + 8, PTO_FLOAT32, 2, LIST(3, 2), LIST(16, 1));
    assert_cover(&left, &inner, true, PTO_STAGE_GRID);
    assert_cover(&left, &tile, false, PTO_STAGE_GRID);
    assert_cover(&tile, &left, false, PTO_STAGE_RANGE);

    /* Steps of 3 and 5 bytes, 7 apart: they meet at 22, unless one of them ends before. */
    pto_tensor threes = tensor_at(10, PTO_INT8, 1, LIST(9), LIST(3));
    pto_tensor fives = tensor_at(17, PTO_INT8, 1, LIST(2), LIST(5));
    assert_verdict(&threes, &fives, true, PTO_STAGE_PROGRESSION);
    fives.shape[0] = 1; /* 17 alone */
    assert_verdict(&threes, &fives, false, PTO_STAGE_SUCCESSOR);
    fives.shape[0] = 4; /* 17 is out, 22 is in */
    assert_cover(&threes, &fives, false, PTO_STAGE_GRID);
    pto_tensor sixes = tensor_at(13, PTO_INT8, 1, LIST(4), LIST(6));
    assert_cover(&threes, &sixes, true, PTO_STAGE_GRID);

    pto_tensor folded = tensor_at(0, PTO_INT8, 3, LIST(3, 3, 3), LIST(31, 23, 7));
    pto_tensor other = tensor_at(1, PTO_INT8, 2, LIST(2, 2), LIST(43, 10));
    assert_verdict(&folded, &other, true, PTO_STAGE_SEARCH); /* 44 = 7 + 7 + 7 + 23 */
}

/* A test by gcd alone misses this one: stride 8, elements of 4, 2 bytes apart. */
static void bytes_meet_not_starts(void **state)
{
    (void)state;
    pto_tensor a = tensor_at(0, PTO_FLOAT32, 1, LIST(4), LIST(2));
    pto_tensor b = tensor_at(2, PTO_FLOAT16, 1, LIST(4), LIST(4));
    assert_true(pto_tensor_overlaps(&a, &b));
    b = tensor_at(4, PTO_FLOAT16, 1, LIST(3), LIST(4));
    assert_false(pto_tensor_overlaps(&a, &b));
}

static void managed_blocks_are_apart(void **state)
{
    (void)state;
    pto_tensor a = tensor_at(0, PTO_FLOAT32, 1, LIST(16), NULL), b = a;
    b.owner = 5;
    assert_verdict(&a, &b, false, PTO_STAGE_SPACE);
    assert_cover(&a, &b, false, PTO_STAGE_SPACE);
    a.owner = 5;
    assert_verdict(&a, &b, true, PTO_STAGE_DENSE);
    a.storage = NULL; /* the place in the block counts, not the address */
    assert_verdict(&a, &b, true, PTO_STAGE_DENSE);
    a.generation = 1;
    assert_verdict(&a, &b, false, PTO_STAGE_SPACE);
    a.owner = b.owner = 0; /* the user's memory has no generations */
    a.storage = b.storage;
    assert_verdict(&a, &b, true, PTO_STAGE_DENSE);
    a.device = (pto_device){PTO_DEVICE_NVIDIA, 1}; /* nor does the device tell memory apart */
    assert_verdict(&a, &b, true, PTO_STAGE_DENSE);
}

static void unsound_tensors_get_the_safe_answer(void **state)
{
    (void)state;
    pto_tensor a = tensor_at(0, PTO_FLOAT32, 1, LIST(4), NULL);
    pto_tensor b = tensor_at(64, PTO_FLOAT32, 1, LIST(4), NULL), bad = b;
    bad.shape[0] = 5000;
    assert_false(pto_tensor_overlaps(&a, &b));
    assert_true(pto_tensor_overlaps(&a, &bad));
    assert_true(pto_tensor_overlaps(&bad, &a));
    assert_false(pto_tensor_covers(&a, &bad));
    assert_false(pto_tensor_covers(&bad, &a));
    assert_true(pto_tensor_overlaps(NULL, &a));
    assert_false(pto_tensor_covers(&a, NULL));
    pto_overlap_result r = {false, PTO_STAGE_COUNT, 77};
    assert_int_equal(pto_tensor_overlaps_ex(&a, &bad, 0, &r), PTO_OUT_OF_BOUNDS);
    assert_int_equal(pto_tensor_covers_ex(&bad, &a, 0, &r), PTO_OUT_OF_BOUNDS);
    assert_true(r.stage == PTO_STAGE_COUNT && r.steps == 77); /* untouched */
    assert_non_null(strstr(pto_error_detail(), "4032")); /* of the 5000 * 4 that it would need */
    assert_int_equal(pto_tensor_overlaps_ex(&a, &b, 0, NULL), PTO_NULL_ARGUMENT);
    assert_int_equal(pto_tensor_covers_ex(&a, &b, 0, NULL), PTO_NULL_ARGUMENT);
}

static void stage_names(void **state)
{
    (void)state;
    for (int s = 0; s < PTO_STAGE_COUNT; s++) {
        const char *name = pto_overlap_stage_name((pto_overlap_stage)s);
        assert_true(name[0] != '\0');
        for (int r = 0; r < s; r++) {
            assert_string_not_equal(name, pto_overlap_stage_name((pto_overlap_stage)r));
        }
    }
    assert_string_equal(pto_overlap_stage_name(PTO_STAGE_COUNT), "invalid");
    assert_string_equal(pto_overlap_stage_name((pto_overlap_stage)-1), "invalid");
}

/* Nine strides that share nothing, and a target that no sum reaches: the budget must end it. */
static void budget_runs_out_and_is_counted(void **state)
{
    (void)state;
    static const int64_t many[] = {3, 3, 3, 3, 3, 3, 3, 3};
    static const int64_t strides[] = {4000037, 4000081, 4000133, 4000169,
                                      4000189, 4000229, 4000261, 4000313};
    void *base = (void *)(uintptr_t)(1 << 20);
    pto_tensor a, b;
    assert_int_equal(pto_tensor_init(&a, base, UINT64_C(1) << 32, PTO_INT8, 8, many, strides, 0),
                     PTO_OK);
    assert_int_equal(pto_tensor_init(&b, base, UINT64_C(1) << 32, PTO_INT8, 2, LIST(3, 3),
                                     LIST(4000333, 4000363), 16003000),
                     PTO_OK);
    pto_overlap_result full, r;
    assert_int_equal(pto_tensor_overlaps_ex(&a, &b, UINT64_MAX, &full), PTO_OK);
    assert_int_equal(full.stage, PTO_STAGE_SEARCH);
    assert_false(full.yes);
    assert_true(full.steps > 100);
    uint64_t hits = pto_overlap_budget_hits();
    assert_int_equal(pto_tensor_overlaps_ex(&a, &b, 50, &r), PTO_OK);
    assert_true(r.yes && r.stage == PTO_STAGE_BUDGET && r.steps > 50 && r.steps < 200);
    assert_int_equal(pto_overlap_budget_hits(), hits + 1);
    assert_int_equal(pto_tensor_overlaps_ex(&a, &b, full.steps, &r), PTO_OK);
    assert_int_equal(r.stage, PTO_STAGE_SEARCH);
    assert_int_equal(pto_overlap_budget_hits(), hits + 1);
    assert_int_equal(pto_tensor_covers_ex(&a, &a, 1, &r), PTO_OK);
    assert_int_equal(r.stage, PTO_STAGE_SAME);
    assert_int_equal(pto_overlap_budget_hits(), hits + 1);
    b = a, b.shape[0] = 2; /* a part of it, by search */
    assert_int_equal(pto_tensor_covers_ex(&a, &b, 1, &r), PTO_OK);
    assert_true(!r.yes && r.stage == PTO_STAGE_BUDGET);
    assert_int_equal(pto_overlap_budget_hits(), hits + 2);
}

/* More elements than a has bytes, and yet inside: they lie on top of each other. */
static void folded_view_inside(void **state)
{
    (void)state;
    pto_tensor a = tensor_at(0, PTO_INT8, 3, LIST(2, 2, 40), LIST(200, 80, 1));
    pto_tensor b = tensor_at(0, PTO_INT8, 5, LIST(2, 3, 3, 3, 3), LIST(280, 7, 5, 3, 2));
    assert_int_equal(pto_tensor_numel(&a), 160);
    assert_int_equal(pto_tensor_numel(&b), 162);
    assert_cover(&a, &b, true, PTO_STAGE_SEARCH);
    b.strides[0] = 241; /* after the third of a's runs, before the fourth */
    assert_cover(&a, &b, false, PTO_STAGE_SEARCH);
}

/* Every so many-th row and column of large tiles: hundreds of thousands of elements, no search
 * among them. Rows are settled apart from columns. */
static void large_strided_tiles(void **state)
{
    (void)state;
    void *base = (void *)(uintptr_t)(1 << 20);
    uint64_t bytes = UINT64_C(1) << 32, most = 0;
    for (int64_t i = 0; i < 36; i++) {
        int64_t step[] = {1 + i % 3, 2 + i / 3 % 4, 3, 1 + i / 12};
        for (int64_t shift = 0; shift < 12; shift++) {
            pto_tensor a, b;
            assert_int_equal(pto_tensor_init(&a, base, bytes, PTO_FLOAT32, 2, LIST(500, 600),
                                             LIST(8000 * step[0], step[1]), 0),
                             PTO_OK);
            assert_int_equal(pto_tensor_init(&b, base, bytes, PTO_FLOAT32, 2, LIST(400, 500),
                                             LIST(8000 * step[2], step[3]),
                                             8000 * (shift + 70) + 100 + shift % 5),
                             PTO_OK);
            bool row = false, column = false; /* each on its own */
            for (int64_t r = 0; r < 400; r++) {
                int64_t at = shift + 70 + r * step[2];
                row = row || (at % step[0] == 0 && at / step[0] < 500);
            }
            for (int64_t c = 0; c < 500; c++) {
                int64_t at = 100 + shift % 5 + c * step[3];
                column = column || (at % step[1] == 0 && at / step[1] < 600);
            }
            pto_overlap_result r;
            assert_int_equal(pto_tensor_overlaps_ex(&a, &b, 0, &r), PTO_OK);
            assert_int_equal(r.yes, row && column);
            most = r.steps > most ? r.steps : most;
        }
    }
    assert_true(most < 40);
}

/* ---- All small views -------------------------------------------------------------------- */

#define SMALL_BYTES 26 /* of the arena; at most 64: a bitmap is one word */

typedef struct small {
    ptoi_layout l;
    uint64_t bits;
} small;

static int small_order(const void *x, const void *y)
{
    const small *a = x, *b = y;
    int order = memcmp(&a->l.lo, &b->l.lo, sizeof a->l.lo);
    order = order ? order : memcmp(&a->l.len, &b->l.len, sizeof a->l.len);
    order = order ? order : memcmp(&a->l.run, &b->l.run, sizeof a->l.run);
    order = order ? order : (a->l.k > b->l.k) - (a->l.k < b->l.k);
    return order ? order : memcmp(a->l.dim, b->l.dim, a->l.k * sizeof a->l.dim[0]);
}

static small *small_views(size_t *count)
{
    static const pto_dtype dtypes[] = {PTO_INT8, PTO_INT16, PTO_INT32, PTO_INT64};
    size_t room = 1 << 20, used = 0;
    small *all = malloc(room * sizeof *all);
    assert_non_null(all);
    for (int kind = 0; kind < 4; kind++) {
        int64_t size = INT64_C(1) << kind, far = 12 / size;
        for (int64_t code = 0; code < 6 * 4 * 25 * 25; code++) {
            int64_t n0 = code % 6 + 1, n1 = code / 6 % 4 + 1;
            int64_t s0 = code / 24 % 25 - 12, s1 = code / 600 - 12;
            if (s0 < -far || s0 > far || s1 < -far || s1 > far || (n1 == 1 && s1) ||
                (n0 == 1 && s0) || (n1 > 1 && n0 > 3)) {
                continue;
            }
            int64_t r0 = (n0 - 1) * s0, r1 = (n1 - 1) * s1;
            int64_t down = (r0 < 0 ? -r0 : 0) + (r1 < 0 ? -r1 : 0);
            int64_t up = (r0 > 0 ? r0 : 0) + (r1 > 0 ? r1 : 0);
            for (int64_t lo = 0; lo + (down + up + 1) * size <= SMALL_BYTES; lo++) {
                pto_tensor t;
                small *one = &all[used++];
                bool empty;
                assert_true(used < room);
                assert_int_equal(pto_tensor_init(&t, arena + lo, (uint64_t)((down + up + 1) * size),
                                                 dtypes[kind], 2, LIST(n0, n1), LIST(s0, s1), down),
                                 PTO_OK);
                memset(one, 0, sizeof *one);
                assert_int_equal(ptoi_layout_of(&t, &one->l, &empty), PTO_OK);
                for (int64_t i = 0; i < n0 * n1; i++) {
                    int64_t at = lo + (down + i / n1 * s0 + i % n1 * s1) * size;
                    one->bits |= ((UINT64_C(1) << size) - 1) << at;
                }
            }
        }
    }
    qsort(all, used, sizeof *all, small_order);
    size_t distinct = 0;
    for (size_t i = 0; i < used; i++) {
        if (distinct == 0 || small_order(&all[distinct - 1], &all[i]) != 0) {
            all[distinct++] = all[i];
        } else {
            assert_int_equal(all[distinct - 1].bits, all[i].bits); /* equal layout, equal bytes */
        }
    }
    *count = distinct;
    return all;
}

static void all_small_views(void **state)
{
    (void)state;
    size_t count = 0;
    small *all = small_views(&count);
    /* With less effort, every so many-th of the second ones. */
    size_t stride = (size_t)(100 / test_effort(100));
    stride = stride ? stride : 1;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = i % stride; j < count; j += stride) {
            pto_overlap_result r = ptoi_overlaps(&all[i].l, &all[j].l, UINT64_MAX);
            pto_overlap_result c = ptoi_covers(&all[i].l, &all[j].l, UINT64_MAX);
            if (r.yes != ((all[i].bits & all[j].bits) != 0) ||
                c.yes != ((all[j].bits & ~all[i].bits) == 0)) {
                fail_msg("bytes %llx and %llx: overlaps %d (%s), covers %d (%s)", (ull)all[i].bits,
                         (ull)all[j].bits, (int)r.yes, pto_overlap_stage_name(r.stage), (int)c.yes,
                         pto_overlap_stage_name(c.stage));
            }
        }
    }
    print_message("%zu distinct small views, %zu pairs\n", count, count * (count / stride));
    assert_true(count > 2000);
    free(all);
}

/* ---- Numbers at the edge of 64 bits ----------------------------------------------------- */

/* All runs of a layout of few steps, as [from, to]. */
static size_t list_runs(const ptoi_layout *l, uint64_t (*runs)[2])
{
    size_t count = 1;
    runs[0][0] = l->lo;
    for (uint32_t j = 0; j < l->k; j++) {
        size_t before = count;
        for (uint64_t i = 1; i < l->dim[j].n; i++) {
            for (size_t r = 0; r < before; r++) {
                runs[count++][0] = runs[r][0] + i * l->dim[j].s;
            }
        }
    }
    for (size_t r = 0; r < count; r++) {
        runs[r][1] = runs[r][0] + l->run - 1;
    }
    return count;
}

/* A view of few elements, far apart: random bits in strides, run and place, up to 2^63 bytes. */
static bool far_view(test_rng *rng, uint64_t base, uint64_t unit, ptoi_layout *l)
{
    pto_tensor t = {.storage = (void *)(uintptr_t)base, .storage_bytes = INT64_MAX};
    int32_t ndim = (int32_t)test_between(rng, 1, 3);
    bool empty;
    t.dtype = test_next(rng) % 2 ? PTO_INT8 : PTO_INT32;
    t.ndim = ndim + 1;
    for (int32_t d = 0; d < ndim; d++) {
        int64_t s = (int64_t)(test_next(rng) >> test_between(rng, 2, 40));
        t.shape[d] = test_between(rng, 1, 3);
        t.strides[d] = test_next(rng) % 2 ? s : s - s % (int64_t)unit;
    }
    t.shape[ndim] = (int64_t)(test_next(rng) >> test_between(rng, 3, 63)) + 1; /* a long run */
    t.strides[ndim] = 1;
    t.offset = (int64_t)(test_next(rng) >> test_between(rng, 2, 60));
    return pto_tensor_check(&t) == PTO_OK && ptoi_layout_of(&t, l, &empty) == PTO_OK;
}

static void far_views(void **state)
{
    (void)state;
    static uint64_t a_runs[64][2], b_runs[64][2];
    test_rng rng = test_rng_make(test_seed());
    uint64_t count = test_effort(400000), asked = 0, yes = 0, covered = 0;
    for (uint64_t i = 0; i < count; i++) {
        ptoi_layout a, b;
        uint64_t unit = UINT64_C(1) << test_between(&rng, 1, 61);
        if (!far_view(&rng, i % 2 ? 1 : UINT64_MAX - INT64_MAX, unit, &a) ||
            !far_view(&rng, i % 3 ? 1 : UINT64_MAX - INT64_MAX, unit, &b)) {
            continue;
        }
        if (a.lo <= b.lo && b.lo - a.lo < a.len && test_next(&rng) % 2) {
            uint64_t move = b.lo - a.lo; /* let it begin where a step of a does */
            b.lo = a.lo + (a.k ? move / a.dim[0].s * a.dim[0].s : 0);
        }
        size_t na = list_runs(&a, a_runs), nb = list_runs(&b, b_runs);
        bool meets = false, contains = a.nested;
        for (size_t q = 0; q < nb; q++) {
            bool inside = false;
            for (size_t p = 0; p < na; p++) {
                meets = meets || (a_runs[p][0] <= b_runs[q][1] && b_runs[q][0] <= a_runs[p][1]);
                inside = inside || (a_runs[p][0] <= b_runs[q][0] && b_runs[q][1] <= a_runs[p][1]);
            }
            contains = contains && inside;
        }
        assert_int_equal(ptoi_overlaps(&a, &b, UINT64_MAX).yes, meets);
        assert_int_equal(ptoi_overlaps(&b, &a, UINT64_MAX).yes, meets);
        bool abut = false; /* rows that touch: a run may lie in two, which this test does not see */
        for (uint32_t j = 0; j + 1 < a.k; j++) {
            uint64_t span = a.run;
            for (uint32_t e = j + 1; e < a.k; e++) {
                span += (a.dim[e].n - 1) * a.dim[e].s;
            }
            abut = abut || a.dim[j].s == span;
        }
        if (a.nested && !abut) {
            pto_overlap_result c = ptoi_covers(&a, &b, UINT64_MAX);
            assert_int_equal(c.yes, contains);
            covered += contains;
        }
        asked++;
        yes += meets;
    }
    assert_true(asked > count / 10 && yes > asked / 20 && yes < asked);
    assert_true(covered > asked / 100);
}

/* ---- Adversarial strides ---------------------------------------------------------------- */

#define WIDE_BYTES 65536

typedef struct wide_view {
    ptoi_layout l;
    uint64_t bits[WIDE_BYTES / 64];
} wide_view;

static void adversarial_view(test_rng *rng, int kind, wide_view *v)
{
    static const int64_t fibonacci[] = {144, 233, 377, 610, 987, 1597, 2584, 4181, 6765, 10946};
    static const int64_t primes[] = {1009, 2003, 3001, 4001, 5003, 7001, 8009, 9001, 9973, 10007};
    int64_t shape[PTO_MAX_DIMS], strides[PTO_MAX_DIMS], span = 1, numel = 1;
    int32_t ndim = kind == 0 ? 1 : (int32_t)test_between(rng, 2, kind == 3 ? 8 : 4);
    for (int32_t d = 0; d < ndim; d++) {
        int64_t s = kind == 2 ? primes[test_next(rng) % 10] : fibonacci[test_next(rng) % 10];
        s = kind == 3 ? 6000 + test_between(rng, 0, 60) : s + test_between(rng, -1, 1);
        int64_t most = (WIDE_BYTES - 8 - span) / s;
        most = most < (kind == 0 ? 400 : 12) ? most : (kind == 0 ? 400 : 12);
        shape[d] = most < 1 ? 1 : test_between(rng, 1, kind == 3 && most > 1 ? 2 : most);
        strides[d] = s;
        span += (shape[d] - 1) * s;
        numel *= shape[d];
    }
    pto_tensor t;
    bool empty;
    static char ground[WIDE_BYTES];
    int64_t at = test_between(rng, 0, WIDE_BYTES - 1 - span);
    assert_int_equal(pto_tensor_init(&t, ground, sizeof ground, PTO_INT8, ndim, shape, strides, at),
                     PTO_OK);
    assert_int_equal(ptoi_layout_of(&t, &v->l, &empty), PTO_OK);
    memset(v->bits, 0, sizeof v->bits);
    for (int64_t i = 0; i < numel; i++) {
        int64_t byte = at, left = i;
        for (int32_t d = 0; d < ndim; d++) {
            byte += left % shape[d] * strides[d];
            left /= shape[d];
        }
        v->bits[byte / 64] |= UINT64_C(1) << (byte % 64);
    }
}

static void adversarial_strides(void **state)
{
    (void)state;
    enum { MEMBERS = 24 };
    static wide_view v[MEMBERS];
    test_rng rng = test_rng_make(test_seed());
    uint64_t rounds = test_effort(120), yes = 0, asked = 0, gave_up = 0;
    for (uint64_t round = 0; round < rounds; round++) {
        for (int i = 0; i < MEMBERS; i++) {
            adversarial_view(&rng, (int)(round % 4), &v[i]);
        }
        for (int i = 0; i < MEMBERS; i++) {
            for (int j = 0; j < MEMBERS; j++) {
                uint64_t shared = 0, missing = 0;
                for (int w = 0; w < WIDE_BYTES / 64; w++) {
                    shared |= v[i].bits[w] & v[j].bits[w];
                    missing |= v[j].bits[w] & ~v[i].bits[w];
                }
                pto_overlap_result full = ptoi_overlaps(&v[i].l, &v[j].l, UINT64_MAX);
                pto_overlap_result usual = ptoi_overlaps(&v[i].l, &v[j].l, 0);
                assert_int_equal(full.yes, shared != 0);
                assert_true(usual.yes == full.yes ||
                            (usual.stage == PTO_STAGE_BUDGET && usual.yes));
                assert_true(usual.steps < PTO_OVERLAP_BUDGET + 200);
                assert_int_equal(ptoi_covers(&v[i].l, &v[j].l, UINT64_MAX).yes, missing == 0);
                gave_up += usual.stage == PTO_STAGE_BUDGET;
                yes += full.yes;
                asked++;
            }
        }
    }
    print_message("%llu pairs, %llu meet, the usual budget ran out %llu times\n", (ull)asked,
                  (ull)yes, (ull)gave_up);
    assert_true(yes > asked / 50 && yes < asked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_case_for_each_stage),
        cmocka_unit_test(bytes_meet_not_starts),
        cmocka_unit_test(managed_blocks_are_apart),
        cmocka_unit_test(unsound_tensors_get_the_safe_answer),
        cmocka_unit_test(stage_names),
        cmocka_unit_test(budget_runs_out_and_is_counted),
        cmocka_unit_test(folded_view_inside),
        cmocka_unit_test(large_strided_tiles),
        cmocka_unit_test(all_small_views),
        cmocka_unit_test(far_views),
        cmocka_unit_test(adversarial_strides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
