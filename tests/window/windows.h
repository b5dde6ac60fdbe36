/* windows.h - a small window, and the checks for an accepted one. Include after cmocka.h. */
#ifndef PTO_TEST_WINDOWS_H
#define PTO_TEST_WINDOWS_H

#include "base/config.h"
#include "base/os.h"
#include "window/window.h"

typedef struct window {
    int file;
    void *memory;
    size_t bytes;
    ptoi_view view;
} window;

static inline void window_make(window *w)
{
    static ptoi_settings settings;
    pto_config config = PTO_CONFIG_INIT;
    config.levels = 3;
    config.ring_tasks = 8;
    config.heap_bytes = 1000;
    config.level_ring_tasks[2] = 32;
    config.deps = 4;
    assert_int_equal(ptoi_config_resolve(&config, &settings), PTO_OK);
    assert_int_equal(ptoi_window_create(&settings.config, &w->file, &w->memory, &w->bytes), PTO_OK);
    assert_int_equal(ptoi_window_attach(w->memory, w->bytes, &w->view), PTO_OK);
}

static inline void window_drop(window *w)
{
    ptoi_os_release(w->memory, w->bytes);
    ptoi_os_file_close(w->file);
}

/* Everything that a view refers to lies inside the `bytes` of its window. */
static inline void window_expect_inside(const ptoi_view *view, size_t bytes)
{
    const ptoi_header *h = view->header;
    const char *begin = (const char *)h, *end = begin + bytes;
    assert_true((char *)view->inbox >= begin && (char *)(view->inbox + view->inbox_mask) < end);
    assert_true((char *)view->slots >= begin && (char *)(view->slots + h->slots) <= end);
    assert_true((char *)view->sites >= begin && (char *)(view->sites + PTOI_MAX_SITES) <= end);
    assert_true((char *)view->kernels >= begin &&
                (char *)(view->kernels + PTOI_MAX_KERNELS) <= end);
    assert_true(view->strings >= begin && view->strings + PTOI_STRING_BYTES <= end);
    for (uint32_t l = 0; l < h->levels; l++) {
        const ptoi_view_level *level = &view->level[l];
        assert_true((char *)level->slots >= begin &&
                    (char *)(level->slots + level->mask + 1) <= end);
        assert_true((char *)level->deps >= begin &&
                    (char *)(level->deps + h->level[l].deps) <= end);
        assert_true((char *)level->args >= begin &&
                    (char *)(level->args + h->level[l].arg_units) <= end);
        assert_true(level->heap >= begin && level->heap + h->level[l].heap_bytes <= end);
        /* Slot numbers, as stored in the inbox, cover all slots of all levels. */
        assert_true(level->slots >= view->slots &&
                    level->slots + level->mask < view->slots + h->slots);
    }
}

#endif /* PTO_TEST_WINDOWS_H */
