/* fuzz_window.c - attaching to a damaged window (../window/windows.h).
 *
 * It is refused, or everything that it refers to lies inside it. An input is a list of cases: the
 * sizes of the files, and changes to the headers of a valid window.
 */
#include "fuzz.h"

#include "../window/windows.h"

/* Of both headers: all bytes, and those that are fixed at creation. */
static const size_t header_bytes[] = {sizeof(ptoi_header), sizeof(ptoi_sched_header)};
static const size_t fixed_bytes[] = {offsetof(ptoi_header, inbox_head),
                                     offsetof(ptoi_sched_header, inbox_claimed)};

/* What a window begins with, in each file. */
static unsigned char good[2][sizeof(ptoi_header)];

static void change(test_rng *rng, const ptoi_mapping *m)
{
    const int part = test_between(rng, 0, 3) == 0;
    unsigned char *header = m->memory[part];
    const size_t at = (size_t)test_between(rng, 0, (int64_t)fixed_bytes[part] / 4 - 2) * 4;
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

/* Less than a header, in memory that ends there. */
static void attach_part(test_rng *rng, const window *w)
{
    ptoi_view view;
    ptoi_mapping m = w->mapping;
    const int part = (int)test_between(rng, 0, 1);
    m.bytes[part] = (size_t)test_between(rng, 0, (int64_t)header_bytes[part] - 1);
    m.memory[part] = fuzz_copy(good[part], m.bytes[part]);
    assert_int_equal(ptoi_window_attach(&m, &view), PTO_CORRUPT);
    free(m.memory[part]);
}

static void attach_changed(test_rng *rng, const window *w)
{
    ptoi_view view;
    ptoi_mapping m = w->mapping;
    for (int p = 0; p < PTOI_PARTS; p++) {
        const int64_t least = p >= PTOI_PART_WAKES ? 0 : (int64_t)header_bytes[p];
        m.bytes[p] = test_between(rng, 0, 3)
                         ? m.bytes[p]
                         : (size_t)test_between(rng, least, (int64_t)m.bytes[p]);
    }
    for (int64_t changes = test_between(rng, 0, 4); changes > 0; changes--) {
        change(rng, &m);
    }
    if (ptoi_window_attach(&m, &view) == PTO_OK) {
        window_expect_inside(&view, &m);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static window w;
    test_rng rng = test_rng_from(data, size);
    if (!w.view.header) {
        window_make(&w);
        for (int p = 0; p < 2; p++) {
            memcpy(good[p], w.mapping.memory[p], header_bytes[p]);
        }
    }
    while (!test_rng_is_spent(&rng)) {
        for (int p = 0; p < 2; p++) {
            memcpy(w.mapping.memory[p], good[p], header_bytes[p]);
        }
        if (test_between(&rng, 0, 15) == 0) {
            attach_part(&rng, &w);
        } else {
            attach_changed(&rng, &w);
        }
    }
    return 0;
}
