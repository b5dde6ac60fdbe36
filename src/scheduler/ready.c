#include "scheduler/ready.h"

#include "base/error.h"
#include "base/os.h"

pto_status ptoi_queue_init(ptoi_queue *queue, uint32_t count, uint32_t first)
{
    uint32_t capacity = 2;
    while (capacity < count) {
        capacity *= 2;
    }
    queue->mask = capacity - 1;
    queue->cells = ptoi_os_reserve(capacity * sizeof *queue->cells);
    if (!queue->cells) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "create: a queue of %u tasks", capacity);
    }
    for (uint32_t i = 0; i < capacity; i++) {
        ptoi_set32(&queue->cells[(first + i) & queue->mask].sequence, first + i);
    }
    ptoi_set32(&queue->head, first);
    ptoi_set32(&queue->tail, first);
    return PTO_OK;
}

void ptoi_queue_free(ptoi_queue *queue)
{
    ptoi_os_release(queue->cells, (queue->mask + (size_t)1) * sizeof *queue->cells);
    queue->cells = NULL;
}
