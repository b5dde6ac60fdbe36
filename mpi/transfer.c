/* transfer.c - whole views between distributed tensors and dense memory of one rank, or of all: read, gather,
 * scatter. */
#include "plan.h"

typedef struct transfer {
    const char *who;
    int root;  /* whose memory; -1: that of all ranks */
    bool home; /* from the memory into the tiles */
    void *memory;
    uint64_t bytes;
} transfer;

static pto_status check_memory(const transfer *x, const view *v)
{
    if (v->bytes && !x->memory) {
        return pto_fail(PTO_NULL_ARGUMENT,
                        "%s: the memory is NULL, and the tensor has %" PRIu64 " bytes", x->who,
                        v->bytes);
    }
    return x->bytes >= v->bytes
               ? PTO_OK
               : pto_fail(PTO_BUFFER_TOO_SMALL,
                          "%s: %" PRIu64 " bytes of memory, and the tensor has %" PRIu64, x->who,
                          x->bytes, v->bytes);
}

/* What all ranks find. */
static pto_status check_transfer(const world *w, const transfer *x, const view *v)
{
    if (x->root >= w->ranks || x->root < -1) {
        return pto_fail(PTO_BAD_PARAM, "%s: rank %d of %d", x->who, x->root, w->ranks);
    }
    if (!v->o) {
        return pto_fail(PTO_BAD_PARAM, "%s: the tensor is not distributed", x->who);
    }
    if (v->o->temp && v->o->home[0] < 0) {
        return pto_fail(PTO_NOT_WRITTEN, "%s: no task has written the temporary", x->who);
    }
    if (x->home && v->repeats) {
        return pto_fail(PTO_OVERLAP, "%s: two indices of the view are one element", x->who);
    }
    if (x->root < 0) {
        PTO_TRY(check_memory(x, v));
    }
    for (uint32_t k = 0; k < v->n; k++) {
        const uint64_t bytes = piece_bytes(&v->pieces[k]);
        if (bytes > MPI_MOST_BYTES) {
            return pto_fail(PTO_TOO_LARGE,
                            "%s: a message of %" PRIu64 " bytes (at most %" PRIu64
                            "): use smaller tiles",
                            x->who, bytes, MPI_MOST_BYTES);
        }
        if (v->o->twins && x->root >= 0 && padded(bytes) > w->scratch.bytes) {
            return pto_fail(PTO_TOO_LARGE,
                            "%s: %" PRIu64 " bytes of a tile on a device pass scratch memory, and "
                            "scratch_bytes is %" PRIu64 ": raise it, or use smaller tiles",
                            x->who, padded(bytes), w->scratch.bytes);
        }
    }
    return PTO_OK;
}

/* The messages of one piece. */
static pto_status transfer_piece(plan *p, const transfer *x, const view *v, const piece *q)
{
    const int home = piece_home(q);
    if (x->root >= 0) {
        p->place = x->root;
        return carry_piece(p, v, q, x->memory, x->home);
    }
    /* To all ranks, along a tree. The home sends from its tile, the others from what they received. */
    world *w = p->w;
    const int n = w->ranks, position = (w->rank - home + n) % n;
    const pto_tensor part = piece_part(v, q, x->memory);
    p->place = w->rank;
    if (position == 0) {
        PTO_TRY(carry_piece(p, v, q, x->memory, false));
    } else {
        PTO_TRY(message_receive(w, (home + tree_parent(position)) % n, &part, p->file, p->line));
    }
    const pto_tensor from = position == 0 && !q->o->twins ? piece_tensor(v, q) : part;
    for (int k = 0, child; (child = tree_child(position, n, k)) >= 0; k++) {
        PTO_TRY(message_send(w, (home + child) % n, &from, p->file, p->line));
    }
    return PTO_OK;
}

/* The runtime speaks of the memory, and the program of the tensor. */
static pto_status poisoned(const world *w, const char *who, const pto_tensor *t)
{
    char text[160];
    bool failed = false;
    pto_failure f;
    PTO_IGNORE(pto_get_failure(w->rt, &failed, &f));
    pto_tensor_format(t, text, sizeof text);
    return pto_fail(PTO_POISONED,
                    "%s: %s was to be written by a task that failed or was skipped%s%s", who, text,
                    failed ? "; the first failure of this rank: " : "", failed ? f.message : "");
}

/* Waits until the memory may be used. */
static pto_status wait_memory(plan *p, const transfer *x, const view *v)
{
    world *w = p->w;
    if ((x->root >= 0 && x->root != w->rank) || !v->n || w->counting) {
        return PTO_OK;
    }
    const pto_tensor all = {.storage = x->memory,
                            .storage_bytes = v->bytes,
                            .ndim = 1,
                            .dtype = PTO_UINT8,
                            .shape = {(int64_t)v->bytes},
                            .strides = {1}};
    /* A read to all ranks is sent on from this memory. */
    const pto_status status = x->home || x->root < 0
                                  ? pto_wait_unused_at(w->rt, &all, p->file, p->line)
                                  : pto_wait_tensor_at(w->rt, &all, p->file, p->line);
    if (status == PTO_POISONED && !x->home) {
        /* The memory is the program's own: it must not stay poisoned. */
        PTO_TRY(message_scrub(w, &all, p->file, p->line));
        PTO_TRY(world_check(w));
        return poisoned(w, x->who, v->t);
    }
    const pto_status broken = world_check(w);
    return broken == PTO_OK ? status : broken;
}

static pto_status transfer_all(world *w, const pto_tensor *t, const transfer *x, uint64_t hash,
                               const char *file, int line)
{
    plan *p = plan_of(w, file, line);
    if (!p) {
        return world_break(w, PTO_OUT_OF_MEMORY, "%s: no memory", x->who);
    }
    p->n = 0;
    view *v = &p->views[0];
    pto_status status = view_resolve(w, x->who, t, &p->first[0], v);
    hash = hash_mix(hash, (uint64_t)x->root + 1);
    if (x->root < 0) { /* all ranks have memory for it, or none; where it is, is their own affair */
        hash = hash_mix(hash, x->memory ? x->bytes : 0);
    }
    if (t) {
        hash = hash_mix(hash, view_hash(v->o, t));
    }
    history_step(w, hash, file, line);
    trace_step(w);
    if (status == PTO_OK) {
        status = check_transfer(w, x, v);
    }
    if (status != PTO_OK) {
        status = world_refused(w, status);
    } else {
        /* What only the root finds: the others have begun to send. */
        const bool root = x->root == w->rank && !w->counting;
        status = root ? check_memory(x, v) : PTO_OK;
        for (uint32_t k = 0; k < v->n && status == PTO_OK; k++) {
            status = transfer_piece(p, x, v, &v->pieces[k]);
            if (x->home) {
                v->o->version[v->pieces[k].tile] = w->history.step;
            }
        }
        status = submit_finish(w, status, x->who, file, line);
        if (status == PTO_OK) {
            status = wait_memory(p, x, v);
        }
    }
    view_free(v, &p->first[0]);
    return status;
}

pto_status pto_mpi_read_at(pto_runtime *rt, const pto_tensor *t, void *to, uint64_t bytes,
                           const char *file, int line)
{
    world *w = world_of(rt);
    if (!w) {
        return pto_fail(PTO_NULL_ARGUMENT, "mpi_read: the runtime is in no world");
    }
    PTO_TRY(world_enter(w, "mpi_read", file, line));
    PTO_TRY(only_refuses(w, "mpi_read"));
    if (t && !object_find(w, t) && (t->owner || !zone_has(t->storage))) {
        history_step(w, 31, file, line);
        return pto_read_at(rt, t, to, bytes, file, line);
    }
    if (w->counting) {
        return world_refuse(w, PTO_BAD_CONFIG,
                            "mpi_read: there is no data while ranks are counted");
    }
    const transfer x = {"mpi_read", -1, false, to, bytes};
    return transfer_all(w, t, &x, 32, file, line);
}

pto_status pto_mpi_gather_at(pto_runtime *rt, const pto_tensor *t, int root, void *to,
                             uint64_t bytes, const char *file, int line)
{
    world *w = world_of(rt);
    if (!w) {
        return pto_fail(PTO_NULL_ARGUMENT, "mpi_gather: the runtime is in no world");
    }
    PTO_TRY(world_enter(w, "mpi_gather", file, line));
    PTO_TRY(only_refuses(w, "mpi_gather"));
    const transfer x = {"mpi_gather", root < 0 ? w->ranks : root, false, to, bytes};
    return transfer_all(w, t, &x, 33, file, line);
}

pto_status pto_mpi_scatter_at(pto_runtime *rt, const pto_tensor *t, int root, const void *from,
                              uint64_t bytes, const char *file, int line)
{
    world *w = world_of(rt);
    if (!w) {
        return pto_fail(PTO_NULL_ARGUMENT, "mpi_scatter: the runtime is in no world");
    }
    PTO_TRY(world_enter(w, "mpi_scatter", file, line));
    PTO_TRY(only_refuses(w, "mpi_scatter"));
    const transfer x = {"mpi_scatter", root < 0 ? w->ranks : root, true, (void *)(uintptr_t)from,
                        bytes};
    return transfer_all(w, t, &x, 34, file, line);
}
