/* json.c - the summary of a run as one JSON object. */
#include <inttypes.h>

#include "json_write.h"
#include "rings.h"
#include "run.h"

/* ---- The summary ---------------------------------------------------------------------------- */

static void add_sizes(const options *o)
{
    json_begin("sizes", '{');
    for (size_t i = 0; i < o->what->n_options; i++) {
        const workload_option *option = &o->what->options[i];
        if (option->text) {
            json_text(option->name, o->text[i]);
        } else {
            json_name(option->name);
            printf("%" PRId64, o->number[i]);
        }
    }
    json_finish('}');
}

static void add_speed(const workload_job *job, const run_result *r)
{
    const double median = run_median(r);
    json_begin("seconds", '{');
    json_number("median", median);
    json_number("least", r->seconds[0]);
    json_number("most", r->seconds[r->runs - 1]);
    json_finish('}');
    json_count("tasks", r->tasks);
    json_number("tasks_per_second", (double)r->tasks / median);
    if (job->flops > 0) {
        json_number("gflops", job->flops / median / 1e9);
    }
    if (job->bytes > 0) {
        json_number("gigabytes_per_second", job->bytes / median / 1e9);
    }
    json_begin("edges", '{');
    json_count("raw", r->raw);
    json_count("war", r->war);
    json_count("waw", r->waw);
    json_count("after", r->after);
    json_finish('}');
}

static void add_memory(const pto_runtime_stats *s)
{
    json_begin("levels", '[');
    for (uint32_t i = 0; i < s->levels; i++) {
        json_begin(NULL, '{');
        for (uint32_t r = 0; r < PTO_RINGS; r++) {
            json_begin(ring_words_of[r].key, '{');
            json_count("peak", s->level[i].ring[r].peak);
            json_count("bound", s->level[i].ring[r].size);
            json_count("waits", s->level[i].ring[r].waits);
            json_finish('}');
        }
        json_finish('}');
    }
    json_finish(']');
    json_begin("devices", '[');
    for (uint32_t d = 1; d < s->devices; d++) {
        json_begin(NULL, '{');
        json_text("device", peek_device_name(s->device[d].device).s);
        json_count("workers", s->device[d].workers);
        json_begin("heaps", '[');
        for (uint32_t l = 0; l < s->levels; l++) {
            json_begin(NULL, '{');
            json_count("peak", s->device[d].heap[l].peak);
            json_count("bound", s->device[d].heap[l].size);
            json_finish('}');
        }
        json_finish(']');
        json_finish('}');
    }
    json_finish(']');
    json_count("overlap_budget_hits", s->overlap_budget_hits);
    json_count("poison_lost", s->poison_lost);
    json_count("sites_lost", s->sites_lost);
}

static void add_profile(const run_result *r)
{
    const profile_report *p = &r->profile;
    if (!r->profiled) {
        return;
    }
    json_begin("profile", '{');
    json_number("seconds", r->profile_seconds);
    json_number("critical_path_seconds", (double)p->path * 1e-9);
    json_count("critical_path_tasks", p->path_tasks);
    json_number("efficiency", (double)p->busy_total * 1e-9 / r->profile_seconds / run_threads(r));
    json_count("edges", p->edges);
    json_begin("busy_seconds", '[');
    for (uint32_t i = 0; i <= r->workers; i++) {
        json_number(NULL, run_busy(r, i));
    }
    json_finish(']');
    json_begin("device_busy_seconds", '{');
    for (uint32_t d = 1, first = run_device_thread(r); d < r->stats.devices; d++) {
        json_begin(peek_device_name(r->stats.device[d].device).s, '[');
        for (uint32_t i = 0; i < r->stats.device[d].workers; i++) {
            json_number(NULL, run_busy(r, first++));
        }
        json_finish(']');
    }
    json_finish('}');
    json_begin("kernels", '[');
    for (size_t i = 0; i < p->n_kernels; i++) {
        const profile_kernel *k = &p->kernels[i];
        json_begin(NULL, '{');
        json_text("name", k->name);
        json_count("calls", k->calls);
        json_number("seconds", (double)k->time * 1e-9);
        json_number("least", k->calls ? (double)k->least * 1e-9 : 0);
        json_number("most", (double)k->longest * 1e-9);
        json_count("on_path", k->on_path);
        json_finish('}');
    }
    json_finish(']');
    json_finish('}');
}

void report_json(const options *o, const workload_job *job, const run_result *r)
{
    json_start();
    json_begin(NULL, '{');
    json_text("workload", o->what->name);
    add_sizes(o);
    json_count("seed", o->seed);
    json_count("workers", r->workers);
    json_text("scheduler", r->place);
    json_text("rings", o->tight ? "tight" : "default");
    json_count("runs", (uint64_t)r->runs);
    add_speed(job, r);
    add_memory(&r->stats);
    add_profile(r);
    json_truth("checked", r->checked);
    if (r->checked) {
        json_truth("right", r->right);
        json_text("verdict", job->verdict);
    }
    json_finish('}');
    putchar('\n');
}
