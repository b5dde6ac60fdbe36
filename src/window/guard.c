#include "window/guard.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/os.h"

/* Not instrumented: it reads guards, which are poisoned for the address sanitizer. */
PTOI_OS_SEES_HIDDEN bool ptoi_guard_broken(uint64_t begin, uint64_t bytes, const char *before,
                                           const char *behind, ptoi_damage *damage)
{
    const uint64_t end = begin + bytes, length = ptoi_guard_end(begin, bytes) - end;
    *damage = (ptoi_damage){0, 0};
    for (uint64_t i = 0; i < PTOI_GUARD_LINE && !damage->before; i++) {
        damage->before = before[i] == ptoi_guard_byte(begin - PTOI_GUARD_LINE + i)
                             ? 0
                             : PTOI_GUARD_LINE - i;
    }
    for (uint64_t i = length; i-- > 0 && !damage->behind;) {
        damage->behind = behind[i] == ptoi_guard_byte(end + i) ? 0 : i + 1;
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
