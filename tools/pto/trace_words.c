/* trace_words.c - prints tasks and arguments of a trace, and finds tasks by name. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <pto/pto.h>

#include "trace.h"

/* The last part of a path. */
static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

typedef struct sign {
    char s[8];    /* as shown */
    size_t bytes; /* its length in the text */
} sign;

/* The next character of a text: valid UTF-8 unchanged, a control character as "?", an invalid byte
 * as \xNN. */
static sign next_sign(const char *text)
{
    sign next = {.bytes = ptoi_utf8_bytes(text)};
    const unsigned char c = (unsigned char)text[0], second = c ? (unsigned char)text[1] : 0;
    if (next.bytes == 0) {
        snprintf(next.s, sizeof next.s, "\\x%02x", c);
        next.bytes = 1;
    } else if (c < 0x20 || c == 0x7f || (c == 0xc2 && second < 0xa0)) {
        next.s[0] = '?';
    } else {
        memcpy(next.s, text, next.bytes);
    }
    return next;
}

trace_name trace_plain(const char *text)
{
    trace_name name = {""};
    size_t length = 0;
    while (*text) {
        const sign next = next_sign(text);
        const size_t n = strlen(next.s);
        if (length + n >= sizeof name.s) {
            break;
        }
        memcpy(name.s + length, next.s, n);
        length += n;
        text += next.bytes;
    }
    return name;
}

static void print_plain(FILE *out, const char *text)
{
    while (*text) {
        const sign next = next_sign(text);
        fputs(next.s, out);
        text += next.bytes;
    }
}

void trace_print_task(FILE *out, const ptoi_ptrace *trace, uint32_t task)
{
    const ptrace_task *t = &trace->tasks[task];
    print_plain(out, ptoi_ptrace_kernel(trace, t));
    fputc('@', out);
    print_plain(out, base_of(ptoi_ptrace_file(trace, t)));
    fprintf(out, ":%" PRId32, ptoi_ptrace_line(trace, t));
}

static void print_dims(FILE *out, const int64_t *dims, uint32_t n, const char *marks)
{
    fputc(marks[0], out);
    for (uint32_t d = 0; d < n; d++) {
        fprintf(out, "%s%" PRId64, d ? ", " : "", dims[d]);
    }
    fputc(marks[1], out);
}

void trace_print_arg(FILE *out, const ptoi_ptrace *trace, uint32_t arg)
{
    const ptrace_arg *a = &trace->args[arg];
    fputs(pto_dtype_name((pto_dtype)a->dtype), out);
    if ((a->access & ~PTRACE_NODEP) == PTO_PARAM_SCALAR) {
        fprintf(out, " scalar, bits 0x%" PRIx64, a->where);
        return;
    }
    if (a->ndim) {
        print_dims(out, trace->dims + a->dims, a->ndim, "[]");
        fputs(" strides ", out);
        print_dims(out, trace->dims + a->dims + a->ndim, a->ndim, "()");
    } else {
        fputs("[]", out);
    }
    if (a->segment == PTRACE_USER) {
        fprintf(out, " at 0x%" PRIx64, a->where);
    } else {
        fprintf(out, " in buffer %" PRIu32 ", at %" PRIu64 " in the heap of level %u", a->buffer,
                a->where, a->segment);
    }
}

/* ---- Finding tasks ---- */

typedef struct wanted {
    const char *kernel, *file; /* NULL: any */
    size_t kernel_length, file_length;
    long line;      /* 0: any */
    uint64_t which; /* counted from 1 */
} wanted;

static bool is_number(const char *text, uint64_t *value)
{
    char *end = NULL;
    if (*text < '0' || *text > '9') {
        return false;
    }
    *value = strtoull(text, &end, 10);
    return *end == '\0';
}

/* kernel[@file[:line]][#n] */
static bool parse(const char *word, wanted *w)
{
    const char *number = strrchr(word, '#');
    const char *end = number ? number : word + strlen(word);
    const char *at = memchr(word, '@', (size_t)(end - word));
    *w = (wanted){.kernel = word, .kernel_length = (size_t)((at ? at : end) - word), .which = 1};
    if (number && (!is_number(number + 1, &w->which) || w->which == 0)) {
        return false;
    }
    if (at) {
        const char *colon = end;
        while (colon > at && *colon != ':') {
            colon--;
        }
        w->file = at + 1;
        w->file_length = (size_t)((*colon == ':' ? colon : end) - w->file);
        if (*colon == ':') {
            char *rest = NULL;
            w->line = strtol(colon + 1, &rest, 10);
            return rest == end && w->line > 0;
        }
    }
    return w->kernel_length > 0;
}

/* Whether `path` is the file, or ends with it. */
static bool is_file(const char *path, const wanted *w)
{
    const size_t length = strlen(path);
    return length >= w->file_length &&
           strncmp(path + length - w->file_length, w->file, w->file_length) == 0 &&
           (length == w->file_length || path[length - w->file_length - 1] == '/');
}

static bool matches(const ptoi_ptrace *trace, const ptrace_task *t, const wanted *w)
{
    const char *kernel = ptoi_ptrace_kernel(trace, t);
    return strlen(kernel) == w->kernel_length &&
           strncmp(kernel, w->kernel, w->kernel_length) == 0 &&
           (!w->file || is_file(ptoi_ptrace_file(trace, t), w)) &&
           (!w->line || w->line == ptoi_ptrace_line(trace, t));
}

uint32_t trace_find_task(const char *who, const ptoi_ptrace *trace, const char *word)
{
    uint64_t number = 0, met = 0;
    wanted w;
    if (is_number(word, &number)) {
        if (number < trace->n_tasks) {
            return (uint32_t)number;
        }
        fprintf(stderr, "%s: no task %s: the trace has %" PRIu64 " tasks\n", who, word,
                trace->n_tasks);
        return PTRACE_NONE;
    }
    if (!parse(word, &w)) {
        fprintf(stderr, "%s: '%s' is not a task: give a number, or kernel[@file[:line]][#n]\n", who,
                word);
        return PTRACE_NONE;
    }
    for (uint64_t i = 0; i < trace->n_tasks; i++) {
        if (matches(trace, &trace->tasks[i], &w) && ++met == w.which) {
            return (uint32_t)i;
        }
    }
    fprintf(stderr, "%s: no task '%s': %" PRIu64 " tasks match\n", who, word, met);
    return PTRACE_NONE;
}
