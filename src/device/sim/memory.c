#include "device/sim/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/os.h"

enum { LINE = 64 };

pto_status ptoi_sim_memory_map(ptoi_sim_memory *m, int32_t index, uint64_t bytes)
{
    char name[32];
    int file = -1;
    void *host = NULL, *inner = NULL;
    snprintf(name, sizeof name, "pto-sim-%" PRId32, index);
    PTO_TRY(ptoi_os_file_create(name, bytes, &file));
    pto_status s = ptoi_os_file_map(file, bytes, &host);
    if (!s) {
        s = ptoi_os_forbid(host, bytes);
    }
    if (!s) {
        s = ptoi_os_file_map(file, bytes, &inner);
    }
    ptoi_os_file_close(file); /* the mappings keep it */
    if (s) {
        ptoi_os_release(host, bytes);
        return s;
    }
    *m = (ptoi_sim_memory){.host = host, .inner = inner, .mapped = bytes, .size = bytes};
    return PTO_OK;
}

pto_status ptoi_sim_memory_alloc(ptoi_sim_memory *m, int32_t index, uint64_t bytes, void **memory)
{
    const uint64_t rounded = bytes > UINT64_MAX - LINE ? bytes : (bytes + LINE - 1) / LINE * LINE;
    ptoi_sim_block **link = &m->first;
    uint64_t at = 0;
    while (*link && (*link)->at - at < rounded) {
        at = (*link)->at + (*link)->bytes;
        link = &(*link)->next;
    }
    if (rounded > m->size || at > m->size - rounded) {
        return ptoi_fail(PTO_OUT_OF_MEMORY,
                         "sim:%" PRId32 " has no %" PRIu64 " bytes in one piece: %" PRIu64
                         " of %" PRIu64 " are in use; raise PTO_SIM_MEMORY",
                         index, bytes, m->used, m->size);
    }
    ptoi_sim_block *block = malloc(sizeof *block);
    if (!block) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "sim:%" PRId32 ": no %zu bytes on the host", index,
                         sizeof *block);
    }
    *block = (ptoi_sim_block){.next = *link, .at = at, .bytes = rounded};
    *link = block;
    m->blocks++;
    m->used += rounded;
    m->peak = m->peak < m->used ? m->used : m->peak;
    *memory = m->host + at;
    return PTO_OK;
}

bool ptoi_sim_memory_free(ptoi_sim_memory *m, const void *memory)
{
    for (ptoi_sim_block **link = &m->first; *link; link = &(*link)->next) {
        ptoi_sim_block *block = *link;
        if (m->host + block->at == memory) {
            *link = block->next;
            m->blocks--;
            m->used -= block->bytes;
            free(block);
            return true;
        }
    }
    return false;
}

bool ptoi_sim_memory_has(const ptoi_sim_memory *m, const void *at, uint64_t bytes)
{
    const uint64_t low = (uint64_t)((uintptr_t)at - (uintptr_t)m->host);
    for (const ptoi_sim_block *block = m->first; block; block = block->next) {
        if (low - block->at < block->bytes && bytes <= block->bytes - (low - block->at)) {
            return true;
        }
    }
    return false;
}
