/* json.c - the summary of a run as one JSON object. */
#include <inttypes.h>
#include <math.h>

#include "run.h"

/* ---- Writing JSON --------------------------------------------------------------------------- */

static bool first = true; /* in the object or list that is open */

static void text(const char *s)
{
    putchar('"');
    for (; *s; s++) {
        const unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') {
            putchar('\\');
        }
        if (c < 0x20) {
            printf("\\u%04x", c);
        } else {
            putchar(c);
        }
    }
    putchar('"');
}

/* The comma before, the name, the colon; NULL in a list. */
static void name(const char *key)
{
    if (!first) {
        putchar(',');
    }
    first = false;
    if (key) {
        text(key);
        putchar(':');
    }
}

static void begin(const char *key, char bracket)
{
    name(key);
    putchar(bracket);
    first = true;
}

static void finish(char bracket)
{
    putchar(bracket);
    first = false;
}

static void add_text(const char *key, const char *value)
{
    name(key);
    text(value);
}

static void add_count(const char *key, uint64_t value)
{
    name(key);
    printf("%" PRIu64, value);
}

/* JSON has no infinity. */
static void add_number(const char *key, double value)
{
    name(key);
    if (isfinite(value)) {
        printf("%.9g", value);
    } else {
        fputs("null", stdout);
    }
}

static void add_truth(const char *key, bool value)
{
    name(key);
    fputs(value ? "true" : "false", stdout);
}

/* ---- The summary ---------------------------------------------------------------------------- */

static void add_sizes(const options *o)
{
    begin("sizes", '{');
    for (size_t i = 0; i < o->what->n_options; i++) {
        const workload_option *option = &o->what->options[i];
        if (option->text) {
            add_text(option->name, o->text[i]);
        } else {
            name(option->name);
            printf("%" PRId64, o->number[i]);
        }
    }
    finish('}');
}

static void add_speed(const workload_job *job, const run_result *r)
{
    const double median = run_median(r);
    begin("seconds", '{');
    add_number("median", median);
    add_number("least", r->seconds[0]);
    add_number("most", r->seconds[r->runs - 1]);
    finish('}');
    add_count("tasks", r->tasks);
    add_number("tasks_per_second", (double)r->tasks / median);
    if (job->flops > 0) {
        add_number("gflops", job->flops / median / 1e9);
    }
    if (job->bytes > 0) {
        add_number("gigabytes_per_second", job->bytes / median / 1e9);
    }
    begin("edges", '{');
    add_count("raw", r->raw);
    add_count("war", r->war);
    add_count("waw", r->waw);
    add_count("after", r->after);
    finish('}');
}

static void add_mark(const char *key, uint64_t peak, uint64_t bound, uint64_t stalls)
{
    begin(key, '{');
    add_count("peak", peak);
    add_count("bound", bound);
    add_count("waits", stalls);
    finish('}');
}

static void add_memory(const pto_runtime_stats *s)
{
    begin("levels", '[');
    for (uint32_t i = 0; i < s->levels; i++) {
        const pto_level_stats *l = &s->level[i];
        begin(NULL, '{');
        add_mark("heap", l->heap_peak, l->heap_bytes, l->stalls_heap);
        add_mark("tasks", l->tasks_peak, l->window, l->stalls_window);
        add_mark("arguments", l->args_peak, l->arg_bytes, l->stalls_args);
        add_mark("edges", l->deps_peak, l->deps, l->stalls_deps);
        add_mark("map", l->map_peak, l->map_entries, l->stalls_map);
        finish('}');
    }
    finish(']');
    add_count("overlap_budget_hits", s->overlap_budget_hits);
}

static void add_profile(const run_result *r)
{
    const profile_report *p = &r->profile;
    if (!r->profiled) {
        return;
    }
    begin("profile", '{');
    add_number("seconds", r->profile_seconds);
    add_number("critical_path_seconds", (double)p->path * 1e-9);
    add_count("critical_path_tasks", p->path_tasks);
    add_number("efficiency", (double)p->busy_total * 1e-9 / r->profile_seconds / (r->workers + 1));
    add_count("edges", p->edges);
    begin("busy_seconds", '[');
    for (uint32_t i = 0; i <= r->workers; i++) {
        add_number(NULL, i < p->n_workers ? (double)p->busy[i] * 1e-9 : 0);
    }
    finish(']');
    begin("kernels", '[');
    for (size_t i = 0; i < p->n_kernels; i++) {
        const profile_kernel *k = &p->kernels[i];
        begin(NULL, '{');
        add_text("name", k->name);
        add_count("calls", k->calls);
        add_number("seconds", (double)k->time * 1e-9);
        add_number("least", k->calls ? (double)k->least * 1e-9 : 0);
        add_number("most", (double)k->longest * 1e-9);
        add_count("on_path", k->on_path);
        finish('}');
    }
    finish(']');
    finish('}');
}

void report_json(const options *o, const workload_job *job, const run_result *r)
{
    first = true;
    begin(NULL, '{');
    add_text("workload", o->what->name);
    add_sizes(o);
    add_count("seed", o->seed);
    add_count("workers", r->workers);
    add_text("scheduler", r->place);
    add_text("rings", o->tight ? "tight" : "default");
    add_count("runs", (uint64_t)r->runs);
    add_speed(job, r);
    add_memory(&r->stats);
    add_profile(r);
    add_truth("checked", r->checked);
    if (r->checked) {
        add_truth("right", r->right);
        add_text("verdict", job->verdict);
    }
    finish('}');
    putchar('\n');
}
