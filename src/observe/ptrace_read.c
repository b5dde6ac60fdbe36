/* ptrace_read.c - reads a trace file and checks all of it: the file may be damaged or malicious. */
#include "observe/ptrace_read.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pto/config.h>
#include <pto/embed.h>
#include <pto/pto.h>

/* ---- Sections ---- */

typedef struct reader {
    const char *name;
    const char *bytes;
    uint64_t n_bytes;
    ptoi_ptrace *out;
} reader;

static const struct {
    const char *name;
    uint32_t item_bytes;
} known[] = {
#define KNOWN_SECTION(name, number, field, type, bytes) [number] = {#name, bytes},
    PTRACE_SECTION_MAP(KNOWN_SECTION)
#undef KNOWN_SECTION
};

/* If the items of the file are larger than in this version, copies the known part of each, so that
 * they form an array. */
static pto_status compact(reader *r, const ptrace_section *s, const void **items)
{
    const size_t want = known[s->kind].item_bytes;
    *items = r->bytes + s->at;
    if (s->item_bytes == want || s->count == 0) {
        return PTO_OK;
    }
    char *copy = malloc(s->count * want);
    if (!copy) {
        return pto_fail(PTO_OUT_OF_MEMORY, "%s: no memory for %" PRIu64 " items of section %s",
                        r->name, s->count, known[s->kind].name);
    }
    for (uint64_t i = 0; i < s->count; i++) {
        memcpy(copy + i * want, r->bytes + s->at + i * s->item_bytes, want);
    }
    r->out->copies[s->kind - 1] = copy;
    *items = copy;
    return PTO_OK;
}

static pto_status read_section(reader *r, const ptrace_section *s, bool *seen)
{
    const void *items = NULL;
    if (s->kind == 0 || s->kind > PTRACE_SECTIONS) {
        return PTO_OK; /* a kind of a later version */
    }
    const char *name = known[s->kind].name;
    if (seen[s->kind]) {
        return pto_fail(PTO_BAD_FILE, "%s: section %s is there twice", r->name, name);
    }
    seen[s->kind] = true;
    if (s->item_bytes < known[s->kind].item_bytes) {
        return pto_fail(PTO_BAD_FILE,
                        "%s: items of section %s have %" PRIu32 " bytes, not %" PRIu32, r->name,
                        name, s->item_bytes, known[s->kind].item_bytes);
    }
    if (s->at % 8 || s->at > r->n_bytes || s->count > (r->n_bytes - s->at) / s->item_bytes) {
        return pto_fail(PTO_BAD_FILE,
                        "%s: section %s of %" PRIu64 " items at byte %" PRIu64
                        " is not inside of the %" PRIu64 " bytes",
                        r->name, name, s->count, s->at, r->n_bytes);
    }
    PTO_TRY(compact(r, s, &items));
    switch (s->kind) {
#define TAKE_SECTION(name, number, field, type, bytes)                                             \
    case number:                                                                                   \
        r->out->field = s->count ? items : NULL;                                                   \
        r->out->n_##field = s->count;                                                              \
        break;
        PTRACE_SECTION_MAP(TAKE_SECTION)
#undef TAKE_SECTION
    default:
        break;
    }
    return PTO_OK;
}

static const char magic[] = {PTRACE_MAGIC_LETTERS};

static pto_status read_header(reader *r)
{
    ptrace_header h;
    if (r->n_bytes < sizeof magic || memcmp(r->bytes, magic, sizeof magic) != 0) {
        return pto_fail(PTO_BAD_FILE, "%s: no trace: it does not begin with the %zu letters %.8s",
                        r->name, sizeof magic, magic);
    }
    if (r->n_bytes < sizeof h) {
        return pto_fail(PTO_BAD_FILE, "%s: cut off after %" PRIu64 " bytes, in its header", r->name,
                        r->n_bytes);
    }
    memcpy(&h, r->bytes, sizeof h);
    if (h.version != PTRACE_VERSION) {
        return pto_fail(PTO_BAD_FILE,
                        "%s: version %" PRIu32 " of the format; this library reads version %u",
                        r->name, h.version, PTRACE_VERSION);
    }
    if (h.bytes > r->n_bytes) {
        return pto_fail(PTO_BAD_FILE, "%s: %" PRIu64 " bytes of the %" PRIu64 " it should have",
                        r->name, r->n_bytes, h.bytes);
    }
    if (h.bytes < r->n_bytes) {
        return pto_fail(PTO_BAD_FILE, "%s: more than the %" PRIu64 " bytes it should have", r->name,
                        h.bytes);
    }
    if (h.sections_at % 8 || h.sections_at > r->n_bytes ||
        h.sections > (r->n_bytes - h.sections_at) / sizeof(ptrace_section)) {
        return pto_fail(PTO_BAD_FILE,
                        "%s: a table of %" PRIu32 " sections at byte %" PRIu64
                        " is not inside of the %" PRIu64 " bytes",
                        r->name, h.sections, h.sections_at, r->n_bytes);
    }
    bool seen[PTRACE_SECTIONS + 1] = {false};
    for (uint32_t i = 0; i < h.sections; i++) {
        ptrace_section s;
        memcpy(&s, r->bytes + h.sections_at + i * sizeof s, sizeof s);
        PTO_TRY(read_section(r, &s, seen));
    }
    for (uint32_t kind = 1; kind <= PTRACE_FIRST_SECTIONS; kind++) {
        if (!seen[kind]) {
            return pto_fail(PTO_BAD_FILE, "%s: section %s is missing", r->name, known[kind].name);
        }
    }
    r->out->origin_ns = h.origin_ns;
    r->out->lost = h.lost;
    return PTO_OK;
}

/* ---- Checks of the items ---- */

static pto_status bad(const reader *r, const char *section, uint64_t item, const char *field,
                      uint64_t value, uint64_t most)
{
    return pto_fail(PTO_BAD_FILE,
                    "%s: item %" PRIu64 " of section %s: %s is %" PRIu64 ", of %" PRIu64, r->name,
                    item, section, field, value, most);
}

/* Checks that a number is below a limit. */
#define BELOW(section, i, item, field, limit)                                                      \
    if ((item)->field >= (limit)) {                                                                \
        return bad(r, section, i, #field, (item)->field, (limit));                                 \
    }
/* Checks that an index is below a limit, or PTRACE_NONE. */
#define INDEX(section, i, item, field, limit)                                                      \
    if ((item)->field != PTRACE_NONE) {                                                            \
        BELOW(section, i, item, field, limit)                                                      \
    }
/* Checks that `count` items from `first` on exist. */
#define PIECE(section, i, first, field, count, limit)                                              \
    if ((count) != 0 && ((first) > (limit) || (count) > (limit) - (first))) {                      \
        return bad(r, section, i, field, (first) + (uint64_t)(count), (limit));                    \
    }

static pto_status check_texts(const reader *r)
{
    const ptoi_ptrace *t = r->out;
    if (t->n_strings && (t->strings[0] != '\0' || t->strings[t->n_strings - 1] != '\0')) {
        return pto_fail(PTO_BAD_FILE, "%s: %s of the %" PRIu64 " bytes of strings is not NUL",
                        r->name, t->strings[0] ? "the first" : "the last", t->n_strings);
    }
    const uint64_t strings = t->n_strings ? t->n_strings : 1;
    for (uint64_t i = 0; i < t->n_kernels; i++) {
        BELOW("KERNELS", i, &t->kernels[i], name, strings)
        BELOW("KERNELS", i, &t->kernels[i], type, (uint64_t)PTO_WORKER_TYPES)
    }
    for (uint64_t i = 0; i < t->n_sites; i++) {
        BELOW("SITES", i, &t->sites[i], file, strings)
    }
    uint64_t lost = 0;
    for (uint64_t i = 0; i < t->n_lanes; i++) {
        BELOW("LANES", i, &t->lanes[i], name, strings)
        BELOW("LANES", i, &t->lanes[i], kind, (uint64_t)PTRACE_LANE_KINDS)
        lost += t->lanes[i].lost;
    }
    if (lost != t->lost) {
        return pto_fail(PTO_BAD_FILE,
                        "%s: %" PRIu64 " records lost, of which its threads lost %" PRIu64, r->name,
                        t->lost, lost);
    }
    return PTO_OK;
}

static pto_status check_tasks(const reader *r)
{
    const ptoi_ptrace *t = r->out;
    if (t->n_tasks >= PTRACE_NONE || t->n_edges >= PTRACE_NONE || t->n_args >= PTRACE_NONE) {
        return pto_fail(PTO_BAD_FILE,
                        "%s: %" PRIu64 " tasks, %" PRIu64 " edges, %" PRIu64
                        " arguments: more than can be numbered",
                        r->name, t->n_tasks, t->n_edges, t->n_args);
    }
    uint64_t args = 0; /* end of the arguments so far: tasks do not share arguments */
    for (uint64_t i = 0; i < t->n_tasks; i++) {
        const ptrace_task *task = &t->tasks[i];
        INDEX("TASKS", i, task, kernel, t->n_kernels)
        INDEX("TASKS", i, task, site, t->n_sites)
        INDEX("TASKS", i, task, lane, t->n_lanes)
        PIECE("TASKS", i, task->first_edge, "first_edge + edges", task->edges, t->n_edges)
        PIECE("TASKS", i, task->first_arg, "first_arg + args", task->args, t->n_args)
        if (task->args && task->first_arg < args) {
            return bad(r, "TASKS", i, "first_arg", task->first_arg, args);
        }
        args = task->args ? (uint64_t)task->first_arg + task->args : args;
        BELOW("TASKS", i, task, level, (uint64_t)PTO_MAX_LEVELS)
        BELOW("TASKS", i, task, outcome, (uint64_t)PTRACE_OUTCOMES)
        for (uint64_t e = task->first_edge; e < (uint64_t)task->first_edge + task->edges; e++) {
            if (t->edges[e].to != i) {
                return bad(r, "EDGES", e, "to", t->edges[e].to, i);
            }
        }
    }
    return PTO_OK;
}

static pto_status check_edges(const reader *r)
{
    const ptoi_ptrace *t = r->out;
    for (uint64_t i = 0; i < t->n_edges; i++) {
        const ptrace_edge *edge = &t->edges[i];
        BELOW("EDGES", i, edge, to, t->n_tasks)
        INDEX("EDGES", i, edge, from, (uint64_t)edge->to) /* from an earlier task to a later one */
        INDEX("EDGES", i, edge, arg_from, t->n_args)
        INDEX("EDGES", i, edge, arg_to, t->n_args)
        BELOW("EDGES", i, edge, kind, (uint64_t)PTRACE_EDGE_KINDS)
        if (edge->verdict != PTRACE_SAME_REGION) {
            BELOW("EDGES", i, edge, verdict, (uint64_t)PTO_STAGE_COUNT)
        }
    }
    for (uint64_t i = 0; i < t->n_args; i++) {
        const ptrace_arg *arg = &t->args[i];
        BELOW("ARGS", i, arg, ndim, (uint64_t)PTO_MAX_DIMS + 1)
        PIECE("ARGS", i, (uint64_t)arg->dims, "dims", (uint64_t)arg->ndim * 2, t->n_dims)
        if ((arg->access & ~PTRACE_NODEP) < PTO_PARAM_INPUT ||
            (arg->access & ~PTRACE_NODEP) > PTO_PARAM_SCALAR) {
            return bad(r, "ARGS", i, "access", arg->access, PTO_PARAM_SCALAR);
        }
        if (arg->segment != PTRACE_USER) {
            BELOW("ARGS", i, arg, segment, (uint64_t)PTO_MAX_LEVELS)
        }
    }
    return PTO_OK;
}

static pto_status check_events(const reader *r)
{
    const ptoi_ptrace *t = r->out;
    for (uint64_t i = 0; i < t->n_events; i++) {
        BELOW("EVENTS", i, &t->events[i], lane, t->n_lanes)
        BELOW("EVENTS", i, &t->events[i], kind, (uint64_t)PTRACE_EVENT_KINDS)
        BELOW("EVENTS", i, &t->events[i], level, (uint64_t)PTO_MAX_LEVELS)
    }
    for (uint64_t i = 0; i < t->n_rings; i++) {
        BELOW("RINGS", i, &t->rings[i], level, (uint64_t)PTO_MAX_LEVELS)
        BELOW("RINGS", i, &t->rings[i], ring, (uint64_t)PTO_RINGS)
    }
    for (uint64_t i = 0; i < t->n_caps; i++) {
        BELOW("CAPS", i, &t->caps[i], level, (uint64_t)PTO_MAX_LEVELS)
        BELOW("CAPS", i, &t->caps[i], ring, (uint64_t)PTO_RINGS)
    }
    for (uint64_t i = 0; i < t->n_lives; i++) {
        BELOW("LIVES", i, &t->lives[i], level, (uint64_t)PTO_MAX_LEVELS)
        BELOW("LIVES", i, &t->lives[i], kind, (uint64_t)PTRACE_LIFE_KINDS)
    }
    return PTO_OK;
}

static pto_status check_failures(const reader *r)
{
    const ptoi_ptrace *t = r->out;
    const uint64_t strings = t->n_strings ? t->n_strings : 1;
    for (uint64_t i = 0; i < t->n_failures; i++) {
        const ptrace_failure *f = &t->failures[i];
        BELOW("FAILURES", i, f, task, t->n_tasks)
        BELOW("FAILURES", i, f, name, strings)
        BELOW("FAILURES", i, f, words, strings)
        INDEX("FAILURES", i, f, cause, t->n_tasks)
        INDEX("FAILURES", i, f, edge, t->n_edges)
        if (i && f->task <= t->failures[i - 1].task) {
            return bad(r, "FAILURES", i, "task", f->task, t->failures[i - 1].task);
        }
    }
    return PTO_OK;
}

static pto_status check_names(const reader *r)
{
    const ptoi_ptrace *t = r->out;
    const uint64_t strings = t->n_strings ? t->n_strings : 1;
    for (uint64_t i = 0; i < t->n_labels; i++) {
        BELOW("LABELS", i, &t->labels[i], task, t->n_tasks)
        BELOW("LABELS", i, &t->labels[i], text, strings)
        if (i && t->labels[i].task <= t->labels[i - 1].task) {
            return bad(r, "LABELS", i, "task", t->labels[i].task, t->labels[i - 1].task);
        }
    }
    for (uint64_t i = 0; i < t->n_devices; i++) {
        BELOW("DEVICES", i, &t->devices[i], arg, t->n_args)
        BELOW("DEVICES", i, &t->devices[i], name, strings)
        if (i && t->devices[i].arg <= t->devices[i - 1].arg) {
            return bad(r, "DEVICES", i, "arg", t->devices[i].arg, t->devices[i - 1].arg);
        }
    }
    for (uint64_t i = 0; i < t->n_notes; i++) {
        const ptrace_note *note = &t->notes[i];
        BELOW("NOTES", i, note, kind, (uint64_t)PTO_NOTE_KINDS)
        INDEX("NOTES", i, note, task, t->n_tasks + (note->kind == PTO_NOTE_STEP))
    }
    for (uint64_t i = 0; i < t->n_ranges; i++) {
        const ptrace_range *range = &t->ranges[i];
        BELOW("RANGES", i, range, name, strings)
        INDEX("RANGES", i, range, parent, i)
        PIECE("RANGES", i, range->first_task, "first_task + tasks", range->tasks, t->n_tasks)
    }
    return PTO_OK;
}

static pto_status read_all(reader *r)
{
    PTO_TRY(read_header(r));
    PTO_TRY(check_texts(r));
    PTO_TRY(check_edges(r));
    PTO_TRY(check_tasks(r));
    PTO_TRY(check_events(r));
    PTO_TRY(check_failures(r));
    return check_names(r);
}

/* ---- Texts ---- */

#define TEXT(name, text, words) text,
const char *const ptoi_ptrace_outcomes[] = {PTRACE_OUTCOME_MAP(TEXT)};
const char *const ptoi_ptrace_edges[] = {PTRACE_EDGE_MAP(TEXT)};
#undef TEXT

size_t ptoi_utf8_bytes(const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    size_t n = c[0] < 0x80 ? 1 : c[0] >> 5 == 6 ? 2 : c[0] >> 4 == 14 ? 3 : c[0] >> 3 == 30 ? 4 : 0;
    uint32_t code = n == 1 ? c[0] : c[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if (c[i] >> 6 != 2) { /* also true for a NUL */
            return 0;
        }
        code = code << 6 | (c[i] & 63u);
    }
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    return code < least[n] || code > 0x10ffff || code >> 11 == 27 ? 0 : n;
}

/* ---- Items of a task ---- */

const ptrace_failure *ptoi_ptrace_failure(const ptoi_ptrace *trace, uint32_t task)
{
    uint64_t low = 0, high = trace->n_failures;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (trace->failures[middle].task < task) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < trace->n_failures && trace->failures[low].task == task ? &trace->failures[low]
                                                                        : NULL;
}

const char *ptoi_ptrace_label(const ptoi_ptrace *trace, uint32_t task)
{
    uint64_t low = 0, high = trace->n_labels;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (trace->labels[middle].task < task) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < trace->n_labels && trace->labels[low].task == task
               ? ptoi_ptrace_string(trace, trace->labels[low].text)
               : "";
}

const char *ptoi_ptrace_device(const ptoi_ptrace *trace, uint32_t arg)
{
    uint64_t low = 0, high = trace->n_devices;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (trace->devices[middle].arg < arg) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < trace->n_devices && trace->devices[low].arg == arg
               ? ptoi_ptrace_string(trace, trace->devices[low].name)
               : "cpu:0";
}

/* Adds the elements that a view reaches before and after its first one. False: too many. */
static bool find_reach(const pto_tensor *t, int64_t *low, int64_t *high)
{
    *low = *high = 0;
    for (int32_t d = 0; d < t->ndim; d++) {
        int64_t reach = 0, *side;
        if (t->shape[d] < 0 ||
            (t->shape[d] > 1 && __builtin_mul_overflow(t->shape[d] - 1, t->strides[d], &reach))) {
            return false;
        }
        side = reach < 0 ? low : high;
        if (__builtin_add_overflow(*side, reach, side)) {
            return false;
        }
    }
    return *low > INT64_MIN / 64 && *high < INT64_MAX / 64; /* so that bytes can be counted */
}

bool ptoi_ptrace_tensor(const ptoi_ptrace *trace, const ptrace_arg *arg, pto_tensor *t)
{
    const int64_t size = (int64_t)pto_dtype_size((pto_dtype)arg->dtype);
    int64_t low = 0, high = 0;
    bool empty = false;
    memset(t, 0, sizeof *t);
    t->dtype = (pto_dtype)arg->dtype;
    if ((arg->access & ~PTRACE_NODEP) > PTO_PARAM_INOUT || !size) {
        return false;
    }
    t->ndim = arg->ndim;
    for (int32_t d = 0; d < t->ndim; d++) {
        t->shape[d] = trace->dims[arg->dims + (uint32_t)d];
        t->strides[d] = trace->dims[arg->dims + (uint32_t)(t->ndim + d)];
        empty |= t->shape[d] == 0;
    }
    if (empty) {
        return true; /* it has no bytes */
    }
    if (!find_reach(t, &low, &high) || arg->where > INT64_MAX / 2) {
        memset(t, 0, sizeof *t);
        t->shape[0] = 0;
        t->ndim = 1;
        return false;
    }
    if (arg->segment == PTRACE_USER) {
        t->storage = (void *)(uintptr_t)(arg->where + (uint64_t)(low * size));
        t->storage_bytes = (uint64_t)((high - low + 1) * size);
        t->offset = -low;
    } else {
        t->owner = 1;
        t->generation = arg->buffer;
        t->offset = (int64_t)arg->where / size;
        t->storage_bytes = (uint64_t)((t->offset + high + 1) * size);
    }
    return true;
}

/* ---- Files ---- */

/* Takes over `bytes`, also on failure. */
static pto_status parse(const char *name, void *bytes, size_t n_bytes, ptoi_ptrace *out)
{
    memset(out, 0, sizeof *out);
    reader r = {name, bytes, n_bytes, out};
    const pto_status status = read_all(&r);
    out->file = bytes;
    if (status != PTO_OK) {
        ptoi_ptrace_close(out);
    }
    return status;
}

pto_status ptoi_ptrace_parse(const char *name, const void *bytes, size_t n_bytes, ptoi_ptrace *out)
{
    void *copy = malloc(n_bytes + 1);
    if (!copy) {
        return pto_fail(PTO_OUT_OF_MEMORY, "%s: no memory for %zu bytes", name, n_bytes);
    }
    if (n_bytes) {
        memcpy(copy, bytes, n_bytes);
    }
    return parse(name, copy, n_bytes, out);
}

/* Whether the bytes read so far show that this is not a trace: no magic, or longer than the header
 * says. */
static bool is_hopeless(const char *bytes, size_t n_bytes)
{
    ptrace_header h;
    if (n_bytes < sizeof h) {
        return false;
    }
    memcpy(&h, bytes, sizeof h);
    return memcmp(h.magic, magic, sizeof magic) != 0 || n_bytes > h.bytes;
}

/* Reads the whole file. It is not mapped, so that it may change or vanish meanwhile. Stops early if
 * it is not a trace, since it may have no end. */
static pto_status load(const char *path, FILE *file, char **bytes, size_t *n_bytes)
{
    size_t room = 0;
    *bytes = NULL;
    *n_bytes = 0;
    for (;;) {
        if (*n_bytes == room) {
            room = room ? room * 2 : (size_t)1 << 16;
            char *larger = realloc(*bytes, room);
            if (!larger) {
                return pto_fail(PTO_OUT_OF_MEMORY, "%s: no memory for %zu bytes", path, room);
            }
            *bytes = larger;
        }
        const size_t n = fread(*bytes + *n_bytes, 1, room - *n_bytes, file);
        *n_bytes += n;
        if (n == 0 || is_hopeless(*bytes, *n_bytes)) {
            return ferror(file)
                       ? pto_fail(PTO_SYSTEM, "cannot read '%s': %s", path, strerror(errno))
                       : PTO_OK;
        }
    }
}

pto_status ptoi_ptrace_open(const char *path, ptoi_ptrace *out)
{
    char *bytes = NULL;
    size_t n_bytes = 0;
    FILE *file = fopen(path, "rbe");
    if (!file) {
        return pto_fail(PTO_SYSTEM, "cannot open '%s': %s", path, strerror(errno));
    }
    const pto_status status = load(path, file, &bytes, &n_bytes);
    fclose(file);
    if (status != PTO_OK) {
        free(bytes);
        return status;
    }
    return parse(path, bytes, n_bytes, out);
}

void ptoi_ptrace_close(ptoi_ptrace *trace)
{
    for (size_t i = 0; i < sizeof trace->copies / sizeof *trace->copies; i++) {
        free(trace->copies[i]);
    }
    free(trace->file);
    memset(trace, 0, sizeof *trace);
}
