/* label.c - labels of tasks and ranges of the program. Orchestrator's side. */
#include "orchestrator/label.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "orchestrator/names.h"
#include "orchestrator/trace.h"
#include "orchestrator/watch.h"

/* Formats a text. One that is too long ends in "...", after a whole character of UTF-8. */
static void format_text(char text[PTO_LABEL_BYTES], const char *format, va_list args)
{
    static const char cut[] = "...";
    const int length = vsnprintf(text, PTO_LABEL_BYTES, format, args);
    if (length < 0) {
        text[0] = '\0';
    } else if (length >= PTO_LABEL_BYTES) {
        size_t at = PTO_LABEL_BYTES - sizeof cut;
        while (at && ((unsigned char)text[at] & 0xc0) == 0x80) {
            at--;
        }
        memcpy(text + at, cut, sizeof cut);
    }
    ptoi_names_clean(text);
}

/* ---- Labels ---- */

pto_status pto_label(pto_runtime *rt, const char *format, ...)
{
    PTO_TRY(ptoi_runtime_enter(rt, "label a task"));
    if (!format) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "label a task: format is NULL");
    }
    va_list args;
    va_start(args, format);
    format_text(rt->label.text, format, args);
    va_end(args);
    rt->label.state = rt->label.text[0] ? PTOI_LABEL_SET : PTOI_LABEL_NONE;
    ptoi_watch_update(rt);
    return PTO_OK;
}

void ptoi_label_called(pto_runtime *rt)
{
    if (rt->label.state != PTOI_LABEL_NONE) {
        rt->label.state = rt->label.state == PTOI_LABEL_SET ? PTOI_LABEL_GIVEN : PTOI_LABEL_NONE;
        ptoi_watch_update(rt);
    }
}

void ptoi_label_take(pto_runtime *rt, const ptoi_slot *slot)
{
    if (rt->label.state == PTOI_LABEL_GIVEN) {
        const ptoi_view *view = &rt->view;
        ptoi_label_write(&view->labels[ptoi_slot_index(view, slot)], ptoi_order_of(view, slot),
                         rt->label.text);
        ptoi_trace_text(rt, PTOI_TRACED_LABEL, ptoi_task_of(slot), rt->label.text);
        rt->label.state = PTOI_LABEL_NONE;
        ptoi_watch_update(rt);
    }
}

/* ---- Ranges ---- */

pto_status pto_range_begin(pto_runtime *rt, const char *format, ...)
{
    PTO_TRY(ptoi_runtime_enter(rt, "begin a range"));
    if (!format) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "begin a range: format is NULL");
    }
    char text[PTO_LABEL_BYTES];
    va_list args;
    va_start(args, format);
    format_text(text, format, args);
    va_end(args);
    ptoi_header *h = rt->view.header;
    const uint64_t depth = ptoi_get64(&h->range_depth);
    if (depth < PTOI_RANGES) {
        ptoi_label_write(&h->ranges[depth], ++rt->label.ranges, text);
    }
    ptoi_set64(&h->range_depth, depth + 1);
    ptoi_trace_text(rt, PTOI_TRACED_BEGIN, 0, text);
    return PTO_OK;
}

pto_status pto_range_end(pto_runtime *rt)
{
    PTO_TRY(ptoi_runtime_enter(rt, "end a range"));
    ptoi_header *h = rt->view.header;
    const uint64_t depth = ptoi_get64(&h->range_depth);
    if (!depth) {
        return ptoi_fail(PTO_BAD_SCOPE, "end a range: no range is open");
    }
    ptoi_set64(&h->range_depth, depth - 1);
    ptoi_trace_text(rt, PTOI_TRACED_END, 0, "");
    return PTO_OK;
}
