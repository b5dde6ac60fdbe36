/* dot.c - writes a trace as a graph for Graphviz: a node for each task, an arrow for each edge. */
#include <inttypes.h>

#include "observe/export.h"

/* Writes text inside quotes. UTF-8 is kept; invalid bytes and control characters become question
 * marks. */
static void put_text(FILE *out, const char *text)
{
    while (*text) {
        const size_t n = ptoi_utf8_bytes(text);
        const unsigned char c = (unsigned char)*text;
        if (n == 0 || c < 0x20 || c == 0x7f) {
            fputc('?', out);
        } else {
            fputs(c == '"' || c == '\\' ? "\\" : "", out);
            (void)fwrite(text, 1, n, out);
        }
        text += n ? n : 1;
    }
}

/* Why the task failed or was skipped, as a line of its label. */
static void put_failure(const ptoi_ptrace *trace, uint32_t task, FILE *out)
{
    const ptrace_failure *f = ptoi_ptrace_failure(trace, task);
    const uint8_t outcome = trace->tasks[task].outcome;
    if (outcome == PTRACE_SKIPPED) {
        fputs("\\nskipped", out);
        if (f && f->cause != PTRACE_NONE) {
            fprintf(out, " because of %" PRIu32, f->cause);
        }
    } else if (outcome == PTRACE_FAILED || f) {
        fputs(outcome == PTRACE_FAILED ? "\\nfailed" : "\\nmemory overwritten", out);
        if (f) {
            fputs(": ", out);
            put_text(out, ptoi_ptrace_string(trace, f->name));
            fputs("\\n", out);
            put_text(out, ptoi_ptrace_string(trace, f->words));
        }
    } else if (outcome == PTRACE_OPEN) {
        fputs("\\nnot ended", out);
    }
}

/* Tasks of the same kernel have the same colour. Failed tasks are red, skipped ones grey. Steps of the golden ratio keep the hues apart. */
static void put_node(const ptoi_ptrace *trace, uint64_t i, FILE *out)
{
    static const char *const lines[] = {"solid", "bold", "dashed", "dotted"}; /* by outcome */
    const ptrace_task *t = &trace->tasks[i];
    const double turn = (t->kernel == PTRACE_NONE ? 0 : t->kernel) * 0.6180339887498949;
    fprintf(out, "  t%" PRIu64 " [label=\"%" PRIu64 " ", i, i);
    put_text(out, ptoi_ptrace_kernel(trace, t));
    fputs("\\n", out);
    const char *label = ptoi_ptrace_label(trace, (uint32_t)i);
    if (*label) {
        put_text(out, label);
        fputs("\\n", out);
    }
    put_text(out, ptoi_ptrace_file(trace, t));
    fprintf(out, ":%" PRId32, ptoi_ptrace_line(trace, t));
    if (t->outcome == PTRACE_DONE) {
        fprintf(out, "\\n%.3f us", (double)ptoi_ptrace_ran(t) / 1000);
    }
    put_failure(trace, (uint32_t)i, out);
    fprintf(out, "\", style=\"filled,%s\", fillcolor=\"", lines[t->outcome]);
    if (t->outcome == PTRACE_FAILED) {
        fputs("#ff6b6b\", color=red];\n", out);
    } else if (t->outcome == PTRACE_SKIPPED) {
        fputs("gray85\", color=red];\n", out);
    } else {
        fprintf(out, "%.3f 0.25 1.0\"];\n", turn - (double)(uint64_t)turn);
    }
}

int ptoi_export_dot(const ptoi_ptrace *trace, FILE *out)
{
    static const char *const looks[] = {
        "", " [style=dashed, label=\"WAR\"]", " [style=dotted, label=\"WAW\"]",
        " [color=gray, label=\"after\"]", " [color=blue, label=\"message\"]"};
    _Static_assert(sizeof looks / sizeof *looks == PTRACE_EDGE_KINDS, "a look for each kind");
    fputs("digraph run {\n  node [shape=box, fontname=\"sans-serif\", fontsize=10];\n"
          "  edge [fontname=\"sans-serif\", fontsize=8];\n",
          out);
    for (uint64_t i = 0; i < trace->n_tasks; i++) {
        put_node(trace, i, out);
    }
    for (uint64_t i = 0; i < trace->n_edges; i++) {
        const ptrace_edge *e = &trace->edges[i];
        if (e->from != PTRACE_NONE) {
            fprintf(out, "  t%" PRIu32 " -> t%" PRIu32 "%s;\n", e->from, e->to, looks[e->kind]);
        }
    }
    fputs("}\n", out);
    return 0;
}
