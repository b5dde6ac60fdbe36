/* option.c - the table of all options, and how it is printed. */
#include "base/option.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "base/error.h"

#define TEXT_OF(macro) #macro
#define TEXT(macro) TEXT_OF(macro)
#define FIELD(name)                                                                                \
    .field = #name, .at = offsetof(pto_config, name), .width = sizeof(((pto_config *)0)->name)
/* A value that no runtime has: it is kept beside the config. */
#define SIM_FIELD(name)                                                                            \
    .field = "pto_sim_config." #name, .at = offsetof(ptoi_settings, sim.name),                     \
    .width = sizeof(((ptoi_settings *)0)->sim.name)
#define LEVEL_FIELD(name)                                                                          \
    FIELD(name), .kind = PTOI_OPTION_LEVELS, .level_at = offsetof(pto_config, level_##name)
#define RANGE(lowest, highest) .low = (lowest), .high = (highest)
#define POWER(n) (UINT64_C(1) << (n))

#ifdef PTO_DEBUG_CHECKS
#define GUARD PTO_GUARD_HOST /* guards on devices are copies, which count and take time there */
#else
#define GUARD 0
#endif

const ptoi_option ptoi_options[] = {
    {"PTO_LEVELS", FIELD(levels), RANGE(1, PTO_MAX_LEVELS), .otherwise = 4, .unit = "levels",
     .help = "Ring levels. Boundary scopes that nest deeper share the last one."},
    {"PTO_RING_TASKS", LEVEL_FIELD(ring_tasks), RANGE(2, POWER(22)), .round = PTOI_ROUND_POWER,
     .otherwise = 1024, .unit = "tasks",
     .help = "Size of the task ring of each level: live tasks. Rounded up to a power of two."},
    {"PTO_HEAP", LEVEL_FIELD(heap_bytes), RANGE(PTOI_OPTION_LINE, POWER(46)),
     .round = PTOI_ROUND_LINE, .reserves = true, .otherwise = POWER(28), .unit = "bytes",
     .help = "Memory for managed tensors, per level. Rounded up to a multiple of 64. It is only "
             "reserved, and costs nothing until tasks fill it. Where the address space is limited "
             "(ulimit -v), the default is at most an eighth of it for all levels."},
    {"PTO_DEPS", LEVEL_FIELD(deps), RANGE(1, POWER(26)), .round = PTOI_ROUND_POWER,
     .otherwise = 8192, .unit = "edges",
     .help = "Stored edges per level. Rounded up to a power of two."},
    {"PTO_ARGS", LEVEL_FIELD(arg_bytes), RANGE(PTOI_OPTION_LINE, POWER(36)),
     .round = PTOI_ROUND_LINE, .per_task = 256, .otherwise = POWER(18), .unit = "bytes",
     .help =
         "Arguments of live tasks, per level. Rounded up to a multiple of 64. The default is at "
         "least 256 bytes for each slot of the task ring."},
    {"PTO_MAP_ENTRIES", LEVEL_FIELD(map_entries), RANGE(1, POWER(26)), .round = PTOI_ROUND_POWER,
     .otherwise = POWER(18), .unit = "accesses",
     .help = "Most tracked reads and writes per level. Rounded up to a power of two. The map "
             "remembers as many regions of memory as all levels have of them. It begins small and "
             "grows as the program needs it: what is not used is only reserved."},
    {"PTO_BUFFERS", FIELD(buffers), RANGE(1, POWER(26)), .otherwise = 65536, .unit = "tensors",
     .help = "Managed tensors in open scopes, all levels together."},
    {"PTO_WORKERS", FIELD(workers), RANGE(0, PTO_MAX_WORKERS), .kind = PTOI_OPTION_WORKERS,
     .may_be_none = true, .unit = "threads",
     .help = "Worker threads: a number of threads that serve all types, or a list of types, each "
             "with an optional count after a colon. The default is the number of cores - 1, at "
             "least 1."},
    {"PTO_CALLER", FIELD(caller_types), .kind = PTOI_OPTION_TYPES, .otherwise = PTO_ALL_TYPES,
     .help = "Types that the orchestrating thread runs: while it waits, and short tasks while it "
             "submits."},
    {"PTO_SCHEDULER", FIELD(place), .kind = PTOI_OPTION_PLACE, .otherwise = PTO_PLACE_INLINE,
     .help = "Who does the scheduler's work: the threads that submit and complete tasks (inline), "
             "a dedicated thread, worker processes (process), or the default device (gpu; see "
             "pto/gpu.h)."},
    {"PTO_SPIN", FIELD(spin), RANGE(0, POWER(31)), .may_be_none = true, .otherwise = 512,
     .unit = "polls", .help = "Polls for work before a thread goes to sleep."},
    {"PTO_INLINE_NS", FIELD(inline_ns), RANGE(0, POWER(30)), .may_be_none = true, .otherwise = 50,
     .unit = "ns",
     .help =
         "A kernel that takes less is short. Submit runs a short kernel itself if its dependencies "
         "are complete and PTO_CALLER includes its type. Kernels of up to 40 times this length are "
         "run so, or not, as trials show what is faster."},
    {"PTO_OVERLAP_BUDGET", FIELD(overlap_budget), RANGE(0, UINT64_MAX), .otherwise = 0,
     .unit = "steps",
     .help = "Search steps for one overlap test. If they do not suffice, the regions count as "
             "overlapping. 0 means the default, " TEXT(PTO_OVERLAP_BUDGET) "."},
    {"PTO_TRACE", FIELD(trace), .kind = PTOI_OPTION_TRACE,
     .help =
         "Records the run into this file. The extension selects the format (see pto/trace.h). %p "
         "becomes the process id."},
    {"PTO_TRACE_LIMIT", FIELD(trace_limit), RANGE(1, POWER(26)), .otherwise = POWER(20),
     .unit = "tasks",
     .help = "Most tasks to record, about 150 bytes each. Later tasks are counted as lost."},
    {"PTO_FIRST_TASK", FIELD(first_task), RANGE(0, POWER(59)), .otherwise = 0, .unit = "tasks",
     .help = "For tests: first value of the task and edge counters."},
    {"PTO_MAP_TWICE", FIELD(map_twice), RANGE(0, 1), .otherwise = 0,
     .help = "For tests: 1 maps the window a second time, for the scheduler."},
    {"PTO_GUARD", FIELD(guard), RANGE(0, PTO_GUARD_HOST), .may_be_none = true, .otherwise = GUARD,
     .help =
         "1 puts guard bytes around managed tensors. A kernel that writes beyond its tensor fails, "
         "and the error names it. Heaps take three times the memory then, on devices too, and "
         "tasks "
         "on devices run one behind the other where they depend on each other. 2: only around "
         "tensors on the host."},
    {"PTO_PROCESS_THREADS", FIELD(process_threads), RANGE(1, PTO_MAX_WORKERS), .otherwise = 1,
     .unit = "threads",
     .help = "With PTO_SCHEDULER=process: worker threads in each worker process. If one of them "
             "crashes, the tasks of its process fail."},
    {"PTO_GRACE_MS", FIELD(grace_ms), RANGE(0, POWER(30)), .otherwise = 0, .unit = "ms",
     .help = "With PTO_SCHEDULER=process: a kernel that still runs this long after pto_cancel is "
             "ended, with its worker process. 0 means never."},
    {"PTO_SHARED", FIELD(shared_bytes), RANGE(PTOI_OPTION_LINE, POWER(46)),
     .round = PTOI_ROUND_LINE, .otherwise = POWER(36), .unit = "bytes",
     .help = "Memory that pto_shared_alloc can give out. Rounded up to a multiple of 64. It is "
             "only reserved, and costs nothing "
             "until it is used."},
    {"PTO_ATTACH", FIELD(attach), .kind = PTOI_OPTION_NAME,
     .help = "With PTO_SCHEDULER=process: workers may attach from outside under this name (pto "
             "worker --attach NAME)."},
    {"PTO_CRASH_REPORT", FIELD(crash_report), RANGE(0, 1), .may_be_none = true, .otherwise = 1,
     .help = "1 names kernel, task and submit site on stderr if a signal like SIGSEGV kills the "
             "process in a kernel. Handlers of the program are left alone."},
    {"PTO_DEVICE", FIELD(device), .kind = PTOI_OPTION_DEVICE,
     .help = "The default device of a runtime: where managed tensors get their memory."},
    {"PTO_DEVICE_HEAP", FIELD(device_heap_bytes), RANGE(PTOI_OPTION_LINE, POWER(46)),
     .round = PTOI_ROUND_LINE, .otherwise = POWER(26), .unit = "bytes",
     .help = "Memory for managed tensors on each device but the host, per level. It is allocated "
             "there when a task first needs it."},
    {"PTO_GPU_IDLE_US", FIELD(gpu_idle_us), RANGE(1, POWER(31)), .otherwise = 1000, .unit = "us",
     .help =
         "With PTO_SCHEDULER=gpu: the grid leaves the device when it had nothing to do for this "
         "long. It comes back with the next task."},
    {"PTO_GPU_WORKERS", FIELD(gpu_workers), RANGE(0, PTOI_GRID_WORKERS), .otherwise = 0,
     .unit = "blocks",
     .help = "With PTO_SCHEDULER=gpu: most blocks that run kernels. 0 means as many as fit on the "
             "device."},
    {"PTO_GPU_CUBE_WORKERS", FIELD(gpu_cube_workers), RANGE(0, PTOI_GRID_WORKERS), .otherwise = 0,
     .unit = "blocks",
     .help = "With PTO_SCHEDULER=gpu: of these blocks, so many run cube tasks only, and the others "
             "vector tasks only. 0 means that every block runs both."},
    {"PTO_PIN", FIELD(pin), .kind = PTOI_OPTION_PIN, .otherwise = PTO_PIN_OFF,
     .help =
         "Keeps each worker thread on one core: whole cores first, near the thread that creates "
         "the runtime. auto does so only if the process has cores of its own and more of them "
         "than workers; cores does so always. The orchestrating thread is never pinned."},
    {"PTO_SIM_MEMORY", SIM_FIELD(memory), RANGE(POWER(12), POWER(40)), .round = PTOI_ROUND_LINE,
     .otherwise = POWER(30), .unit = "bytes",
     .help = "Memory of a simulated device (sim:0 ...). It costs nothing until it is used."},
    {"PTO_SIM_BANDWIDTH", SIM_FIELD(bandwidth), RANGE(0, POWER(50)), .may_be_none = true,
     .otherwise = 0, .unit = "bytes a second",
     .help = "How fast the copy engine of a simulated device is. none: as fast as the host."},
    {"PTO_SIM_LATENCY_NS", SIM_FIELD(latency_ns), RANGE(0, POWER(36)), .may_be_none = true,
     .otherwise = 0, .unit = "ns", .help = "Latency of each copy of a simulated device."},
    {"PTO_SIM_WORKERS", SIM_FIELD(workers), RANGE(1, 16), .otherwise = 1, .unit = "threads",
     .help = "Threads of a simulated device for CUBE kernels, and as many for VECTOR kernels."},
};
_Static_assert(offsetof(ptoi_settings, config) == 0, "offsets in the config are offsets here");
const size_t ptoi_n_options = sizeof ptoi_options / sizeof *ptoi_options;

const char *const ptoi_type_names[PTO_WORKER_TYPES] = {
#define TYPE_NAME(name, value, text) [value] = (text),
    PTO_WORKER_MAP(TYPE_NAME)
#undef TYPE_NAME
};

const char *const ptoi_place_names[PTOI_PLACES] = {
    [PTO_PLACE_INLINE] = "inline",
    [PTO_PLACE_THREAD] = "thread",
    [PTO_PLACE_PROCESS] = "process",
    [PTO_PLACE_GPU] = "gpu",
};

const char *const ptoi_pin_names[PTOI_PINS] = {
    [PTO_PIN_OFF] = "off",
    [PTO_PIN_AUTO] = "auto",
    [PTO_PIN_CORES] = "cores",
};

const char *ptoi_option_variable(const ptoi_option *o)
{
    const char *value = getenv(o->variable);
    return value && *value ? value : NULL;
}

/* ---- Values as text ------------------------------------------------------------------------ */

void ptoi_text_add(ptoi_text *t, const char *format, ...)
{
    static const char cut[] = "...";
    const size_t room = sizeof t->s - t->length;
    va_list args;
    va_start(args, format);
    const int more = vsnprintf(t->s + t->length, room, format, args);
    va_end(args);
    if (more >= 0 && (size_t)more < room) {
        t->length += (size_t)more;
    } else {
        memcpy(t->s + sizeof t->s - sizeof cut, cut, sizeof cut);
        t->length = sizeof t->s - 1;
    }
}

static void add_number(ptoi_text *t, const ptoi_option *o, uint64_t value)
{
    static const char *const units[] = {"", "k", "m", "g", "t"};
    const size_t last = sizeof units / sizeof *units - 1;
    size_t unit = 0;
    if (o->round == PTOI_ROUND_LINE) {
        for (; value && value % 1024 == 0 && unit < last; unit++) {
            value /= 1024;
        }
    }
    ptoi_text_add(t, "%" PRIu64 "%s", value, units[unit]);
}

static void add_types(ptoi_text *t, uint32_t types)
{
    const char *plus = "";
    if (!types || types == PTO_ALL_TYPES) {
        ptoi_text_add(t, "%s", types ? "all" : "none");
        return;
    }
    for (unsigned type = 0; type < PTO_WORKER_TYPES; type++) {
        if (types & PTO_TYPE_BIT(type)) {
            ptoi_text_add(t, "%s%s", plus, ptoi_type_names[type]);
            plus = "+";
        }
    }
}

static void add_workers(ptoi_text *t, const ptoi_settings *s)
{
    uint32_t of_all = 0;
    while (of_all < s->n_started && s->worker_types[of_all] == PTO_ALL_TYPES) {
        of_all++;
    }
    if (!s->n_started) {
        ptoi_text_add(t, "none");
        return;
    }
    if (of_all == s->n_started) {
        ptoi_text_add(t, "%" PRIu32, of_all);
        return;
    }
    for (uint32_t first = 0, next; first < s->n_started; first = next) {
        for (next = first + 1; next < s->n_started; next++) {
            if (s->worker_types[next] != s->worker_types[first]) {
                break;
            }
        }
        ptoi_text_add(t, "%s", first ? "," : "");
        add_types(t, s->worker_types[first]);
        if (next - first > 1) {
            ptoi_text_add(t, ":%" PRIu32, next - first);
        }
    }
}

/* As a list by level, without repeated values at its end. */
static void add_levels(ptoi_text *t, const ptoi_option *o, const pto_config *config)
{
    uint64_t values[PTO_MAX_LEVELS];
    uint32_t n = config->levels;
    for (uint32_t level = 0; level < n; level++) {
        values[level] = ptoi_option_get(o, config, ptoi_option_level_at(o, level));
    }
    while (n > 1 && values[n - 1] == values[n - 2]) {
        n--;
    }
    for (uint32_t level = 0; level < n; level++) {
        ptoi_text_add(t, "%s", level ? "," : "");
        add_number(t, o, values[level]);
    }
}

/* The value in effect, in the syntax of the variable. */
static ptoi_text decided(const ptoi_option *o, const ptoi_settings *s)
{
    ptoi_text t = {.length = 0};
    switch (o->kind) {
    case PTOI_OPTION_NUMBER:
        if (o->may_be_none && !ptoi_option_get(o, &s->config, o->at)) {
            ptoi_text_add(&t, "none");
        } else {
            add_number(&t, o, ptoi_option_get(o, &s->config, o->at));
        }
        break;
    case PTOI_OPTION_LEVELS:
        add_levels(&t, o, &s->config);
        break;
    case PTOI_OPTION_WORKERS:
        add_workers(&t, s);
        break;
    case PTOI_OPTION_TYPES:
        add_types(&t, s->caller_types);
        break;
    case PTOI_OPTION_PLACE:
        ptoi_text_add(&t, "%s", ptoi_place_names[s->config.place]);
        break;
    case PTOI_OPTION_PIN:
        ptoi_text_add(&t, "%s", ptoi_pin_names[s->config.pin]);
        break;
    case PTOI_OPTION_TRACE:
        ptoi_text_add(&t, "%s", s->config.trace ? s->config.trace : "none");
        break;
    case PTOI_OPTION_DEVICE:
        ptoi_text_add(&t, "%s:%" PRId32, pto_device_name(s->config.device.type),
                      s->config.device.index);
        break;
    case PTOI_OPTION_NAME:
        ptoi_text_add(&t, "%s", s->config.attach ? s->config.attach : "none");
        break;
    }
    return t;
}

ptoi_text ptoi_option_takes(const ptoi_option *o)
{
    ptoi_text t = {.length = 0};
    if (o->high) {
        add_number(&t, o, o->low);
        ptoi_text_add(&t, " .. ");
        add_number(&t, o, o->high);
        ptoi_text_add(&t, "%s%s", o->unit ? " " : "", o->unit ? o->unit : "");
    }
    switch (o->kind) {
    case PTOI_OPTION_NUMBER:
        ptoi_text_add(&t, "%s", o->may_be_none ? ", or none" : "");
        break;
    case PTOI_OPTION_LEVELS:
        ptoi_text_add(&t, ", for all levels or a list by level");
        break;
    case PTOI_OPTION_WORKERS:
        ptoi_text_add(&t, ", none, or a list like cube:2,vector+ai_cpu");
        break;
    case PTOI_OPTION_TYPES:
        ptoi_text_add(&t, "all, none, or some of");
        for (unsigned type = 0; type < PTO_WORKER_TYPES; type++) {
            ptoi_text_add(&t, "%s%s", type ? "+" : " ", ptoi_type_names[type]);
        }
        break;
    case PTOI_OPTION_PLACE:
        for (unsigned place = PTO_PLACE_INLINE; place < PTOI_PLACES; place++) {
            ptoi_text_add(&t, "%s%s", place > PTO_PLACE_INLINE ? " or " : "",
                          ptoi_place_names[place]);
        }
        break;
    case PTOI_OPTION_PIN:
        for (unsigned pin = PTO_PIN_OFF; pin < PTOI_PINS; pin++) {
            ptoi_text_add(&t, "%s%s", pin > PTO_PIN_OFF ? " or " : "", ptoi_pin_names[pin]);
        }
        break;
    case PTOI_OPTION_TRACE:
        ptoi_text_add(&t, "none, or a file that ends in .html, .json, .dot or .ptrace");
        break;
    case PTOI_OPTION_DEVICE:
        ptoi_text_add(&t, "a device like cpu:0 or sim:0 (see pto info)");
        break;
    case PTOI_OPTION_NAME:
        ptoi_text_add(&t, "none, or a name of 1 to 63 letters, digits, '.', '-' and '_'");
        break;
    }
    return t;
}

/* ---- Printing ------------------------------------------------------------------------------ */

enum { COLUMNS = 100, INDENT = 22, VALUE = 12 };

/* Prints text from column INDENT on. Lines are broken between words; a word that does not fit on a
 * line is broken, too. */
static void print_words(FILE *out, const char *words)
{
    int column = INDENT;
    while (*words) {
        int length = (int)strcspn(words, " ");
        length = length < COLUMNS - INDENT ? length : COLUMNS - INDENT;
        if (column > INDENT && column + 1 + length > COLUMNS) {
            fprintf(out, "\n%*s", INDENT, "");
            column = INDENT;
        }
        column += fprintf(out, "%s%.*s", column > INDENT ? " " : "", length, words);
        words += length;
        words += *words == ' ';
    }
    fputc('\n', out);
}

static void print_option(FILE *out, const ptoi_option *o, const ptoi_settings *now,
                         const ptoi_settings *plain)
{
    const ptoi_text value = decided(o, now);
    fprintf(out, "  %-*s ", INDENT - 3, o->variable); /* a long name moves what follows */
    if (value.length > VALUE) {
        fprintf(out, "%s\n%*s", value.s, INDENT, "");
    } else {
        fprintf(out, "%-*s  ", VALUE, value.s);
    }
    fprintf(out, "%s\n%*s", ptoi_option_takes(o).s, INDENT, "");
    print_words(out, o->help);
    if (now != plain && ptoi_option_variable(o)) {
        fprintf(out, "%*sSet in the environment; default %s.\n", INDENT, "", decided(o, plain).s);
    }
}

static void print_unknown(FILE *out)
{
    ptoi_text name;
    const char *meant;
    const char *before = "\nSet in the environment, and no options:\n";
    for (ptoi_unknown u = {.at = 0}; ptoi_option_unknown(&u, &name, &meant); before = "") {
        fprintf(out, "%s  %s%s%s%s\n", before, name.s, meant ? ": did you mean " : "",
                meant ? meant : "", meant ? "?" : "");
    }
}

void pto_options_print(FILE *out)
{
    ptoi_settings plain;
    ptoi_settings set;
    const ptoi_settings *now = &plain;
    if (!out || ptoi_config_resolve_from(NULL, false, &plain) != PTO_OK) {
        return; /* no file; the defaults are always valid */
    }
    if (ptoi_config_resolve_from(NULL, true, &set) == PTO_OK) {
        now = &set;
    }
    fprintf(out, "Options of PTO Runtime: variable, current value, range, meaning. A field of "
                 "pto_config overrides\nits variable. The suffixes k, m, g and t multiply by 1024, "
                 "1024^2, 1024^3 and 1024^4. In a list by\nlevel, the last value applies to all "
                 "remaining levels.\n\n");
    for (size_t i = 0; i < ptoi_n_options; i++) {
        print_option(out, &ptoi_options[i], now, &plain);
    }
    if (now == &plain) {
        fprintf(out, "\nThe environment has an error, so the defaults are shown:\n%*s", INDENT, "");
        print_words(out, pto_error_detail());
    }
    print_unknown(out);
}

/* Names all unknown variables that a detail has room for, and counts the others. */
static pto_status refuse_unknown(void)
{
    enum { ROOM = 440 };
    char all[ROOM] = "";
    size_t length = 0, more = 0;
    ptoi_text name;
    const char *meant, *between = "";
    for (ptoi_unknown u = {.at = 0}; ptoi_option_unknown(&u, &name, &meant);) {
        const char *value = getenv(name.s); /* NULL if the name is so long that it was cut */
        const int bytes = snprintf(all + length, ROOM - length, "%s%s=%.40s is no option%s%s%s",
                                   between, name.s, value ? value : "",
                                   meant ? ": did you mean " : "", meant ? meant : "",
                                   meant ? "?" : "");
        if (bytes < 0 || (size_t)bytes >= ROOM - length) {
            all[length] = '\0';
            more++;
            continue;
        }
        length += (size_t)bytes;
        between = meant ? " " : "; ";
    }
    if (!length) {
        return PTO_OK;
    }
    char rest[40] = "";
    if (more) {
        snprintf(rest, sizeof rest, " (and %zu more)", more);
    }
    return ptoi_fail(PTO_UNKNOWN_OPTION, "options: %s%s", all, rest);
}

pto_status pto_options_list(pto_option *options, size_t most, size_t *count)
{
    ptoi_settings plain;
    ptoi_settings set;
    if ((!options && most) || !count) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "options: %s is NULL", count ? "options" : "count");
    }
    pto_status status = ptoi_config_resolve_from(NULL, false, &plain);
    if (status != PTO_OK) {
        return status;
    }
    status = ptoi_config_resolve_from(NULL, true, &set);
    const ptoi_settings *now = status == PTO_OK ? &set : &plain;
    *count = ptoi_n_options;
    for (size_t i = 0; i < ptoi_n_options && i < most; i++) {
        const ptoi_option *o = &ptoi_options[i];
        options[i] = (pto_option){.variable = o->variable,
                                  .field = o->field,
                                  .help = o->help,
                                  .from_environment = now == &set && ptoi_option_variable(o)};
        memcpy(options[i].value, decided(o, now).s, sizeof options[i].value);
        memcpy(options[i].otherwise, decided(o, &plain).s, sizeof options[i].otherwise);
    }
    return status == PTO_OK ? refuse_unknown() : status;
}
