#define _GNU_SOURCE /* dl_iterate_phdr */
#include "base/code.h"

#include <link.h>
#include <stdlib.h>

#include "base/error.h"

typedef struct listing {
    ptoi_code *code;
    size_t room;
} listing;

/* Adds the executable parts of one object. Nonzero ends the iteration: there is no memory. */
static int add_object(struct dl_phdr_info *info, size_t bytes, void *context)
{
    listing *l = context;
    (void)bytes;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) {
            continue;
        }
        if (l->code->count == l->room) {
            const size_t room = l->room ? 2 * l->room : 32;
            void *more = realloc(l->code->ranges, room * sizeof *l->code->ranges);
            if (!more) {
                return 1;
            }
            l->code->ranges = more;
            l->room = room;
        }
        const uintptr_t begin = info->dlpi_addr + part->p_vaddr;
        l->code->ranges[l->code->count].begin = begin;
        l->code->ranges[l->code->count++].end = begin + part->p_memsz;
    }
    return 0;
}

pto_status ptoi_code_list(ptoi_code *code)
{
    listing l = {.code = code};
    *code = (ptoi_code){0, NULL};
    if (dl_iterate_phdr(add_object, &l) != 0) {
        ptoi_code_free(code);
        return ptoi_fail(PTO_OUT_OF_MEMORY, "create: no memory to list the code of the program");
    }
    return PTO_OK;
}

void ptoi_code_free(ptoi_code *code)
{
    free(code->ranges);
    *code = (ptoi_code){0, NULL};
}

bool ptoi_code_has(const ptoi_code *code, uint64_t address)
{
    for (size_t i = 0; i < code->count; i++) {
        if (address >= code->ranges[i].begin && address < code->ranges[i].end) {
            return true;
        }
    }
    return false;
}
