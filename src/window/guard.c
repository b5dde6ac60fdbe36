#include "window/guard.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/os.h"

/* What recycled memory is filled with: as a float a small negative number that looks odd, as an
 * integer or an address nothing that anybody means. */
#define BURIED 0xdb

/* More is left as it is: large memory may never have been touched. */
#define MOST_BURIED (UINT64_C(1) << 20)
#define MOST_HIDDEN (UINT64_C(1) << 20)

/* Differs from byte to byte, so that no fill and no copy of it looks the same. */
static unsigned char pattern(uint64_t i)
{
    return (unsigned char)(0x5a + 37 * i);
}

static uint64_t in_lines(uint64_t bytes)
{
    return (bytes + PTOI_GUARD_LINE - 1) / PTOI_GUARD_LINE * PTOI_GUARD_LINE;
}

pto_status ptoi_guard_create(ptoi_guard **guard, const pto_config *config)
{
    ptoi_guard *made = calloc(1, sizeof *made);
    if (!made) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "create: %zu bytes for guards", sizeof *made);
    }
    made->levels = config->levels;
    bool good = true;
    for (uint32_t l = 0; l < made->levels; l++) {
        ptoi_guard_level *level = &made->level[l];
        level->size_bytes = config->level_heap_bytes[l] / PTOI_GUARD_LINE * sizeof *level->sizes;
        level->begin_bytes = config->level_arg_bytes[l] / 16 * sizeof *level->begins;
        level->sizes = ptoi_os_reserve(level->size_bytes);
        level->begins = ptoi_os_reserve(level->begin_bytes);
        good = good && level->sizes && level->begins;
    }
    if (!good) {
        ptoi_guard_destroy(made);
        return ptoi_fail(PTO_OUT_OF_MEMORY, "create: notes about guards");
    }
    *guard = made;
    return PTO_OK;
}

/* Not around large memory: the sanitizer's own notes about all of it would take memory. */
static void hide(ptoi_guard_level *g, uint64_t from, uint64_t to, uint64_t bytes)
{
    if (bytes <= MOST_HIDDEN) {
        ptoi_os_hide(g->heap[0] + from, to - from);
        ptoi_os_hide(g->heap[1] + from, to - from);
        g->hidden = g->hidden < to ? to : g->hidden;
    }
}

static void show(const ptoi_guard_level *g, uint64_t from, uint64_t to)
{
    to = to < g->hidden ? to : g->hidden;
    if (from < to) {
        ptoi_os_show(g->heap[0] + from, to - from);
        ptoi_os_show(g->heap[1] + from, to - from);
    }
}

void ptoi_guard_destroy(ptoi_guard *guard)
{
    for (uint32_t l = 0; guard && l < guard->levels; l++) {
        ptoi_guard_level *level = &guard->level[l];
        show(level, 0, level->hidden); /* the addresses will be others' */
        ptoi_os_release(level->sizes, level->size_bytes);
        ptoi_os_release(level->begins, level->begin_bytes);
    }
    free(guard);
}

void ptoi_guard_arm(ptoi_guard *guard, uint32_t level, uint64_t at, uint64_t bytes)
{
    ptoi_guard_level *g = &guard->level[level];
    const uint64_t begin = ptoi_guard_place(guard, at), end = begin + bytes;
    const uint64_t last = begin + in_lines(bytes) + PTOI_GUARD_LINE;
    const uint64_t first = begin - PTOI_GUARD_LINE;
    ptoi_set64(&g->sizes[at / PTOI_GUARD_LINE], bytes);
    show(g, first, last);
    for (uint64_t i = first; i < begin; i++) {
        g->heap[0][i] = (char)pattern(i);
    }
    for (uint64_t i = end; i < last; i++) {
        g->heap[0][i] = (char)pattern(i);
    }
    hide(g, first, begin, bytes);
    hide(g, end, last, bytes);
}

void ptoi_guard_bury(ptoi_guard *guard, uint32_t level, uint64_t at)
{
    ptoi_guard_level *g = &guard->level[level];
    const uint64_t begin = ptoi_guard_place(guard, at), bytes = ptoi_guard_size(guard, level, at);
    memset(g->heap[0] + begin, BURIED, bytes < MOST_BURIED ? bytes : MOST_BURIED);
    hide(g, begin, begin + bytes, bytes);
}

/* Looks at memory that the sanitizer is told to hide. */
PTOI_OS_SEES_HIDDEN bool ptoi_guard_broken(const ptoi_guard *guard, int side, uint32_t level,
                                           uint64_t at, ptoi_damage *damage)
{
    const uint64_t bytes = ptoi_guard_size(guard, level, at);
    const uint64_t begin = ptoi_guard_place(guard, at), end = begin + bytes;
    const uint64_t last = begin + in_lines(bytes) + PTOI_GUARD_LINE;
    const char *heap = guard->level[level].heap[side];
    *damage = (ptoi_damage){0, 0};
    for (uint64_t i = begin - PTOI_GUARD_LINE; i < begin && !damage->before; i++) {
        damage->before = heap[i] == (char)pattern(i) ? 0 : begin - i;
    }
    for (uint64_t i = last; i-- > end && !damage->behind;) {
        damage->behind = heap[i] == (char)pattern(i) ? 0 : i + 1 - end;
    }
    return damage->before || damage->behind;
}
