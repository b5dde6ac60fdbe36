/* window.c - creates a window: the layout of its parts, the files and their mappings. */
#include "window/guard.h"
#include "window/mirror.h"

#include <stdio.h>
#include <string.h>

#include "base/os.h"

/* Places arrays one after the other, each at the start of a page. Returns the offset of the array. */
static uint64_t place(uint64_t *end, uint64_t bytes)
{
    uint64_t at = *end;
    *end += (bytes + PTOI_PAGE - 1) / PTOI_PAGE * PTOI_PAGE;
    return at;
}

static uint32_t round_up(uint32_t count)
{
    uint32_t power = 2; /* a queue needs two cells */
    while (power < count) {
        power *= 2;
    }
    return power;
}

static ptoi_file file_of(size_t header_bytes, uint64_t bytes, uint32_t number)
{
    return (ptoi_file){.version = PTOI_WINDOW_VERSION,
                       .header_bytes = (uint32_t)header_bytes,
                       .bytes = bytes,
                       .window = (uint64_t)ptoi_os_process() << 32 | number};
}

/* Fills in the sizes. */
static void size_up(const pto_config *config, ptoi_header *h)
{
    uint64_t slots = 0, units = 0;
    h->levels = config->levels;
    for (uint32_t l = 0; l < h->levels; l++) {
        ptoi_window_level *level = &h->level[l];
        level->first_slot = (uint32_t)slots;
        level->slots = config->level_ring_tasks[l];
        level->deps = config->level_deps[l];
        level->arg_units = (uint32_t)(config->level_arg_bytes[l] / sizeof(ptoi_arg_desc));
        level->heap_bytes = config->level_heap_bytes[l];
        slots += level->slots;
        units = units < level->arg_units ? level->arg_units : units;
    }
    h->slots = (uint32_t)slots;
    h->max_buffers = config->buffers;
    /* An argument takes a unit at least, and an `after` names a task. */
    h->max_params = (uint32_t)(units < slots ? slots : units);
    h->max_params = h->max_params < PTOI_MAX_PARAMS ? h->max_params : PTOI_MAX_PARAMS;
    h->asymmetric = ptoi_os_has_barrier(config->place == PTO_PLACE_PROCESS);
    h->first_task = config->first_task;
    h->inbox_mask = round_up(h->slots) - 1;
}

static void lay_out_orchestrator(const ptoi_settings *settings, uint32_t number, ptoi_header *h)
{
    const pto_config *config = &settings->config;
    uint64_t end = 0;
    ptoi_set32(&h->era, 1);
    ptoi_set64(&h->created, ptoi_os_clock());
    ptoi_set32(&h->process, ptoi_os_process());
    ptoi_set32(&h->place, (uint32_t)config->place);
    ptoi_set32(&h->workers, settings->n_workers);
    ptoi_set32(&h->processes, settings->n_processes);
    memcpy(h->runtime, PTO_VERSION, sizeof PTO_VERSION);
    place(&end, sizeof *h);
    h->inbox_at = place(&end, (h->inbox_mask + UINT64_C(1)) * sizeof(ptoi_a32));
    h->slots_at = place(&end, h->slots * sizeof(ptoi_slot));
    h->orders_at = place(&end, h->slots * sizeof(ptoi_a64));
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
    h->codes_at = place(&end, PTOI_MAX_KERNELS * sizeof(ptoi_kernel_code));
    h->strings_at = place(&end, PTOI_STRING_BYTES);
    h->labels_at = place(&end, h->slots * sizeof(ptoi_label));
    h->posts_at = place(&end, (h->inbox_mask + UINT64_C(1)) * sizeof(ptoi_post));
    if (config->place == PTO_PLACE_GPU) {
        h->log_at = place(&end, PTOI_LOG_ENTRIES * sizeof(uint32_t));
    }
    h->file = file_of(sizeof *h, end, number);
    for (uint32_t l = 0; l < h->levels; l++) {
        h->level[l].heap_at = place(&h->heaps_bytes, h->level[l].heap_bytes *
                                                         (config->guard ? PTOI_WINDOW_STRETCH : 1));
    }
    h->shared_bytes = config->place == PTO_PLACE_PROCESS ? config->shared_bytes : 0;
}

static void lay_out_scheduler(const ptoi_header *h, ptoi_sched_header *s)
{
    uint64_t end = 0;
    place(&end, sizeof *s);
    s->workers_at = place(&end, PTOI_LINES * sizeof(ptoi_worker_line));
    s->failures_at = place(&end, PTOI_LINES * sizeof(ptoi_failed));
    s->states_at = place(&end, h->slots * sizeof(ptoi_state));
    s->waits_at = place(&end, h->slots * sizeof(ptoi_wait));
    s->times_at = place(&end, PTOI_MAX_KERNELS * sizeof(ptoi_kernel_time));
    s->cells_at = place(&end,
                        PTOI_QUEUES * (h->inbox_mask + UINT64_C(1)) * sizeof(ptoi_queue_cell));
    for (uint32_t l = 0; h->level[0].guards_at && l < h->levels; l++) {
        s->reported_at[l] = place(&end,
                                  h->level[l].heap_bytes / PTOI_GUARD_LINE * sizeof(ptoi_a64));
    }
    if (h->log_at) {
        s->grid_at = place(&end, sizeof(ptoi_grid_shared));
        s->host_ready_at = place(&end, (h->inbox_mask + UINT64_C(1)) * sizeof(ptoi_a64));
        s->host_posts_at = place(&end, (h->inbox_mask + UINT64_C(1)) * sizeof(uint64_t));
    }
    s->file = file_of(sizeof *s, end, (uint32_t)h->file.window);
}

pto_status ptoi_window_map(const int files[PTOI_PARTS], const ptoi_mapping *like,
                           ptoi_mapping *made)
{
    *made = (ptoi_mapping){{NULL}, {0}};
    for (int p = 0; p < PTOI_PARTS; p++) {
        made->bytes[p] = like->bytes[p];
        const pto_status status = ptoi_os_file_map(files[p], like->bytes[p], &made->memory[p]);
        if (status != PTO_OK) {
            ptoi_window_unmap(made);
            return status;
        }
    }
    return PTO_OK;
}

void ptoi_window_unmap(ptoi_mapping *mapping)
{
    for (int p = 0; p < PTOI_PARTS; p++) {
        ptoi_os_release(mapping->memory[p], mapping->bytes[p]);
        mapping->memory[p] = NULL;
    }
}

void ptoi_window_close(const int files[PTOI_PARTS])
{
    for (int p = 0; p < PTOI_PARTS; p++) {
        ptoi_os_file_close(files[p]);
    }
}

static pto_status create_files(uint32_t number, const ptoi_mapping *sizes, int files[PTOI_PARTS])
{
    for (int p = 0; p < PTOI_PARTS; p++) {
        char name[64];
        snprintf(name, sizeof name, PTOI_WINDOW_NAME "%u.%s", number, ptoi_part_names[p]);
        PTO_TRY(ptoi_os_file_create(name, sizes->bytes[p], &files[p]));
    }
    return PTO_OK;
}

/* Writes the headers. From then on others may attach. */
static void show(const ptoi_header *h, const ptoi_sched_header *s, const ptoi_mapping *made)
{
    memcpy(made->memory[PTOI_PART_ORCHESTRATOR], h, sizeof *h);
    memcpy(made->memory[PTOI_PART_SCHEDULER], s, sizeof *s);
    for (unsigned p = 0; p < 2; p++) {
        ptoi_file *file = made->memory[p];
        ptoi_release64(&file->magic, PTOI_WINDOW_MAGIC + p); /* W19 */
    }
}

pto_status ptoi_window_create(const ptoi_settings *settings, int files[PTOI_PARTS],
                              ptoi_mapping *made)
{
    static ptoi_a32 created; /* windows of this process */
    const uint32_t number = ptoi_fetch_add32(&created, 1);
    int opened[PTOI_PARTS] = {-1, -1, -1, -1};
    ptoi_header h;
    ptoi_sched_header s;
    memset(&h, 0, sizeof h);
    memset(&s, 0, sizeof s);
    size_up(&settings->config, &h);
    lay_out_orchestrator(settings, number, &h);
    lay_out_scheduler(&h, &s);
    const ptoi_mapping sizes = {
        {NULL}, {h.file.bytes, s.file.bytes, sizeof(ptoi_wakes), h.heaps_bytes + h.shared_bytes}};
    pto_status status = create_files(number, &sizes, opened);
    if (status == PTO_OK) {
        status = ptoi_window_map(opened, &sizes, made);
    }
    if (status != PTO_OK) {
        ptoi_window_close(opened);
        return status;
    }
    show(&h, &s, made);
    memcpy(files, opened, sizeof opened);
    return PTO_OK;
}
