/* block.h - blocks of managed memory, and who holds them. Orchestrator's side.
 *
 * A block is what one task, or one pto_alloc, has taken from the heap of a level: the memory of all
 * buffers that it is the first to write. Blocks of a level are recycled in the order of their
 * birth, apart from tasks: a task is recycled when it is complete, its block often later.
 *
 *       tail                                  head      block n is ring[n & mask]. Numbers begin
 *        v                                     v         at 1, and again when there are no blocks,
 *     ---[block][block][block] ... [block][block]        so that few records are in use, and in
 *          |                                             cache
 *          the oldest is recycled when nothing holds it:
 *            its task            until <= completed of the level
 *            tasks that use it   held_until[l] <= completed of level l, for all levels
 *            a scope             the lifetime that it was born in has ended, or all its buffers
 *                                were given up (pto_release)
 *
 * Invariants (check.c), for each level:
 *   B1  tail <= head <= tail + mask + 1
 *   B2  for each device, heap.used = the sum of the bytes of all blocks there
 *   B3  `until`, `order` and `life` do not fall from one block to the next
 *   B4  n_held = how many blocks have PTOI_HELD
 *   B5  a living buffer with memory lies in a block from tail on
 */
#ifndef PTOI_BLOCK_H
#define PTOI_BLOCK_H

#include <pto/pto.h>

#include "window/task.h"

/* One cache line. */
typedef struct ptoi_heap_block {
    uint64_t at;         /* offset in the heap */
    uint64_t bytes;      /* 0: all its buffers are empty */
    uint64_t life;       /* when it was born: see runtime.lives */
    uint64_t order;      /* tasks submitted before its own */
    uint64_t until;      /* one past the last task of the level that has brought a block so far */
    uint32_t named_by;   /* the last attempt that names its memory, low bits: for `holders` only */
    uint32_t holders;    /* tasks that ever named its memory; PTOI_HELD if one was offloaded */
    uint32_t scopes;     /* open scopes of its lifetime when it was born */
    uint32_t base;       /* index of the outermost of them in the stack */
    uint32_t live : 23;  /* its buffers that were not given up */
    uint32_t device : 4; /* number of the device that it is on */
    uint32_t ran_on : 4; /* and of that its task runs on: a copy to the host runs on a device */
    uint32_t has_task : 1; /* task until - 1 brought it; if not, nobody (pto_alloc), or a task of
                              an inner lifetime, which holds it like any other user */
    uint16_t kernel;       /* of the task that brought it; 0: pto_alloc */
    uint16_t site;         /* where the memory was asked for */
} ptoi_heap_block;

_Static_assert(sizeof(ptoi_heap_block) == PTOI_LINE, "a block record is one cache line");

#define PTOI_MOST_LIVE 0x7fffffu /* a task has fewer parameters */
#define PTOI_HELD 0x80000000u
#define PTOI_HOLDERS 0x7fffffffu

/* The blocks of a level. */
typedef struct ptoi_blocks {
    uint64_t head, tail; /* numbers */
    uint64_t until;      /* of the newest block */
    uint64_t recycled;   /* how many blocks were recycled so far */
    ptoi_heap_block *ring;
    /* A row per block, valid with PTOI_HELD. held_until[l] is one past the last task on level l
     * that uses the block. */
    uint64_t *held_until;
    ptoi_ref blocker; /* an unfinished task that uses the oldest block; 0: none known */
    uint32_t mask;
    uint32_t n_held; /* blocks that have PTOI_HELD */
} ptoi_blocks;

struct ptoi_buffer;
struct ptoi_slow;

static inline ptoi_heap_block *ptoi_block_at(const ptoi_blocks *blocks, uint64_t number)
{
    return &blocks->ring[(uint32_t)number & blocks->mask];
}

/* How many more blocks there are records for. */
static inline uint64_t ptoi_blocks_room(const ptoi_blocks *blocks)
{
    return blocks->mask + UINT64_C(1) - (blocks->head - blocks->tail);
}

/* ---- Taking ---- */

/* Gives a buffer memory before any task has written it. It gets a block of its own, in the heap of
 * its lifetime. Errors begin with `who`. */
pto_status ptoi_block_give(pto_runtime *rt, const char *who, struct ptoi_buffer *b,
                           const char *file, int line);

/* Takes memory for buffers of outer lifetimes that a task is the first to write. Such a buffer
 * outlives the block of the task. Then reads the parameters of the task again. */
pto_status ptoi_block_give_outer(struct ptoi_slow *d, const char *file, int line);

/* ---- Recycling ---- */

/* Recycles the blocks of a level that nothing holds, up to the first that is held. `exactly`: where
 * held_until says that a block may be in use, visits all tasks to find out. */
void ptoi_blocks_recycle(pto_runtime *rt, uint32_t level, bool exactly);

/* Whether a scope that is open holds the block: not all of its buffers were given up. */
bool ptoi_block_is_scoped(const pto_runtime *rt, const ptoi_heap_block *block);

/* How many scopes that are open hold it. */
uint32_t ptoi_block_scopes(const pto_runtime *rt, const ptoi_heap_block *block);

/* Whether an unfinished task uses the oldest block of the level. blocks.blocker names it. */
bool ptoi_block_is_used(pto_runtime *rt, uint32_t level);

/* How many unfinished tasks use the block, apart from the one that brought it. Visits all tasks. */
uint32_t ptoi_block_users(const pto_runtime *rt, uint32_t level, uint64_t number);

/* The block that a task brought, or NULL if it brought none or the block is recycled. *number is
 * the number of the block. */
ptoi_heap_block *ptoi_block_of_task(const pto_runtime *rt, uint32_t level, uint64_t seq,
                                    uint64_t *number);

#endif /* PTOI_BLOCK_H */
