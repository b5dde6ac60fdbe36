#include "orchestrator/mirror.h"

#include <string.h>

#include "base/error.h"
#include "orchestrator/device.h"
#include "orchestrator/map/map.h"

static const ptoi_grid_shared *shared_of(const pto_runtime *rt)
{
    const char *s = (const char *)rt->view.sched;
    return (const ptoi_grid_shared *)(const void *)(s + rt->view.sched->grid_at);
}

void ptoi_mirror_create(pto_runtime *rt)
{
    ptoi_header *h = rt->view.header;
    if (rt->settings.config.place != PTO_PLACE_GPU) {
        return;
    }
    rt->mirrored = true;
    rt->map->descs.log = (ptoi_desc_log){.entries = (uint32_t *)(void *)((char *)h + h->log_at),
                                         .size = PTOI_LOG_ENTRIES,
                                         .taken = &shared_of(rt)->log_taken};
    for (uint32_t l = 0; l < rt->levels; l++) {
        ptoi_set64(&h->heads[l], ptoi_head_word(rt->rings[l].head, 0, 0));
    }
}

pto_status ptoi_mirror_log_kernel(pto_runtime *rt, uint32_t number)
{
    return !rt->mirrored || ptoi_desc_log_add(&rt->map->descs.log, PTOI_LOG_KERNEL | number)
               ? PTO_OK
               : ptoi_fail(PTO_FULL,
                           "register a kernel: %u layouts and kernels are on their way to the "
                           "device; wait for the tasks (pto_wait) and try again",
                           PTOI_LOG_ENTRIES);
}

bool ptoi_mirror_is_running(const pto_runtime *rt, pto_task task)
{
    const ptoi_rt_device *d = &rt->devices[rt->home];
    for (uint32_t i = 0; i < d->n_workers; i++) {
        const uint32_t line = ptoi_line_of_device(&rt->view, d->first_worker + i);
        if (ptoi_acquire64(&rt->view.workers[line].task) == task) { /* pairs W6 */
            return true;
        }
    }
    return false;
}

/* ---- Letters ---- */

bool ptoi_mirror_read(pto_runtime *rt, const pto_tensor *t, void *to, uint64_t bytes)
{
    const ptoi_grid_shared *shared = shared_of(rt);
    const ptoi_rt_device *home = &rt->devices[rt->home];
    ptoi_mail *mail = &rt->view.header->mail;
    const char *from = (const char *)t->storage + (uint64_t)t->offset * pto_dtype_size(t->dtype);
    const uint64_t there = (uint64_t)((uintptr_t)from + (uintptr_t)home->ops.shift);
    if (bytes > PTOI_MAIL_BYTES || bytes % 4 || there >= PTOI_MAIL_ADDRESSES ||
        (uintptr_t)from % 4 || !pto_tensor_is_contiguous(t) ||
        ptoi_get32(&shared->launched) == ptoi_get32(&shared->ended) ||
        t->device.type != home->device.type || t->device.index != home->device.index) {
        return false;
    }
    const uint32_t number = (ptoi_letter_number(ptoi_get64(&mail->asked)) + 1) % 512;
    const uint32_t words = (uint32_t)(bytes / 4);
    uint64_t answer;
    ptoi_store_sc64(&mail->asked,
                    ptoi_letter_make(number, there, words)); /* D9. If the grid has just
                                                                            left, the keeper sees it (W10) */
    if (ptoi_load_sc32(rt->sleepers)) {
        ptoi_scheduler_rouse(rt->scheduler, PTOI_NONE);
    }
    for (uint32_t spin = 0; (answer = ptoi_acquire64(&shared->answered)) >> 32 != number;
         spin++) { /* pairs D9 */
        if (ptoi_acquire32(&shared->lost)) {
            return false; /* the ordinary way reports it */
        }
        if (spin % 1024 == 1023) {
            ptoi_os_yield();
        } else {
            ptoi_relax();
        }
    }
    if (words == 1) {
        const uint32_t word = (uint32_t)answer;
        memcpy(to, &word, sizeof word);
    } else {
        memcpy(to, shared->text, bytes);
    }
    return true;
}
