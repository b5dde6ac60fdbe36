/* top_draw.c - the output of `pto top`. */
#include <inttypes.h>
#include <string.h>

#include "json_write.h"
#include "rings.h"
#include "top.h"
#include "words.h"

static double seconds_between(const top_view *v)
{
    return (double)(v->now->when - v->before->when) * 1e-9;
}

static double rate(const top_view *v, uint64_t before, uint64_t now)
{
    const double seconds = seconds_between(v);
    return seconds > 0 && now > before ? (double)(now - before) / seconds : 0;
}

/* How long a worker has been seen running its task; 0 in the first snapshot. */
static double seen_for(const top_view *v, uint32_t worker)
{
    const top_seen *s = &v->seen[worker];
    return s->task && s->task == v->now->worker[worker].runs.task && v->now->when > s->since
               ? (double)(v->now->when - s->since) * 1e-9
               : 0;
}

static const char *paint(const top_view *v, words_colour colour)
{
    static const char *const sequences[] = {"\033[0m", "\033[2m", "\033[32m", "\033[1;31m"};
    return v->colour ? sequences[colour] : "";
}

static int bar_width(const top_view *v)
{
    return v->columns >= 96 ? 32 : v->columns >= 76 ? 16 : v->columns >= 60 ? 8 : 0;
}

static void bar(FILE *out, const top_view *v, uint64_t used, uint64_t size)
{
    const int width = bar_width(v);
    const double part = size ? (double)used / (double)size : 0;
    int filled = (int)(part * width + 0.5);
    filled = filled > width ? width : filled;
    filled += !filled && used && width; /* show at least one cell if anything is used */
    fputs(paint(v, part >= 0.9 ? WORDS_BAD : WORDS_GOOD), out);
    for (int i = 0; i < width; i++) {
        if (i == filled) {
            fprintf(out, "%s%s", paint(v, WORDS_PLAIN), paint(v, WORDS_DIM));
        }
        fputs(i < filled ? (v->utf8 ? "\xe2\x96\x88" : "#") : (v->utf8 ? "\xe2\x96\x91" : "."),
              out);
    }
    fputs(paint(v, WORDS_PLAIN), out);
}

static const char *place_name(pto_place place)
{
    static const char *const names[] = {
        [PTO_PLACE_THREAD] = "thread", [PTO_PLACE_PROCESS] = "process", [PTO_PLACE_GPU] = "gpu"};
    return (size_t)place < sizeof names / sizeof *names && names[place] ? names[place] : "inline";
}

/* A place that no worker process has taken serves nothing (pto worker --attach). */
static bool is_empty(const top_view *v, uint32_t i)
{
    return i < v->now->workers && !v->now->worker[i].types;
}

static void draw_head(FILE *out, const top_view *v)
{
    const peek_look *now = v->now;
    uint32_t serving = 0;
    for (uint32_t i = 0; i < now->workers; i++) {
        serving += !is_empty(v, i);
    }
    fprintf(out, "pto top: %s, process %d, up %s, runtime %s, %u worker%s, scheduler %s%s\n",
            v->p->program, v->p->pid, words_time((double)(now->when - now->created) * 1e-9).s,
            now->runtime, serving, serving == 1 ? "" : "s", place_name(now->place),
            now->cancelled ? ", cancelled" : "");
    if (now->lost) {
        fprintf(out,
                "%s%" PRIu64 " worker process%s ended: the program has to call pto_recover%s\n",
                paint(v, WORDS_BAD), now->lost, now->lost == 1 ? " has" : "es have",
                paint(v, WORDS_PLAIN));
    }
    if (v->p->windows > 1) {
        const uint32_t other = v->p->number ? 0 : 1;
        fprintf(out, "runtime      %u of %u (", v->p->number, v->p->windows);
        if (v->p->windows == 2) {
            fprintf(out, "%d:%u shows the other)\n", v->p->pid, other);
        } else {
            fprintf(out, "%d:N shows another, N from 0 to %u)\n", v->p->pid, v->p->windows - 1);
        }
    }
    fprintf(out, "tasks        %" PRIu64 " submitted (%s/s)  %" PRIu64 " complete (%s/s)  ",
            now->submitted, words_rate(rate(v, v->before->submitted, now->submitted)).s,
            now->completed, words_rate(rate(v, v->before->completed, now->completed)).s);
    fprintf(out, "%s%" PRIu64 " failed%s  %" PRIu64 " skipped\n",
            now->failed ? paint(v, WORDS_BAD) : "", now->failed, paint(v, WORDS_PLAIN),
            now->skipped);
    fprintf(out,
            "unfinished   %" PRIu64 " running, %" PRIu64 " pending, %" PRIu64 " ready, %" PRIu64
            " waiting; open scopes: %" PRIu64 ", tensors: %" PRIu64 " of %" PRIu64 "\n",
            now->states[PEEK_RUNS] + now->states[PEEK_ENDS], now->states[PEEK_PENDING],
            now->states[PEEK_READY], now->states[PEEK_WAITS], now->scope_depth, now->buffers,
            now->max_buffers);
    fprintf(out, "orchestrator %s", peek_wait_words(v->p, now, true).s);
    if (now->wait.on && now->wait.since) {
        fprintf(out, ", asleep for %s", words_time((double)now->wait.since * 1e-9).s);
    }
    fputc('\n', out);
    if (now->n_ranges) {
        fprintf(out, "range        %s\n", peek_range_words(now).s);
    }
    if (now->oldest.task) {
        static const char *const states[] = {"is waiting", "is ready", "is running", "is pending",
                                             "has just ended"};
        fprintf(out, "oldest       %s %s\n", peek_brief_of(&now->oldest).s,
                states[now->oldest.state]);
    } else {
        fprintf(out, "oldest       none: all tasks are complete\n");
    }
    if (now->stalls) {
        fprintf(out,
                "%sstalled      %" PRIu64 " time%s, last %s ago (details: pto doctor %d:%u)%s\n",
                paint(v, WORDS_BAD), now->stalls, now->stalls == 1 ? "" : "s",
                words_time((double)now->stall_age * 1e-9).s, v->p->pid, v->p->number,
                paint(v, WORDS_PLAIN));
    }
}

static void draw_rings(FILE *out, const top_view *v)
{
    fprintf(out, "\nlevel %-10s %*s %10s %10s %10s  waits\n", "ring", bar_width(v), "", "in use",
            "of", "peak");
    for (uint32_t l = 0; l < v->now->levels; l++) {
        const peek_level *level = &v->now->level[l];
        if (l && !level->rings.ring[PTO_RING_TASKS].peak) {
            continue; /* never used */
        }
        for (uint32_t r = 0; r < PTO_RINGS; r++) {
            const pto_ring_stats *ring = &level->rings.ring[r];
            char number[16] = "";
            if (r == 0) {
                snprintf(number, sizeof number, "%u", l);
            }
            fprintf(out, "%-5s %-10s ", number, ring_words_of[r].key);
            bar(out, v, ring->used, ring->size);
            const bool grew = ring->waits > v->before->level[l].rings.ring[r].waits;
            fprintf(out, " %10s %10s %10s  %s%" PRIu64 "%s\n", ring_amount(r, ring->used).s,
                    ring_amount(r, ring->size).s, ring_amount(r, ring->peak).s,
                    grew ? paint(v, WORDS_BAD) : "", ring->waits,
                    grew ? paint(v, WORDS_PLAIN) : "");
        }
        if (level->since) {
            fprintf(out, "%s      all rings but tasks: as of %" PRIu64 " task%s ago%s\n",
                    paint(v, WORDS_DIM), level->since, level->since == 1 ? "" : "s",
                    paint(v, WORDS_PLAIN));
        }
    }
}

/* The heaps of devices, one line for each level that has one. */
static void draw_devices(FILE *out, const top_view *v)
{
    for (uint32_t d = 1; d < v->now->devices; d++) {
        const pto_device_stats *s = &v->now->device[d];
        for (uint32_t l = 0; l < PTO_MAX_LEVELS; l++) {
            if (s->heap[l].size) {
                fprintf(out, "%-5u %-10.10s ", l, peek_device_name(s->device).s);
                bar(out, v, s->heap[l].used, s->heap[l].size);
                fprintf(out, " %10s %10s %10s\n", ring_amount(PTO_RING_HEAP, s->heap[l].used).s,
                        ring_amount(PTO_RING_HEAP, s->heap[l].size).s,
                        ring_amount(PTO_RING_HEAP, s->heap[l].peak).s);
            }
        }
    }
}

/* Tasks that a thread completed before; it may be new. */
static uint64_t completed_before(const top_view *v, uint32_t i)
{
    return i < v->before->threads ? v->before->worker[i].completed : 0;
}

typedef struct thread_name {
    char s[48];
} thread_name;

/* "caller", "3"; "sim:0 worker 1" as "sim:0 1", but all of "sim:0 block 1". */
static thread_name name_thread(const top_view *v, uint32_t i)
{
    const peek_worker *w = &v->now->worker[i];
    thread_name name = {"caller"};
    if (i < v->now->workers) {
        snprintf(name.s, sizeof name.s, "%u", i);
    } else if (w->block) {
        snprintf(name.s, sizeof name.s, "%s", w->name);
    } else if (i > v->now->workers) {
        snprintf(name.s, sizeof name.s, "%.15s %.8s",
                 peek_device_name(v->now->device[w->device].device).s, strrchr(w->name, ' ') + 1);
    }
    return name;
}

static void draw_workers(FILE *out, const top_view *v)
{
    int width = 7;
    for (uint32_t i = 0; i < v->now->threads; i++) {
        const int length = (int)strlen(name_thread(v, i).s);
        width = length > width ? length : width;
    }
    fprintf(out, "\n%-*s serves            tasks/s  running\n", width, "worker");
    for (uint32_t i = 0; i < v->now->threads; i++) {
        const peek_worker *w = &v->now->worker[i];
        if (is_empty(v, i)) {
            continue;
        }
        fprintf(out, "%-*s %-16s %8s  ", width, name_thread(v, i).s, peek_types_of(w->types).s,
                words_rate(rate(v, completed_before(v, i), w->completed)).s);
        if (!w->runs.task) {
            fprintf(out, "%s-%s\n", paint(v, WORDS_DIM), paint(v, WORDS_PLAIN));
            continue;
        }
        fputs(peek_brief_of(&w->runs).s, out);
        const double seen = seen_for(v, i);
        if (seen > 0) {
            fprintf(out, ", for at least %s", words_time(seen).s);
        }
        fputc('\n', out);
    }
}

void top_draw(FILE *out, const top_view *v)
{
    draw_head(out, v);
    draw_rings(out, v);
    draw_devices(out, v);
    draw_workers(out, v);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void json_task(const char *key, const peek_task *t)
{
    static const char *const states[] = {"waiting", "ready", "running", "pending", "ending"};
    if (!t->task) {
        json_name(key);
        fputs("null", stdout);
        return;
    }
    json_begin(key, '{');
    json_count("task", t->task);
    json_count("order", t->order);
    json_text("state", states[t->state]);
    json_text("kernel", t->kernel);
    json_text("label", t->label);
    json_text("file", t->file);
    json_count("line", t->line > 0 ? (uint64_t)t->line : 0);
    json_text("type", pto_worker_type_name((pto_worker_type)t->type));
    json_count("device", t->device);
    json_count("level", t->level);
    json_count("producers_left", t->left);
    json_finish('}');
}

static void json_rings(const top_view *v)
{
    json_begin("levels", '[');
    for (uint32_t l = 0; l < v->now->levels; l++) {
        const peek_level *level = &v->now->level[l];
        json_begin(NULL, '{');
        for (uint32_t r = 0; r < PTO_RINGS; r++) {
            const pto_ring_stats *ring = &level->rings.ring[r];
            json_begin(ring_words_of[r].key, '{');
            json_count("used", ring->used);
            json_count("size", ring->size);
            json_count("peak", ring->peak);
            json_count("waits", ring->waits);
            json_finish('}');
        }
        json_count("tasks_since", level->since);
        json_finish('}');
    }
    json_finish(']');
}

static void json_devices(const top_view *v)
{
    json_begin("devices", '[');
    for (uint32_t d = 0; d < v->now->devices; d++) {
        const pto_device_stats *s = &v->now->device[d];
        json_begin(NULL, '{');
        json_text("device", peek_device_name(s->device).s);
        json_begin("heaps", '[');
        for (uint32_t l = 0; d && l < v->now->levels; l++) {
            json_begin(NULL, '{');
            json_count("used", s->heap[l].used);
            json_count("size", s->heap[l].size);
            json_count("peak", s->heap[l].peak);
            json_finish('}');
        }
        json_finish(']');
        json_finish('}');
    }
    json_finish(']');
}

static void json_workers(const top_view *v)
{
    json_begin("workers", '[');
    for (uint32_t i = 0; i < v->now->threads; i++) {
        const peek_worker *w = &v->now->worker[i];
        if (is_empty(v, i)) {
            continue;
        }
        json_begin(NULL, '{');
        json_text("role", i == v->now->workers ? "caller" : w->block ? "block" : "worker");
        json_text("device", peek_device_name(v->now->device[w->device].device).s);
        json_text("serves", peek_types_of(w->types).s);
        json_count("thread", w->thread);
        json_count("completed", w->completed);
        json_number("completed_per_second", rate(v, completed_before(v, i), w->completed));
        json_task("runs", &w->runs);
        if (w->runs.task) {
            json_number("runs_for_at_least", seen_for(v, i));
        }
        json_finish('}');
    }
    json_finish(']');
}

void top_json(const top_view *v)
{
    const peek_look *now = v->now;
    json_start();
    json_begin(NULL, '{');
    json_count("pid", (uint64_t)v->p->pid);
    json_count("number", v->p->number);
    json_count("runtimes", v->p->windows);
    json_text("program", v->p->program);
    json_text("runtime", now->runtime);
    json_text("scheduler", place_name(now->place));
    json_count("lost_processes", now->lost);
    json_number("up_seconds", (double)(now->when - now->created) * 1e-9);
    json_number("interval_seconds", seconds_between(v));
    json_count("submitted", now->submitted);
    json_number("submitted_per_second", rate(v, v->before->submitted, now->submitted));
    json_count("completed", now->completed);
    json_number("completed_per_second", rate(v, v->before->completed, now->completed));
    json_count("failed", now->failed);
    json_count("skipped", now->skipped);
    json_truth("cancelled", now->cancelled);
    json_begin("unfinished", '{');
    json_count("running", now->states[PEEK_RUNS]);
    json_count("pending", now->states[PEEK_PENDING]);
    json_count("ready", now->states[PEEK_READY]);
    json_count("waiting", now->states[PEEK_WAITS]);
    json_count("ending", now->states[PEEK_ENDS]);
    json_finish('}');
    json_task("oldest", &now->oldest);
    json_begin("orchestrator", '{');
    json_truth("waits", now->wait.on);
    json_text("words", peek_wait_words(v->p, now, false).s);
    json_number("asleep_seconds", now->wait.on ? (double)now->wait.since * 1e-9 : 0);
    json_finish('}');
    json_begin("ranges", '[');
    for (uint32_t i = 0; i < now->n_ranges; i++) {
        json_text(NULL, now->range[i]);
    }
    json_finish(']');
    json_count("stalls", now->stalls);
    json_count("scope_depth", now->scope_depth);
    json_count("tensors", now->buffers);
    json_count("edges", now->edges);
    json_rings(v);
    json_devices(v);
    json_workers(v);
    json_finish('}');
    putchar('\n');
}
