/* names.h - submit sites, kernels and their strings, in the window. Orchestrator's side. */
#ifndef PTOI_NAMES_H
#define PTOI_NAMES_H

#include "orchestrator/runtime.h"

/* Creates the string table, with site 0 (unknown) and kernel 0 ("alloc"). */
void ptoi_names_create(pto_runtime *rt);
pto_status ptoi_names_reserve(pto_runtime *rt);

/* Frees both, which may be incomplete. */
void ptoi_names_destroy(pto_runtime *rt);

/* Replaces control characters by '?', so that a name is part of one line. */
void ptoi_names_clean(char *text);

/* The number of a site in the program. Stores it in entry `at` of the cache. */
uint32_t ptoi_site_find(pto_runtime *rt, const char *file, int line, uint32_t at);

/* The same, through the cache. */
static inline uint32_t ptoi_site_of(pto_runtime *rt, const char *file, int line)
{
    const uint32_t at = ((uint32_t)((uintptr_t)file >> 3) ^ (uint32_t)line) % 256;
    return PTOI_LIKELY(rt->site_cache[at].file == file && rt->site_cache[at].line == line)
               ? rt->site_cache[at].site
               : ptoi_site_find(rt, file, line, at);
}

/* Makes the function of a built-in kernel its variant for every type of device. */
void ptoi_kernel_is_everywhere(pto_runtime *rt, pto_kernel kernel);

#endif /* PTOI_NAMES_H */
