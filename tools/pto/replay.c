/* replay.c - `pto replay`: how long would a recorded run take on another machine, and how small
 * could its rings be? */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "arguments.h"
#include "commands.h"
#include "json_write.h"
#include "replay.h"
#include "rings.h"
#include "words.h"

static const char who[] = "pto replay";

enum {
    MOST_ROWS = 32,
    MOST_WORKERS = 1024,
    ENOUGH = 100, /* ignore improvements of less than 1 / ENOUGH */
};

typedef struct row {
    replay_machine machine;
    bool recorded;
    uint32_t each; /* workers of each kind; 0: given by type */
    replay_result result;
} row;

typedef struct answer {
    const char *path;
    const ptoi_ptrace *trace;
    replay_plan plan;
    row rows[MOST_ROWS + 1]; /* the first row is the recorded machine */
    size_t n_rows;
    bool with_rings;
    replay_sizes sizes;
} answer;

/* ---- Progress ---- */

static double began;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void show_progress(uint64_t done, uint64_t all)
{
    if (now() - began > 0.5) {
        fprintf(stderr, "\r\033[Kreplay %3.0f %%", 100.0 * (double)done / (double)all);
        fflush(stderr);
    }
}

static void hide_progress(void)
{
    if (replay_progress) {
        fputs("\r\033[K", stderr);
    }
}

/* ---- Machines ---- */

static uint32_t count_workers(const replay_machine *m)
{
    uint32_t count = 0;
    for (uint32_t k = 0; k < REPLAY_KINDS; k++) {
        count += m->workers[k];
    }
    return count;
}

/* "vector+cube" or "all types". */
static words name_kind(uint32_t types)
{
    words w = {""};
    size_t n = 0;
    if (types == PTO_ALL_TYPES) {
        snprintf(w.s, sizeof w.s, "all types");
        return w;
    }
    for (uint32_t t = 0; t < PTO_WORKER_TYPES && n < sizeof w.s; t++) {
        if (types >> t & 1) {
            n += (size_t)snprintf(w.s + n, sizeof w.s - n, "%s%s", n ? "+" : "",
                                  pto_worker_type_name((pto_worker_type)t));
        }
    }
    return w;
}

/* A machine with `each` workers of each recorded kind; if none was recorded, of one kind that
 * serves all types. */
static void machine_of(const replay_machine *recorded, uint32_t each, replay_machine *m)
{
    *m = *recorded;
    bool any = false;
    for (uint32_t k = 1; k < REPLAY_KINDS; k++) {
        m->workers[k] = recorded->workers[k] ? each : 0;
        any |= recorded->workers[k] != 0;
    }
    if (!any) {
        m->workers[PTO_ALL_TYPES] = each;
    }
}

static bool bad_workers(const char *text, size_t length)
{
    fprintf(stderr,
            "%s: --workers takes numbers from 0 to %d, or TYPE=NUMBER+TYPE=NUMBER, separated by "
            "commas; not '%.*s'\n",
            who, MOST_WORKERS, (int)length, text);
    return false;
}

static bool read_number(const char *text, size_t length, uint32_t *number)
{
    char digits[16];
    int64_t value = 0;
    if (length == 0 || length >= sizeof digits || strspn(text, "0123456789") < length) {
        return false;
    }
    memcpy(digits, text, length);
    digits[length] = '\0';
    const bool good = words_number(digits, 0, MOST_WORKERS, &value);
    *number = (uint32_t)value;
    return good;
}

/* cube=2+vector=1 */
static bool read_kinds(const char *text, size_t length, replay_machine *m)
{
    memset(m->workers, 0, sizeof m->workers);
    for (size_t at = 0; at < length;) {
        const char *part = text + at;
        const size_t part_length = strcspn(part, "+") < length - at ? strcspn(part, "+")
                                                                    : length - at;
        const size_t name = strcspn(part, "=");
        uint32_t count = 0, type = 0;
        while (type < PTO_WORKER_TYPES &&
               (strlen(pto_worker_type_name((pto_worker_type)type)) != name ||
                strncmp(pto_worker_type_name((pto_worker_type)type), part, name) != 0)) {
            type++;
        }
        if (name >= part_length || type == PTO_WORKER_TYPES ||
            !read_number(part + name + 1, part_length - name - 1, &count)) {
            return false;
        }
        m->workers[1u << type] = count;
        at += part_length + 1;
    }
    return length > 0 && text[length - 1] != '+';
}

static bool read_workers(answer *a, const char *text)
{
    for (size_t length;; text += length + 1) {
        row *r = &a->rows[a->n_rows];
        length = strcspn(text, ",");
        if (a->n_rows == MOST_ROWS) {
            fprintf(stderr, "%s: --workers takes at most %d machines\n", who, MOST_ROWS - 1);
            return false;
        }
        *r = (row){.machine = a->rows[0].machine};
        uint32_t each = 0;
        if (read_number(text, length, &each)) {
            machine_of(&a->rows[0].machine, each, &r->machine);
            r->each = each;
        } else if (!read_kinds(text, length, &r->machine)) {
            return bad_workers(text, length);
        }
        a->n_rows++;
        if (text[length] == '\0') {
            return true;
        }
    }
}

/* Doubles the number of workers until that does not help. */
static void try_workers(answer *a)
{
    uint64_t last = UINT64_MAX;
    for (uint32_t each = 1; each <= MOST_WORKERS; each *= 2) {
        row *r = &a->rows[a->n_rows++];
        *r = (row){.each = each};
        machine_of(&a->rows[0].machine, each, &r->machine);
        replay_run(&a->plan, &r->machine, NULL, &r->result);
        const uint64_t makespan = r->result.makespan;
        if (r->result.end != REPLAY_DONE || last - makespan < last / ENOUGH || makespan > last) {
            return;
        }
        last = makespan;
    }
}

/* ---- Text ---- */

static words time_of(uint64_t ns)
{
    return words_time((double)ns * 1e-9);
}

static double ratio(uint64_t a, uint64_t b)
{
    return b ? (double)a / (double)b : 0;
}

static uint32_t threads_of(const replay_machine *m)
{
    return count_workers(m) + (m->caller != 0);
}

/* What limits the makespan: a lower bound if it is close, else rings or dependencies. */
static const char *limit_of(const answer *a, const row *r)
{
    const uint64_t share = a->plan.work / (threads_of(&r->machine) ? threads_of(&r->machine) : 1);
    const replay_plan *p = &a->plan;
    uint64_t bound = share;
    const char *name = "workers";
    if (p->submitting > bound) {
        bound = p->submitting;
        name = "submitting";
    }
    if (p->critical > bound) {
        bound = p->critical;
        name = "the critical path";
    }
    if (bound > r->result.makespan || r->result.makespan - bound <= bound / 10) {
        return name;
    }
    return r->result.waited > r->result.makespan / 10 ? "room in rings" : "dependencies";
}

static void print_stall(const answer *a, const replay_result *r)
{
    if (r->end == REPLAY_NO_MEMORY) {
        printf("out of memory\n");
        return;
    }
    if (r->end == REPLAY_NO_WORKER) {
        printf("no worker for task %" PRIu32 " (", r->node);
    } else {
        printf("deadlock: no room in the %s of level %" PRIu32 " for ",
               ring_words_of[r->ring].trace, r->level);
        if (r->node >= a->plan.n_tasks) {
            printf("a block of memory\n");
            return;
        }
        printf("task %" PRIu32 " (", r->node);
    }
    if (a->trace->n_tasks) {
        trace_print_task(stdout, a->trace, r->node);
    }
    printf(")\n");
}

static void print_machine(const row *r)
{
    char text[160];
    size_t n = 0;
    if (r->each) {
        snprintf(text, sizeof text, "%" PRIu32, r->each);
    } else {
        text[0] = '\0';
        for (uint32_t k = 1; k < REPLAY_KINDS; k++) {
            if (r->machine.workers[k] && n < sizeof text) {
                n += (size_t)snprintf(text + n, sizeof text - n, "%s%" PRIu32 " %s", n ? ", " : "",
                                      r->machine.workers[k], name_kind(k).s);
            }
        }
        if (!n) {
            snprintf(text, sizeof text, "0");
        }
    }
    printf("  %-20s%s", text, strlen(text) > 20 ? "\n                      " : "");
}

static void print_row(const answer *a, const row *r)
{
    const replay_result *s = &r->result;
    print_machine(r);
    if (s->end != REPLAY_DONE) {
        putchar(' ');
        print_stall(a, s);
        return;
    }
    const uint32_t threads = threads_of(&r->machine);
    printf(" %10s %8.2f %10.2f %9.0f %%   %s%s\n", time_of(s->makespan).s,
           ratio(a->rows[0].result.makespan, s->makespan),
           threads ? ratio(a->plan.work, s->makespan) / threads : 0,
           100 * ratio(s->waited, s->makespan), limit_of(a, r), r->recorded ? ", as recorded" : "");
}

static void print_model(const answer *a)
{
    const replay_plan *p = &a->plan;
    const replay_result *r = &a->rows[0].result;
    printf("tasks      %" PRIu32 " with %" PRIu64 " edge%s", p->n_tasks, a->trace->n_edges,
           a->trace->n_edges == 1 ? "" : "s");
    if (p->n_nodes > p->n_tasks) {
        printf(", %" PRIu32 " memory blocks without a task", p->n_nodes - p->n_tasks);
    }
    printf("\nrecorded   %s, from the first submit to the end of the last task\n",
           time_of(p->recorded).s);
    printf("replayed   ");
    if (r->end == REPLAY_DONE) {
        printf("%s on the same workers and rings: %+.1f %%\n", time_of(r->makespan).s,
               p->recorded ? 100 * (ratio(r->makespan, p->recorded) - 1) : 0);
    } else {
        print_stall(a, r);
    }
    printf("bounds     critical path %s, submitting %s, kernels %s in total\n",
           time_of(p->critical).s, time_of(p->submitting).s, time_of(p->work).s);
    printf("overhead   %s between two tasks of a worker, %s to find a task, %s to wake up\n",
           time_of(p->next_ns).s, time_of(p->find_ns).s, time_of(p->wake_ns).s);
    if (a->trace->lost || p->open) {
        printf("missing    %" PRIu64 " lost records, %" PRIu32
               " unfinished tasks: times and sizes are underestimated\n",
               a->trace->lost, p->open);
    }
}

static void print_no_tasks(const answer *a)
{
    printf("no tasks: nothing to replay\n");
    if (a->trace->lost) {
        printf("missing    %" PRIu64 " lost records\n", a->trace->lost);
    }
}

static void print_workers(const answer *a)
{
    uint32_t kinds = 0;
    for (uint32_t k = 1; k < REPLAY_KINDS; k++) {
        kinds += a->rows[0].machine.workers[k] != 0;
    }
    printf("\nworkers%s           makespan  speedup efficiency  room waits   limited by\n",
           kinds > 1 ? ", each" : "      ");
    for (size_t i = 0; i < a->n_rows; i++) {
        print_row(a, &a->rows[i]);
    }
}

static words size_text(uint32_t ring, uint64_t size)
{
    return size ? ring_amount(ring, size) : (words){"-"};
}

static bool never_stalls(uint32_t ring)
{
    return ring == PTO_RING_DEPS || ring == PTO_RING_MAP;
}

/* Where blocks lie depends on when tasks complete. Blocks of different sizes may leave gaps that
 * did not appear in any simulated run, so this adds room for two more of the largest block. */
static uint64_t heap_margin(const replay_plan *plan, uint32_t level)
{
    uint64_t largest = 0, smallest = UINT64_MAX;
    for (uint32_t i = 0; i < plan->n_level[level]; i++) {
        const uint64_t bytes = plan->nodes[plan->level[level][i]].heap;
        largest = bytes > largest ? bytes : largest;
        smallest = bytes && bytes < smallest ? bytes : smallest;
    }
    return largest > smallest ? 2 * largest : 0;
}

/* The heap that is printed for a size that was found. */
static uint64_t heap_setting(const answer *a, uint32_t level, uint64_t size)
{
    return (size ? size : replay_smallest(PTO_RING_HEAP)) + heap_margin(&a->plan, level);
}

/* Says whether the heaps of the settings are proven, or enough in all runs that were tried. */
static void print_proof(const answer *a, const replay_rings *rings)
{
    for (uint32_t l = 0; l < PTO_MAX_LEVELS; l++) {
        const uint64_t proven = a->sizes.proven_heap[l];
        if (!a->plan.n_level[l] ||
            (proven && heap_setting(a, l, rings->size[l][PTO_RING_HEAP]) >= proven)) {
            continue;
        }
        printf("           the heap of level %" PRIu32
               " is a guess: it was enough in every order of "
               "recycling that was tried",
               l);
        printf(proven ? "; %s is proven\n" : "%s\n", proven ? words_option((int64_t)proven).s : "");
    }
}

/* Prints the settings as environment variables, for all levels up to the last used one. Unused
 * levels keep the recorded size. */
static void print_settings(const answer *a, const replay_rings *rings, bool all)
{
    const replay_rings *had = &a->rows[0].machine.rings;
    uint32_t levels = 0;
    for (uint32_t l = 0; l < PTO_MAX_LEVELS; l++) {
        levels = a->plan.n_level[l] ? l + 1 : levels;
    }
    printf("           ");
    for (uint32_t r = 0; r < PTO_RINGS; r++) {
        if (!all && never_stalls(r)) {
            continue;
        }
        printf("%s%s=", r ? " " : "", ring_words_of[r].variable);
        for (uint32_t l = 0; l < levels; l++) {
            uint64_t size = a->plan.n_level[l] ? rings->size[l][r] : had->size[l][r];
            size = r == PTO_RING_HEAP ? heap_setting(a, l, size) : size ? size : replay_smallest(r);
            printf("%s%s", l ? "," : "", words_option((int64_t)size).s);
        }
    }
    putchar('\n');
}

static void print_together(const answer *a, const char *name, const replay_result *r)
{
    printf("%-10s ", name);
    if (r->end != REPLAY_DONE) {
        print_stall(a, r);
        return;
    }
    uint64_t waits = 0;
    for (uint32_t l = 0; l < PTO_MAX_LEVELS; l++) {
        for (uint32_t i = 0; i < PTO_RINGS; i++) {
            waits += r->waits[l][i];
        }
    }
    printf("%s with all of these sizes, %" PRIu64 " submit%s\n", time_of(r->makespan).s, waits,
           waits == 1 ? " waits" : "s wait");
}

static void print_rings(const answer *a)
{
    uint64_t seen[PTO_MAX_LEVELS][PTO_RINGS] = {{0}};
    for (uint64_t i = 0; i < a->trace->n_rings; i++) {
        const ptrace_ring_sample *s = &a->trace->rings[i];
        uint64_t *most = &seen[s->level][s->ring];
        *most = s->used > *most ? s->used : *most;
    }
    printf("\nring                  recorded       peak   replayed   no waits   no slower     "
           "minimum\n");
    for (uint32_t l = 0; l < PTO_MAX_LEVELS; l++) {
        for (uint32_t r = 0; a->plan.n_level[l] && r < PTO_RINGS; r++) {
            printf("  %-5s of level %" PRIu32 " %12s %10s %10s %10s %11s %11s\n",
                   ring_words_of[r].trace, l, size_text(r, a->rows[0].machine.rings.size[l][r]).s,
                   size_text(r, seen[l][r]).s, size_text(r, a->rows[0].result.most[l][r]).s,
                   size_text(r, a->sizes.free.size[l][r]).s,
                   size_text(r, a->sizes.good.size[l][r]).s,
                   never_stalls(r) ? "any" : size_text(r, a->sizes.least.size[l][r]).s);
        }
    }
    putchar('\n');
    print_together(a, "no waits", &a->sizes.with_free);
    print_settings(a, &a->sizes.free, true);
    print_together(a, "no slower", &a->sizes.with_good);
    print_settings(a, &a->sizes.good, true);
    print_together(a, "minimum", &a->sizes.with_least);
    print_settings(a, &a->sizes.least, false);
    print_proof(a, &a->sizes.least);
    if (!a->trace->n_lives) {
        printf("scopes     the trace has none; if the program uses scopes, the minimum of the heap "
               "is too small\n");
    }
}

/* ---- JSON ---- */

static void write_result(const char *key, const replay_result *r)
{
    static const char *const ends[] = {"done", "stalled", "no worker", "no memory"};
    json_begin(key, '{');
    json_text("end", ends[r->end]);
    if (r->end == REPLAY_STALLED) {
        json_text("ring", ring_words_of[r->ring].trace);
        json_count("level", r->level);
    }
    if (r->end == REPLAY_STALLED || r->end == REPLAY_NO_WORKER) {
        json_count("task", r->node);
    }
    json_count("makespan_ns", r->makespan);
    json_count("waited_ns", r->waited);
    json_finish('}');
}

static void write_row(const answer *a, const row *r)
{
    const uint32_t threads = threads_of(&r->machine);
    json_begin(NULL, '{');
    json_truth("recorded", r->recorded);
    json_begin("workers", '[');
    for (uint32_t k = 1; k < REPLAY_KINDS; k++) {
        if (r->machine.workers[k]) {
            json_begin(NULL, '{');
            json_text("types", name_kind(k).s);
            json_count("count", r->machine.workers[k]);
            json_finish('}');
        }
    }
    json_finish(']');
    write_result("result", &r->result);
    if (r->result.end == REPLAY_DONE) {
        json_number("speedup", ratio(a->rows[0].result.makespan, r->result.makespan));
        json_number("efficiency",
                    ratio(a->plan.work, r->result.makespan) / (threads ? threads : 1));
        json_text("held_back_by", limit_of(a, r));
    }
    json_finish('}');
}

static void write_rings(const answer *a)
{
    json_begin("rings", '[');
    for (uint32_t l = 0; l < PTO_MAX_LEVELS; l++) {
        for (uint32_t r = 0; a->plan.n_level[l] && r < PTO_RINGS; r++) {
            json_begin(NULL, '{');
            json_text("ring", ring_words_of[r].trace);
            json_count("level", l);
            json_count("recorded", a->rows[0].machine.rings.size[l][r]);
            json_count("replayed_most", a->rows[0].result.most[l][r]);
            json_count("no_waits", a->sizes.free.size[l][r]);
            json_count("no_slower", a->sizes.good.size[l][r]);
            json_count("at_least", a->sizes.least.size[l][r]);
            if (r == PTO_RING_HEAP) {
                json_count("proven", a->sizes.proven_heap[l]);
            }
            json_finish('}');
        }
    }
    json_finish(']');
    write_result("no_waits", &a->sizes.with_free);
    write_result("no_slower", &a->sizes.with_good);
    write_result("at_least", &a->sizes.with_least);
    json_truth("scopes_known", a->trace->n_lives > 0);
}

static void write_json(const answer *a)
{
    const replay_plan *p = &a->plan;
    json_start();
    json_begin(NULL, '{');
    json_text("file", a->path);
    json_count("tasks", p->n_tasks);
    json_count("edges", a->trace->n_edges);
    json_count("lost", a->trace->lost);
    json_count("not_ended", p->open);
    json_count("recorded_ns", p->recorded);
    json_count("critical_path_ns", p->critical);
    json_count("submitting_ns", p->submitting);
    json_count("work_ns", p->work);
    json_count("next_task_ns", p->next_ns);
    json_count("find_task_ns", p->find_ns);
    json_count("wake_ns", p->wake_ns);
    json_begin("runs", '[');
    for (size_t i = 0; i < a->n_rows; i++) {
        write_row(a, &a->rows[i]);
    }
    json_finish(']');
    if (a->with_rings) {
        write_rings(a);
    }
    json_finish('}');
    putchar('\n');
}

/* ---- The command ---- */

static int no_memory(void)
{
    fprintf(stderr, "%s: out of memory\n", who);
    return 1;
}

/* Computes everything that was requested. */
static int find_answers(answer *a, const char *workers)
{
    a->n_rows = 1;
    a->rows[0].recorded = true;
    replay_machine_recorded(&a->plan, &a->rows[0].machine);
    if (workers && !read_workers(a, workers)) {
        return 2;
    }
    for (size_t i = 0; i < a->n_rows; i++) {
        replay_run(&a->plan, &a->rows[i].machine, NULL, &a->rows[i].result);
    }
    if (!workers && !a->with_rings && a->plan.n_tasks) {
        try_workers(a);
    }
    if (a->with_rings && !replay_rings_find(&a->plan, &a->rows[0].machine, &a->sizes)) {
        return no_memory();
    }
    return a->rows[0].result.end == REPLAY_NO_MEMORY ? no_memory() : 0;
}

static int replay(answer *a, const char *workers, bool json)
{
    if (!replay_plan_make(a->trace, &a->plan)) {
        return no_memory();
    }
    began = now();
    replay_progress = isatty(STDERR_FILENO) ? show_progress : NULL;
    const int status = find_answers(a, workers);
    hide_progress();
    if (status == 0 && json) {
        write_json(a);
    } else if (status == 0 && !a->plan.n_tasks) {
        print_no_tasks(a);
    } else if (status == 0) {
        print_model(a);
        if (workers || !a->with_rings) {
            print_workers(a);
        }
        if (a->with_rings) {
            print_rings(a);
        }
    }
    replay_plan_free(&a->plan);
    return status;
}

int command_replay(int argc, char **argv)
{
    static answer a; /* too large for the stack */
    bool json = false;
    const char *workers = NULL, *path = NULL;
    a = (answer){0};
    const argument options[] = {
        {"workers", "LIST", "workers of each kind to simulate: 1,2,4; or by type: cube=2+vector=1",
         NULL, &workers},
        {"rings", NULL, "find the smallest rings: no waits, no slower, minimum", &a.with_rings,
         NULL},
        {"json", NULL, "print JSON", &json, NULL},
    };
    const arguments command = {
        .command = "replay",
        .operands = "FILE",
        .about = "Simulates a recorded run without its kernels: how long it would take with other\n"
                 "numbers of workers, and how small its rings could be. FILE is a .ptrace;\n"
                 "PTO_TRACE=run.ptrace ./program records one.\n",
        .options = options,
        .n_options = sizeof options / sizeof *options,
        .most_operands = 1,
    };
    ptoi_ptrace trace;
    const int over = arguments_read(&command, argc, argv, &path);
    if (over != ARGUMENTS_RUN) {
        return over;
    }
    if (!path) {
        fprintf(stderr, "%s: which file? (%s --help)\n", who, who);
        return 2;
    }
    if (!trace_open(who, path, &trace)) {
        return 1;
    }
    a.path = path;
    a.trace = &trace;
    int status = 1;
    if (trace_ranks(&trace)) {
        fprintf(stderr, "%s: %s has the tasks of several ranks: replay the trace of one\n", who,
                path);
        ptoi_ptrace_close(&trace);
        return 1;
    }
    if (replay_is_outdated(&trace)) {
        fprintf(stderr,
                "%s: '%s' is of an older version of the library, where scopes held tasks as well "
                "as memory; record it again\n",
                who, path);
    } else {
        status = replay(&a, workers, json);
    }
    ptoi_ptrace_close(&trace);
    return status;
}
