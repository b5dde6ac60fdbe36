/* window.c - creates a window: the layout of its parts, the file and the mapping. */
#include "window/guard.h"

#include <string.h>

#include "base/os.h"

/* Places parts one after the other, each at the start of a page. Returns the offset of the part. */
static uint64_t place(uint64_t *end, uint64_t bytes)
{
    uint64_t at = *end;
    *end += (bytes + PTOI_PAGE - 1) / PTOI_PAGE * PTOI_PAGE;
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

/* Fills in all fields that are fixed at creation. */
static void lay_out(const pto_config *config, ptoi_header *h)
{
    uint64_t end = 0, slots = 0;
    h->magic = PTOI_WINDOW_MAGIC;
    h->version = PTOI_WINDOW_VERSION;
    h->header_bytes = sizeof *h;
    h->levels = config->levels;
    for (uint32_t l = 0; l < h->levels; l++) {
        ptoi_window_level *level = &h->level[l];
        level->first_slot = (uint32_t)slots;
        level->slots = config->level_ring_tasks[l];
        level->deps = config->level_deps[l];
        level->arg_units = (uint32_t)(config->level_arg_bytes[l] / sizeof(ptoi_arg_desc));
        level->heap_bytes = config->level_heap_bytes[l];
        slots += level->slots;
    }
    h->slots = (uint32_t)slots;
    h->max_buffers = config->buffers;
    h->first_task = config->first_task;
    h->inbox_mask = round_up(h->slots) - 1;
    ptoi_set32(&h->era, 1);
    ptoi_set64(&h->created, ptoi_os_clock());
    ptoi_set32(&h->process, ptoi_os_process());
    ptoi_set32(&h->place, (uint32_t)config->place);
    memcpy(h->runtime, PTO_VERSION, sizeof PTO_VERSION);

    /* the orchestrator's part */
    place(&end, sizeof *h);
    h->inbox_at = place(&end, (h->inbox_mask + UINT64_C(1)) * sizeof(ptoi_a32));
    h->slots_at = place(&end, slots * sizeof(ptoi_slot));
    h->orders_at = place(&end, slots * sizeof(ptoi_a64));
    for (uint32_t l = 0; l < h->levels; l++) {
        ptoi_window_level *level = &h->level[l];
        level->deps_at = place(&end, level->deps * sizeof(ptoi_ref));
        level->args_at = place(&end, level->arg_units * sizeof(ptoi_arg_desc));
        if (config->guard) {
            level->guards_at = place(&end,
                                     level->heap_bytes / PTOI_GUARD_LINE * sizeof(ptoi_guard));
            level->begins_at = place(&end, level->arg_units * sizeof(uint64_t));
        }
    }
    h->descs_at = place(&end, PTOI_DESC_BYTES);
    h->sites_at = place(&end, PTOI_MAX_SITES * sizeof(ptoi_site));
    h->kernels_at = place(&end, PTOI_MAX_KERNELS * sizeof(ptoi_kernel_entry));
    h->strings_at = place(&end, PTOI_STRING_BYTES);

    /* the scheduler's part */
    h->sched_at = place(&end, sizeof(ptoi_sched_header));
    h->workers_at = place(&end, PTOI_LINES * sizeof(ptoi_worker_line));
    h->failures_at = place(&end, PTOI_LINES * sizeof(ptoi_failed));
    h->states_at = place(&end, slots * sizeof(ptoi_state));
    h->waits_at = place(&end, slots * sizeof(ptoi_wait));
    h->times_at = place(&end, PTOI_MAX_KERNELS * sizeof(ptoi_kernel_time));
    for (uint32_t l = 0; config->guard && l < h->levels; l++) {
        h->level[l].reported_at = place(&end, h->level[l].heap_bytes / PTOI_GUARD_LINE *
                                                  sizeof(ptoi_a64));
    }

    /* the heaps */
    h->heaps_at = end;
    for (uint32_t l = 0; l < h->levels; l++) {
        h->level[l].heap_at = place(&end, h->level[l].heap_bytes *
                                              (config->guard ? PTOI_WINDOW_STRETCH : 1));
    }
    h->bytes = end;
}

pto_status ptoi_window_protect(void *memory, ptoi_side side)
{
    const ptoi_header *h = memory;
    return side == PTOI_SIDE_ORCHESTRATOR
               ? ptoi_os_protect((char *)memory + h->sched_at, h->heaps_at - h->sched_at)
               : ptoi_os_protect(memory, h->sched_at);
}

pto_status ptoi_window_create(const pto_config *config, int *file, void **memory, size_t *bytes)
{
    ptoi_header header;
    memset(&header, 0, sizeof header);
    lay_out(config, &header);
    int made;
    pto_status s = ptoi_os_file_create(PTOI_WINDOW_NAME, header.bytes, &made);
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
