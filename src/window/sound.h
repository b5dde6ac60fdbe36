/* sound.h - checks that a task of the window refers to nothing outside of it. Scheduler's side.
 *
 * A worker process shares the window with processes that may be broken. So it uses nothing that it
 * reads there as an index or a length before it has checked it. A task is checked once, by the
 * worker that claims it: slot, edges and arguments do not change until the task is complete. Links
 * and queues are checked where they are followed. The bounds are those of the worker's own view,
 * which were checked when it attached (attach.c).
 */
#ifndef PTOI_SOUND_H
#define PTOI_SOUND_H

#include "window/window.h"

/* Whether everything that slot `index`, its edges and its arguments refer to lies in the window.
 * `index` may be any number. */
bool ptoi_task_is_sound(const ptoi_view *view, uint32_t index);

#endif /* PTOI_SOUND_H */
