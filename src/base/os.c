#define _GNU_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */
#include "base/os.h"

#include <sys/mman.h>

void *ptoi_os_reserve(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void ptoi_os_release(void *memory, size_t bytes)
{
    if (memory) {
        munmap(memory, bytes);
    }
}
