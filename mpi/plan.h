/* plan.h - a task on its way through plan.c, scratch.c, carry.c and submit.c.
 *
 * A task whose place is rank x, parameter by parameter:
 *
 *     in one tile, of x             the task works on the memory of the tile
 *     in one tile, of h, read       h sends the piece into its share of x's cache, unless it is there
 *     any other                     a dense copy in scratch memory of x: pieces are received or copied before
 *                                   the task, sent home or copied after it
 *
 * All ranks that own a piece compute the same plan, and each carries out its part, in the same order:
 * cached inputs, copied inputs, the task, outputs. Owned by the orchestrating thread.
 */
#ifndef PTO_MPI_PLAN_H
#define PTO_MPI_PLAN_H

#include "world.h"

/* How a parameter gets to the kernel. */
typedef enum way { WAY_PLAIN, WAY_EMPTY, WAY_LOCAL, WAY_CACHED, WAY_COPIED } way;

typedef struct plan plan;
struct plan {
    world *w;
    const pto_param *params;
    uint32_t n;
    int place;
    bool mine; /* this rank runs it, or owns a part of it */
    way ways[MPI_MOST_PARAMS];
    uint32_t ways_taken; /* a bit for each way that a parameter takes */
    view views[MPI_MOST_PARAMS];
    piece first[MPI_MOST_PARAMS];
    uint64_t scratch_at[MPI_MOST_PARAMS]; /* in the block of the task */
    uint64_t scratch_bytes;
    const char *file;
    int line;
};

static inline bool is_tensor(const pto_param *p)
{
    return p->kind >= PTO_PARAM_INPUT && p->kind <= PTO_PARAM_INOUT;
}

static inline bool reads(const pto_param *p)
{
    return p->kind == PTO_PARAM_INPUT || p->kind == PTO_PARAM_INOUT;
}

static inline bool writes(const pto_param *p)
{
    return p->kind == PTO_PARAM_OUTPUT || p->kind == PTO_PARAM_INOUT;
}

/* Home of a piece when the task runs: a new temporary belongs to the place. */
static inline int home_in(const plan *p, const piece *q)
{
    const int home = piece_home(q);
    return home < 0 ? p->place : home;
}

/* Once the place is known: temporaries that the task makes are there, too. */
static inline way find_way(const plan *p, uint32_t i)
{
    const view *v = &p->views[i];
    if (!is_tensor(&p->params[i]) || !v->o) {
        return WAY_PLAIN;
    }
    if (!v->n) {
        return WAY_EMPTY;
    }
    if (v->n == 1 && home_in(p, v->pieces) == p->place) {
        return WAY_LOCAL;
    }
    return v->n == 1 && p->params[i].kind == PTO_PARAM_INPUT ? WAY_CACHED : WAY_COPIED;
}

static inline way way_of(const plan *p, uint32_t i)
{
    return p->ways[i];
}

static inline uint64_t padded(uint64_t bytes)
{
    return (bytes + MPI_ALIGN - 1) / MPI_ALIGN * MPI_ALIGN;
}

/* Hashes of the parameters of a call are mixed once, at its end (history_step): a polynomial tells two
 * lists apart as well, and is cheaper. */
static inline uint64_t hash_next(uint64_t h, uint64_t value)
{
    return h * UINT64_C(0x9E3779B97F4A7C15) + value;
}

static inline uint64_t hash_param(uint64_t h, const pto_param *p, uint64_t tensor)
{
    return hash_next(h, tensor ^ (uint64_t)p->kind << 60);
}

/* Handles of tasks differ from rank to rank. */
static inline uint64_t hash_other(uint64_t h, const pto_param *p)
{
    return p->kind == PTO_PARAM_SCALAR
               ? hash_next(hash_next(h, (uint64_t)p->kind | (uint64_t)p->dtype << 8), p->u64)
               : hash_next(h, (uint64_t)p->kind);
}

/* submit.c. Of a kernel that is not remembered. */
uint64_t hash_kernel(world *w, pto_kernel kernel);

static inline uint64_t hash_call(world *w, pto_kernel kernel, int rank)
{
    const kernel_known *k = &w->kernels[kernel & (MPI_KERNELS - 1)];
    const uint64_t hash = __builtin_expect(k->kernel == kernel, 1) ? k->hash
                                                                   : hash_kernel(w, kernel);
    return hash ^ (uint64_t)(rank + 1);
}

/* Whether a tile with this mark may be used by a parameter in the open range. */
static inline bool only_allows(const world *w, uint32_t mark, const pto_param *p)
{
    return mark >> 1 == w->only.serial && (mark & 1 || !writes(p));
}

/* only.c. Whether a task may be submitted inside of the open range. */
pto_status only_check(const plan *p, int rank, uint32_t distributed);

/* The tiles that a view touches; n is 0 if it has no elements. And whether one of them belongs to a rank. */
pto_status box_of(world *w, const char *who, const pto_tensor *t, tile_box *b, uint32_t *n);
bool box_has(const tile_box *b, int rank);

/* tree.c. Positions in a tree of n: the parent of all but 0, and the k-th child, or -1. */
int tree_parent(int position);
int tree_child(int position, int n, int k);

/* plan.c. Calls do not nest, so one plan is enough. NULL: no memory. */
plan *plan_of(world *w, const char *file, int line);
/* Resolves the parameters and hashes them. */
pto_status plan_resolve(plan *p, uint64_t *hash, uint32_t *distributed);
/* Refuses parameters that no rank could carry out. */
pto_status plan_check_kinds(const plan *p);
/* M2. */
int plan_place(const plan *p);
/* Whether this rank runs the task, or owns a piece of it. */
bool plan_concerns_us(const plan *p);
/* Whether a parameter is a temporary that no task has written; and whether the task makes one. */
static inline bool plan_is_fresh(const plan *p, uint32_t i)
{
    const view *v = &p->views[i];
    return is_tensor(&p->params[i]) && v->o && v->o->temp && v->o->home[0] < 0;
}
bool plan_makes_temp(const plan *p);
/* Kernel, sizes and overlaps: the same answer on all ranks. */
pto_status plan_check(plan *p, pto_kernel kernel, pto_worker_type type);
/* The tiles that a task writes have a new version, wherever it runs, and even if it was refused. */
void plan_commit(plan *p, bool refused);

/* scratch.c. Takes the block of a task from the ring; or one of so many bytes, all of which one task writes. The
 * runtime waits for its last users, by the memory. */
pto_status scratch_take(plan *p, char **memory);
pto_status scratch_take_bytes(plan *p, uint64_t bytes, char **memory);

/* stage.c. A piece in the share of rank `home`, received from rank `from` unless that is negative: *host is where
 * it is received, and *arg where a task reads it. */
pto_status stage_receive(plan *p, int home, int from, const view *v, const piece *q,
                         const share_find *f, pto_tensor *host, pto_tensor *arg);
/* An own piece that goes into the share which rank `to` has of ours. *from: what is to be sent. */
pto_status stage_send(plan *p, int to, const view *v, const piece *q, const share_find *f,
                      pto_tensor *from);
/* Another piece that goes into it, and is sent from elsewhere: heals what it drops. */
pto_status stage_heal_sent(plan *p, int to, const share_find *f);
/* Where a task finds what is in scratch memory: on the device, if the object lies there. */
pto_status stage_scratch(plan *p, const object *o, const pto_tensor *host, pto_tensor *there);
/* A message from a tile, or (home) to it. */
pto_status stage_tile(plan *p, const view *v, const piece *q, int other, bool home);
/* Makes bytes of scratch memory good again that failed users have left. */
pto_status stage_heal_scratch(plan *p, const share_left *left);
/* A copy between a device and a staging buffer. */
pto_status stage_copy(plan *p, const pto_tensor *to, const pto_tensor *from);

/* carry.c. Submits this rank's part of a plan: messages, copies, the task. */
pto_status carry_out(plan *p, pto_kernel kernel, pto_worker_type type);
/* One piece between its tile and a part of the copy at the place of the task. */
pto_status carry_piece(plan *p, const view *v, const piece *q, char *copy, bool home);

#endif /* PTO_MPI_PLAN_H */
