/* names.c - submit sites, kernels and their strings, in the window. */
#include "orchestrator/names.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <pto/embed.h>

#include "base/error.h"
#include "orchestrator/attach.h"
#include "orchestrator/process.h"
#include "orchestrator/shared.h"

#define SITE_BUCKETS (UINT32_C(2) * PTOI_MAX_SITES)

/* The last site stands for all that found no room. Reports then say so instead of a file. */
#define SITE_LOST (PTOI_MAX_SITES - 1)
#define SITE_LOST_FILE "(line unknown: no room for more than 65534 submit sites)"

_Static_assert(PTOI_MAX_SITES == 65536, "the text names the number of sites");

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

void ptoi_names_clean(char *text)
{
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        *text = c < ' ' || c == 0x7f ? '?' : *text;
    }
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
    if (rt->n_sites == SITE_LOST) {
        return SITE_LOST;
    }
    if (!known && rt->n_sites > 1 &&
        strcmp(ptoi_string(view, view->sites[rt->n_sites - 1].file), file) == 0) {
        known = view->sites[rt->n_sites - 1].file; /* usually the same file as last time */
    }
    if (!known) {
        known = add_string(rt, file);
    }
    if (!known && *file) {
        return SITE_LOST; /* no room for its text */
    }
    view->sites[rt->n_sites] = (ptoi_site){known, line};
    rt->site_table[at] = rt->n_sites;
    return rt->n_sites++;
}

uint32_t ptoi_site_find(pto_runtime *rt, const char *file, int line, uint32_t at)
{
    if (!file) {
        return 0;
    }
    const uint32_t site = find_site(rt, file, line);
    if (site == SITE_LOST) { /* not cached, so that every call is counted */
        ptoi_count64(&rt->view.header->sites_lost, 1);
        return site;
    }
    rt->site_cache[at].site = site;
    rt->site_cache[at].file = file;
    rt->site_cache[at].line = line;
    return site;
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
    if (!*name) {
        return ptoi_fail(PTO_BAD_PARAM, "register a kernel: the name is empty");
    }
    if ((uint32_t)type >= PTO_WORKER_TYPES) {
        return ptoi_fail(PTO_BAD_WORKER, "register a kernel: '%s': type %d is no worker type", name,
                         (int)type);
    }
    if (rt->n_kernels == PTOI_MAX_KERNELS) {
        return ptoi_fail(PTO_FULL, "register a kernel: '%s' after %d others", name,
                         PTOI_MAX_KERNELS - 1);
    }
    if (!ptoi_process_has_code(rt, fn)) {
        return ptoi_fail(PTO_BAD_KERNEL,
                         "register a kernel: '%s': worker processes do not have its code: it was "
                         "loaded or made after the runtime was created",
                         name);
    }
    if (rt->processes && user && ptoi_shared_check_bytes(rt, "", user, 1)) {
        return ptoi_fail(PTO_BAD_MEMORY,
                         "register a kernel: '%s': worker processes cannot reach its user data at "
                         "%p: get that memory with pto_shared_alloc",
                         name, user);
    }
    uint32_t text = add_string(rt, name);
    if (!text) {
        return ptoi_fail(PTO_FULL, "register a kernel: no room for a name of %zu bytes",
                         strlen(name));
    }
    ptoi_names_clean(rt->view.strings + text);
    rt->view.kernels[rt->n_kernels] = (ptoi_kernel_entry){text, (uint32_t)type};
    rt->view.codes[rt->n_kernels] = (ptoi_kernel_code){
        .address = (uintptr_t)fn,
        .user = rt->processes && user ? (uintptr_t)user - rt->user_base + 1 : 0};
    rt->kernels[rt->n_kernels].route = (uint32_t)type |
                                       (rt->settings.config.attach ? PTOI_ROUTE_DECLARED : 0);
    rt->kernels[rt->n_kernels].variant[PTO_DEVICE_CPU] = (uint16_t)rt->n_kernels;
    ptoi_scheduler_add_kernel(rt->scheduler, rt->n_kernels, fn, user,
                              rt->inlining.types >> type & 1);
    *kernel = rt->first_kernel | rt->n_kernels++;
    ptoi_release32(&rt->view.header->kernels, rt->n_kernels);
    ptoi_attach_ask(rt, rt->n_kernels - 1);
    return PTO_OK;
}

/* The number of a kernel; PTO_BAD_KERNEL if it is none of this runtime. */
static pto_status kernel_number(const pto_runtime *rt, const char *who, pto_kernel kernel,
                                uint32_t *number)
{
    const uint64_t n = kernel ^ rt->first_kernel;
    if (n == 0 || n >= rt->n_kernels) {
        return ptoi_fail(PTO_BAD_KERNEL, "%s: kernel handle %" PRIu64 " is not of this runtime",
                         who, kernel);
    }
    *number = (uint32_t)n;
    return PTO_OK;
}

const char *pto_kernel_name(const pto_runtime *rt, pto_kernel kernel)
{
    const uint64_t n = rt ? kernel ^ rt->first_kernel : 0;
    return n && n < rt->n_kernels ? ptoi_kernel_name(&rt->view, (uint32_t)n) : NULL;
}

pto_status pto_kernel_variant(pto_runtime *rt, pto_kernel kernel, pto_device_type type,
                              pto_kernel_fn fn, void *user)
{
    static const char who[] = "add a variant";
    uint32_t of = 0;
    PTO_TRY(ptoi_runtime_enter(rt, who));
    PTO_TRY(kernel_number(rt, who, kernel, &of));
    const char *name = ptoi_kernel_name(&rt->view, of);
    if (!fn) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "%s: kernel '%s': fn is NULL", who, name);
    }
    if ((uint32_t)type >= PTOI_DEVICE_TYPES) {
        return ptoi_fail(PTO_BAD_DEVICE, "%s: kernel '%s': device type %u is not in 0 .. %d", who,
                         name, (unsigned)type, PTOI_DEVICE_TYPES - 1);
    }
    if (rt->kernels[of].variant[type]) {
        return ptoi_fail(PTO_BAD_KERNEL, "%s: kernel '%s' has a variant for %s already", who, name,
                         pto_device_name(type));
    }
    if (rt->n_kernels == PTOI_MAX_KERNELS) {
        return ptoi_fail(PTO_FULL, "%s: '%s' after %d kernels", who, name, PTOI_MAX_KERNELS - 1);
    }
    const uint32_t number = rt->n_kernels++;
    rt->view.kernels[number] = rt->view.kernels[of]; /* the same name and type of worker */
    ptoi_scheduler_add_kernel(rt->scheduler, number, fn, user, false);
    rt->kernels[of].variant[type] = (uint16_t)number;
    return PTO_OK;
}

pto_status pto_kernel_copies(pto_runtime *rt, pto_kernel kernel)
{
    uint32_t number = 0;
    PTO_TRY(ptoi_runtime_enter(rt, "declare a copy"));
    PTO_TRY(kernel_number(rt, "declare a copy", kernel, &number));
    rt->kernels[number].copies = true;
    return PTO_OK;
}

void ptoi_kernel_is_everywhere(pto_runtime *rt, pto_kernel kernel)
{
    const uint32_t number = (uint32_t)(kernel ^ rt->first_kernel);
    for (uint32_t type = 0; type < PTOI_DEVICE_TYPES; type++) {
        rt->kernels[number].variant[type] = (uint16_t)number;
    }
}

pto_status ptoi_names_reserve(pto_runtime *rt)
{
    rt->site_bytes = SITE_BUCKETS * sizeof *rt->site_table;
    rt->site_table = ptoi_os_reserve(rt->site_bytes);
    rt->kernel_bytes = PTOI_MAX_KERNELS * sizeof *rt->kernels;
    rt->kernels = ptoi_os_reserve(rt->kernel_bytes);
    return rt->site_table && rt->kernels
               ? PTO_OK
               : ptoi_fail(PTO_OUT_OF_MEMORY, "create: tables of sites and kernels");
}

void ptoi_names_destroy(pto_runtime *rt)
{
    for (uint32_t i = 0; i < rt->n_kernels; i++) {
        free(rt->kernels[i].declaration);
    }
    ptoi_os_release(rt->kernels, rt->kernel_bytes);
    ptoi_os_release(rt->site_table, rt->site_bytes);
}

void ptoi_names_create(pto_runtime *rt)
{
    rt->n_sites = 1; /* site 0: none was given, line 0 of "" */
    rt->string_bytes = 1;
    rt->view.sites[SITE_LOST] = (ptoi_site){add_string(rt, SITE_LOST_FILE), 0};
    rt->view.kernels[0] = (ptoi_kernel_entry){add_string(rt, "alloc"), 0};
    rt->n_kernels = 1;
    ptoi_release32(&rt->view.header->kernels, 1);
}
