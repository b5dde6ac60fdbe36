/* windows.h - a small window, and the checks for an accepted one. Include after cmocka.h. */
#ifndef PTO_TEST_WINDOWS_H
#define PTO_TEST_WINDOWS_H

#include "base/config.h"
#include "base/os.h"
#include "window/guard.h"

typedef struct window {
    int files[PTOI_PARTS];
    ptoi_mapping mapping;
    ptoi_view view;
} window;

/* With memory that the program shares with worker processes, if there are bytes of it. */
static inline void window_make_shared(window *w, uint64_t shared_bytes)
{
    static ptoi_settings settings;
    pto_config config = PTO_CONFIG_INIT;
    config.place = shared_bytes ? PTO_PLACE_PROCESS : PTO_PLACE_INLINE;
    config.shared_bytes = shared_bytes;
    config.levels = 3;
    config.ring_tasks = 8;
    config.heap_bytes = 1000;
    config.level_ring_tasks[2] = 32;
    config.deps = 4;
    assert_int_equal(ptoi_config_resolve(&config, &settings), PTO_OK);
    assert_int_equal(ptoi_window_create(&settings, w->files, &w->mapping), PTO_OK);
    assert_int_equal(ptoi_window_attach(&w->mapping, &w->view), PTO_OK);
}

static inline void window_make(window *w)
{
    window_make_shared(w, 0);
}

static inline void window_drop(window *w)
{
    ptoi_window_unmap(&w->mapping);
    ptoi_window_close(w->files);
}

/* Whether `count` elements lie inside a part of the mapping. */
#define WINDOW_HAS(mapping, part, array, count)                                                    \
    ((char *)(array) >= (char *)(mapping)->memory[part] &&                                         \
     (char *)((array) + (count)) <= (char *)(mapping)->memory[part] + (mapping)->bytes[part])

/* Everything that a view refers to lies inside its part of the mapping. */
static inline void window_expect_inside(const ptoi_view *view, const ptoi_mapping *m)
{
    const ptoi_header *h = view->header;
    const int o = PTOI_PART_ORCHESTRATOR, s = PTOI_PART_SCHEDULER;
    assert_true(WINDOW_HAS(m, o, view->inbox, view->inbox_mask + UINT64_C(1)));
    assert_true(WINDOW_HAS(m, o, view->slots, h->slots));
    assert_true(WINDOW_HAS(m, o, view->orders, h->slots));
    assert_true(WINDOW_HAS(m, o, view->descs, PTOI_DESC_BYTES));
    assert_true(WINDOW_HAS(m, o, view->sites, PTOI_MAX_SITES));
    assert_true(WINDOW_HAS(m, o, view->kernels, PTOI_MAX_KERNELS));
    assert_true(WINDOW_HAS(m, o, view->strings, PTOI_STRING_BYTES));
    assert_true(WINDOW_HAS(m, o, view->labels, h->slots));
    assert_true(WINDOW_HAS(m, PTOI_PART_WAKES, view->wakes, 1));
    assert_true(WINDOW_HAS(m, s, view->cells, PTOI_QUEUES * (view->inbox_mask + UINT64_C(1))));
    assert_true(WINDOW_HAS(m, s, view->states, h->slots));
    assert_true(WINDOW_HAS(m, s, view->waits, h->slots));
    assert_true(WINDOW_HAS(m, s, view->workers, PTOI_LINES));
    assert_true(WINDOW_HAS(m, s, view->failures, PTOI_LINES));
    assert_true(WINDOW_HAS(m, s, view->times, PTOI_MAX_KERNELS));
    for (uint32_t l = 0; l < h->levels; l++) {
        const ptoi_view_level *level = &view->level[l];
        const uint64_t lines = h->level[l].heap_bytes / PTOI_LINE;
        assert_true(WINDOW_HAS(m, o, level->deps, h->level[l].deps));
        assert_true(WINDOW_HAS(m, o, level->args, h->level[l].arg_units));
        if (view->guards[l]) {
            assert_true(WINDOW_HAS(m, o, view->guards[l], lines));
            assert_true(WINDOW_HAS(m, o, level->begins, h->level[l].arg_units));
            assert_true(WINDOW_HAS(m, s, view->reported[l], lines));
        }
        if (view->base[l]) {
            assert_true(WINDOW_HAS(m, PTOI_PART_HEAPS, view->base[l], h->level[l].heap_bytes));
        }
        /* The inbox names slots of all levels by their index. */
        assert_true(level->slots >= view->slots &&
                    level->slots + level->mask < view->slots + h->slots);
    }
}

#endif /* PTO_TEST_WINDOWS_H */
