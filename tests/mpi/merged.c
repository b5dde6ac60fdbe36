/* merged.c FILE RANKS [WORKERS] - checks the trace of all ranks of a run:
 *
 *     every send and every receive is one end of one message
 *     no message arrives before it was sent, by more than the error that the trace states
 *     every rank has a lane for its orchestrating thread, and one for each of its workers; tasks are in order: edges
 *     lead forward (checked by the reader)
 *
 * Prints the number of messages. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "observe/ptrace_read.h"

static int bad;

#define CHECK(what, ...)                                                                           \
    if (!(what)) {                                                                                 \
        fprintf(stderr, __VA_ARGS__);                                                              \
        bad = 1;                                                                                   \
    }

static uint64_t number_of(const ptoi_ptrace *t, const char *key)
{
    for (const char *line = t->meta; line && line < t->meta + t->n_meta;) {
        if (strncmp(line, key, strlen(key)) == 0 && line[strlen(key)] == '=') {
            return strtoull(line + strlen(key) + 1, NULL, 10);
        }
        line = memchr(line, '\n', (size_t)(t->meta + t->n_meta - line));
        line = line ? line + 1 : NULL;
    }
    return UINT64_MAX;
}

static void check_messages(const ptoi_ptrace *t)
{
    const uint64_t error = number_of(t, "clock_error_ns");
    uint64_t messages = 0;
    uint8_t *ends = calloc(t->n_tasks + 1, 1);
    CHECK(error < 1000000000, "the error of the clocks is %" PRIu64 " ns\n", error)
    for (uint64_t i = 0; ends && i < t->n_edges; i++) {
        const ptrace_edge *e = &t->edges[i];
        if (e->kind != PTRACE_MESSAGE) {
            continue;
        }
        const ptrace_task *from = &t->tasks[e->from], *to = &t->tasks[e->to];
        ends[e->from]++;
        ends[e->to]++;
        messages++;
        CHECK(!strcmp(ptoi_ptrace_kernel(t, from), "mpi_send") &&
                  !strcmp(ptoi_ptrace_kernel(t, to), "mpi_receive"),
              "a message from %s to %s\n", ptoi_ptrace_kernel(t, from), ptoi_ptrace_kernel(t, to))
        if (from->start != PTRACE_UNKNOWN && to->end != PTRACE_UNKNOWN) {
            CHECK(to->end + error >= from->start,
                  "task %" PRIu32 " receives at %" PRIu64 " ns what %" PRIu32 " sends at %" PRIu64
                  ", and the error is %" PRIu64 "\n",
                  e->to, to->end, e->from, from->start, error)
        }
        CHECK(to->lane == PTRACE_NONE || from->lane == PTRACE_NONE || to->lane != from->lane,
              "a message within lane %" PRIu32 "\n", to->lane)
    }
    for (uint64_t i = 0; ends && i < t->n_tasks; i++) {
        const char *name = ptoi_ptrace_kernel(t, &t->tasks[i]);
        const bool is_end = !strcmp(name, "mpi_send") || !strcmp(name, "mpi_receive");
        CHECK(ends[i] == is_end, "task %" PRIu64 " (%s) is the end of %d messages\n", i, name,
              ends[i])
    }
    CHECK(number_of(t, "messages") == messages, "the trace states another number of messages\n")
    free(ends);
    printf("%" PRIu64 " messages\n", messages);
}

/* Lanes whose names begin like that. */
static uint64_t lanes_of(const ptoi_ptrace *t, uint64_t rank, const char *thread)
{
    char begin[64];
    uint64_t lanes = 0;
    snprintf(begin, sizeof begin, "rank %" PRIu64 " %s", rank, thread);
    for (uint64_t i = 0; i < t->n_lanes; i++) {
        lanes += !strncmp(ptoi_ptrace_string(t, t->lanes[i].name), begin, strlen(begin));
    }
    return lanes;
}

int main(int argc, char **argv)
{
    ptoi_ptrace t;
    const bool usage = argc < 3 || argc > 4;
    if (usage || ptoi_ptrace_open(argv[1], &t) != PTO_OK) {
        fprintf(stderr, "%s\n", usage ? "usage: merged FILE RANKS [WORKERS]" : pto_error_detail());
        return 2;
    }
    const uint64_t ranks = strtoull(argv[2], NULL, 10);
    CHECK(number_of(&t, "ranks") == ranks, "the trace is of %" PRIu64 " ranks\n",
          number_of(&t, "ranks"))
    for (uint64_t r = 0; r < ranks; r++) {
        const uint64_t own = lanes_of(&t, r, "orchestrator"), workers = lanes_of(&t, r, "worker ");
        CHECK(own == 1, "rank %" PRIu64 " has %" PRIu64 " lanes of orchestrators\n", r, own)
        CHECK(argc == 3 || workers == strtoull(argv[3], NULL, 10),
              "rank %" PRIu64 " has %" PRIu64 " lanes of workers\n", r, workers)
    }
    CHECK(t.lost == 0, "%" PRIu64 " records are lost\n", t.lost)
    check_messages(&t);
    ptoi_ptrace_close(&t);
    return bad;
}
