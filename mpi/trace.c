/* trace.c - one trace of all ranks. Orchestrating thread, and at the end of MPI.
 *
 *     mpi_create       rank 0 asks every rank for its time         notes (pto/embed.h)
 *     each call        its step, and the ends of its messages      notes
 *     mpi_destroy      rank 0 asks again: clocks drift
 *     runtime_destroy  hands over the trace of the rank            kept
 *     MPI_Finalize     ranks send theirs to rank 0, which merges them into the file
 *
 * The last step is in MPI_Finalize, by an attribute of MPI_COMM_SELF that is deleted there: all ranks come
 * to it, and MPI still works. A world that broke does not come there. Then each rank writes a file of its own.
 */
#include "world.h"

#include <pto/trace.h>

enum { QUESTIONS = 40, TAG_CLOCK = 3, TAG_TRACE = 4, CHUNK = 1 << 28 };

/* The trace of one runtime, from pto_mpi_create to the end of MPI. */
struct trace_keeper {
    trace_keeper *next; /* in order of creation: the same on all ranks */
    MPI_Comm comm;      /* of its own */
    int rank, ranks;
    bool apart; /* each rank writes its own file: the world broke, or MPI is gone */
    uint64_t worlds;
    pto_runtime *rt; /* NULL after its end */
    char *path;      /* NULL: the runtime has not ended */
    char *bytes;
    uint64_t n_bytes;
};

static trace_keeper *keepers;

/* ---- Files ----------------------------------------------------------------------------------------- */

/* run.html becomes run.rank-2.html. */
static pto_status write_apart(const trace_keeper *k)
{
    const char *dot = strrchr(k->path, '.');
    const size_t room = strlen(k->path) + 32,
                 stem = dot ? (size_t)(dot - k->path) : strlen(k->path);
    char *path = malloc(room);
    if (!path) {
        return pto_fail(PTO_OUT_OF_MEMORY, "mpi: name of a trace");
    }
    snprintf(path, room, "%.*s.rank-%d%s", (int)stem, k->path, k->rank, dot ? dot : "");
    const pto_trace_part part = {path, k->bytes, k->n_bytes};
    pto_status status = PTO_OK;
    if (dot && !strcmp(dot, ".ptrace")) { /* as it is, so that it can be merged later */
        FILE *out = fopen(path, "wb");
        const bool good = out && fwrite(k->bytes, 1, k->n_bytes, out) == k->n_bytes;
        if (!out || fclose(out) || !good) {
            status = pto_fail(PTO_SYSTEM, "mpi: cannot write '%s'", path);
        }
    } else {
        status = pto_trace_merge(&part, 1, path);
    }
    free(path);
    return status;
}

/* The runtime ends: called instead of writing its file. */
static pto_status keep_trace(void *user, const char *path, const void *bytes, size_t n_bytes)
{
    trace_keeper *k = user;
    k->rt = NULL;
    k->path = strdup(path);
    k->bytes = malloc(n_bytes);
    if (!k->path || !k->bytes) {
        return pto_fail(PTO_OUT_OF_MEMORY, "mpi: no memory for the trace of the rank");
    }
    memcpy(k->bytes, bytes, n_bytes);
    k->n_bytes = n_bytes;
    return k->apart ? write_apart(k) : PTO_OK;
}

/* ---- At the end of MPI ------------------------------------------------------------------------------- */

static void send_bytes(const trace_keeper *k, char *bytes, uint64_t n)
{
    for (uint64_t at = 0; at < n; at += CHUNK) {
        MPI_Send(bytes + at, (int)(n - at < CHUNK ? n - at : CHUNK), MPI_BYTE, 0, TAG_TRACE,
                 k->comm);
    }
}

static void receive_bytes(const trace_keeper *k, int from, char *bytes, uint64_t n)
{
    for (uint64_t at = 0; at < n; at += CHUNK) {
        MPI_Recv(bytes + at, (int)(n - at < CHUNK ? n - at : CHUNK), MPI_BYTE, from, TAG_TRACE,
                 k->comm, MPI_STATUS_IGNORE);
    }
}

/* Rank 0: takes the traces of the others, and writes one of all. A rank whose runtime has not ended has
 * none. */
static void gather(const trace_keeper *k, const uint64_t *sizes)
{
    pto_trace_part *parts = calloc((size_t)k->ranks, sizeof *parts);
    char *names = calloc((size_t)k->ranks, 24);
    size_t n = 0;
    bool good = parts && names;
    for (int r = 0; r < k->ranks && good; r++) {
        char *bytes = r == 0 || !sizes[r] ? k->bytes : malloc(sizes[r]);
        good = bytes || !sizes[r];
        if (r && good) {
            receive_bytes(k, r, bytes, sizes[r]);
        }
        if (sizes[r] && good) {
            snprintf(names + 24 * (size_t)r, 24, "rank %d", r);
            parts[n++] = (pto_trace_part){names + 24 * (size_t)r, bytes, sizes[r]};
        }
    }
    if (!good) { /* the others wait for their messages to be taken */
        fprintf(stderr, "pto: no memory for the traces of all ranks\n");
        MPI_Abort(k->comm, 1);
    }
    if (k->path && pto_trace_merge(parts, n, k->path) != PTO_OK) {
        fprintf(stderr, "pto: %s\n", pto_error_detail());
    }
    for (size_t i = 0; i < n; i++) {
        if (parts[i].bytes != k->bytes) {
            free((void *)(uintptr_t)parts[i].bytes);
        }
    }
    free(parts);
    free(names);
}

static void finish(trace_keeper *k)
{
    uint64_t mine = k->path && !k->apart ? k->n_bytes : 0;
    uint64_t *sizes = calloc((size_t)k->ranks, sizeof *sizes);
    if (!sizes) {
        MPI_Abort(k->comm, 1);
    }
    MPI_Gather(&mine, sizeof mine, MPI_BYTE, sizes, sizeof mine, MPI_BYTE, 0, k->comm);
    if (k->rank == 0) {
        gather(k, sizes);
    } else {
        send_bytes(k, k->bytes, mine);
    }
    MPI_Comm_free(&k->comm);
    free(sizes);
    free(k->path);
    free(k->bytes);
    k->path = k->bytes = NULL;
    k->apart = true; /* a runtime that ends later writes its own */
}

static int at_finalize(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm;
    (void)key;
    (void)value;
    (void)extra;
    worlds_finalize();
    for (trace_keeper *k = keepers; k; k = k->next) {
        if (!k->apart) {
            finish(k);
        }
    }
    return MPI_SUCCESS;
}

/* ---- Clocks ------------------------------------------------------------------------------------------ */

/* Rank 0 asks one rank after the other, and only its best question counts. Others note all of their
 * answers. */
static void compare_clocks(world *w, const trace_keeper *k, uint64_t round)
{
    for (int r = 1; r < w->ranks; r++) {
        pto_note best = {.kind = PTO_NOTE_ASKED, .peer = (uint32_t)r, .error = UINT64_MAX};
        for (uint64_t i = 0; i < QUESTIONS; i++) {
            const uint64_t number = round << 16 | i;
            if (w->rank == 0) {
                const uint64_t asked = pto_trace_clock(w->rt);
                MPI_Send(NULL, 0, MPI_BYTE, r, TAG_CLOCK, k->comm);
                MPI_Recv(NULL, 0, MPI_BYTE, r, TAG_CLOCK, k->comm, MPI_STATUS_IGNORE);
                const uint64_t half = (pto_trace_clock(w->rt) - asked) / 2 + 1;
                if (half < best.error) {
                    best.number = number;
                    best.ticks = asked + half;
                    best.error = half;
                }
            } else if (w->rank == r) {
                MPI_Recv(NULL, 0, MPI_BYTE, 0, TAG_CLOCK, k->comm, MPI_STATUS_IGNORE);
                pto_trace_note(w->rt, &(pto_note){.kind = PTO_NOTE_ANSWERED,
                                                  .number = number,
                                                  .ticks = pto_trace_clock(w->rt)});
                MPI_Send(NULL, 0, MPI_BYTE, 0, TAG_CLOCK, k->comm);
            }
        }
        if (w->rank == 0) {
            pto_trace_note(w->rt, &best);
        }
    }
}

/* ---- Notes ------------------------------------------------------------------------------------------- */

/* Steps and messages of the second world of a runtime follow those of the first. */
static uint64_t numbered(const world *w, uint64_t number)
{
    return w->trace->worlds << 56 | number;
}

void trace_note_step(world *w)
{
    if (w->traced_step != w->history.step) {
        w->traced_step = w->history.step;
        pto_trace_note(w->rt,
                       &(pto_note){.kind = PTO_NOTE_STEP, .number = numbered(w, w->history.step)});
    }
}

void trace_note_message(world *w, bool sends, int other, uint64_t number, pto_task task)
{
    pto_trace_note(w->rt, &(pto_note){.kind = sends ? PTO_NOTE_SEND : PTO_NOTE_RECEIVE,
                                      .peer = (uint32_t)other,
                                      .number = numbered(w, number),
                                      .task = task});
}

/* ---- Life ---------------------------------------------------------------------------------------------- */

static trace_keeper *keeper_of(const world *w, MPI_Comm comm)
{
    static int key = MPI_KEYVAL_INVALID;
    trace_keeper **at = &keepers;
    for (; *at; at = &(*at)->next) {
        if ((*at)->rt == w->rt) {
            return *at;
        }
    }
    trace_keeper *k = calloc(1, sizeof *k);
    if (!k || MPI_Comm_dup(comm, &k->comm) != MPI_SUCCESS) {
        free(k);
        return NULL;
    }
    if (key == MPI_KEYVAL_INVALID) {
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_finalize, &key, NULL);
        MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    }
    k->rank = w->rank;
    k->ranks = w->ranks;
    *at = k;
    return k;
}

/* Whether two worlds of a runtime have the same ranks: else their traces have nothing in common. */
static bool has_same_ranks(const trace_keeper *k, MPI_Comm comm)
{
    int answer = MPI_UNEQUAL;
    return MPI_Comm_compare(k->comm, comm, &answer) == MPI_SUCCESS &&
           (answer == MPI_IDENT || answer == MPI_CONGRUENT);
}

pto_status trace_join(world *w)
{
    trace_keeper *k = keeper_of(w, w->control);
    if (!k) {
        return pto_fail(PTO_OUT_OF_MEMORY, "mpi_create: trace of all ranks");
    }
    if (k->apart || !has_same_ranks(k, w->control)) {
        k->apart = true;
        return PTO_OK;
    }
    if (!k->rt) {
        k->rt = w->rt;
        PTO_TRY(pto_set_trace_writer(w->rt, keep_trace, k));
        pto_trace_note(w->rt, &(pto_note){.kind = PTO_NOTE_RANK,
                                          .peer = (uint32_t)w->rank,
                                          .number = (uint64_t)w->ranks});
    }
    w->trace = k;
    w->traced_step = 0;
    k->worlds++;
    compare_clocks(w, k, 2 * k->worlds);
    return PTO_OK;
}

void trace_leave(world *w, bool broken)
{
    if (w->trace && broken) {
        w->trace->apart = true;
    } else if (w->trace) {
        compare_clocks(w, w->trace, 2 * w->trace->worlds + 1);
    }
}
