/* trace_words.c - prints tasks and arguments of a trace, and finds tasks by name. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <pto/pto.h>

#include "trace.h"
#include "window/builtin.h"

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

uint32_t trace_ranks(const ptoi_ptrace *trace)
{
    char text[32];
    return (uint32_t)strtoul(trace_meta(trace, "ranks", text, sizeof text), NULL, 10);
}

const char *trace_meta(const ptoi_ptrace *trace, const char *key, char *text, size_t size)
{
    const size_t length = strlen(key);
    const char *line = trace->n_meta ? trace->meta : "", *end = line + trace->n_meta;
    text[0] = '\0';
    while (line < end) {
        const char *next = memchr(line, '\n', (size_t)(end - line));
        next = next ? next : end;
        if ((size_t)(next - line) > length && line[length] == '=' &&
            strncmp(line, key, length) == 0) {
            snprintf(text, size, "%.*s", (int)(next - line - (ptrdiff_t)length - 1),
                     line + length + 1);
            break;
        }
        line = next + 1;
    }
    return text;
}

trace_cell trace_padded(const char *text, size_t width)
{
    trace_cell cell = {""};
    size_t length = 0, columns = 0;
    while (*text && columns < width) {
        const sign next = next_sign(text);
        const size_t n = strlen(next.s);
        if (length + n + width - columns >= sizeof cell.s) {
            break;
        }
        memcpy(cell.s + length, next.s, n);
        length += n;
        columns += next.s[0] == '\\' && n > 1 ? n : 1;
        text += next.bytes;
    }
    for (; columns < width; columns++) {
        cell.s[length++] = ' ';
    }
    return cell;
}

void trace_print_text(FILE *out, const char *text)
{
    while (*text) {
        const sign next = next_sign(text);
        fputs(next.s, out);
        text += next.bytes;
    }
}

/* The scalars of a work request (pto/work.h) by PTOI_WORK_OPCODE and so on; NULL: it is none. A kernel of
 * the program may have the same name, but not the same arguments. */
static const ptrace_arg *request_of(const ptoi_ptrace *trace, const ptrace_task *t)
{
    const ptrace_arg *args = &trace->args[t->first_arg];
    if (t->args < PTOI_WORK_TENSORS || strcmp(ptoi_ptrace_kernel(trace, t), PTOI_KERNEL_WORK)) {
        return NULL;
    }
    for (int i = 0; i < PTOI_WORK_TENSORS; i++) {
        if (args[i].access != PTO_PARAM_SCALAR || args[i].dtype != PTO_UINT64) {
            return NULL;
        }
    }
    return args;
}

void trace_print_task(FILE *out, const ptoi_ptrace *trace, uint32_t task)
{
    const ptrace_task *t = &trace->tasks[task];
    const ptrace_arg *request = request_of(trace, t);
    trace_print_text(out, ptoi_ptrace_kernel(trace, t));
    fputc('@', out);
    trace_print_text(out, base_of(ptoi_ptrace_file(trace, t)));
    fprintf(out, ":%" PRId32, ptoi_ptrace_line(trace, t));
    if (request && request[PTOI_WORK_OPCODE].where < PTO_WORK_USER) {
        fprintf(out, ", %s", pto_work_opcode_name((uint32_t)request[PTOI_WORK_OPCODE].where));
    } else if (request) {
        fprintf(out, ", opcode %" PRIu64, request[PTOI_WORK_OPCODE].where);
    }
    const char *label = ptoi_ptrace_label(trace, task);
    if (*label) {
        fputs(" '", out);
        trace_print_text(out, label);
        fputc('\'', out);
    }
}

static void print_dims(FILE *out, const int64_t *dims, uint32_t n, const char *marks)
{
    fputc(marks[0], out);
    for (uint32_t d = 0; d < n; d++) {
        fprintf(out, "%s%" PRId64, d ? ", " : "", dims[d]);
    }
    fputc(marks[1], out);
}

void trace_print_arg_name(FILE *out, const ptoi_ptrace *trace, uint32_t task, uint32_t arg)
{
    const ptrace_task *t = &trace->tasks[task];
    const ptrace_arg *request = request_of(trace, t);
    uint64_t i = arg - t->first_arg;
    if (!request || i < PTOI_WORK_TENSORS) {
        fprintf(out, "argument %" PRIu64, i);
        return;
    }
    static const char *const names[] = {"inputs", "outputs", "inouts"};
    int list = 0;
    i -= PTOI_WORK_TENSORS;
    while (list < 2 && i >= request[PTOI_WORK_INPUTS + list].where) {
        i -= request[PTOI_WORK_INPUTS + list++].where;
    }
    fprintf(out, "%s[%" PRIu64 "]", names[list], i);
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
    const char *device = ptoi_ptrace_device(trace, arg);
    if (strcmp(device, "cpu:0") != 0) {
        fputs(" on ", out);
        trace_print_text(out, device);
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

/* ---- Labels ---- */

/* Whether a label is the first `length` letters of the word. */
static bool is_label(const ptoi_ptrace *trace, uint64_t i, const char *word, size_t length)
{
    const char *label = ptoi_ptrace_string(trace, trace->labels[i].text);
    return strlen(label) == length && strncmp(label, word, length) == 0;
}

/* The n-th task with the label, counted from 1, and how many have it. */
static uint32_t find_label(const ptoi_ptrace *trace, const char *word, size_t length,
                           uint64_t which, uint64_t *count)
{
    uint32_t task = PTRACE_NONE;
    *count = 0;
    for (uint64_t i = 0; i < trace->n_labels; i++) {
        if (is_label(trace, i, word, length) && ++*count == which) {
            task = trace->labels[i].task;
        }
    }
    return task;
}

static bool is_kernel(const ptoi_ptrace *trace, const char *word, size_t length)
{
    for (uint64_t i = 0; i < trace->n_tasks; i++) {
        const char *kernel = ptoi_ptrace_kernel(trace, &trace->tasks[i]);
        if (strlen(kernel) == length && strncmp(kernel, word, length) == 0) {
            return true;
        }
    }
    return false;
}

static void refuse_label(const char *who, const ptoi_ptrace *trace, const char *word,
                         uint64_t count)
{
    enum { MOST = 10 };
    uint64_t shown = 0;
    fprintf(stderr, "%s: %" PRIu64 " tasks have the label '%s':", who, count, word);
    for (uint64_t i = 0; i < trace->n_labels && shown < MOST; i++) {
        if (is_label(trace, i, word, strlen(word))) {
            fprintf(stderr, "%s %" PRIu32, shown++ ? "," : "", trace->labels[i].task);
        }
    }
    fprintf(stderr, "%s; give a number", shown < count ? ", ..." : "");
    if (!is_kernel(trace, word, strlen(word))) {
        fprintf(stderr, ", or '%s#1' for the first", word);
    }
    fputc('\n', stderr);
}

/* A word that is a label, or label#n if no kernel has that name. Returns whether it is one; *task
 * is PTRACE_NONE if that was an error. */
static bool find_by_label(const char *who, const ptoi_ptrace *trace, const char *word,
                          uint32_t *task)
{
    const char *mark = strrchr(word, '#');
    uint64_t which = 1, count = 0;
    *task = find_label(trace, word, strlen(word), 1, &count);
    if (count > 1) {
        refuse_label(who, trace, word, count);
        *task = PTRACE_NONE;
        return true;
    }
    if (count) {
        if (is_kernel(trace, word, strlen(word))) {
            fprintf(stderr,
                    "%s: '%s' is the label of task %" PRIu32
                    " and also a kernel; the task with the label is taken, '%s#1' is the first of "
                    "the kernel\n",
                    who, word, *task, word);
        }
        return true;
    }
    if (!mark || !is_number(mark + 1, &which) || is_kernel(trace, word, (size_t)(mark - word))) {
        return false;
    }
    *task = find_label(trace, word, (size_t)(mark - word), which, &count);
    if (count && *task == PTRACE_NONE) {
        fprintf(stderr, "%s: no task '%s': %" PRIu64 " task%s the label\n", who, word, count,
                count == 1 ? " has" : "s have");
    }
    return count != 0;
}

uint32_t trace_find_task(const char *who, const ptoi_ptrace *trace, const char *word)
{
    uint64_t number = 0, met = 0;
    uint32_t labelled;
    wanted w;
    if (is_number(word, &number)) {
        if (number < trace->n_tasks) {
            return (uint32_t)number;
        }
        fprintf(stderr, "%s: no task %s: the trace has %" PRIu64 " task%s\n", who, word,
                trace->n_tasks, trace->n_tasks == 1 ? "" : "s");
        return PTRACE_NONE;
    }
    if (find_by_label(who, trace, word, &labelled)) {
        return labelled;
    }
    if (!parse(word, &w)) {
        fprintf(stderr,
                "%s: '%s' is not a task: give a number, a label[#n], or kernel[@file[:line]][#n]\n",
                who, word);
        return PTRACE_NONE;
    }
    for (uint64_t i = 0; i < trace->n_tasks; i++) {
        if (matches(trace, &trace->tasks[i], &w) && ++met == w.which) {
            return (uint32_t)i;
        }
    }
    fprintf(stderr, "%s: no task '%s': %" PRIu64 " task%s\n", who, word, met,
            met == 1 ? " matches" : "s match");
    return PTRACE_NONE;
}
