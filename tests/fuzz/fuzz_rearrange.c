/* fuzz_rearrange.c - Rearrange against a naive loop (../op/rearranges.h).
 *
 * Then again in memory that ends exactly where its elements do.
 */
#include "fuzz.h"

#include <sys/mman.h>

#include "../op/rearranges.h"

#define PAGE 4096

/* A region between two inaccessible pages. */
static unsigned char *guarded(int number)
{
    static unsigned char *made[2];
    if (!made[number]) {
        unsigned char *all = mmap(NULL, REGION + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
                                  -1, 0);
        if (all == MAP_FAILED || mprotect(all + PAGE, REGION, PROT_READ | PROT_WRITE)) {
            fuzz_wrong("no memory");
        }
        made[number] = all + PAGE;
    }
    return made[number];
}

/* The tensor and its bytes, at one end of a guarded region. */
static pto_tensor move_to_guard(const pto_tensor *t, int number, bool high, const void *bytes,
                                unsigned char **hull, uint64_t *hull_bytes)
{
    const int64_t size = (int64_t)pto_dtype_size(t->dtype);
    uint64_t low, end;
    expect_ok(pto_tensor_byte_range(t, &low, &end));
    *hull_bytes = end - low;
    *hull = guarded(number) + (high ? REGION - *hull_bytes : 0);
    memcpy(*hull, (const char *)bytes + low, *hull_bytes);
    pto_tensor moved = *t;
    moved.storage = *hull;
    moved.storage_bytes = *hull_bytes;
    moved.offset = t->offset - (int64_t)low / size;
    return moved;
}

/* `before` is the old arena, `naive` the expected one. */
static void again_at_the_edge(const pto_tensor *dst, const pto_tensor *src,
                              const unsigned char *before, bool high)
{
    unsigned char *to, *from;
    uint64_t to_bytes, from_bytes, low, end;
    const ptrdiff_t src_at = (unsigned char *)src->storage - arena;
    const ptrdiff_t dst_at = (unsigned char *)dst->storage - arena;
    const pto_tensor s = move_to_guard(src, 0, high, before + src_at, &from, &from_bytes);
    const pto_tensor d = move_to_guard(dst, 1, !high, before + dst_at, &to, &to_bytes);
    expect_ok(pto_rearrange(&d, &s));
    expect_ok(pto_tensor_byte_range(dst, &low, &end));
    assert_memory_equal(to, naive + dst_at + low, to_bytes);
    expect_ok(pto_tensor_byte_range(src, &low, &end));
    assert_memory_equal(from, before + src_at + low, from_bytes);
}

static pto_status copy_somehow(int64_t how, const pto_tensor *dst, const pto_tensor *src)
{
    pto_rearrange_plan *plan = NULL;
    if (how == 0) {
        return pto_rearrange(dst, src);
    }
    if (how == 1) {
        return pto_rearrange_parallel(dst, src, 2);
    }
    pto_status s = pto_rearrange_plan_create(dst, src, &plan);
    if (!s) {
        s = pto_rearrange_plan_execute(plan, dst, src);
    }
    pto_rearrange_plan_destroy(plan);
    return s;
}

static void copy_case(test_rng *rng, test_rng *noise)
{
    static unsigned char before[ARENA];
    int64_t shape[PTO_MAX_DIMS];
    pto_tensor src, dst;
    const int64_t how = test_between(rng, 0, 11);
    const int from = test_chance(rng, 30) ? 1 : 0; /* sometimes in the region of the other */
    const bool high = test_between(rng, 0, 1);
    const pto_dtype dtype = random_dtype(rng);
    const int32_t ndim = random_shape(rng, PTO_MAX_DIMS, MOST, shape);
    if (!place(rng, from, dtype, ndim, shape, &src) || !place(rng, 1, dtype, ndim, shape, &dst)) {
        return;
    }
    scramble(noise);
    memcpy(before, arena, ARENA);
    const bool same = count_of(ndim, shape) > 0 && same_elements(&dst, &src);
    const pto_status status = copy_somehow(how < 10 ? 0 : how - 9, &dst, &src);
    if (meets_itself(&dst)) {
        assert_int_equal(status, PTO_SELF_OVERLAP);
    } else if (share_bytes(&dst, &src) && !same) {
        assert_int_equal(status, PTO_OVERLAP);
    } else {
        assert_int_equal(status, PTO_OK);
        naive_copy(&dst, &src);
        again_at_the_edge(&dst, &src, before, high);
    }
    expect_same();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    test_rng rng = test_rng_from(data, size), noise = test_rng_make(size);
    while (!test_rng_is_spent(&rng)) {
        copy_case(&rng, &noise);
    }
    return 0;
}
