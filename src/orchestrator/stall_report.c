/* stall_report.c - the last stall, as a record for programs and as text.
 *
 * It lies in the window, so that a tool can report it as well. Only the orchestrating thread writes
 * it, after it has proved the stall.
 */
#include <inttypes.h>

#include "base/error.h"
#include "base/source.h"
#include "device/device.h"
#include "orchestrator/device.h"
#include "orchestrator/rings.h"
#include "orchestrator/stall_report.h"
#include "window/builtin.h"

const char *pto_stall_kind_name(pto_stall_kind kind)
{
    static const char *const names[] = {"PTO_STALL_NONE", "PTO_STALL_SCOPE", "PTO_STALL_LEVELS",
                                        "PTO_STALL_BUFFERS", "PTO_STALL_TOO_LARGE"};
    return (uint32_t)kind < sizeof names / sizeof *names ? names[kind] : "PTO_STALL_UNKNOWN";
}

/* ---- Storing ---- */

void ptoi_stall_keep(pto_runtime *rt, pto_stall_report *report, uint32_t kernel, uint32_t site,
                     uint32_t scope)
{
    ptoi_stalled *s = &rt->view.header->stalled;
    const uint64_t serial = ptoi_get64(&s->serial);
    /* Sequentially consistent stores: no store in between moves before the first or after the
     * second. */
    ptoi_store_sc64(&s->serial, serial + 1);
    ptoi_release32(&s->kind, report->kind);
    ptoi_release32(&s->ring, report->ring);
    ptoi_release32(&s->level, report->level);
    ptoi_release64(&s->device, ptoi_device_word(report->device));
    ptoi_release64(&s->size, report->size);
    ptoi_release64(&s->used, report->used);
    ptoi_release64(&s->wanted, report->wanted);
    ptoi_release64(&s->enough, report->enough);
    ptoi_release64(&s->task, report->oldest);
    ptoi_release64(&s->order, report->order);
    ptoi_release64(&s->output, report->output);
    ptoi_release64(&s->output_bytes, report->output_bytes);
    ptoi_release64(&s->given_up, report->given_up);
    ptoi_release32(&s->kernel, kernel);
    ptoi_release32(&s->site, site);
    ptoi_release32(&s->scope, scope);
    ptoi_release64(&s->submitted, rt->order);
    ptoi_release64(&s->when, ptoi_os_clock());
    ptoi_store_sc64(&s->serial, serial + 2);
}

pto_status ptoi_stall_too_large(pto_runtime *rt, uint32_t level, uint32_t device,
                                ptoi_shortage what, uint64_t wanted, uint64_t enough)
{
    const ptoi_ring_fill fill = ptoi_rings_read_on(rt, level, device, (pto_ring)what);
    pto_stall_report r = {
        .kind = PTO_STALL_TOO_LARGE,
        .ring = (pto_ring)what,
        .level = level,
        .device = ptoi_device_at(rt, device),
        .size = fill.size,
        .used = fill.used,
        .wanted = wanted,
        .enough = enough,
    };
    ptoi_stall_keep(rt, &r, 0, 0, 0);
    return PTO_TOO_LARGE;
}

pto_status pto_last_stall(const pto_runtime *rt, pto_stall_report *report)
{
    PTO_TRY(ptoi_runtime_enter(rt, "last stall"));
    if (!report) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "last stall: report is NULL");
    }
    const ptoi_view *view = &rt->view;
    const ptoi_stalled *s = &view->header->stalled;
    *report = (pto_stall_report){.count = ptoi_get64(&s->serial) / 2,
                                 .kernel = "",
                                 .file = "",
                                 .scope_file = "",
                                 .field = "",
                                 .variable = ""};
    if (!report->count) {
        return PTO_OK;
    }
    report->kind = (pto_stall_kind)ptoi_get32(&s->kind);
    report->ring = (pto_ring)ptoi_get32(&s->ring);
    report->level = ptoi_get32(&s->level);
    report->device = ptoi_device_of_word(ptoi_get64(&s->device));
    report->size = ptoi_get64(&s->size);
    report->used = ptoi_get64(&s->used);
    report->wanted = ptoi_get64(&s->wanted);
    report->enough = ptoi_get64(&s->enough);
    report->field = ptoi_rings_names(report->ring)->field;
    report->variable = ptoi_rings_names(report->ring)->variable;
    if (!ptoi_device_is_host(report->device)) {
        report->field = "device_heap_bytes";
        report->variable = "PTO_DEVICE_HEAP";
    }
    if (report->kind == PTO_STALL_SCOPE || report->kind == PTO_STALL_LEVELS) {
        const ptoi_site *site = &view->sites[ptoi_get32(&s->site)];
        const ptoi_site *scope = &view->sites[ptoi_get32(&s->scope)];
        report->oldest = ptoi_get64(&s->task);
        report->order = ptoi_get64(&s->order);
        report->output = (uint32_t)ptoi_get64(&s->output);
        report->output_bytes = ptoi_get64(&s->output_bytes);
        report->given_up = ptoi_get64(&s->given_up);
        report->kernel = ptoi_kernel_name(view, ptoi_get32(&s->kernel));
        report->file = ptoi_string(view, site->file);
        report->line = site->line;
        report->scope_file = ptoi_string(view, scope->file);
        report->scope_line = scope->line;
    }
    return PTO_OK;
}

/* ---- Text ---- */

void pto_stall_print(const pto_stall_report *report, FILE *out)
{
    if (!report || !out || report->kind == PTO_STALL_NONE) {
        return;
    }
    const ptoi_ring_names *ring = ptoi_rings_names(report->ring);
    char where[64] = "";
    const bool elsewhere = !ptoi_device_is_host(report->device);
    if (report->ring != PTO_RING_BUFFERS) {
        snprintf(where, sizeof where, " of level %u%s%s", report->level, elsewhere ? " on " : "",
                 elsewhere ? ptoi_device_words(report->device).s : "");
    }
    if (report->kind == PTO_STALL_TOO_LARGE) {
        fprintf(out, "too large: it would not fit into an empty ring\n");
    } else {
        fprintf(out, "stalled: no task that ends can make room\n");
    }
    const bool gap = report->ring == PTO_RING_HEAP && report->kind != PTO_STALL_TOO_LARGE &&
                     report->size - report->used >= report->wanted;
    fprintf(out, "  short of  %s%s: %" PRIu64 " wanted%s, %" PRIu64 " of %" PRIu64 " %s in use\n",
            ring->name, where, report->wanted, gap ? " in one piece" : "", report->used,
            report->size, ring->unit);
    if (report->kind == PTO_STALL_SCOPE || report->kind == PTO_STALL_LEVELS) {
        const ptoi_source at = ptoi_source_of(report->file, report->line);
        if (report->oldest) {
            fprintf(out,
                    "  oldest    output %u, %" PRIu64 " bytes, of task %" PRIu64
                    " (kernel '%s', submitted at %s)\n",
                    report->output, report->output_bytes, report->order, report->kernel, at.text);
        } else {
            fprintf(out, "  oldest    %" PRIu64 " bytes asked for at %s\n", report->output_bytes,
                    at.text);
        }
        fprintf(out, "  held by   the scope opened at %s, which only this program can end\n",
                ptoi_source_of(report->scope_file, report->scope_line).text);
        if (report->given_up) {
            fprintf(out, "  behind it %" PRIu64 " bytes that were given up (pto_release)\n",
                    report->given_up);
        }
    }
    const char *first = "  do        ", *more = "  or        ";
    switch (report->kind) {
    case PTO_STALL_NONE:
        return;
    case PTO_STALL_LEVELS:
        fprintf(out,
                "%sraise levels (PTO_LEVELS): boundary scopes that nest this deep share the "
                "ring of the scope\n"
                "%send that scope earlier\n",
                first, more);
        break;
    case PTO_STALL_SCOPE:
        if (report->given_up) {
            fprintf(out, "%sgive up the oldest one, too: memory comes back in the order of birth\n",
                    first);
            first = more;
        }
        fprintf(out,
                "%send that scope earlier\n"
                "%sput repeated work into boundary scopes: PTO_BOUNDARY(rt) { ... }\n",
                first, more);
        if (!report->given_up) {
            fprintf(out, "%sgive up memory that is no longer needed: pto_release\n", more);
        }
        break;
    case PTO_STALL_BUFFERS:
        fprintf(out,
                "%send scopes, which frees records; a boundary scope frees its own\n"
                "%sgive up tensors that are no longer needed: pto_release\n",
                first, more);
        break;
    case PTO_STALL_TOO_LARGE:
        fprintf(out, "%ssplit it into smaller tasks\n", first);
        break;
    }
    fprintf(out, "%sraise %s", more, elsewhere ? ptoi_heap_option(1) : ring->option);
    if (report->enough) {
        fprintf(out, " to at least %" PRIu64, report->enough);
    }
    fputc('\n', out);
}
