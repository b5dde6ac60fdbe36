/* memory.h - the memory of a simulated device: one file in memory, mapped twice.
 *
 *     host    [ PROT_NONE ...................... ]    addresses that programs see: an access faults
 *                  | shift
 *     inner   [ block | gap | block | gap ...... ]    where kernels and the engine work
 *
 * Blocks are kept in a list by address, and a new one takes the lowest gap that is large enough.
 * The lock of the device protects everything here.
 *
 * Invariant: blocks lie inside, do not overlap and rise; used = the sum of their bytes.
 */
#ifndef PTOI_SIM_MEMORY_H
#define PTOI_SIM_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include <pto/pto.h>

typedef struct ptoi_sim_block {
    struct ptoi_sim_block *next;
    uint64_t at, bytes; /* rounded up to lines */
} ptoi_sim_block;

typedef struct ptoi_sim_memory {
    char *host, *inner; /* of block offset 0 */
    uint64_t mapped;    /* bytes of each mapping; fixed */
    uint64_t size;      /* bytes that may be used: at most `mapped` */
    uint64_t used, peak, blocks;
    ptoi_sim_block *first;
} ptoi_sim_memory;

/* Maps the memory. It stays where it is until the process ends. */
pto_status ptoi_sim_memory_map(ptoi_sim_memory *m, int32_t index, uint64_t bytes);

pto_status ptoi_sim_memory_alloc(ptoi_sim_memory *m, int32_t index, uint64_t bytes, void **memory);
/* False if no block begins there. */
bool ptoi_sim_memory_free(ptoi_sim_memory *m, const void *memory);

/* Whether the bytes, by their addresses on the host, lie in one block. */
bool ptoi_sim_memory_has(const ptoi_sim_memory *m, const void *at, uint64_t bytes);

#endif /* PTOI_SIM_MEMORY_H */
