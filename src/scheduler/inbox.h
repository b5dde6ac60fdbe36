/* inbox.h - claims new tasks from the inbox, in order of submission. */
#ifndef PTOI_INBOX_H
#define PTOI_INBOX_H

#include "scheduler/look.h"
#include "scheduler/park.h"
#include "scheduler/step.h"
#include "window/sound.h"

#define PTOI_BROKEN (PTOI_NONE - 1) /* instead of a task: it is not sound */

/* Claims new tasks until one can run, and returns it; PTOI_NONE if there is none. The tasks that
 * cannot run yet join the list of a producer. PTOI_BROKEN: the window is damaged. *head caches
 * inbox_head: it may be behind, never ahead. *backoff is the pause before inbox_head is read again (ptoi_park_back_off).
 * `look` (NULL: none): of one of many workers, which does not read it as it likes. */
static inline uint32_t ptoi_inbox_claim(const ptoi_view *view, uint64_t *head, uint32_t *backoff,
                                        ptoi_look *look)
{
    ptoi_a64 *claimed = &view->sched->inbox_claimed;
    uint64_t at = ptoi_get64(claimed);
    for (;;) {
        if (at >= *head && look) {
            *head = ptoi_look_head(look, &view->header->inbox_head, at, ptoi_os_clock());
            if (at >= *head) {
                return PTOI_NONE;
            }
        } else if (at >= *head) {
            ptoi_park_back_off(*backoff);
            *head = ptoi_acquire64(&view->header->inbox_head); /* pairs W1 */
            if (*backoff) {
                *backoff = ptoi_park_next_backoff(*backoff, at < *head ? *head - at : 0);
            }
            if (at >= *head) {
                return PTOI_NONE;
            }
        }
        /* The entry is read before it is claimed. If another thread claims it first, it may be
         * overwritten meanwhile, and the compare-and-swap fails. */
        const uint32_t index = ptoi_get32(&view->inbox[(uint32_t)at & view->inbox_mask]);
        if (ptoi_cas64(claimed, &at, at + 1)) {
            if (PTOI_UNLIKELY(view->checked) && !ptoi_task_is_sound(view, index)) {
                return PTOI_BROKEN;
            }
            ptoi_step_begin(view, index);
            if (view->slots[index].fanin == 0 || ptoi_step_resolve(view, index, 0)) {
                return index;
            }
            at++;
        }
    }
}

/* Whether there is a task to claim. The last check before sleeping (W10). */
static inline bool ptoi_inbox_has_task(const ptoi_view *view)
{
    return ptoi_load_sc64(&view->header->inbox_head) != ptoi_load_sc64(&view->sched->inbox_claimed);
}

#endif /* PTOI_INBOX_H */
