#include "window/guard.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/os.h"

/* Not instrumented: it reads guards, which are poisoned for the address sanitizer. */
PTOI_OS_SEES_HIDDEN bool ptoi_guard_broken(const ptoi_view *view, uint32_t level, uint64_t at,
                                           ptoi_damage *damage)
{
    const uint64_t bytes = ptoi_get64(&ptoi_guard_of(view, level, at)->size);
    const uint64_t begin = ptoi_guard_place(true, at), end = begin + bytes;
    const uint64_t last = ptoi_guard_end(begin, bytes);
    const char *heap = view->level[level].heap;
    *damage = (ptoi_damage){0, 0};
    for (uint64_t i = begin - PTOI_GUARD_LINE; i < begin && !damage->before; i++) {
        damage->before = heap[i] == ptoi_guard_byte(i) ? 0 : begin - i;
    }
    for (uint64_t i = last; i-- > end && !damage->behind;) {
        damage->behind = heap[i] == ptoi_guard_byte(i) ? 0 : i + 1 - end;
    }
    return damage->before || damage->behind;
}

void ptoi_guard_describe(const ptoi_damage *damage, uint64_t bytes, char text[128])
{
    char before[40] = "", behind[40] = "";
    if (damage->before) {
        snprintf(before, sizeof before, "%" PRIu64 " bytes before", damage->before);
    }
    if (damage->behind) {
        snprintf(behind, sizeof behind, "%" PRIu64 " bytes behind", damage->behind);
    }
    snprintf(text, 128, "%s%s%s its buffer of %" PRIu64 " bytes", before,
             *before && *behind ? " and " : "", behind, bytes);
}
