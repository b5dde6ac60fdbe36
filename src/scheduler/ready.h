/* ready.h - a queue of tasks with many producers and many consumers: Vyukov's bounded queue. It is
 * never full, since it has room for every slot of the window.
 *
 * Each cell has a sequence number. Positions count up without end; position p uses cell p & mask.
 * The cell may be written when its sequence is p, and read when it is p + 1. After the read it
 * becomes p + capacity.
 *
 *   Q1  cell.sequence, stored by the pusher after the task is written; acquired by the popper. The
 *       pusher checks for sleepers next, and a sleeper checks this word last (park.h).
 *   Q2  cell.sequence, released by the popper after the task is read; acquired by the next pusher
 *       of the cell.
 */
#ifndef PTOI_READY_H
#define PTOI_READY_H

#include <pto/status.h>

#include "base/atomic.h"
#include "window/window.h"

typedef struct ptoi_queue_cell {
    ptoi_a32 sequence;
    uint32_t task; /* index of its slot */
} ptoi_queue_cell;

typedef struct ptoi_queue {
    _Alignas(PTOI_LINE) ptoi_a32 head; /* next to pop */
    _Alignas(PTOI_LINE) ptoi_a32 tail; /* next to push */
    _Alignas(PTOI_LINE) ptoi_queue_cell *cells;
    uint32_t mask;
    bool asymmetric; /* a sleeper makes the barrier before its last check of the queue */
} ptoi_queue;

/* Makes a queue with room for `count` tasks. Positions begin at `first`, so that tests can make
 * them wrap. */
pto_status ptoi_queue_init(ptoi_queue *queue, uint32_t count, uint32_t first);
void ptoi_queue_free(ptoi_queue *queue);

static inline void ptoi_queue_push(ptoi_queue *queue, uint32_t task)
{
    uint32_t at = ptoi_get32(&queue->tail);
    for (;;) {
        ptoi_queue_cell *cell = &queue->cells[at & queue->mask];
        if (ptoi_acquire32(&cell->sequence) != at) { /* pairs Q2: another pusher was faster */
            at = ptoi_get32(&queue->tail);
        } else if (ptoi_cas32(&queue->tail, &at, at + 1)) {
            cell->task = task;
            ptoi_store_asym32(&cell->sequence, at + 1, queue->asymmetric); /* Q1 */
            return;
        }
    }
}

/* Pops a task; PTOI_NONE if the queue is empty. */
static inline uint32_t ptoi_queue_pop(ptoi_queue *queue)
{
    uint32_t at = ptoi_get32(&queue->head);
    for (;;) {
        ptoi_queue_cell *cell = &queue->cells[at & queue->mask];
        uint32_t sequence = ptoi_acquire32(&cell->sequence); /* pairs Q1 */
        if ((int32_t)(sequence - (at + 1)) < 0) {
            return PTOI_NONE;
        }
        if (sequence != at + 1) {
            at = ptoi_get32(&queue->head);
        } else if (ptoi_cas32(&queue->head, &at, at + 1)) {
            uint32_t task = cell->task;
            ptoi_release32(&cell->sequence, at + queue->mask + 1); /* Q2 */
            return task;
        }
    }
}

/* Whether there is a task to pop. The last check before sleeping (W10). */
static inline bool ptoi_queue_has_task(const ptoi_queue *queue)
{
    uint32_t at = ptoi_load_sc32(&queue->head);
    return (int32_t)(ptoi_load_sc32(&queue->cells[at & queue->mask].sequence) - (at + 1)) >= 0;
}

#endif /* PTOI_READY_H */
