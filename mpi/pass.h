/* pass.h - tasks that are none of this rank's business. In a program on N ranks, nearly all are, and every
 * rank passes by all of them: this is what limits how far a program scales. So the parameters are looked
 * at just enough to know that no tile is ours, and what the task adds to the hash and to the versions.
 * Comes to the same as the plan would. A header, since the call would cost a tenth of it. */
#ifndef PTO_MPI_PASS_H
#define PTO_MPI_PASS_H

#include "plan.h"

enum { PASS_MOST = 8 }; /* parameters */

/* What matters of a parameter. */
typedef struct seen {
    int32_t home;
    uint64_t hash;
    uint64_t *version;
} seen;

/* Other matrices than the last one, and views that are no whole tile. */
static __attribute__((noinline)) bool pass_look_closer(world *w, const pto_tensor *t, seen *s)
{
    const object *o = !t || t->owner ? NULL : object_find(w, t);
    uint64_t tile;
    if (!o) {
        return false;
    }
    if (whole_tile(&o->whole, t, &tile)) {
        *s = (seen){o->home[tile], tile_hash(&o->whole, tile), &o->version[tile]};
        return true;
    }
    const memo *m = memo_find(w, t);
    if (m) {
        *s = (seen){m->home, m->hash, m->version};
    }
    return m;
}

/* A task that is none of our business, in tiles that are known: only its hash and versions count. Returns
 * false, and has done nothing, if it may be more than that. */
static inline bool pass_by(world *w, int rank, pto_kernel kernel, const pto_param *params, size_t n,
                           const char *file, int line, const bool inside)
{
    uint64_t *written[PASS_MOST];
    uint32_t n_written = 0;
    bool known = false;
    uint64_t hash = hash_call(w, kernel, rank);
    if (n > PASS_MOST ||
        (rank != PTO_MPI_OWNER && (rank == w->rank || rank >= w->ranks || rank < 0))) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        const pto_param *q = &params[i];
        uint64_t tile;
        seen s;
        if (q->kind == PTO_PARAM_SCALAR) {
            hash = hash_other(hash, q);
            continue;
        }
        if (!is_tensor(q)) {
            return false;
        }
        if (__builtin_expect(q->tensor && whole_tile(&w->whole, q->tensor, &tile), 1)) {
            s = (seen){w->whole.home[tile], tile_hash(&w->whole, tile), &w->whole.version[tile]};
            if (inside && (!w->whole.mark || !only_allows(w, w->whole.mark[tile], q))) {
                return false; /* refused, as submit_here will say */
            }
        } else if (inside) {
            return false;
        } else {
            seen found; /* `s` itself stays in registers */
            if (!pass_look_closer(w, q->tensor, &found)) {
                return false;
            }
            s = found;
        }
        if (s.home == w->rank) {
            return false;
        }
        hash = hash_param(hash, q, s.hash);
        known = true;
        written[n_written] = s.version;
        n_written += writes(q);
    }
    if (!known) {
        return false;
    }
    const uint64_t step = history_step(w, hash, file, line);
    w->stats.others++;
    for (uint32_t i = 0; i < n_written; i++) {
        *written[i] = step;
    }
    return true;
}

/* Inside of a range of pto_mpi_only: tiles must have been declared. */
static __attribute__((noinline)) bool pass_by_inside(world *w, int rank, pto_kernel kernel,
                                                     const pto_param *params, size_t n,
                                                     const char *file, int line)
{
    return rank == PTO_MPI_OWNER && (w->history.step & STEP_INSIDE) < STEP_INSIDE - 2 &&
           pass_by(w, rank, kernel, params, n, file, line, true);
}

#endif /* PTO_MPI_PASS_H */
