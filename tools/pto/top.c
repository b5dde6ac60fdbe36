/* top.c - `pto top [PID]`: live view of a running program. */
#define _GNU_SOURCE /* open_memstream in old headers */
#include "top.h"

#include <stdlib.h>
#include <unistd.h>

#include "arguments.h"
#include "commands.h"
#include "screen.h"
#include "words.h"

enum { PROGRAMS_MOST = 64 };

/* ---- Which program -------------------------------------------------------------------------- */

/* Chooses the only program, or lists all programs. Returns 0 or the exit status. */
static int choose(int *pid)
{
    peek_program found[PROGRAMS_MOST];
    const size_t count = peek_find(found, PROGRAMS_MOST);
    if (count == 1) {
        *pid = found[0].pid;
        return 0;
    }
    if (count == 0) {
        fprintf(stderr, "pto top: this user can see no running program with a runtime\n");
        return 1;
    }
    fprintf(stderr, "pto top: %zu programs are running; choose one with pto top PID\n\n", count);
    for (size_t i = 0; i < count && i < PROGRAMS_MOST; i++) {
        fprintf(stderr, "  %8d  %s%s\n", found[i].pid, found[i].name,
                found[i].windows > 1 ? "  (several runtimes: PID:0, PID:1 ...)" : "");
    }
    return 2;
}

/* ---- Snapshots ------------------------------------------------------------------------------ */

typedef struct top {
    peek p;
    peek_look looks[2]; /* previous and current, in turns */
    int now;
    top_seen *seen;
} top;

static pto_status look(top *t)
{
    t->now ^= 1;
    peek_look *now = &t->looks[t->now];
    peek_look_free(now);
    PTO_TRY(peek_look_at(&t->p, now));
    for (uint32_t i = 0; i < now->threads; i++) {
        if (t->seen[i].task != now->worker[i].runs.task) {
            t->seen[i] = (top_seen){now->worker[i].runs.task, now->when};
        }
    }
    return PTO_OK;
}

static top_view view_of(const top *t)
{
    int columns, rows;
    screen_size(&columns, &rows);
    const bool colour = *words_paint(stdout, WORDS_GOOD);
    return (top_view){.p = &t->p,
                      .before = &t->looks[t->now ^ 1],
                      .now = &t->looks[t->now],
                      .seen = t->seen,
                      .columns = isatty(STDOUT_FILENO) ? columns : 100,
                      .colour = colour,
                      .utf8 = screen_is_utf8()};
}

static int once(top *t, double interval, bool json)
{
    peek_pause(interval);
    if (look(t) != PTO_OK) {
        return peek_refuse("top");
    }
    const top_view v = view_of(t);
    if (json) {
        top_json(&v);
    } else {
        top_draw(stdout, &v);
    }
    return 0;
}

static pto_status draw_screen(const top *t)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (!out) {
        return pto_fail(PTO_OUT_OF_MEMORY, "no memory for the screen");
    }
    const top_view v = view_of(t);
    top_draw(out, &v);
    fprintf(out, "\nq quits");
    fclose(out);
    screen_show(text);
    free(text);
    return PTO_OK;
}

static int live(top *t, double interval)
{
    pto_status s = PTO_OK;
    bool ended = false;
    if (!screen_open()) {
        return 2;
    }
    /* Show the first rates early, then at the given interval. */
    double wait = interval < 0.2 ? interval : 0.2;
    while (!ended && s == PTO_OK && !screen_wait(wait)) {
        wait = interval;
        s = look(t);
        ended = t->looks[t->now].done || !peek_is_alive(&t->p);
        if (s == PTO_OK) {
            s = draw_screen(t);
        }
    }
    screen_close();
    if (s != PTO_OK) {
        return peek_refuse("top");
    }
    if (ended) {
        const top_view v = view_of(t);
        top_draw(stdout, &v);
        printf("\n%s: process %d has %s\n", t->p.program, t->p.pid,
               t->looks[t->now].done ? "destroyed its runtime" : "ended");
    }
    return 0;
}

static int run(top *t, int pid, unsigned number, double interval, bool text, bool json)
{
    if (peek_open(&t->p, pid, number) != PTO_OK) {
        return peek_refuse("top");
    }
    int status = 1;
    t->seen = calloc(PEEK_THREADS(&t->p), sizeof *t->seen);
    if (!t->seen || look(t) != PTO_OK) {
        fprintf(stderr, "pto top: not enough memory\n");
    } else if (text || json) {
        status = once(t, interval, json);
    } else {
        status = live(t, interval);
    }
    peek_look_free(&t->looks[0]);
    peek_look_free(&t->looks[1]);
    free(t->seen);
    peek_close(&t->p);
    return status;
}

int command_top(int argc, char **argv)
{
    bool text = false, json = false;
    const char *every = NULL, *operand;
    const argument options[] = {
        {"once", NULL, "print one snapshot as text", &text, NULL},
        {"json", NULL, "print one snapshot as a JSON object", &json, NULL},
        {"interval", "SECONDS", "time between snapshots, 0.05 to 3600 (1; with --once 0.2)", NULL,
         &every},
    };
    const arguments a = {
        .command = "top",
        .operands = "[PID]",
        .about =
            "Shows a running program: how fast it submits and completes tasks, how full its rings "
            "are, what each\nworker runs, and what the orchestrating thread waits for. Without "
            "PID it shows the running\nprogram, or lists them if there are several. PID:N is "
            "runtime N of "
            "a program that has several.\nq or Ctrl-C quits.\n",
        .options = options,
        .n_options = sizeof options / sizeof *options,
        .most_operands = 1,
    };
    const int over = arguments_read(&a, argc, argv, &operand);
    if (over != ARGUMENTS_RUN) {
        return over;
    }
    double interval = text || json ? 0.2 : 1;
    int pid = 0;
    unsigned number = 0;
    if (every && !arguments_seconds("top", "interval", every, 0.05, 3600, &interval)) {
        return 2;
    }
    if (operand) {
        if (!arguments_process("top", operand, &pid, &number)) {
            return 2;
        }
    } else {
        const int refused = choose(&pid);
        if (refused) {
            return refused;
        }
    }
    top t = {.now = 0};
    return run(&t, pid, number, interval, text, json);
}
