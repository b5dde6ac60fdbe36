/* export.c - writes a trace to a file: .ptrace, .html, .json or .dot. */
#define _GNU_SOURCE /* O_TMPFILE, linkat */
#include "observe/export.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <pto/pto.h>
#include <pto/trace.h>

#include "base/error.h"
#include "observe/page.h"

/* ---- The bytes of a .ptrace ---- */

typedef void (*writer)(void *context, const void *bytes, size_t n);

static uint64_t padded(uint64_t bytes)
{
    return (bytes + 7) & ~UINT64_C(7);
}

/* Writes the header, the section table and the sections. */
static void write_bytes(const ptoi_ptrace *trace, writer put, void *context)
{
    static const char zeros[8];
    static const char magic[] = {PTRACE_MAGIC_LETTERS};
    struct {
        ptrace_header header;
        ptrace_section table[PTRACE_SECTIONS];
    } start;
    const void *items[PTRACE_SECTIONS];
    uint32_t n = 0;
    memset(&start, 0, sizeof start);
#define ADD_SECTION(name, number, field, type, bytes)                                              \
    if (trace->n_##field || PTRACE_##name <= PTRACE_FIRST_SECTIONS) {                              \
        items[n] = trace->field;                                                                   \
        start.table[n++] = (ptrace_section){PTRACE_##name, bytes, 0, trace->n_##field};            \
    }
    PTRACE_SECTION_MAP(ADD_SECTION)
#undef ADD_SECTION
    const size_t before = sizeof start.header + n * sizeof *start.table;
    uint64_t at = before;
    for (uint32_t i = 0; i < n; i++) {
        start.table[i].at = at;
        at += padded(start.table[i].count * start.table[i].item_bytes);
    }
    memcpy(start.header.magic, magic, sizeof magic);
    start.header.version = PTRACE_VERSION;
    start.header.sections = n;
    start.header.sections_at = sizeof start.header;
    start.header.bytes = at;
    start.header.origin_ns = trace->origin_ns;
    start.header.lost = trace->lost;
    put(context, &start, before);
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t bytes = start.table[i].count * start.table[i].item_bytes;
        if (bytes) {
            put(context, items[i], bytes);
        }
        put(context, zeros, padded(bytes) - bytes);
    }
}

static void put_plain(void *context, const void *bytes, size_t n)
{
    (void)fwrite(bytes, 1, n, context);
}

int ptoi_export_ptrace(const ptoi_ptrace *trace, FILE *out)
{
    write_bytes(trace, put_plain, out);
    return 0;
}

static void count_bytes(void *context, const void *bytes, size_t n)
{
    (void)bytes;
    *(size_t *)context += n;
}

static void copy_bytes(void *context, const void *bytes, size_t n)
{
    char **at = context;
    memcpy(*at, bytes, n);
    *at += n;
}

char *ptoi_export_bytes(const ptoi_ptrace *trace, size_t *n)
{
    *n = 0;
    write_bytes(trace, count_bytes, n);
    char *bytes = malloc(*n), *at = bytes;
    if (bytes) {
        write_bytes(trace, copy_bytes, &at);
    }
    return bytes;
}

/* ---- HTML: the page with the bytes of the .ptrace in it ---- */

typedef struct base64 {
    FILE *out;
    unsigned char rest[3]; /* fewer than three bytes, kept for the next call */
    size_t n_rest, n_text;
    size_t n_part; /* characters in this element of the page */
    char text[4096];
} base64;

/* A browser delivers an element of the page only as a whole. So a long trace is split into several
 * elements: the page shows the first one while the others are still loading. */
#define PART_CHARACTERS ((size_t)16 << 20)

static void put_three(base64 *b, const unsigned char *in)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (b->n_text == sizeof b->text) { /* not earlier: end_base64 may change the last characters */
        (void)fwrite(b->text, 1, b->n_text, b->out);
        b->n_part += b->n_text;
        b->n_text = 0;
        if (b->n_part >= PART_CHARACTERS) {
            (void)fputs("</script>\n<script type=\"application/octet-stream\">", b->out);
            b->n_part = 0;
        }
    }
    char *to = b->text + b->n_text;
    to[0] = digits[in[0] >> 2];
    to[1] = digits[(in[0] & 3) << 4 | in[1] >> 4];
    to[2] = digits[(in[1] & 15) << 2 | in[2] >> 6];
    to[3] = digits[in[2] & 63];
    b->n_text += 4;
}

static void put_base64(void *context, const void *bytes, size_t n)
{
    base64 *b = context;
    const unsigned char *in = bytes;
    for (; n && b->n_rest; n--) {
        b->rest[b->n_rest++] = *in++;
        if (b->n_rest == 3) {
            put_three(b, b->rest);
            b->n_rest = 0;
        }
    }
    for (; n >= 3; n -= 3, in += 3) {
        put_three(b, in);
    }
    memcpy(b->rest + b->n_rest, in, n);
    b->n_rest += n;
}

static void end_base64(base64 *b)
{
    const size_t left = b->n_rest;
    if (left) {
        memset(b->rest + left, 0, 3 - left);
        put_three(b, b->rest);
        memset(b->text + b->n_text - (3 - left), '=', 3 - left);
    }
    (void)fwrite(b->text, 1, b->n_text, b->out);
}

int ptoi_export_html(const ptoi_ptrace *trace, FILE *out)
{
    static const char mark[] = "@PTRACE_BASE64@";
    const char *page = (const char *)ptoi_page;
    const char *at = strstr(page, mark);
    base64 b = {.out = out};
    (void)fwrite(page, 1, (size_t)(at - page), out);
    write_bytes(trace, put_base64, &b);
    end_base64(&b);
    fputs(at + sizeof mark - 1, out);
    return 0;
}

/* ---- Files ---- */

typedef struct format {
    const char *extension;
    int (*write)(const ptoi_ptrace *trace, FILE *out);
} format;

static const format formats[] = {
    {".ptrace", ptoi_export_ptrace},
    {".html", ptoi_export_html},
    {".json", ptoi_export_json},
    {".dot", ptoi_export_dot},
};

static const format *format_of(const char *path)
{
    const size_t length = strlen(path);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        const size_t n = strlen(formats[i].extension);
        if (length > n && strcmp(path + length - n, formats[i].extension) == 0 &&
            path[length - n - 1] != '/') {
            return &formats[i];
        }
    }
    return NULL;
}

static pto_status refuse(const char *what, const char *path, int why)
{
    return ptoi_fail(PTO_SYSTEM, "trace: cannot %s '%s': %s", what, path, strerror(why));
}

/* A device or a pipe is written directly, since it cannot be replaced. */
static bool is_special(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && !S_ISREG(s.st_mode) && !S_ISDIR(s.st_mode);
}

/* The folder of a path. The caller frees it. NULL if there is no memory. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    const size_t n = slash ? (size_t)(slash - path) + (slash == path) : 1;
    char *folder = malloc(n + 1);
    if (folder) {
        memcpy(folder, slash ? path : ".", n);
        folder[n] = '\0';
    }
    return folder;
}

/* A new file that replaces the one at `path` when it is completely written. It has no name until
 * then, so that nothing is left behind if the program is killed. On systems without unnamed files
 * it has a temporary name in the same folder. */
typedef struct new_file {
    const char *path;
    char *beside; /* buffer for the temporary name */
    size_t room;
    int file;
    bool named;
} new_file;

/* Gives the new file a temporary name, by calling `give`. Returns 0 or an error number. */
static int name_new_file(new_file *d, int (*give)(new_file *d))
{
    for (int i = 0; i < 100; i++) {
        snprintf(d->beside, d->room, "%s.%ld.%d", d->path, (long)getpid(), i);
        if (give(d) >= 0) {
            d->named = true;
            return 0;
        }
        if (errno != EEXIST) {
            break;
        }
    }
    return errno;
}

static int give_by_link(new_file *d)
{
    char self[48];
    snprintf(self, sizeof self, "/proc/self/fd/%d", d->file);
    return linkat(AT_FDCWD, self, AT_FDCWD, d->beside, AT_SYMLINK_FOLLOW);
}

/* With the default permissions of the program. */
static int give_by_create(new_file *d)
{
    d->file = open(d->beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return d->file;
}

static int create_new_file(new_file *d)
{
    char *folder = folder_of(d->path);
    if (!folder) {
        return ENOMEM;
    }
    d->file = access("/proc/self/fd", X_OK) == 0
                  ? open(folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666)
                  : -1;
    free(folder);
    return d->file >= 0 ? 0 : name_new_file(d, give_by_create);
}

/* Writes the whole file, and gives it a temporary name if it has none. Closes it. Returns 0 or an
 * error number. */
static int write_file(const ptoi_ptrace *trace, const format *f, int file, new_file *d)
{
    FILE *out = fdopen(file, "wb");
    if (!out) {
        const int why = errno;
        close(file);
        return why;
    }
    errno = 0;
    int why = f->write(trace, out);
    if (!why && (fflush(out) || ferror(out))) {
        why = errno ? errno : EIO;
    }
    if (!why && d && !d->named) {
        why = name_new_file(d, give_by_link);
    }
    if (fclose(out) && !why) {
        why = errno ? errno : EIO;
    }
    return why;
}

static int replace_file(const ptoi_ptrace *trace, const format *f, new_file *d)
{
    int why = create_new_file(d);
    if (!why) {
        why = write_file(trace, f, d->file, d);
    }
    if (!why && rename(d->beside, d->path)) {
        why = errno;
    }
    if (why && d->named) {
        (void)unlink(d->beside);
    }
    return why;
}

pto_status ptoi_export(const ptoi_ptrace *trace, const char *path)
{
    const format *f = format_of(path);
    int why = 0;
    if (!f) {
        return ptoi_fail(PTO_BAD_PARAM, "trace: '%s' does not end in .ptrace, .html, .json or .dot",
                         path);
    }
    if (is_special(path)) {
        const int file = open(path, O_WRONLY | O_CLOEXEC);
        why = file < 0 ? errno : write_file(trace, f, file, NULL);
    } else {
        new_file d = {.path = path, .room = strlen(path) + 32};
        d.beside = malloc(d.room);
        if (!d.beside) {
            return ptoi_fail(PTO_OUT_OF_MEMORY, "trace: %zu bytes for a name", d.room);
        }
        why = replace_file(trace, f, &d);
        free(d.beside);
    }
    return why ? refuse("write", path, why) : PTO_OK;
}

pto_status ptoi_export_check(const char *path)
{
    struct stat s;
    if (is_special(path)) {
        return access(path, W_OK) ? refuse("write", path, errno) : PTO_OK;
    }
    if (stat(path, &s) == 0 && S_ISDIR(s.st_mode)) {
        return refuse("write", path, EISDIR);
    }
    char *folder = folder_of(path);
    const int why = !folder ? ENOMEM : access(folder, W_OK | X_OK) ? errno : 0;
    free(folder);
    return why ? refuse("write", path, why) : PTO_OK;
}

pto_status ptoi_export_format(const char *path)
{
    return format_of(path)
               ? PTO_OK
               : ptoi_fail(PTO_BAD_PARAM,
                           "trace: '%s' does not end in .ptrace, .html, .json or .dot", path);
}

pto_status pto_trace_convert(const char *from, const char *to)
{
    if (!from || !to) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "trace: %s is NULL", from ? "to" : "from");
    }
    PTO_TRY(ptoi_export_format(to));
    ptoi_ptrace trace;
    PTO_TRY(ptoi_ptrace_open(from, &trace));
    const pto_status status = ptoi_export(&trace, to);
    ptoi_ptrace_close(&trace);
    return status;
}
