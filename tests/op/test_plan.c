/* Plans: every way, every instruction set of this machine, in and past the caches, whole and in
 * parts, against a naive loop. Pages that must not be touched lie around both sides. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <sys/mman.h>

#include "op/rearrange/plan.h"
#include "support.h"

enum { PAGE = 4096, PAGES = 192, ROOM = PAGES * PAGE, SETS = 4, SIZES = 5, WAYS = 5 };

/* Memory with a page before and after it that nobody may touch. */
static unsigned char *fenced(void)
{
    unsigned char *all = mmap(NULL, ROOM + 2 * PAGE, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(all != MAP_FAILED);
    assert_int_equal(mprotect(all, PAGE, PROT_NONE), 0);
    assert_int_equal(mprotect(all + PAGE + ROOM, PAGE, PROT_NONE), 0);
    return all + PAGE;
}

static void unfenced(unsigned char *memory)
{
    assert_int_equal(munmap(memory - PAGE, ROOM + 2 * PAGE), 0);
}

/* One side of a copy. */
typedef struct side {
    int64_t strides[PTO_MAX_DIMS];
    int64_t low, end; /* of its elements, in elements from [0, 0, ...] */
    unsigned char *first;
} side;

typedef struct layout {
    int32_t ndim;
    uint32_t size;
    int64_t shape[PTO_MAX_DIMS];
    side to, from;
} layout;

/* Sizes that leave remainders, and now and then whole blocks. */
static int64_t some_size(test_rng *rng)
{
    switch (test_between(rng, 0, 7)) {
    case 0:
        return test_between(rng, 1, 4);
    case 1:
        return test_between(rng, 1, 300);
    case 2:
        return 16 << test_between(rng, 0, 4);
    default:
        return test_between(rng, 2, 40);
    }
}

/* Dims in any order in memory, with gaps, backwards; in a source also standing still. */
static void some_strides(test_rng *rng, const layout *l, side *s, bool source)
{
    int32_t order[PTO_MAX_DIMS] = {0};
    for (int32_t d = 0; d < l->ndim; d++) {
        int32_t at = (int32_t)test_between(rng, 0, d);
        order[d] = order[at];
        order[at] = d;
    }
    int64_t stride = test_between(rng, 0, 5) ? 1 : test_between(rng, 1, 3);
    s->low = 0;
    s->end = 1;
    for (int32_t i = 0; i < l->ndim; i++) {
        int32_t d = order[i];
        s->strides[d] = test_between(rng, 0, 7) ? stride : -stride;
        stride *= l->shape[d];
        stride += test_between(rng, 0, 5) ? 0 : test_between(rng, 0, 20);
        if (source && test_between(rng, 0, 15) == 0) {
            s->strides[d] = 0;
        }
        int64_t reach = (l->shape[d] - 1) * s->strides[d];
        *(reach < 0 ? &s->low : &s->end) += reach;
    }
}

/* At the beginning of the memory, at its end, or in it at an odd place. */
static bool place(test_rng *rng, const layout *l, side *s, unsigned char *memory)
{
    int64_t bytes = (s->end - s->low) * l->size, spare = ROOM - bytes, at = spare;
    if (spare < 0) {
        return false;
    }
    switch (test_between(rng, 0, 3)) {
    case 0:
        at = 0;
        break;
    case 1:
        at = test_between(rng, 0, spare < 64 ? spare : 64);
        break;
    case 2:
        at = spare / 64 * 64;
        break;
    default:
        break;
    }
    s->first = memory + at - s->low * (int64_t)l->size;
    return true;
}

static void copy_naively(const layout *l, ptrdiff_t to_other)
{
    int64_t index[PTO_MAX_DIMS] = {0};
    for (;;) {
        int64_t to = 0, from = 0;
        for (int32_t d = 0; d < l->ndim; d++) {
            to += index[d] * l->to.strides[d];
            from += index[d] * l->from.strides[d];
        }
        memcpy(l->to.first + to_other + to * (int64_t)l->size,
               l->from.first + from * (int64_t)l->size, l->size);
        int32_t d = l->ndim - 1;
        while (d >= 0 && index[d] == l->shape[d] - 1) {
            index[d--] = 0;
        }
        if (d < 0) {
            return;
        }
        index[d]++;
    }
}

static uint64_t seen[SETS][WAYS][SIZES];

static void try_plan(const layout *l, test_rng *rng, size_t set, bool stream)
{
    ptoi_plan plan;
    /* Sometimes for another alignment than it runs at. */
    uintptr_t address = test_between(rng, 0, 9) ? (uintptr_t)l->to.first : test_next(rng);
    ptoi_plan_make_with(&plan, l->ndim, l->shape, l->to.strides, l->from.strides, l->size, address,
                        ptoi_isa_at(set), stream ? 0 : INT64_MAX);
    assert_int_equal(ptoi_plan_check(&plan), PTO_OK);
    seen[set][plan.way][__builtin_ctz(plan.size)]++;
    uint32_t parts = (uint32_t)(test_between(rng, 0, 1) ? 1 : test_between(rng, 2, 9));
    for (uint32_t part = 0; part < parts; part++) {
        ptoi_plan_run_part(&plan, l->to.first, l->from.first, part, parts);
    }
}

static void explain(const layout *l, uint64_t number, size_t set, bool stream)
{
    print_error("layout %" PRIu64 ", %s, %s, elements of %" PRIu32 ":", number,
                ptoi_isa_at(set)->name, stream ? "streams" : "no streams", l->size);
    for (int32_t d = 0; d < l->ndim; d++) {
        print_error(" %" PRId64 " (%" PRId64 ", %" PRId64 ")", l->shape[d], l->to.strides[d],
                    l->from.strides[d]);
    }
    print_error("\n");
}

static void test_every_way_against_a_naive_loop(void **state)
{
    (void)state;
    unsigned char *to = fenced(), *from = fenced(), *right = fenced();
    test_rng rng = test_rng_make(test_seed());
    for (size_t i = 0; i < ROOM; i++) {
        from[i] = (unsigned char)test_next(&rng);
    }
    uint64_t count = test_effort(6000);
    for (uint64_t number = 0; number < count; number++) {
        layout l = {.ndim = (int32_t)test_between(&rng, 0, 5),
                    .size = 1u << test_between(&rng, 0, 3)};
        for (int32_t d = 0; d < l.ndim; d++) {
            l.shape[d] = some_size(&rng);
        }
        some_strides(&rng, &l, &l.to, false);
        some_strides(&rng, &l, &l.from, true);
        if (!place(&rng, &l, &l.to, to) || !place(&rng, &l, &l.from, from)) {
            continue;
        }
        /* Around it as far as anything could go wrong; all of it would take too long. */
        unsigned char *low = l.to.first + l.to.low * (int64_t)l.size;
        unsigned char *end = l.to.first + l.to.end * (int64_t)l.size;
        low = low - to < 256 ? to : low - 256;
        end = to + ROOM - end < 256 ? to + ROOM : end + 256;
        memset(right + (low - to), 0x5a, (size_t)(end - low));
        copy_naively(&l, right - to);
        for (size_t set = 0; ptoi_isa_at(set); set++) {
            for (int stream = 0; stream < 2; stream++) {
                memset(low, 0x5a, (size_t)(end - low));
                try_plan(&l, &rng, set, stream);
                if (memcmp(low, right + (low - to), (size_t)(end - low)) != 0) {
                    explain(&l, number, set, stream);
                    fail();
                }
            }
        }
    }
    unfenced(to);
    unfenced(from);
    unfenced(right);
}

/* The test above means nothing if it missed a way. */
static void test_every_way_was_gone(void **state)
{
    (void)state;
    if (test_percent() < 100) {
        skip();
    }
    static const ptoi_way ways[] = {PTOI_WAY_RUNS, PTOI_WAY_TILES, PTOI_WAY_ELEMENTS};
    for (size_t set = 0; ptoi_isa_at(set); set++) {
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            for (size_t size = 0; size < SIZES; size++) {
                /* Runs begin before elements are made wide. */
                bool can_be = ways[w] != PTOI_WAY_RUNS || size < 4;
                if (can_be && !seen[set][ways[w]][size]) {
                    fail_msg("%s: way %d was never gone with elements of %d bytes",
                             ptoi_isa_at(set)->name, (int)ways[w], 1 << size);
                }
            }
        }
    }
}

/* Several blocks, a head, edges on all sides, and blocks that get the address of the next one. */
static void test_large_planes(void **state)
{
    (void)state;
    unsigned char *to = fenced(), *from = fenced(), *right = fenced();
    test_rng rng = test_rng_make(test_seed());
    for (size_t i = 0; i < ROOM; i++) {
        from[i] = (unsigned char)test_next(&rng);
    }
    for (uint32_t size = 1; size <= 16; size *= 2) {
        for (int padded = 0; padded < 2; padded++) {
            /* Rows of the destination begin with a line, or anywhere. 16 bytes: pairs of 8. */
            int64_t ni = 300, nj = ROOM / 2 / size / 384, pitch = padded ? 384 : ni + 1;
            int64_t pair = size == 16 ? 2 : 1;
            layout l = {.ndim = 3, .size = size / (uint32_t)pair, .shape = {nj, ni, pair}};
            l.to = (side){.strides = {pitch * pair, pair, 1}, .first = to + 5 * (int64_t)size};
            l.from = (side){.strides = {pair, nj * pair, 1}, .first = from};
            for (size_t set = 0; ptoi_isa_at(set); set++) {
                for (int stream = 0; stream < 2; stream++) {
                    memset(to, 0x5a, ROOM);
                    memset(right, 0x5a, ROOM);
                    copy_naively(&l, right - to);
                    try_plan(&l, &rng, set, stream);
                    assert_memory_equal(to, right, ROOM);
                }
            }
        }
    }
    unfenced(to);
    unfenced(from);
    unfenced(right);
}

/* A destination that names a place more than once: what comes last stays, also in parts. */
static void test_in_order(void **state)
{
    (void)state;
    uint32_t from[3][4], to[8];
    for (uint32_t i = 0; i < 12; i++) {
        from[i / 4][i % 4] = i;
    }
    ptoi_plan plan;
    ptoi_plan_make(&plan, 2, (int64_t[]){3, 4}, (int64_t[]){2, 1}, (int64_t[]){4, 1}, 4,
                   (uintptr_t)to);
    assert_int_equal(plan.way, PTOI_WAY_ORDERED);
    assert_int_equal(ptoi_plan_check(&plan), PTO_OK);
    for (uint32_t part = 0; part < 3; part++) {
        ptoi_plan_run_part(&plan, to, from, part, 3);
    }
    static const uint32_t right[8] = {0, 1, 4, 5, 8, 9, 10, 11};
    assert_memory_equal(to, right, sizeof right);
}

static void test_a_long_run_in_parts(void **state)
{
    (void)state;
    enum { BYTES = 5 * PTOI_CHUNK + 77 };
    unsigned char *from = malloc(BYTES), *to = malloc(BYTES);
    assert_non_null(from);
    assert_non_null(to);
    test_rng rng = test_rng_make(test_seed());
    for (size_t i = 0; i < BYTES; i++) {
        from[i] = (unsigned char)test_next(&rng);
    }
    for (uint32_t parts = 1; parts < 9; parts++) {
        memset(to, 0, BYTES);
        ptoi_plan plan;
        ptoi_plan_make(&plan, 1, (int64_t[]){BYTES}, (int64_t[]){1}, (int64_t[]){1}, 1, 0);
        assert_int_equal(plan.pieces, 6);
        for (uint32_t part = 0; part < parts; part++) {
            ptoi_plan_run_part(&plan, to, from, part, parts);
        }
        assert_memory_equal(to, from, BYTES);
    }
    free(from);
    free(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_way_against_a_naive_loop),
        cmocka_unit_test(test_large_planes),
        cmocka_unit_test(test_every_way_was_gone),
        cmocka_unit_test(test_in_order),
        cmocka_unit_test(test_a_long_run_in_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
