/* attach.c - checks a window and finds its parts.
 *
 * The window may belong to another process, so nothing in it is trusted. The `pto` command compiles
 * this file too, so it calls only public functions of the library.
 */
#include <inttypes.h>
#include <string.h>

#include <pto/kernel.h>

#include "window/guard.h"

static bool inside(const ptoi_header *h, uint64_t at, uint64_t count, uint64_t size)
{
    return at >= sizeof *h && at % PTOI_PAGE == 0 && at <= h->bytes &&
           count <= (h->bytes - at) / size;
}

/* Either every level has all three arrays, or no level has any. */
static bool guards_inside(const ptoi_header *h, const ptoi_window_level *level)
{
    const uint64_t lines = level->heap_bytes / PTOI_GUARD_LINE;
    if (!h->level[0].guards_at) {
        return !level->guards_at;
    }
    return inside(h, level->guards_at, lines, sizeof(ptoi_guard)) &&
           inside(h, level->begins_at, level->arg_units, sizeof(uint64_t)) &&
           inside(h, level->reported_at, lines, sizeof(ptoi_a64));
}

/* The array at an offset; NULL for offset 0. */
static void *part(char *base, uint64_t at)
{
    return at ? base + at : NULL;
}

pto_status ptoi_window_attach(void *memory, size_t bytes, ptoi_view *view)
{
    ptoi_header *h = memory;
    char *base = memory;
    if (bytes < sizeof *h || h->magic != PTOI_WINDOW_MAGIC) {
        return pto_fail(PTO_CORRUPT, "attach: %zu bytes that are no window", bytes);
    }
    if (h->version != PTOI_WINDOW_VERSION || h->header_bytes != sizeof *h) {
        return pto_fail(PTO_CORRUPT,
                        "attach: a window of version %u with a header of %u bytes; this is "
                        "version %u with %zu",
                        h->version, h->header_bytes, PTOI_WINDOW_VERSION, sizeof *h);
    }
    bool sound = h->bytes <= bytes && h->levels >= 1 && h->levels <= PTO_MAX_LEVELS &&
                 (h->inbox_mask & (h->inbox_mask + 1)) == 0 && h->slots <= PTOI_SLOTS_MAX &&
                 h->slots - 1 <= h->inbox_mask &&
                 inside(h, h->sched_at, 1, sizeof(ptoi_sched_header)) &&
                 h->sched_at <= h->heaps_at && h->heaps_at <= h->bytes &&
                 inside(h, h->inbox_at, h->inbox_mask + UINT64_C(1), sizeof(ptoi_a32)) &&
                 inside(h, h->slots_at, h->slots, sizeof(ptoi_slot)) &&
                 inside(h, h->states_at, h->slots, sizeof(ptoi_state)) &&
                 inside(h, h->waits_at, h->slots, sizeof(ptoi_wait)) &&
                 inside(h, h->orders_at, h->slots, sizeof(ptoi_a64)) &&
                 inside(h, h->workers_at, PTOI_LINES, sizeof(ptoi_worker_line)) &&
                 inside(h, h->failures_at, PTOI_LINES, sizeof(ptoi_failed)) &&
                 inside(h, h->times_at, PTOI_MAX_KERNELS, sizeof(ptoi_kernel_time)) &&
                 inside(h, h->descs_at, PTOI_DESC_BYTES, 1) &&
                 inside(h, h->sites_at, PTOI_MAX_SITES, sizeof(ptoi_site)) &&
                 inside(h, h->kernels_at, PTOI_MAX_KERNELS, sizeof(ptoi_kernel_entry)) &&
                 inside(h, h->strings_at, PTOI_STRING_BYTES, 1);
    for (uint32_t l = 0; sound && l < h->levels; l++) {
        const ptoi_window_level *level = &h->level[l];
        sound = level->slots && (level->slots & (level->slots - 1)) == 0 &&
                level->first_slot <= h->slots && level->slots <= h->slots - level->first_slot &&
                inside(h, level->deps_at, level->deps, sizeof(ptoi_ref)) &&
                inside(h, level->args_at, level->arg_units, sizeof(ptoi_arg_desc)) &&
                inside(h, level->heap_at, level->heap_bytes, 1) && guards_inside(h, level);
    }
    if (!sound) {
        return pto_fail(PTO_CORRUPT,
                        "attach: a window of %" PRIu64 " bytes in %zu, with %u levels and %u "
                        "slots, whose parts do not fit",
                        h->bytes, bytes, h->levels, h->slots);
    }
    memset(view, 0, sizeof *view);
    view->header = h;
    view->sched = part(base, h->sched_at);
    view->slots = part(base, h->slots_at);
    view->states = part(base, h->states_at);
    view->waits = part(base, h->waits_at);
    view->orders = part(base, h->orders_at);
    view->first = h->first_task;
    view->inbox = part(base, h->inbox_at);
    view->inbox_mask = h->inbox_mask;
    view->workers = part(base, h->workers_at);
    view->failures = part(base, h->failures_at);
    view->times = part(base, h->times_at);
    view->descs = part(base, h->descs_at);
    view->sites = part(base, h->sites_at);
    view->kernels = part(base, h->kernels_at);
    view->strings = part(base, h->strings_at);
    for (uint32_t l = 0; l < h->levels; l++) {
        const ptoi_window_level *level = &h->level[l];
        view->level[l] = (ptoi_view_level){
            .slots = view->slots + level->first_slot,
            .states = view->states + level->first_slot,
            .deps = part(base, level->deps_at),
            .args = part(base, level->args_at),
            .heap = part(base, level->heap_at),
            .guards = part(base, level->guards_at),
            .begins = part(base, level->begins_at),
            .reported = part(base, level->reported_at),
            .mask = level->slots - 1,
            .shift = (uint32_t)__builtin_ctz(level->slots),
        };
    }
    return PTO_OK;
}

void ptoi_window_read_rings(const ptoi_view *view, uint32_t level, pto_level_stats *out)
{
    const ptoi_progress *p = &view->header->progress[level];
    /* The head first: `retired` only rises, so head - retired is never more than the ring holds. */
    const uint64_t head = ptoi_acquire64(&p->head), retired = ptoi_get64(&p->retired);
    for (uint32_t r = 0; r < PTO_RINGS; r++) {
        pto_ring_stats *ring = &out->ring[r];
        *ring = (pto_ring_stats){.used = ptoi_get64(&p->ring[r].used),
                                 .peak = ptoi_get64(&p->ring[r].peak),
                                 .size = ptoi_get64(&p->ring[r].size),
                                 .waits = ptoi_get64(&p->ring[r].waits)};
        if (r == PTO_RING_TASKS) {
            ring->used = head > retired ? head - retired : 0;
        }
        ring->peak = ring->used > ring->peak ? ring->used : ring->peak;
    }
}
