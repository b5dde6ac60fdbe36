/* stage.c - distributed tensors in memory of a device. MPI sees memory of the host only, so whatever comes or goes lies
 * in a staging buffer of the host, and a copy task moves it.
 *
 *     cache      a task on a device reads the pieces of other ranks in a twin of the share: as large, on that
 *                device, and a piece has the same place in both
 *
 *                owner   tile -copy-> its share -MPI_Isend->  MPI_Irecv-> the reader's share -copy-> twin   reader
 *
 *                The owner computes the places in the share, too (M5), so it stages there what it sends
 *     scratch    a dense copy of a view is in a twin of the scratch memory; what is exchanged with other ranks
 *                passes the same place of the host's. The owner of a tile takes a block of its own ring
 *
 * So staging needs no memory with rules of its own. Copies are tasks of the step of their message, and come with it in
 * the order of the plan (M4). They wait for the last users of the bytes, which are earlier in that order, so the proof
 * of docs/mpi.md holds. A failure goes through them as through any task.
 *
 * Poison. Each memory keeps what failed tasks have left until a good write covers it. The bytes of a dropped piece
 * lie in one memory or both, so all that exist are healed. Where nothing is healed, the new piece covers the old
 * one: then what is left in a memory that it does not use lies within the piece, and goes with it.
 */
#include <pto/device.h>

#include "plan.h"

static bool same_device(pto_device a, pto_device b)
{
    return a.type == b.type && a.index == b.index;
}

/* What message_scrub runs on a device: it has nothing to do there either. */
static pto_status scrub_variant(const pto_call *call)
{
    (void)call;
    return PTO_OK;
}

pto_status stage_open(world *w, pto_device device, twins **found)
{
    pto_device_ops ops;
    bool known = false; /* the type */
    *found = NULL;
    if (device.type == PTO_DEVICE_CPU) {
        return PTO_OK;
    }
    for (int i = 0; i < w->n_twins; i++) {
        known = known || w->twins[i].device.type == device.type;
        if (same_device(w->twins[i].device, device)) {
            *found = &w->twins[i];
            return PTO_OK;
        }
    }
    twins *t = &w->twins[w->n_twins];
    if (w->n_twins == MPI_DEVICES) {
        return pto_fail(PTO_FULL, "mpi: %s:%d after %d other devices", pto_device_name(device.type),
                        (int)device.index, MPI_DEVICES);
    }
    if (!w->counting) {
        PTO_TRY(pto_device_get(device, &ops));
        PTO_TRY(known ? PTO_OK
                      : pto_kernel_variant(w->rt, w->scrub, device.type, scrub_variant, w));
    }
    *t = (twins){.device = device, .in = calloc((size_t)w->ranks, sizeof *t->in)};
    if (!t->in) {
        return pto_fail(PTO_OUT_OF_MEMORY, "mpi: list of memory on a device");
    }
    w->n_twins++;
    *found = t;
    return PTO_OK;
}

void stage_close(world *w)
{
    for (int i = 0; i < w->n_twins; i++) {
        twins *t = &w->twins[i];
        for (int rank = 0; rank < w->ranks && !w->counting; rank++) {
            PTO_IGNORE(pto_tensor_free(&t->in[rank]));
        }
        PTO_IGNORE(w->counting ? PTO_OK : pto_tensor_free(&t->scratch));
        free(t->in);
    }
}

/* Memory on a device, as large as some of the host. A rank that is only counted has addresses of the host. */
static pto_status make_twin(const world *w, const twins *t, const char *memory, uint64_t bytes,
                            pto_tensor *twin)
{
    if (twin->storage) {
        return PTO_OK;
    }
    if (w->counting) {
        twin->storage = (void *)(uintptr_t)memory;
        return PTO_OK;
    }
    return pto_tensor_empty(t->device, PTO_UINT8, 1, (int64_t[]){(int64_t)bytes}, twin);
}

/* A tensor in memory of the host that begins at `memory`, in its twin. */
static pto_tensor in_twin(const twins *t, const pto_tensor *host, const char *memory,
                          const pto_tensor *twin)
{
    pto_tensor there = *host;
    there.storage = (char *)twin->storage + ((char *)host->storage - memory);
    there.device = t->device;
    return there;
}

pto_status stage_copy(plan *p, const pto_tensor *to, const pto_tensor *from)
{
    p->w->stats.staged++;
    return p->w->counting ? PTO_OK : pto_copy_at(p->w->rt, to, from, p->file, p->line);
}

/* ---- The cache ----------------------------------------------------------------------------------------- */

static pto_status heal(plan *p, const share_left *left, char *memory, pto_device device)
{
    if (left->low == left->high || !memory) {
        return PTO_OK;
    }
    const pto_tensor bytes = {.storage = memory + left->low,
                              .storage_bytes = left->high - left->low,
                              .ndim = 1,
                              .dtype = PTO_UINT8,
                              .device = device,
                              .shape = {(int64_t)(left->high - left->low)},
                              .strides = {1}};
    return message_scrub(p->w, &bytes, p->file, p->line);
}

/* Heals what pieces have left that made room for a new one. */
static pto_status heal_both(plan *p, const share_find *f, char *memory, pto_device device)
{
    PTO_TRY(heal(p, &f->here, memory, device));
    return heal(p, &f->behind, memory, device);
}

pto_status stage_receive(plan *p, int home, int from, const view *v, const piece *q,
                         const share_find *f, pto_tensor *host, pto_tensor *arg)
{
    world *w = p->w;
    share *s = &w->peers[home].in;
    twins *t = q->o->twins;
    if (!s->memory && !(s->memory = world_reserve(s->bytes))) {
        return pto_fail(PTO_OUT_OF_MEMORY, "mpi: %" PRIu64 " bytes of cache", s->bytes);
    }
    *host = *arg = piece_dense(v, q, s->memory + f->at);
    if (t) {
        PTO_TRY(make_twin(w, t, s->memory, s->bytes, &t->in[home]));
        *arg = in_twin(t, host, s->memory, &t->in[home]);
    }
    if (from < 0) {
        return PTO_OK;
    }
    PTO_TRY(heal_both(p, f, s->memory, (pto_device){0}));
    for (int i = 0; i < w->n_twins; i++) {
        PTO_TRY(heal_both(p, f, w->twins[i].in[home].storage, w->twins[i].device));
    }
    PTO_TRY(message_receive(w, from, host, p->file, p->line));
    return t ? stage_copy(p, arg, host) : PTO_OK;
}

pto_status stage_heal_sent(plan *p, int to, const share_find *f)
{
    return heal_both(p, f, p->w->peers[to].out.memory, (pto_device){0});
}

pto_status stage_send(plan *p, int to, const view *v, const piece *q, const share_find *f,
                      pto_tensor *from)
{
    share *s = &p->w->peers[to].out;
    *from = piece_tensor(v, q);
    PTO_TRY(stage_heal_sent(p, to, f));
    if (!q->o->twins) {
        return PTO_OK;
    }
    if (!s->memory && !(s->memory = world_reserve(s->bytes))) {
        return pto_fail(PTO_OUT_OF_MEMORY, "mpi: %" PRIu64 " bytes to stage", s->bytes);
    }
    const pto_tensor tile = *from;
    *from = piece_dense(v, q, s->memory + f->at);
    return stage_copy(p, from, &tile);
}

/* ---- Scratch memory -------------------------------------------------------------------------------------- */

pto_status stage_heal_scratch(plan *p, const share_left *left)
{
    world *w = p->w;
    PTO_TRY(heal(p, left, w->scratch.memory, (pto_device){0}));
    for (int i = 0; i < w->n_twins; i++) {
        PTO_TRY(heal(p, left, w->twins[i].scratch.storage, w->twins[i].device));
    }
    return PTO_OK;
}

pto_status stage_scratch(plan *p, const object *o, const pto_tensor *host, pto_tensor *there)
{
    world *w = p->w;
    scratch *s = &w->scratch;
    twins *t = o->twins;
    *there = *host;
    /* Memory of the program, in a gather or a read, has no twin. */
    if (!t || !s->memory || (uintptr_t)host->storage - (uintptr_t)s->memory >= s->bytes) {
        return PTO_OK;
    }
    PTO_TRY(make_twin(w, t, s->memory, s->bytes, &t->scratch));
    *there = in_twin(t, host, s->memory, &t->scratch);
    return PTO_OK;
}

pto_status stage_tile(plan *p, const view *v, const piece *q, int other, bool home)
{
    world *w = p->w;
    char *memory;
    const pto_tensor tile = piece_tensor(v, q);
    if (!q->o->twins) {
        return home ? message_receive(w, other, &tile, p->file, p->line)
                    : message_send(w, other, &tile, p->file, p->line);
    }
    PTO_TRY(scratch_take_bytes(p, piece_bytes(q), &memory));
    const pto_tensor buffer = piece_dense(v, q, memory);
    if (home) {
        PTO_TRY(message_receive(w, other, &buffer, p->file, p->line));
        return stage_copy(p, &tile, &buffer);
    }
    PTO_TRY(stage_copy(p, &buffer, &tile));
    return message_send(w, other, &buffer, p->file, p->line);
}
