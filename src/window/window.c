/* window.c - making a window, and looking at one. */
#include "window/window.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/os.h"

#define PAGE UINT64_C(4096)

/* Places things one after the other, each at the start of a page. */
static uint64_t place(uint64_t *end, uint64_t bytes)
{
    uint64_t at = *end;
    *end += (bytes + PAGE - 1) / PAGE * PAGE;
    return at;
}

static uint32_t round_up(uint32_t count)
{
    uint32_t power = 1;
    while (power < count) {
        power *= 2;
    }
    return power;
}

/* Fills in everything that is fixed, from the configuration. */
static void lay_out(const pto_config *config, ptoi_header *h)
{
    uint64_t end = 0, slots = 0;
    h->magic = PTOI_WINDOW_MAGIC;
    h->version = PTOI_WINDOW_VERSION;
    h->header_bytes = sizeof *h;
    h->levels = config->levels;
    place(&end, sizeof *h);
    for (uint32_t l = 0; l < h->levels; l++) {
        h->level[l].first_slot = (uint32_t)slots;
        h->level[l].slots = config->level_window[l];
        slots += config->level_window[l];
    }
    h->slots = (uint32_t)slots;
    h->inbox_mask = round_up(h->slots) - 1;
    h->inbox_at = place(&end, (h->inbox_mask + UINT64_C(1)) * sizeof(ptoi_a32));
    h->slots_at = place(&end, slots * sizeof(ptoi_slot));
    for (uint32_t l = 0; l < h->levels; l++) {
        ptoi_window_level *level = &h->level[l];
        level->deps = config->level_deps[l];
        level->deps_at = place(&end, level->deps * sizeof(ptoi_ref));
        level->arg_units = (uint32_t)(config->level_arg_bytes[l] / sizeof(ptoi_packed));
        level->args_at = place(&end, level->arg_units * sizeof(ptoi_packed));
    }
    h->sites_at = place(&end, PTOI_MAX_SITES * sizeof(ptoi_site));
    h->kernels_at = place(&end, PTOI_MAX_KERNELS * sizeof(ptoi_kernel_entry));
    h->strings_at = place(&end, PTOI_STRING_BYTES);
    for (uint32_t l = 0; l < h->levels; l++) {
        h->level[l].heap_bytes = config->level_heap_bytes[l];
        h->level[l].heap_at = place(&end, config->level_heap_bytes[l] *
                                              (config->guard ? PTOI_WINDOW_STRETCH : 1));
    }
    h->bytes = end;
}

pto_status ptoi_window_create(const pto_config *config, int *file, void **memory, size_t *bytes)
{
    ptoi_header header;
    memset(&header, 0, sizeof header);
    lay_out(config, &header);
    int made;
    pto_status s = ptoi_os_file_create("pto-window", header.bytes, &made);
    if (s != PTO_OK) {
        return s;
    }
    s = ptoi_os_file_map(made, header.bytes, memory);
    if (s != PTO_OK) {
        ptoi_os_file_close(made);
        return s;
    }
    memcpy(*memory, &header, sizeof header);
    *file = made;
    *bytes = header.bytes;
    return PTO_OK;
}

static bool inside(const ptoi_header *h, uint64_t at, uint64_t count, uint64_t size)
{
    return at >= sizeof *h && at % PAGE == 0 && at <= h->bytes && count <= (h->bytes - at) / size;
}

pto_status ptoi_window_attach(void *memory, size_t bytes, ptoi_view *view)
{
    ptoi_header *h = memory;
    char *base = memory;
    if (bytes < sizeof *h || h->magic != PTOI_WINDOW_MAGIC) {
        return ptoi_fail(PTO_CORRUPT, "attach: %zu bytes that are no window", bytes);
    }
    if (h->version != PTOI_WINDOW_VERSION || h->header_bytes != sizeof *h) {
        return ptoi_fail(PTO_CORRUPT,
                         "attach: a window of version %u with a header of %u bytes; this is "
                         "version %u with %zu",
                         h->version, h->header_bytes, PTOI_WINDOW_VERSION, sizeof *h);
    }
    bool sound = h->bytes <= bytes && h->levels >= 1 && h->levels <= PTO_MAX_LEVELS &&
                 (h->inbox_mask & (h->inbox_mask + 1)) == 0 && h->slots <= PTOI_SLOTS_MAX &&
                 h->slots - 1 <= h->inbox_mask &&
                 inside(h, h->inbox_at, h->inbox_mask + UINT64_C(1), sizeof(ptoi_a32)) &&
                 inside(h, h->slots_at, h->slots, sizeof(ptoi_slot)) &&
                 inside(h, h->sites_at, PTOI_MAX_SITES, sizeof(ptoi_site)) &&
                 inside(h, h->kernels_at, PTOI_MAX_KERNELS, sizeof(ptoi_kernel_entry)) &&
                 inside(h, h->strings_at, PTOI_STRING_BYTES, 1);
    for (uint32_t l = 0; sound && l < h->levels; l++) {
        const ptoi_window_level *level = &h->level[l];
        sound = level->slots && (level->slots & (level->slots - 1)) == 0 &&
                level->first_slot <= h->slots && level->slots <= h->slots - level->first_slot &&
                inside(h, level->deps_at, level->deps, sizeof(ptoi_ref)) &&
                inside(h, level->args_at, level->arg_units, sizeof(ptoi_packed)) &&
                inside(h, level->heap_at, level->heap_bytes, 1);
    }
    if (!sound) {
        return ptoi_fail(PTO_CORRUPT,
                         "attach: a window of %" PRIu64 " bytes in %zu, with %u levels and %u "
                         "slots, whose parts do not fit",
                         h->bytes, bytes, h->levels, h->slots);
    }
    memset(view, 0, sizeof *view);
    view->header = h;
    view->slots = (ptoi_slot *)(void *)(base + h->slots_at);
    view->inbox = (ptoi_a32 *)(void *)(base + h->inbox_at);
    view->inbox_mask = h->inbox_mask;
    view->sites = (ptoi_site *)(void *)(base + h->sites_at);
    view->kernels = (ptoi_kernel_entry *)(void *)(base + h->kernels_at);
    view->strings = base + h->strings_at;
    for (uint32_t l = 0; l < h->levels; l++) {
        const ptoi_window_level *level = &h->level[l];
        view->level[l] = (ptoi_view_level){
            .slots = view->slots + level->first_slot,
            .deps = (uint64_t *)(void *)(base + level->deps_at),
            .args = (ptoi_packed *)(void *)(base + level->args_at),
            .heap = base + level->heap_at,
            .mask = level->slots - 1,
            .shift = (uint32_t)__builtin_ctz(level->slots),
        };
    }
    return PTO_OK;
}
