/* test_grid.c - plans for GPUs (op/rearrange/grid.h), run by an interpreter on the CPU with the code
 * of the kernels, against a naive loop. */
#include "rearranges.h"

#include "op/rearrange/grid.h"
#include "op/rearrange/launches.h"

#include "grid_interpreter.h"

static void grid_of(const pto_tensor *dst, const pto_tensor *src, uint32_t sms,
                    ptoi_grid_plan *plan)
{
    uint32_t size = (uint32_t)pto_dtype_size(dst->dtype);
    ptoi_grid_make(plan, dst->ndim, dst->shape, dst->strides, src->strides, size,
                   (uintptr_t)dst->storage + (uintptr_t)dst->offset * size,
                   (uintptr_t)src->storage + (uintptr_t)src->offset * size, sms);
    expect_ok(ptoi_grid_check(plan));
}

static void run(const ptoi_grid_plan *plan, const pto_tensor *dst, const pto_tensor *src)
{
    int64_t size = (int64_t)pto_dtype_size(dst->dtype);
    interpreter in = {.to = (char *)dst->storage + dst->offset * size,
                      .from = (const char *)src->storage + src->offset * size};
    expect_ok(ptoi_launch_all(plan, interpreter_launch, &in));
}

static void watch_banks(bool on)
{
    for (size_t k = 0; k < sizeof interpreter_log / sizeof *interpreter_log; k++) {
        interpreter_log[k].on = on;
    }
}

/* ---- Random tensors ---------------------------------------------------------------------------- */

static void random_copies(void **state)
{
    (void)state;
    static const pto_dtype dtypes[] = {PTO_INT8, PTO_FLOAT16, PTO_FLOAT32, PTO_FLOAT64};
    test_rng rng = test_rng_make(test_seed());
    int64_t ways[4] = {0};
    interpreter_bounds.low = (char *)arena;
    interpreter_bounds.end = (char *)arena + ARENA;
    for (uint64_t k = 0; k < test_effort(4000); k++) {
        int64_t shape[PTO_MAX_DIMS];
        int32_t ndim = (int32_t)test_between(&rng, 0, 6);
        for (int32_t d = 0; d < ndim; d++) {
            shape[d] = test_between(&rng, 0, ndim > 3 ? 6 : ndim > 2 ? 14 : 60);
        }
        pto_dtype dtype = dtypes[test_between(&rng, 0, 3)];
        pto_tensor dst, src;
        if (count_of(ndim, shape) > 3000 || !place(&rng, 0, dtype, ndim, shape, &dst) ||
            !place(&rng, 1, dtype, ndim, shape, &src) || meets_itself(&dst)) {
            continue;
        }
        ptoi_grid_plan plan;
        scramble(&rng);
        grid_of(&dst, &src, (uint32_t)test_between(&rng, 0, 4), &plan);
        ways[plan.grid.way]++;
        run(&plan, &dst, &src);
        naive_copy(&dst, &src);
        expect_same();
    }
    for (size_t k = 0; k < 3; k++) {
        assert_true(ways[k] > 0);
    }
}

/* ---- Permutations of every size, with every kind of vector ------------------------------------- */

enum { BIG = 5 << 19 };
static _Alignas(64) char big[2 * BIG], big_right[BIG];
static char *const big_to = big, *const big_from = big + BIG;

typedef struct permutation {
    int32_t ndim;
    int64_t shape[PTO_MAX_DIMS];
    int32_t order[PTO_MAX_DIMS]; /* of the destination's dims: the source's */
    int64_t pad_to, pad_from;    /* elements added to each row of memory */
} permutation;

/* Dense strides, with a pad behind each row of the innermost dim. */
static void strides_of(int32_t ndim, const int64_t *shape, int64_t pad, int64_t *strides)
{
    int64_t stride = 1;
    for (int32_t d = ndim - 1; d >= 0; d--) {
        strides[d] = stride;
        stride *= shape[d];
        stride += d == ndim - 1 ? pad : 0;
    }
}

static void permute_one(const permutation *p, pto_dtype dtype, uint32_t sms, int64_t shift_to,
                        int64_t shift_from, ptoi_grid_plan *plan)
{
    int64_t to_shape[PTO_MAX_DIMS], from_strides[PTO_MAX_DIMS];
    pto_tensor src = {.storage = big_from, .storage_bytes = BIG, .dtype = dtype, .ndim = p->ndim};
    pto_tensor dst = {.storage = big_to, .storage_bytes = BIG, .dtype = dtype, .ndim = p->ndim};
    strides_of(p->ndim, p->shape, p->pad_from, from_strides);
    for (int32_t d = 0; d < p->ndim; d++) {
        to_shape[d] = p->shape[p->order[d]];
        src.strides[d] = from_strides[p->order[d]];
    }
    strides_of(p->ndim, to_shape, p->pad_to, dst.strides);
    memcpy(dst.shape, to_shape, sizeof to_shape);
    memcpy(src.shape, to_shape, sizeof to_shape);
    dst.offset = shift_to;
    src.offset = shift_from;
    expect_ok(pto_tensor_check(&dst));
    expect_ok(pto_tensor_check(&src));
    memset(big_to, 0x55, BIG);
    memset(big_right, 0x55, BIG);
    interpreter_bounds.low = big;
    interpreter_bounds.end = big + sizeof big;
    grid_of(&dst, &src, sms, plan);
    run(plan, &dst, &src);
    size_t size = pto_dtype_size(dtype);
    int64_t index[PTO_MAX_DIMS] = {0};
    do {
        memcpy(big_right + (size_t)place_of(&dst, index) * size,
               big_from + (size_t)place_of(&src, index) * size, size);
    } while (next_index(p->ndim, to_shape, index));
    assert_memory_equal(big_to, big_right, BIG);
}

static void fill_source(void)
{
    test_rng rng = test_rng_make(test_seed());
    for (size_t k = 0; k < BIG; k += sizeof(uint64_t)) {
        uint64_t word = test_next(&rng);
        memcpy(big_from + k, &word, sizeof word);
    }
}

static void permutations(void **state)
{
    (void)state;
    static const permutation all[] = {
        {2, {256, 512}, {1, 0}, 0, 0},            /* whole tiles */
        {2, {300, 200}, {1, 0}, 0, 0},            /* parts of tiles, aligned */
        {2, {301, 203}, {1, 0}, 0, 0},            /* nothing is aligned */
        {2, {301, 208}, {1, 0}, 0, 0},            /* only loads are */
        {2, {304, 203}, {1, 0}, 0, 0},            /* only stores are */
        {2, {304, 203}, {1, 0}, 4, 5},            /* rows with gaps */
        {2, {302, 206}, {1, 0}, 2, 2},            /* words of two */
        {2, {508, 512}, {1, 0}, 0, 0},            /* words of four */
        {2, {509, 507}, {1, 0}, 0, 0},            /* not aligned, and large */
        {3, {20, 30, 40}, {2, 1, 0}, 0, 0},       /* a cube */
        {4, {3, 64, 14, 14}, {0, 2, 3, 1}, 0, 0}, /* planes to channels */
        {4, {3, 14, 14, 64}, {0, 3, 1, 2}, 0, 0}, /* and back */
        {4, {2, 3, 40, 41}, {0, 2, 3, 1}, 0, 0},  /* three channels */
        {4, {2, 400, 41, 3}, {0, 3, 1, 2}, 0, 0}, /* and back */
        {6, {4, 2, 6, 4, 6, 6}, {5, 2, 0, 4, 1, 3}, 0, 0},
        {6, {4, 8, 3, 16, 4, 4}, {5, 2, 0, 4, 1, 3}, 0, 0}, /* axes of several loops */
        {4, {2, 50, 4, 32}, {0, 2, 1, 3}, 0, 0},            /* runs: heads of attention */
        {4, {2, 50, 4, 2}, {0, 2, 1, 3}, 0, 0},             /* wide elements */
        {3, {60, 62, 2}, {1, 0, 2}, 0, 0},                  /* wide elements, in tiles */
        {3, {40, 50, 3}, {1, 0, 2}, 0, 0},                  /* runs of three */
        {1, {1000}, {0}, 0, 0},
    };
    static const pto_dtype dtypes[] = {PTO_INT8, PTO_FLOAT16, PTO_FLOAT32, PTO_FLOAT64};
    static const int64_t shifts[][2] = {{0, 0}, {1, 0}, {0, 3}, {4, 8}};
    bool seen[5][PTOI_TILE_FORMS][3][2] = {{{{false}}}};
    fill_source();
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        for (size_t t = 0; t < 4 * 4 * 2; t++) {
            ptoi_grid_plan plan;
            const int64_t *shift = shifts[t / 4 % 4];
            permute_one(&all[k], dtypes[t % 4], t / 16 ? 0 : 1000, shift[0], shift[1], &plan);
            if (plan.grid.way == PTOI_GRID_TILES) {
                const ptoi_grid *g = &plan.grid;
                seen[__builtin_ctz(g->size)][g->form][g->vec_out == 16       ? 0
                                                      : g->vec_out > g->size ? 1
                                                                             : 2][g->vec_in == 16] =
                    true;
            }
        }
    }
    for (uint32_t log = 0; log < 4; log++) { /* every kernel has run; a size of 16 is below */
        for (uint32_t k = 0; k < PTOI_TILE_FORMS * 6; k++) {
            bool there = (log < 2 || k / 2 % 3 != 1) && /* words of several elements */
                         (log == 1 || log == 2 || k / 6 == PTOI_TILE_SMALL);
            assert_int_equal(seen[log][k / 6][k / 2 % 3][k % 2], there);
        }
    }
    assert_true(seen[4][PTOI_TILE_SMALL][0][1] && seen[4][PTOI_TILE_LARGE][0][1]);
}

/* ---- Banks ------------------------------------------------------------------------------------- */

/* Lanes that access shared memory together use different banks: with every size, form and vector. */
static void banks(void **state)
{
    (void)state;
    static const pto_dtype dtypes[] = {PTO_INT8, PTO_FLOAT16, PTO_FLOAT32, PTO_FLOAT64};
    fill_source();
    watch_banks(true);
    for (size_t t = 0; t < 4 * 2 * 4; t++) {
        /* One tile of 256 x 256, or several; the rows are aligned or not, on either side. */
        ptoi_grid_plan plan;
        permutation p = {2, {256, 256}, {1, 0}, t / 8 % 2 ? 1 : 0, t / 16 ? 1 : 0};
        permute_one(&p, dtypes[t % 4], t / 4 % 2 ? 0 : 1000, 0, 0, &plan);
        assert_int_equal(plan.grid.way, PTOI_GRID_TILES);
        assert_int_equal(interpreter_conflicts(), 0);
    }
    permutation wide = {3, {128, 128, 2}, {1, 0, 2}, 0, 0};
    for (uint32_t sms = 0; sms < 2000; sms += 1000) {
        ptoi_grid_plan plan;
        permute_one(&wide, PTO_FLOAT64, sms, 0, 0, &plan);
        assert_int_equal(plan.grid.size, 16);
        assert_int_equal(interpreter_conflicts(), 0);
    }
    watch_banks(false);
}

/* ---- Sizes beyond one launch ------------------------------------------------------------------- */

typedef struct tally {
    int64_t items, launches, to_end;
} tally;

static pto_status count_launch(void *context, const ptoi_grid *grid, int64_t to, int64_t from)
{
    tally *t = context;
    int64_t at_to = 0, at_from = 0;
    (void)from;
    assert_true(grid->items <= PTOI_GRID_MOST);
    t->launches++;
    t->items += grid->items;
    assert_true(ptoi_item_at(grid, grid->items - 1, &at_to, &at_from)); /* the last one */
    t->to_end = at_to + to + grid->size > t->to_end ? at_to + to + grid->size : t->to_end;
    return PTO_OK;
}

/* Terabytes, of which only the numbers are looked at. */
static void huge_copies(void **state)
{
    (void)state;
    static const struct {
        int32_t ndim;
        int64_t shape[3], to[3], from[3];
        uint32_t size;
    } all[] = {
        {1, {INT64_C(1) << 41}, {1}, {1}, 1}, /* a run */
        {1, {INT64_C(1) << 40}, {2}, {3}, 1}, /* elements */
        {3, {1 << 14, 1 << 14, 1 << 14}, {1 << 29, 1 << 15, 2}, {2, 1 << 16, 1 << 30}, 1},
        {2, {INT64_C(1) << 33, 3}, {4, 1}, {1, INT64_C(1) << 34}, 1},
    };
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        ptoi_grid_plan plan;
        tally t = {0, 0, 0};
        ptoi_grid_make(&plan, all[k].ndim, all[k].shape, all[k].to, all[k].from, all[k].size, 0, 0,
                       132);
        expect_ok(ptoi_grid_check(&plan));
        expect_ok(ptoi_launch_all(&plan, count_launch, &t));
        int64_t end = all[k].size;
        for (int32_t d = 0; d < all[k].ndim; d++) {
            end += (all[k].shape[d] - 1) * all[k].to[d] * all[k].size;
        }
        assert_true(t.launches > 1);
        assert_int_equal(t.items * plan.grid.size, plan.bytes);
        assert_int_equal(t.to_end, end);
    }
}

/* ---- Fill -------------------------------------------------------------------------------------- */

static void fills(void **state)
{
    (void)state;
    test_rng rng = test_rng_make(test_seed());
    interpreter_bounds.low = (char *)arena;
    interpreter_bounds.end = (char *)arena + ARENA;
    for (uint64_t k = 0; k < test_effort(2000); k++) {
        static const pto_dtype dtypes[] = {PTO_INT8, PTO_FLOAT16, PTO_FLOAT32, PTO_FLOAT64};
        int64_t shape[PTO_MAX_DIMS], index[PTO_MAX_DIMS] = {0};
        int32_t ndim = (int32_t)test_between(&rng, 0, 4);
        for (int32_t d = 0; d < ndim; d++) {
            shape[d] = test_between(&rng, 0, 12);
        }
        pto_tensor dst;
        if (!place(&rng, 0, dtypes[test_between(&rng, 0, 3)], ndim, shape, &dst)) {
            continue;
        }
        uint32_t size = (uint32_t)pto_dtype_size(dst.dtype);
        uint64_t element = test_next(&rng);
        element &= size < 8 ? (UINT64_C(1) << size * 8) - 1 : UINT64_MAX;
        for (uint32_t bits = size * 8; bits < 64; bits *= 2) {
            element |= element << bits;
        }
        scramble(&rng);
        ptoi_grid_plan plan;
        char *to = (char *)dst.storage + dst.offset * (int64_t)size;
        ptoi_grid_make_fill(&plan, ndim, dst.shape, dst.strides, size, (uintptr_t)to);
        expect_ok(ptoi_grid_check(&plan));
        interpreter in = {.to = to, .element = element};
        expect_ok(ptoi_launch_all(&plan, interpreter_launch, &in));
        if (count_of(ndim, shape)) {
            do {
                memcpy(naive + byte_of(&dst, index), &element, size);
            } while (next_index(ndim, shape, index));
        }
        expect_same();
    }
}

/* Loops that are not nested keep their order, and may go below the first element. */
static void fill_downwards(void **state)
{
    (void)state;
    ptoi_grid_plan plan;
    uint16_t memory[16] = {0};
    ptoi_grid_make_fill(&plan, 2, DIMS(3, 3), DIMS(-3, 2), 2, (uintptr_t)(memory + 8));
    interpreter in = {.to = (char *)(memory + 8), .element = UINT64_C(0x0102010201020102)};
    interpreter_bounds.low = (char *)memory;
    interpreter_bounds.end = (char *)(memory + 16);
    expect_ok(ptoi_launch_all(&plan, interpreter_launch, &in));
    for (int k = 0; k < 16; k++) {
        bool inside = false;
        for (int n = 0; n < 9; n++) {
            inside |= 8 - n / 3 * 3 + n % 3 * 2 == k;
        }
        assert_int_equal(memory[k], inside ? 0x0102 : 0);
    }
}

/* ---- Words ------------------------------------------------------------------------------------- */

static void formats(void **state)
{
    (void)state;
    ptoi_grid_plan plan;
    char text[200];
    ptoi_grid_make(&plan, 2, DIMS(8192, 8192), DIMS(8192, 1), DIMS(1, 8192), 4, 0, 0, 132);
    (void)ptoi_grid_format(&plan, text, sizeof text);
    assert_string_equal(text,
                        "tiles of 64 x 64 4-byte elements, in planes of 8192 x 8192; loads of "
                        "16 bytes, stores of 16");
    ptoi_grid_make(&plan, 2, DIMS(10, 8), DIMS(8, 1), DIMS(80, 1), 4, 0, 8, 132);
    (void)ptoi_grid_format(&plan, text, sizeof text);
    assert_string_equal(text, "items of 8 bytes each: 40");
    ptoi_grid_make_fill(&plan, 1, DIMS(100), DIMS(1), 4, 0);
    (void)ptoi_grid_format(&plan, text, sizeof text);
    assert_string_equal(text, "fill, 16 bytes each: 25");
    ptoi_grid_make_fill(&plan, 1, DIMS(0), DIMS(1), 4, 0);
    (void)ptoi_grid_format(&plan, text, sizeof text);
    assert_string_equal(text, "nothing to move");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_copies), cmocka_unit_test(permutations),
        cmocka_unit_test(banks),         cmocka_unit_test(huge_copies),
        cmocka_unit_test(fills),         cmocka_unit_test(fill_downwards),
        cmocka_unit_test(formats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
