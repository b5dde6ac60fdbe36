/* names.c - submit sites, kernels and their strings, in the window. */
#include "orchestrator/names.h"

#include <string.h>

#include "base/error.h"

#define SITE_BUCKETS (UINT32_C(2) * PTOI_MAX_SITES)

/* The offset of a copy of the text. 0, the offset of "", if the table is full. */
static uint32_t add_string(pto_runtime *rt, const char *text)
{
    size_t bytes = strlen(text) + 1;
    if (bytes > PTOI_STRING_BYTES - rt->string_bytes) {
        return 0;
    }
    uint32_t at = rt->string_bytes;
    memcpy(rt->view.strings + at, text, bytes);
    rt->string_bytes += (uint32_t)bytes;
    return at;
}

/* A site that is not in the cache: it is new, or was evicted. The table of all sites, hashed by the
 * text, decides. */
static __attribute__((noinline)) uint32_t find_site(pto_runtime *rt, const char *file, int line)
{
    const ptoi_view *view = &rt->view;
    uint32_t hash = (uint32_t)line, known = 0;
    for (const char *c = file; *c; c++) {
        hash = (hash ^ (unsigned char)*c) * UINT32_C(16777619);
    }
    uint32_t at = hash % SITE_BUCKETS;
    for (; rt->site_table[at]; at = (at + 1) % SITE_BUCKETS) {
        const ptoi_site *site = &view->sites[rt->site_table[at]];
        if (strcmp(ptoi_string(view, site->file), file) == 0) {
            known = site->file;
            if (site->line == line) {
                return rt->site_table[at];
            }
        }
    }
    if (rt->n_sites == PTOI_MAX_SITES) {
        return 0;
    }
    if (!known && rt->n_sites > 1 &&
        strcmp(ptoi_string(view, view->sites[rt->n_sites - 1].file), file) == 0) {
        known = view->sites[rt->n_sites - 1].file; /* usually the same file as last time */
    }
    view->sites[rt->n_sites] = (ptoi_site){known ? known : add_string(rt, file), line};
    rt->site_table[at] = rt->n_sites;
    return rt->n_sites++;
}

uint32_t ptoi_site_find(pto_runtime *rt, const char *file, int line, uint32_t at)
{
    if (!file) {
        return 0;
    }
    rt->site_cache[at].site = find_site(rt, file, line);
    rt->site_cache[at].file = file;
    rt->site_cache[at].line = line;
    return rt->site_cache[at].site;
}

pto_status pto_kernel_register(pto_runtime *rt, const char *name, pto_worker_type type,
                               pto_kernel_fn fn, void *user, pto_kernel *kernel)
{
    PTO_TRY(ptoi_runtime_enter(rt, "register a kernel"));
    if (!name || !fn || !kernel) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "register a kernel: %s is NULL",
                         !name ? "name"
                         : !fn ? "fn"
                               : "kernel");
    }
    if ((uint32_t)type >= PTO_WORKER_TYPES) {
        return ptoi_fail(PTO_BAD_WORKER, "register a kernel: '%s' for worker type %d", name,
                         (int)type);
    }
    if (rt->n_kernels == PTOI_MAX_KERNELS) {
        return ptoi_fail(PTO_FULL, "register a kernel: '%s' after %d others", name,
                         PTOI_MAX_KERNELS - 1);
    }
    uint32_t text = add_string(rt, name);
    if (!text) {
        return ptoi_fail(PTO_FULL, "register a kernel: no room for a name of %zu bytes",
                         strlen(name));
    }
    rt->view.kernels[rt->n_kernels] = (ptoi_kernel_entry){text, (uint32_t)type};
    ptoi_scheduler_add_kernel(rt->scheduler, rt->n_kernels, fn, user,
                              rt->inlining.types >> type & 1);
    *kernel = rt->first_kernel | rt->n_kernels++;
    return PTO_OK;
}

pto_status ptoi_names_reserve(pto_runtime *rt)
{
    rt->site_bytes = SITE_BUCKETS * sizeof *rt->site_table;
    rt->site_table = ptoi_os_reserve(rt->site_bytes);
    return rt->site_table ? PTO_OK : ptoi_fail(PTO_OUT_OF_MEMORY, "create: a table of sites");
}

void ptoi_names_create(pto_runtime *rt)
{
    rt->n_sites = 1; /* site 0: unknown, line 0 of "" */
    rt->string_bytes = 1;
    rt->view.kernels[0] = (ptoi_kernel_entry){add_string(rt, "alloc"), 0};
    rt->n_kernels = 1;
}
