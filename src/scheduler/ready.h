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

#include "base/atomic.h"
#include "window/window.h"

/* A queue in the window, as one process sees it. */
typedef struct ptoi_queue {
    ptoi_queue_ends *ends;
    ptoi_queue_cell *cells;
    uint32_t mask;
    bool asymmetric;      /* a sleeper makes the barrier before its last check of the queue */
    const ptoi_a32 *stop; /* header.stop, if other processes use the queue; else NULL */
} ptoi_queue;

/* Empties a queue that no other thread uses. Positions begin at `first`, so that tests can make
 * them wrap. */
static inline void ptoi_queue_reset(const ptoi_queue *queue, uint32_t first)
{
    for (uint32_t i = 0; i <= queue->mask; i++) {
        ptoi_set32(&queue->cells[(first + i) & queue->mask].sequence, first + i);
    }
    ptoi_set32(&queue->ends->head, first);
    ptoi_set32(&queue->ends->tail, first);
}

/* The cell may belong to a process that died in the middle of a pop. Then the cell stays taken, and
 * the push gives up once a rebuild is asked for (W12), which will find the task without a queue. */
static inline void ptoi_queue_push(const ptoi_queue *queue, uint32_t index)
{
    uint32_t at = ptoi_get32(&queue->ends->tail);
    for (;;) {
        ptoi_queue_cell *cell = &queue->cells[at & queue->mask];
        if (ptoi_acquire32(&cell->sequence) != at) { /* pairs Q2: another pusher was faster */
            at = ptoi_get32(&queue->ends->tail);
            if (queue->stop && ptoi_acquire32(queue->stop) == PTOI_PAUSE &&
                !PTOI_MUTANT(NO_GIVE_UP)) {
                return;
            }
        } else if (ptoi_cas32(&queue->ends->tail, &at, at + 1)) {
            cell->index = index;
            ptoi_store_asym32(&cell->sequence, at + 1, queue->asymmetric); /* Q1 */
            return;
        }
    }
}

/* Pops a task; PTOI_NONE if the queue is empty. */
static inline uint32_t ptoi_queue_pop(const ptoi_queue *queue)
{
    uint32_t at = ptoi_get32(&queue->ends->head);
    for (;;) {
        ptoi_queue_cell *cell = &queue->cells[at & queue->mask];
        uint32_t sequence = ptoi_acquire32(&cell->sequence); /* pairs Q1 */
        if ((int32_t)(sequence - (at + 1)) < 0) {
            return PTOI_NONE;
        }
        if (sequence != at + 1) {
            at = ptoi_get32(&queue->ends->head);
        } else if (ptoi_cas32(&queue->ends->head, &at, at + 1)) {
            uint32_t index = cell->index;
            ptoi_release32(&cell->sequence, at + queue->mask + 1); /* Q2 */
            return index;
        }
    }
}

/* Whether there is a task to pop. The last check before sleeping (W10). */
static inline bool ptoi_queue_has_task(const ptoi_queue *queue)
{
    uint32_t at = ptoi_load_sc32(&queue->ends->head);
    return (int32_t)(ptoi_load_sc32(&queue->cells[at & queue->mask].sequence) - (at + 1)) >= 0;
}

#endif /* PTOI_READY_H */
