/* attach.c - checks the files of a window and finds what is in them.
 *
 * The window may belong to another process, so nothing in it is trusted. The `pto` command compiles
 * this file too, so it calls only public functions of the library.
 */
#include <inttypes.h>
#include <string.h>

#include <pto/kernel.h>

#include "window/builtin.h"
#include "window/guard.h"

const char *const ptoi_part_names[PTOI_PARTS] = {
    [PTOI_PART_ORCHESTRATOR] = "orchestrator",
    [PTOI_PART_SCHEDULER] = "scheduler",
    [PTOI_PART_WAKES] = "wakes",
    [PTOI_PART_HEAPS] = "heaps",
};

static bool inside(const ptoi_file *file, uint64_t at, uint64_t count, uint64_t size)
{
    return at >= file->header_bytes && at % PTOI_PAGE == 0 && at <= file->bytes &&
           count <= (file->bytes - at) / size;
}

/* Either every level has all three arrays, or no level has any. */
static bool guards_inside(const ptoi_header *h, const ptoi_sched_header *s, uint32_t l)
{
    const ptoi_window_level *level = &h->level[l];
    const uint64_t lines = level->heap_bytes / PTOI_GUARD_LINE;
    if (!h->level[0].guards_at) {
        return !level->guards_at;
    }
    return inside(&h->file, level->guards_at, lines, sizeof(ptoi_guard)) &&
           inside(&h->file, level->begins_at, level->arg_units, sizeof(uint64_t)) &&
           inside(&s->file, s->reported_at[l], lines, sizeof(ptoi_a64));
}

static bool level_inside(const ptoi_header *h, uint32_t l)
{
    const ptoi_window_level *level = &h->level[l];
    const ptoi_file heaps = {.bytes = h->heaps_bytes};
    return level->slots && (level->slots & (level->slots - 1)) == 0 &&
           level->first_slot <= h->slots && level->slots <= h->slots - level->first_slot &&
           inside(&h->file, level->deps_at, level->deps, sizeof(ptoi_ref)) &&
           inside(&h->file, level->args_at, level->arg_units, sizeof(ptoi_arg_desc)) &&
           inside(&heaps, level->heap_at, level->heap_bytes,
                  h->level[0].guards_at ? PTOI_WINDOW_STRETCH : 1);
}

/* Whether all arrays lie inside of their files. */
static bool is_sound(const ptoi_header *h, const ptoi_sched_header *s)
{
    bool sound = h->levels >= 1 && h->levels <= PTO_MAX_LEVELS &&
                 (h->inbox_mask & (h->inbox_mask + 1)) == 0 && h->slots <= PTOI_SLOTS_MAX &&
                 h->slots - 1 <= h->inbox_mask && h->max_params <= PTOI_MAX_PARAMS &&
                 inside(&h->file, h->inbox_at, h->inbox_mask + UINT64_C(1), sizeof(ptoi_a32)) &&
                 inside(&h->file, h->slots_at, h->slots, sizeof(ptoi_slot)) &&
                 inside(&h->file, h->orders_at, h->slots, sizeof(ptoi_a64)) &&
                 inside(&h->file, h->descs_at, PTOI_DESC_BYTES, 1) &&
                 inside(&h->file, h->sites_at, PTOI_MAX_SITES, sizeof(ptoi_site)) &&
                 inside(&h->file, h->kernels_at, PTOI_MAX_KERNELS, sizeof(ptoi_kernel_entry)) &&
                 inside(&h->file, h->codes_at, PTOI_MAX_KERNELS, sizeof(ptoi_kernel_code)) &&
                 inside(&h->file, h->strings_at, PTOI_STRING_BYTES, 1) &&
                 inside(&h->file, h->labels_at, h->slots, sizeof(ptoi_label)) &&
                 inside(&h->file, h->posts_at, h->inbox_mask + UINT64_C(1), sizeof(ptoi_post)) &&
                 ptoi_get32(&h->workers) <= PTO_MAX_WORKERS &&
                 ptoi_get32(&h->processes) <= PTO_MAX_WORKERS &&
                 inside(&s->file, s->workers_at, PTOI_LINES, sizeof(ptoi_worker_line)) &&
                 inside(&s->file, s->failures_at, PTOI_LINES, sizeof(ptoi_failed)) &&
                 inside(&s->file, s->states_at, h->slots, sizeof(ptoi_state)) &&
                 inside(&s->file, s->waits_at, h->slots, sizeof(ptoi_wait)) &&
                 inside(&s->file, s->times_at, PTOI_MAX_KERNELS, sizeof(ptoi_kernel_time)) &&
                 inside(&s->file, s->cells_at, PTOI_QUEUES * (h->inbox_mask + UINT64_C(1)),
                        sizeof(ptoi_queue_cell));
    for (uint32_t l = 0; sound && l < h->levels; l++) {
        sound = level_inside(h, l) && guards_inside(h, s, l);
    }
    if (sound && h->log_at) {
        sound = inside(&h->file, h->log_at, PTOI_LOG_ENTRIES, sizeof(uint32_t)) &&
                inside(&s->file, s->grid_at, 1, sizeof(ptoi_grid_shared)) &&
                inside(&s->file, s->host_ready_at, h->inbox_mask + UINT64_C(1), sizeof(ptoi_a64)) &&
                inside(&s->file, s->host_posts_at, h->inbox_mask + UINT64_C(1), sizeof(uint64_t));
    }
    return sound;
}

/* Whether the files are the two halves of one window of this version. */
static pto_status check_files(const ptoi_mapping *m)
{
    static const size_t headers[] = {sizeof(ptoi_header), sizeof(ptoi_sched_header)};
    const ptoi_file *files[2];
    bool fits = true;
    for (int p = 0; p < 2; p++) {
        files[p] = m->memory[p];
        const uint64_t magic = m->bytes[p] < headers[p]
                                   ? ~UINT64_C(0)
                                   : ptoi_acquire64(&files[p]->magic); /* pairs W19 */
        if (!magic) {
            return pto_fail(PTO_CORRUPT, "attach: the runtime is still being created: try again");
        }
        if (magic != PTOI_WINDOW_MAGIC + (unsigned)p) {
            return pto_fail(PTO_CORRUPT, "attach: %zu bytes that are no %s's file of a window",
                            m->bytes[p], ptoi_part_names[p]);
        }
        fits &= files[p]->version == PTOI_WINDOW_VERSION && files[p]->header_bytes == headers[p];
    }
    if (!fits) {
        return pto_fail(PTO_CORRUPT,
                        "attach: the orchestrator's file is of version %u with a header of %u "
                        "bytes, the scheduler's of version %u with %u; this is version %u with "
                        "%zu and %zu",
                        files[0]->version, files[0]->header_bytes, files[1]->version,
                        files[1]->header_bytes, PTOI_WINDOW_VERSION, headers[0], headers[1]);
    }
    if (files[0]->window != files[1]->window) {
        return pto_fail(PTO_CORRUPT,
                        "attach: the orchestrator's file is of window %" PRIu64 " of process "
                        "%" PRIu64 ", the scheduler's of window %" PRIu64 " of process %" PRIu64,
                        files[0]->window & UINT32_MAX, files[0]->window >> 32,
                        files[1]->window & UINT32_MAX, files[1]->window >> 32);
    }
    return PTO_OK;
}

/* The array at an offset; NULL for offset 0, where the header is. */
static void *array(void *base, uint64_t at)
{
    return at ? (char *)base + at : NULL;
}

static ptoi_view_level view_level(const ptoi_view *view, uint32_t l)
{
    const ptoi_window_level *level = &view->header->level[l];
    return (ptoi_view_level){
        .slots = view->slots + level->first_slot,
        .states = view->states + level->first_slot,
        .deps = array(view->header, level->deps_at),
        .args = array(view->header, level->args_at),
        .begins = array(view->header, level->begins_at),
        .mask = level->slots - 1,
        .shift = (uint32_t)__builtin_ctz(level->slots),
        .n_deps = level->deps,
        .n_args = level->arg_units,
    };
}

pto_status ptoi_window_attach(const ptoi_mapping *m, ptoi_view *view)
{
    PTO_TRY(check_files(m));
    ptoi_header *h = m->memory[PTOI_PART_ORCHESTRATOR];
    ptoi_sched_header *s = m->memory[PTOI_PART_SCHEDULER];
    if (h->file.bytes > m->bytes[PTOI_PART_ORCHESTRATOR] ||
        s->file.bytes > m->bytes[PTOI_PART_SCHEDULER] ||
        m->bytes[PTOI_PART_WAKES] < sizeof(ptoi_wakes) ||
        (m->memory[PTOI_PART_HEAPS] &&
         (h->heaps_bytes > m->bytes[PTOI_PART_HEAPS] ||
          h->shared_bytes > m->bytes[PTOI_PART_HEAPS] - h->heaps_bytes)) ||
        !is_sound(h, s)) {
        return pto_fail(PTO_CORRUPT,
                        "attach: a window of %" PRIu64 ", %" PRIu64 ", %zu and %" PRIu64
                        " bytes in %zu, %zu, %zu and %zu, with %u levels and %u slots, whose "
                        "arrays do not fit",
                        h->file.bytes, s->file.bytes, sizeof(ptoi_wakes), h->heaps_bytes,
                        m->bytes[0], m->bytes[1], m->bytes[2], m->bytes[3], h->levels, h->slots);
    }
    memset(view, 0, sizeof *view);
    view->header = h;
    view->sched = s;
    view->wakes = m->memory[PTOI_PART_WAKES];
    view->slots = array(h, h->slots_at);
    view->states = array(s, s->states_at);
    view->waits = array(s, s->waits_at);
    view->orders = array(h, h->orders_at);
    view->first = h->first_task;
    view->inbox = array(h, h->inbox_at);
    view->inbox_mask = h->inbox_mask;
    view->n_slots = h->slots;
    view->levels = h->levels;
    view->max_params = h->max_params;
    view->workers = array(s, s->workers_at);
    view->failures = array(s, s->failures_at);
    view->times = array(s, s->times_at);
    view->descs = array(h, h->descs_at);
    view->sites = array(h, h->sites_at);
    view->kernels = array(h, h->kernels_at);
    view->codes = array(h, h->codes_at);
    view->strings = array(h, h->strings_at);
    view->labels = array(h, h->labels_at);
    view->cells = array(s, s->cells_at);
    view->posts = array(h, h->posts_at);
    for (uint32_t l = 0; l < h->levels; l++) {
        char *heaps = m->memory[PTOI_PART_HEAPS];
        view->level[l] = view_level(view, l);
        view->base[l] = heaps ? heaps + h->level[l].heap_at : NULL;
        view->guards[l] = array(h, h->level[l].guards_at);
        view->reported[l] = array(s, s->reported_at[l]);
        view->segment_bytes[l] = h->level[l].heap_bytes *
                                 (h->level[0].guards_at ? PTOI_WINDOW_STRETCH : 1);
    }
    if (m->memory[PTOI_PART_HEAPS] && h->shared_bytes) {
        view->base[PTOI_SEGMENT_SHARED] = (char *)m->memory[PTOI_PART_HEAPS] + h->heaps_bytes;
        view->segment_bytes[PTOI_SEGMENT_SHARED] = h->shared_bytes;
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

uint32_t ptoi_window_read_devices(const ptoi_view *view, pto_device_stats out[PTO_MAX_DEVICES])
{
    const ptoi_header *h = view->header;
    const uint32_t stored = ptoi_acquire32(&h->devices);
    const uint32_t n = stored < PTOI_DEVICES ? stored : PTOI_DEVICES;
    for (uint32_t d = 0; d < n; d++) {
        const ptoi_device_line *line = &h->device[d];
        out[d] = (pto_device_stats){.device = ptoi_device_of_word(ptoi_get64(&line->device)),
                                    .workers = ptoi_get32(&line->n_workers)};
        for (uint32_t l = 0; l < PTO_MAX_LEVELS; l++) {
            out[d].heap[l].used = ptoi_get64(&line->heap[l].used);
            out[d].heap[l].peak = ptoi_get64(&line->heap[l].peak);
            out[d].heap[l].size = ptoi_get64(&line->heap[l].size);
        }
    }
    return n;
}
