/* label.h - labels of tasks and ranges of the program. Orchestrator's side.
 *
 *     none ── pto_label ──> set ── a submit begins ──> given ── its task is written ──> none
 *                            ^  ^── pto_label ──────────┘ │
 *                            └──────────────────────────── next submit: the last one was refused
 *
 * A label that waits for its task sets rt->watched, so that submits without labels pay nothing.
 */
#ifndef PTOI_LABEL_H
#define PTOI_LABEL_H

#include "orchestrator/runtime.h"

typedef enum ptoi_label_state {
    PTOI_LABEL_NONE,
    PTOI_LABEL_SET,   /* for the next submit */
    PTOI_LABEL_GIVEN, /* for the submit that has begun */
} ptoi_label_state;

/* A submit begins. */
void ptoi_label_called(pto_runtime *rt);

/* The task is written but not yet published. */
void ptoi_label_take(pto_runtime *rt, const ptoi_slot *slot);

/* The label of the task in a slot; "" if it has none. */
static inline void ptoi_label_of(const ptoi_view *view, const ptoi_slot *slot,
                                 char text[PTO_LABEL_BYTES])
{
    ptoi_label_read(&view->labels[ptoi_slot_index(view, slot)], ptoi_order_of(view, slot), text);
}

#endif /* PTOI_LABEL_H */
