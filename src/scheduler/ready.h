/* ready.h - a queue of tasks that many push and many pop: bounded, and never full, for it has room
 * for every slot there is.
 *
 * Each cell has a turn. A cell at position p (they run freely, cell p & mask) may be written when
 * its turn is p, and read when it is p + 1; after reading it becomes p + capacity.
 *
 *   Q1  cell.turn, told by the one who pushes after the task is written; read (acquire) by the one
 *       who pops. It is told because whoever pushes looks next whether somebody sleeps (see
 *       park.h), and the sleeper looks here last.
 *   Q2  cell.turn, released by the one who pops after the task is read; read (acquire) by the one
 *       who pushes into the cell next.
 */
#ifndef PTOI_READY_H
#define PTOI_READY_H

#include <pto/status.h>

#include "base/atomic.h"
#include "window/window.h"

typedef struct ptoi_seat {
    ptoi_a32 turn;
    uint32_t task; /* number of its slot */
} ptoi_seat;

typedef struct ptoi_queue {
    _Alignas(PTOI_LINE) ptoi_a32 head; /* next to pop */
    _Alignas(PTOI_LINE) ptoi_a32 tail; /* next to push */
    _Alignas(PTOI_LINE) ptoi_seat *cells;
    uint32_t mask;
    bool lopsided; /* whoever sleeps makes a barrier before it looks here */
} ptoi_queue;

/* Room for `count` tasks. Counters begin at `first`, for tests of their wrap. */
pto_status ptoi_queue_init(ptoi_queue *queue, uint32_t count, uint32_t first);
void ptoi_queue_free(ptoi_queue *queue);

static inline void ptoi_queue_push(ptoi_queue *queue, uint32_t task)
{
    uint32_t at = ptoi_get32(&queue->tail);
    for (;;) {
        ptoi_seat *cell = &queue->cells[at & queue->mask];
        if (ptoi_acquire32(&cell->turn) != at) { /* pairs Q2: another one was faster */
            at = ptoi_get32(&queue->tail);
        } else if (ptoi_cas32(&queue->tail, &at, at + 1)) {
            cell->task = task;
            ptoi_tell32(&cell->turn, at + 1, queue->lopsided); /* Q1 */
            return;
        }
    }
}

/* PTOI_NONE if there is none. */
static inline uint32_t ptoi_queue_pop(ptoi_queue *queue)
{
    uint32_t at = ptoi_get32(&queue->head);
    for (;;) {
        ptoi_seat *cell = &queue->cells[at & queue->mask];
        uint32_t turn = ptoi_acquire32(&cell->turn); /* pairs Q1 */
        if ((int32_t)(turn - (at + 1)) < 0) {
            return PTOI_NONE;
        }
        if (turn != at + 1) {
            at = ptoi_get32(&queue->head);
        } else if (ptoi_cas32(&queue->head, &at, at + 1)) {
            uint32_t task = cell->task;
            ptoi_release32(&cell->turn, at + queue->mask + 1); /* Q2 */
            return task;
        }
    }
}

/* Whether there is something to pop, as the last look before sleeping. */
static inline bool ptoi_queue_see(const ptoi_queue *queue)
{
    uint32_t at = ptoi_see32(&queue->head);
    return (int32_t)(ptoi_see32(&queue->cells[at & queue->mask].turn) - (at + 1)) >= 0;
}

#endif /* PTOI_READY_H */
