/* rings.c - see rings.h. */
#include "rings.h"

#include <inttypes.h>
#include <string.h>

const ring_words ring_words_of[] = {
#define RING_WORDS(NAME, name, key, trace, unit, field, variable) {key, trace, unit, variable},
    PTO_LEVEL_RING_MAP(RING_WORDS)
#undef RING_WORDS
};

bool ring_is_bytes(uint32_t ring)
{
    return strcmp(ring_words_of[ring].unit, "bytes") == 0;
}

words ring_amount(uint32_t ring, uint64_t value)
{
    words w;
    if (ring_is_bytes(ring)) {
        return words_bytes(value);
    }
    snprintf(w.s, sizeof w.s, "%" PRIu64, value);
    return w;
}
