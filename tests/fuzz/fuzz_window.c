/* fuzz_window.c - attaching to a damaged window (../window/windows.h).
 *
 * It is refused, or everything that it refers to lies inside it. An input is a list of cases: a
 * size, and changes to the header of a valid window.
 */
#include "fuzz.h"

#include "../window/windows.h"

/* The part that is fixed at creation, in words of 4 bytes. */
#define FIXED_WORDS (offsetof(ptoi_header, inbox_head) / 4)

static void change(test_rng *rng, unsigned char *header)
{
    const size_t at = (size_t)test_between(rng, 0, FIXED_WORDS - 2) * 4;
    const size_t size = test_between(rng, 0, 1) ? 8 : 4;
    uint64_t value;
    memcpy(&value, header + at, sizeof value);
    switch (test_between(rng, 0, 3)) {
    case 0:
        value = UINT64_C(1) << test_between(rng, 0, 63);
        break;
    case 1:
        value = UINT64_MAX >> test_between(rng, 0, 63);
        break;
    case 2:
        value += (uint64_t)test_between(rng, -8192, 8192);
        break;
    default:
        value = (uint64_t)test_between(rng, 0, UINT32_MAX) * 4096;
        break;
    }
    memcpy(header + at, &value, size);
}

/* Less than a header. */
static void attach_part(test_rng *rng, const ptoi_header *good)
{
    ptoi_view view;
    const size_t bytes = (size_t)test_between(rng, 0, sizeof *good - 1);
    void *part = fuzz_copy(good, bytes);
    assert_int_equal(ptoi_window_attach(part, bytes, &view), PTO_CORRUPT);
    free(part);
}

static void attach_changed(test_rng *rng, const window *w)
{
    ptoi_view view;
    const size_t least = sizeof(ptoi_header);
    const size_t bytes = test_between(rng, 0, 3)
                             ? w->bytes
                             : (size_t)test_between(rng, (int64_t)least, (int64_t)w->bytes);
    for (int64_t changes = test_between(rng, 0, 4); changes > 0; changes--) {
        change(rng, w->memory);
    }
    if (ptoi_window_attach(w->memory, bytes, &view) == PTO_OK) {
        window_expect_inside(&view, bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static window w;
    static ptoi_header good;
    test_rng rng = test_rng_from(data, size);
    if (!w.memory) {
        window_make(&w);
        memcpy(&good, w.memory, sizeof good);
    }
    while (!test_rng_is_spent(&rng)) {
        memcpy(w.memory, &good, sizeof good);
        if (test_between(&rng, 0, 15) == 0) {
            attach_part(&rng, &good);
        } else {
            attach_changed(&rng, &w);
        }
    }
    return 0;
}
